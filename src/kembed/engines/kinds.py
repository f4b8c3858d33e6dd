"""What users give for rows: whether they are in memory, or are read block by block; nothing is opened yet.

Apart from what opens them, so that a test of rows in memory loads none of that.
"""

import os
from typing import Any

import numpy as np

from kembed.data.columns import Labelled
from kembed.engines.source import Source

SUFFIXES = (
    *(".csv", ".tsv", ".tab", ".txt", ".gz", ".parquet", ".pq", ".feather", ".arrow", ".ipc"),
    *(".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".xlsb", ".ods"),
)


def is_large_source(value: Any) -> bool:
    """Whether a value is rows to be read block by block, and no array or data frame.

    That is a path, a pattern, a list of paths, a lazy frame, a Dask collection, a memmap, a dataset of
    pyarrow, or a `Source` that was opened already.
    Words alone are a column of text: a list of them is one of paths if each has the suffix of a file.

    >>> [is_large_source(value) for value in ("a.csv", ["a.parquet", "b.parquet"], ["a", "b"], [1.0, 2.0])]
    [True, True, False, False]
    """
    if isinstance(value, Labelled):
        value = value.value
    if is_dask(value) or isinstance(value, str | os.PathLike | np.memmap | Source):
        return True
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_file, value))
    return is_lazy(value) or is_dataset(value)


def is_dask(value: Any) -> bool:
    """Whether it is a collection of Dask; some objects have the method and no graph."""
    return hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None


def _is_file(value: Any) -> bool:
    return isinstance(value, os.PathLike) or (isinstance(value, str) and value.lower().endswith(SUFFIXES))


def is_lazy(value: Any) -> bool:
    """Whether it is a lazy frame of polars, which is not imported to find out."""
    return type(value).__name__ == "LazyFrame" and type(value).__module__.startswith("polars")


def is_dataset(value: Any) -> bool:
    """Whether it is a dataset of pyarrow, which is not imported to find out."""
    return type(value).__module__.startswith("pyarrow") and hasattr(value, "get_fragments")

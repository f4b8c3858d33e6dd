"""The door of the engines: what users give for rows that are not in memory, as parts."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.text import counted
from kembed.data.columns import Column, Labelled, Sample, read_sample
from kembed.data.delimited import named
from kembed.data.files import MISSING, InputError, file_kind, label, missing_file, read_table, unreadable
from kembed.data.tables import matched
from kembed.engines.batches import Engine, Here
from kembed.engines.keeping import keeping
from kembed.engines.kinds import is_dask, is_dataset, is_large_source, is_lazy
from kembed.engines.lines import BYTES, TextRules, text_parts
from kembed.engines.parts import (
    ROWS,
    Numbers,
    Part,
    Scan,
    Slice,
    Stream,
    cut,
    mapped,
    of_dataset,
    of_lazy,
    scan,
)
from kembed.engines.scheduling import current_engine

if TYPE_CHECKING:
    import polars as pl

PATTERN = "*?["  # what makes a name a pattern


class Opened(NamedTuple):
    """A sample before it is read: its parts, its columns, and where it is read."""

    label: str
    parts: list[Any]
    names: tuple[str, ...]
    framed: bool  # whether columns go by name
    first: int  # the number of the first row in errors
    engine: Engine


def open_value(value: Any, argument: str, engine: Engine | None, rules: TextRules, rows: int) -> Opened:
    """One sample, whatever it is; nothing is read but what tells the columns and how many rows there are."""
    first, given = 0, argument
    if isinstance(value, Labelled):
        value, given, first = value.value, value.label, 1
    if is_dask(value):
        from kembed.engines.dask import dask_parts, engine_of

        names, parts, framed = dask_parts(value, given, rows)
        return Opened(given, parts, names, framed, first, engine_of(engine))
    engine = keeping(engine or current_engine())
    if is_large_source(value) and not isinstance(value, np.memmap):
        if is_lazy(value):
            names, start = tuple(value.collect_schema().names()), of_lazy(value, rows)
            return Opened(given, [Stream(given, names, 1, start, rows)], names, True, first, Here())
        if is_dataset(value):
            names, start = tuple(value.schema.names), of_dataset(value, rows)
            return Opened(given, [Stream(given, names, 1, start, rows)], names, True, first, Here())
        name, paths = _paths(value, argument)
        name = name if given == argument else given
        file_parts = _of_files(paths, name, rules, rows)
        travel = all(part.travels for part in file_parts)
        return Opened(name, file_parts, file_parts[0].names, True, 1, engine if travel else Here())
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "read_next_batch"):
        raise TypeError(f"{given} can be read only once; give the files, a dataset or a table it comes from")
    local, framed = _in_memory(value, given, rows)
    travels = all(part.travels for part in local)
    return Opened(given, local, local[0].names, framed, first, engine if travels else Here())


def _in_memory(value: Any, argument: str, rows: int) -> tuple[list[Part], bool]:
    """What is in memory, or mapped into it; and whether its columns go by name."""
    import polars as pl

    if isinstance(value, np.ndarray) and value.ndim in (1, 2) and value.dtype.kind in "biuf":
        names = tuple(f"column {d}" for d in range(1 if value.ndim == 1 else value.shape[1]))
        checks.shape((len(value), len(names)), argument)
        checks.size(len(value), 1, argument)
        if isinstance(value, np.memmap):
            return mapped(value, argument, names, rows), False
        blocks: list[Part] = [
            Numbers(argument, names, number, value[at : at + size], size)
            for number, (at, size) in enumerate(cut(len(value), rows), start=1)
        ]
        return blocks, False
    sample = read_sample(value, argument)
    checks.size(sample.size, 1, argument)
    columns = {
        name: _series(column, argument) for name, column in zip(sample.names, sample.columns, strict=True)
    }
    counts = tuple(column.counts for column in sample.columns)
    return _slices(argument, pl.DataFrame(columns), rows, counts), sample.framed


def _slices(name: str, frame: pl.DataFrame, rows: int, counts: tuple[str, ...] = ()) -> list[Part]:
    """The blocks of a table in memory; `counts` says what plain numbers count, where that is known."""
    counts = counts or ("",) * frame.width
    return [
        Slice(name, tuple(frame.columns), number, frame.slice(at, size), counts)
        for number, (at, size) in enumerate(cut(frame.height, rows), start=1)
    ]


def _series(column: Column, argument: str) -> Any:
    import polars as pl

    if not column.categorical:
        return pl.Series(np.where(column.missing, np.nan, column.entries.astype(float)))
    entries = [None if gap else entry for entry, gap in zip(column.entries, column.missing, strict=True)]
    if not all(entry is None or isinstance(entry, str) for entry in entries):
        raise TypeError(
            f"{argument} has categories that are no text; make them text to compare them with files"
        )
    return pl.Series(entries, dtype=pl.Categorical if column.declared else pl.String)


def _paths(value: Any, argument: str) -> tuple[str, list[str]]:
    """The files that were meant, in order, and what to call them together."""
    if isinstance(value, list | tuple):
        found = [path for one in value for path in _paths(one, argument)[1]]
        return (label(found[0]) if len(found) == 1 else f"{argument} ({counted(len(found), 'file')})"), found
    text = os.fspath(value)
    path = Path(text)
    if path.is_dir():  # as Dask and Spark write tables
        inside = sorted(str(one) for one in path.iterdir() if one.suffix in (".parquet", ".pq"))
        found = [one for one in inside if not Path(one).name.startswith(("_", "."))]
        if not found:
            raise InputError(f"{label(text)} is a folder; give a file in it, or a pattern")
        return label(text), found
    if path.exists() or not any(sign in text for sign in PATTERN):
        return label(text), [text]
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise InputError(f"no file is called {label(text)}; check the pattern and the folder")
    return label(text), found


def _of_files(paths: Sequence[str], name: str, rules: TextRules, rows: int) -> list[Part]:
    """The parts of files, in order; all have the same columns."""
    each = {path: _of_file(path, rules, rows) for path in dict.fromkeys(paths)}
    first = each[paths[0]][0]
    for path in paths[1:]:
        names = each[path][0]
        pair = [
            Sample(
                label(file), columns, [Column(np.zeros(1), np.zeros(1, bool), False)] * len(columns), True, 1
            )
            for file, columns in ((paths[0], first), (path, names))
        ]
        matched(pair)
    parts = [part for path in paths for part in each[path][1]]
    if not parts:
        raise InputError(f"{name} has column names but no rows; check how it was written")
    return parts


def _of_file(path: str, rules: TextRules, rows: int) -> tuple[tuple[str, ...], list[Part]]:
    """The columns and the parts of one file."""
    import polars as pl

    kind = file_kind(path)
    if Path(path).exists() and not Path(path).is_file():
        seen = f"{label(path)} is a pipe or a device, and blocks of rows are read more than once"
        raise InputError(f"{seen}; write it to a file first")
    if kind == "text":
        return text_parts(path, rules, BYTES * rows // ROWS)
    if not Path(path).exists():
        raise missing_file(Path(path))
    if kind == "other":
        frame = read_table(path, missing=rules.missing)
        return tuple(frame.columns), _slices(label(path), frame, rows)
    try:
        lazy = scan(path, kind)
        written = tuple(lazy.collect_schema().names())
        size = int(lazy.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError, ValueError):
        raise unreadable(label(path), kind) from None
    if not written:
        raise InputError(f"{label(path)} has no columns; give a table with at least one")
    names, missing = tuple(named(list(written), label(path))), (*MISSING, *rules.missing)
    return names, [
        Scan(label(path), names, number, path, kind, first, length, missing, written)
        for number, (first, length) in enumerate(cut(size, rows), start=1)
    ]

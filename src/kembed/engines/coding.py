"""Blocks as numbers: numbers stay numbers, text becomes the places of its levels, what is missing is nan.

This is the one place where the engines meet the rules of the door (`data/columns`, `data/files`): what a
typed column means, and what a column of text means whose different values are known.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.data.clocks import ZONED
from kembed.data.columns import Column, read_sample
from kembed.data.delimited import typed
from kembed.data.files import InputError
from kembed.data.numerals import read_words
from kembed.engines.parts import Part, changed

if TYPE_CHECKING:
    import polars as pl

    from kembed.engines.parts import Raw


class Meaning(NamedTuple):
    """What a column of one sample holds: numbers, or words that stand for codes or numbers."""

    name: str  # in this sample
    words: tuple[str, ...] | None = None  # the different words, sorted; None where blocks are cast to numbers
    values: tuple[float, ...] = ()  # the number that each word stands for
    groups: int = 0  # in place of words, so many groups by a hash


def numbers_of_words(
    words: Iterable[str], comma: str, where: str, *, text: bool = False
) -> tuple[dict[str, float] | None, str, str]:
    """The numbers that the words of a column stand for, None where they are words; and what to say of it.

    The last is what the numbers count, as `Column.counts`.

    `comma` is what a comma in a number means, as for `read_words`. Where the format knows numbers, and this
    is `text` all the same, plain ones are told as well: they may be codes.

    >>> numbers_of_words(["true", "False"], "", "a"), numbers_of_words(["red"], "", "a")
    (({'False': 0.0, 'true': 1.0}, '', ''), (None, '', ''))
    """
    import polars as pl

    listed = sorted(words)
    series = typed(pl.Series(listed, dtype=pl.String), (), comma == "decimal")
    if series.dtype != pl.String:
        note = read_words(listed, comma).note if text and series.dtype != pl.Boolean else ""
        told = f"{where} is text {note}; write it as categories if they are codes" if note else ""
        return dict(zip(listed, series.cast(pl.Float64).to_list(), strict=True)), told, ""
    found = read_words(listed, comma)
    if found.doubt:
        raise InputError(f"{where} looks like numbers, but {found.doubt}; {found.remedy}")
    told = f"is text {found.note}" if found.numbers and not found.clock else found.note
    counts = found.unit + (ZONED if found.clock == "zoned" else "")
    return found.numbers, f"{where} {told}" if found.note else "", counts


def is_text(dtype: pl.DataType) -> bool:
    """Whether a column holds text."""
    import polars as pl

    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


def plain_numbers(series: pl.Series, comma: bool) -> Float[np.ndarray, " b"] | None:
    """Text that is numbers throughout, as numbers; None where it is not."""
    import polars as pl

    numbers = typed(series, (), True) if comma else series.cast(pl.Float64, strict=False)
    if numbers.dtype in (pl.String, pl.Boolean) or numbers.null_count() != series.null_count():
        return None
    return floats(numbers)


def floats(series: pl.Series) -> Float[np.ndarray, " b"]:
    """A column of numbers or truth values, nan for nulls."""
    import polars as pl

    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def typed_column(series: pl.Series, file: str) -> Column:
    """A column that is neither text nor plain numbers, as the door reads it."""
    try:
        (column,) = read_sample(series.to_frame(), file).columns
    except TypeError as error:
        raise InputError(str(error)) from None
    return column


def coded(raw: Raw, part: Part, meanings: tuple[Meaning, ...]) -> Float[np.ndarray, "b D"]:
    """A block as the numbers that all blocks of all samples share."""
    if isinstance(raw, np.ndarray):
        places = [part.names.index(meaning.name) for meaning in meanings]
        table = as_table(raw)
        return np.ascontiguousarray(table if len(places) == table.shape[1] else table[:, places], dtype=float)
    values = np.empty((raw.height, len(meanings)))
    for d, meaning in enumerate(meanings):
        values[:, d] = _coded_column(raw[meaning.name], part, meaning)
    return values


def as_table(values: np.ndarray) -> np.ndarray:
    """A vector is one column."""
    return values[:, None] if values.ndim == 1 else values


def _coded_column(series: pl.Series, part: Part, meaning: Meaning) -> np.ndarray:
    import polars as pl

    if meaning.groups:
        return grouped(as_text(series, part.file), meaning.groups)
    if meaning.words is not None:
        text = as_text(series, part.file)
        places = text.cast(pl.Enum(list(meaning.words)), strict=False).to_physical().cast(pl.Float64)
        if places.null_count() != text.null_count():
            raise changed(part)
        if meaning.values:
            table = np.array([*meaning.values, np.nan])
            return table[places.fill_null(len(meaning.words)).cast(pl.Int64).to_numpy()]
        return floats(places)
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return floats(series)
    if is_text(series.dtype):
        numbers = plain_numbers(series, part.comma)
        if numbers is None:
            raise changed(part)
        return numbers
    column: Any = typed_column(series, part.file)
    return np.where(column.missing, np.nan, column.entries.astype(float))


def grouped(text: pl.Series, groups: int) -> Float[np.ndarray, " b"]:
    """The group of every word by a checksum of its letters, the same on every machine; nan for nulls.

    >>> import polars as pl
    >>> grouped(pl.Series(["a", None, "b", "a"]), 10).tolist()
    [7.0, nan, 1.0, 7.0]
    """
    import polars as pl

    words = text.drop_nulls().unique().to_list()
    table = np.array([*(zlib.crc32(word.encode()) % groups for word in words), np.nan])
    places = text.cast(pl.Enum(words)).to_physical().fill_null(len(words))
    return table[places.cast(pl.Int64).to_numpy()]


def as_text(series: pl.Series, file: str) -> pl.Series:
    """A column of text or categories as text."""
    import polars as pl

    if is_text(series.dtype) or series.dtype == pl.Null:
        return series.cast(pl.String)
    column = typed_column(series, file)
    entries = [None if gap else str(entry) for entry, gap in zip(*column[:2], strict=True)]
    return pl.Series(series.name, entries, dtype=pl.String)

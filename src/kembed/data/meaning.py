"""What columns of text mean: read once for all samples together, so that none is read in a way of its own.

The same rule holds for files, data frames and arrays: text that reads as numbers or times is numbers, what
looks like numbers and does not read as such is refused, all other text is categories. Declared categories
stay what they are: codes that are written in digits must be declared, wherever they come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.data import clocks
from kembed.data.columns import Column, Sample, title
from kembed.data.delimited import nameless
from kembed.data.numerals import Reading, read_words

if TYPE_CHECKING:
    import polars as pl

# What to do with text that is to be compared as it stands, at either door.
_KEEP = "make it categories, as by astype('category')"


def understood(parts: list[Sample]) -> tuple[list[Sample], tuple[str, ...]]:
    """Samples of the same columns with their text read, and what is to be said of it."""
    notes = []
    columns = [list(part.columns) for part in parts]
    for d in range(len(parts[0].names)):
        same = [part.columns[d] for part in parts]
        where = f"{title(parts[0].names, d)} of {' and '.join(part.argument for part in parts)}"
        _refuse_units(parts, columns, d, where)
        notes += [f"{where} {one.note}" for one in same if one.note][:1]
        texts = [column for column in same if column.categorical]
        if not texts or any(column.declared for column in texts):
            continue
        found = read_words(dict.fromkeys(entry for one in texts for entry in one.entries[~one.missing]))
        if found.doubt:
            raise ValueError(f"{where} looks like numbers, but {found.doubt}; {found.remedy}, or {_KEEP}")
        if found.numbers is None:
            notes += [f"{where} {found.note}"] if found.note else []
            continue
        for own in columns:
            own[d] = _as_numbers(own[d], found) if own[d].categorical else own[d]
        _refuse_units(parts, columns, d, where)
        told = found.note if found.clock else f"is text {found.note}"
        notes.append(f"{where} {told}; {_KEEP} if they are codes" if found.digits else f"{where} {told}")
    return [part._replace(columns=own) for part, own in zip(parts, columns, strict=True)], tuple(notes)


def _as_numbers(column: Column, found: Reading) -> Column:
    numbers = found.numbers or {}
    values = np.array([numbers.get(entry, np.nan) for entry in column.entries], dtype=float)
    return Column(values, column.missing, False, found.unit)


def _refuse_units(parts: list[Sample], columns: list[list[Column]], d: int, where: str) -> None:
    """Refuse times in one sample where another holds numbers, or times of another kind."""
    kinds: dict[str, str] = {}
    for part, own in zip(parts, columns, strict=True):
        if not own[d].categorical and not own[d].missing.all():
            kinds.setdefault(own[d].unit, part.argument)
    if len(kinds) > 1 and {clocks.DAYS, clocks.HOURS, clocks.SECONDS} & set(kinds):
        seen = " and ".join(f"{_held(unit)} in {argument}" for unit, argument in kinds.items())
        raise TypeError(f"{where} holds {seen}; give it the same kind in both")


def _held(unit: str) -> str:
    named = {clocks.DAYS: "dates", clocks.HOURS: "times of day", clocks.SECONDS: "durations", "": "numbers"}
    return named.get(unit, f"numbers in {unit}")


class Understood(NamedTuple):
    """Tables with their text read; what is to be said of it, and why some of it is neither, by column."""

    frames: list[pl.DataFrame]
    notes: dict[str, str]
    doubts: dict[str, tuple[str, str]]  # why, and the remedy


def understood_frames(
    frames: Iterable[pl.DataFrame], *, comma: str = "", text: Iterable[str] = ()
) -> Understood:
    """The same for tables from files, column by column; those named in `text` become categories.

    >>> import polars as pl
    >>> found = understood_frames([pl.DataFrame({"height": ["173.4 cm", "180 cm"], "name": ["Ada", "Ben"]})])
    >>> found.frames[0]["height"].to_list(), found.notes
    ([173.4, 180.0], {'height': "is text read as numbers in cm: '173.4 cm' is 173.4"})
    """
    import polars as pl

    frames, kept = list(frames), set(text)
    notes: dict[str, str] = {}
    doubts: dict[str, tuple[str, str]] = {}
    held = [dict.fromkeys(frame.columns) for frame in frames]
    for name in dict.fromkeys(name for names in held for name in names):
        places = [k for k, names in enumerate(held) if name in names]
        if name in kept:
            for k in places:
                chosen = nameless(frames[k][name]).cast(pl.String).cast(pl.Categorical)
                frames[k] = frames[k].with_columns(chosen.alias(name))
            continue
        texts = [k for k in places if frames[k][name].dtype == pl.String]
        if not texts or any(frames[k][name].dtype in (pl.Categorical, pl.Enum) for k in places):
            continue
        words: dict[str, None] = {}
        for k in texts:
            words |= dict.fromkeys(
                nameless(frames[k][name]).drop_nulls().unique(maintain_order=True).to_list()
            )
        found = read_words(words, comma)
        if found.doubt:
            doubts[name] = found.doubt, found.remedy
        elif found.note:
            notes[name] = f"is text {found.note}" if found.numbers and not found.clock else found.note
            for k in texts:  # what is text after all is not read, nor told, a second time
                own = nameless(frames[k][name])
                own = _typed(own, found) if found.numbers else own.cast(pl.Categorical)
                frames[k] = frames[k].with_columns(own.alias(name))
    return Understood(frames, notes, doubts)


def _typed(series: pl.Series, found: Reading) -> pl.Series:
    """A column as numbers, or as the times that Polars knows."""
    import polars as pl

    numbers = found.numbers or {}
    values = series.replace_strict(numbers, default=None, return_dtype=pl.Float64)
    if not found.clock:
        return values
    if found.clock == "date":
        return values.cast(pl.Int32).cast(pl.Date)
    scale = {"time of day": 3600.0, "duration": 1.0}.get(found.clock, clocks.DAY)
    ticks = (values * (scale * 1e6)).round().cast(pl.Int64)
    kinds: dict[str, Any] = {
        "time of day": pl.Time,
        "duration": pl.Duration("us"),
        "zoned": pl.Datetime("us", "UTC"),
    }
    if found.clock == "time of day":
        ticks = ticks * 1000
    return ticks.cast(kinds.get(found.clock, pl.Datetime("us")))

"""What the columns are, over all blocks: one pass that counts, and every error is raised after it, once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kembed.data.columns import Column, Sample
from kembed.engines.coding import as_table, as_text, floats, is_text, plain_numbers, typed_column
from kembed.engines.parts import Part
from kembed.engines.source import brought_back

if TYPE_CHECKING:
    import polars as pl

LEVELS = 10_000  # of a column of text: the table of more would be long, and travel with every block
# Words: text of a text table, which may mean numbers. Categories: text that its format declares as such.
NUMBERS, TEXT, WORDS, CATEGORIES = "numbers", "text", "words", "categories"


@brought_back
@dataclass(frozen=True)
class Seen:
    """What was seen of one column in some blocks."""

    kinds: dict[str, str]  # what it held, and the first block with that
    present: int = 0  # entries that are not missing
    missing: int = 0
    low: float = np.inf  # of numbers
    high: float = -np.inf
    levels: frozenset[str] | None = frozenset()  # of text; None for more than LEVELS
    distinct: bool = True  # whether no text came twice in a block
    odd: str = ""  # the first word that is no number
    few: tuple[str, ...] = ()  # some of the words of text that has more than LEVELS
    counts: tuple[str, ...] = ()  # what its numbers count, and in a zone or not: one thing, if all is well

    def plus(self, other: Self) -> Self:
        """Of both."""
        levels: frozenset[str] | None = None
        few = self.few or other.few
        if self.levels is not None and other.levels is not None:
            both = self.levels | other.levels
            levels, few = (both, few) if len(both) <= LEVELS else (None, some_of(both))
        return replace(
            self,
            kinds={**other.kinds, **self.kinds},
            present=self.present + other.present,
            missing=self.missing + other.missing,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            levels=levels,
            distinct=self.distinct and other.distinct,
            odd=self.odd or other.odd,
            few=few,
            counts=tuple(sorted({*self.counts, *other.counts})),
        )

    @property
    def constant(self) -> bool:
        """Whether all entries are equal."""
        if self.low <= self.high:
            return self.low == self.high
        return self.levels is not None and len(self.levels) < 2


@brought_back
class Bad(NamedTuple):
    """Rows that cannot be used: how many, and the first of them as (part, row of the part)."""

    many: int = 0
    first: tuple[int, int] | None = None

    def plus(self, other: Bad) -> Bad:
        """Of both."""
        return Bad(self.many + other.many, other.first if self.first is None else self.first)


@brought_back
class Survey(NamedTuple):
    """What was seen of a sample: rows of every part, every column, rows with missing and infinite values."""

    rows: tuple[int, ...]
    columns: dict[str, Seen]
    missing: Bad = Bad()
    infinite: Bad = Bad()

    def plus(self, other: Survey) -> Survey:
        """Of both, one after the other."""
        columns = {name: seen.plus(other.columns[name]) for name, seen in self.columns.items()}
        missing, infinite = self.missing.plus(other.missing), self.infinite.plus(other.infinite)
        return Survey(self.rows + other.rows, columns, missing, infinite)

    @property
    def size(self) -> int:
        """How many rows."""
        return sum(self.rows)

    def sample(
        self, argument: str, names: tuple[str, ...], kinds: dict[str, tuple[bool, str]], framed: bool
    ) -> Sample:
        """A sample of one row with the same columns, for the rules of the door.

        `kinds` says of every column whether it holds categories, and what its numbers count.
        """
        columns = [
            Column(np.zeros(1), np.array([not self.columns[name].present]), *kinds[name]) for name in names
        ]
        return Sample(argument, names, columns, framed, 1)


def survey_part(part: Part, number: int, columns: tuple[str, ...], as_words: frozenset[str]) -> Survey:
    """What there is in one part; `as_words` are columns of text of which all words are wanted."""
    rows = 0
    total: Survey | None = None
    part.verify(columns)
    for raw in part.read(columns, part.likely - as_words):
        found = _survey_block(raw, part, number, rows, columns, as_words)
        rows += found.size
        total = found if total is None else total.plus(found)
    if total is None:
        return Survey((0,), {name: Seen({}) for name in columns})
    return total._replace(rows=(rows,))


def _survey_block(
    raw: Any, part: Part, number: int, before: int, columns: tuple[str, ...], as_words: frozenset[str]
) -> Survey:
    seen: dict[str, Seen] = {}
    missing, infinite = np.zeros(len(raw), dtype=bool), np.zeros(len(raw), dtype=bool)
    table = as_table(raw) if isinstance(raw, np.ndarray) else None
    for name in columns:
        values: np.ndarray | None
        if table is not None:
            values = np.asarray(table[:, part.names.index(name)], dtype=float)
            seen[name], gaps = _of_numbers(values, part, ""), np.isnan(values)
        else:
            seen[name], gaps, values = _of_series(raw[name], part, name in as_words)
        missing |= gaps
        if values is not None and not np.isfinite(seen[name].high - seen[name].low) and seen[name].present:
            infinite |= np.isinf(values)
    return Survey((len(raw),), seen, _bad(missing, number, before), _bad(infinite, number, before))


def _bad(rows: np.ndarray, number: int, before: int) -> Bad:
    count = int(np.count_nonzero(rows))
    return Bad(count, (number, before + int(np.argmax(rows)))) if count else Bad()


def _of_series(series: pl.Series, part: Part, words: bool) -> tuple[Seen, np.ndarray, np.ndarray | None]:
    """What was seen, which entries are missing, and the numbers if it holds numbers."""
    import polars as pl

    values: np.ndarray | None = None
    counts = part.counted(series.name)
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        values = floats(series)
    elif is_text(series.dtype):
        values = plain_numbers(series, part.comma) if part.words and not words else None
    elif series.dtype != pl.Null:
        column = typed_column(series, part.file)
        if not column.categorical:
            values = np.where(column.missing, np.nan, column.entries.astype(float))
            counts = column.counts
    if values is not None:
        return _of_numbers(values, part, counts), np.isnan(values), values
    text = as_text(series, part.file)
    declared = isinstance(series.dtype, pl.Categorical | pl.Enum)
    return _of_text(text, part, declared), text.is_null().to_numpy(), None


def _of_numbers(values: np.ndarray, part: Part, counts: str) -> Seen:
    gaps = int(np.count_nonzero(np.isnan(values)))
    present = len(values) - gaps
    if not present:
        return Seen({}, missing=gaps)
    ends = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    return Seen({NUMBERS: part.where}, present, gaps, *ends, counts=(counts,))


def _of_text(text: pl.Series, part: Part, declared: bool) -> Seen:
    import polars as pl

    gaps = text.null_count()
    present = len(text) - gaps
    if not present:
        return Seen({}, missing=gaps)
    different = text.drop_nulls().unique()
    levels = frozenset(different.to_list()) if len(different) <= LEVELS else None
    few = () if levels is not None else some_of(different.to_list())
    odd = ""
    if part.words:
        strange = text.filter(text.is_not_null() & text.cast(pl.Float64, strict=False).is_null())
        odd = strange[0] if len(strange) else ""
    kind = CATEGORIES if declared else WORDS if part.words else TEXT
    alone = len(different) == present
    return Seen({kind: part.where}, present, gaps, levels=levels, distinct=alone, odd=odd, few=few)


def some_of(words: Iterable[str]) -> tuple[str, ...]:
    """A hundred or two of the words, from all over the alphabet."""
    listed = sorted(words)
    return tuple(listed[:: max(1, len(listed) // 100)])

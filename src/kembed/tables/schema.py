"""What a column is: one rule for every source, format and size.

Batches of all samples are summed up in a `Profile` a column; `decide` makes of the profiles of one column in
all samples a `Spec`: numbers, categories, or left out with the reason. Nothing here depends on how rows are
cut into batches or on which sample a row is in, except that no two samples may hold different kinds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kembed.tables import text
from kembed.tables.frames import EXACT, Column, Refused, column_of
from kembed.tables.times import held_by

if TYPE_CHECKING:
    import polars as pl

LEVELS = 10_000  # of a category: the table of more would be long, and travel with every batch
# Of text with more levels: two different values are taken for equal once in so many pairs, which weakens a
# test and leaves it exact, since a value's group does not know its sample.
GROUPS = 4_096
LARGEST = 1e300  # multiples of numbers, which are lengthscales, must stay numbers
SMALLEST = 1e-318  # parts of numbers, which are lengthscales, must not be 0
UNNAMED = "unnamed"  # and its place: a column without a name
# What R, its dataset archives and pandas call the row numbers that they write beside a table.
ROW_NUMBERS = (UNNAMED, "Unnamed: ", "rownames")
NUMBERS, PLAIN, TEXT, DECLARED = "numbers", "plain text", "text", "categories"
IDENTIFIER = "every value is different, as in an identifier"
COUNTER = "it numbers the rows"
EMPTY = "it is empty"
NOTHING: tuple[str, ...] = (EMPTY, "it is empty and has no name")
REMEDY = (
    "clean it (--na names tokens that mean missing), or compare it as text (a categorical dtype, --as-text)"
)


@dataclass(frozen=True)
class Values:
    """Different values of a column and how often each occurs; of too many those with certain hashes.

    A value is held if the lowest `bits` bits of its hash are 0. Which are held depends on the set of values
    alone, so that the counts of two batches can be added.
    """

    counts: dict[str, int] = field(default_factory=dict)
    bits: int = 0

    @classmethod
    def of(cls, values: pl.Series) -> Values:
        found = values.value_counts()
        return cls._held(found.to_series(0), found.to_series(1), 0)

    @classmethod
    def _held(cls, values: pl.Series, counts: pl.Series, bits: int) -> Values:
        if bits or len(values) > LEVELS:
            hashes = values.hash(seed=0)
            while (keep := hashes % (1 << bits) == 0).sum() > LEVELS:
                bits += 1
            values, counts = values.filter(keep), counts.filter(keep)
        return cls(dict(zip(values.to_list(), counts.to_list(), strict=True)), bits)

    def plus(self, other: Values) -> Values:
        counts = dict(self.counts)
        for value, count in other.counts.items():
            counts[value] = counts.get(value, 0) + count
        bits = max(self.bits, other.bits)
        if self.bits == other.bits and len(counts) <= LEVELS:
            return Values(counts, bits)
        import polars as pl

        return self._held(pl.Series(list(counts), dtype=pl.String), pl.Series(list(counts.values())), bits)

    @property
    def all(self) -> bool:
        return not self.bits

    @property
    def most(self) -> int:
        return max(self.counts.values(), default=0)


@dataclass(frozen=True)
class Profile:
    """What was seen of one column in some batches of one sample."""

    rows: int = 0
    missing: int = 0
    kinds: dict[str, str] = field(default_factory=dict)  # what it held, and the first batch with that
    units: tuple[str, ...] = ()  # of numbers, sorted
    low: float = np.inf
    high: float = -np.inf
    values: Values = field(default_factory=Values)  # of text
    styles: frozenset[str] | None = None  # under which all text reads; None where there is no text
    odd: str = ""  # the first text that is no plain number
    inexact: str = ""  # a whole number that no float holds
    holds: str = ""  # what it holds that cannot be compared

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def constant(self) -> bool:
        if self.low <= self.high:
            return self.low == self.high
        return self.values.all and len(self.values.counts) < 2

    def plus(self, other: Self) -> Self:
        styles = other.styles if self.styles is None else self.styles
        if self.styles is not None and other.styles is not None:
            styles = self.styles & other.styles
        return replace(
            self,
            rows=self.rows + other.rows,
            missing=self.missing + other.missing,
            kinds={**other.kinds, **self.kinds},
            units=tuple(sorted({*self.units, *other.units})),
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            values=self.values.plus(other.values),
            styles=styles,
            odd=self.odd or other.odd,
            inexact=self.inexact or other.inexact,
            holds=self.holds or other.holds,
        )


def profile(column: Column | Refused, name: str, where: str, as_text: bool = False) -> Profile:
    """The profile of one column of one batch.

    `as_text` asks for the different values of text that reads as plain numbers too: some other batch has text
    that does not.
    """
    if isinstance(column, Refused):
        return Profile(column.size, holds=column.holds)
    if not column.is_text:
        return _of_numbers(column, where, name)
    values: pl.Series = column.values
    rows, missing = len(values), values.null_count()
    if rows == missing:
        return Profile(rows, missing)
    present = values.drop_nulls()
    if column.declared:
        return Profile(rows, missing, {DECLARED: where}, values=Values.of(present))
    numbers = plain_numbers(present)
    if numbers is not None and not as_text:
        found = _of_numbers(Column(numbers), where, name)
        long = present.filter(present.str.len_bytes() > 15) if max(-found.low, found.high) >= EXACT else None
        inexact = "" if long is None else _inexact(long, "")
        return replace(found, rows=rows, missing=missing, kinds={PLAIN: where}, units=(), inexact=inexact)
    different = Values.of(present)
    styles = text.styles(present.unique())
    odd = "" if numbers is not None else _odd(present)
    kind = TEXT if numbers is None else PLAIN
    return Profile(rows, missing, {kind: where}, values=different, styles=styles, odd=odd)


def plain_numbers(present: pl.Series) -> np.ndarray | None:
    """Text that is plain numbers throughout, as numbers; None where it is not."""
    import polars as pl

    numbers = present.cast(pl.Float64, strict=False)
    if numbers.null_count() or not numbers.is_finite().all():
        return None
    if present.str.contains(r"^[-+]?0[0-9]").any():  # codes, not numbers
        return None
    return numbers.to_numpy()


def _odd(present: pl.Series) -> str:
    import polars as pl

    strange = present.filter(~present.cast(pl.Float64, strict=False).is_finite().fill_null(False))
    return str(strange[0]) if len(strange) else str(present[0])


def _inexact(long: pl.Series, style: str) -> str:
    """The first whole number of a style, or a plain one, that no float holds."""
    for value, number in zip(long.to_list(), parsed_column(long, style).values.tolist(), strict=True):
        digits = re.sub(r"[^0-9]", "", value)
        if float(digits) == abs(number) and int(float(digits)) != int(digits):  # else it has decimals
            return value
    return ""


def _of_numbers(column: Column, where: str, name: str) -> Profile:
    values, counts = column.values, Values()
    missing = int(np.count_nonzero(np.isnan(values)))
    if missing == len(values):
        return Profile(len(values), missing, units=(column.unit,) if column.unit else ())
    if name.startswith(ROW_NUMBERS) and not column.unit:
        import polars as pl

        counts = Values.of(pl.Series(values[~np.isnan(values)]).cast(pl.String))
    ends = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    kinds = {NUMBERS: where}
    return Profile(len(values), missing, kinds, (column.unit,), *ends, counts, inexact=column.inexact)


class Spec(NamedTuple):
    """What a column is, in all samples."""

    name: str
    categorical: bool = False
    levels: tuple[str, ...] = ()  # sorted
    unit: str = ""  # of numbers
    style: str = ""  # how text is read as numbers; "" for plain numbers and for categories
    groups: int = 0  # in place of levels, so many groups by a hash
    left_out: str = ""  # why it is not compared
    note: str = ""  # how it was read


def decide(
    name: str,
    title: str,
    labels: Sequence[str],
    profiles: Sequence[Profile],
    *,
    kept: bool,
    decimal_comma: bool,
) -> Spec:
    """What one column is, from its profiles in all samples; `kept`: asked for by name, so never left out."""
    where = f"{title} of {' and '.join(labels)}" if title else " and ".join(labels)
    title = title or where
    if holds := next((one.holds for one in profiles if one.holds), ""):
        return Spec(name, left_out=f"it holds {holds}, which cannot be compared")
    there = [(label, one) for label, one in zip(labels, profiles, strict=True) if one.present]
    if not there:
        return Spec(name, left_out=NOTHING[name.startswith(UNNAMED)])
    pooled = there[0][1]
    for _, one in there[1:]:
        pooled = pooled.plus(one)
    _refuse_inexact(where, pooled.inexact)
    kinds = set(pooled.kinds)
    if DECLARED in kinds:
        if kinds & {NUMBERS}:
            raise _mixed(title, there, {NUMBERS: "numbers", DECLARED: "categories"})
        return _categories(name, pooled, title)
    # A rule that does not see the samples: no value occurs more often than there are samples.
    identifier = not kept and pooled.values.most <= len(profiles)
    counter = identifier and name.startswith(ROW_NUMBERS)
    if kinds <= {NUMBERS, PLAIN}:
        unit = _one_unit(where, there)
        if unit and PLAIN in kinds:
            raise _mixed(title, there, {NUMBERS: held_by(unit), PLAIN: "numbers as text"})
        if counter and not unit:
            return Spec(name, left_out=COUNTER)
        _refuse_sizes(where, pooled)
        return Spec(name, unit=unit)
    import polars as pl

    _refuse_infinite(where, [pooled.odd, *pooled.values.counts])
    reading = text.decide(pooled.styles or frozenset(), _examples(pooled), decimal_comma=decimal_comma)
    if reading.error:
        joint = " " if reading.error.startswith(("looks", "could")) else ": "
        late = f", first in {pooled.kinds[TEXT]}" if kinds >= {PLAIN, TEXT} else ""
        raise ValueError(f"{where}{joint}{reading.error}{late}; {REMEDY}")
    if reading.style:
        unit = parsed_column(pl.Series([], dtype=pl.String), reading.style).unit
        if not unit:
            long = [value for value in pooled.values.counts if len(value) > 15]
            _refuse_inexact(where, _inexact(pl.Series(long, dtype=pl.String), reading.style))
        if counter and not unit:
            return Spec(name, left_out=COUNTER)
        if NUMBERS in kinds and _one_unit(where, there) != unit:
            raise _mixed(title, there, {NUMBERS: held_by(_one_unit(where, there)), TEXT: "text"})
        note = f"{title} {reading.note}" if reading.note else ""
        return Spec(name, unit=unit, style=reading.style, note=note)
    if NUMBERS in kinds:
        raise _mixed(title, there, {NUMBERS: "numbers", TEXT: f"text ({pooled.odd!r})"})
    if identifier:
        return Spec(name, left_out=IDENTIFIER)
    return _categories(name, pooled, title)


def _refuse_inexact(where: str, odd: str) -> None:
    if odd:
        seen = f"{where} has whole numbers beyond 2^{EXACT.bit_length() - 1} that no float holds ({odd})"
        raise ValueError(f"{seen}; subtract what they have in common, or make them categories")


def _examples(pooled: Profile) -> list[str]:
    """Some of the values, from all over the alphabet; the odd one first where no style fits all."""
    listed = sorted(pooled.values.counts)
    odd = [pooled.odd] if pooled.odd and not pooled.styles else []
    return list(dict.fromkeys([*odd, *listed[:: max(1, len(listed) // 100)]]))


def _categories(name: str, pooled: Profile, title: str) -> Spec:
    if pooled.values.all:
        return Spec(name, True, tuple(sorted(pooled.values.counts)))
    levels = tuple(f"group {place:,} of {GROUPS:,}" for place in range(1, GROUPS + 1))
    many = (
        f"{title} has more than {LEVELS:,} different values; they are compared in {GROUPS:,} groups by a hash"
    )
    return Spec(name, True, levels, groups=GROUPS, note=many)


def _one_unit(where: str, there: Sequence[tuple[str, Profile]]) -> str:
    """What the numbers of all samples count."""
    units: dict[str, str] = {}
    for label, one in there:
        for unit in one.units or (("",) if PLAIN in one.kinds else ()):
            units.setdefault(unit, label)
    if len(units) > 1:
        seen = " and ".join(f"{held_by(unit)} in {label}" for unit, label in units.items())
        raise TypeError(f"{where} holds {seen}; give it the same kind everywhere")
    return next(iter(units), "")


def _mixed(title: str, there: Sequence[tuple[str, Profile]], kinds: dict[str, str]) -> TypeError:
    """The error for a column of two kinds: where each is, by sample, or by batch within one."""
    (first, one), (second, other) = kinds.items()
    found = {}
    for kind, words in ((first, one), (second, other)):
        label, own = next((label, each) for label, each in there if kind in each.kinds or len(kinds) < 2)
        found[words] = label, own.kinds[kind]
    samples = {label for label, _ in found.values()}
    held = " but ".join(
        f"{words} in {label if len(samples) > 1 else batch}" for words, (label, batch) in found.items()
    )
    of = "" if len(samples) > 1 else f" of {next(iter(samples))}"
    return TypeError(f"{title}{of} holds {held}; give it the same type everywhere")


def _refuse_sizes(where: str, pooled: Profile) -> None:
    """Refuse numbers whose multiples or parts are no numbers; infinite ones are refused with their row."""
    size = max(abs(pooled.low), abs(pooled.high))
    if LARGEST < size < np.inf:
        seen = f"{where} has numbers beyond {LARGEST:g}, of which floats hold no multiples"
        raise ValueError(f"{seen}; divide the column by a constant")
    if 0.0 < size < SMALLEST:
        seen = f"{where} has no number beyond {SMALLEST}, where floats have few digits"
        raise ValueError(f"{seen}; multiply the column by a constant")


def _refuse_infinite(where: str, values: list[str]) -> None:
    """Refuse text that is numbers, some of them infinite."""
    import polars as pl

    numbers = pl.Series(values, dtype=pl.String).cast(pl.Float64, strict=False)
    if not numbers.null_count() and (infinite := numbers.is_infinite()).any():
        raise ValueError(
            f"{where} has infinite values ({values[infinite.arg_max() or 0]!r}); drop or replace them"
        )


def parsed_column(values: pl.Series, style: str) -> Column:
    """Text of a style, or of plain numbers, as numbers; nan where it is missing."""
    import polars as pl

    found = column_of(text.parse(values, style) if style else values.cast(pl.Float64, strict=False), style)
    assert isinstance(found, Column)
    return found


@dataclass(frozen=True)
class Schema:
    """What the columns are: names, which hold categories, the sorted levels of those, units of numbers.

    `missing_of` has, for the indicator of the missing values of a column, that column's name; "" for others.
    """

    names: tuple[str, ...]
    categorical: tuple[bool, ...]
    levels: tuple[tuple[Any, ...], ...]  # of every column, in the order of its codes; () for numbers
    units: tuple[str, ...] = ()  # what numbers of every column count, where that is known
    missing_of: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()  # how text was read as numbers; "" where it was plain, or no text

    @property
    def discrete(self) -> np.ndarray:
        return np.array(self.categorical, dtype=bool)

"""Missing values as part of a sample: a fill and an indicator for numbers, a level for categories.

The encoding does not see which sample a row is in. A missing number is replaced by a value drawn from those
that are there, of all samples together: every row has random keys of its own, the values of the rows with
the smallest keys are the donors of a column, and another key picks the donor. So a column whose missing
values alone have changed does not look changed itself; its indicator does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.core.shuffling import splitmix64

DONORS = 4_096  # values that fills are drawn from
LEVEL = "missing"  # of a category
INDICATOR = ("available", "missing")  # levels of an indicator
DECIMALS = 12  # of numbers that count as written with so many; others have as many as floats have


class Donor(NamedTuple):
    """The distribution that the missing numbers of a column are drawn from.

    Values that repeat are drawn as they are. Where all are different a draw lies between two of them, with as
    many decimals: a copy of another row's value would be a tie, and ties would tell which sample has more
    fills.
    """

    values: Float[np.ndarray, " k"]  # sorted
    decimals: int | None  # None: values are drawn as they are

    @classmethod
    def of(cls, values: Float[np.ndarray, " k"]) -> Donor:
        values = np.sort(values)
        if len(values) < 2 or (values[1:] == values[:-1]).any():
            return cls(values, None)
        grids = (d for d in range(DECIMALS) if np.array_equal(np.round(values, d), values))
        return cls(values, next(grids, DECIMALS))

    def draw(self, keys: np.ndarray) -> Float[np.ndarray, " n"]:
        if self.decimals is None:
            return self.values[(keys % np.uint64(len(self.values))).astype(int)]
        place = (keys >> np.uint64(11)) / 2.0**53 * (len(self.values) - 1)  # in [0, k - 1)
        low = np.minimum(place.astype(int), len(self.values) - 2)
        share, ends = place - low, (self.values[low], self.values[low + 1])
        drawn = ends[0] * (1.0 - share) + ends[1] * share
        return drawn if self.decimals == DECIMALS else np.round(drawn, self.decimals)


class Fill(NamedTuple):
    """What missing numbers are replaced by: of every column with any, its place and its donors."""

    sample: int  # the number of the sample, part of every row's keys
    donors: dict[int, Donor]


def keys(sample: int, rows: np.ndarray, stream: int) -> np.ndarray:
    """Random numbers of 64 bits that rows have by their places, by splitmix64."""
    start = np.uint64((sample * 1_000_003 + stream + 1) * 0xD1342543DE82EF95 % 2**64)
    return splitmix64(rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start)


class Donors(NamedTuple):
    """Values of some columns with the smallest keys; added by keeping the smallest of both."""

    found: dict[int, tuple[np.ndarray, np.ndarray]]  # of every column keys, sorted, and values

    def plus(self, other: Donors) -> Donors:
        both = {}
        for column, (own_keys, own) in self.found.items():
            other_keys, others = other.found[column]
            every, values = np.append(own_keys, other_keys), np.append(own, others)
            order = np.argsort(every, kind="stable")[:DONORS]
            both[column] = every[order], values[order]
        return Donors(both)


def take_donors(block: Any, sample: int, columns: tuple[int, ...]) -> Donors:
    """The values of a block with the smallest keys."""
    numbers = keys(sample, np.arange(block.first, block.first + len(block.values)), 0)
    found = {}
    for column in columns:
        values = block.values[:, column]
        there = np.flatnonzero(~np.isnan(values))
        order = there[np.argsort(numbers[there], kind="stable")[:DONORS]]
        found[column] = numbers[order], values[order]
    return Donors(found)


def with_indicators(values: Float[np.ndarray, "b D"], first: int, fill: Fill) -> Float[np.ndarray, "b D+I"]:
    """Rows with their missing numbers filled, and an indicator (0 there, 1 missing) a column at the end."""
    if not fill.donors:
        return values
    values, rows = values.copy(), np.arange(first, first + len(values))
    indicators = []
    for column, donors in fill.donors.items():
        gaps = np.isnan(values[:, column])
        indicators.append(gaps.astype(float))
        values[gaps, column] = donors.draw(keys(fill.sample, rows[gaps], 1 + column))
    return np.column_stack([values, *indicators])


def indicator_name(name: str, names: tuple[str, ...]) -> str:
    """What the indicator of a column is called.

    >>> indicator_name("age", ("age", "height"))
    'age (missing)'
    """
    found = f"{name} (missing)"
    while found in names:
        found += "'"
    return found


def missing_level(levels: tuple[str, ...]) -> str:
    """What the level of missing values is called.

    >>> missing_level(("a", "b")), missing_level(("missing",))
    ('missing', '(missing)')
    """
    found = LEVEL
    while found in levels:
        found = f"({found})"
    return found

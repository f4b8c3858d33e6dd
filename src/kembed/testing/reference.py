"""What a sketch can tell a person of its rows: totals of every column, and some rows as they are.

No test looks at these. They say what a difference that was found consists of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.shuffling import shuffled
from kembed.tables.schema import Schema
from kembed.tables.source import Block

KEPT = 1_000  # rows that a sketch keeps: a share of them has a standard error of at most 1.6%


@dataclass(frozen=True, eq=False)
class Totals:
    """Of every column: sums of its numbers and of their squares, smallest and largest, and missing values.

    Numbers are taken about an origin and in a unit, which the sums of two samples must share.
    """

    given: int  # rows, those with missing values included
    missing: Int[np.ndarray, " D"]
    first: Float[np.ndarray, " D"]
    second: Float[np.ndarray, " D"]
    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "b D"], scales: Float[np.ndarray, "2 D"]) -> Self:
        """Those of some rows; `scales` are origins and units."""
        z = (values - scales[0]) / scales[1]
        none = np.zeros(values.shape[1], dtype=int)
        low, high = values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
        return cls(0, none, z.sum(axis=0), np.square(z).sum(axis=0), low, high)

    def fits(self, columns: int) -> bool:
        """Whether these can be totals of so many columns."""
        sums = (self.missing, self.first, self.second, self.low, self.high)
        whole = self.missing.dtype.kind == "i" and 0 <= self.missing.min() <= self.missing.max() <= self.given
        return whole and {each.shape for each in sums} == {(columns,)} and not np.isnan(sums).any()

    def plus(self, other: Self) -> Self:
        """Those of the rows of both."""
        given, missing = self.given + other.given, self.missing + other.missing
        first, second = self.first + other.first, self.second + other.second
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return type(self)(given, missing, first, second, low, high)


class ColumnTotal(NamedTuple):
    """One column of all rows of a sketch: counts of its values at some points, and its moments.

    Every value is counted at the nearest point; of categories points are codes, the last that of levels that
    no held-out row has.
    """

    size: int
    points: Float[np.ndarray, " L"]
    counts: Int[np.ndarray, " L"]
    mean: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class KeptRows:
    """At most so many rows of a sample, drawn at random, in an order in which those of several are merged.

    Every row has a place in a random order of all rows of its sample, as a share of them, and the first ones
    are kept. The first ones of two samples together are then a sample of both, each in proportion.
    """

    most: int
    places: Float[np.ndarray, " k"]  # rising
    values: Float[np.ndarray, "k D"]
    levels: tuple[tuple[Any, ...], ...]  # of every column, in the order of its codes; () for numbers

    @classmethod
    def of(cls, most: int, table: Float[np.ndarray, "k D+1"], levels: tuple[tuple[Any, ...], ...]) -> Self:
        """Those that `take_kept` has brought back, with the levels that occur."""
        table = table[np.argsort(table[:, -1], kind="stable")]
        values, occurring = table[:, :-1].copy(), list(levels)
        for c in (c for c, own in enumerate(levels) if own):
            used, codes = np.unique(values[:, c], return_inverse=True)
            values[:, c], occurring[c] = codes.ravel(), tuple(levels[c][int(code)] for code in used)
        return cls(most, table[:, -1].copy(), values, tuple(occurring))

    def plus(self, other: Self) -> Self:
        """A sample of the rows of both."""
        most = min(self.most, other.most)
        levels = tuple(
            tuple(dict.fromkeys((*one, *two))) for one, two in zip(self.levels, other.levels, strict=True)
        )
        values = np.concatenate([recoded(each.values, each.levels, levels) for each in (self, other)])
        places = np.concatenate([self.places, other.places])
        order = np.argsort(places, kind="stable")[:most]
        return type(self)(most, places[order], values[order], levels)

    def fits(self, schema: Schema) -> bool:
        """Whether these can be rows of such columns."""
        k, D = self.values.shape
        codes = [
            np.isin(column, range(len(own))).all()
            for column, own, kind in zip(self.values.T, self.levels, schema.categorical, strict=True)
            if kind
        ]
        shapes = self.places.shape == (k,) and len(self.levels) == D == len(schema.names)
        return bool(shapes and all(codes) and np.isfinite(self.values).all() and k <= self.most)


def new_codes(levels: Sequence[Any], others: Sequence[Any]) -> Int[np.ndarray, " L"]:
    """The place of every level among others; their number where it is none of them.

    >>> new_codes(("a", "c"), ("b", "a")).tolist()
    [1, 2]
    """
    places = {level: place for place, level in enumerate(others)}
    return np.array([places.get(level, len(places)) for level in levels], dtype=int)


def recoded(
    values: Float[np.ndarray, "k D"], levels: tuple[tuple[Any, ...], ...], others: tuple[tuple[Any, ...], ...]
) -> Float[np.ndarray, "k D"]:
    """Rows in the codes of other levels, which hold all of their own."""
    values = values.copy()
    for c, (own, other) in enumerate(zip(levels, others, strict=True)):
        if own:
            values[:, c] = new_codes(own, other)[values[:, c].astype(int)]
    return values


def take_kept(
    block: Block, columns: tuple[int, ...], size: int, most: int, key: int
) -> Float[np.ndarray, "k D+1"]:
    """The rows of a block that are kept, each with its place in a random order as a share."""
    places = shuffled(np.arange(block.first, block.first + len(block.values)), size, key)
    kept = places < most
    return np.column_stack([block.values[kept][:, list(columns)], (places[kept] + 0.5) / size])

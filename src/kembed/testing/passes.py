"""What a pass over the rows brings back: a sample, a column, or the sums of features by bin.

These are the functions that travel to the rows (`Source.map_sum`): picklable, of a block and a few
parameters.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.engines.source import Block, Schema, Stacked
from kembed.permutation.bins import AnyBins, bin_indicators, dense, sampled
from kembed.testing.members.fresh import Diagonal, Fitted, Fresh, Streamed

CHUNK = 1_024  # rows whose features are held at once: what a cache holds


@dataclass(frozen=True)
class Layout:
    """Which columns of a source are variables, which are a partner's, and which holds weights."""

    variables: tuple[int, ...]
    partners: tuple[int, ...] = ()
    weight: int | None = None

    def kinds(self, schema: Schema) -> tuple[Any, tuple[int, ...]]:
        """Which variables hold categories, and how many levels each has."""
        own = list(self.variables)
        return schema.discrete[own], tuple(len(schema.levels[c]) for c in own)

    def sides(self, values: Float[np.ndarray, "b D"]) -> list[Float[np.ndarray, "b E"]]:
        """The variables of the rows, and those of their partners where there are any."""
        return [values[:, list(side)] for side in (self.variables, self.partners) if side]


@dataclass(frozen=True, eq=False)
class Sums:
    """Of every bin, what is left over last: what its rows weigh, squares of that, sums of their features."""

    rows: int
    weight: Float[np.ndarray, " S+1"]
    squares: Float[np.ndarray, " S+1"]
    features: list[Float[np.ndarray, "S+1 p"]]

    def plus(self, other: "Sums") -> "Sums":
        """Of both."""
        both = zip(self.features, other.features, strict=True)
        weight, squares = self.weight + other.weight, self.squares + other.squares
        return Sums(self.rows + other.rows, weight, squares, [a + b for a, b in both])


def take_sample(block: Block, layout: Layout, bins: AnyBins, each: int) -> Stacked:
    """The rows of a block that are of the sample: `each` units of every bin; of pairs both rows."""
    kept = sampled(bins, block.first, len(block.values), each) & block.whole
    return Stacked(tuple(layout.sides(block.values[kept])))


def take_rows(block: Block, columns: tuple[int, ...], bins: AnyBins | None = None, each: int = 0) -> Stacked:
    """Some columns of the rows without missing values: of all, or of those that are of the sample."""
    kept = block.whole
    if bins is not None:
        kept = kept & sampled(bins, block.first, len(block.values), each)
    return Stacked((block.values[kept][:, list(columns)],))


def take_column(block: Block, column: int) -> Stacked:
    """One column of a block."""
    return Stacked((block.values[:, column],))


def sum_features(
    block: Block, layout: Layout, bins: AnyBins, fitted: Fitted | None, maps: tuple[Any, ...]
) -> Sums:
    """Sums by bin over the rows of a block, chunk by chunk; rows with missing values count nothing.

    Of pairs the features of the one row less those of the other are summed. A row weighs as much as its
    weight says; K(x, x) counts by the square of it.
    """
    own, _ = bins.of(block.first, len(block.values))
    order = np.argsort(own, kind="stable")  # few bins a chunk: their sums stay in the cache
    order = order[block.whole[order]]
    total: Sums | None = None
    for start in range(0, max(len(order), 1), CHUNK):
        part = order[start : start + CHUNK]
        values, where = block.values[part], own[part]
        weight = None if layout.weight is None else values[:, layout.weight]
        rows = [Fresh(fitted, side) for side in layout.sides(values)]
        once = bin_indicators(where, bins.count, weight)
        twice = once if weight is None else bin_indicators(where, bins.count, weight**2)
        found = []
        for each in maps:
            features = each(rows[0]) if len(rows) == 1 else each(rows[0]) - each(rows[1])
            found.append(dense((twice if isinstance(each, Diagonal) else once) @ features))
        sums = Sums(len(values), once.sum(axis=1), twice.sum(axis=1), found)
        total = sums if total is None else total.plus(sums)
    assert total is not None
    return total


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of the features of either side, of their products within a side, and of those that meet."""

    rows: int
    sums: list[Float[np.ndarray, " P"]]
    squares: list[Float[np.ndarray, "P P"]]
    cross: list[Float[np.ndarray, "p q"]]

    def plus(self, other: "Moments") -> "Moments":
        """Of both."""
        parts = ((self.sums, other.sums), (self.squares, other.squares), (self.cross, other.cross))
        lists = ([a + b for a, b in zip(one, two, strict=True)] for one, two in parts)
        return Moments(self.rows + other.rows, *lists)


def sum_moments(
    block: Block,
    layout: Layout,
    fitted: tuple[Fitted | None, Fitted | None],
    members: tuple[tuple[Streamed, ...], tuple[Streamed, ...]],
    centres: tuple[Any, Any],
    meetings: list[tuple[int, int]],
) -> Moments:
    """First and second moments of the features of two sides over the rows of a block, about given centres."""
    starts = [np.cumsum([0, *(len(centre) for centre in side)]) for side in centres]
    values = block.values[block.whole]
    total: Moments | None = None
    for start in range(0, max(len(values), 1), CHUNK):
        sides = layout.sides(values[start : start + CHUNK])
        found = []
        for side, own, each, centre in zip(sides, fitted, members, centres, strict=True):
            rows = Fresh(own, side)
            found.append(np.hstack([m.of(rows) - c for m, c in zip(each, centre, strict=True)]))
        a, b = found
        cut = [[slice(*ends) for ends in pairwise(at)] for at in starts]
        cross = [a[:, cut[0][j]].T @ b[:, cut[1][k]] for j, k in meetings]
        part = Moments(len(a), [a.sum(axis=0), b.sum(axis=0)], [a.T @ a, b.T @ b], cross)
        total = part if total is None else total.plus(part)
    assert total is not None
    return total

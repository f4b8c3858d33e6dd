"""What a pass over the rows brings back: a sample, a column, or the sums of features by bin.

These are the functions that travel to the rows (`Source.fold`): picklable, of a block and a few
parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.buffers import Buffers
from kembed.permutation.bins import AnyBins, sampled
from kembed.permutation.segments import Segments, make_segments
from kembed.tables.schema import Schema
from kembed.tables.source import Block, Stacked
from kembed.testing.members.fresh import Diagonal, Fitted, Fresh, Streamed
from kembed.testing.members.strips import in_strips

# Rows whose features are held at once: enough to be worth their calls; fewer of many columns, whose features
# are many too.
CHUNK, FEWEST, ENTRIES = 4_096, 512, 2**16


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
    kept = block.values[sampled(bins, block.first, len(block.values), each)]
    return Stacked(tuple(layout.sides(kept)))


def take_rows(block: Block, columns: tuple[int, ...], bins: AnyBins | None = None, each: int = 0) -> Stacked:
    """Some columns of the rows without missing values: of all, or of those that are of the sample."""
    kept = block.complete
    if bins is not None:
        kept = kept & sampled(bins, block.first, len(block.values), each)
    return Stacked((block.values[kept][:, list(columns)],))


def take_column(block: Block, column: int) -> Stacked:
    """One column of a block."""
    return Stacked((block.values[:, column],))


def sum_features(
    block: Block, layout: Layout, bins: AnyBins, fitted: Fitted | None, maps: tuple[Any, ...]
) -> Sums:
    """Sums by bin over the rows of a block, chunk by chunk.

    Of pairs the features of the one row less those of the other are summed. A row weighs as much as its
    weight says; K(x, x) counts by the square of it.
    """
    own, _ = bins.of(block.first, len(block.values))
    # Rows of a bin one after the other, and few bins a chunk; numbers of 16 bits are sorted by counting.
    order = np.argsort(own.astype(np.uint16) if bins.count < 2**16 else own, kind="stable")
    values, own = block.values[order], own[order]
    weight = np.ones(len(order)) if layout.weight is None else values[:, layout.weight]
    totals: dict[int, Float[np.ndarray, "S+1 p"]] = {}
    # Gaussians from the widest to the narrowest, each of which may be a power of one before it.
    scaled = [k for k, each in enumerate(maps) if hasattr(each, "lengthscale")]
    scaled.sort(key=lambda k: -maps[k].lengthscale)
    rest = [k for k in range(len(maps)) if k not in scaled]
    buffers = (Buffers(), Buffers())  # of either side

    def add(k: int, sides: Sequence[Fresh], segments: Segments) -> None:
        found = [summed(maps[k], rows, segments) for rows in sides]
        if k not in totals:
            totals[k] = np.zeros((bins.count + 1, found[0].shape[1]))
        totals[k][segments.rows] += found[0] if len(found) == 1 else found[0] - found[1]

    held = min(CHUNK, max(FEWEST, ENTRIES // values.shape[1]))
    for start in range(0, max(len(order), 1), held):
        part = slice(start, start + held)
        once = make_segments(own[part], weight[part])
        both = zip(layout.sides(values[part]), buffers, strict=False)
        sides = [Fresh(fitted, side, own_buffers) for side, own_buffers in both]
        for strips in zip(*map(in_strips, sides), strict=True) if scaled else ():
            few = make_segments(own[part][strips[0].part], weight[part][strips[0].part])
            for k in scaled:
                add(k, strips, few)
        for k in rest:
            add(k, sides, replace(once, weight=weight[part] ** 2) if isinstance(maps[k], Diagonal) else once)
    weights, squares = (np.bincount(own, power, bins.count + 1) for power in (weight, weight**2))
    return Sums(len(order), weights, squares, [totals[k] for k in range(len(maps))])


def summed(features: Any, rows: Fresh, segments: Segments) -> Float[np.ndarray, "k p"]:
    """Sums of features by bin; a map that has a shorter way to them than writing them out has `sums`."""
    if hasattr(features, "sums"):
        return features.sums(rows, segments)
    return segments.sums(features(rows))


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
    values = block.values[block.complete]
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

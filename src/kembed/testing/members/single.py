"""A column by itself: what the fused test of one column looks at, all of it features of a row.

In one dimension ranks, strips of them, distances from the middle and repeated values see about what the
members for whole tables see, in a twentieth of their time (`python -m benchmarks single`).
"""

from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import robust_spread
from kembed.permutation.blocks import Blocks
from kembed.permutation.counts import leaf_features
from kembed.permutation.fusion import Plan
from kembed.testing.members.group import of_columns
from kembed.testing.members.polynomials import DEGREE, Column, indicators, rank_polynomials
from kembed.testing.procedure import Choice

CUTS = (1, 2, 4, DEGREE)  # mean, spread, shape, detail
STRIPS = (16, 48)  # of equally many rows: holes, clumps and steps of these widths
# Spreads from the median beyond which a row is "out": a heavy tail, rare rows far off, and between them.
OUT = (2.0, 3.0, 5.0, 10.0)
FARTHEST = 1e150  # spreads: squares stay numbers
RANKS = ("mean rank", "mean and spread of ranks", "shape of ranks", "detail of ranks")
LEVELS = ("the commonest level", "the two commonest levels", "levels")


def single_column(name: str, column: Column, categorical: bool) -> Choice:
    """The members of the test of one column, pooled and unordered, and how they are fused."""
    parts: list[tuple[Blocks, tuple[str, ...]]]
    if categorical:
        parts = [(Blocks(indicators(column), DEGREE, (1, 2, DEGREE), centred=True), LEVELS)]
        if len(np.unique(column)) > DEGREE:  # a difference spread over many levels
            parts.append((leaf_features(column[None]), ("all levels",)))
    else:
        strips: list[tuple[Blocks, tuple[str, ...]]] = [
            (Blocks(_strips(column, count), count, (count,), centred=True), (f"{count} strips of ranks",))
            for count in STRIPS
        ]
        away = ("distance from the median", *(f"rows beyond {out:g} spreads" for out in OUT))
        parts = [
            (Blocks(rank_polynomials(column), DEGREE, CUTS, centred=True), RANKS),
            (Blocks(_distances(column), 1, (1,), centred=True), away),
            *strips,
            (Blocks(_repeats(column), 1, (1,), centred=True), ("repeated values",)),
        ]
    titles = [title for _, own in parts for title in own]
    kinds = [0] * 4 + [1] * (1 + len(OUT)) + [2] * len(STRIPS) + [3]  # ranks, distances, strips, repeats
    groups = np.array([0] * len(titles) if categorical else kinds)
    plan = Plan(np.arange(len(titles)), groups, np.zeros(groups.max() + 1, dtype=bool))
    kernels = tuple(of_columns(title, name) for title in titles)
    return Choice(tuple(blocks for blocks, _ in parts), kernels, plan, fused=True)


def level_features(levels: Column, sample: Column) -> Any:
    """Indicators of levels, each over the root of how often a sample has it, and once more."""
    from scipy.sparse import diags_array

    places = np.searchsorted(np.sort(sample), levels, side="right"), np.searchsorted(np.sort(sample), levels)
    return diags_array(1.0 / np.sqrt(1.0 + places[0] - places[1])).tocsr()


def _strips(column: Column, count: int) -> Float[np.ndarray, "N count"]:
    """Indicators of strips of the ranks, each over the root of its share; equal values are in one strip."""
    _, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - 0.5 * counts) / len(column)
    strip = np.minimum((middle * count).astype(int), count - 1)[where]
    shares = np.bincount(strip, minlength=count) / len(column)
    return ((strip[:, None] == np.arange(count)) - shares) / np.sqrt(np.where(shares > 0.0, shares, 1.0))


def _distances(column: Column) -> Float[np.ndarray, "N 5"]:
    """The logarithm of the distance from the median, and whether it is large."""
    offset = column - np.median(column)
    spread = float(robust_spread(offset)) or 1.0
    z = np.minimum(np.abs(offset) / spread, FARTHEST)
    return _standardised(np.column_stack([np.log1p(z * z), *(z > out for out in OUT)]))


def _repeats(column: Column) -> Float[np.ndarray, "N 1"]:
    """The logarithm of how often a row's value occurs: rounding and repeated values."""
    _, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    return _standardised(np.log(counts)[where][:, None])


def _standardised(features: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "N k"]:
    """Mean 0 and variance 1; 0 where nothing varies."""
    centred = features - features.mean(axis=0)
    sd = centred.std(axis=0)
    nothing = sd <= 1e-12 * np.maximum(np.abs(features).max(axis=0), 1.0)  # rounding
    return np.where(nothing, 0.0, centred / np.where(nothing, 1.0, sd))

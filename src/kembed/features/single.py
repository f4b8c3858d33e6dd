"""A column by itself: what the fused test of one column looks at.

In one dimension ranks, intervals of them, distances from the median and repeated values see about what the
members for whole tables see, in a twentieth of their time (`python -m benchmarks single`). All of them are
functions of one number, read off a table of the values of the sample.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.linalg import robust_spread
from kembed.features.ensemble import Ensemble, Plan
from kembed.features.members import FeatureMember, of_columns
from kembed.features.polynomials import DEGREE, Column, fit_levels, rank_polynomials
from kembed.features.rows import Rows, Sample
from kembed.features.segments import Segments

CUTS = (1, 2, 4, DEGREE)  # mean, spread, shape, detail
INTERVALS = (16, 48)  # of equally many rows: holes, clumps and steps of these widths
# Robust standard deviations from the median beyond which a row is an outlier, moderate to extreme.
OUT = (2.0, 3.0, 5.0, 10.0)
OUTLIERS = tuple(f"outliers beyond {out:g} sd" for out in OUT)
FARTHEST = 1e150  # robust standard deviations: squares stay numbers
POINTS = 256  # values that stand for a numeric column beyond memory: quantiles of the sample
RANKS = ("mean rank", "mean and spread of ranks", "shape of ranks", "detail of ranks")
LEVELS = ("the commonest level", "the two commonest levels", "levels")


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Features of one column: those of the nearest of some values."""

    column: int
    points: Float[np.ndarray, " L"]
    table: Float[np.ndarray, "L p"]

    def places(self, rows: Rows) -> Int[np.ndarray, " b"]:
        """The nearest value of every row."""
        middles = self.points[:-1] + 0.5 * (self.points[1:] - self.points[:-1])
        return np.searchsorted(middles, rows.values[:, self.column])

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b p"]:
        """Of these rows."""
        return self.table[self.places(rows)]

    def sums(self, rows: Rows, segments: Segments) -> Float[np.ndarray, "k p"]:
        """Sums by bin: of many rows by counting values."""
        if len(rows.values) < 4 * len(self.points):
            return segments.sums(self(rows))
        return segments.counts(self.places(rows), len(self.points)) @ self.table


@dataclass(frozen=True, eq=False)
class LevelTable(ColumnTable):
    """Features of a column of codes; the last entry is that of levels the sample does not have."""

    def places(self, rows: Rows) -> Int[np.ndarray, " b"]:
        """The code of every row."""
        codes, last = rows.values[:, self.column], len(self.table) - 1
        return np.where((codes >= 0) & (codes < last), codes, last).astype(int)


@dataclass(frozen=True, eq=False)
class EveryLevel(LevelTable):
    """An indicator of every level as a sparse table, each over the root of its count (`table`)."""

    def __call__(self, rows: Rows) -> Any:
        """Of these rows."""
        from scipy.sparse import csr_array

        places, b = self.places(rows), len(rows.values)
        weights = self.table[places, 0]
        return csr_array((weights, places, np.arange(b + 1)), shape=(b, len(self.table)))

    def sums(self, rows: Rows, segments: Segments) -> Any:
        """Sums by bin."""
        return segments.sums(self(rows))


def column_ensemble(sample: Sample, c: int) -> Ensemble:
    """The members of the test of one column."""
    column, name = np.sort(sample.values[:, c]), sample.names[c]
    parts: list[tuple[Any, tuple[str, ...]]]
    if sample.categorical[c]:
        parts = _of_levels(column, c)
        groups = np.zeros(sum(len(titles) for _, titles in parts), dtype=int)
    else:
        parts = _of_numbers(column, c, sample.complete)
        groups = np.array([0] * len(RANKS) + [1] * (1 + len(OUT)) + [2] * len(INTERVALS) + [3])
    titles = [title for _, own in parts for title in own]
    plan = Plan(np.arange(len(titles)), groups, np.zeros(groups.max() + 1, dtype=bool))
    kernels = tuple(of_columns(title, name) for title in titles)
    return Ensemble(tuple(member for member, _ in parts), kernels, plan, fused=True)


def _of_levels(codes: Column, c: int) -> list[tuple[Any, tuple[str, ...]]]:
    table = fit_levels(codes).table
    levels = np.arange(len(table), dtype=float)
    found: list[tuple[Any, tuple[str, ...]]] = [
        (FeatureMember(LevelTable(c, levels, table), DEGREE, (1, 2, DEGREE)), LEVELS)
    ]
    counts = np.bincount(codes.astype(int), minlength=len(table))
    if (counts > 0).sum() > DEGREE:  # a difference spread over many levels
        every = EveryLevel(c, levels, 1.0 / np.sqrt(1.0 + counts)[:, None])
        found.append((FeatureMember(every, len(table), (len(table),)), ("all levels",)))
    return found


def _of_numbers(column: Column, c: int, complete: bool) -> list[tuple[Any, tuple[str, ...]]]:
    """Ranks, distances from the median, intervals of ranks, and repeated values: blocks of one table."""
    values, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    offset = column - np.median(column)
    z = np.minimum(np.abs(offset) / (float(robust_spread(offset)) or 1.0), FARTHEST)
    outlying = _standardised(np.column_stack([np.log1p(z * z), *(z > out for out in OUT)]))
    blocks = [
        (rank_polynomials(column), DEGREE, CUTS, RANKS),
        (outlying, 1, (1,), ("distance from the median", *OUTLIERS)),
        *((_intervals(where, counts, k), k, (k,), (f"{k} intervals of ranks",)) for k in INTERVALS),
        (_standardised(np.log(counts)[where][:, None]), 1, (1,), ("repeated values",)),
    ]  # fmt: skip
    features = np.hstack([block for block, *_ in blocks])
    rows = np.searchsorted(column, values)
    if not complete and len(values) > POINTS:
        places = (np.arange(POINTS) + 0.5) / POINTS
        rows = np.unique(np.searchsorted(column, np.quantile(column, places, method="inverted_cdf")))
    table = ColumnTable(c, column[rows], features[rows])
    found: list[tuple[Any, tuple[str, ...]]] = []
    start = 0
    for block, width, cuts, titles in blocks:
        chosen = np.eye(features.shape[1])[:, start : start + block.shape[1]]
        found.append((FeatureMember(table, width, cuts, chosen), titles))
        start += block.shape[1]
    return found


def _intervals(
    where: Int[np.ndarray, " N"], counts: Int[np.ndarray, " L"], count: int
) -> Float[np.ndarray, "N count"]:
    """Indicators of intervals of the ranks, each over the root of its share; equal values are in one."""
    N = len(where)
    middle = (np.cumsum(counts) - 0.5 * counts) / N
    interval = np.minimum((middle * count).astype(int), count - 1)[where]
    shares = np.bincount(interval, minlength=count) / N
    return ((interval[:, None] == np.arange(count)) - shares) / np.sqrt(np.where(shares > 0.0, shares, 1.0))


def _standardised(features: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "N k"]:
    """Mean 0 and variance 1; 0 where nothing varies."""
    centred = features - features.mean(axis=0)
    sd = centred.std(axis=0)
    nothing = sd <= 1e-12 * np.maximum(np.abs(features).max(axis=0), 1.0)  # rounding
    return np.where(nothing, 0.0, centred / np.where(nothing, 1.0, sd))

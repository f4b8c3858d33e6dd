"""The space a test works in: columns in their own units, discrete columns beside them, one squared distance.

Words such as "median" and "fused" choose among Gaussians of the distance

    d²(x, y) = Σ_numeric (x_c - y_c)²/s_c² + Σ_discrete 2/p_c [x_c ≠ y_c],

with s_c the robust spread of column c and p_c the share of pairs of rows that differ in it: every column adds
2 on average, as a normal column of unit spread does, so that no unit and no coding decides the answer. It is
computed from the pooled, unordered rows alone.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kembed.core.backend import Bool, Float
from kembed.core.linalg import (
    median_of_line,
    median_of_pairs,
    order_statistics,
    robust_spread,
    squared_distances,
)
from kembed.core.ordering import sorted_rows

Rows = Float[np.ndarray, "n D"]
# The median is taken over at most so many rows, an even choice of the sorted ones: half a million distances.
MEDIAN_ROWS = 1_000
# Rows whose products with the others are worked on at once (half a megabyte), and rows worth that work.
STRIP, FEWEST = 64, 128
# Twice what a squared distance by products is off, for every term and as a share of the largest: 8 roundings.
ROUNDING = 1e-15
MOST_CLOSE = 20_000  # pairs that rounding does not tell from the median: more, and values repeat
# A row further out than this, in spreads, is simply far: its squares must stay numbers.
FAR = 1e100


@dataclass(frozen=True, eq=False)
class Space:
    """Rows in units of the columns' spreads, and the codes of discrete columns."""

    values: Float[np.ndarray, "N D"]  # as the user gave them
    categorical: Bool[np.ndarray, " D"]
    spread: Float[np.ndarray, " D"]  # of numeric columns; 1 elsewhere
    penalty: Float[np.ndarray, " C"]  # √(2/p_c) of discrete columns

    @cached_property
    def numeric(self) -> Float[np.ndarray, "N E"]:
        """Numeric columns over their spreads, about their medians; a column of zeros where there are none."""
        columns = self.values[:, ~self.categorical]
        if not columns.shape[1]:
            return np.zeros((len(columns), 1))
        scaled = (columns - np.median(columns, axis=0)) / self.spread[~self.categorical]
        return np.clip(scaled, -FAR, FAR)

    @property
    def codes(self) -> Float[np.ndarray, "N C"]:
        """Discrete columns."""
        return self.values[:, self.categorical]

    @cached_property
    def rows(self) -> Float[np.ndarray, "N E+C"]:
        """Numeric columns as above, then codes: what `distances` takes."""
        return np.column_stack([self.numeric, self.codes])

    def column(self, c: int) -> "Space":
        """The space of one column."""
        return make_space(self.values[:, [c]], self.categorical[[c]])

    @cached_property
    def coordinates(self) -> Float[np.ndarray, "N E+L"]:
        """Points whose squared distances are d²: numeric columns, then an indicator of every level."""
        parts = [self.numeric]
        for column, cost in zip(self.codes.T, self.penalty, strict=True):
            parts.append(np.sqrt(0.5) * cost * (column[:, None] == np.unique(column)))
        return np.hstack(parts)

    def distances(self, rows: Rows, others: Rows) -> Float[np.ndarray, "n m"]:
        """d² between rows of `Space.rows`."""
        E = self.numeric.shape[1]
        squared = squared_distances(rows[:, :E], others[:, :E])
        squared += mismatch(rows[:, E:], others[:, E:], self.penalty)
        return squared

    def median(self) -> float:
        """The median distance over pairs of distinct rows (of all pairs, where that is not 0)."""
        return self._median

    @cached_property
    def _median(self) -> float:
        rows = sorted_rows(self.rows)
        if len(rows) > MEDIAN_ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, MEDIAN_ROWS).round().astype(int)]
        if rows.shape[1] == 1 and not self.categorical.any():
            return float(np.sqrt(median_of_line(rows[:, 0]))) or 1.0
        squared = self._median_by_products(rows) or median_of_pairs(self.distances(rows, rows))
        # Every row the same, or a thinned table of duplicates: any lengthscale would do.
        return float(np.sqrt(squared)) or 1.0

    def _median_by_products(self, rows: Rows) -> float | None:
        """The median of `distances` over pairs of these rows, to the last bit; None where that is in doubt.

        Distances by products, |x|² + |y|² - 2x·y, are quick and off by rounding. Their median is off by no
        more than that, so that differences need be taken only of the few pairs that are as near to it.
        """
        n, E = len(rows), self.numeric.shape[1]
        x, codes = rows[:, :E], rows[:, E:]
        norms, turned = np.square(x).sum(axis=1), np.ascontiguousarray(-2.0 * x.T)
        largest = 2.0 * float(norms.max(initial=0.0)) + float(np.square(self.penalty).sum())
        slack = ROUNDING * (rows.shape[1] + 2) * largest
        if n < FEWEST or not np.isfinite(slack):
            return None
        starts = np.arange(0, n, STRIP)
        strips = []
        for start in starts.tolist():  # pairs of some rows with all from the first of them on
            own = slice(start, start + STRIP)
            found = x[own] @ turned[:, start:]
            found += norms[own, None]
            found += norms[start:]
            if len(self.penalty):
                found += mismatch(codes[own], codes[start:], self.penalty)
            found[np.tril_indices(len(found))] = np.inf  # only i < j
            strips.append(found.ravel())
        near, pairs = np.concatenate(strips), n * (n - 1) // 2
        ranks = [(pairs - 1) // 2, pairs // 2]
        middle = order_statistics(near, ranks)
        low, high = float(middle[0]) - slack, float(middle[1]) + slack
        close = np.flatnonzero((near >= low) & (near <= high))
        if len(close) > MOST_CLOSE:
            return None
        ends = np.cumsum([len(strip) for strip in strips])
        strip = np.searchsorted(ends, close, side="right")
        first, length = starts[strip], n - starts[strip]
        place = close - np.append(0, ends)[strip]
        i, j = first + place // length, first + place % length
        squared, unlike = np.zeros(len(close)), np.zeros(len(close))  # added up as `distances` does
        for column in x.T:
            squared += np.square(column[i] - column[j])
        for column, cost in zip(codes.T, self.penalty, strict=True):
            unlike += cost**2 * (column[i] != column[j])
        places = np.array(ranks) - int(np.count_nonzero(near < low))
        return float(np.mean(np.sort(squared + unlike)[places]))


def mismatch(codes: Rows, others: Rows, penalty: Float[np.ndarray, " C"]) -> Float[np.ndarray, "n m"]:
    """Σ_c penalty_c² [x_c ≠ y_c]."""
    total = np.zeros((len(codes), len(others)))
    for c, cost in enumerate(penalty):
        total += cost**2 * (codes[:, c, None] != others[:, c])
    return total


def make_space(values: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]) -> Space:
    """The space of the pooled rows: a function of the unordered rows."""
    D = values.shape[1]
    spread = np.ones(D)
    for c in np.flatnonzero(~categorical):
        column = np.sort(values[:, c])
        spread[c] = float(robust_spread(column - np.median(column))) or 1.0
    penalty = []
    for c in np.flatnonzero(categorical):
        share = np.unique(values[:, c], return_counts=True)[1] / len(values)
        differ = 1.0 - float(np.sort(share**2).sum())
        penalty.append(np.sqrt(2.0 / differ) if differ > 0.0 else 1.0)
    return Space(values, categorical, spread, np.array(penalty))

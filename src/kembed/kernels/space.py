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
from kembed.core.linalg import median_of_pairs, robust_spread, squared_distances
from kembed.core.ordering import sorted_rows

Rows = Float[np.ndarray, "n D"]
# The median is taken over at most so many rows, an even choice of the sorted ones: half a million distances.
MEDIAN_ROWS = 1_000
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
        squared = median_of_pairs(self.distances(rows, rows))
        # Every row the same, or a thinned table of duplicates: any lengthscale would do.
        return float(np.sqrt(squared)) or 1.0


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

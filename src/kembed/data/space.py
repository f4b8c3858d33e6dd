"""The space a test works in: columns in their own units, discrete columns beside them, one squared distance.

Words such as "median" and "fused" choose among Gaussians of the distance

    d²(x, y) = Σ_numeric (x_c - y_c)²/s_c² + Σ_discrete 2/p_c [x_c ≠ y_c],

with s_c the robust spread of column c and p_c the share of pairs of rows that differ in it: every column adds
2 on average, as a normal column of unit spread does, so that no unit and no coding decides the answer. It is
computed from the pooled, unordered rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kembed.core.linalg import squared_distances
from kembed.kernels.base import Kernel
from kembed.kernels.composite import Product
from kembed.kernels.discrete import Delta, OnColumns
from kembed.kernels.stationary import Gaussian
from kembed.learning.frame import lexicographic
from kembed.permutation.gram import Pairs, gaussian_pairs

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from kembed.permutation.gram import Rectangle, Rows

# The median is taken over at most so many rows, an even choice of the sorted ones.
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

    @property
    def numeric(self) -> Float[np.ndarray, "N E"]:
        """Numeric columns over their spreads, about their medians."""
        columns = self.values[:, ~self.categorical]
        if not columns.shape[1]:
            return np.zeros((len(columns), 1))
        scaled = (columns - np.median(columns, axis=0)) / self.spread[~self.categorical]
        return np.clip(scaled, -FAR, FAR)

    @property
    def codes(self) -> Float[np.ndarray, "N C"]:
        """Discrete columns."""
        return self.values[:, self.categorical]

    @property
    def mismatch(self) -> Callable[[Rows, Rows], Rectangle] | None:
        """Σ_discrete 2/p_c [x_c ≠ y_c] on rectangles; None without discrete columns."""
        if not self.categorical.any():
            return None
        codes, penalty = self.codes, self.penalty

        def extra(rows: Rows, columns: Rows) -> Rectangle:
            total = np.zeros((len(rows), len(columns)))
            for c in range(codes.shape[1]):
                total += penalty[c] ** 2 * (codes[rows, c][:, None] != codes[columns, c])
            return total

        return extra

    def pairs(self, lengthscales: Float[np.ndarray, " J"]) -> Pairs:
        """Gaussians of the distance."""
        return gaussian_pairs(self.numeric, np.asarray(lengthscales, dtype=float), self.mismatch)

    def kernel(self, lengthscale: float | Float[np.ndarray, " E"]) -> Kernel:
        """The Gaussian of the distance as a kernel on the user's own columns.

        With a lengthscale for each numeric column, discrete ones take the geometric mean.
        """
        numeric = tuple(int(c) for c in np.flatnonzero(~self.categorical))
        discrete = tuple(int(c) for c in np.flatnonzero(self.categorical))
        if not discrete:
            scales = lengthscale * self.spread
            return Gaussian(float(scales[0]) if len(scales) == 1 else scales)
        typical = float(np.exp(np.mean(np.log(lengthscale))))
        delta = OnColumns(Delta(self.penalty / typical), discrete)
        if not numeric:
            return delta
        scales = lengthscale * self.spread[~self.categorical]
        return Product(OnColumns(Gaussian(scales), numeric), delta)

    def median(self) -> float:
        """The median distance over pairs of distinct rows (of all pairs, where that is not 0)."""
        rows = lexicographic(np.column_stack([self.numeric, self.codes]))
        if len(rows) > MEDIAN_ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, MEDIAN_ROWS).round().astype(int)]
        E = self.numeric.shape[1]
        squared = squared_distances(rows[:, :E], rows[:, :E])
        for c, penalty in enumerate(self.penalty):
            squared += penalty**2 * (rows[:, E + c, None] != rows[:, E + c])
        squared = squared[np.triu_indices(len(rows), 1)]
        if not squared.any():  # every row the same, or a thinned table of duplicates
            return 1.0
        middle = float(np.median(squared))
        if middle == 0.0:
            middle = float(np.median(squared[squared > 0.0]))
        return float(np.sqrt(middle))


def make_space(values: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]) -> Space:
    """The space of the pooled rows: a function of the unordered rows."""
    D = values.shape[1]
    spread = np.ones(D)
    for c in np.flatnonzero(~categorical):
        spread[c] = _spread(np.sort(values[:, c]))
    penalty = []
    for c in np.flatnonzero(categorical):
        share = np.unique(values[:, c], return_counts=True)[1] / len(values)
        differ = 1.0 - float(np.sort(share**2).sum())
        penalty.append(np.sqrt(2.0 / differ) if differ > 0.0 else 1.0)
    return Space(values, categorical, spread, np.array(penalty))


def _spread(column: Float[np.ndarray, " N"]) -> float:
    """1.4826 median absolute deviations; the standard deviation where more than half the column is tied."""
    centre = np.median(column)
    away = np.abs(column - centre)
    size = float(away.max())
    if size == 0.0:
        return 1.0
    mad = 1.4826 * float(np.median(away))
    return mad if mad > 0.0 else size * float(np.std((column - centre) / size))

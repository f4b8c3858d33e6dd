"""Kernel mean embeddings: what they all can do, and the empirical one.

An embedding is the function μ(s) = E k(s, X). Its estimates differ in what they know: `empirical` averages,
`shrinkage` averages and pulls towards 0, `fit_embedding` puts the prior GP(0, r) on μ and returns the
posterior, with its uncertainty, in closed form.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, to_numpy
from kembed.core.drawing import Drawn
from kembed.core.writing import jsonable
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.convolution import Convolved, section_inner
from kembed.kernels.measures import EmpiricalMeasure, Measure

# Kernel matrices against many rows are made in blocks of at most this many entries (32 MiB).
BLOCK_ENTRIES = 4_194_304
# A sum of functions: the measure of r, or None for plain k; points; coefficients.
Section = tuple[Measure | None, np.ndarray, np.ndarray]


class Embedding(Drawn):
    """An estimate of a mean embedding: a function in the RKHS of `kernel`.

    Every estimate is Σ_i w_i k(·, x_i) + Σ_l β_l r(·, z_l); `_sections` lists such sums.
    """

    kernel: Kernel

    def mean(self, points: Any) -> Float[np.ndarray, " p"]:
        """The estimate of μ at points, (p, D)."""
        raise NotImplementedError

    def _sections(self) -> list[Section]:
        """The sums it is made of."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The kernel, and the points and weights it is a sum over (of k, or of r under a measure)."""
        sums = [
            {"measure": None if nu is None else repr(nu), "points": points, "weights": weights}
            for nu, points, weights in self._sections()
        ]
        return jsonable({"kernel_used": repr(self.kernel), "sums": sums})

    def inner(self, other: "Embedding") -> float:
        """⟨μ, μ'⟩ in the RKHS, between the (posterior mean) embeddings.

        Both must use the same kernel: functions of different spaces have no inner product.
        """
        if not isinstance(other, Embedding):
            raise TypeError(f"other must be an embedding, but {other!r} was given")
        if self.kernel != other.kernel:
            seen = f"the embeddings have different kernels ({self.kernel!r} and {other.kernel!r})"
            raise ValueError(f"{seen}; fit both with the same one")
        pairs = itertools.product(self._sections(), other._sections())
        return sum(_bilinear(self.kernel, left, right) for left, right in pairs)

    def norm(self) -> float:
        """‖μ‖ in the RKHS."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other: "Embedding") -> float:
        """‖μ - μ'‖ in the RKHS: the maximum mean discrepancy (its square is MMD²)."""
        squared = self.inner(self) - 2.0 * self.inner(other) + other.inner(other)
        return float(np.sqrt(max(squared, 0.0)))

    def __sub__(self, other: "Embedding") -> Callable[[Any], np.ndarray]:
        """The witness function μ - μ'."""
        if not isinstance(other, Embedding):
            return NotImplemented
        return lambda points: self.mean(points) - other.mean(points)


@dataclass(frozen=True, eq=False, repr=False)
class WeightedEmbedding(Embedding):
    """Σ_i w_i k(·, x_i)."""

    kernel: Kernel
    x: np.ndarray
    weights: np.ndarray
    shrinkage: float = 0.0

    def mean(self, points: Any) -> Float[np.ndarray, " p"]:
        """Σ_i w_i k(s, x_i) at points s."""
        points = np.asarray(checks.points(points, "points", dimension=self.x.shape[1]))
        return weighted_sum(self.kernel, points, self.x, self.weights)

    def _sections(self) -> list[Section]:
        return [(None, self.x, self.weights)]

    def __repr__(self) -> str:
        shrunk = f", shrinkage={self.shrinkage:.4g}" if self.shrinkage else ""
        return f"WeightedEmbedding(n={len(self.x)}, kernel={self.kernel!r}{shrunk})"


def empirical(x: Any, kernel: Kernel) -> WeightedEmbedding:
    """The empirical embedding μ̂ = (1/n) Σ_i k(·, x_i), Eq. (2) of the paper.

    >>> from kembed import Gaussian, empirical
    >>> mu = empirical([[0.0], [1.0]], Gaussian(1.0))
    >>> mu.mean([[0.0]]).round(4)  # (1 + exp(-1/2)) / 2
    array([0.8033])
    """
    kernel = to_numpy(check_kernel(kernel))
    x = np.asarray(checks.points(x, "x"))
    return WeightedEmbedding(kernel, x, np.full(len(x), 1.0 / len(x)))


def _bilinear(kernel: Kernel, left: Section, right: Section) -> float:
    """Σ_ij a_i b_j ⟨section at x_i, section at y_j⟩."""
    (nu, X, a), (other, Y, b) = left, right
    if nu is not None and other is not None:
        return float(a @ section_inner(kernel, nu, other, X, Y) @ b)
    measure = other if nu is None else nu  # ⟨k(·, x), r(·, z)⟩ = r(x, z)
    function = kernel if measure is None else kernel.convolved(measure)
    return float(a @ weighted_sum(function, X, Y, b))


def weighted_sum(
    function: Any, points: np.ndarray, x: np.ndarray, weights: np.ndarray, entries: int = BLOCK_ENTRIES
) -> np.ndarray:
    """Σ_j w_j f(s_i, x_j) with bounded memory, whichever of the two is long."""
    if isinstance(function, Convolved) and isinstance(function.measure, EmpiricalMeasure):
        u = function.measure.points  # Σ_u k(s, u) {w_u Σ_j k(u, x_j) w_j}: two thin products in place of r
        inner = function.measure.weights * weighted_sum(function.kernel, u, x, weights, entries)
        return weighted_sum(function.kernel, points, u, inner, entries)
    total = np.zeros(len(points))
    height = max(1, entries // max(1, min(len(x), 1_024)))
    for rows in row_blocks(len(points), 1, height):
        for columns in row_blocks(len(x), min(len(points), height), entries):
            total[rows] += function._gram(points[rows], x[columns]) @ weights[columns]
    return total


def row_blocks(rows: int, columns: int, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Slices over rows such that a block with so many columns stays within so many entries."""
    size = max(1, entries // max(1, columns))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))

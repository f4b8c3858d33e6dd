"""Kernels on the rows of one table, served in rectangles: the only way the tests see a kernel matrix.

Nothing holds an n x n matrix. Several kernels may share one base, such as the squared distances: the base is
computed once and every kernel is a cheap function of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed._linalg import squared_distances
from kembed.kernels.base import Kernel
from kembed.kernels.stationary import Gaussian, Stationary

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Rows = Int[np.ndarray, " a"]
    Rectangle = Float[np.ndarray, "a b"]

# |x|² + |y|² - 2x·y is exact to about this share of the largest |x|²; more than that of a squared
# lengthscale would be seen, and then distances are taken by differences.
ROUNDING = 1e-15
VISIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class Pairs:
    """J kernels on N rows.

    `base(rows, columns)` is a new rectangle; `maps[j](rectangle, out)` writes kernel j's values into `out`
    (None: the base is the kernel). `diagonals[j]` holds k_j(x_i, x_i). `definite` says that the kernels are
    known to be positive definite.
    """

    size: int
    base: Callable[[Rows, Rows], Rectangle]
    maps: tuple[Callable[[Rectangle, Rectangle], None] | None, ...]
    diagonals: Float[np.ndarray, "J N"]
    definite: bool = True

    def rectangles(self, rows: Rows, columns: Rows) -> list[Rectangle]:
        """Every kernel on a rectangle."""
        base = self.base(rows, columns)
        return [self.mapped(j, base, np.empty_like(base)) for j in range(len(self.maps))]

    def only(self, j: int) -> Pairs:
        """Kernel j by itself."""
        return Pairs(self.size, self.base, (self.maps[j],), self.diagonals[j : j + 1], self.definite)

    def mapped(self, j: int, base: Rectangle, out: Rectangle) -> Rectangle:
        """Kernel j from its base: `out`, or the base itself."""
        apply = self.maps[j]
        if apply is None:
            return base
        apply(base, out)
        return out


def distance_base(u: Float[np.ndarray, "N D"]) -> Callable[[Rows, Rows], Rectangle]:
    """|u_i - u_j|² in rectangles, in units in which a difference of about 1 matters."""
    u = u - np.median(u, axis=0)
    norms = (u**2).sum(axis=1)
    if u.shape[1] < 3 or not ROUNDING * norms.max(initial=0.0) < VISIBLE:
        return lambda rows, columns: squared_distances(u[rows], u[columns])
    doubled = -2.0 * u

    def by_product(rows: Rows, columns: Rows) -> Rectangle:
        rectangle = u[rows] @ doubled[columns].T
        rectangle += norms[rows, None]
        rectangle += norms[columns]
        return np.maximum(rectangle, 0.0, out=rectangle)

    return by_product


def gaussian_pairs(
    u: Float[np.ndarray, "N D"],
    lengthscales: Float[np.ndarray, " J"],
    extra: Callable[[Rows, Rows], Rectangle] | None = None,
) -> Pairs:
    """Gaussians of several lengthscales on one table of distances, plus the `extra` of discrete columns."""
    unit = float(min(lengthscales))
    distances = distance_base(u / unit)

    def base(rows: Rows, columns: Rows) -> Rectangle:
        rectangle = distances(rows, columns)
        if extra is not None:
            rectangle += extra(rows, columns) / unit**2
        return rectangle

    maps = tuple(_gaussian_map(float(ell) / unit) for ell in lengthscales)
    return Pairs(len(u), base, maps, np.ones((len(maps), len(u))))


def _gaussian_map(ell: float) -> Callable[[Rectangle, Rectangle], None]:
    factor = -0.5 / ell**2

    def write(base: Rectangle, out: Rectangle) -> None:
        np.multiply(base, factor, out=out)
        np.exp(out, out=out)

    return write


def kernel_pairs(kernel: Kernel, x: Float[np.ndarray, "N D"]) -> Pairs:
    """One kernel object on the rows of a table."""
    diagonal = np.exp(kernel._log_diagonal(x))[None]
    if not isinstance(kernel, Stationary):
        return Pairs(len(x), lambda rows, columns: kernel._gram(x[rows], x[columns]), (None,), diagonal)
    kernel.check_dimension(x.shape[1])
    if np.ndim(kernel.lengthscale) < 2:
        u = x / kernel.lengthscale
    else:
        u = np.linalg.solve(kernel.lengthscale, x.T).T
    if isinstance(kernel, Gaussian):
        return Pairs(len(x), distance_base(u), (_gaussian_map(1.0),), diagonal)

    def write(base: Rectangle, out: Rectangle) -> None:
        np.exp(kernel.profile(base), out=out)

    return Pairs(len(x), distance_base(u), (write,), diagonal)


def function_pairs(function: Callable[[Any, Any], Any], x: Any, name: str) -> Pairs:
    """A user's function (rows, rows) -> matrix on the rows of a table."""

    def base(rows: Rows, columns: Rows) -> Rectangle:
        value = np.array(function(x[rows], x[columns]), dtype=float)
        if value.shape != (len(rows), len(columns)):
            raise ValueError(
                f"{name} must return a matrix of shape {(len(rows), len(columns))} for tables of "
                f"{len(rows)} and {len(columns)} rows, but it returned shape {value.shape}"
            )
        if not np.isfinite(value).all():
            raise ValueError(f"{name} returned values that are not finite; check it on a few rows")
        return value

    every = np.arange(len(x))
    head = every[: min(len(x), 50)]
    block = base(head, head)
    if not np.allclose(block, block.T, rtol=1e-8, atol=1e-10 * np.abs(block).max()):
        raise ValueError(f"{name} is not symmetric: k(x, y) differs from k(y, x); give a symmetric kernel")
    diagonal = np.concatenate(
        [base(part, part).diagonal() for part in np.array_split(every, -(-len(x) // 64))]
    )
    return Pairs(len(x), base, (None,), diagonal[None], definite=False)

"""Kernels on the rows of one table, served in rectangles: the only way the tests see a kernel matrix.

Nothing holds an n x n matrix. Several kernels may share one base, such as the squared distances: the base is
computed once and every kernel is a cheap function of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.linalg import squared_distances
from kembed.kernels.base import Kernel, refuse_entries
from kembed.kernels.space import Space, mismatch
from kembed.kernels.stationary import Gaussian, Metric, Stationary

Rows = Int[np.ndarray, " a"]
Table = Float[np.ndarray, "N D"]
Rectangle = Float[np.ndarray, "a b"]
Base = Callable[[Rows, Rows], Rectangle]
Map = Callable[[Rectangle, Rectangle], Rectangle]
# |x|² + |y|² - 2x·y is exact to about this share of the largest |x|². Where that is more than a billionth of
# a squared lengthscale (a statistic would move by more than what counts as a tie, `nulls.TIE`) distances
# are taken by differences.
ROUNDING = 1e-15
VISIBLE = 1e-9
# Further away than this, in lengthscales, is infinitely far; its square is still a number.
FAR = 1e150
# A kernel whose usual entry is above this is served less 1, so that its small variations keep their digits.
MOSTLY_ONE = 0.5
SOME_ROWS = 64  # tell what a usual entry is: 2,000 pairs
STEP = 64  # rows whose rectangle is computed for the sake of its diagonal


class KernelSums(NamedTuple):
    """What a statistic needs of a kernel matrix whatever the labels: K₀ is K with its diagonal set to 0.

    Of one kernel, or of several with one row for each.
    """

    rows: Float[np.ndarray, "*J N"]  # K₀1
    diagonal: Float[np.ndarray, "*J N"]  # K_ii
    squares: Any  # ‖K₀‖²

    @property
    def usual(self) -> Any:
        """Root mean square of the entries off the diagonal."""
        N = self.rows.shape[-1]
        return np.sqrt(np.maximum(self.squares, 0.0) / (N * (N - 1.0)))


@dataclass(frozen=True, eq=False)
class Pairs:
    """J kernels on N rows.

    `base(rows, columns)` is a new rectangle; `maps[j](rectangle, out)` is kernel j on it, written into `out`
    or the rectangle itself. `diagonals[j]` holds k_j(x_i, x_i). `definite` says that the kernels are known to
    be positive definite. Kernel j is what is served plus `offsets[j]`: MMD² and HSIC do not change when a
    constant is added to a kernel, but its digits do. `space` and `lengthscales` are those of Gaussians of the
    distance of a space, so that others of the same space can join them.
    """

    size: int
    base: Base
    maps: tuple[Map, ...]
    diagonals: Float[np.ndarray, "J N"]
    definite: bool = True
    offsets: tuple[float, ...] = (0.0,)
    space: Space | None = None
    lengthscales: tuple[float, ...] = ()

    def rectangles(self, rows: Rows, columns: Rows) -> list[Rectangle]:
        """Every kernel on a rectangle."""
        base = self.base(rows, columns)
        return [apply(base, np.empty_like(base)) for apply in self.maps]

    def some(self, which: list[int]) -> "Pairs":
        """Some of the kernels."""
        maps, offsets = tuple(self.maps[j] for j in which), tuple(self.offsets[j] for j in which)
        lengthscales = tuple(self.lengthscales[j] for j in which) if self.space else ()
        kept = self.diagonals[which], self.definite, offsets, self.space, lengthscales
        return Pairs(self.size, self.base, maps, *kept)

    def weighted(self, j: int, v: Float[np.ndarray, " N"]) -> "Pairs":
        """The kernel v_i K_ij v_j for kernel j."""
        one = self.some([j])
        return matrix_pairs(
            lambda rows, columns: one.rectangles(rows, columns)[0] * v[rows, None] * v[columns],
            self.diagonals[j] * v**2,
        )

    def at(self, a: Rows, b: Rows) -> Float[np.ndarray, "J n"]:
        """Every kernel at the pairs (a_i, b_i): diagonals of small rectangles."""
        steps = [slice(i, i + STEP) for i in range(0, len(a), STEP)]
        return np.hstack([[block.diagonal() for block in self.rectangles(a[i], b[i])] for i in steps])


def matrix_pairs(base: Base, diagonal: Float[np.ndarray, " N"], *, definite: bool = True) -> Pairs:
    """One kernel, given by its rectangles."""
    return Pairs(len(diagonal), base, (lambda rectangle, out: rectangle,), diagonal[None], definite)


def dense_pairs(K: Rectangle, *, definite: bool = True) -> Pairs:
    """One kernel, given as a matrix."""
    return matrix_pairs(lambda a, b: K[np.ix_(a, b)], K.diagonal().copy(), definite=definite)


def distance_base(u: Table) -> Base:
    """|u_i - u_j|² in rectangles, in units in which a difference of about 1 matters."""
    u = np.clip(u - np.median(u, axis=0), -FAR, FAR)
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


def gaussian_pairs(u: Table, lengthscales: Float[np.ndarray, " J"], extra: Base | None = None) -> Pairs:
    """Gaussians of several lengthscales on one table of distances, plus the `extra` of discrete columns."""
    unit = float(min(lengthscales))
    distances = distance_base(u / unit)

    def base(rows: Rows, columns: Rows) -> Rectangle:
        rectangle = distances(rows, columns)
        if extra is not None:
            rectangle += extra(rows, columns) / unit**2
        return rectangle

    def gaussian(factor: float, function: Any) -> Map:
        return lambda base, out: function(np.multiply(base, factor, out=out), out=out)

    some = np.unique(np.linspace(0, len(u) - 1, min(len(u), SOME_ROWS)).round().astype(int))
    usual = base(some, some)
    maps, offsets = [], []
    for ell in lengthscales:
        factor = -0.5 / (float(ell) / unit) ** 2
        mostly_one = np.exp(factor * usual).mean() > MOSTLY_ONE
        maps.append(gaussian(factor, np.expm1 if mostly_one else np.exp))
        offsets.append(float(mostly_one))
    diagonals = np.repeat(1.0 - np.array(offsets)[:, None], len(u), axis=1)
    return Pairs(len(u), base, tuple(maps), diagonals, offsets=tuple(offsets))


def space_pairs(space: Space, lengthscales: Float[np.ndarray, " J"]) -> Pairs:
    """Gaussians of the distance of a space."""
    codes, penalty = space.codes, space.penalty

    def extra(rows: Rows, columns: Rows) -> Rectangle:
        return mismatch(codes[rows], codes[columns], penalty)

    found = gaussian_pairs(space.numeric, lengthscales, extra if space.categorical.any() else None)
    return replace(found, space=space, lengthscales=tuple(map(float, lengthscales)))


def kernel_pairs(kernel: Kernel, x: Table) -> Pairs:
    """One kernel object on the rows of a table."""
    if not isinstance(kernel, Stationary):
        diagonal = np.exp(kernel._log_diagonal(x))
        return matrix_pairs(lambda rows, columns: kernel._gram(x[rows], x[columns]), diagonal)
    kernel.check_dimension(x.shape[1])
    centred = x - np.median(x, axis=0)  # before dividing: a common offset must cost no digits
    if not isinstance(kernel, Metric):
        u = centred
    elif kernel.cholesky is None:
        u = centred / kernel.lengthscale
    else:
        u = np.linalg.solve(kernel.cholesky, centred.T).T
    if isinstance(kernel, Gaussian):
        return gaussian_pairs(u, np.ones(1))
    maps = (lambda base, out: np.exp(kernel.profile(base), out=out),)
    return Pairs(len(x), distance_base(u), maps, np.exp(kernel._log_diagonal(x))[None])


def function_pairs(function: Callable[[Any, Any], Any], x: Any) -> Pairs:
    """A user's function (rows, rows) -> matrix on the rows of a table."""

    def base(rows: Rows, columns: Rows) -> Rectangle:
        return function_values(function, x[rows], x[columns])

    every = np.arange(len(x))
    block = base(every[:50], every[:50])
    if not np.allclose(block, block.T, rtol=1e-8, atol=1e-10 * np.abs(block).max()):
        raise ValueError("kernel is not symmetric: k(x, y) differs from k(y, x); give a symmetric kernel")
    refuse_entries(float(np.abs(block).max()))
    (diagonal,) = matrix_pairs(base, np.zeros(len(x))).at(every, every)
    return matrix_pairs(base, diagonal, definite=False)


def function_values(function: Callable[[Any, Any], Any], x: Table, y: Table) -> Rectangle:
    """What a user's function says of these rows: a matrix of finite real numbers, and a copy."""
    found = function(x, y)
    if np.iscomplexobj(found):
        raise ValueError("kernel returned complex numbers; return real ones, such as their real part")
    value = np.array(checks.numbers(found, "what kernel returned"), dtype=float)
    if value.shape != (len(x), len(y)):
        raise ValueError(
            f"kernel must return a matrix of shape {(len(x), len(y))} for tables of "
            f"{len(x)} and {len(y)} rows, but it returned shape {value.shape}"
        )
    if not np.isfinite(value).all():
        raise ValueError("kernel returned values that are not finite; check it on a few rows")
    refuse_entries(max(float(np.abs(value).max(initial=0.0)), 1.0))  # single rectangles may be faint
    return value

"""What the density (`density.py`) starts from: a Student t, edges, and a warp that pulls in the tails.

The t is that of maximum likelihood, its scatter shrunk to a multiple of I so that n < E works, its degrees
of freedom chosen by leave-one-out. On the line a base may end at the first row, the last, or both: ages,
shares, counts and years have edges that no smooth f can bend to. The warp u(x) is linear where the rows are
and logarithmic beyond, so that a function that is stationary in u does not swing in the far tails, and a
row at 1e6 is a few units away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtri, gammaln, ndtri

from kembed.core.backend import Float
from kembed.core.linalg import robust_spread

Array = np.ndarray
FREEDOMS = (1_000.0, 30.0, 10.0, 5.0, 3.0, 2.0, 1.0)  # of the base, the first is as good as normal
EM_STEPS = 12  # for each of them, from where the last one ended
FLOOR = 1e-8  # of a spread: what keeps the scatter of dependent axes regular
KNEE = 3.0  # spreads from the centre, beyond which the warp is logarithmic
LEAST_GAP = 1e-4  # of the rows' range: how soft an edge is at least, where rows are tied there


@dataclass(frozen=True, eq=False)
class Student:
    """The multivariate t: centre, lower factor of the scatter, degrees of freedom."""

    centre: Float[Array, " E"]
    lower: Float[Array, "E E"]
    freedom: float

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """log t(x) = c - log |L| - ½ (ν + E) log{1 + |L⁻¹(x - m)|²/ν}."""
        E = len(self.centre)
        squared = (solve_triangular(self.lower, (points - self.centre).T, lower=True) ** 2).sum(axis=0)
        return log_student(squared, E, self.freedom) - np.log(np.diagonal(self.lower)).sum()

    def wider(self, factor: float) -> Student:
        """The same with `factor` times the scatter."""
        return replace(self, lower=self.lower * np.sqrt(factor))

    def marginal(self, axes: Float[Array, "E d"]) -> Student:
        """That of axesᵀ(x - m), centred at 0."""
        half = axes.T @ self.lower
        return Student(np.zeros(axes.shape[1]), np.linalg.cholesky(half @ half.T), self.freedom)

    def draw(self, uniforms: Float[Array, "k E+1"]) -> Float[Array, "k E"]:
        """Points from uniform numbers in (0, 1): E for the normals, the last for the χ²."""
        scale = np.sqrt(chdtri(self.freedom, uniforms[:, -1]) / self.freedom)
        return self.centre + (ndtri(uniforms[:, :-1]) / scale[:, None]) @ self.lower.T


def log_student(squared: Float[Array, " k"], E: int, freedom: float) -> Float[Array, " k"]:
    """log density of the standard multivariate t at squared distances from its centre."""
    constant = gammaln(0.5 * (freedom + E)) - gammaln(0.5 * freedom) - 0.5 * E * np.log(freedom * np.pi)
    return constant - 0.5 * (freedom + E) * np.log1p(squared / freedom)


def fit_student(y: Float[Array, "n E"]) -> tuple[Student, Float[Array, " n"]]:
    """The t of the best leave-one-out likelihood over `FREEDOMS`, and log t₋ᵢ(yᵢ) of every row.

    EM: weights vᵢ = (ν + E)/(ν + qᵢ), centre Σvᵢyᵢ/Σvᵢ, scatter (1 - ρ) Σvᵢdᵢdᵢᵀ/n + ρ τ I, ρ as in
    oracle-approximating shrinkage. Leaving row i out takes its term from both sums (Sherman-Morrison).
    """
    n, E = y.shape
    centre = np.median(y, axis=0)
    spread = robust_spread(y - centre)
    floor = (FLOOR * float(spread.max())) ** 2
    scatter = np.diag(spread**2) + floor * np.eye(E)
    best: tuple[float, Student, Float[Array, " n"]] | None = None
    for freedom in FREEDOMS:
        for _ in range(EM_STEPS):
            lower = np.linalg.cholesky(scatter)
            squared = (solve_triangular(lower, (y - centre).T, lower=True) ** 2).sum(axis=0)
            v = (freedom + E) / (freedom + squared)
            centre = v @ y / v.sum()
            d = y - centre
            raw = (d * v[:, None]).T @ d / n
            size = float(np.trace(raw)) / E
            rho = _shrinkage(raw, n)
            scatter = (1.0 - rho) * raw + (rho * size + floor) * np.eye(E)
        fitted = Student(centre, np.linalg.cholesky(scatter), freedom)
        left = _left_out(y, fitted, raw, rho, rho * size + floor)
        total = float(left.sum())
        if best is not None and total < best[0]:
            break
        best = (total, fitted, left)
    assert best is not None
    return best[1:]


def _left_out(
    y: Float[Array, "n E"], t: Student, raw: Float[Array, "E E"], rho: float, ridge: float
) -> Float[Array, " n"]:
    """log t₋ᵢ(yᵢ): the fit without row i, its weights kept."""
    n, E = y.shape
    lower = np.linalg.cholesky((1.0 - rho) * n / (n - 1.0) * raw + ridge * np.eye(E))
    d = y - t.centre
    squared = (solve_triangular(lower, d.T, lower=True) ** 2).sum(axis=0)
    v = (t.freedom + E) / (t.freedom + (solve_triangular(t.lower, d.T, lower=True) ** 2).sum(axis=0))
    away = v.sum() / np.maximum(v.sum() - v, 1e-9 * v.sum())  # the centre moves from the row by this factor
    gone = np.minimum((1.0 - rho) * v / (n - 1.0) * away * squared, 1.0 - 1e-6)
    outside = squared * away**2 / (1.0 - gone)
    return log_student(outside, E, t.freedom) - np.log(np.diagonal(lower)).sum() - 0.5 * np.log1p(-gone)


def _shrinkage(scatter: Float[Array, "E E"], n: int) -> float:
    """ρ of Chen, Wiesel, Eldar and Hero (2010); 0 where there is nothing to shrink."""
    E = len(scatter)
    both, trace = float((scatter**2).sum()), float(np.trace(scatter)) ** 2
    apart = both - trace / E
    if apart <= 1e-12 * both:
        return 0.0 if E == 1 else 1.0
    return min(1.0, ((1.0 - 2.0 / E) * both + trace) / ((n + 1.0 - 2.0 / E) * apart))


class Edge(NamedTuple):
    """An end of the rows: beyond it a base falls by e every `gap`, the mean spacing of the rows there."""

    end: float
    gap: float
    side: float  # 1 below the rows, -1 above


@dataclass(frozen=True, eq=False)
class Base:
    """q₀: a t, in one dimension perhaps with edges; it need not integrate to 1, as Z takes care of that."""

    student: Student
    edges: tuple[Edge, ...] = ()
    floor: float = 0.0  # what an edge leaves of the t far beyond it: 1/(n + 1)

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """log t(x) + Σ log{exp(-beyond/gap) + floor} over the edges."""
        total = self.student.log_density(points)
        for end, gap, side in self.edges:
            beyond = np.maximum(side * (end - points[:, 0]), 0.0)
            total = total + np.logaddexp(-beyond / gap, np.log(self.floor))
        return total


def bases(y: Float[Array, "n E"], student: Student) -> tuple[Base, ...]:
    """The t alone, and in one dimension with an edge below, above, and on both sides."""
    n, E = y.shape
    if E > 1:
        return (Base(student),)
    v = np.unique(y[:, 0])
    k = min(len(v) - 1, max(3, int(np.sqrt(n))))
    least = LEAST_GAP * (v[-1] - v[0])
    below = Edge(float(v[0]), max(float(v[k] - v[0]) / k, least), 1.0)
    above = Edge(float(v[-1]), max(float(v[-1] - v[-1 - k]) / k, least), -1.0)
    return tuple(Base(student, ends, 1.0 / (n + 1.0)) for ends in ((), (below,), (above,), (below, above)))


class Warp(NamedTuple):
    """u(x) = (x - m) asinh(r)/r, r = |x - m|/(√E KNEE spread): what f is stationary in."""

    centre: Float[Array, " E"]
    spread: float

    def __call__(self, points: Float[Array, "k E"]) -> Float[Array, "k E"]:
        """u of points."""
        away = points - self.centre
        far = np.sqrt((away**2).mean(axis=1)) / (KNEE * self.spread) + 1e-12
        return away * (np.arcsinh(far) / far)[:, None]

    def back(self, u: Float[Array, "k E"]) -> Float[Array, "k E"]:
        """The points of given u."""
        far = np.sqrt((u**2).mean(axis=1)) / (KNEE * self.spread) + 1e-12
        return self.centre + u * (np.sinh(far) / far)[:, None]

    def log_slope(self, u: Float[Array, " k"]) -> Float[Array, " k"]:
        """log dx/du = log cosh(u/KNEE) in one dimension."""
        far = np.abs(u) / (KNEE * self.spread)
        return far + np.log1p(np.exp(-2.0 * far)) - np.log(2.0)

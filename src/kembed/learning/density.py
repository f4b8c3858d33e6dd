"""Density of rows by stacking: a convex mixture of simple densities with cross-validated weights.

The candidates are the multivariate Student t, kernel densities and Gaussian mixtures. Kernel densities have
a grid of bandwidths, the same for all rows or proportional to the distance to a near neighbour, in the given
and in whitened axes; on one column they are also reflected at its edges. The log density of every row is
computed without the row: leave-one-out for the t and the kernels, 5-fold for the mixtures. The weights w
maximise Σᵢ log Σₘ wₘ p₋ᵢ(xᵢ | m).

References
----------
Smyth and Wolpert (1999). Linearly combining density estimators via stacking. Machine Learning 36.
Breiman, Meisel and Purcell (1977). Variable kernel estimates of multivariate densities. Technometrics 19.
Chen, Wiesel, Eldar and Hero (2010). Shrinkage algorithms for MMSE covariance estimation. IEEE Transactions
on Signal Processing 58.

"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp, median_of_pairs, robust_spread, squared_distances

Array = np.ndarray
Evaluate = Callable[[Float[Array, "k E"]], Float[Array, " k"]]
Fit = tuple[Evaluate, Float[Array, " n"]]  # with the left-out log densities
ROWS = 1_000  # rows that are the centres of the kernels and decide the weights
MANY = 5_000  # rows that the t and the mixtures are fitted to
BANDWIDTHS = 0.01, 0.025, 0.063, 0.16, 0.4, 1.0  # in median distances
NEIGHBOUR = 10  # a variable bandwidth is the distance to this neighbour, per axis, ...
FACTORS = 0.25, 0.5, 1.0  # ... times one of these
NARROWEST = 1e-3  # median distances: the least variable bandwidth, where neighbours are tied
TIED = 1e-10  # median distances: rows as close as this are left out together
REACH = 9.0  # bandwidths, beyond which a kernel contributes nothing
EDGE = 1e-4  # ranges: the least distance of an edge from the last row
SIZES = 1, 2, 3, 5, 8  # components of the Gaussian mixtures
MOST_COLUMNS = 64  # of a mixture; fitting larger covariances takes seconds
FOLDS = 5
FAR = 100.0  # Mahalanobis distances from the t, beyond which the mixtures are not fitted
RIDGE = 1e-6  # mean robust variances, added to the covariances of a mixture
STEPS = 100  # of EM for the weights, before and after
LEAST = 0.05  # candidates with smaller weights are dropped
BLOCK = 128  # points at a time, whose distances stay in a processor's cache
FREEDOMS = 1_000.0, 30.0, 10.0, 5.0, 3.0, 2.0, 1.0  # of the t; the first is as good as normal
EM_STEPS = 12  # for each of them, from where the last one ended
FLOOR = 1e-8  # of a robust standard deviation: keeps the scatter of dependent columns regular


@dataclass(frozen=True, eq=False)
class Density:
    """The mixture Σₘ wₘ p(x | m); `log_density` evaluates it."""

    log_members: tuple[Evaluate, ...] = field(repr=False)  # log p(x | m)
    weights: Float[Array, " M"] = field(repr=False)

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """log p(x) at points in the coordinates of the rows."""
        if not len(points):
            return np.zeros(0)
        logs = np.stack([log_member(points) for log_member in self.log_members])
        return np.asarray(log_sum_exp(logs + np.log(self.weights)[:, None], axis=0))


def fit_density(y: Float[Array, "n E"], rng: np.random.Generator) -> Density:
    """Fit the density of rows in canonical order, in coordinates in which one isotropic scale makes sense.

    Parameters
    ----------
    y : array of shape (n, E)
        The rows, sorted, so that the fit is a function of the unordered rows.
    rng : numpy.random.Generator
        Chooses rows where there are more than `ROWS`.

    Returns
    -------
    Density

    Examples
    --------
    >>> y = np.sort(np.random.default_rng(0).normal(size=(300, 1)), axis=0)
    >>> grid = np.linspace(-9.0, 9.0, 3_001)[:, None]
    >>> density = fit_density(y, np.random.default_rng(0))
    >>> round(float(np.exp(density.log_density(grid)).sum() * 0.006), 2)
    1.0

    """
    rows, many = _subsample(y, ROWS, rng), _subsample(y, MANY, rng)
    student, left_out = fit_student(rows)
    if len(many) > len(rows):
        student = fit_student(many)[0]
    fits: list[Fit] = [(student.log_density, left_out)]
    fits += [*_kernel_fits(rows, student), *_mixture_fits(rows, many, student)]
    left_outs = np.stack([left_out for _, left_out in fits])
    kept = stacking_weights(left_outs) > LEAST
    kept[0] = True  # the t stays: outliers need its tails
    log_members = tuple(log_member for (log_member, _), keep in zip(fits, kept, strict=True) if keep)
    return Density(log_members, stacking_weights(left_outs[kept]))


def stacking_weights(left_out: Float[Array, "M n"]) -> Float[Array, " M"]:
    """Weights that maximise Σᵢ log Σₘ wₘ exp(left_outₘᵢ) + log w₀, by EM from equal ones.

    >>> stacking_weights(np.array([[0.0] * 9, [-50.0] * 9])).round(2)
    array([1., 0.])
    """
    likelihood = np.exp(left_out - left_out.max(axis=0))
    weights = np.full(len(left_out), 1.0 / len(left_out))
    for _ in range(STEPS):
        weights = weights * (likelihood / (weights @ likelihood)).sum(axis=1)
        weights[0] += 1.0
        weights /= weights.sum()
    return weights


class Kernels(NamedTuple):
    """A kernel density Σ_c N((x - m)A; c, h_c²I) |A|/n between `low` and `high`."""

    centres: Float[Array, "C E"]  # the n rows in the axes A, and mirror images of them
    bandwidths: Float[Array, " C"]
    origin: Float[Array, " E"]  # m
    axes: Float[Array, "E E"]  # A
    n: int
    low: float = -np.inf
    high: float = np.inf

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """The log density at points; -∞ where no centre is within `REACH` bandwidths."""
        x, logs = (points - self.origin) @ self.axes, np.full(len(points), -np.inf)
        first, reach, E = self.centres[:, 0], REACH * self.bandwidths, x.shape[1]
        for block in np.split(np.argsort(x[:, 0], kind="stable"), range(BLOCK, len(x), BLOCK)):
            near = (first + reach > x[block[0], 0]) & (first - reach < x[block[-1], 0])
            if near.any():
                middle = x[block[len(block) // 2]]  # expanded squares lose no digits near the origin
                p, c, h = x[block] - middle, self.centres[near] - middle, self.bandwidths[near]
                left = np.column_stack([np.ones(len(p)), p, (p**2).sum(axis=1)])
                right = np.column_stack([-0.5 * (c**2).sum(axis=1), c, np.full(len(c), -0.5)])
                right /= h[:, None] ** 2
                right[:, 0] -= E * np.log(h)
                logs[block] = log_sum_exp(left @ right.T, axis=1)
        logs[(points.min(axis=1) < self.low) | (points.max(axis=1) > self.high)] = -np.inf
        log_unit = np.linalg.slogdet(self.axes)[1] - 0.5 * E * np.log(2.0 * np.pi)
        return logs + log_unit - np.log(self.n)


def _log_sum(squared: Float[Array, "k C"], bandwidths: Any, dimension: int) -> Float[Array, " k"]:
    """log Σ_c N(x; c, h_c²I) from squared distances."""
    logs = squared * (-0.5 / bandwidths**2)
    logs -= dimension * np.log(bandwidths)
    return log_sum_exp(logs, axis=1) - 0.5 * dimension * np.log(2.0 * np.pi)


def _kernel_fits(y: Float[Array, "n E"], student: Student) -> Iterator[Fit]:
    """Kernel densities with their leave-one-out log densities.

    Rows tied with the one left out are left out too: they would call for no bandwidth at all.
    """
    n, E = y.shape
    for axes in (np.eye(E), np.linalg.inv(student.lower).T)[:E]:  # on one column they are the same
        x = (y - student.centre) @ axes
        squared = squared_distances(x, x)
        unit = np.sqrt(median_of_pairs(squared))
        tied = squared <= (TIED * unit) ** 2
        k = min(NEIGHBOUR, n - 2)
        near, next_near = np.partition(squared, (k, k + 1), axis=0)[k : k + 2]
        both = near, np.where(squared <= near, next_near, near)  # in row i of the second without row i
        near, without = (np.maximum(np.sqrt(s / E), NARROWEST * unit) for s in both)
        bandwidths = [(np.full(n, h * unit), h * unit) for h in BANDWIDTHS]
        bandwidths += [(factor * near, factor * without) for factor in FACTORS]
        log_unit = np.linalg.slogdet(axes)[1] - np.log(n - 1.0)
        squared[tied] = np.inf
        for h, h_without in bandwidths:
            left_out = _log_sum(squared, h_without, E) + log_unit
            yield Kernels(x, h, student.centre, axes, n).log_density, left_out
    for low, high in _edges(y[:, 0]) if E == 1 else []:
        edges = [edge - student.centre for edge in (low, high) if np.isfinite(edge)]
        centres = np.concatenate([x, *(2.0 * edge - x for edge in edges)])
        squared = squared_distances(x, centres)
        squared[np.tile(tied, len(centres) // n)] = np.inf
        # Without the last row the edge may exclude it.
        last = ((y <= y.min()) & np.isfinite(low) | (y >= y.max()) & np.isfinite(high))[:, 0]
        for h in unit * np.array(BANDWIDTHS):
            left_out = np.where(last, -np.inf, _log_sum(squared, h, 1) - np.log(n - 1.0))
            kernels = Kernels(centres, np.full(len(centres), h), student.centre, axes, n, low, high)
            yield kernels.log_density, left_out


def _edges(column: Float[Array, " n"]) -> list[tuple[float, float]]:
    """Edges below, above and on both sides: a mean spacing of the rows there beyond the last one."""
    values = np.unique(column)
    k = min(len(values) - 1, max(3, int(np.sqrt(len(column)))))
    least = EDGE * (values[-1] - values[0])
    low = float(values[0] - max((values[k] - values[0]) / k, least))
    high = float(values[-1] + max((values[-1] - values[-1 - k]) / k, least))
    return [(low, np.inf), (-np.inf, high), (low, high)]


def _mixture_fits(rows: Float[Array, "n E"], many: Float[Array, "m E"], student: Student) -> Iterator[Fit]:
    """Gaussian mixtures with their cross-validated log densities.

    Tied rows are in one fold. Far outliers are left to the t: beside them covariances would be singular.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    near, many = student.squared(rows) < FAR**2, many[student.squared(many) < FAR**2]
    distinct, own = np.unique(rows, axis=0, return_inverse=True)
    fold = np.random.default_rng(0).permutation(np.arange(len(distinct)) % FOLDS)[own.ravel()]
    least = min(len(np.unique(rows[near & (fold != k)], axis=0)) for k in range(FOLDS))
    ridge = RIDGE * float(np.mean(robust_spread(rows - np.median(rows, axis=0)) ** 2))
    E = rows.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for size in SIZES if E <= MOST_COLUMNS else ():
            if size * E >= least:
                return
            mixture, left_out = GaussianMixture(size, random_state=0, reg_covar=ridge), np.zeros(len(rows))
            for k in np.unique(fold):
                mixture.fit(rows[near & (fold != k)])
                left_out[fold == k] = mixture.score_samples(rows[fold == k])
            yield mixture.fit(many).score_samples, left_out


@dataclass(frozen=True, eq=False)
class Student:
    """The multivariate t: centre, lower factor of the scatter, degrees of freedom."""

    centre: Float[Array, " E"]
    lower: Float[Array, "E E"]
    freedom: float

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """The log density at points."""
        return self.at(self.squared(points))

    def squared(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """Squared Mahalanobis distances q from the centre."""
        return (solve_triangular(self.lower, (points - self.centre).T, lower=True) ** 2).sum(axis=0)

    def at(self, squared: Float[Array, " k"]) -> Float[Array, " k"]:
        """The log density c - log |L| - ½ (ν + E) log(1 + q/ν) at squared Mahalanobis distances."""
        nu, E = self.freedom, len(self.centre)
        constant = gammaln(0.5 * (nu + E)) - gammaln(0.5 * nu) - 0.5 * E * np.log(nu * np.pi)
        return constant - np.log(np.diagonal(self.lower)).sum() - 0.5 * (nu + E) * np.log1p(squared / nu)

    def weights(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """The weights (ν + E)/(ν + q) of EM."""
        return (self.freedom + len(self.centre)) / (self.freedom + self.squared(points))


def fit_student(y: Float[Array, "n E"]) -> tuple[Student, Float[Array, " n"]]:
    """Fit the t with the best leave-one-out likelihood over `FREEDOMS`; log t₋ᵢ(yᵢ) of every row.

    EM with weights v: centre Σvᵢyᵢ/Σvᵢ, scatter (1 - ρ) Σvᵢdᵢdᵢᵀ/n + ρ τ I. The oracle-approximating
    shrinkage ρ makes n < E work. Without row i its term leaves both sums (Sherman-Morrison).
    """
    n, E = y.shape
    centre = np.median(y, axis=0)
    spread = robust_spread(y - centre)
    floor = (FLOOR * float(spread.max())) ** 2
    scatter = np.diag(spread**2) + floor * np.eye(E)
    fits = []
    for freedom in FREEDOMS:
        for _ in range(EM_STEPS):
            v = Student(centre, np.linalg.cholesky(scatter), freedom).weights(y)
            centre = v @ y / v.sum()
            d = (y - centre) * np.sqrt(v)[:, None]
            raw = d.T @ d / n
            both, trace = float((raw**2).sum()), float(np.trace(raw)) ** 2
            apart = max(both - trace / E, 1e-12 * both)
            rho = min(1.0, ((1.0 - 2.0 / E) * both + trace) / ((n + 1.0 - 2.0 / E) * apart))
            ridge = (rho * float(np.trace(raw)) / E + floor) * np.eye(E)
            scatter = (1.0 - rho) * raw + ridge
        student = Student(centre, np.linalg.cholesky(scatter), freedom)
        v, kept = student.weights(y), (1.0 - rho) / (n - 1.0)
        without = replace(student, lower=np.linalg.cholesky(kept * n * raw + ridge))
        shift = v.sum() / np.maximum(v.sum() - v, 1e-9 * v.sum())  # of the centre away from the row
        squared = without.squared(y) * shift
        lost = np.minimum(kept * v * squared, 1.0 - 1e-6)
        fits.append((student, without.at(squared * shift / (1.0 - lost)) - 0.5 * np.log1p(-lost)))
    return max(fits, key=lambda fit: float(fit[1].sum()))


def _subsample(y: Float[Array, "n E"], count: int, rng: np.random.Generator) -> Float[Array, "c E"]:
    return y if len(y) <= count else y[np.sort(rng.choice(len(y), count, replace=False))]

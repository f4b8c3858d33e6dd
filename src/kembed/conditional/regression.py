"""Gaussian process regression of one or more targets on conditioning columns, in NumPy.

The targets share a Gaussian kernel with a lengthscale for every axis; all hyperparameters are those of the
largest marginal likelihood

    log p(Y|Z) = - (nk/2) log q - (k/2) log|C|,   C = s K + I,   q = tr(Yᵀ C⁻¹ Y)/(nk),

the noise variance q being profiled out. An ARD kernel sees only functions that bend along the columns, and a
confounder need not: x = sin(z₁ + z₂ + z₃) bends along the diagonal. So the search is started again in rotated
axes, those of the mean outer product of gradients, Σ = E[∇f ∇fᵀ], of a quadratic fit and then of the best
regression so far; the likelihood decides. `KEMBED_PART=regression python -m benchmarks conditional` has what
this buys.

No library is used: a search for a causal graph needs hundreds of fits, and the same benchmark has what one
takes here and in scikit-learn.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

from kembed.core.backend import Float

Points = Float[np.ndarray, "n d"]
Targets = Float[np.ndarray, "n k"]
Vector = Float[np.ndarray, " p"]
Square = Float[np.ndarray, "n n"]
# Starts are compared on so many rows, the best is finished on so many; the regression itself uses all rows.
EXPLORE_ROWS, LEARN_ROWS = 100, 140
FEW_STEPS, STEPS = 4, 6  # of L-BFGS there: a search for a graph makes hundreds of fits
SETTLED = 0.02  # nats: a step that gains less is the last (left-out residuals are larger by a thousandth)
# Starts: these times √d, or times what the slopes suggest; signal-to-noise ratios compared at each.
FACTORS = (0.5, 1.0, 3.0)
PROFILE = 10.0 ** np.arange(-2.0, 2.6, 0.5)
WORTH = 1.0  # nats: new axes are followed if before any step they are at most so far behind
# Lengthscales in spreads of the columns, and signal-to-noise ratios, that are looked at.
LENGTHSCALES, RATIOS = (0.05, 100.0), (1e-4, 1e6)
# Log-normal prior on lengthscales, wide: it only keeps a lengthscale that does not matter from drifting.
PRIOR_MEAN, PRIOR_SD = 1.0, 2.0
# Beyond so many columns axes are not turned, and beyond so many there is one lengthscale for all.
MAX_AXES, MAX_LENGTHSCALES = 8, 30
MOST_RANK = 5  # with fewer rows than this for every direction of `given`, regressions on it are hopeless
RIDGE = 1e-2  # of the quadratic fit, over n: columns of `given` may repeat


@dataclass(frozen=True, eq=False, repr=False)
class Regression:
    """What was learned: axes as columns of a rotation, a lengthscale for each, signal over noise."""

    axes: Float[np.ndarray, "d d"]
    lengthscales: Float[np.ndarray, " d"]
    ratio: float
    gain: float  # log marginal likelihood above that of no dependence, on the rows it was learned from

    def __repr__(self) -> str:
        scales = ", ".join(f"{value:.3g}" for value in self.lengthscales)
        found = f"signal/noise={self.ratio:.3g}, gain={self.gain:.1f} nats"
        return f"Regression(lengthscales=[{scales}], {found})"


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of K at given lengthscales along given axes; targets share them."""

    lengthscales: Float[np.ndarray, " p"]
    axes: Float[np.ndarray, "d d"]
    values: Float[np.ndarray, " n"]
    vectors: Float[np.ndarray, "n n"]


class Optimum(NamedTuple):
    """Where a search stands: negative log likelihood, log (lengthscales, ratio), and the axes of these."""

    value: float
    theta: Float[np.ndarray, " p"]
    axes: Float[np.ndarray, "d d"]


def learn_regression(
    Z: Points,
    Y: Targets,
    *,
    least: float | None = None,
    rows: tuple[int, int] = (EXPLORE_ROWS, LEARN_ROWS),
    starts: Sequence[Spectrum] | None = None,
) -> Regression:
    """The hyperparameters of largest marginal likelihood.

    Z has columns of about unit spread and rows in an order that says nothing; `least` bounds lengthscales
    below. Starts (`usual_starts` of the first of `rows`, if none are given, and those along the axes that a
    quadratic bends along) are compared on few rows, the best is followed there, finished on more rows, and
    once more from the axes along which it bends.
    """
    d = Z.shape[1]
    Y = Y - Y.mean(axis=0)
    if not Y.any():
        return Regression(np.eye(d), np.full(d, LENGTHSCALES[1]), RATIOS[0], 0.0)
    few, many = ((Z[:count], Y[:count]) for count in rows)
    turns = 1 < d <= MAX_AXES
    tried = list(usual_starts(few[0]) if starts is None else starts)
    if turns:
        tried += [spectrum(few[0], *start) for start in _along(quadratic_bends(Z, Y), Y)]
    compared = min((profile(few[1], start) for start in tried), key=attrgetter("value"))
    best = _climb(*many, _climb(*few, compared, least, FEW_STEPS), least, STEPS)
    if turns:
        turned = [profile(few[1], spectrum(few[0], *start)) for start in _along(bends(*many, best), Y)[1:2]]
        as_is, _ = negative_log_likelihood(best.theta, few[0] @ best.axes, few[1])
        if turned and turned[0].value < as_is + WORTH:
            best = min(best, _climb(*many, turned[0], least, STEPS), key=attrgetter("value"))
    still = 0.5 * many[1].size * float(np.log((many[1] ** 2).mean()))
    lengthscales = np.broadcast_to(np.exp(best.theta[:-1]), (d,)).copy()
    return Regression(best.axes, lengthscales, float(np.exp(best.theta[-1])), still - best.value)


def kernel(A: Points, B: Points) -> Float[np.ndarray, "n m"]:
    """exp(-½|a_i - b_j|²) for points of unit size: no digits that matter are lost in |a|² + |b|² - 2a·b."""
    exponent = A @ B.T
    exponent -= 0.5 * (A**2).sum(axis=1)[:, None]
    exponent -= 0.5 * (B**2).sum(axis=1)
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))


def with_diagonal(matrix: Float[np.ndarray, "n n"], added: float) -> Float[np.ndarray, "n n"]:
    """The matrix itself, with a number added along its diagonal."""
    matrix[np.diag_indices(len(matrix))] += added
    return matrix


def _factor(C: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """L, below the diagonal, of LLᵀ = C + I; C is overwritten."""
    return np.asarray(dpotrf(with_diagonal(C, 1.0), lower=1, clean=0, overwrite_a=1)[0])


def inverse_of(C: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """(C + I)⁻¹ of a positive semi-definite matrix, which is overwritten."""
    inverse, _ = dpotri(_factor(C), lower=1)
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)


def negative_log_likelihood(theta: Vector, Z: Points, Y: Targets) -> tuple[float, Vector]:
    """-log p(Y|Z) up to a constant, less the log prior, and its gradient in the logs of (ℓ, s).

    Fewer lengthscales than columns means one for all. With W = (k C⁻¹ - C⁻¹YYᵀC⁻¹/q) ∘ sK the gradients are
    ½ ΣW in log s and ½ Σ_ij W_ij (z_ic - z_jc)²/ℓ_c² in log ℓ_c.
    """
    n, k = Y.shape
    A = Z / np.exp(theta[:-1])
    S = A @ A.T
    half = 0.5 * np.diagonal(S)
    S -= half
    S -= half[:, None]
    S += theta[-1]
    np.exp(S, out=S)  # s K
    factor = _factor(S.copy().T)  # it is symmetric: its transpose has LAPACK's order
    a, _ = dpotrs(factor, Y, lower=1)
    q = float((Y * a).sum()) / (n * k)
    value = 0.5 * n * k * np.log(q) + k * float(np.log(np.diagonal(factor)).sum())
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    # Only one triangle of C⁻¹ is filled: off the diagonal it counts twice, on it once.
    W = inverse.T * (k * _triangle(n))
    W -= a @ (a.T / q)
    W *= S
    gradient = np.empty(len(theta))
    gradient[-1] = 0.5 * float(W.sum())
    rows = W.sum(axis=1) + W.sum(axis=0)
    along = 0.5 * (rows @ A**2 - 2.0 * np.einsum("nc,nc->c", A, W @ A))
    gradient[:-1] = along if len(theta) - 1 == A.shape[1] else along.sum()
    prior, slope = _log_prior(theta)
    gradient[:-1] += slope
    return value + prior, gradient


def _log_prior(theta: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " q"]]:
    """The negative log prior of the lengthscales up to a constant, and its gradient."""
    away = (theta[:-1] - PRIOR_MEAN) / PRIOR_SD
    return 0.5 * float(away @ away), away / PRIOR_SD


@lru_cache(maxsize=8)
def _triangle(n: int) -> Float[np.ndarray, "n n"]:
    """2 above the diagonal, 1 on it, 0 below."""
    return np.triu(np.full((n, n), 2.0)) - np.eye(n)


def gains(squares: Vector, rest: float, w: Vector, ratios: Vector, size: tuple[int, int]) -> Vector:
    """log p(Y|Z) above that of no dependence, at every signal-to-noise ratio s.

    K = U diag(w) Uᵀ has eigenvectors U; `squares` are the sums of squares of UᵀY over the targets, `rest`
    that of what Y has outside U, and Y is (n, k). All ratios cost one eigendecomposition:
    -(nk/2) log[(Σ squares/(1 + s w) + rest)/(Σ squares + rest)] - (k/2) Σ log(1 + s w).
    """
    n, k = size
    scaled = 1.0 + np.multiply.outer(ratios, w)
    whole = max(float(squares.sum()) + rest, 1e-300)
    left = np.maximum(((squares / scaled).sum(axis=1) + rest) / whole, 1e-300)
    return np.asarray(-0.5 * n * k * np.log(left) - 0.5 * k * np.log(scaled).sum(axis=1))


def usual_starts(Z: Points, factors: Sequence[float] = FACTORS) -> list[Spectrum]:
    """Lengthscales that know nothing of a target, along the columns; beyond so many columns, one for all."""
    d = Z.shape[1]
    usual = np.full(d if d <= MAX_LENGTHSCALES else 1, np.sqrt(d))
    return [spectrum(Z, factor * usual, np.eye(d)) for factor in factors]


def spectrum(Z: Points, lengthscales: Vector, axes: Square) -> Spectrum:
    """Of K at the rows of Z."""
    A = Z @ axes / lengthscales
    values, vectors = np.linalg.eigh(kernel(A, A))
    return Spectrum(lengthscales, axes, np.maximum(values, 0.0), vectors)


def profile(Y: Targets, start: Spectrum) -> Optimum:
    """The best signal-to-noise ratio at given lengthscales."""
    squares = ((start.vectors.T @ Y) ** 2).sum(axis=1)
    found = gains(squares, 0.0, start.values, PROFILE, (len(Y), Y.shape[1]))
    place = int(np.argmax(found))
    theta = np.log(np.append(start.lengthscales, PROFILE[place]))
    still = 0.5 * Y.size * float(np.log(squares.sum() / Y.size))
    return Optimum(still - float(found[place]) + _log_prior(theta)[0], theta, start.axes)


def _climb(Z: Points, Y: Targets, start: Optimum, least: float | None, steps: int) -> Optimum:
    """Uphill from a start."""
    own = len(start.theta) - 1
    low = LENGTHSCALES[0] if least is None else least
    scales = (np.log(low), np.log(max(LENGTHSCALES[1], 10.0 * low)))
    bounds = [scales] * own + [(np.log(RATIOS[0]), np.log(RATIOS[1]))]
    first = np.clip(start.theta, *np.array(bounds).T)
    enough = {"maxiter": steps, "ftol": SETTLED / max(abs(start.value), 1.0)}
    how: Any = {"method": "L-BFGS-B", "jac": True, "bounds": bounds, "options": enough}
    found = minimize(negative_log_likelihood, first, (Z @ start.axes, Y), **how)
    return Optimum(float(found.fun), found.x, start.axes)


def _along(slopes_of: Float[np.ndarray, "d d"], Y: Targets) -> list[Any]:
    """Starts on the principal axes of E[∇f ∇fᵀ]; none if f is flat.

    Along an axis with mean squared slope w a function of variance v has a lengthscale of about √(v/w).
    """
    slopes, axes = (found[..., ::-1] for found in np.linalg.eigh(slopes_of))
    if not slopes[0] > 0.0:
        return []
    variance = float((Y**2).sum()) / len(Y)
    usual = np.clip(np.sqrt(variance / np.maximum(slopes, 1e-6 * slopes[0])), 0.3, 30.0)
    return [(factor * usual, axes) for factor in FACTORS]


def quadratic_terms(Z: Points) -> Float[np.ndarray, "n q"]:
    """The columns of Z and their products z_i z_j, i ≤ j, centred."""
    rows, columns = np.triu_indices(Z.shape[1])
    Q = np.column_stack([Z, Z[:, rows] * Z[:, columns]])
    return np.asarray(Q - Q.mean(axis=0))


def quadratic_bends(Z: Points, Y: Targets) -> Float[np.ndarray, "d d"]:
    """E[∇q ∇qᵀ] = bbᵀ + AAᵀ of a ridge fit q(z) = bᵀz + ½ zᵀAz, for z of unit covariance; over targets."""
    n, d = Z.shape
    Q = quadratic_terms(Z)
    total = np.zeros((d, d))
    for coefficients in np.linalg.solve(with_diagonal(Q.T @ Q, RIDGE * n), Q.T @ Y).T:
        b, A = coefficients[:d], np.zeros((d, d))
        A[np.triu_indices(d)] = coefficients[d:]
        A += A.T
        total += np.outer(b, b) + A @ A
    return total


def bends(Z: Points, Y: Targets, best: Optimum) -> Float[np.ndarray, "d d"]:
    """The mean of ∇f ∇fᵀ over the rows, of the posterior mean f."""
    lengthscales = np.exp(best.theta[:-1])
    A = Z @ best.axes / lengthscales
    K = np.exp(best.theta[-1]) * kernel(A, A)
    total = np.zeros((Z.shape[1],) * 2)
    for each in (inverse_of(K.copy()) @ Y).T:
        weighted = K * each
        slope = (weighted @ A - weighted.sum(axis=1)[:, None] * A) / lengthscales
        total += slope.T @ slope / len(A)
    return np.asarray(best.axes @ total @ best.axes.T)


def check_rank(Z: Points, rank: int, stacklevel: int) -> None:
    """Refuse, or warn of, too many directions of `given` for its rows."""
    n = len(Z)
    if rank >= n - 1:
        raise ValueError(
            f"given has {Z.shape[1]} columns of rank {rank} for {n} rows: they explain anything; leave "
            "columns out, or replace them by a few principal components"
        )
    if rank * MOST_RANK > n:
        warnings.warn(
            f"given has rank {rank} for only {n} rows: what it says about x and y cannot be taken out "
            "wholly, and small p-values mean little; leave columns out",
            stacklevel=stacklevel,
        )

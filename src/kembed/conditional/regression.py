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

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    Points = Float[np.ndarray, "n d"]
    Targets = Float[np.ndarray, "n k"]

# Starts are compared on so many rows, the best is finished on so many; the regression itself uses all rows.
EXPLORE_ROWS = 100
LEARN_ROWS = 200
FEW_STEPS, STEPS = 4, 6
# Up to so many rows C is inverted as it is; beyond, K is replaced by its projection on so many of the rows.
# Wide tables (categories with many levels) have no few rows that stand for all.
EXACT_ROWS = 400
WIDE_ROWS = 3_000
LANDMARKS = 150
JITTER = 1e-8
# Starts: these times √d, or times what the slopes suggest; signal-to-noise ratios compared at each.
FACTORS = (0.5, 1.0, 3.0)
PROFILE = 10.0 ** np.arange(-2.0, 2.6, 0.5)
# New axes are followed if before any step they are at most so many nats behind.
WORTH = 1.0
# Lengthscales in spreads of the columns, and signal-to-noise ratios, that are looked at.
LENGTHSCALES = (0.05, 100.0)
RATIOS = (1e-4, 1e6)
# Log-normal prior on lengthscales, wide: it only keeps a lengthscale that does not matter from drifting.
PRIOR_MEAN, PRIOR_SD = 1.0, 2.0
# Beyond so many columns axes are not turned, and beyond so many there is one lengthscale for all.
MAX_AXES = 8
MAX_LENGTHSCALES = 30
RIDGE = 1e-2  # of the quadratic fit, over n


@dataclass(frozen=True, eq=False, repr=False)
class Regression:
    """What was learned: axes as columns of a rotation, a lengthscale for each, signal over noise."""

    axes: Float[np.ndarray, "d d"]
    lengthscales: Float[np.ndarray, " d"]
    ratio: float
    gain: float  # log marginal likelihood above that of no dependence, on the rows it was learned from

    def __repr__(self) -> str:
        scales = ", ".join(f"{value:.3g}" for value in self.lengthscales)
        return (
            f"Regression(lengthscales=[{scales}], signal/noise={self.ratio:.3g}, gain={self.gain:.1f} nats)"
        )


class Residuals(NamedTuple):
    """Targets less their regression: fitted on all rows, and for each row on all the others."""

    fitted: Targets
    left_out: Targets
    freedom: float  # degrees of freedom that the regression spent, the constant among them


class _Best(NamedTuple):
    """Where a search ended."""

    value: float
    theta: Float[np.ndarray, " p"]
    axes: Float[np.ndarray, "d d"]


def learn_regression(
    Z: Points,
    Y: Targets,
    *,
    least: float | None = None,
    rows: tuple[int, int] = (EXPLORE_ROWS, LEARN_ROWS),
    factors: tuple[float, ...] = FACTORS,
) -> Regression:
    """The hyperparameters of largest marginal likelihood.

    Z has columns of about unit spread and rows in an order that says nothing; `least` bounds lengthscales
    below. Starts are compared on few rows, the best two are followed there, the better of them is finished on
    more rows, and once more from the axes along which it bends.
    """
    d = Z.shape[1]
    Y = Y - Y.mean(axis=0)
    if not Y.any():
        return Regression(np.eye(d), np.full(d, LENGTHSCALES[1]), RATIOS[0], 0.0)
    few, many = ((Z[:count], Y[:count]) for count in rows)
    turns = 1 < d <= MAX_AXES
    starts = _starts(np.full(d if d <= MAX_LENGTHSCALES else 1, np.sqrt(d)), np.eye(d), factors)
    if turns:
        starts += _along(_quadratic_bends(Z, Y), Y)
    compared = sorted((_profile(*few, *start) for start in starts), key=_value)
    climbed = min((_climb(*few, start, least, FEW_STEPS) for start in compared[:2]), key=_value)
    best = _climb(*many, climbed, least, STEPS)
    if turns:
        turned = [_profile(*few, *start) for start in _along(_bends(*many, best), Y)[1:2]]
        as_is = _profile(*few, np.exp(best.theta[:-1]), best.axes)
        if turned and turned[0].value < as_is.value + WORTH:
            best = min(best, _climb(*many, turned[0], least, STEPS), key=_value)
    still = 0.5 * many[1].size * float(np.log((many[1] ** 2).mean()))
    lengthscales = np.broadcast_to(np.exp(best.theta[:-1]), (d,)).copy()
    return Regression(best.axes, lengthscales, float(np.exp(best.theta[-1])), still - best.value)


def regression_residuals(
    Z: Points, Y: Targets, regression: Regression, *, exact: int | None = None, landmarks: int = LANDMARKS
) -> Residuals:
    """Y - E[Y|Z] under the regression, with a constant mean of its own for every target.

    With P = C⁻¹ - C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1) the residuals are P Y, and those with the row left out (P Y)_i/P_ii.
    Beyond `exact` rows K is projected on the first `landmarks` of them.
    """
    n, s = len(Z), regression.ratio
    A = Z @ regression.axes / regression.lengthscales
    if exact is None:
        exact = EXACT_ROWS if Z.shape[1] <= MAX_LENGTHSCALES else WIDE_ROWS
    if n <= exact:
        inverse = _inverse(s * kernel(A, A))
        ones, turned, diagonal = inverse.sum(axis=1), inverse @ Y, np.diagonal(inverse)
    else:  # K ≈ VᵀV with V = K_mm^{-1/2} K_mn; C⁻¹ = I - TᵀT with T = (I/s + VVᵀ)^{-1/2} V
        marks = A[:landmarks]
        among = kernel(marks, marks)
        among[np.diag_indices(len(among))] += JITTER
        V = _forward(np.linalg.cholesky(among), kernel(marks, A))
        small = V @ V.T
        small[np.diag_indices(len(small))] += 1.0 / s
        T = _forward(np.linalg.cholesky(small), V)
        ones = 1.0 - T.T @ T.sum(axis=1)
        turned = Y - T.T @ (T @ Y)
        diagonal = 1.0 - np.einsum("mn,mn->n", T, T)
    total = ones.sum()
    fitted = turned - np.outer(ones, turned.sum(axis=0) / total)
    spared = np.maximum(diagonal - ones**2 / total, 1e-12)
    return Residuals(fitted, fitted / spared[:, None], float(n - spared.sum()))


def kernel(A: Points, B: Points) -> Float[np.ndarray, "n m"]:
    """exp(-½|a_i - b_j|²) for points of unit size: no digits that matter are lost in |a|² + |b|² - 2a·b."""
    exponent = A @ B.T
    exponent -= 0.5 * (A**2).sum(axis=1)[:, None]
    exponent -= 0.5 * (B**2).sum(axis=1)
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))


def _forward(lower: Float[np.ndarray, "m m"], right: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """L⁻¹B."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(lower, right, lower=True, check_finite=False))


# The marginal likelihood and its maximum.


def _inverse(C: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """(C + I)⁻¹ of a positive semi-definite matrix."""
    from scipy.linalg.lapack import dpotrf, dpotri

    C[np.diag_indices(len(C))] += 1.0
    factor, _ = dpotrf(C, lower=1, clean=0)
    inverse, _ = dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(inverse, -1).T)


def negative_log_likelihood(
    theta: Float[np.ndarray, " p"], Z: Points, Y: Targets
) -> tuple[float, Float[np.ndarray, " p"]]:
    """-log p(Y|Z) up to a constant, less the log prior, and its gradient in the logs of (ℓ, s).

    Fewer lengthscales than columns means one for all. With W = (k C⁻¹ - C⁻¹YYᵀC⁻¹/q) ∘ sK the gradients are
    ½ ΣW in log s and ½ Σ_ij W_ij (z_ic - z_jc)²/ℓ_c² in log ℓ_c.
    """
    from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

    n, k = Y.shape
    A = Z / np.exp(theta[:-1])
    S = A @ A.T
    half = 0.5 * np.diagonal(S)
    S -= half
    S -= half[:, None]
    S += theta[-1]
    np.exp(S, out=S)  # s K
    C = S.copy()
    C[np.diag_indices(n)] += 1.0
    factor, _ = dpotrf(
        C.T, lower=1, clean=0, overwrite_a=1
    )  # C is symmetric: its transpose has LAPACK's order
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
    own = len(theta) - 1
    gradient[:-1] = along if own == A.shape[1] else along.sum()
    away = (theta[:-1] - PRIOR_MEAN) / PRIOR_SD
    gradient[:-1] += away / PRIOR_SD
    return value + 0.5 * float(away @ away), gradient


@lru_cache(maxsize=8)
def _triangle(n: int) -> Float[np.ndarray, "n n"]:
    """2 above the diagonal, 1 on it, 0 below."""
    return np.triu(np.full((n, n), 2.0)) - np.eye(n)


def _starts(
    lengthscales: Float[np.ndarray, " p"], axes: Float[np.ndarray, "d d"], factors: tuple[float, ...]
) -> list[Any]:
    return [(factor * lengthscales, axes) for factor in factors]


def _profile(
    Z: Points, Y: Targets, lengthscales: Float[np.ndarray, " p"], axes: Float[np.ndarray, "d d"]
) -> _Best:
    """The best signal-to-noise ratio at given lengthscales: with K = U diag(w) Uᵀ all ratios cost one."""
    n, k = Y.shape
    A = Z @ axes / lengthscales
    w, U = np.linalg.eigh(kernel(A, A))
    squares = ((U.T @ Y) ** 2).sum(axis=1)
    scaled = 1.0 + np.multiply.outer(PROFILE, np.maximum(w, 0.0))
    values = 0.5 * n * k * np.log((squares / scaled).sum(axis=1) / (n * k)) + 0.5 * k * np.log(scaled).sum(
        axis=1
    )
    place = int(np.argmin(values))
    theta = np.log(np.append(lengthscales, PROFILE[place]))
    away = (theta[:-1] - PRIOR_MEAN) / PRIOR_SD
    return _Best(float(values[place]) + 0.5 * float(away @ away), theta, axes)


def _climb(Z: Points, Y: Targets, start: _Best, least: float | None, steps: int) -> _Best:
    """Uphill from a start."""
    from scipy.optimize import minimize

    own = len(start.theta) - 1
    low = LENGTHSCALES[0] if least is None else least
    scales = (np.log(low), np.log(max(LENGTHSCALES[1], 10.0 * low)))
    bounds = [scales] * own + [(np.log(RATIOS[0]), np.log(RATIOS[1]))]
    found = minimize(
        negative_log_likelihood,
        np.clip(start.theta, *np.array(bounds).T),
        args=(Z @ start.axes, Y),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps},
    )
    return _Best(float(found.fun), found.x, start.axes)


def _value(best: _Best) -> float:
    return best.value


# Axes along which the regression bends.


def _along(bends: Float[np.ndarray, "d d"], Y: Targets) -> list[Any]:
    """Starts on the principal axes of E[∇f ∇fᵀ]; none if f is flat.

    Along an axis with mean squared slope w a function of variance v has a lengthscale of about √(v/w).
    """
    slopes, axes = np.linalg.eigh(bends)
    slopes, axes = slopes[::-1], axes[:, ::-1]
    if not slopes[0] > 0.0:
        return []
    variance = float((Y**2).sum()) / len(Y)
    return _starts(
        np.clip(np.sqrt(variance / np.maximum(slopes, 1e-6 * slopes[0])), 0.3, 30.0), axes, FACTORS
    )


def _quadratic_bends(Z: Points, Y: Targets) -> Float[np.ndarray, "d d"]:
    """E[∇q ∇qᵀ] = bbᵀ + AAᵀ of a ridge fit q(z) = bᵀz + ½ zᵀAz, for z of unit covariance; over targets."""
    n, d = Z.shape
    rows, columns = np.triu_indices(d)
    Q = np.column_stack([Z, Z[:, rows] * Z[:, columns]])
    Q -= Q.mean(axis=0)
    moments = Q.T @ Q
    moments[np.diag_indices(len(moments))] += RIDGE * n
    total = np.zeros((d, d))
    for coefficients in np.linalg.solve(moments, Q.T @ Y).T:
        b, A = coefficients[:d], np.zeros((d, d))
        A[rows, columns] = coefficients[d:]
        A += A.T
        total += np.outer(b, b) + A @ A
    return total


def _bends(Z: Points, Y: Targets, best: _Best) -> Float[np.ndarray, "d d"]:
    """The mean of ∇f ∇fᵀ over the rows, of the posterior mean f."""
    A = Z @ best.axes / np.exp(best.theta[:-1])
    K = np.exp(best.theta[-1]) * kernel(A, A)
    total = np.zeros((Z.shape[1],) * 2)
    for each in (_inverse(K.copy()) @ Y).T:
        weighted = K * each
        slope = (weighted @ A - weighted.sum(axis=1)[:, None] * A) / np.exp(best.theta[:-1])
        total += slope.T @ slope / len(A)
    return np.asarray(best.axes @ total @ best.axes.T)

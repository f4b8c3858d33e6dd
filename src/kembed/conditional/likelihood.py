"""Hyperparameters of Gaussian process regression: those of the largest marginal likelihood.

All targets share a Gaussian kernel with a lengthscale for every axis. With the noise variance q profiled out,

    log p(Y|Z) = - (nk/2) log q - (k/2) log|C|,   C = s K + I,   q = tr(Yᵀ C⁻¹ Y)/(nk).

An ARD kernel sees only functions that vary along the columns, but x = sin(z₁ + z₂ + z₃) varies along the
diagonal. So the search starts again in rotated axes, the eigenvectors of the mean outer product of gradients
E[∇f ∇fᵀ], first of a quadratic fit, then of the best regression so far. The likelihood decides.
`KEMBED_PART=regression python -m benchmarks conditional` measures the gain, and the time beside scikit-learn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from kembed.core.backend import Float

Points = Float[np.ndarray, "n d"]
Targets = Float[np.ndarray, "n k"]
Vector = Float[np.ndarray, " p"]
Square = Float[np.ndarray, "n n"]
# Rows on which starts are compared, and rows on which the best is refined; the regression itself uses all.
EXPLORE_ROWS, LEARN_ROWS = 100, 140
FEW_STEPS, STEPS = 4, 6  # of L-BFGS there: a search for a graph makes hundreds of fits
TOLERANCE = 0.02  # nats: a step that gains less is the last (left-out residuals grow by a thousandth)
# Starts: these times √d, or times what the gradients suggest; signal-to-noise ratios compared at each.
FACTORS = (0.5, 1.0, 3.0)
PROFILE = 10.0 ** np.arange(-2.0, 2.6, 0.5)
WORTH = 1.0  # nats: rotated axes are tried unless they start further behind than this
# Bounds of the lengthscales, in standard deviations of the columns, and of the signal-to-noise ratio.
LENGTHSCALES, RATIOS = (0.05, 100.0), (1e-4, 1e6)
# Wide log-normal prior: it only keeps a lengthscale that does not matter from drifting.
PRIOR_MEAN, PRIOR_SD = 1.0, 2.0
# Beyond so many columns axes are not rotated, and beyond so many there is one lengthscale for all.
MAX_AXES, MAX_LENGTHSCALES = 8, 30
RIDGE = 1e-2  # of the quadratic fit, over n: columns of `given` may repeat


@dataclass(frozen=True, eq=False)
class Regression:
    """Hyperparameters: axes as columns of a rotation, a lengthscale for each, signal-to-noise ratio."""

    axes: Float[np.ndarray, "d d"]
    lengthscales: Float[np.ndarray, " d"]
    ratio: float
    gain: float  # log marginal likelihood above that of no dependence, on the rows it was learned from


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of K at given lengthscales along given axes; targets share them."""

    lengthscales: Vector
    axes: Square
    values: Vector
    vectors: Square


class Optimum(NamedTuple):
    """The state of a search: negative log likelihood, log (lengthscales, ratio), and their axes."""

    value: float
    theta: Vector
    axes: Square


def learn_regression(
    Z: Points,
    Y: Targets,
    *,
    least: float | None = None,
    rows: tuple[int, int] = (EXPLORE_ROWS, LEARN_ROWS),
    starts: Sequence[Spectrum] | None = None,
) -> Regression:
    """Maximise the marginal likelihood over axes, lengthscales and signal-to-noise ratio.

    Z has columns of about unit variance and rows in random order; `least` bounds lengthscales below. Starts
    are compared on few rows. The best is refined there, then on more rows, and once more in rotated axes.
    """
    d = Z.shape[1]
    Y = Y - Y.mean(axis=0)
    if not Y.any():
        return Regression(np.eye(d), np.full(d, LENGTHSCALES[1]), RATIOS[0], 0.0)
    few, many = ((Z[:count], Y[:count]) for count in rows)
    rotate = 1 < d <= MAX_AXES
    tried = list(default_starts(few[0]) if starts is None else starts)
    if rotate:
        tried += [spectrum(few[0], *start) for start in _rotated(quadratic_gradients(Z, Y), Y)]
    start = min((profile(few[1], one) for one in tried), key=attrgetter("value"))
    best = _maximise(*many, _maximise(*few, start, least, FEW_STEPS), least, STEPS)
    if rotate:
        current, _ = negative_log_likelihood(best.theta, few[0] @ best.axes, few[1])
        for rotated in _rotated(gradient_products(*many, best), Y)[1:2]:
            start = profile(few[1], spectrum(few[0], *rotated))
            if start.value < current + WORTH:
                best = min(best, _maximise(*many, start, least, STEPS), key=attrgetter("value"))
    independent = 0.5 * many[1].size * float(np.log((many[1] ** 2).mean()))
    lengthscales = np.broadcast_to(np.exp(best.theta[:-1]), (d,)).copy()
    return Regression(best.axes, lengthscales, float(np.exp(best.theta[-1])), independent - best.value)


def kernel(A: Points, B: Points) -> Float[np.ndarray, "n m"]:
    """exp(-½|a_i - b_j|²) of points of unit size, where |a|² + |b|² - 2a·b loses no digits that matter."""
    exponent = A @ B.T
    exponent -= 0.5 * (A**2).sum(axis=1)[:, None]
    exponent -= 0.5 * (B**2).sum(axis=1)
    np.minimum(exponent, 0.0, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))


def inverse_plus_identity(K: Square) -> tuple[Square, float]:
    """(K + I)⁻¹ and log|K + I| of a positive semi-definite matrix."""
    C = K.copy()
    C[np.diag_indices(len(K))] += 1.0
    factor, _ = dpotrf(C.T, lower=1, overwrite_a=1)
    log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)  # zero above the diagonal, as the factor
    inverse += np.tril(inverse, -1).T
    return inverse, log_determinant


def negative_log_likelihood(theta: Vector, Z: Points, Y: Targets) -> tuple[float, Vector]:
    """-log p(Y|Z) up to a constant, less the log prior, and its gradient in the logs of (ℓ, s).

    Fewer lengthscales than columns means one for all. With W = (k C⁻¹ - C⁻¹YYᵀC⁻¹/q) ∘ sK the gradients are
    ½ ΣW in log s and ½ Σ_ij W_ij (z_ic - z_jc)²/ℓ_c² in log ℓ_c.
    """
    n, k = Y.shape
    A = Z / np.exp(theta[:-1])
    S = kernel(A, A)
    S *= np.exp(theta[-1])
    inverse, log_determinant = inverse_plus_identity(S)
    a = inverse @ Y
    q = float((Y * a).sum()) / (n * k)
    W = inverse  # changed in place: new arrays take longer than sums
    W *= k
    W -= a @ (a.T / q)
    W *= S
    rows = 2.0 * W.sum(axis=1)
    along = 0.5 * (rows @ A**2 - 2.0 * np.einsum("nc,nc->c", A, W @ A))
    away = (theta[:-1] - PRIOR_MEAN) / PRIOR_SD
    along = (along if len(away) == A.shape[1] else along.sum()) + away / PRIOR_SD
    value = 0.5 * (n * k * np.log(q) + k * log_determinant + away @ away)
    return float(value), np.append(along, 0.25 * rows.sum())


def gains(squares: Vector, rest: float, w: Vector, ratios: Vector, size: tuple[int, int]) -> Vector:
    """log p(Y|Z) above that of no dependence, at every signal-to-noise ratio s.

    K = U diag(w) Uᵀ; `squares` are the sums of squares of UᵀY over the targets, `rest` that of Y outside U,
    and Y is (n, k). All ratios need one eigendecomposition:
    -(nk/2) log[(Σ squares/(1 + s w) + rest)/(Σ squares + rest)] - (k/2) Σ log(1 + s w).
    """
    n, k = size
    scaled = 1.0 + np.multiply.outer(ratios, w)
    whole = max(float(squares.sum()) + rest, 1e-300)
    left = np.maximum(((squares / scaled).sum(axis=1) + rest) / whole, 1e-300)
    return np.asarray(-0.5 * n * k * np.log(left) - 0.5 * k * np.log(scaled).sum(axis=1))


def default_starts(Z: Points, factors: Sequence[float] = FACTORS) -> list[Spectrum]:
    """Starts along the columns that depend on no target; for a wide Z, with one lengthscale for all."""
    d = Z.shape[1]
    usual = np.full(d if d <= MAX_LENGTHSCALES else 1, np.sqrt(d))
    return [spectrum(Z, factor * usual, np.eye(d)) for factor in factors]


def spectrum(Z: Points, lengthscales: Vector, axes: Square) -> Spectrum:
    """Eigendecomposition of K at the rows of Z."""
    A = Z @ axes / lengthscales
    values, vectors = np.linalg.eigh(kernel(A, A))
    return Spectrum(lengthscales, axes, np.maximum(values, 0.0), vectors)


def profile(Y: Targets, start: Spectrum) -> Optimum:
    """The best signal-to-noise ratio at given lengthscales."""
    squares = ((start.vectors.T @ Y) ** 2).sum(axis=1)
    gain = gains(squares, 0.0, start.values, PROFILE, (len(Y), Y.shape[1]))
    best = int(np.argmax(gain))
    theta = np.log(np.append(start.lengthscales, PROFILE[best]))
    away = (theta[:-1] - PRIOR_MEAN) / PRIOR_SD
    independent = 0.5 * Y.size * float(np.log(squares.sum() / Y.size))
    return Optimum(independent - float(gain[best]) + 0.5 * float(away @ away), theta, start.axes)


def _maximise(Z: Points, Y: Targets, start: Optimum, least: float | None, steps: int) -> Optimum:
    low = LENGTHSCALES[0] if least is None else least
    scales = (np.log(low), np.log(max(LENGTHSCALES[1], 10.0 * low)))
    bounds = [scales] * (len(start.theta) - 1) + [(np.log(RATIOS[0]), np.log(RATIOS[1]))]
    first = np.clip(start.theta, *np.array(bounds).T)
    stop = {"maxiter": steps, "ftol": TOLERANCE / max(abs(start.value), 1.0)}
    options: Any = {"method": "L-BFGS-B", "jac": True, "bounds": bounds, "options": stop}
    optimum = minimize(negative_log_likelihood, first, (Z @ start.axes, Y), **options)
    return Optimum(float(optimum.fun), optimum.x, start.axes)


def _rotated(products: Square, Y: Targets) -> list[Any]:
    """Starts on the eigenvectors of E[∇f ∇fᵀ]; none if f is constant.

    Along an axis with mean squared slope w a function of variance v has a lengthscale of about √(v/w).
    """
    slopes, axes = (part[..., ::-1] for part in np.linalg.eigh(products))
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


def quadratic_gradients(Z: Points, Y: Targets) -> Square:
    """E[∇q ∇qᵀ] = bbᵀ + AAᵀ of a ridge fit q(z) = bᵀz + ½ zᵀAz, for z of unit covariance; over targets."""
    n, d = Z.shape
    Q = quadratic_terms(Z)
    total = np.zeros((d, d))
    for coefficients in np.linalg.solve(Q.T @ Q + RIDGE * n * np.eye(Q.shape[1]), Q.T @ Y).T:
        b, A = coefficients[:d], np.zeros((d, d))
        A[np.triu_indices(d)] = coefficients[d:]
        A += A.T
        total += np.outer(b, b) + A @ A
    return total


def gradient_products(Z: Points, Y: Targets, best: Optimum) -> Square:
    """The mean of ∇f ∇fᵀ over the rows, of the posterior mean f."""
    lengthscales = np.exp(best.theta[:-1])
    A = Z @ best.axes / lengthscales
    K = np.exp(best.theta[-1]) * kernel(A, A)
    total = np.zeros((Z.shape[1],) * 2)
    for coefficients in (inverse_plus_identity(K)[0] @ Y).T:
        weighted = K * coefficients
        slope = (weighted @ A - weighted.sum(axis=1)[:, None] * A) / lengthscales
        total += slope.T @ slope / len(A)
    return np.asarray(best.axes @ total @ best.axes.T)

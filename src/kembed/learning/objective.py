"""The normalised pseudolikelihood: the paper's objective made a density in x, with a background for outliers.

N(φ_z(x); μ, τ²I) γ(x) does not integrate to 1 over x. With Z(θ, τ², μ̄) its integral at the posterior mean μ̄
of μ(z), A = R + (τ²/n) I and a = A⁻¹μ̂, so that μ̂ - μ̄ = (τ²/n) a,

    F = Σ_i log{ (1-ε) p(x_i) + ε b(x_i) }   with p(x) = N(φ_z(x); μ̄, τ²I) γ(x) / Z
        - ½ { log|A| - m log(τ²/n) + μ̂ᵀa - (τ²/n) aᵀa }.

The first line is a density estimate, the second the price of having fitted μ. At ε = 0 their sum is exactly
the paper's marginal pseudolikelihood (μ integrated out in closed form) minus n log Z. Two approximations are
made: Z is taken at μ̄, not under the integral over μ; and with ε > 0 the price is that of the pure model. The
first is not small everywhere (tests/learning/test_objective.py integrates by brute force): it errs on the low
side, by 1-2 nats at the best setting of those tried and by far more at small u.

The temperature is u = τ²/tr Cov[φ_z(X)], between 0 and 1: noise beyond all the scatter there is would say
nothing but that p is proportional to γ. Everything here is written for NumPy and JAX alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core.backend import namespace
from kembed.kernels.stationary import Stationary

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = Any

# Up to here sums over landmarks are taken by differences, which lose nothing; beyond, by one matrix product.
DIFFERENCE_DIMENSIONS = 3
# Up to here a Cholesky unrolled over rows beats a LAPACK call per row.
UNROLLED_DIMENSIONS = 6
# Pivots below this share of what the diagonal was before terms cancelled are rounding.
RIDGE = 1e-14
TINY = 1e-290
# Beyond so many radii a product cannot tell x - z from rounding; such rows are left to the background.
FAR = 1e5


class RowFeatures(NamedTuple):
    """What the objective needs of some rows."""

    K: Float[Array, "c m"]  # φ_z(x_i)
    squares: Float[Array, " c"]  # |φ_z(x_i)|²
    log_volume: Float[Array, " c"]  # log γ(x_i)


class Fit(NamedTuple):
    """The model at one setting of the hyperparameters."""

    log_evidence: Float[Array, ""]
    noise: Float[Array, ""]  # τ²
    mean: Float[Array, " m"]  # μ̄
    log_z: Float[Array, ""]
    ess: Float[Array, ""]  # effective share of the importance weights


def row_features(kernel: Stationary, X: Float[Array, "c D"], Z: Float[Array, "m D"]) -> RowFeatures:
    """φ_z, its squared norm and the log volume element at every row, with the largest weight factored out."""
    s = kernel.scaled_distances(X, Z)
    log_k = kernel.profile(s)
    xp = namespace(log_k)
    top = log_k.max(axis=1)
    E = xp.exp(log_k - top[:, None])
    height = xp.exp(top)
    slope = kernel.slope(s)
    B = (E * slope) ** 2
    D = X.shape[1]
    volume = half_log_det(*weighted_scatter(B, X, Z), D) + D * top - kernel.log_det_covariance(D)
    if D > DIFFERENCE_DIMENSIONS:
        volume = xp.where((X**2).sum(axis=1) < FAR**2, volume, -1e30)
    return RowFeatures(E * height[:, None], (E * E).sum(axis=1) * height**2, volume)


def weighted_scatter(
    B: Float[Array, "c m"], X: Float[Array, "c D"], Z: Float[Array, "m D"]
) -> tuple[Float[Array, "T c"], Float[Array, "D c"]]:
    """Upper triangle of Σ_l B_l (x - z_l)(x - z_l)ᵀ, and the size its diagonal's terms had."""
    D = X.shape[1]
    xp = namespace(B)
    i, j = np.triu_indices(D)
    if D <= DIFFERENCE_DIMENSIONS:
        t = [X[:, d, None] - Z[None, :, d] for d in range(D)]
        entries = xp.stack([(B * t[a] * t[b]).sum(axis=1) for a, b in zip(i, j, strict=True)])
        return entries, entries[np.flatnonzero(i == j)]
    monomials = xp.concatenate([xp.ones((len(Z), 1)), Z, Z[:, i] * Z[:, j]], axis=1)
    moments = (B @ monomials).T
    S0, S1, S2 = moments[0], moments[1 : D + 1], moments[D + 1 :]
    x = X.T
    entries = S2 - x[i] * S1[j] - S1[i] * x[j] + S0 * x[i] * x[j]
    return entries, S2[np.flatnonzero(i == j)] + S0 * x**2


def half_log_det(entries: Float[Array, "T c"], size: Float[Array, "D c"], D: int) -> Float[Array, " c"]:
    """½ log det of matrices given by their upper triangles, never less than rounding allows."""
    xp = namespace(entries)
    place = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(*np.triu_indices(D), strict=True))}
    if D <= UNROLLED_DIMENSIONS:
        factor: dict[tuple[int, int], Any] = {}
        total: Any = 0.0
        for a in range(D):
            pivot = entries[place[a, a]] - sum(factor[a, c] ** 2 for c in range(a))
            pivot = xp.maximum(pivot, RIDGE * size[a] + TINY)
            total = total + xp.log(pivot)
            root = xp.sqrt(pivot)
            for b in range(a + 1, D):
                rest = entries[place[a, b]] - sum(factor[b, c] * factor[a, c] for c in range(a))
                factor[b, a] = rest / root
        return 0.5 * total
    index = np.array([[place[min(a, b), max(a, b)] for b in range(D)] for a in range(D)])
    matrices = entries[index] + (RIDGE * size + TINY)[:, None] * np.eye(D)[:, :, None]
    if xp is np:
        return 0.5 * np.linalg.slogdet(np.moveaxis(matrices, 2, 0))[1]
    from kembed.learning.determinants import log_dets

    return 0.5 * log_dets(matrices)


def posterior_mean(
    R: Float[Array, "m m"], mean: Float[Array, " m"], shift: Float[Array, ""]
) -> tuple[Float[Array, " m"], Float[Array, ""]]:
    """μ̄, and the price -½{log|A| - m log s + μ̂ᵀa - s aᵀa} with A = R + s I, a = A⁻¹μ̂, s = τ²/n."""
    xp = namespace(R, mean, shift)
    m = len(mean)
    # R is positive semidefinite up to rounding, which must not outweigh a tiny shift.
    jitter = 1e-13 * xp.trace(R)
    lower = xp.linalg.cholesky(R + (shift + jitter) * xp.eye(m))
    if xp is np:
        from scipy.linalg import solve_triangular
    else:
        from jax.scipy.linalg import solve_triangular
    half = solve_triangular(lower, mean, lower=True)
    a = solve_triangular(lower, half, lower=True, trans=1)
    log_det = 2.0 * xp.log(xp.diagonal(lower)).sum()
    price = -0.5 * (log_det - m * xp.log(shift) + half @ half - shift * (a @ a))
    return mean - shift * a, price


def log_plug(rows: RowFeatures, mean: Float[Array, " m"], noise: Float[Array, ""]) -> Float[Array, " c"]:
    """log N(φ; μ̄, τ²I) γ without the constant (2πτ²)^(-m/2), which Z has too."""
    squared = rows.squares - 2.0 * (rows.K @ mean) + mean @ mean
    return -0.5 * squared / noise + rows.log_volume


def log_sum_exp(values: Float[Array, " S"]) -> Float[Array, ""]:
    """log Σ exp."""
    xp = namespace(values)
    top = values.max()
    return top + xp.log(xp.exp(values - top).sum())


def log_mixture(
    log_p: Float[Array, " c"], log_background: Float[Array, " c"], epsilon: Float[Array, ""]
) -> Float[Array, " c"]:
    """log{(1-ε) p + ε b}."""
    xp = namespace(log_p, epsilon)
    return xp.logaddexp(xp.log1p(-epsilon) + log_p, xp.log(epsilon) + log_background)


def normalise(
    rows: RowFeatures, log_weights: Float[Array, " S"], mean: Float[Array, " m"], noise: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log Z by the integration rule whose points have the features `rows`, and the effective share."""
    xp = namespace(rows.K, mean)
    terms = log_plug(rows, mean, noise) + log_weights
    log_z = log_sum_exp(terms)
    return log_z, xp.exp(2.0 * log_z - log_sum_exp(2.0 * terms)) / (log_weights > -np.inf).sum()


def tie(
    R: Float[Array, "m m"],
    mean: Float[Array, " m"],
    noise: Float[Array, ""],
    n: Float[Array, ""],
    inside: RowFeatures,
    log_weights: Float[Array, " S"],
) -> Fit:
    """All but the sum over rows: μ̄, its price, Z and the share of useful draws."""
    centre, price = posterior_mean(R, mean, noise / n)
    log_z, ess = normalise(inside, log_weights, centre, noise)
    return Fit(price, noise, centre, log_z, ess)


def evidence(
    rows: RowFeatures,
    weights: Float[Array, " c"],
    log_background: Float[Array, " c"],
    epsilon: Float[Array, ""],
    fit: Fit,
) -> Float[Array, ""]:
    """Σ_i w_i log{(1-ε) p(x_i) + ε b(x_i)}."""
    log_p = log_plug(rows, fit.mean, fit.noise) - fit.log_z
    return weights @ log_mixture(log_p, log_background, epsilon)

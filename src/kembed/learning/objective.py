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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Array, Float, namespace
from kembed.core.linalg import Cholesky, log_sum_exp, triangular_solve
from kembed.kernels.stationary import Stationary
from kembed.learning.determinants import DIFFERENCE_DIMENSIONS, half_log_det, weighted_scatter

# Pivots below this share of what the diagonal was before terms cancelled are rounding.
RIDGE = 1e-14
TINY = 1e-290  # where everything is 0: its logarithm is a number
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
    D = X.shape[1]
    entries, size = weighted_scatter((E * kernel.slope(s)) ** 2, X, Z)
    volume = half_log_det(entries, RIDGE * size + TINY)[0] + D * top - kernel.log_det_covariance(D)
    if D > DIFFERENCE_DIMENSIONS:
        volume = xp.where((X**2).sum(axis=1) < FAR**2, volume, -1e30)
    return RowFeatures(E * height[:, None], (E * E).sum(axis=1) * height**2, volume)


def posterior_mean(
    R: Float[Array, "m m"], mean: Float[Array, " m"], shift: Float[Array, ""]
) -> tuple[Float[Array, " m"], Float[Array, ""]]:
    """μ̄, and the price -½{log|A| - m log s + μ̂ᵀa - s aᵀa} with A = R + s I, a = A⁻¹μ̂, s = τ²/n."""
    xp = namespace(R, mean, shift)
    m = len(mean)
    # R is positive semidefinite up to rounding, which must not outweigh a tiny shift.
    jitter = 1e-13 * xp.trace(R)
    A = Cholesky(xp.linalg.cholesky(R + (shift + jitter) * xp.eye(m)))
    half = A.half_solve(mean)
    a = triangular_solve(A.lower, half, transposed=True)
    price = -0.5 * (A.log_det - m * xp.log(shift) + half @ half - shift * (a @ a))
    return mean - shift * a, price


def log_plug(rows: RowFeatures, mean: Float[Array, " m"], noise: Float[Array, ""]) -> Float[Array, " c"]:
    """log N(φ; μ̄, τ²I) γ without the constant (2πτ²)^(-m/2), which Z has too."""
    squared = rows.squares - 2.0 * (rows.K @ mean) + mean @ mean
    return -0.5 * squared / noise + rows.log_volume


def log_mixture(
    log_p: Float[Array, " c"], log_background: Float[Array, " c"], epsilon: Float[Array, ""]
) -> Float[Array, " c"]:
    """log{(1-ε) p + ε b}."""
    xp = namespace(log_p, epsilon)
    return xp.logaddexp(xp.log1p(-epsilon) + log_p, xp.log(epsilon) + log_background)


def fit_at(
    R: Float[Array, "m m"],
    mean: Float[Array, " m"],
    noise: Float[Array, ""],
    n: Float[Array, ""],
    inside: RowFeatures,
    log_weights: Float[Array, " S"],
) -> Fit:
    """All but the sum over rows: μ̄, its price, and log Z by a rule whose points have features `inside`."""
    centre, price = posterior_mean(R, mean, noise / n)
    terms = log_plug(inside, centre, noise) + log_weights
    log_z = log_sum_exp(terms)
    share = namespace(terms).exp(2.0 * log_z - log_sum_exp(2.0 * terms)) / (log_weights > -np.inf).sum()
    return Fit(price, noise, centre, log_z, share)


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


def streamed(
    sums: Callable[..., Any], weights: Float[Array, " N"], arrays: tuple[Any, ...], chunks: int
) -> Any:
    """Σ over chunks of rows of sums(weights, *arrays), in JAX: a scan whose memory does not grow with N.

    Rows are padded to whole chunks by the first row, which then counts for nothing.
    """
    import jax
    import jax.numpy as jnp

    if chunks == 1:
        return sums(weights, *arrays)
    N = len(weights)
    rows = -(-N // chunks)
    pad = rows * chunks - N
    weights = jnp.concatenate([weights, jnp.zeros(pad)])
    arrays = tuple(jnp.concatenate([a, jnp.broadcast_to(a[:1], (pad, *a.shape[1:]))]) for a in arrays)
    data = [a.reshape(chunks, rows, *a.shape[1:]) for a in (weights, *arrays)]

    @jax.checkpoint
    def step(total: Any, chunk: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, sums(*chunk)), None

    shapes = jax.eval_shape(sums, *(a[0] for a in data))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(step, zero, data)[0]

"""The three sums of a Gaussian kernel with their derivatives in the lengthscales, from moments alone.

With t = x - z, log k = -½ Σ_d t_d²/ℓ_d² has the derivative t_d²/ℓ_d³ in ℓ_d, a polynomial. So the derivatives
of Σ k, Σ k² and Σ k² t tᵀ are the same sums with two more powers of t, and all of them come out of two matrix
products: squared weights with monomials of the landmarks, and monomials of the rows with weights. The general
rule needs four, and products of this shape are what the time goes into.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kembed.kernels.stationary import Gaussian
from kembed.learning.paper.volumes import checked_half_log_det

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = jax.Array

# In one dimension differences are as cheap; beyond three there are too many monomials of degree 4.
GAUSSIAN_DIMENSIONS = (2, 3)


class FeatureSums(NamedTuple):
    """All that the pseudolikelihood needs of the data."""

    features: Float[Array, " m"]  # Σ_i w_i φ_z(x_i)
    squares: Float[Array, ""]  # Σ_i w_i |φ_z(x_i)|²
    log_volume: Float[Array, ""]  # Σ_i w_i log γ(x_i)


def gaussian_sums(
    kernel: Gaussian, X: Array, weights: Array, Z: Array, otherwise: Callable[[], list[FeatureSums]]
) -> list[FeatureSums]:
    """The sums over one chunk and their derivative in every lengthscale.

    Where some row's volume element would lose digits to cancellation, `otherwise()` is returned.
    """
    D = X.shape[1]
    lengthscale = kernel.lengthscale
    origin = lax.stop_gradient(Z[0])
    x, z = (X - origin).T, (Z - origin).T
    K = exp_once(kernel._log_gram(X, Z))
    degrees = [a for a in itertools.product(range(5), repeat=D) if sum(a) <= 4]
    sums = (K * K) @ jnp.stack([_monomial(z, a) for a in degrees], axis=1)
    moments = dict(zip(degrees, sums.T, strict=True))
    rows = jnp.stack([weights, *(weights * x), *(weights * x**2)]) @ K
    features = rows[0]
    features_t2 = [rows[1 + D + d] - 2.0 * z[d] * rows[1 + d] + z[d] ** 2 * features for d in range(D)]

    unit = np.eye(D, dtype=int)
    upper = list(zip(*np.triu_indices(D), strict=True))
    entries = jnp.stack([_central(moments, x, unit[a] + unit[b]) for a, b in upper])
    zero = (0,) * D
    size = jnp.stack([moments[tuple(2 * unit[d])] + moments[zero] * x[d] ** 2 for d in range(D)])
    half_log_det, trusted = checked_half_log_det(entries, size, D)

    def closed_form() -> list[FeatureSums]:
        n = weights.sum()
        volume = weights @ half_log_det - n * kernel.log_det_covariance(D)
        results = [FeatureSums(features, weights @ moments[zero], volume)]
        # An isotropic lengthscale moves every coordinate; in ARD each has its own.
        groups = [list(range(D))] if jnp.ndim(lengthscale) == 0 else [[d] for d in range(D)]
        for group, ell in zip(groups, jnp.atleast_1d(lengthscale), strict=True):
            rate = 1.0 / ell**3
            d_features = rate * sum(features_t2[d] for d in group)
            t2 = sum(_central(moments, x, 2 * unit[d]) for d in group)
            d_entries = (
                2.0
                * rate
                * jnp.stack(
                    [
                        sum(_central(moments, x, unit[a] + unit[b] + 2 * unit[d]) for d in group)
                        for a, b in upper
                    ]
                )
            )
            d_half = jax.jvp(lambda e: checked_half_log_det(e, size, D)[0], (entries,), (d_entries,))[1]
            d_volume = weights @ d_half - 2.0 * n * len(group) / ell
            results.append(FeatureSums(d_features, 2.0 * rate * (weights @ t2), d_volume))
        return results

    return lax.cond(trusted.all(), closed_form, otherwise)


def _monomial(z: Float[Array, "D m"], degree: tuple[int, ...]) -> Array:
    value = jnp.ones(z.shape[1])
    for coordinate, power in zip(z, degree, strict=True):
        for _ in range(power):
            value = value * coordinate
    return value


def _central(moments: dict[tuple[int, ...], Array], x: Any, degree: np.ndarray) -> Array:
    """Σ_l B_l Π_d (x_d - z_ld)^{degree_d} by the binomial theorem, for an even total degree."""
    total = jnp.zeros(())
    for lower in itertools.product(*(range(power + 1) for power in degree)):
        coefficient = (-1.0) ** sum(lower) * math.prod(map(math.comb, map(int, degree), lower))
        rest = tuple(int(power) - taken for power, taken in zip(degree, lower, strict=True))
        total = total + coefficient * _monomial(x, rest) * moments[lower]
    return total


@jax.custom_jvp
def exp_once(log_k: Array) -> Array:
    """exp whose result is kept: without the barrier XLA computes it again for every sum that uses it."""
    return lax.optimization_barrier(jnp.exp(log_k))  # type: ignore[no-untyped-call]


@exp_once.defjvp
def _exp_once_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    K = exp_once(*primals)
    return K, K * tangents[0]

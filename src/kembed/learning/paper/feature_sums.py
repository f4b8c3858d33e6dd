"""Three sums over rows: all that the pseudolikelihood needs of the data.

Σ φ_z(x_i), Σ |φ_z(x_i)|² and Σ log γ(x_i), streamed in chunks of bounded memory and differentiable in the
kernel, the landmarks and the data.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from kembed.kernels.base import Kernel
from kembed.kernels.composite import Scaled
from kembed.kernels.stationary import Gaussian, Stationary
from kembed.learning.paper.gaussian_sums import GAUSSIAN_DIMENSIONS, FeatureSums, exp_once, gaussian_sums
from kembed.learning.paper.volumes import log_volumes, pivoted_log_volumes

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = jax.Array

# Entries of a chunk of the feature matrix: 2 MiB, which stays in a core's cache.
CHUNK_ENTRIES = 262_144
# Up to so many hyperparameters their derivatives ride along in the one pass over the data.
FORWARD_MODE_PARAMETERS = 3


@functools.partial(jax.custom_jvp)
def feature_sums(kernel: Kernel, x: Any, weights: Any, landmarks: Any) -> FeatureSums:
    """The three sums over rows, streamed in chunks."""
    return _streamed(kernel, x, weights, landmarks)


@functools.partial(feature_sums.defjvp, symbolic_zeros=True)
def _feature_sums_jvp(primals: Any, tangents: Any) -> tuple[FeatureSums, FeatureSums]:
    """Derivatives in few hyperparameters ride along in one pass, whatever way JAX differentiates.

    Reverse mode would go through the data twice, with the features computed twice over. With P small
    it is cheaper to have the P directional derivatives at once; they are then combined linearly.
    """
    kernel, x, weights, landmarks = primals
    leaves, treedef = jax.tree.flatten(kernel)
    dots = jax.tree.leaves(tangents[0], is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    moving = [k for k, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]
    size = sum(int(np.size(leaves[k])) for k in moving)
    data_moves = any(not isinstance(dot, SymbolicZero) for dot in tangents[1:])
    if data_moves or size > FORWARD_MODE_PARAMETERS:
        dense = jax.tree.map(
            lambda dot: jnp.zeros(dot.shape, dot.dtype) if isinstance(dot, SymbolicZero) else dot,
            tangents,
            is_leaf=lambda leaf: isinstance(leaf, SymbolicZero),
        )
        return jax.jvp(_streamed, primals, dense)

    closed_form = (
        type(kernel) is Gaussian and np.ndim(kernel.lengthscale) < 2 and x.shape[1] in GAUSSIAN_DIMENSIONS
    )

    def by_forward_mode(X: Array, w: Array) -> list[FeatureSums]:
        def in_moving(*values: Array) -> FeatureSums:
            current = list(leaves)
            for k, value in zip(moving, values, strict=True):
                current[k] = value
            return _chunk_sums(jax.tree.unflatten(treedef, current), X, w, landmarks)

        here = [jnp.asarray(leaves[k]) for k in moving]
        pairs = [jax.jvp(in_moving, here, direction) for direction in _unit_directions(here)]
        return [pairs[0][0], *(derivative for _, derivative in pairs)]

    def with_derivatives(X: Array, w: Array) -> list[FeatureSums]:
        if not closed_form:
            return by_forward_mode(X, w)
        return gaussian_sums(kernel, X, w, landmarks, lambda: by_forward_mode(X, w))

    sums, *derivatives = _stream(with_derivatives, x, weights, len(landmarks))
    flat = jnp.concatenate([jnp.ravel(dots[k]) for k in moving])
    return sums, jax.tree.map(
        lambda *parts: sum(flat[p] * part for p, part in enumerate(parts)), *derivatives
    )


def _unit_directions(leaves: list[Array]) -> list[list[Array]]:
    """One tangent for each scalar in the leaves."""
    zeros = [np.zeros(leaf.shape) for leaf in leaves]
    directions = []
    for k, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            unit = np.zeros(leaf.shape)
            unit[index] = 1.0
            directions.append([jnp.asarray(d) for d in [*zeros[:k], unit, *zeros[k + 1 :]]])
    return directions


def _streamed(kernel: Kernel, x: Any, weights: Any, landmarks: Any) -> FeatureSums:
    return _stream(lambda X, w: _chunk_sums(kernel, X, w, landmarks), x, weights, len(landmarks))


def _stream(sums: Any, x: Any, weights: Any, m: int) -> Any:
    """Σ over chunks of rows of sums(rows, weights): a scan whose memory does not grow with n."""
    n, D = x.shape
    chunks = -(-n * max(m, D) // CHUNK_ENTRIES)
    rows = -(-n // chunks)
    padding = chunks * rows - n
    if padding:
        x = jnp.concatenate([x, jnp.broadcast_to(x[:1], (padding, D))])
        weights = jnp.concatenate([weights, jnp.zeros(padding)])
    if chunks == 1:
        return sums(x, weights)

    @jax.checkpoint
    def step(total: Any, chunk: tuple[Array, Array]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, sums(*chunk)), None

    data = (x.reshape(chunks, rows, D), weights.reshape(chunks, rows))
    zero = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(sums, data[0][0], data[1][0]),
    )
    return lax.scan(step, zero, data)[0]


def _chunk_sums(kernel: Kernel, X: Any, weights: Any, Z: Any) -> FeatureSums:
    K, squares, volumes = row_features(kernel, X, Z)
    return FeatureSums(weights @ K, weights @ squares, weights @ volumes)


def row_features(
    kernel: Kernel, X: Float[Array, "c D"], Z: Float[Array, "m D"]
) -> tuple[Float[Array, "c m"], Float[Array, " c"], Float[Array, " c"]]:
    """Features φ_z(x_i), their squared norms and log γ(x_i), for one chunk of rows."""
    X, Z = jnp.asarray(X), jnp.asarray(Z)
    log_scale, radial = 0.0, kernel
    while isinstance(radial, Scaled):
        log_scale = log_scale + radial._log_variance()
        radial = radial.kernel
    if isinstance(radial, Stationary):
        s = radial.scaled_distances(X, Z)
        log_k = radial.profile(s) + log_scale
        K = exp_once(log_k)
        slope = radial.slope(s)
        B = (K * slope) ** 2

        def log_weights(rows: Array) -> Array:
            s = radial.scaled_distances(rows, Z)
            slope = radial.slope(s)
            moving = slope > 0.0
            log_slope = jnp.log(jnp.where(moving, slope, 1.0))
            return jnp.where(moving, radial.profile(s) + log_scale + log_slope, -jnp.inf)

        # ∂φ/∂x = -k · slope · Σ⁻¹(x - z)
        volumes, total = log_volumes(B, X, Z, log_weights)
        volumes = volumes - radial.log_det_covariance(X.shape[1])
        # The Gaussian's slope is 1, and its squared features have been summed already.
        squares = total if isinstance(radial, Gaussian) else (K * K).sum(axis=1)
    else:
        log_k, gradients = _log_gradients(kernel, X, Z)
        K = jnp.exp(log_k)
        squares = (K * K).sum(axis=1)
        volumes = pivoted_log_volumes(log_k, gradients)
    return K, squares, volumes


def _log_gradients(kernel: Kernel, X: Any, Z: Any) -> tuple[Array, Array]:
    """log k(x_i, z_l) and its gradient in x_i, for kernels without a closed form."""

    def pair(x: Array, z: Array) -> Array:
        return kernel._log_gram(x[None, :], z[None, :])[0, 0]

    over_z = jax.vmap(jax.value_and_grad(pair), (None, 0))
    return jax.vmap(over_z, (0, None))(X, Z)

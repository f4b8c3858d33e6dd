"""Three sums over rows: all that the pseudolikelihood needs of the data.

Σ φ_z(x_i), Σ |φ_z(x_i)|² and Σ log γ(x_i), streamed in chunks of bounded memory and differentiable in the
kernel, the landmarks and the data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree

from kembed.core.backend import Float, namespace
from kembed.kernels.base import Kernel
from kembed.kernels.composite import Scaled
from kembed.kernels.stationary import Stationary
from kembed.learning.paper.volumes import log_volumes, pivoted_log_volumes

CHUNK_ENTRIES = 262_144  # entries of a chunk of the feature matrix: 2 MiB, which stays in a core's cache
# Up to so many hyperparameters their derivatives ride along in the one pass over the data.
FORWARD_MODE_PARAMETERS = 3


class FeatureSums(NamedTuple):
    """All that the pseudolikelihood needs of the data."""

    features: Float[Array, " m"]  # Σ_i w_i φ_z(x_i)
    squares: Float[Array, ""]  # Σ_i w_i |φ_z(x_i)|²
    log_volume: Float[Array, ""]  # Σ_i w_i log γ(x_i)


def computed_plainly(kernel: Kernel, x: Any, landmarks: Any) -> bool:
    """Whether NumPy is the quicker: one chunk, and a kernel whose derivative has a closed form.

    A compiled program takes two seconds before its first number, the numbers of a chunk milliseconds.
    """
    return _chunks(x, landmarks, CHUNK_ENTRIES) == 1 and isinstance(_unscaled(kernel)[1], Stationary)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def feature_sums(
    kernel: Kernel, x: Any, weights: Any, landmarks: Any, chunk_entries: int = CHUNK_ENTRIES
) -> FeatureSums:
    """The three sums over rows, streamed in chunks."""
    return _streamed(kernel, x, weights, landmarks, chunk_entries)


@functools.partial(feature_sums.defjvp, symbolic_zeros=True)
def _feature_sums_jvp(chunk_entries: int, primals: Any, tangents: Any) -> tuple[FeatureSums, FeatureSums]:
    """Derivatives in few hyperparameters ride along in one pass, whatever way JAX differentiates.

    Reverse mode would go through the data twice, with the features computed twice over: with m = 100
    it took 4.5 times as long in two dimensions (100,000 rows) and 7 times in five (20,000). With P small it
    is cheaper to have the P directional derivatives at once; they are then combined linearly.
    """
    kernel, x, weights, landmarks = primals
    dots = jax.tree.leaves(tangents[0], is_leaf=_still)
    leaves, treedef = jax.tree.flatten(kernel)
    moving = [k for k, dot in enumerate(dots) if not _still(dot)]
    here, rebuilt = ravel_pytree([leaves[k] for k in moving])
    if not all(map(_still, tangents[1:])) or len(here) > FORWARD_MODE_PARAMETERS:
        dense = jax.tree.map(
            lambda dot: jnp.zeros(dot.shape, dot.dtype) if _still(dot) else dot, tangents, is_leaf=_still
        )
        return jax.jvp(functools.partial(_streamed, chunk_entries=chunk_entries), primals, dense)

    def with_derivatives(w: Array, X: Array) -> tuple[FeatureSums, ...]:
        def at(values: Array) -> FeatureSums:
            current = dict(enumerate(leaves)) | dict(zip(moving, rebuilt(values), strict=True))
            return chunk_sums(jax.tree.unflatten(treedef, current.values()), X, w, landmarks)

        pairs = [jax.jvp(at, (here,), (direction,)) for direction in jnp.eye(len(here))]
        return pairs[0][0], *(derivative for _, derivative in pairs)

    sums, *derivatives = streamed(with_derivatives, weights, (x,), _chunks(x, landmarks, chunk_entries))
    flat = ravel_pytree([dots[k] for k in moving])[0]
    return sums, jax.tree.map(lambda *parts: sum(map(jnp.multiply, flat, parts)), *derivatives)


def _still(dot: Any) -> bool:
    return isinstance(dot, SymbolicZero)


def _streamed(kernel: Kernel, x: Any, weights: Any, landmarks: Any, chunk_entries: int) -> FeatureSums:
    chunks = _chunks(x, landmarks, chunk_entries)
    return streamed(lambda w, X: chunk_sums(kernel, X, w, landmarks), weights, (x,), chunks)


def _chunks(x: Any, landmarks: Any, entries: int) -> int:
    return -(-len(x) * max(len(landmarks), x.shape[1]) // entries)


def chunk_sums(kernel: Kernel, X: Any, weights: Any, Z: Any) -> FeatureSums:
    """The sums over one chunk of rows; in NumPy if all is plain."""
    xp = namespace(*jax.tree.leaves((kernel, X, weights, Z)))
    X, Z = xp.asarray(X), xp.asarray(Z)
    log_scale, radial = _unscaled(kernel)
    if isinstance(radial, Stationary):
        s = radial.scaled_distances(X, Z)
        log_k = radial.profile(s) + log_scale
        K = np.exp(log_k) if xp is np else exp_once(log_k)

        def log_weights(rows: Array) -> Array:
            s = radial.scaled_distances(rows, Z)
            slope = radial.slope(s)
            moving = slope > 0.0
            log_slope = xp.log(xp.where(moving, slope, 1.0))
            return xp.where(moving, radial.profile(s) + log_scale + log_slope, -xp.inf)

        # ∂φ/∂x = -k · slope · Σ⁻¹(x - z)
        volumes = log_volumes((K * radial.slope(s)) ** 2, X, Z, log_weights)
        volumes = volumes - radial.log_det_covariance(X.shape[1])
    else:  # no closed form

        def log_k_at(x: Array, z: Array) -> Array:
            return kernel._log_gram(x[None, :], z[None, :])[0, 0]

        over_z = jax.vmap(jax.value_and_grad(log_k_at), (None, 0))
        log_k, gradients = jax.vmap(over_z, (0, None))(X, Z)
        K = jnp.exp(log_k)
        volumes = pivoted_log_volumes(log_k, gradients)
    return FeatureSums(weights @ K, weights @ (K * K).sum(axis=1), weights @ volumes)


def _unscaled(kernel: Kernel) -> tuple[Any, Kernel]:
    """The log of all variances in front, and the kernel behind them."""
    log_scale: Any = 0.0
    while isinstance(kernel, Scaled):
        log_scale, kernel = log_scale + kernel._log_variance(), kernel.kernel
    return log_scale, kernel


@jax.custom_jvp
def exp_once(log_k: Array) -> Array:
    """exp whose result is kept: without the barrier XLA computes it again for every sum that uses it."""
    return lax.optimization_barrier(jnp.exp(log_k))  # type: ignore[no-untyped-call]


@exp_once.defjvp
def _exp_once_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    K = exp_once(*primals)
    return K, K * tangents[0]


def streamed(
    sums: Callable[..., Any], weights: Float[Array, " N"], arrays: tuple[Any, ...], chunks: int
) -> Any:
    """Σ over chunks of rows of sums(weights, *arrays), in JAX: a scan whose memory does not grow with N.

    Rows are padded to whole chunks by the first row, which then counts for nothing.
    """
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
    return lax.scan(step, zero, data)[0]

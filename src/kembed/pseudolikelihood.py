"""The marginal pseudolikelihood of the paper, Eq. (13), as one pure differentiable function.

With μ̂ the mean of the features φ_z(x_i), K the n × m matrix of features and A = R + (τ²/n) I,

    log p(x | θ, τ²) = -½ { log|A| + μ̂ᵀA⁻¹μ̂ + (‖K‖²_F - n‖μ̂‖²)/τ²
                            + m log n + m(n-1) log τ² + mn log 2π } + Σ_i log γ(x_i).

The data enter through three sums over rows, so they are streamed in chunks of bounded memory.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from kembed import _validation
from kembed._backend import float64, is_traced
from kembed._volumes import log_volumes, pivoted_log_volumes
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.composite import Scaled
from kembed.kernels.stationary import Gaussian, Stationary
from kembed.measures import Lebesgue, Measure

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = jax.Array

# Entries of a chunk of the feature matrix: 2 MiB, which stays in a core's cache.
CHUNK_ENTRIES = 262_144
# Up to so many hyperparameters their derivatives ride along in the one pass over the data.
FORWARD_MODE_PARAMETERS = 3


class FeatureSums(NamedTuple):
    """All that the pseudolikelihood needs of the data."""

    features: Float[Array, " m"]  # Σ_i w_i φ_z(x_i)
    squares: Float[Array, ""]  # Σ_i w_i |φ_z(x_i)|²
    log_volume: Float[Array, ""]  # Σ_i w_i log γ(x_i)


def log_pseudolikelihood(
    x: Any,
    *,
    kernel: Kernel,
    noise: Any,
    landmarks: Any,
    measure: Measure | None = None,
    objective: str = "paper",
) -> Any:
    """Logarithm of the marginal pseudolikelihood of the data, Eq. (13) of the paper.

    Parameters
    ----------
    x
        Observations, (n, D).
    kernel
        The kernel k_θ; its hyperparameters may be traced by JAX.
    noise
        τ², the likelihood variance: φ_z(x_i) given μ is N(μ(z), τ² I).
    landmarks
        The points z, (m, D), with m ≥ D.
    measure
        ν of the prior covariance; `Lebesgue()` unless given.
    objective
        `"paper"`: the objective as published (see the theory page for what is wrong with it).

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Gaussian, log_pseudolikelihood
    >>> x = np.random.default_rng(0).normal(size=(50, 1))
    >>> z = np.linspace(-2, 2, 5)
    >>> round(log_pseudolikelihood(x, kernel=Gaussian(0.5), noise=1.0, landmarks=z), 3)
    -238.647

    It is differentiable: `jax.grad(lambda l: log_pseudolikelihood(x, kernel=Gaussian(l), ...))(0.5)`.

    """
    check_kernel(kernel)
    _validation.choice(objective, "objective", ("paper",))
    landmarks = _validation.points(landmarks, "landmarks")
    D = landmarks.shape[1]
    if landmarks.shape[0] < D:
        raise ValueError(
            f"landmarks has {landmarks.shape[0]} rows but the data have {D} columns; the volume element "
            f"needs at least as many landmarks as columns, so give {D} or more"
        )
    x = _validation.points(x, "x", dimension=D)
    noise = _validation.positive(noise, "noise")
    measure = Lebesgue() if measure is None else measure
    kernel.convolved(measure)  # raises here, and not inside a trace, if this is not a measure
    _refuse_flat(x, landmarks)
    value = _evaluate(kernel, noise, x, landmarks, measure)
    return value if is_traced(value) else float(value)


def _refuse_flat(x: Any, landmarks: Any) -> None:
    """Data in a lower-dimensional flat have volume element 0 and log pseudolikelihood -∞."""
    if is_traced(x) or is_traced(landmarks):
        return
    cloud = np.concatenate([np.asarray(landmarks), np.asarray(x)[:10_000]])
    spread = np.ptp(cloud, axis=0)
    if (spread == 0.0).any():
        raise ValueError(
            f"column {int(np.argmin(spread))} of x is constant, so the log pseudolikelihood is -infinity; "
            "drop constant columns"
        )
    singular = np.linalg.svd((cloud - cloud.mean(axis=0)) / spread, compute_uv=False)
    if len(singular) < x.shape[1] or singular[-1] < 1e-10 * singular[0]:
        raise ValueError(
            f"the {x.shape[1]} columns of x are linearly dependent (duplicated or derived from one another), "
            "so the log pseudolikelihood is -infinity; drop the redundant columns"
        )


@float64("log_pseudolikelihood")
def _evaluate(kernel: Kernel, noise: Any, x: Any, landmarks: Any, measure: Measure) -> Any:
    arguments = (kernel, noise, x, landmarks, measure)
    return _compiled(*jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), arguments))


@jax.jit
def _compiled(kernel: Kernel, noise: Any, x: Any, landmarks: Any, measure: Measure) -> Array:
    weights = jnp.ones(x.shape[0])
    return paper_objective(kernel, noise, x, weights, landmarks, measure)


def paper_objective(
    kernel: Kernel,
    noise: Float[Array, ""],
    x: Float[Array, "n D"],
    weights: Float[Array, " n"],
    landmarks: Float[Array, "m D"],
    measure: Measure,
) -> Float[Array, ""]:
    """The objective for rows that count `weights` times each (0 for padding)."""
    sums = feature_sums(kernel, x, weights, landmarks)
    R = kernel.convolved(measure)._gram(landmarks, landmarks)
    return log_marginal(sums, R, noise, weights.sum()) + sums.log_volume


def log_marginal(
    sums: FeatureSums, R: Float[Array, "m m"], noise: Float[Array, ""], n: Float[Array, ""]
) -> Float[Array, ""]:
    """log N(vec K; 0, 11ᵀ ⊗ R + τ² I) in O(m³), by the Kronecker structure."""
    m = R.shape[0]
    mean = sums.features / n
    log_det, quadratic = log_det_and_quadratic(R, noise / n, mean)
    scatter = sums.squares - n * (mean @ mean)
    constants = m * jnp.log(n) + m * (n - 1.0) * jnp.log(noise) + m * n * np.log(2.0 * np.pi)
    return -0.5 * (log_det + quadratic + scatter / noise + constants)


def log_det_and_quadratic(
    R: Float[Array, "m m"], shift: Float[Array, ""], b: Float[Array, " m"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log|R + shift·I| and bᵀ(R + shift·I)⁻¹b for R positive semidefinite up to rounding.

    Cholesky where it succeeds. A shift below the rounding error of R can defeat it; then the
    eigenvalues of R, which exact arithmetic keeps at or above 0, are clipped there.
    """
    A = R + shift * jnp.eye(R.shape[0])
    lower = jnp.linalg.cholesky(lax.stop_gradient(A))

    def by_cholesky() -> tuple[Array, Array]:
        lower = jnp.linalg.cholesky(A)
        half = jax.scipy.linalg.solve_triangular(lower, b, lower=True)
        return 2.0 * jnp.log(jnp.diagonal(lower)).sum(), half @ half

    def by_eigenvalues() -> tuple[Array, Array]:
        return _clipped(R, shift, b)

    return lax.cond(jnp.isfinite(lower).all(), by_cholesky, by_eigenvalues)


@jax.custom_jvp
def _clipped(R: Array, shift: Array, b: Array) -> tuple[Array, Array]:
    eigenvalues, Q = jnp.linalg.eigh(R)
    shifted = jnp.maximum(eigenvalues, 0.0) + shift
    return jnp.log(shifted).sum(), ((Q.T @ b) ** 2 / shifted).sum()


@_clipped.defjvp
def _clipped_jvp(primals: Any, tangents: Any) -> Any:
    # d log|A| = tr(A⁻¹ dA) and d bᵀA⁻¹b = 2 bᵀA⁻¹ db - bᵀA⁻¹ dA A⁻¹b need no eigenvalue derivatives,
    # which do not exist where eigenvalues coincide.
    R, shift, b = primals
    dR, dshift, db = tangents
    eigenvalues, Q = jnp.linalg.eigh(R)
    shifted = jnp.maximum(eigenvalues, 0.0) + shift
    solved = Q @ ((Q.T @ b) / shifted)
    dA = dR + dshift * jnp.eye(R.shape[0])
    out = (jnp.log(shifted).sum(), ((Q.T @ b) ** 2 / shifted).sum())
    return out, ((jnp.diagonal(Q.T @ dA @ Q) / shifted).sum(), 2.0 * solved @ db - solved @ dA @ solved)


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

    def with_derivatives(X: Array, w: Array) -> list[FeatureSums]:
        def in_moving(*values: Array) -> FeatureSums:
            current = list(leaves)
            for k, value in zip(moving, values, strict=True):
                current[k] = value
            return _chunk_sums(jax.tree.unflatten(treedef, current), X, w, landmarks)

        here = [jnp.asarray(leaves[k]) for k in moving]
        pairs = [jax.jvp(in_moving, here, direction) for direction in _unit_directions(here)]
        return [pairs[0][0], *(derivative for _, derivative in pairs)]

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
    log_scale, radial = 0.0, kernel
    while isinstance(radial, Scaled):
        log_scale = log_scale + radial._log_variance()
        radial = radial.kernel
    if isinstance(radial, Stationary):
        s = radial.scaled_distances(X, Z)
        log_k = radial.profile(s) + log_scale
        K = _exp_once(log_k)
        slope = radial.slope(s)
        B = (K * slope) ** 2

        def log_weights() -> Array:
            s = radial.scaled_distances(X, Z)
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


@jax.custom_jvp
def _exp_once(log_k: Array) -> Array:
    """exp whose result is kept: without the barrier XLA computes it again for every sum that uses it."""
    return lax.optimization_barrier(jnp.exp(log_k))  # type: ignore[no-untyped-call]


@_exp_once.defjvp
def _exp_once_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    K = _exp_once(*primals)
    return K, K * tangents[0]


def _log_gradients(kernel: Kernel, X: Any, Z: Any) -> tuple[Array, Array]:
    """log k(x_i, z_l) and its gradient in x_i, for kernels without a closed form."""

    def pair(x: Array, z: Array) -> Array:
        return kernel._log_gram(x[None, :], z[None, :])[0, 0]

    over_z = jax.vmap(jax.value_and_grad(pair), (None, 0))
    return jax.vmap(over_z, (0, None))(X, Z)

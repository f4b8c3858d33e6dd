"""The marginal pseudolikelihood of the paper, Eq. (15), as one pure differentiable function.

With μ̂ the mean of the features φ_z(x_i), K the n × m matrix of features and A = R + (τ²/n) I,

    log p(x | θ, τ²) = -½ { log|A| + μ̂ᵀA⁻¹μ̂ + (‖K‖²_F - n‖μ̂‖²)/τ²
                            + m log n + m(n-1) log τ² + mn log 2π } + Σ_i log γ(x_i).

The data enter through three sums over rows, so they are streamed in chunks of bounded memory. Up to one chunk
of plain numbers is summed in NumPy, more of them, and what JAX traces, in a compiled program.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from kembed.core.backend import Float, float64, is_traced, namespace, to_numpy
from kembed.core.linalg import Cholesky
from kembed.kernels.base import Kernel
from kembed.kernels.measures import Measure
from kembed.learning.paper.feature_sums import (
    CHUNK_ENTRIES,
    FeatureSums,
    chunk_sums,
    computed_plainly,
    feature_sums,
)


def evaluate(kernel: Kernel, noise: Any, x: Any, landmarks: Any, measure: Measure) -> Any:
    """Eq. (15), in NumPy where nothing is traced and rows are few, else in a compiled program."""
    arguments: tuple[Any, ...] = (kernel, noise, x, landmarks, measure)
    if any(map(is_traced, jax.tree.leaves(arguments))) or not computed_plainly(kernel, x, landmarks):
        return _evaluate(*arguments)
    kernel, noise, x, *rest = map(to_numpy, arguments)
    return float(paper_objective(kernel, noise, x, np.ones(len(x)), *rest))  # type: ignore[arg-type]


@float64("log_pseudolikelihood")
def _evaluate(kernel: Kernel, noise: Any, x: Any, landmarks: Any, measure: Measure) -> Any:
    arguments = (kernel, noise, x, landmarks, measure)
    value = _compiled(*jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), arguments))
    return value if is_traced(value) else float(value)


@jax.jit
def _compiled(kernel: Kernel, noise: Any, x: Any, landmarks: Any, measure: Measure) -> Array:
    return paper_objective(kernel, noise, x, jnp.ones(len(x)), landmarks, measure)


def paper_objective(
    kernel: Kernel,
    noise: Float[Array, ""],
    x: Float[Array, "n D"],
    weights: Float[Array, " n"],
    landmarks: Float[Array, "m D"],
    measure: Measure,
    chunk_entries: int = CHUNK_ENTRIES,
) -> Float[Array, ""]:
    """The objective for rows that count `weights` times each (0 for padding); in NumPy if all is plain."""
    if namespace(*jax.tree.leaves((kernel, noise, x, weights, landmarks, measure))) is np:
        with np.errstate(all="ignore"):  # what underflows goes the slow way, as in JAX
            sums = chunk_sums(kernel, x, weights, landmarks)
    else:
        sums = feature_sums(kernel, x, weights, landmarks, chunk_entries)
    R = kernel.convolved(measure)._gram(landmarks, landmarks)
    return log_marginal(sums, R, noise, weights.sum()) + sums.log_volume


def log_marginal(
    sums: FeatureSums, R: Float[Array, "m m"], noise: Float[Array, ""], n: Float[Array, ""]
) -> Float[Array, ""]:
    """log N(vec K; 0, 11ᵀ ⊗ R + τ² I) in O(m³), by the Kronecker structure."""
    xp = namespace(*sums, R, noise, n)
    m = R.shape[0]
    mean = sums.features / n
    log_det, quadratic = log_det_and_quadratic(R, noise / n, mean)
    scatter = sums.squares - n * (mean @ mean)
    constants = m * xp.log(n) + m * (n - 1.0) * xp.log(noise) + m * n * np.log(2.0 * np.pi)
    return -0.5 * (log_det + quadratic + scatter / noise + constants)


def log_det_and_quadratic(
    R: Float[Array, "m m"], shift: Float[Array, ""], b: Float[Array, " m"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log|R + shift·I| and bᵀ(R + shift·I)⁻¹b for R positive semidefinite up to rounding.

    Cholesky where it succeeds. A shift below the rounding error of R can defeat it; then the
    eigenvalues of R, which exact arithmetic keeps at or above 0, are clipped there.
    """
    A = R + shift * np.eye(R.shape[0])

    def by_cholesky() -> tuple[Array, Array]:
        factor = Cholesky(namespace(A).linalg.cholesky(A))
        half = factor.half_solve(b)
        return factor.log_det, half @ half

    if namespace(A, b) is np:
        try:
            return by_cholesky()
        except np.linalg.LinAlgError:
            return _by_eigenvalues(R, shift, b)[:2]
    lower = jnp.linalg.cholesky(lax.stop_gradient(A))
    return lax.cond(jnp.isfinite(lower).all(), by_cholesky, lambda: _clipped(R, shift, b))


def _by_eigenvalues(R: Any, shift: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """Both numbers; eigenvalues that are clipped and shifted, and vectors."""
    xp = namespace(R, shift, b)
    eigenvalues, Q = xp.linalg.eigh(R)
    shifted = xp.maximum(eigenvalues, 0.0) + shift
    return xp.log(shifted).sum(), ((Q.T @ b) ** 2 / shifted).sum(), shifted, Q


@jax.custom_jvp
def _clipped(R: Array, shift: Array, b: Array) -> tuple[Array, Array]:
    return _by_eigenvalues(R, shift, b)[:2]


@_clipped.defjvp
def _clipped_jvp(primals: Any, tangents: Any) -> Any:
    # d log|A| = tr(A⁻¹ dA) and d bᵀA⁻¹b = 2 bᵀA⁻¹ db - bᵀA⁻¹ dA A⁻¹b need no eigenvalue derivatives,
    # which do not exist where eigenvalues coincide.
    R, shift, b = primals
    dR, dshift, db = tangents
    *out, shifted, Q = _by_eigenvalues(R, shift, b)
    solved = Q @ ((Q.T @ b) / shifted)
    dA = dR + dshift * jnp.eye(R.shape[0])
    slopes = (jnp.diagonal(Q.T @ dA @ Q) / shifted).sum(), 2.0 * solved @ db - solved @ dA @ solved
    return tuple(out), slopes

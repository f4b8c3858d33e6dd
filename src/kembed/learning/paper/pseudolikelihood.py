"""The marginal pseudolikelihood of the paper, Eq. (15), for NumPy and JAX.

With μ̂ the mean of the features φ_z(x_i), K the n × m matrix of features and A = R + (τ²/n) I,

    log p(x | θ, τ²) = -½ { log|A| + μ̂ᵀA⁻¹μ̂ + (‖K‖²_F - n‖μ̂‖²)/τ²
                            + m log n + m(n-1) log τ² + mn log 2π } + Σ_i log γ(x_i).

The data enter through three sums over rows. NumPy sums in chunks of bounded memory; JAX holds all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Array, Float, any_traced, float64, is_traced, namespace, to_numpy
from kembed.core.linalg import Cholesky
from kembed.core.ordering import sorted_rows
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.measures import Lebesgue, Measure, as_measure
from kembed.learning.frame import column_frame, isotropic_frame
from kembed.learning.paper.volumes import log_gradient, log_volumes

CHUNK_ENTRIES = 2**16  # of the gradients of a chunk of rows: half a megabyte, which stays in a core's cache
JITTER = 1e-12  # mean diagonals of R, added where JAX finds no Cholesky factor: a shift below its rounding


def log_pseudolikelihood(
    x: Any,
    *,
    kernel: Kernel,
    noise: Any,
    landmarks: Any,
    measure: Measure | str | None = "lebesgue",
) -> Any:
    """Evaluate the logarithm of the marginal pseudolikelihood of the data, Eq. (15) of the paper.

    It is -∞ if some row's volume element is 0: a row at a landmark when there are only D of them, or
    landmarks and row in one hyperplane. More landmarks are the remedy.

    Parameters
    ----------
    x : array_like of shape (n, D)
        Observations.
    kernel : Kernel
        The kernel k_θ.
    noise : float
        τ², the likelihood variance: φ_z(x_i) given μ is N(μ(z), τ² I).
    landmarks : array_like of shape (m, D)
        The points z, m ≥ D.
    measure : Measure or {"lebesgue", "data"}
        ν of the prior covariance; `"data"` is a Gaussian placed by the data.

    Returns
    -------
    float
        Computed in NumPy. Where JAX traces an argument, it differentiates the same formula:
        `jax.grad(lambda l: log_pseudolikelihood(x, kernel=Gaussian(l), ...))(0.5)`.

    Raises
    ------
    TypeError
        If `kernel` is no mixture of squared exponentials.
    ValueError
        If columns of x are constant or dependent, or there are fewer landmarks than columns.

    References
    ----------
    Flaxman, Sejdinovic, Cunningham and Filippi (2016). Bayesian learning of kernel embeddings. UAI.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Gaussian, log_pseudolikelihood
    >>> x = np.random.default_rng(0).normal(size=(50, 1))
    >>> z = np.linspace(-2, 2, 5)
    >>> round(log_pseudolikelihood(x, kernel=Gaussian(0.5), noise=1.0, landmarks=z), 3)
    -238.647

    """
    check_kernel(kernel)
    landmarks = checks.points(landmarks, "landmarks")
    D = landmarks.shape[1]
    if landmarks.shape[0] < D:
        raise ValueError(
            f"landmarks has {landmarks.shape[0]} rows but the data have {D} columns; the volume element "
            f"needs at least as many landmarks as columns, so give {D} or more"
        )
    x = checks.points(x, "x", dimension=D)
    noise = checks.positive(noise, "noise")
    measure = as_measure(measure, "lebesgue", x)
    # These raise here, with the numbers in sight, what a trace could not see.
    kernel.convolved(measure).measure.check_dimension(D)
    kernel.components(D, finite=not isinstance(measure, Lebesgue))
    _refuse_flat(x, landmarks)
    arguments = kernel, noise, x, landmarks, measure
    return _by_jax(*arguments) if any_traced(arguments) else float(paper_objective(*map(to_numpy, arguments)))


@float64("log_pseudolikelihood")
def _by_jax(*arguments: Any) -> Any:
    import jax

    return paper_objective(*jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, dtype=float), arguments))


def _refuse_flat(x: Any, landmarks: Any) -> None:
    """Data in a lower-dimensional flat have volume element 0 and log pseudolikelihood -∞."""
    if is_traced(x) or is_traced(landmarks):
        return
    rows = np.asarray(x)
    cloud = sorted_rows(np.concatenate([np.asarray(landmarks), rows[:: max(1, len(rows) // 10_000)]]))
    spread = np.ptp(cloud, axis=0)
    if (spread == 0.0).any():
        raise ValueError(
            f"column {int(np.argmin(spread))} of x is constant, so the log pseudolikelihood is -infinity; "
            "drop constant columns"
        )
    if not isotropic_frame(column_frame(cloud).into(cloud)).full_rank:
        raise ValueError(
            f"the {rows.shape[1]} columns of x are linearly dependent (duplicated or derived from one "
            "another), so the log pseudolikelihood is -infinity; drop the redundant columns"
        )


class FeatureSums(NamedTuple):
    """All that the pseudolikelihood needs of the data."""

    features: Float[Array, " m"]  # Σ_i φ_z(x_i)
    squares: Float[Array, ""]  # ‖K‖²_F
    log_volume: Float[Array, ""]  # Σ_i log γ(x_i)


def feature_sums(kernel: Kernel, x: Float[Array, "n D"], Z: Float[Array, "m D"]) -> Iterator[FeatureSums]:
    """Sums over the rows, in NumPy over some at a time."""
    plain = namespace(kernel._log_gram(x[:1], Z[:1])) is np
    step = max(1, CHUNK_ENTRIES // Z.size) if plain else len(x)
    for start in range(0, len(x), step):
        log_k, t = log_gradient(kernel, x[start : start + step], Z)
        K = namespace(log_k).exp(log_k)
        yield FeatureSums(K.sum(axis=0), (K**2).sum(), log_volumes(log_k, t).sum())


@np.errstate(all="ignore")  # what overflows is refused
def paper_objective(
    kernel: Kernel,
    noise: Float[Array, ""],
    x: Float[Array, "n D"],
    landmarks: Float[Array, "m D"],
    measure: Measure,
) -> Float[Array, ""]:
    """The objective, in NumPy if all is plain."""
    sums = FeatureSums(*map(sum, zip(*feature_sums(kernel, x, landmarks), strict=True)))
    R = kernel.convolved(measure)._gram(landmarks, landmarks)
    return log_marginal(sums, R, noise, len(x)) + sums.log_volume


def log_marginal(
    sums: FeatureSums, R: Float[Array, "m m"], noise: Float[Array, ""], n: int
) -> Float[Array, ""]:
    """log N(vec K; 0, 11ᵀ ⊗ R + τ² I) in O(m³), by the Kronecker structure."""
    m, mean = len(R), sums.features / n
    log_det, quadratic = regularised(R, noise / n, mean)
    scatter = sums.squares - n * (mean @ mean)
    constants = m * np.log(n) + m * (n - 1.0) * namespace(noise).log(noise) + m * n * np.log(2.0 * np.pi)
    return -0.5 * (log_det + quadratic + scatter / noise + constants)


def regularised(R: Float[Array, "m m"], shift: Float[Array, ""], b: Float[Array, " m"]) -> tuple[Any, Any]:
    """log|A| and bᵀA⁻¹b, where A = R + shift · I and R is positive semidefinite.

    Cholesky where it succeeds. A shift below the rounding error of R can defeat it; then the eigenvalues of
    R, which exact arithmetic keeps at or above 0, are clipped there. JAX, which cannot differentiate these
    where they coincide, adds a little more.
    """
    A = R + shift * np.eye(len(R))
    xp = namespace(A)
    if xp is not np:
        import jax

        more = A + JITTER * A.trace() / len(R) * np.eye(len(R))
        fine = xp.isfinite(xp.linalg.cholesky(jax.lax.stop_gradient(A))).all()
        lower = jax.lax.cond(fine, lambda: xp.linalg.cholesky(A), lambda: xp.linalg.cholesky(more))
    else:
        try:
            lower = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            eigenvalues, Q = np.linalg.eigh(R)
            shifted = np.maximum(eigenvalues, 0.0) + shift
            return np.log(shifted).sum(), ((Q.T @ b) ** 2 / shifted).sum()
    factor = Cholesky(lower)
    return factor.log_det, (factor.half_solve(b) ** 2).sum()

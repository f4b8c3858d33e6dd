"""The marginal pseudolikelihood of the paper, Eq. (15), for NumPy and JAX; with slopes in closed form.

With μ̂ the mean of the features φ_z(x_i), K the n × m matrix of features and A = R + (τ²/n) I,

    log p(x | θ, τ²) = -½ { log|A| + μ̂ᵀA⁻¹μ̂ + (‖K‖²_F - n‖μ̂‖²)/τ²
                            + m log n + m(n-1) log τ² + mn log 2π } + Σ_i log γ(x_i).

The data enter through three sums over rows. NumPy sums in chunks of bounded memory; JAX holds all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Array, Float, any_traced, float64, is_traced, namespace, to_numpy
from kembed.core.linalg import Cholesky
from kembed.core.ordering import sorted_rows
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.measures import EmpiricalMeasure, GaussianMeasure, Lebesgue, Measure, as_measure
from kembed.kernels.stationary import Gaussian
from kembed.learning.frame import column_frame, isotropic_frame
from kembed.learning.paper.volumes import Volumes, log_gradient, volumes

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
    """All that the pseudolikelihood needs of the data; or the slopes of it, on a new leading axis."""

    features: Float[Array, " m"]  # Σ_i φ_z(x_i)
    squares: Float[Array, ""]  # ‖K‖²_F
    log_volume: Float[Array, ""]  # Σ_i log γ(x_i)


class Chunk(NamedTuple):
    """Some rows at the landmarks."""

    K: Float[Array, "c m"]
    t: Float[Array, "D c m"]  # ∂ log k/∂x
    volumes: Volumes

    def sums(self) -> FeatureSums:
        """Sums over the rows."""
        return FeatureSums(self.K.sum(axis=0), (self.K**2).sum(), self.volumes.log.sum())

    def slopes(self, scale: Float[np.ndarray, " D"]) -> FeatureSums:
        """Their derivatives in log ℓ_d of a Gaussian, where ∂ log k = u_d² with u = (x - z)/ℓ.

        With h the leverages of J, whose column d is that of k·u over ℓ_d, ∂ log γ = Σ_l h_l u_ld² - 2.
        """
        squared = (self.t * scale[:, None, None]) ** 2
        features = np.einsum("cm,dcm->dm", self.K, squared)
        norms = 2.0 * np.einsum("cm,dcm->d", self.K**2, squared)
        log_volume = np.einsum("cm,dcm->d", self.volumes.leverages(), squared) - 2.0 * len(self.K)
        return FeatureSums(features, norms, log_volume)


def chunks(kernel: Kernel, x: Float[Array, "n D"], Z: Float[Array, "m D"]) -> Iterator[Chunk]:
    """The rows at the landmarks, in NumPy some at a time."""
    plain = namespace(kernel._log_gram(x[:1], Z[:1])) is np
    step = max(1, CHUNK_ENTRIES // Z.size) if plain else len(x)
    for start in range(0, len(x), step):
        log_k, t = log_gradient(kernel, x[start : start + step], Z)
        yield Chunk(namespace(log_k).exp(log_k), t, volumes(log_k, t))


@np.errstate(all="ignore")  # what overflows is refused
def paper_objective(
    kernel: Kernel,
    noise: Float[Array, ""],
    x: Float[Array, "n D"],
    landmarks: Float[Array, "m D"],
    measure: Measure,
) -> Float[Array, ""]:
    """The objective, in NumPy if all is plain."""
    parts = [chunk.sums() for chunk in chunks(kernel, x, landmarks)]
    sums = FeatureSums(*map(sum, zip(*parts, strict=True)))
    R = kernel.convolved(measure)._gram(landmarks, landmarks)
    return log_marginal(sums, R, noise, len(x)) + sums.log_volume


def log_marginal(
    sums: FeatureSums, R: Float[Array, "m m"], noise: Float[Array, ""], n: int
) -> Float[Array, ""]:
    """log N(vec K; 0, 11ᵀ ⊗ R + τ² I) in O(m³), by the Kronecker structure."""
    m, mean = len(R), sums.features / n
    log_det, half_solve = factorised(R, noise / n)
    quadratic = (half_solve(mean) ** 2).sum()
    scatter = sums.squares - n * (mean @ mean)
    constants = m * np.log(n) + m * (n - 1.0) * namespace(noise).log(noise) + m * n * np.log(2.0 * np.pi)
    return -0.5 * (log_det + quadratic + scatter / noise + constants)


def factorised(R: Float[Array, "m m"], shift: Float[Array, ""]) -> tuple[Any, Callable[[Any], Any]]:
    """log|A| and B -> FᵀB with FFᵀ = A⁻¹, where A = R + shift · I and R is positive semidefinite.

    Cholesky where it succeeds. A shift below the rounding error of R can defeat it; then the eigenvalues of
    R, which exact arithmetic keeps at or above 0, are clipped there. JAX, which cannot differentiate these
    where they coincide, adds a little more.
    """
    A = R + shift * np.eye(len(R))
    if namespace(A) is not np:
        import jax

        more = A + JITTER * A.trace() / len(R) * np.eye(len(R))
        cholesky = namespace(A).linalg.cholesky
        fine = namespace(A).isfinite(cholesky(jax.lax.stop_gradient(A))).all()
        factor = Cholesky(jax.lax.cond(fine, lambda: cholesky(A), lambda: cholesky(more)))
        return factor.log_det, factor.half_solve
    try:
        factor = Cholesky(np.linalg.cholesky(A))
        return factor.log_det, factor.half_solve
    except np.linalg.LinAlgError:
        eigenvalues, Q = np.linalg.eigh(R)
        shifted = np.maximum(eigenvalues, 0.0) + shift
        return np.log(shifted).sum(), lambda B: (Q / np.sqrt(shifted)).T @ B


def has_slopes(kernel: Any, measure: Measure) -> bool:
    """Whether `value_and_slopes` takes this kernel and measure."""
    return type(kernel) is Gaussian and kernel.cholesky is None and not isinstance(measure, EmpiricalMeasure)


@np.errstate(all="ignore")
def value_and_slopes(
    kernel: Gaussian,
    noise: float,
    x: Float[np.ndarray, "n D"],
    landmarks: Float[np.ndarray, "m D"],
    measure: Measure,
) -> tuple[float, Float[np.ndarray, " P"]]:
    """The objective and its derivatives in log ℓ, one or one a column, in closed form."""
    scale = kernel.lengthscale * np.ones(x.shape[1])
    both = [(chunk.sums(), chunk.slopes(scale)) for chunk in chunks(kernel, x, landmarks)]
    sums, slopes = (FeatureSums(*map(sum, zip(*parts, strict=True))) for parts in zip(*both, strict=True))
    R = kernel.convolved(measure)._gram(landmarks, landmarks)
    n, value = len(x), log_marginal(sums, R, noise, len(x)) + sums.log_volume
    half_solve = factorised(R, noise / n)[1]
    inverse = half_solve(np.eye(len(R))).T @ half_solve(np.eye(len(R)))
    mean = sums.features / n
    b = inverse @ mean
    # d log|A| = tr(A⁻¹ dR); d μ̂ᵀA⁻¹μ̂ = 2 bᵀdμ̂ - bᵀdR b, b = A⁻¹μ̂
    of_r = np.einsum("ab,ab,dab->d", inverse - np.outer(b, b), R, log_r_slopes(scale, landmarks, measure))
    of_sums = 2.0 * slopes.features @ (b / n - mean / noise) + slopes.squares / noise
    slope = slopes.log_volume - 0.5 * (of_r + of_sums)
    return float(value), slope if np.ndim(kernel.lengthscale) else slope.sum(keepdims=True)


def log_r_slopes(
    scale: Float[np.ndarray, " D"], Z: Float[np.ndarray, "m D"], measure: Measure
) -> Float[np.ndarray, "D m m"]:
    """∂ log r(z, z')/∂ log ℓ_d of a Gaussian under Lebesgue measure or a Gaussian N(c, Γ).

    With Δ = z - z' and v the middle, log r is a constant plus Σ_d log ℓ_d - ¼ Σ_d Δ_d²/ℓ_d², and under the
    Gaussian also - ½ log|B| - ½ (v - c)ᵀB⁻¹(v - c) with B = ½ diag(ℓ²) + Γ.
    """
    offset = (Z.T[:, :, None] - Z.T[:, None, :]) / scale[:, None, None]
    slopes = 1.0 + 0.5 * offset**2
    if isinstance(measure, GaussianMeasure):
        D = len(scale)
        covariance = np.asarray(measure.covariance)
        B = 0.5 * np.diag(scale**2) + (covariance if covariance.ndim == 2 else covariance * np.eye(D))
        inverse = np.linalg.inv(B)
        centred = Z - measure.centre
        middle = 0.5 * (centred[:, None] + centred) @ inverse
        slopes += 0.5 * (scale**2 * (middle**2 - np.diagonal(inverse))).transpose(2, 0, 1)
    return slopes

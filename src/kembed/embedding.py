"""Kernel mean embeddings: empirical, shrunk, and with a posterior.

An embedding is the function μ(s) = E k(s, X). Its estimates differ in what they know: `empirical` averages,
`shrinkage` averages and pulls towards 0, `fit_embedding` puts the prior GP(0, r) on μ and returns the
posterior, with its uncertainty, in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed import _validation
from kembed._linalg import Factor, factor
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.convolution import section_inner
from kembed.landmarks import choose_landmarks
from kembed.measures import GaussianMeasure, Measure

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = np.ndarray

# Kernel matrices against many rows are made in blocks of at most this many entries (32 MiB).
BLOCK_ENTRIES = 4_194_304


class Embedding:
    """An estimate of a mean embedding: a function in the RKHS of `kernel`.

    Every estimate is Σ_i w_i k(·, x_i) + Σ_l β_l r(·, z_l); `_sections` lists such sums.
    """

    kernel: Kernel

    def mean(self, points: Any) -> Float[Array, " p"]:
        """The estimate of μ at points, (p, D)."""
        raise NotImplementedError

    def _sections(self) -> list[tuple[Measure | None, np.ndarray, np.ndarray]]:
        """(measure or None for plain k, points, coefficients)."""
        raise NotImplementedError

    def inner(self, other: Embedding) -> float:
        """⟨μ, μ'⟩ in the RKHS, between the (posterior mean) embeddings.

        Both must use the same kernel: functions of different spaces have no inner product.
        """
        if not isinstance(other, Embedding):
            raise TypeError(f"other must be an embedding, but {other!r} was given")
        if self.kernel != other.kernel:
            raise ValueError(
                f"the embeddings have different kernels ({self.kernel!r} and {other.kernel!r}); "
                "fit both with the same one"
            )
        total = 0.0
        for left, X, a in self._sections():
            for right, Y, b in other._sections():
                total += _bilinear(self.kernel, left, right, X, Y, a, b)
        return total

    def norm(self) -> float:
        """‖μ‖ in the RKHS."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other: Embedding) -> float:
        """‖μ - μ'‖ in the RKHS: the maximum mean discrepancy (its square is MMD²)."""
        squared = self.inner(self) - 2.0 * self.inner(other) + other.inner(other)
        return float(np.sqrt(max(squared, 0.0)))

    def __sub__(self, other: Embedding) -> Callable[[Any], np.ndarray]:
        """The witness function μ - μ'."""
        return lambda points: self.mean(points) - other.mean(points)


@dataclass(frozen=True, eq=False, repr=False)
class WeightedEmbedding(Embedding):
    """Σ_i w_i k(·, x_i)."""

    kernel: Kernel
    x: np.ndarray
    weights: np.ndarray
    shrinkage: float = 0.0

    def mean(self, points: Any) -> Float[Array, " p"]:
        """Σ_i w_i k(s, x_i) at points s."""
        points = np.asarray(_validation.points(points, "points", dimension=self.x.shape[1]))
        return _weighted_sum(self.kernel, points, self.x, self.weights)

    def _sections(self) -> list[tuple[Measure | None, np.ndarray, np.ndarray]]:
        return [(None, self.x, self.weights)]

    def __repr__(self) -> str:
        shrunk = f", shrinkage={self.shrinkage:.4g}" if self.shrinkage else ""
        return f"WeightedEmbedding(n={len(self.x)}, kernel={self.kernel!r}{shrunk})"


def empirical(x: Any, kernel: Kernel) -> WeightedEmbedding:
    """The empirical embedding μ̂ = (1/n) Σ_i k(·, x_i), Eq. (2) of the paper.

    >>> from kembed import Gaussian, empirical
    >>> mu = empirical([[0.0], [1.0]], Gaussian(1.0))
    >>> mu.mean([[0.0]]).round(4)  # (1 + exp(-1/2)) / 2
    array([0.8033])
    """
    check_kernel(kernel)
    x = np.asarray(_validation.points(x, "x"))
    return WeightedEmbedding(kernel, x, np.full(len(x), 1.0 / len(x)))


def shrinkage(x: Any, kernel: Kernel, lam: float | None = None) -> WeightedEmbedding:
    """The spectral shrinkage estimator S-KMSE, Σ_i β_i k(·, x_i) with β = (K + nλI)⁻¹ μ̂(x).

    It is Σ̂(Σ̂ + λI)⁻¹ μ̂ with Σ̂ the empirical covariance operator (Muandet et al. 2014). Without `lam`, λ
    minimises the leave-one-out risk (1/n) Σ_i ‖μ̌^{(-i)} - k(·, x_i)‖².

    >>> import numpy as np
    >>> from kembed import Gaussian, shrinkage
    >>> shrinkage(np.arange(5.0), Gaussian(1.0), lam=0.1)
    WeightedEmbedding(n=5, kernel=Gaussian(lengthscale=1), shrinkage=0.1)
    """
    check_kernel(kernel)
    x = np.asarray(_validation.points(x, "x", minimum=1 if lam is not None else 3))
    K = kernel.gram(x)
    n = len(x)
    if lam is None:
        lam = _leave_one_out_shrinkage(K)
    elif not (np.isfinite(lam) and lam >= 0.0):
        raise ValueError(f"lam must be finite and not negative, but {lam!r} was given")
    weights = np.full(n, 1.0 / n)
    if lam > 0.0:
        weights = factor(K + n * lam * np.eye(n)).solve(K.mean(axis=1))
    return WeightedEmbedding(kernel, x, weights, float(lam))


def leave_one_out_risk(K: Float[Array, "n n"], lam: Float[Array, " g"]) -> Float[Array, " g"]:
    """Leave-one-out risk of S-KMSE for every λ, from one eigendecomposition: O(n³ + g n²).

    With ρ = (n-1)λ, G = (K + ρI)⁻¹ and h = G1, the estimator without row i has the weights
    β⁽ⁱ⁾ = (1 - e_i - ρ(h - G_i h_i/G_ii))/(n-1) by the block inverse, and KG = I - ρG turns
    ‖μ̌⁽ⁱ⁾ - k(·, x_i)‖² into sums of the diagonals of G and G².
    """
    n = len(K)
    eigenvalues, Q = np.linalg.eigh(K)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    ones, squares, diagonal, row_sums = Q.T @ np.ones(n), Q**2, np.diagonal(K), K.sum(axis=1)
    risks = np.empty(len(lam))
    for index, value in enumerate(lam):
        rho = (n - 1) * value
        inverse = 1.0 / (eigenvalues + rho)
        h = Q @ (inverse * ones)
        g = squares @ inverse  # G_ii
        g2 = squares @ inverse**2  # (G²)_ii
        Gh = Q @ (inverse**2 * ones)
        t = h / g
        # (n-1) β = 1 - e_i - ρh + ρ t_i G_i, and K(n-1)β = K1 - K_i - ρ(1 - ρh) + ρ t_i (e_i - ρG_i).
        sum_h, sum_hh = h.sum(), h @ h
        total = row_sums.sum()
        first = total - row_sums - rho * (n - rho * sum_h) + rho * t * (1.0 - rho * h)  # 1ᵀ
        second = row_sums - diagonal - rho * (1.0 - rho * h) + rho * t * (1.0 - rho * g)  # e_iᵀ
        # hᵀK1 = 1ᵀGK1 = 1ᵀ(1 - ρh), hᵀK_i = 1 - ρh_i
        third = (n - rho * sum_h) - (1.0 - rho * h) - rho * (sum_h - rho * sum_hh)
        third = third + rho * t * (h - rho * Gh)  # hᵀ
        # G_iᵀK1 = 1 - ρh_i, G_iᵀK_i = 1 - ρG_ii, G_iᵀ1 = h_i, G_iᵀh = (Gh)_i
        fourth = (1.0 - rho * h) - (1.0 - rho * g) - rho * (h - rho * Gh)
        fourth = fourth + rho * t * (g - rho * g2)  # G_iᵀ
        quadratic = (first - second - rho * third + rho * t * fourth) / (n - 1) ** 2
        cross = second / (n - 1)  # K_iᵀβ
        risks[index] = (quadratic - 2.0 * cross + diagonal).mean()
    return risks


def _leave_one_out_shrinkage(K: Float[Array, "n n"]) -> float:
    """The λ of least leave-one-out risk: a grid over 16 decades, then a bounded search around the best."""
    from scipy.optimize import minimize_scalar

    scale = float(np.trace(K)) / len(K)
    grid = scale * np.logspace(-12, 4, 65)
    risks = leave_one_out_risk(K, grid)
    best = int(np.argmin(risks))
    if best == 0:
        return 0.0  # shrinking only hurts
    low, high = np.log(grid[best - 1]), np.log(grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(
        lambda log_lam: leave_one_out_risk(K, np.exp([log_lam]))[0],
        bounds=(low, high),
        method="bounded",
    )
    return float(np.exp(found.x))


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorEmbedding(Embedding):
    """The posterior of μ given the empirical embedding at landmarks, Eq. (8) of the paper.

    mean m(s) + r(s, z) A⁻¹ (μ̂(z) - m(z)), covariance r(s, s') - r(s, z) A⁻¹ r(z, s'), A = r(z, z) + N/n.
    """

    kernel: Kernel
    measure: Measure
    landmarks: np.ndarray
    n: int
    noise: np.ndarray  # N, (m, m): covariance of one observation's features
    noise_model: str
    coefficients: np.ndarray  # A⁻¹ (μ̂(z) - m(z))
    prior_mean: Callable[[np.ndarray], Any] | Embedding | None
    factor: Factor = field(repr=False)

    @property
    def jitter(self) -> float:
        """What had to be added to the diagonal of A against rounding; 0 if nothing."""
        return self.factor.jitter

    def mean(self, points: Any) -> Float[Array, " p"]:
        """The posterior mean of μ at points, (p, D)."""
        points = self._points(points)
        prior = _evaluate_prior(self.prior_mean, points)
        return prior + _weighted_sum(self._r, points, self.landmarks, self.coefficients)

    def sd(self, points: Any) -> Float[Array, " p"]:
        """The posterior standard deviation of μ at points."""
        points = self._points(points)
        variance = np.empty(len(points))
        for rows in _blocks(len(points), len(self.landmarks)):
            half = self.factor.half_solve(self._r._gram(self.landmarks, points[rows]))
            variance[rows] = self._r.diagonal(points[rows]) - (half**2).sum(axis=0)
        return np.sqrt(np.maximum(variance, 0.0))  # rounding can leave -1e-17

    def covariance(self, points: Any) -> Float[Array, "p p"]:
        """The posterior covariance of μ between points."""
        points = self._points(points)
        half = self.factor.half_solve(self._r._gram(self.landmarks, points))
        return self._r._gram(points, points) - half.T @ half

    def interval(self, points: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the pointwise credible interval of the given level."""
        from scipy.special import ndtri

        reach = ndtri(0.5 + 0.5 * _validation.level(level)) * self.sd(points)
        mean = self.mean(points)
        return mean - reach, mean + reach

    def sample(self, points: Any, size: int = 1, rng: Any = None) -> Float[Array, "size p"]:
        """Draws of the function μ at points from the posterior."""
        return _draw(self.mean(points), self.covariance(points), size, rng)

    def prior_sample(self, points: Any, size: int = 1, rng: Any = None) -> Float[Array, "size p"]:
        """Draws of the function μ at points from the prior GP(m, r)."""
        points = self._points(points)
        prior = _evaluate_prior(self.prior_mean, points)
        return _draw(prior, self._r._gram(points, points), size, rng)

    @property
    def _r(self) -> Any:
        return self.kernel.convolved(self.measure)

    def _points(self, points: Any) -> np.ndarray:
        checked = _validation.points(points, "points", dimension=self.landmarks.shape[1])
        return np.asarray(checked)

    def _sections(self) -> list[tuple[Measure | None, np.ndarray, np.ndarray]]:
        sections: list[tuple[Measure | None, np.ndarray, np.ndarray]] = [
            (self.measure, self.landmarks, self.coefficients)
        ]
        if self.prior_mean is None:
            return sections
        if isinstance(self.prior_mean, Embedding):
            return sections + self.prior_mean._sections()
        raise ValueError(
            "prior_mean is a plain function, which has no known place in the RKHS, so inner products with "
            "this embedding are undefined; give prior_mean as an embedding"
        )

    def __repr__(self) -> str:
        return (
            f"PosteriorEmbedding(n={self.n}, landmarks={len(self.landmarks)}, kernel={self.kernel!r}, "
            f"noise={self.noise_model})"
        )


def fit_embedding(
    x: Any,
    kernel: Kernel,
    *,
    noise: Any = "full",
    landmarks: Any = None,
    prior_mean: Callable[[np.ndarray], Any] | Embedding | None = None,
    measure: Measure | None = None,
) -> PosteriorEmbedding:
    """The posterior of the mean embedding: shrinkage with uncertainty, Eq. (7)-(8) of the paper.

    Parameters
    ----------
    x
        Observations, (n, D).
    kernel
        The kernel k.
    noise
        What is known of μ̂(z) - μ(z), whose covariance is noise/n. `"full"`: the covariance
        Cov[φ_z(X)] that the central limit theorem gives, estimated (default; its intervals cover, see
        the benchmark page). `"diagonal"`: its diagonal only. A number: one τ² (the paper). A vector:
        τ²(z_l) for every landmark.
    landmarks
        Where μ̂ is observed: None (at most 100 of the data), a number, or points.
    prior_mean
        Prior mean of μ: a function of points, or an embedding; 0 unless given.
    measure
        ν of the prior covariance; a Gaussian placed by the data unless given.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Gaussian, fit_embedding
    >>> x = np.random.default_rng(0).normal(size=200)
    >>> mu = fit_embedding(x, Gaussian(1.0))
    >>> mu
    PosteriorEmbedding(n=200, landmarks=100, kernel=Gaussian(lengthscale=1), noise=full)
    >>> lower, upper = mu.interval([[0.0]], level=0.9)
    >>> bool(lower[0] < 2**-0.5 < upper[0])  # the truth is (1 + 1)^(-1/2)
    True

    """
    check_kernel(kernel)
    x = np.asarray(_validation.points(x, "x"))
    z = choose_landmarks(x, landmarks)
    measure = GaussianMeasure.of(x) if measure is None else measure
    n = len(x)
    noise_model, given = _noise_model(noise, n, len(z))
    mean, covariance = _feature_moments(kernel, x, z, want_covariance=given is None)
    if given is None:
        given = covariance if noise_model == "full" else np.diag(np.diagonal(covariance))
    prior = _evaluate_prior(prior_mean, z)
    A = factor(kernel.convolved(measure).gram(z) + given / n)
    coefficients = A.solve(mean - prior)
    return PosteriorEmbedding(kernel, measure, z, n, given, noise_model, coefficients, prior_mean, A)


def _noise_model(noise: Any, n: int, m: int) -> tuple[str, np.ndarray | None]:
    """The name of the noise model, and its covariance where that is given and not estimated."""
    if isinstance(noise, str):
        _validation.choice(noise, "noise", ("full", "diagonal"))
        if n < 2:
            raise ValueError(
                f"noise={noise!r} estimates a covariance, which needs at least 2 rows of x, but it has {n}; "
                "give noise as a number"
            )
        return noise, None
    value = np.asarray(_validation.positive(noise, "noise", ndim=(0, 1)))
    if value.ndim == 1:
        return "given", np.diag(_validation.vector(value, "noise", m))
    return f"{float(value):.6g}", float(value) * np.eye(m)


def _feature_moments(
    kernel: Kernel, x: np.ndarray, z: np.ndarray, want_covariance: bool
) -> tuple[np.ndarray, np.ndarray]:
    """μ̂(z), and the covariance of φ_z(x_i) over rows, in blocks of rows."""
    blocks = list(_blocks(len(x), len(z)))
    total = np.zeros(len(z))
    for rows in blocks:
        total += kernel._gram(x[rows], z).sum(axis=0)
    mean = total / len(x)
    scatter = np.zeros((len(z), len(z)))
    if want_covariance:  # a second pass: one pass would subtract large equal numbers
        for rows in blocks:
            centred = kernel._gram(x[rows], z) - mean
            scatter += centred.T @ centred
        scatter /= len(x) - 1
    return mean, scatter


def _bilinear(
    kernel: Kernel,
    left: Measure | None,
    right: Measure | None,
    X: np.ndarray,
    Y: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
) -> float:
    """Σ_ij a_i b_j ⟨section at x_i, section at y_j⟩."""
    if left is not None and right is not None:
        return float(a @ section_inner(kernel, left, right, X, Y) @ b)
    measure = right if left is None else left  # ⟨k(·, x), r(·, z)⟩ = r(x, z)
    function = kernel if measure is None else kernel.convolved(measure)
    return float(a @ _weighted_sum(function, X, Y, b))


def _weighted_sum(function: Any, points: np.ndarray, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_j w_j f(s_i, x_j) with bounded memory, whichever of the two is long."""
    total = np.zeros(len(points))
    block = max(1, BLOCK_ENTRIES // max(1, min(len(x), 1_024)))
    for rows in _blocks(len(points), min(len(x), 1_024), block):
        for columns in _blocks(len(x), min(len(points), block)):
            total[rows] += function._gram(points[rows], x[columns]) @ weights[columns]
    return total


def _blocks(rows: int, columns: int, size: int | None = None) -> Iterator[slice]:
    """Slices over rows such that a block with so many columns stays within BLOCK_ENTRIES."""
    size = max(1, BLOCK_ENTRIES // max(1, columns)) if size is None else size
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _evaluate_prior(prior_mean: Any, points: np.ndarray) -> np.ndarray:
    if prior_mean is None:
        return np.zeros(len(points))
    function = prior_mean.mean if isinstance(prior_mean, Embedding) else prior_mean
    if not callable(function):
        raise TypeError(f"prior_mean must be a function of points or an embedding, not {prior_mean!r}")
    values = np.asarray(function(points), dtype=float)
    return np.asarray(_validation.vector(values, "the result of prior_mean", len(points)))


def _draw(mean: np.ndarray, covariance: np.ndarray, size: int, rng: Any) -> np.ndarray:
    """Gaussian draws; the square root by eigenvalues needs no jitter for a singular covariance."""
    size = _validation.count(size, "size")
    eigenvalues, Q = np.linalg.eigh(covariance)
    root = Q * np.sqrt(np.maximum(eigenvalues, 0.0))
    return mean + _validation.generator(rng).standard_normal((size, len(mean))) @ root.T

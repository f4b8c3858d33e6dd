"""Kernels of a scaled distance: k(x, y) = exp ψ(s), s = (x-y)ᵀ Σ⁻¹ (x-y).

A kernel then is its profile ψ and its slope -2ψ'(s), which gives the gradient ∂k/∂x = -k · slope · Σ⁻¹(x-y).
Most have a metric Σ of their own: a lengthscale ℓ gives ℓ² I (isotropic), a vector its squares on the
diagonal (ARD), and `from_covariance` any positive definite matrix.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kembed.core import checks
from kembed.core.backend import namespace
from kembed.core.linalg import (
    Cholesky,
    expanded_squares,
    log_gamma,
    log_sum_exp,
    safe_sqrt,
    scaled_squares,
    squared_distances,
)
from kembed.kernels import scale_mixtures
from kembed.kernels.base import Components, Kernel, kernel_class

SQUARED = 1e100  # lengthscales within this of 1 can be squared, whatever they are multiplied with
FARTHEST = 1e300  # a squared distance: beyond it the kernel is 0, and ∞ - ∞ is no number


class Stationary(Kernel):
    """A function of a squared distance s, the plain one unless the kernel has a metric."""

    @abstractmethod
    def profile(self, s: Any) -> Any:
        """ψ(s) = log k as a function of the scaled squared distance."""

    @abstractmethod
    def slope(self, s: Any) -> Any:
        """-2ψ'(s), positive; for the Gaussian it is 1."""

    @abstractmethod
    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """(log w_q, c_q) with exp ψ(s) = Σ_q w_q exp(-½ c_q s)."""

    def scaled_distances(self, X: Any, Y: Any) -> Any:
        """The matrix s(x_i, y_j)."""
        return squared_distances(X, Y)

    def log_det_covariance(self, dimension: int) -> Any:
        """log |Σ|."""
        return 0.0

    def log_volume(self, dimension: int) -> Any:
        """log ∫ exp ψ(|u|²) du: the integral of the kernel where Σ = I."""
        log_weights, c = self.scales(dimension, finite=False)
        return log_sum_exp(log_weights - 0.5 * dimension * namespace(c).log(c / (2.0 * np.pi)))

    def log_integral(self, dimension: int) -> Any:
        """log ∫ k(x, y) dy, by which the kernel becomes a density."""
        return self.log_volume(dimension) + 0.5 * self.log_det_covariance(dimension)

    def check_dimension(self, dimension: int) -> None:
        """Refuse data whose width is not that of the lengthscales."""

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        log_weights, c = self.scales(dimension, finite)
        return Components(log_weights, c[:, None] * np.ones(dimension))

    def _log_gram(self, X: Any, Y: Any) -> Any:
        return self.profile(self.scaled_distances(X, Y))

    def _log_diagonal(self, X: Any) -> Any:
        self.check_dimension(X.shape[1])
        return self.profile(namespace(X, *self._fields().values()).zeros(X.shape[0]))


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Metric(Stationary):
    """A kernel with a metric: a `lengthscale`, or the Cholesky factor of a full covariance Σ = LLᵀ.

    One of `lengthscale` and `cholesky` is None.
    """

    lengthscale: Any
    cholesky: Any

    def __init__(self, lengthscale: Any = 1.0, *, covariance: Any = None) -> None:
        if covariance is None:
            self._set(lengthscale=checks.positive(lengthscale, "lengthscale", ndim=(0, 1))[()], cholesky=None)
        else:
            self._set(lengthscale=None, cholesky=checks.covariance_factor(covariance, "covariance"))

    @classmethod
    def from_covariance(cls, covariance: Any, **rest: Any) -> Self:
        """The kernel with Σ = `covariance`, a positive definite matrix.

        >>> from kembed import Gaussian
        >>> Gaussian.from_covariance([[1.0, 0.5], [0.5, 1.0]]).gram([[0.0, 0.0], [1.0, 1.0]]).round(3)
        array([[1.   , 0.513],
               [0.513, 1.   ]])
        """
        return cls(covariance=covariance, **rest)

    @property
    def covariance(self) -> Any:
        """Σ as a matrix, where the lengthscale determines its size."""
        if self.cholesky is not None:
            return self.cholesky @ self.cholesky.T
        xp = namespace(self.lengthscale)
        return xp.diag(xp.atleast_1d(self.lengthscale) ** 2)

    def scaled_distances(self, X: Any, Y: Any) -> Any:
        self.check_dimension(X.shape[1])
        if self._extreme:
            return scaled_squares(X, Y, self.lengthscale)
        if self.cholesky is not None:
            half = self._inverse().T
            return expanded_squares(X @ half, Y @ half)
        if np.ndim(self.lengthscale) == 0:
            return expanded_squares(X, Y) * (1.0 / self.lengthscale**2)
        return expanded_squares(X / self.lengthscale, Y / self.lengthscale)

    @property
    def _extreme(self) -> bool:
        """Whether a lengthscale is so large or small that its square may be no number."""
        if self.lengthscale is None or namespace(self.lengthscale) is not np:
            return False
        scale = np.asarray(self.lengthscale)
        return not bool(((scale > 1.0 / SQUARED) & (scale < SQUARED)).all())

    def _inverse(self) -> Any:
        """L⁻¹."""
        return Cholesky(self.cholesky).half_solve(np.eye(len(self.cholesky)))

    def log_det_covariance(self, dimension: int) -> Any:
        if self.cholesky is not None:
            return Cholesky(self.cholesky).log_det
        xp = namespace(self.lengthscale)
        return 2.0 * xp.sum(xp.log(self.lengthscale) * np.ones(dimension))

    def check_dimension(self, dimension: int) -> None:
        shape = np.shape(self.lengthscale if self.cholesky is None else self.cholesky)
        if shape and shape[0] != dimension:
            raise ValueError(
                f"the kernel has {shape[0]} lengthscales but the data have {dimension} "
                f"column{'' if dimension == 1 else 's'}; give one lengthscale, or one for each column"
            )

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        self.check_dimension(dimension)
        log_weights, c = self.scales(dimension, finite)
        if self.cholesky is not None:
            inverse = self._inverse()
            return Components(log_weights, c[:, None, None] * (inverse.T @ inverse))
        return Components(log_weights, c[:, None] * np.ones(dimension) / self.lengthscale**2)

    def hyperparameters(self) -> dict[str, Any]:
        """Names and values; a full covariance as the matrix."""
        named = super().hyperparameters()
        full = named.pop("cholesky", None) is not None
        return {"covariance": self.covariance, **named} if full else named


@kernel_class
class Gaussian(Metric):
    """Squared exponential kernel, k(x, y) = exp(-½ (x-y)ᵀ Σ⁻¹ (x-y)).

    >>> from kembed import Gaussian
    >>> float(Gaussian(2.0)([0.0], [2.0]))  # exp(-1/2)
    0.6065306597126334
    >>> Gaussian([1.0, 2.0])
    Gaussian(lengthscale=[1, 2])
    """

    def profile(self, s: Any) -> Any:
        return -0.5 * s

    def slope(self, s: Any) -> Any:
        return namespace(s).ones_like(s)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        return np.zeros(1), np.ones(1)


@kernel_class
class RationalQuadratic(Metric):
    """Rational quadratic kernel, k = (1 + s/2α)^{-α}: Gaussians of many scales at once.

    >>> from kembed import RationalQuadratic
    >>> float(RationalQuadratic(1.0, alpha=1.0)([0.0], [1.0]))  # 1 / (1 + 1/2)
    0.6666666666666666
    """

    alpha: Any

    def __init__(self, lengthscale: Any = 1.0, alpha: Any = 1.0, *, covariance: Any = None) -> None:
        super().__init__(lengthscale, covariance=covariance)
        self._set(alpha=checks.positive(alpha, "alpha")[()])

    def profile(self, s: Any) -> Any:
        return -self.alpha * namespace(s, self.alpha).log1p(s / (2.0 * self.alpha))

    def slope(self, s: Any) -> Any:
        return 1.0 / (1.0 + s / (2.0 * self.alpha))

    def log_volume(self, dimension: int) -> Any:
        # a Student t with 2α - D degrees of freedom; ∞ where that is not positive
        gammaln, half = log_gamma(self.alpha), 0.5 * dimension
        xp = namespace(self.alpha)
        heavy = self.alpha <= half
        excess = xp.where(heavy, 1.0, self.alpha - half)
        total = half * xp.log(2.0 * np.pi * self.alpha) + gammaln(excess) - gammaln(self.alpha)
        return xp.where(heavy, np.inf, total)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        return scale_mixtures.rational_quadratic(self.alpha, dimension, finite)


class Matern(Metric):
    """What the Matérn kernels share: a mixture of Gaussians over scales."""

    nu: ClassVar[float]

    def log_volume(self, dimension: int) -> Any:
        # E (2πt)^(D/2) for t ~ Gamma(ν, rate ν)
        gammaln, half = log_gamma(self.nu), 0.5 * dimension
        return half * np.log(2.0 * np.pi / self.nu) + gammaln(self.nu + half) - gammaln(self.nu)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        return scale_mixtures.matern(self.nu, dimension, finite)


@kernel_class
class Matern12(Matern):
    """Matérn 1/2 (exponential, Laplace) kernel, k = exp(-√s), in the Euclidean distance.

    At x = y it has no derivative; its gradient there is taken as 0, the mean of the two sides.

    >>> from kembed import Matern12
    >>> float(Matern12(1.0)([0.0], [1.0]))  # exp(-1)
    0.36787944117144233
    """

    nu: ClassVar[float] = 0.5

    def profile(self, s: Any) -> Any:
        return -safe_sqrt(s)

    def slope(self, s: Any) -> Any:
        xp = namespace(s)
        return xp.where(s > 0.0, 1.0 / xp.where(s > 0.0, safe_sqrt(s), 1.0), 0.0)


@kernel_class
class Matern32(Matern):
    """Matérn 3/2 kernel, k = (1 + r) exp(-r) with r = √(3s).

    >>> from kembed import Matern32
    >>> float(Matern32(3.0**0.5)([0.0], [1.0]))  # 2 exp(-1)
    0.7357588823428847
    """

    nu: ClassVar[float] = 1.5

    def profile(self, s: Any) -> Any:
        r = safe_sqrt(3.0 * namespace(s).minimum(s, FARTHEST))
        return namespace(s).log1p(r) - r

    def slope(self, s: Any) -> Any:
        return 3.0 / (1.0 + safe_sqrt(3.0 * s))


@kernel_class
class Matern52(Matern):
    """Matérn 5/2 kernel, k = (1 + r + r²/3) exp(-r) with r = √(5s).

    >>> from kembed import Matern52
    >>> round(float(Matern52(5.0**0.5)([0.0], [1.0])), 12)  # (7/3) exp(-1)
    0.858385362733
    """

    nu: ClassVar[float] = 2.5

    def profile(self, s: Any) -> Any:
        s = namespace(s).minimum(s, FARTHEST)
        r = safe_sqrt(5.0 * s)
        return namespace(s).log1p(r + 5.0 * s / 3.0) - r

    def slope(self, s: Any) -> Any:
        r = safe_sqrt(5.0 * s)
        return (5.0 / 3.0) * (1.0 + r) / (1.0 + r + 5.0 * s / 3.0)


@kernel_class
class MultiScale(Stationary):
    """A sum of Gaussians of several lengthscales, k = Σ_j w_j exp(-‖x-y‖²/2ℓ_j²).

    `weights` default to 1/J each, so that k(x, x) = 1.

    >>> from kembed import MultiScale
    >>> k = MultiScale([1.0, 10.0], weights=[0.5, 0.5])
    >>> round(float(k([0.0], [2.0])), 6)  # (exp(-2) + exp(-0.02)) / 2
    0.557767
    """

    lengthscales: Any
    weights: Any

    def __init__(self, lengthscales: Any, weights: Any = None) -> None:
        lengthscales = checks.positive(lengthscales, "lengthscales", ndim=(1,))
        count = lengthscales.shape[0]
        weights = np.full(count, 1.0 / count) if weights is None else weights
        weights = checks.positive(weights, "weights", ndim=(1,))
        if weights.shape != lengthscales.shape:
            raise ValueError(
                f"weights has {weights.shape[0]} entries but lengthscales has {count}; "
                "give one weight for each lengthscale"
            )
        self._set(lengthscales=lengthscales, weights=weights)

    def _log_terms(self, s: Any) -> tuple[Any, Any]:
        """log w_j - s/2ℓ_j² for every scale j, on a new leading axis, and their log-sum."""
        xp = namespace(s, self.lengthscales, self.weights)
        shape = (-1,) + (1,) * xp.ndim(s)
        scaled = s / (-2.0 * (self.lengthscales**2).reshape(shape))
        terms = scaled + xp.log(self.weights).reshape(shape)
        return terms, log_sum_exp(terms, axis=0)

    def profile(self, s: Any) -> Any:
        return self._log_terms(s)[1]

    def slope(self, s: Any) -> Any:
        # Σ_j π_j(s)/ℓ_j², with π_j the share of scale j in k
        terms, total = self._log_terms(s)
        xp = namespace(terms)
        shape = (-1,) + (1,) * xp.ndim(s)
        return (xp.exp(terms - total) / (self.lengthscales**2).reshape(shape)).sum(axis=0)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        return namespace(self.weights).log(self.weights), 1.0 / self.lengthscales**2

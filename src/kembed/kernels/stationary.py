"""Kernels of a scaled distance: k(x, y) = exp ψ(s), s = (x-y)ᵀ Σ⁻¹ (x-y).

Σ is set by `lengthscale`: a number ℓ gives ℓ² I (isotropic), a vector its squares on the diagonal (ARD),
and `covariance=` any positive definite matrix, kept as its lower Cholesky factor. A kernel then is its
profile ψ and its slope -2ψ'(s), which gives the gradient ∂k/∂x = -k · slope · Σ⁻¹(x - y).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import namespace, pytree, show
from kembed.core.linalg import safe_sqrt, squared_distances, triangular_solve
from kembed.kernels import scale_mixtures
from kembed.kernels.base import Components, Kernel


class Stationary(Kernel):
    """A function of the scaled squared distance s."""

    lengthscale: Any

    def __init__(self, lengthscale: Any = 1.0, *, covariance: Any = None) -> None:
        if covariance is None:
            lengthscale = checks.positive(lengthscale, "lengthscale", ndim=(0, 1))
        else:
            lengthscale = checks.covariance_factor(covariance, "covariance")
        object.__setattr__(self, "lengthscale", lengthscale[()])

    @abstractmethod
    def profile(self, s: Any) -> Any:
        """ψ(s) = log k as a function of the scaled squared distance."""

    @abstractmethod
    def slope(self, s: Any) -> Any:
        """-2ψ'(s), positive; for the Gaussian it is 1."""

    @abstractmethod
    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """(log w_q, c_q) with exp ψ(s) = Σ_q w_q exp(-½ c_q s)."""

    @property
    def covariance(self) -> Any:
        """Σ as a matrix, where the lengthscale determines its size."""
        xp = namespace(self.lengthscale)
        if xp.ndim(self.lengthscale) == 2:
            return self.lengthscale @ self.lengthscale.T
        return xp.diag(xp.atleast_1d(self.lengthscale) ** 2)

    def scaled_distances(self, X: Any, Y: Any) -> Any:
        """The matrix s(x_i, y_j)."""
        self.check_dimension(X.shape[1])
        if np.ndim(self.lengthscale) == 0:
            return squared_distances(X, Y) * (1.0 / self.lengthscale**2)
        if np.ndim(self.lengthscale) == 1:
            return squared_distances(X / self.lengthscale, Y / self.lengthscale)
        half = triangular_solve(self.lengthscale, np.eye(X.shape[1])).T
        return squared_distances(X @ half, Y @ half)

    def log_det_covariance(self, dimension: int) -> Any:
        """log |Σ|."""
        xp = namespace(self.lengthscale)
        if np.ndim(self.lengthscale) == 2:
            return 2.0 * xp.log(xp.diagonal(self.lengthscale)).sum()
        return 2.0 * xp.sum(xp.log(self.lengthscale) * np.ones(dimension))

    def check_dimension(self, dimension: int) -> None:
        """Refuse data whose width is not that of the lengthscales."""
        shape = np.shape(self.lengthscale)
        if shape and shape[0] != dimension:
            raise ValueError(
                f"the kernel has {shape[0]} lengthscales but the data have {dimension} "
                f"column{'' if dimension == 1 else 's'}; "
                "give one lengthscale, or one for each column"
            )

    def _log_gram(self, X: Any, Y: Any) -> Any:
        return self.profile(self.scaled_distances(X, Y))

    def _log_diagonal(self, X: Any) -> Any:
        self.check_dimension(X.shape[1])
        xp = namespace(X, *(value for _, value in self._fields()))
        return self.profile(xp.zeros(X.shape[0]))

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        self.check_dimension(dimension)
        log_weights, c = self.scales(dimension, finite)
        xp = namespace(c, self.lengthscale)
        if np.ndim(self.lengthscale) == 2:
            inverse = triangular_solve(self.lengthscale, np.eye(dimension))
            return Components(log_weights, c[:, None, None] * (inverse.T @ inverse))
        return Components(log_weights, c[:, None] * xp.ones(dimension) / self.lengthscale**2)

    def __repr__(self) -> str:
        if np.ndim(self.lengthscale) < 2:
            return super().__repr__()
        rest = [f"{name}={show(value)}" for name, value in self._fields()[1:]]
        inside = ", ".join([f"covariance={show(self.covariance)}", *rest])
        return f"{type(self).__name__}({inside})"


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Gaussian(Stationary):
    """Squared exponential kernel, k(x, y) = exp(-½ (x-y)ᵀ Σ⁻¹ (x-y)).

    >>> from kembed import Gaussian
    >>> float(Gaussian(2.0)([0.0], [2.0]))  # exp(-1/2)
    0.6065306597126334
    >>> Gaussian([1.0, 2.0])
    Gaussian(lengthscale=[1., 2.])
    >>> Gaussian(covariance=[[1.0, 0.5], [0.5, 1.0]]).gram([[0.0, 0.0], [1.0, 1.0]]).round(3)
    array([[1.   , 0.513],
           [0.513, 1.   ]])
    """

    lengthscale: Any

    def profile(self, s: Any) -> Any:
        """ψ(s) = -s/2."""
        return -0.5 * s

    def slope(self, s: Any) -> Any:
        """1."""
        return namespace(s).ones_like(s)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """One component, itself."""
        return np.zeros(1), np.ones(1)


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, k = (1 + s/2α)^{-α}: Gaussians of many scales at once.

    >>> from kembed import RationalQuadratic
    >>> float(RationalQuadratic(1.0, alpha=1.0)([0.0], [1.0]))  # 1 / (1 + 1/2)
    0.6666666666666666
    """

    lengthscale: Any
    alpha: Any

    def __init__(self, lengthscale: Any = 1.0, alpha: Any = 1.0, *, covariance: Any = None) -> None:
        super().__init__(lengthscale, covariance=covariance)
        object.__setattr__(self, "alpha", checks.positive(alpha, "alpha")[()])

    def profile(self, s: Any) -> Any:
        """ψ(s) = -α log(1 + s/2α)."""
        return -self.alpha * namespace(s, self.alpha).log1p(s / (2.0 * self.alpha))

    def slope(self, s: Any) -> Any:
        """1 / (1 + s/2α)."""
        return 1.0 / (1.0 + s / (2.0 * self.alpha))

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """A Gamma(α, α) mixture over c, by quadrature."""
        return scale_mixtures.rational_quadratic(self.alpha, dimension, finite)


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Matern12(Stationary):
    """Matérn 1/2 (exponential, Laplace) kernel, k = exp(-√s), in the Euclidean distance.

    At x = y it has no derivative; its gradient there is taken as 0, the mean of the two sides.

    >>> from kembed import Matern12
    >>> float(Matern12(1.0)([0.0], [1.0]))  # exp(-1)
    0.36787944117144233
    """

    lengthscale: Any

    def profile(self, s: Any) -> Any:
        """ψ(s) = -√s."""
        return -safe_sqrt(s)

    def slope(self, s: Any) -> Any:
        """1/√s, and 0 at s = 0."""
        root = safe_sqrt(s)
        xp = namespace(s)
        return xp.where(s > 0.0, 1.0 / xp.where(s > 0.0, root, 1.0), 0.0)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """An inverse-gamma mixture over c, by quadrature."""
        return scale_mixtures.matern(0.5, dimension, finite)


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Matern32(Stationary):
    """Matérn 3/2 kernel, k = (1 + r) exp(-r) with r = √(3s).

    >>> from kembed import Matern32
    >>> float(Matern32(3.0**0.5)([0.0], [1.0]))  # 2 exp(-1)
    0.7357588823428847
    """

    lengthscale: Any

    def profile(self, s: Any) -> Any:
        """ψ(s) = log(1 + r) - r."""
        r = safe_sqrt(3.0 * s)
        return namespace(s).log1p(r) - r

    def slope(self, s: Any) -> Any:
        """3 / (1 + r)."""
        return 3.0 / (1.0 + safe_sqrt(3.0 * s))

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """An inverse-gamma mixture over c, by quadrature."""
        return scale_mixtures.matern(1.5, dimension, finite)


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Matern52(Stationary):
    """Matérn 5/2 kernel, k = (1 + r + r²/3) exp(-r) with r = √(5s).

    >>> from kembed import Matern52
    >>> round(float(Matern52(5.0**0.5)([0.0], [1.0])), 12)  # (7/3) exp(-1)
    0.858385362733
    """

    lengthscale: Any

    def profile(self, s: Any) -> Any:
        """ψ(s) = log(1 + r + r²/3) - r."""
        r = safe_sqrt(5.0 * s)
        return namespace(s).log1p(r + 5.0 * s / 3.0) - r

    def slope(self, s: Any) -> Any:
        """(5/3)(1 + r) / (1 + r + r²/3)."""
        r = safe_sqrt(5.0 * s)
        return (5.0 / 3.0) * (1.0 + r) / (1.0 + r + 5.0 * s / 3.0)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """An inverse-gamma mixture over c, by quadrature."""
        return scale_mixtures.matern(2.5, dimension, finite)


@pytree
@dataclass(frozen=True, eq=False, repr=False, init=False)
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
        object.__setattr__(self, "lengthscales", lengthscales)
        object.__setattr__(self, "weights", weights)

    @property
    def lengthscale(self) -> float:
        """The metric is the plain distance; the scales are in the profile."""
        return 1.0

    def _log_terms(self, s: Any) -> tuple[Any, Any]:
        """log w_j - s/2ℓ_j² for every scale j, on a new leading axis, and their log-sum."""
        xp = namespace(s, self.lengthscales, self.weights)
        shape = (-1,) + (1,) * xp.ndim(s)
        scaled = s / (-2.0 * (self.lengthscales**2).reshape(shape))
        terms = scaled + xp.log(self.weights).reshape(shape)
        peak = terms.max(axis=0)
        return terms, peak + xp.log(xp.exp(terms - peak).sum(axis=0))

    def profile(self, s: Any) -> Any:
        """ψ(s) = log Σ_j w_j exp(-s/2ℓ_j²)."""
        return self._log_terms(s)[1]

    def slope(self, s: Any) -> Any:
        """Σ_j π_j(s)/ℓ_j², with π_j the share of scale j in k."""
        terms, total = self._log_terms(s)
        xp = namespace(terms)
        shape = (-1,) + (1,) * xp.ndim(s)
        return (xp.exp(terms - total) / (self.lengthscales**2).reshape(shape)).sum(axis=0)

    def scales(self, dimension: int, finite: bool) -> tuple[Any, Any]:
        """Exactly J components."""
        return namespace(self.weights).log(self.weights), 1.0 / self.lengthscales**2

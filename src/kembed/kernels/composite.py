"""Kernels made of kernels: scaled, sum and product."""

from __future__ import annotations

from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import namespace, show
from kembed.core.linalg import log_sum_exp
from kembed.kernels.base import MADE, Components, Kernel, check_kernel, kernel_class


@kernel_class
class Scaled(Kernel):
    """variance · k(x, y), for a positive variance.

    >>> from kembed import Gaussian
    >>> 2.0 * Gaussian(1.0)
    Scaled(kernel=Gaussian(lengthscale=1), variance=2)
    """

    kernel: Kernel
    variance: Any

    def __init__(self, kernel: Kernel, variance: Any) -> None:
        self._set(kernel=check_kernel(kernel), variance=checks.positive(variance, "variance")[()])

    def _log_variance(self) -> Any:
        return namespace(self.variance).log(self.variance)

    def _log_gram(self, X: Any, Y: Any) -> Any:
        return self.kernel._log_gram(X, Y) + self._log_variance()

    def _log_diagonal(self, X: Any) -> Any:
        return self.kernel._log_diagonal(X) + self._log_variance()

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        inner = self.kernel.components(dimension, finite=finite)
        return inner._replace(log_weights=inner.log_weights + self._log_variance())


@kernel_class
class _Combination(Kernel):
    """The parts of a sum or product, flattened: (a + b) + c has three parts."""

    kernels: tuple[Kernel, ...]

    def __init__(self, *kernels: Kernel) -> None:
        if not kernels:
            raise ValueError(f"{type(self).__name__} needs at least one kernel")
        parts: list[Kernel] = []
        for kernel in kernels:
            same = type(kernel) is type(self)
            parts.extend(kernel.kernels if same else (check_kernel(kernel),))  # type: ignore[attr-defined]
        self._set(kernels=tuple(parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(show(kernel) for kernel in self.kernels)})"

    def _parts(self, dimension: int, finite: bool) -> list[Components]:
        """Components of every part, all diagonal or all full."""
        parts = [kernel.components(dimension, finite=finite) for kernel in self.kernels]
        if len({part.precision.ndim for part in parts}) > 1:
            parts = [part._replace(precision=as_full(part.precision)) for part in parts]
        return parts


@kernel_class
class Sum(_Combination):
    """k_1(x, y) + k_2(x, y) + … and so on.

    >>> from kembed import Gaussian, Matern32
    >>> Gaussian(1.0) + Matern32(0.5)
    Sum(Gaussian(lengthscale=1), Matern32(lengthscale=0.5))
    """

    def _gram(self, X: Any, Y: Any) -> Any:
        return sum(kernel._gram(X, Y) for kernel in self.kernels)

    def _log_gram(self, X: Any, Y: Any) -> Any:
        return _log_sum([kernel._log_gram(X, Y) for kernel in self.kernels])

    def _log_diagonal(self, X: Any) -> Any:
        return _log_sum([kernel._log_diagonal(X) for kernel in self.kernels])

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        parts = self._parts(dimension, finite)
        xp = namespace(*(array for part in parts for array in part))
        return Components(*map(xp.concatenate, zip(*parts, strict=True)))


@kernel_class
class Product(_Combination):
    """k_1(x, y) · k_2(x, y) · … and so on.

    >>> from kembed import Gaussian
    >>> float((Gaussian(1.0) * Gaussian(2.0))([0.0], [1.0]))  # exp(-1/2 - 1/8)
    0.5352614285189903
    """

    def _log_gram(self, X: Any, Y: Any) -> Any:
        return sum(kernel._log_gram(X, Y) for kernel in self.kernels)

    def _log_diagonal(self, X: Any) -> Any:
        return sum(kernel._log_diagonal(X) for kernel in self.kernels)

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        product, *parts = self._parts(dimension, finite)
        for part in parts:
            weights = product.log_weights[:, None] + part.log_weights[None, :]
            precision = product.precision[:, None] + part.precision[None, :]
            product = Components(weights.reshape(-1), precision.reshape(-1, *precision.shape[2:]))
        return product


def as_full(precision: Any) -> Any:
    """Diagonal precisions (Q, D) as matrices (Q, D, D)."""
    if precision.ndim == 3:
        return precision
    return precision[:, :, None] * np.eye(precision.shape[1])


def _log_sum(logs: list[Any]) -> Any:
    return log_sum_exp(namespace(*logs).stack(logs), axis=0)


MADE.update(scaled=Scaled, sum=Sum, product=Product)

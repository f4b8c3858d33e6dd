"""What every kernel is: a positive definite function, written once and batched here.

A kernel supplies `_log_gram`, the matrix of log k(x_i, y_j), and `components`, itself as a mixture of
squared exponentials. Values, matrices, diagonals, sums, products and the prior covariance follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kembed.core import checks
from kembed.core.backend import Array, Float, namespace, pytree, show
from kembed.kernels.measures import Measure

# What kernels are made into by +, * and `convolved`. The files that define these put them here, so that this
# one need not know them; the room's `__init__` imports them all.
MADE: dict[str, Any] = {}
LARGEST_ENTRY = 1e50  # of a kernel that is worked with: products of four entries are numbers

Class = TypeVar("Class", bound=type)


def kernel_class(cls: Class) -> Class:
    """Class decorator: a frozen dataclass with its own `__init__`, whose fields are pytree children."""
    return pytree(dataclass(frozen=True, eq=False, repr=False, init=False)(cls))  # type: ignore[return-value]


class Components(NamedTuple):
    """k(x, y) = Σ_q w_q exp(-½ (x-y)ᵀ P_q (x-y)): a mixture of squared exponentials.

    `precision` has shape (Q, D) when every P_q is diagonal, else (Q, D, D).
    """

    log_weights: Float[Array, " Q"]
    precision: Float[Array, "Q D"] | Float[Array, "Q D D"]


class PairFunction(ABC):
    """A symmetric function of two points, supplied as a matrix over two checked tables."""

    @abstractmethod
    def _gram(self, X: Float[Array, "n D"], Y: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The values at all pairs."""

    def __call__(self, x: Any, y: Any) -> Any:
        """The value at one pair of points."""
        X = checks.one_point(x, "x")
        return self._gram(X, checks.one_point(y, "y", dimension=X.shape[1]))[0, 0]

    def gram(self, X: Any, Y: Any = None) -> Float[Array, "n m"]:
        """The matrix of values at (x_i, y_j); `Y` defaults to `X`."""
        X = checks.points(X, "X")
        Y = X if Y is None else checks.points(Y, "Y", dimension=X.shape[1])
        return self._gram(X, Y)


class Kernel(PairFunction):
    """A positive definite kernel whose hyperparameters are pytree leaves.

    `k(x, y)` is the value at one pair, `k.gram(X, Y)` the matrix over two tables, `k.diagonal(X)` the
    values k(x_i, x_i). Kernels add and multiply, with each other and with positive numbers.
    """

    @abstractmethod
    def _log_gram(self, X: Float[Array, "n D"], Y: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """log k(x_i, y_j)."""

    @abstractmethod
    def _log_diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """log k(x_i, x_i)."""

    def components(self, dimension: int, *, finite: bool = True) -> Components:
        """The kernel on R^D as a mixture of squared exponentials, exact or by quadrature.

        `finite` says whether the measure it will be convolved with is finite.
        """
        raise TypeError(
            f"{type(self).__name__} is no mixture of squared exponentials, so that embeddings with priors "
            "and kernel learning do not apply to it; use empirical, or a kernel such as Gaussian"
        )

    def diagonal(self, X: Any) -> Float[Array, " n"]:
        """The vector k(x_i, x_i)."""
        log_diagonal = self._log_diagonal(checks.points(X, "X"))
        return namespace(log_diagonal).exp(log_diagonal)

    def convolved(self, measure: Measure) -> Any:
        """The prior covariance r(x, y) = ∫ k(x, u) k(u, y) ν(du), Eq. (4) of the paper."""
        return MADE["convolved"](self, measure)

    def _gram(self, X: Float[Array, "n D"], Y: Float[Array, "m D"]) -> Float[Array, "n m"]:
        with np.errstate(over="ignore"):  # beyond all floats a distance is infinite, and the kernel 0
            log_gram = self._log_gram(X, Y)
            return namespace(log_gram).exp(log_gram)

    def __add__(self, other: Kernel) -> Kernel:
        return MADE["sum"](self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        return MADE["product" if isinstance(other, Kernel) else "scaled"](self, other)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self._fields(), other._fields()
        return mine.keys() == theirs.keys() and all(
            bool(a == b) if isinstance(a, Kernel | tuple) else np.array_equal(a, b)
            for a, b in zip(mine.values(), theirs.values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={show(value)}" for name, value in self.hyperparameters().items())
        return f"{type(self).__name__}({inside})"

    def hyperparameters(self) -> dict[str, Any]:
        """Names and values, as people write them."""
        return self._fields()

    def _fields(self) -> dict[str, Any]:
        """Names and values of the fields that are not None (every kernel is a dataclass)."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in named.items() if value is not None}

    def _set(self, **values: Any) -> None:
        """Fill fields of the frozen object, in `__init__`."""
        vars(self).update(values)


def refuse_entries(largest: float) -> None:
    """Refuse a kernel with entries so large or small that spreads of HSIC, products of four, are no numbers.

    Beyond floats they would say that nothing differs. A kernel of zeros may be asked.
    """
    if largest and not 1.0 / LARGEST_ENTRY <= largest <= LARGEST_ENTRY:
        seen = f"kernel has values of {largest:.3g}, and products of four of them are no numbers"
        raise ValueError(f"{seen}; multiply it by a constant, which changes no p-value")


def refuse_size(kernel: Kernel, x: Float[np.ndarray, "n D"]) -> None:
    """The same of a kernel object at these rows: no entry is larger than those of the diagonal."""
    with np.errstate(over="ignore"):
        refuse_entries(float(np.exp(np.max(kernel._log_diagonal(x)))))


def check_kernel(value: Any, name: str = "kernel") -> Kernel:
    """A kernel object, or an error that says what to write instead."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        hint = f"write kembed.Gaussian({value!r})"
    elif isinstance(value, type) and issubclass(value, Kernel):
        hint = f"write kembed.{value.__name__}(...) with its parameters"
    else:
        hint = "use for example kembed.Gaussian(1.0)"
    raise TypeError(f"{name} must be a kernel object, but {value!r} was given; {hint}")

"""Kernels for tables with categories: equality of codes, kernels that see only some columns.

And the Gaussian of a space's distance, as a kernel on the user's own columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, cast

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, is_traced, namespace
from kembed.kernels.base import Kernel, check_kernel, kernel_class
from kembed.kernels.composite import Product
from kembed.kernels.space import Space
from kembed.kernels.stationary import Gaussian


@kernel_class
class Delta(Kernel):
    """Equality of codes, k(x, y) = exp(-½ Σ_c penalty_c² [x_c ≠ y_c]), over the columns c.

    `penalty` is a positive number or a vector, one for each column: what a difference there costs, in
    lengthscales. An infinite one forbids differences; by default k is 1 if all columns agree, else 0.

    >>> from kembed import Delta
    >>> Delta().gram([[0, 1], [0, 1], [0, 2]])
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    >>> float(Delta([1.0, 2.0])([0, 1], [3, 1]))  # exp(-1/2)
    0.6065306597126334
    """

    penalty: Any

    def __init__(self, penalty: Any = np.inf) -> None:
        penalty = finite = checks.numbers(penalty, "penalty")
        if not is_traced(penalty):
            seen = np.asarray(penalty)
            if not (seen > 0).all():
                worst = seen[~(seen > 0)].flat[0]
                raise ValueError(f"penalty must be positive (inf is allowed), but {worst:g} was given")
            finite = np.where(np.isinf(seen), 1.0, seen)
        checks.positive(finite, "penalty", ndim=(0, 1))
        self._set(penalty=penalty[()])

    def check_dimension(self, dimension: int) -> None:
        """Refuse data whose width is not that of the penalties."""
        shape = np.shape(self.penalty)
        if shape and shape[0] != dimension:
            raise ValueError(
                f"the kernel has {shape[0]} penalties but the data have {dimension} columns; "
                "give one penalty, or one for each column"
            )

    def _costs(self, dimension: int) -> Any:
        """½ penalty_c² for every column; the derivative at an infinite penalty is 0."""
        xp = namespace(self.penalty)
        penalty = xp.broadcast_to(self.penalty, (dimension,))
        infinite = xp.isinf(penalty)
        with np.errstate(over="ignore"):  # a cost beyond all floats is infinite
            return xp.where(infinite, np.inf, 0.5 * xp.where(infinite, 1.0, penalty) ** 2)

    def _log_gram(self, X: Any, Y: Any) -> Any:
        self.check_dimension(X.shape[1])
        costs = self._costs(X.shape[1])
        xp = namespace(X, Y, costs)
        return sum(xp.where(X[:, c, None] != Y[None, :, c], -costs[c], 0.0) for c in range(X.shape[1]))

    def _log_diagonal(self, X: Any) -> Any:
        self.check_dimension(X.shape[1])
        return namespace(X, self.penalty).zeros(X.shape[0])


@kernel_class
class OnColumns(Kernel):
    """A kernel that sees only some columns of a wider table, k(x, y) = k'(x_columns, y_columns).

    >>> from kembed import Delta, Gaussian, OnColumns
    >>> k = OnColumns(Gaussian(1.0), (0, 1)) * OnColumns(Delta(), (2,))
    >>> k.gram([[0.0, 0.0, 7], [0.0, 1.0, 7], [0.0, 0.0, 8]]).round(3)
    array([[1.   , 0.607, 0.   ],
           [0.607, 1.   , 0.   ],
           [0.   , 0.   , 1.   ]])
    """

    kernel: Kernel
    columns: tuple[int, ...] = field(metadata={"static": True})

    def __init__(self, kernel: Kernel, columns: Iterable[int]) -> None:
        kernel, given = check_kernel(kernel), cast(Any, columns)
        if isinstance(given, str) or not isinstance(given, Iterable):
            example = f"; write ({given},)" if isinstance(given, int | np.integer) else ""
            raise TypeError(f"columns must be a tuple of column numbers, but {columns!r} was given{example}")
        columns = tuple(checks.count(column, "every entry of columns", 0) for column in columns)
        if not columns:
            raise ValueError("columns is empty; give at least one column number")
        if len(set(columns)) < len(columns):
            raise ValueError(f"columns must all be different, but {columns} was given")
        self._set(kernel=kernel, columns=columns)

    def _seen(self, X: Any) -> Any:
        if max(self.columns) >= X.shape[1]:
            raise ValueError(
                f"the kernel looks at column {max(self.columns)} but the data have {X.shape[1]} "
                f"column{'s' if X.shape[1] != 1 else ''}, counted from 0; give wider data or other columns"
            )
        return X[:, np.array(self.columns)]

    def _gram(self, X: Any, Y: Any) -> Any:
        return self.kernel._gram(self._seen(X), self._seen(Y))

    def _log_gram(self, X: Any, Y: Any) -> Any:
        return self.kernel._log_gram(self._seen(X), self._seen(Y))

    def _log_diagonal(self, X: Any) -> Any:
        return self.kernel._log_diagonal(self._seen(X))


def space_kernel(space: Space, lengthscale: float | Float[np.ndarray, " E"]) -> Kernel:
    """exp(-d²/2ℓ²) with the distance d of `Space`, on columns as the user gave them.

    With a lengthscale for each numeric column, discrete ones take the geometric mean.
    """
    numeric, discrete = columns_by_kind(space)
    if not discrete:
        scales = lengthscale * space.spread
        return Gaussian(float(scales[0]) if len(scales) == 1 else scales)
    typical = float(np.exp(np.mean(np.log(lengthscale))))
    delta = OnColumns(Delta(space.penalty / typical), discrete)
    if not numeric:
        return delta
    return Product(OnColumns(Gaussian(lengthscale * space.spread[list(numeric)]), numeric), delta)


def columns_by_kind(space: Space) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places of the numeric columns, and of the discrete ones."""
    kinds = (~space.categorical, space.categorical)
    numeric, discrete = (tuple(int(c) for c in np.flatnonzero(kind)) for kind in kinds)
    return numeric, discrete

"""The sides of conditional tests within one table, each computed once.

A side is a target with a set of variables taken out of it. A search for a causal graph asks for the same side
against many others, so sides and conditioners are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kembed.conditional.conditioning import Conditioner, Variable
from kembed.conditional.features import Features, features
from kembed.conditional.multipliers import products, squared_norms
from kembed.conditional.residuals import ColumnRegression, Residual, residual
from kembed.permutation.statistics import Values

if TYPE_CHECKING:
    from jaxtyping import Float

Kept = TypeVar("Kept")
# Numbers of eight bytes that one kind of kept thing may hold: 200 MB.
ROOM = 25_000_000


@dataclass(frozen=True, eq=False)
class Side:
    """A target with its conditioning set taken out."""

    residuals: Float[np.ndarray, "n k"]  # unit variance; no columns where nothing is left
    features: tuple[Features, ...]  # of every kernel, centred given the conditioning set
    regressions: tuple[ColumnRegression, ...]


@dataclass(frozen=True)
class Settings:
    """How sides are made and compared."""

    kernels: tuple[Any, ...]  # as `_residual_kernels.check` gives them
    cross_fit: bool = True
    scale: bool = True
    interactions: bool = True


class Sides:
    """All sides of the variables of one table; rows in an order that says nothing."""

    def __init__(self, variables: Sequence[Variable], settings: Settings) -> None:
        self.variables = tuple(variables)
        self.settings = settings
        self.n = len(variables[0].columns)
        self._sides: OrderedDict[Any, Side] = OrderedDict()
        self._conditioners: OrderedDict[Any, Conditioner] = OrderedDict()
        self._residuals: OrderedDict[Any, Residual] = OrderedDict()

    def with_kernels(self, kernels: tuple[Any, ...]) -> Sides:
        """The same regressions under other kernels."""
        other = Sides(self.variables, replace(self.settings, kernels=kernels))
        other._conditioners, other._residuals = self._conditioners, self._residuals
        return other

    def conditioner(self, given: tuple[int, ...]) -> Conditioner:
        """What conditioning on these variables means."""
        return _kept(self._conditioners, given, lambda: self._condition(given), 500 * self.n)

    def _condition(self, given: tuple[int, ...]) -> Conditioner:
        return Conditioner(np.column_stack([self.variables[v].columns for v in given]))

    def side(self, target: int, given: tuple[int, ...]) -> Side:
        """The target with these variables taken out."""
        return _kept(self._sides, (target, given), lambda: self._side(target, given), 60 * self.n)

    def _side(self, target: int, given: tuple[int, ...]) -> Side:
        columns, indicator = self.variables[target].columns, self.variables[target].indicator
        regressions: tuple[ColumnRegression, ...] = ()
        conditioner = self.conditioner(given) if given else None
        if conditioner is not None and not conditioner.Z.shape[1]:
            conditioner = None  # only constants
        if conditioner is not None:
            key = (target, given)
            left = _kept(self._residuals, key, lambda: self._residual(target, given), 4 * self.n)
            columns, indicator, regressions = left.columns, left.indicator, left.regressions
        if not columns.shape[1]:
            return Side(columns, (), regressions)
        found = tuple(features(columns, indicator, kernel) for kernel in self.settings.kernels)
        if conditioner is not None:
            spent = float(np.mean([column.freedom for column in regressions]))
            centred = [conditioner.centred(one.values) for one in found]
            found = tuple(
                Features(one.kernel, values, spent + more)
                for one, (values, more) in zip(found, centred, strict=True)
            )
        return Side(columns, found, regressions)

    def _residual(self, target: int, given: tuple[int, ...]) -> Residual:
        how = self.settings
        return residual(
            self.variables[target], self.conditioner(given), cross_fit=how.cross_fit, scale=how.scale
        )

    def statistics(
        self, left: Side, right: Side, given: tuple[int, ...], E: Float[np.ndarray, "n B"]
    ) -> tuple[Values, tuple[Any, ...]]:
        """HSIC of every kernel, alone and weighted by features of what is given, under the multipliers E.

        Regressions that spend d of n degrees of freedom tie the rows' residuals together: if these are Pa and
        Pb, P a projection, Σ a_i b_i has variance n - d where multipliers see Σ a_i² b_i² ≈ n (1 - d/n)²,
        too little by 1 + d/n. What is resampled is stretched by that, d the geometric mean of both sides'.
        """
        found: list[np.ndarray] = []
        names: list[tuple[Any, ...]] = []
        for first, second in zip(left.features, right.features, strict=True):
            C = products(first.values, second.values)
            stretch = np.ones(E.shape[1] + 1)
            stretch[1:] += np.sqrt(first.freedom * second.freedom) / self.n
            found.append(squared_norms(C, E) * stretch)
            names.append((first.kernel, second.kernel))
            if self.settings.interactions and given:
                found.append(squared_norms(products(C, self.conditioner(given).features), E) * stretch)
                names.append((first.kernel, second.kernel, "given"))
        values = np.column_stack(found)
        return Values(values, np.abs(values).max(axis=0)), tuple(names)

    def permuted(self, left: Side, right: Side, orders: np.ndarray) -> tuple[Values, tuple[Any, ...]]:
        """HSIC of every kernel when nothing is given, for the data and under every order of the rows."""
        found: list[np.ndarray] = []
        names: list[tuple[Any, ...]] = []
        for first, second in zip(left.features, right.features, strict=True):
            sums = [((first.values.T @ second.values) ** 2).sum()]
            sums += [((first.values.T @ second.values[order]) ** 2).sum() for order in orders]
            found.append(np.array(sums) / self.n**2)
            names.append((first.kernel, second.kernel))
        values = np.column_stack(found)
        return Values(values, np.abs(values).max(axis=0)), tuple(names)


def _kept(store: OrderedDict[Any, Kept], key: Any, make: Callable[[], Kept], size: int) -> Kept:
    """What is stored under the key, made where it is not; the longest unused goes when room runs out."""
    if key in store:
        store.move_to_end(key)
        return store[key]
    value = make()
    store[key] = value
    while len(store) > max(2, ROOM // size):
        store.popitem(last=False)
    return value

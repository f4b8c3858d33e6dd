"""Tests of some of the rows with the regressions of all of them, for a bootstrap of a graph.

Residuals are those of all rows, each predicted by the others, and are the better for it; what is drawn again
is which rows are compared. One regression then serves every resample.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from kembed.conditional.conditioning import Conditioner, Variable
from kembed.conditional.sides import KernelFeatures, Settings, Side, Sides
from kembed.core.backend import Float, Int

Places = Int[np.ndarray, " r"]


class SidesOnRows(Sides):
    """The sides of some rows of a table, from those of all its rows."""

    def __init__(self, whole: Sides, rows: Places, settings: Settings) -> None:
        some = [Variable(variable.columns[rows], variable.indicator) for variable in whole.variables]
        super().__init__(some, settings)
        self._whole, self._rows = whole, rows

    def conditioner(self, given: tuple[int, ...]) -> Conditioner:
        """What conditioning on these variables means, as all rows have it."""
        make = lambda: ConditionerOnRows(self._whole.conditioner(given), self._rows)  # noqa: E731
        return self._conditioners.get(given, make)

    def side(self, target: int, given: tuple[int, ...]) -> Side:
        """The target with these variables taken out."""
        return self._sides.get((target, given), lambda: self._some(self._whole.side(target, given)))

    def forest_side(self, target: int, given: tuple[int, ...]) -> Side:
        """The same with a forest in the regression."""
        if (found := self._whole.forest_side(target, given)) is self._whole.side(target, given):
            return self.side(target, given)
        return self._sides.get((target, given, "forest"), lambda: self._some(found))

    def _some(self, side: Side) -> Side:
        features = tuple(map(self._at_rows, side.features))
        return replace(side, residuals=side.residuals[self._rows], features=features)

    def _at_rows(self, one: KernelFeatures) -> KernelFeatures:
        values = one.values[self._rows]
        tested = values.any(axis=1, keepdims=True)  # a forest leaves rows out
        values = values - tested * (values.sum(axis=0) / max(1, np.count_nonzero(tested)))
        # A share of the rows has lost the same share of degrees of freedom.
        return replace(one, values=values, freedom=one.freedom * self.n / self._whole.n)


class ConditionerOnRows(Conditioner):
    """What is conditioned on, at some of the rows."""

    def __init__(self, whole: Conditioner, rows: Places) -> None:
        super().__init__(whole.Z[rows])
        object.__setattr__(self, "_whole", whole)
        object.__setattr__(self, "_rows", rows)

    @cached_property
    def weights(self) -> tuple[Float[np.ndarray, "n q"], ...]:
        """Features of what is given, as of all rows."""
        whole: Conditioner = self.__dict__["_whole"]
        return tuple(weight[self.__dict__["_rows"]] for weight in whole.weights)

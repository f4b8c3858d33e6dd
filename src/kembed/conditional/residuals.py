"""A variable with what the conditioning variables say about it taken out: location, then scale.

HSIC of raw residuals answers another question than the one asked: where the *spread* of x and y depends on
z, residuals are dependent although x and y are not, given z. So the logarithm of the residuals' size is
regressed on z as well, and residuals are divided by what it predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kembed.conditional.conditioning import Conditioner, Variable, bent, unit
from kembed.conditional.regression import Regression, learn_regression, regression_residuals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

# Added to the size of residuals, in spreads, so that a residual of nothing has a logarithm.
LEAST_SIZE = 0.02
# A column of which the regression leaves less than this share of the variance is a function of `given`.
DETERMINED = 1e-5


@dataclass(frozen=True, eq=False)
class ColumnRegression:
    """The regressions of one column: of its location, and of the logarithm of its spread."""

    location: Regression | None  # None where `given` says nothing
    scale: Regression | None  # likewise, and for indicators of categories
    unexplained: float  # share of the variance left, judged on left-out rows
    freedom: float  # degrees of freedom that both regressions spent


@dataclass(frozen=True, eq=False)
class VariableResiduals:
    """Residual columns of unit variance, and the regressions behind them; no columns if nothing is left."""

    columns: Float[np.ndarray, "n k"]
    regressions: tuple[ColumnRegression, ...]
    indicator: Bool[np.ndarray, " k"]  # which columns are left of indicators of categories


def variable_residuals(
    variable: Variable, given: Conditioner, *, cross_fit: bool, scale: bool
) -> VariableResiduals:
    """The residuals of a variable, column by column.

    With `cross_fit` a row's residual comes from a regression on the other rows. `scale=False` stops after
    the location. A regression is left out where `given` says nothing about the column.
    """
    Z = given.Z
    left: list[Float[np.ndarray, " n"]] = []
    kinds: list[bool] = []
    found = []
    for column, indicator in zip(variable.columns.T, variable.indicator, strict=True):
        location = spread = None
        freedom = 1.0
        away = outside = column
        if given.sees(column):
            location = learn_regression(Z, column[:, None])
            both = regression_residuals(Z, column[:, None], location)
            outside, freedom = both.left_out[:, 0], both.freedom
            away = outside if cross_fit else both.fitted[:, 0]
        unexplained = float((outside**2).mean())
        if unexplained > DETERMINED:
            if scale and not indicator:
                away, spread, more = _scaled(away, outside, given)
                freedom += more
            left.append(unit(away))
            kinds.append(bool(indicator))
        found.append(ColumnRegression(location, spread, unexplained, freedom))
    columns = np.column_stack(left) if left else np.empty((len(given.Z), 0))
    return VariableResiduals(columns, tuple(found), np.array(kinds, dtype=bool))


def _scaled(
    away: Float[np.ndarray, " n"], outside: Float[np.ndarray, " n"], given: Conditioner
) -> tuple[Float[np.ndarray, " n"], Regression | None, float]:
    """Residuals over the spread that the other rows predict for their row, drawn in far out."""
    size = np.sqrt((outside**2).mean())
    logs = np.log(np.abs(outside) / size + LEAST_SIZE)
    logs = (logs - logs.mean())[:, None]
    if not given.sees(logs[:, 0]):
        return bent(away / np.sqrt((away**2).mean())), None, 0.0
    regression = learn_regression(given.Z, logs)
    # Twice, the second time what the first has left: a process that smooths noise this loud shrinks too.
    once = regression_residuals(given.Z, logs, regression)
    predicted = (logs - regression_residuals(given.Z, once.left_out, regression).left_out)[:, 0]
    ratio = away / np.exp(predicted - predicted.mean())
    return bent(ratio / np.sqrt((ratio**2).mean())), regression, once.freedom

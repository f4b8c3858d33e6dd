"""Variables as standardised columns, and their residuals given others.

Conditional independence does not change under an invertible function of a variable. So numeric columns are
scaled robustly, with logarithmic tails so that no value dominates a regression. Categories become indicators.
"""

from dataclasses import dataclass

import numpy as np

from kembed.conditional.likelihood import Regression
from kembed.conditional.regression import Conditioner, standardise
from kembed.core.backend import Bool, Float, Int
from kembed.kernels.space import make_space

Vector = Float[np.ndarray, " n"]
Columns = Float[np.ndarray, "n k"]
BULK = 3.0  # robust standard deviations: values further out grow logarithmically
LEAST_SIZE = 0.02  # added to the size of residuals, in standard deviations, before taking logarithms
DETERMINED = 1e-5  # a column with less than this share of its variance unexplained is a function of `given`


@dataclass(frozen=True, eq=False)
class Variable:
    """Columns of about unit variance; `indicator` marks those of categories."""

    columns: Columns
    indicator: Bool[np.ndarray, " k"]


def as_variable(values: Float[np.ndarray, "n D"], categorical: Bool[np.ndarray, " D"]) -> Variable:
    """Standardise numeric columns, and turn categories and numbers of two values into indicators.

    Constant columns are dropped.
    """
    space = make_space(values, categorical)
    columns: list[Vector] = []
    indicator: list[bool] = []
    for c, discrete in enumerate(categorical):
        column = values[:, c]
        if (column == column[0]).all():
            continue
        levels = np.unique(column)
        if not discrete and len(levels) > 2:
            columns.append(standardise(log_tails((column - np.median(column)) / space.spread[c])))
            indicator.append(False)
            continue
        shown = [column == level for level in levels[: 1 if len(levels) == 2 else None]]
        columns += [standardise(level.astype(float)) for level in shown]
        indicator += [True] * len(shown)
    return Variable(_stack(columns, len(values)), np.array(indicator, dtype=bool))


def _stack(columns: list[Vector], n: int) -> Columns:
    return np.column_stack(columns) if columns else np.empty((n, 0))


def log_tails(t: Vector) -> Vector:
    """t in the bulk, growing like a logarithm beyond it: invertible, with a continuous derivative."""
    beyond = np.maximum(np.abs(t) - BULK, 0.0)
    return np.asarray(np.where(beyond > 0.0, np.sign(t) * (BULK + np.log1p(beyond)), t))


def content_order(variables: list[Variable]) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " v"]]:
    """A random order of the rows that depends on their content alone, and the ranks of the variables.

    So results depend neither on the order of rows nor on that of variables.
    """
    keys = [_key(variable.columns) for variable in variables]
    rank = np.argsort(sorted(range(len(keys)), key=lambda v: keys[v]))
    every = sorted((column for one in variables for column in one.columns.T), key=lambda c: _key(c[:, None]))
    n = len(variables[0].columns)
    order = np.lexsort(every[::-1]) if every else np.arange(n)
    return order[np.random.default_rng(0).permutation(n)], rank


def _key(columns: Columns) -> tuple[float, ...]:
    """A sort key that depends neither on the order of rows nor on rounding."""
    if not columns.shape[1]:
        return ()
    first = np.sort(columns[:, 0])[[0, -1, len(columns) // 2]]
    return tuple(np.round([*first, np.abs(columns).mean()], 9))


@dataclass(frozen=True, eq=False)
class ColumnRegression:
    """The regressions of one column: of its location, and of the logarithm of its scale."""

    location: Regression | None  # None where `given` explains nothing
    scale: Regression | None  # likewise, and for indicators of categories
    unexplained: float  # share of the variance left, on left-out rows
    freedom: float  # degrees of freedom of both regressions


@dataclass(frozen=True, eq=False)
class VariableResiduals:
    """Residual columns of unit variance, and their regressions; no columns if nothing is left."""

    columns: Columns
    regressions: tuple[ColumnRegression, ...]
    indicator: Bool[np.ndarray, " k"]  # residual columns of indicators
    indices: Float[np.ndarray, "n i"]  # left-out predictions of the columns
    tested: Bool[np.ndarray, " n"] | None = None  # which rows are tested, where not all are


def variable_residuals(variable: Variable, given: Conditioner) -> VariableResiduals:
    """Regress every column of a variable on `given`: location, then scale.

    Where the *scale* of x and y depends on z, raw residuals are dependent although x and y are independent
    given z. So the logarithm of the residuals' size is regressed on z as well, and residuals are divided by
    its prediction. A row's residual comes from a regression on the other rows.
    """
    left: list[Vector] = []
    kinds: list[bool] = []
    indices: list[Vector] = []
    regressions = []
    for column, indicator in zip(variable.columns.T, variable.indicator, strict=True):
        residual = column
        freedom, scale_fit = 1.0, None
        location = given.fit(column)
        if location is not None:
            both = location.residuals(column[:, None])
            residual, freedom = both.left_out[:, 0], both.freedom
            indices.append(column - residual)
        unexplained = float((residual**2).mean())
        if unexplained > DETERMINED:
            if not indicator:
                residual, scale_fit, spent = _scaled(residual, given)
                freedom += spent
            left.append(standardise(residual))
            kinds.append(bool(indicator))
        learned = None if location is None else location.learned
        regressions.append(ColumnRegression(learned, scale_fit, unexplained, freedom))
    columns, predictions = (_stack(parts, len(given.Z)) for parts in (left, indices))
    return VariableResiduals(columns, tuple(regressions), np.array(kinds, dtype=bool), predictions)


def _scaled(residual: Vector, given: Conditioner) -> tuple[Vector, Regression | None, float]:
    """Residuals over their scale as predicted by the other rows, the regression, its degrees of freedom."""
    logs = np.log(np.abs(residual) / np.sqrt((residual**2).mean()) + LEAST_SIZE)
    logs = (logs - logs.mean())[:, None]
    fit = given.fit(logs[:, 0])
    freedom = 0.0
    if fit is not None:
        # Twice, the second time on the residuals of the first: at this noise a regression shrinks too much.
        once = fit.residuals(logs)
        predicted = (logs - fit.residuals(once.left_out).left_out)[:, 0]
        residual, freedom = residual / np.exp(predicted - predicted.mean()), once.freedom
    return log_tails(residual / np.sqrt((residual**2).mean())), fit and fit.learned, freedom

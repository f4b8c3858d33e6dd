"""Taking slow changes in time out of columns, and saying what autocorrelation is left.

Seasons make all variables of a time series dependent. A Gaussian process on time takes them out. Left alone
it also explains the weather of a single day: the likelihood prefers lengthscales of one to three days, the
residuals are then *negatively* autocorrelated and most of what the variables share is gone. So the
lengthscale is bounded below.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.conditional.likelihood import default_starts, learn_regression
from kembed.conditional.regression import gaussian_process
from kembed.core.backend import Float
from kembed.tables.frames import Labelled, index_of, refuse_orders
from kembed.tables.reader import read_tables
from kembed.tables.table import Table

Vector = Float[np.ndarray, " n"]
WEEK = 7.0  # days: the least timescale by default, above the one to three days of the weather
LATEST = 1e100  # times beyond have no spread that is a number
# Neighbours in time must be seen together: starts are compared, and the best is finished, on a stretch of
# at most so many rows.
STRETCHES = (200, 1_000)
EXACT_ROWS, LANDMARKS = 1_500, 1_000  # beyond so many rows the trend is projected on so many times
# Lengthscales that are tried first, in spreads of the times: of a year, days to years.
FACTORS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class PrewhitenedColumn:
    """What pre-whitening did to one column; lengthscale in the unit of time, None if it found no trend."""

    name: str
    lengthscale: float | None
    before: float  # correlation of neighbours in time
    after: float

    def __repr__(self) -> str:
        how = "no trend" if self.lengthscale is None else f"trend over {self.lengthscale:.3g}"
        return f"{self.name}: {how}, autocorrelation {self.before:.2f} before, {self.after:.2f} after"


def times(value: Any, argument: str, n: int, nan_policy: str = "raise") -> Vector:
    """A time for every row as numbers; dates become days; missing ones are NaN with "omit"."""
    if isinstance(value, Labelled):
        value, argument = value.value, value.label
    (table,), _ = read_tables({argument: value}, "omit" if nan_policy == "omit" else "raise", minimum=1)
    if (table.given, len(table.names)) != (n, 1):
        seen = f"{table.given} rows and {len(table.names)} columns"
        raise ValueError(f"{argument} must hold one time for each of the {n} rows, but has {seen}")
    found = np.full(n, np.nan)
    found[table.rows] = column_times(table, table.names[0], argument)
    return found


def column_times(table: Table, name: str, argument: str) -> Vector:
    """The times in a column of a table."""
    if name not in table.names:
        known = ", ".join(repr(column) for column in table.names[:12])
        raise ValueError(f"{argument} names the column {name!r}, but data has {known}")
    d = table.names.index(name)
    if table.categorical[d]:
        seen = repr(table.decoded(d, table.values[0, d]))
        raise TypeError(f"{argument} must hold times: numbers, or dates such as 1976-01-31, but has {seen}")
    found = table.values[:, d] - (table.values[:, d].min() if table.unit(d) else 0.0)
    if np.abs(found).max() > LATEST:
        raise ValueError(f"{argument} has times beyond {LATEST:g}; divide them by a constant")
    if (found == found[0]).all():
        raise ValueError(f"all times in {argument} are equal, so there is no trend to take out; leave it out")
    return found


def row_times(value: Any, table: Table, nan_policy: str) -> Vector:
    """The times of the rows that a table kept; what `prewhiten=` was given."""
    if isinstance(value, str):
        raise TypeError(f"prewhiten must hold the times themselves, but {value!r} was given")
    refuse_orders([(table.label, table.index), ("prewhiten", index_of(value))])
    return times(value, "prewhiten", table.given, nan_policy)[table.rows]


def prewhiten(column: Vector, time: Vector, least: float, name: str) -> tuple[Vector, PrewhitenedColumn]:
    """The column less a Gaussian process on time whose lengthscale is at least `least`."""
    given = column
    power = int(np.frexp(np.abs(column).max())[1])  # of two, which changes no digit: squares are numbers then
    column = np.ldexp(column, -power)
    spread, size = float(time.std()), float(column.std())
    before = autocorrelation(column, time)
    untouched = given, PrewhitenedColumn(name, None, before, before)
    if not size > 0.0:
        return untouched
    T, Y = ((time - time.mean()) / spread)[:, None], ((column - np.median(column)) / size)[:, None]
    order = np.argsort(time, kind="stable")
    starts = default_starts(T[order][: STRETCHES[0]], FACTORS)
    regression = learn_regression(T[order], Y[order], least=least / spread, rows=STRETCHES, starts=starts)
    if regression.gain <= 0.0:
        return untouched
    marks = order[np.linspace(0, len(T) - 1, min(LANDMARKS, len(T))).astype(int)]
    order = np.concatenate([marks, np.setdiff1d(order, marks)])  # landmarks come first, all along the time
    left = np.empty(len(T))
    process = gaussian_process(T[order], regression, exact=EXACT_ROWS, landmarks=LANDMARKS)
    left[order] = process(Y[order]).fitted[:, 0] * size
    timescale = float(regression.lengthscales[0]) * spread
    return np.ldexp(left, power), PrewhitenedColumn(name, timescale, before, autocorrelation(left, time))


def prewhiten_table(table: Table, time: Vector, least: float) -> tuple[Table, list[PrewhitenedColumn]]:
    """A table with every numeric column pre-whitened, and what that did."""
    table, done = replace(table, values=table.values.copy()), []
    for d in np.flatnonzero(~table.categorical):
        table.values[:, d], how = prewhiten(table.values[:, d], time, least, table.names[d])
        done.append(how)
    return table, done


def autocorrelation(column: Vector, time: Vector) -> float:
    """The correlation of neighbours in time; rows further apart than 1.5 usual steps are no neighbours."""
    moments, where = np.unique(time, return_inverse=True)
    if len(moments) < 3:
        return 0.0
    gaps = np.diff(moments)
    near = gaps <= 1.5 * np.median(gaps)
    ordered = np.bincount(where, column) / np.bincount(where)  # rows of one time count as their mean
    ordered = ordered - ordered.mean()
    if near.sum() < 2 or not ordered.any():
        return 0.0
    return float(np.mean((ordered[:-1] * ordered[1:])[near]) / np.mean(ordered**2))

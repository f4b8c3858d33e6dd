"""Taking slow changes in time out of columns, and saying what autocorrelation is left.

Seasons make all variables of a time series dependent. A Gaussian process on time takes them out. Left alone
it also explains the weather of a single day: the likelihood prefers lengthscales of one to three days, the
residuals are then *negatively* autocorrelated and most of what the variables share is gone. So the
lengthscale is bounded below.
"""

import reprlib
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

import numpy as np

from kembed.conditional.likelihood import default_starts, learn_regression
from kembed.conditional.regression import gaussian_process
from kembed.core import checks
from kembed.core.backend import Float
from kembed.tables.frames import Labelled, index_of, refuse_orders
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
    """A time for every row as numbers; dates become days; missing ones stay NaN with "omit"."""
    if isinstance(value, Labelled):
        value, argument = value.value, value.label
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(float), np.nan)
    array = value.to_numpy() if hasattr(value, "to_numpy") else checks.rectangular(value, argument, "vector")
    if array.shape != (n,):
        wanted = f"{argument} must hold one time for each of the {n} rows"
        seen = f"its shape is {array.shape}" if array.ndim else f"{reprlib.repr(value)} was given"
        raise ValueError(f"{wanted}, but {seen}")
    wanted = f"{argument} must hold times: numbers, or dates such as 1976-01-31"
    if array.dtype.kind in "cSb":
        kind = {"c": "complex numbers", "S": "bytes", "b": "true and false"}[array.dtype.kind]
        raise TypeError(f"{wanted}, but it holds {kind}")
    try:
        dates = n > 0 and hasattr(array[0], "isoformat")
        if dates:  # as it was in Greenwich: zones would otherwise be lost with a warning for every row
            zones = [getattr(date, "tzinfo", None) for date in array]
            both = zip(array, zones, strict=True)
            array = np.array([d.astimezone(UTC).replace(tzinfo=None) if zone else d for d, zone in both])
        if dates or (n > 0 and isinstance(array[0], str)):
            array = array.astype("datetime64[us]")
        if array.dtype.kind == "M":
            array = np.where(np.isnat(array), np.nan, (array - np.nanmin(array)) / np.timedelta64(1, "D"))
        array = np.asarray(array, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{wanted}, but has {reprlib.repr(array[0])}") from None
    if np.nanmax(np.abs(array), initial=0.0) > LATEST:
        raise ValueError(f"{argument} has times beyond {LATEST:g}; drop those rows, or divide by a constant")
    if np.isnan(array).any() and nan_policy != "omit":
        raise ValueError(f"{argument} has missing times; drop those rows or use nan_policy='omit'")
    seen = array[~np.isnan(array)]
    if not len(seen) or (seen == seen[0]).all():
        raise ValueError(f"all times in {argument} are equal, so there is no trend to take out; leave it out")
    return array


def row_times(value: Any, table: Table, nan_policy: str) -> Vector:
    """The times of the rows that a table kept; what `prewhiten=` was given."""
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


def without_column(data: Any, name: str) -> tuple[Any, Any]:
    """A data frame without one column, and that column."""
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        seen = f"prewhiten names the column {name!r}, but data is no data frame"
        raise TypeError(f"{seen}; give the times themselves") from None
    if name not in frame.columns:
        known = ", ".join(repr(column) for column in frame.columns[:12])
        raise ValueError(f"prewhiten names the column {name!r}, but data has {known}")
    return frame.drop(name).to_native(), frame[name].to_native()


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

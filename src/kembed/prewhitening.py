"""Taking slow changes in time out of columns, and saying what autocorrelation is left.

Seasons make all variables of a time series dependent. A Gaussian process on time takes them out. Left alone
it also explains the weather of a single day: the likelihood prefers lengthscales of one to three days, the
residuals are then *negatively* autocorrelated and most of what the variables share is gone. So the
lengthscale is bounded below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed import _regression

if TYPE_CHECKING:
    from jaxtyping import Float

WEEK = 7.0
# Neighbours in time must be seen together: starts are compared, and the best is finished, on a stretch of
# at most so many rows.
STRETCHES = (200, 1_000)
# Lengthscales that are tried first, in spreads of the times: of a year, days to years.
FACTORS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Whitened:
    """What pre-whitening did to one column; lengthscale in the unit of time, None if it found no trend."""

    name: str
    lengthscale: float | None
    before: float  # correlation of neighbours in time
    after: float

    def __repr__(self) -> str:
        how = "no trend" if self.lengthscale is None else f"trend over {self.lengthscale:.3g}"
        return f"{self.name}: {how}, autocorrelation {self.before:.2f} before, {self.after:.2f} after"


def times(value: Any, argument: str, n: int) -> Float[np.ndarray, " n"]:
    """A time for every row as numbers; dates become days."""
    array = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
    if array.dtype.kind == "O" and len(array) and hasattr(array[0], "isoformat"):
        array = array.astype("datetime64[us]")
    if array.dtype.kind in "US" or (array.dtype.kind == "O" and len(array) and isinstance(array[0], str)):
        try:
            array = array.astype("datetime64[us]")
        except ValueError:
            raise ValueError(
                f"{argument} must hold times, numbers or dates such as 1976-01-31, but has {array[0]!r}"
            ) from None
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise ValueError(f"{argument} has missing dates; drop those rows")
        array = (array - array.min()) / np.timedelta64(1, "D")
    try:
        array = np.asarray(array, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{argument} must hold times: numbers, or dates such as 1976-01-31") from None
    if array.shape != (n,):
        raise ValueError(
            f"{argument} must hold one time for each of the {n} rows, but its shape is {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{argument} has missing or infinite times; drop those rows")
    if (array == array[0]).all():
        raise ValueError(f"all times in {argument} are equal, so there is no trend to take out; leave it out")
    return array


def prewhiten(
    column: Float[np.ndarray, " n"], time: Float[np.ndarray, " n"], least: float, name: str
) -> tuple[Float[np.ndarray, " n"], Whitened]:
    """The column less a Gaussian process on time whose lengthscale is at least `least`."""
    spread = float(time.std())
    middle, size = float(np.median(column)), float(column.std())
    before = autocorrelation(column, time)
    if not size > 0.0:
        return column, Whitened(name, None, before, before)
    T, Y = ((time - time.mean()) / spread)[:, None], ((column - middle) / size)[:, None]
    order = np.argsort(time, kind="stable")
    regression = _regression.learn(T[order], Y[order], least=least / spread, rows=STRETCHES, factors=FACTORS)
    if regression.gain <= 0.0:
        return column, Whitened(name, None, before, before)
    left = np.empty(len(T))
    left[order] = _regression.residuals(T[order], Y[order], regression).fitted[:, 0]
    left = left * size
    return left, Whitened(
        name, float(regression.lengthscales[0]) * spread, before, autocorrelation(left, time)
    )


def autocorrelation(column: Float[np.ndarray, " n"], time: Float[np.ndarray, " n"]) -> float:
    """The correlation of neighbours in time; rows further apart than 1.5 usual steps are no neighbours."""
    order = np.argsort(time, kind="stable")
    gaps = np.diff(time[order])
    near = gaps <= 1.5 * np.median(gaps)
    ordered = column[order] - column.mean()
    if near.sum() < 2 or not ordered.any():
        return 0.0
    return float(np.mean((ordered[:-1] * ordered[1:])[near]) / np.mean(ordered**2))

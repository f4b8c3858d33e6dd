"""Partial correlation and Fisher's z: what linear regressions leave of two columns."""

import math
from typing import NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import near_one

ROUNDING = 1e-15  # a range below this share of the numbers is some of their last digits
# Shares of variance below this are rounding: the correlations themselves carry about 1e-15 per row.
NOTHING_LEFT = 1e-10
LEAST_FREEDOM = 3  # rows beyond the rank of what is given that Fisher's z needs


class PartialCorrelation(NamedTuple):
    """The correlation of the residuals of linear regressions, and its two-sided p-value by Fisher's z."""

    correlation: float
    pvalue: float


def correlations(values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p p"]:
    """The correlations of columns; 0 for constant ones, with themselves too."""
    constant = np.ptp(values, axis=0) <= ROUNDING * np.abs(values).max(axis=0)
    centred = near_one(values)
    centred -= centred.mean(axis=0)
    unit = np.where(constant, 0.0, centred / np.where(constant, 1.0, np.sqrt((centred**2).sum(axis=0))))
    return np.asarray(unit.T @ unit)


def left_over(
    correlation: Float[np.ndarray, "p p"], ends: list[int], given: list[int]
) -> tuple[Float[np.ndarray, "2 2"], int]:
    """The covariance of what linear regressions on the given columns leave of two others, and their rank."""
    left = correlation[np.ix_(ends, ends)]
    if not given:
        return left, 0
    values, vectors = np.linalg.eigh(correlation[np.ix_(given, given)])
    kept = values > NOTHING_LEFT * max(float(values[-1]), NOTHING_LEFT)  # redundant columns add nothing
    part = (vectors[:, kept].T @ correlation[np.ix_(given, ends)]) / np.sqrt(values[kept])[:, None]
    return left - part.T @ part, int(kept.sum())


def fisher_z(left: Float[np.ndarray, "2 2"], freedom: int) -> PartialCorrelation:
    """p = 2 Φ(-√freedom |artanh r|)."""
    r = float(left[0, 1] / np.sqrt(left[0, 0] * left[1, 1]))
    p = 0.0 if abs(r) >= 1.0 else math.erfc(math.sqrt(freedom / 2.0) * abs(math.atanh(r)))
    return PartialCorrelation(min(max(r, -1.0), 1.0), p)


def partial_correlation(
    x: Float[np.ndarray, "n k"], y: Float[np.ndarray, "n l"], given: Float[np.ndarray, "n d"]
) -> PartialCorrelation | None:
    """The partial correlation of two single columns given others; None where there is none.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(50, 1))
    >>> x = z + rng.normal(size=(50, 1))
    >>> result = partial_correlation(x, x + 0.5 * rng.normal(size=(50, 1)), z)
    >>> round(result.correlation, 2), result.pvalue < 1e-6
    (0.91, True)
    """
    if x.shape[1] != 1 or y.shape[1] != 1:
        return None
    table = np.hstack([x, y, given])
    left, rank = left_over(correlations(table), [0, 1], list(range(2, table.shape[1])))
    freedom = len(table) - rank - LEAST_FREEDOM
    return None if freedom < 1 or np.diagonal(left).min() < NOTHING_LEFT else fisher_z(left, freedom)

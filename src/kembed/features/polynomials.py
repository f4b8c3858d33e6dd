"""Features of one column: polynomials of its ranks, indicators of its levels, orthonormal over the rows.

`RankScale` and `LevelScale` say them of rows that were not there when they were fitted.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.lookup import Lookup, make_lookup

Column = Float[np.ndarray, " N"]
DEGREE = 8  # of the polynomials, and features of levels
NOTHING = 1e-6  # a feature that keeps less than this of its length beside the ones before it is none


def rank_polynomials(column: Column, degree: int = DEGREE) -> Float[np.ndarray, "N degree"]:
    """Legendre polynomials of the ranks, made orthonormal: mean 0, variance 1, uncorrelated.

    Equal values have their middle rank. Two values give one polynomial, three give two; the rest is 0.

    >>> rank_polynomials(np.array([5.0, 1.0, 9.0]), 2)[:, 1].round(3).tolist()
    [-1.414, 0.707, 0.707]
    """
    _, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    highest = min(degree, len(counts) - 1)
    found = np.zeros((len(counts), degree))
    if highest:
        weights, Q, _ = _orthonormal(counts, highest)
        found[:, :highest] = (Q / weights)[:, 1:]
    return found[where]


def _orthonormal(counts: Int[np.ndarray, " L"], highest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Roots of the shares of the values, and Q R of the polynomials of their ranks times those."""
    weights = np.sqrt(counts / counts.sum())[:, None]
    Q, R = np.linalg.qr(weights * np.polynomial.legendre.legvander(2.0 * _middles(counts) - 1.0, highest))
    signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
    return weights, Q * signs, R * signs[:, None]


def _middles(counts: Int[np.ndarray, " L"]) -> Float[np.ndarray, " L"]:
    """The middle rank of every value, as a share of all."""
    return (np.cumsum(counts) - 0.5 * counts) / counts.sum()


@dataclass(frozen=True, eq=False)
class RankScale:
    """The polynomials of `rank_polynomials` for any value: its rank is read off the values it was fitted on.

    >>> scale = fit_ranks(np.array([5.0, 1.0, 9.0]), 2)
    >>> scale(np.array([5.0, 7.0, 20.0])).round(3)[:, 0].tolist()
    [0.0, 0.612, 1.225]
    """

    values: Column  # distinct and sorted
    middle: Column  # their middle ranks
    coefficients: Float[np.ndarray, "highest+1 degree"]
    ends: tuple[float, float]  # ranks of what lies below and above all values

    @cached_property
    def _found(self) -> tuple[Lookup | None, Column]:
        """How to find a value among those fitted, and the slope from each to the next (of the last, 0)."""
        lookup = make_lookup(self.values)
        with np.errstate(over="ignore"):
            slopes = np.append(np.diff(self.middle) / np.diff(self.values), 0.0)
        return (lookup if len(lookup.first) and np.isfinite(slopes).all() else None), slopes

    def middles(self, column: Column) -> Column:
        """Ranks of these values as shares of the fitted rows, in proportion between two that were fitted."""
        lookup, slopes = self._found
        if lookup is None:  # few values, or such as no grid can hold
            return np.interp(column, self.values, self.middle, left=self.ends[0], right=self.ends[1])
        inside = np.maximum(column, self.values[0])
        np.minimum(inside, self.values[-1], out=inside)
        place = lookup(inside)
        place -= 1
        inside -= self.values[place]
        inside *= slopes[place]
        inside += self.middle[place]
        return inside

    def __call__(self, column: Column) -> Float[np.ndarray, "b degree"]:
        """Polynomials of the ranks of these values."""
        return polynomials_of((self,), self.middles(column)[None])


def polynomials_of(
    scales: tuple[RankScale, ...], middles: Float[np.ndarray, "D b"]
) -> Float[np.ndarray, "b P"]:
    """The polynomials of several scales, one after the other, for ranks that stand in rows."""
    highest = max(len(scale.coefficients) for scale in scales) - 1
    legendre = np.empty((highest + 1, *middles.shape))
    legendre[0] = 1.0
    np.multiply(2.0, middles, out=legendre[1])
    legendre[1] -= 1.0
    for k in range(1, highest):  # (k+1) P_{k+1} = (2k+1) u P_k - k P_{k-1}
        np.multiply(legendre[1], legendre[k], out=legendre[k + 1])
        legendre[k + 1] *= (2 * k + 1) / (k + 1)
        legendre[k + 1] -= (k / (k + 1)) * legendre[k - 1]
    width = sum(scale.coefficients.shape[1] for scale in scales)
    found = np.empty((width, middles.shape[1]))
    start = 0
    for d, scale in enumerate(scales):
        terms, degree = scale.coefficients.shape
        np.dot(scale.coefficients.T, legendre[:terms, d], out=found[start : start + degree])
        start += degree
    return found.T


def fit_ranks(column: Column, degree: int = DEGREE) -> RankScale:
    """`rank_polynomials` of a column, to be said of other rows."""
    values, counts = np.unique(column, return_counts=True)
    highest = min(degree, len(values) - 1)
    coefficients = np.zeros((max(highest, 1) + 1, degree))
    if not highest:  # a column that never varied there may vary elsewhere: a rare flag
        coefficients[1, 0] = 1.0
        return RankScale(values, np.array([0.5]), coefficients, (0.0, 1.0))
    coefficients[:, :highest] = np.linalg.inv(_orthonormal(counts, highest)[2])[:, 1:]
    middle = _middles(counts)
    return RankScale(values, middle, coefficients, (middle[0], middle[-1]))


@dataclass(frozen=True, eq=False)
class LevelScale:
    """The features of `indicators` for any code, those of unseen levels included."""

    table: Float[np.ndarray, "L+1 degree"]  # of every code; the last row is that of unseen levels

    def __call__(self, codes: Column) -> Float[np.ndarray, "b degree"]:
        """The features of these codes."""
        last = len(self.table) - 1
        return self.table[np.where((codes >= 0) & (codes < last), codes, last).astype(int)]


def fit_levels(codes: Column, degree: int = DEGREE) -> LevelScale:
    """`indicators` of a column of codes as a feature map for other rows.

    All levels that the fit did not have share one feature: the first that `indicators` leaves free, else the
    last, which is that of rare levels. Its value is one over the root of the Good-Turing estimate of their
    total share (levels that occur once over rows, at least 1/N), as that of a level is by its share.

    >>> fit_levels(np.array([2.0, 0.0, 2.0, 2.0]), 2)(np.array([2.0, 0.0, 5.0])).round(3).tolist()
    [[0.577, 0.0], [-1.732, 0.0], [0.0, 2.0]]
    """
    values, first, counts = np.unique(codes, return_index=True, return_counts=True)
    unseen = np.zeros(degree)
    unseen[min(len(values), degree) - 1] = np.sqrt(len(codes) / max(1, int((counts == 1).sum())))
    table = np.tile(unseen, (int(values[-1]) + 2, 1))
    table[values.astype(int)] = indicators(codes, degree)[first]
    return LevelScale(table)


def indicators(codes: Column, degree: int = DEGREE) -> Float[np.ndarray, "N degree"]:
    """Indicators of the levels, the most frequent first, made orthonormal.

    Of more than `degree` levels the last feature is the reciprocal of a level's share, so that rare levels
    differ from the other levels without an indicator.

    >>> indicators(np.array([2.0, 7.0, 2.0, 2.0]), 2).round(3).tolist()
    [[0.577, 0.0], [-1.732, 0.0], [0.577, 0.0], [0.577, 0.0]]
    """
    values, where, counts = np.unique(codes, return_inverse=True, return_counts=True)
    few = min(degree, len(values)) - 1
    named = np.argsort(-counts, kind="stable")[:few]
    share = (counts / len(codes))[:, None]
    table = np.column_stack([np.ones(len(values)), np.eye(len(values))[:, named], share.min() / share])
    Q, R = np.linalg.qr(np.sqrt(share) * table[:, : min(degree, len(values) - 1) + 1])
    length = np.diagonal(R)[1:]
    # Shares that are all alike are a constant, and what rounding leaves of it is no feature.
    signs = np.where(np.abs(length) > NOTHING * np.sqrt(share.min()), np.sign(length), 0.0)
    found = np.zeros((len(values), degree))
    found[:, : len(signs)] = Q[:, 1:] * signs / np.sqrt(share)
    return found[where]

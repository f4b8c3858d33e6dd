"""Features of one column: polynomials of its ranks, indicators of its levels, orthonormal over the rows."""

from functools import lru_cache

import numpy as np

from kembed.core.backend import Float, Int

Column = Float[np.ndarray, " N"]
DEGREE = 8  # of the polynomials, and how many levels are told apart
NOTHING = 1e-6  # a feature that keeps less than this of its length beside the ones before it is none


def rank_polynomials(column: Column, degree: int = DEGREE) -> Float[np.ndarray, "N degree"]:
    """Legendre polynomials of the ranks, made orthonormal: mean 0, variance 1, uncorrelated.

    Equal values have their middle rank. Two values give one polynomial, three give two; the rest is 0.

    >>> rank_polynomials(np.array([5.0, 1.0, 9.0]), 2)[:, 1].round(3).tolist()
    [-1.414, 0.707, 0.707]
    """
    values, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    distinct = len(values) == len(column)
    return (_of_distinct(len(column), degree) if distinct else _of_counts(counts, degree))[where]


@lru_cache(8)
def _of_distinct(N: int, degree: int) -> Float[np.ndarray, "N degree"]:
    """Those of N different values in order, which are the same for every column."""
    return _of_counts(np.ones(N, dtype=int), degree)


def _of_counts(counts: Int[np.ndarray, " L"], degree: int) -> Float[np.ndarray, "L degree"]:
    """Those of L values in order, of which each is taken so often."""
    N, highest = counts.sum(), min(degree, len(counts) - 1)
    found = np.zeros((len(counts), degree))
    if highest:
        middle = (np.cumsum(counts) - 0.5 * counts) / N
        weights = np.sqrt(counts / N)[:, None]
        vander = np.polynomial.legendre.legvander(2.0 * middle - 1.0, highest)
        Q, R = np.linalg.qr(weights * vander)
        signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
        found[:, :highest] = (Q * signs / weights)[:, 1:]
    return found


def indicators(codes: Column, degree: int = DEGREE) -> Float[np.ndarray, "N degree"]:
    """Indicators of the levels, the most frequent first, made orthonormal; the rarest ones are one level.

    >>> indicators(np.array([2.0, 7.0, 2.0, 2.0]), 2).round(3).tolist()
    [[0.577, 0.0], [-1.732, 0.0], [0.577, 0.0], [0.577, 0.0]]
    """
    values, where, counts = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    weights = np.sqrt(counts / len(codes))[:, None]
    table = np.column_stack([np.ones(len(values)), np.eye(len(values))[:, order[:degree]]])
    Q, R = np.linalg.qr(weights * table)
    length = np.diagonal(R)
    kept = np.flatnonzero(np.abs(length[1:]) > NOTHING * weights.min()) + 1
    found = np.zeros((len(values), degree))
    found[:, : len(kept)] = Q[:, kept] * np.sign(length[kept]) / weights
    return found[where]

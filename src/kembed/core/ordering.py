"""The order of rows: whatever must not depend on how rows came in is computed from sorted ones."""

from collections.abc import Sequence

import numpy as np

from kembed.core.backend import Bool, Float, Int

# Coordinates that agree to this many digits are tied when rows of a frame are sorted: rounding in the frame
# leaves 1e-12, and neighbouring rows of double precision data differ by more.
TIE_DIGITS = 9


def row_order(x: Float[np.ndarray, "n D"]) -> Int[np.ndarray, " n"]:
    """Where the rows stand in lexicographic order, the first column first; stable among equal rows."""
    if len(x) and x.shape[1]:
        order = np.argsort(x[:, 0])
        first = x[order, 0]
        if (first[1:] > first[:-1]).all():  # all different, and no nan: the other columns decide nothing
            return order
    return np.lexsort(x.T[::-1])


def sorted_rows(x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
    """The rows in lexicographic order: the same for any order they came in.

    >>> sorted_rows(np.array([[2.0, 0.0], [1.0, 5.0], [1.0, 3.0]])).tolist()
    [[1.0, 3.0], [1.0, 5.0], [2.0, 0.0]]
    """
    return x[row_order(x)]


def sorted_to_rounding(y: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n E"]:
    """The rows in an order that rounding does not disturb."""
    return y[row_order(np.round(y, TIE_DIGITS))]


def distinct_rows(x: Float[np.ndarray, "n D"]) -> Bool[np.ndarray, " n"]:
    """Which rows of a sorted table differ from the one before."""
    return np.concatenate([[True], (x[1:] != x[:-1]).any(axis=1)])


def comes_before(a: Float[np.ndarray, "n D"], b: Float[np.ndarray, "m D"]) -> bool:
    """A strict order of sorted samples: by size, then by the first entry in which they differ."""
    if len(a) != len(b):
        return len(a) < len(b)
    different = np.flatnonzero((a != b).ravel())
    return bool(len(different)) and bool(a.ravel()[different[0]] < b.ravel()[different[0]])


def turns(samples: Sequence[Float[np.ndarray, "n D"]]) -> tuple[int, int]:
    """The places of two sorted samples in an order that swapping them does not change.

    What is drawn for one and then for the other is drawn in this order.

    >>> a, b = np.array([[1.0], [2.0]]), np.array([[0.0], [5.0]])
    >>> turns((a, b)), turns((b, a))
    ((0, 1), (1, 0))
    """
    return (1, 0) if comes_before(samples[0], samples[1]) else (0, 1)


def middle_ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks from 1, equal values sharing the middle of theirs.

    >>> middle_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[where]

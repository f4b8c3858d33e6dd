"""Choosing the landmarks z: always a function of the unordered sample.

Rows are sorted before anything is drawn, so that the choice cannot depend on which rows came first. A
permutation test needs exactly this: landmarks picked by row index would know the labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed import _validation

if TYPE_CHECKING:
    from jaxtyping import Float

DEFAULT_COUNT = 100


def distinct_sorted_rows(x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "k D"]:
    """The distinct rows in lexicographic order."""
    return np.unique(x, axis=0)


def choose_landmarks(x: Any, landmarks: Any = None, *, rng: Any = 0) -> Float[np.ndarray, "m D"]:
    """Landmarks from the data: all distinct rows if few, else a seeded random subset of them.

    `landmarks` is None (at most 100), a number of them, or the points themselves. The default seed makes
    the choice a pure function of the set of rows.

    >>> from kembed import choose_landmarks
    >>> choose_landmarks([3.0, 1.0, 2.0, 1.0]).ravel()
    array([1., 2., 3.])
    """
    x = np.asarray(_validation.points(x, "x"))
    if isinstance(landmarks, float):
        raise TypeError(f"landmarks must be a whole number or points, but {landmarks!r} was given")
    if landmarks is not None and not isinstance(landmarks, int | np.integer):
        return np.asarray(_validation.points(landmarks, "landmarks", dimension=x.shape[1]))
    count = DEFAULT_COUNT if landmarks is None else _validation.count(landmarks, "landmarks")
    distinct = distinct_sorted_rows(x)
    if len(distinct) <= count:
        return distinct
    chosen = _validation.generator(rng).choice(len(distinct), count, replace=False)
    return distinct[np.sort(chosen)]

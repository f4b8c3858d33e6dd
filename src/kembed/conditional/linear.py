"""A second opinion on a conditional test: the partial correlation of two columns, with Fisher's z.

Of few rows, regressions that bend spend many degrees of freedom and may leave nothing of a dependence that a
straight line shows; a straight line in turn sees a dependence where both columns bend along what is given.
Where the two disagree, the reader should know both.
"""

from math import erfc
from typing import NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import near_one

LEAST_FREEDOM = 3  # rows beyond what is given that Fisher's z needs


class PartialCorrelation(NamedTuple):
    """The correlation of what straight lines leave, and its two-sided p-value by Fisher's z."""

    correlation: float
    pvalue: float


def partial_correlation(
    x: Float[np.ndarray, "n k"], y: Float[np.ndarray, "n l"], given: Float[np.ndarray, "n d"]
) -> PartialCorrelation | None:
    """The partial correlation of two single columns given others; None where there is none.

    r of the residuals of least squares; z = artanh(r) √(n - d - 3) is about standard normal.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(50, 1))
    >>> x = z + rng.normal(size=(50, 1))
    >>> found = partial_correlation(x, x + 0.5 * rng.normal(size=(50, 1)), z)
    >>> round(found.correlation, 2), found.pvalue < 1e-6
    (0.91, True)
    """
    n = len(given)
    if x.shape[1] != 1 or y.shape[1] != 1:
        return None
    design = np.column_stack([np.ones(n), near_one(given)])
    rank = int(np.linalg.matrix_rank(design))
    freedom = n - (rank - 1) - LEAST_FREEDOM
    both = near_one(np.column_stack([x, y]))
    left = both - design @ np.linalg.lstsq(design, both, rcond=None)[0]
    sizes = np.sqrt(np.square(left).sum(axis=0))
    if freedom < 1 or (sizes <= 1e-9 * np.sqrt(np.square(both).sum(axis=0))).any():
        return None
    r = float(np.clip(left[:, 0] @ left[:, 1] / sizes.prod(), -1.0 + 1e-12, 1.0 - 1e-12))
    return PartialCorrelation(r, erfc(abs(np.arctanh(r)) * (0.5 * freedom) ** 0.5))

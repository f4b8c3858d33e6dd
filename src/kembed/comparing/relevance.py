"""Which columns the difference is in: what the witness needs, and the scale of the rows in each column."""

from dataclasses import dataclass

import numpy as np

from kembed.comparing.difference import Difference, Samples, half_of_each, thinned
from kembed.core.backend import Float
from kembed.learning.kernel_words import learned_scales
from kembed.permutation.pool import Pool

# Every column learns its lengthscale up to this many: beyond, learning takes minutes.
ARD_COLUMNS = 16
# The sensitivity is a mean over at most so many rows; fewer in wide tables, with as many changes each.
SENSITIVITY_ROWS, SENSITIVITY_ENTRIES = 1_000, 30_000
# A column with fewer values than this has no lengthscale worth the name.
FEW_VALUES = 10


@dataclass(frozen=True)
class ColumnRelevance:
    """What one column has to do with the difference."""

    name: str
    sensitivity: float  # share of the witness's variance that needs this column
    lengthscale: float | None  # ARD, of the pooled rows, in spreads of the column; see `lengthscales`
    pvalue: float  # of the test of this column alone
    adjusted_pvalue: float  # corrected for the number of columns


def sensitivity(difference: Difference, samples: Samples, seed: int) -> Float[np.ndarray, " D"]:
    """E{(w(s) - w(s'))²} / 2 Var w of every column; see `Witness.sensitivity`."""
    D = samples[0].shape[1]
    count = int(np.clip(SENSITIVITY_ENTRIES // D, 100, SENSITIVITY_ROWS))
    half = half_of_each(samples, count, seed)
    rows, share = half.points, half.weights
    w = difference.mean(rows)
    other = np.random.default_rng(seed).choice(len(rows), len(rows), p=share)
    scale = 2.0 * float(share @ (w - share @ w) ** 2)
    found = np.zeros(D)
    for d in range(D) if scale > 0.0 else ():
        changed = rows.copy()
        changed[:, d] = rows[other, d]
        found[d] = share @ (difference.mean(changed) - w) ** 2 / scale
    return np.minimum(found, 1.0)  # of few rows the estimate may exceed it


def lengthscales(pool: Pool, seed: int) -> dict[str, float]:
    """ARD lengthscales of the numeric columns; see `Witness.lengthscales`."""
    numeric = np.flatnonzero(~pool.space.categorical)
    if not 0 < len(numeric) <= ARD_COLUMNS:
        return {}
    space = thinned(pool.space, seed)
    if any(len(np.unique(column)) < FEW_VALUES for column in space.values[:, numeric].T):
        return {}
    try:
        found, _ = learned_scales(space)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError):
        return {}
    return {pool.names[d]: float(ell) for d, ell in zip(numeric, found, strict=True)}

"""Several statistics, one permutation test.

Each kernel's statistic is put on one scale: its distance from its mean over *all* labelings, the data's among
them, in standard deviations over the same labelings. A log-sum-exp, close to the largest, combines them, and
the combination is what is compared between the data and the resamples. Every step treats the data and the
resamples alike, so the test stays exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

# How sharply the log-sum-exp prefers the largest; chosen on the development suite of `benchmarks/power.py`.
SHARPNESS = 1.5
# A mean of kernel entries is exact to about this share of a usual entry.
ROUNDING = 1e-14


class Values(NamedTuple):
    """Statistics of J kernels for the data (first row) and every resample, and the size of a kernel entry."""

    statistics: Float[np.ndarray, "C J"]
    entry: Float[np.ndarray, " J"]  # root mean square of what was summed

    def ranked(self) -> Float[np.ndarray, "C J"]:
        """The statistics with those that only rounding tells apart made equal."""
        out = self.statistics.copy()
        for j, size in enumerate(self.entry):
            order = np.argsort(out[:, j], kind="stable")
            ordered = out[order, j]
            starts = np.concatenate([[True], np.diff(ordered) > ROUNDING * size])
            out[order, j] = ordered[starts][np.cumsum(starts) - 1]
        return out


def standardised(values: Float[np.ndarray, "C J"]) -> Float[np.ndarray, "C J"]:
    """Every column less its mean, over its standard deviation; 0 where it is constant."""
    spread = values.std(axis=0)
    steady = spread > 1e-12 * np.abs(values).max(axis=0, initial=0.0)
    return np.where(steady, (values - values.mean(axis=0)) / np.where(steady, spread, 1.0), 0.0)


def fuse(values: Float[np.ndarray, "C J"], shares: Float[np.ndarray, " J"]) -> Float[np.ndarray, " C"]:
    """(1/t) log Σ_j w_j exp(t z_j) for every labeling."""
    z = standardised(values)
    top = z.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(SHARPNESS * (z - top)) @ shares) / SHARPNESS

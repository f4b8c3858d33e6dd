"""Many statistics as one: each is put on the scale of its own null distribution, and these are combined.

Statistics of different kernels differ in size, variance and skewness. On the scale of -log p they do not: p
is the upper tail of a gamma law with the mean, variance and skewness that the statistic has over the draws,
the data's among them. Kernels of one family, families of one group, and groups are each combined by the
logarithm of the mean of 1/p (a harmonic mean of p-values) and put on the scale of -log p again. Some groups
are also added up (Fisher's combination), which sees what many of them notice a little. Every step treats the
data and the resamples alike, so the test stays exact whatever the gamma law is worth.
"""

from typing import NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.features.ensemble import Plan

Table = Float[np.ndarray, "C J"]
Rows = Float[np.ndarray, "J C"]
# A mean of kernel entries is exact to about this share of a usual entry.
ROUNDING = 1e-14
# A statistic that varies by less than this share of a usual entry does so by rounding.
STEADY = 1e-13
FAINT = 1e-3  # a skewness below this is none
STEEP = 8.0**0.5  # that of a squared normal number: no sum of them has more, so more is an outlier's doing
FAR = 37.0  # standard deviations: beyond, a normal tail is soon no number
LOWEST = 1e-3  # what the cube root is taken of; below, a p-value is 1 and its digits do not matter
# The share of the sum of groups beside the groups themselves: of .2 to .5 the best on SUITE and HELD_OUT.
TOGETHER = 1.0 / 3.0


class Values(NamedTuple):
    """Statistics of J kernels for the data (first row) and every resample, and the size of a kernel entry."""

    statistics: Table
    entry: Float[np.ndarray, " J"]  # root mean square of what was summed

    def merged(self, well_scaled: bool) -> "Values":
        """The same with statistics made equal that only rounding tells apart.

        Those of well scaled features, whose spread is far above rounding, need not be looked at. What is no
        number is refused: sorted last, it would pass for the largest statistic of all.
        """
        refuse_non_finite(self.statistics)
        refuse_non_finite(self.entry)  # of which a share counts as rounding
        if well_scaled:
            return self
        out = self.statistics.copy()
        for j, size in enumerate(self.entry):
            order = np.argsort(out[:, j], kind="stable")
            ordered = out[order, j]
            starts = np.concatenate([[True], np.diff(ordered) > ROUNDING * size])
            out[order, j] = ordered[starts][np.cumsum(starts) - 1]
        return Values(out, self.entry)


def refuse_non_finite(statistics: Float[np.ndarray, "..."]) -> None:
    """Refuse statistics that are infinite or no numbers."""
    if not np.isfinite(statistics).all():
        seen = "the statistic is not finite: rows or lengthscales are too large or too small for floats"
        raise ValueError(f"{seen}; divide the columns by a constant, or change the lengthscale")


class Fused(NamedTuple):
    """-log p for the data (first row) and every resample: of kernels, members, groups, and all as one.

    `statistic` is what a test reports: that of the only kernel, the mean of averaged ones, or the whole.
    """

    kernels: Table
    members: Table
    groups: Table
    whole: Float[np.ndarray, " C"]
    statistic: Float[np.ndarray, " C"]


def negative_log_p(
    values: Table,
    entry: Float[np.ndarray, " J"] | float = 0.0,
    *,
    by_others: Bool[np.ndarray, " J"] | bool = False,
) -> Table:
    """-log p of every value, p by the gamma law fitted to its column (Wilson & Hilferty 1931).

    A value in its own law is as large as the law allows and no larger: of B + 1 values none is more than √B
    standard deviations out. `by_others` (of all columns, or some) fits the law to the others, so that one of
    thousands can be own_parts. 0 in columns that do not vary.
    """
    z = values.T - values.T.mean(axis=1, keepdims=True)  # the values of a kernel one after the other
    others = np.broadcast_to(by_others, len(z))
    spread = np.sqrt(np.einsum("jc,jc->j", z, z) / z.shape[1])
    largest = np.abs(values).max(axis=0, initial=0.0)
    steady = spread <= np.maximum(STEADY * np.broadcast_to(entry, len(z)), 1e-12 * largest)
    z /= np.where(steady, 1.0, spread)[:, None]
    third = (np.einsum("jc,jc,jc->j", z, z, z) / z.shape[1])[:, None]
    found = np.empty(z.shape)
    found[~others] = _gamma_tail(z[~others], third[~others])
    if others.any():
        found[others] = _gamma_tail(*_moments_of_others(z[others], third[others]))
    found[steady] = 0.0
    return found.T


def _moments_of_others(z: Rows, third: Float[np.ndarray, "J 1"]) -> tuple[Rows, Rows]:
    """How far every value lies out among the others of its kernel, in their spreads, and their skewness.

    Of the others, s one's share among them, the moments about the mean of all are -s z, 1 + s - s z² and
    (1 + s) g - s z³.
    """
    s = 1.0 / (z.shape[1] - 1.0)
    square = z * z
    variance = np.maximum((1.0 + s) - (s + s * s) * square, ROUNDING)
    # the third moment about their own mean: the terms in z, in z³, and what is the same for all
    cubed = z * (3.0 * s * (1.0 + s) - s * (1.0 + s) * (1.0 + 2.0 * s) * square) + (1.0 + s) * third
    spread = np.sqrt(variance)
    return (1.0 + s) * z / spread, cubed / (variance * spread)


def _gamma_tail(z: Rows, skewness: Float[np.ndarray, "J *C"]) -> Rows:
    """-log p of a standardised value by the gamma law of this skewness; of one below 0, turned round."""
    from scipy.special import log_ndtr

    skewness = np.clip(np.where(np.abs(skewness) < FAINT, FAINT, skewness), -STEEP, STEEP)
    root = np.cbrt(np.maximum(1.0 + 0.5 * skewness * z, LOWEST))
    root += np.square(skewness) / 36.0 - 1.0  # 1/(9k) with k = 4/g²
    return -log_ndtr(np.clip(-6.0 / skewness * root, -FAR, FAR))  # ±√(9k)


def log_mean_exp(evidence: Table, weights: Float[np.ndarray, " J"] | None = None) -> Float[np.ndarray, " C"]:
    """The logarithm of the (weighted) mean of 1/p."""
    if weights is None:
        weights = np.full(evidence.shape[1], 1.0 / evidence.shape[1])
    top = evidence.max(axis=1)
    return top + np.log(np.exp(evidence - top[:, None]) @ weights)


def combined(evidence: Table, where: Int[np.ndarray, " J"]) -> Table:
    """-log p of the columns with the same number in `where` combined, in order of the numbers.

    Those with -1 are left out.
    """
    order = np.argsort(where, kind="stable")[np.sum(where < 0) :]
    starts = np.flatnonzero(np.diff(where[order], prepend=-1))
    counts = np.diff(np.append(starts, len(order)))
    found = evidence[:, order[starts]]
    several = counts > 1
    if several.any():
        mean = np.add.reduceat(np.exp(evidence[:, order]), starts, axis=1)[:, several] / counts[several]
        found[:, several] = negative_log_p(np.log(mean))
    return found


def fuse(values: Values, plan: Plan) -> Fused:
    """All kernels as one statistic, for the data and every resample."""
    crowded = np.bincount(plan.family)[plan.family] > 1
    kernels = negative_log_p(values.statistics, values.entry, by_others=crowded)
    members = combined(kernels, plan.family)
    groups = combined(members, plan.group)
    parts, weights = groups, plan.counts / plan.counts.sum()
    if plan.added.sum() > 1:
        summed = negative_log_p(groups[:, plan.added].sum(axis=1, keepdims=True))
        parts = np.hstack([groups, summed])
        weights = np.append((1.0 - TOGETHER) * weights, TOGETHER)
    whole = log_mean_exp(parts, weights)
    if plan.averaged:
        mean = log_mean_exp(values.statistics)
        return Fused(kernels, members, groups, negative_log_p(mean[:, None])[:, 0], mean)
    single = len(plan.family) == 1
    return Fused(kernels, members, groups, whole, values.statistics[:, 0] if single else whole)

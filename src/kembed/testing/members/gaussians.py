"""Gaussians: shifts and shapes, each at its own scale."""

from functools import partial

import numpy as np

from kembed.kernels.discrete import space_kernel
from kembed.permutation.gram import space_pairs
from kembed.permutation.low_rank import LazyLowRank, Member, random_features
from kembed.testing.members.rows import Rows
from kembed.testing.procedure import Choice

# (ratio to the median distance, share); wide ones see shifts of the mean, fine ones local structure.
AROUND_MEDIAN = ((2.83, 9.0), (0.5, 2.0), (0.125, 3.0), (0.031, 0.5))
AT_PEAK = 1.0  # share of the Gaussian at every mode of the evidence

# Independence: a wide and a fine one (ratios to the median distance), and the evidence's best.
SIDE_RATIOS = (4.0, 0.125)
MEET = np.array([[8.0, 2.0, 2.0], [2.0, 1.0, 0.0], [2.0, 0.0, 1.0]])


def two_sample(rows: Rows) -> Choice:
    """At ratios of the median distance, and at the modes of the evidence."""
    scales = [(ratio * rows.median, share) for ratio, share in AROUND_MEDIAN]
    return _members(rows, *zip(*scales, *((peak, AT_PEAK) for peak in rows.peaks), strict=True))


def side(rows: Rows) -> Choice:
    """A wide and a fine Gaussian, and one at the evidence's scale."""
    lengthscales = (*(ratio * rows.median for ratio in SIDE_RATIOS), rows.peaks[0])
    return _members(rows, lengthscales, tuple(MEET.sum(axis=1)))


def _members(rows: Rows, lengthscales: tuple[float, ...], shares: tuple[float, ...]) -> Choice:
    space, x = rows.space, rows.space.values
    kernels = tuple(space_kernel(space, ell) for ell in lengthscales)
    members: tuple[Member, ...]
    if rows.features is None:
        members = (space_pairs(space, np.array(lengthscales)),)
    else:
        seeds = rows.rng.integers(2**63, size=len(kernels))
        each = zip(kernels, seeds, strict=True)
        drawn = [partial(random_features, kernel, x, rows.features, seed) for kernel, seed in each]
        members = tuple(LazyLowRank(len(x), compute) for compute in drawn)
    return Choice(members, kernels, np.array(shares))

"""Shifts: a wide Gaussian, and the mean rank of every column."""

import numpy as np

from kembed.features.columns import column_pairs, side
from kembed.features.embeddings import gaussian
from kembed.features.members import Group, KernelPair, PairGroup, of_columns
from kembed.features.rows import Sample

WIDE = 4.0  # of the median distance: the kernel is nearly a quadratic, and MMD² the difference of the means


def fit(sample: Sample) -> Group:
    """The Gaussian is one member, the ranks of all columns another."""
    wide, kernel = gaussian(sample, WIDE * sample.median)
    first = side(1, (1,))
    kernels = (kernel, *(of_columns("mean rank", name) for name in sample.names))
    return Group("means", (wide, first), kernels, np.array([0] + [1] * len(sample.names)), whole=True)


def fit_pairs(left: Sample, right: Sample) -> PairGroup:
    """Wide Gaussians, and the correlation of ranks of every column with every one of the other side."""
    sides = (gaussian(sample, WIDE * sample.median) for sample in (left, right))
    members, kernels = zip(*sides, strict=True)
    found = column_pairs(left, right, 1, ((0, 0),))
    if found is None:
        return PairGroup("means", (KernelPair(*members),), (kernels,), np.zeros(1, dtype=int), whole=True)
    pair, names, families = found
    pairs = (KernelPair(*members), pair)
    return PairGroup("means", pairs, (kernels, *names), np.append(0, families + 1), True)

"""Principal axes: changes along directions that no single column has."""

import numpy as np

from kembed.core.backend import Float
from kembed.features.members import FeatureMember, Group, KernelPair, Named, PairGroup
from kembed.features.rows import Rows, Sample

CUTS = (1, 2, 4)
# Independence: which of these meet, and of how many axes a side.
PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2))
LONGEST = 10


def fit(sample: Sample) -> Group | None:
    """A member for each degree, the maximum over the axes; nothing where there is one column."""
    if len(sample.names) < 2:
        return None
    member, count = FeatureMember(along_axes, CUTS[-1], CUTS), sample.axes.shape[1]
    kernels = tuple(
        Named(f"principal axis {axis + 1}, degree {cut}") for axis in range(count) for cut in CUTS
    )
    return Group("axes", (member,), kernels, np.tile(np.arange(len(CUTS)), count))


def along_axes(rows: Rows) -> Float[np.ndarray, "b P"]:
    """Polynomials of the ranks along every axis."""
    return rows.along_axes


def fit_pairs(left: Sample, right: Sample) -> PairGroup | None:
    """The longest axes of one side with those of the other; nothing where both are one column."""
    if len(left.names) == len(right.names) == 1:
        return None
    counts = [min(LONGEST, sample.axes.shape[1]) for sample in (left, right)]
    first, second = (
        FeatureMember(along_axes, CUTS[-1], CUTS, np.eye(sample.axes.shape[1] * CUTS[-1], CUTS[-1] * count))
        for sample, count in zip((left, right), counts, strict=True)
    )
    both = [(a, b) for a in range(counts[0]) for b in range(counts[1])]
    kernels = tuple(
        Named("dependence", (f"axis {a + 1} (degree {CUTS[j]})", f"axis {b + 1} (degree {CUTS[k]})"))
        for a, b in both
        for j, k in PAIRS
    )
    families = np.tile(np.arange(len(PAIRS)), len(both))
    return PairGroup("axes", (KernelPair(first, second, PAIRS),), kernels, families)

"""Principal axes: changes along directions that no single column has."""

import numpy as np

from kembed.permutation.blocks import Blocks
from kembed.testing.members.group import Group, Meeting, Named, Relation
from kembed.testing.members.polynomials import rank_polynomials
from kembed.testing.members.rows import Rows

CUTS = (1, 2, 4)
# Independence: which of these meet, and of how many axes a side.
MEETINGS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2))
LONGEST = 10


def two_sample(rows: Rows) -> Group | None:
    """A member for each degree, which is the loudest of the axes; nothing where there is one column."""
    if len(rows.names) < 2:
        return None
    columns = np.hstack([rank_polynomials(axis, CUTS[-1]) for axis in rows.axes.T])
    count = rows.axes.shape[1]
    kernels = tuple(
        Named(f"principal axis {axis + 1}, degree {cut}") for axis in range(count) for cut in CUTS
    )
    members = (Blocks(columns, CUTS[-1], CUTS, centred=True),)
    return Group("axes", members, kernels, np.tile(np.arange(len(CUTS)), count))


def independence(left: Rows, right: Rows) -> Relation | None:
    """The longest axes of one side with those of the other; nothing where both are one column."""
    if len(left.names) == len(right.names) == 1:
        return None
    sides = [side.axes[:, :LONGEST] for side in (left, right)]
    first, second = (
        Blocks(np.hstack([rank_polynomials(axis, CUTS[-1]) for axis in side.T]), CUTS[-1], CUTS, centred=True)
        for side in sides
    )
    both = [(a, b) for a in range(sides[0].shape[1]) for b in range(sides[1].shape[1])]
    kernels = tuple(
        Named("dependence", (f"axis {a + 1} (degree {CUTS[j]})", f"axis {b + 1} (degree {CUTS[k]})"))
        for a, b in both
        for j, k in MEETINGS
    )
    voices = np.tile(np.arange(len(MEETINGS)), len(both))
    return Relation("axes", (Meeting(first, second, MEETINGS),), kernels, voices)

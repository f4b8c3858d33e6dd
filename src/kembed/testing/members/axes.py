"""Principal axes: changes along directions that no single column has."""

import numpy as np

from kembed.core.backend import Float
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.group import Group, Meeting, Named, Relation
from kembed.testing.members.rows import Rows

CUTS = (1, 2, 4)
# Independence: which of these meet, and of how many axes a side.
MEETINGS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 2))
LONGEST = 10


def fit(rows: Rows) -> Group | None:
    """A member for each degree, the maximum over the axes; nothing where there is one column."""
    if len(rows.names) < 2:
        return None
    member, count = Streamed(along_axes, CUTS[-1], CUTS), rows.axes.shape[1]
    kernels = tuple(
        Named(f"principal axis {axis + 1}, degree {cut}") for axis in range(count) for cut in CUTS
    )
    return Group("axes", (member,), kernels, np.tile(np.arange(len(CUTS)), count))


def along_axes(rows: Rows | Fresh) -> Float[np.ndarray, "b P"]:
    """Polynomials of the ranks along every axis."""
    return rows.along_axes


def _side(rows: Rows, count: int) -> Streamed:
    longest = np.eye(CUTS[-1] * rows.axes.shape[1], CUTS[-1] * count)
    return Streamed(along_axes, CUTS[-1], CUTS, longest)


def fit_pairs(left: Rows, right: Rows) -> Relation | None:
    """The longest axes of one side with those of the other; nothing where both are one column."""
    if len(left.names) == len(right.names) == 1:
        return None
    counts = [min(LONGEST, rows.axes.shape[1]) for rows in (left, right)]
    first, second = (_side(rows, count) for rows, count in zip((left, right), counts, strict=True))
    both = [(a, b) for a in range(counts[0]) for b in range(counts[1])]
    kernels = tuple(
        Named("dependence", (f"axis {a + 1} (degree {CUTS[j]})", f"axis {b + 1} (degree {CUTS[k]})"))
        for a, b in both
        for j, k in MEETINGS
    )
    voices = np.tile(np.arange(len(MEETINGS)), len(both))
    return Relation("axes", (Meeting(first, second, MEETINGS),), kernels, voices)

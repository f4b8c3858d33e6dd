"""Principal axes: changes along directions that no single column has."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.permutation.blocks import Blocks
from kembed.testing.members.fresh import Fresh, Streamed
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
    return _group(rows, Blocks(columns, CUTS[-1], CUTS, centred=True))


def streamed(rows: Rows) -> Group | None:
    """The same for any row."""
    return _group(rows, Streamed(along_axes, CUTS[-1], CUTS)) if len(rows.names) > 1 else None


def _group(rows: Rows, member: Any) -> Group:
    count = rows.axes.shape[1]
    kernels = tuple(
        Named(f"principal axis {axis + 1}, degree {cut}") for axis in range(count) for cut in CUTS
    )
    return Group("axes", (member,), kernels, np.tile(np.arange(len(CUTS)), count))


def along_axes(rows: Fresh) -> Float[np.ndarray, "b P"]:
    """Polynomials of the ranks along every axis."""
    return rows.along_axes


def independence(left: Rows, right: Rows) -> Relation | None:
    """The longest axes of one side with those of the other; nothing where both are one column."""
    return _relation(left, right, _block_side)


def streamed_independence(left: Rows, right: Rows) -> Relation | None:
    """The same for any row."""
    return _relation(left, right, _streamed_side)


def _block_side(rows: Rows, count: int) -> Any:
    columns = np.hstack([rank_polynomials(axis, CUTS[-1]) for axis in rows.axes[:, :count].T])
    return Blocks(columns, CUTS[-1], CUTS, centred=True)


def _streamed_side(rows: Rows, count: int) -> Any:
    longest = np.eye(CUTS[-1] * rows.axes.shape[1], CUTS[-1] * count)
    return Streamed(along_axes, CUTS[-1], CUTS, longest)


def _relation(left: Rows, right: Rows, side: Callable[..., Any]) -> Relation | None:
    if len(left.names) == len(right.names) == 1:
        return None
    counts = [min(LONGEST, rows.axes.shape[1]) for rows in (left, right)]
    first, second = (side(rows, count) for rows, count in zip((left, right), counts, strict=True))
    both = [(a, b) for a in range(counts[0]) for b in range(counts[1])]
    kernels = tuple(
        Named("dependence", (f"axis {a + 1} (degree {CUTS[j]})", f"axis {b + 1} (degree {CUTS[k]})"))
        for a, b in both
        for j, k in MEETINGS
    )
    voices = np.tile(np.arange(len(MEETINGS)), len(both))
    return Relation("axes", (Meeting(first, second, MEETINGS),), kernels, voices)

"""Shifts: a wide Gaussian, and the mean rank of every column."""

import numpy as np

from kembed.core.backend import Float
from kembed.testing.members.columns import column_meeting
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.gaussians import gaussian
from kembed.testing.members.group import Group, Meeting, Relation, of_columns
from kembed.testing.members.rows import Rows

WIDE = 4.0  # of the median distance: the kernel is nearly a quadratic, and MMD² the difference of the means


def fit(rows: Rows) -> Group:
    """The Gaussian is one member, the ranks of all columns another."""
    wide, kernel = gaussian(rows, WIDE * rows.median)
    first = Streamed(first_degrees, 1, (1,))
    kernels = (kernel, *(of_columns("mean rank", name) for name in rows.names))
    return Group("means", (wide, first), kernels, np.array([0] + [1] * len(rows.names)), whole=True)


def first_degrees(rows: Rows | Fresh) -> Float[np.ndarray, "N D"]:
    """The first polynomial of every column: its ranks."""
    return np.hstack([every[:, :1] for every in rows.polynomials])


def fit_pairs(left: Rows, right: Rows) -> Relation:
    """Wide Gaussians, and the correlation of ranks of every column with every one of the other side."""
    members, kernels = zip(*(gaussian(rows, WIDE * rows.median) for rows in (left, right)), strict=True)
    found = column_meeting(left, right, 1, ((0, 0),))
    if found is None:
        return Relation("means", (Meeting(*members),), (kernels,), np.zeros(1, dtype=int), whole=True)
    meeting, names, voices = found
    return Relation("means", (Meeting(*members), meeting), (kernels, *names), np.append(0, voices + 1), True)

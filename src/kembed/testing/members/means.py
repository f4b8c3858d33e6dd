"""Shifts: a wide Gaussian, and the mean rank of every column."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.kernels.base import Kernel
from kembed.permutation.blocks import Blocks
from kembed.testing.members.columns import block_side, column_meeting, streamed_side
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.gaussians import gaussian, streamed_gaussian
from kembed.testing.members.group import Group, Meeting, Relation, of_columns
from kembed.testing.members.rows import Rows

WIDE = 4.0  # of the median distance: the kernel is nearly a quadratic, and MMD² the difference of the means


def two_sample(rows: Rows) -> Group:
    """The Gaussian is one member, the ranks of all columns another."""
    member, kernel = gaussian(rows, WIDE * rows.median)
    return _group(rows, member, kernel, Blocks(first_degrees(rows), 1, (1,), centred=True))


def streamed(rows: Rows) -> Group:
    """The same for any row."""
    return _group(rows, *streamed_gaussian(rows, WIDE * rows.median), Streamed(first_degrees, 1, (1,)))


def _group(rows: Rows, wide: Any, kernel: Kernel, first: Any) -> Group:
    kernels = (kernel, *(of_columns("mean rank", name) for name in rows.names))
    return Group("means", (wide, first), kernels, np.array([0] + [1] * len(rows.names)), whole=True)


def first_degrees(rows: Rows | Fresh) -> Float[np.ndarray, "N D"]:
    """The first polynomial of every column: its ranks."""
    return np.hstack([every[:, :1] for every in rows.polynomials])


def independence(left: Rows, right: Rows) -> Relation:
    """Wide Gaussians, and the correlation of ranks of every column with every one of the other side."""
    return _relation(left, right, gaussian, block_side)


def streamed_independence(left: Rows, right: Rows) -> Relation:
    """The same for any row."""
    return _relation(left, right, streamed_gaussian, streamed_side)


def _relation(left: Rows, right: Rows, plain: Callable[..., Any], side: Callable[..., Any]) -> Relation:
    members, kernels = zip(*(plain(rows, WIDE * rows.median) for rows in (left, right)), strict=True)
    found = column_meeting(left, right, 1, ((0, 0),), side)
    if found is None:
        return Relation("means", (Meeting(*members),), (kernels,), np.zeros(1, dtype=int), whole=True)
    meeting, names, voices = found
    return Relation("means", (Meeting(*members), meeting), (kernels, *names), np.append(0, voices + 1), True)

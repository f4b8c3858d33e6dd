"""The members of the fused tests, in groups: each group sees another kind of difference.

One lengthscale, however chosen, cannot win everywhere. What goes in, and with what share, was chosen on the
development suite of `benchmarks/alternatives.py` and then frozen; `benchmarks/power.py` judges it on the
held-out suite. A new group is one file with a `GROUP`, and one entry in `GROUPS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed.testing.members import gaussians, whitened
from kembed.testing.members.group import Group, Members, Rows

if TYPE_CHECKING:
    from jaxtyping import Float

GROUPS: tuple[Group, ...] = (gaussians.GROUP, whitened.GROUP)


def fused_members(rows: Rows, *, side: bool) -> Members:
    """The members of every group, of a two-sample test or of one side of an independence test."""
    parts = [group.side(rows) if side else group.two_sample(rows) for group in GROUPS]
    shares = np.concatenate([part.shares for part in parts])
    return Members(
        tuple(member for part in parts for member in part.members),
        tuple(kernel for part in parts for kernel in part.kernels),
        shares / shares.sum(),
    )


def fused_meetings() -> Float[np.ndarray, "J J"]:
    """The share of every kernel of one side with every one of the other; 0 where they do not meet."""
    from scipy.linalg import block_diag

    return block_diag(*(group.meet for group in GROUPS))

"""The members of the fused tests, in groups: each group sees another kind of difference.

One lengthscale, however chosen, cannot win everywhere. What goes in, and with what share, was chosen on the
development suite of `benchmarks/alternatives.py` and then frozen; `benchmarks/power.py` judges it on the
held-out suite. A new group is one file and one entry in `GROUPS`.

A group is fitted on the pooled, unordered rows and never sees a label. Its functions `two_sample` and `side`
return the kernels of a two-sample test, and those of one side of an independence test: in rectangles
(`Pairs`) or as features of the rows, K = F Fᵀ (`LowRank`, or `LazyLowRank` if they are large), with shares
before normalisation. `MEET[j, k]` is the share of kernel j of one side with kernel k of the other; groups do
not meet.
"""

from dataclasses import replace

import numpy as np

from kembed.core.backend import Float
from kembed.testing.members import gaussians, whitened
from kembed.testing.members.rows import Rows
from kembed.testing.procedure import Choice, together

GROUPS = (gaussians, whitened)


def fused_members(rows: Rows, *, side: bool) -> Choice:
    """The members of every group, of a two-sample test or of one side of an independence test."""
    whole = together([group.side(rows) if side else group.two_sample(rows) for group in GROUPS])
    learned = (rows.evidence,) if rows.evidence else ()
    return replace(whole, shares=whole.shares / whole.shares.sum(), learned=learned, fused=True)


def fused_meetings() -> Float[np.ndarray, "J J"]:
    """The share of every kernel of one side with every one of the other; 0 where they do not meet."""
    from scipy.linalg import block_diag

    return block_diag(*(group.MEET for group in GROUPS))

"""From a word to kernels: what `kernel=` means in a test.

Every choice is a function of the pooled, unordered rows. Nothing here sees a label.
"""

from typing import Any

import numpy as np

from kembed.kernels.base import Kernel
from kembed.kernels.space import Space
from kembed.permutation.gram import function_pairs, kernel_pairs, space_pairs
from kembed.permutation.low_rank import Member, random_features
from kembed.testing.kernel_words import choose_kernel
from kembed.testing.members import fused_members, fused_side
from kembed.testing.members.rows import read_scales
from kembed.testing.procedure import Choice, Procedure, every_one, together


def choose(
    kernel: Any,
    space: Space,
    procedure: Procedure,
    *,
    side: bool = False,
    names: tuple[str, ...] | None = None,
) -> Choice:
    """The kernels that `kernel` stands for on these rows, which may be one `side` of an independence test.

    `names` are those of the columns, for members that look at few of them.
    """
    fused = isinstance(kernel, str) and kernel == "fused"
    listed = isinstance(kernel, list | tuple)
    if listed and not kernel:
        raise ValueError("kernel is an empty list; give at least one kernel")
    if single_kernel(procedure, side=side) and (fused or (listed and len(kernel) > 1)):
        seen = f"null={procedure.null!r} takes one kernel, but kernel stands for several"
        raise ValueError(f"{seen}; give kernel='bkl', kernel='median' or a kernel object (--kernel)")
    if fused and procedure.features is not None:
        seen = f"statistic='features' (--fast) with null={procedure.null!r} takes one kernel; 'fused' is many"
        remedy = "give kernel='bkl' or a kernel object (--kernel), or use null='permutation' (--null)"
        raise ValueError(f"{seen}, so {remedy}")
    if listed:
        parts = [choose(one, space, procedure, side=side, names=names) for one in kernel]
        return parts[0] if len(parts) == 1 else together(parts)
    if fused:
        rows = read_scales(space, names=names)
        return fused_side(rows) if side else fused_members(rows)
    chosen, learned = choose_kernel(kernel, space)
    member: Member
    if procedure.features is not None:
        member = random_features(chosen, space.values, procedure.features, procedure.rng)
    elif isinstance(kernel, str) and kernel == "median":
        member = space_pairs(space, np.array([space.median()]))
    elif isinstance(chosen, Kernel):
        member = kernel_pairs(chosen, space.values)
    else:
        member = function_pairs(chosen, space.values)
    return Choice((member,), (chosen,), every_one(1), (learned,) if learned else ())


def single_kernel(procedure: Procedure, *, side: bool) -> bool:
    """Whether the null takes one kernel only."""
    return procedure.approximate or (side and procedure.null == "wild")

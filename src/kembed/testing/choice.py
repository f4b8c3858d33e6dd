"""From a word to kernels: what `kernel=` means in a test.

Every choice is a function of the pooled, unordered rows. Nothing here sees a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.data.space import Space
from kembed.kernels.base import Kernel
from kembed.learning.evidence import Evidence
from kembed.permutation.gram import Pairs, function_pairs, kernel_pairs, space_pairs
from kembed.permutation.low_rank import Member, member_pairs, random_features
from kembed.testing.kernel_words import choose_kernel

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Choice:
    """Kernels as a test uses them, what to call each, their shares in a fused test, and what was learned."""

    members: tuple[Member, ...]
    kernels: tuple[Any, ...]
    shares: Float[np.ndarray, " J"]
    learned: tuple[Evidence | None, ...] = ()
    fused: bool = False  # the word "fused" and nothing else

    @property
    def one(self) -> Pairs:
        """The single kernel, in rectangles."""
        (member,) = self.members
        return member_pairs(member)


def choose(
    kernel: Any,
    space: Space,
    rng: np.random.Generator,
    *,
    features: int | None = None,
    single: str | None = None,
    side: bool = False,
    argument: str = "kernel",
) -> Choice:
    """The kernels that `kernel` stands for on these rows.

    With `features` every kernel is replaced by so many random features; `single` names what cannot take more
    than one kernel; `side` says that the rows are one side of an independence test.
    """
    fused = isinstance(kernel, str) and kernel == "fused"
    listed = isinstance(kernel, list | tuple)
    if listed and not kernel:
        raise ValueError(f"{argument} is an empty list; give at least one kernel")
    if single is not None and (fused or (listed and len(kernel) > 1)):
        raise ValueError(
            f"{single} takes one kernel, but {argument} stands for several; "
            f"give {argument}='bkl', {argument}='median' or a kernel object"
        )
    if listed:
        parts = [
            choose(one, space, rng, features=features, single=single, side=side, argument=argument)
            for one in kernel
        ]
        return parts[0] if len(parts) == 1 else _together(parts)
    if fused:
        from kembed.testing.members import fused_members
        from kembed.testing.members.group import read_scales

        rows = read_scales(space, features, rng)
        return Choice(*fused_members(rows, side=side), (rows.evidence,) if rows.evidence else (), fused=True)
    chosen, learned = choose_kernel(kernel, space, argument=argument)
    member: Member
    if features is not None:
        member = random_features(chosen, space.values, features, rng, argument)
    elif isinstance(kernel, str) and kernel == "median":
        member = space_pairs(space, np.array([space.median()]))
    elif isinstance(chosen, Kernel):
        member = kernel_pairs(chosen, space.values)
    else:
        member = function_pairs(chosen, space.values, argument)
    return Choice((member,), (chosen,), np.ones(1), (learned,) if learned else ())


def _together(parts: list[Choice]) -> Choice:
    """Several choices fused, each with the same share."""
    return Choice(
        tuple(member for part in parts for member in part.members),
        tuple(name for part in parts for name in part.kernels),
        np.concatenate([part.shares / len(parts) for part in parts]),
        next((part.learned for part in parts if part.learned), ()),
    )

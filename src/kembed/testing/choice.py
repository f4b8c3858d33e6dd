"""From a word to kernels: what `kernel=` means in a test.

Every choice is a function of the pooled, unordered rows. Nothing here sees a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.data.space import Space
from kembed.kernels.base import Kernel
from kembed.kernels.of_space import space_kernel
from kembed.learning.evidence import Evidence
from kembed.permutation.gram import Pairs, function_pairs, kernel_pairs, space_pairs
from kembed.permutation.low_rank import Deferred, Member, as_pairs, kernels_in, pivoted_cholesky
from kembed.permutation.random_features import random_features
from kembed.testing.kernel_words import choose_kernel

if TYPE_CHECKING:
    from jaxtyping import Float

# Beyond this many rows a low-rank factor is worth trying: below it a dense pass takes a tenth of a second.
LARGE = 4_000


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
        return as_pairs(member)


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
    if isinstance(kernel, str) and kernel == "fused":
        _refuse_several(single, argument)
        choice = _fused(space, rng, features, side)
    elif isinstance(kernel, list | tuple):
        if not kernel:
            raise ValueError(f"{argument} is an empty list; give at least one kernel")
        if len(kernel) == 1:
            return choose(
                kernel[0], space, rng, features=features, single=single, side=side, argument=argument
            )
        _refuse_several(single, argument)
        parts = [
            choose(one, space, rng, features=features, single=single, side=side, argument=argument)
            for one in kernel
        ]
        shares = [part.shares / len(parts) for part in parts]
        learned: tuple[Evidence | None, ...] = next((part.learned for part in parts if part.learned), ())
        choice = Choice(
            tuple(member for part in parts for member in part.members),
            tuple(name for part in parts for name in part.kernels),
            np.concatenate(shares),
            learned,
        )
    else:
        choice = _one(kernel, space, rng, features, argument)
    return choice


def _one(kernel: Any, space: Space, rng: np.random.Generator, features: int | None, argument: str) -> Choice:
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


def _refuse_several(single: str | None, argument: str) -> None:
    if single is not None:
        raise ValueError(
            f"{single} takes one kernel, but {argument} stands for several; "
            f"give {argument}='bkl', {argument}='median' or a kernel object"
        )


def _fused(space: Space, rng: np.random.Generator, features: int | None, side: bool) -> Choice:
    from kembed.testing.members import fused_kernels, fused_side

    fused = fused_side(space) if side else fused_kernels(space)
    gaussians = [space_kernel(space, float(ell)) for ell in fused.lengthscales]
    members: list[Member]
    if features is None:
        members = [space_pairs(space, fused.lengthscales)]
    else:
        seeds = rng.integers(2**63, size=len(gaussians))
        members = [
            Deferred(
                len(space.values),
                lambda kernel=kernel, seed=seed: random_features(  # type: ignore[misc]
                    kernel, space.values, features, np.random.default_rng(seed), "kernel"
                ),
            )
            for kernel, seed in zip(gaussians, seeds, strict=True)
        ]
    return Choice(
        (*members, *fused.whitened),
        (*gaussians, *fused.whitened_names),
        fused.shares,
        (fused.learned,) if fused.learned else (),
        fused=True,
    )


def lowered(members: tuple[Member, ...]) -> list[tuple[Member, list[int]]]:
    """The same kernels with exact low-rank factors in place of large matrices, each with its places in order.

    Kernels that have no such factor stay together: they share their distances.
    """
    found: list[tuple[Member, list[int]]] = []
    place = 0
    for member in members:
        places = list(range(place, place + kernels_in(member)))
        place += len(places)
        if not isinstance(member, Pairs) or member.size < LARGE or not member.definite:
            found.append((member, places))
            continue
        factors = [pivoted_cholesky(member, j) for j in range(len(places))]
        dense = [j for j, factor in enumerate(factors) if factor is None]
        found += [(factor, [places[j]]) for j, factor in enumerate(factors) if factor is not None]
        if dense:
            found.append((member.some(dense), [places[j] for j in dense]))
    return found

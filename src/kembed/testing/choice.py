"""From a word to kernels: what `kernel=` means in a test.

Every choice is a function of the pooled, unordered rows. Nothing here sees a label.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core.backend import to_numpy
from kembed.data.space import Space
from kembed.kernels.base import Kernel
from kembed.kernels.composite import Product
from kembed.kernels.discrete import Delta, OnColumns
from kembed.kernels.of_space import columns_by_kind, space_kernel
from kembed.kernels.stationary import Gaussian
from kembed.learning.evidence import SPREADS, Evidence
from kembed.permutation.gram import Pairs, function_pairs, kernel_pairs, space_pairs
from kembed.permutation.low_rank import Deferred, Member, as_pairs, kernels_in, pivoted_cholesky
from kembed.permutation.random_features import random_features

if TYPE_CHECKING:
    from jaxtyping import Float

WORDS = ("fused", "bkl", "ard", "median")
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


def _refuse_several(single: str | None, argument: str) -> None:
    if single is not None:
        raise ValueError(
            f"{single} takes one kernel, but {argument} stands for several; "
            f"give {argument}='bkl', {argument}='median' or a kernel object"
        )


def _one(kernel: Any, space: Space, rng: np.random.Generator, features: int | None, argument: str) -> Choice:
    given, kernel = kernel, unwrapped(kernel)
    learned = given.evidence() if given is not kernel else None
    if isinstance(kernel, str):
        if kernel not in WORDS:
            words = ", ".join(repr(word) for word in WORDS)
            raise ValueError(
                f"{argument} must be one of {words}, a kernel object, a function or a list, "
                f"but {kernel!r} was given"
            )
        if kernel == "median":
            ell = space.median()
            kernel, pairs = space_kernel(space, ell), space_pairs(space, np.array([ell]))
        else:
            kernel, learned = _learned(space, ard=kernel == "ard")
            pairs = kernel_pairs(kernel, space.values)
    elif isinstance(kernel, Kernel):
        kernel = on_mixed_columns(to_numpy(kernel), space)
        pairs = kernel_pairs(kernel, space.values)
    elif callable(kernel) and not isinstance(kernel, type):
        pairs = function_pairs(kernel, space.values, argument)
    else:
        number = isinstance(kernel, Real) and not isinstance(kernel, bool)
        hint = f"; write kembed.Gaussian({kernel})" if number else ""
        raise TypeError(
            f"{argument} must be a word ({', '.join(map(repr, WORDS))}), a kernel object, a function or a "
            f"list of these, but {kernel!r} was given{hint}"
        )
    member: Member = pairs
    if features is not None:
        member = random_features(kernel, space.values, features, rng, argument)
    return Choice((member,), (kernel,), np.ones(1), (learned,) if learned else ())


def unwrapped(kernel: Any) -> Any:
    """The kernel of a `LearnedKernel`; anything else as it is."""
    if isinstance(kernel, str | Kernel) or callable(kernel):
        return kernel
    from kembed.learning.learned_kernel import LearnedKernel

    return kernel.kernel if isinstance(kernel, LearnedKernel) else kernel


def on_mixed_columns(kernel: Kernel, space: Space) -> Kernel:
    """A kernel for numeric columns, times the delta kernel of the discrete ones."""
    if not space.categorical.any() or _knows_columns(kernel):
        return kernel
    numeric, discrete = columns_by_kind(space)
    delta = OnColumns(Delta(), discrete)
    return Product(OnColumns(kernel, numeric), delta) if numeric else delta


def _knows_columns(kernel: Kernel) -> bool:
    """Whether the user said which columns it sees, or meant a discrete kernel for them."""
    if isinstance(kernel, OnColumns | Delta):
        return True
    parts = getattr(kernel, "kernels", ()) or ([kernel.kernel] if hasattr(kernel, "kernel") else [])
    return any(_knows_columns(part) for part in parts)


def _learned(space: Space, ard: bool) -> tuple[Kernel, Evidence | None]:
    """A Gaussian learned on the numeric columns in units of their spreads, times delta kernels."""
    from kembed.learning.learn import learn_kernel

    rows = space.numeric
    if (rows == rows[0]).all():  # nothing to learn from: discrete columns alone, or rows that do not vary
        return space_kernel(space, space.median()), None
    if ard:
        lengthscale, learned = learned_scales(space)
        return space_kernel(space, lengthscale), learned and learned.evidence(SPREADS)
    learned = learn_kernel(rows)
    return space_kernel(space, float(learned.kernel.lengthscale)), learned.evidence(SPREADS)


def learned_scales(space: Space) -> tuple[Float[np.ndarray, " E"], Any]:
    """A lengthscale for every numeric column (ARD), in spreads, and what was learned.

    Columns that do not vary get 1: they never differ, so any would do.
    """
    from kembed.learning.learn import learn_kernel

    rows = space.numeric
    varies = (rows != rows[0]).any(axis=0)
    lengthscale = np.ones(rows.shape[1])
    if not varies.any():
        return lengthscale, None
    pattern = Gaussian() if varies.sum() == 1 else Gaussian(np.ones(int(varies.sum())))
    learned = learn_kernel(rows[:, varies], pattern)
    lengthscale[varies] = learned.kernel.lengthscale
    return lengthscale, learned


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

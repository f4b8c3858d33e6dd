"""What a group of members is: one file of this folder, and one line in the list of `members`.

A group is fitted on the pooled, unordered rows and never sees a label. It returns its kernels either in
rectangles (`Pairs`) or as features of the rows, K = F Fᵀ (`LowRank`, or `LazyLowRank` if they are large).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.data.space import Space
from kembed.learning.evidence import SPREADS, Evidence, scan_evidence
from kembed.permutation.low_rank import Member
from kembed.testing.kernel_words import STAND_IN, says_nothing_of_scales

if TYPE_CHECKING:
    from jaxtyping import Float

MAX_PEAKS = 3  # modes of the evidence that get members: each of them is work


@dataclass(frozen=True, eq=False)
class Rows:
    """Pooled rows, what they say about scales, and with what to approximate kernels.

    `peaks` are the lengthscales the evidence speaks for, the best first; at least one. With `features` every
    kernel in rectangles is replaced by so many random features, seeded by `rng`.
    """

    space: Space
    median: float
    peaks: tuple[float, ...]
    evidence: Evidence | None
    features: int | None
    rng: np.random.Generator


class Members(NamedTuple):
    """What a group adds to a test: its kernels, what to call each, and their shares before normalisation."""

    members: tuple[Member, ...]
    kernels: tuple[Any, ...]
    shares: Float[np.ndarray, " J"]


class Group(NamedTuple):
    """A kind of members: those of a two-sample test, and those of one side of an independence test.

    `meet[j, k]` is the share of kernel j of one side with kernel k of the other; groups do not meet.
    """

    two_sample: Callable[[Rows], Members]
    side: Callable[[Rows], Members]
    meet: Float[np.ndarray, "J J"]


def read_scales(space: Space, features: int | None, rng: np.random.Generator) -> Rows:
    """The rows of a space and the scales in them."""
    median = space.median()
    if says_nothing_of_scales(space.numeric):
        return Rows(space, median, (STAND_IN * median,), None, features, rng)
    evidence = replace(scan_evidence(space.numeric), unit=SPREADS, median=median)
    peaks = tuple(float(peak) for peak in evidence.peaks[:MAX_PEAKS])
    return Rows(space, median, peaks, evidence, features, rng)

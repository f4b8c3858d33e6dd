"""What every group of members is told: the pooled rows, and the scales in them."""

from dataclasses import dataclass, replace

import numpy as np

from kembed.data.space import Space
from kembed.learning.evidence import SPREADS, Evidence, scan_evidence
from kembed.testing.kernel_words import STAND_IN, in_units, says_nothing_of_scales

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


def read_scales(space: Space, features: int | None, rng: np.random.Generator) -> Rows:
    """The rows of a space and the scales in them."""
    median = space.median()
    if says_nothing_of_scales(space.numeric):
        return Rows(space, median, (STAND_IN * median,), None, features, rng)
    evidence = replace(scan_evidence(space.numeric), unit=SPREADS, median=median)
    peaks = tuple(map(float, evidence.peaks[:MAX_PEAKS]))
    return Rows(space, median, peaks, in_units(evidence, space), features, rng)

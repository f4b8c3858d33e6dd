"""Whitened embeddings: changes of variance, correlation and contamination that a plain distance drowns.

The difference d of the mean features at landmarks is measured against the covariance Σ of those features,
dᵀ(Σ + ρI)⁻¹d.
"""

from dataclasses import dataclass

import numpy as np

from kembed.embeddings.landmarks import Landmarks, place
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.permutation.low_rank import LazyLowRank, whitened
from kembed.testing.members.rows import Rows
from kembed.testing.procedure import Choice

LANDMARKS = 100  # at most; a quarter of the rows if that is fewer, so that Σ can be told from noise

# (ratio to the median distance, ridge, share).
AROUND_MEDIAN = ((2.0, 1e-3, 4.0), (0.5, 1e-3, 3.0), (0.25, 1e-2, 2.0))
# (ridge, share) at the best mode of the evidence, and at further ones.
AT_PEAK = ((1e-2, 6.0), (1e-3, 4.0))
AT_OTHERS = ((1e-3, 2.0),)

# Independence: (ratio to the median distance, ridge), the ridge at the evidence's scale; each meets its twin.
SIDE_AROUND_MEDIAN = ((2.0, 1e-1), (2.0, 1e-3))
SIDE_AT_PEAK = 1e-2
MEET = 4.0 * np.eye(3)


@dataclass(frozen=True, eq=False, repr=False)
class WhitenedEmbedding:
    """The kernel φ(x)ᵀ(Σ + ρI)⁻¹φ(y): features of `kernel` at landmarks, ρ = ridge · trace Σ."""

    kernel: Kernel
    ridge: float

    def __repr__(self) -> str:
        return f"Whitened({self.kernel!r}, ridge={self.ridge:g})"


def two_sample(rows: Rows) -> Choice:
    """At ratios of the median distance, and at the modes of the evidence."""
    scales = [(ratio * rows.median, ridge, share) for ratio, ridge, share in AROUND_MEDIAN]
    for k, peak in enumerate(rows.peaks):
        scales += [(peak, ridge, share) for ridge, share in (AT_OTHERS if k else AT_PEAK)]
    return _members(rows, scales)


def side(rows: Rows) -> Choice:
    """At twice the median distance with two ridges, and at the evidence's scale."""
    scales = [(ratio * rows.median, ridge) for ratio, ridge in SIDE_AROUND_MEDIAN]
    scales.append((rows.peaks[0], SIDE_AT_PEAK))
    return _members(rows, [(*scale, share) for scale, share in zip(scales, MEET.sum(axis=1), strict=True)])


def _members(rows: Rows, scales: list[tuple[float, float, float]]) -> Choice:
    space = rows.space
    # Between two categories there is nothing, so with discrete columns landmarks must be rows.
    name = "subset" if space.categorical.any() else "support"
    rule = Landmarks(name, max(2, min(LANDMARKS, len(space.rows) // 4)))
    squared = space.distances(space.rows, place(space.rows, rule, np.random.default_rng(0)))

    def member(ell: float, ridge: float) -> LazyLowRank:
        return LazyLowRank(len(squared), lambda: whitened(np.exp(squared / (-2.0 * ell**2)), ridge))

    return Choice(
        tuple(member(ell, ridge) for ell, ridge, _ in scales),
        tuple(WhitenedEmbedding(space_kernel(space, ell), ridge) for ell, ridge, _ in scales),
        np.array([share for *_, share in scales]),
    )

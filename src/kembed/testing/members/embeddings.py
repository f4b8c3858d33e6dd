"""Mean embeddings at the scales the rows speak for: plain, and whitened.

Whitened, the difference d of the mean features at landmarks is measured against the covariance Σ of those
features, dᵀ(Σ + ρI)⁻¹d: changes of variance, correlation and contamination that a plain distance drowns.
"""

from dataclasses import dataclass

import numpy as np

from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.testing.members.gaussians import gaussian, whitened
from kembed.testing.members.group import Group, Meeting, Relation, alone
from kembed.testing.members.rows import Rows

PLAIN = (0.5, 0.25)  # of the median distance
AROUND_MEDIAN = (2.0, 1e-3)  # ratio to the median distance, ridge
# Independence: ratios to the median distance, and which of the kernels of a `side` meet.
WIDE, FINE = 4.0, 0.125
MEETINGS = ((2, 2), (0, 1), (1, 0), (3, 3), (4, 4))
AT_PEAK = (1e-2, 1e-3)  # ridges at the best mode of the evidence


@dataclass(frozen=True, eq=False, repr=False)
class WhitenedEmbedding:
    """The kernel φ(x)ᵀ(Σ + ρI)⁻¹φ(y): features of `kernel` at landmarks, ρ = ridge · trace Σ.

    Its MMD² is the statistic of mean embeddings (Chwialkowski et al. 2015; Jitkrittum et al. 2016) and of the
    kernel Fisher discriminant (Harchaoui, Bach & Moulines 2008), with pooled rows for landmarks.
    """

    kernel: Kernel
    ridge: float

    def __repr__(self) -> str:
        return f"Whitened({self.kernel!r}, ridge={self.ridge:g})"


def fit(rows: Rows) -> Group:
    """Gaussians below the median distance, whitened ones at twice that and at the learned lengthscale."""
    gaussians, kernels = zip(*(gaussian(rows, part * rows.median) for part in PLAIN), strict=True)
    ratio, ridge = AROUND_MEDIAN
    scales = [(ratio * rows.median, ridge), *((rows.peaks[0], ridge) for ridge in AT_PEAK)]
    names = tuple(WhitenedEmbedding(space_kernel(rows.space, ell), ridge) for ell, ridge in scales)
    members = (*gaussians, *(whitened(rows, *scale) for scale in scales))
    return alone("embeddings", members, (*kernels, *names), whole=True)


def fit_pairs(left: Rows, right: Rows) -> Relation:
    """Gaussians at the learned lengthscale, fine ones with wide ones, and whitened embeddings."""
    first, second = side(left), side(right)
    meetings = tuple(Meeting(first.members[j], second.members[k]) for j, k in MEETINGS)
    kernels = tuple((first.kernels[j], second.kernels[k]) for j, k in MEETINGS)
    return Relation("embeddings", meetings, kernels, np.arange(len(MEETINGS)), whole=True)


def side(rows: Rows) -> Group:
    """Kernels of one side: wide, fine, at the evidence's best, and whitened at twice the median and there."""
    lengthscales = (WIDE * rows.median, FINE * rows.median, rows.peaks[0])
    plain = [gaussian(rows, ell) for ell in lengthscales]
    scales = [(AROUND_MEDIAN[0] * rows.median, AROUND_MEDIAN[1]), (rows.peaks[0], AT_PEAK[0])]
    members = (*(member for member, _ in plain), *(whitened(rows, *scale) for scale in scales))
    own = (WhitenedEmbedding(space_kernel(rows.space, ell), ridge) for ell, ridge in scales)
    return alone("side", members, (*(kernel for _, kernel in plain), *own))

"""Mean embeddings at the scales of the rows: plain Gaussians, and whitened ones.

Whitened, the difference d of the mean features at landmarks is measured against the covariance Σ of those
features, dᵀ(Σ + ρI)⁻¹d: changes of variance, correlation and contamination that a plain distance drowns.
"""

from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Float
from kembed.features.members import FeatureMember, Group, KernelPair, MatrixMember, PairGroup, separate
from kembed.features.rows import Rows, Sample
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel

PLAIN = (0.5, 0.25)  # of the median distance
AROUND_MEDIAN = (2.0, 1e-3)  # ratio to the median distance, ridge
# Independence: ratios to the median distance, and which of the kernels of a `side` are paired.
WIDE, FINE = 4.0, 0.125
PAIRS = ((2, 2), (0, 1), (1, 0), (3, 3), (4, 4))
AT_PEAK = (1e-2, 1e-3)  # ridges at the best mode of the evidence
EXACT_ROWS = 2_000  # up to which Gaussians are matrices of all rows, beyond features at landmarks
MOSTLY_ONE = 2.0  # lengthscale over the median distance from which a Gaussian is taken less 1, for its digits


@dataclass(frozen=True)
class AtLandmarks:
    """k(x, z) for every landmark z: the features behind plain and whitened Gaussians alike."""

    lengthscale: float

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b m"]:
        """Of these rows."""
        return rows.gaussian(self.lengthscale)


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


def gaussian(sample: Sample, lengthscale: float) -> tuple[FeatureMember | MatrixMember, Kernel]:
    """A Gaussian of the distance of the space, and what to call it: its matrix, or Nyström's features."""
    name = space_kernel(sample.space, lengthscale)
    if sample.complete and sample.size <= EXACT_ROWS:
        exponent = sample.distances / (-2.0 * lengthscale**2)
        function = np.expm1 if lengthscale >= MOSTLY_ONE * sample.median else np.exp
        return MatrixMember(function(exponent, out=exponent)), name
    linear = sample.nystroem(lengthscale)
    return FeatureMember(AtLandmarks(lengthscale), linear.shape[1], (linear.shape[1],), linear), name


def whitened(sample: Sample, lengthscale: float, ridge: float) -> tuple[FeatureMember, WhitenedEmbedding]:
    """The features whitened by their covariance over the sample, and what to call it."""
    linear = sample.spectrum(lengthscale).whitening(ridge)
    member = FeatureMember(AtLandmarks(lengthscale), linear.shape[1], (linear.shape[1],), linear)
    return member, WhitenedEmbedding(space_kernel(sample.space, lengthscale), ridge)


def fit(sample: Sample) -> Group:
    """Gaussians below the median distance, whitened ones at twice that and at the learned lengthscale."""
    ratio, ridge = AROUND_MEDIAN
    found = [
        *(gaussian(sample, part * sample.median) for part in PLAIN),
        whitened(sample, ratio * sample.median, ridge),
        *(whitened(sample, sample.peaks[0], ridge) for ridge in AT_PEAK),
    ]
    members, kernels = zip(*found, strict=True)
    return separate("embeddings", members, kernels, whole=True)


def fit_pairs(left: Sample, right: Sample) -> PairGroup:
    """Gaussians at the learned lengthscale, fine ones with wide ones, and whitened embeddings."""
    first, second = side(left), side(right)
    pairs = tuple(KernelPair(first.members[j], second.members[k]) for j, k in PAIRS)
    kernels = tuple((first.kernels[j], second.kernels[k]) for j, k in PAIRS)
    return PairGroup("embeddings", pairs, kernels, np.arange(len(PAIRS)), whole=True)


def side(sample: Sample) -> Group:
    """Kernels of one side: wide, fine, learned, and whitened at twice the median and the learned scale."""
    lengthscales = (WIDE * sample.median, FINE * sample.median, sample.peaks[0])
    scales = [(AROUND_MEDIAN[0] * sample.median, AROUND_MEDIAN[1]), (sample.peaks[0], AT_PEAK[0])]
    found = [
        *(gaussian(sample, lengthscale) for lengthscale in lengthscales),
        *(whitened(sample, *scale) for scale in scales),
    ]
    members, kernels = zip(*found, strict=True)
    return separate("side", members, kernels)

"""The Bayes factor for a difference of two samples, from whitened features of learned Gaussians.

Let ν be the pooled distribution and h = (p - q)/ν. Under the alternative h is a Gaussian process with the
centred kernel c k, scaled so that E∫h²dν = c; under the null hypothesis h = 0. Nyström's features, centred
and turned to principal axes, are φ_j with ∫φ_j²dν = 1 and eigenvalues λ_j; √n_e times their mean differences,
z_j, have covariance I under permutations, n_e = (nm/N)(N-1)/N. With g_j = n_e c λ_j/Σλ

    log BF(ℓ, c) = ½ Σ_j { z_j² g_j/(1+g_j) - log(1+g_j) },

and the Bayes factor is the mean over lengthscales ℓ around the learned one and over c. Amplitudes go down to
1/n_e: with a fixed least one, small differences among many rows would count as evidence for the null. As a
permutation statistic it is a spectrally regularised MMD (Zhang, Wild, Filippi, Flaxman & Sejdinovic 2022).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp
from kembed.features.rows import Rows, Sample

SCALES = (0.5, 1.0, 2.0, 4.0)  # lengthscales over the learned one
LEAST_AMPLITUDES = 5  # c = 1, 1/4, ..., 1/256, and on to 1/n_e, the smallest that n_e rows can see
NEGLIGIBLE = 1e-5  # principal features below this share of the variance


@dataclass(frozen=True)
class AtScales:
    """k(x, z) for every landmark z, of Gaussians of several lengthscales."""

    lengthscales: tuple[float, ...]

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b M"]:
        """Of these rows."""
        return np.hstack([rows.gaussian(scale) for scale in self.lengthscales])


@dataclass(frozen=True, eq=False)
class BayesFactor:
    """The logarithm of the Bayes factor at every lengthscale, as a member of a test."""

    features: AtScales
    whitening: tuple[Float[np.ndarray, "m r"], ...]  # from k(x, z) to φ, for every lengthscale
    shares: tuple[Float[np.ndarray, " r"], ...]  # λ_j/Σλ
    size: int  # N of the rows that were whitened

    @property
    def map(self) -> AtScales:
        """What must be summed over bins."""
        return self.features

    def scores(self, difference: Float[np.ndarray, "M C"]) -> list[Float[np.ndarray, "r C"]]:
        """The mean differences of φ_j, of every lengthscale."""
        parts = np.split(difference, len(self.whitening))
        return [linear.T @ part for linear, part in zip(self.whitening, parts, strict=True)]

    def log_factors(
        self, scores: list[Float[np.ndarray, "r C"]], effective: float
    ) -> Float[np.ndarray, "S A C"]:
        """log BF of every lengthscale and amplitude, for n_e effective rows."""
        found = []
        for score, share in zip(scores, self.shares, strict=True):
            g = effective * np.outer(amplitudes(effective), share)
            squares = effective * np.square(score)
            found.append(0.5 * ((g / (1.0 + g)) @ squares - np.log1p(g).sum(axis=1, keepdims=True)))
        return np.stack(found)

    def statistics(self, contrast: Any) -> Float[np.ndarray, "S C"]:
        """log BF of every lengthscale, for the data and every resample."""
        scores = self.scores(contrast.difference(self.features))
        # What all labelings have in common: they differ where clusters do.
        variance = float((contrast.sums.squares @ np.square(contrast.weights)).mean())
        effective = (self.size - 1.0) / self.size / variance if variance > 0.0 else 0.0
        found = self.log_factors(scores, effective)
        return log_sum_exp(found, axis=1) - np.log(found.shape[1])

    def entry(self, rows: Rows, known: dict[Any, Any]) -> Float[np.ndarray, " S"]:
        """The statistics are of the size of 1."""
        return np.ones(len(self.shares))


def amplitudes(effective: float) -> Float[np.ndarray, " A"]:
    """The amplitudes c that are averaged over, all alike, for n_e effective rows.

    >>> (1.0 / amplitudes(50.0)).tolist(), len(amplitudes(2000.0))
    ([1.0, 4.0, 16.0, 64.0, 256.0], 7)
    """
    count = max(LEAST_AMPLITUDES, 1 + int(np.ceil(np.log(max(effective, 1.0)) / np.log(4.0))))
    return 0.25 ** np.arange(count)


def bayes_factor(sample: Sample, lengthscale: float) -> BayesFactor:
    """The member for lengthscales around a learned one, of the distance of the space."""
    scales = tuple(scale * lengthscale for scale in SCALES)
    whitening, shares = zip(*(_whitened(sample, scale) for scale in scales), strict=True)
    return BayesFactor(AtScales(scales), whitening, shares, sample.size)


def _whitened(sample: Sample, lengthscale: float) -> tuple[Float[np.ndarray, "m r"], Float[np.ndarray, " r"]]:
    """L with φ(x) = Lᵀk(x, z) up to a constant, and λ/Σλ."""
    nystroem = sample.nystroem(lengthscale)
    features = sample.gaussian(lengthscale)
    features = (features - features.mean(axis=0)) @ nystroem
    eigenvalues, axes = np.linalg.eigh(features.T @ features / sample.size)
    kept = eigenvalues > NEGLIGIBLE * max(float(eigenvalues.sum()), 0.0)
    if not kept.any():  # rows that never differ
        return np.zeros((len(nystroem), 1)), np.zeros(1)
    shares = eigenvalues[kept] / eigenvalues[kept].sum()
    return nystroem @ axes[:, kept] / np.sqrt(eigenvalues[kept]), shares

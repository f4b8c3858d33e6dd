"""Embeddings of many samples as vectors, under one kernel, one set of landmarks and one prior.

With K = k(z, z) = U Λ Uᵀ the coordinates of an embedding are c = Wᵀμ(z), W = U Λ^(-1/2): plain inner
products of coordinates are μ(z)ᵀ K⁻¹ μ'(z), those of the RKHS after projection on span k(·, z). The posterior
of `fit_embedding` (Eq. 8 of the paper) is taken in these coordinates, where it is well conditioned: values at
neighbouring landmarks hardly differ, and solving for them there moved coordinates by 1e-4 when nothing but
the order of a sum had changed (here 1e-7).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import Cholesky, cholesky
from kembed.embeddings.posterior import feature_moments
from kembed.kernels.base import Kernel
from kembed.kernels.measures import GaussianMeasure

Rows = Float[np.ndarray, "n D"]
# Directions with less than this share of K's largest eigenvalue hold no more than 1e-4 of a feature, and
# the rounding of K (1e-16) divided by a smaller one would show.
LEAST_EIGENVALUE = 1e-8


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The prior N(0, R) of the coordinates, and the noise of one row."""

    kernel: Kernel
    landmarks: Float[np.ndarray, "m D"]
    axes: Float[np.ndarray, "m q"]  # W
    prior: Float[np.ndarray, "q q"]  # R = Wᵀ r(z, z) W
    noise: Float[np.ndarray, "q q"] | None  # N, the same for all bags; None: estimated from each bag

    def moments(self, x: Rows, want_covariance: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance, over the rows of a bag, of the coordinates of k(·, x)."""
        mean, scatter = feature_moments(self.kernel, x, self.landmarks, want_covariance)
        return mean @ self.axes, self.axes.T @ scatter @ self.axes

    def posterior(self, bags: Sequence[Rows], want_sd: bool) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean R A⁻¹ ĉ of every bag, A = R + N/n, and the sd from R - R A⁻¹ R."""
        means = np.empty((len(bags), len(self.prior)))
        sds = np.empty_like(means)
        shared: dict[int, tuple[Cholesky, np.ndarray]] = {}  # bags of one size have one A
        for i, x in enumerate(bags):
            observed, own = self.moments(x, want_covariance=self.noise is None)
            if self.noise is None or len(x) not in shared:
                noise = own if self.noise is None else self.noise
                A = cholesky(self.prior + noise / len(x), well_conditioned=True)
                half = A.half_solve(self.prior) if want_sd else np.zeros((1, len(self.prior)))
                variance = np.diagonal(self.prior) - (half**2).sum(axis=0)
                shared[len(x)] = A, np.sqrt(np.maximum(variance, 0.0))
            A, sds[i] = shared[len(x)]
            means[i] = self.prior @ A.solve(observed)
        return means, sds


def make_coordinates(
    bags: Sequence[Rows], kernel: Kernel, landmarks: Float[np.ndarray, "m D"], noise: float | str
) -> Coordinates:
    """Axes and prior from the pooled rows; the noise is "pooled", "full" (each bag's own) or one τ²."""
    axes = feature_axes(kernel, landmarks)
    measure = GaussianMeasure.of(np.concatenate(bags))
    prior = axes.T @ kernel.convolved(measure).gram(landmarks) @ axes
    blank = Coordinates(kernel, landmarks, axes, prior, None)
    if noise == "full":
        return blank
    if not isinstance(noise, str):
        return replace(blank, noise=noise * (axes.T @ axes))
    # The covariance within bags, over all bags; over all rows where every bag has but one.
    several = [x for x in bags if len(x) > 1] or [np.concatenate(bags)]
    total = sum((len(x) - 1) * blank.moments(x, want_covariance=True)[1] for x in several)
    return replace(blank, noise=np.asarray(total) / sum(len(x) - 1 for x in several))


def feature_axes(kernel: Kernel, landmarks: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m q"]:
    """W of these landmarks: coordinates are Wᵀk(z, ·)."""
    eigenvalues, vectors = np.linalg.eigh(kernel.gram(landmarks))
    kept = np.flatnonzero(eigenvalues > LEAST_EIGENVALUE * eigenvalues[-1])[::-1]
    # eigh may return either sign of a vector; the same data should give the same features everywhere.
    largest = np.abs(vectors[:, kept]).argmax(axis=0)
    return vectors[:, kept] * np.sign(vectors[largest, kept]) / np.sqrt(eigenvalues[kept])

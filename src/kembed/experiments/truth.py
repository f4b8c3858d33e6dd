"""The true embedding of a Gaussian mixture under a Gaussian kernel, in closed form."""

from __future__ import annotations

import numpy as np


def mixture_embedding(
    points: np.ndarray, lengthscale: float, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> np.ndarray:
    """E k(s, X) for X from Σ w N(m, C): Σ w √(|A|/|A+C|) exp(-½(s-m)ᵀ(A+C)⁻¹(s-m)), A = ℓ²I.

    `points` is (p, D), `weights` (c,), `means` (c, D), `covariances` (c, D, D).

    Examples
    --------
    >>> import numpy as np
    >>> from kembed.experiments.truth import mixture_embedding
    >>> one = mixture_embedding(np.zeros((1, 1)), 1.0, np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> one.round(3)  # 1/√2
    array([0.707])

    """
    total = np.zeros(len(points))
    area = lengthscale ** points.shape[1]
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        spread = lengthscale**2 * np.eye(len(mean)) + covariance
        offset = points - mean
        squares = (offset * np.linalg.solve(spread, offset.T).T).sum(axis=1)
        total += weight * area / np.sqrt(np.linalg.det(spread)) * np.exp(-0.5 * squares)
    return total

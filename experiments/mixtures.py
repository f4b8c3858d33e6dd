"""Mixtures of Gaussians: true embeddings in closed form, and the data of Figure 2, nine on a 3 × 3 grid.

There P has unit Gaussians; Q has the same centres, and covariances rotated by 45° with eigenvalues (ε, 1).
"""

import numpy as np
from scipy.stats import multivariate_normal

SPACING, EPSILON, ROWS, CELLS = 14.0, 2.0, 900, 9
ROTATION = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
CENTRES = SPACING * np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]), axis=-1).reshape(-1, 2)


def grid_sample(
    rng: np.random.Generator, rows: int = ROWS, epsilon: float = EPSILON, exact: bool = False
) -> np.ndarray:
    """P and Q pooled, `rows` from each; components drawn at random, or `exact`ly equally many of each."""
    if exact and rows % CELLS:
        raise ValueError(f"rows must be a multiple of {CELLS} for equal components, but {rows} was given")
    if exact:
        centres: np.ndarray = np.tile(np.repeat(CENTRES, rows // CELLS, axis=0), (2, 1))
    else:
        centres = SPACING * (rng.integers(0, 3, (2 * rows, 2)) - 1.0)
    noise = rng.normal(size=(2 * rows, 2))
    noise[rows:] = (noise[rows:] * np.sqrt([epsilon, 1.0])) @ ROTATION.T
    return centres + noise


def true_witness(points: np.ndarray, lengthscale: float, epsilon: float = EPSILON) -> np.ndarray:
    """μ_P - μ_Q in closed form."""
    weights = np.full(CELLS, 1.0 / CELLS)
    wide = ROTATION @ np.diag([epsilon, 1.0]) @ ROTATION.T
    both = (np.tile(covariance, (CELLS, 1, 1)) for covariance in (np.eye(2), wide))
    p, q = (mixture_embedding(points, lengthscale, weights, CENTRES, covariances) for covariances in both)
    return p - q


def mixture_embedding(
    points: np.ndarray, lengthscale: float, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> np.ndarray:
    """E k(s, X) for X from Σ w N(m, C), k Gaussian: Σ w √(|A|/|A+C|) exp(-½(s-m)ᵀ(A+C)⁻¹(s-m)), A = ℓ²I.

    `points` is (p, D), `weights` (c,), `means` (c, D), `covariances` (c, D, D).
    """
    dimension = points.shape[1]
    parts = zip(weights, means, covariances, strict=True)
    wide = lengthscale**2 * np.eye(dimension)
    density = sum(
        w * multivariate_normal(mean, wide + covariance).pdf(points) for w, mean, covariance in parts
    )
    return np.atleast_1d(density) * (2.0 * np.pi * lengthscale**2) ** (dimension / 2)

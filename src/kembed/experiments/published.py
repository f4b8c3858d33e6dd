"""The published objective: what it learns from given landmarks, and its surface over (ℓ, τ²)."""

import numpy as np

from kembed.kernels.stationary import Gaussian
from kembed.learning.learn import fit_kernel
from kembed.learning.learned_kernel import LearnedKernel
from kembed.learning.paper.likelihood import log_pseudolikelihood


def published(x: np.ndarray, landmarks: np.ndarray, noise: float = 1.0) -> LearnedKernel:
    """What `learn_kernel(objective="paper")` returns, without a warning where the best is an end."""
    return fit_kernel(x, Gaussian(), objective="paper", noise=noise, landmarks=landmarks)[0]


def mode_scales(learned: LearnedKernel) -> list[float]:
    """The lengthscales of all modes, from small to large."""
    return sorted(float(mode.kernel.lengthscale) for mode in learned.modes)


def paper_surface(
    x: np.ndarray, lengthscales: np.ndarray, noises: np.ndarray, landmarks: np.ndarray
) -> np.ndarray:
    """The published objective for one observation, at every lengthscale and τ²."""
    rows = [
        [log_pseudolikelihood(x, kernel=Gaussian(ell), noise=noise, landmarks=landmarks) for noise in noises]
        for ell in lengthscales
    ]
    return np.array(rows) / len(x)

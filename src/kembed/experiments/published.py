"""Local maxima of the published objective with τ² given, and of the leave-one-out one."""

from typing import NamedTuple

import numpy as np

from kembed.kernels.stationary import Gaussian
from kembed.learning.learned_kernel import LearnedKernel
from kembed.learning.paper.likelihood import log_pseudolikelihood

LENGTHSCALES = np.geomspace(0.3, 100.0, 40)


class Peak(NamedTuple):
    """A local maximum."""

    lengthscale: float
    value: float  # for one observation
    best: bool  # whether no other local maximum is higher


def paper_objective(x: np.ndarray, lengthscale: float, landmarks: np.ndarray, noise: float = 1.0) -> float:
    """The published objective, for one observation."""
    kernel = Gaussian(lengthscale)
    return float(log_pseudolikelihood(x, kernel=kernel, noise=noise, landmarks=landmarks)) / len(x)


def paper_surface(
    x: np.ndarray, lengthscales: np.ndarray, noises: np.ndarray, landmarks: np.ndarray
) -> np.ndarray:
    """The published objective for one observation, at every lengthscale and τ²."""
    return np.array([[paper_objective(x, ell, landmarks, noise) for noise in noises] for ell in lengthscales])


def paper_peaks(
    x: np.ndarray, landmarks: np.ndarray, noise: float = 1.0, scales: np.ndarray = LENGTHSCALES
) -> tuple[np.ndarray, list[Peak]]:
    """The published objective at the lengthscales, and its local maxima between them, from small to large."""
    from scipy.optimize import minimize_scalar

    values = np.array([paper_objective(x, scale, landmarks, noise) for scale in scales])
    found = []
    for k in np.flatnonzero((np.diff(values)[:-1] >= 0.0) & (np.diff(values)[1:] < 0.0)) + 1:
        bounds = np.log(scales[[k - 1, k + 1]])
        fit = minimize_scalar(lambda log: -paper_objective(x, np.exp(log), landmarks, noise), bounds=bounds)
        found.append((float(np.exp(fit.x)), -float(fit.fun)))
    return values, _peaks(found)


def learned_peaks(learned: LearnedKernel) -> list[Peak]:
    """The modes of the leave-one-out objective, from small to large."""
    return _peaks([(float(mode.kernel.lengthscale), mode.log_evidence / learned.n) for mode in learned.modes])


def best(peaks: list[Peak]) -> float:
    """The lengthscale of the highest."""
    return max(peaks, key=lambda peak: peak.value).lengthscale


def _peaks(found: list[tuple[float, float]]) -> list[Peak]:
    return [Peak(*one, one[1] == max(value for _, value in found)) for one in sorted(found)]

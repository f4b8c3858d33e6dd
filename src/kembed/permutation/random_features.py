"""Random Fourier features: k(x, y) ≈ φ(x)·φ(y) with few cosines (Rahimi & Recht 2007).

A kernel that is a mixture of squared exponentials has a spectral density that is a mixture of normals: draw a
component, draw a frequency. The approximation enters the statistic, not the level of the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.kernels.base import Kernel
from kembed.permutation.low_rank import Factor

if TYPE_CHECKING:
    from jaxtyping import Float

DEFAULT = 256


def random_features(
    kernel: Any, x: Float[np.ndarray, "N D"], count: int, rng: np.random.Generator, argument: str
) -> Factor:
    """`count` features, cosines and sines of half as many frequencies."""
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"statistic='features' needs a kernel object or a word, but {argument} is {kernel!r}; "
            "a function has no spectral density"
        )
    try:
        parts = kernel.components(x.shape[1])
    except TypeError:
        raise TypeError(
            f"statistic='features' needs numeric columns and a mixture of Gaussians, but {argument} stands "
            f"for {kernel!r}; drop the discrete columns, or use statistic='unbiased'"
        ) from None
    weights = np.exp(np.asarray(parts.log_weights))
    half = max(1, count // 2)
    drawn = rng.choice(len(weights), half, p=weights / weights.sum())
    normal = rng.standard_normal((half, x.shape[1]))
    precision = np.asarray(parts.precision)
    if precision.ndim == 2:
        frequencies = normal * np.sqrt(precision[drawn])
    else:
        frequencies = np.einsum("fij,fj->fi", np.linalg.cholesky(precision)[drawn], normal)
    phase = (x - np.median(x, axis=0)) @ frequencies.T
    scale = np.sqrt(weights.sum() / half)
    return Factor(scale * np.concatenate([np.cos(phase), np.sin(phase)], axis=1))

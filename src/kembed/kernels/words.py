"""What kernels are called in sentences."""

from typing import Any

import numpy as np

from kembed.core.text import shortened
from kembed.kernels.composite import Product
from kembed.kernels.discrete import Delta, OnColumns
from kembed.kernels.stationary import Gaussian

LONGEST = 70  # characters of a kernel that has no words of its own


def in_words(kernel: Any) -> str:
    """Describe a kernel, or a pair of them, in a few words; lengthscales as a range.

    >>> in_words(Gaussian([1.0, 2.5]))
    'Gaussian, lengthscales 1 to 2.5'
    """
    if isinstance(kernel, tuple):
        return " with ".join(map(in_words, kernel))
    if hasattr(kernel, "ridge"):
        return f"whitened {in_words(kernel.kernel)}"
    if isinstance(kernel, Gaussian):
        scales = np.ravel(kernel.lengthscale)
        if np.ptp(scales) == 0.0:
            return f"Gaussian, lengthscale {scales[0]:.3g}"
        return f"Gaussian, lengthscales {scales.min():.3g} to {scales.max():.3g}"
    if isinstance(kernel, OnColumns):
        return "equality of text" if isinstance(kernel.kernel, Delta) else in_words(kernel.kernel)
    if isinstance(kernel, Product):
        return " and ".join(map(in_words, kernel.kernels))
    return shortened(repr(kernel), LONGEST)

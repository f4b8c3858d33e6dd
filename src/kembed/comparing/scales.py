"""Which scale a witness is shown at, where none is asked for: the one of a few that shows most.

A fine kernel sees narrow differences and drowns wide ones; a wide kernel blurs. So the learned scale is tried
beside wider ones, up to the median distance. The bands hold at all points of all scales at once, so that any
of them may be chosen.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from kembed.comparing.bands import REFERENCE_ROWS, Sup, make_bands, suprema
from kembed.comparing.difference import Difference, Points, Samples, balanced_rows, thinned
from kembed.core.backend import Float
from kembed.data.space import Space
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.learning.evidence import Evidence
from kembed.learning.kernel_samples import KernelSamples
from kembed.testing.kernel_words import choose_kernel

Chosen = tuple[Any, Evidence | None]  # a kernel, and what was learned
MINIMUM_ROWS = 5  # that a kernel can be learned from
WIDEST = 1.0  # times the median distance
STEP = 2.0  # between neighbouring scales, about
MOST = 3  # scales at most: each is a witness of its own
ENOUGH = 0.85  # a finer scale that shows this share of what the best one shows is preferred: it blurs less


def candidates(
    space: Space, scanned: Evidence | None = None
) -> tuple[list[tuple[Any, float]], Evidence | None]:
    """Kernels at the learned scale and wider ones with how much wider, the finest first; what was learned.

    What a test has `scanned` of the same rows already need not be learned again.
    """
    if scanned is None:
        kernel, learned = choose_kernel("bkl", space)
        if learned is None:
            return [(kernel, 1.0)], None
        scale = float(learned.model.kernel.lengthscale)
    else:
        learned, scale = scanned, float(scanned.peaks[0])
        scale /= 1.0 if scanned.unit else float(space.spread[0])  # of one column it is in that one's unit
    median = space.median()
    finest = min(scale, median)
    count = int(np.clip(np.ceil(1 + np.log(WIDEST * median / finest) / np.log(STEP) - 0.5), 1, MOST))
    scales = np.geomspace(finest, WIDEST * median, count)
    return [(space_kernel(space, float(scale)), float(scale / finest)) for scale in scales], learned


def clearest(
    differences: list[Difference], samples: Samples, points: Points, level: float, seed: int
) -> tuple[int, Sup]:
    """The place of the scale that shows most, and what its bands need to hold over all scales."""
    each = [suprema(one, samples, points, seed) for one in differences]
    # Rows are resampled alike at every scale, so the least tail over scales says at which level all hold.
    shares = [_share_above(sup.resampled) for sup in each]
    each = [replace(sup, tails=np.min(shares, axis=0)) for sup in each]
    rows = balanced_rows(samples, REFERENCE_ROWS, seed)
    bands = [make_bands(one, sup, rows, level) for one, sup in zip(differences, each, strict=True)]
    shown = np.array([band.excludes_zero.mean() for band in bands])
    best = int(np.flatnonzero(shown >= ENOUGH * shown.max())[0])
    return best, each[best]


def _share_above(values: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
    """Of the other values, the share above each: 0 for the largest, 1 for the least."""
    return (len(values) - np.searchsorted(np.sort(values), values, side="right")) / (len(values) - 1)


def one_kernel(
    kernel: Any, space: Space, n_kernels: int, seed: int, scanned: Evidence | None = None
) -> Chosen:
    """The kernel of a witness, and what was learned; a list is a mean over several, a tuple scales to try.

    `scanned` is what a test has learned of the same rows.
    """
    if isinstance(kernel, list | tuple) and len(kernel) == 1:
        (kernel,) = kernel
    if isinstance(kernel, KernelSamples):
        if space.categorical.any():
            raise ValueError("kernel=KernelSamples is for numeric columns; drop the columns with categories")
        return list(kernel.kernels(n_kernels, seed)), kernel.learned.evidence()
    if isinstance(kernel, list | tuple) or (isinstance(kernel, str) and kernel == "fused"):
        seen = "a witness takes one kernel, but kernel stands for several"
        raise ValueError(f"{seen}; give kernel='bkl', kernel='median' or a kernel object")
    if callable(kernel) and not isinstance(kernel, Kernel):
        seen = "kernel must be a word or a kernel object here"
        raise TypeError(f"{seen}; a plain function has no known diagonal")
    rows = len(space.values)
    if isinstance(kernel, str) and kernel in ("auto", "bkl", "ard") and rows < MINIMUM_ROWS:
        said = f"{rows} rows are too few to learn a kernel; the median heuristic is used"
        warnings.warn(said, UserWarning, stacklevel=3)
        kernel = "median"
    space = thinned(space, seed)
    if isinstance(kernel, str) and kernel == "auto":
        kernels, learned = candidates(space, scanned)
        return tuple(kernels) if len(kernels) > 1 else kernels[0][0], learned
    return choose_kernel(kernel, space)

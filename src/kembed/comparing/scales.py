"""Which scales a witness looks at, where none is asked for, and which of them it is shown at.

A fine kernel sees narrow differences and drowns wide ones; a wide kernel blurs. So the learned scale is tried
beside wider ones, up to the median distance, and one finer. The bands hold at all points of all scales at
once: at every point the finest scale that excludes 0 says which sample has more, and the witness is drawn at
the scale that shows most.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kembed.comparing.difference import (
    REFERENCE_ROWS,
    Bands,
    Difference,
    Points,
    Samples,
    Sup,
    balanced_rows,
    make_bands,
    suprema,
    thinned,
)
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import Space
from kembed.learning.evidence import Evidence
from kembed.learning.kernel_samples import KernelSamples
from kembed.learning.kernel_words import choose_kernel, posterior_kernels
from kembed.learning.quadrature import KernelPosterior

Chosen = tuple[Any, Evidence | None]  # a kernel, or several; what was learned
Scale = tuple[Difference, Sup]  # one of those that were tried, with what its bands need to hold over all
WIDEST = 1.0  # times the median distance: at twice that a tenth of what is found has the wrong sign
STEP = 2.0  # between neighbouring scales, about
MOST = 3  # scales at most from the learned one up: each is a witness of its own, and nine find no more
FINER = 0.5  # times the learned scale, the width of the best leave-one-out prediction
MINIMUM_ROWS = 5  # that a kernel can be learned from
ENOUGH = 0.85  # a finer scale that shows this share of what the best one shows is preferred: it blurs less


def candidates(
    space: Space, scanned: Evidence | None = None
) -> tuple[list[tuple[Any, float]], Evidence | None]:
    """Kernels about the learned scale with how much wider they are, the finest first; what was learned.

    What a test has `scanned` of the same rows already need not be learned again.
    """
    if scanned is None:
        kernel, learned = choose_kernel("bkl", space)
        if learned is None:
            return [(kernel, 1.0)], None
        scale, lowest = float(learned.model.kernel.lengthscale), float(learned.model.curve.lengthscale[0])
    else:
        unit = 1.0 if scanned.unit else float(space.spread[0])  # of one column it is in that one's unit
        learned, scale, lowest = scanned, scanned.peaks[0] / unit, scanned.lengthscales[0] / unit
    median = space.median()
    own = min(scale, median)
    count = int(np.clip(np.ceil(1 + np.log(WIDEST * median / own) / np.log(STEP) - 0.5), 1, MOST))
    finest = max(FINER * own, min(lowest, own))  # not below a column's resolution
    scales = np.unique([finest, *np.geomspace(own, WIDEST * median, count)])
    return [(space_kernel(space, float(scale)), float(scale / own)) for scale in scales], learned


def clearest(
    differences: list[Difference],
    widened: Sequence[float],
    samples: Samples,
    points: Points,
    level: float,
    seed: int,
) -> tuple[int, tuple[Scale, ...]]:
    """Which scale shows most, of the learned one and wider ones, and all scales with what bands need."""
    each = [suprema(one, samples, points, seed) for one in differences]
    # Rows are resampled alike at every scale, so the least tail over scales says at which level all hold.
    shares = []
    for sup in each:
        larger = len(sup.resampled) - np.searchsorted(np.sort(sup.resampled), sup.resampled, side="right")
        shares.append(larger / (len(sup.resampled) - 1))
    each = [replace(sup, tails=np.min(shares, axis=0)) for sup in each]
    rows = balanced_rows(samples, REFERENCE_ROWS, seed)
    scales = tuple(zip(differences, each, strict=True))
    shown = np.array([make_bands(*scale, rows, level).excludes_zero.mean() for scale in scales])
    allowed = np.array(widened) >= 1.0
    best = np.flatnonzero(allowed & (shown >= ENOUGH * shown[allowed].max()))[0]
    return int(best), scales


def finest_sure(shown: Bands, scales: tuple[Scale, ...], points: Points, level: float) -> Bands:
    """At every point the bands of the finest scale that excludes 0 there; those shown where none does."""
    found = shown
    for scale in reversed(scales):
        bands = make_bands(*scale, points, level)
        found = Bands(*(np.where(bands.excludes_zero, *both) for both in zip(bands, found, strict=True)))
    return found


def one_kernel(
    kernel: Any, space: Space, n_kernels: int, seed: int, scanned: Evidence | None = None
) -> Chosen:
    """The kernel of a witness, and what was learned; a list is a mean over several, a tuple scales to try.

    `scanned` is what a test has learned of the same rows.
    """
    if isinstance(kernel, list | tuple) and len(kernel) == 1:
        (kernel,) = kernel
    if isinstance(kernel, KernelSamples | KernelPosterior):
        if space.categorical.any():
            seen = f"kernel={type(kernel).__name__} is for numeric columns, but some hold categories"
            raise ValueError(f"{seen}; give kernel='posterior', or drop those columns")
        return list(kernel.kernels(n_kernels, seed)), kernel.learned.evidence()
    if isinstance(kernel, list | tuple) or (isinstance(kernel, str) and kernel == "fused"):
        seen = "a witness takes one kernel, but kernel stands for several"
        raise ValueError(f"{seen}; give kernel='bkl', kernel='median' or a kernel object")
    if callable(kernel) and not isinstance(kernel, Kernel):
        seen = "kernel must be a word or a kernel object here"
        raise TypeError(f"{seen}; a plain function has no known diagonal")
    rows = len(space.values)
    learned_words = "auto", "bkl", "ard", "paper", "posterior"
    if isinstance(kernel, str) and kernel in learned_words and rows < MINIMUM_ROWS:
        said = f"{rows} rows are too few to learn a kernel; the median heuristic is used"
        warnings.warn(said, UserWarning, stacklevel=3)
        kernel = "median"
    space = thinned(space, seed)
    if isinstance(kernel, str) and kernel == "auto":
        kernels, learned = candidates(space, scanned)
        return tuple(kernels) if len(kernels) > 1 else kernels[0][0], learned
    if isinstance(kernel, str) and kernel == "posterior":
        return posterior_kernels(space, n_kernels)
    return choose_kernel(kernel, space)

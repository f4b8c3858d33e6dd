"""Kernels on residuals: what `kernel=` means in a conditional test, as features.

Residual columns have unit variance, so lengthscales are in standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.conditional.conditioning import leading_features
from kembed.core.backend import to_numpy
from kembed.data.space import make_space
from kembed.kernels.base import Kernel
from kembed.kernels.stationary import Gaussian
from kembed.learning.scan import COARSE, best_scale, scan_evidence
from kembed.testing.kernel_words import unwrapped

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

WORDS = ("bkl", "median", "fused")
LANDMARKS = 60
# "fused": the evidence's own scale, and these times the median distance.
FUSED_RATIOS = (4.0, 0.25)
LEAST_ROWS = 8  # fewer say nothing about scales
STAND_IN = 0.7  # of the median distance, where there is no evidence


@dataclass(frozen=True, eq=False)
class Features:
    """A kernel's leading centred features at the residuals, largest first."""

    kernel: Kernel | str
    values: Float[np.ndarray, "n r"]
    freedom: float = 0.0  # degrees of freedom spent on what they are given


def check(kernel: Any, argument: str = "kernel") -> tuple[Any, ...]:
    """The kernels asked for, as a tuple of words and kernel objects."""
    kernel = unwrapped(kernel)
    if isinstance(kernel, list):
        if not kernel:
            raise ValueError(f"{argument} is an empty list; give at least one kernel")
        return tuple(part for one in kernel for part in check(one, argument))
    if isinstance(kernel, str) and kernel == "fused":
        return ("bkl", *(("median", ratio) for ratio in FUSED_RATIOS))
    if (isinstance(kernel, str) and kernel in WORDS) or isinstance(kernel, Kernel):
        return (kernel,)
    words = ", ".join(repr(word) for word in WORDS)
    raise (ValueError if isinstance(kernel, str) else TypeError)(
        f"{argument} must be one of {words}, a kernel object such as kembed.Gaussian(1.0) (in standard "
        f"deviations of the residuals) or a list of these, but {kernel!r} was given"
    )


def features(columns: Float[np.ndarray, "n k"], indicator: Bool[np.ndarray, " k"], kernel: Any) -> Features:
    """The features of one kernel that `check` has let through.

    Indicators are their own features, whatever the kernel: what z says about a category is its probability
    alone, and a kernel on what is left of a 0 or a 1 would read that probability back.
    """
    if indicator.all():
        return Features("categories", columns - columns.mean(axis=0))
    if not isinstance(kernel, Kernel):
        kernel = Gaussian(_lengthscale(columns, kernel))
    kernel = to_numpy(kernel)
    marks = _marks(columns)
    values, vectors = leading_features(kernel.gram(columns, marks), kernel.gram(marks))
    return Features(kernel, vectors * np.sqrt(values))


def _lengthscale(columns: Float[np.ndarray, "n k"], word: Any) -> float:
    if word == "bkl" and len(columns) >= LEAST_ROWS:
        return best_scale(scan_evidence(columns, COARSE))
    median = make_space(columns, np.zeros(columns.shape[1], dtype=bool)).median()
    ratio = 1.0 if word == "median" else STAND_IN if word == "bkl" else word[1]
    return float(ratio * median)


def _marks(columns: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "m k"]:
    """Landmarks: quantiles of a single column, else some rows, which come in an order that says nothing."""
    if columns.shape[1] > 1:
        return np.unique(columns[: 2 * LANDMARKS], axis=0)
    return np.unique(np.quantile(columns[:, 0], (np.arange(LANDMARKS) + 0.5) / LANDMARKS))[:, None]

"""Kernels on residuals: what `kernel=` means in a conditional test, as features.

Words mean what they mean everywhere (`testing.kernel_words`), about residual columns, which have unit
variance: lengthscales are in standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.conditional.conditioning import leading_features
from kembed.core.backend import to_numpy
from kembed.data.space import make_space
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.learning.evidence import COARSE
from kembed.testing import kernel_words
from kembed.testing.kernel_words import choose_kernel, unwrapped

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

# Hundreds of kernels are chosen in a search, by scans; a lengthscale for every column has none.
WORDS = tuple(word for word in kernel_words.WORDS if word != "ard")
LANDMARKS = 60  # of the residual kernel: a smooth kernel on one column has fewer features that count
FUSED_RATIOS = (4.0, 0.25)  # times the median distance: what "fused" sees beside the evidence's own scale


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """A kernel's leading centred features at the residuals, largest first."""

    kernel: Kernel | str
    values: Float[np.ndarray, "n r"]
    freedom: float = 0.0  # degrees of freedom spent on what they are given


def check(kernel: Any, argument: str = "kernel") -> tuple[Any, ...]:
    """The kernels asked for, as a tuple of words and kernel objects."""
    kernel = unwrapped(kernel)
    if isinstance(kernel, list | tuple):
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


def kernel_features(
    columns: Float[np.ndarray, "n k"], indicator: Bool[np.ndarray, " k"], kernel: Any
) -> KernelFeatures:
    """The features of one kernel that `check` has let through.

    Indicators are their own features, whatever the kernel: what z says about a category is its probability
    alone, and a kernel on what is left of a 0 or a 1 would read that probability back.
    """
    if indicator.all():
        return KernelFeatures("categories", columns - columns.mean(axis=0))
    space = make_space(columns, np.zeros(columns.shape[1], dtype=bool))
    if isinstance(kernel, tuple):
        kernel = space_kernel(space, kernel[1] * space.median())
    kernel = to_numpy(choose_kernel(kernel, space, effort=COARSE)[0])
    marks = _marks(columns)
    values, vectors = leading_features(kernel.gram(columns, marks), kernel.gram(marks))
    return KernelFeatures(kernel, vectors * np.sqrt(values))


def _marks(columns: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "m k"]:
    """Landmarks: quantiles of a single column, else some rows, which come in an order that says nothing."""
    if columns.shape[1] > 1:
        return np.unique(columns[: 2 * LANDMARKS], axis=0)
    return np.unique(np.quantile(columns[:, 0], (np.arange(LANDMARKS) + 0.5) / LANDMARKS))[:, None]

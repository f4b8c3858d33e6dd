"""The evidence over scales: what was learned about a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.plotting.style import BLUE, GREY, VERMILION, axes_or_new, legend_above, log_ticks, short, tidy

if TYPE_CHECKING:
    from kembed.learning.learned_kernel import LearnedKernel
    from kembed.learning.scan import EvidenceScan

MODES = 4


def plot_learned(learned: LearnedKernel | EvidenceScan, ax: Any = None, *, unit: str = "") -> Any:
    """The objective over scales with every mode marked, the best one filled, and the median heuristic.

    `learned` is what `learn_kernel` returned, or what a fused test learned; `unit` says what lengthscales are
    measured in.
    """
    ax = axes_or_new(ax)
    scan = not hasattr(learned, "modes")
    scales, values = learned[:2] if scan else learned.curve  # type: ignore[index,union-attr]
    scales, values = (np.asarray(part)[np.isfinite(values)] for part in (scales, values))
    peaks = list(learned.peaks) if scan else [mode_scale(mode.kernel) for mode in learned.modes]  # type: ignore[union-attr]
    ax.plot(scales, values, color=BLUE, marker=".", markersize=3, linewidth=1.2)
    for rank, where in enumerate(float(peak) for peak in peaks):
        height = np.interp(np.log(where), np.log(scales), values)
        label = f"{'best' if rank == 0 else 'mode'}: {short(where)}" if rank < MODES else None
        face = VERMILION if rank == 0 else "white"
        ax.plot(where, height, "o", color=VERMILION, markerfacecolor=face, label=label)
    median = getattr(learned, "median", None)
    if median is not None:
        ax.vlines(
            median,
            0.0,
            1.0,
            color=GREY,
            linestyle="--",
            linewidth=1.2,
            transform=ax.get_xaxis_transform(),
            label=f"median rule: {short(median)}",
        )
    ax.set_xscale("log")
    top, bottom = float(values.max()), float(np.quantile(values, 0.2))
    span = max(top - bottom, 1e-3)
    ax.set_ylim(bottom - 0.3 * span, top + 0.15 * span)
    ax.set_xlabel("lengthscale" + (f" ({unit})" if unit else ""))
    ax.set_ylabel("log evidence per row")
    tidy(ax)
    log_ticks(ax.xaxis)
    legend_above(ax, columns=3)
    return ax


def mode_scale(kernel: Any) -> Any:
    """One number for a kernel's scale: the smallest of several scales, the geometric mean over columns."""
    if hasattr(kernel, "lengthscales"):
        return np.min(kernel.lengthscales)
    lengthscale = np.asarray(kernel.lengthscale)
    if lengthscale.ndim == 2:
        lengthscale = np.sqrt(np.diagonal(kernel.covariance))
    return np.exp(np.log(lengthscale).mean())

"""Figures of results, with matplotlib; nothing is computed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kembed.learned import LearnedKernel
    from kembed.samples import KernelSamples

BLUE, VERMILION, BLACK = "#0072B2", "#D55E00", "#000000"


def axes_or_new(ax: Any) -> Any:
    """The user's axes, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(5.0, 3.2), layout="constrained")[1]


def plot_learned(learned: LearnedKernel, ax: Any = None) -> Any:
    """The objective over scales with every mode marked, the best one filled."""
    ax = axes_or_new(ax)
    scales, values = (part[np.isfinite(learned.curve.log_evidence)] for part in learned.curve)
    ax.plot(scales, values, color=BLUE, marker=".", markersize=3)
    for rank, mode in enumerate(learned.modes):
        where = float(mode_scale(mode.kernel))
        height = np.interp(np.log(where), np.log(scales), values)
        ax.plot(
            where,
            height,
            "o",
            color=VERMILION,
            markerfacecolor=VERMILION if rank == 0 else "white",
            label=f"{'best' if rank == 0 else 'mode'}: {where:.3g}",
        )
    ax.set_xscale("log")
    top, bottom = float(values.max()), float(np.quantile(values, 0.2))
    span = max(top - bottom, 1e-3)
    ax.set_ylim(bottom - 0.3 * span, top + 0.15 * span)
    ax.set_xlabel("lengthscale")
    ax.set_ylabel("log evidence / observation")
    ax.set_title(f"{learned.family}, {learned.objective} objective", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    return ax


def mode_scale(kernel: Any) -> Any:
    """One number for a kernel's scale: the smallest of several scales, the geometric mean over columns."""
    if hasattr(kernel, "lengthscales"):
        return np.min(kernel.lengthscales)
    lengthscale = np.asarray(kernel.lengthscale)
    if lengthscale.ndim == 2:
        lengthscale = np.sqrt(np.diagonal(kernel.covariance))
    return np.exp(np.log(lengthscale).mean())


def plot_samples(samples: KernelSamples, ax: Any = None) -> Any:
    """Histograms of log lengthscale by chain: chains that agree lie on top of one another."""
    ax = axes_or_new(ax)
    values = np.log10(samples.lengthscale.reshape(*samples.lengthscale.shape[:2], -1)[:, :, 0])
    bins = np.linspace(values.min(), values.max(), 40)
    for chain, value in enumerate(values):
        ax.hist(10.0**value, 10.0**bins, histtype="step", density=True, label=f"chain {chain + 1}")
    ax.set_xscale("log")
    ax.set_xlabel("lengthscale")
    ax.set_ylabel("posterior density")
    ax.legend(frameon=False, fontsize="small")
    return ax

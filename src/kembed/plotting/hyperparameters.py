"""The posterior of hyperparameters, chain by chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.plotting.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    axes_or_new,
    legend_above,
    log_ticks,
    tidy,
)

if TYPE_CHECKING:
    from kembed.learning.kernel_samples import KernelSamples

CHAINS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
LINES = ("-", "--", ":", "-.")
BINS = 40


def plot_samples(
    samples: KernelSamples, ax: Any = None, *, parameter: str | None = None, column: int = 0
) -> Any:
    """Histograms of a hyperparameter by chain: chains that agree lie on top of one another.

    `parameter` is a name in `samples.variables`, the lengthscale unless given; `column` says which one where
    there are several (ARD, several scales).
    """
    name = parameter or ("lengthscale" if "lengthscale" in samples.variables else "lengthscales")
    if name not in samples.variables:
        known = ", ".join(repr(one) for one in samples.variables)
        raise ValueError(f"parameter must be one of {known}, but {parameter!r} was given")
    draws = samples.variables[name]
    draws = draws.reshape(*draws.shape[:2], -1)
    if not 0 <= column < draws.shape[2]:
        raise ValueError(
            f"column must be from 0 to {draws.shape[2] - 1} for {name!r}, but {column!r} was given"
        )
    ax = axes_or_new(ax)
    several = draws.shape[2] > 1
    draws = draws[:, :, column]
    positive = bool((draws > 0.0).all())
    bins = _bins(draws, positive)
    for chain, drawn in enumerate(draws):
        style = LINES[chain % len(LINES)]
        colour = CHAINS[chain % len(CHAINS)]
        share = np.full(len(drawn), 1.0 / len(drawn))  # of draws: a density would not suit a logarithmic axis
        ax.hist(
            drawn,
            bins,
            weights=share,
            histtype="step",
            color=colour,
            linestyle=style,
            label=f"chain {chain + 1}",
        )
    ax.set_ylim(0.0, None)
    ax.set_ylabel("share of draws")
    ax.set_xlabel(name + (f" of column {column}" if several else ""))
    tidy(ax)
    if positive:
        ax.set_xscale("log")
        log_ticks(ax.xaxis)
    legend_above(ax, columns=4)
    return ax


def _bins(draws: np.ndarray, positive: bool) -> np.ndarray:
    """Edges that all chains share, even on the scale that is drawn; a little room where nothing moved."""
    low, high = float(draws.min()), float(draws.max())
    if positive:
        return (
            np.geomspace(low, high, BINS) if high > 1.001 * low else np.geomspace(0.9 * low, 1.1 * high, BINS)
        )
    return np.linspace(low, high, BINS) if high > low else np.linspace(low - 0.5, high + 0.5, BINS)

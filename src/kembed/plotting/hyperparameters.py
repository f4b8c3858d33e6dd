"""The posterior of hyperparameters, chain by chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.plotting import style

if TYPE_CHECKING:
    from kembed.learning.kernel_samples import KernelSamples

# Seven colours and four kinds of lines: 28 chains look different.
CHAINS = (style.BLUE, style.VERMILION, style.GREEN, style.ORANGE, style.PURPLE, style.SKY, style.BLACK)
LINES = ("-", "--", ":", "-.")
BINS = 40  # of a thousand draws a chain, 25 to a bin


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
    ax = style.axes_or_new(ax)
    several = draws.shape[2] > 1
    draws = draws[:, :, column]
    positive = bool((draws > 0.0).all())
    bins = _bins(draws, positive)
    for chain, drawn in enumerate(draws):
        look = {"color": CHAINS[chain % len(CHAINS)], "linestyle": LINES[chain % len(LINES)]}
        share = np.full(len(drawn), 1.0 / len(drawn))  # of draws: a density would not suit a logarithmic axis
        ax.hist(drawn, bins, weights=share, histtype="step", label=f"chain {chain + 1}", **look)
    ax.set_ylim(0.0, None)
    ax.set_ylabel("share of draws")
    ax.set_xlabel(name + (f" of column {column}" if several else ""))
    style.tidy(ax)
    if positive:
        ax.set_xscale("log")
        style.log_ticks(ax.xaxis)
    style.legend_above(ax, columns=4)
    return ax


def _bins(draws: np.ndarray, positive: bool) -> np.ndarray:
    """Edges that all chains share, even on the scale that is drawn; a little room where nothing moved."""
    low, high = float(draws.min()), float(draws.max())
    if positive:
        ends = (low, high) if high > 1.001 * low else (0.9 * low, 1.1 * high)
        return np.geomspace(*ends, BINS)
    ends = (low, high) if high > low else (low - 0.5, high + 0.5)
    return np.linspace(*ends, BINS)

"""What was learned about a kernel: the predictive score over scales, and the posterior of hyperparameters."""

from typing import Any

import numpy as np

from kembed.learning.evidence import Evidence
from kembed.learning.kernel_samples import KernelSamples
from kembed.learning.learned_kernel import LearnedKernel
from kembed.plotting import style
from kembed.plotting.style import BLUE, GREY, VERMILION, short

MODES = 4  # named in the legend; more are marked only
# Seven colours and four kinds of lines: 28 chains look different.
CHAINS = (BLUE, VERMILION, style.GREEN, style.ORANGE, style.PURPLE, style.SKY, style.BLACK)
LINES = ("-", "--", ":", "-.")
BINS = 40  # of a thousand draws a chain, 25 to a bin


def plot_learned(learned: LearnedKernel | Evidence, ax: Any = None) -> Any:
    """The objective over scales with every mode marked, the best one filled; the median rule and the range.

    `learned` is what `learn_kernel` returned, or the evidence that a test or a witness kept.
    """
    ax = style.axes_or_new(ax)
    evidence = learned if isinstance(learned, Evidence) else learned.evidence()
    finite = np.isfinite(evidence.log_evidence)
    scales, values = evidence.lengthscales[finite], evidence.log_evidence[finite]
    ax.plot(scales, values, color=BLUE, marker=".", markersize=3, linewidth=1.2)
    for rank, where in enumerate(float(peak) for peak in evidence.peaks):
        height = np.interp(np.log(where), np.log(scales), values)
        label = f"{'best' if rank == 0 else 'mode'}: {short(where)}" if rank < MODES else None
        face = VERMILION if rank == 0 else "white"
        ax.plot(where, height, "o", color=VERMILION, markerfacecolor=face, label=label)
    marks = (evidence.median, "median rule", "--"), (evidence.range, "range of the data", ":")
    for place, words, line in marks:
        look = {"color": GREY, "linestyle": line, "linewidth": 1.2, "transform": ax.get_xaxis_transform()}
        if place is not None:
            ax.vlines(place, 0.0, 1.0, label=f"{words}: {short(place)}", **look)
    top, bottom = float(values.max()), float(np.quantile(values, 0.2))
    span = max(top - bottom, 1e-3)
    unit = f" (in {evidence.unit})" if evidence.unit else ""
    ax.set(xscale="log", ylim=(bottom - 0.3 * span, top + 0.15 * span))
    ax.set(xlabel=f"lengthscale{unit}", ylabel="leave-one-out log likelihood per row")
    style.log_ticks(ax.xaxis)
    return style.finished(ax, columns=3)


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
    count = draws.shape[2]
    if not 0 <= column < count:
        raise ValueError(f"column must be from 0 to {count - 1} for {name!r}, but {column!r} was given")
    ax = style.axes_or_new(ax)
    draws = draws[:, :, column]
    positive = bool((draws > 0.0).all())
    bins = _bins(draws, positive)
    for chain, drawn in enumerate(draws):
        look = {"color": CHAINS[chain % len(CHAINS)], "linestyle": LINES[chain % len(LINES)]}
        share = np.full(len(drawn), 1.0 / len(drawn))  # of draws: a density would not suit a logarithmic axis
        ax.hist(drawn, bins, weights=share, histtype="step", label=f"chain {chain + 1}", **look)
    of = f" of column {column}" if count > 1 else ""
    ax.set(ylim=(0.0, None), ylabel="share of draws", xlabel=name + of)
    style.finished(ax, columns=4)
    if positive:
        ax.set_xscale("log")
        style.log_ticks(ax.xaxis)
    return ax


def _bins(draws: np.ndarray, positive: bool) -> np.ndarray:
    """Edges that all chains share, even on the scale that is drawn; a little room where nothing moved."""
    low, high = float(draws.min()), float(draws.max())
    if positive:
        ends = (low, high) if high > 1.001 * low else (0.9 * low, 1.1 * high)
        return np.geomspace(*ends, BINS)
    ends = (low, high) if high > low else (low - 0.5, high + 0.5)
    return np.linspace(*ends, BINS)

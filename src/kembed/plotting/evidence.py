"""The evidence over scales: what was learned about a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.learning.evidence import Evidence
from kembed.plotting.style import BLUE, GREY, VERMILION, axes_or_new, legend_above, log_ticks, short, tidy

if TYPE_CHECKING:
    from kembed.learning.learned_kernel import LearnedKernel

MODES = 4  # told in the legend; more are marked only


def plot_learned(learned: LearnedKernel | Evidence, ax: Any = None) -> Any:
    """The objective over scales with every mode marked, the best one filled, and the median heuristic.

    `learned` is what `learn_kernel` returned, or the evidence that a test or a witness kept.
    """
    ax = axes_or_new(ax)
    evidence = learned if isinstance(learned, Evidence) else learned.evidence()
    finite = np.isfinite(evidence.log_evidence)
    scales, values = evidence.lengthscales[finite], evidence.log_evidence[finite]
    ax.plot(scales, values, color=BLUE, marker=".", markersize=3, linewidth=1.2)
    for rank, where in enumerate(float(peak) for peak in evidence.peaks):
        height = np.interp(np.log(where), np.log(scales), values)
        label = f"{'best' if rank == 0 else 'mode'}: {short(where)}" if rank < MODES else None
        face = VERMILION if rank == 0 else "white"
        ax.plot(where, height, "o", color=VERMILION, markerfacecolor=face, label=label)
    median = evidence.median
    if median is not None:
        look = {"color": GREY, "linestyle": "--", "linewidth": 1.2, "transform": ax.get_xaxis_transform()}
        ax.vlines(median, 0.0, 1.0, label=f"median rule: {short(median)}", **look)
    ax.set_xscale("log")
    top, bottom = float(values.max()), float(np.quantile(values, 0.2))
    span = max(top - bottom, 1e-3)
    ax.set_ylim(bottom - 0.3 * span, top + 0.15 * span)
    ax.set_xlabel("lengthscale" + (f" (in {evidence.unit})" if evidence.unit else ""))
    ax.set_ylabel("log evidence per row")
    tidy(ax)
    log_ticks(ax.xaxis)
    legend_above(ax, columns=3)
    return ax

"""The evidence of a monitor over the batches, and where it alarms."""

from typing import Any

import numpy as np

from kembed.plotting.style import (
    BLUE,
    GREY,
    LABEL_WIDTH,
    VERMILION,
    axes_or_new,
    finished,
    literal,
    log_ticks,
    short,
)
from kembed.testing.monitor import Monitor

TICKS = 8  # labels of batches along the axis, at most
LOWEST = 1e-2  # evidence below this is drawn there


def plot_monitor(monitor: Monitor, ax: Any = None) -> Any:
    """The evidence for a change after every batch, on a logarithmic axis, and the threshold of the alarm."""
    result = monitor.result
    if result is None:
        raise ValueError("the monitor has seen no batch, so there is nothing to draw; call update first")
    ax = axes_or_new(ax, (6.4, 3.4))
    evidence = np.maximum(monitor.evidence, LOWEST)
    place = np.arange(1, len(evidence) + 1)
    ax.set_yscale("log")
    ax.axhline(result.threshold, color=GREY, linestyle="--", label=f"alarm at {short(result.threshold)}")
    ax.plot(
        place, evidence, color=BLUE, marker="o", markersize=3.0, linewidth=1.2, label="evidence for a change"
    )
    if result.alarm:
        began, since = (monitor.labels.index(str(label)) + 1 for label in (result.began, result.since))
        ax.axvspan(began - 0.5, len(evidence) + 0.5, color=VERMILION, alpha=0.12, linewidth=0.0)
        ax.plot(
            since,
            evidence[since - 1],
            "o",
            color=VERMILION,
            label=f"alarm: {literal(result.since, LABEL_WIDTH)}",
        )
    ax.set_xlim(0.5, len(evidence) + 0.5)
    ax.set_ylim(min(evidence.min(), 0.1) / 1.5, max(evidence.max(), result.threshold) * 2.0)
    shown = np.unique(np.linspace(1, len(evidence), min(TICKS, len(evidence))).round().astype(int))
    ax.set_xticks(
        shown, [literal(monitor.labels[k - 1], LABEL_WIDTH) for k in shown], rotation=30, ha="right"
    )
    ax.set_ylabel("evidence")
    log_ticks(ax.yaxis)
    return finished(ax, columns=3)

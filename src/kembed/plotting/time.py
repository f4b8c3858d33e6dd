"""Over time: the evidence of a monitor, and of a scan for changes with the columns that changed below it."""

from itertools import pairwise
from typing import Any

import numpy as np

from kembed.comparing.change_points import ChangePoints
from kembed.plotting import style
from kembed.plotting.style import BLUE, GREY, PALE, VERMILION, finished, literal, short
from kembed.testing.monitor import Monitor

MOST = 4  # columns that are shown
POINTS = 400  # more rows are shown by the means of as many groups of consecutive rows
TICKS = 8  # labels of batches along the axis, at most
LOWEST = 1e-2  # evidence below this is drawn there


def plot_monitor(monitor: Monitor, ax: Any = None) -> Any:
    """The evidence for a change after every batch, on a logarithmic axis, and the threshold of the alarm."""
    result = monitor.result
    if result is None:
        raise ValueError("the monitor has seen no batch, so there is nothing to draw; call update first")
    ax = style.axes_or_new(ax, (6.4, 3.4))
    evidence = np.maximum(monitor.evidence, LOWEST)
    place = np.arange(1, len(evidence) + 1)
    ax.set_yscale("log")
    ax.axhline(result.threshold, color=GREY, linestyle="--", label=f"alarm at {short(result.threshold)}")
    ax.plot(place, evidence, "o-", color=BLUE, markersize=3.0, linewidth=1.2, label="evidence for a change")
    if result.alarm:
        began, since = (monitor.labels.index(str(label)) + 1 for label in (result.began, result.since))
        ax.axvspan(began - 0.5, len(evidence) + 0.5, color=VERMILION, alpha=0.12, linewidth=0.0)
        label = f"alarm: {literal(result.since, style.LABEL_WIDTH)}"
        ax.plot(since, evidence[since - 1], "o", color=VERMILION, label=label)
    ax.set_xlim(0.5, len(evidence) + 0.5)
    ax.set_ylim(min(evidence.min(), 0.1) / 1.5, max(evidence.max(), result.threshold) * 2.0)
    shown = np.unique(np.linspace(1, len(evidence), min(TICKS, len(evidence))).round().astype(int))
    names = [literal(monitor.labels[k - 1], style.LABEL_WIDTH) for k in shown]
    ax.set_xticks(shown, names, rotation=30, ha="right")
    ax.set_ylabel("evidence")
    style.log_ticks(ax.yaxis)
    return finished(ax, columns=3)


def plot_change_points(found: ChangePoints, ax: Any = None) -> Any:
    """The evidence for a change at every time, and below it the columns that changed, with their means.

    Shaded are the 95% intervals. For a category the share of the level that changed most is shown. `ax` is
    the axes for the evidence alone; without it a figure is made. Returns the axes.
    """
    import matplotlib.pyplot as plt

    changed = dict.fromkeys(one.name for change in found.changes for one in change.columns)
    names = list(changed)[:MOST] or list(found.table.names)[:1]
    if ax is not None:
        return _evidence(found, ax, last=True)
    ratios = [1.5, *[1.0] * len(names)]
    size = (7.0, 1.6 * sum(ratios))
    rows = plt.subplots(len(ratios), sharex=True, figsize=size, height_ratios=ratios, layout="constrained")[1]
    _evidence(found, rows[0], last=False)
    for panel, name in zip(rows[1:], names, strict=True):
        _column(found, panel, name)
        finished(panel, [])
    _when(found, rows[-1])
    return rows


def _evidence(found: ChangePoints, ax: Any, *, last: bool) -> Any:
    times = _places(found)
    ax.plot(times[found.positions], found.evidence, color=BLUE, label="evidence for a change")
    label = f"highest in {100 * (1.0 - found.alpha):g}% of shuffled tables"
    ax.axhline(found.threshold, color=GREY, linestyle="--", label=label)
    look: Any = {"va": "top", "fontsize": "small", "color": VERMILION}
    look |= {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    for change in found.changes:
        low, high = change.interval
        ax.axvspan(times[low], times[high], color=PALE, zorder=0)
        ax.axvline(times[change.position], color=VERMILION)
        ax.annotate(change.label.removeprefix("at "), (times[change.position], 1.0), (3, -3), **look)
    ax.set_ylabel("-log p")
    if last:
        _when(found, ax)
    return finished(ax)


def _column(found: ChangePoints, ax: Any, name: str) -> None:
    """A column over time, or the share of a level, with its mean between changes."""
    table, times = found.table, _places(found)
    d = table.names.index(name)
    values, there = table.values[:, d], table.observed(d)
    edges = [0, *(change.position for change in found.changes), len(values)]
    label = literal(name)
    if table.categorical[d]:
        parts = [values[a:b] for a, b in pairwise(edges)]
        codes = range(len(table.levels[d]))
        shares = np.array([[np.mean(part == code) for code in codes] for part in parts])
        code = int(np.argmax(np.ptp(shares, axis=0)))
        values, label = (values == code).astype(float), f"share of {literal(table.levels[d][code])}"
    groups = max(1, len(values) // (POINTS if not table.categorical[d] else 40))
    start = np.arange(0, len(values), groups)
    count = np.add.reduceat(there.astype(float), start)
    means = np.add.reduceat(np.where(there, values, 0.0), start) / np.where(count > 0.0, count, np.nan)
    ax.plot(times[start + np.minimum(groups, len(values) - start) // 2], means, ".", color=GREY, markersize=3)
    for a, b in pairwise(edges):
        if there[a:b].any():
            ax.hlines(values[a:b][there[a:b]].mean(), times[a], times[b], color=BLUE, linewidth=2.0)
    for change in found.changes:
        ax.axvline(times[change.position], color=VERMILION)
    ax.set_ylabel(label, fontsize="small")


def _places(found: ChangePoints) -> np.ndarray:
    """Where every row stands on the axis, and the end."""
    numbers = found.times.values
    values = numbers if numbers.dtype.kind in "iuf" else np.arange(len(numbers))
    return np.append(values, values[-1])


def _when(found: ChangePoints, ax: Any) -> None:
    ax.set_xlabel(found.times.name or "row")
    style.count_in(ax.xaxis, found.times.unit)

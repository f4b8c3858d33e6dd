"""Changes over time: the evidence of a scan, and the columns that changed below it."""

from itertools import pairwise
from typing import Any

import numpy as np

from kembed.comparing.change_points import ChangePoints
from kembed.plotting.style import BLUE, GREY, PALE, VERMILION, count_in, finished, literal
from kembed.tables.times import DAYS

MOST = 4  # columns that are shown
POINTS = 400  # more rows are shown by the means of as many groups of consecutive rows


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
    ax.axhline(
        found.threshold,
        color=GREY,
        linestyle="--",
        label=f"highest in {100 * (1.0 - found.alpha):g}% of shuffled tables",
    )
    for change in found.changes:
        low, high = change.interval
        ax.axvspan(times[low], times[high], color=PALE, zorder=0)
        ax.axvline(times[change.position], color=VERMILION)
        ax.annotate(
            change.label.removeprefix("at "),
            (times[change.position], 1.0),
            (3, -3),
            va="top",
            fontsize="small",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=VERMILION,
        )
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
    count_in(ax.xaxis, DAYS if found.times.unit == DAYS else "")

"""A comparison: where, in which columns, which pairs of columns, the null distribution, the evidence."""

from typing import Any

import numpy as np

from kembed.comparing.compare import Comparison
from kembed.core.text import counted
from kembed.plotting import style
from kembed.plotting.learning import plot_learned
from kembed.plotting.style import BLUE, GREY, PALE, VERMILION, finished, literal, short
from kembed.plotting.witness import plot_witness
from kembed.testing.outcome import TestOutcome

TOP = 12  # bars that fit one under the other
ALPHA = 0.05  # where the result has no level of its own
LEAST = 5  # room for so many bars, so that one or two do not fill the panel
TITLES = ("Where they differ", "Which columns", "Could it be chance", "At which scale")
SHARE = "share of the difference that needs the column"
FEW_VALUES = 20  # with no more values than this every one is drawn; a histogram would only round them
BINS = 40  # a thousand draws, 25 to a bin
MARKS = 500  # rows of a sample: more would be a cloud
JITTER = 0.2  # of the step between two levels


def plot_comparison(comparison: Comparison, figure: Any = None) -> Any:
    """Four panels: the witness, the columns, the null distribution and the evidence for scales.

    `figure` is an empty figure to draw in; returns the axes, (2, 2).
    """
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(11.0, 8.0), layout="constrained")
    axes = figure.subplots(2, 2)
    if comparison.witness is not None:
        plot_witness(comparison.witness, axes[0, 0], labels=comparison.labels)
        plot_columns(comparison, axes[0, 1])
    else:
        _say_in(axes[0, 0], "the sketch keeps no rows,\nso there is no witness to show")
        plot_columns(comparison.test, axes[0, 1], alpha=comparison.alpha)
    plot_test(comparison.test, axes[1, 0])
    last = axes[1, 1]
    if comparison.evidence is not None:
        plot_learned(comparison.evidence, last)
    else:
        _say_in(last, "the kernel was not learned,\nso there is no predictive score to show")
    for ax, title in zip(axes.flat, TITLES, strict=True):
        style.titled(ax, title)
    return axes


def _say_in(ax: Any, words: str) -> None:
    """Words in place of a picture."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=ax.transAxes)


def plot_columns(found: Any, ax: Any = None, *, alpha: float | None = None, top: int = TOP) -> Any:
    """Bars of how much of the difference needs each column, with adjusted p-values.

    `found` is a `Comparison`, a `Witness` or its `relevance`, or a test with `by_column=True`, whose bars
    show the columns' own statistics. Columns with an adjusted p-value of at most `alpha` are filled and come
    first, the longest bar on top.
    """
    alpha = getattr(found, "alpha", ALPHA) if alpha is None else alpha
    bars, meaning = _bars(found)
    bars = sorted(bars, key=lambda bar: (not bar[2] <= alpha, -bar[1]))
    names, lengths, pvalues = zip(*bars[:top], strict=True)
    places = range(len(names))
    room = max(len(names), LEAST)
    ax = style.axes_or_new(ax, (5.0, 1.2 + 0.28 * room))
    for clear, colour, edge in ((True, BLUE, BLUE), (False, PALE, GREY)):
        chosen = [k for k in places if (pvalues[k] <= alpha) == clear]
        if chosen:
            label = f"p {'≤' if clear else '>'} {alpha:g}"
            ax.barh(chosen, [lengths[k] for k in chosen], 0.7, color=colour, edgecolor=edge, label=label)
    for place, p in enumerate(pvalues):
        ax.text(1.02, place, f"{p:.2g}", va="center", fontsize="small", transform=ax.get_yaxis_transform())
    ax.text(1.02, 1.01, "adjusted p", transform=ax.transAxes, va="bottom", fontsize="small", color=GREY)
    ax.set_yticks(list(places), [literal(name) for name in names])
    ax.set_ylim(room - 0.4, -0.6)  # the first on top
    ax.set_xlim(1.05 * min(0.0, *lengths), 1.05 * max(0.0, *lengths) or 1.0)
    rest = len(bars) - len(names)
    ax.set_xlabel(meaning + (f"\n({counted(rest, 'more column')} not shown)" if rest else ""))
    ax.tick_params(axis="y", length=0)
    return finished(ax)


def _bars(found: Any) -> tuple[list[tuple[str, float, float]], str]:
    """Name, length and p-value of every bar, and what the length means."""
    columns = getattr(found, "relevance", None) or getattr(found, "columns", found)
    if columns is None or not len(columns):
        raise ValueError("there are no results for columns; test with by_column=True, or give a Witness")
    key = "sensitivity" if hasattr(columns[0], "sensitivity") else "statistic"
    bars = [(one.name, float(getattr(one, key)), one.adjusted_pvalue) for one in columns]
    return bars, SHARE if key == "sensitivity" else key


def plot_pair(comparison: Comparison, columns: tuple[str, str], ax: Any = None) -> Any:
    """Rows of both samples by two of their columns; levels of a category side by side."""
    if comparison.witness is None:
        raise ValueError("a picture of two columns needs rows, and the sketch keeps none (keep_rows=)")
    ax = style.axes_or_new(ax)
    first, second = comparison.witness.tables
    places = [first.names.index(name) for name in columns]
    rng = np.random.default_rng(0)
    samples = zip((first, second), comparison.labels, (BLUE, VERMILION), (-1.0, 1.0), strict=True)
    for table, label, colour, side in samples:
        rows = rng.permutation(len(table.values))[:MARKS]
        marks = []
        for d in places:
            values = table.values[rows, d]
            if table.categorical[d]:  # samples beside each other at every level
                values = values + JITTER * (side + rng.uniform(-0.8, 0.8, len(values)))
            elif step := style.lattice(first.values[:, d], second.values[:, d]):  # or marks hide one another
                values = values + step * rng.uniform(-JITTER, JITTER, len(values))
            marks.append(values)
        ax.plot(*marks, ".", color=colour, markersize=3.0, alpha=0.6, label=literal(label, style.LABEL_WIDTH))
    for d, axis in zip(places, (ax.xaxis, ax.yaxis), strict=True):
        style.name_axis(axis, first, d)
    finished(ax)
    for handle in ax.get_legend().legend_handles:  # a dot of the picture is too small to show its colour
        handle.set(markersize=8.0, alpha=1.0)
    return ax


def plot_test(outcome: TestOutcome, ax: Any = None) -> Any:
    """The null distribution of the statistic, the observed value, and the p-value in words."""
    null = np.asarray(outcome.null_distribution)
    if not np.isfinite(outcome.statistic) or not len(null):
        seen = f"the statistic of this test is {outcome.statistic}, so there is nothing to draw"
        raise ValueError(f"{seen}; test with nan_policy='omit' to drop rows with missing values")
    ax = style.axes_or_new(ax)
    digits = max(float(np.abs(null).max()), abs(outcome.statistic)) * 1e-9
    rounded = np.round(null / digits) * digits if digits > 0.0 else null  # last digits make no new values
    values, counts = np.unique(rounded, return_counts=True)
    label = f"observed: {short(outcome.statistic)}"
    ax.axvline(outcome.statistic, color=VERMILION, linewidth=2.0, label=label)
    if len(values) <= FEW_VALUES:
        ax.vlines(values, 0.0, counts, color=GREY, linewidth=5.0, zorder=3, label=_drawn(outcome))
        ax.set_ylim(0.0, 1.15 * counts.max())
    else:  # one outline, which stays readable where the bars are narrow
        ax.hist(null, BINS, histtype="stepfilled", facecolor=PALE, edgecolor=GREY, label=_drawn(outcome))
    low, high = min(null.min(), outcome.statistic), max(null.max(), outcome.statistic)
    air = 0.05 * (high - low) or 0.5
    name = f"fused {outcome.name} (-log p)" if outcome.fused else outcome.name
    ax.set(xlim=(low - air, high + air), xlabel=name, ylabel="count")
    ax.set_title(_words(outcome), fontsize="medium", loc="left", pad=22)
    return finished(ax)


def _drawn(outcome: TestOutcome) -> str:
    """What the null distribution holds."""
    size = f"{len(outcome.null_distribution):,}"
    if outcome.enumerated:
        return f"all {size} arrangements"
    resampled = outcome.null in ("permutation", "wild", "shift")
    return f"{size} resamples" if resampled else f"{size} draws, {outcome.null} null"


def _words(outcome: TestOutcome) -> str:
    """What the p-value counts."""
    p = f"p = {outcome.pvalue:.2g}" if outcome.pvalue >= 1e-4 else "p < 0.0001"
    size = len(outcome.null_distribution)
    if outcome.null == "gamma":
        return f"{p} (gamma approximation)"
    if outcome.enumerated:  # the data's own arrangement is among them
        return f"{p}: {round(outcome.pvalue * size)} of {size} arrangements reach it"
    reached = round(outcome.pvalue * (size + 1)) - 1
    what = "draws" if outcome.null == "spectral" else "resamples"
    return f"{p}: {reached or 'none'} of {size:,} {what} reach it"

"""The null distribution of a test, and where the data fall in it."""

from typing import Any

import numpy as np

from kembed.plotting.style import GREY, PALE, VERMILION, axes_or_new, finished, short
from kembed.testing.outcome import TestOutcome

# With no more values than this every one is drawn; a histogram would only round them.
FEW_VALUES = 20
BINS = 40  # a thousand draws, 25 to a bin


def plot_test(outcome: TestOutcome, ax: Any = None) -> Any:
    """The null distribution of the statistic, the observed value, and the p-value in words."""
    null = np.asarray(outcome.null_distribution)
    if not np.isfinite(outcome.statistic) or not len(null):
        seen = f"the statistic of this test is {outcome.statistic}, so there is nothing to draw"
        raise ValueError(f"{seen}; test with nan_policy='omit' to drop rows with missing values")
    ax = axes_or_new(ax)
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

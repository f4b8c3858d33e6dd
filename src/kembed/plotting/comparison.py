"""A comparison on one page: where, in which columns, against which null, by what evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kembed.plotting.columns import plot_columns
from kembed.plotting.evidence import plot_learned
from kembed.plotting.null import plot_test
from kembed.plotting.style import GREY
from kembed.plotting.witness import plot_witness

if TYPE_CHECKING:
    from kembed.comparing.compare import Comparison


def plot_comparison(comparison: Comparison, figure: Any = None) -> Any:
    """Four panels: the witness, the columns, the null distribution and the evidence for scales.

    `figure` is an empty figure to draw in; returns the axes, (2, 2).
    """
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(11.0, 8.0), layout="constrained")
    axes = figure.subplots(2, 2)
    plot_witness(comparison.witness, axes[0, 0], labels=comparison.labels)
    plot_columns(comparison, axes[0, 1])
    plot_test(comparison.test, axes[1, 0])
    plot_evidence(comparison, axes[1, 1])
    return axes


def plot_evidence(comparison: Comparison, ax: Any) -> Any:
    """What was learned about the kernel's scale, by the witness or else by the test; words if nothing was."""
    learned = comparison.evidence
    if learned is None:
        ax.set_axis_off()
        words = "the kernel was not learned,\nso there is no evidence to show"
        ax.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=ax.transAxes)
        return ax
    return plot_learned(learned, ax)

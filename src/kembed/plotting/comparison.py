"""A comparison on one page: where, in which columns, against which null, by what evidence."""

from typing import Any

from kembed.comparing.compare import Comparison
from kembed.plotting.learning import plot_learned
from kembed.plotting.null import plot_test
from kembed.plotting.style import BLUE, GREY, PALE, axes_or_new, finished, literal, titled
from kembed.plotting.witness import plot_witness

TOP = 12  # bars that fit one under the other
ALPHA = 0.05  # where the result has no level of its own
LEAST = 5  # room for so many bars, so that one or two do not fill the panel
TITLES = ("Where they differ", "Which columns", "Could it be chance", "At which scale")
SHARE = "share of the difference that needs the column"


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
        titled(ax, title)
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
    ax = axes_or_new(ax, (5.0, 1.2 + 0.28 * room))
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
    ax.set_xlabel(meaning + (f"\n({rest} more column{'s' if rest > 1 else ''} not shown)" if rest else ""))
    ax.tick_params(axis="y", length=0)
    return finished(ax)


def _bars(found: Any) -> tuple[list[tuple[str, float, float]], str]:
    """Name, length and p-value of every bar, and what the length means."""
    if hasattr(found, "column_tests"):  # of a Witness; its relevance would learn lengthscales as well
        tests = found.column_tests
        shares = [float(share) for share in found.sensitivity]
        bars = [(test.name, share, test.adjusted_pvalue) for test, share in zip(tests, shares, strict=True)]
        return bars, SHARE
    columns = getattr(found, "columns", found)
    if columns is None or not len(columns):
        raise ValueError("there are no results for columns; test with by_column=True, or give a Witness")
    key = "sensitivity" if hasattr(columns[0], "sensitivity") else "statistic"
    bars = [(one.name, float(getattr(one, key)), one.adjusted_pvalue) for one in columns]
    return bars, SHARE if key == "sensitivity" else key

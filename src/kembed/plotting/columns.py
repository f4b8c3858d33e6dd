"""Which columns the difference is in."""

from __future__ import annotations

from typing import Any, NamedTuple

from kembed.plotting.style import BLUE, GREY, PALE, axes_or_new, legend_above, literal, tidy

TOP = 12  # bars that fit one under the other
ALPHA = 0.05  # where the result has no level of its own
LEAST = 5  # room for so many bars, so that one or two do not fill the panel
SHARE = "share of the difference that needs the column"


class _Bar(NamedTuple):
    name: str
    length: float
    pvalue: float


def plot_columns(found: Any, ax: Any = None, *, alpha: float | None = None, top: int = TOP) -> Any:
    """Bars of how much of the difference needs each column, with adjusted p-values.

    `found` is a `Comparison`, a `Witness` or its `relevance`, or a test with `by_column=True`, whose bars
    show the columns' own statistics. Columns with an adjusted p-value of at most `alpha` are filled and come
    first.
    """
    alpha = getattr(found, "alpha", ALPHA) if alpha is None else alpha
    bars, meaning = _bars(found)
    bars = sorted(bars, key=lambda bar: not bar.pvalue <= alpha)
    shown = bars[:top]
    ax = axes_or_new(ax, (5.0, 1.2 + 0.28 * max(len(shown), LEAST)))
    places = range(len(shown))
    for clear, colour, edge in ((True, BLUE, BLUE), (False, PALE, GREY)):
        chosen = [k for k in places if (shown[k].pvalue <= alpha) == clear]
        if chosen:
            label = f"p {'≤' if clear else '>'} {alpha:g}"
            ax.barh(chosen, [shown[k].length for k in chosen], 0.7, color=colour, edgecolor=edge, label=label)
    for place, bar in enumerate(shown):
        beside = ax.get_yaxis_transform()
        ax.text(1.02, place, f"{bar.pvalue:.2g}", va="center", fontsize="small", transform=beside)
    ax.text(1.02, 1.01, "adjusted p", transform=ax.transAxes, va="bottom", fontsize="small", color=GREY)
    ax.set_yticks(list(places), [literal(bar.name) for bar in shown])
    ax.set_ylim(max(len(shown), LEAST) - 0.4, -0.6)  # the first on top
    lengths = [bar.length for bar in shown]
    ax.set_xlim(1.05 * min(0.0, *lengths), 1.05 * max(0.0, *lengths) or 1.0)
    rest = len(bars) - len(shown)
    ax.set_xlabel(meaning + (f"\n({rest} more column{'s' if rest > 1 else ''} not shown)" if rest else ""))
    tidy(ax)
    ax.tick_params(axis="y", length=0)
    legend_above(ax)
    return ax


def _bars(found: Any) -> tuple[list[_Bar], str]:
    if hasattr(found, "column_tests"):  # of a Witness; its relevance would learn lengthscales as well
        bars = [
            _Bar(test.name, float(share), test.adjusted_pvalue)
            for test, share in zip(found.column_tests, found.sensitivity, strict=True)
        ]
        return sorted(bars, key=lambda bar: -bar.length), SHARE
    columns = getattr(found, "columns", found)
    if columns is None or not len(columns):
        raise ValueError("there are no results for columns; test with by_column=True, or give a Witness")
    share = hasattr(columns[0], "sensitivity")
    bars = [
        _Bar(one.name, float(one.sensitivity if share else one.statistic), one.adjusted_pvalue)
        for one in columns
    ]
    return bars, SHARE if share else "statistic"

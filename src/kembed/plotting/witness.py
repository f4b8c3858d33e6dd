"""The witness function: a curve with bands, levels with intervals, and which picture to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.plotting.plane import plot_map, plot_rows
from kembed.plotting.style import (
    AXIS_WIDTH,
    BLACK,
    BLUE,
    GREY,
    LABEL_WIDTH,
    NOTHING,
    VERMILION,
    axes_or_new,
    direction,
    legend_above,
    limits,
    literal,
    padded,
    rows_words,
    sparse,
    tidy,
    two_labels,
)

if TYPE_CHECKING:
    from kembed.comparing.witnessed import Witness

CURVE = 600
RUG = 500
LEVELS = 15


def plot_witness(
    w: Witness, ax: Any = None, *, labels: tuple[str, str] = ("x", "y"), columns: Any = None
) -> Any:
    """The witness with its uncertainty: above 0, or blue, where there is more x.

    One column: the mean, its pointwise and simultaneous bands, and shading where the simultaneous band
    excludes 0; for categories a dot and intervals for each level. Two numeric columns: a map. More columns:
    the rows, coloured by the witness, filled where the simultaneous band excludes 0, in the plane of the two
    most sensitive columns.

    `labels` are the names of the samples. `columns` chooses the plane: two columns by name or place, or
    `"principal"` for the two principal axes of the numeric columns over their spreads.
    """
    labels = two_labels(labels)
    if columns is not None or len(w.names) > 2 or (len(w.names) == 2 and w.categorical.any()):
        ax = plot_rows(w, ax, labels, columns)
    elif len(w.names) == 2:
        ax = plot_map(w, axes_or_new(ax, (5.6, 4.4)), labels)
    elif w.categorical[0]:
        ax = _levels(w, ax, labels)
    else:
        ax = _curve(w, axes_or_new(ax, (5.6, 3.8)), labels)
    tidy(ax)
    return ax


def _curve(w: Witness, ax: Any, labels: tuple[str, str]) -> Any:
    from matplotlib.patches import Patch

    name = w.names[0]
    x, y = (table.values[:, 0] for table in w.tables)
    pooled = np.concatenate([x, y])
    regions = w.where()
    low, high = limits(pooled, [region.peak[name] for region in regions])
    inside = pooled[(pooled >= low) & (pooled <= high)]
    grid = np.unique(np.concatenate([np.linspace(low, high, CURVE), sparse(inside, CURVE // 2)]))
    bands = w.at(grid[:, None])
    level = f"{100 * w.level:.4g}%"
    wide = ax.fill_between(
        grid,
        bands.simultaneous_lower,
        bands.simultaneous_upper,
        color=BLACK,
        alpha=0.13,
        linewidth=0.0,
        label=f"{level} simultaneous",
    )
    narrow = ax.fill_between(
        grid,
        bands.lower,
        bands.upper,
        color=BLACK,
        alpha=0.28,
        linewidth=0.0,
        label=f"{level} pointwise",
    )
    (mean,) = ax.plot(grid, bands.mean, color=BLACK, linewidth=1.6, label="witness")
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    handles = [mean, narrow, wide]
    for sign, label, colour, hatch in ((1, labels[0], BLUE, None), (-1, labels[1], VERMILION, "///")):
        spans = [region.box[name] for region in regions if region.sign == sign]
        style: dict[str, Any] = {
            "facecolor": colour,
            "alpha": 0.22,
            "hatch": hatch,
            "edgecolor": "white",
            "linewidth": 0.0,
        }
        for start, stop in spans:
            ax.axvspan(start, stop, zorder=0, **style)
        if spans:
            handles.append(Patch(**style, label=f"more {literal(label, LABEL_WIDTH)}"))
    ax.set_xlim(*padded(low, high))
    _rug(ax, x, labels[0], BLUE, 1)
    _rug(ax, y, labels[1], VERMILION, -1)
    beyond = int(((pooled < low) | (pooled > high)).sum())
    notes = [f"{rows_words(beyond)} of {len(pooled):,} beyond the axis"] if beyond else []
    if not regions:
        notes.append(f"the {level} band includes 0 everywhere")
    ax.set_xlabel("\n".join([literal(name, AXIS_WIDTH), *(f"({note})" for note in notes)]))
    ax.set_ylabel(direction(labels), fontsize="small")
    if max(np.abs(bands.simultaneous_lower).max(), np.abs(bands.simultaneous_upper).max()) < NOTHING:
        ax.set_ylim(-0.1, 0.1)
    legend_above(ax, handles, 3)
    return ax


def _rug(ax: Any, values: Any, label: str, colour: str, side: int) -> None:
    """Ticks at the rows: those of x on top, where the witness is positive, those of y at the bottom."""
    low, high = ax.get_xlim()
    shown = sparse(values[(values >= low) & (values <= high)], RUG)
    ax.plot(
        shown,
        np.full(len(shown), 0.98 if side > 0 else 0.02),
        "|",
        color=colour,
        alpha=float(np.clip(60.0 / max(len(shown), 1), 0.25, 0.9)),
        markersize=7,
        transform=ax.get_xaxis_transform(),
        label=f"rows of {literal(label, LABEL_WIDTH)}",
    )


def _levels(w: Witness, ax: Any, labels: tuple[str, str]) -> Any:
    """A dot for each level, thick for the pointwise interval and thin for the simultaneous one."""
    levels = w.tables[0].levels[0]
    bands = w._at(np.arange(float(len(levels)))[:, None], w.level)
    order = np.argsort(-np.abs(bands.mean), kind="stable")[:LEVELS]
    order = order[np.argsort(-bands.mean[order], kind="stable")]
    ax = axes_or_new(ax, (5.6, 1.6 + 0.3 * len(order)))
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    for place, code in enumerate(order):
        sure = bool(bands.excludes_zero[code])
        mean = float(bands.mean[code])
        colour = GREY if not sure else BLUE if mean > 0.0 else VERMILION
        whole = (bands.simultaneous_lower[code], bands.simultaneous_upper[code])
        ax.plot(whole, [place, place], color=colour, linewidth=1.2)
        ax.plot(
            (bands.lower[code], bands.upper[code]), [place, place], color=colour, linewidth=4.0, alpha=0.6
        )
        ax.plot(mean, place, "o", color=colour, markerfacecolor=colour if sure else "white", markersize=6)
    ax.set_yticks(range(len(order)), [literal(levels[code]) for code in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    hidden = len(levels) - len(order)
    ax.set_ylabel(literal(w.names[0], AXIS_WIDTH) + (f"\n({hidden} more levels not shown)" if hidden else ""))
    ax.set_xlabel(direction(labels))
    ax.set_title(
        f"thick: {100 * w.level:.4g}% interval of one level; thin: of all at once",
        fontsize="small",
        color=GREY,
        loc="left",
    )
    return ax

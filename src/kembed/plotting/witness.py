"""The witness function: a curve with bands, levels with intervals, and which picture to draw."""

from typing import Any

import numpy as np

from kembed.comparing.bands import Bands
from kembed.comparing.witness import Witness
from kembed.core.backend import Float
from kembed.plotting import style
from kembed.plotting.plane import Labels, plot_map, plot_rows
from kembed.plotting.style import BLACK, BLUE, GREY, VERMILION, literal, percent

CURVE = 600  # points of the curve: about one to a pixel
LEVELS = 15  # that fit one under the other


def plot_witness(w: Witness, ax: Any = None, *, labels: Labels = ("x", "y"), columns: Any = None) -> Any:
    """The witness with its uncertainty: above 0, or blue, where there is more x.

    One column: the mean, its pointwise and simultaneous bands, and shading where the simultaneous band
    excludes 0, dashed by another scale where that one decides; for categories a dot and intervals for each
    level. Two numeric columns: a map. More columns: the rows, coloured by the witness, filled where the
    simultaneous band excludes 0, in the plane of the two most sensitive columns.

    `labels` are the names of the samples. `columns` chooses the plane: two columns by name or place.
    """
    if isinstance(labels, str) or len(labels) != 2:
        raise TypeError(f"labels must be two names, of x and of y, but {labels!r} was given")
    labels = str(labels[0]), str(labels[1])
    if columns is not None or len(w.names) > 2 or (len(w.names) == 2 and w.categorical.any()):
        return plot_rows(w, ax, labels, columns)
    if len(w.names) == 2:
        return plot_map(w, ax, labels)
    return (_levels if w.categorical[0] else _curve)(w, ax, labels)


def _curve(w: Witness, ax: Any, labels: tuple[str, str]) -> Any:
    from matplotlib.patches import Patch

    ax = style.axes_or_new(ax, (5.6, 3.8))
    name, level = w.names[0], percent(w.level)
    x, y = (table.values[:, 0] for table in w.tables)
    pooled = np.concatenate([x, y])
    regions = w.where()
    low, high = style.limits(pooled, [region.peak[name] for region in regions])
    inside = (pooled >= low) & (pooled <= high)
    some = style.sparse(pooled[inside], CURVE // 2)
    grid = np.unique(np.concatenate([np.linspace(low, high, CURVE), some]))
    bands = w.at_rows(grid[:, None])
    shade: dict[str, Any] = {"color": BLACK, "linewidth": 0.0}
    ends = bands.simultaneous_lower, bands.simultaneous_upper
    wide = ax.fill_between(grid, *ends, alpha=0.13, label=f"{level} simultaneous", **shade)
    narrow = ax.fill_between(grid, bands.lower, bands.upper, alpha=0.28, label=f"{level} pointwise", **shade)
    (mean,) = ax.plot(grid, bands.mean, color=BLACK, linewidth=1.6, label="witness")
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    handles = [mean, narrow, wide]
    ax.set_xlim(*style.padded(low, high))
    # Rows of x on top, where the witness is positive, those of y at the bottom.
    looks = ((1, x, BLUE, None, 0.98), (-1, y, VERMILION, "///", 0.02))
    for label, (sign, values, colour, hatch, height) in zip(labels, looks, strict=True):
        of = literal(label, style.LABEL_WIDTH)
        style.rug(ax, values, height, color=colour, markersize=7, label=f"rows of {of}")
        spans = [region.box[name] for region in regions if region.sign == sign]
        look: dict[str, Any] = {"facecolor": colour, "edgecolor": "white", "alpha": 0.22, "hatch": hatch}
        for start, stop in spans:
            ax.axvspan(start, stop, zorder=0, linewidth=0.0, **look)
        if spans:
            handles.append(Patch(linewidth=0.0, label=f"more {of}", **look))
    if (decides := _another_scale(w, grid, bands, [region.box[name] for region in regions])) is not None:
        ax.fill_between(grid, decides[1], decides[2], alpha=0.13, **shade)
        (other,) = ax.plot(grid, decides[0], color=BLACK, linewidth=1.3, linestyle=(0, (3, 1.5)))
        other.set_label("scale that decides there")
        handles.insert(1, other)
    style.label_with_notes(
        ax,
        literal(name, style.AXIS_WIDTH),
        inside,
        "axis",
        w.level,
        bool(regions),
        f"shaded where any of {len(w.tried)} scales is sure" if decides is not None else None,
    )
    style.count_in(ax.xaxis, w.tables[0].unit(0))
    ax.set_ylabel(style.direction(labels), fontsize="small")
    if np.abs(ends).max() < style.NOTHING:
        ax.set_ylim(-0.1, 0.1)
    return style.finished(ax, handles, 3)


def _another_scale(
    w: Witness, grid: Float[np.ndarray, " p"], shown: Bands, spans: list[tuple[float, float]]
) -> Float[np.ndarray, "3 p"] | None:
    """Mean and ends of the band that decides in spans where the one that is shown does not; nan elsewhere."""
    inside = np.any([(grid >= start) & (grid <= stop) for start, stop in spans], axis=0)
    sure = w.sure_at(grid[:, None])
    differ = inside & np.any([sure.outside(sign) & ~shown.outside(sign) for sign in (1, -1)], axis=0)
    if not differ.any():
        return None
    ends = sure.simultaneous_lower, sure.simultaneous_upper
    return np.where(differ, np.stack([sure.mean, *ends]), np.nan)


def _levels(w: Witness, ax: Any, labels: tuple[str, str]) -> Any:
    """A dot for each level, thick for the pointwise interval and thin for the simultaneous one."""
    levels = w.tables[0].levels[0]
    bands = w.at_rows(np.arange(float(len(levels)))[:, None])
    order = np.argsort(-np.abs(bands.mean), kind="stable")[:LEVELS]
    order = order[np.argsort(-bands.mean[order], kind="stable")]
    ax = style.axes_or_new(ax, (5.6, 1.6 + 0.3 * len(order)))
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    for place, code in enumerate(order):
        mean, _, lower, upper, *whole = (float(values[code]) for values in bands)
        sure = bool(bands.excludes_zero[code])
        colour = GREY if not sure else BLUE if mean > 0.0 else VERMILION
        ax.plot(whole, [place, place], color=colour, linewidth=1.2)
        ax.plot((lower, upper), [place, place], color=colour, linewidth=4.0, alpha=0.6)
        ax.plot(mean, place, "o", color=colour, markerfacecolor=colour if sure else "white", markersize=6)
    ax.set_yticks(range(len(order)), [literal(levels[code]) for code in order])
    hidden = len(levels) - len(order)
    more = f"\n({hidden} more levels not shown)" if hidden else ""
    ax.set(ylim=(len(order) - 0.4, -0.6), ylabel=literal(w.names[0], style.AXIS_WIDTH) + more)
    ax.set_xlabel(style.direction(labels))
    title = f"thick: {percent(w.level)} interval of one level; thin: of all at once"
    ax.set_title(title, fontsize="small", color=GREY, loc="left")
    return style.finished(ax)

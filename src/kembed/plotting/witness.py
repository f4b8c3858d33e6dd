"""The witness: a curve with bands, levels with intervals, a map of two columns, or rows coloured by it."""

from itertools import product
from typing import Any

import numpy as np

from kembed.comparing.difference import Bands
from kembed.comparing.witness import Witness, column_place
from kembed.core.text import counted
from kembed.plotting import style
from kembed.plotting.style import BLACK, BLUE, GREY, VERMILION, literal, percent

Labels = tuple[str, str]
SIZE = (5.6, 4.4)  # room for a bar of colours beside the map
GRID = 50  # points to a side: contours look smooth
STEPS = 12  # colours: neighbouring ones can just be distinguished
# Rows of each sample that are drawn: on a map they lie under it, alone they are the picture.
ON_MAP, ROWS = 200, 400
JITTER = 0.28  # strips of neighbouring levels stay apart
DARK = "#333333"  # edges of rows
MARKERS = "o^"  # of x and of y
CURVE = 600  # points of the curve: about one to a pixel
LEVELS = 15  # that fit one under the other


def plot_witness(w: Witness, ax: Any = None, *, labels: Labels = ("x", "y"), columns: Any = None) -> Any:
    """The witness with its uncertainty: above 0, or blue, where there is more x.

    One column: the mean, its pointwise and simultaneous bands, and shading where the simultaneous band of
    any scale excludes 0; for categories a dot and intervals for each level. Two numeric columns: a map. More
    columns: the rows, coloured by the witness, filled where the simultaneous band excludes 0, in the plane of
    the two most sensitive columns.

    `labels` are the names of the samples. `columns` chooses the plane: two columns by name or place.
    """
    if isinstance(labels, str) or len(labels) != 2:
        raise TypeError(f"labels must be two names, of x and of y, but {labels!r} was given")
    labels = str(labels[0]), str(labels[1])
    if columns is not None or len(w.names) > 2 or (len(w.names) == 2 and w.categorical.any()):
        return _rows(w, ax, labels, columns)
    if len(w.names) == 2:
        return _map(w, ax, labels)
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
    style.name_axis(ax.xaxis, w.tables[0], 0)
    _note(ax, w, inside, bool(regions))
    ax.set_ylabel(style.direction(labels), fontsize="small")
    if np.abs(ends).max() < style.NOTHING:
        ax.set_ylim(-0.1, 0.1)
    return style.finished(ax, handles, 3)


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


def _map(w: Witness, ax: Any, labels: Labels) -> Any:
    """Filled contours of the mean, a heavy line where the simultaneous band excludes 0, thin scatters."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    ax = style.axes_or_new(ax, SIZE)
    pooled = np.concatenate([table.values for table in w.tables])
    ends = [style.limits(pooled[:, d]) for d in (0, 1)]
    X, Y = np.meshgrid(*(np.linspace(*style.padded(*end), GRID) for end in ends))
    places = np.column_stack([X.ravel(), Y.ravel()])
    mean, sure = w.at_rows(places).mean.reshape(X.shape), w.sure_at(places)
    levels = MaxNLocator(STEPS, symmetric=True).tick_values(*_colour_ends(mean))
    filled = ax.contourf(X, Y, mean, levels=levels, cmap=style.diverging())
    if np.ptp(mean) > style.NOTHING:  # negative levels are dashed, so the sign is there in grey print as well
        ax.contour(X, Y, mean, levels=levels[1:-1], colors=GREY, linewidths=0.5)
    look = {"markerfacecolor": "none", "markersize": 3.5, "markeredgewidth": 0.6, "alpha": 0.5}
    handles = []
    for rows, of, marker in zip(*_some_rows(w, labels, ON_MAP)[:2], MARKERS, strict=True):
        handles += ax.plot(*rows.T, marker, color=BLACK, label=of, **look)
    margin = np.maximum(sure.simultaneous_lower, -sure.simultaneous_upper).reshape(X.shape)
    if margin.min() < 0.0 < margin.max():
        ax.contour(X, Y, margin, levels=[0.0], colors=BLACK, linewidths=1.8)
        what = f"{percent(w.level)} band excludes 0 inside"
        handles.append(Line2D([], [], color=BLACK, linewidth=1.8, label=what))
    _set_axes(ax, w, (0, 1), ends, pooled, sure)
    _colour_bar(ax, filled, labels)
    return style.finished(ax, handles)


def _rows(w: Witness, ax: Any, labels: Labels, columns: Any) -> Any:
    """Rows in a plane, coloured by the witness, filled where the simultaneous band excludes 0."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D

    shown = list(_most_sensitive(w) if columns is None else _named(w, columns))
    axis_levels = [w.tables[0].levels[d] for d in shown]
    ax = style.axes_or_new(ax, SIZE)
    rows, captions, rng = _some_rows(w, labels, ROWS)
    every = np.concatenate(rows)
    mean, sure = w.at_rows(every).mean, w.sure_at(every)
    colours = ScalarMappable(Normalize(*_colour_ends(mean)), style.diverging("#A0A0A0"))
    parts = [part[:, shown] for part in rows]
    steps = [1.0 if axis_levels[d] else style.lattice(*(part[:, d] for part in parts)) for d in (0, 1)]
    for part, d in product(parts, (0, 1)):
        if steps[d]:  # spread out at random
            part[:, d] += steps[d] * rng.uniform(-JITTER, JITTER, len(part))
    places = np.concatenate(parts)
    from_x = np.arange(len(places)) < len(rows[0])
    for marker, mine in zip(MARKERS, (from_x, ~from_x), strict=True):
        for full in (False, True):
            these = np.flatnonzero(mine & (sure.excludes_zero == full))
            these = these[np.argsort(np.abs(mean[these]))]  # the largest on top
            colour = colours.to_rgba(mean[these])
            face, edge, width = (colour, DARK, 0.4) if full else ("none", colour, 0.9)
            look = {"facecolors": face, "edgecolors": edge, "linewidths": width, "zorder": 2 + full}
            ax.scatter(*places[these].T, s=20, marker=marker, **look)
    ends = [
        (-0.5, len(levels) - 0.5) if levels else style.limits(places[:, d])
        for d, levels in enumerate(axis_levels)
    ]
    _set_axes(ax, w, shown, ends, places, sure)
    _colour_bar(ax, colours, labels)
    filled = f"filled: {percent(w.level)} band excludes 0"
    keys = [*zip(MARKERS, captions, ("none", "none"), strict=True), ("o", filled, DARK)]
    mark: dict[str, Any] = {"linestyle": "", "color": DARK, "markersize": 4.5, "markeredgewidth": 0.8}
    handles = [Line2D([], [], marker=m, label=label, markerfacecolor=face, **mark) for m, label, face in keys]
    return style.finished(ax, handles)


def _most_sensitive(w: Witness) -> tuple[int, int]:
    """The two columns that matter most, one of them numeric if any is; categories go on the vertical axis."""
    order = [int(d) for d in np.argsort(-w.sensitivity, kind="stable")]
    first, second = order[:2]
    if w.categorical[first] and w.categorical[second] and not w.categorical.all():
        second = next(d for d in order if not w.categorical[d])
    return (second, first) if w.categorical[first] and not w.categorical[second] else (first, second)


def _named(w: Witness, columns: Any) -> tuple[int, int]:
    wanted = [columns] if isinstance(columns, str) or not hasattr(columns, "__len__") else list(columns)
    places = [column_place(w.names, column) for column in wanted]
    if len(places) != 2 or None in places or places[0] == places[1]:
        names = ", ".join(map(repr, w.names[:12])) + (", ..." if len(w.names) > 12 else "")
        what = f"columns must be two different columns of {names}"
        raise ValueError(f"{what}, but {columns!r} was given")
    return places[0], places[1]  # type: ignore[return-value]


def _some_rows(
    w: Witness, labels: Labels, size: int
) -> tuple[list[np.ndarray], list[str], np.random.Generator]:
    """At most so many rows of each sample, what to call them, and the generator that chose them."""
    rng = np.random.default_rng(w.seed)
    shown, captions = [], []
    for table, label in zip(w.tables, labels, strict=True):
        count = len(table.values)
        many = count > size
        shown.append(table.values[np.sort(rng.choice(count, size, replace=False))] if many else table.values)
        of = f", {size} of {count:,}" if many else ""
        captions.append(f"rows of {literal(label, style.LABEL_WIDTH)}{of}")
    return shown, captions, rng


def _colour_ends(mean: np.ndarray) -> tuple[float, float]:
    top = float(np.abs(mean).max())
    return (-top, top) if top > style.NOTHING else (-1.0, 1.0)


def _set_axes(ax: Any, w: Witness, columns: Any, ends: Any, places: np.ndarray, bands: Bands) -> None:
    """The ends and the names of both axes, with notes under the horizontal one."""
    low, high = zip(ax.set_xlim(*style.padded(*ends[0])), ax.set_ylim(*style.padded(*ends[1])), strict=True)
    for axis, d in zip((ax.xaxis, ax.yaxis), columns, strict=True):
        style.name_axis(axis, w.tables[0], d)
    inside = np.all((places >= low) & (places <= high), axis=1)
    _note(ax, w, inside, bool(bands.excludes_zero.any()))


def _note(ax: Any, w: Witness, inside: Any, sure: bool) -> None:
    """Under the horizontal axis: how many rows lie beyond, and whether and by which scales 0 is excluded."""
    beyond = int((~inside).sum())
    axes = "axis" if len(w.names) == 1 else "axes"
    notes = [f"({counted(beyond, 'row')} of {len(inside):,} beyond the {axes})"] if beyond else []
    if not sure:
        notes.append(f"(the {percent(w.level)} band includes 0 everywhere)")
    elif w.tried and len(w.names) == 1:
        notes.append(f"(shaded where any of {len(w.tried)} scales is sure)")
    ax.set_xlabel("\n".join([ax.get_xlabel(), *notes]))


def _colour_bar(ax: Any, mappable: Any, labels: Labels) -> None:
    from matplotlib.ticker import MaxNLocator

    bar = ax.figure.colorbar(mappable, ax=ax)
    bar.set_label(style.direction(labels), fontsize="small")
    ticks = MaxNLocator(6, symmetric=True).tick_values(bar.vmin, bar.vmax)
    bar.set_ticks(ticks[(ticks >= bar.vmin) & (ticks <= bar.vmax)])
    style.tidy(bar.ax)

"""The witness in a plane: a map of two columns, or the rows of many columns coloured by it."""

from itertools import product
from typing import Any

import numpy as np

from kembed.comparing.bands import Bands
from kembed.comparing.witness import Witness, column_place
from kembed.plotting import style
from kembed.plotting.style import BLACK, GREY, literal, percent

Labels = tuple[str, str]
SIZE = (5.6, 4.4)  # room for a bar of colours beside the map
GRID = 50  # points to a side: contours look smooth
STEPS = 12  # colours: neighbouring ones can just be distinguished
# Rows of each sample that are drawn: on a map they lie under it, alone they are the picture.
ON_MAP, ROWS = 200, 400
TICKS = 15  # levels that fit along an axis
JITTER = 0.28  # strips of neighbouring levels stay apart
DARK = "#333333"  # edges of rows
MARKERS = "o^"  # of x and of y


def plot_map(w: Witness, ax: Any, labels: Labels) -> Any:
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
    _set_axes(ax, [literal(name, style.AXIS_WIDTH) for name in w.names], ends, pooled, w.level, sure)
    for d, axis in enumerate((ax.xaxis, ax.yaxis)):
        style.count_in(axis, w.tables[0].unit(d))
    _colour_bar(ax, filled, labels)
    return style.finished(ax, handles)


def plot_rows(w: Witness, ax: Any, labels: Labels, columns: Any) -> Any:
    """Rows in a plane, coloured by the witness, filled where the simultaneous band excludes 0."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D

    shown = list(_most_sensitive(w) if columns is None else _named(w, columns))
    names = [literal(w.names[d], style.AXIS_WIDTH) for d in shown]
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
    _set_axes(ax, names, ends, places, w.level, sure)
    for axis, levels, d in zip((ax.xaxis, ax.yaxis), axis_levels, shown, strict=True):
        style.count_in(axis, w.tables[0].unit(d))
        if levels:
            codes = range(0, len(levels), -(-len(levels) // TICKS))
            axis.set_ticks(list(codes), [literal(levels[code], style.LABEL_WIDTH) for code in codes])
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


def _set_axes(ax: Any, names: Any, ends: Any, places: np.ndarray, level: float, bands: Bands) -> None:
    """The ends and the names of both axes, with notes under the horizontal one."""
    low, high = zip(ax.set_xlim(*style.padded(*ends[0])), ax.set_ylim(*style.padded(*ends[1])), strict=True)
    inside = ((places >= low) & (places <= high)).all(axis=1)
    style.label_with_notes(ax, names[0], inside, "axes", level, bool(bands.excludes_zero.any()))
    ax.set_ylabel(names[1])


def _colour_bar(ax: Any, mappable: Any, labels: Labels) -> None:
    from matplotlib.ticker import MaxNLocator

    bar = ax.figure.colorbar(mappable, ax=ax)
    bar.set_label(style.direction(labels), fontsize="small")
    ticks = MaxNLocator(6, symmetric=True).tick_values(bar.vmin, bar.vmax)
    bar.set_ticks(ticks[(ticks >= bar.vmin) & (ticks <= bar.vmax)])
    style.tidy(bar.ax)

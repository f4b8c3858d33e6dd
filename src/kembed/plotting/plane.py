"""The witness in a plane: a map of two columns, or the rows of many columns coloured by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core.ordering import sorted_rows
from kembed.learning.frame import isotropic_frame
from kembed.plotting.style import (
    AXIS_WIDTH,
    BLACK,
    GREY,
    LABEL_WIDTH,
    NOTHING,
    axes_or_new,
    direction,
    diverging,
    legend_above,
    limits,
    literal,
    padded,
    rows_words,
    short_numbers,
)

if TYPE_CHECKING:
    from kembed.comparing.witnessed import Witness

GRID = 50
STEPS = 12
# Rows of each sample that are drawn: on a map they lie under it, alone they are the picture.
ON_MAP, ROWS = 200, 400
TICKS = 15
JITTER = 0.28
LOAD_WIDTH = 16


def plot_map(w: Witness, ax: Any, labels: tuple[str, str]) -> Any:
    """Filled contours of the mean, a heavy line where the simultaneous band excludes 0, thin scatters."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    pooled = np.concatenate([table.values for table in w.tables])
    ends = [limits(pooled[:, d]) for d in (0, 1)]
    sides = [np.linspace(*padded(*end), GRID) for end in ends]
    X, Y = np.meshgrid(*sides)
    bands = w.at(np.column_stack([X.ravel(), Y.ravel()]))
    mean = bands.mean.reshape(X.shape)
    levels = MaxNLocator(STEPS, symmetric=True).tick_values(*_colour_ends(mean))
    filled = ax.contourf(X, Y, mean, levels=levels, cmap=diverging())
    if np.ptp(mean) > NOTHING:  # negative levels are dashed, so the sign is there in grey print as well
        ax.contour(X, Y, mean, levels=levels[1:-1], colors=GREY, linewidths=0.5)
    handles = []
    rng = np.random.default_rng(w.seed)
    for table, label, marker in zip(w.tables, labels, "o^", strict=True):
        chosen = _some(len(table.values), ON_MAP, rng)
        rows = table.values[chosen]
        handles += ax.plot(
            rows[:, 0],
            rows[:, 1],
            marker,
            color=BLACK,
            markerfacecolor="none",
            markersize=3.5,
            markeredgewidth=0.6,
            alpha=0.5,
            label=_rows_of(label, len(rows), len(table.values)),
        )
    margin = np.maximum(bands.simultaneous_lower, -bands.simultaneous_upper).reshape(X.shape)
    what = f"{100 * w.level:.4g}% band excludes 0 inside"
    if margin.min() < 0.0 < margin.max():
        ax.contour(X, Y, margin, levels=[0.0], colors=BLACK, linewidths=1.8)
        handles.append(Line2D([], [], color=BLACK, linewidth=1.8, label=what))
    notes = _ends(ax, ends, pooled)
    _axis_labels(ax, [literal(name, AXIS_WIDTH) for name in w.names], notes, w, bands)
    _colour_bar(ax, filled, labels)
    legend_above(ax, handles, 2)
    return ax


def plot_rows(w: Witness, ax: Any, labels: tuple[str, str], columns: Any) -> Any:
    """Rows in a plane, coloured by the witness, filled where the simultaneous band excludes 0."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    plane = _plane(w, columns)
    ax = axes_or_new(ax, (5.6, 4.4))
    rng = np.random.default_rng(w.seed)
    chosen = [_some(len(table.values), ROWS, rng) for table in w.tables]
    rows = [table.values[some] for table, some in zip(w.tables, chosen, strict=True)]
    bands = w._at(np.concatenate(rows), w.level)
    colours = ScalarMappable(Normalize(*_colour_ends(bands.mean)), diverging("#BEBEBE"))
    places = np.concatenate([plane.places(part, rng) for part in rows])
    from_x = np.arange(len(places)) < len(rows[0])
    sure = bands.excludes_zero
    for marker, mine in (("o", from_x), ("^", ~from_x)):
        for filled in (False, True):
            these = np.flatnonzero(mine & (sure == filled))
            these = these[np.argsort(np.abs(bands.mean[these]))]  # the largest on top
            colour = colours.to_rgba(bands.mean[these])
            ax.scatter(
                places[these, 0],
                places[these, 1],
                s=20,
                marker=marker,
                facecolors=colour if filled else "none",
                edgecolors="#333333" if filled else colour,
                linewidths=0.4 if filled else 0.9,
                zorder=3 if filled else 2,
            )
    notes = _ends(ax, [plane.ends(places, d) for d in (0, 1)], places)
    _axis_labels(ax, plane.labels, notes, w, bands)
    for axis, levels in zip((ax.xaxis, ax.yaxis), plane.levels, strict=True):
        if levels:
            _level_ticks(axis, levels)
    _colour_bar(ax, colours, labels)
    _row_legend(ax, w, labels, [len(part) for part in rows])
    return ax


class _Plane(NamedTuple):
    """Where rows go: two columns, categories spread out at random, or two directions."""

    columns: tuple[int, int] | None
    directions: Any  # (D, 2) and the centre, instead of columns
    labels: tuple[str, str]
    levels: tuple[tuple[Any, ...], tuple[Any, ...]]

    def places(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.columns is None:
            return rows @ self.directions[0] - self.directions[1]
        found = rows[:, list(self.columns)].copy()
        for d in (0, 1):
            if self.levels[d]:
                found[:, d] += rng.uniform(-JITTER, JITTER, len(rows))
        return found

    def ends(self, places: np.ndarray, d: int) -> tuple[float, float]:
        if self.levels[d]:
            return -0.5, len(self.levels[d]) - 0.5
        return limits(places[:, d])


def _plane(w: Witness, columns: Any) -> _Plane:
    if isinstance(columns, str) and columns == "principal":
        return _principal(w)
    first, second = _most_sensitive(w) if columns is None else _named(w, columns)
    levels = w.tables[0].levels
    return _Plane(
        (first, second),
        None,
        (literal(w.names[first], AXIS_WIDTH), literal(w.names[second], AXIS_WIDTH)),
        (levels[first] if levels else (), levels[second] if levels else ()),
    )


def _most_sensitive(w: Witness) -> tuple[int, int]:
    """The two columns that matter most, one of them numeric if any is; categories go on the vertical axis."""
    order = [int(d) for d in np.argsort(-w.sensitivity, kind="stable")]
    first, second = order[:2]
    if w.categorical[first] and w.categorical[second] and not w.categorical.all():
        second = next(d for d in order if not w.categorical[d])
    return (second, first) if w.categorical[first] and not w.categorical[second] else (first, second)


def _named(w: Witness, columns: Any) -> tuple[int, int]:
    wanted = [columns] if isinstance(columns, str) or not hasattr(columns, "__len__") else list(columns)
    places = [w.names.index(one) if isinstance(one, str) and one in w.names else one for one in wanted]
    known = all(isinstance(d, int | np.integer) and 0 <= d < len(w.names) for d in places)
    if len(places) != 2 or not known or places[0] == places[1]:
        names = ", ".join(map(repr, w.names[:12])) + (", ..." if len(w.names) > 12 else "")
        raise ValueError(
            f"columns must be 'principal' or two different columns of {names}, but {columns!r} was given"
        )
    return int(places[0]), int(places[1])


def _principal(w: Witness) -> _Plane:
    """The two widest axes of the numeric columns over their spreads."""
    numeric = np.flatnonzero(~w.categorical)
    space = w.pool.space
    frame = isotropic_frame(sorted_rows(space.numeric)) if len(numeric) > 1 else None
    if frame is None or frame.axes.shape[1] < 2:
        raise ValueError(
            "columns='principal' needs at least two numeric columns that do not move as one; "
            "choose two columns by name"
        )
    directions = np.zeros((len(w.names), 2))
    directions[numeric] = frame.axes[:, :2] / space.spread[numeric, None]
    centre = np.median(space.values[:, numeric], axis=0) @ directions[numeric]
    labels = []
    for d in (0, 1):
        loads = np.argsort(-np.abs(frame.axes[:, d]), kind="stable")[:2]
        names = ", ".join(literal(w.names[numeric[k]], LOAD_WIDTH) for k in loads)
        labels.append(f"principal axis {d + 1}\nmostly {names}")
    return _Plane(None, (directions, centre), (labels[0], labels[1]), ((), ()))


def _some(rows: int, size: int, rng: np.random.Generator) -> Any:
    return np.arange(rows) if rows <= size else np.sort(rng.choice(rows, size, replace=False))


def _rows_of(label: str, shown: int, rows: int) -> str:
    count = f", {shown} of {rows:,}" if shown < rows else ""
    return f"rows of {literal(label, LABEL_WIDTH)}{count}"


def _colour_ends(mean: np.ndarray) -> tuple[float, float]:
    top = float(np.abs(mean).max())
    return (-top, top) if top > NOTHING else (-1.0, 1.0)


def _ends(ax: Any, ends: list[tuple[float, float]], places: np.ndarray) -> list[str]:
    """Set the ends of both axes; a note if rows lie beyond them."""
    ax.set_xlim(*padded(*ends[0]))
    ax.set_ylim(*padded(*ends[1]))
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    inside = ((places >= [left, bottom]) & (places <= [right, top])).all(axis=1)
    beyond = int((~inside).sum())
    return [f"{rows_words(beyond)} of {len(places):,} beyond the axes"] if beyond else []


def _level_ticks(axis: Any, levels: tuple[Any, ...]) -> None:
    step = -(-len(levels) // TICKS)
    codes = range(0, len(levels), step)
    axis.set_ticks(list(codes), [literal(levels[code], LABEL_WIDTH) for code in codes])


def _colour_bar(ax: Any, mappable: Any, labels: tuple[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    bar = ax.figure.colorbar(mappable, ax=ax)
    bar.set_label(direction(labels), fontsize="small")
    low, high = bar.vmin, bar.vmax
    ticks = MaxNLocator(6, symmetric=True).tick_values(low, high)
    bar.set_ticks(ticks[(ticks >= low) & (ticks <= high)])
    bar.ax.tick_params(labelsize="small")
    short_numbers(bar.ax.yaxis)


def _row_legend(ax: Any, w: Witness, labels: tuple[str, str], shown: list[int]) -> None:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"linestyle": "", "color": "#333333", "markersize": 4.5, "markeredgewidth": 0.8}
    handles = [
        Line2D([], [], marker=marker, label=_rows_of(label, count, size), markerfacecolor="none", **style)
        for marker, label, count, size in zip("o^", labels, shown, w.sizes, strict=True)
    ]
    sure = f"filled: {100 * w.level:.4g}% band excludes 0"
    handles.append(Line2D([], [], marker="o", markerfacecolor="#333333", label=sure, **style))
    legend_above(ax, handles, 2)


def _axis_labels(ax: Any, names: Any, notes: list[str], w: Witness, bands: Any) -> None:
    """The names of the axes, with notes under the horizontal one."""
    if not bands.excludes_zero.any():
        notes = [*notes, f"the {100 * w.level:.4g}% band includes 0 everywhere"]
    ax.set_xlabel("\n".join([names[0], *(f"({note})" for note in notes)]))
    ax.set_ylabel(names[1])
    if any("\n" in name for name in names):  # principal axes have long names
        ax.xaxis.label.set_fontsize("small")
        ax.yaxis.label.set_fontsize("small")

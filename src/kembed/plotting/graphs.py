"""A causal graph: variables round an ellipse, so that no edge runs through a name."""

import textwrap
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np

from kembed.core.text import counted, listing
from kembed.graphs.graph import CausalGraph
from kembed.plotting import style
from kembed.plotting.style import BLUE, GREY, PALE, VERMILION, finished, literal

# Of every mark of an edge: colours of line and arrowheads, arrow, dashes, words.
MARKS: dict[str, tuple[str, str, str, Any, str]] = {
    "-->": (GREY, BLUE, "-|>", "-", "→ direction the tests suggest"),
    "---": (GREY, GREY, "-", "-", "— direction open"),
    "<->": (VERMILION, VERMILION, "<|-|>", (0, (4, 2)), "↔ conflicting directions"),
}
HEAD = "head_length=0.8,head_width=0.4"  # of arrows, in sizes of the arrow
FAINTEST = 0.1  # opacity of an arrowhead whose direction was found in no run
# Lines in points: at frequency 0, and how much wider at frequency 1.
THIN, WIDER = 0.4, 2.2
# Edges that the graph lacks are shown if they are in so many resamples or orders.
SHOWN = 0.25
WRAP, LINES = 14, 3  # letters and lines of a name
MANY = 60  # edges; beyond, variables stay in the order of the columns
LETTER, LINE = 0.56, 1.25  # a letter's width and a line's height, in font sizes
SIZE, SMALLEST = 9.0, 7.0  # points
ALONG = 0.62  # of the way from a to b: the label of a direction, off the middle, where lines cross
NODE, GAP = 4.5, 8.0  # points: radius of a node, and from its centre to its name


def plot_graph(graph: CausalGraph, ax: Any = None, *, beside: Iterable[CausalGraph] = ()) -> Any:
    """The graph; line width shows how often the edge was found, arrowheads how often its direction was.

    Both are shares of the resamples of the rows, or of the orders of the variables where no rows were
    resampled. The opacity of an arrowhead is the share with this direction, which stands beside it. Pale
    dotted lines are edges that the graph lacks but at least a quarter of these have. `beside` are graphs of
    the same variables that it is compared with: in all of them variables stand in the same places.
    """
    from matplotlib.patches import FancyArrowPatch

    ax = style.axes_or_new(ax, (5.6, 4.4))
    at = _places(graph, list(beside))
    texts = {name: _wrapped(name) for name in graph.names}
    size = _fit(ax, at, texts)
    # Adjacent in many resamples or orders, but not in this graph.
    pairs = [(a, b) for a, b in combinations(graph.names, 2) if not graph.has(a, b)]
    missing = [(a, b) for a, b in pairs if graph.frequency(a, b) >= SHOWN]
    for a, b in missing:
        width = THIN + WIDER * graph.frequency(a, b)
        ax.plot(*zip(at[a], at[b], strict=True), color=PALE, linewidth=width, linestyle=":", zorder=1)
    for edge in graph.edges:
        colour, pointed, arrow, dashes, _ = MARKS[edge.mark]
        ends: Any = {"shrinkA": NODE + 1.0, "shrinkB": NODE + 1.0, "mutation_scale": 12.0, "zorder": 2}
        line: Any = {"linewidth": THIN + WIDER * edge.frequency, "linestyle": dashes, "color": colour}
        ax.add_patch(FancyArrowPatch(at[edge.a], at[edge.b], arrowstyle="-", **line, **ends))
        if arrow == "-":
            continue
        # Of a line without width only the heads are seen.
        heads: Any = {"linewidth": 0.0, "color": pointed, "alpha": max(edge.mark_frequency, FAINTEST)}
        ax.add_patch(FancyArrowPatch(at[edge.a], at[edge.b], arrowstyle=f"{arrow},{HEAD}", **heads, **ends))
        if graph.n_runs > 1:
            where = np.average([at[edge.a], at[edge.b]], axis=0, weights=(1.0 - ALONG, ALONG))
            look = {"ha": "center", "va": "center", "fontsize": SMALLEST, "color": pointed, "zorder": 2.5}
            box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
            ax.text(*where, f"{edge.mark_frequency:.0%}", bbox=box, **look)
    for name, (x, y) in at.items():
        ax.plot(x, y, "o", color="white", markeredgecolor="black", markersize=2.0 * NODE, zorder=3)
        right, up = _outward((x, y))
        across, down = ("center", "left", "right")[right], ("center", "bottom", "top")[up]
        look = {"ha": across, "va": down, "multialignment": across, "fontsize": size, "zorder": 4}
        ax.annotate(texts[name], (x, y), (GAP * right, GAP * up), textcoords="offset points", **look)
    ax.set_axis_off()
    return finished(ax, _legend(graph, bool(missing)))


def _places(graph: CausalGraph, beside: list[CausalGraph]) -> dict[str, tuple[float, float]]:
    """Where each variable stands: clockwise from the top, exchanged until few lines of all graphs cross."""
    for other in beside:
        if other.names != graph.names:
            seen = f"beside has a graph of {listing(other.names)}, and this one is of {listing(graph.names)}"
            raise ValueError(f"{seen}; give graphs of the same variables in the same order")
    ring = list(range(len(graph.names)))
    pairs = sorted(
        {frozenset((edge.a, edge.b)) for one in (graph, *beside) for edge in one.edges}, key=sorted
    )
    edges = [(graph.names.index(a), graph.names.index(b)) for a, b in map(sorted, pairs)]
    best, better = _tangle(ring, edges), len(edges) <= MANY
    while better:  # every exchange that is made is an improvement, so that this ends
        better = False
        for i, j in combinations(range(len(ring)), 2):
            trial = ring.copy()
            trial[i], trial[j] = trial[j], trial[i]
            found = _tangle(trial, edges)
            if found < best:
                ring, best, better = trial, found, True
    # Half a step from the top: no name stands straight above the middle, where its neighbours' begin.
    angles = np.pi / 2 - 2.0 * np.pi * (np.arange(len(ring)) - 0.5) / len(ring)
    points = zip(np.cos(angles).tolist(), np.sin(angles).tolist(), strict=True)
    return {graph.names[node]: point for node, point in zip(ring, points, strict=True)}


def _tangle(ring: list[int], edges: list[tuple[int, int]]) -> tuple[int, int]:
    """How many lines cross, and how far they go round."""
    place = {node: where for where, node in enumerate(ring)}
    spans = [sorted((place[i], place[j])) for i, j in edges]
    crossings = sum(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(spans, 2))
    return crossings, sum(min(b - a, len(ring) - b + a) ** 2 for a, b in spans)


def _wrapped(name: str) -> str:
    """A name over a few lines, also broken after underscores, drawn as it is."""
    text = literal(name, WRAP * LINES).replace("_", "_\0 ")
    lines = textwrap.wrap(text, WRAP, break_long_words=True)
    return "\n".join(line.replace("\0 ", "").replace("\0", "") for line in lines)


def _fit(ax: Any, at: dict[str, tuple[float, float]], texts: dict[str, str]) -> float:
    """Set limits that leave room for the names in axes of this size; the size of their letters."""
    box = ax.get_position()
    half = ax.figure.get_size_inches() * (box.width, box.height) * 72.0 / 2.0
    size = float(np.clip(half[0] / 14.0, SMALLEST, SIZE))
    for axis, set_limits in enumerate((ax.set_xlim, ax.set_ylim)):
        scale = half[axis]  # points to a unit
        for name, point in at.items():
            lines = texts[name].split("\n")
            long = (LETTER * max(map(len, lines)) if axis == 0 else LINE * len(lines)) * size
            outside = long + GAP if _outward(point)[axis] else long / 2.0
            scale = min(scale, (half[axis] - max(outside, NODE)) / max(abs(point[axis]), 1e-9))
        # Names never squeeze the graph to less than a third of the axes.
        end = half[axis] / max(scale, half[axis] / 3.0)
        set_limits(-end, end)
    return size


def _outward(point: tuple[float, float]) -> tuple[int, int]:
    """Where a name stands from its node: right (1), left (-1) or at its middle (0); above, below, level."""
    x, y = point
    return 0 if abs(x) < 0.1 else int(np.sign(x)), 0 if abs(y) < 0.85 else int(np.sign(y))


def _legend(graph: CausalGraph, missing: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    marks = {edge.mark for edge in graph.edges}
    handles = []
    for mark, (colour, pointed, arrow, dashes, words) in MARKS.items():
        if mark in marks:
            head: Any = {"marker": ">", "markersize": 5.0, "markerfacecolor": pointed, "markeredgewidth": 0.0}
            line: Any = {"color": colour, "linewidth": 2.0, "linestyle": dashes}
            handles.append(Line2D([], [], label=words, **line, **(head if arrow != "-" else {})))
    if missing:
        words = f"not in the graph, but in ≥ {SHOWN:.0%} of {graph.counted}"
        handles.append(Line2D([], [], color=PALE, linewidth=2.0, linestyle=":", label=words))
    if graph.n_runs > 1 and (graph.edges or missing):
        runs = f"share of {counted(graph.n_bootstrap or graph.n_orders, graph.counted[:-1])}"
        handles.append(Line2D([], [], linewidth=0.0, label=f"line width: {runs}"))
        if marks & {"-->", "<->"}:
            handles.append(Line2D([], [], linewidth=0.0, label="arrowhead and %: share with this direction"))
    return handles

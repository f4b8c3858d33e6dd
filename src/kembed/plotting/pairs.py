"""Two columns of both samples: how they go together in either."""

from typing import Any

import numpy as np

from kembed.comparing.compare import Comparison
from kembed.plotting.style import (
    AXIS_WIDTH,
    BLUE,
    LABEL_WIDTH,
    VERMILION,
    axes_or_new,
    count_in,
    finished,
    lattice,
    literal,
)

MOST = 500  # marks of a sample: more would be a cloud
JITTER = 0.2  # of the step between two levels


def plot_pair(comparison: Comparison, columns: tuple[str, str], ax: Any = None) -> Any:
    """Rows of both samples by two of their columns; levels of a category side by side."""
    if comparison.witness is None:
        raise ValueError("a picture of two columns needs rows, and the sketch keeps none (keep_rows=)")
    ax = axes_or_new(ax)
    first, second = comparison.witness.tables
    places = [first.names.index(name) for name in columns]
    rng = np.random.default_rng(0)
    samples = zip((first, second), comparison.labels, (BLUE, VERMILION), (-1.0, 1.0), strict=True)
    for table, label, colour, side in samples:
        rows = rng.permutation(len(table.values))[:MOST]
        marks = []
        for d in places:
            values = table.values[rows, d]
            if table.categorical[d]:  # samples beside each other at every level
                values = values + JITTER * (side + rng.uniform(-0.8, 0.8, len(values)))
            elif step := lattice(first.values[:, d], second.values[:, d]):  # marks would hide each other
                values = values + step * rng.uniform(-JITTER, JITTER, len(values))
            marks.append(values)
        ax.plot(*marks, ".", color=colour, markersize=3.0, alpha=0.6, label=literal(label, LABEL_WIDTH))
    for d, name, axis in zip(places, columns, "xy", strict=True):
        getattr(ax, f"set_{axis}label")(literal(name, AXIS_WIDTH))
        count_in(getattr(ax, f"{axis}axis"), first.unit(d))
        if first.categorical[d]:
            levels = first.levels[d]
            getattr(ax, f"set_{axis}ticks")(
                range(len(levels)), [literal(level, LABEL_WIDTH) for level in levels]
            )
    finished(ax)
    for handle in ax.get_legend().legend_handles:  # a dot of the picture is too small to show its colour
        handle.set(markersize=8.0, alpha=1.0)
    return ax

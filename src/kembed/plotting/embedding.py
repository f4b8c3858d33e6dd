"""A mean embedding as a curve with its band, or as a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core import checks
from kembed.plotting.style import BLACK, BLUE, axes_or_new, legend_above, limits, padded, sparse, tidy

if TYPE_CHECKING:
    from kembed.embeddings.empirical import Embedding

CURVE, MAP = 400, 60
RUG = 500


def plot_embedding(mu: Embedding, ax: Any = None, points: Any = None, level: float = 0.9) -> Any:
    """The embedding over one column, with its credible band where it has one, or its mean over two columns.

    `points` are where to look: the places of the curve, or rows whose range the map covers; by default the
    range of the data and some more.
    """
    where = mu.landmarks if hasattr(mu, "landmarks") else mu.x  # type: ignore[attr-defined]
    D = where.shape[1]
    if D > 2:
        raise ValueError(
            f"the embedding has {D} columns, and a picture shows at most 2; embed one or two of them, "
            "or look at .mean(points) along a line"
        )
    level = checks.level(level)
    if points is not None:
        points = np.asarray(checks.points(points, "points", dimension=D))
    ax = axes_or_new(ax)
    if D == 1:
        _curve(mu, ax, where[:, 0], points, level)
    else:
        _map(mu, ax, where, points)
    tidy(ax)
    return ax


def _curve(mu: Embedding, ax: Any, data: np.ndarray, points: Any, level: float) -> None:
    around = padded(*limits(data), 0.25)
    grid = np.linspace(*around, CURVE) if points is None else np.sort(points[:, 0])
    ax.plot(grid, mu.mean(grid[:, None]), color=BLUE, label="mean")
    if hasattr(mu, "interval"):
        lower, upper = mu.interval(grid[:, None], level)
        label = f"{100 * level:.4g}% pointwise"
        ax.fill_between(grid, lower, upper, color=BLUE, alpha=0.25, linewidth=0.0, label=label)
    ax.set_xlim(grid[0], grid[-1])
    shown = sparse(data[(data >= grid[0]) & (data <= grid[-1])], RUG)
    landmarks = hasattr(mu, "landmarks")
    ax.plot(
        shown,
        np.full(len(shown), 0.015),
        "|",
        color=BLACK,
        alpha=0.5,
        markersize=6,
        transform=ax.get_xaxis_transform(),
        label="landmarks" if landmarks else "data",
    )
    ax.set_xlabel("x")
    ax.set_ylabel("embedding μ(x)")
    legend_above(ax, columns=3)


def _map(mu: Embedding, ax: Any, data: np.ndarray, points: Any) -> None:
    rows = data if points is None else points
    air = 0.15 if points is None else 0.0
    sides = [np.linspace(*padded(*limits(rows[:, d]), air), MAP) for d in (0, 1)]
    X, Y = np.meshgrid(*sides)
    heights = mu.mean(np.column_stack([X.ravel(), Y.ravel()])).reshape(X.shape)
    filled = ax.contourf(X, Y, heights, levels=12, cmap="cividis")
    bar = ax.figure.colorbar(filled, ax=ax, label="embedding μ(x)")
    tidy(bar.ax)
    inside = ((data >= [X.min(), Y.min()]) & (data <= [X.max(), Y.max()])).all(axis=1)
    shown = data[inside]
    shown = shown[np.linspace(0, len(shown) - 1, min(RUG, len(shown))).astype(int)]
    label = "landmarks" if hasattr(mu, "landmarks") else "data"
    ax.plot(
        shown[:, 0],
        shown[:, 1],
        "o",
        color="white",
        markersize=3,
        markeredgecolor=BLACK,
        markeredgewidth=0.4,
        label=label,
    )
    ax.set_xlabel("column 0")
    ax.set_ylabel("column 1")
    legend_above(ax)

"""A mean embedding as a curve with its band, or as a map."""

from typing import Any

import numpy as np

from kembed.core import checks
from kembed.embeddings.empirical import Embedding
from kembed.plotting import style
from kembed.plotting.style import BLACK, BLUE, limits, padded

CURVE, MAP = 400, 60  # points of a curve, and to a side of a map: smooth at the size of a page


def plot_embedding(mu: Embedding, ax: Any = None, *, points: Any = None, level: float = 0.9) -> Any:
    """The embedding over one column, with its credible band where it has one, or its mean over two columns.

    `points` are where to look: the places of the curve, or rows whose range the map covers; by default the
    range of the data and some more.
    """
    what, attribute = ("landmarks", "landmarks") if hasattr(mu, "landmarks") else ("data", "x")
    where = getattr(mu, attribute)
    D = where.shape[1]
    if D > 2:
        remedy = "embed one or two of them, or look at .mean(points) along a line"
        raise ValueError(f"the embedding has {D} columns, and a picture shows at most 2; {remedy}")
    level = checks.level(level)
    if points is not None:
        points = np.asarray(checks.points(points, "points", dimension=D))
    ax = style.axes_or_new(ax)
    if D == 1:
        _curve(mu, ax, where[:, 0], what, points, level)
    else:
        _map(mu, ax, where, what, points)
    return style.finished(ax, columns=3)


def _curve(mu: Embedding, ax: Any, data: np.ndarray, what: str, points: Any, level: float) -> None:
    around = padded(*limits(data), 0.25)
    grid = np.linspace(*around, CURVE) if points is None else np.sort(points[:, 0])
    ax.plot(grid, mu.mean(grid[:, None]), color=BLUE, label="mean")
    if hasattr(mu, "interval"):
        ends = mu.interval(grid[:, None], level)
        label = f"{style.percent(level)} pointwise"
        ax.fill_between(grid, *ends, color=BLUE, alpha=0.25, linewidth=0.0, label=label)
    ax.set(xlim=(grid[0], grid[-1]), xlabel="x", ylabel="embedding μ(x)")
    style.rug(ax, data, 0.015, color=BLACK, alpha=0.5, markersize=6, label=what)


def _map(mu: Embedding, ax: Any, data: np.ndarray, what: str, points: Any) -> None:
    rows, air = (data, 0.15) if points is None else (points, 0.0)
    X, Y = np.meshgrid(*(np.linspace(*padded(*limits(rows[:, d]), air), MAP) for d in (0, 1)))
    heights = mu.mean(np.column_stack([X.ravel(), Y.ravel()])).reshape(X.shape)
    filled = ax.contourf(X, Y, heights, levels=12, cmap="cividis")
    style.tidy(ax.figure.colorbar(filled, ax=ax, label="embedding μ(x)").ax)
    shown = data[((data >= [X.min(), Y.min()]) & (data <= [X.max(), Y.max()])).all(axis=1)]
    shown = shown[np.linspace(0, len(shown) - 1, min(style.RUG, len(shown))).astype(int)]
    look = {"color": "white", "markersize": 3, "markeredgecolor": BLACK, "markeredgewidth": 0.4}
    ax.plot(*shown.T, "o", label=what, **look)
    ax.set(xlabel="column 0", ylabel="column 1")

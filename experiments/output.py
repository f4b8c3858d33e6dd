"""The look of the figures."""

from typing import Any

from matplotlib.figure import Figure

# Okabe & Ito's colours: distinguished by colour-blind readers and, by lightness, in print.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"
DPI = 120  # sharp at the width of a page, and small


def mosaic(plan: list[str], width: float = 4.2, height: float = 3.4) -> tuple[Figure, Any]:
    """Panels laid out by letters, one string a row; width and height in inches of one cell; no display."""
    size = (width * len(plan[0]), height * len(plan))
    figure = Figure(figsize=size, layout="constrained", dpi=DPI)
    return figure, figure.subplot_mosaic([list(row) for row in plan])


def legend(axes: Any, **how: Any) -> None:
    """A small legend without a frame, by default."""
    axes.legend(**{"frameon": False, "fontsize": "small"} | how)

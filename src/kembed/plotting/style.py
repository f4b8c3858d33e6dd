"""One look for every figure: colours, text as it is written, axes that a few wild rows do not stretch."""

from typing import Any

import numpy as np

from kembed.core.text import RAISED, plain, shortened
from kembed.tables.table import Table
from kembed.tables.times import DAYS

# Okabe & Ito's colours, safe for colour-blind readers. Blue is x and vermilion y wherever both appear.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#767676", "#D4D4D4"

# Longer names are cut in the middle.
NAME_WIDTH, AXIS_WIDTH, LABEL_WIDTH = 24, 30, 16
TICKS = 15  # levels that fit along an axis
# Axes show the whole range unless it is more than this many times the central one: the middle 90% of the
# values and three quarters of that on either side, which is ±4.1 sd for normal data.
CENTRAL, MARGIN, STRETCH = 0.9, 0.75, 2.0
# Axes that end below or above these are drawn in powers of ten, unless they span too little of their values.
SMALL, LARGE, NARROW = 1e-2, 1e5, 1e-3

# A witness below this is rounding.
NOTHING = 1e-6
# Every legend: no frame, and narrow, so that two names of samples fit beside each other.
LEGEND: Any = {"frameon": False, "fontsize": "small", "handlelength": 1.6, "columnspacing": 1.2}
# Ticks of rows along an axis: more would be a bar.
RUG = 500
# Numbers of at most so many values, each taken by so many rows in the mean, are drawn beside their places.
FEW_VALUES, CROWD = 40, 5.0


def axes_or_new(ax: Any, size: tuple[float, float] = (5.0, 3.4)) -> Any:
    """The user's axes, or those of a new figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=size, layout="constrained")[1]
    return ax


def literal(name: Any, width: int = NAME_WIDTH) -> str:
    r"""A name as matplotlib must get it to draw it as it is: one line, no mathematics, not too long.

    >>> literal("price_$ per\nkg")
    'price_\\$ per kg'
    """
    text = " ".join(str(name).split())
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shortened(text, width).replace("$", r"\$") or "(no name)"


def short(value: float) -> str:
    """A number to three digits, the way people write it.

    >>> [short(value) for value in (12689.7, 0.00123, -1.5e-07, 2e12, 0.0)]
    ['12,700', '0.00123', '−1.5×10⁻⁷', '2×10¹²', '0']
    """
    return plain(value, 3, thousands=True, minus="−", powers=True)


def percent(level: float) -> str:
    """The level of a band.

    >>> percent(0.9), percent(0.995)
    ('90%', '99.5%')
    """
    return f"{100 * level:.4g}%"


def limits(values: Any, keep: Any = ()) -> tuple[float, float]:
    """The ends of an axis: the range of the values, or their middle where tails are very long, and `keep`."""
    values = np.asarray(values, dtype=float)
    low, high = float(values.min()), float(values.max())
    tail = 0.5 * (1.0 - CENTRAL)
    first, last = np.quantile(values, [tail, 1.0 - tail])
    if first == last:  # mostly ties
        first, last = np.quantile(np.unique(values), [tail, 1.0 - tail])
    reach = MARGIN * (last - first)
    if high - low > STRETCH * (last - first + 2.0 * reach):
        low, high = max(low, float(first - reach)), min(high, float(last + reach))
    low, high = min([low, *keep]), max([high, *keep])
    if low == high:
        return low - (0.5 * abs(low) or 0.5), high + (0.5 * abs(high) or 0.5)
    return low, high


def padded(low: float, high: float, share: float = 0.03) -> tuple[float, float]:
    """The same ends with a little air."""
    air = share * (high - low)
    return low - air, high + air


def tidy(ax: Any) -> None:
    """Only the two spines that carry ticks, and numbers that are short."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")
    for axis in (ax.xaxis, ax.yaxis):
        short_numbers(axis)


def short_numbers(axis: Any) -> None:
    """Very large or small numbers by a power of ten, which goes into the label.

    Matplotlib would put it at the end of the axis, where labels and legends are.
    """
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    low, high = axis.get_view_interval()
    size = float(max(abs(low), abs(high)))
    usual = SMALL <= size < LARGE or not size > 0.0
    if usual or high - low < NARROW * size or not isinstance(axis.get_major_formatter(), ScalarFormatter):
        return
    power = 3 * int(np.floor(np.log10(size) / 3.0))
    unit = 10.0**power
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:.5g}".replace("-", "−")))
    first, *rest = axis.get_label_text().split("\n")
    times = f"×10{str(power).translate(RAISED)}"
    axis.set_label_text("\n".join([f"{first} ({times})" if first else times, *rest]))


def count_in(axis: Any, unit: str) -> None:
    """Dates along an axis of days; other axes as they are."""
    if unit == DAYS:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator: Any = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def name_axis(axis: Any, table: Table, d: int) -> None:
    """A column along an axis: its name, dates where it counts days, the levels of a category."""
    axis.set_label_text(literal(table.names[d], AXIS_WIDTH))
    count_in(axis, table.unit(d))
    if table.categorical[d]:
        levels = table.levels[d]
        codes = range(0, len(levels), -(-len(levels) // TICKS))
        axis.set_ticks(list(codes), [literal(levels[code], LABEL_WIDTH) for code in codes])


def log_ticks(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, also where it spans less than two decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    steps: tuple[float, ...] = (1.0, 2.0, 5.0) if decades < 3.0 else (1.0,)
    if decades < 0.5:
        steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=7 if decades >= 3.0 else 20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def finished(ax: Any, handles: Any = None, columns: int = 2) -> Any:
    """Tidy axes with a legend above them, where it hides nothing; called last, when labels are set."""
    tidy(ax)
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    if handles:
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
        ax.legend(handles=handles, ncols=columns, **place, **LEGEND)
    return ax


def titled(ax: Any, title: str) -> None:
    """A title above what stands there already: the legend, and a line of words."""
    said = ax.get_title(loc="left")
    legend = ax.get_legend()
    lines = -(-len(legend.get_texts()) // 2) if legend else 0  # two entries a line, at least
    ax.set_title(f"{title}: {said}" if said else title, loc="left", fontsize="medium", pad=8.0 + 13.0 * lines)


def diverging(centre: str = "#FFFFFF") -> Any:
    """Vermilion (more y), through `centre`, to blue (more x)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("kembed", [VERMILION, centre, BLUE])


def direction(labels: tuple[str, str]) -> str:
    """What the sign of the witness means, for an axis on which it grows."""
    x, y = (literal(label, LABEL_WIDTH) for label in labels)
    return f"← more {y}   witness   more {x} →"


def sparse(values: Any, size: int) -> Any:
    """At most so many of the values, evenly chosen along their order."""
    chosen = np.linspace(0, len(values) - 1, min(size, len(values))).round().astype(int)
    return np.sort(values)[chosen]


def rug(ax: Any, values: Any, height: float, **style: Any) -> None:
    """Ticks at those of the values that lie within the axis, at this share of its height."""
    low, high = ax.get_xlim()
    shown = sparse(values[(values >= low) & (values <= high)], RUG)
    faint = float(np.clip(60.0 / max(len(shown), 1), 0.25, 0.9))  # the more ticks, the fainter
    place = {"transform": ax.get_xaxis_transform(), "alpha": faint}
    ax.plot(shown, np.full(len(shown), height), "|", **{**place, **style})


def lattice(*samples: np.ndarray) -> float:
    """The step between values that are few, so that many marks fall on one place; 0 where they are not few.

    >>> lattice(np.array([1.0, 2.0, 4.0] * 9)), lattice(np.linspace(0.0, 1.0, 50))
    (1.0, 0.0)
    """
    values, counts = np.unique(np.concatenate(samples), return_counts=True)
    few = 1 < len(values) <= FEW_VALUES and counts.mean() >= CROWD
    return float(np.diff(values).min()) if few else 0.0

"""One look for every figure: colours, text as it is written, axes that a few wild rows do not stretch."""

from __future__ import annotations

from typing import Any

import numpy as np

# Okabe & Ito's colours: told apart by colour-blind readers. Blue is x and vermilion y wherever both appear.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY, PALE = "#767676", "#D4D4D4"

# Longer names are cut in the middle.
NAME_WIDTH, AXIS_WIDTH, LABEL_WIDTH = 24, 30, 12
# Axes show the whole range unless it is more than this many times the central one: the middle 90% of the
# values and three quarters of that on either side, which is ±4.1 sd for normal data.
CENTRAL, MARGIN, STRETCH = 0.9, 0.75, 2.0
# Axes that end below or above these are drawn in powers of ten, unless they span too little of their values.
SMALL, LARGE, NARROW = 1e-2, 1e5, 1e-3
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# A witness below this is rounding.
NOTHING = 1e-6


def axes_or_new(ax: Any, size: tuple[float, float] = (5.0, 3.4)) -> Any:
    """The user's axes, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def literal(name: Any, width: int = NAME_WIDTH) -> str:
    r"""A name as matplotlib must get it to draw it as it is: one line, no mathematics, not too long.

    >>> literal("price_$ per\nkg")
    'price_\\$ per kg'
    >>> literal("measurement_of_the_left_side_sd", 16)
    'measuremen…de_sd'
    """
    text = " ".join(str(name).split())
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    if len(text) > width:
        head = (2 * width) // 3
        text = text[:head] + "…" + text[len(text) - (width - head - 1) :]
    return text.replace("$", r"\$") or "(no name)"


def short(value: float, digits: int = 3) -> str:
    """A number to so many digits, the way people write it.

    >>> [short(value) for value in (12689.7, 0.00123, -1.5e-07, 2e12, 0.0)]
    ['12,700', '0.00123', '−1.5×10⁻⁷', '2×10¹²', '0']
    """
    rounded = float(f"{value:.{digits}g}")
    size = abs(rounded)
    if size == 0.0 or 1e-3 <= size < 1e6:
        return f"{rounded:,.10g}".replace("-", "−")
    mantissa, power = f"{rounded:.{digits - 1}e}".split("e")
    raised = f"10{str(int(power)).translate(RAISED)}"
    mantissa = f"{float(mantissa):g}".replace("-", "−")
    return raised if mantissa == "1" else f"{mantissa}×{raised}"


def p_words(pvalue: float) -> str:
    """A p-value to two digits, the way people write it."""
    return f"p = {pvalue:.2g}" if pvalue >= 1e-4 else "p < 0.0001"


def rows_words(count: int) -> str:
    """A number of rows in words."""
    return f"{count:,} row{'' if count == 1 else 's'}"


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
    """Only the two spines that carry ticks, and numbers that are short; called last, when labels are set."""
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
    plain = SMALL <= size < LARGE or not size > 0.0
    if plain or high - low < NARROW * size or not isinstance(axis.get_major_formatter(), ScalarFormatter):
        return
    power = 3 * int(np.floor(np.log10(size) / 3.0))
    unit = 10.0**power
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:.5g}".replace("-", "−")))
    first, *rest = axis.get_label_text().split("\n")
    times = f"×10{str(power).translate(RAISED)}"
    axis.set_label_text("\n".join([f"{first} ({times})" if first else times, *rest]))


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


def legend_above(ax: Any, handles: Any = None, columns: int = 2) -> None:
    """A legend on top of the axes, where it hides nothing; none if there is nothing to tell."""
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    if handles:
        ax.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
            handlelength=1.6,
            columnspacing=1.2,
        )


def diverging(centre: str = "#FFFFFF") -> Any:
    """Vermilion (more y), through `centre`, to blue (more x)."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("kembed", [VERMILION, centre, BLUE])


def direction(labels: tuple[str, str]) -> str:
    """What the sign of the witness means, for an axis on which it grows."""
    x, y = (literal(label, LABEL_WIDTH) for label in labels)
    return f"← more {y}   witness   more {x} →"


def two_labels(labels: Any) -> tuple[str, str]:
    """The names of x and of y."""
    if isinstance(labels, str) or len(labels) != 2:
        raise TypeError(f"labels must be two names, of x and of y, but {labels!r} was given")
    return str(labels[0]), str(labels[1])


def sparse(values: Any, size: int) -> Any:
    """At most so many of the values, evenly chosen along their order."""
    values = np.sort(values)
    if len(values) <= size:
        return values
    return values[np.linspace(0, len(values) - 1, size).round().astype(int)]

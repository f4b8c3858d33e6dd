"""Figures of `kembed.plotting` as images inside the page, each with words for those who cannot see it."""

import base64
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup

from kembed import plotting
from kembed.comparing.changes import Change
from kembed.comparing.compare import Comparison
from kembed.comparing.shift import Shift
from kembed.comparing.summaries import ColumnSummary
from kembed.comparing.witness import Witness
from kembed.plotting.style import LEGEND
from kembed.report.words import number, of_range, of_unit, percent, short
from kembed.tables.times import DAYS
from kembed.testing.outcome import TestOutcome

SHARE_ROWS = 2_000  # of each sample, for a share in words
SIZE = (4.7, 3.7)  # inches: two beside each other on a page
# A drawing with more than this many bytes of lines becomes a picture of pixels: it would draw slowly.
LARGE = 400_000
DPI = 200  # sharp on paper
LABEL = 46  # letters that fit along the vertical axis
# Text stays text, in one size; nothing depends on chance.
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "kembed", "font.size": 10, "axes.titlesize": 10}
FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
NUMBERS = 5  # below the bars; of dates, which are wide, three


@dataclass(frozen=True)
class Picture:
    """An image, what it shows, and the line below it."""

    source: str
    alt: str
    title: str
    caption: str
    width: int = round(96 * SIZE[0])
    height: int = round(96 * SIZE[1])


def draw(plot: Callable[[Any], Any], large: int = LARGE) -> str:
    """What `plot` draws in axes of a new figure, as a data address; pixels beyond `large` bytes of lines.

    Text stays text, so that the reader's own fonts draw it, in any script. Nothing depends on the clock or on
    chance, and the background is left open for pages of any colour.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with warnings.catch_warnings(), matplotlib.rc_context(SETTINGS):
        # matplotlib measures text with its own font, which has no emoji; the reader's has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message=".*does not support .* natively")
        figure: Any = Figure(SIZE, layout="constrained")
        plot(figure.subplots())
        for ax in figure.axes:
            if (legend := ax.get_legend()) is not None:  # above everything, as wide as the figure
                texts = [text.get_text() for text in legend.get_texts()]
                place = {"loc": "outside upper left", "ncols": legend._ncols}
                figure.legend(legend.legend_handles, texts, **place, **LEGEND)
                legend.remove()
            label = ax.yaxis.label  # two long names of samples need room
            label.set_fontsize(label.get_fontsize() / max(len(label.get_text()) / LABEL, 1.0))
            for axis in (ax.xaxis, ax.yaxis):
                formatter = axis.get_major_formatter()
                if hasattr(formatter, "set_useMathText"):
                    formatter.set_useMathText(False)  # every digit would get a place of its own
        kind, none = "svg+xml", dict.fromkeys(("Date", "Creator", "Format", "Type"))
        content = _saved(figure, "svg", metadata=none)
        if len(content) > large:
            kind, content = "png", _saved(figure, "png", dpi=DPI, metadata={"Software": None})
        else:
            content = _slim(content.decode()).encode()
    return Markup(f"data:image/{kind};base64,{base64.b64encode(content).decode()}")  # needs no escaping


def _saved(figure: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, transparent=True, **options)
    return buffer.getvalue()


def _slim(svg: str) -> str:
    """Without what a browser does not need, in the fonts of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    # Tags are ours: in text that comes from the data "<" is escaped.
    svg = re.sub(r'(<text style="[^"]*?)font-family: [^;"]*;? ?', r"\1", svg)
    svg = re.sub(r"<(?:path|use)[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    ends = "stroke-linecap: butt}"
    svg = svg.replace(ends, f"{ends} text{{font-family:{FONTS};white-space:pre}}", 1)
    return re.sub(r"\n\s*", "\n", svg)


def of_witness(w: Witness, labels: tuple[str, str]) -> Picture:
    """The witness of one column, or of all of them together, and how to read it."""
    count = len(w.names)
    title = {1: short(w.names[0]), 2: "Both columns together"}.get(count, f"All {count} columns together")
    if count == 1 and w.categorical[0]:
        caption = "Each dot is a category. Right of 0 the first sample has more of it, left of 0 the second."
    elif count == 1:
        caption = "Above 0 the first sample has more rows, below 0 the second; shaded where that is sure."
    elif count == 2 and not w.categorical.any():
        caption = "Colour says which sample has more rows there; inside the heavy line that is sure."
    else:
        caption = "Every mark is a row, placed by two columns and coloured by what all columns say."
        caption += f" Filled marks lie where a difference is sure (the {w.level:.0%} band excludes 0)."
    source = draw(lambda ax: plotting.plot_witness(w, ax, labels=labels))
    return Picture(source, _seen(w, labels), title, caption)


def _seen(w: Witness, labels: tuple[str, str]) -> str:
    """What the picture of a witness shows."""
    if len(w.names) > 1:
        some = (table.values[:: max(1, len(table.values) // SHARE_ROWS)] for table in w.tables)
        at_x, at_y = map(w.difference.mean, some)
        above, below = percent(float(np.mean(at_x > 0.0))), percent(float(np.mean(at_y < 0.0)))
        first, second = map(short, labels)
        where = f"positive at {above} of the rows of {first}, negative at {below} of the rows of {second}"
        return f"Witness over {len(w.names)} columns, {where}."
    parts = [f"Witness of {short(w.names[0])}: which sample has more rows where."]
    for region in w.where()[:4]:
        name, ends = next(iter(region.box.items()))
        _, span = of_range(name, ends, region.units.get(name, ""))
        parts.append(f"Significantly more of {short(labels[region.sign < 0])}: {span}.")
    return " ".join(parts if w.where() else [*parts, f"The {w.level:.0%} band includes 0 everywhere."])


def of_pair(comparison: Comparison, pair: Change) -> Picture:
    """Two columns whose relationship changed."""
    title = f"{short(pair.columns[0])} and {short(pair.columns[1])}"
    caption = "Every mark is a row of one of the samples, placed by its values in both columns."
    source = draw(lambda ax: plotting.plot_pair(comparison, pair.columns, ax))
    return Picture(source, f"Rows of both samples: {pair.words}.", title, caption)


def null(test: TestOutcome) -> Picture:
    """The null distribution."""
    drawn = np.asarray(test.null_distribution)
    low, high = (number(float(end)) for end in (drawn.min(), drawn.max()))
    below = percent(float(np.mean(drawn < test.statistic)))
    alt = f"Histogram of {len(drawn):,} values of the statistic under no difference, from {low} to {high}."
    alt += f" A line marks the observed value, {number(test.statistic)}; {below} of them lie below it."
    caption = "Grey: what chance gives when the labels of the rows are shuffled. Line: what the data gave."
    source = draw(lambda ax: plotting.plot_test(test, ax))
    return Picture(source, alt, "Observed against chance", caption)


def evidence(comparison: Comparison) -> Picture | None:
    """The predictive score over scales; None where nothing was learned."""
    if (learned := comparison.evidence) is None:
        return None
    ends = (learned.lengthscales.min(), learned.lengthscales.max(), learned.peaks[0])
    low, high, best = (number(float(scale), 3) for scale in ends)
    unit = f" {learned.unit}" if learned.unit else ""
    alt = f"Predictive score over lengthscales from {low} to {high}{unit}. It is highest at {best}."
    if len(learned.peaks) > 1:
        alt += f" There are {len(learned.peaks)} peaks."
    caption = "The higher, the better this scale describes the rows of both samples together."
    source = draw(lambda ax: plotting.plot_learned(learned, ax))
    return Picture(source, alt, "Evidence over scales", caption)


def of_shift(shift: Shift) -> list[Picture]:
    """Where the relation changed: the inputs along which the difference varies, or the first of them."""
    if not shift.changed or not shift.profiles:
        return []
    varying = [one.column for one in shift.profiles if one.pvalue <= shift.alpha]
    found = []
    for column in list(dict.fromkeys(varying))[:2] or [shift.profiles[0].column]:
        profile = next(one for one in shift.profiles if one.column == column)
        ranges = [one.describe(shift.target, shift.labels[1], shift.unit) for one in profile.regions]
        alt = f"Difference of {short(shift.target)} at equal inputs along {short(column)}. "
        alt += f"The band excludes 0 {'; '.join(ranges)}." if ranges else "The band includes 0 everywhere."
        caption = f"{short(shift.labels[1])} less {short(shift.labels[0])} at equal inputs. "
        caption += "Coloured: the band excludes 0, for all groups of all inputs at once."
        source = draw(partial(plotting.plot_shift, shift, column=column))
        found.append(Picture(source, alt, f"{short(shift.target)} along {short(column)}", caption))
    return found


def ticks(column: ColumnSummary) -> list[tuple[float, str]]:
    """Numbers under some bars, values or edges, each with its place from 0 to 1."""
    bars = column.histogram
    assert bars is not None
    values = np.array(bars.values or bars.edges)
    places = (np.arange(len(values)) + (0.43 if bars.values else 0.0)) / len(bars.x)
    count = min(3 if column.unit == DAYS else NUMBERS, len(values))
    chosen = np.linspace(0, len(values) - 1, count).round().astype(int)
    low, high = values[chosen[0]] / count, values[chosen[-1]] / count  # parts of 1e308 stay numbers
    numbers = [of_unit(value, column.unit, 3, high - low) for value in values[chosen].tolist()]
    return list(zip(places[chosen].tolist(), numbers, strict=True))


def alt_of(column: ColumnSummary, labels: tuple[str, str]) -> str:
    """What the picture of a column shows."""
    sides = list(zip(map(short, labels), (column.x, column.y), strict=True))
    if column.categorical:
        level = next(iter(column.x))
        return f"{short(level)}: {', '.join(f'{percent(side[level])} of {name}' for name, side in sides)}"
    said = []
    for name, side in sides:
        keys = ("median", "quartile", "upper quartile")
        median, low, high = (of_unit(side[key], column.unit) for key in keys)
        said.append(f"{name}: median {median}, middle half {low} to {high}")
    where = f" Significantly more: {', '.join(more[:4])}." if (more := _sure(column, sides)) else ""
    return f"Bars of both samples. {'; '.join(said)}.{where}"


def _sure(column: ColumnSummary, sides: list[tuple[str, dict[str, float]]]) -> list[str]:
    """The runs of bars in which one sample has significantly more."""
    if (bars := column.histogram) is None:
        return []
    starts, ends = (bars.values, bars.values) if bars.values else (bars.edges, bars.edges[1:])
    found = []
    for sign, run in groupby(range(len(bars.more)), bars.more.__getitem__):
        places = list(run)
        span = dict.fromkeys(of_unit(end, column.unit, 3) for end in (starts[places[0]], ends[places[-1]]))
        if sign:
            found.append(f"{sides[0 if sign > 0 else 1][0]} at {' to '.join(span)}")
    return found

"""Small pictures drawn by hand as SVG: two samples of a column side by side, and a bar from half to whole.

They hold numbers only; names appear in their descriptions, which are escaped.
"""

from markupsafe import Markup

from kembed.comparing.summaries import QUANTILES, ColumnSummary
from kembed.report.words import number, percent, short

WIDTH, HEIGHT = 132.0, 30.0  # two bars of text height
MIDDLES = (8.0, 22.0)  # of the bar of x and that of y
# Ends lie at most this many times the middle half's width from it; whiskers that go further are cut.
REACH = 2.0


def of_column(column: ColumnSummary, labels: tuple[str, str]) -> Markup:
    """A box for each sample, or bars of shares."""
    inside, said = (_shares if column.categorical else _boxes)(column, labels)
    opening = Markup('<svg class="glyph" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return opening.format(f"{WIDTH:g}", f"{HEIGHT:g}", said) + Markup("".join(inside)) + Markup("</svg>")


def _boxes(column: ColumnSummary, labels: tuple[str, str]) -> tuple[list[str], str]:
    """Whiskers over the range, a box over the middle half, a line at the median."""
    size = max(abs(side[end]) for side in (column.x, column.y) for end in ("minimum", "maximum")) or 1.0
    sides = [{key: value / size for key, value in side.items()} for side in (column.x, column.y)]
    low, high = min(side["quartile"] for side in sides), max(side["upper quartile"] for side in sides)
    span = high - low
    first, last = min(side["minimum"] for side in sides), max(side["maximum"] for side in sides)
    if span > 0.0:
        first, last = max(first, low - REACH * span), min(last, high + REACH * span)

    def place(value: float) -> float:
        share = (min(max(value, first), last) - first) / (last - first) if last > first else 0.5
        return 2.0 + share * (WIDTH - 4.0)

    parts = []
    for side, kind, middle in zip(sides, "ab", MIDDLES, strict=True):
        a, box, median, end, b = (place(side[key]) for key in QUANTILES)
        parts += [
            f'<path class="{kind}" d="M{a:.1f} {middle:g}H{b:.1f}"/>',
            _bar(kind, box, max(end - box, 1.0), middle),
            f'<path class="m {kind}" d="M{median:.1f} {middle - 6:g}V{middle + 6:g}"/>',
        ]
    said = "; ".join(
        f"{short(label)}: median {number(side['median'])}, middle half {number(side['quartile'])} to "
        f"{number(side['upper quartile'])}"
        for label, side in zip(labels, (column.x, column.y), strict=True)
    )
    return parts, said


def _shares(column: ColumnSummary, labels: tuple[str, str]) -> tuple[list[str], str]:
    """The share of the level that changed most."""
    level = next(iter(column.x))
    shares = column.x[level], column.y[level]
    parts = []
    for share, kind, middle in zip(shares, "ab", MIDDLES, strict=True):
        parts += [_bar("rail", 2.0, WIDTH - 4.0, middle), _bar(kind, 2.0, share * (WIDTH - 4.0), middle)]
    said = [f"{percent(share)} of {short(label)}" for share, label in zip(shares, labels, strict=True)]
    return parts, f"{short(level)}: {', '.join(said)}"


def _bar(kind: str, start: float, width: float, middle: float) -> str:
    return f'<rect class="{kind}" x="{start:.1f}" y="{middle - 4.5:g}" height="9" width="{width:.1f}"/>'


def gauge(share: float) -> Markup:
    """A bar from 50% to 100%."""
    width = 400.0 * 2.0 * (min(max(share, 0.5), 1.0) - 0.5)
    return Markup(
        '<svg class="gauge" viewBox="0 0 400 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" width="400" height="10"/>'
        f'<rect class="level" width="{width:.1f}" height="10"/></svg>'
    )

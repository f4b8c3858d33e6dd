"""Small pictures drawn by hand as SVG: both samples of a column as bars, and a bar from half to whole.

They hold numbers, and names that are escaped. Their colours are those of the page, also in the dark.
"""

from markupsafe import Markup

from kembed.comparing.summaries import ColumnSummary, Histogram
from kembed.report.words import of_unit, percent, short
from kembed.tables.times import DAYS

WIDTH, HEIGHT = 132.0, 40.0  # of a small picture: it stands in a row of a table
WIDE, HIGH, TICKS = 440.0, 180.0, 26.0  # of a large one, and room below it for numbers
LINE, NAMES = 34.0, 130.0  # of a large picture of categories: the height of a level, and room for its name
LETTERS = 20  # of that name
LEAST = 0.6  # a bar of a few rows can still be seen
AT = 5  # places with a number below


def of_column(column: ColumnSummary, labels: tuple[str, str]) -> Markup:
    """Bars of the first sample upwards and of the second downwards; strong where significantly higher."""
    if column.histogram is None:
        return Markup("")
    return _drawing("glyph", WIDTH, HEIGHT, _said(column, labels), _bars(column.histogram, WIDTH, HEIGHT))


def large(column: ColumnSummary, labels: tuple[str, str]) -> Markup:
    """The same with numbers below; of categories the levels that changed most, by name."""
    said = _said(column, labels)
    if column.categorical:
        inside = [
            part
            for place, level in enumerate(column.x)
            for part in _level(level, (column.x[level], column.y[level]), LINE * place)
        ]
        return _drawing("plot", WIDE, LINE * len(column.x), said, inside)
    assert column.histogram is not None
    inside = [*_bars(column.histogram, WIDE, HIGH), *_ticks(column.histogram, column.unit)]
    return _drawing("plot", WIDE, HIGH + TICKS, said, inside)


def _drawing(kind: str, width: float, height: float, said: str, inside: list[Markup]) -> Markup:
    opening = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    return (
        opening.format(kind, f"{width:g}", f"{height:g}", said) + Markup("").join(inside) + Markup("</svg>")
    )


def _bars(bars: Histogram, width: float, height: float) -> list[Markup]:
    """A bar of either sample at every place, from the line in the middle."""
    top, step, middle = max(*bars.x, *bars.y), width / len(bars.x), 0.5 * height
    found = []
    for place, (a, b, more) in enumerate(zip(bars.x, bars.y, bars.more, strict=True)):
        for share, kind, up in ((a, "a", True), (b, "b", False)):
            tall = max((middle - 1.0) * share / top, LEAST) if share > 0.0 else 0.0
            sure = " sure" if more == (1 if up else -1) else ""
            found.append(_bar(kind + sure, step * place, 0.86 * step, middle - tall if up else middle, tall))
    line = Markup('<path class="axis" d="M0 {}H{}"/>').format(f"{middle:g}", f"{width:g}")
    return [*found, line]


def _bar(kind: str, x: float, width: float, y: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, *(f"{value:.1f}" for value in (x, y, width, height))
    )


def _ticks(bars: Histogram, unit: str) -> list[Markup]:
    """Numbers under the bars: values, or edges."""
    if bars.values:
        step = WIDE / len(bars.values)
        every = -(-len(bars.values) // (2 * AT))
        places = [(step * (k + 0.43), value) for k, value in enumerate(bars.values) if k % every == 0]
    else:
        count = len(bars.edges) - 1
        chosen = [round(k * count / (AT - 1)) for k in range(AT)]
        places = [(WIDE * k / count, bars.edges[k]) for k in chosen]
    if unit == DAYS:  # a date is wide
        places = places[:: max(1, (len(places) - 1) // 2)]
    step = abs(places[-1][1] - places[0][1]) / len(places)
    anchors = ["start" if x < 20.0 else "end" if x > WIDE - 20.0 else "middle" for x, _ in places]
    numbers = (of_unit(value, unit, 3, step) for _, value in places)
    return [
        _text(x, HIGH + 18.0, number, anchor)
        for (x, _), number, anchor in zip(places, numbers, anchors, strict=True)
    ]


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        f"{x:.1f}", f"{y:.1f}", anchor, text
    )


def _level(level: str, shares: tuple[float, float], y: float) -> list[Markup]:
    """A level, and its share in either sample."""
    room = WIDE - NAMES - 50.0
    found = [_text(NAMES - 8.0, y + 20.0, short(level, LETTERS), "end")]
    for share, kind, down in zip(shares, ("a sure", "b sure"), (3.0, 17.0), strict=True):
        wide = max(room * share, LEAST)
        found.append(_bar(kind, NAMES, wide, y + down, 11.0))
        found.append(_text(NAMES + wide + 5.0, y + down + 10.0, percent(share), "start"))
    return found


def _said(column: ColumnSummary, labels: tuple[str, str]) -> str:
    """What the picture shows."""
    names = [short(label) for label in labels]
    if column.categorical:
        level = next(iter(column.x))
        shares = zip((column.x[level], column.y[level]), names, strict=True)
        return f"{short(level)}: {', '.join(f'{percent(share)} of {name}' for share, name in shares)}"
    shares_in_words = "; ".join(
        f"{name}: median {of_unit(side['median'], column.unit)}, middle half "
        f"{of_unit(side['quartile'], column.unit)} to {of_unit(side['upper quartile'], column.unit)}"
        for name, side in zip(names, (column.x, column.y), strict=True)
    )
    places = _sure_places(column.histogram, names, column.unit) if column.histogram else ""
    return f"Bars of both samples. {shares_in_words}.{places}"


def _sure_places(bars: Histogram, names: list[str], unit: str) -> str:
    """The runs of bars in which one sample is significantly higher."""
    runs: list[tuple[int, int, int]] = []
    for place, more in enumerate(bars.more):
        if more and runs and runs[-1][0] == more and runs[-1][2] == place - 1:
            runs[-1] = (more, runs[-1][1], place)
        elif more:
            runs.append((more, place, place))
    if not runs:
        return ""
    said = []
    for more, first, last in runs[:4]:
        ends = (
            (bars.values[first], bars.values[last])
            if bars.values
            else (bars.edges[first], bars.edges[last + 1])
        )
        low, high = (of_unit(end, unit, 3) for end in ends)
        span = low if low == high else f"{low} to {high}"
        said.append(f"{names[0 if more > 0 else 1]} at {span}")
    return f" Significantly more: {', '.join(said)}."


def gauge(share: float) -> Markup:
    """A bar from 50% to 100%."""
    width = 400.0 * 2.0 * (min(max(share, 0.5), 1.0) - 0.5)
    return Markup(
        '<svg class="gauge" viewBox="0 0 400 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" width="400" height="10"/>'
        f'<rect class="level" width="{width:.1f}" height="10"/></svg>'
    )

"""What the small pictures of `drawings.html` say: numbers below bars, and words for those who cannot see."""

from itertools import groupby

import numpy as np

from kembed.comparing.summaries import ColumnSummary
from kembed.report.words import of_unit, percent, short
from kembed.tables.times import DAYS

NUMBERS = 5  # below the bars; of dates, which are wide, three


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


def seen(column: ColumnSummary, labels: tuple[str, str]) -> str:
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
    found = []
    bars = column.histogram
    for sign, run in groupby(range(len(bars.more)), bars.more.__getitem__) if bars else ():
        first, *rest = run
        last = [first, *rest][-1]
        starts, ends = (bars.values, bars.values) if bars.values else (bars.edges, bars.edges[1:])
        span = dict.fromkeys(of_unit(end, column.unit, 3) for end in (starts[first], ends[last]))
        if sign:
            found.append(f"{sides[0 if sign > 0 else 1][0]} at {' to '.join(span)}")
    return found

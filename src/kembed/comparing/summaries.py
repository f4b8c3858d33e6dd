"""What changed, in numbers a person knows: means, spreads, shares and missing values of a column."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.comparing.changes import of_numbers
from kembed.comparing.column_effects import (
    ColumnEffect,
    Independent,
    auc_interval,
    category_effect,
    fisher_pvalue,
    number_effect,
    standardised_difference,
    superiority,
)
from kembed.comparing.difference import Values
from kembed.core.backend import Float, Int
from kembed.core.text import plain
from kembed.permutation.nulls import holm
from kembed.tables.missing import INDICATOR
from kembed.tables.source import SAMPLE
from kembed.tables.table import Tables
from kembed.tables.times import DAYS, shown
from kembed.testing.outcome import ColumnResults
from kembed.testing.reference import ColumnTotal
from kembed.testing.sketch import Sketch

# What is worth a word: a shift of so many standard deviations, a ratio of spreads this far from 1.
SHIFT, RATIO = 0.1, 1.1
LEVELS = 5  # as many categories as one looks at in a table
QUANTILES = {"minimum": 0.0, "quartile": 0.25, "median": 0.5, "upper quartile": 0.75, "maximum": 1.0}
LEAST_BARS, MOST_BARS = 8, 24  # fewer show no shape, more do not fit a small picture
FEW = 16  # values of a column: a bar for each
TAILS = 0.005  # of the rows on either side lie in the first and the last bar, however far out
SURE = 0.05  # level of Fisher's exact test of every bar, for all bars of a column


@dataclass(frozen=True)
class Histogram:
    """Shares of both samples in bars: at `values`, or between `edges`, the outermost of which are open.

    `more` is 1 where x significantly has more rows, -1 where y has, 0 elsewhere.
    """

    edges: tuple[float, ...]
    values: tuple[float, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    more: tuple[int, ...]


@dataclass(frozen=True)
class ColumnSummary:
    """One column of both samples.

    For numbers `x` and `y` hold mean, sd, quartiles and range; for categories the shares of the levels that
    changed most. `change` says it in words. `auc` is P(y > x) + ½ P(y = x) for a value of each sample, for
    categories how often the level that changed most tells them apart; `standardised` is the difference of
    means in standard deviations, None for categories. `missing` has the shares of missing values and
    `missing_pvalue` that of Fisher's exact test of them, corrected for all columns; None where nothing is
    missing. `effect` says how much the column changed in its own terms, with intervals corrected for all
    columns, and whether that is beyond a margin.
    """

    name: str
    categorical: bool
    pvalue: float  # of the test of this column alone
    adjusted_pvalue: float  # corrected for the number of columns
    sensitivity: float  # share of the witness's variance that needs this column
    x: dict[str, float]
    y: dict[str, float]
    change: str
    auc: float = 0.5
    auc_interval: tuple[float, float] = (0.0, 1.0)  # 95%
    standardised: float | None = None
    missing: tuple[float, float] = (0.0, 0.0)
    missing_pvalue: float | None = None
    histogram: Histogram | None = None
    unit: str = ""  # what its numbers count, where the data say so: dates are days
    effect: ColumnEffect | None = None  # None where a sample has no value

    def __str__(self) -> str:
        return f"{self.name}: {self.change} (p = {self.adjusted_pvalue:.2g} for all columns)"


@dataclass(frozen=True, eq=False)
class Side:
    """One column of one sample: its values at hand, and, of a sketch, the totals of all rows."""

    values: Float[np.ndarray, " n"]
    total: ColumnTotal | None = None
    levels: tuple[Any, ...] = ()  # that the counts of the total are of

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.values) if self.total is None else self.total.size

    def at_points(self, total: ColumnTotal | None) -> Float[np.ndarray, " n"]:
        """Values as a sketch counts them, so that both samples are counted alike; at most 50,000."""
        if self.total is not None:
            return np.repeat(self.total.points, _thinned(self.total.counts))
        if total is None:
            return self.values
        middles = total.points[:-1] + 0.5 * (total.points[1:] - total.points[:-1])
        inside = (self.values >= total.low) & (self.values <= total.high)  # no row of the sketch is outside
        return np.where(inside, total.points[np.searchsorted(middles, self.values)], self.values)

    def moments(self) -> dict[str, float]:
        """Mean, sd, quartiles and range."""
        if self.total is None:
            return _moments(self.values)
        own = self.total
        ends = {"minimum": own.low, "maximum": own.high}
        return {**_moments(self.at_points(None)), "mean": own.mean, "sd": own.sd, **ends}

    def level_counts(self, levels: tuple[Any, ...]) -> Float[np.ndarray, " L"]:
        """Rows of every level; those that a sketch counts as one are shared out as in the rows it keeps."""
        found = np.bincount(self.values.astype(int), minlength=len(levels)).astype(float)
        if self.total is None:
            return found
        known = np.array([level in self.levels for level in levels])
        rest = found * ~known
        found = rest * (self.total.counts[-1] / max(rest.sum(), 1.0))
        counts = dict(zip(self.levels, self.total.counts.tolist(), strict=False))
        return found + np.array([float(counts.get(level, 0)) for level in levels])


def _thinned(counts: Int[np.ndarray, " L"]) -> Int[np.ndarray, " L"]:
    """Counts in the same proportions, of at most as many rows as a sample in memory has.

    >>> _thinned(np.array([30_000, 170_000, 0])).tolist(), _thinned(np.array([3, 1])).tolist()
    ([7500, 42500, 0], [3, 1])
    """
    total = np.cumsum(counts)
    most = min(int(total[-1]), SAMPLE)
    return np.diff(total * most // max(int(total[-1]), 1), prepend=0)


def summarise(
    tables: Tables,
    tests: ColumnResults,
    sensitivity: Values,
    labels: tuple[str, str],
    units: Independent,
    alpha: float = 0.05,
    sketches: tuple[Sketch | None, Sketch | None] = (None, None),
) -> tuple[ColumnSummary, ...]:
    """Every column, the largest effect first; intervals of effects are at level `alpha` for all of them.

    Columns of a sketch are those of all its rows, and have no effect with an interval; its table has the rows
    that it keeps.
    """
    found = []
    each = alpha / len(tests)
    gaps = _missing(tables, sketches, tested=not units.counts)
    for d, (test, share) in enumerate(zip(tests, sensitivity, strict=True)):
        one, two = sides = [
            Side(table.values[table.observed(d), d])
            if sketch is None
            else Side(table.values[:, d], sketch.column(d), sketch.specification.schema.levels[d])
            for table, sketch in zip(tables, sketches, strict=True)
        ]
        total = one.total or two.total
        first, second = (side.at_points(total) for side in sides)
        categorical = bool(tables[0].categorical[d])
        levels = tables[0].levels[d] if categorical else ()
        standardised = effect = None
        own = units.where(tables[0].observed(d), tables[1].observed(d))
        if categorical:
            counts = [side.level_counts(levels) for side in sides]
            first, second = (
                np.repeat(np.arange(float(len(levels))), _thinned(rows.astype(int))) for rows in counts
            )
            x, y = (dict(zip(map(str, levels), (rows / rows.sum()).tolist(), strict=True)) for rows in counts)
            of_gaps = bool(tables[0].missing_of and tables[0].missing_of[d])
            top = sorted(x, key=lambda level: -abs(x[level] - y[level]))[:LEVELS]
            top = list(INDICATOR[::-1]) if of_gaps else top
            x, y = ({level: side[level] for level in top} for side in (x, y))
            what = "missing in" if of_gaps else f"{top[0]!r} is"
            change = f"{what} {x[top[0]]:.1%} of {labels[0]} and {y[top[0]]:.1%} of {labels[1]}"
            auc = 0.5 * (1.0 + abs(y[top[0]] - x[top[0]]))
            if not total:
                codes = [table.values[table.observed(d), d] for table in tables]
                effect = category_effect(codes[0], codes[1], levels, own, each)
        else:
            x, y = (side.moments() for side in sides)
            unit = tables[0].unit(d)
            if not (one.size and two.size):
                empty = labels[0] if not one.size else labels[1]
                change = f"all values are missing in {empty}"
            elif _is_binary(first, second):
                shares = [
                    f"{side['mean']:.1%} of {label}" for side, label in zip((x, y), labels, strict=True)
                ]
                change = f"1 is {shares[0]} and {shares[1]}"
            else:
                rows = len(one.values) and len(two.values)
                more = of_numbers((one.values, two.values), labels, unit) if rows else []
                change = "; ".join([_changed_moments(x, y, labels, unit), *more])
            auc = 0.5
            if one.size and two.size:
                auc = superiority(first, second)
                standardised = standardised_difference(first, second)
                if total:  # of all rows
                    sd = float(np.hypot(x["sd"], y["sd"])) / 2.0**0.5
                    standardised = (y["mean"] - x["mean"]) / sd if sd > 0.0 else 0.0
                effect = None if total else number_effect(first, second, own, each)
        missing, missing_pvalue = gaps.get(d, ((0.0, 0.0), None))
        summary = ColumnSummary(
            test.name,
            categorical,
            test.pvalue,
            test.adjusted_pvalue,
            float(share),
            x,
            y,
            change,
            auc,
            auc_interval(auc, *(max(count, 1) for count in own.counts or (one.size, two.size))),
            standardised,
            missing,
            missing_pvalue,
            histogram(first, second, len(levels), marked=not own.counts) if one.size and two.size else None,
            tables[0].unit(d),
            effect,
        )
        found.append(summary)
    return tuple(sorted(found, key=lambda column: -column.effect.difference if column.effect else 0.0))


def _missing(
    tables: Tables, sketches: tuple[Sketch | None, Sketch | None], *, tested: bool
) -> dict[int, tuple[tuple[float, float], float | None]]:
    """Of columns with missing values: their shares, and p corrected for these and for the columns' own tests.

    All rows count that were given, also those that were dropped. Rows of clusters are not `tested`.
    """
    n, m = (
        table.given if sketch is None else sketch.totals.given
        for table, sketch in zip(tables, sketches, strict=True)
    )
    every = (
        table.gaps if sketch is None else sketch.totals.missing.tolist()
        for table, sketch in zip(tables, sketches, strict=True)
    )
    both = zip(*every, strict=True)
    counts = {d: (a, b) for d, (a, b) in enumerate(both) if a or b}
    pvalues = [fisher_pvalue(a, n, b, m) for a, b in counts.values()]
    adjusted = holm(np.array(pvalues), others=len(tables[0].names)) if pvalues else ()
    included = any(tables[0].missing_of) or not tested  # the test has seen them
    return {
        d: ((a / n, b / m), None if included else float(p))
        for (d, (a, b)), p in zip(counts.items(), adjusted, strict=True)
    }


def _is_binary(*columns: Float[np.ndarray, " n"]) -> bool:
    """Whether a column has zeros and ones, and nothing else."""
    both = np.concatenate(columns)
    return bool(((both == 0.0) | (both == 1.0)).all()) and both.min() < both.max()


def _moments(column: Float[np.ndarray, " n"]) -> dict[str, float]:
    if not len(column):
        return dict.fromkeys(("mean", "sd", *QUANTILES), float("nan"))
    size = float(np.abs(column).max()) or 1.0  # sums and squares of the largest numbers must stay numbers
    scaled = column / size
    sd = float(np.std(scaled, ddof=1)) if len(column) > 1 else 0.0
    quantiles = size * np.quantile(scaled, list(QUANTILES.values()))
    ends = dict(zip(QUANTILES, quantiles.tolist(), strict=True))
    return {"mean": size * float(np.mean(scaled)), "sd": size * sd, **ends}


def _changed_moments(x: dict[str, float], y: dict[str, float], labels: tuple[str, str], unit: str) -> str:
    """The mean, and the spread where that is what changed."""
    low, high = sorted((x["sd"], y["sd"]))
    pooled = high * np.sqrt(0.5 * (1.0 + (low / high) ** 2)) if high > 0.0 else 0.0
    gap = y["mean"] - x["mean"]
    step = max(abs(gap), SHIFT * pooled)
    dated = unit == DAYS
    means = [shown(side["mean"], unit, step=step) if dated else beside(side["mean"], step) for side in (x, y)]
    mean = f"mean {means[0]} in {labels[0]}, {means[1]} in {labels[1]}"
    if means[0] == means[1]:
        mean = f"mean {means[0]} in both"
    elif dated:
        mean += f" ({_lapse(abs(gap))} {'later' if gap > 0 else 'earlier'})"
    elif pooled > 0.0 and abs(gap) >= SHIFT * pooled:
        mean += f" ({abs(gap) / pooled:.2g} sd {'higher' if gap > 0 else 'lower'})"
    narrow, wide = labels if x["sd"] < y["sd"] else labels[::-1]
    if low > 0.0 and high >= RATIO * low:
        mean += f"; spread {plain(high / low, 2, thousands=True)} times as wide in {wide}"
    elif low == 0.0 < high:
        mean += f"; constant in {narrow}"
    return mean


def _lapse(days: float) -> str:
    """A time between two dates.

    >>> _lapse(730.2), _lapse(0.25)
    ('730 days', '6 hours')
    """
    number, unit = (days, "day") if days >= 1.0 else (24.0 * days, "hour")
    return f"{plain(number, 3)} {unit}{'' if plain(number, 3) == '1' else 's'}"


def beside(value: float, step: float) -> str:
    """A number with as many digits as it takes to see a step of this size, two of them its own.

    >>> beside(2008.0291, 0.13), beside(0.00123, 0.26), beside(41.7, 30.0)
    ('2008.03', '0', '42')
    """
    if not 0.0 < step < np.inf:
        return plain(value)
    decimals = max(0, 1 - int(np.floor(np.log10(step))))
    shown = round(value, decimals) + 0.0 if decimals < 300 else value  # no minus before 0
    if not 1e-4 <= abs(shown) < 1e7:
        return plain(shown)
    return f"{shown:.{decimals}f}".rstrip("0").rstrip(".") if decimals > 0 else f"{shown:.0f}"


def histogram(x: Values, y: Values, levels: int = 0, *, marked: bool = True) -> Histogram:
    """The bars of a column; one for each of `levels` codes, or of a few different values.

    Bars in which one sample is significantly higher are `marked` if rows are independent.
    """
    both = np.concatenate([x, y])
    values = np.arange(float(levels)) if levels else np.unique(both)
    edges = np.empty(0)
    if not levels and len(values) > FEW:
        low, high = np.quantile(both, [TAILS, 1.0 - TAILS])
        if not low < high:
            low, high = values[0], values[-1]
        bars = int(np.clip(2.0 * len(both) ** (1.0 / 3.0), LEAST_BARS, MOST_BARS))  # Rice's rule
        edges = low + (high / bars - low / bars) * np.arange(bars + 1)
        values = np.empty(0)
        counts = [np.histogram(np.clip(part, edges[0], edges[-1]), edges)[0] for part in (x, y)]
    else:
        counts = [np.bincount(np.searchsorted(values, part), minlength=len(values)) for part in (x, y)]
    n, m = len(x), len(y)
    pvalues = holm(np.array([fisher_pvalue(int(a), n, int(b), m) for a, b in zip(*counts, strict=True)]))
    shares = counts[0] / n, counts[1] / m
    sure = pvalues <= (SURE if marked else -1.0)
    more = np.where(sure, np.sign(shares[0] - shares[1]), 0.0).astype(int)
    first, second, ends, at, side = (tuple(part.tolist()) for part in (*shares, edges, values, more))
    return Histogram(ends, at, first, second, side)

"""What changed, in words: repeated values, rounding, outliers, and how two columns go together.

Sentences are computed from the columns and reported if significant. Which columns and pairs are looked
at is for the test to say (`TestOutcome.findings`); here is what to call what it found.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.comparing.column_effects import fisher_pvalue
from kembed.core.backend import Float
from kembed.core.linalg import robust_spread
from kembed.core.ordering import middle_ranks
from kembed.core.text import plain
from kembed.tables.table import Table, Tables
from kembed.tables.times import DAYS, shown
from kembed.testing.outcome import Finding

Column = Float[np.ndarray, " n"]
Columns = tuple[Column, Column]
Said = tuple[float, str]  # standard errors, and words; none where there is nothing to say
# How many standard errors apart shares or correlations must be to be reported: once in 15,000 by chance, as
# many steps and values are tried.
SURE = 4.0
NOTABLE = 0.05  # the least difference of two shares that is worth a word
FAR = 5.0  # robust standard deviations from the median: once in two million normal rows
UNLIKELY = 0.01  # the p-value of two shares of outliers
LEAST_STEP = 1e-290  # below it nothing can be divided by
RARE = 0.2  # what more rows of a sample do than these is no matter of a few outliers
TURN = 0.1  # the least difference of Fisher's z of two correlations worth a word: 0 and .1, .90 and .92
STEPS = np.outer(10.0 ** np.arange(-6, 2), (1.0, 2.0, 5.0)).ravel()  # times the decade of the spread
WHOLLY = 0.95  # a column of which so much lies on a step is rounded to it


@dataclass(frozen=True)
class Change:
    """How two columns go together, in either sample, and the p-value for all columns and pairs."""

    columns: tuple[str, str]
    adjusted_pvalue: float
    words: str

    def __str__(self) -> str:
        return f"{self.words} (p = {self.adjusted_pvalue:.2g} for all columns and pairs)"


def pair_changes(
    tables: Tables | None, findings: tuple[Finding, ...], labels: tuple[str, str], alpha: float
) -> tuple[Change, ...]:
    """The pairs of columns that changed significantly and can be described; the largest change first.

    Without tables, of sketches that keep no rows, nothing says how a pair changed.
    """
    pairs = [one for one in findings if len(one.columns) == 2 and one.adjusted_pvalue <= alpha]
    if tables is None:
        described = []
        for one in pairs:
            names = one.columns[0], one.columns[1]
            described.append(Change(names, one.adjusted_pvalue, f"the pair of {' and '.join(names)} differs"))
        return tuple(described)
    columns, found = tables[0].names, []
    for finding in pairs:
        a, b = (columns.index(name) for name in finding.columns)
        if tables[0].missing_of and (tables[0].missing_of[a] or tables[0].missing_of[b]):
            continue  # the indicator of missing values has its own finding
        x, y = (
            replace(table, values=table.values[table.observed(a) & table.observed(b)]) for table in tables
        )
        if min(len(x.values), len(y.values)) < 2:
            continue
        kinds = x.categorical[[a, b]]
        if kinds.any() and not kinds.all():
            errors, words = _by_level((x, y), *((a, b) if kinds[1] else (b, a)), labels)
        else:
            errors, words = (_together if kinds.all() else _correlation)((x, y), a, b, labels)
        if words:
            found.append((errors, Change((columns[a], columns[b]), finding.adjusted_pvalue, words)))
    found.sort(key=lambda pair: (pair[1].adjusted_pvalue, -pair[0]))
    return tuple(change for _, change in found)


def of_numbers(columns: Columns, labels: tuple[str, str], unit: str = "") -> list[str]:
    """What a mean and a spread do not say about a numeric column; dates are not rounded."""
    rounding = None if unit == DAYS else _rounding(columns, labels)
    values = rounding or _repeated(columns, labels, unit)
    return [said for said in (values, _outliers(columns, labels)) if said]


def _correlation(tables: Tables, a: int, b: int, labels: tuple[str, str]) -> Said:
    """Spearman's rank correlation, and that of distances from the median, compared by Fisher's z."""
    sides = [(table.values[:, a], table.values[:, b]) for table in tables]
    one, other = tables[0].names[a], tables[0].names[b]
    if any(np.ptp(column) == 0.0 for side in sides for column in side):
        return 0.0, ""  # there is no correlation with a constant
    r, s = (_spearman(*side) for side in sides)
    if (errors := _apart(r, s, tables)) > SURE:
        digits = next((d for d in (2, 3, 4) if f"{r:.{d}f}" != f"{s:.{d}f}"), 5)
        went = f"went from {r:.{digits}f} in {labels[0]} to {s:.{digits}f} in {labels[1]}"
        return errors, f"the rank correlation (Spearman) of {one} and {other} {went}"
    middles = [np.median(np.concatenate(column)) for column in zip(*sides, strict=True)]
    away = [[np.abs(column - middle) for column, middle in zip(side, middles, strict=True)] for side in sides]
    r, s = (_spearman(*side) for side in away)
    if (errors := _apart(r, s, tables)) > SURE:
        more = labels[s > r]
        return errors, f"{one} and {other} lie far from their middles together more often in {more}"
    return 0.0, ""


def _spearman(a: Column, b: Column) -> float:
    if min(np.ptp(a), np.ptp(b)) == 0.0:
        return 0.0
    return float(np.corrcoef(middle_ranks(a), middle_ranks(b))[0, 1])


def _apart(r: float, s: float, tables: Tables) -> float:
    """How many standard errors two rank correlations differ by; 0 where that is not worth a word.

    Fisher's z has variance 1.06/(n - 3) (Fieller 1957).
    """
    sizes = [max(len(table.values) - 3, 1) for table in tables]
    gap = abs(float(np.arctanh(np.clip(r, -0.999, 0.999)) - np.arctanh(np.clip(s, -0.999, 0.999))))
    return gap / float(np.sqrt(1.06 / sizes[0] + 1.06 / sizes[1])) if gap > TURN else 0.0


def _by_level(tables: Tables, number: int, category: int, labels: tuple[str, str]) -> Said:
    """The level of a category in which the mean of a number changed most, beyond its change everywhere."""
    levels = tables[0].levels[category]
    best = (SURE, "")
    for code, level in enumerate(levels):
        sides = [_inside(table, number, category, code) for table in tables]
        if min(len(inside) for inside, _ in sides) < 2 or min(len(out) for _, out in sides) < 2:
            continue
        gaps = [inside.mean() - out.mean() for inside, out in sides]
        error = np.sqrt(sum(part.var(ddof=1) / len(part) for side in sides for part in side))
        z = abs(gaps[0] - gaps[1]) / error if error > 0.0 else 0.0
        if z > best[0]:
            means = [shown(float(inside.mean()), tables[0].unit(number)) for inside, _ in sides]
            where = f"{tables[0].names[category]} is {str(level)!r}"
            said = f"where {where}, the mean of {tables[0].names[number]} went from {means[0]} in {labels[0]}"
            best = z, f"{said} to {means[1]} in {labels[1]}"
    return best


def _inside(table: Table, number: int, category: int, code: int) -> tuple[Column, Column]:
    own = table.values[:, category] == code
    return table.values[own, number], table.values[~own, number]


def _together(tables: Tables, a: int, b: int, labels: tuple[str, str]) -> Said:
    """The pair of levels whose share changed most."""
    best = (SURE, "")
    for i, first in enumerate(tables[0].levels[a]):
        for j, second in enumerate(tables[0].levels[b]):
            own = [(table.values[:, a] == i) & (table.values[:, b] == j) for table in tables]
            z = _shares_apart(own[0], own[1])
            if z > best[0]:
                pair = f"{tables[0].names[a]} {str(first)!r} with {tables[0].names[b]} {str(second)!r}"
                shares = [f"{part.mean():.1%} of {label}" for part, label in zip(own, labels, strict=True)]
                best = z, f"{pair} is {shares[0]} and {shares[1]}"
    return best


def _shares_apart(first: Any, second: Any) -> float:
    """How many standard errors two shares lie apart, pooled."""
    n, m = len(first), len(second)
    share = (first.sum() + second.sum()) / (n + m)
    error = np.sqrt(share * (1.0 - share) * (1.0 / n + 1.0 / m))
    return float(abs(first.mean() - second.mean()) / error) if error > 0.0 else 0.0


def _rounding(columns: Columns, labels: tuple[str, str]) -> str | None:
    """The step of which more values of one sample are multiples, 0 and the most frequent one excluded."""
    both = np.concatenate(columns)
    spread = float(robust_spread(both - np.median(both)))
    usual = _commonest(both)
    parts = [column[(column != 0.0) & (column != usual)] for column in columns]
    if not (0.0 < spread < np.inf and min(map(len, parts))):
        return None
    best = (SURE, "")
    steps = STEPS * 10.0 ** np.floor(np.log10(spread))
    for step in steps[steps > LEAST_STEP].tolist():
        on = [_on_step(part, step) for part in parts]
        shares = [float(side.mean()) for side in on]
        z = _shares_apart(on[0], on[1])
        if z < best[0] or abs(shares[0] - shares[1]) < NOTABLE:
            continue
        commonest = _commonest(np.concatenate([part[side] for part, side in zip(parts, on, strict=True)]))
        others = [side[part != commonest] for part, side in zip(parts, on, strict=True)]
        if min(map(len, others)) and _shares_apart(others[0], others[1]) >= SURE:  # no matter of one value
            whole = [float(_on_step(column, step).mean()) for column in columns]
            same = [f"{share:.0%}" for share in shares] == [f"{share:.0%}" for share in whole]
            apart = [plain(one) for one in dict.fromkeys((0.0, usual)) if one in both]
            aside = "" if same else f", excluding {' and '.join(apart)}"
            best = z, _rounded(step, shares, labels) + aside
    return best[1] or None


def _commonest(values: Column) -> float:
    """The value that occurs most often, the least of several."""
    different, counts = np.unique(values, return_counts=True)
    return float(different[np.argmax(counts)])


def _on_step(column: Column, step: float) -> Any:
    """Which values are multiples of a step, to the digits that numbers have."""
    times = column / step
    return np.abs(times - np.round(times)) <= 1e-9 * np.abs(times)


def _rounded(step: float, shares: list[float], labels: tuple[str, str]) -> str:
    more = int(shares[1] > shares[0])
    if shares[more] >= WHOLLY:
        return f"rounded to {plain(step)} in {labels[more]} ({shares[1 - more]:.0%} of {labels[1 - more]} is)"
    share, less = f"{shares[more]:.0%} of {labels[more]}", f"{shares[1 - more]:.0%} of {labels[1 - more]}"
    return f"{share} are multiples of {plain(step)}, {less}"


def _repeated(columns: Columns, labels: tuple[str, str], unit: str) -> str | None:
    """The single value whose share changed most."""
    values, counts = np.unique(np.concatenate(columns), return_counts=True)
    common = values[np.argsort(-counts, kind="stable")[:10]]
    found = [(_shares_apart(*(column == value for column in columns)), float(value)) for value in common]
    z, value = max(found, key=lambda each: each[0])
    shares = [float(np.mean(column == value)) for column in columns]
    # A column of few values has a mean and a spread that say as much.
    if z < SURE or abs(shares[0] - shares[1]) < NOTABLE or len(values) <= 10:
        return None
    more = int(shares[1] > shares[0])
    zeros, usual = value == 0.0 and unit != DAYS, shown(value, unit) if unit == DAYS else plain(value)
    what = "more zeros" if zeros else f"more values of {usual}"
    return f"{what} in {labels[more]} ({shares[more]:.0%}, {shares[1 - more]:.0%} of {labels[1 - more]})"


def _outliers(columns: Columns, labels: tuple[str, str]) -> str | None:
    """Rows far from the median, where significantly more of one sample are."""
    both = np.concatenate(columns)
    middle = np.median(both)
    spread = float(robust_spread(both - middle))
    if not spread > 0.0:
        return None
    far = [np.abs(column - middle) > FAR * spread for column in columns]
    counts = [int(part.sum()) for part in far]
    if fisher_pvalue(counts[0], len(far[0]), counts[1], len(far[1])) > UNLIKELY:
        return None
    shares = [count / len(part) for count, part in zip(counts, far, strict=True)]
    more = int(shares[1] > shares[0])
    if shares[more] > RARE:
        return None
    return f"{shares[more]:.1%} of {labels[more]} are outliers, {shares[1 - more]:.1%} of {labels[1 - more]}"

"""What a test does not say and its reader should know: repeated rows, rows in order, identifiers, pairs.

Every function looks at the tables as they came in, in about linear time, and says nothing or true sentences.
The test itself does not depend on any of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from kembed.core.backend import Bool, Float
from kembed.core.ordering import middle_ranks
from kembed.core.shuffling import splitmix64
from kembed.tables.table import Table
from kembed.tables.times import DAYS

# Below so many rows nearly everything happens by chance.
FEW = 5
MANY = 20  # rows of either sample from which a column that separates them is noted
# A correlation is reported if it is at least this large and so many standard errors (1/√n) from none, of the
# numbers and of their ranks: rows of no order reach that once in a million columns.
CORRELATED, ERRORS = 0.3, 5.0
# Chance makes every level of a column lie in one sample less than once in these.
SELDOM = 5000.0
# A sorted file: the mean rank of so many neighbours on either side is taken out, and nothing is said of what
# is a function of the place up to this share of the variance.
BESIDE, EXPLAINED = 10, 0.05

# What to do about rows in order, where the test knows it: of two samples, and of two sides.
WILD = "use null='wild' (kembed test --null wild); for clusters of rows name them, unit= (--unit)"
SHIFT = "use null='shift' (kembed independence --null shift); for clusters of rows name them, unit="
# Repeated rows are reported from this share on, where half the numbers of some column need more digits than
# these: what is rounded repeats by itself. Of one column, whose unit may have been rounded (inches in cm,
# logarithms of prices), from a fifth on.
REPEATED, ALONE, DIGITS = 0.02, 0.2, 5
# Near misses, for every pair that agrees, beyond which rows agree by chance.
MISSED = 0.25

Column = Float[np.ndarray, " n"]


def of_two_samples(x: Table, y: Table, *, ordered: bool = False, paired: bool = False) -> tuple[str, ...]:
    """What to know of two samples; `ordered` if the test minds the order of rows already."""
    notes, marks = _of_samples([x, y])
    if not paired:
        notes += [*shared(x, y, marks[0], marks[1]), *pairs(x, y)]
    if not ordered:
        notes += [*ordered_rows(x), *ordered_rows(y), *(() if paired else clusters(x, y))]
    return tuple(notes)


def of_several(tables: list[Table], *, ordered: bool = False) -> tuple[str, ...]:
    """The same of several samples."""
    notes, marks = _of_samples(tables)
    for (x, own), (y, other) in combinations(zip(tables, marks, strict=True), 2):
        notes += shared(x, y, own, other)
    remedy = "name clusters of rows, unit= (--unit)"
    return (*notes, *(note for table in tables if not ordered for note in ordered_rows(table, remedy)))


def _of_samples(tables: list[Table]) -> tuple[list[str], list[np.ndarray]]:
    """What is said of each sample, and fingerprints of its rows."""
    marks = [fingerprints(table.values) for table in tables]
    notes = [*tables[0].notes, *of_columns(tables)]
    notes += [note for table, own in zip(tables, marks, strict=True) for note in repeated(table, own)]
    return notes, marks


def of_sides(tables: Iterable[Table], *, ordered: bool = False, remedy: str = SHIFT) -> tuple[str, ...]:
    """The same of the sides of a test of independence; `remedy` is for rows in order."""
    tables = list(tables)
    notes = [note for table in tables for note in (*table.notes, *of_columns([table]))]
    if not ordered and tables:
        whole = _beside(tables)
        notes += repeated(whole, fingerprints(whole.values))
        for label in dict.fromkeys(table.label for table in tables):  # a graph has a table for every column
            notes += ordered_rows(_beside([table for table in tables if table.label == label]), remedy)
    return tuple(notes)


def _beside(tables: list[Table]) -> Table:
    """The columns of all sides in one table: a row is repeated where it is on every side."""
    values = np.hstack([table.values for table in tables])
    categorical = np.concatenate([table.categorical for table in tables])
    label = " and ".join(dict.fromkeys(table.label for table in tables))
    names = tuple(name for table in tables for name in table.names)
    return replace(tables[0], values=values, names=names, categorical=categorical, label=label)


def of_columns(tables: list[Table]) -> Iterator[str]:
    """Columns of numbers that look like row numbers, identifiers or times."""
    labels = [table.label for table in tables]
    for d in np.flatnonzero(~tables[0].categorical):
        name, columns = tables[0].names[d], [table.values[:, d] for table in tables]
        if min(map(len, columns)) < FEW:
            continue
        if what := counting(columns, tables[0].unit(int(d))):
            yield f"column {name!r} looks like {what}; consider excluding it"
        elif len(columns) == 2 and min(map(len, columns)) >= MANY:
            for (low, lower), (high, higher) in permutations(zip(labels, columns, strict=True)):
                if lower.max() < higher.min():
                    seen = f"every value of column {name!r} in {low} is below every one in {high}"
                    yield f"{seen}; if it is a time or an identifier, exclude it"


def counting(columns: list[Column], unit: str = "") -> str:
    """What a column of this unit looks like if it numbers rows or tells the time; empty if it does neither.

    >>> counting([np.arange(5.0), np.arange(11.0, 16.0)])
    'a row number (it counts up by 1)'
    >>> counting([np.array([1.0, 4.0, 5.0, 9.0, 12.0])])
    'an ID or a timestamp (it rises from row to row)'
    >>> counting([np.array([2.0, 2.0, 5.0, 3.0, 1.0])])
    ''
    """
    steps = np.concatenate([half_steps(column) for column in columns])
    if (steps == 0.5).all() and unit != DAYS:
        return "a row number (it counts up by 1)"
    if (steps > 0.0).all() or (steps < 0.0).all():
        return f"an ID or a timestamp (it {'rises' if steps[0] > 0.0 else 'falls'} from row to row)"
    return ""


def repeated(table: Table, marks: np.ndarray) -> Iterator[str]:
    """Rows that occur more than once, where that is no chance; `marks` are fingerprints of the rows."""
    rows, counts = np.unique(marks, return_counts=True)
    n, different = len(marks), len(rows)
    if different == n or n < 2 * FEW:
        return
    times = int(np.gcd.reduce(counts))
    many = n - different >= max(2.0, REPEATED * n)
    copies = many and _are_copies(table.values, table.categorical, marks)
    # k numbers are all multiples of t by chance once in tᵏ.
    if times > 1 and different >= FEW and (copies or different * np.log(times) >= np.log(SELDOM)):
        often = "twice" if times == 2 else f"{times} times"
        more = " or a multiple of that" if counts.max() > times else ""
        seen = f"every row of {table.label} occurs {often}{more}"
    elif copies:
        seen = f"{n - different:,} of {n:,} rows of {table.label} repeat others"
    else:
        return
    yield f"{seen}; the test assumes independent rows, so remove duplicates"


def shared(x: Table, y: Table, own: np.ndarray, other: np.ndarray) -> Iterator[str]:
    """Rows that are in both samples, where that is no chance; `own` and `other` are their fingerprints."""
    (first, rows), (second, others) = (np.unique(marks, return_index=True) for marks in (own, other))
    count = len(np.intersect1d(first, second, assume_unique=True))
    everything = count == len(first) == len(second)
    if count < max(2.0, REPEATED * min(len(first), len(second))):
        return
    # Rounded rows agree by chance, but not all of many.
    alike = everything and count >= 2 * FEW and np.array_equal(np.sort(own), np.sort(other))
    if alike or _are_copies(
        np.vstack([x.values[rows], y.values[others]]), x.categorical, np.concatenate([first, second])
    ):
        seen = (
            f"{x.label} and {y.label} have {'all' if everything else f'{count:,}'} different rows in common"
        )
        yield f"{seen}; the test assumes independent samples, so keep each of these rows in one of them"


def _are_copies(
    values: Float[np.ndarray, "n D"], categorical: Bool[np.ndarray, " D"], marks: np.ndarray
) -> bool:
    """Whether rows with the same fingerprint are copies; those that agree by chance have many near misses.

    Looked at are rows with many digits in the finest column. Where chance makes rows agree in all columns, it
    makes many more agree in all but one.
    """
    fine = {
        int(d): exact for d in np.flatnonzero(~categorical) if (exact := _fine(values[:, d])).mean() > 0.5
    }
    if not fine:
        return False
    finest = max(fine, key=lambda d: len(np.unique(values[:, d])))
    values, marks = values[fine[finest]], marks[fine[finest]]
    if values.shape[1] == 1:
        different = len(np.unique(marks))
        return len(marks) - different >= ALONE * different
    nearly = (_agreeing(marks - _mixed(values[:, d], d)) for d in range(values.shape[1]) if d != finest)
    return (all_ := _agreeing(marks)) > 0 and all(one <= (1.0 + MISSED) * all_ for one in nearly)


def _agreeing(marks: np.ndarray) -> int:
    """Pairs of rows with the same fingerprint."""
    counts = np.unique(marks, return_counts=True)[1]
    return int((counts * (counts - 1)).sum())


def _fine(column: Column) -> Bool[np.ndarray, " n"]:
    """Which numbers have more digits than people round to."""
    size = np.abs(column)
    usual = (size > 1e-290) & (size < 1e290)
    size = np.where(usual, size, 1.0)
    scaled = size * 10.0 ** (DIGITS - 1.0 - np.floor(np.log10(size)))
    return usual & (np.abs(scaled - np.round(scaled)) > 1e-6)


def pairs(x: Table, y: Table) -> Iterator[str]:
    """Columns in which row i of x and row i of y go together, as before and after."""
    if x.given != y.given:
        return
    _, own, other = np.intersect1d(x.rows, y.rows, assume_unique=True, return_indices=True)  # without gaps
    for d in np.flatnonzero(~x.categorical):
        a, b = x.values[own, d], y.values[other, d]
        # Files that are sorted alike are no pairs: steps from row to row must go together too.
        if np.array_equal(a, b) or not together(half_steps(a), half_steps(b)) or not (r := together(a, b)):
            continue
        seen = f"row by row {x.label} and {y.label} go together in {x.names[d]!r} (correlation {r:.2f})"
        yield f"{seen}; if they are pairs, use paired=True (kembed test --paired)"
        return


def fingerprints(values: Float[np.ndarray, "n D"]) -> np.ndarray:
    """A number for every row: the same for the same rows, another for others (but for one pair in 2⁶⁴)."""
    marks = np.zeros(len(values), dtype=np.uint64)
    for d, column in enumerate(values.T):
        marks += _mixed(column, d)
    return marks


def _mixed(column: Column, d: int) -> np.ndarray:
    """What the entries of column d add to the fingerprints of their rows."""
    bits = np.ascontiguousarray(column + 0.0).view(np.uint64)  # -0 is 0
    return splitmix64(bits + np.uint64((d + 1) * 0x9E3779B97F4A7C15 % 2**64))


def ordered_rows(table: Table, remedy: str = WILD) -> Iterator[str]:
    """The column in which neighbouring rows are most alike, as in time series.

    A file that is sorted by a column has neighbours that are alike in every column that goes with it, and is
    no series: there, what neighbours still share without the trend counts. A clock is no such column.
    """
    found, key = {}, _sort_key(table)
    for d in np.flatnonzero(~table.categorical):
        column = table.values[:, d]
        if _is_sorted(column) or (r := together(column[:-1], column[1:])) <= 0.0:
            continue
        if key is None or (not _is_next_key(column, key) and _alike_without_trend(column)):
            found[table.names[d]] = r
    if found:
        name = max(found, key=lambda one: found[one])
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        seen = (
            f"neighbouring rows of {table.label} are alike in {name!r}{more} (correlation {found[name]:.2f})"
        )
        yield f"{seen}; if they are in order of time the p-value is too small: {remedy}"


def _sort_key(table: Table) -> Any:
    """The first column that the rows are sorted by; None if there is none, or if it is a clock."""
    keys = []
    for d, column in enumerate(table.values.T):
        runs = np.flatnonzero(np.diff(column)) + 1
        if table.categorical[d]:  # the rows of every level stand together
            is_key = 0 < len(runs) < len(column) // 2 and len(np.unique(column)) == len(runs) + 1
        else:
            is_key = len(runs) > 0 and _is_sorted(column)
        if is_key:
            lengths, steps = np.diff(runs), np.diff(column[np.append(0, runs)] / 2.0)
            even = len(steps) > FEW and np.ptp(lengths) == 0 and np.allclose(steps, steps[0])
            if not table.categorical[d] and (even or table.unit(d) == DAYS):
                return None
            keys.append(column)
    return keys[0] if keys else None


def _is_sorted(column: Column) -> bool:
    """Whether a column never falls, or never rises, from row to row."""
    steps = half_steps(column)
    return bool((steps >= 0.0).all() or (steps <= 0.0).all())


def _is_next_key(column: Column, key: Column) -> bool:
    """Whether rows that are equal in the sort key are sorted by this column."""
    steps = half_steps(column)[np.diff(key) == 0.0]
    rising, falling = np.count_nonzero(steps > 0.0), np.count_nonzero(steps < 0.0)
    return bool(rising + falling > len(steps) / 4.0 and min(rising, falling) <= EXPLAINED * len(steps))


def _alike_without_trend(column: Column) -> bool:
    """Whether neighbours are alike beyond the mean rank of the rows around them."""
    ranks = middle_ranks(column)
    n, sums = len(ranks), np.append(0.0, np.cumsum(ranks))
    low, high = np.maximum(np.arange(n) - BESIDE, 0), np.minimum(np.arange(n) + BESIDE + 1, n)
    rest = ranks - (sums[high] - sums[low] - ranks) / (high - low - 1)
    return bool(rest.var() > EXPLAINED * ranks.var()) and together(rest[:-1], rest[1:]) > 0.0


def clusters(x: Table, y: Table, remedy: str = "pass unit={name!r} (--unit)") -> Iterator[str]:
    """Columns whose levels repeat and lie in one sample only, as those of a cluster-randomised trial do.

    Of numbers only whole ones that alternate between the samples: a column that differs is no cluster.
    """
    for d, name in enumerate(x.names):
        both = np.concatenate([x.values[:, d], y.values[:, d]])
        if not x.categorical[d] and bool((both != np.round(both)).any()):
            continue
        levels, where = np.unique(both, return_inverse=True)
        count = np.bincount(where.ravel())
        inside = np.bincount(where.ravel()[: len(x.values)], minlength=len(levels))
        pure = (inside == 0) | (inside == count)
        if (
            not pure.all()
            or len(both) < 2 * len(levels)
            or min((inside > 0).sum(), (inside == 0).sum()) < FEW
        ):
            continue
        share = len(x.values) / len(both)
        chance = np.log(share ** count.astype(float) + (1.0 - share) ** count.astype(float)).sum()
        mixed = 1 + np.count_nonzero(np.diff(inside > 0)) >= len(levels) / 4.0
        if chance <= -np.log(SELDOM) and (x.categorical[d] or mixed):
            seen = f"rows of one {name!r} lie in one sample only"
            yield f"{seen}; if rows of one {name!r} are alike, {remedy.format(name=name)}"
            return


def half_steps(column: Column) -> Column:
    """Half of every step from row to row: a number, whatever the column holds."""
    return np.diff(column / 2.0)


def together(a: Column, b: Column) -> float:
    """The correlation if it is clear, by ranks too, else 0.

    A few rows far out, or a few that are not 0, meet by chance. As in Bernstein's inequality, a sum of
    products needs the more to be clear the larger these can be: counted is what is beyond 3, the most that
    ranks have which all differ. None of 360,000 columns without order passed (normal, heavy, rare).
    """
    n = len(a)
    if n + 1 < 4 * FEW or abs(r := _correlation(a, b)) < max(CORRELATED, ERRORS / np.sqrt(n)):
        return 0.0
    ranks = [middle_ranks(side) - 0.5 * (n + 1) for side in (a, b)]
    by_ranks = _correlation(*ranks)
    largest = float(np.prod([np.abs(side).max() / side.std() for side in ranks]))
    least = ERRORS**2 / n * (1.0 + max(largest - 3.0, 0.0) * abs(by_ranks) / 3.0)
    return r if r * by_ranks > 0.0 and by_ranks**2 >= max(CORRELATED**2, least) else 0.0


def _correlation(a: Column, b: Column) -> float:
    """Pearson's, of numbers of any size; 0 where one does not vary."""
    sides = []
    for side in (a, b):
        scaled = side / (float(np.abs(side).max()) or 1.0)
        scaled -= scaled.mean()
        norm = float(np.sqrt(scaled @ scaled))
        if norm <= 1e-12 * np.sqrt(len(side)):
            return 0.0
        sides.append(scaled / norm)
    return float(sides[0] @ sides[1])

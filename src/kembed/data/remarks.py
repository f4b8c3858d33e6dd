"""What a test does not say and its reader should know: repeated rows, rows in order, identifiers, pairs.

Every function looks at the tables as they came in, in about linear time, and says nothing or true sentences.
The test itself does not depend on any of them.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.text import listing
from kembed.data.tables import Table

# Below so many rows nearly everything happens by chance.
FEW = 5
# A correlation is told if it is at least this large and so many standard errors (1/√n) from none: rows of no
# order reach that once in a million columns.
CORRELATED, ERRORS = 0.3, 5.0
# Repeated rows are told from this share on, where half the numbers of some column need more digits than
# these: what is rounded repeats by itself.
REPEATED, DIGITS = 0.02, 5
# N whole numbers out of fewer than N²/20 are all different by chance once in exp(10).
CROWDED = 20.0

# What to do about rows in order, where the test knows it: of two samples, and of two sides.
WILD, SHIFT = "null='wild' is for those", "null='shift' is for those"

Column = Float[np.ndarray, " n"]


def of_two_samples(x: Table, y: Table, *, ordered: bool = False, paired: bool = False) -> tuple[str, ...]:
    """What to know of two samples; `ordered` if the test minds the order of rows already."""
    notes, marks = _of_samples([x, y])
    if not paired:
        notes += [*shared(x, y, (marks[0], marks[1])), *pairs(x, y)]
    if not ordered:
        notes += [*ordered_rows(x), *ordered_rows(y)]
    return tuple(notes)


def of_several(tables: list[Table]) -> tuple[str, ...]:
    """The same of several samples."""
    notes, marks = _of_samples(tables)
    for (x, own), (y, other) in combinations(zip(tables, marks, strict=True), 2):
        notes += shared(x, y, (own, other))
    remedy = "unit= of mmd_test is for those"
    return (*notes, *(note for table in tables for note in ordered_rows(table, remedy)))


def _of_samples(tables: list[Table]) -> tuple[list[str], list[np.ndarray]]:
    """What is said of each sample, and fingerprints of its different rows."""
    rows = [np.unique(fingerprints(table.values), return_counts=True) for table in tables]
    notes = [*tables[0].notes, *of_columns(tables), *spellings(tables[0])]
    notes += [
        note for table, (_, counts) in zip(tables, rows, strict=True) for note in repeated(table, counts)
    ]
    return notes, [marks for marks, _ in rows]


def of_sides(tables: Iterable[Table], *, ordered: bool = False, remedy: str = SHIFT) -> tuple[str, ...]:
    """The same of the sides of a test of independence; `remedy` is for rows in order."""
    tables = list(tables)
    notes = [note for table in tables for note in (*table.notes, *of_columns([table]), *spellings(table))]
    if not ordered:
        notes += [note for table in tables for note in ordered_rows(table, remedy)]
    return tuple(notes)


def of_columns(tables: list[Table]) -> Iterator[str]:
    """Columns of numbers that look like row numbers, identifiers or clocks."""
    for d in np.flatnonzero(~tables[0].categorical):
        columns = [table.values[:, d] for table in tables]
        if min(map(len, columns)) >= FEW and (what := counting(columns)):
            yield f"column {tables[0].names[d]!r} {what}; leave it out if that is what it is"


def counting(columns: list[Column]) -> str:
    """What a column does if it numbers rows or tells the time; empty if it does neither.

    >>> counting([np.arange(5.0), np.arange(11.0, 16.0)])
    'counts up by 1 from row to row, as row numbers do'
    >>> counting([np.array([1.0, 4.0, 5.0, 9.0, 12.0])])
    'rises from row to row, as identifiers and clocks do'
    >>> counting([np.array([2.0, 2.0, 5.0, 3.0, 1.0])])
    ''
    """
    steps = [_half_steps(column) for column in columns]
    if all((step == 0.5).all() for step in steps):
        return "counts up by 1 from row to row, as row numbers do"
    for word, sign in (("rises", 1.0), ("falls", -1.0)):
        if all((sign * step > 0.0).all() for step in steps):
            return f"{word} from row to row, as identifiers and clocks do"
    both = np.concatenate(columns)
    wide = both.max() / 2.0 - both.min() / 2.0 >= len(both) ** 2 / CROWDED / 2.0
    if not wide and bool((both == np.round(both)).all()) and len(np.unique(both)) == len(both):
        return "has a different whole number in every row, as identifiers have"
    return ""


def spellings(table: Table) -> Iterator[str]:
    """Levels that are one but for capitals, spaces and Unicode."""
    for name, levels in zip(table.names, table.levels, strict=True):
        folded: dict[str, list[str]] = {}
        for level in levels:
            if isinstance(level, str):
                plain = " ".join(unicodedata.normalize("NFKC", level).casefold().split())
                folded.setdefault(plain, []).append(level)
        same = next((found for found in folded.values() if len(found) > 1), None)
        if same:
            seen = f"column {name!r} has levels that differ in spelling alone ({listing(same, 3)})"
            yield f"{seen}; write them alike if they are one"


def repeated(table: Table, counts: Int[np.ndarray, " k"]) -> Iterator[str]:
    """Rows that occur more than once, where that is no chance; `counts` says how often each occurs."""
    n, different = len(table.values), len(counts)
    if different == n or n < 2 * FEW:
        return
    times = int(np.gcd.reduce(counts))
    if times > 1 and different >= FEW:
        often = "twice" if times == 2 else f"{times} times"
        more = " or a multiple of that" if counts.max() > times else ""
        seen = f"every row of {table.label} occurs {often}{more}"
    elif n - different >= max(2.0, REPEATED * n) and _fine(table):
        seen = f"{n - different:,} of {n:,} rows of {table.label} repeat others"
    else:
        return
    yield f"{seen}; the test takes rows for independent, so drop what was copied"


def shared(x: Table, y: Table, marks: tuple[np.ndarray, np.ndarray]) -> Iterator[str]:
    """Rows that are in both samples, where that is no chance; the fingerprints of their different rows."""
    count = len(np.intersect1d(marks[0], marks[1], assume_unique=True))
    fewer = min(map(len, marks))
    if count >= max(2.0, REPEATED * fewer) and _fine(x):
        all_ = "all" if count == len(marks[0]) == len(marks[1]) else f"{count:,}"
        seen = f"{x.label} and {y.label} have {all_} different rows in common"
        yield f"{seen}; the test takes samples for independent, so give rows of one to one alone"


def _fine(table: Table) -> bool:
    """Whether some column has more digits than people round to, so that two rows do not agree by chance."""
    for column in table.values[:, ~table.categorical].T:
        size = np.abs(column[column != 0.0])
        size = size[(size > 1e-290) & (size < 1e290)]
        scaled = size * 10.0 ** (DIGITS - 1.0 - np.floor(np.log10(size)))
        if len(size) and 2 * np.count_nonzero(np.abs(scaled - np.round(scaled)) > 1e-6) > len(column):
            return True
    return False


def pairs(x: Table, y: Table) -> Iterator[str]:
    """Columns in which row i of x and row i of y go together, as before and after."""
    if len(x.values) != len(y.values) or x.given != y.given or not np.array_equal(x.rows, y.rows):
        return
    for d in np.flatnonzero(~x.categorical):
        a, b = x.values[:, d], y.values[:, d]
        # Files that are sorted alike are no pairs: steps from row to row must go together too.
        steps = _correlation(_half_steps(a), _half_steps(b))
        if (
            np.array_equal(a, b)
            or not _clear(steps, len(a))
            or not _clear(whole := _correlation(a, b), len(a))
        ):
            continue
        seen = f"row by row {x.label} and {y.label} go together in {x.names[d]!r} (correlation {whole:.2f})"
        yield f"{seen}; if they are pairs, use paired=True"
        return


def ordered_rows(table: Table, remedy: str = WILD) -> Iterator[str]:
    """The column in which neighbouring rows are most alike, as in time series."""
    found = {}
    for d in np.flatnonzero(~table.categorical):
        column = table.values[:, d]
        steps = _half_steps(column)
        if (steps >= 0.0).all() or (steps <= 0.0).all():  # sorted, which is no series
            continue
        r = _correlation(column[:-1], column[1:])
        if r > 0.0 and _clear(r, len(column)):
            found[table.names[d]] = r
    if found:
        name = max(found, key=lambda one: found[one])
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        seen = (
            f"neighbouring rows of {table.label} are alike in {name!r}{more} (correlation {found[name]:.2f})"
        )
        yield f"{seen}; in a time series the p-value is too small, and {remedy}"


def _half_steps(column: Column) -> Column:
    """Half of every step from row to row: a number, whatever the column holds."""
    return np.diff(column / 2.0)


def _clear(r: float, n: int) -> bool:
    return n >= 4 * FEW and abs(r) >= max(CORRELATED, ERRORS / np.sqrt(n))


def _correlation(a: Column, b: Column) -> float:
    """Pearson's, of numbers of any size; 0 where one does not vary."""
    sides = []
    for side in (a, b):
        largest = float(np.max(np.abs(side), initial=0.0))
        side = side / largest if 0.0 < largest < np.inf else np.zeros(len(side))
        side = side - side.mean() if len(side) else side
        norm = float(np.sqrt(side @ side))
        if norm <= 1e-12 * np.sqrt(max(len(side), 1)):
            return 0.0
        sides.append(side / norm)
    return float(sides[0] @ sides[1])


def fingerprints(values: Float[np.ndarray, "n D"]) -> np.ndarray:
    """A number for every row: the same for the same rows, another for others (but for one pair in 2⁶⁴)."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # -0 is 0
    mixed = np.zeros(len(values), dtype=np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed

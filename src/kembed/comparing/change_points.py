"""When did a table change? `change_points`: changes with intervals, the columns behind each, and words."""

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kembed import __version__
from kembed.comparing.changes import Change, pair_changes
from kembed.comparing.column_effects import Independent
from kembed.comparing.summaries import ColumnSummary, summarise
from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.drawing import Drawn
from kembed.core.ordering import row_order
from kembed.core.progress import showing_progress
from kembed.core.text import counted, listing, plain
from kembed.core.threads import few_rows_one_thread
from kembed.core.writing import SCHEMA, jsonable
from kembed.tables import diagnostics
from kembed.tables.reader import POLICIES, read, tables_of
from kembed.tables.table import Table
from kembed.tables.times import shown
from kembed.testing.change_points import Found, Series, find_changes
from kembed.testing.procedure import QUIETLY

SEGMENTS, FEWEST = 50, 5  # the shortest segment is one part in so many of the rows, and so many rows
SIDES = ("\0before", "\0after")  # labels of samples in sentences about two samples
REMEDY = "move blocks of rows, block= (--block)"
FEW_ROWS = 20  # fewer may rise by chance


@dataclass(frozen=True)
class ChangePoint:
    """One change.

    `position` is the number of rows before it, in order; `interval` the first and the last position that a
    test at the 5% level does not reject. `time` is the entry of the first row after the change: of the
    column `order`, the label of a pandas index, or the number of the row (from 0); `label` the same in words.
    `pvalue` is adjusted for all segments that were tested. `columns` and `pairs` are the columns and pairs of
    columns that changed, compared between the changes before and after.
    """

    position: int
    interval: tuple[int, int]
    time: Any
    interval_time: tuple[Any, Any]
    label: str
    interval_label: tuple[str, str]
    pvalue: float
    columns: tuple[ColumnSummary, ...]
    pairs: tuple[Change, ...]

    def __str__(self) -> str:
        return f"{self.label} (95% interval {' to '.join(self.interval_label)}), p = {self.pvalue:.2g}"


@dataclass(frozen=True, eq=False, repr=False)
class ChangePoints(Drawn):
    """What `change_points` returns.

    `changes` are in order of time. `pvalue` is that of no change at all, exact if rows (or blocks of rows)
    are exchangeable when nothing changes. `positions` and `evidence` are the scan of all rows: numbers of
    rows before and -log p of the fused test of the rows before and after; `threshold` is the height that
    evidence reaches anywhere in 5% of the orders of the rows. `table` holds the rows in order, `times` their
    times.
    """

    changes: tuple[ChangePoint, ...]
    pvalue: float
    statistic: float  # log of the mean of 1/p over positions
    positions: Int[np.ndarray, " T"]
    evidence: Float[np.ndarray, " T"]
    threshold: float
    table: Table
    times: "Times"
    alpha: float
    block: int
    min_segment: int
    resamples: int
    enumerated: bool
    seed: int | None
    notes: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether there is a change, at the level alpha."""
        return bool(self.changes)

    @property
    def verdict(self) -> str:
        """The answer in words."""
        rows = counted(len(self.table.values), "row")
        if not self.changes:
            seen = f"No change was found in {rows} (p = {self.pvalue:.2g})"
            return f"{seen}. That does not prove that nothing changed."
        if len(self.changes) == 1:
            return f"One change was found in {rows}: {self.changes[0]}."
        listed = [one.label for one in self.changes]
        return f"{len(listed)} changes were found in {rows}: {', '.join(listed[:-1])} and {listed[-1]}."

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be said in JSON, in the words of docs/json.md."""
        keys = "name", "pvalue", "adjusted_pvalue", "change"
        columns = [[{key: getattr(c, key) for key in keys} for c in one.columns] for one in self.changes]
        changes = [vars(one) | {"columns": some} for one, some in zip(self.changes, columns, strict=True)]
        own = ("pvalue", "statistic", "threshold", "block", "min_segment", "alpha")
        payload = {
            "kembed": __version__,
            "schema": SCHEMA,
            "verdict": self.verdict,
            "differ": self.changed,
            "samples": [{"name": self.table.label, "rows": self.table.given, "used": len(self.table.values)}],
            "changes": changes,
            "scan": {
                "position": self.positions,
                "time": self.times.at(self.positions),
                "value": self.evidence,
            },
            "columns": self.table.names,
            "order": self.times.name,
            **{name: getattr(self, name) for name in (*own, "resamples", "enumerated", "seed", "notes")},
        }
        return jsonable(payload)

    def __repr__(self) -> str:
        lines = [self.verdict]
        for change in self.changes:
            lines += [f"  {change}"] if len(self.changes) > 1 else []
            lines += [f"    {one}" for one in (*change.columns, *change.pairs)[:8]]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Times:
    """When every row was: numbers of a column in their unit, labels of an index, or numbers of rows."""

    values: np.ndarray
    name: str | None = None  # of the column
    unit: str = ""

    def at(self, positions: Any) -> list[Any]:
        """The entries of the first rows after some positions; dates as text."""
        last = len(self.values) - 1
        return [self._entry(self.values[min(int(p), last)]) for p in np.atleast_1d(positions)]

    def _entry(self, value: Any) -> Any:
        if self.unit:
            steps = np.diff(self.values)
            step = float(steps[steps > 0].min(initial=1.0))
            return shown(float(value), self.unit, digits=12, step=step)
        return value.item() if hasattr(value, "item") else value

    def words(self, entry: Any) -> str:
        """An entry as text."""
        return plain(entry, 12) if isinstance(entry, int | float) else str(entry)

    def when(self, entry: Any) -> str:
        """An entry in a sentence."""
        counts = self.name is None and self.values.dtype.kind in "iu"
        return f"after {counted(entry, 'row')}" if counts else f"at {self.words(entry)}"


@few_rows_one_thread
def change_points(
    table: Any,
    *,
    order: str | None = None,
    block: int = 1,
    min_segment: int | None = None,
    alpha: float = 0.05,
    n_resamples: int = 999,
    rng: Any = 0,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> ChangePoints:
    """Find the times at which the distribution of a table's rows changed.

    The fused test of `mmd_test` compares the rows before and after every position; the p-value is the rank of
    the result among those of other orders of the rows, so it is exact if rows are exchangeable when nothing
    changes. After a change both sides are searched, at the level alpha for all segments together.

    Parameters
    ----------
    table : array_like, data frame, path or lazy frame
        Rows in order of time, in memory or read into it; text and categories are compared as equal or not.
    order : str, optional
        A column of dates or numbers to sort by, which is not compared. Rows of one time are put in random
        order, and no change is placed between them. Unless given, the first column that never falls from row
        to row, where there is one; a note names it.
    block : int
        Rows that are moved together, for rows that depend on their neighbours: at least as many as the
        dependence lasts. Changes are placed between blocks.
    min_segment : int, optional
        The fewest rows before, after and between changes; unless given, a fiftieth of the rows, at least 5.
    alpha : float
        The probability of any change being found where there is none.
    n_resamples : int
        How many orders of the rows are drawn.
    rng : int or numpy.random.Generator, optional
        Seed of the orders. The seed is fixed unless given; None is fresh entropy.
    nan_policy : {"raise", "include", "omit"}
        Missing values, as for `mmd_test`; the column `order` can have none.
    progress : bool, optional
        Whether to show a progress bar; None: on a terminal only.

    Returns
    -------
    ChangePoints
        The changes, each with an interval, the columns that changed and words.

    Raises
    ------
    ValueError
        If there are too few rows or blocks, the column `order` is missing or holds text, or values are
        missing.

    Notes
    -----
    The p-value of the whole table is exact. Those of segments are as good as the changes that bound them; the
    level of several changes is that of the inheritance procedure (Goeman & Finos 2012). The interval of a
    change has all positions for which rows before and after look exchangeable (Ramdas & Hore 2026); it
    covers the time of a single change with probability 95%, given the changes before and after it.

    References
    ----------
    Harchaoui & Cappé (2007), Retrospective multiple change-point estimation with kernels.
    Goeman & Finos (2012), The inheritance procedure: multiple testing of tree-structured hypotheses.
    Ramdas & Hore (2026), Conformal changepoint localization, arXiv:2602.06267.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import change_points
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(120, 2))
    >>> x[80:, 1] += 2.0
    >>> found = change_points(x, n_resamples=199)
    >>> [(change.position, change.columns[0].name) for change in found.changes]
    [(80, 'column 1')]

    """
    alpha, n_resamples = checks.level(alpha, "alpha"), checks.resamples(n_resamples)
    checks.reachable(alpha, n_resamples)
    block = checks.count(block, "block")
    checks.choice(nan_policy, "nan_policy", POLICIES)
    if order is not None and not isinstance(order, str):
        raise TypeError(f"order must be the name of a column, but {order!r} was given")
    generator = checks.generator(rng)
    seed = int(generator.integers(2**62))
    (source,) = read({"table": table}, nan_policy=nan_policy, keep=[] if order is None else [order])
    (given,) = tables_of([source])
    found_order = rising_column(given) if order is None else None
    rows, times = in_order(given, order or found_order, np.random.default_rng(seed))
    n = len(rows.values)
    least = max(FEWEST, n // SEGMENTS) if min_segment is None else checks.count(min_segment, "min_segment")
    least = block * -(-least // block)
    if n < 2 * least:
        seen = f"{rows.label} has {counted(n, 'row')}, but two segments of at least {least:,} are needed"
        raise ValueError(f"{seen}; give more rows, or smaller block or min_segment")
    numbers = times.values.astype(float) if times.name is not None else np.arange(n, dtype=float)
    series = Series(rows.values, rows.categorical, rows.names, numbers, block, least, n_resamples, seed)
    with showing_progress(progress), np.errstate(**QUIETLY):
        whole = series.scan(0, n, by_column=True)
        if whole is None or (whole.enumerated and 2.0 / len(whole.statistics) > alpha):
            seen = f"the orders of {counted(n // block, 'block')} give no p-value of {alpha:g} or less"
            raise ValueError(f"{seen}; give more rows, or smaller block or min_segment")
        found = find_changes(series, alpha)
    edges = [0, *(one.position for one in found), n]
    changes = [_described(rows, times, *each, alpha) for each in zip(found, edges, edges[2:], strict=False)]
    notes = diagnostics.of_sides([rows], ordered=True)
    if found_order is not None:
        note = f"rows are in order of {found_order!r}, which rises from row to row and is not compared"
        notes = (note, *notes)
    if times.name is not None and len(np.unique(numbers)) <= n // 2:
        seen = f"several rows share one {times.name!r}, and each counts as independent"
        notes += (f"{seen}; give one row for each (a mean, say), or move rows together, block= (--block)",)
    if block == 1:  # beside the changes, which make neighbours alike
        first, last = max(pairwise(edges), key=lambda pair: pair[1] - pair[0])
        notes += tuple(diagnostics.ordered_rows(replace(rows, values=rows.values[first:last]), REMEDY))
    positions, evidence = whole.over_time()
    return ChangePoints(
        tuple(changes),
        whole.pvalue,
        float(whole.statistics[0]),
        positions,
        evidence,
        float(np.quantile(whole.evidence[1:].max(axis=1), 1.0 - alpha)),
        rows,
        times,
        alpha,
        block,
        least,
        len(whole.statistics) - (not whole.enumerated),
        whole.enumerated,
        int(rng) if isinstance(rng, int | np.integer) else None,
        notes,
    )


def rising_column(table: Table) -> str | None:
    """The first column of numbers or dates that never falls from row to row, beside others: the time."""
    if len(table.names) < 2 or len(table.values) < FEW_ROWS:
        return None
    for d in np.flatnonzero(~table.categorical).tolist():
        values = table.values[:, d]
        rising = (np.diff(values) >= 0.0).all() and len(np.unique(values)) > len(values) / 2
        if rising and table.observed(d).all():
            return table.names[d]
    return None


def in_order(table: Table, order: str | None, rng: np.random.Generator) -> tuple[Table, Times]:
    """The rows in order of time without the column of times, and their times."""
    if order is None:
        if table.index is None or type(table.index).__name__ == "RangeIndex":
            return table, Times(table.rows)
        return table, Times(np.array(table.index.astype(str), dtype=object)[table.rows])
    if order not in table.names:
        seen = f"order={order!r} is not a column; {table.label} has {listing(table.names)}"
        raise ValueError(f"{seen}; name one of them, or leave order out for rows in order")
    place = table.names.index(order)
    if table.categorical[place]:
        raise ValueError(f"order={order!r} holds text; name a column of dates or numbers")
    if not table.observed(place).all():
        raise ValueError(
            f"order={order!r} has missing values; leave those rows out (nan_policy='omit', --missing omit)"
        )
    kept = [d for d, name in enumerate(table.names) if name != order]
    if not kept:
        raise ValueError(f"order={order!r} is the only column; give at least one more to compare")
    rest, time = table.columns(kept), table.values[:, place]
    # Whatever the order of the file: sorted, shuffled, and sorted by time.
    rows = row_order(np.column_stack([time, rest.values]))
    rows = rows[rng.permutation(len(rows))]
    rows = rows[np.argsort(time[rows], kind="stable")]
    unit = table.unit(place)
    return replace(rest, values=rest.values[rows], rows=rest.rows[rows]), Times(time[rows], order, unit)


def _described(rows: Table, times: Times, found: Found, start: int, end: int, alpha: float) -> ChangePoint:
    """A change in words: the rows before it and after it, up to its neighbours."""
    tests, findings = found.scan.column_results()
    before, after = (
        replace(rows, values=rows.values[a:b], rows=rows.rows[a:b])
        for a, b in ((start, found.position), (found.position, end))
    )
    units = Independent(len(before.values), len(after.values))
    summaries = summarise((before, after), tests, np.full(len(tests), np.nan), SIDES, units)
    changed = (one for one in summaries if one.adjusted_pvalue <= alpha)
    columns = tuple(replace(one, change=_plainly(one.change)) for one in changed)
    pairs = pair_changes((before, after), findings, SIDES, alpha)
    interval = found.scan.interval
    low, high = min(interval[0], found.position), max(interval[1], found.position)
    entries = times.at([found.position, low, high])
    return ChangePoint(
        found.position,
        (low, high),
        entries[0],
        (entries[1], entries[2]),
        times.when(entries[0]),
        (times.words(entries[1]), times.words(entries[2])),
        found.pvalue,
        columns,
        tuple(replace(one, words=_plainly(one.words)) for one in pairs),
    )


def _plainly(words: str) -> str:
    r"""A sentence about two samples as one about before and after.

    >>> _plainly("mean 3.1 in \0before, 4 in \0after")
    'mean 3.1 before, 4 after'
    """
    return re.sub(r"\b(?:in|of) \0(before|after)\b", r"\1", words).replace("\0", "")

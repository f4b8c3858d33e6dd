"""The independence test of any number of rows: features of either side, and their cross-products.

Where rows can be held and the work is affordable, whole bins of y change places against x: exact, as the test
on single rows. Beyond, one pass for moments and the normal limit of the cross-products, all members jointly.
Features are fitted on a sample that holds the same places of every bin, so that no exchange of bins changes
either side of it.
"""

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.ordering import sorted_rows
from kembed.kernels.space import Space, make_space
from kembed.permutation.bins import Bins
from kembed.permutation.blocks import add_blocks, add_products, trace_products
from kembed.permutation.crossings import (
    BINS,
    Places,
    bin_rows,
    covariance_factor,
    crossings,
    draw_orders_of_each,
    normal_crossings,
    unit_rows,
)
from kembed.permutation.fusion import Values, in_places
from kembed.tables.source import HELD, Source
from kembed.testing.members.fresh import Fitted, Fresh, Streamed
from kembed.testing.members.group import Meeting
from kembed.testing.outcome import TestOutcome, resampled_outcome
from kembed.testing.passes import CHUNK, Layout, sum_moments, take_rows
from kembed.testing.procedure import Procedure
from kembed.testing.streams import Crossed, choose_meetings

SAMPLE = 4_096  # rows that features are fitted on, about
FLAT = 1e-13  # features that vary by less of their size are constant: what they vary by is rounding
# Products of features that "auto" takes for an exact answer, some 20 seconds: below, the limit is no faster
# (`python -m benchmarks.independence_size time`).
WORK = 3e11
LIMIT = "normal limit"  # what the null is called then
Columns = Float[np.ndarray, "n D"]


def independence_of(
    source: Source,
    x_columns: tuple[int, ...],
    y_columns: tuple[int, ...],
    kernel: Any,
    procedure: Procedure,
    *,
    unit: Any = 1,
    names: list[tuple[str, ...]] | None = None,
) -> TestOutcome:
    """The test of some columns of a source against others; `unit` consecutive rows stay together.

    Or rows of the same number, where `unit` is an array of them, one for every row that misses nothing.
    `kernel` is one for both sides or, as a tuple, a pair.
    """
    rng, schema = procedure.rng, source.schema
    layout = Layout(x_columns, y_columns)
    kernels = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    names = names or [tuple(schema.names[c] for c in side) for side in (x_columns, y_columns)]
    kinds = [Layout(side).kinds(schema) for side in (x_columns, y_columns)]
    key, held = int(rng.integers(2**62)), source.size * (len(x_columns) + len(y_columns)) <= HELD
    columns, alone = (*x_columns, *y_columns), isinstance(unit, int) and unit == 1
    if held:
        rows = source.fold(take_rows, columns).table
        places = _bins(len(rows), unit, key)
        sample = rows[_sampled(places, unit if isinstance(unit, int) else 1)]
    elif not alone:
        refuse_unit(unit, source)
    else:
        few = Bins(source.size, SAMPLE, 1, key)
        sample = source.fold(take_rows, columns, few, SAMPLE).table
    cut = len(x_columns)
    parts = (sample[:, :cut], sample[:, cut:])
    spaces = [make_space(sorted_rows(part), kind) for part, (kind, _) in zip(parts, kinds, strict=True)]
    crossed = choose_meetings(kernels, spaces, names, [levels for _, levels in kinds], rng)
    limit = procedure.null == "normal" or not held
    if procedure.statistic == "auto" and alone:
        limit = limit or len(rows) * BINS * products(crossed, spaces) > WORK
    if limit:
        return _limit(source, layout, crossed, spaces, procedure)
    return _permuted((rows[:, :cut], rows[:, cut:]), places, crossed, procedure)


def _bins(n: int, unit: Any, key: int) -> list[Places]:
    """Bins of rows, of so many consecutive rows, or of units of every size."""
    if isinstance(unit, int):
        if n < 2 * unit:
            seen = f"unit={unit} leaves {n // unit} units of {n} rows that could change places"
            raise ValueError(f"{seen}; give more rows or smaller units")
        return [bin_rows(n, key, unit=unit)]
    found = unit_rows(unit, key)
    if not found:
        raise ValueError("no two units have as many rows; name smaller units, or cut them to one size")
    return found


def _sampled(places: list[Places], unit: int) -> Int[np.ndarray, " k"]:
    """Rows that features are fitted on: the same places of every bin, so many of every size of unit."""
    whole = sum(each.size for each, _ in places)
    found = []
    for each, _ in places:
        rows = -(-SAMPLE * each.size // whole)
        found.append(each[: -(-rows // (each.shape[1] * unit)) * unit].ravel())
    return np.concatenate(found)


def refuse_unit(unit: Any, source: Source) -> NoReturn:
    """Rows that stay where they are cannot move together."""
    said = f"unit={unit!r}" if isinstance(unit, int | str) else "unit"
    seen = f"{said} moves rows in memory, and {source.label} has more than {HELD:.0e} numbers"
    raise ValueError(f"{seen}; take fewer rows or columns, or leave unit out")


def products(crossed: Crossed, spaces: list[Space]) -> int:
    """How many products of features a row has."""
    sides = [Fresh(each, space.values[:1]) for each, space in zip(crossed.fitted, spaces, strict=True)]
    widths: dict[int, int] = {}
    total = 0
    for meeting in crossed.meetings:
        for side, member in zip(sides, (meeting.left, meeting.right), strict=True):
            if id(member) not in widths:
                widths[id(member)] = member.of(side).shape[1]
        total += widths[id(meeting.left)] * widths[id(meeting.right)]
    return total


def _permuted(
    sides: tuple[Columns, Columns], places: list[Places], crossed: Crossed, procedure: Procedure
) -> TestOutcome:
    """Whole bins of the second side change places."""
    n, counts = len(sides[0]), [each.shape[1] for each, _ in places]
    orders, enumerated = draw_orders_of_each(counts, procedure.n_resamples, procedure.rng)
    most = max(counts)
    found = []
    for meeting in crossed.meetings:
        members = (meeting.left, meeting.right)
        a, b = (_features(*each) for each in zip(members, crossed.fitted, sides, strict=True))
        squares = (np.einsum("ip,ip->p", each, each) for each in (a, b))
        traces = list(map(_traces, members, squares))
        every = [
            crossings(a, b, own, under, meeting.left.width, most)
            for own, under in zip(places, orders, strict=True)
        ]
        parts = [
            add_products(np.square(sum(sums for _, sums in some)), meeting.left, meeting.right, meeting.pairs)
            for some in zip(*every, strict=True)
        ]
        found.append(_values(np.hstack(parts), meeting, traces, n, procedure.biased))
    everything = in_places(found, list(range(len(crossed.choice.kernels))))
    result = resampled_outcome("HSIC", (n,), crossed.choice, everything, "permutation", enumerated)
    return replace(result, bins=(sum(counts),))


def _features(member: Streamed, fitted: Fitted | None, values: Columns) -> Float[np.ndarray, "n p"]:
    """Of all rows, chunk by chunk, about their mean."""
    parts = [member.of(Fresh(fitted, values[i : i + CHUNK])) for i in range(0, len(values), CHUNK)]
    found = np.concatenate(parts)
    middle = found.mean(axis=0)
    found -= middle
    found[:, np.abs(found).max(axis=0) <= FLAT * np.abs(middle)] = 0.0
    return found


def _traces(member: Streamed, squares: Float[np.ndarray, " p"]) -> Float[np.ndarray, "b c"]:
    """Σ|a - ā|² of every block of features at every cut, from those of single ones."""
    return add_blocks(squares[:, None], member.width, member.cuts).reshape(-1, len(member.cuts))


def _values(
    squares: Float[np.ndarray, "C J"], meeting: Meeting, traces: list[Any], n: int, biased: bool
) -> Values:
    """HSIC of squared norms of cross-products: over n², less what it is on average over all pairings."""
    size = trace_products(traces[0], traces[1], meeting.pairs)
    values = squares - (0.0 if biased else size / (n - 1.0))
    return Values(values / n**2, size / n**2).settled(False)


def _limit(
    source: Source, layout: Layout, crossed: Crossed, spaces: list[Space], procedure: Procedure
) -> TestOutcome:
    """One pass for moments, and draws of the normal law of all cross-products."""
    members, meetings = _distinct(crossed.meetings)
    centres = tuple(
        tuple(member.of(rows).mean(axis=0) for member in side)
        for side, rows in zip(members, map(Fresh, crossed.fitted, [s.values for s in spaces]), strict=True)
    )
    found = source.fold(sum_moments, layout, crossed.fitted, members, centres, meetings)
    n, (sum_a, sum_b) = found.rows, found.sums
    starts = [tuple(np.cumsum([0, *map(len, side)]).tolist()) for side in centres]
    covariances = [
        second / n - np.outer(sums, sums) / n**2
        for second, sums in zip(found.squares, found.sums, strict=True)
    ]
    varied = [
        np.sqrt(np.diagonal(covariance)) > FLAT * np.abs(np.concatenate(side) + sums / n)
        for covariance, side, sums in zip(covariances, centres, found.sums, strict=True)
    ]
    covariances = [each * np.outer(kept, kept) for each, kept in zip(covariances, varied, strict=True)]
    factors = list(map(covariance_factor, covariances, starts))
    own = []
    for (j, k), cross in zip(meetings, found.cross, strict=True):
        one, other = (
            sums[at[m] : at[m + 1]] for sums, at, m in zip((sum_a, sum_b), starts, (j, k), strict=True)
        )
        kept = [v[at[m] : at[m + 1]] for v, at, m in zip(varied, starts, (j, k), strict=True)]
        own.append(((cross - np.outer(one, other) / n) * np.outer(*kept))[None])
    drawn = normal_crossings(factors[0], factors[1], meetings, procedure.n_resamples, procedure.rng)
    values: list[list[Any]] = [[] for _ in meetings]
    for scale, batch in ((1.0, own), *((n, each) for each in drawn)):
        for kept, sums, meeting in zip(values, batch, crossed.meetings, strict=True):
            kept.append(scale * add_products(np.square(sums), meeting.left, meeting.right, meeting.pairs))
    parts = []
    for kept, meeting, (j, k) in zip(values, crossed.meetings, meetings, strict=True):
        traces = [
            _traces(member, n * np.diagonal(covariance)[at[m] : at[m + 1]])
            for member, covariance, at, m in zip(
                (meeting.left, meeting.right), covariances, starts, (j, k), strict=True
            )
        ]
        parts.append(_values(np.concatenate(kept), meeting, traces, n, procedure.biased))
    everything = in_places(parts, list(range(len(crossed.choice.kernels))))
    return resampled_outcome("HSIC", (n,), crossed.choice, everything, LIMIT, False)


def _distinct(meetings: tuple[Meeting, ...]) -> tuple[Any, list[tuple[int, int]]]:
    """The members of either side, each once, and which of them meet."""
    sides: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
    for meeting in meetings:
        for known, member in zip(sides, (meeting.left, meeting.right), strict=True):
            known.setdefault(id(member), member)
    at = [{key: place for place, key in enumerate(known)} for known in sides]
    pairs = [(at[0][id(each.left)], at[1][id(each.right)]) for each in meetings]
    return tuple(tuple(known.values()) for known in sides), pairs

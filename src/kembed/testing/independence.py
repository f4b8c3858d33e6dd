"""Are two variables independent? `hsic_test`.

Each side has its own kernel, chosen from that side's unordered rows alone. Under independence any pairing of
the rows is as likely as the one seen, so pairings are drawn and the statistic is compared.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.ordering import comes_before, row_order, sorted_rows
from kembed.core.progress import showing_progress
from kembed.core.threads import few_rows_one_thread
from kembed.kernels.space import Space, make_space
from kembed.permutation import nulls, statistics
from kembed.permutation.blocks import AT_ONCE, Blocks, block_hsic
from kembed.permutation.crossings import every_order
from kembed.permutation.fusion import Values, in_places
from kembed.permutation.gram import KernelSums, Pairs
from kembed.permutation.labelings import column_sums
from kembed.permutation.low_rank import LowRank, Ready, computed, member_pairs, with_low_rank
from kembed.permutation.rings import Star, draw_shifts, draw_star, factor_turns, ring_sums
from kembed.permutation.units import beside, side_units
from kembed.tables import diagnostics
from kembed.tables.source import in_memory
from kembed.tables.table import Table
from kembed.testing.choice import choose, single_kernel
from kembed.testing.crossed import independence_of, refuse_unit
from kembed.testing.members import fused_relations
from kembed.testing.members.group import Meeting
from kembed.testing.members.rows import read_scales
from kembed.testing.outcome import (
    TestOutcome,
    approximate_outcome,
    nothing,
    resampled_outcome,
    turned,
    turned_outcome,
)
from kembed.testing.procedure import NULLS, QUIETLY, SERIES, Choice, Procedure, every_one, read_procedure
from kembed.testing.sided import open_sides, side_tables
from kembed.testing.wild import product_pairs, wild_values

Pairings = Int[np.ndarray, "C n"]  # which row of y every row of x meets
MINIMUM = 4  # the unbiased statistic divides by n - 3
FEW_ROWS = 8  # more have more pairings than anybody waits for
# Transforms of fewer rows than this are slower than a matrix taken under all pairings, if that finds room.
SHORT, ENTRIES = 40, 2**21


@few_rows_one_thread
def hsic_test(
    x: Any,
    y: Any,
    *,
    data: Any = None,
    kernel: Any = "fused",
    statistic: str = "auto",
    null: str = "permutation",
    n_resamples: int = 999,
    unit: Any = None,
    memory: float | None = None,
    batch: int | None = None,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> TestOutcome:
    """Test whether two variables are independent, by the Hilbert-Schmidt independence criterion.

    Parameters
    ----------
    x, y
        The two sides, row i of one with row i of the other: arrays or data frames of any widths, or what
        `mmd_test` reads block by block (a path, a pattern, a lazy frame, a Dask collection, ...). Text and
        categories are compared as equal or not.
    data
        A table of any of these kinds; x and y then name columns of it, one or a list. The way to give more
        rows than memory holds: they are tested by the normal limit, in one pass.
    kernel
        `"fused"` (the default), `"bkl"` (learned on each side), `"ard"` (learned, with a lengthscale for each
        column), `"median"`, `"median-raw"`, a kernel object or a function for both sides, as in `mmd_test`; a
        list of these, fused on both sides; or a tuple, the pair `(kernel of x, kernel of y)`.
    statistic
        `"unbiased"` or `"biased"` HSIC over all pairs of rows; `"features"`: the same kernels by features of
        a row, in time linear in the rows, with permutations of whole bins of rows, exact as well; `"auto"`:
        pairs up to 4,000 rows, features beyond, and where even those are too much work the normal limit.
    null
        `"permutation"`, exact; `"normal"`: the limit of the cross-products of features in one pass, for many
        rows; `"gamma"` or `"spectral"` for one kernel a side. For time series, rows in order of time:
        `"shift"` compares with y moved against x by 1, 2, ... steps, the end of it coming before its start,
        which leaves both as they are (p-values go down to 1/n); or `"wild"`, for one kernel a side. The
        result's `null` says which was used.
    unit
        Rows that stay together when y is moved against x, because they are not independent: a number of
        consecutive rows, an array with the unit of every row (a customer, a day), or with `data` the name of
        a column of it. Units change places with units of as many rows, by features.
    n_resamples, memory, batch, rng, nan_policy, progress
        As in `mmd_test`. With "omit" a row missing on either side is dropped from both.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import hsic_test
    >>> angle = np.random.default_rng(1).uniform(0, 2 * np.pi, size=150)
    >>> x, y = np.cos(angle), np.sin(angle)  # dependent, uncorrelated
    >>> print(hsic_test(x, y, rng=0).pvalue)
    0.001

    """
    procedure = read_procedure(statistic, null, n_resamples, memory, batch, rng, (*NULLS, "normal", "shift"))
    if unit is not None:
        unit = unit[()] if isinstance(unit, np.ndarray) and not unit.ndim else unit
        unit = unit if hasattr(unit, "__len__") else checks.count(unit, "unit", 1)
        if null != "permutation" or statistic in ("unbiased", "biased"):
            said = f"unit={unit}" if isinstance(unit, int | str) else "unit"
            seen = f"{said} goes with null='permutation' and statistic='auto' or 'features'"
            raise ValueError(f"{seen}; leave unit out or change those")
    if null == "normal" and statistic in ("unbiased", "biased"):
        seen = f"null='normal' is the limit of features, but statistic={statistic!r} is of pairs of rows"
        raise ValueError(f"{seen}; use statistic='auto' or 'features'")
    if isinstance(kernel, tuple) and len(kernel) != 2:
        remedy = "give a pair (kernel of x, kernel of y), or a list of kernels to fuse"
        raise ValueError(f"kernel is a tuple of {len(kernel)}; {remedy}")
    kernels = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    samples, missing = {"x": x, "y": y}, False
    if isinstance(unit, str) and data is not None:
        samples["unit"] = unit
    if data is not None:
        with showing_progress(progress):
            sides = open_sides(samples, data, nan_policy, MINIMUM)
            if not sides.held and (null == "normal" or procedure.crosses(sides.source.size)):
                if unit is not None and not (isinstance(unit, int) and unit == 1):
                    refuse_unit(unit, sides.source)
                first, second = sides.columns
                with np.errstate(**QUIETLY):
                    return independence_of(sides.source, first, second, tuple(kernels), procedure)
            tables = sides.tables(MINIMUM)
    else:
        tables, missing = side_tables(samples, nan_policy, MINIMUM)
    if missing:
        return nothing("HSIC", null, (tables[0].given,))
    tables, unit = side_units(tables, unit)
    notes = diagnostics.of_sides(tables, ordered=null in SERIES or unit is not None)
    swapped = null not in SERIES and _comes_second(*(table.values for table in tables))
    if swapped:
        tables, kernels = tables[::-1], tuple(kernels[::-1])
    n = len(tables[0].values)
    with showing_progress(progress), np.errstate(**QUIETLY):
        if null == "normal" or unit is not None or procedure.crosses(n):
            unit = 1 if unit is None else unit
            return replace(_by_features(tables, kernels, procedure, unit, swapped), notes=notes)
        if null not in SERIES:
            tables = _in_order(tables)
        spaces = [make_space(table.values, table.categorical) for table in tables]
        names = _names(tables, swapped)
        meetings, both = _meetings(kernels, spaces, names, procedure)
        both = _turned_back(both) if swapped else both
        if procedure.approximate:
            return replace(_approximate(*_single(meetings), both, procedure), notes=notes)
        name, enumerated = "HSIC", False
        if null == "wild":
            name, values = "biased HSIC", wild_values(*_single(meetings), procedure)
        else:
            pairings, enumerated = _pairings(n, procedure)
            found = [meeting_values(meeting, pairings, procedure) for meeting in meetings]
            values = in_places(found, list(range(len(both.kernels))))
        return replace(resampled_outcome(name, (n,), both, values, null, enumerated), notes=notes)


def _comes_second(a: Float[np.ndarray, "n D"], b: Float[np.ndarray, "n E"]) -> bool:
    """Whether the second side goes first: the narrower, then the lesser one, however they were called."""
    if a.shape[1] != b.shape[1]:
        return a.shape[1] > b.shape[1]
    sorted_a, sorted_b = sorted_rows(a), sorted_rows(b)
    if (sorted_a != sorted_b).any():
        return comes_before(sorted_b, sorted_a)
    # Two sides with the same values: how they are paired decides.
    return comes_before(*(sorted_rows(np.column_stack(pair)) for pair in ((b, a), (a, b))))


def _in_order(tables: list[Table]) -> list[Table]:
    """Rows in an order of their own."""
    order = row_order(np.column_stack([table.values for table in tables]))
    return [replace(table, values=table.values[order]) for table in tables]


def _by_features(
    tables: list[Table], kernels: Any, procedure: Procedure, unit: Any, swapped: bool
) -> TestOutcome:
    """The test of tables that are in memory by features of their rows."""
    both = beside(tables)
    cut = len(tables[0].names)
    columns = tuple(range(cut)), tuple(range(cut, len(both.names)))
    names = _names(tables, swapped)
    source = in_memory(both, "x and y")
    result = independence_of(source, *columns, tuple(kernels), procedure, unit=unit, names=names)
    return turned_outcome(result) if swapped else result


def _names(tables: list[Table], swapped: bool) -> list[tuple[str, ...]]:
    """What the columns of either side are called; with the side's own name where two are called the same."""
    if not set(tables[0].names) & set(tables[1].names):
        return [table.names for table in tables]
    sides = ("y", "x") if swapped else ("x", "y")
    own = zip(tables, sides, strict=True)
    return [tuple(side if len(t.names) == 1 else f"{side} {name}" for name in t.names) for t, side in own]


def _turned_back(both: Choice) -> Choice:
    """Pairs of kernels the other way round."""
    return replace(both, kernels=tuple(map(turned, both.kernels)), learned=both.learned[::-1])


def _meetings(
    kernels: Any, spaces: list[Space], names: list[tuple[str, ...]], procedure: Procedure
) -> tuple[tuple[Meeting, ...], Choice]:
    """Which members of x meet which of y, and what to call them."""
    if all(isinstance(kernel, str) and kernel == "fused" for kernel in kernels) and not single_kernel(
        procedure, side=True
    ):
        sides = zip(spaces, names, strict=True)
        return fused_relations(*(read_scales(space, names=own) for space, own in sides))
    left, right = (choose(*each, procedure, side=True) for each in zip(kernels, spaces, strict=True))
    firsts, seconds = (with_low_rank(side.members) for side in (left, right))
    meetings, order = [], []
    for first, rows in firsts:
        for second, columns in seconds:
            pairs = [(j, k) for j in range(len(rows)) for k in range(len(columns))]
            meetings.append(Meeting(first, second, tuple(pairs)))
            order += [(rows[j], columns[k]) for j, k in pairs]
    learned: tuple[Any, ...] = ()
    if left.learned or right.learned:
        learned = tuple(side.learned[0] if side.learned else None for side in (left, right))
    both = tuple((left.kernels[j], right.kernels[k]) for j, k in order)
    return tuple(meetings), Choice((), both, every_one(len(both)), learned)


def _single(meetings: tuple[Meeting, ...]) -> tuple[Pairs, Pairs]:
    """The one kernel of either side."""
    (meeting,) = meetings
    return member_pairs(meeting.left), member_pairs(meeting.right)


def _pairings(n: int, procedure: Procedure) -> tuple[Star | Pairings, bool]:
    """Turns of random rings, or of the ring of time; of few rows written out; and whether these are all."""
    count, shifted = procedure.n_resamples, procedure.null == "shift"
    if not shifted and n <= FEW_ROWS and factorial(n) <= count + 1:
        return every_order(n), True
    star = (draw_shifts if shifted else draw_star)(n, count, procedure.rng)
    written = n <= SHORT and n * n * star.count <= ENTRIES
    return star.pairings(slice(None)) if written else star, shifted and n - 1 <= count


def meeting_values(meeting: Meeting, pairings: Star | Pairings, procedure: Procedure) -> Values:
    """HSIC of every pair of kernels that meet, for the data and every other pairing."""
    left, right, biased = computed(meeting.left), computed(meeting.right), procedure.biased
    if isinstance(left, Blocks) and isinstance(right, Blocks):
        values = block_hsic(left, right, meeting.pairs, _pieces(left, right, pairings), biased=biased)
        return Values(values, np.ones(values.shape[1]))
    if not isinstance(pairings, Star):
        return _written_out(member_pairs(left), member_pairs(right), meeting.pairs, pairings, biased)
    found = hsic_values(left, right, pairings, biased=biased, batch=procedure.batch)
    j, k = (np.array(side) for side in zip(*meeting.pairs, strict=True))
    return Values(found.statistics[:, j, k], found.entry[j, k]).settled(False)


def _pieces(left: Blocks, right: Blocks, pairings: Star | Pairings) -> Iterator[Pairings]:
    """Pairings written out, so many at a time that there is room for the products of features."""
    count = pairings.count if isinstance(pairings, Star) else len(pairings)
    narrow, wide = sorted(side.columns.shape[1] for side in (left, right))
    step = max(1, AT_ONCE // (8 * narrow * max(wide, left.size)))
    for start in range(0, count, step):
        part = slice(start, start + step)
        yield pairings.pairings(part) if isinstance(pairings, Star) else pairings[part]


def hsic_values(left: Ready, right: Ready, star: Star, *, biased: bool, batch: int | None) -> Values:
    """HSIC of J by L kernels for the data and the pairings of a star, as tables."""
    if (
        isinstance(left, LowRank)
        and isinstance(right, LowRank)
        and left.columns.shape[1] * right.columns.shape[1] <= left.size  # products, against diagonals
    ):
        whole = factor_turns(left.columns, right.columns, star)
        cross = (whole - star.products(left.diagonal, right.diagonal))[:, None, None]
        firsts, seconds = [left.sums()], [right.sums()]
    else:
        cross, firsts, seconds = ring_sums(member_pairs(left), member_pairs(right), star, batch)
    values = np.empty_like(cross)
    for j, first in enumerate(firsts):
        for k, second in enumerate(seconds):
            values[:, j, k] = statistics.hsic(cross[:, j, k], first, second, star.products, biased=biased)
    usual = [[sums.usual for sums in side] for side in (firsts, seconds)]
    return Values(values, np.multiply.outer(*usual))


def _written_out(left: Pairs, right: Pairs, pairs: Any, orders: Pairings, biased: bool) -> Values:
    """HSIC of few rows under pairings that are written out."""
    every = np.arange(left.size)
    sides = []
    for side in (left, right):
        K = np.stack(side.rectangles(every, every))
        diagonals = K[:, every, every]
        K[:, every, every] = 0.0
        squares = np.square(K).sum(axis=(1, 2)) + biased * np.square(diagonals).sum(axis=1)
        sides.append(list(zip(K, map(KernelSums, K.sum(axis=2), diagonals, squares), strict=True)))
    values, entry = [], []
    for j, k in pairs:
        (K, first), (L, second) = sides[0][j], sides[1][k]
        cross = np.tensordot(L[orders[:, :, None], orders[:, None, :]], K, 2)
        values.append(statistics.hsic(cross, first, second, lambda u, v: v[orders] @ u, biased=biased))
        entry.append(first.usual * second.usual)
    return Values(np.stack(values, axis=1), np.array(entry)).settled(False)


def _approximate(left: Pairs, right: Pairs, both: Choice, procedure: Procedure) -> TestOutcome:
    """Gamma or spectral null: n HSIC → Σ_ab λ_a η_b z_ab², the eigenvalues of the two centred matrices."""
    n, batch = left.size, procedure.batch
    ((_, first),), ((_, second),) = (column_sums(side, np.zeros((n, 0)), batch) for side in (left, right))
    (trace_x, squares_x), (trace_y, squares_y) = map(statistics.centred_moments, (first, second))
    value, mean, variance = 0.0, trace_x * trace_y / n**3, 2.0 * squares_x * squares_y / n**6
    if mean > 0.0:  # else a side does not vary
        ((cross, _),) = column_sums(product_pairs(left, right), np.ones((n, 1)), batch)
        value = float(statistics.hsic(cross, first, second, np.dot, biased=procedure.biased)[0])

    def weights() -> Float[np.ndarray, " L"]:
        spectra = [nulls.spectrum(side, procedure.rng) for side in (left, right)]
        return nulls.leading(np.multiply.outer(*spectra).ravel()) / n

    return approximate_outcome("HSIC", (n,), both, procedure, value, (mean, variance), weights)

"""Changes in a series: is there one, when, and how many.

The fused test compares the rows before and after a position, at every position, and the statistic is the log
of the mean of 1/p over positions. Under the null hypothesis any order of the rows is as likely, so the
p-value is the rank of the data among other orders. What is fitted sees rows without their order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.ordering import comes_before
from kembed.core.progress import progress_bar
from kembed.features.ensemble import Ensemble
from kembed.features.members import dense
from kembed.features.rows import Rows, Sample
from kembed.permutation import nulls
from kembed.permutation.bins import ClusterBins, make_ordered_edges
from kembed.permutation.designs import Reordered, split
from kembed.permutation.fusion import fuse, log_mean_exp
from kembed.permutation.sums import BinSums, Layout, stored, sum_features
from kembed.tables.source import Block
from kembed.testing.engine import (
    FEWEST,
    MOST,
    SHARE,
    Fitted,
    choose_all,
    evaluate,
    maps_of,
    sample_of,
)
from kembed.testing.outcome import ColumnEvidence, ColumnResults, Finding, find_columns

POSITIONS = 64  # that are tested at most; the change is then located among all
FEW_ORDERS, FAR = 99, 0.2  # orders, and a p-value of theirs that segments with p = .05 exceed once in 10⁷
LEVEL, DRAWS = 0.95, 99  # of the interval for a position, and orders drawn for each
NEAR, STEP = 32, 4  # positions beside the likeliest that are all tried for the interval, and steps beyond
ALIKE = 1.0  # -log p of kernels that are about as significant
COMPONENTS = 32  # principal features that the interval looks at
WINDOW, PARTS = 4, 256  # bins on either side of a position that are looked at in parts, and how many


@dataclass(frozen=True, eq=False)
class Series:
    """Rows in order of time, and how they are tested."""

    values: Float[np.ndarray, "n D"]
    categorical: Bool[np.ndarray, " D"]
    names: tuple[str, ...]
    times: Float[np.ndarray, " n"]  # no change is placed between rows of one time
    unit: int  # rows of a block
    least: int  # rows of a segment
    n_resamples: int
    seed: int

    @cached_property
    def _known(self) -> dict[Any, "Scan | None"]:
        return {}

    def scan(self, start: int, end: int, *, by_column: bool = False) -> "Scan | None":
        """The test of the rows of a segment; None where it has no position to split it at."""
        key = (start, end)
        if key not in self._known or (by_column and getattr(self._known[key], "columns", ()) is None):
            self._known[key] = self._scan(start, end, by_column)
        return self._known[key]

    def far_from_significant(self, start: int, end: int) -> bool:
        """Whether few orders show that the segment is not significant."""
        few = replace(self, n_resamples=min(FEW_ORDERS, self.n_resamples)).scan(start, end)
        return few is None or few.pvalue > FAR

    def _scan(self, start: int, end: int, by_column: bool) -> "Scan | None":
        own, part = self.values[start:end], slice(start, end)
        step = -1 if comes_before(own[::-1], own) else 1  # a reversed series has the same answer
        values, times = own[::step], self.times[part][::step]
        edges = make_ordered_edges(len(values), unit=self.unit)
        positions = spread_evenly(np.flatnonzero(_inside(edges, self.least)))
        if not len(positions):
            return None
        rng = np.random.default_rng(self.seed)
        rows = values[fitted_rows(edges, rng)]
        sample = sample_of(rows, self.categorical, self.names)
        whole, of_columns = choose_all("fused", sample, rng, by_column)
        fitted, ensemble = [whole, *(of_columns or ())], whole.ensemble
        sums, sizes = sums_between(values, edges, sample, maps_of(fitted)), np.diff(edges)
        classes = np.where(sizes == sizes[0], 0, -1)
        places, enumerated = Reordered(classes).draw(self.n_resamples, rng)
        found = evidence_at(positions, fitted, sums, places)
        T = [log_mean_exp(each) for each in found.evidence]
        columns = None
        if by_column:
            own_columns = T[1:] if len(self.names) > 1 else T[:1]
            columns = ColumnEvidence(
                self.names, tuple(float(each[0]) for each in own_columns), np.stack(own_columns, axis=1)
            )
        best = int(np.argmax(found.evidence[0][0]))
        number = clearest(found.kernels[best], found.excess[best], places.shape[1])
        kernel = kernel_features(ensemble, number, sample)
        return Scan(
            self, start, step, values, times, edges, edges[positions], found.evidence[0],
            T[0], enumerated, columns, found.by_kernel, ensemble.kernels, sample, kernel,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scan:
    """The test of a segment. Positions are counted from its first row, or its last one if `step` is -1."""

    series: Series
    start: int
    step: int
    values: Float[np.ndarray, "m D"]
    times: Float[np.ndarray, " m"]
    edges: Int[np.ndarray, " S+1"]  # of bins
    tested: Int[np.ndarray, " T"]
    evidence: Float[np.ndarray, "C T"]  # of the data first
    statistics: Float[np.ndarray, " C"]
    enumerated: bool
    columns: ColumnEvidence | None
    by_kernel: Float[np.ndarray, "C J"]
    kernels: tuple[Any, ...]
    sample: Sample
    kernel: tuple[Any, slice]  # the most significant

    @property
    def pvalue(self) -> float:
        """Of no change in the segment."""
        return nulls.resampled_pvalue(float(self.statistics[0]), self.statistics[1:])

    def at(self, positions: Any) -> Int[np.ndarray, " k"]:
        """Positions as numbers of rows of the series, in order."""
        found = np.asarray(positions)
        return self.start + (found if self.step == 1 else len(self.values) - found[::-1])

    def over_time(self) -> tuple[Int[np.ndarray, " T"], Float[np.ndarray, " T"]]:
        """The positions that were tested, and the evidence at each."""
        return self.at(self.tested), self.evidence[0][:: self.step]

    def column_results(self) -> tuple[ColumnResults, tuple[Finding, ...]]:
        """The tests of columns and of pairs of them; none is more significant than that of all."""
        assert self.columns is not None
        columns, overall = self.columns.results(self.pvalue), self.pvalue
        return columns, find_columns(self.kernels, self.by_kernel, overall, self.columns, columns)

    @cached_property
    def _elements(
        self,
    ) -> tuple[Int[np.ndarray, " E+1"], Float[np.ndarray, "E q"], Int[np.ndarray, " k"], int]:
        """Bins, in parts near the change; their features; edges a change can be at; and the likeliest."""
        edges, unit, size = self.edges, self.series.unit, int(self.edges[1] - self.edges[0])
        member, columns = self.kernel
        while True:
            sums = sums_between(self.values, edges, self.sample, (member.features,))
            F = dense(member.turned(sums.table(member.features)))[:, columns]
            allowed = _inside(edges, self.series.least)
            if size == unit:
                between = np.append(True, self.times[1:] != self.times[:-1])
                apart = allowed & np.append(between, True)[edges]
                allowed = apart if apart.any() else allowed
            candidates = np.flatnonzero(allowed)
            place = int(candidates[np.argmax(squared_sums(F, np.diff(edges))[candidates - 1])])
            if size == unit:
                return edges, F, candidates, place
            size = unit * max(1, 2 * WINDOW * size // PARTS // unit)
            first, last = max(place - WINDOW, 0), min(place + WINDOW, len(edges) - 1)
            parts = [
                np.arange(a, b, size) for a, b in zip(edges[first:last], edges[first + 1 :], strict=False)
            ]
            edges = np.concatenate([edges[:first], *parts, edges[last:]])

    @property
    def position(self) -> int:
        """The likeliest position of a change."""
        edges, _, _, place = self._elements
        return int(self.at([edges[place]])[0])

    @cached_property
    def interval(self) -> tuple[int, int]:
        """From the first to the last position that is not rejected."""
        edges, F, candidates, place = self._elements
        sizes, steps = np.diff(edges), np.arange(len(candidates)) - int(np.searchsorted(candidates, place))
        tried = np.flatnonzero((np.abs(steps) <= NEAR) | (steps % STEP == 0))
        rng = np.random.default_rng(self.series.seed)
        p = position_pvalues(principal(F, sizes), sizes, candidates, candidates[tried], rng)
        kept = np.flatnonzero((p > 1.0 - LEVEL) | (steps[tried] == 0))
        # What was not tried, or is within a bin, may be where the change is.
        first = candidates[tried[kept[0] - 1] + 1 if kept[0] else 0]
        last = candidates[tried[kept[-1] + 1] - 1 if kept[-1] + 1 < len(tried) else -1]
        low, high = self.at([edges[first - 1] + 1, edges[last + 1] - 1]).tolist()
        return low, high


class Evidence(NamedTuple):
    """-log p at every position, for the data (first) and every order: of every ensemble, and of kernels."""

    evidence: list[Float[np.ndarray, "C T"]]
    kernels: Float[np.ndarray, "T J"]  # of the first ensemble, for the data
    excess: Float[np.ndarray, "T J"]  # of their statistics over those of other orders, in standard deviations
    by_kernel: Float[np.ndarray, "C J"]  # log of the mean of 1/p over positions


def evidence_at(
    positions: Int[np.ndarray, " T"], fitted: list[Fitted], sums: BinSums, places: Int[np.ndarray, "S C"]
) -> Evidence:
    """The fused test of the bins before every position and the others, on the same orders."""
    C = places.shape[1]
    evidence = [np.empty((C, len(positions))) for _ in fitted]
    kernels, excess, total = [], [], np.zeros((C, 1))
    with progress_bar(len(positions), 1e3 * places.size * len(positions), "scan", "position") as shown:
        for k, position in enumerate(positions.tolist()):
            draws = split(places, sums.weight, position)
            for own, (ensemble, entry) in zip(evidence, fitted, strict=True):
                values = evaluate(ensemble, entry, sums, draws)
                fused = fuse(values, ensemble.plan)
                own[:, k] = fused.whole
                if own is evidence[0]:
                    kernels.append(fused.kernels[0])
                    others = values.statistics[1:]
                    sd = others.std(axis=0)
                    gap = values.statistics[0] - others.mean(axis=0)
                    excess.append(gap / np.where(sd > 0.0, sd, np.inf))
                    total = total + np.exp(fused.kernels)
            shown.update(1)
    return Evidence(evidence, np.array(kernels), np.array(excess), np.log(total / len(positions)))


def clearest(evidence: Float[np.ndarray, " J"], excess: Float[np.ndarray, " J"], orders: int) -> int:
    """The kernel that locates a change: of those about as significant as any, the one furthest out.

    So many orders do not tell p-values below their number apart.

    >>> evidence, excess = np.array([4.0, 3.5, 1.0]), np.array([5.0, 20.0, 50.0])
    >>> clearest(evidence, excess, 1000), clearest(evidence + 8.0, excess, 1000)
    (1, 2)
    """
    least = min(evidence.max() - ALIKE, np.log(orders))
    return int(np.argmax(np.where(evidence >= least, excess, -np.inf)))


def kernel_features(ensemble: Ensemble, number: int, sample: Sample) -> tuple[Any, slice]:
    """The member with the kernel of this number, and which of its features are those of the kernel."""
    row = Rows(sample, sample.values[:1])
    for member in ensemble.members:
        count = len(member.entry(row, {}))
        if number < count:
            block, cut = divmod(number, len(member.cuts))
            return member, slice(block * member.width, block * member.width + member.cuts[cut])
        number -= count
    raise IndexError(number)


def sums_between(
    values: Float[np.ndarray, "m D"], edges: Int[np.ndarray, " S+1"], sample: Sample, maps: tuple[Any, ...]
) -> BinSums:
    """Sums of features over the rows between edges."""
    sizes = np.diff(edges)
    own, none = np.repeat(np.arange(len(sizes)), sizes), np.zeros(len(sizes), dtype=int)
    bins = ClusterBins(own, np.zeros(len(values), dtype=int), none, none)
    layout = Layout(tuple(range(values.shape[1])))
    return stored([sum_features(Block(values, 0), layout, bins, sample.fitted(), maps)], maps)


def fitted_rows(edges: Int[np.ndarray, " S+1"], rng: np.random.Generator) -> Int[np.ndarray, " k"]:
    """The rows that features are fitted on: those in the same places of all bins that move, from either end.

    So they are the same rows for any order of the bins, and for a reversed series.
    """
    sizes = np.diff(edges)
    starts, last = edges[:-1][sizes == sizes[0]], int(sizes[0]) - 1
    each = -(-min(MOST, max(FEWEST, int(edges[-1]) // SHARE)) // len(starts))
    half = rng.permutation(last // 2 + 1)[: -(-each // 2)]
    return (starts[:, None] + np.unique(np.append(half, last - half))).ravel()


def _inside(edges: Int[np.ndarray, " S+1"], least: int) -> Bool[np.ndarray, " S+1"]:
    """The edges with at least so many rows on either side."""
    return (edges >= least) & (edges <= edges[-1] - least)


def spread_evenly(places: Int[np.ndarray, " k"], most: int = POSITIONS) -> Int[np.ndarray, " k"]:
    """At most so many of them, the same from either end.

    >>> spread_evenly(np.arange(11), 4).tolist()
    [0, 3, 7, 10]
    """
    last = len(places) - 1
    if last < most:
        return places
    first = np.arange(most // 2) * last // (most - 1)
    return places[np.concatenate([first, last - first[::-1]])]


def squared_sums(F: Float[np.ndarray, "E q"], sizes: Int[np.ndarray, " E"]) -> Float[np.ndarray, " E-1"]:
    """n/(t (n - t)) |Σ_{i≤t} (φ_i - mean)|² after t = 1, ..., E - 1 elements: t (n - t)/n times MMD²."""
    before = np.cumsum(sizes)
    C = np.cumsum(_centred(F, sizes), axis=0)[:-1]
    n, before = before[-1], before[:-1]
    return np.square(C).sum(axis=1) * (n / (before * (n - before)))


def principal(F: Float[np.ndarray, "E q"], sizes: Int[np.ndarray, " E"]) -> Float[np.ndarray, "E r"]:
    """Centred features, the largest principal ones of many."""
    F = _centred(F, sizes)
    if F.shape[1] <= COMPONENTS:
        return F
    vectors, lengths, _ = np.linalg.svd(F, full_matrices=False)
    return vectors[:, :COMPONENTS] * lengths[:COMPONENTS]


def _centred(F: Float[np.ndarray, "E q"], sizes: Int[np.ndarray, " E"]) -> Float[np.ndarray, "E q"]:
    return F - sizes[:, None] * (F.sum(axis=0) / sizes.sum())


def position_pvalues(
    F: Float[np.ndarray, "E q"],
    sizes: Int[np.ndarray, " E"],
    candidates: Int[np.ndarray, " c"],
    tried: Int[np.ndarray, " k"],
    rng: np.random.Generator,
) -> Float[np.ndarray, " k"]:
    """P-values of "the change is there, and at no other candidate", for changes after so many elements.

    If so, elements on either side are exchangeable: the p-value is the rank of the largest of the
    `squared_sums` among those of elements that are put into another order within their sides (conformal
    localization, Ramdas & Hore 2026). It is exact whatever the features are.
    """
    found = []
    for k in tried.tolist():
        before = np.arange(len(sizes)) < k
        orders = np.tile(np.arange(len(sizes)), (DRAWS + 1, 1))
        for group in _alike(before, sizes):
            orders[1:, group] = rng.permuted(orders[1:, group], axis=1)
        largest = np.array([squared_sums(F[each], sizes)[candidates - 1].max() for each in orders])
        found.append(nulls.resampled_pvalue(float(largest[0]), largest[1:]))
    return np.array(found)


def _alike(before: Bool[np.ndarray, " E"], sizes: Int[np.ndarray, " E"]) -> Iterator[Int[np.ndarray, " g"]]:
    """Elements of one side and of as many rows, which are exchanged."""
    for size in np.unique(sizes):
        for side in (before, ~before):
            if (group := np.flatnonzero(side & (sizes == size))).size > 1:
                yield group


class Found(NamedTuple):
    """A change: rows before it, its p-value for all segments, and the scan between its neighbours."""

    position: int
    pvalue: float
    scan: Scan


def find_changes(series: Series, alpha: float) -> list[Found]:
    """Changes by binary segmentation, at the level alpha for all of them together.

    A segment is tested at the share of alpha that it has of the rows, if the one it is part of was split
    (Goeman & Finos 2012): segments without a change that are tested first are disjoint, so that their levels
    add up to alpha. Then every change is tested between its neighbours, and those that are not significant
    there are dropped, one by one; and located once more.
    """
    n = len(series.values)
    pvalues: dict[int, float] = {}

    def divide(start: int, end: int, above: float) -> None:
        if end - start < n and series.far_from_significant(start, end):
            return
        scan = series.scan(start, end, by_column=end - start == n)
        if scan is None or (p := max(above, scan.pvalue * n / (end - start))) > alpha:
            return
        pvalues[scan.position] = p
        divide(start, scan.position, p)
        divide(scan.position, end, p)

    divide(0, n, 0.0)
    scans: list[Scan] = []
    while pvalues:
        positions = sorted(pvalues)
        found = _between(series, positions)
        weakest = max(range(len(found)), key=lambda k: _weakness(found[k]))
        if (_weakness(found[weakest])[0]) <= alpha:
            scans = [scan for scan in found if scan is not None]
            break
        del pvalues[positions[weakest]]
    positions = sorted(pvalues)
    moved = [scan.position for scan in scans]
    kept = moved if (np.diff([0, *moved, n]) >= series.least).all() else positions
    each = zip(kept, positions, scans, strict=True)
    return [Found(where, pvalues[at], scan) for where, at, scan in each]


def _between(series: Series, positions: list[int]) -> list[Scan | None]:
    """The scans of the segments from the change before to the one after each."""
    edges = [0, *positions, len(series.values)]
    return [series.scan(a, b, by_column=True) for a, b in zip(edges, edges[2:], strict=False)]


def _weakness(scan: Scan | None) -> tuple[float, float]:
    """The p-value, then the evidence; segments too short for a test come first."""
    return (2.0, 0.0) if scan is None else (scan.pvalue, -float(scan.statistics[0]))

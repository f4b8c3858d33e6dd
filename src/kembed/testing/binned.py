"""The two-sample test of any number of rows: one pass for a sample, one for sums by bin, no row kept.

Features of a row are fitted on a sample of the pool that holds as many rows of every bin, so that no exchange
of bins changes it. Sums of features over bins are all that the statistics need, and whole bins change sides:
the level is exact, as that of the test on single rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.ordering import sorted_rows
from kembed.kernels.space import Space, make_space
from kembed.permutation import statistics
from kembed.permutation.bins import BINS, AnyBins, Bins, dense, make_bins, make_cluster_bins
from kembed.permutation.fusion import Values, fuse
from kembed.permutation.labelings import draw_swaps, draw_within
from kembed.permutation.units import UNIT, checked_unit, refuse_split
from kembed.tables.source import Source
from kembed.testing.cells import Cells, make_cells
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.polynomials import fit_levels
from kembed.testing.members.single import level_features, single_column
from kembed.testing.outcome import ColumnEvidence, TestOutcome, resampled_outcome
from kembed.testing.passes import Layout, Sums, sum_features, take_column, take_sample
from kembed.testing.procedure import Choice, Procedure
from kembed.testing.streams import LANDMARKS, Streams, choose_streams

# Rows that features are fitted on, about: one in so many, at least and at most; and landmarks, one for so
# many of those. Of 8,192 rows 2,048 with 128 landmarks have no less power than 4,096 with 256, and take 6
# tenths of the time: `python -m benchmarks.binned fitted`.
FEW, FEWEST, SAMPLE = 4, 2_048, 4_096
FITTED, FEWEST_LANDMARKS = 16, 128
AT_ONCE = 256  # features whose sums are worked on together: of 999 resamples two megabytes
LEAST = 2  # bins of a sample: with fewer nothing can change sides


@dataclass(frozen=True, eq=False)
class Sides:
    """Sums of the bins of two or more samples, and labelings of the bins: one sample against the others."""

    sums: tuple[Sums, ...]
    labels: Float[np.ndarray, "S C"]  # 1 for bins of the one sample; the data's own labeling first
    one: int = 0  # which it is
    strata: tuple[Int[np.ndarray, " S"], ...] | None = None  # of the bins of every sample

    @cached_property
    def contrasts(self) -> Float[np.ndarray, "S C"]:
        """Weights of all bins, those that are left over after those of each sample, within strata."""
        assert self.strata is not None
        ends = np.cumsum([0, *map(len, self.strata)])
        parts: list[Any] = []
        strata: list[Any] = []
        for k, own in enumerate(self.strata):
            fixed = np.full((1, self.labels.shape[1]), float(k == self.one))
            parts += [self.labels[ends[k] : ends[k + 1]], fixed]
            strata += [own, [-1]]  # nothing is left over
        weight = np.concatenate([each.weight for each in self.sums])
        return statistics.contrasts(np.concatenate(parts), weight, np.concatenate(strata))

    def of(self, parts: list[Float[np.ndarray, "S+1 p"]]) -> tuple[Any, Any]:
        """Sums of it and of the others under every labeling, (p, C); what is left over keeps its side."""
        movable = np.concatenate([part[:-1] for part in parts])
        fixed = np.stack([part[-1] for part in parts])
        first = movable.T @ self.labels
        first += fixed[self.one][:, None]
        whole = movable.sum(axis=0) + fixed.sum(axis=0)
        return first, whole[:, None] - first

    def difference(self, parts: list[Float[np.ndarray, "S+1 p"]], n: Any, m: Any) -> Float[np.ndarray, "p C"]:
        """Of both over their sizes, some features after the others: what a cache holds."""
        if self.strata is not None:
            return np.concatenate(parts).T @ self.contrasts
        width = parts[0].shape[1]
        found = np.empty((width, self.labels.shape[1]))
        for start in range(0, width, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            first, second = self.of([part[:, some] for part in parts])
            first /= n
            second /= m
            np.subtract(first, second, out=found[some])
        return found

    def features(self, k: int) -> list[Float[np.ndarray, "S+1 p"]]:
        """The sums of one map of features, of every sample."""
        return [each.features[k] for each in self.sums]


def binned_test(
    sources: tuple[Source, Source],
    kernel: Any,
    procedure: Procedure,
    *,
    by_column: bool = False,
    unit: Any = None,
    strata: str | None = None,
    weighted: bool = False,
    bins: int = BINS,
) -> TestOutcome:
    """The permutation test of two sources of the same columns.

    `unit` is the name of a column whose equal entries move together, or a number of consecutive rows that do;
    labels are exchanged within the `strata` of a column; with `weighted` the last column holds weights. There
    are about so many `bins`.
    """
    rng, schema = procedure.rng, sources[0].schema
    unit = None if unit is None else checked_unit(unit, schema.names)
    for value, argument in ((unit, "unit"), (strata, "strata")):
        if isinstance(value, tuple | list):
            seen = f"{argument} is a pair of arrays, but the rows of files come block by block"
            raise ValueError(f"{seen}; name a column of both samples, or read them into memory")
    last = len(schema.names) - 1 if weighted else None
    named, within = (schema.names.index(each) if isinstance(each, str) else None for each in (unit, strata))
    layout = Layout(tuple(c for c in range(len(schema.names)) if c not in (last, named, within)), weight=last)
    both = _bins(sources, named, within, unit, int(rng.integers(2**62)), bins)
    space = _sample(sources, both, layout, unit)
    names = tuple(schema.names[c] for c in layout.variables)
    levels = layout.kinds(schema)[1]
    streams = _streams(kernel, space, names, levels, rng)
    cells = make_cells(space, levels) if by_column else None
    sums = _pass(sources, both, layout, streams, cells)
    turned = _comes_after(*sums)  # the same answer for swapped samples
    first, second = both[int(turned)], both[1 - int(turned)]
    labels = np.repeat([1.0, 0.0], [first.count, second.count])
    classes = np.concatenate([first.classes, second.classes])
    labelings, enumerated = draw_within(labels, classes, procedure.n_resamples, rng)
    groups = None if isinstance(first, Bins) else (first.strata, second.strata)
    sides = Sides((sums[1], sums[0]) if turned else sums, labelings.written_out, strata=groups)
    values = statistics_of(sides, streams.members, streams.features, streams.entries(space))
    sizes = (sums[0].rows, sums[1].rows)
    columns = None if cells is None else column_evidence(sides, cells, space, names, levels, kernel, rng)
    result = resampled_outcome("MMD²", sizes, streams.choice, values, "permutation", enumerated, columns)
    return replace(result, bins=(both[0].count, both[1].count))


def binned_pairs(pairs: Source, kernel: Any, procedure: Procedure) -> TestOutcome:
    """The test of paired samples, a pair a row: whole bins of pairs turn round."""
    rng, schema = procedure.rng, pairs.schema
    half = len(schema.names) // 2
    layout = Layout(tuple(range(half)), tuple(range(half, 2 * half)))
    bins, _ = make_bins((pairs.size, pairs.size), int(rng.integers(2**62)))
    each = _each(2 * pairs.size, 2 * bins.count)
    rows = pairs.fold(take_sample, layout, bins, each).table
    kinds, levels = layout.kinds(schema)
    space = make_space(sorted_rows(rows), kinds)
    streams = _streams(kernel, space, schema.names[:half], levels, rng)
    sums = pairs.fold(sum_features, layout, bins, streams.fitted, streams.features)
    signs, enumerated = draw_swaps(np.ones(bins.count), procedure.n_resamples, rng)
    places = {each: k for k, each in enumerate(streams.features)}
    found = []
    for member in streams.members:
        parts = sums.features[places[member.features]]
        turned = parts[:-1].T @ signs + parts[-1][:, None]
        found.append(member.added(np.square(member.projected(turned / sums.weight.sum()))))
    values = Values(np.concatenate(found).T, streams.entries(space)).settled(True)
    sizes = (sums.rows, sums.rows)
    result = resampled_outcome("biased MMD²", sizes, streams.choice, values, "permutation", enumerated)
    return replace(result, bins=(bins.count,))


def binned_several(sources: tuple[Source, ...], kernel: Any, procedure: Procedure) -> TestOutcome:
    """Several samples at once: the sum over samples of MMD² against the rest, with bins that change sides."""
    rng, schema = procedure.rng, sources[0].schema
    layout = Layout(tuple(range(len(schema.names))))
    every = make_bins(tuple(source.size for source in sources), int(rng.integers(2**62)))
    space = _sample(sources, every, layout, None)
    levels = layout.kinds(schema)[1]
    streams = _streams(kernel, space, schema.names, levels, rng)
    sums = _pass(sources, every, layout, streams, None)
    own = np.repeat(np.arange(len(sources)), [bins.count for bins in every])
    codes = np.column_stack([own, *(rng.permutation(own) for _ in range(procedure.n_resamples))])
    sizes = tuple(each.rows for each in sums)
    total, entry = np.zeros((codes.shape[1], len(streams.choice.kernels))), streams.entries(space)
    for g, n in enumerate(sizes):
        sides = Sides(sums, (codes == g).astype(float), g)
        values = statistics_of(sides, streams.members, streams.features, entry).statistics
        total += values * (n * (sum(sizes) - n) / sum(sizes) ** 2)
    result = resampled_outcome("MMD²", sizes, streams.choice, Values(total, entry), "permutation", False)
    return replace(result, bins=tuple(bins.count for bins in every))


def _bins(
    sources: tuple[Source, Source], named: int | None, within: int | None, unit: Any, key: int, count: int
) -> tuple[AnyBins, AnyBins]:
    """Bins of rows, of so many consecutive rows, or of clusters within strata."""
    x, y = sources
    both: tuple[AnyBins, ...]
    if named is None and within is None:
        both = make_bins((x.size, y.size), key, unit=unit or 1, bins=count)
    else:
        clusters = [_clusters(source, named, unit) for source in sources]
        strata = [
            np.zeros(source.size) if within is None else source.fold(take_column, within).table
            for source in sources
        ]
        distinct, codes = np.unique(np.concatenate(strata), return_inverse=True)
        groups = codes.ravel()[: x.size], codes.ravel()[x.size :]
        refuse_split(clusters, list(groups), {k: repr(value) for k, value in enumerate(distinct.tolist())})
        if not len(np.intersect1d(groups[0], groups[1])):
            raise ValueError("no stratum has rows of both samples; name coarser strata")
        both = make_cluster_bins((clusters[0], clusters[1]), groups, key, bins=count)
    for k, source in enumerate(sources):
        if (both[k].classes >= 0).sum() < LEAST:
            told = "unit" if unit == UNIT else f"unit={unit!r}"
            left = int((both[k].classes >= 0).sum())
            seen = f"{told} leaves {left} units of {source.label} that could change sides"
            raise ValueError(f"{seen}; give more rows or smaller units")
    return both[0], both[1]


def _clusters(source: Source, named: int | None, unit: int | None) -> Int[np.ndarray, " n"]:
    """The cluster of every row: a column's entry, so many consecutive rows, or the row itself."""
    if named is not None:
        return np.unique(source.fold(take_column, named).table, return_inverse=True)[1].ravel()
    rows = np.arange(source.size)
    return rows if unit is None else np.where(rows < source.size // unit * unit, rows // unit, -1)


def _sample(sources: tuple[Source, ...], every: tuple[AnyBins, ...], layout: Layout, unit: Any) -> Space:
    """The space of as many rows of every bin."""
    rows = sum(bins.count for bins in every) * (unit if isinstance(unit, int) else 1)
    each = _each(sum(source.size for source in sources), rows)
    parts = [s.fold(take_sample, layout, bins, each).table for s, bins in zip(sources, every, strict=True)]
    kinds, _ = layout.kinds(sources[0].schema)
    return make_space(sorted_rows(np.concatenate(parts)), kinds)


def _each(size: int, rows: int) -> int:
    """How many rows of every bin features are fitted on, where one of each are so many `rows`."""
    return max(1, -(-min(SAMPLE, max(FEWEST, size // FEW)) // rows))


def _streams(
    kernel: Any, space: Space, names: tuple[str, ...], levels: tuple[int, ...], rng: np.random.Generator
) -> Streams:
    """The features that these rows speak for."""
    landmarks = min(LANDMARKS, max(FEWEST_LANDMARKS, len(space.values) // FITTED))
    return choose_streams(kernel, space, names, levels, rng, landmarks=landmarks)


def _comes_after(first: Sums, second: Sums) -> bool:
    """A strict order of two samples: by rows, then by the first sum in which they differ."""
    a, b = (
        np.concatenate([[each.rows], *(part.sum(axis=0) for part in each.features)])
        for each in (first, second)
    )
    differ = np.flatnonzero(a != b)
    return bool(len(differ)) and bool(a[differ[0]] > b[differ[0]])


def _pass(
    sources: tuple[Source, ...],
    every: tuple[AnyBins, ...],
    layout: Layout,
    streams: Streams,
    cells: Cells | None,
) -> tuple[Sums, ...]:
    maps = streams.features if cells is None else (*streams.features, cells)
    return tuple(
        source.fold(sum_features, layout, bins, streams.fitted, maps)
        for source, bins in zip(sources, every, strict=True)
    )


def statistics_of(
    sides: Sides, members: tuple[Streamed, ...], maps: tuple[Any, ...], entry: Float[np.ndarray, " J"]
) -> Values:
    """|Lᵀd|² of every kernel under every labeling; unbiased where K(x, x) was summed as well."""
    n, m = (size[0] for size in sides.of([each.weight[:, None] for each in sides.sums]))
    nn, mm = (size[0] for size in sides.of([each.squares[:, None] for each in sides.sums]))
    places = {each: k for k, each in enumerate(maps)}
    found: dict[int, Any] = {}
    for features in maps:  # several members may look at the same ones
        own = [k for k, member in enumerate(members) if member.features == features]
        if not own:
            continue
        parts = sides.features(places[features])
        biased = [k for k in own if members[k].diagonal is None or sides.strata is not None]
        d = sides.difference(parts, n, m) if biased else None
        for k in biased:
            found[k] = members[k].added(np.square(members[k].projected(d)))
        first, second = sides.of(parts) if len(biased) < len(own) else (None, None)
        for k in sorted(set(own) - set(biased)):
            member = members[k]
            a, b = member.projected(first), member.projected(second)
            mine, yours = sides.of(sides.features(places[member.diagonal]))
            within = (member.added(a * a) - mine) / (n * n - nn)
            within += (member.added(b * b) - yours) / (m * m - mm)
            found[k] = within - 2.0 * member.added(a * b) / (n * m)
    return Values(np.concatenate([found[k] for k in range(len(members))]).T, entry).settled(True)


def column_evidence(
    sides: Sides,
    cells: Cells,
    space: Space,
    names: tuple[str, ...],
    levels: tuple[int, ...],
    kernel: Any,
    rng: np.random.Generator,
) -> ColumnEvidence:
    """Every column individually on the same relabelings, from its cells."""
    evidence, effects = [], []
    histograms = sides.features(len(sides.sums[0].features) - 1)
    for c, name in enumerate(names):
        column = make_space(np.sort(space.values[:, [c]], axis=0), space.categorical[[c]])
        if isinstance(kernel, str) and kernel == "fused":
            choice, members, entry, features = _single(name, column, cells.points[c])
            maps: tuple[Any, ...] = tuple(range(len(features)))
        else:
            streams = choose_streams(kernel, column, (name,), levels[c : c + 1], rng)
            points = Fresh(streams.fitted, cells.points[c][:, None])
            choice, members, maps = streams.choice, streams.members, streams.features
            entry, features = streams.entries(column), [each(points) for each in maps]
        own = slice(cells.starts[c], cells.starts[c + 1])
        sums: Any = tuple(
            replace(each, features=[dense(counts[:, own] @ F) for F in features])
            for each, counts in zip(sides.sums, histograms, strict=True)
        )
        values = statistics_of(replace(sides, sums=sums), members, maps, entry)
        fused = fuse(values, choice.plan).whole
        evidence.append(fused)
        effects.append(float(values.statistics[0, 0]) if len(choice.kernels) == 1 else float(fused[0]))
    return ColumnEvidence(names, tuple(effects), np.stack(evidence, axis=1))


def _single(name: str, column: Space, points: Float[np.ndarray, " L"]) -> tuple[Choice, Any, Any, list[Any]]:
    """The fused test of one column: its members, the size of an entry of each, and features of the cells.

    What stands for a cell has the features of the value next to it; levels are as `fit_levels` has them.
    """
    values, categorical = column.values[:, 0], bool(column.categorical[0])
    choice = single_column(name, values, categorical)
    rows = np.minimum(np.searchsorted(values, points), len(values) - 1)
    scale = fit_levels(values) if categorical else None
    blocks: Any = choice.members
    sparse = [hasattr(each.columns, "toarray") for each in blocks]  # an indicator of every level
    entry = np.concatenate([each.diagonals.mean(axis=1) for each in blocks])
    features = [
        level_features(points, values) if every else scale(points) if scale else each.columns[rows]
        for every, each in zip(sparse, blocks, strict=True)
    ]
    shapes = [
        (len(points), (len(points),)) if every else (each.width, each.cuts)
        for every, each in zip(sparse, blocks, strict=True)
    ]
    members = tuple(Streamed(k, *shape) for k, shape in enumerate(shapes))  # type: ignore[arg-type]
    return choice, members, entry, features

"""The two-sample test of any number of rows: one pass for a sample, one for sums by bin, no row kept.

Features of a row are fitted on a sample of the pool that holds as many rows of every bin, so that no exchange
of bins changes it. Sums of features over bins are all that the statistics need, and whole bins change sides:
the level is exact, as that of the test on single rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.ordering import sorted_rows
from kembed.data.space import Space, make_space
from kembed.engines.source import Source
from kembed.permutation import nulls
from kembed.permutation.bins import AnyBins, make_bins, make_named_bins
from kembed.permutation.fusion import Values, fuse
from kembed.permutation.labelings import draw_swaps, draw_within
from kembed.testing.cells import Cells, make_cells
from kembed.testing.members.fresh import Fresh
from kembed.testing.outcome import ColumnResult, ColumnResults, TestOutcome, resampled_outcome
from kembed.testing.passes import Layout, Sums, sum_features, take_column, take_sample
from kembed.testing.procedure import Procedure
from kembed.testing.streams import Streams, choose_streams

SAMPLE = 4_096  # rows that features are fitted on, about
OF_A_COLUMN = 1_024  # of them, for a column by itself
LEAST = 2  # bins of a sample: with fewer nothing can change sides


@dataclass(frozen=True, eq=False)
class Sides:
    """Sums of bins of two samples, and the labelings of the bins under which statistics are asked for."""

    sums: tuple[Sums, Sums]
    labels: Float[np.ndarray, "S C"]  # 1 for bins of the first sample; the data's own labeling first

    def of(self, parts: list[Float[np.ndarray, "S+1 p"]]) -> tuple[Any, Any]:
        """Sums of the first sample and of the second under every labeling, (p, C); what is left over stays."""
        movable = np.concatenate([part[:-1] for part in parts])
        first = movable.T @ self.labels + parts[0][-1][:, None]
        whole = movable.sum(axis=0) + parts[0][-1] + parts[1][-1]
        return first, whole[:, None] - first

    def features(self, k: int) -> list[Float[np.ndarray, "S+1 p"]]:
        """The sums of one map of features, of either sample."""
        return [each.features[k] for each in self.sums]


def binned_test(
    sources: tuple[Source, Source],
    kernel: Any,
    procedure: Procedure,
    *,
    by_column: bool = False,
    unit: int | str | None = None,
    weighted: bool = False,
) -> TestOutcome:
    """The permutation test of two sources of the same columns.

    `unit` is the name of a column whose equal entries move together, or a number of consecutive rows that do;
    with `weighted` the last column holds weights.
    """
    rng, schema = procedure.rng, sources[0].schema
    last = len(schema.names) - 1 if weighted else None
    named = schema.names.index(unit) if isinstance(unit, str) else None
    layout = Layout(tuple(c for c in range(len(schema.names)) if c not in (last, named)), weight=last)
    both = _bins(sources, named, unit, int(rng.integers(2**62)))
    space = _sample(sources, both, layout, unit)
    names = tuple(schema.names[c] for c in layout.variables)
    levels = layout.kinds(schema)[1]
    streams = choose_streams(kernel, space, names, levels, rng)
    cells = make_cells(space, levels) if by_column else None
    sums = _pass(sources, both, layout, streams, cells)
    labels = np.concatenate([np.ones(both[0].count), np.zeros(both[1].count)])
    classes = np.concatenate([bins.classes for bins in both])
    labelings, enumerated = draw_within(labels, classes, procedure.n_resamples, rng)
    sides = Sides(sums, labelings.written_out)
    values = statistics_of(sides, streams, space)
    sizes = (sums[0].rows, sums[1].rows)
    result = resampled_outcome("MMD²", sizes, streams.choice, values, "permutation", enumerated)
    result = replace(result, bins=(both[0].count, both[1].count))
    if cells is None:
        return result
    return replace(result, columns=column_results(sides, cells, space, names, levels, kernel, procedure))


def binned_pairs(pairs: Source, kernel: Any, procedure: Procedure) -> TestOutcome:
    """The test of paired samples, a pair a row: whole bins of pairs turn round."""
    rng, schema = procedure.rng, pairs.schema
    half = len(schema.names) // 2
    layout = Layout(tuple(range(half)), tuple(range(half, 2 * half)))
    bins, _ = make_bins((pairs.size, pairs.size), int(rng.integers(2**62)))
    each = max(1, -(-SAMPLE // (2 * bins.count)))
    rows = pairs.map_sum(take_sample, layout, bins, each).table
    kinds, levels = layout.kinds(schema)
    space = make_space(sorted_rows(rows), kinds)
    streams = choose_streams(kernel, space, schema.names[:half], levels, rng)
    sums = pairs.map_sum(sum_features, layout, bins, streams.fitted, streams.features)
    signs, enumerated = draw_swaps(np.ones(bins.count), procedure.n_resamples, rng)
    places = {each: k for k, each in enumerate(streams.features)}
    found = []
    for member in streams.members:
        parts = sums.features[places[member.features]]
        turned = parts[:-1].T @ signs + parts[-1][:, None]
        found.append(member.added(np.square(member.projected(turned / sums.weight.sum()))))
    values = Values(np.concatenate(found).T, streams.entries(space))
    sizes = (sums.rows, sums.rows)
    result = resampled_outcome("biased MMD²", sizes, streams.choice, values, "permutation", enumerated)
    return replace(result, bins=(bins.count,))


def _bins(sources: tuple[Source, Source], named: int | None, unit: Any, key: int) -> tuple[AnyBins, AnyBins]:
    """Bins of rows, of so many consecutive rows, or of units that have names."""
    x, y = sources
    both: tuple[AnyBins, AnyBins]
    if named is None:
        both = make_bins((x.size, y.size), key, unit=unit or 1)
    else:
        first, second = (source.map_sum(take_column, named).table for source in sources)
        both = make_named_bins((first, second), key)
    for source, bins in zip(sources, both, strict=True):
        if bins.count < LEAST:
            seen = f"unit={unit!r} leaves {bins.count} units of {source.label} that could change sides"
            raise ValueError(f"{seen}; give more rows or smaller units")
    return both


def _sample(sources: tuple[Source, Source], both: tuple[AnyBins, AnyBins], layout: Layout, unit: Any) -> Space:
    """The space of as many rows of every bin."""
    rows = sum(bins.count for bins in both) * (unit if isinstance(unit, int) else 1)
    each = max(1, -(-SAMPLE // rows))
    parts = [s.map_sum(take_sample, layout, bins, each).table for s, bins in zip(sources, both, strict=True)]
    kinds, _ = layout.kinds(sources[0].schema)
    return make_space(sorted_rows(np.concatenate(parts)), kinds)


def _pass(
    sources: tuple[Source, Source],
    both: tuple[AnyBins, AnyBins],
    layout: Layout,
    streams: Streams,
    cells: Cells | None,
) -> tuple[Sums, Sums]:
    maps = streams.features if cells is None else (*streams.features, cells)
    first, second = (
        source.map_sum(sum_features, layout, bins, streams.fitted, maps)
        for source, bins in zip(sources, both, strict=True)
    )
    return first, second


def statistics_of(sides: Sides, streams: Streams, space: Space) -> Values:
    """|Lᵀd|² of every kernel under every labeling; unbiased where K(x, x) was summed as well."""
    n, m = (size[0] for size in sides.of([each.weight[:, None] for each in sides.sums]))
    places = {each: k for k, each in enumerate(streams.features)}
    found = []
    for member in streams.members:
        a, b = (member.projected(side) for side in sides.of(sides.features(places[member.features])))
        if member.diagonal is None:
            found.append(member.added(np.square(a / n - b / m)))
            continue
        own, other = sides.of(sides.features(places[member.diagonal]))
        within = (member.added(a * a) - own) / (n * (n - 1.0))
        within += (member.added(b * b) - other) / (m * (m - 1.0))
        found.append(within - 2.0 * member.added(a * b) / (n * m))
    return Values(np.concatenate(found).T, streams.entries(space))


def column_results(
    sides: Sides,
    cells: Cells,
    space: Space,
    names: tuple[str, ...],
    levels: tuple[int, ...],
    kernel: Any,
    procedure: Procedure,
) -> ColumnResults:
    """Every column by itself on the same relabelings, from its cells; corrected by the step-down maximum."""
    evidence, effects = [], []
    histograms = sides.features(len(sides.sums[0].features) - 1)
    few = np.linspace(0, len(space.values) - 1, min(OF_A_COLUMN, len(space.values))).round().astype(int)
    for c, name in enumerate(names):
        column = make_space(np.sort(space.values[:, [c]], axis=0)[few], space.categorical[[c]])
        streams = choose_streams(kernel, column, (name,), levels[c : c + 1], procedure.rng)
        points = Fresh(streams.fitted, cells.points[c][:, None])
        features = [each(points) for each in streams.features]
        own = slice(cells.starts[c], cells.starts[c + 1])
        parts: Any = tuple(
            Sums(each.rows, each.weight, [_dense(counts[:, own] @ F) for F in features])
            for each, counts in zip(sides.sums, histograms, strict=True)
        )
        values = statistics_of(replace(sides, sums=parts), streams, column)
        fused = fuse(values, streams.choice.plan).whole
        evidence.append(fused)
        single = len(streams.choice.kernels) == 1
        effects.append(float(values.statistics[0, 0]) if single else float(fused[0]))
    T = np.stack(evidence, axis=1)
    single, adjusted = nulls.column_pvalues(T[0], T[1:]), nulls.step_down(T[0], T[1:])
    return tuple(map(ColumnResult, names, effects, single.tolist(), adjusted.tolist()))


def _dense(table: Any) -> Float[np.ndarray, "S p"]:
    return table.toarray() if hasattr(table, "toarray") else table

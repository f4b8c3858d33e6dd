"""The two-sample test in one place: fit an ensemble, sum features over bins, draw contrasts, fuse.

Rows in memory are pooled and all of them fit the features; of any number of rows a sample does, and one pass
brings back the sums. What is fitted never sees a label: that is what makes the test exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.ordering import sorted_rows
from kembed.core.text import listing
from kembed.features import fused_ensemble
from kembed.features.bayes_factor import SCALES, bayes_factor
from kembed.features.ensemble import Ensemble, merged, separate_plan
from kembed.features.kernel import AtPoints, kernel_member
from kembed.features.members import entries
from kembed.features.rows import LANDMARKS, Basis, Rows, Sample
from kembed.features.single import column_ensemble
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import make_space
from kembed.learning.kernel_words import choose_kernel, for_one_column, learned_scales
from kembed.permutation.bins import BINS, AnyBins, make_bins
from kembed.permutation.designs import Design, SeveralSamples, TwoSamples
from kembed.permutation.exchange import (
    Exchange,
    checked_unit,
    count_of_strata,
    notes_of_strata,
    number_strata,
    one_sided_strata,
    refuse_split,
    shared_strata,
)
from kembed.permutation.fusion import Values
from kembed.permutation.pool import Pool, row_weights
from kembed.permutation.sums import (
    BinSums,
    Layout,
    member_statistics,
    pooled,
    stored,
    sum_features,
    take_column,
    take_sample,
)
from kembed.tables.source import Source, in_memory
from kembed.testing import dense
from kembed.testing.outcome import TestOutcome, column_evidence, resampled_outcome
from kembed.testing.procedure import Procedure, is_by_features

# Rows that features are fitted on beyond memory, about: one in so many, at least and at most; and landmarks,
# one for so many of those. Of 8,192 rows 2,048 with 128 landmarks have no less power than 4,096 with 256, and
# take 6 tenths of the time: `python -m benchmarks.binned fitted`.
SHARE, FEWEST, MOST = 4, 2_048, 4_096
ROWS_A_LANDMARK, FEWEST_LANDMARKS, MOST_LANDMARKS = 16, 128, 256
# A statistic is a square of differences: what rounding leaves of it is this much of that of an entry.
ROUNDING = 1e-12
LEAST = 2  # bins of a sample: with fewer nothing can change sides


class Fitted(NamedTuple):
    """An ensemble, and the size of an entry of every kernel, which rounding is measured by."""

    ensemble: Ensemble
    entries: Float[np.ndarray, " J"]


def choose_ensemble(kernel: Any, sample: Sample, rng: np.random.Generator) -> Ensemble:
    """The members that `kernel` stands for on these rows, a function of the unordered rows alone."""
    if isinstance(kernel, list | tuple):
        if not kernel:
            raise ValueError("kernel is an empty list; give at least one kernel")
        return merged([choose_ensemble(one, sample, rng) for one in kernel])
    if isinstance(kernel, str) and kernel == "fused":
        return fused_ensemble(sample)
    if isinstance(kernel, str) and kernel == "bkl":
        lengthscale, evidence = learned_scales(sample.space)
        kernels = tuple(space_kernel(sample.space, scale * lengthscale) for scale in SCALES)
        learned, factor = (evidence,) if evidence else (), bayes_factor(sample, lengthscale)
        plan = separate_plan(len(SCALES))._replace(averaged=True)
        return Ensemble((factor,), kernels, plan, learned, statistic="log Bayes factor")
    return single_ensemble(kernel, sample, rng)


def single_ensemble(kernel: Any, sample: Sample, rng: np.random.Generator) -> Ensemble:
    """One kernel by features at landmarks, for the biased statistic."""
    chosen, learned = choose_kernel(kernel, sample.space)
    member = kernel_member(chosen, sample.values, rng)
    return Ensemble((member,), (chosen,), separate_plan(1), (learned,) if learned else ())


def basis_of(ensemble: Ensemble, sample: Sample) -> Basis | None:
    """What the feature maps need of the sample; None where all of them work on values alone."""
    return None if all(isinstance(each, AtPoints) for each in ensemble.maps) else sample.fitted()


@dataclass(frozen=True, eq=False)
class OnColumn:
    """A feature map of one column."""

    features: Any
    column: int
    basis: Basis | None

    def __call__(self, rows: Rows) -> Any:
        """Of these rows."""
        return self.features(Rows(self.basis, rows.values[:, [self.column]], rows.index))


def choose_columns(kernel: Any, sample: Sample, rng: np.random.Generator) -> list[Ensemble]:
    """The members of the tests of single columns."""
    if isinstance(kernel, str) and kernel == "fused":
        return [column_ensemble(sample, c) for c in range(len(sample.names))]
    found = []
    for c, name in enumerate(sample.names):
        space = make_space(np.sort(sample.values[:, [c]], axis=0), sample.categorical[[c]])
        column = Sample(space, (name,), points=sample.points, complete=False)
        own = choose_ensemble(for_one_column(kernel, name), column, rng)
        basis = basis_of(own, column)
        on_column = {each: OnColumn(each, c, basis) for each in own.maps}
        members = tuple(replace(each, features=on_column[each.features]) for each in own.members)
        found.append(own._replace(members=members))
    return found


def evaluate(ensemble: Ensemble, sizes: Float[np.ndarray, " J"], sums: BinSums, draws: Any) -> Values:
    """The statistics of an ensemble for the data and every resample; `sizes` are those of kernel entries."""
    values = Values(member_statistics(ensemble.members, sums, draws), sizes)
    if ensemble.fused:
        return values.merged(True)
    same = Values(values.statistics, ROUNDING * sizes).merged(False)
    return Values(same.statistics, sizes)


def choose_all(
    kernel: Any, sample: Sample, rng: np.random.Generator, by_column: bool
) -> tuple[Fitted, list[Fitted] | None]:
    """The members of the test of all columns, and of those of single ones."""
    ensembles = [choose_ensemble(kernel, sample, rng)]
    ensembles += choose_columns(kernel, sample, rng) if by_column else []
    whole, *columns = (Fitted(each, entries(each.members, sample)) for each in ensembles)
    return whole, columns if by_column else None


def maps_of(fitted: Sequence[Fitted]) -> tuple[Any, ...]:
    """The feature maps of several ensembles, each once."""
    return tuple(dict.fromkeys(each for part in fitted for each in part.ensemble.maps))


def fitted_test(
    fitted: Fitted,
    columns: list[Fitted] | None,
    names: tuple[str, ...],
    sums: BinSums,
    design: Design,
    procedure: Procedure,
    sizes: tuple[int, ...],
) -> TestOutcome:
    """The test of an ensemble, and of single columns on the same draws."""
    draws, ensemble = design.draw(sums.weight, procedure.n_resamples, procedure.rng), fitted.ensemble
    values = evaluate(*fitted, sums, draws)
    by_column = None
    if columns is not None:
        own = [evaluate(*each, sums, draws) for each in columns]
        by_column = column_evidence(names, [each.ensemble for each in columns], own)
    name = ensemble.statistic or ("MMD²" if ensemble.fused else "biased MMD²")
    return resampled_outcome(name, sizes, ensemble, values, procedure.null, draws.enumerated, by_column)


def tables_test(
    parts: Exchange, weights: Any, kernel: Any, procedure: Procedure, *, by_column: bool = False
) -> TestOutcome:
    """The test of tables in memory, of rows, clusters or strata, by features that a sample of rows fits."""
    tables, key = parts.tables, int(procedure.rng.integers(2**62))
    sizes = tuple(len(table.values) for table in tables)
    bins = make_bins(sizes, key, parts.clusters, parts.strata)
    _refuse_few(bins, [table.label for table in tables], "clusters")
    sources = [in_memory(table) for table in tables]
    layout = Layout(tuple(range(len(tables[0].names))))
    if weights is not None:
        own = row_weights(weights, tables)
        layout = Layout(layout.variables, len(tables[0].names))
        sources = [
            replace(source, values=np.column_stack([source.values, weight]))
            for source, weight in zip(sources, own, strict=True)
        ]
    return _test_bins(tuple(sources), bins, layout, kernel, procedure, by_column)


def over_all_pairs(pool: Pool, kernel: Any, procedure: Procedure) -> bool:
    """Whether the test is of kernel matrices."""
    return not is_by_features(kernel, procedure.statistic) and procedure.complete(pool.size)


def pool_test(pool: Pool, kernel: Any, procedure: Procedure, *, by_column: bool = False) -> TestOutcome:
    """The test of pooled rows in memory, of rows, clusters or strata."""
    bins = pool.size if over_all_pairs(pool, kernel, procedure) else BINS  # of a matrix they need not be few
    numbers, key = np.unique(pool.labels)[::-1], int(procedure.rng.integers(2**62))
    parts = [np.flatnonzero(pool.labels == number) for number in numbers]
    clusters = parts if pool.units is None else [pool.units[part] for part in parts]
    strata = None if pool.strata is None else [pool.strata[part] for part in parts]
    made = make_bins(tuple(map(len, parts)), key, clusters, strata, bins=bins)
    own, counts = np.empty(pool.size, dtype=int), [each.count for each in made]
    for part, each, start in zip(parts, made, np.cumsum([0, *counts[:-1]]), strict=True):
        own[part] = start + each.of(0, len(part))[0]
    design = _exchanged(numbers, made)
    result = design_test(pool, own, sum(counts), design, kernel, procedure, by_column=by_column)
    movable = tuple(each.movable for each in made)
    if len(parts) > 2 or pool.labels.sum() != pool.sizes[0]:  # not in the order of the samples
        movable = movable[::-1]
    return result if sum(movable) == pool.size else replace(result, bins=movable)


def design_test(
    pool: Pool,
    own: Int[np.ndarray, " N"],
    count: int,
    design: Design,
    kernel: Any,
    procedure: Procedure,
    *,
    by_column: bool = False,
) -> TestOutcome:
    """The test of pooled rows in memory, the bin of each of them given, under any design."""
    if over_all_pairs(pool, kernel, procedure):
        return dense.design_test(pool, own, count, design, kernel, procedure, by_column)
    points = min(MOST_LANDMARKS, max(LANDMARKS, pool.size // ROWS_A_LANDMARK))
    sample = Sample(pool.space, pool.names, points=points)
    fitted = choose_all(kernel, sample, procedure.rng, by_column)
    sums = pooled(sample, own, count, pool.weights)
    return fitted_test(*fitted, sample.names, sums, design, procedure, pool.sizes)


def sources_test(
    sources: tuple[Source, ...],
    kernel: Any,
    procedure: Procedure,
    *,
    by_column: bool = False,
    unit: Any = None,
    strata: str | None = None,
) -> TestOutcome:
    """The test of two or more sources of the same columns, of any number of rows.

    `unit` is the name of a column whose equal entries move together, or a number of consecutive rows that do;
    labels are exchanged within the `strata` of a column.
    """
    rng, schema = procedure.rng, sources[0].schema
    unit = None if unit is None else checked_unit(unit, schema.names)
    for value, argument in ((unit, "unit"), (strata, "strata")):
        if isinstance(value, tuple | list):
            seen = f"{argument} is a pair of arrays, but the rows of files come block by block"
            raise ValueError(f"{seen}; name a column of both samples, or read them into memory")
    if strata is not None and strata not in schema.names:
        seen = f"strata={strata!r} is not a column; the samples have {listing(schema.names)}"
        raise ValueError(f"{seen}; name one of them")
    places = {each: schema.names.index(each) for each in (unit, strata) if isinstance(each, str)}
    layout = Layout(tuple(c for c in range(len(schema.names)) if c not in places.values()))
    sizes, key = tuple(source.size for source in sources), int(rng.integers(2**62))
    clusters: Any = None
    if isinstance(unit, str):
        columns = [source.fold(take_column, places[unit]).table for source in sources]
        clusters = [np.unique(column, return_inverse=True)[1].ravel() for column in columns]
    elif strata is not None:
        clusters = [np.arange(size) for size in sizes]
        if unit is not None:
            clusters = [np.where(rows < len(rows) // unit * unit, rows // unit, -1) for rows in clusters]
    notes: tuple[str, ...] = ()
    groups, within = None, ""
    if strata is not None:
        place = places[strata]
        columns = [source.fold(take_column, place).table for source in sources]
        groups, names = number_strata(columns, schema.levels[place] if schema.categorical[place] else None)
        refuse_split(clusters, groups, names)
        notes = notes_of_strata(one_sided_strata(groups, names))
        within = count_of_strata(len(shared_strata(groups)), strata)
    bins = make_bins(sizes, key, clusters, groups, unit=unit if isinstance(unit, int) else 1)
    _refuse_few(bins, [source.label for source in sources], "rows" if unit is None else f"unit={unit!r}")
    result = _test_bins(sources, bins, layout, kernel, procedure, by_column)
    return replace(result, notes=notes, within=within)


def _test_bins(
    sources: tuple[Source, ...],
    bins: tuple[AnyBins, ...],
    layout: Layout,
    kernel: Any,
    procedure: Procedure,
    by_column: bool,
) -> TestOutcome:
    """The test of samples whose rows are in bins: a pass for the rows that fit the features, one for sums."""
    sample = _sample(sources, bins, layout)
    fitted, columns = choose_all(kernel, sample, procedure.rng, by_column)
    maps = maps_of([fitted, *(columns or ())])
    basis = sample.fitted()
    parts = [
        source.fold(sum_features, layout, own, basis, maps) for source, own in zip(sources, bins, strict=True)
    ]
    totals = [
        np.concatenate([[part.rows], *(table.sum(axis=0) for table in part.features)]) for part in parts
    ]
    order = sorted(range(len(parts)), key=lambda k: totals[k].tolist())  # the same for swapped samples
    sums = stored([parts[k] for k in order], maps)
    numbers = np.array([1.0, 0.0]) if len(parts) == 2 else np.arange(len(parts))
    design = _exchanged(numbers, [bins[k] for k in order])
    sizes = tuple(part.rows for part in parts)
    result = fitted_test(fitted, columns, sample.names, sums, design, procedure, sizes)
    return replace(result, bins=tuple(own.movable for own in bins))


def _exchanged(numbers: Any, bins: Sequence[AnyBins]) -> Design:
    """Labels of the bins of two samples or more are exchanged; these are their numbers."""
    labels = np.repeat(numbers, [own.count for own in bins])
    classes, strata = (np.concatenate([getattr(own, name) for own in bins]) for name in ("classes", "strata"))
    if len(bins) == 2:
        return TwoSamples(labels, classes, strata)
    return SeveralSamples(labels.astype(int), classes, strata)


def _refuse_few(bins: tuple[AnyBins, ...], labels: list[str], unit: str) -> None:
    """Refuse samples of which nothing can change sides."""
    for own, label in zip(bins, labels, strict=True):
        if own.movable < LEAST:
            seen = f"only {own.movable} units ({unit}) of {label} could change samples"
            raise ValueError(f"{seen}; give more rows, smaller units or coarser strata")


def _sample(sources: tuple[Source, ...], bins: tuple[AnyBins, ...], layout: Layout) -> Sample:
    """A sample that holds as many units of every bin."""
    rows = sum(own.rows_each for own in bins)
    size = sum(source.size for source in sources)
    each = max(1, -(-min(MOST, max(FEWEST, size // SHARE)) // rows))
    parts = [s.fold(take_sample, layout, own, each).table for s, own in zip(sources, bins, strict=True)]
    variables, schema = list(layout.variables), sources[0].schema
    names = tuple(schema.names[c] for c in variables)
    return sample_of(np.concatenate(parts), schema.discrete[variables], names)


def sample_of(
    values: Float[np.ndarray, "N D"], discrete: Bool[np.ndarray, " D"], names: tuple[str, ...]
) -> Sample:
    """Some of the rows of a test as the sample that features are fitted on."""
    space = make_space(sorted_rows(values), discrete)
    points = min(MOST_LANDMARKS, max(FEWEST_LANDMARKS, len(values) // ROWS_A_LANDMARK))
    return Sample(space, names, points=points, complete=False)

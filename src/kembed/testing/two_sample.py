"""Do two samples come from one distribution? `mmd_test`.

Validate, pool, choose the kernel from the pooled and unordered rows, compute the statistic for the data and
for every relabeling, compare. The kernel never sees the labels: that is what makes the test exact.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.progress import showing_progress
from kembed.core.text import listing
from kembed.core.threads import few_rows_one_thread
from kembed.kernels.space import make_space
from kembed.permutation import nulls, statistics
from kembed.permutation.blocks import Blocks
from kembed.permutation.counts import Leaves
from kembed.permutation.fusion import Values, fuse, in_places
from kembed.permutation.labelings import (
    Labelings,
    arrangements,
    column_sums,
    draw_labelings,
    draw_swaps,
    draw_within,
    label_forms,
)
from kembed.permutation.low_rank import computed, joined, pair_sums, with_low_rank
from kembed.permutation.pool import Pool, make_pool, row_weights
from kembed.permutation.units import (
    STRATA,
    UNIT,
    WEIGHT,
    Exchange,
    beside,
    exchange,
    unit_codes,
    with_column,
)
from kembed.tables import diagnostics
from kembed.tables.reader import MissingValuesError, read, tables_of
from kembed.tables.source import Source, in_memory
from kembed.tables.table import Table, Tables
from kembed.testing import outcome
from kembed.testing.choice import choose
from kembed.testing.kernel_words import for_one_column
from kembed.testing.members.single import single_column
from kembed.testing.outcome import (
    ColumnEvidence,
    ColumnResults,
    TestOutcome,
    approximate_outcome,
    resampled_outcome,
)
from kembed.testing.procedure import QUIETLY, Choice, Procedure, is_sketch, read_procedure
from kembed.testing.wild import hidden_notes, persistence_of

FEW_ARRANGEMENTS = 20  # fewer cannot reach p = .05
DIAGNOSED = 5_000  # rows of a sample larger than memory that diagnostics look at


@few_rows_one_thread
def mmd_test(
    x: Any,
    y: Any,
    *,
    kernel: Any = "fused",
    statistic: str = "auto",
    null: str = "permutation",
    n_resamples: int = 999,
    unit: Any = None,
    strata: Any = None,
    weights: tuple[Any, Any] | None = None,
    paired: bool = False,
    by_column: bool = False,
    memory: float | None = None,
    batch: int | None = None,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> TestOutcome:
    """Test whether two samples come from one distribution, by their maximum mean discrepancy.

    Parameters
    ----------
    x, y
        Samples, one row an observation: arrays, or data frames with the same columns. Text and categories are
        compared as equal or not. Or whatever is larger than memory: the path of a file, a list of paths, a
        pattern such as `"2024/*.parquet"`, a lazy polars frame, a Dask collection, a memmap. A `Sketch` may
        stand in place of either.
    kernel
        - `"fused"`: shifts, shapes at several scales, single columns and pairs of them, trees, neighbours and
          more in one test; the default;
        - `"bkl"`: one kernel learned from the pooled sample by `learn_kernel`; `"ard"`: with a lengthscale
          for each numeric column;
        - `"median"`: the median distance of columns divided by their spreads; `"median-raw"`: of columns as
          they are, which is what most packages compute;
        - a kernel object such as `Gaussian(2.0)` (in your units), a function (rows, rows) → matrix, or a list
          (or tuple) of any of these, which are fused.
    statistic
        `"unbiased"` or `"biased"` MMD² over all pairs of rows; `"features"`: the same members by features of
        a row, in time linear in the rows, with relabelings of whole bins of rows, exact as well; `"auto"`:
        pairs up to 5,000 rows in all, features beyond.
    null
        - `"permutation"`: exact at any sample size; every arrangement where there are few;
        - `"gamma"`, `"spectral"`: approximations without resampling, for one kernel;
        - `"wild"`: the wild bootstrap for time series, rows in order of time, with the biased statistic; its
          draws are as large as those of autoregressions that remember as long as the rows do.
    n_resamples
        How many relabelings.
    unit
        Clusters of rows that are not independent of each other (cluster permutation): the name of a column of
        both samples (a customer, a day), a pair of arrays with the cluster of every row, or a number of
        consecutive rows (time series). Labels of whole clusters are exchanged, whatever their sizes, which is
        exact if clusters are exchangeable.
    strata
        Exchange labels only among rows (or clusters) of the same stratum, and compare means within strata:
        the name of a column of both samples (a site, a weekday), which is not compared itself, or a pair of
        arrays. Differences between strata then count for nothing; the test is exact if rows are exchangeable
        within each.
    weights
        Weights of the rows of x and of y; each row keeps its weight when it changes sides. The level is exact
        if a row's weight does not depend on the sample it is in (survey weights); weights that carry one
        sample to the other's distribution are not of that kind.
    paired
        Row i of x and row i of y belong together: sides are swapped within pairs.
    by_column
        Also test each column by itself, with p-values corrected for the number of columns.
    memory
        Over how many steps the weights of `null="wild"` forget; None: chosen from the correlation of every
        row with the one before it.
    batch
        How many rows (diagonals) of the kernel matrix to hold at once; by default what fits 256 MiB.
    rng
        Seed or generator of the resampling; None is fresh entropy.
    nan_policy
        `"raise"`; `"include"` (compare missing values too: numbers get a fill drawn from the pooled values
        and an indicator column `"<name> (missing)"`, categories a level "missing"; the test stays exact);
        `"omit"` (drop rows with missing values); or `"propagate"` (return nan).
    progress
        Whether to show a progress bar for passes of more than about a second; None: on a terminal only.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import mmd_test
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(100, 2)), rng.normal(size=(80, 2))
    >>> y[:, 1] = 0.7 * y[:, 0] + 0.7 * y[:, 1]  # same margins, but correlated
    >>> result = mmd_test(x, y, rng=0)
    >>> print(result.pvalue < 0.01)
    True

    """
    procedure = read_procedure(statistic, null, n_resamples, memory, batch, rng)
    for flag, name in ((paired, "paired"), (by_column, "by_column")):
        checks.flag(flag, name)
    _check_combination(null, paired, weights, by_column, unit, strata)
    if is_sketch(x) or is_sketch(y):
        from kembed.testing.against import sketch_test

        _refuse_for_sketches(paired, weights, unit, strata)
        for sketch in (each for each in (x, y) if by_column and is_sketch(each)):
            if len(sketch.columns) > 1:
                for_one_column(sketch.lens.kernel, sketch.columns[0])
        with showing_progress(progress), np.errstate(**QUIETLY):
            return sketch_test(x, y, kernel, procedure, by_column=by_column, nan_policy=nan_policy)
    with showing_progress(progress), np.errstate(**QUIETLY):
        how: Any = {"minimum": 2, "keep": [each for each in (unit, strata) if isinstance(each, str)]}
        try:
            sources = read({"x": x, "y": y}, nan_policy=nan_policy, **how)
        except MissingValuesError as error:
            return outcome.nothing("MMD²", null, error.sizes)
        if (
            not all(one.held for one in sources)
            and not paired
            and weights is None
            and procedure.in_bins(1 << 62)
        ):
            return _larger_than_memory(sources, kernel, procedure, by_column, unit, strata)
        tables = tables_of(sources, paired, 2)
        ordered = null == "wild" or unit is not None
        notes = diagnostics.of_two_samples(*tables, ordered=ordered, paired=paired)
        parts = exchange(tables, unit, strata)
        notes += exchange_notes(parts)
        if procedure.in_bins(sum(len(table.values) for table in tables)):
            found = _in_bins(tables, kernel, procedure, paired, by_column, unit, weights, parts)
            return replace(found, notes=notes)
        tables = parts.tables
        order = "time" if null == "wild" else "pairs" if paired else "none"
        pool = make_pool(tables, weights, order, parts.clusters, parts.strata)
        if null == "permutation" and not paired:
            return replace(_permuted(pool, kernel, procedure, by_column), notes=notes)
        choice = choose(kernel, pool.space, procedure, names=pool.names)
        if procedure.approximate:
            return replace(_approximate(pool, choice, procedure), notes=notes)
        result = _signed(pool, choice, procedure, paired, [table.label for table in tables])
        return replace(result, notes=(*notes, *result.notes))


def test_pool(
    tables: Tables,
    pool: Pool,
    *,
    kernel: Any,
    n_resamples: int,
    by_column: bool,
    rng: Any,
    unit: Any,
    parts: Exchange | None,
) -> TestOutcome:
    """The permutation test of two tables that are read and pooled already; arguments as for `mmd_test`.

    With `unit` or strata the pool has those of its rows, and the tables are those before they were split off.
    """
    procedure = read_procedure("auto", "permutation", n_resamples, None, None, rng)
    with np.errstate(**QUIETLY):
        if procedure.in_bins(pool.size):
            return _in_bins(list(tables), kernel, procedure, False, by_column, unit, None, parts)
        return _permuted(pool, kernel, procedure, by_column)


def test_sources(
    sources: tuple[Source, Source],
    *,
    kernel: Any,
    n_resamples: int,
    by_column: bool,
    rng: Any,
    unit: Any,
    strata: Any,
) -> TestOutcome:
    """The permutation test of two sources of any number of rows; arguments as for `mmd_test`."""
    from kembed.testing.binned import binned_test

    procedure = read_procedure("features", "permutation", n_resamples, None, None, rng)
    kernel = for_one_column(kernel, sources[0].schema.names[0]) if by_column else kernel
    with np.errstate(**QUIETLY):
        return binned_test(sources, kernel, procedure, by_column=by_column, unit=unit, strata=strata)


def _larger_than_memory(
    sources: list[Source], kernel: Any, procedure: Procedure, by_column: bool, unit: Any, strata: Any
) -> TestOutcome:
    """The test by features of rows that stay where they are; diagnostics are of some of them."""
    from kembed.testing.binned import binned_test

    first, second = sources
    kernel = for_one_column(kernel, first.schema.names[0]) if by_column else kernel
    result = binned_test((first, second), kernel, procedure, by_column=by_column, unit=unit, strata=strata)
    x, y = (source.sample(DIAGNOSED)[0] for source in sources)
    return replace(result, notes=diagnostics.of_two_samples(x, y, ordered=unit is not None))


def _in_bins(
    tables: list[Table],
    kernel: Any,
    procedure: Procedure,
    paired: bool,
    by_column: bool,
    unit: Any,
    weights: Any,
    parts: Exchange | None,
) -> TestOutcome:
    """The test by features, on tables that are in memory."""
    from kembed.testing.binned import binned_pairs, binned_test

    if paired:
        return binned_pairs(in_memory(beside(tables)), kernel, procedure)
    strata = None
    if isinstance(unit, tuple | list):
        tables, unit = with_column(tables, UNIT, unit_codes(tables, unit)), UNIT
    if parts is not None and parts.strata is not None:
        codes, variables = parts.strata, {*parts.tables[0].names, unit}
        kept = [d for d, name in enumerate(tables[0].names) if name in variables]
        tables = [table.columns(kept) for table in tables]
        tables, strata = with_column(tables, STRATA, codes), STRATA
    if weights is not None:
        tables = with_column(tables, WEIGHT, row_weights(weights, tables))
    if by_column:
        kernel = for_one_column(kernel, tables[0].names[0]) if len(tables[0].names) > 1 else kernel
    first, second = map(in_memory, tables)
    return binned_test(
        (first, second),
        kernel,
        procedure,
        by_column=by_column,
        unit=unit,
        strata=strata,
        weighted=weights is not None,
    )


def _check_combination(
    null: str, paired: bool, weights: Any, by_column: bool, unit: Any, strata: Any
) -> None:
    """Refuse what does not go together, and say what does."""
    for given, name in (
        (weights is not None, "weights"),
        (by_column, "by_column"),
        (unit is not None, "unit"),
        (strata is not None, "strata"),
    ):
        if given and (paired or null != "permutation"):
            seen = f"{name} goes with null='permutation' and unpaired samples"
            option = f" (--{name.replace('_', '-')}, --null, --paired)"
            raise ValueError(f"{seen}; leave {name} out or change those{option}")
    if paired and null not in ("permutation", "wild"):
        seen = "paired=True goes with null='permutation' (swaps within pairs) or 'wild'"
        raise ValueError(f"{seen}; change null, or leave paired out")


def exchange_notes(parts: Exchange) -> tuple[str, ...]:
    """What to know of clusters and strata: those left out, and exchanges too few for a small p-value."""
    notes: tuple[str, ...] = ()
    if parts.alone:
        many = "stratum has" if len(parts.alone) == 1 else "strata have"
        seen = f"{len(parts.alone)} {many} rows of one sample only"
        notes += (f"{seen} and count for nothing: {listing(parts.alone)}",)
    if parts.clusters is None and parts.strata is None:
        return notes
    labels = np.repeat([1.0, 0.0], [len(table.values) for table in parts.tables])
    strata = np.zeros(len(labels), dtype=int) if parts.strata is None else np.concatenate(parts.strata)
    if parts.clusters is not None:
        labels, strata, _ = _of_clusters(labels, np.concatenate(parts.clusters), strata)
    count = arrangements(labels, strata)
    if count < FEW_ARRANGEMENTS:
        what = "rows" if parts.clusters is None else "clusters"
        seen = f"labels of {what} can be exchanged in {count:.0f} ways only"
        notes += (f"{seen}, so that p cannot be below {1.0 / count:.2g}",)
    return notes


def _refuse_for_sketches(paired: bool, weights: Any, unit: Any, strata: Any) -> None:
    """A sketch has sums, and no rows to pair, to weigh or to keep together."""
    given = {"paired": paired, "weights": weights is not None, "unit": unit is not None}
    given["strata"] = strata is not None
    for name in (name for name, there in given.items() if there):
        raise ValueError(f"{name} needs the rows of both samples, and a sketch has none; leave {name} out")


def _permuted(pool: Pool, kernel: Any, procedure: Procedure, by_column: bool) -> TestOutcome:
    """MMD² for the data and random relabelings, of all columns together and each by itself."""
    choice = choose(kernel, pool.space, procedure, names=pool.names)
    labelings, enumerated = draw_exchanges(pool, procedure.n_resamples, procedure.rng)
    values = mmd_values(pool, choice, labelings, procedure)
    columns = _by_column(pool, kernel, labelings, procedure) if by_column else None
    name = "MMD²" if pool.units is None and pool.strata is None else "biased MMD²"
    return resampled_outcome(name, pool.sizes, choice, values, "permutation", enumerated, columns)


def draw_exchanges(pool: Pool, n_resamples: int, rng: np.random.Generator) -> tuple[Labelings, bool]:
    """Labels of rows, or of whole clusters, exchanged within strata; and whether these are all ways."""
    if pool.units is None and pool.strata is None:
        return draw_labelings(pool.labels, n_resamples, rng)
    strata = np.zeros(pool.size, dtype=int) if pool.strata is None else pool.strata
    if pool.units is None:
        return draw_within(pool.labels, strata, n_resamples, rng)
    labels, groups, cluster = _of_clusters(pool.labels, pool.units, strata)
    found, enumerated = draw_within(labels, groups, n_resamples, rng)
    columns = found.written_out[cluster]
    fixed = pool.units < 0  # rows of both samples
    columns[fixed] = pool.labels[fixed, None]
    return Labelings(pool.labels, None, columns), enumerated


def _of_clusters(labels: Any, clusters: Any, strata: Any) -> tuple[Any, Any, Any]:
    """Label and stratum of every cluster (-1: it keeps its label), and the cluster of every row."""
    numbers, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    return labels[first], np.where(numbers < 0, -1, strata[first]), cluster.ravel()


def contrast_values(choice: Choice, W: Any, procedure: Procedure) -> Values:
    """w'Kw of every kernel and every column w of weights of the rows: the biased statistic."""
    parts = []
    for member in map(computed, choice.members):
        found = column_sums(member, W, procedure.batch)
        quadratic = np.concatenate([np.atleast_2d(each) for each, _ in found])
        diagonal = np.concatenate([np.atleast_2d(sums.diagonal) for _, sums in found])
        entry = np.concatenate([np.atleast_1d(sums.usual) for _, sums in found])
        values = (quadratic + diagonal @ W**2).T
        parts.append(Values(values, entry).settled(isinstance(member, Blocks | Leaves)))
    return in_places(parts, list(range(len(choice.kernels))))


def mmd_values(pool: Pool, choice: Choice, labelings: Labelings, procedure: Procedure) -> Values:
    """MMD² of every kernel for the data (first row) and every relabeling."""
    if pool.units is not None or pool.strata is not None:
        strata = np.zeros(pool.size, dtype=int) if pool.strata is None else pool.strata
        weights = np.ones(pool.size) if pool.weights is None else pool.weights
        W = statistics.contrasts(labelings.written_out, weights, strata)
        return contrast_values(choice, W * weights[:, None], procedure)
    typical = 1.0 if pool.weights is None else float(np.mean(pool.weights)) ** 2
    parts, places = [], []
    members, home = joined(choice.members)
    for member, where in with_low_rank(members):
        forms = list(label_forms(member, labelings, pool.weights, procedure.batch))
        values = [np.atleast_2d(statistics.mmd2(each, biased=procedure.biased)) for each in forms]
        entry = [np.atleast_1d(each.sums.usual / typical) for each in forms]
        both = Values(np.concatenate(values).T, np.concatenate(entry))
        parts.append(both.settled(isinstance(member, Blocks | Leaves)))
        places += [home[place] for place in where]
    return in_places(parts, places)


def _signed(pool: Pool, choice: Choice, procedure: Procedure, paired: bool, labels: list[str]) -> TestOutcome:
    """MMD² for the data and for rows whose sides are swapped, or weighted by a wild process."""
    (n, m), wild, enumerated = pool.sizes, procedure.null == "wild", False
    notes: tuple[str, ...] = ()
    if wild:  # the weights 1/n and -1/m of the data, then times wild processes; one for the rows of a pair
        series = persistence_of(pool, choice, paired)
        notes, columns = hidden_notes(series, labels), procedure.wild_columns([n, m][: len(series)], series)
        W = np.concatenate([columns[0] / n, columns[-1] / -m])
    else:
        swaps, enumerated = draw_swaps(pool.signs, procedure.n_resamples, procedure.rng)
        W = np.concatenate([swaps, -swaps])
    name = "biased MMD²" if wild else "MMD²"
    if procedure.biased:
        both = contrast_values(choice, W if wild else W / n, procedure)
    else:
        parts = []
        for member in map(computed, choice.members):
            found = column_sums(member, W, procedure.batch)
            quadratic = np.concatenate([np.atleast_2d(each) for each, _ in found])
            values = (quadratic + 2.0 * pair_sums(member)[:, None]) / (n * (n - 1.0))
            entry = np.concatenate([np.atleast_1d(sums.usual) for _, sums in found])
            parts.append(Values(values.T, entry).settled(isinstance(member, Blocks | Leaves)))
        both = in_places(parts, list(range(len(choice.kernels))))
    return replace(resampled_outcome(name, pool.sizes, choice, both, procedure.null, enumerated), notes=notes)


def _approximate(pool: Pool, choice: Choice, procedure: Procedure) -> TestOutcome:
    """Gamma or spectral null: (1/n + 1/m) Σ λ_l z_l², the eigenvalues of the centred matrix over N."""
    labelings = Labelings(pool.labels, None, pool.labels[:, None])
    kernel, (n, m) = choice.one, pool.sizes
    (forms,) = label_forms(kernel, labelings, None, procedure.batch)
    value = float(statistics.mmd2(forms, biased=procedure.biased)[0])
    trace, squares = statistics.centred_moments(forms.sums)
    factor = 1.0 / n + 1.0 / m
    moments = factor * trace / pool.size, 2.0 * (factor / pool.size) ** 2 * squares
    null = value, moments, lambda: factor * nulls.spectrum(kernel, procedure.rng)
    return approximate_outcome("MMD²", pool.sizes, choice, procedure, *null)


def _by_column(pool: Pool, kernel: Any, labelings: Labelings, procedure: Procedure) -> ColumnEvidence:
    """Every column individually on the same relabelings."""
    evidence, effects = [], []
    for c, name in enumerate(pool.names):
        space = make_space(pool.space.values[:, [c]], pool.space.categorical[[c]])
        if isinstance(kernel, str) and kernel == "fused":
            choice = single_column(name, space.values[:, 0], bool(space.categorical[0]))
        else:
            choice = choose(for_one_column(kernel, name), space, procedure, names=(name,))
        values = mmd_values(replace(pool, space=space), choice, labelings, procedure)
        fused = fuse(values, choice.plan).whole
        evidence.append(fused)
        effects.append(float(values.statistics[0, 0] if len(choice.kernels) == 1 else fused[0]))
    return ColumnEvidence(pool.names, tuple(effects), np.stack(evidence, axis=1))


def column_tests(tables: Tables, pool: Pool, n_resamples: int, rng: np.random.Generator) -> ColumnResults:
    """The fused permutation test of every column by itself."""
    procedure = read_procedure("auto", "permutation", n_resamples, None, None, rng)
    if procedure.in_bins(pool.size):
        return _in_bins(list(tables), "fused", procedure, False, True, None, None, None).columns or ()
    labelings, _ = draw_labelings(pool.labels, n_resamples, rng)
    return _by_column(pool, "fused", labelings, procedure).results()

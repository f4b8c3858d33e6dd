"""Do two samples come from one distribution? `mmd_test`.

Validate, then hand over: rows in memory and the fused test to `engine`, single kernels over all pairs of rows
to `dense`, rows beyond memory to `engine`, sketches to `sketch`. The kernel never sees the labels: that is
what makes the test exact.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.progress import showing_progress
from kembed.core.threads import few_rows_one_thread
from kembed.core.writing import is_store
from kembed.learning.kernel_words import for_one_column
from kembed.permutation.bins import BINS
from kembed.permutation.designs import Given, SignedPairs, arrangements
from kembed.permutation.exchange import Exchange, exchange, notes_of_strata, one_sided_strata
from kembed.permutation.pool import Pool, make_pool
from kembed.permutation.series import hidden_notes, persistence_of
from kembed.tables import diagnostics
from kembed.tables.matching import matched
from kembed.tables.reader import MissingValuesError, read, tables_of
from kembed.tables.source import Source
from kembed.tables.table import Tables
from kembed.testing import dense, engine, outcome
from kembed.testing.effect import LEVEL, effect_data, effect_size
from kembed.testing.margin import Margin, decide, read_margin
from kembed.testing.outcome import ColumnResults, TestOutcome, resampled_outcome
from kembed.testing.procedure import (
    FEW_ARRANGEMENTS,
    QUIETLY,
    Procedure,
    is_fused,
    is_sketch,
    read_procedure,
)

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
    paired: bool | str = False,
    by_column: bool = False,
    margin: Any = None,
    dependence_length: float | None = None,
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
        stand in place of either, and so may the file of one, or of a `DriftDetector`.
    kernel
        - `"fused"`: shifts, shapes at several scales, single columns and pairs of them, trees, neighbours and
          more in one test; the default;
        - `"bkl"`: the Bayes factor for a difference, from Gaussians around the lengthscale that
          `learn_kernel` learns from the pooled sample; with `statistic="unbiased"` or `"biased"` the MMD² of
          the learned kernel alone; `"ard"`: the MMD² of a learned kernel with a lengthscale for each column;
        - `"median"`: the median distance of columns divided by their spreads; `"median-raw"`: of columns as
          they are, which is what most packages compute;
        - a kernel object such as `Gaussian(2.0)` (in your units), a function (rows, rows) → matrix, or a list
          (or tuple) of any of these, which are fused.
    statistic
        For single kernels: `"unbiased"` or `"biased"` MMD² over all pairs of rows, or `"features"`, the
        biased one by features at landmarks, in time linear in the rows; `"auto"` is `"unbiased"` up to 5,000
        rows in all and `"features"` beyond. `"fused"` and the Bayes factor always use features; beyond 5,000
        rows, or with `"features"`, they are fitted on a sample of the rows, and members that need all rows in
        memory (neighbours, repeated rows) are left out.
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
        arrays. Differences between strata are ignored; the test is exact if rows are exchangeable
        within each. Strata of one sample only are left out, and named in a note. Pairs must lie within
        strata, so that swapping their sides is within them anyway.
    weights
        Weights of the rows of x and of y; each row keeps its weight when it changes sides. The level is exact
        if a row's weight does not depend on the sample it is in (survey weights); weights that carry one
        sample to the other's distribution are not of that kind.
    paired
        Row i of x and row i of y belong together: sides are swapped within pairs. Or the name of a column of
        both samples (a patient, a customer): rows with the same value belong together, those without a
        partner are left out, and the column is not compared.
    by_column
        Also test each column by itself, with p-values corrected for the number of columns.
    margin
        Also decide whether the difference is larger than matters: `"0.1 sd"`, the MMD that shifting every
        numeric column of the pooled sample by .1 standard deviations would cause; `"2%"`, that of replacing
        2% of the rows by copies of one row far from all others; or a number, an MMD/√2 between 0 and 1. The
        result has the `effect` size with its interval, and `margin.verdict`: "different" (beyond the
        margin), "equivalent" (within it) or "undecided", with the rows that would decide. The kernel of this
        MMD is a Gaussian at the median distance, whatever `kernel` is, so that days and tables compare.
    dependence_length
        Over how many steps the weights of `null="wild"` forget; None: chosen from the correlation of every
        row with the one before it.
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
    procedure = read_procedure(statistic, null, n_resamples, dependence_length, rng)
    key = paired if isinstance(paired, str) else None
    for flag, name in ((paired if key is None else True, "paired"), (by_column, "by_column")):
        checks.flag(flag, name)
    if margin is not None:
        margin = read_margin(margin)
        if null == "wild":
            seen = "margin needs independent rows or clusters, but null='wild' is for time series"
            raise ValueError(f"{seen}; give unit=, a number of consecutive rows, or leave margin out")
    with showing_progress(progress), np.errstate(**QUIETLY):
        x, y = opened(x), opened(y)
        if is_sketch(x) or is_sketch(y):
            from kembed.testing.sketch import sketch_test

            refuse_for_sketches(bool(paired), weights, unit, strata, margin)
            return sketch_test(x, y, kernel, procedure, by_column=by_column, nan_policy=nan_policy)
        keep = [each for each in (unit, strata, key) if isinstance(each, str)]
        try:
            sources = read({"x": x, "y": y}, nan_policy=nan_policy, minimum=2, keep=keep)
        except MissingValuesError as error:
            return outcome.nothing("MMD²", null, error.sizes)
        if key is not None:
            sources = list(matched(sources, key))
        how: Any = {"weights": weights, "unit": unit, "strata": strata, "paired": bool(paired)}
        result = samples_test(sources, kernel, procedure, by_column=by_column, **how)
        return result if margin is None else with_margin(result, sources, margin, **how)


def with_margin(
    result: TestOutcome,
    sources: Sequence[Source],
    margin: Margin | None,
    level: float = LEVEL,
    **how: Any,
) -> TestOutcome:
    """The result with its effect size, and the verdict at a margin; `how` as for `effect_data`."""
    if isinstance(how.get("paired"), str):
        sources, how["paired"] = list(matched(list(sources), how["paired"])), True
    data = effect_data(sources, **how)
    effect = effect_size(data, with_share=False)
    decided = None if margin is None else decide(margin, data, effect, result.pvalue, level)
    return replace(result, effect=effect, margin=decided)


def samples_test(
    sources: list[Source],
    kernel: Any,
    procedure: Procedure,
    *,
    weights: Any = None,
    unit: Any = None,
    strata: Any = None,
    paired: bool = False,
    by_column: bool = False,
) -> TestOutcome:
    """The test of two samples that are read, with notes on their rows; arguments as for `mmd_test`."""
    _check_combination(procedure.null, paired, weights, by_column, unit, strata)
    in_memory = all(source.held for source in sources) or paired or weights is not None
    if not in_memory and procedure.streams:
        how: Any = {"by_column": by_column, "unit": unit, "strata": strata}
        result = engine.sources_test(tuple(sources), kernel, procedure, **how)
        keys = [each for each in (unit, strata) if isinstance(each, str)]
        compared = [c for c, name in enumerate(sources[0].schema.names) if name not in keys]
        drawn = (source.sample(DIAGNOSED)[0].columns(compared) for source in sources)
        notes = diagnostics.of_two_samples(*drawn, ordered=unit is not None)
        return replace(result, notes=(*result.notes, *notes))
    tables = tables_of(sources, paired, 2)
    ordered = procedure.null == "wild" or unit is not None
    parts = exchange(tables, unit, strata)
    notes = diagnostics.of_two_samples(*parts.tables, ordered=ordered, paired=paired)
    if paired:
        _refuse_split_pairs(parts)
    else:
        notes += exchange_notes(parts)
    if by_column and len(parts.tables[0].names) > 1:
        for_one_column(kernel, parts.tables[0].names[0])
    if procedure.null == "permutation" and not paired:
        result = exchange_test(parts, weights, kernel, procedure, by_column=by_column)
        return replace(result, notes=notes, within=parts.within)
    order = "time" if procedure.null == "wild" else "pairs" if paired else "none"
    pool = make_pool(parts.tables, weights, order)
    if procedure.approximate:
        return replace(dense.approximate_test(pool, kernel, procedure), notes=notes)
    if procedure.null == "wild":
        result = _wild(pool, kernel, procedure, paired, [table.label for table in tables])
    else:
        result = _paired(pool, kernel, procedure, by_column)
    return replace(result, notes=(*notes, *result.notes), within=parts.within)


def exchange_test(
    parts: Exchange, weights: Any, kernel: Any, procedure: Procedure, *, by_column: bool
) -> TestOutcome:
    """The permutation test of tables in memory; clusters and strata are those of `parts`."""
    rows = sum(len(table.values) for table in parts.tables)
    if not procedure.complete(rows):
        return engine.tables_test(parts, weights, kernel, procedure, by_column=by_column)
    pool = make_pool(parts.tables, weights, "none", parts.clusters, parts.strata)
    plain = len(parts.tables) == 2 and parts.clusters is None and parts.strata is None
    if plain and engine.over_all_pairs(pool, kernel, procedure):
        return dense.permutation_test(pool, kernel, procedure, by_column=by_column)
    return engine.pool_test(pool, kernel, procedure, by_column=by_column)


def _paired(pool: Pool, kernel: Any, procedure: Procedure, by_column: bool) -> TestOutcome:
    """Sides are swapped within pairs, or within bins of pairs where those are many."""
    n = pool.sizes[0]
    if engine.over_all_pairs(pool, kernel, procedure):
        return dense.paired_test(pool, kernel, procedure, by_column=by_column)
    each = max(1, n // BINS)
    own = (procedure.rng.permutation(n) if each > 1 else np.arange(n)) // each
    bins = int(own.max()) + 1
    signed = replace(pool, weights=np.concatenate([pool.signs, pool.signs]))
    places = np.concatenate([own, bins + own])
    result = engine.design_test(
        signed, places, 2 * bins, SignedPairs(bins, n), kernel, procedure, by_column=by_column
    )
    return result if bins == n else replace(result, bins=(bins,))


def _wild(pool: Pool, kernel: Any, procedure: Procedure, paired: bool, labels: list[str]) -> TestOutcome:
    """MMD² for the data and for rows weighted by a wild process; one process for the rows of a pair."""
    (n, m), fused = pool.sizes, is_fused(kernel)
    ensemble = None if fused else dense.choose_kernels(kernel, pool.space)
    series = persistence_of(pool, () if ensemble is None else ensemble.members, paired)
    columns = procedure.wild_columns([n, m][: len(series)], series)
    W = np.concatenate([columns[0] / n, columns[-1] / -m])
    if ensemble is None:
        result = engine.design_test(pool, np.arange(pool.size), pool.size, Given(W), kernel, procedure)
    else:
        values = dense.values_of(ensemble, lambda matrix: dense.contrast_form(matrix, W))
        result = resampled_outcome("biased MMD²", pool.sizes, ensemble, values, "wild", False)
    return replace(result, name="biased MMD²", notes=hidden_notes(series, labels))


def column_tests(tables: Tables, n_resamples: int, rng: np.random.Generator) -> ColumnResults:
    """The fused permutation test of every column individually."""
    procedure = read_procedure("auto", "permutation", n_resamples, None, rng)
    parts = exchange(list(tables), None, None)
    return exchange_test(parts, None, "fused", procedure, by_column=True).columns or ()


def _check_combination(
    null: str, paired: bool, weights: Any, by_column: bool, unit: Any, strata: Any
) -> None:
    """Refuse what does not go together, and say what does."""
    if by_column and null != "permutation":
        raise ValueError("by_column goes with null='permutation'; leave one out (--by-column, --null)")
    for given, name in ((weights, "weights"), (unit, "unit"), (strata, "strata")):
        if given is not None and ((paired and name != "strata") or null != "permutation"):
            seen = f"{name} goes with null='permutation' and unpaired samples"
            option = f" (--{name.replace('_', '-')}, --null, --paired)"
            raise ValueError(f"{seen}; leave {name} out or change those{option}")
    if paired and null not in ("permutation", "wild"):
        seen = "paired=True goes with null='permutation' (swaps within pairs) or 'wild'"
        raise ValueError(f"{seen}; change null, or leave paired out")


def _refuse_split_pairs(parts: Exchange) -> None:
    """Refuse a pair whose rows lie in two strata."""
    if parts.strata is None:
        return
    one, other = parts.strata
    for k in np.flatnonzero(one != other)[:1]:
        both = parts.names[int(one[k])], parts.names[int(other[k])]
        seen = f"the rows of pair {k + 1} lie in two strata, {both[0]!r} and {both[1]!r}"
        raise ValueError(f"{seen}; pairs must lie within one stratum, so that sides can be swapped")


def exchange_notes(parts: Exchange) -> tuple[str, ...]:
    """What to know of clusters and strata: those left out, and exchanges too few for a small p-value."""
    notes = () if parts.strata is None else notes_of_strata(one_sided_strata(parts.strata, parts.names))
    if len(parts.tables) > 2 or (parts.clusters is None and parts.strata is None):
        return notes
    labels = np.repeat([1.0, 0.0], [len(table.values) for table in parts.tables])
    strata = np.zeros(len(labels), dtype=int) if parts.strata is None else np.concatenate(parts.strata)
    if parts.clusters is not None:
        numbers, first = np.unique(np.concatenate(parts.clusters), return_index=True)
        labels, strata = labels[first], np.where(numbers < 0, -1, strata[first])
    count = arrangements(labels, strata)
    if count < FEW_ARRANGEMENTS:
        what = "rows" if parts.clusters is None else "clusters"
        seen = f"labels of {what} can be exchanged in {count:.0f} ways only"
        notes += (f"{seen}, so that p cannot be below {1.0 / count:.2g}",)
    return notes


def opened(value: Any) -> Any:
    """The reference in a file of a sketch or of a drift detector; anything else as it is."""
    if isinstance(value, str | os.PathLike) and is_store(Path(value)):
        from kembed.testing.sketch import load_reference

        return load_reference(Path(value))
    return value


def refuse_for_sketches(paired: bool, weights: Any, unit: Any, strata: Any, margin: Any = None) -> None:
    """A sketch has sums, and no rows to pair, to weigh or to keep together."""
    given = {"paired": paired, "weights": weights is not None, "unit": unit is not None}
    given |= {"strata": strata is not None, "margin": margin is not None}
    for name in (name for name, there in given.items() if there):
        remedy = "make a sketch of every stratum, and test each" if name == "strata" else f"leave {name} out"
        raise ValueError(f"{name} needs the rows of both samples, and a sketch has none; {remedy}")

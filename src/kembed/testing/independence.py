"""Are two variables independent? `hsic_test`.

Each side has its own kernel, chosen from that side's unordered rows alone. Under independence any pairing of
the rows is as likely as the one seen, so pairings are drawn and the statistic is compared.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.ordering import comes_before, row_order, sorted_rows
from kembed.core.progress import showing_progress
from kembed.core.threads import few_rows_one_thread
from kembed.permutation.exchange import beside, count_of_strata, notes_of_strata, side_groups
from kembed.tables import diagnostics
from kembed.tables.source import in_memory
from kembed.tables.table import Table
from kembed.testing.hsic import columns_test, rows_test
from kembed.testing.outcome import TestOutcome, nothing, swapped_outcome
from kembed.testing.procedure import FEW_ARRANGEMENTS, NULLS, QUIETLY, SERIES, read_procedure
from kembed.testing.sided import open_sides, side_tables

MINIMUM = 4  # the unbiased statistic divides by n - 3


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
    strata: Any = None,
    dependence_length: float | None = None,
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
        a row, in time linear in the rows; `"auto"`: pairs up to 4,000 rows, features beyond, and where even
        those are too much work the normal limit. Features of more than 4,000 rows are permuted in whole bins
        of rows, which is exact as well.
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
    strata
        Re-pair rows only within strata (a site, a weekday), and centre features within them: an array with
        the stratum of every row, or with `data` the name of a column of it. What both sides owe to the
        strata is ignored; the test is exact if x and y are independent within each. Strata of one row are
        left out, and named in a note.
    n_resamples, dependence_length, rng, nan_policy, progress
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
    procedure = read_procedure(
        statistic, null, n_resamples, dependence_length, rng, (*NULLS, "normal", "shift")
    )
    if unit is not None:
        unit = unit[()] if isinstance(unit, np.ndarray) and not unit.ndim else unit
        unit = unit if hasattr(unit, "__len__") else checks.count(unit, "unit", 1)
    for given, name in ((strata, "strata"), (unit, "unit")):
        if given is not None and (null != "permutation" or statistic in ("unbiased", "biased")):
            said = f"{name}={given}" if isinstance(given, int | str) else name
            seen = f"{said} goes with null='permutation' and statistic='auto' or 'features'"
            raise ValueError(f"{seen}; leave {name} out or change those")
    if null == "normal" and statistic in ("unbiased", "biased"):
        seen = f"null='normal' is the limit of features, but statistic={statistic!r} is of pairs of rows"
        raise ValueError(f"{seen}; use statistic='auto' or 'features'")
    if isinstance(kernel, tuple) and len(kernel) != 2:
        remedy = "give a pair (kernel of x, kernel of y), or a list of kernels to fuse"
        raise ValueError(f"kernel is a tuple of {len(kernel)}; {remedy}")
    kernels = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    samples, missing = {"x": x, "y": y}, False
    beside_rows = {"unit": unit, "strata": strata}
    samples |= {
        name: each for name, each in beside_rows.items() if isinstance(each, str) and data is not None
    }
    if data is not None:
        with showing_progress(progress):
            sides = open_sides(samples, data, nan_policy, MINIMUM)
            if not sides.held and procedure.by_features(sides.source.size):
                first, second, *_ = sides.columns
                own = [tuple(sides.source.schema.names[c] for c in side) for side in (first, second)]
                how: Any = {"unit": 1 if unit is None else unit, "strata": strata}  # which are refused
                with np.errstate(**QUIETLY):
                    return columns_test(sides.source, (first, second), own, tuple(kernels), procedure, **how)
            tables = sides.tables(MINIMUM)
    else:
        tables, missing = side_tables(samples, nan_policy, MINIMUM)
    if missing:
        return nothing("HSIC", null, (tables[0].given,))
    places = {name: place for place, name in enumerate(samples)}
    if not isinstance(unit, int):
        unit, _ = side_groups(tables, places.get("unit"), unit, "unit")
    groups, levels = side_groups(tables, places.get("strata"), strata, "strata")
    tables = tables[:2]
    notes = diagnostics.of_sides(tables, ordered=null in SERIES or unit is not None)
    swapped = null not in SERIES and _comes_second(*(table.values for table in tables))
    if swapped:
        tables, kernels = tables[::-1], tuple(kernels[::-1])
    names = _names(tables, swapped)
    with showing_progress(progress), np.errstate(**QUIETLY):
        if unit is not None or groups is not None or procedure.by_features(len(tables[0].values)):
            if groups is not None and unit is None:  # no bit depends on the order of rows
                order = row_order(np.column_stack([*(table.values for table in tables), groups]))
                tables, groups = _in_this(tables, order), groups[order]
            both, cut = in_memory(beside(tables), "x and y"), len(names[0])
            columns = tuple(range(cut)), tuple(range(cut, cut + len(names[1])))
            how = {"unit": 1 if unit is None else unit, "strata": groups}
            result = columns_test(both, columns, names, tuple(kernels), procedure, **how)
        else:
            if null not in SERIES:
                tables = _in_this(tables, row_order(np.column_stack([table.values for table in tables])))
            result = rows_test(tables, names, tuple(kernels), procedure)
    if groups is not None:
        sizes = np.bincount(groups)
        notes += notes_of_strata([levels[code] for code in np.flatnonzero(sizes == 1)], "one row only")
        column = strata if isinstance(strata, str) else None
        result = replace(result, within=count_of_strata(int((sizes > 1).sum()), column))
    if unit is not None and result.enumerated and len(result.null_distribution) < FEW_ARRANGEMENTS:
        seen = f"clusters can be re-paired in {len(result.null_distribution)} ways only"
        least = f"p cannot be below {1.0 / len(result.null_distribution):.2g}"
        notes += (f"{seen}, since only those of as many rows change places, so that {least}",)
    return replace(swapped_outcome(result) if swapped else result, notes=notes)


def _comes_second(a: Float[np.ndarray, "n D"], b: Float[np.ndarray, "n E"]) -> bool:
    """Whether the second side goes first: the narrower, then the lesser one, however they were called."""
    if a.shape[1] != b.shape[1]:
        return a.shape[1] > b.shape[1]
    sorted_a, sorted_b = sorted_rows(a), sorted_rows(b)
    if (sorted_a != sorted_b).any():
        return comes_before(sorted_b, sorted_a)
    # Two sides with the same values: how they are paired decides.
    return comes_before(*(sorted_rows(np.column_stack(pair)) for pair in ((b, a), (a, b))))


def _in_this(tables: list[Table], order: Int[np.ndarray, " n"]) -> list[Table]:
    return [replace(table, values=table.values[order]) for table in tables]


def _names(tables: list[Table], swapped: bool) -> list[tuple[str, ...]]:
    """What the columns of either side are called; with the side's own name where two are called the same."""
    if not set(tables[0].names) & set(tables[1].names):
        return [table.names for table in tables]
    sides = ("y", "x") if swapped else ("x", "y")
    own = zip(tables, sides, strict=True)
    return [tuple(side if len(t.names) == 1 else f"{side} {name}" for name in t.names) for t, side in own]

"""Are two variables independent, given others? `conditional_test`."""

from dataclasses import replace
from typing import Any

from kembed.conditional.prewhitening import WEEK
from kembed.conditional.result import ConditionalOutcome
from kembed.conditional.tester import MINIMUM, ConditionalTester, WholeTables
from kembed.core.threads import few_rows_one_thread
from kembed.tables import diagnostics
from kembed.testing.outcome import nothing
from kembed.testing.sided import open_sides, side_tables

FOR_SERIES = "in Python give prewhiten= or dependence_length="  # rows in order


@few_rows_one_thread
def conditional_test(
    x: Any,
    y: Any,
    given: Any = None,
    *,
    data: Any = None,
    kernel: Any = "fused",
    n_resamples: int = 999,
    prewhiten: Any = None,
    least_timescale: float = WEEK,
    dependence_length: float | None = None,
    rng: Any = None,
    nan_policy: str = "raise",
) -> ConditionalOutcome:
    """Test whether x and y are independent given other variables.

    Parameters
    ----------
    x, y
        The two sides: arrays or data frames of any widths, row i of one with row i of the other, or what
        `mmd_test` reads block by block (a path, a lazy frame, a Dask collection, ...).
    given
        What to condition on, likewise; text and categories are welcome. None, or no columns, tests plain
        independence, by permutations.
    data
        A table of any of these kinds; x, y and given then name columns of it, one or a list. Regressions need
        all rows in memory: up to 2.5e7 numbers.
    kernel
        Of the residuals: `"fused"` (several scales in one test), `"bkl"` (learned from each side's residuals
        by a scan of the evidence), `"median"`, `"median-raw"`, a kernel object in standard deviations of the
        residuals, or a list of these.
    n_resamples
        How many draws of random signs (or permutations) the statistic is compared with.
    prewhiten
        A time for every row (numbers, or dates): slow changes in time are first taken out of all numeric
        columns, and what autocorrelation remains is reported.
    least_timescale
        The shortest lengthscale that pre-whitening may choose, in the unit of `prewhiten`; for dates, days.
    dependence_length
        For time series: over how many rows the multipliers forget. Rows must come in order of time, unless
        `prewhiten` has their times. Draws are as large as those of autoregressions that remember as long as
        the residuals do.
    rng, nan_policy
        As in `hsic_test`.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import conditional_test, hsic_test
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(200, 1))  # a common cause
    >>> x, y = np.sin(z) + 0.5 * rng.normal(size=z.shape), np.exp(z) + 0.5 * rng.normal(size=z.shape)
    >>> print(hsic_test(x, y, rng=0).pvalue)
    0.001
    >>> print(conditional_test(x, y, z, rng=0).pvalue > 0.05)
    True

    """
    samples, missing = {"x": x, "y": y}, False
    if given is not None and getattr(given, "shape", ())[1:] != (0,):
        samples["given"] = given
    if data is not None:
        tables = open_sides(samples, data, nan_policy, MINIMUM).tables(MINIMUM)
    else:
        tables, missing = side_tables(samples, nan_policy, MINIMUM)
    if missing:
        return ConditionalOutcome.of(nothing("HSIC", "multiplier", (tables[0].given,)))
    tester = ConditionalTester(
        WholeTables(tables),
        kernel=kernel,
        n_resamples=n_resamples,
        prewhiten=prewhiten,
        least_timescale=least_timescale,
        dependence_length=dependence_length,
        rng=rng,
        nan_policy=nan_policy,
    )
    found = tester.test(0, 1, tuple(range(2, len(tables))))
    ordered = dependence_length is not None or prewhiten is not None
    return replace(found, notes=diagnostics.of_sides(tables, ordered=ordered, remedy=FOR_SERIES))

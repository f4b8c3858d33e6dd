"""A gate for tests and pipelines: `assert_same_distribution`."""

from pathlib import Path
from typing import Any

import numpy as np

from kembed.comparing.compare import Comparison, compare
from kembed.core import checks
from kembed.core.text import counted
from kembed.core.threads import few_rows_one_thread
from kembed.tables.reader import POLICIES, read
from kembed.testing.margin import read_margin
from kembed.testing.procedure import QUIETLY, read_procedure
from kembed.testing.two_sample import samples_test

FIRST, GROWTH = 200, 10  # labelings of the first look; every further one has ten times as many
CLEAR = 20  # a p-value above that of so many labelings is far from failing: no further look
RANKS = 2  # p-values at most `flake`: the data, and one labeling as extreme
LEAST_FLAKE = 2.0 * RANKS / checks.MOST_RESAMPLES
COLUMNS = 5  # in the message


@few_rows_one_thread
def assert_same_distribution(
    actual: Any,
    expected: Any,
    *,
    margin: Any = None,
    flake: float = 1e-3,
    labels: tuple[str, str] = ("actual", "expected"),
    unit: Any = None,
    strata: Any = None,
    weights: Any = None,
    paired: bool = False,
    missing: str = "include",
    report: str | Path | None = None,
    rng: Any = 0,
) -> None:
    """Raise an AssertionError if two samples come from different distributions.

    For unit tests of samplers and simulators, and for data pipelines: is this output what it used to be?

    Parameters
    ----------
    actual, expected : array, data frame, path, or any source that `mmd_test` takes
        Samples, one row an observation, with the same columns; a column that only one has is a failure.
    margin : str or float, optional
        As for `compare`: `"0.1 sd"`, `"2%"` or an MMD/√2. Differences within it pass, and so do undecided
        ones: only a table or a column that differs beyond the margin fails.
    flake : float, default 0.001
        The probability that samples of one distribution fail (with a margin: that differences within it do),
        whatever the number of rows. The seed is fixed, so that the same data always give the same answer; the
        probability is that of new data.
    labels : tuple of str
        What to call the samples.
    unit, strata, weights, paired, missing
        As for `compare`.
    report : path, optional
        Where to write the HTML report if the assertion fails.
    rng : int, numpy.random.Generator or None
        Seed of the relabelings.

    Raises
    ------
    AssertionError
        If they differ: with the verdict, and the columns that changed most.

    Notes
    -----
    Samples that look alike after 199 relabelings pass at once. To fail, others need p-values of at most
    `flake` in two tests with 2/`flake` relabelings each. With a margin one half of `flake` is for the table
    and the other for its columns. A small `flake` takes memory: at 1e-5 each column is tested with 400,000.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import assert_same_distribution
    >>> rng = np.random.default_rng(0)
    >>> assert_same_distribution(rng.normal(size=500), rng.normal(size=400))
    >>> assert_same_distribution(rng.normal(size=500), rng.normal(scale=1.5, size=400))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: actual and expected differ (p = 0.0005). The clearest is column 0: ...

    """
    __tracebackhide__ = True  # pytest shows the call
    flake = checks.level(flake, "flake")
    if flake < LEAST_FLAKE:
        raise ValueError(
            f"flake must be at least {LEAST_FLAKE:g}, as no more resamples are drawn, got {flake:g}"
        )
    checks.choice(missing, "missing", POLICIES)
    limit = None if margin is None else read_margin(margin)
    keep = [each for each in (unit, strata) if isinstance(each, str)]
    values = {"actual": actual, "expected": expected}
    sources = read(values, nan_policy=missing, minimum=2, common=True, keep=keep)
    generator = checks.generator(rng)
    rows: Any = {"unit": unit, "strata": strata, "weights": weights, "paired": paired}
    alpha = flake if limit is None else 0.5 * flake
    labelings = int(np.ceil(RANKS / alpha))
    if not getattr(sources[0], "only", {}) and _alike(sources, labelings, generator, **rows):
        return
    rows |= {"alpha": alpha, "margin": limit, "missing": missing, "labels": labels, "rng": generator}
    found = compare(*sources, n_resamples=labelings - 1, **rows)
    if not (found.differ if limit is None else found.beyond_margin):
        return
    message = describe(found, flake)
    if report is not None:
        message += f"\nThe report is {found.save_report(report)}."
    raise AssertionError(message)


def _alike(sources: list[Any], labelings: int, generator: np.random.Generator, **rows: Any) -> bool:
    """Whether the samples pass: by a few labelings far from failing, or by all of them."""
    counts = [FIRST]
    while counts[-1] * GROWTH < labelings:
        counts.append(counts[-1] * GROWTH)
    for count, ranks in [*((count, CLEAR) for count in counts), (labelings, RANKS)]:
        (stream,) = generator.spawn(1)
        procedure = read_procedure("auto", "permutation", count - 1, None, stream)
        with np.errstate(**QUIETLY):
            if samples_test(sources, "fused", procedure, **rows).pvalue > ranks / count:
                return True
    return False


def describe(found: Comparison, flake: float) -> str:
    """The message of a failure: the verdict, and the columns that changed most."""
    n, m = found.test.sizes
    lines = [found.verdict, f"flake {flake:g}; {n:,} and {m:,} rows"]
    columns = [column for column in found.columns if column in found.changed or column in found.beyond]
    for one in columns[:COLUMNS]:
        beyond = ", beyond the margin" if one in found.beyond else ""
        size = f" (largest difference {one.effect.difference:.2g}{beyond})" if one.effect else ""
        lines.append(f"  {one.name}: {one.change}{size}")
    if len(columns) > COLUMNS:
        lines.append(f"  and {counted(len(columns) - COLUMNS, 'more column')}")
    return "\n".join([*lines, *(f"  {pair.words}" for pair in found.pairs[:COLUMNS])])

"""Do several samples come from one distribution? `k_sample_test`: all of them at once, then every pair.

Labels of k kinds are shuffled over the pooled, unordered rows. For every kernel the statistic is the sum of
n_g (N - n_g) / N² times the biased MMD² of each sample against all the others, on the same relabelings; two
samples are tested as by `mmd_test`. Kernels see no label, so the test is exact.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.drawing import Shown
from kembed.core.progress import showing_progress
from kembed.core.threads import few_rows_one_thread
from kembed.core.writing import jsonable
from kembed.permutation.exchange import Exchange, exchange, shared_strata
from kembed.permutation.nulls import all_pairs, pair_factors
from kembed.tables import diagnostics
from kembed.tables.reader import POLICIES, read_tables
from kembed.testing import outcome
from kembed.testing.outcome import TestOutcome, outcome_to_dict
from kembed.testing.procedure import QUIETLY, Procedure, read_procedure
from kembed.testing.two_sample import exchange_notes, exchange_test

LEVEL = 0.05  # that adjusted p-values of pairs can reach


@dataclass(frozen=True, eq=False)
class PairOutcome:
    """The test of two of the samples, and its p-value adjusted for all pairs.

    The adjustment is Shaffer's (1986) step-down after the test of all samples, so no adjusted p-value is
    below that of the test of all.
    """

    labels: tuple[str, str]
    pvalue: float
    adjusted_pvalue: float
    test: TestOutcome

    def __repr__(self) -> str:
        return f"{' and '.join(self.labels)}: p = {self.pvalue:.4g}, for all pairs {self.adjusted_pvalue:.4g}"


@dataclass(frozen=True, eq=False, repr=False)
class SeveralOutcome(Shown):
    """The outcome of `k_sample_test`: `test` of all samples at once, `pairs` the tests of every two."""

    labels: tuple[str, ...]
    test: TestOutcome
    pairs: tuple[PairOutcome, ...]

    @property
    def pvalue(self) -> float:
        """That of all samples at once."""
        return self.test.pvalue

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be said in JSON, in the words of docs/json.md."""
        pairs = [
            {"samples": pair.labels, "pvalue": pair.pvalue, "adjusted_pvalue": pair.adjusted_pvalue}
            for pair in self.pairs
        ]
        return jsonable({**outcome_to_dict(self.test), "by_pair_of_samples": pairs})

    def _table(self) -> Any:
        rows = [(" and ".join(p.labels), f"{p.pvalue:.4g}", f"{p.adjusted_pvalue:.4g}") for p in self.pairs]
        return ("pair", "p (unadjusted)", "p (adjusted)"), rows

    def __repr__(self) -> str:
        return "\n".join([repr(self.test), *(f"  {pair}" for pair in self.pairs)])


@few_rows_one_thread
def k_sample_test(
    *samples: Any,
    labels: Any = None,
    kernel: Any = "fused",
    n_resamples: int = 999,
    unit: Any = None,
    strata: Any = None,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> SeveralOutcome:
    """Test whether two or more samples come from one distribution, and which pairs of them differ.

    Parameters
    ----------
    samples
        Two or more samples, as for `mmd_test`: arrays, data frames, paths, lazy frames. All rows are held in
        memory.
    labels
        What to call them; "sample 1", "sample 2", ... unless given.
    unit, strata
        Clusters of rows that are exchanged whole, and strata that labels are exchanged within, as for
        `mmd_test`: the name of a column of all samples, or an array for each. Differences between strata are
        ignored. Samples that share no stratum cannot be compared: that pair has p = 1, and a note says so.
    kernel, n_resamples, rng, nan_policy, progress
        As for `mmd_test`; `nan_policy` is `"raise"`, `"include"` or `"omit"`. Pairs get more resamples than
        `n_resamples` where the smallest adjusted p-value would be above .05 otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import k_sample_test
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.normal(size=60), rng.normal(size=60), rng.normal(1.5, size=60)
    >>> found = k_sample_test(a, b, c, labels="abc", rng=0)
    >>> [pair.labels for pair in found.pairs if pair.adjusted_pvalue <= 0.05]
    [('a', 'c'), ('b', 'c')]

    """
    if len(samples) < 2:
        raise TypeError(f"k_sample_test compares two or more samples, but {len(samples)} was given")
    names = tuple(f"sample {k}" for k in range(1, len(samples) + 1)) if labels is None else tuple(labels)
    if len(names) != len(samples) or len(set(names)) < len(names):
        raise ValueError(f"labels must be {len(samples)} different names, but {labels!r} was given")
    given = {str(name): sample for name, sample in zip(names, samples, strict=True)}
    checks.choice(nan_policy, "nan_policy", POLICIES)
    keep = [each for each in (unit, strata) if isinstance(each, str)]
    tables, _ = read_tables(given, nan_policy, minimum=2, same_columns=True, keep=keep)
    parts = exchange(tables, unit, strata)
    generator = checks.generator(rng)
    procedure = read_procedure("auto", "permutation", n_resamples, None, generator)
    with showing_progress(progress), np.errstate(**QUIETLY):
        whole = exchange_test(parts, None, kernel, procedure, by_column=False)
        factor = float(pair_factors(len(names))[0])
        enough = (
            n_resamples if factor <= LEVEL * (n_resamples + 1) else int(np.ceil(2.0 * factor / LEVEL)) - 1
        )
        procedure = replace(procedure, n_resamples=enough)
        found = [_pair(parts.of(places), kernel, procedure) for places in combinations(range(len(names)), 2)]
    adjusted = all_pairs(np.array([each.pvalue for each in found]), len(names), whole.pvalue)
    notes = diagnostics.of_several(parts.tables, ordered=unit is not None) + exchange_notes(parts)
    for (a, b), test in zip(combinations(names, 2), found, strict=True):
        if not len(test.null_distribution):
            notes += (f"{a} and {b} have no stratum in common, so they are not compared",)
    draws = max(len(each.null_distribution) + (not each.enumerated) for each in found)
    if factor > LEVEL * draws:
        few = f"no pair can reach p = {LEVEL} adjusted for all {len(found)} pairs"
        notes += (f"{few}: their rows have {draws:,} arrangements at most",)
    each = zip(combinations(names, 2), found, adjusted, strict=True)
    pairs = tuple(PairOutcome((a, b), test.pvalue, float(p), test) for (a, b), test, p in each)
    return SeveralOutcome(names, replace(whole, notes=notes, within=parts.within), pairs)


def _pair(parts: Exchange, kernel: Any, procedure: Procedure) -> TestOutcome:
    """The test of two samples; p = 1 where they share no stratum."""
    if parts.strata is not None and not len(shared_strata(parts.strata)):
        sizes = tuple(len(table.values) for table in parts.tables)
        return replace(outcome.nothing("MMD²", procedure.null, sizes), pvalue=1.0)
    result = exchange_test(parts, None, kernel, procedure, by_column=False)
    return replace(result, within=parts.within)

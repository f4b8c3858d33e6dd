"""Everything about two samples in one call: do they differ, where, in which columns, by how much."""

import functools
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kembed import __version__
from kembed.comparing.changes import Change, pair_changes
from kembed.comparing.effects import auc_interval
from kembed.comparing.regions import Region
from kembed.comparing.scales import one_kernel
from kembed.comparing.separation import ROWS, separation
from kembed.comparing.summaries import ColumnSummary, summarise
from kembed.comparing.witness import Witness, fit_witness, pool_of_sources, read_and_pool
from kembed.core import checks
from kembed.core.drawing import Drawn, below
from kembed.core.progress import showing_progress, stage
from kembed.core.writing import SCHEMA, jsonable
from kembed.data import remarks
from kembed.engines.kinds import is_large_source
from kembed.engines.settling import open_sources
from kembed.engines.source import Source
from kembed.kernels.base import Kernel
from kembed.learning.evidence import Evidence
from kembed.testing.outcome import TestOutcome, outcome_to_dict
from kembed.testing.two_sample import test_pool, test_sources

# An AUC below this is not worth a number: guessing gives 50%.
HARDLY = 0.55
# One whose interval is wider than twice this is told in steps of it; from the second on it would be "100%".
VAGUE, NEARLY = 0.05, 0.995


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Drawn):
    """What `compare` returns.

    `labels` are the names of the samples, `test` the outcome of the test with every column's own, `witness`
    the posterior of their difference, `columns` a summary of every column, the clearest difference first,
    `pairs` the pairs of columns that surely go together otherwise, with how, where there are words for it.
    `separation` is the AUC of the witness on rows it has not seen: ½ if they tell nothing, 1 if all.
    """

    labels: tuple[str, str]
    test: TestOutcome
    witness: Witness
    columns: tuple[ColumnSummary, ...]
    separation: float  # AUC: of a row of each, how often their values tell which is which
    kernel: Any  # as it was given
    alpha: float
    n_resamples: int
    seed: Any
    dropped: tuple[int, int] = (0, 0)  # rows with missing values
    pairs: tuple[Change, ...] = ()  # of columns that go together otherwise, the surest first

    @property
    def differ(self) -> bool:
        """Whether the test found a difference at the level alpha."""
        return bool(self.test.pvalue <= self.alpha)

    @property
    def changed(self) -> tuple[ColumnSummary, ...]:
        """The columns that differ by themselves, at the level alpha for all of them together."""
        return tuple(column for column in self.columns if column.adjusted_pvalue <= self.alpha)

    @property
    def separation_interval(self) -> tuple[float, float]:
        """The 95% interval of the separation."""
        n, m = (min(size, ROWS) for size in self.test.sizes)
        return auc_interval(self.separation, n, m)

    @property
    def separation_in_words(self) -> str:
        """The separation, to what it is worth."""
        low, high = self.separation_interval
        if high - low > 2 * VAGUE:
            return f"about {min(round(self.separation / VAGUE) * VAGUE, 1.0 - VAGUE):.0%}"
        return f"{self.separation:.0%}" if self.separation < NEARLY else f"more than {2 * NEARLY - 1.0:.0%}"

    @property
    def missing(self) -> tuple[ColumnSummary, ...]:
        """The columns whose shares of missing values differ, at the level alpha for all of them together."""
        gaps = [column for column in self.columns if column.missing_pvalue is not None]
        found = [column for column in gaps if (column.missing_pvalue or 0.0) <= self.alpha]
        return tuple(sorted(found, key=lambda column: -abs(column.missing[0] - column.missing[1])))

    @functools.cached_property
    def regions(self) -> list[Region]:
        """Where they differ; see `Witness.where`."""
        return self.witness.where()

    @property
    def evidence(self) -> Evidence | None:
        """What was learned about the kernel's scale, by the witness or else by the test."""
        return next((found for found in (self.witness.learned, *self.test.learned) if found), None)

    @property
    def verdict(self) -> str:
        """The answer in words."""
        return self._of_test + self._of_missing

    @property
    def _of_missing(self) -> str:
        """What missing values say, which the test did not see."""
        if not self.missing:
            return ""
        worst = self.missing[0]
        shares = [f"{share:.1%} of {label}" for share, label in zip(worst.missing, self.labels, strict=True)]
        others = len(self.missing) - 1
        more = f" {others} more column{'s differ' if others > 1 else ' differs'} in that." if others else ""
        p = f"p = {worst.missing_pvalue:.2g}"
        return f" Missing values differ: {worst.name} is missing in {' and '.join(shares)} ({p}).{more}"

    @property
    def _of_test(self) -> str:
        first, second = self.labels
        p = f"p = {self.test.pvalue:.2g}"
        if not self.differ:
            n, m = self.test.sizes
            found = f"No difference between {first} and {second} was found ({p}, {n:,} and {m:,} rows)."
            return f"{found} That does not prove them the same: small differences may need more rows."
        share = (
            f"Given one row of each, their values tell which is which {self.separation_in_words} of the time."
        )
        if self.separation < HARDLY:
            share = "Single rows hardly tell which sample they come from."
        if not self.changed and self.pairs:
            more = len(self.pairs) - 1
            others = f" {more} more pair{'s' if more > 1 else ''} of columns changed." if more else ""
            where = f"No column differs clearly by itself, but {self.pairs[0].words}.{others}"
        elif not self.changed:
            spread = "the difference lies in how columns go together, or is spread over many of them"
            where = f"No column differs clearly by itself: {spread}."
        else:
            best = self.changed[0]
            more = len(self.changed) - 1
            others = f" {more} more column{'s differ' if more > 1 else ' differs'}." if more else ""
            where = f"The clearest is {best.name}: {best.change}.{others}"
            if self.pairs:
                where += f" Also, {self.pairs[0].words}."
        return f"{first} and {second} differ ({p}). {where} {share}"

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be said in JSON, in the words of docs/json.md: those of `kembed report`."""
        sizes = zip(self.labels, self.test.sizes, self.dropped, strict=True)
        told = {
            "kembed": __version__,
            "schema": SCHEMA,
            "verdict": self.verdict,
            "differ": self.differ,
            "samples": [{"name": name, "rows": used + out, "used": used} for name, used, out in sizes],
            "columns": self.witness.names,
            **outcome_to_dict(self.test),
            "alpha": self.alpha,
            "kernel": self.kernel if isinstance(self.kernel, str) else repr(self.kernel),
            "seed": self.seed,
            "separation": self.separation,
            "separation_interval": self.separation_interval,
            "witness_kernel": repr(self.witness.kernel),
            "by_column": [column.to_dict() for column in self.columns],
            "by_pair": [asdict(pair) for pair in self.pairs],
            "regions": [region.to_dict(self.labels) for region in self.regions],
        }
        return jsonable(told)

    def save_report(self, path: str | Path, **about: Any) -> Path:
        """Write the report, one self-contained HTML file, and return its path.

        `about` is what only the caller knows: `command`, what was typed at a shell, `notes`, sentences that
        the reader should see, `left_out`, columns that were not compared with the reason of each, and `date`.
        """
        return below("report").save(self, path, **about)

    def _table(self) -> Any:
        header = ("column", "change", "p, of all columns", "AUC", "shift in sd")
        rows = []
        for one in self.columns:
            low, high = one.auc_interval
            shift = "" if one.standardised is None else f"{one.standardised:+.2f}"
            auc = f"{one.auc:.2f} ({low:.2f} to {high:.2f})"
            rows.append((one.name, one.change, f"{one.adjusted_pvalue:.3g}", auc, shift))
        return header, rows

    def __repr__(self) -> str:
        lines = [self.verdict, *(f"  {column}" for column in self.columns[:8])]
        if len(self.columns) > 8:
            lines.append(f"  and {len(self.columns) - 8} more columns")
        lines += [f"  {pair}" for pair in self.pairs[:4]]
        return "\n".join(lines)


def compare(
    x: Any,
    y: Any,
    *,
    labels: tuple[str, str] = ("x", "y"),
    kernel: Any = "fused",
    alpha: float = 0.05,
    n_resamples: int = 999,
    nan_policy: str = "raise",
    rng: Any = 0,
    progress: bool | None = None,
) -> Comparison:
    """Compare two samples: the test, the witness, every column, and a verdict in words.

    With more than 5,000 rows in all the test works on features of the rows, in time linear in the rows; call
    `mmd_test` for the statistic over all pairs of rows.

    Parameters
    ----------
    x, y
        Samples, one row an observation: arrays, data frames with the same columns, or what is larger than
        memory (see `mmd_test`): then the test is of all rows, and regions, pictures and summaries are of
        50,000 of each.
    labels
        What to call them.
    kernel
        The kernel of the test, as for `mmd_test`, but for kernels made for all columns at once (ARD objects),
        since every column is tested too. The witness uses it where it is one kernel object or word, else
        "auto"; its bands are 90% bands whatever alpha is.
    alpha
        The level at which a difference is called one.
    n_resamples, nan_policy, rng, progress
        As for `mmd_test`; `nan_policy` is `"raise"` or `"omit"`. The seed is fixed unless given; None is
        fresh entropy. The test draws as `mmd_test` does, the witness from a stream of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import compare
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> y[:, 1] += 1.0
    >>> comparison = compare(x, y, labels=("before", "after"), kernel="median")
    >>> comparison.differ, [column.name for column in comparison.changed]
    (True, ['column 1'])

    """
    alpha = checks.level(alpha, "alpha")
    n_resamples = checks.resamples(n_resamples)
    checks.reachable(alpha, n_resamples)
    two = isinstance(labels, tuple | list) and len(labels) == 2
    if not two or not all(isinstance(one, str) for one in labels):
        raise TypeError(f"labels must be two strings, the names of x and of y, but {labels!r} was given")
    labels = labels[0], labels[1]
    sources: list[Source] = []
    told: tuple[str, ...] = ()
    if is_large_source(x) or is_large_source(y):
        sources = open_sources({"x": x, "y": y}, nan_policy=nan_policy, minimum=2)
        tables, pool, told = pool_of_sources(sources)
    else:
        tables, pool = read_and_pool(x, y, nan_policy)
    generator = checks.generator(rng)
    (other,) = generator.spawn(1)  # what the witness draws has nothing to do with what the test draws
    seed = int(other.integers(2**31))
    if isinstance(kernel, list | tuple) and len(kernel) == 1:
        (kernel,) = kernel
    with showing_progress(progress):
        how: Any = {"kernel": kernel, "n_resamples": n_resamples, "by_column": True}
        stage("testing", 0.05)
        if told:  # of more rows than are looked at here
            test = test_sources((sources[0], sources[1]), rng=generator, **how)
        else:
            test = test_pool(tables, pool, rng=generator, **how)
        test = replace(test, notes=(*told, *remarks.of_two_samples(*tables)))
        fused = isinstance(kernel, list | tuple) or (isinstance(kernel, str) and kernel == "fused")
        stage("looking where they differ", 0.4)
        if fused or not isinstance(test.kernel, Kernel):  # a witness needs one, and more than a function
            chosen = one_kernel("auto", pool.space, 1, seed, next(iter(test.learned), None))
        else:
            chosen = test.kernel, next(iter(test.learned), None)
        difference = fit_witness(tables, chosen, seed=seed, tested=test.columns)
    stage("summing up columns", 0.7)
    columns = summarise(tables, test.columns or (), difference.sensitivity, labels)
    auc = separation((tables[0].values, tables[1].values), difference.kernel)
    given = int(rng) if isinstance(rng, int | np.integer) else None
    out: Any = tuple(table.given - len(table.values) for table in tables)
    pairs = pair_changes(tables, test.findings, labels, alpha) if test.pvalue <= alpha else ()
    return Comparison(labels, test, difference, columns, auc, kernel, alpha, n_resamples, given, out, pairs)

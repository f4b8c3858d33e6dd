"""Everything about two samples in one call: do they differ, where, in which columns, by how much."""

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kembed import __version__
from kembed.comparing.auc import UNKNOWN, at_least, classifier_auc
from kembed.comparing.changes import Change, pair_changes
from kembed.comparing.column_effects import Independent
from kembed.comparing.regions import Region
from kembed.comparing.samples import (
    describe_sides,
    described_rows,
    read_sides,
)
from kembed.comparing.scales import one_kernel
from kembed.comparing.shift import Shift, find_shift
from kembed.comparing.summaries import ColumnSummary, summarise
from kembed.comparing.witness import Witness, fit_witness
from kembed.core import checks
from kembed.core.drawing import Drawn, below
from kembed.core.progress import showing_progress, stage
from kembed.core.text import counted, listing
from kembed.core.threads import few_rows_one_thread
from kembed.core.writing import SCHEMA, jsonable
from kembed.features.repeated import TITLE, is_repeated
from kembed.kernels.base import Kernel
from kembed.learning.evidence import Evidence
from kembed.permutation.pool import Pool
from kembed.tables.matching import matched
from kembed.tables.reader import POLICIES, read
from kembed.tables.source import in_memory
from kembed.testing.bayes import BayesFactorResult, result_of
from kembed.testing.effect import EffectSize, effect_data, effect_size, of_pool, rounded
from kembed.testing.margin import MarginResult, decide, read_margin
from kembed.testing.outcome import TestOutcome, outcome_to_dict
from kembed.testing.procedure import QUIETLY, is_sketch, read_procedure
from kembed.testing.sketch import sketch_test
from kembed.testing.two_sample import opened, refuse_for_sketches, samples_test

HARDLY = 0.55  # below this AUC single rows can barely be classified
# The margin where none is given: a tenth of a standard deviation, as is usual for balance (Austin 2009), or
# the share of a normal column's rows that it moves past a threshold.
USUAL, OF_CATEGORIES = "0.1 sd", "4%"
CLASSIFIED = "Negligible column by column, but rows can be classified"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Drawn):
    """What `compare` returns.

    `labels` are the names of the samples, `test` the outcome of the test with every column's own, `witness`
    the posterior of their difference, `columns` a summary of every column, the largest effect first,
    `pairs` the pairs of columns whose relationship changed significantly, and how.
    `auc` is a cross-validated AUC of single rows: ½ is guessing, 1 is certain. A better classifier may
    exist, so at least so much is possible; `auc_interval` is its 95% interval. `effect` says how large
    the difference is, `margin` whether that matters, and `bayes` how probable it is; `bayes` is None with
    clusters, strata or pairs, since the Bayes factor assumes independent rows, and with sketches. Where no
    margin was given `margin_given` is False, and `margin` is at 0.1 standard deviations (4% if all columns
    hold categories). If a sketch keeps no rows, `witness`, `effect` and `margin` are None too, and
    `auc` is the AUC of the best column (nan without a difference). `shift` says what kind of shift
    there is; None without `target=`.
    """

    labels: tuple[str, str]
    test: TestOutcome
    witness: Witness | None
    columns: tuple[ColumnSummary, ...]
    auc: float  # of single rows
    kernel: Any  # as it was given
    alpha: float
    n_resamples: int
    seed: Any
    dropped: tuple[int, int] = (0, 0)  # rows with missing values
    pairs: tuple[Change, ...] = ()  # of columns whose relationship changed, the most significant first
    auc_interval: tuple[float, float] = (0.0, 1.0)  # 95%
    schema_differences: dict[str, str] = field(default_factory=dict)  # columns that one sample has, and which
    effect: EffectSize | None = field(kw_only=True)
    bayes: BayesFactorResult | None = field(kw_only=True)
    margin: MarginResult | None = field(kw_only=True)
    margin_given: bool = field(kw_only=True)
    shift: Shift | None = field(default=None, kw_only=True)

    @property
    def differ(self) -> bool:
        """Whether the test found a difference at the level alpha, or the samples have different columns."""
        return bool(self.test.pvalue <= self.alpha or self.schema_differences)

    @property
    def changed(self) -> tuple[ColumnSummary, ...]:
        """The columns that differ individually, at the level alpha for all of them together."""
        return tuple(column for column in self.columns if column.adjusted_pvalue <= self.alpha)

    @property
    def beyond(self) -> tuple[ColumnSummary, ...]:
        """The columns that changed by more than the margin, at the level alpha for all of them together."""
        return tuple(one for one in self.columns if one.effect and one.effect.verdict == "beyond")

    @property
    def beyond_margin(self) -> bool:
        """Whether the table or a column changed by more than the margin, or the columns differ."""
        different = self.margin is not None and self.margin.verdict == "different"
        of_rows = different or (self.test.pvalue <= self.alpha and self.beyond)
        return bool(of_rows or self.schema_differences)

    @property
    def within_margin(self) -> bool:
        """Whether a difference was found that is within the margin, and no column looks larger."""
        if self.margin is None:
            return False
        effects = [column.effect for column in self.columns if column.effect]
        within = self.margin.verdict == "equivalent" and not self.beyond_margin and not self.missing
        large = any(effect.exceeds(self.margin.margin) for effect in effects)
        return self.test.pvalue <= self.alpha and within and not large

    @property
    def negligible(self) -> bool:
        """Whether single rows, too, cannot be classified better than differences within the margin allow."""
        return self.within_margin and self.auc_interval[0] <= self._largest_auc

    @property
    def _largest_auc(self) -> float:
        if self.margin is None:
            return 1.0
        return self.margin.margin.auc(sum(not column.categorical for column in self.columns))

    @property
    def headline(self) -> str:
        """What matters, in a few words."""
        limit = self.margin
        if self.within_margin:
            return "Detectable but negligible" if self.negligible else CLASSIFIED
        if limit is not None and self.margin_given:
            return f"Different beyond the margin of {limit.margin}" if self.beyond_margin else limit.title
        if self.differ:
            return "A difference was found"
        sure = limit is not None and limit.verdict == "equivalent"
        return "No difference was found" + (f", and none beyond {limit.margin}" if limit and sure else "")

    @property
    def missing(self) -> tuple[ColumnSummary, ...]:
        """The columns whose shares of missing values differ, at the level alpha for all of them together."""
        gaps = [column for column in self.columns if column.missing_pvalue is not None]
        found = [column for column in gaps if (column.missing_pvalue or 0.0) <= self.alpha]
        return tuple(sorted(found, key=lambda column: -abs(column.missing[0] - column.missing[1])))

    @functools.cached_property
    def regions(self) -> list[Region]:
        """Where they differ; see `Witness.where`."""
        return [] if self.witness is None else self.witness.where()

    @property
    def evidence(self) -> Evidence | None:
        """What was learned about the kernel's scale, by the witness or else by the test."""
        own = self.witness and self.witness.learned
        return next((found for found in (own, *self.test.learned) if found), None)

    @property
    def verdict(self) -> str:
        """The answer in words."""
        of_margin = self._of_margin if self.margin_given and not self.within_margin else ""
        of_test = self._of_difference if self.test.pvalue <= self.alpha else self._of_none
        shift = self.shift.verdict if self.shift else ""
        return " ".join(filter(None, [self._of_schema, of_margin, of_test, self._of_missing, shift]))

    @property
    def _of_margin(self) -> str:
        """The verdict at the margin, and the columns that are beyond it."""
        if self.margin is None:
            return ""
        words = f"{self.margin.words}."
        if not self.beyond or self.test.pvalue > self.alpha:
            return words
        columns = f"{counted(len(self.beyond), 'column')}: {listing(one.name for one in self.beyond)}"
        if self.margin.verdict == "different":
            return f"{words} So are {columns}."
        beyond = f"Different beyond the margin of {self.margin.margin} in {columns}."
        return f"{beyond} The whole table is {words[0].lower()}{words[1:]}"

    @property
    def _of_schema(self) -> str:
        """Which columns only one sample has."""
        owned: dict[str, list[str]] = {}
        for name, label in self.schema_differences.items():
            owned.setdefault(label, []).append(name)
        only = [f"only {label} has {listing(names)}" for label, names in owned.items()]
        return f"The columns differ: {' and '.join(only)}." if only else ""

    @property
    def _of_missing(self) -> str:
        """What missing values say, which the test did not see."""
        if not self.missing:
            return ""
        worst = self.missing[0]
        shares = [f"{share:.1%} of {label}" for share, label in zip(worst.missing, self.labels, strict=True)]
        differ = f"Missing values differ: {worst.name} is missing in {' and '.join(shares)}"
        others = _others(len(self.missing) - 1, "in that")
        return f"{differ} (p = {worst.missing_pvalue:.2g}).{others}"

    @property
    def _of_none(self) -> str:
        """What it means that no difference was found."""
        between = f"between {' and '.join(self.labels)} was found{self._within}"
        n, m = self.test.sizes
        found = f"No difference {between} (p = {self.test.pvalue:.2g}, {n:,} and {m:,} rows)."
        if self.margin_given:
            return found
        if self.margin is not None and self.margin.verdict == "equivalent":
            less = f"they differ by less than {self.margin.margin.meaning}"
            return f"{found} With {self.margin.confidence} {less}."
        return f"{found} This does not prove they are the same: small differences may need more rows."

    @property
    def _of_difference(self) -> str:
        """How large a difference is, in which columns, and whether rows can be classified."""
        opening = f"{' and '.join(self.labels)} differ{self._within} (p = {self.test.pvalue:.2g})."
        if self.within_margin and self.margin is not None:
            largest, limit = rounded(self.margin.interval[1]), rounded(self.margin.effect)
            less = f"with {self.margin.confidence} by less than {self.margin.margin.meaning}"
            bounds = f"effect size below {largest}, margin {limit}"
            opening = f"{self.headline}: {opening[:-1]}, but {less} ({bounds})."
            if not self.negligible:
                opening += f" Differences within the margin allow an AUC of {self._largest_auc:.2f} at most."
        where, copies = "", self._of_copies
        if self.changed:
            best = self.changed[0]
            where = f"The clearest is {best.name}: {best.change}.{_others(len(self.changed) - 1)}"
            where += f" Also, {self.pairs[0].words}." if self.pairs else ""
        elif not copies and self.pairs:
            more = len(self.pairs) - 1
            others = f" {counted(more, 'more pair')} of columns changed." if more else ""
            where = f"No column differs clearly on its own, but {self.pairs[0].words}.{others}"
        elif not copies:
            spread = "the difference lies in how columns are related, or is spread over many of them"
            where = f"No column differs clearly on its own: {spread}."
        can = "can barely" if self.auc < HARDLY else "can"
        low, high = self.auc_interval
        auc = f"AUC at least {self.auc:.2f} (95% CI {low:.2f}-{high:.2f}); 0.5 is guessing, 1 is certain"
        share = f"Individual rows {can} be classified: {auc}."
        return " ".join(filter(None, [opening, copies, where, share]))

    @property
    def _within(self) -> str:
        """Within which strata."""
        return f" within {self.test.within}" if self.test.within else ""

    @property
    def _of_copies(self) -> str:
        """How many rows occur more than once, where that is the clearest difference."""
        if repr(self.test.kernel) != TITLE or self.witness is None:
            return ""
        x, y = (table.values for table in self.witness.tables)
        repeated = np.split(is_repeated(np.concatenate([x, y])), [len(x)])
        shares = (f"{part.mean():.1%} of {name}" for part, name in zip(repeated, self.labels, strict=True))
        return f"Rows are repeated: {' and '.join(shares)} occur more than once."

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be said in JSON, in the words of docs/json.md: those of `kembed report`."""
        sizes = zip(self.labels, self.test.sizes, self.dropped, strict=True)
        payload = {
            "kembed": __version__,
            "schema": SCHEMA,
            "verdict": self.verdict,
            "headline": self.headline,
            "differ": self.differ,
            "beyond_margin": self.beyond_margin if self.margin_given else None,
            "margin": self.margin if self.margin_given else None,
            "samples": [{"name": name, "rows": used + out, "used": used} for name, used, out in sizes],
            "columns": [column.name for column in self.test.columns or ()],
            "schema_differences": [
                {"column": name, "sample": label} for name, label in self.schema_differences.items()
            ],
            **outcome_to_dict(self.test),
            "alpha": self.alpha,
            "kernel": self.kernel if isinstance(self.kernel, str) else repr(self.kernel),
            "seed": self.seed,
            "auc": self.auc,
            "auc_interval": self.auc_interval,
            "effect": None if self.effect is None else self.effect.normalised[0],
            "effect_size": self.effect,
            "bayes": self.bayes,
            "witness_kernel": None if self.witness is None else repr(self.witness.kernel),
            "by_column": self.columns,
            "by_pair": self.pairs,
            "regions": [region.to_dict(self.labels) for region in self.regions],
            "shift": self.shift,
        }
        return jsonable(payload)

    def save_report(self, path: str | Path, **about: Any) -> Path:
        """Write the report, one self-contained HTML file, and return its path.

        `about` is what only the caller knows: `command`, what was typed at a shell, `notes`, sentences that
        the reader should see, `left_out`, columns that were not compared with the reason of each, and `date`.
        """
        return below("report").save(self, path, **about)

    def _table(self) -> Any:
        header = ("column", "change", "largest difference", "p (adjusted)", "AUC", "shift in sd")
        rows = []
        for one in self.columns:
            difference = f"{one.effect.difference:.3f}" if one.effect else ""
            low, high = one.auc_interval
            shift = "" if one.standardised is None else f"{one.standardised:+.2f}"
            auc = f"{one.auc:.2f} ({low:.2f} to {high:.2f})"
            rows.append((one.name, one.change, difference, f"{one.adjusted_pvalue:.3g}", auc, shift))
        return header, rows

    def __repr__(self) -> str:
        lines = [self.verdict, *([f"Effect size: {self.effect.words}."] if self.effect else [])]
        lines += [f"{self.bayes.verdict}."] if self.bayes else []
        lines += [f"  {column}" for column in self.columns[:8]]
        if len(self.columns) > 8:
            more = len(self.columns) - 8
            lines.append(f"  and {counted(more, 'more column')}")
        lines += [f"  {pair}" for pair in self.pairs[:4]]
        return "\n".join(lines)


@few_rows_one_thread
def compare(
    x: Any,
    y: Any,
    *,
    labels: tuple[str, str] = ("x", "y"),
    kernel: Any = "fused",
    alpha: float = 0.05,
    n_resamples: int = 999,
    unit: Any = None,
    strata: Any = None,
    weights: Any = None,
    paired: bool | str = False,
    target: str | None = None,
    margin: Any = None,
    missing: str = "include",
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
        50,000 of each. Or a `Sketch`, or the file of a sketch or of a `DriftDetector`: then the test and the
        columns are of all its rows, regions and pictures of those that it keeps.
    labels
        What to call them.
    kernel
        The kernel of the test, as for `mmd_test`, but for kernels made for all columns at once (ARD objects),
        since every column is tested too. The witness uses it where it is one kernel object or word, else
        "auto"; its bands are 90% bands whatever alpha is.
    alpha
        The level at which a difference is called one; intervals of column effects hold together at 1 - alpha.
    unit
        Clusters of rows that are not independent of each other, as for `mmd_test`: whole clusters change
        places in the test, the AUC is cross-validated over clusters, and effects have intervals of as many
        rows as there are clusters. Bands of the witness and AUC of columns assume that rows are independent.
    strata
        Strata within which labels are exchanged in the tests and the effect size is measured, as for
        `mmd_test`. The AUC, the witness and the summaries of columns are of all rows.
    weights
        Weights of the rows, as for `mmd_test`. The tests are weighted; the AUC, the witness and the summaries
        of columns are of rows drawn with probabilities proportional to their weights, as many as the
        effective sample size (Σw)²/Σw² of each sample.
    paired
        Whether row i of `x` belongs to row i of `y`, or the name of a column whose values say which rows
        belong together, as for `mmd_test`: sides of pairs are swapped in the tests, and both rows of a pair
        are in one fold of the AUC. Bands of the witness and intervals of single columns assume independent
        samples.
    target
        A column that the others, the inputs, are to predict (a label, an outcome, a model's score): also test
        whether P(inputs), P(target) and P(target | inputs) changed, and where the last did; see `Shift`.
    margin
        The largest difference that does not matter, as for `mmd_test`: the table is then "different" beyond
        it, "equivalent" within it, or "undecided", and so is every column in its own terms: the mean by
        "0.1 sd", and distribution functions and shares by what that moves past a threshold in a normal column
        (4%); a share or a number holds for distribution functions and shares. Without one the verdict still
        says "detectable but negligible" of differences significantly within 0.1 standard deviations.
    missing
        Missing values: `"include"` compares them too (an indicator column `"<name> (missing)"` beside
        numbers, whose gaps are filled from the pooled values; a level "missing" of categories), `"omit"`
        leaves rows with any out, `"raise"` refuses them. `nan_policy` of the tests says the same.
    n_resamples, rng, progress
        As for `mmd_test`. The seed is fixed unless given; None is fresh entropy. The test draws as `mmd_test`
        does, the witness from a stream of its own.

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
    if not isinstance(labels, tuple | list) or list(map(type, labels)) != [str, str]:
        raise TypeError(f"labels must be two strings, the names of x and of y, but {labels!r} was given")
    labels = labels[0], labels[1]
    checks.choice(missing, "missing", POLICIES)
    given_margin = None if margin is None else read_margin(margin)
    x, y = opened(x), opened(y)
    sketched = is_sketch(x) or is_sketch(y)
    exchanged: Any = {"weights": weights, "unit": unit, "strata": strata, "paired": paired}
    if target is not None and sketched:
        raise ValueError("target= needs rows, but a sketch was given; give the tables")
    key = paired if isinstance(paired, str) else None
    if sketched:
        refuse_for_sketches(bool(paired), weights, unit, strata)
        sources = read_sides(x, y, missing)
    else:
        keep = [each for each in (unit, strata, target, key) if isinstance(each, str)]
        sources = read({"x": x, "y": y}, nan_policy=missing, minimum=2, common=True, keep=keep)
    if target is not None:
        _refuse_target(target, exchanged, sources[0].schema.names, getattr(sources[0], "left_out", {}))
    if key is not None:
        sources, exchanged["paired"] = list(matched(sources, key)), True
    only = {name: labels[place] for name, place in getattr(sources[0], "only", {}).items()}
    generator = checks.generator(rng)
    procedure = read_procedure("auto", "permutation", n_resamples, None, generator)
    (stream,) = generator.spawn(1)  # what the witness draws has nothing to do with what the test draws
    seed = int(stream.integers(2**31))
    if isinstance(kernel, list | tuple) and len(kernel) == 1:
        (kernel,) = kernel
    with showing_progress(progress):
        stage("testing", 0.05)
        pool: Pool | None
        with np.errstate(**QUIETLY):
            if sketched:
                how: Any = {"by_column": True, "nan_policy": "raise"}
                test = sketch_test(sources[0], sources[1], kernel, procedure, **how)
                (tables, pool, notes), clusters = describe_sides(sources, labels), None
                notes += ("the probability of a difference is not available: it needs all rows",)
            else:
                test = samples_test(sources, kernel, procedure, by_column=True, **exchanged)
                tables, pool, clusters, notes = described_rows(sources, generator=stream, **exchanged)
        if strata is not None:
            notes += (
                "the numbers of columns, regions, the AUC and the effect size are of all strata together",
            )
        if unit is not None:
            notes += ("regions take rows as independent: of clusters they may show too much",)
        test = replace(test, notes=(*notes, *test.notes))
        stage("looking where they differ", 0.4)
        difference, effect, bayes, decided = None, None, None, None
        limit = given_margin or read_margin(USUAL)
        if pool is not None:
            fused = isinstance(kernel, list | tuple) or (isinstance(kernel, str) and kernel == "fused")
            learned = None if sketched else next(iter(test.learned), None)
            if fused or not isinstance(test.kernel, Kernel):  # a witness needs one, and more than a function
                chosen = one_kernel("auto", pool.space, 1, seed, learned)
            else:
                chosen = test.kernel, learned
            difference = fit_witness(tables, chosen, seed=seed, tested=test.columns)
            stage("measuring the difference", 0.6)
            data = of_pool(pool) if sketched else effect_data(sources, **exchanged)
            effect = effect_size(data)
            without_numbers = bool(data.space.categorical.all() or not data.deviations.any())
            limit = given_margin or read_margin(OF_CATEGORIES if without_numbers else USUAL)
            decided = decide(limit, data, effect, test.pvalue, alpha)
        elif given_margin is not None:
            raise ValueError("margin needs rows, and the sketch keeps none; make it with keep_rows=1000")
        if unit is None and strata is None and not (paired or sketched):
            own = replace(procedure, rng=stream)
            bayes = result_of(samples_test(list(map(in_memory, tables)), "bkl", own))
    stage("summing up columns", 0.7)
    needed = np.full(len(tables[0].names), np.nan) if difference is None else difference.sensitivity
    kept: Any = tuple(source if is_sketch(source) else None for source in sources)
    rows = len(tables[0].values), len(tables[1].values)
    units = Independent(*rows, bool(paired), None if paired or clusters is None else tuple(clusters))
    columns = summarise(tables, test.columns or (), needed, labels, units, alpha, kept)
    if strata is None:  # columns are described over all strata
        columns = tuple(replace(one, effect=one.effect and one.effect.at(limit)) for one in columns)
    values, classified = (tables[0].values, tables[1].values), UNKNOWN
    if difference is not None:
        classified = classifier_auc(values, difference.kernel, tables[0].categorical, clusters)
    if test.pvalue <= alpha:  # else the best column is best by chance
        sizes = units.counts or (test.sizes[0], test.sizes[1])
        classified = at_least(classified, [column.auc for column in columns], sizes)
    given = int(rng) if isinstance(rng, int | np.integer) else None
    out: Any = tuple(
        0 if is_sketch(source) else source.given - size
        for source, size in zip(sources, test.sizes, strict=True)
    )
    pairs: tuple[Change, ...] = ()
    if test.pvalue <= alpha:
        pairs = pair_changes(tables if pool else None, test.findings, labels, alpha)
    settings = kernel, alpha, n_resamples, given, out, pairs
    found = labels, test, difference, columns, classified.auc, *settings, classified.interval, only
    shift = None
    if target is not None:
        with showing_progress(progress), np.errstate(**QUIETLY):
            stage("asking what kind of shift it is", 0.75)
            shift = find_shift(tables, target, labels, alpha, kernel, replace(procedure, rng=stream))
    verdicts: Any = {"margin": decided, "margin_given": given_margin is not None, "shift": shift}
    return Comparison(*found, effect=effect, bayes=bayes, **verdicts)


def _refuse_target(
    target: Any, exchanged: dict[str, Any], names: tuple[str, ...], left_out: dict[str, str]
) -> None:
    """Refuse a target that is no column beside others, or rows that are not independent and alike."""
    for name, value in exchanged.items():
        if value is not None and value is not False:
            seen = f"target= takes rows as independent and of equal weight, but {name}= was given"
            raise ValueError(f"{seen}; leave one of them out")
    if not isinstance(target, str):
        raise TypeError(f"target must be the name of a column, but {target!r} was given")
    if target in left_out:
        raise ValueError(f"target={target!r} cannot be used: {left_out[target]}; name another column")
    if target not in names:
        seen = f"target={target!r} is not a column; the samples have {listing(names)}"
        raise ValueError(f"{seen}; name one of them")
    if len(names) == 1:
        raise ValueError(f"target={target!r} is the only column; give at least one input beside it")


def _others(count: int, more: str = "") -> str:
    """How many more columns differ."""
    if not count:
        return ""
    return f" {counted(count, 'more column')} differ{'s' if count == 1 else ''}{' ' * bool(more)}{more}."

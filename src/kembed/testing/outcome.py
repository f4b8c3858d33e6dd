"""What a test returns: the verdict, the evidence behind it, and the kernel it rests on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.drawing import Drawn
from kembed.core.writing import jsonable
from kembed.features.ensemble import Ensemble
from kembed.features.members import Named
from kembed.kernels.words import in_words
from kembed.learning.evidence import Evidence
from kembed.permutation import nulls
from kembed.permutation.fusion import Values, combined, fuse, refuse_non_finite
from kembed.testing.effect import EffectSize
from kembed.testing.margin import MarginResult
from kembed.testing.procedure import Procedure

SURE = 0.05  # findings at this level are reported
SHOWN = 5  # and so many of them


class Rounded:
    """A record that is shown with four digits of every number."""

    def __repr__(self) -> str:
        shown = {
            name: f"{each:.4g}" if isinstance(each, float) else repr(each)
            for name, each in vars(self).items()
        }
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in shown.items())})"


@dataclass(frozen=True, eq=False, repr=False)
class MemberResult(Rounded):
    """One member of a fused test: its strongest kernel, that kernel's statistic, and -log p of the member.

    `neg_log_p` is -log p under a gamma law fitted to the data and all resamples: 3 is p = .05, 7 is p = .001.
    """

    kernel: Any
    statistic: float  # MMD² or HSIC with this kernel
    neg_log_p: float


@dataclass(frozen=True, eq=False, repr=False)
class Finding(Rounded):
    """A column, or a pair of them, that is significant individually.

    `adjusted_pvalue` is adjusted for all columns and pairs (step-down, on the resamples of the test) and is
    never below the p-value of the test. With `by_column=True` a single column has its p-values there.
    """

    columns: tuple[str, ...]
    pvalue: float
    adjusted_pvalue: float


@dataclass(frozen=True, eq=False, repr=False)
class ColumnResult(Rounded):
    """The test of one column, and its p-value corrected for looking at all of them."""

    name: str
    statistic: float
    pvalue: float
    adjusted_pvalue: float  # step-down max-T (Westfall & Young 1993), at least the p-value of the test


ColumnResults = tuple[ColumnResult, ...]


class ColumnEvidence(NamedTuple):
    """The test of every column on the resamples of the test of all: names, effects, and -log p."""

    names: tuple[str, ...]
    effects: tuple[float, ...]
    neg_log_pvalues: Float[np.ndarray, "C D"]

    def results(self, overall: float) -> ColumnResults:
        """P-values of every column, adjusted for all of them: not below that of the test of all."""
        T = self.neg_log_pvalues
        single, adjusted = nulls.column_pvalues(T[0], T[1:]), nulls.step_down(T[0], T[1:])
        adjusted = np.maximum(adjusted, overall)
        return tuple(map(ColumnResult, self.names, self.effects, single.tolist(), adjusted.tolist()))


def column_evidence(names: tuple[str, ...], columns: list[Ensemble], values: list[Values]) -> ColumnEvidence:
    """The tests of single columns: their fused statistics, and what is reported as their effect."""
    fused = [fuse(own, each.plan) for own, each in zip(values, columns, strict=True)]
    effects = tuple(float(each.statistic[0]) for each in fused)
    return ColumnEvidence(names, effects, np.stack([each.whole for each in fused], axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class TestOutcome(Drawn):
    """The outcome of `mmd_test` or `hsic_test`; `statistic, pvalue = outcome` unpacks it.

    `statistic` is MMD² (HSIC) with `kernel`; with several kernels it is the fused statistic, -log of a mean
    of their p-values, `kernel` is the most significant one and `effect_of_kernel` its MMD² (HSIC); for
    independence kernels come in pairs. With a margin `effect` says how large the difference is, whatever the
    kernel of the test, and `margin` whether it is beyond the margin. `members` has what every member of the
    fused test says, `findings` the columns and pairs of columns that differ individually, the most certain
    first. `notes` are sentences on the data that its reader should know: how text was read, repeated rows,
    rows in order, identifiers.
    `null_distribution` holds the statistic of every resample (of all arrangements, where there are few).
    `bins` says that features of the rows were summed in so many bins of either sample, which change sides
    as a whole (for independence: of pairs of rows, whose second halves change places; with a multiplier:
    that have a sign each); it is empty for the statistic of all pairs of rows, and for the normal limit.
    `within` says in words within which strata rows were exchanged; it is empty where there were none.
    `learned` is what was learned about scales, empty if nothing was: the `Evidence` of the pooled rows, or of
    either side for independence (None for a side that had nothing to learn from).
    """

    __test__ = False  # not a test of pytest

    statistic: float
    pvalue: float
    null_distribution: Float[np.ndarray, " B"]
    kernel: Any
    effect_of_kernel: float
    name: str  # "MMD²" or "HSIC"
    null: str
    sizes: tuple[int, ...]
    members: tuple[MemberResult, ...] = ()
    averaged: bool = False  # members are Bayes factors, and the statistic is the logarithm of their mean
    learned: tuple[Evidence | None, ...] = ()
    columns: ColumnResults | None = None
    enumerated: bool = False
    findings: tuple[Finding, ...] = ()
    bins: tuple[int, ...] = ()  # of either sample (of pairs), where features were summed by bin
    notes: tuple[str, ...] = ()  # what the test does not say: how text was read, repeated rows, rows in order
    within: str = ""  # "3 strata of 'site'"
    effect: EffectSize | None = None
    margin: MarginResult | None = None

    @property
    def fused(self) -> bool:
        """Whether the statistic is -log p of several members."""
        return len(self.members) > 1 and not self.averaged

    def __iter__(self) -> Iterator[float]:
        """Statistic and p-value, so that they unpack as SciPy's do."""
        yield from (self.statistic, self.pvalue)

    def to_dict(self) -> dict[str, Any]:
        """Everything that can be said in JSON, in the words of docs/json.md."""
        return jsonable(outcome_to_dict(self) | ({} if self.effect is None else effect_to_dict(self)))

    def __repr__(self) -> str:
        value, which = f"{self.name} = {self.statistic:.4g}", "kernel"
        if self.fused:
            value, which = f"fused {self.name}", f"strongest of {len(self.members)} members"
        resamples = len(self.null_distribution)
        words = "resample" if resamples == 1 else "resamples"
        every = " (all of them)" if self.enumerated else ""
        how = f"{self.null} null" + (f", {resamples} {words}{every}" if resamples else "")
        how += f" of {sum(self.bins)} bins" if self.bins else ""
        how += f" within {self.within}" if self.within else ""
        parts = self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)
        kernel = " x ".join(part if isinstance(part, str) else repr(part) for part in parts)
        kernel = in_words(self.kernel) if self.fused else kernel
        lines = [
            f"  {column.name}: p = {column.pvalue:.4g}, adjusted {column.adjusted_pvalue:.4g}"
            for column in self.columns or ()
        ]
        sure = [finding for finding in self.findings if finding.adjusted_pvalue <= SURE]
        lines += [
            f"  {' and '.join(finding.columns)}: p = {finding.adjusted_pvalue:.4g}, for all columns and pairs"
            for finding in [f for f in sure if self.columns is None or len(f.columns) > 1][:SHOWN]
        ]
        size = " + ".join(map(str, self.sizes))
        first = f"{value}, p = {self.pvalue:.4g} ({how}; {size} rows)"
        lines = [f"{which}: {kernel}", *([f"{self.margin!r}"] if self.margin else []), *lines]
        return "\n".join([first, *lines, *(f"note: {note}" for note in self.notes)])


def fused_evidence(result: TestOutcome) -> str:
    """The fused statistic, and the 95% quantile of its null distribution."""
    chance = float(np.quantile(result.null_distribution, 0.95))
    return f"fused statistic {result.statistic:.1f} (null: 95% quantile {chance:.1f})"


def outcome_to_dict(result: TestOutcome) -> dict[str, Any]:
    """The outcome of a test in the words of docs/json.md."""
    columns = None if result.columns is None else [vars(column) for column in result.columns]
    return {
        "pvalue": result.pvalue,
        "statistic": result.statistic,
        "statistic_unit": "-log p" if result.fused else result.name,
        "effect_of_kernel": result.effect_of_kernel,
        "effect_unit": result.name,
        "kernel_used": repr(result.kernel),
        "null": result.null,
        "resamples": len(result.null_distribution),
        "enumerated": result.enumerated,
        "within": result.within or None,
        "notes": list(result.notes),
        "by_column": columns,
        "findings": [vars(finding) for finding in result.findings if finding.adjusted_pvalue <= SURE],
    }


def effect_to_dict(result: TestOutcome) -> dict[str, Any]:
    """How large the difference is and whether that matters, in the words of docs/json.md."""
    effect, margin = result.effect, result.margin
    return {
        "effect": None if effect is None else effect.normalised[0],
        "effect_size": None if effect is None else effect.to_dict(),
        "margin": None if margin is None else margin.to_dict(),
    }


def resampled_outcome(
    name: str,
    sizes: tuple[int, ...],
    ensemble: Ensemble,
    values: Values,
    null: str,
    enumerated: bool,
    columns: ColumnEvidence | None = None,
) -> TestOutcome:
    """The result of a test from the statistics of the data and of every resample.

    The p-values of columns and pairs are closed under the test of all: a column can differ only if the tables
    do, so no adjusted p-value is below that of the test, and the test of a table's only column is the test.
    """
    refuse_non_finite(values.statistics)
    own, fused = values.statistics, fuse(values, ensemble.plan)
    shown = fused.statistic
    family = ensemble.plan.family
    order = np.lexsort((-fused.kernels[0], family))
    best = order[np.flatnonzero(np.diff(family[order], prepend=-1))]  # the strongest kernel of every member
    members = tuple(
        MemberResult(ensemble.kernels[j], float(own[0, j]), float(says))
        for j, says in zip(best, fused.members[0], strict=True)
    )
    averaged = ensemble.plan.averaged
    strongest = max(members, key=lambda member: member.statistic if averaged else member.neg_log_p)
    pvalue = nulls.resampled_pvalue(float(shown[0]), shown[1:])
    by_column = None
    if columns is not None:
        if len(columns.names) == 1:
            columns = columns._replace(effects=(float(shown[0]),), neg_log_pvalues=shown[:, None])
        by_column = columns.results(pvalue)
    findings: tuple[Finding, ...] = ()
    if ensemble.fused:
        findings = find_columns(ensemble.kernels, fused.kernels, pvalue, columns, by_column)
    return TestOutcome(
        statistic=float(shown[0]),
        pvalue=pvalue,
        null_distribution=np.sort(shown) if enumerated else shown[1:],
        kernel=strongest.kernel,
        effect_of_kernel=float(shown[0]) if averaged else strongest.statistic,
        name=name,
        null=null,
        sizes=sizes,
        members=members,
        averaged=averaged,
        learned=ensemble.learned,
        columns=by_column,
        enumerated=enumerated,
        findings=findings,
    )


def subjects(kernels: tuple[Any, ...]) -> tuple[dict[tuple[str, ...], int], Int[np.ndarray, " J"]]:
    """Columns and pairs that kernels look at, each with its number, and the number of every kernel.

    It is -1 for a kernel of all columns; a kernel object that names columns does so by place.
    """
    places: dict[tuple[str, ...], int] = {}
    where = [
        places.setdefault(kernel.columns, len(places)) if isinstance(kernel, Named) and kernel.columns else -1
        for kernel in kernels
    ]
    return places, np.array(where)


def find_columns(
    kernels: tuple[Any, ...],
    neg_log_pvalues: Float[np.ndarray, "C J"],
    overall: float,
    columns: ColumnEvidence | None,
    by_column: ColumnResults | None,
) -> tuple[Finding, ...]:
    """P-values of single columns and pairs, each by all its kernels, adjusted for all of them.

    Where columns were tested individually, those tests stand for the columns.
    """
    places, where = subjects(kernels)
    if len(places) < 2:
        return ()
    T = combined(neg_log_pvalues, where)
    tested = {} if by_column is None else {(column.name,): column for column in by_column}
    if columns is not None:
        pairs = [k for k, names in enumerate(places) if names not in tested]
        T = np.hstack([columns.neg_log_pvalues, T[:, pairs]])
        places = {names: k for k, names in enumerate([*tested, *(list(places)[k] for k in pairs)])}
    single, adjusted = nulls.column_pvalues(T[0], T[1:]), nulls.step_down(T[0], T[1:])
    found = []
    for names, k in places.items():
        p, corrected = float(single[k]), max(float(adjusted[k]), overall)
        if names in tested:
            p, corrected = tested[names].pvalue, tested[names].adjusted_pvalue
        found.append((corrected, p, len(names), -T[0, k], names))  # columns before pairs where p-values tie
    found.sort(key=lambda each: each[:4])
    return tuple(Finding(names, p, corrected) for corrected, p, _, _, names in found)


def approximate_outcome(
    name: str,
    sizes: tuple[int, ...],
    ensemble: Ensemble,
    procedure: Procedure,
    value: float,
    moments: tuple[float, float],
    weights: Callable[[], Float[np.ndarray, " L"]],
) -> TestOutcome:
    """The result of a test of one kernel without resampling, by the moments of the biased statistic's null.

    The gamma law of that mean and variance, or the spectral Σ_l w_l z_l². The unbiased statistic is the
    biased one less its null mean.
    """
    count, rng, (mean, variance) = procedure.n_resamples, procedure.rng, moments
    refuse_non_finite(np.array([value, mean, variance]))
    shift = 0.0 if procedure.biased else mean
    if procedure.null == "gamma" or variance == 0.0:
        draws = nulls.gamma_draws(mean, variance, count, rng) - shift
        pvalue = nulls.gamma_pvalue(value + shift, mean, variance)
    else:
        w = weights()
        draws = nulls.weighted_chi_squares(w, count, rng) - w.sum() + mean - shift
        pvalue = nulls.resampled_pvalue(value, draws)
    (kernel,) = ensemble.kernels
    members = (MemberResult(kernel, value, float(-np.log(max(pvalue, np.finfo(float).tiny)))),)
    return TestOutcome(
        value, pvalue, draws, kernel, value, name, procedure.null, sizes, members, learned=ensemble.learned
    )


def swapped_outcome(result: TestOutcome) -> TestOutcome:
    """The outcome of an independence test with the sides the other way round."""

    def swapped(kernel: Any) -> Any:
        return kernel[::-1] if isinstance(kernel, tuple) else kernel.swapped()

    return replace(
        result,
        kernel=swapped(result.kernel),
        members=tuple(replace(member, kernel=swapped(member.kernel)) for member in result.members),
        learned=result.learned[::-1],
        findings=tuple(replace(finding, columns=finding.columns[::-1]) for finding in result.findings),
    )


def nothing(name: str, null: str, sizes: tuple[int, ...]) -> TestOutcome:
    """What `nan_policy="propagate"` returns where values are missing."""
    nan = float("nan")
    return TestOutcome(nan, nan, np.empty(0), "none", nan, name, null, sizes)

"""What a test returns: the verdict, the evidence behind it, and the kernel it rests on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.drawing import Drawn
from kembed.learning.evidence import Evidence
from kembed.permutation import nulls
from kembed.permutation.statistics import Values, fuse, standardised
from kembed.testing.procedure import Choice, Procedure


@dataclass(frozen=True, eq=False)
class MemberResult:
    """One kernel of a fused test: its own statistic and how far that lies out under the null."""

    kernel: Any
    statistic: float  # MMD² or HSIC with this kernel
    z: float  # standard deviations above the mean, over the data and all resamples; at most √B

    def __repr__(self) -> str:
        return f"MemberResult({self.kernel!r}, statistic={self.statistic:.4g}, z={self.z:.2f})"


@dataclass(frozen=True, eq=False)
class ColumnResult:
    """The test of one column, and its p-value corrected for looking at all of them."""

    name: str
    statistic: float
    pvalue: float
    adjusted_pvalue: float  # step-down max-T (Westfall & Young 1993)

    def __repr__(self) -> str:
        numbers = (f"{name}={getattr(self, name):.4g}" for name in ("statistic", "pvalue", "adjusted_pvalue"))
        return f"ColumnResult({self.name!r}, {', '.join(numbers)})"


ColumnResults = tuple[ColumnResult, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TestOutcome(Drawn):
    """The outcome of `mmd_test` or `hsic_test`.

    `statistic` is MMD² (HSIC) with `kernel`; with several kernels it is the fused statistic, in standard
    deviations over the data and all resamples, `kernel` is the one that spoke loudest and `effect` its MMD²
    (HSIC); for independence kernels come in pairs. `members` has every kernel's own statistic.
    `null_distribution` holds the statistic of every resample (of all arrangements, where there are few).
    `learned` is what was learned about scales, empty if nothing was: the `Evidence` of the pooled rows, or of
    either side for independence (None for a side that had nothing to learn from).
    """

    __test__ = False  # not a test of pytest

    statistic: float
    pvalue: float
    null_distribution: Float[np.ndarray, " B"]
    kernel: Any
    effect: float
    name: str  # "MMD²" or "HSIC"
    null: str
    sizes: tuple[int, ...]
    members: tuple[MemberResult, ...] = ()
    learned: tuple[Evidence | None, ...] = ()
    columns: ColumnResults | None = None
    enumerated: bool = False

    def __repr__(self) -> str:
        value, which = f"{self.name} = {self.statistic:.4g}", "kernel"
        if len(self.members) > 1:
            value = f"fused {self.name}: {self.statistic:.2f} sd"
            z = max(member.z for member in self.members)
            which = f"strongest of {len(self.members)} kernels, {z:.1f} sd"
        resamples = len(self.null_distribution)
        words = "resample" if resamples == 1 else "resamples"
        every = " (all of them)" if self.enumerated else ""
        how = f"{self.null} null" + (f", {resamples} {words}{every}" if resamples else "")
        parts = self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)
        kernel = " x ".join(part if isinstance(part, str) else repr(part) for part in parts)
        lines = [
            f"  {column.name}: p = {column.pvalue:.4g}, for all columns {column.adjusted_pvalue:.4g}"
            for column in self.columns or ()
        ]
        size = " + ".join(map(str, self.sizes))
        first = f"{value}, p = {self.pvalue:.4g} ({how}; {size} rows)"
        return "\n".join([first, f"{which}: {kernel}", *lines])


def outcome_to_dict(result: TestOutcome) -> dict[str, Any]:
    """The outcome of a test in the words of docs/json.md."""
    columns = None if result.columns is None else [vars(column) for column in result.columns]
    return {
        "pvalue": result.pvalue,
        "statistic": result.statistic,
        "statistic_unit": "standard deviations" if len(result.members) > 1 else result.name,
        "effect": result.effect,
        "effect_unit": result.name,
        "kernel_used": repr(result.kernel),
        "null": result.null,
        "resamples": len(result.null_distribution),
        "enumerated": result.enumerated,
        "by_column": columns,
    }


def resampled_outcome(
    name: str, sizes: tuple[int, ...], choice: Choice, values: Values, null: str, enumerated: bool
) -> TestOutcome:
    """The result of a test from the statistics of the data and of every resample."""
    ranked = values.ranked()
    z = standardised(ranked)[0]
    own = values.statistics[0].tolist()
    members = tuple(MemberResult(*each) for each in zip(choice.kernels, own, z.tolist(), strict=True))
    loudest, combined, shown = 0, ranked[:, 0], values.statistics[:, 0]
    if len(members) > 1:
        combined = shown = fuse(ranked, choice.shares)
        loudest = int(np.argmax(z))
    return TestOutcome(
        statistic=float(shown[0]),
        pvalue=nulls.resampled_pvalue(float(combined[0]), combined[1:]),
        null_distribution=np.sort(shown) if enumerated else shown[1:],
        kernel=members[loudest].kernel,
        effect=members[loudest].statistic,
        name=name,
        null=null,
        sizes=sizes,
        members=members,
        learned=choice.learned,
        enumerated=enumerated,
    )


def approximate_outcome(
    name: str,
    sizes: tuple[int, ...],
    choice: Choice,
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
    shift = 0.0 if procedure.biased else mean
    if procedure.null == "gamma" or variance == 0.0:
        draws = nulls.gamma_draws(mean, variance, count, rng) - shift
        pvalue = nulls.gamma_pvalue(value + shift, mean, variance)
    else:
        w = weights()
        draws = nulls.weighted_chi_squares(w, count, rng) - w.sum() + mean - shift
        pvalue = nulls.resampled_pvalue(value, draws)
    z = (value + shift - mean) / np.sqrt(variance) if variance > 0.0 else 0.0
    (kernel,) = choice.kernels
    members = (MemberResult(kernel, value, float(z)),)
    return TestOutcome(
        value, pvalue, draws, kernel, value, name, procedure.null, sizes, members, choice.learned
    )


def nothing(name: str, null: str, sizes: tuple[int, ...]) -> TestOutcome:
    """What `nan_policy="propagate"` returns where values are missing."""
    nan = float("nan")
    return TestOutcome(nan, nan, np.empty(0), "none", nan, name, null, sizes)

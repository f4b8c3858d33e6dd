"""How a test is to be done: what `mmd_test` and `hsic_test` are told alike, and the kernels they use."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.learning.evidence import Evidence
from kembed.permutation.fusion import Plan
from kembed.permutation.gram import Pairs
from kembed.permutation.low_rank import Member, member_pairs
from kembed.permutation.series import Persistence, wild_columns

STATISTICS = ("auto", "unbiased", "biased", "features")
NULLS = ("permutation", "gamma", "spectral", "wild")
SERIES = ("wild", "shift")  # rows are in order of time
# Rows in all up to which "auto" takes all pairs of them: a few seconds; `benchmarks/binned.py` has the
# powers.
EXACT_ROWS = 5_000
CROSSED_ROWS = 4_000  # the same of pairs of x and y; `benchmarks/independence_size.py`
FEATURES = 256  # random Fourier features of a kernel, where the null is not one of permutations
# NumPy need not warn on the way of numbers that are too large: a statistic that is not finite is an error.
QUIETLY: Any = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}


@dataclass(frozen=True)
class Procedure:
    """Statistic, null, number of resamples, memory of a time series, rows at once, and the seed."""

    statistic: str
    null: str
    n_resamples: int
    memory: float | None
    batch: int | None
    rng: np.random.Generator

    def in_bins(self, rows: int) -> bool:
        """Whether features are summed by bin, for so many rows in all, and not all pairs of rows."""
        if self.null != "permutation":
            return False
        return self.statistic == "features" or (self.statistic == "auto" and rows > EXACT_ROWS)

    def crosses(self, rows: int) -> bool:
        """The same for an independence test of so many rows: whether features are crossed by bin."""
        if self.null != "permutation":
            return False
        return self.statistic == "features" or (self.statistic == "auto" and rows > CROSSED_ROWS)

    @property
    def biased(self) -> bool:
        """Whether the terms i = j count."""
        return self.statistic == "biased" or self.null == "wild"

    @property
    def features(self) -> int | None:
        """How many random features stand for a kernel; None: the kernel itself."""
        return FEATURES if self.statistic == "features" else None

    @property
    def approximate(self) -> bool:
        """Whether the null is a formula."""
        return self.null in ("gamma", "spectral")

    def wild_columns(
        self, sizes: Sequence[int], series: Sequence[Persistence], *, tails: bool = True
    ) -> list[Float[np.ndarray, "n C"]]:
        """Weights of the rows of one or more time series: 1 for the data, then wild processes."""
        W = wild_columns(sizes, series, self.n_resamples, self.memory, self.rng, tails)
        return [np.hstack([np.ones((len(weights), 1)), weights]) for weights in W]


def read_procedure(
    statistic: Any,
    null: Any,
    n_resamples: Any,
    memory: Any,
    batch: Any,
    rng: Any,
    allowed: tuple[str, ...] = NULLS,
) -> Procedure:
    """Check everything, and say what is wrong."""
    checks.choice(statistic, "statistic", STATISTICS)
    checks.choice(null, "null", allowed)
    n_resamples = checks.resamples(n_resamples)
    batch = None if batch is None else checks.count(batch, "batch", 1)
    memory = None if memory is None else float(checks.positive(memory, "memory"))
    if memory is not None and null != "wild":
        raise ValueError("memory is for null='wild' (time series); leave it out, or set null='wild'")
    return Procedure(statistic, null, n_resamples, memory, batch, checks.generator(rng))


@dataclass(frozen=True, eq=False)
class Choice:
    """Kernels as a test uses them, what to call each, how they are fused, and what was learned."""

    members: tuple[Member, ...]
    kernels: tuple[Any, ...]
    plan: Plan
    learned: tuple[Evidence | None, ...] = ()
    fused: bool = False  # the word "fused" and nothing else

    @property
    def one(self) -> Pairs:
        """The single kernel, in rectangles."""
        (member,) = self.members
        return member_pairs(member)


def every_one(count: int) -> Plan:
    """So many kernels, each of them a group of its own."""
    return Plan(np.arange(count), np.arange(count), np.zeros(count, dtype=bool))


def together(parts: list[Choice]) -> Choice:
    """Several choices fused: all of their groups side by side."""
    plans = [part.plan for part in parts]
    members = np.cumsum([0, *(len(plan.group) for plan in plans)])
    groups = np.cumsum([0, *(len(plan.added) for plan in plans)])
    plan = Plan(
        np.concatenate([plan.member + start for plan, start in zip(plans, members[:-1], strict=True)]),
        np.concatenate([plan.group + start for plan, start in zip(plans, groups[:-1], strict=True)]),
        np.concatenate([plan.added for plan in plans]),
        np.concatenate([plan.counts for plan in plans]),
    )
    return Choice(
        tuple(member for part in parts for member in part.members),
        tuple(kernel for part in parts for kernel in part.kernels),
        plan,
        next((part.learned for part in parts if part.learned), ()),
    )


def is_sketch(value: Any) -> bool:
    """Whether it is a `Sketch`; where their file was never loaded there is none."""
    loaded = sys.modules.get("kembed.testing.sketch")
    return loaded is not None and isinstance(value, loaded.Sketch)

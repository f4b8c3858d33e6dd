"""How a test is to be done: the arguments that `mmd_test` and `hsic_test` share."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.permutation.series import Persistence, wild_columns

STATISTICS = ("auto", "unbiased", "biased", "features")
NULLS = ("permutation", "gamma", "spectral", "wild")
SERIES = ("wild", "shift")  # rows are in order of time
# Rows in all up to which "auto" fits features on all of them and takes neighbours of every row.
COMPLETE_ROWS = 5_000
CROSSED_ROWS = 4_000  # rows of an independence test re-paired one by one; `benchmarks/independence_size.py`
FEW_ARRANGEMENTS = 20  # fewer cannot reach p = .05
# NumPy need not warn on the way of numbers that are too large: a statistic that is not finite is an error.
QUIETLY: Any = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}


@dataclass(frozen=True)
class Procedure:
    """Statistic, null, number of resamples, memory of a time series, and the seed."""

    statistic: str
    null: str
    n_resamples: int
    dependence_length: float | None
    rng: np.random.Generator

    def complete(self, rows: int) -> bool:
        """Whether all of so many rows in memory fit the features, and members that need all of them count."""
        if self.statistic == "features":
            return False
        return self.statistic != "auto" or self.null != "permutation" or rows <= COMPLETE_ROWS

    @property
    def streams(self) -> bool:
        """Whether rows beyond memory can be tested block by block."""
        return self.null == "permutation" and self.statistic in ("auto", "features")

    def by_features(self, rows: int) -> bool:
        """Whether an independence test of so many rows crosses features that a sample of them has fitted."""
        if self.null not in ("permutation", "shift"):
            return self.null == "normal"
        return self.statistic == "features" or (self.statistic == "auto" and rows > CROSSED_ROWS)

    @property
    def biased(self) -> bool:
        """Whether the terms i = j count."""
        return self.statistic == "biased" or self.null == "wild"

    @property
    def approximate(self) -> bool:
        """Whether the null is a formula."""
        return self.null in ("gamma", "spectral")

    def wild_columns(
        self, sizes: Sequence[int], series: Sequence[Persistence], *, tails: bool = True
    ) -> list[Float[np.ndarray, "n C"]]:
        """Weights of the rows of one or more time series: 1 for the data, then wild processes."""
        W = wild_columns(sizes, series, self.n_resamples, self.dependence_length, self.rng, tails)
        return [np.hstack([np.ones((len(weights), 1)), weights]) for weights in W]


def read_procedure(
    statistic: Any,
    null: Any,
    n_resamples: Any,
    dependence_length: Any,
    rng: Any,
    allowed: tuple[str, ...] = NULLS,
) -> Procedure:
    """Check everything, and say what is wrong."""
    checks.choice(statistic, "statistic", STATISTICS)
    checks.choice(null, "null", allowed)
    n_resamples = checks.resamples(n_resamples)
    if dependence_length is not None:
        dependence_length = float(checks.positive(dependence_length, "dependence_length"))
    if statistic == "features" and null in ("gamma", "spectral", "wild"):
        seen = f"statistic='features' (--fast) goes with null='permutation', but null={null!r} was given"
        raise ValueError(f"{seen}; leave one of them out")
    if dependence_length is not None and null != "wild":
        seen = "dependence_length is for null='wild' (time series)"
        raise ValueError(f"{seen}; leave it out, or set null='wild'")
    return Procedure(statistic, null, n_resamples, dependence_length, checks.generator(rng))


def is_fused(kernel: Any) -> bool:
    """Whether a kernel stands for, or contains, the ensemble of the fused test."""
    return "fused" in _words(kernel)


def is_by_features(kernel: Any, statistic: str) -> bool:
    """Whether the two-sample test of a kernel is one of features: the fused test, or the Bayes factor."""
    return is_fused(kernel) or ("bkl" in _words(kernel) and statistic in ("auto", "features"))


def _words(kernel: Any) -> set[str]:
    if isinstance(kernel, list | tuple):
        return set().union(*map(_words, kernel))
    return {kernel} if isinstance(kernel, str) else set()


def is_sketch(value: Any) -> bool:
    """Whether it is a `Sketch`; where their file was never loaded there is none."""
    loaded = sys.modules.get("kembed.testing.sketch")
    return loaded is not None and isinstance(value, loaded.Sketch)

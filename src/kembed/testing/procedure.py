"""How a test is to be done: what `mmd_test` and `hsic_test` are told alike, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks

STATISTICS = ("unbiased", "biased", "features")
NULLS = ("permutation", "gamma", "spectral", "wild")
# Random Fourier features of a kernel; `docs/howto/large-data.md` has their power beside the exact one's.
FEATURES = 256


@dataclass(frozen=True)
class Procedure:
    """Statistic, null, number of resamples, memory of a time series, rows at once, and the seed."""

    statistic: str
    null: str
    n_resamples: int
    memory: float | None
    batch: int | None
    rng: np.random.Generator

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


def read_procedure(
    statistic: Any, null: Any, n_resamples: Any, memory: Any, batch: Any, rng: Any
) -> Procedure:
    """Check everything, and say what is wrong."""
    checks.choice(statistic, "statistic", STATISTICS)
    checks.choice(null, "null", NULLS)
    n_resamples = checks.count(n_resamples, "n_resamples", 1)
    batch = None if batch is None else checks.count(batch, "batch", 1)
    memory = None if memory is None else float(checks.positive(memory, "memory"))
    if memory is not None and null != "wild":
        raise ValueError("memory is for null='wild' (time series); leave it out, or set null='wild'")
    return Procedure(statistic, null, n_resamples, memory, batch, checks.generator(rng))

"""What was learned about scales, in one shape: a curve of evidence, its peaks, and the unit they are in.

And which scales have evidence, quickly: the scan of `learn_kernel` without its refinement, on a
subsample. Good enough to place a grid of scales; whoever wants the kernel itself calls `learn_kernel`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kembed.core.backend import Float
from kembed.core.ordering import sorted_rows
from kembed.kernels.stationary import Gaussian
from kembed.learning import search
from kembed.learning.families import Family
from kembed.learning.problem import Effort, Spec, prepare

# Words choose kernels on columns over their spreads; what `learn_kernel` learns is in the user's units.
SPREADS = "spreads of the columns"
USUAL = Effort(centres=500, entries=250_000, bags=1)  # enough to place a grid of scales
# For hundreds of scans in a row; `benchmarks/conditional.py` has how far it is from `learn_kernel`.
COARSE = Effort(centres=200, entries=40_000, per_decade=5, bags=1)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Log evidence of one row over lengthscales, and its local maxima, the best first.

    It is what was maximised: the log prior is in it. `unit` says what lengthscales are measured in, "" for
    the units of the data; `median` is the median rule and `range` that of the one column there is, in the
    same unit, where known; `model` is the `LearnedKernel` behind it, None after a mere scan.
    """

    lengthscales: Float[np.ndarray, " L"]
    log_evidence: Float[np.ndarray, " L"]
    peaks: Float[np.ndarray, " P"]
    unit: str = ""
    median: float | None = None
    model: Any = None
    range: float | None = None

    def times(self, size: float) -> Self:
        """The same in units that are so much smaller: those of the data."""
        median, range_ = (None if one is None else size * one for one in (self.median, self.range))
        scaled = {"lengthscales": size * self.lengthscales, "peaks": size * self.peaks}
        return replace(self, **scaled, unit="", median=median, range=range_)

    def __repr__(self) -> str:
        peaks = ", ".join(f"{peak:.3g}" for peak in self.peaks)
        unit = f" {self.unit}" if self.unit else ""
        return f"Evidence(peaks at lengthscale {peaks}{unit})"


def typical_lengthscale(kernel: Any) -> float:
    """One number for a kernel's scale: the smallest of several scales, the geometric mean over columns."""
    if hasattr(kernel, "lengthscales"):
        return float(np.min(kernel.lengthscales))
    by_columns = kernel.lengthscale if kernel.cholesky is None else np.sqrt(np.diagonal(kernel.covariance))
    return float(np.exp(np.log(by_columns).mean()))


def scan_evidence(x: Float[np.ndarray, "n D"], effort: Effort = USUAL) -> Evidence:
    """The scan over an isotropic Gaussian's lengthscale: a function of the unordered rows.

    The rows must not all be equal. Peaks at the ends of the scan are left out, unless there is no other.
    """
    family = Family(Gaussian, "isotropic")
    prepared = prepare(sorted_rows(x), family, effort, np.random.default_rng(0))
    scales, values, _ = search.scan(Spec(family), prepared)
    peaks = search.local_maxima(values)
    inside = [k for k in peaks if 0 < k < len(scales) - 1] or peaks[:1]
    size = float(prepared.frame.scale[0]) * prepared.carried
    at = np.array([_between(np.log(scales), values, k) for k in inside])
    return Evidence(scales * size, values / prepared.n - prepared.frame.log_unit, at * size)


def _between(logs: Float[np.ndarray, " L"], values: Float[np.ndarray, " L"], k: int) -> float:
    """The scale of a peak, between points of the grid where a parabola through three of them says so."""
    if not 0 < k < len(logs) - 1:
        return float(np.exp(logs[k]))
    left, middle, right = values[k - 1 : k + 2]
    bend = left - 2.0 * middle + right
    move = 0.5 * (left - right) / bend if np.isfinite(bend) and bend < 0.0 else 0.0
    return float(np.exp(logs[k] + (logs[1] - logs[0]) * move))

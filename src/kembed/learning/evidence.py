"""What was learned about scales, in one shape: a curve of evidence, its peaks, and the unit they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float

# Words choose kernels on columns over their spreads; what `learn_kernel` learns is in the user's units.
SPREADS = "spreads of the columns"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Log evidence of one row over lengthscales, and its local maxima, the best first.

    `unit` says what lengthscales are measured in, "" for the units of the data; `median` is the median rule
    in the same unit, where it is known; `model` is the `LearnedKernel` behind it, None after a mere scan.
    """

    lengthscales: Float[np.ndarray, " L"]
    log_evidence: Float[np.ndarray, " L"]
    peaks: Float[np.ndarray, " P"]
    unit: str = ""
    median: float | None = None
    model: Any = None

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

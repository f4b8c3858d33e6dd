"""The kernels of the fused test: scales of the evidence, scales around the median, whitened embeddings.

One lengthscale, however chosen, cannot win everywhere. Gaussians see shifts and shapes at their own scale;
the whitened embedding measures the difference of mean features at landmarks against the covariance of those
features, which finds changes of variance, correlation and contamination that a plain distance drowns. What
goes in was chosen on the development suite of `benchmarks/alternatives.py` and then left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kembed._evidence_scan import EvidenceScan, scan_evidence
from kembed._factors import Factor, whitened
from kembed._frame import lexicographic
from kembed._linalg import squared_distances
from kembed._sample_space import Space
from kembed.landmarks import Landmarks, place

if TYPE_CHECKING:
    from jaxtyping import Float

MAX_PEAKS = 2
LANDMARKS = 100
RATIOS = (1 / 16, 1 / 4, 1.4, 2.8)  # of the median distance
WHITENED_AT_PEAK, WHITENED_WIDE = 1e-2, 1e-3  # ridges, as shares of the trace
WIDE = 2.0  # of the median distance


@dataclass(frozen=True, eq=False)
class FusedKernels:
    """Lengthscales of Gaussians, whitened factors, what to call those, and every kernel's share."""

    lengthscales: Float[np.ndarray, " J"]
    whitened: tuple[Factor, ...]
    whitened_names: tuple[str, ...]
    shares: Float[np.ndarray, " J"]
    learned: EvidenceScan | None


def fused_kernels(space: Space) -> FusedKernels:
    """The members of the fused test on these rows."""
    rows = space.numeric
    median = space.median()
    scan = None
    if len(rows) >= 8 and not (rows == rows[0]).all():
        scan = scan_evidence(rows)
    peaks = [] if scan is None else [float(peak) for peak in scan.peaks[:MAX_PEAKS]]
    lengthscales = np.array([*peaks, *(ratio * median for ratio in RATIOS)])
    factors, names = [], []
    for ell, ridge in [*((peak, WHITENED_AT_PEAK) for peak in peaks), (WIDE * median, WHITENED_WIDE)]:
        factors.append(whitened(landmark_features(space, ell), ridge))
        names.append(f"whitened({space.kernel(ell)!r}, ridge={ridge:g})")
    count = len(lengthscales) + len(factors)
    return FusedKernels(lengthscales, tuple(factors), tuple(names), np.full(count, 1.0 / count), scan)


def landmark_features(space: Space, ell: float) -> Float[np.ndarray, "N m"]:
    """k(x_i, z_l) at landmarks chosen from the unordered rows."""
    numeric, codes = space.numeric, space.codes
    rows = np.column_stack([numeric, codes])
    count = max(2, min(LANDMARKS, len(rows) // 4))
    E = numeric.shape[1]
    if codes.shape[1]:  # landmarks must be rows: there is nothing between two categories
        z = place(lexicographic(rows), Landmarks("subset", count), np.random.default_rng(0))
    else:
        z = place(rows, Landmarks("support", count), np.random.default_rng(0))
    squared = squared_distances(numeric, z[:, :E])
    for c, penalty in enumerate(space.penalty):
        squared += penalty**2 * (codes[:, c, None] != z[:, E + c])
    return np.exp(squared / (-2.0 * ell**2))

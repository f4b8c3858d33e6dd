"""The kernels of the fused tests: scales of the evidence, scales around the median, whitened embeddings.

One lengthscale, however chosen, cannot win everywhere. Gaussians see shifts and shapes at their own scale;
the whitened embedding measures the difference of mean features at landmarks against the covariance of those
features, which finds changes of variance, correlation and contamination that a plain distance drowns. What
goes in, and with what share, was chosen on the development suite of `benchmarks/alternatives.py` and then
frozen; `benchmarks/power.py` judges it on the held-out suite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kembed.data.space import Space
from kembed.embeddings.landmarks import Landmarks, place
from kembed.kernels.base import Kernel
from kembed.kernels.of_space import space_kernel
from kembed.learning.evidence import SPREADS, Evidence
from kembed.learning.scan import scan_evidence
from kembed.permutation.low_rank import Deferred, Factor, whitened

if TYPE_CHECKING:
    from jaxtyping import Float

LANDMARKS = 100
MAX_PEAKS = 3
LEAST_ROWS = 8  # fewer say nothing about scales
STAND_IN = 0.7  # of the median distance, where there is no evidence: what it chooses for normal data

# Two samples: (ratio to the median distance, share), and (ratio, ridge, share).
GAUSSIANS = ((2.83, 9.0), (0.5, 2.0), (0.125, 3.0), (0.031, 0.5))
WHITENED = ((2.0, 1e-3, 4.0), (0.5, 1e-3, 3.0), (0.25, 1e-2, 2.0))
# At the best mode of the evidence: the Gaussian's share, and (ridge, share); at further modes.
AT_PEAK, WHITENED_AT_PEAK = 1.0, ((1e-2, 6.0), (1e-3, 4.0))
AT_OTHERS, WHITENED_AT_OTHERS = 1.0, ((1e-3, 2.0),)

# Independence: every side has a wide, a fine and the evidence's Gaussian, and three whitened embeddings, each
# of which meets its twin.
SIDE_RATIOS = (4.0, 0.125)
SIDE_SHARES = np.array([[8.0, 2.0, 2.0], [2.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
SIDE_WHITENED = ((2.0, 1e-1), (2.0, 1e-3))  # and the evidence's scale with
SIDE_PEAK_RIDGE = 1e-2
SIDE_WHITENED_SHARE = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class Whitened:
    """The whitened embedding: φ(x)ᵀ(Σ + ρI)⁻¹φ(y), features of `kernel` at landmarks, ρ = ridge · trace Σ."""

    kernel: Kernel
    ridge: float

    def __repr__(self) -> str:
        return f"Whitened({self.kernel!r}, ridge={self.ridge:g})"


@dataclass(frozen=True, eq=False)
class FusedKernels:
    """Lengthscales of Gaussians, whitened factors, what to call those, and every kernel's share."""

    lengthscales: Float[np.ndarray, " J"]
    whitened: tuple[Deferred, ...]
    whitened_names: tuple[Whitened, ...]
    shares: Float[np.ndarray, " K"]
    learned: Evidence | None


def fused_kernels(space: Space) -> FusedKernels:
    """The members of the fused two-sample test on these rows."""
    median = space.median()
    scan, peaks = _peaks(space, median)
    scales = [(ratio * median, share) for ratio, share in GAUSSIANS]
    flat = [(ratio * median, ridge, share) for ratio, ridge, share in WHITENED]
    for k, peak in enumerate(peaks):
        scales.append((peak, AT_OTHERS if k else AT_PEAK))
        flat += [(peak, ridge, share) for ridge, share in (WHITENED_AT_OTHERS if k else WHITENED_AT_PEAK)]
    shares = np.array([share for _, share in scales] + [share for *_, share in flat])
    factors, names = _whitened(space, [(ell, ridge) for ell, ridge, _ in flat])
    return FusedKernels(np.array([ell for ell, _ in scales]), factors, names, shares / shares.sum(), scan)


def fused_side(space: Space) -> FusedKernels:
    """The members on one side of the fused independence test."""
    median = space.median()
    scan, (peak, *_) = _peaks(space, median)
    lengthscales = np.array([*(ratio * median for ratio in SIDE_RATIOS), peak])
    flat = [*((ratio * median, ridge) for ratio, ridge in SIDE_WHITENED), (peak, SIDE_PEAK_RIDGE)]
    factors, names = _whitened(space, flat)
    shares = np.array([*SIDE_SHARES.sum(axis=1), *([SIDE_WHITENED_SHARE] * len(flat))])
    return FusedKernels(lengthscales, factors, names, shares / shares.sum(), scan)


def _peaks(space: Space, median: float) -> tuple[Evidence | None, list[float]]:
    """Scales the evidence speaks for, the best first; at least one."""
    rows = space.numeric
    if len(rows) < LEAST_ROWS or (rows == rows[0]).all():
        return None, [STAND_IN * median]
    scan = replace(scan_evidence(rows), unit=SPREADS, median=median)
    return scan, [float(peak) for peak in scan.peaks[:MAX_PEAKS]]


def _whitened(
    space: Space, scales: list[tuple[float, float]]
) -> tuple[tuple[Deferred, ...], tuple[Whitened, ...]]:
    squared = _landmark_distances(space)
    factors, names = [], []
    for ell, ridge in scales:

        def make(ell: float = ell, ridge: float = ridge) -> Factor:
            return whitened(np.exp(squared / (-2.0 * ell**2)), ridge)

        factors.append(Deferred(len(squared), make))
        names.append(Whitened(space_kernel(space, ell), ridge))
    return tuple(factors), tuple(names)


def _landmark_distances(space: Space) -> Float[np.ndarray, "N m"]:
    """d²(x_i, z_l) to landmarks chosen from the unordered rows."""
    # Between two categories there is nothing, so with discrete columns landmarks must be rows.
    name = "subset" if space.categorical.any() else "support"
    rule = Landmarks(name, max(2, min(LANDMARKS, len(space.rows) // 4)))
    return space.distances(space.rows, place(space.rows, rule, np.random.default_rng(0)))

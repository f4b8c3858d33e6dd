"""Which scales the evidence speaks for, quickly: the scan of `learn_kernel` without its refinement.

A subsample, few landmarks, few integration points, NumPy only. Good enough to place a grid of scales; whoever
wants the kernel itself calls `learn_kernel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kembed.core.ordering import distinct_rows, sorted_rows, sorted_to_rounding
from kembed.embeddings.landmarks import Landmarks, place
from kembed.kernels.stationary import Gaussian
from kembed.learning import search
from kembed.learning.evidence import Evidence
from kembed.learning.families import Family
from kembed.learning.frame import spread_along
from kembed.learning.integration import integration_rule
from kembed.learning.problem import Spec, pose

if TYPE_CHECKING:
    from jaxtyping import Float

MAX_ROWS = 500
LANDMARKS = 50
DRAWS = 1_024
BANK = 4
# A volume element costs the cube of the axes; beyond these few the scan looks at the widest ones.
MAX_AXES = 16


class Effort(NamedTuple):
    """How much a scan looks at."""

    rows: int
    landmarks: int
    draws: int
    per_decade: int
    temperatures: Float[np.ndarray, " T"]


USUAL = Effort(MAX_ROWS, LANDMARKS, DRAWS, search.PER_DECADE, search.TEMPERATURES)
# For hundreds of scans in a row; `benchmarks/conditional.py` has how far it is from `learn_kernel`.
COARSE = Effort(120, 16, 256, 3, np.geomspace(0.1, 1.0, 2))


def scan_evidence(x: Float[np.ndarray, "n D"], effort: Effort = USUAL) -> Evidence:
    """The scan over an isotropic Gaussian's lengthscale: a function of the unordered rows.

    The rows must not all be equal. Peaks at the ends of the scan are left out, unless there is no other.
    """
    rng = np.random.default_rng(0)
    rows = sorted_rows(x)
    family = Family(Gaussian, "isotropic")
    frame = family.frame(rows)
    y = sorted_to_rounding(frame.into(rows))
    if len(y) > effort.rows:
        y = y[np.sort(rng.choice(len(y), effort.rows, replace=False))]
    whole = y
    y = sorted_to_rounding(y[:, :MAX_AXES]) if y.shape[1] > MAX_AXES else y
    # Distances shrink when axes are left out; what was found is stretched back.
    stretch = 1.0
    if y is not whole:
        stretch = float(np.sqrt((whole**2).sum(axis=1).mean() / (y**2).sum(axis=1).mean()))
    n, E = y.shape
    z = place(y, Landmarks("support", max(min(effort.landmarks, n // 2), E + 1)), rng)
    scales = search.data_scales(y, z, effort.per_decade)
    spread = spread_along(y[distinct_rows(y)])
    bank = np.geomspace(scales[0], np.sqrt(scales[0] * scales[-1]), BANK)
    rule = integration_rule(y, z, bank, rng, spread=spread, draws=effort.draws)
    problem = pose(y, z, rule, spread, frame, 0.0)
    scanned = search.scan(Spec(family), search.thin(problem, n, rng), scales, effort.temperatures)
    peaks = search.local_maxima(scanned.values)
    inside = [k for k in peaks if 0 < k < len(scales) - 1] or peaks[:1]
    size = float(frame.scale[0]) * stretch
    return Evidence(scales * size, scanned.values / n - frame.log_unit, scales[inside] * size)


def best_scale(scan: Evidence) -> float:
    """The best peak of a scan, between its points where a parabola through three of them says so."""
    k = int(np.flatnonzero(scan.lengthscales == scan.peaks[0])[0])
    logs, values = np.log(scan.lengthscales), scan.log_evidence
    if not 0 < k < len(logs) - 1:
        return float(scan.peaks[0])
    left, middle, right = values[k - 1 : k + 2]
    bend = left - 2.0 * middle + right
    if not (np.isfinite(bend) and bend < 0.0):
        return float(scan.peaks[0])
    return float(np.exp(logs[k] + (logs[1] - logs[0]) * 0.5 * (left - right) / bend))

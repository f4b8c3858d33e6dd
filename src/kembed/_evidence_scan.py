"""Which scales the evidence speaks for, quickly: the scan of `learn_kernel` without its refinement.

A subsample, few landmarks, few integration points, NumPy only. Good enough to place a grid of scales; whoever
wants the kernel itself calls `learn_kernel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kembed import _search
from kembed._families import Family
from kembed._frame import canonical_rows, distinct_rows, lexicographic, spread_along
from kembed._integration import integration_rule
from kembed._problem import Spec, pose
from kembed.kernels.stationary import Gaussian
from kembed.landmarks import Landmarks, place

if TYPE_CHECKING:
    from jaxtyping import Float

MAX_ROWS = 500
LANDMARKS = 50
DRAWS = 1_024
BANK = 4
# A volume element costs the cube of the axes; beyond these few the scan looks at the widest ones.
MAX_AXES = 16


class EvidenceScan(NamedTuple):
    """Log evidence a row over Gaussian lengthscales, and its local maxima, the best first."""

    lengthscales: Float[np.ndarray, " L"]
    log_evidence: Float[np.ndarray, " L"]
    peaks: Float[np.ndarray, " P"]


def scan_evidence(x: Float[np.ndarray, "n D"]) -> EvidenceScan:
    """The scan over an isotropic Gaussian's lengthscale: a function of the unordered rows.

    The rows must not all be equal. Peaks at the ends of the scan are left out, unless there is no other.
    """
    rng = np.random.default_rng(0)
    rows = lexicographic(x)
    family = Family(Gaussian, "isotropic")
    frame = family.frame(rows)
    y = canonical_rows(frame.into(rows))
    if len(y) > MAX_ROWS:
        y = y[np.sort(rng.choice(len(y), MAX_ROWS, replace=False))]
    whole = y
    y = canonical_rows(y[:, :MAX_AXES]) if y.shape[1] > MAX_AXES else y
    # Distances shrink when axes are left out; what was found is stretched back.
    stretch = 1.0
    if y is not whole:
        stretch = float(np.sqrt((whole**2).sum(axis=1).mean() / (y**2).sum(axis=1).mean()))
    n, E = y.shape
    z = place(y, Landmarks("support", max(min(LANDMARKS, n // 2), E + 1)), rng)
    scales = _search.data_scales(y, z)
    spread = spread_along(y[distinct_rows(y)])
    bank = np.geomspace(scales[0], np.sqrt(scales[0] * scales[-1]), BANK)
    rule = integration_rule(y, z, bank, rng, spread=spread, draws=DRAWS)
    problem = pose(y, z, rule, spread, frame, 0.0)
    scanned = _search.scan(Spec(family), _search.thin(problem, n, rng), scales)
    peaks = _search.local_maxima(scanned.values)
    inside = [k for k in peaks if 0 < k < len(scales) - 1] or peaks[:1]
    size = float(frame.scale[0]) * stretch
    return EvidenceScan(scales * size, scanned.values / n - frame.log_unit, scales[inside] * size)

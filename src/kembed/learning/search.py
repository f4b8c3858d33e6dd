"""Finding every mode: scan a log grid of scales, refine each local maximum.

One number is refined by Brent's method, several by L-BFGS: by one compiled gradient where there are many and
JAX is installed, else by differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, float64, installed
from kembed.learning.objective import BACKGROUND
from kembed.learning.problem import Prepared, Spec, compiled, objective

# θ -> the objective and its slopes.
Slopes = Callable[[Float[np.ndarray, " P"]], tuple[float, Float[np.ndarray, " P"]]]
MAX_MODES = 5  # so many starts at most: each is a search of its own
SAME_MODE = 0.05  # two searches that end this close (in log scale) found the same mode
DIFFERENCE = 1e-4  # step of the differences behind Hessians, in log scale
# Up to so many numbers L-BFGS takes differences and nothing is compiled: as fast as a gradient, without a
# second or two of compiling (13 columns .13 s; 30 columns 5.1 against 3.7); the same ARD
# lengthscales to 4e-5; where the optimum is flat (two scales of iris) others of the same height.
FEW = 16
EDGE = 1e-3  # nearer than this to the end of the scan, in log scale, a maximum is the end


class Scan(NamedTuple):
    """The objective over scales, the best over shapes, and where that is."""

    scales: Float[np.ndarray, " L"]
    values: Float[np.ndarray, " L"]
    starts: list[Float[np.ndarray, " P"]]


class Found(NamedTuple):
    """A refined mode in the frame."""

    theta: Float[np.ndarray, " P"]
    value: float  # of the objective, prior included
    log_evidence: float
    at_edge: bool  # of the scanned scales


def value_at(
    spec: Spec, theta: Float[np.ndarray, " P"], problem: Any, background: float = BACKGROUND
) -> tuple[float, float]:
    """The objective and the log pseudolikelihood."""
    value, log_evidence = objective(spec, theta, problem, background)
    return float(value), float(log_evidence)


def scan(spec: Spec, prepared: Prepared) -> Scan:
    """The objective on the grid of scales, and at each scale the best vector to start from."""
    E = len(prepared.frame.scale)
    best = []
    for scale in prepared.scales:
        starts = spec.family.starts(float(scale), E)
        tried = [(value_at(spec, start, prepared.problem)[0], start) for start in starts]
        best.append(max(tried, key=lambda pair: pair[0]))
    return Scan(prepared.scales, np.array([value for value, _ in best]), [theta for _, theta in best])


def local_maxima(values: Float[np.ndarray, " L"]) -> list[int]:
    """Places not below their neighbours, the highest first."""
    padded = np.concatenate([[-np.inf], np.where(np.isfinite(values), values, -np.inf), [-np.inf]])
    peak = (padded[1:-1] >= padded[:-2]) & (padded[1:-1] > padded[2:]) & np.isfinite(padded[1:-1])
    return sorted(np.flatnonzero(peak), key=lambda k: -values[k])


def refine(spec: Spec, prepared: Prepared, scanned: Scan) -> list[Found]:
    """Every local maximum of the scan, followed uphill; the best first."""
    if not np.isfinite(scanned.values).any():
        raise ValueError(
            "the objective is not finite at any scale of the data; "
            "check that landmarks lie among the data, and that prior is finite somewhere"
        )
    found: list[Found] = []
    step = float(np.log(scanned.scales[1] / scanned.scales[0]))
    slopes = _slopes(spec, prepared, len(scanned.starts[0]))
    for k in local_maxima(scanned.values)[:MAX_MODES]:
        theta = _maximum(spec, prepared, scanned.starts[k], step, slopes)
        if not any(np.abs(theta - other.theta).max() < SAME_MODE for other in found):
            found.append(
                Found(theta, *value_at(spec, theta, prepared.problem), _at_edge(spec, prepared, theta))
            )
    return sorted(found, key=lambda mode: -mode.value)


def _at_edge(spec: Spec, prepared: Prepared, theta: Float[np.ndarray, " P"]) -> bool:
    """Whether one lengthscale is at an end of the scan; the data's range is a bound and no end."""
    below, above = np.abs(theta[0] - prepared.box[0]) < EDGE
    return spec.family.shape == "isotropic" and bool(below or (above and spec.paper))


def _slopes(spec: Spec, prepared: Prepared, count: int) -> Slopes | None:
    """The objective of so many numbers with its slopes, compiled; None where L-BFGS takes differences."""
    if count <= FEW or not installed("jax"):
        return None
    gradient = float64("learn_kernel")(compiled())

    def slopes(at: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        (value, _), slope = gradient(spec, at, prepared.problem)
        return float(value), np.asarray(slope)

    return slopes


def _maximum(
    spec: Spec, prepared: Prepared, start: Float[np.ndarray, " P"], step: float, slopes: Slopes | None
) -> Float[np.ndarray, " P"]:
    """Uphill from a point of the scan within the box; one number stays between its neighbours there."""
    from scipy.optimize import minimize, minimize_scalar

    box, n = prepared.box, prepared.n
    best = start, -np.inf

    def downhill(theta: Any) -> Any:
        return -value_at(spec, np.atleast_1d(theta), prepared.problem)[0] / n

    def downhill_with_slopes(theta: Any) -> Any:
        nonlocal best
        assert slopes is not None
        value, slope = slopes(theta)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e10, np.zeros_like(theta)
        best = max(best, (theta.copy(), value), key=lambda pair: pair[1])
        return -value / n, -slope / n

    if len(start) == 1:
        bounds = np.clip(start + np.array([-step, step]), *box[0])
        options = {"xatol": 1e-6 if spec.paper else 1e-4}
        found = minimize_scalar(downhill, bounds=bounds, method="bounded", options=options)
        ends = [end for end in bounds if end in box[0]]  # Brent never tries the ends
        return np.array([min((float(found.x), *ends), key=downhill) if ends else float(found.x)])
    start = np.clip(start, *box.T)
    if slopes is None:
        return minimize(downhill, start, method="L-BFGS-B", bounds=box, options={"ftol": 1e-11}).x
    options = {"maxiter": 100, "ftol": 1e-12, "gtol": 1e-7, "maxls": 10}
    minimize(downhill_with_slopes, start, jac=True, method="L-BFGS-B", bounds=box, options=options)
    return best[0]


def minus_hessian(
    slope: Callable[[Float[np.ndarray, " P"]], Float[np.ndarray, " P"]], at: Float[np.ndarray, " P"]
) -> Float[np.ndarray, "P P"]:
    """Minus the second derivatives by differences of the gradient."""
    base = slope(at)
    H = np.stack([(base - slope(at + move)) / DIFFERENCE for move in DIFFERENCE * np.eye(len(at))])
    return 0.5 * (H + H.T)

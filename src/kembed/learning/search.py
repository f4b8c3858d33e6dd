"""Finding every mode: scan a log grid of scales, refine each local maximum.

One or two numbers are refined in plain NumPy, by Brent's method or by differences; more of them, and the
published objective, by one compiled gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, float64, installed
from kembed.learning.objective import BACKGROUND
from kembed.learning.problem import Prepared, Spec, compiled, objective

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
    """The objective and the log pseudolikelihood; compiled for the published one of many rows alone."""
    if spec.paper:
        from kembed.learning.paper.feature_sums import computed_plainly

        kernel = spec.family.kernel(theta, problem.x.shape[1])
        plain = computed_plainly(kernel, problem.x, problem.landmarks)
        function: Any = objective if plain else float64("learn_kernel")(compiled()[0])
        value, log_evidence = function(spec, theta, problem)
    else:
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
    few = spec.family.size(len(prepared.frame.scale)) <= FEW or not installed("jax")
    uphill = _plain_maximum if few and not spec.paper else _compiled_maximum
    found: list[Found] = []
    step = float(np.log(scanned.scales[1] / scanned.scales[0]))
    for k in local_maxima(scanned.values)[:MAX_MODES]:
        theta = uphill(spec, prepared, scanned.starts[k], step)
        if not any(np.abs(theta - other.theta).max() < SAME_MODE for other in found):
            found.append(
                Found(theta, *value_at(spec, theta, prepared.problem), _at_edge(spec, prepared, theta))
            )
    return sorted(found, key=lambda mode: -mode.value)


def _at_edge(spec: Spec, prepared: Prepared, theta: Float[np.ndarray, " P"]) -> bool:
    """Whether one lengthscale is at an end of the scan; the data's range is a bound and no end."""
    below, above = np.abs(theta[0] - prepared.box[0]) < EDGE
    return spec.family.shape == "isotropic" and bool(below or (above and spec.paper))


def _plain_maximum(
    spec: Spec, prepared: Prepared, start: Float[np.ndarray, " P"], step: float
) -> Float[np.ndarray, " P"]:
    """Brent's method between neighbours on the grid; L-BFGS by differences for more than one number."""
    from scipy.optimize import minimize, minimize_scalar

    box, n = prepared.box, prepared.n

    def downhill(theta: Any) -> float:
        return -value_at(spec, np.atleast_1d(theta), prepared.problem)[0] / n

    if len(start) == 1:
        ends = np.clip(start[0] + np.array([-step, step]), *box[0])
        inside = float(minimize_scalar(downhill, bounds=ends, method="bounded", options={"xatol": 1e-4}).x)
        bounds = [end for end in ends if end in box[0]]  # Brent never tries the ends
        return np.array([min((inside, *bounds), key=downhill) if bounds else inside])
    fit = minimize(downhill, np.clip(start, *box.T), method="L-BFGS-B", bounds=box, options={"ftol": 1e-11})
    return fit.x


@float64("learn_kernel")
def _compiled_maximum(
    spec: Spec, prepared: Prepared, start: Float[np.ndarray, " P"], _: float
) -> Float[np.ndarray, " P"]:
    """L-BFGS within the box, by the compiled gradient."""
    from scipy.optimize import minimize

    box, n, gradient = prepared.box, prepared.n, compiled()[1]
    best: dict[str, Any] = {"value": -np.inf, "theta": None}

    def downhill(theta: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        (value, _), slope = gradient(spec, theta, prepared.problem)
        slope = np.asarray(slope)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e10, np.zeros_like(theta)
        if value > best["value"]:
            best.update(value=float(value), theta=theta.copy())
        return -float(value) / n, -slope / n

    options = {"maxiter": 100, "ftol": 1e-12, "gtol": 1e-7, "maxls": 10}
    minimize(downhill, np.clip(start, *box.T), jac=True, method="L-BFGS-B", bounds=box, options=options)
    if best["theta"] is None:
        raise FloatingPointError(
            "the objective is not finite anywhere near the start; "
            "check the data for columns of extreme size, or give other landmarks"
        )
    return best["theta"]


def minus_hessian(
    slope: Callable[[Float[np.ndarray, " P"]], Float[np.ndarray, " P"]], at: Float[np.ndarray, " P"]
) -> Float[np.ndarray, "P P"]:
    """Minus the second derivatives by differences of the gradient."""
    base = slope(at)
    H = np.stack([(base - slope(at + move)) / DIFFERENCE for move in DIFFERENCE * np.eye(len(at))])
    return 0.5 * (H + H.T)

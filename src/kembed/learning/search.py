"""Finding every mode: scan a log grid of scales in NumPy, refine each local maximum with gradients.

The scan works on a subsample and a part of the integration points; nothing is compiled for it. Refinement
uses one compiled gradient. With very many rows modes are refined on a subsample first, and the best one is
then finished on all rows by Newton steps whose Hessian comes from the subsample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, float64
from kembed.learning.objective import Fit
from kembed.learning.prepare import Effort, Prepared
from kembed.learning.problem import Problem, Spec, compiled, profile, size_class

SCAN_POINTS = 1_024  # integration points of the scan, which only places starts
MAX_MODES = 5  # so many starts at most: each is a search of its own
NEWTON_STEPS = 3  # from the maximum of a subsample it is not far, so a few steps do
# Two searches that end this close (in log scale and log temperature) found the same mode.
SAME_MODE = 0.05
DIFFERENCE = 1e-4  # step of the differences behind Hessians, in log scale


class Scan(NamedTuple):
    """The objective over scales: one row for each scale, the best over temperatures and shapes."""

    scales: Float[np.ndarray, " L"]
    values: Float[np.ndarray, " L"]
    starts: list[Float[np.ndarray, " P"]]


class Found(NamedTuple):
    """A refined mode in the frame."""

    theta: Float[np.ndarray, " P"]
    value: float
    fit: Fit
    at_edge: bool  # of the scanned scales


def scan(spec: Spec, prepared: Prepared, effort: Effort, rng: np.random.Generator) -> Scan:
    """The objective on the grid of scales, and at each scale the best vector to start from."""
    problem = _scan_problem(prepared.problem, prepared.n, effort.scan_rows, rng)
    E = problem.x.shape[1]
    best = []
    for scale in prepared.scales:
        starts = spec.family.starts(float(scale), E)
        tried = [profile(spec, start, effort.temperatures, problem) for start in starts]
        best.append(max(tried, key=lambda pair: pair[0]))
    return Scan(prepared.scales, np.array([value for value, _ in best]), [theta for _, theta in best])


def _scan_problem(problem: Problem, n: int, most: int, rng: np.random.Generator) -> Problem:
    """A subsample of rows, an even part of the random integration points."""
    rows = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    finite = np.flatnonzero(np.isfinite(problem.log_weights))
    step = -(-len(finite) // SCAN_POINTS) if problem.x.shape[1] > 1 else 1  # a quadrature stays whole
    point = finite[::step]
    return _on_rows(problem, rows)._replace(
        points=problem.points[point],
        log_weights=problem.log_weights[point] + np.log(len(finite) / len(point)),
    )


def _on_rows(problem: Problem, rows: Float[np.ndarray, " r"], padding: int = 0) -> Problem:
    """The problem on some of its rows, with so many that count for nothing."""
    index = np.concatenate([rows, np.zeros(padding, int)])
    weights = np.concatenate([problem.weights[rows], np.zeros(padding)])
    return problem._replace(x=problem.x[index], weights=weights, log_background=problem.log_background[index])


def local_maxima(values: Float[np.ndarray, " L"]) -> list[int]:
    """Places not below their neighbours, the highest first."""
    padded = np.concatenate([[-np.inf], np.where(np.isfinite(values), values, -np.inf), [-np.inf]])
    peak = (padded[1:-1] >= padded[:-2]) & (padded[1:-1] > padded[2:]) & np.isfinite(padded[1:-1])
    return sorted(np.flatnonzero(peak), key=lambda k: -values[k])


@float64("learn_kernel")
def refine(
    spec: Spec, prepared: Prepared, scanned: Scan, effort: Effort, rng: np.random.Generator
) -> list[Found]:
    """Every local maximum of the scan, followed uphill; the best first."""
    problem, n = prepared.problem, prepared.n
    E = problem.x.shape[1]
    box = spec.bounds(float(scanned.scales[0]), float(scanned.scales[-1]), E)
    small, most = problem, effort.refine_rows
    if n > most:
        small = _on_rows(problem, np.sort(rng.choice(n, most, replace=False)), size_class(most) - most)
    if not np.isfinite(scanned.values).any():
        raise ValueError(
            "the objective is not finite at any scale of the data; "
            "check that landmarks lie among the data, and that prior is finite somewhere"
        )
    found: list[Found] = []
    count = spec.family.size(E) + spec.learn_noise  # the background's share does not tell modes apart
    for k in local_maxima(scanned.values)[:MAX_MODES]:
        mode = local_maximum(spec, small, scanned.starts[k], box)
        if not any(np.abs(mode.theta - other.theta)[:count].max() < SAME_MODE for other in found):
            found.append(mode)
    found.sort(key=lambda mode: -mode.value)
    if small is not problem:
        # The best is finished on all rows; the others are only put on its scale.
        best, value = newton_maximum(spec, small, problem, found[0], box), compiled()[0]
        others = (_found(spec, box, mode.theta, *value(spec, mode.theta, problem)) for mode in found[1:])
        found = sorted([best, *others], key=lambda mode: -mode.value)
    return found


def local_maximum(
    spec: Spec, problem: Problem, start: Float[np.ndarray, " P"], box: Float[np.ndarray, "P 2"]
) -> Found:
    """L-BFGS within the box."""
    from scipy.optimize import minimize

    gradient = compiled()[1]
    n = float(problem.weights.sum())
    last: dict[str, Any] = {}

    def downhill(theta: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        (value, fit), slope = gradient(spec, theta, problem)
        slope = np.asarray(slope)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e10, np.zeros_like(theta)
        if "value" not in last or value > last["value"]:
            last.update(value=float(value), fit=fit, theta=theta.copy())
        return -float(value) / n, -slope / n

    start = np.clip(start, box[:, 0], box[:, 1])
    options = {"maxiter": 60, "ftol": 1e-12, "gtol": 1e-7, "maxls": 10}
    minimize(downhill, start, jac=True, method="L-BFGS-B", bounds=box, options=options)
    if not last:
        raise FloatingPointError(
            "the objective is not finite anywhere near the start; "
            "check the data for columns of extreme size, or give other landmarks"
        )
    return _found(spec, box, last["theta"], last["value"], last["fit"])


def newton_maximum(
    spec: Spec, small: Problem, problem: Problem, mode: Found, box: Float[np.ndarray, "P 2"]
) -> Found:
    """The best of a few Newton steps on all rows, with the subsample's Hessian scaled up."""
    gradient = compiled()[1]
    theta = mode.theta
    H = minus_hessian(lambda at: np.asarray(gradient(spec, at, small)[1]), theta, box[:, 1])
    values, vectors = np.linalg.eigh(H)  # made positive definite, so that every step goes uphill
    H = (vectors * np.maximum(np.abs(values), 1e-6 * np.abs(values).max())) @ vectors.T
    H = H * float(problem.weights.sum() / small.weights.sum())
    best: Found | None = None
    for steps_left in reversed(range(NEWTON_STEPS + 1)):
        (value, fit), slope = gradient(spec, theta, problem)
        if best is not None and not value > best.value:
            return best
        converged = best is not None and np.abs(theta - best.theta).max() < 1e-4
        best = _found(spec, box, theta, value, fit)
        if converged or not steps_left:
            break
        slope = np.asarray(slope)
        free = ~(((theta <= box[:, 0]) & (slope < 0)) | ((theta >= box[:, 1]) & (slope > 0)))
        step = np.zeros_like(theta)
        step[free] = np.linalg.solve(H[np.ix_(free, free)], slope[free])
        theta = np.clip(theta + np.clip(step, -0.2, 0.2), box[:, 0], box[:, 1])
    assert best is not None
    return best


def minus_hessian(
    slope: Callable[[Float[np.ndarray, " P"]], Float[np.ndarray, " P"]],
    at: Float[np.ndarray, " P"],
    upper: Float[np.ndarray, " P"] | float = np.inf,
) -> Float[np.ndarray, "P P"]:
    """Minus the second derivatives by differences of the gradient, backwards where `upper` is near."""
    base = slope(at)
    steps = np.where(at + DIFFERENCE <= upper, DIFFERENCE, -DIFFERENCE)
    H = np.stack([(base - slope(at + move)) / step for step, move in zip(steps, np.diag(steps), strict=True)])
    return 0.5 * (H + H.T)


def _found(spec: Spec, box: Float[np.ndarray, "P 2"], theta: Any, value: Any, fit: Any) -> Found:
    count = int(spec.family.shape == "isotropic")
    near = np.abs(theta[:count, None] - box[:count]).min(initial=np.inf) < 1e-3
    return Found(theta, float(value), Fit(*map(np.asarray, fit)), bool(near))

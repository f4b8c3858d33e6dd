"""Finding every mode: scan a log grid of scales in NumPy, refine each local maximum with gradients.

The scan works on a subsample and a part of the integration points; nothing is compiled for it. Refinement
uses one compiled gradient. With very many rows modes are refined on a subsample first, and the best one is
then finished on all rows by Newton steps whose Hessian comes from the subsample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core.backend import float64
from kembed.learning.objective import Fit
from kembed.learning.problem import Problem, Spec, compiled, profile, size_class

if TYPE_CHECKING:
    from jaxtyping import Float

SCAN_ROWS = 1_000
SCAN_POINTS = 1_024
PER_DECADE = 8
TEMPERATURES = np.geomspace(0.03, 1.0, 7)
MAX_MODES = 5
# From here on modes are refined on this many rows, and the best is finished on all.
REFINE_ROWS = 12_288
NEWTON_STEPS = 3
# Two searches that end this close (in log scale and log temperature) found the same mode.
SAME_MODE = 0.05


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


def data_scales(
    y: Float[np.ndarray, "n E"], landmarks: Float[np.ndarray, "m E"], per_decade: int = PER_DECADE
) -> Float[np.ndarray, " L"]:
    """A log grid from half the distance of near landmarks to twice the diameter of nearly all the data."""
    from scipy.spatial import cKDTree

    radius = np.sqrt((y**2).sum(axis=1))
    high = 4.0 * float(np.quantile(radius[radius > 0.0], 0.95))
    near = cKDTree(landmarks).query(landmarks, k=2)[0][:, 1] if len(landmarks) > 1 else radius
    positive = near[near > 0.0]
    low = 0.5 * float(np.quantile(positive, 0.25)) if len(positive) else 1e-2 * high
    low = min(max(low, 1e-6 * high), 0.1 * high)
    count = int(np.ceil(per_decade * np.log10(high / low))) + 1
    return np.geomspace(low, high, max(count, 5))


def on_rows(problem: Problem, rows: Float[np.ndarray, " r"]) -> Problem:
    """The problem on some of its rows, padded to their size class."""
    extra = size_class(len(rows)) - len(rows)
    index = np.concatenate([rows, np.zeros(extra, int)])
    weights = np.concatenate([problem.weights[rows], np.zeros(extra)])
    return problem._replace(x=problem.x[index], weights=weights, log_background=problem.log_background[index])


def thin(problem: Problem, n: int, rng: np.random.Generator) -> Problem:
    """The problem for the scan: a subsample of rows, an even part of the random integration points."""
    rows = np.arange(n) if n <= SCAN_ROWS else np.sort(rng.choice(n, SCAN_ROWS, replace=False))
    finite = np.flatnonzero(np.isfinite(problem.log_weights))
    step = -(-len(finite) // SCAN_POINTS) if problem.x.shape[1] > 1 else 1  # a quadrature stays whole
    point = finite[::step]
    return problem._replace(
        x=problem.x[rows],
        weights=problem.weights[rows],
        log_background=problem.log_background[rows],
        points=problem.points[point],
        log_weights=problem.log_weights[point] + np.log(len(finite) / len(point)),
    )


def scan(
    spec: Spec,
    problem: Problem,
    scales: Float[np.ndarray, " L"],
    temperatures: Float[np.ndarray, " T"] = TEMPERATURES,
) -> Scan:
    """The objective on the grid, and at each scale the best vector to start from."""
    E = problem.x.shape[1]
    best = [
        max(
            (profile(spec, vector, temperatures, problem) for vector in spec.family.starts(float(scale), E)),
            key=lambda pair: pair[0],
        )
        for scale in scales
    ]
    return Scan(scales, np.array([value for value, _ in best]), [theta for _, theta in best])


def local_maxima(values: Float[np.ndarray, " L"]) -> list[int]:
    """Places not below their neighbours, the highest first."""
    padded = np.concatenate([[-np.inf], np.where(np.isfinite(values), values, -np.inf), [-np.inf]])
    peak = (padded[1:-1] >= padded[:-2]) & (padded[1:-1] > padded[2:]) & np.isfinite(padded[1:-1])
    return sorted(np.flatnonzero(peak), key=lambda k: -values[k])


@float64("learn_kernel")
def refine(spec: Spec, problem: Problem, scanned: Scan, n: int, rng: np.random.Generator) -> list[Found]:
    """Every local maximum of the scan, followed uphill; the best first."""
    E = problem.x.shape[1]
    box = spec.bounds(float(scanned.scales[0]), float(scanned.scales[-1]), E)
    small = problem
    if n > REFINE_ROWS:
        small = on_rows(problem, np.sort(rng.choice(n, REFINE_ROWS, replace=False)))
    found: list[Found] = []
    if not np.isfinite(scanned.values).any():
        raise ValueError(
            "the objective is not finite at any scale of the data; "
            "check that landmarks lie among the data, and that prior is finite somewhere"
        )
    for k in local_maxima(scanned.values)[:MAX_MODES]:
        mode = climb(spec, small, scanned.starts[k], box)
        if not any(_same(spec, mode, other, E) for other in found):
            found.append(mode)
    found.sort(key=lambda mode: -mode.value)
    if small is not problem:
        # The best is finished on all rows; the others are only put on its scale.
        best = finish(spec, small, problem, found[0], box)
        found = [best, *(_evaluated(spec, problem, mode) for mode in found[1:])]
        found.sort(key=lambda mode: -mode.value)
    return found


def climb(
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
    minimize(
        downhill,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={"maxiter": 60, "ftol": 1e-12, "gtol": 1e-7, "maxls": 10},
    )
    if not last:
        raise FloatingPointError(
            "the objective is not finite anywhere near the start; "
            "check the data for columns of extreme size, or give other landmarks"
        )
    return _found(spec, last["theta"], last["value"], last["fit"], box)


def finish(spec: Spec, small: Problem, problem: Problem, mode: Found, box: Float[np.ndarray, "P 2"]) -> Found:
    """Newton steps on all rows, with the subsample's Hessian scaled up."""
    gradient = compiled()[1]
    theta = mode.theta
    ratio = float(problem.weights.sum() / small.weights.sum())
    H = _hessian(spec, small, theta, box) * ratio
    best: Found | None = None
    for _ in range(NEWTON_STEPS):
        (value, fit), slope = gradient(spec, theta, problem)
        slope = np.asarray(slope)
        if best is not None and not value > best.value:
            break
        best = _found(spec, theta, float(value), fit, box)
        free = ~(((theta <= box[:, 0]) & (slope < 0)) | ((theta >= box[:, 1]) & (slope > 0)))
        step = np.zeros_like(theta)
        step[free] = np.linalg.solve(H[np.ix_(free, free)], slope[free])
        step = np.clip(step, -0.2, 0.2)
        theta = np.clip(theta + step, box[:, 0], box[:, 1])
        if np.abs(theta - best.theta).max() < 1e-4:
            break
    assert best is not None
    return best


def _hessian(
    spec: Spec, problem: Problem, theta: Float[np.ndarray, " P"], box: Float[np.ndarray, "P 2"]
) -> Float[np.ndarray, "P P"]:
    """Minus the second derivatives by differences of the gradient, made positive definite."""
    gradient = compiled()[1]
    base = np.asarray(gradient(spec, theta, problem)[1])
    columns = []
    for k in range(len(theta)):
        step = 1e-4 if theta[k] + 1e-4 <= box[k, 1] else -1e-4
        moved = theta.copy()
        moved[k] += step
        columns.append((base - np.asarray(gradient(spec, moved, problem)[1])) / step)
    H = np.stack(columns)
    values, vectors = np.linalg.eigh(0.5 * (H + H.T))
    return (vectors * np.maximum(np.abs(values), 1e-6 * np.abs(values).max())) @ vectors.T


def _evaluated(spec: Spec, problem: Problem, mode: Found) -> Found:
    value, fit = compiled()[0](spec, mode.theta, problem)
    return mode._replace(value=float(value), fit=_plain(fit))


def _found(spec: Spec, theta: Any, value: float, fit: Any, box: Float[np.ndarray, "P 2"]) -> Found:
    count = {"isotropic": 1, "ard": 0, "full": 0}[spec.family.shape]
    near = np.abs(theta[:count, None] - box[:count]).min(initial=np.inf) < 1e-3
    return Found(theta, value, _plain(fit), bool(near))


def _plain(fit: Any) -> Fit:
    return Fit(*(np.asarray(part) for part in fit))


def _same(spec: Spec, a: Found, b: Found, E: int) -> bool:
    """Whether two searches ended in one place; the background's share does not count."""
    count = spec.family.size(E) + spec.learn_noise
    return bool(np.abs(a.theta[:count] - b.theta[:count]).max() < SAME_MODE)

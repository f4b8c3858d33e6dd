"""The learning problem as arrays and one compiled function of a vector: what search and sampler share.

The vector θ holds the family's numbers, then log u (the temperature, unless the noise is given), ε in
fiftieths, and log η where the measure is learned. Rows and integration points are padded to size classes with
weight zero, so that data of nearly the same size run the same compiled program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Array, Float, float64, namespace
from kembed.kernels.base import Components
from kembed.kernels.convolution import convolved_mixture
from kembed.kernels.measures import GaussianMeasure, Lebesgue, Measure
from kembed.kernels.stationary import Gaussian, MultiScale, Stationary
from kembed.learning.families import Family, unchecked
from kembed.learning.frame import Frame
from kembed.learning.integration import Rule, log_student_t
from kembed.learning.objective import Fit, RowFeatures, evidence, fit_at, log_plug, row_features, streamed

# The background is a multivariate Cauchy so many spreads wide.
BACKGROUND_WIDTH = 10.0
EPSILON_BOUNDS = (1e-6, 0.05)  # beyond one row in twenty it is no background any more
EPSILON_UNIT = 0.02  # ε is often 0, which a linear scale reaches in one step
EPSILON_PRIOR = 20.0  # prior of ε, Beta(1, b): one row in twenty is already many
START_EPSILON, EM_STEPS = 0.01, 8  # of the scan, which only places starts
TEMPERATURE_BOUNDS = (1e-3, 1.0)  # above 1 the noise exceeds all the scatter there is
ETA_BOUNDS = (0.3, 10.0)  # a ν narrower than the data says nothing of most, a wider one nothing at all
LEAST_NOISE = 1e-100  # below, no landmark sees any row at this scale
EVERY_NODE = 3  # every so-manieth node of the rules of Matérn and rational quadratic kernels is used for R
CHUNK_ENTRIES = 2_000_000  # entries of a chunk of the feature matrix, beyond which rows are streamed


class Problem(NamedTuple):
    """Data, landmarks and integration rule in the frame; all arrays."""

    x: Float[Array, "N E"]
    weights: Float[Array, " N"]
    log_background: Float[Array, " N"]
    landmarks: Float[Array, "m E"]
    points: Float[Array, "S E"]
    log_weights: Float[Array, " S"]
    spread: Float[Array, " E"]  # of the data, along the axes
    axes: Float[Array, "D E"]  # the frame, for priors in the user's units
    scale: Float[Array, " E"]
    noise: Float[Array, ""]  # τ² if it is given, else 0
    measure: Measure | None = None  # ν in the frame, if it is given


@dataclass(frozen=True)
class Spec:
    """What is learned: static, so that it selects a compiled program."""

    family: Family
    learn_noise: bool = True
    learn_eta: bool = False
    prior: Callable[[Any, Any], Any] | None = None
    background: bool = True
    paper: bool = False  # the paper's own objective

    def size(self, E: int) -> int:
        """Length of θ."""
        return self.family.size(E) + self.learn_noise + self.background + self.learn_eta

    def _rest(self, u: Any, epsilon: Any, eta: Any) -> list[Any]:
        """What is learned beside the kernel, of three values (or pairs of bounds), in the order of θ."""
        learned = (self.learn_noise, self.background, self.learn_eta)
        return [value for value, wanted in zip((u, epsilon, eta), learned, strict=True) if wanted]

    def bounds(self, low: float, high: float, E: int) -> Float[np.ndarray, "P 2"]:
        """The box for θ."""
        epsilon = np.divide(EPSILON_BOUNDS, EPSILON_UNIT)
        rest = self._rest(np.log(TEMPERATURE_BOUNDS), epsilon, np.log(ETA_BOUNDS))
        return np.array([*self.family.bounds(low, high, E), *map(tuple, rest)])

    def start(self, kernel: Float[np.ndarray, " p"], u: float, epsilon: float) -> Float[np.ndarray, " P"]:
        """θ from the kernel's numbers."""
        return np.concatenate([kernel, self._rest(np.log(u), epsilon / EPSILON_UNIT, 0.0)])

    def unpack(self, theta: Any, E: int) -> tuple[Stationary, Any, Any, Any]:
        """The kernel in the frame, the temperature u (or None), ε and η."""
        xp = namespace(theta)
        rest = iter(range(self.family.size(E), theta.shape[-1]))
        u = xp.exp(theta[next(rest)]) if self.learn_noise else None
        epsilon = EPSILON_UNIT * theta[next(rest)] if self.background else 0.0
        eta = xp.exp(theta[next(rest)]) if self.learn_eta else 1.0
        return self.family.kernel(theta, E), u, epsilon, eta


def size_class(count: int) -> int:
    """The next of 64, 96, 128, 192, 256, …: at most half as much again."""
    power = 64
    while power < count:
        if power * 3 // 2 >= count:
            return power * 3 // 2
        power *= 2
    return power


def padded_problem(
    y: Float[np.ndarray, "n E"],
    landmarks: Float[np.ndarray, "m E"],
    rule: Rule,
    spread: Float[np.ndarray, " E"],
    frame: Frame,
    noise: float = 0.0,
    measure: Measure | None = None,
) -> Problem:
    """The problem with rows and points padded to their size classes."""
    n, S = len(y), len(rule.points)
    rows, points = size_class(n) - n, size_class(S) - S
    background = log_student_t(y, BACKGROUND_WIDTH * spread, 1.0)
    return Problem(
        x=np.concatenate([y, np.broadcast_to(landmarks[:1], (rows, y.shape[1]))]),
        weights=np.concatenate([np.ones(n), np.zeros(rows)]),
        log_background=np.concatenate([background, np.zeros(rows)]),
        landmarks=landmarks,
        points=np.concatenate([rule.points, np.broadcast_to(landmarks[:1], (points, y.shape[1]))]),
        log_weights=np.concatenate([rule.log_weights, np.full(points, -np.inf)]),
        spread=spread,
        axes=frame.axes,
        scale=frame.scale,
        noise=np.float64(noise),
        measure=measure,
    )


def prior_covariance(kernel: Stationary, problem: Problem, eta: Any) -> Any:
    """R = r(z, z) under ν, a normal distribution η times as wide as the data unless it is given.

    Mixtures with many scales take a coarser rule: R only sets how much μ̂ is shrunk.
    """
    z, spread = problem.landmarks, problem.spread
    measure = problem.measure
    if measure is None:
        measure = unchecked(GaussianMeasure, centre=0.0 * spread, covariance=(eta * spread) ** 2, mass=1.0)
    parts = kernel.components(z.shape[1], finite=True)
    if not isinstance(kernel, Gaussian | MultiScale):
        log_weights, precision = (part[::EVERY_NODE] for part in parts)
        xp = namespace(log_weights, precision)
        parts = Components(log_weights - xp.log(xp.exp(log_weights).sum()), precision)  # k(x, x) = 1
    return convolved_mixture(parts, measure, z, z)


def log_prior(spec: Spec, kernel: Stationary, noise: Any, u: Any, epsilon: Any, problem: Problem) -> Any:
    """Weak priors on temperature and background, and the user's on kernel and noise in their units."""
    xp = namespace(epsilon)
    total = 0.0
    if spec.learn_noise:
        total = total - u  # Gamma(1, 1)
    if spec.background:
        total = total + (EPSILON_PRIOR - 1.0) * xp.log1p(-epsilon)
    if spec.prior is not None:
        in_units = spec.family.in_units(kernel, problem.axes, problem.scale)
        total = total + spec.prior(in_units, noise)
    return total


def objective(
    spec: Spec, theta: Float[Array, " P"], problem: Problem, chunk_entries: int = CHUNK_ENTRIES
) -> tuple[Any, Fit]:
    """Log evidence plus log prior at θ, and the fit behind it."""
    E = problem.x.shape[1]
    kernel, u, epsilon, eta = spec.unpack(theta, E)
    if spec.paper:
        return _paper(spec, kernel, problem)
    z, weights = problem.landmarks, problem.weights
    n = weights.sum()
    R = prior_covariance(kernel, problem, eta)
    chunks = -(-problem.x.shape[0] * len(z) // chunk_entries)
    if chunks == 1:
        rows, inside = _features_once(kernel, problem)
        sums = weights @ rows.K, weights @ rows.squares
    else:
        inside = row_features(kernel, problem.points, z)
        sums = streamed(lambda w, x: _feature_sums(kernel, w, x, z), weights, (problem.x,), chunks)
    mean, squares = sums[0] / n, sums[1] / n
    noise = problem.noise if u is None else u * (squares - mean @ mean)
    fit = fit_at(R, mean, noise, n, inside, problem.log_weights)
    if chunks == 1:
        total = evidence(rows, weights, problem.log_background, epsilon, fit)
    else:
        total = streamed(
            lambda w, x, b: evidence(row_features(kernel, x, z), w, b, epsilon, fit),
            weights,
            (problem.x, problem.log_background),
            chunks,
        )
    fit = fit._replace(log_evidence=fit.log_evidence + total)
    return fit.log_evidence + log_prior(spec, kernel, noise, u, epsilon, problem), fit


def _feature_sums(kernel: Stationary, weights: Any, x: Any, z: Any) -> tuple[Any, Any]:
    K = kernel._gram(x, z)
    return weights @ K, weights @ (K * K).sum(axis=1)


def noise_at(spec: Spec, theta: Float[Array, " P"], problem: Problem) -> Any:
    """τ² = u tr Cov[φ_z(X)], or the given one."""
    kernel, u, _, _ = spec.unpack(theta, problem.x.shape[1])
    sums = _feature_sums(kernel, problem.weights, problem.x, problem.landmarks)
    mean, squares = (part / problem.weights.sum() for part in sums)
    return problem.noise if u is None else u * (squares - mean @ mean)


def _paper(spec: Spec, kernel: Stationary, problem: Problem) -> tuple[Any, Fit]:
    """The paper's objective under Lebesgue measure; there is no density, so no Z."""
    from kembed.learning.paper.pseudolikelihood import paper_objective

    measure = Lebesgue() if problem.measure is None else problem.measure
    value = paper_objective(kernel, problem.noise, problem.x, problem.weights, problem.landmarks, measure)
    nothing = 0.0 * value
    fit = Fit(value, problem.noise, 0.0 * problem.landmarks[:, 0], nothing, nothing)
    return value + log_prior(spec, kernel, problem.noise, None, nothing, problem), fit


def _features_once(kernel: Stationary, problem: Problem) -> tuple[RowFeatures, RowFeatures]:
    """Features of the rows and of the integration points by one call: half the program to compile."""
    N, xp = len(problem.x), namespace(problem.x)
    both = row_features(kernel, xp.concatenate([problem.x, problem.points]), problem.landmarks)
    return RowFeatures(*(part[:N] for part in both)), RowFeatures(*(part[N:] for part in both))


def profile(
    spec: Spec, vector: Float[np.ndarray, " p"], temperatures: Float[np.ndarray, " U"], problem: Problem
) -> tuple[float, Float[np.ndarray, " P"]]:
    """The best of the objective over temperatures at one kernel, and its θ, in NumPy.

    The features do not depend on the temperature and are computed once; ε is found by a few steps of EM.
    """
    E = problem.x.shape[1]
    if spec.paper:
        theta = spec.start(vector, 1.0, 0.0)
        return float(float64("learn_kernel")(compiled()[0])(spec, theta, problem)[0]), theta
    kernel = spec.family.kernel(vector, E)
    weights = problem.weights
    n = weights.sum()
    R = prior_covariance(kernel, problem, 1.0)
    rows, inside = _features_once(kernel, problem)
    mean, squares = weights @ rows.K / n, weights @ rows.squares / n
    best, theta = -np.inf, spec.start(vector, 1.0, START_EPSILON)
    for u in temperatures if spec.learn_noise else [1.0]:
        noise = u * (squares - mean @ mean) if spec.learn_noise else problem.noise
        if not noise > LEAST_NOISE:
            continue
        fit = fit_at(R, mean, noise, n, inside, problem.log_weights)
        epsilon = _share(log_plug(rows, fit.mean, noise) - fit.log_z, problem)
        total = evidence(rows, weights, problem.log_background, epsilon, fit)
        value = fit.log_evidence + total + log_prior(spec, kernel, noise, u, epsilon, problem)
        if value > best:
            best, theta = float(value), spec.start(vector, float(u), float(epsilon))
    return best, theta


def _share(log_p: Float[np.ndarray, " N"], problem: Problem) -> Any:
    """ε by EM: the mean share of the background in every row, under its prior."""
    epsilon = START_EPSILON
    odds = np.exp(np.clip(problem.log_background - log_p, -700.0, 700.0))
    for _ in range(EM_STEPS):
        share = epsilon * odds / (1.0 - epsilon + epsilon * odds)
        epsilon = problem.weights @ share / (problem.weights.sum() + EPSILON_PRIOR - 1.0)
        epsilon = np.clip(epsilon, *EPSILON_BOUNDS)
    return epsilon


@functools.cache
def compiled() -> tuple[Any, Any]:
    """(value, fit) and ((value, fit), gradient) as compiled functions of (spec, θ, problem)."""
    import jax

    value = jax.jit(objective, static_argnums=0)
    gradient = jax.jit(jax.value_and_grad(objective, argnums=1, has_aux=True), static_argnums=0)
    return value, gradient

"""Points and weights for ∫ f(x) dx where f lives where the data live: what log Z is computed with.

In one dimension a composite Gauss-Legendre rule whose panels follow the data. Beyond, importance sampling
with fixed random numbers from an equal mixture of three families: a Student-t with the data's centre and
spread (and a wider twin), an adaptive kernel density of the data, and Gaussians around the landmarks at
several scales. Everything is in a frame (`frame.py`), where the data have unit size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, gammaln, ndtri

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp

Array = np.ndarray
DRAWS = 4_096
FEW_DRAWS = 2_048  # where a low-discrepancy sequence does the work
LOW_DISCREPANCY = 6  # up to so many axes
CENTRES = 500  # rows that carry the density estimate
NEIGHBOUR = 10  # its width at a row is the distance to this neighbour, if less than Scott's
CONTROL_WIDTHS = (0.8, 1.0, 1.25)  # of the normal densities whose integrals are made exact, in spreads
CORRECTION_BOUNDS = (0.2, 5.0)
WIDER = 2.5  # how much wider the second Student-t is
PANELS, NODES = 128, 3  # quantiles of the data between which the line is cut, nodes of each panel
TAIL_DOUBLINGS = 12  # panels beyond the data double in length so many times


class Rule(NamedTuple):
    """∫ f dx ≈ Σ_s exp(log_weights_s) f(points_s)."""

    points: Float[Array, "S E"]
    log_weights: Float[Array, " S"]


def integration_rule(
    y: Float[Array, "n E"],
    landmarks: Float[Array, "m E"],
    scales: Float[Array, " B"],
    rng: np.random.Generator,
    spread: Float[Array, " E"],
    draws: int | None = None,
) -> Rule:
    """A rule for densities with features of the size of `scales` around data of the given spread."""
    n, E = y.shape
    if E == 1:
        return _panels(y[:, 0], landmarks[:, 0], float(scales[0]))
    if draws is None:
        draws = FEW_DRAWS if E <= LOW_DISCREPANCY else DRAWS
    freedom = max(5.0, float(E))
    centres = y if n <= CENTRES else y[np.sort(rng.choice(n, CENTRES, replace=False))]
    width = _widths(centres, spread)
    # The wide twin need not be often drawn: it is there for what the others miss.
    share = np.array([draws // 4, draws // 12, draws // 3, draws - draws // 4 - draws // 12 - draws // 3])

    def student(count: int) -> Float[Array, "count E"]:
        uniform, normal = _draws(count, E, rng)
        return normal * spread / np.sqrt(chdtri(freedom, uniform) / freedom)[:, None]

    def around(count: int, middle: Float[Array, "c E"], width: Float[Array, "c E"]) -> Float[Array, "S E"]:
        uniform, normal = _draws(count, E, rng)
        pick = np.minimum((uniform * len(middle)).astype(int), len(middle) - 1)
        return middle[pick] + width[pick] * normal

    marks = np.tile(landmarks, (len(scales), 1))
    mark_width = np.repeat(scales / np.sqrt(2.0), len(landmarks))[:, None] * np.ones(E)
    wide = [student(share[0]), WIDER * student(share[1])]
    near = [around(share[2], centres, width), around(share[3], marks, mark_width)]
    points = np.concatenate(wide + near)

    components = [
        log_student_t(points, spread, freedom),
        log_student_t(points, WIDER * spread, freedom),
        _log_mixture(points, centres, width),
        *(_log_mixture(points, landmarks, np.full((len(landmarks), E), s / np.sqrt(2.0))) for s in scales),
    ]
    weight = np.concatenate([share[:3], np.full(len(scales), share[3] / len(scales))]) / draws
    log_density = log_sum_exp(np.stack(components, axis=1) + np.log(weight), axis=1)
    correction = _calibrate(points, log_density, components, spread)
    return Rule(points, correction - log_density - np.log(draws))


def _panels(y: Float[Array, " n"], landmarks: Float[Array, " m"], finest: float) -> Rule:
    """Panels between quantiles of the data; a gap is cut from both ends in doubling steps to its middle."""
    quantiles = np.quantile(y, np.linspace(0.0, 1.0, PANELS + 1))
    knots = np.unique(np.concatenate([quantiles, landmarks]))
    span = max(float(np.subtract(*np.quantile(y, [0.9, 0.1]))), finest)
    tail = 0.25 * span * (2.0 ** np.arange(TAIL_DOUBLINGS) - 1.0)[1:]
    knots = np.concatenate([knots[0] - tail[::-1], knots, knots[-1] + tail])
    gaps = np.diff(knots)
    knots = knots[np.concatenate([[True], gaps > 1e-3 * finest])]
    gaps = np.diff(knots)
    left = np.maximum(np.concatenate([gaps[:1], gaps[:-1]]), 0.5 * finest)
    right = np.maximum(np.concatenate([gaps[1:], gaps[-1:]]), 0.5 * finest)
    cuts, steps = [knots], (2.0 ** np.arange(60) - 1.0)[1:]
    for start, gap, before, after in zip(knots[:-1], gaps, left, right, strict=True):
        if gap > 2.5 * max(min(before, after), finest):  # not 2: the tails double exactly
            from_left, from_right = before * steps, gap - after * steps
            cuts += [start + from_left[from_left < 0.49 * gap], start + from_right[from_right > 0.51 * gap]]
    edges = np.unique(np.concatenate(cuts))
    node, weight = np.polynomial.legendre.leggauss(NODES)
    half = 0.5 * np.diff(edges)[:, None]
    points = (edges[:-1, None] + half + half * node).ravel()
    return Rule(points[:, None], np.log(half * weight).ravel())


def _calibrate(
    points: Float[Array, "S E"],
    log_density: Float[Array, " S"],
    components: list[Float[Array, " S"]],
    spread: Float[Array, " E"],
) -> Float[Array, " S"]:
    """log factors on the weights that make known integrals come out exactly: control variates, once for all.

    Known are the integrals of the components, of normal densities of several widths, and of x_j² under them.
    The usual regression estimator of any other integral is then a weighted sum with these factors.
    """
    columns, known = [np.exp(part - log_density) for part in components], [1.0] * len(components)
    for width in CONTROL_WIDTHS:
        squares = (points / (width * spread)) ** 2
        log_normal = -0.5 * squares.sum(axis=1) - np.log(np.sqrt(2.0 * np.pi) * width * spread).sum()
        ratio = np.exp(log_normal - log_density)
        columns += [ratio, *(ratio * squares.T)]
        known += [1.0] * (1 + points.shape[1])
    h = np.stack(columns, axis=1)
    mean = h.mean(axis=0)
    centred = h - mean
    covariance = centred.T @ centred / len(h)
    # Components and controls are nearly dependent; directions lost to rounding carry nothing.
    solved = np.linalg.lstsq(covariance, np.array(known) - mean, rcond=1e-10)[0]
    return np.log(np.clip(1.0 + centred @ solved, *CORRECTION_BOUNDS))


def _draws(count: int, E: int, rng: np.random.Generator) -> tuple[Float[Array, " S"], Float[Array, "S E"]]:
    """A uniform and E standard normals a row: a randomly shifted Kronecker sequence in few dimensions.

    Its steps are powers of the root of g^(d+1) = g + 1, the generalised golden ratio (Roberts 2018).
    """
    if E > LOW_DISCREPANCY:
        return rng.random(count), rng.standard_normal((count, E))
    golden = 1.5
    for _ in range(40):
        golden = (1.0 + golden) ** (1.0 / (E + 2.0))
    step = golden ** -np.arange(1.0, E + 2.0)
    u = (rng.random(E + 1) + np.arange(count)[:, None] * step) % 1.0
    return u[:, 0], ndtri(np.clip(u[:, 1:], 1e-15, 1.0 - 1e-15))


def _widths(centres: Float[Array, "c E"], spread: Float[Array, " E"]) -> Float[Array, "c E"]:
    """Scott's width, or the distance to a near neighbour (per axis) where that is less."""
    from scipy.spatial import cKDTree

    c, E = centres.shape
    k = min(NEIGHBOUR, c - 1)
    near = cKDTree(centres).query(centres, k=[k + 1])[0] / np.sqrt(E)
    scott = spread * c ** (-1.0 / (E + 4.0))
    positive = near[near > 0.0]
    floor = 1e-3 * float(np.median(positive)) if len(positive) else 1.0
    return np.minimum(scott, np.maximum(near, floor))


def log_student_t(
    points: Float[Array, "S E"], spread: Float[Array, " E"], freedom: float
) -> Float[Array, " S"]:
    """log density of the multivariate Student-t at centre 0 with diagonal scale."""
    E = points.shape[1]
    squared = ((points / spread) ** 2).sum(axis=1)
    constant = gammaln(0.5 * (freedom + E)) - gammaln(0.5 * freedom) - 0.5 * E * np.log(freedom * np.pi)
    return constant - np.log(spread).sum() - 0.5 * (freedom + E) * np.log1p(squared / freedom)


def _log_mixture(
    points: Float[Array, "S E"], centres: Float[Array, "c E"], width: Float[Array, "c E"]
) -> Float[Array, " S"]:
    """log of the equal mixture of N(centre, diag width²).

    Squares are expanded into one product; what that loses against norms of 1e5 no weight notices.
    """
    precision = 1.0 / width**2
    squared = (points**2) @ precision.T - 2.0 * points @ (centres * precision).T
    squared += (centres**2 * precision).sum(axis=1)
    c, E = centres.shape
    log_height = -np.log(width).sum(axis=1) - 0.5 * E * np.log(2.0 * np.pi) - np.log(c)
    return np.asarray(log_sum_exp(log_height - 0.5 * np.maximum(squared, 0.0), axis=1))

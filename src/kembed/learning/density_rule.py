"""Nodes and weights for ∫ q₀(x) exp{f(x)} dx, where f is a band-limited function of the warped x.

On the line Gauss-Legendre panels, even in u over the rows and growing beyond; the frequencies of f are
bounded by what they resolve, or f could hide spikes between the nodes. In the plane and beyond importance
sampling with fixed quasi-random numbers, half from the base and half from a kernel density of the rows
whose widths follow their neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp, robust_spread
from kembed.learning.density_base import Base, Student, Warp

Array = np.ndarray
PANELS, NODES = 120, 5  # over the rows; Gauss-Legendre nodes of each
FINER = 4  # times as many panels judge f
GROWTH, FINER_GROWTH = 1.3, 1.05  # of the panels beyond the rows: features nearly repeat there
CUTS = (0.0, 1.0, 2.5, 6.0, 12.0)  # gaps beyond an edge at which a panel ends
FAR = 1e-10  # tail probability where the panels end, of the base or of a t with at least 5 degrees of freedom
PHASE = 2.5  # radians a panel: the highest frequency of f it can integrate exp(f) with
DRAWS, FRESH = 2_048, 4_096  # nodes f is fitted with, and others that judge it
FEW_DRAWS = 1_024  # in the plane
CENTRES = 500  # rows that carry the proposal
NEIGHBOUR = 10  # its width at a row is the distance to this neighbour, if less than Scott's
SPACING = 3.0  # mean spacings of the nodes in a wavelength at least


class Rule(NamedTuple):
    """∫ h dx ≈ Σ_s exp(log_weights_s) h(points_s)."""

    points: Float[Array, "S E"]
    log_weights: Float[Array, " S"]
    share: Float[Array, " S"]  # of the node under half the base, half the rows
    frequency: float  # the highest, in radians a unit of u, that the nodes resolve


def integration_rule(
    y: Float[Array, "n E"],
    bases: tuple[Base, ...],
    warp: Warp,
    typical: float,
    rng: np.random.Generator,
    fresh: bool = False,
) -> Rule:
    """The rule for rows whose median distance in u is `typical`; one for all bases; a `fresh` one judges."""
    n, E = y.shape
    student = bases[0].student
    centres = y if n <= CENTRES else y[np.sort(rng.choice(n, CENTRES, replace=False))]
    width = _widths(centres)
    if E == 1:
        count, growth = (PANELS * FINER, FINER_GROWTH) if fresh else (PANELS, GROWTH)
        cuts = [end - side * gap * cut for base in bases for end, gap, side in base.edges for cut in CUTS]
        points, log_weights, frequency = _panels(y[:, 0], student, warp, np.array(cuts), count, growth)
        share = np.exp(log_weights + _log_proposal(points, student, centres, width))
        return Rule(points, log_weights, share / share.sum(), frequency)
    half = (FRESH if fresh else FEW_DRAWS if E == 2 else DRAWS) // 2
    u = quasi_random(2 * half, E + 1, rng)
    pick = np.minimum((u[half:, -1] * len(centres)).astype(int), len(centres) - 1)
    near = centres[pick] + width[pick, None] * ndtri(u[half:, :-1])
    points = np.concatenate([student.draw(u[:half]), near])
    log_weights = -_log_proposal(points, student, centres, width) - np.log(2 * half)
    frequency = 2.0 * np.pi * half ** (1.0 / E) / (SPACING * typical)
    return Rule(points, log_weights, np.full(2 * half, 0.5 / half), frequency)


def quasi_random(count: int, d: int, rng: np.random.Generator) -> Float[Array, "count d"]:
    """A randomly shifted Kronecker sequence in (0, 1)^d.

    Its steps are powers of the root of g^(d+1) = g + 1, the generalised golden ratio (Roberts 2018).
    """
    golden = 1.5
    for _ in range(40):
        golden = (1.0 + golden) ** (1.0 / (d + 1.0))
    u = (rng.random(d) + np.arange(count)[:, None] * golden ** -np.arange(1.0, d + 1.0)) % 1.0
    return np.clip(u, 1e-9, 1.0 - 1e-9)


def _panels(
    y: Float[Array, " n"], student: Student, warp: Warp, cuts: Float[Array, " c"], panels: int, growth: float
) -> tuple[Float[Array, "S 1"], Float[Array, " S"], float]:
    """Points, log weights, and the highest frequency they resolve."""
    reach = abs(float(student.lower[0, 0] * stdtrit(min(student.freedom, 5.0), FAR)))
    first, last = float(y.min()), float(y.max())
    ends = np.array(
        [min(first, student.centre[0] - reach), max(last, student.centre[0] + reach), first, last]
    )
    start, stop, left, right = warp(ends[:, None])[:, 0]
    step = (right - left) / panels
    count = 1 + int(np.log1p((growth - 1.0) * (stop - start) / step) / np.log(growth))
    tail = step * np.cumsum(growth ** np.arange(count))
    even = np.linspace(left, right, panels + 1)
    edges = np.concatenate([warp(cuts[:, None])[:, 0], left - tail, even, right + tail, [start, stop]])
    edges = np.unique(np.clip(edges, start, stop))
    node, weight = np.polynomial.legendre.leggauss(NODES)
    half = 0.5 * np.diff(edges)[:, None]
    u = (edges[:-1, None] + half + half * node).ravel()
    return warp.back(u[:, None]), np.log(half * weight).ravel() + warp.log_slope(u), PHASE / step


def _widths(centres: Float[Array, "c E"]) -> Float[Array, " c"]:
    """Scott's width, or the distance to a near neighbour (per axis) where that is less."""
    from scipy.spatial import cKDTree

    c, E = centres.shape
    spread = float(np.median(robust_spread(centres - np.median(centres, axis=0))))
    near = cKDTree(centres).query(centres, k=[min(NEIGHBOUR, c - 1) + 1])[0][:, 0] / np.sqrt(E)
    scott = spread * c ** (-1.0 / (E + 4.0))
    return np.clip(near, 1e-2 * scott, scott)


def _log_proposal(
    points: Float[Array, "S E"], student: Student, centres: Float[Array, "c E"], width: Float[Array, " c"]
) -> Float[Array, " S"]:
    """log of half the t and half the mixture of N(centre, width²)."""
    E = points.shape[1]
    squared = -2.0 * points @ centres.T + (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    log_height = -E * np.log(width) - 0.5 * E * np.log(2.0 * np.pi) - np.log(len(centres))
    near = log_sum_exp(log_height - 0.5 * np.maximum(squared, 0.0) / width**2, axis=1)
    return np.logaddexp(student.log_density(points), near) - np.log(2.0)

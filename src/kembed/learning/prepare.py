"""From rows to the learning problem: one way for the quick scan and for `learn_kernel`.

The sample is put in a frame that moves with it, landmarks and integration points are placed, and all of it
becomes a `Problem`. Only the unordered sample matters: rows are sorted before anything is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.linalg import robust_spread
from kembed.core.ordering import distinct_rows, sorted_to_rounding
from kembed.embeddings.landmarks import DEFAULT_COUNT, PER_COLUMN, Landmarks, as_rule, place
from kembed.kernels.measures import GaussianMeasure, Measure
from kembed.learning.families import Family
from kembed.learning.frame import Frame
from kembed.learning.integration import Rule, integration_rule
from kembed.learning.problem import Problem, padded_problem

BANK = 4  # scales around the landmarks at which integration points are drawn


@dataclass(frozen=True, eq=False)
class Effort:
    """How much is looked at; None is no limit, or as many as usual."""

    rows: int | None = None  # a subsample, before anything else
    axes: int | None = None  # the widest ones: a volume element costs the cube of the axes
    landmarks: int | None = None
    draws: int | None = None  # of the integration rule
    per_decade: int = 8  # scales of the grid
    temperatures: Float[np.ndarray, " T"] = field(default_factory=lambda: np.geomspace(0.03, 1.0, 7))
    scan_rows: int = 1_000  # rows of the scan over the grid
    # From here on modes are refined on this many rows, and the best is finished on all.
    refine_rows: int = 12_288


class Prepared(NamedTuple):
    """The problem, and how it came about."""

    problem: Problem
    n: int  # rows of the problem that count
    frame: Frame
    scales: Float[np.ndarray, " L"]  # the grid to be scanned
    stretch: float  # distances in all axes over those in the axes that were kept


class Setting(NamedTuple):
    """What the user may say of the problem."""

    noise: float | None = None  # τ², or None to learn it
    landmarks: Any = None
    measure: Measure | None = None  # ν, or None for a normal distribution as wide as the data
    paper: bool = False  # the published objective: in the user's own units, without a density


def prepare(
    rows: Float[np.ndarray, "n D"],
    family: Family,
    effort: Effort,
    rng: np.random.Generator,
    setting: Setting = Setting(),  # noqa: B008 - frozen
) -> Prepared:
    """Frame, canonical rows, landmarks, scales, spread, integration rule and problem, for sorted rows."""
    frame = _frame(rows, family, setting.paper)
    y = sorted_to_rounding(frame.into(rows))
    if effort.rows is not None and len(y) > effort.rows:
        y = y[np.sort(rng.choice(len(y), effort.rows, replace=False))]
    stretch = 1.0
    if effort.axes is not None and y.shape[1] > effort.axes:
        # Distances shrink when axes are left out; what is found has to be stretched back.
        kept = sorted_to_rounding(y[:, : effort.axes])
        stretch = float(np.sqrt((y**2).sum(axis=1).mean() / (kept**2).sum(axis=1).mean()))
        y = kept
    z = _landmarks(y, setting.landmarks, frame, effort, rng)
    scales = data_scales(y, z, effort.per_decade)
    spread = robust_spread(y[distinct_rows(y)])
    bank = np.geomspace(scales[0], np.sqrt(scales[0] * scales[-1]), BANK)
    rule, measure = Rule(z[:1], np.zeros(1)), setting.measure
    if not setting.paper:
        rule = integration_rule(y, z, bank, rng, spread, effort.draws)
        measure = None if measure is None else _in_frame(measure, frame)
    problem = padded_problem(y, z, rule, spread, frame, setting.noise or 0.0, measure)
    return Prepared(problem, len(y), frame, scales, stretch)


def _frame(rows: Float[np.ndarray, "n D"], family: Family, paper: bool) -> Frame:
    """The family's frame; none for the published objective, which is not the same in other units."""
    frame = family.frame(rows)
    if family.shape != "isotropic" and not (frame.full_rank and (frame.scale > 0.0).all()):
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0.0)
        what = f"column {constant[0]} of x is constant" if len(constant) else "columns of x are dependent"
        raise ValueError(
            f"{what}, so its lengthscales cannot all be learned; drop redundant columns, "
            "or learn one lengthscale with Gaussian()"
        )
    if not paper:
        return frame
    if not frame.full_rank:
        raise ValueError(
            "x has constant or dependent columns, where the paper's objective is -infinity; drop them"
        )
    D = rows.shape[1]
    return Frame(np.zeros(D), np.eye(D), np.ones(D))


def _in_frame(measure: Measure, frame: Frame) -> Measure:
    """The user's ν in the coordinates of the frame."""
    D = len(frame.centre)
    measure.check_dimension(D)
    if not (isinstance(measure, GaussianMeasure) and frame.full_rank):
        raise ValueError(
            "measure must be 'data', 'learn' or a GaussianMeasure on columns that are not dependent, "
            f"but {measure!r} was given"
        )
    Gamma = np.asarray(measure.covariance)
    full = Gamma if Gamma.ndim == 2 else Gamma * np.eye(D)
    to_frame = frame.axes / frame.scale
    centre = frame.into(np.broadcast_to(measure.centre, (1, D)))[0]
    turned = to_frame.T @ full @ to_frame
    return GaussianMeasure(centre, 0.5 * (turned + turned.T), measure.mass)


def _landmarks(
    y: Float[np.ndarray, "n E"], landmarks: Any, frame: Frame, effort: Effort, rng: np.random.Generator
) -> Float[np.ndarray, "m E"]:
    """Landmarks in the frame."""
    n, E = y.shape
    rule = as_rule(landmarks, "support")
    if rule is None:
        z = frame.into(np.asarray(checks.points(landmarks, "landmarks", dimension=len(frame.centre))))
    else:
        if rule.size is None:  # never more than half the rows: the rest must judge them
            usual = effort.landmarks or max(DEFAULT_COUNT, PER_COLUMN * E)
            rule = Landmarks(rule.rule, max(min(usual, n // 2), E + 1))
        z = place(y, rule, rng)
    # A scan of a subsample makes do with however few distinct rows that holds.
    if effort.rows is None and len(z) < E + 1:
        raise ValueError(
            f"there are {len(z)} landmarks for {E} columns, and at least {E + 1} are needed; "
            "give more landmarks, more (distinct) rows or fewer columns"
        )
    return z


def data_scales(
    y: Float[np.ndarray, "n E"], landmarks: Float[np.ndarray, "m E"], per_decade: int
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

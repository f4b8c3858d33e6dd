"""The learning problem as arrays and one function of a vector θ: what search and sampler share.

θ holds the family's numbers. Up to a size all rows predict all rows, and so they do for a Gaussian on one
column of any size (`Grid`). Otherwise several bags are drawn, in each of which all predict all: a sum
over bags scatters far less than one bag (Hall and Robinson 2009). The scale found is carried to all n by the
rate at which bandwidths shrink, n^(-1/(E+4)).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Array, Float, Int, namespace
from kembed.core.linalg import median_of_pairs, robust_spread, squared_distances
from kembed.core.ordering import distinct_rows, sorted_to_rounding
from kembed.kernels.measures import Lebesgue, Measure
from kembed.kernels.stationary import Gaussian, MultiScale
from kembed.learning.families import Family
from kembed.learning.frame import Frame
from kembed.learning.objective import (
    BACKGROUND,
    BACKGROUND_WIDTH,
    NARROW,
    TIED,
    gaussian_sums,
    log_beyond,
    log_cauchy,
    log_profiles,
    normalised,
    with_background,
)
from kembed.learning.paper.pseudolikelihood import paper_objective

# The prior's k. Gamma(1, 1) is the paper's; a stronger one takes back more of the much too small scales that
# a few samples of one column get. Up to 4 single-kernel tests lose no power (`benchmarks scales`).
GAMMA = 4.0


@dataclass(frozen=True)
class Effort:
    """How much is looked at."""

    centres: int = 1_000  # rows that predict, at most
    entries: int = 600_000  # pairs of a row and a centre, about 6 ms a look; a bag has half
    # At most. With 300 rows predicted by 2,000 the scale of 20,000 normal rows varied fivefold over draws.
    bags: int = 16
    per_decade: int = 6  # scales of the grid
    grid: bool = True  # all rows of one column predict all rows, where a Gaussian is learned from many


class Pairs(NamedTuple):
    """Rows that are predicted, and rows that predict them; all arrays."""

    rows: Float[Array, "Q E"]
    centres: Float[Array, "M E"]  # with several bags, of the first
    squared: Float[Array, "Q M"]  # their plain squared distances, ties TIED
    ties: Float[Array, "Q M"]  # TIED where a row and a centre are equal, else 0

    def log_sums(self, family: Family, kernel: Any) -> Float[Array, " Q"]:
        """log Σ_j exp ψ(NARROW² s_ij) over rows of other values."""
        if family.shape == "isotropic":
            return log_profiles(kernel, self.squared, (NARROW / getattr(kernel, "lengthscale", 1.0)) ** 2)
        return log_profiles(kernel, kernel.scaled_distances(self.rows, self.centres) + self.ties, NARROW**2)


class Grid(NamedTuple):
    """One column, of which all rows predict all rows through a Gaussian, by sums over a grid; all arrays."""

    values: Float[np.ndarray, " K"]  # distinct, in the frame, rising
    counts: Float[np.ndarray, " K"]
    number: Int[np.ndarray, " n"]  # the place of every row's value

    def log_sums(self, family: Family, kernel: Any) -> Float[np.ndarray, " n"]:
        """The same."""
        with np.errstate(divide="ignore"):  # rows far from all others: the background remains
            sums = np.log(gaussian_sums(self.values, self.counts, float(kernel.lengthscale) / NARROW))
        return sums[self.number]


class Problem(NamedTuple):
    """Rows in the frame, what predicts them, and what priors need; all arrays."""

    sums: Pairs | Grid
    cell: Float[Array, ""] | None  # what a value of the one column stands for, if it is rounded
    log_count: Float[Array, " Q"]  # log of how many rows predict each
    log_background: Float[Array, " Q"]
    weight: Float[Array, ""]  # rows that each stands for
    unit: Float[Array, ""]  # natural unit of lengthscales
    axes: Float[Array, "D E"]  # the frame, for priors in the user's units
    scale: Float[Array, " E"]

    def log_predicted(self, family: Family, kernel: Any) -> Float[Array, " Q"]:
        """log of the mean of κ between every row and those that predict it."""
        beyond = 0.0 if self.cell is None else log_beyond(kernel, self.cell)
        mean = self.sums.log_sums(family, kernel) - (self.log_count + beyond)
        return normalised(mean, kernel, self.axes.shape[1])


class PaperProblem(NamedTuple):
    """What the published objective needs, in the user's units; all arrays."""

    x: Float[Array, "n D"]
    landmarks: Float[Array, "m D"]
    noise: Float[Array, ""]
    measure: Measure
    unit: Float[Array, ""]
    axes: Float[Array, "D D"]
    scale: Float[Array, " D"]


@dataclass(frozen=True)
class Spec:
    """What is learned: static, so that it selects a compiled program."""

    family: Family
    prior: Callable[[Any], Any] | str | None = "gamma"  # of θ
    paper: bool = False  # the published objective


class Prepared(NamedTuple):
    """The problem, and how it came about."""

    problem: Any
    n: int
    frame: Frame
    scales: Float[np.ndarray, " L"]  # the grid to be scanned
    box: Float[np.ndarray, "P 2"]  # bounds of θ
    carried: float  # scale at n rows over that at the problem's
    rows: Float[np.ndarray, "n E"] | None = None  # all of them in the frame
    width: Float[np.ndarray, " E"] | None = None  # of the background


def prepare(
    rows: Float[np.ndarray, "n D"],
    family: Family,
    effort: Effort,
    rng: np.random.Generator,
    in_all: int | None = None,
) -> Prepared:
    """Frame, rows in it, grid and bounds, for rows in lexicographic order; of so many `in_all`."""
    frame = family.frame(rows)
    if family.shape != "isotropic" and not (frame.full_rank and (frame.scale > 0.0).all()):
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0.0)
        what = f"column {constant[0]} of x is constant" if len(constant) else "columns of x are dependent"
        raise ValueError(
            f"{what}, so its lengthscales cannot all be learned; drop redundant columns, "
            "or learn one lengthscale with Gaussian()"
        )
    y = sorted_to_rounding(frame.into(rows))
    n, E = y.shape
    number = np.cumsum(distinct_rows(y)) - 1  # equal rows have one
    gap, shared, rounded = resolutions(rows)
    if rows.shape[1] > 1 and shared.any():
        y = y + within_cells(gap * shared, n, rng) @ frame.axes / frame.scale
        number = np.arange(n) if rounded.all() else number
    cell = gap[0] / frame.scale[0] if rows.shape[1] == 1 and rounded[0] else None
    width = BACKGROUND_WIDTH * robust_spread(y[distinct_rows(y)])
    radius = np.sqrt((y**2).sum(axis=1))
    sums: Pairs | Grid
    if effort.grid and effort.bags > 1 and n**2 > effort.entries and E == 1 and family.cls is Gaussian:
        chosen, M = np.arange(n), n
        values, counts = y[distinct_rows(y), 0], np.bincount(number)
        sums, tied = Grid(values, counts.astype(float), number), counts[number]
        between = np.concatenate([[np.inf], np.diff(values), [np.inf]])
        nearest = np.minimum(between[:-1], between[1:])[number]
        evenly = y[np.linspace(0, n - 1, effort.centres).round().astype(int), 0]
        apart = np.abs(evenly[:, None] - evenly)
        unit = np.median(apart[apart > 0.0])
    else:
        bags, among = _rows_and_centres(number, effort, rng, family.shape == "isotropic")
        chosen, M = np.concatenate(bags), len(among[0])
        both = list(zip(bags, among, strict=True))
        equal = np.concatenate([number[some][:, None] == number[others] for some, others in both])
        squared = np.concatenate([squared_distances(y[some], y[others]) for some, others in both])
        squared[equal] = TIED
        sums, tied = Pairs(y[chosen], y[among[0]], squared, np.where(equal, TIED, 0.0)), equal.sum(axis=1)
        nearest = np.sqrt(squared.min(axis=1))
        unit = np.sqrt(np.median(squared[~equal])) if family.shape == "isotropic" else 1.0
    scales = data_scales(nearest, radius, _diameter(y), E, effort.per_decade)
    box = np.array(family.bounds(float(scales[0]), float(scales[-1]), E))
    if family.shape == "ard":
        box[:E] = np.log(np.array([gap, np.ptp(rows, axis=0)]).T / frame.scale[:, None])
    problem = Problem(
        sums=sums,
        cell=cell,
        log_count=np.log(M - (tied if cell is None else np.ones(len(chosen)))),
        log_background=log_cauchy(y[chosen], width),
        weight=np.float64(n / len(chosen)),
        unit=np.float64(unit),
        axes=frame.axes,
        scale=frame.scale,
    )
    carried = float((M / (in_all or n)) ** (1.0 / (E + 4)))
    return Prepared(problem, n, frame, scales, box, carried, y, width)


def _rows_and_centres(
    number: Int[np.ndarray, " n"], effort: Effort, rng: np.random.Generator, isotropic: bool
) -> tuple[list[Int[np.ndarray, " Q"]], list[Int[np.ndarray, " M"]]]:
    """Rows that are predicted and rows that predict, a pair for every bag."""
    n = len(number)
    kept = np.arange(n) if n <= effort.centres else np.sort(rng.choice(n, effort.centres, replace=False))
    if number[kept[0]] == number[kept[-1]]:  # by chance one value only, of a column that hardly has another
        kept = np.sort(np.unique(number, return_index=True)[1])[: effort.centres]
    if isotropic and (bags := _bags(number, effort, rng)) is not None:
        return bags, bags
    M = len(kept)
    Q = max(min(M, effort.entries // M), 1)
    return [kept if Q == M else kept[np.sort(rng.choice(M, Q, replace=False))]], [kept]


def _bags(
    number: Int[np.ndarray, " n"], effort: Effort, rng: np.random.Generator
) -> list[Int[np.ndarray, " M"]] | None:
    """Bags of rows, no row in two; None where rows are too few for two, or a bag has one value only."""
    size = int((0.5 * effort.entries) ** 0.5)
    count = min(effort.bags, len(number) // size)
    if count < 2:
        return None
    bags = list(np.sort(rng.choice(len(number), (count, size), replace=False), axis=1))
    return None if any(number[bag[0]] == number[bag[-1]] for bag in bags) else bags


def resolutions(rows: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "3 D"]:
    """Of every column: gaps between values, whether rows share values, whether these are rounded."""
    return np.array([_resolution(column) for column in rows.T]).T


def within_cells(gap: Float[np.ndarray, " D"], n: int, rng: np.random.Generator) -> Float[np.ndarray, "n D"]:
    """Moves that put shared values somewhere in the cells they stand for, where gap is not 0."""
    return gap * (rng.random((n, len(gap))) - 0.5)


def _diameter(y: Float[np.ndarray, "n E"]) -> float:
    """The range of one column; of several the diagonal of the box they fill."""
    return float(np.sqrt((np.ptp(y, axis=0) ** 2).sum()))


def _resolution(column: Float[np.ndarray, " n"]) -> tuple[float, bool, bool]:
    """The usual distance to the next other value; whether rows share values; whether these are rounded.

    They are if most are equally far from the next; else rows may have been repeated.
    """
    ordered = np.sort(column)
    first = np.append(True, ordered[1:] > ordered[:-1])
    values = ordered[first]
    if len(values) == 1:
        return 0.0, False, False
    gaps = np.concatenate([[np.inf], np.diff(values), [np.inf]])
    nearest = np.minimum(gaps[:-1], gaps[1:])
    usual = float(np.median(nearest[np.cumsum(first) - 1]))  # of every row
    rounded = bool((np.abs(nearest - usual) <= 1e-6 * usual).mean() > 0.5)
    if rounded or len(values) == len(column):
        return usual, rounded, rounded
    return usual, bool(np.median(np.diff(np.append(np.flatnonzero(first), len(column)))) > 1), False


def data_scales(
    nearest: Float[np.ndarray, " Q"],
    radius: Float[np.ndarray, " n"],
    diameter: float,
    E: int,
    per_decade: int,
) -> Float[np.ndarray, " L"]:
    """A log grid from the distance to the next other row to the diameter of nearly all the data.

    In one dimension the former is the resolution of the values; in more, scales may lie below it.
    """
    usual = float(np.median(nearest))
    high = min(diameter, max(4.0 * float(np.quantile(radius, 0.95)), 2.0 * usual))
    low = min(usual / E**2, 0.5 * high)
    low = max(low, 1e-6 * high)
    count = int(np.ceil(per_decade * np.log10(high / low))) + 1
    return np.geomspace(low, high, max(count, 5))


def prepare_paper(
    rows: Float[np.ndarray, "n D"],
    family: Family,
    effort: Effort,
    landmarks: Float[np.ndarray, "m D"],
    noise: float,
    measure: Measure | None,
) -> Prepared:
    """The published objective's problem: in the user's own units, where it is not the same in others."""
    if not family.frame(rows).full_rank:
        raise ValueError(
            "x has constant or dependent columns, where the paper's objective is -infinity; drop them"
        )
    n, D = rows.shape
    frame = Frame(np.zeros(D), np.eye(D), np.ones(D))
    apart = squared_distances(landmarks, landmarks)
    np.fill_diagonal(apart, np.inf)
    nearest, radius = np.sqrt(apart.min(axis=1)), np.sqrt(((rows - np.median(rows, axis=0)) ** 2).sum(axis=1))
    scales = data_scales(0.5 * nearest * D**2, radius, 4.0 * _diameter(rows), D, effort.per_decade)
    unit = np.sqrt(median_of_pairs(np.where(np.isfinite(apart), apart, 0.0)))
    ground = Lebesgue() if measure is None else measure
    numbers = np.float64(noise), ground, np.float64(unit)
    problem = PaperProblem(rows, landmarks, *numbers, frame.axes, frame.scale)
    box = np.array(family.bounds(float(scales[0]), float(scales[-1]), D))
    return Prepared(problem, n, frame, scales, box, 1.0)


def objective(
    spec: Spec, theta: Float[Array, " P"], problem: Any, background: float = BACKGROUND
) -> tuple[Any, Any]:
    """Log pseudolikelihood plus log prior at θ, and the former alone; `background` is ε."""
    E = problem.axes.shape[1]
    kernel = spec.family.kernel(theta, E)
    if spec.paper:
        value = paper_objective(kernel, problem.noise, problem.x, problem.landmarks, problem.measure)
    else:
        predicted = problem.log_predicted(spec.family, kernel)
        value = problem.weight * with_background(predicted, problem.log_background, background).sum()
    return value + log_prior(spec, kernel, problem), value


def log_prior(spec: Spec, kernel: Any, problem: Any) -> Any:
    """Of θ, so of logarithms of lengthscales: the user's, or "gamma".

    "gamma" is Gamma(k, k) on every lengthscale in its natural unit, and standard normal on the logits of
    weights, log(α - E/2) and the off-diagonal entries of a full covariance's factor.
    """
    if spec.prior is None:
        return 0.0
    if callable(spec.prior):
        return spec.prior(spec.family.in_units(kernel, problem.axes, problem.scale))
    xp = namespace(*vars(kernel).values())
    scales = natural_scales(kernel) / problem.unit
    total = GAMMA * (xp.log(scales) - scales).sum()
    if isinstance(kernel, MultiScale):
        return total - 0.5 * (xp.log(kernel.weights / kernel.weights[0]) ** 2).sum()
    if kernel.cholesky is not None:
        total = total - 0.5 * (xp.tril(kernel.cholesky / scales[:, None], -1) ** 2).sum()
    alpha = getattr(kernel, "alpha", None)
    return total if alpha is None else total - 0.5 * xp.log(alpha - 0.5 * problem.axes.shape[1]) ** 2


def natural_scales(kernel: Any) -> Any:
    """Every lengthscale; of a full covariance the diagonal of its factor."""
    xp = namespace(*vars(kernel).values())
    if isinstance(kernel, MultiScale):
        return kernel.lengthscales
    return xp.diagonal(kernel.cholesky) if kernel.cholesky is not None else xp.atleast_1d(kernel.lengthscale)


@functools.cache
def compiled() -> Any:
    """The compiled function (spec, θ, problem) -> (objective, pseudolikelihood), slopes of the former."""
    import jax

    return jax.jit(jax.value_and_grad(objective, argnums=1, has_aux=True), static_argnums=0)

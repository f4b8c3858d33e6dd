"""The posterior of μ_x - μ_y, the difference of two embeddings, with bands at one point or at all at once.

Both embeddings are observed at the same landmarks with the noise of the central limit theorem, and share one
prior: ν is half of either sample. The half width of a simultaneous band is c √(sd(s)² + f² max sd²), c a
quantile of the largest deviation over reference points in these units. The floor f keeps points where hardly
any row was seen, and whose estimated sd says nothing, from deciding c.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float, to_numpy
from kembed.core.ordering import sorted_rows, turns
from kembed.embeddings.empirical import row_blocks, weighted_sum
from kembed.embeddings.landmarks import choose_landmarks
from kembed.embeddings.posterior import PSEUDO_ROWS, PosteriorEmbedding, fit_with_pseudo_rows
from kembed.kernels.base import Kernel
from kembed.kernels.measures import EmpiricalMeasure
from kembed.kernels.space import Space, make_space
from kembed.tables.table import Tables

Samples = tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "m D"]]
Points = Float[np.ndarray, "p D"]
Values = Float[np.ndarray, " p"]
# Half from each sample: m³ for solving at the landmarks, and m times this many point masses of ν for r(z, z),
# stay below a second.
LANDMARKS, MASSES = 300, 1_000
# A lengthscale is known well enough from so many rows, and learning takes seconds.
LEARNING_ROWS = 5_000
NOTHING = 1e-9  # an eigenvalue below this share of the largest adds less to a draw than its sd is known to
Draws = Float[np.ndarray, "B p"]
# Reference points: a step of 1% of the range, and of the rows the very ones that regions are formed from.
GRID, REFERENCE_ROWS = 200, 600
# Of the posterior, and of the rows: the Monte Carlo error of a 90% quantile is then about 3% of c.
DRAWS, RESAMPLES = 1_000, 500
# Resampling more rows than this changes c by less than its Monte Carlo error.
RESAMPLED_ROWS = 2_000
# The least share of the largest sd that counts; measured, see the benchmark of coverage.
FLOOR = 0.2
# The same for intervals at one point: in a tail where hardly a row was seen the estimated sd is too small, as
# Wald's of a share near 0. Without it 90% intervals held the truth on .72 to .85 of the range of lognormal
# and gamma rows (`python -m benchmarks bands`).
POINTWISE_FLOOR = 0.05


@dataclass(frozen=True, eq=False)
class Difference:
    """The posterior of μ_x - μ_y, under one kernel or a mixture over several.

    Landmarks are as for `witness`, `discrete` says whether any column is. What it was fitted to is stored,
    and it is fitted again after it was pickled: rows take less room than its matrices.
    """

    samples: Samples
    kernels: list[Kernel]
    landmarks: Any
    discrete: bool
    seed: int

    def __post_init__(self) -> None:
        assert self.pairs  # what cannot be fitted is refused here

    def __getstate__(self) -> dict[str, Any]:
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @cached_property
    def pairs(self) -> tuple[tuple[PosteriorEmbedding, PosteriorEmbedding], ...]:
        """Both embeddings under every kernel."""
        x, y = map(sorted_rows, self.samples)  # so that no bit depends on the order of rows
        measure = half_of_each((x, y), MASSES, self.seed)
        if self.landmarks is not None:
            z = choose_landmarks(np.concatenate([x, y]), self.landmarks, rng=self.seed)
        elif self.discrete or x.shape[1] > 1:
            z = np.unique(balanced_rows((x, y), LANDMARKS, self.seed), axis=0)
        else:  # a third on a grid, so that no gap between rows goes unobserved
            rows = balanced_rows((x, y), 2 * LANDMARKS // 3, self.seed)
            z = np.unique(np.concatenate([rows, even_grid((x, y), LANDMARKS // 3)]), axis=0)
        fit = partial(fit_with_pseudo_rows, measure=measure, z=z, count=PSEUDO_ROWS)
        return tuple((fit(x, kernel), fit(y, kernel)) for kernel in map(to_numpy, self.kernels))

    @cached_property
    def _priors(self) -> tuple["_Prior", ...]:
        return tuple(_Prior(pair[0]) for pair in self.pairs)

    def mean(self, points: Points) -> Values:
        """The posterior mean: Σ_l c_l r(s, z_l), averaged over kernels."""
        found = []
        for (x, y), prior in zip(self.pairs, self._priors, strict=True):
            weights = prior.to_landmarks @ (x.coefficients - y.coefficients)
            found.append(weighted_sum(prior.kernel, points, prior.masses, weights))
        return np.array(found).mean(axis=0)

    def moments(self, points: Points) -> tuple[Values, Values, Values]:
        """Mean, standard deviation, and degrees of freedom (Welch 1947) at points."""
        means, one, other = np.empty((3, len(self.pairs), len(points)))
        for k, (pair, prior) in enumerate(zip(self.pairs, self._priors, strict=True)):
            x, y = pair
            for rows, cross, own in prior.blocks(points):
                means[k, rows] = cross @ (x.coefficients - y.coefficients)
                for embedding, variances in ((x, one), (y, other)):
                    half = embedding.factor.half_solve(cross.T)
                    variances[k, rows] = np.maximum(own - np.square(half).sum(axis=0), 0.0)  # not -1e-17
        variance = one + other
        n, m = (embedding.n for embedding in self.pairs[0])
        inverse = (one**2 / (n - 1) + other**2 / (m - 1)).mean(axis=0)
        freedom = np.where(inverse > 0.0, (variance**2).mean(axis=0) / np.where(inverse > 0, inverse, 1), 1e9)
        total = variance.mean(axis=0) + means.var(axis=0)  # within kernels, and between them
        return means.mean(axis=0), np.sqrt(total), freedom

    def draws(self, points: Points, size: int, rng: np.random.Generator) -> Float[np.ndarray, "size p"]:
        """Functions from the posterior; every kernel in turn. Student's t, since the noise is estimated."""
        found = np.zeros((size, len(points)))
        for k, (pair, prior) in enumerate(zip(self.pairs[:size], self._priors, strict=False)):
            rows = np.arange(k, size, len(self.pairs))
            cross, among = prior.matrices(points)
            for place in _turns(pair):
                embedding, sign = pair[place], (1.0, -1.0)[place]
                half = embedding.factor.half_solve(cross.T)
                root = _root(among - half.T @ half)
                deviation = rng.standard_normal((len(rows), root.shape[1])) @ root.T
                freedom = embedding.n - 1
                scale = np.sqrt(freedom / rng.chisquare(freedom, len(rows)))
                found[rows] += sign * (cross @ embedding.coefficients + scale[:, None] * deviation)
        return found

    def likeness(self, rows: Points, others: Points) -> Float[np.ndarray, "p q"]:
        """k(s, s') / √(k(s, s) k(s', s')), averaged over kernels: 1 for a point and itself."""
        total = np.zeros((len(rows), len(others)))
        for pair in self.pairs:
            kernel: Kernel = pair[0].kernel
            scale = np.sqrt(kernel.diagonal(rows))[:, None] * np.sqrt(kernel.diagonal(others))
            total += kernel._gram(rows, others) / scale
        return total / len(self.pairs)


class _Prior:
    """r = ∫ k(·, u) k(u, ·) ν(du) of both embeddings of a pair, which share kernel, ν and landmarks."""

    def __init__(self, embedding: PosteriorEmbedding) -> None:
        assert isinstance(embedding.measure, EmpiricalMeasure)
        self.kernel, self.masses = embedding.kernel, embedding.measure.points
        self.weights = embedding.measure.weights
        self.to_landmarks = self.weights[:, None] * self.kernel._gram(self.masses, embedding.landmarks)

    def blocks(self, points: Points) -> Iterator[tuple[slice, Points, Values]]:
        """Of some points at a time: their places, r(s, z) and r(s, s)."""
        for rows in row_blocks(len(points), len(self.masses)):
            left = self.kernel._gram(points[rows], self.masses)
            yield rows, left @ self.to_landmarks, np.square(left) @ self.weights

    def matrices(self, points: Points) -> tuple[Points, Points]:
        """r(s, z) and r(s, s') of all points."""
        left = self.kernel._gram(points, self.masses)
        return left @ self.to_landmarks, (left * self.weights) @ left.T


def _turns(pair: tuple[PosteriorEmbedding, PosteriorEmbedding]) -> tuple[int, int]:
    """The same of embeddings, by their rows and what they are at the landmarks."""
    n, m = (embedding.n for embedding in pair)
    x, y = (embedding.coefficients for embedding in pair)
    where = np.argmax(np.abs(x - y))  # far from a tie: rounding does not turn them
    return (1, 0) if (n, x[where]) < (m, y[where]) else (0, 1)


def _root(covariance: Points) -> Points:
    """F with F Fᵀ = C, by the eigenvalues that are more than rounding: a smooth kernel has few."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > NOTHING * max(float(values[-1]), 0.0)
    return vectors[:, kept] * np.sqrt(values[kept])


def balanced_rows(samples: Samples, size: int, seed: int) -> Points:
    """At most `size` rows, half of them from each sample as far as it has so many; order does not matter."""
    rng = np.random.default_rng(seed)
    parts = [sorted_rows(rows) for rows in samples]
    for place in turns(parts):
        rows = parts[place]
        half = min(size // 2, len(rows))
        parts[place] = rows[np.sort(rng.choice(len(rows), half, replace=False))]
    return np.concatenate(parts)


def half_of_each(samples: Samples, size: int, seed: int) -> EmpiricalMeasure:
    """ν = ½ of either sample, thinned to at most `size` point masses; to the last bit that of (y, x)."""
    parts = np.split(balanced_rows(samples, size, seed), [min(size // 2, len(samples[0]))])
    parts = [parts[place] for place in turns(parts)]
    sizes = [len(part) for part in parts]
    return EmpiricalMeasure(np.concatenate(parts), np.repeat([0.5 / n for n in sizes], sizes))


def even_grid(samples: Samples, size: int) -> Float[np.ndarray, "g 1"]:
    """A grid over the range of both samples: half at even steps, half at quantiles, for heavy tails."""
    pooled = np.concatenate(samples)[:, 0]
    even = np.linspace(pooled.min(), pooled.max(), size // 2)
    quantiles = np.quantile(pooled, np.linspace(0.0, 1.0, size - size // 2))
    return np.unique(np.concatenate([even, quantiles]))[:, None]


def thinned(space: Space, seed: int) -> Space:
    """The space of at most 5,000 of its rows, to learn a kernel from."""
    if len(space.values) <= LEARNING_ROWS:
        return space
    chosen = np.random.default_rng(seed).choice(len(space.values), LEARNING_ROWS, replace=False)
    return make_space(space.values[np.sort(chosen)], space.categorical)  # pooled rows are in sorted order


class Bands(NamedTuple):
    """The witness at points, (p,): its posterior, and intervals that hold at each point or at all at once."""

    mean: Values
    sd: Values
    lower: Values
    upper: Values
    simultaneous_lower: Values
    simultaneous_upper: Values

    @property
    def excludes_zero(self) -> Bool[np.ndarray, " p"]:
        """Whether the simultaneous band excludes 0."""
        return self.outside(1) | self.outside(-1)

    def outside(self, sign: int) -> Bool[np.ndarray, " p"]:
        """Where the simultaneous band lies above 0 (sign 1) or below it (-1)."""
        return self.simultaneous_lower > 0.0 if sign > 0 else self.simultaneous_upper < 0.0


@dataclass(frozen=True, eq=False)
class Sup:
    """Largest deviations over the reference points, in half widths of a band."""

    maxima: Float[np.ndarray, " B"]  # of draws from the posterior
    resampled: Float[np.ndarray, " R"]  # of embeddings of resampled rows
    floor: float
    tails: Float[np.ndarray, " R"] | None = None  # least share of larger ones over the scales tried together

    def critical(self, level: float) -> float:
        """c: the larger of two quantiles, at a level that holds over all scales where several were tried.

        The posterior knows what smoothing left out; resampled rows know that an estimate which happens to be
        low has too small an sd as well (Efron's bootstrap t).
        """
        if self.tails is not None:
            level = 1.0 - float(np.quantile(self.tails, 1.0 - level))
        return float(max(np.quantile(self.maxima, level), np.quantile(self.resampled, level)))


def reference_points(tables: Tables, seed: int) -> Points:
    """The points over which bands are simultaneous: a grid for one column, else rows of both samples."""
    samples = tables[0].values, tables[1].values
    if len(tables[0].names) == 1 and not tables[0].categorical[0]:
        return even_grid(samples, GRID)
    return np.unique(balanced_rows(samples, REFERENCE_ROWS, seed), axis=0)


def make_bands(difference: Difference, sup: Sup, points: Points, level: float) -> Bands:
    """The difference at points with Student's intervals and the simultaneous band of this level."""
    from scipy.special import stdtrit

    mean, sd, freedom = difference.moments(points)
    least = POINTWISE_FLOOR / FLOOR * sup.floor
    reach = stdtrit(freedom, 0.5 + 0.5 * level) * np.sqrt(sd**2 + least**2)
    wide = sup.critical(level) * np.sqrt(sd**2 + sup.floor**2)
    return Bands(mean, sd, mean - reach, mean + reach, mean - wide, mean + wide)


def suprema(difference: Difference, samples: Samples, points: Points, seed: int) -> Sup:
    """The distribution of the largest deviation over points."""
    rng = np.random.default_rng(seed)
    samples = sorted_rows(samples[0]), sorted_rows(samples[1])
    mean, sd, _ = difference.moments(points)
    floor = FLOOR * float(sd.max())
    variance = sd**2 + floor**2
    maxima = _largest(difference.draws(points, DRAWS, rng) - mean, np.sqrt(variance))
    each = -(-RESAMPLES // len(difference.pairs))
    resampled = []
    for pair in difference.pairs:
        change, more = _resampled(pair[0].kernel, samples, points, each, rng)
        resampled.append(_largest(change, np.sqrt(np.maximum(variance + more, floor**2))))
    return Sup(maxima, np.concatenate(resampled), floor)


def _largest(deviation: Draws, width: Values | Draws) -> Float[np.ndarray, " B"]:
    """The largest ratio of each row; 0 where nothing is uncertain."""
    zero = np.zeros_like(deviation)
    return np.divide(np.abs(deviation), width, out=zero, where=width > 0.0).max(axis=1)


def _resampled(
    kernel: Kernel, samples: Samples, points: Points, count: int, rng: np.random.Generator
) -> tuple[Draws, Draws]:
    """How the empirical witness and its variance change when rows are drawn anew, with replacement."""
    change, variance = np.zeros((2, count, len(points)))
    for place in turns(samples):
        rows, sign = samples[place], (1.0, -1.0)[place]
        total = len(rows)
        if total > RESAMPLED_ROWS:
            rows = rows[np.sort(rng.choice(total, RESAMPLED_ROWS, replace=False))]
        n = len(rows)
        shrink = n / total  # what a subsample's variance is larger by
        weights = rng.multinomial(n, np.full(n, 1.0 / n), size=count) / n
        F = np.concatenate([kernel._gram(rows[part], points) for part in row_blocks(n, len(points))])
        F -= F.mean(axis=0)
        moved = weights @ F
        change += sign * moved * np.sqrt(shrink)
        variance += ((weights @ F**2 - moved**2) - (F**2).mean(axis=0)) * shrink / n
    return change, variance

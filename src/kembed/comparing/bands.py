"""Bands around the difference of two embeddings, at one point or at all reference points at once.

The half width of a simultaneous band is c √(sd(s)² + f² max sd²), c a quantile of the largest deviation in
these units. The floor f keeps points where hardly any row was seen, and whose estimated sd says nothing, from
deciding c.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kembed.comparing.difference import Difference, Points, Samples, Values, balanced_rows, even_grid
from kembed.core.backend import Bool, Float
from kembed.core.ordering import sorted_rows, turns
from kembed.embeddings.empirical import row_blocks
from kembed.kernels.base import Kernel
from kembed.tables.table import Tables

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

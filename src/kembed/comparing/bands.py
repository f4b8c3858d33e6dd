"""The posterior of a difference of embeddings, and bands around it.

Both embeddings are observed at the same landmarks with the noise of the central limit theorem. A band is
simultaneous if it holds at all reference points at once: its half width is c √(sd(s)² + f² max sd²), c a
quantile of the largest deviation in these units. The floor f keeps points where hardly any row was seen, and
whose estimated sd says nothing, from deciding c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.core.ordering import sorted_rows
from kembed.embeddings.empirical import row_blocks
from kembed.kernels.base import Kernel

if TYPE_CHECKING:
    from jaxtyping import Float

    from kembed.embeddings.posterior import PosteriorEmbedding

GRID = 200
REFERENCE_ROWS = 600  # the very rows that regions are formed from
DRAWS = 2_000
RESAMPLES = 500
# Resampling more rows than this changes c by less than its Monte Carlo error.
RESAMPLED_ROWS = 2_000
# The least share of the largest sd that counts; measured, see the benchmark of coverage.
FLOOR = 0.2


@dataclass(frozen=True, eq=False)
class Difference:
    """The posterior of μ_x - μ_y, under one kernel or a mixture over several."""

    pairs: tuple[tuple[PosteriorEmbedding, PosteriorEmbedding], ...]

    def mean(self, points: Float[np.ndarray, "p D"]) -> Float[np.ndarray, " p"]:
        """The posterior mean."""
        return np.mean([x.mean(points) - y.mean(points) for x, y in self.pairs], axis=0)

    def moments(
        self, points: Float[np.ndarray, "p D"]
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """Mean, standard deviation, and degrees of freedom (Welch 1947) at points."""
        means = np.array([x.mean(points) - y.mean(points) for x, y in self.pairs])
        one, other = (np.array([pair[side].sd(points) ** 2 for pair in self.pairs]) for side in (0, 1))
        variance = one + other
        n, m = (embedding.n for embedding in self.pairs[0])
        inverse = (one**2 / (n - 1) + other**2 / (m - 1)).mean(axis=0)
        freedom = np.where(inverse > 0.0, (variance**2).mean(axis=0) / np.where(inverse > 0, inverse, 1), 1e9)
        total = variance.mean(axis=0) + means.var(axis=0)  # within kernels, and between them
        return means.mean(axis=0), np.sqrt(total), freedom

    def draws(
        self, points: Float[np.ndarray, "p D"], size: int, rng: np.random.Generator
    ) -> Float[np.ndarray, "size p"]:
        """Functions from the posterior; every kernel in turn. Student's t, since the noise is estimated."""
        found = np.empty((size, len(points)))
        for k, pair in enumerate(self.pairs):
            rows = np.arange(k, size, len(self.pairs))
            if not len(rows):
                continue
            for embedding, sign in zip(pair, (1.0, -1.0), strict=True):
                mean = embedding.mean(points)
                deviation = embedding.sample(points, len(rows), rng) - mean
                freedom = embedding.n - 1
                scale = np.sqrt(freedom / rng.chisquare(freedom, len(rows)))
                part = sign * (mean + scale[:, None] * deviation)
                found[rows] = part if sign > 0.0 else found[rows] + part
        return found

    def likeness(
        self, rows: Float[np.ndarray, "p D"], others: Float[np.ndarray, "q D"]
    ) -> Float[np.ndarray, "p q"]:
        """k(s, s') / √(k(s, s) k(s', s')), averaged over kernels: 1 for a point and itself."""
        total = np.zeros((len(rows), len(others)))
        for pair in self.pairs:
            kernel: Kernel = pair[0].kernel
            scale = np.sqrt(kernel.diagonal(rows))[:, None] * np.sqrt(kernel.diagonal(others))
            total += kernel._gram(rows, others) / scale
        return total / len(self.pairs)


@dataclass(frozen=True, eq=False)
class Sup:
    """Largest deviations over the reference points, in half widths of a band."""

    maxima: Float[np.ndarray, " B"]  # of draws from the posterior
    resampled: Float[np.ndarray, " R"]  # of embeddings of resampled rows
    floor: float

    def width(self, sd: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """The half width of a band with c = 1."""
        return np.sqrt(sd**2 + self.floor**2)

    def critical(self, level: float) -> float:
        """c: the larger of two quantiles.

        The posterior knows what smoothing left out; resampled rows know that an estimate which happens to be
        low has too small an sd as well (Efron's bootstrap t).
        """
        return float(max(np.quantile(self.maxima, level), np.quantile(self.resampled, level)))


def suprema(
    difference: Difference, x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], points: Any, seed: int
) -> Sup:
    """The distribution of the largest deviation over points."""
    rng = np.random.default_rng(seed)
    mean, sd, _ = difference.moments(points)
    floor = FLOOR * float(sd.max())
    drawn = np.abs(difference.draws(points, DRAWS, rng) - mean)
    maxima = _ratio(drawn, np.sqrt(sd**2 + floor**2))
    each = -(-RESAMPLES // len(difference.pairs))
    resampled = [_resampled(pair[0].kernel, x, y, points, sd, floor, each, rng) for pair in difference.pairs]
    return Sup(maxima, np.concatenate(resampled), floor)


def _ratio(deviation: Float[np.ndarray, "B p"], width: Any) -> Float[np.ndarray, " B"]:
    """The largest ratio of each row; 0 where nothing is uncertain."""
    safe = np.where(width > 0.0, width, 1.0)
    return np.where(width > 0.0, deviation / safe, 0.0).max(axis=1)


def _resampled(
    kernel: Kernel,
    x: Float[np.ndarray, "n D"],
    y: Float[np.ndarray, "m D"],
    points: Float[np.ndarray, "p D"],
    sd: Float[np.ndarray, " p"],
    floor: float,
    count: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, " R"]:
    """The largest studentised change of the empirical witness when rows are drawn anew, with replacement."""
    change = np.zeros((count, len(points)))
    variance = np.broadcast_to(sd**2 + floor**2, change.shape).copy()
    for rows, sign in ((x, 1.0), (y, -1.0)):
        total = len(rows)
        if total > RESAMPLED_ROWS:
            rows = rows[np.sort(rng.choice(total, RESAMPLED_ROWS, replace=False))]
        n = len(rows)
        shrink = n / total  # what a subsample's variance is larger by
        weights = rng.multinomial(n, np.full(n, 1.0 / n), size=count) / n
        F = np.concatenate([kernel._gram(rows[part], points) for part in row_blocks(n, len(points))])
        mean = F.mean(axis=0)
        F -= mean
        moved = weights @ F
        change += sign * moved * np.sqrt(shrink)
        variance += ((weights @ F**2 - moved**2) - (F**2).mean(axis=0)) * shrink / n
    return _ratio(np.abs(change), np.sqrt(np.maximum(variance, floor**2)))


def pointwise(
    level: float, sd: Float[np.ndarray, " p"], freedom: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """Half widths of intervals that hold at one point."""
    from scipy.special import stdtrit

    return stdtrit(freedom, 0.5 + 0.5 * level) * sd


def reference_points(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], discrete: bool, seed: int
) -> Float[np.ndarray, "g D"]:
    """A grid over the range of one numeric column; else as many rows of x as of y."""
    if x.shape[1] == 1 and not discrete:
        return even_grid(x, y, GRID)
    return np.unique(balanced_rows(x, y, REFERENCE_ROWS, seed), axis=0)


def even_grid(
    x: Float[np.ndarray, "n 1"], y: Float[np.ndarray, "m 1"], size: int
) -> Float[np.ndarray, "g 1"]:
    """A grid over the range of both samples: half at even steps, half at quantiles, for heavy tails."""
    pooled = np.concatenate([x[:, 0], y[:, 0]])
    even = np.linspace(pooled.min(), pooled.max(), size // 2)
    return np.unique(np.concatenate([even, np.quantile(pooled, np.linspace(0.0, 1.0, size - size // 2))]))[
        :, None
    ]


def balanced_rows(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], size: int, seed: int
) -> Float[np.ndarray, "g D"]:
    """At most `size` rows, half of them from each sample as far as it has so many; order does not matter."""
    rng = np.random.default_rng(seed)
    parts = []
    for rows in (sorted_rows(x), sorted_rows(y)):
        half = min(size // 2, len(rows))
        parts.append(rows[np.sort(rng.choice(len(rows), half, replace=False))])
    return np.concatenate(parts)

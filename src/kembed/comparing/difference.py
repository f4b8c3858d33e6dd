"""The posterior of μ_x - μ_y, the difference of two embeddings, and the rows it is fitted to.

Both embeddings are observed at the same landmarks with the noise of the central limit theorem, and share one
prior: ν is half of either sample.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kembed.core.backend import Float, to_numpy
from kembed.core.ordering import sorted_rows
from kembed.data.space import Space, make_space
from kembed.embeddings.landmarks import choose_landmarks
from kembed.embeddings.posterior import PosteriorEmbedding, fit_with_pseudo_rows
from kembed.kernels.base import Kernel
from kembed.kernels.measures import EmpiricalMeasure

Samples = tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "m D"]]
Points = Float[np.ndarray, "p D"]
Values = Float[np.ndarray, " p"]
# Half from each sample: m³ for solving at the landmarks, and m times this many point masses of ν for r(z, z),
# stay below a second.
LANDMARKS, MASSES = 300, 1_000
# A lengthscale is known well enough from so many rows, and learning takes seconds.
LEARNING_ROWS = 5_000
# Agresti & Coull's four rows, so that a rare level that a sample has not shown yet stays possible.
PSEUDO_ROWS = 4.0


@dataclass(frozen=True, eq=False)
class Difference:
    """The posterior of μ_x - μ_y, under one kernel or a mixture over several."""

    pairs: tuple[tuple[PosteriorEmbedding, PosteriorEmbedding], ...]

    def _means(self, points: Points) -> Float[np.ndarray, "k p"]:
        return np.array([x.mean(points) - y.mean(points) for x, y in self.pairs])

    def mean(self, points: Points) -> Values:
        """The posterior mean."""
        return self._means(points).mean(axis=0)

    def moments(self, points: Points) -> tuple[Values, Values, Values]:
        """Mean, standard deviation, and degrees of freedom (Welch 1947) at points."""
        means = self._means(points)
        one, other = (np.array([pair[side].sd(points) ** 2 for pair in self.pairs]) for side in (0, 1))
        variance = one + other
        n, m = (embedding.n for embedding in self.pairs[0])
        inverse = (one**2 / (n - 1) + other**2 / (m - 1)).mean(axis=0)
        freedom = np.where(inverse > 0.0, (variance**2).mean(axis=0) / np.where(inverse > 0, inverse, 1), 1e9)
        total = variance.mean(axis=0) + means.var(axis=0)  # within kernels, and between them
        return means.mean(axis=0), np.sqrt(total), freedom

    def draws(self, points: Points, size: int, rng: np.random.Generator) -> Float[np.ndarray, "size p"]:
        """Functions from the posterior; every kernel in turn. Student's t, since the noise is estimated."""
        found = np.zeros((size, len(points)))
        for k, pair in enumerate(self.pairs[:size]):
            rows = np.arange(k, size, len(self.pairs))
            for embedding, sign in zip(pair, (1.0, -1.0), strict=True):
                mean = embedding.mean(points)
                deviation = embedding.sample(points, len(rows), rng) - mean
                freedom = embedding.n - 1
                scale = np.sqrt(freedom / rng.chisquare(freedom, len(rows)))
                found[rows] += sign * (mean + scale[:, None] * deviation)
        return found

    def likeness(self, rows: Points, others: Points) -> Float[np.ndarray, "p q"]:
        """k(s, s') / √(k(s, s) k(s', s')), averaged over kernels: 1 for a point and itself."""
        total = np.zeros((len(rows), len(others)))
        for pair in self.pairs:
            kernel: Kernel = pair[0].kernel
            scale = np.sqrt(kernel.diagonal(rows))[:, None] * np.sqrt(kernel.diagonal(others))
            total += kernel._gram(rows, others) / scale
        return total / len(self.pairs)


def fit_difference(
    samples: Samples, kernels: list[Kernel], landmarks: Any, discrete: bool, seed: int
) -> Difference:
    """Both embeddings under every kernel; landmarks as for `witness`, `discrete` if any column is."""
    x, y = map(sorted_rows, samples)  # so that no bit depends on the order of rows
    measure = half_of_each((x, y), MASSES, seed)
    if landmarks is not None:
        z = choose_landmarks(np.concatenate([x, y]), landmarks, rng=seed)
    elif discrete or samples[0].shape[1] > 1:
        z = np.unique(balanced_rows(samples, LANDMARKS, seed), axis=0)
    else:  # a third on a grid, so that no gap between rows goes unobserved
        rows = balanced_rows(samples, 2 * LANDMARKS // 3, seed)
        z = np.unique(np.concatenate([rows, even_grid(samples, LANDMARKS // 3)]), axis=0)
    fit = partial(fit_with_pseudo_rows, measure=measure, z=z, count=PSEUDO_ROWS)
    return Difference(tuple((fit(x, kernel), fit(y, kernel)) for kernel in map(to_numpy, kernels)))


def balanced_rows(samples: Samples, size: int, seed: int) -> Points:
    """At most `size` rows, half of them from each sample as far as it has so many; order does not matter."""
    rng = np.random.default_rng(seed)
    parts = []
    for rows in map(sorted_rows, samples):
        half = min(size // 2, len(rows))
        parts.append(rows[np.sort(rng.choice(len(rows), half, replace=False))])
    return np.concatenate(parts)


def half_of_each(samples: Samples, size: int, seed: int) -> EmpiricalMeasure:
    """ν = ½ of either sample, thinned to at most `size` point masses; those of x come first."""
    rows = balanced_rows(samples, size, seed)
    n = min(size // 2, len(samples[0]))
    m = len(rows) - n
    return EmpiricalMeasure(rows, np.repeat([0.5 / n, 0.5 / m], [n, m]))


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

"""How large a difference is: MMD with a confidence interval, and the share of rows that differ.

With ψ features of a Gaussian at the median distance, ŵ the contrast of mean features of the two samples and
S its covariance, the squared MMD is estimated by T - tr S, T = |ŵ|². By the central limit theorem T is
|w + S^½z|² with z standard normal, whose spread is largest where w has the direction of the largest
eigenvalue s of S. Then, if |w| = δ,

    T = (δ + √s z)² + R,   R = Σ_{j>1} λ_j z_j²,

R being gamma in distribution, with the same mean and variance. The interval holds every δ for which T lies
between quantiles of this distribution. So the variance is that at δ, as in Wilson's interval of a share: with
the variance at the estimate intervals of small differences would be too short.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.linalg import log_sum_exp
from kembed.core.text import plain
from kembed.core.writing import jsonable
from kembed.features.bayes_factor import amplitudes, bayes_factor
from kembed.features.rows import Sample
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import Space, make_space
from kembed.permutation.designs import contrasts
from kembed.permutation.exchange import exchange
from kembed.permutation.pool import Pool, make_pool
from kembed.tables.reader import tables_of
from kembed.tables.source import Block, Source

LEVEL = 0.05  # of either confidence limit
HALVINGS = 60  # of the search for a limit
GRID = np.linspace(-7.0, 7.0, 141)  # normal quantiles over which R is averaged
ROUNDING = 1e-9  # of the largest eigenvalue: what is left of S without it
LARGEST = 2.0**0.5  # MMD of distributions that have nothing in common, for a kernel with k(x, x) = 1
# Landmarks are drawn from so many rows, until they leave this share of the kernel's trace unexplained.
CANDIDATES, LANDMARKS, UNEXPLAINED = 2_000, 256, 1e-8
DRAWN = 10_000  # rows (clusters) of either sample for the covariance: the interval's ends are off by 1%
BLOCK = 2**13  # rows whose features are held at once
FAR_OUT = 5.0  # robust standard deviations: values further out are clipped for the standard deviation
ENOUGH_ROWS = 500  # of either sample; with fewer the share of rows is underestimated
MOST_ROWS = 20_000  # that the share of rows is estimated from
DRAWS, EVALUATED = 400, 2_000  # posterior draws, and rows that each is averaged over


class Moments(NamedTuple):
    """T, and tr S, tr S² and the largest eigenvalue of S."""

    squared: float
    trace: float
    squares: float
    largest: float

    @property
    def square(self) -> float:
        """The unbiased estimate of the squared MMD."""
        return self.squared - self.trace

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Confidence limits of the MMD, either of which is wrong with probability at most `level`."""
        # A negative estimate counts as 0: a T that is small by chance is no reason for a short interval.
        likely = self._replace(squared=max(self.squared, self.trace))
        return self._limit(1.0 - level), likely._limit(level)

    def _limit(self, probability: float) -> float:
        """The δ with which a smaller T has this probability; 0 where it is less likely at δ = 0."""
        rest = self._rest()
        low, high = 0.0, 1.0
        while self.probability(high, rest) > probability:
            high *= 2.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.probability(middle, rest) > probability else (low, middle)
        return low

    def _rest(self) -> tuple[Float[np.ndarray, " v"], Float[np.ndarray, " v"]]:
        """Values of R, and their probabilities."""
        from scipy.special import gammaincinv, ndtr

        mean, half_variance = self.trace - self.largest, self.squares - self.largest**2
        if min(mean, half_variance) <= ROUNDING * self.largest**2:
            return np.zeros(1), np.ones(1)
        weights = np.exp(-0.5 * np.square(GRID))
        shape, scale = 0.5 * mean**2 / half_variance, 2.0 * half_variance / mean
        return scale * gammaincinv(shape, ndtr(GRID)), weights / weights.sum()

    def probability(self, mmd: float, rest: Any = None) -> float:
        """The probability of a smaller T where this is the MMD; `rest` is that of `_rest`."""
        from scipy.special import ndtr

        if not self.largest > 0.0:
            return float(self.squared > mmd**2)
        values, weights = rest or self._rest()
        root = np.sqrt(np.maximum(self.squared - values, 0.0) / self.largest)
        centre = mmd / np.sqrt(self.largest)
        return float(weights @ (ndtr(root - centre) - ndtr(-root - centre)))


@dataclass(frozen=True, eq=False)
class EffectSize:
    """How large the difference of two samples is.

    Attributes
    ----------
    mmd : float
        Estimate of the MMD with a Gaussian at the median distance; 0 where the unbiased one is negative.
    interval : tuple of float
        90% confidence interval of the MMD; with 95% confidence it is below the upper end.
    kernel : Kernel
        The Gaussian, in the units of the data.
    share : tuple of float, optional
        Posterior median and 90% interval of the total variation distance, the share of rows that would have
        to change to make the distributions equal, at the resolution of the data: an estimate from below. None
        with fewer than 500 rows in either sample, and where rows are weighted, clustered or stratified.
    rows : tuple of int
        Rows of either sample behind the estimate.
    moments : Moments
        What an interval at another level is made of.

    """

    mmd: float
    interval: tuple[float, float]
    kernel: Any
    share: tuple[float, float, float] | None = None
    rows: tuple[int, ...] = ()
    moments: Moments | None = None

    @property
    def normalised(self) -> tuple[float, float, float]:
        """Estimate and interval over √2, the MMD of distributions that have nothing in common."""
        low, high = self.interval
        return self.mmd / LARGEST, low / LARGEST, min(high / LARGEST, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types, with the keys of docs/json.md."""
        values = {"mmd": self.mmd, "interval": self.interval, "normalised": self.normalised}
        return jsonable({**values, "kernel": repr(self.kernel), "share": self.share, "rows": self.rows})

    @property
    def words(self) -> str:
        """The normalised MMD with its interval, and the share of rows that differ."""
        value, low, high = map(rounded, self.normalised)
        text = f"{value} (MMD/√2, 90% CI {low}-{high})"
        if self.share is None:
            return text
        share, *ends = (100.0 * each for each in self.share)
        low, high = (plain(end, 2) for end in ends)
        return f"{text}; at least about {plain(share, 2)}% of rows differ (90% interval {low}-{high}%)"

    def __repr__(self) -> str:
        low, high = self.interval
        return f"EffectSize(mmd={self.mmd:.3g}, 90% interval {low:.3g} to {high:.3g})"


def rounded(value: float) -> str:
    """An effect size with two decimals, small ones with two digits.

    >>> rounded(0.318), rounded(0.0312), rounded(0.0)
    ('0.32', '0.031', '0')
    """
    return f"{value:.2f}" if value >= 0.095 or value == 1.0 else f"{value:.2g}"


@dataclass(frozen=True, eq=False)
class EffectFeatures:
    """Features of a Gaussian at landmarks, whose products approximate the kernel."""

    kernel: Kernel
    landmarks: Float[np.ndarray, "m D"]
    whitening: Float[np.ndarray, "m r"]

    def between(self, values: Float[np.ndarray, "b D"]) -> Float[np.ndarray, "b m"]:
        """The kernel of rows with the landmarks."""
        return self.kernel._gram(values, self.landmarks)

    def __call__(self, values: Float[np.ndarray, "b D"]) -> Float[np.ndarray, "b r"]:
        """The features of rows."""
        return self.between(values) @ self.whitening


def fit_features(space: Space) -> EffectFeatures:
    """Landmarks by randomly pivoted Cholesky (Chen, Epperly, Tropp & Webber 2024), which also finds outliers.

    It draws a landmark with probability proportional to what the landmarks before it leave unexplained of the
    kernel k(x, x) = 1 of every row.
    """
    rng, lengthscale = np.random.default_rng(0), space.median()
    rows, values = space.rows, space.values
    if len(rows) > CANDIDATES:
        some = np.sort(rng.permutation(len(rows))[:CANDIDATES])
        rows, values = rows[some], values[some]
    residual, factor = np.ones(len(rows)), np.zeros((len(rows), LANDMARKS))
    chosen: list[int] = []
    while len(chosen) < LANDMARKS and residual.mean() > UNEXPLAINED:
        pivot, k = int(rng.choice(len(rows), p=residual / residual.sum())), len(chosen)
        column = np.exp(space.distances(rows, rows[[pivot]])[:, 0] / (-2.0 * lengthscale**2))
        column -= factor[:, :k] @ factor[pivot, :k]
        factor[:, k] = column / np.sqrt(column[pivot])
        residual = np.maximum(residual - np.square(factor[:, k]), 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    whitening = np.linalg.inv(factor[chosen, : len(chosen)]).T  # K = FFᵀ at the landmarks
    return EffectFeatures(space_kernel(space, lengthscale), values[chosen], whitening)


@dataclass(frozen=True, eq=False)
class EffectData:
    """Two samples as a contrast of weighted rows: all of them, or some with the sources of the others."""

    space: Space  # of the pooled rows that are in memory
    values: Float[np.ndarray, "N D"]  # the same rows, in the order of what follows
    names: tuple[str, ...]
    labels: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]
    contrast: Float[np.ndarray, " N"]  # sums to 1 over the one sample, to -1 over the other
    cells: Int[np.ndarray, " N"]  # the sample and the stratum of every row
    units: Int[np.ndarray, " N"] | None  # clusters, or pairs
    sizes: tuple[int, ...]
    sources: tuple[Source, ...] = ()  # where all rows are; cell 0 is the first of them

    @property
    def plain(self) -> bool:
        """Whether all rows are independent and count alike."""
        return self.units is None and self.cells.max() < 2 and np.ptp(self.weights) == 0.0

    @cached_property
    def features(self) -> EffectFeatures:
        """The features that the effect is measured with."""
        return fit_features(self.space)

    @cached_property
    def means(self) -> Float[np.ndarray, "C r"]:
        """Mean features of every cell."""
        return self.means_of(self.features)

    def means_of(self, features: EffectFeatures) -> Float[np.ndarray, "C r"]:
        """Mean features of every cell, over all rows."""
        if self.sources:
            parts = [source.fold(sum_kernel, features) for source in self.sources]
            means = np.stack([part["sum"] / part["rows"] for part in parts])
        else:
            sums = summed(lambda rows: features.between(self.values[rows]), self.cells, self.weights)
            means = sums / np.bincount(self.cells, self.weights)[:, None]
        return means @ features.whitening

    @property
    def shares(self) -> Float[np.ndarray, " C"]:
        """Shares of the cells in the pooled sample."""
        weights = np.array(self.sizes, float) if self.sources else np.bincount(self.cells, self.weights)
        return weights / weights.sum()

    @property
    def deviations(self) -> Float[np.ndarray, " D"]:
        """Standard deviations of the numeric columns, values far out clipped; 0 of categories."""
        space = make_space(self.values, self.space.categorical)
        numeric, found = np.clip(space.numeric, -FAR_OUT, FAR_OUT), np.zeros(len(self.names))
        centred = numeric - np.average(numeric, axis=0, weights=self.weights)
        sd = np.sqrt(np.average(np.square(centred), axis=0, weights=self.weights))
        found[~space.categorical] = sd[: len(self.names)] * space.spread[~space.categorical]
        return found


def sum_kernel(block: Block, features: EffectFeatures) -> dict[str, Any]:
    """Rows of a block, and the sum of their kernel with the landmarks."""
    starts = range(0, len(block.values), BLOCK)
    parts = [features.between(block.values[start : start + BLOCK]).sum(axis=0) for start in starts]
    return {"rows": len(block.values), "sum": np.sum(parts, axis=0)}


def summed(
    features: Callable[[Any], Float[np.ndarray, "b m"]], codes: Int[np.ndarray, " N"], weights: Any
) -> Float[np.ndarray, "C m"]:
    """Weighted sums over the rows of every code, a block of rows at a time."""
    from scipy.sparse import csr_array

    N, count, total = len(codes), int(codes.max()) + 1, 0.0
    for start in range(0, N, BLOCK):
        rows = np.arange(start, min(start + BLOCK, N))
        entries = weights[rows], (codes[rows], rows - start)
        total = total + csr_array(entries, shape=(count, len(rows))) @ features(rows)
    return np.asarray(total)


def effect_data(
    sources: Sequence[Source],
    *,
    weights: Any = None,
    unit: Any = None,
    strata: Any = None,
    paired: bool = False,
) -> EffectData:
    """The rows of two samples; arguments as for `mmd_test`.

    Of samples larger than memory means are taken over all rows, and covariances over some. Clusters and
    strata need their rows together: with these the rows that are drawn are all that count.
    """
    held = all(source.held for source in sources) or paired or weights is not None
    tables = tables_of(sources, paired, 2) if held else [each.sample(MOST_ROWS)[0] for each in sources]
    parts = exchange(tables, unit, strata)
    clusters = [np.arange(len(table.values)) for table in tables] if paired else parts.clusters
    data = of_pool(make_pool(parts.tables, weights, "none", clusters, parts.strata))
    if held or unit is not None or strata is not None:
        return data
    values = np.concatenate([table.values for table in tables])
    labels = np.repeat([1.0, 0.0], [len(table.values) for table in tables])
    contrast = np.where(labels == 1.0, 1.0 / labels.sum(), -1.0 / (1.0 - labels).sum())
    rows: Any = {"values": values, "labels": labels, "cells": (labels == 0.0).astype(int)}
    sizes = tuple(source.size for source in sources)
    return replace(data, **rows, contrast=contrast, sizes=sizes, sources=tuple(sources))


def of_pool(pool: Pool) -> EffectData:
    """Pooled rows in memory."""
    N = pool.size
    weights = np.ones(N) if pool.weights is None else pool.weights
    strata = np.zeros(N, dtype=int) if pool.strata is None else pool.strata
    contrast = contrasts(pool.labels[:, None], weights, strata)[:, 0] * weights
    cells = np.unique(2 * strata + (pool.labels == 0.0), return_inverse=True)[1].ravel()
    rows = pool.space, pool.space.values, pool.names, pool.labels, weights, contrast, cells, pool.units
    return EffectData(*rows, pool.sizes)


def effect_size(data: EffectData, *, with_share: bool = True) -> EffectSize:
    """The MMD at the median distance with an interval, and the share of rows that differ."""
    moments = contrast_moments(data, data.features, data.means)
    share = None
    if with_share and data.plain and min(data.sizes) >= ENOUGH_ROWS:
        values, labels = data.values, data.labels
        if len(labels) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).permutation(len(labels))[:MOST_ROWS])
            values, labels = values[rows], labels[rows]
        sample = Sample(make_space(values, data.space.categorical), data.names, points=LANDMARKS)
        share = total_variation(sample, labels)
    mmd = float(np.sqrt(max(moments.square, 0.0)))
    return EffectSize(mmd, moments.interval(), data.features.kernel, share, data.sizes, moments)


def contrast_moments(
    data: EffectData,
    features: Callable[[Float[np.ndarray, "b D"]], Float[np.ndarray, "b r"]],
    means: Float[np.ndarray, "C r"],
) -> Moments:
    """The moments of a contrast of mean features.

    The covariance is that of Σ_i a_i (ψ_i - mean of the cell of i), summed over the rows of a cluster or a
    pair, since these sums are independent. Of more than 10,000 clusters of a kind some stand for all.
    """
    a, cells = np.abs(data.contrast), data.cells
    units = np.arange(len(a)) if data.units is None else np.unique(data.units, return_inverse=True)[1].ravel()
    size = np.bincount(cells, a)
    inside, place = np.unique(units * len(size) + cells, return_inverse=True)
    own = np.bincount(place.ravel(), a / np.where(size > 0.0, size, 1.0)[cells])
    concentration = np.bincount(inside % len(size), np.square(own))  # 1 over the units of a cell, if equal
    several = concentration < 1.0 - 1e-9
    signs = np.sign(np.bincount(cells, data.contrast))
    centre = means.copy()
    for sign in (1.0, -1.0):
        of_sample = signs == sign
        if not (of_sample & several).any():  # of a single cluster nothing is known but the bounds
            return Moments(LARGEST**2, LARGEST**2, LARGEST**4, LARGEST**2)
        centre[of_sample & ~several] = size[of_sample] @ means[of_sample]  # strata with one row
    factor = _drawn(units, data.labels) / np.where(several, 1.0 - concentration, 1.0)[cells]
    if data.sources:
        factor *= np.bincount(cells)[cells] / np.array(data.sizes)[cells]
    rows = np.flatnonzero(factor)
    codes = np.unique(units[rows], return_inverse=True)[1].ravel()
    noise = (data.contrast * np.sqrt(factor))[rows]
    sums = summed(lambda k: features(data.values[rows[k]]) - centre[cells[rows[k]]], codes, noise)
    covariance = sums.T @ sums
    difference = (signs * size) @ means
    eigenvalues = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    traces = float(eigenvalues.sum()), float(np.square(eigenvalues).sum())
    return Moments(float(difference @ difference), *traces, float(eigenvalues[-1]))


def _drawn(units: Int[np.ndarray, " N"], labels: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """How many units every unit stands for, 0 if it is not drawn: 10,000 each of x, of y and of both."""
    rng = np.random.default_rng(0)
    kind = 2 * (np.bincount(units, labels) > 0.0) + (np.bincount(units, 1.0 - labels) > 0.0)
    factor = np.zeros(len(kind))
    for one in (1, 2, 3):
        of_kind = np.flatnonzero(kind == one)
        chosen = rng.permutation(of_kind)[:DRAWN]
        factor[chosen] = len(of_kind) / max(len(chosen), 1)
    return factor[units]


def total_variation(sample: Sample, labels: Float[np.ndarray, " N"]) -> tuple[float, float, float]:
    """Posterior median and 90% interval of ½ ∫|h| dν, h = (p - q)/ν, in the model of the Bayes factor."""
    rng, member = np.random.default_rng(0), bayes_factor(sample, sample.peaks[0])
    n = labels.sum()
    effective = n * (len(labels) - n) / len(labels)
    contrast = labels / n - (1.0 - labels) / (len(labels) - n)
    tables = [sample.gaussian(scale) for scale in member.features.lengthscales]
    scores = member.scores(np.hstack(tables).T @ contrast[:, None])
    logs = member.log_factors(scores, effective)[:, :, 0]
    weights = np.exp(logs - log_sum_exp(logs))
    rows = rng.permutation(len(labels))[:EVALUATED]
    counts = rng.multinomial(DRAWS, weights.ravel() / weights.sum()).reshape(weights.shape)
    found = []
    for s, (table, whitening, share) in enumerate(zip(tables, member.whitening, member.shares, strict=True)):
        features = (table[rows] - table.mean(axis=0)) @ whitening
        for c, count in zip(amplitudes(effective), counts[s], strict=True):
            prior = c * share
            shrunk = effective * prior / (1.0 + effective * prior)
            mean, sd = shrunk * scores[s][:, 0], np.sqrt(prior / (1.0 + effective * prior))
            drawn = mean + sd * rng.normal(size=(count, len(mean)))
            found.append(0.5 * np.abs(drawn @ features.T).mean(axis=1))
    low, middle, high = np.quantile(np.concatenate(found), [0.05, 0.5, 0.95])
    return min(float(middle), 1.0), min(float(low), 1.0), min(float(high), 1.0)

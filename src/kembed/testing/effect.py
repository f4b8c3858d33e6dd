"""How large a difference is: MMD with a confidence interval, and the share of rows that differ.

The squared MMD of Nyström features ψ is estimated by b = T - tr S, with T = |ŵ|², ŵ the difference of the
mean features and S = Cov_x/n + Cov_y/m. If the squared MMD is δ², T has mean δ² + tr S and, by the central
limit theorem, variance at most 4 δ² s + 2 tr S² with s = λ_max(S). The interval holds every δ² that T is not
more than q standard deviations away from (as Wilson's for a proportion),

    δ² = b + 2q²s ± √(4q⁴s² + 4q²s b + 2q² tr S²),

where an interval with the variance at the estimate would be too short for small differences.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.linalg import log_sum_exp
from kembed.core.writing import jsonable
from kembed.features.bayes_factor import amplitudes, bayes_factor
from kembed.features.rows import Sample
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import make_space
from kembed.permutation.pool import Pool

QUANTILE = 1.6448536269514722  # of the normal distribution at .95
LANDMARKS = 256
LARGEST = 2.0**0.5  # MMD of distributions that have nothing in common, for a kernel with k(x, x) = 1
ROUNDING = 1e-10  # eigenvalues of the matrix of landmarks below this share of the largest
ENOUGH_ROWS = 500  # of either sample; with fewer the share of rows is underestimated
MOST_ROWS = 20_000  # that the share of rows is estimated from
DRAWS, EVALUATED = 400, 2_000  # posterior draws, and rows that each is averaged over


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
        with fewer than 500 rows in either sample.

    """

    mmd: float
    interval: tuple[float, float]
    kernel: Any
    share: tuple[float, float, float] | None = None

    @property
    def normalised(self) -> tuple[float, float, float]:
        """Estimate and interval over √2, the MMD of distributions that have nothing in common."""
        low, high = self.interval
        return self.mmd / LARGEST, low / LARGEST, min(high / LARGEST, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types, with the keys of docs/json.md."""
        values = {"mmd": self.mmd, "interval": self.interval, "normalised": self.normalised}
        return jsonable({**values, "kernel": repr(self.kernel), "share": self.share})

    @property
    def words(self) -> str:
        """The normalised MMD with its interval, and the share of rows that differ."""
        value, low, high = self.normalised
        text = f"{value:.2f} (MMD/√2, 90% CI {low:.2f}-{high:.2f})"
        if self.share is None:
            return text
        share, low, high = (100.0 * each for each in self.share)
        return f"{text}; about {share:.2g}% of rows differ (90% interval {low:.2g}-{high:.2g}%)"

    def __repr__(self) -> str:
        low, high = self.interval
        return f"EffectSize(mmd={self.mmd:.3g}, 90% interval {low:.3g} to {high:.3g})"


def effect_size(pool: Pool, clusters: Int[np.ndarray, " N"] | None = None) -> EffectSize:
    """The MMD of pooled rows at the median distance, with an interval; rows of a cluster are dependent."""
    lengthscale = pool.space.median()
    sample = Sample(pool.space, pool.names, points=LANDMARKS)
    values, vectors = np.linalg.eigh(sample.between_landmarks(lengthscale))
    kept = values > ROUNDING * values[-1]
    features = sample.gaussian(lengthscale) @ (vectors[:, kept] / np.sqrt(values[kept]))
    mmd, interval = mmd_interval(features, pool.labels, clusters)
    share = None
    if min(pool.sizes) >= ENOUGH_ROWS:
        labels = pool.labels
        if pool.size > MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).permutation(pool.size)[:MOST_ROWS])
            labels = labels[rows]
            space = make_space(pool.space.values[rows], pool.space.categorical)
            sample = Sample(space, pool.names, points=LANDMARKS)
        share = total_variation(sample, labels)
    return EffectSize(mmd, interval, space_kernel(pool.space, lengthscale), share)


def mmd_interval(
    features: Float[np.ndarray, "N r"],
    labels: Float[np.ndarray, " N"],
    clusters: Int[np.ndarray, " N"] | None = None,
) -> tuple[float, tuple[float, float]]:
    """The MMD of two samples of features, with its 90% interval."""
    means, covariance = [], np.zeros((features.shape[1],) * 2)
    for label in (1.0, 0.0):
        own = labels == label
        rows = features[own]
        means.append(rows.mean(axis=0))
        units = rows - means[-1]
        if clusters is not None:  # sums over clusters are independent, rows are not
            numbers, place = np.unique(clusters[own], return_inverse=True)
            summed = np.zeros((len(numbers), units.shape[1]))
            np.add.at(summed, place.ravel(), units)
            units = summed
        covariance += units.T @ units * (len(units) / max(len(units) - 1, 1) / len(rows) ** 2)
    difference = means[0] - means[1]
    trace, squares = float(np.trace(covariance)), float(np.square(covariance).sum())
    estimate = float(difference @ difference) - trace
    widest = float(np.linalg.eigvalsh(covariance)[-1]) * QUANTILE**2
    half = np.sqrt(max(4.0 * widest * (widest + estimate) + 2.0 * QUANTILE**2 * squares, 0.0))
    low, high = (np.sqrt(max(estimate + 2.0 * widest + sign * half, 0.0)) for sign in (-1.0, 1.0))
    return float(np.sqrt(max(estimate, 0.0))), (float(low), float(high))


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

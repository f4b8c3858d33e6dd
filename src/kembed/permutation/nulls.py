"""What a statistic would be if nothing were going on: permutation, gamma, spectral and wild nulls.

All return an honest p-value: never 0 for resamples, where the data count as one of the draws.
"""

import numpy as np

from kembed.core.backend import Float
from kembed.features.kernel import KernelMatrix

Vector = Float[np.ndarray, " B"]
# Values of a statistic this close (in standard deviations of the null) are equal: what differs is rounding.
TIE = 1e-8
# Eigenvalues are taken up to this share of their sum; the rest varies too little to be seen.
SPECTRUM_LEFT = 1e-4
# Eigenvalues are computed on at most so many rows, for about a second.
SPECTRUM_ROWS = 2_000


def resampled_pvalue(observed: float, draws: Vector) -> float:
    """(1 + #{draws ≥ observed}) / (1 + B): exact at any B, and when the draws are all other arrangements."""
    return float(column_pvalues(np.array([observed]), draws[:, None])[0])


def gamma_pvalue(value: float, mean: float, variance: float) -> float:
    """Upper tail of the gamma distribution with this mean and variance at a biased statistic."""
    from scipy.special import gammaincc

    if not (mean > 0.0 and variance > 0.0):
        return 1.0
    return float(gammaincc(mean**2 / variance, max(value, 0.0) * mean / variance))


def gamma_draws(mean: float, variance: float, count: int, rng: np.random.Generator) -> Vector:
    """Draws from that gamma distribution."""
    if not (mean > 0.0 and variance > 0.0):
        return np.zeros(count)
    return rng.gamma(mean**2 / variance, variance / mean, count)


def leading(eigenvalues: Float[np.ndarray, " N"]) -> Float[np.ndarray, " L"]:
    """The positive eigenvalues that make up all but a ten-thousandth of the sum, largest first."""
    ordered = np.sort(np.maximum(eigenvalues, 0.0))[::-1]
    enough = (1.0 - SPECTRUM_LEFT) * float(ordered.sum())
    return ordered[: int(np.searchsorted(np.cumsum(ordered), enough)) + 1]


def weighted_chi_squares(weights: Float[np.ndarray, " L"], count: int, rng: np.random.Generator) -> Vector:
    """Draws of Σ_l w_l z_l² with independent standard normal z_l."""
    step = max(1, 4_000_000 // len(weights))
    rows = (min(step, count - i) for i in range(0, count, step))
    return np.concatenate([rng.standard_normal((n, len(weights))) ** 2 @ weights for n in rows])


def wild_weights(n: int, count: int, memory: float, rng: np.random.Generator) -> Float[np.ndarray, "n count"]:
    """Centred autoregressive weights for the wild bootstrap of time series (Chwialkowski et al. 2014).

    W_t = e^{-1/l} W_{t-1} + √(1 - e^{-2/l}) ε_t has variance 1 and forgets after about l = `memory` steps.
    """
    from scipy.signal import lfilter

    decay = float(np.exp(-1.0 / memory))
    weights = rng.standard_normal((n, count))
    weights[1:] *= np.sqrt(1.0 - decay**2)
    weights = lfilter([1.0], [1.0, -decay], weights, axis=0)
    return weights - weights.mean(axis=0)


def spectrum(matrix: KernelMatrix, rng: np.random.Generator) -> Float[np.ndarray, " L"]:
    """The leading eigenvalues of HKH/n, from a random subset of the rows where they are many."""
    rows = matrix.rows
    if len(rows) > SPECTRUM_ROWS:
        rows = rows[np.sort(rng.choice(len(rows), SPECTRUM_ROWS, replace=False))]
    K = matrix.block(rows, rows)
    K = K - K.mean(axis=0)
    K = K - K.mean(axis=1, keepdims=True)
    return leading(np.linalg.eigvalsh(0.5 * (K + K.T)) / len(rows))


def column_pvalues(
    observed: Float[np.ndarray, " D"], draws: Float[np.ndarray, "B D"]
) -> Float[np.ndarray, " D"]:
    """The p-value of every column by its own draws, as `resampled_pvalue`."""
    values = np.vstack([draws, observed])
    tolerance = TIE * values.std(axis=0) + 1e-14 * np.abs(values).max(axis=0)
    return ((draws >= observed - tolerance).sum(axis=0) + 1) / (len(draws) + 1)


def step_down(observed: Float[np.ndarray, " D"], draws: Float[np.ndarray, "B D"]) -> Float[np.ndarray, " D"]:
    """Adjusted p-values of D statistics by the step-down maximum (Westfall & Young 1993, algorithm 4.1)."""
    order = np.argsort(-observed, kind="stable")
    # The maximum over each statistic and all weaker ones.
    largest = np.maximum.accumulate(draws[:, order[::-1]], axis=1)[:, ::-1]
    adjusted = np.empty(len(observed))
    adjusted[order] = np.maximum.accumulate(column_pvalues(observed[order], largest))
    return adjusted


def holm(pvalues: Float[np.ndarray, " D"], others: int = 0) -> Float[np.ndarray, " D"]:
    """P-values corrected for their number and for so many others (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(pvalues, kind="stable")
    factors = len(pvalues) + others - np.arange(len(pvalues))
    adjusted = np.empty(len(pvalues))
    adjusted[order] = np.minimum(np.maximum.accumulate(pvalues[order] * factors), 1.0)
    return adjusted


def all_pairs(pvalues: Float[np.ndarray, " D"], samples: int, overall: float) -> Float[np.ndarray, " D"]:
    """P-values of all pairs of samples, adjusted for their number after a test of all (Shaffer 1986).

    A step-down like Holm's that counts how many pairs can still be equal: not two of three, for example.

    >>> all_pairs(np.array([0.01, 0.04, 0.03]), 3, overall=0.02).tolist()
    [0.02, 0.04, 0.03]
    """
    order = np.argsort(pvalues, kind="stable")
    adjusted = np.empty(len(pvalues))
    factors = pair_factors(samples)
    adjusted[order] = np.minimum(np.maximum.accumulate(pvalues[order] * factors), 1.0)
    return np.maximum(adjusted, overall)


def pair_factors(samples: int) -> Float[np.ndarray, " D"]:
    """At every step of `all_pairs` the largest number of pairs that can be equal, but not all of them.

    >>> pair_factors(4).tolist()
    [3.0, 3.0, 3.0, 3.0, 2.0, 1.0]
    """
    possible = [{0}]  # numbers of equal pairs among so many samples, which fall into groups
    for k in range(1, samples + 1):
        possible.append(
            {own * (own - 1) // 2 + rest for own in range(1, k + 1) for rest in possible[k - own]}
        )
    count = samples * (samples - 1) // 2
    left = [max(n for n in possible[samples] if n <= min(count - step, count - 1)) for step in range(count)]
    return np.maximum(np.array(left, dtype=float), 1.0)

"""Treatment and control: coverage of quantile bands, and tests where groups differ in covariates.

`python -m benchmarks.treatment [coverage|weights]`, `KEMBED_DRAWS` is the number of draws. "weights" has
a covariate that decides on treatment and outcome, and compares the weighted test of the outcome (weights
known, or estimated by logistic regression), the conditional test of `compare(target=)`, and DR-xKTE
(Martinez-Taboada, Ramdas & Kennedy 2023): a cross U-statistic of doubly robust embeddings.
"""

import os
import sys

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import norm, poisson
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression

from benchmarks._workers import LEVEL, SEED, spread
from kembed import conditional_test, mmd_test, quantile_effects

DRAWS = int(os.environ.get("KEMBED_DRAWS", "400"))
B, BAND = 199, 0.9
RANKS = np.arange(1, 200) / 200.0
COUNTS = np.arange(60.0)


def misses(job: tuple[str, int, int, int]) -> bool:
    """Whether a band leaves out the true effect at any control value."""
    kind, n, m, r = job
    rng = np.random.default_rng([SEED, r, n, m])
    if kind == "counts":
        found = quantile_effects(rng.poisson(4.0, n), rng.poisson(3.0, m), probabilities=RANKS, level=BAND)
        ranks = np.append(0.0, poisson.cdf(COUNTS, 3.0))
        place = found.control.astype(int)
        first, last = (poisson.ppf(end, 4.0)[place] for end in (ranks[:-1] + 1e-9, ranks[1:]))
        return outside(found, first, last)
    if kind == "normal and exponential":
        found = quantile_effects(rng.exponential(size=n), rng.normal(size=m), probabilities=RANKS, level=BAND)
        truth = -np.log1p(-ndtr(found.control))
        return outside(found, truth, truth)
    # The control rows have another covariate, and weights that undo that; the effect is 1 everywhere.
    z = np.concatenate([rng.normal(0.5, 1.0, n), rng.normal(size=m)])
    treated = np.arange(n + m) < n
    y = z + rng.normal(size=n + m) + treated
    weights = np.exp(0.5 * z - 0.125)[~treated]
    if kind == "weights estimated":
        weights = np.exp(log_odds(z[:, None], treated)[~treated])
    found = quantile_effects(
        y[treated], y[~treated], probabilities=RANKS, level=BAND, weights=(None, weights), rng=r
    )
    truth = found.control + 1.0
    return outside(found, truth, truth)


def outside(found, first, last) -> bool:
    x = found.control
    return bool(((first - x < found.lower - 1e-9) | (last - x > found.upper + 1e-9)).any())


def log_odds(z: np.ndarray, treated: np.ndarray) -> np.ndarray:
    return LogisticRegression(C=1e6).fit(z, treated).decision_function(z)


def coverage() -> None:
    error = np.sqrt(BAND * (1.0 - BAND) / DRAWS)
    print(f"\nbands of {BAND:.0%}, {DRAWS} draws; s.e. {error:.3f} at the level\n")
    print("| outcome | rows, treated and control | share of draws in which the band holds everywhere |")
    print("|---|---|---|")
    for kind in ("normal and exponential", "counts", "weights known", "weights estimated"):
        for n, m in ((20, 30), (60, 90), (400, 200), (2_000, 2_000)):
            found = spread(misses, [(kind, n, m, r) for r in range(DRAWS)])
            print(f"| {kind} | {n}, {m} | {1.0 - np.mean(found):.3f} |", flush=True)


def draw(r: int, n: int, effect: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Covariates z, treatment, outcome, and the true probability of treatment."""
    rng = np.random.default_rng([SEED, r, n])
    z = rng.normal(size=(n, 3))
    chance = expit(0.8 * z[:, 0] - 0.8 * z[:, 1])
    treated = rng.random(n) < chance
    y = z[:, 0] + np.sin(2.0 * z[:, 1]) + 0.5 * rng.normal(size=n)
    if effect == "mean .2":
        y = y + 0.2 * treated
    if effect == "spread":
        y = y + treated * 0.8 * rng.normal(size=n)
    if effect == "sign of z3":
        y = y + 0.4 * treated * np.sign(z[:, 2])
    return z, treated, y, chance


def dr_xkte(z: np.ndarray, treated: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """The p-value of the cross U-statistic of doubly robust embeddings, outcomes by Fourier features."""
    scale = np.median(np.abs(y[:, None] - y))
    frequencies = rng.normal(size=60) / scale
    features = np.hstack([np.cos(y[:, None] * frequencies), np.sin(y[:, None] * frequencies)]) / np.sqrt(60)
    halves = np.array_split(rng.permutation(len(y)), 2)
    embedded = []
    for own, other in (halves, halves[::-1]):
        chance = expit(LogisticRegression().fit(z[other], treated[other]).decision_function(z[own]))
        chance = np.clip(chance, 0.01, 0.99)
        means = []
        for arm in (True, False):
            rows = other[treated[other] == arm]
            model = KernelRidge(kernel="rbf", gamma=0.5 / z.shape[1], alpha=0.1)
            means.append(model.fit(z[rows], features[rows]).predict(z[own]))
        a = treated[own][:, None]
        weight = np.where(a, 1.0 / chance[:, None], -1.0 / (1.0 - chance[:, None]))
        embedded.append(weight * (features[own] - np.where(a, *means)) + means[0] - means[1])
    values = embedded[0] @ embedded[1].mean(axis=0)
    return float(norm.sf(np.sqrt(len(values)) * values.mean() / values.std()))


def pvalues(job: tuple[int, int, str]) -> tuple[float, ...]:
    r, n, effect = job
    z, treated, y, chance = draw(r, n, effect)
    odds = np.log(chance / (1.0 - chance)), log_odds(z, treated)
    found = []
    for each in odds:
        weights = 1.0 / expit(np.where(treated, each, -each))
        own = weights[~treated], weights[treated]
        found.append(mmd_test(y[~treated], y[treated], weights=own, n_resamples=B, rng=r).pvalue)
    plain = mmd_test(y[~treated], y[treated], n_resamples=B, rng=r).pvalue
    given = conditional_test(y, treated.astype(float), z, n_resamples=B, rng=r).pvalue
    return plain, *found, given, dr_xkte(z, treated, y, np.random.default_rng(r))


def weights() -> None:
    draws = DRAWS // 2
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / draws)
    print(f"\nshare rejected at {LEVEL}, B = {B}, {draws} draws; s.e. {error:.3f} at the level\n")
    print("| effect | rows | unweighted | weights known | weights estimated | given z | DR-xKTE |")
    print("|---|---|---|---|---|---|---|")
    for n in (400, 1_500):
        for effect in ("none", "mean .2", "spread", "sign of z3"):
            count = draws if effect == "none" else draws // 4
            found = np.array(spread(pvalues, [(r, n, effect) for r in range(count)]))
            rates = " | ".join(f"{rate:.3f}" for rate in (found <= LEVEL).mean(axis=0))
            print(f"| {effect} | {n:,} | {rates} |", flush=True)


def main() -> None:
    for part in sys.argv[1:] or ("coverage", "weights"):
        {"coverage": coverage, "weights": weights}[part]()


if __name__ == "__main__":
    main()

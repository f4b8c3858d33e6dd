"""Simultaneous coverage: how often the witness's band holds the true witness everywhere at once.

P and Q are Gaussian mixtures, so that the witness under a Gaussian kernel is known in closed form. In one
dimension the truth is checked at 301 points over the range of the samples, beyond at 300 new points, half
from either distribution. The share of points covered by pointwise intervals, and the share where the
simultaneous band excludes 0, stand beside it.
"""

import os
import warnings

import numpy as np

import kembed
from benchmarks._workers import spread

SEED, LEVEL = 11, 0.9
REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "500"))


def _mixture(D: int, second: float, sds: tuple[float, float]) -> tuple:
    """Two components, .7 below the origin and `second` above it, in every coordinate."""
    return (
        [0.5, 0.5],
        [np.full(D, -0.7), np.full(D, second)],
        [sds[0] ** 2 * np.eye(D), sds[1] ** 2 * np.eye(D)],
    )


def _pair(D: int, same: bool = False) -> tuple:
    P = _mixture(D, 0.8, (0.6, 0.8))
    return P, P if same else _mixture(D, 1.0, (0.6, 0.5))


# name: (dimension, rows of x, rows of y, kernel: a lengthscale or a word, whether P = Q)
CASES = {
    "D=1, fixed 0.5": (1, 200, 200, 0.5, False),
    "D=1, fixed 0.2": (1, 200, 200, 0.2, False),
    "D=1, fixed 0.2, unequal": (1, 400, 100, 0.2, False),
    "D=1, fixed 1, few rows": (1, 30, 30, 1.0, False),
    "D=1, learned": (1, 200, 200, "bkl", False),
    "D=1, learned, unequal": (1, 400, 100, "bkl", False),
    "D=1, learned, P=Q": (1, 200, 200, "bkl", True),
    "D=2, fixed 1": (2, 200, 200, 1.0, False),
    "D=2, learned": (2, 200, 200, "bkl", False),
    "D=5, median": (5, 200, 200, "median", False),
    "D=5, learned": (5, 200, 200, "bkl", False),
}


# name: (rows of x, rows of y, share of the common level, whether as text)
LEVELS = {
    "two levels, .8": (5, 2_000, 0.8, True),
    "two levels, .95": (20, 1_000, 0.95, True),
    "two levels, .98": (50, 1_000, 0.98, True),
    "0 and 1 as numbers, .95": (20, 1_000, 0.95, False),
    "two levels, .9": (10, 10, 0.9, True),
}


def draw(rng: np.random.Generator, n: int, weights: list, means: list, covariances: list) -> np.ndarray:
    component = rng.choice(len(weights), n, p=weights)
    roots = np.linalg.cholesky(np.array(covariances))
    noise = rng.normal(size=(n, len(means[0])))
    return np.array(means)[component] + np.einsum("nij,nj->ni", roots[component], noise)


def truth(
    points: np.ndarray, lengthscale: np.ndarray, weights: list, means: list, covariances: list
) -> np.ndarray:
    """E exp(-½ Σ_d (s_d - X_d)²/ℓ_d²) in closed form."""
    total = np.zeros(len(points))
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        S = np.diag(lengthscale**2) + covariance
        offset = points - mean
        quadratic = np.einsum("pd,pd->p", offset, np.linalg.solve(S, offset.T).T)
        total += weight * np.prod(lengthscale) / np.sqrt(np.linalg.det(S)) * np.exp(-0.5 * quadratic)
    return total


def one(job: tuple[str, int]) -> tuple[float, float, float]:
    """Covered everywhere, share covered pointwise, share where the simultaneous band excludes 0."""
    name, repetition = job
    D, n, m, kernel, same = CASES[name]
    P, Q = _pair(D, same)
    rng = np.random.default_rng([SEED, list(CASES).index(name), repetition])
    x, y = draw(rng, n, *P), draw(rng, m, *Q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = kembed.witness(
            x, y, kernel=kernel if isinstance(kernel, str) else kembed.Gaussian(kernel), level=LEVEL
        )
    if D == 1:
        pooled = np.concatenate([x, y])
        points = np.linspace(pooled.min(), pooled.max(), 301)[:, None]
    else:
        points = np.concatenate([draw(rng, 150, *P), draw(rng, 150, *Q)])
    lengthscale = np.broadcast_to(np.asarray(w.kernel.lengthscale, dtype=float), (D,))
    true = truth(points, lengthscale, *P) - truth(points, lengthscale, *Q)
    bands = w.at(points)
    everywhere = (bands.simultaneous_lower <= true) & (true <= bands.simultaneous_upper)
    pointwise = (bands.lower <= true) & (true <= bands.upper)
    return float(everywhere.all()), float(pointwise.mean()), float(bands.excludes_zero.mean())


def false_region(job: tuple[str, int]) -> float:
    """Whether P = Q on two levels is said to differ anywhere."""
    name, repetition = job
    n, m, share, text = LEVELS[name]
    rng = np.random.default_rng([SEED, 100 + list(LEVELS).index(name), repetition])
    samples = [rng.uniform(size=(rows, 1)) > share for rows in (n, m)]
    x, y = (np.where(part, "b", "a") if text else 1.0 * part for part in samples)
    return float(bool(kembed.witness(x, y, kernel="median", level=LEVEL).where()))


# Long tails: where hardly a row was seen the estimated sd is too small.
TAILS = [(n, kernel) for n in (50, 200) for kernel in ("median", "bkl")]


def tails(job: tuple[int, str, int]) -> float:
    """Share of the rows' range where pointwise intervals hold the witness of lognormal(0, 1) and Gamma(2)."""
    from scipy import stats

    n, kernel, repetition = job
    rng = np.random.default_rng([SEED, 200 + n, repetition])
    laws = stats.lognorm(1.0), stats.gamma(2.0)
    x, y = (law.rvs(n, random_state=rng) for law in laws)
    w = kembed.witness(x, y, kernel=kernel, level=LEVEL)
    points = np.linspace(min(x.min(), y.min()), max(x.max(), y.max()), 151)
    nodes = [law.ppf((np.arange(4_000) + 0.5) / 4_000) for law in laws]
    p, q = (w.kernel.gram(points, places).mean(axis=1) for places in nodes)
    bands = w.at(points)
    return float(np.mean((bands.lower <= p - q) & (p - q <= bands.upper)))


def main(repetitions: int = REPETITIONS) -> None:
    print(f"{LEVEL:.0%} bands; seed {SEED}, {repetitions} samples a row; standard errors in brackets.\n")
    print("| case | rows | simultaneous band holds the truth everywhere | pointwise | 0 excluded |")
    print("|---|---|---|---|---|")
    for name, (_, n, m, _, _) in CASES.items():
        found = np.array(spread(one, [(name, r) for r in range(repetitions)]))
        mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
        cells = " | ".join(f"{a:.3f} ({b:.3f})" for a, b in zip(mean, error, strict=True))
        print(f"| {name} | {n} + {m} | {cells} |", flush=True)
    print(f"\nP = Q on two levels: share of samples with any region, at most {1 - LEVEL:.0%} wanted.\n")
    print("| case | rows | any region |")
    print("|---|---|---|")
    for name, (n, m, _, _) in LEVELS.items():
        found = np.array(spread(false_region, [(name, r) for r in range(repetitions)]))
        print(
            f"| {name} | {n} + {m} | {found.mean():.3f} ({found.std() / np.sqrt(len(found)):.3f}) |",
            flush=True,
        )
    print("\nLognormal(0, 1) against Gamma(2): share of the rows' range that pointwise intervals cover.\n")
    print("| rows | kernel | pointwise |")
    print("|---|---|---|")
    for n, kernel in TAILS:
        found = np.array(spread(tails, [(n, kernel, r) for r in range(repetitions)]))
        error = found.std() / np.sqrt(len(found))
        print(f"| {n} + {n} | {kernel} | {found.mean():.3f} ({error:.3f}) |", flush=True)


if __name__ == "__main__":
    main()

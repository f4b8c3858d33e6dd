"""Margins: errors exactly at the margin, verdicts as tables grow, and the gate of `assert_same_distribution`.

    KEMBED_WORKERS=1 OMP_NUM_THREADS=1 python -m benchmarks.margin level|columns|growth|gate|faults [COUNT]

- `level`: how often a difference of exactly the margin is called different, and how often equivalent, over
  COUNT (1,000) draws, half as many of five columns, a tenth as many of 10^5 rows and more.
"""

import sys
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import expon, norm

from benchmarks._workers import SEED, spread
from kembed.tables.reader import read
from kembed.testing.effect import EffectData, contrast_moments, effect_data
from kembed.testing.margin import read_margin

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
POINTS = 4_000  # quantiles that stand for a distribution of one column
MILLION = ("normal, shift", "exponential, shift", "far rows")  # cases that are tried with 10^6 rows
FAR = 50.0
CLUSTER = 5  # rows; half of the variance is between clusters


def seeded(*key: object) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(repr(key).encode())])


def clusters(rng: np.random.Generator, n: int) -> np.ndarray:
    between = np.repeat(rng.normal(size=-(-n // CLUSTER)), CLUSTER)[:n]
    return np.sqrt(0.5) * (between + rng.normal(size=n))


def far_rows(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    return np.where(rng.random(n) < share, FAR, rng.normal(size=n))


def far_points(points: np.ndarray, share: float) -> np.ndarray:
    moved = norm.ppf((np.arange(POINTS) + 0.5 - share * POINTS) / (POINTS * (1.0 - share)))
    return np.where(np.arange(POINTS) < share * POINTS, FAR, moved)


# By name: margin, columns, how x and y are drawn (y with a parameter θ), quantiles of y, the largest θ.
Case = tuple[str, int, Callable[..., Any], Callable[..., Any], Callable[..., Any] | None, float]
CASES: dict[str, Case] = {
    "normal, shift": ("0.1 sd", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(t, size=n),
                      lambda p, t: p + t, 1.0),
    "normal, shift, 0.5 sd": ("0.5 sd", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(t, size=n),
                              lambda p, t: p + t, 2.0),
    "normal, scale": ("0.1 sd", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(0.0, 1.0 + t, n),
                      lambda p, t: p * (1.0 + t), 2.0),
    "exponential, shift": ("0.1 sd", 1, lambda r, n: r.exponential(size=n),
                           lambda r, n, t: t + r.exponential(size=n), lambda p, t: p + t, 1.0),
    "exponential, scale": ("0.1 sd", 1, lambda r, n: r.exponential(size=n),
                           lambda r, n, t: r.exponential(1.0 + t, n), lambda p, t: p * (1.0 + t), 2.0),
    "far rows": ("2%", 1, lambda r, n: r.normal(size=n), far_rows, far_points, 0.2),
    "normal, number": ("0.05", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(t, size=n),
                       lambda p, t: p + t, 1.0),
    "clusters, shift": ("0.1 sd", 1, clusters, lambda r, n, t: t + clusters(r, n), lambda p, t: p + t, 1.0),
    "5 normal columns": ("0.1 sd", 5, lambda r, n: r.normal(size=(n, 5)),
                         lambda r, n, t: r.normal(t, size=(n, 5)), None, 1.0),
}  # fmt: skip


def data_of(x: np.ndarray, y: np.ndarray, **how: Any) -> EffectData:
    return effect_data(read({"x": x, "y": y}, nan_policy="raise", minimum=2), **how)


def squared(data: EffectData) -> float:
    """The squared MMD of the two sets of points as they are."""
    signs = np.array([1.0, -1.0])
    return float(np.square(signs @ data.means).sum())


@cache
def at_the_margin(name: str) -> float:
    """The parameter with which the distributions are exactly the margin apart."""
    margin, D, _, _, quantiles, most = CASES[name]
    if quantiles is None:
        return brentq(lambda t: normal_gap(float(margin.split()[0]), D, t), 1e-3, most)
    law = expon if name.startswith("exponential") else norm
    points = law.ppf((np.arange(POINTS) + 0.5) / POINTS)

    def gap(t: float) -> float:
        data = data_of(points, quantiles(points, t))
        return squared(data) - 2.0 * read_margin(margin).effect(data) ** 2

    return brentq(gap, 1e-3, most, xtol=1e-5)


def normal_gap(amount: float, D: int, t: float) -> float:
    """The squared MMD of N(0, I) and N(t, I) less that of half of each and the same shifted."""
    rows = seeded("lengthscale").normal(size=(1_000, D))
    rows[::2] += t
    scale = data_of(rows[::2], rows[1::2]).space.median()

    def kernel(gap: float) -> float:
        width = scale**2 + 2.0
        return float((scale / np.sqrt(width) * np.exp(-0.5 * gap**2 / width)) ** D)

    moved = amount * np.sqrt(1.0 + 0.25 * t**2)
    means = np.array([0.0, t])
    within = np.mean([kernel(a - b) for a in means for b in means])
    across = np.mean([kernel(a - b - moved) for a in means for b in means])
    return 2.0 * (kernel(0.0) - kernel(t)) - 2.0 * (within - across)


def decided(job: tuple[str, int, int]) -> tuple[bool, bool]:
    """Whether a draw is called different, and equivalent; without asking for a p-value as well."""
    name, n, r = job
    margin, _, first, second, _, _ = CASES[name]
    rng = seeded("level", name, n, r)
    x, y = first(rng, n), second(rng, n, at_the_margin(name))
    data = data_of(x, y, unit=CLUSTER if name.startswith("clusters") else None)
    low, high = contrast_moments(data, data.features, data.means).interval()
    limit = 2.0**0.5 * read_margin(margin).effect(data)
    return low > limit, high < limit


def level(count: int) -> None:
    print(f"{count} draws (five columns: half, 10^5 rows and more: a tenth); level .05 either way\n")
    print("| case | margin | θ | n | different (s.e.) | equivalent (s.e.) |\n|---|---|---|---|---|---|")
    for name, (margin, D, *_) in CASES.items():
        for n in SIZES if name in MILLION else SIZES[:4]:
            runs = count // (10 if n >= 100_000 else 2 if D > 1 else 1)
            rates = np.mean(spread(decided, [(name, n, r) for r in range(runs)]), axis=0)
            cells = [f"{rate:.3f} ({np.sqrt(rate * (1.0 - rate) / runs):.3f})" for rate in rates]
            start = f"| {name} | {margin} | {at_the_margin(name):.4f} | {n:,} "
            print(f"{start}| {' | '.join(cells)} |", flush=True)


def main() -> None:
    defaults = {"level": 1_000}
    name = sys.argv[1]
    globals()[name](int(sys.argv[2]) if len(sys.argv) > 2 else defaults[name])


if __name__ == "__main__":
    main()

"""The conditional test with confounders that jump, and with linear effects; beside KCI and Fisher's z.

Null settings: thresholds, steps, trees, interactions, and smooth functions beside them; alternatives: linear
effects and categories, where the partial correlation is the best test, and those that it does not see.
`python -m benchmarks conditional_thresholds`; parts run alone with KEMBED_PART=level or power. KEMBED_RIVALS=
leaves KCI out.
"""

import os
import time
import zlib
from collections.abc import Callable

import numpy as np

from benchmarks._workers import spread
from benchmarks.conditional import kci
from kembed import conditional_test
from kembed.conditional.linear import partial_correlation

SEED, ALPHA = int(os.environ.get("KEMBED_SEED", "90")), 0.05
REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "200"))
ROWS = [int(n) for n in os.environ.get("KEMBED_ROWS", "200,500,1000").split(",")]
PART = os.environ.get("KEMBED_PART", "level,power").split(",")
RIVALS = os.environ.get("KEMBED_RIVALS", "KCI")
CHOSEN = os.environ.get("KEMBED_SETTINGS", "")

Rng = np.random.Generator


def _normal(rng: Rng, n: int, d: int) -> np.ndarray:
    return rng.standard_normal((n, d))


def _additive(d: int, f: Callable, g: Callable | None = None, noise: float = 0.5) -> Callable:
    """x = f(z) + e and y = g(z) + e'."""

    def draw(n: int, rng: Rng) -> tuple:
        Z = _normal(rng, n, d)
        a, b = noise * rng.standard_normal((2, n))
        return f(Z.T) + a, (g or f)(Z.T) + b, Z

    return draw


def _two_thresholds(z: np.ndarray) -> np.ndarray:
    return 1.5 * (z[0] > 0.5) + (z[1] < -0.3)


def _tree(z: np.ndarray) -> np.ndarray:
    """A regression tree of depth three."""
    inner = np.where(z[1] > 0.5, np.where(z[2] > 0.0, 2.0, 0.0), -1.0)
    return np.where(z[0] > 0.0, inner, np.where(z[2] > -0.5, 1.0, -1.5))


def _integers(n: int, rng: Rng) -> tuple:
    """Ages in years with two cut-offs, and a category of four levels."""
    age, level = rng.integers(18, 80, n), rng.integers(4, size=n)
    f = 1.5 * (age >= 65) + (age < 25) + np.array([0.0, 0.5, -0.5, 1.0])[level]
    a, b = 0.5 * rng.standard_normal((2, n))
    return f + a, f + b, np.column_stack([age, level]).astype(float)


def _spread(n: int, rng: Rng) -> tuple:
    """The spread of both sides jumps."""
    Z = _normal(rng, n, 2)
    a, b = rng.standard_normal((2, n)) * np.where(Z[:, 0] > 0.5, 2.5, 1.0)
    return a, b, Z


def _binary(n: int, rng: Rng) -> tuple:
    """A treatment whose probability jumps, and an outcome whose mean does."""
    Z = _normal(rng, n, 2)
    x = rng.random(n) < np.where(Z[:, 0] > 0.3, 0.8, 0.2)
    return x.astype(float), _two_thresholds(Z.T) + 0.5 * rng.standard_normal(n), Z


def _skewed(n: int, rng: Rng) -> tuple:
    """Thresholds and exponential noise."""
    Z = _normal(rng, n, 2)
    a, b = 0.5 * rng.standard_exponential((2, n))
    return _two_thresholds(Z.T) + a, _two_thresholds(Z.T) + b, Z


NULLS: dict[str, Callable] = {
    "two thresholds": _additive(2, _two_thresholds),
    "two thresholds, noise 1": _additive(2, _two_thresholds, noise=1.0),
    "one threshold of one column": _additive(1, lambda z: 2.0 * (z[0] > 0.0)),
    "rare threshold (10%)": _additive(2, lambda z: 2.5 * (z[0] > 1.28)),
    "thresholds of 5 columns": _additive(5, _two_thresholds),
    "steps": _additive(1, lambda z: 0.75 * np.floor(1.5 * z[0])),
    "steps of 3 columns": _additive(3, lambda z: 0.5 * np.floor(1.5 * z).sum(axis=0)),
    "tree of depth 3": _additive(3, _tree),
    "interaction of thresholds": _additive(2, lambda z: 2.0 * ((z[0] > 0.0) & (z[1] > 0.0))),
    "sign of a product": _additive(2, lambda z: np.sign(z[0] * z[1])),
    "oblique threshold": _additive(2, lambda z: 2.0 * (z[0] + z[1] > 0.5)),
    "sine and a threshold": _additive(2, lambda z: np.sin(2.0 * z[0]) + 1.5 * (z[1] > 0.3)),
    "discontinuity": _additive(1, lambda z: z[0] + 1.5 * (z[0] > 0.3)),
    "thresholds apart": _additive(2, _two_thresholds, lambda z: 1.5 * (z[0] > 0.3) - (z[1] < 0.0)),
    "ages and categories": _integers,
    "spread that jumps": _spread,
    "probability that jumps": _binary,
    "thresholds, skewed noise": _skewed,
    "linear": _additive(3, lambda z: z.sum(axis=0)),
    "sine": _additive(1, lambda z: 2.0 * np.sin(2.0 * z[0])),
    "product": _additive(2, lambda z: z[0] * z[1]),
}


def _effect(
    d: int, effect: Callable, f: Callable = lambda z: 0.5 * z[0], noise: Callable | None = None
) -> Callable:
    """y = f(z) + effect(e, z) + e' with x = f(z) + e."""

    def draw(n: int, rng: Rng) -> tuple:
        Z = _normal(rng, n, d)
        a, b = rng.standard_normal((2, n)) if noise is None else noise(rng, n)
        return f(Z.T) + a, f(Z.T) + effect(a, Z.T) + b, Z

    return draw


def _one_level(n: int, rng: Rng) -> tuple:
    """One of four levels has a higher mean."""
    Z, level = _normal(rng, n, 2), rng.integers(4, size=n)
    return np.array(list("abcd"))[level], 0.5 * Z[:, 0] + 0.4 * (level == 2) + rng.standard_normal(n), Z


def _two_categories(n: int, rng: Rng) -> tuple:
    """Two binary variables with a common cause."""
    Z = _normal(rng, n, 2)
    x = rng.random(n) < 1.0 / (1.0 + np.exp(-Z[:, 0]))
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-Z[:, 0] - 0.7 * (x - 0.5)))
    return x.astype(float), y.astype(float), Z


def _t2(rng: Rng, n: int) -> np.ndarray:
    return rng.standard_t(2, (2, n))


ALTERNATIVES: dict[str, Callable] = {
    "linear .2 given 3": _effect(3, lambda a, z: 0.2 * a),
    "one of 4 levels": _one_level,
    "two categories": _two_categories,
    "step given 10": _effect(10, lambda a, z: 0.4 * (a > 0.0)),
    "linear .2, t2 noise": _effect(3, lambda a, z: 0.2 * a, noise=_t2),
    "linear .2, thresholds": _effect(2, lambda a, z: 0.2 * a, _two_thresholds),
    "linear .2, tree": _effect(3, lambda a, z: 0.2 * a, _tree),
    "quadratic": _effect(3, lambda a, z: 0.2 * (a**2 - 1.0)),
    "sine of x": _effect(2, lambda a, z: 0.5 * np.sin(4.0 * a)),
    "sign depends on z": _effect(2, lambda a, z: 0.3 * np.sign(z[1]) * a),
    "interaction": _effect(3, lambda a, z: 0.25 * z[1] * a),
}


def fisher_z(x: np.ndarray, y: np.ndarray, Z: np.ndarray) -> float:
    """Fisher's z of the partial correlation; of several levels the smallest p-value times their number."""
    levels = np.unique(x)
    columns = [x] if x.dtype.kind == "f" else [(x == one).astype(float) for one in levels]
    found = [partial_correlation(one[:, None], y[:, None], Z) for one in columns]
    return min(1.0, len(columns) * min(one.pvalue for one in found if one is not None))


def _run(task: tuple) -> list[float]:
    """p-values of ours, Fisher's z and KCI, and the seconds of ours."""
    part, name, n, seed, rivals = task
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), n, seed])
    x, y, Z = (NULLS if part == "level" else ALTERNATIVES)[name](n, rng)
    start = time.perf_counter()
    ours = conditional_test(x, y, Z, rng=seed).pvalue
    taken = time.perf_counter() - start
    coded = x if x.dtype.kind == "f" else np.unique(x, return_inverse=True)[1].astype(float)
    theirs = kci(coded, y, Z) if "KCI" in rivals else np.nan
    return [ours, fisher_z(x, y, Z), theirs, taken]


def table(part: str, rows: list[int]) -> None:
    """Shares rejected, for every setting."""
    error = np.sqrt(0.05 * 0.95 / REPETITIONS) if part == "level" else 0.5 / np.sqrt(REPETITIONS)
    print(
        f"\n{part.capitalize()} at {ALPHA}: {REPETITIONS} draws, seed {SEED}; standard error {error:.3f}.\n"
    )
    print("| setting | n | kembed | Fisher's z | KCI | seconds |\n|---|---|---|---|---|---|")
    for name in NULLS if part == "level" else ALTERNATIVES:
        for n in rows if not CHOSEN or name in CHOSEN.split(",") else ():
            found = np.array(spread(_run, [(part, name, n, seed, RIVALS) for seed in range(REPETITIONS)]))
            shares = [
                f"{np.mean(column <= ALPHA):.3f}" if not np.isnan(column).any() else ""
                for column in found.T[:3]
            ]
            print(f"| {name} | {n} | {' | '.join(shares)} | {found[:, 3].mean():.2f} |", flush=True)


def main() -> None:
    if "level" in PART:
        table("level", ROWS)
    if "power" in PART:
        table("power", ROWS[:1])


if __name__ == "__main__":
    main()

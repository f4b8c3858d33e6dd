"""Where two distributions differ: how much of the difference the witness finds, and how much it says wrongly.

`python -m benchmarks where`; KEMBED_REPETITIONS for fewer than 20 repetitions. At points s drawn from half
of either distribution, v(s) = (p - q)/(p + q) is known. A witness finds s if its simultaneous 90% band
excludes 0 there (`Witness.side`; of several scales the finest decides). "found" is the share of Σ|v| at
points found with the right sign, "wrong" the share of Σ|v| among all points found that have the wrong sign
(points where |v| < .02 count for neither). "hindsight" is the best of single Gaussians at RATIOS of the
median distance, chosen for each set by the mean of found - wrong.

The synthetic pairs have densities; the real ones are columns of scikit-learn's tables from which rows of
one half were dropped by a rule that is known, so that q is p times what the rule keeps.
"""

# ruff: noqa: D102 - `pdf` and `rvs` are scipy's
import os
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks._workers import spread
from kembed import Gaussian, witness
from kembed.kernels.space import make_space

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "20"))
SEED, ROWS, POINTS, LEVEL = 2026, 300, 1_000, 0.9
RATIOS = (0.06, 0.12, 0.25, 0.5, 1.0, 2.0)
RULES = ("auto", "bkl", "median", *RATIOS)
IMMATERIAL = 0.02


@dataclass(frozen=True)
class Pair:
    """Two samples, and points at which (p - q)/(p + q) is known."""

    name: str
    draw: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]


def of_densities(name: str, p, q) -> Pair:
    """p and q have `rvs` and `pdf`, in one dimension or more."""

    def draw(rng):
        x, y = (np.asarray(d.rvs(ROWS, random_state=rng)).reshape(ROWS, -1) for d in (p, q))
        points = [np.asarray(d.rvs(POINTS // 2, random_state=rng)).reshape(POINTS // 2, -1) for d in (p, q)]
        points = np.concatenate(points)
        at = points[:, 0] if points.shape[1] == 1 else points
        a, b = p.pdf(at), q.pdf(at)
        return x, y, points, (a - b) / (a + b)

    return Pair(name, draw)


def of_rule(name: str, table: np.ndarray, kept: Callable[[np.ndarray], np.ndarray]) -> Pair:
    """Rows of the second half of a real table are kept with the probability `kept`."""
    share = kept(table) / kept(table).mean()  # q over p

    def draw(rng):
        order = rng.permutation(len(table))
        first, second = np.array_split(order, 2)
        stays = rng.random(len(second)) < kept(table[second])
        x, y = table[first], table[second[stays]]
        points = rng.choice(len(table), POINTS, p=(1.0 + share) / (1.0 + share).sum())
        return x, y, table[points], (1.0 - share[points]) / (1.0 + share[points])

    return Pair(name, draw)


class Mixture:
    """Of frozen distributions of scipy."""

    def __init__(self, *parts):
        self.weights, self.parts = zip(*parts, strict=True)

    def pdf(self, at):
        return sum(w * part.pdf(at) for w, part in zip(self.weights, self.parts, strict=True))

    def rvs(self, size, random_state):
        counts = random_state.multinomial(size, self.weights)
        drawn = [
            np.asarray(part.rvs(count, random_state=random_state)).reshape(count, -1)
            for part, count in zip(self.parts, counts, strict=True)
        ]
        return random_state.permutation(np.concatenate(drawn))


class Waves:
    """Uniform on [0, 1], times 1 + height · a square wave of so many periods."""

    def __init__(self, periods, height):
        self.periods, self.height = periods, height

    def pdf(self, at):
        return 1.0 + self.height * np.sign(np.sin(2.0 * np.pi * self.periods * np.asarray(at)))

    def rvs(self, size, random_state):
        found = random_state.random(10 * size)
        return found[random_state.random(10 * size) < self.pdf(found) / (1.0 + self.height)][:size]


N, M2 = stats.norm, stats.multivariate_normal


def blobs(shift: float) -> Mixture:
    centres = [(0, 0), (6, 0), (0, 6), (6, 6)]
    return Mixture(*((0.25, M2((a + shift, b), 0.3)) for a, b in centres))


def pairs() -> list[Pair]:
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

    wine, cancer, iris = load_wine().data, load_breast_cancer().data, load_iris().data
    diabetes = load_diabetes(scaled=False).data
    low = np.quantile

    def between(d, a, b, inside=0.2, outside=1.0):
        def kept(t):
            lo, hi = low(t[:, d], [a, b])
            return np.where((t[:, d] >= lo) & (t[:, d] <= hi), inside, outside)

        return kept

    return [
        of_densities("mean, .5 sd", N(0, 1), N(0.5, 1)),
        of_densities("sd, 1 and 1.6", N(0, 1), N(0, 1.6)),
        of_densities("normal, Laplace", N(0, 1), stats.laplace(0, 0.5**0.5)),
        of_densities("normal, t3", N(0, 1), stats.t(3)),
        of_densities("gamma 2, log-normal", stats.gamma(2), stats.lognorm(0.65, scale=1.6)),
        of_densities("a bump of 10% in the tail", N(0, 1), Mixture((0.9, N(0, 1)), (0.1, N(2.5, 0.15)))),
        of_densities("a gap in the middle", N(0, 1), Mixture((0.5, N(-1, 0.6)), (0.5, N(1, 0.6)))),
        of_densities(
            "clumps of other weights", *(Mixture((w, N(-4, 0.5)), (1 - w, N(4, 0.5))) for w in (0.5, 0.65))
        ),
        of_densities("one of two clumps moves", *(Mixture((0.5, N(0, 0.1)), (0.5, N(m, 1))) for m in (4, 5))),
        of_densities(
            "narrow clump moves", *(Mixture((0.5, N(m, 0.05)), (0.5, N(0, 3))) for m in (0.0, 0.07))
        ),
        of_densities("square wave, 2 periods", Waves(2, 0.0), Waves(2, 0.6)),
        of_densities("square wave, 4 periods", Waves(4, 0.0), Waves(4, 0.8)),
        of_densities("plane: mean", M2([0, 0]), M2([0.6, 0])),
        of_densities("plane: correlation 0, .7", M2([0, 0]), M2([0, 0], [[1, 0.7], [0.7, 1]])),
        of_densities("plane: four blobs move", blobs(0.0), blobs(0.45)),
        of_rule("diabetes bmi: middle third", diabetes[:, [2]], between(0, 0.33, 0.67)),
        of_rule("wine flavanoids: upper quarter", wine[:, [6]], between(0, 0.75, 1.0, 0.15)),
        of_rule("cancer radius: lower half", cancer[:, [0]], between(0, 0.0, 0.5, 0.4)),
        of_rule("cancer concavity, area: large area", cancer[:, [6, 3]], between(1, 0.7, 1.0)),
        of_rule("iris petals: middle", iris[:, 2:], between(0, 0.35, 0.65)),
        of_rule("diabetes bp, s5: high bp", diabetes[:, [3, 8]], between(0, 0.6, 1.0, 0.3)),
    ]


def judged(pair: Pair, repetition: int) -> np.ndarray:
    """(found, wrong) of every rule."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([SEED, zlib.crc32(pair.name.encode()), repetition])
    x, y, points, v = pair.draw(rng)
    pooled = np.concatenate([x, y])
    space = make_space(pooled, np.zeros(pooled.shape[1], dtype=bool))
    out = []
    for rule in RULES:
        kernel = rule if isinstance(rule, str) else Gaussian(rule * space.median() * space.spread)
        size = np.where(np.abs(v) < IMMATERIAL, 0.0, np.abs(v))
        sign = witness(x, y, kernel=kernel, level=LEVEL).side(points)
        right, wrong = size @ (sign == np.sign(v)), size @ (sign == -np.sign(v))
        out.append([right / size.sum(), wrong / max(right + wrong, 1e-12)])
    return np.array(out)


def job(numbers: tuple[int, int]) -> np.ndarray:
    return judged(pairs()[numbers[0]], numbers[1])


def main() -> None:
    sets = pairs()
    print(
        f"{REPETITIONS} repetitions, {ROWS} rows each (real tables: half each), level {LEVEL}, seed {SEED}\n"
    )
    print("| set | found / wrong: auto (default) | bkl | median | hindsight (ratio to the median) |")
    print("|---|---|---|---|---|")
    rows = []
    for k, pair in enumerate(sets):
        results = np.stack(spread(job, [(k, r) for r in range(REPETITIONS)]))
        mean = results.mean(axis=0)
        best = 3 + int(np.argmax(mean[3:, 0] - mean[3:, 1]))
        rows.append(mean[[0, 1, 2, best]])
        cells = " | ".join(f"{found:.2f} / {wrong:.3f}" for found, wrong in mean[[0, 1, 2, best]])
        print(f"| {pair.name} | {cells} ({RULES[best]}) |", flush=True)
    table = np.array(rows)
    mean, error = table.mean(axis=0), table.std(axis=0) / np.sqrt(len(table))
    cells = " | ".join(f"{found:.3f} / {wrong:.3f}" for found, wrong in mean)
    print(f"| **mean** | {cells} |")
    print(f"\nauto over hindsight {mean[0, 0] / mean[3, 0]:.3f}; s.e. over sets {error[:, 0].round(3)}")

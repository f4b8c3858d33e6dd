"""A third suite, `ACCIDENTS`, and one for independence, `RELATIONS`: written before the members were chosen.

What happens to real tables (scikit-learn's: cancer, digits, wine, diabetes, iris), and sets of the literature
that neither `SUITE` nor `HELD_OUT` holds. They judge; nothing is tuned on them. Rows of a real table are
drawn without replacement, half for either sample, and then something happens to the second. With text
among the columns a sample is a data frame.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
from sklearn import datasets

from benchmarks.alternatives import (
    Alternative,
    Pair,
    Rng,
    columns,
    contaminated,
    correlated,
    named,
    normal,
    one_pair,
    paired,
    samples,
    student,
)


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    found = getattr(datasets, f"load_{name}")()
    return found.data.astype(float), found.target


def happened(name: str, source: str, n: int, change: Callable[[Rng, np.ndarray], None]) -> Alternative:
    """Rows of a real table, n for either sample; `change` then alters those of the second in place."""

    def draw(rng: Rng) -> Pair:
        rows = table(source)[0][rng.permutation(len(table(source)[0]))[: 2 * n]].copy()
        change(rng, rows[n:])
        return rows[:n], rows[n:]

    return Alternative(name, n, draw)


def spread(column: np.ndarray) -> float:
    return float(np.std(column))


def noisier(column: int, amount: float):
    def change(rng: Rng, y: np.ndarray) -> None:
        y[:, column] += amount * spread(y[:, column]) * rng.standard_normal(len(y))

    return change


def shuffled(column: int, share: float = 1.0):
    """The column's values change rows, so that its margin stays and what it goes with does not."""

    def change(rng: Rng, y: np.ndarray) -> None:
        rows = np.flatnonzero(rng.random(len(y)) < share)
        y[rows, column] = y[rng.permutation(rows), column]

    return change


def other_unit(column: int, share: float, factor: float):
    def change(rng: Rng, y: np.ndarray) -> None:
        y[rng.random(len(y)) < share, column] *= factor

    return change


def rounded(column: int, step: float):
    """To multiples of `step` standard deviations."""

    def change(rng: Rng, y: np.ndarray) -> None:
        unit = step * spread(y[:, column])
        y[:, column] = unit * np.round(y[:, column] / unit)

    return change


def filled_in(column: int, share: float):
    def change(rng: Rng, y: np.ndarray) -> None:
        y[rng.random(len(y)) < share, column] = np.mean(y[:, column])

    return change


def moved(column: int, amount: float):
    def change(rng: Rng, y: np.ndarray) -> None:
        y[:, column] += amount * spread(y[:, column])

    return change


def slid(share: float):
    """Some of the 8x8 images one pixel to the right."""

    def change(rng: Rng, y: np.ndarray) -> None:
        rows = rng.random(len(y)) < share
        y[rows] = np.roll(y[rows].reshape(-1, 8, 8), 1, axis=2).reshape(-1, 64)

    return change


def without(source: str, classes: tuple[int, ...], kept: float, n: int, name: str) -> Alternative:
    """The second sample lost rows of some classes."""

    def draw(rng: Rng) -> Pair:
        rows, target = table(source)
        order = rng.permutation(len(rows))
        first, rest = order[:n], order[n:]
        rest = rest[~np.isin(target[rest], classes) | (rng.random(len(rest)) < kept)]
        return rows[first], rows[rest[:n]]

    return Alternative(name, n, draw)


def moons(noise: float):
    def draw(rng: Rng, n: int) -> np.ndarray:
        t, upper = np.pi * rng.random(n), rng.random(n) < 0.5
        x = np.where(upper, np.cos(t), 1.0 - np.cos(t))
        y = np.where(upper, np.sin(t), 0.5 - np.sin(t))
        return np.column_stack([x, y]) + noise * rng.standard_normal((n, 2))

    return draw


def clustered(parents: int, width: float):
    """Points around parents that are drawn anew: on average uniform on the torus, but clumped."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        centres = rng.random((parents, 2))
        return (centres[rng.integers(parents, size=n)] + width * rng.standard_normal((n, 2))) % 1.0

    return draw


def ball(power: float, D: int = 4):
    """In the unit ball, the radius as U^(power/D): uniform for 1, towards the surface below."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        z = rng.standard_normal((n, D))
        return z / np.linalg.norm(z, axis=1, keepdims=True) * rng.random((n, 1)) ** (power / D)

    return draw


def two_modes(D: int, count: int, half: float):
    """`count` of D columns have two modes, with mean 0 and variance 1 all the same."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        x = rng.standard_normal((n, D))
        x[:, :count] *= np.sqrt(1.0 - half**2)
        x[:, :count] += half * rng.choice([-1.0, 1.0], (n, count))
        return x

    return draw


def heaped(share: float):
    """Poisson counts, some of them told in fives."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        x = rng.poisson(20.0, (n, 1)).astype(float)
        return np.where(rng.random((n, 1)) < share, 5.0 * np.round(x / 5.0), x)

    return draw


def told_in_hundreds(share: float, D: int = 5):
    """Amounts, of which one column's are reported in hundreds by some."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        x = np.round(np.exp(rng.normal(7.0, 0.6, (n, D))), 2)
        x[:, 0] = np.where(rng.random(n) < share, 100.0 * np.round(x[:, 0] / 100.0), x[:, 0])
        return x

    return draw


def by_level(strength: float):
    """A number goes up with one level of a category and down with another; the margins stay nearly alike."""

    def draw(rng: Rng, n: int):
        level = rng.integers(3, size=n)
        x = rng.standard_normal((n, 4))
        x[:, 0] += strength * np.array([1.0, 0.0, -1.0])[level]
        x[:, 0] /= np.sqrt(1.0 + 2.0 * strength**2 / 3.0)
        return pd.DataFrame(x, columns=list("abcd")).assign(level=np.array(["low", "mid", "high"])[level])

    return draw


def more_of(weights):
    """Other shares of the levels of one of three categories, beside four numbers."""

    def draw(rng: Rng, n: int):
        frame = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
        first = np.array(list("pqrs"))[rng.choice(4, n, p=weights)]
        return frame.assign(first=first, second=rng.choice(["u", "v"], n), third=rng.choice(list("xyz"), n))

    return draw


def sphere_angle(concentration: float, D: int = 3):
    """Directions that prefer an axis, both ends alike."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        z = rng.standard_normal((n, D)) * np.where(np.arange(D) == 0, concentration, 1.0)
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    return draw


def regime(share: float, D: int = 6):
    """Some rows have all their columns wild together."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        return rng.standard_normal((n, D)) * np.where(rng.random((n, 1)) < share, 2.5, 1.0)

    return draw


ACCIDENTS = named(
    happened("cancer: one column noisier", "breast_cancer", 200, noisier(8, 0.9)),
    happened("cancer: one column shuffled", "breast_cancer", 200, shuffled(5)),
    happened("cancer: 4% of one column in another unit", "breast_cancer", 200, other_unit(21, 0.04, 10.0)),
    happened("cancer: one column rounded", "breast_cancer", 200, rounded(14, 0.2)),
    without("digits", (8,), 0.3, 250, "digits: most eights lost"),
    happened("digits: 12% slid by a pixel", "digits", 250, slid(0.12)),
    happened("digits: one pixel noisier", "digits", 250, noisier(27, 0.5)),
    happened("wine: one column moved", "wine", 85, moved(4, 0.55)),
    without("wine", (2,), 0.5, 60, "wine: half of a class lost"),
    happened("diabetes: one column shuffled", "diabetes", 200, shuffled(2)),
    happened("diabetes: a fifth filled in", "diabetes", 200, filled_in(3, 0.2)),
    happened("iris: a third of a column shuffled", "iris", 70, shuffled(2, 0.35)),
    samples("two modes in 2 of 25 columns", normal(25), two_modes(25, 2, 0.85)),
    samples("correlation of 2 in 25 columns", normal(25), correlated(one_pair(25, 0.5))),
    samples("heavy tails D=10", normal(10), student(4, 10, sd=0.5**0.5)),
    samples("rare cluster D=10", normal(10), contaminated(10, 0.03, 2.5)),
    samples("moons, noisier", moons(0.12), moons(0.17)),
    samples("ball, towards the surface", ball(1.0), ball(0.7)),
    samples("counts heaped in fives", heaped(0.0), heaped(0.35)),
    samples("amounts told in hundreds", told_in_hundreds(0.0), told_in_hundreds(0.15)),
    samples("number by level of a category", by_level(0.0), by_level(0.6)),
    samples("shares of one category in three", more_of([0.25] * 4), more_of([0.35, 0.25, 0.25, 0.15])),
    samples("points clustered, not independent", clustered(10_000, 0.02), clustered(60, 0.02)),
    samples("directions along an axis", sphere_angle(1.0), sphere_angle(1.35)),
    samples("some rows wild", normal(6), regime(0.12)),
)


# Independence.


def one_of(D: int, strength: float):
    """y goes with one column of D, curved."""

    def draw(rng: Rng, n: int) -> Pair:
        x = rng.standard_normal((n, D))
        return columns(x, strength * np.abs(x[:, 3]) + rng.standard_normal(n))

    return draw


def real_relation(source: str, column: int, noise: float):
    """A column of a real table under noise, beside the other columns."""

    def draw(rng: Rng, n: int) -> Pair:
        rows = table(source)[0]
        rows = rows[rng.permutation(len(rows))[:n]]
        y = rows[:, column] + noise * spread(rows[:, column]) * rng.standard_normal(n)
        return columns(np.delete(rows, column, axis=1), y)

    return draw


def outcome_of(source: str, noise: float):
    """A real outcome among noise columns."""

    def draw(rng: Rng, n: int) -> Pair:
        rows, target = table(source)
        chosen = rng.permutation(len(rows))[:n]
        x = np.column_stack([rows[chosen][:, :2], rng.standard_normal((n, 15))])
        return columns(x, target[chosen] + noise * np.std(target) * rng.standard_normal(n))

    return draw


def step(rng: Rng, n: int) -> Pair:
    x = rng.random(n)
    return columns(x, 0.8 * (np.floor(6 * x) % 2) + rng.standard_normal(n))


def spiral(rng: Rng, n: int) -> Pair:
    t = 4.0 * np.pi * np.sqrt(rng.random(n))
    noise = 1.5 * rng.standard_normal((2, n))
    return columns(t * np.cos(t) + noise[0], t * np.sin(t) + noise[1])


def tail(rng: Rng, n: int) -> Pair:
    """Only large values go together."""
    x, y = rng.standard_normal((2, n))
    both = rng.random(n) < 0.06
    return columns(x + 2.5 * both, y + 2.5 * both)


def rounded_by(rng: Rng, n: int) -> Pair:
    """Whether y is reported in halves depends on x."""
    x, y = rng.standard_normal((2, n))
    return columns(x, np.where(x > 0.8, np.round(2.0 * y) / 2.0, y))


def interaction(rng: Rng, n: int) -> Pair:
    """y follows the product of two of eight columns."""
    x = rng.standard_normal((n, 8))
    return columns(x, 0.6 * x[:, 1] * x[:, 6] + rng.standard_normal(n))


def spread_by(rng: Rng, n: int) -> Pair:
    """The spread of one of five columns of y follows one of five of x."""
    x, y = rng.standard_normal((2, n, 5))
    y[:, 2] *= np.exp(0.35 * x[:, 4])
    return columns(x, y)


def weak_many(rng: Rng, n: int) -> Pair:
    """Every column a little."""
    x, y = rng.standard_normal((2, n, 6))
    return columns(x, y + 0.13 * x)


def rare_level(rng: Rng, n: int) -> Pair:
    """A category of eight levels, one of which moves y."""
    x = rng.integers(8, size=n)
    return pd.DataFrame({"x": np.array(list("abcdefgh"))[x]}), 0.75 * (x == 3) + rng.standard_normal(n)


def mixture_slope(rng: Rng, n: int) -> Pair:
    """Half the rows go up and half go down."""
    x = rng.standard_normal(n)
    return columns(x, rng.choice([-0.75, 0.75], n) * x + 0.7 * rng.standard_normal(n))


RELATIONS = named(
    paired("one column of 20, curved", one_of(20, 0.6)),
    paired("a real column under noise, cancer", real_relation("breast_cancer", 28, 2.0), n=150),
    paired("a real column under noise, wine", real_relation("wine", 7, 2.0), n=100),
    paired("a real outcome, 2 of 17 columns", outcome_of("diabetes", 0.0), n=150),
    paired("steps", step),
    paired("spiral", spiral, n=150),
    paired("only the tail", tail, n=200),
    paired("told in halves", rounded_by),
    paired("product of 2 in 8 columns", interaction),
    paired("spread of 1 in 5 by 1 in 5", spread_by),
    paired("six weak pairs", weak_many),
    paired("one rare level of 8", rare_level),
    paired("up and down", mixture_slope, n=150),
)

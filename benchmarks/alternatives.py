"""The sets on which tests are compared: `SUITE`, `HELD_OUT`, `DEPENDENCE`, and `NULLS` for the level.

`SUITE` holds the 19 two-sample sets that the methods were developed on. What was left open about them was set
so that the median heuristic and the best single lengthscale have the power first measured. `HELD_OUT` was
written later, its difficulty set with those two rules alone, and is for judging methods, not for tuning them.
`DEPENDENCE` holds paired rows for independence tests. A set's `draw(rng)` gives two arrays with n rows each;
a null's `draw(rng, n)` gives two samples from one distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

Rng = np.random.Generator
Sampler = Callable[[Rng, int], np.ndarray]
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Alternative:
    """A named pair of distributions, or a joint one, and how many rows to draw."""

    name: str
    n: int
    draw: Callable[[Rng], Pair]


@dataclass(frozen=True)
class Null:
    """A named distribution from which both samples come."""

    name: str
    draw: Callable[[Rng, int], Pair]


def samples(name: str, p: Sampler, q: Sampler, n: int = 200) -> Alternative:
    return Alternative(name, n, lambda rng: (p(rng, n), q(rng, n)))


def paired(name: str, joint: Callable[[Rng, int], Pair], n: int = 200) -> Alternative:
    return Alternative(name, n, lambda rng: joint(rng, n))


def null(name: str, p: Sampler) -> Null:
    return Null(name, lambda rng, n: (p(rng, n), p(rng, n)))


def named(*sets):
    """A dictionary of the sets by name, no name twice."""
    found = {each.name: each for each in sets}
    if len(found) < len(sets):
        raise ValueError("two sets have one name")
    return found


# Distributions: each call returns a sampler.


def normal(D: int = 1, mean=0.0, sd=1.0) -> Sampler:
    return lambda rng, n: mean + sd * rng.standard_normal((n, D))


def first(D: int, value: float, rest: float = 0.0, count: int = 1) -> np.ndarray:
    """`count` times `value`, then `rest`."""
    return np.where(np.arange(D) < count, value, rest)


def correlated(correlation: np.ndarray) -> Sampler:
    factor = np.linalg.cholesky(correlation)
    return lambda rng, n: rng.standard_normal((n, len(factor))) @ factor.T


def one_pair(D: int, value: float) -> np.ndarray:
    """The correlation matrix in which the first two of D columns are correlated."""
    correlation = np.eye(D)
    correlation[0, 1] = correlation[1, 0] = value
    return correlation


def student(df: float, D: int = 1, mean=0.0, sd=1.0) -> Sampler:
    """Independent columns; `sd` multiplies the standard t and is not its standard deviation."""
    return lambda rng, n: mean + sd * rng.standard_t(df, (n, D))


def mixture(weights, *parts: Sampler) -> Sampler:
    """Every row from a part drawn at random."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        part = rng.choice(len(parts), n, p=weights)
        return np.stack([each(rng, n) for each in parts])[part, np.arange(n)]

    return draw


def contaminated(D: int, share: float, mean: float) -> Sampler:
    return mixture([1 - share, share], normal(D), normal(D, mean))


def blobs(centres, sds, weights=None) -> Sampler:
    parts = [normal(len(centre), np.array(centre), sd) for centre, sd in zip(centres, sds, strict=True)]
    return mixture(weights, *parts)


def grid(ratio: float, spacing: float = 14.0) -> Sampler:
    """Blobs on a 3x3 grid, components at random; covariance with eigenvalues (ratio, 1) at 45 degrees."""
    centres = spacing * np.array([[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)])
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    root = turn * np.sqrt([ratio, 1.0])
    return lambda rng, n: centres[rng.integers(9, size=n)] + rng.standard_normal((n, 2)) @ root.T


def bump(t: np.ndarray) -> np.ndarray:
    """Smooth on [-1, 0], up to 1 and then down to -1, as in Schrab et al. (2023), times e."""
    u = np.where(t < -0.5, 4 * t + 3, 4 * t + 1)
    inside = np.maximum(1 - u**2, 1e-9)
    return np.where(t < -0.5, 1.0, -1.0) * np.exp(1 - 1 / inside)


def by_rejection(D: int, height: float, perturbation: Callable[[np.ndarray], np.ndarray], rng: Rng, n: int):
    """Draw from the density 1 + height * perturbation(x) on [0, 1]^D, |perturbation| ≤ 1."""
    rows = np.empty((0, D))
    while len(rows) < n:
        x = rng.random((3 * n, D))
        keep = rng.random(len(x)) * (1 + height) < 1 + height * perturbation(x)
        rows = np.concatenate([rows, x[keep]])
    return rows[:n]


def uniform(D: int = 1) -> Sampler:
    return lambda rng, n: rng.random((n, D))


def perturbed_uniform(D: int, bumps: int, height: float) -> Sampler:
    """`bumps` cells a side, the sign of each at random and anew with every sample."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        signs = rng.choice([-1.0, 1.0], (bumps,) * D)

        def perturbation(x):
            cell = np.minimum((bumps * x).astype(int), bumps - 1)
            return signs[tuple(cell.T)] * np.prod(bump(bumps * x - cell - 1), axis=1)

        return by_rejection(D, height, perturbation, rng, n)

    return draw


def sinusoid(frequency: int, height: float) -> Sampler:
    def perturbation(x):
        return np.sin(2 * np.pi * frequency * x[:, 0])

    return lambda rng, n: by_rejection(1, height, perturbation, rng, n)


def skew_normal(shape: float) -> Sampler:
    """Mean 0 and variance 1."""
    mean, variance = (float(value) for value in stats.skewnorm.stats(shape))
    delta = shape / np.sqrt(1 + shape**2)

    def draw(rng: Rng, n: int) -> np.ndarray:
        x = delta * np.abs(rng.standard_normal((n, 1)))
        return (x + np.sqrt(1 - delta**2) * rng.standard_normal((n, 1)) - mean) / np.sqrt(variance)

    return draw


def elongated(degrees: float, sd: float) -> Sampler:
    """Standard deviations (sd, 1), turned."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return lambda rng, n: (rng.standard_normal((n, 2)) * [sd, 1.0]) @ turn.T


def on_circle(rng: Rng, n: int) -> np.ndarray:
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def ring(radius: float) -> Sampler:
    """A circle and normal noise, so that each column has variance 1."""
    noise = np.sqrt(1 - radius**2 / 2)
    return lambda rng, n: radius * on_circle(rng, n) + noise * rng.standard_normal((n, 2))


def copula(correlation: float, df: float | None = None) -> Sampler:
    """Uniform columns coupled as the normal, or the t with df degrees of freedom, of that correlation."""
    gaussian = correlated(one_pair(2, correlation))

    def draw(rng: Rng, n: int) -> np.ndarray:
        z = gaussian(rng, n)
        if df is None:
            return special.ndtr(z)
        return special.stdtr(df, z / np.sqrt(rng.chisquare(df, (n, 1)) / df))

    return draw


def swiss_roll(noise: float) -> Sampler:
    def draw(rng: Rng, n: int) -> np.ndarray:
        t = 1.5 * np.pi * (1 + 2 * rng.random(n))
        roll = np.column_stack([t * np.cos(t), 21 * rng.random(n), t * np.sin(t)])
        return roll + noise * rng.standard_normal((n, 3))

    return draw


def negative_binomial(mean: float, size: float) -> Sampler:
    """The variance is mean + mean² / size."""
    return lambda rng, n: rng.negative_binomial(size, size / (size + mean), (n, 1)).astype(float)


def parity(share: float) -> Sampler:
    """Three normal columns, any two independent; the product of all three is positive in `share` of rows."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        x = rng.standard_normal((n, 3))
        wanted = np.where(rng.random(n) < share, 1.0, -1.0)
        x[:, 2] *= wanted * np.sign(x.prod(axis=1))
        return x

    return draw


def zero_inflated(zeros: float) -> Sampler:
    return lambda rng, n: np.where(rng.random((n, 1)) < zeros, 0.0, rng.exponential(size=(n, 1)))


def two_scales(shift: float) -> Sampler:
    """Half the rows in a cluster of width .05, half in one of width 3; the narrow one moves."""
    return blobs([[shift], [8.0]], [0.05, 3.0])


FOUR = [[0.0, 0.0], [0.0, 5.0], [5.0, 0.0], [5.0, 5.0]]
THREE = [[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]]

SUITE = named(
    samples("mean shift D=1, .25", normal(), normal(1, 0.25)),
    samples("mean shift D=5, .35", normal(5), normal(5, first(5, 0.35))),
    samples("mean shift D=20, .5", normal(20), normal(20, first(20, 0.5))),
    samples("sd x1.3 D=1", normal(), normal(1, sd=1.3)),
    samples("sd x1.15 D=5", normal(5), normal(5, sd=1.15)),
    samples("sd x1.1 D=20", normal(20), normal(20, sd=1.1)),
    samples("correlation .5 D=2", normal(2), correlated(one_pair(2, 0.5))),
    samples("correlation .7 D=5", normal(5), correlated(one_pair(5, 0.7))),
    samples("Laplace n=200", normal(), lambda rng, n: rng.laplace(scale=0.5**0.5, size=(n, 1))),
    samples("Student t3", normal(), student(3, sd=3**-0.5)),
    samples("Cauchy shift D=1", student(1), student(1, mean=0.45)),
    samples("Cauchy shift D=5", student(1, 5), student(1, 5, mean=0.4)),
    samples("contamination D=1", normal(), contaminated(1, 0.08, 5.0)),
    samples("contamination D=5", normal(5), contaminated(5, 0.1, 3.0)),
    samples("two scales (narrow cluster shifts)", two_scales(0.0), two_scales(0.033)),
    samples("perturbed uniform d=1, n=500", uniform(1), perturbed_uniform(1, 2, 0.29), n=500),
    samples("perturbed uniform d=2, n=500", uniform(2), perturbed_uniform(2, 2, 0.9), n=500),
    samples("4 blobs, one wider, n=500", blobs(FOUR, [1, 1, 1, 1]), blobs(FOUR, [1, 1, 1, 1.55]), n=500),
    samples("3x3 grid, random components, ε=3", grid(1.0), grid(3.0), n=300),
)

HELD_OUT = named(
    samples("skew-normal, same mean and variance", normal(), skew_normal(5.0)),
    samples("mean shift of 1 column in 10", normal(10), normal(10, first(10, 0.45))),
    samples("two modes, same mean and variance", normal(), blobs([[-0.85], [0.85]], [0.5268] * 2)),
    samples(
        "shifted exponential",
        lambda rng, n: rng.exponential(size=(n, 1)),
        lambda rng, n: 0.12 + rng.exponential(size=(n, 1)),
    ),
    samples(
        "log-normal, wider",
        lambda rng, n: rng.lognormal(0.0, 1.0, (n, 1)),
        lambda rng, n: rng.lognormal(0.0, 1.45, (n, 1)),
    ),
    samples("uniform and beta", uniform(1), lambda rng, n: rng.beta(1.7, 1.7, (n, 1))),
    samples("rotation of a long normal", elongated(0.0, 3.0), elongated(16.0, 3.0)),
    samples("ring, same second moments", normal(2), ring(1.2)),
    samples("weights of 3 clusters", blobs(THREE, [1] * 3), blobs(THREE, [1] * 3, [0.44, 0.34, 0.22])),
    samples("t copula and normal copula, n=500", copula(0.5), copula(0.5, 1.5), n=500),
    samples("Swiss roll, noisier", swiss_roll(0.5), swiss_roll(2.0)),
    samples("rare far cluster D=3", normal(3), contaminated(3, 0.03, 10.0)),
    samples("sd x1.5 of 2 columns in 20", normal(20), normal(20, sd=first(20, 1.5, 1.0, 2))),
    samples(
        "Poisson and negative binomial",
        lambda rng, n: rng.poisson(4.0, (n, 1)).astype(float),
        negative_binomial(4.0, 4.0),
    ),
    samples("sinusoidal density, n=500", uniform(1), sinusoid(8, 0.4), n=500),
    samples("parity of 3 columns", normal(3), parity(0.9)),
    samples(
        "unequal units, shift of the narrow column",
        normal(3, sd=[1.0, 3.0, 3.0]),
        normal(3, [0.55, 0.0, 0.0], [1.0, 3.0, 3.0]),
    ),
    samples(
        "Dirichlet, more concentrated",
        lambda rng, n: rng.dirichlet([1.0] * 4, n),
        lambda rng, n: rng.dirichlet([1.5] * 4, n),
    ),
    samples("more zeros", zero_inflated(0.3), zero_inflated(0.43)),
)


# Dependence: x and y of one row belong together.


def columns(x, y) -> Pair:
    return np.asarray(x, float).reshape(len(x), -1), np.asarray(y, float).reshape(len(y), -1)


def linear(rng, n):
    x = rng.standard_normal(n)
    return columns(x, 0.17 * x + rng.standard_normal(n))


def quadratic(rng, n):
    x = rng.standard_normal(n)
    return columns(x, 0.25 * x**2 + rng.standard_normal(n))


def sine(rng, n):
    x = rng.uniform(0, 1, n)
    return columns(x, np.sin(2 * np.pi * 5 * x) + 0.3 * rng.standard_normal(n))


def circle(rng, n):
    both = on_circle(rng, n) + 0.35 * rng.standard_normal((n, 2))
    return columns(both[:, 0], both[:, 1])


def diamond(rng, n):
    """A square turned by 45 degrees."""
    u, v = rng.uniform(-1, 1, (2, n))
    return columns(u + v, u - v)


def w_shape(rng, n):
    x = rng.uniform(-1, 1, n)
    return columns(x, 4 * (x**2 - 0.5) ** 2 + 0.8 * rng.standard_normal(n))


def checkerboard(rng, n):
    """The 13 dark cells of a 5x5 board, blurred: x and y are uncorrelated."""
    i, j = divmod(2 * rng.integers(13, size=n), 5)
    noise = 0.1 * rng.standard_normal((2, n))
    return columns(i + rng.random(n) + noise[0], j + rng.random(n) + noise[1])


def variance(rng, n):
    x = rng.standard_normal(n)
    return columns(x, np.exp(0.25 * x) * rng.standard_normal(n))


def sparse(rng, n):
    x, y = rng.standard_normal((2, n, 10))
    y[:, 0] = 0.5 * x[:, 0] + 0.75**0.5 * y[:, 0]
    return columns(x, y)


def heavy_tails(rng, n):
    x, y = rng.standard_cauchy((2, n))
    return columns(x, y + 0.2 * x)


def common_scale(rng, n):
    """The bivariate t with 2 degrees of freedom: uncorrelated, and large together."""
    both = rng.standard_normal((n, 2)) / np.sqrt(rng.chisquare(2, (n, 1)) / 2)
    return columns(both[:, 0], both[:, 1])


def levels(rng, n):
    """x has five codes whose order means nothing."""
    x = rng.integers(5, size=n)
    return columns(x, np.array([0.0, 0.6, -0.3, 0.5, -0.4])[x] + rng.standard_normal(n))


def product(rng, n):
    x = rng.standard_normal((n, 2))
    return columns(x, 0.5 * x[:, 0] * x[:, 1] + rng.standard_normal(n))


DEPENDENCE = named(
    paired("weak linear", linear),
    paired("quadratic", quadratic),
    paired("sine of frequency 5", sine),
    paired("circle", circle),
    paired("diamond", diamond, n=100),
    paired("W", w_shape),
    paired("checkerboard", checkerboard, n=300),
    paired("variance of y", variance),
    paired("1 pair of columns in 10 by 10", sparse),
    paired("linear with Cauchy tails", heavy_tails, n=100),
    paired("common scale, t2", common_scale, n=100),
    paired("5 unordered levels", levels, n=150),
    paired("product of 2 columns", product),
)


def mixed(rng: Rng, n: int):
    """Two numbers, one of them with ties, and a category."""
    import pandas as pd

    frame = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.poisson(1.0, n).astype(float)})
    return frame.assign(c=rng.choice(["p", "q", "r"], n))


NULLS = named(
    null("normal D=2", normal(2)),
    null("Student t1.5 D=3", student(1.5, 3)),
    null("Poisson(1) D=2, ties", lambda rng, n: rng.poisson(1.0, (n, 2)).astype(float)),
    null("mixed columns", mixed),
    null("normal D=30", normal(30)),
    Null("normal D=2, 20 + 100", lambda rng, n: (normal(2)(rng, n), normal(2)(rng, 5 * n))),
)

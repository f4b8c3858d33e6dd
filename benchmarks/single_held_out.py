"""One column, judged: alternatives of families that the column's test was not chosen on (`single` has those).

Written before any of them was run. Beside the column's own fused test: the one for whole tables that columns
had before, and what people use: Kolmogorov-Smirnov, Anderson-Darling, Mann-Whitney and Welch's t. Rejections
at .05 of two samples of 200 rows, over KEMBED_REPETITIONS draws (100).
"""

import os
import warnings

import numpy as np
from scipy import stats

from benchmarks.power import read_pool
from benchmarks.single import LEVEL, ROWS, WAYS, draw_labels, pvalue

SEED, TIMES = 2026, int(os.environ.get("KEMBED_REPETITIONS", "100"))
LIKERT = np.arange(1.0, 6.0)


def _heaped(rng):
    years = np.floor(rng.gamma(9.0, 5.0, ROWS))
    return np.where(rng.uniform(size=ROWS) < 0.15, 5.0 * np.round(years / 5.0), years)


def _capped(rng):
    return np.minimum(rng.normal(size=ROWS), stats.norm.ppf(0.93))


def _short(rng):
    x = rng.normal(size=4 * ROWS)
    return x[np.abs(x) < 1.9][:ROWS]


def _wavy(rng):
    x = rng.uniform(size=8 * ROWS)
    return x[rng.uniform(size=len(x)) < (1.0 + 0.6 * np.sin(6.0 * np.pi * x)) / 1.6][:ROWS]


def _even_digits(rng):
    tens, half = rng.integers(10, size=ROWS), rng.integers(5, size=ROWS)
    return 10.0 * tens + 2.0 * half + (rng.uniform(size=ROWS) > 0.66)


def _levels(*shares):
    return lambda rng: rng.choice(LIKERT, ROWS, p=shares)


def _lognormal(rng):
    """As Gamma(2): mean 2 and variance 2."""
    spread = np.log(1.5)
    return np.exp(rng.normal(np.log(2.0) - 0.5 * spread, spread**0.5, ROWS))


SETS = {
    "no difference, gamma": (lambda r: r.gamma(2.0, size=ROWS), lambda r: r.gamma(2.0, size=ROWS)),
    "no difference, five levels": (_levels(0.1, 0.2, 0.4, 0.2, 0.1), _levels(0.1, 0.2, 0.4, 0.2, 0.1)),
    "gamma, log-normal of its mean and variance": (lambda r: r.gamma(2.0, size=ROWS), _lognormal),
    "Weibull, shape 1.5 and 1.9": (lambda r: r.weibull(1.5, ROWS), lambda r: r.weibull(1.9, ROWS)),
    "uniform, Beta(1.4, 1.4)": (lambda r: r.uniform(size=ROWS), lambda r: r.beta(1.4, 1.4, ROWS)),
    "uniform, Beta(.75, .75)": (lambda r: r.uniform(size=ROWS), lambda r: r.beta(0.75, 0.75, ROWS)),
    "normal, skew normal of its mean and spread": (
        lambda r: r.normal(size=ROWS),
        lambda r: (stats.skewnorm.rvs(6.0, size=ROWS, random_state=r) - 0.787) / 0.617,
    ),
    "normal, Laplace of its spread": (
        lambda r: r.normal(size=ROWS),
        lambda r: r.laplace(0.0, 0.5**0.5, ROWS),
    ),
    "exponential, 1.25 times as long": (
        lambda r: r.exponential(size=ROWS),
        lambda r: 1.25 * r.exponential(size=ROWS),
    ),
    "Cauchy, moved by .5": (lambda r: r.standard_cauchy(ROWS), lambda r: 0.5 + r.standard_cauchy(ROWS)),
    "Pareto, index 3 and 2, one median": (
        lambda r: 2.0 ** (-1.0 / 3.0) * (1.0 + r.pareto(3.0, ROWS)),
        lambda r: 2.0 ** (-1.0 / 2.0) * (1.0 + r.pareto(2.0, ROWS)),
    ),
    "counts, Poisson and negative binomial, mean 3": (
        lambda r: r.poisson(3.0, ROWS),
        lambda r: r.negative_binomial(4, 4.0 / 7.0, ROWS),
    ),
    "geometric, .30 and .37": (lambda r: r.geometric(0.30, ROWS), lambda r: r.geometric(0.37, ROWS)),
    "15% of ages at a multiple of 5": (lambda r: np.floor(r.gamma(9.0, 5.0, ROWS)), _heaped),
    "capped at 93%": (lambda r: r.normal(size=ROWS), _capped),
    "no tails beyond 1.9 sd": (lambda r: r.normal(size=ROWS), _short),
    "angles, von Mises .4": (
        lambda r: r.uniform(-np.pi, np.pi, ROWS),
        lambda r: r.vonmises(0.0, 0.4, ROWS),
    ),
    "three waves": (lambda r: r.uniform(size=ROWS), _wavy),
    "even last digits, 66%": (lambda r: r.integers(100, size=ROWS), _even_digits),
    "five levels": (_levels(0.1, 0.2, 0.4, 0.2, 0.1), _levels(0.1, 0.15, 0.32, 0.25, 0.18)),
}
NAMES = ("one column", "whole tables", "KS", "Anderson-Darling", "Mann-Whitney", "Welch's t")


def _pvalues(x, y, trial):
    pool = read_pool(x, y)
    draws = draw_labels(pool, trial)
    for choose in reversed(WAYS):
        yield pvalue(choose, pool, draws)
    yield stats.ks_2samp(x, y).pvalue
    yield stats.anderson_ksamp([x, y], variant="midrank").pvalue
    yield stats.mannwhitneyu(x, y).pvalue
    yield stats.ttest_ind(x, y, equal_var=False).pvalue


def main() -> None:
    warnings.simplefilter("ignore")  # Anderson-Darling's p-values end at .001 and .25
    print(f"Rejections at {LEVEL:g} in {TIMES} draws of {ROWS} + {ROWS} rows, seed {SEED}.\n")
    print(f"| set | {' | '.join(NAMES)} |")
    print("|---|" + "---|" * len(NAMES))
    shares = []
    for place, (name, (first, second)) in enumerate(SETS.items()):
        rejected = np.zeros(len(NAMES))
        for trial in range(TIMES):
            rng = np.random.default_rng([SEED, place, trial])
            x, y = first(rng).astype(float), second(rng).astype(float)
            rejected += np.array(list(_pvalues(x, y, trial))) <= LEVEL
        print(f"| {name} | {' | '.join(f'{share:.2f}' for share in rejected / TIMES)} |", flush=True)
        if not name.startswith("no difference"):
            shares.append(rejected / TIMES)
    mean = np.mean(shares, axis=0)
    error = np.sqrt(np.sum(np.multiply(shares, np.subtract(1.0, shares)), axis=0) / TIMES) / len(shares)
    cells = [f"{one:.3f} ({se:.3f})" for one, se in zip(mean, error, strict=True)]
    print(f"| **mean of the {len(shares)} differences** (s.e.) | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

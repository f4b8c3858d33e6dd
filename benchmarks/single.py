"""One column: its own fused test beside the one for whole tables, and beside what people use.

`python -m benchmarks single` runs the sets that the members were chosen on; `python -m benchmarks.single
held-out` those of other families, written before any of them was run. Kolmogorov-Smirnov, Anderson-Darling,
Mann-Whitney and Welch's t are SciPy's. Rejections at .05 of two samples of 200 rows over KEMBED_REPETITIONS
draws (100), and milliseconds of processor time.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats

from benchmarks.power import read_pool
from kembed.features import fused_ensemble
from kembed.features.ensemble import Ensemble
from kembed.features.members import entries
from kembed.features.rows import Sample
from kembed.features.single import column_ensemble
from kembed.permutation.designs import Draws, TwoSamples
from kembed.permutation.fusion import fuse
from kembed.permutation.nulls import resampled_pvalue
from kembed.permutation.pool import Pool
from kembed.permutation.sums import pooled
from kembed.testing.engine import evaluate

ROWS, RESAMPLES, LEVEL = 200, 199, 0.05
TIMES = int(os.environ.get("KEMBED_REPETITIONS", "100"))
LIKERT = np.arange(1.0, 6.0)


def _mixed(rng, share, other):
    return np.where(rng.uniform(size=ROWS) < share, other, rng.normal(size=ROWS))


def _hole(rng):
    x = rng.uniform(size=3 * ROWS)
    return x[(x < 0.45) | (x > 0.55)][:ROWS]


def _comb(rng):
    x = rng.uniform(size=ROWS)
    return x + 0.04 * np.sin(16.0 * np.pi * x)


def _normal(rng):
    return rng.normal(size=ROWS)


CHOSEN_ON = {
    "no difference": (_normal, _normal),
    "no difference, counts": (lambda r: r.poisson(1.0, ROWS), lambda r: r.poisson(1.0, ROWS)),
    "shift of .25 sd": (_normal, lambda r: r.normal(0.25, size=ROWS)),
    "spread 1.35": (_normal, lambda r: r.normal(0.0, 1.35, ROWS)),
    "two modes": (_normal, lambda r: 0.8 * r.choice([-1.0, 1.0], ROWS) + 0.6 * r.normal(size=ROWS)),
    "Student's t, 3": (_normal, lambda r: r.standard_t(3, ROWS) / 1.35),
    "hole": (lambda r: r.uniform(size=ROWS), _hole),
    "comb": (lambda r: r.uniform(size=ROWS), _comb),
    "clump of 8%": (_normal, lambda r: _mixed(r, 0.08, 0.7 + 0.02 * r.normal(size=ROWS))),
    "rounded": (lambda r: r.normal(50, 10, ROWS).round(1), lambda r: r.normal(50, 10, ROWS).round(0)),
    "3% zeros": (
        lambda r: r.exponential(size=ROWS),
        lambda r: np.where(r.uniform(size=ROWS) < 0.03, 0.0, r.exponential(size=ROWS)),
    ),
    "4% far out": (_normal, lambda r: _mixed(r, 0.04, 8.0 + r.normal(size=ROWS))),
    "7% ten times as wide": (_normal, lambda r: _mixed(r, 0.07, 10.0 * r.normal(size=ROWS))),
    "counts, 2 and 2.35": (lambda r: r.poisson(2.0, ROWS), lambda r: r.poisson(2.35, ROWS)),
}


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


HELD_OUT = {
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


def of_column(sample: Sample) -> Ensemble:
    """The members of the test of one column."""
    return column_ensemble(sample, 0)


WAYS = (fused_ensemble, of_column)


def draw_labels(pool: Pool, seed: int) -> Draws:
    """The labels of the data and of every resample, as contrasts of rows."""
    alike = np.zeros(pool.size, dtype=int)
    rng = np.random.default_rng(seed)
    return TwoSamples(pool.labels, alike, alike).draw(np.ones(pool.size), RESAMPLES, rng)


def pvalue(choose: Callable[[Sample], Ensemble], pool: Pool, draws: Draws) -> float:
    """The p-value of an ensemble."""
    sample = Sample(pool.space, ("v",))
    ensemble, sums = choose(sample), pooled(sample, np.arange(pool.size), pool.size)
    whole = fuse(evaluate(ensemble, entries(ensemble.members, sample), sums, draws), ensemble.plan).whole
    return resampled_pvalue(float(whole[0]), whole[1:])


TESTS: dict[str, Callable[..., float]] = {
    "KS": lambda x, y: stats.ks_2samp(x, y).pvalue,
    "Anderson-Darling": lambda x, y: stats.anderson_ksamp([x, y], variant="midrank").pvalue,
    "Mann-Whitney": lambda x, y: stats.mannwhitneyu(x, y).pvalue,
    "Welch's t": lambda x, y: stats.ttest_ind(x, y, equal_var=False).pvalue,
}


def main(held_out: bool = False) -> None:
    warnings.simplefilter("ignore")  # Anderson-Darling's p-values end at .001 and .25
    names = ("whole tables", "one column", *TESTS)
    print(f"Rejections at {LEVEL:g} in {TIMES} draws of {ROWS} + {ROWS} rows.\n")
    print(f"| set | {' | '.join(names)} | ms, whole tables | ms, one column |")
    print("|---|" + "---|" * (len(names) + 2))
    shares = []
    for place, (name, (first, second)) in enumerate((HELD_OUT if held_out else CHOSEN_ON).items()):
        rejected, spent = np.zeros(len(names)), np.zeros(2)
        for trial in range(TIMES):
            rng = np.random.default_rng([2026, place, trial] if held_out else [7, trial])
            x, y = first(rng).astype(float), second(rng).astype(float)
            pool = read_pool(x, y)
            draws, pvalues = draw_labels(pool, trial), []
            for k, choose in enumerate(WAYS):
                start = time.process_time()
                pvalues.append(pvalue(choose, pool, draws))
                spent[k] += time.process_time() - start
            rejected += np.array(pvalues + [test(x, y) for test in TESTS.values()]) <= LEVEL
        cells = [f"{share:.2f}" for share in rejected / TIMES] + [f"{1e3 * s / TIMES:.1f}" for s in spent]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        if not name.startswith("no difference"):
            shares.append(rejected / TIMES)
    mean = np.mean(shares, axis=0)
    error = np.sqrt(np.sum(np.multiply(shares, np.subtract(1.0, shares)), axis=0) / TIMES) / len(shares)
    cells = [f"{one:.3f} ({se:.3f})" for one, se in zip(mean, error, strict=True)]
    print(f"| **mean of the {len(shares)} differences** (s.e.) | {' | '.join(cells)} | | |")


if __name__ == "__main__":
    main(sys.argv[1:] == ["held-out"])

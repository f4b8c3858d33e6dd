"""One column: its own fused test beside the one for whole tables, on the same relabelings: power and time."""

import os
import time
from collections.abc import Callable

import numpy as np

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

SEED, ROWS, RESAMPLES, LEVEL = 7, 200, 199, 0.05
TIMES = int(os.environ.get("KEMBED_REPETITIONS", "100"))


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


SETS = {
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


def main() -> None:
    print("| set | whole tables | one column | ms, whole tables | ms, one column |")
    print("|---|---|---|---|---|")
    for name, (first, second) in SETS.items():
        rejected, spent = np.zeros(2), np.zeros(2)
        for trial in range(TIMES):
            rng = np.random.default_rng([SEED, trial])
            pool = read_pool(first(rng).astype(float), second(rng).astype(float))
            draws = draw_labels(pool, trial)
            for k, choose in enumerate(WAYS):
                start = time.process_time()
                rejected[k] += pvalue(choose, pool, draws) <= LEVEL
                spent[k] += time.process_time() - start
        shares, times = rejected / TIMES, 1e3 * spent / TIMES
        print(f"| {name} | {shares[0]:.2f} | {shares[1]:.2f} | {times[0]:.0f} | {times[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()

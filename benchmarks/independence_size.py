"""Independence tests of many rows beside the test of all pairs of rows: power, level, time.

`python -m benchmarks.independence_size power [ROWS] [REPETITIONS]`: DEPENDENCE with ROWS rows and effects
scaled down: a row keeps its own y with probability √(n/ROWS), else it gets one of another draw, so that the
cross-covariance falls as the noise does. `level [ROWS] [DRAWS]`: independent sides, bins (107 rows: 32 bins
of three and eleven rows left over) and, from 2,000 rows on, the normal limit.
`conditional [ROWS] [DRAWS]`: the level given two common causes that act on location and spread, with bins
forced on few rows; from 20,001 rows on what is used there by itself. `time`: processor seconds. Level .05.
"""

import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks._workers import SEED, seeded, spread
from benchmarks.alternatives import DEPENDENCE
from benchmarks.at_size import B, numbers, pooled, print_levels, print_powers, timed
from kembed import ConditionalTester, hsic_test

WAYS = ({"statistic": "unbiased"}, {"statistic": "features"}, {"null": "normal"})
TITLES = ("pairs of rows", "features", "normal limit")
LIMIT_ROWS = 2_000  # a limit is for many


def diluted(name: str, rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """A set with so many rows, most of them with the y of another draw."""
    (x, y), kept = pooled(DEPENDENCE[name], rows, rng)
    other = y[rows : 2 * rows].copy()
    other[kept] = y[:rows][kept]
    return x[:rows], other


def compared(job: tuple[str, int, int]) -> tuple[float, ...]:
    """p-values and processor seconds of every way."""
    name, rows, r = job
    rng = seeded(name, r)
    return timed(hsic_test, WAYS, *diluted(name, rows, rng), rng)


def null_pvalues(job: tuple[int, int]) -> list[float]:
    rows, r = job
    rng = seeded("independent", r)
    x = rng.standard_t(2.0, size=(rows, 2))
    y = np.column_stack([rng.exponential(size=rows), rng.poisson(1.0, rows)])
    ways = WAYS[1:] if rows >= LIMIT_ROWS else WAYS[1:2]
    return [hsic_test(x, y, n_resamples=B, rng=rng, **way).pvalue for way in ways]


def conditional_pvalue(job: tuple[int, int]) -> list[float]:
    rows, r = job
    rng = seeded("given", r)
    z = rng.normal(size=(rows, 2))
    x = np.sin(z[:, 0]) + z[:, 1] + (0.5 + 0.3 * np.abs(z[:, 0])) * rng.normal(size=rows)
    y = z[:, 0] ** 2 + 0.5 * z[:, 1] + rng.exponential(size=rows)
    tester = ConditionalTester(np.column_stack([x, y, z]), n_resamples=B, rng=r)
    tester._settings = replace(tester._settings, binned_rows=0)
    tester._table.settings = tester._settings
    return [tester.test(0, 1, (2, 3)).pvalue]


def times() -> None:
    rng = np.random.default_rng(SEED)
    print("| rows | columns | way | seconds |\n|---|---|---|---|")
    for rows in (2_000, 4_000, 8_000, 100_000, 1_000_000):
        for width in (1, 5, 20):
            x, y = rng.normal(size=(rows, width)), rng.normal(size=(rows, width))
            for way in WAYS:
                if (way == WAYS[0] and rows > 8_000) or (rows > 100_000 and (way == WAYS[1] or width > 1)):
                    continue
                start = time.process_time()
                hsic_test(x, y, rng=0, **way)
                took = time.process_time() - start
                print(f"| {rows} | {width} + {width} | {way} | {took:.1f} |", flush=True)


def main() -> None:
    what, *given = sys.argv[1:] or ["power"]
    if what == "power":
        print_powers(compared, DEPENDENCE, *numbers(given, (2_000, 50)), TITLES)
    elif what == "level":
        rows, draws = numbers(given, (107, 1_000))
        titles = TITLES[1:] if rows >= LIMIT_ROWS else TITLES[1:2]
        print_levels(f"{rows} rows", titles, spread(null_pvalues, [(rows, r) for r in range(draws)]))
    elif what == "conditional":
        rows, draws = numbers(given, (1_100, 1_000))
        jobs = [(rows, r) for r in range(draws)]
        print_levels(f"{rows} rows", ("bins",), spread(conditional_pvalue, jobs))
    else:
        times()


if __name__ == "__main__":
    main()

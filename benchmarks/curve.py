"""Power against processor seconds: bins of all rows, all pairs of a subsample, and goodpoints' compression.

`python -m benchmarks.curve [ROWS] [REPETITIONS]`: four sets with ROWS rows a sample (a power of 4), effects
scaled down as in `benchmarks.binned`, the same draws for every test. goodpoints (0.6.3; without it its rows
are left out) compresses 32 bins of rows to 2^g √ of their size (Domingo-Enrich and others 2023), with
the Gaussian of the median distance, or five around it ("aggregated"); our list has the same five. B = 199
(aggregated: its own numbers), level .05, one thread. To find the median distance is in our seconds, and not
in those of goodpoints.
"""

import sys
import time
import warnings
from contextlib import redirect_stdout
from io import StringIO

import numpy as np

from benchmarks._workers import LEVEL, SEED, seeded
from benchmarks.at_size import B, numbers
from benchmarks.binned import diluted
from kembed import Gaussian, median_lengthscale, mmd_test

SETS = (
    "mean shift of 1 column in 10",
    "correlation .7 D=5",
    "sd x1.15 D=5",
    "4 blobs, one wider, n=500",
)
KERNELS = ("median", "fused")
SUBSAMPLES = (1_024,)  # rows a sample: of 4,096 rows all pairs of so many take about as long as bins of all
COMPRESSED = (0, 2, 4)  # g
BANDWIDTHS = 2.0 ** np.arange(-2, 3)  # times that of the median, aggregated


def goodpoints_tests(x: np.ndarray, y: np.ndarray, seed: int) -> dict:
    """Whether each of goodpoints' tests rejects, as functions of nothing."""
    try:
        from goodpoints.ctt import actt, ctt
    except ImportError:
        return {}
    from scipy.spatial.distance import pdist

    pool = np.concatenate([x, y])
    spread = pool.std(axis=0)
    x, y = np.ascontiguousarray(x / spread), np.ascontiguousarray(y / spread)
    width = float(np.sqrt(2.0) * np.median(pdist(np.concatenate([x[:500], y[:500]]))))
    seeds = {"null_seed": seed, "statistic_seed": seed}
    tests = {
        f"goodpoints, g = {g}": lambda g=g: ctt(x, y, g, B=B, lam=width, **seeds).rejects for g in COMPRESSED
    }
    lam, even = width * BANDWIDTHS, np.full(len(BANDWIDTHS), 1.0 / len(BANDWIDTHS))
    return tests | {
        f"goodpoints, g = {g}, aggregated": lambda g=g: actt(x, y, g, lam=lam, weights=even, **seeds).rejects
        for g in COMPRESSED[1:2]
    }


def our_tests(x: np.ndarray, y: np.ndarray, seed: int) -> dict:
    """The same of ours."""

    def rejects(rows: int, kernel: str, statistic: str) -> bool:
        some = x[:rows], y[:rows]  # rows stand in no order
        found = mmd_test(*some, kernel=kernel, statistic=statistic, n_resamples=B, rng=seed)
        return found.pvalue <= LEVEL + 1e-12

    def of_list() -> bool:
        pool = np.concatenate([x, y])
        spread = pool.std(axis=0)
        width = median_lengthscale(pool / spread, max_rows=1_000)  # as many as goodpoints is given
        kernels = [Gaussian(ratio * width * spread) for ratio in BANDWIDTHS]
        found = mmd_test(x, y, kernel=kernels, statistic="features", n_resamples=B, rng=seed)
        return found.pvalue <= LEVEL + 1e-12

    tests = {"five Gaussians in a list, bins of all rows": of_list}
    for kernel in KERNELS:
        tests[f"{kernel}, bins of all rows"] = lambda k=kernel: rejects(len(x), k, "features")
        for rows in SUBSAMPLES:
            if rows < len(x):
                name = f"{kernel}, all pairs of {rows:,} + {rows:,} rows"
                tests[name] = lambda k=kernel, r=rows: rejects(r, k, "unbiased")
    return tests


def main() -> None:
    warnings.simplefilter("ignore")
    rows, repetitions = numbers(sys.argv[1:], (4_096, 50))
    print(f"{rows:,} + {rows:,} rows, {repetitions} repetitions, B = {B}, level {LEVEL}, seed {SEED}")
    rejected: dict[str, np.ndarray] = {}
    seconds: dict[str, list[float]] = {}
    for s, name in enumerate(SETS):
        for r in range(repetitions):
            x, y = diluted(name, rows, seeded(name, r))
            for title, test in (our_tests(x, y, r) | goodpoints_tests(x, y, r)).items():
                start = time.process_time()
                with redirect_stdout(StringIO()):  # goodpoints thinks aloud
                    found = float(test())
                seconds.setdefault(title, []).append(time.process_time() - start)
                rejected.setdefault(title, np.zeros((len(SETS), repetitions)))[s, r] = found
    print(f"| test | processor seconds | mean power (s.e.) | {' | '.join(SETS)} |")
    print("|---" * (3 + len(SETS)) + "|")
    for title in sorted(rejected, key=lambda each: np.median(seconds[each])):
        table = rejected[title]
        error = np.sqrt(table.var(axis=1).sum() / repetitions) / len(SETS)
        powers = " | ".join(f"{power:.2f}" for power in table.mean(axis=1))
        took = np.median(seconds[title])
        print(f"| {title} | {took:.3f} | {table.mean():.3f} ({error:.3f}) | {powers} |", flush=True)


if __name__ == "__main__":
    main()

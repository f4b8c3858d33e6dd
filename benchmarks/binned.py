"""The test of any number of rows beside the exact statistic: power, level, and time.

`python -m benchmarks.binned power [ROWS] [REPETITIONS]`: SUITE and HELD_OUT with ROWS rows a sample and effects
scaled down: a row of the second sample is drawn from the alternative with probability √(n/ROWS), else from the
first distribution, so that the distance of the mean embeddings falls as the noise does.
`python -m benchmarks.binned level [DRAWS]`: odd sizes, 107 + 61 rows and 20 bins. Level .05, B = 199.
"""

import sys
import time
import warnings

import numpy as np

from benchmarks._workers import LEVEL, SEED, seeded, spread
from benchmarks.alternatives import HELD_OUT, SUITE
from kembed import mmd_test

B = 199


def diluted(name: str, rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of a set with so many rows, the second mostly drawn from the first's distribution."""
    each = {**SUITE, **HELD_OUT}[name]
    share = np.sqrt(each.n / rows)
    needed = -(-2 * rows // each.n)
    drawn = [each.draw(rng) for _ in range(needed)]
    p, q = (np.concatenate(side) for side in zip(*drawn, strict=True))
    x, y = p[:rows], p[rows : 2 * rows].copy()
    changed = rng.random(rows) < share
    y[changed] = q[:rows][changed]
    return x, y


def compared(job: tuple[str, int, int]) -> tuple[float, ...]:
    """p-values and processor seconds of the exact statistic and of features in bins."""
    name, rows, r = job
    warnings.simplefilter("ignore")
    rng = seeded(name, r)
    x, y = diluted(name, rows, rng)
    found = []
    for statistic in ("unbiased", "features"):
        start = time.process_time()
        p = mmd_test(x, y, statistic=statistic, n_resamples=B, rng=rng).pvalue
        found += [p, time.process_time() - start]
    return tuple(found)


def power(rows: int, repetitions: int) -> None:
    print(f"{rows} rows a sample, {repetitions} repetitions, B = {B}, level {LEVEL}, seed {SEED}")
    print("| set | exact | features | seconds exact | features |\n|---|---|---|---|---|")
    every = []
    for name in (*SUITE, *HELD_OUT):
        found = np.array(spread(compared, [(name, rows, r) for r in range(repetitions)]))
        exact, features = (found[:, [0, 2]] <= LEVEL + 1e-12).mean(axis=0)
        every.append(found)
        times = np.median(found[:, [1, 3]], axis=0)
        print(f"| {name} | {exact:.2f} | {features:.2f} | {times[0]:.2f} | {times[1]:.2f} |", flush=True)
    rejected = np.stack(every)[:, :, [0, 2]] <= LEVEL + 1e-12
    difference = rejected[..., 1].astype(float) - rejected[..., 0]
    error = np.sqrt(difference.var(axis=1).sum() / repetitions) / len(every)
    means = rejected.mean(axis=(0, 1))
    print(f"| **mean** | {means[0]:.3f} | {means[1]:.3f} | difference {means[1] - means[0]:.3f} | s.e. {error:.3f} |")


def main() -> None:
    if sys.argv[1:2] == ["power"]:
        rows, repetitions = (int(sys.argv[k]) if len(sys.argv) > k else d for k, d in ((2, 4_096), (3, 20)))
        power(rows, repetitions)


if __name__ == "__main__":
    main()

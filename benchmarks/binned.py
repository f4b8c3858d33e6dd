"""The test of any number of rows beside the exact statistic: power, level, and time.

`python -m benchmarks.binned power [ROWS] [REPETITIONS]`: SUITE and HELD_OUT with ROWS rows a sample and
effects scaled down: a row of the second sample is drawn from the alternative with probability √(n/ROWS),
else from the first distribution, so that the distance of the mean embeddings falls as the noise does.
`python -m benchmarks.binned level [DRAWS]`: odd sizes, 107 + 61 rows and 20 bins. Level .05, B = 199.
"""

import sys
import time
import warnings

import numpy as np

from benchmarks._workers import LEVEL, SEED, seeded, spread
from benchmarks.alternatives import HELD_OUT, SUITE
from kembed import mmd_test
from kembed.data.tables import read_tables
from kembed.engines.memory import in_memory
from kembed.testing.binned import binned_test
from kembed.testing.procedure import read_procedure

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
    print(f"| **mean** | {means[0]:.3f} | {means[1]:.3f} | | |")
    print(f"difference {means[1] - means[0]:.3f}, standard error {error:.3f}")


def null_draw(seed: int) -> tuple[float, float]:
    """p-values of 107 + 61 rows of three columns in 20 bins: the fused test, and one kernel."""
    rng = np.random.default_rng([SEED, seed])
    tables, _ = read_tables({"x": rng.normal(size=(107, 3)), "y": rng.normal(size=(61, 3))}, "raise", 2, True)
    sources = in_memory(tables[0]), in_memory(tables[1])
    found = []
    for kernel in ("fused", "median"):
        procedure = read_procedure("features", "permutation", B, None, None, rng)
        found.append(binned_test(sources, kernel, procedure, bins=20).pvalue)
    return found[0], found[1]


def level(draws: int) -> None:
    found = np.array(spread(null_draw, range(draws)))
    print(f"107 + 61 rows, 20 bins, {draws} draws, B = {B}, seed {SEED}")
    print("| level | fused | median | standard error |\n|---|---|---|---|")
    for alpha in (0.01, 0.05, 0.10):
        share = (found <= alpha + 1e-12).mean(axis=0)
        print(f"| {alpha} | {share[0]:.4f} | {share[1]:.4f} | {np.sqrt(alpha * (1 - alpha) / draws):.4f} |")


def main() -> None:
    what, *numbers = sys.argv[1:] or ["power"]
    if what == "power":
        rows, repetitions = ([int(each) for each in numbers] + [4_096, 20][len(numbers) :])[:2]
        power(rows, repetitions)
    else:
        level(int(numbers[0]) if numbers else 10_000)


if __name__ == "__main__":
    main()

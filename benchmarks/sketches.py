"""A reference kept as a sketch: level, power beside the test on all rows, time and size of the file.

`python -m benchmarks.sketches level [DRAWS]`: 107 + 61 rows, of which 26 are held out; reference and new
rows are drawn again every time.
`python -m benchmarks.sketches power [DRAWS] [ROWS] [M,...] [rows]`: ten columns, one of them skewed, one
rounded and one of four words, ROWS rows of the reference; a new sample of M rows has no difference, a shift
of one column, another correlation of two, or another spread of all, each scaled down by √(500/M). 25 draws
share a reference. With `rows` the test on all rows is done as well. B = 199, level .05. KEMBED_KERNELS=median
takes that kernel, which is quicker.
"""

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks._workers import LEVEL, SEED
from kembed import Sketch, mmd_test

B = 199
KERNELS = os.environ.get("KEMBED_KERNELS", "median,fused").split(",")
DIFFERENCES = ("none", "shift", "correlation", "spread")
WORDS = ("north", "east", "south", "west")
SHARED = 25  # draws of new rows for one reference


def table(rng: np.random.Generator, rows: int, difference: str = "none") -> pl.DataFrame:
    """Ten columns, with a difference of a size that 500 rows show about half the time."""
    size = np.sqrt(500.0 / rows)
    x = rng.normal(size=(rows, 9))
    if difference == "shift":
        x[:, 0] += 0.15 * size
    elif difference == "correlation":
        x[:, 1] = 0.17 * size * x[:, 0] + np.sqrt(1.0 - (0.17 * size) ** 2) * x[:, 1]
    elif difference == "spread":
        x *= 1.0 + 0.04 * size
    x[:, 3], x[:, 4] = np.exp(x[:, 3]), x[:, 4].round(1)
    columns = {f"v{k}": column for k, column in enumerate(x.T)}
    return pl.DataFrame({**columns, "side": rng.choice(WORDS, rows, p=[0.4, 0.3, 0.2, 0.1])})


def level(draws: int) -> None:
    levels = np.array([0.01, 0.05, 0.10])
    errors = np.sqrt(levels * (1.0 - levels) / draws).round(4)
    print(f"107 + 61 rows, {draws} draws, B = 99, seed {SEED}; s.e. {errors}")
    print("| kernel | .01 | .05 | .10 |\n|---|---|---|---|")
    for kernel in KERNELS:
        found = []
        for r in range(draws):
            rng = np.random.default_rng([SEED, r])
            x, y = (table(rng, rows).select("v0", "v4", "side") for rows in (107, 61))
            found.append(mmd_test(Sketch.of(x, kernel=kernel, rng=r), y, n_resamples=99, rng=r).pvalue)
        rates = (np.array(found)[:, None] <= levels + 1e-9).mean(axis=0)
        print(f"| {kernel} | {' | '.join(f'{rate:.3f}' for rate in rates)} |", flush=True)


def power(draws: int, rows: int, sizes: list[int], all_rows: bool) -> None:
    print(f"{KERNELS[-1]}, reference of {rows:,} rows, {draws} draws, B = {B}, level {LEVEL}, seed {SEED}")
    found: dict[tuple[int, str, str], list[float]] = {}
    seconds: dict[tuple[int, str], list[float]] = {}

    def tried(m: int, difference: str, how: str, x: object, y: pl.DataFrame, r: int) -> None:
        start = time.process_time()
        outcome = mmd_test(x, y, kernel=KERNELS[-1], n_resamples=B, statistic="features", rng=r)
        seconds.setdefault((m, how), []).append(time.process_time() - start)
        found.setdefault((m, difference, how), []).append(float(outcome.pvalue <= LEVEL + 1e-9))

    for r in range(draws):
        rng = np.random.default_rng([SEED, r])
        if r % SHARED == 0:
            x = table(rng, rows)
            start = time.process_time()
            sketch = Sketch.of(x, kernel=KERNELS[-1], rng=r)
            made = time.process_time() - start
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                size = sketch.save(Path(folder) / "a.kembed").stat().st_size
                print(
                    f"sketch: {made:.1f} s, saved in {time.process_time() - start:.1f} s, {size / 1e6:.2f} MB"
                )
        for m in sizes:
            for difference in DIFFERENCES:
                y = table(rng, m, difference)
                tried(m, difference, "sketch", sketch, y, r)
                if all_rows:
                    tried(m, difference, "rows", x, y, r)
    print("| new rows | against | " + " | ".join(DIFFERENCES) + " | seconds |\n|---|---|---|---|---|---|---|")
    for (m, how), times in seconds.items():
        rates = " | ".join(f"{np.mean(found[m, difference, how]):.3f}" for difference in DIFFERENCES)
        print(f"| {m:,} | {how} | {rates} | {np.median(times):.2f} |", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    given = sys.argv[1:]
    if given[:1] == ["level"]:
        level(int(given[1]) if len(given) > 1 else 1_000)
        return
    draws, rows = (int(given[k]) if len(given) > k else d for k, d in ((1, 100), (2, 1_000_000)))
    sizes = [int(m) for m in given[3].split(",")] if len(given) > 3 else [500, 5_000]
    power(draws, rows, sizes, "rows" in given)


if __name__ == "__main__":
    main()

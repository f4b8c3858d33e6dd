"""The test of any number of rows beside the exact statistic: power, level, and time.

`python -m benchmarks.binned power [ROWS] [REPETITIONS] [EVERY]`: SUITE and HELD_OUT, or every so-many-th of
their sets, with ROWS rows a sample and effects scaled down: a row of the second sample is drawn from the
alternative with probability √(n/ROWS), else from the first distribution, so that the distance of the mean
embeddings falls as the noise does.
`python -m benchmarks.binned fitted [ROWS] [REPETITIONS] [EVERY]`: the same sets, features fitted on 4,096
rows with 256 landmarks and on 2,048 with 128.
`python -m benchmarks.binned level [DRAWS]`: odd sizes, 107 + 61 rows and 20 bins. Level .05, B = 199.
"""

import sys

import numpy as np

from benchmarks._workers import SEED, seeded, spread
from benchmarks.alternatives import HELD_OUT, SUITE
from benchmarks.at_size import B, numbers, pooled, print_levels, print_powers, timed
from kembed import mmd_test
from kembed.permutation.bins import make_bins
from kembed.permutation.sums import Layout
from kembed.tables.reader import read_tables
from kembed.tables.source import in_memory
from kembed.testing import engine
from kembed.testing.procedure import read_procedure

KERNELS = ("fused", "median")
FITS = ((4_096, 256), (2_048, 128))  # rows that features are fitted on at least, and landmarks
WAYS = ({"statistic": "unbiased"}, {"statistic": "features"})


def diluted(name: str, rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of a set with so many rows, the second mostly drawn from the first's distribution."""
    (p, q), changed = pooled({**SUITE, **HELD_OUT}[name], rows, rng)
    x, y = p[:rows], p[rows : 2 * rows].copy()
    y[changed] = q[:rows][changed]
    return x, y


def compared(job: tuple[str, int, int]) -> tuple[float, ...]:
    """p-values and processor seconds of the exact statistic and of features in bins."""
    name, rows, r = job
    rng = seeded(name, r)
    return timed(mmd_test, WAYS, *diluted(name, rows, rng), rng)


def fitted(job: tuple[str, int, int]) -> tuple[float, ...]:
    """p-values and processor seconds of features fitted on many rows, and on fewer."""
    name, rows, r = job
    x, y = diluted(name, rows, seeded(name, r))
    found: tuple[float, ...] = ()
    for engine.FEWEST, engine.FEWEST_LANDMARKS in FITS:
        found += timed(mmd_test, WAYS[1:], x, y, np.random.default_rng(r))
    return found


def null_draw(seed: int) -> list[float]:
    """p-values of 107 + 61 rows of three columns in 20 bins: the fused test, and one kernel."""
    rng = np.random.default_rng([SEED, seed])
    tables, _ = read_tables({"x": rng.normal(size=(107, 3)), "y": rng.normal(size=(61, 3))}, "raise", 2, True)
    sources = in_memory(tables[0]), in_memory(tables[1])
    found = []
    for kernel in KERNELS:
        procedure = read_procedure("features", "permutation", B, None, rng)
        bins = make_bins((107, 61), int(rng.integers(2**62)), bins=20)
        found.append(engine._test_bins(sources, bins, Layout((0, 1, 2)), kernel, procedure, False).pvalue)
    return found


def main() -> None:
    what, *given = sys.argv[1:] or ["power"]
    if what in ("power", "fitted"):
        sets = [*SUITE, *HELD_OUT][:: int(given[2]) if len(given) > 2 else 1]
        titles = ("exact", "features") if what == "power" else tuple(f"{rows:,} rows" for rows, _ in FITS)
        ways = compared if what == "power" else fitted
        print_powers(ways, sets, *numbers(given[:2], (4_096, 20)), titles)
    else:
        draws = numbers(given, (10_000, 0))[0]
        print_levels("107 + 61 rows, 20 bins", KERNELS, spread(null_draw, range(draws)))


if __name__ == "__main__":
    main()

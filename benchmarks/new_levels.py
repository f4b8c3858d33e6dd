"""Levels that one sample alone has: rejection rates at .05 against a sketch, in batches and in memory.

The null draws have 400 rare towns, most of which occur in one sample only. The other draws put a share of the
new rows in a town that the reference does not have, among 3 or 30 others, in five mixed columns.
"""

import os

import numpy as np
import polars as pl

from kembed import Sketch, mmd_test

SEED, REPETITIONS, RESAMPLES, LEVEL = 11, int(os.environ.get("KEMBED_REPETITIONS", "200")), 199, 0.05
REFERENCE, NEW = 5_000, 200
RARE = 400, 0.1  # towns, and their share of the rows together
HOW = {
    "sketch": lambda x, y, **options: mmd_test(Sketch.of(x), y, **options),
    "batches": lambda x, y, **options: mmd_test(x.lazy(), y.lazy(), **options),
    "memory": lambda x, y, **options: mmd_test(x, y, statistic="unbiased", **options),
}


def table(rng, rows, towns, new=0.0, rare=False):
    """Five mixed columns; a share of the rows is `new`."""
    names = np.array([f"town {k}" for k in range(towns + rare * RARE[0])])
    share = np.full(towns, 1.0 / towns)
    if rare:
        share = np.r_[share * (1.0 - RARE[1]), np.full(RARE[0], RARE[1] / RARE[0])]
    town = np.where(rng.uniform(size=rows) < new, "new", rng.choice(names, rows, p=share))
    return pl.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.exponential(size=rows),
            "town": town,
            "flag": rng.choice(["yes", "no"], rows, p=[0.8, 0.2]),
            "c": rng.normal(size=rows),
        }
    )


SETS = {
    "null, rare towns": {"towns": 3, "rare": True},
    "null, 30 towns": {"towns": 30},
    "2% new, 3 towns": {"towns": 3, "new": 0.02},
    "5% new, 3 towns": {"towns": 3, "new": 0.05},
    "10% new, 3 towns": {"towns": 3, "new": 0.1},
    "5% new, 30 towns": {"towns": 30, "new": 0.05},
    "5% new, rare towns": {"towns": 3, "new": 0.05, "rare": True},
}


def main() -> None:
    print(f"seed {SEED}, {REPETITIONS} draws of {REFERENCE} + {NEW} rows, B = {RESAMPLES}, level {LEVEL}")
    print("| set | rows | overall (s.e.) | town alone (s.e.) |")
    print("|---|---|---|---|")
    for name, options in SETS.items():
        for how, test in HOW.items():
            rejected = np.zeros(2)
            for trial in range(REPETITIONS):
                rng = np.random.default_rng([SEED, trial])
                n = REFERENCE if how != "memory" else REFERENCE // 10  # all pairs: a tenth of the rows
                x, y = table(rng, n, **options | {"new": 0.0}), table(rng, NEW, **options)
                found = test(x, y, by_column=True, n_resamples=RESAMPLES, rng=trial)
                rejected += np.array([found.pvalue, found.columns[2].pvalue]) <= LEVEL
            rate = rejected / REPETITIONS
            error = np.sqrt(rate * (1.0 - rate) / REPETITIONS)
            cells = " | ".join(f"{r:.3f} ({e:.3f})" for r, e in zip(rate, error, strict=True))
            print(f"| {name} | {how} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

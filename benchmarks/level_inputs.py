"""Level of the fused two-sample test for every input: rows omitted, weights and clusters.

`python -m benchmarks.level_inputs [DRAWS] [CONDITION ...]`: both samples are normal, three columns.
"omit": 30% of the rows of the second sample have a missing value. "weights": survey weights, uniform on
[0.5, 1.5], in both. "unit": rows of a cluster share half of their variance; clusters of four rows, named by a
column.
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks._workers import LEVEL, SEED
from kembed import DriftDetector, Sketch, mmd_test

B = 99


def table(rng: np.random.Generator, rows: int, condition: str, gaps: float = 0.0) -> pl.DataFrame:
    values = rng.normal(size=(rows, 3))
    if condition == "unit":
        clusters = np.arange(rows) // 4
        values = (values + rng.normal(size=(rows // 4 + 1, 3))[clusters]) / np.sqrt(2.0)
    frame = pl.DataFrame(values, schema=["a", "b", "c"])
    if condition == "unit":
        frame = frame.with_columns(cluster=pl.Series(clusters))
    missing = pl.Series(rng.random(rows) < gaps)
    return frame.with_columns(b=pl.when(~missing).then("b"))


def compared(x: Any, y: Any, r: int, condition: str, **options: Any) -> float:
    """The p-value of `mmd_test` under a condition."""
    how: dict[str, Any] = {"n_resamples": B, "rng": r, **options}
    if condition == "weights":
        rng = np.random.default_rng([SEED, r, 1])
        how["weights"] = tuple(rng.uniform(0.5, 1.5, len(each)) for each in (x, y))
    if condition == "unit":
        how["unit"] = "cluster"
    return float(mmd_test(x, y, nan_policy="omit", **how).pvalue)


def all_pairs(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    return compared(x, y, r, condition)


def features(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    return compared(x, y, r, condition, statistic="features")


def lazy(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    return compared(x.lazy(), y.lazy(), r, condition)


def file(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("x.parquet", "y.parquet")]
        x.write_parquet(paths[0])
        y.write_parquet(paths[1])
        return compared(*paths, r, condition)


def memmap(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, frame in (("x.npy", x), ("y.npy", y)):
            np.save(Path(folder) / name, frame.fill_null(float("nan")).to_numpy())
            found.append(np.load(Path(folder) / name, mmap_mode="r"))
        return compared(*found, r, condition)


def sketch(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    return compared(Sketch.of(x, rng=r, nan_policy="omit"), y, r, condition)


def detector(x: pl.DataFrame, y: pl.DataFrame, r: int, condition: str) -> float:
    return DriftDetector(n_resamples=B, nan_policy="omit", random_state=r).fit(x).pvalue(y)


# By name: the test, the rows of either sample, and what it takes beside complete rows.
INPUTS: dict[str, tuple[Callable[..., float], tuple[int, int], tuple[str, ...]]] = {
    "in memory, all pairs": (all_pairs, (120, 80), ("omit", "weights", "unit")),
    "in memory, features": (features, (5_000, 500), ("omit", "weights", "unit")),
    "lazy frame": (lazy, (5_000, 500), ("omit", "unit")),
    "file": (file, (5_000, 500), ("omit", "unit")),
    "memmap": (memmap, (5_000, 500), ("omit",)),
    "sketch": (sketch, (2_700, 400), ("omit",)),
    "drift detector": (detector, (20_000, 400), ("omit",)),
}


def main() -> None:
    warnings.simplefilter("ignore")
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / draws)
    print(f"{draws} draws, B = {B}, seed {SEED}; s.e. at level {LEVEL}: {error:.3f}")
    print("| input | rows | condition | rejected at .05 |\n|---|---|---|---|")
    for name, (test, sizes, conditions) in INPUTS.items():
        wanted = sys.argv[2:] or ["complete", *conditions]
        for condition in (each for each in ("complete", *conditions) if each in wanted):
            found = []
            for r in range(draws):
                rng = np.random.default_rng([SEED, r])
                x = table(rng, sizes[0], condition)
                y = table(rng, sizes[1], condition, 0.3 if condition == "omit" else 0.0)
                found.append(test(x, y, r, condition))
            rate = np.mean(np.array(found) <= LEVEL + 1e-9)
            rows = " + ".join(f"{size:,}" for size in sizes)
            print(f"| {name} | {rows} | {condition} | {rate:.3f} |", flush=True)


if __name__ == "__main__":
    main()

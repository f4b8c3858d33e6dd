"""The two-sample test of 10⁷ rows in Parquet files: time against a bare map, memory, one worker and two.

`python -m benchmarks.large [ROWS]`: five columns, two samples of ROWS/2, in eight files each. The bare map
reads the same files and takes `exp` of as many entries as a row has features. Wall seconds: run it on a quiet
machine.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import kembed
from kembed.engines.batches import Batches
from kembed.engines.scheduling import scheduler
from kembed.engines.settling import open_sources
from kembed.engines.source import Block

FILES, COLUMNS, FEATURES = 8, 5, 1_900  # exp of 256 landmarks at five scales, and some 600 others


def write(folder: Path, rows: int) -> tuple[str, str]:
    """Two patterns of files."""
    rng = np.random.default_rng(0)
    for sample in "ab":
        for k in range(FILES):
            table = {f"x{c}": rng.normal(size=rows // (2 * FILES)) for c in range(COLUMNS)}
            pl.DataFrame(table).write_parquet(folder / f"{sample}{k}.parquet")
    return str(folder / "a*.parquet"), str(folder / "b*.parquet")


def bare(block: Block) -> float:
    """As many exponentials as features, in chunks that a cache holds."""
    total = 0.0
    buffer = np.empty((1_024, FEATURES))
    for start in range(0, len(block.values), 1_024):
        rows = block.values[start : start + 1_024, :1]
        part = buffer[: len(rows)]
        np.multiply(rows, np.linspace(-1.0, 0.0, FEATURES), out=part)
        total += float(np.exp(part, out=part)[0, 0])
    return total


def timed(what: str, function) -> float:
    start, cpu = time.perf_counter(), time.process_time()
    function()
    wall = time.perf_counter() - start
    print(f"| {what} | {wall:.1f} | {time.process_time() - cpu:.1f} |", flush=True)
    return wall


def memory() -> float:
    """Peak resident memory of this process, MiB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        a, b = write(Path(name), rows)
        before = memory()
        print(f"{rows:,} rows\n| what | wall seconds | processor seconds here |\n|---|---|---|")

        def test() -> None:
            kembed.mmd_test(a, b, rng=0)

        def map_alone() -> None:
            for source in open_sources({"a": a, "b": b}):
                assert isinstance(source, Batches)
                source.map_sum(bare)

        one = timed("test, this process", test)
        print(f"peak memory {memory():.0f} MiB ({before:.0f} before)")
        bare_here = timed("bare map, this process", map_alone)
        walls = {}
        for workers in (1, 2):
            with scheduler("local", workers):
                walls[workers] = timed(f"test, {workers} workers", test)
                bare_there = timed(f"bare map, {workers} workers", map_alone)
        print(f"test over bare map: {one / bare_here:.2f} here, {walls[2] / bare_there:.2f} with two workers")
        print(f"two workers over one: {walls[1] / walls[2]:.2f} times as fast")


if __name__ == "__main__":
    main()

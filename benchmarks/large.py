"""The two-sample test of 10⁷ rows in Parquet files: time against a bare map, memory, one worker and two.

`python -m benchmarks.large [ROWS]`: five columns, two samples of ROWS/2, in eight files each. The bare map
reads the same files (once to find out what the columns are, as the test does, and once for the sums; the test
reads them a third time, for its sample) and takes one product and one `exp` for every entry that a row's
features have: dense ones by their number (Gaussians at all landmarks and scales, products of second order,
polynomials), indicators of leaves and of the nearest landmark by the ones in them. Processor seconds are
those of this process and of all workers, and can be compared on a busy machine; wall seconds cannot.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import kembed
from kembed.features import fused_ensemble
from kembed.features.embeddings import AtLandmarks
from kembed.features.rows import Rows
from kembed.tables.reader import read
from kembed.tables.scheduling import current_engine, scheduler
from kembed.tables.source import Block
from kembed.testing.engine import sample_of

FILES, COLUMNS = 8, 5


def write(folder: Path, rows: int) -> tuple[str, str]:
    """Two patterns of files."""
    rng = np.random.default_rng(0)
    for sample in "ab":
        for k in range(FILES):
            table = {f"x{c}": rng.normal(size=rows // (2 * FILES)) for c in range(COLUMNS)}
            pl.DataFrame(table).write_parquet(folder / f"{sample}{k}.parquet")
    return str(folder / "a*.parquet"), str(folder / "b*.parquet")


def entries() -> dict[str, int]:
    """How many numbers a row's features have, and how many of them are Gaussians."""
    rng = np.random.default_rng(0)
    names = tuple(f"x{c}" for c in range(COLUMNS))
    sample = sample_of(rng.normal(size=(4_096, COLUMNS)), np.zeros(COLUMNS, dtype=bool), names)
    maps, rows = fused_ensemble(sample).maps, Rows(sample.fitted(), sample.values[:1])
    found = [each(rows) for each in maps]
    counts = [table.nnz if hasattr(table, "nnz") else table.shape[1] for table in found]
    gaussians = [count for each, count in zip(maps, counts, strict=True) if isinstance(each, AtLandmarks)]
    return {"all": sum(counts), "Gaussians": sum(gaussians)}


def bare(block: Block, count: int) -> float:
    """So many exponentials a row, in chunks that a cache holds."""
    total = 0.0
    buffer, scales = np.empty((1_024, count)), np.linspace(-1.0, 0.0, count)
    for start in range(0, len(block.values), 1_024):
        rows = block.values[start : start + 1_024, :1]
        part = buffer[: len(rows)]
        np.multiply(rows, scales, out=part)
        total += float(np.exp(part, out=part)[0, 0])
    return total


def used() -> tuple[float, float]:
    """Processor seconds of a process, and its peak of memory in MiB."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(what: str, function) -> tuple[float, float]:
    """Wall seconds and processor seconds, which are also printed, with the peak of a worker."""
    client = getattr(current_engine(), "client", None)

    def workers() -> list[tuple[float, float]]:
        return list(client.run(used).values()) if client else []

    start, cpu = time.perf_counter(), used()[0] + sum(each for each, _ in workers())
    function()
    wall, after = time.perf_counter() - start, workers()
    cpu = used()[0] + sum(each for each, _ in after) - cpu
    peak = max((memory for _, memory in after), default=used()[1])
    print(f"| {what} | {cpu:.1f} | {wall:.1f} | {peak:.0f} |", flush=True)
    return cpu, wall


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    count = entries()
    with tempfile.TemporaryDirectory() as name:
        a, b = write(Path(name), rows)
        print(f"{rows:,} rows of {COLUMNS} columns; a row's features have {count['all']:,} entries,")
        print(f"{count['Gaussians']:,} of them from Gaussians; {used()[1]:.0f} MiB before")
        print("| what | processor seconds | wall seconds | peak MiB, of a process |\n|---|---|---|---|")

        def test() -> None:
            kembed.mmd_test(a, b, rng=0)

        def map_alone(many: int) -> None:
            for source in read({"a": a, "b": b}, engine=current_engine()):
                source.fold(bare, many)

        found = {}
        for where, workers in (("none", 0), ("local", 1), ("local", 2)):
            with scheduler(where, max(workers, 1)):
                place = f"{workers} workers" if workers else "this process"
                found["test", workers] = timed(f"test, {place}", test)
                found["bare", workers] = timed(f"bare map, {place}", lambda: map_alone(count["all"]))
        less = timed("bare map of Gaussians alone, this process", lambda: map_alone(count["Gaussians"]))
        for workers in (0, 1, 2):
            cpu, wall = np.divide(found["test", workers], found["bare", workers])
            print(
                f"test over bare map, {workers} workers: {cpu:.2f} in processor, {wall:.2f} in wall seconds"
            )
        print(f"over that of Gaussians alone, this process: {found['test', 0][0] / less[0]:.2f}")
        for what in ("test", "bare"):  # what the machine itself allows is in the second
            faster = found[what, 1][1] / found[what, 2][1]
            print(f"two workers over one, {what}: {faster:.2f} times as fast (wall)")


if __name__ == "__main__":
    main()

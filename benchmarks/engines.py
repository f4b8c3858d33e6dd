"""The engines against a bare read: seconds, memory, overhead of a block, two workers against one.

10^7 rows of five numbers in eight Parquet files and in one CSV. Every line is a process of its own, so that
its peak of memory is its own. Processor seconds count: `cpu` is that of the process and its threads, for Dask
that of all workers. The bare pass reads the same rows with Polars and takes cos of as many entries; ours is a
`map_sum` of the same function, and beside it stands the survey that comes before.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N, D, FILES, ENTRIES = 10_000_000, 5, 8, 16


def cosines(block, weights):
    """Σ cos of a row's mixtures."""
    return np.cos(block.values @ weights).sum(axis=0)


def first_entry(block):
    """Nothing but the reading."""
    return float(block.values[0, 0])


def make(folder: Path) -> None:
    import polars as pl

    rng = np.random.default_rng(0)
    for place in range(FILES):
        frame = pl.DataFrame({f"x{d}": rng.normal(size=N // FILES) for d in range(D)})
        frame.write_parquet(folder / f"{place}.parquet")
        with open(folder / "all.csv", "ab") as stream:
            frame.write_csv(stream, include_header=place == 0)


def weights() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(D, ENTRIES))


def bare(folder: str, kind: str, rows: int = 2**17, work: bool = True) -> None:
    """Polars alone: whole Parquet files in slices, the CSV in its own batches."""
    import polars as pl

    mixed, total = weights(), 0.0
    if kind == "csv":
        frames = pl.scan_csv(f"{folder}/all.csv").collect_batches(chunk_size=rows)
    else:
        paths = sorted(Path(folder).glob("*.parquet"))
        starts = [(path, first) for path in paths for first in range(0, N // FILES, rows)]
        frames = (pl.scan_parquet(path).slice(first, rows).collect() for path, first in starts)
    for frame in frames:
        total += np.cos(frame.to_numpy() @ mixed).sum() if work else frame.height


def opened(folder: str, kind: str, engine=None):
    from kembed.tables.reader import read

    return read({"x": f"{folder}/*.{kind}"}, engine=engine)[0]


def measured(call) -> dict:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def peak() -> float:
    """Megabytes; not ru_maxrss, which a new process inherits."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return float(next(line.split()[1] for line in status if "VmHWM" in line)) / 1024


def job(name: str, folder: str, kind: str) -> dict:
    import polars  # noqa: F401

    before = peak()
    if name == "bare read":
        out = measured(lambda: bare(folder, kind, work=False))
    elif name == "bare cos":
        out = measured(lambda: bare(folder, kind))
    elif name == "survey":
        out = measured(lambda: opened(folder, kind))
    else:
        source = opened(folder, kind)
        call = {
            "our read": lambda: source.fold(first_entry),
            "our cos": lambda: source.fold(cosines, weights()),
        }
        out = measured(call[name])
    return {**out, "peak": peak(), "before": before}


def cpu_of_workers(client) -> float:
    return sum(client.run(time.process_time).values())


def with_dask(folder: str, workers: int) -> dict:
    from kembed.tables.dask import local_engine

    with local_engine(workers) as engine:
        client = engine.client
        source = opened(folder, "parquet", engine)
        source.fold(first_entry)  # warm
        before, start = cpu_of_workers(client), time.perf_counter()
        source.fold(cosines, weights())
        wall, cpu = time.perf_counter() - start, cpu_of_workers(client) - before
        peaks = list(client.run(peak).values())
        few = opened_few(engine)
        few.fold(first_entry)
        start, here = time.perf_counter(), time.process_time()
        few.fold(first_entry)
        overhead = (time.perf_counter() - start) / len(few.parts)
        driver = (time.process_time() - here) / len(few.parts)
    return {"wall": wall, "cpu": cpu, "peak": max(peaks), "overhead": overhead, "driver": driver}


def opened_few(engine):
    """Four hundred blocks of one row: what a block costs that has nothing in it."""
    import dask.array as da

    from kembed.tables.reader import read

    return read({"x": da.ones((400, D), chunks=(1, D))}, engine=engine)[0]


def in_process(*arguments: str) -> dict:
    code = f"import json; from benchmarks import engines; print(json.dumps(engines.{arguments[0]}))"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        print(f"{N:,} rows, {D} columns, cos of {ENTRIES} entries a row, one process\n")
        print("| what | cpu s | wall s | rows a cpu second | peak MB |\n|---|---|---|---|---|")
        for kind in ("parquet", "csv"):
            for name in ("bare read", "our read", "survey", "bare cos", "our cos"):
                found = in_process(f"job({name!r}, {folder!r}, {kind!r})")
                line = (
                    f"| {kind}: {name} | {found['cpu']:.2f} | {found['wall']:.2f} | {N / found['cpu']:,.0f} |"
                )
                print(line, f"{found['peak']:.0f} |", flush=True)
        print("\n| workers, Parquet, cos | cpu s of all | wall s | peak MB of one | s a block (driver cpu) |")
        print("|---|---|---|---|---|")
        for workers in (1, 2):
            found = in_process(f"with_dask({folder!r}, {workers})")
            times = f"{found['cpu']:.2f} | {found['wall']:.2f} | {found['peak']:.0f}"
            print(f"| {workers} | {times} | {found['overhead']:.4f} ({found['driver']:.4f}) |", flush=True)


if __name__ == "__main__":
    main()

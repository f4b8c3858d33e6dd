"""Processor time of the default tests beside those of an older kembed, turn by turn in one run.

`KEMBED_FIRST=../first/src python -m benchmarks processor` (see `third.py` for that folder). Every case is run
by both in processes of their own, one after the other, on one thread; the least of KEMBED_REPETITIONS (7)
runs counts, since a busy machine only adds. Beside it, the bare kernel matrix and one product with 1,000
labelings, for two samples of 1,000 rows and 10 columns.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "7"))
HERE = Path(__file__).parent.parent
BARE = "bare"
TWO_SAMPLES = [(200, 1), (200, 10), (200, 30), (200, 64), (1_000, 10)]
SIDES = [(10, 1, 1), (200, 1, 1), (200, 10, 10), (200, 20, 1), (200, 30, 30)]
CASES = [
    *(("mmd_test", n, D, D) for n, D in TWO_SAMPLES),
    (BARE, 1_000, 10, 10),
    *(("hsic_test", *each) for each in SIDES),
]


def serve() -> None:
    """Runs the case in every line that comes in, and says how long it took."""
    import kembed

    for line in sys.stdin:
        name, n, first, second = json.loads(line)
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(n, first)), rng.normal(size=(n, second))
        labels = (rng.random((2 * n, 1_000)) < 0.5).astype(float) if name == BARE else None
        start = time.process_time()
        if labels is None:
            getattr(kembed, name)(x, y, n_resamples=999, rng=0)
        else:
            z = np.concatenate([x, y])
            squares = (z**2).sum(axis=1)
            _ = np.exp((squares[:, None] + squares - 2.0 * z @ z.T) / -20.0) @ labels
        print(time.process_time() - start, flush=True)


def server(folder: str) -> subprocess.Popen:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **one, "PYTHONPATH": os.pathsep.join([folder, str(HERE)])}
    command = [sys.executable, "-m", "benchmarks.processor"]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
    )


def seconds(process: subprocess.Popen, case) -> float:
    process.stdin.write(json.dumps(case) + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    folders = [str(HERE / "src")]
    if first := os.environ.get("KEMBED_FIRST"):
        folders.append(first)
    servers = [server(folder) for folder in folders]
    print("| test | rows | columns | seconds | first default | ratio |\n|---|---|---|---|---|---|")
    for case in CASES:
        runs = np.array([[seconds(each, case) for each in servers] for _ in range(REPETITIONS + 1)])
        least = runs[1:].min(axis=0)  # the first of them warms up
        name, n, first_side, second_side = case
        columns = str(first_side) if name != "hsic_test" else f"{first_side} by {second_side}"
        rest = f"{least[1]:.3f} | {least[0] / least[1]:.2f}" if len(least) > 1 else " | "
        print(f"| {name} | {n} | {columns} | {least[0]:.3f} | {rest} |", flush=True)
    for each in servers:
        each.stdin.close()
        each.wait()


if __name__ == "__main__":
    serve()

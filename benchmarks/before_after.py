"""Power of the default tests on every suite, on the same draws for two versions of kembed.

`python -m benchmarks.before_after record FILE [SUITE ...]` writes the p-values of the imported kembed.
PYTHONPATH names another `src` for another version. `... compare BEFORE AFTER` prints both with the standard
error of the difference. KEMBED_REPETITIONS, 60 unless given, from KEMBED_FIRST on; KEMBED_KERNEL, the default
unless given; level .05, B = 299.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks._workers import LEVEL, B, seeded, spread
from benchmarks.accidents import ACCIDENTS, RELATIONS
from benchmarks.alternatives import DEPENDENCE, HELD_OUT, SUITE

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "60"))
FIRST = int(os.environ.get("KEMBED_FIRST", "0"))  # number of the first repetition, for other draws
KERNEL = os.environ.get("KEMBED_KERNEL", "fused")
SUITES = {
    "SUITE": SUITE,
    "HELD_OUT": HELD_OUT,
    "ACCIDENTS": ACCIDENTS,
    "DEPENDENCE": DEPENDENCE,
    "RELATIONS": RELATIONS,
}


def repetition(job: tuple[str, str, int]) -> tuple[float, float]:
    """The p-value, and processor seconds."""
    import kembed

    suite, name, r = job
    warnings.simplefilter("ignore")
    rng = seeded(name, r)
    x, y = SUITES[suite][name].draw(rng)
    test = kembed.hsic_test if suite in ("DEPENDENCE", "RELATIONS") else kembed.mmd_test
    start = time.process_time()
    pvalue = test(x, y, kernel=KERNEL, n_resamples=B, rng=rng).pvalue
    return pvalue, time.process_time() - start


def record(path: str, suites: list[str]) -> None:
    found: dict = {}
    for suite in suites or list(SUITES):
        for name in SUITES[suite]:
            both = spread(repetition, [(suite, name, r) for r in range(FIRST, FIRST + REPETITIONS)])
            p, seconds = zip(*both, strict=True)
            found[f"{suite}: {name}"] = {"p": p, "seconds": float(np.median(seconds))}
            print(f"{suite}: {name}: {np.mean(np.array(p) <= LEVEL + 1e-12):.2f}", flush=True)
        Path(path).write_text(json.dumps(found))


def compare(before: str, after: str) -> None:
    first, second = (json.loads(Path(path).read_text()) for path in (before, after))
    print("| set | before | after | s.e. of the difference | seconds |\n|---|---|---|---|---|")
    rejections: dict[str, list] = {}
    for name in [name for name in first if name in second]:
        count = min(len(first[name]["p"]), len(second[name]["p"]))
        a, b = (np.array(each[name]["p"][:count]) <= LEVEL + 1e-12 for each in (first, second))
        difference = b.astype(float) - a
        error = difference.std() / np.sqrt(count)
        times = f"{first[name]['seconds']:.3f} {second[name]['seconds']:.3f}"
        print(f"| {name} | {a.mean():.2f} | {b.mean():.2f} | {error:.3f} | {times} |")
        rejections.setdefault(name.split(":")[0], []).append((a.mean(), b.mean(), error))
    for suite, rows in rejections.items():
        table = np.array(rows)
        error = np.sqrt((table[:, 2] ** 2).sum()) / len(table)
        print(f"| **{suite}** | {table[:, 0].mean():.3f} | {table[:, 1].mean():.3f} | {error:.3f} | |")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    record(arguments[0], arguments[1:]) if command == "record" else compare(*arguments)

"""Speed of the tests, in one run: against the machine's limit, and against other packages.

The others run in an environment of their own, made in build/rivals from rivals.txt (KEMBED_RIVALS names a
Python that has them already). Every time is the best of a few repeats, warm unless it says cold.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.rivals import B, clock, two_samples
from kembed import Gaussian, hsic_test, mmd_test

HERE = Path(__file__).parent
ELL = 3.0


def rivals_python() -> str:
    given = os.environ.get("KEMBED_RIVALS")
    if given:
        return given
    home = HERE.parent / "build" / "rivals"
    python = home / "bin" / "python"
    if not python.exists():
        print("making build/rivals ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(HERE / "rivals.txt")]
        subprocess.run(install, check=True)
    return str(python)


def rival(job: str):
    command = [rivals_python(), "-W", "ignore", str(HERE / "rivals.py"), job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def bare(x, y) -> float:
    """A kernel matrix and one product with a column for every resample: what NumPy alone would take."""
    z = np.concatenate([x, y])
    labels = (np.random.default_rng(0).random((len(z), B + 1)) < 0.5).astype(float)

    def run():
        squares = (z**2).sum(axis=1)
        K = np.exp((squares[:, None] + squares - 2.0 * z @ z.T) / (-2.0 * ELL**2))
        return K @ labels

    return clock(run, 5)


def in_new_process(code: str) -> float:
    """Seconds of a new interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


LARGE = """
import numpy as np, time, kembed
rng = np.random.default_rng(0)
x, y = rng.normal(size=(20_000, {D})), rng.normal(size=(20_000, {D}))
start = time.perf_counter()
result = kembed.mmd_test(x, y, kernel="median", rng=0)
print(time.perf_counter() - start)
"""


def large(D: int) -> tuple[float, float]:
    # Not ru_maxrss, which a new process inherits from this one.
    report = "print([line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line][0])"
    done = subprocess.run(
        [sys.executable, "-c", LARGE.format(D=D) + report], capture_output=True, text=True, check=True
    )
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak / 1024


def dense_product(N: int = 40_000) -> float:
    """Seconds of an N x N by N x B product, from a strip of it."""
    strip = 2_000
    K, labels = np.ones((strip, N)), np.ones((N, B + 1))
    return clock(lambda: K @ labels, 2) * N / strip


def main() -> None:
    x, y = two_samples()
    limit = bare(x, y)
    fixed = clock(lambda: mmd_test(x, y, kernel=Gaussian(ELL), rng=0), 7)
    median = clock(lambda: mmd_test(x, y, kernel="median", rng=0), 5)
    mmd_test(x, y, rng=0)
    fused = clock(lambda: mmd_test(x, y, rng=0), 5)
    print(f"two samples of 1,000 rows, D = 10, B = {B}\n")
    print("| what | seconds | against the fixed kernel |\n|---|---|---|")
    rows = [
        ("bare kernel matrix and one product (NumPy)", limit),
        ("mmd_test, fixed kernel", fixed),
        ('mmd_test, "median"', median),
        ("mmd_test, default (fused, scales learned)", fused),
        ("dcor energy test", rival("dcor_energy")),
        ("frouros MMD, 2 jobs", rival("frouros")),
        ("hyppo MMD, 2 workers (scaled from 49 permutations)", rival("hyppo")),
    ]
    for name, seconds in rows:
        value = "failed" if seconds is None else f"{seconds:.3f} | {seconds / fixed:.1f}"
        print(f"| {name} | {value} |", flush=True)
    print("\n| independence, D = 10 a side | n = 1,000 | n = 5,000 |\n|---|---|---|")
    ours, theirs = [], []
    for n in (1_000, 5_000):
        u, v = two_samples(n)
        ours.append(clock(lambda u=u, v=v: hsic_test(u, v, kernel=Gaussian(ELL), rng=0), 3))
        theirs.append(rival(f"dcor_dcov_{n}"))
    print(f"| hsic_test, fixed kernel | {ours[0]:.4f} | {ours[1]:.3f} |")
    print(f"| dcor distance covariance (5,000: scaled from 49) | {theirs[0]:.2f} | {theirs[1]:.1f} |")
    print(f"| ratio | {theirs[0] / ours[0]:.0f} | {theirs[1] / ours[1]:.0f} |", flush=True)
    product = dense_product()
    print(f"\ntwo samples of 20,000 rows, median kernel; the dense product alone takes {product:.1f} s\n")
    print("| D | seconds | share of the dense product | peak MiB of the process |\n|---|---|---|---|")
    for D in (2, 50):
        seconds, peak = large(D)
        print(f"| {D} | {seconds:.2f} | {seconds / product:.2f} | {peak:.0f} |", flush=True)
    cold = min(
        in_new_process(
            "import numpy as np, kembed; r = np.random.default_rng(0)\n"
            "kembed.mmd_test(r.normal(size=(1000, 2)), r.normal(size=(1000, 2)), kernel='median', rng=0)"
        )
        for _ in range(3)
    )
    default = min(
        in_new_process(
            "import numpy as np, kembed; r = np.random.default_rng(0)\n"
            "kembed.mmd_test(r.normal(size=(1000, 2)), r.normal(size=(1000, 2)), rng=0)"
        )
        for _ in range(3)
    )
    print(
        f"\ncold start, new process, 1,000 + 1,000 rows, D = 2: median {cold:.2f} s, default {default:.2f} s"
    )


if __name__ == "__main__":
    main()

"""Power of the independence tests on the dependence suite: default, median heuristic, distance covariance.

Level .05, B = 299; KEMBED_REPETITIONS for fewer than 200 repetitions. Distance covariance is HSIC with the
kernel |a| + |b| - |a - b| (Sejdinovic et al. 2013), tested by the same permutations.
"""

import os
import warnings

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks._workers import LEVEL, SEED, B, seeded, spread
from benchmarks.alternatives import DEPENDENCE
from kembed import hsic_test

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "200"))


def distance_kernel(a, b):
    return np.linalg.norm(a, axis=1)[:, None] + np.linalg.norm(b, axis=1) - cdist(a, b)


def repetition(job: tuple[str, int]) -> list[float]:
    name, r = job
    warnings.simplefilter("ignore")
    rng = seeded(name, r)
    x, y = DEPENDENCE[name].draw(rng)
    kernels = ("fused", "median", distance_kernel)
    return [hsic_test(x, y, kernel=kernel, n_resamples=B, rng=rng).pvalue for kernel in kernels]


def main() -> None:
    print(f"{REPETITIONS} repetitions, B = {B}, level {LEVEL}, seed {SEED}\n")
    print("| set | n | fused (default) | median | distance covariance |\n|---|---|---|---|---|")
    powers = []
    for name, each in DEPENDENCE.items():
        p = np.array(spread(repetition, [(name, r) for r in range(REPETITIONS)]))
        powers.append((p <= LEVEL + 1e-12).mean(axis=0))
        print(
            f"| {name} | {each.n} | " + " | ".join(f"{value:.2f}" for value in powers[-1]) + " |", flush=True
        )
    mean = np.mean(powers, axis=0)
    error = np.sqrt((np.array(powers) * (1 - np.array(powers)) / REPETITIONS).sum(axis=0)) / len(powers)
    print("| **mean** | | " + " | ".join(f"{m:.3f}" for m in mean) + " |")
    print("| standard error | | " + " | ".join(f"{e:.3f}" for e in error) + " |")


if __name__ == "__main__":
    main()

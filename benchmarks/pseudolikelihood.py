"""Value and slope of the paper's objective in NumPy, as a multiple of a bare exp over an n x m array.

    OMP_NUM_THREADS=1 python -m benchmarks.pseudolikelihood

Processor time, memory, and time should grow linearly in n up to a million rows.
"""

import resource
import time

import numpy as np

from kembed import Gaussian, Lebesgue, log_pseudolikelihood
from kembed.learning.paper.pseudolikelihood import value_and_slopes

SEED, LANDMARKS, REPEATS = 0, 100, 5
SIZES = ((1_000, 2), (10_000, 2), (100_000, 1), (100_000, 2), (100_000, 3), (100_000, 5), (1_000_000, 2))


def seconds(function: object) -> float:
    """Median processor seconds of a call."""
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        taken.append(time.process_time() - start)
    return float(np.median(taken))


def main() -> None:
    print(f"Seed {SEED}, m = {LANDMARKS}, x ~ N(0, I), Gaussian(1), slope in the lengthscale, one thread.\n")
    print("| n | D | exp, ms | value, ms | value and slope, ms | over exp | peak memory, GiB |")
    print("|---|---|---|---|---|---|---|")
    kernel = Gaussian(1.0)
    for n, D in SIZES:
        x = np.random.default_rng(SEED).normal(size=(n, D))
        z = x[:LANDMARKS]
        few = min(n, 10_000)
        exponents = -0.5 * np.random.default_rng(SEED).chisquare(D, size=(few, LANDMARKS))
        times = [
            seconds(lambda array=exponents: np.exp(array)) * n / few,
            seconds(lambda x=x, z=z: log_pseudolikelihood(x, kernel=kernel, noise=1.0, landmarks=z)),
            seconds(lambda x=x, z=z: value_and_slopes(kernel, 1.0, x, z, Lebesgue())),
        ]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        shown = " | ".join(f"{1e3 * each:.1f}" for each in times)
        print(f"| {n:,} | {D} | {shown} | {times[2] / times[0]:.1f} | {peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""NUTS on Figure 3's data: n = 400 + 400, four chains of 300 + 500."""

import time

import numpy as np

from benchmarks.shapes import normal_and_laplace
from kembed import sample_kernel

STAN = 4.2  # min bulk ESS per second of the corrected model in Stan, from the notes on the experiments


def main(seeds=(0, 1, 2)) -> None:
    print(
        "| seed | compiled before | R-hat | divergences | min bulk ESS "
        "| seconds | ESS/s | CPU seconds | ESS per CPU second | the latter over Stan's 4.2 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for number, seed in enumerate(seeds):
        x = normal_and_laplace(np.random.default_rng(seed))
        started = time.process_time()
        samples = sample_kernel(x, progress=False, rng=seed)
        taken = time.process_time() - started
        rate = samples.ess / taken
        print(
            f"| {seed} | {'yes' if number else 'no'} | {samples.rhat:.4f} | {samples.divergences} "
            f"| {samples.ess:.0f} | {samples.seconds:.1f} | {samples.ess / samples.seconds:.1f} "
            f"| {taken:.1f} | {rate:.1f} | {rate / STAN:.1f}x |",
            flush=True,
        )


if __name__ == "__main__":
    main()

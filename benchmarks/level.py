"""Level of the permutation tests: 2,000 null draws for each kernel and kind of data ("bkl": 500 of each).

The rejection rates must lie within two or three binomial standard errors of the nominal level, and the
p-values must be uniform on {1/100, …, 1} (a chi-square over ten bins of ten values). KEMBED_KERNELS=fused
runs the default alone.
"""

import os
import warnings
import zlib

import numpy as np
from scipy.special import chdtrc

from benchmarks._workers import spread
from benchmarks.alternatives import NULLS
from kembed import hsic_test, mmd_test

DRAWS = int(os.environ.get("KEMBED_REPETITIONS", "2000"))
SHARE = {("mmd", "bkl"): 4}  # slower ones take that part of the draws
B, N, SEED = 99, 20, 2026
KERNELS = os.environ.get("KEMBED_KERNELS", "fused,bkl,median").split(",")
LEVELS = np.array([0.01, 0.05, 0.10])


def draw(job: tuple[str, str, str, int]) -> float:
    test, kernel, name, r = job
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), r])
    x, y = NULLS[name].draw(rng, N)
    run = mmd_test
    if test == "hsic":
        run, y = hsic_test, y[:N]  # independent pairs
    return run(x, y, kernel=kernel, n_resamples=B, rng=rng).pvalue


def main() -> None:
    print(f"n = m = {N}, B = {B}, seed {SEED}; z is in binomial standard errors, the largest of the three\n")
    print("| test | kernel | data | draws | .01 | .05 | .10 | z | uniform: p |")
    print("|---|---|---|---|---|---|---|---|---|")
    for test, kernels in (("mmd", ("fused", "bkl", "median")), ("hsic", ("fused", "median"))):
        for kernel in (kernel for kernel in kernels if kernel in KERNELS):
            draws = DRAWS // SHARE.get((test, kernel), 1)
            error = np.sqrt(LEVELS * (1 - LEVELS) / draws)
            for name in NULLS:
                p = np.array(spread(draw, [(test, kernel, name, r) for r in range(draws)]))
                rate = (p[:, None] <= LEVELS + 1e-9).mean(axis=0)
                z = (rate - LEVELS) / error
                bins = np.minimum((np.ceil(p * 100 - 1e-6).astype(int) - 1) // 10, 9)
                chi = float(((np.bincount(bins, minlength=10) - draws / 10) ** 2 / (draws / 10)).sum())
                rates = " | ".join(f"{value:.3f}" for value in rate)
                last = f"{z[np.argmax(np.abs(z))]:+.1f} | {chdtrc(9, chi):.2f}"
                print(
                    f"| {test} | {kernel} | {name} | {draws} | {rates} | {last} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Level of the permutation tests: 2,000 null draws for each kernel and kind of data.

The rejection rates must lie within three binomial standard errors of the nominal level, and the p-values must
be uniform on {1/100, …, 1} (a chi-square over ten bins of ten values).
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
B, N, SEED = 99, 20, 2026
LEVELS = np.array([0.01, 0.05, 0.10])


def draw(job: tuple[str, str, str, int]) -> float:
    test, kernel, name, r = job
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), r])
    x, y = NULLS[name].draw(rng, N)
    run = mmd_test if test == "mmd" else hsic_test
    return run(x, y, kernel=kernel, n_resamples=B, rng=rng).pvalue


def main() -> None:
    error = np.sqrt(LEVELS * (1 - LEVELS) / DRAWS)
    print(f"{DRAWS} null draws, n = m = {N}, B = {B}, seed {SEED}; standard errors {np.round(error, 4)}")
    print("| test | kernel | data | .01 | .05 | .10 | largest z | uniform: p |")
    print("|---|---|---|---|---|---|---|---|")
    for test, kernels in (("mmd", ("fused", "bkl", "median")), ("hsic", ("fused", "median"))):
        for kernel in kernels:
            for name in NULLS:
                p = np.array(spread(draw, [(test, kernel, name, r) for r in range(DRAWS)]))
                rate = (p[:, None] <= LEVELS + 1e-9).mean(axis=0)
                z = (rate - LEVELS) / error
                counts = np.bincount(
                    np.minimum((np.ceil(p * 100 - 1e-6).astype(int) - 1) // 10, 9), minlength=10
                )
                chi = float(((counts - DRAWS / 10) ** 2 / (DRAWS / 10)).sum())
                rates = " | ".join(f"{value:.3f}" for value in rate)
                worst = z[np.argmax(np.abs(z))]
                print(
                    f"| {test} | {kernel} | {name} | {rates} | {worst:+.1f} | {chdtrc(9, chi):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

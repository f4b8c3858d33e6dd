"""Agreement: with dcor's numbers, and of the approximate nulls with a long permutation null (QQ)."""

import numpy as np

from benchmarks.dependence import distance_kernel
from benchmarks.rivals import two_samples
from benchmarks.speed import rival
from kembed import hsic_test, mmd_test

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)
LONG = 9_999


def main() -> None:
    x, y = two_samples(200, 3, shift=0.2)
    theirs = rival("agreement")
    ours = [
        mmd_test(x, y, kernel=distance_kernel, statistic="biased", n_resamples=1, rng=0).statistic,
        hsic_test(x, x + y, kernel=distance_kernel, statistic="biased", n_resamples=1, rng=0).statistic,
    ]
    print("two samples of 200 rows, D = 3, kernel |a| + |b| - |a - b|, biased statistics\n")
    print("| | kembed | dcor | difference |\n|---|---|---|---|")
    for name, mine, other in zip(("energy distance", "distance covariance²"), ours, theirs, strict=True):
        print(f"| {name} | {mine:.15f} | {other:.15f} | {abs(mine - other):.1e} |")
    print(
        f"\nquantiles of the null ({LONG:,} draws), median kernel, n = 200, D = 3, in units of the null sd\n"
    )
    head = " | ".join(f"{q:.0%}" for q in QUANTILES)
    print(f"| statistic | null | {head} |\n|---|---|" + "---|" * len(QUANTILES))
    for test, name in ((mmd_test, "MMD²"), (hsic_test, "HSIC")):
        scale = None
        for null in ("permutation", "gamma", "spectral"):
            draws = test(x, y, kernel="median", null=null, n_resamples=LONG, rng=0).null_distribution
            scale = draws.std() if scale is None else scale
            row = " | ".join(f"{value:.2f}" for value in np.quantile(draws, QUANTILES) / scale)
            print(f"| {name} | {null} | {row} |")


if __name__ == "__main__":
    main()

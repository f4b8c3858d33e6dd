"""N(0, I_D): does ℓ* depend on the rows that are looked at, and is the density right."""

import numpy as np

from kembed import learn_kernel

N, HELD_OUT, MANY = 500, 5_000, 20_000
DIMENSIONS, SEEDS = (1, 2, 5, 10, 20), range(5)


def density(dimensions=DIMENSIONS) -> None:
    print(f"n = {N}, data seed 100 + D, {HELD_OUT:,} held-out points\n")
    print("| D | ℓ* | held-out log density | off −entropy | true density on the same points |")
    print("|---|---|---|---|---|")
    for D in dimensions:
        rng = np.random.default_rng(100 + D)
        x, new = rng.normal(size=(N, D)), rng.normal(size=(HELD_OUT, D))
        entropy = 0.5 * D * np.log(2 * np.pi * np.e)
        true = float(-0.5 * (new**2).sum(axis=1).mean() - 0.5 * D * np.log(2 * np.pi))
        learned = learn_kernel(x)
        held = float(learned.log_density(new).mean())
        ell = float(learned.kernel.lengthscale)
        print(f"| {D} | {ell:.3f} | {held:.3f} | {held / -entropy - 1:+.2%} | {true:.3f} |", flush=True)


def subsamples(dimensions=DIMENSIONS, seeds=SEEDS) -> None:
    """Beyond 2,000 rows some are looked at, and the scale is carried to all of them."""
    print(f"\nn = {MANY:,}, data seed 100 + D, {len(list(seeds))} seeds of the rows that are looked at\n")
    print("| D | ℓ* | range of ℓ* over all | 2h of Silverman |\n|---|---|---|---|")
    for D in dimensions:
        x = np.random.default_rng(100 + D).normal(size=(MANY, D))
        ells = np.array([float(learn_kernel(x, rng=seed).kernel.lengthscale) for seed in seeds])
        theory = 2 * (4 / (D + 2) / MANY) ** (1 / (D + 4))
        print(f"| {D} | {ells.mean():.3f} | {ells.max() / ells.min() - 1:.1%} | {theory:.3f} |", flush=True)


def main() -> None:
    density()
    subsamples()


if __name__ == "__main__":
    main()

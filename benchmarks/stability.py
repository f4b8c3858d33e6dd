"""Does ℓ* depend on the rows that are looked at, for N(0, I_D) and other shapes; is the density right."""

import numpy as np

from benchmarks.scales import SHAPES
from benchmarks.shapes import grid
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


def shapes(dimensions=(1, 2, 3, 8), seeds=SEEDS) -> None:
    """The same for skewed, clumped, heavy-tailed, rounded and grid data."""
    print(f"\nn = {MANY:,}, {len(list(seeds))} seeds of the rows that are looked at: largest over least ℓ*\n")
    print(f"| data | {' | '.join(f'D = {D}' for D in dimensions)} |\n|{'---|' * (len(dimensions) + 1)}")
    draws = SHAPES | {"3x3 grid, spacing 14": lambda rng, n, D: grid(rng, n) if D == 2 else None}
    for name, draw in draws.items():
        cells = []
        for D in dimensions:
            x = draw(np.random.default_rng(100 + D), MANY, D)
            ells = [] if x is None else [float(learn_kernel(x, rng=s).kernel.lengthscale) for s in seeds]
            cells.append(f"{max(ells) / min(ells):.3f}" if ells else "")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    density()
    subsamples()
    shapes()


if __name__ == "__main__":
    main()

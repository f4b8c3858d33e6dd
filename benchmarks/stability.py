"""N(0, I_D): does ℓ* depend on the number and the choice of landmarks, and is the density right."""

import numpy as np

from kembed import learn_kernel

N, HELD_OUT = 500, 5_000
DIMENSIONS, COUNTS, SEEDS = (1, 2, 5, 10, 20), (50, 100, 200), range(5)


def main(dimensions=DIMENSIONS, counts=COUNTS, seeds=SEEDS) -> None:
    print(f"n = {N}, data seed 100 + D, {len(list(seeds))} landmark seeds, {HELD_OUT:,} held-out points\n")
    print(
        "| D | ℓ* for m = "
        + " / ".join(map(str, counts))
        + " | range of ℓ* over all | held-out log density, worst "
        "| off −entropy | true density on the same points | ESS, least |\n|---|---|---|---|---|---|---|"
    )
    for D in dimensions:
        rng = np.random.default_rng(100 + D)
        x, new = rng.normal(size=(N, D)), rng.normal(size=(HELD_OUT, D))
        entropy = 0.5 * D * np.log(2 * np.pi * np.e)
        true = float(-0.5 * (new**2).sum(axis=1).mean() - 0.5 * D * np.log(2 * np.pi))
        scales, held, ess = np.zeros((len(counts), len(list(seeds)))), [], []
        for i, m in enumerate(counts):
            for j, seed in enumerate(seeds):
                learned = learn_kernel(x, landmarks=m, rng=seed)
                scales[i, j] = learned.kernel.lengthscale
                held.append(learned.log_density(new).mean())
                ess.append(1.0 if learned.ess is None else learned.ess)
        worst = max(held, key=lambda value: abs(value + entropy))
        print(
            f"| {D} | {' / '.join(f'{row.mean():.3f}' for row in scales)} "
            f"| {scales.max() / scales.min() - 1:.1%} "
            f"| {worst:.3f} | {worst / -entropy - 1:+.2%} | {true:.3f} "
            f"| {'quadrature' if D == 1 else f'{min(ess):.0%}'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

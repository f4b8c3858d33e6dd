"""Hard shapes: the 3x3 grid, Laplace, heavy tails with and without outliers, two scales; and units."""

import numpy as np

from kembed import learn_kernel, median_lengthscale

SEEDS = range(3)


def grid(rng, n=900, spacing=14.0):
    centres = spacing * np.array([[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)])
    return centres[rng.integers(9, size=n)] + rng.normal(size=(n, 2))


def normal_and_laplace(rng, n=400):
    return np.concatenate([rng.normal(size=n), rng.laplace(0.0, 0.5**0.5, n)])[:, None]


def cauchy(rng, D, n=500, outliers=0):
    x = rng.standard_t(1, size=(n, D))
    return np.concatenate([x, np.full((outliers, D), 1e6)])


def two_clusters(rng, n=250, D=1):
    return np.concatenate([rng.normal(0.0, 0.05, (n, D)), rng.normal(8.0, 3.0, (n, D))])


def modes(learned):
    return ", ".join(f"{float(np.ravel(mode.kernel.lengthscale)[0]):.3g}" for mode in learned.modes)


def main() -> None:
    print("3x3 grid, spacing 14, n = 900: every mode, the best first\n")
    print("| seed | ℓ of the modes |\n|---|---|")
    for seed in SEEDS:
        print(f"| {seed} | {modes(learn_kernel(grid(np.random.default_rng(seed))))} |")
    print("\nN(0,1) and Laplace pooled, n = 800\n\n| seed | ℓ of the modes |\n|---|---|")
    for seed in SEEDS:
        print(f"| {seed} | {modes(learn_kernel(normal_and_laplace(np.random.default_rng(seed))))} |")
    print("\nCauchy, n = 500, with 0 or 5 more points at 1e6\n")
    print("| D | added | seed | ℓ* | median distance | ratio |")
    print("|---|---|---|---|---|---|")
    for D in (1, 5):
        for outliers in (0, 5):
            for seed in SEEDS:
                x = cauchy(np.random.default_rng(seed), D, outliers=outliers)
                found, median = learn_kernel(x).kernel.lengthscale, median_lengthscale(x)
                print(f"| {D} | {outliers} | {seed} | {found:.3f} | {median:.3f} | {found / median:.2f} |")
    print("\nHalf the rows N(0, .05²), half N(8, 3²)\n\n| D | seed | ℓ of the modes |\n|---|---|---|")
    for D in (1, 2):
        for seed in SEEDS:
            print(f"| {D} | {seed} | {modes(learn_kernel(two_clusters(np.random.default_rng(seed), D=D)))} |")
    print("\nUnits: largest |ℓ*(c x) / (c ℓ*(x)) - 1| over c = 1e-6, 1e-3, 1e3, 1e6\n")
    for name, x in {
        "N(0, I_2)": np.random.default_rng(0).normal(size=(500, 2)),
        "grid": grid(np.random.default_rng(0)),
        "Cauchy": cauchy(np.random.default_rng(0), 1),
    }.items():
        base = learn_kernel(x).kernel.lengthscale
        worst = max(
            abs(learn_kernel(c * x).kernel.lengthscale / (c * base) - 1) for c in (1e-6, 1e-3, 1e3, 1e6)
        )
        print(f"- {name}: {worst:.1e}")


if __name__ == "__main__":
    main()

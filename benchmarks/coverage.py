"""Coverage: do 90% credible intervals of the embedding hold the truth in 90% of samples, as they should.

Data are drawn from Gaussian mixtures, whose embedding under a Gaussian kernel is known in closed form. Each
cell is the mean over samples of the share of 40 fixed points (themselves drawn from the distribution) that
the interval covers; the standard error is over samples, since points of one sample are dependent.
"""

import numpy as np

import kembed

SEED, SAMPLES, POINTS, LEVEL = 1, 300, 40, 0.9

MIXTURES = {
    "N(0, 1)": ([1.0], [[0.0]], [[[1.0]]]),
    "two components, D=1": ([0.5, 0.5], [[-2.0], [2.0]], [[[0.25]], [[1.0]]]),
    "two components, D=2": ([0.3, 0.7], [[0.0, 0.0], [3.0, 1.0]], [np.eye(2), [[1.0, 0.8], [0.8, 1.0]]]),
    "N(0, I), D=5": ([1.0], [[0.0] * 5], [np.eye(5)]),
}
NOISES = {"full": "full", "diagonal": "diagonal", "τ²=1": 1.0, "τ²=0.1": 0.1}


def draw(rng: np.random.Generator, n: int, weights: list, means: list, covariances: list) -> np.ndarray:
    component = rng.choice(len(weights), n, p=weights)
    draws = np.stack(
        [rng.multivariate_normal(mean, cov, size=n) for mean, cov in zip(means, covariances, strict=True)]
    )
    return draws[component, np.arange(n)]


def truth(
    points: np.ndarray, lengthscale: float, weights: list, means: list, covariances: list
) -> np.ndarray:
    """E exp(-|s-X|²/2ℓ²) = Σ_c w_c ℓ^D |ℓ²I + C_c|^{-1/2} exp(-½ (s-m_c)ᵀ(ℓ²I + C_c)⁻¹(s-m_c))."""
    total = np.zeros(len(points))
    D = points.shape[1]
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        S = lengthscale**2 * np.eye(D) + np.asarray(covariance)
        offset = points - np.asarray(mean)
        quadratic = np.einsum("pd,pd->p", offset, np.linalg.solve(S, offset.T).T)
        total += weight * lengthscale**D / np.sqrt(np.linalg.det(S)) * np.exp(-0.5 * quadratic)
    return total


def impossible(seeds: int = 1_500) -> None:
    """Count samples of 12 rows whose posterior has sd 0 or a mean that no embedding has, on a grid."""
    grid, bad, farthest = np.linspace(-4.0, 4.0, 33)[:, None], 0, 0.0
    for seed in range(seeds):
        x = np.random.default_rng(seed).normal(size=(12, 1))
        posterior = kembed.fit_embedding(x, kembed.Gaussian(1.0))
        mean = posterior.mean(grid)
        outside = max(-mean.min(), mean.max() - 1.0)
        bad += bool(outside > 0.05 or posterior.sd(grid).min() == 0.0)
        farthest = max(farthest, outside)
    error = np.sqrt(bad / seeds * (1.0 - bad / seeds) / seeds)
    print(f"\n12 rows of N(0, 1), ℓ = 1: impossible in {bad} of {seeds} samples (s.e. {error:.4f});")
    print(f"the farthest mean outside [0, 1] is {farthest:.2g} away.")


def main(samples: int = SAMPLES) -> None:
    print(f"Nominal {LEVEL:.0%}; seed {SEED}, {samples} samples a row; largest standard error in brackets.\n")
    print("| distribution | n | ℓ | " + " | ".join(NOISES) + " | (s.e.) |")
    print("|---|---|---|" + "---|" * (len(NOISES) + 1))
    for name, mixture in MIXTURES.items():
        for n in (10, 50, 400):
            for lengthscale in (0.3, 1.0, 3.0):
                rng = np.random.default_rng(SEED)
                points = draw(rng, POINTS, *mixture)
                true = truth(points, lengthscale, *mixture)
                covered = np.empty((samples, len(NOISES)))
                for sample in range(samples):
                    x = draw(rng, n, *mixture)
                    for column, noise in enumerate(NOISES.values()):
                        posterior = kembed.fit_embedding(x, kembed.Gaussian(lengthscale), noise=noise)
                        lower, upper = posterior.interval(points, LEVEL)
                        covered[sample, column] = np.mean((lower < true) & (true < upper))
                means = " | ".join(f"{value:.3f}" for value in covered.mean(axis=0))
                error = covered.std(axis=0, ddof=1).max() / np.sqrt(samples)
                print(f"| {name} | {n} | {lengthscale} | {means} | ({error:.3f}) |", flush=True)
    impossible()


if __name__ == "__main__":
    main()

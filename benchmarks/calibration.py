"""Calibration: whether draws, intervals, frequencies and levels are what they say, in a few minutes.

- The sampler. The posterior of `sample_kernel` is a leave-one-out pseudolikelihood times a prior. No model
  draws data with that likelihood, so "truth from the prior, data from the model" has no meaning here. What
  has one is the density itself: in one dimension θ = log ℓ is drawn exactly from it, by quadrature, and its
  rank among draws of NUTS given the same data is uniform if NUTS draws from that density.
- Intervals: of the embedding. Those of the witness are `benchmarks bands`, of AUCs `benchmarks separation`.
- Edge frequencies of the bootstrap: against how often the edge is found in new data of the same size.
- Levels: of every test and every null, on rows for which its hypothesis holds.

KEMBED_PARTS (sampler, intervals, edges, levels, with commas) runs some of them.
"""

import os
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import kembed
from benchmarks import coverage

SEED, LEVEL, B, N = 17, 0.05, 99, 30
SETS = int(os.environ.get("KEMBED_SETS", "200"))
DRAWS, BINS = 99, 10  # of the sampler, bins of ranks
LEVEL_DRAWS = int(os.environ.get("KEMBED_REPETITIONS", "1000"))
GRAPHS, RESAMPLES = 200, 40
PARTS = os.environ.get("KEMBED_PARTS", "sampler,intervals,edges,levels").split(",")


def generator(*key: Any) -> np.random.Generator:
    """Random numbers of their own for every key of words and numbers."""
    return np.random.default_rng([SEED, *(zlib.crc32(str(part).encode()) for part in key)])


def share(hits: Any) -> str:
    """A mean with its standard error."""
    hits = np.asarray(hits, dtype=float)
    return f"{hits.mean():.3f} ({hits.std(ddof=1) / np.sqrt(len(hits)):.3f})"


# --- the sampler ---------------------------------------------------------------------------------------

SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.normal(size=(40, 1)),
    "Laplace": lambda rng: rng.laplace(size=(40, 1)),
    "two groups": lambda rng: rng.normal(size=(40, 1)) + 6.0 * rng.integers(2, size=(40, 1)),
    "t, 3 degrees": lambda rng: rng.standard_t(3, size=(40, 1)),
}


def rank_of_exact_draw(name: str, number: int) -> tuple[int, int]:
    """The rank of one exact draw of θ among those of NUTS, and how many modes there were."""
    from jax import vmap

    from kembed.core.backend import float64
    from kembed.learning.learn import fit_kernel
    from kembed.learning.nuts import SAMPLED, log_posterior

    rng = generator("sampler", name, number)
    x, seed = SHAPES[name](rng), int(rng.integers(2**31))
    samples = kembed.sample_kernel(x, n_chains=1, n_warmup=200, n_draws=8 * DRAWS, progress=False, rng=seed)
    learned, prepared = fit_kernel(x, kembed.Gaussian(), rng=seed, effort=SAMPLED)  # the same problem
    middle = float(learned.state.thetas[0][0])
    grid = np.linspace(middle - 8.0, middle + 4.0, 1_201)
    height = float64("calibration")(
        lambda: np.asarray(vmap(lambda t: log_posterior(learned.state.spec, t[None], prepared.problem))(grid))
    )()
    density = np.exp(height - height.max())
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    below /= below[-1]
    exact = float(np.interp(rng.uniform(), below, grid))
    draws = []
    for mode, count in enumerate(rng.multinomial(DRAWS, samples.mass)):  # modes by their share
        pool = samples.theta[samples.chain_mode == mode].ravel()
        draws.append(pool[np.linspace(7, len(pool) - 1, count).astype(int)] if count else pool[:0])
    return int((np.concatenate(draws) < exact).sum()), len(learned.modes)


def sampler() -> None:
    from scipy.special import chdtrc

    print(f"### Ranks of exact draws among {DRAWS} draws of NUTS, {SETS} data sets of 40 rows\n")
    print("| data | sets | with several modes | ranks in ten bins | χ²(9) | p | mean rank / 100 (s.e.) |")
    print("|---|---|---|---|---|---|---|")
    each = SETS // len(SHAPES)
    found = {name: [rank_of_exact_draw(name, number) for number in range(each)] for name in SHAPES}
    found["all"] = [one for part in found.values() for one in part]
    for name, part in found.items():
        ranks, modes = np.array(part).T
        counts = np.bincount(ranks * BINS // (DRAWS + 1), minlength=BINS)
        chi = float(((counts - len(part) / BINS) ** 2).sum() / (len(part) / BINS))
        told = f"{' '.join(map(str, counts))} | {chi:.1f} | {chdtrc(BINS - 1, chi):.2f}"
        mean = share((ranks + 0.5) / (DRAWS + 1))
        print(f"| {name} | {len(part)} | {(modes > 1).sum()} | {told} | {mean} |", flush=True)
    print()


# --- intervals -----------------------------------------------------------------------------------------


def embedding_interval(n: int, lengthscale: float, samples: int = 300) -> list[float]:
    """The share of 40 points at which the 90% interval holds the truth, sample by sample."""
    mixture = coverage.MIXTURES["two components, D=1"]
    rng = generator("embedding", n, lengthscale)
    points = coverage.draw(rng, coverage.POINTS, *mixture)
    true = coverage.truth(points, lengthscale, *mixture)
    found = []
    for _ in range(samples):
        posterior = kembed.fit_embedding(coverage.draw(rng, n, *mixture), kembed.Gaussian(lengthscale))
        lower, upper = posterior.interval(points, 0.9)
        found.append(float(np.mean((lower < true) & (true < upper))))
    return found


def intervals() -> None:
    print("### Intervals: how often they hold the truth\n")
    print("| interval | case | wanted | covered (s.e.) |")
    print("|---|---|---|---|")
    for n in (20, 50, 200):
        print(f"| embedding, 90% | n = {n}, ℓ = 1 | .90 | {share(embedding_interval(n, 1.0))} |", flush=True)
    print()


# --- edges ---------------------------------------------------------------------------------------------

ARROWS = {(0, 2): 0.35, (1, 2): 0.2, (2, 3): 0.5, (0, 4): 0.12}  # coefficients of five variables


def five(rng: np.random.Generator, n: int = 120) -> np.ndarray:
    """Rows of a linear model with edges from clear to hardly visible."""
    rows = rng.normal(size=(n, 5))
    for (cause, effect), strength in ARROWS.items():
        rows[:, effect] += strength * rows[:, cause]
    return rows


def edges() -> None:
    print(f"### Edge frequencies: {GRAPHS} tables of 120 rows, {RESAMPLES} resamples each, Fisher's z\n")
    said, again = [], []
    pairs = [(a, b) for b in range(5) for a in range(b)]
    for number in range(GRAPHS):
        rng = generator("edges", number)
        found = kembed.pc(five(rng), test="fisher-z", n_bootstrap=RESAMPLES, rng=number, progress=False)
        other = kembed.pc(five(rng), test="fisher-z", rng=number, progress=False)
        near = {frozenset((edge.a, edge.b)) for edge in other.edges}
        for a, b in pairs:
            names = found.names[a], found.names[b]
            said.append(found.frequency(*names))
            again.append(frozenset(names) in near)
    said, again = np.array(said), np.array(again, dtype=float)
    print("| frequency said | pairs | mean frequency | found in new rows (s.e.) |")
    print("|---|---|---|---|")
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        some = (said >= low) & (said < high)
        told = f"| {low:.1f} to {min(high, 1):.1f} | {some.sum()} | {said[some].mean():.2f} |"
        print(f"{told} {share(again[some])} |", flush=True)
    print()


# --- levels --------------------------------------------------------------------------------------------


def samples_alike(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_t(4, size=(N, 2)), rng.standard_t(4, size=(N, 2))


def two_sample(rng: np.random.Generator, **how: Any) -> float:
    return kembed.mmd_test(
        *samples_alike(rng), **{"kernel": "median", "n_resamples": B, **how}, rng=rng
    ).pvalue


def paired(rng: np.random.Generator) -> float:
    x, y = samples_alike(rng)
    both = rng.normal(size=(N, 2))  # what a pair has in common
    return kembed.mmd_test(x + both, y + both, kernel="median", paired=True, n_resamples=B, rng=rng).pvalue


def weighted(rng: np.random.Generator) -> float:
    x, y = samples_alike(rng)
    weights = np.exp(0.5 * x[:, 0]), np.exp(0.5 * y[:, 0])  # of the row alone
    return kembed.mmd_test(x, y, kernel="median", weights=weights, n_resamples=B, rng=rng).pvalue


def units(rng: np.random.Generator) -> float:
    """Ten customers a sample with three rows each, which have much in common."""
    parts = [np.repeat(rng.normal(size=(10, 2)), 3, axis=0) + 0.3 * rng.normal(size=(30, 2)) for _ in "xy"]
    who = np.repeat(np.arange(10), 3)
    return kembed.mmd_test(*parts, kernel="median", unit=(who, who + 10), n_resamples=B, rng=rng).pvalue


def series(rng: np.random.Generator, test: str, rows: int, null: str = "wild") -> float:
    """Two independent series that remember, at half a step."""
    noise = rng.normal(size=(2, rows))
    for t in range(1, rows):
        noise[:, t] += 0.5 * noise[:, t - 1]
    run = kembed.mmd_test if test == "mmd" else kembed.hsic_test
    return run(*noise[:, :, None], kernel="median", null=null, n_resamples=B, rng=rng).pvalue


def independence(rng: np.random.Generator, **how: Any) -> float:
    return kembed.hsic_test(
        *samples_alike(rng), **{"kernel": "median", "n_resamples": B, **how}, rng=rng
    ).pvalue


def conditional(rng: np.random.Generator, rows: int = 60) -> float:
    z = rng.normal(size=(rows, 1))
    x, y = np.sin(2.0 * z) + rng.normal(size=(rows, 1)), z**2 + rng.normal(size=(rows, 1))
    return kembed.conditional_test(x, y, z, kernel="median", n_resamples=B, rng=rng).pvalue


def several(rng: np.random.Generator, kernel: str) -> float:
    parts = rng.standard_t(4, size=(3, 20, 2))
    return kembed.k_sample_test(*parts, kernel=kernel, n_resamples=B, rng=rng).pvalue


def drift(rng: np.random.Generator) -> float:
    x, y = samples_alike(rng)
    return (
        kembed.DriftDetector(kernel="median", n_resamples=B, random_state=int(rng.integers(2**31)))
        .fit(x)
        .pvalue(y)
    )


# name: (the test, one over the share of draws it gets). `benchmarks level` has more of fused tests.
LEVELS: dict[str, tuple[Callable[[np.random.Generator], float], int]] = {
    "mmd, permutation, median": (two_sample, 1),
    "mmd, permutation, biased": (partial(two_sample, statistic="biased"), 1),
    "mmd, permutation, fused": (partial(two_sample, kernel="fused"), 2),
    "mmd, permutation, ard": (partial(two_sample, kernel="ard"), 4),
    "mmd, features (bins of rows)": (partial(two_sample, statistic="features"), 2),
    "mmd, gamma": (partial(two_sample, null="gamma"), 1),
    "mmd, spectral": (partial(two_sample, null="spectral"), 1),
    "mmd, paired": (paired, 1),
    "mmd, weights": (weighted, 1),
    "mmd, units of three rows": (units, 1),
    "mmd, wild, AR(½), 100 rows": (partial(series, test="mmd", rows=100), 1),
    "k samples, median": (partial(several, kernel="median"), 1),
    "k samples, fused": (partial(several, kernel="fused"), 10),
    "DriftDetector": (drift, 1),
    "hsic, permutation, median": (independence, 1),
    "hsic, features": (partial(independence, statistic="features"), 4),
    "hsic, gamma": (partial(independence, null="gamma"), 1),
    "hsic, wild, AR(½), 100 rows": (partial(series, test="hsic", rows=100), 1),
    "hsic, shift, AR(½), 100 rows": (partial(series, test="hsic", rows=100, null="shift"), 1),
    "conditional, 60 rows": (conditional, 4),
}


def levels() -> None:
    print(f"### Levels: the share of p-values at most .05 and .10 where there is nothing; B = {B}\n")
    print("| test and null | draws | at most .05 (s.e.) | at most .10 (s.e.) |")
    print("|---|---|---|---|")
    for name, (run, part) in LEVELS.items():
        draws = LEVEL_DRAWS // part
        found = np.array([run(generator("levels", name, number)) for number in range(draws)])
        cells = " | ".join(share(found <= level + 1e-9) for level in (LEVEL, 2.0 * LEVEL))
        print(f"| {name} | {draws} | {cells} |", flush=True)
    print()


def main() -> None:
    print(f"Seed {SEED}; standard errors in brackets.\n")
    warnings.simplefilter("ignore")
    for part in PARTS:
        {"sampler": sampler, "intervals": intervals, "edges": edges, "levels": levels}[part]()


if __name__ == "__main__":
    main()

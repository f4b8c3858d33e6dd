"""Level of the permutation tests: 2,000 null draws for each kernel and kind of data ("bkl": 500 of each).

The rejection rates must lie within two or three binomial standard errors of the nominal level, and the
p-values must be uniform on {1/100, …, 1} (a chi-square over ten bins of ten values). KEMBED_KERNELS=fused
runs the default alone, KEMBED_TESTS=hsic one test, KEMBED_SETS (names with ; between them) some kinds of
data, KEMBED_ROWS other than 20 rows, KEMBED_REPETITIONS other than 2,000 draws.

KEMBED_PAIRINGS=100 draws two sides and pairs their rows at random so many times: given the sides the p-values
of the fused independence test are independent and uniform, and its features are computed once.
"""

import os
import warnings
import zlib

import numpy as np
from scipy.special import chdtrc

from benchmarks._workers import spread
from benchmarks.alternatives import NULLS
from kembed import hsic_test, mmd_test
from kembed.features import fused_pairs
from kembed.features.rows import Sample
from kembed.kernels.space import make_space
from kembed.permutation.fusion import Values, fuse
from kembed.permutation.nulls import resampled_pvalue
from kembed.permutation.rings import Ring, Star, draw_star
from kembed.tables.reader import read_tables
from kembed.testing.hsic import Side, pair_values

DRAWS = int(os.environ.get("KEMBED_REPETITIONS", "2000"))
SHARE = {("mmd", "bkl"): 4}  # slower ones take that part of the draws
B, N, SEED = 99, int(os.environ.get("KEMBED_ROWS", "20")), 2026
TESTS = os.environ.get("KEMBED_TESTS", "mmd,hsic").split(",")
SETS = os.environ.get("KEMBED_SETS", ";".join(NULLS)).split(";")
PAIRINGS = int(os.environ.get("KEMBED_PAIRINGS", "0"))
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


def paired_star(star: Star, order: np.ndarray) -> Star:
    """The same resamples of rows whose second side is in another order."""
    rings = tuple(Ring(ring.left, order[ring.right]) for ring in star.rings)
    return Star(rings, star.chosen, star.enumerated)


def paired_anew(job: tuple[str, int]) -> list[float]:
    """p-values of the fused independence test of two sides whose rows are paired at random."""
    name, r = job
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), r])
    x, y = NULLS[name].draw(rng, N)
    tables, _ = read_tables({"x": x, "y": y[:N]}, "raise", minimum=4, paired=True)
    left, right = (Sample(make_space(table.values, table.categorical)) for table in tables)
    pairs, ensemble = fused_pairs(left, right)
    sides = Side(left, left.values), Side(right, right.values)
    found = []
    for _ in range(PAIRINGS):
        star = paired_star(draw_star(N, B, rng), rng.permutation(N))
        values = [pair_values(pair, *sides, star, biased=False) for pair in pairs]
        statistics, entry = (np.concatenate(part, axis=-1) for part in zip(*values, strict=True))
        whole = fuse(Values(statistics, entry), ensemble.plan).whole
        found.append(resampled_pvalue(float(whole[0]), whole[1:]))
    return found


def pvalues(test: str, kernel: str, name: str, draws: int) -> np.ndarray:
    if PAIRINGS and (test, kernel) == ("hsic", "fused"):
        return np.concatenate(spread(paired_anew, [(name, r) for r in range(draws // PAIRINGS)]))
    return np.array(spread(draw, [(test, kernel, name, r) for r in range(draws)]))


def main() -> None:
    print(f"n = m = {N}, B = {B}, seed {SEED}; z is in binomial standard errors, the largest of the three\n")
    print("| test | kernel | data | draws | .01 | .05 | .10 | z | uniform: p |")
    print("|---|---|---|---|---|---|---|---|---|")
    for test in TESTS:
        kernels = ("fused", "median") if test == "hsic" else ("fused", "bkl", "median")
        for kernel in (kernel for kernel in kernels if kernel in KERNELS):
            draws = DRAWS // SHARE.get((test, kernel), 1)
            error = np.sqrt(LEVELS * (1 - LEVELS) / draws)
            for name in SETS:
                p = pvalues(test, kernel, name, draws)
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

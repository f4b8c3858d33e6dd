"""Level of the permutation tests: 2,000 null draws for each kernel and kind of data ("bkl": 500 of each).

The rejection rates must lie within two or three binomial standard errors of the nominal level, and the
p-values must be uniform on {1/100, …, 1} (a chi-square over ten bins of ten values). KEMBED_KERNELS=fused
runs the default alone, KEMBED_TESTS=hsic one test, KEMBED_SETS (names with ; between them) some kinds of
data, KEMBED_ROWS other than 20 rows, KEMBED_REPETITIONS other than 2,000 draws.

KEMBED_PAIRINGS=100 draws two sides and pairs their rows at random so many times: given the sides the p-values
of the fused independence test are independent and uniform, and its members are computed once.
"""

import os
import warnings
import zlib
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc

from benchmarks._workers import spread
from benchmarks.alternatives import NULLS
from kembed import hsic_test, mmd_test
from kembed.kernels.space import make_space
from kembed.permutation.fusion import Values, fuse, in_places
from kembed.permutation.low_rank import computed
from kembed.permutation.nulls import resampled_pvalue
from kembed.permutation.rings import draw_star
from kembed.tables.reader import read_tables
from kembed.testing.independence import meeting_values
from kembed.testing.members import fused_relations
from kembed.testing.members.rows import read_scales
from kembed.testing.procedure import read_procedure

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


def paired_anew(job: tuple[str, int]) -> list[float]:
    """p-values of the fused independence test of two sides whose rows are paired at random."""
    name, r = job
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), r])
    x, y = NULLS[name].draw(rng, N)
    tables, _ = read_tables({"x": x, "y": y[:N]}, "raise", minimum=4, paired=True)
    sides = (read_scales(make_space(table.values, table.categorical)) for table in tables)
    meetings, choice = fused_relations(*sides)
    meetings = [replace(each, left=computed(each.left), right=computed(each.right)) for each in meetings]
    procedure = read_procedure("unbiased", "permutation", B, None, None, rng)
    stars = [rng.permutation(N)[draw_star(N, B, rng).pairings(slice(None))] for _ in range(PAIRINGS)]
    values = [meeting_values(each, np.concatenate(stars), procedure) for each in meetings]
    every = in_places(values, list(range(len(choice.kernels))))
    found = []
    for rows in np.split(every.statistics, PAIRINGS):
        whole = fuse(Values(rows, every.entry), choice.plan).whole
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

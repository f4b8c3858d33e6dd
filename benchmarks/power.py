"""Power of the two-sample tests on SUITE and HELD_OUT, which the groups of members were both chosen on.

`python -m benchmarks power` runs SUITE (with "bkl" alone) and HELD_OUT. KEMBED_REPETITIONS is for fewer than
200 repetitions, KEMBED_SETS (names with ; between them) for some sets, KEMBED_ONLY=fused leaves the other
tests out. Level .05, B = 299; KEMBED_RESAMPLES for others (a user's default is 999). "grid" is a fused MMD
over a uniform log grid of Gaussians, each over its null standard deviation, the largest taken; "oracle" is
the best single lengthscale in hindsight.
"""

import os
import warnings

import numpy as np

from benchmarks._workers import LEVEL, SEED, B, seeded, spread
from benchmarks.alternatives import HELD_OUT, SUITE
from kembed import mmd_test
from kembed.kernels.discrete import space_kernel
from kembed.permutation.designs import exchange_labels
from kembed.permutation.nulls import column_pvalues, resampled_pvalue
from kembed.permutation.pool import Pool, make_pool
from kembed.tables.reader import read_tables
from kembed.testing.dense import choose_kernels, mmd2, values_of

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "200"))
SETS = os.environ.get("KEMBED_SETS")
ONLY_FUSED = os.environ.get("KEMBED_ONLY") == "fused"
RATIOS = np.geomspace(0.02, 30.0, 13)  # of the median distance


def read_pool(x, y) -> Pool:
    """Both samples as one."""
    tables, _ = read_tables({"x": x, "y": y}, nan_policy="raise", same_columns=True, paired=False, minimum=2)
    return make_pool(tables, None, "none")


def scale_statistics(pool: Pool, scales: np.ndarray, n_resamples: int, rng) -> np.ndarray:
    """The unbiased MMD² of single lengthscales, for the data (first row) and every resample."""
    ensemble = choose_kernels([space_kernel(pool.space, scale) for scale in scales], pool.space)
    labels, _ = exchange_labels(pool.labels, np.zeros(pool.size, dtype=int), n_resamples, rng)
    return values_of(ensemble, lambda matrix: mmd2(matrix, labels, biased=False)).statistics


def single_scales(x, y, rng) -> tuple[np.ndarray, float, float]:
    """p-values of single lengthscales, of the median, and of the uniform grid's largest."""
    pool = read_pool(x, y)
    values = scale_statistics(pool, np.append(RATIOS, 1.0) * pool.space.median(), B, rng)
    p = column_pvalues(values[0], values[1:])
    largest = ((values - values.mean(axis=0)) / values.std(axis=0))[:, :-1].max(axis=1)
    return p[:-1], float(p[-1]), resampled_pvalue(float(largest[0]), largest[1:])


def repetition(job: tuple[str, str, int, bool]) -> np.ndarray:
    """p-values of: default, bkl (or nan), median, grid, then every single lengthscale."""
    suite, name, r, with_bkl = job
    warnings.simplefilter("ignore")
    rng = seeded(name, r)
    x, y = (SUITE if suite == "SUITE" else HELD_OUT)[name].draw(rng)
    default = mmd_test(x, y, n_resamples=B, rng=rng).pvalue
    if ONLY_FUSED:
        return np.append(default, np.full(3 + len(RATIOS), np.nan))
    learned = mmd_test(x, y, kernel="bkl", n_resamples=B, rng=rng).pvalue if with_bkl else np.nan
    singles, median, grid = single_scales(x, y, rng)
    return np.concatenate([[default, learned, median, grid], singles])


def table(suite: str, sets, with_bkl: bool) -> None:
    print(f"\n{suite}: {REPETITIONS} repetitions, B = {B}, level {LEVEL}, seed {SEED}")
    print("| set | fused (default) | bkl | median | grid | oracle (ratio) | fused/oracle |")
    print("|---|---|---|---|---|---|---|")
    powers = []
    for name in sets if SETS is None else [name for name in SETS.split(";") if name in sets]:
        jobs = [(suite, name, r, with_bkl) for r in range(REPETITIONS)]
        p = np.stack(spread(repetition, jobs))
        power = np.where(np.isnan(p), np.nan, p <= LEVEL + 1e-12).mean(axis=0)
        best = int(np.argmax(power[4:]))
        oracle = power[4 + best]
        powers.append([*power[:4], oracle])
        print(
            f"| {name} | {power[0]:.2f} | {power[1]:.2f} | {power[2]:.2f} | {power[3]:.2f} "
            f"| {oracle:.2f} ({RATIOS[best]:.2g}) | {power[0] / oracle:.2f} |",
            flush=True,
        )
    if not powers:
        return
    mean = np.mean(powers, axis=0)
    error = np.sqrt((np.array(powers) * (1 - np.array(powers)) / REPETITIONS).sum(axis=0)) / len(powers)
    print("| **mean** | " + " | ".join(f"{m:.3f}" for m in mean) + " | |")
    print("| standard error | " + " | ".join(f"{e:.3f}" for e in error) + " | |")


def main() -> None:
    table("SUITE", SUITE, with_bkl=True)
    table("HELD_OUT", HELD_OUT, with_bkl=False)


if __name__ == "__main__":
    main()

"""Rows that `required_rows` asks for, beside the rows at which fresh samples reach the power.

    KEMBED_WORKERS=1 OMP_NUM_THREADS=1 python -m benchmarks.sample_size [PILOTS]

Three differences of three normal columns, pilots of 200 rows, 60 draws at each of five numbers of rows,
power .8.
The truth comes from 400 fresh samples at each of eight numbers of rows, interpolated on a probit scale.
"""

import sys

import numpy as np
from scipy.stats import norm

from benchmarks._workers import seeded, spread
from kembed import mmd_test, required_rows

B, PILOT, DRAWS, FRESH = 99, 200, 60, 400
SIZES = (40, 60, 85, 120, 170, 240, 340, 480)
KINDS = {"shift of .4 sd in one column": "one", "shift of .25 sd in all": "all", "correlation .4": "pair"}


def two(kind: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x, y = rng.normal(size=(2, n, 3))
    if kind == "one":
        y[:, 0] += 0.4
    elif kind == "all":
        y += 0.25
    else:
        y[:, 1] = 0.4 * y[:, 0] + np.sqrt(1.0 - 0.16) * y[:, 1]
    return x, y


def fresh(job: tuple[str, int, int]) -> bool:
    kind, n, r = job
    rng = seeded(f"fresh {kind} {n}", r)
    return mmd_test(*two(kind, n, rng), n_resamples=B, rng=rng).pvalue <= 0.05


def planned(job: tuple[str, int]) -> tuple[int, int, int]:
    kind, r = job
    rng = seeded(f"pilot {kind}", r)
    x, y = two(kind, PILOT, rng)
    if kind == "pair":
        found = required_rows(x, y, n_draws=DRAWS, n_resamples=B, rng=rng)
    else:
        shift = {"one": {"shift": "0.4 sd", "columns": ["column 0"]}, "all": {"shift": "0.25 sd"}}[kind]
        found = required_rows(x, **shift, n_draws=DRAWS, n_resamples=B, rng=rng)
    return found.needed, *found.interval


def main() -> None:
    pilots = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{pilots} pilots of {PILOT} rows\n")
    print("| difference | truth | median of needed (5%, 95%) | interval holds it |")
    print("|---|---|---|---|")
    for title, kind in KINDS.items():
        power = [np.mean(spread(fresh, [(kind, n, r) for r in range(FRESH)])) for n in SIZES]
        probits = np.maximum.accumulate(norm.ppf(np.clip(power, 0.01, 0.995)))
        truth = np.exp(np.interp(norm.ppf(0.8), probits, np.log(SIZES)))
        found = np.array(spread(planned, [(kind, r) for r in range(pilots)]))
        low, middle, high = np.quantile(found[:, 0], [0.05, 0.5, 0.95])
        inside = np.mean((found[:, 1] <= truth) & (truth <= found[:, 2]))
        print(f"| {title} | {truth:.0f} | {middle:.0f} ({low:.0f}, {high:.0f}) | {inside:.2f} |", flush=True)


if __name__ == "__main__":
    main()

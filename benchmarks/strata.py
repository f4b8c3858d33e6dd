"""Level and power of the two-sample test within strata, of clusters of unequal size, and of both.

`python -m benchmarks.strata [DRAWS]`. Strata have means 0, 3, -2 and 6 and other shares in either sample, so
that the test without strata rejects nearly always. Clusters have 1 to 12 rows and share half of their
variance. "shift" moves every column of the second sample by .3 standard deviations.
"""

import sys

import numpy as np
import polars as pl

from benchmarks._workers import LEVEL, SEED, spread
from kembed import mmd_test

B = 99
MEANS = np.array([0.0, 3.0, -2.0, 6.0])
SHARES = ((0.55, 0.25, 0.15, 0.05), (0.05, 0.2, 0.25, 0.5))
CELLS = {
    "strata": ("strata", 150, "auto"),
    "strata, bins": ("strata", 3_000, "features"),
    "clusters": ("unit", 150, "auto"),
    "clusters, bins": ("unit", 3_000, "features"),
    "strata and clusters": ("both", 150, "auto"),
    "strata and clusters, bins": ("both", 3_000, "features"),
}


def sample(rng: np.random.Generator, rows: int, kind: str, k: int, shift: float) -> pl.DataFrame:
    """One sample with columns a, b, and those that name its clusters and strata."""
    sizes = rng.integers(1, 13, size=rows) if kind != "strata" else np.ones(rows, dtype=int)
    cluster = np.repeat(np.arange(rows), sizes)[:rows]
    site = rng.choice(4, size=rows, p=SHARES[k])[cluster] if kind != "unit" else np.zeros(rows, dtype=int)
    values = rng.normal(size=(rows, 2))
    if kind != "strata":
        values = (values + rng.normal(size=(rows, 2))[cluster]) / np.sqrt(2.0)
    values += MEANS[site][:, None] + shift
    return pl.DataFrame({"a": values[:, 0], "b": values[:, 1], "cluster": cluster, "site": site})


def repetition(job: tuple[str, int, float]) -> tuple[float, float]:
    """p-values with the design that the data have, and without it."""
    name, r, shift = job
    kind, rows, statistic = CELLS[name]
    rng = np.random.default_rng([SEED, r, list(CELLS).index(name)])
    x, y = (sample(rng, rows, kind, k, k * shift) for k in (0, 1))
    used = {"strata": {"strata": "site"}, "unit": {"unit": "cluster"}}.get(
        kind, {"strata": "site", "unit": "cluster"}
    )
    dropped = [c for c in ("cluster", "site") if c not in used.values()]
    how = {"n_resamples": B, "statistic": statistic, "rng": r}
    own = mmd_test(x.drop(dropped), y.drop(dropped), **used, **how).pvalue
    plain = mmd_test(x.drop("cluster", "site"), y.drop("cluster", "site"), **how).pvalue
    return own, plain


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / draws)
    print(f"level {LEVEL}, B = {B}, {draws} draws; standard error {error:.3f} at the level")
    print("| cell | level | without the design | shift of .3 sd |\n|---|---|---|---|")
    for name in CELLS:
        null = np.array(list(spread(repetition, [(name, r, 0.0) for r in range(draws)])))
        moved = np.array(list(spread(repetition, [(name, r, 0.3) for r in range(draws // 4)])))
        level, plain = (null <= LEVEL).mean(axis=0)
        print(f"| {name} | {level:.3f} | {plain:.3f} | {(moved[:, 0] <= LEVEL).mean():.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Missing values as part of a sample: the level of `nan_policy="include"` under four nulls, and its power.

`python -m benchmarks.missing [REPETITIONS]`, seed 28. 120 + 100 rows of five columns (two numbers, a date, a
category, a flag). Level: both samples come from one process, whose values are missing (1) at random, (2) more
often in rows of one kind, (3) in the category, (4) in the date; also in a test of independence and a
conditional test. Power: only missingness changes, 40% of one column vanishes, and, for comparison, rows
omitted.
"""

import sys

import numpy as np
import polars as pl

import kembed

SEED, ROWS = 28, (120, 100)


def table(rng: np.random.Generator, n: int) -> pl.DataFrame:
    """Complete rows."""
    a = rng.normal(size=n)
    return pl.DataFrame(
        {
            "a": a,
            "b": a + rng.standard_t(4, size=n),
            "day": pl.Series(rng.integers(18_000, 18_400, n)).cast(pl.Int32).cast(pl.Date),
            "kind": rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
            "flag": rng.random(n) < 0.3,
        }
    )


def blanked(
    frame: pl.DataFrame, column: str, share: np.ndarray | float, rng: np.random.Generator
) -> pl.DataFrame:
    """The same with values of a column missing, each with its probability."""
    gone = pl.Series(rng.random(frame.height) < share)
    return frame.with_columns(pl.when(gone).then(None).otherwise(pl.col(column)).alias(column))


def at_random(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return blanked(blanked(frame, "a", 0.2, rng), "b", 0.3, rng)


def by_kind(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    return blanked(frame, "b", np.where(frame["kind"] == "x", 0.05, 0.6), rng)


NULLS = {
    "at random": at_random,
    "more in rows of one kind": by_kind,
    "in the category": lambda frame, rng: blanked(frame, "kind", 0.3, rng),
    "in the date": lambda frame, rng: blanked(frame, "day", 0.4, rng),
}
POWER = {
    "missing 5% and 20% of a": (0.05, 0.2),
    "missing 0% and 40% of a": (0.0, 0.4),
}


def _line(name: str, rejected: list[bool]) -> None:
    share = float(np.mean(rejected))
    print(
        f"| {name} | {share:.3f} | {np.sqrt(max(share * (1 - share), 0.0475) / len(rejected)):.3f} |",
        flush=True,
    )


def main(repetitions: int) -> None:
    print("| setting | rejected at .05 | s.e. |\n|---|---|---|")
    how = {"n_resamples": 99, "rng": 0}
    for name, make in NULLS.items():
        found = []
        for k in range(repetitions):
            rng = np.random.default_rng([SEED, k])
            x, y = (make(table(rng, n), rng) for n in ROWS)
            found.append(kembed.mmd_test(x, y, nan_policy="include", **how).pvalue <= 0.05)
        _line(f"level, missing {name}", found)
    for name, shares in POWER.items():
        for policy in ("include", "omit") if max(shares) < 0.4 else ("include",):  # else most rows would go
            found = []
            for k in range(repetitions // 2):
                rng = np.random.default_rng([SEED + 1, k])
                x, y = (
                    blanked(table(rng, n), "a", share, rng) for n, share in zip(ROWS, shares, strict=True)
                )
                found.append(kembed.mmd_test(x, y, nan_policy=policy, **how).pvalue <= 0.05)
            _line(f"power, {name}, {policy}", found)
    sided, conditional, informative = [], [], []
    for k in range(repetitions // 2):
        rng = np.random.default_rng([SEED + 2, k])
        x, y, z = rng.normal(size=(3, 120))
        x, y = x + z, y + z
        gaps = rng.random((3, 120)) < 0.2
        x, y, z = (np.where(gap, np.nan, side) for gap, side in zip(gaps, (x, y, z), strict=True))
        free = np.where(rng.random(120) < 0.2, np.nan, rng.normal(size=120))
        sided.append(kembed.hsic_test(x, free, nan_policy="include", **how).pvalue <= 0.05)
        told = np.where(np.nan_to_num(x) > 0.5, np.nan, free)
        informative.append(kembed.hsic_test(x, told, nan_policy="include", **how).pvalue <= 0.05)
        conditional.append(kembed.conditional_test(free, y, z, nan_policy="include", **how).pvalue <= 0.05)
    _line("level, independence, both sides missing at random", sided)
    _line("power, independence, y missing where x is large", informative)
    _line("level, conditional, all sides missing at random", conditional)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)

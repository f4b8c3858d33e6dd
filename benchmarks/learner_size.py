"""`KernelLearner` in front of `RBFSampler` or `Nystroem` and a linear model, at a million rows.

`python -m benchmarks.learner_size [ROWS] [DIAMONDS.csv]`: R² on a tenth of the rows that was left out, and
the processor seconds that choosing gamma took: by the median rule, by learning without labels, and by
cross-validation with labels (seven values, three folds, 50,000 rows). Ridge regression on 200 features (of
single precision), from sums over chunks of rows. Seed 2026. Diamonds is the table of that name (54,000 rows;
ggplot2, Kaggle), whose six other numbers predict the logarithm of the price; all else is made here.
"""

import sys
import time

import numpy as np

from benchmarks._workers import SEED
from kembed import KernelLearner

FEATURES, RIDGE, CHUNK = 200, 1e-3, 50_000
GRID = 10.0 ** np.arange(-1.5, 1.6, 0.5)  # times 1/columns, for columns of unit spread
CHOSEN_BY, FOLDS = 50_000, 3


def waves(rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Two columns in four clumps, and a target that turns over a quarter of their spread."""
    X = rng.choice([-3.0, 3.0], (rows, 2)) + rng.normal(size=(rows, 2))
    return X, np.sin(3.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + 0.3 * rng.normal(size=rows)


def sheet(rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns that are smooth functions of three hidden numbers, and a curved target of these."""
    hidden = rng.normal(size=(rows, 3))
    X = np.sin(hidden @ rng.normal(size=(3, 10)) + rng.uniform(0, 6, 10)) + 0.05 * rng.normal(size=(rows, 10))
    return X, np.tanh(hidden[:, 0] * hidden[:, 1]) + np.sin(2.0 * hidden[:, 2]) + 0.3 * rng.normal(size=rows)


def cloud(rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Ten independent normal columns, of which four matter."""
    X = rng.normal(size=(rows, 10))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.3 * rng.normal(size=rows)


def diamonds(path: str) -> tuple[np.ndarray, np.ndarray]:
    import polars as pl

    table = pl.read_csv(path)
    numbers = table.select("carat", "depth", "table", "x", "y", "z").to_numpy().astype(float)
    return numbers, np.log(table["price"].to_numpy().astype(float))


def ridge(feature_map, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coefficients from sums over chunks, the constant last."""
    gram, across = np.zeros((FEATURES + 1,) * 2), np.zeros(FEATURES + 1)
    for i in range(0, len(X), CHUNK):
        F = np.column_stack([feature_map.transform(X[i : i + CHUNK]), np.ones(len(X[i : i + CHUNK]))])
        gram += F.T @ F
        across += F.T @ y[i : i + CHUNK]
    return np.linalg.solve(gram + RIDGE * np.eye(FEATURES + 1), across)


def r2(kind, gamma: float, train, test) -> float:
    """R² on rows that were left out."""
    feature_map = kind(gamma=gamma, n_components=FEATURES, random_state=0).fit(train[0][:CHUNK])
    w = ridge(feature_map, *train)
    parts = [
        feature_map.transform(test[0][i : i + CHUNK]) @ w[:-1] + w[-1] for i in range(0, len(test[0]), CHUNK)
    ]
    return 1.0 - float(np.square(test[1] - np.concatenate(parts)).mean() / test[1].var())


def by_median(kind, X: np.ndarray, y: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    return float(0.5 / np.median(pdist(X[:1_000])) ** 2)


def by_learning(kind, X: np.ndarray, y: np.ndarray) -> float:
    return KernelLearner().fit(X).gamma_


def by_folds(kind, X: np.ndarray, y: np.ndarray) -> float:
    X, y = X[:CHOSEN_BY], y[:CHOSEN_BY]
    fold = np.arange(len(X)) % FOLDS
    scores = []
    for gamma in GRID / X.shape[1]:
        parts = [((X[fold != k], y[fold != k]), (X[fold == k], y[fold == k])) for k in range(FOLDS)]
        scores.append(np.mean([r2(kind, gamma, *part) for part in parts]))
    return float(GRID[int(np.argmax(scores))] / X.shape[1])


RULES = {"median": by_median, "learned": by_learning, "cross-validation": by_folds}


def compared(name: str, X: np.ndarray, y: np.ndarray, rng) -> None:
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    order = rng.permutation(len(X))
    X, y = X[order], y[order]
    cut = len(X) - len(X) // 10
    X = ((X - X[:cut].mean(axis=0)) / X[:cut].std(axis=0)).astype(np.float32)
    train, test = (X[:cut], y[:cut]), (X[cut:], y[cut:])
    for kind in (RBFSampler, Nystroem):
        found, seconds, fits = [], [], []
        for rule in RULES.values():
            start = time.process_time()
            gamma = rule(kind, *train)
            seconds.append(time.process_time() - start)
            found.append((r2(kind, gamma, train, test), gamma))
            fits.append(time.process_time() - start - seconds[-1])
        scores = " | ".join(f"{score:.3f} ({(0.5 / gamma) ** 0.5:.2f})" for score, gamma in found)
        times = " | ".join(f"{value:.1f}" for value in (*seconds, np.mean(fits)))
        print(f"| {name} | {len(X):,} x {X.shape[1]} | {kind.__name__} | {scores} | {times} |", flush=True)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(SEED)
    titles = [f"{rule}: R² (lengthscale)" for rule in RULES] + [f"seconds, {rule}" for rule in RULES]
    print(f"| data | rows | features | {' | '.join(titles)} | one fit |\n" + "|---" * 10 + "|")
    for make in (waves, cloud, sheet):
        compared(make.__name__, *make(rows, rng), rng)
    if len(sys.argv) > 2:
        compared("diamonds", *diamonds(sys.argv[2]), rng)


if __name__ == "__main__":
    main()

"""The AUC of `compare` beside that of tuned boosting on real tables, and what its interval covers."""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.real_tables import real_tables
from kembed import Gaussian, compare
from kembed.comparing.auc import classifier_auc

SEED, REPETITIONS = 7, {50: 120, 200: 120, 1000: 30}
# Learning rate, trees, leaves of the boosted trees that are tried; the best of them by cross-validation.
GRID = ((0.03, 300, 8), (0.03, 300, 31), (0.1, 100, 8), (0.1, 200, 31))


def tuned_auc(x: Any, y: Any) -> float:
    """The largest AUC of the grid, each by the same five folds."""
    import pandas as pd
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import TargetEncoder

    rows, labels = pd.concat([x, y]), np.repeat([0, 1], [len(x), len(y)])
    text = make_column_selector(dtype_include=["object", "string", "category"])
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED)
    found = []
    for rate, trees, leaves in GRID:
        encode = make_column_transformer((TargetEncoder(random_state=SEED), text), remainder="passthrough")
        boosting = HistGradientBoostingClassifier(
            learning_rate=rate, max_iter=trees, max_leaf_nodes=leaves, random_state=SEED
        )
        model = make_pipeline(encode, boosting)
        found.append(cross_val_score(model, rows, labels, scoring="roc_auc", cv=folds).mean())
    return float(max(found))


def on_real_tables() -> None:
    print("| table | rows | AUC of compare, 95% interval | best column | tuned boosting | s |")
    print("|---|---|---|---|---|---|")
    for name, (x, y) in real_tables().items():
        tuned = tuned_auc(x, y)
        start = time.process_time()
        found = compare(x, y, n_resamples=39)
        seconds = time.process_time() - start
        best = max(max(column.auc, 1.0 - column.auc) for column in found.columns)
        low, high = found.auc_interval
        auc = f"{found.auc:.3f} ({low:.3f} to {high:.3f})"
        print(
            f"| {name} | {len(x) + len(y):,} | {auc} | {best:.3f} | {tuned:.3f} | {seconds:.1f} |", flush=True
        )


def _normal(shift: float, columns: int) -> Any:
    def draw(rng: np.random.Generator, n: int) -> Any:
        x, y = rng.normal(size=(2, n, columns))
        y[:, 0] += shift
        return x, y

    return draw


def _xor(rng: np.random.Generator, n: int) -> Any:
    """The signs of two of five columns agree in x and disagree in y, in nine rows of ten."""
    x, y = rng.normal(size=(2, n, 5))
    for part, sign in ((x, 1.0), (y, -1.0)):
        flip = (sign * part[:, 0] * part[:, 1] < 0.0) & (rng.random(n) < 0.8)
        part[flip, 1] *= -1.0
    return x, y


# The largest AUC that any classifier has: Φ(δ/√2) for a shift of δ, and .9 where 9 signs of 10 agree.
SETS = {
    "no difference, 5 columns": (_normal(0.0, 5), 0.5),
    "no difference, 30 columns": (_normal(0.0, 30), 0.5),
    "shift of .5 sd in 1 of 5": (_normal(0.5, 5), 0.6382),
    "shift of 1 sd in 1 column": (_normal(1.0, 1), 0.7602),
    "shift of 2 sd in 1 of 5": (_normal(2.0, 5), 0.9214),
    "signs of two of 5 agree or not": (_xor, 0.9),
}


def coverage() -> None:
    """How often the interval holds the mean AUC of so many rows, and has its lower end below the largest."""
    print("\n| samples | rows of each | largest AUC | mean AUC | covers the mean | low end below largest |")
    print("|---|---|---|---|---|---|")
    for name, (draw, largest) in SETS.items():
        for n, times in REPETITIONS.items():
            rng = np.random.default_rng([SEED, n])
            found = [classifier_auc(draw(rng, n), Gaussian(2.0)) for _ in range(times)]
            mean = float(np.mean([each.auc for each in found]))
            covers = np.mean([low <= mean <= high for _, (low, high) in found])
            below = np.mean([interval[0] <= largest for _, interval in found])
            shown = [
                f"{100 * share:.1f}% ± {100 * np.sqrt(share * (1 - share) / times):.1f}"
                for share in (covers, below)
            ]
            print(f"| {name} | {n} | {largest:.3f} | {mean:.3f} | {shown[0]} | {shown[1]} |", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    on_real_tables()
    coverage()


if __name__ == "__main__":
    main()

"""What changed, in numbers a person knows: means, spreads, shares of a column, and the AUC of the witness."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kembed.comparing.changes import of_numbers
from kembed.comparing.difference import Samples, Values
from kembed.core.backend import Float
from kembed.core.ordering import sorted_rows
from kembed.core.text import plain
from kembed.data.tables import Tables
from kembed.embeddings.empirical import empirical
from kembed.kernels.base import Kernel
from kembed.testing.outcome import ColumnResults

# What is worth a word: a shift of so many standard deviations, a ratio of spreads this far from 1.
SHIFT, RATIO = 0.1, 1.1
ROWS = 2_000  # of each sample: the standard error of an AUC is then at most .01
LEVELS = 5  # as many categories as one looks at in a table
QUANTILES = {"minimum": 0.0, "quartile": 0.25, "median": 0.5, "upper quartile": 0.75, "maximum": 1.0}


@dataclass(frozen=True)
class ColumnSummary:
    """One column of both samples.

    For numbers `x` and `y` hold mean, sd, quartiles and range; for categories the shares of the levels that
    changed most. `change` says it in words.
    """

    name: str
    categorical: bool
    pvalue: float  # of the test of this column alone
    adjusted_pvalue: float  # corrected for the number of columns
    sensitivity: float  # share of the witness's variance that needs this column
    x: dict[str, float]
    y: dict[str, float]
    change: str

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain types."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name}: {self.change} (p = {self.adjusted_pvalue:.2g} for all columns)"


def summarise(
    tables: Tables, tests: ColumnResults, sensitivity: Values, labels: tuple[str, str]
) -> tuple[ColumnSummary, ...]:
    """Every column, the clearest difference first: by p-value, then by statistic."""
    found = []
    for d, (test, share) in enumerate(zip(tests, sensitivity, strict=True)):
        columns = [table.values[:, d] for table in tables]
        categorical = bool(tables[0].categorical[d])
        if categorical:
            x, y = (_shares(column, tables[0].levels[d]) for column in columns)
            top = sorted(x, key=lambda level: -abs(x[level] - y[level]))[:LEVELS]
            x, y = ({level: side[level] for level in top} for side in (x, y))
            change = f"{top[0]!r} is {x[top[0]]:.1%} of {labels[0]} and {y[top[0]]:.1%} of {labels[1]}"
        else:
            x, y = (_moments(column) for column in columns)
            moments = _changed_moments(x, y, labels)
            change = "; ".join([moments, *of_numbers((columns[0], columns[1]), labels)])
        ps = test.pvalue, test.adjusted_pvalue
        found.append(ColumnSummary(test.name, categorical, *ps, float(share), x, y, change))
    order = sorted(range(len(found)), key=lambda d: (tests[d].adjusted_pvalue, -tests[d].statistic))
    return tuple(found[d] for d in order)


def _moments(column: Float[np.ndarray, " n"]) -> dict[str, float]:
    size = float(np.abs(column).max()) or 1.0  # sums and squares of the largest numbers must stay numbers
    scaled = column / size
    sd = float(np.std(scaled, ddof=1)) if len(column) > 1 else 0.0
    quantiles = size * np.quantile(scaled, list(QUANTILES.values()))
    ends = dict(zip(QUANTILES, quantiles.tolist(), strict=True))
    return {"mean": size * float(np.mean(scaled)), "sd": size * sd, **ends}


def _shares(codes: Float[np.ndarray, " n"], levels: tuple[Any, ...]) -> dict[str, float]:
    counts = np.bincount(codes.astype(int), minlength=len(levels)) / len(codes)
    return {str(level): float(share) for level, share in zip(levels, counts, strict=True)}


def _changed_moments(x: dict[str, float], y: dict[str, float], labels: tuple[str, str]) -> str:
    """The mean, and the spread where that is what changed."""
    low, high = sorted((x["sd"], y["sd"]))
    pooled = high * np.sqrt(0.5 * (1.0 + (low / high) ** 2)) if high > 0.0 else 0.0
    gap = y["mean"] - x["mean"]
    mean = f"mean {plain(x['mean'])} in {labels[0]}, {plain(y['mean'])} in {labels[1]}"
    if pooled > 0.0 and abs(gap) >= SHIFT * pooled:
        mean += f" ({abs(gap) / pooled:.2g} sd {'higher' if gap > 0 else 'lower'})"
    narrow, wide = labels if x["sd"] < y["sd"] else labels[::-1]
    if low > 0.0 and high >= RATIO * low:
        mean += f"; spread {high / low:.2g} times as wide in {wide}"
    elif low == 0.0 < high:
        mean += f"; constant in {narrow}"
    return mean


def separation(samples: Samples, kernel: Kernel, seed: int) -> float:
    """The AUC (area under the ROC curve) of the witness w as a score that tells rows of x from rows of y.

    It is P{w(X) > w(Y)} + ½ P{w(X) = w(Y)} for a random row of either sample: given one row of each, how
    often their values tell which is which. ½ says that rows tell nothing, 1 that they always do. Rows are
    split at random into halves, each half is judged by the empirical witness of the other, and the two are
    averaged. At most 2,000 rows of each sample are used.
    """
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    chosen = [sorted_rows(rows)[rng.permutation(len(rows))[:ROWS]] for rows in samples]
    found = []
    for fold in (0, 1):
        x, y = (rows[fold::2] for rows in chosen)
        mu, nu = (empirical(rows[1 - fold :: 2], kernel) for rows in chosen)
        judged = np.concatenate([x, y])
        is_x = np.arange(len(judged)) < len(x)
        found.append(roc_auc_score(is_x, mu.mean(judged) - nu.mean(judged)))
    return float(np.mean(found))

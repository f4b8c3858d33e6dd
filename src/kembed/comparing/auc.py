"""How well single rows can be classified: a cross-validated AUC, with its interval."""

from typing import Any, NamedTuple

import numpy as np

from kembed.comparing.column_effects import auc_interval, superiority
from kembed.comparing.difference import Samples
from kembed.core.backend import Bool, Float, Int
from kembed.core.ordering import comes_before, middle_ranks, row_order
from kembed.embeddings.empirical import row_blocks
from kembed.kernels.base import Kernel
from kembed.tables.diagnostics import fingerprints

ROWS = 25_000  # of each sample: the standard error of an AUC is then at most .003
LANDMARKS = 500  # of each sample, for the witness
FOLDS = 5
MANY, FEW_FOLDS = 10_000, 3  # of so many rows in all and more fewer folds do, and more leaves pay
REPEATS, FEW = 2, 400  # the folds of at most so many rows in all are drawn twice
CHOOSING = 6_000  # training rows at most, where a candidate is chosen
# What fitting adds to the variance of an AUC, as a factor: measured (`python -m benchmarks separation`), and
# 2.25 by the rule of Nadeau & Bengio (2003) for five folds.
FITTED = 2.0
COLUMNS = 40  # that boosting sees, those with the best AUC in the training rows
LEVELS = 64  # a category of more is encoded by its levels' shares in the training rows
# Of the folds, whatever the seed of the test is: the AUC is a function of the samples.
SEED = 1_722_792_823
BOOSTING: Any = {
    False: {"learning_rate": 0.1, "max_iter": 100, "max_leaf_nodes": 16},
    True: {"learning_rate": 0.2, "max_iter": 150, "max_leaf_nodes": 31},
}


class ClassifierAUC(NamedTuple):
    """An AUC and its 95% interval."""

    auc: float
    interval: tuple[float, float]


UNKNOWN = ClassifierAUC(float("nan"), (float("nan"), float("nan")))  # of samples without rows


class Rows(NamedTuple):
    """Both samples in one table: features, which are categories, labels, and the folds of the rows."""

    features: Float[np.ndarray, "N D"]
    categorical: Bool[np.ndarray, " D"]
    labels: Bool[np.ndarray, " N"]
    folds: Int[np.ndarray, "N repeats"]


def classifier_auc(
    samples: Samples,
    kernel: Kernel,
    categorical: Bool[np.ndarray, " D"] | None = None,
    units: Any = None,
    seed: int = SEED,
) -> ClassifierAUC:
    """Estimate the AUC (area under the ROC curve) of a classifier of single rows by cross-validation.

    Boosted trees, the witness, the mean of their ranks and the best column are candidates. They are fitted to
    all folds but one and score its rows; which of them counts there is decided within the other folds, by
    candidates that have not seen it either. The AUC is a mean over five folds, of 10,000 rows and more over
    three. A better classifier may exist, so it is a lower bound of what is possible. At most 25,000 rows of
    each sample are used. Neither the order of rows nor that of the samples matters, and the folds have a seed
    of their own. `units` are the clusters of the rows of either sample: all rows of a cluster are in one
    fold, and the interval is that of clusters.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for k, values in enumerate(samples):
        clusters = np.arange(len(values)) if units is None else units[k]
        order = row_order(values if units is None else np.column_stack([values, clusters]))
        parts.append((values[order], clusters if units is None else clusters[order]))
    if comes_before(parts[1][0], parts[0][0]):
        parts = parts[::-1]
    drawn = [np.sort(rng.permutation(len(values))[:ROWS]) for values, _ in parts]
    values = np.concatenate([values[some] for (values, _), some in zip(parts, drawn, strict=True)])
    each = [clusters[some] for (_, clusters), some in zip(parts, drawn, strict=True)]
    repeats = REPEATS if len(values) <= FEW else 1
    folds = np.column_stack([_folds(each, units is not None, rng) for _ in range(repeats)])
    if folds.max() == 0:  # a sample of one cluster
        return ClassifierAUC(0.5, (0.0, 1.0))
    kinds = np.zeros(values.shape[1], dtype=bool) if categorical is None else categorical
    features = np.column_stack([_coded(column, kind) for column, kind in zip(values.T, kinds, strict=True)])
    rows = Rows(features, kinds, np.repeat([True, False], list(map(len, drawn))), folds)
    scores = _scores(rows, _Witness(values, kernel, rows.labels, rng))
    each_fold = [
        [_auc(scores[own, r], rows.labels[own]) for own in (folds[:, r] == k for k in range(folds.max() + 1))]
        for r in range(repeats)
    ]
    auc = float(np.mean([0.5 if np.isnan(aucs).all() else np.nanmean(aucs) for aucs in each_fold]))
    effect = 1.0 if units is None else _design_effect(scores[:, 0], rows, np.concatenate(each))
    return ClassifierAUC(auc, auc_interval(auc, *(max(len(some) / (FITTED * effect), 1.0) for some in drawn)))


def at_least(own: ClassifierAUC, columns: list[float], sizes: tuple[int, int]) -> ClassifierAUC:
    """The larger of the classifier's AUC and that of the best column, whose interval is that of the best."""
    best = max(max(auc, 1.0 - auc) for auc in columns)
    return own if own.auc >= best else ClassifierAUC(best, auc_interval(best, *sizes, tests=len(columns)))


def _folds(clusters: list[Any], shared: bool, rng: np.random.Generator) -> Int[np.ndarray, " N"]:
    """The fold of every row: a cluster is in one, and those of either sample are spread over all of them."""
    most = FEW_FOLDS if sum(map(len, clusters)) >= MANY else FOLDS
    if not shared:
        count = min(most, *map(len, clusters))
        return np.concatenate([rng.permutation(np.arange(len(own)) % count) for own in clusters])
    names, where = np.unique(np.concatenate(clusters), return_inverse=True)
    inside = [np.isin(names, own) for own in clusters]
    count = min(most, *(int(own.sum()) for own in inside))
    order = np.lexsort([rng.random(len(names)), inside[0], inside[1]])  # of the first, of both, of the second
    folds = np.empty(len(names), dtype=int)
    folds[order] = np.arange(len(names)) % count
    return folds[where.ravel()]


def _coded(column: Float[np.ndarray, " N"], categorical: Any) -> Float[np.ndarray, " N"]:
    """Numbers as ranks, which trees cannot tell from them; levels as codes, the most frequent first."""
    if not categorical:
        return middle_ranks(column)
    _, where, counts = np.unique(column, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-counts, kind="stable"))[where.ravel()].astype(float)


class _Witness:
    """The empirical witness of some rows at others; equal rows have equal scores."""

    def __init__(self, values: Any, kernel: Kernel, labels: Any, rng: np.random.Generator) -> None:
        n, m = int(labels.sum()), int((~labels).sum())
        self.near = np.sort(np.append(rng.permutation(n)[:LANDMARKS], n + rng.permutation(m)[:LANDMARKS]))
        _, first, where = np.unique(fingerprints(values), return_index=True, return_inverse=True)
        self.distinct, self.where = values[first], where.ravel()
        self.points, self.kernel, self.labels = values[self.near], kernel, labels[self.near]

    def scores(self, train: Bool[np.ndarray, "N c"]) -> Float[np.ndarray, "N c"]:
        """Of all rows, for every column of training rows."""
        weights = np.zeros((len(self.near), train.shape[1]))
        for sign, own in ((1.0, self.labels), (-1.0, ~self.labels)):
            members = train[self.near] & own[:, None]
            weights += sign * members / np.maximum(members.sum(axis=0), 1)
        blocks = row_blocks(len(self.distinct), len(self.near))
        each = [self.kernel._gram(self.distinct[some], self.points) @ weights for some in blocks]
        return np.concatenate(each)[self.where]


def _scores(rows: Rows, witness: _Witness) -> Float[np.ndarray, "N repeats"]:
    """For every row the score of the chosen candidate, fitted to other folds than its own."""
    N, repeats = rows.folds.shape
    count = int(rows.folds.max()) + 1
    chosen = np.empty((N, repeats))
    # Fold k is left out, and with it its partner, on which the candidate for k is chosen, and that for it.
    partners = [k + 1 if k % 2 == 0 and k + 1 < count else max(k - 1, 0) for k in range(count)]
    pairs = sorted({tuple(sorted(pair)) for pair in enumerate(partners)}) if count > 2 else []
    for r in range(repeats):
        folds = rows.folds[:, r]
        left_out = [(k,) for k in range(count)] + pairs
        train = np.column_stack([~np.isin(folds, some) for some in left_out])
        distances = witness.scores(train)
        judged: dict[tuple[int, int], list[float]] = {}  # candidates for a fold, on the rows of its partner
        for j in range(count, len(left_out)):
            few = train[:, j] & (np.cumsum(train[:, j]) % (1 + train[:, j].sum() // CHOOSING) == 0)
            test = ~train[:, j]
            candidates = _candidates(rows, few, test, distances[test, j])
            for k, partner in (left_out[j], left_out[j][::-1]):
                own = folds[test] == partner
                judged[k, partner] = [_auc(each[own], rows.labels[test][own]) for each in candidates]
        for k in range(count):
            test = folds == k
            aucs = np.nan_to_num(judged.get((k, partners[k]), [0.0, 1.0, 0.0, 0.0]), nan=0.5)
            (scores,) = _candidates(rows, train[:, k], test, distances[test, k], int(np.argmax(aucs)))
            chosen[test, r] = scores
    return chosen


def _candidates(rows: Rows, train: Any, test: Any, witness: Any, which: int | None = None) -> list[Any]:
    """Scores of the test rows by boosted trees, the witness, both, and the best column; or one of them."""
    labels = rows.labels[train]
    if labels.all() or not labels.any():
        return [np.zeros(int(test.sum()))] * (4 if which is None else 1)
    aucs = [_column_auc(rows.features[train, d], kind, labels) for d, kind in enumerate(rows.categorical)]
    order = np.argsort(-np.array(aucs), kind="stable")
    boosted = _boosted(rows, np.sort(order[:COLUMNS]), train, test) if which in (None, 0, 2) else witness
    both = middle_ranks(boosted) + middle_ranks(witness)
    column, fitted = rows.features[test, order[0]], rows.features[train, order[0]]
    if rows.categorical[order[0]]:
        column = _shares(fitted, labels, column)
    elif _auc(fitted, labels) < 0.5:
        column = -column
    found = [boosted, witness, both, column]
    return found if which is None else [found[which]]


def _boosted(rows: Rows, columns: Any, train: Any, test: Any) -> Float[np.ndarray, " b"]:
    """Log-odds by boosted trees; categories of many levels by their shares, fitted out of fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    features, kinds, labels = rows.features[:, columns], rows.categorical[columns], rows.labels
    many = kinds & (features.max(axis=0) >= LEVELS)
    first, second, own = features[train], features[test], labels[train]
    inner = np.arange(len(first)) % FOLDS
    for d in np.flatnonzero(many):
        codes = first[:, d].copy()
        second[:, d] = _shares(codes, own, second[:, d])
        for part in range(FOLDS):
            first[inner == part, d] = _shares(codes[inner != part], own[inner != part], codes[inner == part])
    how: Any = {"early_stopping": False, "random_state": 0, **BOOSTING[len(labels) >= MANY]}
    model = HistGradientBoostingClassifier(categorical_features=kinds & ~many, **how)
    with threadpool_limits(1):
        return model.fit(first, own).decision_function(second)


def _shares(codes: Any, labels: Any, levels: Any) -> Float[np.ndarray, " b"]:
    """The share of the first sample in every level, drawn to that of all levels."""
    count = int(max(codes.max(), levels.max())) + 1
    rows, ones = (np.bincount(codes.astype(int), each, minlength=count) for each in (None, labels))
    return ((ones + labels.mean()) / (rows + 1.0))[levels.astype(int)]


def _auc(scores: Float[np.ndarray, " b"], labels: Bool[np.ndarray, " b"]) -> float:
    """Of a score; nan where there are no rows of one sample."""
    return float("nan") if labels.all() or not labels.any() else superiority(scores[~labels], scores[labels])


def _column_auc(column: Float[np.ndarray, " b"], categorical: Any, labels: Bool[np.ndarray, " b"]) -> float:
    """Of a number, whichever sample is higher; of a category that of its most telling level."""
    if not categorical:
        auc = _auc(column, labels)
        return max(auc, 1.0 - auc)
    count = int(column.max()) + 1
    first, second = (np.bincount(column[own].astype(int), minlength=count) for own in (labels, ~labels))
    return 0.5 + 0.5 * float(np.abs(first / labels.sum() - second / (~labels).sum()).max())


def _design_effect(scores: Float[np.ndarray, " N"], rows: Rows, clusters: Int[np.ndarray, " N"]) -> float:
    """By how much clusters inflate the variance of an AUC (Obuchowski 1997), at least 1."""
    parts = np.zeros(len(scores))
    for fold in range(rows.folds.max() + 1):
        test = rows.folds[:, 0] == fold
        labels, ranks = rows.labels[test], middle_ranks(scores[test])
        if labels.all() or not labels.any():
            continue
        placed = np.empty(len(ranks))
        for own in (labels, ~labels):
            placed[own] = (ranks[own] - middle_ranks(scores[test][own])) / (~own).sum()
            placed[own] = (placed[own] - placed[own].mean()) * (1.0 if own is labels else -1.0) / own.sum()
        parts[test] = placed
    each = np.bincount(np.unique(clusters, return_inverse=True)[1].ravel(), parts)
    alone = float(parts @ parts)
    return max(float(each @ each) / alone, 1.0) if alone > 0.0 else 1.0

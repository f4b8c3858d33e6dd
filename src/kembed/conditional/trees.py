"""Trees in the regressions, for thresholds, steps and interactions.

A Gaussian process smooths over a threshold. Its residuals near one are common to x and y, and the test would
reject. Trees follow thresholds, except in the few rows next to them. There the trees of a forest disagree,
and the test leaves those rows out: a choice by `given` alone keeps the level.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.conditional.regression import Conditioner
from kembed.conditional.residuals import Variable, VariableResiduals, variable_residuals
from kembed.core.backend import Float

Table = Float[np.ndarray, "n k"]
TREES, LEAF = 60, 5  # of a forest, and rows in a leaf at least
FOLDS = 5
BOOSTING: Any = {"max_iter": 60, "max_depth": 3, "min_samples_leaf": LEAF, "early_stopping": False}
# Times the error of the smooth regression: with a worse forest, boosting is not worth its time.
NEAR = 1.02
LEAST_ROWS = 50  # fewer are too few for trees
DRAWN_ROWS = 5_000  # rows that a tree of a forest is fitted to at most
GAIN = 3.0  # over n: the share of the left-out error that trees must save
# The least slope of a target on predictions. Of noise these are the mean of the *other* rows, which is low
# where the row is high, and a negative slope would seem to predict the row. For the same reason predictions
# are subtracted, and never given to a regression beside `given`.
LEAST_SLOPE = 0.5
# Times the median variance between trees: rows beyond are left out, where trees help and where not.
DISAGREE = 2.0, 6.0


def forest_residuals(variable: Variable, given: Conditioner, smooth: VariableResiduals) -> VariableResiduals:
    """Subtract the predictions of trees from a variable, and regress the rest on `given`.

    A forest or boosted trees are used, whichever has the smaller left-out error, if that is below the error
    of the smooth regression alone by more than chance. Rows where the trees disagree are not to be tested.
    """
    predicted, variance = forest(given.Z, variable.columns)
    rows, most_rows = (variance <= times * np.median(variance) for times in DISAGREE)
    best = replace(smooth, tested=most_rows)
    least = (1.0 - GAIN / len(rows)) * _error(smooth)
    for boost in (False, True):
        trees = _shrunk(boosted(given.Z, variable.columns) if boost else predicted, variable.columns)
        rest = replace(variable, columns=variable.columns - trees)
        left = variable_residuals(rest, given)
        if _error(left) < least:
            least = _error(left)
            # Trees have degrees of freedom too: their variance over that of the noise.
            spent = float(variance[rows].sum()) / _error(left)
            columns = tuple(replace(one, freedom=one.freedom + spent) for one in left.regressions)
            indices = np.column_stack([left.indices, trees[:, np.ptp(trees, axis=0) > 0.0]])
            best = replace(left, regressions=columns, indices=indices, tested=rows)
        if _error(left) > NEAR * _error(smooth):
            break
    return best


def _shrunk(predicted: Table, target: Table) -> Table:
    """Predictions times the slope of the target on them, at most 1; 0 where that is small."""
    predicted = predicted - predicted.mean(axis=0)
    squares = np.square(predicted).sum(axis=0)
    slope = (predicted * target).sum(axis=0) / np.where(squares > 0.0, squares, 1.0)
    return np.asarray(predicted * np.where(slope > LEAST_SLOPE, np.minimum(slope, 1.0), 0.0))


def _error(residuals: VariableResiduals) -> float:
    """The left-out squared error of all columns."""
    return sum(column.unexplained for column in residuals.regressions)


def boosted(Z: Table, Y: Table) -> Table:
    """Predictions of boosted trees that were fitted to the other folds; rows come in random order."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    model, folds = HistGradientBoostingRegressor(**BOOSTING), PredefinedSplit(np.arange(len(Z)) % FOLDS)
    return np.column_stack([cross_val_predict(model, Z, column, cv=folds) for column in Y.T])


def forest(Z: Table, Y: Table) -> tuple[Table, Float[np.ndarray, " n"]]:
    """Out-of-bag predictions of every row, and the variance between the trees that make them."""
    from sklearn.ensemble import RandomForestRegressor

    n = len(Z)
    drawn = min(n, DRAWN_ROWS)
    model = RandomForestRegressor(TREES, min_samples_leaf=LEAF, max_samples=drawn, random_state=0)
    model.fit(Z, Y if Y.shape[1] > 1 else Y[:, 0])
    counts, sums, squares = np.zeros((n, 1)), np.zeros(Y.shape), np.zeros(Y.shape)
    for tree, inside in zip(model.estimators_, model.estimators_samples_, strict=True):
        outside = np.ones(n, dtype=bool)
        outside[inside] = False
        values = tree.predict(Z[outside]).reshape(-1, Y.shape[1])
        counts[outside] += 1.0
        sums[outside] += values
        squares[outside] += values**2
    mean = sums / np.maximum(counts, 1.0)
    return mean, (squares / np.maximum(counts, 1.0) - mean**2).sum(axis=1)

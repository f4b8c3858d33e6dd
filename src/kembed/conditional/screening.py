"""Screening on few of many rows: what these reject at a very small level, all rows need not test.

Most tests in a search for a graph are of variables with an obvious dependence. If few rows reject at a level
δ, and all rows are tested at α where they do not, the level of both is at most α + δ. Screening only rejects.
"""

from dataclasses import replace

import numpy as np

from kembed.conditional.features import Settings, TableFeatures
from kembed.conditional.products import BINS, random_signs
from kembed.conditional.residuals import Variable
from kembed.permutation.fusion import negative_log_p

ROWS = 8_192  # a test of them takes some hundredths of a second
THRESHOLD, SIGNS = 20.0, 999  # -log δ, δ = 2e-9, and the resamples that estimate the null distribution


class Screening:
    """Tests of the first rows; rows are in random order."""

    def __init__(self, table: TableFeatures) -> None:
        settings: Settings = replace(table.settings, binned_rows=0, many_rows=0)
        self._table = TableFeatures([_first(variable) for variable in table.variables], settings)
        self._signs = random_signs(BINS + 1, SIGNS, np.random.default_rng(settings.seed))

    def rejects(self, i: int, j: int, given: tuple[int, ...]) -> bool:
        """Whether few rows reject that two variables are independent given others."""
        left, right = self._table.target(i, given), self._table.target(j, given)
        if not left.features or not right.features:
            return False
        values, names = self._table.statistics(left, right, (), self._signs)
        largest = float(negative_log_p(values.statistics, by_others=True)[0].max())
        return largest - float(np.log(len(names))) > THRESHOLD


def _first(variable: Variable) -> Variable:
    """The first rows of a variable, without columns that are constant there."""
    columns = variable.columns[:ROWS]
    varies = (columns != columns[0]).any(axis=0)
    return Variable(columns[:, varies], variable.indicator[varies])

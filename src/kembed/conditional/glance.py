"""A first look at few of many rows: what they reject beyond doubt, all rows reject too.

Most tests in a search for a graph are of variables that plainly depend on each other. If few rows reject at a
level δ, and all rows are tested at α where they do not, the level of both is at most α + δ; δ is so small
that no p-value shows it. Nothing is ever accepted on a first look.
"""

from dataclasses import replace

import numpy as np

from kembed.conditional.conditioning import Variable
from kembed.conditional.products import BINS, random_signs
from kembed.conditional.sides import Settings, Sides
from kembed.permutation.fusion import surprise

ROWS = 8_192  # looked at first: a test of them takes some hundredths of a second
# Nats by which the law of the resamples must be exceeded, δ = 2e-9, and how many resamples that law rests on.
DOUBTLESS, SIGNS = 20.0, 199
ROOM = 400_000_000  # bytes of one kind of what is kept: some fifty sets of columns, made again in hundredths


class Glance:
    """Tests of the first rows; rows stand in an order that says nothing."""

    def __init__(self, sides: Sides) -> None:
        how: Settings = replace(sides.settings, binned_rows=0, many_rows=0, n_resamples=SIGNS, room=ROOM)
        self._sides = Sides([_first(variable) for variable in sides.variables], how)
        self._signs = random_signs(BINS + 1, SIGNS, np.random.default_rng(how.seed))

    @property
    def nbytes(self) -> int:
        """About how much is kept."""
        return self._sides.nbytes + self._signs.nbytes

    def doubtless(self, i: int, j: int, given: tuple[int, ...]) -> bool:
        """Whether few rows leave no doubt that two variables depend on each other, given others."""
        left, right = self._sides.side(i, given), self._sides.side(j, given)
        if not left.features or not right.features:
            return False
        values, names = self._sides.statistics(left, right, (), self._signs)
        loudest = float(surprise(values.statistics, by_others=True)[0].max())
        return loudest - float(np.log(len(names))) > DOUBTLESS


def _first(variable: Variable) -> Variable:
    """The first rows of a variable, without columns that do not vary there."""
    columns = variable.columns[:ROWS]
    varies = (columns != columns[0]).any(axis=0)
    return Variable(columns[:, varies], variable.indicator[varies])

"""Reservoirs: the past of a stream as exchangeable bins, so that a batch is compared with all before it.

A bin is a row of a table: how many rows it holds, then their sums of every feature. After a test the bins of
the past and of the batch are put into random order. The first `MOVABLE` of them stay bins, which later tests
exchange; all others join one sum that is never exchanged. So what later tests see says nothing of which bins
were the batch's, and given these tests the p-value of this one is as uniform as at first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kembed.core.backend import Float
from kembed.permutation.designs import TwoSamples

MOVABLE = 256  # bins of the past that a test exchanges with those of a batch

Bins = Float[np.ndarray, "k p"]  # the number of rows first, then sums of features
Sum = Float[np.ndarray, " p"]


@dataclass(frozen=True, eq=False)
class Binned:
    """Rows in bins that may be exchanged, and the sum over rows that are in none."""

    bins: Bins
    rest: Sum

    @property
    def rows(self) -> float:
        """How many there are in all."""
        return float(self.bins[:, 0].sum() + self.rest[0])

    def coarser(self, size: int) -> Self:
        """The same with so many consecutive bins in one; bins that are left over join the rest."""
        full = len(self.bins) // size * size
        merged = self.bins[:full].reshape(-1, size, self.bins.shape[1]).sum(axis=1)
        return type(self)(merged, self.rest + self.bins[full:].sum(axis=0))

    def absorbing(self, batch: "Binned", rng: np.random.Generator) -> Self:
        """All rows of both, in random order."""
        bins = np.concatenate([self.bins, batch.bins])
        order = rng.permutation(len(bins))
        rest = self.rest + batch.rest + bins[order[MOVABLE:]].sum(axis=0)
        return type(self)(bins[order[:MOVABLE]], rest)


def nothing(width: int) -> Binned:
    """No rows."""
    return Binned(np.zeros((0, width)), np.zeros(width))


def joined(batches: Sequence[Binned]) -> Binned:
    """The bins of several batches, one after the other."""
    rests = [batch.rest for batch in batches]
    return Binned(np.concatenate([batch.bins for batch in batches]), np.sum(rests, axis=0))


def pooled(pairs: Sequence[tuple[Binned, Binned]]) -> tuple[Bins, TwoSamples] | None:
    """The bins of past and block of several strata, and what is exchanged: bins of one stratum.

    None if no stratum has rows of both.
    """
    both = [(past, block) for past, block in pairs if past.rows and block.rows]
    if not both:
        return None
    tables, labels, movable, strata = [], [], [], []
    for k, parts in enumerate(both):
        for label, part in enumerate(parts):
            count = len(part.bins) + 1
            tables += [part.bins, part.rest[None]]
            labels += [np.full(count, float(label))]
            movable += [np.arange(count) < count - 1]
            strata += [np.full(count, k)]
    stratum = np.concatenate(strata)
    classes = np.where(np.concatenate(movable), stratum, -1)
    return np.concatenate(tables), TwoSamples(np.concatenate(labels), classes, stratum)

"""Reservoirs: the past of a stream as exchangeable bins, so that a batch is compared with all before it.

A bin is a row of a table: how many rows it holds, then their sums of every feature. After a test the bins of
the past and of the batch are put into random order. The first `MOVABLE` of them stay bins, which later tests
exchange; all others join one sum that is never exchanged. So what later tests see says nothing of which bins
were the batch's, and given these tests the p-value of this one is as uniform as at first.
"""

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
        """The same with so many bins in one; bins that are left over join the rest."""
        merged, left = grouped(self.bins, size)
        return type(self)(merged, self.rest + left.sum(axis=0))

    def absorbing(self, batch: "Binned", rng: np.random.Generator) -> Self:
        """All rows of both, in random order."""
        bins = np.concatenate([self.bins, batch.bins])
        order = rng.permutation(len(bins))
        rest = self.rest + batch.rest + bins[order[MOVABLE:]].sum(axis=0)
        return type(self)(bins[order[:MOVABLE]], rest)


def nothing(width: int) -> Binned:
    """No rows."""
    return Binned(np.zeros((0, width)), np.zeros(width))


def grouped(bins: Bins, size: int) -> tuple[Bins, Bins]:
    """Consecutive bins in groups of so many, and those that fill no group.

    >>> merged, left = grouped(np.arange(5.0)[:, None], 2)
    >>> merged.ravel().tolist(), left.ravel().tolist()
    ([1.0, 5.0], [4.0])
    """
    full = len(bins) // size * size
    return bins[:full].reshape(-1, size, bins.shape[1]).sum(axis=1), bins[full:]


@dataclass(frozen=True, eq=False)
class Stream:
    """One stratum of a stream: its past, and the batches since the last test (the block).

    Bins of the past hold `size` bins of a batch each; those that do not fill one yet wait in `loose`.
    """

    past: Binned
    block: Binned
    loose: Bins
    size: int

    @classmethod
    def begun(cls, past: Binned, size: int, rng: np.random.Generator) -> Self:
        """A stream with this past, whose bins have their final size."""
        empty = nothing(len(past.rest))
        return cls(empty.absorbing(past, rng), empty, empty.bins, size)

    def joined(self, batch: Binned) -> Self:
        """The same with one more batch in the block."""
        merged, loose = grouped(np.concatenate([self.loose, batch.bins]), self.size)
        block = Binned(np.concatenate([self.block.bins, merged]), self.block.rest + batch.rest)
        return type(self)(self.past, block, loose, self.size)

    def completed(self) -> Self:
        """The same with no loose bins: they join the rest of the block."""
        block = Binned(self.block.bins, self.block.rest + self.loose.sum(axis=0))
        return type(self)(self.past, block, self.loose[:0], self.size)

    def absorbed(self, rng: np.random.Generator) -> Self:
        """The same with the (completed) block in the past."""
        if not self.block.rows:
            return self
        past = self.past.absorbing(self.block, rng)
        return type(self)(past, nothing(len(past.rest)), self.loose, self.size)

    def coarser(self) -> Self:
        """The same with bins of twice as many rows."""
        loose, left = grouped(self.loose, 2)
        block = self.block.coarser(2)
        block = Binned(block.bins, block.rest + left.sum(axis=0))
        return type(self)(self.past.coarser(2), block, loose, self.size)


def pooled(streams: list[Stream]) -> tuple[Bins, TwoSamples] | None:
    """The bins of past and block of several strata, and what is exchanged: bins of one stratum.

    None if no stratum has rows of both.
    """
    both = [stream for stream in streams if stream.past.rows and stream.block.rows]
    if not both:
        return None
    tables, labels, movable, strata = [], [], [], []
    for k, stream in enumerate(both):
        for label, part in enumerate((stream.past, stream.block)):
            count = len(part.bins) + 1
            tables += [part.bins, part.rest[None]]
            labels += [np.full(count, float(label))]
            movable += [np.arange(count) < count - 1]
            strata += [np.full(count, k)]
    stratum = np.concatenate(strata)
    classes = np.where(np.concatenate(movable), stratum, -1)
    return np.concatenate(tables), TwoSamples(np.concatenate(labels), classes, stratum)

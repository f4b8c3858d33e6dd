"""Sums over bins of rows that stand in the order of their bins: of features, of indicators, of products.

Rows of one bin are a slice, so a sum is a product of a vector with a slice; indicators are counted; and the
sum of all products of two features is a small matrix product, which never writes the products out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.bins import bin_indicators

FEW = 32  # rows of a bin, on average, below which one sparse product is faster than a product for every bin


@dataclass(frozen=True, eq=False)
class Segments:
    """Which bins the rows of a chunk are in, in order, where each begins, and what every row weighs."""

    bins: Int[np.ndarray, " k"]
    edges: Int[np.ndarray, " k+1"]
    weight: Float[np.ndarray, " b"]

    @cached_property
    def slices(self) -> list[slice]:
        """The rows of every bin."""
        return [slice(*ends) for ends in pairwise(self.edges.tolist())]

    @cached_property
    def rows(self) -> Any:
        """Where these bins stand in a table of all: a slice where none is left out between them."""
        first, count = (int(self.bins[0]), len(self.bins)) if len(self.bins) else (0, 0)
        gapless = count == 0 or int(self.bins[-1]) - first == count - 1
        return slice(first, first + count) if gapless else self.bins

    @property
    def own(self) -> Int[np.ndarray, " b"]:
        """Of every row, the place of its bin among these."""
        return np.repeat(np.arange(len(self.bins)), np.diff(self.edges))

    def strips(self, rows: int) -> Iterator[tuple[slice, slice, "Segments"]]:
        """Some whole bins after the others, of about so many rows together: which, their rows, and they."""
        if not len(self.bins):
            return
        strip = self.edges[:-1] // rows  # of every bin the one that its first row is in
        ends = [*np.flatnonzero(np.diff(strip, prepend=-1)).tolist(), len(self.bins)]
        for first, last in pairwise(ends):
            part = slice(int(self.edges[first]), int(self.edges[last]))
            edges = self.edges[first : last + 1] - self.edges[first]
            yield slice(first, last), part, Segments(self.bins[first:last], edges, self.weight[part])

    def sums(self, table: Any) -> Float[np.ndarray, "k p"]:
        """The weighted sum of the rows of a table, which may be sparse, by bin."""
        if hasattr(table, "tocsr"):
            return self._counted(table.tocsr())
        if len(table) < FEW * len(self.bins):
            return bin_indicators(self.own, len(self.bins), self.weight)[:-1] @ table
        found = np.empty((len(self.bins), table.shape[1]))
        by_column = table.strides[0] < table.strides[1]  # BLAS is slow on these from the left
        for one, rows in zip(found, self.slices, strict=True):
            if by_column:
                np.dot(table.T[:, rows], self.weight[rows], out=one)
            else:
                np.dot(self.weight[rows], table[rows], out=one)
        return found

    def _counted(self, table: Any) -> Float[np.ndarray, "k p"]:
        ones = np.diff(table.indptr)
        width = int(table.shape[1])
        place = np.repeat(self.own * width, ones) + table.indices
        found = np.bincount(place, np.repeat(self.weight, ones) * table.data, len(self.bins) * width)
        return found.reshape(len(self.bins), width)

    def products(self, table: Float[np.ndarray, "b r"]) -> Float[np.ndarray, "k r r"]:
        """The weighted sum of the products of any two columns, by bin."""
        found = np.empty((len(self.bins), table.shape[1], table.shape[1]))
        heavy = table * self.weight[:, None]
        for one, rows in zip(found, self.slices, strict=True):
            np.dot(heavy[rows].T, table[rows], out=one)
        return found


def make_segments(own: Int[np.ndarray, " b"], weight: Float[np.ndarray, " b"] | None = None) -> Segments:
    """Of rows in the order of their bins."""
    first = [0] if len(own) else []
    edges = np.concatenate([first, np.flatnonzero(own[1:] != own[:-1]) + 1, [len(own)]]).astype(int)
    return Segments(own[edges[:-1]], edges, np.ones(len(own)) if weight is None else weight)

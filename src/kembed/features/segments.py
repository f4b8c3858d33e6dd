"""Sums over bins of rows that stand in the order of their bins: of features, of indicators, of products.

Rows of one bin are a slice, so a sum is a product of a vector with a slice; indicators are counted; and the
sum of all products of two features is a small matrix product, which never writes the products out.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int

FEW = 32  # rows of a bin, on average, up to which one sparse product is faster than a product for every bin


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

    @property
    def own(self) -> Int[np.ndarray, " b"]:
        """Of every row, the place of its bin among these."""
        return np.repeat(np.arange(len(self.bins)), np.diff(self.edges))

    @property
    def few(self) -> bool:
        """Whether bins have few rows, so that features are better written out."""
        return len(self.weight) <= FEW * len(self.bins)

    @cached_property
    def indicators(self) -> Any:
        """A sparse table whose product with features is their weighted sum by bin."""
        from scipy.sparse import csr_array

        b = len(self.weight)
        return csr_array((self.weight, np.arange(b), self.edges), shape=(len(self.bins), b))

    def sums(self, table: Any) -> Float[np.ndarray, "k p"]:
        """The weighted sum of the rows of a table, which may be sparse, by bin."""
        if hasattr(table, "tocsr"):
            table = table.tocsr()
            entries, width = np.diff(table.indptr), int(table.shape[1])
            place = np.repeat(self.own * width, entries) + table.indices
            weight = np.repeat(self.weight, entries) * table.data
            return np.bincount(place, weight, len(self.bins) * width).reshape(-1, width)
        if self.few:
            return self.indicators @ table
        found = np.empty((len(self.bins), table.shape[1]))
        by_column = table.strides[0] < table.strides[1]  # BLAS is slow on these from the left
        for one, rows in zip(found, self.slices, strict=True):
            if by_column:
                np.dot(table.T[:, rows], self.weight[rows], out=one)
            else:
                np.dot(self.weight[rows], table[rows], out=one)
        return found

    def counts(self, codes: Int[np.ndarray, " b"], width: int) -> Float[np.ndarray, "k width"]:
        """How much weight every code from 0 to width - 1 has, by bin."""
        found = np.bincount(self.own * width + codes, self.weight, len(self.bins) * width)
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

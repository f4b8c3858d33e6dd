"""Leaves and neighbours, counted: eight labelings at once in one machine word, and no rounding.

A labeling marks rows by zeros and ones, so sums over a leaf or over a row's neighbours are small whole
numbers. Labelings lie side by side as bytes of 64-bit words, and adding words adds eight of them. Weighted
rows and signs go another way, by sparse matrices of SciPy.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.blocks import Blocks, Graph
from kembed.permutation.gram import KernelSums

BYTE = np.iinfo(np.uint8).max  # a lane of one byte counts so far; larger counts get two
LANES = 8  # bytes of a word
EVEN = np.uint64(0x00FF_00FF_00FF_00FF)  # every other lane, with room to add up
ROOM = np.iinfo(np.uint16).max  # what that room holds

Words = Int[np.ndarray, "N w"]


def packed(columns: Float[np.ndarray, "N C"]) -> Words:
    """Labelings as bytes, eight of them a word; the last word is filled up with zeros."""
    N, C = columns.shape
    table = np.zeros((N, -(-C // LANES) * LANES), dtype=np.uint8)
    table[:, :C] = columns
    return table.view(np.uint64)


class OneByOne:
    """What counts do not help: every kernel goes its own way."""

    alone: Any

    def weighted(self, v: Float[np.ndarray, " N"]) -> "Stacked":
        """The kernels v_i K_ij v_j."""
        return Stacked(tuple(one.weighted(v) for one in self.alone))

    def forms(self, W: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "J C"]:
        """w'Kw of every kernel and column w, whatever numbers it has."""
        return Stacked(self.alone).forms(W)

    def between(self, first: Any, second: Any) -> Float[np.ndarray, " J"]:
        """Σ_i K(x_i, y_i) for rows x_i and y_i."""
        return np.concatenate([one.between(first, second) for one in self.alone])


@dataclass(frozen=True, eq=False)
class Leaves(OneByOne):
    """K_ij = mean over trees of [i and j in one leaf] / (rows of that leaf), for leaves of several sizes.

    `places[k]` has the leaf of every row in every tree; a leaf lies in one leaf of each size before it, and
    leaves of different trees have different numbers.
    """

    places: tuple[Int[np.ndarray, "T N"], ...]

    @property
    def size(self) -> int:
        """How many rows."""
        return int(self.places[0].shape[1])

    @property
    def count(self) -> int:
        """How many kernels."""
        return len(self.places)

    @cached_property
    def _shares(self) -> list[Float[np.ndarray, "T N"]]:
        """Of every size: one over the rows of a row's leaf, and over the trees."""
        found = []
        for places in self.places:
            rows = np.bincount(places.ravel())[places]
            found.append(1.0 / (len(places) * rows))
        return found

    @cached_property
    def alone(self) -> tuple[Blocks, ...]:
        """Every kernel by itself: sparse features, an indicator of every leaf over the root of its size."""
        return tuple(map(leaf_features, self.places))

    def sums(self) -> KernelSums:
        """Row sums, diagonals, and an upper bound of the squares, from the diagonals."""
        N, diagonals = self.size, np.stack([share.sum(axis=0) for share in self._shares])
        return KernelSums(1.0 - diagonals, diagonals, diagonals.mean(axis=1) ** 2 * N * (N - 1.0))

    def counted(self, words: Words, count: int) -> Float[np.ndarray, "J C"]:
        """a'Ka of every kernel under the labelings a, diagonals included."""
        totals = np.zeros((len(self.places), count))
        nested = np.stack(self.places)
        for tree in range(nested.shape[1]):
            own = nested[:, tree]
            order = np.lexsort(own[::-1])  # the leaves of one larger leaf stand together
            sums, ends, wide = words[order], np.arange(1, self.size + 1), False
            for k in range(len(own) - 1, -1, -1):
                leaf = own[k, order][ends - 1]
                last = np.append(np.flatnonzero(np.diff(leaf)), len(leaf) - 1)
                rows = np.diff(ends[last], prepend=0)
                if not wide and rows.max() > BYTE:
                    sums, wide = sums.view(np.uint8).astype(np.uint16).view(np.uint64), True
                sums, ends = np.add.reduceat(sums, np.append(0, last[:-1] + 1), axis=0), ends[last]
                lanes = sums.view(np.uint16 if wide else np.uint8)[:, :count]
                squares = np.multiply(lanes, lanes, dtype=np.uint32 if wide else np.uint16)
                totals[k] += (1.0 / rows) @ squares.astype(float)
        return totals / nested.shape[1]


class Entries(NamedTuple):
    """Some entries of a matrix."""

    rows: Int[np.ndarray, " p"]
    columns: Int[np.ndarray, " p"]
    values: Float[np.ndarray, " p"]


@dataclass(frozen=True, eq=False)
class Neighbours(OneByOne):
    """G + Gᵀ, where G_ij = 1 if j is among the nearest so many of i, for several numbers of them.

    `nearest` has the neighbours of every row, the nearest first. Where several are equally near at the end
    they share what is left: `ties` says, for every number, what is to be added to G.
    """

    nearest: Int[np.ndarray, "N k"]
    counts: tuple[int, ...]
    ties: tuple[Entries, ...]

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.nearest)

    @property
    def count(self) -> int:
        """How many kernels."""
        return len(self.counts)

    def _entries(self, k: int) -> Entries:
        """Those of G, for the k-th number of neighbours; an entry may come in two parts."""
        count = self.counts[k]
        rows, own = np.repeat(np.arange(self.size), count), self.nearest[:, :count].ravel()
        parts = zip(Entries(rows, own, np.ones(len(own))), self.ties[k], strict=True)
        return Entries(*map(np.concatenate, parts))

    @cached_property
    def alone(self) -> tuple[Graph, ...]:
        """Every kernel by itself, as a sparse matrix."""
        from scipy.sparse import csr_array

        found = []
        for k in range(self.count):
            rows, columns, values = self._entries(k)
            matrix = csr_array((values, (rows, columns)), shape=(self.size, self.size))
            found.append(Graph((matrix + matrix.T).tocsr()))
        return tuple(found)

    def sums(self) -> KernelSums:
        """Row sums, diagonals and squares."""
        N, rows, squares = self.size, [], []
        for k, count in enumerate(self.counts):
            own, others, values = self._entries(k)
            rows.append(count + np.bincount(others, values, minlength=N))
            place, part = np.unique(own * N + others, return_inverse=True)
            entry = np.bincount(part, values)
            back = place % N * N + place // N  # the same pair the other way round
            where = np.searchsorted(place, back).clip(max=len(place) - 1)
            mutual = np.where(place[where] == back, entry[where], 0.0)
            squares.append(2.0 * float(entry @ (entry + mutual)))
        table = np.array(rows)
        return KernelSums(table, np.zeros_like(table), np.array(squares))

    def counted(self, words: Words, count: int) -> Float[np.ndarray, "J C"]:
        """a'Ka of every kernel under the labelings a."""
        total, own, mine = np.zeros_like(words), np.empty_like(words), words * np.uint64(BYTE)
        found: list[Float[np.ndarray, " C"]] = []
        for k, neighbour in enumerate(self.nearest.T, 1):
            total += np.take(words, neighbour, axis=0, out=own, mode="clip")
            if k in self.counts:
                rows, others, values = self.ties[len(found)]
                both = (words[rows] & words[others]).view(np.uint8)
                found.append(2.0 * (_added(total & mine, k) + values @ both.astype(float))[:count])
        return np.stack(found)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Kernels that were worked out one by one."""

    parts: tuple[Blocks | Graph, ...]

    def sums(self) -> KernelSums:
        """Of every kernel one row."""
        each = zip(*(part.sums() for part in self.parts), strict=True)
        rows, diagonals, squares = ([np.atleast_1d(one) for one in kind] for kind in each)
        return KernelSums(np.vstack(rows), np.vstack(diagonals), np.concatenate(squares))

    def forms(self, W: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "J C"]:
        """w'Kw of every kernel and column w."""
        return np.vstack([part.forms(W) for part in self.parts])


def leaf_features(leaves: Int[np.ndarray, "T N"]) -> Blocks:
    """An indicator of every leaf over the root of its size: K is the mean over trees of [same leaf]/size."""
    from scipy.sparse import csr_array

    count, N = leaves.shape
    _, place = np.unique(leaves, return_inverse=True)  # leaves of different trees have different numbers
    place = place.reshape(leaves.shape)
    size = np.bincount(place.ravel())
    entries = (1.0 / np.sqrt(count * size[place])).ravel()
    table = csr_array((entries, (np.tile(np.arange(N), count), place.ravel())), shape=(N, len(size)))
    return Blocks(table, table.shape[1], (table.shape[1],))


def _added(words: Words, most: int) -> Float[np.ndarray, " C"]:
    """The lanes of all rows added up, where none is above `most`."""
    step = max(1, ROOM // most)
    found = np.zeros((2, words.shape[1] * LANES // 2))
    for start in range(0, len(words), step):
        some = words[start : start + step]
        for odd in (0, 1):
            lanes = (some >> np.uint64(8 * odd)) & EVEN
            found[odd] += lanes.sum(axis=0).view(np.uint16)
    return found.T.ravel()

"""Trees as tables, and the leaves that rows are in: all trees at once, without walking down any.

A leaf is a box of ranks: an interval of every column. So the leaves that a row may be in, as far as one
column goes, are a set that its rank looks up, and the sets of all columns have one leaf of every tree in
common.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.lookup import Lookup, make_lookup

WORD = 64  # leaves whose bits are one number


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as tables of nodes: the column that is cut, where, and the nodes on either side; -1 is a leaf.

    Ranks are shares of the fitted rows. The first nodes are the roots.
    """

    column: Int[np.ndarray, " V"]
    cut: Float[np.ndarray, " V"]
    sides: Int[np.ndarray, "V 2"]

    @cached_property
    def _boxes(self) -> "Boxes":
        return make_boxes(self)

    def leaves(self, ranks: Float[np.ndarray, "b D"]) -> Int[np.ndarray, "b T"]:
        """The leaf that each row is in, of every tree.

        >>> tree = Forest(np.array([0, -1, -1]), np.array([0.5, 0, 0]), np.array([[1, 2], [0, 0], [0, 0]]))
        >>> tree.leaves(np.array([[0.2], [0.5], [0.6]])).ravel().tolist()
        [1, 1, 2]
        """
        if self.column.max(initial=-1) >= ranks.shape[1]:  # only in a forged file
            raise ValueError("a tree cuts a column that is not there; make the sketch again")
        return self._boxes(ranks)

    def __getstate__(self) -> dict[str, np.ndarray]:
        """What travels: the boxes are made again where they are needed."""
        return {"column": self.column, "cut": self.cut, "sides": self.sides}


@dataclass(frozen=True, eq=False)
class Boxes:
    """Leaves as bits: a word has leaves of one tree only."""

    columns: list[tuple[int, Lookup, np.ndarray]]  # that are cut: where, and of every interval its leaves
    nodes: Int[np.ndarray, " 64W"]  # of every bit
    trees: int

    def __call__(self, ranks: Float[np.ndarray, "b D"]) -> Int[np.ndarray, "b T"]:
        """The leaf of every tree."""
        words = len(self.nodes) // WORD
        common = np.tile(packed_bits((self.nodes >= 0)[None]), (len(ranks), 1))  # the bits that are leaves
        for column, find, leaves in self.columns:
            common &= np.take(leaves, find(ranks[:, column]), axis=0, mode="clip")
        where = np.flatnonzero(common != 0)  # truth values are counted several times as fast
        bit = np.frexp(common.ravel()[where].astype(float))[1] - 1  # a power of 2 is a number as it is
        return self.nodes[where % words * WORD + bit].reshape(len(ranks), self.trees)


def make_boxes(forest: Forest) -> Boxes:
    """The boxes of the leaves, from the roots down: places among the cuts of a column, from and to."""
    V, D = len(forest.column), int(forest.column.max(initial=0)) + 1
    cuts = [np.unique(forest.cut[forest.column == c]) for c in range(D)]
    inner = np.flatnonzero(forest.column >= 0)
    if (forest.sides[inner] <= inner[:, None]).any():  # a cycle, which only a forged file has
        raise ValueError("a node of a tree comes after one below it; make the sketch again")
    roots = np.flatnonzero(np.bincount(forest.sides[inner].ravel(), minlength=V) == 0)
    tree = np.zeros(V, dtype=int)
    tree[roots] = np.arange(len(roots))
    low, high = np.zeros((V, D), dtype=int), np.tile([len(each) for each in cuts], (V, 1))
    place_of = np.zeros(V, dtype=int)  # of every cut among those of its column
    for c, each in enumerate(cuts):
        cut_there = forest.column == c
        place_of[cut_there] = np.searchsorted(each, forest.cut[cut_there])
    front = roots
    while len(front := front[forest.column[front] >= 0]):
        column, sides = forest.column[front], forest.sides[front]
        place = place_of[front]
        for below, child in ((True, sides[:, 0]), (False, sides[:, 1])):
            tree[child], low[child], high[child] = tree[front], low[front], high[front]
            both = sides[:, 0] != sides[:, 1]  # where no row was on one side, either leads to the other
            own = (child[both], column[both])
            if below:
                high[own] = np.minimum(high[own], place[both])
            else:
                low[own] = np.maximum(low[own], place[both] + 1)
        front = np.unique(sides)
    leaves = np.flatnonzero(forest.column < 0)
    parts = [leaves[tree[leaves] == t] for t in range(len(roots))]
    nodes = np.concatenate([np.pad(part, (0, -len(part) % WORD), constant_values=-1) for part in parts])
    held = np.flatnonzero(nodes >= 0)
    word, bit = held // WORD, np.uint64(1) << (held % WORD).astype(np.uint64)
    columns = []
    for c in np.flatnonzero([len(each) for each in cuts]).tolist():
        first, last = low[nodes[held], c], high[nodes[held], c]
        last = np.maximum(last, first - 1)  # a box that nothing is in
        turned = np.zeros((len(cuts[c]) + 2, len(nodes) // WORD), dtype=np.uint64)
        np.bitwise_xor.at(turned, (first, word), bit)  # where a box begins, and after its end
        np.bitwise_xor.at(turned, (last + 1, word), bit)
        inside = np.bitwise_xor.accumulate(turned, axis=0)[:-1]
        # A rank is above a cut if it is not below the next number.
        columns.append((c, make_lookup(np.nextafter(cuts[c], np.inf)), inside))
    return Boxes(columns, nodes, len(roots))


def packed_bits(table: np.ndarray) -> np.ndarray:
    """Truth values as bits of whole numbers, row by row."""
    return np.packbits(table, axis=1, bitorder="little").view("<u8").astype(np.uint64)

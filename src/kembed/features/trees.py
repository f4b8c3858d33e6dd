"""Completely random trees: repeated values, rounding, and whatever lives in boxes along few columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.ordering import distinct_rows, row_order
from kembed.features.members import FeatureMember, Group, KernelPair, Named, OfSample, PairGroup, separate
from kembed.features.rows import Rows, Sample

# Trees, and rows of a leaf at most: where the sample is all rows, so many; else one part in so many of them.
COUNT, SIZES = 25, (100, 32, 8)
FEW_TREES, SHARES = 10, (16, 64, 128)  # leaves are most of what a pass over large data brings back
CROSSED = 2  # sizes of leaves that an independence test of many rows pairs: small leaves are too many
MOST_ROWS = 3_000  # of an independence test in memory
STEPS = 4  # down a tree, between looks at which rows are in a leaf
ROUNDS = 100  # a node whose drawn columns do not vary is tried again, so often


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as tables of nodes: the column that is cut, where, and the nodes on either side; -1 is a leaf.

    Ranks are shares of the fitted rows. A node comes before those below it.
    """

    column: Int[np.ndarray, " V"]
    cut: Float[np.ndarray, " V"]
    sides: Int[np.ndarray, "V 2"]

    def leaves(self, ranks: Float[np.ndarray, "b D"]) -> Int[np.ndarray, "b T"]:
        """The leaf that each row is in, of every tree.

        >>> tree = Forest(np.array([0, -1, -1]), np.array([0.5, 0, 0]), np.array([[1, 2], [0, 0], [0, 0]]))
        >>> tree.leaves(np.array([[0.2], [0.5], [0.6]])).ravel().tolist()
        [1, 1, 2]
        """
        (b, D), inner = ranks.shape, self.column >= 0
        below = self.sides[inner]
        if self.column.max(initial=-1) >= D:  # only in a forged file, as what follows
            raise ValueError("a tree cuts a column that is not there; make the sketch again")
        if (below <= np.flatnonzero(inner)[:, None]).any():
            raise ValueError("a node of a tree comes after one below it; make the sketch again")
        roots = np.flatnonzero(np.bincount(below.ravel(), minlength=len(inner)) == 0)
        found, row = np.repeat(roots, b), np.tile(np.arange(b), len(roots))
        values, start = ranks.T.ravel(), np.maximum(self.column, 0) * b
        sides = np.where(inner[:, None], self.sides, np.arange(len(inner))[:, None]).ravel()
        at, place = found, np.arange(len(found))  # nodes of what is in no leaf yet; a leaf leads to itself
        while len(at):
            for _ in range(STEPS):
                above = values.take(start.take(at) + row) > self.cut.take(at)
                at = sides.take(2 * at + above)
            found[place] = at
            left = np.flatnonzero(inner.take(at))
            at, row, place = at.take(left), row.take(left), place.take(left)
        return found.reshape(len(roots), b).T


def fit(sample: Sample) -> Group:
    """Leaves of every size: two rows are similar in so far as they share small leaves.

    A leaf of the smallest size lies in one of every larger size, so indicators of the smallest serve all.
    """
    from scipy.sparse import csr_array

    count = COUNT if sample.complete else FEW_TREES
    sizes = SIZES if sample.complete else tuple(max(1, sample.size // share) for share in SHARES)
    leaves, forest = grow_trees(sample.values, sizes, count)
    nodes, smallest = len(forest.column), leaves[-1].ravel()
    a_row = np.zeros(nodes, dtype=int)
    a_row[smallest] = np.arange(len(smallest))
    held = np.bincount(smallest, minlength=nodes) > 0
    first, width = a_row[held], int(held.sum())
    places = np.where(held, np.cumsum(held) - 1, 0)
    indicators: Any = Leaves(forest, places, width)
    if sample.complete:  # whose leaves are known
        indicators = OfSample(_table(places[leaves[-1].T], width))
    members = []
    for each in leaves:
        rows = np.bincount(each.ravel(), minlength=nodes)
        larger = each.ravel()[first]
        weight = np.sqrt(sample.size / (count * rows[larger]))
        place = (np.cumsum(rows > 0) - 1)[larger]
        shape = (width, int((rows > 0).sum()))
        linear = csr_array((weight, (np.arange(width), place)), shape=shape)
        members.append(FeatureMember(indicators, shape[1], (shape[1],), linear))
    titles = (
        [f"at most {size} rows" for size in SIZES]
        if sample.complete
        else [f"1/{k} of the rows" for k in SHARES]
    )
    kernels = tuple(Named(f"random trees, {title} a leaf") for title in titles)
    return separate("trees", tuple(members), kernels, whole=True)


def fit_pairs(left: Sample, right: Sample) -> PairGroup | None:
    """Leaves of the same size on either side."""
    if left.complete and left.size > MOST_ROWS:
        return None
    first, second = fit(left), fit(right)
    count = len(first.members) if left.complete else CROSSED
    pairs = tuple(map(KernelPair, first.members, second.members))[:count]
    kernels = tuple(zip(first.kernels, second.kernels, strict=True))[:count]
    return PairGroup("trees", pairs, kernels, np.arange(count), whole=True)


@dataclass(frozen=True, eq=False)
class Leaves:
    """An indicator of every leaf, as a sparse table."""

    forest: Forest
    places: Int[np.ndarray, " V"]  # of the nodes that are leaves, among the leaves
    count: int

    def __call__(self, rows: Rows) -> Any:
        """Of these rows."""
        return _table(self.places[self.forest.leaves(rows.ranks)], self.count)


def _table(leaves: Int[np.ndarray, "b T"], count: int) -> Any:
    """An indicator of each of `count` leaves, as a sparse table."""
    from scipy.sparse import csr_array

    b, trees = leaves.shape
    ends = np.arange(0, trees * b + 1, trees)
    return csr_array((np.ones(trees * b), leaves.ravel(), ends), shape=(b, count))


def grow_trees(
    values: Float[np.ndarray, "N D"], sizes: tuple[int, ...], count: int
) -> tuple[list[Int[np.ndarray, "T N"]], Forest]:
    """For every size the leaf that each row is in, of `count` trees on ranks; and the trees themselves.

    A node is cut at a uniform place between the least and the largest rank of a column drawn at random, all
    trees level by level. The draws do not depend on the rows, nor on their order.
    """
    N, D = values.shape
    rng = np.random.default_rng(0)
    ranks = np.empty((N, D))
    for c, column in enumerate(values.T):
        _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, c] = (np.cumsum(counts) - 0.5 * counts)[codes]
    order, copies = row_order(ranks), np.empty(N, dtype=int)  # equal rows are never distinguished
    copies[order] = np.cumsum(distinct_rows(ranks[order]))
    flat, row = np.ascontiguousarray(ranks.T).ravel(), np.tile(np.arange(N), count)
    item = np.arange(count * N)  # every row of every tree, node by node
    height = np.full(count, N)  # of every node
    leaf = np.full((len(sizes), count * N), -1)
    open_ = np.ones((len(sizes), count), dtype=bool)  # of every node the sizes for which it is in no leaf yet
    number, nodes = 0, []  # of every round: the columns, cuts and sides of its nodes
    for _ in range(ROUNDS):
        starts, mine = _spans(height)
        same = copies[row[item]]
        settled = np.minimum.reduceat(same, starts) == np.maximum.reduceat(same, starts)
        for k, size in enumerate(sizes):
            closing = open_[k] & ((height <= size) | settled)
            if closing.any():
                found = closing[mine]
                leaf[k, item[found]] = number + mine[found]
                open_[k] &= ~closing
        total, number = len(starts), number + len(starts)
        cutting = (height > min(sizes)) & ~settled
        nodes.append(_leaves_alone(total))
        columns, cuts, sides = nodes[-1]
        if not cutting.any():
            break
        item, height = item[cutting[mine]], height[cutting]
        starts, mine = _spans(height)
        columns[cutting] = column = rng.integers(D, size=len(starts))
        value = flat[(column * N)[mine] + row[item]]
        least, most = (one.reduceat(value, starts) for one in (np.minimum, np.maximum))
        cuts[cutting] = cut = least + (most - least) * rng.random(len(starts))
        item, below = _sides_apart(item, mine, value > cut[mine], starts)
        both = np.column_stack([below, height - below]).ravel()
        there = both > 0  # a side that no row is on leads to the other
        place = number + np.cumsum(there) - there
        sides[cutting] = np.column_stack([place[::2], np.where(there[1::2], place[1::2], place[::2])])
        open_ = np.repeat(open_[:, cutting], 2, axis=1)[:, there]
        height = both[there]
    else:  # what was never cut far enough, for want of columns that vary
        nodes.append(_leaves_alone(len(height)))
        mine = _spans(height)[1]
        for found, left in zip(leaf, open_, strict=True):
            found[item[left[mine]]] = number + mine[left[mine]]
    column, cut, side = (np.concatenate(part) for part in zip(*nodes, strict=True))
    return [each.reshape(count, N) for each in leaf], Forest(column, cut / N, side)


def _spans(height: Int[np.ndarray, " p"]) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " n"]]:
    """Where the rows of every node begin, and of every row its node."""
    return np.cumsum(height) - height, np.repeat(np.arange(len(height)), height)


def _sides_apart(
    item: Int[np.ndarray, " n"],
    mine: Int[np.ndarray, " n"],
    above: Bool[np.ndarray, " n"],
    starts: Int[np.ndarray, " p"],
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " p"]]:
    """Of every parent first what lies below its cut, then what lies above; and how many lie below."""
    seen = np.cumsum(above)  # above the cut, up to here
    before = seen[starts] - above[starts]
    high = seen - before[mine]  # ... of the same parent
    ends = np.append(starts[1:], len(item)) - 1
    low = ends - starts + 1 - (seen[ends] - before)
    place = np.where(above, (starts + low)[mine] + high - 1, np.arange(len(item)) - high)
    found = np.empty_like(item)
    found[place] = item
    return found, low


def _leaves_alone(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """So many nodes that are leaves."""
    return np.full(count, -1), np.zeros(count), np.zeros((count, 2), dtype=int)

"""Completely random trees: atoms, rounding, and whatever lives in boxes along few columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.ordering import distinct_rows, row_order
from kembed.permutation import counts
from kembed.permutation.blocks import Blocks
from kembed.permutation.gram import Pairs, dense_pairs
from kembed.testing.members.forests import Forest
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.group import Group, Meeting, Named, Relation, alone
from kembed.testing.members.rows import Rows

COUNT = 25
SIZES = (100, 32, 8)  # at most so many rows in a leaf
MOST_ROWS = 3_000  # of an independence test: leaves are taken as matrices there
STREAMED = 10  # trees for any number of rows: leaves are most of what a pass brings back
SHARES = (16, 64, 128)  # of the fitted rows at most in a leaf, one part in so many, for any number of rows
CROSSED = 2  # of these for independence
ROUNDS = 100  # a node whose drawn columns do not vary is tried again, so often


def fit(rows: Rows) -> Group:
    """Leaves of every size: two rows are similar in so far as they share small leaves."""
    if not rows.complete:
        return _of_shares(rows)
    leaves, _ = grow_trees(rows.space.values, SIZES, COUNT)
    kernels = tuple(Named(f"random trees, at most {size} rows a leaf") for size in SIZES)
    return alone("trees", (counts.Leaves(tuple(leaves)),), kernels, whole=True)


def _of_shares(rows: Rows) -> Group:
    """The same for any row, with leaves that hold shares of the fitted rows."""
    from scipy.sparse import csr_array

    sizes = tuple(max(1, rows.size // share) for share in SHARES)
    leaves, forest = grow_trees(rows.space.values, sizes, STREAMED)
    V, smallest = len(forest.column), leaves[-1].ravel()
    some = np.zeros(V, dtype=int)
    some[smallest] = np.arange(len(smallest))  # a row of every leaf, which lies in one of every larger size
    held = np.bincount(smallest, minlength=V) > 0
    first, count = some[held], int(held.sum())
    indicators = Leaves(forest, np.where(held, np.cumsum(held) - 1, 0), count)
    members = []
    for each in leaves:
        heights = np.bincount(each.ravel(), minlength=V)
        larger = each.ravel()[first]
        weight = np.sqrt(rows.size / (STREAMED * heights[larger]))
        place = (np.cumsum(heights > 0) - 1)[larger]
        shape = (count, int((heights > 0).sum()))
        linear = csr_array((weight, (np.arange(count), place)), shape=shape)
        members.append(Streamed(indicators, shape[1], (shape[1],), linear))
    kernels = tuple(Named(f"random trees, one part in {share} a leaf") for share in SHARES)
    return alone("trees", tuple(members), kernels, whole=True)


@dataclass(frozen=True, eq=False)
class Leaves:
    """An indicator of every leaf, as a sparse table."""

    forest: Forest
    places: Int[np.ndarray, " V"]  # of the nodes that are leaves, among the leaves
    count: int

    def __call__(self, rows: Fresh) -> Any:
        """Of these rows."""
        from scipy.sparse import csr_array

        leaves = self.places[self.forest.leaves(rows.middles, rows.buffers)]
        b, trees = leaves.shape
        ends = np.arange(0, trees * b + 1, trees)
        return csr_array((np.ones(trees * b), leaves.ravel(), ends), shape=(b, self.count))


def grow_trees(
    values: Float[np.ndarray, "N D"], sizes: tuple[int, ...], count: int
) -> tuple[list[Int[np.ndarray, "T N"]], Forest]:
    """For every size the leaf that each row is in, of `count` trees on ranks; and the trees themselves.

    A node is cut at a uniform place between the least and the largest rank of a column drawn at random, all
    trees level by level. The draws do not depend on the rows, nor on their order.
    """
    N, D = values.shape
    rng = np.random.default_rng(0)
    ranks = np.column_stack([np.unique(column, return_inverse=True)[1] for column in values.T])
    ranks = np.column_stack([_middle_rank(column) for column in ranks.T])
    copies = _copies(ranks)  # equal rows are never told apart
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


def _copies(rows: Float[np.ndarray, "N D"]) -> Int[np.ndarray, " N"]:
    """A number for every row, the same for equal ones."""
    order, found = row_order(rows), np.empty(len(rows), dtype=int)
    found[order] = np.cumsum(distinct_rows(rows[order]))
    return found


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


def _middle_rank(codes: Int[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    counts = np.bincount(codes)
    return (np.cumsum(counts) - 0.5 * counts)[codes]


def fit_pairs(left: Rows, right: Rows) -> Relation | None:
    """Leaves of the same size on either side."""
    if not left.complete:
        return _pairs_of_shares(left, right)
    if left.size > MOST_ROWS:
        return None
    sides = (
        [counts.leaf_features(each) for each in grow_trees(side.space.values, SIZES, COUNT)[0]]
        for side in (left, right)
    )
    meetings = tuple(Meeting(dense(a), dense(b)) for a, b in zip(*sides, strict=True))
    kernels = tuple((Named(f"random trees, at most {size} rows a leaf"),) * 2 for size in SIZES)
    return Relation("trees", meetings, kernels, np.arange(len(SIZES)), whole=True)


def _pairs_of_shares(left: Rows, right: Rows) -> Relation:
    """The same for any row, with shares of the fitted rows; small leaves are too many to cross."""
    first, second = _of_shares(left), _of_shares(right)
    meetings = tuple(map(Meeting, first.members, second.members))[:CROSSED]
    kernels = tuple(zip(first.kernels, second.kernels, strict=True))[:CROSSED]
    return Relation("trees", meetings, kernels, np.arange(len(kernels)), whole=True)


def dense(features: Blocks) -> Pairs:
    """A single kernel as a matrix."""
    return dense_pairs((features.columns @ features.columns.T).toarray())

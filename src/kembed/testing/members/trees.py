"""Completely random trees: atoms, rounding, and whatever lives in boxes along few columns."""

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.blocks import Blocks
from kembed.permutation.gram import Pairs, dense_pairs
from kembed.testing.members.group import Group, Meeting, Named, Relation, alone
from kembed.testing.members.rows import Rows

COUNT = 25
SIZES = (100, 32, 8)  # at most so many rows in a leaf
MOST_ROWS = 3_000  # of an independence test: leaves are taken as matrices there
ROUNDS = 100  # a node whose drawn columns do not vary is tried again, so often


def two_sample(rows: Rows) -> Group:
    """Leaves of every size: two rows are alike in so far as they share small leaves."""
    leaves = random_leaves(rows.space.values, SIZES, COUNT)
    kernels = tuple(Named(f"random trees, at most {size} rows a leaf") for size in SIZES)
    return alone("trees", tuple(map(leaf_features, leaves)), kernels, whole=True)


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


def random_leaves(
    values: Float[np.ndarray, "N D"], sizes: tuple[int, ...], count: int
) -> list[Int[np.ndarray, "T N"]]:
    """For every size the leaf that each row is in, of `count` trees on the ranks of the columns.

    A node is cut at a uniform place between the least and the largest rank of a column drawn at random, all
    trees level by level. The draws do not depend on the rows, nor on their order.
    """
    N, D = values.shape
    rng = np.random.default_rng(0)
    ranks = np.column_stack([np.unique(column, return_inverse=True)[1] for column in values.T])
    ranks = np.column_stack([_middle_rank(column) for column in ranks.T])
    copies = np.unique(ranks, axis=0, return_inverse=True)[1].ravel()  # equal rows are never told apart
    node = np.repeat(np.arange(count), N)  # of every row of every tree, in order
    item = np.arange(count * N)
    leaf = np.full((len(sizes), count * N), -1)
    number = 0
    for _ in range(ROUNDS):
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        height = np.diff(np.append(starts, len(node)))
        mine = np.repeat(np.arange(len(starts)), height)
        same = copies[item % N]
        settled = np.minimum.reduceat(same, starts) == np.maximum.reduceat(same, starts)
        for k, size in enumerate(sizes):
            found = ((height <= size) | settled)[mine] & (leaf[k, item] < 0)
            leaf[k, item[found]] = number + mine[found]
        number += len(starts)
        growing = ((height > min(sizes)) & ~settled)[mine]
        if not growing.any():
            break
        item, mine = item[growing], mine[growing]
        starts = np.flatnonzero(np.diff(mine, prepend=-1))
        mine = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(mine))))
        value = ranks[item % N, rng.integers(D, size=len(starts))[mine]]
        least, most = (one.reduceat(value, starts) for one in (np.minimum, np.maximum))
        cut = least + (most - least) * rng.random(len(starts))
        key = 2 * mine + (value > cut[mine])
        order = np.argsort(key, kind="stable")
        item, node = item[order], key[order]
    for found in leaf:  # what was never cut far enough, for want of columns that vary
        open_ = found[item] < 0
        found[item[open_]] = number + node[open_]
    return [each.reshape(count, N) for each in leaf]


def _middle_rank(codes: Int[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    counts = np.bincount(codes)
    return (np.cumsum(counts) - 0.5 * counts)[codes]


def independence(left: Rows, right: Rows) -> Relation | None:
    """Leaves of the same size on either side."""
    if left.many or left.size > MOST_ROWS:
        return None
    sides = (
        [leaf_features(each) for each in random_leaves(side.space.values, SIZES, COUNT)]
        for side in (left, right)
    )
    meetings = tuple(Meeting(dense(a), dense(b)) for a, b in zip(*sides, strict=True))
    kernels = tuple((Named(f"random trees, at most {size} rows a leaf"),) * 2 for size in SIZES)
    return Relation("trees", meetings, kernels, np.arange(len(SIZES)), whole=True)


def dense(features: Blocks) -> Pairs:
    """A single kernel as a matrix."""
    return dense_pairs((features.columns @ features.columns.T).toarray())

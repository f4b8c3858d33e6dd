"""Nearest neighbours: whether rows have their like in the other sample (Schilling 1986, Henze 1988)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.blocks import Graph
from kembed.permutation.counts import Entries, Neighbours
from kembed.permutation.gram import dense_pairs
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.group import Group, Meeting, Named, Relation, alone
from kembed.testing.members.rows import Rows

COUNTS = (3, 10, 30)
MOST_ROWS = 10_000  # beyond, every row to every other is too much work, and the group is left out
MEETING = (10, 30)  # independence
MOST_MATRIX = 3_000  # rows of an independence test, where graphs are taken as matrices
STRIP = 64  # rows whose distances are held at once: those of 2,000 stay in a processor's cache
FOLDED = 4  # a table is folded while it has so many columns for each that is looked for
MOST_TIES = 8  # a row: more of them are counted no faster than multiplied
# Distances that agree to this share are tied, and share what is left among them: places must not decide.
TIE = 1e-9


def fit(rows: Rows) -> Group | None:
    """Graphs of 3, 10 and 30 neighbours along the principal axes of the ranks; else cells of landmarks."""
    if len(rows.names) < 2:
        return None
    if not rows.complete:
        return _cells(rows)
    if rows.size > MOST_ROWS:
        return None
    counts = [count for count in COUNTS if count < rows.size]
    if not counts:
        return None
    found = nearest_rows(rows.axes, counts)
    members = (found.listed,) if found.listed else tuple(map(Graph, found.graphs))
    return alone("neighbours", members, tuple(Named(f"{count} nearest neighbours") for count in counts))


def _cells(rows: Rows) -> Group:
    """Which landmark is the nearest, for any number of rows: cells that the rows themselves lay out."""
    nearest = np.argmin(rows.to_landmarks, axis=1)
    share = np.bincount(nearest, minlength=len(rows.landmarks)) / rows.size
    weight = 1.0 / np.sqrt(np.where(share > 0.0, share, 1.0))
    whole = len(weight)
    member = Streamed(nearest_landmark, whole, (whole,), np.diag(weight))
    return alone("neighbours", (member,), (Named(f"nearest of {whole} rows of a sample"),))


def nearest_landmark(rows: Fresh) -> Any:
    """An indicator of the nearest landmark, as a sparse table."""
    from scipy.sparse import csr_array

    b, m = len(rows.values), len(rows.fitted.landmarks)
    return csr_array((np.ones(b), rows.nearest, np.arange(b + 1)), shape=(b, m))


def distance_strips(points: Float[np.ndarray, "N k"]) -> Iterator[tuple[Any, Float[np.ndarray, "s N"]]]:
    """Squared distances from some rows to all, strip by strip: which rows, and theirs."""
    norms, turned = np.square(points).sum(axis=1), np.ascontiguousarray(-2.0 * points.T)
    for start in range(0, len(points), STRIP):
        own = np.arange(start, min(start + STRIP, len(points)))
        distances = points[own] @ turned
        distances += norms[own, None]
        distances += norms
        yield own, distances


def smallest(table: Float[np.ndarray, "s N"], count: int) -> Float[np.ndarray, "s count"]:
    """The smallest so many of every row, in order.

    Folded by minima again and again, a row is short, and the last of its smallest ones bounds what is wanted.

    >>> smallest(np.array([[3.0, 1.0, 2.0]]), 2)
    array([[1., 2.]])
    """
    folded = table
    while (half := folded.shape[1] // 2) >= FOLDED * count:
        folded = np.minimum(folded[:, :half], folded[:, half : 2 * half])
    if folded is table:
        return np.sort(np.partition(table, count - 1, axis=1)[:, :count], axis=1)
    below = table <= np.partition(folded, count - 1, axis=1)[:, count - 1, None]
    found = below.sum(axis=1)
    kept = np.full((len(table), int(found.max())), np.inf)
    kept[np.arange(kept.shape[1]) < found[:, None]] = table[below]
    return np.sort(np.partition(kept, count - 1, axis=1)[:, :count], axis=1)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Pairs of a row and one that is near, how far, and the share it has among so many nearest ones."""

    size: int
    counts: tuple[int, ...]
    rows: Int[np.ndarray, " p"]
    others: Int[np.ndarray, " p"]
    distances: Float[np.ndarray, " p"]
    shares: tuple[Float[np.ndarray, " p"], ...]  # for every count: 1, less where there are ties, or 0

    @cached_property
    def listed(self) -> Neighbours | None:
        """The neighbours of every row in order; None where very many are equally near."""
        most, starts = max(self.counts), np.searchsorted(self.rows, np.arange(self.size))  # rows in order
        if len(self.rows) == most * self.size:  # no ties: every row has as many
            table = self.distances.reshape(self.size, most)
            order = (starts[:, None] + np.argsort(table, axis=1, kind="stable")).ravel()
        else:
            order = np.lexsort((self.distances, self.rows))
        place = np.empty(len(order), dtype=int)
        place[order] = np.arange(len(order)) - starts[self.rows]
        ties = []
        for count, share in zip(self.counts, self.shares, strict=True):
            left = share - (place < count)
            own = np.flatnonzero(left)
            ties.append(Entries(self.rows[own], self.others[own], left[own]))
        if max(len(each.rows) for each in ties) > MOST_TIES * self.size:
            return None
        nearest = self.others[order][starts[:, None] + np.arange(most)]
        return Neighbours(nearest, self.counts, tuple(ties))

    @property
    def graphs(self) -> list[Any]:
        """For every count the symmetric matrix in which a row gives 1 to each of so many nearest ones."""
        from scipy.sparse import csr_array

        found = []
        for share in self.shares:
            own = share > 0.0
            places = self.rows[own], self.others[own]
            graph = csr_array((share[own], places), shape=(self.size, self.size))
            found.append((graph + graph.T).tocsr())
        return found


def nearest_rows(points: Float[np.ndarray, "N k"], counts: list[int]) -> Nearest:
    """The nearest so many of every row."""
    tolerance = TIE * float(np.square(points).sum(axis=1).max(initial=0.0))
    most, found = max(counts), []
    for own, distances in distance_strips(points):
        distances[own - own[0], own] = np.inf
        nearest = smallest(distances, most)
        near = np.flatnonzero(distances <= nearest[:, -1:] + tolerance)  # in one dimension: twice as fast
        i, j = np.divmod(near, len(points))
        far, shares = distances[i, j], []
        for count in counts:
            last = nearest[i, count - 1]
            inside, tied = far < last - tolerance, np.abs(far - last) <= tolerance
            left = count - np.bincount(i[inside], minlength=len(own))
            ties = np.bincount(i[tied], minlength=len(own))
            shares.append(np.where(tied, left[i] / np.maximum(ties[i], 1), inside))
        found.append((own[i], j, far, *shares))
    rows, others, far, *shares = (np.concatenate(part) for part in zip(*found, strict=True))
    return Nearest(len(points), tuple(counts), rows, others, far, tuple(shares))


def fit_pairs(left: Rows, right: Rows) -> Relation | None:
    """Whether neighbours on one side are neighbours on the other (Friedman & Rafsky 1983)."""
    if not left.complete or left.size > MOST_MATRIX:
        return None
    counts = [count for count in MEETING if count < left.size]
    if not counts:
        return None
    sides = ([graph.toarray() for graph in nearest_rows(side.axes, counts).graphs] for side in (left, right))
    first, second = ([dense_pairs(graph, definite=False) for graph in side] for side in sides)
    meetings = tuple(map(Meeting, first, second))
    kernels = tuple((Named(f"{count} nearest neighbours"),) * 2 for count in counts)
    return Relation("neighbours", meetings, kernels, np.arange(len(counts)))

"""Nearest neighbours: whether rows have their like in the other sample (Schilling 1986, Henze 1988)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.permutation.blocks import Graph
from kembed.permutation.gram import dense_pairs
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.group import Group, Meeting, Named, Relation, alone
from kembed.testing.members.rows import Rows

COUNTS = (3, 10, 30)
MOST_ROWS = 10_000  # beyond, every row to every other is too much work, and the group is left out
MEETING = (10, 30)  # independence
MOST_MATRIX = 3_000  # rows of an independence test, where graphs are taken as matrices
STRIP = 256  # rows whose distances are held at once
# Distances that agree to this share are tied, and share what is left among them: places must not decide.
TIE = 1e-9


def two_sample(rows: Rows) -> Group | None:
    """Graphs of 3, 10 and 30 neighbours along the principal axes of the ranks."""
    if len(rows.names) < 2 or rows.size > MOST_ROWS:
        return None
    counts = [count for count in COUNTS if count < rows.size]
    if not counts:
        return None
    graphs = tuple(map(Graph, neighbour_graphs(rows.axes, counts)))
    return alone("neighbours", graphs, tuple(Named(f"{count} nearest neighbours") for count in counts))


def streamed(rows: Rows) -> Group | None:
    """Which landmark is the nearest, for any number of rows: cells that the rows themselves lay out."""
    if len(rows.names) < 2:
        return None
    nearest = np.argmin(rows.to_landmarks, axis=1)
    share = np.bincount(nearest, minlength=len(rows.landmarks)) / rows.size
    weight = 1.0 / np.sqrt(np.where(share > 0.0, share, 1.0))
    whole = len(weight)
    member = Streamed(nearest_landmark, whole, (whole,), np.diag(weight))
    return alone("neighbours", (member,), (Named(f"nearest of {whole} rows of a sample"),))


def nearest_landmark(rows: Fresh) -> Any:
    """An indicator of the nearest landmark, as a sparse table."""
    from scipy.sparse import csr_array

    b, m = rows.closeness.shape
    return csr_array((np.ones(b), rows.nearest, np.arange(b + 1)), shape=(b, m))


def distance_strips(points: Float[np.ndarray, "N k"]) -> Iterator[tuple[Any, Float[np.ndarray, "s N"]]]:
    """Squared distances from some rows to all, strip by strip: which rows, and theirs."""
    norms = np.square(points).sum(axis=1)
    for start in range(0, len(points), STRIP):
        own = np.arange(start, min(start + STRIP, len(points)))
        yield own, norms[own, None] + norms - 2.0 * points[own] @ points.T


def neighbour_graphs(points: Float[np.ndarray, "N k"], counts: list[int]) -> list[Any]:
    """For every count the symmetric matrix in which a row gives 1 to each of so many nearest ones."""
    from scipy.sparse import coo_array

    N = len(points)
    tolerance = TIE * float(np.square(points).sum(axis=1).max(initial=0.0))
    given: list[list[Any]] = [[] for _ in counts]
    for own, distances in distance_strips(points):
        distances[own - own[0], own] = np.inf
        nearest = np.sort(np.partition(distances, max(counts) - 1, axis=1)[:, : max(counts)], axis=1)
        for found, count in zip(given, counts, strict=True):
            last = nearest[:, count - 1, None]
            i, j = np.nonzero(distances <= last + tolerance)
            tied = distances[i, j] >= last[i, 0] - tolerance
            ties = np.bincount(i[tied], minlength=len(own))
            left = count - np.bincount(i[~tied], minlength=len(own))
            weight = np.where(tied, left[i] / np.maximum(ties[i], 1), 1.0)
            found.append((own[i], j, weight))
    graphs = []
    for found in given:
        i, j, weight = (np.concatenate(part) for part in zip(*found, strict=True))
        graph = coo_array((weight, (i, j)), shape=(N, N)).tocsr()
        graphs.append((graph + graph.T).tocsr())
    return graphs


def independence(left: Rows, right: Rows) -> Relation | None:
    """Whether neighbours on one side are neighbours on the other (Friedman & Rafsky 1983)."""
    if left.size > MOST_MATRIX:
        return None
    counts = [count for count in MEETING if count < left.size]
    if not counts:
        return None
    sides = ([graph.toarray() for graph in neighbour_graphs(side.axes, counts)] for side in (left, right))
    first, second = ([dense_pairs(graph, definite=False) for graph in side] for side in sides)
    meetings = tuple(map(Meeting, first, second))
    kernels = tuple((Named(f"{count} nearest neighbours"),) * 2 for count in counts)
    return Relation("neighbours", meetings, kernels, np.arange(len(counts)))

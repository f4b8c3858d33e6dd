"""Nearest neighbours: whether rows have their like in the other sample (Schilling 1986, Henze 1988)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features.members import (
    FeatureMember,
    Group,
    KernelPair,
    MatrixMember,
    Named,
    PairGroup,
    separate,
)
from kembed.features.rows import Rows, Sample

COUNTS = (3, 10, 30)
PAIRED = (10, 30)  # independence
MOST_PAIRED = 3_000  # rows of an independence test
# Up to so many columns, and from so many rows on, a tree finds neighbours in less time than a matrix.
TREE_COLUMNS, TREE_ROWS = 6, 1_000
STRIP = 64  # rows whose distances are held at once: those of 2,000 stay in a processor's cache
# Distances that agree to this share are tied, and share what is left among them: places must not decide.
TIE = 1e-9


def fit(sample: Sample) -> Group | None:
    """Graphs of 3, 10 and 30 neighbours along the principal axes of the ranks; else cells of landmarks."""
    if len(sample.names) < 2:
        return None
    if not sample.complete:
        return _cells(sample)
    counts = [count for count in COUNTS if count < sample.size]
    if not counts:
        return None
    members = tuple(map(MatrixMember, neighbour_graphs(sample.axes, counts)))
    return separate("neighbours", members, tuple(Named(f"{count} nearest neighbours") for count in counts))


def fit_pairs(left: Sample, right: Sample) -> PairGroup | None:
    """Whether neighbours on one side are neighbours on the other (Friedman & Rafsky 1983)."""
    counts = [count for count in PAIRED if count < left.size]
    if not left.complete or left.size > MOST_PAIRED or not counts:
        return None
    sides = (map(MatrixMember, neighbour_graphs(side.axes, counts)) for side in (left, right))
    kernels = tuple((Named(f"{count} nearest neighbours"),) * 2 for count in counts)
    return PairGroup("neighbours", tuple(map(KernelPair, *sides)), kernels, np.arange(len(counts)))


def _cells(sample: Sample) -> Group:
    """Which landmark is the nearest, for any number of rows."""
    share = np.bincount(sample.near[0], minlength=len(sample.landmarks)) / sample.size
    weight = 1.0 / np.sqrt(np.where(share > 0.0, share, 1.0))
    whole = len(weight)
    member = FeatureMember(nearest_landmark, whole, (whole,), np.diag(weight))
    return separate("neighbours", (member,), (Named(f"nearest of {whole} landmarks"),))


def nearest_landmark(rows: Rows) -> Any:
    """An indicator of the nearest landmark, as a sparse table."""
    from scipy.sparse import csr_array

    b, m = len(rows.values), len(rows.basis.landmarks)
    return csr_array((np.ones(b), rows.near[0], np.arange(b + 1)), shape=(b, m))


def neighbour_graphs(points: Float[np.ndarray, "N k"], counts: list[int]) -> list[Any]:
    """For every count the sparse symmetric matrix in which a row gives 1 to each of so many nearest ones.

    Rows that are equally near at the end share what is left.
    """
    from scipy.sparse import csr_array

    tolerance = TIE * float(np.square(points).sum(axis=1).max(initial=0.0))
    parts: list[list[Any]] = [[] for _ in counts]
    for own, others, distances in nearest_rows(points, max(counts)):
        distances[others == own[:, None]] = np.inf
        nearest = np.sort(np.partition(distances, max(counts) - 1, axis=1)[:, : max(counts)], axis=1)
        near = np.flatnonzero(distances <= nearest[:, -1:] + tolerance)  # in one dimension: twice as fast
        i, k = np.divmod(near, distances.shape[1])
        j, far = np.broadcast_to(others, distances.shape)[i, k], distances[i, k]
        for part, count in zip(parts, counts, strict=True):
            last = nearest[i, count - 1]
            inside, tied = far < last - tolerance, np.abs(far - last) <= tolerance
            left = count - np.bincount(i[inside], minlength=len(own))
            ties = np.bincount(i[tied], minlength=len(own))
            share = np.where(tied, left[i] / np.maximum(ties[i], 1), inside)
            part.append((own[i[share > 0.0]], j[share > 0.0], share[share > 0.0]))
    found = []
    for part in parts:
        rows, others, share = (np.concatenate(each) for each in zip(*part, strict=True))
        graph = csr_array((share, (rows, others)), shape=(len(points), len(points)))
        found.append((graph + graph.T).tocsr())
    return found


def nearest_rows(
    points: Float[np.ndarray, "N k"], count: int
) -> Iterator[tuple[Int[np.ndarray, " s"], Int[np.ndarray, "s M"], Float[np.ndarray, "s M"]]]:
    """Of some rows at a time which rows are near, and their squared distances.

    Those are a row itself, `count` others and all that tie with the last; of many columns, or ties, all rows.
    """
    left, norms = np.arange(len(points)), np.square(points).sum(axis=1)
    if points.shape[1] <= TREE_COLUMNS and len(points) > TREE_ROWS:
        from scipy.spatial import KDTree

        distances, others = KDTree(points, leafsize=32).query(points, count + 2)
        distances = np.square(distances)
        clear = distances[:, -1] > distances[:, -2] + 2.0 * TIE * norms.max()
        yield left[clear], others[clear], distances[clear]
        left = left[~clear]
    turned = np.ascontiguousarray(-2.0 * points.T)
    for start in range(0, len(left), STRIP):
        own = left[start : start + STRIP]
        distances = points[own] @ turned
        distances += norms[own, None]
        distances += norms
        yield own, np.arange(len(points))[None], distances

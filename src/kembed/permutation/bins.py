"""Bins: sets of rows that are exchanged as a whole, which keeps a test of any number of rows exact and cheap.

Permutations of equal bins that leave all else in place are a subgroup of the permutations of rows, so the
test is exact, and a statistic of mean features needs nothing but the sums of every bin (Domingo-Enrich,
Dwivedi & Mackey 2025). Few rows are bins of one row each. Rows that fill no bin keep their side; none is
dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Bool, Int
from kembed.core.shuffling import shuffled

BINS = 256  # in all, about, of two samples alike; 64 lose little power, and more cost memory
SHARE = 8  # one bin in so many at least is of the smaller sample: fewer have too few arrangements
ROWS = 16  # of a cluster at most are in the sample that features are fitted on: its first ones
MOST = 512  # of one sample: beyond, the larger of two unequal samples has rows enough that keep their side


@dataclass(frozen=True)
class Bins:
    """The bins of one sample: `movable` ones of `rows` units each, and one that holds what is left over.

    A unit is `unit` consecutive rows; units are put into bins by their numbers.
    """

    size: int  # rows of the sample
    rows: int
    movable: int
    key: int
    unit: int = 1

    @property
    def count(self) -> int:
        """How many, the one that is left over last."""
        return self.movable + 1

    @property
    def classes(self) -> Int[np.ndarray, " S"]:
        """Of every bin: bins of the same class are exchanged; -1: it keeps its side."""
        return np.append(np.zeros(self.movable, dtype=int), -1)

    @property
    def strata(self) -> Int[np.ndarray, " S"]:
        """The stratum of every bin; one for all."""
        return np.zeros(self.count, dtype=int)

    @property
    def rows_each(self) -> int:
        """Rows of one unit of every bin."""
        return self.movable * self.unit

    def of(self, first: int, count: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " b"]]:
        """The bin of each of `count` rows from number `first` on, and the place of its unit in the bin."""
        unit = np.arange(first, first + count) // self.unit
        place, units = np.full(count, self.movable * self.rows), self.size // self.unit
        full = unit < units  # rows after the last whole unit are left over
        place[full] = shuffled(unit[full], units, self.key)
        return np.minimum(place // self.rows, self.movable), place % self.rows


@dataclass(frozen=True, eq=False)
class ClusterBins:
    """Bins of as many clusters of rows each, within strata; one that is never exchanged has the rest."""

    own: Int[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]
    classes: Int[np.ndarray, " S"]
    strata: Int[np.ndarray, " S"]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.classes)

    @property
    def movable(self) -> int:
        """How many can be exchanged."""
        return int((self.classes >= 0).sum())

    @property
    def rows_each(self) -> int:
        """Rows of the sample that holds one unit of every bin."""
        return int(sampled(self, 0, len(self.own), 1).sum())

    def of(self, first: int, count: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " b"]]:
        """As `Bins.of`."""
        part = slice(first, first + count)
        return self.own[part], self.place[part]


AnyBins = Bins | ClusterBins


def sampled(bins: AnyBins, first: int, count: int, each: int) -> Bool[np.ndarray, " b"]:
    """Which rows are of the sample that holds `each` units of every bin.

    Whatever bins change sides, the rows drawn so are the same: what is computed from them, unordered, sees no
    label.
    """
    own, place = bins.of(first, count)
    return (bins.classes[own] >= 0) & (place < each)


def make_bins(
    sizes: tuple[int, ...],
    key: int,
    clusters: Sequence[Int[np.ndarray, " n"]] | None = None,
    strata: Sequence[Int[np.ndarray, " n"]] | None = None,
    *,
    unit: int = 1,
    bins: int = BINS,
) -> tuple[AnyBins, ...]:
    """Bins of equal size for all samples: about `bins` in all, and enough of them in the smallest sample.

    Fewer than twice `bins` rows are bins of one row. Clusters, no number in two samples, are put into bins by
    their numbers alone and within strata, as many in each; those below 0 are never exchanged.
    """
    if clusters is None and strata is None:
        units = [size // unit for size in sizes]
        rows = max(1, min(sum(units) // bins, min(units) // max(2, bins // SHARE)))
        return tuple(
            Bins(size, rows, min(count // rows, max(MOST, bins)), key, unit)
            for size, count in zip(sizes, units, strict=True)
        )
    return make_cluster_bins(
        clusters or [np.arange(size) for size in sizes],
        strata or [np.zeros(size, dtype=int) for size in sizes],
        key,
        bins,
    )


def make_cluster_bins(
    clusters: Sequence[Int[np.ndarray, " n"]],
    strata: Sequence[Int[np.ndarray, " n"]],
    key: int,
    bins: int = BINS,
) -> tuple[ClusterBins, ...]:
    """Bins of clusters, which may have any number of rows, within strata; as many clusters in each."""
    rng = np.random.default_rng(key)
    found = []
    for rows, groups in zip(clusters, strata, strict=True):
        numbers, first, cluster = np.unique(rows, return_index=True, return_inverse=True)
        found.append((cluster.ravel(), groups[first], numbers >= 0))
    total = sum(len(groups) for _, groups, _ in found)
    every = np.unique(np.concatenate([groups for _, groups, _ in found])).tolist()
    smallest = max(2, bins // SHARE // len(every))
    each = {}  # clusters of a bin, by stratum
    for number in every:
        both = [int((movable & (groups == number)).sum()) for _, groups, movable in found]
        each[number] = max(1, min(total // bins, min(both) // smallest))
    made = []
    for cluster, groups, movable in found:
        own, place = np.zeros(len(groups), dtype=int), np.zeros(len(groups), dtype=int)
        classes: list[int] = []
        inside: list[int] = []
        for number in every:
            inside_it = groups == number
            alike = rng.permutation(np.flatnonzero(inside_it & movable))
            count = min(len(alike) // each[number], max(MOST, bins))
            moved = np.arange(count * each[number])
            own[inside_it], place[inside_it] = len(classes) + count, total  # but for those of whole bins
            own[alike[moved]] = len(classes) + moved // each[number]
            place[alike[moved]] = moved % each[number]
            classes += [number] * count + [-1]
            inside += [number] * (count + 1)
        order, counts = np.argsort(cluster, kind="stable"), np.bincount(cluster)
        before = np.empty(len(cluster), dtype=int)  # rows of the same cluster
        before[order] = np.arange(len(cluster)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.where(before < ROWS, place[cluster], total)
        made.append(ClusterBins(own[cluster], places, np.array(classes), np.array(inside)))
    return tuple(made)


def make_ordered_edges(size: int, *, unit: int = 1, bins: int = BINS // 2) -> Int[np.ndarray, " S+1"]:
    """Where bins of consecutive rows begin, and the end: `bins` to twice as many, of whole units.

    Rows that fill no bin are one in the middle, so that a reversed series has the same bins.

    >>> make_ordered_edges(5).tolist(), make_ordered_edges(11, unit=2).tolist()
    ([0, 1, 2, 3, 4, 5], [0, 2, 4, 7, 9, 11])
    """
    rows = unit * max(1, size // unit // bins)
    count = size // rows
    if count * rows == size:
        return rows * np.arange(count + 1)
    left = rows * np.arange(count // 2 + 1)
    return np.concatenate([left, size - left[::-1]])

"""Bins of rows that move together: how a permutation test of any number of rows stays exact and cheap.

Rows are put into bins of equal size by their numbers alone, and whole bins change sides. Permutations of
equal bins that leave all else in place are a subgroup of the permutations of rows, so the test is exact,
and a statistic of mean features needs nothing but the sums of every bin (Domingo-Enrich, Dwivedi & Mackey
2025). Rows that fill no bin keep their side; none is dropped.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.shuffling import shuffled, unshuffled

BINS = 256  # in all, of two samples alike; 64 lose little power, and more cost memory
SHARE = 8  # one bin in so many at least is of the smaller sample: fewer have too few arrangements
MOST = 512  # of one sample: beyond, the larger of two unequal samples has rows enough that keep their side


@dataclass(frozen=True)
class Bins:
    """The bins of one sample: `count` of them, `rows` units in each; a unit is `unit` consecutive rows.

    Bin number `count` holds what is left over.
    """

    size: int  # rows of the sample
    rows: int
    count: int
    key: int
    unit: int = 1

    @property
    def classes(self) -> Int[np.ndarray, " S"]:
        """Of every bin; bins change sides within a class. Here all are alike."""
        return np.zeros(self.count, dtype=int)

    @property
    def strata(self) -> Int[np.ndarray, " S"]:
        """Of every bin; one for all."""
        return np.zeros(self.count, dtype=int)

    def of(self, first: int, count: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " b"]]:
        """The bin of each of `count` rows from number `first` on, and the place of its unit in the bin."""
        unit = np.arange(first, first + count) // self.unit
        place, units = np.full(count, self.count * self.rows), self.size // self.unit
        full = unit < units  # rows after the last whole unit are left over
        place[full] = shuffled(unit[full], units, self.key)
        return np.minimum(place // self.rows, self.count), place % self.rows

    def first_rows(self, each: int) -> Int[np.ndarray, " k"]:
        """The numbers of the rows of the first `each` units of every bin."""
        places = self.rows * np.arange(self.count)[:, None] + np.arange(min(each, self.rows))
        units = unshuffled(places.ravel(), self.size // self.unit, self.key)
        return (self.unit * units[:, None] + np.arange(self.unit)).ravel()


@dataclass(frozen=True, eq=False)
class ClusterBins:
    """Bins of as many clusters of rows each, within strata; a fixed bin has the rest of a stratum."""

    own: Int[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]
    classes: Int[np.ndarray, " S"]  # the stratum that a bin may change sides within; -1: it does not
    strata: Int[np.ndarray, " S"]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.classes)

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
    if isinstance(bins, Bins) and bins.count * each < count:
        found = np.zeros(count, dtype=bool)  # from the places of the few to their numbers
        rows = bins.first_rows(each) - first
        found[rows[(rows >= 0) & (rows < count)]] = True
        return found
    own, place = bins.of(first, count)
    return (own < bins.count) & (place < each)


def make_bins(sizes: tuple[int, ...], key: int, *, unit: int = 1, bins: int = BINS) -> tuple[Bins, ...]:
    """Bins of equal size for all samples: about `bins` in all, and enough of them in the smallest sample."""
    units = [size // unit for size in sizes]
    rows = max(1, min(sum(units) // bins, min(units) // max(2, bins // SHARE)))
    return tuple(
        Bins(size, rows, min(count // rows, max(MOST, bins)), key, unit)
        for size, count in zip(sizes, units, strict=True)
    )


def make_cluster_bins(
    clusters: tuple[Int[np.ndarray, " n"], ...],
    strata: tuple[Int[np.ndarray, " n"], ...],
    key: int,
    *,
    bins: int = BINS,
) -> tuple[ClusterBins, ...]:
    """Bins of clusters, which may have any number of rows: about `bins` in all, as many clusters in each.

    Clusters are put into bins by their numbers alone and within strata. Those below 0 never change sides.
    """
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
        made.append(ClusterBins(own[cluster], place[cluster], np.array(classes), np.array(inside)))
    return tuple(made)


def bin_indicators(
    own: Int[np.ndarray, " b"], count: int, weight: Float[np.ndarray, " b"] | None = None
) -> Any:
    """A sparse table whose product with features is their (weighted) sum by bin; what is left over last."""
    from scipy.sparse import csr_array

    weight = np.ones(len(own)) if weight is None else weight
    return csr_array((weight, (own, np.arange(len(own)))), shape=(count + 1, len(own)))


def dense(table: Any) -> Float[np.ndarray, "a b"]:
    """A table that may be sparse, written out."""
    return table.toarray() if hasattr(table, "toarray") else table

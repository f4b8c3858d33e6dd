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
class NamedBins:
    """Bins of units that have names, such as customers; `classes` tell how many rows a unit has."""

    own: Int[np.ndarray, " n"]
    place: Int[np.ndarray, " n"]
    rows: int  # units in a bin at most
    classes: Int[np.ndarray, " S"]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.classes)

    def of(self, first: int, count: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " b"]]:
        """As `Bins.of`."""
        part = slice(first, first + count)
        return self.own[part], self.place[part]


AnyBins = Bins | NamedBins


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


def make_named_bins(
    units: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]], key: int, *, bins: int = BINS
) -> tuple[NamedBins, NamedBins]:
    """Bins of units with as many rows each: units of one size are a class, and change sides among themselves.

    Units of a size that only one sample has keep their side.
    """
    rng = np.random.default_rng(key)
    found = []
    for names in units:
        _, unit, heights = np.unique(names, return_inverse=True, return_counts=True)
        found.append((unit.ravel(), heights))
    everything = sum(len(heights) for _, heights in found)
    sizes = np.intersect1d(found[0][1], found[1][1])
    rows = {}
    for size in sizes.tolist():
        both = [int((heights == size).sum()) for _, heights in found]
        rows[size] = max(1, min(everything // bins, min(both) // max(2, bins // SHARE)))
    made = []
    for unit, heights in found:
        own, place = np.full(len(heights), -1), np.zeros(len(heights), dtype=int)
        classes: list[int] = []
        for number, size in enumerate(sizes.tolist()):
            alike = rng.permutation(np.flatnonzero(heights == size))
            count = min(len(alike) // rows[size], MOST)
            moved = alike[: count * rows[size]]
            own[moved] = len(classes) + np.arange(len(moved)) // rows[size]
            place[moved] = np.arange(len(moved)) % rows[size]
            classes += [number] * count
        own[own < 0] = len(classes)
        made.append(NamedBins(own[unit], place[unit], max(rows.values(), default=1), np.array(classes, int)))
    return made[0], made[1]


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

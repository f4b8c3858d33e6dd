"""Bins of rows that move together: how a permutation test of any number of rows stays exact and cheap.

Rows are put into bins of equal size by their numbers alone, and whole bins change sides. Permutations of equal
bins that leave all else in place are a subgroup of the permutations of rows, so the test is exact, and a
statistic of mean features needs nothing but the sums of every bin (Domingo-Enrich, Dwivedi & Mackey 2025).
Rows that fill no bin keep their side; none is dropped.
"""

from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Bool, Float, Int

BINS = 256  # in all, of two samples alike; 64 lose little power, and more cost memory
FEWEST = 32  # of the smaller sample, where it has so many rows: fewer have too few arrangements
MOST = 512  # of one sample: beyond, the larger of two unequal samples has rows enough that keep their side
ROUNDS = 6  # of the network; four are enough to be pseudorandom (Luby & Rackoff 1988)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64


def shuffled(numbers: Int[np.ndarray, " b"], size: int, key: int) -> Int[np.ndarray, " b"]:
    """Where a keyed permutation of 0, ..., size - 1 sends these numbers, each by itself (a Feistel network).

    >>> sorted(shuffled(np.arange(10), 10, key=1).tolist()) == list(range(10))
    True
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    found = _network(numbers.astype(np.uint64), half, key)
    outside = np.flatnonzero(found >= size)
    while len(outside):  # the network permutes more numbers than there are: walk on until one is of ours
        found[outside] = _network(found[outside], half, key)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _network(numbers: Int[np.ndarray, " b"], half: int, key: int) -> Int[np.ndarray, " b"]:
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> shift, numbers & mask
    for turn in range(ROUNDS):
        salt = np.uint64((0x9E3779B97F4A7C15 * (2 * key + 1) + turn * 0xD1B54A32D192ED03) % 2**64)
        mixed = right + salt
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
        left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(31))) & mask)
    return (left << shift) | right


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
    def units(self) -> int:
        """Units of full length; rows after the last are left over."""
        return self.size // self.unit

    def of(self, first: int, count: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " b"]]:
        """The bin of each of `count` rows from number `first` on, and the place of its unit in the bin."""
        unit = np.arange(first, first + count) // self.unit
        place = np.full(count, self.count * self.rows)
        full = unit < self.units
        place[full] = shuffled(unit[full], self.units, self.key)
        return np.minimum(place // self.rows, self.count), place % self.rows

    def sampled(self, first: int, count: int, each: int) -> Bool[np.ndarray, " b"]:
        """Which rows are of the sample that holds `each` units of every bin.

        Whatever bins change sides, the rows drawn so are the same: what is computed from them, unordered,
        sees no label.
        """
        own, place = self.of(first, count)
        return (own < self.count) & (place < each)


def make_bins(sizes: tuple[int, int], key: int, *, unit: int = 1, bins: int = BINS) -> tuple[Bins, Bins]:
    """Bins of equal size for two samples: about `bins` in all, and enough of them in the smaller sample."""
    units = [size // unit for size in sizes]
    rows = max(1, min(sum(units) // bins, min(units) // FEWEST))
    first, second = (
        Bins(size, rows, min(count // rows, max(MOST, bins)), key, unit)
        for size, count in zip(sizes, units, strict=True)
    )
    return first, second


def sums_by_bin(features: Float[np.ndarray, "b p"], own: Int[np.ndarray, " b"], count: int) -> np.ndarray:
    """Σ of the features of every bin's rows; `count` bins, and what is left over."""
    from scipy.sparse import csr_array

    rows = np.arange(len(own))
    member = csr_array((np.ones(len(own)), (own, rows)), shape=(count + 1, len(own)))
    found = member @ features
    return found.toarray() if hasattr(found, "toarray") else found

"""Dyadic bins: bins of 1, 2, 4, ... rows of a reference, for later samples of any size.

A reference that is summarised must have bins of as many rows as those of any later sample. Its rows are taken
in a keyed order: the first CAP are bins of one row, and then each time as many rows again follow in CAP/2
bins twice as large. So there are CAP bins of r rows for every r = 2^k, each a bin or a union of bins, up to
the size of the reference.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.shuffling import shuffled

# Bins of every size that are kept of a reference. The file grows with it, and so do the rows of the reference
# that may change sides, which are CAP/(2 FEW) to CAP/FEW times those of the later sample.
CAP = 144
FEW = 16  # bins that a later sample has at least, and fewer than twice as many, where it has so many rows


@dataclass(frozen=True)
class DyadicBins:
    """The bins of `size` rows in a keyed order, of which the first are held out."""

    size: int  # rows of the sample, held-out ones included
    held_out: int
    key: int

    @property
    def powers(self) -> Int[np.ndarray, " A"]:
        """log₂ of the rows of every bin, in order."""
        return dyadic_powers(self.size - self.held_out)

    @property
    def count(self) -> int:
        """All of them, one for rows that fill no bin, and last one for held-out rows."""
        return len(self.powers) + 2

    def of(self, first: int, count: int) -> tuple[Int[np.ndarray, " b"], Int[np.ndarray, " b"]]:
        """The bin of each of `count` rows from number `first` on, and its place; below 0 if held out."""
        place = shuffled(np.arange(first, first + count), self.size, self.key) - self.held_out
        last = self.count - 2
        found = np.minimum(np.searchsorted(np.cumsum(2**self.powers), place, side="right"), last)
        return np.where(place < 0, last + 1, found), place


def dyadic_powers(rows: int) -> Int[np.ndarray, " A"]:
    """log₂ of the rows of the bins that so many rows fill.

    >>> len(dyadic_powers(CAP)), np.bincount(dyadic_powers(4 * CAP)).tolist() == [CAP, CAP // 2, CAP // 2]
    (144, True)
    """
    found, filled, power = [np.zeros(min(rows, CAP), dtype=int)], CAP, 1
    while filled < rows:
        found.append(np.full(min(CAP // 2, (rows - filled) // 2**power), power))
        filled, power = 2 * filled, power + 1
    return np.concatenate(found)


def unions(powers: Int[np.ndarray, " A"], power: int) -> Int[np.ndarray, " A"]:
    """Which union of 2^power rows every bin is in; -1 for none. Bins are in order of their sizes.

    >>> unions(np.array([0, 0, 0, 1, 1, 2]), 1).tolist()
    [0, 0, -1, 1, 2, -1]
    """
    groups: list[list[int]] = []
    for size in range(power + 1):
        pairs = [groups[k] + groups[k + 1] for k in range(0, len(groups) - 1, 2)]
        groups = [*pairs, *([place] for place in np.flatnonzero(powers == size).tolist())][:CAP]
    found = np.full(len(powers), -1)
    for number, places in enumerate(groups):
        found[places] = number
    return found


def union_indicators(powers: Int[np.ndarray, " A"], power: int) -> Bool[np.ndarray, "S A+1"]:
    """Which bins are in every union of 2^power rows, and in the rest; the last bin has rows in none.

    >>> union_indicators(np.array([0, 0, 0]), 1).astype(int).tolist()
    [[1, 1, 0, 0], [0, 0, 1, 1]]
    """
    own = unions(powers, power)
    count = int(own.max(initial=-1)) + 1
    return np.append(np.where(own < 0, count, own), count) == np.arange(count + 1)[:, None]


def common_power(samples: list[Any]) -> int:
    """log₂ of the rows of a bin for samples given by their powers or rows: FEW bins of each, if possible.

    >>> common_power([dyadic_powers(4_000), 600])
    5
    """

    def bins(sample: Any, power: int) -> int:
        if isinstance(sample, int):
            return sample >> power
        return int(unions(sample, power).max(initial=-1)) + 1

    power = 0
    while min(bins(sample, power + 1) for sample in samples) >= FEW:
        power += 1
    return power


def merge_bins(
    powers: Int[np.ndarray, " A"], table: Float[np.ndarray, "A p"]
) -> tuple[Int[np.ndarray, " B"], Float[np.ndarray, "B p"], Float[np.ndarray, " p"]]:
    """Bins of several samples as those of one: no more of a size than make CAP, the others in pairs.

    Returns the powers and sums of the bins, in order of their sizes, and the sum of what is left over.
    """
    kept: list[tuple[int, Any]] = []
    waiting: list[Any] = []  # bins of the next size that pairs have made
    left, made = np.zeros(table.shape[1]), 0  # bins of this size that smaller ones make
    highest = int(powers.max(initial=0))
    power = 0
    while power <= highest or waiting:
        same = [*waiting, *table[powers == power]]
        room = CAP - made
        kept += [(power, row) for row in same[:room]]
        more = same[room:]
        waiting = [more[k] + more[k + 1] for k in range(0, len(more) - 1, 2)]
        left = left + more[-1] if len(more) % 2 else left
        made, power = min(made + len(same), CAP) // 2, power + 1
    return np.array([power for power, _ in kept], dtype=int), np.array([row for _, row in kept]), left

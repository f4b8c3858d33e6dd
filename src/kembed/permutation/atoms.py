"""Bins for a sample that is not there yet: atoms of 1, 2, 4, ... rows, from which larger bins are made.

A reference that is kept must have bins of as many rows as those of any later sample. Its rows are taken in a
keyed order: the first CAP are atoms of one row, and then each time as many rows again follow in CAP/2 atoms
twice as large. So there are CAP bins of r rows for every r = 2^k, each an atom or a sum of atoms, up to the
size of the sample.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.shuffling import shuffled
from kembed.permutation.bins import MOST

# Bins of every size that are kept of a reference. The file grows with it, and so do the rows of the reference
# that may change sides, which are CAP/(2 FEW) to CAP/FEW times those of the later sample.
CAP = 144
FEW = 16  # bins that a later sample has at least, and fewer than twice as many, where it has so many rows


@dataclass(frozen=True)
class Atoms:
    """The atoms of `size` rows in a keyed order; the first `aside` of that order are in none."""

    size: int  # rows of the sample, those aside too
    aside: int
    key: int

    @property
    def powers(self) -> Int[np.ndarray, " A"]:
        """log₂ of the rows of every whole atom, in order."""
        return atom_powers(self.size - self.aside)

    def places(self, first: int, count: int) -> Int[np.ndarray, " b"]:
        """Where `count` rows from number `first` on stand in the order; below 0 those aside."""
        return shuffled(np.arange(first, first + count), self.size, self.key) - self.aside

    def of(self, first: int, count: int) -> Int[np.ndarray, " b"]:
        """The atom of each of these rows; that after the last holds what is left over; -1 those aside."""
        place, last = self.places(first, count), len(self.powers)
        found = np.where(place < 0, -1, place)
        later = np.flatnonzero(place >= CAP)
        power = np.frexp(place[later] // CAP)[1].astype(int)  # 1 from CAP on, 2 from 2 CAP on, ...
        start = CAP * 2 ** (power - 1)
        found[later] = CAP + (power - 1) * (CAP // 2) + (place[later] - start) // 2**power
        return np.minimum(found, last)


def atom_powers(rows: int) -> Int[np.ndarray, " A"]:
    """log₂ of the rows of the whole atoms that so many rows fill.

    >>> len(atom_powers(CAP)), np.bincount(atom_powers(4 * CAP)).tolist() == [CAP, CAP // 2, CAP // 2]
    (144, True)
    """
    found, filled, power = [np.zeros(min(rows, CAP), dtype=int)], CAP, 1
    while filled < rows:
        found.append(np.full(min(CAP // 2, (rows - filled) // 2**power), power))
        filled, power = 2 * filled, power + 1
    return np.concatenate(found)


def bins_of(powers: Int[np.ndarray, " A"], power: int) -> Int[np.ndarray, " A"]:
    """Which bin of 2^power rows every atom is in; -1 for none. Atoms are in order of their sizes.

    >>> bins_of(np.array([0, 0, 0, 1, 1, 2]), 1).tolist()
    [0, 0, -1, 1, 2, -1]
    """
    bins: list[list[int]] = []
    for size in range(power + 1):
        pairs = [bins[k] + bins[k + 1] for k in range(0, len(bins) - 1, 2)]
        bins = [*pairs, *([atom] for atom in np.flatnonzero(powers == size).tolist())][:CAP]
    found = np.full(len(powers), -1)
    for number, atoms in enumerate(bins):
        found[atoms] = number
    return found


def largest_power(rows: int, powers: Int[np.ndarray, " A"]) -> int:
    """log₂ of the rows of a bin, for a sample of so many rows against atoms: FEW bins on either side."""
    power = 0
    while rows >= FEW * 2 ** (power + 1) and bins_of(powers, power + 1).max(initial=-1) + 1 >= FEW:
        power += 1
    return power


def most_bins(rows: int, power: int) -> int:
    """The bins of 2^power rows of a sample that is there."""
    return min(rows // 2**power, MOST)


def joined(
    powers: Int[np.ndarray, " A"], table: Float[np.ndarray, "A p"]
) -> tuple[Int[np.ndarray, " B"], Float[np.ndarray, "B p"], Float[np.ndarray, " p"]]:
    """Atoms of several samples as those of one: no more of a size than make CAP bins, the others in pairs.

    The powers and sums of the atoms, in order of their sizes, and the sum of what is left over.
    """
    kept: list[tuple[int, Any]] = []
    waiting: list[Any] = []  # atoms of the next size that pairs have made
    left, made = np.zeros(table.shape[1]), 0  # bins of this size that smaller atoms make
    for power in range(int(powers.max(initial=0)) + 64):
        own = [*waiting, *table[powers == power]]
        room = CAP - made
        kept += [(power, row) for row in own[:room]]
        more = own[room:]
        waiting = [more[k] + more[k + 1] for k in range(0, len(more) - 1, 2)]
        left = left + more[-1] if len(more) % 2 else left
        made = min(made + len(own), CAP) // 2
        if power >= powers.max(initial=0) and not waiting:
            break
    return np.array([power for power, _ in kept], dtype=int), np.array([row for _, row in kept]), left

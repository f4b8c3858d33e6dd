"""All permutations of an independence test at once: rows on a ring, one side of which turns.

A permutation test of independence needs Σ_ij K_ij L_π(i)π(j) for many permutations π. Put the rows on a ring
in random order and turn the second side by k places: for every k at once that is

    S_k = Σ_d Σ_i K_{i,i+d} L_{i+k,i+d+k},

a circular correlation along each diagonal d, N log N work by the fast Fourier transform. All N turns together
cost N² log N, where one product for each permutation would cost N² B. Cross-products of features,
Σ_i a_i b_{i+k}, are correlations too.

The turns of one ring are a group, so the test is exact (Hemerik & Goeman 2018). Where N turns are too few,
several rings meet in one *hub*: the data are turned along the first ring by a random amount to reach the hub,
and the other rings pass through the hub, which counts once. Given this star the data are equally likely to be
any of its points (Besag & Clifford 1989), so the p-value is exact for any number of rings.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kembed.core.backend import Float, Int

AT_ONCE = 64  # diagonals that are transformed, and rows that are gathered, together: what a cache holds


@dataclass(frozen=True, eq=False)
class Ring:
    """Rows in ring order: turn k pairs row left[i] with row right[i + k]."""

    left: Int[np.ndarray, " N"]
    right: Int[np.ndarray, " N"]


@dataclass(frozen=True, eq=False)
class Star:
    """Rings through one hub, and which of their points are the resamples."""

    rings: tuple[Ring, ...]
    chosen: Int[np.ndarray, " B"]
    enumerated: bool = False  # whether these are all

    def values(self, turns: list[Float[np.ndarray, "N ..."]]) -> Float[np.ndarray, "C ..."]:
        """The data's own value first, then those of the resamples."""
        every = np.concatenate(turns)
        return np.concatenate([every[:1], every[1:][self.chosen]])

    @property
    def count(self) -> int:
        """How many points: the data, and the resamples."""
        return len(self.chosen) + 1

    @property
    def orders(self) -> Int[np.ndarray, "C N"]:
        """Which row of the second side every row of the first meets, at every point."""
        N = len(self.rings[0].left)
        found = np.empty((self.count, N), dtype=int)
        for row, point in zip(found, np.append(0, self.chosen + 1), strict=True):
            ring, turn = divmod(int(point), N)
            row[self.rings[ring].left] = np.roll(self.rings[ring].right, -turn)
        return found

    def products(
        self, first: Float[np.ndarray, "N p"], second: Float[np.ndarray, "N q"], width: int = 1
    ) -> Iterator[tuple[slice, Float[np.ndarray, "w q C"]]]:
        """Σ_i a_i b_π(i) for features a one by one, all features b of the second side, and every π."""
        N = len(first)
        spectra = [np.fft.rfft(second[ring.right].T) for ring in self.rings]
        for p in range(first.shape[1]):
            turns = []
            for ring, spectrum in zip(self.rings, spectra, strict=True):
                own = np.conj(np.fft.rfft(first[ring.left, p]))
                turns.append(np.fft.irfft(own * spectrum, N).T)
            yield slice(p, p + 1), self.values(turns).T[None]

    def forms(self, K: Float[np.ndarray, "N N"], L: Float[np.ndarray, "N N"]) -> Float[np.ndarray, " C"]:
        """Σ_ij K_ij L_π(i)π(j) of two symmetric matrices for every π."""
        N = len(K)
        times = np.full(N // 2 + 1, 2.0)  # the diagonals d and N - d mirror each other
        times[0], times[-1] = 1.0, 1.0 if N % 2 == 0 else 2.0
        turns = []
        for ring in self.rings:
            spectrum = np.zeros(N // 2 + 1, dtype=complex)
            left, right = diagonals(K, ring.left), diagonals(L, ring.right)
            for start in range(0, len(times), AT_ONCE):
                part = slice(start, start + AT_ONCE)
                one, other = np.fft.rfft(left[part]), np.fft.rfft(right[part])
                spectrum += np.einsum("d,df,df->f", times[part], np.conj(one), other)
            turns.append(np.fft.irfft(spectrum, N))
        return self.values(turns)


def draw_star(N: int, n_resamples: int, rng: np.random.Generator) -> Star:
    """Rings with at least `n_resamples` points other than the data, and a random choice of that many."""
    count = -(-n_resamples // (N - 1))
    orders = [rng.permutation(N) for _ in range(count)]
    first = orders[0]
    if count == 1:  # an arc of turns in which the data have a random place
        before = int(rng.integers(n_resamples + 1))
        chosen = np.concatenate([np.arange(N - before, N), np.arange(1, n_resamples - before + 1)]) - 1
        return Star((Ring(first, first),), chosen)
    # The star has one hub and N - 1 other points a ring; the data are any of them alike.
    turn = 0 if rng.random() * (count * (N - 1) + 1) < 1.0 else int(rng.integers(1, N))
    hub = np.empty(N, dtype=int)
    hub[first] = np.roll(first, -turn)
    rings = (Ring(first, first), *(Ring(order, hub[order]) for order in orders[1:]))
    others = np.flatnonzero(np.arange(N * count) % N) - 1  # not the data, nor the hub of a further ring
    return Star(rings, rng.choice(others, n_resamples, replace=False))


def draw_shifts(N: int, n_resamples: int, rng: np.random.Generator) -> Star:
    """The ring of the rows in their own order, which is time: all of its turns, or so many of them."""
    order = np.arange(N)
    few = n_resamples < N - 1
    chosen = np.sort(rng.choice(N - 1, n_resamples, replace=False)) if few else order[:-1]
    return Star((Ring(order, order),), chosen, enumerated=not few)


def diagonals(matrix: Float[np.ndarray, "N N"], order: Int[np.ndarray, " N"]) -> Float[np.ndarray, "h N"]:
    """Entry (d, i) is that of rows order[i] and order[i + d], for the first half of the diagonals."""
    N, last = len(matrix), len(matrix) // 2
    out, ring = np.empty((last + 1, N)), np.concatenate([order, order])
    for i in range(0, N, AT_ONCE):
        rows = order[i : i + AT_ONCE]
        rectangle = np.take(matrix[rows], ring[i : i + len(rows) + last], axis=1)
        down, along = rectangle.strides
        out[:, i : i + AT_ONCE] = as_strided(rectangle, (len(rows), last + 1), (down + along, along)).T
    return out

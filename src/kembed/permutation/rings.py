"""All permutations of a test at once: rows on a ring, labels that turn.

A permutation test needs Σ_ij K_ij L_π(i)π(j) for many permutations π. Put the rows on a ring in random order
and turn the second matrix by k places: for every k at once that is

    S_k = Σ_d Σ_i K_{i,i+d} L_{i+k,i+d+k},

a circular correlation along each diagonal d, N log N work by the fast Fourier transform. All N turns
together cost N² log N, where one product for each permutation would cost N² B.

The turns of one ring are a group, so the test is exact (Hemerik & Goeman 2018). Where N turns are too few,
several rings meet in one *hub*: the data are turned along the first ring by a random amount to reach the hub,
and the other rings pass through the hub, which counts once. Given this star the data are equally likely to be
any of its points (Besag & Clifford 1989), so the p-value is exact for any number of rings.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kembed.core.backend import Float, Int
from kembed.core.progress import progress_bar
from kembed.permutation.gram import KernelSums, Pairs, matrix_pairs

Rows = Int[np.ndarray, " a"]
Vector = Float[np.ndarray, " N"]
# Working memory of a pass over the diagonals, in bytes, where `batch` does not say otherwise.
BUDGET = 2**28
# Up to so many rows transforms are NumPy's, which has no threads but is there already; beyond, SciPy's.
FEW_ROWS = 4_000
# Diagonals that NumPy transforms at once: what a processor's cache holds of 2,000 rows. All thousand of them
# took half as long again; with half as many, rectangles are mostly triangles.
AT_ONCE = 125
# All processors: the transforms of a block's columns do not depend on each other, and SciPy takes no more
# threads than their number is worth.
WORKERS = -1


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

    def values(self, turns: list[Float[np.ndarray, "N ..."]]) -> Float[np.ndarray, "C ..."]:
        """The data's own value first, then those of the resamples."""
        every = np.concatenate(turns)
        return np.concatenate([every[:1], every[1:][self.chosen]])

    @property
    def count(self) -> int:
        """How many points: the data, and the resamples."""
        return len(self.chosen) + 1

    def pairings(self, which: slice) -> Int[np.ndarray, "C N"]:
        """Which row of the second side every row of the first meets, for some of the points."""
        return self.turned(np.arange(len(self.rings[0].left)), which)

    def turned(self, values: np.ndarray, which: slice) -> np.ndarray:
        """What every row of the first side meets of values of the second, for some of the points."""
        N = len(self.rings[0].left)
        twice = [np.concatenate([values[ring.right]] * 2) for ring in self.rings]
        points = np.append(0, self.chosen + 1)[which]
        found = np.empty((len(points), N), dtype=values.dtype)
        for row, point in zip(found, points, strict=True):
            ring, turn = divmod(int(point), N)
            row[self.rings[ring].left] = twice[ring][turn : turn + N]
        return found

    def products(self, u: Vector, v: Vector) -> Float[np.ndarray, " B+1"]:
        """Σ_i u_i v_π(i) for the data and under every resample."""
        return self.values([correlate(u[ring.left], v[ring.right]) for ring in self.rings])


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
    return Star((Ring(order, order),), chosen)


def correlate(u: Vector, v: Vector) -> Vector:
    """Σ_i u_i v_{i+k} for every turn k."""
    return np.fft.irfft(np.conj(np.fft.rfft(u)) * np.fft.rfft(v), len(u))


def transforms_of(N: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The Fourier transform of N real numbers down the columns of a table, and the way back."""
    if N <= FEW_ROWS:
        return partial(np.fft.rfft, axis=0), partial(np.fft.irfft, n=N, axis=0)
    from scipy import fft

    return partial(fft.rfft, axis=0, workers=WORKERS), partial(fft.irfft, n=N, axis=0, workers=WORKERS)


def label_pairs(a: Vector) -> Pairs:
    """The matrix a aᵀ, as if it were a kernel."""
    return matrix_pairs(lambda rows, columns: np.multiply.outer(a[rows], a[columns]), a * a)


def ring_sums(
    left: Pairs, right: Pairs, star: Star, batch: int | None, sides: int = 2
) -> tuple[Float[np.ndarray, "B+1 J L"], list[KernelSums], list[KernelSums]]:
    """Σ_{i≠j} K_ij L_π(i)π(j) for the data and every resample, and the sums of the kernels of either side.

    All turns of every ring, a block of diagonals at a time. With `sides` 1, sums of the first side alone.
    """
    N, J, L = left.size, len(left.maps), len(right.maps)
    forth, back = transforms_of(N)
    last = N // 2  # the diagonals d and N - d mirror each other
    most = min(last, AT_ONCE) if N <= FEW_ROWS else last
    step = max(1, min(batch, last)) if batch else int(np.clip(BUDGET // (8 * N * (4 + L)), 8, max(most, 8)))
    row_sums, squares = (np.zeros((J, N)), np.zeros((L, N))), (np.zeros(J), np.zeros(L))
    turns: list[Float[np.ndarray, "N J L"]] = []

    def transforms(side: int, order: Rows, diagonals: Rows) -> Iterator[Float[np.ndarray, "f b"]]:
        """Of a block of diagonals, kernel by kernel; on the first ring its sums are added up too."""
        pairs = (left, right)[side]
        base = _diagonal_block(pairs, order, diagonals)
        buffer = np.empty_like(base)
        for j, apply in enumerate(pairs.maps):
            block = apply(base, buffer)
            if side < sides and not turns:
                _add_rows(row_sums[side][j], order, block, diagonals, N)
                squares[side][j] += twice @ np.einsum("id,id->d", block, block)
            yield forth(block)

    with progress_bar(last * len(star.rings), last * N * (J + L), "permutations") as shown:
        for ring in star.rings:
            spectrum = np.zeros((N // 2 + 1, J, L), dtype=complex)
            for d in range(1, last + 1, step):
                diagonals = np.arange(d, min(d + step, last + 1))
                twice = np.where(2 * diagonals == N, 1.0, 2.0)
                others = transforms(1, ring.right, diagonals)
                partners = [np.conj(np.multiply(one, twice, out=one), out=one) for one in others]
                for j, one in enumerate(transforms(0, ring.left, diagonals)):
                    for k, partner in enumerate(partners):
                        spectrum[:, j, k] += np.einsum("fd,fd->f", one, partner)
                shown.update(len(diagonals))
            turns.append(back(np.conj(spectrum)))
    first, second = (
        list(map(KernelSums, rows, pairs.diagonals, map(float, total)))
        for pairs, rows, total in zip((left, right), row_sums, squares, strict=True)
    )
    return star.values(turns), first, second


def _diagonal_block(pairs: Pairs, order: Rows, diagonals: Rows) -> Float[np.ndarray, "N b"]:
    """Entry (i, d) is the base at rows order[i] and order[i + d]."""
    N, count, first = pairs.size, len(diagonals), int(diagonals[0])
    out = np.empty((N, count))
    height = int(np.clip(count // 2, 32, 512))  # a rectangle holds the parallelogram and two triangles
    ring = np.concatenate([order, order])
    for i in range(0, N, height):
        rows = order[i : i + height]
        start = i + first
        rectangle = pairs.base(rows, ring[start : start + len(rows) + count - 1])
        down, along = rectangle.strides
        out[i : i + height] = as_strided(rectangle, (len(rows), count), (down + along, along))
    return out


def _add_rows(total: Vector, order: Rows, block: Float[np.ndarray, "N b"], diagonals: Rows, N: int) -> None:
    """Adds a block's share of the row sums: entry (i, d) counts for row i and for row i + d."""
    count = len(diagonals) - (2 * int(diagonals[-1]) == N)  # the diagonal N/2 meets every row once already
    total[order] += block.sum(axis=1)
    if not count:
        return
    ends = np.concatenate([block[N - count + 1 :], block[: count - 1]])  # where the ring closes
    across = [_slanted(ends, count).sum(axis=1), _slanted(block, count).sum(axis=1)]
    total[order] += np.roll(np.concatenate(across), int(diagonals[0]))


def _slanted(block: Float[np.ndarray, "n b"], count: int) -> Float[np.ndarray, "m count"]:
    """Entry (i, k) is that of row i + count - 1 - k in column k, a view for as many rows as there are."""
    down, along = block.strides
    return as_strided(block[count - 1 :], (len(block) - count + 1, count), (down, along - down))


def factor_turns(
    left: Float[np.ndarray, "N p"], right: Float[np.ndarray, "N q"], star: Star, budget: int = BUDGET
) -> Float[np.ndarray, " B+1"]:
    """Σ_ij K_ij L_π(i)π(j) for K = F Fᵀ and L = G Gᵀ, diagonals included: ‖Σ_i f_i g_π(i)ᵀ‖².

    Works through the columns of the wider factor one by one; memory is a few times that of both factors.
    """
    N = len(left)
    forth, back = transforms_of(N)
    width = max(1, budget // (32 * N))
    turns = []
    for ring in star.rings:
        f, g = np.conj(forth(left[ring.left])), forth(right[ring.right])
        single, block = (f, g) if f.shape[1] > g.shape[1] else (g, f)
        total = np.zeros(N)
        for column in single.T:
            for b in range(0, block.shape[1], width):
                part = back(column[:, None] * block[:, b : b + width])
                total += np.einsum("ib,ib->i", part, part)
        turns.append(total)
    return star.values(turns)

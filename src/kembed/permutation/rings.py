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

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kembed.core.progress import progress_bar
from kembed.permutation.gram import Pairs

if TYPE_CHECKING:
    from jaxtyping import Float, Int

# Working memory of a pass over the diagonals, in bytes, where `batch` does not say otherwise.
BUDGET = 2**28


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

    def values(self, turns: list[Float[np.ndarray, "N J"]]) -> Float[np.ndarray, "B+1 J"]:
        """The data's own value first, then those of the resamples."""
        every = np.concatenate(turns)
        return np.concatenate([every[:1], every[1:][self.chosen]])


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


@dataclass(frozen=True, eq=False)
class Sums:
    """What a test needs of J kernels whose diagonal is set to 0.

    `turns[r][k, j, l]` = Σ_{i≠j} K_ij L_{i+k,j+k} on ring r; `rows` are the row sums, `squares` the sums of
    squared entries.
    """

    turns: list[Float[np.ndarray, "N J L"]]
    left_rows: Float[np.ndarray, "J N"]
    right_rows: Float[np.ndarray, "L N"]
    left_squares: Float[np.ndarray, " J"]
    right_squares: Float[np.ndarray, " L"]


def correlate(u: Float[np.ndarray, " N"], v: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Σ_i u_i v_{i+k} for every turn k."""
    return np.fft.irfft(np.conj(np.fft.rfft(u)) * np.fft.rfft(v), len(u))


def label_pairs(a: Float[np.ndarray, " N"]) -> Pairs:
    """The matrix a aᵀ, as if it were a kernel."""
    return Pairs(len(a), lambda rows, columns: np.multiply.outer(a[rows], a[columns]), (None,), (a * a)[None])


def ring_sums(left: Pairs, right: Pairs, star: Star, batch: int | None) -> Sums:
    """The sums over all turns of every ring, a block of diagonals at a time."""
    from scipy import fft

    N, J, L = left.size, len(left.maps), len(right.maps)
    last = N // 2  # the diagonals d and N - d mirror each other
    step = _diagonals_at_once(N, L, batch)
    left_rows, right_rows = np.zeros((J, N)), np.zeros((L, N))
    left_squares, right_squares = np.zeros(J), np.zeros(L)
    turns = []
    with progress_bar(last * len(star.rings), last * N * (J + L), "permutations") as shown:
        for number, ring in enumerate(star.rings):
            spectrum = np.zeros((N // 2 + 1, J, L), dtype=complex)
            for d in range(1, last + 1, step):
                diagonals = np.arange(d, min(d + step, last + 1))
                twice = np.where(2 * diagonals == N, 1.0, 2.0)
                partners = []
                base = _diagonal_block(right, ring.right, diagonals)
                buffer = np.empty_like(base)
                for j in range(L):
                    block = right.mapped(j, base, buffer)
                    if number == 0:
                        _add_rows(right_rows[j], ring.right, block, diagonals, N)
                        right_squares[j] += twice @ np.einsum("id,id->d", block, block)
                    partner = fft.rfft(block, axis=0, workers=2)
                    partner *= twice
                    partners.append(np.conj(partner, out=partner))
                base = _diagonal_block(left, ring.left, diagonals)
                for j in range(J):
                    block = left.mapped(j, base, buffer)
                    if number == 0:
                        _add_rows(left_rows[j], ring.left, block, diagonals, N)
                        left_squares[j] += twice @ np.einsum("id,id->d", block, block)
                    transformed = fft.rfft(block, axis=0, workers=2)
                    for k, partner in enumerate(partners):
                        spectrum[:, j, k] += np.einsum("fd,fd->f", transformed, partner)
                shown.update(len(diagonals))
            turns.append(fft.irfft(np.conj(spectrum), N, axis=0))
    return Sums(turns, left_rows, right_rows, left_squares, right_squares)


def _diagonals_at_once(N: int, partners: int, batch: int | None) -> int:
    if batch is not None:
        return max(1, min(batch, N // 2))
    return int(np.clip(BUDGET // (8 * N * (4 + partners)), 8, max(N // 2, 8)))


def _diagonal_block(
    pairs: Pairs, order: Int[np.ndarray, " N"], diagonals: Int[np.ndarray, " b"]
) -> Float[np.ndarray, "N b"]:
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
        out[i : i + height] = np.lib.stride_tricks.as_strided(
            rectangle, (len(rows), count), (down + along, along)
        )
    return out


def _add_rows(
    total: Float[np.ndarray, " N"],
    order: Int[np.ndarray, " N"],
    block: Float[np.ndarray, "N b"],
    diagonals: Int[np.ndarray, " b"],
    N: int,
) -> None:
    """Adds a block's share of the row sums: entry (i, d) counts for row i and for row i + d."""
    middle = len(diagonals) - (2 * int(diagonals[-1]) == N)  # the diagonal N/2 meets every row once already
    along = block.sum(axis=1)
    across = np.zeros(2 * N)
    count, first, height = middle, int(diagonals[0]), 256
    if count:
        for i in range(0, N, height):
            rows = min(height, N - i)
            skewed = np.zeros((rows, rows + count))
            view = np.lib.stride_tricks.as_strided(
                skewed, (rows, count), (skewed.strides[0] + 8, 8), writeable=True
            )
            view[:] = block[i : i + rows, :count]
            across[i + first : i + first + rows + count] += skewed.sum(axis=0)
    along += across[:N] + across[N:]
    total[order] += along


def factor_turns(
    left: Float[np.ndarray, "N p"], right: Float[np.ndarray, "N q"], star: Star
) -> list[Float[np.ndarray, " N"]]:
    """Σ_ij K_ij L_{i+k,j+k} for K = F Fᵀ and L = G Gᵀ, diagonals included: ‖Σ_i f_i g_{i+k}ᵀ‖².

    Works through the columns of the wider factor one by one; memory is a few times that of both factors.
    """
    from scipy import fft

    N = len(left)
    turns = []
    for ring in star.rings:
        f = np.conj(fft.rfft(left[ring.left], axis=0, workers=2))
        g = fft.rfft(right[ring.right], axis=0, workers=2)
        if f.shape[1] > g.shape[1]:  # one column at a time against all of the other
            single, block = f, g
        else:
            single, block = g, f
        total = np.zeros(N)
        width = max(1, int(BUDGET // (32 * N)))
        for c in range(single.shape[1]):
            for b in range(0, block.shape[1], width):
                part = fft.irfft(single[:, c : c + 1] * block[:, b : b + width], N, axis=0, workers=2)
                total += np.einsum("ib,ib->i", part, part)
        turns.append(total)
    return turns

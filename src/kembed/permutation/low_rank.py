"""Kernels of low rank: K = F Fᵀ with few columns, on which a test costs next to nothing.

Three sources: the pivoted Cholesky factorisation, exact to rounding where the kernel is smooth against the
spacing of the rows; random Fourier features; and whitened features at landmarks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.permutation.blocks import Blocks, Graph
from kembed.permutation.counts import Leaves, Neighbours
from kembed.permutation.fourier import fourier
from kembed.permutation.gram import KernelSums, Pairs, Table, matrix_pairs, space_pairs

# The trace left over when a factor counts as exact, as a share of the whole.
EXACT = 1e-12
# A factorisation that has not got this far by a given rank is given up: rank and share of the trace left.
CHECKPOINTS = {32: 0.2, 64: 0.02, 128: 1e-4, 256: 1e-7}
MAX_RANK = 400  # what is not exact by then is left dense
# Below so many rows a dense pass takes a tenth of a second, and a factor is not worth trying.
LARGE = 4_000


@dataclass(frozen=True, eq=False)
class LowRank:
    """K = F Fᵀ on N rows."""

    columns: Float[np.ndarray, "N r"]

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.columns)

    @property
    def diagonal(self) -> Float[np.ndarray, " N"]:
        """K_ii."""
        return np.einsum("ir,ir->i", self.columns, self.columns)

    def sums(self) -> KernelSums:
        """Row sums, diagonal and squares."""
        F, diagonal = self.columns, self.diagonal
        squares = float(np.square(F.T @ F).sum() - np.square(diagonal).sum())
        return KernelSums(F @ F.sum(axis=0) - diagonal, diagonal, squares)

    def weighted(self, v: Float[np.ndarray, " N"]) -> "LowRank":
        """The kernel v_i K_ij v_j."""
        return LowRank(self.columns * v[:, None])

    def pairs(self) -> Pairs:
        """The same kernel, served in rectangles."""
        F = self.columns
        return matrix_pairs(lambda rows, columns: F[rows] @ F[columns].T, self.diagonal)


@dataclass(frozen=True, eq=False)
class LazyLowRank:
    """A kernel of low rank that is computed when it is needed, so that only one is held at a time."""

    size: int
    compute: Callable[[], LowRank]


Ready = Pairs | LowRank | Blocks | Graph | Leaves | Neighbours
Member = Ready | LazyLowRank


def computed(member: Member) -> Ready:
    """The member, computed if it was not."""
    return member.compute() if isinstance(member, LazyLowRank) else member


def kernel_count(member: Member) -> int:
    """How many kernels a member has."""
    if isinstance(member, Pairs):
        return len(member.maps)
    return member.count if isinstance(member, Blocks | Leaves | Neighbours) else 1


def member_pairs(member: Member) -> Pairs:
    """The member in rectangles."""
    ready = computed(member)
    if isinstance(ready, Leaves | Neighbours):
        (ready,) = ready.alone
    return ready if isinstance(ready, Pairs) else ready.pairs()


def pair_sums(member: Ready) -> Float[np.ndarray, " J"]:
    """Σ_i K(x_i, y_i) of every kernel, for rows x_1, ..., x_n, y_1, ..., y_n."""
    first, second = np.split(np.arange(member.size), 2)
    if isinstance(member, Blocks | Graph | Leaves | Neighbours):
        return member.between(first, second)
    if isinstance(member, LowRank):
        return np.array([np.vdot(member.columns[first], member.columns[second])])
    return member.at(first, second).sum(axis=1)


def with_low_rank(members: tuple[Member, ...], large: int = LARGE) -> list[tuple[Member, list[int]]]:
    """The same kernels with exact factors in place of large matrices, each with its places in the order.

    Kernels that have no such factor stay together: they share their distances.
    """
    found: list[tuple[Member, list[int]]] = []
    place = 0
    for member in members:
        count = kernel_count(member)
        places = list(range(place, place + count))
        place += count
        if not isinstance(member, Pairs) or member.size < large or not member.definite:
            found.append((member, places))
            continue
        factors = [pivoted_cholesky(member.some([j])) for j in range(count)]
        dense = [j for j, factor in enumerate(factors) if factor is None]
        found += [(factor, [places[j]]) for j, factor in enumerate(factors) if factor is not None]
        if dense:
            found.append((member.some(dense), [places[j] for j in dense]))
    return found


def joined(members: tuple[Member, ...]) -> tuple[tuple[Member, ...], list[int]]:
    """The same with Gaussians of one space as one member, for they share their distances; and the old places.

    Kernel j of what is returned was kernel `places[j]`.
    """
    found: list[tuple[Member, list[int]]] = []
    homes: dict[int, int] = {}
    place = 0
    for member in members:
        places = list(range(place, place + kernel_count(member)))
        place += len(places)
        if isinstance(member, Pairs) and member.space is not None:
            home = homes.setdefault(id(member.space), len(found))
            if home < len(found):
                other, earlier = found[home]
                assert isinstance(other, Pairs)
                both = np.array([*other.lengthscales, *member.lengthscales])
                found[home] = space_pairs(member.space, both), earlier + places
                continue
        found.append((member, places))
    return tuple(member for member, _ in found), [place for _, places in found for place in places]


def pivoted_cholesky(pairs: Pairs) -> LowRank | None:
    """F with trace(K - F Fᵀ) ≤ 1e-12 trace K, or None where the rank is too large for that.

    Each step takes the row whose diagonal is worst explained (Harbrecht, Peters & Schneider 2012).
    """
    N, (offset,) = pairs.size, pairs.offsets
    every = np.arange(N)
    left = pairs.diagonals[0] + offset
    trace = float(left.sum())
    F = np.empty((min(MAX_RANK, N), N))
    for rank in range(len(F) + 1):
        remaining = float(np.maximum(left, 0.0).sum())
        if remaining <= EXACT * trace:
            return LowRank(np.ascontiguousarray(F[:rank].T))
        if rank == len(F) or remaining > CHECKPOINTS.get(rank, 1.0) * trace:
            break
        pivot = int(np.argmax(left))
        row = pairs.rectangles(np.array([pivot]), every)[0][0] + offset
        F[rank] = (row - F[:rank, pivot] @ F[:rank]) / np.sqrt(left[pivot])
        left -= F[rank] ** 2
        left[pivot] = 0.0
    return None


def random_features(kernel: Any, x: Table, count: int, rng: np.random.Generator) -> LowRank:
    """Random Fourier features of the rows."""
    found = fourier(kernel, x, count, rng)
    if found is None:
        needed = f"needs a kernel with a spectral density that floats hold, not {kernel!r}"
        remedy = "give a word or a stationary kernel, or use statistic='unbiased'"
        raise TypeError(f"statistic='features' with this null {needed}; {remedy}")
    return LowRank(found(x))


class Spectrum(NamedTuple):
    """Of features of so many rows the mean, and about it the eigenvalues (rising) and vectors of ΣΦᵢΦᵢᵀ."""

    rows: int
    mean: Float[np.ndarray, " m"]
    eigenvalues: Float[np.ndarray, " m"]
    vectors: Float[np.ndarray, "m m"]

    def whitening(self, ridge: float) -> Float[np.ndarray, "m r"]:
        """L with L Lᵀ = (Σ + ρI)⁻¹, ρ = ridge · trace Σ; a column of zeros where no feature varies.

        Centred features φ̃(x)ᵀL have the kernel φ̃(x)ᵀ(Σ + ρI)⁻¹φ̃(y). The squared distance it gives is
        dᵀ(Σ + ρI)⁻¹d, the difference of two mean embeddings at the landmarks, measured against their own
        sampling covariance. Columns of L are for principal features, of which the last varies most.
        """
        total = float(self.eigenvalues.sum())
        if not total > 0.0:
            return np.zeros((len(self.mean), 1))
        return self.vectors * np.sqrt(self.rows / (self.eigenvalues + ridge * total))


def feature_spectrum(centred: Float[np.ndarray, "N m"], mean: Float[np.ndarray, " m"]) -> Spectrum:
    """What whitens features, given less their mean, whatever the ridge."""
    # Eigenvectors of the covariance: as good as a singular value decomposition down to ridges of 1e-10.
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred)
    return Spectrum(len(centred), mean, np.maximum(eigenvalues, 0.0), vectors)

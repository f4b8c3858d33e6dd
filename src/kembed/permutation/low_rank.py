"""Kernels of low rank: K = F Fᵀ with few columns, on which a test costs next to nothing.

Three sources: the pivoted Cholesky factorisation, exact to rounding where the kernel is smooth against the
spacing of the rows; random Fourier features; and whitened features at landmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kembed.permutation.gram import Pairs

if TYPE_CHECKING:
    from jaxtyping import Float

# The trace left over when a factor counts as exact, as a share of the whole.
EXACT = 1e-12
# A factorisation that has not got this far by a given rank is given up: (rank, share of the trace left).
CHECKPOINTS = ((32, 0.2), (64, 0.02), (128, 1e-4), (256, 1e-7))
MAX_RANK = 400


@dataclass(frozen=True, eq=False)
class Deferred:
    """A factor that is made when it is needed, so that only one is held at a time."""

    size: int
    make: Callable[[], Factor]


@dataclass(frozen=True, eq=False)
class Factor:
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

    def row_sums(self) -> Float[np.ndarray, " N"]:
        """Σ_{j≠i} K_ij."""
        return self.columns @ self.columns.sum(axis=0) - self.diagonal

    def squares(self) -> float:
        """Σ_{i≠j} K_ij²."""
        return float((np.square(self.columns.T @ self.columns)).sum() - np.square(self.diagonal).sum())

    def weighted(self, v: Float[np.ndarray, " N"]) -> Factor:
        """The kernel v_i K_ij v_j."""
        return Factor(self.columns * v[:, None])

    def pairs(self) -> Pairs:
        """The same kernel, served in rectangles."""
        F = self.columns
        return Pairs(len(F), lambda rows, columns: F[rows] @ F[columns].T, (None,), self.diagonal[None])


Member = Pairs | Factor | Deferred


def made(member: Member) -> Pairs | Factor:
    """The member itself, once it is needed."""
    return member.make() if isinstance(member, Deferred) else member


def as_pairs(member: Member) -> Pairs:
    """The member in rectangles."""
    ready = made(member)
    return ready.pairs() if isinstance(ready, Factor) else ready


def kernels_in(member: Member) -> int:
    """How many kernels a member has."""
    return len(member.maps) if isinstance(member, Pairs) else 1


def pivoted_cholesky(pairs: Pairs, j: int, max_rank: int = MAX_RANK) -> Factor | None:
    """F with trace(K - F Fᵀ) ≤ 1e-12 trace K, or None where the rank is too large for that.

    Each step takes the row whose diagonal is worst explained (Harbrecht, Peters & Schneider 2012).
    """
    N = pairs.size
    every = np.arange(N)
    left = pairs.diagonals[j] + pairs.offset(j)
    trace = float(left.sum())
    F = np.empty((min(max_rank, N), N))
    checks = dict(CHECKPOINTS)
    for rank in range(len(F) + 1):
        remaining = float(np.maximum(left, 0.0).sum())
        if remaining <= EXACT * trace:
            return Factor(np.ascontiguousarray(F[:rank].T))
        if rank == len(F) or remaining > checks.get(rank, 1.0) * trace:
            return None
        pivot = int(np.argmax(left))
        base = pairs.base(np.array([pivot]), every)
        row = pairs.mapped(j, base, np.empty_like(base))[0] + pairs.offset(j)
        F[rank] = (row - F[:rank, pivot] @ F[:rank]) / np.sqrt(left[pivot])
        left -= F[rank] ** 2
        left[pivot] = 0.0
    return None


def whitened(features: Float[np.ndarray, "N m"], ridge: float) -> Factor:
    """φ̃(x)ᵀ (Σ + ρ I)⁻¹ φ̃(y) for centred features with covariance Σ, and ρ = ridge · trace Σ.

    The squared distance it gives is dᵀ(Σ + ρI)⁻¹d, the difference of two mean embeddings at the landmarks,
    measured against their own sampling covariance.
    """
    centred = features - features.mean(axis=0)
    # Eigenvectors of the covariance: as good as a singular value decomposition down to ridges of 1e-10.
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    total = float(eigenvalues.sum())
    if not total > 0.0:
        return Factor(np.zeros((len(features), 1)))
    return Factor(centred @ (vectors * np.sqrt(len(features) / (eigenvalues + ridge * total))))

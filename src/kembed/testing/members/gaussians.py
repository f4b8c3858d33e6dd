"""Gaussians at given scales: the matrix itself, or features at landmarks where there are too many rows."""

import numpy as np

from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.permutation.gram import space_pairs
from kembed.permutation.low_rank import LazyLowRank, LowRank, Member
from kembed.testing.members.rows import Rows

# Eigenvalues of the matrix of landmarks below this share of the largest are rounding.
ROUNDING = 1e-10


def gaussian(rows: Rows, lengthscale: float) -> tuple[Member, Kernel]:
    """A Gaussian of the distance of the space, as a member, and what to call it."""
    kernel = space_kernel(rows.space, lengthscale)
    if rows.many:
        return LazyLowRank(rows.size, lambda: _at_landmarks(rows, lengthscale)), kernel
    return space_pairs(rows.space, np.array([lengthscale])), kernel


def _at_landmarks(rows: Rows, lengthscale: float) -> LowRank:
    """Nyström's features: k(x, z) K_zz^{-1/2}."""
    between = rows.between_landmarks / (-2.0 * lengthscale**2)
    values, vectors = np.linalg.eigh(np.exp(between))
    kept = values > ROUNDING * values[-1]
    features = np.exp(rows.to_landmarks / (-2.0 * lengthscale**2))
    return LowRank(features @ (vectors[:, kept] / np.sqrt(values[kept])))

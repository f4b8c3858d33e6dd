"""Gaussians at given scales: the matrix itself, or for any number of rows features at landmarks."""

from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Float
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.permutation.gram import Pairs, space_pairs
from kembed.permutation.low_rank import LazyLowRank
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.rows import Rows

# Eigenvalues of the matrix of landmarks below this share of the largest are rounding.
ROUNDING = 1e-10


def gaussian(rows: Rows, lengthscale: float) -> tuple[Pairs | Streamed, Kernel]:
    """A Gaussian of the distance of the space, and what to call it.

    The kernel matrix where these are all rows, else Nyström's features.
    """
    name = space_kernel(rows.space, lengthscale)
    if rows.complete:
        return space_pairs(rows.space, np.array([lengthscale])), name
    return nystrom(rows, lengthscale), name


@dataclass(frozen=True)
class AtLandmarks:
    """k(x, z) for every landmark z: the features behind plain and whitened Gaussians alike."""

    lengthscale: float

    def __call__(self, rows: Fresh) -> Float[np.ndarray, "b m"]:
        """Of these rows."""
        return rows.gaussian(self.lengthscale)


def nystrom(rows: Rows, lengthscale: float) -> Streamed:
    """The Gaussian by Nyström's features, k(x, z) K_zz^{-1/2}."""
    values, vectors = np.linalg.eigh(np.exp(rows.between_landmarks / (-2.0 * lengthscale**2)))
    kept = values > ROUNDING * values[-1]
    linear = vectors[:, kept] / np.sqrt(values[kept])
    whole = linear.shape[1]
    return Streamed(AtLandmarks(lengthscale), whole, (whole,), linear)


def whitened(rows: Rows, lengthscale: float, ridge: float) -> LazyLowRank | Streamed:
    """The features whitened by their covariance over the fitted rows."""
    if rows.complete:  # one at a time is held
        return LazyLowRank(rows.size, lambda: rows.embedded(lengthscale, ridge))
    linear = rows.spectrum(lengthscale).whitening(ridge)
    return Streamed(AtLandmarks(lengthscale), linear.shape[1], (linear.shape[1],), linear)

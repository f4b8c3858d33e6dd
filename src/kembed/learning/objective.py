"""The objective: the leave-one-out predictive likelihood of the kernel.

An embedding with a kernel that integrates to 1 is a density estimate, so a row has a predictive density under
the embedding of all other rows. Their product is the leave-one-out predictive likelihood (Geisser and Eddy
1979), here with κ, the kernel at half its width and divided by its integral:

    L(θ) = Σ_i log{ (1-ε) mean_{j ∉ T_i} κ_θ(x_i, x_j) + ε b(x_i) }.

- Half the width, because MMD with a Gaussian of width ℓ is the L2 distance of densities smoothed by ℓ/√2: at
  twice the best bandwidth, what n rows can resolve is seen, and single-kernel tests have the
  most power (`python -m benchmarks scales`).
- T_i are the row itself and its ties: rounded values would predict one another at scale 0. In one rounded
  column the mean is over all others, and κ over its integral beyond the cell that a value stands for. In
  several columns rounded values are put somewhere in their cells, and then they are no ties.
- b is a broad background, so that rows far from all others do not rule.

Everything here is written for NumPy and JAX alike.
"""

from __future__ import annotations

from math import lgamma
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Array, Float, namespace
from kembed.core.linalg import log_sum_exp
from kembed.kernels.stationary import Stationary

BACKGROUND = 0.02  # ε: one row in fifty may lie anywhere (model.md D; .01 and .05 give the same scales)
COMPARED = 1e-4  # ε when families are compared: at .02 the background stands in for a kernel's heavy tails
BACKGROUND_WIDTH = 10.0  # of the background, a multivariate Cauchy, in spreads of the data
NARROW = 2.0  # the lengthscale over that of κ: of √2, 2, 3, 4 the best on SUITE; √2 is as good on HELD_OUT
BLOCK = 65_536  # pairs at a time, which stay in a processor's cache
AT_ONCE = 4_194_304  # pairs of a new row and a row that are held at once: 32 MiB
GRID, REACH = 8, 8  # nodes a standard deviation, and how many of these a Gaussian reaches
TIED = 1e60  # added to the squared distance of ties, in the frame's units: beyond any kernel's reach


def log_profiles(kernel: Stationary, squared: Float[Array, "Q M"], factor: Any) -> Float[Array, " Q"]:
    """log Σ_j exp ψ over M rows at Q points; `squared` times `factor` is NARROW² s."""
    xp = namespace(squared, factor)
    size = max(BLOCK // squared.shape[1], 1) if xp is np else len(squared)
    blocks = (squared[start : start + size] * factor for start in range(0, len(squared), size))
    return xp.concatenate([log_sum_exp(kernel.profile(block), axis=1) for block in blocks])


def normalised(log_mean: Any, kernel: Stationary, dimension: int) -> Any:
    """The same of κ: less the log integral of the kernel at half its width."""
    return log_mean + dimension * np.log(NARROW) - kernel.log_integral(dimension)


def gaussian_sums(
    values: Float[np.ndarray, " K"], counts: Float[np.ndarray, " K"], width: float
) -> Float[np.ndarray, " K"]:
    """Σ_{j≠i} n_j exp(-(v_i - v_j)²/2w²) at every one of K rising values, in O(K) for all widths.

    Values are spread over a grid of an eighth of the width and read from it by cubic interpolation
    (error at most 5e-5 of the largest sum); stretches that no kernel reaches are left out of the grid.
    """
    place = values * (GRID / width)
    node = np.floor(place)
    t = place - node
    weights = np.stack([
        -t * (t - 1.0) * (t - 2.0) / 6.0,
        (t + 1.0) * (t - 1.0) * (t - 2.0) / 2.0,
        -(t + 1.0) * t * (t - 2.0) / 2.0,
        (t + 1.0) * t * (t - 1.0) / 6.0,
    ])  # fmt: skip
    steps = np.minimum(np.diff(node), REACH * GRID + 4).astype(int)
    first = np.concatenate([[0], np.cumsum(steps)])
    nodes = first + np.arange(4)[:, None]
    grid = np.bincount(nodes.ravel(), (counts * weights).ravel())
    taps = np.exp(-0.5 * (np.arange(-REACH * GRID, REACH * GRID + 1) / GRID) ** 2)
    smooth = np.convolve(grid, taps)[REACH * GRID : -REACH * GRID]
    apart = np.arange(4)[:, None] - np.arange(4)
    own = counts * np.einsum("ak,ab,bk->k", weights, np.exp(-0.5 * (apart / GRID) ** 2), weights)
    return np.maximum((smooth[nodes] * weights).sum(axis=0) - own, 0.0)


def with_background(inside: Any, log_background: Any, share: float = BACKGROUND) -> Any:
    """log{(1-ε) p + ε b}."""
    return namespace(inside).logaddexp(np.log1p(-share) + inside, np.log(share) + log_background)


class Predictive(NamedTuple):
    """The predictive density of new rows, (1-ε) mean_j κ(x, x_j) + ε b(x), in the frame."""

    kernel: Stationary
    rows: Float[np.ndarray, "n E"]
    width: Float[np.ndarray, " E"]  # of the background

    def log_density(self, points: Float[np.ndarray, "k E"]) -> Float[np.ndarray, " k"]:
        """Its logarithm at points of the frame."""
        size = max(AT_ONCE // len(self.rows), 1)
        log_count = np.log(len(self.rows))
        log_p = log_cauchy(points, self.width)
        for start in range(0, len(points), size):
            part = slice(start, start + size)
            squared = self.kernel.scaled_distances(points[part], self.rows)
            log_mean = log_profiles(self.kernel, squared, NARROW**2) - log_count
            inside = normalised(log_mean, self.kernel, len(self.width))
            log_p[part] = with_background(inside, log_p[part])
        return log_p


def log_beyond(kernel: Stationary, cell: Any) -> Any:
    """log of the share of κ, in one dimension, that lies beyond a cell about its centre."""
    log_shares, c = kernel.scales(1, finite=False)
    half = NARROW * 8.0**-0.5 * cell / getattr(kernel, "lengthscale", 1.0)
    xp = namespace(half, c)
    log_shares = log_shares - 0.5 * xp.log(c)
    beyond = _erfc(half * xp.sqrt(c), xp)
    return xp.log(xp.exp(log_shares - log_sum_exp(log_shares)) @ beyond)


def _erfc(value: Any, xp: Any) -> Any:
    if xp is np:
        from scipy.special import erfc
    else:
        from jax.scipy.special import erfc

    return erfc(value)


def log_cauchy(y: Float[np.ndarray, "n E"], width: Float[np.ndarray, " E"]) -> Float[np.ndarray, " n"]:
    """log of the multivariate Cauchy density about 0 with such widths."""
    E = len(width)
    half = 0.5 * (E + 1)
    constant = lgamma(half) - half * np.log(np.pi) - np.log(width).sum()
    return constant - half * np.log1p(((y / width) ** 2).sum(axis=1))

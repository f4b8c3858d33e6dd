"""A kernel density whose bandwidth is averaged: the part of a density that follows every row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp, median_of_pairs, squared_distances
from kembed.kernels.stationary import Gaussian
from kembed.learning.density_base import fit_student
from kembed.learning.objective import NARROW, log_embedding, with_background

Array = np.ndarray
WIDTHS = np.geomspace(0.01, 1.0, 16)  # in median distances
TEMPER = 0.5  # power of the leave-one-out likelihood in a width's share
BACKGROUND = 0.1  # share of the t in it, so that outliers do not choose
COUNTS = 1e-3  # widths with a smaller share are left out


class Kde(NamedTuple):
    """Σ_h share_h Σ_c N(x; c, h²I)/C: a kernel density whose bandwidth is averaged."""

    centres: Float[Array, "C d"]
    widths: Float[Array, " H"]
    log_shares: Float[Array, " H"]

    def log_density(self, points: Float[Array, "k d"]) -> Float[Array, " k"]:
        """At new points."""
        squared = squared_distances(points, self.centres)
        each = [_log_mean(squared, h, self.centres.shape[1], len(self.centres)) for h in self.widths]
        return np.asarray(log_sum_exp(np.stack(each) + self.log_shares[:, None], axis=0))


def fit_kde(y: Float[Array, "n d"]) -> tuple[Kde, float, Float[Array, " n"]]:
    """Widths with the share of their leave-one-out likelihood to the power `TEMPER`; the best; log p₋ᵢ.

    The t of the rows has a part in that likelihood. Rows tied with the one left out are left out too: they
    would call for no width at all.
    """
    n, d = y.shape
    left_out = fit_student(y)[1]
    squared = squared_distances(y, y)
    typical = np.sqrt(median_of_pairs(squared))
    squared = np.where(squared <= (1e-10 * typical) ** 2, np.inf, squared)
    widths = typical * WIDTHS
    near = np.stack([_log_mean(squared, h, d, max(n - 1, 1)) for h in widths])
    scores = with_background(near, left_out, BACKGROUND).sum(axis=1)
    log_shares = TEMPER * (scores - scores.max())
    counts = log_shares - log_sum_exp(log_shares) > np.log(COUNTS)
    log_shares = log_shares[counts] - log_sum_exp(log_shares[counts])
    own = np.asarray(log_sum_exp(near[counts] + log_shares[:, None], axis=0))
    return Kde(y, widths[counts], log_shares), float(scores.max()), own


def _log_mean(squared: Float[Array, "k C"], width: float, d: int, count: int) -> Float[Array, " k"]:
    """log of Σ_c N(x; c, h²I)/count from squared distances."""
    return log_embedding(Gaussian(NARROW * width), squared, width**-2.0, np.log(count), d)

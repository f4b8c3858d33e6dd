"""A mixture of normals: the part of a density that follows columns which nearly determine one another.

A radius and an area lie on a thin bent sheet. One isotropic scale, after one whitening, is either too wide
across it or too narrow along it; a few normals with covariances of their own follow it. How much of the
density is theirs is learned from rows that were left out.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import log_sum_exp

Array = np.ndarray
MOST = 8  # components at most: BIC chooses
STARTS = 2  # of EM, by k-means
RIDGE = 1e-6  # of the mean variance, added to every covariance
MOST_AXES = 64  # beyond so many covariances cost seconds and rows are too few for them
FOLDS = 5
# Rows that speak against the mixture for each that is left out: the rest of the density is judged by its
# kernel density alone, and is better than that.
CAUTION = 0.1
STEPS = 100  # of EM for one number


class Mixture(NamedTuple):
    """Σ_k share_k N(x; m_k, Σ_k)."""

    log_shares: Float[Array, " K"]
    centres: Float[Array, "K E"]
    roots: Float[Array, "K E E"]  # R with Σ⁻¹ = RRᵀ, upper triangular

    def log_density(self, points: Float[Array, "k E"]) -> Float[Array, " k"]:
        """At new points."""
        E = points.shape[1]
        each = []
        for log_share, centre, root in zip(*self, strict=True):
            squared = (((points - centre) @ root) ** 2).sum(axis=1)
            height = np.log(np.diagonal(root)).sum() - 0.5 * E * np.log(2.0 * np.pi)
            each.append(log_share + height - 0.5 * squared)
        return np.asarray(log_sum_exp(np.stack(each), axis=0))


def fit_mixture(y: Float[Array, "n E"], rivals: Float[Array, " n"]) -> tuple[Mixture, float] | None:
    """The mixture that BIC prefers, and its share beside a density whose left-out log values are `rivals`.

    None on the line, where it gains nothing, and where rows are too few for covariances.

    >>> rng = np.random.default_rng(0)
    >>> radius = np.sort(rng.normal(size=200))
    >>> y = np.column_stack([radius, 3.0 * radius + radius**2 + 0.01 * rng.normal(size=200)])
    >>> mixture, share = fit_mixture(y, np.full(200, -3.0))
    >>> len(mixture.centres) > 1, share > 0.8
    (True, True)
    """
    n, E = y.shape
    if not 1 < E <= min(MOST_AXES, n * (1.0 - 1.0 / FOLDS) / 2.0):
        return None
    fits = [_fit(y, k, STARTS) for k in range(1, MOST + 1) if k * E < n * (1.0 - 1.0 / FOLDS)]
    best = min(fits, key=lambda fit: fit.bic(y))
    fold = np.random.default_rng(0).permutation(np.arange(n) % FOLDS)
    left_out = np.zeros(n)
    for number in range(FOLDS):
        inside = _fit(y[fold != number], best.n_components, 1)
        left_out[fold == number] = _as_mixture(inside).log_density(y[fold == number])
    return _as_mixture(best), learned_share(left_out, rivals)


def learned_share(left_out: Float[Array, " n"], rivals: Float[Array, " n"]) -> float:
    """argmax_w of Σ log{w gᵢ + (1 - w) rᵢ} + CAUTION n log(1 - w), by EM from 1/2.

    >>> round(learned_share(np.zeros(100), np.full(100, -50.0)), 3)  # 1/(1 + CAUTION)
    0.909
    """
    w, n = 0.5, len(left_out)
    apart = np.clip(rivals - left_out, -500.0, 500.0)
    for _ in range(STEPS):
        w = float((w / (w + (1.0 - w) * np.exp(apart))).sum()) / (n * (1.0 + CAUTION))
    return w


def _fit(y: Float[Array, "n E"], k: int, starts: int) -> Any:
    """EM of scikit-learn, deterministic; that it may not have converged does not matter here."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    ridge = RIDGE * float(y.var(axis=0).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(k, n_init=starts, random_state=0, reg_covar=ridge).fit(y)


def _as_mixture(fit: Any) -> Mixture:
    return Mixture(np.log(fit.weights_), fit.means_, fit.precisions_cholesky_)

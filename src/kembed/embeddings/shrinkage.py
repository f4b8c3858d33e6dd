"""The spectral shrinkage estimator S-KMSE and its leave-one-out choice of λ."""

from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, to_numpy
from kembed.core.linalg import cholesky
from kembed.core.threads import few_rows_one_thread
from kembed.embeddings.empirical import WeightedEmbedding
from kembed.kernels.base import Kernel, check_kernel, refuse_size


@few_rows_one_thread
def shrinkage(x: Any, kernel: Kernel, lam: float | None = None) -> WeightedEmbedding:
    """The spectral shrinkage estimator S-KMSE, Σ_i β_i k(·, x_i) with β = (K + nλI)⁻¹ μ̂(x).

    It is Σ̂(Σ̂ + λI)⁻¹ μ̂ with Σ̂ the empirical covariance operator (Muandet et al. 2014). Without `lam`, λ
    minimises the leave-one-out risk (1/n) Σ_i ‖μ̌^{(-i)} - k(·, x_i)‖².

    >>> import numpy as np
    >>> from kembed import Gaussian, shrinkage
    >>> shrinkage(np.arange(5.0), Gaussian(1.0), lam=0.1)
    WeightedEmbedding(n=5, kernel=Gaussian(lengthscale=1), shrinkage=0.1)
    """
    kernel = to_numpy(check_kernel(kernel))
    x = np.asarray(checks.points(x, "x", minimum=1 if lam is not None else 3))
    refuse_size(kernel, x)
    K = kernel.gram(x)
    n = len(x)
    if lam is None:
        lam = _leave_one_out_shrinkage(K)
    elif checks.number(lam, "lam") < 0.0:
        raise ValueError(f"lam must not be negative, but {lam!r} was given")
    weights = np.full(n, 1.0 / n)
    if lam > 0.0:
        weights = cholesky(K + n * lam * np.eye(n)).solve(K.mean(axis=1))
    return WeightedEmbedding(kernel, x, weights, float(lam))


def leave_one_out_risk(K: Float[np.ndarray, "n n"], lam: Float[np.ndarray, " g"]) -> Float[np.ndarray, " g"]:
    """Leave-one-out risk of S-KMSE for every λ, from one eigendecomposition: O(n³ + g n²).

    With ρ = (n-1)λ, G = (K + ρI)⁻¹ and h = G1, the estimator without row i has the weights
    β⁽ⁱ⁾ = (1 - e_i - ρ(h - G_i h_i/G_ii))/(n-1) by the block inverse, and KG = I - ρG turns
    ‖μ̌⁽ⁱ⁾ - k(·, x_i)‖² into sums of the diagonals of G and G².
    """
    n = len(K)
    eigenvalues, Q = np.linalg.eigh(K)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    ones, squares, diagonal, row_sums = Q.T @ np.ones(n), Q**2, np.diagonal(K), K.sum(axis=1)
    risks = np.empty(len(lam))
    for index, value in enumerate(lam):
        rho = (n - 1) * value
        inverse = 1.0 / (eigenvalues + rho)
        h = Q @ (inverse * ones)
        g = squares @ inverse  # G_ii
        g2 = squares @ inverse**2  # (G²)_ii
        Gh = Q @ (inverse**2 * ones)
        t = h / g
        # (n-1) β = 1 - e_i - ρh + ρ t_i G_i, and K(n-1)β = K1 - K_i - ρ(1 - ρh) + ρ t_i (e_i - ρG_i).
        sum_h, sum_hh = h.sum(), h @ h
        total = row_sums.sum()
        first = total - row_sums - rho * (n - rho * sum_h) + rho * t * (1.0 - rho * h)  # 1ᵀ
        second = row_sums - diagonal - rho * (1.0 - rho * h) + rho * t * (1.0 - rho * g)  # e_iᵀ
        # hᵀK1 = 1ᵀGK1 = 1ᵀ(1 - ρh), hᵀK_i = 1 - ρh_i
        third = (n - rho * sum_h) - (1.0 - rho * h) - rho * (sum_h - rho * sum_hh)
        third = third + rho * t * (h - rho * Gh)  # hᵀ
        # G_iᵀK1 = 1 - ρh_i, G_iᵀK_i = 1 - ρG_ii, G_iᵀ1 = h_i, G_iᵀh = (Gh)_i
        fourth = (1.0 - rho * h) - (1.0 - rho * g) - rho * (h - rho * Gh)
        fourth = fourth + rho * t * (g - rho * g2)  # G_iᵀ
        quadratic = (first - second - rho * third + rho * t * fourth) / (n - 1) ** 2
        cross = second / (n - 1)  # K_iᵀβ
        risks[index] = (quadratic - 2.0 * cross + diagonal).mean()
    return risks


def _leave_one_out_shrinkage(K: Float[np.ndarray, "n n"]) -> float:
    """The λ of least leave-one-out risk: a grid over 16 decades, then a bounded search around the best."""
    from scipy.optimize import minimize_scalar

    scale = float(np.trace(K)) / len(K)
    grid = scale * np.logspace(-12, 4, 65)
    risks = leave_one_out_risk(K, grid)
    best = int(np.argmin(risks))
    if best == 0:
        return 0.0  # shrinking only hurts
    bounds = np.log(grid[[best - 1, min(best + 1, len(grid) - 1)]])
    found = minimize_scalar(lambda log: leave_one_out_risk(K, np.exp([log]))[0], bounds=bounds)
    return float(np.exp(found.x))

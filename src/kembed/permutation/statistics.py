"""MMD² and HSIC from sums of kernel entries: the formulas.

MMD² = E k(x,x') + E k(y,y') - 2 E k(x,y) is the squared distance of two mean embeddings, HSIC the squared
norm of the cross-covariance. Each has a biased estimate, never negative, and an unbiased one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.permutation.gram import KernelSums
from kembed.permutation.labelings import Forms

Vector = Float[np.ndarray, " C"]
# A trace below this share of what was summed for it is rounding.
NOTHING = 1e-12


def mmd2(forms: Forms, *, biased: bool) -> Vector:
    """MMD² under every labeling (Gretton et al. 2012, Eq. 3 and 5; weighted where rows have weights)."""
    first, first_squares, second, second_squares = forms.sizes
    rows, diagonal = (np.sum(part, axis=-1, keepdims=True) for part in forms.sums[:2])
    within = first**2, second**2
    if not biased:
        within = first**2 - first_squares, second**2 - second_squares
    between = 2.0 / (first * second)
    # within the first a'Ka, within the second (1-a)'K(1-a), between them a'K(1-a)
    value = forms.quadratic * (1.0 / within[0] + 1.0 / within[1] + between)
    value += rows / within[1] - forms.linear * (2.0 / within[1] + between)
    if biased:
        value += forms.diagonal * (1.0 / within[0] - 1.0 / within[1]) + diagonal / within[1]
    return value


def contrasts(
    labels: Float[np.ndarray, "S C"], weights: Float[np.ndarray, " S"], strata: Int[np.ndarray, " S"]
) -> Float[np.ndarray, "S C"]:
    """Factors w of rows (or bins) of weights v for which Σ w_i v_i φ_i is the mean difference within strata.

    w_i = (a_i - p_s) / c with a_i the label, p_s the first sample's share of the weight of the stratum s of
    i, and c = Σ_s V_s p_s (1 - p_s). Strata are weighted by the precision of their difference; with one
    stratum this is the difference of two means. A stratum of one sample has factors of 0.

    >>> contrasts(np.array([[1.0], [1.0], [0.0]]), np.ones(3), np.zeros(3, int)).ravel().round(6).tolist()
    [0.5, 0.5, -1.0]
    """
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=strata[order[0]] - 1))
    stratum = np.empty(len(strata), dtype=int)
    stratum[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    totals = np.add.reduceat(weights[order], starts)[:, None]
    firsts = np.add.reduceat((weights[:, None] * labels)[order], starts, axis=0)
    shares = firsts / np.where(totals > 0.0, totals, 1.0)
    found = labels - shares[stratum]
    found /= (firsts * (1.0 - shares)).sum(axis=0)
    return found


def hsic(
    cross: Vector, left: KernelSums, right: KernelSums, products: Callable[[Any, Any], Any], *, biased: bool
) -> Vector:
    """HSIC under every pairing: tr(KHLH)/n² (Gretton et al. 2008), or unbiased (Song et al. 2012, Eq. 5).

    `cross` is Σ_{i≠j} K_ij L_π(i)π(j) and `products(u, v)` is Σ_i u_i v_π(i), for every pairing π.
    """
    a, b, n = left.rows, right.rows, len(left.rows)
    if biased:
        a, b = a + left.diagonal, b + right.diagonal
        cross = cross + products(left.diagonal, right.diagonal)
        return (cross - 2.0 * products(a, b) / n + float(a.sum()) * float(b.sum()) / n**2) / n**2
    shared = float(a.sum()) * float(b.sum()) / ((n - 1.0) * (n - 2.0))
    return (cross + shared - 2.0 * products(a, b) / (n - 2.0)) / (n * (n - 3.0))


def centred_moments(sums: KernelSums) -> tuple[float, float]:
    """trace HKH and ‖HKH‖²; 0 where all is rounding."""
    N, diagonal = len(sums.rows), sums.diagonal
    whole = sums.rows + diagonal
    total = float(whole.sum())
    trace = float(diagonal.sum()) - total / N
    norm = (
        sums.squares
        + float(diagonal @ diagonal)
        - 2.0 * float(whole @ whole) / N
        + float(np.square(total)) / N**2
    )
    if trace <= NOTHING * float(np.abs(whole).mean() + np.abs(diagonal).sum()):
        return 0.0, 0.0
    return trace, max(norm, 0.0)

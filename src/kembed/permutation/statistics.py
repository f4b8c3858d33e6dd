"""MMD² and HSIC from sums of kernel entries: the formulas, and nothing else.

MMD² = E k(x,x') + E k(y,y') - 2 E k(x,y) is the squared distance of two mean embeddings, HSIC the squared
norm of the cross-covariance. Each has a biased estimate, never negative, and an unbiased one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed.permutation.labelings import Forms, Sizes

if TYPE_CHECKING:
    from jaxtyping import Float

    Vector = Float[np.ndarray, " C"]


NOTHING = 1e-12


def mmd2(forms: Forms, sizes: Sizes, *, biased: bool) -> Vector:
    """MMD² under every labeling (Gretton et al. 2012, Eq. 3 and 5; weighted where rows have weights)."""
    total = float(forms.rows.sum())
    within_first = forms.quadratic
    within_second = total - 2.0 * forms.linear + forms.quadratic
    between = forms.linear - forms.quadratic
    first, second = sizes.first**2, sizes.second**2
    if biased:
        within_first = within_first + forms.diagonal
        within_second = within_second + forms.trace - forms.diagonal
    else:
        first, second = first - sizes.first_squares, second - sizes.second_squares
    return within_first / first + within_second / second - 2.0 * between / (sizes.first * sizes.second)


def usual_entry(squares: float, N: int) -> float:
    """Root mean square of the entries off the diagonal."""
    return float(np.sqrt(max(squares, 0.0) / (N * (N - 1.0))))


def centred_moments(
    rows: Float[np.ndarray, " N"], squares: float, diagonal: Float[np.ndarray, " N"]
) -> tuple[float, float]:
    """trace HKH and ‖HKH‖², from sums without the diagonal and the diagonal; 0 where all is rounding."""
    N = len(rows)
    whole = rows + diagonal
    total = float(whole.sum())
    trace = float(diagonal.sum()) - total / N
    norm = squares + float(diagonal @ diagonal) - 2.0 * float(whole @ whole) / N + total**2 / N**2
    if trace <= NOTHING * float(np.abs(whole).mean() + np.abs(diagonal).sum()):
        return 0.0, 0.0
    return trace, max(norm, 0.0)


def hsic(
    cross: Vector,
    row_products: Vector,
    left_total: float,
    right_total: float,
    n: int,
) -> Vector:
    """The unbiased HSIC under every pairing (Song et al. 2012, Eq. 5); sums leave the diagonals out.

    `cross` is Σ_{i≠j} K_ij L_ij, `row_products` is Σ_i (Σ_j K_ij)(Σ_j L_ij).
    """
    shared = left_total * right_total / ((n - 1.0) * (n - 2.0))
    return (cross + shared - 2.0 * row_products / (n - 2.0)) / (n * (n - 3.0))


def hsic_biased(cross: Vector, row_products: Vector, left_total: float, right_total: float, n: int) -> Vector:
    """tr(KHLH)/n² under every pairing (Gretton et al. 2008); here the sums include the diagonals."""
    return (cross - 2.0 * row_products / n + left_total * right_total / n**2) / n**2

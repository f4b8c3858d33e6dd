"""What a regression takes out of targets: residuals of all rows, and of every row left out.

Of many rows K is projected on some of them (Nyström): K ≈ VᵀV with V = K_mm^{-1/2} K_mn.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm

from kembed.conditional.regression import (
    MAX_LENGTHSCALES,
    Points,
    Regression,
    Targets,
    inverse_of,
    kernel,
    with_diagonal,
)
from kembed.core.backend import Float
from kembed.core.linalg import pivoted_cholesky

# Up to so many rows C is inverted as it is; beyond, K is replaced by its projection on so many of the rows.
# Wide tables (categories with many levels) have no few rows that stand for all.
EXACT_ROWS, WIDE_ROWS, LANDMARKS = 400, 3_000, 150
# Beyond so many only sums over rows are kept: a row's own share in its prediction is below a hundredth.
SUMMED_ROWS, CHUNK = 20_000, 4_096
# Landmarks are left out of which others leave less than this share of the kernel's variance unsaid: rows may
# repeat, and of a smooth kernel on one column a dozen say all.
LEFT_OUT = 1e-8


class RegressionResiduals(NamedTuple):
    """Targets less their regression: fitted on all rows, and for each row on all the others."""

    fitted: Targets
    left_out: Targets
    freedom: float  # degrees of freedom that the regression spent, the constant among them


class Smoother(NamedTuple):
    """A regression at the rows of Z, for any targets there: C⁻¹ itself, or T with C⁻¹ = I - TᵀT."""

    inverse: Float[np.ndarray, "n n"] | None
    root: Float[np.ndarray, "m n"] | None
    ones: Float[np.ndarray, " n"]  # C⁻¹1
    diagonal: Float[np.ndarray, " n"]  # of C⁻¹

    def residuals(self, Y: Targets) -> RegressionResiduals:
        """Y less its regression, with a constant mean of its own for every target.

        With P = C⁻¹ - C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1) the residuals are P Y, and those with the row left out (P Y)_i/P_ii.
        """
        if self.inverse is not None:
            turned = self.inverse @ Y
        else:
            assert self.root is not None
            turned = Y - self.root.T @ (self.root @ Y)
        total = self.ones.sum()
        fitted = turned - np.outer(self.ones, turned.sum(axis=0) / total)
        spared = np.maximum(self.diagonal - self.ones**2 / total, 1e-12)
        return RegressionResiduals(fitted, fitted / spared[:, None], float(len(Y) - spared.sum()))


def smoother(
    Z: Points, regression: Regression, *, exact: int | None = None, landmarks: int = LANDMARKS
) -> Smoother:
    """What the regression does to targets; beyond `exact` rows K is projected on the first `landmarks`."""
    n, s = len(Z), regression.ratio
    A = Z @ regression.axes / regression.lengthscales
    if exact is None:
        exact = EXACT_ROWS if Z.shape[1] <= MAX_LENGTHSCALES else WIDE_ROWS
    if n <= exact:
        inverse = inverse_of(s * kernel(A, A))
        return Smoother(inverse, None, inverse.sum(axis=1), np.diagonal(inverse))
    # K ≈ VᵀV with V = K_mm^{-1/2} K_mn; T = (I/s + VVᵀ)^{-1/2} V.
    V = nystroem(A, A[:landmarks], kernel)
    T = _forward(np.linalg.cholesky(with_diagonal(V @ V.T, 1.0 / s)), V)
    return Smoother(None, T, 1.0 - T.T @ T.sum(axis=1), 1.0 - np.einsum("mn,mn->n", T, T))


def regression_residuals(
    Z: Points, Y: Targets, regression: Regression, *, exact: int | None = None, landmarks: int = LANDMARKS
) -> RegressionResiduals:
    """Y - E[Y|Z] under the regression; of very many rows by sums over them."""
    if len(Z) > SUMMED_ROWS:
        return summed_residuals(Z, Y, regression, landmarks)
    return smoother(Z, regression, exact=exact, landmarks=landmarks).residuals(Y)


def summed_residuals(Z: Points, Y: Targets, regression: Regression, landmarks: int) -> RegressionResiduals:
    """The same from Σvvᵀ and Σvy over the rows, v features at landmarks: one sweep for those, one to predict.

    C⁻¹ = I - V (I/s + VᵀV)⁻¹ Vᵀ. A row's residual with the row left out is taken for its
    residual over 1 - d/n, d the degrees of freedom of all: of many rows no single one matters.
    """
    n, s = len(Z), regression.ratio
    turn = regression.axes / regression.lengthscales
    marks = Z[:landmarks] @ turn
    kept, lower = pivoted_cholesky(kernel(marks, marks), LEFT_OUT)
    marks = marks[kept]
    right = np.column_stack([np.ones(n), Y])
    # V = Φ K_mm^{-1/2}: sums of its products can be inverted, those of Φ itself cannot.
    whiten = _forward(lower, np.eye(len(marks))).T
    among, across = np.zeros((len(marks),) * 2), np.zeros((len(marks), right.shape[1]))
    for start in range(0, n, CHUNK):
        V = kernel(Z[start : start + CHUNK] @ turn, marks) @ whiten
        among += V.T @ V
        across += V.T @ right[start : start + CHUNK]
    values, vectors = np.linalg.eigh(among)
    shares = 1.0 / (np.maximum(values, 0.0) + 1.0 / s)
    weights = whiten @ (vectors @ (shares[:, None] * (vectors.T @ across)))
    parts = [kernel(Z[i : i + CHUNK] @ turn, marks) @ weights for i in range(0, n, CHUNK)]
    turned = right - np.concatenate(parts)
    ones, turned = turned[:, 0], turned[:, 1:]
    total = ones.sum()
    fitted = turned - np.outer(ones, turned.sum(axis=0) / total)
    freedom = float(np.maximum(values, 0.0) @ shares + np.square(ones).sum() / total)
    return RegressionResiduals(fitted, fitted / (1.0 - freedom / n), freedom)


def nystroem(
    points: Any, marks: Any, gram: Callable[[Any, Any], Any], share: float = LEFT_OUT
) -> Float[np.ndarray, "r n"]:
    """V with VᵀV = K_nm K_mm⁻¹ K_mn, from as many of the landmarks as say something new."""
    kept, lower = pivoted_cholesky(gram(marks, marks), share)
    return _forward(lower, np.ascontiguousarray(gram(points, marks[kept])).T)


def _forward(lower: Float[np.ndarray, "m m"], right: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """L⁻¹B; B, in the order of LAPACK, is overwritten."""
    return np.asarray(dtrsm(1.0, lower, right, lower=1, overwrite_b=1))

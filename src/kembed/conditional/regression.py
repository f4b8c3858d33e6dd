"""Nyström regression on the conditioning variables.

Of many rows a kernel matrix K is replaced by BBᵀ, with features B = K_nm K_mm^{-1/2} at m landmarks. A
`Basis` has such features, or several kinds side by side, and the decomposition BᵀB = E diag(w) Eᵀ. Regression
with the signal-to-noise ratio s subtracts B E diag(s/(1 + s w)) Eᵀ BᵀY from targets Y. One basis serves all
targets, and the marginal likelihood chooses s for each (`likelihood.gains`). Few rows need no landmarks.

A `Conditioner` regresses on one conditioning set. A column gets a Gaussian process with hyperparameters of
its own (`likelihood`). Beyond `MANY_ROWS` all targets share one rich basis: quadratic terms, Gaussian
features of single columns and of all columns together.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from kembed.conditional import likelihood
from kembed.conditional.likelihood import (
    MAX_LENGTHSCALES,
    Points,
    Regression,
    Targets,
    kernel,
    learn_regression,
)
from kembed.core.backend import Float, Int
from kembed.core.linalg import pivoted_cholesky

Vector = Float[np.ndarray, " n"]
Rows = Float[np.ndarray, "n q"]
Gram = Callable[[Any, Any], Any]
# Up to so many rows C = sK + I is inverted; beyond, K is projected on so many landmarks. Wide tables
# (categories with many levels) have no few rows that represent all.
EXACT_ROWS, WIDE_ROWS, LANDMARKS = 400, 3_000, 150
# Rows beyond which targets share a basis, of at most so many columns.
MANY_ROWS, MANY_WIDEST = 20_000, 12
SINGLE_PRECISION_ROWS = 5_000  # beyond, features have seven digits: half the memory
CHUNK = 8_192  # rows whose features are computed, or summed in single precision, at once
# Landmarks are dropped if others explain all but this share of their variance; of many rows the second.
UNEXPLAINED, UNEXPLAINED_SINGLE = 1e-8, 1e-5
NEGLIGIBLE = 1e-4  # eigenvalues below this share of their sum are dropped
# Lengthscales of shared bases, of all columns over √d, with landmarks: for regression, and for features that
# weight products. Then those of single columns: a smooth kernel needs few landmarks.
LENGTHSCALES, WEIGHTS_TOGETHER, TOGETHER_LANDMARKS = (0.5, 1.0, 3.0), (1.0, 0.35), 80
MANY_TOGETHER, MANY_LANDMARKS = (1.0, 0.5), 100
SINGLE = ((1.0, 16), (0.35, 28), (0.12, 40))
SPACING = 0.7  # of many rows, landmarks of one column are so many lengthscales apart all over its range
# Signal-to-noise ratios compared; many rows identify a small noise too.
RATIOS, MANY_RATIOS = 10.0 ** np.arange(-3.0, 2.1, 0.5), 10.0 ** np.arange(-3.0, 4.1, 0.5)
WORTH = 2.0  # nats that the best of some dozens of regressions must gain
# The shared basis cannot represent functions along an oblique axis, sin 2(z₁ + z₂). A Gaussian process with
# axes of its own is tried on so many rows, and used if it lowers the left-out variance by this over √n: then
# the statistic would move by half its standard deviation. Of fewer rows it is tried only if the residuals of
# nearest neighbours are correlated by so many standard errors.
TRIED_ROWS, NOTICEABLE, CORRELATED = 16_384, 0.5, 2.5
ROWS_PER_RANK = 5  # rows for every direction of `given` below which a warning is due


class RegressionResiduals(NamedTuple):
    """Targets less their regression: fitted on all rows, and for each row on all the others."""

    fitted: Targets
    left_out: Targets
    freedom: float  # degrees of freedom of the regression, with the constant


class Fit(NamedTuple):
    """The best ridge regression on a basis."""

    basis: "Basis"
    gain: float  # in log likelihood over no dependence
    ratio: float
    across: Float[np.ndarray, "q k"]  # EᵀBᵀY


def landmark_features(marks: Any, gram: Gram, least: float = UNEXPLAINED) -> Callable[[Any], Rows]:
    """A map to features V with VVᵀ = K_nm K_mm⁻¹ K_mn, from the landmarks that others do not explain."""
    kept, lower = pivoted_cholesky(gram(marks, marks), least)
    return lambda points: _solve(lower, gram(points, marks[kept]).T).T


def _solve(lower: Float[np.ndarray, "m m"], right: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """L⁻¹B; B may be overwritten."""
    return np.asarray(solve_triangular(lower, right, lower=True, overwrite_b=True, check_finite=False))


def _sums(B: Rows, Y: Rows) -> Float[np.ndarray, "q k"]:
    """BᵀY, summed in double precision between chunks."""
    chunks = (slice(start, start + CHUNK) for start in range(0, len(B), CHUNK))
    return sum(np.asarray(B[c].T @ Y[c].astype(B.dtype, copy=False), dtype=float) for c in chunks)  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Basis:
    """Features B of n rows, with the eigenvalues w and eigenvectors E of BᵀB."""

    features: Rows
    values: Float[np.ndarray, " q"]
    vectors: Float[np.ndarray, "p q"]

    @classmethod
    def of(cls, features: Rows, least: float) -> "Basis":
        """The basis without eigenvalues below `least` times the largest."""
        values, vectors = np.linalg.eigh(_sums(features, features))
        kept = values > least * max(float(values[-1]), 1e-300)
        return cls(features, values[kept], vectors[:, kept])

    @classmethod
    def leading(cls, features: Rows) -> "Basis":
        """The leading principal components of features, which are overwritten."""
        features -= features.mean(axis=0, dtype=float).astype(features.dtype)
        every = cls.of(features, 0.0)
        kept = np.flatnonzero(every.values > NEGLIGIBLE * max(float(every.values.sum()), 1e-300))[::-1]
        features = features @ every.vectors[:, kept].astype(features.dtype)
        return cls(features, every.values[kept], np.eye(len(kept)))

    @property
    def unit_features(self) -> Rows:
        """B with squares whose mean over rows has the sum 1, so that several kernels have equal weight."""
        return self.features * float(np.sqrt(len(self.features) / self.values.sum()))

    def across(self, Y: Targets) -> Float[np.ndarray, "q k"]:
        """EᵀBᵀY."""
        return np.asarray(self.vectors.T @ _sums(self.features, Y))

    def without(self, Y: Targets, ratio: float, across: Float[np.ndarray, "q k"]) -> Targets:
        """Y less its regression at this signal-to-noise ratio."""
        weights = self.vectors @ ((ratio / (1.0 + ratio * self.values))[:, None] * across)
        return np.asarray(Y - self.features @ weights.astype(self.features.dtype, copy=False))

    def freedom(self, ratio: float) -> float:
        """Degrees of freedom of the regression, without a constant."""
        return float((ratio * self.values / (1.0 + ratio * self.values)).sum())

    def fit(self, Y: Targets, ratios: Vector) -> Fit:
        """Choose the ratio for centred targets by likelihood."""
        across = self.across(Y)
        squares = np.square(across).sum(axis=1) / self.values
        rest = max(float(np.square(Y).sum(dtype=float)) - float(squares.sum()), 0.0)
        gain = likelihood.gains(squares, rest, self.values, ratios, Y.shape)
        best = int(np.argmax(gain))
        return Fit(self, float(gain[best]), float(ratios[best]), across)

    def residuals(self, Y: Targets, ratio: float) -> RegressionResiduals:
        """Y less its regression on centred features and a constant; every row has the mean leverage."""
        Y, freedom = Y - Y.mean(axis=0), self.freedom(ratio) + 1.0
        left = self.without(Y, ratio, self.across(Y))
        return RegressionResiduals(left, left / (1.0 - freedom / len(Y)), freedom)


def gaussian_process(
    Z: Points, learned: Regression, *, exact: int | None = None, landmarks: int = LANDMARKS
) -> Callable[[Targets], RegressionResiduals]:
    """Residuals of any targets at the rows of Z; beyond `exact` rows with the first rows as landmarks.

    They are PY and (PY)_i/P_ii with P = C⁻¹ - C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1).
    """
    n, A = len(Z), Z @ learned.axes / learned.lengthscales
    if exact is None:
        exact = EXACT_ROWS if Z.shape[1] <= MAX_LENGTHSCALES else WIDE_ROWS
    if n <= exact:
        inverse, _ = likelihood.inverse_plus_identity(learned.ratio * kernel(A, A))
        ones, diagonal = inverse.sum(axis=1), np.diagonal(inverse)
    else:  # C⁻¹ = I - TTᵀ with T = V L⁻ᵀ and LLᵀ = VᵀV + I/s
        V = landmark_features(A[:landmarks], kernel)(A)
        T = _solve(np.linalg.cholesky(V.T @ V + np.eye(V.shape[1]) / learned.ratio), V.T).T
        ones, diagonal = 1.0 - T @ T.sum(axis=0), 1.0 - np.einsum("nm,nm->n", T, T)
    diagonal = np.maximum(diagonal - ones**2 / ones.sum(), 1e-12)

    def residuals(Y: Targets) -> RegressionResiduals:
        left = inverse @ Y if n <= exact else Y - T @ (T.T @ Y)
        fitted = left - np.outer(ones, left.sum(axis=0) / ones.sum())
        return RegressionResiduals(fitted, fitted / diagonal[:, None], float(n - diagonal.sum()))

    return residuals


def kernel_basis(points: Points, marks: Points, gram: Gram = kernel) -> Basis:
    """The leading features of a kernel."""
    if len(points) <= SINGLE_PRECISION_ROWS:
        return Basis.leading(landmark_features(marks, gram)(points))
    features = landmark_features(marks, gram, UNEXPLAINED_SINGLE)
    chunks = (points[start : start + CHUNK] for start in range(0, len(points), CHUNK))
    return Basis.leading(np.concatenate([np.float32(features(chunk)) for chunk in chunks]))


def quantile_landmarks(column: Vector, count: int) -> Points:
    """At most so many landmarks of one column, no two alike."""
    return np.unique(np.quantile(column, (np.arange(count) + 0.5) / count))[:, None]


def column_basis(column: Vector, lengthscale: float, landmarks: int, *, many: bool = False) -> Basis:
    """The leading features of a Gaussian kernel on one column."""
    if many:
        low, high = float(column.min()), float(column.max())
        marks = np.linspace(low, high, int(np.ceil((high - low) / (SPACING * lengthscale))) + 2)[:, None]
    else:
        marks = quantile_landmarks(column, landmarks)
    return kernel_basis(column[:, None] / lengthscale, marks / lengthscale)


class ColumnFit(NamedTuple):
    """The regression of one column, and its residuals of any column."""

    learned: Regression
    residuals: Callable[[Targets], RegressionResiduals]


@dataclass(frozen=True, eq=False)
class Conditioner:
    """A conditioning set: columns Z of about unit variance, rows in random order, and regressions on it."""

    Z: Points
    many: bool = False  # whether all targets share one rich basis
    _shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def rank(self) -> int:
        """The rank of Z."""
        R: Any = np.linalg.qr(self.Z, mode="r")
        return int(np.linalg.matrix_rank(R, rtol=1e-9)) if R.size else 0

    def _together(self, ratio: float) -> Basis:
        """Features of a Gaussian kernel of all columns."""
        if ratio not in self._shared:  # by regressions and weights
            A = self.Z / (ratio * np.sqrt(self.Z.shape[1]))
            self._shared[ratio] = kernel_basis(A, A[: MANY_LANDMARKS if self.many else TOGETHER_LANDMARKS])
        return self._shared[ratio]

    def _single(self, scale: tuple[float, int]) -> list[Basis]:
        """Features of every column that varies."""
        if scale not in self._shared:
            varying = (column for column in self.Z.T if np.ptp(column) > 0.0)
            self._shared[scale] = [column_basis(column, *scale, many=self.many) for column in varying]
        return self._shared[scale]

    @cached_property
    def _bases(self) -> list[Basis]:
        """The bases of regressions, of which the likelihood chooses one."""
        if not self.many:
            return [self._together(ratio) for ratio in LENGTHSCALES]
        d = self.Z.shape[1]
        terms = likelihood.quadratic_terms(self.Z) if d <= likelihood.MAX_AXES else self.Z
        sizes = np.sqrt(np.square(terms).mean(axis=0))
        parts = [(terms[:, sizes > 0.0] / sizes[sizes > 0.0]).astype(np.float32)]
        together = [self._together(ratio) for ratio in MANY_TOGETHER] if d > 1 else self._single(SINGLE[2])
        parts += [basis.features for basis in (*self._single(SINGLE[1]), *together)]
        return [Basis.of(np.hstack(parts), 1e-7)]

    @cached_property
    def weights(self) -> tuple[Rows, ...]:
        """Features of Gaussian kernels on Z, for interactions with it: of all columns, and of single ones.

        A sum of kernels of single columns sees what varies fast along one of many columns. There few rows are
        near each other in all columns.
        """
        d = self.Z.shape[1]
        single = SINGLE[: 2 if self.many and d > 1 else 3] if d <= MAX_LENGTHSCALES else ()
        ratios = () if d == 1 else MANY_TOGETHER if self.many else WEIGHTS_TOGETHER
        groups = [*([self._together(ratio)] for ratio in ratios), *map(self._single, single)]
        weights = tuple(np.hstack([b.unit_features for b in bases]) for bases in groups if bases)
        _ = self._bases  # both are made of the same parts, which are then no longer needed
        self._shared.clear()
        return weights

    def index_bases(self, indices: Rows) -> list[Basis]:
        """Bases of functions of every index, for `centred`; of one column, `_bases` has all of them."""
        varying = (standardise(column) for column in indices.T if np.ptp(column) > 0.0)
        scale = SINGLE[1 if self.many else 0]
        return [column_basis(c, *scale, many=self.many) for c in varying] if self.Z.shape[1] > 1 else []

    def centred(self, F: Rows, indices: Sequence[Basis] = ()) -> tuple[Rows, float]:
        """F less its regression on Z, and the degrees of freedom spent; all columns share a ratio.

        `indices` are bases of functions of Z that are known to matter: predictions of locations.
        """
        F, freedom = F - F.mean(axis=0), 0.0
        for bases in (*([basis] for basis in indices), self._bases):
            if (fit := self._best(F, bases)) is not None:
                F = fit.basis.without(F, fit.ratio, fit.across)
                freedom += fit.basis.freedom(fit.ratio)
        return F, freedom

    def _best(self, F: Rows, bases: Sequence[Basis]) -> Fit | None:
        """The best fit on any basis, if it is better than none."""
        fits = (basis.fit(F, MANY_RATIOS if self.many else RATIOS) for basis in bases)
        best = max(fits, key=attrgetter("gain"), default=None)
        return best if best is not None and best.gain > 0.0 else None

    def fit(self, column: Vector) -> ColumnFit | None:
        """Regress a column on Z; None where Z explains nothing."""
        F = (column - column.mean())[:, None]
        fit = self._best(F, self._bases)
        if fit is None or fit.gain <= WORTH:
            return None
        if self.many:
            return self._shared_fit(F, fit)
        learned = learn_regression(self.Z, column[:, None], starts=self._starts)
        return ColumnFit(learned, gaussian_process(self.Z, learned))

    @cached_property
    def _starts(self) -> list[likelihood.Spectrum]:
        return likelihood.default_starts(self.Z[: likelihood.EXPLORE_ROWS])

    def _shared_fit(self, F: Rows, fit: Fit) -> ColumnFit:
        """The fit on the shared basis, after a Gaussian process of its own if a test could notice that."""
        n, d = self.Z.shape
        shared = partial(fit.basis.residuals, ratio=fit.ratio)
        left = shared(F).left_out
        if d > 1 and (n > TRIED_ROWS or self._neighbours_correlated(left[:, 0])):
            own, some = learn_regression(self.Z, F), slice(TRIED_ROWS)
            alone = gaussian_process(self.Z[some], own)(F[some]).left_out
            if np.square(alone).mean() < (1.0 - NOTICEABLE / np.sqrt(n)) * np.square(left[some]).mean():
                process = gaussian_process(self.Z, own)

                def both(Y: Targets) -> RegressionResiduals:
                    first = process(Y)
                    left, spent = self.centred(first.fitted)
                    freedom = first.freedom + spent
                    return RegressionResiduals(left, left / (1.0 - freedom / n), freedom)

                return ColumnFit(own, both)
        return ColumnFit(Regression(np.eye(d), np.full(d, SINGLE[1][0]), fit.ratio, fit.gain), shared)

    @cached_property
    def _neighbours(self) -> Int[np.ndarray, " n"]:
        """The nearest other row of every row."""
        from scipy.spatial import cKDTree

        near = cKDTree(self.Z).query(self.Z, 2)[1]
        itself = near[:, 1] == np.arange(len(near))  # among equal rows it need not come first
        return np.where(itself, near[:, 0], near[:, 1])

    def _neighbours_correlated(self, left: Vector) -> bool:
        """Whether residuals of nearest neighbours are correlated, so that there is more to regress."""
        product = left * left[self._neighbours]
        # Mutual neighbours count twice: √2 of the usual standard error at most.
        return bool(product.sum() > CORRELATED * np.sqrt(2.0 * np.square(product).sum()))


def standardise(column: Vector) -> Vector:
    """The column with mean 0 and variance 1."""
    centred = column - column.mean()
    return np.asarray(centred / np.sqrt((centred**2).mean()))


def check_rank(given: Conditioner, stacklevel: int) -> None:
    """Refuse, or warn of, too many directions of `given` for its rows."""
    (n, d), rank = given.Z.shape, given.rank
    if rank >= n - 1:
        raise ValueError(
            f"given has {d} columns of rank {rank} for {n} rows: they explain anything; leave "
            "columns out, or replace them by a few principal components"
        )
    if rank * ROWS_PER_RANK > n:
        warnings.warn(
            f"given has rank {rank} for only {n} rows: what it says about x and y cannot be taken out "
            "wholly, and small p-values mean little; leave columns out",
            stacklevel=stacklevel,
        )

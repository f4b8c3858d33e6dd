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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm, strsm

from kembed.conditional import likelihood
from kembed.conditional.likelihood import (
    MAX_LENGTHSCALES,
    Points,
    Regression,
    Targets,
    kernel,
    learn_regression,
)
from kembed.core.backend import Float
from kembed.core.linalg import pivoted_cholesky

Vector = Float[np.ndarray, " n"]
Rows = Float[np.ndarray, "n q"]
Gram = Callable[[Any, Any], Any]
# Up to so many rows C = sK + I is inverted; beyond, K is projected on so many landmarks. Wide tables
# (categories with many levels) have no few rows that represent all.
EXACT_ROWS, WIDE_ROWS, LANDMARKS = 400, 3_000, 150
# Rows beyond which targets share a basis, of at most so many columns.
MANY_ROWS, MANY_WIDEST = 20_000, 12
HELD = 30_000_000  # numbers of features that are held; more are computed again in every sweep
LEVERAGE_ROWS = 16_000  # beyond, every row has the mean leverage: that of one row is below a hundredth
SINGLE_PRECISION_ROWS = 5_000  # beyond, shared features have seven digits: half the memory
CHUNK = 8_192  # rows summed at once, in double precision between chunks
# Landmarks are dropped if others explain all but this share of their variance: in Gaussian processes, and in
# single precision.
UNEXPLAINED, UNEXPLAINED_SINGLE = 1e-8, 1e-5
NEGLIGIBLE = 1e-4  # eigenvalues below this share of their sum are dropped
# Lengthscales of shared bases, of all columns over √d, with landmarks: for regression, and for features that
# weight products. Then those of single columns: a smooth kernel needs few landmarks.
LENGTHSCALES, WEIGHTS_TOGETHER, TOGETHER_LANDMARKS = (0.5, 1.0, 3.0), (1.0, 0.35), 80
MANY_TOGETHER, MANY_LANDMARKS = (1.0, 0.5), 100
SINGLE = ((1.0, 16), (0.35, 28), (0.12, 40))
SPACING = 0.7  # of many rows, landmarks of one column are so many lengthscales apart all over its range
KNOTS = 4_097  # of a table from which features of one column of many rows are interpolated
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

    gain: float  # in log likelihood over no dependence
    ratio: float
    across: Float[np.ndarray, "q k"]  # EᵀBᵀY


def landmark_features(marks: Any, gram: Gram, least: float = UNEXPLAINED) -> Callable[[Any], Rows]:
    """A map to features V with VVᵀ = K_nm K_mm⁻¹ K_mn, from the landmarks that others do not explain."""
    kept, lower = pivoted_cholesky(gram(marks, marks), least)
    marks = marks[kept]

    def features(points: Any) -> Rows:
        return _solve(lower, np.ascontiguousarray(gram(points, marks.astype(points.dtype, copy=False))).T).T

    return features


def _solve(lower: Float[np.ndarray, "m m"], right: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
    """L⁻¹B; B, in the order of LAPACK, is overwritten."""
    solve = strsm if right.dtype == np.float32 else dtrsm
    return np.asarray(solve(1.0, lower, right, lower=1, overwrite_b=1))


@dataclass(frozen=True, eq=False)
class Basis:
    """Features of n rows, given by slice, with the eigenvalues w and eigenvectors E of BᵀB."""

    n: int
    block: Callable[[slice], Rows]
    values: Float[np.ndarray, " q"]
    vectors: Float[np.ndarray, "p q"]

    @classmethod
    def of(cls, n: int, block: Callable[[slice], Rows], least: float) -> "Basis":
        """The basis without eigenvalues below `least` times the largest."""
        total: Any = 0.0
        for some in _chunks(n):
            B = block(some)
            total = total + np.asarray(B.T @ B, dtype=float)
        values, vectors = np.linalg.eigh(total)
        kept = values > least * max(float(values[-1]), 1e-300)
        return cls(n, block, values[kept], vectors[:, kept])

    @classmethod
    def leading(cls, features: Rows) -> "Basis":
        """The leading principal components of features, which are overwritten."""
        features -= features.mean(axis=0, dtype=float).astype(features.dtype)
        every = cls.of(len(features), features.__getitem__, 0.0)
        kept = np.flatnonzero(every.values > NEGLIGIBLE * max(float(every.values.sum()), 1e-300))[::-1]
        features = features @ every.vectors[:, kept].astype(features.dtype)
        return cls(len(features), features.__getitem__, every.values[kept], np.eye(len(kept)))

    @property
    def features(self) -> Rows:
        """B of all rows."""
        return self.block(slice(None))

    @property
    def unit_features(self) -> Rows:
        """B with squares whose mean over rows has the sum 1, so that several kernels have equal weight."""
        B = self.features
        return B * np.asarray(np.sqrt(self.n / self.values.sum()), dtype=B.dtype)

    def across(self, Y: Targets) -> Float[np.ndarray, "q k"]:
        """EᵀBᵀY."""
        total: Any = 0.0
        for some in _chunks(self.n):
            B = self.block(some)
            total = total + np.asarray(B.T @ Y[some].astype(B.dtype, copy=False), dtype=float)
        return np.asarray(self.vectors.T @ total)

    def without(self, Y: Targets, ratio: float, across: Float[np.ndarray, "q k"]) -> Targets:
        """Y less its regression at this signal-to-noise ratio."""
        weights = self.vectors @ (self._shrink(ratio)[:, None] * across)
        parts = []
        for some in _chunks(self.n):
            B = self.block(some)
            parts.append(Y[some] - B @ weights.astype(B.dtype, copy=False))
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _shrink(self, ratio: float) -> Vector:
        return np.asarray(ratio / (1.0 + ratio * self.values))

    def freedom(self, ratio: float) -> float:
        """Degrees of freedom of the regression, without a constant."""
        return float(self.values @ self._shrink(ratio))

    def fit(self, Y: Targets, ratios: Vector) -> Fit:
        """Choose the ratio for centred targets by likelihood."""
        across = self.across(Y)
        squares = np.square(across).sum(axis=1) / self.values
        rest = max(float(np.square(Y).sum(dtype=float)) - float(squares.sum()), 0.0)
        gain = likelihood.gains(squares, rest, self.values, ratios, Y.shape)
        best = int(np.argmax(gain))
        return Fit(float(gain[best]), float(ratios[best]), across)

    def residuals(self, Y: Targets, ratio: float) -> RegressionResiduals:
        """Y less its regression with a constant mean for every target; rows have the mean leverage."""
        right = np.column_stack([np.ones(self.n), Y])
        left = self.without(right, ratio, self.across(right))
        return _with_mean(left[:, 0], left[:, 1:], None, self.freedom(ratio))


def _chunks(n: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))


def _with_mean(
    ones: Vector, left: Targets, diagonal: Vector | None, freedom: float = 0.0
) -> RegressionResiduals:
    """Residuals PY and (PY)_i/P_ii with P = C⁻¹ - C⁻¹11ᵀC⁻¹/(1ᵀC⁻¹1), from C⁻¹1, C⁻¹Y and diag C⁻¹.

    Without the diagonal, every row has the mean of P_ii, from the degrees of freedom without a constant.
    """
    n, total = len(left), ones.sum()
    fitted = left - np.outer(ones, left.sum(axis=0) / total)
    if diagonal is None:
        freedom += float(np.square(ones).sum() / total)
        return RegressionResiduals(fitted, fitted / (1.0 - freedom / n), freedom)
    diagonal = np.maximum(diagonal - ones**2 / total, 1e-12)
    return RegressionResiduals(fitted, fitted / diagonal[:, None], float(n - diagonal.sum()))


def gaussian_process(
    Z: Points, learned: Regression, *, exact: int | None = None, landmarks: int = LANDMARKS
) -> Callable[[Targets], RegressionResiduals]:
    """Residuals of any targets at the rows of Z; beyond `exact` rows with the first rows as landmarks."""
    n, A = len(Z), Z @ learned.axes / learned.lengthscales
    if exact is None:
        exact = EXACT_ROWS if Z.shape[1] <= MAX_LENGTHSCALES else WIDE_ROWS
    if n <= exact:
        inverse = likelihood.inverse_plus_identity(learned.ratio * kernel(A, A))
        ones, diagonal = inverse.sum(axis=1), np.diagonal(inverse)
        return lambda Y: _with_mean(ones, inverse @ Y, diagonal)
    features = landmark_features(A[:landmarks], kernel)
    if n <= LEVERAGE_ROWS:  # C⁻¹ = I - TTᵀ with T = V L⁻ᵀ and LLᵀ = VᵀV + I/s
        V = features(A)
        lower = np.linalg.cholesky(V.T @ V + np.eye(V.shape[1]) / learned.ratio)
        T = _solve(lower, V.T).T
        ones, diagonal = 1.0 - T @ T.sum(axis=0), 1.0 - np.einsum("nm,nm->n", T, T)
        return lambda Y: _with_mean(ones, Y - T @ (T.T @ Y), diagonal)
    block = features(A).__getitem__ if n * landmarks <= HELD else lambda some: features(A[some])
    return partial(Basis.of(n, block, 1e-14).residuals, ratio=learned.ratio)


def kernel_basis(points: Points, marks: Points, gram: Gram = kernel, *, many: bool = False) -> Basis:
    """The leading features of a kernel; of one column of `many` rows interpolated from a table."""
    n = len(points)
    if n <= SINGLE_PRECISION_ROWS:
        return Basis.leading(landmark_features(marks, gram)(points))
    features = landmark_features(marks, gram, UNEXPLAINED_SINGLE)
    if many and points.shape[1] == 1:
        return Basis.leading(_interpolated(points[:, 0], features))
    short = points.astype(np.float32)
    return Basis.leading(np.concatenate([np.float32(features(short[some])) for some in _chunks(n)]))


def _interpolated(column: Vector, features: Callable[[Points], Rows]) -> Rows:
    low, high = float(column.min()), float(column.max())
    table = features(np.linspace(low, high, KNOTS)[:, None]).astype(np.float32)
    place = (column - low) * ((KNOTS - 1) / (high - low))
    left = np.minimum(place.astype(np.int64), KNOTS - 2)
    values, step = table[left], table[left + 1]
    step -= values
    step *= (place - left).astype(np.float32)[:, None]
    values += step
    return values


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
    return kernel_basis(column[:, None] / lengthscale, marks / lengthscale, many=many)


class ColumnFit(NamedTuple):
    """The regression of one column, and its residuals of any column."""

    learned: Regression
    residuals: Callable[[Targets], RegressionResiduals]


@dataclass(frozen=True, eq=False)
class Conditioner:
    """A conditioning set: columns Z of about unit variance, rows in random order, and regressions on it."""

    Z: Points
    many: bool = False  # whether all targets share one rich basis

    @cached_property
    def rank(self) -> int:
        """The rank of Z."""
        if not self.Z.shape[1]:
            return 0
        Z = np.linalg.qr(self.Z, mode="r") if self.many else self.Z
        return int(np.linalg.matrix_rank(Z, rtol=1e-9))

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    def _together(self, ratio: float) -> Basis:
        """Features of a Gaussian kernel of all columns; regressions and weights share some."""
        if ratio not in self._made:
            A = self.Z / (ratio * np.sqrt(self.Z.shape[1]))
            marks = A[: MANY_LANDMARKS if self.many else TOGETHER_LANDMARKS]
            self._made[ratio] = kernel_basis(A, marks)
        return self._made[ratio]

    def _single(self, scale: tuple[float, int]) -> list[Basis]:
        """Features of every column that varies."""
        if scale not in self._made:
            varying = (column for column in self.Z.T if np.ptp(column) > 0.0)
            self._made[scale] = [column_basis(column, *scale, many=self.many) for column in varying]
        return self._made[scale]

    @cached_property
    def _bases(self) -> list[Basis]:
        """The bases of regressions, of which the likelihood chooses one."""
        n, d = self.Z.shape
        if not self.many:
            return [self._together(ratio) for ratio in LENGTHSCALES]
        terms = likelihood.quadratic_terms(self.Z) if d <= likelihood.MAX_AXES else self.Z
        sizes = np.sqrt(np.square(terms).mean(axis=0))
        parts = [(terms[:, sizes > 0.0] / sizes[sizes > 0.0]).astype(np.float32)]
        together = [self._together(ratio) for ratio in MANY_TOGETHER] if d > 1 else self._single(SINGLE[2])
        parts += [basis.features for basis in (*self._single(SINGLE[1]), *together)]
        return [Basis.of(n, np.hstack(parts).__getitem__, 1e-7)]

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
        self._made.clear()
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
        for bases in (self._quadratic, *([basis] for basis in indices), self._bases):
            fit, basis = self._best(F, bases)
            if basis is not None:
                F = basis.without(F, fit.ratio, fit.across)
                freedom += basis.freedom(fit.ratio)
        return F, freedom

    def _best(self, F: Rows, bases: Sequence[Basis]) -> tuple[Fit, Basis | None]:
        """The best fit on any basis, if it is better than none."""
        best: tuple[Fit, Basis | None] = (Fit(0.0, 0.0, np.empty((0, 0))), None)
        for basis in bases:
            fit = basis.fit(F, MANY_RATIOS if self.many else RATIOS)
            best = (fit, basis) if fit.gain > best[0].gain else best
        return best

    @cached_property
    def _quadratic(self) -> list[Basis]:
        """An orthogonal basis of the centred columns of Z and their products; none where Z is wide."""
        if self.many or self.Z.shape[1] > likelihood.MAX_AXES:
            return []
        Q, n = likelihood.quadratic_terms(self.Z), len(self.Z)
        values, vectors = np.linalg.eigh(Q.T @ Q)
        kept = values > 1e-8 * max(float(values[-1]), 1e-300)
        if not 0 < kept.sum() <= n // 4:
            return []
        Q = Q @ (vectors[:, kept] * np.sqrt(n / values[kept]))
        return [Basis(n, Q.__getitem__, np.full(Q.shape[1], float(n)), np.eye(Q.shape[1]))]

    def fit(self, column: Vector) -> ColumnFit | None:
        """Regress a column on Z; None where Z explains nothing."""
        F = (column - column.mean())[:, None]
        fit, basis = self._best(F, self._bases)
        if self.many:
            return self._shared_fit(F, fit, basis) if basis is not None and fit.gain > WORTH else None
        if fit.gain <= WORTH and not self._quadratic_gain(F):
            return None
        learned = learn_regression(self.Z, column[:, None], starts=self._starts)
        return ColumnFit(learned, gaussian_process(self.Z, learned))

    @cached_property
    def _starts(self) -> list[likelihood.Spectrum]:
        return likelihood.default_starts(self.Z[: likelihood.EXPLORE_ROWS])

    def _quadratic_gain(self, F: Rows) -> bool:
        """Whether a quadratic with p terms gains p nats (Akaike)."""
        for basis in self._quadratic:
            left = 1.0 - float(np.square(basis.across(F)).sum()) / (len(F) * float((F**2).sum()))
            return bool(-0.5 * len(F) * np.log(max(left, 1e-300)) > len(basis.values))
        return False

    def _shared_fit(self, F: Rows, fit: Fit, basis: Basis) -> ColumnFit:
        """The fit on the shared basis, after a Gaussian process of its own if a test could notice that."""
        n, d = self.Z.shape
        shared = partial(basis.residuals, ratio=fit.ratio)
        left = shared(F).left_out
        if d > 1 and (n > TRIED_ROWS or self._neighbours_correlated(left[:, 0])):
            own, some = learn_regression(self.Z, F), slice(TRIED_ROWS)
            alone = gaussian_process(self.Z[some], own)(F[some]).left_out
            if np.square(alone).mean() < (1.0 - NOTICEABLE / np.sqrt(n)) * np.square(left[some]).mean():
                return ColumnFit(own, partial(self._after, gaussian_process(self.Z, own)))
        return ColumnFit(Regression(np.eye(d), np.full(d, SINGLE[1][0]), fit.ratio, fit.gain), shared)

    def _after(self, process: Callable[[Targets], RegressionResiduals], Y: Targets) -> RegressionResiduals:
        """Y less a Gaussian process, then less the regression of its residuals on the shared basis."""
        first = process(Y)
        left, spent = self.centred(first.fitted)
        freedom = first.freedom + spent
        return RegressionResiduals(left, left / (1.0 - freedom / len(Y)), freedom)

    def _neighbours_correlated(self, left: Vector) -> bool:
        """Whether residuals of nearest neighbours are correlated, so that there is more to regress."""
        from scipy.spatial import cKDTree

        if "neighbours" not in vars(self):
            near = cKDTree(self.Z).query(self.Z, 2)[1]
            itself = near[:, 1] == np.arange(len(near))  # among equal rows it need not come first
            vars(self)["neighbours"] = np.where(itself, near[:, 0], near[:, 1])
        product = left * left[vars(self)["neighbours"]]
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

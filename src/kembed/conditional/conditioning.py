"""Variables as regressions see them, what conditioning on some of them means, and what it leaves of others.

Conditional independence does not change when a variable is replaced by an invertible function of itself, so
numeric columns are put in units of their spread and bent inwards far out, where one value would rule a
regression; categories become indicators.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kembed.conditional import regression
from kembed.conditional.regression import (
    Regression,
    Spectrum,
    kernel,
    learn_regression,
    usual_starts,
)
from kembed.conditional.smoothing import (
    SUMMED_ROWS,
    RegressionResiduals,
    nystroem,
    regression_residuals,
    smoother,
)
from kembed.core.backend import Bool, Float, Int
from kembed.kernels.space import make_space

Vector = Float[np.ndarray, " n"]
Basis = tuple[Float[np.ndarray, " q"], Float[np.ndarray, "n q"]]  # eigenvalues, orthonormal vectors
BULK = 3.0  # spreads: a value further out is drawn in, logarithmically
# Features of the conditioning kernel, and the lengthscales (over √d) and signal-to-noise ratios compared.
LANDMARKS = 80
LENGTHSCALES = (0.5, 1.0, 3.0)
RATIOS = 10.0 ** np.arange(-3.0, 2.1, 0.5)
# Lengthscales of features that weight products, of the kernel of all columns (over √d) and of single ones;
# the first is used where one is enough. Single columns with landmarks: a smooth kernel needs few.
TOGETHER, SINGLE = (1.0, 0.35), ((1.0, 16), (0.35, 28), (0.12, 40))
NEGLIGIBLE = 1e-4  # eigenvalues below this share of their sum are left out
WORTH = 2.0  # nats that the best of some dozens of regressions must gain before one is looked at
SHORT_ROWS = 20_000  # beyond, what is kept of a conditioner has seven digits: half the memory
# Added to the size of residuals, in spreads, so that a residual of nothing has a logarithm.
LEAST_SIZE = 0.02
# A column of which the regression leaves less than this share of the variance is a function of `given`.
DETERMINED = 1e-5


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable of any width: columns of about unit spread; `indicator` marks those of categories."""

    columns: Float[np.ndarray, "n k"]
    indicator: Bool[np.ndarray, " k"]


def as_variable(values: Float[np.ndarray, "n D"], categorical: Bool[np.ndarray, " D"]) -> Variable:
    """Numeric columns bent into units of their spread, categories as indicators; constants left out.

    Numbers of two values are categories: there is nothing between.
    """
    space = make_space(values, categorical)
    columns: list[Float[np.ndarray, " n"]] = []
    indicator: list[bool] = []
    for c, discrete in enumerate(categorical):
        column = values[:, c]
        if (column == column[0]).all():
            continue
        levels = np.unique(column)
        if not discrete and len(levels) > 2:
            columns.append(unit(bent((column - np.median(column)) / space.spread[c])))
            indicator.append(False)
            continue
        # The last of two levels is what the first is not.
        shown = [column == level for level in levels[: 1 if len(levels) == 2 else None]]
        columns += [unit(level.astype(float)) for level in shown]
        indicator += [True] * len(shown)
    table = np.column_stack(columns) if columns else np.empty((len(values), 0))
    return Variable(table, np.array(indicator, dtype=bool))


def bent(t: Vector) -> Vector:
    """t in the bulk, growing like a logarithm beyond it: invertible, and smooth where the two meet."""
    beyond = np.maximum(np.abs(t) - BULK, 0.0)
    return np.asarray(np.where(beyond > 0.0, np.sign(t) * (BULK + np.log1p(beyond)), t))


def unit(column: Vector) -> Vector:
    """The column with mean 0 and variance 1."""
    centred = column - column.mean()
    return np.asarray(centred / np.sqrt((centred**2).mean()))


def content_order(variables: list[Variable]) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " v"]]:
    """An order of the rows that depends on their content alone, and then says nothing; ranks of variables.

    Whatever the order of rows and of variables that comes in, the shuffled rows are the same.
    """
    keys = [_key(variable.columns) for variable in variables]
    rank = np.argsort(sorted(range(len(keys)), key=lambda v: keys[v]))
    every = sorted((column for one in variables for column in one.columns.T), key=lambda c: _key(c[:, None]))
    n = len(variables[0].columns)
    order = np.lexsort(every[::-1]) if every else np.arange(n)
    return order[np.random.default_rng(0).permutation(n)], rank


def _key(columns: Float[np.ndarray, "n k"]) -> tuple[float, ...]:
    """What columns are sorted by: their content, whatever the order of rows; rounding must not decide."""
    if not columns.shape[1]:
        return ()
    first = np.sort(columns[:, 0])[[0, -1, len(columns) // 2]]
    return tuple(np.round([*first, np.abs(columns).mean()], 9))


@dataclass(frozen=True, eq=False)
class Conditioner:
    """What is conditioned on: a table Z of about unit spread, and regressions on it that targets share."""

    Z: Float[np.ndarray, "n d"]

    @cached_property
    def rank(self) -> int:
        """How many directions Z has."""
        return int(np.linalg.matrix_rank(self.Z, rtol=1e-9)) if self.Z.shape[1] else 0

    @cached_property
    def _bases(self) -> list[Basis]:
        """Eigenvalues and orthonormal eigenvectors of the centred kernel matrix, at every lengthscale."""
        return [self._basis(ratio) for ratio in LENGTHSCALES]

    def _basis(self, ratio: float) -> Basis:
        if ratio not in self._made:
            A = self.Z / (ratio * np.sqrt(self.Z.shape[1]))
            self._made[ratio] = _kept(leading_features(A, A[:LANDMARKS], kernel))
        return self._made[ratio]

    @cached_property
    def _made(self) -> dict[float, Basis]:
        """Bases by their lengthscales: regressions and weights share some."""
        return {}

    @cached_property
    def weights(self) -> tuple[Float[np.ndarray, "n q"], ...]:
        """Features of Gaussian kernels on Z, for interactions with it: of all columns, and of single ones.

        The sum of single columns' kernels sees what bends fast along one of many columns, where a kernel of
        all sees too few rows that are near each other.
        """
        d = self.Z.shape[1]
        single = SINGLE if d <= regression.MAX_LENGTHSCALES else ()
        columns = [[_column_basis(column, *scale) for column in self.Z.T] for scale in single]
        together = [[self._basis(ratio)] for ratio in (TOGETHER if d > 1 else ())]
        return tuple(np.hstack([_sized(*basis) for basis in bases]) for bases in (*together, *columns))

    def index_bases(self, indices: Float[np.ndarray, "n i"]) -> list[Any]:
        """Bases of the functions of every index, for `centred`; of one column kernels on it see all."""
        varying = (unit(column) for column in indices.T if np.ptp(column) > 0.0)
        return [[_column_basis(column, *SINGLE[0])] for column in varying] if self.Z.shape[1] > 1 else []

    def centred(
        self, F: Float[np.ndarray, "n r"], indices: Sequence[Any] = ()
    ) -> tuple[Float[np.ndarray, "n r"], float]:
        """F less its regression on Z: one Gaussian process for all columns, chosen by likelihood.

        With eigenvectors U and eigenvalues w of the kernel matrix, E[F|Z] = U diag(s w/(1 + s w)) Uᵀ F; the
        second number returned is the degrees of freedom spent, the sum of those shares. `indices` are bases
        of functions of Z that are known to matter: what is foretold of locations.
        """
        F, freedom, Q = F - F.mean(axis=0), 0.0, self._quadratic
        polynomials = [(np.full(Q.shape[1], float(len(Q))), Q)] if 0 < Q.shape[1] <= len(Q) // 4 else []
        for bases in (polynomials, *indices, self._bases):
            gain, shares, vectors = _best(F, bases)
            if gain > 0.0:
                F = F - vectors @ (shares[:, None] * (vectors.T @ F))
                freedom += float(shares.sum())
        return F, freedom

    def sees(self, column: Float[np.ndarray, " n"]) -> bool:
        """Whether Z says anything about the column, to a Gaussian process or to a quadratic.

        The best of some dozens of processes must gain two nats, a quadratic with p terms p (Akaike).
        """
        F = (column - column.mean())[:, None]
        if _best(F, self._bases)[0] > WORTH:
            return True
        Q = self._quadratic
        if Q.shape[1] > len(F) // 4:
            return False
        left = float(((F[:, 0] - Q @ (Q.T @ F[:, 0])) ** 2).sum()) / float((F**2).sum())
        return bool(-0.5 * len(F) * np.log(max(left, 1e-300)) > Q.shape[1])

    def learn(self, column: Vector) -> Regression | None:
        """A Gaussian process for the column; None where Z says nothing about it."""
        if not self.sees(column):
            return None
        return learn_regression(self.Z, column[:, None], starts=self._starts)

    @cached_property
    def _starts(self) -> list[Spectrum]:
        """What every search starts from, whatever the target."""
        return usual_starts(self.Z[: regression.EXPLORE_ROWS])

    def regressed(self, learned: Regression) -> Callable[[Vector], RegressionResiduals]:
        """What takes out of a column what the process says, for as many columns as there are."""
        if len(self.Z) > SUMMED_ROWS:
            return lambda column: regression_residuals(self.Z, column[:, None], learned)
        smooth = smoother(self.Z, learned)
        return lambda column: smooth.residuals(column[:, None])

    @cached_property
    def _quadratic(self) -> Float[np.ndarray, "n p"]:
        """An orthonormal basis of the centred columns of Z and their products; none where Z is wide."""
        if self.Z.shape[1] > regression.MAX_AXES:
            return np.empty((len(self.Z), 0))
        Q = regression.quadratic_terms(self.Z)
        values, vectors = np.linalg.eigh(Q.T @ Q)
        kept = values > 1e-8 * max(float(values[-1]), 1e-300)
        return np.asarray(Q @ (vectors[:, kept] / np.sqrt(values[kept])))


def _best(F: Float[np.ndarray, "n r"], bases: list[Basis]) -> tuple[float, Vector, Float[np.ndarray, "n q"]]:
    """The largest gain in log likelihood over no dependence, the shares s w/(1 + s w), and the vectors."""
    whole = float((F**2).sum())
    best: tuple[float, Any, Any] = (0.0, np.empty(0), np.empty((len(F), 0)))
    for values, vectors in bases:
        squares = ((vectors.T @ F) ** 2).sum(axis=1)
        found = regression.gains(squares, max(whole - float(squares.sum()), 0.0), values, RATIOS, F.shape)
        place = int(np.argmax(found))
        if found[place] > best[0]:
            shrink = RATIOS[place] * values  # s w
            best = (float(found[place]), shrink / (1.0 + shrink), vectors)
    return best


def _column_basis(column: Vector, lengthscale: float, landmarks: int) -> Basis:
    A, marks = (v[:, None] / lengthscale for v in (column, spaced(column, landmarks)))
    return _kept(leading_features(A, marks, kernel))


def _kept(basis: Basis) -> Basis:
    """The basis as it is kept."""
    values, vectors = basis
    return values, vectors.astype(np.float32) if len(vectors) > SHORT_ROWS else vectors


def spaced(column: Vector, count: int) -> Float[np.ndarray, " m"]:
    """At most so many landmarks of one column: quantiles, no two alike."""
    return np.asarray(np.unique(np.quantile(column, (np.arange(count) + 0.5) / count)))


def _sized(values: Float[np.ndarray, " q"], vectors: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
    """Features of one kernel, whose squares have the mean 1 in sum: kernels side by side count alike."""
    return vectors * np.sqrt(values * len(vectors) / values.sum()).astype(vectors.dtype)


def leading_features(points: Any, marks: Any, gram: Callable[[Any, Any], Any]) -> Basis:
    """Eigenvalues (largest first) and eigenvectors of the centred matrix K_nm K_mm⁻¹ K_mn."""
    F = nystroem(points, marks, gram).T
    F -= F.mean(axis=0)
    values, vectors = np.linalg.eigh(F.T @ F)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > NEGLIGIBLE * max(float(values.sum()), 1e-300)
    values = values[kept]
    return values, (F @ vectors[:, kept]) / np.sqrt(values)


@dataclass(frozen=True, eq=False)
class ColumnRegression:
    """The regressions of one column: of its location, and of the logarithm of its spread."""

    location: Regression | None  # None where `given` says nothing
    scale: Regression | None  # likewise, and for indicators of categories
    unexplained: float  # share of the variance left, judged on left-out rows
    freedom: float  # degrees of freedom that both regressions spent


@dataclass(frozen=True, eq=False)
class VariableResiduals:
    """Residual columns of unit variance, and the regressions behind them; no columns if nothing is left."""

    columns: Float[np.ndarray, "n k"]
    regressions: tuple[ColumnRegression, ...]
    indicator: Bool[np.ndarray, " k"]  # which columns are left of indicators of categories
    indices: Float[np.ndarray, "n i"]  # what the other rows foretell of a row's columns


def variable_residuals(
    variable: Variable, given: Conditioner, *, cross_fit: bool, scale: bool
) -> VariableResiduals:
    """The residuals of a variable, column by column: location taken out, then scale.

    HSIC of raw residuals answers another question than the one asked: where the *spread* of x and y depends
    on z, residuals are dependent although x and y are not, given z. So the logarithm of the residuals' size
    is regressed on z as well, and residuals are divided by what it predicts.

    With `cross_fit` a row's residual comes from a regression on the other rows. `scale=False` stops after
    the location. A regression is left out where `given` says nothing about the column.
    """
    left: list[Float[np.ndarray, " n"]] = []
    kinds: list[bool] = []
    indices: list[Float[np.ndarray, " n"]] = []
    found = []
    for column, indicator in zip(variable.columns.T, variable.indicator, strict=True):
        spread = None
        freedom = 1.0
        away = outside = column
        location = given.learn(column)
        if location is not None:
            both = given.regressed(location)(column)
            outside, freedom = both.left_out[:, 0], both.freedom
            indices.append(column - outside)
            away = outside if cross_fit else both.fitted[:, 0]
        unexplained = float((outside**2).mean())
        if unexplained > DETERMINED:
            if scale and not indicator:
                away, spread, more = _scaled(away, outside, given)
                freedom += more
            left.append(unit(away))
            kinds.append(bool(indicator))
        found.append(ColumnRegression(location, spread, unexplained, freedom))
    columns, foretold = (_side_by_side(each, len(given.Z)) for each in (left, indices))
    return VariableResiduals(columns, tuple(found), np.array(kinds, dtype=bool), foretold)


def _side_by_side(columns: list[Vector], n: int) -> Float[np.ndarray, "n k"]:
    return np.column_stack(columns) if columns else np.empty((n, 0))


def _scaled(away: Vector, outside: Vector, given: Conditioner) -> tuple[Vector, Regression | None, float]:
    """Residuals over the spread that the other rows predict for their row, drawn in far out."""
    size = np.sqrt((outside**2).mean())
    logs = np.log(np.abs(outside) / size + LEAST_SIZE)
    logs = logs - logs.mean()
    learned = given.learn(logs)
    if learned is None:
        return bent(away / np.sqrt((away**2).mean())), None, 0.0
    # Twice, the second time what the first has left: a process that smooths noise this loud shrinks too.
    regressed = given.regressed(learned)
    once = regressed(logs)
    predicted = logs - regressed(once.left_out[:, 0]).left_out[:, 0]
    ratio = away / np.exp(predicted - predicted.mean())
    return bent(ratio / np.sqrt((ratio**2).mean())), learned, once.freedom

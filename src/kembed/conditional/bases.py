"""Regressions of many rows on one basis that all targets share.

A search for a graph regresses every variable on the same few sets of others. Of many rows a basis B can be
rich without spending degrees of freedom that matter, so it is computed once for a set: polynomials of second
order, Gaussian features of every single column, and of all columns together. With BᵀB = E diag(w) Eᵀ all that
a target F needs are the sums BᵀF, one sweep over the rows, and B E diag(s/(1 + s w)) Eᵀ BᵀF, what is foretold
of it, a second one; the signal-to-noise ratio s is that of the largest likelihood (`regression.gains`).

Rows are 32-bit numbers, sums over them 64-bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from kembed.conditional import conditioning, regression, smoothing
from kembed.conditional.conditioning import Conditioner
from kembed.conditional.products import NEGLIGIBLE
from kembed.conditional.regression import Regression, kernel, learn_regression
from kembed.conditional.smoothing import RegressionResiduals, summed_residuals
from kembed.core.backend import Float, Int

Rows = Float[np.ndarray, "n q"]
Vector = Float[np.ndarray, " n"]
WIDEST = 12  # columns of what is given: beyond, regressions have a kernel of their own for every target
# Lengthscales of single columns in spreads: of the regressions, and what weights products besides (wide);
# of one column alone a finer one is affordable.
SINGLE, WIDE, FINEST = 0.35, 1.0, 0.12
TOGETHER = (1.0, 0.5)  # of all columns, over √d; the finer the more landmarks it would take
LANDMARKS = 100  # of those; the features they leave are at most so many each
APART = 0.7  # landmarks of one column, in lengthscales: closer ones say the same
# A feature of one column is read off a table of so many points, 2e-4 apart in its range.
KNOTS = 4_097
RATIOS = 10.0 ** np.arange(-3.0, 4.1, 0.5)  # signal over noise: many rows show a faint noise too
CHUNK = 8_192  # rows whose sums are taken at once: what a cache holds
# Functions along an oblique axis are not for a basis (sin 2(z₁ + z₂): .2% of the variance is left of it). A
# process along axes of its own is tried on so many rows, and taken if the variance that the basis leaves is
# larger by this over √n: where both sides have that in common, a statistic moves by half its spread. Of
# fewer rows it is tried only where nearest neighbours agree by so many standard errors.
TRIED_ON, NOTICED, AGREE = 16_384, 0.5, 2.5


def column_features(
    column: Vector,
    features: Callable[[Float[np.ndarray, "g 1"]], Float[np.ndarray, "g m"]],
    negligible: float = 0.0,
) -> Rows:
    """The leading centred features of one column, read off a table and interpolated.

    What is small beside their whole variance is left out, and what is beside that of the largest.
    """
    low, high = float(column.min()), float(column.max())
    table = features(np.linspace(low, high, KNOTS)[:, None])
    place = (column - low) * ((KNOTS - 1) / (high - low))
    left = np.minimum(place.astype(np.int64), KNOTS - 2)
    share = place - left
    mass = np.bincount(left, 1.0 - share, KNOTS) + np.bincount(left + 1, share, KNOTS)
    table = table - mass @ table / len(column)
    values, vectors = np.linalg.eigh((table.T * mass) @ table)
    least = max(conditioning.NEGLIGIBLE * float(values.sum()), negligible * float(values[-1]), 1e-300)
    kept = np.flatnonzero(values > least)[::-1]
    short = (table @ vectors[:, kept]).astype(np.float32)
    found = short[left]
    step = short[left + 1]
    step -= found
    step *= share.astype(np.float32)[:, None]
    found += step
    return found


def gaussian_features(column: Vector, lengthscale: float) -> Rows:
    """Those of a Gaussian kernel, with landmarks all over the column's range; two values are their own."""
    low, high = float(column.min()), float(column.max())
    if ((column == low) | (column == high)).all():
        return np.asarray((column - column.mean())[:, None], dtype=np.float32)
    count = int(np.ceil((high - low) / (APART * lengthscale))) + 2
    marks = np.linspace(low, high, count)[:, None] / lengthscale
    whiten = whitener(kernel(marks, marks))
    return column_features(column, lambda points: kernel(points / lengthscale, marks) @ whiten)


def whitener(among: Float[np.ndarray, "m m"], least: float = 1e-10) -> Float[np.ndarray, "m r"]:
    """K_mm^{-1/2} without the directions that hardly are."""
    values, vectors = np.linalg.eigh(among)
    kept = values > least * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def sums(one: Rows, other: Rows) -> Float[np.ndarray, "p q"]:
    """Σ_i a_i b_iᵀ, added up in double precision."""
    total = np.zeros((one.shape[1], other.shape[1]))
    for i in range(0, len(one), CHUNK):
        total += one[i : i + CHUNK].T @ other[i : i + CHUNK]
    return total


@dataclass(frozen=True, eq=False, repr=False)
class SharedRegression(Regression):
    """A regression on a shared basis, and a process along axes of its own before it, if any."""

    more: Regression | None = None


@dataclass(frozen=True, eq=False)
class SharedConditioner(Conditioner):
    """What is conditioned on, as a basis; `columns` are the features of every single column of Z."""

    columns: tuple[Rows, ...] = ()

    @cached_property
    def rank(self) -> int:
        """How many directions Z has."""
        return int(np.linalg.matrix_rank(np.linalg.qr(self.Z, mode="r"), rtol=1e-9))

    def _together(self) -> list[Rows]:
        """Leading features of Gaussian kernels of all columns; of a single one those of a finer kernel."""
        n, d = self.Z.shape
        if d == 1:
            return [gaussian_features(self.Z[:, 0], FINEST)] if np.ptp(self.Z) > 0.0 else []
        found = []
        for ratio in TOGETHER:
            A = (self.Z / (ratio * np.sqrt(d))).astype(np.float32)
            marks = A[:LANDMARKS].astype(float)
            # 32-bit numbers have seven digits: directions below a millionth of the first are noise.
            turn = whitener(kernel(marks, marks), 1e-6).astype(np.float32)
            F = np.empty((n, turn.shape[1]), dtype=np.float32)
            for i in range(0, n, CHUNK):
                F[i : i + CHUNK] = kernel(A[i : i + CHUNK], A[:LANDMARKS]) @ turn
            F -= F.mean(axis=0, dtype=float).astype(np.float32)
            values, vectors = np.linalg.eigh(sums(F, F))
            kept = np.flatnonzero(values > conditioning.NEGLIGIBLE * values.sum())[::-1]
            found.append(F @ vectors[:, kept].astype(np.float32))
        return found

    @cached_property
    def _tables(self) -> tuple[Rows, tuple[Rows, ...]]:
        """The basis and the weights, made of parts that nobody needs afterwards."""
        together, d = self._together(), self.Z.shape[1]
        terms = regression.quadratic_terms(self.Z) if d <= regression.MAX_AXES else self.Z
        sizes = np.sqrt(np.square(terms).mean(axis=0))
        terms = (terms[:, sizes > 0.0] / sizes[sizes > 0.0]).astype(np.float32)
        basis = np.hstack([terms, *self.columns, *together])
        wide = tuple(gaussian_features(c, WIDE) for c in self.Z.T if np.ptp(c) > 0.0)
        apart = [(one,) for one in together]
        parts = [wide, self.columns, tuple(together)] if d == 1 else [*apart, wide, self.columns]
        return basis, tuple(_loud(np.hstack([_even(one) for one in part])) for part in parts if part)

    @property
    def basis(self) -> Rows:
        """B, every row of which has the features of that row."""
        return self._tables[0]

    @property
    def weights(self) -> tuple[Rows, ...]:
        """As those of a `Conditioner`, without features that no product with them would be kept of."""
        return self._tables[1]

    @cached_property
    def _spectrum(self) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, "p q"]]:
        """The eigenvalues w of BᵀB that count, and vectors."""
        values, vectors = np.linalg.eigh(sums(self.basis, self.basis))
        kept = values > 1e-7 * values[-1]
        return values[kept], vectors[:, kept]

    def _found(self, F: Rows) -> tuple[float, float, Float[np.ndarray, "q r"]]:
        """The best signal-to-noise ratio, its gain, and the sums EᵀBᵀF."""
        w, vectors = self._spectrum
        across = vectors.T @ sums(self.basis, F.astype(np.float32))
        squares = np.square(across).sum(axis=1) / w
        rest = max(float(np.square(F).sum(dtype=float)) - float(squares.sum()), 0.0)
        gains = regression.gains(squares, rest, w, RATIOS, F.shape)
        place = int(np.argmax(gains))
        return float(RATIOS[place]), float(gains[place]), across

    def _without(self, F: Rows, ratio: float, across: Float[np.ndarray, "q r"]) -> tuple[Rows, float]:
        """F less its prediction, and the degrees of freedom that it took."""
        w, vectors = self._spectrum
        weights = vectors @ ((ratio / (1.0 + ratio * w))[:, None] * across)
        freedom = float((ratio * w / (1.0 + ratio * w)).sum())
        return F - self.basis @ weights.astype(np.float32), freedom

    def index_bases(self, indices: Rows) -> list[Rows]:
        """Features of every index, for `centred`."""
        varying = (conditioning.unit(column) for column in indices.T if np.ptp(column) > 0.0)
        return [gaussian_features(column, SINGLE) for column in varying] if self.Z.shape[1] > 1 else []

    def centred(self, F: Rows, indices: Sequence[Rows] = ()) -> tuple[Rows, float]:
        """F less its regression on Z, with one ratio for all columns, and the degrees of freedom spent.

        Then less least squares on features of the indices, which are few beside the rows.
        """
        F = F - F.mean(axis=0)
        ratio, gain, across = self._found(F)
        F, freedom = self._without(F, ratio, across) if gain > 0.0 else (F, 0.0)
        for features in indices:
            among = sums(features, features)
            among[np.diag_indices(len(among))] += 1e-6 * np.trace(among)
            F = F - features @ np.linalg.solve(among, sums(features, F)).astype(features.dtype)
            freedom += features.shape[1]
        return F, freedom

    def learn(self, column: Vector) -> Regression | None:
        """The ratio for the column; None where Z says nothing about it."""
        F = (column - column.mean())[:, None]
        ratio, gain, across = self._found(F)
        if gain <= conditioning.WORTH:
            return None
        d, (left, freedom) = self.Z.shape[1], self._without(F, ratio, across)
        more = self._own(F, left / (1.0 - freedom / len(F))) if d > 1 else None
        return SharedRegression(np.eye(d), np.full(d, SINGLE), ratio, gain, more)

    def _own(self, F: Rows, left: Rows) -> Regression | None:
        """A process along axes of its own, if it foretells F so much better that a test could notice."""
        if len(F) <= TRIED_ON and not self._agrees(left[:, 0]):
            return None
        own, some = learn_regression(self.Z, F), slice(TRIED_ON)
        alone = summed_residuals(self.Z[some], F[some], own, smoothing.LANDMARKS).left_out
        noticed = (1.0 - NOTICED / np.sqrt(len(F))) * np.square(left[some]).mean()
        return own if np.square(alone).mean() < noticed else None

    def _after(self, F: Rows, own: Regression) -> tuple[Rows, float]:
        """F less a process of its own, then less what the basis says about the rest."""
        first = summed_residuals(self.Z, F, own, smoothing.LANDMARKS)
        ratio, gain, across = self._found(first.fitted)
        left, freedom = self._without(first.fitted, ratio, across) if gain > 0.0 else (first.fitted, 0.0)
        return left, first.freedom + freedom

    def regressed(self, learned: Regression) -> Callable[[Vector], RegressionResiduals]:
        """What takes the regression out of a column."""
        return partial(self._regressed, learned)

    def _regressed(self, learned: Regression, column: Vector) -> RegressionResiduals:
        """The column less its regression; a row left out changes what all others say by its share of them."""
        n, F = len(column), (column - column.mean())[:, None]
        more = learned.more if isinstance(learned, SharedRegression) else None
        if more is not None:
            left, freedom = self._after(F, more)
        else:
            left, freedom = self._without(F, learned.ratio, self._found(F)[2])
            freedom += 1.0
        return RegressionResiduals(left, left / (1.0 - freedom / n), freedom)

    @cached_property
    def _nearest(self) -> Int[np.ndarray, " m"]:
        """The nearest neighbour of every row."""
        from scipy.spatial import cKDTree

        near = cKDTree(self.Z).query(self.Z, 2)[1]
        itself = near[:, 1] == np.arange(len(near))  # among equal rows it need not come first
        return np.where(itself, near[:, 0], near[:, 1])

    def _agrees(self, left: Vector) -> bool:
        """Whether neighbours have alike residuals, so that there is more to regress."""
        product = left * left[self._nearest]
        # Pairs that are each other's neighbours count twice: √2 of the usual standard error at most.
        error = np.sqrt(2.0 * np.square(product).sum())
        return bool(product.sum() > AGREE * error)


def _loud(features: Rows) -> Rows:
    """Those that are not negligible beside the largest."""
    sizes = np.square(features).mean(axis=0, dtype=float)
    return np.ascontiguousarray(features[:, sizes >= NEGLIGIBLE * sizes.max(initial=0.0)])


def _even(features: Rows) -> Rows:
    """Features of one kernel whose squares have the mean 1 in sum: kernels side by side count alike."""
    size = float(np.square(features).sum(dtype=float)) / len(features)
    return np.asarray(features / np.float32(np.sqrt(max(size, 1e-300))))

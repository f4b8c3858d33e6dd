"""Rows as the feature maps see them: robust units, ranks, principal axes, distances to landmarks.

A `Sample` of the pooled rows fits what the maps need, without labels. `Rows` evaluates it for any batch of
rows, each quantity once. `Basis` holds the fitted arrays and nothing else, so that it can be sent to other
processes and stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.linalg import principal_axes
from kembed.core.ordering import sorted_rows
from kembed.embeddings.landmarks import Landmarks, place
from kembed.features.polynomials import (
    DEGREE,
    LevelScale,
    RankScale,
    fit_levels,
    fit_ranks,
    polynomials_of,
)
from kembed.kernels.space import Space, mismatch
from kembed.learning.evidence import SPREADS, Evidence, scan_evidence
from kembed.learning.kernel_words import STAND_IN, in_units, says_nothing_of_scales

Values = Float[np.ndarray, "b D"]
Near = tuple[Int[np.ndarray, " b"], Float[np.ndarray, " b"]]
MAX_PEAKS = 3  # modes of the evidence that are kept
LANDMARKS = 100  # at most; a quarter of the rows if that is fewer, so that the covariance can be estimated
LEAST_AXIS = 1e-3  # principal axes are kept down to this share of the largest, and a quarter of the rows
AXIS_DEGREE = DEGREE // 2  # of the polynomials along an axis
AXIS_DIGITS = 9  # positions on an axis that agree to so many digits are tied
# Ratios of lengthscales at which a Gaussian is computed as a power of a wider one: squares in place of `exp`.
HALVINGS = (2.0, 4.0)
FAR = 1e6  # robust standard deviations; a row further out is moved there, so that products keep their digits
ROUNDING = 1e-10  # eigenvalues of the matrix of landmarks below this share of the largest
STRIP = 512  # rows of a strip: with 256 landmarks a table is a megabyte, which a cache holds


@dataclass(frozen=True, eq=False)
class Basis:
    """What a sample of the pooled rows has fitted: units, ranks, axes, landmarks."""

    categorical: Bool[np.ndarray, " D"]
    centre: Float[np.ndarray, " E"]
    unit: Float[np.ndarray, " E"]  # robust standard deviations of numeric columns
    penalty: Float[np.ndarray, " C"]
    rank_scales: tuple[RankScale, ...]  # of every column; of codes too
    level_scales: tuple[LevelScale | None, ...]  # of columns that hold codes
    rotation: Float[np.ndarray, "R k"]
    axis_scales: tuple[RankScale, ...]
    landmarks: Float[np.ndarray, "m E+C"]
    nearest_scale: RankScale  # of the distance to the nearest landmark


def _ranks(scales: tuple[RankScale, ...], columns: Float[np.ndarray, "b D"]) -> Float[np.ndarray, "b D"]:
    """The ranks of several columns."""
    columns = np.ascontiguousarray(columns.T)
    return np.array([scale.middles(column) for column, scale in zip(columns, scales, strict=True)]).T


class Spectrum(NamedTuple):
    """Mean of features over so many rows, and eigenvalues (rising) and vectors of their centred squares."""

    rows: int
    mean: Float[np.ndarray, " m"]
    eigenvalues: Float[np.ndarray, " m"]
    vectors: Float[np.ndarray, "m m"]

    def whitening(self, ridge: float) -> Float[np.ndarray, "m r"]:
        """L with L Lᵀ = (Σ + ρI)⁻¹, ρ = ridge · trace Σ; a column of zeros where no feature varies.

        Columns of L are for principal features, of which the last varies most.
        """
        total = float(self.eigenvalues.sum())
        if not total > 0.0:
            return np.zeros((len(self.mean), 1))
        return self.vectors * np.sqrt(self.rows / (self.eigenvalues + ridge * total))


class Rows:
    """A batch of rows and what is computed from them, each quantity once.

    `index` holds their places among the rows of the sample, where those are all rows of the test.
    """

    def __init__(self, basis: Any, values: Values, index: Int[np.ndarray, " b"] | None = None) -> None:
        self.basis, self.values, self.index = basis, values, index
        self._gaussians: dict[float, Float[np.ndarray, "b m"]] = {}
        self.is_strip = False  # of other rows

    @cached_property
    def numeric(self) -> Float[np.ndarray, "b E"]:
        """Numeric columns about their medians in robust units; zeros where there are none."""
        basis = self.basis
        if basis.categorical.all():
            return np.zeros((len(self.values), 1))
        scaled = (self.values[:, ~basis.categorical] - basis.centre) / basis.unit
        return np.clip(scaled, -FAR, FAR)

    @cached_property
    def ranks(self) -> Float[np.ndarray, "b D"]:
        """Ranks of every column, as shares of the fitted rows."""
        return _ranks(self.basis.rank_scales, self.values)

    @cached_property
    def degrees(self) -> Float[np.ndarray, "b P"]:
        """Column after column, the polynomials of its ranks or indicators of its levels."""
        found = polynomials_of(self.basis.rank_scales, self.ranks.T)
        for c, levels in enumerate(self.basis.level_scales):
            if levels is not None:
                found[:, DEGREE * c : DEGREE * (c + 1)] = levels(self.values[:, c])
        return found

    @property
    def polynomials(self) -> list[Float[np.ndarray, "b degree"]]:
        """The same, a table for every column."""
        count = self.values.shape[1]
        return [self.degrees[:, DEGREE * c : DEGREE * (c + 1)] for c in range(count)]

    @property
    def scores(self) -> Float[np.ndarray, "b R"]:
        """The ranks of numeric columns, and the indicators of the others."""
        first = np.arange(self.degrees.shape[1]) % DEGREE == 0
        return self.degrees[:, first | np.repeat(self.basis.categorical, DEGREE)]

    @cached_property
    def axes(self) -> Float[np.ndarray, "b k"]:
        """Positions along the principal axes of the scores, of variance 1, the longest axis first."""
        return self.scores @ self.basis.rotation

    @cached_property
    def along_axes(self) -> Float[np.ndarray, "b P"]:
        """Polynomials of the ranks along every axis."""
        scales = self.basis.axis_scales
        return polynomials_of(scales, _ranks(scales, self.axes).T)

    @cached_property
    def factors(self) -> tuple[Float[np.ndarray, "b E+2"], Float[np.ndarray, "E+2 m"]]:
        """Rows and landmarks with their squares beside them, so that one product of both is -d²/2."""
        E = self.numeric.shape[1]
        x, z = self.numeric, self.basis.landmarks[:, :E]
        rows = np.column_stack([x, -0.5 * np.square(x).sum(axis=1), np.ones(len(x))])
        return rows, np.column_stack([z, np.ones(len(z)), -0.5 * np.square(z).sum(axis=1)]).T

    @cached_property
    def _closeness(self) -> tuple[Float[np.ndarray, "b m"], Near]:
        """-d²/2 to every landmark, at most 0; which is the nearest, and that of the nearest."""
        rows, points = self.factors
        found = rows @ points
        if self.basis.categorical.any():
            codes = self.values[:, self.basis.categorical]
            found -= 0.5 * mismatch(codes, self.basis.landmarks[:, len(points) - 2 :], self.basis.penalty)
        nearest = np.argmax(found, axis=1)
        highest = found[np.arange(len(found)), nearest]
        if highest.max(initial=0.0) > 0.0:  # by rounding; a look everywhere costs half an `exp`
            np.minimum(found, 0.0, out=found)
        return found, (nearest, np.minimum(highest, 0.0))

    @cached_property
    def near(self) -> Near:
        """Which landmark is the nearest, and -d²/2 to it."""
        return self._closeness[1]

    def gaussian(self, lengthscale: float) -> Float[np.ndarray, "b m"]:
        """The Gaussian of the distance to every landmark; best asked for from the widest to the narrowest."""
        if lengthscale not in self._gaussians:
            known = next((k for k in sorted(self._gaussians) if k / lengthscale in HALVINGS), None)
            if known is None:
                found = self._closeness[0] * (1.0 / lengthscale**2)
                np.exp(found, out=found)
            else:
                # The rows of a strip fit into a cache; a power of a Gaussian is written over it.
                wider = self._gaussians.pop(known) if self.is_strip else self._gaussians[known]
                found = np.square(wider, out=wider if self.is_strip else None)
                for _ in range(2 * HALVINGS.index(known / lengthscale) + 1):
                    np.square(found, out=found)
            self._gaussians[lengthscale] = found
        return self._gaussians[lengthscale]

    def strips(self) -> "Iterator[tuple[slice, Rows]]":
        """All rows strip by strip; after the last one the rows know their nearest landmarks."""
        found, (rows, points) = [], self.factors
        for start in range(0, max(len(self.values), 1), STRIP):
            part = slice(start, start + STRIP)
            strip = Rows(self.basis, self.values[part])
            strip.factors, strip.is_strip = (rows[part], points), True
            yield part, strip
            found.append(strip.near)
        nearest, closeness = (np.concatenate(each) for each in zip(*found, strict=True))
        self.near = (nearest, closeness)


class Sample(Rows):
    """Pooled rows that groups are fitted on, and what they say about scales.

    `peaks` are the lengthscales of the local maxima of the predictive score, the best first; at least one.
    `complete` says that these are all rows of the test, so that groups may use what needs all of them.
    """

    def __init__(
        self,
        space: Space,
        names: tuple[str, ...] | None = None,
        *,
        points: int = LANDMARKS,
        complete: bool = True,
    ) -> None:
        super().__init__(self, space.values, np.arange(len(space.values)))
        self.space, self.points, self.complete = space, points, complete
        self.names = names or tuple(f"column {c}" for c in range(space.values.shape[1]))
        self.size = len(space.values)
        self._spectra: dict[float, Spectrum] = {}
        self.categorical, self.penalty = space.categorical, space.penalty
        self.unit = space.spread[~space.categorical]

    @cached_property
    def median(self) -> float:
        """The median distance."""
        return self.space.median()

    @cached_property
    def evidence(self) -> Evidence | None:
        """The predictive score over lengthscales; None where rows say nothing about them."""
        if says_nothing_of_scales(self.space.numeric):
            return None
        return replace(scan_evidence(self.space.numeric), unit=SPREADS, median=self.median)

    @property
    def learned(self) -> tuple[Evidence, ...]:
        """The evidence in the user's units, as a test reports it; empty where there is none."""
        return (in_units(self.evidence, self.space),) if self.evidence else ()

    @cached_property
    def peaks(self) -> tuple[float, ...]:
        """Lengthscales with local maxima of the evidence."""
        if self.evidence is None:
            return (STAND_IN * self.median,)
        return tuple(map(float, self.evidence.peaks[:MAX_PEAKS]))

    @cached_property
    def centre(self) -> Float[np.ndarray, " E"]:
        """Medians of the numeric columns."""
        return np.median(self.values[:, ~self.categorical], axis=0)

    @cached_property
    def rank_scales(self) -> tuple[RankScale, ...]:
        """Of every column; of codes too."""
        return tuple(map(fit_ranks, self.values.T))

    @cached_property
    def level_scales(self) -> tuple[LevelScale | None, ...]:
        """Of columns that hold codes."""
        columns = zip(self.values.T, self.categorical, strict=True)
        return tuple(fit_levels(column) if discrete else None for column, discrete in columns)

    @cached_property
    def rotation(self) -> Float[np.ndarray, "R k"]:
        """From scores to their principal axes."""
        ordered = sorted_rows(self.scores)  # axes of equal length are any rotation: rounding must not decide
        lengths, vectors = principal_axes(ordered)
        long = int((lengths > LEAST_AXIS * lengths[0]).sum()) if lengths[0] > 0.0 else 0
        kept = slice(max(1, min(long, self.size // 4)))
        length = np.where(lengths[kept] > 0.0, lengths[kept], 1.0)
        return vectors[:, kept] / length * np.sqrt(self.size)

    @cached_property
    def axes(self) -> Float[np.ndarray, "N k"]:
        """Positions along the principal axes; those that differ by rounding are tied."""
        return np.round(self.scores @ self.rotation, AXIS_DIGITS)

    @cached_property
    def axis_scales(self) -> tuple[RankScale, ...]:
        """Of every axis."""
        return tuple(fit_ranks(axis, AXIS_DEGREE) for axis in self.axes.T)

    @cached_property
    def landmarks(self) -> Float[np.ndarray, "m E+C"]:
        """Points that stand for the rows."""
        # Between two categories there is nothing, so with discrete columns landmarks must be rows.
        name = "subset" if self.categorical.any() or self.points > LANDMARKS else "support"
        rule = Landmarks(name, max(2, min(self.points, self.size // 4)))
        return place(self.space.rows, rule, np.random.default_rng(0))

    @cached_property
    def nearest_scale(self) -> RankScale:
        """Of the distance to the nearest landmark."""
        return fit_ranks(-2.0 * self.near[1], AXIS_DEGREE)

    @cached_property
    def distances(self) -> Float[np.ndarray, "N N"]:
        """Squared distances of all pairs of rows."""
        return self.space.distances(self.space.rows, self.space.rows)

    def nystroem(self, lengthscale: float) -> Float[np.ndarray, "m r"]:
        """The inverse root of the Gaussian of all pairs of landmarks."""
        between = np.exp(self._landmark_distances / (-2.0 * lengthscale**2))
        values, vectors = np.linalg.eigh(between)
        kept = values > ROUNDING * values[-1]
        return vectors[:, kept] / np.sqrt(values[kept])

    @cached_property
    def _landmark_distances(self) -> Float[np.ndarray, "m m"]:
        return self.space.distances(self.landmarks, self.landmarks)

    def spectrum(self, lengthscale: float) -> Spectrum:
        """Of the Gaussian at the landmarks."""
        if lengthscale not in self._spectra:
            features = self.gaussian(lengthscale)
            mean = features.mean(axis=0)
            centred = features - mean
            # Eigenvectors of the covariance: as good as singular vectors down to ridges of 1e-10.
            eigenvalues, vectors = np.linalg.eigh(centred.T @ centred)
            self._spectra[lengthscale] = Spectrum(self.size, mean, np.maximum(eigenvalues, 0.0), vectors)
        return self._spectra[lengthscale]

    def fitted(self) -> Basis:
        """All that other rows are evaluated by."""
        return Basis(**{each.name: getattr(self, each.name) for each in fields(Basis)})

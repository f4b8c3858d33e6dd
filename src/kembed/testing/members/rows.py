"""What every group of members is told: the pooled rows, the scales in them, and what is computed from both.

Everything here is a function of the pooled, unordered rows; nothing sees a label. Rows that are equal are
treated alike, whatever their places.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import principal_axes
from kembed.core.ordering import sorted_rows
from kembed.embeddings.landmarks import Landmarks, place
from kembed.kernels.space import Space
from kembed.learning.evidence import SPREADS, Evidence, scan_evidence
from kembed.permutation.low_rank import LowRank, Spectrum, feature_spectrum
from kembed.testing.kernel_words import STAND_IN, in_units, says_nothing_of_scales
from kembed.testing.members.polynomials import DEGREE, indicators, rank_polynomials

MAX_PEAKS = 3  # modes of the evidence that are kept
LANDMARKS = 100  # at most; a quarter of the rows if that is fewer, so that Σ can be told from noise
# Principal axes are kept down to this share of the largest, and a quarter of the rows: fewer is noise.
LEAST_AXIS = 1e-3
AXIS_DEGREE = DEGREE // 2  # of the polynomials along an axis
AXIS_DIGITS = 9  # places on an axis that agree to so many digits are tied


@dataclass(frozen=True, eq=False)
class Rows:
    """Pooled rows, and what they say about scales.

    `peaks` are the lengthscales the evidence speaks for, the best first; at least one.
    """

    space: Space
    names: tuple[str, ...]
    median: float
    peaks: tuple[float, ...]
    evidence: Evidence | None
    points: int = LANDMARKS  # landmarks at most
    complete: bool = True  # whether these are all rows of the test

    @property
    def size(self) -> int:
        """How many."""
        return len(self.space.values)

    @cached_property
    def polynomials(self) -> list[Float[np.ndarray, "N degree"]]:
        """Of every column: orthonormal polynomials of its ranks, or indicators of its levels."""
        columns = zip(self.space.values.T, self.space.categorical, strict=True)
        return [indicators(column) if discrete else rank_polynomials(column) for column, discrete in columns]

    @cached_property
    def degrees(self) -> Float[np.ndarray, "N P"]:
        """Column after column, the same."""
        return np.hstack(self.polynomials)

    @cached_property
    def along_axes(self) -> Float[np.ndarray, "N P"]:
        """Polynomials of the ranks along every axis."""
        return np.hstack([rank_polynomials(axis, AXIS_DEGREE) for axis in self.axes.T])

    @cached_property
    def _ranks(self) -> Float[np.ndarray, "N R"]:
        """The ranks of numeric columns, and the levels of the others."""
        kinds = zip(self.polynomials, self.space.categorical, strict=True)
        return np.hstack([every if discrete else every[:, :1] for every, discrete in kinds])

    @cached_property
    def rotation(self) -> Float[np.ndarray, "R k"]:
        """From ranks and levels to their principal axes, of variance 1."""
        ordered = sorted_rows(self._ranks)  # axes of equal length are any rotation: rounding must not decide
        lengths, vectors = principal_axes(ordered)
        long = int((lengths > LEAST_AXIS * lengths[0]).sum()) if lengths[0] > 0.0 else 0
        kept = slice(max(1, min(long, self.size // 4)))
        length = np.where(lengths[kept] > 0.0, lengths[kept], 1.0)
        return vectors[:, kept] / length * np.sqrt(self.size)

    @cached_property
    def axes(self) -> Float[np.ndarray, "N k"]:
        """Principal axes of the ranks (and levels) of all columns, of variance 1, the longest first."""
        return np.round(self._ranks @ self.rotation, AXIS_DIGITS)

    @cached_property
    def landmarks(self) -> Float[np.ndarray, "m E"]:
        """Points that stand for the rows."""
        # Between two categories there is nothing, so with discrete columns landmarks must be rows.
        name = "subset" if self.space.categorical.any() or self.points > LANDMARKS else "support"
        rule = Landmarks(name, max(2, min(self.points, self.size // 4)))
        return place(self.space.rows, rule, np.random.default_rng(0))

    @cached_property
    def to_landmarks(self) -> Float[np.ndarray, "N m"]:
        """Squared distances of the rows from the landmarks."""
        return self.space.distances(self.space.rows, self.landmarks)

    @cached_property
    def between_landmarks(self) -> Float[np.ndarray, "m m"]:
        """Squared distances of the landmarks from each other."""
        return self.space.distances(self.landmarks, self.landmarks)

    def spectrum(self, lengthscale: float) -> Spectrum:
        """Of the features of a Gaussian at the landmarks; computed once."""
        if lengthscale not in self._spectra:
            self._spectra[lengthscale] = feature_spectrum(*self._features(lengthscale))
        return self._spectra[lengthscale]

    @cached_property
    def _spectra(self) -> dict[float, Spectrum]:
        return {}

    def gaussian(self, lengthscale: float) -> Float[np.ndarray, "N m"]:
        """The Gaussian of the distance to every landmark."""
        features = self.to_landmarks / (-2.0 * lengthscale**2)
        return np.exp(features, out=features)

    def _features(self, lengthscale: float) -> tuple[Any, Any]:
        """Features of a Gaussian at the landmarks less their mean, and that."""
        features = self.gaussian(lengthscale)
        mean = features.mean(axis=0)
        features -= mean
        return features, mean

    def embedded(self, lengthscale: float, ridge: float) -> LowRank:
        """Whitened features of a Gaussian at the landmarks; several ridges and groups ask for a scale."""
        if lengthscale not in self._centred:
            centred, mean = self._features(lengthscale)
            self._centred[lengthscale] = centred
            self._spectra[lengthscale] = feature_spectrum(centred, mean)
        return LowRank(self._centred[lengthscale] @ self.spectrum(lengthscale).whitening(ridge))

    @cached_property
    def _centred(self) -> dict[float, Any]:
        return {}


def read_scales(
    space: Space, *, names: tuple[str, ...] | None = None, points: int = LANDMARKS, complete: bool = True
) -> Rows:
    """The rows of a space and the scales in them; `complete` says that these are all rows of the test."""
    told: Any = names or tuple(f"column {c}" for c in range(space.values.shape[1]))
    median = space.median()
    if says_nothing_of_scales(space.numeric):
        return Rows(space, told, median, (STAND_IN * median,), None, points, complete)
    evidence = replace(scan_evidence(space.numeric), unit=SPREADS, median=median)
    peaks = tuple(map(float, evidence.peaks[:MAX_PEAKS]))
    return Rows(space, told, median, peaks, in_units(evidence, space), points, complete)

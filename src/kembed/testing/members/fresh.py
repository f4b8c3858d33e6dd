"""Rows that come later: what `Rows` says of its own, said of any row once fitted on a sample of the pool.

A group of members that speaks of `Fresh` rows is a sum over rows, and works for any number of them.
Everything is fitted on unordered rows of the pool; nothing sees a label.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.buffers import Buffers
from kembed.kernels.space import mismatch
from kembed.permutation.bins import dense
from kembed.permutation.blocks import add_blocks
from kembed.testing.members.polynomials import (
    DEGREE,
    LevelScale,
    RankScale,
    fit_levels,
    fit_ranks,
    polynomials_of,
)
from kembed.testing.members.rows import Rows

Values = Float[np.ndarray, "b D"]
Near = tuple[Int[np.ndarray, " b"], Float[np.ndarray, " b"]]
# Ratios of scales at which a Gaussian is taken as a power of another: each is two squares more, and an error
# of four times as many last places.
HALVINGS = (2.0, 4.0)
FAR = 1e6  # spreads: a row further out is simply far; its square must not drown the distances of the others


@dataclass(frozen=True, eq=False)
class Fitted:
    """Units, ranks, axes and landmarks, as the pooled sample has them: all arrays, so that it travels."""

    categorical: Bool[np.ndarray, " D"]
    centre: Float[np.ndarray, " E"]
    spread: Float[np.ndarray, " E"]
    penalty: Float[np.ndarray, " C"]
    ranks: tuple[RankScale, ...]  # of every column; of codes too
    levels: tuple[LevelScale | None, ...]  # of columns that hold codes
    rotation: Float[np.ndarray, "R k"]
    axes: tuple[RankScale, ...]
    landmarks: Float[np.ndarray, "m E+C"]
    nearest: RankScale  # of the distance to the nearest landmark


class Fresh:
    """Some rows, and what is computed of them; each thing once.

    With `buffers` its large tables last until other rows are computed with the same buffers.
    """

    def __init__(self, fitted: Fitted | None, values: Values, buffers: Buffers | None = None) -> None:
        self.given, self.values = fitted, values
        self.buffers = Buffers() if buffers is None else buffers
        self._gaussians: dict[float, Float[np.ndarray, "b m"]] = {}

    @property
    def fitted(self) -> Fitted:
        """What they are measured by."""
        assert self.given is not None
        return self.given

    @cached_property
    def numeric(self) -> Float[np.ndarray, "b E"]:
        """Numeric columns over their spreads, about their medians; zeros where there are none."""
        fitted = self.fitted
        if fitted.categorical.all():
            return np.zeros((len(self.values), 1))
        scaled = (self.values[:, ~fitted.categorical] - fitted.centre) / fitted.spread
        return np.clip(scaled, -FAR, FAR)

    @cached_property
    def middles(self) -> Float[np.ndarray, "b D"]:
        """Ranks of every column, as shares of the fitted rows."""
        columns = np.ascontiguousarray(self.values.T)
        return _middles(self.fitted.ranks, columns).T

    @cached_property
    def degrees(self) -> Float[np.ndarray, "b P"]:
        """Column after column, the polynomials of its ranks or indicators of its levels."""
        found = polynomials_of(self.fitted.ranks, self.middles.T, self.buffers, "degrees")
        for c, levels in enumerate(self.fitted.levels):
            if levels is not None:
                found[:, DEGREE * c : DEGREE * (c + 1)] = levels(self.values[:, c])
        return found

    @property
    def polynomials(self) -> list[Float[np.ndarray, "b degree"]]:
        """The same for every column."""
        count = self.values.shape[1]
        return [self.degrees[:, DEGREE * c : DEGREE * (c + 1)] for c in range(count)]

    @cached_property
    def axes(self) -> Float[np.ndarray, "b k"]:
        """Places along the principal axes of the ranks."""
        first = np.arange(self.degrees.shape[1]) % DEGREE == 0
        used = first | np.repeat(self.fitted.categorical, DEGREE)
        return self.degrees[:, used] @ self.fitted.rotation

    @cached_property
    def along_axes(self) -> Float[np.ndarray, "b P"]:
        """Polynomials of the ranks along every axis."""
        scales = self.fitted.axes
        ranks = _middles(scales, np.ascontiguousarray(self.axes.T))
        return polynomials_of(scales, ranks, self.buffers, "axes")

    @cached_property
    def placed(self) -> tuple[Float[np.ndarray, "b E+2"], Float[np.ndarray, "E+2 m"]]:
        """Rows and landmarks with their squares beside them, so that one product of both is -d²/2."""
        E = self.numeric.shape[1]
        x, z = self.numeric, self.fitted.landmarks[:, :E]
        rows = np.column_stack([x, -0.5 * np.square(x).sum(axis=1), np.ones(len(x))])
        return rows, np.column_stack([z, np.ones(len(z)), -0.5 * np.square(z).sum(axis=1)]).T

    @cached_property
    def _near(self) -> tuple[Float[np.ndarray, "b m"], Near]:
        """-d²/2 to every landmark, at most 0; which is the nearest, and that of the nearest."""
        rows, points = self.placed
        found = self.buffers.table("closeness", (len(rows), points.shape[1]))
        np.dot(rows, points, out=found)
        if self.fitted.categorical.any():
            codes = self.values[:, self.fitted.categorical]
            found -= 0.5 * mismatch(codes, self.fitted.landmarks[:, len(points) - 2 :], self.fitted.penalty)
        nearest = np.argmax(found, axis=1)
        highest = found[np.arange(len(found)), nearest]
        if highest.max(initial=0.0) > 0.0:  # by rounding; to look for that everywhere costs half an `exp`
            np.minimum(found, 0.0, out=found)
        return found, (nearest, np.minimum(highest, 0.0))

    @property
    def closeness(self) -> Float[np.ndarray, "b m"]:
        """-d²/2 to every landmark, at most 0."""
        return self._near[0]

    @cached_property
    def near(self) -> Near:
        """Which landmark is the nearest, and -d²/2 to that one."""
        return self._near[1]

    @property
    def nearest(self) -> Int[np.ndarray, " b"]:
        """Which landmark is the nearest."""
        return self.near[0]

    @property
    def nearness(self) -> Float[np.ndarray, " b"]:
        """-d²/2 to that one."""
        return self.near[1]

    def gaussian(self, lengthscale: float) -> Float[np.ndarray, "b m"]:
        """The Gaussian of the distance to every landmark.

        At half the scale of one that is there it is that to the fourth power: two products for an `exp`.
        """
        if lengthscale not in self._gaussians:
            self._gaussians[lengthscale] = self._gaussian(lengthscale)
        return self._gaussians[lengthscale]

    def _gaussian(self, lengthscale: float) -> Float[np.ndarray, "b m"]:
        for known in sorted(self._gaussians):
            ratio = known / lengthscale
            if ratio in HALVINGS:
                wider = self._gaussians[known]
                found = self._room(lengthscale, known)
                np.square(wider, out=found)
                for _ in range(2 * HALVINGS.index(ratio) + 1):
                    np.square(found, out=found)
                return found
        found = self.buffers.table(lengthscale, self.closeness.shape)
        np.multiply(self.closeness, 1.0 / lengthscale**2, out=found)
        return np.exp(found, out=found)

    def _room(self, lengthscale: float, wider: float) -> Float[np.ndarray, "b m"]:
        """Where a power of a wider Gaussian goes."""
        return self.buffers.table(lengthscale, self._gaussians[wider].shape)


def fit(rows: Rows) -> Fitted:
    """Everything that fresh rows are measured by."""
    space, columns = rows.space, rows.space.values.T
    numeric = space.values[:, ~space.categorical]
    points = rows.landmarks
    kinds = space.categorical
    return Fitted(
        kinds,
        np.median(numeric, axis=0),
        space.spread[~kinds],
        space.penalty,
        tuple(map(fit_ranks, columns)),
        tuple(fit_levels(column) if kind else None for column, kind in zip(columns, kinds, strict=True)),
        rows.rotation,
        tuple(fit_ranks(axis, DEGREE // 2) for axis in rows.axes.T),
        points,
        fit_ranks(rows.to_landmarks.min(axis=1), DEGREE // 2),
    )


def _middles(scales: tuple[RankScale, ...], columns: Float[np.ndarray, "D b"]) -> Float[np.ndarray, "D b"]:
    """The ranks of several columns, each of which is a row."""
    found = np.empty(columns.shape)
    for ranks, column, scale in zip(found, columns, scales, strict=True):
        ranks[:] = scale.middles(column)
    return found


class Diagonal(ABC):
    """K(x, x) of a kernel, as a feature: a row that weighs w counts w² there."""

    @abstractmethod
    def __call__(self, rows: Fresh) -> Float[np.ndarray, "b 1"]:
        """Of these rows."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """Kernels of the features of a row, K = F L Lᵀ Fᵀ: one for every block of `width` columns and every cut.

    `features` is a picklable function of `Fresh` rows; equal ones are computed once. Of a bin or a sample
    only the sum of its features need be known.
    """

    features: Callable[[Fresh], Any]  # (b, p); may be sparse
    width: int
    cuts: tuple[int, ...]
    linear: Any = None  # L, (p, P); None: the features as they are
    diagonal: Callable[[Fresh], Any] | None = None  # `Diagonal`, where the unbiased statistic is wanted

    @property
    def maps(self) -> tuple[Callable[[Fresh], Any], ...]:
        """What must be summed."""
        return (self.features,) if self.diagonal is None else (self.features, self.diagonal)

    def of(self, rows: Any) -> Float[np.ndarray, "b P"]:
        """F L of these rows, written out."""
        found = self.features(rows)
        return dense(found if self.linear is None else found @ self.linear)

    def added(self, squares: Float[np.ndarray, "P C"]) -> Float[np.ndarray, "J C"]:
        """What belongs to the features of a kernel, added up."""
        return add_blocks(squares, self.width, self.cuts)

    def projected(self, sums: Any) -> Any:
        """Lᵀ of the sums of features, (P, C)."""
        return sums if self.linear is None else self.linear.T @ sums

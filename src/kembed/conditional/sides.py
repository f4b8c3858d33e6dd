"""The sides of conditional tests within one table, each computed once, and how two of them are compared.

A side is a target with a set of variables taken out of it. A search for a causal graph asks for the same side
against many others, so sides and conditioners are kept.

Features a(x) and b(y) are centred given z. Under conditional independence every product a_k(x_i) b_l(y_i) has
mean zero given z, and so has its product with any feature of z. The statistic ‖Σ_i a(x_i) ⊗ b(y_i)‖²/n² is
compared with ‖Σ_i ε_i a(x_i) ⊗ b(y_i)‖²/n² for independent ε_i of mean 0 and variance 1 (the wild bootstrap):
unlike a permutation this keeps every row's own size, which may depend on z.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from kembed.conditional import bases, conditioning
from kembed.conditional.cache import LARGE_ROOM, ROOM, Shelf
from kembed.conditional.conditioning import ColumnRegression, Conditioner, Variable, VariableResiduals
from kembed.conditional.products import (
    NEGLIGIBLE,
    Multipliers,
    bin_sums,
    cross_norms,
    products,
    squared_norms,
)
from kembed.conditional.smoothing import nystroem
from kembed.conditional.trees import LEAST_ROWS, ForestResiduals, forest_residuals
from kembed.core.backend import Bool, Float, Int, to_numpy
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import Space, make_space
from kembed.learning.evidence import COARSE
from kembed.permutation.crossings import Places, bin_rows, crossings
from kembed.permutation.fusion import Values
from kembed.permutation.series import LONGEST, crossed, lack
from kembed.testing import kernel_words
from kembed.testing.kernel_words import KernelRule

Found = tuple[Values, tuple[Any, ...]]  # the statistics of every kernel, and their kernels
# Rows beyond which products of features are summed by bin, and bins get the signs: a test costs one sweep.
# `benchmarks/independence_size.py` has the level and the power with this forced on few rows.
BINNED_ROWS = 5_000
# Rows beyond which regressions share a basis (`bases`), and how many of them choose the kernel of what is
# left: a scan looks at few rows anyway, and sorting all would cost more than it.
MANY_ROWS, CHOOSING = 20_000, 4_000
# Hundreds of kernels are chosen in a search, by scans; a lengthscale for every column has none.
WORDS = tuple(word for word in kernel_words.WORDS if word != "ard")
LANDMARKS = 60  # of the residual kernel: a smooth kernel on one column has fewer features that count
LINEAR = "linear"  # residuals as their own features, in "fused": the partial correlation of what is left
FUSED_RATIOS = (4.0, 0.25)  # times the median distance: what "fused" sees beside the evidence's own scale


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """A kernel's leading centred features at the residuals, largest first."""

    kernel: Kernel | str
    values: Float[np.ndarray, "n r"]
    freedom: float = 0.0  # degrees of freedom spent on what they are given

    @property
    def roughness(self) -> float:
        """How many features count: (Σ v)²/Σ v² of their variances v."""
        sizes = np.square(self.values).mean(axis=0, dtype=float)
        return float(sizes.sum() ** 2 / max((sizes**2).sum(), 1e-300))


def check(kernel: Any, argument: str = "kernel") -> tuple[Any, ...]:
    """The kernels asked for, as a tuple of words and kernel objects.

    Words mean what they mean everywhere (`testing.kernel_words`), about residual columns, which have unit
    variance: lengthscales are in standard deviations.
    """
    kernel = kernel_words.unwrapped(kernel)
    if isinstance(kernel, list | tuple):
        if not kernel:
            raise ValueError(f"{argument} is an empty list; give at least one kernel")
        return tuple(part for one in kernel for part in check(one, argument))
    if isinstance(kernel, str) and kernel == "fused":
        return ("bkl", *(("median", ratio) for ratio in FUSED_RATIOS), LINEAR)
    if (isinstance(kernel, str) and kernel in WORDS) or isinstance(kernel, Kernel | KernelRule):
        return (kernel,)
    words = ", ".join(repr(word) for word in WORDS)
    raise (ValueError if isinstance(kernel, str) else TypeError)(
        f"{argument} must be one of {words}, a kernel object such as kembed.Gaussian(1.0) (in standard "
        f"deviations of the residuals) or a list of these, but {kernel!r} was given"
    )


def kernels_features(
    columns: Float[np.ndarray, "n k"],
    indicator: Bool[np.ndarray, " k"],
    kernels: Sequence[Any],
    *,
    many: bool = False,
) -> list[KernelFeatures]:
    """The features of kernels that `check` has let through.

    Of `many` rows the first choose the kernel, and features of one column are read off a table.

    Indicators are their own features, whatever the kernel: what z says about a category is its probability
    alone, and a kernel on what is left of a 0 or a 1 would read that probability back.
    """
    if indicator.all():
        names = [LINEAR if _is_linear(kernel) else "categories" for kernel in kernels]
        return [KernelFeatures(name, columns - columns.mean(axis=0)) for name in names]
    chosen_by = columns[:CHOOSING] if many else columns
    space = make_space(chosen_by, np.zeros(columns.shape[1], dtype=bool))
    return [_kernel_features(columns, chosen_by, space, kernel, many) for kernel in kernels]


def _is_linear(kernel: Any) -> bool:
    return isinstance(kernel, str) and kernel == LINEAR


def _kernel_features(
    columns: Float[np.ndarray, "n k"],
    chosen_by: Float[np.ndarray, "c k"],
    space: Space,
    kernel: Any,
    many: bool,
) -> KernelFeatures:
    """Of one kernel."""
    if _is_linear(kernel):
        return KernelFeatures(LINEAR, columns - columns.mean(axis=0))
    if isinstance(kernel, tuple):
        kernel = space_kernel(space, kernel[1] * space.median())
    kernel = to_numpy(kernel_words.choose_kernel(kernel, space, effort=COARSE)[0])
    if columns.shape[1] > 1:  # rows come in an order that says nothing
        marks = np.unique(columns[: 2 * LANDMARKS], axis=0)
    else:
        marks = conditioning.spaced(chosen_by[:, 0], LANDMARKS)[:, None]
        if many:
            table = partial(_at_landmarks, kernel, marks)
            return KernelFeatures(kernel, bases.column_features(columns[:, 0], table, NEGLIGIBLE))
    values, vectors = conditioning.leading_features(columns, marks, kernel.gram)
    return KernelFeatures(kernel, vectors * np.sqrt(values))


def _at_landmarks(kernel: Kernel, marks: Any, points: Any) -> Float[np.ndarray, "g r"]:
    """Features of points whose products are K_gm K_mm⁻¹ K_mg."""
    return nystroem(points, marks, kernel.gram).T


@dataclass(frozen=True, eq=False)
class Side:
    """A target with its conditioning set taken out."""

    residuals: Float[np.ndarray, "n k"]  # unit variance; no columns where nothing is left
    features: tuple[KernelFeatures, ...]  # of every kernel, centred given the conditioning set
    regressions: tuple[ColumnRegression, ...]


@dataclass(frozen=True)
class Settings:
    """How sides are made and compared."""

    kernels: tuple[Any, ...]  # as `check` gives them
    n_resamples: int = 999
    memory: float | None = None
    seed: int = 0
    cross_fit: bool = True
    binned_rows: int = BINNED_ROWS
    many_rows: int = MANY_ROWS
    room: int = LARGE_ROOM  # bytes of one kind of kept thing, where rows are many
    scale: bool = True  # off in `benchmarks/conditional.py` alone, to show what it buys


class Sides:
    """All sides of the variables of one table; rows in an order that says nothing."""

    def __init__(self, variables: Sequence[Variable], settings: Settings) -> None:
        self.variables = tuple(variables)
        self.settings = settings
        self.n = len(variables[0].columns)
        # Numbers a row: residual features; bases of eigenvectors and features to weight by; a column or two.
        few, many, room = (25, 130 if self.many else 60, settings.room) if self.binned else (60, 1_000, ROOM)
        self._sides: Shelf[Side] = Shelf(few * self.n, room)
        self._conditioners: Shelf[Conditioner] = Shelf(many * self.n, room)
        self._residuals: Shelf[VariableResiduals] = Shelf(4 * self.n, room)
        self._columns: Shelf[Any] = Shelf(12 * self.n, room)
        self._forests: Shelf[ForestResiduals] = Shelf(many * self.n, room)

    @property
    def binned(self) -> bool:
        """Whether rows are so many that bins of them move, and get signs, together."""
        return self.n > self.settings.binned_rows

    @property
    def many(self) -> bool:
        """Whether rows are so many that regressions share a basis."""
        return self.n > self.settings.many_rows

    @cached_property
    def places(self) -> Places:
        """Rows by place and bin."""
        return bin_rows(self.n, self.settings.seed)

    @property
    def nbytes(self) -> int:
        """About how much is kept."""
        shelves = (self._sides, self._conditioners, self._residuals, self._columns, self._forests)
        return sum(shelf.nbytes for shelf in shelves)

    @property
    def n_regressed(self) -> int:
        """How many targets with a conditioning set taken out are kept, whatever the kernels."""
        return len(self._residuals)

    def with_kernels(self, kernels: tuple[Any, ...]) -> "Sides":
        """The same regressions under other kernels."""
        other = Sides(self.variables, replace(self.settings, kernels=kernels))
        other._conditioners, other._residuals = self._conditioners, self._residuals
        other._columns, other._forests = self._columns, self._forests
        return other

    @property
    def _fit(self) -> dict[str, Any]:
        return {"cross_fit": self.settings.cross_fit, "scale": self.settings.scale}

    def conditioner(self, given: tuple[int, ...]) -> Conditioner:
        """What conditioning on these variables means."""
        return self._conditioners.get(given, lambda: self._conditioner(given))

    def _conditioner(self, given: tuple[int, ...]) -> Conditioner:
        Z = np.column_stack([self.variables[v].columns for v in given])
        if not (self.many and 0 < Z.shape[1] <= bases.WIDEST):
            return Conditioner(Z)
        places = [(v, c) for v in given for c in range(self.variables[v].columns.shape[1])]
        return bases.SharedConditioner(Z, tuple(self._column(*place) for place in places))

    def _column(self, v: int, c: int) -> Any:
        """The features of one column as part of a basis."""
        make = partial(bases.gaussian_features, self.variables[v].columns[:, c], bases.SINGLE)
        return self._columns.get((v, c), make)

    def side(self, target: int, given: tuple[int, ...]) -> Side:
        """The target with these variables taken out."""
        return self._sides.get((target, given), lambda: self._side(target, given))

    def _side(self, target: int, given: tuple[int, ...]) -> Side:
        how, variable = self.settings, self.variables[target]
        if not given or not self.conditioner(given).Z.shape[1]:  # nothing, or only constants
            columns = variable.columns
            kernels = how.kernels if columns.shape[1] else ()
            found = kernels_features(columns, variable.indicator, kernels, many=self.many)
            return Side(columns, tuple(found), ())
        return self._centred(self._left(target, given), self.conditioner(given))

    def _left(self, target: int, given: tuple[int, ...]) -> VariableResiduals:
        parts = (self.variables[target], self.conditioner(given))
        make = partial(conditioning.variable_residuals, *parts, **self._fit)
        return self._residuals.get((target, given), make)

    def forest_side(self, target: int, given: tuple[int, ...]) -> Side:
        """The target regressed with a forest too, on the rows where its trees agree."""
        smooth = self.side(target, given)
        if self.many or self.n < LEAST_ROWS or not smooth.regressions or not smooth.features:
            return smooth
        return self._sides.get((target, given, "forest"), lambda: self._forest_side(target, given))

    def _forest_side(self, target: int, given: tuple[int, ...]) -> Side:
        parts = (self.variables[target], self.conditioner(given), self._left(target, given))
        found = self._forests.get((target, given), partial(forest_residuals, *parts, **self._fit))
        side = self._centred(found.residuals, self.conditioner(given))
        rows = found.rows[:, None]
        return replace(side, features=tuple(replace(one, values=one.values * rows) for one in side.features))

    def _centred(self, left: VariableResiduals, conditioner: Conditioner) -> Side:
        """Features of residuals, centred given the conditioner."""
        spent = float(np.mean([column.freedom for column in left.regressions])) if left.regressions else 0.0
        features = []
        kernels = self.settings.kernels if left.columns.shape[1] else ()
        indices = conditioner.index_bases(left.indices)
        for one in kernels_features(left.columns, left.indicator, kernels, many=self.many):
            values, more = conditioner.centred(one.values, indices)
            features.append(KernelFeatures(one.kernel, values, spent + more))
        return Side(left.columns, tuple(features), left.regressions)

    def statistics(
        self,
        left: Side,
        right: Side,
        given: tuple[int, ...],
        E: Multipliers,
        when: Int[np.ndarray, " n"] | None = None,
    ) -> Found:
        """HSIC of every kernel, alone and weighted by features of what is given, under the multipliers E.

        The smoothest kernel is weighted at every scale of what is given, the next one at the first: with a
        rough one there are more products than rows could tell apart.

        Regressions that spend d of n degrees of freedom tie the rows' residuals together: if these are Pa and
        Pb, P a projection, Σ a_i b_i has variance n - d where multipliers see Σ a_i² b_i² ≈ n (1 - d/n)²,
        too little by 1 + d/n. What is resampled is stretched by that, d the geometric mean of both sides'.
        With `memory`, of rows that `when` puts in order of time, also by what multipliers that forget lack.
        """
        found: list[tuple[Any, np.ndarray]] = []
        pairs = list(zip(left.features, right.features, strict=True))
        weights = self.conditioner(given).weights if given else ()
        bent = [k for k, pair in enumerate(pairs) if not _is_linear(pair[0].kernel)]
        smoothest = sorted(bent, key=lambda k: pairs[k][0].roughness * pairs[k][1].roughness)
        weighting = dict(zip(smoothest, (weights, weights[:1]), strict=False))
        binned = self.binned and self.settings.memory is None
        for place, (first, second) in enumerate(pairs):
            stretch = np.ones(E.count + 1)
            stretch[1:] += np.sqrt(first.freedom * second.freedom) / self.n
            if when is not None and self.settings.memory is not None:
                how = crossed(first.values[when], second.values[when])
                stretch[1:] *= lack(self.n, min(self.settings.memory, LONGEST * self.n), how).factor
            pair = (first.kernel, second.kernel)
            own = weighting.get(place, ())
            if binned:
                sums = bin_sums(first.values, second.values, own)
            else:
                C = products(first.values.T, second.values.T)
                sums = [C, *(products(C, weight.T) for weight in own)]
            norms = [squared_norms(each, E, self.n) for each in sums]
            titles = [pair] + [(*pair, "given")] * (len(norms) - 1)
            found += [(title, each * stretch) for title, each in zip(titles, norms, strict=True)]
        return _together(found)

    def permuted(self, left: Side, right: Side, orders: np.ndarray) -> Found:
        """HSIC of every kernel when nothing is given, for the data and under every order of the rows."""
        pairs = list(zip(left.features, right.features, strict=True))
        if self.binned:  # orders of bins
            totals = []
            for first, second in pairs:
                parts = crossings(first.values, second.values, self.places, orders)
                totals.append(np.sum([np.square(part).sum(axis=(1, 2)) for _, part in parts], axis=0))
        else:
            totals = cross_norms([(first.values, second.values) for first, second in pairs], orders)
        names = [(first.kernel, second.kernel) for first, second in pairs]
        return _together([(name, total / self.n**2) for name, total in zip(names, totals, strict=True)])


def _together(found: list[tuple[Any, np.ndarray]]) -> Found:
    values = np.column_stack([one for _, one in found])
    return Values(values, np.abs(values).max(axis=0)).settled(False), tuple(name for name, _ in found)

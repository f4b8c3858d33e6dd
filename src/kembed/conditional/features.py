"""Features of residuals, centred given the conditioning set, and the statistics of two targets.

Features a(x) and b(y) are centred given z. Under conditional independence every product a_k(x_i) b_l(y_i) has
mean zero given z, and so has its product with any feature of z. The statistic ‖Σ_i a(x_i) ⊗ b(y_i)‖²/n² is
compared with ‖Σ_i ε_i a(x_i) ⊗ b(y_i)‖²/n² for independent ε_i of mean 0 and variance 1 (the wild bootstrap).
Unlike a permutation this keeps the size of every row, which may depend on z. The largest products suffice,
and of many rows their sums over bins, each of which has one sign.

A search for a causal graph needs the same target and conditioning set in many tests, so all are cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.conditional.cache import Cache
from kembed.conditional.regression import (
    MANY_ROWS,
    MANY_WIDEST,
    Conditioner,
    kernel_basis,
    quantile_landmarks,
)
from kembed.conditional.residuals import ColumnRegression, Variable, VariableResiduals, variable_residuals
from kembed.conditional.trees import LEAST_ROWS, forest_residuals
from kembed.core.backend import Bool, Float, Int, to_numpy
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import make_space
from kembed.learning import kernel_words
from kembed.learning.evidence import COARSE
from kembed.learning.kernel_words import PublishedRule
from kembed.permutation.crossings import BinOrders
from kembed.permutation.fusion import Values, negative_log_p
from kembed.permutation.rings import Star
from kembed.permutation.series import LONGEST, crossed, lack

Given = tuple[int, ...]
Statistics = tuple[Values, tuple[Any, ...]]  # of every kernel, and the names of these
# Rows beyond which products of features are summed by bin, and bins get the signs: a test costs one sweep.
# `benchmarks/independence_size.py` has the level and the power with this forced on few rows.
BINNED_ROWS, BINS = 5_000, 512
CHOOSING_ROWS = 4_000  # of many rows, those that choose the kernel of the residuals
# Results in the cache, times rows: few rows, and many. A search for a graph of 20 variables needs each of 20
# conditioning sets repeatedly, some three gigabytes with 100,000 rows (`benchmarks/pc_size.py`).
ROOM, LARGE_ROOM, LEAST_KEPT = 300_000, 9_000_000, 12
CHUNK = 1_024  # rows whose products are held at once: what a cache holds
# Products of features below this share of the largest are left out, and never more than so many are kept:
# what is dropped adds under 2% to the statistic (`test_products_drop_only_what_is_negligible`).
NEGLIGIBLE, MOST = 1e-3, 150
SCREENING_ROWS = 8_192  # tested first of many: a test of them takes some hundredths of a second
SCREENED = 20.0  # -log δ, δ = 2e-9, by the law of 999 resamples
# Hundreds of kernels are chosen in a search, by scans; a lengthscale for every column has none.
WORDS = tuple(word for word in kernel_words.WORDS if word != "ard")
LANDMARKS = 60  # of the residual kernel: a smooth kernel on one column has fewer features that count
LINEAR = "linear"  # residuals as their own features, in "fused": the partial correlation of residuals
FUSED_RATIOS = (4.0, 0.25)  # times the median distance, in "fused" beside the scale of largest evidence


def random_signs(n: int, count: int, rng: np.random.Generator) -> Float[np.ndarray, "n B"]:
    """So many draws of a sign for every row."""
    return rng.integers(2, size=(n, count), dtype=np.int8) * np.float32(2.0) - np.float32(1.0)


def _largest(one: Float[np.ndarray, " p"], other: Float[np.ndarray, " q"]) -> tuple[Any, Any]:
    """Which features have the largest products, by their mean squares."""
    sizes = np.multiply.outer(one, other)
    order = np.argsort(-sizes, axis=None, kind="stable")[:MOST]
    order = order[sizes.ravel()[order] >= NEGLIGIBLE * sizes.max(initial=0.0)]
    return np.unravel_index(order, sizes.shape)


def products(
    one: Float[np.ndarray, "n p"],
    other: Float[np.ndarray, "n q"],
    weights: Sequence[Float[np.ndarray, "n w"]] = (),
    rows: int = 1,
) -> list[Float[np.ndarray, "k S"]]:
    """The largest products of a feature of each side, and the largest of these times every weight.

    They are summed over bins of so many consecutive rows, whose order says nothing; rows that do not fill
    `BINS` bins are one bin more.
    """
    n = len(one)
    squares = [np.square(side).mean(axis=0, dtype=float) for side in (one, other)]
    first, second = _largest(*squares)
    sizes = (np.square(one).T @ np.square(other))[first, second]
    chosen = [_largest(sizes, np.square(weight).mean(axis=0, dtype=float)) for weight in weights]
    starts = np.arange(n) if rows == 1 else np.arange(BINS + 1) * rows
    starts = starts[starts < n]
    at_once = max(1, CHUNK // rows)
    sums: list[list[np.ndarray]] = [[] for _ in range(len(weights) + 1)]
    for k in range(0, len(starts), at_once):
        own = starts[k : k + at_once]
        some = slice(own[0], starts[k + at_once] if k + at_once < len(starts) else n)
        C = one[some][:, first] * other[some][:, second]
        tables = [C]
        for weight, (mine, its) in zip(weights, chosen, strict=True):
            tables.append(C[:, mine] * weight[some][:, its])
        for kept, table in zip(sums, tables, strict=True):
            kept.append(np.add.reduceat(table, own - own[0], axis=0, dtype=float))
    return [np.concatenate(each).T for each in sums]


def squared_norms(
    C: Float[np.ndarray, "p m"], E: Float[np.ndarray, "m B"], n: int
) -> Float[np.ndarray, " B+1"]:
    """‖Σ_i c_i‖²/n², first as it is, then with the rows (or sums of bins) multiplied by every column of E."""
    size = float(np.abs(C).max(initial=0.0)) or 1.0
    own = np.square(C.sum(axis=1) / size).sum(keepdims=True)
    resampled = (C / size).astype(E.dtype) @ E[: C.shape[1]]
    norms = np.einsum("pb,pb->b", resampled, resampled)
    return np.asarray(np.concatenate([own, norms]) * np.square(size / n))


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """Leading centred features of a kernel at the residuals, largest first."""

    kernel: Kernel | str
    values: Float[np.ndarray, "n r"]
    freedom: float = 0.0  # degrees of freedom of the regressions behind them

    @property
    def roughness(self) -> float:
        """The effective number of features: (Σ v)²/Σ v² of their variances v."""
        sizes = np.square(self.values).mean(axis=0, dtype=float)
        return float(sizes.sum() ** 2 / max((sizes**2).sum(), 1e-300))


def check_kernels(kernel: Any, argument: str = "kernel") -> tuple[Any, ...]:
    """Check `kernel=`, and return a tuple of words and kernel objects.

    Words have their usual meaning (`testing.kernel_words`) for residual columns, which have unit variance.
    """
    kernel = kernel_words.unwrapped(kernel)
    if isinstance(kernel, list | tuple):
        if not kernel:
            raise ValueError(f"{argument} is an empty list; give at least one kernel")
        return tuple(part for one in kernel for part in check_kernels(one, argument))
    if isinstance(kernel, str) and kernel == "fused":
        return ("bkl", *(("median", ratio) for ratio in FUSED_RATIOS), LINEAR)
    if (isinstance(kernel, str) and kernel in WORDS) or isinstance(kernel, Kernel | PublishedRule):
        return (kernel,)
    words = ", ".join(repr(word) for word in WORDS)
    raise (ValueError if isinstance(kernel, str) else TypeError)(
        f"{argument} must be one of {words}, a kernel object such as kembed.Gaussian(1.0) (in standard "
        f"deviations of the residuals) or a list of these, but {kernel!r} was given"
    )


def kernels_features(
    columns: Float[np.ndarray, "n k"], indicator: Bool[np.ndarray, " k"], kernels: Sequence[Any]
) -> list[KernelFeatures]:
    """Features of kernels from `check_kernels`; of many rows the first choose the kernel.

    Indicators are their own features, whatever the kernel: z determines only the probability of a category,
    and a kernel on the residual of a 0 or a 1 would recover that probability.
    """
    linear = columns - columns.mean(axis=0)
    space = make_space(columns[:CHOOSING_ROWS], np.zeros(columns.shape[1], dtype=bool))
    if columns.shape[1] == 1:
        marks = quantile_landmarks(columns[:CHOOSING_ROWS, 0], LANDMARKS)
    else:  # rows are in random order
        marks = np.unique(columns[: 2 * LANDMARKS], axis=0)
    found = []
    for kernel in kernels:
        if kernel == LINEAR or indicator.all():
            found.append(KernelFeatures(LINEAR if kernel == LINEAR else "categories", linear))
            continue
        if isinstance(kernel, tuple):
            kernel = space_kernel(space, kernel[1] * space.median())
        kernel = to_numpy(kernel_words.choose_kernel(kernel, space, effort=COARSE)[0])
        found.append(KernelFeatures(kernel, kernel_basis(columns, marks, kernel.gram).features))
    return found


@dataclass(frozen=True, eq=False)
class TargetFeatures:
    """Residuals of a target given a conditioning set, and their features."""

    residuals: Float[np.ndarray, "n k"]  # unit variance; no columns where nothing is left
    features: tuple[KernelFeatures, ...]  # of every kernel, centred given the conditioning set
    regressions: tuple[ColumnRegression, ...]


@dataclass(frozen=True)
class Settings:
    """Options of the features and their comparison."""

    kernels: tuple[Any, ...]  # from `check_kernels`
    n_resamples: int = 999
    dependence_length: float | None = None
    seed: int = 0
    binned_rows: int = BINNED_ROWS
    many_rows: int = MANY_ROWS


class TableFeatures:
    """Features of all variables of one table, rows in random order, given any others."""

    def __init__(self, variables: Sequence[Variable], settings: Settings, cache: Cache | None = None) -> None:
        self.variables = tuple(variables)
        self.settings = settings
        self.n = len(variables[0].columns)
        self.cache = cache or Cache(max(LEAST_KEPT, (LARGE_ROOM if self.binned else ROOM) // self.n))
        self._kernels = object()  # a key: kernels that share the cache have features of their own

    @property
    def binned(self) -> bool:
        """Whether bins of rows, not single rows, are permuted and get signs."""
        return self.n > self.settings.binned_rows

    @property
    def many(self) -> bool:
        """Whether regressions share a basis."""
        return self.n > self.settings.many_rows

    def conditioner(self, given: Given) -> Conditioner:
        """Regressions on these variables."""

        def make() -> Conditioner:
            Z = np.column_stack([self.variables[v].columns for v in given])
            return Conditioner(Z, self.many and 0 < Z.shape[1] <= MANY_WIDEST)

        return self.cache.result(("conditioner", given), make)

    def weights(self, given: Given) -> tuple[Float[np.ndarray, "n q"], ...]:
        """Features of these variables, for interactions with them."""
        return self.conditioner(given).weights if given else ()

    def target(self, target: int, given: Given, *, trees: bool = False) -> TargetFeatures:
        """Features of a variable given others, on request with trees in the regressions if they have any."""
        trees = trees and self.has_trees(target, given)
        key = ("features", self._kernels, trees, target, given)
        return self.cache.result(key, lambda: self._target(target, given, trees))

    def has_trees(self, target: int, given: Given) -> bool:
        """Whether trees may improve these regressions."""
        smooth = self.target(target, given)
        return not self.many and self.n >= LEAST_ROWS and bool(smooth.regressions and smooth.features)

    def _target(self, target: int, given: Given, trees: bool) -> TargetFeatures:
        variable = self.variables[target]
        if not given or not self.conditioner(given).Z.shape[1]:  # nothing, or only constants
            kernels = self.settings.kernels if variable.columns.shape[1] else ()
            features = kernels_features(variable.columns, variable.indicator, kernels)
            return TargetFeatures(variable.columns, tuple(features), ())
        conditioner = self.conditioner(given)
        smooth: VariableResiduals = self.cache.result(
            ("residuals", target, given), lambda: variable_residuals(variable, conditioner)
        )
        left = smooth
        if trees:
            key = ("forest", target, given)
            left = self.cache.result(key, lambda: forest_residuals(variable, conditioner, smooth))
        spent = float(np.mean([column.freedom for column in left.regressions])) if left.regressions else 0.0
        features = []
        kernels = self.settings.kernels if left.columns.shape[1] else ()
        indices = conditioner.index_bases(left.indices)
        for one in kernels_features(left.columns, left.indicator, kernels):
            values, more = conditioner.centred(one.values, indices)
            values = values if left.tested is None else values * left.tested[:, None]
            features.append(KernelFeatures(one.kernel, values, spent + more))
        return TargetFeatures(left.columns, tuple(features), left.regressions)

    def statistics(
        self,
        left: TargetFeatures,
        right: TargetFeatures,
        given: Given,
        E: Float[np.ndarray, "m B"],
        when: Int[np.ndarray, " n"] | None = None,
    ) -> Statistics:
        """HSIC of every kernel, alone and weighted by features of `given`, under the multipliers E.

        The smoothest kernel is weighted at every scale of `given`, the next one at the first: a rough one has
        more products than the rows can distinguish.

        Regressions with d of n degrees of freedom make residuals dependent between rows: if these are Pa and
        Pb, P a projection, Σ a_i b_i has variance n - d, but multipliers have Σ a_i² b_i² ≈ n (1 - d/n)²,
        too little by 1 + d/n. Resampled statistics are multiplied by that, d the geometric mean over both
        targets. With
        `dependence_length`, of rows that `when` puts in order of time, also by what multipliers lack.
        """
        pairs = list(zip(left.features, right.features, strict=True))
        weights = self.weights(given)
        curved = [k for k, pair in enumerate(pairs) if pair[0].kernel != LINEAR]
        smoothest = sorted(curved, key=lambda k: pairs[k][0].roughness * pairs[k][1].roughness)
        weighted = dict(zip(smoothest, (weights, weights[:1]), strict=False))
        dependence_length, table = self.settings.dependence_length, []
        for k, (first, second) in enumerate(pairs):
            stretch = np.ones(E.shape[1] + 1)
            stretch[1:] += np.sqrt(first.freedom * second.freedom) / self.n
            if when is not None and dependence_length is not None:
                persistence = crossed(first.values[when], second.values[when])
                stretch[1:] *= lack(self.n, min(dependence_length, LONGEST * self.n), persistence).factor
            rows = self.n // BINS if self.binned and dependence_length is None else 1
            sums = products(first.values, second.values, weighted.get(k, ()), rows)
            name = (first.kernel, second.kernel)
            names = [name] + [(*name, "given")] * (len(sums) - 1)
            table += [
                (one, squared_norms(C, E, self.n) * stretch) for one, C in zip(names, sums, strict=True)
            ]
        return _as_statistics(table)

    def permuted(self, left: TargetFeatures, right: TargetFeatures, pairings: Star | BinOrders) -> Statistics:
        """HSIC of every kernel with nothing given, for the data and every pairing of rows, or of bins."""
        table = []
        for first, second in zip(left.features, right.features, strict=True):
            parts = pairings.products(first.values, second.values)
            norms: Any = sum(np.square(cross).sum(axis=(0, 1)) for _, cross in parts)
            table.append(((first.kernel, second.kernel), norms / self.n**2))
        return _as_statistics(table)


def _as_statistics(table: list[tuple[Any, np.ndarray]]) -> Statistics:
    values = np.column_stack([column for _, column in table])
    return Values(values, np.abs(values).max(axis=0)).merged(False), tuple(name for name, _ in table)


class RowFeatures(TableFeatures):
    """Features of some rows, from the regressions of all rows: a bootstrap of a graph needs no others.

    Residuals of all rows, each predicted by the others, are better than those of a subset.
    """

    def __init__(self, whole: TableFeatures, rows: Int[np.ndarray, " r"], settings: Settings) -> None:
        super().__init__([Variable(v.columns[rows], v.indicator) for v in whole.variables], settings)
        self._whole, self._rows = whole, rows

    def weights(self, given: Given) -> tuple[Float[np.ndarray, "n q"], ...]:
        """Features of all rows, at these."""
        parts = (weight[self._rows] for weight in self._whole.weights(given))
        return self.cache.result(("weights", given), lambda: tuple(parts))

    def has_trees(self, target: int, given: Given) -> bool:
        """Whether all rows have trees."""
        return self._whole.has_trees(target, given)

    def _target(self, target: int, given: Given, trees: bool) -> TargetFeatures:
        whole = self._whole.target(target, given, trees=trees)
        features = []
        for one in whole.features:
            values = one.values[self._rows]
            tested = values.any(axis=1, keepdims=True)  # trees leave rows out
            values = values - tested * (values.sum(axis=0) / max(1, np.count_nonzero(tested)))
            # A share of the rows has lost the same share of degrees of freedom.
            features.append(replace(one, values=values, freedom=one.freedom * self.n / self._whole.n))
        return replace(whole, residuals=whole.residuals[self._rows], features=tuple(features))


class Screening:
    """Tests of the first rows of many, which stand in random order.

    Most tests in a search for a graph are of variables with an obvious dependence. If few rows reject at a
    level δ, and all rows are tested at α where they do not, the level of both is at most α + δ.
    """

    def __init__(self, table: TableFeatures) -> None:
        variables = []
        for one in table.variables:
            columns = one.columns[:SCREENING_ROWS]
            varies = (columns != columns[0]).any(axis=0)
            variables.append(Variable(columns[:, varies], one.indicator[varies]))
        settings = replace(table.settings, binned_rows=0, many_rows=0)
        self._table = TableFeatures(variables, settings)
        self._signs = random_signs(BINS + 1, 999, np.random.default_rng(settings.seed))

    def rejects(self, i: int, j: int, given: Given) -> bool:
        """Whether few rows reject that two variables are independent given others."""
        left, right = self._table.target(i, given), self._table.target(j, given)
        if not left.features or not right.features:
            return False
        values, names = self._table.statistics(left, right, (), self._signs)
        largest = float(negative_log_p(values.statistics, by_others=True)[0].max())
        return largest - float(np.log(len(names))) > SCREENED

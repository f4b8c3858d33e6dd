"""The sides of conditional tests within one table, each computed once, and how two of them are compared.

A side is a target with a set of variables taken out of it. A search for a causal graph asks for the same side
against many others, so sides and conditioners are kept.

Features a(x) and b(y) are centred given z. Under conditional independence every product a_k(x_i) b_l(y_i) has
mean zero given z, and so has its product with any feature of z. The statistic ‖Σ_i a(x_i) ⊗ b(y_i)‖²/n² is
compared with ‖Σ_i ε_i a(x_i) ⊗ b(y_i)‖²/n² for independent ε_i of mean 0 and variance 1 (the wild bootstrap):
unlike a permutation this keeps every row's own size, which may depend on z.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from kembed.conditional import conditioning
from kembed.conditional.conditioning import ColumnRegression, Conditioner, Variable, VariableResiduals
from kembed.core.backend import Bool, Float, to_numpy
from kembed.data.space import make_space
from kembed.kernels.base import Kernel
from kembed.kernels.discrete import space_kernel
from kembed.learning.evidence import COARSE
from kembed.permutation import nulls
from kembed.permutation.crossings import Places, bin_rows, crossings
from kembed.permutation.fusion import Values
from kembed.testing import kernel_words

Multipliers = Float[np.ndarray, "n B"]
Found = tuple[Values, tuple[Any, ...]]  # the statistics of every kernel, and their kernels
Kept = TypeVar("Kept")
# Bytes that one kind of kept thing may hold, of few rows and of many; there are three kinds. A search for a
# graph of 20 variables asks for each of 20 conditioners again and again, 50 MB each with 100,000 rows.
ROOM, LARGE_ROOM = 200_000_000, 1_000_000_000
# Rows beyond which products of features are summed by bin, and bins get the signs: a test costs one sweep.
# `benchmarks/independence_size.py` has the level and the power with this forced on few rows.
BINNED_ROWS, BINS = 5_000, 512
CHUNK = 1_024  # rows whose products are held at once: what a cache holds
# Products of features below this share of the largest are left out, and never more than so many are kept:
# what is dropped adds under 2% to the statistic (`test_products_drop_only_what_is_negligible`).
NEGLIGIBLE, MOST = 1e-3, 150
# Hundreds of kernels are chosen in a search, by scans; a lengthscale for every column has none.
WORDS = tuple(word for word in kernel_words.WORDS if word != "ard")
LANDMARKS = 60  # of the residual kernel: a smooth kernel on one column has fewer features that count
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
        sizes = (self.values**2).mean(axis=0)
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
        return ("bkl", *(("median", ratio) for ratio in FUSED_RATIOS))
    if (isinstance(kernel, str) and kernel in WORDS) or isinstance(kernel, Kernel):
        return (kernel,)
    words = ", ".join(repr(word) for word in WORDS)
    raise (ValueError if isinstance(kernel, str) else TypeError)(
        f"{argument} must be one of {words}, a kernel object such as kembed.Gaussian(1.0) (in standard "
        f"deviations of the residuals) or a list of these, but {kernel!r} was given"
    )


def kernel_features(
    columns: Float[np.ndarray, "n k"], indicator: Bool[np.ndarray, " k"], kernel: Any
) -> KernelFeatures:
    """The features of one kernel that `check` has let through.

    Indicators are their own features, whatever the kernel: what z says about a category is its probability
    alone, and a kernel on what is left of a 0 or a 1 would read that probability back.
    """
    if indicator.all():
        return KernelFeatures("categories", columns - columns.mean(axis=0))
    space = make_space(columns, np.zeros(columns.shape[1], dtype=bool))
    if isinstance(kernel, tuple):
        kernel = space_kernel(space, kernel[1] * space.median())
    kernel = to_numpy(kernel_words.choose_kernel(kernel, space, effort=COARSE)[0])
    if columns.shape[1] > 1:  # rows come in an order that says nothing
        marks = np.unique(columns[: 2 * LANDMARKS], axis=0)
    else:
        marks = conditioning.spaced(columns[:, 0], LANDMARKS)[:, None]
    values, vectors = conditioning.leading_features(kernel.gram(columns, marks), kernel.gram(marks))
    return KernelFeatures(kernel, vectors * np.sqrt(values))


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
    scale: bool = True  # off in `benchmarks/conditional.py` alone, to show what it buys


class Shelf(Generic[Kept]):
    """What was computed, by key; the longest unused goes when room runs out."""

    def __init__(self, numbers: int, room: int = ROOM) -> None:
        self._size, self._room = 8 * numbers, room  # bytes of one thing, about, and of all
        self._kept: OrderedDict[Any, Kept] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """What is kept under the key, made where it is not."""
        if key not in self._kept:
            self._kept[key] = make()
            while len(self._kept) > max(2, self._room // self._size):
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """About how much it holds."""
        return self._size * len(self)


class Sides:
    """All sides of the variables of one table; rows in an order that says nothing."""

    def __init__(self, variables: Sequence[Variable], settings: Settings) -> None:
        self.variables = tuple(variables)
        self.settings = settings
        self.n = len(variables[0].columns)
        # Numbers a row: residual features; bases of eigenvectors and features to weight by; a column or two.
        few, many, room = (25, 60, LARGE_ROOM) if self.binned else (60, 1_000, ROOM)
        self._sides: Shelf[Side] = Shelf(few * self.n, room)
        self._conditioners: Shelf[Conditioner] = Shelf(many * self.n, room)
        self._residuals: Shelf[VariableResiduals] = Shelf(4 * self.n, room)

    @property
    def binned(self) -> bool:
        """Whether rows are so many that bins of them move, and get signs, together."""
        return self.n > self.settings.binned_rows

    @cached_property
    def places(self) -> Places:
        """Rows by place and bin."""
        return bin_rows(self.n, self.settings.seed)

    @property
    def nbytes(self) -> int:
        """About how much is kept."""
        return self._sides.nbytes + self._conditioners.nbytes + self._residuals.nbytes

    @property
    def n_regressed(self) -> int:
        """How many targets with a conditioning set taken out are kept, whatever the kernels."""
        return len(self._residuals)

    def with_kernels(self, kernels: tuple[Any, ...]) -> "Sides":
        """The same regressions under other kernels."""
        other = Sides(self.variables, replace(self.settings, kernels=kernels))
        other._conditioners, other._residuals = self._conditioners, self._residuals
        return other

    def conditioner(self, given: tuple[int, ...]) -> Conditioner:
        """What conditioning on these variables means."""
        columns = (self.variables[v].columns for v in given)
        return self._conditioners.get(given, lambda: Conditioner(np.column_stack(list(columns))))

    def side(self, target: int, given: tuple[int, ...]) -> Side:
        """The target with these variables taken out."""
        return self._sides.get((target, given), lambda: self._side(target, given))

    def _side(self, target: int, given: tuple[int, ...]) -> Side:
        how, variable = self.settings, self.variables[target]
        if not given or not self.conditioner(given).Z.shape[1]:  # nothing, or only constants
            columns = variable.columns
            kernels = how.kernels if columns.shape[1] else ()
            return Side(columns, tuple(kernel_features(columns, variable.indicator, k) for k in kernels), ())
        conditioner = self.conditioner(given)
        fit = {"cross_fit": how.cross_fit, "scale": how.scale}
        make = partial(conditioning.variable_residuals, variable, conditioner, **fit)
        left = self._residuals.get((target, given), make)
        spent = float(np.mean([column.freedom for column in left.regressions])) if left.regressions else 0.0
        features = []
        for kernel in how.kernels if left.columns.shape[1] else ():
            one = kernel_features(left.columns, left.indicator, kernel)
            values, more = conditioner.centred(one.values)
            features.append(KernelFeatures(one.kernel, values, spent + more))
        return Side(left.columns, tuple(features), left.regressions)

    def statistics(self, left: Side, right: Side, given: tuple[int, ...], E: Multipliers) -> Found:
        """HSIC of every kernel, alone and weighted by features of what is given, under the multipliers E.

        The smoothest kernel is weighted at every scale of what is given, the next one at the first: with a
        rough one there are more products than rows could tell apart.

        Regressions that spend d of n degrees of freedom tie the rows' residuals together: if these are Pa and
        Pb, P a projection, Σ a_i b_i has variance n - d where multipliers see Σ a_i² b_i² ≈ n (1 - d/n)²,
        too little by 1 + d/n. What is resampled is stretched by that, d the geometric mean of both sides'.
        """
        found: list[tuple[Any, np.ndarray]] = []
        pairs = list(zip(left.features, right.features, strict=True))
        weights = self.conditioner(given).weights if given else ()
        smoothest = np.argsort([a.roughness * b.roughness for a, b in pairs], kind="stable").tolist()
        weighting = dict(zip(smoothest, (weights, weights[:1]), strict=False))
        binned = self.binned and self.settings.memory is None
        for place, (first, second) in enumerate(pairs):
            stretch = np.ones(E.shape[1] + 1)
            stretch[1:] += np.sqrt(first.freedom * second.freedom) / self.n
            pair = (first.kernel, second.kernel)
            own = weighting.get(place, ())
            if binned:
                sums = bin_sums(first.values, second.values, own)
            else:
                C = products(first.values, second.values)
                sums = [C, *(products(C, weight) for weight in own)]
            norms = [squared_norms(each, E, self.n) for each in sums]
            titles = [pair] + [(*pair, "given")] * (len(norms) - 1)
            found += [(title, each * stretch) for title, each in zip(titles, norms, strict=True)]
        return _together(found)

    def permuted(self, left: Side, right: Side, orders: np.ndarray) -> Found:
        """HSIC of every kernel when nothing is given, for the data and under every order of the rows."""
        found: list[tuple[Any, np.ndarray]] = []
        for first, second in zip(left.features, right.features, strict=True):
            if self.binned:  # orders of bins
                parts = crossings(first.values, second.values, self.places, orders)
                total = np.sum([np.square(part).sum(axis=(1, 2)) for _, part in parts], axis=0)
            else:
                every = (slice(None), *orders)
                total = np.array([((first.values.T @ second.values[order]) ** 2).sum() for order in every])
            found.append(((first.kernel, second.kernel), total / self.n**2))
        return _together(found)


def _together(found: list[tuple[Any, np.ndarray]]) -> Found:
    values = np.column_stack([one for _, one in found])
    return Values(values, np.abs(values).max(axis=0)).settled(False), tuple(name for name, _ in found)


def products(one: Float[np.ndarray, "n _"], other: Float[np.ndarray, "n _"]) -> Float[np.ndarray, "n p"]:
    """The largest of all products of a feature of one side and one of the other."""
    first, second = _largest(*(np.square(side).mean(axis=0) for side in (one, other)))
    return one[:, first] * other[:, second]


def _largest(one: Float[np.ndarray, " p"], other: Float[np.ndarray, " q"]) -> tuple[Any, Any]:
    """Which features have the largest products, by their mean squares."""
    sizes = np.multiply.outer(one, other)
    order = np.argsort(-sizes, axis=None, kind="stable")[:MOST]
    order = order[sizes.ravel()[order] >= NEGLIGIBLE * sizes.max(initial=0.0)]
    return np.unravel_index(order, sizes.shape)


def bin_sums(
    one: Float[np.ndarray, "n p"],
    other: Float[np.ndarray, "n q"],
    weights: Sequence[Float[np.ndarray, "n w"]],
) -> list[Float[np.ndarray, "S+1 k"]]:
    """Σ over the rows of every bin of `products`, and of these times every weight; the last bin is the rest.

    Bins are runs of rows, which stand in an order that says nothing.
    """
    n = len(one)
    first, second = _largest(*(np.square(side).mean(axis=0) for side in (one, other)))
    sizes = (np.square(one).T @ np.square(other))[first, second] / n
    chosen = [_largest(sizes, np.square(weight).mean(axis=0)) for weight in weights]
    rows = n // BINS
    step = rows * max(1, CHUNK // rows)
    ends = [*range(0, BINS * rows, step), BINS * rows, n]
    found: list[list[np.ndarray]] = [[] for _ in range(len(weights) + 1)]
    for start, end in pairwise(ends):
        shape = (1, n - start) if start == BINS * rows else (-1, rows)
        C = (one[start:end][:, first] * other[start:end][:, second]).reshape(*shape, len(first))
        found[0].append(C.sum(axis=1))
        for kept, weight, pair in zip(found[1:], weights, chosen, strict=True):
            W = weight[start:end].reshape(*shape, weight.shape[1])
            kept.append((C.transpose(0, 2, 1) @ W)[:, *pair])
    return list(map(np.concatenate, found))


def multipliers(n: int, count: int, memory: float | None, rng: np.random.Generator) -> Multipliers:
    """Random signs, or with `memory` an autoregressive process, for rows in order of time."""
    if memory is not None:
        return nulls.wild_weights(n, count, memory, rng).astype(np.float32)
    bits = np.frombuffer(rng.bytes(n * (-(-count // 8))), dtype=np.uint8).reshape(n, -1)
    return np.unpackbits(bits, axis=1)[:, :count].astype(np.float32) * 2.0 - 1.0


def squared_norms(C: Float[np.ndarray, "m p"], E: Multipliers, n: int) -> Float[np.ndarray, " B+1"]:
    """‖Σ_i c_i‖²/n², first as it is, then with the rows (or sums of bins) multiplied by columns of E."""
    size = float(np.abs(C).max(initial=0.0)) or 1.0
    resampled = E.T @ (C / size).astype(np.float32)  # random anyway: seven digits are enough
    sums = np.concatenate([C.sum(axis=0)[None] / size, resampled])
    return np.asarray((sums**2).sum(axis=1)) * np.square(size / n)

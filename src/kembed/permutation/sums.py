"""Sums over bins, and the statistics of all members from them: the engine of every two-sample test.

A pass over the rows (`sum_features`, which travels to them by `Source.fold`) brings back the sums of features
over bins. Together with drawn contrasts these are all that the statistics need.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features.members import dense
from kembed.features.rows import Rows, Sample
from kembed.features.segments import Segments, make_segments
from kembed.permutation.bins import AnyBins, sampled
from kembed.permutation.designs import Draws
from kembed.tables.source import Block, Stacked

# Rows whose features are held at once: enough to be worth their calls; fewer of many columns, whose features
# are many too.
CHUNK, FEWEST, ENTRIES = 4_096, 512, 2**16
AT_ONCE = 256  # features whose contrasts are worked on together: of 999 resamples two megabytes


class Layout(NamedTuple):
    """Which columns of a source are variables, and which holds weights."""

    variables: tuple[int, ...]
    weight: int | None = None


@dataclass(frozen=True, eq=False)
class Sums:
    """Of the bins of one sample: rows in all, weight of every bin, sums of every feature map."""

    rows: int
    weight: Float[np.ndarray, " S"]
    features: list[Float[np.ndarray, "S p"]]

    def plus(self, other: "Sums") -> "Sums":
        """Of both."""
        both = zip(self.features, other.features, strict=True)
        return Sums(self.rows + other.rows, self.weight + other.weight, [a + b for a, b in both])


@dataclass(frozen=True, eq=False)
class PooledSums:
    """Of rows in memory, all of which the features were fitted on."""

    sample: Sample
    indicators: Any  # sparse, bins by rows, with the rows' weights
    grams: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def weight(self) -> Float[np.ndarray, " S"]:
        """Of every bin."""
        return np.asarray(self.indicators.sum(axis=1)).ravel()

    @property
    def squares(self) -> Float[np.ndarray, " S"]:
        """Sums of squared weights of rows."""
        return np.asarray(self.indicators.power(2).sum(axis=1)).ravel()

    def table(self, features: Any) -> Any:
        """Sums of a feature map over bins."""
        return self.indicators @ features(self.sample)

    def matrix(self, entries: Any) -> Float[np.ndarray, "S S"]:
        """Sums of a matrix over pairs of bins."""
        return dense(self.indicators @ entries @ self.indicators.T)


@dataclass(frozen=True, eq=False)
class StoredSums:
    """What a pass over the rows has brought back."""

    weight: Float[np.ndarray, " S"]
    features: dict[Any, Any]
    grams: dict[Any, Any] = field(default_factory=dict, repr=False)  # matrices of pairs of bins

    @property
    def squares(self) -> Float[np.ndarray, " S"]:
        """Sums of squared weights of rows, as if all weighed 1 on average."""
        return self.weight

    def table(self, features: Any) -> Any:
        """Sums of a feature map over bins."""
        return self.features[features]

    def matrix(self, entries: Any) -> Float[np.ndarray, "S S"]:
        """No member of an ensemble for any number of rows asks for it."""
        raise NotImplementedError


BinSums = PooledSums | StoredSums


def stored(parts: list[Sums], maps: tuple[Any, ...]) -> StoredSums:
    """The sums of several samples, bins of one after those of the other."""
    tables = {
        each: np.concatenate([dense(part.features[k]) for part in parts]) for k, each in enumerate(maps)
    }
    return StoredSums(np.concatenate([part.weight for part in parts]), tables)


def pooled(sample: Sample, own: Int[np.ndarray, " N"], count: int, weights: Any = None) -> PooledSums:
    """Of rows in memory, the bin of each given."""
    from scipy.sparse import csr_array

    N = len(own)
    weights = np.ones(N) if weights is None else weights
    return PooledSums(sample, csr_array((weights, (own, np.arange(N))), shape=(count, N)))


@dataclass(eq=False)
class Contrast:
    """Contrasts of the bins, and what members need of them."""

    sums: BinSums
    weights: Float[np.ndarray, "S C"]
    tables: dict[Any, Any]  # the latest one, shared by the contrasts of a test
    _difference: dict[Any, Any] = field(default_factory=dict, repr=False)

    def table(self, features: Any) -> Any:
        """Sums of a feature map over bins, (S, p)."""
        return _latest(self.tables, features, lambda: self.sums.table(features))

    def difference(self, features: Any) -> Float[np.ndarray, "p C"]:
        """Σ w_b S_b of a feature map."""
        return _latest(self._difference, features, lambda: self._times(self.table(features)))

    def _times(self, table: Any) -> Float[np.ndarray, "p C"]:
        if hasattr(table, "tocsr"):
            return table.T.tocsr() @ self.weights
        found = np.empty((table.shape[1], self.weights.shape[1]))
        for start in range(0, len(found), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            np.dot(table[:, part].T, self.weights, out=found[part])
        return found

    def gram(self, features: Any, linear: Any) -> Float[np.ndarray, " C"]:
        """|Lᵀ Σ w_b S_b|², by the matrix of all pairs of bins: for more features than bins."""
        known, key = self.sums.grams, (features, id(linear))
        if key not in known:  # it serves all contrasts of these bins
            table = self.table(features) @ linear
            known[key] = linear, dense(table @ table.T)  # what has an id must stay
        return self._form(known[key][1])

    def form(self, matrix: Any) -> Float[np.ndarray, " C"]:
        """Σ w_b K_bc w_c, K_bc the sum of a matrix over the rows of two bins."""
        return self._form(_latest(self.tables, id(matrix), lambda: self.sums.matrix(matrix)))

    def _form(self, K: Float[np.ndarray, "S S"]) -> Float[np.ndarray, " C"]:
        return np.einsum("sc,sc->c", self.weights, K @ self.weights)


def _latest(known: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """The value of `key`, and no other: members that ask for the same stand one after the other."""
    if key not in known:
        known.clear()
        known[key] = make()
    return known[key]


def member_statistics(members: tuple[Any, ...], sums: BinSums, draws: Draws) -> Float[np.ndarray, "C J"]:
    """The statistics of all kernels of these members for the data (first row) and every resample."""
    tables: dict[Any, Any] = {}
    terms = [(factor, Contrast(sums, W, tables)) for factor, W in draws.terms]
    found: list[Any] = [None] * len(members)
    first: dict[Any, int] = {}  # members that share a feature map one after the other
    keys = [id(each) if each.map is None else each.map for each in members]
    for k in sorted(range(len(members)), key=lambda k: first.setdefault(keys[k], k)):
        found[k] = sum(factor * members[k].statistics(contrast) for factor, contrast in terms)
    return np.concatenate(found).T


def take_sample(block: Block, layout: Layout, bins: AnyBins | None = None, each: int = 0) -> Stacked:
    """The rows of a block that features are fitted on, `each` units of every bin; without bins all."""
    kept = slice(None) if bins is None else sampled(bins, block.first, len(block.values), each)
    return Stacked((block.values[kept][:, list(layout.variables)],))


def take_column(block: Block, column: int) -> Stacked:
    """One column of a block."""
    return Stacked((block.values[:, column],))


def sum_features(
    block: Block,
    layout: Layout,
    bins: AnyBins,
    basis: Any,
    maps: tuple[Any, ...],
) -> Sums:
    """Sums by bin over the rows of a block, chunk by chunk; a row counts as much as its weight says."""
    own, _ = bins.of(block.first, len(block.values))
    # Rows of a bin one after the other, and few bins a chunk; numbers of 16 bits are sorted by counting.
    order = np.argsort(own.astype(np.uint16) if bins.count < 2**16 else own, kind="stable")
    values, own = block.values[order], own[order]
    weight = np.ones(len(order)) if layout.weight is None else values[:, layout.weight]
    values = values[:, list(layout.variables)]
    # Gaussians from the widest to the narrowest, each of which may be a power of one before it.
    scaled = [k for k, each in enumerate(maps) if hasattr(each, "lengthscale")]
    scaled.sort(key=lambda k: -maps[k].lengthscale)
    rest = [k for k in range(len(maps)) if k not in scaled]
    tables: list[Any] = [None] * len(maps)

    def add(k: int, rows: Rows, segments: Segments) -> None:
        found = maps[k].sums(rows, segments) if hasattr(maps[k], "sums") else segments.sums(maps[k](rows))
        tables[k] = np.zeros((bins.count, found.shape[1])) if tables[k] is None else tables[k]
        tables[k][segments.bins] += found

    held = min(CHUNK, max(FEWEST, ENTRIES // values.shape[1]))
    for start in range(0, max(len(order), 1), held):
        part = slice(start, start + held)
        rows = Rows(basis, values[part])
        for inside, strip in rows.strips() if scaled else ():
            few = make_segments(own[part][inside], weight[part][inside])
            for k in scaled:
                add(k, strip, few)
        segments = make_segments(own[part], weight[part])
        for k in rest:
            add(k, rows, segments)
    return Sums(len(order), np.bincount(own, weight, bins.count), tables)

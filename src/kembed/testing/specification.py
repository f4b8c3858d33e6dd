"""Sketch specifications: the feature maps of a sketch, fitted on held-out rows and on nothing else.

A later test compares rows that were summed with rows that come later. Columns, levels, features and units are
functions of the held-out rows alone, so both are treated alike.

Features are quantised: φ becomes step · round(φ/step), the same function of a row for every sample. The step
is a power of 2, so sums of whole steps have no rounding: tests against stored sums are exact to the last
digit, sketches add up without error, and a file holds whole numbers.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from inspect import isfunction, signature
from pkgutil import iter_modules
from typing import Any

import numpy as np

from kembed import features as groups
from kembed.core.backend import Float, Int
from kembed.core.linalg import robust_spread
from kembed.core.store import decode, encode
from kembed.core.text import listing
from kembed.features.members import entries
from kembed.features.rows import Basis, Rows, Sample
from kembed.features.segments import Segments
from kembed.features.single import POINTS
from kembed.kernels import composite, discrete, stationary
from kembed.kernels.space import make_space
from kembed.learning.evidence import Evidence
from kembed.learning.kernel_words import unwrapped
from kembed.permutation.bins import ClusterBins
from kembed.permutation.dyadic import DyadicBins
from kembed.permutation.sums import Layout, StoredSums, Sums, sum_features
from kembed.tables.schema import Schema
from kembed.tables.source import Block, Source, Stacked
from kembed.tables.table import Table
from kembed.tables.times import HOLDS, held_by
from kembed.testing import reference
from kembed.testing.engine import Fitted, basis_of, choose_columns, choose_ensemble, sample_of

DIGITS = 14  # binary digits of a feature's standard deviation: a step is 1/16,384 of it
# Least standard deviation beside the largest feature: what is fainter in these rows may be rounding, and be
# as large as others in later rows. Sums of eight billion rows are then whole numbers of 64 bits.
FAINTEST = 2.0**-16
UNSEEN = 16  # one row in so many is repeated with an unseen level
NEGLIGIBLE = 3e-5  # of the variance of a kernel's features; that of one row in HELD_OUT is larger


@dataclass(frozen=True, eq=False)
class Quantised:
    """A feature map whose features are whole numbers of steps."""

    features: Any
    steps: Float[np.ndarray, " p"]

    def __call__(self, rows: Rows) -> Any:
        """Of these rows."""
        found = self.features(rows)
        if hasattr(found, "toarray"):  # indicators are whole numbers already
            return found
        found = np.rint(found / self.steps)
        found *= self.steps
        return found


def quantised(features: Any, rows: Rows) -> Quantised:
    """Quantise a feature map by steps that these rows decide."""
    found = features(rows)
    if hasattr(found, "toarray"):
        return Quantised(features, np.ones(found.shape[1]))
    sd, size = found.std(axis=0), np.abs(found).max(axis=0, initial=0.0)
    sd = np.where(sd > 1e-12 * size, sd, np.where(size > 0.0, size, 1.0))
    sd = np.maximum(sd, FAINTEST * size.max(initial=0.0))
    return Quantised(features, 2.0 ** (np.floor(np.log2(sd)) - DIGITS))


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of a column's values, each counted as the nearest of some points.

    A feature of one column is a function of one number, so its sums are sums over the counts.
    """

    column: int
    points: Float[np.ndarray, " L"]  # sorted; of a category its codes, that of unseen levels last

    @property
    def steps(self) -> Float[np.ndarray, " L"]:
        """Counts are whole numbers."""
        return np.ones(len(self.points))

    def sums(self, rows: Rows, segments: Segments) -> Float[np.ndarray, "k L"]:
        """Counts by bin."""
        middles = self.points[:-1] + 0.5 * (self.points[1:] - self.points[:-1])
        return segments.counts(np.searchsorted(middles, rows.values[:, self.column]), len(self.points))


@dataclass(frozen=True, eq=False)
class Specification:
    """Columns with their levels, quantised feature maps, and the held-out values of every column."""

    schema: Schema
    kernel: Any  # as given to `Sketch.of`
    rows: int  # held-out ones, which it was fitted on
    fitted: Fitted
    basis: Basis | None
    margins: Float[np.ndarray, "k D"]  # every column sorted by itself: no row of the sample
    histograms: tuple[Histogram, ...]

    @cached_property
    def maps(self) -> tuple[Any, ...]:
        """All that is summed: features of the ensemble, then counts of every column."""
        return (*self.fitted.ensemble.maps, *self.histograms)

    def sums(self, source: Source, bins: Any, maps: tuple[Any, ...] = (), owner: str = "sketch") -> Sums:
        """Sums by bin over the rows of a source; of all maps unless some are given."""
        return source.fold(
            sum_recoded, recoding(self.schema, source, owner), bins, self.basis, maps or self.maps
        )

    @property
    def works(self) -> bool:
        """Whether features of a few rows have the shapes that their sums and members expect."""
        rows, ensemble = Rows(self.basis, self.margins[:2]), self.fitted.ensemble
        widths = all(each(rows).shape[1] == len(each.steps) for each in ensemble.maps)
        size = sum(len(member.entry(rows, {})) for member in ensemble.members)
        return widths and size == len(self.fitted.entries) == len(ensemble.kernels)

    @cached_property
    def scales(self) -> Float[np.ndarray, "2 D"]:
        """An origin and a unit for the totals of every column."""
        origins = np.median(self.margins, axis=0)
        units = robust_spread(self.margins - origins)
        return np.stack([origins, np.where((units > 0.0) & np.isfinite(units), units, 1.0)])

    @cached_property
    def columns(self) -> list[Fitted]:
        """The tests of single columns."""
        values = with_unseen(self.margins, self.schema, self.kernel)
        sample = Sample(make_space(values, self.schema.discrete), self.schema.names, complete=False)
        columns = choose_columns(self.kernel, sample, np.random.default_rng(0))
        return [Fitted(each, entries(each.members, sample)) for each in columns]

    def add_columns(self, sums: StoredSums) -> None:
        """Add the sums of the features of single columns, which are sums over counts."""
        for histogram, column in zip(self.histograms, self.columns, strict=True):
            values = np.tile(histogram.points[:, None], len(self.histograms))  # a feature sees its column
            rows, counts = Rows(None, values), sums.table(histogram)
            sums.features.update({each: counts @ each(rows) for each in column.ensemble.maps})


def fit_specification(
    source: Source, bins: DyadicBins | ClusterBins, kernel: Any, rng: np.random.Generator
) -> Specification:
    """Fit features on the held-out rows of a source: those whose place in their bin is below 0."""
    rows, own = source.fold(take_held_out, bins).table, source.schema
    levels = tuple(
        tuple(own.levels[c][int(code)] for code in np.unique(rows[:, c])) if kind else ()
        for c, kind in enumerate(own.categorical)
    )
    schema = Schema(own.names, own.categorical, levels, own.units, (), own.styles)
    values = recoding(schema, source)(Block(rows, 0)).values
    margins = np.sort(values, axis=0)
    kernel = tuple(map(unwrapped, kernel)) if isinstance(kernel, list | tuple) else unwrapped(kernel)

    sample = sample_of(with_unseen(values, schema, kernel), schema.discrete, schema.names)
    ensemble = choose_ensemble(kernel, sample, rng)
    basis = basis_of(ensemble, sample)
    whole = Rows(basis, sample.values)
    maps = {each: quantised(each, whole) for each in ensemble.maps}
    members = tuple(_shortened(replace(each, features=maps[each.map]), whole) for each in ensemble.members)
    learned = tuple(each and replace(each, model=None) for each in ensemble.learned)  # no file holds a model
    ensemble = ensemble._replace(members=members, learned=learned)
    fitted = Fitted(ensemble, entries(ensemble.members, sample))

    columns = enumerate(zip(margins.T, levels, schema.categorical, strict=True))
    histograms = tuple(
        Histogram(c, np.arange(len(seen) + 1.0) if kind else _quantiles(column))
        for c, (column, seen, kind) in columns
    )
    return Specification(schema, kernel, len(values), fitted, basis, margins, histograms)


def with_unseen(values: Float[np.ndarray, "k D"], schema: Schema, kernel: Any) -> Float[np.ndarray, "K D"]:
    """Rows, and some of them again with the code of unseen levels in one or more categories.

    A single kernel sees a new level by rows of the sample that have it; the groups of "fused" allow for it.
    """
    columns = np.flatnonzero(schema.discrete)
    if not len(columns) or (isinstance(kernel, str) and kernel == "fused"):
        return values
    more = values[::UNSEEN].copy()
    for k in range(max(len(more), len(columns))):
        c = columns[k % len(columns)]
        more[k % len(more), c] = len(schema.levels[c])
    return np.concatenate([values, more])


def _shortened(member: Any, rows: Rows) -> Any:
    """The same with linear maps in single precision, and of one kernel without its negligible directions."""

    def single(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(single, value))
        return value.astype(np.float32) if getattr(value, "ndim", 0) == 2 else value

    member = replace(member, **{each.name: single(getattr(member, each.name)) for each in fields(member)})
    linear = getattr(member, "linear", None)
    if not isinstance(linear, np.ndarray) or member.cuts != (linear.shape[1],):
        return member
    variance = (member.features(rows) @ linear).var(axis=0)
    linear = linear[:, variance >= NEGLIGIBLE * variance.sum()]
    return replace(member, linear=linear, width=linear.shape[1], cuts=(linear.shape[1],))


def _quantiles(column: Float[np.ndarray, " k"]) -> Float[np.ndarray, " L"]:
    """The values of a sorted column; quantiles where they are many."""
    values, places = np.unique(column), (np.arange(POINTS) + 0.5) / POINTS
    many = len(values) > POINTS
    return np.unique(np.quantile(column, places, method="inverted_cdf")) if many else values


def take_held_out(block: Block, bins: DyadicBins | ClusterBins) -> Stacked:
    """The held-out rows of a block."""
    return Stacked((block.values[bins.of(block.first, len(block.values))[1] < 0],))


@dataclass(frozen=True, eq=False)
class Recoding:
    """Where the columns of a specification are in a source, and its codes for those of the source."""

    places: tuple[int, ...]
    codes: tuple[Int[np.ndarray, " L"] | None, ...]

    def __call__(self, block: Block) -> Block:
        """The columns of the specification, in its codes."""
        values = block.values[:, list(self.places)]
        for c, table in enumerate(self.codes):
            if table is not None:
                values[:, c] = table[values[:, c].astype(int)]
        return Block(values, block.first)


def sum_recoded(
    block: Block, coding: Recoding, bins: Any, basis: Basis | None, maps: tuple[Any, ...]
) -> Sums:
    """Sums by bin over the rows of a block."""
    return sum_features(coding(block), Layout(tuple(range(len(coding.places)))), bins, basis, maps)


def recoding(schema: Schema, source: Source, owner: str = "sketch") -> Recoding:
    """Match a source to the schema of a sketch or reference: columns by name, or by place if they have none.

    Raises
    ------
    TypeError
        If a column holds another kind of values.
    ValueError
        If a column is missing, or its text is written in another way.

    """
    own, label = source.schema, source.label
    unnamed = tuple(f"column {d}" for d in range(len(own.names)))
    if own.names == unnamed and len(own.names) == len(schema.names):
        own = replace(own, names=schema.names)
    if missing := [name for name in schema.names if name not in own.names]:
        more = [name for name in own.names if name not in schema.names]
        seen = f"{label} has no {listing(missing)}"
        seen += f" and only {label} has {listing(more)}" if more else ""
        wanted = f"{label} must have the columns of the {owner}, {listing(schema.names)}"
        raise ValueError(f"{wanted}, but {seen}; rename or drop columns until the names agree")
    places = tuple(own.names.index(name) for name in schema.names)
    codes: list[Any] = []
    for c, (name, place) in enumerate(zip(schema.names, places, strict=True)):
        kind, seen = schema.categorical[c], f"column {name!r} of {label}"
        if kind != own.categorical[place]:
            held = ("text", "numbers") if own.categorical[place] else ("numbers", "text or categories")
            raise TypeError(f"{seen} holds {held[0]} where the {owner} has {held[1]}; give it the same type")
        if schema.units and own.units:
            unit, kept = own.units[place], schema.units[c]
            if unit != kept and {unit, kept} & set(HOLDS):
                has = f"{seen} holds {held_by(unit)} where the {owner} has {held_by(kept)}"
                raise TypeError(f"{has}; give it the same kind")
        if schema.styles and (style := own.styles[place] if own.styles else "") != schema.styles[c]:
            written = schema.styles[c] or "plain numbers"
            has = f"text of {seen} reads as {style or 'plain numbers'} where that of the {owner} reads as"
            raise ValueError(f"{has} {written}; write it alike")
        codes.append(reference.new_codes(own.levels[place], schema.levels[c]) if kind else None)
    return Recoding(places, tuple(codes))


def left_out(source: Source, names: Sequence[str], owner: str) -> tuple[str, ...]:
    """Notes on the named columns of a source that a sketch or reference does not have."""
    return tuple(
        f"column {name!r} is left out: the {owner} does not have it"
        for c, name in enumerate(source.schema.names)
        if name not in names and name != f"column {c}"
    )


@cache
def known() -> dict[str, Any]:
    """Return, by name, the classes and feature maps that a file may hold."""
    names = [f"{groups.__name__}.{module.name}" for module in iter_modules(groups.__path__)]
    modules = (reference, stationary, discrete, composite, *map(import_module, (*names, __name__)))
    items = (Schema, Table, Evidence, Fitted, *(item for module in modules for item in _of_module(module)))
    return {f"{item.__module__.rpartition('.')[2]}.{item.__name__}": item for item in items}


def _of_module(module: Any) -> Iterator[Any]:
    """Dataclasses and named tuples that are defined there, and feature maps: functions of `rows` alone."""
    for name, item in vars(module).items():
        if getattr(item, "__module__", None) == module.__name__ and not name.startswith("_"):
            record = is_dataclass(item) or hasattr(item, "_fields")
            if record or (isfunction(item) and [*signature(item).parameters] == ["rows"]):
                yield item


def digest(value: Any) -> str:
    """A hash that equal values share: sketches with equal features can be added."""
    structure, arrays = encode(value, known())
    made = hashlib.sha256(json.dumps([structure, [(a.dtype.str, a.shape) for a in arrays.values()]]).encode())
    for array in arrays.values():
        made.update(array.tobytes())
    return made.hexdigest()


def stored_again(value: Any) -> Any:
    """A value as a file would return it, to the last bit; one that no file can hold as it is."""
    try:
        return decode(*encode(value, known()), known())
    except TypeError:  # a kernel that is a function of the user's
        return value

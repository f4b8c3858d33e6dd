"""What a kept reference is looked at through: features that rows set aside have chosen, and nothing else.

A later test compares rows that were counted with rows that came later. Features, units, levels and cells are
functions of the rows set aside alone, so that to them both are alike.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.ordering import sorted_rows
from kembed.core.text import listing
from kembed.kernels.space import Space, make_space
from kembed.permutation.atoms import Atoms
from kembed.permutation.bins import Bins, bin_indicators, dense
from kembed.tables.schema import Schema
from kembed.tables.source import Block, Source, Stacked
from kembed.tables.times import HOLDS, held_by
from kembed.testing.cells import Cells, make_cells
from kembed.testing.kernel_words import unwrapped
from kembed.testing.members.fresh import Fitted, Fresh, Streamed
from kembed.testing.passes import Layout, Sums, sum_features
from kembed.testing.rounded import rounded
from kembed.testing.streams import Streams, choose_streams

ASIDE = 4_096  # rows that features are chosen on, about
OF_A_COLUMN = 1_024  # values of a column that are kept, for tests of each by itself
SHARE = 4  # one row in so many is set aside at most
CHUNK = 8_192  # rows whose features are summed at once: fewer have to be added to too many atoms too often


@dataclass(frozen=True, eq=False)
class KeptStreams(Streams):
    """Streams that know the size of their kernels' entries without the rows they were fitted on."""

    sizes: Float[np.ndarray, " J"] = field(default_factory=lambda: np.ones(0))

    def entries(self, space: Space) -> Float[np.ndarray, " J"]:
        """The mean of K(x, x) over the rows set aside, of every kernel."""
        return self.sizes


@dataclass(frozen=True, eq=False)
class Lens:
    """Columns with their levels, features, cells of every column, and values of single columns."""

    schema: Schema
    kernel: Any  # what `mmd_test` is told
    streams: KeptStreams
    cells: Cells
    margins: Float[np.ndarray, "k D"]  # every column sorted by itself: no row of the sample
    aside: int  # rows it was made of

    @property
    def maps(self) -> tuple[Any, ...]:
        """What is summed: features, and cells last."""
        return (*self.streams.features, self.cells)

    @property
    def steps(self) -> list[Float[np.ndarray, " p"]]:
        """What every feature is a multiple of."""
        return [*(each.steps for each in self.streams.features), np.ones(self.cells.starts[-1])]

    @property
    def levels(self) -> tuple[int, ...]:
        """How many codes every column has, the one for levels that have none included; 0 for numbers."""
        return tuple(len(own) + 1 if kind else 0 for own, kind in _columns(self.schema))

    @property
    def space(self) -> Space:
        """Single columns as a space, for tests of each by itself."""
        return make_space(self.margins, self.schema.discrete)


def _columns(schema: Schema) -> Any:
    return zip(schema.levels, schema.categorical, strict=True)


@dataclass(frozen=True, eq=False)
class Recoding:
    """Where the columns of a lens stand in a source, and the lens's codes of the source's."""

    places: tuple[int, ...]
    codes: tuple[Int[np.ndarray, " L"] | None, ...]

    def __call__(self, block: Block) -> Block:
        """The columns of the lens, in its codes."""
        values = block.values[:, list(self.places)]
        for c, table in enumerate(self.codes):
            if table is not None:
                values[:, c] = table[values[:, c].astype(int)]
        return Block(values, block.first)


def recoding(schema: Schema, source: Source) -> Recoding:
    """How a source is read through a schema: columns by name, or by place where they have none."""
    own, label = source.schema, source.label
    unnamed = tuple(f"column {d}" for d in range(len(own.names)))
    if own.names != schema.names and unnamed == own.names and len(own.names) == len(schema.names):
        own = replace(own, names=schema.names)
    missing = [name for name in schema.names if name not in own.names]
    more = [name for name in own.names if name not in schema.names]
    if missing:
        seen = f"{label} has no {listing(missing)}"
        seen += f" and only {label} has {listing(more)}" if more else ""
        wanted = f"{label} must have the columns of the sketch, {listing(schema.names)}"
        raise ValueError(f"{wanted}, but {seen}; rename or drop columns until the names agree")
    places = tuple(own.names.index(name) for name in schema.names)
    codes: list[Any] = []
    for (levels, kind), place, name in zip(_columns(schema), places, schema.names, strict=True):
        if kind != own.categorical[place]:
            held, wanted = (
                ("text", "numbers") if own.categorical[place] else ("numbers", "text or categories")
            )
            seen = f"column {name!r} of {label} holds {held} where the sketch has {wanted}"
            raise TypeError(f"{seen}; give it the same type")
        code = {level: number for number, level in enumerate(levels)}
        codes.append(
            np.array([code.get(level, len(levels)) for level in own.levels[place]]) if kind else None
        )
    if schema.units and own.units:
        for name, kept, place in zip(schema.names, schema.units, places, strict=True):
            if own.units[place] != kept and {own.units[place], kept} & set(HOLDS):
                seen = f"column {name!r} of {label} holds {held_by(own.units[place])}"
                raise TypeError(f"{seen} where the sketch has {held_by(kept)}; give it the same kind")
    for name, kept, place in zip(schema.names, schema.styles, places, strict=False):
        style = own.styles[place] if own.styles else ""
        if style != kept:
            seen = f"text of column {name!r} of {label} reads as {style or 'plain numbers'}"
            raise ValueError(
                f"{seen} where that of the sketch reads as {kept or 'plain numbers'}; write it alike"
            )
    return Recoding(places, tuple(codes))


def make_lens(source: Source, atoms: Atoms, kernel: Any, rng: np.random.Generator) -> Lens:
    """The features that the rows set aside speak for."""
    rows = source.fold(take_aside, atoms).table
    own = source.schema
    present = [
        tuple(own.levels[c][int(code)] for code in np.unique(rows[:, c])) if kind else ()
        for c, kind in enumerate(own.categorical)
    ]
    schema = Schema(own.names, own.categorical, tuple(present), own.units, (), own.styles)
    coded = recoding(schema, source)(Block(rows, 0)).values
    space = make_space(sorted_rows(coded), schema.discrete)
    levels = tuple(len(one) + 1 if kind else 0 for one, kind in _columns(schema))
    kernel = unwrapped(kernel) if not isinstance(kernel, list | tuple) else tuple(map(unwrapped, kernel))
    streams = _kept(choose_streams(kernel, space, schema.names, levels, rng), space)
    few = np.linspace(0, len(coded) - 1, min(OF_A_COLUMN, len(coded))).round().astype(int)
    return Lens(schema, kernel, streams, make_cells(space, levels), np.sort(coded, axis=0)[few], len(coded))


def _kept(streams: Streams, space: Space) -> KeptStreams:
    """The same with features in whole steps, and without what a file cannot hold."""
    rows = Fresh(streams.fitted, space.values)
    made = {each: rounded(each, rows) for each in streams.features}
    members = tuple(
        Streamed(
            made[member.features],
            member.width,
            member.cuts,
            _short(member.linear),
            None if member.diagonal is None else made[member.diagonal],
        )
        for member in streams.members
    )
    learned = tuple(one and replace(one, model=None) for one in streams.choice.learned)
    choice = replace(streams.choice, members=(), learned=learned)
    found = Streams(choice, members, streams.fitted)
    return KeptStreams(choice, members, streams.fitted, found.entries(space))


def _short(linear: Any) -> Any:
    """A linear map in numbers of single precision, which are as good and half as long."""
    return linear.astype(np.float32).astype(float) if linear is not None else None


def take_aside(block: Block, atoms: Atoms) -> Stacked:
    """The rows of a block that are set aside."""
    return Stacked((block.values[atoms.places(block.first, len(block.values)) < 0],))


def sum_atoms(
    block: Block, coding: Recoding, atoms: Atoms, fitted: Fitted | None, maps: tuple[Any, ...]
) -> Sums:
    """Sums by atom over the rows of a block, what is left over last; rows set aside count nothing."""
    block = coding(block)
    own, count = atoms.of(block.first, len(block.values)), len(atoms.powers) + 1
    counted = np.flatnonzero(own >= 0)
    weight = np.bincount(own[counted], minlength=count).astype(float)
    widths = (*(len(each.steps) for each in maps[:-1]), maps[-1].starts[-1])
    found = [np.zeros((count, width)) for width in widths]
    for start in range(0, len(counted), CHUNK):
        part = counted[start : start + CHUNK]
        rows = Fresh(fitted, block.values[part])
        touched, where = np.unique(own[part], return_inverse=True)
        indicators = bin_indicators(where, len(touched))
        for total, each in zip(found, maps, strict=True):
            total[touched] += dense(indicators @ each(rows))[:-1]
    return Sums(len(counted), weight, weight, found)


def sum_later(
    block: Block, coding: Recoding, bins: Bins, fitted: Fitted | None, maps: tuple[Any, ...]
) -> Sums:
    """Sums by bin over the rows of a block of a later sample."""
    return sum_features(coding(block), Layout(tuple(range(len(coding.places)))), bins, fitted, maps)

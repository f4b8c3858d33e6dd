"""A stream of batches as bins: features are fitted on part of a reference, and summed over the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Bool, Int
from kembed.core.text import listing
from kembed.permutation.bins import MOST, ClusterBins
from kembed.permutation.dyadic import FEW, DyadicBins, common_power, union_indicators
from kembed.permutation.exchange import refuse_split
from kembed.permutation.fusion import refuse_non_finite
from kembed.permutation.reservoir import Binned, Bins, nothing
from kembed.permutation.sums import take_column
from kembed.tables.diagnostics import ordered_rows
from kembed.tables.frames import level_text
from kembed.tables.reader import is_files, read, tables_of
from kembed.tables.source import SAMPLE, Memory, Source, in_memory
from kembed.testing.direction import Training, split
from kembed.testing.sketch import HELD_OUT, LEAST_ROWS, SHARE, Sketch
from kembed.testing.specification import (
    Specification,
    fit_specification,
    stored_again,
)

# Of a reference whose batches are units: with fewer p-values are too large for an alarm to come soon.
LEAST_BATCHES, ENOUGH_BATCHES = 8, 40
# What to do about rows that are like those before them.
ORDERED = "alarms come too often: take rows further apart, or compare whole batches (unit='batch')"
WHOLE = ""  # the only stratum, where no column says otherwise

Texts = np.ndarray  # text for every row
Strata = dict[str, "Stratum"]


@dataclass(frozen=True, eq=False)
class Stratum:
    """One stratum: bins of its reference until a first batch decides on their rows, then all of its past.

    There is one past for each sequence of tests. The last is that of test halves if there is `training`.
    """

    powers: Int[np.ndarray, " A"]  # log₂ of the rows of the bins of the reference
    reference: Bins  # these bins, and last the sum over rows in none
    power: int = 0  # log₂ of the rows of a bin
    pasts: tuple[Binned, ...] = ()
    recent: tuple[Binned, ...] = ()  # batches that the longest block may hold
    training: Training | None = None

    @classmethod
    def without_rows(cls, width: int) -> "Stratum":
        """One that the reference does not have."""
        return cls(np.zeros(0, dtype=int), np.zeros((1, width)))

    def begun(
        self, rows: int, sizes: Sequence[int], places: Int[np.ndarray, " q"] | None, rng: np.random.Generator
    ) -> "Stratum":
        """The same once a batch of so many rows has come; `sizes` of its bins make one of a block.

        `places` are the features in which directions are learned.
        """
        power = common_power([self.powers, rows] if len(self.powers) else [rows])
        tables = [
            union_indicators(self.powers, power + size.bit_length() - 1) @ self.reference for size in sizes
        ]
        references = [Binned(table[:-1], table[-1]) for table in tables]
        training = None
        if places is not None:
            half, test = split(references[0], places)
            training, references = Training(np.zeros(len(places)), half), [*references, test]
        pasts = tuple(nothing(len(each.rest)).absorbing(each, rng) for each in references)
        return Stratum(self.powers[:0], self.reference[:0], power, pasts, (), training)

    def fitting(self, rows: int) -> "Stratum":
        """The same with larger bins, if a batch has many times the rows of the first one."""
        found = self
        while rows >> found.power >= 4 * FEW:
            pasts, recent = (tuple(each.coarser(2) for each in part) for part in (found.pasts, found.recent))
            found = replace(found, power=found.power + 1, pasts=pasts, recent=recent)
        return found

    def joined(self, batch: Binned | None, places: Int[np.ndarray, " q"] | None, most: int) -> "Stratum":
        """The same with one more batch, which may have no rows here; the last `most` may be in a block."""
        batch = nothing(len(self.pasts[0].rest)) if batch is None else batch
        training = self.training
        if training is not None and places is not None:
            training = training.with_batch(split(batch, places)[0])
        return replace(self, recent=(*self.recent, batch)[-most:], training=training)

    def absorbed(self, k: int, block: Binned, rng: np.random.Generator) -> "Stratum":
        """The same with a block in the past of one of the sequences of tests."""
        if not block.rows:
            return self
        pasts = list(self.pasts)
        pasts[k] = pasts[k].absorbing(block, rng)
        return replace(self, pasts=tuple(pasts))


class Reference(NamedTuple):
    """Rows from when all was well, in memory, with the stratum and the batch of every row."""

    source: Memory
    strata: Texts
    batches: Int[np.ndarray, " n"] | None  # in the order of time

    def some(self, kept: Bool[np.ndarray, " n"]) -> "Reference":
        """Some of the rows."""
        batches = None if self.batches is None else self.batches[kept]
        source = replace(self.source, values=self.source.values[kept])
        return Reference(source, self.strata[kept], batches)


def is_several(value: Any) -> bool:
    """Whether a reference is a list of tables or files, a batch each.

    >>> is_several([np.eye(2), np.eye(2)]), is_several(["a.csv"]), is_several([[1.0, 2.0], [3.0, 4.0]])
    (True, True, False)
    """
    if not isinstance(value, list | tuple) or not value:
        return False
    tables = (
        isinstance(each, Source) or getattr(each, "ndim", hasattr(each, "columns") and 2) == 2
        for each in value
    )
    return is_files(value) or all(tables)


def read_reference(value: Any, by: str | None, batches: str | None, nan_policy: str) -> Reference:
    """Read a reference, and take the columns of strata and batches out of it."""
    keys = [name for name in (by, batches) if name is not None]
    several = is_several(value)
    if several and batches is not None:
        seen = f"reference is a list of batches, and batches={batches!r} names a column"
        raise ValueError(f"{seen}; leave batches out, or give one table")
    named = {f"reference[{k}]": each for k, each in enumerate(value)} if several else {"reference": value}
    sources = list(named.values())
    if not all(isinstance(each, Source) for each in sources):
        sources = read(named, nan_policy=nan_policy, keep=keys, minimum=1)
    tables = tables_of(sources)
    table = replace(tables[0], values=np.concatenate([each.values for each in tables]), label="reference")
    checks.size(len(table.values), LEAST_ROWS, table.label)
    texts = {name: texts_of(in_memory(table), name) for name in keys}
    number = None
    if several:
        number = np.repeat(np.arange(len(tables)), [len(each.values) for each in tables])
    elif batches is not None:
        _, first, codes = np.unique(texts[batches], return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(first))[codes.ravel()]
    kept = [place for place, name in enumerate(table.names) if name not in keys]
    if not kept:
        raise ValueError(f"{listing(keys)} name strata and batches, and no column is left to compare")
    source = in_memory(table.columns(kept))
    if styles := sources[0].schema.styles:
        source = replace(source, schema=replace(source.schema, styles=tuple(styles[c] for c in kept)))
    strata = np.full(len(table.values), WHOLE) if by is None else texts[by]
    return Reference(source, strata, number)


def texts_of(source: Source, name: str) -> Texts:
    """A column as text."""
    names = source.schema.names
    if name not in names:
        raise ValueError(f"{source.label} has no column {name!r}; it has {listing(names)}")
    place = names.index(name)
    values, where = np.unique(source.fold(take_column, place).table, return_inverse=True)
    levels = source.schema.levels[place] if source.schema.categorical[place] else None
    texts = [level_text(value if levels is None else levels[int(value)]) for value in values.tolist()]
    return np.array(texts, dtype=object)[where.ravel()]


def of_order(source: Source) -> tuple[str, ...]:
    """What to know of rows that follow each other in time."""
    if not source.held:
        return ()
    table = source.table()
    return tuple(ordered_rows(replace(table, values=table.values[:SAMPLE]), ORDERED))


def sum_table(specification: Specification, source: Source, bins: ClusterBins) -> Bins:
    """A bin each row: how many rows it holds, then their sums of all features of the ensemble."""
    sums = specification.sums(source, bins, specification.fitted.ensemble.maps, "reference")
    table = np.column_stack([sums.weight, *sums.features])
    refuse_non_finite(table)
    return table


def of_sketch(sketch: Sketch) -> Stratum:
    """The only stratum, of the rows of a sketch."""
    steps = zip(sketch.sums, sketch.specification.fitted.ensemble.maps, strict=False)  # then histograms
    table = np.column_stack([sketch.weight, *(sums * each.steps for sums, each in steps)])
    return Stratum(sketch.powers, table)


def begin(
    reference: Reference, unit: str, kernel: Any, rng: np.random.Generator
) -> tuple[Specification, Strata]:
    """Fit features on part of the rows (or of whole batches), and sum them over all others."""
    single = unit == "row"
    units = np.arange(len(reference.strata)) if single else _batches(reference)
    count = int(units.max()) + 1
    held_out = np.isin(units, rng.permutation(count)[: min(HELD_OUT, count // SHARE)])
    place, own = np.zeros(len(units), dtype=int), np.empty(len(units), dtype=int)
    place[rng.permutation(np.flatnonzero(held_out))[:HELD_OUT]] = -1
    start, parts = 0, {}
    for name in np.unique(reference.strata).tolist():
        rows = np.flatnonzero((reference.strata == name) & ~held_out)
        inside, where = np.unique(units[rows], return_inverse=True)
        dyadic = DyadicBins(len(inside), 0, int(rng.integers(2**62)))
        powers = dyadic.powers if single else np.zeros(len(inside), dtype=int)
        number = dyadic.of(0, len(inside))[0] if single else rng.permutation(len(inside))
        own[rows] = start + number[where.ravel()]
        parts[name] = slice(start, start + len(powers) + 1), powers  # the last one for rows in no bin
        start += len(powers) + 1
    own[held_out] = start
    nowhere = np.zeros(start + 1, dtype=int)
    bins = ClusterBins(own, place, nowhere, nowhere)
    specification = stored_again(fit_specification(reference.source, bins, kernel, rng))
    table = sum_table(specification, reference.source, bins)
    return specification, {name: Stratum(powers, table[part]) for name, (part, powers) in parts.items()}


def _batches(reference: Reference) -> Int[np.ndarray, " n"]:
    """The batch of every row, where batches are the units."""
    if reference.batches is None:
        seen = "unit='batch' compares whole batches, and the reference does not say what these are"
        raise ValueError(f"{seen}; name their column with batches=, or give a list of tables")
    count = int(reference.batches.max()) + 1
    if count < LEAST_BATCHES:
        seen = f"the reference has {count} batches, and unit='batch' needs at least {LEAST_BATCHES}"
        raise ValueError(f"{seen}, better {ENOUGH_BATCHES}; give more, or compare rows (unit='row')")
    _refuse_split(reference.batches, reference.strata)
    return reference.batches


def _refuse_split(batches: Int[np.ndarray, " n"], strata: Texts) -> None:
    """Refuse a batch that is a unit and lies in two strata."""
    names, codes = np.unique(strata, return_inverse=True)
    remedy = "with unit='batch' name strata that hold whole batches, or leave by= out"
    refuse_split([batches], [codes.ravel()], dict(enumerate(names)), "a batch", remedy)


def width_of(specification: Specification) -> int:
    """The columns of a table of bins: rows, and sums of all features of the ensemble."""
    return 1 + sum(len(each.steps) for each in specification.fitted.ensemble.maps)


def bin_batch(
    source: Source,
    names: Texts,
    strata: Strata,
    specification: Specification,
    unit: str,
    rng: np.random.Generator,
) -> dict[str, Binned]:
    """The rows of a batch in bins of the size of their stratum, by their numbers alone; or all in one."""
    if unit == "batch":
        _refuse_split(np.zeros(len(names), dtype=int), names)
    own, start, parts = np.empty(len(names), dtype=int), 0, {}
    for name in np.unique(names).tolist():
        rows = rng.permutation(np.flatnonzero(names == name))
        size = len(rows) if unit == "batch" else 2 ** strata[name].power
        full = min(len(rows) // size, MOST)
        own[rows] = start + np.minimum(np.arange(len(rows)) // size, full)
        parts[name] = start, start + full
        start += full + 1
    nowhere = np.zeros(start, dtype=int)
    bins = ClusterBins(own, own, nowhere, nowhere)
    table = sum_table(specification, source, bins)
    return {name: Binned(table[first:last], table[last]) for name, (first, last) in parts.items()}

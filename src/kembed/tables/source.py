"""Rows, wherever they are: one protocol, a sum over batches of a function of a batch.

Everything large in this library is a sum over rows of a function of a row and a few parameters: mean
features, their second moments, sums by bin, counts. So a source of rows answers one question, `fold`. Data
stay where they are; parameters travel.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core.backend import Bool, Float
from kembed.core.progress import progress_bar
from kembed.core.shuffling import shuffled
from kembed.core.text import rows as counted_rows
from kembed.tables.schema import Schema
from kembed.tables.table import Table

HELD = 2.5e7  # numbers that are held at once, 200 MB: beyond, rows stay where they are
SAMPLE = 50_000  # rows of which a scale, a band and a picture are known well enough
KEY = 0  # of the draw: the same source gives the same rows
ROWS = 2**16  # of a batch of a table in memory: a few megabytes, and a tick of the progress bar


class Block(NamedTuple):
    """Some consecutive rows of a source.

    Numbers are numbers, categories the places of their levels in `Schema.levels`. Rows are complete, except
    in a source that passes on rows with missing values, which have nan there.
    """

    values: Float[np.ndarray, "b D"]
    first: int  # the number of its first row in the source, from 0

    @property
    def complete(self) -> Bool[np.ndarray, " b"]:
        return ~np.isnan(self.values).any(axis=1)


@dataclass(frozen=True, eq=False)
class Source(ABC):
    """Rows in batches: in memory, in files, or on other machines."""

    label: str  # what errors call it
    schema: Schema
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # how columns were read
    left_out: dict[str, str] = field(default_factory=dict, kw_only=True)  # columns not compared, and why
    only: dict[str, int] = field(default_factory=dict, kw_only=True)  # columns of one sample, and which
    index: Any = field(default=None, kw_only=True)  # the labels of the rows of a pandas object

    @property
    @abstractmethod
    def size(self) -> int:
        """How many rows are passed on.

        Only these have numbers: bins go by the number of a row, and must hold the same number of rows in
        every sample.
        """

    @abstractmethod
    def fold(self, function: Callable[..., Any], *params: Any) -> Any:
        """Σ over batches of `function(block, *params)`, added in a tree that the batches alone decide.

        `function` is a picklable function of a `Block`; what it returns is added by `added`. The number of
        workers, their order and their deaths change no bit.
        """

    @property
    def given(self) -> int:
        """How many rows there are, including those that are not passed on."""
        return self.size

    @property
    def missing(self) -> tuple[int, ...]:
        """Missing values of every column, where they are known."""
        return ()

    @property
    def held(self) -> bool:
        """Whether all rows fit in memory."""
        return self.size * len(self.schema.names) <= HELD

    def with_gaps(self) -> "Source":
        """The same with rows that have missing values, all rows in their places."""
        return self

    def table(self) -> Table:
        """All complete rows, in memory."""
        source = self.with_gaps()
        return as_table(source, source.fold(take_rows).table)

    def sample(self, count: int = SAMPLE, key: int = KEY) -> tuple[Table, str]:
        """So many rows (all, if there are fewer) as a table, and what to say of it."""
        if self.size <= count:
            return self.table(), ""
        table = as_table(self, self.fold(take_drawn, self.size, count, key).table)
        drawn = f"{counted_rows(count)} drawn at random of the {self.size:,} of {self.label}"
        return table, f"regions, pictures and summaries rest on {drawn}; the test on all"


@dataclass(frozen=True, eq=False)
class Memory(Source):
    """A table that is there already."""

    values: Float[np.ndarray, "n D"]
    rows: int = ROWS  # of a batch
    missing: tuple[int, ...] = ()  # missing values of every column, where they are known to have been filled

    @property
    def size(self) -> int:
        return len(self.values)

    def fold(self, function: Callable[..., Any], *params: Any) -> Any:
        with progress_bar(self.size, 1e3 * self.size, f"reading {self.label}", "row") as shown:

            def results() -> Any:
                for first in range(0, self.size, self.rows):
                    block = Block(self.values[first : first + self.rows], first)
                    yield function(block, *params)
                    shown.update(len(block.values))

            return tree_sum(results())


def in_memory(table: Table, label: str | None = None) -> Memory:
    """A table as a source."""
    gaps = table.missing_of or ("",) * len(table.names)
    schema = Schema(table.names, tuple(map(bool, table.categorical)), table.levels, table.units, gaps)
    return Memory(label or table.label, schema, table.values, notes=table.notes)


def rows_of(source: Source, table: Table) -> Memory:
    """Rows of a source that are in memory, with what is known of it."""
    known: Any = {"notes": source.notes, "left_out": source.left_out, "only": source.only}
    return replace(in_memory(table, source.label), **known)


def as_table(source: Source, values: Float[np.ndarray, "n D"]) -> Table:
    """Rows of a source as a table, without those that have missing values."""
    gaps = np.isnan(values)
    whole = ~gaps.any(axis=1)
    schema = source.schema
    return Table(
        np.ascontiguousarray(values[whole]),
        schema.names,
        schema.discrete,
        np.flatnonzero(whole),
        len(values),
        schema.levels,
        source.label,
        schema.units,
        source.notes,
        source.missing or tuple(gaps.sum(axis=0).tolist()),
        source.index,
        schema.missing_of,
    )


def take_rows(block: Block) -> "Stacked":
    """The rows of a block."""
    return Stacked((block.values,))


def take_drawn(block: Block, size: int, count: int, key: int) -> "Stacked":
    """The rows of a block that are drawn."""
    numbers = np.arange(block.first, block.first + len(block.values))
    return Stacked((block.values[shuffled(numbers, size, key) < count],))


class Stacked(NamedTuple):
    """Tables that are added by putting one below the other: how rows come back from a sum."""

    parts: tuple[np.ndarray, ...]

    def plus(self, other: "Stacked") -> "Stacked":
        return Stacked(self.parts + other.parts)

    @property
    def table(self) -> np.ndarray:
        return self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)


def added(one: Any, other: Any) -> Any:
    """The sum of two results of a block: arrays and numbers by +, lists and dicts entry by entry.

    >>> added({"n": 2, "sums": [np.ones(2)]}, {"n": 3, "sums": [np.ones(2)]})
    {'n': 5, 'sums': [array([2., 2.])]}
    """
    if hasattr(one, "plus"):
        return one.plus(other)
    if isinstance(one, dict):
        return {key: added(value, other[key]) for key, value in one.items()}
    if isinstance(one, list):
        return [added(a, b) for a, b in zip(one, other, strict=True)]
    return one + other


def tree_sum(results: Iterable[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """The sum in a tree fixed by the order of the results: neighbours first, as in pairwise summation.

    No more than log₂ of them are held at a time. `add` may be lazy: the tree is the same.

    >>> tree_sum("abcde", lambda a, b: f"({a}{b})")
    '(((ab)(cd))e)'
    """
    open_: list[tuple[int, Any]] = []  # sums of 2^level results that wait for their neighbour
    for result in results:
        level, value = 0, result
        while open_ and open_[-1][0] == level:
            level, value = level + 1, add(open_.pop()[1], value)
        open_.append((level, value))
    if not open_:
        raise ValueError("there is nothing to add: the source has no batches")
    value = open_.pop()[1]
    while open_:
        value = add(open_.pop()[1], value)
    return value

"""Rows that are read part by part, in this process or by another engine; never all at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from kembed.core.progress import LONG, progress_bar
from kembed.engines.coding import Meaning, coded
from kembed.engines.parts import Part, changed
from kembed.engines.source import Block, Schema, Source, tree_sum
from kembed.engines.survey import Survey


class Engine(ABC):
    """Where parts are read."""

    @abstractmethod
    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        """Σ over calls of `work(part, *its own, *params)`, added in the order of the calls by `tree_sum`."""


@dataclass(frozen=True)
class Call:
    """What one part is asked: the part, what is said to it alone, and its rows, as far as they are known."""

    part: Any
    own: tuple[Any, ...] = ()
    rows: int = 0

    @property
    def steps(self) -> int:
        """What a bar goes on by: its rows, or one where they are not known."""
        return self.rows or 1


class Here(Engine):
    """In this process, one part after the other."""

    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        """One after the other."""
        with reading_bar(label, calls) as shown:

            def results() -> Iterator[Any]:
                for call in calls:
                    yield work(call.part, *call.own, *params)
                    shown.update(call.steps)

            return tree_sum(results())


def reading_bar(label: str, calls: Sequence[Call]) -> AbstractContextManager[Any]:
    """A bar of rows; before those are counted, of blocks: some eight of them take a second, which is LONG."""
    rows = sum(call.rows for call in calls)
    steps, entries = sum(call.steps for call in calls), 1e3 * rows or LONG / 8 * len(calls)
    return progress_bar(steps, entries, f"reading {label}", "row" if rows else "block")


@dataclass(frozen=True, eq=False)
class Batches(Source):
    """Rows in files, on other machines, or wherever else they are read part by part."""

    label: str
    schema: Schema
    parts: tuple[Any, ...]
    meanings: tuple[Meaning, ...]  # what each column holds, in the order of the schema
    survey: Survey  # what was seen of this sample: rows, missing values, ends and levels of every column
    engine: Engine = field(default_factory=Here)
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are not read, and why
    notes: tuple[str, ...] = ()  # how text was read

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many rows, those with missing values too."""
        return self.survey.size

    @property
    def constant(self) -> tuple[str, ...]:
        """The columns of this sample that do not vary, by their names in the schema."""
        each = zip(self.schema.names, self.meanings, strict=True)
        return tuple(name for name, meaning in each if self.survey.columns[meaning.name].constant)

    def map_sum(self, function: Callable[..., Any], *params: Any) -> Any:
        """Σ over parts, of each the Σ over its blocks."""
        calls, first = [], 0
        for part, rows in zip(self.parts, self.survey.rows, strict=True):
            if rows:
                calls.append(Call(part, (first, rows), rows))
            first += rows
        return self.engine.total(self.label, sum_part, calls, self.meanings, function, params)


def sum_part(
    part: Part,
    first: int,
    rows: int,
    meanings: tuple[Meaning, ...],
    function: Callable[..., Any],
    params: tuple[Any, ...],
) -> Any:
    """Σ over the blocks of one part; `first` is the number of its first row in the source."""
    columns = tuple(meaning.name for meaning in meanings)
    numbers = frozenset(meaning.name for meaning in meanings if meaning.words is None)

    def results() -> Iterator[Any]:
        at = first
        for raw in part.read(columns, numbers if part.words else frozenset()):
            if at + len(raw) > first + rows:
                raise changed(part)
            if len(raw):
                yield function(Block(coded(raw, part, meanings), at), *params)
            at += len(raw)
        if at != first + rows:
            raise changed(part)

    return tree_sum(results())

"""Rows in memory: blocks are slices of one table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.progress import progress_bar
from kembed.data.tables import Table
from kembed.engines.source import Block, Schema, Source, Stacked, tree_sum

ROWS = 2**16  # of a block: a few megabytes, and a tick of the progress bar


@dataclass(frozen=True, eq=False)
class Memory(Source):
    """A table that is there already."""

    label: str
    schema: Schema
    values: Float[np.ndarray, "n D"]
    rows: int = ROWS  # of a block

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many rows."""
        return len(self.values)

    def map_sum(self, function: Callable[..., Any], *params: Any) -> Any:
        """Σ over slices."""
        with progress_bar(self.size, 1e3 * self.size, f"reading {self.label}", "row") as shown:

            def results() -> Any:
                for first in range(0, self.size, self.rows):
                    block = Block(self.values[first : first + self.rows], first)
                    yield function(block, *params)
                    shown.update(len(block.values))

            return tree_sum(results())


def collected(source: Source) -> Table:
    """All whole rows of a source that is small enough, as a table of the door."""
    return as_table(source, source.map_sum(take_rows).table)


def as_table(source: Source, values: Float[np.ndarray, "n D"]) -> Table:
    """Rows of a source as a table of the door, without those that have missing values."""
    whole = ~np.isnan(values).any(axis=1)
    schema = source.schema
    return Table(
        np.ascontiguousarray(values[whole]),
        schema.names,
        schema.discrete,
        np.flatnonzero(whole),
        len(values),
        schema.levels,
        source.label,
    )


def take_rows(block: Block) -> Stacked:
    """A block as it is."""
    return Stacked((block.values,))


def in_memory(table: Table, label: str | None = None) -> Memory:
    """A table of the door as a source."""
    schema = Schema(table.names, tuple(map(bool, table.categorical)), table.levels, table.units)
    return Memory(label or table.label, schema, table.values)

"""Sides of the same rows, wherever these are: columns of one table by name, or a table for each side.

What is small enough is brought into memory and tested as any arrays are; what is not stays where it is, and
only one table can be read then: nobody knows how the blocks of two would meet.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.text import rows
from kembed.data.columns import Labelled
from kembed.data.files import checked
from kembed.data.tables import Table, read_tables
from kembed.engines.kinds import is_large_source
from kembed.engines.memory import Memory, as_table, take_rows
from kembed.engines.settling import open_sources
from kembed.engines.source import Schema, Source

# Numbers that are held at once, 200 MB: beyond, rows stay where they are.
HELD = 2.5e7


@dataclass(frozen=True, eq=False)
class Sided:
    """Rows, and which of their columns are those of every side."""

    source: Source
    columns: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether all rows find room in memory."""
        return self.source.size * sum(map(len, self.columns)) <= HELD

    def tables(self, minimum: int) -> list[Table]:
        """All rows that miss nothing, a table for each side."""
        if not self.held:
            count = sum(map(len, self.columns))
            seen = f"{self.source.label} has {rows(self.source.size)} of {count} columns, more than are held"
            raise ValueError(f"{seen} at once ({HELD:,.0f} numbers); draw some rows, or name fewer columns")
        whole = as_table(self.source, self.source.map_sum(take_rows).table)
        gaps = whole.given - len(whole.values)
        left = f" left after {gaps} of {whole.given} with missing values were dropped" if gaps else ""
        checks.size(len(whole.values), minimum, self.source.label, left)
        notes = tuple(getattr(self.source, "notes", ()))
        return [
            _part(replace(whole, label=label, notes=() if k else notes), own)
            for k, (own, label) in enumerate(zip(self.columns, self.labels, strict=True))
        ]


def _part(table: Table, own: tuple[int, ...]) -> Table:
    """Some columns of a table."""
    places = list(own)
    return replace(
        table,
        values=np.ascontiguousarray(table.values[:, places]),
        names=tuple(table.names[d] for d in places),
        categorical=table.categorical[places],
        levels=tuple(table.levels[d] for d in places),
    )


def are_sided(samples: dict[str, Any], data: Any) -> bool:
    """Whether sides are to be opened: columns of `data`, or anything that is read block by block."""
    return data is not None or any(map(is_large_source, samples.values()))


def open_sides(samples: dict[str, Any], data: Any, nan_policy: str, minimum: int) -> Sided:
    """The sides, by argument name: columns of `data`, or samples with as many rows."""
    how: Any = {"nan_policy": nan_policy, "minimum": minimum}
    if data is not None:
        names = {side: _names(value, side) for side, value in samples.items()}
        _refuse_shared(names)
        every = [name for side in names.values() for name in side]
        (source,) = open_sources({"data": data}, columns=every, **how)
        known = source.schema.names
        checked(every, list(known), source.label)
        columns = tuple(tuple(known.index(name) for name in side) for side in names.values())
        of = tuple(f"{side} of {source.label}" for side in names)
        return Sided(source, columns, of)
    sources = open_sources(samples, same_columns=False, **how)
    for one in sources[1:]:
        if one.size != sources[0].size:
            seen = f"{sources[0].label} has {rows(sources[0].size)} and {one.label} has {rows(one.size)}"
            raise ValueError(
                f"{seen}, but they are paired; give one row per observation in each, in the same order"
            )
    ends = np.cumsum([0, *(len(one.schema.names) for one in sources)])
    if sources[0].size * ends[-1] > HELD:
        seen = f"{sources[0].label} and {sources[1].label} are more than {HELD:,.0f} numbers"
        raise ValueError(
            f"{seen}, which are read block by block; put both into one table and give it as data="
        )
    schemas = [one.schema for one in sources]
    schema = Schema(
        tuple(name for one in schemas for name in one.names),
        tuple(kind for one in schemas for kind in one.categorical),
        tuple(levels for one in schemas for levels in one.levels),
    )
    values = np.hstack([one.map_sum(take_rows).table for one in sources])
    labels = tuple(one.label for one in sources)
    columns = tuple(tuple(range(a, b)) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
    return Sided(Memory(" and ".join(labels), schema, values), columns, labels)


def whole_table(data: Any, nan_policy: str, minimum: int) -> Table:
    """All columns of any kind of table, in memory; missing values are refused or their rows dropped."""
    if not is_large_source(data):
        (table,), missing = read_tables({"data": data}, nan_policy, minimum=minimum, paired=True)
        if missing:
            remedy = "use nan_policy='omit', or drop or impute those rows"
            raise ValueError(f"data has missing values; {remedy}")
        return table
    (source,) = open_sources({"data": data}, nan_policy=nan_policy, minimum=minimum)
    every = tuple(range(len(source.schema.names)))
    return Sided(source, (every,), (source.label,)).tables(minimum)[0]


def _names(value: Any, side: str) -> tuple[str, ...]:
    """The columns of one side."""
    value = value.value if isinstance(value, Labelled) else value
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        seen = f"{value!r} was given" if isinstance(value, str | int | list | tuple) else "values were given"
        raise TypeError(f"{side} must be the name of a column of data, or a list of names, but {seen}")
    return tuple(names)


def _refuse_shared(names: dict[str, tuple[str, ...]]) -> None:
    """No column is on two sides, or twice on one."""
    seen: dict[str, str] = {}
    for side, own in names.items():
        for name in own:
            if name in seen:
                where = f"in {seen[name]} and in {side}" if seen[name] != side else f"twice in {side}"
                raise ValueError(f"column {name!r} is {where}; leave it out of one")
            seen[name] = side

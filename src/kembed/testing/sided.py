"""Sides of the same rows, wherever these are: columns of one table by name, or a table for each side.

What fits in memory is tested as any arrays are; one table that does not stays where it is.
"""

from dataclasses import dataclass, replace
from typing import Any

from kembed.core import checks
from kembed.tables.frames import Labelled
from kembed.tables.parts import InputError
from kembed.tables.reader import read, read_tables, tables_of
from kembed.tables.source import Source
from kembed.tables.table import Table


@dataclass(frozen=True, eq=False)
class Sided:
    """Rows, and which of their columns are those of every side."""

    source: Source
    columns: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether all rows fit in memory."""
        return self.source.held

    def tables(self, minimum: int) -> list[Table]:
        """All rows that miss nothing, a table for each side."""
        (whole,) = tables_of([self.source])
        gaps = whole.given - len(whole.values)
        left = f" left after {gaps} of {whole.given} with missing values were dropped" if gaps else ""
        checks.size(len(whole.values), minimum, self.source.label, left)
        return [
            replace(whole.columns(list(own)), label=label, notes=() if k else whole.notes)
            for k, (own, label) in enumerate(zip(self.columns, self.labels, strict=True))
        ]


def open_sides(samples: dict[str, Any], data: Any, nan_policy: str, minimum: int) -> Sided:
    """The sides as columns of `data`, by argument name; an indicator of missing values is on its column's."""
    names = {side: _names(value, side) for side, value in samples.items()}
    owner: dict[str, str] = {}
    for side, name in ((side, name) for side, own in names.items() for name in own):
        if name in owner:
            where = f"twice in {side}" if owner[name] == side else f"in {owner[name]} and in {side}"
            raise ValueError(f"column {name!r} is {where}; leave it out of one")
        owner[name] = side
    (source,) = read({"data": data}, columns=list(owner), nan_policy=nan_policy, minimum=minimum)
    schema = source.schema
    owners = [of or name for name, of in zip(schema.names, schema.missing_of, strict=True)]
    columns = tuple(tuple(d for d, own in enumerate(owners) if own in side) for side in names.values())
    return Sided(source, columns, tuple(f"{side} of {source.label}" for side in names))


def side_tables(samples: dict[str, Any], nan_policy: str, minimum: int) -> tuple[list[Table], bool]:
    """A table for each side, with as many rows; and whether "propagate" met a missing value."""
    try:
        return read_tables(samples, nan_policy, minimum=minimum, paired=True)
    except InputError as error:
        if all(isinstance(value, str) for value in samples.values()):
            remedy = "pass names of columns together with data=table, or pass arrays"
            raise InputError(f"{error}; a text alone is the name of a file: {remedy}") from None
        raise


def whole_table(data: Any, nan_policy: str, minimum: int) -> Table:
    """All columns of any kind of table, in memory; missing values are refused or their rows dropped."""
    (table,), missing = read_tables({"data": data}, nan_policy, minimum=minimum)
    if missing:
        raise ValueError("data has missing values; use nan_policy='include' or 'omit', or impute them")
    return table


def _names(value: Any, side: str) -> tuple[str, ...]:
    """The columns of one side."""
    value = value.value if isinstance(value, Labelled) else value
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) for name in names):
        seen = f"{value!r} was given" if isinstance(value, str | int | list | tuple) else "values were given"
        raise TypeError(f"{side} must be the name of a column of data, or a list of names, but {seen}")
    return tuple(names)

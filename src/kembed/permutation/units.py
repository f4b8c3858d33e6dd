"""Units: which rows of two tables move together, because they are not independent of each other."""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Int
from kembed.core.text import listing
from kembed.tables.frames import Refused, column_of, frame_of, refuse_orders
from kembed.tables.table import Table

# Names of columns that are no variables; no column of a user's is called so.
UNIT, WEIGHT = "\0unit", "\0weight"


def split_units(tables: list[Table], unit: Any) -> tuple[list[Table], list[Int[np.ndarray, " n"]] | None]:
    """The tables without the column that names the units, and the unit of every row, no number in both."""
    if unit is None:
        return tables, None
    codes = unit_codes(tables, unit)
    if isinstance(unit, str):
        kept = [d for d, name in enumerate(tables[0].names) if name != unit]
        tables = [table.columns(kept) for table in tables]
    first, second = (np.unique(each, return_inverse=True)[1].ravel() for each in codes)
    return tables, [first, second + len(first)]


def unit_codes(tables: list[Table], unit: Any) -> list[np.ndarray]:
    """A number for the unit of every row of either table."""
    unit = checked_unit(unit, tables[0].names)
    if isinstance(unit, str):
        return [table.values[:, tables[0].names.index(unit)] for table in tables]
    if not isinstance(unit, int):
        return [
            _named(own, table, f"unit[{k}]") for k, (own, table) in enumerate(zip(unit, tables, strict=True))
        ]
    return [table.rows // min(unit, 2**62) for table in tables]


def checked_unit(unit: Any, names: tuple[str, ...]) -> Any:
    """The name of one of the columns beside others, a pair, or a number of rows; anything else is refused."""
    if isinstance(unit, str):
        variables = [name for name in names if name not in (UNIT, WEIGHT)]
        if unit not in names:
            seen = f"unit={unit!r} is no column; the samples have {listing(variables)}"
            raise ValueError(f"{seen}; name one of them, or give a pair of arrays")
        if variables == [unit]:
            raise ValueError(f"unit={unit!r} is the only column; give at least one more to compare")
        return unit
    if isinstance(unit, tuple | list) and len(unit) == 2:
        return unit
    if isinstance(unit, bool) or not isinstance(unit, int | np.integer):
        wanted = "unit must be a column's name, a pair of arrays, or a number of consecutive rows"
        raise TypeError(f"{wanted}, but {unit!r} was given")
    return checks.count(unit, "unit", 1)


def side_units(tables: list[Table], unit: Any) -> tuple[list[Table], Any]:
    """Two sides of the same rows, and the unit of every row, from a third table or as given, or a number."""
    if len(tables) == 3:
        return tables[:2], np.unique(tables[2].values[:, 0], return_inverse=True)[1].ravel()
    if isinstance(unit, str):
        seen = f"unit={unit!r} names a column, but there is no table"
        raise ValueError(f"{seen}; give data=, or an array with the unit of every row")
    return tables, unit if unit is None or isinstance(unit, int) else _named(unit, tables[0], "unit")


def _named(own: Any, table: Table, name: str) -> np.ndarray:
    """The units of one sample, as codes."""
    frame = frame_of(own, name)
    if len(frame.columns) > 1:
        raise ValueError(f"{name} has {len(frame.columns)} columns; give one, with the unit of each row")
    column = column_of(frame.columns[0], name)
    if isinstance(column, Refused):
        raise column.error(name)
    if len(column.values) != table.given:
        seen = f"{name} has {len(column.values)} entries, but the sample has {table.given} rows"
        raise ValueError(f"{seen}; give one unit for each row")
    refuse_orders([(table.label, table.index), (name, frame.index)])
    entries = (
        np.array(column.values.to_list(), dtype=object) if column.is_text else column.values + 0.0
    )  # -0 is 0
    if any(entry is None or entry != entry for entry in entries):
        raise ValueError(f"{name} has missing values; name the unit of every row")
    _, codes = np.unique(entries.astype(str), return_inverse=True)
    return codes.ravel()[table.rows]


def with_column(tables: list[Table], name: str, columns: list[np.ndarray]) -> list[Table]:
    """The tables with one more numeric column."""
    return [
        replace(
            table,
            values=np.column_stack([table.values, own]),
            names=(*table.names, name),
            categorical=np.append(table.categorical, False),
            levels=(*table.levels, ()),
            missing_of=(*table.missing_of, "") if table.missing_of else (),
        )
        for table, own in zip(tables, columns, strict=True)
    ]


def beside(tables: list[Table]) -> Table:
    """Two tables of as many rows as one, the columns of the second after those of the first."""
    first, second = tables
    return replace(
        first,
        values=np.hstack([first.values, second.values]),
        names=first.names + second.names,
        categorical=np.concatenate([first.categorical, second.categorical]),
        levels=first.levels + second.levels,
    )

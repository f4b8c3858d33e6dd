"""New rows in the codes of a table that was read before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.text import counted, listing
from kembed.tables import text
from kembed.tables.frames import Refused, title
from kembed.tables.parts import Opened, columns_of
from kembed.tables.reader import PLAIN_OPTIONS, open_value, refuse_gaps
from kembed.tables.schema import parsed_column
from kembed.tables.table import Table


def read_like(
    value: Any, argument: str, table: Table, *, exclude: Iterable[str] = (), gaps: bool = False
) -> Float[np.ndarray, "p D"]:
    """New rows with the columns of a table, in its codes: data frames by name, everything else by place.

    A level that the table does not have is -1, which equals none. Columns of `exclude` are not read. Missing
    values are refused; with `gaps` they are nan.
    """
    opened, without = open_value(value, argument), set(exclude)
    given = tuple(name for name in opened.names if name not in without)
    indicators = [bool(of) for of in table.missing_of] or [False] * len(table.names)
    wanted = tuple(name for name, is_one in zip(table.names, indicators, strict=True) if not is_one)
    if opened.framed:
        if set(given) != set(wanted):
            seen = f"{argument} must have the columns {listing(wanted)}"
            raise ValueError(f"{seen}, but has {listing(given)}")
        names = wanted
    elif len(given) != len(wanted):
        seen = f"{argument} has {counted(len(given), 'column')} where the samples have {len(wanted)}"
        raise ValueError(f"{seen}; give the same variables in the same order")
    else:
        names = given
    if not gaps:
        chosen = opened._replace(names=names)
        refuse_gaps(chosen, chosen.survey(PLAIN_OPTIONS, frozenset(names)))
    values = np.column_stack([_encoded_like(opened, name, table, d) for d, name in enumerate(names)])
    return np.hstack([values, np.zeros((len(values), sum(indicators)))])


def _encoded_like(opened: Opened, name: str, table: Table, d: int) -> np.ndarray:
    """One column of new rows, in the codes of a table."""
    found: list[np.ndarray] = []
    where, categorical = f"{title(table.names, d)} of {opened.label}", table.categorical[d]
    code: dict[Any, float] = {level: float(place) for place, level in enumerate(table.levels[d])}
    code[None] = np.nan
    for part in opened.parts:
        for raw in part.read((name,)):
            column = columns_of(raw, part, (name,), PLAIN_OPTIONS)[name]
            if isinstance(column, Refused):
                raise column.error(where)
            if categorical and not column.is_text:
                raise TypeError(f"{where} holds numbers where the samples hold categories")
            if categorical:
                found.append(np.array([code.get(level, -1.0) for level in column.values.to_list()]))
            elif not column.is_text:
                found.append(column.values)
            else:
                present = column.values.drop_nulls().unique()
                fits = text.decide(text.styles(present), present.to_list())
                if len(present) and not fits.style:
                    raise TypeError(f"{where} holds text where the samples hold numbers")
                found.append(parsed_column(column.values, fits.style).values)
    return np.concatenate(found)

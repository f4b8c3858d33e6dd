"""A table as arrays and lists that a file can hold, and as a frame or an array again."""

from typing import Any

import numpy as np

from kembed.tables.table import Table
from kembed.tables.times import DAY, DAYS, HOURS, SECONDS, ZONED


def table_parts(table: Table, framed: bool) -> dict[str, Any]:
    """The rows of a table as numbers and levels; `framed` says that its columns go by name."""
    levels = [list(own) if kind else None for own, kind in zip(table.levels, table.categorical, strict=True)]
    names = list(table.names) if framed else None
    return {"values": table.values, "levels": levels, "framed": names, "units": list(table.units)}


def rows_from_parts(parts: dict[str, Any]) -> Any:
    """The rows again: columns by name where they had names, else an array."""
    columns = [
        [levels[int(code)] for code in column] if levels is not None else column
        for column, levels in zip(parts["values"].T, parts["levels"], strict=True)
    ]
    if parts["framed"] is not None:
        import polars as pl

        kinds = zip(columns, parts["levels"], parts["units"], strict=True)
        named = dict(zip(parts["framed"], (_column(*each) for each in kinds), strict=True))
        return pl.DataFrame(named) if all(isinstance(one, pl.Series) for one in named.values()) else named
    if all(levels is None for levels in parts["levels"]):
        return parts["values"]
    return np.array([list(row) for row in zip(*columns, strict=True)], dtype=object)


def _column(entries: Any, levels: Any, unit: str) -> Any:
    """A column of the type it had: categories, moments, times of day, durations or numbers."""
    import polars as pl

    if levels is not None:
        if all(isinstance(level, str) for level in levels):
            return pl.Series(entries, dtype=pl.String)
        import pandas as pd  # polars has no categories but text

        return pd.Categorical(entries, categories=levels)
    ticks: dict[str, tuple[float, Any]] = {  # per unit, and the type that counts them
        DAYS: (1e6 * DAY, pl.Datetime("us")),
        DAYS + ZONED: (1e6 * DAY, pl.Datetime("us", "UTC")),
        HOURS: (3.6e12, pl.Time),
        SECONDS: (1e6, pl.Duration("us")),
    }
    if unit not in ticks:
        return pl.Series(entries)
    per_unit, kind = ticks[unit]
    return pl.Series(np.round(entries * per_unit).astype(np.int64)).cast(kind)

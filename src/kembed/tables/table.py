"""A sample in memory as numbers: what every test works on."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.tables.times import ZONED


@dataclass(frozen=True, eq=False)
class Table:
    """A sample as numbers: one row an observation, one column a variable."""

    values: Float[np.ndarray, "n D"]  # finite; categorical columns hold the codes 0, 1, 2, ...
    names: tuple[str, ...]  # those of a data frame, else "column 0", "column 1", ...
    categorical: Bool[np.ndarray, " D"]  # which columns hold codes
    rows: Int[np.ndarray, " n"]  # where the rows stood in what the user gave
    given: int  # how many rows that had
    levels: tuple[tuple[Any, ...], ...] = ()  # of every column, in the order of its codes; () for numbers
    label: str = "x"  # what errors call it: the argument, or the name of a labelled sample
    units: tuple[str, ...] = ()  # what numbers of every column count, and in a zone, where the data say so
    notes: tuple[str, ...] = ()  # how columns were read; the same for samples that share their columns
    gaps: tuple[int, ...] = ()  # missing values of every column, in all rows that were given
    index: Any = None  # the labels of all rows that were given, of a pandas object
    missing_of: tuple[str, ...] = ()  # of an indicator of missing values the column; "" for others

    def columns(self, places: list[int]) -> Self:
        """Some of the columns, as a table."""
        own: Any = {
            name: tuple(found[d] for d in places)
            for name in ("names", "levels", "units", "gaps", "missing_of")
            if (found := getattr(self, name))
        }
        values = np.ascontiguousarray(self.values[:, places])
        return replace(self, values=values, categorical=self.categorical[places], **own)

    def column(self, d: int) -> Self:
        return self.columns([d])

    def unit(self, d: int) -> str:
        """What the numbers of column d count; empty where the data do not say."""
        return self.units[d].removesuffix(ZONED) if d < len(self.units) else ""

    def decoded(self, d: int, value: float) -> Any:
        """The entry a number of column d stands for."""
        return self.levels[d][int(value)] if self.categorical[d] else float(value)

    def observed(self, d: int) -> Bool[np.ndarray, " n"]:
        """The rows in which column d was not missing: others hold a fill."""
        indicator = self.missing_of.index(self.names[d]) if self.names[d] in self.missing_of else None
        return np.ones(len(self.values), bool) if indicator is None else self.values[:, indicator] == 0.0


Tables = tuple[Table, Table]  # of the same columns

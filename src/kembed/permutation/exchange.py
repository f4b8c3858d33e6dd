"""Clusters and strata of the rows of samples: what moves together, and what is exchanged within what."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Int
from kembed.core.text import listing
from kembed.tables.frames import Refused, column_of, frame_of, refuse_orders
from kembed.tables.table import Table


@dataclass(frozen=True, eq=False)
class Exchange:
    """Tables without the columns that name clusters and strata, and both of every row (None: none)."""

    tables: list[Table]
    clusters: list[Int[np.ndarray, " n"]] | None = None  # no number in two samples
    strata: list[Int[np.ndarray, " n"]] | None = None
    names: dict[int, str] = field(default_factory=dict)  # of strata
    column: str | None = None  # that the strata are of, where they have a name

    def of(self, places: Sequence[int]) -> "Exchange":
        """The same for some of the tables."""
        own: Any = {
            name: None if found is None else [found[k] for k in places]
            for name, found in (("clusters", self.clusters), ("strata", self.strata))
        }
        return replace(self, tables=[self.tables[k] for k in places], **own)

    @property
    def within(self) -> str:
        """What exchanges are within, in words; empty where there are no strata."""
        return "" if self.strata is None else count_of_strata(len(shared_strata(self.strata)), self.column)


def number_strata(
    columns: list[np.ndarray], levels: tuple[str, ...] | None
) -> tuple[list[Int[np.ndarray, " n"]], dict[int, str]]:
    """A number for the stratum of every row, from a column of values or codes, and the names of strata."""
    distinct, codes = np.unique(np.concatenate(columns), return_inverse=True)
    groups = np.split(codes.ravel(), np.cumsum([len(column) for column in columns])[:-1])
    if not len(shared_strata(groups)):
        both = "both samples" if len(columns) == 2 else "two samples"
        raise ValueError(f"no stratum has rows of {both}; name coarser strata")
    if levels is not None:
        return groups, {k: levels[int(value)] for k, value in enumerate(distinct)}
    names = distinct.tolist()
    return groups, {k: name if isinstance(name, str) else repr(name) for k, name in enumerate(names)}


def shared_strata(groups: list[Int[np.ndarray, " n"]]) -> Int[np.ndarray, " k"]:
    """Strata with rows of two samples or more.

    >>> shared_strata([np.array([0, 0, 1]), np.array([1, 2]), np.array([2])]).tolist()
    [1, 2]
    """
    codes, counts = np.unique(np.concatenate(list(map(np.unique, groups))), return_counts=True)
    return codes[counts > 1]


def count_of_strata(count: int, column: str | None) -> str:
    """So many strata of a column.

    >>> count_of_strata(3, "site"), count_of_strata(1, None)
    ("3 strata of 'site'", '1 stratum')
    """
    return f"{'1 stratum' if count == 1 else f'{count:,} strata'}{f' of {column!r}' if column else ''}"


def one_sided_strata(groups: list[Int[np.ndarray, " n"]], names: dict[int, str]) -> list[str]:
    """Strata that only one sample has: they say nothing about a difference."""
    every = np.unique(np.concatenate(groups))
    return [names[int(code)] for code in np.setdiff1d(every, shared_strata(groups))]


def notes_of_strata(one_sided: list[str], only: str = "rows of one sample only") -> tuple[str, ...]:
    """What to know of strata that are left out."""
    if not one_sided:
        return ()
    one = len(one_sided) == 1
    seen = f"{len(one_sided)} {'stratum has' if one else 'strata have'} {only}"
    return (f"{seen} and {'is' if one else 'are'} left out: {listing(one_sided)}",)


def exchange(tables: list[Table], unit: Any, strata: Any) -> Exchange:
    """What may be exchanged between tables: clusters of rows, within strata.

    A trailing cluster of fewer than `unit` consecutive rows has number -1, which is never exchanged.
    """
    groups, names = (None, {}) if strata is None else stratum_codes(tables, strata)
    codes = None if unit is None else unit_codes(tables, unit)
    dropped = {each for each in (unit, strata) if isinstance(each, str)}
    kept = [d for d, name in enumerate(tables[0].names) if name not in dropped]
    if not kept:
        raise ValueError(
            f"{listing(sorted(dropped))} name clusters or strata, and no column is left to compare"
        )
    rest = [table.columns(kept) for table in tables] if dropped else tables
    column = strata if isinstance(strata, str) else None
    if codes is None:
        return Exchange(rest, None, groups, names, column)
    starts = np.cumsum([0, *map(len, codes)])
    own = (np.unique(each, return_inverse=True)[1].ravel() for each in codes)
    clusters = [each + start for each, start in zip(own, starts[:-1], strict=True)]
    if isinstance(unit, int | np.integer):
        for each, table in zip(clusters, tables, strict=True):
            each[table.rows >= table.given // unit * unit] = -1
    if groups is not None:
        refuse_split(clusters, groups, names)
    return Exchange(rest, clusters, groups, names, column)


def refuse_split(
    clusters: list[np.ndarray],
    strata: list[np.ndarray],
    names: dict[int, str],
    what: str = "a cluster of unit",
    remedy: str = "name clusters that lie within one stratum",
) -> None:
    """Refuse a cluster that lies in two strata."""
    for own, groups in zip(clusters, strata, strict=True):
        order = np.lexsort((groups, own))
        same = (np.diff(own[order]) == 0) & (np.diff(groups[order]) != 0) & (own[order][:-1] >= 0)
        for place in np.flatnonzero(same)[:1]:
            both = [repr(names.get(int(groups[order[place + k]]), "another")) for k in (0, 1)]
            which = f", {' and '.join(both)}" if names else ""
            raise ValueError(f"{what} has rows in two strata{which}; {remedy}")


def stratum_codes(tables: list[Table], strata: Any) -> tuple[list[Int[np.ndarray, " n"]], dict[int, str]]:
    """The stratum of every row of every table as a number, and what the numbers mean."""
    if isinstance(strata, str):
        names = tables[0].names
        if strata not in names:
            seen = f"strata={strata!r} is not a column; the samples have {listing(names)}"
            raise ValueError(f"{seen}; name one of them, or give {_arrays(len(tables))}")
        place = names.index(strata)
        levels = tables[0].levels[place] if tables[0].categorical[place] else None
        return number_strata([table.values[:, place] for table in tables], levels)
    if isinstance(strata, tuple | list) and len(strata) == len(tables):
        named = [
            _texts(own, table, f"strata[{k}]")
            for k, (own, table) in enumerate(zip(strata, tables, strict=True))
        ]
        return number_strata(named, None)
    raise TypeError(f"strata must be a column's name or {_arrays(len(tables))}, but {strata!r} was given")


def _arrays(count: int) -> str:
    return "a pair of arrays" if count == 2 else f"{count} arrays, one for each sample"


def unit_codes(tables: list[Table], unit: Any) -> list[np.ndarray]:
    """A number for the unit of every row of every table."""
    unit = checked_unit(unit, tables[0].names, len(tables))
    if isinstance(unit, str):
        return [table.values[:, tables[0].names.index(unit)] for table in tables]
    if not isinstance(unit, int):
        return [
            np.unique(_texts(own, table, f"unit[{k}]"), return_inverse=True)[1].ravel()
            for k, (own, table) in enumerate(zip(unit, tables, strict=True))
        ]
    return [table.rows // min(unit, 2**62) for table in tables]


def checked_unit(unit: Any, names: tuple[str, ...], count: int = 2) -> Any:
    """The name of one of the columns beside others, arrays, or a number of rows; anything else is refused."""
    if isinstance(unit, str):
        if unit not in names:
            seen = f"unit={unit!r} is no column; the samples have {listing(names)}"
            raise ValueError(f"{seen}; name one of them, or give {_arrays(count)}")
        if tuple(names) == (unit,):
            raise ValueError(f"unit={unit!r} is the only column; give at least one more to compare")
        return unit
    if isinstance(unit, tuple | list) and len(unit) == count:
        return unit
    if isinstance(unit, bool) or not isinstance(unit, int | np.integer):
        wanted = f"unit must be a column's name, {_arrays(count)}, or a number of consecutive rows"
        raise TypeError(f"{wanted}, but {unit!r} was given")
    return checks.count(unit, "unit", 1)


def side_groups(
    tables: list[Table], place: int | None, given: Any, name: str
) -> tuple[Int[np.ndarray, " n"] | None, list[str]]:
    """A number for the unit, or the stratum, of every row of two sides, and what the numbers are called.

    They are the column of one of the tables, or an array that was given beside them; None: there are none.
    """
    if place is not None:
        table = tables[place]
        found, codes = np.unique(table.values[:, 0], return_inverse=True)
        return codes.ravel(), [str(table.decoded(0, value)) for value in found.tolist()]
    if given is None:
        return None, []
    if isinstance(given, str):
        seen = f"{name}={given!r} names a column, but there is no table"
        raise ValueError(f"{seen}; give data=, or an array with the {name} of every row")
    if not hasattr(given, "__len__"):
        wanted = f"{name} must be an array with the {name} of every row, or with data= a column's name"
        raise TypeError(f"{wanted}, but {given!r} was given")
    found, codes = np.unique(_texts(given, tables[0], name), return_inverse=True)
    return codes.ravel(), found.tolist()


def _texts(own: Any, table: Table, name: str) -> np.ndarray:
    """An array beside the rows of a table, as text."""
    frame = frame_of(own, name)
    if len(frame.columns) > 1:
        raise ValueError(f"{name} has {len(frame.columns)} columns; give one, with an entry for each row")
    column = column_of(frame.columns[0], name)
    if isinstance(column, Refused):
        raise column.error(name)
    if len(column.values) != table.given:
        seen = f"{name} has {len(column.values)} entries, but the sample has {table.given} rows"
        raise ValueError(f"{seen}; give one for each row")
    refuse_orders([(table.label, table.index), (name, frame.index)])
    entries = (
        np.array(column.values.to_list(), dtype=object) if column.is_text else column.values + 0.0
    )  # -0 is 0
    if any(entry is None or entry != entry for entry in entries):
        raise ValueError(f"{name} has missing values; give one for each row")
    return np.asarray(entries.astype(str))[table.rows]


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

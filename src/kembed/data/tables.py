"""The door of the tests: arrays, lists and data frames, read into one kind of table.

Numbers stay numbers, text and categories become codes, rows with missing values are refused or dropped.
A sample may come `Labelled`: then errors call it by that name and count its rows from one.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kembed.core import checks
from kembed.core.backend import Bool, Float, Int
from kembed.core.text import counted, listing, rows
from kembed.data.clocks import ZONED
from kembed.data.columns import Column, Sample, read_sample, title
from kembed.data.labels import refuse_orders
from kembed.data.meaning import understood

NAN_POLICIES = ("raise", "omit", "propagate")  # as in SciPy
LARGEST = 1e300  # multiples of spreads, which are lengthscales, must stay numbers


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
    notes: tuple[str, ...] = ()  # how text was read; the same for samples that share their columns
    gaps: tuple[int, ...] = ()  # missing values of every column, in all rows that were given
    index: Any = None  # the labels of all rows that were given, of a pandas object

    def column(self, d: int) -> Self:
        """One column, as a table."""
        values, kind = np.ascontiguousarray(self.values[:, [d]]), self.categorical[[d]]
        own: Any = {name: getattr(self, name)[d : d + 1] for name in ("names", "levels", "units", "gaps")}
        return replace(self, values=values, categorical=kind, **own)

    def unit(self, d: int) -> str:
        """What the numbers of column d count; empty where the data do not say."""
        return self.units[d].removesuffix(ZONED) if d < len(self.units) else ""

    def decoded(self, d: int, value: float) -> Any:
        """The entry a number of column d stands for."""
        return self.levels[d][int(value)] if self.categorical[d] else float(value)


Tables = tuple[Table, Table]  # of the same columns


def read_tables(
    samples: dict[str, Any], nan_policy: str, minimum: int, same_columns: bool = False, paired: bool = False
) -> tuple[list[Table], bool]:
    """The samples, by argument name or label, as tables; and whether "propagate" met a missing value.

    With `same_columns` all samples have the same variables: data frames are matched by column name, in
    the order of the first, and levels get the same code everywhere. A code is the place of a level among
    the sorted levels of all samples, so that neither the order of rows nor that of samples matters. With
    `paired` the samples have the same rows, and a row missing anywhere is dropped everywhere. Every
    sample needs at least `minimum` rows, once those with missing values are dropped.

    >>> samples = {"x": [["a", 1.5], ["c", 2]], "y": [["b", 0]]}
    >>> (x, y), _ = read_tables(samples, "raise", minimum=1, same_columns=True)
    >>> x.values, y.values, x.categorical
    (array([[0. , 1.5],
           [2. , 2. ]]), array([[1., 0.]]), array([ True, False]))
    """
    checks.choice(nan_policy, "nan_policy", NAN_POLICIES)
    parts = [read_sample(value, argument) for argument, value in samples.items()]
    least = max(minimum, 1)
    for part in parts:
        checks.size(part.size, least, part.argument)
        if paired and part.size != parts[0].size:
            raise ValueError(
                f"{parts[0].argument} has {rows(parts[0].size)} and {part.argument} has {rows(part.size)}, "
                "but they are paired; give one row per observation in each, in the same order"
            )
    if paired:
        refuse_orders([(part.argument, part.index) for part in parts])
    if same_columns:
        parts, notes = understood(_named_alike(parts))
        _refuse_types(parts)
        told = [notes] * len(parts)
    else:
        each = [understood([part]) for part in parts]
        parts, told = [part for (part,), _ in each], [notes for _, notes in each]
    for part in parts:
        _refuse_rows(part, nan_policy)
    missing = [part.missing for part in parts]
    if paired:
        missing = [np.logical_or.reduce(missing)] * len(parts)
    kept = [np.flatnonzero(~gaps) for gaps in missing]
    if nan_policy == "omit":
        anywhere = " in any sample" if paired else ""
        for part, places in zip(parts, kept, strict=True):
            of = f"{part.size - len(places)} of {part.size} with missing values{anywhere}"
            checks.size(len(places), least, part.argument, f" left after {of} were dropped")
    met = nan_policy == "propagate" and any(bool(gaps.any()) for gaps in missing)
    if same_columns:
        tables = _coded(parts, kept)
    else:
        tables = [_coded([part], [places])[0] for part, places in zip(parts, kept, strict=True)]
    return [replace(table, notes=notes) for table, notes in zip(tables, told, strict=True)], met


def _coded(parts: list[Sample], kept: list[np.ndarray]) -> list[Table]:
    """The kept rows of samples that share their levels."""
    D = len(parts[0].columns)
    columns: list[list[np.ndarray]] = []  # of every sample the entries, as numbers
    levels: list[tuple[Any, ...]] = []
    categorical = np.array([any(part.columns[d].categorical for part in parts) for d in range(D)])
    for d in range(D):
        entries = [part.columns[d].entries[places] for part, places in zip(parts, kept, strict=True)]
        levels.append(())
        if categorical[d]:
            everywhere = " and ".join(part.argument for part in parts)
            levels[d] = _levels(entries, f"{title(parts[0].names, d)} of {everywhere}")
            entries = [_codes(column, levels[d]) for column in entries]
        columns.append([column.astype(float) for column in entries])
    each = zip(zip(*columns, strict=True), parts, kept, strict=True)
    units = tuple(next((p.columns[d].counts for p in parts if p.columns[d].unit), "") for d in range(D))
    all_levels = tuple(levels)
    return [
        Table(
            np.column_stack(own),
            part.names,
            categorical,
            places,
            part.size,
            all_levels,
            part.argument,
            units,
            gaps=tuple(int(column.missing.sum()) for column in part.columns),
            index=part.index,
        )
        for own, part, places in each
    ]


def _levels(samples: list[np.ndarray], where: str) -> tuple[Any, ...]:
    """The sorted levels of all samples."""
    levels = {level for entries in samples for level in entries}
    try:
        return tuple(sorted(levels))
    except TypeError:
        kinds = ", ".join(sorted({type(level).__name__ for level in levels}))
        seen = f"{where} has categories of different types ({kinds})"
        raise TypeError(f"{seen}; make all of them text") from None


def _codes(entries: np.ndarray, levels: tuple[Any, ...]) -> np.ndarray:
    """The place of every entry among the levels; -1, which equals none, for a level never seen."""
    code = {level: float(place) for place, level in enumerate(levels)}
    return np.array([code.get(level, -1.0) for level in entries], dtype=float)


def read_like(value: Any, argument: str, table: Table) -> Float[np.ndarray, "p D"]:
    """New rows with the columns of a table, in its codes: data frames by name, everything else by place."""
    part = read_sample(value, argument)
    if part.framed:
        if set(part.names) != set(table.names):
            wanted = f"{argument} must have the columns {listing(table.names)}"
            raise ValueError(f"{wanted}, but has {listing(part.names)}")
        part = _named_as(table.names, part)
    if len(part.names) != len(table.names):
        seen = f"{argument} has {len(part.names)} columns where the samples have {len(table.names)}"
        raise ValueError(f"{seen}; give the same variables in the same order")
    # What was read as numbers in the samples is read so here; what were words stay words.
    if any(
        column.categorical and not known
        for column, known in zip(part.columns, table.categorical, strict=True)
    ):
        part = _read_where(part, ~table.categorical)
    _refuse_rows(part, "raise")
    values = np.empty((part.size, len(table.names)))
    for d, column in enumerate(part.columns):
        if table.categorical[d] != column.categorical:
            held, expected = ("text", "numbers") if column.categorical else ("numbers", "categories")
            where = f"{title(table.names, d)} of {argument}"
            raise TypeError(f"{where} holds {held} where the samples hold {expected}")
        values[:, d] = _codes(column.entries, table.levels[d]) if column.categorical else column.entries
    return values


def _read_where(part: Sample, numeric: Bool[np.ndarray, " D"]) -> Sample:
    """The text of these columns read."""
    (read,), _ = understood([part])
    columns: list[Column] = [
        new if is_ else old for old, new, is_ in zip(part.columns, read.columns, numeric, strict=True)
    ]
    return part._replace(columns=columns)


def _named_alike(parts: list[Sample]) -> list[Sample]:
    """The samples with the same columns: data frames by name, everything else by place."""
    first, *others = parts
    for part in others:
        if len(part.names) != len(first.names) and not (part.framed and first.framed):
            raise ValueError(
                f"{part.argument} has {counted(len(part.names), 'column')} where {first.argument} has "
                f"{len(first.names)}; give the same variables in the same order in both"
            )
    frames = [part for part in parts if part.framed]
    for part in frames:
        if set(part.names) != set(frames[0].names):
            raise _different_columns(frames[0], part)
    if frames:
        parts = [_named_as(frames[0].names, part) for part in parts]
    return parts


def matched(parts: list[Sample]) -> list[Sample]:
    """The samples with the same columns, of the same types."""
    parts = _named_alike(parts)
    _refuse_types(parts)
    return parts


def _refuse_types(parts: list[Sample]) -> None:
    """Refuse a column that is text in one sample and numbers in another."""
    for d in range(len(parts[0].names)):  # a column with nothing in it is of either type
        seen = [part for part in parts if not part.columns[d].missing.all()]
        holder = {part.columns[d].categorical: part.argument for part in seen[::-1]}
        if len(holder) == 2:
            raise TypeError(
                f"{title(parts[0].names, d)} holds text or categories in {holder[True]} but numbers in "
                f"{holder[False]}; give it the same type in both"
            )


def _named_as(names: tuple[str, ...], part: Sample) -> Sample:
    order = [part.names.index(name) for name in names] if part.framed else range(len(names))
    return part._replace(names=names, columns=[part.columns[d] for d in order])


def _different_columns(first: Sample, other: Sample) -> ValueError:
    only = [
        f"only {mine.argument} has {listing(name for name in mine.names if name not in yours.names)}"
        for mine, yours in ((first, other), (other, first))
        if not set(mine.names) <= set(yours.names)
    ]
    return ValueError(
        f"{first.argument} and {other.argument} must have the same columns, but {' and '.join(only)} "
        f"({first.argument}: {listing(first.names)}; {other.argument}: {listing(other.names)}); "
        "rename or drop columns until the names agree"
    )


def _refuse_rows(part: Sample, nan_policy: str) -> None:
    """No infinite values ever, and no missing ones unless they are to be dropped."""
    none = np.zeros(part.size, dtype=bool)
    sizes = [np.abs(column.entries) for column in part.columns if not column.categorical]
    found = {"infinite values": np.logical_or.reduce([np.isinf(size) for size in sizes] or [none])}
    too_large = np.logical_or.reduce([size > LARGEST for size in sizes] or [none]) & ~found["infinite values"]
    if too_large.any():
        seen = f"{part.argument} has numbers beyond {LARGEST:g}, of which floats hold no multiples"
        where = f"(first: row {part.first + np.argmax(too_large)})"
        raise ValueError(f"{seen} {where}; divide the column by a constant")
    if nan_policy == "raise":
        found["missing values"] = part.missing
    for what, bad in found.items():
        if bad.any():
            where = f"row {part.first + np.argmax(bad)}"
            raise unfit_rows(part.argument, what, int(np.count_nonzero(bad)), part.size, where)


def unfit_rows(argument: str, what: str, count: int, size: int, first: str) -> ValueError:
    """The error for rows with infinite or missing values; `first` says where the first one is."""
    hint = " or use nan_policy='omit'" if what == "missing values" else ""
    seen = f"{argument} has {what} in {count} of {size} rows (first: {first})"
    return ValueError(f"{seen}; drop or impute those rows{hint}")

"""Arrays, lists, dictionaries and data frames as columns: numbers, or text.

Every kind of data frame is read through narwhals, polars' own directly. A column that is neither numbers nor
text (nested values, bytes) is `Refused`: the reader leaves it out or raises an error with its name.
"""

from __future__ import annotations

import numbers
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import is_jax, is_traced
from kembed.core.text import listing, rows
from kembed.tables import times
from kembed.tables.table import Table

if TYPE_CHECKING:
    import polars as pl

EXACT = 2**53  # whole numbers up to it are floats
_REMEDIES = {
    "nested values": "spread them over several columns, or drop the column",
    "complex numbers": "give the real and the imaginary part as two columns",
    "bytes": "decode them to text, or drop the column",
}
_KINDS = {"c": "complex numbers", "S": "bytes"}  # by NumPy's kinds
_SEEN: tuple[tuple[tuple[type, ...], str], ...] = (
    ((numbers.Complex,), "complex numbers"),
    ((bytes,), "bytes"),
    ((list, tuple, dict, set, np.ndarray), "nested values"),
)


class Column(NamedTuple):
    """A column of a batch: floats with nan where missing, or text (polars) with null where missing."""

    values: Any
    unit: str = ""  # what numbers count, where the type says so
    declared: bool = False  # categories by type, whatever their text looks like
    inexact: str = ""  # a whole number that no float holds

    @property
    def is_text(self) -> bool:
        return not isinstance(self.values, np.ndarray)

    @property
    def size(self) -> int:
        return len(self.values)

    def slice(self, first: int, size: int) -> Column:
        return self._replace(values=self.values[first : first + size])


class Refused(NamedTuple):
    """A column that cannot be compared: what it holds, and an example."""

    holds: str
    example: str = ""
    size: int = 0  # rows

    def slice(self, first: int, size: int) -> Refused:
        return self._replace(size=size)

    def error(self, where: str) -> TypeError:
        """The error that names the column."""
        remedy = _REMEDIES.get(self.holds, "drop or encode that column")
        return TypeError(f"{where} holds {self.holds}{self.example}; {remedy}")


@dataclass(frozen=True, eq=False)
class Labelled:
    """A sample under the name that its user knows it by, such as that of a file; its rows count from one."""

    value: Any
    label: str


class Frame(NamedTuple):
    """The columns of a value in memory, by name; `kind` is "frame", "array" or "vector"."""

    names: tuple[str, ...]
    columns: list[Any]  # raw: arrays, series, lists
    kind: str
    index: Any = None  # the labels of the rows of a pandas object


def frame_of(value: Any, argument: str) -> Frame:
    """The columns of an array, a list, a dictionary or a data frame."""
    if value is None:
        raise TypeError(f"{argument} is None; give an array or a data frame with one row per observation")
    if is_traced(value):
        seen = f"{argument} is traced by JAX, but this function computes in NumPy"
        raise TypeError(f"{seen}; call it on plain arrays")
    plain = isinstance(value, np.ndarray | list | tuple | str | numbers.Number) or is_jax(value)
    if plain or hasattr(value, "nnz"):  # a sparse matrix, which may be a mapping, is refused as an array
        return _of_array(value, argument)
    if isinstance(value, Mapping) or hasattr(value, "data_vars"):  # the latter is xarray's Dataset
        return _of_mapping(value, argument)
    library = _library(value)
    native = value if is_polars(value) else _narwhal(value, argument)
    if isinstance(native, library.LazyFrame):
        native = native.collect()
    if isinstance(native, library.DataFrame):
        names = named_columns(native.columns)
        _refuse_duplicates(argument, names)
        checks.shape(native.shape, argument)
        # Polars reads some names as patterns, so columns go on without them.
        return Frame(names, [one.alias("column") for one in native.iter_columns()], "frame", index_of(value))
    if isinstance(native, library.Series):
        name = "column 0" if native.name in (None, "") else str(native.name)
        return Frame((name,), [native.alias("column")], "vector", index_of(value))
    if hasattr(value, "__arrow_c_stream__") and not hasattr(value, "__array__"):  # some other Arrow library's
        import polars as pl

        return frame_of(pl.DataFrame(value), argument)
    if hasattr(getattr(value, "dtype", None), "categories"):  # a pandas Categorical without its Series
        return Frame(("column 0",), [value], "vector")
    return _of_array(value, argument)


def is_polars(value: Any) -> bool:
    """Whether it is an object of polars, which is not imported to find out."""
    return type(value).__module__.split(".")[0] == "polars"


def _library(value: Any) -> Any:
    """The library whose words a frame or column understands: polars itself, or narwhals for all others."""
    if is_polars(value):
        import polars

        return polars
    import narwhals.stable.v2 as nw

    return nw


def _narwhal(value: Any, argument: str) -> Any:
    """Some other library's frame or column behind narwhals' words; anything else as it is."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(value, pass_through=True, allow_series=True)
    except DuplicateError:
        _refuse_duplicates(argument, tuple(map(str, getattr(value, "column_names", value.columns))))
        raise


def _of_mapping(value: Any, argument: str) -> Frame:
    """The columns of a dictionary, or of a Dataset with one dimension, by name."""
    columns = []
    variables = getattr(value, "data_vars", None)
    named = value if variables is None else {name: one.values for name, one in variables.items()}
    for name, column in named.items():
        if isinstance(column, list | tuple) and any(isinstance(one, list | tuple | dict) for one in column):
            column = np.fromiter(column, dtype=object, count=len(column))  # nested values, as in a frame
        found = frame_of(column, f"{name!r} of {argument}")
        if len(found.columns) > 1 or found.kind != "vector":
            seen = f"{name!r} of {argument} is no column (it has more than one dimension)"
            raise ValueError(f"{seen}; give one vector a column")
        columns.append(found.columns[0])
    refuse_orders([(repr(name), index_of(one)) for name, one in named.items()])
    names = named_columns(named)
    _refuse_duplicates(argument, names)
    lengths = {len(column): name for name, column in zip(names, columns, strict=True)}
    if len(lengths) > 1:
        seen = " and ".join(f"{name!r} has {rows(length)}" for length, name in list(lengths.items())[:2])
        raise ValueError(
            f"the columns of {argument} are not of one length: {seen}; give one row an observation"
        )
    checks.shape((next(iter(lengths), 0), len(names)), argument)
    return Frame(names, columns, "frame", index_of(value))


def _of_array(value: Any, argument: str) -> Frame:
    """The columns of an array or nested list; a vector is one column."""
    array = checks.rectangular(value, argument)
    if array.dtype.kind == "U" and not isinstance(value, np.ndarray):
        array = np.array(value, dtype=object)  # NumPy has made text of the numbers beside text
    if array.ndim == 0:
        raise TypeError(f"{argument} must be an array or a data frame, but {reprlib.repr(value)} was given")
    kind = "vector" if array.ndim == 1 else "array"
    array = array[:, None] if array.ndim == 1 else array
    checks.shape(array.shape, argument)
    names = tuple(f"column {d}" for d in range(array.shape[1]))
    return Frame(names, [np.asarray(array[:, d]) for d in range(array.shape[1])], kind, index_of(value))


def named_columns(names: Iterable[Any]) -> tuple[str, ...]:
    """The names of columns as text; those without one are called by their places.

    >>> named_columns(["a", "", 3])
    ('a', 'unnamed 2', '3')
    """
    return tuple(str(name) or f"unnamed {place}" for place, name in enumerate(names, start=1))


def _refuse_duplicates(argument: str, names: tuple[str, ...]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{argument} has more than one column named {listing(twice)}; rename or drop them")


def title(names: tuple[str, ...], d: int) -> str:
    """What errors call column d."""
    return names[d] if names[d] == f"column {d}" else f"column {names[d]!r}"


def column_of(column: Any, where: str, first: int = 0) -> Column | Refused:
    """A vector, a series of polars or narwhals, or a pandas Categorical; `first` numbers its first row."""
    found = _column_of(column, where, first)
    return found._replace(size=len(column)) if isinstance(found, Refused) else found


def _column_of(column: Any, where: str, first: int) -> Column | Refused:
    zoned = False
    if not isinstance(column, np.ndarray):
        if not hasattr(column, "to_native") and not is_polars(column):
            return _declared(list(column))
        types = _library(column)
        if column.dtype.is_nested():
            return Refused("nested values")
        if isinstance(column.dtype, types.Categorical | types.Enum):
            return _declared(column.to_list())
        if is_polars(column) and column.dtype == types.String:
            return _of_text(column)
        if is_polars(column) and column.dtype == types.Time:
            hours = column.cast(types.Int64).cast(types.Float64) / times.NANOSECONDS
            return Column(hours.fill_null(np.nan).to_numpy(), times.HOURS)
        zoned = isinstance(column.dtype, types.Datetime) and column.dtype.time_zone is not None
        if zoned:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        if column.dtype.is_integer() and len(column) and _beyond(column.min(), column.max()):
            column = np.array(column.to_list(), dtype=object)  # one by one: floats cannot tell them apart
        else:
            column = (column.cast(types.Float64) if column.dtype.is_numeric() else column).to_numpy()
    kind = column.dtype.kind
    if kind in "iu" and len(column) and _beyond(column.min(), column.max()):
        column, kind = column.astype(object), "O"
    if kind in "mM":
        try:
            values = times.numbers_of(column)
        except TypeError:  # months and years have no length
            return Refused(f"durations in units without a length ({column.dtype})")
        unit = times.SECONDS if kind == "m" else times.DAYS + (times.ZONED if zoned else "")
        return Column(values, unit)
    if kind in "biuf":
        with np.errstate(over="ignore"):  # a long double beyond float becomes infinite, which is refused
            return Column(column.astype(float, copy=False))
    if kind in "OUT":
        return _of_objects(column, where, first)
    return Refused(_KINDS.get(kind, f"values of type {column.dtype}"))


def _beyond(*ends: Any) -> bool:
    """Whether whole numbers are so large that floats leave some of them out."""
    return any(end is not None and abs(int(end)) > EXACT for end in ends)


def _of_text(text: pl.Series) -> Column:
    """Text without spaces around it; empty text is missing."""
    text = text.str.strip_chars()
    return Column(text.set(text == "", None))


def _of_objects(column: np.ndarray, where: str, first: int) -> Column | Refused:
    """Objects: all text, or all numbers, or all times; else an error that names the row."""
    import polars as pl

    listed = column.tolist()
    if set(map(type, listed)) <= {str, type(None)}:
        return _of_text(pl.Series("column", listed, dtype=pl.String))
    entries = column.astype(object)
    missing = np.array([_is_missing(entry) for entry in entries], dtype=bool)
    present = entries[~missing]
    if len(present) and all(isinstance(entry, times.types()) for entry in present):
        return _of_times(entries, missing, where, first)
    values = np.full(len(entries), np.nan)
    seen: dict[bool, list[int]] = {True: [], False: []}  # rows of text and rows of numbers
    for row in np.flatnonzero(~missing).tolist():
        text = isinstance(entries[row], str)
        seen[text].append(row)
        if not text:
            number = _number(entries[row], where, row + first)
            if isinstance(number, Refused):
                return number
            values[row] = number
    if not seen[True]:
        whole = [one for one in present if isinstance(one, int | np.integer) and _beyond(one)]
        odd = next((str(one) for one in whole if np.isfinite(_float(one)) and int(_float(one)) != one), "")
        return Column(values, inexact=odd)
    if not seen[False]:
        text_only = [None if gap else entry for entry, gap in zip(entries, missing, strict=True)]
        return _of_text(pl.Series("column", text_only, dtype=pl.String))
    text_row, number_row = seen[True][0], seen[False][0]
    raise TypeError(
        f"{where} mixes numbers and text: {entries[number_row]!r} (row {number_row + first}) and "
        f"{entries[text_row]!r} (row {text_row + first}); "
        "make the whole column numbers or the whole column text"
    )


def _of_times(entries: np.ndarray, missing: np.ndarray, where: str, first: int) -> Column:
    places = np.flatnonzero(~missing).tolist()
    units = {times.unit_of(entries[row]): row for row in places[::-1]}
    if len(units) > 1:
        examples = " and ".join(f"{entries[row]!r} (row {row + first})" for row in units.values())
        raise TypeError(f"{where} mixes kinds of times: {examples}; give a column of each kind")
    values = np.full(len(entries), np.nan)
    values[places] = [times.number_of(entries[row]) for row in places]
    return Column(values, next(iter(units)))


def _declared(levels: list[Any]) -> Column:
    import polars as pl

    text = [None if _is_missing(level) else level_text(level) for level in levels]
    return Column(pl.Series("column", text, dtype=pl.String), declared=True)


def level_text(level: Any) -> str:
    """The text of a category: whole numbers without a point.

    >>> level_text(1.0), level_text(2), level_text("a"), level_text(0.5)
    ('1', '2', 'a', '0.5')
    """
    whole = isinstance(level, float | np.floating) and float(level).is_integer()
    return str(int(level)) if whole else str(level)


def column_of_table(table: Table, d: int) -> Column:
    """A column of a table that was read before."""
    values = table.values[:, d]
    if not table.categorical[d]:
        return Column(values, table.units[d] if table.units else "")
    return _declared([table.decoded(d, code) for code in values])


def _is_missing(entry: Any) -> bool:
    """None, NaN, or what pandas writes as <NA> and NaT."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float | np.inexact | np.datetime64 | np.timedelta64) and bool(entry != entry)


def _number(entry: Any, where: str, row: int) -> float | Refused:
    """One object as a float; a whole number beyond all floats is infinite, and refused as such."""
    # Times before numbers: NumPy counts its time differences among the integers.
    if isinstance(entry, times.types()):
        raise TypeError(
            f"{where} mixes times with numbers or text ({entry!r} in row {row}); give a column of each"
        )
    if not isinstance(entry, numbers.Real | Decimal | np.bool_):
        seen = next((word for kinds, word in _SEEN if isinstance(entry, kinds)), "")
        return Refused(seen or f"objects of type {type(entry).__name__}", f" ({entry!r} in row {row})")
    return _float(entry)


def _float(entry: Any) -> float:
    try:
        return float(entry)
    except OverflowError:
        return np.inf
    except ValueError:  # a signalling NaN among decimals
        return np.nan


def as_declared(column: Column) -> Column:
    """The same as categories: numbers and text as text (`--as-text`)."""
    if column.is_text:
        return column._replace(declared=True)
    return _declared(column.values.tolist())


def index_of(value: Any) -> Any:
    """The labels of the rows of a pandas object, or of the columns of a dictionary; None if it has none."""
    if isinstance(value, Mapping):
        return next((found for found in map(index_of, value.values()) if found is not None), None)
    return value.index if hasattr(value, "index") and hasattr(value, "iloc") else None


def refuse_orders(indexes: list[tuple[str, Any]]) -> None:
    """Refuse pandas objects that are paired by place where their labels say otherwise; None has no labels."""
    labelled = [(argument, index) for argument, index in indexes if index is not None]
    for argument, index in labelled[1:]:
        first, other = labelled[0]
        if len(index) != len(other) or index.equals(other):
            continue
        unique = index.is_unique and other.is_unique
        common = len(index.intersection(other)) if unique else len(index) * (Counter(index) == Counter(other))
        # Rows that are counted from 0 may have no labels: a few that others share are chance.
        counted = any(type(one).__name__ == "RangeIndex" and one[0] == 0 for one in (index, other))
        if common > (len(index) // 2 if counted else 0):
            seen = f"{first} and {argument} have rows of the same labels in different places of their indexes"
            if common < len(index):
                shared = f"{common:,} of {len(index):,}"
                seen = f"{first} and {argument} have indexes with {shared} labels in common"
            align = f"align them ({argument}.loc[{first}.index])" if unique else "bring them into one order"
            raise ValueError(f"{seen}; {align}, or pair rows by place with reset_index(drop=True)")

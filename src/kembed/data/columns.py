"""One sample, column by column: numbers, or the levels of a categorical variable.

Whatever holds it, an array, nested lists or a data frame, it is read here into one kind of column; dates,
times and durations are numbers (`clocks`), and what is neither number nor text is refused by name. Narwhals,
which reads every kind of data frame, speaks as polars does: it is imported only when something comes in that
is no array, no list and not polars' own.
"""

import numbers
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Bool, is_jax, is_traced
from kembed.core.text import listing, rows
from kembed.data import clocks
from kembed.data.labels import index_of, refuse_orders

# What is neither number nor text, and what to do about it; by NumPy's kinds, and by types of objects.
_REMEDIES = {
    "nested values": "spread them over several columns, or drop the column",
    "complex numbers": "give the real and the imaginary part as two columns",
    "bytes": "decode them to text, or drop the column",
}
_KINDS = {"c": "complex numbers", "S": "bytes"}
EXACT, FLOATS = 2**53, 2**1023  # whole numbers up to the first are floats; beyond the second maybe infinite
_SEEN: tuple[tuple[tuple[type, ...], str], ...] = (
    ((numbers.Complex,), "complex numbers"),
    ((bytes,), "bytes"),
    ((list, tuple, dict, set, np.ndarray), "nested values"),
)


class Column(NamedTuple):
    """One variable: floats, or the levels of a categorical variable; what is missing is not looked at."""

    entries: np.ndarray
    missing: Bool[np.ndarray, " n"]
    categorical: bool
    unit: str = ""  # what numbers count, where the column says so
    declared: bool = False  # categories by type, whatever their words look like
    note: str = ""  # what to say of it
    zoned: bool = False  # moments with a zone, in UTC

    @property
    def counts(self) -> str:
        """What its numbers count, and whether in a zone: what samples that are compared must share."""
        return f"{self.unit}{clocks.ZONED}" if self.zoned else self.unit


@dataclass(frozen=True, eq=False)
class Labelled:
    """A sample under the name that its user knows it by, such as that of a file; its rows count from one."""

    value: Any
    label: str


class Sample(NamedTuple):
    """A sample before rows are dropped and levels coded; `framed` says that its columns go by name."""

    argument: str
    names: tuple[str, ...]
    columns: list[Column]
    framed: bool
    first: int  # the number of the first row
    index: Any = None  # the labels of the rows of a pandas object

    @property
    def size(self) -> int:
        """How many rows."""
        return len(self.columns[0].missing)

    @property
    def missing(self) -> Bool[np.ndarray, " n"]:
        """The rows with any missing value."""
        return np.logical_or.reduce([column.missing for column in self.columns])


def read_sample(value: Any, argument: str) -> Sample:
    """One sample; a `Labelled` one under its own name, with rows counted from one."""
    first = 0
    if isinstance(value, Labelled):
        value, argument, first = value.value, value.label, 1
    names, parts, kind = _parts(value, argument)
    places = [argument if kind == "vector" else f"{title(names, d)} of {argument}" for d in range(len(names))]
    columns = [_read_column(part, place, first) for part, place in zip(parts, places, strict=True)]
    return Sample(argument, names, columns, kind == "frame", first, index_of(value))


def _parts(value: Any, argument: str) -> tuple[tuple[str, ...], list[Any], str]:
    """The names of the columns, the columns, and whether it was a "frame", an "array" or a "vector"."""
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
    frames = _frames(value)
    native = value if _of_polars(value) else _narwhal(value, argument)
    if isinstance(native, frames.LazyFrame):
        native = native.collect()
    if isinstance(native, frames.DataFrame):
        names = tuple(str(name) for name in native.columns)
        _refuse_duplicates(argument, names)
        checks.shape(native.shape, argument)
        # Polars reads some names as patterns, so columns go on without them.
        return names, [column.alias("column") for column in native.iter_columns()], "frame"
    if isinstance(native, frames.Series):
        return (
            ("column 0" if native.name in (None, "") else str(native.name),),
            [native.alias("column")],
            "vector",
        )
    if hasattr(value, "__arrow_c_stream__") and not hasattr(value, "__array__"):  # some other Arrow library's
        import polars as pl

        return _parts(pl.DataFrame(value), argument)
    if hasattr(getattr(value, "dtype", None), "categories"):  # a pandas Categorical without its Series
        return ("column 0",), [value], "vector"
    return _of_array(value, argument)


def _of_polars(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "polars"


def _frames(value: Any) -> Any:
    """The library whose words a frame or column understands: polars itself, or narwhals for all others."""
    if _of_polars(value):
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


def _of_mapping(value: Any, argument: str) -> tuple[tuple[str, ...], list[Any], str]:
    """The columns of a dictionary, or of a Dataset with one dimension, by name."""
    columns = []
    variables = getattr(value, "data_vars", None)
    named = value if variables is None else {name: one.values for name, one in variables.items()}
    for name, column in named.items():
        _, (found, *others), kind = _parts(column, f"{name!r} of {argument}")
        if others or kind != "vector":
            seen = f"{name!r} of {argument} is no column (it has more than one dimension)"
            raise ValueError(f"{seen}; give one vector a column")
        columns.append(found)
    refuse_orders([(repr(name), index_of(one)) for name, one in named.items()])
    names = tuple(map(str, named))
    _refuse_duplicates(argument, names)
    lengths = {len(column): name for name, column in zip(names, columns, strict=True)}
    if len(lengths) > 1:
        seen = " and ".join(f"{name!r} has {rows(length)}" for length, name in list(lengths.items())[:2])
        raise ValueError(
            f"the columns of {argument} are not of one length: {seen}; give one row an observation"
        )
    checks.shape((next(iter(lengths), 0), len(names)), argument)
    return names, columns, "frame"


def _of_array(value: Any, argument: str) -> tuple[tuple[str, ...], list[Any], str]:
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
    return names, [np.asarray(array[:, d]) for d in range(array.shape[1])], kind


def _refuse_duplicates(argument: str, names: tuple[str, ...]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{argument} has more than one column named {listing(twice)}; rename or drop them")


def title(names: tuple[str, ...], d: int) -> str:
    """What errors call column d."""
    return names[d] if names[d] == f"column {d}" else f"column {names[d]!r}"


def _read_column(column: Any, where: str, first: int = 0) -> Column:
    """A vector, a series of polars or narwhals, or a pandas Categorical; `first` numbers its first row."""
    zoned = False
    if not isinstance(column, np.ndarray):
        if not hasattr(column, "to_native") and not _of_polars(column):
            return _from_levels(column)
        types = _frames(column)
        if column.dtype.is_nested():
            raise _refusal(where, "nested values")
        if isinstance(column.dtype, types.Categorical | types.Enum):
            return _from_levels(column.to_list())
        zoned = isinstance(column.dtype, types.Datetime) and column.dtype.time_zone is not None
        if zoned:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        if column.dtype.is_integer() and len(column) and _beyond(column.min(), column.max()):
            # one by one: a float cannot tell all of them apart
            column = np.array(column.to_list(), dtype=object)
        else:
            column = (column.cast(types.Float64) if column.dtype.is_numeric() else column).to_numpy()
    kind = column.dtype.kind
    if kind in "iu" and len(column) and _beyond(column.min(), column.max()):
        column, kind = column.astype(object), "O"
    if kind in "mM":
        values = _times(column, where)
        unit = clocks.DAYS if kind == "M" else clocks.SECONDS
        return Column(values, np.isnan(values), False, unit, zoned=zoned)
    if kind in "biuf":
        with np.errstate(over="ignore"):  # a long double beyond float becomes infinite, which is refused
            values = column.astype(float)
        return Column(values, np.isnan(values), False)
    if kind in "OUT":
        return _from_objects(column.astype(object), where, first)
    raise _refusal(where, _KINDS.get(kind, f"values of type {column.dtype}"))


def _from_objects(entries: np.ndarray, where: str, first: int) -> Column:
    """Objects: all text, or all numbers, or an error that names the row."""
    missing = np.array([_is_missing(entry) for entry in entries], dtype=bool)
    if len(present := entries[~missing]) and all(isinstance(entry, clocks.types()) for entry in present):
        return _from_times(entries, missing, where, first)
    values = np.full(len(entries), np.nan)
    rows: dict[bool, list[int]] = {True: [], False: []}  # those of text and those of numbers
    for row in np.flatnonzero(~missing).tolist():
        text = isinstance(entries[row], str)
        rows[text].append(row)
        if not text:
            values[row] = _number(entries[row], where, row + first)
    if not rows[True]:
        note = _rounded(entries[~missing], where)
        return Column(values, missing | np.isnan(values), False, note=note)
    if not rows[False]:
        return Column(entries, missing, True)
    text_row, number_row = rows[True][0], rows[False][0]
    raise TypeError(
        f"{where} mixes numbers and text: {entries[number_row]!r} (row {number_row + first}) and "
        f"{entries[text_row]!r} (row {text_row + first}); "
        "make the whole column numbers or the whole column text"
    )


def _beyond(*numbers: Any) -> bool:
    """Whether whole numbers are so large that floats leave some of them out."""
    return any(number is not None and abs(int(number)) > EXACT for number in numbers)


def _rounded(entries: np.ndarray, where: str) -> str:
    """What to say of whole numbers that floats round; different ones that would become one are refused."""
    large = {int(entry) for entry in entries if isinstance(entry, int | np.integer) and _beyond(entry)}
    finite = [entry for entry in large if abs(entry) < FLOATS]
    if len(set(map(float, finite))) < len(finite):
        seen = f"{where} has different whole numbers beyond 2^53 that are the same as floats"
        raise ValueError(
            f"{seen}; subtract what they have in common, or make them categories if they are codes"
        )
    return "has whole numbers beyond 2^53, which are rounded to floats" if large else ""


def _from_times(entries: np.ndarray, missing: Bool[np.ndarray, " n"], where: str, first: int) -> Column:
    """Objects that tell times, all of one kind."""
    values = np.full(len(entries), np.nan)
    places = np.flatnonzero(~missing).tolist()
    units = {(clocks.unit_of(entries[row]), clocks.is_zoned(entries[row])): row for row in places[::-1]}
    if len(units) > 1:
        examples = " and ".join(f"{entries[row]!r} (row {row + first})" for row in units.values())
        raise TypeError(f"{where} mixes kinds of times: {examples}; give a column of each kind")
    values[places] = [clocks.number_of(entries[row]) for row in places]
    unit, zoned = next(iter(units))
    return Column(values, missing, False, unit, zoned=zoned)


def _times(array: np.ndarray, where: str) -> np.ndarray:
    try:
        return clocks.numbers_of(array)
    except TypeError:  # months and years have no length
        raise _refusal(where, f"durations in units without a length ({array.dtype})") from None


def _from_levels(levels: Iterable[Any]) -> Column:
    """The categories of a categorical variable, whatever they are."""
    listed = list(levels)
    entries = np.fromiter(listed, dtype=object, count=len(listed))
    missing = np.array([_is_missing(level) for level in listed], dtype=bool)
    return Column(entries, missing, True, declared=True)


def _is_missing(entry: Any) -> bool:
    """None, NaN, or what pandas writes as <NA> and NaT."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float | np.inexact | np.datetime64 | np.timedelta64) and bool(entry != entry)


def _number(entry: Any, where: str, row: int) -> float:
    """One object as a float; a whole number beyond all floats is infinite, and refused as such."""
    # Times before numbers: NumPy counts its time differences among the integers.
    if isinstance(entry, clocks.types()):
        raise TypeError(
            f"{where} mixes times with numbers or text ({entry!r} in row {row}); give a column of each"
        )
    if not isinstance(entry, numbers.Real | Decimal | np.bool_):
        seen = next((word for kinds, word in _SEEN if isinstance(entry, kinds)), "")
        seen = seen or f"objects of type {type(entry).__name__}"
        raise _refusal(where, seen, f" ({entry!r} in row {row})")
    try:
        return float(entry)
    except OverflowError:
        return np.inf
    except ValueError:  # a signalling NaN among decimals
        return np.nan


def _refusal(where: str, seen: str, example: str = "") -> TypeError:
    return TypeError(f"{where} holds {seen}{example}; {_REMEDIES.get(seen, 'drop or encode that column')}")

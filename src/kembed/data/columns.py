"""One variable of a sample: numbers, or the levels of a categorical variable.

Whatever holds it, a vector, objects or a column of a data frame, it is read here into one kind of column;
what is neither number nor text is refused by name.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool

_REMEDIES = {
    "dates or times": "convert them to numbers, for example days since a start, or drop the column",
    "nested values": "spread them over several columns, or drop the column",
    "complex numbers": "give the real and the imaginary part as two columns",
    "bytes": "decode them to text, or drop the column",
}
_KINDS = {"M": "dates or times", "m": "dates or times", "c": "complex numbers", "S": "bytes"}
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


class Column(NamedTuple):
    """One variable: floats, or the levels of a categorical variable; what is missing is not looked at."""

    entries: np.ndarray
    missing: Bool[np.ndarray, " n"]
    categorical: bool


def from_series(series: Any, where: str) -> Column:
    """One narwhals series."""
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype.is_temporal():
        raise _refusal(where, "dates or times")
    if dtype.is_nested():
        raise _refusal(where, "nested values")
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return from_levels(series.to_list())
    if dtype.is_numeric():
        series = series.cast(nw.Float64)
    return from_column(series.to_numpy(), where)


def from_column(entries: np.ndarray, where: str) -> Column:
    """A vector of numbers or of objects."""
    kind = entries.dtype.kind
    if kind in "biuf":
        with np.errstate(over="ignore"):  # a long double beyond float becomes infinite, which is refused
            values = entries.astype(float)
        return Column(values, np.isnan(values), False)
    if kind in "OUT":
        return _from_objects(entries.astype(object), where)
    raise _refusal(where, _KINDS.get(kind, f"values of type {entries.dtype}"))


def _from_objects(entries: np.ndarray, where: str) -> Column:
    """Objects: all text, or all numbers, or an error that names the row."""
    missing = np.array([_is_missing(entry) for entry in entries], dtype=bool)
    values = np.full(len(entries), np.nan)
    rows: dict[bool, list[int]] = {True: [], False: []}  # those of text and those of numbers
    for row in np.flatnonzero(~missing).tolist():
        text = isinstance(entries[row], str)
        rows[text].append(row)
        if not text:
            values[row] = _number(entries[row], where, row)
    if not rows[True]:
        return Column(values, missing | np.isnan(values), False)
    if not rows[False]:
        return Column(entries, missing, True)
    text_row, number_row = rows[True][0], rows[False][0]
    raise TypeError(
        f"{where} mixes numbers and text: {entries[number_row]!r} (row {number_row}) and "
        f"{entries[text_row]!r} (row {text_row}); make the whole column numbers or the whole column text"
    )


def from_levels(levels: Iterable[Any]) -> Column:
    """The categories of a categorical variable, whatever they are."""
    listed = list(levels)
    entries = np.fromiter(listed, dtype=object, count=len(listed))
    return Column(entries, np.array([_is_missing(level) for level in listed], dtype=bool), True)


def _is_missing(entry: Any) -> bool:
    """None, NaN, or what pandas writes as <NA> and NaT."""
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float | np.inexact | np.datetime64 | np.timedelta64) and bool(entry != entry)


def _number(entry: Any, where: str, row: int) -> float:
    """One object as a float; a whole number beyond all floats is infinite, and refused as such."""
    seen = _seen(entry)
    if seen:
        raise _refusal(where, seen, f" ({entry!r} in row {row})")
    try:
        return float(entry)
    except OverflowError:
        return np.inf
    except ValueError:  # a signalling NaN among decimals
        return np.nan


def _seen(entry: Any) -> str:
    """What an object is, in words; empty for a real number."""
    if isinstance(entry, _TIMES):  # before numbers: NumPy counts its time differences among the integers
        return "dates or times"
    if isinstance(entry, numbers.Real | Decimal | np.bool_):
        return ""
    if isinstance(entry, numbers.Complex):
        return "complex numbers"
    if isinstance(entry, bytes):
        return "bytes"
    if isinstance(entry, list | tuple | dict | set | np.ndarray):
        return "nested values"
    return f"objects of type {type(entry).__name__}"


def _refusal(where: str, seen: str, example: str = "") -> TypeError:
    return TypeError(f"{where} holds {seen}{example}; {_REMEDIES.get(seen, 'drop or encode that column')}")

"""The door of the tests: arrays, lists and data frames, read into one kind of table.

Numbers stay numbers, text and categories become codes, rows with missing values are refused or dropped.
Narwhals, which reads every kind of data frame, is imported only when something other than an array or a
list comes in.
"""

from __future__ import annotations

import numbers
import reprlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import is_jax, is_traced
from kembed.data.columns import Column, from_column, from_levels, from_series

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

NAN_POLICIES = ("raise", "omit", "propagate")


@dataclass(frozen=True, eq=False)
class Table:
    """A sample as numbers: one row an observation, one column a variable."""

    values: Float[np.ndarray, "n D"]  # finite; categorical columns hold the codes 0, 1, 2, ...
    names: tuple[str, ...]  # those of a data frame, else "column 0", "column 1", ...
    categorical: Bool[np.ndarray, " D"]  # which columns hold codes
    rows: Int[np.ndarray, " n"]  # where the rows stood in what the user gave
    given: int  # how many rows that had
    levels: tuple[tuple[Any, ...], ...] = ()  # of every column, in the order of its codes; () for numbers

    def decoded(self, d: int, value: float) -> Any:
        """The entry a number of column d stands for."""
        return self.levels[d][int(value)] if self.categorical[d] else float(value)


class _Sample(NamedTuple):
    """A sample before rows are dropped and levels coded; `framed` says that its columns go by name."""

    argument: str
    names: tuple[str, ...]
    columns: list[Column]
    framed: bool

    @property
    def size(self) -> int:
        return len(self.columns[0].missing)

    @property
    def missing(self) -> Bool[np.ndarray, " n"]:
        """The rows with any missing value."""
        return np.logical_or.reduce([column.missing for column in self.columns])


def read_tables(
    samples: dict[str, Any], *, nan_policy: str, same_columns: bool, paired: bool, minimum: int
) -> tuple[list[Table], bool]:
    """The samples, by argument name, as tables; and whether "propagate" met a missing value.

    With `same_columns` all samples have the same variables: data frames are matched by column name, in
    the order of the first, and levels get the same code everywhere. A code is the place of a level among
    the sorted levels of all samples, so that neither the order of rows nor that of samples matters. With
    `paired` the samples have the same rows, and a row missing anywhere is dropped everywhere. Every
    sample needs at least `minimum` rows, once those with missing values are dropped.

    >>> (x, y), _ = read_tables({"x": [["a", 1.5], ["c", 2]], "y": [["b", 0]]}, nan_policy="raise",
    ...                         same_columns=True, paired=False, minimum=1)
    >>> x.values, y.values, x.categorical
    (array([[0. , 1.5],
           [2. , 2. ]]), array([[1., 0.]]), array([ True, False]))
    """
    checks.choice(nan_policy, "nan_policy", NAN_POLICIES)
    parts = [_sample(value, argument) for argument, value in samples.items()]
    for part in parts:
        _check_size(part, part.size, minimum, paired)
        if paired and part.size != parts[0].size:
            raise ValueError(
                f"{parts[0].argument} has {_rows(parts[0].size)} and {part.argument} has {_rows(part.size)}, "
                "but they are paired; give one row per observation in each, in the same order"
            )
    if same_columns:
        parts = _matched(parts)
    for part in parts:
        _refuse_rows(part, nan_policy)
    missing = [part.missing for part in parts]
    if paired:
        missing = [np.logical_or.reduce(missing)] * len(parts)
    kept = [np.flatnonzero(~rows) for rows in missing]
    if nan_policy == "omit":
        for part, rows in zip(parts, kept, strict=True):
            _check_size(part, len(rows), minimum, paired)
    met = nan_policy == "propagate" and any(bool(rows.any()) for rows in missing)
    if same_columns:
        return _coded(parts, kept), met
    return [_coded([part], [rows])[0] for part, rows in zip(parts, kept, strict=True)], met


def _coded(parts: list[_Sample], kept: list[np.ndarray]) -> list[Table]:
    """The kept rows of samples that share their levels."""
    categorical = np.array([any(same) for same in zip(*(_kinds(part) for part in parts), strict=True)])
    values = [np.empty((len(rows), len(categorical))) for rows in kept]
    levels: list[tuple[Any, ...]] = []
    for d, coded in enumerate(categorical):
        entries = [part.columns[d].entries[rows] for part, rows in zip(parts, kept, strict=True)]
        if coded:
            everywhere = " and ".join(part.argument for part in parts)
            levels.append(_levels(entries, f"{_title(parts[0].names, d)} of {everywhere}"))
            entries = [_codes(column, levels[-1]) for column in entries]
        else:
            levels.append(())
        for table, column in zip(values, entries, strict=True):
            table[:, d] = column
    return [
        Table(table, part.names, categorical, rows, part.size, tuple(levels))
        for table, part, rows in zip(values, parts, kept, strict=True)
    ]


def _kinds(part: _Sample) -> list[bool]:
    return [column.categorical for column in part.columns]


def _levels(samples: list[np.ndarray], where: str) -> tuple[Any, ...]:
    """The sorted levels of all samples."""
    levels = {level for entries in samples for level in entries}
    try:
        return tuple(sorted(levels))
    except TypeError:
        kinds = ", ".join(sorted({type(level).__name__ for level in levels}))
        raise TypeError(
            f"{where} has categories of different types ({kinds}); make all of them text"
        ) from None


def _codes(entries: np.ndarray, levels: tuple[Any, ...]) -> np.ndarray:
    """The place of every entry among the levels; -1, which equals none, for a level never seen."""
    code = {level: float(place) for place, level in enumerate(levels)}
    return np.array([code.get(level, -1.0) for level in entries], dtype=float)


def read_like(value: Any, argument: str, table: Table) -> Float[np.ndarray, "p D"]:
    """New rows with the columns of a table, in its codes: data frames by name, everything else by place."""
    part = _sample(value, argument)
    if part.framed:
        if set(part.names) != set(table.names):
            raise ValueError(
                f"{argument} must have the columns {_listing(table.names)}, but has {_listing(part.names)}"
            )
        part = _named_as(table.names, part)
    if len(part.names) != len(table.names):
        raise ValueError(
            f"{argument} has {len(part.names)} columns where the samples have {len(table.names)}; "
            "give the same variables in the same order"
        )
    _refuse_rows(part, "raise")
    values = np.empty((part.size, len(table.names)))
    for d, column in enumerate(part.columns):
        if table.categorical[d] and not column.categorical:
            raise TypeError(
                f"{_title(table.names, d)} of {argument} holds numbers where the samples hold categories"
            )
        if column.categorical and not table.categorical[d]:
            raise TypeError(
                f"{_title(table.names, d)} of {argument} holds text where the samples hold numbers"
            )
        entries = column.entries
        values[:, d] = _codes(entries, table.levels[d]) if table.categorical[d] else entries
    return values


# Reading one sample.


def _sample(value: Any, argument: str) -> _Sample:
    if value is None:
        raise TypeError(f"{argument} is None; give an array or a data frame with one row per observation")
    if is_traced(value):
        raise TypeError(
            f"{argument} is traced by JAX, but this function computes in NumPy; call it on plain arrays"
        )
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(f"{argument} is a sparse matrix; give {argument}.toarray()")
    if isinstance(value, np.ndarray | list | tuple | str | numbers.Number) or is_jax(value):
        return _from_array(value, argument)
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        native = nw.from_native(value, pass_through=True, allow_series=True)
    except DuplicateError:
        raise _duplicates(argument, list(map(str, value.columns))) from None
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.DataFrame):
        return _from_frame(native, argument)
    if isinstance(native, nw.Series):
        name = "column 0" if native.name in (None, "") else str(native.name)
        return _Sample(argument, (name,), [from_series(native, argument)], False)
    if hasattr(getattr(value, "dtype", None), "categories"):  # a pandas Categorical without its Series
        return _Sample(argument, ("column 0",), [from_levels(value)], False)
    return _from_array(value, argument)


def _from_frame(frame: Any, argument: str) -> _Sample:
    """The columns of a narwhals frame."""
    names = tuple(str(name) for name in frame.columns)
    if len(set(names)) < len(names):
        raise _duplicates(argument, list(names))
    _check_shape(frame.shape, argument)
    columns = [
        from_series(series, f"column {name!r} of {argument}")
        for name, series in zip(names, frame.iter_columns(), strict=True)
    ]
    return _Sample(argument, names, columns, True)


def _from_array(value: Any, argument: str) -> _Sample:
    """The columns of an array or nested list; a vector is one column."""
    if np.ma.is_masked(value):
        raise ValueError(f"{argument} has masked entries; drop or fill them first")
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged nested lists
        raise ValueError(
            f"{argument} is not a rectangular table ({error}); give every row the same number of columns"
        ) from None
    if array.dtype.kind == "U" and not isinstance(value, np.ndarray):
        array = np.array(value, dtype=object)  # NumPy has made text of the numbers beside text
    if array.ndim == 0:
        raise TypeError(f"{argument} must be an array or a data frame, but {reprlib.repr(value)} was given")
    vector = array.ndim == 1
    array = array[:, None] if vector else array
    _check_shape(array.shape, argument)
    names = tuple(f"column {d}" for d in range(array.shape[1]))
    places = [argument] if vector else [f"{name} of {argument}" for name in names]
    columns = [from_column(np.asarray(array[:, d]), place) for d, place in enumerate(places)]
    return _Sample(argument, names, columns, False)


# Comparing samples.


def _matched(parts: list[_Sample]) -> list[_Sample]:
    """The samples with the same columns: data frames by name, everything else by place."""
    first, *others = parts
    for part in others:
        width = len(part.names)
        if width != len(first.names) and not (part.framed and first.framed):
            raise ValueError(
                f"{part.argument} has {width} column{'s' if width != 1 else ''} where {first.argument} has "
                f"{len(first.names)}; give the same variables in the same order in both"
            )
    frames = [part for part in parts if part.framed]
    for part in frames:
        if set(part.names) != set(frames[0].names):
            raise _different_columns(frames[0], part)
    if frames:
        parts = [_named_as(frames[0].names, part) for part in parts]
    for d in range(len(parts[0].names)):
        _check_types(parts, d)
    return parts


def _named_as(names: tuple[str, ...], part: _Sample) -> _Sample:
    order = [part.names.index(name) for name in names] if part.framed else range(len(names))
    return part._replace(names=names, columns=[part.columns[d] for d in order])


def _check_types(parts: list[_Sample], d: int) -> None:
    """Numbers everywhere or categories everywhere; a column with nothing in it is either."""
    holder: dict[bool, str] = {}
    for part in parts:
        if not part.columns[d].missing.all():
            holder.setdefault(part.columns[d].categorical, part.argument)
    if len(holder) == 2:
        raise TypeError(
            f"{_title(parts[0].names, d)} holds text or categories in {holder[True]} but numbers in "
            f"{holder[False]}; give it the same type in both"
        )


def _different_columns(first: _Sample, other: _Sample) -> ValueError:
    only = [
        f"only {mine.argument} has {_listing(name for name in mine.names if name not in yours.names)}"
        for mine, yours in ((first, other), (other, first))
        if not set(mine.names) <= set(yours.names)
    ]
    return ValueError(
        f"{first.argument} and {other.argument} must have the same columns, but {' and '.join(only)} "
        f"({first.argument}: {_listing(first.names)}; {other.argument}: {_listing(other.names)}); "
        "rename or drop columns until the names agree"
    )


# Checking one sample.


def _check_shape(shape: tuple[int, ...], argument: str) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"{argument} must have one row per observation and one column per variable, "
            f"but its shape is {tuple(shape)}; reshape it to two dimensions"
        )
    if shape[1] == 0:
        raise ValueError(f"{argument} has no columns (shape {tuple(shape)}); give at least one")


def _check_size(part: _Sample, left: int, minimum: int, paired: bool) -> None:
    """Enough rows, before or after some were dropped."""
    if left >= max(minimum, 1):
        return
    dropped = (
        f" left after {part.size - left} of {part.size} with missing values"
        f"{' in any sample' if paired else ''} were dropped"
    )
    raise ValueError(
        f"{part.argument} has {_rows(left)}{dropped if left < part.size else ''}; "
        f"at least {max(minimum, 1)} {'are' if minimum > 1 else 'is'} needed"
    )


def _refuse_rows(part: _Sample, nan_policy: str) -> None:
    """No infinite values ever, and no missing ones unless they are to be dropped."""
    infinite = [np.isinf(column.entries) for column in part.columns if not column.categorical]
    found = {"infinite values": np.logical_or.reduce(infinite) if infinite else np.zeros(part.size, bool)}
    if nan_policy == "raise":
        found["missing values"] = part.missing
    for what, rows in found.items():
        if rows.any():
            hint = " or use nan_policy='omit'" if what == "missing values" else ""
            raise ValueError(
                f"{part.argument} has {what} in {np.count_nonzero(rows)} of {part.size} rows "
                f"(first: row {np.argmax(rows)}); drop or impute those rows{hint}"
            )


# Words.


def _duplicates(argument: str, names: list[str]) -> ValueError:
    twice = [name for name, times in Counter(names).items() if times > 1]
    return ValueError(f"{argument} has more than one column named {_listing(twice)}; rename or drop them")


def _title(names: tuple[str, ...], d: int) -> str:
    return names[d] if names[d] == f"column {d}" else f"column {names[d]!r}"


def _listing(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")


def _rows(count: int) -> str:
    return f"{count} row{'s' if count != 1 else ''}"

"""Parts of a source: consecutive rows that can be read by themselves, here or on another machine.

A part knows where its rows are; it is pickled and sent to where it is read. Most parts are one batch; what
can only be read from its beginning is one part of many batches. `Batches` is a source made of parts.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from kembed.core.progress import LONG, progress_bar
from kembed.tables.frames import Column, Refused, as_declared, column_of
from kembed.tables.missing import Fill, with_indicators
from kembed.tables.schema import Profile, Schema, Spec, parsed_numbers, profile
from kembed.tables.source import Block, Source, tree_sum

if TYPE_CHECKING:
    import polars as pl

ROWS = 2**17  # of a batch: five columns take 5 MB, and a task of a scheduler is worth its overhead
BROUGHT = 5_000  # rows that workers send, where pairs of rows are compared
Raw = Any  # a batch as it is read: an array of numbers, a polars frame, or a list of columns


class InputError(ValueError):
    """What is wrong with what the user gave, in one line with the remedy."""


@dataclass(frozen=True, eq=False)
class Part(ABC):
    """Some consecutive rows: `read` gives them batch by batch."""

    file: str  # what errors call what it is read from
    names: tuple[str, ...]
    number: int = 1  # of the part in its file, from one
    travels: ClassVar[bool] = True  # whether another machine that sees the same files can read it
    delimited: ClassVar[bool] = False  # whether it is a text table, where tokens mean "no value"

    @abstractmethod
    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """These columns, batch by batch; `numbers` are known to hold plain numbers."""

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"block {self.number:,} of {self.file}"

    def changed(self) -> InputError:
        """The error for a file that is not what it was in an earlier pass."""
        return InputError(f"{self.where} has changed while it was read; run again when the file is complete")


@contextmanager
def reading(part: Part) -> Iterator[None]:
    """Whatever goes wrong with the reading of a part is one error that names the file and the block."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except BaseException as error:
        # Polars panics over some damaged files, and its panics are no ordinary exceptions.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, FileNotFoundError):
            seen, remedy = "its file is not there", "every machine that reads must see it under the same name"
        else:
            seen = (str(error).strip() or type(error).__name__).splitlines()[0]
            remedy = "write the file again, or leave it out"
        raise InputError(f"{part.where} cannot be read ({seen}); {remedy}") from None


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Keep what a library of another language writes to standard error off the screen.

    Not in other threads: the stream is that of the process, and two of them would not give it back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # there is none
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def cut(rows: int, size: int = ROWS) -> Iterator[tuple[int, int]]:
    """The first row and the length of batches.

    >>> list(cut(5, 2))
    [(0, 2), (2, 2), (4, 1)]
    """
    for first in range(0, rows, size):
        yield first, min(size, rows - first)


@dataclass(frozen=True, eq=False)
class Held(Part):
    """Rows in memory: an array of numbers, a polars frame, or a list of columns."""

    travels: ClassVar[bool] = False
    values: Any = None
    rows: int = ROWS

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """Slices."""
        values = self.values
        if not isinstance(values, list):
            for first, size in cut(len(values), self.rows):
                yield values[first : first + size]
            return
        yield from sliced([values[self.names.index(name)] for name in columns], self.rows)


def sliced(columns: list[Column | Refused], rows: int) -> Iterator[list[Column | Refused]]:
    """Batches of so many rows."""
    for first, size in cut(columns[0].size, rows):
        yield [
            one._replace(values=one.values[first : first + size], floats=None)
            if isinstance(one, Column)
            else one._replace(size=size)
            for one in columns
        ]


@dataclass(frozen=True, eq=False)
class Scan(Part):
    """Rows of a Parquet or Arrow file, of which only these are decoded."""

    path: str = ""
    kind: str = "parquet"
    first: int = 0
    rows: int = 0
    written: tuple[str, ...] = ()  # the names of the columns in the file, spaces and all
    declared: frozenset[str] = frozenset()  # columns that pandas declares as categories, of numbers too

    @property
    def where(self) -> str:
        """With its rows, counted from one."""
        return f"{super().where} (rows {self.first + 1:,} to {self.first + self.rows:,})"

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """One batch."""
        with reading(self), silent_stderr():
            whole = scan(self.path, self.kind).slice(self.first, self.rows)
            frame = selected(whole, [self.written[self.names.index(name)] for name in columns]).collect()
        frame.columns = list(columns)
        if frame.height != self.rows:
            raise self.changed()
        yield frame


def selected(query: pl.LazyFrame, names: list[str]) -> pl.LazyFrame:
    """These columns of a query; a name is a name, where `select` reads some as patterns."""
    import polars.selectors as cs

    return query.select(*(cs.by_name(name) for name in names))


def scan(path: str, kind: str) -> pl.LazyFrame:
    """A Parquet, Arrow or JSON-lines file, unread."""
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(path, glob=False, hive_partitioning=False)
    if kind == "lines":
        return pl.scan_ndjson(path, infer_schema_length=None)
    try:
        return pl.scan_ipc(path, glob=False, hive_partitioning=False)
    except TypeError:  # an older Polars has no such word
        return pl.scan_ipc(path, hive_partitioning=False)


@dataclass(frozen=True, eq=False)
class Stream(Part):
    """Rows that are read from their beginning, in as many batches as there are.

    `start` is called anew for every pass and gives data frames of any length.
    """

    travels: ClassVar[bool] = False
    start: Callable[[list[str]], Iterator[pl.DataFrame]] = field(default=lambda columns: iter(()))
    rows: int = ROWS

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """Batches of equal length, however the frames come."""
        frames = even(self.start(list(columns)), self.rows)
        while True:
            with reading(self):
                frame = next(frames, None)
            if frame is None:
                return
            yield frame


def even(frames: Iterator[pl.DataFrame], size: int = ROWS) -> Iterator[pl.DataFrame]:
    """The same rows in frames of `size` rows; the last has what is left."""
    import polars as pl

    held: list[pl.DataFrame] = []
    count = 0
    for frame in frames:
        held.append(frame)
        count += frame.height
        if count < size:
            continue
        whole = pl.concat(held)
        for first in range(0, count - count % size, size):
            yield whole.slice(first, size)
        held, count = [whole.slice(count - count % size)], count % size
    if count:
        yield pl.concat(held)


def of_lazy(frame: pl.LazyFrame, size: int) -> Callable[[list[str]], Iterator[pl.DataFrame]]:
    """How the rows of a query come, never all at once."""

    def start(columns: list[str]) -> Iterator[pl.DataFrame]:
        yield from selected(frame, columns).collect_batches(chunk_size=size, maintain_order=True)

    return start


def of_dataset(dataset: Any, size: int) -> Callable[[list[str]], Iterator[pl.DataFrame]]:
    """How the rows of a pyarrow dataset come, in the order of its files."""

    def start(columns: list[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        # Two batches ahead, not sixteen of each of four files: memory before speed.
        few = {"batch_readahead": 2, "fragment_readahead": 1}
        for batch in dataset.to_batches(columns=columns, batch_size=size, **few):
            yield pl.DataFrame(pl.from_arrow(batch))

    return start


class Rules(NamedTuple):
    """What is said of columns: tokens that mean "no value", and which columns are text."""

    missing: tuple[str, ...] = ()  # of text tables: these and those that the user added
    added: tuple[str, ...] = ()  # those that the user added, for every format
    as_text: frozenset[str] = frozenset()

    def of(self, part: Part) -> tuple[str, ...]:
        """The tokens that count in a part."""
        return self.missing if part.delimited else self.added


def columns_of(raw: Raw, part: Part, names: tuple[str, ...], rules: Rules) -> dict[str, Column | Refused]:
    """The columns of a batch, by name."""
    series: list[Any]
    if isinstance(raw, np.ndarray):
        table = raw[:, None] if raw.ndim == 1 else raw
        series = [table[:, part.names.index(name)] for name in names]
    elif isinstance(raw, list):
        series = raw
    else:
        series = [raw.get_column(name).alias("column") for name in names]
    tokens = rules.of(part)
    found = {}
    for name, one in zip(names, series, strict=True):
        column = (
            one if isinstance(one, Column | Refused) else column_of(one, f"column {name!r} of {part.file}")
        )
        if isinstance(column, Column):
            column = without(column, tokens) if tokens else column
            text = name in rules.as_text or name in getattr(part, "declared", ())
            column = as_declared(column) if text else column
        found[name] = column
    return found


def without(column: Column, tokens: tuple[str, ...]) -> Column:
    """The same with tokens, and numbers that they write, as missing values."""
    numbers = [value for value in map(_as_number, tokens) if value == value]
    if column.is_text:
        text = column.values
        if column.declared:
            return column
        gone = text.is_in(list(tokens))
        if numbers:
            import polars as pl

            gone |= text.cast(pl.Float64, strict=False).is_in(numbers).fill_null(False)
        return column._replace(values=text.set(gone, None), floats=None) if gone.any() else column
    if not numbers or column.unit:
        return column
    return column._replace(values=np.where(np.isin(column.values, numbers), np.nan, column.values))


def _as_number(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return np.nan


class Survey(NamedTuple):
    """What was seen of a sample: rows of every part, the profile of every column, rows that cannot be used.

    `complete` counts the rows of every part without missing values; `infinite` and `gap` are the places of
    the first such row, as (part, row of the part).
    """

    rows: tuple[int, ...]
    columns: dict[str, Profile]
    complete: tuple[int, ...] = ()
    infinite: tuple[int, int] | None = None
    gap: tuple[int, int] | None = None

    def plus(self, other: Survey) -> Survey:
        """Of both, one after the other."""
        return Survey(
            self.rows + other.rows,
            {name: one.plus(other.columns[name]) for name, one in self.columns.items()},
            self.complete + other.complete,
            other.infinite if self.infinite is None else self.infinite,
            other.gap if self.gap is None else self.gap,
        )

    @property
    def size(self) -> int:
        """How many rows."""
        return sum(self.rows)

    @property
    def incomplete(self) -> int:
        """Rows with a missing value."""
        return self.size - sum(self.complete)


def survey_part(
    part: Part, number: int, columns: tuple[str, ...], as_text: frozenset[str], rules: Rules
) -> Survey:
    """What there is in one part; `as_text` are columns of which all different texts are wanted."""
    total: Survey | None = None
    for raw in part.read(columns, frozenset()):
        before = 0 if total is None else sum(total.rows)
        found = _survey_batch(raw, part, number, before, columns, as_text, rules)
        total = found if total is None else total.plus(found)
    if total is None:
        return Survey((0,), {name: Profile() for name in columns}, (0,))
    return total._replace(rows=(sum(total.rows),), complete=(sum(total.complete),))


def _survey_batch(
    raw: Raw,
    part: Part,
    number: int,
    before: int,
    columns: tuple[str, ...],
    as_text: frozenset[str],
    rules: Rules,
) -> Survey:
    found = columns_of(raw, part, columns, rules)
    rows = next(one.size for one in found.values())
    profiles = {name: profile(one, name, part.where, name in as_text) for name, one in found.items()}
    gaps, infinite = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    for name, one in found.items():
        seen = profiles[name]
        if isinstance(one, Column) and seen.missing:
            gaps |= one.values.is_null().to_numpy() if one.is_text else np.isnan(one.values)
        if isinstance(one, Column) and not one.is_text and not np.isfinite([seen.low, seen.high]).all():
            infinite |= np.isinf(one.values)
    places = [(number, before + int(np.argmax(bad))) if bad.any() else None for bad in (infinite, gaps)]
    return Survey((rows,), profiles, (rows - int(np.count_nonzero(gaps)),), *places)


class Encoder(NamedTuple):
    """How a column of one sample becomes numbers: `name` is that in the sample."""

    name: str
    spec: Spec
    missing_level: int = -1  # the code of missing values of a category; -1: nan

    def __call__(self, column: Any, part: Part) -> np.ndarray:
        """The numbers of a batch, nan where they are missing."""
        spec, values = self.spec, column.values
        if not column.is_text:
            if spec.categorical and not np.isnan(values).all():
                raise part.changed()
            return np.full(len(values), float(self.missing_level)) if self.missing_level >= 0 else values
        import polars as pl

        if spec.groups:
            codes = grouped(values, spec.groups)
        elif spec.categorical:
            places = values.cast(pl.Enum(list(spec.levels)), strict=False).to_physical()
            if places.null_count() != values.null_count():
                raise part.changed()
            codes = places.cast(pl.Float64).fill_null(np.nan).to_numpy()
        else:
            codes = parsed_numbers(values, spec.style) if spec.style else _plain(values)
            if np.count_nonzero(np.isnan(codes)) != values.null_count():
                raise part.changed()
            return codes
        return np.where(np.isnan(codes), self.missing_level, codes) if self.missing_level >= 0 else codes


def _plain(values: pl.Series) -> np.ndarray:
    import polars as pl

    return values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def grouped(text: pl.Series, groups: int) -> np.ndarray:
    """The group of every value by a hash, nan for nulls."""
    import polars as pl

    codes = (text.hash(seed=0) % groups).cast(pl.Float64).to_numpy()
    return np.where(text.is_null().to_numpy(), np.nan, codes)


class Call(NamedTuple):
    """What one part is asked: the part, what is said to it alone, and its rows, as far as they are known."""

    part: Any
    own: tuple[Any, ...] = ()
    rows: int = 0

    @property
    def steps(self) -> int:
        """What a bar goes on by: its rows, or one where they are not known."""
        return self.rows or 1


class Engine(ABC):
    """Where parts are read."""

    @abstractmethod
    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        """Σ over calls of `work(part, *its own, *params)`, added in the order of the calls by `tree_sum`."""


class Here(Engine):
    """In this process, one part after the other."""

    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        """One after the other."""
        with reading_bar(label, calls) as shown:

            def results() -> Iterator[Any]:
                for call in calls:
                    yield work(call.part, *call.own, *params)
                    shown.update(call.steps)

            return tree_sum(results())


def reading_bar(label: str, calls: Sequence[Call]) -> AbstractContextManager[Any]:
    """A bar of rows; before those are counted, of blocks: some eight of them take a second, which is LONG."""
    rows = sum(call.rows for call in calls)
    steps, entries = sum(call.steps for call in calls), 1e3 * rows or LONG / 8 * len(calls)
    return progress_bar(steps, entries, f"reading {label}", "row" if rows else "block")


@dataclass(frozen=True, eq=False)
class Batches(Source):
    """Rows in memory, in files or on other machines, read part by part.

    Only complete rows (without missing values) are numbered, counted and passed on, unless `gaps` is set or
    missing values are filled.
    """

    label: str
    schema: Schema
    parts: tuple[Any, ...]
    encoders: tuple[Encoder, ...]
    survey: Survey
    rules: Rules
    engine: Engine = field(default_factory=Here)
    notes: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are not compared, and why
    fill: Fill | None = None
    gaps: bool = False  # whether rows with missing values are passed on as well, with nan
    index: Any = None
    only: dict[str, int] = field(
        default_factory=dict
    )  # columns that not all samples have, and which has each

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many rows are passed on."""
        return sum(self._counts)

    @property
    def given(self) -> int:
        """How many rows there are, including those with missing values."""
        return self.survey.size

    @property
    def missing(self) -> tuple[int, ...]:
        """Missing values of every column; 0 of their indicators."""
        own = (self.survey.columns[one.name].missing for one in self.encoders)
        return (*own, *(0 for of in self.schema.missing_of if of))

    @property
    def _counts(self) -> tuple[int, ...]:
        return self.survey.rows if self.gaps or self.fill is not None else self.survey.complete

    @property
    def held(self) -> bool:
        """Whether all rows fit in memory; of what workers read, whether it is worth bringing here."""
        return super().held and (isinstance(self.engine, Here) or self.size <= BROUGHT)

    def with_gaps(self) -> Batches:
        """The same rows and those with missing values, all in their places."""
        return self if self.fill is not None else replace(self, gaps=True)

    @property
    def constant(self) -> tuple[str, ...]:
        """The columns of this sample that do not vary, by their names in the schema."""
        each = zip(self.schema.names, self.encoders, strict=False)
        return tuple(name for name, one in each if self.survey.columns[one.name].constant)

    def fold(self, function: Callable[..., Any], *params: Any) -> Any:
        """Σ over parts, of each the Σ over its batches."""
        calls, first = [], 0
        for part, rows, used in zip(self.parts, self.survey.rows, self._counts, strict=True):
            if used:
                calls.append(Call(part, (first, rows, used), rows))
            first += used
        how = (self.encoders, self.rules, self.gaps, self.fill, function, params)
        return self.engine.total(self.label, sum_part, calls, *how)


def sum_part(
    part: Part,
    first: int,
    rows: int,
    used: int,
    encoders: tuple[Encoder, ...],
    rules: Rules,
    gaps: bool,
    fill: Fill | None,
    function: Callable[..., Any],
    params: tuple[Any, ...],
) -> Any:
    """Σ over the batches of one part of so many `rows`, of which `used` are passed on.

    `first` is the number of the first of these in the source. Without `gaps` only complete rows have numbers:
    bins of rows must weigh the same in every sample.
    """
    columns = tuple(one.name for one in encoders)
    plain = frozenset(
        one.name
        for one in encoders
        if not (one.spec.categorical or one.spec.style or one.spec.unit) and one.name not in rules.as_text
    )

    def results() -> Iterator[Any]:
        read, at = 0, first
        for raw in part.read(columns, plain):
            found = columns_of(raw, part, columns, rules)
            values = np.column_stack([one(found[one.name], part) for one in encoders])
            height = len(values)
            if not height:
                continue
            if fill is not None:
                values = with_indicators(values, at, fill)
            elif not gaps and not (complete := Block(values, at).complete).all():
                values = values[complete]
            read, at = read + height, at + len(values)
            if read > rows or at > first + used:
                raise part.changed()
            if len(values):
                yield function(Block(values, at - len(values)), *params)
        if (read, at) != (rows, first + used):
            raise part.changed()

    return tree_sum(results())

"""Parts of a source: consecutive rows that can be read by themselves, here or on another machine.

A part knows where its rows are; it is pickled and sent to where it is read. Most parts are one batch; what
can only be read from its beginning is one part of many batches. `Batches` is a source made of parts.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from kembed.core.progress import LONG, progress_bar
from kembed.tables.frames import Column, Refused, as_declared, column_of
from kembed.tables.missing import Fill, with_indicators
from kembed.tables.schema import Profile, Spec, parsed_column, profile
from kembed.tables.source import Block, Source, tree_sum

if TYPE_CHECKING:
    import polars as pl

ROWS = 2**17  # of a batch: five columns take 5 MB, and a task of a scheduler is worth its overhead
BROUGHT = 5_000  # rows that workers send, where pairs of rows are compared
# What people and programs write in text tables where there is no value.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
Raw = list[Any]  # the columns of a batch as they are read: arrays, series of polars, `Column` or `Refused`


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
    def read(self, columns: tuple[str, ...]) -> Iterator[Raw]:
        """These columns, batch by batch."""

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"block {self.number:,} of {self.file}"

    def changed(self) -> InputError:
        """The error for a file that is not what it was in an earlier pass."""
        return InputError(f"{self.where} has changed while it was read; run again when the file is complete")

    def refused(self, error: BaseException) -> InputError:
        """The error for a part that cannot be read, from what went wrong."""
        if isinstance(error, FileNotFoundError):
            seen, remedy = "its file is not there", "every machine that reads must see it under the same name"
        else:
            seen = (str(error).strip() or type(error).__name__).splitlines()[0]
            remedy = "write the file again, or leave it out"
        return InputError(f"{self.where} cannot be read ({seen}); {remedy}")


class TextOptions(NamedTuple):
    """What the user says of text tables, and of text in all tables."""

    delimiter: str | None = None
    header: bool = True
    missing: tuple[str, ...] = ()  # further tokens that mean "no value", in every format
    decimal_comma: bool = False
    as_text: tuple[str, ...] = ()  # columns that are categories


@contextmanager
def reading(refused: Callable[[BaseException], InputError]) -> Iterator[None]:
    """Whatever goes wrong with the reading of a file is one error, made by `refused`."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except BaseException as error:
        # Polars panics over some damaged files, and its panics are no ordinary exceptions.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise refused(error) from None


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
    """Columns in memory."""

    travels: ClassVar[bool] = False
    values: Raw = field(default_factory=list)
    rows: int = ROWS

    def read(self, columns: tuple[str, ...]) -> Iterator[Raw]:
        return sliced([self.values[self.names.index(name)] for name in columns], self.rows)


def sliced(columns: Raw, rows: int) -> Iterator[Raw]:
    """Batches of so many rows."""
    one = columns[0]
    for first, size in cut(one.size if isinstance(one, Column | Refused) else len(one), rows):
        yield [
            one.slice(first, size) if isinstance(one, Column | Refused) else one[first : first + size]
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
        return f"{super().where} (rows {self.first + 1:,} to {self.first + self.rows:,})"

    def read(self, columns: tuple[str, ...]) -> Iterator[Raw]:
        with reading(self.refused), silent_stderr():
            whole = scan(self.path, self.kind).slice(self.first, self.rows)
            frame = selected(whole, [self.written[self.names.index(name)] for name in columns]).collect()
        if frame.height != self.rows:
            raise self.changed()
        yield frame.get_columns()


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

    def read(self, columns: tuple[str, ...]) -> Iterator[Raw]:
        frames = even(self.start(list(columns)), self.rows)
        while True:
            with reading(self.refused):
                frame = next(frames, None)
            if frame is None:
                return
            yield frame.get_columns()


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
    return lambda columns: selected(frame, columns).collect_batches(chunk_size=size, maintain_order=True)


def of_dataset(dataset: Any, size: int) -> Callable[[list[str]], Iterator[pl.DataFrame]]:
    """How the rows of a pyarrow dataset come, in the order of its files."""

    def start(columns: list[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        # Two batches ahead, not sixteen of each of four files: memory before speed.
        few = {"batch_readahead": 2, "fragment_readahead": 1}
        for batch in dataset.to_batches(columns=columns, batch_size=size, **few):
            yield pl.DataFrame(pl.from_arrow(batch))

    return start


def columns_of(
    raw: Raw, part: Part, names: tuple[str, ...], options: TextOptions
) -> dict[str, Column | Refused]:
    """The columns of a batch, by name."""
    tokens = (*MISSING, *options.missing) if part.delimited else options.missing
    found = {}
    for name, one in zip(names, raw, strict=True):
        if not isinstance(one, np.ndarray | Column | Refused):
            one = one.alias("column")  # polars reads some names as patterns
        if not isinstance(one, Column | Refused):
            one = column_of(one, f"column {name!r} of {part.file}")
        if isinstance(one, Column):
            one = without(one, tokens)
            if name in options.as_text or name in getattr(part, "declared", ()):
                one = as_declared(one)
        found[name] = one
    return found


def without(column: Column, tokens: tuple[str, ...]) -> Column:
    """The same with tokens, and numbers that they write, as missing values."""
    numbers = [value for value in map(_as_number, tokens) if value == value]
    if column.is_text:
        text = column.values
        if column.declared or not tokens:
            return column
        gone = text.is_in(list(tokens))
        if numbers:
            import polars as pl

            gone |= text.cast(pl.Float64, strict=False).is_in(numbers).fill_null(False)
        return column._replace(values=text.set(gone, None)) if gone.any() else column
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
        return Survey(
            self.rows + other.rows,
            {name: one.plus(other.columns[name]) for name, one in self.columns.items()},
            self.complete + other.complete,
            other.infinite if self.infinite is None else self.infinite,
            other.gap if self.gap is None else self.gap,
        )

    @property
    def size(self) -> int:
        return sum(self.rows)

    @property
    def incomplete(self) -> int:
        """Rows with a missing value."""
        return self.size - sum(self.complete)


def survey_part(
    part: Part, number: int, columns: tuple[str, ...], as_text: frozenset[str], options: TextOptions
) -> Survey:
    """What there is in one part; `as_text` are columns of which all different texts are wanted."""
    total = Survey((0,), {name: Profile() for name in columns}, (0,))
    for raw in part.read(columns):
        found = columns_of(raw, part, columns, options)
        rows = next(one.size for one in found.values())
        profiles = {name: profile(one, name, part.where, name in as_text) for name, one in found.items()}
        gaps, infinite = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
        for name, one in found.items():
            seen = profiles[name]
            if isinstance(one, Column) and seen.missing:
                gaps |= one.values.is_null().to_numpy() if one.is_text else np.isnan(one.values)
            if isinstance(one, Column) and not one.is_text and not np.isfinite([seen.low, seen.high]).all():
                infinite |= np.isinf(one.values)
        before = total.size
        places = [(number, before + int(np.argmax(bad))) if bad.any() else None for bad in (infinite, gaps)]
        total = total.plus(Survey((rows,), profiles, (rows - int(np.count_nonzero(gaps)),), *places))
    return total._replace(rows=(total.size,), complete=(sum(total.complete),))


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
            codes: np.ndarray = values
        elif spec.groups:
            hashed = (values.hash(seed=0) % spec.groups).to_numpy().astype(float)
            codes = np.where(values.is_null().to_numpy(), np.nan, hashed)
        else:
            if spec.categorical:
                import polars as pl

                places = values.cast(pl.Enum(list(spec.levels)), strict=False).to_physical()
                codes = places.cast(pl.Float64).fill_null(np.nan).to_numpy()
            else:
                codes = parsed_column(values, spec.style).values
            if np.count_nonzero(np.isnan(codes)) != values.null_count():
                raise part.changed()
        return np.where(np.isnan(codes), self.missing_level, codes) if self.missing_level >= 0 else codes


class Call(NamedTuple):
    """What one part is asked: the part, what is said to it alone, and its rows, as far as they are known."""

    part: Any
    own: tuple[Any, ...] = ()
    rows: int = 0


class Engine(ABC):
    """Where parts are read."""

    @abstractmethod
    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        """Σ over calls of `work(part, *its own, *params)`, added in the order of the calls by `tree_sum`."""


class Here(Engine):
    """In this process, one part after the other."""

    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        # A bar of rows; before those are counted, of blocks.
        rows = sum(call.rows for call in calls)
        entries = 1e3 * rows or LONG / 8 * len(calls)  # some eight blocks take a second, which is LONG
        unit = "row" if rows else "block"
        with progress_bar(rows or len(calls), entries, f"reading {label}", unit) as shown:

            def results() -> Iterator[Any]:
                for call in calls:
                    yield work(call.part, *call.own, *params)
                    shown.update(call.rows or 1)

            return tree_sum(results())


class Opened(NamedTuple):
    """A sample before it is read: its parts, its columns, and where it is read."""

    label: str
    parts: list[Any]
    names: tuple[str, ...]
    framed: bool = True  # whether columns go by name
    first: int = 0  # the number of the first row in errors
    engine: Engine = Here()
    index: Any = None  # the labels of the rows of a pandas object
    notes: tuple[str, ...] = ()

    def survey(self, options: TextOptions, as_text: frozenset[str] = frozenset()) -> Survey:
        """What there is in its columns; `as_text` are those of which all different texts are wanted."""
        calls = [Call(part, (number,)) for number, part in enumerate(self.parts)]
        return self.engine.total(self.label, survey_part, calls, self.names, as_text, options)

    def row(self, survey: Survey, place: tuple[int, int]) -> str:
        """A row in its file, as people count."""
        number, row = place
        file = self.parts[number].file
        before = zip(self.parts[:number], survey.rows, strict=False)
        row += sum(rows for part, rows in before if part.file == file)
        return f"row {row + self.first:,}{'' if file == self.label else f' of {file}'}"


@dataclass(frozen=True, eq=False)
class Batches(Source):
    """Rows in memory, in files or on other machines, read part by part.

    Only complete rows (without missing values) are numbered, counted and passed on, unless `gaps` is set or
    missing values are filled.
    """

    parts: tuple[Any, ...]
    encoders: tuple[Encoder, ...]
    survey: Survey
    options: TextOptions
    engine: Engine = field(default_factory=Here)
    fill: Fill | None = None
    gaps: bool = False  # whether rows with missing values are passed on as well, with nan

    @property
    def size(self) -> int:
        return sum(self._counts)

    @property
    def given(self) -> int:
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
        # Of what workers read, whether it is worth bringing here.
        return super().held and (isinstance(self.engine, Here) or self.size <= BROUGHT)

    def with_gaps(self) -> Batches:
        return self if self.fill is not None else replace(self, gaps=True)

    @property
    def constant(self) -> tuple[str, ...]:
        """The columns of this sample that do not vary, by their names in the schema."""
        each = zip(self.schema.names, self.encoders, strict=False)
        return tuple(name for name, one in each if self.survey.columns[one.name].constant)

    def fold(self, function: Callable[..., Any], *params: Any) -> Any:
        calls, first = [], 0
        for part, rows, used in zip(self.parts, self.survey.rows, self._counts, strict=True):
            if used:
                calls.append(Call(part, (first, rows, used), rows))
            first += used
        how = (self.encoders, self.options, self.gaps, self.fill, function, params)
        return self.engine.total(self.label, sum_part, calls, *how)


def sum_part(
    part: Part,
    first: int,
    rows: int,
    used: int,
    encoders: tuple[Encoder, ...],
    options: TextOptions,
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

    def results() -> Iterator[Any]:
        read, at = 0, first
        for raw in part.read(columns):
            found = columns_of(raw, part, columns, options)
            values = np.column_stack([one(found[one.name], part) for one in encoders])
            read += len(values)
            if fill is not None:
                values = with_indicators(values, at, fill)
            elif not gaps and not (complete := Block(values, at).complete).all():
                values = values[complete]
            at += len(values)
            if read > rows or at > first + used:
                raise part.changed()
            if len(values):
                yield function(Block(values, at - len(values)), *params)
        if (read, at) != (rows, first + used):
            raise part.changed()

    return tree_sum(results())

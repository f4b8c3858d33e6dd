"""Parts of a source: consecutive rows that can be read by themselves, here or on another machine.

A part knows where its rows are and holds none of them; it is pickled and sent to where it is read. Most parts
are one block; what can only be read from its beginning is one part of many blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kembed.data.delimited import without_missing
from kembed.data.files import InputError
from kembed.engines.checksums import verify_rows

if TYPE_CHECKING:
    import polars as pl

    Raw = pl.DataFrame | np.ndarray

ROWS = 2**17  # of a block: five columns take 5 MB, and a task of a scheduler is worth its overhead


@dataclass(frozen=True, eq=False)
class Part(ABC):
    """Some consecutive rows: `read` gives them block by block, as data frames or as arrays of numbers."""

    file: str  # what errors call what it is read from
    names: tuple[str, ...]
    number: int = 1  # of the part in its file, from one
    words: ClassVar[bool] = False  # whether text may be numbers, as in a text table
    travels: ClassVar[bool] = True  # whether another machine that sees the same files can read it

    @abstractmethod
    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """These columns, block by block; `numbers` are text that is known to hold numbers."""

    def verify(self, columns: tuple[str, ...]) -> None:  # noqa: B027
        """Raise an error if checksums say that these columns are damaged, where there are any."""

    @property
    def likely(self) -> frozenset[str]:
        """Columns of text that may well be numbers: worth trying, and no more."""
        return frozenset()

    @property
    def comma(self) -> bool:
        """Whether its text writes 1.5 as 1,5."""
        return False

    def counted(self, name: str) -> str:
        """What the plain numbers of a column count, where that is known."""
        return ""

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"block {self.number:,} of {self.file}"


@contextmanager
def reading(part: Part) -> Iterator[None]:
    """Whatever goes wrong with the reading of a part is one error that names the file and the block."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
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


@dataclass(frozen=True, eq=False)
class Scan(Part):
    """Rows of a Parquet or Arrow file, of which only these are decoded."""

    path: str = ""
    kind: str = "parquet"
    first: int = 0
    rows: int = 0
    missing: tuple[str, ...] = ()  # words that mean "no value"
    written: tuple[str, ...] = ()  # the names of the columns in the file, spaces and all

    @property
    def where(self) -> str:
        """With its rows, counted from one."""
        return f"{super().where} (rows {self.first + 1:,} to {self.first + self.rows:,})"

    def verify(self, columns: tuple[str, ...]) -> None:
        """The pages of the row groups that begin in it."""
        if self.kind == "parquet":
            with reading(self):
                verify_rows(self.path, self.first, self.rows, self._written(columns))

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """One block."""
        with reading(self):
            whole = scan(self.path, self.kind).slice(self.first, self.rows)
            frame = whole.select(self._written(columns)).collect()
        frame.columns = list(columns)
        if frame.height != self.rows:
            raise changed(self)
        yield without_missing(frame, self.missing)

    def _written(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """What columns are called in the file."""
        return tuple(self.written[self.names.index(name)] for name in columns)


def scan(path: str, kind: str) -> pl.LazyFrame:
    """A Parquet or Arrow file, unread."""
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(path, glob=False, hive_partitioning=False)
    try:
        return pl.scan_ipc(path, glob=False, hive_partitioning=False)
    except TypeError:  # an older Polars has no such word
        return pl.scan_ipc(path, hive_partitioning=False)


def changed(part: Part) -> InputError:
    """The error for a file that is not what it was in an earlier pass."""
    return InputError(f"{part.where} has changed while it was read; run again when the file is complete")


def cut(rows: int, size: int = ROWS) -> Iterator[tuple[int, int]]:
    """The first row and the length of blocks.

    >>> list(cut(5, 2))
    [(0, 2), (2, 2), (4, 1)]
    """
    for first in range(0, rows, size):
        yield first, min(size, rows - first)


@dataclass(frozen=True, eq=False)
class Slice(Part):
    """Rows of a frame in memory."""

    travels: ClassVar[bool] = False
    frame: Any = None
    counts: tuple[str, ...] = ()  # of every column, what its numbers count

    def counted(self, name: str) -> str:
        """As the door read it: times are numbers already."""
        return self.counts[self.names.index(name)]

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """One block."""
        yield self.frame.select(columns)


@dataclass(frozen=True, eq=False)
class Numbers(Part):
    """Rows of an array of numbers in memory: columns go by place."""

    travels: ClassVar[bool] = False
    values: Any = None
    rows: int = ROWS

    def array(self) -> np.ndarray:
        """Where the numbers are."""
        return self.values

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """Blocks of all columns."""
        values = self.array()
        for first, size in cut(len(values), self.rows):
            yield values[first : first + size]


@dataclass(frozen=True, eq=False)
class Mapped(Numbers):
    """Rows of an array in a file, `np.memmap`: what travels is where they are."""

    travels: ClassVar[bool] = True
    path: str = ""
    place: int = 0  # the byte of the first entry
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: str = "<f8"

    def array(self) -> np.ndarray:
        """The rows, mapped and not read."""
        with reading(self):
            held = np.memmap(self.path, mode="r", dtype=np.uint8)
            return np.ndarray(self.shape, np.dtype(self.dtype), held, self.place, self.strides)


def mapped(values: np.memmap, argument: str, names: tuple[str, ...], rows: int) -> list[Part]:
    """The parts of an array in a file."""
    table = values[:, None] if values.ndim == 1 else values
    root: Any = values
    while isinstance(root.base, np.memmap):
        root = root.base
    start = root.__array_interface__["data"][0] - root.offset
    if any(step < 0 for step in table.strides) or root.filename is None:
        own: Any = table.view(np.ndarray)
        return [
            Numbers(argument, names, number, own[first : first + size], size)
            for number, (first, size) in enumerate(cut(len(own), rows), start=1)
        ]
    parts: list[Part] = []
    for number, (first, size) in enumerate(cut(len(table), rows), start=1):
        block = table[first : first + size]
        place = block.__array_interface__["data"][0] - start
        at = (str(root.filename), place, block.shape, block.strides, table.dtype.str)
        parts.append(Mapped(argument, names, number, None, size, *at))
    return parts


@dataclass(frozen=True, eq=False)
class Stream(Part):
    """Rows that are read from their beginning, in as many blocks as there are.

    `start` is called anew for every pass and gives data frames of any length.
    """

    travels: ClassVar[bool] = False
    start: Callable[[list[str]], Iterator[pl.DataFrame]] = field(default=lambda columns: iter(()))
    rows: int = ROWS

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """Blocks of equal length, however the frames come."""
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
        query = frame.select(columns)
        if hasattr(query, "collect_batches"):
            yield from query.collect_batches(chunk_size=size, maintain_order=True)
            return
        first = 0  # an older Polars: every block asks anew
        while (block := query.slice(first, size).collect()).height:
            yield block
            first += block.height

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

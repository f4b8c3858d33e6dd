"""Text tables larger than memory: a part is a range of bytes between two line ends.

One scan finds the line ends outside quotes; after that every part is read by itself, in any order. A gzip
file can only be read from its beginning, so it is one part of many blocks.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple

from kembed.data.delimited import refuse_lines
from kembed.data.files import MISSING, InputError, label, missing_file, text_layout
from kembed.engines.parts import Part, reading

if TYPE_CHECKING:
    import polars as pl

    from kembed.engines.parts import Raw

BYTES = 2**23  # of a part: about 2^17 rows of five numbers
HEAD = 2**16  # bytes that tell the names of the columns and the delimiter
LONGEST = 4  # parts that a quoted field may reach over before its quote counts as never closed


class TextRules(NamedTuple):
    """What is said of text tables, as in `read_table`."""

    delimiter: str | None = None
    header: bool = True
    missing: tuple[str, ...] = ()
    decimal_comma: bool = False


PLAIN = TextRules()  # nothing is said


@dataclass(frozen=True, eq=False)
class Lines(Part):
    """Some lines of a text table."""

    words: ClassVar[bool] = True
    path: str = ""
    start: int = 0  # bytes
    stop: int = 0
    separator: str = ","
    rules: TextRules = PLAIN
    hint: frozenset[str] = frozenset()  # columns that begin as numbers

    @property
    def likely(self) -> frozenset[str]:
        """Those that begin so."""
        return self.hint

    @property
    def comma(self) -> bool:
        """Whether 1,5 is a number."""
        return self.rules.decimal_comma

    @property
    def where(self) -> str:
        """With its place in the file."""
        return f"{super().where} (from byte {self.start:,})"

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """One block."""
        with reading(self), open(self.path, "rb") as stream:
            stream.seek(self.start)
            data = stream.read(self.stop - self.start)
        yield self.frame(data, self.where, numbers).select(columns)

    def frame(self, data: bytes, where: str, numbers: frozenset[str]) -> pl.DataFrame:
        """Lines as a table of text, nulls for what is missing; of numbers where they are known to be."""
        import polars as pl

        if numbers and not self.rules.decimal_comma:
            schema = {name: pl.Float64 if name in numbers else pl.String for name in self.names}
            try:
                frame = self._table(data, schema, null_values=self.missing)
                # A line of nothing and a line of missing values look the same here: text tells them apart.
                if not frame.select(pl.all_horizontal(pl.all().is_null()).any()).item():
                    self._refuse_short(frame, data, where)
                    return self._cleaned(frame)
            except pl.exceptions.PolarsError:
                pass  # blanks around numbers, say
        try:
            frame = self._table(data, dict.fromkeys(self.names, pl.String))
        except pl.exceptions.PolarsError:
            refuse_lines(data, self.separator, len(self.names), where)
            seen = f"{where} cannot be read as a table"
            raise InputError(f"{seen}; check its quotes and its delimiter") from None
        self._refuse_short(frame, data, where)
        if frame.width > 1:
            frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
        return self._cleaned(frame)

    @property
    def missing(self) -> list[str]:
        """The words for "no value"."""
        return [*MISSING, *self.rules.missing]

    def _table(self, data: bytes, schema: dict[str, Any], **options: Any) -> pl.DataFrame:
        import polars as pl

        if len(schema) > 1:
            data = data.lstrip(b"\r\n")  # an empty line is no row, but Polars counts columns in the first
        return pl.read_csv(data, has_header=False, separator=self.separator, schema=schema, **options)

    def _refuse_short(self, frame: pl.DataFrame, data: bytes, where: str) -> None:
        """Short lines are filled with nulls: refuse them, but look only where there may be one."""
        expected = frame.height * (frame.width - 1)
        if frame[:, -1].null_count() and (b'"' in data or data.count(self.separator.encode()) != expected):
            refuse_lines(data, self.separator, len(self.names), where)

    def _cleaned(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Text without blanks around it, and null where it says that there is no value."""
        import polars as pl

        text = pl.col(pl.String).str.strip_chars()
        return frame.with_columns(pl.when(~text.is_in(self.missing)).then(text))


@dataclass(frozen=True, eq=False)
class Unzipped(Lines):
    """All lines of a gzip file."""

    @property
    def where(self) -> str:
        """The file."""
        return self.file

    def read(self, columns: tuple[str, ...], numbers: frozenset[str]) -> Iterator[Raw]:
        """As many blocks as there are; `stop` is about how many bytes make one."""
        for number, (_, data) in enumerate(_chunks(self.path, self.file, self.start, self.stop), start=1):
            yield self.frame(data, f"block {number:,} of {self.file}", numbers).select(columns)


def text_parts(path: str, rules: TextRules, size: int = BYTES) -> tuple[tuple[str, ...], list[Part]]:
    """The columns and the parts of a text table, in order; no parts if it has names and no rows."""
    file = label(path)
    zipped = _is_gzip(Path(path))
    with _unzipping(file), _opened(path, zipped) as stream:
        head = stream.read(HEAD)
        if not head.strip():
            raise InputError(f"{file} is empty; check how it was written")
        lines = head[: head.rfind(b"\n") + 1] or head  # whole lines, and no half of a character
        names, separator = text_layout(lines, path, rules.delimiter, rules.header)
        if b"\r" in lines and b"\n" not in lines:
            raise InputError(f"{file} ends its lines with \\r alone; write it with \\n")
        stream.seek(3 if head.startswith(b"\xef\xbb\xbf") else 0)
        line = b"" if rules.header else b"data"
        while not line.strip() or line.count(b'"') % 2:  # names, after empty lines and perhaps over several
            if not (more := stream.readline()):
                break
            line += more
        start = stream.tell()
    first_lines = Lines(file, tuple(names), 1, path, start, size, separator, rules)
    told = (separator, rules, _hint(first_lines, lines[start:]))
    if zipped:
        return tuple(names), [Unzipped(file, tuple(names), 1, path, start, size, *told)]
    return tuple(names), [
        Lines(file, tuple(names), number, path, first, first + len(data), *told)
        for number, (first, data) in enumerate(_chunks(path, file, start, size, zipped=False), start=1)
    ]


def _hint(part: Lines, data: bytes) -> frozenset[str]:
    """The columns that hold numbers in the first lines."""
    import polars as pl

    try:
        frame = part.frame(data, part.file, frozenset()) if data.strip() else pl.DataFrame()
    except InputError:  # whatever it is, the pass over all of it will say so
        return frozenset()
    casts = {column.name: column.cast(pl.Float64, strict=False) for column in frame}
    gaps = {column.name: column.null_count() for column in frame}
    return frozenset(name for name, cast in casts.items() if cast.null_count() == gaps[name] < len(cast))


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"\x1f\x8b"
    except FileNotFoundError:
        raise missing_file(path) from None
    except ValueError as error:  # a name that no system takes
        raise InputError(f"{label(path)} is no path ({error}); name a file") from None
    except OSError as error:
        seen = f"{label(path)} cannot be read ({error.strerror})"
        raise InputError(f"{seen}; check its permissions") from None


def _opened(path: str, zipped: bool) -> IO[bytes]:
    return gzip.open(path, "rb") if zipped else open(path, "rb")  # type: ignore[return-value]


@contextmanager
def _unzipping(file: str) -> Iterator[None]:
    """A damaged gzip file is one clear error."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{file} is a damaged gzip file; make or download it again") from None


def _chunks(path: str, file: str, start: int, size: int, zipped: bool = True) -> Iterator[tuple[int, bytes]]:
    """Whole lines of about `size` bytes, with the place of the first; no line end in quotes counts."""
    with _unzipping(file), _opened(path, zipped) as stream:
        stream.seek(start)
        while data := stream.read(size):
            pieces = [data, stream.readline()]
            quotes, reach = sum(piece.count(b'"') for piece in pieces), 0
            while quotes % 2:
                line = stream.readline()
                quotes, reach = quotes + line.count(b'"'), reach + len(line)
                pieces.append(line)
                if not line or reach > LONGEST * size:
                    seen = f"a quote in {file} is not closed, or stands inside a field (after byte {start:,})"
                    raise InputError(f"{seen}; correct it")
            data = b"".join(pieces)
            last = not stream.peek(1)  # type: ignore[attr-defined]
            if whole := data.rstrip(b"\r\n") if last else data:  # empty lines at the end are no rows
                yield start, whole
            start += len(data)

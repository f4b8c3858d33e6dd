"""Text tables (CSV, TSV): names from the first line, then lines in chunks of some megabytes.

A chunk ends at a line end outside quotes and is parsed by polars; one with quotes inside fields, or with
empty lines, by Python's csv. A file that fits into one chunk is read as a large one is. A gzip
file and standard input can only be read from their beginning, so they are one part of many chunks.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from codecs import BOM_UTF8 as BOM
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar

from kembed.core.text import counted, listing
from kembed.tables.parts import InputError, Part, Raw, TextOptions, reading
from kembed.tables.schema import UNNAMED

if TYPE_CHECKING:
    import polars as pl

BYTES = 2**23  # of a chunk: about 2^17 rows of five numbers
HEAD = 2**16  # bytes that are read first, and again as many until they hold the first lines
LONGEST = 4  # chunks that a quoted field may reach over before its quote counts as never closed
# Delimiters that are hard to type.
DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
_MAGIC = {b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"PK\x03\x04": "a spreadsheet or archive"}


@dataclass(frozen=True, eq=False)
class Lines(Part):
    """Some lines of a text table, or all of one that can only be read from its beginning (`whole`)."""

    delimited: ClassVar[bool] = True
    path: str = ""
    start: int = 0  # bytes
    stop: int = 0
    separator: str = ","
    whole: bool = False
    data: bytes | None = None  # in place of a file
    size: int = BYTES
    line: int = 0  # lines before

    @property
    def where(self) -> str:
        return super().where if self.whole else f"{super().where} (from byte {self.start:,})"

    def read(self, columns: tuple[str, ...]) -> Iterator[Raw]:
        line = self.line
        for data in self._pieces():
            frame = parsed(data, self.names, self.separator, self.file, line)
            yield [frame.get_column(name) for name in columns]
            line += data.count(b"\n")

    def _pieces(self) -> Iterator[bytes]:
        with reading(self.refused), _opened(self.path, self.data) as stream:
            if self.whole:
                yield from (data for _, data in _chunks(stream, self.file, self.start, self.size))
            else:
                stream.seek(self.start)
                yield stream.read(self.stop - self.start)


def parsed(data: bytes, names: tuple[str, ...], separator: str, file: str, line: int = 0) -> pl.DataFrame:
    r"""Lines, after so many others, as columns of text, null where a field is empty.

    An empty line is no row; a line of empty fields is one.

    >>> parsed(b"1,a\n\n,\n", ("n", "t"), ",", "t.csv").rows()
    [('1', 'a'), (None, None)]
    """
    import polars as pl

    inside = data.strip(b"\r\n")
    line += data[: data.index(inside)].count(b"\n")
    schema: Any = dict.fromkeys(map(str, range(len(names))), pl.String)
    frame = None
    if not (re.search(rb"\n\r?\n", inside) or _has_stray_quotes(inside, separator)):
        with suppress(pl.exceptions.PolarsError):
            frame = pl.read_csv(inside, has_header=False, separator=separator, schema=schema)
    if frame is None or (
        frame.to_series(-1).null_count()  # with which short lines are filled
        and (b'"' in inside or inside.count(separator.encode()) != frame.height * (frame.width - 1))
    ):
        rows = _rows(inside, separator, file, line, len(names))
        frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame.columns = list(names)
    return frame


def _rows(data: bytes, separator: str, file: str, before: int, width: int) -> list[list[str | None]]:
    """Lines by Python's csv; refused are those with more or fewer fields than the first line of the file."""
    found: list[list[str | None]] = []
    for line, fields in _records(decoded(data, file), separator, file, before):
        if len(fields) != width:
            raise InputError(
                f"line {line:,} of {file} has {counted(len(fields), 'field')} where the "
                f"first line has {width}; correct it, or put quotes around fields that hold {separator!r}"
            )
        found.append([field or None for field in fields])
    return found


def _has_stray_quotes(data: bytes, separator: str) -> bool:
    """Whether quotes stand inside fields, which polars takes for the beginning of something."""
    if b'"' not in data:
        return False
    edge = separator.encode()
    opening = data.count(edge + b'"') + data.count(b'\n"') + data.startswith(b'"')
    closing = data.count(b'"' + edge) + data.count(b'"\n') + data.count(b'"\r') + data.endswith(b'"')
    if opening == closing and opening + closing == data.count(b'"'):
        return False
    sign = re.escape(edge)
    fields = re.sub(rb"(?:^|(?<=[\n" + sign + rb']))"(?:[^"]|"")*"(?=[\r\n' + sign + rb"]|$)", b"", data)
    return b'"' in fields


def open_text(
    path: str, file: str, usual: str, options: TextOptions, data: bytes | None = None, size: int = BYTES
) -> tuple[tuple[str, ...], list[Part], tuple[str, ...]]:
    """The columns, the parts and notes of a text table, in a file or in `data`; no rows make no parts."""
    asked = options.delimiter
    separator = usual if asked is None else DELIMITERS.get(asked.lower(), asked)
    if len(separator.encode()) != 1 or separator in '"\r\n':
        raise InputError(f"--delimiter takes one character, or 'tab', but {asked!r} was given")
    with _unzipping(file), _opened(path, data) as stream:
        names, start, line = _head(stream, file, separator, options.header)
    note = _names_note(names, file) if options.header else ()
    whole = data is not None or not isinstance(stream, io.BufferedReader)
    if whole:
        return names, [Lines(file, names, 1, path, start, 0, separator, True, data, size, line)], note
    parts: list[Part] = []
    with open(path, "rb") as plain:
        for first, chunk in _chunks(plain, file, start, size):
            at = (path, first, first + len(chunk), separator, False, None, size, line)
            parts.append(Lines(file, names, len(parts) + 1, *at))
            line += chunk.count(b"\n")
    return names, parts, note


def _head(stream: IO[bytes], file: str, separator: str, header: bool) -> tuple[tuple[str, ...], int, int]:
    """The names of the columns, where the data begin, and how many lines are before."""
    head = b""
    while True:
        more = stream.read(HEAD)
        head += more
        lines = head[: head.rfind(b"\n") + 1] if more else head
        if not more or (lines.strip() and lines.count(b"\n") > 1 and lines.count(b'"') % 2 == 0):
            break
        if len(head) > LONGEST * BYTES:
            raise InputError(f"the first line of {file} is longer than {len(head):,} bytes; check its quotes")
    if not head.strip():
        raise InputError(f"{file} is empty; check how it was written")
    if b"\r" in lines and b"\n" not in lines:
        raise InputError(f"{file} ends its lines with \\r alone; write it with \\n")
    (line, first), *others = _records(decoded(lines, file), separator, file)
    _refuse_delimiter(first, others[0][1] if others else first, separator, file)
    if not header:
        return (
            tuple(f"column {place}" for place in range(1, len(first) + 1)),
            len(BOM) * lines.startswith(BOM),
            0,
        )
    start = sum(map(len, lines.splitlines(keepends=True)[:line]))
    return _names(first, file), start, lines[:start].count(b"\n")


def _names_note(names: tuple[str, ...], file: str) -> tuple[str, ...]:
    """What to say of names that read as numbers."""
    numbers = [name for name in names if _is_number(name) and any(map(str.isdigit, name))]
    if 2 * len(numbers) < len(names):
        return ()
    seen = f"the first line of {file} has numbers ({listing(numbers, 3)}), taken for names"
    return (f"{seen}; use --no-header if it is data",)


def decoded(data: bytes, name: str) -> str:
    """Bytes as text, if they are text."""
    for start, kind in _MAGIC.items():
        if data.startswith(start):
            raise InputError(f"{name} is {kind}, not a text table; save it as CSV, or give it its own suffix")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{name} is UTF-16, not UTF-8; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if b"\0" in data[:4096]:
        raise InputError(f"{name} is not a text table; give CSV, TSV, Parquet or Feather")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "save it as UTF-8, for instance iconv -f LATIN1 -t UTF-8"
        raise InputError(f"{name} is not UTF-8 (line {line}); {remedy}") from None


def _refuse_delimiter(first: list[str], second: list[str], separator: str, name: str) -> None:
    """Refuse a single column that another delimiter cuts, in its name and in its first value."""
    for other, word in ((";", "';'"), ("\t", "tab"), ("|", "'|'"), (",", "','")) if len(first) == 1 else ():
        if other != separator and other in first[0] and other in separator.join(second):
            seen = f"{name} has a single column, {first[0]!r}: its delimiter is another"
            raise InputError(f"{seen}; use --delimiter {word}")


def _names(first: list[str], name: str) -> tuple[str, ...]:
    """The names in the first line."""
    names = [field.strip() for field in first]
    if not any(names):
        raise InputError(f"the first line of {name} has no column names; put them there, or use --no-header")
    numbers = all(map(_is_number, names)) and any(any(map(str.isdigit, column)) for column in names)
    if numbers and not all(column.isdigit() for column in names):  # 2019, 2020 are names of columns too
        seen = f"the first line of {name} holds numbers ({', '.join(names[:3])}) where names should be"
        raise InputError(f"{seen}; use --no-header")
    return tuple(named(names, name))


def named(columns: list[str], name: str) -> list[str]:
    """The names of columns, without spaces around them; those without one are called by their places.

    >>> named([" a", ""], "t.csv")
    ['a', 'unnamed 2']
    """
    if not columns:
        raise InputError(f"{name} has no columns; give a table with at least one")
    names = [column.strip() or f"{UNNAMED} {place}" for place, column in enumerate(columns, start=1)]
    twice = [column for column, times in Counter(names).items() if times > 1]
    if twice:
        numbers = all(_is_number(column) for column in names)
        remedy = "if that is data and not names, use --no-header" if numbers else "rename one of them"
        raise InputError(f"{name} has more than one column named {listing(twice)}; {remedy}")
    return names


def _records(text: str, separator: str, name: str, before: int = 0) -> list[tuple[int, list[str]]]:
    """The lines that are not empty, with their numbers after so many lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    usual = csv.field_size_limit(max(len(text), 1))  # a field may be as long as the file
    try:
        return [(before + reader.line_num, fields) for fields in reader if fields]
    except csv.Error:
        seen = f"a quote in {name} is not closed, or stands inside a field"
        raise InputError(f"{seen} (line {before + reader.line_num:,} or before); correct it") from None
    finally:
        csv.field_size_limit(usual)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _opened(path: str, data: bytes | None) -> IO[bytes]:
    """The bytes of a text table, unpacked if they are gzip."""
    stream: Any = open(path, "rb") if data is None else io.BytesIO(data)  # noqa: SIM115
    if stream.read(2) == b"\x1f\x8b":
        stream.close()
        return gzip.open(path if data is None else io.BytesIO(data), "rb")  # type: ignore[return-value]
    stream.seek(0)
    return stream


@contextmanager
def _unzipping(file: str) -> Iterator[None]:
    """A damaged gzip file is one clear error."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{file} is a damaged gzip file; make or download it again") from None


def _chunks(stream: IO[bytes], file: str, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines of about `size` bytes, with the place of the first; no line end in quotes counts."""
    with _unzipping(file):
        stream.seek(start)
        while data := stream.read(size):
            pieces = [data, stream.readline()]
            quotes, reach = sum(piece.count(b'"') for piece in pieces), 0
            while quotes % 2 and (line := stream.readline()):
                quotes, reach = quotes + line.count(b'"'), reach + len(line)
                pieces.append(line)
                if reach > LONGEST * size:
                    seen = f"a quote in {file} is not closed, or stands inside a field (after byte {start:,})"
                    raise InputError(f"{seen}; correct it")
            whole = b"".join(pieces)
            if whole.strip(b"\r\n"):
                yield start, whole
            start += len(whole)

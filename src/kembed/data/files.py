"""Tables from files: CSV, TSV, Parquet, Feather; every error is one line that names the file and the remedy.

Text tables are read as text first and every column is then looked at as a whole: numbers if all of it is
numbers, whatever stands in the first hundred rows.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.core.text import listing, printable

if TYPE_CHECKING:
    import polars as pl

STANDARD_INPUT = "-"
# Suffixes: text tables with what separates their fields, and two kinds of binary files.
TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", "": ","}
PARQUET = (".parquet", ".pq")
IPC = (".feather", ".arrow", ".ipc")
UNNAMED = "unnamed"  # and its place: a column without a name
# What people and programs write where there is no value.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
# Delimiters that are hard to type; how files begin that are no text.
DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
_MAGIC = {b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"PK\x03\x04": "a spreadsheet or archive"}
# Numbers that a spreadsheet meant and a text table does not say: 1,5 and 12 kg and $3.
_COMMA = r"^([-+]?\d*),(\d+(?:[eE][-+]?\d+)?)$"
_UNIT = r"^[-+]?[$€£¥]?\s?[-+]?\d[\d., ]*\s?[\p{L}°%€$£¥µ/²³]{0,8}$"


class InputError(ValueError):
    """What is wrong with what the user gave, in one line with the remedy."""


def read_table(
    source: str | Path,
    *,
    delimiter: str | None = None,
    header: bool = True,
    missing: Iterable[str] = (),
    decimal_comma: bool = False,
) -> pl.DataFrame:
    r"""The table in a file, by its suffix; "-" is CSV on standard input.

    `delimiter` overrides the comma (the tab of .tsv); without a `header` columns are called by their places;
    `missing` holds further words that mean "no value"; with `decimal_comma` 1,5 is a number. What is said of
    text tables does not concern Parquet and Feather.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "heights.csv"
    >>> _ = path.write_text("name,height\nAda,1.70\nBen,NA\n")
    >>> read_table(path).to_dict(as_series=False)
    {'name': ['Ada', 'Ben'], 'height': [1.7, None]}
    """
    name, suffix = label(source), _suffix(source)
    data = _bytes(source, name)
    if suffix in PARQUET or suffix in IPC:
        frame = _binary(data, name, suffix)
        _refuse_duplicates(frame.columns, name)
    else:
        separator = _separator(suffix, delimiter)
        frame = _text(data, name, separator, header, (*MISSING, *missing), decimal_comma)
    if not frame.width:
        raise InputError(f"{name} has no columns; give a table with at least one")
    if not frame.height:
        raise InputError(f"{name} has column names but no rows; check how it was written")
    return frame


def file_kind(source: str | Path) -> str:
    """What is in a file, by its suffix: "parquet", "ipc" or "text"."""
    suffix = _suffix(source)
    return "parquet" if suffix in PARQUET else "ipc" if suffix in IPC else "text"


def missing_file(path: Path) -> InputError:
    """The error for a file that is not there."""
    return InputError(f"{label(path)} does not exist; check the name{_near(path)}")


def unreadable(name: str, kind: str) -> InputError:
    """The error for a damaged binary file."""
    what = "Parquet" if kind == "parquet" else "Feather or Arrow IPC"
    return InputError(f"{name} is not a readable {what} file; write it again, or give CSV")


def text_layout(
    head: bytes, source: str | Path, delimiter: str | None, header: bool
) -> tuple[list[str], str]:
    """The names of the columns and the delimiter of a text table, from its first lines."""
    name, separator = label(source), _separator(_suffix(source), delimiter)
    return _names(_decoded(head, name), separator, header, name), separator


def refuse_lines(data: bytes, separator: str, width: int, name: str) -> None:
    """Refuse lines that are no UTF-8, or with more or fewer fields than the first line has."""
    _refuse_ragged(_decoded(data, name), separator, width, name)


def _separator(suffix: str, delimiter: str | None) -> str:
    separator = TEXT[suffix] if delimiter is None else DELIMITERS.get(delimiter.lower(), delimiter)
    if len(separator.encode()) != 1 or separator in '"\r\n':
        raise InputError(f"--delimiter takes one character, or 'tab', but {delimiter!r} was given")
    return separator


def label(source: str | Path) -> str:
    """What to call a source in a sentence; safe to print."""
    return "standard input" if str(source) == STANDARD_INPUT else printable(str(source))


def checked(columns: Iterable[str], present: list[str], name: str) -> list[str]:
    """The columns asked for, all of which are there.

    >>> checked(["age"], ["ages", "height"], "a.csv")
    Traceback (most recent call last):
        ...
    kembed.data.files.InputError: a.csv has no column 'age'; did you mean 'ages'? It has 'ages', 'height'
    """
    wanted = list(dict.fromkeys(columns))
    for column in wanted:
        if column not in present:
            near = difflib.get_close_matches(column, present, n=1)
            hint = f"; did you mean {near[0]!r}? It has " if near else "; it has "
            raise InputError(f"{name} has no column {column!r}{hint}{listing(present)}")
    return wanted


def doubts(frame: pl.DataFrame) -> dict[str, str]:
    """Text columns that look like numbers: why they are text, and the remedy.

    >>> import polars as pl
    >>> doubts(pl.DataFrame({"weight": ["61 kg", "70 kg"], "name": ["Ada", "Ben"]}))
    {'weight': "looks like numbers with units ('61 kg') but is read as text; write plain numbers"}
    """
    import polars as pl

    found = {}
    for series in frame.iter_columns():
        entries = series.drop_nulls()
        if series.dtype != pl.String or not len(entries):
            continue
        numbers = entries.cast(pl.Float64, strict=False).is_not_null()
        commas, units = entries.str.contains(_COMMA), entries.str.contains(_UNIT)
        # Most of it must look so: a few odd values make no column of numbers.
        looks, text = "looks like numbers with", "but is read as text;"
        if commas.any() and _share(commas | numbers) > 0.8:
            why = f"{looks} decimal commas ({entries.filter(commas)[0]!r}) {text} use --decimal-comma"
        elif _share(numbers) > 0.5:
            others = entries.filter(~numbers)
            words = listing(others.unique(maintain_order=True).head(3).to_list())
            of = f"{len(others):,} of {len(entries):,} values are not numbers"
            why = f"is read as text because {of} ({words}); use --na if they mean missing"
        elif _share(units) > 0.8:
            why = f"{looks} units ({entries.filter(units)[0]!r}) {text} write plain numbers"
        else:
            continue
        found[series.name] = why
    return found


def _share(true: pl.Series) -> float:
    return int(true.sum()) / len(true)


def _suffix(source: str | Path) -> str:
    if str(source) == STANDARD_INPUT:
        return ".csv"
    path = Path(source)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
    if suffix in TEXT or suffix in PARQUET or suffix in IPC:
        return suffix
    sheet = suffix in (".xlsx", ".xls", ".ods")
    remedy = "save the sheet as CSV" if sheet else "give CSV, TSV, Parquet or Feather, or pipe CSV to '-'"
    raise InputError(f"{label(source)} is of a kind ({suffix}) that kembed does not read; {remedy}")


def _bytes(source: str | Path, name: str) -> bytes:
    if str(source) == STANDARD_INPUT:
        data = sys.stdin.buffer.read()
    else:
        path = Path(source)
        if path.is_dir():
            raise InputError(f"{name} is a folder; give a file in it")
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise missing_file(path) from None
        except OSError as error:
            raise InputError(f"{name} cannot be read ({error.strerror}); check its permissions") from None
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise InputError(f"{name} is a damaged gzip file; make or download it again") from None
    if not data.strip():
        raise InputError(f"{name} is empty; check how it was written")
    return data


def _near(path: Path) -> str:
    """A file beside it with a similar name."""
    try:
        names = [other.name for other in path.parent.iterdir() if other.is_file()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f", perhaps {label(path.parent / near[0])}" if near else ""


def _binary(data: bytes, name: str, suffix: str) -> pl.DataFrame:
    import polars as pl

    read: Any = pl.read_parquet if suffix in PARQUET else pl.read_ipc
    try:
        return read(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        raise unreadable(name, "parquet" if suffix in PARQUET else "ipc") from None


def _decoded(data: bytes, name: str) -> str:
    for start, kind in _MAGIC.items():
        if data.startswith(start):
            raise InputError(f"{name} is {kind}, not a text table; save it as CSV, or give it its own suffix")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{name} is UTF-16, not UTF-8; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if b"\0" in data[:4096]:
        raise InputError(f"{name} is not a text table; give CSV, TSV, Parquet or Feather")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "save it as UTF-8, for instance iconv -f LATIN1 -t UTF-8"
        raise InputError(f"{name} is not UTF-8 (line {line}); {remedy}") from None
    return text.replace("\r", "\n") if "\r" in text and "\n" not in text else text


def _text(
    data: bytes, name: str, separator: str, header: bool, missing: tuple[str, ...], decimal_comma: bool
) -> pl.DataFrame:
    import polars as pl

    text = _decoded(data, name)
    names = _names(text, separator, header, name)
    source = io.BytesIO(text.strip("\r\n").encode())
    try:
        frame = pl.read_csv(source, separator=separator, has_header=header, infer_schema=False)
        frame.columns = names
    except pl.exceptions.PolarsError:
        _refuse_ragged(text, separator, len(names), name)
        raise InputError(f"{name} cannot be read as a table; check its quotes and its delimiter") from None
    if frame.height and frame[:, -1].null_count():
        _refuse_ragged(text, separator, len(names), name)  # short lines are filled with nulls
    # A comma at the end of every line makes a column of nothing, and an empty line a row of nothing.
    unnamed = [column for column in frame if column.name.startswith(UNNAMED)]
    frame = frame.drop(column.name for column in unnamed if not column.count())
    if frame.width > 1:
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    return frame.select(typed(series, missing, decimal_comma) for series in frame.iter_columns())


def _names(text: str, separator: str, header: bool, name: str) -> list[str]:
    """The names of the columns, from the first line or made up."""
    records = _records(text, separator, name)
    first, second = (next(records, (0, []))[1] for _ in range(2))
    for other, word in ((";", "';'"), ("\t", "tab"), ("|", "'|'"), (",", "','")) if len(first) == 1 else ():
        # A single column that another delimiter cuts, in its name and in its first value.
        if other != separator and other in first[0] and other in separator.join(second or first):
            seen = f"{name} has a single column, {first[0]!r}: its delimiter is another"
            raise InputError(f"{seen}; use --delimiter {word}")
    if not header:
        return [f"column {place}" for place in range(1, len(first) + 1)]
    names = [field.strip() for field in first]
    if not any(names):
        raise InputError(f"the first line of {name} has no column names; put them there, or use --no-header")
    numbers = all(map(_is_number, names))
    if numbers and not all(column.isdigit() for column in names):  # 2019, 2020 are names of columns too
        seen = f"the first line of {name} holds numbers ({', '.join(names[:3])}) where names should be"
        raise InputError(f"{seen}; use --no-header")
    names = [column or f"{UNNAMED} {place}" for place, column in enumerate(names, start=1)]
    _refuse_duplicates(names, name)
    return names


def _records(text: str, separator: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """The lines with something in them, with their numbers."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for fields in reader:
            if len(fields) > 1 or any(field.strip() for field in fields):
                yield reader.line_num, fields
    except csv.Error:
        seen = f"a quote in {name} is not closed, or stands inside a field (line {reader.line_num} or before)"
        raise InputError(f"{seen}; correct it") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_duplicates(names: list[str], name: str) -> None:
    twice = [column for column, times in Counter(names).items() if times > 1]
    if twice:
        numbers = all(_is_number(column) for column in names)
        remedy = "if that is data and not names, use --no-header" if numbers else "rename one of them"
        raise InputError(f"{name} has more than one column named {listing(twice)}; {remedy}")


def _refuse_ragged(text: str, separator: str, width: int, name: str) -> None:
    for line, fields in _records(text, separator, name):
        if len(fields) != width:
            raise InputError(
                f"line {line} of {name} has {len(fields)} field{'s' if len(fields) != 1 else ''} where the "
                f"first line has {width}; correct it, or put quotes around fields that hold {separator!r}"
            )


def typed(series: pl.Series, missing: tuple[str, ...], decimal_comma: bool) -> pl.Series:
    """A column of text as whole numbers, numbers, true and false, or text: what fits all of it."""
    import polars as pl

    text = series.str.strip_chars()
    text = text.set(text.is_in(list(missing)), None)
    plain = text.str.replace(_COMMA, "${1}.${2}") if decimal_comma else text
    for kind in (pl.Int64, pl.Float64):
        numbers = plain.cast(kind, strict=False)
        if numbers.null_count() == text.null_count():
            return numbers
    lower = text.str.to_lowercase()
    if lower.drop_nulls().is_in(["true", "false"]).all():
        return (lower == "true").alias(series.name)
    return text

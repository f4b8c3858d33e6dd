"""Tables from files: CSV, TSV, JSON, Excel, Parquet, Feather; an error is one line with file and remedy."""

from __future__ import annotations

import difflib
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.core.text import listing
from kembed.data.delimited import (
    UNNAMED,
    column_names,
    decoded,
    named,
    nameless,
    picked,
    read_delimited,
    without_missing,
)
from kembed.data.sources import STANDARD_INPUT, InputError, label, missing_file, read_bytes, silent_stderr

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "STANDARD_INPUT",
    "UNNAMED",
    "InputError",
    "checked",
    "comma_of",
    "file_kind",
    "is_text",
    "label",
    "missing_file",
    "nameless",
    "picked",
    "read_table",
]

# Suffixes: text tables with what separates their fields, and binary files.
TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", "": ","}
PARQUET = (".parquet", ".pq")
IPC = (".feather", ".arrow", ".ipc")
LINES, JSON = (".jsonl", ".ndjson"), (".json",)
SHEETS = (".xlsx", ".xls", ".xlsb", ".ods")
# What people and programs write where there is no value.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
# Delimiters that are hard to type.
DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


def read_table(
    source: str | Path,
    *,
    delimiter: str | None = None,
    header: bool = True,
    missing: Iterable[str] = (),
    decimal_comma: bool = False,
    words: Iterable[str] = (),
) -> pl.DataFrame:
    r"""The table in a file, by its suffix; "-" is CSV on standard input.

    `missing` holds further words that mean "no value", in text of every kind of file. Of text tables alone:
    `delimiter` overrides the comma (the tab of .tsv); without a `header` columns are called by their places;
    with `decimal_comma` 1,5 is a number; columns named in `words` stay as they are written, 1.50 and TRUE.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "heights.csv"
    >>> _ = path.write_text("name,height\nAda,1.70\nBen,NA\n")
    >>> read_table(path).to_dict(as_series=False)
    {'name': ['Ada', 'Ben'], 'height': [1.7, None]}
    """
    name, suffix = label(source), _suffix(source)
    data = read_bytes(source)
    if suffix in TEXT:
        separator = _separator(TEXT[suffix], delimiter)
        kept = frozenset(words)
        frame = read_delimited(data, name, separator, header, (*MISSING, *missing), decimal_comma, kept)
    else:
        frame = _typed(data, name, suffix)
        frame.columns = named(frame.columns, name)
        frame = without_missing(frame, (*MISSING, *missing))
    if not frame.width:
        raise InputError(f"{name} has no columns; give a table with at least one")
    if not frame.height:
        raise InputError(f"{name} has column names but no rows; check how it was written")
    return frame


def checked(columns: Iterable[str], present: list[str], name: str) -> list[str]:
    """The columns asked for, all of which are there.

    >>> checked(["age"], ["ages", "height"], "a.csv")
    Traceback (most recent call last):
        ...
    kembed.data.sources.InputError: a.csv has no column 'age'; did you mean 'ages'? It has 'ages', 'height'
    """
    wanted = list(dict.fromkeys(columns))
    for column in wanted:
        if column not in present:
            near = difflib.get_close_matches(column, present, n=1)
            hint = f"; did you mean {near[0]!r}? It has " if near else "; it has "
            raise InputError(f"{name} has no column {column!r}{hint}{listing(present)}")
    return wanted


def comma_of(source: str | Path, delimiter: str | None = None) -> str:
    """What a comma inside a number must mean: in a table that commas separate it stands for thousands.

    >>> comma_of("a.csv"), comma_of("a.csv", ";"), comma_of("a.parquet")
    ('thousands', '', '')
    """
    separator = TEXT.get(_suffix(source))
    return "thousands" if separator and _separator(separator, delimiter) == "," else ""


def file_kind(source: str | Path) -> str:
    """What is in a file, by its suffix: "parquet", "ipc", "text", or "other" for what is read as a whole."""
    suffix = _suffix(source)
    if suffix in TEXT:
        return "text"
    return "parquet" if suffix in PARQUET else "ipc" if suffix in IPC else "other"


def unreadable(name: str, kind: str) -> InputError:
    """The error for a damaged binary file."""
    what = {"parquet": "Parquet", "ipc": "Feather or Arrow IPC"}.get(kind, kind)
    return InputError(f"{name} is not a readable {what} file; write it again, or give CSV")


def text_layout(
    head: bytes, source: str | Path, delimiter: str | None, header: bool
) -> tuple[list[str], str]:
    """The names of the columns and the delimiter of a text table, from its first lines."""
    name, separator = label(source), _separator(TEXT[_suffix(source)], delimiter)
    return column_names(decoded(head, name), separator, header, name)[0], separator


def is_text(source: str | Path) -> bool:
    """Whether a file is a text table, by its suffix."""
    return _suffix(source) in TEXT


def _separator(usual: str, delimiter: str | None) -> str:
    separator = usual if delimiter is None else DELIMITERS.get(delimiter.lower(), delimiter)
    if len(separator.encode()) != 1 or separator in '"\r\n':
        raise InputError(f"--delimiter takes one character, or 'tab', but {delimiter!r} was given")
    return separator


def _suffix(source: str | Path) -> str:
    if str(source) == STANDARD_INPUT:
        return ".csv"
    path = Path(source)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
    if suffix in TEXT or suffix in PARQUET + IPC + LINES + JSON + SHEETS:
        return suffix
    if not path.exists():
        raise missing_file(path)
    remedy = "give CSV, TSV, JSON lines, Excel, Parquet or Feather, or pipe CSV to '-'"
    raise InputError(f"{label(source)} is of a kind ({suffix}) that kembed does not read; {remedy}")


def _typed(data: bytes, name: str, suffix: str) -> pl.DataFrame:
    """A table in a format that has types of its own."""
    import polars as pl

    kinds: dict[tuple[str, ...], tuple[str, Callable[[io.BytesIO], Any]]] = {
        PARQUET: ("Parquet", pl.read_parquet),
        IPC: ("Feather or Arrow IPC", pl.read_ipc),
        LINES: ("JSON lines", lambda file: pl.read_ndjson(file, infer_schema_length=None)),
        JSON: ("JSON", lambda file: pl.read_json(file, infer_schema_length=None)),
        SHEETS: ("Excel", _sheet),
    }
    kind, read = next(found for suffixes, found in kinds.items() if suffix in suffixes)
    try:
        with silent_stderr():
            return read(io.BytesIO(data))
    except InputError as error:
        raise InputError(f"{name} {error}") from None
    except MemoryError:
        raise
    except Exception:
        pass
    except BaseException as error:  # Polars' own faults are no exceptions of Python's
        if type(error).__name__ != "PanicException":
            raise
    raise unreadable(name, kind) from None


def _sheet(file: io.BytesIO) -> pl.DataFrame:
    """The first sheet of a workbook, by whichever reader is installed."""
    import polars as pl

    for engine in ("calamine", "openpyxl"):
        try:
            return pl.read_excel(file, engine=engine)
        except ImportError:
            continue
    raise InputError("is a spreadsheet; pip install fastexcel to read it, or save the sheet as CSV")

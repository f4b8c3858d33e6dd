"""Files: CSV, TSV, JSON, Excel, Parquet, Feather; paths, lists, patterns, folders, standard input.

By its suffix a file becomes parts. An error is one line with the file and the remedy.
"""

from __future__ import annotations

import difflib
import glob
import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kembed.core.text import STANDARD_INPUT, counted, label, listing
from kembed.tables.delimited import BYTES, named, open_text
from kembed.tables.parts import (
    ROWS,
    Held,
    InputError,
    Opened,
    Scan,
    Stream,
    TextOptions,
    cut,
    of_lazy,
    reading,
    scan,
    silent_stderr,
)

if TYPE_CHECKING:
    import polars as pl

MOST = 2 * 1024**3  # bytes of what has no size of its own, such as a pipe
CHUNK = 1 << 20  # bytes read at once
# Suffixes: text tables with what separates their fields, and others.
TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", "": ","}
SCANNED = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "ipc"),
    **dict.fromkeys((".jsonl", ".ndjson"), "lines"),
}
READ = {".json": "JSON", **dict.fromkeys((".xlsx", ".xls", ".xlsb", ".ods"), "Excel")}
KINDS = {"parquet": "Parquet", "ipc": "Feather or Arrow IPC", "lines": "JSON lines"}
SUFFIXES = (*(suffix for suffix in TEXT if suffix), ".gz", *SCANNED, *READ)


def open_files(value: Any, argument: str, options: TextOptions, rows: int = ROWS) -> Opened:
    """A path, a list of paths, a pattern, a folder of Parquet files, or "-" for CSV on standard input."""
    name, paths = paths_of(value, argument)
    each = {path: _open_file(path, options, rows) for path in dict.fromkeys(paths)}
    first = each[paths[0]]
    for path in paths[1:]:
        if set(each[path].names) != set(first.names):
            raise different_columns([(label(paths[0]), first.names), (label(path), each[path].names)])
    parts = [part for path in paths for part in each[path].parts]
    if not parts:
        raise InputError(f"{name} has column names but no rows; check how it was written")
    notes = tuple(dict.fromkeys(note for one in each.values() for note in one.notes))
    return Opened(name, parts, first.names, first=1, notes=notes)


def different_columns(samples: list[tuple[str, tuple[str, ...]]]) -> ValueError:
    """The error for two samples of different columns."""
    (first, own), (other, others) = samples
    only = [
        f"only {label} has {listing(name for name in mine if name not in yours)}"
        for label, mine, yours in ((first, own, others), (other, others, own))
        if not set(mine) <= set(yours)
    ]
    seen = f"must have the same columns, but {' and '.join(only)}"
    remedy = "rename or drop columns until the names agree"
    folded = {name.casefold(): name for name in others}
    capitals = [(name, folded[name.casefold()]) for name in own if name.casefold() in folded]
    if not set(own) & set(others):
        seen = "must have the same columns, but have no column in common"
        if capitals:
            remedy = f"capitals matter ({capitals[0][0]!r} and {capitals[0][1]!r}), so rename them"
        elif all(name.isdigit() for name in (*own, *others)):
            remedy = "if the first lines are data and not names, use --no-header"
    columns = f"({first}: {listing(own)}; {other}: {listing(others)})"
    return InputError(f"{first} and {other} {seen} {columns}; {remedy}")


def paths_of(value: Any, argument: str) -> tuple[str, list[str]]:
    """The files that were meant, in order, and what to call them together."""
    if isinstance(value, list | tuple):
        found = [path for one in value for path in paths_of(one, argument)[1]]
        return (label(found[0]) if len(found) == 1 else f"{argument} ({counted(len(found), 'file')})"), found
    text = os.fspath(value)
    path = Path(text)
    if path.is_dir():  # as Dask and Spark write tables
        inside = sorted(str(one) for one in path.iterdir() if one.suffix in (".parquet", ".pq"))
        found = [one for one in inside if not Path(one).name.startswith(("_", "."))]
        if not found:
            raise InputError(f"{label(text)} is a folder; give a file in it, or a pattern")
        return label(text), found
    if not glob.has_magic(text) or path.exists():  # an existing file is no pattern
        return label(text), [text]
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise InputError(f"no file is called {label(text)}; check the pattern and the folder")
    return label(text), found


def _open_file(path: str, options: TextOptions, rows: int) -> Opened:
    """One file."""
    import polars as pl

    name, suffix = label(path), _suffix(path)
    data = _bytes_of_stream(path, name)
    if suffix in TEXT:
        size = BYTES * rows // ROWS or 1
        names, parts, notes = open_text(path, name, TEXT[suffix], options, data, size)
        return Opened(name, parts, names, notes=notes)
    if suffix in READ or data is not None:
        whole = Path(path).read_bytes() if data is None else data
        frame = _typed(whole, name, READ.get(suffix) or KINDS[SCANNED[suffix]])
        names = tuple(named(frame.columns, name))
        held = Held(name, names, 1, frame.get_columns(), rows)
        return Opened(name, [held] if frame.height else [], names)
    kind = SCANNED[suffix]
    with reading(lambda _: unreadable(name, KINDS[kind])), silent_stderr():
        lazy = scan(path, kind)
        written = tuple(lazy.collect_schema().names())
        size = int(lazy.select(pl.len()).collect().item())
    names = tuple(named(list(written), name))
    if kind == "lines":  # can only be read from the beginning
        query = lazy.rename(dict(zip(written, names, strict=True)))
        return Opened(name, [Stream(name, names, 1, of_lazy(query, rows), rows)] if size else [], names)
    declared = _declared(path) if kind == "parquet" else frozenset()
    scans = [
        Scan(name, names, number, path, kind, first, length, written, declared)
        for number, (first, length) in enumerate(cut(size, rows), start=1)
    ]
    return Opened(name, scans, names)


def _declared(path: str) -> frozenset[str]:
    """The columns that pandas has written as categories, which polars reads as what they are of."""
    import polars as pl

    about = json.loads(pl.read_parquet_metadata(path).get("pandas", "{}"))
    return frozenset(
        str(one["name"]) for one in about.get("columns", ()) if one.get("pandas_type") == "categorical"
    )


def _suffix(source: str | Path) -> str:
    if str(source) == STANDARD_INPUT:
        return ".csv"
    path = Path(source)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
    if suffix in TEXT or suffix in SCANNED or suffix in READ:
        return suffix
    if not path.exists():
        raise missing_file(path)
    remedy = "give CSV, TSV, JSON lines, Excel, Parquet or Feather, or pipe CSV to '-'"
    raise InputError(f"{label(source)} is of a kind ({suffix}) that kembed does not read; {remedy}")


def unreadable(name: str, kind: str) -> InputError:
    """The error for a damaged file."""
    return InputError(f"{name} is not a readable {kind} file; write it again, or give CSV")


def missing_file(path: Path) -> InputError:
    """The error for a file that is not there."""
    try:
        names = [other.name for other in path.parent.iterdir() if other.is_file()]
    except (OSError, ValueError):
        names = []
    near = difflib.get_close_matches(path.name, names, n=1)
    perhaps = f", perhaps {label(path.parent / near[0])}" if near else ""
    return InputError(f"{label(path)} does not exist; check the name{perhaps}")


def _bytes_of_stream(path: str, name: str) -> bytes | None:
    """What standard input or a pipe holds, all of it; None for a file, which is read in parts."""
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError("standard input is closed; give a file, or pipe a table in")
        try:
            data = _limited(sys.stdin.buffer, name)
        except OSError as error:
            raise InputError(f"standard input cannot be read ({error.strerror}); give a file") from None
        if not data.strip():
            raise InputError(f"{name} is empty; check how it was written")
        return data
    try:
        kind = Path(path).stat().st_mode
        if stat.S_ISREG(kind):
            with open(path, "rb"):  # whether it can be read at all
                return None
        with open(path, "rb") as file:
            if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not os.isatty(file.fileno())):
                raise InputError(f"{name} is a device and no table; give a file")
            return _limited(file, name)
    except FileNotFoundError:
        raise missing_file(Path(path)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        seen = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read ({seen}); check its name and permissions") from None


def _limited(file: IO[bytes], name: str) -> bytes:
    parts, size = [], 0
    while part := file.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > MOST:
            remedy = "give a file, or fewer rows or columns; Parquet takes a tenth of the place"
            raise InputError(f"{name} is more than {MOST / 1024**3:.3g} GiB, which is the limit; {remedy}")
    return b"".join(parts)


def _typed(data: bytes, name: str, kind: str) -> pl.DataFrame:
    """A table that is read as a whole, in a format that has types of its own."""
    import polars as pl

    readers: dict[str, Callable[[io.BytesIO], Any]] = {
        "Parquet": pl.read_parquet,
        "Feather or Arrow IPC": pl.read_ipc,
        "JSON lines": lambda file: pl.read_ndjson(file, infer_schema_length=None),
        "JSON": lambda file: pl.read_json(file, infer_schema_length=None),
        "Excel": lambda file: _sheet(file, name),
    }
    if not data.strip():
        raise InputError(f"{name} is empty; check how it was written")
    with reading(lambda _: unreadable(name, kind)), silent_stderr():
        return readers[kind](io.BytesIO(data))


def _sheet(file: io.BytesIO, name: str) -> pl.DataFrame:
    """The first sheet of a workbook, by whichever reader is installed."""
    import polars as pl

    for engine in ("calamine", "openpyxl"):
        try:
            return pl.read_excel(file, engine=engine)
        except ImportError:
            continue
    raise InputError(f"{name} is a spreadsheet; pip install fastexcel to read it, or save the sheet as CSV")


def checked(columns: Iterable[str], present: Iterable[str], name: str) -> list[str]:
    """The columns asked for, all of which are there.

    >>> checked(["age"], ["ages", "height"], "a.csv")
    Traceback (most recent call last):
        ...
    kembed.tables.parts.InputError: a.csv has no column 'age'; did you mean 'ages'? It has 'ages', 'height'
    """
    wanted, there = list(dict.fromkeys(columns)), list(present)
    for column in wanted:
        if column not in there:
            near = difflib.get_close_matches(column, there, n=1)
            hint = f"; did you mean {near[0]!r}? It has " if near else "; it has "
            raise InputError(f"{name} has no column {column!r}{hint}{listing(there)}")
    return wanted

"""The bytes of a file or of standard input, never more than a stated limit; an error is one line."""

import difflib
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import IO

from kembed.core.text import printable

STANDARD_INPUT = "-"
# What has no size of its own (a pipe, what a gzip file holds) may grow to this: some ten million rows.
MOST = 2 * 1024**3
CHUNK = 1 << 20  # bytes read at once


class InputError(ValueError):
    """What is wrong with what the user gave, in one line with the remedy."""


def label(source: str | Path) -> str:
    """What to call a source in a sentence; safe to print."""
    return "standard input" if str(source) == STANDARD_INPUT else printable(str(source))


def read_bytes(source: str | Path, most: int = MOST) -> bytes:
    """All of it, unpacked if it is gzip."""
    name = label(source)
    data = _standard_input(name, most) if str(source) == STANDARD_INPUT else _file(Path(source), name, most)
    if data.startswith(b"\x1f\x8b"):
        try:
            data = _limited(GzipFile(fileobj=io.BytesIO(data)), f"unpacked, {name}", most)
        except (OSError, EOFError, zlib.error):
            raise InputError(f"{name} is a damaged gzip file; make or download it again") from None
    if not data.strip():
        raise InputError(f"{name} is empty; check how it was written")
    return data


def _standard_input(name: str, most: int) -> bytes:
    if sys.stdin is None:
        raise InputError("standard input is closed; give a file, or pipe a table in")
    try:
        return _limited(sys.stdin.buffer, name, most)
    except OSError as error:
        raise InputError(f"standard input cannot be read ({error.strerror}); give a file") from None


def _file(path: Path, name: str, most: int) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise InputError(f"{name} is a folder; give a file in it")
        if stat.S_ISREG(kind):
            return path.read_bytes()
        with path.open("rb") as file:
            if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not os.isatty(file.fileno())):
                raise InputError(f"{name} is a device and no table; give a file")
            return _limited(file, name, most)
    except FileNotFoundError:
        raise missing_file(path) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        seen = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read ({seen}); check its name and permissions") from None


def _limited(file: IO[bytes] | GzipFile, name: str, most: int) -> bytes:
    parts, size = [], 0
    while part := file.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > most:
            remedy = "give a file, or fewer rows or columns; Parquet takes a tenth of the place"
            raise InputError(f"{name} is more than {most / 1024**3:.3g} GiB, which is the limit; {remedy}")
    return b"".join(parts)


def missing_file(path: Path) -> InputError:
    """The error for a file that is not there."""
    return InputError(f"{label(path)} does not exist; check the name{_near(path)}")


def _near(path: Path) -> str:
    """A file beside it with a similar name."""
    try:
        names = [other.name for other in path.parent.iterdir() if other.is_file()]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f", perhaps {label(path.parent / near[0])}" if near else ""


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Keep what a library of another language writes to standard error off the screen."""
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

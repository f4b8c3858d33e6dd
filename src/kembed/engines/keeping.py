"""Passes that are kept in a folder, so that a run that was interrupted goes on after its last finished pass.

A pass is known by what was asked and of which files: the function, its parameters and the parts, all of them
hashed, and of every file its length, its time, its first bytes and its last. What it brought back is written
whole, as plain arrays and JSON under a checksum; nothing in the folder is code.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kembed import __version__
from kembed.core.packing import FileError, read_packed, write_packed
from kembed.data.files import InputError, label
from kembed.engines.batches import Call, Engine
from kembed.engines.source import RESULTS

KIND = "pass"
ENDS = 2**16  # bytes of either end of a file that are looked at: those of Parquet hold its statistics


class UnknownError(TypeError):
    """What has no name that would be the same in another run: a function of the user's, rows in memory."""


@dataclass(eq=False)
class Kept:
    """The folder of a run, and how many passes were taken from it or put there."""

    folder: Path
    taken: int = 0
    written: int = 0
    unknown: int = field(default=0)  # passes that cannot be kept


_current: ContextVar[Kept | None] = ContextVar("_current", default=None)


@contextmanager
def resuming(folder: str | Path) -> Iterator[Kept]:
    """Keep every finished pass over files in a folder within this block, and take those that are there.

    Run again after an interruption, with the same files, arguments and seed (`rng`), it goes on where it was.
    A file that has changed in length, time or at its ends is read anew. Rows in memory and Dask collections
    are not kept. Delete the folder when you are done.

    >>> import kembed, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, kembed.resuming(folder) as kept:
    ...     pass
    >>> kept.taken, kept.written
    (0, 0)
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        seen = f"passes cannot be kept in {label(str(place))} ({error.strerror})"
        raise InputError(f"{seen}; name a folder that can be written") from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"passes cannot be kept in {label(str(place))}; name a folder that can be written")
    kept = Kept(place)
    token = _current.set(kept)
    try:
        yield kept
    finally:
        _current.reset(token)


def keeping(engine: Engine) -> Engine:
    """The engine, with passes kept where that was asked for."""
    kept = _current.get()
    return engine if kept is None else Keeping(engine, kept)


@dataclass(frozen=True, eq=False)
class Keeping(Engine):
    """An engine whose passes are kept."""

    engine: Engine
    kept: Kept

    def total(self, label: str, work: Callable[..., Any], calls: Sequence[Call], *params: Any) -> Any:
        """What is there, or what the engine finds."""
        try:
            path = self.kept.folder / f"{pass_name(work, calls, params)}.kembed"
        except (UnknownError, OSError):  # a file that is gone is the reader's to tell
            self.kept.unknown += 1
            return self.engine.total(label, work, calls, *params)
        try:
            found = read_packed(path, KIND, RESULTS)
            self.kept.taken += 1
            return found
        except FileError:  # none, or one that is damaged
            pass
        found = self.engine.total(label, work, calls, *params)
        try:
            write_packed(path, KIND, found, RESULTS)
            self.kept.written += 1
        except TypeError:
            self.kept.unknown += 1
        except OSError as error:
            seen = f"a pass over {label} could not be kept in {self.kept.folder} ({error.strerror})"
            warnings.warn(f"{seen}; the run goes on, and would read it again", stacklevel=2)
        return found


def pass_name(work: Callable[..., Any], calls: Sequence[Call], params: tuple[Any, ...]) -> str:
    """A name that the same question of the same files has in every run."""
    found = hashlib.sha256()
    paths = [getattr(call.part, "path", None) for call in calls]
    if not calls or not all(isinstance(path, str) and path for path in paths):
        raise UnknownError("rows that are in no file")
    add_to(found, (__version__, work, [(call.part, call.own) for call in calls], params))
    add_to(found, [file_print(path) for path in dict.fromkeys(map(str, paths))])
    return found.hexdigest()[:32]


def file_print(path: str) -> tuple[int, int, bytes]:
    """The length of a file, when it was written, and both of its ends."""
    with Path(path).open("rb") as file:
        about = os.fstat(file.fileno())
        ends = file.read(ENDS)
        file.seek(max(0, about.st_size - ENDS))
        return about.st_size, about.st_mtime_ns, hashlib.sha256(ends + file.read(ENDS)).digest()


def add_to(found: Any, value: Any) -> None:
    """Hash a value by its content: numbers, text, arrays, and objects and functions of kembed's.

    Whatever is computed from the fields of an object later is no part of it.
    """
    kind = type(value)
    found.update(f"\n{kind.__module__}.{kind.__qualname__} ".encode())
    if value is None or isinstance(value, bool | int | float | complex | str | np.generic):
        found.update(repr(value).encode())
    elif isinstance(value, bytes):
        found.update(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise UnknownError("an array of objects")
        found.update(f"{value.dtype.str} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "tocsr"):
        table = value.tocsr()
        add_to(found, (table.shape, table.data, table.indices, table.indptr))
    elif isinstance(value, tuple | list):
        found.update(f"{len(value)} ".encode())
        for item in value:
            add_to(found, item)
    elif isinstance(value, dict):
        add_to(found, list(value.items()))
    elif isinstance(value, set | frozenset):
        add_to(found, sorted(value, key=repr))
    elif hasattr(value, "__qualname__") and _is_ours(value):  # a function or a class
        found.update(f"{value.__module__}.{value.__qualname__}".encode())
    elif is_dataclass(value) and _is_ours(kind):
        add_to(found, [(one.name, getattr(value, one.name)) for one in fields(value)])
    elif _is_ours(kind) and hasattr(value, "__dict__"):
        add_to(found, sorted(vars(value).items()))
    else:
        raise UnknownError(f"{kind.__name__} has no name that stays")


def _is_ours(item: Any) -> bool:
    return item.__module__.startswith("kembed.") and "<" not in item.__qualname__

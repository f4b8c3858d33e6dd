"""Caches: `Store` of p-values in a file, and `MemoryCache` of regressions and features.

The keys of a file are digests of everything a p-value depends on, the content of the data first. SQLite
writes a number whole or not at all, and several processes may share one file.
"""

import hashlib
import os
import sqlite3
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Bytes that a cache in memory may hold, of few rows and of many: a search for a graph of 20 variables needs
# each of 20 conditioning sets repeatedly, 100 MB each with 100,000 rows (`benchmarks/pc_size.py`).
ROOM, LARGE_ROOM = 600_000_000, 3_000_000_000
LEAST_KEPT = 8  # results, whatever their size: what one test needs
FILE = "kembed-pvalues.sqlite"  # in the folder that the user names
WAIT = 60.0  # seconds for another process to finish writing, which takes milliseconds
# Remedies by words in messages of SQLite.
REMEDIES = {
    "full": "make room",
    "readonly": "make it writable",
    "unable to open": "make it writable",
    "locked": "end the process that holds it",
}


def digest(*parts: Any) -> str:
    """A key from bytes, text and numbers, each preceded by its length."""
    total = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else repr(part).encode()
        total.update(len(content).to_bytes(8, "little") + content)
    return total.hexdigest()


class Store:
    """Numbers by key in one file, closed with the last reference; a closed store is empty and stays so."""

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"cache must be the name of a folder, but {path!r} was given")
        self.folder = Path(path)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ValueError(f"cache {str(self.folder)!r} is a file, not a folder; name a folder") from None
        except OSError as error:
            what = f"cache {str(self.folder)!r} cannot be made ({error.strerror})"
            raise ValueError(f"{what}; name another") from None
        with self._one_line():
            file = self.folder / FILE
            connection = sqlite3.connect(file, timeout=WAIT, isolation_level=None, check_same_thread=False)
        self._connection, self.close = connection, weakref.finalize(self, connection.close)
        with self._one_line():
            columns = "key TEXT PRIMARY KEY, value REAL NOT NULL"
            connection.execute(f"CREATE TABLE IF NOT EXISTS numbers ({columns})")
            connection.execute("SELECT key, value FROM numbers LIMIT 1")  # a file of others has other columns

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        """Errors of SQLite as one line with a remedy."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes any bytes of a damaged file
            getattr(self, "close", lambda: None)()
            damaged = isinstance(error, UnicodeDecodeError)
            reason = "it is damaged" if damaged else " ".join(str(error).split())
            remedy = next((then for word, then in REMEDIES.items() if word in reason), "delete that file")
            what = f"the cache {str(self.folder / FILE)!r} cannot be used ({reason})"
            raise ValueError(f"{what}; {remedy} or choose another folder") from None

    def get(self, key: str) -> float | None:
        """The number under a key, or None."""
        if not self.close.alive:
            return None
        with self._one_line():
            row = self._connection.execute("SELECT value FROM numbers WHERE key = ?", (key,)).fetchone()
        # Anything but a p-value was not written by kembed, and is computed again.
        return row[0] if row is not None and isinstance(row[0], float) and 0.0 <= row[0] <= 1.0 else None

    def put(self, key: str, value: float) -> None:
        """Write a number; it is on disk when this returns."""
        if not self.close.alive:
            return
        with self._one_line():
            self._connection.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?)", (key, value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.folder,)  # another process opens the file anew


class MemoryCache:
    """Results by key; the least recently used are dropped when all hold more than `room` bytes."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._results: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self.nbytes = 0  # about

    def get(self, key: tuple[Any, ...], nbytes: int, make: Callable[[], Any]) -> Any:
        """The result under a key, made where there is none; it holds about `nbytes`."""
        if key not in self._results:
            self._results[key] = (make(), nbytes)
            self.nbytes += nbytes
            while self.nbytes > self._room and len(self._results) > LEAST_KEPT:
                self.nbytes -= self._results.popitem(last=False)[1][1]
        self._results.move_to_end(key)
        return self._results[key][0]

    def count(self, kind: str) -> int:
        """How many results have keys that begin with this word."""
        return sum(key[0] == kind for key in self._results)

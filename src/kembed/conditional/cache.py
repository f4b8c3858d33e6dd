"""A file of numbers by key that survives interruption: p-values that took long to compute.

Keys are digests of everything a number depends on, the data's content first. SQLite writes a number whole or
not at all, and several processes may share one file. `Shelf` is a cache in memory.
"""

import hashlib
import os
import sqlite3
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

Kept = TypeVar("Kept")
# Bytes that one kind of kept thing may hold, of few rows and of many; there are three kinds. A search for a
# graph of 20 variables asks for each of 20 conditioners again and again, 100 MB each with 100,000 rows. Their
# sizes are those of two columns given (`benchmarks/pc_size.py` prints what a search takes in all).
ROOM, LARGE_ROOM = 200_000_000, 1_000_000_000
FILE = "kembed-pvalues.sqlite"  # in the folder that the user names
WAIT = 60.0  # seconds for another process to finish writing, which takes milliseconds
# What to do about the commonest words of SQLite.
REMEDIES = {
    "full": "make room",
    "readonly": "make it writable",
    "unable to open": "make it writable",
    "locked": "end the process that holds it",
}


def digest(*parts: Any) -> str:
    """A key from bytes, text and numbers; each part is told from the next."""
    found = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else repr(part).encode()
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


class Store:
    """Numbers by key in one file, which is closed when nobody holds the store any more.

    A store that was closed by hand has no numbers, and takes none.
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"cache must be the name of a folder, but {path!r} was given")
        self.folder = Path(path)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ValueError(f"cache {str(self.folder)!r} is a file, not a folder; name a folder") from None
        except OSError as error:
            seen = f"cache {str(self.folder)!r} cannot be made ({error.strerror})"
            raise ValueError(f"{seen}; name another") from None
        with self._told():
            file = self.folder / FILE
            connection = sqlite3.connect(file, timeout=WAIT, isolation_level=None, check_same_thread=False)
        self._connection, self.close = connection, weakref.finalize(self, connection.close)
        with self._told():
            columns = "key TEXT PRIMARY KEY, value REAL NOT NULL"
            connection.execute(f"CREATE TABLE IF NOT EXISTS numbers ({columns})")
            connection.execute("SELECT key, value FROM numbers LIMIT 1")  # a file of others has other columns

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite says as one line with a remedy."""
        try:
            yield
        except (
            sqlite3.Error,
            UnicodeDecodeError,
        ) as error:  # of a damaged file SQLite quotes bytes of any kind
            getattr(self, "close", lambda: None)()
            damaged = isinstance(error, UnicodeDecodeError)
            said = "it is damaged" if damaged else " ".join(str(error).split())
            remedy = next((then for word, then in REMEDIES.items() if word in said), "delete that file")
            seen = f"the cache {str(self.folder / FILE)!r} cannot be used ({said})"
            raise ValueError(f"{seen}; {remedy} or choose another folder") from None

    def get(self, key: str) -> float | None:
        """The number under a key, or None."""
        if not self.close.alive:
            return None
        with self._told():
            row = self._connection.execute("SELECT value FROM numbers WHERE key = ?", (key,)).fetchone()
        # What is no p-value was not written by us, and is computed again.
        return row[0] if row is not None and isinstance(row[0], float) and 0.0 <= row[0] <= 1.0 else None

    def put(self, key: str, value: float) -> None:
        """Write a number; it is on disk when this returns."""
        if not self.close.alive:
            return
        with self._told():
            self._connection.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?)", (key, value))

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.folder,)  # another process opens the file anew


class Shelf(Generic[Kept]):
    """What was computed, by key; the longest unused goes when room runs out."""

    def __init__(self, numbers: int, room: int = ROOM) -> None:
        self._size, self._room = 8 * numbers, room  # bytes of one thing, about, and of all
        self._kept: OrderedDict[Any, Kept] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """What is kept under the key, made where it is not."""
        if key not in self._kept:
            self._kept[key] = make()
            while len(self._kept) > max(2, self._room // self._size):
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """About how much it holds."""
        return self._size * len(self)

"""A file of numbers by key that survives interruption: p-values that took long to compute.

Keys are digests of everything a number depends on, the data's content first. SQLite writes a number whole or
not at all, and several processes may share one file.
"""

import hashlib
import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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

"""A file of numbers by key that survives interruption: p-values that took long to compute.

Keys are digests of everything a number depends on, the data's content first. SQLite writes a number whole or
not at all, and several processes may share one file.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

FILE = "kembed-pvalues.sqlite"


def digest(*parts: Any) -> str:
    """A key from bytes, text and numbers; each part is told from the next."""
    found = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else repr(part).encode()
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


class Store:
    """Numbers by key in one file."""

    def __init__(self, path: str | Path) -> None:
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ValueError(f"cache {str(folder)!r} is a file, not a folder; name a folder") from None
        except OSError as error:
            raise ValueError(
                f"cache {str(folder)!r} cannot be made ({error.strerror}); name another"
            ) from None
        self.folder = folder
        path = folder / FILE
        try:
            self._file = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS numbers (key TEXT PRIMARY KEY, value REAL NOT NULL)"
            )
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"the cache {str(path)!r} cannot be used ({error}); delete that file or choose another folder"
            ) from None

    def get(self, key: str) -> float | None:
        """The number under a key, or None."""
        row = self._file.execute("SELECT value FROM numbers WHERE key = ?", (key,)).fetchone()
        return None if row is None else float(row[0])

    def put(self, key: str, value: float) -> None:
        """Write a number; it is on disk when this returns."""
        self._file.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?)", (key, value))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

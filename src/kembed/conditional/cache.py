"""P-values on disk by `joblib.Memory`, and results in memory.

The keys of p-values are digests of everything they depend on, the content of the data first.
"""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Bytes that a cache in memory may hold, of few rows and of many: a search for a graph of 20 variables needs
# each of 20 conditioning sets repeatedly, 100 MB each with 100,000 rows (`benchmarks/pc_size.py`).
ROOM, LARGE_ROOM = 600_000_000, 3_000_000_000
LEAST_KEPT = 8  # results, whatever their size: what one test needs


def digest(*parts: Any) -> str:
    """A key from bytes, text and numbers, each preceded by its length."""
    total = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else repr(part).encode()
        total.update(len(content).to_bytes(8, "little") + content)
    return total.hexdigest()


def kept_on_disk(folder: Any) -> Callable[[str, Callable[[], float]], float]:
    """A function of a key and of what computes its number, which is called only where none is kept."""
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"cache must be the name of a folder, but {folder!r} was given")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        seen = f"cache {os.fspath(folder)!r} is no folder and cannot be made one ({error.strerror})"
        raise ValueError(f"{seen}; name another") from None
    from joblib import Memory  # type: ignore[import-untyped]

    return Memory(folder, verbose=0).cache(_computed, ignore=["compute"])


def _computed(key: str, compute: Callable[[], float]) -> float:
    return compute()


class MemoryCache:
    """Results by key; the least recently used are dropped when all hold more than `room` bytes."""

    def __init__(self, room: int) -> None:
        self._room, self._held = room, 0
        self._results: OrderedDict[Any, tuple[Any, int]] = OrderedDict()

    def get(self, key: tuple[Any, ...], nbytes: int, make: Callable[[], Any]) -> Any:
        """The result under a key, made where there is none; it holds about `nbytes`."""
        if key not in self._results:
            self._results[key] = (make(), nbytes)
            self._held += nbytes
            while self._held > self._room and len(self._results) > LEAST_KEPT:
                self._held -= self._results.popitem(last=False)[1][1]
        self._results.move_to_end(key)
        return self._results[key][0]

    def count(self, kind: str) -> int:
        """How many results have keys that begin with this word."""
        return sum(key[0] == kind for key in self._results)

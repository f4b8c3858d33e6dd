"""P-values on disk by `joblib.Memory`, and results in memory.

The keys of p-values are digests of everything they depend on, the content of the data first.
"""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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


@dataclass
class Cache:
    """At most so many results by key; the least recently used are dropped."""

    most: int
    results: OrderedDict[Any, Any] = field(default_factory=OrderedDict)

    def result(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The result under a key, made where there is none."""
        if key not in self.results:
            self.results[key] = make()
        self.results.move_to_end(key)
        if len(self.results) > self.most:
            self.results.popitem(last=False)
        return self.results[key]

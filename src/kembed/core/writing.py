"""Files written whole or not at all, and results as JSON knows them."""

import math
import os
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

STRUCTURE = "kembed"  # the first array of kembed's own files (`core/store.py`)
FORMAT_1 = b"kembed-file"  # how these began before they were archives
SCHEMA = 3  # the version of the keys that docs/json.md lists: a key that changes its meaning makes another


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file beside `path`, and put it in place when it is complete.

    A link stays a link, and the file it points to is written. A pipe or a device gets the bytes in one go.
    """
    given, path = Path(path), place_of(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first, or choose another")
    if path.exists() and not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            write(whole := Path(folder) / f"whole{given.suffix}")
            with path.open("wb") as file:
                file.write(whole.read_bytes())
        return given
    draft = path.with_name(f".{uuid.uuid4().hex}{given.suffix}")
    # The system applies the umask to what is opened so; to ask for the umask is to change it for all threads.
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        write(draft)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return given


def place_of(path: str | Path) -> Path:
    """Where a file is, or will be: the end of a chain of links."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text, whole."""
    return write_whole(path, lambda draft: draft.write_bytes(text.encode()))


def is_store(path: str | Path) -> bool:
    """Whether a file begins as kembed's own do; a pipe, which can be read only once, does not."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            start = file.read(64)
        first = f"{STRUCTURE}.npy".encode()
        return start.startswith(FORMAT_1) or (start.startswith(b"PK") and start[30:].startswith(first))
    except (OSError, ValueError):
        return False


def jsonable(value: Any) -> Any:
    """What the json module knows, from NumPy's scalars and arrays too; numbers that JSON has not are null.

    A dataclass is an object with its fields, or what its own `to_dict` gives.

    >>> jsonable({"p": float("nan"), "size": (1, 2), "when": Path("a.csv")})
    {'p': None, 'size': [1, 2], 'when': 'a.csv'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: getattr(value, each.name) for each in fields(value)}
        return jsonable(value.to_dict() if hasattr(value, "to_dict") else own)
    if isinstance(value, dict):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)

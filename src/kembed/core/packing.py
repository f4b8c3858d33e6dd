"""Results as files: plain arrays and JSON under a checksum, and no code in them, so that reading is safe.

A file is one line of text (what it is, its version, a checksum, its length) and then one compressed body:
JSON, followed by the arrays that it names. Objects are written field by field, and only classes that the
reader knows by name are made again.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kembed.core.text import printable
from kembed.core.writing import MAGIC, write_whole

VERSION = 1  # of the form of files; one who changes it reads the older ones too
LARGEST = 2**31  # bytes of a body: what claims to be larger is damaged, or means harm
LINE = 256  # bytes of the first line at most
_KINDS = "biuf"  # of arrays: truth values and numbers
_Names = Mapping[str, Any]


class FileError(ValueError):
    """A file that cannot be read, in one line with its name and the remedy."""


def write_packed(path: str | Path, kind: str, value: Any, known: _Names) -> Path:
    """Write a value, whole; `known` has the classes and functions it may hold, by name."""
    body = packed(value, known)
    squeezed = zlib.compress(body)
    digest = hashlib.sha256(squeezed).hexdigest()
    line = f"{MAGIC} {VERSION} {kind} {digest} {len(squeezed)} {len(body)}\n"
    return write_whole(path, lambda draft: draft.write_bytes(line.encode() + squeezed))


def read_packed(path: str | Path, kind: str, known: _Names) -> Any:
    """The value in a file of this kind, or an error that names the file."""
    name = printable(str(path))
    try:
        with Path(path).open("rb") as file:
            line, rest = file.readline(LINE), file.read(LARGEST)
    except FileNotFoundError:
        raise FileError(f"{name} does not exist; check the name") from None
    except OSError as error:
        raise FileError(f"{name} cannot be read ({error.strerror}); check what it is") from None
    words = line.decode("ascii", "replace").split()
    if len(words) < 2 or words[0] != MAGIC or not line.endswith(b"\n"):
        raise FileError(f"{name} is no file of kembed's; give one that kembed has written")
    if words[1] != str(VERSION):
        later = words[1].isdigit() and int(words[1]) > VERSION
        what = f"is of version {words[1]}, and this kembed reads version {VERSION}"
        raise FileError(f"{name} {what}; update kembed" if later else f"{name} is damaged; make it again")
    if len(words) != 6 or not all(word.isdigit() for word in words[4:]):
        raise FileError(f"{name} is damaged; make it again")
    if words[2] != kind:
        raise FileError(f"{name} holds a {words[2]}, and a {kind} is wanted; give another file")
    if len(rest) != int(words[4]):
        seen = f"{len(rest):,} bytes where {int(words[4]):,} were written"
        raise FileError(f"{name} is not whole ({seen}); make or copy it again")
    if hashlib.sha256(rest).hexdigest() != words[3]:
        raise FileError(f"{name} is damaged (its checksum is another); make or copy it again")
    try:
        return unpacked(_inflated(rest, int(words[5])), known)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error, RecursionError):
        raise FileError(f"{name} does not hold what its first line says; make it again") from None


def _inflated(data: bytes, size: int) -> bytes:
    if size > LARGEST:
        raise ValueError("too large")
    reader = zlib.decompressobj()
    body = reader.decompress(data, size + 1)
    if len(body) != size or not reader.eof:
        raise ValueError("another length")
    return body


def packed(value: Any, known: _Names) -> bytes:
    """A value as bytes: the length of the JSON, the JSON, the arrays."""
    writer = _Writer(known)
    text = json.dumps(writer.plain(value), allow_nan=False).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *writer.parts])


def unpacked(body: bytes, known: _Names) -> Any:
    """The value again."""
    size = int.from_bytes(body[:8], "little")
    return _Reader(known, memoryview(body)[8 + size :]).value(json.loads(body[8 : 8 + size]))


class _Writer:
    def __init__(self, known: _Names) -> None:
        self.names = {id(item): name for name, item in known.items()}
        self.parts: list[bytes] = []
        self.offset = 0
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # what was seen stays alive, so that no other object gets its number

    def plain(self, value: Any) -> Any:
        """A value in JSON's words: one key says what it is."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.generic):
            return self.plain(value.item())
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": str(value)}
        if id(value) in self.seen:
            return {"again": self.seen[id(value)]}
        if id(value) in self.names:
            return {"function": self.names[id(value)]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if hasattr(value, "tocsr"):
            table = value.tocsr()
            inside = [self._array(each) for each in (table.data, table.indices, table.indptr)]
            return {"sparse": inside, "shape": list(table.shape)}
        if id(type(value)) in self.names:
            return self._object(value)
        if isinstance(value, tuple):
            return {"tuple": [self.plain(item) for item in value]}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, frozenset):
            return {"set": [self.plain(item) for item in sorted(value)]}
        if isinstance(value, dict):
            return {"pairs": [[self.plain(key), self.plain(item)] for key, item in value.items()]}
        seen = f"{type(value).__name__} {value!r}"[:80]
        raise TypeError(f"{seen} cannot be written to a file; use words and kernels of kembed's own")

    def _object(self, value: Any) -> Any:
        number = self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        names = [one.name for one in fields(value)] if is_dataclass(value) else value._fields
        inside = {name: self.plain(getattr(value, name)) for name in names}
        return {"object": self.names[id(type(value))], "fields": inside, "number": number}

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"an array of type {value.dtype} cannot be written to a file")
        wanted, value = value.dtype, _narrow(value)
        part = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        # Bytes of the same weight side by side: the high ones of small numbers are alike, and cost nothing.
        data = part.reshape(-1).view(np.uint8).reshape(-1, part.itemsize).T.tobytes()
        found = {"array": part.dtype.str, "as": wanted.str, "shape": list(value.shape), "at": self.offset}
        self.parts.append(data)
        self.offset += len(data)
        return found


def _narrow(value: np.ndarray) -> np.ndarray:
    """The same numbers in fewer bytes, where that loses nothing."""
    if value.dtype.kind in "iu" and value.size:
        low, high = int(value.min()), int(value.max())
        kinds: tuple[Any, ...] = (np.int8, np.int16, np.int32)
        return next(
            (value.astype(k) for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max), value
        )
    if value.dtype == np.float64:
        with np.errstate(over="ignore"):
            short = value.astype(np.float32)
        return short if np.array_equal(short, value, equal_nan=True) else value
    return value


class _Reader:
    def __init__(self, known: _Names, data: memoryview) -> None:
        self.known, self.data = known, data
        self.seen: dict[int, Any] = {}

    def value(self, told: Any) -> Any:
        """What JSON's words mean."""
        if isinstance(told, list):
            return [self.value(item) for item in told]
        if not isinstance(told, dict):
            return told
        if "again" in told:
            return self.seen[told["again"]]
        if "function" in told:
            return self.known[told["function"]]
        if "array" in told:
            return self._array(told)
        if "sparse" in told:
            from scipy.sparse import csr_array

            found = csr_array(tuple(map(self._array, told["sparse"])), shape=tuple(told["shape"]))
            found.check_format()
            return found
        if "object" in told:
            return self._object(told)
        if "tuple" in told:
            return tuple(self.value(item) for item in told["tuple"])
        if "set" in told:
            return frozenset(self.value(item) for item in told["set"])
        if "pairs" in told:
            return {self.value(key): self.value(item) for key, item in told["pairs"]}
        return float(told["number"])

    def _object(self, told: Any) -> Any:
        kind: Any = self.known[told["object"]]
        inside = {name: self.value(item) for name, item in told["fields"].items()}
        made: Any
        if is_dataclass(kind) and isinstance(kind, type):
            if set(inside) != {one.name for one in fields(kind)}:
                raise ValueError("other fields")
            made = kind.__new__(kind)
            vars(made).update(inside)  # without `__init__`: what was checked once need not be again
        else:
            made = kind(**inside)
        self.seen[told["number"]] = made
        return made

    def _array(self, told: Any) -> np.ndarray:
        kind, wanted = np.dtype(told["array"]), np.dtype(told["as"])
        if kind.kind not in _KINDS or wanted.kind not in _KINDS:
            raise ValueError("no numbers")
        shape = tuple(map(int, told["shape"]))
        count, at = math.prod(shape), int(told["at"])
        if min(shape, default=0) < 0 or at < 0 or at + count * kind.itemsize > len(self.data):
            raise ValueError("outside of the file")
        raw = np.frombuffer(self.data, np.uint8, count * kind.itemsize, at).reshape(kind.itemsize, count)
        return np.ascontiguousarray(raw.T).view(kind).reshape(shape).astype(wanted)

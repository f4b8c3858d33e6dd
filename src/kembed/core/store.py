"""Objects as files: their arrays in a NumPy archive (`np.savez`), their structure beside these as JSON.

Reading makes numbers, text, arrays and instances of classes that the caller lists, and runs nothing else.
"""

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kembed.core.text import printable
from kembed.core.writing import FORMAT_1, STRUCTURE, is_store, write_whole

VERSION = 3  # of the format
LARGEST = 2**30  # bytes that a file may declare, all arrays together; checked before any is read
MOST = 10**7  # values of the structure, each object counted wherever it occurs
_NUMBERS = "biuf"  # kinds of arrays
_Known = Mapping[str, Any]


class FileError(ValueError):
    """A file that cannot be read: one line with its name and the remedy."""


def write_store(path: str | Path, kind: str, value: Any, known: _Known) -> Path:
    """Write a value atomically; `known` has the classes and functions that it may hold, by name."""
    structure, arrays = encode(value, known)
    text = json.dumps({"version": VERSION, "kind": kind, "value": structure}).encode()
    if (size := len(text) + sum(array.nbytes for array in arrays.values())) > LARGEST - 2**20:
        raise ValueError(f"{size:,} bytes are more than a file may hold; use fewer columns or rows")
    entries: dict[str, Any] = {STRUCTURE: np.frombuffer(text, np.uint8), **arrays}

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez_compressed(file, **entries)

    return write_whole(path, write)


def read_store(path: str | Path, kinds: str | tuple[str, ...], known: _Known) -> Any:
    """Read the value in a file of this kind, or of one of these.

    Raises
    ------
    FileError
        If the file is missing, damaged, of another kind or version, or no file of kembed's.

    """
    name = printable(str(path))
    try:
        with Path(path).open("rb") as file:
            if file.read(len(FORMAT_1)) == FORMAT_1:
                raise FileError(f"{name} was written by an older kembed; make it again")
        if not is_store(path):
            raise FileError(f"{name} is no file of kembed's; give one that kembed has written")
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise ValueError("more bytes than any file of kembed's has")
            content = json.loads(_read_array(archive, STRUCTURE).tobytes())
            version, held = int(content["version"]), printable(str(content["kind"]))
            if version < VERSION:
                raise FileError(f"{name} was written by an older kembed; make it again")
            if version > VERSION:
                raise FileError(f"{name} has format {version}, not {VERSION}; update kembed")
            wanted = (kinds,) if isinstance(kinds, str) else kinds
            if held not in wanted:
                seen = f"{name} holds a {held}, and a {' or a '.join(wanted)} is wanted"
                raise FileError(f"{seen}; give another file")
            return _Decoder(known, lambda key: _read_array(archive, key)).value(content["value"])
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{name} does not exist; check the name") from None
    except OSError as error:
        raise FileError(f"{name} cannot be read ({error.strerror}); check what it is") from None
    except Exception as error:  # whatever a decoder meets in a file that kembed has not written so
        raise FileError(f"{name} is damaged or incomplete; make or copy it again") from error


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read an array whose header declares as many bytes as its entry has."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # which are read piece by piece
        raise ValueError("another compression")
    with archive.open(entry) as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        declared = file.tell() + dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
        if dtype.kind not in _NUMBERS or min(shape, default=0) < 0 or declared != entry.file_size:
            raise ValueError("another size or type")
        file.seek(0)
        found = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # the end, where the archive compares its CRC
            raise ValueError("another size")
    return np.asarray(found)


def encode(value: Any, known: _Known) -> tuple[Any, dict[str, np.ndarray]]:
    """A value as JSON and the arrays that it names."""
    encoder = _Encoder(known)
    return encoder.plain(value), encoder.arrays


def decode(structure: Any, arrays: Mapping[str, np.ndarray], known: _Known) -> Any:
    """The value again."""
    return _Decoder(known, arrays.__getitem__).value(structure)


def _names(kind: Any) -> list[str]:
    """The fields of a dataclass or a named tuple."""
    return [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)


class _Encoder:
    def __init__(self, known: _Known) -> None:
        self.names = {id(item): name for name, item in known.items()}
        self.arrays: dict[str, np.ndarray] = {}
        self.known: dict[
            int, tuple[Any, Any]
        ] = {}  # what refers to an object, and the object, to keep its id
        self.objects = 0

    def plain(self, value: Any) -> Any:
        """A value in JSON: an object of one key says what it is."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if id(value) in self.known:
            return self.known[id(value)][0]
        if isinstance(value, np.generic):
            return self.plain(value.item())
        if id(value) in self.names:
            return {"function": self.names[id(value)]}
        if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
            encoded = {"array": f"array_{len(self.arrays)}"}
            self.arrays[encoded["array"]] = np.asarray(value, order="C")
            self.known[id(value)] = (encoded, value)
            return encoded
        if hasattr(value, "tocsr"):
            table = value.tocsr()
            return {"csr": self.plain([table.data, table.indices, table.indptr]), "shape": list(table.shape)}
        if id(type(value)) in self.names:
            inside = {name: self.plain(getattr(value, name)) for name in _names(type(value))}
            self.known[id(value)] = ({"object": self.objects}, value)
            self.objects += 1
            return {"class": self.names[id(type(value))], "fields": inside}
        if isinstance(value, tuple):
            return {"tuple": [self.plain(item) for item in value]}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, dict):
            return {"dict": [[self.plain(key), self.plain(item)] for key, item in value.items()]}
        seen = f"{type(value).__name__} {value!r}"[:80]
        raise TypeError(f"{seen} cannot be written to a file; use words and kernels of kembed's own")


class _Decoder:
    def __init__(self, known: _Known, array: Callable[[str], np.ndarray]) -> None:
        self.known, self.array = known, array
        self.arrays: dict[str, np.ndarray] = {}
        self.objects: list[tuple[Any, int]] = []  # in the order in which they were complete, and their sizes
        self.count = 0

    def value(self, encoded: Any) -> Any:
        """What JSON stands for."""
        self.count += 1
        if self.count > MOST:
            raise ValueError("more values than any file of kembed's has")
        match encoded:
            case list():
                return [self.value(item) for item in encoded]
            case {"array": name}:
                if name not in self.arrays:
                    self.arrays[name] = self.array(name)
                return self.arrays[name]
            case {"object": number}:
                found, size = self.objects[number]
                self.count += size
                return found
            case {"function": name} if not isinstance(self.known[name], type):
                return self.known[name]
            case {"class": name, "fields": inside} if isinstance(self.known[name], type):
                return self._object(self.known[name], inside)
            case {"tuple": items}:
                return tuple(self.value(item) for item in items)
            case {"dict": pairs}:
                return {self.value(key): self.value(item) for key, item in pairs}
            case {"csr": parts, "shape": shape}:
                from scipy.sparse import csr_array

                table = csr_array(tuple(self.value(parts)), shape=tuple(shape))
                table.check_format()
                if table.shape[1] > table.shape[0] + table.nnz:  # a product with it has that many rows
                    raise ValueError("more columns than entries")
                return table
            case None | bool() | int() | float() | str():
                return encoded
        raise ValueError("not a value")

    def _object(self, kind: Any, inside: dict[str, Any]) -> Any:
        if list(inside) != _names(kind):
            raise ValueError("other fields")
        start = self.count
        values = {name: self.value(item) for name, item in inside.items()}
        plain = is_dataclass(kind)
        made = object.__new__(kind) if plain else kind(**values)
        if plain:  # not every `__init__` takes the fields as they are
            vars(made).update(values)
        self.objects.append((made, self.count - start))
        return made

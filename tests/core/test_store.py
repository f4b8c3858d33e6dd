"""Files of kembed's own: what comes back, and what a damaged or forged file cannot do."""

import io
import json
import tracemalloc
import zipfile
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

from kembed.core.store import FileError, decode, encode, read_store, write_store
from kembed.core.writing import is_store


@dataclass(frozen=True)
class Pair:
    left: Any
    right: Any


class Point(NamedTuple):
    x: float
    y: float


def double(x):
    return 2 * x


KNOWN = {"Pair": Pair, "Point": Point, "double": double}


def again(value):
    structure, arrays = encode(value, KNOWN)
    return decode(json.loads(json.dumps(structure)), arrays, KNOWN)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, -0.1, "Zürich", float("inf"), (1, ("a", None)), [1.5, [2]], {"a": 1, 2: (3,)}),
        *(Pair(1, Pair("x", double)), Point(1.0, 2.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values_come_back(value):
    assert again(value) == value
    assert type(again(value)) is type(value)


ARRAYS = [
    np.array([0.1, np.nan, -np.inf]),
    np.array([[1, -200], [70_000, 2**40]]),
    np.zeros((3, 0)),
    np.array(1.5),
    np.array([True, False]),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
]


def test_arrays_come_back_to_the_last_bit(tmp_path):
    found = read_store(write_store(tmp_path / "a", "thing", ARRAYS, KNOWN), "thing", KNOWN)
    for array, one in zip(ARRAYS, found, strict=True):
        assert (one.dtype, one.shape) == (array.dtype, array.shape)
        assert one.tobytes() == array.tobytes()
        assert one.flags.c_contiguous


def test_sparse_tables_come_back():
    table = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    assert (again(table).toarray() == table.toarray()).all()


def test_what_is_shared_stays_shared():
    inner, array = Pair(1, 2), np.ones(3)
    found = again((inner, Pair(inner, array), array))
    assert found[0] is found[1].left
    assert found[2] is found[1].right


def test_what_no_file_can_hold_is_refused(tmp_path, monkeypatch):
    for value in (object(), lambda x: x, np.array(["a"]), Pair(1, {4j})):
        with pytest.raises(TypeError, match="cannot be written to a file"):
            write_store(tmp_path / "a", "thing", value, KNOWN)
    monkeypatch.setattr("kembed.core.store.LARGEST", 2**21)
    with pytest.raises(ValueError, match="more than a file may hold"):
        write_store(tmp_path / "a", "thing", np.zeros(2**18), KNOWN)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def file(tmp_path, rng):
    return write_store(tmp_path / "a.kembed", "thing", Pair(rng.normal(size=9), "b"), KNOWN)


def refused(path, *words, kind="thing"):
    with pytest.raises(FileError) as caught:
        read_store(path, kind, KNOWN)
    message = str(caught.value)
    assert "\n" not in message
    for word in (path.name, ";", *words):
        assert word in message


def test_a_file_is_an_archive_of_arrays_and_json(file):
    assert is_store(file)
    with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as archive:
        assert json.loads(archive["kembed"].tobytes())["value"]["class"] == "Pair"
        assert archive["array_0"].shape == (9,)


def test_other_files(tmp_path, file):
    refused(tmp_path / "none.kembed", "does not exist")
    refused(tmp_path, "cannot be read")
    other = tmp_path / "a.csv"
    for text in ("a,b\n1,2\n", "", "PK", "kembed"):
        other.write_text(text)
        refused(other, "no file of kembed's")
        assert not is_store(other)
    np.savez(tmp_path / "b.npz", a=np.ones(3))
    refused(tmp_path / "b.npz", "no file of kembed's")
    other.write_text("kembed-file 1 thing 00 1 1\nx")
    assert is_store(other)
    refused(other, "older kembed", "make it again")
    refused(file, "holds a thing", "sketch", kind="sketch")


def test_no_damage_changes_what_is_read(file, rng):
    """A damaged byte is refused, or it is one of those that the archive ignores (times, attributes)."""
    whole, expected = file.read_bytes(), read_store(file, "thing", KNOWN)
    seen = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged)
        try:
            found = read_store(file, "thing", KNOWN)
        except FileError:
            seen += 1
        else:
            assert found.right == expected.right
            assert found.left.tobytes() == expected.left.tobytes()
    assert seen > 0.5 * len(whole)
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        refused(file)


def forged(file, value, version=3, **arrays):
    """An archive that is in order, whatever it holds."""
    text = (
        json.dumps({"version": version, "kind": "thing", "value": value})
        .replace('"nested"', "[" * 5_000 + "]" * 5_000)
        .encode()
    )
    with file.open("wb") as target:
        np.savez_compressed(target, kembed=np.frombuffer(text, np.uint8), **arrays)
    return file


def test_a_newer_format(file):
    refused(forged(file, {"what": 1}, version=7), "format 7", "update kembed")


@pytest.mark.parametrize(
    "value",
    [
        {"what": 1},
        {"function": "exit"},
        {"function": "Pair"},
        {"class": "Path", "fields": {}},
        {"class": "double", "fields": {"x": 1}},
        {"class": "Pair", "fields": {"left": 1}},
        {"class": "Pair", "fields": {"left": 1, "right": 2, "more": 3}},
        {"array": "array_5"},
        {"array": "objects"},
        {"object": 5},
        {"csr": [{"array": "array_0"}] * 3, "shape": [2, 2]},
        {"csr": [{"array": "ones"}, {"array": "zeros"}, {"array": "ends"}], "shape": [1, 10**12]},
        {"tuple": 5},
        "nested",
    ],
    ids=lambda value: str(value)[:40],
)
def test_only_listed_classes_and_numbers(file, value):
    objects = np.array([print], dtype=object)
    table = {"ones": np.ones(1), "zeros": np.zeros(1, dtype=int), "ends": np.arange(2)}
    refused(forged(file, value, array_0=np.arange(9), objects=objects, **table), "damaged")


def test_objects_that_double_at_every_step(file):
    """Sixty pairs, each of the one before twice: written out they are 2^60 values."""
    twice = [{"class": "Pair", "fields": {"left": 1, "right": 1}}]
    twice += [{"class": "Pair", "fields": {"left": {"object": k}, "right": {"object": k}}} for k in range(60)]
    refused(forged(file, twice), "damaged")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("declared", [10**12, 2**33, 25_000_000])
def test_arrays_that_grow(file, declared, compression):
    """What a header declares is compared with the size of its entry, and all entries with a bound."""
    forged(file, {"array": "large"})
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (declared,)}
    )
    with zipfile.ZipFile(file, "a", compression) as archive:
        archive.writestr("large.npy", header.getvalue() + bytes(1_000_000))
    tracemalloc.start()
    refused(file, "damaged")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_entries_that_are_too_large_together(file, monkeypatch):
    forged(file, 1)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(2**22))
    assert file.stat().st_size < 10_000
    assert read_store(file, "thing", KNOWN) == 1
    monkeypatch.setattr("kembed.core.store.LARGEST", 2**22)
    refused(file, "damaged")

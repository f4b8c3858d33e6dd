"""Files of kembed's own: what comes back, and that no damage goes unseen."""

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

from kembed.core.packing import FileError, packed, read_packed, unpacked, write_packed
from kembed.core.writing import is_packed


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
VALUES = [
    None,
    True,
    3,
    -0.1,
    "Zürich",
    float("inf"),
    (1, ("a", None)),
    [1.5, [2]],
    {"a": 1, 2: (3,)},
    Pair(1, Pair("x", double)),
    Point(1.0, 2.0),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_plain_values_come_back(value):
    assert unpacked(packed(value, KNOWN), KNOWN) == value


ARRAYS = [
    np.array([0.1, np.nan, -np.inf]),
    np.array([[1, -200], [70_000, 2**40]]),
    np.array([2**31 - 1, -(2**31)]),
    np.zeros((3, 0)),
    np.array(1.5),
    np.array([True, False]),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_come_back_to_the_last_bit(array):
    found = unpacked(packed(array, KNOWN), KNOWN)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == np.ascontiguousarray(array).tobytes()


def test_sparse_tables_come_back():
    table = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    assert (unpacked(packed(table, KNOWN), KNOWN).toarray() == table.toarray()).all()


def test_what_is_the_same_stays_the_same():
    inner = Pair(1, 2)
    found = unpacked(packed((inner, Pair(inner, 3)), KNOWN), KNOWN)
    assert found[0] is found[1].left


def test_what_no_file_can_hold_is_refused():
    for value in (object(), lambda x: x, np.array(["a"]), Pair(1, {4j})):
        with pytest.raises(TypeError, match="cannot be written to a file"):
            packed(value, KNOWN)


@pytest.fixture
def file(tmp_path, rng):
    return write_packed(tmp_path / "a.kembed", "thing", Pair(rng.normal(size=50), "b"), KNOWN)


def refused(path, *words, kind="thing"):
    with pytest.raises(FileError) as caught:
        read_packed(path, kind, KNOWN)
    message = str(caught.value)
    assert "\n" not in message
    for word in (path.name, ";", *words):
        assert word in message


def test_a_file_comes_back(file, rng):
    found = read_packed(file, "thing", KNOWN)
    assert is_packed(file)
    assert found.right == "b"
    assert found.left.shape == (50,)


def test_files_that_are_none(tmp_path):
    refused(tmp_path / "none.kembed", "does not exist")
    refused(tmp_path, "cannot be read")
    other = tmp_path / "a.csv"
    for text in ("a,b\n1,2\n", "", "kembed-file", "kembed-file 1"):
        other.write_text(text)
        refused(other)
    assert not is_packed(tmp_path / "none.kembed")


def test_another_kind_and_a_newer_version(file):
    refused(file, "holds a thing", "sketch", kind="sketch")
    file.write_bytes(file.read_bytes().replace(b"kembed-file 1", b"kembed-file 7", 1))
    refused(file, "version 7", "update kembed")


def test_no_single_damaged_byte_goes_unseen(file, rng):
    whole = file.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged)
        refused(file)


def test_no_missing_end_goes_unseen(file):
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        refused(file)
    file.write_bytes(whole + b"x")
    refused(file, "not whole")


def written(file, body: bytes, size: int | None = None):
    """A file whose checksum is right, whatever is in it."""
    data = zlib.compress(body)
    told = len(body) if size is None else size
    line = f"kembed-file 1 thing {hashlib.sha256(data).hexdigest()} {len(data)} {told}\n"
    file.write_bytes(line.encode() + data)
    return file


def as_body(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"function": "exit"}',
        '{"object": "Path", "fields": {}, "number": 0}',
        '{"object": "Pair", "fields": {"left": 1}, "number": 0}',
        '{"object": "Pair", "fields": {"left": 1, "right": 2, "more": 3}, "number": 0}',
        '{"array": "|O", "as": "|O", "shape": [1], "at": 0}',
        '{"array": "<f8", "as": "<f8", "shape": [1000000000000], "at": 0}',
        '{"array": "<f8", "as": "<f8", "shape": [-1], "at": 0}',
        '{"again": 5}',
        '{"what": 1}',
        "[" * 5_000 + "]" * 5_000,
    ],
    ids=lambda text: text[:40],
)
def test_a_right_checksum_makes_no_trust(file, text):
    refused(written(file, as_body(text)), "does not hold")


def test_a_body_larger_than_it_says(file):
    refused(written(file, as_body("1") + bytes(10_000_000), size=9))
    refused(written(file, as_body("1"), size=2**40))


def test_nothing_half_written(tmp_path):
    path = tmp_path / "a.kembed"
    with pytest.raises(TypeError):
        write_packed(path, "thing", object(), KNOWN)
    assert list(tmp_path.iterdir()) == []

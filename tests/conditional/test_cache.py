"""The file of p-values: what SQLite says is one line with a remedy, and nothing but p-values comes back."""

import os
import sqlite3

import pytest

from kembed.conditional import cache
from kembed.conditional.cache import FILE, Store


def test_numbers_come_back(tmp_path):
    store = Store(tmp_path)
    assert store.get("a") is None
    store.put("a", 0.25)
    assert Store(tmp_path).get("a") == 0.25


def test_a_cache_is_a_folder():
    for path in (3, True, b"folder"):
        with pytest.raises(TypeError, match=r"cache must be the name of a folder, but .* was given"):
            Store(path)


@pytest.mark.parametrize("bad", [1.5, -0.1, "many", b"x", 7])
def test_what_is_no_pvalue_is_not_returned(tmp_path, bad):
    store = Store(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("INSERT INTO numbers VALUES ('a', ?)", (bad,))
    connection.close()
    assert store.get("a") is None
    store.put("a", 0.5)
    assert store.get("a") == 0.5


def refused(path) -> str:
    with pytest.raises(ValueError, match=r"^the cache '.*' cannot be used \(") as caught:
        Store(path).put("a", 0.5)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_of_others(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database, " * 100)
    assert "file is not a database" in refused(tmp_path)
    (tmp_path / FILE).unlink()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("CREATE TABLE numbers (other TEXT)")
    connection.close()
    assert "no such column: key); delete that file or choose another folder" in refused(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has other permissions")
@pytest.mark.parametrize("bad", [b"CREATE TAB\xefE numbers", b"CREATE TABLE n\xefmbers"])
def test_damage_that_is_no_text(tmp_path, bad):
    Store(tmp_path).put("a", 0.5)
    whole = (tmp_path / FILE).read_bytes()
    assert b"CREATE TABLE numbers" in whole
    (tmp_path / FILE).write_bytes(whole.replace(b"CREATE TABLE numbers", bad))
    with pytest.raises(
        ValueError, match=r"^the cache '.*' cannot be used \(.*\); delete that file or choose"
    ):
        Store(tmp_path)


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / FILE).mkdir()  # a folder where the file should be: nobody can open it, not even root
    assert "unable to open database file); make it writable or choose another folder" in refused(tmp_path)


def test_a_file_that_another_process_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "WAIT", 0.05)
    Store(tmp_path)
    holder = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert "database is locked); end the process that holds it or choose another folder" in refused(tmp_path)
    holder.close()


def test_a_full_disk(tmp_path):
    store = Store(tmp_path)
    store._connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(ValueError, match=r"cannot be used \(database or disk is full\); make room or choose"):
        store.put("k" * 100_000, 0.5)

"""P-values on disk and results in memory: computed once, by their key."""

import pytest

from kembed.conditional.cache import Cache, kept_on_disk


def never():
    raise AssertionError("it is kept")


def test_numbers_come_back(tmp_path):
    assert kept_on_disk(tmp_path / "a" / "b")("key", lambda: 0.25) == 0.25
    assert kept_on_disk(tmp_path / "a" / "b")("key", never) == 0.25
    assert kept_on_disk(tmp_path / "a" / "b")("other", lambda: 0.5) == 0.5


def test_a_cache_is_a_folder(tmp_path):
    for path in (3, True, b"folder"):
        with pytest.raises(TypeError, match=r"cache must be the name of a folder, but .* was given"):
            kept_on_disk(path)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"file.* is no folder and cannot be made one"):
            kept_on_disk(path)


@pytest.mark.filterwarnings("ignore:Exception while loading results")
def test_what_is_damaged_is_computed_again(tmp_path):
    kept_on_disk(tmp_path)("key", lambda: 0.25)
    (file,) = tmp_path.rglob("output.pkl")
    file.write_bytes(b"no pickle")
    assert kept_on_disk(tmp_path)("key", lambda: 0.5) == 0.5
    assert kept_on_disk(tmp_path)("key", never) == 0.5


def test_the_least_recently_used_go_first():
    cache = Cache(3)
    for key in range(3):
        assert cache.result(("a", key), lambda key=key: key) == key
    assert cache.result(("a", 0), never) == 0
    assert cache.result(("b", 0), lambda: None) is None
    assert cache.result(("a", 0), never) == 0
    assert cache.result(("a", 1), lambda: "anew") == "anew"
    assert list(cache.results) == [("b", 0), ("a", 0), ("a", 1)]

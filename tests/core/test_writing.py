"""Files are whole or not there, with the permissions of any new file; threads do not disturb each other."""

import os
import sys
import threading

import pytest

from kembed.core.writing import write_whole


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield 0o027
    os.umask(old)


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")

    def broken(draft):
        assert draft.suffix == ".html"  # writers go by the suffix
        draft.write_text("half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_whole(path, broken)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("page.html", "old")]
    assert write_whole(str(path), lambda draft: draft.write_text("new")) == path
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("page.html", "new")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither of them")
def test_links_and_pipes(tmp_path):
    file, link, dangling = tmp_path / "page.html", tmp_path / "link.html", tmp_path / "dangling.html"
    file.write_text("old")
    link.symlink_to(file)
    dangling.symlink_to(tmp_path / "other.html")
    for path, target in ((link, file), (dangling, tmp_path / "other.html")):
        assert write_whole(path, lambda draft: draft.write_text("new")) == path
        assert path.is_symlink()
        assert target.read_text() == "new"
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, lambda draft: draft.write_text(draft.suffix))
    reader.join()
    assert (read, pipe.is_fifo()) == ([".html"], True)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "dangling.html", "link.html", "other.html", "page.html", "pipe.html"
    ]  # fmt: skip


def test_places_that_take_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file"):
        write_whole(tmp_path, lambda draft: None)
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        write_whole(tmp_path / "nowhere" / "a.txt", lambda draft: None)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
def test_permissions_are_those_of_any_new_file(tmp_path, umask):
    path = write_whole(tmp_path / "a.txt", lambda draft: draft.write_text("a"))
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
def test_files_of_other_threads_keep_their_permissions(tmp_path, umask):
    """The umask belongs to the process: writing must not change it, not even for a moment."""
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            write_whole(tmp_path / "a.txt", lambda draft: None)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        modes = set()
        for k in range(2_000):
            (tmp_path / f"other{k}").touch(0o666)
            modes.add((tmp_path / f"other{k}").stat().st_mode & 0o777)
    finally:
        stop.set()
        writer.join()
        sys.setswitchinterval(interval)
    assert modes == {0o666 & ~umask}

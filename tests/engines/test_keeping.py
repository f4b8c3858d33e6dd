"""Passes kept in a folder: the same bits, taken only for the same question of the same files."""

import os

import numpy as np
import polars as pl
import pytest

import kembed
from kembed.data.files import InputError
from kembed.engines.settling import open_sources


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        words = rng.choice(["p", "q"], 3_000)
        table = pl.DataFrame({"u": rng.normal(size=3_000), "v": rng.normal(size=3_000), "w": words})
        table.write_parquet(tmp_path / f"{name}.parquet")
        table.write_csv(tmp_path / f"{name}.csv")
    return tmp_path


def ran(files, ending="parquet", **options):
    options = {"kernel": "median", "n_resamples": 19, "rng": 0, **options}
    return kembed.mmd_test(files / f"a.{ending}", files / f"b.{ending}", **options)


@pytest.mark.parametrize(("ending", "kernel"), [("parquet", "fused"), ("csv", "median")])
def test_a_second_run_reads_nothing_and_says_the_same(files, ending, kernel):
    how = {"ending": ending, "kernel": kernel, "by_column": True}
    expected = ran(files, **how)
    with kembed.resuming(files / "kept") as kept:
        first = ran(files, **how)
    assert (kept.taken, kept.written, kept.unknown) == (
        0,
        6,
        0,
    )  # what the columns are, a sample, sums; of both
    with kembed.resuming(files / "kept") as kept:
        again = ran(files, **how)
    assert (kept.taken, kept.written) == (6, 0)
    assert first.to_dict() == again.to_dict() == expected.to_dict()


def test_a_run_that_was_interrupted_goes_on(files):
    whole = ran(files)
    where = files / "b.parquet"
    content, times = where.read_bytes(), (where.stat().st_atime_ns, where.stat().st_mtime_ns)

    def interrupt(block):
        raise KeyboardInterrupt

    with kembed.resuming(files / "kept") as kept:
        (source,) = open_sources({"x": where})
        with pytest.raises(KeyboardInterrupt):
            source.map_sum(interrupt)
        assert kept.written == 1  # the pass before, and not the one that was broken off
    assert len(list((files / "kept").iterdir())) == 1
    with kembed.resuming(files / "kept"):
        assert ran(files).to_dict() == whole.to_dict()
    passes = sorted((files / "kept").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    passes[-1].unlink()  # the sums of b were not finished
    with kembed.resuming(files / "kept") as kept:
        assert ran(files).to_dict() == whole.to_dict()
    assert (kept.taken, kept.written) == (5, 1)
    where.write_bytes(content)
    os.utime(where, ns=times)
    with kembed.resuming(files / "kept") as kept:  # the same file, copied with its time
        ran(files)
    assert (kept.taken, kept.written) == (6, 0)


def test_other_files_and_other_questions_are_not_taken(files):
    with kembed.resuming(files / "kept"):
        ran(files)
    for options in ({"rng": 1}, {"kernel": kembed.Gaussian(1.0)}, {"by_column": True}):
        with kembed.resuming(files / "kept") as kept:
            ran(files, **options)
        assert kept.taken >= 2, options  # what the columns are
        assert kept.written >= 2, options
    where = files / "b.parquet"
    times = (where.stat().st_atime_ns, where.stat().st_mtime_ns)
    table = pl.read_parquet(where).with_columns(pl.col("u") + 1.0)
    table.write_parquet(where)
    os.utime(where, ns=times)  # the time is that of before, and very likely the length
    with kembed.resuming(files / "kept") as kept:
        changed = ran(files)
    assert (kept.taken, kept.written) == (2, 4)  # what the columns of a are, and its sample
    assert changed.to_dict() == ran(files).to_dict()


def test_what_cannot_be_kept_is_computed(files):
    rows = np.random.default_rng(1).normal(size=(6_000, 2))
    with kembed.resuming(files / "kept") as kept:
        kembed.mmd_test(rows[:3_000], rows[3_000:], n_resamples=9, rng=0)
        (source,) = open_sources({"x": files / "a.parquet"})
        assert source.map_sum(lambda block: len(block.values)) == 3_000  # a function of the user's
    assert (kept.written, kept.unknown) == (1, 1)


def test_a_damaged_file_of_the_folder_is_written_again(files):
    with kembed.resuming(files / "kept"):
        expected = ran(files)
    for path in (files / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    with kembed.resuming(files / "kept") as kept:
        assert ran(files).to_dict() == expected.to_dict()
    assert (kept.taken, kept.written) == (0, 6)


def test_a_folder_that_cannot_be_used(files):
    with (
        pytest.raises(InputError, match=r"cannot be kept in .*a.csv .*; name a folder"),
        kembed.resuming(files / "a.csv"),
    ):
        pass
    with kembed.resuming(files / "kept"):
        (files / "kept").rmdir()  # as a disk that went away
        with pytest.warns(UserWarning, match="could not be kept in .*; the run"):
            open_sources({"x": files / "a.parquet"})
    assert not (files / "kept").exists()

"""What is larger than memory in place of a sample, in every function that takes one."""

import numpy as np
import polars as pl
import pytest

import kembed


@pytest.fixture
def tables(rng):
    """Two tables of numbers and a word, the second shifted."""

    def make(shift):
        words = rng.choice(["Oslo", "Rome"], 300)
        return pl.DataFrame({"a": rng.normal(shift, 1.0, 300), "b": rng.normal(size=300), "town": words})

    return make(0.0), make(0.8)


@pytest.fixture
def files(tables, tmp_path):
    """The first in one Parquet file, the second in two CSV files."""
    first, second = tables
    first.write_parquet(tmp_path / "a.parquet")
    second.head(120).write_csv(tmp_path / "b0.csv")
    second.tail(180).write_csv(tmp_path / "b1.csv")
    return tmp_path / "a.parquet", tmp_path / "b*.csv"


def test_few_rows_of_files_are_tested_as_rows_in_memory(tables, files):
    for options in ({}, {"kernel": "median", "by_column": True}):
        there, here = (kembed.mmd_test(*pair, rng=0, n_resamples=99, **options) for pair in (files, tables))
        assert there.pvalue == here.pvalue
        assert there.statistic == pytest.approx(here.statistic, rel=1e-10)
        assert there.bins == here.bins


def test_features_of_files_are_those_of_rows_in_memory(tables, files):
    how = {"statistic": "features", "rng": 0, "n_resamples": 99, "by_column": True}
    there, here = (kembed.mmd_test(*pair, **how) for pair in (files, tables))
    assert there.pvalue == here.pvalue
    assert there.statistic == pytest.approx(here.statistic, rel=1e-9)
    assert [c.pvalue for c in there.columns] == [c.pvalue for c in here.columns]
    assert there.bins == here.bins


def test_files_that_are_read_as_a_whole_are_sources_too(tables, files, tmp_path):
    how = {"statistic": "features", "rng": 0, "n_resamples": 49}
    tables[1].head(120).write_ndjson(tmp_path / "c0.jsonl")
    tables[1].tail(180).write_json(tmp_path / "c1.json")
    lines = [str(tmp_path / "c0.jsonl"), str(tmp_path / "c1.json")]
    assert kembed.mmd_test(files[0], lines, **how).pvalue == kembed.mmd_test(*files, **how).pvalue


def test_a_lazy_frame_and_a_memmap_are_sources(tables, files, tmp_path, rng):
    how = {"statistic": "features", "rng": 0, "n_resamples": 49}
    lazy = kembed.mmd_test(tables[0].lazy(), pl.scan_csv(files[1]), **how)
    assert lazy.pvalue == kembed.mmd_test(*files, **how).pvalue
    x, y = rng.normal(size=(2, 400, 2))
    mapped = np.memmap(tmp_path / "x.bin", dtype=float, mode="w+", shape=x.shape)
    mapped[:] = x
    assert kembed.mmd_test(mapped, y, **how).pvalue == kembed.mmd_test(x, y, **how).pvalue


def test_compare_and_witness_read_files(tables, files):
    options = {"labels": ("x", "y"), "n_resamples": 99}
    there, here = (kembed.compare(*pair, **options) for pair in (files, tables))
    assert there.verdict == here.verdict
    assert [c.name for c in there.changed] == [c.name for c in here.changed]
    assert here.changed[0].name == "a"
    there, here = (kembed.witness(*pair, kernel="median") for pair in (files, tables))
    assert list(map(str, there.where())) == list(map(str, here.where()))


def test_learning_and_embeddings_read_files(tables, tmp_path):
    numbers = tables[0].select("a", "b")
    numbers.write_parquet(tmp_path / "n.parquet")
    path, rows = tmp_path / "n.parquet", numbers.to_numpy()
    assert kembed.learn_kernel(path).kernel == kembed.learn_kernel(rows).kernel
    kernel = kembed.Gaussian(1.0)
    there, here = kembed.fit_embedding(path, kernel), kembed.fit_embedding(rows, kernel)
    # The prior's matrix at 100 landmarks is near singular, which enlarges rounding in the sums to about 1e-7.
    np.testing.assert_allclose(there.mean(rows[:5]), here.mean(rows[:5]), atol=1e-5)
    for end, other in zip(there.interval(rows[:5]), here.interval(rows[:5]), strict=True):
        np.testing.assert_allclose(end, other, atol=1e-5)


def test_text_is_nothing_to_learn_from(files):
    with pytest.raises(TypeError, match="'town'"):
        kembed.learn_kernel(files[0])


def test_of_many_rows_some_are_looked_at(rng, tmp_path, monkeypatch):
    """Beyond memory pictures are of 50,000 rows of each sample; the test is of all, and the note says so."""
    monkeypatch.setattr("kembed.tables.source.HELD", 50_000)
    x, y = rng.normal(size=60_000), rng.normal(size=52_000)
    for name, values in (("x", x), ("y", y)):
        pl.DataFrame({"v": values}).write_parquet(tmp_path / f"{name}.parquet")
    found = kembed.compare(tmp_path / "x.parquet", tmp_path / "y.parquet", kernel="median", n_resamples=99)
    assert found.test.sizes == (60_000, 52_000)
    assert found.witness.sizes == (50_000, 50_000)
    assert "50,000 rows drawn at random of the 60,000" in found.test.notes[0]


def test_a_scheduler_needs_workers():
    with pytest.raises(ValueError, match="workers"), kembed.scheduler("local", 0):
        pass


def test_files_are_read_where_the_scheduler_says(files):
    with kembed.scheduler("none"):
        here = kembed.mmd_test(*files, statistic="features", rng=0, n_resamples=19)
    assert here.pvalue == 0.05

"""Independence of columns of a table by name, and of sides that are files, lazy frames or of Dask."""

import numpy as np
import polars as pl
import pytest

from kembed import ConditionalTester, conditional_test, hsic_test, pc
from kembed.tables.parts import InputError

HOW = {"kernel": "median", "n_resamples": 49, "rng": 0}
X, Y = ["a", "z"], ["b", "town"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    a, e, z = rng.normal(size=(3, 200))
    return pl.DataFrame({"a": a, "b": np.sin(a) + e, "town": rng.choice(["Oslo", "Rome"], 200), "z": z})


@pytest.fixture(scope="module")
def place(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sided")
    table.write_parquet(folder / "t.parquet")
    table.head(70).write_csv(folder / "t0.csv")
    table.tail(130).write_csv(folder / "t1.csv")
    table.select(X).write_parquet(folder / "x.parquet")
    table.select(Y).write_csv(folder / "y.csv")
    return folder


@pytest.mark.parametrize("statistic", ["auto", "features"])
def test_sides_of_any_kind_are_tested_as_rows_in_memory(table, place, statistic):
    how = HOW | {"statistic": statistic}
    here = hsic_test(table.select(X), table.select(Y), **how)
    named = [table, table.to_pandas(), table.lazy(), place / "t.parquet", str(place / "t*.csv")]
    found = [hsic_test(X, Y, data=data, **how) for data in named]
    found += [
        hsic_test(place / "x.parquet", place / "y.csv", **how),
        hsic_test(table.lazy().select(X), table.select(Y), **how),
    ]
    for there in found:
        assert there.pvalue == here.pvalue
        assert there.statistic == pytest.approx(here.statistic, rel=1e-10)
        assert there.sizes == (200,)
        assert there.bins == here.bins


def test_dask_collections(table):
    dd = pytest.importorskip("dask.dataframe")
    there = dd.from_pandas(table.to_pandas(), npartitions=3)
    here = hsic_test(table.select(X), table.select(Y), **HOW)
    assert hsic_test(X, Y, data=there, **HOW).pvalue == here.pvalue
    assert hsic_test(there[X], there[Y], **HOW).pvalue == here.pvalue


def test_conditional_tests_take_the_same(table, place):
    how = {"n_resamples": 49, "rng": 0}
    here = conditional_test(table["a"], table["b"], table.select("z", "town"), **how)
    for data in (table, place / "t.parquet", str(place / "t*.csv")):
        there = conditional_test("a", "b", ["z", "town"], data=data, **how)
        assert there.pvalue == here.pvalue
        assert there.given == ("z", "town")
    assert conditional_test("a", "b", data=table, **how).null == "permutation"
    whole = ConditionalTester(place / "t.parquet", n_resamples=49)
    assert whole.names == tuple(table.columns)
    assert [str(edge) for edge in pc(place / "t.parquet", n_resamples=49).edges] == [
        str(edge) for edge in pc(table, n_resamples=49).edges
    ]


def test_rows_that_miss_something_on_either_side_go(table, place, tmp_path):
    gappy = table.with_columns(a=pl.when(pl.int_range(200) < 9).then(None).otherwise("a"))
    gappy.write_parquet(tmp_path / "t.parquet")
    gappy.select(X).write_csv(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"missing values in 9 of 200 rows"):
        hsic_test(X, Y, data=tmp_path / "t.parquet", **HOW)
    here = hsic_test(table.select(X)[9:], table.select(Y)[9:], **HOW)
    for there in (
        hsic_test(X, Y, data=tmp_path / "t.parquet", nan_policy="omit", **HOW),
        hsic_test(tmp_path / "x.csv", place / "y.csv", nan_policy="omit", **HOW),
    ):
        assert there.sizes == (191,)
        assert there.pvalue == here.pvalue
    assert hsic_test("b", "z", data=tmp_path / "t.parquet", **HOW).sizes == (
        200,
    )  # what is not named may miss


def test_more_rows_than_are_held_are_tested_in_one_pass(table, place, monkeypatch):
    limit = hsic_test(X, Y, data=table, null="normal", **HOW)
    monkeypatch.setattr("kembed.tables.source.HELD", 799.0)  # of 800 numbers
    monkeypatch.setattr("kembed.testing.hsic.HELD", 799.0)
    monkeypatch.setattr("kembed.testing.procedure.CROSSED_ROWS", 100)
    for there in (hsic_test(X, Y, data=place / "t.parquet", **HOW), limit):
        assert there.null == "normal limit"
        assert there.pvalue == 0.02
    with pytest.raises(ValueError, match=r"200 rows of 4 columns, more than are held at once"):
        hsic_test(X, Y, data=place / "t.parquet", statistic="unbiased", **HOW)
    monkeypatch.setattr("kembed.tables.source.HELD", 399.0)  # of 400 on each side
    with pytest.raises(ValueError, match="more than are held at once"):
        hsic_test(place / "x.parquet", place / "y.csv", **HOW)
    with pytest.raises(ValueError, match="draw some rows, or name fewer columns"):
        conditional_test("a", "b", ["z", "town"], data=place / "t.parquet", rng=0)


@pytest.mark.parametrize(
    ("x", "y", "error", "words"),
    [
        ("a", "a", ValueError, "column 'a' is in x and in y; leave it out of one"),
        (["a", "a"], "b", ValueError, "column 'a' is twice in x"),
        ("aa", "b", InputError, "no column 'aa'; did you mean 'a'"),
        (1, "b", TypeError, "x must be the name of a column of data, or a list of names, but 1 was given"),
        ("a", np.ones(200), TypeError, "y must be the name .* but values were given"),
        ("a", [], TypeError, r"y must be the name .* but \[\] was given"),
    ],
)
def test_columns_that_make_no_sense(table, x, y, error, words):
    with pytest.raises(error, match=words):
        hsic_test(x, y, data=table)


def test_sides_of_different_lengths(place):
    with pytest.raises(
        ValueError, match=r"x.parquet has 200 rows and .*t0.csv has 70 rows, but they are paired"
    ):
        hsic_test(place / "x.parquet", place / "t0.csv")
    with pytest.raises(InputError, match=r"none\.csv does not exist"):
        hsic_test(place / "x.parquet", "none.csv")

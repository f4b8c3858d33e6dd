"""Missing values as part of a sample: the encoding, its laws, and what tests make of it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kembed
from kembed.tables import missing
from kembed.tables.reader import read, read_tables
from kembed.tables.source import Block

HOW = {"n_resamples": 99, "rng": 0}


def two_samples(rng, n=60, m=50, share=0.3):
    """Two samples of one process with values missing at random."""
    frames = []
    for size in (n, m):
        frame = pd.DataFrame(
            {"a": rng.normal(size=size), "g": rng.choice(["u", "v"], size), "b": rng.normal(size=size)}
        )
        for name in ("a", "g"):
            frame.loc[rng.random(size) < share, name] = None
        frames.append(frame)
    return frames


def test_the_fill_is_that_of_a_slow_loop(rng):
    """Donors are the values of the pooled rows with the smallest keys; another key draws among them."""
    values = [rng.normal(size=(7, 2)), rng.normal(size=(5, 2))]
    values[0][[1, 4], 0] = np.nan
    values[1][0, 0] = np.nan
    (x, y), _ = read_tables({"x": values[0], "y": values[1]}, "include", 2, same_columns=True)
    pooled = []
    for sample, table in enumerate(values):
        for row, entry in enumerate(table[:, 0]):
            if not np.isnan(entry):
                pooled.append((int(missing.keys(sample, np.array([row]), 0)[0]), entry))
    donors = sorted(entry for _, entry in pooled)
    for sample, (table, found) in enumerate(zip(values, (x, y), strict=True)):
        for row, entry in enumerate(table[:, 0]):
            key = int(missing.keys(sample, np.array([row]), 1)[0])
            place = (key >> 11) / 2**53 * (len(donors) - 1)
            below, above = donors[int(place)], donors[int(place) + 1]
            wanted = below + (place - int(place)) * (above - below) if np.isnan(entry) else entry
            assert found.values[row, 0] == pytest.approx(wanted, rel=1e-12)
            assert found.values[row, 2] == float(np.isnan(entry))
    assert x.names == ("column 0", "column 1", "column 0 (missing)")
    assert x.missing_of == ("", "", "column 0")
    assert x.gaps == (2, 0, 0)


def test_values_that_repeat_are_drawn_as_they_are(rng):
    values = rng.integers(0, 5, size=(60, 1)).astype(float)
    values[::3] = np.nan
    (table,), _ = read_tables({"x": values}, "include", 2)
    assert set(table.values[:, 0]) <= set(range(5))


def test_fills_have_the_decimals_of_the_column(rng):
    values = np.round(rng.permutation(1000)[:60] / 100.0, 2)[:, None]
    values[::3] = np.nan
    (table,), _ = read_tables({"x": values}, "include", 2)
    np.testing.assert_array_equal(np.round(table.values[:, 0], 2), table.values[:, 0])
    assert len(set(table.values[::3, 0]) - set(values[1::3, 0]) - set(values[2::3, 0])) > 10


def test_donors_do_not_know_samples_or_batches(rng):
    """Keys travel with their rows: however pooled rows are cut, the smallest keys are the same."""
    values = rng.normal(size=(40, 1))
    values[::7] = np.nan
    whole = missing.take_donors(Block(values, 0), 0, (0,))
    parts = [missing.take_donors(Block(values[k : k + 9], k), 0, (0,)) for k in range(0, 40, 9)]
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    np.testing.assert_array_equal(total.found[0][0], whole.found[0][0])
    np.testing.assert_array_equal(total.found[0][1], whole.found[0][1])


def test_only_so_many_donors_are_kept(rng, monkeypatch):
    monkeypatch.setattr(missing, "DONORS", 5)
    values = rng.normal(size=(40, 1))
    halves = [missing.take_donors(Block(values[k : k + 20], k), 0, (0,)) for k in (0, 20)]
    keys = missing.keys(0, np.arange(40), 0)
    wanted = values[np.argsort(keys)[:5], 0]
    np.testing.assert_array_equal(halves[0].plus(halves[1]).found[0][1], wanted)


def test_keys_are_different_for_rows_samples_and_columns():
    every = [missing.keys(sample, np.arange(500), stream) for sample in range(3) for stream in range(3)]
    assert len(np.unique(np.concatenate(every))) == 9 * 500
    shares = np.concatenate(every) / 2.0**64
    assert abs(shares.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 4500)  # four standard errors


def test_batches_do_not_matter(rng):
    x, y = two_samples(rng)
    tables = [
        [source.table().values for source in read({"x": x, "y": y}, nan_policy="include", rows=rows)]
        for rows in (7, 1_000)
    ]
    for small, large in zip(*tables, strict=True):
        np.testing.assert_array_equal(small, large)


def test_included_is_the_test_of_the_filled_table(rng):
    """The test sees complete rows: what it is exact for does not change."""
    x, y = two_samples(rng)
    filled = []
    for table in read_tables({"x": x, "y": y}, "include", 2, same_columns=True)[0]:
        columns = {}
        for d, name in enumerate(table.names):
            levels = np.array(table.levels[d], dtype=object)
            codes = table.values[:, d].astype(int) if table.categorical[d] else None
            columns[name] = pd.Categorical(levels[codes]) if codes is not None else table.values[:, d]
        filled.append(pd.DataFrame(columns))
    assert "g" in filled[0]
    assert "missing" in set(filled[0]["g"])
    included = kembed.mmd_test(x, y, nan_policy="include", **HOW)
    assert included.pvalue == kembed.mmd_test(*filled, **HOW).pvalue
    assert included.sizes == (60, 50)


def test_a_category_gets_a_level_of_its_own():
    x = pd.DataFrame({"g": ["missing", "missing", "u", "u", None]})
    (table,), _ = read_tables({"x": x}, "include", 2)
    assert table.levels == (("(missing)", "missing", "u"),)
    assert table.values[:, 0].tolist() == [1.0, 1.0, 2.0, 2.0, 0.0]


def test_complete_tables_are_what_they_were(rng):
    x, y = rng.normal(size=(2, 30, 2))
    assert kembed.mmd_test(x, y, nan_policy="include", **HOW).pvalue == kembed.mmd_test(x, y, **HOW).pvalue


def test_missingness_alone_is_found_and_named(rng):
    x, y = rng.normal(size=(2, 150, 2))
    y[rng.random(150) < 0.4, 1] = np.nan
    found = kembed.compare(x, y, n_resamples=99)
    assert found.differ
    assert [column.name for column in found.changed] == ["column 1 (missing)"]
    assert "column 1 (missing): missing in 0.0% of x" in found.verdict
    assert found.columns[0].missing_pvalue is None
    assert not kembed.compare(x, y, n_resamples=99, missing="omit").test.pvalue <= 0.05
    again = next(column for column in found.columns if column.name == "column 1")
    assert again.missing[1] == pytest.approx(np.isnan(y[:, 1]).mean())
    observed = y[~np.isnan(y[:, 1]), 1]
    assert again.y["mean"] == pytest.approx(observed.mean())  # of values that were there


def test_a_column_that_vanished(rng):
    x = pl.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    y = pl.DataFrame({"a": rng.normal(size=40), "b": [None] * 40})
    found = kembed.compare(x, y, n_resamples=99)
    assert found.differ
    assert "b (missing): missing in 0.0% of x and 100.0% of y" in found.verdict
    assert next(one for one in found.columns if one.name == "b").change == "all values are missing in y"
    assert "all values are missing in y" in repr(found)


def test_columns_of_one_sample_only_are_a_difference(rng):
    x = pl.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    y = pl.DataFrame({"a": rng.normal(size=40), "B": rng.normal(size=40)})
    found = kembed.compare(x, y, labels=("old", "new"), n_resamples=99)
    assert found.schema_differences == {"b": "old", "B": "new"}
    assert found.differ
    assert found.verdict.startswith("The columns differ: only old has 'b' and only new has 'B'. ")
    assert found.to_dict()["schema_differences"][0] == {"column": "b", "sample": "old"}
    with pytest.raises(ValueError, match="must have the same columns, but only x has 'b'"):
        kembed.mmd_test(x, y)


def test_omit_names_the_columns_that_cost_rows(rng):
    x, y = rng.normal(size=(2, 40, 2))
    x[:6, 0] = np.nan
    found = kembed.mmd_test(x, y, nan_policy="omit", **HOW)
    assert "6 of 40 rows of x have missing values and are left out ('column 0': 6)" in found.notes
    x[:21, 1] = np.nan
    with pytest.raises(ValueError, match=r"21 of 40 rows of x have missing values \('column 1': 21"):
        kembed.mmd_test(x, y, nan_policy="omit")


def test_independence_counts_missing_values(rng):
    """y is missing more often where x is large."""
    x, y, z = rng.normal(size=(3, 150))
    y = np.where(rng.random(150) < np.where(x > 0.0, 0.9, 0.4), np.nan, y)
    assert kembed.hsic_test(x, y, nan_policy="include", **HOW).pvalue <= 0.05
    table = {"x": x, "y": y, "z": z}
    assert kembed.hsic_test("x", "y", data=table, nan_policy="include", **HOW).pvalue <= 0.05
    assert kembed.conditional_test("x", "y", "z", data=table, nan_policy="include", **HOW).pvalue <= 0.05
    assert kembed.hsic_test("z", "y", data=table, nan_policy="include", **HOW).pvalue > 0.05


def test_the_level_is_kept(rng):
    """Of 120 tests at .2 of samples that miss values at random 24 reject; more than 41 have chance 1e-4."""
    rejected = 0
    for _ in range(120):
        x, y = two_samples(rng, 20, 16)
        rejected += (
            kembed.mmd_test(x, y, nan_policy="include", kernel="median", n_resamples=19, rng=rng).pvalue
            <= 0.2
        )
    assert 9 <= rejected <= 41

"""Samples under their users' names: errors call a file a file, and count its rows as people do."""

import numpy as np
import polars as pl
import pytest

import kembed
from kembed.data.columns import Labelled
from kembed.data.tables import read_tables

A, B = "data/a.csv", "x.csv"  # a file may be called as an argument of ours


def labelled(x, y):
    return Labelled(x, A), Labelled(y, B)


def test_a_label_changes_nothing_but_words(rng):
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(25, 2))
    plain = kembed.mmd_test(x, y, kernel="median", n_resamples=39, rng=0)
    named = kembed.mmd_test(*labelled(x, y), kernel="median", n_resamples=39, rng=0)
    assert (plain.pvalue, plain.statistic) == (named.pvalue, named.statistic)
    (first, second), _ = read_tables(
        {"x": Labelled(x, A), "y": y}, nan_policy="raise", same_columns=True, paired=False, minimum=1
    )
    assert (first.label, second.label) == (A, "y")


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0]], [[1.0], [2.0]], r"^data/a\.csv has 1 row; at least 2 are needed"),
        ([[1.0], [np.inf]], [[1.0], [2.0]], r"^data/a\.csv has infinite values .*\(first: row 2\)"),
        ([[1.0], [2.0]], [[np.nan], [2.0]], r"^x\.csv has missing values in 1 of 2 rows \(first: row 1\)"),
        ([[1.0], [2.0]], [[1.0, 2.0]] * 2, r"^x\.csv has 2 columns where data/a\.csv has 1"),
        ([[1.0], [2.0]], [["a"], ["b"]], r"in x\.csv but numbers in data/a\.csv"),
        ([1.0, "a"], [1.0, 2.0], r"^data/a\.csv mixes numbers and text: 1\.0 \(row 1\) and 'a' \(row 2\)"),
        ([1.0, object()], [1.0, 2.0], r"^data/a\.csv holds objects .* in row 2\)"),
        (
            pl.DataFrame({"k": [1.0, 2.0]}),
            pl.DataFrame({"x": [1.0, 2.0]}),
            r"^data/a\.csv and x\.csv must have the same columns, but only data/a\.csv has 'k'",
        ),
    ],
)
def test_errors_name_the_label_and_count_from_one(x, y, message):
    for test in (kembed.mmd_test, kembed.witness, kembed.compare):
        with pytest.raises((ValueError, TypeError), match=message):
            test(*labelled(x, y))


def test_the_sides_of_an_independence_test():
    with pytest.raises(ValueError, match=r"^data/a\.csv has 5 rows and x\.csv has 4 rows, but they are pair"):
        kembed.hsic_test(*labelled(np.arange(5.0), np.arange(4.0)))

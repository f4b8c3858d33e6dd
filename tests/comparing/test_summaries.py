"""What changed in a column, in numbers and in words."""

import numpy as np
import polars as pl
import pytest

from kembed import compare
from kembed.comparing.column_effects import Independent
from kembed.comparing.summaries import summarise
from kembed.tables.reader import read_tables
from kembed.testing.outcome import ColumnResult


def summary(x, y):
    """The summary of one column of samples a and b."""
    tables, _ = read_tables({"x": x, "y": y}, nan_policy="raise", same_columns=True, paired=False, minimum=1)
    (found,) = summarise(
        tuple(tables),
        (ColumnResult("c", 1.0, 0.5, 0.5),),
        np.ones(1),
        ("a", "b"),
        Independent(*(len(table.values) for table in tables)),
    )
    return found


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([0.0, 2.0], [2.0, 4.0], "mean 1 in a, 3 in b (1.4 sd higher)"),
        ([2.0, 4.0], [0.0, 2.0], "mean 3 in a, 1 in b (1.4 sd lower)"),
        ([0.0, 2.0], [-1.5, 3.5], "mean 1 in both; spread 2.5 times as wide in b"),
        ([1.0, 1.0], [0.0, 2.0], "mean 1 in both; constant in a"),
        ([0.0, 2.0], [1.0, 1.0], "mean 1 in both; constant in b"),
        ([1.0, 1.0], [1.0, 1.0], "mean 1 in both"),
        (["u", "u", "v", "v"], ["v", "v"], "'u' is 50.0% of a and 0.0% of b"),
    ],
)
def test_words(x, y, words):
    assert summary(x, y).change == words


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (240, "mean 2020-01-02 in a, 2020-01-12 in b (10 days later)"),
        (6, "mean 2020-01-02 00:00 in a, 2020-01-02 06:00 in b (6 hours later)"),
        (0, "mean 2020-01-02 in both"),
    ],
)
def test_means_of_dates_are_dates(hours, words):
    x = np.array(["2020-01-01T00", "2020-01-01T12", "2020-01-02T12", "2020-01-03T00"] * 6, dtype="M8[m]")
    if hours == 0:  # months, so that a tenth of the spread is more than a day
        x = x + np.tile([-30, 30, -30, 30], 6).astype("m8[D]")
    found = summary(x, x + np.timedelta64(hours, "h"))
    assert found.change == words
    assert found.unit == "days since 1970-01-01"


def test_shares():
    found = summary(["u", "u", "v", "v"], ["v", "v"])
    assert found.categorical
    assert (found.x, found.y) == ({"u": 0.5, "v": 0.5}, {"u": 0.0, "v": 1.0})


def test_only_the_levels_that_changed_most():
    found = summary(list("abcdefg") + ["a"] * 3, list("abcdefg") + ["g"] * 3)
    assert len(found.x) == 5
    assert set(list(found.x)[:2]) == {"a", "g"}


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_moments_in_any_unit(unit):
    found = summary(unit * np.array([1.0, 2.0, 6.0]), unit * np.array([1.0, 1.0])).x
    assert found["mean"] == pytest.approx(3.0 * unit)
    assert found["sd"] == pytest.approx(np.sqrt(7.0) * unit)
    assert [found[key] for key in ("minimum", "quartile", "median", "upper quartile", "maximum")] == (
        pytest.approx([1.0 * unit, 1.5 * unit, 2.0 * unit, 4.0 * unit, 6.0 * unit])
    )


def test_the_share_of_missing_values_is_that_of_missing_values():
    """Both levels change by the same amount up to rounding."""
    rng = np.random.default_rng(0)
    for missing in (43, 51):
        x, y = (pl.DataFrame({"a": rng.normal(size=1_500), "b": rng.normal(size=1_500)}) for _ in range(2))
        x = x.with_columns(a=pl.Series([None] * 32 + [1.5] * 1_468))
        y = y.with_columns(a=pl.Series([None] * missing + [1.5] * (1_500 - missing)))
        found = compare(x, y, n_resamples=19, rng=0)
        (column,) = (each for each in found.columns if each.name == "a (missing)")
        assert column.change == f"missing in {32 / 1_500:.1%} of x and {missing / 1_500:.1%} of y"

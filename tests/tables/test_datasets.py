"""Shipped data: what is in them, and that they are the published numbers."""

import datetime
import hashlib

import numpy as np
import polars as pl

from kembed.tables.datasets import OZONE, OZONE_VARIABLES, load_ozone


def test_the_ozone_table_is_that_of_the_paper():
    table = load_ozone()
    assert table.shape == (330, 12)
    assert table.columns == ["date", "doy", "weekday", *OZONE_VARIABLES]
    assert len(OZONE_VARIABLES) == 9  # ozone and eight meteorological variables
    assert sum(table.null_count().row(0)) == 0
    assert all(table[name].dtype.is_numeric() for name in OZONE_VARIABLES)
    # What others who use these data print: means of ozone and temperature, and the range of ozone.
    assert round(table["ozone"].mean(), 2) == 11.78
    assert round(table["temp"].mean(), 2) == 61.75
    assert (table["ozone"].min(), table["ozone"].max()) == (1, 38)


def test_dates_days_and_weekdays_agree():
    table = load_ozone()
    assert table["date"].is_sorted()
    assert table["date"].n_unique() == table.height
    assert table.select((pl.col("date").dt.ordinal_day() == pl.col("doy")).all()).item()
    assert table.select((pl.col("date").dt.weekday() == pl.col("weekday")).all()).item()
    assert {day.year for day in table["date"]} == {1976}
    assert table["date"][0] == datetime.date(1976, 1, 3)


def test_the_shipped_file_is_the_one_that_was_checked():
    content = OZONE.read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith("d942c65bd554bac9")
    # The headline correlation before any pre-whitening, as measured in the prototypes.
    table = load_ozone()
    assert round(float(np.corrcoef(table["ozone"], table["temp"])[0, 1]), 2) == 0.78


def test_every_call_gives_a_table_of_its_own():
    first = load_ozone()
    first[0, "ozone"] = 1000
    assert load_ozone()["ozone"].max() == 38

"""What a column is: text that reads as numbers or times, doubts, and one meaning in every format."""

import datetime
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kembed import mmd_test
from kembed.data.files import read_table
from kembed.data.meaning import understood_frames
from kembed.data.numerals import read_words
from kembed.data.tables import read_like, read_tables

DAY = 18262  # 2020-01-01, in days since 1970-01-01


def one(x):
    (table,), _ = read_tables({"x": x}, "omit", minimum=1)
    return table


# Numbers as people write them.

NUMBERS = {
    "thousands": (["1,234,567", "12,345", "950"], [1234567, 12345, 950]),
    "thousands and decimals": (["1,234.5", "7"], [1234.5, 7]),
    "decimal commas": (["1,5", "2,25", "-,5"], [1.5, 2.25, -0.5]),
    "dots for thousands": (["1.234,5", "7"], [1234.5, 7]),
    "dots alone": (["1.234.567", "1.234"], [1234567, 1234]),
    "spaces": (["1 234 567", "12\u202f345", "7"], [1234567, 12345, 7]),
    "apostrophes": (["1'234'567", "8"], [1234567, 8]),
    "dollars": (["$12.34", "-$5", "$1,200.00"], [12.34, -5, 1200]),
    "euros after": (["12,50 €", "3 €"], [12.5, 3]),
    "units": (["173.4 cm", "180cm"], [173.4, 180]),
    "units over units": (["3 m/s", "4.5 m/s"], [3, 4.5]),
    "percent": (["12%", "5.5 %"], [12, 5.5]),
    "true minus": (["−5", "3"], [-5, 3]),
    "exponents": (["1e3", "2.5E-1"], [1000, 0.25]),
    "leading zeros": (["007", "012"], [7, 12]),
    "leading zero before a comma": (["0,123", "0,456"], [0.123, 0.456]),
    "negatives of accountants": (["(1,234.5)", "7"], [-1234.5, 7]),
    "negative money of accountants": (["($5.50)", "$7"], [-5.5, 7]),
    "a dash for a minus": (["–5.5", "3"], [-5.5, 3]),
    "a sign apart": (["-\u00a01,5 €", "2,5 €"], [-1.5, 2.5]),
    "a sign behind the currency": (["$ -5.25", "$1"], [-5.25, 1]),
    "other currencies": (["₽1.50", "₽2"], [1.5, 2]),
    "a country's dollars": (["US$5.20", "US$6"], [5.2, 6]),
    "a currency by its code": (["CHF 5.20", "CHF 6"], [5.2, 6]),
    "lakhs": (["12,34,567", "1,23,456.5"], [1234567, 123456.5]),
    "compound units": (["30 kg/m^2", "4 kg/m^2"], [30, 4]),
    "units of several words": (["41 years old", "7 years old"], [41, 7]),
    "marks nobody sees": (["\u200e1.5", "\ufeff22.5"], [1.5, 22.5]),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_as_people_write_them(case):
    words, numbers = NUMBERS[case]
    found = read_words(words)
    assert list(found.numbers.values()) == numbers
    assert found.doubt == ""
    assert f" is {max(found.numbers.items(), key=lambda item: len(item[0]))[1]:.15g}" in found.note


def test_what_a_comma_means_may_be_told():
    words = ["12,345", "67,890"]
    assert list(read_words(words, "thousands").numbers.values()) == [12345, 67890]
    assert list(read_words(words, "decimal").numbers.values()) == [12.345, 67.89]
    assert "thousands or decimals ('12,345')" in read_words(words).doubt


DOUBTS = {
    "two ways": (["1,234.5", "1.234,5"], "more than one way"),
    "thousands and none": (["1,000.0", "2,000.0", "3,000.5", "4,000.5", "12345"], "more than one way"),
    "units": (["1 m", "170 cm"], "mixes units ('1 m', '170 cm')"),
    "currencies": (["$5", "€5"], "mixes units"),
    "a word": (["1", "2", "3", "4", "unknown"], "1 of its 5 different values are not numbers ('unknown')"),
    "a bound": ([*map(str, range(9)), "9+"], "('9+')"),
    "days or months": (["1/2/2020", "3/4/2020"], "days from months ('1/2/2020')"),
    "no such day": (["2020-02-28", "2020-02-30", "2021-01-01", "2021-01-02", "2021-01-03"], "2020-02-30"),
    "zones": (["2020-01-01T00:00", "2020-01-01T00:00Z"], "with and without a zone"),
    "kinds of times": (["2020-01-01", "12:30"], "kinds of times"),
    "a word among dates": ([*(f"{k}/12/2020" for k in range(13, 20)), "soon"], "not dates ('soon')"),
    "short years": ([f"{k}/12/20" for k in range(1, 26)], "years of two digits ('1/12/20')"),
    "two ways, half and half": (["1,5", "1.5", "2,5", "2.5"], "more than one way ('1.5', '1,5')"),
    "sizes": (["1k", "2M"], "mixes units ('1k', '2M')"),
    "units without a space": (["1.5cm", "1.5m"], "mixes units"),
    "bounds": ([f"<{k}.5" for k in range(25)], "bounds or guesses ('<0.5', '<1.5' and 23 more)"),
    "bounds among numbers": (["<1", ">9", *map(str, range(7))], "bounds or guesses ('<1', '>9')"),
    "minus signs behind": (["5-", "6-", *map(str, range(7))], "signs behind numbers ('5-', '6-')"),
    "halves": ([f"{k}½" for k in range(25)], "signs behind numbers"),
    "fractions": ([f"{k}/8" for k in range(25)], "several numbers a value"),
    "blood pressure": ([f"{110 + k}/80" for k in range(25)], "several numbers a value"),
    "feet and inches": ([f"{k // 12}'{k % 12}\"" for k in range(48, 73)], "several numbers a value"),
    "hours and minutes": ([f"{k}h 30m" for k in range(25)], "several numbers a value"),
    "long times": ([f"{k}:30" for k in range(24, 49)], "times beyond those of a day"),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_doubts_are_refused_with_the_remedy(case):
    words, seen = DOUBTS[case]
    found = read_words(words)
    assert found.numbers is None
    assert seen in found.doubt
    with pytest.raises(
        ValueError, match=r"^column 0 of x looks like numbers, but .*; .*astype\('category'\)"
    ):
        one(words)
    assert one(pd.Categorical(words)).categorical.all()  # which is what the remedy says


@pytest.mark.parametrize(
    "words",
    [
        ["red", "blue"],
        ["10A", "12B"],
        ["1st", "2nd", "3rd"],
        ["1.2.3", "1.2.4"],
        ["192.168.1.1", "10.0.0.1"],
        ["555-1234", "555-9876"],
        ["18-24", "25-34"],
        ["C85", "C86"],
        ["1,2,3", "4,5,6"],
        ["2019/20", "2020/21"],
        ["<18", "18-64", "65+"],
        ["3 Main St", "4 Oak Ave"],
        ["2020.1.2", "2020.1.3"],
        ["nan", "x"],
        [],
    ],
)
def test_words_are_words(words):
    assert read_words(words) == read_words([])
    assert read_words([]).numbers is None


def test_infinite_numbers_alone():
    found = read_words(["inf", "-Infinity"])
    assert found.numbers == {"inf": np.inf, "-Infinity": -np.inf}
    with pytest.raises(ValueError, match="x has infinite values"):
        mmd_test(["inf"] * 9, ["1", "2"] * 9)


def test_many_words_among_numbers_are_told():
    found = read_words([*map(str, range(20)), *(f"A/{k}" for k in range(8))])
    assert (found.numbers, found.doubt) == (None, "")
    assert found.note.startswith("is compared as text: 8 of its 28 different values are not numbers ('A/0', ")


def test_a_few_classes_with_signs_are_told():
    found = read_words(["<=50K", ">50K"])
    assert (found.numbers, found.doubt) == (None, "")
    assert found.note == "is compared as text: it holds bounds or guesses ('<=50K', '>50K')"
    frame = pl.DataFrame({"income": ["<=50K", ">50K"]})
    (read,), notes, _ = understood_frames([frame])
    assert notes == {"income": found.note}
    assert one(read).notes == ()  # once is enough
    assert one(read).categorical.all()


# What is text, in silence or with a word of a note: names, codes, places and classes with numbers in them.
WORDS = {
    "codes that begin with P": ([f"P{k}" for k in range(1, 30)], ""),
    "streets": (["12 Park Lane", "4 Park Lane"], ""),
    "quarters": (["2020Q1", "2021Q1"], ""),
    "halves of years": (["2020 H1", "2021 H1"], ""),
    "seats": (["10A1", "11A1"], ""),
    "names with a currency in them": (["CAD1", "CAD2", "CAD3"], ""),
    "shoes": (["9.5D", "9EE", "10D"], ""),
    "climbs": (["5.10a", "5.9", "5.11b"], ""),
    "seasons of old": ([f"{k}/{k % 100 + 1}" for k in range(1870, 1898)], ""),
    "seasons": ([f"20{k:02d}-{k + 1:02d}" for k in range(1, 12)], "seasons, not months"),
    "cells": ([f"({k},{k + 9})" for k in range(9)], "numbers in parentheses"),
    "genotypes": (["0/0", "0/1", "1/1", "0/2", "1/2", "2/2"], "several numbers a value"),
    "ratings": ([f"{k}/10" for k in range(1, 11)], "several numbers a value"),
    "chapters": ([f"01.02.{k:02d}" for k in range(1, 9)], "dates, if it holds any"),
    "grades": (["1", "1-", "2", "2-", "3", "3-", "4"], "text"),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_with_numbers_in_them_are_words(case):
    words, told = WORDS[case]
    found = read_words(words)
    assert (found.numbers, found.doubt) == (None, "")
    assert told in found.note
    assert bool(found.note) == bool(told)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["- $5", "$7"], [-5.0, 7.0]),
        (["- EUR 5", "EUR 7.5"], [-5.0, 7.5]),
        (["(5)", "7", "(12.5)"], [-5.0, 7.0, -12.5]),
        (["5 W m-2", "6 W m-2"], [5.0, 6.0]),
        (["3 fl oz", "4 fl oz"], [3.0, 4.0]),
        (["5 m2", "6 m2"], [5.0, 6.0]),
    ],
    ids=str,
)
def test_signs_and_units_of_several_parts(words, numbers):
    assert list(read_words(words).numbers.values()) == numbers


def test_whose_values_come_first_does_not_matter():
    """Only some values are looked at first: what is numbers must not depend on the order."""
    rng = np.random.default_rng(0)
    for words in (
        [*(f"- ${k}.5" for k in range(150)), *(f"${k}.5" for k in range(150))],
        [*(f"name {k}" for k in range(140)), *map(str, range(160))],
        [*(f"{k} of them" for k in range(150)), *(f"about {k}" for k in range(151))],
    ):
        found = [read_words(rng.permutation(words).tolist()) for _ in range(20)]
        assert len({(one.numbers is None, bool(one.note), bool(one.doubt)) for one in found}) == 1


@pytest.mark.parametrize("start", ["1", "1,", "1 ", "P1Y", "(1 ", "1/", "a ", "5 a ", "1h ", "$", "-", "1."])
def test_long_cells_are_read_in_no_time(start):
    long = (start * 50_000)[:100_000]
    clock = time.process_time()
    for end in ("", "!", "x"):
        read_words([long + end, "2"])
    assert time.process_time() - clock < 2.0  # quadratic patterns took minutes


@pytest.mark.parametrize("odd", ["P1Y", "P1M2W", "PT1.2.3S", "P99999999999999999999D"])
def test_durations_without_a_length_are_told(odd):
    found = read_words([odd, "P1D"])
    assert (found.numbers, found.doubt) == (None, "")
    assert odd in found.note
    with pytest.raises(ValueError, match=r"looks like numbers, but .* not dates or times"):
        one([odd, *(f"P{k}D" for k in range(9))])


# Times.

TIMES = {
    "dates": (["2020-01-01", "2020-01-03"], [DAY, DAY + 2], "date"),
    "dates with strokes": (["2020/01/01", "2020/01/03"], [DAY, DAY + 2], "date"),
    "moments": (["2020-01-01T12:00:00.000", "2020-01-02 06:00"], [DAY + 0.5, DAY + 1.25], "moment"),
    "dates among moments": (["2020-01-01", "2020-01-02 06:00"], [DAY, DAY + 1.25], "moment"),
    "zones": (["2020-01-01T12:00Z", "2020-01-01T13:00+01:00"], [DAY + 0.5, DAY + 0.5], "zoned"),
    "times of day": (["06:30", "18:00:36"], [6.5, 18.01], "time of day"),
    "durations": (["PT1H", "P1DT1S", "-PT2M"], [3600, 86401, -120], "duration"),
    "durations of pandas": (["1 days 02:00:00", "0 days 00:00:01.5"], [93600, 1.5], "duration"),
    "days, then months": (["31/12/2019", "02/01/2020"], [DAY - 1, DAY + 1], "date"),
    "dates without zeros": (["2020-1-1", "2020/1/3"], [DAY, DAY + 2], "date"),
    "months": (["2020-01", "2020-02"], [DAY, DAY + 31], "date"),
    "spelled months": (["1-Jan-2020", "January 3, 2020", "2 Jan. 2020"], [DAY, DAY + 2, DAY + 1], "date"),
    "hours of a zone": (["2020-01-01 02:00:00+02", "2020-01-01 12:00 UTC"], [DAY, DAY + 0.5], "zoned"),
    "the end of a day": (["2020-01-01 24:00", "2020-01-01 12:00"], [DAY + 1, DAY + 0.5], "moment"),
    "halves of a day": (["12:30 AM", "12:30 pm", "6:00:36 p.m."], [0.5, 12.5, 18.01], "time of day"),
    "local moments": (["31.12.2019 06:00", "02.01.2020 12:00"], [DAY - 0.75, DAY + 1.5], "moment"),
    "American moments": (["12/31/2019 6:00 PM", "1/2/2020, 12:00 AM"], [DAY - 0.25, DAY + 1], "moment"),
    "months, then days": (["12/31/2019", "01/02/2020"], [DAY - 1, DAY + 1], "date"),
}


@pytest.mark.parametrize("case", TIMES)
def test_times_in_text(case):
    words, numbers, clock = TIMES[case]
    found = read_words(words)
    assert list(found.numbers.values()) == pytest.approx(numbers, abs=1e-9)
    assert found.clock == clock
    frame = understood_frames([pl.DataFrame({"t": words})]).frames[0]
    assert frame["t"].dtype.is_temporal()
    assert one(frame).values[:, 0] == pytest.approx(numbers, abs=1e-9)


def test_objects_that_tell_times():
    zone = datetime.timezone(datetime.timedelta(hours=1))
    noon = datetime.datetime(2020, 1, 1, 12)
    for entries, numbers in (
        ([datetime.date(2020, 1, 1), None], [DAY]),
        ([noon, datetime.date(2020, 1, 1)], [DAY + 0.5, DAY]),
        ([noon.replace(tzinfo=datetime.UTC), noon.replace(hour=13, tzinfo=zone)], [DAY + 0.5] * 2),
        ([datetime.time(6, 30)], [6.5]),
        ([datetime.timedelta(hours=1), np.timedelta64(2, "m")], [3600, 120]),
        (np.array(["2020-01-01T06", "NaT"], dtype="M8[ns]"), [DAY + 0.25]),
        (np.array([90], dtype="m8[m]"), [5400]),
    ):
        assert one(entries).values[:, 0].tolist() == pytest.approx(numbers, abs=1e-9)
    with pytest.raises(TypeError, match=r"x mixes kinds of times: .* give a column of each kind"):
        one([datetime.time(1), datetime.date(2020, 1, 1)])
    with pytest.raises(TypeError, match="mixes times with numbers or text"):
        one([datetime.time(1), 3.0])
    with pytest.raises(TypeError, match="durations in units without a length"):
        one(np.array([1], dtype="m8[M]"))


# Samples are read together.


def read(x, y):
    tables, _ = read_tables({"x": x, "y": y}, "raise", minimum=1, same_columns=True)
    return tables


def test_one_reading_for_both_samples():
    x, y = read(["12,345", "67,890"], ["1,234,567"])  # y tells what the comma is in x
    assert (x.values.tolist(), y.values.tolist()) == ([[12345], [67890]], [[1234567]])
    assert x.notes == y.notes == ("column 0 of x and y is text read as numbers: '1,234,567' is 1234567",)
    x, y = read(["1", "2"], ["1", "x"])  # together they are words
    assert x.categorical.all()
    with pytest.raises(ValueError, match="column 0 of x and y looks like numbers, but it mixes units"):
        read(["170 cm", "180 cm"], ["1.7 m"])
    with pytest.raises(ValueError, match="looks like numbers, but"):
        read(["1,5", "2,5"], ["1,234,567"])
    with pytest.raises(TypeError, match="column 0 of x and y holds dates in x and numbers in y"):
        read(["2020-01-01"], [3.0])


def test_text_beside_typed_columns():
    x, y = read(["2020-01-03"], [datetime.date(2020, 1, 1)])
    assert (x.values[0, 0], y.values[0, 0], x.units) == (DAY + 2, DAY, ("days since 1970-01-01",))
    x, y = read([3.0], ["$12.50"])
    assert y.values.tolist() == [[12.5]]


def test_new_rows_are_read_as_the_samples_were():
    table = one(pd.DataFrame({"price": ["$1", "$2"], "size": ["S", "1"]}))
    rows = read_like(pd.DataFrame({"price": ["$3.50"], "size": ["1"]}), "points", table)
    assert rows.tolist() == [[3.5, table.levels[1].index("1")]]


def test_columns_named_as_text_stay_text():
    found = understood_frames([pl.DataFrame({"zip": [10, 20], "v": ["1", "2"]})], text=["zip"])
    assert one(found.frames[0]).categorical.tolist() == [True, False]


def test_bare_digits_are_numbers_wherever_they_come_from():
    codes = ["007", "012", "3"]
    for value in (codes, np.array(codes), pd.DataFrame({"code": codes}), pl.DataFrame({"code": codes})):
        assert one(value).values.ravel().tolist() == [7.0, 12.0, 3.0]
        (note,) = one(value).notes
        assert "is text read as numbers though some begin with 0: '007' is 7; make it categories" in note
    found = understood_frames([pl.DataFrame({"code": codes})])
    assert found.frames[0]["code"].to_list() == [7.0, 12.0, 3.0]
    assert "though some begin with 0" in found.notes["code"]
    for declared in (pd.Series(codes, dtype="category"), pl.Series(codes, dtype=pl.Categorical)):
        assert one(declared).categorical.all()
        assert not one(declared).notes


# A table means the same in every format.

ROWS = 12
WHEN = [datetime.datetime(2020, 1, 1, 6) + datetime.timedelta(days=k) for k in range(ROWS)]
TABLE = pl.DataFrame({
    "whole": list(range(ROWS)),
    "number": [k / 4 for k in range(ROWS)],
    "gaps": [None if k == 3 else k / 4 for k in range(ROWS)],
    "flag": [k % 3 == 0 for k in range(ROWS)],
    "exact": [Decimal(k) / 4 for k in range(ROWS)],
    "date": [when.date() for when in WHEN],
    "moment": WHEN,
    "clock": [datetime.time(k, 30) for k in range(ROWS)],
    "lapse": [datetime.timedelta(hours=k) for k in range(ROWS)],
    "word": ["a", "b", "c"] * (ROWS // 3),
    "price": [f"${k}.50" for k in range(ROWS)],
    "digits": [str(7 * k) for k in range(ROWS)],
    "code": [f"{k:03d}" for k in range(ROWS)],
    "truth": ["true" if k % 4 else "False" for k in range(ROWS)],
}).with_columns(pl.col("moment").dt.replace_time_zone("Europe/Berlin").alias("zoned"))  # fmt: skip

SPELLED = TABLE.with_columns(pl.col("lapse").dt.to_string("iso"))  # Polars writes no durations into CSV


class ArrowStream:
    """What any Arrow library hands over."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, schema=None):
        return self.frame.__arrow_c_stream__(schema)


def pandas_of(frame):
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


def written(folder, suffix, write):
    path = folder / f"t{suffix}"
    write(path)
    frame = read_table(path)
    return understood_frames([frame]).frames[0]


FORMATS = {
    "csv": lambda folder: written(folder, ".csv", SPELLED.write_csv),
    "tsv": lambda folder: written(folder, ".tsv", lambda path: SPELLED.write_csv(path, separator="\t")),
    "csv of pandas": lambda folder: written(
        folder, ".csv", lambda path: pandas_of(TABLE).to_csv(path, index=False)
    ),
    "json lines": lambda folder: written(folder, ".jsonl", TABLE.write_ndjson),
    "parquet": lambda folder: written(folder, ".parquet", TABLE.write_parquet),
    "feather": lambda folder: written(folder, ".feather", TABLE.write_ipc),
    "polars": lambda _: TABLE,
    "lazy": lambda _: TABLE.lazy(),
    "pandas": lambda _: pandas_of(TABLE),
    "pandas of objects": lambda _: pandas_of(TABLE).astype(object),
    "arrow": lambda _: ArrowStream(TABLE),
    "pyarrow": lambda _: pytest.importorskip("pyarrow") and TABLE.to_arrow(),  # where it is installed
    "dict": lambda _: TABLE.to_dict(as_series=False),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_means_the_same_in_every_format(tmp_path, kind):
    expected = one(TABLE)
    assert expected.categorical.tolist() == [name == "word" for name in TABLE.columns]
    table = one(FORMATS[kind](tmp_path))
    assert table.names == expected.names
    np.testing.assert_allclose(table.values, expected.values, rtol=0, atol=1e-9)
    assert table.categorical.tolist() == expected.categorical.tolist()
    times = TABLE.columns.index("date"), TABLE.columns.index("lapse") + 1
    assert table.units[slice(*times)] == expected.units[slice(*times)]
    assert set(expected.units[slice(*times)]) == {"days since 1970-01-01", "hours since midnight", "seconds"}


# Times of one kind.

HOURS = pl.datetime_range(datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 3), "1h", eager=True)
MOMENTS = {
    "polars": (HOURS, HOURS.dt.replace_time_zone("Asia/Tokyo")),
    "pandas": tuple(pd.Series(pd.date_range("2020", periods=49, freq="h", tz=tz)) for tz in (None, "UTC")),
    "objects": tuple(
        [datetime.datetime(2020, 1, 1, hour, tzinfo=tz) for hour in range(24)] for tz in (None, datetime.UTC)
    ),
    "text": ([f"{hour:%Y-%m-%dT%H:%M}" for hour in HOURS], HOURS.dt.replace_time_zone("Asia/Tokyo")),
}


@pytest.mark.parametrize("kind", MOMENTS)
def test_times_with_and_without_a_zone(kind):
    """They may be hours apart, and nobody knows how many."""
    plain, zoned = MOMENTS[kind]
    how = {"nan_policy": "raise", "minimum": 1, "same_columns": True}
    for x, y, seen in (
        (plain, zoned, "holds dates in x and dates and times with a zone in y"),
        (zoned, plain, "holds dates and times with a zone in x and dates in y"),
    ):
        with pytest.raises(TypeError, match=f"{seen}; give it the same kind in both"):
            read_tables({"x": x, "y": y}, **how)
    (first, second), _ = read_tables({"x": zoned, "y": zoned}, **how)
    assert first.unit(0) == second.unit(0) == "days since 1970-01-01"


def test_times_with_and_without_a_zone_in_one_column():
    mixed = [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2020, 1, 2)]
    with pytest.raises(TypeError, match=r"x mixes kinds of times: .*give a column of each kind"):
        read_tables({"x": mixed}, "raise", minimum=1)

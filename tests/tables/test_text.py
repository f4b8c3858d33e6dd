"""Text columns: every style by hand, a slow reference for numbers, laws, ambiguous and unreadable columns."""

import random
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta

import polars as pl
import pytest

from kembed.tables.text import HEAD, STYLES, Reading, decide, parse, styles

NUMBERS = ("plain", "1,234.5", "1.234,5")
TIMES = tuple(style for style in STYLES if style not in (*NUMBERS, "bool"))


def series(values):
    return pl.Series("x", values, dtype=pl.String)


def read(*values, **options):
    return decide(styles(series(values)), sorted(values), **options)


def values_of(*values, **options):
    reading = read(*values, **options)
    assert reading.style, reading
    return parse(series(values), reading.style).to_list()


def test_styles_are_a_fixed_tuple():
    assert len(STYLES) == len(set(STYLES)) == 16
    assert set(NUMBERS) | {"bool", "%H:%M:%S", "%d/%m/%Y", "%d/%m/%Y %H:%M:%S"} <= set(STYLES)


def test_import_does_not_import_polars():
    code = "import sys, kembed.tables.text; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0.25", -0.25),
        ("+7", 7),
        ("12", 12),
        (".5", 0.5),
        ("5.", 5),
        ("1e-3", 1e-3),
        ("1.5E+10", 1.5e10),
        ("12345678901234567890", 12345678901234567890.0),
        ("2020", 2020),
    ],
)
def test_plain_numbers(text, number):
    assert values_of(text) == [number]
    assert read(text) == Reading("plain")


@pytest.mark.parametrize(
    "text",
    [
        "007",
        "00",
        "-01",
        "inf",
        "nan",
        "1e",
        "e5",
        "--1",
        "1.2.3",
        "0x1",
        "1_000",
        "٣",
        "",
        "-",
        ".",
        "- 5",
        "5-",
        "−5",
        "1 234",
        "$5",
        "12%",
    ],
)
def test_not_plain(text):
    assert not styles(series([text]))
    assert parse(series([text]), "plain").to_list() == [None]


@pytest.mark.parametrize(
    ("texts", "style", "numbers"),
    [
        (["950", "1,200.5"], "1,234.5", [950, 1200.5]),
        (["1,234,567", "-12"], "1,234.5", [1234567, -12]),
        (["1,234.5e3"], "1,234.5", [1234500]),
        (["1.234,5", "7"], "1.234,5", [1234.5, 7]),
        (["1,5", "0,123"], "1.234,5", [1.5, 0.123]),
        (["1.234.567"], "1.234,5", [1234567]),
        (["360.488", "911.833,5"], "1.234,5", [360488, 911833.5]),
        ([",5", "12345,678"], "1.234,5", [0.5, 12345.678]),
    ],
)
def test_thousands_and_decimals(texts, style, numbers):
    assert values_of(*texts) == numbers
    reading = read(*texts)
    assert reading.style == style
    assert reading.note.startswith("read as numbers (")


def test_booleans():
    assert read("true", "FALSE", "True") == Reading("bool")
    assert values_of("true", "FALSE", "False") == [1, 0, 0]
    assert read("yes", "no") == read("true", "maybe") == Reading()


def reference(text, body):
    """A number by hand, one character after the other; None where the style does not fit."""
    sign = 1.0
    if text[:1] in ("-", "+"):
        text, sign = text[1:], -1.0 if text[0] == "-" else 1.0
    mantissa, *powers = text.replace("E", "e").split("e")
    if len(powers) > 1 or (
        powers and not digits(powers[0][1:] if powers[0][:1] in ("-", "+") else powers[0])
    ):
        return None
    decimal = "," if body.endswith(",5") else "."
    whole, *rest = mantissa.split(decimal)
    if len(rest) > 1 or (rest and rest[0] and not digits(rest[0])):
        return None
    if rest and not rest[0] and (decimal == "," or not whole):
        return None
    if not whole and not rest:
        return None
    separators = {"plain": "", "1,234.5": ",", "1.234,5": "."}[body]
    groups = "".join("|" if character in separators else character for character in whole).split("|")
    if any(not digits(group) for group in groups) and whole:
        return None
    if len(groups) > 1 and (len(groups[0]) > 3 or any(len(group) != 3 for group in groups[1:])):
        return None
    if groups[0].startswith("0") and (len(groups) > 1 or len(groups[0]) > 1):
        return None
    return sign * float(
        f"{''.join(groups) or 0}.{rest[0] if rest and rest[0] else 0}e{powers[0] if powers else 0}"
    )


def digits(text):
    return bool(text) and all(character in "0123456789" for character in text)


def random_numbers(generator, count):
    """Numbers in all styles, half of them with a character changed, and random strings."""
    alphabet = "0123456789012345678900,,.. '-+e$€%\u00a0−"
    for _ in range(count):
        kind = generator.random()
        if kind < 0.3:
            yield "".join(generator.choices(alphabet, k=generator.randint(1, 7)))
            continue
        text = f"{generator.choice([-1, 1]) * 10 ** generator.uniform(-2, 7):,.{generator.randint(0, 3)}f}"
        swap = generator.choice([",.", ".,", " .", " ,", "'.", " .", "\u00a0,"])
        text = text.translate(str.maketrans(",.", swap))
        sign = generator.choice(["", "", "$", "€", "%"])
        text = generator.choice([f"{text}{sign}", f"{text} {sign}".strip(), f"{sign}{text}"])
        if kind < 0.6:
            place = generator.randrange(len(text))
            text = text[:place] + generator.choice([*alphabet, ""]) + text[place + generator.randint(0, 1) :]
        yield text.strip() or "0"


def test_numbers_against_the_reference():
    texts = sorted(set(random_numbers(random.Random(1), 1500)))
    fitting = 0
    for style in NUMBERS:
        wanted = [reference(text, style) for text in texts]
        assert dict(zip(texts, parse(series(texts), style), strict=True)) == dict(
            zip(texts, wanted, strict=True)
        ), style
        fitting += sum(number is not None for number in wanted)
    assert fitting > 300


# Dates and times


@pytest.mark.parametrize(
    ("text", "style", "value"),
    [
        ("2020-12-31", "%Y-%m-%d", date(2020, 12, 31)),
        ("2020-1-5", "%Y-%m-%d", date(2020, 1, 5)),
        ("2020/12/31", "%Y/%m/%d", date(2020, 12, 31)),
        ("31.12.2020", "%d.%m.%Y", date(2020, 12, 31)),
        ("3.4.2020", "%d.%m.%Y", date(2020, 4, 3)),
        ("31/12/2020", "%d/%m/%Y", date(2020, 12, 31)),
        ("12/31/2020", "%m/%d/%Y", date(2020, 12, 31)),
        ("2020-12-31 10:05", "%Y-%m-%d %H:%M:%S", datetime(2020, 12, 31, 10, 5)),
        ("2020-12-31T10:05:07.25", "%Y-%m-%d %H:%M:%S", datetime(2020, 12, 31, 10, 5, 7, 250000)),
        ("2020-12-31T10:05:07.123456789", "%Y-%m-%d %H:%M:%S", datetime(2020, 12, 31, 10, 5, 7, 123456)),
        ("2020-12-31T10:05Z", "%Y-%m-%d %H:%M:%S%z", datetime(2020, 12, 31, 10, 5, tzinfo=UTC)),
        (
            "2020-12-31 10:05:07.5+01:30",
            "%Y-%m-%d %H:%M:%S%z",
            datetime(2020, 12, 31, 8, 35, 7, 500000, tzinfo=UTC),
        ),
        ("2020-12-31 23:05-0100", "%Y-%m-%d %H:%M:%S%z", datetime(2021, 1, 1, 0, 5, tzinfo=UTC)),
        ("2020-12-31 10:05:00+01", "%Y-%m-%d %H:%M:%S%z", datetime(2020, 12, 31, 9, 5, tzinfo=UTC)),
        ("2020-12-31 10:05:00 UTC", "%Y-%m-%d %H:%M:%S%z", datetime(2020, 12, 31, 10, 5, tzinfo=UTC)),
        ("2020/12/31 10:05:07", "%Y/%m/%d %H:%M:%S", datetime(2020, 12, 31, 10, 5, 7)),
        ("31.12.2020 9:05", "%d.%m.%Y %H:%M:%S", datetime(2020, 12, 31, 9, 5)),
        ("31/12/2020 23:05", "%d/%m/%Y %H:%M:%S", datetime(2020, 12, 31, 23, 5)),
        ("9:05", "%H:%M:%S", time(9, 5)),
        ("23:59:59.5", "%H:%M:%S", time(23, 59, 59, 500000)),
    ],
)
def test_dates_and_times(text, style, value):
    reading = read(text)
    assert reading.style == style
    parsed = parse(series([text, None]), style)
    assert parsed.to_list() == [value, None]
    if style in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%z", "%H:%M:%S"):
        assert reading.note == ""
    else:
        assert reading.note.startswith("read as ")
        assert repr(text) in reading.note
        assert str(value) in reading.note


def test_types_of_no_values():
    for style in (*NUMBERS, "bool"):
        assert parse(series([]), style).dtype == pl.Float64
    for style in TIMES:
        days, hours = "%d" in style, ":" in style
        zone = "UTC" if "%z" in style else None
        wanted = pl.Datetime("us", zone) if days and hours else pl.Date if days else pl.Time
        for values in ([], [None], ["?"]):
            assert parse(series(values), style).dtype == wanted


@pytest.mark.parametrize("style", TIMES)
def test_parse_inverts_formatting(style):
    generator = random.Random(style)
    moments = [datetime(1900, 1, 1) + timedelta(seconds=generator.randrange(6 * 10**9)) for _ in range(40)]
    moments = [moment.replace(tzinfo=UTC) for moment in moments] if "%z" in style else moments
    texts = [moment.strftime(style) for moment in moments]
    kind = parse(series([]), style).dtype
    expected = [
        moment.date() if kind == pl.Date else moment.time() if kind == pl.Time else moment
        for moment in moments
    ]
    assert style in styles(series(texts))
    assert parse(series(texts), style).to_list() == expected


@pytest.mark.parametrize(
    "text",
    [
        "2020-02-30",
        "2020-13-01",
        "31.04.2020",
        "32/12/2020",
        "13/13/2020",
        "31-Foo-2020",
        "31/12/20",
        "31-12-2020",
        "31-Dec-2020",
        "9:05 PM",
        "2020-12",
        "24:00",
        "12:60",
        "12:30:60",
        "13:05 PM",
        "0:05 PM",
        "2020-12-31T25:00",
        "2020-12-31T10:00+25:00",
        "2020-12-31Z",
        "1500-12",
        "2020-00",
        "2020-13",
        "20-12-31",
        "12/2020",
        "31 Decem 2020",
        "2020-12-31 10",
    ],
)
def test_invalid_dates(text):
    assert not styles(series([text]))
    assert all(parse(series([text]), style).null_count() for style in TIMES)


def test_dates_among_times_are_midnights():
    assert values_of("2020-01-02", "2020-01-02T10:00") == [datetime(2020, 1, 2), datetime(2020, 1, 2, 10)]


def test_zones_do_not_mix():
    assert "looks numeric" in read("2020-01-01T10:00Z", "2020-01-01T10:00").error
    assert "looks numeric" in read("2020-01-01T10:00Z", "2020-01-01").error
    assert parse(series(["2020-01-01T10:00"]), "%Y-%m-%d %H:%M:%S%z").to_list() == [None]
    assert parse(series(["2020-01-01T10:00Z"]), "%Y-%m-%d %H:%M:%S").to_list() == [None]


# Laws


def random_columns(count, seed=2):
    generator = random.Random(seed)
    pools = [
        ["1,234", "950", "1.234", "12", "1,5", "1 234", "0,123", "1,200.5", "7.25", "-3"],
        ["2020-01-01", "2020-01-02T10:00", "2020-01-02T10:00Z", "2020-12", "2001-02", "2020/01/01"],
        ["3/4/2020", "13/4/2020", "4/13/2020", "12.12.2020", "3/4/2020 9:05", "9:05", "9:05 PM"],
        ["May 1, 2020", "Dec 1, 2020", "December 1, 2020", "1 May 2020", "1 Dec 2020", "1-May-2020"],
        ["$5", "-$1,200", "5 €", "1.234 €", "12%", "1,5 %", "5"],
        ["true", "False", "1", "red", "Q1", "18-25"],
    ]
    for _ in range(count):
        pool = generator.choice(pools) + list(random_numbers(generator, 1))
        yield generator, generator.sample(pool, k=generator.randint(1, 4))


def test_styles_are_those_that_parse_every_value():
    for _, values in random_columns(30):
        found = styles(series(values))
        wanted = {
            style for style in (*NUMBERS, "bool", *TIMES) if not parse(series(values), style).null_count()
        }
        assert found == wanted, values


def test_styles_of_a_split_intersect_in_any_order():
    for generator, values in random_columns(150, seed=3):
        whole = styles(series(values))
        assert whole == frozenset.intersection(*(styles(series([value])) for value in values))
        assert whole == styles(series(values + generator.choices(values, k=3)))
        shuffled = generator.sample(values, k=len(values))
        assert whole == styles(series(shuffled))
        assert decide(whole, sorted(values)) == decide(styles(series(shuffled)), sorted(shuffled))


def test_no_values_exclude_no_style():
    assert styles(series([])) == frozenset(STYLES)
    assert decide(frozenset(STYLES), []) == Reading()


@pytest.mark.parametrize(
    "texts",
    [
        ["1.5", "x"],
        ["1,200.5", "1,5"],
        ["2020-01-02", "2020-02-30"],
        ["true", "t"],
        ["13/1/2020", "1/13/2020"],
    ],
)
def test_the_last_value_counts(texts):
    good, bad = texts
    assert styles(series([good] * (HEAD + 50)))
    assert not styles(series([good] * (HEAD + 50) + [bad]))
    assert parse(series([good, bad, None]), next(iter(styles(series([good]))))).null_count() >= 2


def test_names_and_nulls_are_kept():
    parsed = parse(series([None, "1,5", None]), "1.234,5")
    assert parsed.name == "x"
    assert parsed.to_list() == [None, 1.5, None]


def test_a_style_is_chosen_that_agrees_with_the_others():
    """Where no error is reported, all styles that fit give the same values; plain numbers come first."""
    for _, values in random_columns(150, seed=4):
        found = styles(series(values))
        reading = decide(found, sorted(values))
        if reading.style and not reading.style.startswith("plain"):
            parsed = parse(series(values), reading.style)
            for style in found:
                other = parse(series(values), style)
                assert other.cast(parsed.dtype).to_list() == parsed.to_list(), (values, style, reading)


# Readings


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (["1,234"], "commas could separate thousands or decimals ('1,234')"),
        (
            ["1,234", "950", "12,345", "9,876"],
            "commas could separate thousands or decimals ('1,234', '12,345', '9,876')",
        ),
        (["3/4/2020", "5/6/2020"], "dates could have the day or the month first ('3/4/2020', '5/6/2020')"),
        (["3/4/2020 9:05"], "dates could have the day or the month first ('3/4/2020 9:05')"),
        (
            ["12", "13", "unknown"],
            "looks numeric but does not read as numbers or dates ('unknown')",
        ),
    ],
)
def test_ambiguous_columns(values, error):
    assert read(*values) == Reading(error=error)


def test_other_values_resolve_what_is_ambiguous():
    assert values_of("1,234", "1,200.5") == [1234, 1200.5]
    assert values_of("1,234", "0,5") == [1.234, 0.5]
    assert values_of("1,234", "1,234,567") == [1234, 1234567]
    assert values_of("3/4/2020", "13/4/2020") == [date(2020, 4, 3), date(2020, 4, 13)]
    assert values_of("3/4/2020", "4/13/2020") == [date(2020, 3, 4), date(2020, 4, 13)]


def test_decimal_comma():
    assert values_of("1,234", decimal_comma=True) == [1.234]
    assert values_of("1.234", "2,5", decimal_comma=True) == [1234, 2.5]
    assert values_of("1.234", decimal_comma=True) == [1.234]  # plain numbers come first
    assert values_of("1,200.5", decimal_comma=True) == [1200.5]  # not ambiguous
    assert read("3/4/2020", decimal_comma=True).error


@pytest.mark.parametrize(
    "values",
    [
        ["173 cm", "180 cm", "1.70 m"],
        *(
            ["18-25", "26-35"],
            ["18–25"],
            ["18 to 25"],
            ["<5", ">=10"],
            ["~5"],
            ["007", "012"],
            ["00"],
            ["173.4 cm"],
        ),
        *(
            ["(1,234)"],
            ["$(5)"],
            ["1/2"],
            ["1 1/2"],
            ["3½"],
            ["65+"],
            ["5*"],
            ["5-"],
            ["1.2 ± 0.3"],
            ["1.2 (0.3)"],
        ),
        *(
            ["(0.0, 10.0]"],
            ["[0, 5)"],
            ["20°C"],
            ["12 km/h"],
            ["5 W m-2"],
            ["5'3\""],
            ["5 ft 3 in"],
        ),
        *(["$5", "-€ 5"], ["12%", "1,5 %"], ["1 234"], ["3/4/2020 9:05 PM"], ["9:05 PM"], ["2001-02"]),
        *(["31-Dec-2020"], ["Dec 31, 2020"], ["31-12-2020"], ["1 December 2020"]),
        *(["US$5"], ["12 USD"], ["12,34,567"], ["31/12/20"], ["31-Dec-20"], ["2020-13-01"]),
        *(["25:30"], ["5 of 10"], ["3 x 4"], ["10.0.0.1"], ["1", "2", "inf"], ["2020-01-01", "31/12/2020"]),
        *(["Dec 31, 2020", "31 Dec 2020"], ["1", "2", "3", "a", "b"], ["2012-13", "2001-02"], ["0.5", "1,5"]),
    ],
)
def test_columns_that_look_numeric(values):
    reading = read(*values)
    assert reading.style == reading.note == ""
    assert reading.error.startswith("looks numeric but does not read as numbers or dates (")
    odd = [value for value in values if not value.replace(".", "").isdigit()]
    assert all(repr(value) in reading.error for value in odd) or len(odd) > 3


@pytest.mark.parametrize(
    "values",
    [
        *(
            ["red", "blue"],
            ["12 Main Street", "7 Elm Road"],
            ["A320-214"],
            ["Q1", "Q2"],
            ["3rd class of many words"],
        ),
        *(
            ["1st", "2nd", "3rd", "4th"],
            ["1h30m"],
            ["4-door", "2-door"],
            ["3fa4b2c1", "12ab34cd"],
            ["Jan", "Feb"],
            ["May"],
        ),
        *(
            ["1", "a"],
            ["12 Main St"],
            ["10-K"],
            ["N/A"],
            ["-"],
            ["..."],
            ["#1"],
            ["v1.2"],
            ["COVID-19"],
            ["٣"],
        ),
        *(
            ["5 is a number among many words", "7 is another"],
            ["inf"],
            ["1 " * 40 + "1"],
            ["$"],
            ["%"],
            ["e5"],
        ),
        ["550e8400-e29b-41d4-a716-446655440000"],
    ],
)
def test_categories(values):
    assert read(*values) == Reading()


def test_ordinals_are_categories():
    assert read("5th") == read("21st") == read("22nd") == read("23rd") == Reading()


def test_long_values_are_shortened():
    error = read("1" * 40 + " cm").error
    assert error.endswith(f"('{'1' * 27}...')")


def test_hostile_values_take_little_time():
    generator = random.Random(5)
    values = ["".join(generator.choices("1 ,.-x(aT$of", k=58)) + "!" for _ in range(100)]
    values += ["1 " * 29 + "!", "1 a " * 14 + "!", "1 of " * 11 + "!", "1," * 29 + "!"]
    assert decide(frozenset(), values) == Reading()


@pytest.mark.parametrize(
    ("values", "note"),
    [
        (["950", "1,200.5", "123456"], "read as numbers ('1,200.5' is 1200.5)"),
        (["1,5", "123456"], "read as numbers ('1,5' is 1.5)"),
        (["31/12/2020", "1/2/2020"], "read as dates ('31/12/2020' is 2020-12-31)"),
        (["31/12/2020 9:05"], "read as dates and times ('31/12/2020 9:05' is 2020-12-31 09:05:00)"),
    ],
)
def test_notes(values, note):
    assert read(*values).note == note

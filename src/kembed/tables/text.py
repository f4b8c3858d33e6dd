"""Text columns read as numbers, booleans, dates and times.

A style is a way to write single values, so the styles of a column are those that fit all of its values, and
those of several blocks or samples are the intersection. A column is read in one style or not at all:

* ``plain``: -12, 0.5, 1e-3, without leading zeros;
* ``1,234.5``, ``1.234,5``: thousands are optional;
* ``bool``: true and false;
* a format of dates or times: seconds and leading zeros are optional, times with a zone become UTC.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

HEAD = 16  # values that a style must fit before it is tested on all of them
# Rust's and Python's regular expressions agree on these patterns; \d would match the digits of every script.
_GROUPED = (
    "[-+]?(?:(?:{whole}|[1-9][0-9]{{0,2}}(?:[{thousands}][0-9]{{3}})+)(?:{decimals})?|[{sign}][0-9]+){power}"
)
_PARTS = {"whole": "(?:0|[1-9][0-9]*)", "power": "(?:[eE][-+]?[0-9]+)?"}
_NUMBERS = {
    "plain": r"[-+]?(?:{whole}(?:\.[0-9]*)?|\.[0-9]+){power}".format(**_PARTS),
    "1,234.5": _GROUPED.format(thousands=",", sign=".", decimals=r"\.[0-9]*", **_PARTS),
    "1.234,5": _GROUPED.format(thousands=".", sign=",", decimals=",[0-9]+", **_PARTS),
}
_CLOCK, _CLOCK_PATTERN = "%H:%M:%S", r"[0-9]{1,2}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_DAYS = {
    day: re.sub("%[md]", "[0-9]{1,2}", day.replace(".", r"\.").replace("%Y", "[0-9]{4}"))
    for day in ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
}
_ISO_DATE, _ISO, _ZONED = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%z"
_ZONE = "(?:Z| ?UTC|[-+](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
_TIMES = {
    **_DAYS,
    **{f"{day} {_CLOCK}": f"{pattern} {_CLOCK_PATTERN}" for day, pattern in _DAYS.items()},
    _ISO: f"{_DAYS[_ISO_DATE]}(?:[T ]{_CLOCK_PATTERN})?",  # dates among times are midnights
    _ZONED: f"{_DAYS[_ISO_DATE]}[T ]{_CLOCK_PATTERN}{_ZONE}",
    _CLOCK: _CLOCK_PATTERN,
}
_PATTERNS = {**_NUMBERS, "bool": "(?i:true|false)", **_TIMES}
STYLES = tuple(_PATTERNS)
# What looks numeric: a number, perhaps after a currency, with up to three units or months; no "3rd".
_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_UNIT = rf"(?:{_MONTH}|(?<!-)(?!(?:st|nd|rd|th)\b)(?:[a-z]{{1,8}}|[A-Z]{{1,4}}))(?![0-9A-Za-z])"
_GAP = "(?:[^A-Za-z]|T(?=[0-9]))*"
_NUMERIC = re.compile(
    rf"(?:{_MONTH}|[^\w\s#]{{0,3}}(?:[A-Z]{{0,2}}[$€£¥₹])?) ?[-+]?[.,]?[0-9](?:{_GAP}{_UNIT}){{0,3}}{_GAP}"
)


class Reading(NamedTuple):
    """How a column of text is read."""

    style: str = ""  # "" means categories
    note: str = ""  # how it was read; "" where that is plain
    error: str = ""  # why it cannot be used as it is


def styles(values: pl.Series) -> frozenset[str]:
    """The styles under which every value reads; all of `STYLES` if there are no values.

    `values` is text, stripped, without nulls; distinct values are enough.

    >>> import polars as pl
    >>> sorted(styles(pl.Series(["1,200.5", "950"])))
    ['1,234.5']
    """
    head = values.head(HEAD)
    near = [style for style in STYLES if not parse(head, style).null_count()]
    return frozenset(style for style in near if not parse(values, style).null_count())


def _matches(values: pl.Series, style: str) -> pl.Series:
    return values.str.contains(f"^(?:{_PATTERNS[style]})$")


def parse(values: pl.Series, style: str) -> pl.Series:
    """Text as Float64 (booleans: 0 and 1), Date, Datetime in microseconds (UTC if zoned) or Time.

    Text that is null or does not fit the style becomes null.

    >>> import polars as pl
    >>> parse(pl.Series(["1.234,5", "-3", "$3"]), "1.234,5").to_list()
    [1234.5, -3.0, None]
    """
    import polars as pl

    text = values.to_frame("text").select(pl.when(_matches(values, style)).then(pl.col("text")))["text"]
    if style == "bool":
        parsed = (text.str.to_lowercase() == "true").cast(pl.Float64)
    elif style in _TIMES:
        parsed = _parse_times(text, style)
    else:
        if style != "plain":
            text = text.str.replace_all(style[1], "", literal=True).str.replace(",", ".", literal=True)
        parsed = text.cast(pl.Float64)
    return parsed.alias(values.name)


def _parse_times(text: pl.Series, style: str) -> pl.Series:
    if style in _DAYS:
        return text.str.to_date(style, strict=False)
    text = text.str.replace("^([^:]*:[0-9]{2})([^:].*)?$", "${1}:00${2}")  # seconds
    layout = style.replace("%S", "%S%.f")
    if style == _CLOCK:
        return text.str.to_time(layout, strict=False)
    text = text.str.replace("T([0-9])", " ${1}").str.replace("^([0-9-]+)$", "${1} 00:00:00")
    text = text.str.replace("(?:Z| ?UTC)$", "+00:00").str.replace("(:.*[-+][0-9]{2})$", "${1}:00")
    return text.str.to_datetime(layout, time_unit="us", strict=False)


def decide(found: frozenset[str], examples: Sequence[str], *, decimal_comma: bool = False) -> Reading:
    """Choose the reading of a column: a style, an error, or neither (categories).

    `found` are the styles that fit all values of all samples. `examples`, some distinct values, appear in
    notes and errors, and decide whether a column without any style looks numeric. `decimal_comma` reads the
    ambiguous 1,234 as 1.234.

    >>> decide(frozenset({"1,234.5"}), ["1,200.5", "950"])
    Reading(style='1,234.5', note="read as numbers ('1,200.5' is 1200.5)", error='')
    >>> decide(frozenset(), ["173 cm", "1.80 m"]).error
    "looks numeric but does not read as numbers or dates ('173 cm', '1.80 m')"
    """
    if not examples:
        return Reading()
    for style in ("plain", "bool", _ISO_DATE, _ISO, _ZONED, _CLOCK):
        if style in found:
            return Reading(style)
    point, comma = (style in found for style in ("1,234.5", "1.234,5"))
    if point and comma and not decimal_comma:
        sign, name = (",", "commas") if any("," in value for value in examples) else (".", "points")
        shown = _shown([value for value in examples if sign in value])
        return Reading(error=f"{name} could separate thousands or decimals {shown}")
    if comma:
        return Reading("1.234,5") if decimal_comma else _noted("1.234,5", examples)
    if point:
        return _noted("1,234.5", examples)
    other = [style for style in _TIMES if style in found]
    if len({style[:2] for style in other if style[2] == "/"}) > 1:
        return Reading(error=f"dates could have the day or the month first {_shown(examples)}")
    if other:
        return _noted(other[0], examples)
    if 2 * sum(len(value) <= 60 and bool(_NUMERIC.fullmatch(value)) for value in examples) <= len(examples):
        return Reading()
    odd = [value for value in examples if not re.fullmatch(_NUMBERS["plain"], value)]
    return Reading(error=f"looks numeric but does not read as numbers or dates {_shown(odd or examples)}")


def _shown(examples: Sequence[str]) -> str:
    short = [value if len(value) <= 30 else f"{value[:27]}..." for value in examples[:3]]
    return f"({', '.join(map(repr, short))})"


def _noted(style: str, examples: Sequence[str]) -> Reading:
    """The reading with a note that shows one value and what it means."""
    import polars as pl

    example = max(examples, key=lambda value: (len(re.findall("[^0-9]", value)), len(value), value))
    parsed = parse(pl.Series([example]), style)
    if style in _NUMBERS:
        return Reading(style, f"read as numbers ({example!r} is {parsed[0]:.15g})")
    kind = "dates and times" if ":" in style else "dates"
    meaning = str(parsed.cast(pl.String)[0]).removesuffix(".000000")
    return Reading(style, f"read as {kind} ({example!r} is {meaning})")

"""Text columns read as numbers, booleans, dates and times.

A style is a way to write single values, so the styles of a column are those that fit all of its values, and
those of several blocks or samples are the intersection. A column is read in one style or not at all:

* ``plain``: -12, 0.5, 1e-3, without leading zeros;
* ``1,234.5``, ``1.234,5``, ``1 234.5``, ``1 234,5``: thousands are optional, the space may be an apostrophe;
* each of these followed by `` $``, `` €``, `` £``, `` ¥``, `` ₹`` or `` %``: every value has this sign;
* ``bool``: true and false;
* a format of dates or times: seconds and leading zeros are optional, times with a zone become UTC;
* ``season``: 2001-02 could be a month or two years; it is never read.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

HEAD = 16  # values that a style must fit before it is tested on all of them
_MINUS = "−﹣－–‒"
_SPACES = " '’\u00a0\u2009\u202f"
_GAP = "[ \u00a0\u2009\u202f]?"
_CURRENCIES = "$€£¥₹"
# Rust's and Python's regular expressions agree on these patterns; \d would match the digits of every script.
_SIGN, _WHOLE, _POWER = f"[-+{_MINUS}]?", "(?:0|[1-9][0-9]*)", "(?:[eE][-+]?[0-9]+)?"
_GROUPED = (
    r"(?:(?:{whole}|[1-9][0-9]{{0,2}}(?:[{thousands}][0-9]{{3}})+)(?:{decimals})?|[{sign}][0-9]+){power}"
)
_BODIES = {"plain": rf"(?:{_WHOLE}(?:\.[0-9]*)?|\.[0-9]+){_POWER}"} | {
    name: _GROUPED.format(whole=_WHOLE, thousands=thousands, decimals=decimals, sign=sign, power=_POWER)
    for name, thousands, sign, decimals in (
        ("1,234.5", ",", ".", r"\.[0-9]*"),
        ("1 234.5", _SPACES, ".", r"\.[0-9]*"),
        ("1.234,5", ".", ",", ",[0-9]+"),
        ("1 234,5", _SPACES, ",", ",[0-9]+"),
    )
}
_UNITS = ("", *(f" {unit}" for unit in _CURRENCIES), " %")
_POINT, _COMMA = ("plain", "1,234.5", "1 234.5"), ("1.234,5", "1 234,5")

_DAY, _HOUR, _SECONDS = "[0-9]{1,2}", "[0-9]{1,2}:[0-5][0-9]", r"(?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_CLOCKS = {"%H:%M:%S": f"{_HOUR}{_SECONDS}", "%I:%M:%S %p": f"{_HOUR}{_SECONDS} ?[AaPp][Mm]"}
_SHORT = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_LONG = "(?i:january|february|march|april|may|june|july|august|september|october|november|december)"
_PARTS = {"%Y": "[0-9]{4}", "%m": _DAY, "%d": _DAY, "%b": _SHORT, "%B": _LONG, ".": r"\."}
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_NAMED_DAYS = ("%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")
_DATES = {style: re.sub("%.|[.]", lambda part: _PARTS[part[0]], style) for style in _DAYS + _NAMED_DAYS}
_ISO_DATE, _ISO, _ZONED = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%z"
_ISO_CLOCK, _ZONE = f"[T ]{_CLOCKS['%H:%M:%S']}", "(?:Z| ?UTC|[-+](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
_TIMES = {
    **_DATES,
    **{f"{day} {clock}": f"{_DATES[day]} {_CLOCKS[clock]}" for day in _DAYS[1:] for clock in _CLOCKS},
    _ISO: f"{_DATES[_ISO_DATE]}(?:{_ISO_CLOCK})?",  # dates among times are midnights
    _ZONED: f"{_DATES[_ISO_DATE]}{_ISO_CLOCK}{_ZONE}",
    **_CLOCKS,
    "%Y-%m": "(?:1[6-9]|2[01])[0-9]{2}-(?:0[1-9]|1[0-2])",
}
_SEASON = "(?:1[6-9]|2[01])(?:" + "|".join(f"{year:02d}-{year + 1:02d}" for year in range(12)) + ")"


def _pattern(body: str, unit: str) -> str:
    if not unit:
        return _SIGN + body
    if unit == " %":
        return f"{_SIGN}{body}{_GAP}%"
    sign = f"[{unit[1:]}]"
    return f"(?:{_SIGN}{sign}{_GAP}|{sign}{_GAP}{_SIGN}){body}|{_SIGN}{body}{_GAP}{sign}"


_PATTERNS = {body + unit: _pattern(_BODIES[body], unit) for unit in _UNITS for body in _BODIES}
_PATTERNS |= {"bool": "(?i:true|false)", **_TIMES, "season": _SEASON}
STYLES = tuple(_PATTERNS)

# What looks numeric: bounds, brackets, units, ranges, fractions, dates in other formats.
_MONEY = "[A-Z]{0,2}[$¢£¤¥฿\u20a0-\u20cf]"
_DIGITS = (
    rf"(?>[0-9](?:[0-9.,{_SPACES}]*[0-9])?[.,]?|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?[¼½¾]?"  # atomic: linear time
)
_VALUE = rf"[(\[]?[-+{_MINUS}<>≤≥~≈±=]{{0,2}} ?(?:{_MONEY})? ?[-+{_MINUS}]?[(\[]?{_DIGITS}"
_WORD = r"(?!(?:st|nd|rd|th)\b)[^\W\d_]{1,8}"
_WORDS = rf"{_WORD}[²³]?(?:[/·*]{_WORD}[²³]?)?(?: [a-z]{{1,3}}(?:-?[1-3])?)?\.?"  # km/h, fl oz, W m-2
_UNIT = rf"(?:[%‰°'\"′″]{{1,2}}[CF]?|{_MONEY}|{_WORDS})"
_JOIN = rf"(?: ?(?:[-+{_MINUS}—/:x×*±^T(,;]|to|of|\.\.) ?|[-/. ]?{_SHORT}[a-z]*[-/., ]{{0,2}})"
_LAPSE = r"(?:[0-9.]+ ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|ft|in|['\"′″])[ ,]*){2,}"
_NUMERIC = re.compile(
    rf"{_VALUE}(?: ?{_UNIT})?(?:(?:{_JOIN}|[, ]+){_VALUE}(?: ?{_UNIT})?){{0,7}} ?[)\]]{{0,2}}[-+*†‡%]?"
    rf"|{_LAPSE}|{_SHORT}[a-z]*\.? [0-9]{{1,2}},? [0-9]{{2,4}}"
)


class Reading(NamedTuple):
    """How a column of text is read."""

    style: str = ""  # "" means categories
    note: str = ""  # how it was read; "" where that is plain
    error: str = ""  # why it cannot be used as it is


@cache
def _compiled(style: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[style])


def _candidates(value: str) -> Iterable[str]:
    """The styles that one value does not exclude at first sight."""
    if not re.search("[0-9]", value):
        return ("bool",)
    unit = next((f" {sign}" for sign in _CURRENCIES + "%" if sign in value), "")
    times = () if unit or not re.search(r"[0-9](?:[-/:]|[.][0-9]+[.]|,? )", value) else (*_TIMES, "season")
    return (*(body + unit for body in _BODIES), *times)


def styles(values: pl.Series) -> frozenset[str]:
    """The styles under which every value reads; all of `STYLES` if there are no values.

    `values` is text, stripped, without nulls; distinct values are enough.

    >>> import polars as pl
    >>> sorted(styles(pl.Series(["$1,200.5", "$950"])))
    ['1,234.5 $']
    """
    head: list[str] = values.head(HEAD).to_list()
    if not head:
        return frozenset(STYLES)
    fitting: set[str] = set()
    for style in _candidates(head[0]):
        implied = _ISO_DATE if style == _ISO else f"plain{style[7:]}" if style[:7] in _POINT[1:] else ""
        if implied in fitting or (
            all(map(_compiled(style).fullmatch, head))
            and _matches(values, style).all()
            and (style not in _TIMES or parse(values, style).null_count() == 0)
        ):
            fitting.add(style)
    return frozenset(fitting)


def _matches(values: pl.Series, style: str) -> pl.Series:
    return values.str.contains(f"^(?:{_PATTERNS[style]})$")


def parse(values: pl.Series, style: str) -> pl.Series:
    """Text as Float64 (booleans: 0 and 1), Date, Datetime in microseconds (UTC if zoned) or Time.

    Text that is null or does not fit the style becomes null.

    >>> import polars as pl
    >>> parse(pl.Series(["1.234,5 €", "-3 €", "$3"]), "1.234,5 €").to_list()
    [1234.5, -3.0, None]
    """
    import polars as pl

    text = values.to_frame("text").select(pl.when(_matches(values, style)).then(pl.col("text")))["text"]
    if style == "bool":
        parsed = (text.str.to_lowercase() == "true").cast(pl.Float64)
    elif style in _TIMES:
        parsed = _parse_times(text, style)
    else:
        decimal = "," if style.startswith(_COMMA) else "."
        text = text.str.replace_all(f"[{_MINUS}]", "-").str.replace_all(f"[^-0-9eE{decimal}]", "")
        parsed = text.str.replace(",", ".", literal=True).cast(pl.Float64)
    return parsed.alias(values.name)


def _parse_times(text: pl.Series, style: str) -> pl.Series:
    if style == "%Y-%m":
        return (text + "-01").str.to_date("%Y-%m-%d", strict=False)
    if style in _DATES:
        return text.str.to_date(style, strict=False)
    text = text.str.replace("^([^:]*:[0-9]{2})([^:].*)?$", "${1}:00${2}")  # seconds
    layout = style.replace("%S", "%S%.f")
    if style in _CLOCKS:
        return text.str.to_time(layout, strict=False)
    if style in (_ISO, _ZONED):
        text = text.str.replace("T([0-9])", " ${1}").str.replace("^([0-9-]+)$", "${1} 00:00:00")
        text = text.str.replace("(?:Z| ?UTC)$", "+00:00").str.replace("(:.*[-+][0-9]{2})$", "${1}:00")
    return text.str.to_datetime(layout, time_unit="us", strict=False)


def decide(found: frozenset[str], examples: Sequence[str], *, decimal_comma: bool = False) -> Reading:
    """Choose the reading of a column: a style, an error, or neither (categories).

    `found` are the styles that fit all values of all samples. `examples`, some distinct values, appear in
    notes and errors, and decide whether a column without any style looks numeric. `decimal_comma` reads the
    ambiguous 1,234 as 1.234.

    >>> decide(frozenset({"1,234.5 $"}), ["$1,200.5", "$950"])
    Reading(style='1,234.5 $', note="read as numbers in $ ('$1,200.5' is 1200.5)", error='')
    >>> decide(frozenset(), ["173 cm", "1.80 m"]).error
    "looks numeric but does not read as numbers or dates ('173 cm', '1.80 m')"
    """
    if not examples:
        return Reading()
    for style in ("plain", "bool", _ISO_DATE, _ISO, _ZONED, "%H:%M:%S"):
        if style in found:
            return Reading(style)
    for unit in _UNITS:
        point = next((body + unit for body in _POINT if body + unit in found), "")
        comma = next((body + unit for body in _COMMA if body + unit in found), "")
        # Where spaces are the only signs between digits, both decimal signs give the same numbers.
        same = {f"1 234.5{unit}", f"1 234,5{unit}"} <= found or point == "plain %"
        if point and comma and not same and not decimal_comma:
            sign, name = (",", "commas") if any("," in value for value in examples) else (".", "points")
            shown = _shown([value for value in examples if sign in value] or examples)
            return Reading(error=f"{name} could separate thousands or decimals {shown}")
        if point or comma:
            style = comma if comma and not same else point or comma
            return Reading(style) if decimal_comma and style == _COMMA[0] else _noted(style, examples)
    other = [style for style in _TIMES if style in found]
    if "season" in found and other:
        return Reading(error=f"could be months or pairs of years {_shown(examples)}")
    if (
        len(
            {
                style[:2]
                for style in other
                if style[2:3] in ("/", "-") and style[:2] in ("%d", "%m") and "%b" not in style
            }
        )
        == 2
    ):
        return Reading(error=f"dates could have the day or the month first {_shown(examples)}")
    if other:
        return _noted(other[0], examples)
    if 2 * sum(len(value) <= 60 and bool(_NUMERIC.fullmatch(value)) for value in examples) <= len(examples):
        return Reading()
    odd_first = sorted(examples, key=lambda value: bool(_compiled("plain").fullmatch(value)))
    return Reading(error=f"looks numeric but does not read as numbers or dates {_shown(odd_first)}")


def _shown(examples: Sequence[str]) -> str:
    short = [value if len(value) <= 30 else f"{value[:27]}..." for value in examples[:3]]
    return f"({', '.join(map(repr, short))})"


def _noted(style: str, examples: Sequence[str]) -> Reading:
    """The reading with a note that shows one value and what it means."""
    import polars as pl

    example = max(examples, key=lambda value: (len(re.findall("[^0-9]", value)), len(value), value))
    parsed = parse(pl.Series([example]), style)
    if style in _TIMES:
        kind = "times" if style in _CLOCKS else "dates and times" if ":" in style else "dates"
        meaning = str(parsed.cast(pl.String)[0]).removesuffix(".000000")
    else:
        kind = {" %": "percent"}.get(
            style[-2:], f"numbers in {style[-1]}" if style[-2:] in _UNITS else "numbers"
        )
        meaning = f"{parsed[0]:.15g}"
    return Reading(style, f"read as {kind} ({example!r} is {meaning})")

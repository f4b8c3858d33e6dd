"""Dates, times of day and durations as numbers: of typed columns, and of text that writes them.

Dates and moments are days since 1970-01-01 (UTC where there is a zone), times of day hours since midnight,
durations seconds. Text is read where it follows ISO 8601, or where days beyond the twelfth tell days from
months.
"""

import datetime
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kembed.core.text import plain

if TYPE_CHECKING:
    import numpy as np

DAYS, HOURS, SECONDS = "days since 1970-01-01", "hours since midnight", "seconds"
ZONED = " in a zone"  # beside the unit of moments that have one: others may be hours away
DAY = 86_400.0  # seconds
_EPOCH = datetime.datetime(1970, 1, 1)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, which have names
_MOMENT = re.compile(
    r"(\d{4})([-/])(\d\d)\2(\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)( ?(?:Z|[-+]\d\d:?\d\d))?)?"
)
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
# Durations as ISO 8601 and Polars write them (P1DT2H), and as pandas does (1 days 02:00:00).
_PERIOD = re.compile(r"([-+]?)P(?=\d|T\d|-)(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")
_LAPSE = re.compile(r"(-?\d+) days?(?: \+?(\d+):(\d\d):(\d\d(?:\.\d+)?))?")
_LOCAL = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")  # 31/12/2020, or 12/31/2020


class Clock(NamedTuple):
    """What a text says of time: its kind and the number."""

    kind: str  # "date", "moment", "zoned", "time of day" or "duration"
    number: float


def read_clock(text: str) -> Clock | None:
    """One date, moment, time of day or duration; None if it is none.

    >>> read_clock("1970-01-02T12:00Z"), read_clock("P1DT1S"), read_clock("soon")
    (Clock(kind='zoned', number=1.5), Clock(kind='duration', number=86401.0), None)
    """
    if found := _MOMENT.fullmatch(text):
        return _moment(text, found[5] is not None, (found[6] or "").strip())
    if found := _CLOCK.fullmatch(text):
        hours = int(found[1]) + int(found[2]) / 60.0 + float(found[3] or 0.0) / 3600.0
        return Clock("time of day", hours) if hours <= 24.0 else None
    if found := _PERIOD.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0.0) for part in found.groups()[1:])
        total = DAY * days + 3600.0 * hours + 60.0 * minutes + seconds
        return Clock("duration", -total if found[1] == "-" else total)
    if found := _LAPSE.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0.0) for part in found.groups())
        return Clock("duration", DAY * days + 3600.0 * hours + 60.0 * minutes + seconds)
    return None


def _moment(text: str, timed: bool, zone: str) -> Clock | None:
    text = text.replace("/", "-")
    try:
        when = datetime.datetime.fromisoformat(text.replace(f" {zone}", zone) if zone else text)
    except ValueError:  # the thirtieth of February
        return None
    kind = "zoned" if zone else "moment" if timed else "date"
    return Clock(kind, days_of(when))


def days_of(when: datetime.date) -> float:
    """Days since 1970-01-01; a moment with a zone in UTC.

    >>> days_of(datetime.date(1970, 1, 2)), days_of(datetime.datetime(1970, 1, 1, 6))
    (1.0, 0.25)
    """
    if not isinstance(when, datetime.datetime):
        return float(when.toordinal() - _EPOCH.toordinal())
    if when.tzinfo is not None:
        when = when.astimezone(datetime.UTC).replace(tzinfo=None)
    past = when - _EPOCH
    return past.days + (past.seconds + past.microseconds / 1e6) / DAY


def looks_local(text: str) -> bool:
    """Whether it is a date of the kind 3/4/2020."""
    return _LOCAL.fullmatch(text) is not None


def read_local(texts: Iterable[str]) -> dict[str, float] | None:
    """Dates such as 31/12/2020, if some day beyond the twelfth tells which is the day; None if none does.

    >>> read_local(["31/12/1969", "02/01/1970"]), read_local(["1/2/1970"])
    ({'31/12/1969': -1.0, '02/01/1970': 1.0}, None)
    """
    parts = {text: found for text in texts if (found := _LOCAL.fullmatch(text))}
    highest = [max(int(found[place]) for found in parts.values()) for place in (1, 3)]
    if (highest[0] > 12) == (highest[1] > 12):
        return None
    day, month = (1, 3) if highest[0] > 12 else (3, 1)
    try:
        return {
            text: days_of(datetime.date(int(one[4]), int(one[month]), int(one[day])))
            for text, one in parts.items()
        }
    except ValueError:
        return None


@cache
def types() -> tuple[type, ...]:
    """Of objects that tell times, Python's and NumPy's.

    >>> isinstance(datetime.date(1970, 1, 2), types()), isinstance("1970-01-02", types())
    (True, False)
    """
    import numpy as np

    return datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64


def number_of(entry: Any) -> float:
    """One object that tells a time, as a number.

    >>> number_of(datetime.timedelta(minutes=1)), number_of(datetime.time(12))
    (60.0, 12.0)
    """
    import numpy as np

    if isinstance(entry, np.datetime64 | np.timedelta64):
        return float(numbers_of(np.array([entry]))[0])
    if isinstance(entry, datetime.timedelta):
        return entry.total_seconds()
    if isinstance(entry, datetime.time):
        return entry.hour + entry.minute / 60.0 + (entry.second + entry.microsecond / 1e6) / 3600.0
    return days_of(entry)


def unit_of(entry: Any) -> str:
    """What `number_of` counts."""
    import numpy as np

    if isinstance(entry, datetime.timedelta | np.timedelta64):
        return SECONDS
    return HOURS if isinstance(entry, datetime.time) else DAYS


def is_zoned(entry: Any) -> bool:
    """Whether it is a moment with a zone."""
    return isinstance(entry, datetime.datetime) and entry.tzinfo is not None


def numbers_of(array: "np.ndarray") -> "np.ndarray":
    """NumPy's dates as days and its durations as seconds; what is missing is NaN.

    >>> import numpy as np
    >>> numbers_of(np.array(["1970-01-02T18", "NaT"], dtype="M8[ns]"))
    array([1.75,  nan])
    """
    import numpy as np

    if array.dtype.kind == "m":
        return array / np.timedelta64(1, "s")
    day = array.astype("M8[D]")  # days and the rest apart: a float cannot count this century's nanoseconds
    found = day.astype(np.int64) + (array - day) / np.timedelta64(1, "D")
    return np.where(np.isnat(array), np.nan, found)


def shown(value: float, unit: str, digits: int = 3, step: float = 1.0) -> str:
    """A number of a column for people: a date where it counts days, else so many digits that count.

    Where a `step` of less than a day matters, with the time of day.

    >>> shown(18262.0, DAYS), shown(18262.26, DAYS, step=0.1), shown(0.12345, "")
    ('2020-01-01', '2020-01-01 06:14', '0.123')
    """
    if unit == DAYS and FIRST_DAY <= value <= LAST_DAY:
        when = _EPOCH + datetime.timedelta(days=value)
        return when.date().isoformat() if step >= 1.0 else f"{when:%Y-%m-%d %H:%M}"
    return plain(value, digits)

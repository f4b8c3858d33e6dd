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
LONGEST = 9e12  # seconds: 2⁶³ microseconds
_EPOCH = datetime.datetime(1970, 1, 1)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, which have names
_TIME = r"(?:,?[T ] ?(\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?)"
_MOMENT = re.compile(
    rf"(\d{{4}})([-/])(\d{{1,2}})\2(\d{{1,2}}){_TIME}( ?(?:Z|UTC|GMT|[-+]\d\d(?::?\d\d)?))?)?"
)
_MONTH = re.compile(r"((?:1[6-9]|2[01])\d\d)-(0[1-9]|1[0-2])")  # 2020-12, in years that people write of
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SPELLED = re.compile(  # 31 Dec 2020, December 31, 2020
    r"(?:(\d{1,2})[-. /]{0,2}([A-Za-z]{3,9})|([A-Za-z]{3,9})\.? (\d{1,2}))"
    rf"[-., /]{{1,2}}(\d{{4}}){_TIME})?"
)
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?(?: ?([AaPp])\.?[Mm]\.?)?")
# Durations as ISO 8601 and Polars write them (P1DT2H), and as pandas does (1 days 02:00:00).
_PERIOD = re.compile(
    r"([-+]?)P(?=\d|T\d|-)(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?"
)
_LAPSE = re.compile(r"(-?\d+) days?(?: \+?(\d+):(\d\d):(\d\d(?:\.\d+)?))?")
_LOCAL = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}}){_TIME})?")  # 31/12/2020, or 12/31/2020
_SHORT = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2\d\d|(\d\d)\.(\d\d)\.\d\d")  # 31/12/20


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
        return _moment((found[1], found[3], found[4]), found[5], (found[6] or "").strip())
    if found := _MONTH.fullmatch(text):
        return _moment((found[1], found[2], "1"))
    if found := _SPELLED.fullmatch(text):
        name = (found[2] or found[3]).lower()
        month = next((k for k, one in enumerate(_MONTHS, start=1) if one.startswith(name)), 0)
        return _moment((found[5], month, found[1] or found[4]), found[6])
    if (hours := _hours(text)) is not None and hours < 24.0:  # 24:00 is the next day's
        return Clock("time of day", hours)
    if found := _PERIOD.fullmatch(text):
        return _lapse(found.groups()[1:], -1.0 if found[1] == "-" else 1.0)
    if found := _LAPSE.fullmatch(text):
        return _lapse(found.groups())
    return None


def _lapse(parts: Iterable[str | None], sign: float = 1.0) -> Clock | None:
    """Days, hours, minutes and seconds; None where no type of times holds so many."""
    total = sum(unit * float(part or 0.0) for unit, part in zip((DAY, 3600.0, 60.0, 1.0), parts, strict=True))
    return Clock("duration", sign * total) if abs(total) <= LONGEST else None


def _hours(text: str) -> float | None:
    """Hours since midnight, of 18:30 or 6:30 pm."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour, half = int(found[1]), found[4]
    if half and not 1 <= hour <= 12:
        return None
    hour += 12 * ((half in "Pp") - (hour == 12)) if half else 0
    hours = hour + int(found[2]) / 60.0 + float(found[3] or 0.0) / 3600.0
    return hours if hours <= 24.0 else None


def _moment(date: Iterable[str | int], time: str | None = None, zone: str = "") -> Clock | None:
    """Year, month and day, and a time of that day; None for the thirtieth of February."""
    hours = _hours(time) if time else 0.0
    try:
        day = days_of(datetime.date(*map(int, date)))
        ahead = _ahead(zone)
    except ValueError:
        return None
    if hours is None:
        return None
    kind = "zoned" if zone else "moment" if time else "date"
    return Clock(kind, day + (hours - ahead) / 24.0)


def _ahead(zone: str) -> float:
    """Hours by which the clocks of a zone such as +01:30 are before those of UTC."""
    if zone in ("", "Z", "UTC", "GMT"):
        return 0.0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (hours + minutes / 60.0) * (-1.0 if zone[0] == "-" else 1.0)


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
    """Whether it is a date of the kind 3/4/2020, perhaps with a time of day."""
    return _LOCAL.fullmatch(text) is not None


def looks_like_seasons(texts: Iterable[str]) -> bool:
    """Whether they are several years and the next ones, 2001-02 and 2011-12, which could be read as months.

    >>> looks_like_seasons(["2001-02", "2011-12"]), looks_like_seasons(["2001-02", "2001-03"])
    (True, False)
    """
    parts = [_MONTH.fullmatch(text) for text in texts]
    return len(parts) > 1 and all(found and int(found[2]) == (int(found[1]) + 1) % 100 for found in parts)


def looks_short(texts: Iterable[str]) -> bool:
    """Whether they are dates such as 31/12/20, whose century nobody tells.

    >>> looks_short(["31/12/20", "1/2/20"]), looks_short(["40-50-60"])
    (True, False)
    """
    parts = [_SHORT.fullmatch(text) for text in texts]
    days = [(int(found[1] or found[4]), int(found[3] or found[5])) for found in parts if found]
    return len(days) == len(parts) and all(1 <= min(day) <= 12 and max(day) <= 31 for day in days)


def read_local(texts: Iterable[str]) -> dict[str, Clock] | None:
    """Dates such as 31/12/2020, if some day beyond the twelfth tells which is the day; None if none does.

    >>> read_local(["31/12/1969"]), read_local(["1/2/1970"])
    ({'31/12/1969': Clock(kind='date', number=-1.0)}, None)
    """
    parts = {text: found for text in texts if (found := _LOCAL.fullmatch(text))}
    highest = [max(int(found[place]) for found in parts.values()) for place in (1, 3)]
    if (highest[0] > 12) == (highest[1] > 12):
        return None
    day, month = (1, 3) if highest[0] > 12 else (3, 1)
    read = {text: _moment((one[4], one[month], one[day]), one[5]) for text, one in parts.items()}
    known = {text: clock for text, clock in read.items() if clock is not None}
    return known if len(known) == len(read) else None


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

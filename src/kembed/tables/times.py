"""Dates, times of day and durations as numbers.

Dates and datetimes are days since 1970-01-01 (UTC where there is a zone), times of day hours since midnight,
durations seconds.
"""

import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from kembed.core.text import plain

if TYPE_CHECKING:
    import numpy as np

DAYS, HOURS, SECONDS = "days since 1970-01-01", "hours since midnight", "seconds"
ZONED = " in a zone"  # beside the unit of datetimes that have a zone: others may be hours away
NANOSECONDS = 3.6e12  # of an hour
_EPOCH = datetime.datetime(1970, 1, 1)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, which have names
# What a column holds, by what its numbers count.
HOLDS = {
    DAYS: "dates",
    DAYS + ZONED: "dates and times with a zone",
    HOURS: "times of day",
    SECONDS: "durations",
}


def held_by(unit: str) -> str:
    """What a column of numbers holds, by its unit."""
    return HOLDS.get(unit, "numbers")


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

    if isinstance(entry, datetime.time):
        seconds = (entry.hour * 60 + entry.minute) * 60 + entry.second
        return (seconds * 10**9 + entry.microsecond * 1000) / NANOSECONDS
    if getattr(entry, "tzinfo", None) is not None:
        entry = entry.astimezone(datetime.UTC).replace(tzinfo=None)
    kind = "m8" if isinstance(entry, datetime.timedelta | np.timedelta64) else "M8"
    return float(numbers_of(np.array([entry], dtype=kind))[0])


def unit_of(entry: Any) -> str:
    """What `number_of` counts, and whether it is a moment with a zone."""
    import numpy as np

    if isinstance(entry, datetime.timedelta | np.timedelta64):
        return SECONDS
    if isinstance(entry, datetime.time):
        return HOURS
    return DAYS + (ZONED if getattr(entry, "tzinfo", None) is not None else "")


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

"""What a column of text says: numbers and times as people write them, categories, or something doubtful.

Numbers may have thousands, a decimal comma, a currency or one unit; times are those of `clocks`. A column is
read so only if all of it can be, in one way. What looks like numbers and can be read in two ways, or not
throughout, is a doubt: it is refused with the remedy, and never taken for categories in silence.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kembed.core.text import listing
from kembed.data import clocks

# Of the different values of a column of numbers at most so many words, and at most this share, are strangers:
# more of them make it a column of words.
STRANGERS, STRANGE = 5, 0.2
CLASSES = 20  # so many different values may be classes, whatever they look like
GLIMPSE = 100  # so many values tell whether it is worth looking at all
# Signs of one meaning: minus signs of typesetters, and marks that nobody sees.
_SIGNS = str.maketrans("−﹣－–‒", "-----", "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
_SPACES = " '’_\u00a0\u2009\u202f"  # between thousands
_MONEY = "$¢£¤¥฿\u20a0-\u20cf"
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|RUB|SGD|HKD"
_BEFORE = rf"[A-Z]{{0,2}}[{_MONEY}]|(?:{_CODES})(?=[-+\s]|\d*[.,]\d)"  # $, US$, R$, EUR; CAD1 is a name
_LETTERS, _POWER = r"[^\W\d_²³¹¼½¾]{1,8}", r"(?:[²³]|\^-?[1-3]|-[1-3])"
_LOW = rf"[a-zµμ]{{1,8}}(?:{_POWER}|[1-3])?"  # m2; but Q1 and A1 are no units
_WORD = rf"(?:{_LOW}|{_LETTERS}{_POWER}?)\.?"
# Words with spaces between them are a unit if they are small (fl oz) or have powers (W m-2): streets are not.
_SEVERAL = rf"{_LOW}(?: {_LOW}){{1,2}}|{_LETTERS}(?: {_LETTERS}{_POWER}){{1,2}}"
_UNIT = rf"[%‰°]|{_SEVERAL}|[°µμ]? ?{_WORD}(?:[/·*]{_WORD}){{0,2}}"
_BODY = rf"\d(?:[\d.,{_SPACES}]*\d)?[.,]?|[.,]\d+"
_NUMBER = re.compile(
    rf"([-+]?)\s?((?:{_BEFORE})?)\s?([-+]?)\s?({_BODY})((?:[eE][-+]?\d+)?)\s?({_UNIT}|[{_MONEY}])?"
)
_NEGATIVE = re.compile(rf"^((?:{_BEFORE})?) ?\(([^-+()]+)\)(%?)$")  # (1,234), as accountants write -1,234
# A body under either decimal sign, and thousands by the other one or by spaces; in India 12,34,567.
_STYLES = {
    ".": re.compile(rf"(?:\d+|[1-9]\d{{0,2}}(?:[,{_SPACES}]\d{{3}})+|[1-9]\d?(?:,\d\d)+,\d{{3}})?(?:\.\d*)?"),
    ",": re.compile(rf"(?:\d+|[1-9]\d{{0,2}}(?:[.{_SPACES}]\d{{3}})+)?(?:,\d*)?"),
}
# Numbers with something to them that is no unit: why they are not read, and how they look.
_ANY = rf"[-+]?(?:{_BEFORE})?\s?(?:{_BODY})"
_ODD = {
    "bounds or guesses": re.compile(rf"[<>≤≥~≈±='\"]{{1,2}}\s?{_ANY}\s?(?:{_UNIT}|\")?"),
    "signs behind numbers": re.compile(rf"{_ANY}\s?[-*†‡]|[-+]?\d*[¼½¾]"),
    "several numbers a value": re.compile(
        rf"(?!(?:1[6-9]|20)\d\d/\d)(?:\d+ )?{_ANY}\s?[/±×(]\s?{_ANY}\)?|{_ANY}\s?[x×*·]\s?10\^?[-+]?\d+"
        r"|(?:\d+(?:[.,]\d+)?\s?(?:years?|yrs?|months?|mo|weeks?|wk|days?|d|hours?|hrs?|h|minutes?|min|m|"
        r"seconds?|sec|s|ft|in|lbs?|oz|st|kg|g|cm|['\"′″°])[\s,]*){2,}"
    ),
    "numbers in parentheses": re.compile(rf"\(\s?{_ANY}\s?\)"),
    "durations that have no length in seconds": re.compile(
        r"[-+]?P(?=\d|T\d)(?:[\d.,]+[YMWD])*(?:T(?:[\d.,]+[HMS])+)?(?<=[YMWDHS])"
    ),
    "times beyond those of a day": re.compile(r"\d+:[0-5]\d(?::[0-5]\d)?(?:\.\d+)?"),
}
_SIZES = {"", "k", "K", "M", "bn", "mio", "Mio"}  # thousands and millions
_STARTS = re.compile(
    rf"[-+({_MONEY}<>≤≥~≈±='\"]{{0,3}}\s?(?:{_BEFORE})?\s?[-+(]?\s?[.,]?\d"
    r"|[-+]?PT?-?\d|[-+]?inf|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d",
    re.I,
)
_INFINITE = re.compile(r"[-+]?inf(?:inity)?", re.I)
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_BARE = rf"[%‰°{_MONEY}]?"  # a unit that is no word
_TRUTH = {"true": 1.0, "false": 0.0}
_WRITE = "write plain numbers"


class Reading(NamedTuple):
    """The numbers that the values of a column stand for; without any, its values are words."""

    numbers: dict[str, float] | None = None
    note: str = ""  # how it was read, where that is not plain
    doubt: str = ""  # why it is no column of words, nor of numbers
    remedy: str = ""
    unit: str = ""  # of the numbers, if the text names one, and of times
    clock: str = ""  # the kind, where it holds times
    digits: bool = False  # nothing but digits, signs and points, which may also be codes


def read_words(values: Iterable[str], comma: str = "") -> Reading:
    """What the different values of a column say; `comma` is what a comma means where both would do.

    That is "decimal", "thousands", or nothing: then 1,234 is a doubt, unless another value tells.

    >>> read_words(["$1,200.5", "$950"]).numbers
    {'$1,200.5': 1200.5, '$950': 950.0}
    >>> read_words(["12,345", "67,890"]).doubt
    "commas could be thousands or decimals ('12,345')"
    >>> read_words(["red", "blue"]).numbers
    """
    words = {value: value.translate(_SIGNS).strip() for value in values}
    seen = list(words.values())
    if seen and all(word.lower() in _TRUTH for word in seen):
        truth = {value: _TRUTH[word.lower()] for value, word in words.items()}
        return Reading(truth, "read as true and false, 1 and 0")
    # Of the sorted values some at even distances: whose they are, and in which order, must not matter.
    glimpse = sorted(seen)[:: -(-len(seen) // GLIMPSE) or 1]
    if 2 * sum(bool(_STARTS.match(word)) for word in glimpse) < len(glimpse) or not seen:
        return Reading()
    for reader in (_clocks, _local_dates, _numbers):
        found = reader(words, comma)
        if found is not None:
            return found._replace(digits=all(map(_PLAIN.fullmatch, seen)))
    return Reading()


def _strangers(words: dict[str, str], known: Collection[str], what: str) -> Reading | None:
    """A doubt for a few values that do not fit the others, a note for many."""
    others = [word for word in words if word not in known]
    seen = f"{len(others):,} of its {len(words):,} different values are not {what} ({listing(others, 3)})"
    if len(known) < 2 or len(known) <= len(others):
        return None
    if len(others) > min(STRANGERS, STRANGE * len(words)):
        return Reading(note=f"is compared as text: {seen}")
    return Reading(doubt=seen, remedy="make them missing if that is what they mean")


def _clocks(words: dict[str, str], _: str) -> Reading | None:
    read = {value: clock for value, word in words.items() if (clock := clocks.read_clock(word))}
    kinds = {clock.kind for clock in read.values()}
    if len(read) < len(words):
        return _strangers(words, read, "dates or times")
    if clocks.looks_like_seasons(words.values()):
        return Reading(note=f"is compared as text: it holds seasons, not months ({listing(words, 2)})")
    kinds -= {"date"} if "moment" in kinds else set()
    if len(kinds) > 1:
        seen = "it mixes times with and without a zone" if "zoned" in kinds else "it mixes kinds of times"
        examples = listing({clock.kind: value for value, clock in read.items()}.values(), 2)
        return Reading(doubt=f"{seen} ({examples})", remedy="write all of them alike")
    (kind,) = kinds
    unit = {"time of day": clocks.HOURS, "duration": clocks.SECONDS}.get(kind, clocks.DAYS)
    numbers = {value: clock.number for value, clock in read.items()}
    return Reading(numbers, f"holds {_TIMES[kind]}, compared as {unit}", unit=unit, clock=kind)


_TIMES = {
    "date": "dates",
    "moment": "dates and times",
    "zoned": "dates and times with a zone",
    "time of day": "times of day",
    "duration": "durations",
}


def _local_dates(words: dict[str, str], _: str) -> Reading | None:
    if clocks.looks_short(words.values()):
        if len(words) <= CLASSES:
            seen = f"dates, if it holds any, have years of two digits ({next(iter(words))!r})"
            return Reading(note=f"is compared as text: {seen}")
        doubt = f"its dates have years of two digits ({next(iter(words))!r})"
        return Reading(doubt=doubt, remedy="write dates as 2020-12-31")
    local = {value: word for value, word in words.items() if clocks.looks_local(word)}
    if len(local) < len(words):
        return _strangers(words, local, "dates")
    read = clocks.read_local(words.values())
    if read is None:
        doubt = f"its dates do not tell days from months ({next(iter(words))!r})"
        return Reading(doubt=doubt, remedy="write dates as 2020-12-31")
    found = {value: read[word].number for value, word in words.items()}
    kind = "moment" if any(clock.kind == "moment" for clock in read.values()) else "date"
    day = sorted(words, key=lambda value: found[value])[-1]
    return Reading(
        found, f"holds {_TIMES[kind]} ({day!r}), compared as {clocks.DAYS}", unit=clocks.DAYS, clock=kind
    )


def _numbers(words: dict[str, str], comma: str) -> Reading | None:
    plainly = words
    if any("(" not in word for word in words.values()):  # else they are pairs, or names
        plainly = {value: _NEGATIVE.sub(r"-\1\2\3", word) for value, word in words.items()}
    parts = {value: found for value, word in plainly.items() if (found := _NUMBER.fullmatch(word))}
    infinite = {value: word for value, word in words.items() if _INFINITE.fullmatch(word)}
    if len(parts) + len(infinite) < len(words):
        plain = {value for value, found in parts.items() if re.fullmatch(_BARE, found[6] or "")} | {*infinite}
        return _odd_values(words, plain) or _strangers(words, plain, "numbers")
    units = {found[2] + (found[6] or "") for found in parts.values()}
    if not parts:
        return Reading({value: float(word) for value, word in infinite.items()}, "read as infinite numbers")
    if len(units) > 1:
        return _mixed_units(units, parts)
    bodies = {found[4] for found in parts.values()}
    fits = [sign for sign, style in _STYLES.items() if all(map(style.fullmatch, bodies))]
    commas = [body for body in bodies if "," in body]
    example = next((value for value in parts if "," in value), next(iter(parts)))
    if len(fits) == 2 and not commas:
        fits = ["."]
    elif len(fits) == 2:
        fits = {"decimal": [","], "thousands": ["."]}.get(comma, fits)
    if len(fits) == 2:
        doubt = f"commas could be thousands or decimals ({example!r})"
        return Reading(doubt=doubt, remedy=_WRITE)
    grouped = bool(fits == ["."] and commas)
    if not fits or (grouped and any(len(_head(body)) > 3 for body in bodies)):
        return _odd_bodies(bodies, parts)
    (sign,) = fits
    unit = units.pop()
    numbers = {value: _value(found, sign) for value, found in parts.items()}
    numbers |= {value: float(word) for value, word in infinite.items()}
    most = max(parts, key=lambda value: ("(" in value, len(value.strip())))
    how = f"read as numbers{f' in {unit}' if unit else ''}: {most!r} is {numbers[most]:.15g}"
    if any(re.match(r"0\d", body) for body in bodies):
        how = f"read as numbers though some begin with 0: {most!r} is {numbers[most]:.15g}"
    return Reading(numbers, how, unit=unit)


def _head(body: str) -> str:
    """The digits before the first sign of any kind."""
    return re.split(r"\D", body, maxsplit=1)[0]


def _value(found: re.Match[str], sign: str) -> float:
    digits = re.sub(rf"[{_SPACES}{',' if sign == '.' else '.'}]", "", found[4]).replace(",", ".")
    number = float(digits + found[5])
    return -number if "-" in found[1] + found[3] else number


def _mixed_units(units: set[str], parts: dict[str, re.Match[str]]) -> Reading | None:
    """Units that differ are a doubt where a space or a sign shows them to be units: 10A and 10B are seats."""
    apart = all(
        re.search(rf"\d\s\S|[%‰°{_MONEY}]", found[0]) for found in parts.values() if found[2] or found[6]
    )
    small = all(unit.islower() for unit in units)  # 1.5cm and 1.5m; but 9.5D and 9EE are shoes
    points = small and any(re.search(r"[.,]", found[4]) for found in parts.values())
    apart = apart or units <= _SIZES or points
    if len(units) > STRANGERS or not apart or any(" " in unit for unit in units):
        return None
    by_unit = {found[2] + (found[6] or ""): value for value, found in parts.items()}
    return Reading(doubt=f"it mixes units ({listing(by_unit.values(), 3)})", remedy=f"{_WRITE} in one unit")


def _odd_values(words: dict[str, str], plain: Collection[str]) -> Reading | None:
    """Numbers with signs or more numbers beside them: a doubt, or a note if so few could be classes."""
    for what, pattern in _ODD.items():
        odd = [value for value, word in words.items() if value not in plain and pattern.fullmatch(word)]
        if odd and len(odd) + len(plain) == len(words):
            seen = f"it holds {what} ({listing(odd, 2)})"
            if len(words) > CLASSES or len(plain) > max(len(odd), STRANGERS):
                return Reading(doubt=seen, remedy=_WRITE)
            return Reading(note=f"is compared as text: {seen}")
    return None


def _odd_bodies(bodies: set[str], parts: dict[str, re.Match[str]]) -> Reading | None:
    """Numbers whose signs agree on no style: a doubt if most would be plain numbers."""
    fits = [sum(bool(style.fullmatch(body)) for body in bodies) for style in _STYLES.values()]
    either = sum(any(style.fullmatch(body) for style in _STYLES.values()) for body in bodies)
    if either < (1.0 - STRANGE) * len(bodies):
        return None
    style = list(_STYLES.values())[fits.index(max(fits))]
    odd = [value for value, found in parts.items() if not style.fullmatch(found[4])]
    odd = odd or sorted(parts, key=lambda value: -len(_head(parts[value][4])))[:1]
    others = [value for value in parts if value not in odd]
    usual = next((value for value in others if "," in value), others[0])
    return Reading(
        doubt=f"it writes numbers in more than one way ({listing([usual, odd[0]])})", remedy=_WRITE
    )

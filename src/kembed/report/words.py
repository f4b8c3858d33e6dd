"""Numbers and names in words: what a person reads, and what cannot harm a page."""

import unicodedata
from typing import Any

from markupsafe import Markup

from kembed.comparing.summaries import ColumnSummary, beside
from kembed.core.text import plain, shortened
from kembed.tables import times
from kembed.testing.outcome import TestOutcome

SHORT = 48  # letters of a name that fit into a line of text
COMMAS = 10_000  # smaller numbers are read without them, and years must be
MINUS = "\N{MINUS SIGN}"
# Bidirectional classes of characters that turn the reading direction of what follows.
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
# What an AUC below each of these says; the steps are ours, the second is where the verdict says "hardly".
AUCS = (
    (0.5, "no better than guessing; below 0.5 is chance"),
    (0.55, "single rows can barely be classified"),
    (0.65, "single rows can be classified a little better than by guessing"),
    (0.8, "single rows can often be classified"),
    (0.95, "most single rows can be classified"),
    (float("inf"), "nearly all single rows can be classified"),
)


def clean(text: str) -> str:
    r"""Text without characters that a page may not hold, or that turn the reading direction of what follows.

    >>> clean("two\nlines\x00 \u202egnp")
    'two lines� gnp'
    """
    if text.isascii() and text.isprintable():
        return text
    found = []
    for letter in text:
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Cs"):
            found.append(" " if kind == "Cc" and letter.isspace() else "\N{REPLACEMENT CHARACTER}")
        elif unicodedata.bidirectional(letter) not in TURNS:
            found.append(letter)
    return "".join(found)


def short(name: Any, width: int = SHORT) -> str:
    """A name cut in the middle where it is long.

    >>> short("measurement_of_the_left_side_sd", 16), short(" ")
    ('measuremen…de_sd', '(no name)')
    """
    return shortened(clean(str(name)).strip() or "(no name)", width)


def number(value: float, digits: int = 4) -> str:
    """So many digits that count, without powers of ten where people need none; years have no comma.

    >>> number(2008.0), number(-0.012345, 3), number(123456.7), number(3.2e-9), number(0.0)
    ('2008', '−0.0123', '123,457', '3.2e−09', '0')
    """
    return plain(value, digits, thousands=abs(value) >= COMMAS, minus=MINUS)


def of_unit(value: float, unit: str, digits: int = 4, step: float = 1.0) -> str:
    """A number of a column; a date where it counts days, with the time of day where a step is shorter.

    >>> of_unit(18262.4, times.DAYS), of_unit(18262.4, "")
    ('2020-01-01', '18,262')
    """
    return times.shown(value, unit, step=step) if unit == times.DAYS else number(value, digits)


def p_value(p: float) -> str:
    """A p-value to three places, so that a table of them lines up.

    >>> p_value(0.0432), p_value(0.0001), p_value(1.0)
    ('0.043', '< 0.001', '1.000')
    """
    return "< 0.001" if p < 0.0005 else f"{p:.3f}"


def percent(share: float) -> str:
    """A share in whole percent, or in tenths where it is small.

    >>> percent(0.987), percent(0.004), percent(0.0001)
    ('99%', '0.4%', '0%')
    """
    return f"{share:.1%}" if 0.0005 <= share < 0.0095 else f"{share:.0%}"


def of_p(test: TestOutcome) -> str:
    """What the p-value says, for a reader who never met one."""
    drawn = len(test.null_distribution)
    if test.enumerated:
        ways = f"of all {drawn:,} ways to share out the rows, {percent(test.pvalue)}"
        return f"If both came from one source: {ways} give a difference at least as large as this one."
    often = f"{plain(100.0 * test.pvalue, 2)}% of the time"
    said = f"If both came from one source, a difference at least this large would appear {often}."
    least = drawn and test.pvalue * (drawn + 1) < 1.5
    return f"{said} This is the smallest value that {drawn:,} resamples can give." if least else said


def of_auc(auc: float) -> str:
    """What an AUC says of single rows."""
    return next(said for below, said in AUCS if auc < below)


def of_mean(column: ColumnSummary, side: int) -> str:
    """The mean of a column in one sample, with the digits that tell it from the other.

    >>> years = ColumnSummary("year", False, 1.0, 1.0, 0.0, {"mean": 2008.06}, {"mean": 2007.97}, "")
    >>> of_mean(years, 0), of_mean(years, 1)
    ('2008.06', '2007.97')
    """
    own, other = (values["mean"] for values in ((column.x, column.y), (column.y, column.x))[side])
    if column.unit == times.DAYS:
        return of_unit(own, column.unit, step=column.x["sd"] + column.y["sd"])
    usual = number(own)
    return usual if usual != number(other) else beside(own, abs(own - other)).replace("-", MINUS)


def of_difference(column: ColumnSummary) -> Markup | str:
    """The largest difference of a column's distribution functions (or shares), with its interval.

    >>> from kembed.comparing.column_effects import ColumnEffect
    >>> effect = ColumnEffect(0.26, (0.12, 0.4), -0.5, (-0.75, -0.25))
    >>> age = ColumnSummary("age", False, 1.0, 1.0, 0.0, {}, {}, "", standardised=-0.5, effect=effect)
    >>> of_difference(age), of_shift(age)
    (Markup('26% <small>12–40</small>'), Markup('−0.50 <small>−0.75 to −0.25</small>'))
    """
    if column.effect is None:
        return "–"
    value, low, high = (
        100.0 * each for each in (column.effect.difference, *column.effect.difference_interval)
    )
    digits = 0 if high - low > 5.0 else 1
    return Markup(f"{value:.{digits}f}% <small>{low:.{digits}f}–{high:.{digits}f}</small>")


def of_shift(column: ColumnSummary) -> Markup | str:
    """The difference of means in standard deviations, with its interval; a dash for categories."""
    if column.effect is None or column.effect.shift is None or column.effect.shift_interval is None:
        return "–"
    # Numbers are rounded first, so that none is −0.00.
    value, low, high = (round(each, 2) + 0.0 for each in (column.effect.shift, *column.effect.shift_interval))
    return Markup(f"{value:+.2f} <small>{low:.2f} to {high:.2f}</small>".replace("-", MINUS))


def of_range(name: str, span: tuple[Any, ...], unit: str = "") -> tuple[str, str]:
    """A column and the part of it that a region covers; days are reported as dates.

    >>> of_range("height", (1.5, 1.9)), of_range("town", ("Aix", "Bonn"))
    (('height', '1.5 to 1.9'), ('town', 'Aix or Bonn'))
    """
    if isinstance(span[0], float):
        low, high = (of_unit(one, unit, 3) for one in span)
        return short(name), low if low == high else f"{low} to {high}"
    shown = [short(level, 24) for level in span[:3]]
    *most, last = [*shown, f"{len(span) - 3} more"] if len(span) > 3 else shown
    return short(name), f"{', '.join(most)} or {last}" if most else last

"""Numbers, names and counts as people write them: one formatter for figures, pages, tables and errors."""

import math
from collections.abc import Iterable, Sequence

STANDARD_INPUT = "-"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")  # exponents


def plain(
    value: float, digits: int = 4, *, thousands: bool = False, minus: str = "-", powers: bool = False
) -> str:
    """So many digits that count, without powers of ten where people need none.

    `thousands` puts commas into large numbers; `minus` is the sign of negative ones; `powers`, for the ticks
    and labels of figures, writes 1.5×10⁻⁷ below 10⁻³ and from 10⁶ on, and rounds whole numbers too.

    >>> plain(47012.3), plain(1116.0), plain(0.0123456), plain(-2.0), plain(3.2e-9), plain(0.0)
    ('47012', '1116', '0.01235', '-2', '3.2e-09', '0')
    >>> plain(123456.7, thousands=True), plain(-0.012345, 3, minus="−")
    ('123,457', '−0.0123')
    >>> [plain(value, 3, thousands=True, minus="−", powers=True) for value in (12689.7, -1.5e-07, 2e12, 1e-9)]
    ['12,700', '−1.5×10⁻⁷', '2×10¹²', '10⁻⁹']
    """
    if powers:
        value = float(f"{value:.{digits}g}")
    size = abs(value)
    least, most = (1e-3, 1e6) if powers else (1e-4, 1e7)
    if value == 0.0:
        text = "0"
    elif least <= size < most:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:{',' if thousands else ''}.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    elif powers and math.isfinite(value):
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        raised = f"10{str(int(power)).translate(RAISED)}"
        text = raised if float(mantissa) == 1.0 else f"{float(mantissa):g}×{raised}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", minus)


def shortened(text: str, width: int) -> str:
    """A name cut in the middle where it is longer than `width`.

    >>> shortened("measurement_of_the_left_side_sd", 16), shortened("height", 16)
    ('measuremen…de_sd', 'height')
    """
    if len(text) <= width:
        return text
    head = (2 * width) // 3
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"


def printable(text: str) -> str:
    r"""Text without characters that would move the cursor.

    >>> printable("height"), printable("two\nlines")
    ('height', 'two\\nlines')
    """
    return text if text.isprintable() else repr(text)[1:-1]


def label(source: object) -> str:
    """What to call a file in a sentence; safe to print."""
    return "standard input" if str(source) == STANDARD_INPUT else printable(str(source))


def visible(text: str) -> str:
    r"""One line in which every character can be seen: those that command a terminal are spelled out.

    >>> visible("red \x1b[31m\n and more\x7f")
    'red \\x1b[31m and more\\x7f'
    """
    return " ".join("".join(c if c.isprintable() or c.isspace() else repr(c)[1:-1] for c in text).split())


def listing(names: Iterable[str], most: int = 8) -> str:
    """A few names in quotes, and how many more.

    >>> listing("ab"), listing("abcd", 2)
    ("'a', 'b'", "'a', 'b' and 2 more")
    """
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def rows(count: int) -> str:
    """A number of rows.

    >>> rows(1), rows(2500)
    ('1 row', '2,500 rows')
    """
    return counted(count, "row")


def counted(count: int, noun: str) -> str:
    """So many of something."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table of text: the first column set left, numbers set right.

    >>> aligned([["", "n"], ["age", "12"], ["site", "4"]])
    ['       n', 'age   12', 'site   4']
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in table
    ]

"""Which columns can be compared, and telling what is left out and what looks wrong."""

from __future__ import annotations

from functools import reduce
from math import isfinite
from operator import and_
from typing import TYPE_CHECKING

from kembed.cli.options import Reading, split
from kembed.cli.screen import Screen
from kembed.cli.words import readable
from kembed.core.text import listing
from kembed.data.files import UNNAMED, InputError, checked, comma_of, label, nameless, picked

if TYPE_CHECKING:
    import polars as pl

# Fewer values than these may all differ by chance.
MANY_LABELS = 10
# What R, its dataset archives and pandas call the row numbers that they write beside a table.
ROW_NUMBERS = (UNNAMED, "Unnamed: ", "rownames")
# Why a column is left out, said of several.
PLURALS = {
    "it numbers": "they number",
    "it holds": "they hold",
    "it is": "they are",
    "has it": "has them",
    "it does": "they do",
    "it has": "they have",
    "and numbers": "and number",
}


COMPARED = ("numbers", "text", "dates", "times of day", "durations")


def _kind(series: pl.Series) -> str:
    import polars as pl

    if not _present(series):
        return "nothing"
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return "numbers"
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    times = {pl.Date: "dates", pl.Datetime: "dates", pl.Time: "times of day", pl.Duration: "durations"}
    return times.get(series.dtype.base_type(), "nested or binary values")


def _present(series: pl.Series) -> int:
    """How many entries are there: neither null nor NaN."""
    if not series.dtype.is_float():
        return len(series) - series.null_count()
    return int(nameless(series).is_not_nan().sum())  # of nulls that is null, which no sum counts


def why_unfit(parts: list[pl.Series], named: bool) -> str:
    """Why a column is not compared; empty if it is. What was asked for by name is, if it can be."""
    kinds = [_kind(part) for part in parts]
    if "nothing" in kinds:
        return "it is empty" if set(kinds) == {"nothing"} else "it is empty in one of them"
    for kind in kinds:
        if kind not in COMPARED:
            return f"it holds {kind}, which kembed does not compare"
    if named:
        return ""
    if set(kinds) == {"text"}:
        every = sum(map(len, parts)) >= MANY_LABELS and all(
            nameless(part).is_unique().all() for part in parts
        )
        return "every value is different, as in an identifier" if every else ""
    return ""


def row_numbers(frame: pl.DataFrame) -> dict[str, str]:
    """The columns that programs add to number the rows of a table, and that nobody named."""
    found = [one.name for one in frame if one.name.startswith(ROW_NUMBERS) and _counts_up(one)]
    return dict.fromkeys(found, "it has no name and numbers the rows")


def why_unvaried(frame: pl.DataFrame, named: bool, numeric: bool = False) -> dict[str, str]:
    """The columns that tell nothing by themselves, and why."""
    left_out = {} if named else row_numbers(frame)
    for series in frame:
        why = left_out.get(series.name) or why_unfit([series], named)
        if not why and numeric and _kind(series) == "text":
            why = "it holds text"
        if why or nameless(series).drop_nulls().n_unique() == 1:
            left_out[series.name] = why or "it does not vary"
    return left_out


def _counts_up(series: pl.Series) -> bool:
    series = nameless(series)
    whole = series.dtype.is_integer() and not series.null_count()
    return whole and series[0] in (0, 1) and bool((series.diff().drop_nulls() == 1).all())


def refuse_mixed(column: str, x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, ...]) -> None:
    """Refuse a column that is text in one and numbers in the other, or dates and numbers."""
    kinds = _kind(x[column]), _kind(y[column])
    if len(set(kinds)) > 1:
        where = f"{kinds[0]} in {labels[0]} but {kinds[1]} in {labels[1]}"
        remedy = "write it alike in both, or leave it out by --columns"
        raise InputError(f"column {column!r} holds {where}; {remedy}")


def understand(
    frames: list[pl.DataFrame],
    sources: list[str],
    used: list[str],
    reading: Reading,
    screen: Screen,
    text: list[str] | None = None,
) -> list[pl.DataFrame]:
    """The tables with their text read, and told how; what only looks like numbers is refused.

    Columns in `text` are text whatever they look like, as those of `--as-text`.
    """
    from kembed.data.meaning import understood_frames

    present = list(dict.fromkeys(name for frame in frames for name in frame.columns))
    text = [*checked(split(reading.as_text) or (), present, label(sources[0])), *(text or ())]
    comma = "decimal" if reading.decimal_comma else min(comma_of(one, reading.delimiter) for one in sources)
    found = understood_frames([picked(frame, used) for frame in frames], comma=comma, text=text)
    for column, (doubt, remedy) in found.doubts.items():
        decimal = "use --decimal-comma if they are decimals, " if doubt.startswith("commas") else ""
        keep = "compare it as text with --as-text, or leave it out by --columns"
        raise InputError(
            readable(
                ValueError(f"column {column!r} looks like numbers, but {doubt}; {decimal}{remedy}, {keep}")
            )
        )
    for column, note in found.notes.items():
        screen.note(f"column {column!r} {note}")
    return found.frames


def check_complete(frame: pl.DataFrame, name: str, reading: Reading, screen: Screen) -> pl.DataFrame:
    """Refuse missing values and name the columns they are in, or tell how many rows are left out."""
    gaps = {series.name: missing for series in frame if (missing := len(series) - _present(series))}
    if not gaps:
        return frame
    of = f"{frame.height - without_gaps(frame).height:,} of {frame.height:,} rows"
    if reading.missing == "omit":
        screen.note(f"{of} of {name} have missing values and are left out")
        return frame
    worst = sorted(gaps, key=lambda column: -gaps[column])
    seen = ", ".join(f"{column!r}: {gaps[column]:,}" for column in worst[:3])
    more = f" and {len(worst) - 3} more columns" if len(worst) > 3 else ""
    other = "name other columns" if screen.arguments[0] == "independence" else "choose columns with --columns"
    remedy = f"leave those rows out with --missing omit, or {other}"
    raise InputError(f"{name} has missing values in {of} ({seen}{more}); {remedy}")


def without_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows without missing values."""
    return frame.filter(reduce(and_, map(_is_present, frame)))


def _is_present(series: pl.Series) -> pl.Series:
    series = nameless(series)
    there = series.is_not_null()
    return there & series.is_not_nan().fill_null(False) if series.dtype.is_float() else there


def tell_left_out(left_out: dict[str, str], screen: Screen) -> None:
    """Say which columns were left out, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for column, why in left_out.items():
        reasons.setdefault(why, []).append(column)
    for why, columns in reasons.items():
        for one, several in PLURALS.items() if len(columns) > 1 else ():
            why = why.replace(one, several)
        screen.note(f"column{'s' if len(columns) > 1 else ''} {listing(columns)} left out: {why}")


def is_number(name: str) -> bool:
    """Whether the name of a column reads as a number.

    >>> is_number("5.1"), is_number("height"), is_number("inf"), is_number("2020-12")
    (True, False, False, False)
    """
    from kembed.data.numerals import read_words

    found = read_words([name])
    numbers = {} if found.clock else found.numbers or {}  # 2020-12 is a good name
    return any(map(isfinite, numbers.values()))  # inf is short for inflation


def tell_counting(frame: pl.DataFrame, left_out: dict[str, str], screen: Screen) -> None:
    """Columns of numbers that look like row numbers or identifiers; tests tell of theirs themselves."""
    import polars as pl

    from kembed.data.clocks import DAYS
    from kembed.data.remarks import FEW, counting

    for series in frame:
        if series.name not in left_out and _kind(series) != "text" and frame.height >= FEW:
            whole, unit = (
                nameless(series).filter(_is_present(series)),
                DAYS if series.dtype == pl.Date else "",
            )
            what = counting([whole.cast(float).to_numpy()], unit) if len(whole) == frame.height else ""
            if what:
                screen.note(f"column {series.name!r} {what}; leave it out by --columns if that is what it is")


def tell_text(parts: list[pl.DataFrame], screen: Screen) -> None:
    """Text with nearly as many values as rows."""
    for column in parts[0].columns:
        series = [part[column] for part in parts]
        if {_kind(each) for each in series} != {"text"}:
            continue
        entries = [value for each in series for value in nameless(each).drop_nulls().to_list()]
        if len(entries) >= 2 * MANY_LABELS and 2 * len(set(entries)) > len(entries):
            screen.note(
                f"column {column!r} is text with {len(set(entries)):,} different values in {len(entries):,} "
                "rows, compared as equal or not; consider leaving it out by --columns"
            )

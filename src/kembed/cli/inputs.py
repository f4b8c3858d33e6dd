"""From what stands on the command line to tables: two samples that match, or the columns of one.

Columns that cannot be compared are left out and told, unless they were asked for by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.cli.options import Grouping, Reading, split
from kembed.cli.words import short
from kembed.core.text import listing
from kembed.data.files import STANDARD_INPUT, InputError, checked, doubts, label, read_table

if TYPE_CHECKING:
    import polars as pl

    from kembed.cli.screen import Screen

# Fewer values than these may all differ by chance, or count up by chance.
MANY_LABELS, MANY_NUMBERS = 10, 5


@dataclass(frozen=True)
class Pair:
    """Two samples with the same columns, and what they are called."""

    x: pl.DataFrame
    y: pl.DataFrame
    labels: tuple[str, str]
    left_out: dict[str, str]  # columns, and why

    @property
    def names(self) -> tuple[str, str]:
        """The labels without folders, where that tells them apart."""
        first, second = (short(label, self.labels) for label in self.labels)
        return first, second

    @property
    def columns(self) -> list[str]:
        """The columns compared."""
        return self.x.columns


def load(source: str, reading: Reading, screen: Screen) -> pl.DataFrame:
    """The whole table of one file."""
    import sys

    if source == STANDARD_INPUT and sys.stdin.isatty():
        screen.note("reading CSV from the keyboard; end with Ctrl-D")
    return read_table(
        source,
        delimiter=reading.delimiter,
        header=not reading.no_header,
        missing=split(reading.na) or (),
        decimal_comma=reading.decimal_comma,
    )


def load_pair(a: str, b: str | None, reading: Grouping, screen: Screen) -> Pair:
    """Two samples: two files, or two groups of one."""
    if reading.group is not None:
        if b is not None:
            raise InputError(f"--group splits one file, but two were given; leave out {label(b)}")
        x, y, labels = _groups(load(a, reading, screen), a, reading, screen)
    else:
        if b is None:
            raise InputError("one file was given; give a second, or --group COLUMN to split the first")
        if reading.groups is not None:
            raise InputError("--groups chooses values of a column; name the column with --group")
        if a == b == STANDARD_INPUT:
            raise InputError("both samples are '-', but there is one standard input; give a file for one")
        if STANDARD_INPUT not in (a, b) and _same_file(a, b):
            screen.note(f"{label(a)} and {label(b)} are the same file, so they cannot differ")
        x, y = load(a, reading, screen), load(b, reading, screen)
        labels = (label(a), label(b))
    return _matched(x, y, labels, split(reading.columns), reading, screen)


def load_columns(source: str, wanted: list[str], reading: Reading, screen: Screen) -> pl.DataFrame:
    """These columns of one file, checked as in a comparison."""
    name = label(source)
    frame = load(source, reading, screen)
    frame = frame.select(checked(wanted, frame.columns, name))
    _tell_text({name: frame}, screen)
    return _complete(frame, name, reading.missing, screen)


def load_numbers(source: str, reading: Reading, screen: Screen) -> pl.DataFrame:
    """The numeric columns of one file that vary."""
    name, wanted = label(source), split(reading.columns)
    frame = load(source, reading, screen)
    if wanted is not None:
        frame = frame.select(checked(wanted, frame.columns, name))
    left_out = {}
    for series in frame:
        why = _unfit([series], named=wanted is not None)
        if not why and _kind(series) != "numbers":
            why = "it holds text"
        if not why and series.drop_nulls().n_unique() == 1:
            why = "it does not vary"
        if why:
            left_out[series.name] = why
    _tell_text({name: frame}, screen, rare=False)
    _tell_left_out(left_out, screen)
    if len(left_out) == frame.width:
        raise InputError(f"{name} has no column of numbers that vary; it has {listing(frame.columns)}")
    return _complete(frame.drop(left_out), name, reading.missing, screen)


def load_variables(
    source: str, time: str | None, reading: Reading, screen: Screen
) -> tuple[pl.DataFrame, pl.Series | None, dict[str, str]]:
    """The columns of one file that vary, the times of its rows, and columns left out with the reasons."""
    name, wanted = label(source), split(reading.columns)
    frame = load(source, reading, screen)
    if time is not None:
        checked([time], frame.columns, name)
        if wanted is not None and time in wanted:
            raise InputError(f"column {time!r} is the time and no variable; leave it out of --columns")
    chosen = frame.drop([] if time is None else [time])
    if wanted is not None:
        chosen = frame.select(checked(wanted, frame.columns, name))
    left_out = {}
    for series in chosen:
        why = _unfit([series], named=wanted is not None)
        if not why and series.drop_nulls().n_unique() == 1:
            why = "it does not vary"
        if why and wanted is not None:
            raise InputError(f"column {series.name!r} cannot be used: {why}; leave it out of --columns")
        if why:
            left_out[series.name] = why
    _tell_left_out(left_out, screen)
    variables = [column for column in chosen.columns if column not in left_out]
    if len(variables) < 2:
        raise InputError(
            f"a graph needs two columns that vary, but {name} has {listing(variables) or 'none'}; "
            "name columns with --columns to use what was left out"
        )
    _tell_text({name: frame.select(variables)}, screen)
    frame = frame.select([*variables, *([] if time is None else [time])])
    frame = _without_gaps(_complete(frame, name, reading.missing, screen))
    return frame.select(variables), None if time is None else frame[time], left_out


# Two samples.


def _same_file(a: str, b: str) -> bool:
    try:
        return Path(a).samefile(b)
    except OSError:
        return False


def _groups(
    frame: pl.DataFrame, source: str, reading: Grouping, screen: Screen
) -> tuple[pl.DataFrame, pl.DataFrame, tuple[str, str]]:
    """The rows with each of two values of a column, without that column."""
    import polars as pl

    name, column = label(source), str(reading.group)
    wanted = checked(split(reading.columns) or [], frame.columns, name)
    checked([column], frame.columns, name)
    if column in wanted:
        raise InputError(f"column {column!r} makes the groups and is not compared; leave it out of --columns")
    values = frame[column].cast(pl.String)
    if frame[column].dtype.is_float():
        values = values.str.replace(r"\.0$", "")  # 19.0 is called 19
    present = values.drop_nulls().unique().sort().to_list()
    if frame[column].dtype.is_numeric():
        present.sort(key=float)
    chosen = split(reading.groups) or present
    for value in chosen:
        if value not in present:
            raise InputError(f"column {column!r} of {name} has no value {value!r}; it has {listing(present)}")
    if len(set(chosen)) != 2:
        if reading.groups is not None:
            raise InputError(
                f"--groups takes two different values, as in a,b, but {reading.groups!r} was given"
            )
        seen = f"{len(present)} values ({listing(present)})" if len(present) > 1 else "a single value"
        remedy = "choose two with --groups a,b" if len(present) > 2 else "give a column with two"
        raise InputError(f"column {column!r} of {name} has {seen}; {remedy}")
    if values.null_count():
        screen.note(f"{values.null_count():,} rows of {name} have no {column!r} and are left out")
    x, y = (frame.filter(values == value).drop(column) for value in chosen)
    return x, y, (f"{column}={chosen[0]}", f"{column}={chosen[1]}")


def _matched(
    x: pl.DataFrame,
    y: pl.DataFrame,
    labels: tuple[str, str],
    wanted: list[str] | None,
    reading: Reading,
    screen: Screen,
) -> Pair:
    """The columns that both have and that can be compared."""
    if wanted is not None:
        for frame, name in zip((x, y), labels, strict=True):
            checked(wanted, frame.columns, name)
    common = wanted or [column for column in x.columns if column in y.columns]
    if not common:
        raise _nothing_in_common(x, y, labels)
    left_out = {
        column: f"only {name} has it"
        for mine, yours, name in ((x, y, labels[0]), (y, x, labels[1]))
        for column in mine.columns
        if wanted is None and column not in yours.columns
    }
    for column in common:
        why = _unfit([x[column], y[column]], named=wanted is not None)
        if why and wanted is not None:
            raise InputError(f"column {column!r} cannot be compared: {why}; leave it out of --columns")
        if why:
            left_out[column] = why
        else:
            _refuse_mixed(column, x, y, labels)
    _tell_left_out(left_out, screen)
    kept = [column for column in common if column not in left_out]
    if not kept:
        raise InputError(
            f"{labels[0]} and {labels[1]} share no column that can be compared ({common[0]!r}: "
            f"{left_out[common[0]]}); name columns with --columns to compare them all the same"
        )
    x, y = x.select(kept), y.select(kept)
    _tell_text({labels[0]: x, labels[1]: y}, screen)
    return Pair(
        _complete(x, labels[0], reading.missing, screen),
        _complete(y, labels[1], reading.missing, screen),
        labels,
        left_out,
    )


def _nothing_in_common(x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, str]) -> InputError:
    folded = {column.casefold(): column for column in y.columns}
    pairs = [(column, folded[column.casefold()]) for column in x.columns if column.casefold() in folded]
    numbers = all(column.isdigit() for column in [*x.columns, *y.columns])
    if pairs:
        remedy = f"capitals matter ({pairs[0][0]!r} and {pairs[0][1]!r}), so rename them"
    elif numbers:
        remedy = "if the first lines are data and not names, use --no-header"
    else:
        remedy = "rename columns until the names agree"
    return InputError(
        f"{labels[0]} and {labels[1]} have no column in common ({labels[0]}: {listing(x.columns)}; "
        f"{labels[1]}: {listing(y.columns)}); {remedy}"
    )


# Columns.


def _kind(series: pl.Series) -> str:
    import polars as pl

    if not _present(series):
        return "nothing"
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return "numbers"
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "dates or times" if series.dtype.is_temporal() else "nested or binary values"


def _present(series: pl.Series) -> int:
    """How many entries are there: neither null nor NaN."""
    return int(series.count()) - (int(series.is_nan().sum()) if series.dtype.is_float() else 0)


def _unfit(parts: list[pl.Series], named: bool) -> str:
    """Why a column is not compared; empty if it is. What was asked for by name is, if it can be."""
    kinds = [_kind(part) for part in parts]
    if "nothing" in kinds:
        return "it is empty" if set(kinds) == {"nothing"} else "it is empty in one of them"
    for kind in kinds:
        if kind not in ("numbers", "text"):
            return f"it holds {kind}, which kembed does not compare"
    if named:
        return ""
    if set(kinds) == {"text"}:
        every = sum(map(len, parts)) >= MANY_LABELS and all(part.is_unique().all() for part in parts)
        return "every value is different, as in an identifier" if every else ""
    if set(kinds) == {"numbers"} and all(map(_counts_up, parts)):
        return "it numbers the rows"
    return ""


def _counts_up(series: pl.Series) -> bool:
    if not series.dtype.is_integer() or series.null_count() or len(series) < MANY_NUMBERS:
        return False
    return bool((series.diff().drop_nulls() == 1).all())


def _refuse_mixed(column: str, x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, str]) -> None:
    kinds = _kind(x[column]), _kind(y[column])
    if kinds[0] == kinds[1]:
        return
    texts, numbers = (kinds.index(kind) for kind in ("text", "numbers"))
    why = doubts((x, y)[texts].select(column)).get(column)
    remedy = f"in {labels[texts]} it {why}" if why else "write it alike in both, or leave it out by --columns"
    raise InputError(
        f"column {column!r} holds numbers in {labels[numbers]} but text in {labels[texts]}; {remedy}"
    )


def _complete(frame: pl.DataFrame, name: str, policy: str, screen: Screen) -> pl.DataFrame:
    """Refuse missing values and name the columns they are in, or tell how many rows are left out."""
    gaps = {series.name: len(series) - _present(series) for series in frame}
    if not any(gaps.values()):
        return frame
    rows = frame.height - _without_gaps(frame).height
    of = f"{rows:,} of {frame.height:,} rows"
    if policy == "omit":
        screen.note(f"{of} of {name} have missing values and are left out")
        return frame
    worst = sorted((column for column in gaps if gaps[column]), key=lambda column: -gaps[column])
    seen = ", ".join(f"{column!r}: {gaps[column]:,}" for column in worst[:3])
    more = f" and {len(worst) - 3} more columns" if len(worst) > 3 else ""
    raise InputError(
        f"{name} has missing values in {of} ({seen}{more}); leave those rows out with --missing omit, or "
        "choose columns with --columns"
    )


def _without_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows without missing values."""
    import polars as pl

    floats = [series.name for series in frame if series.dtype.is_float()]
    return frame.with_columns(pl.col(floats).fill_nan(None)).drop_nulls()


# Telling.


def _tell_left_out(left_out: dict[str, str], screen: Screen) -> None:
    reasons: dict[str, list[str]] = {}
    for column, why in left_out.items():
        reasons.setdefault(why, []).append(column)
    for why, columns in reasons.items():
        several = why.replace("it numbers", "they number").replace("it holds", "they hold")
        several = (
            several.replace("it is", "they are").replace("has it", "has them").replace("it does", "they do")
        )
        plural = len(columns) > 1
        screen.note(
            f"column{'s' if plural else ''} {listing(columns)} left out: {several if plural else why}"
        )


def _tell_text(frames: dict[str, pl.DataFrame], screen: Screen, rare: bool = True) -> None:
    """Text that looks like numbers, and text with nearly as many values as rows."""
    for name, frame in frames.items():
        for column, why in doubts(frame).items():
            screen.note(f"column {column!r} of {name} {why}")
    parts: list[Any] = list(frames.values())
    for column in parts[0].columns if rare else ():
        series = [part[column] for part in parts]
        if {_kind(each) for each in series} != {"text"}:
            continue
        entries = [value for each in series for value in each.drop_nulls().to_list()]
        if len(entries) >= 2 * MANY_LABELS and 2 * len(set(entries)) > len(entries):
            screen.note(
                f"column {column!r} is text with {len(set(entries)):,} different values in {len(entries):,} "
                "rows, compared as equal or not; consider leaving it out by --columns"
            )

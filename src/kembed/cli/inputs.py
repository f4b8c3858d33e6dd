"""From what stands on the command line to tables: two samples that match, or the columns of one.

Columns that cannot be compared are left out and told, unless they were asked for by name.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from os.path import exists, samefile
from typing import TYPE_CHECKING, Any

from kembed.cli import columns, words
from kembed.cli.options import Grouping, Reading, split
from kembed.cli.screen import Screen
from kembed.core.text import listing
from kembed.core.writing import is_packed
from kembed.data.files import STANDARD_INPUT, InputError, checked, label, read_table

if TYPE_CHECKING:
    import polars as pl

    from kembed.data.columns import Labelled


@dataclass(frozen=True)
class Loaded:
    """One sample, or two with the same columns, and what they are called."""

    frames: tuple[pl.DataFrame, ...]
    labels: tuple[str, ...]
    left_out: dict[str, str]  # columns, and why
    given: tuple[int, ...]  # rows before any were left out

    @property
    def frame(self) -> pl.DataFrame:
        """The first sample."""
        return self.frames[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The labels without folders, where that tells them apart."""
        return tuple(words.short(label, self.labels) for label in self.labels)

    @property
    def labelled(self) -> tuple[Labelled, ...]:
        """The samples as the library reads them: its errors name the files."""
        from kembed.data.columns import Labelled

        return tuple(Labelled(frame, name) for frame, name in zip(self.frames, self.labels, strict=True))

    def facts(self, sizes: tuple[int, ...]) -> list[tuple[str, str]]:
        """The samples with the rows that were used, and the columns."""
        each = zip(self.names, sizes, self.given, strict=True)
        rows = [(name, f"{'' if n == all_ else f'{n:,} of '}{all_:,} rows") for name, n, all_ in each]
        return [*rows, ("columns", words.of_columns(self.frame.columns))]

    def described(self, sizes: tuple[int, ...]) -> dict[str, Any]:
        """The same for machines."""
        each = zip(self.labels, sizes, self.given, strict=True)
        return {
            "samples": [{"name": name, "rows": given, "used": used} for name, used, given in each],
            "columns": self.frame.columns,
            "left_out": self.left_out,
        }


def load(source: str, reading: Reading, screen: Screen) -> pl.DataFrame:
    """The whole table of one file."""
    if is_packed(source):
        raise InputError(f"{label(source)} has no rows; only kembed test and kembed summarise take such files")
    if source == STANDARD_INPUT and sys.stdin.isatty():
        screen.note("reading CSV from the keyboard; end with Ctrl-D")
    return read_table(
        source,
        delimiter=reading.delimiter,
        header=not reading.no_header,
        missing=split(reading.na) or (),
        decimal_comma=reading.decimal_comma,
    )


def load_pair(a: str, b: str | None, reading: Grouping, screen: Screen) -> Loaded:
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
        if STANDARD_INPUT not in (a, b) and all(map(exists, (a, b))) and samefile(a, b):
            screen.note(f"{label(a)} and {label(b)} are the same file, so they cannot differ")
        x, y = load(a, reading, screen), load(b, reading, screen)
        labels = (label(a), label(b))
    return _matched(x, y, labels, reading, screen)


def load_columns(source: str, wanted: list[str], reading: Reading, screen: Screen) -> Loaded:
    """These columns of one file, checked as in a comparison."""
    name = label(source)
    frame = load(source, reading, screen)
    frame = frame.select(checked(wanted, frame.columns, name))
    columns.tell_text({name: frame}, screen)
    return Loaded((columns.check_complete(frame, name, reading, screen),), (name,), {}, (frame.height,))


def load_numbers(source: str, reading: Reading, screen: Screen) -> Loaded:
    """The numeric columns of one file that vary."""
    name, wanted = label(source), split(reading.columns)
    frame = load(source, reading, screen)
    if wanted is not None:
        frame = frame.select(checked(wanted, frame.columns, name))
    columns.tell_text({name: frame}, screen, rare=False)
    left_out = columns.why_unvaried(frame, wanted is not None, "numbers")
    columns.tell_left_out(left_out, screen)
    if len(left_out) == frame.width:
        raise InputError(f"{name} has no column of numbers that vary; it has {listing(frame.columns)}")
    frame = columns.check_complete(frame.drop(left_out), name, reading, screen)
    return Loaded((frame,), (name,), left_out, (frame.height,))


def load_variables(
    source: str, time: str | None, reading: Reading, screen: Screen
) -> tuple[Loaded, pl.Series | None]:
    """The columns of one file that vary, rows with gaps left out, and the times of its rows."""
    name, wanted = label(source), split(reading.columns)
    frame = load(source, reading, screen)
    times = [] if time is None else checked([time], frame.columns, name)
    if wanted is not None and time in wanted:
        raise InputError(f"column {time!r} is the time and no variable; leave it out of --columns")
    chosen = frame.drop(times) if wanted is None else frame.select(checked(wanted, frame.columns, name))
    left_out = columns.why_unvaried(chosen, wanted is not None)
    if wanted is not None and left_out:
        column, why = next(iter(left_out.items()))
        raise InputError(f"column {column!r} cannot be used: {why}; leave it out of --columns")
    columns.tell_left_out(left_out, screen)
    variables = [column for column in chosen.columns if column not in left_out]
    if len(variables) < 2:
        seen = f"a graph needs two columns that vary, but {name} has {listing(variables) or 'none'}"
        raise InputError(f"{seen}; name columns with --columns to use what was left out")
    columns.tell_text({name: frame.select(variables)}, screen)
    whole = columns.check_complete(frame.select([*variables, *times]), name, reading, screen)
    whole = columns.without_gaps(whole)
    loaded = Loaded((whole.select(variables),), (name,), left_out, (frame.height,))
    return loaded, None if time is None else whole[time]


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
            what = "--groups takes two different values, as in a,b"
            raise InputError(f"{what}, but {reading.groups!r} was given")
        seen = f"{len(present)} values ({listing(present)})" if len(present) > 1 else "a single value"
        remedy = "choose two with --groups a,b" if len(present) > 2 else "give a column with two"
        raise InputError(f"column {column!r} of {name} has {seen}; {remedy}")
    if values.null_count():
        screen.note(f"{values.null_count():,} rows of {name} have no {column!r} and are left out")
    x, y = (frame.filter(values == value).drop(column) for value in chosen)
    return x, y, (f"{column}={chosen[0]}", f"{column}={chosen[1]}")


def _matched(
    x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, str], reading: Reading, screen: Screen
) -> Loaded:
    """The columns that both have and that can be compared."""
    wanted = split(reading.columns)
    for frame, name in zip((x, y), labels, strict=True):
        checked(wanted or (), frame.columns, name)
    common = wanted or [column for column in x.columns if column in y.columns]
    if not common:
        raise _nothing_in_common(x, y, labels)
    left_out: dict[str, str] = {}
    for frame, name in ((x, labels[0]), (y, labels[1])) if wanted is None else ():
        left_out |= dict.fromkeys(frame.drop(common).columns, f"only {name} has it")
    for column in common:
        why = columns.why_unfit([x[column], y[column]], named=wanted is not None)
        if why and wanted is not None:
            raise InputError(f"column {column!r} cannot be compared: {why}; leave it out of --columns")
        if why:
            left_out[column] = why
        else:
            columns.refuse_mixed(column, x, y, labels)
    columns.tell_left_out(left_out, screen)
    kept = [column for column in common if column not in left_out]
    if not kept:
        raise InputError(
            f"{labels[0]} and {labels[1]} share no column that can be compared ({common[0]!r}: "
            f"{left_out[common[0]]}); name columns with --columns to compare them all the same"
        )
    x, y = x.select(kept), y.select(kept)
    columns.tell_text({labels[0]: x, labels[1]: y}, screen)
    named = zip((x, y), labels, strict=True)
    whole = tuple(columns.check_complete(frame, name, reading, screen) for frame, name in named)
    return Loaded(whole, labels, left_out, (x.height, y.height))


def _nothing_in_common(x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, str]) -> InputError:
    folded = {column.casefold(): column for column in y.columns}
    pairs = [(column, folded[column.casefold()]) for column in x.columns if column.casefold() in folded]
    remedy = "rename columns until the names agree"
    if pairs:
        remedy = f"capitals matter ({pairs[0][0]!r} and {pairs[0][1]!r}), so rename them"
    elif all(column.isdigit() for column in [*x.columns, *y.columns]):
        remedy = "if the first lines are data and not names, use --no-header"
    return InputError(
        f"{labels[0]} and {labels[1]} have no column in common ({labels[0]}: {listing(x.columns)}; "
        f"{labels[1]}: {listing(y.columns)}); {remedy}"
    )

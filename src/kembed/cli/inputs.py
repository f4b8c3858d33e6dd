"""From what stands on the command line to tables: two samples that match, or the columns of one.

Columns that cannot be compared are left out and told, unless they were asked for by name.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from os.path import exists, samefile
from typing import TYPE_CHECKING, Any

from kembed.cli import columns, words
from kembed.cli.large import drawn, drawn_rows, is_large, open_files
from kembed.cli.loaded import Loaded
from kembed.cli.options import Grouping, Reading, split
from kembed.cli.screen import Screen
from kembed.core.text import listing, rows
from kembed.core.writing import is_packed
from kembed.data.files import (
    STANDARD_INPUT,
    InputError,
    checked,
    is_text,
    label,
    nameless,
    picked,
    read_table,
)

if TYPE_CHECKING:
    import polars as pl


LEAST_ROWS = 2  # of a group, as of any sample
MOST_GROUPS = 12  # 66 pairs: more is hardly a question, and an identifier given by mistake


def load(source: str, reading: Reading, screen: Screen, text: list[str] | None = None) -> pl.DataFrame:
    """The whole table of one file; columns in `text` hold text whatever they look like."""
    if is_packed(source):
        raise InputError(
            f"{label(source)} has no rows; only kembed test and kembed summarise take such files"
        )
    if is_large(reading, [source]):
        return drawn_rows(source, reading, screen)
    if source == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty():
        screen.note("reading CSV from the keyboard; end with Ctrl-D")
    frame = read_table(
        source,
        delimiter=reading.delimiter,
        header=not reading.no_header,
        missing=split(reading.na) or (),
        decimal_comma=reading.decimal_comma,
        words=[*(split(reading.as_text) or ()), *(text or ())],
    )
    numbers = [column for column in frame.columns if columns.is_number(column)]
    if is_text(source) and not reading.no_header and 2 * len(numbers) >= frame.width:
        seen = f"the first line of {label(source)} has numbers ({listing(numbers, 3)}), taken for names"
        screen.note(f"{seen}; use --no-header if it is data")
    return _without(frame, split(reading.exclude) or [], label(source), screen)


def _without(frame: pl.DataFrame, excluded: list[str], name: str, screen: Screen) -> pl.DataFrame:
    """The columns that were not excluded; one that is not there may be in another file."""
    for column in excluded:
        if column not in frame.columns:
            screen.note(f"{name} has no column {column!r} to exclude; it has {listing(frame.columns)}")
    kept = frame.drop([column for column in excluded if column in frame.columns])
    if not kept.width:
        raise InputError(f"--exclude leaves no column of {name}; leave one in")
    return kept


def load_samples(a: str, b: str | None, reading: Grouping, screen: Screen, seed: int = 0) -> Loaded:
    """Two samples, or as many as there are groups in a file."""
    if reading.max_rows is None and is_large(reading, (a, b)):
        return _large_pair(a, b, reading, screen)
    if reading.group is not None:
        if b is not None:
            raise InputError(f"--group splits one file, but two were given; leave out {label(b)}")
        whole = load(a, reading, screen)
        left_out = _row_numbers(reading, whole)
        frames, labels = _groups(whole, a, reading, screen)
    else:
        if b is None:
            raise InputError("one file was given; give a second, or --group COLUMN to split the first")
        if reading.groups is not None:
            raise InputError("--groups chooses values of a column; name the column with --group")
        if a == b == STANDARD_INPUT:
            raise InputError("both samples are '-', but there is one standard input; give a file for one")
        if STANDARD_INPUT not in (a, b) and all(map(exists, (a, b))) and samefile(a, b):
            screen.note(f"{label(a)} and {label(b)} are the same file, so they cannot differ")
        frames = [load(a, reading, screen), load(b, reading, screen)]
        left_out = _row_numbers(reading, *frames)
        labels = (label(a), label(b))
    most = reading.max_rows
    if most is not None:
        named = zip(frames, labels, strict=True)
        frames = [_drawn(frame, most, seed, name, screen) for frame, name in named]
    screen.spare_threads(sum(frame.height for frame in frames))  # before what follows may load NumPy
    return _matched(frames, labels, [a] if b is None else [a, b], left_out, reading, screen)


def _large_pair(a: str, b: str | None, reading: Grouping, screen: Screen) -> Loaded:
    """Two files that are read block by block."""
    if reading.group is not None or b is None:
        seen = f"{label(a)} is read block by block, and groups of one such file cannot be compared"
        raise InputError(f"{seen}; write the groups to files of their own, or use --max-rows")
    sources = open_files([a, b], reading, screen)
    left_out = {**getattr(sources[0], "left_out", {}), **getattr(sources[1], "left_out", {})}
    columns.tell_left_out(left_out, screen)
    return Loaded((), (label(a), label(b)), left_out, tuple(one.size for one in sources), tuple(sources))


def _row_numbers(reading: Reading, *frames: pl.DataFrame) -> dict[str, str]:
    """Nameless row numbers of any of the files, unless columns were asked for by name."""
    found: dict[str, str] = {}
    for frame in frames if reading.columns is None else ():
        found |= columns.row_numbers(frame)
    return found


def _drawn(frame: pl.DataFrame, most: int, seed: int, name: str, screen: Screen) -> pl.DataFrame:
    """At most so many rows, in their order; of samples of one size the same ones, so that pairs stay."""
    if frame.height <= most:
        return frame
    import numpy as np

    screen.note(f"{most:,} of the {frame.height:,} rows of {name} were drawn at random (--max-rows)")
    return frame[np.sort(np.random.default_rng(seed).choice(frame.height, most, replace=False))]


def load_pair(a: str, b: str | None, reading: Grouping, screen: Screen, seed: int = 0) -> Loaded:
    """Two samples: two files, or two groups of one."""
    loaded = load_samples(a, b, reading, screen, seed)
    if len(loaded.labels) > 2:
        seen = f"column {reading.group!r} has {len(loaded.frames)} groups ({listing(loaded.labels)})"
        raise InputError(f"{seen}; choose two with --groups a,b, or compare all with kembed test")
    return loaded


def weighed(loaded: Loaded, column: str | None) -> tuple[Loaded, tuple[Any, ...] | None]:
    """The samples without their column of weights, and the weights."""
    if column is None:
        return loaded, None
    if loaded.sources:
        raise InputError("--weights is for files that fit into memory; leave it out, or use --max-rows")
    for frame, name in zip(loaded.frames, loaded.labels, strict=True):
        checked([column], frame.columns, name)
    if loaded.frame.width == 1:
        raise InputError(f"column {column!r} has the weights, and there is no other to compare")
    weights = tuple(
        nameless(frame[column]).cast(float, strict=False).fill_null(1.0).to_numpy() for frame in loaded.frames
    )
    rest = [name for name in loaded.frame.columns if name != column]
    return replace(loaded, frames=tuple(picked(frame, rest) for frame in loaded.frames)), weights


def load_source(file: str, wanted: list[str], reading: Reading, screen: Screen) -> Loaded:
    """These columns of one file that is read block by block."""
    (source,) = open_files([file], reading, screen, wanted)
    return Loaded((), (label(file),), {}, (source.size,), (source,))


def held(loaded: Loaded, screen: Screen) -> Loaded:
    """The same where all rows can be held; else some of them, drawn at random, and a word on that."""
    from kembed.testing.sided import HELD

    (source,) = loaded.sources
    if source.size * len(source.schema.names) <= HELD:
        return loaded
    frame = drawn(source, screen)
    return Loaded((frame,), loaded.labels, {}, loaded.given)


def load_columns(source: str, wanted: list[str], reading: Reading, screen: Screen) -> Loaded:
    """These columns of one file, checked as in a comparison."""
    name = label(source)
    frame = load(source, reading, screen)
    wanted = checked(wanted, frame.columns, name)
    (frame,) = columns.understand([frame], [source], wanted, reading, screen)
    columns.tell_text([frame], screen)
    return Loaded((columns.check_complete(frame, name, reading, screen),), (name,), {}, (frame.height,))


def load_numbers(source: str, reading: Reading, screen: Screen) -> Loaded:
    """The numeric columns of one file that vary."""
    name, wanted = label(source), split(reading.columns)
    frame = load(source, reading, screen)
    used = frame.columns if wanted is None else checked(wanted, frame.columns, name)
    (frame,) = columns.understand([frame], [source], used, reading, screen)
    left_out = columns.why_unvaried(frame, wanted is not None, numeric=True)
    columns.tell_left_out(left_out, screen)
    columns.tell_counting(frame, left_out, screen)
    if len(left_out) == frame.width:
        remedy = "give more rows" if frame.height == 1 else "give a file with numbers that do"
        seen = f"{name} has no column of numbers that vary; it has {listing(frame.columns)}"
        raise InputError(f"{seen} in {rows(frame.height)}: {remedy}")
    frame = columns.check_complete(
        picked(frame, [column for column in frame.columns if column not in left_out]), name, reading, screen
    )
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
    used = [column for column in frame.columns if column not in times]
    used = used if wanted is None else checked(wanted, frame.columns, name)
    (frame,) = columns.understand([frame], [source], [*used, *times], reading, screen)
    chosen = picked(frame, used)
    left_out = columns.why_unvaried(chosen, wanted is not None)
    if wanted is not None and left_out:
        column, why = next(iter(left_out.items()))
        raise InputError(f"column {column!r} cannot be used: {why}; leave it out of --columns")
    columns.tell_left_out(left_out, screen)
    variables = [column for column in chosen.columns if column not in left_out]
    if len(variables) < 2:
        seen = f"a graph needs two columns that vary, but {name} has {listing(variables) or 'none'}"
        raise InputError(f"{seen}; name columns with --columns to use what was left out")
    columns.tell_text([picked(frame, variables)], screen)
    whole = columns.check_complete(picked(frame, [*variables, *times]), name, reading, screen)
    whole = columns.without_gaps(whole)
    loaded = Loaded((picked(whole, variables),), (name,), left_out, (frame.height,))
    return loaded, None if time is None else nameless(whole[time])


def _groups(
    frame: pl.DataFrame, source: str, reading: Grouping, screen: Screen
) -> tuple[list[pl.DataFrame], tuple[str, ...]]:
    """The rows with each of the values of a column, without that column, and what to call them."""
    import polars as pl

    name, column = label(source), str(reading.group)
    wanted = checked(split(reading.columns) or [], frame.columns, name)
    checked([column], frame.columns, name)
    if column in wanted:
        raise InputError(f"column {column!r} makes the groups and is not compared; leave it out of --columns")
    values = nameless(frame[column]).cast(pl.String)
    if frame[column].dtype.is_float():
        values = values.str.replace(r"\.0$", "")  # 19.0 is called 19
    present = values.drop_nulls().unique().sort().to_list()
    if frame[column].dtype.is_numeric():
        present.sort(key=float)
    chosen = split(reading.groups) or present
    for value in chosen:
        if value not in present:
            raise InputError(f"column {column!r} of {name} has no value {value!r}; it has {listing(present)}")
    if len(set(chosen)) != len(chosen) or len(chosen) < 2:
        if reading.groups is not None:
            what = "--groups takes two or more different values, as in a,b"
            raise InputError(f"{what}, but {reading.groups!r} was given")
        raise InputError(f"column {column!r} of {name} has a single value; give a column with two")
    if len(chosen) > MOST_GROUPS:
        seen = f"column {column!r} of {name} has {len(present)} values ({listing(present)})"
        raise InputError(f"{seen}; choose at most {MOST_GROUPS} with --groups a,b")
    if values.null_count():
        screen.note(f"{values.null_count():,} rows of {name} have no {column!r} and are left out")
    rest = [other for other in frame.columns if other != column]
    frames = [picked(frame.filter(values == value), rest) for value in chosen]
    titles = words.of_groups(column, chosen)
    for title, group in zip(titles, frames, strict=True):
        if group.height < LEAST_ROWS:
            seen = f"{title} of {name} has {rows(group.height)}; at least {LEAST_ROWS} are needed"
            raise InputError(f"{seen}: choose other groups with --groups a,b, or another column")
    return frames, titles


def _matched(
    frames: list[pl.DataFrame],
    labels: tuple[str, ...],
    sources: list[str],
    left_out: dict[str, str],
    reading: Reading,
    screen: Screen,
) -> Loaded:
    """The columns that all have and that can be compared."""
    wanted = split(reading.columns)
    for frame, name in zip(frames, labels, strict=True):
        checked(wanted or (), frame.columns, name)
    x, y = frames[0], frames[1]  # groups of one file have the same columns
    common = wanted or [column for column in x.columns if column in y.columns]
    if not common:
        raise _nothing_in_common(x, y, labels)
    for frame, name in zip(frames, labels, strict=True) if wanted is None else ():
        only = [column for column in frame.columns if column not in common and column not in left_out]
        left_out |= dict.fromkeys(only, f"only {name} has it")
    common = [column for column in common if column not in left_out]
    frames = columns.understand(frames, sources, common, reading, screen)
    x, y = frames[0], frames[1]
    for column in common:
        why = columns.why_unfit([frame[column] for frame in frames], named=wanted is not None)
        if why and wanted is not None:
            raise InputError(f"column {column!r} cannot be compared: {why}; leave it out of --columns")
        if why:
            left_out[column] = why
        else:
            columns.refuse_mixed(column, x, y, labels)
    columns.tell_left_out(left_out, screen)
    kept = [column for column in common if column not in left_out]
    if not kept:
        column, why = next(iter(left_out.items()))
        raise InputError(
            f"{labels[0]} and {labels[1]} share no column that can be compared ({column!r}: "
            f"{why}); name columns with --columns to compare them all the same"
        )
    chosen = [picked(frame, kept) for frame in frames]
    columns.tell_text(chosen, screen)
    named = zip(chosen, labels, strict=True)
    whole = tuple(columns.check_complete(frame, name, reading, screen) for frame, name in named)
    return Loaded(whole, labels, left_out, tuple(frame.height for frame in frames))


def _nothing_in_common(x: pl.DataFrame, y: pl.DataFrame, labels: tuple[str, ...]) -> InputError:
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

"""From what stands on the command line to sources of rows: read once, by the reader of the library.

Imported by the commands that need it, since NumPy comes with it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os.path import exists, samefile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.cli import words
from kembed.cli.options import Grouping, Reading, Related, split
from kembed.cli.screen import Screen
from kembed.cli.words import UsageError
from kembed.core.text import STANDARD_INPUT, label, listing
from kembed.core.writing import is_store
from kembed.tables.files import checked
from kembed.tables.frames import EXACT, Labelled, level_text
from kembed.tables.parts import MISSING, Part, TextOptions
from kembed.tables.reader import open_value, read
from kembed.tables.scheduling import scheduler
from kembed.tables.schema import plain_numbers
from kembed.tables.source import HELD, SAMPLE, Memory, Source, as_table, rows_of, take_drawn
from kembed.tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

MOST_GROUPS = 12  # 66 pairs: more is hardly a question, and an identifier given by mistake
# Options that code for Python would have to repeat: where one is given, the command has to do.
UNUSUAL = ("delimiter", "na", "decimal_comma", "as_text", "no_header", "max_rows", "columns", "exclude")


@dataclass(frozen=True)
class Samples:
    """One sample, or several with the same columns, and what has to be said of them."""

    sources: tuple[Any, ...]
    labels: tuple[str, ...]
    columns: list[str]  # without indicators of missing values
    left_out: dict[str, str]  # columns, and why
    given: tuple[int, ...]  # rows before any were left out
    differences: tuple[tuple[str, str], ...] = ()  # columns that one sample has, and that sample

    @classmethod
    def of(cls, sources: list[Any]) -> Samples:
        """Samples that were read together."""
        first, labels = sources[0], tuple(source.label for source in sources)
        only = tuple((column, labels[place]) for column, place in first.only.items())
        given = tuple(source.given for source in sources)
        return cls(tuple(sources), labels, own_columns(first), first.left_out, given, only)

    @property
    def names(self) -> tuple[str, ...]:
        """The labels without folders, where that tells them apart."""
        return tuple(words.short(label, self.labels) for label in self.labels)

    def with_left_out(self, sentence: str, sizes: tuple[int, ...]) -> str:
        """The verdict, with the rows and the columns that it leaves out."""
        each = zip(self.names, sizes, self.given, strict=True)
        few = [f"{used:,} of {given:,} of {name}" for name, used, given in each if used < given]
        rest = [column for column in self.left_out if column not in dict(self.differences)]
        return words.beside(sentence, {"Rows used": " and ".join(few), "Left out": listing(rest)})

    @property
    def schema(self) -> str:
        """What to say first where samples have different columns; else nothing."""
        owned: dict[str, list[str]] = {}
        for column, sample in self.differences:
            owned.setdefault(words.short(sample, self.labels), []).append(column)
        only = [f"only {sample} has {listing(columns)}" for sample, columns in owned.items()]
        return f"The columns differ: {' and '.join(only)}. " if only else ""

    def facts(self, sizes: tuple[int, ...]) -> list[tuple[str, str]]:
        """The samples with the rows that were used, and the columns."""
        each = zip(self.names, sizes, self.given, strict=True)
        rows = [(name, f"{'' if n == all_ else f'{n:,} of '}{all_:,} rows") for name, n, all_ in each]
        return [*rows, ("columns", words.of_columns(self.columns))]

    def count_values(self, column: str) -> str:
        """How many values a column has in each sample."""
        import numpy as np

        from kembed.permutation.sums import take_column

        place = self.sources[0].schema.names.index(column)
        counts = (len(np.unique(source.fold(take_column, place).table)) for source in self.sources)
        return f"{' and '.join(map(str, counts))} values of {column}"

    def described(self, sizes: tuple[int, ...]) -> dict[str, Any]:
        """The same for machines."""
        each = zip(self.labels, sizes, self.given, strict=True)
        only = [{"column": column, "sample": sample} for column, sample in self.differences]
        return {
            "samples": [{"name": name, "rows": given, "used": used} for name, used, given in each],
            "columns": self.columns,
            "left_out": self.left_out,
            **({"schema_differences": only} if len(self.labels) > 1 else {}),
        }


def own_columns(source: Any) -> list[str]:
    """The columns that a source has of its own: no indicators of missing values."""
    schema = source.schema
    return [name for name, of in zip(schema.names, schema.missing_of, strict=True) if not of]


def options_of(reading: Reading) -> TextOptions:
    """What the options say of text."""
    missing, as_text = (tuple(split(given) or ()) for given in (reading.na, reading.as_text))
    return TextOptions(reading.delimiter, not reading.no_header, missing, reading.decimal_comma, as_text)


def sources_of(values: dict[str, Any], reading: Reading, screen: Screen, **how: Any) -> list[Any]:
    """Samples as sources, read where `--scheduler` says; `how` as for `read`."""
    where, _, count = reading.scheduler.partition(":")
    if where == "local" and count and not count.isdigit():
        seen = f"{reading.scheduler!r} was given"
        raise UsageError(f"--scheduler local:N takes a number of workers, but {seen}")
    if where != "none":
        engine = scheduler("local", int(count or 2)) if where == "local" else scheduler(reading.scheduler)
        screen.resources.enter_context(engine)
    excluded = [column for column in split(reading.exclude) or [] if column not in how.get("keep", ())]
    how = {"nan_policy": reading.missing, "options": options_of(reading), "exclude": excluded, **how}
    with screen.waiting(f"reading {' and '.join(value.label for value in values.values())}"):
        sources = read(values, **how)
    every = dict.fromkeys(name for source in sources for part in source.parts for name in part.names)
    checked(how.get("keep", ()), every, sources[0].label)
    for column in excluded:
        if column not in every:
            screen.note(f"there is no column {column!r} to exclude; there are {listing(every)}")
    return sources


def labelled(file: str, screen: Screen) -> Labelled:
    """A file as the library reads it: its errors name the file."""
    if is_store(file):
        from kembed.testing.sketch import Sketch, load_reference

        if isinstance(rows := load_reference(file), Sketch):
            takers = "kembed test, witness, report and summarise"
            raise UsageError(f"{label(file)} has no rows; only {takers} take such files")
        return Labelled(rows, label(file))
    if file == STANDARD_INPUT and sys.stdin is not None and sys.stdin.isatty():
        screen.note("reading CSV from the keyboard; end with Ctrl-D")
    import polars  # noqa: F401 - whose handler of Ctrl-C lets a read of a pipe go on, which is undone here

    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)
    return Labelled(file, label(file))


def load_samples(
    a: str,
    b: str | None,
    reading: Grouping,
    screen: Screen,
    seed: int = 0,
    *,
    related: Related | None = None,
    keep: tuple[str | None, ...] = (),
    two: bool = True,
) -> Samples:
    """Two samples, or as many as there are groups in a file; columns in `keep` are never left out."""
    related = related or Related()
    keep = (*keep, related.weights, related.unit, related.strata, related.paired_by)
    if related.paired_by is not None and reading.max_rows is not None:
        seen = "--max-rows draws rows before --paired-by finds their partners"
        raise UsageError(f"{seen}; leave one of them out")
    how: dict[str, Any] = {"minimum": 2, "common": True, "columns": split(reading.columns)}
    if kept := [name for name in keep if name is not None]:
        how |= {"keep": kept, "columns": how["columns"] and [*how["columns"], *kept]}
    if reading.group is not None:
        if b is not None:
            raise UsageError(f"--group splits one file, but two were given; leave out {label(b)}")
        values, how["options"] = _groups(labelled(a, screen), reading, screen)
    else:
        if b is None:
            raise UsageError("one file was given; give a second, or --group COLUMN to split the first")
        if reading.groups is not None:
            raise UsageError("--groups chooses values of a column; name the column with --group")
        if a == b == STANDARD_INPUT:
            raise UsageError("both samples are '-', but there is one standard input; give a file for one")
        if STANDARD_INPUT not in (a, b) and all(map(exists, (a, b))) and samefile(a, b):
            screen.note(f"{label(a)} and {label(b)} are the same file, so they cannot differ")
        values = {"A": labelled(a, screen), "B": labelled(b, screen)}
    if two and len(values) > 2:
        seen = f"column {reading.group!r} has {len(values)} groups ({listing(values)})"
        raise UsageError(f"{seen}; choose two with --groups a,b, or compare all with kembed test")
    loaded = Samples.of(sources_of(values, reading, screen, **how))
    if reading.max_rows is not None:
        drawn = [
            _drawn(source, reading.max_rows, seed, related.pairs is True, screen) for source in loaded.sources
        ]
        loaded = replace(loaded, sources=tuple(drawn))
    return loaded


def _drawn(source: Any, most: int, seed: int, paired: bool, screen: Screen) -> Any:
    """At most so many rows, in their order; of samples of one size the same ones, so that pairs stay."""
    source = source.with_gaps() if paired else source
    if source.size <= most:
        return source
    screen.note(f"{most:,} of the {source.size:,} rows of {source.label} were drawn at random (--max-rows)")
    rows = source.fold(take_drawn, source.size, most, seed).table
    table = as_table(source, rows)
    return rows_of(source, replace(table, values=rows) if paired else table)


def exchanged(loaded: Samples, related: Related) -> tuple[Samples, dict[str, Any]]:
    """The samples without columns that tell how rows are related, and arguments of a test."""
    how: dict[str, Any] = {"unit": related.unit, "strata": related.strata, "paired": related.pairs}
    if (column := related.weights) is not None:
        if not all(source.held for source in loaded.sources):
            raise UsageError("--weights is for samples that fit into memory; leave it out, or use --max-rows")
        parts = [split_off(source, source.table(), column, "--weights") for source in loaded.sources]
        sources, how["weights"] = zip(*parts, strict=True)
        loaded = replace(loaded, sources=sources, columns=own_columns(sources[0]))
    rest = [
        column for column in loaded.columns if column not in (related.unit, related.strata, related.paired_by)
    ]
    return replace(loaded, columns=rest), how


def split_off(source: Any, table: Table, column: str, option: str) -> tuple[Memory, np.ndarray]:
    """The rows that have a value in a column of numbers without that column, and these values."""
    if column in source.left_out:
        raise UsageError(f"{option} {column!r} cannot be used: {source.left_out[column]}; name another")
    checked([column], own_columns(source), source.label)
    d = table.names.index(column)
    if table.categorical[d]:
        seen = f"{option} {column!r} must hold numbers, but in {source.label} it holds text"
        raise UsageError(f"{seen}; name another column, or write its values as numbers")
    each = enumerate(zip(table.names, table.missing_of, strict=True))
    rest = [place for place, owners in each if column not in owners]
    if not rest:
        raise UsageError(f"column {column!r} is for {option}, and there is no other to compare")
    there = table.observed(d)
    kept = table.columns(rest)
    return rows_of(source, replace(kept, values=kept.values[there])), table.values[there, d]


def load_table(
    file: str, reading: Reading, screen: Screen, columns: list[str] | None = None, **how: Any
) -> Samples:
    """One file; `how` as for `read`."""
    values = {"data": labelled(file, screen)}
    return Samples.of(sources_of(values, reading, screen, columns=columns, **how))


def table_of(source: Any, screen: Screen) -> Table:
    """All rows of a source where they can be held; else some of them, drawn at random, and a word on that."""
    if source.held:
        return source.table()
    screen.note(f"{SAMPLE:,} of the {source.size:,} rows of {source.label} were drawn at random")
    return source.sample()[0]


def load_variables(
    file: str,
    reading: Reading,
    screen: Screen,
    time: str | None = None,
    *,
    minimum: int,
    numeric: bool = False,
) -> tuple[Samples, np.ndarray | None]:
    """The columns of one file that vary, in memory, and the times of its rows."""
    wanted, times = split(reading.columns), [] if time is None else [time]
    if wanted is not None and time in wanted:
        raise UsageError(f"column {time!r} is the time and no variable; leave it out of --columns")
    columns = None if wanted is None else wanted + times
    loaded = load_table(file, reading, screen, columns, keep=times, minimum=minimum)
    (source,), clock = loaded.sources, None
    table, gaps = table_of(source, screen), source.survey.columns
    constant = [name for name in source.constant if source.fill is None or not gaps[name].missing]
    unfit = dict.fromkeys(constant, "it does not vary")
    if numeric:
        kinds = zip(table.names, table.categorical, strict=True)
        unfit |= dict.fromkeys((name for name, kind in kinds if kind), "it holds text")
    if time is not None:
        unfit.pop(time, None)
        rows, clock = split_off(source, table, time, "--time")
        table = rows.table()
    if wanted is not None and not numeric and unfit:
        column, why = next(iter(unfit.items()))
        raise UsageError(f"column {column!r} cannot be used: {why}; leave it out of --columns")
    kept = [place for place, name in enumerate(table.names) if name not in unfit]
    if not kept:
        seen = f"{loaded.labels[0]} has no column of numbers that vary; it has {listing(loaded.columns)}"
        raise UsageError(f"{seen}; give a file with numbers that do")
    notes = (*source.notes, *(f"column {name!r} is left out: {why}" for name, why in unfit.items()))
    rows = replace(rows_of(source, table.columns(kept)), notes=notes)
    left_out = {**loaded.left_out, **unfit}
    return replace(loaded, sources=(rows,), columns=own_columns(rows), left_out=left_out), clock


def variables_of(source: Source) -> Iterator[Table]:
    """A table for every variable: a column, and the indicator of its missing values beside it."""
    table = source.table()
    for d, (name, of) in enumerate(zip(table.names, table.missing_of, strict=True)):
        if not of:
            yield table.columns([d, *(k for k, other in enumerate(table.missing_of) if other == name)])


def _groups(file: Labelled, reading: Grouping, screen: Screen) -> tuple[dict[str, Any], TextOptions]:
    """The rows with each of the values of a column, without that column, under what to call them."""
    import polars as pl

    name, column, options = file.label, str(reading.group), options_of(reading)
    opened = open_value(file, "A", options)
    checked([column], opened.names, name)
    if column in (split(reading.columns) or ()):
        raise UsageError(f"column {column!r} makes the groups and is not compared; leave it out of --columns")
    frame = _collected(opened.parts, opened.names, name)
    if any(part.delimited for part in opened.parts):  # a frame has no tokens of its own
        options = options._replace(missing=(*MISSING, *options.missing))
    options = options._replace(as_text=tuple(one for one in options.as_text if one != column))
    values, present = _group_values(frame.get_column(column), options.missing, f"column {column!r} of {name}")
    chosen = split(reading.groups) or present
    for value in chosen:
        if value not in present:
            raise UsageError(f"column {column!r} of {name} has no value {value!r}; it has {listing(present)}")
    if len(set(chosen)) != len(chosen) or len(chosen) < 2:
        if reading.groups is not None:
            what = "--groups takes two or more different values, as in a,b"
            raise UsageError(f"{what}, but {reading.groups!r} was given")
        raise UsageError(f"column {column!r} of {name} has a single value; give a column with two")
    if len(chosen) > MOST_GROUPS:
        seen = f"column {column!r} of {name} has {len(present)} values ({listing(present)})"
        raise UsageError(f"{seen}; choose at most {MOST_GROUPS} with --groups a,b")
    if values.null_count():
        screen.note(f"{values.null_count():,} rows of {name} have no {column!r} and are left out")
    screen.remark(opened.notes)
    rest = pl.DataFrame([one for one in frame.get_columns() if one.name != column])
    titles = words.of_groups(column, chosen)
    each = zip(titles, chosen, strict=True)
    return {title: Labelled(rest.filter(values == value), title) for title, value in each}, options


def _collected(parts: list[Part], names: tuple[str, ...], name: str) -> pl.DataFrame:
    """All rows of a file as a frame; refused where it does not fit in memory."""
    import polars as pl

    frames, rows = [], 0
    for part in parts:
        for columns in part.read(names):
            frames.append(pl.DataFrame(dict(zip(names, columns, strict=True))))
            rows += frames[-1].height
            if rows * len(names) > HELD:
                seen = f"{name} has more rows than are held at once, and groups of one such file cannot be"
                raise UsageError(f"{seen} compared; write the groups to files of their own")
    try:
        return pl.concat(frames, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        seen = f"the files of {name} hold different types ({str(error).splitlines()[0]})"
        raise UsageError(f"{seen}; write them alike") from None


def _group_values(series: pl.Series, tokens: tuple[str, ...], where: str) -> tuple[pl.Series, list[str]]:
    """The values of the column of groups as text, and the different ones in order."""
    import polars as pl

    try:
        text = series.cast(pl.String).str.strip_chars()
    except pl.exceptions.PolarsError:
        raise UsageError(f"{where} holds {series.dtype}, which makes no groups; name another") from None
    nan = ["NaN"] if series.dtype.is_float() else []
    text = text.set(text.is_in([*tokens, *nan, ""]), None)
    present = text.drop_nulls().unique()
    numbers = plain_numbers(present)
    if numbers is None or abs(numbers).max(initial=0) >= EXACT:
        return text, sorted(present.to_list())
    written = dict(
        zip(present.to_list(), map(level_text, numbers.tolist()), strict=True)
    )  # 19.0 is called 19
    return text.replace(written), sorted(set(written.values()), key=float)


def in_python(a: str, b: str | None, reading: Grouping, pair: Samples) -> str | None:
    """Code that reads the two samples again; None where the files were not read in the usual way."""
    if STANDARD_INPUT in (a, b) or any(getattr(reading, name) for name in UNUSUAL):
        return None
    if b is not None:
        return f"\nx, y = {a!r}, {b!r}"
    column, suffix = str(reading.group), Path(a).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        return None
    how = "" if suffix == ".parquet" else ", infer_schema=False, null_values=list(MISSING)"
    one, other = (label.removeprefix(f"{column}=") for label in pair.labels)
    return (
        "import polars as pl\nfrom kembed.tables.parts import MISSING\n\n"
        f"table = pl.read_{suffix[1:]}({a!r}{how})\n"
        f"group, table = table[{column!r}].cast(str), table.drop({column!r})\n"
        f"x, y = table.filter(group == {one!r}), table.filter(group == {other!r})"
    )

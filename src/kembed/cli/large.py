"""Files that are larger than memory, or read by workers: opened as sources, block by block."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kembed.cli.options import Reading, split
from kembed.cli.screen import Screen
from kembed.core.text import listing
from kembed.data.files import STANDARD_INPUT, InputError, label

if TYPE_CHECKING:
    import polars as pl

    from kembed.engines.source import Source

# Bytes of all files together beyond which they are read block by block: a table in memory takes a few times
# as many, and that many more while it is compared.
LARGE = 2**28


def is_large(reading: Reading, files: Iterable[str | None]) -> bool:
    """Whether files are to be read block by block: patterns, large ones, or a scheduler or `--resume`."""
    given = [file for file in files if file is not None]
    if STANDARD_INPUT in given:
        return False
    if reading.scheduler != "none" or reading.resume is not None or any(_is_pattern(file) for file in given):
        return True
    return sum(Path(file).stat().st_size for file in given if Path(file).is_file()) > LARGE


def _is_pattern(file: str) -> bool:
    return glob.has_magic(file) and not Path(file).exists()


def open_files(
    files: list[str], reading: Reading, screen: Screen, used: list[str] | None = None
) -> list[Source]:
    """The files as sources of the same columns, read where `--scheduler` says; notes are told."""
    from kembed.data.columns import Labelled
    from kembed.engines.keeping import resuming
    from kembed.engines.lines import TextRules
    from kembed.engines.scheduling import scheduler
    from kembed.engines.settling import open_sources

    if reading.as_text is not None:
        raise InputError("--as-text is for files that fit into memory; leave it out, or use --max-rows")
    where, _, count = reading.scheduler.partition(":")
    if where == "local" and count and not count.isdigit():
        raise InputError(
            f"--scheduler local:N takes a number of workers, but {reading.scheduler!r} was given"
        )
    engine = scheduler("local", int(count or 2)) if where == "local" else scheduler(reading.scheduler)
    screen.resources.enter_context(engine)
    kept = screen.resources.enter_context(resuming(reading.resume)) if reading.resume is not None else None
    rules = TextRules(
        reading.delimiter, not reading.no_header, tuple(split(reading.na) or ()), reading.decimal_comma
    )
    wanted: Any = used or split(reading.columns)
    samples = {label(file): Labelled(file, label(file)) for file in files}
    if len(samples) < len(files):
        raise InputError(f"{label(files[0])} was given twice; give two different files")
    how: Any = {"nan_policy": reading.missing, "rules": rules, "minimum": 2}
    if excluded := split(reading.exclude):
        wanted = _without(samples, excluded, rules, wanted)
    with screen.waiting(f"reading {listing(list(samples))}"):
        found = open_sources(samples, columns=wanted, **how)
    if kept is not None and kept.taken:
        screen.note(f"passes that were finished before are taken from {label(str(kept.folder))}")
    for source in found:
        for note in getattr(source, "notes", ()):
            screen.note(note)
        if gaps := source.size - whole_rows(source):
            of = f"{gaps:,} of {source.size:,} rows of {source.label}"
            screen.note(f"{of} have missing values and are left out")
    return found


def drawn_rows(file: str, reading: Reading, screen: Screen) -> pl.DataFrame:
    """Some rows of one large file, drawn at random, and a word on that."""
    (source,) = open_files([file], reading, screen)
    return drawn(source, screen)


def drawn(source: Source, screen: Screen) -> pl.DataFrame:
    """Some rows of a source, drawn at random, and a word on that."""
    import numpy as np
    import polars as pl

    from kembed.engines.sampling import ROWS, sampled_table

    table, _ = sampled_table(source)
    if source.size > ROWS:
        screen.note(f"{ROWS:,} of the {source.size:,} rows of {source.label} were drawn at random")
    schema = source.schema
    columns = []
    kinds = zip(schema.names, schema.categorical, schema.levels, strict=True)
    for d, (name, kind, levels) in enumerate(kinds):
        values = table.values[:, d]
        entries = np.array(levels, dtype=object)[values.astype(int)] if kind else values
        columns.append(pl.Series(name, entries.tolist() if kind else entries))
    return pl.DataFrame(columns)


def whole_rows(source: Any) -> int:
    """The rows without missing values, as far as they were counted."""
    return source.size - source.survey.missing.many


def _without(samples: dict[str, Any], excluded: list[str], rules: Any, wanted: list[str] | None) -> list[str]:
    """The columns of the first file that were not excluded."""
    from kembed.engines.opening import open_value
    from kembed.engines.parts import ROWS

    name, value = next(iter(samples.items()))
    names = wanted or list(open_value(value, name, None, rules, ROWS).names)
    kept = [column for column in names if column not in excluded]
    if not kept:
        raise InputError(f"--exclude leaves no column of {name}; leave one in")
    return kept

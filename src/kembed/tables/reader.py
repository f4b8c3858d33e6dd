"""One reader for every source: opened, profiled, and encoded by one schema for all samples.

A path, a pattern, a frame, an array or a Dask collection becomes parts; one pass over each settles what its
columns are (a second one where text turns up among numbers). What follows is the same for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.text import counted, listing
from kembed.core.text import rows as counted_rows
from kembed.tables.files import SUFFIXES, checked, different_columns, open_files
from kembed.tables.frames import (
    Column,
    Labelled,
    Refused,
    column_of,
    column_of_table,
    frame_of,
    named_columns,
    refuse_orders,
    title,
)
from kembed.tables.missing import INDICATOR, Donor, Fill, indicator_name, missing_level, take_donors
from kembed.tables.parts import (
    ROWS,
    Batches,
    Encoder,
    Engine,
    Held,
    Here,
    InputError,
    Opened,
    Stream,
    Survey,
    TextOptions,
    of_dataset,
    of_lazy,
)
from kembed.tables.scheduling import current_engine
from kembed.tables.schema import (
    COUNTER,
    DECLARED,
    IDENTIFIER,
    NOTHING,
    PLAIN,
    TEXT,
    Profile,
    Schema,
    Spec,
    decide,
)
from kembed.tables.source import Source, as_table, take_rows, tree_sum
from kembed.tables.table import Table

POLICIES = ("raise", "omit", "include")
NAN_POLICIES = (*POLICIES, "propagate")  # the last as in SciPy, where the answer is nan


class MissingValuesError(ValueError):
    """Missing values under "propagate": the numbers of rows of the samples."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__("there are missing values; use nan_policy='include' or 'omit', or impute them")
        self.sizes = sizes


MOST_OMITTED = 0.5  # share of the rows of a sample: an answer about fewer than the rest is about other rows
PLAIN_OPTIONS = TextOptions()  # nothing is said


def open_value(
    value: Any,
    argument: str,
    options: TextOptions = PLAIN_OPTIONS,
    engine: Engine | None = None,
    rows: int = ROWS,
) -> Opened:
    """One sample, whatever it is; of files nothing is read but what tells the columns and where rows are."""
    first, name = 0, argument
    if isinstance(value, Opened):
        return value
    if isinstance(value, Labelled):
        value, name, first = value.value, value.label, 1
    if is_dask(value):
        from kembed.tables.dask import dask_parts, engine_of

        names, parts, framed = dask_parts(value, name, rows)
        return Opened(name, parts, names, framed, first, engine_of(engine))
    if is_files(value):
        files = open_files(value, argument, options, rows)
        called = files.label if name == argument else name
        travels = all(part.travels for part in files.parts)
        where = (engine or current_engine()) if travels else Here()
        return files._replace(label=called, engine=where)
    if is_lazy(value):
        if hasattr(value, "get_fragments"):
            names, start = tuple(value.schema.names), of_dataset(value, rows)
        else:
            written = value.collect_schema().names()
            names = named_columns(written)
            start = of_lazy(value.rename(dict(zip(written, names, strict=True))), rows)
        return Opened(name, [Stream(name, names, 1, start, rows)], names, first=first)
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "read_next_batch"):
        raise TypeError(f"{name} can be read only once; give the files, a dataset or a table it comes from")
    if isinstance(value, np.memmap) and value.ndim in (1, 2) and value.dtype.kind in "biuf":
        table = value[:, None] if value.ndim == 1 else value
        checks.shape(table.shape, name)
        names = tuple(f"column {d}" for d in range(table.shape[1]))
        slices = [table[:, d] for d in range(table.shape[1])]
        return Opened(name, [Held(name, names, 1, slices, rows)], names, False, first)
    if isinstance(value, Table):
        framed = value.names != tuple(f"column {d}" for d in range(len(value.names)))
        known = [column_of_table(value, d) for d in range(len(value.names))]
        return Opened(name, [Held(name, value.names, 1, known, rows)], value.names, framed, first)
    frame = frame_of(value, name)
    places = [
        name if frame.kind == "vector" else f"{title(frame.names, d)} of {name}"
        for d in range(len(frame.names))
    ]
    columns = [column_of(one, where, first) for one, where in zip(frame.columns, places, strict=True)]
    if frame.kind != "frame" and not any(isinstance(one, Column) for one in columns):
        raise next(one for one in columns if isinstance(one, Refused)).error(places[0])
    held = Held(name, frame.names, 1, columns, rows)
    return Opened(name, [held], frame.names, frame.kind == "frame", first, index=frame.index)


def is_files(value: Any) -> bool:
    """Whether a value is a path or a list of paths.

    Words alone are a column of text: a list of them is one of paths if each has the suffix of a file.

    >>> [is_files(value) for value in ("a.csv", ["a.parquet", "b.parquet"], ["a", "b"], [1.0, 2.0])]
    [True, True, False, False]
    """
    if isinstance(value, list | tuple):
        return bool(value) and all(
            isinstance(one, os.PathLike) or (isinstance(one, str) and one.lower().endswith(SUFFIXES))
            for one in value
        )
    return isinstance(value, str | os.PathLike)


def is_dask(value: Any) -> bool:
    """Whether it is a collection of Dask; some objects have the method and no graph."""
    return hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None


def is_lazy(value: Any) -> bool:
    """Whether it is a lazy frame of polars, or a dataset of pyarrow; neither is imported to find out."""
    kind = type(value)
    lazy = kind.__name__ == "LazyFrame" and kind.__module__.startswith("polars")
    return lazy or (kind.__module__.startswith("pyarrow") and hasattr(value, "get_fragments"))


def is_stored(value: Any) -> bool:
    """Whether rows are in files, on other machines or in a query, and not an array or a data frame."""
    value = value.value if isinstance(value, Labelled) else value
    return is_dask(value) or is_files(value) or is_lazy(value) or isinstance(value, np.memmap | Source)


def read(
    samples: dict[str, Any],
    *,
    nan_policy: str = "raise",
    minimum: int = 1,
    same_columns: bool = True,
    common: bool = False,
    columns: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    keep: Iterable[str] = (),
    options: TextOptions = PLAIN_OPTIONS,
    engine: Engine | None = None,
    rows: int = ROWS,
) -> list[Any]:
    """The samples, by argument name or label, as sources of encoded rows.

    With `same_columns` all samples have the same variables: columns are matched by name (of arrays by place),
    in the order of the first, and levels get the same code everywhere; with `common` columns that not all
    have are left out. `columns` are those to be read, and never left out, nor are those of `keep`; `exclude`
    are not read. Every sample needs at least `minimum` rows, once those with missing values are omitted;
    "propagate" raises MissingValuesError, of which functions make a result of nan.
    `rows` is the length of a batch.

    >>> import numpy as np
    >>> x, y = read({"x": np.eye(3), "y": np.ones((4, 3))}, rows=2)
    >>> x.size, y.fold(lambda block: block.values.sum(axis=0))
    (3, array([4., 4., 4.]))
    """
    checks.choice(nan_policy, "nan_policy", NAN_POLICIES)
    if all(isinstance(value, Source) for value in samples.values()):  # read before
        return list(samples.values())
    opened = [open_value(value, argument, options, engine, rows) for argument, value in samples.items()]
    checked(options.as_text, dict.fromkeys(name for one in opened for name in one.names), opened[0].label)
    wanted = None if columns is None else list(columns)
    opened = [_chosen(one, wanted, exclude) for one in opened]
    only: dict[str, int] = {}
    if same_columns:
        opened, only = match_columns(opened, common)
    surveys = [one.survey(options) for one in opened]
    for one, survey in zip(opened, surveys, strict=True):
        checks.size(survey.size, max(minimum, 1), one.label)
        _refuse_infinite(one, survey)
    if nan_policy == "propagate" and any(survey.incomplete for survey in surveys):
        raise MissingValuesError(tuple(survey.size for survey in surveys))
    groups = [list(range(len(opened)))] if same_columns else [[i] for i in range(len(opened))]
    sources: list[Any] = []
    for group in groups:
        sources += _settled(
            [opened[i] for i in group],
            [surveys[i] for i in group],
            options=options,
            kept=wanted is not None,
            keep=frozenset(keep),
            nan_policy=nan_policy,
            minimum=minimum,
            only=only,
        )
    if nan_policy == "include":
        for group in groups:
            _fill([sources[i] for i in group], sources, group)
    return sources


def read_tables(
    samples: dict[str, Any],
    nan_policy: str,
    minimum: int,
    same_columns: bool = False,
    paired: bool = False,
    **how: Any,
) -> tuple[list[Table], bool]:
    """The samples as tables in memory, and whether "propagate" met a missing value.

    With `paired` the samples have the same rows, and a row missing anywhere is dropped everywhere.

    >>> samples = {"x": [["a", 1.5], ["c", 2], ["c", 4]], "y": [["a", 0]]}
    >>> (x, y), _ = read_tables(samples, "raise", minimum=1, same_columns=True)
    >>> x.values, y.values, x.categorical
    (array([[0. , 1.5],
           [1. , 2. ],
           [1. , 4. ]]), array([[0., 0.]]), array([ True, False]))
    """
    try:
        sources = read(samples, nan_policy=nan_policy, same_columns=same_columns, minimum=minimum, **how)
    except MissingValuesError as error:
        none = np.empty((0, 1))
        return [
            Table(none, (), none[0:0, 0] > 0, none[0:0, 0].astype(int), size) for size in error.sizes
        ], True
    return tables_of(sources, paired, minimum), False


def tables_of(sources: Sequence[Source], paired: bool = False, minimum: int = 1) -> list[Table]:
    """Sources as tables in memory, if they fit."""
    for source in sources:
        if not source.held:
            count = f"{counted_rows(source.size)} of {counted(len(source.schema.names), 'column')}"
            seen = f"{source.label} has {count}, more than are held at once"
            raise ValueError(f"{seen}; draw some rows, or name fewer columns")
    if not paired:
        return [source.table() for source in sources]
    refuse_unpaired(sources)
    every = [source.with_gaps().fold(take_rows).table for source in sources]
    gaps = np.isnan(np.hstack(every)).any(axis=1)
    lost = f" left after {gaps.sum()} of {len(gaps)} with missing values in any sample were dropped"
    checks.size(int(np.sum(~gaps)), max(minimum, 1), sources[0].label, lost if gaps.any() else "")
    return [
        as_table(source, np.where(gaps[:, None], np.nan, values))
        for source, values in zip(sources, every, strict=True)
    ]


def refuse_unpaired(sources: Sequence[Source]) -> None:
    """Refuse paired sources of different numbers of rows, or of other labels."""
    first, *others = sources
    for other in others:
        if other.given != first.given:
            raise ValueError(
                f"{first.label} has {counted_rows(first.given)} and {other.label} has "
                f"{counted_rows(other.given)}, but they are paired; "
                "give one row per observation in each, in the same order"
            )
    refuse_orders([(source.label, source.index) for source in sources])


def _chosen(opened: Opened, columns: list[str] | None, exclude: Iterable[str]) -> Opened:
    names = opened.names if columns is None else tuple(checked(columns, opened.names, opened.label))
    without = set(exclude)
    left = tuple(name for name in names if name not in without)
    if not left:
        raise InputError(f"no column of {opened.label} is left; exclude fewer")
    return opened._replace(names=left)


def match_columns(opened: list[Opened], common: bool) -> tuple[list[Opened], dict[str, int]]:
    """The same columns of all samples, and those that not all have, with the sample that has each."""
    first, frames = opened[0], [one for one in opened if one.framed]
    for one in opened:
        if len(one.names) != len(first.names) and not (one.framed and first.framed):
            raise ValueError(
                f"{one.label} has {counted(len(one.names), 'column')} where {first.label} has "
                f"{len(first.names)}; give the same variables in the same order in both"
            )
    if not frames:
        return opened, {}
    shared = tuple(name for name in frames[0].names if all(name in one.names for one in frames))
    other = next((one for one in frames if set(one.names) != set(frames[0].names)), None)
    if other is not None and not (common and shared):
        raise different_columns([(one.label, one.names) for one in (frames[0], other)])
    each = enumerate(opened)
    only = {name: i for i, one in each if one.framed for name in one.names if name not in shared}
    return [one._replace(names=shared) if one.framed else one for one in opened], only


def _settled(
    opened: list[Opened],
    surveys: list[Survey],
    *,
    options: TextOptions,
    kept: bool,
    keep: frozenset[str],
    nan_policy: str,
    minimum: int,
    only: dict[str, int],
) -> list[Batches]:
    """Samples of the same columns, once all batches were seen."""
    # Names of a sample by place: those of the first frame, if there is one.
    names = next((one.names for one in opened if one.framed), opened[0].names)
    labels = [one.label for one in opened]
    each = _by_place(opened, surveys)
    mixed = [d for d, profiles in enumerate(each) if _is_mixed(profiles)]
    if mixed:
        surveys = [one.survey(options, frozenset(one.names[d] for d in mixed)) for one in opened]
        each = _by_place(opened, surveys)
    named = any(one.framed for one in opened)  # columns of arrays and vectors were all meant
    specs = [
        decide(
            name,
            "" if names == ("column 0",) and len(opened) == 1 else title(names, d),
            labels,
            each[d],
            kept=kept or not named or name in keep,
            decimal_comma=options.decimal_comma,
        )
        for d, name in enumerate(names)
    ]
    left_out = {spec.name: spec.left_out for spec in specs if spec.left_out}
    places = [d for d, spec in enumerate(specs) if not spec.left_out]
    if not places or (kept and left_out):
        _refuse_columns(labels, left_out, kept)
    if places != list(range(len(names))):
        lost = any(one.missing for d in range(len(names)) if d not in places for one in each[d])
        again = [frozenset(one.names[d] for d in mixed) for one in opened]
        opened = [one._replace(names=tuple(one.names[d] for d in places)) for one in opened]
        if lost:  # rows that miss only what is left out are complete
            surveys = [one.survey(options, texts) for one, texts in zip(opened, again, strict=True)]
    for one, survey in zip(opened, surveys, strict=True):
        if nan_policy == "raise":
            refuse_gaps(one, survey)
    specs = [specs[d] for d in places]
    encoders, schema = _encoding(specs, _by_place(opened, surveys), nan_policy == "include")
    notes = [note for one in opened for note in one.notes] + [spec.note for spec in specs if spec.note]
    reasons = {name: why for name, why in left_out.items() if why != NOTHING[1]}
    reasons |= {name: f"only {labels[place]} has it" for name, place in only.items()}
    notes += [f"column {name!r} is left out: {why}" for name, why in reasons.items()]
    if nan_policy == "omit":
        each_sample = zip(opened, surveys, strict=True)
        notes += [_omitted(one, found, max(minimum, 1)) for one, found in each_sample if found.incomplete]
    return [
        Batches(
            one.label,
            schema,
            tuple(one.parts),
            tuple(own._replace(name=name) for own, name in zip(encoders, one.names, strict=True)),
            survey,
            options,
            one.engine,
            notes=tuple(dict.fromkeys(notes)),
            left_out=reasons,
            index=one.index,
            only=dict(only),
        )
        for one, survey in zip(opened, surveys, strict=True)
    ]


def _by_place(opened: list[Opened], surveys: list[Survey]) -> list[list[Profile]]:
    """Of every column its profiles in all samples."""
    every = [[found.columns[name] for name in one.names] for one, found in zip(opened, surveys, strict=True)]
    return [list(profiles) for profiles in zip(*every, strict=True)]


def _refuse_columns(labels: list[str], left_out: dict[str, str], kept: bool) -> None:
    """Refuse a column that was asked for and cannot be compared, or samples in which none can."""
    name, why = next(iter(left_out.items()))
    where = " and ".join(labels)
    if kept:
        seen, remedy = f"column {name!r} of {where} cannot be compared", "leave it out"
    else:
        seen = f"{where} {'have' if len(labels) > 1 else 'has'} no column that can be compared"
        remedy = "give one of numbers, text or dates"
        if why in (IDENTIFIER, COUNTER):
            remedy = "name columns to compare them all the same"
    raise InputError(f"{seen} ({name!r}: {why}); {remedy}")


def _is_mixed(profiles: list[Profile]) -> bool:
    """Whether text that reads as plain numbers stands beside text that does not."""
    kinds = {kind for one in profiles for kind in one.kinds}
    return PLAIN in kinds and bool(kinds & {TEXT, DECLARED})


def _encoding(specs: list[Spec], pooled: list[list[Profile]], include: bool) -> tuple[list[Encoder], Schema]:
    """How columns become numbers, and the schema: with indicators of missing values if they are included."""
    encoders, levels, indicators = [], [], []
    names = tuple(spec.name for spec in specs)
    for spec, profiles in zip(specs, pooled, strict=True):
        gaps = include and any(one.missing for one in profiles)
        code = -1
        if gaps and spec.categorical:
            level = missing_level(spec.levels)
            own = (*spec.levels, level) if spec.groups else tuple(sorted((*spec.levels, level)))
            spec, code = spec._replace(levels=own), own.index(level)
        elif gaps:
            indicators.append(spec.name)
        levels.append(spec.levels)
        encoders.append(Encoder(spec.name, spec, code))
    more = tuple(indicator_name(name, names) for name in indicators)
    schema = Schema(
        names + more,
        tuple(spec.categorical for spec in specs) + (True,) * len(more),
        tuple(levels) + (INDICATOR,) * len(more),
        tuple(spec.unit for spec in specs) + ("",) * len(more),
        ("",) * len(names) + tuple(indicators),
        tuple(spec.style if spec.style != "plain" else "" for spec in specs) + ("",) * len(more),
    )
    return encoders, schema


def _fill(own: list[Batches], sources: list[Any], places: list[int]) -> None:
    """Give the samples of one schema their fill: donors of the values of all of them."""
    schema = own[0].schema
    columns = tuple(schema.names.index(name) for name in schema.missing_of if name)
    donors: dict[int, Donor] = {}
    if columns:
        found = tree_sum(
            source.with_gaps().fold(take_donors, place, columns)
            for place, source in zip(places, own, strict=True)
        )
        donors = {column: Donor.of(values) for column, (_, values) in found.found.items()}
    for place, source in zip(places, own, strict=True):
        sources[place] = replace(source, fill=Fill(place, donors))


def _gaps_by_column(survey: Survey) -> str:
    """The columns with most missing values."""
    counts = {name: one.missing for name, one in survey.columns.items() if one.missing}
    worst = sorted(counts, key=lambda name: -counts[name])
    more = f" and {counted(len(worst) - 3, 'more column')}" if len(worst) > 3 else ""
    return ", ".join(f"{name!r}: {counts[name]:,}" for name in worst[:3]) + more


def refuse_gaps(opened: Opened, survey: Survey) -> None:
    """Refuse missing values, and name their columns."""
    if survey.gap is None:
        return
    seen = f"{opened.label} has missing values in {survey.incomplete:,} of {counted_rows(survey.size)}"
    where = f"(first: {opened.row(survey, survey.gap)}), by column {_gaps_by_column(survey)}"
    remedy = (
        "leave those rows out (nan_policy='omit', --missing omit); tests of tables can count them ('include')"
    )
    raise ValueError(f"{seen} {where}; {remedy}")


def _refuse_infinite(opened: Opened, survey: Survey) -> None:
    if survey.infinite is None:
        return
    ends = {name: (one.low, one.high) for name, one in survey.columns.items() if one.low <= one.high}
    names = [name for name, both in ends.items() if np.isinf(both).any()]
    where = f"(first: {opened.row(survey, survey.infinite)}, in {listing(names, 3)})"
    raise ValueError(f"{opened.label} has infinite values {where}; drop or replace them")


def _omitted(opened: Opened, survey: Survey, least: int) -> str:
    """What to say of rows that are left out; refused if they are most of a sample."""
    of = f"{survey.incomplete:,} of {counted_rows(survey.size)} of {opened.label}"
    columns = _gaps_by_column(survey)
    left = survey.size - survey.incomplete
    lost = f" left after {survey.incomplete:,} of {survey.size:,} with missing values were dropped"
    checks.size(left, least, opened.label, lost)
    if survey.incomplete > MOST_OMITTED * survey.size:
        seen = f"{of} have missing values ({columns}), and the rest represents few of them"
        include = "nan_policy='include', --missing include; sketches and monitors cannot"
        remedy = f"count missing values ({include}), or leave those columns out"
        raise ValueError(f"{seen}; {remedy}")
    return f"{of} have missing values and are left out ({columns})"

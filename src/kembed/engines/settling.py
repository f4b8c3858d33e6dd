"""Sources of the same columns: opened, surveyed, and coded alike, whatever each of them is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kembed.core import checks
from kembed.core.text import listing
from kembed.data.files import UNNAMED, InputError, checked
from kembed.data.meaning import held_by, refuse_units
from kembed.data.tables import matched, unfit_rows
from kembed.engines.batches import Batches, Call, Engine
from kembed.engines.coding import Meaning, numbers_of_words
from kembed.engines.lines import TextRules
from kembed.engines.opening import Opened, open_value
from kembed.engines.parts import ROWS
from kembed.engines.source import Schema, Source
from kembed.engines.survey import CATEGORIES, LEVELS, NUMBERS, TEXT, WORDS, Bad, Seen, Survey, survey_part

POLICIES = ("raise", "omit")  # "propagate" needs no pass over the rows: the door answers it
IDENTIFIER = "every value is different, as in an identifier"
EMPTY = "it is empty and has no name"
# Of text with more levels than are listed: two different words are taken for equal once in so many pairs,
# which weakens a test and leaves it exact, since a word's group does not know its sample.
GROUPS = 4_096
MANY = f"has more than {LEVELS:,} different values; they are compared in {GROUPS:,} groups by a hash"


class Column(NamedTuple):
    """What a column of one sample turned out to be."""

    categorical: bool
    levels: tuple[str, ...] = ()
    numbers: dict[str, float] | None = None  # of words that mean numbers
    note: str = ""  # how it was read
    many: bool = False  # more levels than are listed
    counts: str = ""  # what numbers count


def open_sources(
    samples: dict[str, Any],
    *,
    nan_policy: str = "raise",
    minimum: int = 1,
    same_columns: bool = True,
    columns: Iterable[str] | None = None,
    rules: TextRules | None = None,
    engine: Engine | None = None,
    rows: int = ROWS,
) -> list[Source]:
    """The samples, by argument name, as sources of coded rows; the errors are those of `read_tables`.

    One pass over each settles what its columns are (a second one where text turns up among numbers). With
    `same_columns` they are matched by name and their levels get the same codes. A column of text with more
    than 10,000 levels is left out if it is an identifier, else compared in groups by a hash, with a note; in
    a single sample it is refused. `columns` are those to be read, `rules` what is said of text tables,
    `engine` where files are read (None: here), `rows` the length of a block.

    >>> import numpy as np
    >>> x, y = open_sources({"x": np.eye(3), "y": np.ones((4, 3))}, rows=2)
    >>> x.size, y.map_sum(lambda block: block.values.sum(axis=0))
    (3, array([4., 4., 4.]))
    """
    checks.choice(nan_policy, "nan_policy", POLICIES)
    if all(isinstance(value, Source) for value in samples.values()):  # opened, and settled, before
        return list(samples.values())
    rules = rules or TextRules()
    opened = [open_value(value, argument, engine, rules, rows) for argument, value in samples.items()]
    chosen = [_chosen(one, columns) for one in opened]
    if same_columns:
        _match(opened, chosen)
    found = [_survey(one, names, frozenset()) for one, names in zip(opened, chosen, strict=True)]
    groups = [list(range(len(opened)))] if same_columns else [[i] for i in range(len(opened))]
    sources: list[Source] = []
    for group in groups:
        own = [opened[i] for i in group]
        sources += _settled(own, [chosen[i] for i in group], [found[i] for i in group], nan_policy, minimum)
    return sources


def told_of(sources: Iterable[Source]) -> tuple[str, ...]:
    """What the reader of a result should know of how its samples were read, each thing once."""
    found: list[str] = []
    for source in sources:
        found += getattr(source, "notes", ())
        left_out = getattr(source, "left_out", {})
        found += [f"column {name!r} is left out: {why}" for name, why in left_out.items()]
    return tuple(dict.fromkeys(found))


def _chosen(opened: Opened, columns: Iterable[str] | None) -> tuple[str, ...]:
    if columns is None:
        return opened.names
    return tuple(checked(columns, list(opened.names), opened.label))


def _match(opened: list[Opened], chosen: list[tuple[str, ...]]) -> None:
    """Refuse samples of other columns, before anything is read."""
    matched(
        [
            Survey((), {name: Seen({}) for name in names}).sample(
                one.label, names, dict.fromkeys(names, (False, "")), one.framed
            )
            for one, names in zip(opened, chosen, strict=True)
        ]
    )


def _survey(opened: Opened, names: tuple[str, ...], as_words: frozenset[str]) -> Survey:
    calls = [Call(part, (number,)) for number, part in enumerate(opened.parts)]
    return opened.engine.total(opened.label, survey_part, calls, names, as_words)


def _settled(
    opened: list[Opened], chosen: list[tuple[str, ...]], found: list[Survey], nan_policy: str, minimum: int
) -> list[Batches]:
    """Samples of the same columns, once all blocks were seen."""
    # Names of a sample by place: those of the first frame, if there is one.
    frame = next((names for one, names in zip(opened, chosen, strict=True) if one.framed), chosen[0])
    own = [frame if one.framed else names for one, names in zip(opened, chosen, strict=True)]
    left_out: dict[str, str] = {}
    for d, name in enumerate(frame):
        seen = [survey.columns[names[d]] for survey, names in zip(found, own, strict=True)]
        if why := _why_left_out(name, seen):
            left_out[name] = why
    kept = [d for d, name in enumerate(frame) if name not in left_out]
    if not kept:
        where = f"{' and '.join(one.label for one in opened)} have no column that can be compared"
        raise InputError(f"{where} ({listing(frame)}: {IDENTIFIER}); give other columns")
    own = [tuple(names[d] for d in kept) for names in own]
    found = [_again(*each) for each in zip(opened, own, found, strict=True)]
    declared = [
        any(CATEGORIES in survey.columns[names[d]].kinds for survey, names in zip(found, own, strict=True))
        for d in range(len(kept))
    ]
    columns = [
        {
            name: _column(name, survey.columns[name], one, len(opened) > 1, said)
            for name, said in zip(names, declared, strict=True)
        }
        for one, survey, names in zip(opened, found, own, strict=True)
    ]
    kinds = [{name: (one.categorical, one.counts) for name, one in each.items()} for each in columns]
    refuse_units(
        matched(
            [
                survey.sample(one.label, names, kind, one.framed)
                for one, survey, names, kind in zip(opened, found, own, kinds, strict=True)
            ]
        )
    )
    for one, survey in zip(opened, found, strict=True):
        _refuse_rows(one, survey, nan_policy, minimum)
    names = tuple(frame[d] for d in kept)
    levels: list[tuple[str, ...]] = []
    units: list[str] = []
    in_groups: list[str] = []
    for d, name in enumerate(names):
        each_one = [each[mine[d]] for each, mine in zip(columns, own, strict=True)]
        here = {level for one in each_one for level in one.levels}
        units.append(next((one.counts for one in each_one if one.counts), ""))
        if any(one.many for one in each_one) or len(here) > LEVELS:
            in_groups.append(name)
            levels.append(tuple(f"group {place:,} of {GROUPS:,}" for place in range(1, GROUPS + 1)))
            continue
        levels.append(tuple(sorted(here)))
    categorical = tuple(bool(here) for here in levels)
    schema = Schema(names, categorical, tuple(levels), tuple(units))
    sources: list[Batches] = []
    for one, survey, mine, each in zip(opened, found, own, columns, strict=True):
        meanings = tuple(
            Meaning(name, groups=GROUPS) if names[d] in in_groups else _meaning(name, each[name], levels[d])
            for d, name in enumerate(mine)
        )
        told = {name: why for name, why in left_out.items() if why != EMPTY}
        notes = tuple(each[name].note for name in mine if each[name].note)
        notes += tuple(f"column {name!r} {MANY}" for name in in_groups if not sources)  # once for all
        parts = tuple(one.parts)
        sources.append(Batches(one.label, schema, parts, meanings, survey, one.engine, told, notes))
    return sources


def _meaning(name: str, column: Column, levels: tuple[str, ...]) -> Meaning:
    if levels:
        return Meaning(name, levels)
    if column.numbers is not None:
        words = tuple(sorted(column.numbers))
        return Meaning(name, words, tuple(column.numbers[word] for word in words))
    return Meaning(name)


def _why_left_out(name: str, seen: list[Seen]) -> str:
    if name.startswith(UNNAMED) and not any(one.present for one in seen):
        return EMPTY  # a comma at the end of every line
    many = [one for one in seen if one.levels is None and NUMBERS not in one.kinds]
    return IDENTIFIER if many and all(one.distinct for one in seen) else ""


def _again(opened: Opened, names: tuple[str, ...], found: Survey) -> Survey:
    """The survey of these columns: a second pass if words turned up among numbers."""
    mixed = {name for name in names if {WORDS, NUMBERS} <= set(found.columns[name].kinds)}
    gone = [seen for name, seen in found.columns.items() if name not in names]
    if not mixed and not any(seen.missing for seen in gone):
        return found
    again = _survey(opened, names, frozenset(mixed))
    for name in mixed:
        first, second = found.columns[name], again.columns[name]
        if second.levels is None or {WORDS, NUMBERS} <= set(second.kinds):
            raise _mixed(name, opened.label, first)
    return again


def _column(name: str, seen: Seen, opened: Opened, compared: bool, declared: bool) -> Column:
    """What a column is, from all of its blocks; very many levels are for samples that are compared.

    Words of a column that is `declared` as categories, in this sample or in another, are never numbers.
    """
    kinds = set(seen.kinds)
    if NUMBERS in kinds and len(kinds) > 1:
        raise _mixed(name, opened.label, seen)
    if len(seen.counts) > 1:
        held = " and ".join(held_by(counts) for counts in seen.counts)
        told = f"column {name!r} of {opened.label} holds {held} in different places"
        raise InputError(f"{told}; give it one kind everywhere")
    if kinds <= {NUMBERS}:
        return Column(False, counts="".join(seen.counts))
    if declared and (compared or seen.levels is not None):
        return Column(True, tuple(seen.levels or ()), many=seen.levels is None)
    if seen.levels is None:
        numbers, _, _ = numbers_of_words(seen.few, _comma(opened), f"column {name!r} of {opened.label}")
        if numbers is not None or not compared:
            raise _too_many(name, opened.label)
        return Column(True, many=True)
    where = f"column {name!r} of {opened.label}"
    numbers, note, counts = numbers_of_words(seen.levels, _comma(opened), where, text=TEXT in kinds)
    if numbers is not None:
        return Column(False, (), numbers, note, counts=counts)
    return Column(True, tuple(seen.levels), note=note)


def _comma(opened: Opened) -> str:
    """What a comma in a number means there, as for `read_words`."""
    if any(part.comma for part in opened.parts):
        return "decimal"
    return "thousands" if any(getattr(part, "separator", "") == "," for part in opened.parts) else ""


def _mixed(name: str, where: str, seen: Seen) -> InputError:
    text = next(kind for kind in (WORDS, TEXT, CATEGORIES) if kind in seen.kinds)
    odd = f" ({seen.odd!r})" if seen.odd else ""
    held = f"numbers in {seen.kinds[NUMBERS]} but text{odd} in {seen.kinds[text]}"
    remedy = "write it alike in all of it, or say which words mean that a value is missing"
    return InputError(f"column {name!r} of {where} holds {held}; {remedy}")


def _too_many(name: str, where: str) -> InputError:
    seen = f"column {name!r} of {where} is text with more than {LEVELS:,} different values"
    return InputError(f"{seen}; make coarser categories or numbers of it, or leave it out")


def _refuse_rows(opened: Opened, survey: Survey, nan_policy: str, minimum: int) -> None:
    least = max(minimum, 1)
    checks.size(survey.size, least, opened.label)
    bad = {"infinite values": survey.infinite}
    if nan_policy == "raise":
        bad["missing values"] = survey.missing
    for what, rows in bad.items():
        if rows.first is not None:
            raise unfit_rows(opened.label, what, rows.many, survey.size, _place(opened, survey, rows))
    of = f"{survey.missing.many} of {survey.size} with missing values"
    checks.size(survey.size - survey.missing.many, least, opened.label, f" left after {of} were dropped")


def _place(opened: Opened, survey: Survey, bad: Bad) -> str:
    """The row of the first of them, in its file."""
    number, row = bad.first or (0, 0)
    file = opened.parts[number].file
    before = zip(opened.parts[:number], survey.rows, strict=False)
    row += sum(rows for part, rows in before if part.file == file)
    return f"row {row + opened.first}{'' if file == opened.label else f' of {file}'}"

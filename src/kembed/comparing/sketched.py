"""Samples that are kept as sketches, described: by the rows they keep, and by totals of all their rows."""

from dataclasses import replace
from typing import Any

from kembed.comparing.changes import Change
from kembed.core.text import rows
from kembed.permutation.pool import Pool, make_pool
from kembed.tables.source import Source
from kembed.tables.table import Table, Tables
from kembed.testing.outcome import Finding
from kembed.testing.reference import with_levels
from kembed.testing.sketch import Sketch, as_rows
from kembed.testing.specification import recoding

LEAST = 5  # rows that a sample is described by
Side = Sketch | Source


def read_sides(x: Any, y: Any, missing: str) -> list[Any]:
    """Two samples of which one or both are sketches; rows are read with the columns of the sketch."""
    first = next(each for each in (x, y) if isinstance(each, Sketch))
    policy = "omit" if missing == "omit" else "raise"  # a sketch has no place for missing values
    both = ((x, "x"), (y, "y"))
    return [
        side if isinstance(side, Sketch) else as_rows(side, name, policy, first.columns)
        for side, name in both
    ]


def describe_sides(sides: list[Side], labels: tuple[str, str]) -> tuple[Tables, Pool | None, tuple[str, ...]]:
    """Both samples as tables of the rows at hand, and as one (None if they are too few); notes on them."""
    schema = next(side for side in sides if isinstance(side, Sketch)).specification.schema
    tables: list[Table] = []
    notes: tuple[str, ...] = ()
    for side, label in zip(sides, labels, strict=True):
        if isinstance(side, Sketch):
            tables.append(side.kept_rows(label))
            notes += (_rests_on(side, len(tables[-1].values), label),)
            continue
        table, note = (side.table(), "") if side.held else side.sample()
        places = list(recoding(schema, side).places)
        tables.append(replace(table.columns(places), names=schema.names))
        notes += (note,) if note else ()
    levels = tuple(
        tuple(dict.fromkeys([*own, *(level for table in tables for level in table.levels[c])]))
        for c, own in enumerate(schema.levels)
    )
    first, second = (replace(table, **with_levels(table, levels)) for table in tables)
    few = min(len(first.values), len(second.values)) < LEAST
    first = replace(first, notes=(*first.notes, *notes))
    return (first, second), None if few else make_pool([first, second], None, "none"), notes


def _rests_on(sketch: Sketch, kept: int, label: str) -> str:
    """Which rows of a sketch its description rests on."""
    whole = f"the sketch of {label} ({rows(sketch.rows)})"
    if kept >= LEAST:
        parts = "regions, pictures, relationships, the AUC and the effect size"
        return f"{parts} rest on the {rows(kept)} that {whole} keeps; the test and the columns on all"
    needed = "regions, how relationships of columns changed, the AUC of a classifier and the effect size"
    return f"{needed} are not available: {whole} keeps {rows(kept)} (keep_rows=, --keep-rows)"


def found_pairs(findings: tuple[Finding, ...], alpha: float) -> tuple[Change, ...]:
    """The pairs of columns that changed, where no rows say how."""
    return tuple(
        Change(
            (found.columns[0], found.columns[1]),
            found.adjusted_pvalue,
            f"the pair of {' and '.join(found.columns)} differs",
        )
        for found in findings
        if len(found.columns) == 2 and found.adjusted_pvalue <= alpha
    )

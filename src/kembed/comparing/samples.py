"""The rows of both samples that are described in pictures and summaries.

Of samples larger than memory these are some, of a sketch those that it keeps; weighted rows are drawn.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from kembed.core.backend import Float, Int
from kembed.core.text import rows
from kembed.permutation.exchange import exchange, unit_codes
from kembed.permutation.pool import Pool, make_pool, row_weights
from kembed.tables.reader import tables_of
from kembed.tables.source import Source
from kembed.tables.table import Table, Tables
from kembed.testing.reference import recoded
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
    first, second = (
        replace(table, values=recoded(table.values, table.levels, levels), levels=levels) for table in tables
    )
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


def pool_of_sources(sources: list[Source]) -> tuple[Tables, Pool, tuple[str, ...]]:
    """Some rows of two sources as tables and as one, and what to say of them."""
    held = all(source.held for source in sources)
    (first, one), (second, other) = ((each.table(), "") if held else each.sample() for each in sources)
    notes = tuple(note for note in (one, other) if note)
    first = replace(first, notes=(*first.notes, *notes))
    return (first, second), make_pool([first, second], None, "none"), notes


def described_rows(
    sources: list[Source], weights: Any, unit: Any, strata: Any, paired: bool, generator: np.random.Generator
) -> tuple[Tables, Pool, Any, tuple[str, ...]]:
    """The rows that are described in pictures and summaries: tables, both as one, clusters, and notes."""
    tables, pool, notes = pool_of_sources(sources)
    if weights is None and unit is None and strata is None and not paired:
        return tables, pool, None, notes
    if paired and all(source.held for source in sources):
        first, second = tables_of(sources, paired, 2)
        tables = first, second
    parts = exchange([*tables], unit, strata)
    clusters = unit_codes([*tables], unit) if isinstance(unit, str) else parts.clusters
    if paired:
        clusters = [np.arange(len(table.values)) for table in tables]
    one, other = parts.tables
    if weights is not None:
        own = row_weights(weights, [one, other])
        rows = [drawn_rows(weight, generator) for weight in own]
        one, other = (
            replace(table, values=table.values[some], rows=table.rows[some])
            for table, some in zip((one, other), rows, strict=True)
        )
        # Copies of one row are in one fold of the AUC.
        clusters = rows if clusters is None else [c[some] for c, some in zip(clusters, rows, strict=True)]
    return (one, other), make_pool([one, other], None, "none", clusters), clusters, notes


def drawn_rows(weights: Float[np.ndarray, " n"], rng: np.random.Generator) -> Int[np.ndarray, " k"]:
    """As many rows as are effective, drawn in proportion to their weights (systematic sampling).

    >>> drawn_rows(np.array([1.0, 1.0, 0.0]), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    total = np.cumsum(weights)
    count = max(2, round(float(total[-1] ** 2 / np.square(weights).sum())))
    return np.searchsorted(total, (np.arange(count) + rng.random()) * total[-1] / count, side="right")

"""Pairs by a column: rows of two samples that have the same value of it."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.text import counted, listing
from kembed.core.text import rows as counted_rows
from kembed.tables.parts import Batches
from kembed.tables.schema import Schema
from kembed.tables.source import Memory, Source, take_rows
from kembed.tables.times import shown

# By a hash: of 100,000 texts two have the same number once in a million samples.
NUMBERS = 2**52


def matched(sources: Sequence[Source], key: str) -> list[Memory]:
    """Both samples, row i of one with row i of the other, without the column by whose values they match.

    Rows without a partner are left out, and a note says how many.

    >>> from kembed.tables.reader import read
    >>> before = {"id": ["a", "b", "c"], "v": [1.0, 2.0, 3.0]}
    >>> after = {"id": ["c", "a", "d"], "v": [4.0, 5.0, 6.0]}
    >>> one, other = matched(read({"x": before, "y": after}, keep=["id"]), "id")
    >>> one.values.ravel().tolist(), other.values.ravel().tolist()
    ([1.0, 3.0], [5.0, 4.0])
    """
    place, schema = _place(sources[0], key), sources[0].schema
    every, of_key = [], set()
    for source in sources:
        if not source.held:
            seen = f"{source.label} has {counted_rows(source.size)}, more than are held at once"
            raise ValueError(f"{seen}, and pairs by a column need all of them; draw some pairs first")
        exact = source
        if isinstance(source, Batches):
            encoders = list(source.encoders)
            spec = encoders[place].spec
            of_key.add(spec.note)
            if spec.groups:  # text of very many values, of which as a key every one has a number
                encoders[place] = encoders[place]._replace(spec=spec._replace(groups=NUMBERS))
                exact = replace(source, encoders=tuple(encoders))
        every.append(exact.with_gaps().fold(take_rows).table)
        _refuse_unfit(source, every[-1][:, place], key, place)
    codes = [values[:, place] for values in every]
    both, *rows = np.intersect1d(codes[0], codes[1], assume_unique=True, return_indices=True)
    if len(both) < 2:
        seen = (
            f"{counted(len(both), 'value')} of {key!r} occur{'s' if len(both) == 1 else ''} in both samples"
        )
        raise ValueError(
            f"{seen}; at least 2 pairs are needed: check that the column is written alike in both"
        )
    kept = [d for d in range(len(schema.names)) if d != place]
    parts = (getattr(schema, one.name) for one in fields(schema))
    rest = Schema(*(tuple(part[d] for d in kept) if part else () for part in parts))
    return [
        Memory(
            source.label,
            rest,
            values[own][:, kept],
            missing=_gaps(source, values[own], kept),
            notes=(
                *(note for note in source.notes if note not in of_key),
                *_notes(sources, codes, both, place, key),
            ),
            left_out=source.left_out,
            only=source.only,
        )
        for source, values, own in zip(sources, every, rows, strict=True)
    ]


def _place(source: Source, key: str) -> int:
    """Where the column stands; refused where there is none, or no other."""
    names = source.schema.names
    if key in source.left_out:
        why = source.left_out[key]
        raise ValueError(f"pairs by {key!r} cannot be made: {why}; name a column of both samples")
    if key not in names:
        raise ValueError(
            f"pairs by {key!r} cannot be made: the samples have {listing(names)}; name one of them"
        )
    if len(names) == 1:
        raise ValueError(f"pairs are made by {key!r}, and there is no other column to compare; give one")
    return names.index(key)


def _refuse_unfit(source: Source, column: Float[np.ndarray, " n"], key: str, place: int) -> None:
    """Refuse a column with missing or repeated values."""
    if np.isnan(column).any() or (source.missing and source.missing[place]):
        seen = f"{key!r} has missing values in {source.label}, which have no partner"
        raise ValueError(f"{seen}; drop those rows, or pair by another column")
    values, counts = np.unique(column, return_counts=True)
    if (counts > 1).any():
        twice = int((counts > 1).sum())
        seen = (
            f"{counted(twice, 'value')} of {key!r} {'is' if twice == 1 else 'are'} repeated in {source.label}"
        )
        seen += _few(source, place, values[counts > 1])
        raise ValueError(f"{seen}; pair by a column that names every row, or make one row of those")


def _notes(
    sources: Sequence[Source], codes: list[Float[np.ndarray, " n"]], both: Any, place: int, key: str
) -> tuple[str, ...]:
    """What to know of rows without a partner."""
    lone = [np.setdiff1d(own, both) for own in codes]
    if not any(map(len, lone)):
        return ()
    each = [
        f"{len(own):,} of {counted_rows(len(all_))} of {source.label}"
        for own, all_, source in zip(lone, codes, sources, strict=True)
        if len(own)
    ]
    few = _few(sources[0], place, np.concatenate(lone))
    return (f"{' and '.join(each)} have no partner by {key!r} and are left out{few}",)


def _few(source: Source, place: int, values: Float[np.ndarray, " k"]) -> str:
    """Some values of the column in brackets; nothing where only their hashes are known."""
    schema = source.schema
    if isinstance(source, Batches) and source.encoders[place].spec.groups:
        return ""
    if schema.categorical[place]:
        return f" ({listing([str(schema.levels[place][int(value)]) for value in values], 3)})"
    unit = schema.units[place] if schema.units else ""
    return f" ({listing([shown(float(value), unit, 15) for value in values], 3)})"


def _gaps(source: Source, table: Float[np.ndarray, "n D"], kept: list[int]) -> tuple[int, ...]:
    """Missing values of every column: nan, the level that stands for them, or what their indicator counts."""
    counts, schema = np.isnan(table).sum(axis=0), source.schema
    for d, encoder in enumerate(source.encoders if isinstance(source, Batches) else ()):
        if encoder.missing_level >= 0:
            counts[d] = (table[:, d] == encoder.missing_level).sum()
    for d, of in enumerate(schema.missing_of):
        if of:
            counts[schema.names.index(of)] = table[:, d].sum()
    return tuple(counts[kept].tolist())

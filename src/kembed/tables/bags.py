"""Bags of rows: a list of tables, or one table in which a column names the bag of every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.text import listing
from kembed.tables.new_rows import read_like
from kembed.tables.parts import Opened
from kembed.tables.reader import PLAIN_OPTIONS, match_columns, open_value, read, tables_of
from kembed.tables.table import Table


class Reading(NamedTuple):
    """How columns were read."""

    table: Table  # without its rows
    left_out: tuple[str, ...]  # columns that were not
    framed: bool  # whether columns go by name


class Bags(NamedTuple):
    """Rows in the codes of a table, and the bag of each; bags are counted in the order in which they come."""

    values: Float[np.ndarray, "N D"]
    number: Int[np.ndarray, " N"]
    given: Int[np.ndarray, " M"]  # the bag of every row that was given, also of those left out
    names: tuple[Any, ...]  # what a column calls the bags, or their places
    reading: Reading


Numbered = tuple[np.ndarray, tuple[Any, ...]]  # the bag of every row, and what bags are called


def read_bags(
    opened: Opened, numbered: Numbered, exclude: Sequence[str], nan_policy: str, like: Reading | None
) -> Bags:
    """The rows of a table without some columns, in its own codes or those of others."""
    given, names = numbered
    if like is None:
        (source,) = read({"X": opened}, nan_policy=nan_policy, exclude=exclude)
        (table,) = tables_of([source])
        values, rows = table.values, table.rows
        like = Reading(
            replace(table, values=values[:0], rows=rows[:0], index=None),
            tuple(source.left_out),
            opened.framed,
        )
    else:
        skipped = (*exclude, *like.left_out)
        values = read_like(opened, "X", like.table, exclude=skipped, gaps=nan_policy == "omit")
        rows = np.flatnonzero(~np.isnan(values).any(axis=1))
        values = values[rows]
        infinite = np.flatnonzero(np.isinf(values).any(axis=1))
        if len(infinite):
            bag = names[given[rows[infinite[0]]]]
            raise ValueError(f"X has infinite values (first: in bag {bag!r}); drop or replace them")
    empty = np.setdiff1d(np.arange(len(names)), given[rows])
    if len(empty):
        lost = " left after those with missing values were dropped" if len(rows) < len(given) else ""
        checks.size(0, 1, f"bag {names[empty[0]]!r}", lost)
    return Bags(values, given[rows], given, names, like)


def stacked(tables: Sequence[Any]) -> tuple[Opened, Numbered]:
    """Tables of the same columns as one, each a bag."""
    opened = [open_value(table, f"X[{i}]") for i, table in enumerate(tables)]
    first = opened[0]
    for one in opened:
        if one.framed != first.framed or len(one.parts) != 1:
            seen = f"{first.label} and {one.label} are not of one kind"
            raise ValueError(f"{seen}; give all bags as data frames in memory, or all as arrays")
    match_columns(opened, common=False)
    whole = first._replace(label="X", parts=[one.parts[0] for one in opened], index=None)
    sizes = [_rows_of(one) for one in opened]
    return whole, (np.repeat(np.arange(len(sizes)), sizes), tuple(range(len(sizes))))


def each_row(opened: Opened) -> Numbered:
    """Every row as a bag."""
    places = np.arange(_rows_of(opened))
    return places, tuple(places.tolist())


def _rows_of(opened: Opened) -> int:
    return opened._replace(names=opened.names[:1]).survey(PLAIN_OPTIONS).size


def bags_of(opened: Opened, column: str) -> Numbered:
    """The bags that a column names, in the order of their first rows."""
    table = read_column(opened, column, "bags")
    values, first, codes = np.unique(table.values[:, 0], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    return place[codes.ravel()], tuple(table.decoded(0, value) for value in values[np.argsort(first)])


def read_column(opened: Opened, column: str, argument: str) -> Table:
    """One column of a table."""
    if column not in opened.names:
        seen = f"{argument}={column!r} is not a column of {opened.label}, which has {listing(opened.names)}"
        raise ValueError(f"{seen}; name one of them")
    (source,) = read({opened.label: opened}, columns=[column])
    if source.encoders[0].spec.groups:
        seen = f"column {column!r} of {opened.label} has too many different texts to be distinguished"
        raise ValueError(f"{seen}; number the bags instead")
    return tables_of([source])[0]

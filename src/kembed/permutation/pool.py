"""Two samples as one: pooled rows in an order that says nothing about the samples, and labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float, Int
from kembed.core.ordering import comes_before, row_order, sorted_rows
from kembed.core.text import rows
from kembed.kernels.space import Space, make_space
from kembed.tables.frames import index_of, refuse_orders
from kembed.tables.table import Table

Rows = Float[np.ndarray, "n D"]
SMALLEST = 1e-100  # weights below this share of the largest: their squares would be lost
# Of the mean weight, what the rows of a sample must have, and of all weight, what is left without a few of
# the heaviest rows (on the other side once in 1,000 relabelings): squares of less are lost beside the rest.
LEAST_SHARE, HEAVIEST = 1e-5, 10


@dataclass(frozen=True, eq=False)
class Pool:
    """Pooled rows, which sample each came from, and its weight (None: all count alike)."""

    space: Space
    labels: Float[np.ndarray, " N"]  # 1 and 0 for rows of two samples; 0, 1, ... for those of more
    weights: Float[np.ndarray, " N"] | None
    names: tuple[str, ...]
    sizes: tuple[int, ...]  # of the samples, as the user gave them
    signs: Float[np.ndarray, " n"] = field(default_factory=lambda: np.ones(0))  # of pairs
    units: Int[np.ndarray, " N"] | None = None  # clusters: rows with the same number move together
    strata: Int[np.ndarray, " N"] | None = None  # labels are exchanged within each; -1: never

    @property
    def size(self) -> int:
        """Rows in all."""
        return len(self.labels)


def make_pool(tables: list[Table], weights: Any, order: str, units: Any = None, strata: Any = None) -> Pool:
    """Pool two tables, or more; `units` are the clusters of the rows of each, no number in two, and `strata`.

    With order "time" rows keep their places, first those of x, then those of y. With "pairs" the two rows of
    a pair are put in an order of their own, `signs` says which pairs were turned for it, and pairs are
    sorted. Otherwise all rows are sorted, and which of two samples is called the first depends on their
    contents alone. So the same seed gives the same answer for any order of the rows and of the samples.
    """
    own = None if weights is None else row_weights(weights, tables)
    beside = [each for each in (own, units, strata) if each is not None]
    parts = [np.column_stack([table.values, *(part[k] for part in beside)]) for k, table in enumerate(tables)]
    signs = np.ones(0)
    if order == "pairs":
        parts, signs = _sorted_pairs(*parts)
    elif order == "none":
        parts = [sorted_rows(part) for part in parts]
        if len(parts) == 2 and comes_before(parts[1], parts[0]):
            parts = parts[::-1]
    rows, names = np.concatenate(parts), tables[0].names
    numbers = [1.0, 0.0] if len(parts) == 2 else np.arange(float(len(parts)))
    labels = np.repeat(numbers, list(map(len, parts)))
    if order == "none":
        places = row_order(rows)  # stable: among equal rows those of the first sample come first
        rows, labels = rows[places], labels[places]
    values, *columns = np.split(rows, range(len(names), rows.shape[1]), axis=1)
    found = iter(column[:, 0].copy() for column in columns)
    heavy = None if weights is None else next(found)
    clusters, groups = (None if each is None else next(found).astype(int) for each in (units, strata))
    space = make_space(np.ascontiguousarray(values), tables[0].categorical)
    sizes = tuple(len(table.values) for table in tables)
    return Pool(space, labels, heavy, names, sizes, signs, clusters, groups)


def _sorted_pairs(x: Rows, y: Rows) -> tuple[list[Rows], Float[np.ndarray, " n"]]:
    """Pairs as (lesser row, greater row), sorted; the sign is -1 where y had the lesser."""
    differs = x != y
    first = np.argmax(differs, axis=1)
    every = np.arange(len(x))
    turned = differs.any(axis=1) & (y[every, first] < x[every, first])
    low, high = np.where(turned[:, None], y, x), np.where(turned[:, None], x, y)
    places = row_order(np.column_stack([low, high]))
    return [low[places], high[places]], np.where(turned, -1.0, 1.0)[places]


def row_weights(weights: Any, tables: list[Table]) -> list[Float[np.ndarray, " n"]]:
    """The weights of the rows of either table."""
    if not isinstance(weights, tuple | list) or len(weights) != 2:
        raise TypeError("weights must be a pair: the weights of the rows of x and those of the rows of y")
    found = []
    for value, table, name in zip(weights, tables, ("weights[0]", "weights[1]"), strict=True):
        refuse_orders([(table.label, table.index), (name, index_of(value))])
        v = np.asarray(checks.positive(value, f"{name} of {table.label}", ndim=(1,)))
        if len(v) != table.given:
            seen = f"{name} has {len(v)} entries, but the sample has {table.given} rows"
            raise ValueError(f"{seen}; give one weight for each row")
        found.append(v[table.rows])
    least, most = (f(list(map(f, found))) for f in (np.min, np.max))
    if not least > most * SMALLEST:
        seen = f"weights go from {least:g} to {most:g}, so that some rows count for nothing beside others"
        raise ValueError(f"{seen}; leave those rows out")
    # Only their ratios count. A power of two changes no digit, and squares of 1e±160 are then numbers.
    found = [np.ldexp(v, -int(np.frexp(most)[1])) for v in found]
    every = np.concatenate(found)
    total, mean = float(every.sum()), float(every.mean())
    heavy = max(min(HEAVIEST, *(len(v) - 1 for v in found)), 1)
    rest = float(np.sort(every)[:-heavy].sum())
    if rest < LEAST_SHARE * total or any(float(v.mean()) < LEAST_SHARE * mean for v in found):
        seen = f"weights of {rows(heavy)}, or of one sample, are nearly all there is"
        raise ValueError(f"{seen}; make them more even, or leave the light rows out")
    return found

"""Where a band excludes 0, as regions a person can read: intervals, or groups of neighbouring rows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kembed.comparing.difference import REFERENCE_ROWS, Bands, Points, balanced_rows, even_grid
from kembed.core.backend import Bool, Float
from kembed.core.text import counted
from kembed.tables import times
from kembed.tables.table import Table, Tables

At = Callable[[Any], Bands]  # the bands at points
GRID = 800  # ends of intervals are found to a fraction of such a step
COUNTED_ROWS = 10 * REFERENCE_ROWS  # a share over 3,000 rows of a sample has a standard error below 1%
LEAST_SHARE, LEAST_ROWS = 0.01, 3  # of the sample with more there: a region of fewer rows is no finding
NEAREST = 3  # neighbours in any case: in many dimensions all rows are far apart


@dataclass(frozen=True)
class Region:
    """A place where one sample has significantly more mass than the other.

    `sign` is +1 where x has more and -1 where y has more. `box` has the range of the region in every column
    (for categories, the levels that occur), `peak` the point of the largest difference, `value` the witness
    there and `band` its simultaneous band. `share_x` and `share_y` are the shares of rows in the region, and
    `units` says what the numbers of a column count, where the data say so.
    """

    sign: int
    box: dict[str, tuple[Any, ...]]
    peak: dict[str, Any]
    value: float
    band: tuple[float, float]
    share_x: float
    share_y: float
    units: dict[str, str] = field(default_factory=dict)

    def describe(self, labels: tuple[str, str] = ("x", "y"), columns: int | None = None) -> str:
        """The region in words, with names for the samples, by at most so many columns."""
        more, less = labels[:: self.sign]
        mine, other = (self.share_x, self.share_y)[:: self.sign]
        parts = [self._range(name, span) for name, span in list(self.box.items())[:columns]]
        hidden = len(self.box) - len(parts)
        rest = f" and {counted(hidden, 'more column')}" if hidden else ""
        return f"more {more}: {', '.join(parts)}{rest}, {mine:.1%} of {more} vs {other:.1%} of {less}"

    def shown(self, name: str, value: Any) -> str:
        """An entry of a column, for people."""
        return times.shown(value, self.units.get(name, "")) if isinstance(value, float) else str(value)

    def _range(self, name: str, span: tuple[Any, ...]) -> str:
        if isinstance(span[0], float):
            return f"{name} in [{self.shown(name, span[0])}, {self.shown(name, span[1])}]"
        words = ", ".join(map(str, span[:3])) + (", ..." if len(span) > 3 else "")
        return f"{name} {'is' if len(span) == 1 else 'in'} {words}"

    def to_dict(self, labels: tuple[str, str] = ("x", "y")) -> dict[str, Any]:
        """The region in the words of docs/json.md."""
        own = {name: getattr(self, name) for name in ("box", "peak", "value", "band")}
        return {"more": labels[:: self.sign][0], **own, "shares": (self.share_x, self.share_y)}

    def __str__(self) -> str:
        return self.describe()


def find_regions(at: At, tables: Tables, likeness: Callable[..., Any], seed: int) -> list[Region]:
    """Intervals of one numeric column, else groups of rows; those with the largest share of rows first."""
    one = len(tables[0].names) == 1 and not tables[0].categorical[0]
    found = _intervals(at, tables) if one else _groups(at, tables, likeness, seed)
    units = {name: unit for d, name in enumerate(tables[0].names) if (unit := tables[0].unit(d))}
    kept = []
    for region in found:
        more, less = (region.share_x, region.share_y)[:: region.sign]
        size = len(tables[region.sign < 0].values)
        if more >= max(LEAST_SHARE, LEAST_ROWS / size) and more > less:
            kept.append(replace(region, units=units))
    return sorted(kept, key=lambda region: -max(region.share_x, region.share_y))


def _region(sign: int, box: Any, peak: Any, bands: Bands, k: Any, shares: Any) -> Region:
    """A region with its peak at point k of the bands."""
    band = float(bands.simultaneous_lower[k]), float(bands.simultaneous_upper[k])
    return Region(sign, box, peak, float(bands.mean[k]), band, float(shares[0]), float(shares[1]))


def _intervals(at: At, tables: Tables) -> list[Region]:
    """Intervals of one numeric column, their ends where the band meets 0, found to a grid step's fraction."""
    x, y = (table.values for table in tables)
    name = tables[0].names[0]
    grid = even_grid((x, y), GRID)[:, 0]
    bands = at(grid[:, None])
    found = []
    for sign, edge in ((1, bands.simultaneous_lower), (-1, -bands.simultaneous_upper)):
        steps = np.diff(np.concatenate([[0], edge > 0.0, [0]]))
        for start, stop in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
            low = float(grid[0] if start == 0 else _crossing(grid, edge, start - 1))
            high = float(grid[-1] if stop == len(grid) else _crossing(grid, edge, stop - 1))
            peak = start + int(np.argmax(sign * bands.mean[start:stop]))
            shares = [np.mean((low <= part) & (part <= high)) for part in (x, y)]
            found.append(_region(sign, {name: (low, high)}, {name: float(grid[peak])}, bands, peak, shares))
    return found


def _crossing(grid: Float[np.ndarray, " g"], edge: Float[np.ndarray, " g"], k: Any) -> Any:
    """Where the edge of the band crosses 0 between grid points k and k + 1."""
    return grid[k] + (grid[k + 1] - grid[k]) * edge[k] / (edge[k] - edge[k + 1])


def _groups(at: At, tables: Tables, likeness: Callable[..., Any], seed: int) -> list[Region]:
    """Groups as `Witness.where` tells; their shares are counted over ten times as many rows.

    Each row that lies outside the band belongs to the group of the row most like it.
    """
    from scipy.sparse.csgraph import connected_components

    x, y = (table.values for table in tables)
    rows = balanced_rows((x, y), REFERENCE_ROWS, seed)
    counted = np.split(balanced_rows((x, y), COUNTED_ROWS, seed), [min(COUNTED_ROWS // 2, len(x))])
    bands, sides = at(rows), [at(part) for part in counted]
    found = []
    for sign in (1, -1):
        members = np.flatnonzero(bands.outside(sign))
        if not len(members):
            continue
        near = neighbours(likeness(rows[members], rows[members]))
        count, label = connected_components(near, directed=False)
        shares = np.zeros((2, count))
        for side, (part, band) in enumerate(zip(counted, sides, strict=True)):
            outside = part[band.outside(sign)]
            if len(outside):
                nearest = likeness(outside, rows[members]).argmax(axis=1)
                shares[side] = np.bincount(label[nearest], minlength=count) / len(part)
        for group in range(count):
            inside = members[label == group]
            peak = inside[np.argmax(sign * bands.mean[inside])]
            place = {name: tables[0].decoded(d, rows[peak, d]) for d, name in enumerate(tables[0].names)}
            box = _box(rows[inside], rows, tables[0])
            found.append(_region(sign, box, place, bands, peak, shares[:, group]))
    return found


def neighbours(like: Float[np.ndarray, "p p"]) -> Bool[np.ndarray, "p p"]:
    """Whether rows are as like as e^(-1/2), for one Gaussian within a lengthscale, or the most alike."""
    near = like >= np.exp(-0.5)
    nearest = min(NEAREST + 1, len(like))  # a row is its own nearest
    np.put_along_axis(near, np.argpartition(-like, nearest - 1, axis=1)[:, :nearest], True, axis=1)
    return near


def _box(inside: Points, rows: Points, table: Table) -> dict[str, tuple[Any, ...]]:
    """The range of every column over a group (levels of categories), what sets it apart most first.

    A group is apart from all rows by its mean in standard deviations, or by the share of levels left out.
    """
    found: list[tuple[float, str, tuple[Any, ...]]] = []
    for d, name in enumerate(table.names):
        column, every = inside[:, d], rows[:, d]
        if table.categorical[d]:
            levels = np.unique(column)
            apart = 1.0 - float(np.mean(np.isin(every, levels)))
            found.append((apart, name, tuple(table.decoded(d, code) for code in levels)))
            continue
        centre = float(np.median(every))
        size = float(np.abs(every - centre).max()) or 1.0  # squares of 1e200 must stay numbers
        scaled = (every - centre) / size
        gap = abs(((column - centre) / size).mean() - scaled.mean())
        apart = gap / (scaled.std() or 1.0)
        found.append((apart, name, (float(column.min()), float(column.max()))))
    return {name: span for _, name, span in sorted(found, key=lambda one: -one[0])}

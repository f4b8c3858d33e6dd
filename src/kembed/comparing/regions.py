"""Where a band excludes 0, as regions a person can read: intervals, or groups of neighbouring rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.comparing.bands import REFERENCE_ROWS, balanced_rows, even_grid
from kembed.core.text import plain

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from kembed.data.tables import Table

GRID = 800
GROUPED_ROWS, COUNTED_ROWS = REFERENCE_ROWS, 10 * REFERENCE_ROWS
NEAREST = 3


@dataclass(frozen=True)
class Region:
    """A place where one sample has surely more mass than the other.

    `sign` is +1 where x has more and -1 where y has more. `box` has the range of the region in every column
    (for categories, the levels that occur), `peak` the point of the largest difference, `value` the witness
    there and `band` its simultaneous band. `share_x` and `share_y` are the shares of rows in the region.
    """

    sign: int
    box: dict[str, tuple[Any, ...]]
    peak: dict[str, Any]
    value: float
    band: tuple[float, float]
    share_x: float
    share_y: float

    def describe(self, labels: tuple[str, str] = ("x", "y"), columns: int | None = None) -> str:
        """The region in words, with names for the samples, by at most so many columns."""
        more, less = labels if self.sign > 0 else labels[::-1]
        mine, other = (self.share_x, self.share_y) if self.sign > 0 else (self.share_y, self.share_x)
        parts = [_range(name, span) for name, span in list(self.box.items())[:columns]]
        hidden = len(self.box) - len(parts)
        rest = f" and {hidden} more column{'s' if hidden > 1 else ''}" if hidden else ""
        return f"more {more}: {', '.join(parts)}{rest}, {mine:.1%} of {more} against {other:.1%} of {less}"

    def to_dict(self, labels: tuple[str, str] = ("x", "y")) -> dict[str, Any]:
        """The region in the words of docs/json.md."""
        return {
            "more": labels[0 if self.sign > 0 else 1],
            "box": self.box,
            "peak": self.peak,
            "value": self.value,
            "band": self.band,
            "shares": (self.share_x, self.share_y),
        }

    def __str__(self) -> str:
        return self.describe()


def _range(name: str, span: tuple[Any, ...]) -> str:
    if isinstance(span[0], float):
        return f"{name} in [{plain(span[0], 3)}, {plain(span[1], 3)}]"
    shown = ", ".join(map(str, span[:3])) + (", ..." if len(span) > 3 else "")
    return f"{name} {'is' if len(span) == 1 else 'in'} {shown}"


def intervals(at: Callable[[Any], Any], tables: tuple[Table, Table]) -> list[Region]:
    """Intervals of one numeric column, their ends where the band meets 0, found to a grid step's fraction."""
    x, y = (table.values[:, 0] for table in tables)
    grid = even_grid(tables[0].values, tables[1].values, GRID)[:, 0]
    bands = at(grid[:, None])
    found = []
    for sign, edge in ((1, bands.simultaneous_lower), (-1, -bands.simultaneous_upper)):
        inside = np.concatenate([[False], edge > 0.0, [False]])
        steps = np.diff(inside.astype(int))
        for start, stop in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
            low = grid[start] if start == 0 else _crossing(grid, edge, start - 1)
            high = grid[stop - 1] if stop == len(grid) else _crossing(grid, edge, stop - 1)
            peak = start + int(np.argmax(sign * bands.mean[start:stop]))
            shares = [float(np.mean((low <= part) & (part <= high))) for part in (x, y)]
            name = tables[0].names[0]
            found.append(
                Region(
                    sign,
                    {name: (float(low), float(high))},
                    {name: float(grid[peak])},
                    float(bands.mean[peak]),
                    (float(bands.simultaneous_lower[peak]), float(bands.simultaneous_upper[peak])),
                    *shares,
                )
            )
    return sorted(found, key=lambda region: -max(region.share_x, region.share_y))


def _crossing(grid: Float[np.ndarray, " g"], edge: Float[np.ndarray, " g"], k: Any) -> float:
    """Where the edge of the band crosses 0 between grid points k and k + 1."""
    return float(grid[k] + (grid[k + 1] - grid[k]) * edge[k] / (edge[k] - edge[k + 1]))


def groups(
    at: Callable[[Any], Any],
    tables: tuple[Table, Table],
    likeness: Callable[[Any, Any], Float[np.ndarray, "p q"]],
    seed: int,
) -> list[Region]:
    """Groups of neighbouring rows where the band excludes 0.

    Groups are formed among at most 300 rows of each sample; their shares are counted over ten times as many,
    each row that lies outside the band belonging to the group of the row most like it.
    """
    from scipy.sparse.csgraph import connected_components

    x, y = (table.values for table in tables)
    rows = balanced_rows(x, y, GROUPED_ROWS, seed)
    counted = np.split(balanced_rows(x, y, COUNTED_ROWS, seed), [min(COUNTED_ROWS // 2, len(x))])
    bands, sides = at(rows), [at(part) for part in counted]
    found = []
    for sign in (1, -1):
        members = np.flatnonzero(_outside(bands, sign))
        if not len(members):
            continue
        count, label = connected_components(
            neighbours(likeness(rows[members], rows[members])), directed=False
        )
        shares = np.zeros((2, count))
        for side, (part, band) in enumerate(zip(counted, sides, strict=True)):
            outside = part[_outside(band, sign)]
            if len(outside):
                nearest = likeness(outside, rows[members]).argmax(axis=1)
                shares[side] = np.bincount(label[nearest], minlength=count) / len(part)
        for group in range(count):
            inside = members[label == group]
            peak = inside[np.argmax(sign * bands.mean[inside])]
            found.append(
                Region(
                    sign,
                    _box(rows[inside], rows, tables[0]),
                    {name: tables[0].decoded(d, rows[peak, d]) for d, name in enumerate(tables[0].names)},
                    float(bands.mean[peak]),
                    (float(bands.simultaneous_lower[peak]), float(bands.simultaneous_upper[peak])),
                    float(shares[0, group]),
                    float(shares[1, group]),
                )
            )
    return sorted(found, key=lambda region: -max(region.share_x, region.share_y))


def _outside(bands: Any, sign: int) -> Bool[np.ndarray, " p"]:
    """Where the simultaneous band lies above 0 (sign 1) or below it."""
    return bands.simultaneous_lower > 0.0 if sign > 0 else bands.simultaneous_upper < 0.0


def neighbours(like: Float[np.ndarray, "p p"]) -> Bool[np.ndarray, "p p"]:
    """Whether rows are as like as e^(-1/2), for one Gaussian within a lengthscale.

    The few most alike are neighbours in any case: in many dimensions all rows are far apart.
    """
    near = like >= np.exp(-0.5)
    nearest = min(NEAREST + 1, len(like))  # a row is its own nearest
    for row, best in enumerate(np.argpartition(-like, nearest - 1, axis=1)[:, :nearest]):
        near[row, best] = True
    return near


def _box(
    inside: Float[np.ndarray, "k D"], rows: Float[np.ndarray, "p D"], table: Table
) -> dict[str, tuple[Any, ...]]:
    """The range of every column over a group (levels of categories), what sets it apart most first."""
    box: dict[str, tuple[Any, ...]] = {}
    for d in np.argsort(-_apart(inside, rows, table), kind="stable"):
        name, column = table.names[d], inside[:, d]
        if table.categorical[d]:
            box[name] = tuple(table.decoded(int(d), code) for code in np.unique(column))
        else:
            box[name] = (float(column.min()), float(column.max()))
    return box


def _apart(
    inside: Float[np.ndarray, "k D"], rows: Float[np.ndarray, "p D"], table: Table
) -> Float[np.ndarray, " D"]:
    """How far a group is from all rows: the mean in standard deviations, the share of levels left out."""
    found = np.zeros(rows.shape[1])
    for d in range(rows.shape[1]):
        if table.categorical[d]:
            found[d] = 1.0 - np.mean(np.isin(rows[:, d], inside[:, d]))
            continue
        centre = float(np.median(rows[:, d]))
        size = float(np.abs(rows[:, d] - centre).max())
        if size > 0.0:
            scaled = (rows[:, d] - centre) / size  # squares of 1e200 must stay numbers
            gap = ((inside[:, d] - centre) / size).mean() - scaled.mean()
            found[d] = abs(gap) / scaled.std()
    return found

"""Where numbers go among sorted ones: `numpy.searchsorted` to the last place, several times as fast for many.

A binary search guesses wrong half of the time, which is most of what it costs. A grid over the bulk of the
sorted numbers says at once which few of them are left, and those are searched without branches.
"""

from dataclasses import dataclass, replace

import numpy as np

from kembed.core.backend import Bool, Float, Int

CELLS = 4  # of the grid, for every sorted number
TAIL = 0.01  # of the sorted numbers on either side that the grid leaves to its first and last cell
MOST = 0.95  # of the sorted numbers are reached by the search in their cell; it is as long as they need
FEW = 64  # numbers to be looked up, or sorted ones, below which a grid is not worth its making


@dataclass(frozen=True, eq=False)
class Lookup:
    """Sorted numbers under a grid: calling it counts those that are not above.

    >>> find = make_lookup(np.array([1.0, 2.0, 2.0, 5.0]))
    >>> find(np.array([0.0, 2.0, 9.0])).tolist()
    [0, 3, 4]
    """

    values: Float[np.ndarray, " K"]  # and nan behind them, as many as the search may look ahead
    ends: tuple[float, float]  # of the bulk
    cells: float  # of the grid, over the length of the bulk
    first: Int[np.ndarray, " G"]  # of every cell: how many values are in cells before it
    steps: tuple[int, ...]  # of the search in a cell: powers of 2, falling
    crowded: Bool[np.ndarray, " G"]  # cells of more values than that reaches

    def __call__(self, numbers: Float[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
        """How many of the values are less than or equal to each; none may be nan."""
        if not len(self.first) or len(numbers) < FEW:
            return np.searchsorted(self.values, numbers, side="right")
        cell = self._cell(numbers)
        found = self.first[cell]
        for step in self.steps:
            beyond = self.values[found + (step - 1)] <= numbers
            found += beyond if step == 1 else step * beyond
        crowded = np.flatnonzero(self.crowded[cell])
        if len(crowded):
            found[crowded] = np.searchsorted(self.values, numbers[crowded], side="right")
        return found

    def _cell(self, numbers: Float[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
        """The cell of each, which never falls where numbers rise: that alone makes the answer right."""
        place = np.maximum(numbers, self.ends[0])
        np.minimum(place, self.ends[1], out=place)
        place -= self.ends[0]
        place *= self.cells
        return place.astype(np.intp)


def make_lookup(values: Float[np.ndarray, " K"]) -> Lookup:
    """A lookup among sorted numbers."""
    none = np.zeros(0, dtype=np.intp)
    plain = Lookup(values, (0.0, 0.0), 0.0, none, (), none > 0)
    tail = int(TAIL * len(values))
    if len(values) < FEW or not np.isfinite(float(values[-1]) - float(values[0])):
        return plain
    low, high = float(values[tail]), float(values[-1 - tail])
    count = CELLS * len(values)
    if not low < high or not np.isfinite(count / (high - low)):
        return plain
    grid = replace(plain, ends=(low, high), cells=(count - 1) / (high - low))
    cell = grid._cell(values)
    inside = np.bincount(cell, minlength=count)
    reach = int(np.quantile(inside[cell], MOST, method="inverted_cdf")).bit_length()
    return replace(
        grid,
        values=np.concatenate([values, np.full(2**reach, np.nan)]),
        first=(np.cumsum(inside) - inside).astype(np.intp),
        steps=tuple(2**k for k in reversed(range(reach))),
        crowded=inside >= 2**reach,
    )

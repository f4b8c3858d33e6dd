"""Single columns in cells: a histogram of every bin, from which every statistic of a column is computed.

A column by itself is a function of one number, so its sums by cell are as good as its rows: any feature of
the column is a weighted sum of the cells.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.kernels.space import Space
from kembed.testing.members.fresh import Fresh

CELLS = 256  # of a numeric column: equal shares of the sample; repeated values have a cell of their own


@dataclass(frozen=True, eq=False)
class Cells:
    """An indicator of the cell that every column's value is in, as a sparse table, column after column."""

    points: tuple[Float[np.ndarray, " L"], ...]  # of every column: what stands for each of its cells, sorted

    @property
    def starts(self) -> list[int]:
        """Where the cells of every column begin, and the end of the last."""
        return np.cumsum([0, *map(len, self.points)]).tolist()

    def __call__(self, rows: Fresh) -> Any:
        """Of these rows."""
        from scipy.sparse import csr_array

        b, D = rows.values.shape
        cells = np.empty((b, D), dtype=np.int64)
        for c, (points, start) in enumerate(zip(self.points, self.starts[:-1], strict=True)):
            middles = points[:-1] + 0.5 * (points[1:] - points[:-1])
            cells[:, c] = start + np.searchsorted(middles, rows.values[:, c])
        shape = (b, self.starts[-1])
        return csr_array((np.ones(b * D), cells.ravel(), np.arange(0, b * D + 1, D)), shape=shape)


def make_cells(space: Space, levels: tuple[int, ...]) -> Cells:
    """Cells of every column: a level each, or even shares of the rows of a sample."""
    places = (np.arange(CELLS) + 0.5) / CELLS
    return Cells(
        tuple(
            np.arange(count, dtype=float)
            if kind
            else np.unique(np.quantile(column, places, method="inverted_cdf"))
            for column, kind, count in zip(space.values.T, space.categorical, levels, strict=True)
        )
    )

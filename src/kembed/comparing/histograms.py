"""Both samples of a column as bars, and the bars in which one is significantly higher.

Where a column differs is then visible whatever the kernel: each bar is tested by Fisher's exact test,
corrected for all bars of the column.
"""

from dataclasses import dataclass

import numpy as np

from kembed.comparing.column_effects import fisher_pvalue
from kembed.core.backend import Float
from kembed.permutation.nulls import holm

Column = Float[np.ndarray, " n"]
LEAST, MOST = 8, 24  # bars: fewer show no shape, more do not fit a small picture
FEW = 16  # values: a bar for each
TAILS = 0.005  # of the rows on either side lie in the first and the last bar, however far out
SURE = 0.05  # for all bars of a column


@dataclass(frozen=True)
class Histogram:
    """Shares of both samples in bars: at `values`, or between `edges`, the outermost of which are open.

    `more` is 1 where x significantly has more rows, -1 where y has, 0 elsewhere.
    """

    edges: tuple[float, ...]
    values: tuple[float, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    more: tuple[int, ...]


def histogram(x: Column, y: Column, levels: int = 0) -> Histogram:
    """The bars of a column; one for each of `levels` codes, or of a few different values."""
    both = np.concatenate([x, y])
    values = np.arange(float(levels)) if levels else np.unique(both)
    edges = np.empty(0)
    if not levels and len(values) > FEW:
        low, high = np.quantile(both, [TAILS, 1.0 - TAILS])
        if not low < high:
            low, high = values[0], values[-1]
        bars = int(np.clip(2.0 * len(both) ** (1.0 / 3.0), LEAST, MOST))  # Rice's rule
        edges = low + (high / bars - low / bars) * np.arange(bars + 1)
        values = np.empty(0)
        counts = [np.bincount(_places(part, edges), minlength=bars) for part in (x, y)]
    else:
        counts = [np.bincount(np.searchsorted(values, part), minlength=len(values)) for part in (x, y)]
    n, m = len(x), len(y)
    pvalues = holm(np.array([fisher_pvalue(int(a), n, int(b), m) for a, b in zip(*counts, strict=True)]))
    shares = counts[0] / n, counts[1] / m
    more = np.where(pvalues <= SURE, np.sign(shares[0] - shares[1]), 0.0).astype(int)
    first, second, ends, at, side = (tuple(part.tolist()) for part in (*shares, edges, values, more))
    return Histogram(ends, at, first, second, side)


def _places(part: Column, edges: Column) -> np.ndarray:
    return np.clip(np.searchsorted(edges, part, side="right") - 1, 0, len(edges) - 2)

"""Rows in strips that a processor's cache holds, for Gaussians at landmarks.

The distances of 4,096 rows to 256 landmarks are eight megabytes, and so is every Gaussian of them: to square
such a table costs more in memory than in arithmetic. So rows go by strips, and in a strip from the widest
scale to the narrowest: a Gaussian that is a power of a wider one takes its place.
"""

from collections.abc import Iterator

import numpy as np

from kembed.core.backend import Float
from kembed.testing.members.fresh import Fresh

ROWS = 512  # of a strip: with 256 landmarks a table is a megabyte; fewer rows cost more calls than they save


class Strip(Fresh):
    """Some of other rows; a Gaussian lasts until one is asked for that is a power of it.

    Narrower scales come after wider ones: what a narrow one is a power of may be gone otherwise, and it is
    computed as if there had never been any.
    """

    def __init__(self, whole: Fresh, part: slice) -> None:
        super().__init__(whole.given, whole.values[part], whole.buffers)
        rows, points = whole.placed
        self.part, self.placed = part, (rows[part], points)

    def _room(self, lengthscale: float, wider: float) -> Float[np.ndarray, "b m"]:
        return self._gaussians.pop(wider)


def in_strips(rows: Fresh) -> Iterator[Strip]:
    """All rows, strip by strip; when all were seen, the rows know their nearest landmarks."""
    found = []
    for start in range(0, max(len(rows.values), 1), ROWS):
        strip = Strip(rows, slice(start, start + ROWS))
        yield strip
        found.append(strip.near)
    nearest, nearness = (np.concatenate(each) for each in zip(*found, strict=True))
    rows.near = (nearest, nearness)

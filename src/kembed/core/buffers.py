"""Tables that are written again and again: memory that is asked for once.

Asking the system for megabytes costs as much as filling them with exponentials, and Dask's workers give all
memory back at once (their `MALLOC_TRIM_THRESHOLD_`), so that every large table of every chunk would ask anew.
"""

from collections.abc import Hashable
from math import prod
from typing import Any

import numpy as np


class Buffers:
    """Memory by name, for tables that nobody reads any more when the name is asked for again.

    >>> buffers = Buffers()
    >>> first = buffers.table("a", (2, 3))
    >>> np.shares_memory(first, buffers.table("a", (1, 2)))
    True
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, np.ndarray] = {}

    def table(self, name: Hashable, shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
        """A table of this shape, with whatever was in it."""
        size = prod(shape)
        held = self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = np.empty(size, dtype)
        return held[:size].reshape(shape)

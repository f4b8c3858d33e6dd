"""scikit-learn's `random_state` as the library's `rng`."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_rng(random_state: Any) -> Any:
    """None, a seed and a `Generator` as they are; a `RandomState` gives a fresh seed and moves on.

    >>> as_rng(7)
    7
    >>> as_rng(np.random.RandomState(0)) == as_rng(np.random.RandomState(0))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state

"""Hypothesis for all rooms: few examples, the same every time; more with KEMBED_HYPOTHESIS=thorough."""

import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

settings.register_profile(
    "quick",
    derandomize=True,
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
settings.register_profile(
    "thorough", max_examples=500, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
settings.load_profile("thorough" if os.environ.get("KEMBED_HYPOTHESIS") == "thorough" else "quick")

# Numbers with few digits: ties, exact sums, and readable examples.
numbers = st.integers(-80, 80).map(lambda k: k / 8.0)
seeds = st.integers(0, 2**32 - 1)
FEW, SEVERAL, COLUMNS = st.integers(3, 8), st.integers(4, 12), st.integers(1, 3)


def tables(rows: Any = SEVERAL, columns: Any = COLUMNS) -> st.SearchStrategy[np.ndarray]:
    """Tables of such numbers."""
    return st.tuples(rows, columns).flatmap(lambda shape: arrays.arrays(float, shape, elements=numbers))


def pairs_of_tables(rows: Any = FEW) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Two tables with the same columns."""
    return st.tuples(rows, rows, COLUMNS).flatmap(
        lambda shape: st.tuples(
            arrays.arrays(float, (shape[0], shape[2]), elements=numbers),
            arrays.arrays(float, (shape[1], shape[2]), elements=numbers),
        )
    )

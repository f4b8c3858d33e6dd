"""Rules of thumb for the lengthscale: the median distance, in both conventions of the literature."""

from __future__ import annotations

from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.linalg import median_of_pairs, squared_distances
from kembed.core.ordering import sorted_rows
from kembed.embeddings.landmarks import choose_landmarks

# Above this many rows the median is taken over a seeded subsample: two million distances fix it to
# about 0.1%, far closer than the rule deserves.
MAX_ROWS = 2_000


def median_lengthscale(x: Any, convention: str = "half", *, max_rows: int = MAX_ROWS) -> float:
    """The median heuristic, as the lengthscale ℓ of `Gaussian(ℓ)`.

    With d the median of ‖x_i - x_j‖ over i < j, the literature has two kernels:

    - `"half"`: exp(-‖x-y‖²/2d²), so ℓ = d (e.g. Muandet et al. 2014);
    - `"full"`: exp(-‖x-y‖²/d²), so ℓ = d/√2 (e.g. Mooij et al. 2015).

    Where at least half of all pairs coincide the median is 0 and useless; then it is taken over the
    pairs that differ. Beyond `max_rows` rows a subsample is used, the same for any order of the rows.

    >>> from kembed import median_lengthscale
    >>> median_lengthscale([0.0, 3.0, 4.0])  # distances 1, 3, 4
    3.0
    >>> round(median_lengthscale([0.0, 3.0, 4.0], convention="full"), 6)
    2.12132
    """
    x = np.asarray(checks.points(x, "x", minimum=2))
    checks.choice(convention, "convention", ("half", "full"))
    max_rows = checks.count(max_rows, "max_rows", 2)
    some = x
    if len(x) > max_rows:
        some = sorted_rows(x)[np.random.default_rng(0).choice(len(x), max_rows, replace=False)]
    # A subsample may hold nothing but duplicates: then the distinct rows decide.
    median = _median_distance(some) or _median_distance(choose_landmarks(x, max_rows))
    if median == 0.0:
        raise ValueError(
            "all rows of x are equal, so no distance says anything about the scale; "
            "check the data, or give the kernel's lengthscale yourself"
        )
    return median / 2.0**0.5 if convention == "full" else median


def _median_distance(x: np.ndarray) -> float:
    """The median of |x_i - x_j|; scaled first, so that usual squares neither overflow nor underflow."""
    offset = np.abs(x - np.median(x, axis=0)).max(axis=1)
    scale = float(np.median(offset)) or float(offset.max()) or 1.0
    with np.errstate(over="ignore"):  # an outlier at infinity leaves the median alone
        return scale * median_of_pairs(np.sqrt(squared_distances(x / scale, x / scale)))

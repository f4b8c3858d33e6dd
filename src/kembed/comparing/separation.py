"""An effect size for people: given a row of each sample, how often their values tell which is which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed.core.ordering import sorted_rows
from kembed.embeddings.empirical import empirical
from kembed.kernels.base import Kernel

if TYPE_CHECKING:
    from jaxtyping import Float

ROWS = 2_000


def separation(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], kernel: Kernel, seed: int) -> float:
    """P{w(X) > w(Y)} + ½ P{w(X) = w(Y)}, with w learned on other rows than those it is judged on.

    X and Y are a random row of either sample; ½ says that rows tell nothing, 1 that they always do. Rows are
    split at random into halves, each half is judged by the empirical witness of the other, and the two shares
    are averaged. At most 2,000 rows of each sample are used.
    """
    rng = np.random.default_rng(seed)
    halves = []
    for rows in (x, y):
        rows = sorted_rows(rows)[rng.permutation(len(rows))[:ROWS]]
        halves.append((rows[::2], rows[1::2]))
    shares = []
    for fold in (0, 1):
        (judged_x, judged_y), (known_x, known_y) = (
            [halves[side][f] for side in (0, 1)] for f in (fold, 1 - fold)
        )
        mu, nu = empirical(known_x, kernel), empirical(known_y, kernel)
        first, second = (mu.mean(rows) - nu.mean(rows) for rows in (judged_x, judged_y))
        shares.append(_superiority(first, second))
    return float(np.mean(shares))


def _superiority(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"]) -> float:
    """P{A > B} + ½ P{A = B} over all pairs."""
    b = np.sort(b)
    below, upto = np.searchsorted(b, a, "left"), np.searchsorted(b, a, "right")
    return float(np.mean(below + upto) / (2.0 * len(b)))

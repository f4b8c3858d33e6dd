"""Effect sizes that compare across columns, and exact tests of shares: plain formulas, no resampling."""

import numpy as np

from kembed.core.backend import Float
from kembed.core.ordering import middle_ranks

Column = Float[np.ndarray, " n"]
NORMAL = 1.959963984540054  # the 97.5% point of a normal law: intervals are 95% intervals
STEPS = 60  # halvings of [0, 1]: more than double precision has digits


def superiority(x: Column, y: Column) -> float:
    """P(y > x) + ½ P(y = x) for a value of each: the AUC, or area under the ROC curve.

    >>> superiority(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    n, m = len(x), len(y)
    ranks = middle_ranks(np.concatenate([x, y]))
    return float((ranks[n:].sum() - 0.5 * m * (m + 1)) / (n * m))


def auc_interval(auc: float, n: float, m: float, *, tests: int = 1) -> tuple[float, float]:
    """The 95% interval of an AUC from n and m rows (Newcombe 2006, method 5), that of all `tests` together.

    All θ with |A - θ| ≤ z √V(θ), V(θ) = θ(1-θ) {1 + k(1-θ)/(2-θ) + kθ/(1+θ)} / (nm), k = (n+m)/2 - 1.

    >>> [round(end, 3) for end in auc_interval(1.0, 20, 20)]
    [0.899, 1.0]
    """
    from scipy.special import ndtri

    k = 0.5 * (n + m) - 1.0
    z = NORMAL if tests == 1 else float(-ndtri(0.025 / tests))

    def beyond(theta: float) -> bool:
        spread = 1.0 + k * (1.0 - theta) / (2.0 - theta) + k * theta / (1.0 + theta)
        return abs(auc - theta) > z * np.sqrt(theta * (1.0 - theta) * spread / (n * m))

    ends = []
    for far in (0.0, 1.0):
        inside, outside = auc, far
        for _ in range(STEPS):
            half = 0.5 * (inside + outside)
            inside, outside = (inside, half) if beyond(half) else (half, outside)
        ends.append(inside)
    return ends[0], ends[1]


def standardised_difference(x: Column, y: Column) -> float:
    """(mean of y - mean of x) / √{(var x + var y)/2}; 0 where both are one value.

    >>> round(standardised_difference(np.array([0.0, 2.0]), np.array([1.0, 3.0])), 3)
    0.707
    """
    size = max(float(np.abs(x).max()), float(np.abs(y).max())) or 1.0  # squares of 1e200 must stay numbers
    x, y = x / size, y / size
    variance = sum(float(part.var(ddof=1)) if len(part) > 1 else 0.0 for part in (x, y))
    gap = float(y.mean() - x.mean())
    return gap / float(np.sqrt(0.5 * variance)) if variance > 0.0 else 0.0


def fisher_pvalue(first: int, of_first: int, second: int, of_second: int) -> float:
    """Fisher's exact test of two shares, two-sided: all tables as unlikely as this one or more so.

    >>> round(fisher_pvalue(8, 10, 1, 6), 4)
    0.035
    """
    from scipy.special import gammaln

    total = first + second
    counts = np.arange(max(0, total - of_second), min(total, of_first) + 1)

    def choices(of: int, some: Column) -> Column:
        return gammaln(of + 1.0) - gammaln(some + 1.0) - gammaln(of - some + 1.0)

    weights = choices(of_first, counts) + choices(of_second, total - counts)
    chances = np.exp(weights - weights.max())
    own = chances[first - counts[0]]
    return float(chances[chances <= own * (1.0 + 1e-7)].sum() / chances.sum())  # ties, up to rounding

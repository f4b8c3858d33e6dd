"""How much a column changed: AUC, means, distribution functions and shares, with intervals."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kembed.core.backend import Bool, Float, Int
from kembed.core.ordering import middle_ranks
from kembed.testing.margin import Margin

Column = Float[np.ndarray, " n"]
Columns = Float[np.ndarray, "n T"]
Codes = Int[np.ndarray, " n"]
Mask = Bool[np.ndarray, " n"]
Interval = tuple[float, float]
NORMAL = 1.959963984540054  # the 97.5% point of a normal law: intervals are 95% intervals
EVENTS = 30  # thresholds, or the most frequent levels, at which clusters are measured
HALVINGS, STEPS = 60, 400  # of the search for the end of an AUC interval; of the integral of a tail


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
        for _ in range(HALVINGS):
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


@dataclass(frozen=True, eq=False)
class Independent:
    """How many independent rows either sample has, and whether those of one belong to those of the other.

    Rows of one of the `clusters` depend on each other: what they are worth differs from column to column.
    """

    first: int
    second: int
    paired: bool = False
    clusters: tuple[Codes, Codes] | None = None

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many clusters either sample has; None where rows are independent."""
        if self.clusters is None:
            return None
        first, second = self.clusters
        return len(np.unique(first)), len(np.unique(second))

    def where(self, first: Mask, second: Mask) -> "Independent":
        """Of some rows of either sample."""
        if self.clusters is None:
            counts = min(self.first, int(first.sum())), min(self.second, int(second.sum()))
            return replace(self, first=counts[0], second=counts[1])
        one, other = self.clusters
        return Independent(int(first.sum()), int(second.sum()), clusters=(one[first], other[second]))

    def effective(self, events: Callable[[int], Columns], alpha: float) -> "Independent":
        """How many independent rows would give the share of some event as large a variance.

        `events` has the columns of 0 and 1 of either sample.
        """
        if self.clusters is None:
            return self
        counts = []
        for side, clusters in enumerate(self.clusters):
            happened = events(side)
            p, variance = happened.mean(axis=0), cluster_variance(happened, clusters, alpha)
            varies = variance > 0.0
            worth = np.min((p * (1.0 - p))[varies] / variance[varies], initial=float(len(happened)))
            counts.append(max(int(worth), 1))
        return Independent(counts[0], counts[1])

    def joined(self, one: float, other: float) -> float:
        """The deviation of a difference from the deviations of its parts; the largest possible, if paired."""
        return one + other if self.paired else float(np.hypot(one, other))


@dataclass(frozen=True)
class ColumnEffect:
    """How much a column changed, with intervals that hold for all columns of a table at once.

    `difference` is the largest difference of the two distribution functions, of categories the largest change
    of a level's share (`level`); `shift` the difference of means in standard deviations, None for
    categories. `verdict` says whether either is "beyond" a margin, all of them "within", or "undecided"; None
    without a margin.
    """

    difference: float
    difference_interval: Interval
    shift: float | None = None
    shift_interval: Interval | None = None
    level: str | None = None
    verdict: str | None = None

    def at(self, margin: Margin) -> "ColumnEffect":
        """The same with the verdict at a margin."""
        largest, shift = margin.of_columns
        ends = [(*self.difference_interval, largest)]
        if shift is not None and self.shift_interval is not None:
            low, high = self.shift_interval
            ends.append((max(low, -high), max(high, -low), shift))
        verdict = "undecided"
        if any(low > limit for low, _, limit in ends):
            verdict = "beyond"
        elif all(high < limit for _, high, limit in ends):
            verdict = "within"
        return replace(self, verdict=verdict)

    def exceeds(self, margin: Margin) -> bool:
        """Whether an estimate is larger than a margin, significantly or not."""
        largest, shift = margin.of_columns
        return self.difference > largest or (shift is not None and abs(self.shift or 0.0) > shift)


def cluster_variance(values: Columns, clusters: Codes, alpha: float) -> Column:
    """The variance of the means of columns, from sums over clusters; larger for few of them.

    By the squared ratio of the quantiles of Student's t and of the normal distribution, with which the
    normal interval becomes Student's.
    """
    from scipy.special import ndtri, stdtrit

    numbers, place = np.unique(clusters, return_inverse=True)
    count = len(numbers)
    if count < 2:
        return np.full(values.shape[1], np.inf)
    away = values - values.mean(axis=0)
    sums = np.stack([np.bincount(place.ravel(), column) for column in away.T], axis=1)
    student = stdtrit(count - 1.0, 1.0 - alpha / 2.0) / ndtri(1.0 - alpha / 2.0)
    return np.square(sums).sum(axis=0) * count / (count - 1.0) / len(values) ** 2 * student**2


def number_effect(x: Column, y: Column, units: Independent, alpha: float) -> ColumnEffect:
    """The effect of a numeric column, its two intervals together at level `alpha`."""
    values = np.unique(np.concatenate([x, y]))
    if len(values) <= 2:  # one threshold: a share
        sides = [(part == values[-1]).astype(float)[:, None] for part in (x, y)]
        own = units.effective(sides.__getitem__, alpha / 2.0)
        p, q = (side.mean(axis=0) for side in sides)
        difference, interval = largest_change(p, q, own, alpha / 2.0)
    else:
        below = [np.searchsorted(np.sort(part), values, side="right") / len(part) for part in (x, y)]
        difference = float(np.abs(below[0] - below[1]).max())
        some = values[np.linspace(0, len(values) - 1, EVENTS + 2).astype(int)[1:-1]]
        own = units.effective(lambda side: ((x, y)[side][:, None] <= some).astype(float), alpha / 2.0)
        width = distribution_width(own, alpha / 2.0)
        interval = max(difference - width, 0.0), min(difference + width, 1.0)
    return ColumnEffect(difference, interval, *shift_interval(x, y, units, alpha / 2.0))


def category_effect(
    x: Column, y: Column, levels: tuple[object, ...], units: Independent, alpha: float
) -> ColumnEffect:
    """The effect of a column of codes: the level whose share changed most."""
    p, q = (np.bincount(part.astype(int), minlength=len(levels)) / len(part) for part in (x, y))
    frequent = np.argsort(-(p + q), kind="stable")[:EVENTS]
    own = units.effective(lambda side: ((x, y)[side][:, None] == frequent).astype(float), alpha)
    difference, interval = largest_change(p, q, own, alpha)
    level = str(levels[int(np.argmax(np.abs(p - q)))])
    return ColumnEffect(difference, interval, level=level)


def distribution_width(units: Independent, alpha: float) -> float:
    """The half width of a band of F - G that holds everywhere with probability 1 - α.

    sup|F̂ - F| exceeds s with probability at most 2exp(-2ns²) (Dvoretzky, Kiefer & Wolfowitz 1956, Massart
    1990). Of independent samples the two tails are convolved, of pairs the bands at α/2 are added.

    >>> round(distribution_width(Independent(1000, 1000), 0.05), 4)
    0.0762
    >>> round(distribution_width(Independent(1000, 1000, paired=True), 0.05), 4)
    0.0936
    """
    if units.paired:
        return float(sum(np.sqrt(np.log(4.0 / alpha) / (2.0 * n)) for n in (units.first, units.second)))
    return _convolved_width(*sorted((units.first, units.second)), alpha)


@lru_cache
def _convolved_width(n: int, m: int, alpha: float) -> float:
    def tail(s: Column, size: int) -> Column:
        return np.minimum(2.0 * np.exp(-2.0 * size * np.square(np.maximum(s, 0.0))), 1.0)

    def exceeded(t: float) -> float:
        """P(A + B > t) of independent A and B with these tails: that of A, and ∫ of its density times B's."""
        s = np.linspace(least, t, STEPS)
        products = 8.0 * n * s * np.exp(-2.0 * n * np.square(s)) * tail(t - s, m)
        return float(tail(s[-1], n) + np.trapezoid(products, s))

    least = float(np.sqrt(np.log(2.0) / (2.0 * n)))
    low, high = least, sum(float(np.sqrt(np.log(4.0 / alpha) / (2.0 * size))) for size in (n, m))
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exceeded(middle) > alpha else (low, middle)
    return high


def largest_change(p: Column, q: Column, units: Independent, alpha: float) -> tuple[float, Interval]:
    """The largest change of a share, with an interval from those of every share (Newcombe 1998, method 10).

    >>> value, ends = largest_change(np.array([48 / 80]), np.array([56 / 70]), Independent(80, 70), 0.05)
    >>> round(value, 4), [round(end, 4) for end in ends]
    (0.2, [0.0524, 0.3339])
    """
    from scipy.special import ndtri

    z = float(-ndtri(alpha / (2.0 * len(p))))
    (a, low_a, high_a), (b, low_b, high_b) = (
        (share, *_wilson(share, n, z)) for share, n in ((p, units.first), (q, units.second))
    )
    change = b - a
    low = change - np.array(list(map(units.joined, b - low_b, high_a - a)))
    high = change + np.array(list(map(units.joined, high_b - b, a - low_a)))
    least, most = np.maximum(np.maximum(low, -high), 0.0), np.minimum(np.maximum(high, -low), 1.0)
    return float(np.abs(change).max()), (float(least.max()), float(most.max()))


def _wilson(share: Column, n: int, z: float) -> tuple[Column, Column]:
    """The interval of a share (Wilson 1927)."""
    middle = (share + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    half = z / (1.0 + z**2 / n) * np.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def shift_interval(
    x: Column, y: Column, units: Independent, alpha: float
) -> tuple[float | None, Interval | None]:
    """The difference of means in standard deviations, with an interval by the delta method.

    d = (ȳ - x̄)/s with s² = (var x + var y)/2; a row x_i contributes -(x_i - x̄)/s - d{(x_i - x̄)² - var x}/4s²
    to its deviation. The quantile is Student's with the degrees of freedom of the smaller sample.
    """
    from scipy.special import stdtrit

    size = max(float(np.abs(x).max()), float(np.abs(y).max())) or 1.0
    if min(len(x), len(y), units.first, units.second) < 2 or np.ptp(x) == np.ptp(y) == 0.0:
        return None, None
    d, parts = standardised_difference(x, y), [x / size, y / size]
    variances = [float(part.var(ddof=1)) for part in parts]
    squared = 0.5 * sum(variances)
    if not squared > 0.0:
        return None, None
    moved = []
    for sign, part, variance in zip((-1.0, 1.0), parts, variances, strict=True):
        away = part - part.mean()
        moved.append(sign * away / np.sqrt(squared) - 0.25 * d * (np.square(away) - variance) / squared)
    if units.clusters is None:
        degrees = min(units.first, units.second) - 1.0
        pairs = zip(moved, (units.first, units.second), strict=True)
        errors = [float(np.sqrt(each.var(ddof=1) / count)) for each, count in pairs]
    else:
        degrees, clustered = np.inf, zip(moved, units.clusters, strict=True)  # Student's t is in the variance
        errors = [float(np.sqrt(cluster_variance(each[:, None], own, alpha)[0])) for each, own in clustered]
    half = float(stdtrit(degrees, 1.0 - alpha / 2.0)) * units.joined(*errors)
    return (d, (d - half, d + half)) if np.isfinite(half) else (None, None)

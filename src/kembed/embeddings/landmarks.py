"""Choosing the landmarks z, and the median lengthscale: always a function of the unordered sample.

Rows are sorted before anything is drawn, so that the choice cannot depend on which rows came first. A
permutation test needs exactly this: landmarks picked by row index would know the labels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.linalg import median_of_pairs, squared_distances
from kembed.core.ordering import sorted_rows

Rows = Float[np.ndarray, "k D"]
DEFAULT_COUNT = 100  # the paper's experiments have as many
PER_COLUMN = 5  # with fewer than a few landmarks a column the volume element is ragged
# Support points are found on at most so many rows; more would not move them visibly. Nor a median
# distance: two million of them fix it to about 0.1%, far closer than the rule deserves.
MAX_ROWS = 2_000
SQUARED = 1e100  # numbers up to this can be squared and added up
LARGEST = 4e307  # numbers up to this have differences
RULES = ("subset", "support", "quantiles")


@dataclass(frozen=True)
class Landmarks:
    """A rule for choosing landmarks, and how many (by default 100, or five a column if that is more).

    - `"subset"`: a random subset of the distinct rows;
    - `"support"`: the points nearest to the sample in energy distance (Mak & Joseph 2018), which stand for it
      far better than a random subset: the default when a kernel is learned;
    - `"quantiles"`: quantiles at equal steps, for one column.

    >>> from kembed import Landmarks, choose_landmarks
    >>> choose_landmarks([4.0, 1.0, 3.0, 2.0, 5.0], Landmarks("quantiles", 2)).ravel()
    array([2., 4.])
    """

    rule: str = "subset"
    size: int | None = None

    def __post_init__(self) -> None:
        checks.choice(self.rule, "rule", RULES)
        if self.size is not None:
            checks.count(self.size, "size")


def as_rule(landmarks: Any, default: str) -> Landmarks | None:
    """What the user wrote as a rule; None if it is the points themselves."""
    if isinstance(landmarks, Landmarks):
        return landmarks
    if isinstance(landmarks, str):
        return Landmarks(checks.choice(landmarks, "landmarks", RULES))
    if landmarks is None:
        return Landmarks(default)
    if isinstance(landmarks, bool | float):
        raise TypeError(f"landmarks must be a whole number, a rule or points, but {landmarks!r} was given")
    if isinstance(landmarks, int | np.integer):
        return Landmarks(default, checks.count(landmarks, "landmarks"))
    return None


def choose_landmarks(x: Any, landmarks: Any = None, *, rng: Any = 0) -> Rows:
    """Landmarks from the data: all distinct rows if few, else chosen by a rule.

    `landmarks` is None, a number of them, a rule (`"subset"`, `"support"`, `"quantiles"`, or
    `Landmarks(rule, size)`), or the points themselves. The default is a random subset of the distinct rows.
    `rng` is a seed or generator; None is fresh entropy, and the default makes the choice a function of the
    set of rows.

    >>> from kembed import choose_landmarks
    >>> choose_landmarks([3.0, 1.0, 2.0, 1.0]).ravel()
    array([1., 2., 3.])
    """
    x = np.asarray(checks.points(x, "x"))
    rule = as_rule(landmarks, "subset")
    if rule is None:
        return np.asarray(checks.points(landmarks, "landmarks", dimension=x.shape[1]))
    return place(x, rule, checks.generator(rng))


def place(x: Float[np.ndarray, "n D"], rule: Landmarks, rng: np.random.Generator) -> Rows:
    """Landmarks by a rule, for a checked table."""
    D = x.shape[1]
    count = rule.size or max(DEFAULT_COUNT, PER_COLUMN * D)
    if rule.rule == "quantiles" and D > 1:
        raise ValueError(f"landmarks='quantiles' is for one column, but x has {D}; use 'support'")
    distinct = np.unique(x, axis=0)
    if len(distinct) <= count:
        return distinct
    if rule.rule == "subset":
        return distinct[np.sort(rng.choice(len(distinct), count, replace=False))]
    if float(np.abs(x).max()) > LARGEST:  # over a power of two, which costs no digit
        return 4.0 * place(x / 4.0, rule, rng)
    rows = sorted_rows(x)
    if rule.rule == "quantiles" or (rule.rule == "support" and D == 1):  # the same thing, exactly
        middle = (np.arange(count) + 0.5) / count
        found = np.unique(np.quantile(rows, middle, axis=0), axis=0)
        # Where many rows are tied most quantiles coincide: then those of the distinct values.
        return found if len(found) == count else np.quantile(distinct, middle, axis=0)
    if len(rows) > MAX_ROWS:
        rows = rows[np.sort(rng.choice(len(rows), MAX_ROWS, replace=False))]
    distinct = np.unique(rows, axis=0)
    if len(distinct) <= count:
        return distinct
    return support_points(rows, distinct[np.sort(rng.choice(len(distinct), count, replace=False))])


def support_points(rows: Rows, start: Rows, steps: int = 60) -> Rows:
    """Points z that bring the energy distance 2 E|z - x| - E|z - z'| to the rows down from `start`.

    The convex-concave step of Mak & Joseph (2018): every z_i moves to
    {Σ_j x_j/|z_i - x_j| + (n/m) Σ_j (z_i - z_j)/|z_i - z_j|} / Σ_j 1/|z_i - x_j|.
    """
    n, m = len(rows), len(start)
    origin = np.median(rows, axis=0)
    away = np.abs(rows - origin)
    size = float(np.median(away, axis=0).max()) or float(away.max()) or 1.0
    if float(away.max()) / size > SQUARED:  # one row is so far out that its square is no number
        size = float(away.max())
    x, z = (rows - origin) / size, (start - origin) / size
    x_norms = (x**2).sum(axis=1)
    floor = 1e-12 * (1.0 + x_norms)  # a squared distance below it is rounding
    doubled, weight, product = 2.0 * x.T, np.empty((m, n)), np.empty((m, n))
    for _ in range(steps):
        z_norms = (z**2).sum(axis=1)[:, None]
        np.add(z_norms, x_norms, out=weight)
        np.subtract(weight, np.dot(z, doubled, out=product), out=weight)
        np.sqrt(np.maximum(weight, floor, out=weight), out=weight)
        np.divide(1.0, weight, out=weight)
        push = 1.0 / np.sqrt(np.maximum(z_norms + z_norms.T - 2.0 * (z @ z.T), 1e-12 * (1.0 + z_norms)))
        np.fill_diagonal(push, 0.0)
        repulsion = (n / m) * (z * push.sum(axis=1)[:, None] - push @ z)
        z = (weight @ x + repulsion) / weight.sum(axis=1)[:, None]
    return np.unique(origin + size * z, axis=0)


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
        seen = "all rows of x are equal, so no distance says anything about the scale"
        raise ValueError(f"{seen}; check the data, or give the kernel's lengthscale yourself")
    return median / 2.0**0.5 if convention == "full" else median


def _median_distance(x: np.ndarray) -> float:
    """The median of |x_i - x_j|; scaled first, so that usual squares neither overflow nor underflow."""
    offset = np.abs(x - np.median(x, axis=0)).max(axis=1)
    scale = float(np.median(offset)) or float(offset.max()) or 1.0
    with np.errstate(over="ignore"):  # an outlier at infinity leaves the median alone
        return scale * median_of_pairs(np.sqrt(squared_distances(x / scale, x / scale)))

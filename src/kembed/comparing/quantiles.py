"""The effect of a treatment along the distribution of an outcome: quantile effects with simultaneous bands.

A control value x has rank F(x), and the treated value of that rank is G⁻¹(F(x)): their difference is the
shift function Δ(x) (Doksum & Sievers 1976). If c is such that |F̂ - Ĝ| ≤ c everywhere with probability 1 - α
where F = G, then for all x at once, with probability at least 1 - α,

    inf{y: Ĝ(y) ≥ F̂(x-) - c}  ≤  G⁻¹(u)  ≤  inf{y: Ĝ(y) > F̂(x) + c}    for all u in (F(x-), F(x)].

With F(x-), the share below x, this holds for outcomes with ties as well.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.drawing import Drawn
from kembed.core.text import aligned, plain, rows
from kembed.core.writing import jsonable
from kembed.permutation.pool import row_weights
from kembed.tables.reader import read, tables_of
from kembed.tables.table import Table

Column = Float[np.ndarray, " n"]
PROBABILITIES = tuple(np.round(np.arange(0.05, 0.951, 0.05), 2).tolist())
DRAWS = 1_000  # of the multiplier bootstrap: the Monte Carlo error of a 90% quantile is about 3% of it
PARTS = 4_000_000  # numbers drawn at once


@dataclass(frozen=True, eq=False, repr=False)
class QuantileEffects(Drawn):
    """What `quantile_effects` returns; arrays have an entry for every probability.

    Attributes
    ----------
    probabilities : ndarray
        Of the control group.
    control, treated : ndarray
        Quantiles: of the control group, and of the treated group at the same rank.
    effect, lower, upper : ndarray
        Treated less control quantile, with the simultaneous band; infinite where the rows do not bound it.
    level : float
        Of the band.
    sizes : tuple of int
        Rows of the treated and of the control group.
    name : str
        The outcome.
    weighted : bool
        Whether rows had weights; the band is then a bootstrap, not exact.

    """

    probabilities: Float[np.ndarray, " k"]
    control: Float[np.ndarray, " k"]
    treated: Float[np.ndarray, " k"]
    effect: Float[np.ndarray, " k"]
    lower: Float[np.ndarray, " k"]
    upper: Float[np.ndarray, " k"]
    level: float
    sizes: tuple[int, int]
    name: str
    weighted: bool = False

    @property
    def sure(self) -> Any:
        """Where the band excludes 0."""
        return (self.lower > 0.0) | (self.upper < 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types; infinite ends are None."""
        return dict(jsonable(vars(self)))

    def _table(self) -> Any:
        header = ("rank", "control", "treated", "effect", f"{self.level:.0%} band")
        columns = (self.probabilities, self.control, self.treated, self.effect, self.lower, self.upper)
        cells = [
            (f"{p:.0%}", plain(c, 3), plain(t, 3), plain(e, 3), f"{plain(low, 3)} to {plain(high, 3)}")
            for p, c, t, e, low, high in zip(*columns, strict=True)
        ]
        return header, cells

    def __repr__(self) -> str:
        n, m = self.sizes
        first = f"Quantile effects on {self.name}, {rows(n)} treated and {m:,} control"
        count = int(self.sure.sum())
        first += f": the {self.level:.0%} band excludes 0 at {count} of {len(self.effect)} ranks"
        header, body = self._table()
        return "\n".join([first, *aligned([header, *body])])


def quantile_effects(
    treated: Any,
    control: Any,
    *,
    probabilities: Any = PROBABILITIES,
    level: float = 0.9,
    weights: tuple[Any, Any] | None = None,
    rng: Any = 0,
) -> QuantileEffects:
    """Estimate how a treatment changed every quantile of an outcome, with a simultaneous band.

    Parameters
    ----------
    treated, control : vector, or table with one column
        The outcome in either group: numbers or dates.
    probabilities : array
        The ranks in the control group that are shown; the band holds for all values at once, whichever are.
    level : float
        Of the band.
    weights : pair of arrays, optional
        Weights of the treated and of the control rows; None in place of one is 1 for every row. The band is
        then that of a multiplier bootstrap, which takes the weights as known.
    rng : int, Generator or None
        Of the bootstrap; without weights nothing is drawn.

    Returns
    -------
    QuantileEffects
        With `effect`, `lower`, `upper`, `plot()` and `to_dict()`.

    Raises
    ------
    TypeError, ValueError
        If there is more than one column, or one that is text or has missing values, or if a probability does
        not lie between 0 and 1.

    References
    ----------
    Doksum, K. A. and Sievers, G. L. (1976), Plotting with confidence: graphical comparisons of two
    populations, Biometrika 63, 421-434.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import quantile_effects
    >>> rng = np.random.default_rng(0)
    >>> quantile_effects(rng.normal(1.0, 2.0, 400), rng.normal(size=400), probabilities=[0.25, 0.5, 0.75])
    Quantile effects on column 0, 400 rows treated and 400 control: the 90% band excludes 0 at 2 of 3 ranks
    rank  control  treated  effect         90% band
    25%     -0.69   -0.408   0.282  -0.388 to 0.716
    50%   -0.0225    0.899   0.921     0.439 to 1.4
    75%     0.721     2.28    1.56        1 to 2.17

    """
    level = checks.level(level)
    ranks = np.atleast_1d(np.asarray(checks.numbers(probabilities, "probabilities")))
    if ranks.ndim != 1 or not len(ranks) or not ((ranks > 0.0) & (ranks < 1.0)).all():
        raise ValueError(f"probabilities must lie between 0 and 1, but {probabilities!r} was given")
    sources = read({"treated": treated, "control": control}, minimum=2)
    one, other = tables_of(sources, False, 2)
    _refuse_other_columns(one)
    y, x = one.values[:, 0], other.values[:, 0]
    w, v = np.ones(len(y)), np.ones(len(x))
    if weights is not None:
        if not isinstance(weights, tuple | list) or len(weights) != 2:
            raise TypeError("weights must be a pair: those of the treated rows and those of the control rows")
        pairs = zip(weights, (one, other), strict=True)
        w, v = row_weights(
            [np.ones(table.given) if own is None else own for own, table in pairs], [one, other]
        )
    reach = _reach(x, y, v, w, level, weights is not None, checks.generator(rng))
    at, before, upto = _quantiles(x, v, ranks)
    values, shares = _steps(y, w)
    middle = _inverse(values, shares, 0.5 * (before + upto), strictly=False)
    low = _inverse(values, shares, before - reach, strictly=False)
    high = _inverse(values, shares, upto + reach, strictly=True)
    low = np.where(before - reach <= 0.0, -np.inf, low)
    return QuantileEffects(
        ranks, at, middle, middle - at, low - at, high - at, level, (len(y), len(x)), one.names[0],
        weights is not None,
    )  # fmt: skip


def _refuse_other_columns(table: Table) -> None:
    if len(table.names) > 1:
        seen = f"the groups have {len(table.names)} columns, and quantile effects are of one outcome"
        raise ValueError(f"{seen}; give one column, as in treated['spend']")
    if table.categorical[0]:
        seen = f"{table.names[0]!r} holds text, which has no quantiles"
        raise TypeError(f"{seen}; give numbers, or compare shares with kembed.compare")


def _reach(x: Column, y: Column, v: Column, w: Column, level: float, weighted: bool, rng: Any) -> float:
    """c: the quantile of the largest difference of the distribution functions where they are equal."""
    if not weighted:
        from scipy.stats import kstwo

        n, m = len(x), len(y)
        return float(kstwo.ppf(level, max(round(n * m / (n + m)), 1)))
    both = np.concatenate([x, y])
    order = np.argsort(both, kind="stable")
    last = np.append(both[order][1:] != both[order][:-1], True)
    each = np.concatenate([v / v.sum(), -w / w.sum()])[order]
    second = np.concatenate([np.zeros(len(x), bool), np.ones(len(y), bool)])[order]
    sups: list[float] = []
    centre = [np.cumsum(np.where(own, np.abs(each), 0.0)) for own in (~second, second)]
    while len(sups) < DRAWS:
        count = min(DRAWS - len(sups), max(1, PARTS // len(both)))
        noise = rng.normal(size=(count, len(both))) * each
        walk = np.cumsum(noise, axis=1)
        for own, share in zip((~second, second), centre, strict=True):
            walk -= noise[:, own].sum(axis=1)[:, None] * share
        sups += np.abs(walk[:, last]).max(axis=1).tolist()
    return float(np.quantile(sups, level))


def _steps(column: Column, weights: Column) -> tuple[Column, Column]:
    """The distinct values, and the distribution function at each."""
    values, where = np.unique(column, return_inverse=True)
    return values, np.minimum(np.cumsum(np.bincount(where.ravel(), weights)) / weights.sum(), 1.0)


def _quantiles(column: Column, weights: Column, ranks: Column) -> tuple[Column, Column, Column]:
    """Quantiles, and the shares of rows below each, and up to each."""
    values, shares = _steps(column, weights)
    places = np.minimum(np.searchsorted(shares, ranks - 1e-12), len(values) - 1)
    return values[places], np.concatenate([[0.0], shares])[places], shares[places]


def _inverse(values: Column, shares: Column, ranks: Column, *, strictly: bool) -> Column:
    """The least value whose share is at least (or exceeds) a rank; infinite where none is."""
    slack = 1e-12 if strictly else -1e-12
    places = np.searchsorted(shares, ranks + slack, side="right" if strictly else "left")
    return np.append(values, np.inf)[places]

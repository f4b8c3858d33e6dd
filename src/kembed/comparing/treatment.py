"""Treatment and control: balance of what was measured before, and quantile effects on an outcome.

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
from kembed.tables.reader import POLICIES, read, tables_of
from kembed.tables.table import Table

Column = Float[np.ndarray, " n"]
BALANCED = 0.1  # standardised mean difference that is usually called negligible (Stuart 2010)
TITLES = {"smd": "SMD", "variance_ratio": "variance ratio", "ks": "KS"}
PROBABILITIES = tuple(np.round(np.arange(0.05, 0.951, 0.05), 2).tolist())
DRAWS = 1_000  # of the multiplier bootstrap: the Monte Carlo error of a 90% quantile is about 3% of it


@dataclass(frozen=True)
class ColumnBalance:
    """One column, or one level of a category ("column = level"), in both groups.

    `smd` is the mean of y less the mean of x over √((var x + var y)/2), shares of rows for a level;
    `variance_ratio` the variance of y over that of x, None for levels and where x is constant; `ks` the
    largest difference of the distribution functions (Kolmogorov-Smirnov), for a level that of the shares. The
    weighted ones are None without weights; `weighted_smd` has the *unweighted* variances, so that both
    compare.
    """

    name: str
    smd: float
    variance_ratio: float | None
    ks: float
    weighted_smd: float | None = None
    weighted_variance_ratio: float | None = None
    weighted_ks: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Balance(Drawn):
    """What `balance` returns: a row for every column and every level of a category.

    `columns` are the rows, the largest standardised mean difference before weighting first; `labels` and
    `sizes` are those of the groups. `effective_sizes`, (Σw)²/Σw² of either group, are None without weights.
    """

    columns: tuple[ColumnBalance, ...]
    labels: tuple[str, str]
    sizes: tuple[int, int]
    effective_sizes: tuple[float, float] | None = None

    @property
    def weighted(self) -> bool:
        """Whether there are weights."""
        return self.effective_sizes is not None

    @property
    def unbalanced(self) -> tuple[ColumnBalance, ...]:
        """The rows whose standardised mean difference, after weighting if there is one, exceeds .1."""
        differences = [one.smd if one.weighted_smd is None else one.weighted_smd for one in self.columns]
        return tuple(one for one, gap in zip(self.columns, differences, strict=True) if abs(gap) > BALANCED)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types."""
        return jsonable(vars(self))

    def _table(self) -> Any:
        keys = [key for name in TITLES for key in (name, f"weighted_{name}")[: 1 + self.weighted]]
        body = []
        for one in self.columns:
            forms = ((getattr(one, key), "+.2f" if key.endswith("smd") else ".2f") for key in keys)
            cells = ("–" if value is None else f"{value:{form}}" for value, form in forms)
            body.append([one.name, *cells])
        return ["", *(TITLES.get(key, "weighted") for key in keys)], body

    def __repr__(self) -> str:
        n, m = self.sizes
        first = f"Balance of {self.labels[0]} ({rows(n)}) and {self.labels[1]} ({rows(m)})"
        if self.effective_sizes is not None:
            k, j = self.effective_sizes
            first += f", weighted (effective {k:,.0f} and {j:,.0f})"
        count = f"{len(self.unbalanced)} of {len(self.columns)} columns and levels differ by more than"
        header, body = self._table()
        return "\n".join([f"{first}: {count} {BALANCED} sd", *aligned([header, *body])])


def balance(
    x: Any,
    y: Any,
    weights: tuple[Any, Any] | None = None,
    *,
    labels: tuple[str, str] = ("x", "y"),
    missing: str = "include",
) -> Balance:
    """Compare what was measured before a treatment in two groups, column by column.

    Parameters
    ----------
    x, y : array or data frame
        The groups, say control and treated: one row an observation, columns as for `compare`.
    weights : pair of arrays, optional
        Weights of the rows of x and of y; None in place of one of them is 1 for every row.
    labels : pair of str
        What to call the groups.
    missing : {"include", "omit", "raise"}
        Missing values: a row of their own for each column that has some (and numbers are those of the other
        rows), rows left out, or an error.

    Returns
    -------
    Balance
        With `columns`, `unbalanced`, `plot()` (a Love plot) and `to_dict()`.

    Raises
    ------
    TypeError, ValueError
        If the samples cannot be read, or weights are not one positive number a row.

    References
    ----------
    Austin, P. C. (2009), Balance diagnostics for comparing the distribution of baseline covariates between
    treatment groups in propensity-score matched samples, Statistics in Medicine 28, 3083-3107.

    Stuart, E. A. (2010), Matching methods for causal inference: a review and a look forward, Statistical
    Science 25, 1-21.

    Examples
    --------
    >>> from kembed import balance
    >>> control = {"age": [30, 40, 50, 60], "site": ["a", "b", "b", "b"]}
    >>> treated = {"age": [50, 60, 70, 60], "site": ["a", "a", "b", "b"]}
    >>> balance(control, treated, labels=("control", "treated"))
    Balance of control (4 rows) and treated (4 rows): 2 of 2 columns and levels differ by more than 0.1 sd
                SMD  variance ratio    KS
    age       +1.39            0.40  0.50
    site = b  -0.46               –  0.25

    """
    checks.choice(missing, "missing", POLICIES)
    one, other = tables_of(read({"x": x, "y": y}, nan_policy=missing, minimum=2), False, 2)
    own = None if weights is None else _weights_of(weights, (one, other))
    found = []
    for d, name in enumerate(one.names):
        seen = [table.observed(d) for table in (one, other)]
        columns = [table.values[some, d] for table, some in zip((one, other), seen, strict=True)]
        if not all(map(len, columns)):
            continue  # all values are missing: the indicator says so
        w = None if own is None else [part[some] for part, some in zip(own, seen, strict=True)]
        if not one.categorical[d]:
            found.append(_balance(name, columns, w, numeric=True))
            continue
        # Of two levels one says all.
        levels = list(enumerate(one.levels[d]))
        for code, level in levels[1:] if len(levels) == 2 else levels:
            title = name if one.missing_of and one.missing_of[d] else f"{name} = {level}"
            found.append(_balance(title, [(part == code) * 1.0 for part in columns], w, numeric=False))
    found.sort(key=lambda row: -abs(row.smd))
    sizes = len(one.values), len(other.values)
    effective = None
    if own is not None:
        first, second = (float(w.sum() ** 2 / np.square(w).sum()) for w in own)
        effective = first, second
    return Balance(tuple(found), (str(labels[0]), str(labels[1])), sizes, effective)


def _balance(name: str, columns: list[Column], weights: list[Column] | None, numeric: bool) -> ColumnBalance:
    """Differences of the means in unweighted standard deviations, ratios of variances, and KS."""
    size = max(float(np.abs(part).max()) for part in columns) or 1.0  # squares of 1e200 must stay numbers
    columns = [part / size for part in columns]
    even = [np.ones(len(part)) for part in columns]
    unit = 0.0
    found: list[Any] = []
    for own in (even,) if weights is None else (even, weights):
        (a, v), (b, w) = (_moments(part, each) for part, each in zip(columns, own, strict=True))
        unit = float(np.sqrt(0.5 * (v + w))) if own is even else unit
        smd = (b - a) / unit if unit > 0.0 else float(np.sign(b - a)) * (np.inf if b != a else 0.0)
        found += [float(smd), w / v if numeric and v > 0.0 else None, ks_distance(*columns, *own)]
    return ColumnBalance(name, *found)


def _moments(column: Column, weights: Column) -> tuple[float, float]:
    """Weighted mean and variance, unbiased where all weights are 1."""
    total = weights.sum()
    mean = float(weights @ column / total)
    shrink = 1.0 - float(np.square(weights).sum()) / total**2
    return mean, float(weights @ np.square(column - mean) / total) / shrink if shrink > 0.0 else 0.0


def ks_distance(x: Column, y: Column, v: Column, w: Column) -> float:
    """The largest difference of two weighted distribution functions.

    >>> ks_distance(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.ones(2), np.array([1.0, 3.0]))
    0.75
    """
    both = np.concatenate([x, y])
    steps = np.concatenate([v / v.sum(), -w / w.sum()])
    order = np.argsort(both, kind="stable")
    sums, values = np.cumsum(steps[order]), both[order]
    last = np.append(values[1:] != values[:-1], True)  # equal values step together
    return float(np.abs(sums[last]).max())


def _weights_of(weights: Any, tables: tuple[Table, Table]) -> list[Column]:
    """A pair of weights as they are used; None stands for 1 for every row."""
    if not isinstance(weights, tuple | list) or len(weights) != 2:
        raise TypeError(
            "weights must be a pair: those of the rows of either group, in the order of the groups"
        )
    pairs = zip(weights, tables, strict=True)
    return row_weights([np.ones(table.given) if own is None else own for own, table in pairs], list(tables))


@dataclass(frozen=True, eq=False, repr=False)
class QuantileEffects(Drawn):
    """What `quantile_effects` returns; arrays have an entry for every probability of the control group.

    `control` and `treated` are quantiles: of the control group, and of the treated group at the same rank.
    `effect` is their difference, treated less control, with a simultaneous band of this `level` from `lower`
    to `upper`, infinite where the rows do not bound it. `sizes` are the rows of the treated and of the
    control group, `name` is the outcome. With weights (`weighted`) the band is a bootstrap, not exact.
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
        return jsonable(vars(self))

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
    if len(one.names) > 1:
        seen = f"the groups have {len(one.names)} columns, and quantile effects are of one outcome"
        raise ValueError(f"{seen}; give one column, as in treated['spend']")
    if one.categorical[0]:
        seen = f"{one.names[0]!r} holds text, which has no quantiles"
        raise TypeError(f"{seen}; give numbers, or compare shares with kembed.compare")
    y, x = one.values[:, 0], other.values[:, 0]
    w, v = _weights_of((None, None) if weights is None else weights, (one, other))
    reach = _reach(x, y, v, w, level, weights is not None, checks.generator(rng))
    at, before, upto = _quantiles(x, v, ranks)
    values, shares = _steps(y, w)
    middle = _inverse(values, shares, 0.5 * (before + upto), strictly=False)
    low = _inverse(values, shares, before - reach, strictly=False)
    high = _inverse(values, shares, upto + reach, strictly=True)
    low = np.where(before - reach <= 0.0, -np.inf, low)
    effects = ranks, at, middle, middle - at, low - at, high - at
    return QuantileEffects(*effects, level, (len(y), len(x)), one.names[0], weights is not None)


def _reach(x: Column, y: Column, v: Column, w: Column, level: float, weighted: bool, rng: Any) -> float:
    """c: the quantile of the largest difference of the distribution functions where they are equal."""
    if not weighted:
        from scipy.stats import kstwo

        n, m = len(x), len(y)
        return float(kstwo.ppf(level, max(round(n * m / (n + m)), 1)))
    both = np.concatenate([x, y])
    order = np.argsort(both, kind="stable")
    last = np.append(np.diff(both[order]) > 0.0, True)
    each = np.concatenate([v / v.sum(), -w / w.sum()])[order]
    second = np.concatenate([np.zeros(len(x), bool), np.ones(len(y), bool)])[order]
    groups = [(own, np.cumsum(np.where(own, np.abs(each), 0.0))) for own in (~second, second)]
    sups = []
    for _ in range(DRAWS):
        noise = rng.normal(size=len(both)) * each
        walk = np.cumsum(noise) - sum(noise[own].sum() * share for own, share in groups)
        sups.append(np.abs(walk[last]).max())
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

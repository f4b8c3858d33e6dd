"""Balance of two groups before and after weighting: standardised mean differences, variance ratios, KS."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.drawing import Drawn
from kembed.core.text import aligned, rows
from kembed.core.writing import jsonable
from kembed.permutation.pool import row_weights
from kembed.tables.reader import POLICIES, read, tables_of

Column = Float[np.ndarray, " n"]
BALANCED = 0.1  # standardised mean difference that is usually called negligible (Stuart 2010)


@dataclass(frozen=True)
class ColumnBalance:
    """One column, or one level of a category, in both groups.

    Attributes
    ----------
    name : str
        The column; of a category, "column = level".
    smd, weighted_smd : float
        Mean of y less mean of x over √((var x + var y)/2), both over the *unweighted* variances, so that they
        compare. Of a level the means are shares.
    variance_ratio, weighted_variance_ratio : float or None
        Variance of y over that of x; None for levels, and where x is constant.
    ks, weighted_ks : float
        Largest difference of the distribution functions (Kolmogorov-Smirnov); of a level that of the shares.

    The weighted ones are None without weights.

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

    Attributes
    ----------
    columns : tuple of ColumnBalance
        The rows, the largest standardised mean difference before weighting first.
    labels : tuple of str
        What the groups are called.
    sizes : tuple of int
        Rows of either group.
    effective_sizes : tuple of float or None
        (Σw)²/Σw² of either group; None without weights.

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
        return tuple(one for one in self.columns if abs(self._last(one)) > BALANCED)

    def _last(self, one: ColumnBalance) -> float:
        return one.smd if one.weighted_smd is None else one.weighted_smd

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types."""
        own = {"labels": self.labels, "sizes": self.sizes, "effective_sizes": self.effective_sizes}
        return dict(jsonable({**own, "columns": [vars(one) for one in self.columns]}))

    def _table(self) -> Any:
        header = ["", "SMD", "variance ratio", "KS"]
        if self.weighted:
            header = ["", "SMD", "weighted", "variance ratio", "weighted", "KS", "weighted"]
        found = []
        for one in self.columns:
            pairs = (
                (one.smd, one.weighted_smd, "+.2f"),
                (one.variance_ratio, one.weighted_variance_ratio, ".2f"),
                (one.ks, one.weighted_ks, ".2f"),
            )
            cells = [_cell(value, form) for *both, form in pairs for value in both[: 1 + self.weighted]]
            found.append([one.name, *cells])
        return header, found

    def __repr__(self) -> str:
        n, m = self.sizes
        first = f"Balance of {self.labels[0]} ({rows(n)}) and {self.labels[1]} ({rows(m)})"
        if self.effective_sizes is not None:
            k, j = self.effective_sizes
            first += f", weighted (effective {k:,.0f} and {j:,.0f})"
        count = f"{len(self.unbalanced)} of {len(self.columns)} columns and levels differ by more than"
        header, body = self._table()
        return "\n".join([f"{first}: {count} {BALANCED} sd", *aligned([header, *body])])


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


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
    own = None
    if weights is not None:
        if not isinstance(weights, tuple | list) or len(weights) != 2:
            raise TypeError("weights must be a pair: the weights of the rows of x and those of the rows of y")
        given = [
            np.ones(table.given) if w is None else w for w, table in zip(weights, (one, other), strict=True)
        ]
        own = row_weights(given, [one, other])
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
    size = max(float(np.abs(part).max()) for part in columns) or 1.0  # squares of 1e200 must stay numbers
    columns = [part / size for part in columns]
    even = [np.ones(len(part)) for part in columns]
    unit = float(np.sqrt(0.5 * sum(_moments(part, w)[1] for part, w in zip(columns, even, strict=True))))
    before = _differences(columns, even, unit, numeric)
    after = (None, None, None) if weights is None else _differences(columns, weights, unit, numeric)
    return ColumnBalance(name, *before, *after)


def _differences(
    columns: list[Column], weights: list[Column], unit: float, numeric: bool
) -> tuple[float, float | None, float]:
    """Standardised mean difference, ratio of variances, and distance of the distribution functions."""
    (a, v), (b, w) = (_moments(part, own) for part, own in zip(columns, weights, strict=True))
    gap = b - a
    smd = gap / unit if unit > 0.0 else float(np.sign(gap)) * (np.inf if gap else 0.0)
    ratio = w / v if numeric and v > 0.0 else None
    return float(smd), ratio, ks_distance(columns[0], columns[1], weights[0], weights[1])


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

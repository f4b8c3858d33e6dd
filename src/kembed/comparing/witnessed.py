"""What `witness` returns: where two distributions differ, by how much, and how sure one can be."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.comparing.bands import Sup, balanced_rows, pointwise, reference_points, suprema
from kembed.comparing.regions import Region, groups, intervals
from kembed.core import checks
from kembed.core.drawing import Drawn
from kembed.core.ordering import sorted_rows
from kembed.data.tables import read_like

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from kembed.comparing.bands import Difference
    from kembed.data.pool import Pool
    from kembed.data.tables import Table
    from kembed.learning.evidence import Evidence
    from kembed.testing.outcome import ColumnResult

# Every column learns its lengthscale up to this many: beyond, learning takes minutes.
ARD_COLUMNS = 16
# The sensitivity is a mean over at most so many rows; fewer in wide tables, with as many changes each.
SENSITIVITY_ROWS, SENSITIVITY_ENTRIES = 1_000, 30_000
RESAMPLES = 999
# Beyond this many rows in all, columns are tested by random features, linear in the rows.
MANY_ROWS = 5_000
# A column with fewer values than this has no lengthscale worth the name.
FEW_VALUES = 10


class Bands(NamedTuple):
    """The witness at points, (p,): its posterior, and intervals that hold at each point or at all at once."""

    mean: Float[np.ndarray, " p"]
    sd: Float[np.ndarray, " p"]
    lower: Float[np.ndarray, " p"]
    upper: Float[np.ndarray, " p"]
    simultaneous_lower: Float[np.ndarray, " p"]
    simultaneous_upper: Float[np.ndarray, " p"]

    @property
    def excludes_zero(self) -> Bool[np.ndarray, " p"]:
        """Whether the simultaneous band excludes 0."""
        return (self.simultaneous_lower > 0.0) | (self.simultaneous_upper < 0.0)


@dataclass(frozen=True)
class ColumnRelevance:
    """What one column has to do with the difference."""

    name: str
    sensitivity: float  # share of the witness's variance that needs this column
    lengthscale: float | None  # ARD, of the pooled rows, in spreads of the column; see `lengthscales`
    pvalue: float  # of the test of this column alone
    adjusted_pvalue: float  # corrected for the number of columns


@dataclass(frozen=True, eq=False, repr=False)
class Witness(Drawn):
    """The posterior of the witness function μ_x - μ_y: positive where x has more mass than y.

    `kernel` is the kernel it was computed with (a list of kernels where hyperparameters were integrated
    out), `learned` the `Evidence` behind it if it was learned, `names` the columns, `sizes` the numbers of
    rows, `level` the level of its bands unless another is asked for.
    """

    kernel: Any
    learned: Evidence | None
    level: float
    tables: tuple[Table, Table] = field(repr=False)
    pool: Pool = field(repr=False)
    difference: Difference = field(repr=False)
    seed: int = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.tables[0].names

    @property
    def categorical(self) -> Bool[np.ndarray, " D"]:
        """Which columns hold categories."""
        return self.tables[0].categorical

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows of x and of y were used."""
        return len(self.tables[0].values), len(self.tables[1].values)

    @functools.cached_property
    def _sup(self) -> Sup:
        return suprema(self.difference, *self._values(), self.reference, self.seed)

    def _values(self) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "m D"]]:
        """The rows of x and of y, in an order of their own."""
        return sorted_rows(self.tables[0].values), sorted_rows(self.tables[1].values)

    @functools.cached_property
    def reference(self) -> Float[np.ndarray, "g D"]:
        """The points over which bands are simultaneous: a grid for one column, else rows of both samples."""
        return reference_points(*self._values(), bool(self.categorical.any()), self.seed)

    def critical(self, level: float | None = None) -> float:
        """c: the half width of the simultaneous band is c √(sd² + f²), f a fifth of the largest sd."""
        return self._sup.critical(self._level(level))

    def _level(self, level: float | None) -> float:
        return self.level if level is None else checks.level(level)

    def at(self, points: Any, level: float | None = None) -> Bands:
        """The witness at points, (p, D), or a data frame with the same columns.

        >>> import numpy as np
        >>> from kembed import Gaussian, witness
        >>> rng = np.random.default_rng(0)
        >>> w = witness(rng.normal(size=200), rng.normal(1.0, size=200), kernel=Gaussian(1.0))
        >>> w.at([-1.0, 2.0]).mean.round(2)  # more x on the left, more y on the right
        array([ 0.26, -0.24])
        """
        level = self._level(level)
        return self._at(read_like(points, "points", self.tables[0]), level)

    def _at(self, points: Float[np.ndarray, "p D"], level: float) -> Bands:
        mean, sd, freedom = self.difference.moments(points)
        reach = pointwise(level, sd, freedom)
        wide = self._sup.critical(level) * self._sup.width(sd)
        return Bands(mean, sd, mean - reach, mean + reach, mean - wide, mean + wide)

    def draws(self, points: Any, size: int = 100, rng: Any = 0) -> Float[np.ndarray, "size p"]:
        """Functions drawn from the posterior of the witness, at points."""
        size = checks.count(size, "size")
        values = read_like(points, "points", self.tables[0])
        return self.difference.draws(values, size, checks.generator(rng))

    def where(self, level: float | None = None) -> list[Region]:
        """Regions where the simultaneous band excludes 0, those with the largest share of rows first.

        For one column they are intervals. Beyond, rows where 0 is excluded are gathered into groups of
        neighbours (within a lengthscale, or among the three nearest), and a group is described by the range
        of its rows in every column. Groups are formed among at most 300 rows of each sample.

        >>> import numpy as np
        >>> from kembed import Gaussian, witness
        >>> rng = np.random.default_rng(0)
        >>> w = witness(rng.normal(size=200), rng.normal(1.0, size=200), kernel=Gaussian(1.0))
        >>> for region in w.where():
        ...     print(region)
        more x: column 0 in [-2.77, 0.163], 55.0% of x against 23.0% of y
        more y: column 0 in [0.704, 4.07], 54.5% of y against 24.0% of x
        """
        level = self._level(level)
        if level not in self._regions:
            at = functools.partial(self._at, level=level)
            if len(self.names) == 1 and not self.categorical.any():
                self._regions[level] = intervals(at, self.tables)
            else:
                self._regions[level] = groups(at, self.tables, self.difference.likeness, self.seed)
        return list(self._regions[level])

    @functools.cached_property
    def _regions(self) -> dict[float, list[Region]]:
        return {}

    @functools.cached_property
    def values_x(self) -> Float[np.ndarray, " n"]:
        """The witness at every row of x; nan at rows that were dropped for missing values."""
        return self._per_row(0)

    @functools.cached_property
    def values_y(self) -> Float[np.ndarray, " m"]:
        """The witness at every row of y."""
        return self._per_row(1)

    def _per_row(self, side: int) -> Float[np.ndarray, " n"]:
        table = self.tables[side]
        values = np.full(table.given, np.nan)
        values[table.rows] = self.difference.mean(table.values)
        return values

    @functools.cached_property
    def sensitivity(self) -> Float[np.ndarray, " D"]:
        """How much the witness needs every column: E{(w(s) - w(s'))²} / 2 Var w.

        s is a row of x or y, alike often, and s' the same row with one column taken from another. A column
        without which the witness would be the same has 0; columns that matter only jointly all have a large
        one, so the sum may exceed 1. Where columns are independent this is the total Sobol index; where they
        repeat one another each has less, since the others stand in for it.
        """
        count = int(np.clip(SENSITIVITY_ENTRIES // len(self.names), 100, SENSITIVITY_ROWS))
        x, y = self._values()
        rows = balanced_rows(x, y, count, self.seed)
        n = min(count // 2, len(x))
        share = np.repeat([0.5 / n, 0.5 / (len(rows) - n)], [n, len(rows) - n])
        w = self.difference.mean(rows)
        other = np.random.default_rng(self.seed).choice(len(rows), len(rows), p=share)
        scale = 2.0 * float(share @ (w - share @ w) ** 2)
        found = np.zeros(rows.shape[1])
        for d in range(rows.shape[1]) if scale > 0.0 else ():
            changed = rows.copy()
            changed[:, d] = rows[other, d]
            found[d] = share @ (self.difference.mean(changed) - w) ** 2 / scale
        return np.minimum(found, 1.0)  # of few rows the estimate may exceed it

    @functools.cached_property
    def lengthscales(self) -> dict[str, float]:
        """ARD lengthscales learned from the pooled rows, in spreads of the columns; numeric ones only.

        A short one says that the rows have structure in that column at a fine scale, whether or not x and y
        differ there. Empty where they cannot be learned (columns that depend on each other or have fewer than
        ten values, fewer rows than columns), and
        for tables of more than 16 numeric columns, where this would take minutes; use
        `learn_kernel(x, Gaussian(np.ones(D)))` if you want to wait.
        """
        numeric = np.flatnonzero(~self.categorical)
        if not 0 < len(numeric) <= ARD_COLUMNS:
            return {}
        from kembed.comparing.witness import thinned
        from kembed.testing.kernel_words import learned_scales

        space = thinned(self.pool.space, self.seed)
        if any(len(np.unique(column)) < FEW_VALUES for column in space.values[:, numeric].T):
            return {}
        try:
            found, _ = learned_scales(space)
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return {}
        return {self.names[d]: float(ell) for d, ell in zip(numeric, found, strict=True)}

    @functools.cached_property
    def column_tests(self) -> tuple[ColumnResult, ...]:
        """The fused test of every column by itself, p-values corrected for their number."""
        from kembed.testing.two_sample import column_tests

        return column_tests(self.pool, RESAMPLES, np.random.default_rng(self.seed), fast=self._many)

    @property
    def _many(self) -> bool:
        """Whether an exact test of every column would take minutes."""
        return sum(self.sizes) > MANY_ROWS

    @functools.cached_property
    def relevance(self) -> tuple[ColumnRelevance, ...]:
        """Which columns the difference is in, the most sensitive first; computed when first asked for."""
        found = [
            ColumnRelevance(
                test.name, float(share), self.lengthscales.get(test.name), test.pvalue, test.adjusted_pvalue
            )
            for test, share in zip(self.column_tests, self.sensitivity, strict=True)
        ]
        return tuple(sorted(found, key=lambda column: -column.sensitivity))

    def column(self, name: str | int) -> Witness:
        """The witness of one column by itself, with a kernel learned for it."""
        from kembed.comparing.witness import of_column

        return of_column(self, name)

    def __repr__(self) -> str:
        n, m = self.sizes
        many = isinstance(self.kernel, list)
        kernel = f"{len(self.kernel)} kernels drawn" if many else repr(self.kernel)
        return f"Witness({n} + {m} rows, {len(self.names)} columns, {kernel}, {self.level:.0%} bands)"

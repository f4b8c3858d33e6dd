"""Where do two distributions differ? The posterior of the witness function: `witness`."""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kembed.comparing import difference
from kembed.comparing.bands import Bands, Sup, make_bands, reference_points, suprema
from kembed.comparing.difference import Difference, Points, Samples, Values, half_of_each, thinned
from kembed.comparing.regions import Region, find_regions
from kembed.comparing.samples import describe_sides, pool_of_sources, read_sides
from kembed.comparing.scales import Chosen, Scale, clearest, finest_sure, one_kernel
from kembed.core import checks
from kembed.core.backend import Bool, Float, Int
from kembed.core.drawing import Drawn
from kembed.core.threads import few_rows_one_thread
from kembed.core.writing import jsonable
from kembed.learning.evidence import Evidence
from kembed.learning.kernel_words import learned_scales
from kembed.permutation.pool import Pool, make_pool
from kembed.tables import diagnostics
from kembed.tables.new_rows import read_like
from kembed.tables.reader import POLICIES, read
from kembed.tables.table import Tables
from kembed.testing.outcome import ColumnResults
from kembed.testing.procedure import is_sketch
from kembed.testing.two_sample import column_tests, mmd_test, opened

RESAMPLES = 999  # of the columns' tests: the default of `mmd_test`
ARD_COLUMNS = 16  # that learn a lengthscale each: beyond, learning takes minutes
# The sensitivity is a mean over at most so many rows; fewer in wide tables, with as many changes each.
SENSITIVITY_ROWS, SENSITIVITY_ENTRIES = 1_000, 30_000
FEW_VALUES = 10  # a column with fewer has no lengthscale worth the name


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
    tables: Tables
    difference: Difference
    seed: int
    tested: ColumnResults | None = None  # by `compare`
    over_scales: Sup | None = None  # of bands that hold over several scales; None where there is one
    widened: float = 1.0  # the scale it is shown at over the learned one
    tried: tuple[Scale, ...] = ()  # scales looked at, the finest first; none where there is one
    _regions: dict[float, list[Region]] = field(default_factory=dict, init=False)  # by level, once found

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

    @property
    def pool(self) -> Pool:
        """Both samples as one, made from the tables when asked for."""
        return make_pool(list(self.tables), None, "none")

    @property
    def _samples(self) -> Samples:
        return self.tables[0].values, self.tables[1].values

    @functools.cached_property
    def reference(self) -> Points:
        """The points over which bands are simultaneous: a grid for one column, else rows of both samples."""
        return reference_points(self.tables, self.seed)

    @functools.cached_property
    def _sup(self) -> Sup:
        if self.over_scales is not None:
            return self.over_scales
        return suprema(self.difference, self._samples, self.reference, self.seed)

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
        return self.at_rows(read_like(points, "points", self.tables[0]), level)

    def at_rows(self, rows: Points, level: float | None = None) -> Bands:
        """The witness at rows as `tables` has them: numbers, and the codes of categories."""
        return make_bands(self.difference, self._sup, rows, self._level(level))

    def side(self, points: Any, level: float | None = None) -> Int[np.ndarray, " p"]:
        """Which sample has significantly more mass around points: 1 for x, -1 for y, 0 for neither.

        With `kernel="auto"` several scales are looked at, and the finest whose band excludes 0 decides.

        >>> import numpy as np
        >>> from kembed import witness
        >>> rng = np.random.default_rng(0)
        >>> w = witness(rng.normal(size=200), rng.normal(1.0, size=200))
        >>> w.side([-1.0, 0.5, 2.0])
        array([ 1,  0, -1])
        """
        bands = self.sure_at(read_like(points, "points", self.tables[0]), level)
        return bands.outside(1).astype(int) - bands.outside(-1)

    def sure_at(self, rows: Points, level: float | None = None) -> Bands:
        """The bands that decide at rows: of the finest scale that excludes 0, else those of `at_rows`."""
        return finest_sure(self.at_rows(rows, level), self.tried, rows, self._level(level))

    def draws(self, points: Any, size: int = 100, rng: Any = 0) -> Float[np.ndarray, "size p"]:
        """Functions drawn from the posterior of the witness, at points."""
        size = checks.count(size, "size")
        values = read_like(points, "points", self.tables[0])
        return self.difference.draws(values, size, checks.generator(rng))

    def where(self, level: float | None = None) -> list[Region]:
        """Regions where the simultaneous band excludes 0, those with the largest share of rows first.

        Where several scales were looked at it is the band of any of them, as for `side`. For one column they
        are intervals. Beyond, rows where 0 is excluded are gathered into groups of neighbours (within a
        lengthscale, or among the three nearest), and a group is described by the range of its rows in every
        column. Groups are formed among at most 300 rows of each sample.

        >>> import numpy as np
        >>> from kembed import Gaussian, witness
        >>> rng = np.random.default_rng(0)
        >>> w = witness(rng.normal(size=200), rng.normal(1.0, size=200), kernel=Gaussian(1.0))
        >>> for region in w.where():
        ...     print(region)
        more x: column 0 in [-2.77, 0.166], 55.0% of x vs 23.0% of y
        more y: column 0 in [0.7, 4.07], 54.5% of y vs 24.0% of x
        """
        level = self._level(level)
        if level not in self._regions:
            at = functools.partial(self.sure_at, level=level)
            self._regions[level] = find_regions(at, self.tables, self.difference.likeness, self.seed)
        return list(self._regions[level])

    @functools.cached_property
    def sensitivity(self) -> Values:
        """How much the witness needs every column: E{(w(s) - w(s'))²} / 2 Var w.

        s is a row of x or y, alike often, and s' the same row with one column taken from another. A column
        without which the witness would be the same has 0; columns that matter only jointly all have a large
        one, so the sum may exceed 1. Where columns are independent this is the total Sobol index; where they
        repeat one another each has less, since the others stand in for it.
        """
        D = len(self.names)
        count = int(np.clip(SENSITIVITY_ENTRIES // D, 100, SENSITIVITY_ROWS))
        half = half_of_each(self._samples, count, self.seed)
        rows, share = half.points, half.weights
        w = self.difference.mean(rows)
        other = np.random.default_rng(self.seed).choice(len(rows), len(rows), p=share)
        scale = 2.0 * float(share @ (w - share @ w) ** 2)
        found = np.zeros(D)
        for d in range(D) if scale > 0.0 else ():
            changed = rows.copy()
            changed[:, d] = rows[other, d]
            found[d] = share @ (self.difference.mean(changed) - w) ** 2 / scale
        return np.minimum(found, 1.0)  # of few rows the estimate may exceed it

    @functools.cached_property
    def lengthscales(self) -> dict[str, float]:
        """ARD lengthscales learned from the pooled rows, in spreads of the columns; numeric ones only.

        A short one says that the rows have structure in that column at a fine scale, whether or not x and y
        differ there. Empty where they cannot be learned (columns that depend on each other or have fewer than
        ten values, fewer rows than columns), and for tables of more than 16 numeric columns, where this would
        take minutes; use `learn_kernel(x, Gaussian(np.ones(D)))` if you want to wait.
        """
        space = self.pool.space
        numeric = np.flatnonzero(~space.categorical)
        if not 0 < len(numeric) <= ARD_COLUMNS:
            return {}
        space = thinned(space, self.seed)
        if any(len(np.unique(column)) < FEW_VALUES for column in space.values[:, numeric].T):
            return {}
        try:
            found, _ = learned_scales(space, "ard")
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return {}
        return {self.names[d]: float(ell) for d, ell in zip(numeric, found, strict=True)}

    @functools.cached_property
    def column_tests(self) -> ColumnResults:
        """The test of every column individually, p-values corrected for their number.

        In a `Comparison` those of its test, else the fused one.
        """
        if self.tested is not None:
            return self.tested
        return column_tests(self.tables, RESAMPLES, np.random.default_rng(self.seed))

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

    def column(self, name: str | int) -> "Witness":
        """The witness of one column by itself, with a kernel learned for it."""
        if (d := column_place(self.names, name)) is None:
            names = ", ".join(map(repr, self.names))
            raise ValueError(f"name must be one of {names}, or a place from 0, but {name!r} was given")
        x, y = (table.column(d) for table in self.tables)
        kernel = one_kernel("auto", make_pool([x, y], None, "none").space, 1, self.seed)
        return fit_witness((x, y), kernel, seed=self.seed, level=self.level)

    def to_dict(self) -> dict[str, Any]:
        """The regions and what the witness rests on, in the words of docs/json.md."""
        payload = {"columns": self.names, "rows": self.sizes, "level": self.level, "notes": self.notes}
        regions = [region.to_dict() for region in self.where()]
        return jsonable({**payload, "kernel_used": repr(self.kernel), "regions": regions})

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the rows: repeated, shared, in order, and more; as of tests."""
        return diagnostics.of_two_samples(*self.tables)

    def __repr__(self) -> str:
        n, m = self.sizes
        kernel = f"{len(self.kernel)} kernels drawn" if isinstance(self.kernel, list) else repr(self.kernel)
        return f"Witness({n} + {m} rows, {len(self.names)} columns, {kernel}, {self.level:.0%} bands)"


@few_rows_one_thread
def witness(
    x: Any,
    y: Any,
    *,
    kernel: Any = "auto",
    level: float = 0.9,
    landmarks: Any = None,
    n_kernels: int = 50,
    nan_policy: str = "raise",
    rng: Any = 0,
) -> Witness:
    """The witness function μ_x - μ_y with its uncertainty: where two samples differ, and by how much.

    It is positive where x has more mass than y, on the scale of the kernel. Its posterior is that of two
    independent embeddings (Eq. 8 of the paper) with the noise of the central limit theorem. In the prior ν
    is half of either sample, so that the true witness is ∫ k(·, u) h(u) ν(du) with |h| ≤ 2.

    Parameters
    ----------
    x, y
        Samples, one row an observation: arrays, or data frames with the same columns. Text and categories are
        compared as equal or not. Of a `Sketch`, or of the file of one or of a `DriftDetector`, the witness is
        that of the rows it keeps.
    kernel
        - `"auto"` (default): regions of the learned scale, of wider ones and one finer, with bands that hold
          over all of them; drawn at the learned scale or a wider one, whichever shows most;
        - `"bkl"`: learned from the pooled sample; `"ard"`: with a lengthscale for each column;
        - `"median"`: the median heuristic;
        - a kernel object in your units, or a `LearnedKernel`;
        - `"posterior"`: integrated over the posterior of the learned lengthscale; `learn_kernel(x).posterior`
          or the `KernelSamples` of `sample_kernel` do the same with a posterior of your own.
    level
        Level of the bands and of `where`, unless they are asked for another.
    landmarks
        Where the embeddings are observed: None (150 rows of each sample; for one column 100 of each and a
        grid), a number, a rule, or points.
    n_kernels
        With a posterior, how many kernels to draw from it.
    nan_policy
        `"raise"`, `"include"` or `"omit"`, as for `mmd_test`.
    rng
        Seed or generator of draws, landmarks and resampling; None is fresh entropy. By default the same data
        always give the same picture.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import witness
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    >>> y[:, 1] += 1.0
    >>> w = witness(x, y, kernel="median")
    >>> [(test.name, test.adjusted_pvalue) for test in w.column_tests]
    [('column 0', 0.697), ('column 1', 0.001)]

    """
    level, n_kernels = checks.level(level), checks.count(n_kernels, "n_kernels")
    checks.choice(nan_policy, "nan_policy", POLICIES)
    x, y = opened(x), opened(y)
    seed, tested = int(checks.generator(rng).integers(2**31)), None
    if is_sketch(x) or is_sketch(y):
        sides = read_sides(x, y, nan_policy)
        tables, pool, notes = describe_sides(sides, ("x", "y"))
        if pool is None:
            raise ValueError(f"{notes[0]}; a witness needs rows")
        tested = mmd_test(*sides, by_column=True, rng=seed).columns
    else:
        tables, pool, _ = pool_of_sources(read({"x": x, "y": y}, nan_policy=nan_policy, minimum=2))
    chosen = one_kernel(kernel, pool.space, n_kernels, seed)
    return fit_witness(tables, chosen, seed=seed, level=level, landmarks=landmarks, tested=tested)


def fit_witness(
    tables: Tables,
    chosen: Chosen,
    seed: int,
    level: float = 0.9,
    landmarks: Any = None,
    tested: ColumnResults | None = None,
) -> Witness:
    """The witness of two checked tables, under what `one_kernel` chose."""
    kernel, learned = chosen
    samples = tables[0].values, tables[1].values
    how: Any = {"landmarks": landmarks, "discrete": bool(tables[0].categorical.any()), "seed": seed}
    fit: Any = functools.partial(difference.fit_difference, samples, **how)
    if not isinstance(kernel, tuple):
        posterior = fit(kernel if isinstance(kernel, list) else [kernel])
        return Witness(kernel, learned, level, tables, posterior, seed, tested)
    tried = [fit([one]) for one, _ in kernel]
    kernels, widened = zip(*kernel, strict=True)
    best, each = clearest(tried, widened, samples, reference_points(tables, seed), level, seed)
    shown = kernels[best], learned, level, tables, tried[best], seed, tested
    return Witness(*shown, each[best][1], widened[best], each)


def column_place(names: tuple[str, ...], column: Any) -> int | None:
    """Where a column stands that is given by its name or its place; None if there is none."""
    if str(column) in names:
        return names.index(str(column))
    number = isinstance(column, int | np.integer) and not isinstance(column, bool)
    return int(column) if number and 0 <= column < len(names) else None

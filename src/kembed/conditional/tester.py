"""Conditional tests within one table: `ConditionalTester`.

Gaussian processes regress both variables on the conditioning set, location and scale. Residuals are mapped to
features of a kernel, and these are centred given the conditioning set. Products of the features of both
variables are compared with the same products under random signs. Regressions are cached by target and
conditioning set.
"""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from kembed.conditional import prewhitening
from kembed.conditional.cache import digest, kept_on_disk
from kembed.conditional.features import (
    BINS,
    LINEAR,
    RowFeatures,
    Screening,
    Settings,
    TableFeatures,
    TargetFeatures,
    check_kernels,
    random_signs,
)
from kembed.conditional.linear import partial_correlation
from kembed.conditional.prewhitening import WEEK, PrewhitenedColumn
from kembed.conditional.regression import check_rank
from kembed.conditional.residuals import as_variable, content_order
from kembed.conditional.result import ConditionalOutcome
from kembed.core import checks
from kembed.core.backend import Float, Int, to_numpy
from kembed.features.ensemble import Ensemble, Plan
from kembed.kernels.base import Kernel
from kembed.permutation.crossings import BinOrders, bin_orders, bin_rows
from kembed.permutation.nulls import wild_weights
from kembed.permutation.rings import Star, draw_star
from kembed.tables.table import Table
from kembed.testing.outcome import resampled_outcome
from kembed.testing.sided import whole_table

MINIMUM = 10  # rows; fewer leave no regression a chance
# Of a test at a level α on a resample: resamples at least, and how many of them may exceed the statistic.
LEAST_RESAMPLES, LEAST_REJECTING = 199, 10
# Raised when the same settings give other numbers than before, so that no cache serves old ones.
VERSION = 14
SMOOTH_LEVEL = 0.1  # p-values up to this are computed again with forests in the regressions


class WholeTables(list[Table]):
    """Tables that are a variable each, in the place of one whose columns are."""


class ConditionalTester:
    """Conditional tests between the columns of one table, with regressions kept and, on request, on disk.

    Parameters
    ----------
    data
        An array or data frame, or what `mmd_test` reads block by block; every column is a variable.
    prewhiten
        The name of a column of `data` that holds times (it is then no variable), or a time for every row.
    cache
        A folder: p-values are kept there, by the content of the data and all settings, and are found again by
        any later run (`joblib.Memory`). Safe to interrupt, and to share between processes.
    rng
        Seed or generator; None is fresh entropy, whose p-values no later run could find in a cache. All tests
        share their multipliers.
    kernel, n_resamples, least_timescale, dependence_length, nan_policy
        As in `conditional_test`.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import ConditionalTester
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=300)
    >>> b = a + rng.normal(size=300)
    >>> c = b + rng.normal(size=300)  # a -> b -> c
    >>> tester = ConditionalTester(np.column_stack([a, b, c]))
    >>> print(tester.test(0, 2).pvalue, tester.test(0, 2, [1]).pvalue > 0.05)
    0.001 True

    """

    def __init__(
        self,
        data: Any,
        *,
        kernel: Any = "fused",
        n_resamples: int = 999,
        prewhiten: Any = None,
        least_timescale: float = WEEK,
        dependence_length: float | None = None,
        cache: Any = None,
        rng: Any = 0,
        nan_policy: str = "raise",
    ) -> None:
        tables: list[Table] = data
        time: Any = None
        if not isinstance(data, WholeTables):  # every column is a table
            table = whole_table(data, nan_policy, MINIMUM)
            named = isinstance(prewhiten, str)
            time = prewhitening.column_times(table, prewhiten, "prewhiten") if named else None
            places = range(len(table.names))
            tables = [table.column(d) for d in places if not (named and table.names[d] == prewhiten)]
            if not tables:
                raise ValueError(f"data has no column but {prewhiten!r}, the times; give the variables too")
        if cache is not None and rng is None:
            what = "a cache finds p-values by their seed, and rng=None is another seed every time"
            raise ValueError(f"{what}; give one, such as rng=0, or leave cache out")
        if dependence_length is not None:
            dependence_length = float(checks.positive(dependence_length, "dependence_length"))
        self._settings = Settings(
            check_kernels(kernel),
            n_resamples=checks.resamples(n_resamples),
            dependence_length=dependence_length,
            seed=int(checks.generator(rng).integers(2**62)),
        )
        self.names = tuple(name for table in tables for name in table.names[:1])
        self.n_computed = 0  # tests that were neither remembered nor found in the cache
        self._regressed_on = ""  # the content of other rows, where regressions are theirs
        self.n_screened = 0  # those of them that screening on few of many rows decided
        self.prewhitened: tuple[PrewhitenedColumn, ...] = ()
        self._time: Float[np.ndarray, " n"] = np.arange(len(tables[0].values), dtype=float)
        if prewhiten is not None:  # rows without a time go
            if time is None:
                time = prewhitening.row_times(prewhiten, tables[0], nan_policy)
            least = float(checks.positive(least_timescale, "least_timescale"))
            seen = ~np.isnan(time)
            self._time = time[seen]
            done = [prewhitening.prewhiten_table(one, time[seen], least) for one in _on_rows(tables, seen)]
            tables = [one for one, _ in done]
            self.prewhitened = tuple(how for _, columns in done for how in columns)
        self._kept = None if cache is None else kept_on_disk(cache)
        self._arrange(tables)

    def _arrange(self, tables: list[Table]) -> None:
        """Put the rows in an order that depends on their content alone, and then says nothing."""
        self._order, self._rank = content_order([as_variable(t.values, t.categorical) for t in tables])
        self._back = np.argsort(self._order)
        self._ranks = np.argsort(np.argsort(self._time, kind="stable"))[self._order]  # places in time
        self.tables = tables  # the variables, a table each, as they are tested
        shuffled = [as_variable(table.values[self._order], table.categorical) for table in tables]
        self._table = TableFeatures(shuffled, self._settings)
        self._pvalues: dict[Any, float] = {}

    @property
    def n_rows(self) -> int:
        """How many rows are tested."""
        return len(self._order)

    @property
    def n_resamples(self) -> int:
        """How many resamples a p-value rests on; the smallest is 1/(n_resamples + 1)."""
        return self._settings.n_resamples

    @property
    def n_regressed(self) -> int:
        """How many regressions of a column on others are kept; all kernels share them."""
        return sum(kind == "residuals" for kind, *_ in self._table.cache.results)

    @cached_property
    def _content(self) -> str:
        """A digest of the data and of all settings."""
        how, order = self._settings, self._order
        parts = [table.values[order].tobytes() for table in self.tables]
        kinds = [table.categorical.tolist() for table in self.tables]
        # Pickled, because what a kernel prints is rounded.
        kernels = [pickle.dumps(to_numpy(one) if isinstance(one, Kernel) else one) for one in how.kernels]
        when = b"" if how.dependence_length is None else b"sized" + self._time[order].tobytes()
        return digest(VERSION, kinds, replace(how, kernels=()), when, self._regressed_on, *kernels, *parts)

    @cached_property
    def _multipliers(self) -> Float[np.ndarray, "m B"]:
        """A draw a column: signs of rows or of bins of rows, or processes that run along the time."""
        how, rng = self._settings, np.random.default_rng(self._settings.seed)
        if how.dependence_length is None:
            return random_signs(BINS + 1 if self._table.binned else self.n_rows, how.n_resamples, rng)
        E = wild_weights(self.n_rows, how.n_resamples, how.dependence_length, rng)
        return np.asarray(E[self._ranks], dtype=np.float32)

    @cached_property
    def _pairings(self) -> Star | BinOrders:
        """Of rows one by one, or of many rows bin by bin."""
        how, rng = self._settings, np.random.default_rng(self._settings.seed)
        if self._table.binned:
            return bin_orders([bin_rows(self.n_rows, how.seed)], how.n_resamples, rng)
        return draw_star(self.n_rows, how.n_resamples, rng)

    def test(self, x: int | str, y: int | str, given: Sequence[int | str] = ()) -> ConditionalOutcome:
        """Test two columns given others, each by its name or number."""
        i, j, inner = self.places(x, y, given)
        outcome = self._outcome(i, j, inner)
        if not inner or any(self.tables[k].categorical.any() for k in (i, j, *inner)):
            return outcome
        first, second, *between = (self.tables[k].values for k in (i, j, *inner))
        return replace(outcome, linear=partial_correlation(first, second, np.hstack(between)))

    def places(
        self, x: Any, y: Any, given: Any, arguments: tuple[str, str, str] = ("x", "y", "given")
    ) -> tuple[int, int, tuple[int, ...]]:
        """The numbers of columns that go by name or number, none of them twice; `arguments` is for errors."""
        one, other, inner = arguments
        i, j = self._place(x, one), self._place(y, other)
        given = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given
        places = tuple(sorted({self._place(column, inner) for column in given}))
        if i == j:
            raise ValueError(f"{one} and {other} are the same column, {self.names[i]!r}; give two")
        if i in places or j in places:
            both = self.names[i if i in places else j]
            raise ValueError(f"column {both!r} is tested and given at once; leave it out of {inner}")
        return i, j, places

    def _place(self, column: Any, argument: str) -> int:
        if isinstance(column, str):
            if column not in self.names:
                known = ", ".join(repr(name) for name in self.names[:12])
                raise ValueError(f"{argument} names {column!r}, but the columns are {known}")
            return self.names.index(column)
        place = checks.count(column, argument, 0)
        if place >= len(self.names):
            raise ValueError(f"{argument} is column {place}, but there are only {len(self.names)}, from 0 on")
        return place

    def pvalue(self, i: int | str, j: int | str, given: Sequence[int | str] = ()) -> float:
        """The p-value of two columns by name or number; kept, and found on disk where there is a cache.

        Of many rows, the smallest attainable one where the first of them reject at 2e-9 (`Screening`).
        """
        first, second, inner = self.places(i, j, given, ("i", "j", "given"))
        key = (min(first, second), max(first, second), inner)
        if key not in self._pvalues:
            if self._kept is None:
                self._pvalues[key] = self._pvalue(*key)
            else:
                self._pvalues[key] = self._kept(digest(self._content, key), partial(self._pvalue, *key))
        return self._pvalues[key]

    def _pvalue(self, i: int, j: int, given: tuple[int, ...]) -> float:
        if self._screening is not None and self._screening.rejects(i, j, given):
            self.n_computed += 1
            self.n_screened += 1
            return 1.0 / (self.n_resamples + 1)
        return self._outcome(i, j, given).pvalue

    def with_kernel(self, kernel: Any) -> Self:
        """The same test with another kernel; regressions are shared."""
        other = self._copy()
        other._settings = replace(self._settings, kernels=check_kernels(kernel))
        other._table = TableFeatures(self._table.variables, other._settings, self._table.cache)
        other._pvalues = {}
        return other

    def on_rows(self, rows: Int[np.ndarray, " r"]) -> Self:
        """The same test on some of the rows; pre-whitening stays as it was."""
        other = self._copy()
        other._time = self._time[rows]
        other._arrange(_on_rows(self.tables, rows))
        return other

    def resampled(self, rows: Int[np.ndarray, " r"], alpha: float) -> Self:
        """The test at a level on some of the rows, with the regressions of all rows and fewer multipliers."""
        places = np.sort(self._back[rows])
        other, own = self._copy(), self._order[places]
        enough = max(LEAST_RESAMPLES, int(np.ceil(LEAST_REJECTING / alpha)) - 1)
        other._settings = replace(self._settings, n_resamples=min(self.n_resamples, enough))
        other._table = RowFeatures(self._table, places, other._settings)
        other._time, other.tables, other._pvalues = self._time[own], _on_rows(self.tables, own), {}
        other._order = other._back = np.arange(len(own))
        other._ranks = np.argsort(np.argsort(other._time, kind="stable"))
        other._regressed_on = self._content  # p-values in a cache are of these regressions
        return other

    def _copy(self) -> Self:
        """A tester like this one without what was computed from its rows and settings."""
        other = self.__class__.__new__(self.__class__)
        computed = ("_content", "_multipliers", "_pairings", "_screening")
        other.__dict__.update({name: value for name, value in vars(self).items() if name not in computed})
        other.n_computed = other.n_screened = 0
        return other

    def __getstate__(self) -> dict[str, Any]:
        """For another process: what is kept in memory stays here."""
        fresh = TableFeatures(self._table.variables, self._settings)
        return vars(self._copy()) | {"_table": fresh, "_pvalues": {}}

    @np.errstate(over="ignore", invalid="ignore")  # a statistic that is not finite is refused
    def _outcome(self, i: int, j: int, given: tuple[int, ...]) -> ConditionalOutcome:
        self.n_computed += 1
        table = self._table
        if given:
            check_rank(table.conditioner(given), stacklevel=4)
        smooth = table.target(i, given), table.target(j, given)
        result = self._compared(i, j, given, smooth)
        if given and result.pvalue <= SMOOTH_LEVEL:
            trees = table.target(i, given, trees=True), table.target(j, given, trees=True)
            result = result if trees == smooth else self._compared(i, j, given, trees)
        return result

    def _compared(
        self, i: int, j: int, given: tuple[int, ...], both: tuple[TargetFeatures, TargetFeatures]
    ) -> ConditionalOutcome:
        """The outcome of a test of two targets."""
        (left, right), table, length = both, self._table, self._settings.dependence_length
        conditional = bool(left.regressions or right.regressions)
        null = "multiplier" if conditional or length is not None else "permutation"
        more: dict[str, Any] = {
            "given": tuple(name for v in given for name in self.tables[v].names),
            "residuals": tuple(side.residuals[self._back] for side in (left, right)),
            "regressions": (left.regressions, right.regressions),
            "prewhitened": self.prewhitened,
        }
        if not left.features or not right.features:  # a constant, or a function of what is given
            zeros = np.zeros(self.n_resamples)
            return ConditionalOutcome(0.0, 1.0, zeros, "none", 0.0, "HSIC", null, (self.n_rows,), **more)
        bins: tuple[int, ...] = ()
        if null == "multiplier":
            when = np.argsort(self._ranks)
            weighting = given if conditional else ()
            values, names = table.statistics(left, right, weighting, self._multipliers, when)
            bins = (BINS,) if table.binned and length is None else ()
        else:
            pairings = self._pairings
            bins = (pairings.bins,) if isinstance(pairings, BinOrders) else ()
            turned = self._rank[i] > self._rank[j]  # which is permuted must not depend on which was called x
            values, names = table.permuted(*(both[::-1] if turned else both), pairings)
            names = tuple(pair[::-1] for pair in names) if turned else names
        # Groups of equal weight: kernels of residuals, these weighted by features of `given`, linear.
        groups = np.unique([2 * (LINEAR in name) + (len(name) > 2) for name in names], return_inverse=True)[1]
        plan = Plan(np.arange(len(names)), groups, np.zeros(groups.max() + 1, dtype=bool))
        ensemble = Ensemble((), names, plan)
        result = resampled_outcome("HSIC", (self.n_rows,), ensemble, values, null, False)
        return ConditionalOutcome.of(replace(result, bins=bins), **more)

    @cached_property
    def _screening(self) -> Screening | None:
        """Tests of few of many rows; none for rows in order of time."""
        ordered = self._settings.dependence_length is not None
        return Screening(self._table) if self._table.many and not ordered else None


def _on_rows(tables: list[Table], rows: Any) -> list[Table]:
    return [replace(table, values=table.values[rows], rows=table.rows[rows]) for table in tables]

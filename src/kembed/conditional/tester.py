"""Conditional tests within one table: `ConditionalTester`, and the outcome of a test.

Each side is regressed on what is given by Gaussian processes, location and spread; residuals are mapped to
features of a kernel; what the conditioning variables say about those is taken out; products of the two sides'
features are compared with the same products under random signs. Regressions are kept by target and
conditioning set.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kembed.conditional import prewhitening
from kembed.conditional.cache import Store, digest
from kembed.conditional.conditioning import as_variable
from kembed.conditional.features import check
from kembed.conditional.multipliers import multipliers
from kembed.conditional.prewhitening import WEEK, Whitened
from kembed.conditional.residuals import ColumnRegression
from kembed.conditional.sides import Settings, Side, Sides
from kembed.core import checks
from kembed.core.backend import to_numpy
from kembed.data.tables import Table, read_tables
from kembed.kernels.base import Kernel
from kembed.testing.outcome import TestOutcome, resampled_outcome
from kembed.testing.procedure import Choice

if TYPE_CHECKING:
    from jaxtyping import Float, Int

MINIMUM = 10
# With fewer rows than this for every direction of `given`, regressions on it are hopeless.
MOST_RANK = 5
# Raised when the same settings give other numbers than before, so that no cache serves old ones.
VERSION = 3


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalOutcome(TestOutcome):
    """The outcome of a conditional test: a `TestOutcome`, and what was regressed.

    `residuals` are those of x and of y, in the order of the rows given, in units of their spread; a side
    that is a function of what is given has none. `regressions` has the Gaussian processes of every column of
    either side. `prewhitened` says what pre-whitening did to every column.
    """

    given: tuple[str, ...] = ()
    residuals: tuple[Any, ...] = ()
    regressions: tuple[tuple[ColumnRegression, ...], ...] = ()
    prewhitened: tuple[Whitened, ...] = ()

    def __repr__(self) -> str:
        lines = [super().__repr__()]
        for side, columns, residuals in zip("xy", self.regressions, self.residuals, strict=False):
            if columns:
                left = ", ".join(f"{column.unexplained:.0%}" for column in columns)
                what = "determined by what is given" if not residuals.shape[1] else f"unexplained: {left}"
                lines.append(f"{side} given {len(self.given)} columns: {what}")
        lines += [repr(one) for one in self.prewhitened]
        return "\n".join(lines)


class ConditionalTester:
    """Conditional tests between the columns of one table, with regressions kept and, on request, on disk.

    Parameters
    ----------
    data
        An array or data frame; every column is a variable.
    prewhiten
        The name of a column of `data` that holds times (it is then no variable), or a time for every row.
    cache
        A folder: p-values are kept there, by the content of the data and all settings, and are found again by
        any later run. Safe to interrupt, and to share between processes.
    kernel, n_resamples, least_timescale, memory, cross_fit, rng, nan_policy
        As in `conditional_test`. All tests share their multipliers.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import ConditionalTester
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=300)
    >>> b = a + rng.normal(size=300)
    >>> c = b + rng.normal(size=300)  # a -> b -> c
    >>> tester = ConditionalTester(np.column_stack([a, b, c]), rng=0)
    >>> print(tester.test(0, 2).pvalue, tester.test(0, 2, [1]).pvalue > 0.05)
    0.001 True

    """

    def __init__(
        self,
        data: Any,
        *,
        kernel: Any = "bkl",
        n_resamples: int = 999,
        prewhiten: Any = None,
        least_timescale: float = WEEK,
        memory: float | None = None,
        cross_fit: bool = True,
        cache: Any = None,
        rng: Any = None,
        nan_policy: str = "raise",
    ) -> None:
        if isinstance(prewhiten, str):
            data, prewhiten = _without(data, prewhiten)
        (table,), missing = read_tables(
            {"data": data}, nan_policy=nan_policy, same_columns=False, paired=True, minimum=MINIMUM
        )
        if missing:
            raise ValueError("data has missing values; use nan_policy='omit', or drop or impute those rows")
        (table,), time = timed([table], prewhiten, nan_policy)
        columns = [
            Table(table.values[:, [d]], (name,), table.categorical[[d]], table.rows, table.given)
            for d, name in enumerate(table.names)
        ]
        self._fill(columns, kernel, n_resamples, time, least_timescale, memory, cross_fit, cache, rng)

    @classmethod
    def of_tables(cls, tables: list[Any], *settings: Any) -> ConditionalTester:
        """A tester whose variables are whole tables."""
        tester = cls.__new__(cls)
        tester._fill(tables, *settings)
        return tester

    def _fill(
        self,
        tables: list[Any],
        kernel: Any,
        n_resamples: int,
        time: Float[np.ndarray, " n"] | None,
        least_timescale: float,
        memory: float | None,
        cross_fit: bool,
        cache: Any,
        rng: Any,
    ) -> None:
        self.names = tuple(name for table in tables for name in table.names[:1])
        self._settings = Settings(check(kernel), cross_fit=checks.flag(cross_fit, "cross_fit"))
        self._resamples = checks.count(n_resamples, "n_resamples", 1)
        self._memory = None if memory is None else float(checks.positive(memory, "memory"))
        self._seed = int(checks.generator(rng).integers(2**62))
        self._store = None if cache is None else Store(cache)
        self._values = [table.values for table in tables]
        self._kinds = [table.categorical for table in tables]
        self._columns = [table.names for table in tables]
        self.prewhitened: tuple[Whitened, ...] = ()
        self._time = np.arange(len(self._values[0]), dtype=float) if time is None else time
        if time is not None:
            least = float(checks.positive(least_timescale, "least_timescale"))
            self._whiten(time, least)
        self._arrange()

    def _whiten(self, time: Float[np.ndarray, " n"], least: float) -> None:
        done = []
        for v, (values, kinds, names) in enumerate(
            zip(self._values, self._kinds, self._columns, strict=True)
        ):
            values = values.copy()
            for d in np.flatnonzero(~kinds):
                values[:, d], how = prewhitening.prewhiten(values[:, d], time, least, names[d])
                done.append(how)
            self._values[v] = values
        self.prewhitened = tuple(done)

    def _arrange(self) -> None:
        """Put the rows in an order that depends on their content alone, and then says nothing."""
        n = len(self._values[0])
        variables = [as_variable(*pair) for pair in zip(self._values, self._kinds, strict=True)]
        keys = [_key(variable.columns) for variable in variables]
        self._rank = np.argsort(sorted(range(len(keys)), key=lambda v: keys[v]))  # of variables, by content
        every = sorted(
            (column for one in variables for column in one.columns.T), key=lambda c: _key(c[:, None])
        )
        order = np.lexsort(every[::-1]) if every else np.arange(n)
        self._order = order[np.random.default_rng(0).permutation(n)]
        shuffled = [values[self._order] for values in self._values]
        self._sides = Sides(
            [as_variable(*pair) for pair in zip(shuffled, self._kinds, strict=True)], self._settings
        )
        self._pvalues: dict[Any, float] = {}

    @property
    def n_rows(self) -> int:
        """How many rows are tested."""
        return len(self._values[0])

    @property
    def n_resamples(self) -> int:
        """How many resamples a p-value rests on; the smallest is 1/(n_resamples + 1)."""
        return self._resamples

    @cached_property
    def _content(self) -> str:
        """A digest of the data and of all settings."""
        parts = [values[self._order].tobytes() for values in self._values]
        kinds = [kind.tolist() for kind in self._kinds]
        # Pickled, because what a kernel prints is rounded.
        kernels = [
            pickle.dumps(to_numpy(one) if isinstance(one, Kernel) else one) for one in self._settings.kernels
        ]
        switches = replace(self._settings, kernels=())
        numbers = (self._resamples, self._memory, self._seed)
        when = b"" if self._memory is None else self._time[self._order].tobytes()
        return digest(VERSION, kinds, switches, *numbers, when, *kernels, *parts)

    @cached_property
    def _multipliers(self) -> Float[np.ndarray, "n B"]:
        E = multipliers(self.n_rows, self._resamples, self._memory, np.random.default_rng(self._seed))
        if self._memory is None:
            return E
        when = np.argsort(np.argsort(self._time, kind="stable"))  # multipliers run along the time
        return E[when[self._order]]

    @cached_property
    def _orders(self) -> Int[np.ndarray, "B n"]:
        rng = np.random.default_rng(self._seed)
        return np.stack([rng.permutation(self.n_rows) for _ in range(self._resamples)])

    def test(self, x: int | str, y: int | str, given: Sequence[int | str] = ()) -> ConditionalOutcome:
        """Test two columns given others, each by its name or number."""
        i, j = self._place(x, "x"), self._place(y, "y")
        if isinstance(given, str | int):
            given = (given,)
        places = tuple(sorted({self._place(one, "given") for one in given}))
        if i == j:
            raise ValueError(f"x and y are the same column, {self.names[i]!r}; give two")
        if i in places or j in places:
            both = self.names[i if i in places else j]
            raise ValueError(f"column {both!r} is tested and given at once; leave it out of given")
        return self._outcome(i, j, places)

    def pvalue(self, i: int, j: int, given: tuple[int, ...] = ()) -> float:
        """The p-value of two columns by number; kept, and found on disk where there is a cache."""
        key = (int(min(i, j)), int(max(i, j)), tuple(sorted(int(k) for k in given)))
        asked = (*key[:2], *key[2])
        if len(set(asked)) < len(asked) or not 0 <= min(asked) <= max(asked) < len(self.names):
            raise ValueError(
                f"pvalue takes different columns from 0 to {len(self.names) - 1}, but {asked} was asked"
            )
        if key in self._pvalues:
            return self._pvalues[key]
        name = digest(self._content, key) if self._store is not None else ""
        found = self._store.get(name) if self._store is not None else None
        if found is None:
            found = self._outcome(*key).pvalue
            if self._store is not None:
                self._store.put(name, found)
        self._pvalues[key] = found
        return found

    def with_kernel(self, kernel: Any) -> ConditionalTester:
        """The same test with another kernel; regressions are shared."""
        other = self._copy()
        other._settings = replace(self._settings, kernels=check(kernel))
        other._sides = self._sides.with_kernels(other._settings.kernels)
        other._pvalues = {}
        return other

    def on_rows(self, rows: Int[np.ndarray, " r"]) -> ConditionalTester:
        """The same test on some of the rows; pre-whitening stays as it was."""
        other = self._copy()
        other._values, other._time = [values[rows] for values in self._values], self._time[rows]
        other._arrange()
        return other

    def _copy(self) -> ConditionalTester:
        """A tester like this one without what was computed from its rows and settings."""
        other = self.__class__.__new__(self.__class__)
        computed = ("_content", "_multipliers", "_orders")
        other.__dict__.update({name: value for name, value in vars(self).items() if name not in computed})
        return other

    def __getstate__(self) -> dict[str, Any]:
        """For another process: what is kept in memory stays here, and the cache is opened again there."""
        state = dict(vars(self._copy()))
        state["_store"] = None if self._store is None else self._store.folder
        state["_sides"] = Sides(self._sides.variables, self._settings)
        state["_pvalues"] = {}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._store = None if state["_store"] is None else Store(state["_store"])

    def _place(self, column: int | str, argument: str) -> int:
        if isinstance(column, str):
            if column not in self.names:
                known = ", ".join(repr(name) for name in self.names[:12])
                raise ValueError(f"{argument} names {column!r}, but the columns are {known}")
            return self.names.index(column)
        place = checks.count(column, argument, 0)
        if place >= len(self.names):
            raise ValueError(f"{argument} is column {place}, but there are only {len(self.names)}, from 0 on")
        return place

    def _outcome(self, i: int, j: int, given: tuple[int, ...]) -> ConditionalOutcome:
        sides = self._sides
        self._check_width(given)
        left, right = sides.side(i, given), sides.side(j, given)
        conditional = bool(left.regressions or right.regressions)
        null = "multiplier" if conditional or self._memory is not None else "permutation"
        extra: dict[str, Any] = {
            "given": tuple(name for v in given for name in self._columns[v]),
            "residuals": tuple(self._unsorted(side) for side in (left, right)),
            "regressions": (left.regressions, right.regressions),
            "prewhitened": self.prewhitened,
        }
        if not left.features or not right.features:  # a constant, or a function of what is given
            zeros = np.zeros(self._resamples)
            return ConditionalOutcome(0.0, 1.0, zeros, "none", 0.0, "HSIC", null, (self.n_rows,), **extra)
        if null == "multiplier":
            values, names = sides.statistics(left, right, given if conditional else (), self._multipliers)
        else:
            # Which side is permuted must not depend on which was called x.
            if self._rank[i] <= self._rank[j]:
                values, names = sides.permuted(left, right, self._orders)
            else:
                values, names = sides.permuted(right, left, self._orders)
                names = tuple(pair[::-1] for pair in names)
        choice = Choice((), names, np.full(len(names), 1.0 / len(names)))
        found = resampled_outcome("HSIC", (self.n_rows,), choice, values, null, False)
        return ConditionalOutcome(**{f.name: getattr(found, f.name) for f in fields(found)}, **extra)

    def _check_width(self, given: tuple[int, ...]) -> None:
        """Refuse what no regression can take out."""
        rank = self._sides.conditioner(given).rank if given else 0
        if rank >= self.n_rows - 1:
            width = self._sides.conditioner(given).Z.shape[1]
            raise ValueError(
                f"given has {width} columns of rank {rank} for {self.n_rows} rows: they explain anything; "
                "leave columns out, or replace them by a few principal components"
            )
        if rank * MOST_RANK > self.n_rows:
            warnings.warn(
                f"given has rank {rank} for only {self.n_rows} rows: what it says about x and y cannot be "
                "taken out wholly, and small p-values mean little; leave columns out",
                stacklevel=4,
            )

    def _unsorted(self, side: Side) -> Float[np.ndarray, "n k"]:
        """Residuals in the order of the rows given."""
        out = np.empty_like(side.residuals)
        out[self._order] = side.residuals
        return out


def timed(
    tables: list[Table], prewhiten: Any, nan_policy: str
) -> tuple[list[Table], Float[np.ndarray, " n"] | None]:
    """The rows that have a time, and their times."""
    if prewhiten is None:
        return tables, None
    time = prewhitening.times(prewhiten, "prewhiten", tables[0].given, nan_policy)[tables[0].rows]
    kept = ~np.isnan(time)
    return [replace(table, values=table.values[kept], rows=table.rows[kept]) for table in tables], time[kept]


def _key(columns: Float[np.ndarray, "n k"]) -> tuple[float, ...]:
    """What columns are sorted by: their content, whatever the order of rows; rounding must not decide."""
    if not columns.shape[1]:
        return ()
    first = np.sort(columns[:, 0])[[0, -1, len(columns) // 2]]
    return tuple(np.round([*first, np.abs(columns).mean()], 9))


def _without(data: Any, name: str) -> tuple[Any, Any]:
    """A data frame without one column, and that column."""
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise TypeError(
            f"prewhiten names the column {name!r}, but data is no data frame; give the times themselves"
        ) from None
    if name not in frame.columns:
        known = ", ".join(repr(column) for column in frame.columns[:12])
        raise ValueError(f"prewhiten names the column {name!r}, but data has {known}")
    return frame.drop(name).to_native(), frame[name].to_native()

"""Which variable causes which, as far as tests of conditional independence can say: `pc`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.progress import showing_progress
from kembed.data.tables import Table, read_tables
from kembed.graphs.background import Background, Knowledge
from kembed.graphs.deciders import Decider, FisherZ, FunctionDecider, Remembered
from kembed.graphs.graph import CausalGraph, Conflict, edges_of, shares
from kembed.graphs.orientation import RULES, Orientation, orient
from kembed.graphs.skeleton import Ledger, search

TESTS = ("residuals", "fisher-z")
NAN_POLICIES = ("raise", "omit")
MINIMUM = 5  # rows; fewer leave no test a chance
KERNEL, SIGNS = "bkl", 999  # of test="residuals", unless given
# Streams of random numbers that do not touch one another: more orders do not change the resamples.
ORDERS, RESAMPLES, TESTER = 0, 1, 2


class _Search(NamedTuple):
    """What all runs have in common."""

    alpha: float
    max_given: int
    stable: bool
    rule: str
    knowledge: Knowledge

    def run(self, tests: Remembered, order: Any, what: str) -> tuple[Orientation, Ledger]:
        skeleton = search(
            tests,
            order=[int(i) for i in order],
            alpha=self.alpha,
            max_given=self.max_given,
            stable=self.stable,
            knowledge=self.knowledge,
            what=what,
        )
        return orient(skeleton, self.rule, tests.decider.names, what), skeleton.ledger


def pc(
    data: Any,
    *,
    alpha: float = 0.05,
    test: str | Decider | Callable[[Any, Any, Any], Any] = "residuals",
    kernel: Any = KERNEL,
    n_resamples: int = SIGNS,
    max_given: int | None = None,
    orientation: str = "majority",
    stable: bool = True,
    background: Background | None = None,
    n_orders: int = 1,
    n_bootstrap: int = 0,
    prewhiten: Any = None,
    cache: Any = None,
    rng: Any = None,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> CausalGraph:
    """Find the causal graph of a table's columns by the PC algorithm, and how sure each edge is.

    The graph is that of a Markov equivalence class (a CPDAG): it is right if there is no hidden common cause,
    no cycle, no selection, if independence comes from the graph alone, and if every test is right.

    Parameters
    ----------
    data
        A data frame or an array, one row an observation, one column a variable. May be None where `test` is
        an object that knows its variables.
    alpha
        Level of the tests: an edge stays if no test of it reaches a p-value above this. No p-value of
        `test="residuals"` is below 1/(n_resamples + 1).
    test
        `"residuals"` (the default: regressions by Gaussian processes, then HSIC of what they leave),
        `"fisher-z"` (partial correlation), a function `test(x, y, given)` of arrays (n, 1), (n, 1) and (n, k)
        that returns a p-value or an object with one, or an object with `names`, `pvalue` and `on_rows` such
        as a `ConditionalTester`.
    kernel, n_resamples, prewhiten, cache
        As in `ConditionalTester`, for `test="residuals"` alone.
    max_given
        The largest number of variables to condition on; all of them by default.
    orientation
        How a - b - c becomes a --> b <-- c, over the sets that separate a and c: `"majority"` (b is in less
        than half of them; ambiguous at one half), `"conservative"` (in none; in some is ambiguous), `"max-p"`
        (not in the one with the largest p-value) or `"first"` (not in the one found first: the textbook's
        rule, which depends on the order of the columns).
    stable
        Whether the adjacent pairs are to be found independently of the order of the columns.
    background
        Edges that must or cannot be, and tiers of time.
    n_orders
        Search the given order of columns and so many less one random ones. With `stable=True` and a rule
        other than "first" all orders give the same graph.
    n_bootstrap
        Search so many resamples of the rows too. A resample is the distinct rows of a bootstrap draw (about
        63% of them): rows that repeat would make every pair of columns look dependent. Each is searched in
        one random order, or in the given one if `n_orders` is 1.
    rng, nan_policy, progress
        As in `mmd_test`; rows with missing values are refused ("raise") or dropped ("omit"). With a seed the
        p-values of `test="residuals"` are those of a `ConditionalTester` with this seed.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed.graphs.pc import pc
    >>> noise = np.random.default_rng(0).normal(size=(4, 500))
    >>> rain, sprinkler = noise[0], noise[1]
    >>> wet = rain + sprinkler + 0.5 * noise[2]
    >>> slippery = wet + noise[3]
    >>> table = {"rain": rain, "sprinkler": sprinkler, "wet": wet, "slippery": slippery}
    >>> import polars as pl
    >>> pc(pl.DataFrame(table), test="fisher-z")
    CausalGraph of 4 variables, 3 edges (3 directed), 18 tests at level 0.05
      rain --> wet       largest p = 6e-38
      sprinkler --> wet  largest p = 1.3e-17
      wet --> slippery   largest p = 5.8e-28

    """
    alpha = checks.level(alpha, "alpha")
    checks.choice(orientation, "orientation", RULES)
    checks.choice(nan_policy, "nan_policy", NAN_POLICIES)
    stable = checks.flag(stable, "stable")
    n_orders = checks.count(n_orders, "n_orders", 1)
    n_bootstrap = checks.count(n_bootstrap, "n_bootstrap", 0)
    seed = int(checks.generator(rng).integers(2**63))
    n_resamples = checks.count(n_resamples, "n_resamples", 1)
    if isinstance(test, str) and checks.choice(test, "test", TESTS) == "residuals":
        # A seed as it is: any tester with this seed finds the same p-values, and in the same cache. Without a
        # seed of the user's own, none: what is not reproducible is not to be found in a cache.
        drawn = isinstance(rng, np.random.Generator)
        decider = _residuals(
            data,
            kernel=kernel,
            n_resamples=n_resamples,
            prewhiten=prewhiten,
            cache=cache,
            rng=int(_stream(seed, TESTER).integers(2**63)) if drawn else rng,
            nan_policy=nan_policy,
        )
    else:
        as_usual = isinstance(kernel, str) and kernel == KERNEL
        _check_unused(
            kernel=not as_usual,
            n_resamples=n_resamples != SIGNS,
            prewhiten=prewhiten is not None,
            cache=cache is not None,
        )
        decider = _decider(data, test, nan_policy)
    if hasattr(decider, "n_resamples"):
        _check_level(alpha, decider.n_resamples)
    names = tuple(decider.names)
    _check_names(names)
    p = len(names)
    most = p - 2 if max_given is None else min(checks.count(max_given, "max_given", 0), p - 2)
    n_rows = _rows(decider, n_bootstrap)
    knowledge = _background(background).resolved(names)
    searched = _Search(alpha, most, stable, orientation, knowledge)
    runs = n_orders + n_bootstrap

    with showing_progress(progress):
        tests = Remembered(decider)
        found, ledger = searched.run(tests, range(p), _title(0, runs))
        graph = _first(names, alpha, found, ledger)
        by_order = shares(found.codes)
        for k in range(1, n_orders):
            order = _stream(seed, ORDERS, k).permutation(p)
            by_order = by_order + shares(searched.run(tests, order, _title(k, runs))[0].codes)
        by_rows = np.zeros_like(by_order)
        for k in range(n_bootstrap):
            draw = _stream(seed, RESAMPLES, k)
            rows = np.unique(draw.integers(n_rows, size=n_rows))
            order = draw.permutation(p) if n_orders > 1 else np.arange(p)
            again = Remembered(decider.on_rows(rows))
            by_rows = by_rows + shares(searched.run(again, order, _title(n_orders + k, runs))[0].codes)
    return _counted(graph, by_order, by_rows, n_orders, n_bootstrap)


# What the user gave.


def _check_level(alpha: float, n_resamples: int) -> None:
    """Refuse a level that no p-value reaches: every pair would pass for independent."""
    least = 1.0 / (n_resamples + 1)
    if alpha < least:
        raise ValueError(
            f"alpha is {alpha:g}, but the smallest possible p-value is {least:.3g} with "
            f"n_resamples={n_resamples}, so that no edge could be found; use "
            f"n_resamples={math.ceil(1.0 / alpha) - 1} or more"
        )


def _check_unused(**given: bool) -> None:
    """Refuse what only test='residuals' would listen to."""
    for argument, asked in given.items():
        if asked:
            raise ValueError(f"{argument} is for test='residuals'; leave it out with another test")


def _residuals(data: Any, **options: Any) -> Decider:
    from kembed.conditional.independence import ConditionalTester

    return ConditionalTester(data, **options)


def _decider(data: Any, test: Any, nan_policy: str) -> Decider:
    """The test as a `Decider`."""
    if isinstance(test, Decider) and not isinstance(test, type):
        if data is not None:
            (table,), _ = _read(data, nan_policy)
            unnamed = all(name == f"column {d}" for d, name in enumerate(table.names))
            if len(table.names) != len(test.names) or not (unnamed or table.names == tuple(test.names)):
                raise ValueError(
                    f"data has the columns {', '.join(map(repr, table.names))}, but test is about "
                    f"{', '.join(map(repr, test.names))}; give data=None, or the table the test was made of"
                )
            rows = getattr(test, "n_rows", None)
            if rows is not None and rows != len(table.values):
                raise ValueError(
                    f"data has {len(table.values):,} rows, but test is about {rows:,}; give data=None, or "
                    "the table the test was made of"
                )
        return test
    if not (callable(test) or isinstance(test, str)) or isinstance(test, type):
        raise TypeError(
            f"test must be one of {', '.join(map(repr, TESTS))}, a function test(x, y, given) or an object "
            f"with names, pvalue and on_rows, but {test!r} was given"
        )
    (table,), _ = _read(data, nan_policy)
    if callable(test):
        return FunctionDecider(test, table.values, table.names)
    if table.categorical.any():
        name = table.names[int(np.argmax(table.categorical))]
        raise TypeError(
            f"{name!r} of {table.label} holds text or categories, which have no correlation; "
            "use test='residuals', or drop or encode that column"
        )
    return FisherZ(table.values, table.names)


def _read(data: Any, nan_policy: str) -> tuple[list[Table], bool]:
    return read_tables(
        {"data": data}, nan_policy=nan_policy, same_columns=False, paired=False, minimum=MINIMUM
    )


def _check_names(names: tuple[str, ...]) -> None:
    if len(names) < 2:
        raise ValueError(
            f"data has {len(names)} variable{'' if len(names) == 1 else 's'}; a graph needs two or more"
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"data has more than one variable named {name!r}; rename or drop one")


def _rows(decider: Any, n_bootstrap: int) -> int:
    """How many rows there are to resample."""
    if not n_bootstrap:
        return 0
    rows = getattr(decider, "n_rows", None)
    if rows is None:
        raise ValueError(
            "n_bootstrap resamples rows, but test has no n_rows; give it one, or set n_bootstrap=0"
        )
    return int(rows)


def _background(value: Any) -> Background:
    if value is None:
        return Background()
    if not isinstance(value, Background):
        raise TypeError(
            f"background must be a Background(forbidden=, required=, tiers=), but {value!r} was given"
        )
    return value


# What comes out.


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _title(run: int, runs: int) -> str:
    return f"PC, run {run + 1} of {runs}" if runs > 1 else "PC"


def _first(names: tuple[str, ...], alpha: float, found: Orientation, ledger: Ledger) -> CausalGraph:
    """The graph of the first run, with the tests behind it."""
    separating, pvalues = {}, {}
    for i, a in enumerate(names):
        for j in range(i + 1, len(names)):
            largest = ledger.largest(i, j)
            if largest is None:
                continue
            pair = frozenset((a, names[j]))
            pvalues[pair] = largest[0]
            # A pair that background knowledge took apart may have no set that separates it.
            if largest[0] > alpha and not found.adjacent[i, j]:
                separating[pair] = tuple(names[k] for k in largest[1])
    edges = tuple(
        replace(edge, pvalue=pvalues.get(frozenset((edge.a, edge.b)), float("nan")))
        for edge in edges_of(names, found.codes)
    )
    return CausalGraph(
        names,
        edges,
        separating_sets=separating,
        pvalues=pvalues,
        alpha=alpha,
        n_tests=ledger.n_tests,
        conflicts=tuple(Conflict(names[i], names[j], why) for (i, j), why in sorted(found.conflicts.items())),
        ambiguous=tuple((names[i], names[k], names[j]) for i, k, j in found.ambiguous),
    )


def _counted(
    graph: CausalGraph, by_order: np.ndarray, by_rows: np.ndarray, n_orders: int, n_resamples: int
) -> CausalGraph:
    """The graph with the shares of runs."""
    graph = replace(
        graph,
        over_orders=by_order / n_orders,
        over_resamples=by_rows / n_resamples if n_resamples else None,
        n_orders=n_orders,
        n_resamples=n_resamples,
    )
    edges = tuple(
        replace(
            edge,
            frequency=graph.frequency(edge.a, edge.b),
            mark_frequency=graph.frequency(edge.a, edge.b, edge.mark),
        )
        for edge in graph.edges
    )
    return replace(graph, edges=edges)

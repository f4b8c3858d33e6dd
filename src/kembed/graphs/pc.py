"""Which variable causes which, as far as tests of conditional independence can say: `pc`."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.progress import showing_progress
from kembed.core.text import counted
from kembed.core.threads import one_thread
from kembed.graphs.background import Background, Names
from kembed.graphs.bootstrap import ORDERS, TESTER, Search, in_processes, stream
from kembed.graphs.deciders import Decider, FisherZ, FunctionDecider, Remembered
from kembed.graphs.graph import CausalGraph, Conflict, edges_of, shares
from kembed.graphs.orientation import RULES, Orientation
from kembed.graphs.skeleton import Ledger
from kembed.tables import diagnostics
from kembed.tables.reader import read_tables
from kembed.tables.table import Table

TESTS = ("residuals", "fisher-z")
NAN_POLICIES = ("raise", "omit")
MINIMUM = 5  # rows; fewer leave no test a chance
MOST_VARIABLES = 1_000  # half a million pairs: an hour at 7 ms a test
KERNEL, SIGNS = "fused", 999  # of test="residuals", unless given
ALONE = 4.0  # seconds before other processes are started: twice what that takes, and reading a cache less


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
    n_jobs: int = 1,
    rng: Any = 0,
    nan_policy: str = "raise",
    progress: bool | None = None,
) -> CausalGraph:
    """Find the causal graph of a table's columns by the PC algorithm, and how sure each edge is.

    The graph is that of a Markov equivalence class (a CPDAG): it is right if there is no hidden common cause,
    no cycle, no selection, if independence comes from the graph alone, and if every test is right.

    Parameters
    ----------
    data
        A data frame or an array, one row an observation, one column a variable; for `test="residuals"` also
        what `mmd_test` reads block by block. May be None where `test` is an object that knows its variables.
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
    n_jobs
        Processes that search the resamples; -1 for as many as there are processors. They are started once
        the search has taken some seconds, and the answer is the same for any number.
    rng
        Seed or generator; None is fresh entropy. With a seed the p-values of `test="residuals"` are those of
        a `ConditionalTester` with this seed.
    nan_policy, progress
        As in `mmd_test`; rows with missing values are refused ("raise") or dropped ("omit").

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
    n_jobs = (os.cpu_count() or 1) if n_jobs == -1 else checks.count(n_jobs, "n_jobs", 1)
    seed = int(checks.generator(rng).integers(2**63))
    n_resamples = checks.resamples(n_resamples)
    settings = {"kernel": kernel, "n_resamples": n_resamples, "prewhiten": prewhiten, "cache": cache}
    if isinstance(test, str) and checks.choice(test, "test", TESTS) == "residuals":
        from kembed.conditional.tester import ConditionalTester

        # A seed as it is: any tester with this seed finds the same p-values, and in the same cache.
        drawn = isinstance(rng, np.random.Generator)
        own = int(stream(seed, TESTER).integers(2**63)) if drawn else rng
        decider: Decider = ConditionalTester(data, rng=own, nan_policy=nan_policy, **settings)
    else:
        usual = {"kernel": KERNEL, "n_resamples": SIGNS, "prewhiten": None, "cache": None}
        for argument, given in settings.items():
            if not isinstance(given, type(usual[argument])) or given != usual[argument]:
                raise ValueError(f"{argument} is for test='residuals'; leave it out with another test")
        decider = _decider(data, test, nan_policy)
    if hasattr(decider, "n_resamples"):
        checks.reachable(alpha, decider.n_resamples)
    names, p = tuple(decider.names), len(decider.names)
    _check_names(names)
    most = p - 2 if max_given is None else min(checks.count(max_given, "max_given", 0), p - 2)
    if n_bootstrap and getattr(decider, "n_rows", None) is None:
        seen = "n_bootstrap resamples rows, but test has no n_rows"
        raise ValueError(f"{seen}; give it one, or set n_bootstrap=0")
    if not isinstance(background, Background | None):
        raise TypeError(
            f"background must be a Background(forbidden=, required=, tiers=), but {background!r} was given"
        )
    knowledge = (background or Background()).resolved(names)
    searched = Search(alpha, most, stable, orientation, knowledge, seed, n_orders)
    with showing_progress(progress), one_thread(getattr(decider, "n_rows", None)):
        began, tests = time.perf_counter(), Remembered(decider)
        found, ledger = searched.run(tests, range(p))
        by_order, by_rows = shares(found.codes), np.zeros((p, p, 3))
        for k in range(1, n_orders):
            order = stream(seed, ORDERS, k).permutation(p)
            by_order = by_order + shares(searched.run(tests, order)[0].codes)
        for k in range(n_bootstrap):
            left = range(k, n_bootstrap)
            if min(n_jobs, len(left)) > 1 and time.perf_counter() - began > ALONE:
                by_rows = by_rows + in_processes(searched, decider, left, n_jobs)
                break
            by_rows = by_rows + searched.resample(decider, k)
    tables = getattr(decider, "tables", None) or ([] if data is None else [_read(data, nan_policy)])
    remedy = "pre-whiten, prewhiten= (--time)"
    notes = diagnostics.of_sides(tables, ordered=prewhiten is not None, remedy=remedy)
    over: dict[str, Any] = {
        "over_orders": by_order / n_orders,
        "over_bootstrap": by_rows / n_bootstrap if n_bootstrap else None,
        "notes": tuple(dict.fromkeys(notes)),
    }
    return _graph(names, alpha, found, ledger, n_orders=n_orders, n_bootstrap=n_bootstrap, **over)


def _check_names(names: Names) -> None:
    """Refuse too few or too many variables before anything is computed of them, and unclear names."""
    count = len(names)
    if count < 2:
        raise ValueError(f"data has {counted(count, 'variable')}; a graph needs two or more")
    if count > MOST_VARIABLES:
        seen = f"data has {count:,} variables, which are {count * (count - 1) // 2:,} pairs to be tested"
        raise ValueError(f"{seen}; choose {MOST_VARIABLES:,} at most")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"data has more than one variable named {name!r}; rename or drop one")


def _decider(data: Any, test: Any, nan_policy: str) -> Decider:
    """The test as a `Decider`."""
    if isinstance(test, Decider) and not isinstance(test, type):
        if data is not None:
            _check_same(_read(data, nan_policy), test)
        return test
    if not (callable(test) or isinstance(test, str)) or isinstance(test, type):
        raise TypeError(
            f"test must be one of {', '.join(map(repr, TESTS))}, a function test(x, y, given) or an object "
            f"with names, pvalue and on_rows, but {test!r} was given"
        )
    table = _read(data, nan_policy)
    if table.categorical.any():
        name = table.names[int(np.argmax(table.categorical))]
        why = "which a function would be handed as numbers" if callable(test) else "which have no correlation"
        seen = f"{name!r} of {table.label} holds text or categories, {why}"
        raise TypeError(f"{seen}; use test='residuals', or drop or encode that column")
    if callable(test):
        return FunctionDecider(test, table.values, table.names)
    return FisherZ(table.values, table.names)


def _read(data: Any, nan_policy: str) -> Table:
    (table,), _ = read_tables({"data": data}, nan_policy, minimum=MINIMUM)
    return table


def _check_same(table: Table, test: Any) -> None:
    """Refuse a table that the test was not made of."""
    unnamed = all(name == f"column {d}" for d, name in enumerate(table.names))
    rows, remedy = getattr(test, "n_rows", None), "give data=None, or the table the test was made of"
    if len(table.names) != len(test.names) or not (unnamed or table.names == tuple(test.names)):
        wanted = f"data has the columns {', '.join(map(repr, table.names))}"
        raise ValueError(f"{wanted}, but test is about {', '.join(map(repr, test.names))}; {remedy}")
    if rows is not None and rows != len(table.values):
        raise ValueError(f"data has {len(table.values):,} rows, but test is about {rows:,}; {remedy}")


def _graph(names: Names, alpha: float, found: Orientation, ledger: Ledger, **how: Any) -> CausalGraph:
    """The graph of the first run, with the tests behind it and the shares of runs."""
    separating, pvalues = {}, {}
    for i, j in combinations(range(len(names)), 2):
        if (largest := ledger.largest(i, j)) is None:
            continue
        pair = frozenset((names[i], names[j]))
        pvalues[pair] = largest[0]
        # A pair that background knowledge took apart may have no set that separates it.
        if largest[0] > alpha and not found.adjacent[i, j]:
            separating[pair] = tuple(names[k] for k in largest[1])
    graph = CausalGraph(
        names,
        edges_of(names, found.codes),
        separating_sets=separating,
        pvalues=pvalues,
        alpha=alpha,
        n_tests=ledger.n_tests,
        conflicts=tuple(Conflict(names[i], names[j], why) for (i, j), why in sorted(found.conflicts.items())),
        ambiguous=tuple((names[i], names[k], names[j]) for i, k, j in found.ambiguous),
        **how,
    )
    edges = []
    for edge in graph.edges:
        pvalue = pvalues.get(frozenset((edge.a, edge.b)), float("nan"))
        there, marked = (graph.frequency(edge.a, edge.b, mark) for mark in (None, edge.mark))
        edges.append(replace(edge, pvalue=pvalue, frequency=there, mark_frequency=marked))
    return replace(graph, edges=tuple(edges))

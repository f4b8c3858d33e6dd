"""The ozone study: which graphs are searched for, in two processes, and what each says about one edge.

All settings below were fixed before the study first ran, and so before it said anything about that edge;
but `Plan.landmarks`, which came later.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.conditional import prewhitening
from kembed.conditional.prewhitening import PrewhitenedColumn
from kembed.conditional.tester import ConditionalTester
from kembed.core.progress import showing_progress
from kembed.graphs.background import Background
from kembed.graphs.graph import CausalGraph
from kembed.graphs.pc import pc
from kembed.kernels.stationary import Gaussian
from kembed.learning.kernel_words import PublishedRule
from kembed.tables.datasets import OZONE_VARIABLES, load_ozone

if TYPE_CHECKING:
    import polars as pl

CAUSE, EFFECT = "temp", "ozone"
KERNELS = ("median", "bkl")
LEAST, UNBOUNDED = 7.0, 0.5  # days: the shortest trend that is taken out, and what likelihood would choose
ALPHA, SEED = 0.05, 0
MARKS = ("-->", "<--", "---", "<->", "")  # of the edge from CAUSE to EFFECT; "" is none


class Plan(NamedTuple):
    """How much is searched."""

    orders: int = 20  # of the variables, for the textbook's PC
    resamples: int = 20  # of the rows
    lengthscales: tuple[float, ...] = tuple(np.geomspace(0.1, 4.0, 9).tolist())  # in standard deviations
    landmarks: tuple[int, ...] = (25, 50, 100)  # of the published objective
    signs: int = 999  # random signs a test
    workers: int = 2


class Trends(NamedTuple):
    """What taking trends over at least so many days out does."""

    least: float
    columns: tuple[PrewhitenedColumn, ...]
    correlation: float  # of CAUSE and EFFECT afterwards


class Study(NamedTuple):
    """All that was measured."""

    rows: int
    raw: dict[str, CausalGraph]  # by kernel; trends left in
    main: dict[str, CausalGraph]  # by kernel; trends taken out, frequencies over resamples of the rows
    textbook: dict[str, CausalGraph]  # by kernel; frequencies over orders of the variables
    sweep: dict[float, CausalGraph]  # by lengthscale
    published: dict[int, CausalGraph]  # the published objective, τ² = 1, by number of landmarks
    known: CausalGraph  # "bkl", and ozone causes nothing
    marginal: dict[str, float]  # p-value of the two with nothing given, by kernel or lengthscale
    scales: dict[str, tuple[float, ...]]  # lengthscales for the two with nothing given, by kernel
    trends: tuple[Trends, ...]
    correlation: float  # before anything is taken out


def mark(graph: CausalGraph) -> str:
    """The mark between CAUSE and EFFECT, read from the first to the second; "" if they are not adjacent."""
    for edge in graph.edges:
        if {edge.a, edge.b} == {CAUSE, EFFECT}:
            return edge.mark if edge.mark != "-->" or edge.a == CAUSE else "<--"
    return ""


def shares(graph: CausalGraph, table: np.ndarray | None) -> dict[str, float]:
    """In what share of the runs of a table of frequencies the edge has each mark."""
    if table is None:
        return {}
    a, b = graph.names.index(CAUSE), graph.names.index(EFFECT)
    found = dict(zip(("-->", "---", "<->"), table[a, b].tolist(), strict=True))
    found["<--"] = float(table[b, a, 0])
    return {**{one: found[one] for one in MARKS[:-1]}, "": 1.0 - sum(found.values())}


def background(names: tuple[str, ...]) -> Background:
    """Ozone causes none of the weather."""
    return Background(tiers=(tuple(name for name in names if name != EFFECT), (EFFECT,)))


def take_out(table: pl.DataFrame, least: float) -> tuple[pl.DataFrame, Trends]:
    """Every variable without its trend over time, and what that did."""
    import polars as pl

    days = prewhitening.times(table["date"], "date", table.height)
    names = [name for name in table.columns if name != "date"]
    done = [prewhitening.prewhiten(table[name].to_numpy().astype(float), days, least, name) for name in names]
    without = pl.DataFrame({name: values for name, (values, _) in zip(names, done, strict=True)})
    return without, Trends(least, tuple(how for _, how in done), correlation(without))


def correlation(table: pl.DataFrame) -> float:
    """Of CAUSE and EFFECT."""
    return float(np.corrcoef(table[CAUSE], table[EFFECT])[0, 1])


def measure(
    plan: Plan | None = None,
    cache: Any = None,
    progress: bool | None = None,
    table: pl.DataFrame | None = None,
) -> Study:
    """Search for all graphs; p-values are kept in the folder `cache`, and found there by a later run."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    table = load_ozone().select("date", *OZONE_VARIABLES) if table is None else table
    plan = plan or Plan()
    without, trends = take_out(table, LEAST)
    options: dict[str, Any] = {"alpha": ALPHA, "rng": SEED, "orientation": "majority"}
    resampled = {**options, "n_bootstrap": plan.resamples}
    textbook = {**options, "orientation": "first", "stable": False, "n_orders": plan.orders}
    known = {**options, "background": background(tuple(without.columns))}
    with ExitStack() as stack:
        stack.enter_context(showing_progress(progress))
        stack.enter_context(threadpool_limits(1))  # many small matrices: threads would only wait
        how: Any = {"n_resamples": plan.signs, "cache": cache, "rng": SEED}
        raw, main = (ConditionalTester(one, **how) for one in (table.drop("date"), without))

        def found(tester: ConditionalTester, kernel: Any, how: dict[str, Any]) -> CausalGraph:
            test = tester.with_kernel(kernel)  # regressions are shared
            return pc(None, test=test, progress=progress, n_jobs=plan.workers, **how)

        rules = {m: PublishedRule(m) for m in plan.landmarks}
        kernels: dict[str, Any] = {kernel: kernel for kernel in KERNELS}
        kernels |= {f"{scale:g}": Gaussian(scale) for scale in plan.lengthscales}
        chosen: dict[str, Any] = {kernel: kernel for kernel in KERNELS}
        chosen |= {f"published, {m} landmarks": rule for m, rule in rules.items()}
        places = main.names.index(CAUSE), main.names.index(EFFECT)
        return Study(
            rows=table.height,
            raw={kernel: found(raw, kernel, options) for kernel in KERNELS},
            main={kernel: found(main, kernel, resampled) for kernel in KERNELS},
            textbook={kernel: found(main, kernel, textbook) for kernel in KERNELS},
            sweep={scale: found(main, Gaussian(scale), options) for scale in plan.lengthscales},
            published={m: found(main, rule, options) for m, rule in rules.items()},
            known=found(main, "bkl", known),
            marginal={name: main.with_kernel(one).pvalue(*places, ()) for name, one in kernels.items()},
            scales={name: _scales(main.with_kernel(one)) for name, one in chosen.items()},
            trends=(trends, take_out(table, UNBOUNDED)[1]),
            correlation=correlation(table),
        )


def _scales(tester: ConditionalTester) -> tuple[float, ...]:
    """The lengthscales on either side, in standard deviations."""
    return tuple(float(np.ravel(one.lengthscale)[0]) for one in tester.test(CAUSE, EFFECT).kernel)

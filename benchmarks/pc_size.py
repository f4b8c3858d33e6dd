"""A search for a graph of many rows: its time, and whether its graph is that of all rows in memory.

`python -m benchmarks.pc_size time [ROWS] [GRAPHS]`: random graphs of 20 variables with about one and a half
curved edges each. Processor seconds, tests, how many a first look decided, and pairs and marks that differ
from the class of the true graph, with two columns given at most, then with as many as there are (MOST=2 stops
before). The same search of the same rows in a Parquet file (`file`) must give the same p-values.
`python -m benchmarks.pc_size same [ROWS] [GRAPHS]`: graphs of six variables; the same search with the
statistic of few rows (a regression for every target, a sign for every row, no bins, no first look) and with
that of many, on the same table, at alpha .05 and .001. Seed 2026, alpha .05; KEMBED_KERNELS=bkl takes that
kernel.
"""

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import numpy as np

from benchmarks._workers import SEED
from benchmarks.at_size import numbers
from kembed import CausalGraph, ConditionalTester, pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

SETS = (2,) if os.environ.get("MOST") == "2" else (2, None)  # columns that are given at most
KERNEL = os.environ.get("KEMBED_KERNELS", "fused")
ALPHAS = (0.05, 0.001)
BENDS = (np.tanh, np.sin, lambda t: 0.5 * t)


def table(rows: int, variables: int, rng) -> tuple[np.ndarray, set[tuple[int, int]]]:
    """Rows of a random graph, and its edges: sums of curves of one or two causes, and normal noise."""
    X = rng.normal(size=(rows, variables))
    dag = set()
    for j in range(1, variables):
        for i in rng.choice(j, min(j, int(rng.integers(1, 3))), replace=False):
            dag.add((int(i), j))
            X[:, j] += 1.2 * BENDS[int(rng.integers(3))](X[:, i])
        X[:, j] /= X[:, j].std()
    return X, dag


class Oracle:
    """d-separation, as p-values."""

    def __init__(self, dag: set[tuple[int, int]], names: tuple[str, ...]) -> None:
        self.dag, self.names = dag, names

    def pvalue(self, i: int, j: int, given: tuple[int, ...]) -> float:
        """1 or 0."""
        return float(reference.d_separated(self.dag, i, j, given))

    def on_rows(self, rows) -> "Oracle":
        """Itself."""
        return self


def differing(one: CausalGraph, other: CausalGraph) -> str:
    """How many pairs, and how many edges with their marks, only one of two graphs has."""
    pairs = [{frozenset((e.a, e.b)) for e in graph.edges} for graph in (one, other)]
    marks = [{(e.a, e.mark, e.b) for e in graph.edges} for graph in (one, other)]
    missing, more = len(pairs[1] - pairs[0]), len(pairs[0] - pairs[1])
    return f"{missing} missing, {more} more, {len(marks[0] ^ marks[1])} marks"


def searched(tester, **options) -> tuple[CausalGraph, float]:
    """The graph and the processor seconds it took."""
    start = time.process_time()
    graph = pc(None, test=tester, progress=False, **options)
    return graph, time.process_time() - start


def times(rows: int, count: int) -> None:
    print("| graph | given at most | processor seconds | tests | at a first look | edges | the true class |")
    print("|---|---|---|---|---|---|---|")
    for g in range(count):
        X, dag = table(rows, 20, np.random.default_rng([SEED, g]))
        tester = ConditionalTester(X, kernel=KERNEL)
        truth = pc(None, test=Oracle(dag, tester.names), progress=False)
        spent = 0.0
        for most in SETS:  # the second search remembers the p-values of the first
            graph, took = searched(tester, max_given=most)
            spent += took
            cells = [g, most or "all", f"{spent:.0f}", graph.n_tests, tester.n_screened, len(graph.edges)]
            print(f"| {' | '.join(map(str, cells))} | {differing(graph, truth)} |", flush=True)
    print(f"peak {getrusage(RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


def from_file(rows: int, variables: int) -> None:
    """The same search of rows in memory and of the same rows in a file."""
    import polars as pl

    X, _ = table(rows, variables, np.random.default_rng([SEED, 0]))
    names = [f"v{k}" for k in range(variables)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pl.DataFrame(X, schema=names).write_parquet(path, row_group_size=rows // 7 + 1)
        how = {"kernel": KERNEL, "max_given": 2, "progress": False}
        one, other = pc(pl.DataFrame(X, schema=names), **how), pc(path, **how)
    same = (
        one.table() == other.table() if isinstance(one.table(), list) else one.table().equals(other.table())
    )
    print(f"{rows} x {variables}, memory against a file: {differing(one, other)}; every number alike: {same}")


def in_memory(tester: ConditionalTester) -> ConditionalTester:
    """The same with the statistic of few rows."""
    tester._settings = replace(tester._settings, binned_rows=tester.n_rows, many_rows=tester.n_rows)
    tester._table.settings = tester._settings
    return tester


def same(rows: int, count: int) -> None:
    print(
        "| graph | alpha | true edges | against in memory | against the truth | in memory, against it | ",
        end="",
    )
    print("processor seconds | in memory |\n|---|---|---|---|---|---|---|---|")
    for g in range(count):
        X, dag = table(rows, 6, np.random.default_rng([SEED, g]))
        testers = ConditionalTester(X, kernel=KERNEL), in_memory(ConditionalTester(X, kernel=KERNEL))
        truth = pc(None, test=Oracle(dag, testers[0].names), progress=False)
        for alpha in ALPHAS:  # the second search remembers the p-values of the first
            (graph, took), (exact, took_exact) = (searched(tester, alpha=alpha) for tester in testers)
            print(f"| {g} | {alpha} | {len(truth.edges)} | {differing(graph, exact)} | ", end="")
            print(f"{differing(graph, truth)} | {differing(exact, truth)} | ", end="")
            print(f"{took:.1f} | {took_exact:.1f} |", flush=True)


def main() -> None:
    what, *given = sys.argv[1:] or ["time"]
    if what == "time":
        times(*numbers(given, (100_000, 1)))
    elif what == "file":
        from_file(*numbers(given, (100_000, 6)))
    else:
        same(*numbers(given, (20_500, 3)))


if __name__ == "__main__":
    main()

"""Which PC implementation is right when every test is right: d-separation in random DAGs as the test.

The answer must be the CPDAG of the DAG; with tiers, what all DAGs of its class that keep them have in common.
Two oracles: "exact" answers 1 or 0, "graded" answers numbers above and below the level, as tests do. The
references (d-separation, Chickering's labelling, enumeration of the class) are those of tests/reference.py.
Then, with tests that err (partial correlations of few rows): whether the answer depends on the order of
columns, and whether it has a directed cycle, which no causal graph has.
causal-learn and pgmpy come with `pip install -e ".[dev]"`.
"""

import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

from kembed.graphs.background import Background
from kembed.graphs.deciders import FisherZ
from kembed.graphs.pc import pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

SEED, COUNT, ALPHA, ROWS = 0, 200, 0.05, 100
RULES = ("first", "max-p", "majority", "conservative")


class Oracle:
    """d-separation in a DAG, as p-values of numbered variables."""

    n_rows = 10

    def __init__(self, dag, p, graded):
        self.dag, self.p, self.graded, self.seen = dag, p, graded, {}
        self.names = tuple(f"v{i}" for i in range(p))

    def pvalue(self, i, j, given):
        """1 or 0, or a number on the same side of the level."""
        key = (min(i, j), max(i, j), tuple(sorted(given)))
        if key not in self.seen:
            separated = reference.d_separated(self.dag, *key[:2], key[2])
            self.seen[key] = float(separated)
            if self.graded:
                share = np.random.default_rng([SEED, *key[:2], 99, *key[2]]).uniform()
                self.seen[key] = 0.06 + 0.9 * share if separated else 0.04 * share
        return self.seen[key]

    def on_rows(self, rows):
        """Itself."""
        return self


# Every implementation: an oracle and tiers (or None) in, an adjacency matrix as `CausalGraph.adjacency` out.


def ours(oracle, tiers, **options):
    known = None if tiers is None else Background(tiers=[[f"v{v}" for v in tier] for tier in tiers])
    return pc(None, test=oracle, alpha=ALPHA, background=known, progress=False, **options).adjacency()


def causal_learn(oracle, tiers, **options):
    from causallearn.graph.GraphNode import GraphNode
    from causallearn.search.ConstraintBased.PC import pc as search
    from causallearn.utils.cit import CIT_Base, register_ci_test
    from causallearn.utils.PCUtils.BackgroundKnowledge import BackgroundKnowledge

    class Test(CIT_Base):
        def __init__(self, data, **kwargs):
            super().__init__(data, **kwargs)
            self.method = "oracle"

        def __call__(self, X, Y, condition_set=None):
            return oracle.pvalue(int(X), int(Y), tuple(int(k) for k in condition_set or ()))

    register_ci_test("oracle", Test)
    known = None
    if tiers is not None:
        known = BackgroundKnowledge()
        for rank, tier in enumerate(tiers):
            for v in tier:
                known.add_node_to_tier(GraphNode(f"v{v}"), rank)
    graph = search(
        np.zeros((10, oracle.p)),
        ALPHA,
        "oracle",
        node_names=list(oracle.names),
        background_knowledge=known,
        show_progress=False,
        **options,
    ).G.graph
    # [j, i] = 1 and [i, j] = -1 for i --> j; -1 and -1 undirected; 1 and 1 both ways.
    return np.where((graph == 1) & (graph.T == 1), 2, (graph == -1).astype(int))


def pgmpy_pc(oracle, tiers, **options):
    import pandas as pd
    from pgmpy.causal_discovery import PC, ExpertKnowledge

    class Test:
        def __call__(self, X, Y, Z=(), significance_level=ALPHA, **kwargs):
            self.p_value_ = oracle.pvalue(int(X[1:]), int(Y[1:]), tuple(int(k[1:]) for k in Z))
            self.effect_size_ = 1.0 - self.p_value_
            return self.p_value_ >= significance_level

    known = None
    if tiers is not None:
        known = ExpertKnowledge(temporal_order=[[f"v{v}" for v in tier] for tier in tiers if tier])
    search = PC(
        ci_test=Test(),
        significance_level=ALPHA,
        max_cond_vars=oracle.p,
        expert_knowledge=known,
        n_jobs=1,
        show_progress=False,
        **options,
    )
    graph = search.fit(pd.DataFrame(np.zeros((10, oracle.p)), columns=list(oracle.names))).causal_graph_
    table = np.zeros((oracle.p, oracle.p), dtype=int)
    for a, b in graph.directed_edges:
        table[int(a[1:]), int(b[1:])] = 1
    for a, b in graph.undirected_edges:
        table[int(a[1:]), int(b[1:])] = table[int(b[1:]), int(a[1:])] = 1
    return table


def implementations():
    for rule in RULES:
        yield f"kembed, {rule}", ours, {"orientation": rule}
    yield "kembed, first, stable=False", ours, {"orientation": "first", "stable": False}
    for stable in (True, False):
        for rule in (0, 1, 2):
            options = {"stable": stable, "uc_rule": rule}
            yield f"causal-learn, stable={stable}, uc_rule={rule}", causal_learn, options
    yield "causal-learn, stable=True, uc_priority=1", causal_learn, {"stable": True, "uc_priority": 1}
    for variant in ("orig", "stable", "parallel"):
        for rule in (None, "pvalue"):
            options = {"variant": variant, "orient_rule": rule}
            yield f"pgmpy, {variant}, orient_rule={rule}", pgmpy_pc, options


def problems(seed, sizes, most):
    rng, found = np.random.default_rng(seed), []
    while len(found) < COUNT:
        p = int(rng.integers(sizes[0], sizes[1] + 1))
        dag = reference.random_dag(rng, p, rng.uniform(0.1, 0.8))
        if len(dag) <= most:
            cuts = sorted(rng.integers(0, p + 1, size=2))
            order = reference.topological(dag, p)
            tiers = [sorted(part) for part in (order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :])]
            tiers = [part for part in tiers if part]
            if len(tiers) > 1:
                found.append((dag, p, tiers))
    return found


def keeping(dag, p, tiers):
    """What all DAGs have in common that are equivalent to this one and keep the tiers."""
    rank = {v: place for place, tier in enumerate(tiers) for v in tier}
    every = [d for d in reference.equivalent_dags(dag, p) if all(rank[a] <= rank[b] for a, b in d)]
    return reference.common_part(every, p)


def score(run, options, jobs):
    """How many graphs are right, how many adjacencies; None if it raises."""
    right = skeleton = failed = 0
    for oracle, tiers, truth in jobs:
        try:
            found = run(oracle, tiers, **options)
        except Exception:
            failed += 1
            continue
        right += np.array_equal(found, truth)
        skeleton += np.array_equal((found + found.T) > 0, (truth + truth.T) > 0)
    return (
        f"{right}"
        + (f" ({skeleton} skeletons)" if skeleton != right else "")
        + (f", {failed} raise" if failed else "")
    )


class Clash(Oracle):
    """a - b - c - d, where a, c and b, d look independent: one edge, two colliders that disagree."""

    def __init__(self):
        super().__init__(frozenset(), 4, False)

    def pvalue(self, i, j, given):
        """1 for pairs that are not neighbours, given nothing."""
        return float(abs(i - j) > 1 and not given)


def clash(run, options):
    try:
        found = run(Clash(), None, **options)
    except Exception as error:
        return type(error).__name__
    words = {(2, 2): "b <-> c", (1, 0): "b --> c", (0, 1): "c --> b", (1, 1): "b --- c"}
    return words.get((int(found[1, 2]), int(found[2, 1])), "none")


def tables():
    """Rows of linear models with normal noise."""
    for dag, p, _ in problems(SEED + 2, (8, 8), 99):
        rng = np.random.default_rng([SEED, len(dag), *(v for edge in sorted(dag) for v in edge)])
        values = rng.normal(size=(ROWS, p))
        for v in reference.topological(dag, p):
            for u in sorted(reference.parents(dag, v)):
                values[:, v] += rng.uniform(0.3, 0.9) * rng.choice([-1, 1]) * values[:, u]
        yield values, rng.permutation(p)


def erring(run, options, data):
    """How many graphs change with the order of columns, and how many have a cycle or an edge both ways."""
    changed = cycles = both = 0
    for values, order in data:
        p = values.shape[1]
        names = tuple(f"v{i}" for i in range(p))
        first, second = FisherZ(values, names), FisherZ(values[:, order], names)
        first.p = second.p = p
        found, again = run(first, None, **options), np.zeros((p, p), dtype=int)
        again[np.ix_(order, order)] = run(second, None, **options)
        changed += not np.array_equal(found, again)
        arrows = {(int(i), int(j)) for i, j in np.argwhere((found == 1) & (found.T == 0))}
        cycles += reference.topological(arrows, p) is None
        both += bool((found == 2).any())
    return [str(changed), str(cycles), str(both)]


def main() -> None:
    warnings.simplefilter("ignore")
    plain = problems(SEED, (4, 8), 99)
    small = problems(SEED + 1, (4, 6), 9)
    jobs = {
        name: [(Oracle(dag, p, graded), None, reference.cpdag(dag, p)) for dag, p, _ in plain]
        for name, graded in (("exact", False), ("graded", True))
    }
    tiered = [(Oracle(dag, p, False), tiers, keeping(dag, p, tiers)) for dag, p, tiers in small]
    data = list(tables())
    print(
        f"Seed {SEED}; {COUNT} DAGs of 4 to 8 nodes, and {COUNT} of 4 to 6 with two or three tiers; "
        f"causal-learn {version('causal-learn')}, pgmpy {version('pgmpy')}. Right graphs of {COUNT} "
        "(skeletons alone, where more are right); the middle edge of two colliders that disagree; then of "
        f"{COUNT} tables of {ROWS} rows and 8 columns: the graph changes with the order of columns, has a "
        "directed cycle, has an edge marked both ways.\n"
    )
    print("| | exact | graded | with tiers | disagreeing | changes | cycle | both ways | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, run, options in implementations():
        started = time.perf_counter()
        cells = [score(run, options, part) for part in (jobs["exact"], jobs["graded"], tiered)]
        cells += [clash(run, options), *erring(run, options, data)]
        print(f"| {name} | {' | '.join(cells)} | {time.perf_counter() - started:.1f} |", flush=True)


if __name__ == "__main__":
    main()

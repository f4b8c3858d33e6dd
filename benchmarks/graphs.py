"""Random graphs: which edges PC finds with our test, with Fisher's z and with KCI (both by causal-learn).

Fifty random DAGs of eight variables, every pair joined with probability 2/7 (two neighbours on average),
n=500; each variable is a sum of nonlinear functions of its parents plus noise. Compared with the true CPDAG:
F1 of the adjacent pairs, the structural Hamming distance (pairs whose edge differs), and the time of a
search. Settings: level 0.05, all conditioning sets, every library's defaults otherwise. KEMBED_METHODS runs
some.
"""

import os
import time

import numpy as np

from benchmarks._workers import spread

SEED, ALPHA = 30, 0.05
GRAPHS = int(os.environ.get("KEMBED_GRAPHS", "50"))
NODES, ROWS, DENSITY = 8, 500, 2.0 / 7.0
FUNCTIONS = (
    np.tanh,
    lambda t: np.sin(1.5 * t),
    lambda t: t**2 / np.sqrt(2.0),
    lambda t: 0.5 * t + np.abs(t),
    lambda t: np.exp(-(t**2)) * 2.0,
    lambda t: t,
)
METHODS = ("kembed", "kembed, bkl", "Fisher's z", "KCI")


def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A DAG (1 at [a, b] for a --> b) and data from it."""
    rng = np.random.default_rng([SEED, seed])
    order = rng.permutation(NODES)
    dag = np.zeros((NODES, NODES), dtype=int)
    X = np.zeros((ROWS, NODES))
    for place, b in enumerate(order):
        parents = [a for a in order[:place] if rng.uniform() < DENSITY]
        signal = np.zeros(ROWS)
        for a in parents:
            dag[a, b] = 1
            signal += rng.choice([-1.0, 1.0]) * FUNCTIONS[rng.integers(len(FUNCTIONS))](X[:, a])
        noise = rng.standard_normal(ROWS) if rng.uniform() < 0.5 else rng.laplace(size=ROWS) / np.sqrt(2.0)
        size = signal.std() if parents else 1.0
        X[:, b] = signal / max(size, 1e-9) + rng.uniform(0.5, 1.0) * noise if parents else noise
        X[:, b] = (X[:, b] - X[:, b].mean()) / X[:, b].std()
    return dag, X


def ours(X: np.ndarray, kernel: str) -> np.ndarray:
    from kembed.graphs.pc import pc

    return pc(X, alpha=ALPHA, kernel=kernel, rng=0, progress=False).adjacency()


def theirs(X: np.ndarray, test: str) -> np.ndarray:
    """causal-learn's PC as an adjacency matrix like ours."""
    from causallearn.search.ConstraintBased.PC import pc

    graph = pc(X, ALPHA, test, show_progress=False).G.graph  # -1 a tail, 1 a head, at [b, a] the end at b
    head, edge = graph == 1, graph != 0
    both = head & head.T
    return np.where(both, 2, (edge & ~head).astype(int))


def _one(task: tuple) -> tuple[float, int, float, int]:
    from kembed.graphs.graph import CausalGraph

    method, seed = task
    dag, X = draw(seed)
    names = [str(k) for k in range(NODES)]
    truth = CausalGraph.from_dag(
        names, {str(b): [str(a) for a in np.flatnonzero(dag[:, b])] for b in range(NODES)}
    ).adjacency()
    start = time.process_time()
    if method.startswith("kembed"):
        found = ours(X, "bkl" if "bkl" in method else "fused")
    else:
        found = theirs(X, "kci" if method == "KCI" else "fisherz")
    taken = time.process_time() - start
    upper = np.triu_indices(NODES, 1)
    is_edge, found_edge = ((table + table.T > 0)[upper] for table in (truth, found))
    hits = int((is_edge & found_edge).sum())
    f1 = 2.0 * hits / max(int(is_edge.sum() + found_edge.sum()), 1)
    differs = (truth != found) | (truth != found).T
    return f1, int(differs[upper].sum()), taken, int(found_edge.sum())


def main() -> None:
    chosen = os.environ.get("KEMBED_METHODS")
    print(f"{GRAPHS} graphs of {NODES} variables, n={ROWS}, level {ALPHA}, seed {SEED} (standard error).\n")
    print("| test in PC | skeleton F1 | Hamming distance | CPU seconds a search | edges found |")
    print("|---|---|---|---|---|")
    for method in chosen.split("|") if chosen else METHODS:
        results = np.array(spread(_one, [(method, seed) for seed in range(GRAPHS)]), dtype=float)
        mean, error = results.mean(axis=0), results.std(axis=0, ddof=1) / np.sqrt(len(results))
        print(
            f"| {method} | {mean[0]:.3f} ({error[0]:.3f}) | {mean[1]:.2f} ({error[1]:.2f}) | {mean[2]:.1f} "
            f"| {mean[3]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Independence tests of many rows beside the test of all pairs of rows: power, level, time; graphs likewise.

`python -m benchmarks.independence_size power [ROWS] [REPETITIONS]`: DEPENDENCE with ROWS rows and effects
scaled down: a row keeps its own y with probability √(n/ROWS), else it gets one of another draw, so that the
cross-covariance falls as the noise does. `level [ROWS] [DRAWS]`: independent sides.
`conditional [ROWS] [DRAWS]`: the level given two common causes. `time`: processor seconds.
`pc [ROWS]`: a random graph of 20 variables.
`graphs [ROWS] [GRAPHS]`: the graph of the large path beside that of the exact one. Level .05.
"""

import sys
import time
import warnings
from dataclasses import replace

import numpy as np

from benchmarks._workers import LEVEL, SEED, seeded, spread
from benchmarks.alternatives import DEPENDENCE
from kembed import ConditionalTester, hsic_test, pc

B = 199
WAYS = ({"statistic": "unbiased"}, {"statistic": "features"}, {"null": "normal"})


def diluted(name: str, rows: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """A set with so many rows, most of them with the y of another draw."""
    each = DEPENDENCE[name]
    drawn = [each.draw(rng) for _ in range(-(-2 * rows // each.n))]
    x, y = (np.concatenate(side) for side in zip(*drawn, strict=True))
    kept = rng.random(rows) < np.sqrt(each.n / rows)
    other = y[rows : 2 * rows].copy()
    other[kept] = y[:rows][kept]
    return x[:rows], other


def compared(job: tuple[str, int, int]) -> tuple[float, ...]:
    """p-values and processor seconds of every way."""
    name, rows, r = job
    warnings.simplefilter("ignore")
    rng = seeded(name, r)
    x, y = diluted(name, rows, rng)
    found = []
    for way in WAYS:
        start = time.process_time()
        p = hsic_test(x, y, n_resamples=B, rng=rng, **way).pvalue
        found += [p, time.process_time() - start]
    return tuple(found)


def power(rows: int, repetitions: int) -> None:
    print(f"{rows} rows, {repetitions} repetitions, B = {B}, level {LEVEL}, seed {SEED}")
    print("| set | pairs of rows | features | normal limit | seconds | | |\n|---|---|---|---|---|---|---|")
    every = []
    for name in DEPENDENCE:
        found = np.array(spread(compared, [(name, rows, r) for r in range(repetitions)]))
        every.append(found)
        powers, times = (found[:, ::2] <= LEVEL + 1e-12).mean(axis=0), np.median(found[:, 1::2], axis=0)
        cells = [f"{value:.2f}" for value in (*powers, *times)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    rejected = np.stack(every)[:, :, ::2] <= LEVEL + 1e-12
    difference = rejected.astype(float) - rejected[:, :, :1]
    error = np.sqrt(difference.var(axis=1).sum(axis=0) / repetitions) / len(every)
    means = rejected.mean(axis=(0, 1))
    print("| **mean** | " + " | ".join(f"{value:.3f}" for value in means) + " | | | |")
    print(f"difference: {means[1:] - means[0]}, s.e. {error[1:]}")


def null_pvalues(job: tuple[int, int]) -> list[float]:
    rows, r = job
    rng = seeded("independent", r)
    x, y = (
        rng.standard_t(2.0, size=(rows, 2)),
        np.column_stack([rng.exponential(size=rows), rng.poisson(1.0, rows)]),
    )
    return [hsic_test(x, y, n_resamples=B, rng=rng, **way).pvalue for way in WAYS[1:]]


def conditional_pvalue(job: tuple[int, int]) -> list[float]:
    rows, r = job
    rng = seeded("given", r)
    z = rng.normal(size=(rows, 2))
    x = np.sin(z[:, 0]) + z[:, 1] + (0.5 + 0.3 * np.abs(z[:, 0])) * rng.normal(size=rows)
    y = z[:, 0] ** 2 + 0.5 * z[:, 1] + rng.exponential(size=rows)
    tester = ConditionalTester(np.column_stack([x, y, z]), n_resamples=B, rng=r)
    return [tester.test(0, 1, (2, 3)).pvalue]


def levels(function, rows: int, draws: int) -> None:
    p = np.array(spread(function, [(rows, r) for r in range(draws)]))
    for alpha in (0.01, 0.05, 0.10):
        share = (p <= alpha + 1e-12).mean(axis=0)
        error = np.sqrt(alpha * (1 - alpha) / draws)
        print(f"{rows} rows, {draws} draws, level {alpha}: {share}, s.e. {error:.4f}")


def times() -> None:
    rng = np.random.default_rng(SEED)
    print("| rows | columns | way | seconds |\n|---|---|---|---|")
    for rows in (2_000, 4_000, 8_000, 100_000, 1_000_000):
        for width in (1, 5, 20):
            x, y = rng.normal(size=(rows, width)), rng.normal(size=(rows, width))
            for way in WAYS:
                if (way == WAYS[0] and rows > 8_000) or (rows > 100_000 and (way == WAYS[1] or width > 1)):
                    continue
                start = time.process_time()
                hsic_test(x, y, rng=0, **way)
                took = time.process_time() - start
                print(f"| {rows} | {width} + {width} | {way} | {took:.1f} |", flush=True)


def table(rows: int, variables: int, rng) -> np.ndarray:
    """A random graph with about one and a half edges a variable, curved."""
    X = rng.normal(size=(rows, variables))
    for j in range(1, variables):
        for i in rng.choice(j, min(j, int(rng.integers(1, 3))), replace=False):
            bend = (np.tanh, np.sin, lambda t: 0.5 * t)[int(rng.integers(3))]
            X[:, j] += 1.2 * bend(X[:, i])
        X[:, j] /= X[:, j].std()
    return X


def search(rows: int, variables: int) -> None:
    X = table(rows, variables, np.random.default_rng(SEED))
    start, wall = time.process_time(), time.perf_counter()
    graph = pc(X, max_given=2, progress=False)
    print(f"{rows} x {variables}: {time.process_time() - start:.0f} processor seconds", end=", ")
    print(f"{time.perf_counter() - wall:.0f} s, {graph.n_tests} tests, {len(graph.edges)} edges")


def graphs(rows: int, count: int) -> None:
    for g in range(count):
        X = table(rows, 8, np.random.default_rng([SEED, g]))
        testers = [ConditionalTester(X, kernel="bkl") for _ in range(2)]
        exact = testers[0]
        exact._settings = replace(exact._settings, binned_rows=rows)
        exact._sides.settings = exact._settings
        found = []
        for tester in (exact, testers[1]):
            start = time.process_time()
            graph = pc(None, test=tester, progress=False)
            found.append((graph, time.process_time() - start))
        edges = [{(e.a, e.mark, e.b) for e in graph.edges} for graph, _ in found]
        pairs = [{frozenset((e.a, e.b)) for e in graph.edges} for graph, _ in found]
        seconds = " and ".join(f"{took:.0f}" for _, took in found)
        print(f"graph {g}: edges {len(pairs[0])} and {len(pairs[1])}", end=", ")
        print(f"different pairs {len(pairs[0] ^ pairs[1])}", end=", ")
        print(f"marks {len(edges[0] ^ edges[1])}, {seconds} s", flush=True)


def main() -> None:
    what, *numbers = sys.argv[1:]
    first, second = ([int(number) for number in numbers] + [0, 0])[:2]
    if what == "power":
        power(first or 2_000, second or 50)
    elif what == "level":
        levels(null_pvalues, first or 2_000, second or 500)
    elif what == "conditional":
        levels(conditional_pvalue, first or 5_100, second or 500)
    elif what == "time":
        times()
    elif what == "pc":
        search(first or 100_000, 20)
    else:
        graphs(first or 5_100, second or 5)


if __name__ == "__main__":
    main()

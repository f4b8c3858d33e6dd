"""The conditional test: level, power and time, beside causal-learn's KCI.

Level at 0.05 with linear, sine and multiplicative-noise confounders, and of series with `dependence_length=`;
power against KCI on the cases of `conditional_data.py`, with the time of a test of either, measured in turn
in one process. Parts run alone with KEMBED_PART=level, power, resamples, regression, time or memory.
"""

import os
import time

import numpy as np
from scipy.signal import lfilter

from benchmarks._workers import spread
from benchmarks.conditional_data import CONFOUNDERS, DEPENDENCES, DIMENSIONS, dependent, null
from kembed import ConditionalTester, conditional_test

SEED, ALPHA = 20, 0.05
REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "1000"))
POWER_REPETITIONS = int(os.environ.get("KEMBED_POWER_REPETITIONS", "100"))
PART = os.environ.get("KEMBED_PART", "level,power,resamples,regression,time,memory").split(",")
TIMES = int(os.environ.get("KEMBED_TIMES", "16"))  # tests of a cell that are timed; the first is not counted
ROWS = [int(n) for n in os.environ.get("KEMBED_ROWS", "200,500").split(",")]
CHOSEN = os.environ.get("KEMBED_CONFOUNDERS", ",".join(CONFOUNDERS)).split(",")
STRENGTHS, MEMORIES = (0.85, 0.5), (None, 5.0, 10.0, 20.0)  # of series: the share kept of the last step


def kci(x: np.ndarray, y: np.ndarray, Z: np.ndarray) -> float:
    """causal-learn's test with its defaults."""
    from causallearn.utils.cit import CIT

    table = np.column_stack([x, y, Z])
    return float(CIT(table, "kci")(0, 1, list(range(2, table.shape[1]))))


def _level(task: tuple) -> bool:
    confounder, dimension, n, seed = task
    rng = np.random.default_rng([SEED, seed])
    return conditional_test(*null(confounder, dimension, n, rng), rng=rng).pvalue <= ALPHA


def level() -> None:
    """Share of draws rejected where x and y are independent given z."""
    print(
        f"Level at {ALPHA}: share rejected of {REPETITIONS:,} draws (standard error at .05: "
        f"{np.sqrt(0.05 * 0.95 / REPETITIONS):.4f}), seed {SEED}.\n"
    )
    print("| confounder | n | " + " | ".join(f"dim(given)={d}" for d in DIMENSIONS) + " |")
    print("|---|---|" + "---|" * len(DIMENSIONS))
    for confounder in CHOSEN:
        for n in ROWS:
            shares = []
            for dimension in DIMENSIONS:
                tasks = [(confounder, dimension, n, seed) for seed in range(REPETITIONS)]
                shares.append(np.mean(spread(_level, tasks)))
            print(
                f"| {confounder} | {n} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True
            )


def _memory(task: tuple) -> bool:
    strength, memory, repetition = task
    rng = np.random.default_rng([repetition, int(100 * strength)])
    noise = rng.normal(size=(3, 200))
    noise[:, 0] /= np.sqrt(1.0 - strength**2)
    how = {"kernel": "median", "n_resamples": 99, "rng": repetition}
    series = lfilter([1.0], [1.0, -strength], noise)
    return conditional_test(*series, dependence_length=memory, **how).pvalue <= ALPHA


def memories() -> None:
    """Share of draws rejected of three autoregressive series that know nothing of each other."""
    repetitions = max(REPETITIONS // 5, 1)
    print(f"\nLevel at {ALPHA} of series of 200 rows with `dependence_length=`, {repetitions} draws.\n")
    print(f"| share kept | {' | '.join(map(str, MEMORIES))} |\n|---|{'---|' * len(MEMORIES)}")
    for strength in STRENGTHS:
        tasks = [[(strength, memory, r) for r in range(repetitions)] for memory in MEMORIES]
        shares = " | ".join(f"{np.mean(spread(_memory, each)):.3f}" for each in tasks)
        print(f"| {strength} | {shares} |", flush=True)


def _power(task: tuple) -> tuple[bool, bool]:
    kind, dimension, strength, seed = task
    rng = np.random.default_rng([SEED + 2, seed])
    data = dependent(kind, dimension, 1_000, rng, strength)
    return conditional_test(*data, rng=rng).pvalue <= ALPHA, kci(*data) <= ALPHA


def power() -> None:
    """Rejections of both tests on the same data, and where x and y are independent (strength 0)."""
    print(
        f"\nPower at {ALPHA}, n=1,000, {POWER_REPETITIONS} draws, seed {SEED + 2}; strength 0 is the level.\n"
    )
    print("| dependence | dim(given) | strength | kembed | KCI | kembed, strength 0 | KCI, strength 0 |")
    print("|---|---|---|---|---|---|---|")
    every = []
    for kind, strengths in DEPENDENCES.items():
        for dimension, strength in zip(DIMENSIONS, strengths, strict=True):
            seeds = range(POWER_REPETITIONS)
            ours, theirs = np.mean(spread(_power, [(kind, dimension, strength, s) for s in seeds]), axis=0)
            none, their_none = np.mean(spread(_power, [(kind, dimension, 0.0, s) for s in seeds]), axis=0)
            every.append((ours, theirs, none, their_none))
            print(
                f"| {kind} | {dimension} | {strength} | {ours:.2f} | {theirs:.2f} | {none:.2f} | "
                f"{their_none:.2f} |",
                flush=True,
            )
    print("| mean | | | " + " | ".join(f"{share:.3f}" for share in np.mean(every, axis=0)) + " |", flush=True)


def _resample(task: int) -> list[bool]:
    rng = np.random.default_rng([SEED + 4, task])
    x, y, Z = null("linear", 1, 200, rng)
    drawn = rng.integers(200, size=200)
    rows = (np.arange(200), drawn, np.unique(drawn))
    found = [conditional_test(x[r], y[r], Z[r], rng=0).pvalue for r in rows]
    shared = ConditionalTester(np.column_stack([x, y, Z]), rng=0).resampled(rows[-1], ALPHA)
    return [p <= ALPHA for p in (*found, shared.pvalue(0, 1, tuple(range(2, 2 + Z.shape[1]))))]


def resamples() -> None:
    """The level on a sample, on a bootstrap draw of it, and on the distinct rows of that draw."""
    repetitions = max(REPETITIONS // 4, 1)
    sample, repeated, distinct, shared = np.mean(spread(_resample, range(repetitions)), axis=0)
    print(
        f"\nLevel at {ALPHA}, linear confounder, n=200, {repetitions} draws, seed {SEED + 4}: the sample "
        f"{sample:.3f}, a bootstrap draw of it {repeated:.3f}, its distinct rows {distinct:.3f}, "
        f"these with the regressions of the whole sample {shared:.3f}.",
        flush=True,
    )


def _ridge(task: int) -> list[float]:
    """Without and with turned axes: whether the test rejects, and the mean square the regression leaves."""
    from kembed.conditional import likelihood

    rng = np.random.default_rng([SEED + 5, task])
    x, y, Z = null("sine", 5, 200, rng)
    out = []
    usual = likelihood.MAX_AXES
    for axes in (1, usual):
        likelihood.MAX_AXES = axes
        found = conditional_test(x, y, Z, rng=0)
        out += [found.pvalue <= ALPHA, found.regressions[0][0].unexplained]
    likelihood.MAX_AXES = usual
    return out


def regression() -> None:
    """What turning the axes buys, and the time of a fit beside scikit-learn's."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from threadpoolctl import threadpool_limits

    from kembed.conditional.likelihood import learn_regression
    from kembed.conditional.regression import gaussian_process

    draws = max(REPETITIONS // 10, 1)
    plain, left, turned, less = np.mean(spread(_ridge, range(draws)), axis=0)
    print(
        f"\nSine along the diagonal of 5 columns, n=200, {draws} draws, seed {SEED + 5}: level and "
        f"share of variance left on left-out rows {plain:.2f}, {left:.2f} with axes as given, {turned:.2f}, "
        f"{less:.2f} turned."
    )
    with threadpool_limits(1):
        for n in (200, 330):
            x, _, Z = null("sine", 3, n, np.random.default_rng(SEED))
            x = x - x.mean()
            start = time.perf_counter()
            for _ in range(5):
                gaussian_process(Z, learn_regression(Z, x[:, None]))(x[:, None])
            ours = (time.perf_counter() - start) / 5
            model = GaussianProcessRegressor(
                ConstantKernel() * RBF(np.ones(3)) + WhiteKernel(), n_restarts_optimizer=1, random_state=0
            )
            start = time.perf_counter()
            model.fit(Z, x)
            theirs = time.perf_counter() - start
            print(f"On 3 columns, n={n}: ours {ours:.3f} s, scikit-learn {theirs:.2f} s (2 starts).")


def timing() -> None:
    """Seconds a test, the two in turn, one thread each."""
    from threadpoolctl import threadpool_limits

    print(f"\nSeconds a test at n=1,000, median of {TIMES - 1}, one thread, in turn in one process.\n")
    print("| dependence | dim(given) | kembed | KCI | ratio |")
    print("|---|---|---|---|---|")
    with threadpool_limits(1):
        for kind, strengths in DEPENDENCES.items():
            for dimension, strength in zip(DIMENSIONS, strengths, strict=True):
                taken: tuple[list[float], list[float]] = ([], [])
                for seed in range(TIMES):
                    data = dependent(
                        kind, dimension, 1_000, np.random.default_rng([SEED + 3, seed]), strength
                    )
                    for test, times in zip(
                        (lambda d: conditional_test(*d, rng=0), lambda d: kci(*d)), taken, strict=True
                    ):
                        start = time.perf_counter()
                        test(data)
                        times.append(time.perf_counter() - start)
                ours, theirs = (float(np.median(times[1:])) for times in taken)  # the first one imports
                print(
                    f"| {kind} | {dimension} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |", flush=True
                )


def main() -> None:
    for name, run in (
        ("level", level),
        ("power", power),
        ("resamples", resamples),
        ("regression", regression),
        ("time", timing),
        ("memory", memories),
    ):
        if name in PART:
            run()


if __name__ == "__main__":
    main()

"""The conditional test: level, power and time, beside causal-learn's KCI.

Level at 0.05 with linear, sine and multiplicative-noise confounders; what each part of the test buys; power
against KCI on the cases of `conditional_data.py`, with the time of a test of either, measured in turn in one
process. Parts run alone with KEMBED_PART=level, parts, power, resamples, regression or time.
"""

import os
import time

import numpy as np

from benchmarks._workers import spread
from benchmarks.conditional_data import CONFOUNDERS, DEPENDENCES, DIMENSIONS, dependent, null
from kembed import ConditionalTester, conditional_test
from kembed.conditional.features import Settings, TableFeatures, check_kernels
from kembed.conditional.products import random_signs
from kembed.conditional.residuals import as_variable
from kembed.features.ensemble import separate_plan
from kembed.permutation.fusion import fuse
from kembed.permutation.nulls import resampled_pvalue

SEED, ALPHA = 20, 0.05
REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "1000"))
POWER_REPETITIONS = int(os.environ.get("KEMBED_POWER_REPETITIONS", "100"))
PART = os.environ.get("KEMBED_PART", "level,parts,power,resamples,regression,time").split(",")
TIMES = int(os.environ.get("KEMBED_TIMES", "16"))  # tests of a cell that are timed; the first is not counted
ROWS = [int(n) for n in os.environ.get("KEMBED_ROWS", "200,500").split(",")]
CHOSEN = os.environ.get("KEMBED_CONFOUNDERS", ",".join(CONFOUNDERS)).split(",")
# Of what is switched off, in turn.
VARIANTS = {
    "HSIC of residuals, permuted": {"scale": False, "centre": False, "permute": True},
    "+ spread taken out": {"centre": False, "permute": True},
    "+ features centred, signs, freedom": {},
    "the same, not cross-fitted": {"cross_fit": False},
}


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


def _variant(task: tuple) -> list[bool]:
    confounder, dimension, n, seed = task
    rng = np.random.default_rng([SEED + 1, seed])
    x, y, Z = null(confounder, dimension, n, rng)
    numeric = np.zeros(1, dtype=bool)
    variables = [
        as_variable(x[:, None], numeric),
        as_variable(y[:, None], numeric),
        as_variable(Z, np.zeros(dimension, dtype=bool)),
    ]
    E = random_signs(n, 499, rng)
    orders = np.stack([rng.permutation(n) for _ in range(499)])
    out = []
    for how in VARIANTS.values():
        how = dict(how)
        permute, centre = how.pop("permute", False), how.pop("centre", True)
        table = TableFeatures(variables, Settings(check_kernels("bkl"), **how))
        if not centre:
            table.conditioner((2,)).__dict__["centred"] = lambda F, indices: (F, 0.0)
        left, right = table.target(0, (2,)), table.target(1, (2,))
        values, _ = table.permuted(left, right, orders) if permute else table.statistics(left, right, (2,), E)
        combined = fuse(values, separate_plan(values.statistics.shape[1])).whole
        out.append(resampled_pvalue(combined[0], combined[1:]) <= ALPHA)
    return out


def parts() -> None:
    """The level with parts of the test switched off."""
    repetitions = max(REPETITIONS // 5, 1)
    print(
        f"\nWhat each part is for: level at {ALPHA}, {repetitions} draws, n=200 (standard error at .05: "
        f"{np.sqrt(0.05 * 0.95 / repetitions):.3f}), seed {SEED + 1}; KCI of causal-learn beside it.\n"
    )
    cases = [(confounder, dimension) for confounder in CONFOUNDERS for dimension in (1, 5)]
    print("| test | " + " | ".join(f"{c}, {d}" for c, d in cases) + " |")
    print("|---|" + "---|" * len(cases))
    found = [
        np.mean(spread(_variant, [(*case, 200, seed) for seed in range(repetitions)]), axis=0)
        for case in cases
    ]
    for place, name in enumerate(VARIANTS):
        print(f"| {name} | " + " | ".join(f"{column[place]:.3f}" for column in found) + " |")
    others = [np.mean(spread(_kci_level, [(*case, 200, s) for s in range(repetitions)])) for case in cases]
    print("| KCI | " + " | ".join(f"{share:.3f}" for share in others) + " |", flush=True)


def _kci_level(task: tuple) -> bool:
    confounder, dimension, n, seed = task
    return kci(*null(confounder, dimension, n, np.random.default_rng([SEED + 1, seed]))) <= ALPHA


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
        ("parts", parts),
        ("power", power),
        ("resamples", resamples),
        ("regression", regression),
        ("time", timing),
    ):
        if name in PART:
            run()


if __name__ == "__main__":
    main()

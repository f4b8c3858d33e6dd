"""The library under hostile arguments: `python -m tests.fuzz.api 2000 --seed 0`.

Every call is drawn from its number and the seed alone, so that `--only NUMBER` repeats one of them. Rules: an
error is a TypeError or a ValueError that kembed raises itself and that names what is wrong; nothing warns but
kembed itself; no result holds a number that is not finite; arguments and the surroundings stay as they were;
the same seed gives the same answer.
"""

import argparse
import inspect
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax  # noqa: F401 - it and scikit-learn change the environment when they are imported
import numpy as np
import pandas as pd
import sklearn  # noqa: F401
from tests.fuzz import rules, values

import kembed
from kembed.kernels.base import Kernel

Call = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]
# Words by which errors name what is wrong where no argument is at fault alone.
NAMED = (
    "file",
    "folder",
    "column",
    "sample 1",
    "sample 2",
    "sample 3",
    "the statistic is not finite",
    "rng",
    "all rows",
    "the samples",
    "lengthscale",
    "covariance",
    "rows lie so far",
)
KERNELS: tuple[Any, ...] = (
    *(
        "fused",
        "median",
        "median",
        "median-raw",
        "bkl",
        "paper",
        ["median", "median-raw"],
        ("median", "median"),
    ),
    *(kembed.Gaussian(1.0), kembed.Gaussian(1e154), kembed.Gaussian(1e-320), kembed.Gaussian(1e-154)),
    *(kembed.Matern12(2.0), kembed.Matern52(1e300), kembed.RationalQuadratic(1.0, 0.3), kembed.Delta()),
    *(kembed.MultiScale([0.5, 2.0]), kembed.Scaled(kembed.Gaussian(1.0), 1e300), kembed.Gaussian([1.0, 2.0])),
    *(kembed.Gaussian(1.0) + kembed.Matern32(1.0), kembed.OnColumns(kembed.Gaussian(1.0), [0])),
    *(
        lambda a, b: a @ b.T,
        lambda a, b: (a @ b.T).astype(complex),
        lambda a, b: np.full((len(a), len(b)), np.nan),
    ),
    lambda a, b: np.zeros((len(a), 1)),
    *(kembed.Scaled(kembed.Gaussian(1.0), 1e100), kembed.Scaled(kembed.Gaussian(1.0), 1e-100)),
    *(lambda a, b: 1e200 * (a @ b.T), lambda a, b: -np.exp(-np.abs(a @ b.T)), lambda a, b: None),
    *(lambda a, b: np.full((len(a), len(b)), "a"), lambda a, b: np.ma.masked_less(a @ b.T, 0.0)),
)
OPTIONS: dict[str, Sequence[Any]] = {
    "statistic": ("auto", "unbiased", "biased", "features"),
    "null": ("permutation", "permutation", "gamma", "spectral", "wild", "shift", "normal"),
    "n_resamples": (19, 19, 39, 99, 1),
    "nan_policy": ("raise", "omit", "include", "propagate"),
    "missing": ("raise", "omit", "include", "propagate"),
    "dependence_length": (None, 1.0, 5.0, 1e-3, 1e9),
    "paired": (False, True),
    "by_column": (False, True),
    "alpha": (0.05, 0.1, 0.2, 0.5),
    "unit": (None, 2, 5, np.int64(2), 0, -1, True, 2.5, "column 0", "who", (np.zeros((30, 2)), np.zeros(30))),
    "level": (0.9, 0.5, 0.99),
    "landmarks": (None, 5, 20, kembed.Landmarks("support", 4)),
    "noise": ("full", "diagonal", 1.0, 1e-300, 1e300),
    "measure": ("data", "lebesgue", kembed.GaussianMeasure(0.0, 4.0), None),
    "prewhiten": (None, None, "times"),
    "test": ("residuals", "fisher-z", "fisher-z"),
    "orientation": ("majority", "conservative", "max-p", "first"),
    "max_given": (None, 0, 1),
    "n_orders": (1, 2),
    "convention": ("half", "distance", "squared"),
    "lam": (None, 0.1, 0.9),
    "block": (1, 1, 2, 5, 100),
    "min_segment": (None, 1, 3, 10, 100),
    "order": (None, "column 0", "a", "nothing"),
    "prior": ("gamma", None),
    "random_state": (0, None, 7),
    "labels": (("x", "y"), ("a\x1b[31m", "b")),
    "weights": (None, "weights"),
    "convolution": (None,),
}
KERNEL_OBJECTS = tuple(one for one in KERNELS if isinstance(one, Kernel))


def drawn(seed: int, number: int) -> Call:
    """The call with this number: its name, the function, and what it is given."""
    rng = np.random.default_rng([seed, number])
    name = str(rng.choice(list(CALLS), p=SHARES))
    function, samples, options = CALLS[name]
    n, width = int(rng.integers(8, 40)), int(rng.integers(1, 4))
    names = [str(one) for one in rng.choice(["a", "b", "^b.*$", "*", "c d", "é"], width, False)]
    one_kind = int(rng.integers(2**31)) if rng.random() < 0.5 else None
    benign = rng.random() < 0.4  # so that options are tried on what can be answered
    given: list[Any] = []
    for _ in range(samples):
        own = np.random.default_rng([one_kind, 0]) if one_kind is not None else rng
        given.append(values.plain(own, n, width) if benign else values.sample(own, n, width, names))
        if one_kind is not None and isinstance(given[-1], np.ndarray) and given[-1].ndim and len(given) > 1:
            given[-1] = given[-1][::-1].copy()  # the same kind of table, other rows
    chosen: dict[str, Any] = {}
    for option in options:
        if option in ("n_resamples", "rng", "kernel"):
            continue
        if rng.random() < 2.0 / max(len(options), 2):
            pool = OPTIONS[option]
            chosen[option] = pool[rng.integers(len(pool))]
    if "n_resamples" in options:
        chosen["n_resamples"] = int(rng.choice(OPTIONS["n_resamples"]))
    if "rng" in options:
        chosen["rng"] = int(rng.integers(10))
    if "kernel" in options:
        pool = KERNEL_OBJECTS if function in OBJECTS else KERNELS
        if rng.random() < 0.6 or function in OBJECTS:
            chosen["kernel"] = pool[rng.integers(len(pool))]
    if isinstance(chosen.get("prewhiten"), str):
        chosen["prewhiten"] = np.sort(rng.random(n) * 100)
    if isinstance(chosen.get("weights"), str):
        size = float(rng.choice([1.0, 1e160, 1e-160]))
        chosen["weights"] = (size * rng.uniform(0.5, 2.0, n), size * rng.uniform(0.5, 2.0, n))
        if rng.random() < 0.3:  # nearly all on one row, or labelled in another order
            chosen["weights"][0][1:] *= float(rng.choice([1e-3, 1e-9, 1e-20]))
            chosen["weights"] = (chosen["weights"][0], pd.Series(chosen["weights"][1], rng.permutation(n)))
    if rng.random() < 0.25 and chosen:
        option = str(rng.choice(list(chosen)))
        chosen[option] = values.any_value(rng)
        if option == "n_resamples" and isinstance(chosen[option], int) and chosen[option] in (10**8, 10**30):
            pass  # refused, so not waited for
    return name, function, tuple(given), chosen


def pair_of(data: Any, **how: Any) -> Any:
    """A tester and one of its p-values."""
    return kembed.ConditionalTester(data, **how).pvalue(0, 1)


def embedded(x: Any, kernel: Any, **how: Any) -> Any:
    """An embedding and what it says at some of its own points."""
    mu = kembed.fit_embedding(x, kernel, **how)
    at = mu.landmarks[:3]
    return mu.mean(at), mu.sd(at), repr(mu)


def shrunk(x: Any, kernel: Any, lam: Any = None) -> Any:
    """The shrunken embedding at a point of its own."""
    mu = kembed.shrinkage(x, kernel, lam)
    return mu.norm(), repr(mu)


def plain(x: Any, kernel: Any) -> Any:
    """The empirical embedding."""
    mu = kembed.empirical(x, kernel)
    return mu.norm(), repr(mu)


def gram(x: Any, y: Any, kernel: Any) -> Any:
    """A kernel matrix."""
    return kernel.gram(x, y) if isinstance(kernel, Kernel) else kembed.empirical(x, kernel)


def drift(x: Any, y: Any, **how: Any) -> Any:
    """A detector fitted on one sample, asked about another."""
    detector = kembed.DriftDetector(**how).fit(x)
    return detector.test(y)


def sketched(x: Any, y: Any, **how: Any) -> Any:
    """A sketch of one sample against another."""
    kernel = how.pop("kernel", "median")
    return kembed.mmd_test(kembed.Sketch.of(x, kernel=kernel), y, **how)


def looked_at(x: Any, y: Any, **how: Any) -> Any:
    """A witness and what it says where its first rows are."""
    found = kembed.witness(x, y, **how)
    return found, repr(found)


TESTING = ("kernel", "statistic", "null", "n_resamples", "dependence_length", "rng", "nan_policy")
CALLS: dict[str, tuple[Callable[..., Any], int, tuple[str, ...]]] = {
    "mmd_test": (kembed.mmd_test, 2, (*TESTING, "paired", "by_column", "unit", "weights")),
    "hsic_test": (kembed.hsic_test, 2, (*TESTING, "unit")),
    "conditional_test": (
        kembed.conditional_test,
        3,
        ("kernel", "n_resamples", "prewhiten", "dependence_length", "rng", "nan_policy"),
    ),
    "k_sample_test": (kembed.k_sample_test, 3, ("kernel", "n_resamples", "rng", "nan_policy")),
    "compare": (kembed.compare, 2, ("kernel", "alpha", "n_resamples", "missing", "rng", "labels")),
    "witness": (looked_at, 2, ("kernel", "level", "landmarks", "nan_policy", "rng")),
    "learn_kernel": (kembed.learn_kernel, 1, ("prior", "rng")),
    "change_points": (
        kembed.change_points,
        1,
        ("order", "block", "min_segment", "alpha", "n_resamples", "rng", "nan_policy"),
    ),
    "pc": (
        kembed.pc,
        1,
        ("alpha", "test", "orientation", "max_given", "n_orders", "n_resamples", "rng", "nan_policy"),
    ),
    "ConditionalTester": (
        pair_of,
        1,
        ("kernel", "n_resamples", "dependence_length", "rng", "nan_policy"),
    ),
    "fit_embedding": (embedded, 1, ("kernel", "noise", "landmarks", "measure")),
    "shrinkage": (shrunk, 1, ("kernel", "lam")),
    "empirical": (plain, 1, ("kernel",)),
    "gram": (gram, 2, ("kernel",)),
    "choose_landmarks": (kembed.choose_landmarks, 1, ("landmarks", "rng")),
    "median_lengthscale": (kembed.median_lengthscale, 1, ("convention",)),
    "DriftDetector": (drift, 2, ("kernel", "alpha", "n_resamples", "nan_policy", "random_state")),
    "Sketch": (sketched, 2, ("kernel", "n_resamples", "rng", "nan_policy")),
}
OBJECTS = (embedded, shrunk, plain, gram)
SLOW = (
    "compare",
    "change_points",
    "witness",
    "conditional_test",
    "learn_kernel",
    "k_sample_test",
    "Sketch",
    "DriftDetector",
)
SHARES = np.array([0.5 if name in SLOW else 3.0 if name.endswith("_test") else 1.0 for name in CALLS])
SHARES /= SHARES.sum()


def tried(seed: int, number: int) -> tuple[str, list[rules.Finding], bool]:
    """Make one call; its name, the rules it broke, and whether it was answered."""
    name, function, given, chosen = drawn(seed, number)
    parameters = (
        set(inspect.signature(function).parameters)
        | set(chosen)
        | {"x", "y", "given", "data", "samples", "X", "Y", "reference"}
    )
    watched = rules.watch(lambda: function(*given, **chosen), (given, chosen), (*parameters, *NAMED))
    found = list(watched.findings)
    if watched.error is None and not found:
        found += unsound(watched.result, chosen)
        fresh = chosen.get("random_state") is None and name == "DriftDetector"
        if number % 7 == 0 and not fresh and isinstance(chosen.get("random_state", 0), int):
            found += again(lambda: function(*given, **chosen), watched.result, chosen)
    return name, found, watched.error is None


def unsound(result: Any, chosen: dict[str, Any]) -> list[rules.Finding]:
    """What no result holds: numbers that are not finite, p-values outside [0, 1]."""
    shown = [result.to_dict()] if hasattr(result, "to_dict") else [result]
    shown += [result.null_distribution] if hasattr(result, "null_distribution") else []
    repr(result)
    propagated = chosen.get("nan_policy") == "propagate"
    found = [
        rules.Finding("not finite", path)
        for path, value in rules.numbers_in(shown)
        if not np.isfinite(value) and not propagated
    ]
    p = getattr(result, "pvalue", 0.5)
    if not propagated and not 0.0 < p <= 1.0:
        found.append(rules.Finding("p-value", repr(p)))
    return found


def again(call: Callable[[], Any], first: Any, chosen: dict[str, Any]) -> list[rules.Finding]:
    """The same call gives the same answer."""
    if not hasattr(first, "pvalue") or chosen.get("rng", 0) is None:
        return []
    second = call()
    same = first.pvalue == second.pvalue or (np.isnan(first.pvalue) and np.isnan(second.pvalue))
    return [] if same else [rules.Finding("another answer", f"{first.pvalue} and {second.pvalue}")]


def fuzz(
    count: int, seed: int, start: int = 0, seconds: float = float("inf")
) -> tuple[Counter, list[str], int]:
    """Make calls until there were so many, or time is up: how often each was answered, and what was found."""
    answered: Counter = Counter()
    found: list[str] = []
    began, number = time.monotonic(), start
    while number < start + count and time.monotonic() - began < seconds:
        name, broken, came_back = tried(seed, number)
        answered[f"{name} {'answered' if came_back else 'refused'}"] += 1
        found += [f"{number} {name}: {rule}: {detail}" for rule, detail in broken]
        number += 1
    return answered, found, number - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz.api")
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", type=int, help="repeat this one, and show where it comes from")
    asked = parser.parse_args(arguments)
    if asked.only is not None:
        name, function, given, chosen = drawn(asked.seed, asked.only)
        print(name, chosen, *given, sep="\n")
        try:
            print(function(*given, **chosen))
        except Exception:
            traceback.print_exc()
        print(tried(asked.seed, asked.only))
        return 0
    answered, found, made = fuzz(asked.count, asked.seed, asked.start)
    print(*found, sep="\n")
    print(
        f"{made} calls, {len(found)} findings;", ", ".join(f"{k}: {v}" for k, v in sorted(answered.items()))
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

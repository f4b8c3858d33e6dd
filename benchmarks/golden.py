"""Golden numbers: what public calls return with fixed seeds, kept so that a rewrite can be compared.

    python -m benchmarks.golden record FILE                     # before the rewrite
    python -m benchmarks.golden compare FILE [--only SUBSTRING]  # after it, on the same machine

Only public names are called, so that modules may move. Numbers are equal if they differ by less than 1e-12 of
the larger (or by less than 1e-14), nan equals nan, and text, truth values and the shape of an answer must be
the same. Libraries run on one thread: sums in another order have other last digits. For the same reason
numbers of another machine, or of other versions of NumPy, SciPy or JAX, may differ without any fault of ours.

Tables that a kernel is learned from have 120 rows, in all, since JAX compiles anew for every size.
"""
# ruff: noqa: E402 - threads are counted when NumPy is imported

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import argparse
import dataclasses
import functools
import json
import math
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import kembed
import kembed.adapters

Calls = dict[str, Callable[[], Any]]

RELATIVE, ABSOLUTE = 1e-12, 1e-14
RESAMPLES = 199
LIBRARIES = ("numpy", "scipy", "jax", "jaxlib", "scikit-learn", "numpyro", "polars", "pandas")


# Answers as JSON.


def plain(value: Any) -> Any:
    """Numbers, text and lists out of arrays, kernels, tuples and the like."""
    if value is None or isinstance(value, str | bool | int | float):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, kembed.Kernel):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kernel class": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    # What prints its address cannot be compared; other objects (a whitened kernel) print what they are.
    return "function" if callable(value) else repr(value)


def sketch(values: Any) -> dict[str, Any]:
    """A long array by its shape, its first entries, its range and spread."""
    values = np.asarray(values)
    if not values.size:
        return {"shape": list(values.shape)}
    return plain(
        {
            "shape": values.shape,
            "first": values.ravel()[:8],
            "least": values.min(),
            "largest": values.max(),
            "sd": values.std(),
        }
    )


def attributes(thing: Any, *names: str) -> dict[str, Any]:
    """Some attributes by name."""
    return {name: plain(getattr(thing, name)) for name in names}


def of_test(result: Any) -> dict[str, Any]:
    """The outcome of a test."""
    return {
        **attributes(
            result, "statistic", "pvalue", "effect_of_kernel", "name", "null", "sizes", "enumerated"
        ),
        "kernel": plain(result.kernel),
        "null distribution": sketch(result.null_distribution),
        "members": [attributes(member, "kernel", "statistic", "neg_log_p") for member in result.members],
        "columns": [
            attributes(column, "name", "statistic", "pvalue", "adjusted_pvalue")
            for column in result.columns or ()
        ],
        "learned": _of_scales(result.learned),
    }


def _of_scales(learned: Any) -> list[Any]:
    """What a test learned on every side: a kernel, a scan of the evidence, or nothing."""
    return [
        attributes(one.model, "kernel", "log_evidence")
        if one is not None and one.model is not None
        else one and {"peaks": plain(one.peaks), "log evidence": sketch(one.log_evidence)}
        for one in learned
    ]


def of_conditional(result: Any) -> dict[str, Any]:
    """The outcome of a conditional test."""
    return {
        **of_test(result),
        "given": plain(result.given),
        "residuals": [sketch(side) for side in result.residuals],
        "regressions": [
            [attributes(column, "unexplained", "freedom") for column in side] for side in result.regressions
        ],
        "prewhitened": _of_whitening(result.prewhitened),
    }


def _of_whitening(columns: Iterable[Any]) -> list[Any]:
    return [attributes(one, "name", "lengthscale", "before", "after") for one in columns]


def of_graph(graph: Any) -> dict[str, Any]:
    """A causal graph."""
    return {
        **attributes(graph, "names", "alpha", "n_tests", "conflicts", "ambiguous", "n_orders", "n_bootstrap"),
        **attributes(graph, "counted", "frequencies"),
        "edges": [
            attributes(edge, "a", "b", "mark", "pvalue", "frequency", "mark_frequency")
            for edge in graph.edges
        ],
        "adjacency": plain(graph.adjacency()),
        "separating sets": _by_pair(graph.separating_sets),
        "pvalues": _by_pair(graph.pvalues),
        "table": plain(graph.table()),
        "dot": graph.to_dot(),
    }


def _by_pair(found: dict[Any, Any]) -> dict[str, Any]:
    return dict(sorted((" and ".join(sorted(pair)), plain(value)) for pair, value in found.items()))


def of_witness(found: Any, points: Any) -> dict[str, Any]:
    """A witness at points, where it is sure, and which columns matter."""
    return {
        **attributes(found, "names", "sizes", "level", "kernel", "sensitivity", "lengthscales"),
        "critical": [found.critical(), found.critical(0.5)],
        "bands": plain(found.at(points)._asdict()),
        "other level": plain(found.at(points, level=0.99)._asdict()),
        "draws": sketch(found.draws(points, size=5)),
        "values": [sketch(found.difference.mean(table.values)) for table in found.tables],
        "regions": [
            {
                **attributes(region, "sign", "box", "peak", "value", "band", "share_x", "share_y"),
                "words": str(region),
            }
            for region in found.where()
        ],
        "relevance": [
            attributes(column, "name", "sensitivity", "lengthscale", "pvalue", "adjusted_pvalue")
            for column in found.relevance
        ],
    }


def of_learned(learned: Any, points: Any = None) -> dict[str, Any]:
    """A learned kernel: every mode, the evidence and, where there is one, the density at points."""
    own = ("kernel", "noise", "log_evidence", "objective", "family", "n", "parameters")
    return {
        **attributes(learned, *own, "families", "median", "score"),
        "modes": [attributes(mode, "kernel", "log_evidence", "at_edge") for mode in learned.modes],
        "curve": {name: sketch(values) for name, values in learned.curve._asdict().items()},
        "landmarks": None if learned.landmarks is None else sketch(learned.landmarks),
        "measure": of_measure(learned.measure),
        "log density": None if points is None else plain(learned.log_density(points)),
    }


def of_measure(measure: Any) -> dict[str, Any]:
    """A measure by its parameters."""
    return {"class": type(measure).__name__, **{name: plain(value) for name, value in vars(measure).items()}}


def of_embedding(embedding: Any, other: Any, points: Any) -> dict[str, Any]:
    """An embedding at points, and its place beside another."""
    return {
        "mean": plain(embedding.mean(points)),
        "norm": embedding.norm(),
        "inner": embedding.inner(other),
        "distance": embedding.distance(other),
        "difference": plain((embedding - other)(points)),
    }


# Data.


def normal(seed: int, n: int = 120, columns: int = 2) -> np.ndarray:
    """Standard normal rows."""
    return np.random.default_rng(seed).normal(size=(n, columns))


def shifted(columns: int = 2, n: int = 66, m: int = 54, by: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of unequal sizes, the second moved and wider in its last column."""
    x, y = normal(1, n, columns), normal(2, m, columns)
    y[:, -1] = by + 1.3 * y[:, -1]
    return x, y


def tied(n: int = 90, m: int = 70) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of few different values."""
    rng = np.random.default_rng(3)
    return rng.integers(0, 4, size=(n, 2)).astype(float), rng.binomial(4, 0.6, size=(m, 2)).astype(float)


def clustered(n: int = 120) -> np.ndarray:
    """One column with two narrow heaps and a broad one, so that the evidence has several modes."""
    rng = np.random.default_rng(4)
    return np.concatenate([rng.normal(-3, 0.1, n // 3), rng.normal(3, 0.1, n // 3), rng.normal(0, 2, n // 3)])


def mixed(seed: int, n: int, share: float = 0.5) -> dict[str, Any]:
    """A table of numbers and text, as columns."""
    rng = np.random.default_rng(seed)
    colour = np.where(rng.random(n) < share, "red", np.where(rng.random(n) < 0.5, "green", "blue"))
    size = rng.normal(loc=share, size=n)
    return {"size": size, "weight": size + rng.gamma(2.0, size=n), "colour": colour.tolist()}


def sides(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Two columns that depend on two others, but do not correlate much."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 2))
    return x, np.column_stack([x[:, 0] ** 2 + rng.normal(size=n), rng.normal(size=n)])


def series(seed: int, n: int = 100, columns: int = 1) -> np.ndarray:
    """An autoregressive series."""
    found = normal(seed, n, columns)
    for t in range(1, n):
        found[t] += 0.6 * found[t - 1]
    return found


def caused(n: int = 100) -> dict[str, np.ndarray]:
    """rain and sprinkler make it wet, and wet makes it slippery."""
    noise = np.random.default_rng(6).normal(size=(4, n))
    wet = np.tanh(noise[0]) + noise[1] + 0.5 * noise[2]
    return {"rain": noise[0], "sprinkler": noise[1], "wet": wet, "slippery": wet + 0.7 * noise[3]}


def confounded(n: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x and y with the common cause z, and some dependence of their own."""
    rng = np.random.default_rng(7)
    z, noise = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    x = np.sin(z[:, 0]) + 0.5 * noise[:, 0]
    return x, np.exp(0.5 * z[:, 0]) + 0.3 * noise[:, 1] + 0.2 * noise[:, 0] ** 2, z


# Two samples.


def mmd(x: Any, y: Any, **options: Any) -> Any:
    return of_test(kembed.mmd_test(x, y, **{"n_resamples": RESAMPLES, "rng": 0, **options}))


def laplace(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A kernel as a plain function."""
    return np.exp(-np.abs(x[:, None, :] - y[None, :, :]).sum(axis=2))


def with_gaps(x: np.ndarray) -> np.ndarray:
    """The same table with two missing entries."""
    x = x.copy()
    x[3, 0] = x[7, 1] = np.nan
    return x


KERNEL_LIST = [kembed.Gaussian(0.5), kembed.Gaussian([1.0, 2.0]), kembed.Matern32(1.0), "median", laplace]

MMD: Calls = {
    "mmd fused": lambda: mmd(*shifted()),
    "mmd fused, 1 column": lambda: mmd(*shifted(1)),
    "mmd fused, 10 columns": lambda: mmd(*shifted(10)),
    "mmd fused, ties": lambda: mmd(*tied()),
    "mmd bkl": lambda: mmd(*shifted(), kernel="bkl"),
    "mmd ard": lambda: mmd(*shifted(), kernel="ard"),
    "mmd median": lambda: mmd(*shifted(10), kernel="median"),
    "mmd kernel objects": lambda: [
        mmd(*shifted(), kernel=kernel)
        for kernel in (KERNELS["Gaussian full"], KERNELS["RationalQuadratic"], KERNELS["MultiScale"])
    ],
    "mmd list of kernels": lambda: mmd(*shifted(), kernel=KERNEL_LIST),
    "mmd function": lambda: mmd(*shifted(), kernel=laplace),
    "mmd biased": lambda: [mmd(*shifted(), statistic="biased", kernel=word) for word in ("fused", "median")],
    "mmd features": lambda: [
        mmd(*shifted(), statistic="features", kernel=word) for word in ("fused", "median")
    ],
    "mmd mixed, bkl": lambda: mmd(pl.DataFrame(mixed(1, 66)), pl.DataFrame(mixed(2, 54, 0.3)), kernel="bkl"),
    "mmd gamma": lambda: [
        mmd(*shifted(), null="gamma", kernel="median", statistic=statistic)
        for statistic in ("unbiased", "biased")
    ],
    "mmd spectral": lambda: [
        mmd(*shifted(), null="spectral", kernel="median", statistic=statistic)
        for statistic in ("unbiased", "biased")
    ],
    "mmd wild": lambda: [
        mmd(series(1, 90), series(2, 75), null="wild"),
        mmd(series(1), series(2) + 0.3, null="wild", memory=5.0, kernel="median", paired=True),
    ],
    "mmd paired": lambda: [
        mmd(normal(1), normal(1) + 0.2 * normal(2), paired=True, statistic=statistic)
        for statistic in ("unbiased", "biased", "features")
    ],
    "mmd weights": lambda: mmd(
        *shifted(),
        weights=(np.random.default_rng(8).uniform(0.5, 2, 66), np.random.default_rng(9).uniform(0.5, 2, 54)),
    ),
    "mmd few rows": lambda: [
        mmd(*shifted(n=5, m=4), kernel="median"),
        mmd(normal(1, 7), normal(2, 7), paired=True, kernel="median"),
    ],
    "mmd by column, polars": lambda: mmd(
        pl.DataFrame(mixed(1, 66)), pl.DataFrame(mixed(2, 54, 0.3)), by_column=True
    ),
    "mmd by column, pandas": lambda: mmd(
        pd.DataFrame(mixed(1, 66)),
        pd.DataFrame(mixed(2, 60, 0.3))[["colour", "weight", "size"]],
        kernel="median",
        by_column=True,
    ),
    "mmd missing values": lambda: [
        mmd(with_gaps(normal(1)), normal(2), nan_policy=policy) for policy in ("omit", "propagate")
    ],
}

# Two sides.


def hsic(x: Any, y: Any, **options: Any) -> Any:
    return of_test(kembed.hsic_test(x, y, **{"n_resamples": RESAMPLES, "rng": 0, **options}))


HSIC: Calls = {
    "hsic fused": lambda: hsic(*sides()),
    "hsic fused, 1 and 10 columns": lambda: hsic(normal(1, 80, 1), normal(2, 80, 10)),
    "hsic fused, ties": lambda: hsic(tied(80, 80)[0][:, 0], tied(80, 80)[1]),
    "hsic words": lambda: {word: hsic(*sides(), kernel=word) for word in ("bkl", "ard", "median")},
    "hsic pair and list": lambda: [
        hsic(*sides(), kernel=(kembed.Gaussian(0.7), "median")),
        hsic(*sides(), kernel=[kembed.Gaussian(0.7), kembed.Matern12(1.0), laplace]),
    ],
    "hsic statistics": lambda: {
        statistic: hsic(*sides(), statistic=statistic) for statistic in ("biased", "features")
    },
    "hsic gamma and spectral": lambda: {
        f"{null} {statistic}": hsic(*sides(), null=null, kernel="median", statistic=statistic)
        for null in ("gamma", "spectral")
        for statistic in ("unbiased", "biased")
    },
    "hsic wild": lambda: [
        hsic(series(1), series(1) + series(2), null="wild", kernel="median"),
        hsic(series(1, 120), series(2, 120), null="wild", kernel="bkl", memory=4.0),
    ],
    "hsic few rows": lambda: hsic(normal(1, 5, 1), normal(2, 5, 1), kernel="median"),
    "hsic mixed": lambda: hsic(
        pd.DataFrame(mixed(1, 90))[["size", "colour"]], pl.DataFrame(mixed(1, 90)).select("weight")
    ),
    "hsic missing values": lambda: [
        hsic(with_gaps(sides()[0]), sides()[1], nan_policy=policy) for policy in ("omit", "propagate")
    ],
}

# Given others.


def conditional(*data: Any, **options: Any) -> Any:
    return of_conditional(kembed.conditional_test(*data, **{"n_resamples": RESAMPLES, "rng": 0, **options}))


def conditional_text() -> Any:
    """Text among what is given, and as a side."""
    table = pl.DataFrame(mixed(1, 100))
    other = pl.DataFrame({"speed": np.asarray(mixed(1, 100)["size"]) + normal(3, 100, 1)[:, 0]})
    return [
        conditional(table.select("weight"), other, table.select("colour", "size")),
        conditional(table.select("colour"), other, table.select("size")),
    ]


def prewhitened() -> Any:
    """Slow changes in time taken out, by numbers and by dates."""
    time = np.arange(100.0)
    trend = np.sin(time / 15.0)
    x, y, z = (trend + 0.5 * normal(seed, 100, 1)[:, 0] for seed in (1, 2, 3))
    ozone = kembed.load_ozone().head(120)
    return [
        conditional(x, y, z, prewhiten=time),
        conditional(x, y, z, prewhiten=time, least_timescale=3.0, memory=4.0, kernel="median"),
        conditional(
            ozone.select("ozone"),
            ozone.select("temp"),
            ozone.select("wind"),
            prewhiten=ozone["date"].to_list(),
        ),
    ]


def tester() -> Any:
    """A table's tests, with other kernels, on fewer rows, and with a cache on disk."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"n_resamples": RESAMPLES, "rng": 0, "cache": folder}
        first = kembed.ConditionalTester(pd.DataFrame(caused()), **options)
        found = {
            "plain": of_conditional(first.test("rain", "slippery")),
            "given": of_conditional(first.test(0, 3, ["wet"])),
            "given two": of_conditional(first.test("sprinkler", "rain", ["wet", "slippery"])),
            "pvalue": first.pvalue(0, 1, (2,)),
            "median": first.with_kernel("median").pvalue(0, 3, (2,)),
            "fewer rows": first.on_rows(np.arange(0, 100, 2)).pvalue(0, 3, (2,)),
            "size": [first.n_rows, first.n_resamples],
        }
        again = kembed.ConditionalTester(pd.DataFrame(caused()), **options)
        return {**found, "from disk": again.pvalue(0, 1, (2,))}


def tester_over_time() -> Any:
    """A tester whose table has its own column of times."""
    found = kembed.ConditionalTester(
        kembed.load_ozone().head(100).select("date", "ozone", "temp", "humidity"),
        prewhiten="date",
        n_resamples=RESAMPLES,
        rng=0,
    )
    return [_of_whitening(found.prewhitened), of_conditional(found.test("ozone", "temp", ["humidity"]))]


CONDITIONAL: Calls = {
    "conditional bkl": lambda: conditional(*confounded()),
    "conditional median": lambda: conditional(*confounded(), kernel="median"),
    "conditional fused": lambda: conditional(*confounded(), kernel="fused"),
    "conditional kernels": lambda: [
        conditional(*confounded(), kernel=kernel)
        for kernel in (kembed.Gaussian(0.7), [kembed.Gaussian(0.5), "median"])
    ],
    "conditional, nothing given": lambda: conditional(*confounded()[:2]),
    "conditional, no cross-fitting": lambda: conditional(*confounded(), cross_fit=False),
    "conditional, memory": lambda: conditional(series(1), series(2), series(3), memory=5.0),
    "conditional, text": conditional_text,
    "conditional, prewhitened": prewhitened,
    "conditional tester": tester,
    "conditional tester, times": tester_over_time,
}

# Causal graphs.


def graph(**options: Any) -> Any:
    data = {"n_resamples": RESAMPLES, "rng": 0, **options}
    return of_graph(kembed.pc(pl.DataFrame(caused()), **data))


def fisher(**options: Any) -> Any:
    return of_graph(kembed.pc(pl.DataFrame(caused(150)), test="fisher-z", rng=0, **options))


def compared_graphs() -> Any:
    """A graph beside the one that made the data."""
    found = kembed.pc(pl.DataFrame(caused(150)), test="fisher-z", rng=0)
    made = kembed.CausalGraph.from_dag(
        ("rain", "sprinkler", "wet", "slippery"), {"wet": ("rain", "sprinkler"), "slippery": ("wet",)}
    )
    edges = sorted((a, b, about["mark"]) for a, b, about in found.to_networkx().edges(data=True))
    return {"made": of_graph(made), "distance": found.shd(made), "networkx": plain(edges)}


def within_causal_learn() -> Any:
    """causal-learn's PC with our test."""
    from causallearn.search.ConstraintBased.PC import pc

    data = np.column_stack(list(caused().values()))
    test = kembed.adapters.causal_learn("kembed-golden", n_resamples=RESAMPLES, kernel="median")
    return plain(pc(data, 0.05, test, show_progress=False).G.graph)


def within_pgmpy() -> Any:
    """Our test as pgmpy calls it."""
    test = kembed.adapters.pgmpy(pd.DataFrame(caused()), n_resamples=RESAMPLES, kernel="median")
    answer = test("rain", "slippery", ["wet"])
    found = {"independent": answer, **attributes(test, "p_value_", "statistic_", "effect_size_")}
    return {**found, "run": plain(test.run_test("rain", "wet"))}


KNOWN = {"forbidden": [("rain", "sprinkler")], "required": [("wet", "slippery")]}

GRAPHS: Calls = {
    "pc": lambda: graph(),
    "pc resamples and orders": lambda: graph(kernel="median", n_bootstrap=3, n_orders=2),
    "pc background": lambda: graph(
        kernel="median",
        background=kembed.Background(**KNOWN, tiers=[("rain", "sprinkler"), ("wet", "slippery")]),
    ),
    "pc fisher-z": lambda: {
        rule: fisher(orientation=rule, n_bootstrap=10, n_orders=3, stable=rule != "first")
        for rule in ("majority", "conservative", "max-p", "first")
    },
    "pc function": lambda: of_graph(
        kembed.pc(
            pl.DataFrame(caused(60)),
            test=lambda x, y, given: kembed.conditional_test(x, y, given, kernel="median", rng=0),
            max_given=1,
            rng=0,
        )
    ),
    "pc generator": lambda: graph(rng=np.random.default_rng(11), kernel="median", n_bootstrap=2),
    "pc other graph": compared_graphs,
    "adapter causal-learn": within_causal_learn,
    "adapter pgmpy": within_pgmpy,
}

# Where they differ.


def mixed_witness() -> Any:
    """The witness of tables with text."""
    x, y = pl.DataFrame(mixed(1, 66)), pl.DataFrame(mixed(2, 54, 0.2))
    found = kembed.witness(x, y)
    size = found.column("size").at([0.0, 1.0])
    return {**of_witness(found, y.head(5)), "size alone": plain(size._asdict())}


@functools.cache
def drawn() -> kembed.KernelSamples:
    """A few draws of the posterior over kernels."""
    return kembed.sample_kernel(
        np.concatenate(shifted(1)), n_chains=2, n_warmup=50, n_draws=30, progress=False, rng=1
    )


def drawn_witness() -> Any:
    """The witness integrated over kernels."""
    return of_witness(kembed.witness(*shifted(1), kernel=drawn(), n_kernels=4), LINE)


def compared(x: Any, y: Any, **options: Any) -> Any:
    """A comparison, with what its report would say."""
    found = kembed.compare(x, y, **{"n_resamples": RESAMPLES, **options})
    answer = found.to_dict()
    del answer["kembed"]
    return plain({**answer, "changed": [column.name for column in found.changed], "repr": repr(found)})


LINE = np.linspace(-2.5, 2.5, 7)
PLANE = np.array([[-1.0, -1.0], [0.0, 0.0], [0.5, 1.5], [2.0, -0.5], [0.0, 4.0]])

WITNESS: Calls = {
    "witness, 1 column": lambda: of_witness(kembed.witness(*shifted(1, by=1.0)), LINE),
    "witness, 2 columns": lambda: of_witness(kembed.witness(*shifted(by=1.0)), PLANE),
    "witness ard": lambda: of_witness(kembed.witness(*shifted(by=1.0), kernel="ard"), PLANE),
    "witness median, landmarks": lambda: of_witness(
        kembed.witness(*shifted(by=1.0), kernel="median", level=0.8, landmarks=40, rng=3), PLANE
    ),
    "witness kernel object, ties": lambda: of_witness(
        kembed.witness(*tied(), kernel=kembed.Matern32(1.0)), PLANE
    ),
    "witness mixed": mixed_witness,
    "witness over kernels": drawn_witness,
    "compare": lambda: compared(*shifted(by=1.0)),
    "compare mixed": lambda: compared(
        pd.DataFrame(mixed(1, 66)), pd.DataFrame(mixed(2, 54, 0.2)), labels=("old", "new"), kernel="median"
    ),
    "compare alike": lambda: compared(
        normal(1, 66), with_gaps(normal(2, 56)), missing="omit", rng=5, alpha=0.1
    ),
}

# Learning.


def learn(x: Any, *pattern: Any, points: Any = None, **options: Any) -> Any:
    return of_learned(kembed.learn_kernel(x, *pattern, **options), points)


def short_prior(kernel: Any) -> Any:
    """A log density that prefers short lengthscales."""
    return -3.0 * kernel.lengthscale


def sampled() -> Any:
    """The posterior over kernels, and an embedding integrated over it."""
    found = drawn()
    return {
        "learned": of_learned(found.learned),
        **attributes(found, "chain_mode", "mass", "divergences", "rhat", "ess"),
        "lengthscale": sketch(found.lengthscale),
        "kernels": plain(found.kernels(3)),
    }


LEARNING: Calls = {
    "learn, 1 column": lambda: learn(normal(1, 120, 1), points=LINE),
    "learn, several modes": lambda: learn(clustered(), points=LINE),
    "learn isotropic": lambda: learn(normal(1), points=PLANE),
    "learn ard": lambda: learn(normal(1) * [1, 10], kembed.Gaussian(np.ones(2)), points=PLANE),
    "learn full": lambda: learn(
        normal(1) @ [[1, 1], [0, 1]], kembed.Gaussian(covariance=np.eye(2)), points=PLANE
    ),
    "learn multiscale": lambda: learn(normal(1), kembed.MultiScale([1.0, 1.0]), points=PLANE),
    "learn rational quadratic": lambda: learn(normal(1), kembed.RationalQuadratic(), points=PLANE),
    "learn matern": lambda: [
        learn(normal(1), pattern(), points=PLANE)
        for pattern in (kembed.Matern12, kembed.Matern32, kembed.Matern52)
    ],
    "learn auto": lambda: learn(normal(1) ** 3, "auto", points=PLANE),
    "learn paper": lambda: learn(normal(1), objective="paper", noise=1.0, landmarks=15),
    "learn options": lambda: [
        learn(normal(1), objective="paper", noise=0.5, landmarks=kembed.Landmarks("support", 40), rng=3),
        learn(normal(1, 120, 1), prior=short_prior, points=LINE),
        learn(normal(1, 120, 1), prior=None, points=LINE),
    ],
    "sample": sampled,
}

# Embeddings, kernels, measures.

KERNELS = {
    "Gaussian": kembed.Gaussian(0.8),
    "Gaussian ARD": kembed.Gaussian([0.5, 2.0]),
    "Gaussian full": kembed.Gaussian(covariance=[[1.0, 0.3], [0.3, 0.5]]),
    "MultiScale": kembed.MultiScale([0.3, 1.5], [0.4, 0.6]),
    "RationalQuadratic": kembed.RationalQuadratic(0.9, 1.7),
    "Matern12": kembed.Matern12(0.8),
    "Matern32": kembed.Matern32([0.8, 1.1]),
    "Matern52": kembed.Matern52(0.8),
    "Scaled": 2.5 * kembed.Gaussian(0.8),
    "Sum": kembed.Gaussian(0.8) + kembed.Matern32(1.2),
    "Product": kembed.Gaussian(0.8) * kembed.Gaussian([2.0, 3.0]),
}
DISCRETE = {
    "Delta": kembed.Delta([1.0, 2.0]),
    "OnColumns": kembed.OnColumns(kembed.Gaussian(0.8), (0,)) * kembed.OnColumns(kembed.Delta(), (1,)),
}
MEASURES = {
    "Lebesgue": kembed.Lebesgue(),
    "isotropic": kembed.GaussianMeasure(0.3, 2.0, 1.5),
    "diagonal": kembed.GaussianMeasure([0.3, -0.2], [2.0, 0.5]),
    "full": kembed.GaussianMeasure([0.3, -0.2], [[2.0, 0.4], [0.4, 0.5]]),
    "empirical": kembed.EmpiricalMeasure(normal(4, 6), np.linspace(0.5, 1.5, 6)),
}


def grams() -> Any:
    """Every kernel between points, at them, and as a mixture of squared exponentials."""
    codes = np.array([[0.0, 1.0], [0.5, 1.0], [0.5, 2.0]])
    x, y = normal(5, 5), normal(6, 4)
    numeric = {
        name: [kernel.gram(x, y), kernel.gram(x), kernel.diagonal(x), kernel(x[0], y[0])]
        for name, kernel in KERNELS.items()
    }
    discrete = {name: [kernel.gram(codes), kernel.diagonal(codes)] for name, kernel in DISCRETE.items()}
    parts = {name: sketch(kernel.components(2).precision) for name, kernel in KERNELS.items()}
    return plain({**numeric, **discrete, "components": parts})


def convolved(measure: Any) -> Any:
    """Every kernel convolved with a measure."""
    x, y = normal(5, 5), normal(6, 4)
    found = {}
    for name, kernel in KERNELS.items():
        r = kernel.convolved(measure)
        found[name] = plain([r.gram(x, y), r.diagonal(x)])
    return {**found, "one pair": plain(KERNELS["Product"].convolved(measure)(x[0], y[0]))}


def measures() -> Any:
    """Measures that are made from data or from a width, and a kernel convolved with them."""
    made = {
        "unnormalised": kembed.GaussianMeasure.unnormalised(1.5, 2),
        "of data": kembed.GaussianMeasure.of(normal(3)),
        **MEASURES,
    }
    x = normal(5, 5)
    return {
        name: {**of_measure(measure), "gram": plain(KERNELS["MultiScale"].convolved(measure).gram(x))}
        for name, measure in made.items()
    }


def convolved_codes() -> Any:
    """Kernels of categories, which take point masses alone."""
    codes = np.array([[0.0, 1.0], [0.5, 1.0], [0.5, 2.0]])
    measure = kembed.EmpiricalMeasure(codes)
    return {name: plain(kernel.convolved(measure).gram(codes)) for name, kernel in DISCRETE.items()}


def embeddings() -> Any:
    """Empirical, shrunk and posterior embeddings beside each other."""
    x, y = shifted()
    kernel = kembed.Gaussian(0.8)
    plainest, other = kembed.empirical(x, kernel), kembed.empirical(y, kernel)
    shrunk, given = kembed.shrinkage(x, kernel), kembed.shrinkage(x, kernel, lam=0.1)
    return {
        "empirical": of_embedding(plainest, other, PLANE),
        "shrunk": of_embedding(shrunk, other, PLANE),
        "shrinkage": [shrunk.shrinkage, given.shrinkage],
        "given shrinkage": of_embedding(given, plainest, PLANE),
    }


def posterior(**options: Any) -> Any:
    """A posterior embedding with all that can be asked of it."""
    x, y = shifted()
    kernel = options.pop("kernel", kembed.Gaussian(0.8))
    # Few landmarks: a singular r(z, z) would have no digits to compare.
    options = {"landmarks": kembed.Landmarks("support", 12), **options}
    found = kembed.fit_embedding(x, kernel, **options)
    other = kembed.fit_embedding(y, kernel, **options)
    return {
        **of_embedding(found, other, PLANE),
        **attributes(found, "n", "noise_model", "jitter"),
        "sd": plain(found.sd(PLANE)),
        "covariance": plain(found.covariance(PLANE)),
        "interval": plain(found.interval(PLANE, level=0.8)),
        "draws": plain(found.sample(PLANE, 3, rng=0)),
        "prior draws": plain(found.prior_sample(PLANE, 3, rng=0)),
    }


def landmark_rules() -> Any:
    """Landmarks by every rule."""
    x, line = normal(1, 150), normal(2, 150, 1)
    return plain(
        {
            "default": sketch(kembed.choose_landmarks(x)),
            "number": kembed.choose_landmarks(x, 7, rng=1),
            "few": kembed.choose_landmarks(tied()[0]),
            **{rule: kembed.choose_landmarks(x, kembed.Landmarks(rule, 7)) for rule in RULES},
            **{f"{rule}, line": kembed.choose_landmarks(line, kembed.Landmarks(rule, 7)) for rule in RULES},
            "quantiles": kembed.choose_landmarks(line, kembed.Landmarks("quantiles", 7)),
        }
    )


RULES = ("subset", "support")


# What the published objective is evaluated with.
EVALUATED = ("Gaussian", "MultiScale", "Matern32", "Lebesgue", "full", "empirical")


def pseudolikelihoods() -> Any:
    """The paper's objective for some kernels, under some measures, and a derivative."""
    import jax

    x, z = normal(1, 60), normal(2, 6)

    def value(kernel: Any, measure: Any = None) -> Any:
        return kembed.log_pseudolikelihood(x, kernel=kernel, noise=0.7, landmarks=z, measure=measure)

    with jax.enable_x64(True):
        slope = float(jax.grad(lambda ell: value(kembed.Gaussian(ell)))(0.8))
    return {
        "kernels": {name: value(kernel) for name, kernel in KERNELS.items() if name in EVALUATED},
        "measures": {
            name: value(kembed.Gaussian(0.8), measure)
            for name, measure in MEASURES.items()
            if name in EVALUATED
        },
        "slope": slope,
    }


def medians() -> Any:
    """The median rule in both conventions, on ties, and on a part of the rows."""
    return [
        kembed.median_lengthscale(normal(1)),
        kembed.median_lengthscale(normal(1), "full"),
        kembed.median_lengthscale(normal(1, 200, 10), max_rows=50),
        kembed.median_lengthscale(np.repeat([0.0, 0.0, 0.0, 1.0, 3.0], 8)),
    ]


EMBEDDINGS: Calls = {
    "kernels": grams,
    **{f"convolved {name}": functools.partial(convolved, measure) for name, measure in MEASURES.items()},
    "convolved codes": convolved_codes,
    "measures": measures,
    "embeddings": embeddings,
    "posterior full noise": lambda: posterior(),
    "posterior other noise": lambda: [
        posterior(noise=noise) for noise in ("diagonal", 0.5, np.linspace(0.5, 1, 12))
    ],
    "posterior other priors": lambda: [
        posterior(measure=measure, prior_mean=kembed.empirical(normal(9), kembed.Gaussian(0.8)))
        for measure in (kembed.Lebesgue(), MEASURES["full"], MEASURES["empirical"])
    ],
    "posterior multiscale": lambda: posterior(kernel=KERNELS["MultiScale"], measure=MEASURES["diagonal"]),
    "landmarks": landmark_rules,
    "log pseudolikelihood": pseudolikelihoods,
    "median lengthscale": medians,
}

# scikit-learn, data, printing.


def learners() -> Any:
    """`KernelLearner` in its shapes."""
    x = normal(1) * [1, 5]
    found = {}
    for word in ("isotropic", "ard", "full"):
        learner = kembed.KernelLearner(word).fit(x)
        found[word] = plain(
            [learner.lengthscale_, sketch(learner.transform(x)), learner.learned_.log_evidence]
        )
    found["gamma"] = kembed.KernelLearner().fit(x).gamma_
    return found


def bags() -> Any:
    """`MeanEmbedding` of bags of unequal sizes."""
    rng = np.random.default_rng(10)
    sizes = (6, 7, 9, 10, 12, 13, 14, 15, 16, 18)
    tables = [rng.normal(scale=0.5 + n / 10, size=(n, 2)) for n in sizes]
    found = {}
    for kernel, noise in (("bkl", "pooled"), (kembed.Gaussian(1.0), 0.5)):
        embedding = kembed.MeanEmbedding(kernel, landmarks=12, noise=noise).fit(tables)
        name = f"{kernel if isinstance(kernel, str) else 'object'} {noise}"
        found[name] = [
            plain(embedding.kernel_),
            sketch(embedding.transform(tables)),
            [sketch(part) for part in embedding.transform_with_sd(tables)],
        ]
    return found


def drift() -> Any:
    """`DriftDetector` with batches of numbers and of text."""
    x, y = shifted(by=1.0)
    numbers = kembed.DriftDetector(n_resamples=RESAMPLES, random_state=0).fit(x)
    text = kembed.DriftDetector(n_resamples=RESAMPLES, random_state=0, kernel="median")
    text.fit(pd.DataFrame(mixed(1, 66)))
    return {
        "test": of_test(numbers.test(y, by_column=True)),
        "pvalues": [numbers.pvalue(normal(3)), numbers.pvalue(y)],
        "predictions": [numbers.predict(normal(3)), numbers.predict(y)],
        "witness": plain(numbers.witness(y, kernel="median").at(PLANE)._asdict()),
        "verdict": numbers.compare(y).verdict,
        "text": of_test(text.test(pd.DataFrame(mixed(2, 60, 0.2)))),
    }


def ozone() -> Any:
    """The data that come with the package."""
    table = kembed.load_ozone()
    numbers = table.drop("date")
    means = {name: float(np.mean(numbers[name].to_numpy())) for name in numbers.columns}
    return {"columns": table.columns, "means": means, "dates": [str(table["date"][i]) for i in (0, 100, 329)]}


def printed() -> Any:
    """How results print."""
    x, y = shifted()
    return [
        repr(kembed.mmd_test(x, y, by_column=True, n_resamples=RESAMPLES, rng=0)),
        repr(kembed.hsic_test(*sides(), kernel="median", n_resamples=RESAMPLES, rng=0)),
        repr(kembed.conditional_test(*confounded(), kernel="median", n_resamples=RESAMPLES, rng=0)),
        repr(kembed.pc(pl.DataFrame(caused(150)), test="fisher-z", rng=0)),
        repr(kembed.learn_kernel(normal(1))),
        repr(kembed.witness(x, y, kernel="median")),
        repr(kembed.fit_embedding(x, kembed.Gaussian(1.0))),
        *(repr(kernel) for kernel in (*KERNELS.values(), *DISCRETE.values())),
        *(repr(measure) for measure in MEASURES.values()),
        repr(kembed.Background(**KNOWN)),
    ]


OTHERS: Calls = {
    "KernelLearner": learners,
    "MeanEmbedding": bags,
    "DriftDetector": drift,
    "load_ozone": ozone,
    "printed results": printed,
}

# The command line.


def command(*arguments: str) -> Any:
    """What `kembed ... --json` prints, in a folder with old.csv, new.csv, both.csv and caused.csv."""
    home = Path(kembed.__file__).parents[1]  # the package that was imported here, wherever Python looks
    with tempfile.TemporaryDirectory() as folder:
        old, new = (pl.DataFrame(mixed(seed, n, share)) for seed, n, share in ((1, 66, 0.5), (2, 54, 0.2)))
        group = pl.Series("group", ["old"] * len(old) + ["new"] * len(new))
        tables = {"old": old, "new": new, "both": pl.concat([old, new]).with_columns(group)}
        tables["caused"] = pl.DataFrame(caused()).with_columns(time=np.arange(100.0))
        for name, table in tables.items():
            table.write_csv(Path(folder) / f"{name}.csv")
        done = subprocess.run(
            [sys.executable, "-m", "kembed", *arguments, "--json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(
            f"kembed {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}"
        )
    answer = json.loads(done.stdout)
    return {key: value for key, value in answer.items() if key not in ("kembed", "version")}


FEWER = ("--resamples", str(RESAMPLES))

COMMANDS: Calls = {
    "kembed test": lambda: command("test", "old.csv", "new.csv", *FEWER),
    "kembed test --by-column": lambda: command("test", "old.csv", "new.csv", "--by-column", *FEWER),
    "kembed test --group": lambda: command(
        "test", "both.csv", "--group", "group", "--kernel", "1.5", "--fast", "--columns", "size,weight"
    ),
    "kembed independence": lambda: command(
        "independence", "old.csv", "--x", "size,colour", "--y", "weight", *FEWER
    ),
    "kembed learn": lambda: command("learn", "old.csv", "--family", "ard"),
    "kembed graph": lambda: command(
        *("graph", "caused.csv", "--columns", "rain,wet,slippery", "--time", "time"),
        *("--kernel", "median", *FEWER),
    ),
    "kembed graph --bootstrap": lambda: command(
        *("graph", "caused.csv", "--test", "fisher-z", "--bootstrap", "5", "--orders", "2"),
        *("--tier", "rain,sprinkler", "--tier", "wet,slippery", "--forbid", "time->rain", "--workers", "1"),
    ),
    "kembed witness": lambda: command(
        "witness", "old.csv", "new.csv", "--columns", "size,colour", "--kernel", "median"
    ),
    "kembed report": lambda: command(
        "report", "old.csv", "new.csv", "-o", "report.html", "--kernel", "median", *FEWER
    ),
}

CALLS: Calls = {
    **MMD,
    **HSIC,
    **CONDITIONAL,
    **GRAPHS,
    **WITNESS,
    **LEARNING,
    **EMBEDDINGS,
    **OTHERS,
    **COMMANDS,
}


# Recording and comparing.


def compute(function: Callable[[], Any]) -> tuple[Any, str | None]:
    """The answer of a call as JSON gives it back, or the line of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return json.loads(json.dumps(function())), None
    except Exception as error:  # one call that fails must not stop the others
        return None, " ".join(f"{type(error).__name__}: {error}".split())


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[float, str]]:
    """The relative difference of every entry and where it is; infinite where it is no number that changed."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            if key in old and key in new:
                yield from differences(old[key], new[key], f"{where}/{key}")
            else:
                yield math.inf, f"{where}/{key} is only in the {'old' if key in old else 'new'} answer"
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield math.inf, f"{where} has {len(new)} entries, had {len(old)}"
        for place, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, f"{where}/{place}")
    elif _is_number(old) and _is_number(new):
        gap = relative(old, new)
        yield gap, f"{where} is {new!r}, was {old!r}" if gap else where
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield math.inf, f"{where} is {new!r}, was {old!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def relative(a: float, b: float) -> float:
    """|a - b| / max(|a|, |b|); 0 for two nans and for what differs by rounding alone."""
    if a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) < ABSOLUTE:
        return 0.0
    gap = abs(a - b) / max(1e-300, abs(a), abs(b))
    return math.inf if math.isnan(gap) else gap


def chosen(only: str | None) -> Calls:
    """The calls whose name holds a text; all without one."""
    found = {name: function for name, function in CALLS.items() if only is None or only in name}
    if not found:
        raise SystemExit(f"no call has {only!r} in its name; there are {', '.join(CALLS)}")
    return found


def record(file: Path, only: str | None) -> int:
    """Write the answers of all calls; 1 if some fail. With `only`, other answers in the file stay."""
    kept = only is not None and file.exists()
    answers, failed = json.loads(file.read_text())["answers"] if kept else {}, 0
    for name, function in chosen(only).items():
        started = time.perf_counter()
        answer, error = compute(function)
        if error is None:
            answers[name] = answer
        failed += error is not None
        print(f"{name:32} {time.perf_counter() - started:6.1f} s  {error or ''}".rstrip(), flush=True)
    about = {
        "kembed": kembed.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{library: version(library) for library in LIBRARIES},
    }
    file.write_text(json.dumps({"made with": about, "answers": answers}, indent=1) + "\n")
    print(f"\nwrote {len(answers)} answers of {kembed.__file__} to {file}; {failed} calls failed")
    return int(failed > 0)


def compare(file: Path, only: str | None) -> int:
    """Compute everything again and print how far it is from the file; 1 if anything is too far."""
    recorded = json.loads(file.read_text())["answers"]
    wrong = {}
    for name, function in chosen(only).items():
        started = time.perf_counter()
        answer, error = compute(function)
        if error is not None:
            verdict, gap = error, "raised"
        elif name not in recorded:
            verdict, gap = "not in the file", "new"
        else:
            gaps = list(differences(recorded[name], answer))
            worst, where = max(gaps, default=(0.0, ""), key=lambda one: one[0])
            count = sum(one[0] > RELATIVE for one in gaps)
            gap, verdict = f"{worst:.1e}", f"{count} of {len(gaps)} entries; {where}" if count else ""
        print(f"{name:32} {gap:>8} {time.perf_counter() - started:6.1f} s", flush=True)
        if verdict:
            wrong[name] = f"{gap}: {verdict}"
    if only is None:
        wrong.update(
            (name, "in the file, but no call of this name") for name in recorded if name not in CALLS
        )
    print(f"\n{kembed.__file__}")
    for name, verdict in wrong.items():
        print(f"DIFFERS  {name}: {verdict}")
    print(f"{len(wrong)} calls differ by more than {RELATIVE:g} from {file}" if wrong else f"as in {file}")
    return int(bool(wrong))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden", description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path, help="the JSON file of answers")
    parser.add_argument("--only", metavar="SUBSTRING", help="calls with this in their names")
    options = parser.parse_args(arguments)
    action = record if options.action == "record" else compare
    return action(options.file, options.only)


if __name__ == "__main__":
    sys.exit(main())

"""How often tests of series that have nothing to do with each other reject: `python -m benchmarks.series`.

Two independent autoregressions x_t = a x_{t-1} + e_t of normal numbers in their stationary law, seeded by
draw, rows and a; kernel "median", 199 resamples, at the 5% level. Rules:

- "wild" and, of independence, "shift": what `mmd_test` and `hsic_test` do with these nulls (with the biased
  statistic);
- "root": the plain wild bootstrap with a memory of √n, which was the default;
- "factor": "wild" without the tails of a t; for independence "tails" is "wild" with them;
- "blocks": whole blocks of √n rows change places, as with `unit=`;
- "permutation": as if rows were independent.

All but "blocks" and "permutation" go by columns F with F Fᵀ the kernel matrix, to be done with in minutes;
the first draw of every row is compared with the library's own p-value.

Arguments: `level`, `power` (y is shifted by half a standard deviation; for independence x and y have a
correlation of one half), `noise` (as much noise on top, which hides from the last step how long they
remember) or `fused` (`kernel="fused"`, and a second column of noise); rows; draws. Without, all of them.
"""

import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf
from scipy.signal import lfilter

import kembed
from kembed.features.kernel import KernelMatrix, kernel_matrix
from kembed.kernels.discrete import space_kernel
from kembed.kernels.space import make_space
from kembed.permutation import nulls
from kembed.permutation.rings import draw_shifts
from kembed.permutation.series import Persistence, crossed, persistence, principal_features, wild_columns

STRENGTHS = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95)
SIZES = {50: 1000, 100: 1000, 200: 1000, 500: 500, 1000: 500}
B = 199
LEFT = 1e-10  # of the diagonal of a kernel matrix, at which its factor ends


def autoregression(rng: np.random.Generator, n: int, a: float) -> np.ndarray:
    noise = rng.normal(size=n)
    noise[1:] *= np.sqrt(1.0 - a**2)
    return lfilter([1.0], [1.0, -a], noise)


def median_matrix(x: np.ndarray) -> KernelMatrix:
    """The matrix of the kernel "median"."""
    space = make_space(x[:, None], np.zeros(1, dtype=bool))
    return kernel_matrix(space_kernel(space, space.median()), space.values)


def factor(x: np.ndarray) -> np.ndarray:
    """Columns F with F Fᵀ the kernel "median": a pivoted Cholesky factor."""
    matrix = median_matrix(x)
    L, pivot, rank, _ = dpstrf(matrix.whole() + matrix.constant, tol=LEFT, lower=1)
    found = np.empty((len(x), rank))
    found[pivot - 1] = np.tril(L)[:, :rank]
    return found


Sums = Callable[[Any], np.ndarray]  # of weights of the rows of every series: a squared norm a column


def ones(W: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(W), 1)), W])


@lru_cache(maxsize=1)  # the rules of a test look at the same draw, one after the other
def _forms(test: str, x: bytes, y: bytes) -> tuple[list[int], list[Persistence], Sums]:
    return forms(test, np.frombuffer(x), np.frombuffer(y))


def forms(test: str, x: np.ndarray, y: np.ndarray) -> tuple[list[int], list[Persistence], Sums]:
    """Lengths, persistence and squared norms of weighted sums, for the series of a test."""
    n = len(x)
    if test == "mmd":
        F = factor(np.concatenate([x, y]))
        both = F[:n] / n, F[n:] / -len(y)
        sums: Sums = lambda W: np.square(sum(f.T @ w for f, w in zip(both, W, strict=True))).sum(axis=0)  # noqa: E731
        features = principal_features(median_matrix(np.concatenate([x, y])))
        return [n, len(y)], [persistence(features[:n]), persistence(features[n:])], sums
    F, G = (side - side.mean(axis=0) for side in (factor(x), factor(y)))
    how = crossed(*(principal_features(median_matrix(side)) for side in (x, y)))
    F, G = (side @ np.linalg.svd(side, full_matrices=False)[2][:8].T for side in (F, G))
    products = (F[:, :, None] * G[:, None, :]).reshape(n, -1) / n
    return [n], [how], lambda W: np.square(products.T @ W[0]).sum(axis=0)


def wild(tails: bool | None) -> Callable[..., float]:
    """The wild bootstrap; None: the plain one, with memory √n."""

    def pvalue(test: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
        sizes, series, sums = _forms(test, x.tobytes(), y.tobytes())
        if tails is None:
            W = [nulls.wild_weights(n, B, np.sqrt(n), rng) for n in sizes]
        else:
            W = wild_columns(sizes, series, B, None, rng, tails)
        values = sums([ones(each) for each in W])
        return nulls.resampled_pvalue(float(values[0]), values[1:])

    return pvalue


def shift(test: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    """All turns (up to B of them) of y against x, by transforms of features."""
    F, G = (side - side.mean(axis=0) for side in (factor(x), factor(y)))
    F, G = (np.fft.rfft(f @ np.linalg.svd(f, full_matrices=False)[2][:8].T, axis=0) for f in (F, G))
    turned = sum(np.square(np.fft.irfft(f[:, None].conj() * G, len(x), axis=0)).sum(axis=1) for f in F.T)
    chosen = draw_shifts(len(x), B, rng).chosen
    return nulls.resampled_pvalue(float(turned[0]), turned[1:][chosen])


def library(test: str, **how: Any) -> Callable[..., float]:
    run = kembed.mmd_test if test == "mmd" else kembed.hsic_test

    def pvalue(test: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
        return run(x, y, **{"kernel": "median", "n_resamples": B, "rng": rng} | how).pvalue

    return pvalue


def blocks(test: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> float:
    return library(test, unit=int(np.sqrt(len(x))))(test, x, y, rng)


RULES: dict[str, dict[str, Callable[..., float]]] = {
    "mmd": {"wild": wild(True), "root": wild(None), "factor": wild(False)}
    | {"blocks": blocks, "permutation": library("mmd")},
    "hsic": {"wild": wild(False), "shift": shift, "root": wild(None), "tails": wild(True)}
    | {"blocks": blocks, "permutation": library("hsic")},
}
ONCE = ("factor", "tails", "blocks", "permutation")  # shown for one length only


def agrees(test: str, name: str, what: str, n: int, a: float) -> None:
    """A rule and the library say the same of the first draw, up to two ranks: eight features are not all."""
    found = []
    for rule in (RULES[test][name], library(test, null=name, statistic="biased")):
        rng = np.random.default_rng([0, n, round(100 * a)])
        found.append(rule(test, *pair(test, what, rng, n, a), rng))
    assert abs(found[0] - found[1]) <= 2.5 / min(n, B + 1), (test, name, n, a, found)


def pair(test: str, what: str, rng: np.random.Generator, n: int, a: float) -> tuple[np.ndarray, np.ndarray]:
    x, y = autoregression(rng, n, a), autoregression(rng, n, a)
    if what == "power":
        y = y + 0.5 if test == "mmd" else 0.5 * x + np.sqrt(0.75) * y
    if what == "noise":
        x, y = (np.sqrt(0.5) * (side + rng.normal(size=n)) for side in (x, y))
    if what == "fused":
        x, y = (np.column_stack([side, rng.normal(size=n)]) for side in (x, y))
    return x, y


def table(what: str, n: int, draws: int) -> None:
    for test, rules in RULES.items():
        if what == "fused":
            name = "wild" if test == "mmd" else "shift"
            rules = {f"{name}, fused": library(test, null=name, kernel="fused")}
        elif n != 100 or what != "level":  # what was found wanting is shown once
            rules = {name: rule for name, rule in rules.items() if name not in ONCE}
        started, shares = time.perf_counter(), {name: [] for name in rules}
        for a in STRENGTHS:
            for name in {"wild", "shift"} & set(rules):
                agrees(test, name, what, n, a)
            found = {name: [] for name in rules}
            for draw in range(draws):
                for name, rule in rules.items():
                    rng = np.random.default_rng([draw, n, round(100 * a)])
                    found[name].append(rule(test, *pair(test, what, rng, n, a), rng) <= 0.05)
            for name in rules:
                shares[name].append(float(np.mean(found[name])))
        for name in rules:
            told = " | ".join(f"{p:.3f} ({np.sqrt(p * (1 - p) / draws):.3f})" for p in shares[name])
            print(f"| {what} | {test}, {name} | {n} | {draws} | {told} |")
        print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def main(what: str = "", n: int = 0, draws: int = 0) -> None:
    print(f"| | test | rows | draws | {' | '.join(f'a = {a}' for a in STRENGTHS)} |")
    if what:
        table(what, n, draws or SIZES.get(n, 200))
        return
    for size, many in SIZES.items():
        table("level", size, many)
    for size in (100, 500):
        table("power", size, 500)
    for size in (100, 500):
        table("noise", size, 500)
    table("fused", 100, 200)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))

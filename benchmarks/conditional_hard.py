"""The published hard cases of conditional testing, ours beside KCI, RCIT and two covariance measures.

Cases after He et al. (2025) and Pogodin et al. (2024), see `conditional_data.py`. KCI and RCIT are
causal-learn's with their defaults. The generalised covariance measure (GCM; Shah & Peters 2020) and its
weighted form with fixed weights (Scheidegger et al. 2022) are written here, on the residuals of our own
regressions, so that they differ from our test by their statistic alone.
"""

import os
import time
import zlib
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks._workers import spread
from benchmarks.conditional_data import circle, hidden_correlation
from kembed import conditional_test
from kembed.conditional.regression import Conditioner
from kembed.conditional.residuals import as_variable

SEED, ALPHA = 60, 0.05
REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "100"))
KERNELS = os.environ.get("KEMBED_KERNELS", "fused").split(",")
RIVALS = os.environ.get("KEMBED_RIVALS", "KCI,RCIT,GCM,weighted GCM").split(",")
CUTS, DRAWS = 7, 499  # of every column of z, for signs as weights; multiplier draws of the largest
SHARED, APART = (0, 0, 0), (0, 1, 2)  # of three columns, which make x, y and the correlation
INDEPENDENT = partial(hidden_correlation, 1.0, strength=0.0)
HALF = partial(hidden_correlation, strength=0.5)
# name: (how it is drawn, rows); those of no dependence first
CASES: dict[str, tuple[Callable[..., tuple], int]] = {
    "1 column, independent": (INDEPENDENT, 200),
    "3 columns, one shared, independent": (partial(INDEPENDENT, columns=SHARED), 200),
    "3 columns, apart, independent": (partial(INDEPENDENT, columns=APART), 200),
    "circle, independent": (circle, 200),
    "sin z": (partial(hidden_correlation, 1.0), 200),
    "sin 3z": (partial(hidden_correlation, 3.0), 200),
    "sin 6z": (partial(hidden_correlation, 6.0), 200),
    "half of sin 3z": (partial(HALF, 3.0), 200),
    "half of sin 4.5z": (partial(HALF, 4.5), 200),
    "half of sin 6z": (partial(HALF, 6.0), 200),
    "half of sin 6z, n = 500": (partial(HALF, 6.0), 500),
    "sin 2z, 3 columns, one shared": (partial(hidden_correlation, 2.0, columns=SHARED), 200),
    "sin 2z, 3 columns, apart": (partial(hidden_correlation, 2.0, columns=APART), 200),
    "circle, first coordinate shared": (partial(circle, shared=True), 200),
}
CHOSEN = os.environ.get("KEMBED_CASES", ";".join(CASES)).split(";")


def _left(column: np.ndarray, conditioner: Conditioner) -> np.ndarray:
    fit = conditioner.fit(column)
    return column if fit is None else fit.residuals(column[:, None]).fitted[:, 0]


def _covariance(x: np.ndarray, y: np.ndarray, Z: np.ndarray, *, weighted: bool) -> float:
    """The largest studentised mean of (weighted) products of residuals, by normal multipliers."""
    kinds = (np.zeros(V.shape[1], dtype=bool) for V in (x, y, Z))
    left, right, given = (as_variable(V, kind) for V, kind in zip((x, y, Z), kinds, strict=True))
    conditioner = Conditioner(given.columns)
    a, b = (np.column_stack([_left(c, conditioner) for c in v.columns.T]) for v in (left, right))
    R = np.einsum("nk,nl->nkl", a, b).reshape(len(a), -1)
    if weighted:
        cuts = np.quantile(Z, np.arange(1, CUTS + 1) / (CUTS + 1), axis=0)
        signs = np.sign(Z[:, None, :] - cuts).reshape(len(Z), -1)
        R = np.hstack([R, np.einsum("np,nw->npw", R, signs).reshape(len(Z), -1)])
    R = R / R.std(axis=0)
    draws = np.random.default_rng(0).standard_normal((DRAWS, len(R))) @ (R - R.mean(axis=0))
    largest = np.abs(draws).max(axis=1)
    return float((1 + np.sum(largest >= np.abs(R.sum(axis=0)).max())) / (DRAWS + 1))


def _rival(name: str, x: np.ndarray, y: np.ndarray, Z: np.ndarray) -> float:
    if name == "KCI":
        from causallearn.utils.KCI.KCI import KCI_CInd

        return float(KCI_CInd().compute_pvalue(x, y, Z)[0])
    if name == "RCIT":
        from causallearn.utils.RCIT.RCIT import RCIT

        return float(RCIT().compute_pvalue(x, y, Z)[0])
    return _covariance(x, y, Z, weighted=name == "weighted GCM")


def _once(task: tuple) -> list[tuple[bool, float]]:
    """Whether each test rejects, and the processor seconds it took."""
    case, seed = task
    draw, rows = CASES[case]
    rng = np.random.default_rng([SEED, zlib.crc32(case.encode()), seed])
    x, y, Z = (V.reshape(rows, -1) for V in draw(rows, rng))
    np.random.seed(seed)  # RCIT draws its features from the global generator  # noqa: NPY002
    tests = [
        lambda kernel=kernel: conditional_test(x, y, Z, kernel=kernel, rng=0).pvalue for kernel in KERNELS
    ]
    tests += [lambda name=name: _rival(name, x, y, Z) for name in RIVALS if name]
    out = []
    for test in tests:
        start = time.process_time()
        rejected = test() <= ALPHA
        out.append((rejected, time.process_time() - start))
    return out


def main() -> None:
    """Share of draws rejected by every test, and the mean processor time of one."""
    names = [f"kembed, {kernel}" for kernel in KERNELS] + [name for name in RIVALS if name]
    print(f"Share rejected at {ALPHA} of {REPETITIONS} draws (s.e. at .05: ", end="")
    print(
        f"{np.sqrt(0.05 * 0.95 / REPETITIONS):.3f}, at most {0.5 / np.sqrt(REPETITIONS):.3f}), seed {SEED}.\n"
    )
    print("| case | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    seconds = []
    for case in CHOSEN:
        found = np.array(spread(_once, [(case, seed) for seed in range(REPETITIONS)]))
        seconds.append(found[:, :, 1].mean(axis=0))
        print(
            f"| {case} | " + " | ".join(f"{share:.2f}" for share in found[:, :, 0].mean(axis=0)) + " |",
            flush=True,
        )
    print("| processor seconds a test | " + " | ".join(f"{s:.2f}" for s in np.mean(seconds, axis=0)) + " |")


if __name__ == "__main__":
    main()

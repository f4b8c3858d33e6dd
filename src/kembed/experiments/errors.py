"""Type II errors of Figure 2C: how often tests keep "P = Q" on the grid of Gaussians."""

from typing import Any, NamedTuple

import numpy as np

from kembed.core.progress import progress_bar, showing_progress
from kembed.experiments.mixtures import ROWS, grid_sample
from kembed.learning.evidence import typical_lengthscale
from kembed.testing.two_sample import mmd_test

ALPHA, RESAMPLES = 0.05, 199
EPSILONS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 6.0, 15.0)
REPETITIONS = 50
HARD = 1.5  # where our own rules are tried too, components drawn at random


def judge(
    rule: str, p: np.ndarray, q: np.ndarray, resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The p-value of a word for the kernel, and the lengthscale that "paper" chose (nan for others)."""
    found = mmd_test(p, q, kernel=rule, n_resamples=resamples, rng=rng)
    return found.pvalue, typical_lengthscale(found.kernel) if rule == "paper" else np.nan


class Setting(NamedTuple):
    """One point of one curve."""

    rule: str
    exact: bool  # exactly equally many observations of each component, as in the paper
    epsilon: float


class Errors(NamedTuple):
    """How often each setting retained "P = Q"."""

    repetitions: int
    retained: dict[Setting, int]
    lengthscales: dict[bool, np.ndarray]  # that the published objective chose: exact or not

    @property
    def epsilons(self) -> list[float]:
        """The values of ε that both rules of the paper were tried at."""
        return sorted({setting.epsilon for setting in self.retained if setting.rule == "median"})

    @property
    def ours(self) -> list[Setting]:
        """Where our own rules were tried."""
        return [setting for setting in self.retained if setting.rule in ("bkl", "fused")]

    def share(self, setting: Setting) -> float:
        """Type II error (at ε = 1, where P = Q: one less the level)."""
        return self.retained[setting] / self.repetitions

    def error(self, setting: Setting) -> float:
        """Its binomial standard error."""
        share = self.share(setting)
        return float(np.sqrt(share * (1.0 - share) / self.repetitions))


def measure_errors(
    seed: int,
    *,
    repetitions: int = REPETITIONS,
    epsilons: tuple[float, ...] = EPSILONS,
    rows: int = ROWS,
    hard: float | None = HARD,
    resamples: int = RESAMPLES,
    threads: int | None = None,
    progress: bool | None = None,
) -> Errors:
    """Both rules of the paper at every ε, components at random and exact; ours where it is `hard`."""
    from joblib import Parallel, cpu_count, delayed  # type: ignore[import-untyped]
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    cells = [(exact, e, ("paper", "median")) for exact in (False, True) for e in epsilons]
    if hard is not None:
        cells.append((False, hard, ("bkl", "fused")))
    seeds = np.random.SeedSequence(seed).spawn(repetitions)
    # Repetition by repetition, so that the bar moves evenly; a random stream for each cell of each.
    tasks = [(*cell, own) for one in seeds for cell, own in zip(cells, one.spawn(len(cells)), strict=True)]

    def perform(exact: bool, epsilon: float, rules: tuple[str, ...], seed: Any) -> list[tuple[float, float]]:
        """One data set, and every rule on it."""
        rng = np.random.default_rng(seed)
        x = grid_sample(rng, rows, epsilon, exact)
        return [judge(rule, x[:rows], x[rows:], resamples, rng) for rule in rules]

    retained: dict[Setting, int] = {}
    scales: dict[bool, list[float]] = {False: [], True: []}
    pool = Parallel(threads or min(8, cpu_count()), backend="threading", return_as="generator")
    bar = progress_bar(len(tasks), np.inf, "type II errors", "data set")
    # Nearly all the time is spent in BLAS, outside Python's lock, and in one thread of it for each of ours.
    with threadpool_limits(1), showing_progress(progress), bar as shown:
        for task, outcomes in zip(tasks, pool(delayed(perform)(*task) for task in tasks), strict=True):
            exact, epsilon, rules, _ = task
            for rule, (pvalue, scale) in zip(rules, outcomes, strict=True):
                setting = Setting(rule, exact, epsilon)
                retained[setting] = retained.get(setting, 0) + (pvalue > ALPHA)
                scales[exact] += [scale] if rule == "paper" else []
            shown.update(1)
    return Errors(repetitions, retained, {exact: np.array(found) for exact, found in scales.items()})

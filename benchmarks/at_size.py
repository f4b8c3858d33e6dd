"""What studies of tests at size share: the same draws given to several ways of a test, powers and levels."""

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks._workers import LEVEL, SEED, spread

B = 199
LEVELS = (0.01, 0.05, 0.10)


def pooled(each: Any, rows: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Both sides of a set of `alternatives`, of twice the rows and more, and which rows keep the effect.

    A row does with probability √(n/rows), so that the effect falls as the noise does.
    """
    drawn = [each.draw(rng) for _ in range(-(-2 * rows // each.n))]
    sides = [np.concatenate(side) for side in zip(*drawn, strict=True)]
    return sides, rng.random(rows) < np.sqrt(each.n / rows)


def timed(
    test: Callable[..., Any], ways: Iterable[dict[str, Any]], x: Any, y: Any, rng: np.random.Generator
) -> tuple[float, ...]:
    """p-value and processor seconds of every way of a test, one after the other."""
    warnings.simplefilter("ignore")
    found: list[float] = []
    for way in ways:
        start = time.process_time()
        p = test(x, y, n_resamples=B, rng=rng, **way).pvalue
        found += [p, time.process_time() - start]
    return tuple(found)


def print_powers(
    compared: Callable[[Any], tuple[float, ...]],
    sets: Iterable[str],
    rows: int,
    repetitions: int,
    titles: tuple[str, ...],
) -> None:
    """A row for every set: powers, median seconds of every way; then means, and differences to the first."""
    print(f"{rows} rows, {repetitions} repetitions, B = {B}, level {LEVEL}, seed {SEED}")
    print(
        f"| set | {' | '.join(titles)} | seconds, {' | '.join(titles)} |\n"
        + "|---" * (2 * len(titles) + 1)
        + "|"
    )
    every = []
    for name in sets:
        found = np.array(spread(compared, [(name, rows, r) for r in range(repetitions)]))
        every.append(found)
        powers, times = (found[:, ::2] <= LEVEL + 1e-12).mean(axis=0), np.median(found[:, 1::2], axis=0)
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in (*powers, *times))} |", flush=True)
    rejected = np.stack(every)[:, :, ::2] <= LEVEL + 1e-12
    difference = rejected.astype(float) - rejected[:, :, :1]
    error = np.sqrt(difference.var(axis=1).sum(axis=0) / repetitions) / len(every)
    spreads = np.sqrt(rejected.var(axis=1).sum(axis=0) / repetitions) / len(every)
    means = rejected.mean(axis=(0, 1))
    cells = [f"{mean:.3f} ({spread:.3f})" for mean, spread in zip(means, spreads, strict=True)]
    print(f"| **mean (s.e.)** | {' | '.join(cells)} | {' | '.join(' ' for _ in cells)} |")
    for title, gap, its in zip(titles[1:], (means - means[0])[1:], error[1:], strict=True):
        print(f"{title} less {titles[0]}: {gap:.3f}, standard error {its:.3f}")


def print_levels(what: str, titles: tuple[str, ...], pvalues: Iterable[Any]) -> None:
    """The share of null draws that every way rejects."""
    found = np.array(list(pvalues))
    print(f"{what}, {len(found)} draws, B = {B}, seed {SEED}")
    print(f"| level | {' | '.join(titles)} | standard error |\n" + "|---" * (len(titles) + 2) + "|")
    for alpha in LEVELS:
        shares = " | ".join(f"{share:.4f}" for share in (found <= alpha + 1e-12).mean(axis=0))
        print(f"| {alpha} | {shares} | {np.sqrt(alpha * (1 - alpha) / len(found)):.4f} |")


def numbers(given: list[str], usual: tuple[int, int]) -> tuple[int, int]:
    """Two whole numbers from the command line, or the usual ones."""
    found = [int(each) for each in given] + list(usual[len(given) :])
    return found[0], found[1]

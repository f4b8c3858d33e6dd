"""Figure 2D: the objective over lengthscales on a grid of Gaussians, as published and normalised.

P has unit Gaussians on a 3 × 3 grid with spacing 14; Q has the same centres, and covariances rotated by 45°
with eigenvalues (ε, 1). The kernel is learned from both, pooled. A second figure shows two defects of the
published objective: its optimum follows the number of landmarks, and with τ² free it has no maximum.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kembed.experiments._output import BLACK, BLUE, ORANGE, VERMILION, new_figure, parse_output, save
from kembed.heuristics import median_lengthscale
from kembed.kernels import Gaussian
from kembed.landmarks import Landmarks, choose_landmarks
from kembed.learned import LearnedKernel
from kembed.learning import learn_kernel
from kembed.pseudolikelihood import log_pseudolikelihood

SEED, SPACING, EPSILON, ROWS = 1, 14.0, 2.0, 900
LENGTHSCALES = np.geomspace(0.3, 100.0, 40)
PAPER_OPTIMUM = 0.85
SHOWN = 100  # landmarks in the main figure
COUNTS = (20, 50, 100, 200)
RULES = ("subset", "support")  # the paper's landmarks, and our default
FREE_ROWS, FREE_LANDMARKS = 400, 20
FREE_LENGTHSCALES = np.geomspace(0.1, 1000.0, 21)
NOISES = np.geomspace(1e-10, 10.0, 34)


class Peak(NamedTuple):
    """A local maximum."""

    lengthscale: float
    value: float  # for one observation
    best: bool  # whether no other local maximum is higher


class Result(NamedTuple):
    """What the figures show."""

    median: float
    paper: np.ndarray  # for one observation, at each of `LENGTHSCALES`
    peaks: list[Peak]
    learned: LearnedKernel
    smallest: dict[tuple[str, str], list[Peak]]  # (objective, rule): the smallest mode for each of `COUNTS`
    free: np.ndarray  # the published objective, best over τ², at each of `FREE_LENGTHSCALES`
    noise: np.ndarray  # the τ² where it is reached
    bounded: LearnedKernel  # by the normalised objective, τ² free too


def grid_sample(rng: np.random.Generator, rows: int = ROWS, epsilon: float = EPSILON) -> np.ndarray:
    """P and Q pooled, `rows` from each, components drawn at random."""
    centres = SPACING * (rng.integers(0, 3, (2 * rows, 2)) - 1.0)
    noise = rng.normal(size=(2 * rows, 2))
    rotation = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    noise[rows:] = (noise[rows:] * np.sqrt([epsilon, 1.0])) @ rotation.T
    return centres + noise


def paper_objective(x: np.ndarray, lengthscale: float, landmarks: np.ndarray, noise: float = 1.0) -> float:
    """The published objective, for one observation."""
    kernel = Gaussian(lengthscale)
    return float(log_pseudolikelihood(x, kernel=kernel, noise=noise, landmarks=landmarks)) / len(x)


def paper_peaks(x: np.ndarray, landmarks: np.ndarray) -> tuple[np.ndarray, list[Peak]]:
    """The published objective with τ² = 1 on the grid, and its local maxima, from small to large."""
    from scipy.optimize import minimize_scalar

    values = np.array([paper_objective(x, scale, landmarks) for scale in LENGTHSCALES])
    found = []
    for k in np.flatnonzero((np.diff(values)[:-1] >= 0.0) & (np.diff(values)[1:] < 0.0)) + 1:
        bounds = np.log(LENGTHSCALES[[k - 1, k + 1]])
        fit = minimize_scalar(lambda log: -paper_objective(x, np.exp(log), landmarks), bounds=bounds)
        found.append((float(np.exp(fit.x)), -float(fit.fun)))
    return values, _peaks(found)


def normalised_peaks(learned: LearnedKernel) -> list[Peak]:
    """The modes of the normalised objective, from small to large."""
    return _peaks([(float(mode.kernel.lengthscale), mode.log_evidence / learned.n) for mode in learned.modes])


def _peaks(found: list[tuple[float, float]]) -> list[Peak]:
    return [Peak(*one, one[1] == max(value for _, value in found)) for one in sorted(found)]


def _learn(x: np.ndarray, landmarks: Any) -> LearnedKernel:
    with warnings.catch_warnings():  # a best mode at the edge: few landmarks, no cluster resolved; we say so
        warnings.filterwarnings("ignore", "the best lengthscale", UserWarning)
        return learn_kernel(x, landmarks=landmarks)


def smallest_peaks(x: np.ndarray) -> dict[tuple[str, str], list[Peak]]:
    """The smallest mode for each of `COUNTS`, both objectives on the same landmarks."""
    table: dict[tuple[str, str], list[Peak]] = {}
    for rule in RULES:
        places = [choose_landmarks(x, Landmarks(rule, count)) for count in COUNTS]
        table["as published", rule] = [paper_peaks(x, z)[1][0] for z in places]
        table["normalised", rule] = [normalised_peaks(_learn(x, z))[0] for z in places]
    return table


def free_noise(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, LearnedKernel]:
    """Both objectives with τ² free, on N(0, 1) and Laplace(0, √½) pooled."""
    y = np.concatenate([rng.normal(size=FREE_ROWS), rng.laplace(0.0, np.sqrt(0.5), FREE_ROWS)])[:, None]
    z = choose_landmarks(y, Landmarks("subset", FREE_LANDMARKS))
    table = np.array([[paper_objective(y, s, z, noise) for noise in NOISES] for s in FREE_LENGTHSCALES])
    return table.max(axis=1), NOISES[table.argmax(axis=1)], _learn(y, FREE_LANDMARKS)


def run(seed: int = SEED) -> Result:
    """Draw the data and evaluate both objectives."""
    x = grid_sample(rng := np.random.default_rng(seed))
    values, peaks = paper_peaks(x, choose_landmarks(x, Landmarks("subset", SHOWN)))
    learned, smallest = _learn(x, SHOWN), smallest_peaks(x)
    return Result(median_lengthscale(x), values, peaks, learned, smallest, *free_noise(rng))


def plot(result: Result) -> Any:
    """The objective over lengthscales: as published, and normalised."""
    figure, (paper, normalised) = new_figure(2, width=4.8, height=3.6)
    paper.axvline(PAPER_OPTIMUM, color=VERMILION, linestyle=":", label=f"the paper's {PAPER_OPTIMUM}")
    for axes, title, scales, values, peaks, colour in (
        (paper, "As published, τ² = 1", LENGTHSCALES, result.paper, result.peaks, ORANGE),
        (normalised, "Normalised", *result.learned.curve, normalised_peaks(result.learned), BLUE),
    ):
        axes.semilogx(scales, values, color=colour)
        for peak in peaks:
            edge = peak.lengthscale > 0.999 * scales[-1]
            what = ", best" if peak.best else ", edge of the scan" if edge else ""
            face, label = "white" if edge else colour, f"ℓ = {peak.lengthscale:.3g}{what}"
            axes.plot(*peak[:2], "o", color=colour, markerfacecolor=face, label=label)
        axes.axvline(result.median, color=BLACK, linestyle="--", label=f"median, {result.median:.1f}")
        axes.set(xlabel="lengthscale ℓ", ylabel="log objective / n", title=f"{title}, m = {SHOWN}")
        axes.legend(framealpha=1.0, edgecolor="none", fontsize="small", loc="upper right")
    return figure


def plot_defects(result: Result) -> Any:
    """The optimum against the number of landmarks, and the objective with τ² free."""
    figure, (optimum, free) = new_figure(2, width=4.8, height=3.6)
    for (objective, rule), peaks in result.smallest.items():
        colour, line = ORANGE if objective == "as published" else BLUE, "-" if rule == "support" else "--"
        scales = [peak.lengthscale for peak in peaks]
        optimum.loglog(COUNTS, scales, color=colour, ls=line, label=f"{objective}, {rule}")
        for count, peak in zip(COUNTS, peaks, strict=True):
            optimum.plot(count, peak.lengthscale, "o", color=colour, mfc=colour if peak.best else "white")
    optimum.set_xticks(COUNTS, map(str, COUNTS))
    optimum.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    optimum.minorticks_off()
    optimum.set(xlabel="landmarks m", ylabel="smallest mode ℓ", title="The optimum follows the landmarks")
    optimum.legend(frameon=False, fontsize="small", title="hollow: a larger mode is higher")
    (scale, curve), grid, floor = result.bounded.curve, FREE_LENGTHSCALES, result.noise <= NOISES[0]
    curve = curve - np.interp(0.0, np.log(scale), curve)
    paper = result.free - np.interp(0.0, np.log(grid), result.free)
    free.semilogx(grid[~floor], paper[~floor], color=ORANGE, label="as published")
    free.semilogx(grid, paper, ":", color=ORANGE, label=f"τ² at its floor, {NOISES[0]:.0e}")
    free.semilogx(scale, curve, color=BLUE, label="normalised")
    free.set(xlabel="lengthscale ℓ", ylabel="log objective / n, from ℓ = 1", title="With τ² free: unbounded")
    free.legend(frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 0.08))
    inset = free.inset_axes((0.13, 0.55, 0.36, 0.36))
    inset.semilogx(scale, curve, color=BLUE)
    inset.set_title("normalised, enlarged", fontsize="small")
    return figure


def main() -> None:
    """Run, report in words, and write the figures."""
    folder = parse_output(__doc__)
    result = run()
    path = save(plot(result), Path(folder) / "figure2.png")
    defects = save(plot_defects(result), Path(folder) / "figure2_defects.png")
    print(f"{2 * ROWS} points on the 3 × 3 grid; median distance {result.median:.1f}; {SHOWN} landmarks.")
    print(f"As published, τ² = 1: {_words(result.peaks)}; the paper's optimum is {PAPER_OPTIMUM}.")
    print(f"Normalised, τ² = {result.learned.noise:.2g} learned: {_words(normalised_peaks(result.learned))};")
    print(f"a mode at {result.learned.curve.lengthscale[-1]:.2f} would be the edge of the scan, and no peak.")
    print(f"Smallest mode for {COUNTS} landmarks (* a larger mode is higher):")
    for (objective, rule), peaks in result.smallest.items():
        numbers = ", ".join(f"{peak.lengthscale:.2f}{'*' * (not peak.best)}" for peak in peaks)
        fall = peaks[1].lengthscale / peaks[-1].lengthscale
        print(f"  {objective}, {rule}: {numbers}; {fall:.2f}-fold from {COUNTS[1]} to {COUNTS[-1]}")
    slope = np.diff(np.interp([10.0, 100.0], FREE_LENGTHSCALES, result.free))[0] / np.log(10.0)
    print(f"With τ² free the published objective grows like {slope:.1f} log ℓ a row from ℓ = 10 to 100;")
    print(f"2(m - D) = {2 * (FREE_LANDMARKS - 1)}. The normalised one's best is {result.bounded.kernel!r}.")
    print(f"Figures: {path}, {defects}")


def _words(peaks: list[Peak]) -> str:
    return ", ".join(f"{peak.lengthscale:.2f} ({peak.value:.2f}{', best' * peak.best})" for peak in peaks)


if __name__ == "__main__":
    main()

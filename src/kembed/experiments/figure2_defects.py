"""Beside Figure 2: three defects of the published objective.

Its optimum follows the number of landmarks, it depends on the τ² that is put in, and with τ² free it has no
maximum. `python -m kembed.experiments.figure2` draws this too.
"""

from typing import Any, NamedTuple

import numpy as np

from kembed.embeddings.landmarks import Landmarks, choose_landmarks
from kembed.experiments.output import BLUE, ORANGE, VERMILION, legend, mosaic
from kembed.experiments.published import mode_scales, paper_surface, published
from kembed.learning.learn import learn_kernel
from kembed.learning.learned_kernel import LearnedKernel

RULES = ("subset", "support")  # the paper's landmarks, and our default


class Plan(NamedTuple):
    """What is looked at."""

    counts: tuple[int, ...] = (20, 50, 100, 200)  # of landmarks
    given: tuple[float, ...] = (0.01, 0.03, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)  # values of τ²
    free_rows: int = 400
    free_landmarks: int = 20
    free_lengthscales: np.ndarray = np.geomspace(0.1, 1000.0, 21)
    noises: np.ndarray = np.geomspace(1e-10, 10.0, 34)


class Defects(NamedTuple):
    """What the figure shows."""

    plan: Plan
    counted: dict[str, list[LearnedKernel]]  # as published, by rule for landmarks, for each count
    learned: float  # the leave-one-out lengthscale of the same data
    given: dict[float, LearnedKernel]  # as published, for each τ²
    free: np.ndarray  # the published objective, best over τ², at each of the free lengthscales
    noise: np.ndarray  # the τ² where it is reached
    bounded: LearnedKernel  # by the leave-one-out objective


def measure_defects(
    x: np.ndarray, landmarks: np.ndarray, rng: np.random.Generator, plan: Plan | None = None
) -> Defects:
    """All three: on the grid of Gaussians `x`, and with τ² free on N(0, 1) and Laplace(0, √½) pooled."""
    plan = plan or Plan()
    given = {noise: published(x, landmarks, noise) for noise in plan.given}
    counted = {
        rule: [published(x, choose_landmarks(x, Landmarks(rule, count))) for count in plan.counts]
        for rule in RULES
    }
    learned = float(learn_kernel(x).kernel.lengthscale)
    n = plan.free_rows
    y = np.concatenate([rng.normal(size=n), rng.laplace(0.0, np.sqrt(0.5), n)])[:, None]
    z = choose_landmarks(y, Landmarks("subset", plan.free_landmarks))
    table = paper_surface(y, plan.free_lengthscales, plan.noises, z)
    noise = plan.noises[table.argmax(axis=1)]
    return Defects(plan, counted, learned, given, table.max(axis=1), noise, learn_kernel(y))


def plot_defects(result: Defects, count: int) -> Any:
    """The optimum against landmarks and against τ², and the objective with τ² free; `count` landmarks."""
    figure, panels = mosaic(["ABC"], height=3.6)
    optimum, given, free = panels.values()
    counts, grid, lowest = result.plan.counts, result.plan.free_lengthscales, result.plan.noises[0]
    for rule, found in result.counted.items():
        scales, line = [mode_scales(one)[0] for one in found], "-" if rule == "support" else "--"
        optimum.loglog(counts, scales, color=ORANGE, ls=line, label=f"as published, {rule}")
        for size, one, scale in zip(counts, found, scales, strict=True):
            optimum.plot(size, scale, "o", color=ORANGE, mfc=_face(one, scale))
    optimum.axhline(result.learned, color=BLUE, label="leave-one-out (no landmarks)")
    optimum.set_xticks(counts, map(str, counts))
    optimum.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    optimum.minorticks_off()
    optimum.set(xlabel="landmarks m", ylabel="smallest mode ℓ", title="The optimum follows the landmarks")
    legend(optimum, title="hollow: a larger mode is higher", title_fontsize="small")
    _plot_given(given, result, count)
    (bounded, curve), floor = result.bounded.curve, result.noise <= lowest
    curve = curve - np.interp(0.0, np.log(bounded), curve)
    paper = result.free - np.interp(0.0, np.log(grid), result.free)
    free.semilogx(grid[~floor], paper[~floor], color=ORANGE, label="as published")
    free.semilogx(grid, paper, ":", color=ORANGE, label=f"τ² at its floor, {lowest:.0e}")
    free.semilogx(bounded, curve, color=BLUE, label="leave-one-out")
    free.set(xlabel="lengthscale ℓ", ylabel="log objective / n, from ℓ = 1", title="With τ² free: unbounded")
    legend(free, loc="lower right", bbox_to_anchor=(1.0, 0.08))
    inset = free.inset_axes((0.15, 0.55, 0.36, 0.34))
    inset.semilogx(bounded, curve, color=BLUE)
    inset.set_title("leave-one-out, enlarged", fontsize="small")
    inset.tick_params(labelsize="small")
    return figure


def _plot_given(axes: Any, result: Defects, count: int) -> None:
    for noise, one in result.given.items():
        for scale in mode_scales(one):
            axes.loglog(noise, scale, "o", color=ORANGE, mfc=_face(one, scale))
    chosen = [float(one.kernel.lengthscale) for one in result.given.values()]
    axes.loglog(list(result.given), chosen, color=ORANGE, label="best", zorder=1)
    axes.axvline(1.0, color=VERMILION, linestyle=":", label="the paper's τ² = 1")
    axes.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    axes.set(xlabel="τ² given", ylabel="modes ℓ", title=f"As published, m = {count}: it follows τ²")
    where = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.22)}
    title = {"title": "hollow: another mode is higher", "title_fontsize": "small"}
    legend(axes, frameon=True, framealpha=1.0, edgecolor="none", **where, **title)


def _face(learned: LearnedKernel, scale: float) -> str:
    """Filled where a mode is the best one."""
    return ORANGE if scale == float(learned.kernel.lengthscale) else "white"


def report_defects(result: Defects) -> list[str]:
    """What was measured, in words."""
    plan, counts = result.plan, result.plan.counts
    sentences = [f"Smallest mode for {counts} landmarks (* a larger mode is higher):"]
    for rule, found in result.counted.items():
        scales = [mode_scales(one)[0] for one in found]
        best = [scale == float(one.kernel.lengthscale) for scale, one in zip(scales, found, strict=True)]
        words = ", ".join(f"{scale:.2f}{'' if top else '*'}" for scale, top in zip(scales, best, strict=True))
        fold = scales[1] / scales[-1]
        sentences.append(f"  as published, {rule}: {words}; {fold:.2f}-fold from {counts[1]} to {counts[-1]}")
    sentences.append(f"  leave-one-out, without landmarks: {result.learned:.2f}")
    words = "; ".join(
        f"{noise:g}: {float(one.kernel.lengthscale):.3g}" for noise, one in result.given.items()
    )
    sentences.append(f"Best lengthscale as published, by the τ² given: {words}.")
    growth = np.diff(np.interp([10.0, 100.0], plan.free_lengthscales, result.free))[0] / np.log(10.0)
    return [
        *sentences,
        f"With τ² free the published objective grows like {growth:.1f} log ℓ a row from ℓ = 10 to 100;",
        f"  2(m - D) = {2 * (plan.free_landmarks - 1)}. "
        f"The leave-one-out one's best is {result.bounded.kernel!r}.",
    ]

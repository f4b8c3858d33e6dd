"""Figure 2: two-sample tests on a grid of Gaussians, where the median heuristic fails.

(A, B) samples for two values of ε; (C) type II error against ε for the learned lengthscale and the median
heuristic; (D) the objective over lengthscales, as published and leave-one-out; (E) the witness at ε = 2.
P has unit Gaussians on a 3 × 3 grid with spacing 14; Q has the same centres, and covariances rotated by 45°
with eigenvalues (ε, 1). A second figure shows defects of the published objective.
"""

from typing import Any, NamedTuple

import numpy as np

from kembed.embeddings.landmarks import Landmarks, choose_landmarks, median_lengthscale
from kembed.embeddings.posterior import fit_embedding
from kembed.experiments.errors import ALPHA, EPSILONS, REPETITIONS, RESAMPLES, Errors, Setting, measure_errors
from kembed.experiments.figure2_defects import Defects, Plan, measure_defects, plot_defects, report_defects
from kembed.experiments.mixtures import EPSILON, ROWS, SPACING, grid_sample, true_witness
from kembed.experiments.output import BLACK, BLUE, GREEN, ORANGE, VERMILION, legend, mosaic
from kembed.experiments.published import published
from kembed.kernels.measures import GaussianMeasure
from kembed.kernels.stationary import Gaussian
from kembed.learning.learn import learn_kernel
from kembed.learning.learned_kernel import LearnedKernel

SEED = 1
EASY = 10.0  # ε of panel B
PAPER_OPTIMUM = 0.85
SHOWN = 100  # landmarks in the main figure
STEP = 0.25  # between points of the witness map
NAMES = {"paper": "learned", "median": "median heuristic", "bkl": "bkl (leave-one-out)", "fused": "fused"}


class Objective(NamedTuple):
    """Panel D."""

    median: float
    paper: LearnedKernel  # as published, τ² = 1
    learned: LearnedKernel  # leave-one-out


class WitnessMap(NamedTuple):
    """Panel E: the posterior mean of μ_P - μ_Q on a square, beside the truth."""

    lengthscale: float
    axis: np.ndarray
    values: np.ndarray
    truth: np.ndarray
    correlation: float  # with the truth
    cell: np.ndarray  # mean over the nine cells
    true_cell: np.ndarray
    cell_correlation: float
    contrast: float  # mean |witness| where the truth is above 5% of its largest value, over elsewhere


class Result(NamedTuple):
    """What the figures show."""

    x: np.ndarray  # ε = 2, pooled
    easy: np.ndarray  # ε = 10, pooled
    errors: Errors
    objective: Objective
    witness: WitnessMap
    defects: Defects


def witness_map(x: np.ndarray, lengthscale: float) -> WitnessMap:
    """The posterior mean witness of the pooled sample's two halves, each observed at its own points."""
    cells = int(SPACING / STEP)
    axis = STEP * (np.arange(3 * cells) + 0.5) - 1.5 * SPACING
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    half, kernel, measure = len(x) // 2, Gaussian(lengthscale), GaussianMeasure.of(x)
    p, q = (fit_embedding(one, kernel, measure=measure, landmarks=one) for one in (x[:half], x[half:]))
    values, truth = p.mean(points) - q.mean(points), true_witness(points, lengthscale)
    there = np.abs(truth) > 0.05 * np.abs(truth).max()
    cell, true_cell = (one.reshape(3, cells, 3, cells).mean(axis=(0, 2)) for one in (values, truth))
    return WitnessMap(
        lengthscale=lengthscale,
        axis=axis,
        values=values.reshape(len(axis), -1),
        truth=truth.reshape(len(axis), -1),
        correlation=float(np.corrcoef(values, truth)[0, 1]),
        cell=cell,
        true_cell=true_cell,
        cell_correlation=float(np.corrcoef(cell.ravel(), true_cell.ravel())[0, 1]),
        contrast=float(np.abs(values[there]).mean() / np.abs(values[~there]).mean()),
    )


def run(
    seed: int = SEED,
    progress: bool | None = None,
    rows: int = ROWS,
    repetitions: int = REPETITIONS,
    epsilons: tuple[float, ...] = EPSILONS,
    resamples: int = RESAMPLES,
    defects: Plan | None = None,
) -> Result:
    """Draw the data, evaluate both objectives, and test on many more data sets."""
    x = grid_sample(rng := np.random.default_rng(seed), rows)
    landmarks = choose_landmarks(x, Landmarks("subset", SHOWN))
    objective = Objective(median_lengthscale(x), published(x, landmarks), learn_kernel(x))
    how: dict[str, Any] = {"repetitions": repetitions, "epsilons": epsilons, "resamples": resamples}
    return Result(
        x=x,
        errors=measure_errors(seed, rows=rows, progress=progress, **how),
        objective=objective,
        witness=witness_map(x, float(objective.paper.kernel.lengthscale)),
        defects=measure_defects(x, landmarks, rng, defects),
        easy=grid_sample(np.random.default_rng(seed), rows, EASY),
    )


def plot(result: Result) -> Any:
    """The panels of the paper, and beside D and E what we add: the leave-one-out objective, the mean cell."""
    figure, panels = mosaic(["ABCC", "DdEe"], width=3.7, height=3.6)
    for letter, epsilon, x in (("A", EPSILON, result.x), ("B", EASY, result.easy)):
        axes, half = panels[letter], len(x) // 2
        for label, part, colour, order in (("P", x[:half], BLACK, 3), ("Q", x[half:], VERMILION, 2)):
            how: dict[str, Any] = {"markersize": 2.5, "markeredgewidth": 0, "label": label, "zorder": order}
            axes.plot(*part.T, ".", color=colour, **how)
        axes.set(title=f"{letter}. ε = {epsilon:g}", aspect="equal", xlim=(-24, 24), ylim=(-24, 24))
        legend(axes, loc="upper left", ncols=2, markerscale=4, borderpad=0)
    _plot_errors(panels["C"], result.errors)
    _plot_objective(panels["D"], panels["d"], result.objective)
    _plot_witness(figure, panels["E"], panels["e"], result.witness)
    return figure


def _plot_errors(axes: Any, errors: Errors) -> None:
    for rule, colour, mark in (("median", ORANGE, "s"), ("paper", BLUE, "o")):
        for exact, words in ((False, "components at random"), (True, "equally many of each")):
            settings = [Setting(rule, exact, epsilon) for epsilon in errors.epsilons]
            curve = (list(map(measured, settings)) for measured in (errors.share, errors.error))
            line, face = ("--", "white") if exact else ("-", colour)
            look = {"color": colour, "ls": line, "marker": mark, "mfc": face}
            axes.errorbar(errors.epsilons, *curve, capsize=2, label=f"{NAMES[rule]}, {words}", **look)
    looks = {"bkl": (GREEN, "D", 1.06), "fused": (VERMILION, "^", 1.12)}  # beside each other, not on top
    for one in errors.ours:
        colour, mark, shift = looks[one.rule]
        label = f"{NAMES[one.rule]}, at random, ε = {one.epsilon:g}"
        place = (one.epsilon * shift, errors.share(one), errors.error(one))
        axes.errorbar(*place, color=colour, marker=mark, capsize=2, ls="", label=label)
    axes.axvline(1.0, color=BLACK, linewidth=0.6, linestyle=":")
    axes.annotate("P = Q", (1.0, 0.5), rotation=90, fontsize="small", ha="right", va="center")
    axes.set_xscale("log")
    axes.set_xticks(errors.epsilons, [f"{epsilon:g}" for epsilon in errors.epsilons])
    axes.minorticks_off()
    axes.set(xlabel="ε", ylabel=f"share that keeps P = Q, α = {ALPHA}")
    axes.set_title(f"C. Type II error ± s.e., {errors.repetitions} data sets a point")
    legend(axes, loc="center right", bbox_to_anchor=(1.0, 0.58))


def _plot_objective(paper: Any, ours: Any, result: Objective) -> None:
    paper.axvline(PAPER_OPTIMUM, color=VERMILION, linestyle=":", label=f"the paper's {PAPER_OPTIMUM}")
    for axes, title, learned, colour in (
        (paper, "D. Objective as published, τ² = 1", result.paper, BLUE),
        (ours, "D'. Leave-one-out", result.learned, GREEN),
    ):
        axes.semilogx(*learned.curve, color=colour)
        for mode in sorted(learned.modes, key=lambda mode: float(mode.kernel.lengthscale)):
            scale = float(mode.kernel.lengthscale)
            height = float(np.interp(scale, *learned.curve))
            what = ", best" if mode.kernel is learned.kernel else ", edge" if mode.at_edge else ""
            face = "white" if mode.at_edge else colour
            axes.plot(scale, height, "o", color=colour, mfc=face, label=f"ℓ = {scale:.3g}{what}")
        axes.axvline(result.median, color=BLACK, linestyle="--", label=f"median, {result.median:.1f}")
        axes.set(xlabel="lengthscale ℓ", ylabel="log objective / n", title=title)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.35 * (high - low))
        legend(axes, frameon=True, framealpha=1.0, edgecolor="none", loc="upper right")


def _plot_witness(figure: Any, whole: Any, cell: Any, result: WitnessMap) -> None:
    reach = 1.5 * SPACING
    for axes, values, half, title in (
        (whole, result.values, reach, f"E. Witness, ε = {EPSILON:g}, ℓ = {result.lengthscale:.2g}"),
        (cell, result.cell, SPACING / 2, "E'. Mean of the nine cells; lines: truth"),
    ):
        top = np.abs(values).max()
        extent = (-half, half, -half, half)
        drawn = axes.imshow(values, cmap="PuOr", vmin=-top, vmax=top, origin="lower", extent=extent)
        axes.set_title(title, fontsize="medium")
        bar = figure.colorbar(drawn, ax=axes, shrink=0.75)
        bar.formatter.set_powerlimits((0, 0))
        bar.ax.tick_params(labelsize="small")
    axis = result.axis[: len(result.cell)] + reach - SPACING / 2
    levels = np.abs(result.true_cell).max() * np.array([-0.75, -0.5, -0.25, 0.25, 0.5, 0.75])
    cell.contour(axis, axis, result.true_cell, levels, colors=BLACK, linewidths=0.7)
    cell.set(xlim=(-5, 5), ylim=(-5, 5))


def report(result: Result) -> list[str]:
    """What was measured, in words."""
    errors, objective, map_ = result.errors, result.objective, result.witness
    rows = len(result.x) // 2
    sentences = [
        f"Figure 2: {rows} + {rows} points on the 3 × 3 grid, spacing {SPACING:g}, seed {SEED}.",
        f"Type II error at level {ALPHA}, {errors.repetitions} data sets each, {RESAMPLES} permutations "
        "(binomial s.e.); at ε = 1 P = Q:",
        "  ε: " + ", ".join(f"{epsilon:g}" for epsilon in errors.epsilons),
    ]
    for exact, words in ((False, "components at random"), (True, f"exactly {rows // 9} of each")):
        for rule in ("paper", "median"):
            found = [Setting(rule, exact, epsilon) for epsilon in errors.epsilons]
            cells = ", ".join(f"{errors.share(one):.2f} ({errors.error(one):.2f})" for one in found)
            sentences.append(f"  {NAMES[rule]}, {words}: {cells}")
        scales = errors.lengthscales[exact]
        spread = f"{scales.min():.2f} to {scales.max():.2f}, median {np.median(scales):.2f}"
        far = f"above 10 in {(scales > 10.0).sum()} of {len(scales)}"
        sentences.append(f"  learned lengthscales, {words}: {spread}; {far}")
    sentences += [
        f"  {NAMES[one.rule]}, components at random, ε = {one.epsilon:g}: "
        f"{errors.share(one):.2f} ({errors.error(one):.2f})"
        for one in errors.ours
    ]
    return [
        *sentences,
        f"Objective, ε = {EPSILON:g}, {SHOWN} landmarks; median distance {objective.median:.1f}.",
        f"  As published, τ² = 1: {_words(objective.paper)}; the paper's optimum is {PAPER_OPTIMUM}.",
        f"  Leave-one-out: {_words(objective.learned)}.",
        f"Witness at ε = {EPSILON:g}, ℓ = {map_.lengthscale:.2f}: {map_.contrast:.1f} times larger where the "
        "true one is above 5% of its largest value than elsewhere;",
        f"  correlation with the true witness {map_.correlation:.2f}, "
        f"averaged over the nine cells {map_.cell_correlation:.2f}.",
        *report_defects(result.defects),
    ]


def _words(learned: LearnedKernel) -> str:
    """Every mode with the objective for one observation."""
    found = [(float(mode.kernel.lengthscale), mode.log_evidence / learned.n) for mode in learned.modes]
    words = [
        f"{scale:.2f} ({value:.2f}{', best' if not k else ''})" for k, (scale, value) in enumerate(found)
    ]
    return ", ".join(word for _, word in sorted(zip(found, words, strict=True)))


QUICK: dict[str, Any] = {"repetitions": 5, "epsilons": (1.0, 2.0, 6.0)}
FIGURES = {"figure2": plot, "figure2_defects": lambda result: plot_defects(result.defects, SHOWN)}

if __name__ == "__main__":
    from kembed.experiments import main

    main("figure2", __doc__)

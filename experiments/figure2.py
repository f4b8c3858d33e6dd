"""Figure 2: two-sample tests on a grid of Gaussians, where the median heuristic fails.

(A, B) samples for two values of ε; (C) type II error against ε for the learned lengthscale and the median
heuristic; (D) the objective over lengthscales, as published and leave-one-out; (E) the witness at ε = 2.
P has unit Gaussians on a 3 × 3 grid with spacing 14; Q has the same centres, and covariances rotated by 45°
with eigenvalues (ε, 1). The text also says how the published optimum follows the landmarks and τ².
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from experiments.mixtures import EPSILON, ROWS, SPACING, grid_sample, true_witness
from experiments.output import BLACK, BLUE, GREEN, ORANGE, VERMILION, legend, mosaic
from kembed import (
    Gaussian,
    GaussianMeasure,
    Landmarks,
    LearnedKernel,
    fit_embedding,
    learn_kernel,
    median_lengthscale,
    mmd_test,
)

SEED = 1
ALPHA, RESAMPLES, REPETITIONS = 0.05, 199, 50
EPSILONS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 6.0, 15.0)
HARD = 1.5  # ε where our own rules are tried too, components drawn at random
EASY = 10.0  # ε of panel B
PAPER_OPTIMUM = 0.85
SHOWN = 100  # landmarks in the main figure
STEP = 0.25  # between points of the witness map
COUNTS, RULES = (20, 50, 100, 200), ("subset", "support")  # other landmarks for the published objective
NOISES = (0.01, 0.03, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)  # other values of τ²
NAMES = {"paper": "learned", "median": "median heuristic", "bkl": "bkl (leave-one-out)", "fused": "fused"}
Setting = tuple[str, bool, float]  # a word for the kernel; exactly equal components, as in the paper; ε


class Errors(NamedTuple):
    """Type II errors (at ε = 1, where P = Q: one less the level)."""

    repetitions: int
    epsilons: tuple[float, ...]
    retained: dict[Setting, int]  # how often "P = Q" was
    lengthscales: dict[bool, list[float]]  # that the published objective chose: exact or not

    def share(self, setting: Setting) -> tuple[float, float]:
        """The error of a setting, with its binomial standard error."""
        share = self.retained[setting] / self.repetitions
        return share, float(np.sqrt(share * (1.0 - share) / self.repetitions))


class Result(NamedTuple):
    """What the figures show."""

    x: np.ndarray  # ε = 2, pooled
    easy: np.ndarray  # ε = 10, pooled
    errors: Errors
    median: float
    paper: LearnedKernel  # as published, τ² = 1
    learned: LearnedKernel  # leave-one-out
    witness: np.ndarray  # posterior mean on a square
    truth: np.ndarray
    counted: dict[str, list[LearnedKernel]]  # as published, by rule for landmarks, for each of COUNTS
    given: dict[float, LearnedKernel]  # as published, by τ²


def published(x: np.ndarray, rule: str = "subset", count: int = SHOWN, noise: float = 1.0) -> LearnedKernel:
    """The kernel that maximises the published objective, without a warning where the best is an end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn_kernel(x, objective="paper", noise=noise, landmarks=Landmarks(rule, count))


def mode_scales(learned: LearnedKernel) -> list[float]:
    """The lengthscales of all modes, from small to large."""
    return sorted(float(mode.kernel.lengthscale) for mode in learned.modes)


def measure_errors(
    rows: int = ROWS,
    repetitions: int = REPETITIONS,
    epsilons: tuple[float, ...] = EPSILONS,
    resamples: int = RESAMPLES,
) -> Errors:
    """Both rules of the paper at every ε, components at random and exact; ours where it is hard."""
    cells = [(exact, e, ("paper", "median")) for exact in (False, True) for e in epsilons]
    cells.append((False, HARD, ("bkl", "fused")))
    retained: dict[Setting, int] = {}
    scales: dict[bool, list[float]] = {False: [], True: []}
    bar = tqdm(np.random.SeedSequence(SEED).spawn(repetitions), "type II errors", leave=False, disable=None)
    for repetition in bar:
        for (exact, epsilon, rules), seed in zip(cells, repetition.spawn(len(cells)), strict=True):
            rng = np.random.default_rng(seed)
            x = grid_sample(rng, rows, epsilon, exact)
            for rule in rules:
                test = mmd_test(x[:rows], x[rows:], kernel=rule, n_resamples=resamples, rng=rng)
                setting = rule, exact, epsilon
                retained[setting] = retained.get(setting, 0) + (test.pvalue > ALPHA)
                if rule == "paper":
                    scales[exact].append(float(np.exp(np.log(test.kernel.lengthscale).mean())))
    return Errors(repetitions, epsilons, retained, scales)


def witness_map(x: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """The posterior mean witness of the halves of x, each observed at its own points; and the truth."""
    axis = STEP * (np.arange(3 * SPACING / STEP) + 0.5) - 1.5 * SPACING
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    half, kernel, measure = len(x) // 2, Gaussian(lengthscale), GaussianMeasure.of(x)
    p, q = (fit_embedding(one, kernel, measure=measure, landmarks=one) for one in (x[:half], x[half:]))
    values = p.mean(points) - q.mean(points), true_witness(points, lengthscale)
    return values[0].reshape(len(axis), -1), values[1].reshape(len(axis), -1)


def mean_cell(values: np.ndarray) -> np.ndarray:
    """The mean of the nine cells of a map."""
    side = len(values) // 3
    return values.reshape(3, side, 3, side).mean(axis=(0, 2))


def run(rows: int = ROWS, **sizes: Any) -> Result:
    """Draw the data, evaluate both objectives, and test on many more data sets."""
    x = grid_sample(np.random.default_rng(SEED), rows)
    paper = published(x)
    witness, truth = witness_map(x, float(paper.kernel.lengthscale))
    return Result(
        x=x,
        easy=grid_sample(np.random.default_rng(SEED), rows, EASY),
        errors=measure_errors(rows, **sizes),
        median=median_lengthscale(x),
        paper=paper,
        learned=learn_kernel(x),
        witness=witness,
        truth=truth,
        counted={rule: [published(x, rule, count) for count in COUNTS] for rule in RULES},
        given={noise: published(x, noise=noise) for noise in NOISES},
    )


def plot(result: Result) -> Any:
    """The panels of the paper, and beside D and E what we add: the leave-one-out objective, the mean cell."""
    figure, panels = mosaic(["ABCC", "DdEe"], width=3.7, height=3.6)
    for letter, epsilon, x in (("A", EPSILON, result.x), ("B", EASY, result.easy)):
        axes, half = panels[letter], len(x) // 2
        for label, part, colour, order in (("P", x[:half], BLACK, 3), ("Q", x[half:], VERMILION, 2)):
            axes.plot(*part.T, ".", color=colour, ms=2.5, mew=0, label=label, zorder=order)
        axes.set(title=f"{letter}. ε = {epsilon:g}", aspect="equal", xlim=(-24, 24), ylim=(-24, 24))
        legend(axes, loc="upper left", ncols=2, markerscale=4, borderpad=0)
    _plot_errors(panels["C"], result.errors)
    _plot_objectives(panels["D"], panels["d"], result)
    _plot_witness(figure, panels["E"], panels["e"], result)
    return figure


def _plot_errors(axes: Any, errors: Errors) -> None:
    for rule, colour, mark in (("median", ORANGE, "s"), ("paper", BLUE, "o")):
        for exact, words in ((False, "components at random"), (True, "equally many of each")):
            curve = np.transpose([errors.share((rule, exact, epsilon)) for epsilon in errors.epsilons])
            look = f"{mark}{'--' if exact else '-'}"
            label = f"{NAMES[rule]}, {words}"
            axes.errorbar(errors.epsilons, *curve, fmt=look, color=colour, capsize=2, label=label)
    for rule, colour, mark, shift in (("bkl", GREEN, "D", 1.06), ("fused", VERMILION, "^", 1.12)):
        place = HARD * shift, *errors.share((rule, False, HARD))  # beside each other, not on top
        axes.errorbar(*place, fmt=mark, color=colour, capsize=2, label=f"{NAMES[rule]}, at random")
    axes.axvline(1.0, color=BLACK, linewidth=0.6, linestyle=":", label="P = Q")
    axes.set_xscale("log")
    axes.set_xticks(errors.epsilons, [f"{epsilon:g}" for epsilon in errors.epsilons])
    axes.minorticks_off()
    axes.set(xlabel="ε", ylabel=f"share that keeps P = Q, α = {ALPHA}")
    axes.set_title(f"C. Type II error ± s.e., {errors.repetitions} data sets a point")
    legend(axes, loc="center right", bbox_to_anchor=(1.0, 0.58))


def _plot_objectives(paper: Any, ours: Any, result: Result) -> None:
    paper.axvline(PAPER_OPTIMUM, color=VERMILION, linestyle=":", label=f"the paper's {PAPER_OPTIMUM}")
    for axes, title, learned, colour in (
        (paper, "D. Objective as published, τ² = 1", result.paper, BLUE),
        (ours, "D'. Leave-one-out", result.learned, GREEN),
    ):
        axes.semilogx(*learned.curve, color=colour)
        for scale in mode_scales(learned):
            best = ", best" if scale == learned.kernel.lengthscale else ""
            axes.plot(
                scale, np.interp(scale, *learned.curve), "o", color=colour, label=f"ℓ = {scale:.3g}{best}"
            )
        axes.axvline(result.median, color=BLACK, linestyle="--", label=f"median, {result.median:.1f}")
        axes.set(xlabel="lengthscale ℓ", ylabel="log objective / n", title=title)
        axes.margins(y=0.35)
        legend(axes, loc="upper right")


def _plot_witness(figure: Any, whole: Any, cell: Any, result: Result) -> None:
    scale, half = float(result.paper.kernel.lengthscale), SPACING / 2
    for axes, values, reach, title in (
        (whole, result.witness, 3 * half, f"E. Witness, ε = {EPSILON:g}, ℓ = {scale:.2g}"),
        (cell, mean_cell(result.witness), half, "E'. Mean of the nine cells; lines: truth"),
    ):
        look = {"cmap": "PuOr", "vmin": -np.abs(values).max(), "vmax": np.abs(values).max()}
        extent = (-reach, reach, -reach, reach)
        drawn = axes.imshow(values, origin="lower", extent=extent, **look)
        axes.set_title(title, fontsize="medium")
        figure.colorbar(drawn, ax=axes, shrink=0.75, format="%.0e")
    cell.contour(mean_cell(result.truth), 6, extent=extent, colors=BLACK, linewidths=0.7)
    cell.set(xlim=(-5, 5), ylim=(-5, 5))


def report(result: Result) -> list[str]:
    """What was measured, in words."""
    errors, rows = result.errors, len(result.x) // 2
    sentences = [
        f"Figure 2: {rows} + {rows} points on the 3 × 3 grid, spacing {SPACING:g}, seed {SEED}.",
        f"Type II error at level {ALPHA}, {errors.repetitions} data sets each, {RESAMPLES} permutations "
        "(binomial s.e.); at ε = 1 P = Q:",
        "  ε: " + ", ".join(f"{epsilon:g}" for epsilon in errors.epsilons),
    ]
    for exact, words in ((False, "components at random"), (True, f"exactly {rows // 9} of each")):
        for rule in ("paper", "median"):
            found = [errors.share((rule, exact, epsilon)) for epsilon in errors.epsilons]
            cells = ", ".join(f"{share:.2f} ({error:.2f})" for share, error in found)
            sentences.append(f"  {NAMES[rule]}, {words}: {cells}")
        scales = np.array(errors.lengthscales[exact])
        spread = f"{scales.min():.2f} to {scales.max():.2f}, median {np.median(scales):.2f}"
        far = f"above 10 in {(scales > 10.0).sum()} of {len(scales)}"
        sentences.append(f"  learned lengthscales, {words}: {spread}; {far}")
    for rule in ("bkl", "fused"):
        share, error = errors.share((rule, False, HARD))
        sentences.append(f"  {NAMES[rule]}, components at random, ε = {HARD:g}: {share:.2f} ({error:.2f})")
    witness, truth = result.witness, result.truth
    there = np.abs(truth) > 0.05 * np.abs(truth).max()
    contrast = np.abs(witness[there]).mean() / np.abs(witness[~there]).mean()
    whole, cell = (
        np.corrcoef(shrink(witness).ravel(), shrink(truth).ravel())[0, 1] for shrink in (np.array, mean_cell)
    )
    by_landmarks = []
    for rule, kernels in result.counted.items():
        smallest = [(mode_scales(one)[0], one.kernel.lengthscale) for one in kernels]
        words = ", ".join(f"{scale:.2f}{'' if scale == best else '*'}" for scale, best in smallest)
        by_landmarks.append(f"  {rule}: {words}")
    by_noise = [f"{noise:g}: {float(one.kernel.lengthscale):.3g}" for noise, one in result.given.items()]
    return [
        *sentences,
        f"Objective, ε = {EPSILON:g}, {SHOWN} landmarks; median distance {result.median:.1f}.",
        f"  As published, τ² = 1: {_modes(result.paper)}; the paper's optimum is {PAPER_OPTIMUM}.",
        f"  Leave-one-out: {_modes(result.learned)}.",
        f"Witness at ε = {EPSILON:g}, ℓ = {float(result.paper.kernel.lengthscale):.2f}: {contrast:.1f} times "
        "larger where the true one is above 5% of its largest value than elsewhere;",
        f"  correlation with the true witness {whole:.2f}, averaged over the nine cells {cell:.2f}.",
        f"Smallest mode as published for {COUNTS} landmarks (* a larger mode is higher):",
        *by_landmarks,
        f"Best lengthscale as published, by the τ² given: {'; '.join(by_noise)}.",
    ]


def _modes(learned: LearnedKernel) -> str:
    """Every mode with the objective for one observation."""
    words = []
    for mode in sorted(learned.modes, key=lambda mode: float(mode.kernel.lengthscale)):
        best = ", best" if mode.kernel is learned.kernel else ""
        words.append(f"{float(mode.kernel.lengthscale):.2f} ({mode.log_evidence / learned.n:.2f}{best})")
    return ", ".join(words)


QUICK: dict[str, Any] = {"repetitions": 5, "epsilons": (1.0, 2.0, 6.0)}

"""Figure 3: N(0,1) against Laplace(0, √½), the witness with all hyperparameters integrated out.

For n = 50 and n = 400 in each sample: the posterior of the lengthscale, and draws of the witness μ_P - μ_Q
with their 80% band. Beside it a null twin, where both samples are N(0,1): there a calibrated 80% band
excludes 0 on a fifth of the line on average. A witness is smooth, so in one sample it is often none of the
line or most of it; the average over many null samples is given too. Under the paper's objective the joint
posterior of (ℓ, τ²) is degenerate; the last panel shows its ridge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from kembed.experiments._output import BLACK, BLUE, ORANGE, SKY, VERMILION, new_figure, parse_output, save
from kembed.kernels import Gaussian
from kembed.landmarks import Landmarks, choose_landmarks
from kembed.posterior import fit_embedding
from kembed.pseudolikelihood import log_pseudolikelihood
from kembed.samples import KernelSamples
from kembed.sampling import sample_kernel

SEED = 3
SIZES = (50, 400)
LANDMARKS = 50
DRAWS = 200
NULLS = 100
LEVEL = 0.8
GRID = np.linspace(-4.0, 4.0, 161)[:, None]
CENTRAL = np.abs(GRID[:, 0]) <= 2.0
LENGTHSCALES = np.geomspace(0.05, 300.0, 30)
NOISES = np.geomspace(1e-10, 10.0, 34)


class Witness(NamedTuple):
    """Draws of μ_P - μ_Q on the grid."""

    samples: KernelSamples
    draws: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    excluded: float  # share of [-2, 2] where the band excludes 0


class Result(NamedTuple):
    """What the figure shows."""

    witnesses: dict[int, Witness]
    null: Witness
    null_share: tuple[float, float]  # mean share of [-2, 2] excluded over null samples, its standard error
    ridge: np.ndarray  # the paper's objective over (ℓ, τ²), relative to its largest value on the grid


def witness(p: np.ndarray, q: np.ndarray, rng: np.random.Generator, progress: bool) -> Witness:
    """Kernels from their posterior given the pooled sample; for each, a draw of either embedding."""
    pooled = np.concatenate([p, q])
    samples = sample_kernel(
        pooled, landmarks=LANDMARKS, n_warmup=200, n_draws=200, progress=progress, rng=SEED
    )
    measure = samples.learned.measure
    draws = np.concatenate(
        [
            fit_embedding(p, kernel, measure=measure).sample(GRID, 1, rng)
            - fit_embedding(q, kernel, measure=measure).sample(GRID, 1, rng)
            for kernel in samples.kernels(DRAWS, rng)
        ]
    )
    lower, upper = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    outside = (lower > 0.0) | (upper < 0.0)
    return Witness(samples, draws, lower, upper, float(outside[CENTRAL].mean()))


def null_share(kernel: Gaussian, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean share of [-2, 2] where the band excludes 0 when P = Q, at one kernel, and its standard error."""
    z = float(ndtri(0.5 + LEVEL / 2))
    shares = []
    for _ in range(NULLS):
        p, q = (fit_embedding(rng.normal(size=(n, 1)), kernel) for _ in range(2))
        sd = np.hypot(p.sd(GRID[CENTRAL]), q.sd(GRID[CENTRAL]))
        shares.append(np.mean(np.abs(p.mean(GRID[CENTRAL]) - q.mean(GRID[CENTRAL])) > z * sd))
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(NULLS))


def ridge(pooled: np.ndarray) -> np.ndarray:
    """The paper's objective on a grid of lengthscales and noises."""
    z = choose_landmarks(pooled, Landmarks("subset", 20))
    values = np.array(
        [
            [log_pseudolikelihood(pooled, kernel=Gaussian(ell), noise=t, landmarks=z) for t in NOISES]
            for ell in LENGTHSCALES
        ]
    )
    return values - values.max()


def run(seed: int = SEED, sizes: tuple[int, ...] = SIZES, progress: bool = False) -> Result:
    """Draw the samples, then the kernels, then the witnesses."""
    rng = np.random.default_rng(seed)
    witnesses = {}
    for n in sizes:
        p, q = rng.normal(size=(n, 1)), rng.laplace(0.0, 0.5**0.5, (n, 1))
        witnesses[n] = witness(p, q, rng, progress)
    null = witness(rng.normal(size=(sizes[-1], 1)), rng.normal(size=(sizes[-1], 1)), rng, progress)
    kernel = Gaussian(float(np.median(null.samples.lengthscale)))
    return Result(witnesses, null, null_share(kernel, sizes[-1], rng), ridge(np.concatenate([p, q])))


def plot(result: Result) -> Any:
    """Posterior of the lengthscale, one witness for each size, the null twin, the paper's ridge."""
    figure, panels = new_figure(3 + len(result.witnesses), width=3.6)
    scale = panels[0]
    for (n, one), colour in zip(result.witnesses.items(), (ORANGE, BLUE), strict=False):
        scale.hist(
            one.samples.lengthscale.ravel(), 40, histtype="step", density=True, color=colour, label=f"n = {n}"
        )
    scale.set_title("Posterior of ℓ, normalised objective", fontsize="medium")
    scale.set_xlabel("ℓ")
    scale.legend(frameon=False, fontsize="small")
    shown = [(f"Witness, n = {n}", one) for n, one in result.witnesses.items()]
    shown.append(("Null twin, P = Q", result.null))
    for axes, (title, one) in zip(panels[1:], shown, strict=False):
        axes.fill_between(GRID[:, 0], one.lower, one.upper, color=SKY, alpha=0.5, linewidth=0)
        for draw in one.draws[:5]:
            axes.plot(GRID[:, 0], draw, color=BLUE, linewidth=0.5)
        axes.plot(GRID[:, 0], one.draws.mean(axis=0), color=VERMILION)
        axes.axhline(0.0, color=BLACK, linewidth=0.5)
        axes.set_title(f"{title}: 0 excluded on {one.excluded:.0%}", fontsize="medium")
        axes.set_xlabel("s")
    last = panels[-1]
    drawn = last.contourf(LENGTHSCALES, NOISES, -np.log10(1.0 - result.ridge.T), 20, cmap="cividis")
    top = NOISES[result.ridge.argmax(axis=1)]
    last.plot(LENGTHSCALES, top, color=VERMILION, label="best τ²")
    last.set(xscale="log", yscale="log", xlabel="ℓ", ylabel="τ²")
    last.set_title("Paper's objective: a ridge without end", fontsize="medium")
    last.legend(fontsize="small")
    figure.colorbar(drawn, ax=last, label="−log₁₀(1 + nats below the largest)")
    return figure


def main() -> None:
    """Run, report in words, and write the figure."""
    folder = parse_output(__doc__)
    result = run(progress=True)
    path = save(plot(result), Path(folder) / "figure3.png")
    for n, one in result.witnesses.items():
        print(f"n = {n}: {one.samples!r}")
        print(f"  the {LEVEL:.0%} band of the witness excludes 0 on {one.excluded:.0%} of [-2, 2]")
    mean, error = result.null_share
    print(f"null twin (P = Q): {result.null.excluded:.0%} in the one sample drawn;")
    print(f"  {mean:.1%} (s.e. {error:.1%}) over {NULLS} null samples, where {1 - LEVEL:.0%} is right")
    row, column = np.unravel_index(result.ridge.argmax(), result.ridge.shape)
    print(
        f"paper's objective, both free: best on the grid at ℓ = {LENGTHSCALES[row]:.3g}, "
        f"τ² = {NOISES[column]:.1g}; it has no maximum"
    )
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()

"""Figure 1: the Bayesian kernel embedding in one dimension.

(A) draws from the prior GP(0, r); (B) the empirical embedding of a few observations, drawn as a rug;
(C) the posterior with its 90% band, and the true embedding of the mixture the data came from. The paper's
text says lengthscale 0.25, its caption 0.1; the figure takes the text's, the report gives both.
"""

from typing import Any, NamedTuple

import numpy as np

from kembed.embeddings.empirical import empirical
from kembed.embeddings.posterior import PosteriorEmbedding, fit_embedding
from kembed.experiments.mixtures import mixture_embedding
from kembed.experiments.output import BLACK, BLUE, ORANGE, SKY, VERMILION, legend, mosaic
from kembed.kernels.stationary import Gaussian

SEED = 1
LENGTHSCALE, CAPTION = 0.25, 0.1
WEIGHTS, MEANS, SDS = np.array([0.6, 0.4]), np.array([-0.7, 0.8]), np.array([0.3, 0.4])
OBSERVATIONS = 40
LEVEL = 0.9
GRID = np.linspace(-2.5, 2.5, 401)[:, None]


class Result(NamedTuple):
    """What the figure shows."""

    x: np.ndarray
    lengthscale: float
    prior_draws: np.ndarray
    empirical: np.ndarray
    posterior: PosteriorEmbedding
    truth: np.ndarray
    covered: float  # share of the grid where the 90% interval holds the truth
    smoother: float  # total squared bend (second differences) of the posterior mean over the empirical one's
    below_zero: float  # share of the grid where the interval reaches below 0
    caption: "Result | None" = None  # the same sample with the lengthscale of the caption


def run(seed: int = SEED, lengthscale: float = LENGTHSCALE, progress: bool | None = None) -> Result:
    """Draw the data and fit the three embeddings; it takes a second, so there is no progress to show."""
    rng = np.random.default_rng(seed)
    component = rng.choice(2, OBSERVATIONS, p=WEIGHTS)
    x = rng.normal(MEANS[component], SDS[component])[:, None]
    kernel = Gaussian(lengthscale)
    posterior = fit_embedding(x, kernel)
    lower, upper = posterior.interval(GRID, LEVEL)
    truth = mixture_embedding(GRID, lengthscale, WEIGHTS, MEANS[:, None], (SDS**2)[:, None, None])
    plain = empirical(x, kernel).mean(GRID)
    return Result(
        x=x,
        lengthscale=lengthscale,
        prior_draws=posterior.prior_sample(GRID, 3, rng),
        empirical=plain,
        posterior=posterior,
        truth=truth,
        covered=float(np.mean((lower <= truth) & (truth <= upper))),
        smoother=bend(posterior.mean(GRID)) / bend(plain),
        below_zero=float(np.mean(lower < 0.0)),
        caption=run(seed, CAPTION) if lengthscale != CAPTION else None,
    )


def bend(values: np.ndarray) -> float:
    """Σ (second difference)² of a function on the grid."""
    return float((np.diff(values, 2) ** 2).sum())


def plot(result: Result) -> Any:
    """The three panels."""
    figure, panels = mosaic(["ABC"])
    prior, data, posterior = panels.values()
    s = GRID[:, 0]
    for draw, colour in zip(result.prior_draws, (BLUE, ORANGE, BLACK), strict=True):
        prior.plot(s, draw, color=colour)
    prior.set_title(f"A. Draws from the prior, ℓ = {result.lengthscale:g}")
    data.plot(s, result.empirical, color=BLACK)
    data.plot(result.x[:, 0], np.zeros(len(result.x)), "|", color=BLACK, markersize=12)
    data.set_title(f"B. Empirical embedding, n = {len(result.x)}")
    mean = result.posterior.mean(GRID)
    lower, upper = result.posterior.interval(GRID, LEVEL)
    label = f"{LEVEL:.0%} interval"
    posterior.fill_between(s, lower, upper, color=SKY, alpha=0.5, linewidth=0, label=label)
    posterior.plot(s, mean, color=BLUE, label="posterior mean")
    posterior.plot(s, result.truth, color=VERMILION, linestyle="--", label="true embedding")
    posterior.set_title("C. Posterior embedding")
    legend(posterior)
    for axes in (prior, data, posterior):
        axes.axhline(0.0, color=BLACK, linewidth=0.4)
        axes.set_xlabel("s")
    prior.set_ylabel("μ(s)")
    return figure


def report(result: Result) -> list[str]:
    """What was measured, in words."""
    sentences = [f"Figure 1: {len(result.x)} observations of a two-component mixture, seed {SEED}."]
    for one in (result, result.caption):
        if one is not None:
            error = np.abs(one.posterior.mean(GRID) - one.truth).max()
            sentences += [
                f"ℓ = {one.lengthscale:g}: the {LEVEL:.0%} interval holds the true embedding on "
                f"{one.covered:.0%} of the line;",
                f"  the posterior mean is nowhere off by more than {error:.3f} "
                f"(the embedding's peak is {one.truth.max():.3f}),",
                f"  has {one.smoother:.1%} of the squared bend of the empirical embedding,",
                f"  and the interval reaches below 0 on {one.below_zero:.0%} of the line.",
            ]
    return sentences


FIGURES = {"figure1": plot}

if __name__ == "__main__":
    from kembed.experiments import main

    main("figure1", __doc__)

"""Figure 1: the Bayesian kernel embedding in one dimension.

(A) draws from the prior GP(0, r); (B) the empirical embedding of a few observations, drawn as a rug;
(C) the posterior with its 90% band, and the true embedding of the mixture the data came from. The paper's
text says lengthscale 0.25, its caption 0.1; the figure takes the text's, the report gives both.
"""

from typing import Any, NamedTuple

import numpy as np

from experiments.mixtures import mixture_embedding
from experiments.output import BLACK, BLUE, ORANGE, SKY, VERMILION, legend, mosaic
from kembed import Gaussian, PosteriorEmbedding, empirical, fit_embedding

SEED = 1
LENGTHSCALE, CAPTION = 0.25, 0.1
WEIGHTS, MEANS, SDS = np.array([0.6, 0.4]), np.array([-0.7, 0.8]), np.array([0.3, 0.4])
OBSERVATIONS = 40
LEVEL = 0.9
GRID = np.linspace(-2.5, 2.5, 401)[:, None]


class Embeddings(NamedTuple):
    """What the figure shows, for one lengthscale."""

    x: np.ndarray
    lengthscale: float
    posterior: PosteriorEmbedding
    prior_draws: np.ndarray
    empirical: np.ndarray
    truth: np.ndarray


def embeddings(lengthscale: float) -> Embeddings:
    """The same data for every lengthscale."""
    rng = np.random.default_rng(SEED)
    component = rng.choice(2, OBSERVATIONS, p=WEIGHTS)
    x = rng.normal(MEANS[component], SDS[component])[:, None]
    kernel = Gaussian(lengthscale)
    posterior = fit_embedding(x, kernel)
    truth = mixture_embedding(GRID, lengthscale, WEIGHTS, MEANS[:, None], (SDS**2)[:, None, None])
    draws = posterior.prior_sample(GRID, 3, rng)
    return Embeddings(x, lengthscale, posterior, draws, empirical(x, kernel).mean(GRID), truth)


def run() -> list[Embeddings]:
    """Under the lengthscale of the text, and of the caption."""
    return [embeddings(LENGTHSCALE), embeddings(CAPTION)]


def plot(result: list[Embeddings]) -> Any:
    """The three panels."""
    shown, s = result[0], GRID[:, 0]
    figure, panels = mosaic(["ABC"])
    prior, data, posterior = panels.values()
    for draw, colour in zip(shown.prior_draws, (BLUE, ORANGE, BLACK), strict=True):
        prior.plot(s, draw, color=colour)
    prior.set_title(f"A. Draws from the prior, ℓ = {shown.lengthscale:g}")
    data.plot(s, shown.empirical, color=BLACK)
    data.plot(shown.x[:, 0], np.zeros(OBSERVATIONS), "|", color=BLACK, markersize=12)
    data.set_title(f"B. Empirical embedding, n = {OBSERVATIONS}")
    band = shown.posterior.interval(GRID, LEVEL)
    posterior.fill_between(s, *band, color=SKY, alpha=0.5, linewidth=0, label=f"{LEVEL:.0%} interval")
    posterior.plot(s, shown.posterior.mean(GRID), color=BLUE, label="posterior mean")
    posterior.plot(s, shown.truth, color=VERMILION, linestyle="--", label="true embedding")
    posterior.set_title("C. Posterior embedding")
    legend(posterior)
    for axes in (prior, data, posterior):
        axes.axhline(0.0, color=BLACK, linewidth=0.4)
        axes.set_xlabel("s")
    prior.set_ylabel("μ(s)")
    return figure


def report(result: list[Embeddings]) -> list[str]:
    """What was measured, in words."""
    sentences = [f"Figure 1: {OBSERVATIONS} observations of a two-component mixture, seed {SEED}."]
    for one in result:
        mean, (lower, upper) = one.posterior.mean(GRID), one.posterior.interval(GRID, LEVEL)
        covered = np.mean((lower <= one.truth) & (one.truth <= upper))
        bend, plain = (float((np.diff(values, 2) ** 2).sum()) for values in (mean, one.empirical))
        sentences += [
            f"ℓ = {one.lengthscale:g}: the {LEVEL:.0%} interval holds the true embedding on "
            f"{covered:.0%} of the line;",
            f"  the posterior mean is nowhere off by more than {np.abs(mean - one.truth).max():.3f} "
            f"(the embedding's peak is {one.truth.max():.3f}),",
            f"  has {bend / plain:.1%} of the squared bend of the empirical embedding,",
            f"  and the interval reaches below 0 on {np.mean(lower < 0.0):.0%} of the line.",
        ]
    return sentences

"""Figure 1: the Bayesian kernel embedding in one dimension.

(A) draws from the prior GP(0, r); (B) the empirical embedding of a few observations, drawn as a rug;
(C) the posterior with its 90% band, and the true embedding of the mixture the data came from. The paper's
text says lengthscale 0.25, its caption 0.1; we take the text's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kembed.embedding import empirical
from kembed.experiments._output import BLACK, BLUE, ORANGE, SKY, VERMILION, new_figure, parse_output, save
from kembed.kernels import Gaussian
from kembed.posterior import PosteriorEmbedding, fit_embedding

SEED = 1
LENGTHSCALE = 0.25
WEIGHTS, MEANS, SDS = np.array([0.6, 0.4]), np.array([-0.7, 0.8]), np.array([0.3, 0.4])
OBSERVATIONS = 40
GRID = np.linspace(-2.5, 2.5, 401)[:, None]


class Result(NamedTuple):
    """What the figure shows."""

    x: np.ndarray
    prior_draws: np.ndarray
    empirical: np.ndarray
    posterior: PosteriorEmbedding
    truth: np.ndarray
    covered: float  # share of the grid where the 90% interval holds the truth


def true_embedding(points: np.ndarray) -> np.ndarray:
    """E k(s, X) for the mixture: each N(m, v) gives ℓ/√(ℓ²+v) exp(-(s-m)²/2(ℓ²+v))."""
    spread = LENGTHSCALE**2 + SDS**2
    bumps = np.exp(-0.5 * (points - MEANS) ** 2 / spread)
    return bumps @ (WEIGHTS * LENGTHSCALE / np.sqrt(spread))


def run(seed: int = SEED) -> Result:
    """Draw the data and fit the three embeddings."""
    rng = np.random.default_rng(seed)
    component = rng.choice(2, OBSERVATIONS, p=WEIGHTS)
    x = rng.normal(MEANS[component], SDS[component])[:, None]
    kernel = Gaussian(LENGTHSCALE)
    posterior = fit_embedding(x, kernel)
    lower, upper = posterior.interval(GRID, 0.9)
    truth = true_embedding(GRID)
    return Result(
        x=x,
        prior_draws=posterior.prior_sample(GRID, 3, rng),
        empirical=empirical(x, kernel).mean(GRID),
        posterior=posterior,
        truth=truth,
        covered=float(np.mean((lower <= truth) & (truth <= upper))),
    )


def plot(result: Result) -> Any:
    """The three panels."""
    figure, (prior, data, posterior) = new_figure(3)
    s = GRID[:, 0]
    for draw, colour in zip(result.prior_draws, (BLUE, ORANGE, BLACK), strict=True):
        prior.plot(s, draw, color=colour)
    prior.set_title("A. Draws from the prior")
    data.plot(s, result.empirical, color=BLACK)
    data.plot(result.x[:, 0], np.zeros(len(result.x)), "|", color=BLACK, markersize=12)
    data.set_title(f"B. Empirical embedding, n = {len(result.x)}")
    mean = result.posterior.mean(GRID)
    lower, upper = result.posterior.interval(GRID, 0.9)
    posterior.fill_between(s, lower, upper, color=SKY, alpha=0.5, linewidth=0, label="90% interval")
    posterior.plot(s, mean, color=BLUE, label="posterior mean")
    posterior.plot(s, result.truth, color=VERMILION, linestyle="--", label="true embedding")
    posterior.set_title("C. Posterior embedding")
    posterior.legend(frameon=False, fontsize="small")
    for axes in (prior, data, posterior):
        axes.axhline(0.0, color=BLACK, linewidth=0.4)
        axes.set_xlabel("s")
    prior.set_ylabel("μ(s)")
    return figure


def main() -> None:
    """Run, report in words, and write the figure."""
    folder = parse_output(__doc__)
    result = run()
    path = save(plot(result), Path(folder) / "figure1.png")
    error = np.abs(result.posterior.mean(GRID) - result.truth).max()
    print(f"{len(result.x)} observations of a two-component mixture, {result.posterior.kernel!r}.")
    print(f"The 90% interval of the embedding holds the truth on {result.covered:.0%} of the line;")
    print(f"the posterior mean is nowhere off by more than {error:.3f}.")
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()

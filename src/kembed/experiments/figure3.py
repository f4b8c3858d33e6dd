"""Figure 3: N(0,1) against Laplace(0, √½), the witness with all hyperparameters integrated out.

(A) the two densities; (B, C) the witness μ_P - μ_Q for n = 50 and n = 400 in each sample, with its 80% band,
integrated over the lengthscale by quadrature and by NUTS. Beside them what the paper does not show: the
posterior of the lengthscale; a null twin of C, where both samples are N(0,1) and a calibrated 80% band
excludes 0 on a fifth of the line on average (a witness is smooth, so in one sample it is often none of the
line or most of it; averages over many samples are measured too); and the paper's objective over (ℓ, τ²),
which rises along a ridge until its priors stop it at 2n(m-D).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from kembed.comparing.bands import Bands
from kembed.comparing.witness import Witness, witness
from kembed.core.progress import progress_bar, showing_progress
from kembed.embeddings.landmarks import Landmarks, choose_landmarks
from kembed.embeddings.posterior import fit_embedding
from kembed.experiments.output import BLACK, BLUE, ORANGE, SKY, VERMILION, legend, mosaic
from kembed.experiments.published import paper_surface
from kembed.kernels.stationary import Gaussian
from kembed.learning.kernel_samples import KernelSamples
from kembed.learning.learn import learn_kernel
from kembed.learning.nuts import sample_kernel
from kembed.learning.paper.likelihood import log_pseudolikelihood
from kembed.learning.quadrature import KernelPosterior

SEED = 3
SCALE = 0.5**0.5  # of the Laplace distribution: variance 1
LEVEL = 0.8
QUANTILES = 0.05, 0.5, 0.95
RIDGE_LANDMARKS = 20


class Plan(NamedTuple):
    """How much is drawn and looked at."""

    sizes: tuple[int, ...] = (50, 400)
    chains: int = 4
    warmup: int = 200
    draws: int = 500  # of the kernel, a chain; the paper has 200
    kernels: int = 100  # that a witness integrates over
    repeats: int = 100  # data sets behind an average share
    points: int = 161  # of the line from -4 to 4
    counts: tuple[int, ...] = (20, 50)  # landmarks for the local mode of the paper's objective
    lengthscales: np.ndarray = np.geomspace(0.05, 300.0, 30)  # of the paper's objective
    noises: np.ndarray = np.geomspace(1e-10, 10.0, 34)

    @property
    def grid(self) -> np.ndarray:
        """The line, as points."""
        return np.linspace(-4.0, 4.0, self.points)[:, None]

    @property
    def central(self) -> np.ndarray:
        """Which points lie in [-2, 2]."""
        return np.abs(self.grid[:, 0]) <= 2.0


Ends = tuple[np.ndarray, np.ndarray]  # lower and upper, of a band on [-2, 2]


class Integrated(NamedTuple):
    """The witness of one pair of samples, integrated over the lengthscale in two ways."""

    posterior: KernelPosterior  # by quadrature
    samples: KernelSamples  # by NUTS
    witness: Witness  # over the former
    bands: Bands  # on the grid
    sampled: Bands
    excluded: float  # share of [-2, 2] where the band by quadrature excludes 0

    @property
    def quantiles(self) -> tuple[np.ndarray, np.ndarray]:
        """5%, 50% and 95% of the lengthscale, by quadrature and by NUTS."""
        return self.posterior.quantile(QUANTILES), np.quantile(self.samples.lengthscale, QUANTILES)

    def widths(self, central: np.ndarray) -> np.ndarray:
        """Widths of the band by NUTS over those by quadrature."""
        return ((self.sampled.upper - self.sampled.lower) / (self.bands.upper - self.bands.lower))[central]


class Share(NamedTuple):
    """Mean share of [-2, 2] where the band excludes 0, over data sets, and its standard error."""

    mean: float
    error: float
    repeats: int

    def __str__(self) -> str:
        return f"{self.mean:.1%} (s.e. {self.error:.1%})"


class LocalMode(NamedTuple):
    """The paper's model in its mode at small ℓ, and its bands, observed at each sample's own points."""

    lengthscale: float
    noise: float
    differ: Share
    same: Share


class Result(NamedTuple):
    """What the figure shows."""

    plan: Plan
    witnesses: dict[int, Integrated]
    null: Integrated
    null_share: Share
    differ: dict[int, Share]  # our bands, normal against Laplace, by n
    ridge: np.ndarray  # the paper's objective over (ℓ, τ²) for one observation, less its largest value
    local: dict[int, LocalMode]  # by number of landmarks

    @property
    def joint_maximum(self) -> int:
        """ℓ where the paper's joint posterior of (ℓ, τ²) is largest.

        Along the ridge the objective grows like 2n(m-D) log ℓ, n pooled rows, and Gamma(1, 1) takes ℓ off.
        """
        return 2 * (2 * self.plan.sizes[-1]) * (RIDGE_LANDMARKS - 1)


def draw_pair(n: int, laplace: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples of P = N(0, 1), and of Q = Laplace(0, √½) or of P again."""
    p = rng.normal(size=(n, 1))
    return p, rng.laplace(0.0, SCALE, (n, 1)) if laplace else rng.normal(size=(n, 1))


def integrated(p: np.ndarray, q: np.ndarray, plan: Plan, sample: Callable[..., Any]) -> Integrated:
    """The witness over the posterior of the pooled sample's kernel, by quadrature and by NUTS (`sample`)."""
    x = np.concatenate([p, q])
    posterior = learn_kernel(x).posterior
    samples = sample(x, n_chains=plan.chains, n_warmup=plan.warmup, n_draws=plan.draws, rng=SEED)
    both = [witness(p, q, kernel=one, n_kernels=plan.kernels, level=LEVEL) for one in (posterior, samples)]
    bands, sampled = (one.at(plan.grid) for one in both)
    return Integrated(posterior, samples, both[0], bands, sampled, outside(*bands[2:4], plan.central))


def outside(lower: np.ndarray, upper: np.ndarray, where: Any = True) -> float:
    """The share of points where a band excludes 0."""
    return float(np.mean((lower > 0.0) | (upper < 0.0), where=where))


def excluded_share(
    n: int, laplace: bool, band: Callable[..., Ends], rng: np.random.Generator, plan: Plan
) -> Share:
    """How much of [-2, 2] a band of the witness excludes 0 on, over data sets: band(p, q, points)."""
    points, shares = plan.grid[plan.central], []
    with progress_bar(plan.repeats, np.inf, "bands", "data set") as bar:
        for _ in range(plan.repeats):
            shares.append(outside(*band(*draw_pair(n, laplace, rng), points)))
            bar.update(1)
    return Share(float(np.mean(shares)), float(np.std(shares) / np.sqrt(plan.repeats)), plan.repeats)


def local_mode(pooled: np.ndarray, count: int, rng: np.random.Generator, plan: Plan) -> LocalMode:
    """Climb the paper's log posterior, Gamma(1, 1) priors on ℓ and τ², from the small side of the valley."""
    from scipy.optimize import minimize

    z = choose_landmarks(pooled, Landmarks("subset", count))

    def downhill(logs: np.ndarray) -> float:
        ell, noise = np.exp(logs)
        value = log_pseudolikelihood(pooled, kernel=Gaussian(ell), noise=noise, landmarks=z)
        return float(ell + noise - value)

    top = minimize(downhill, np.log([0.3, 0.1]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 0.01})
    ell, noise = (float(value) for value in np.exp(top.x))

    def band(p: np.ndarray, q: np.ndarray, points: np.ndarray) -> Ends:
        fits = [fit_embedding(x, Gaussian(ell), noise=noise, landmarks=x) for x in (p, q)]
        mean = fits[0].mean(points) - fits[1].mean(points)
        reach = float(ndtri(0.5 + LEVEL / 2)) * np.hypot(*(fit.sd(points) for fit in fits))
        return mean - reach, mean + reach

    n = len(pooled) // 2
    differ, same = (excluded_share(n, laplace, band, rng, plan) for laplace in (True, False))
    return LocalMode(ell, noise, differ, same)


def at_median(one: Integrated) -> Callable[..., Ends]:
    """The band of our witness with the kernel of the median lengthscale."""
    kernel = Gaussian(float(one.posterior.quantile(0.5)))
    return lambda p, q, points: witness(p, q, kernel=kernel, level=LEVEL).at(points)[2:4]


def run(
    seed: int = SEED,
    progress: bool | None = None,
    plan: Plan | None = None,
    sample: Callable[..., Any] = sample_kernel,
) -> Result:
    """Draw the samples, then the kernels (by `sample`), then the witnesses."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    plan = plan or Plan()
    sample = partial(sample, progress=progress)
    rng, last = np.random.default_rng(seed), plan.sizes[-1]
    with showing_progress(progress), threadpool_limits(1):  # thousands of small matrices: threads only wait
        pairs = {n: draw_pair(n, True, rng) for n in plan.sizes}
        witnesses = {n: integrated(*pair, plan, sample) for n, pair in pairs.items()}
        null = integrated(*draw_pair(last, False, rng), plan, sample)
        same = excluded_share(last, False, at_median(null), rng, plan)
        pooled = np.concatenate(pairs[last])
        marks = choose_landmarks(pooled, Landmarks("subset", RIDGE_LANDMARKS))
        surface = paper_surface(pooled, plan.lengthscales, plan.noises, marks)
        differ = {n: excluded_share(n, True, at_median(one), rng, plan) for n, one in witnesses.items()}
        local = {count: local_mode(pooled, count, rng, plan) for count in plan.counts}
    return Result(plan, witnesses, null, same, differ, surface - surface.max(), local)


def plot(result: Result) -> Any:
    """The paper's three panels, and below them ours."""
    figure, panels = mosaic(["ABC", "abc"], width=4.2, height=3.2)
    s = result.plan.grid[:, 0]
    panels["A"].plot(s, np.exp(-0.5 * s**2) / np.sqrt(2.0 * np.pi), color=BLACK, label="P = N(0, 1)")
    laplace = np.exp(-np.abs(s) / SCALE) / (2.0 * SCALE)
    panels["A"].plot(s, laplace, color=VERMILION, ls="--", label="Q = Laplace(0, √½)")
    panels["A"].set(title="A. The densities", xlabel="x")
    legend(panels["A"], loc="upper left")
    low, high = panels["A"].get_ylim()
    panels["A"].set_ylim(low, high + 0.15 * (high - low))
    shown = [
        (panels[letter], f"{letter}. Witness, n = {n}", one)
        for letter, (n, one) in zip("BC", result.witnesses.items(), strict=False)
    ]
    shown.append((panels["b"], f"Null twin of {'ABC'[len(result.witnesses)]}: P = Q", result.null))
    for axes, title, one in shown:
        band, how = one.bands, {"color": BLACK, "linewidth": 0.8, "linestyle": "--"}
        look: dict[str, Any] = {"color": SKY, "alpha": 0.5, "linewidth": 0}
        axes.fill_between(s, band.lower, band.upper, label=f"{LEVEL:.0%} band, quadrature", **look)
        axes.plot(s, one.sampled.lower, label="the same, NUTS", **how)
        axes.plot(s, one.sampled.upper, **how)
        for draw in one.witness.draws(result.plan.grid, 5):
            axes.plot(s, draw, color=BLUE, linewidth=0.5)
        axes.plot(s, band.mean, color=VERMILION, label="mean")
        axes.axhline(0.0, color=BLACK, linewidth=0.5)
        axes.set(title=f"{title}; 0 excluded on {one.excluded:.0%}", xlabel="s")
    low, high = panels["B"].get_ylim()
    panels["B"].set_ylim(low - 0.35 * (high - low), high)
    legend(panels["B"], loc="lower left")
    for (n, one), colour in zip(result.witnesses.items(), (ORANGE, BLUE), strict=False):
        scales, weights = one.posterior.lengthscale, one.posterior.weights
        below = np.cumsum(weights) - 0.5 * weights
        panels["a"].plot(scales, below, color=colour, label=f"n = {n}")
        panels["a"].ecdf(
            one.samples.lengthscale.ravel(), color=BLACK, ls="--", lw=0.8, label="the same, NUTS"
        )
    last = max(float(one.quantiles[0][-1]) for one in result.witnesses.values())
    panels["a"].set(title="Posterior of ℓ, leave-one-out objective", xlabel="ℓ", xlim=(0.0, 1.5 * last))
    panels["a"].set_ylabel("share below")
    legend(panels["a"])
    _plot_ridge(figure, panels["c"], result)
    return figure


def _plot_ridge(figure: Any, axes: Any, result: Result) -> None:
    from matplotlib.colors import BoundaryNorm

    levels = [-1000, -300, -200, -150, -100, -70, -40, -20, 0]
    scales, noises = result.plan.lengthscales, result.plan.noises
    even = BoundaryNorm(levels, 256, extend="min")  # as much colour between any two levels
    drawn = axes.contourf(scales, noises, result.ridge.T, levels, cmap="cividis", norm=even, extend="min")
    axes.plot(scales, noises[result.ridge.argmax(axis=1)], color=VERMILION, label="best τ²")
    axes.set(xscale="log", yscale="log", xlabel="ℓ", ylabel="τ²")
    axes.set_title("The paper's objective, without its priors")
    best = f"with them: ℓ = {result.joint_maximum:,}"
    axes.legend(fontsize="small", title_fontsize="small", title=best, loc="lower left")
    figure.colorbar(drawn, ax=axes, label="log objective / n, below largest", ticks=levels)


def report(result: Result) -> list[str]:
    """What was measured, in words."""
    sentences = [f"Figure 3: N(0, 1) against Laplace(0, √½), seed {SEED}."]
    for n, one in result.witnesses.items():
        (low, middle, high), sampled = one.quantiles
        quantiles, widths = sampled / one.quantiles[0] - 1.0, one.widths(result.plan.central) - 1.0
        sentences += [
            f"n = {n}: quadrature: lengthscale {middle:.4g} [{low:.4g}, {high:.4g}];",
            f"  NUTS: {one.samples!r};",
            f"  NUTS over quadrature: quantiles {', '.join(f'{each:+.1%}' for each in quantiles)} "
            f"(5%, 50%, 95%), widths of the band {widths.min():+.1%} to {widths.max():+.1%};",
            f"  the {LEVEL:.0%} band of the witness excludes 0 on {one.excluded:.0%} of [-2, 2];",
            f"  over {result.differ[n].repeats} data sets, ℓ at its median: {result.differ[n]}.",
        ]
    row, column = np.unravel_index(result.ridge.argmax(), result.ridge.shape)
    scales = result.plan.lengthscales
    null, small = result.null_share, -result.ridge[scales <= 1.0].max()
    sentences += [
        f"Null twin (P = Q): {result.null.excluded:.0%} in the one sample drawn;",
        f"  over {null.repeats} null data sets {null}, where {1 - LEVEL:.0%} is right.",
        f"The paper's objective, both free: best on the grid at ℓ = {scales[row]:.3g}, "
        f"τ² = {result.plan.noises[column]:.1g}, its far end;",
        f"  with ℓ ≤ 1 it is nowhere within {small:.0f} nats a row of that.",
        "  With the paper's Gamma(1, 1) priors the joint maximum is at "
        f"ℓ = 2n(m - D) = {result.joint_maximum:,}.",
    ]
    for count, mode in result.local.items():
        sentences += [
            f"Its local mode at small ℓ, {count} landmarks: ℓ = {mode.lengthscale:.3f}, "
            f"τ² = {mode.noise:.3f};",
            f"  its {LEVEL:.0%} band excludes 0 on {mode.differ}, and where P = Q on {mode.same}.",
        ]
    return sentences


QUICK = {"plan": Plan(draws=100, kernels=30, repeats=20, counts=(20,))}
FIGURES = {"figure3": plot}

if __name__ == "__main__":
    from kembed.experiments import main

    main("figure3", __doc__)

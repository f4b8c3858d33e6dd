"""Figure 3: N(0,1) against Laplace(0, √½), the witness with all hyperparameters integrated out.

(A) the two densities; (B, C) the witness μ_P - μ_Q for n = 50 and n = 400 in each sample, with its 80% band,
integrated over the lengthscale by quadrature and by NUTS. Beside them what the paper does not show: the
posterior of the lengthscale; a null twin of C, where both samples are N(0,1) and a calibrated 80% band
excludes 0 on a fifth of the line on average (a witness is smooth, so in one sample it is often none of the
line or most of it; averages over many samples are measured too); and the paper's objective over (ℓ, τ²),
which rises along a ridge until its priors stop it at 2n(m-D).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import BoundaryNorm
from scipy.optimize import minimize
from scipy.special import ndtri
from threadpoolctl import threadpool_limits
from tqdm import trange

from experiments.output import BLACK, BLUE, ORANGE, SKY, VERMILION, legend, mosaic
from kembed import (
    Gaussian,
    KernelSamples,
    Landmarks,
    Witness,
    choose_landmarks,
    fit_embedding,
    learn_kernel,
    log_pseudolikelihood,
    sample_kernel,
    witness,
)

SEED = 3
SCALE = 0.5**0.5  # of the Laplace distribution: variance 1
LEVEL = 0.8
QUANTILES = 0.05, 0.5, 0.95
RIDGE_LANDMARKS = 20
CHAINS, WARMUP = 4, 200


class Plan(NamedTuple):
    """How much is drawn and looked at."""

    sizes: tuple[int, int] = (50, 400)
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


Share = tuple[float, float]  # of [-2, 2] where a band excludes 0, mean over data sets and standard error
Ends = tuple[np.ndarray, np.ndarray]  # of a band


class Integrated(NamedTuple):
    """The witness of one pair of samples, integrated over the lengthscale in two ways."""

    posterior: Any  # by quadrature
    samples: KernelSamples  # by NUTS
    witness: Witness  # over the former
    bands: Any  # of the former on the grid
    sampled: Any
    excluded: float  # share of [-2, 2] where the band by quadrature excludes 0


class Result(NamedTuple):
    """What the figure shows."""

    plan: Plan
    witnesses: dict[int, Integrated]  # by n
    null: Integrated
    null_share: Share
    differ: dict[int, Share]  # our bands, normal against Laplace, by n
    ridge: np.ndarray  # the paper's objective over (ℓ, τ²) for one observation, less its largest value
    local: dict[int, tuple[Any, ...]]  # by landmarks: ℓ, τ², and shares where P and Q differ or not

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


def outside(lower: np.ndarray, upper: np.ndarray, where: Any = True) -> float:
    """The share of points where a band excludes 0."""
    return float(np.mean((lower > 0.0) | (upper < 0.0), where=where))


def excluded_share(
    n: int, laplace: bool, band: Callable[..., Ends], rng: np.random.Generator, plan: Plan
) -> Share:
    """How much of [-2, 2] a band of the witness excludes 0 on, over data sets: band(p, q, points)."""
    points = plan.grid[plan.central]
    data_sets = trange(plan.repeats, desc="bands", leave=False, disable=None)
    shares = [outside(*band(*draw_pair(n, laplace, rng), points)) for _ in data_sets]
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(plan.repeats))


def band_of(kernel: Gaussian) -> Callable[..., Ends]:
    """The band of our witness with one kernel."""
    return lambda p, q, points: witness(p, q, kernel=kernel, level=LEVEL).at(points)[2:4]


def paper_band(lengthscale: float, noise: float) -> Callable[..., Ends]:
    """The band of the paper's model, observed at each sample's own points."""

    def band(p: np.ndarray, q: np.ndarray, points: np.ndarray) -> Ends:
        fits = [fit_embedding(x, Gaussian(lengthscale), noise=noise, landmarks=x) for x in (p, q)]
        mean = fits[0].mean(points) - fits[1].mean(points)
        reach = float(ndtri(0.5 + LEVEL / 2)) * np.hypot(*(fit.sd(points) for fit in fits))
        return mean - reach, mean + reach

    return band


def local_mode(pooled: np.ndarray, count: int) -> tuple[float, float]:
    """ℓ and τ² where the paper's log posterior ends, Gamma(1, 1) priors, climbed from the small side."""
    z = choose_landmarks(pooled, Landmarks("subset", count))

    def downhill(logs: np.ndarray) -> float:
        ell, noise = np.exp(logs)
        value = log_pseudolikelihood(pooled, kernel=Gaussian(ell), noise=noise, landmarks=z)
        return float(ell + noise - value)

    top = minimize(downhill, np.log([0.3, 0.1]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 0.01})
    ell, noise = np.exp(top.x)
    return float(ell), float(noise)


def run(plan: Plan = Plan(), sample: Callable[..., Any] = sample_kernel) -> Result:  # noqa: B008 - a tuple
    """Draw the samples, then the kernels (by `sample`), then the witnesses."""
    rng, last = np.random.default_rng(SEED), plan.sizes[-1]

    def integrated(p: np.ndarray, q: np.ndarray) -> Integrated:
        x = np.concatenate([p, q])
        posterior = learn_kernel(x).posterior
        how = {"n_chains": CHAINS, "n_warmup": WARMUP, "n_draws": plan.draws}
        samples = sample(x, rng=0, **how)  # the seed of `learn_kernel`, which of 800 rows predicts 750
        both = [
            witness(p, q, kernel=one, n_kernels=plan.kernels, level=LEVEL) for one in (posterior, samples)
        ]
        bands, sampled = (one.at(plan.grid) for one in both)
        return Integrated(posterior, samples, both[0], bands, sampled, outside(*bands[2:4], plan.central))

    def share(n: int, laplace: bool, one: Integrated) -> Share:
        kernel = Gaussian(float(one.posterior.quantile(0.5)))
        return excluded_share(n, laplace, band_of(kernel), rng, plan)

    with threadpool_limits(1):  # thousands of small matrices: threads only wait
        pairs = {n: draw_pair(n, True, rng) for n in plan.sizes}
        witnesses = {n: integrated(*pair) for n, pair in pairs.items()}
        null = integrated(*draw_pair(last, False, rng))
        same = share(last, False, null)
        pooled = np.concatenate(pairs[last])
        z = choose_landmarks(pooled, Landmarks("subset", RIDGE_LANDMARKS))
        ridge = np.array([
            [log_pseudolikelihood(pooled, kernel=Gaussian(ell), noise=t, landmarks=z) for t in plan.noises]
            for ell in plan.lengthscales
        ])  # fmt: skip
        differ = {n: share(n, True, one) for n, one in witnesses.items()}
        local = {}
        for count in plan.counts:
            ell, noise = local_mode(pooled, count)
            band = paper_band(ell, noise)
            apart, same_p = (excluded_share(last, laplace, band, rng, plan) for laplace in (True, False))
            local[count] = ell, noise, apart, same_p
    return Result(plan, witnesses, null, same, differ, (ridge - ridge.max()) / len(pooled), local)


def plot(result: Result) -> Any:
    """The paper's three panels, and below them ours."""
    figure, panels = mosaic(["ABC", "abc"], width=4.2, height=3.2)
    s = result.plan.grid[:, 0]
    panels["A"].plot(s, np.exp(-0.5 * s**2) / np.sqrt(2.0 * np.pi), color=BLACK, label="P = N(0, 1)")
    laplace = np.exp(-np.abs(s) / SCALE) / (2.0 * SCALE)
    panels["A"].plot(s, laplace, color=VERMILION, ls="--", label="Q = Laplace(0, √½)")
    panels["A"].set(title="A. The densities", xlabel="x", ylim=(None, 0.85))
    legend(panels["A"], loc="upper left")
    few, many = result.plan.sizes
    shown = {f"B. Witness, n = {few}": result.witnesses[few], f"C. n = {many}": result.witnesses[many]}
    shown["b. Null twin of C: P = Q"] = result.null
    for title, one in shown.items():
        axes, band, dashed = panels[title[0]], one.bands, {"color": BLACK, "linewidth": 0.8, "ls": "--"}
        label = f"{LEVEL:.0%} band, quadrature"
        axes.fill_between(s, band.lower, band.upper, label=label, color=SKY, alpha=0.5, linewidth=0)
        axes.plot(s, one.sampled.lower, label="the same, NUTS", **dashed)
        axes.plot(s, one.sampled.upper, **dashed)
        axes.plot(s, one.witness.draws(result.plan.grid, 5).T, color=BLUE, linewidth=0.5)
        axes.plot(s, band.mean, color=VERMILION, label="mean")
        axes.axhline(0.0, color=BLACK, linewidth=0.5)
        axes.set(title=f"{title}; 0 excluded on {one.excluded:.0%}", xlabel="s")
    legend(panels["B"], loc="lower left")
    for (n, one), colour in zip(result.witnesses.items(), (ORANGE, BLUE), strict=True):
        below = np.cumsum(one.posterior.weights) - 0.5 * one.posterior.weights
        panels["a"].plot(one.posterior.lengthscale, below, color=colour, label=f"n = {n}")
        panels["a"].ecdf(one.samples.lengthscale.ravel(), color=BLACK, ls="--", lw=0.8)
    panels["a"].set(title="Posterior of ℓ (dashed: NUTS)", xlabel="ℓ", ylabel="share below", xlim=(0.0, 2.0))
    legend(panels["a"])
    scales, noises = result.plan.lengthscales, result.plan.noises
    levels = [-1000, -300, -200, -150, -100, -70, -40, -20, 0]
    even = BoundaryNorm(levels, 256, extend="min")  # as much colour between any two levels
    axes = panels["c"]
    drawn = axes.contourf(scales, noises, result.ridge.T, levels, cmap="cividis", norm=even, extend="min")
    axes.plot(scales, noises[result.ridge.argmax(axis=1)], color=VERMILION, label="best τ²")
    axes.set(xscale="log", yscale="log", xlabel="ℓ", ylabel="τ²")
    axes.set_title("The paper's objective, without its priors")
    axes.legend(fontsize="small", title=f"with them: ℓ = {result.joint_maximum:,}", loc="lower left")
    figure.colorbar(drawn, ax=axes, label="log objective / n, below largest", ticks=levels)
    return figure


def report(result: Result) -> list[str]:
    """What was measured, in words."""
    plan, sentences = result.plan, [f"Figure 3: N(0, 1) against Laplace(0, √½), seed {SEED}."]

    def words(share: Share) -> str:
        return f"{share[0]:.1%} (s.e. {share[1]:.1%})"

    for n, one in result.witnesses.items():
        exact, sampled = one.posterior.quantile(QUANTILES), np.quantile(one.samples.lengthscale, QUANTILES)
        quantiles = ", ".join(f"{change:+.1%}" for change in sampled / exact - 1.0)
        gaps = [(band.upper - band.lower)[plan.central] for band in (one.sampled, one.bands)]
        widths = gaps[0] / gaps[1] - 1.0
        sentences += [
            f"n = {n}: quadrature: lengthscale {exact[1]:.4g} [{exact[0]:.4g}, {exact[2]:.4g}];",
            f"  NUTS: {one.samples!r};",
            f"  NUTS over quadrature: quantiles {quantiles} "
            f"(5%, 50%, 95%), widths of the band {widths.min():+.1%} to {widths.max():+.1%};",
            f"  the {LEVEL:.0%} band of the witness excludes 0 on {one.excluded:.0%} of [-2, 2];",
            f"  over {plan.repeats} data sets, ℓ at its median: {words(result.differ[n])}.",
        ]
    row, column = np.unravel_index(result.ridge.argmax(), result.ridge.shape)
    small = -result.ridge[plan.lengthscales <= 1.0].max()
    sentences += [
        f"Null twin (P = Q): {result.null.excluded:.0%} in the one sample drawn;",
        f"  over {plan.repeats} null data sets {words(result.null_share)}, where {1 - LEVEL:.0%} is right.",
        f"The paper's objective, both free: best on the grid at ℓ = {plan.lengthscales[row]:.3g}, "
        f"τ² = {plan.noises[column]:.1g}, its far end;",
        f"  with ℓ ≤ 1 it is nowhere within {small:.0f} nats a row of that.",
        "  With the paper's Gamma(1, 1) priors the joint maximum is at "
        f"ℓ = 2n(m - D) = {result.joint_maximum:,}.",
    ]
    for count, (ell, noise, differ, same) in result.local.items():
        sentences += [
            f"Its local mode at small ℓ, {count} landmarks: ℓ = {ell:.3f}, τ² = {noise:.3f};",
            f"  its {LEVEL:.0%} band excludes 0 on {words(differ)}, and where P = Q on {words(same)}.",
        ]
    return sentences


QUICK = {"plan": Plan(draws=100, kernels=30, repeats=20, counts=(20,))}

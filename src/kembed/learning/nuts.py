"""Full Bayes over kernels: NUTS over the hyperparameters and the temperature.

The only importer of NumPyro. The log density is the one `learning` climbs; chains start in every mode that
has a chance. Between modes far apart no chain ever travels, so what share of the posterior each one holds is
not left to how many chains happened to start there: it is computed from the log density of the draws, and
draws are weighted by it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import Array, Float, float64, namespace
from kembed.core.linalg import median_of_pairs, squared_distances
from kembed.kernels.stationary import Gaussian, MultiScale, Stationary
from kembed.learning.kernel_samples import KernelSamples, mode_shares, nearest_mode
from kembed.learning.learn import fit_kernel
from kembed.learning.learned_kernel import LearnedKernel
from kembed.learning.problem import Problem, Spec, noise_at, objective
from kembed.learning.search import minus_hessian

# Modes this many nats below the best have no share worth a chain.
HOPELESS = 30.0
TARGET_ACCEPTANCE = 0.8  # the usual choice for NUTS (Hoffman & Gelman 2014)
TREE_DEPTH = 7  # 127 steps at most: with a mass matrix from the mode trajectories are short
BLOCK = 50  # draws between two steps of the progress bar


def sample_kernel(
    x: Any,
    kernel: Stationary | str = Gaussian(),  # noqa: B008 - a frozen pattern
    *,
    noise: float | str = "learn",
    landmarks: Any = None,
    prior: Callable[[Any, Any], Any] | None = None,
    n_chains: int = 4,
    n_warmup: int = 300,
    n_draws: int = 500,
    progress: bool | None = None,
    rng: Any = 0,
) -> KernelSamples:
    """Draws from the posterior of the kernel's hyperparameters and of τ², by NUTS.

    Parameters
    ----------
    x, kernel, noise, landmarks
        As for `learn_kernel`; the normalised objective is the likelihood.
    prior
        A function (kernel, τ²) → log density in your units. By default every lengthscale, in units of the
        median distance, is Gamma(1, 1), and so are α and the temperature τ²/tr Cov[φ_z] (below 1). Yours
        replaces that of the kernel. The share of the background stays what `learn_kernel` found.
    n_chains, n_warmup, n_draws
        Chains, adaptation steps and draws of each. There is at least one chain for every mode with a chance.
    progress
        Whether to show a progress bar (on standard error); None: on a terminal only.
    rng
        Seed or generator; None is fresh entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import sample_kernel
    >>> x = np.random.default_rng(0).normal(size=(60, 1))
    >>> samples = sample_kernel(x, landmarks=20, n_chains=2, n_draws=300, progress=False)
    >>> samples.lengthscale.shape
    (2, 300)

    """
    try:
        import numpyro  # noqa: F401
    except ImportError:
        raise ImportError("sample_kernel needs NumPyro and ArviZ: pip install 'kembed[bayes]'") from None
    n_chains = checks.count(n_chains, "n_chains")
    n_warmup = checks.count(n_warmup, "n_warmup", 10)
    n_draws = checks.count(n_draws, "n_draws", 4)
    if isinstance(kernel, str):
        raise TypeError("kernel must be a kernel object here; use learn_kernel(x, kernel='auto').kernel")
    learned, problem = fit_kernel(x, kernel, noise=noise, landmarks=landmarks, prior=prior, rng=rng)
    learned.warn(edge=False)  # an optimum at the edge is no matter to a posterior
    seed = int(checks.generator(rng).integers(2**31))
    state = learned.state
    spec = state.spec
    least = learned.log_evidence - HOPELESS
    hopeful = [k for k, mode in enumerate(learned.modes) if mode.log_evidence > least]
    peaks = [_free(spec, state.thetas[k], len(state.spread)) for k in hopeful]
    starts = [peaks[c % len(peaks)] for c in range(max(n_chains, len(peaks)))]
    started = time.perf_counter()
    held = held_fixed(learned)
    free, diverging = _run(spec, problem, held, starts, n_warmup, n_draws, seed, progress)
    seconds = time.perf_counter() - started
    theta = _bounded(spec, free, held)
    nearest = nearest_mode(free, np.stack(peaks))
    mass = np.zeros(len(learned.modes))
    programs = _programs()
    mass[hopeful] = mode_shares(
        free, nearest, len(peaks), lambda at: float(programs.height(spec, at, problem, held))
    )
    noise_draws = np.stack([np.asarray(programs.noises(spec, chain, problem)) for chain in theta])
    chain_mode = np.array(hopeful)[nearest]
    samples = KernelSamples(learned, theta, free, noise_draws, diverging, chain_mode, mass, seconds)
    samples.warn()
    return samples


class Held(NamedTuple):
    """What is not sampled: the unit of the lengthscales' prior, and ε in fiftieths."""

    scale: Any
    epsilon: Any


def held_fixed(learned: LearnedKernel) -> Held:
    """The median distance of the landmarks, and the ε of the best mode, for `log_posterior`."""
    state = learned.state
    distances = np.sqrt(squared_distances(state.landmarks, state.landmarks))
    epsilon = state.thetas[0][_position(state.spec, len(state.spread))]
    return Held(np.float64(median_of_pairs(distances)), np.float64(epsilon))


def log_posterior(spec: Spec, free: Float[Array, " P"], problem: Problem, held: Held) -> Any:
    """Log evidence, log prior and log Jacobian at an unconstrained vector."""
    import jax.numpy as jnp

    E = problem.x.shape[1]
    theta = _bounded(spec, free, held)
    total, fit = objective(spec, theta, problem)
    kernel: Any = spec.family.kernel(theta, E)
    total = total + _log_jacobian(spec, free, theta, E)
    if spec.family.cls is MultiScale:  # logits of the weights are standard normal, whatever else is said
        total = total - 0.5 * (theta[spec.family.scales : spec.family.size(E)] ** 2).sum()
    if spec.prior is not None and spec.learn_noise:  # the user's is a density in τ², not in u
        total = total + jnp.log(fit.noise) - theta[spec.family.size(E)]
    if spec.prior is None:
        L = getattr(kernel, "cholesky", None)
        scales = kernel.lengthscales if isinstance(kernel, MultiScale) else kernel.lengthscale
        if L is not None:  # its axes' lengths, and normal off-diagonal entries
            scales = jnp.diagonal(L)
            total = total - 0.5 * (jnp.tril(L / scales[:, None], -1) ** 2).sum()
        total = total - jnp.sum(scales) / held.scale
        if hasattr(kernel, "alpha"):
            total = total - kernel.alpha
    return total


def _position(spec: Spec, E: int) -> int:
    """Where ε stands in θ, which is also how many numbers are sampled."""
    return spec.family.size(E) + spec.learn_noise


def _bounded(spec: Spec, free: Any, held: Held) -> Any:
    """θ from the unconstrained vector: u is a logistic curve, ε is put in, the rest is as it is."""
    xp = namespace(free)
    parts = [free[..., k] for k in range(free.shape[-1])]
    if spec.learn_noise:
        parts[-1] = -xp.logaddexp(0.0, -parts[-1])
    parts.append(held.epsilon + 0.0 * parts[0])
    return xp.stack(parts, axis=-1)


def _free(spec: Spec, theta: Float[np.ndarray, " P"], E: int) -> Float[np.ndarray, " p"]:
    """The unconstrained vector of a mode, moved off the bound it may sit on."""
    free = np.array(theta[: _position(spec, E)], dtype=float)
    if spec.learn_noise:
        value = min(float(np.exp(free[-1])), 0.9)
        free[-1] = np.log(value / (1.0 - value))
    return free


def _log_jacobian(spec: Spec, free: Any, theta: Any, E: int) -> Any:
    """log |∂(parameters)/∂(free)|: lengthscales and α are exponentials, u is logistic."""
    xp = namespace(free)
    family = spec.family
    if family.cls is MultiScale:
        total = theta[: family.scales].sum()
    elif family.shape == "full":
        corners = np.cumsum(np.arange(1, E + 1)) - 1  # the diagonal in the lower triangle's order
        total = theta[corners].sum() + theta[E * (E + 1) // 2 : family.size(E)].sum()
    else:
        total = theta[: family.size(E)].sum()  # log ℓ, and log α where there is one
    if spec.learn_noise:
        total = total - xp.logaddexp(0.0, -free[-1]) - xp.logaddexp(0.0, free[-1])
    return total


@functools.cache
def _programs() -> SimpleNamespace:
    """Compiled once for a size class; the spec, and the count after it, are static."""
    import jax
    from numpyro.infer.hmc import hmc

    def start(spec: Spec, warmup: int, free: Any, key: Any, given: Any, **more: Any) -> tuple[Any, Any]:
        def potential(problem: Problem, held: Held) -> Any:
            return lambda free: -log_posterior(spec, free, problem, held)

        init, step = hmc(potential_fn_gen=potential, algo="NUTS")
        options = {"dense_mass": True, "target_accept_prob": TARGET_ACCEPTANCE, "max_tree_depth": TREE_DEPTH}
        return init(free, warmup, model_args=given, rng_key=key, **options, **more), step

    def begin(spec: Spec, warmup: int, free: Any, mass: Any, key: Any, *given: Any) -> Any:
        return start(spec, warmup, free, key, given, step_size=0.5, inverse_mass_matrix=mass)[0]

    def advance(spec: Spec, warmup: int, state: Any, *given: Any) -> Any:
        steps = []
        # numpyro keeps the adaptation schedule in a closure that only its own start fills in
        jax.eval_shape(lambda: steps.append(start(spec, warmup, state.z, state.rng_key, given)[1]))

        def body(state: Any, _: None) -> Any:
            state = steps[0](state, model_args=given)
            return state, (state.z, state.diverging)

        return jax.lax.scan(body, state, None, length=BLOCK)

    def noises(spec: Spec, thetas: Any, problem: Problem) -> Any:
        return jax.lax.map(lambda theta: noise_at(spec, theta, problem), thetas)

    double = float64("sample_kernel")
    return SimpleNamespace(
        begin=jax.jit(begin, static_argnums=(0, 1)),  # a chain
        advance=jax.jit(advance, static_argnums=(0, 1)),  # a chain by a block of draws
        noises=double(jax.jit(noises, static_argnums=0)),  # τ² of every draw
        height=double(jax.jit(log_posterior, static_argnums=0)),
        slope=jax.jit(jax.grad(log_posterior, argnums=1), static_argnums=0),
    )


def _run(
    spec: Spec,
    problem: Problem,
    held: Held,
    starts: list[Float[np.ndarray, " p"]],
    n_warmup: int,
    n_draws: int,
    seed: int,
    progress: bool | None,
) -> tuple[Float[np.ndarray, "C N p"], Any]:
    """Every chain."""
    from tqdm import tqdm

    programs = _programs()
    total = n_warmup + n_draws
    hidden = None if progress is None else not progress  # tqdm takes None for "on a terminal only"
    bar = tqdm(total=total * len(starts), disable=hidden, desc="sampling", unit="draw", leave=False)

    @float64("sample_kernel")
    def chain(number: int) -> tuple[Any, ...]:
        import jax

        key = jax.random.fold_in(jax.random.key(seed), number)
        free = starts[number]
        H = minus_hessian(lambda at: np.asarray(programs.slope(spec, at, problem, held)), free)
        values, vectors = np.linalg.eigh(H)
        # the covariance of the normal approximation at the mode, kept within sensible sizes
        mass = (vectors / np.clip(values, 0.1, 1e6)) @ vectors.T
        jitter = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), free.shape))
        free = free + 0.5 * np.linalg.cholesky(mass) @ jitter
        state = programs.begin(spec, n_warmup, free, mass, key, problem, held)
        blocks = []
        for begun in range(0, total, BLOCK):  # whole blocks, one program; the rest is cut off
            state, block = programs.advance(spec, n_warmup, state, problem, held)
            blocks.append([np.asarray(part) for part in block])
            bar.update(min(BLOCK, total - begun))
        return tuple(np.concatenate(parts)[n_warmup:total] for parts in zip(*blocks, strict=True))

    # One after another: a program uses both cores already, and threads were measured to be slower.
    with bar:
        chains = [chain(number) for number in range(len(starts))]
    draws, diverging = map(np.stack, zip(*chains, strict=True))
    return draws, diverging

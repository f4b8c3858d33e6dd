"""Full Bayes over kernels: NUTS over the hyperparameters and the temperature.

The only importer of NumPyro. The log density is the one `learning` climbs; chains start in every mode that
has a chance. Between modes far apart no chain ever travels, so what share of the posterior each one holds is
not left to how many chains happened to start there: it is computed from the log density of the draws, and
draws are weighted by it.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kembed.core import checks
from kembed.core.backend import float64, namespace
from kembed.core.linalg import median_of_pairs, squared_distances
from kembed.kernels.stationary import Gaussian, MultiScale, Stationary
from kembed.learning.kernel_samples import KernelSamples, mode_shares, nearest_mode
from kembed.learning.learn import learn_kernel
from kembed.learning.problem import Problem, Spec, objective

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = Any

# Modes this many nats below the best have no share worth a chain.
HOPELESS = 30.0
TARGET_ACCEPTANCE = 0.8
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
    progress: bool = True,
    rng: Any = None,
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
        Whether to show a progress bar (on standard error).
    rng
        Seed; None is a fixed seed.

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an optimum at the edge is no matter to a posterior
        learned = learn_kernel(x, kernel, noise=noise, landmarks=landmarks, prior=prior, rng=rng)
    seed = int(checks.generator(0 if rng is None else rng).integers(2**31))
    state = learned.state
    E = state.problem.x.shape[1]
    scale = median_of_pairs(np.sqrt(squared_distances(*[state.problem.landmarks] * 2)))
    hopeful = [
        k for k, mode in enumerate(learned.modes) if mode.log_evidence > learned.log_evidence - HOPELESS
    ]
    modes = [state.thetas[k] for k in hopeful]
    starts = [modes[c % len(modes)] for c in range(max(n_chains, len(modes)))]
    started = time.perf_counter()
    held = Held(np.float64(scale), np.float64(state.thetas[0][_position(state.spec, E)]))
    free, diverging = _run(state.spec, state.problem, held, starts, n_warmup, n_draws, seed, progress)
    seconds = time.perf_counter() - started
    theta = _bounded(state.spec, free, held, E)
    noises = _noises(state.spec, theta, state.problem)
    peaks = [_free(state.spec, mode, E) for mode in modes]
    nearest = nearest_mode(free, np.stack(peaks))
    share = mode_shares(free, nearest, len(peaks), _log_density(state.spec, state.problem, held))
    which = np.array(hopeful)[nearest]
    mass = np.zeros(len(learned.modes))
    mass[hopeful] = share
    samples = KernelSamples(
        learned=learned,
        theta=theta,
        free=free,
        noise=noises,
        diverging=diverging,
        chain_mode=which,
        mass=mass,
        seconds=seconds,
    )
    samples.warn()
    return samples


class Held(NamedTuple):
    """What is not sampled: the unit of the lengthscales' prior, and ε in fiftieths."""

    scale: Any
    epsilon: Any


def log_posterior(spec: Spec, free: Float[Array, " P"], problem: Problem, held: Held) -> Any:
    """Log evidence, log prior and log Jacobian at an unconstrained vector."""
    import jax.numpy as jnp

    E = problem.x.shape[1]
    theta = _bounded(spec, free, held, E)
    total, fit = objective(spec, theta, problem)
    kernel = spec.family.kernel(theta, E)
    total = total + _log_jacobian(spec, free, theta, E)
    if spec.family.cls is MultiScale:  # logits of the weights are standard normal, whatever else is said
        total = total - 0.5 * (theta[spec.family.scales : spec.family.size(E)] ** 2).sum()
    if spec.prior is not None and spec.learn_noise:  # the user's is a density in τ², not in u
        total = total + jnp.log(fit.noise) - theta[spec.family.size(E)]
    if spec.prior is None:
        scales = kernel.lengthscales if hasattr(kernel, "lengthscales") else kernel.lengthscale
        if jnp.ndim(scales) == 2:  # a matrix: its axes' lengths, and normal off-diagonal entries
            lower = scales / jnp.diagonal(scales)[:, None]
            total = total - 0.5 * (jnp.tril(lower, -1) ** 2).sum()
            scales = jnp.diagonal(scales)
        total = total - jnp.sum(scales) / held.scale
        if hasattr(kernel, "alpha"):
            total = total - kernel.alpha
    return total


def _position(spec: Spec, E: int) -> int:
    """Where ε stands in θ, which is also how many numbers are sampled."""
    return spec.family.size(E) + spec.learn_noise


def _bounded(spec: Spec, free: Any, held: Held, E: int) -> Any:
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
def _chain_functions() -> tuple[Any, Any, Any, Any]:
    """Compiled once for a size class: start a chain, advance it, τ² of a draw, height of a mode."""
    import jax
    from numpyro.infer.hmc import hmc

    def kernel(spec: Spec, warmup: int) -> tuple[Any, Any]:
        def potential(problem: Problem, held: Held) -> Any:
            return lambda free: -log_posterior(spec, free, problem, held)

        return hmc(potential_fn_gen=potential, algo="NUTS")

    def begin(spec: Spec, warmup: int, free: Any, mass: Any, key: Any, problem: Problem, held: Held) -> Any:
        return kernel(spec, warmup)[0](
            free,
            warmup,
            step_size=0.5,
            inverse_mass_matrix=mass,
            dense_mass=True,
            target_accept_prob=TARGET_ACCEPTANCE,
            max_tree_depth=7,
            model_args=(problem, held),
            rng_key=key,
        )

    def advance(spec: Spec, warmup: int, count: int, state: Any, problem: Problem, held: Held) -> Any:
        init, step = kernel(spec, warmup)
        # numpyro keeps the adaptation schedule in a closure that only its own start fills in
        jax.eval_shape(
            lambda: init(
                state.z,
                warmup,
                dense_mass=True,
                target_accept_prob=TARGET_ACCEPTANCE,
                max_tree_depth=7,
                model_args=(problem, held),
                rng_key=state.rng_key,
            )
        )

        def body(state: Any, _: None) -> Any:
            state = step(state, model_args=(problem, held))
            return state, (state.z, state.diverging)

        return jax.lax.scan(body, state, None, length=count)

    def noise(spec: Spec, thetas: Any, problem: Problem) -> Any:
        def one(theta: Any) -> Any:
            E = problem.x.shape[1]
            kernel, u, _, _ = spec.unpack(theta, E)
            K = kernel._gram(problem.x, problem.landmarks)
            n = problem.weights.sum()
            mean = problem.weights @ K / n
            return u * (problem.weights @ (K * K).sum(axis=1) / n - mean @ mean)

        return jax.lax.map(one, thetas)

    def height(spec: Spec, free: Any, problem: Problem, held: Held) -> Any:
        return log_posterior(spec, free, problem, held)

    def curvature(spec: Spec, free: Any, problem: Problem, held: Held) -> Any:
        return jax.grad(log_posterior, argnums=1)(spec, free, problem, held)

    return (
        jax.jit(begin, static_argnums=(0, 1)),
        jax.jit(advance, static_argnums=(0, 1, 2)),
        jax.jit(noise, static_argnums=0),
        (jax.jit(height, static_argnums=0), jax.jit(curvature, static_argnums=0)),
    )


def _run(
    spec: Spec,
    problem: Problem,
    held: Held,
    starts: list[Float[np.ndarray, " P"]],
    n_warmup: int,
    n_draws: int,
    seed: int,
    progress: bool,
) -> tuple[Float[np.ndarray, "C N P"], Any]:
    """Every chain."""
    from tqdm import tqdm

    E = problem.x.shape[1]
    begin, advance, _, (_, slope) = _chain_functions()
    total = (n_warmup + n_draws) * len(starts)
    bar = tqdm(total=total, disable=not progress, desc="sampling", unit="draw", leave=False)

    @float64("sample_kernel")
    def chain(number: int) -> tuple[Any, Any]:
        import jax

        key = jax.random.fold_in(jax.random.key(seed), number)
        free = _free(spec, starts[number], E)
        mass = _inverse_curvature(lambda at: np.asarray(slope(spec, at, problem, held)), free)
        jitter = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), free.shape))
        free = free + 0.5 * np.linalg.cholesky(mass) @ jitter
        state = begin(spec, n_warmup, free, mass, key, problem, held)
        draws, diverging = [], []
        for begun in range(0, n_warmup + n_draws, BLOCK):  # whole blocks, one program; the rest is cut off
            state, (z, bad) = advance(spec, n_warmup, BLOCK, state, problem, held)
            draws.append(np.asarray(z))
            diverging.append(np.asarray(bad))
            bar.update(min(BLOCK, n_warmup + n_draws - begun))
        kept = slice(n_warmup, n_warmup + n_draws)
        return np.concatenate(draws)[kept], np.concatenate(diverging)[kept]

    # One after another: a program uses both cores already, and threads were measured to be slower.
    with bar:
        chains = [chain(number) for number in range(len(starts))]
    return np.stack([draws for draws, _ in chains]), np.stack([bad for _, bad in chains])


def _inverse_curvature(
    slope: Callable[[Any], Float[np.ndarray, " P"]], free: Float[np.ndarray, " P"]
) -> Float[np.ndarray, "P P"]:
    """The covariance of the normal approximation at a mode, kept within sensible sizes."""
    base = slope(free)
    columns = [(base - slope(free + step)) / 1e-4 for step in 1e-4 * np.eye(len(free))]
    values, vectors = np.linalg.eigh(0.5 * (np.stack(columns) + np.stack(columns).T))
    return (vectors / np.clip(values, 0.1, 1e6)) @ vectors.T


@float64("sample_kernel")
def _noises(spec: Spec, theta: Float[np.ndarray, "C N P"], problem: Problem) -> Float[np.ndarray, "C N"]:
    if not spec.learn_noise:
        return np.full(theta.shape[:2], float(problem.noise))
    noise = _chain_functions()[2]
    return np.stack([np.asarray(noise(spec, chain, problem)) for chain in theta])


def _log_density(spec: Spec, problem: Problem, held: Held) -> Callable[[Any], float]:
    """The log posterior as a plain function of an unconstrained vector."""

    @float64("sample_kernel")
    def at(free: Float[np.ndarray, " p"]) -> float:
        return float(_chain_functions()[3][0](spec, free, problem, held))

    return at

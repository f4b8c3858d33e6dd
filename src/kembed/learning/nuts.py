"""Full Bayes over kernels: NUTS over the hyperparameters.

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
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Array, Float, float64, namespace
from kembed.core.threads import few_rows_one_thread
from kembed.kernels.measures import Measure
from kembed.kernels.stationary import Gaussian, Stationary
from kembed.learning.kernel_samples import KernelSamples, mode_shares, nearest_mode
from kembed.learning.learn import fit_kernel
from kembed.learning.problem import Effort, Problem, Spec, natural_scales
from kembed.learning.problem import objective as log_objective
from kembed.learning.search import minus_hessian

# A gradient costs all pairs, and thousands are needed: one bag, which is all that there is up to 1,093 rows.
SAMPLED = Effort(bags=1)
# Modes this many nats below the best have no share worth a chain.
HOPELESS = 30.0
TARGET_ACCEPTANCE = 0.8  # the usual choice for NUTS (Hoffman & Gelman 2014)
TREE_DEPTH = 7  # 127 steps at most: with a mass matrix from the mode trajectories are short
BLOCK = 50  # draws between two steps of the progress bar


@few_rows_one_thread
def sample_kernel(
    x: Any,
    kernel: Stationary | str = Gaussian(),  # noqa: B008 - a frozen pattern
    *,
    prior: Callable[[Any], Any] | str | None = "gamma",
    objective: str = "leave-one-out",
    noise: float | None = None,
    landmarks: Any = None,
    measure: Measure | None = None,
    n_chains: int = 4,
    n_warmup: int = 300,
    n_draws: int = 500,
    progress: bool | None = None,
    rng: Any = 0,
) -> KernelSamples:
    """Draw the kernel's hyperparameters from their Gibbs posterior, by NUTS.

    The log density of the logarithms of lengthscales is the objective of `learn_kernel`. That is a sum of
    leave-one-out predictive scores and a log prior, not a likelihood and a prior: a Gibbs posterior (Bissiri,
    Holmes and Walker 2016).

    Parameters
    ----------
    x, kernel, prior, objective, noise, landmarks, measure
        As for `learn_kernel`. With `objective="paper"` the draws are from the published posterior given the
        noise τ², and the default prior is the paper's, Gamma(1, 1) on every lengthscale, in the units of x.
    n_chains, n_warmup, n_draws
        Chains, adaptation steps and draws of each. There is at least one chain for every mode with a chance.
    progress
        Whether to show a progress bar (on standard error); None: on a terminal only.
    rng
        Seed or generator; None is fresh entropy. With one seed `learn_kernel` looks at the same rows.

    References
    ----------
    P. G. Bissiri, C. C. Holmes and S. G. Walker, "A general framework for updating belief distributions",
    Journal of the Royal Statistical Society B 78, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import sample_kernel
    >>> x = np.random.default_rng(0).normal(size=(60, 1))
    >>> samples = sample_kernel(x, n_chains=2, n_draws=300, progress=False)
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
    if objective == "paper" and prior == "gamma":
        prior = published_prior
    learned, prepared = fit_kernel(x, kernel, prior, objective, noise, landmarks, measure, rng, SAMPLED)
    learned.warn(edge=False)  # an optimum at the edge is no matter to a posterior
    seed = int(checks.generator(rng).integers(2**31))
    state, problem = learned.state, prepared.problem
    spec = state.spec
    least = learned.log_evidence - HOPELESS
    hopeful = [k for k, mode in enumerate(learned.modes) if mode.log_evidence > least]
    peaks = [state.thetas[k] for k in hopeful]
    starts = [peaks[c % len(peaks)] for c in range(max(n_chains, len(peaks)))]
    started = time.perf_counter()
    theta, diverging = _run(spec, problem, starts, n_warmup, n_draws, seed, progress)
    seconds = time.perf_counter() - started
    nearest = nearest_mode(theta, np.stack(peaks))
    mass = np.zeros(len(learned.modes))
    height = _programs().height
    mass[hopeful] = mode_shares(theta, nearest, len(peaks), lambda at: float(height(spec, at, problem)))
    samples = KernelSamples(learned, theta, diverging, np.array(hopeful)[nearest], mass, seconds)
    samples.warn()
    return samples


def published_prior(kernel: Any) -> Any:
    """Gamma(1, 1) on every lengthscale, as a log density of their logarithms."""
    scales = natural_scales(kernel)
    return (namespace(scales).log(scales) - scales).sum()


def log_posterior(spec: Spec, theta: Float[Array, " P"], problem: Problem) -> Any:
    """The objective of `learn_kernel`."""
    return log_objective(spec, theta, problem)[0]


@functools.cache
def _programs() -> SimpleNamespace:
    """Compiled once for a size class; the spec, and the count after it, are static."""
    import jax
    from numpyro.infer.hmc import hmc

    def start(spec: Spec, warmup: int, theta: Any, key: Any, given: Any, **more: Any) -> tuple[Any, Any]:
        def potential(problem: Problem) -> Any:
            return lambda theta: -log_posterior(spec, theta, problem)

        init, step = hmc(potential_fn_gen=potential, algo="NUTS")
        options = {"dense_mass": True, "target_accept_prob": TARGET_ACCEPTANCE, "max_tree_depth": TREE_DEPTH}
        return init(theta, warmup, model_args=given, rng_key=key, **options, **more), step

    def begin(spec: Spec, warmup: int, theta: Any, mass: Any, key: Any, *given: Any) -> Any:
        return start(spec, warmup, theta, key, given, step_size=0.5, inverse_mass_matrix=mass)[0]

    def advance(spec: Spec, warmup: int, state: Any, *given: Any) -> Any:
        steps = []
        # numpyro keeps the adaptation schedule in a closure that only its own start fills in
        jax.eval_shape(lambda: steps.append(start(spec, warmup, state.z, state.rng_key, given)[1]))

        def body(state: Any, _: None) -> Any:
            state = steps[0](state, model_args=given)
            return state, (state.z, state.diverging)

        return jax.lax.scan(body, state, None, length=BLOCK)

    double = float64("sample_kernel")
    return SimpleNamespace(
        begin=jax.jit(begin, static_argnums=(0, 1)),  # a chain
        advance=jax.jit(advance, static_argnums=(0, 1)),  # a chain by a block of draws
        height=double(jax.jit(log_posterior, static_argnums=0)),
        slope=jax.jit(jax.grad(log_posterior, argnums=1), static_argnums=0),
    )


def _run(
    spec: Spec,
    problem: Problem,
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
        theta = starts[number]
        H = minus_hessian(lambda at: np.asarray(programs.slope(spec, at, problem)), theta)
        values, vectors = np.linalg.eigh(H)
        # the covariance of the normal approximation at the mode, kept within sensible sizes
        mass = (vectors / np.clip(values, 0.1, 1e6)) @ vectors.T
        jitter = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), theta.shape))
        theta = theta + 0.5 * np.linalg.cholesky(mass) @ jitter
        state = programs.begin(spec, n_warmup, theta, mass, key, problem)
        blocks = []
        for begun in range(0, total, BLOCK):  # whole blocks, one program; the rest is cut off
            state, block = programs.advance(spec, n_warmup, state, problem)
            blocks.append([np.asarray(part) for part in block])
            bar.update(min(BLOCK, total - begun))
        return tuple(np.concatenate(parts)[n_warmup:total] for parts in zip(*blocks, strict=True))

    # One after another: a program uses both cores already, and threads were measured to be slower.
    with bar:
        chains = [chain(number) for number in range(len(starts))]
    draws, diverging = map(np.stack, zip(*chains, strict=True))
    return draws, diverging

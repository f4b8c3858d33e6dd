"""What `sample_kernel` returns: draws of kernels, diagnostics, embeddings that integrate over them."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Bool, Float, Int
from kembed.core.drawing import Drawn
from kembed.core.writing import jsonable
from kembed.kernels.stationary import Stationary
from kembed.learning.learned_kernel import LearnedKernel

RHAT_LIMIT = 1.05  # beyond this the draws are not to be trusted, and the user is notified
SHARE_DRAWS = 40  # draws behind the share of a mode: each costs an evaluation of the log posterior


def nearest_mode(theta: Float[np.ndarray, "C N P"], peaks: Float[np.ndarray, "M P"]) -> Int[np.ndarray, " C"]:
    """The mode nearest to the mean of every chain, in units of the chain's own spread."""
    mean, spread = theta.mean(axis=1), theta.std(axis=1) + 1e-9
    return np.argmin((((mean[:, None] - peaks) / spread[:, None]) ** 2).sum(axis=2), axis=1)


def mode_shares(
    theta: Float[np.ndarray, "C N P"],
    which: Int[np.ndarray, " C"],
    count: int,
    log_density: Callable[[Float[np.ndarray, " P"]], float],
) -> Float[np.ndarray, " M"]:
    """The share of the posterior each mode holds, 0 for modes without a chain.

    With q the normal distribution of a mode's draws, log ∫p over the mode is about the mean of log p - log q
    over them; it is exact where the mode is normal.
    """
    P = theta.shape[2]
    log_mass = np.full(count, -np.inf)
    for k in np.unique(which):
        draws = theta[which == k].reshape(-1, P)
        covariance = np.cov(draws.T).reshape(P, P) + 1e-12 * np.eye(P)
        some = draws[np.linspace(0, len(draws) - 1, SHARE_DRAWS).astype(int)]
        offset = some - draws.mean(axis=0)
        quadratic = (offset * np.linalg.solve(covariance, offset.T).T).sum(axis=1)
        log_q = -0.5 * (quadratic + np.linalg.slogdet(2.0 * np.pi * covariance)[1])
        log_mass[k] = np.mean([log_density(draw) for draw in some] - log_q)
    mass = np.exp(log_mass - log_mass.max())
    return mass / mass.sum()


@dataclass(frozen=True, eq=False, repr=False)
class KernelSamples(Drawn):
    """Draws from the posterior over kernels.

    `lengthscale` has shape (chains, draws) and so on. `chain_mode` says in
    which of `learned.modes` each chain lives, `mass` what share of the posterior each mode holds; draws used
    for embeddings are weighted by it.
    """

    learned: LearnedKernel
    theta: Float[np.ndarray, "C N P"]
    diverging: Bool[np.ndarray, "C N"]
    chain_mode: Int[np.ndarray, " C"]
    mass: Float[np.ndarray, " M"]
    seconds: float

    @functools.cached_property
    def variables(self) -> dict[str, Float[np.ndarray, "C N ..."]]:
        """Every hyperparameter that was sampled, in the user's units, by name."""
        C, N, P = self.theta.shape
        draws = [self.learned.state.kernel(theta).hyperparameters() for theta in self.theta.reshape(-1, P)]
        found = {}
        for name, value in draws[0].items():
            found[name] = np.stack([draw[name] for draw in draws]).reshape(C, N, *np.shape(value))
        return found

    @property
    def lengthscale(self) -> Float[np.ndarray, "C N ..."]:
        """Draws of every lengthscale; of a full covariance, of those of its columns."""
        if "covariance" in self.variables:
            return np.sqrt(np.diagonal(self.variables["covariance"], axis1=2, axis2=3))
        return self.variables["lengthscale" if "lengthscale" in self.variables else "lengthscales"]

    @property
    def divergences(self) -> int:
        """How many draws ended a divergent trajectory."""
        return int(self.diverging.sum())

    def to_arviz(self) -> Any:
        """The draws of the main mode as ArviZ has them: a `DataTree` (before ArviZ 1 an `InferenceData`)."""
        chains = self._main_chains()
        return _in_groups(
            posterior={name: value[chains] for name, value in self.variables.items()},
            sample_stats={"diverging": self.diverging[chains]},
        )

    def _main_chains(self) -> Bool[np.ndarray, " C"]:
        """Chains of the mode with the largest share: only chains of one mode can be asked to agree."""
        return self.chain_mode == int(np.argmax(self.mass))

    def summary(self) -> Any:
        """Means, intervals, R-hat and effective sample sizes over the chains of the main mode, by ArviZ."""
        return _arviz().summary(self._main())

    def _main(self) -> Any:
        """Draws of the main mode for diagnostics; a single chain is compared with itself, in halves."""
        chosen = {name: value[self._main_chains()] for name, value in self.variables.items()}
        if self._main_chains().sum() == 1:
            half = self.theta.shape[1] // 2
            chosen = {
                name: np.concatenate([v[:, :half], v[:, half : 2 * half]]) for name, v in chosen.items()
            }
        return _in_groups(posterior=chosen)

    @functools.cached_property
    def rhat(self) -> float:
        """The largest R-hat over hyperparameters, among the chains of the main mode."""
        with np.errstate(all="ignore"):  # draws that never moved have no R-hat: nan
            table = _arviz().rhat(self._main())
        return float(max(np.max(value.values) for value in table.values()))

    @functools.cached_property
    def ess(self) -> float:
        """The smallest bulk effective sample size over hyperparameters, in the main mode."""
        with np.errstate(all="ignore"):
            table = _arviz().ess(self._main(), method="bulk")
        return float(min(np.min(value.values) for value in table.values()))

    def warn(self) -> None:
        """Say what a reader of the draws must know."""
        news = []
        if len(np.unique(self.chain_mode)) > 1:
            held = [(self._draws(k).mean(axis=0), mass) for k, mass in enumerate(self.mass) if mass > 0.0]
            shares = ", ".join(f"{self.learned.state.kernel(theta)!r} {mass:.0%}" for theta, mass in held)
            news.append(
                f"the posterior has several modes and chains do not travel between them; their shares: "
                f"{shares}. Draws of embeddings are weighted by these"
            )
        if self.divergences:
            news.append(
                f"{self.divergences} divergent draws; the posterior is too bent for these steps, so give "
                "narrower priors or more warm-up"
            )
        if not self.rhat <= RHAT_LIMIT:
            news.append(
                f"R-hat is {self.rhat:.2f}, so the chains have not settled; raise n_warmup and n_draws"
            )
        for message in news:
            warnings.warn(message, UserWarning, stacklevel=4)

    def _draws(self, mode: int) -> Float[np.ndarray, "d P"]:
        return self.theta[self.chain_mode == mode].reshape(-1, self.theta.shape[2])

    def kernels(self, size: int, rng: Any = 0) -> list[Stationary]:
        """Kernels drawn from the posterior, modes in proportion to their share."""
        size = checks.count(size, "size")
        generator = checks.generator(rng)
        mass = np.where(np.isin(np.arange(len(self.mass)), self.chain_mode), self.mass, 0.0)
        modes = generator.choice(len(mass), size, p=mass / mass.sum())
        pools = (self._draws(mode) for mode in modes)
        return [self.learned.state.kernel(pool[generator.integers(len(pool))]) for pool in pools]

    def to_dict(self) -> dict[str, Any]:
        """The kernel they surround, and quantiles of every lengthscale: 5%, 50% and 95%."""
        scales = np.asarray(self.lengthscale)
        scales = scales.reshape(-1, *scales.shape[2:])
        payload = {"learned": self.learned.to_dict(), "draws": len(scales), "divergences": self.divergences}
        return jsonable({**payload, "lengthscale_quantiles": np.quantile(scales, [0.05, 0.5, 0.95], axis=0)})

    def __repr__(self) -> str:
        C, N, _ = self.theta.shape
        value = self.lengthscale[self._main_chains()]
        value = value.reshape(value.shape[0] * N, -1)[:, 0]
        low, high = np.quantile(value, [0.05, 0.95])
        return (
            f"KernelSamples({self.learned.family}, {C} chains x {N} draws, "
            f"lengthscale {np.median(value):.4g} [{low:.4g}, {high:.4g}], "
            f"R-hat {self.rhat:.3f}, {self.divergences} divergences)"
        )


def _in_groups(**groups: dict[str, np.ndarray]) -> Any:
    """Draws as ArviZ takes them: groups by name up to version 0.23, in one dictionary from 1.0 on."""
    arviz = _arviz()
    by_name = "posterior" in inspect.signature(arviz.from_dict).parameters
    return arviz.from_dict(**groups) if by_name else arviz.from_dict(groups)


def _arviz() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ announces its next version on import
            import arviz
    except ImportError:
        raise ImportError("this needs ArviZ: pip install 'kembed[bayes]'") from None
    return arviz

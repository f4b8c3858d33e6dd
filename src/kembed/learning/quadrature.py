"""The posterior of a kernel's one lengthscale, by quadrature on the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import Float
from kembed.core.writing import jsonable
from kembed.kernels.stationary import Stationary
from kembed.learning.problem import Prepared
from kembed.learning.search import value_at

LARGEST_SHARE = 0.02  # of the posterior between two neighbouring nodes


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """Posterior weights over kernels: exp of the objective of `learn_kernel`, normalised.

    Attributes
    ----------
    learned : LearnedKernel
        The kernel at the mode, and what it was learned from.
    theta : array of shape (Q,)
        Nodes: logarithms of the lengthscale in the frame of the data, rising.
    weights : array of shape (Q,)
        Posterior probability of every node.

    """

    learned: Any
    theta: Float[np.ndarray, " Q"]
    weights: Float[np.ndarray, " Q"]

    @property
    def lengthscale(self) -> Float[np.ndarray, " Q"]:
        """The lengthscale of every node, in the user's units."""
        return np.array([self._kernel(theta).lengthscale for theta in self.theta])

    def _kernel(self, theta: float) -> Any:
        return self.learned.state.kernel(np.array([theta]))

    def quantile(self, q: Any) -> Float[np.ndarray, ...]:
        """Return posterior quantiles of the lengthscale.

        Examples
        --------
        >>> import numpy as np
        >>> from kembed import learn_kernel
        >>> posterior = learn_kernel(np.random.default_rng(0).normal(size=(100, 1))).posterior
        >>> low, high = posterior.quantile([0.05, 0.95])
        >>> bool(low < posterior.learned.kernel.lengthscale < high)
        True

        """
        below = np.cumsum(self.weights) - 0.5 * self.weights
        return np.exp(np.interp(q, below, np.log(self.lengthscale)))

    def kernels(self, size: int, rng: Any = 0) -> list[Stationary]:
        """Draw kernels from the posterior by systematic sampling: as evenly as so many can be."""
        size, generator = checks.count(size, "size"), checks.generator(rng)
        places = (np.arange(size) + generator.random()) / size
        nodes = np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self.weights) - 1)
        return [self._kernel(self.theta[node]) for node in nodes]

    def to_dict(self) -> dict[str, Any]:
        """Return the lengthscales with their weights, and quantiles, as JSON types."""
        quantiles = self.quantile([0.05, 0.5, 0.95])
        values = {"lengthscale": self.lengthscale, "weights": self.weights}
        return jsonable({**values, "lengthscale_quantiles": quantiles})

    def __repr__(self) -> str:
        low, middle, high = self.quantile([0.05, 0.5, 0.95])
        interval = f"lengthscale {middle:.4g} [{low:.4g}, {high:.4g}]"
        return f"KernelPosterior({self.learned.family}, {interval}, {len(self.weights)} nodes)"


def quadrature(learned: Any, prepared: Prepared) -> KernelPosterior:
    """The posterior by the trapezoid rule; intervals are halved until none holds much of it."""
    spec, modes = learned.state.spec, np.array(learned.state.thetas)
    if modes.shape[1] > 1:
        seen = f"this kernel has {modes.shape[1]} hyperparameters, and quadrature is for one"
        raise ValueError(f"{seen}; use sample_kernel (NUTS)")

    def value(theta: float) -> float:
        return value_at(spec, np.array([theta]), prepared.problem)[0]

    grid = np.log(prepared.scales)
    nodes = np.unique(np.append(grid, np.clip(modes, grid[0], grid[-1])))
    logs = np.array([value(node) for node in nodes])
    while True:
        heights, gaps = np.exp(logs - logs.max()), np.diff(nodes)
        shares = gaps * np.maximum(heights[:-1], heights[1:])
        wide = np.flatnonzero((shares > LARGEST_SHARE * shares.sum()) & (gaps > 1e-6))
        if not len(wide):
            break
        added = 0.5 * (nodes[wide] + nodes[wide + 1])
        logs = np.insert(logs, wide + 1, [value(node) for node in added])
        nodes = np.insert(nodes, wide + 1, added)
    weights = heights * 0.5 * (np.append(gaps, 0.0) + np.append(0.0, gaps))
    return KernelPosterior(learned, nodes, weights / weights.sum())

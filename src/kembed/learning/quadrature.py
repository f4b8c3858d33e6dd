"""The posterior of a kernel's one or two hyperparameters, by quadrature on the objective."""

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

LARGEST_SHARE = 0.02  # of the posterior between two neighbouring nodes of one number
WIDTH, STEPS = 5.0, 33  # of two numbers: so many standard deviations each way, so many nodes each
TAIL = 8.0  # modes this many nats below the best are left out of that grid
CURVATURE_STEP = 1e-2  # of the differences behind its standard deviations
MOST_PARAMETERS = 2


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """Posterior weights over kernels: exp of the objective of `learn_kernel`, normalised.

    Attributes
    ----------
    learned : LearnedKernel
        The kernel at the mode, and what it was learned from.
    theta : array of shape (Q, P)
        Nodes: logarithms of the hyperparameters in the frame of the data, in rising order of the first.
    weights : array of shape (Q,)
        Posterior probability of every node.

    """

    learned: Any
    theta: Float[np.ndarray, "Q P"]
    weights: Float[np.ndarray, " Q"]

    @property
    def lengthscale(self) -> Float[np.ndarray, "Q ..."]:
        """The lengthscales of every node, in the user's units."""
        return np.array([_scales(self.learned.state.kernel(theta)) for theta in self.theta])

    def quantile(self, q: Any) -> Float[np.ndarray, ...]:
        """Return posterior quantiles of the lengthscale, of every lengthscale where there are several.

        Examples
        --------
        >>> import numpy as np
        >>> from kembed import learn_kernel
        >>> posterior = learn_kernel(np.random.default_rng(0).normal(size=(100, 1))).posterior
        >>> low, high = posterior.quantile([0.05, 0.95])
        >>> bool(low < posterior.learned.kernel.lengthscale < high)
        True

        """
        scales = self.lengthscale.reshape(len(self.theta), -1)
        found = []
        for column in scales.T:
            values, place = np.unique(column, return_inverse=True)
            marginal = np.bincount(place, self.weights)
            found.append(np.exp(np.interp(q, np.cumsum(marginal) - 0.5 * marginal, np.log(values))))
        return np.stack(found, axis=-1) if len(found) > 1 else found[0]

    def kernels(self, size: int, rng: Any = 0) -> list[Stationary]:
        """Draw kernels from the posterior by systematic sampling: as evenly as so many can be."""
        size, generator = checks.count(size, "size"), checks.generator(rng)
        places = (np.arange(size) + generator.random()) / size
        nodes = np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self.weights) - 1)
        return [self.learned.state.kernel(self.theta[node]) for node in nodes]

    def to_dict(self) -> dict[str, Any]:
        """Return the lengthscales with their weights, and quantiles, as JSON types."""
        quantiles = self.quantile([0.05, 0.5, 0.95])
        values = {"lengthscale": self.lengthscale, "weights": self.weights}
        return jsonable({**values, "lengthscale_quantiles": quantiles})

    def __repr__(self) -> str:
        low, middle, high = np.atleast_2d(self.quantile([0.05, 0.5, 0.95]).T)[0]
        interval = f"lengthscale {middle:.4g} [{low:.4g}, {high:.4g}]"
        return f"KernelPosterior({self.learned.family}, {interval}, {len(self.weights)} nodes)"


def quadrature(learned: Any, prepared: Prepared) -> KernelPosterior:
    """The posterior of a kernel with one or two hyperparameters."""
    spec, modes = learned.state.spec, learned.state.thetas
    parameters = len(modes[0])
    if parameters > MOST_PARAMETERS:
        seen = f"this kernel has {parameters} hyperparameters, and quadrature is for one or two"
        raise ValueError(f"{seen}; use sample_kernel (NUTS)")

    def value(theta: Any) -> float:
        return value_at(spec, np.atleast_1d(theta), prepared.problem)[0]

    if parameters == 1:
        theta, logs, gaps = _line(value, np.log(prepared.scales), [float(mode[0]) for mode in modes])
    else:
        theta, logs, gaps = _plane(value, modes, prepared.box)
    weights = np.exp(logs - logs.max()) * gaps
    return KernelPosterior(learned, theta, weights / weights.sum())


Nodes = tuple[Float[np.ndarray, "Q P"], Float[np.ndarray, " Q"], Float[np.ndarray, " Q"]]


def _line(value: Any, grid: Float[np.ndarray, " L"], modes: list[float]) -> Nodes:
    """Nodes, values and trapezoid weights; intervals are halved until none holds much of the posterior."""
    nodes = np.unique(np.append(grid, np.clip(modes, grid[0], grid[-1])))
    logs = np.array([value(node) for node in nodes])
    while True:
        heights = np.exp(logs - logs.max())
        gaps = np.diff(nodes)
        shares = gaps * np.maximum(heights[:-1], heights[1:])
        wide = np.flatnonzero((shares > LARGEST_SHARE * shares.sum()) & (gaps > 1e-6))
        if not len(wide):
            break
        added = 0.5 * (nodes[wide] + nodes[wide + 1])
        order = np.argsort(np.append(nodes, added))
        logs = np.append(logs, [value(node) for node in added])[order]
        nodes = np.append(nodes, added)[order]
    ends = 0.5 * (np.append(gaps, 0.0) + np.append(0.0, gaps))
    return nodes[:, None], logs, ends


def _plane(value: Any, modes: tuple[Any, ...], box: Float[np.ndarray, "2 2"]) -> Nodes:
    """A rectangle of nodes around the modes that matter."""
    heights = np.array([value(mode) for mode in modes])
    corners = []
    for mode, height in zip(modes, heights, strict=True):
        if height < heights.max() - TAIL:
            continue
        steps = CURVATURE_STEP * np.eye(2)
        second = np.array([[_mixed(value, mode, a, b) for b in steps] for a in steps])
        curvature = -second / (4.0 * CURVATURE_STEP**2)
        values, vectors = np.linalg.eigh(curvature)
        covariance = (vectors / np.maximum(values, 0.1)) @ vectors.T
        reach = WIDTH * np.sqrt(np.diagonal(covariance))
        corners += [mode - reach, mode + reach]
    low, high = np.clip([np.min(corners, axis=0), np.max(corners, axis=0)], box[:, 0], box[:, 1])
    first, second = (np.linspace(a, b, STEPS) for a, b in zip(low, high, strict=True))
    nodes = np.array([[a, b] for a in first for b in second])
    return nodes, np.array([value(node) for node in nodes]), np.ones(len(nodes))


def _mixed(value: Any, mode: Any, a: Any, b: Any) -> float:
    """The mixed second difference of the log posterior at a mode, in steps a and b."""
    return value(mode + a + b) - value(mode + a - b) - value(mode - a + b) + value(mode - a - b)


def _scales(kernel: Any) -> Any:
    """The lengthscales of a kernel: one, or several."""
    return kernel.lengthscales if hasattr(kernel, "lengthscales") else kernel.lengthscale

"""`log_pseudolikelihood`: what it takes, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import any_traced, float64, is_traced, to_numpy
from kembed.core.ordering import sorted_rows
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.measures import Lebesgue, Measure, as_measure
from kembed.learning.frame import column_frame, isotropic_frame
from kembed.learning.paper.pseudolikelihood import paper_objective


def log_pseudolikelihood(
    x: Any,
    *,
    kernel: Kernel,
    noise: Any,
    landmarks: Any,
    measure: Measure | str | None = "lebesgue",
) -> Any:
    """Evaluate the logarithm of the marginal pseudolikelihood of the data, Eq. (15) of the paper.

    It is -∞ if some row's volume element is 0: a row at a landmark when there are only D of them, or
    landmarks and row in one hyperplane. More landmarks are the remedy.

    Parameters
    ----------
    x : array_like of shape (n, D)
        Observations.
    kernel : Kernel
        The kernel k_θ.
    noise : float
        τ², the likelihood variance: φ_z(x_i) given μ is N(μ(z), τ² I).
    landmarks : array_like of shape (m, D)
        The points z, m ≥ D.
    measure : Measure or {"lebesgue", "data"}
        ν of the prior covariance; `"data"` is a Gaussian placed by the data.

    Returns
    -------
    float
        Computed in NumPy. Where JAX traces an argument, it differentiates the same formula:
        `jax.grad(lambda l: log_pseudolikelihood(x, kernel=Gaussian(l), ...))(0.5)`.

    Raises
    ------
    TypeError
        If `kernel` is no mixture of squared exponentials.
    ValueError
        If columns of x are constant or dependent, or there are fewer landmarks than columns.

    References
    ----------
    Flaxman, Sejdinovic, Cunningham and Filippi (2016). Bayesian learning of kernel embeddings. UAI.

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Gaussian, log_pseudolikelihood
    >>> x = np.random.default_rng(0).normal(size=(50, 1))
    >>> z = np.linspace(-2, 2, 5)
    >>> round(log_pseudolikelihood(x, kernel=Gaussian(0.5), noise=1.0, landmarks=z), 3)
    -238.647

    """
    check_kernel(kernel)
    landmarks = checks.points(landmarks, "landmarks")
    D = landmarks.shape[1]
    if landmarks.shape[0] < D:
        raise ValueError(
            f"landmarks has {landmarks.shape[0]} rows but the data have {D} columns; the volume element "
            f"needs at least as many landmarks as columns, so give {D} or more"
        )
    x = checks.points(x, "x", dimension=D)
    noise = checks.positive(noise, "noise")
    measure = as_measure(measure, "lebesgue", x)
    # These raise here, with the numbers in sight, what a trace could not see.
    kernel.convolved(measure).measure.check_dimension(D)
    kernel.components(D, finite=not isinstance(measure, Lebesgue))
    _refuse_flat(x, landmarks)
    arguments = kernel, noise, x, landmarks, measure
    return _by_jax(*arguments) if any_traced(arguments) else float(paper_objective(*map(to_numpy, arguments)))


@float64("log_pseudolikelihood")
def _by_jax(*arguments: Any) -> Any:
    import jax

    return paper_objective(*jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, dtype=float), arguments))


def _refuse_flat(x: Any, landmarks: Any) -> None:
    """Data in a lower-dimensional flat have volume element 0 and log pseudolikelihood -∞."""
    if is_traced(x) or is_traced(landmarks):
        return
    rows = np.asarray(x)
    cloud = sorted_rows(np.concatenate([np.asarray(landmarks), rows[:: max(1, len(rows) // 10_000)]]))
    spread = np.ptp(cloud, axis=0)
    if (spread == 0.0).any():
        raise ValueError(
            f"column {int(np.argmin(spread))} of x is constant, so the log pseudolikelihood is -infinity; "
            "drop constant columns"
        )
    if not isotropic_frame(column_frame(cloud).into(cloud)).full_rank:
        raise ValueError(
            f"the {rows.shape[1]} columns of x are linearly dependent (duplicated or derived from one "
            "another), so the log pseudolikelihood is -infinity; drop the redundant columns"
        )

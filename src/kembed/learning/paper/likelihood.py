"""`log_pseudolikelihood`: what it takes, checked before JAX is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import is_traced, need_jax
from kembed.kernels.base import Kernel, check_kernel
from kembed.kernels.measures import Lebesgue, Measure, as_measure


def log_pseudolikelihood(
    x: Any,
    *,
    kernel: Kernel,
    noise: Any,
    landmarks: Any,
    measure: Measure | str | None = "lebesgue",
    objective: str = "paper",
) -> Any:
    """Logarithm of the marginal pseudolikelihood of the data, Eq. (15) of the paper.

    Parameters
    ----------
    x
        Observations, (n, D).
    kernel
        The kernel k_θ; its hyperparameters may be traced by JAX.
    noise
        τ², the likelihood variance: φ_z(x_i) given μ is N(μ(z), τ² I).
    landmarks
        The points z, (m, D), with m ≥ D.
    measure
        ν of the prior covariance: `"lebesgue"`, `"data"` (a Gaussian placed by the data) or a measure.
    objective
        `"paper"`: the objective as published (see the theory page for what is wrong with it).

    Examples
    --------
    >>> import numpy as np
    >>> from kembed import Gaussian, log_pseudolikelihood
    >>> x = np.random.default_rng(0).normal(size=(50, 1))
    >>> z = np.linspace(-2, 2, 5)
    >>> round(log_pseudolikelihood(x, kernel=Gaussian(0.5), noise=1.0, landmarks=z), 3)
    -238.647

    It is -∞ if some row's volume element is 0: a row at a landmark when there are only D of them, or
    landmarks and row in one hyperplane. More landmarks are the remedy.

    It is differentiable: `jax.grad(lambda l: log_pseudolikelihood(x, kernel=Gaussian(l), ...))(0.5)`.

    """
    need_jax("log_pseudolikelihood")
    check_kernel(kernel)
    checks.choice(objective, "objective", ("paper",))
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
    from kembed.learning.paper.pseudolikelihood import evaluate

    return evaluate(kernel, noise, x, landmarks, measure)


def _refuse_flat(x: Any, landmarks: Any) -> None:
    """Data in a lower-dimensional flat have volume element 0 and log pseudolikelihood -∞."""
    if is_traced(x) or is_traced(landmarks):
        return
    rows = np.asarray(x)
    cloud = np.concatenate([np.asarray(landmarks), rows[:: max(1, len(rows) // 10_000)]])
    spread = np.ptp(cloud, axis=0)
    if (spread == 0.0).any():
        raise ValueError(
            f"column {int(np.argmin(spread))} of x is constant, so the log pseudolikelihood is -infinity; "
            "drop constant columns"
        )
    # Outliers would drown the rest, so they are left out; what is left of dependent columns is dependent.
    offset = np.abs(cloud - np.median(cloud, axis=0))
    usual = np.median(offset, axis=0)
    inliers = cloud[(offset <= 100.0 * np.where(usual > 0.0, usual, np.inf)).all(axis=1)]
    cloud = inliers if (np.ptp(inliers, axis=0) > 0.0).all() else cloud
    spread = np.ptp(cloud, axis=0)
    singular = np.linalg.svd((cloud - cloud.mean(axis=0)) / spread, compute_uv=False)
    if len(singular) < x.shape[1] or singular[-1] < 1e-10 * singular[0]:
        raise ValueError(
            f"the {x.shape[1]} columns of x are linearly dependent (duplicated or derived from one another), "
            "so the log pseudolikelihood is -infinity; drop the redundant columns"
        )

"""The data of Figure 2: two mixtures of nine Gaussians on a 3 × 3 grid, and their true witness.

P has unit Gaussians; Q has the same centres, and covariances rotated by 45° with eigenvalues (ε, 1).
"""

from __future__ import annotations

import numpy as np

from kembed.experiments.truth import mixture_embedding

SPACING, EPSILON, ROWS, CELLS = 14.0, 2.0, 900, 9
ROTATION = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)


def grid_sample(
    rng: np.random.Generator, rows: int = ROWS, epsilon: float = EPSILON, exact: bool = False
) -> np.ndarray:
    """P and Q pooled, `rows` from each; components drawn at random, or `exact`ly equally many of each."""
    if exact and rows % CELLS:
        raise ValueError(f"rows must be a multiple of {CELLS} for equal components, but {rows} was given")
    places = _centres()
    centres = (
        np.tile(np.repeat(places, rows // CELLS, axis=0), (2, 1))
        if exact
        else SPACING * (rng.integers(0, 3, (2 * rows, 2)) - 1.0)
    )
    noise = rng.normal(size=(2 * rows, 2))
    noise[rows:] = (noise[rows:] * np.sqrt([epsilon, 1.0])) @ ROTATION.T
    return centres + noise


def true_witness(points: np.ndarray, lengthscale: float, epsilon: float = EPSILON) -> np.ndarray:
    """μ_P - μ_Q in closed form."""
    weights, means = np.full(CELLS, 1.0 / CELLS), _centres()
    wide = ROTATION @ np.diag([epsilon, 1.0]) @ ROTATION.T
    p, q = (
        mixture_embedding(points, lengthscale, weights, means, np.tile(one, (CELLS, 1, 1)))
        for one in (np.eye(2), wide)
    )
    return p - q


def _centres() -> np.ndarray:
    side = SPACING * np.array([-1.0, 0.0, 1.0])
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)

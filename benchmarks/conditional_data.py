"""Triples (x, y, given) for the conditional test: null cases with a confounder, and dependent ones.

The kinds were fixed before any of our tests was run on them; the strengths of the dependent cases were set
from 16 draws of causal-learn's KCI a cell, so that it finds about half of them.
"""

import numpy as np

CONFOUNDERS = ("linear", "sine", "multiplicative")
DIMENSIONS = (1, 3, 5)


def null(confounder: str, dimension: int, n: int, rng: np.random.Generator) -> tuple:
    """X and Y depend on Z, and on each other only through it."""
    Z = rng.standard_normal((n, dimension))
    u = Z.sum(axis=1) / np.sqrt(dimension)  # every column counts
    a, b = rng.standard_normal((2, n))
    if confounder == "linear":
        return u + 0.7 * a, u + 0.7 * b, Z
    if confounder == "sine":
        return np.sin(2.0 * u) + 0.5 * a, np.sin(2.0 * u + 0.5) + 0.5 * b, Z
    return u * a, u * b, Z  # both are loud where the other is


# name: (strength at dimension 1, 3, 5)
DEPENDENCES = {
    "post-nonlinear": (0.10, 0.10, 0.10),
    "post-nonlinear, even": (0.15, 0.20, 0.25),
    "interaction": (0.15, 0.20, 0.30),
    "interaction, sine": (0.20, 0.40, 0.60),
}


def dependent(kind: str, dimension: int, n: int, rng: np.random.Generator, strength: float) -> tuple:
    """X and Y depend on Z and, with this strength, on each other given Z."""
    Z = rng.standard_normal((n, dimension))
    u = Z.sum(axis=1) / np.sqrt(dimension)
    a, b = rng.standard_normal((2, n))
    if kind == "post-nonlinear":  # linear in the noise, bent afterwards
        return np.tanh(u + a), (u + strength * a + b) ** 3 / 5.0, Z
    if kind == "post-nonlinear, even":  # no correlation, given Z
        return np.tanh(u + a), np.exp(0.5 * (u + strength * (a**2 - 1.0) + b)), Z
    x = np.sin(u) + a
    if kind == "interaction":  # the sign of the effect is that of Z's first column
        return x, np.cos(u) + strength * Z[:, 0] * a + b, Z
    return x, np.cos(u) + strength * np.sin(2.0 * Z[:, 0]) * a + b, Z


def hidden_correlation(
    beta: float, n: int, rng: np.random.Generator, *, strength: float = 1.0, columns: tuple = (0,)
) -> tuple:
    """Noises with correlation strength·sin(beta z), after He et al. (2025), whose strength is 1.

    `columns` are those of Z that make x, y and the correlation; one: Z has no other, else it has three.
    Strength 0: independent given Z.
    """
    Z = rng.standard_normal((n, len(columns)))
    of_x, of_y, of_r = Z[:, columns].T if len(columns) == 3 else Z[:, [0, 0, 0]].T
    a, b = rng.standard_normal((2, n))
    r = strength * np.sin(beta * of_r)
    return np.cos(of_x) + 0.1 * a, np.exp(of_y) + 0.1 * (r * a + np.sqrt(1.0 - r**2) * b), Z


def circle(n: int, rng: np.random.Generator, *, shared: bool = False) -> tuple:
    """A point on the unit circle seen twice with noise, whose first coordinate is shared or not.

    After the synthetic task of Pogodin et al. (2024).
    """
    Z = rng.standard_normal((n, 2))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    own, other = 0.05 * rng.standard_normal((2, n, 2))
    if shared:
        other[:, 0] = own[:, 0]
    return Z + own, Z + other, Z

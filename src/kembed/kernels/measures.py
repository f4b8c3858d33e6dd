"""The measure ν in the prior covariance r(x, y) = ∫ k(x, u) k(u, y) ν(du)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core import checks
from kembed.core.backend import is_traced, pytree, show


class Measure:
    """A measure on R^D against which kernels are convolved."""

    def check_dimension(self, dimension: int) -> None:
        """Refuse data of another width than the measure has."""


@pytree
@dataclass(frozen=True)
class Lebesgue(Measure):
    """Lebesgue measure, ν(du) = du.

    The prior is then stationary, but r carries units of length^D; see `GaussianMeasure` for one that
    has no units.

    >>> from kembed import Gaussian, Lebesgue
    >>> r = Gaussian(1.0).convolved(Lebesgue())
    >>> round(float(r([0.0], [0.0])), 12)  # sqrt(pi)
    1.772453850906
    """


@pytree
@dataclass(frozen=True, eq=False, init=False, repr=False)
class GaussianMeasure(Measure):
    """A Gaussian measure, ν(du) = mass · N(u; centre, covariance) du.

    `covariance` is a number (isotropic), a vector (diagonal) or a matrix; `centre` a number or a vector.
    The paper's unnormalised exp(-‖u‖²/2η²) du is `GaussianMeasure.unnormalised(eta, dimension)`.

    >>> from kembed import Gaussian, GaussianMeasure
    >>> r = Gaussian(1.0).convolved(GaussianMeasure(centre=0.0, covariance=4.0))
    >>> float(r([0.0], [0.0]))  # (1 + 2 · 4)^(-1/2)
    0.3333333333333333
    """

    centre: Any
    covariance: Any
    mass: Any

    def __init__(self, centre: Any = 0.0, covariance: Any = 1.0, mass: Any = 1.0) -> None:
        centre = checks.numbers(centre, "centre")
        if centre.ndim > 1:
            raise ValueError(f"centre must be a number or a vector, but its shape is {centre.shape}")
        if not is_traced(centre) and not np.isfinite(np.asarray(centre)).all():
            raise ValueError("centre must be finite")
        covariance = checks.numbers(covariance, "covariance")
        if covariance.ndim == 2:
            _check_semidefinite(covariance)
        else:
            covariance = checks.positive(covariance, "covariance", ndim=(0, 1))
        mass = checks.positive(mass, "mass")[()]
        vars(self).update(centre=centre[()], covariance=covariance[()], mass=mass)

    def check_dimension(self, dimension: int) -> None:
        for name in ("centre", "covariance"):
            shape = np.shape(getattr(self, name))
            if shape and shape[0] != dimension:
                raise ValueError(
                    f"the measure's {name} has shape {shape} but the data have {dimension} "
                    f"column{'s' if dimension != 1 else ''}; give a number, or one entry for each column"
                )

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={show(getattr(self, name))}" for name in ("centre", "covariance", "mass"))
        return f"GaussianMeasure({inside})"

    @classmethod
    def unnormalised(cls, eta: Any, dimension: int) -> GaussianMeasure:
        """The paper's ν(du) = exp(-‖u‖²/2η²) du: centre 0, covariance η² I, mass (2πη²)^{D/2}."""
        eta = checks.positive(eta, "eta")
        return cls(0.0, eta**2, (2.0 * np.pi * eta**2) ** (dimension / 2.0))

    @classmethod
    def of(cls, x: Any) -> GaussianMeasure:
        """The probability measure placed by data: its mean and covariance.

        It has no units, and it moves with the data under shifts, rotations and changes of scale. A
        single row, or constant columns, give a measure concentrated there, which is still a valid prior.
        """
        x = np.asarray(checks.points(x, "x"))
        with np.errstate(over="ignore", invalid="ignore"):
            centre = x[0] + (x - x[0]).mean(axis=0)
            centred = x - centre
            covariance = centred.T @ centred / len(x)
        if not np.isfinite(covariance).all():
            raise ValueError(
                "x has columns whose squares are beyond all floats, so that they have no covariance; "
                "divide them by a constant"
            )
        return cls(centre, covariance, 1.0)


@pytree
@dataclass(frozen=True, eq=False, init=False, repr=False)
class EmpiricalMeasure(Measure):
    """Point masses, ν = Σ_u w_u δ_u, so that r(x, y) = Σ_u w_u k(x, u) k(u, y) for any kernel whatever.

    `points` is (U, D), `weights` a vector of positive numbers, 1/U each unless given. With ν half of either
    sample, the difference of their embeddings is ∫ k(·, u) h(u) ν(du) with |h| ≤ 2: `witness` uses that.

    >>> from kembed import EmpiricalMeasure, Gaussian
    >>> r = Gaussian(1.0).convolved(EmpiricalMeasure([[0.0], [1.0]]))
    >>> round(float(r([0.0], [0.0])), 4)  # (1 + exp(-1)) / 2
    0.6839
    """

    points: Any
    weights: Any

    def __init__(self, points: Any, weights: Any = None) -> None:
        points = checks.points(points, "points")
        if weights is None:
            weights = np.full(len(points), 1.0 / len(points))
        weights = checks.positive(weights, "weights", ndim=(1,))
        vars(self).update(points=points, weights=checks.vector(weights, "weights", len(points)))

    def check_dimension(self, dimension: int) -> None:

        if self.points.shape[1] != dimension:
            raise ValueError(
                f"the measure's points have {self.points.shape[1]} columns but the data have {dimension}; "
                "give points of the same width"
            )

    def __repr__(self) -> str:
        return f"EmpiricalMeasure({len(self.points)} points in {self.points.shape[1]} dimensions)"


def as_measure(measure: Any, default: str, x: Any) -> Measure:
    """A measure, or what a word says: "lebesgue", or "data" for `GaussianMeasure.of(x)`; None: `default`."""
    word = default if measure is None else measure
    if isinstance(word, Measure):
        return word
    if not isinstance(word, str):
        raise TypeError(
            "measure must be Lebesgue(), GaussianMeasure(...), EmpiricalMeasure(...), 'lebesgue' or 'data', "
            f"but {measure!r} was given"
        )
    checks.choice(word, "measure", ("lebesgue", "data"))
    return Lebesgue() if word == "lebesgue" else GaussianMeasure.of(x)


def _check_semidefinite(covariance: Any) -> None:
    """A data covariance may be singular (n < D, constant columns); it may not be indefinite."""
    if covariance.shape[0] != covariance.shape[1]:
        raise ValueError(f"covariance must be square, but its shape is {tuple(covariance.shape)}")
    if is_traced(covariance):
        return
    covariance = np.asarray(covariance)
    if not np.isfinite(covariance).all():
        raise ValueError("covariance must be finite")
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=0.0):
        raise ValueError("covariance is not symmetric; use (C + C.T) / 2")
    eigenvalues = np.linalg.eigvalsh(covariance)
    if eigenvalues[0] < -1e-10 * max(eigenvalues[-1], 0.0) or eigenvalues[-1] < 0.0:
        raise ValueError(f"covariance has a negative eigenvalue ({eigenvalues[0]:.3g})")

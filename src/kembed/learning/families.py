"""Kernel families as vectors of free numbers, and back: what an optimiser or a sampler walks in.

A family is a kernel class and the shape of its lengthscale. In the frame of the data (`frame.py`) its vector
holds logarithms of lengthscales (and entries of a Cholesky factor), log(α - E/2), logits of weights;
`in_units` returns the kernel in the user's units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Array, Float, namespace
from kembed.kernels import stationary
from kembed.kernels.stationary import Gaussian, MultiScale, RationalQuadratic, Stationary
from kembed.learning.frame import Frame, column_frame, isotropic_frame

MATERN = (stationary.Matern12, stationary.Matern32, stationary.Matern52)
FAMILIES = (Gaussian, RationalQuadratic, *MATERN, MultiScale)
# Ratios of the widest to the narrowest scale from which a multi-scale kernel starts.
RATIOS = (4.0, 16.0)
# α beyond D/2, where the kernel has an integral: below, tails of no moment; above, it is a Gaussian.
ALPHA_BOUNDS = (0.25, 30.0)
LOGIT_BOUND = 4.0  # a scale of less weight than exp(-4) is none
ENTRY_BOUND = 5.0  # of the unit lower triangle, in a frame where the data are white
ROOM = 10.0  # axes of a full covariance may be so much longer or shorter than the scanned scales


@dataclass(frozen=True)
class Family:
    """A kernel class with one lengthscale ("isotropic"), one a column ("ard") or a matrix ("full")."""

    cls: type
    shape: str
    scales: int = 1  # how many scales a MultiScale kernel has

    @property
    def name(self) -> str:
        """What people call it."""
        words = {"isotropic": "", "ard": " ARD", "full": " full covariance"}
        count = f"({self.scales})" if self.cls is MultiScale else ""
        return f"{self.cls.__name__}{count}{words[self.shape]}"

    def frame(self, x: Float[np.ndarray, "n D"]) -> Frame:
        """The frame in which the family's kernels have simple parameters."""
        if self.shape == "ard":
            return column_frame(x)
        return isotropic_frame(x, whiten=self.shape == "full")

    def size(self, E: int) -> int:
        """How many numbers a kernel on E axes has."""
        if self.cls is MultiScale:
            return 2 * self.scales - 1
        return {"isotropic": 1, "ard": E, "full": E * (E + 1) // 2}[self.shape] + self._extra

    @property
    def _extra(self) -> int:
        return int(self.cls is RationalQuadratic)

    def starts(self, scale: float, E: int) -> list[Float[np.ndarray, " P"]]:
        """Vectors from which to look at one scale of the data."""
        log_scale = np.log(scale)
        if self.cls is MultiScale:
            flat = np.zeros(self.scales - 1)
            spread = [np.linspace(0.0, np.log(ratio), self.scales) for ratio in RATIOS]
            return [np.concatenate([log_scale + steps, flat]) for steps in spread]
        if self.shape == "full":
            scales = np.diag(np.full(E, log_scale))[np.tril_indices(E)]
        else:
            scales = np.full(E if self.shape == "ard" else 1, log_scale)
        return [np.append(scales, np.zeros(self._extra))]

    def bounds(self, low: float, high: float, E: int) -> list[tuple[float, float]]:
        """The box the optimiser stays in, for lengthscales scanned between low and high."""
        a, b = np.log(low), np.log(high)
        wide = (a - np.log(ROOM), b + np.log(ROOM))
        if self.cls is MultiScale:
            return [(a, b)] * self.scales + [(-LOGIT_BOUND, LOGIT_BOUND)] * (self.scales - 1)
        extra = [tuple(np.log(ALPHA_BOUNDS))] * self._extra
        if self.shape == "isotropic":
            return [(a, b), *extra]
        if self.shape == "ard":
            return [*[(a, b)] * E, *extra]
        i, j = np.tril_indices(E)
        return [*(wide if r == c else (-ENTRY_BOUND, ENTRY_BOUND) for r, c in zip(i, j, strict=True)), *extra]

    def kernel(self, theta: Float[Array, " P"], E: int) -> Stationary:
        """The kernel in the frame."""
        xp = namespace(theta)
        if self.cls is MultiScale:
            J = self.scales
            logits = xp.concatenate([xp.zeros(1), theta[J : 2 * J - 1]])
            weights = xp.exp(logits - logits.max())
            return unchecked(MultiScale, lengthscales=xp.exp(theta[:J]), weights=weights / weights.sum())
        values: dict[str, Any]
        if self.shape == "full":
            values = {"lengthscale": None, "cholesky": _lower(theta, E)}
        else:
            values = {"lengthscale": xp.exp(theta[:E] if self.shape == "ard" else theta[0]), "cholesky": None}
        if self._extra:
            values["alpha"] = 0.5 * E + xp.exp(theta[self.size(E) - 1])
        return unchecked(self.cls, **values)

    def in_units(self, kernel: Any, axes: Any, scale: Any) -> Stationary:
        """The kernel of the frame as a kernel in the user's units."""
        if isinstance(kernel, MultiScale):
            return unchecked(MultiScale, lengthscales=kernel.lengthscales * scale[0], weights=kernel.weights)
        values = dict(vars(kernel))
        if self.shape == "full":
            half = axes @ (scale[:, None] * kernel.cholesky)
            values["cholesky"] = namespace(half).linalg.cholesky(half @ half.T)
        else:
            values["lengthscale"] = kernel.lengthscale * (scale if self.shape == "ard" else scale[0])
        return unchecked(self.cls, **values)


def _lower(theta: Any, E: int) -> Any:
    """A lower triangular matrix with positive diagonal d: diag(d) · (unit lower triangular)."""
    place = np.zeros((E, E), int)
    place[np.tril_indices(E)] = np.arange(E * (E + 1) // 2)
    diagonal = namespace(theta).exp(theta[np.diagonal(place)])
    return diagonal[:, None] * (np.eye(E) + theta[place] * np.tri(E, k=-1))


def unchecked(cls: type, **values: Any) -> Any:
    """A kernel or measure without validation: the values may be traced."""
    made: Any = object.__new__(cls)
    vars(made).update(values)
    return made


def family_of(kernel: Any, D: int) -> Family:
    """The family of a kernel given as a pattern; its numbers do not matter, their shape does."""
    if not isinstance(kernel, FAMILIES):
        names = ", ".join(cls.__name__ for cls in FAMILIES)
        raise TypeError(
            f"kernel must be one of {names} or 'auto', but {kernel!r} was given; "
            "sums and products of kernels cannot be learned (for a sum of scales use MultiScale)"
        )
    if isinstance(kernel, MultiScale):
        return Family(MultiScale, "isotropic", len(kernel.lengthscales))
    kernel.check_dimension(D)
    shape = "full" if kernel.cholesky is not None else "ard" if np.ndim(kernel.lengthscale) else "isotropic"
    return Family(type(kernel), shape if D > 1 else "isotropic")

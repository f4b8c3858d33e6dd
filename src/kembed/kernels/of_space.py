"""The Gaussian of a space's distance, as a kernel on the user's own columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kembed.data.space import Space
from kembed.kernels.base import Kernel
from kembed.kernels.composite import Product
from kembed.kernels.discrete import Delta, OnColumns
from kembed.kernels.stationary import Gaussian

if TYPE_CHECKING:
    from jaxtyping import Float


def space_kernel(space: Space, lengthscale: float | Float[np.ndarray, " E"]) -> Kernel:
    """exp(-d²/2ℓ²) with the distance d of `Space`, on columns as the user gave them.

    With a lengthscale for each numeric column, discrete ones take the geometric mean.
    """
    numeric, discrete = columns_by_kind(space)
    if not discrete:
        scales = lengthscale * space.spread
        return Gaussian(float(scales[0]) if len(scales) == 1 else scales)
    typical = float(np.exp(np.mean(np.log(lengthscale))))
    delta = OnColumns(Delta(space.penalty / typical), discrete)
    if not numeric:
        return delta
    return Product(OnColumns(Gaussian(lengthscale * space.spread[list(numeric)]), numeric), delta)


def columns_by_kind(space: Space) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The places of the numeric columns, and of the discrete ones."""
    kinds = (~space.categorical, space.categorical)
    numeric, discrete = (tuple(int(c) for c in np.flatnonzero(kind)) for kind in kinds)
    return numeric, discrete

"""A frame that moves with the data: learning happens there, so units, shifts and rotations cancel.

y = (x - centre) · axes / scale. The centre is the geometric median, the axes are those of the spatial-sign
covariance, the scale is the median distance from the centre: all of them move with the data under shifts,
rotations and changes of unit, and none minds a few wild rows. Rows come out in a canonical order, so that
whatever is computed from them is a function of the unordered sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Float
from kembed.core.linalg import principal_axes, robust_spread
from kembed.core.ordering import distinct_rows

FLAT = 1e-10  # directions in which the data spread less than this share of their widest are rounding


@dataclass(frozen=True, eq=False)
class Frame:
    """centre, axes (D, E) and scale (E,): x = centre + (y · scale) axesᵀ."""

    centre: Float[np.ndarray, " D"]
    axes: Float[np.ndarray, "D E"]
    scale: Float[np.ndarray, " E"]

    def into(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n E"]:
        """Points in the coordinates of the frame."""
        return (x - self.centre) @ self.axes / self.scale

    def back(self, y: Float[np.ndarray, "n E"]) -> Float[np.ndarray, "n D"]:
        """Points in the coordinates of the user."""
        return self.centre + (y * self.scale) @ self.axes.T

    @property
    def full_rank(self) -> bool:
        """Whether the data fill all D directions."""
        return self.axes.shape[0] == self.axes.shape[1]

    @property
    def log_unit(self) -> float:
        """log of the volume of the frame's unit cube: a density in x is that in y over it."""
        return float(np.log(self.scale).sum())


def isotropic_frame(x: Float[np.ndarray, "n D"], *, whiten: bool = False) -> Frame:
    """The frame for kernels that turn with the data: one scale, or with `whiten` one for each axis.

    `x` is in lexicographic order. Constant and duplicated columns leave fewer axes than columns.
    """
    columns = np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    size = float(columns.max()) or float(np.ptp(x, axis=0).max()) or 1.0
    start = np.median(x, axis=0)
    u = (x - start) / size
    centre = _geometric_median(u)
    u = u - centre
    distinct = distinct_rows(x)  # where most rows are tied they say nothing of the scale
    radius = np.sqrt((u**2).sum(axis=1))
    unit = u[radius > 0.0] / radius[radius > 0.0, None]
    lengths, axes = principal_axes(unit)
    along = u @ axes
    kept = lengths > FLAT * np.sqrt(len(unit))
    # A direction is flat if even its widest point is nothing against the usual radius.
    kept &= np.abs(along).max(axis=0) > FLAT * float(np.median(radius[distinct]))
    axes, along = axes[:, kept], along[:, kept]
    skew = ((unit @ axes) ** 3).sum(axis=0)
    axes = axes * np.where(skew < 0.0, -1.0, 1.0)
    scales = np.full(axes.shape[1], size * float(np.median(radius[distinct])))
    if whiten:
        scales = size * robust_spread(along[distinct])
    return Frame(start + size * centre, axes, scales)


def column_frame(x: Float[np.ndarray, "n D"]) -> Frame:
    """The frame for kernels with a lengthscale for each column: the columns are the axes."""
    centre = np.median(x, axis=0)
    return Frame(centre, np.eye(x.shape[1]), robust_spread(x[distinct_rows(x)] - centre))


def _geometric_median(u: Float[np.ndarray, "n D"], steps: int = 30) -> Float[np.ndarray, " D"]:
    """Weiszfeld's iteration, smoothed near the rows so that rounding cannot push it about.

    It need not converge, only turn with the data.
    """
    centre = u.mean(axis=0)
    for _ in range(steps):
        squared = ((u - centre) ** 2).sum(axis=1)
        weight = 1.0 / np.sqrt(squared + 0.01 * float(np.median(squared)) + 1e-300)
        centre = weight @ u / weight.sum()
    return centre

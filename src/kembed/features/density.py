"""Local density: how close a row's neighbours are, for clumps, noise and gaps in many columns."""

import numpy as np

from kembed.core.backend import Float
from kembed.features.members import FeatureMember, Group, Named, OfSample, separate
from kembed.features.neighbours import nearest_rows
from kembed.features.polynomials import rank_polynomials
from kembed.features.rows import Rows, Sample

NEIGHBOUR = 6
CUTS = (1, 2, 4)
DIGITS = 9  # distances that agree to so many digits are tied


def fit(sample: Sample) -> Group | None:
    """Polynomials of the rank of the distance to the sixth neighbour; else to the nearest landmark."""
    if len(sample.names) < 2:
        return None
    features = (
        OfSample(rank_polynomials(neighbour_distance(sample), CUTS[-1])) if sample.complete else closeness
    )
    kernels = tuple(Named(f"local density, degree {cut}") for cut in CUTS)
    return separate("density", (FeatureMember(features, CUTS[-1], CUTS),), kernels)


def closeness(rows: Rows) -> Float[np.ndarray, "b degree"]:
    """Polynomials of the rank of the distance to the nearest landmark."""
    return rows.basis.nearest_scale(-2.0 * rows.near[1])


def neighbour_distance(sample: Sample) -> Float[np.ndarray, " N"]:
    """The squared distance of every row from its sixth neighbour; equal rows have equal ones."""
    points, count = sample.space.coordinates, min(NEIGHBOUR, sample.size - 1)
    far = np.empty(sample.size)
    for own, _, distances in nearest_rows(points, count):  # a row is at distance 0 from itself, which counts
        far[own] = np.partition(distances, count, axis=1)[:, count]
    _, first, copy = np.unique(sample.space.rows, axis=0, return_index=True, return_inverse=True)
    far = np.maximum(far[first][copy.ravel()], 0.0)
    digits = 10.0 ** (DIGITS - np.ceil(np.log10(np.where(far > 0.0, far, 1.0))))
    return np.where(far > 0.0, np.round(far * digits) / digits, 0.0)

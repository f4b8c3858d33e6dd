"""Local density: how close a row's neighbours are, for clumps, noise and gaps in many columns."""

import numpy as np

from kembed.core.backend import Float
from kembed.permutation.blocks import Blocks
from kembed.testing.members.fresh import Fresh, Streamed
from kembed.testing.members.group import Group, Named, alone
from kembed.testing.members.neighbours import MOST_ROWS, distance_strips, smallest
from kembed.testing.members.polynomials import rank_polynomials
from kembed.testing.members.rows import Rows

NEIGHBOUR = 6
CUTS = (1, 2, 4)
DIGITS = 9  # distances that agree to so many digits are tied


def fit(rows: Rows) -> Group | None:
    """Polynomials of the rank of the distance to the sixth neighbour; else to the nearest landmark."""
    if len(rows.names) < 2 or (rows.complete and rows.size > MOST_ROWS):
        return None
    member: Blocks | Streamed = Streamed(nearness, CUTS[-1], CUTS)
    if rows.complete:
        columns = rank_polynomials(neighbour_distance(rows), CUTS[-1])
        member = Blocks(columns, CUTS[-1], CUTS, centred=True)
    return alone("density", (member,), tuple(Named(f"local density, degree {cut}") for cut in CUTS))


def nearness(rows: Fresh) -> Float[np.ndarray, "b degree"]:
    """Polynomials of the rank of the distance to the nearest landmark."""
    return rows.fitted.nearest(-2.0 * rows.nearness)


def neighbour_distance(rows: Rows) -> Float[np.ndarray, " N"]:
    """The squared distance of every row from its sixth neighbour; equal rows have equal ones."""
    points, count = rows.space.coordinates, min(NEIGHBOUR, rows.size - 1)
    # A row is at distance 0 from itself, which counts.
    far = np.concatenate([smallest(strip, count + 1)[:, count] for _, strip in distance_strips(points)])
    _, first, copy = np.unique(rows.space.rows, axis=0, return_index=True, return_inverse=True)
    far = np.maximum(far[first][copy.ravel()], 0.0)
    digits = 10.0 ** (DIGITS - np.ceil(np.log10(np.where(far > 0.0, far, 1.0))))
    return np.where(far > 0.0, np.round(far * digits) / digits, 0.0)

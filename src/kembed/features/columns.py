"""Single columns: polynomials of their ranks, for a change in few of many."""

from dataclasses import dataclass

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features.members import FeatureMember, Group, KernelPair, Named, PairGroup, of_columns
from kembed.features.polynomials import DEGREE
from kembed.features.rows import Rows, Sample

CUTS = (2, 4, DEGREE)  # spread, shape, detail; the first degree alone is in `means`
# Independence: which of the degrees up to 1, 2 and 4 are paired. Beyond so many pairs of columns no degree
# above 2 is tried, and beyond the most none at all: each is work for every resample.
PAIRS = ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (2, 2))
FEW, MOST = 1_024, 16_384
NAMES = ("mean and spread of ranks", "shape of ranks", "detail of ranks")


def fit(sample: Sample) -> Group:
    """A member for each cut, the maximum over the columns."""
    member = FeatureMember(all_degrees, DEGREE, CUTS)
    kernels = tuple(of_columns(title, name) for name in sample.names for title in NAMES)
    return Group("columns", (member,), kernels, np.tile(np.arange(len(CUTS)), len(sample.names)), whole=True)


def all_degrees(rows: Rows) -> Float[np.ndarray, "N P"]:
    """The features of every column, one after the other."""
    return rows.degrees


@dataclass(frozen=True)
class Degrees:
    """The first few polynomials of every column, one column after the other."""

    degree: int

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b P"]:
        """Of these rows."""
        return np.hstack([every[:, : self.degree] for every in rows.polynomials])


def side(degree: int, cuts: tuple[int, ...]) -> FeatureMember:
    """A side of an independence test: polynomials of every column."""
    return FeatureMember(Degrees(degree), degree, cuts)


def fit_pairs(left: Sample, right: Sample) -> PairGroup | None:
    """A member for each pair of degrees, the maximum over pairs of columns."""
    few = len(left.names) * len(right.names) <= FEW
    degrees = (1, 2, 4) if few else (1, 2)
    pairs = tuple((a, b) for a, b in PAIRS if max(a, b) < len(degrees))
    found = column_pairs(left, right, degrees[-1], pairs)
    return None if found is None else PairGroup("columns", (found[0],), *found[1:], whole=True)


def column_pairs(
    left: Sample, right: Sample, degree: int, pairs: tuple[tuple[int, int], ...]
) -> tuple[KernelPair, tuple[Named, ...], Int[np.ndarray, " J"]] | None:
    """All columns of one side with all of the other, their names, and their families: one a pair of cuts.

    None where they are too many.
    """
    if len(left.names) * len(right.names) > MOST:
        return None
    cuts = tuple(cut for cut in (1, 2, 4) if cut <= degree)
    first, second = side(degree, cuts), side(degree, cuts)
    columns = [(a, b) for a in left.names for b in right.names]
    names = tuple(
        Named("dependence of ranks", (f"{a} (degree {cuts[j]})", f"{b} (degree {cuts[k]})"), (a, b))
        for a, b in columns
        for j, k in pairs
    )
    return KernelPair(first, second, pairs), names, np.tile(np.arange(len(pairs)), len(columns))

"""Triples of columns: products of three rank scores or level indicators, for three-way interactions.

Parity of three flags, or a slope that is reversed in one segment, changes no single column and no pair.
"""

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.features.members import FeatureMember, Group, Named
from kembed.features.rows import Rows, Sample

LEVELS = 3  # indicators of a category that are taken, the most frequent levels first
MOST = 500  # products: those of 15 numeric columns; beyond, the group is left out


@dataclass(frozen=True)
class Triples:
    """Products of three scores, each a (column, degree) of the columns' polynomials or indicators."""

    places: tuple[tuple[tuple[int, int], tuple[int, int], tuple[int, int]], ...]

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b P"]:
        """Of these rows."""
        scores = rows.polynomials
        factors = [
            np.column_stack([scores[column][:, degree] for column, degree in side])
            for side in zip(*self.places, strict=True)
        ]
        return factors[0] * factors[1] * factors[2]


def fit(sample: Sample) -> Group | None:
    """A kernel for every product, all of them one member; nothing where columns are few or very many."""
    kinds = zip(sample.polynomials, sample.categorical, strict=True)
    # Columns of zeros stand for levels that are not there.
    counts = [min(LEVELS, int(every.any(axis=0).sum())) if discrete else 1 for every, discrete in kinds]
    places: list[Any] = []
    for columns in combinations(range(len(counts)), 3):
        for degrees in product(*(range(counts[column]) for column in columns)):
            places.append(tuple(zip(columns, degrees, strict=True)))
            if len(places) > MOST:
                return None
    if not places:
        return None
    names = ([sample.names[column] for column, _ in place] for place in places)
    kernels = tuple(Named("three-way dependence", tuple(each)) for each in names)
    member = FeatureMember(Triples(tuple(places)), 1, (1,))
    return Group("triples", (member,), kernels, np.zeros(len(kernels), dtype=int))

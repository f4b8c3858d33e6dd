"""Pairs of columns: products of their polynomials, for dependence that is new, broken or bent."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features import columns
from kembed.features.members import FeatureMember, Group, KernelPair, Named, PairGroup, of_columns
from kembed.features.polynomials import DEGREE
from kembed.features.rows import Rows, Sample
from kembed.features.segments import Segments

BOTH_DEGREES = 16  # columns up to which second degrees are tried; beyond, they would be too many families
# All pairs of 64 columns; of more the pairs whose ranks are most correlated in the pooled rows.
MOST = 2_016
HELD = 2**20  # correlations that are held at once: 10,000 columns have fifty million pairs


def fit(sample: Sample) -> Group | None:
    """The correlation of ranks of every pair, and for few columns the products of second degrees as well."""
    D = len(sample.names)
    if D < 2:
        return None
    a, b = _chosen(np.column_stack([every[:, 0] for every in sample.polynomials]))
    width = 4 if D <= BOTH_DEGREES else 1
    titles = ("correlation of ranks", "dependence of ranks")[: 2 if width == 4 else 1]
    pairs = [(sample.names[i], sample.names[j]) for i, j in zip(a, b, strict=True)]
    kernels = tuple(of_columns(title, *pair) for pair in pairs for title in titles)
    products = Products(tuple(a.tolist()), tuple(b.tolist()), width)
    member = FeatureMember(products, width, (1, 4)[: len(titles)])
    return Group("pairs", (member,), kernels, np.tile(np.arange(len(titles)), len(pairs)))


@dataclass(frozen=True)
class Products:
    """Of pairs of columns the product of their first polynomials; with width 4 of the second too."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    width: int

    def __call__(self, rows: Rows) -> Float[np.ndarray, "b P"]:
        """Of these rows, pair by pair."""
        first, second = (np.column_stack([every[:, k] for every in rows.polynomials]) for k in (0, 1))
        a, b = list(self.left), list(self.right)
        if self.width == 1:
            return first[:, a] * first[:, b]
        left, right = (first[:, a], second[:, a]), (first[:, b], second[:, b])
        products = [one * other for one in left for other in right]
        return np.stack(products, axis=2).reshape(len(first), 4 * len(a))

    def sums(self, rows: Rows, segments: Segments) -> Float[np.ndarray, "k P"]:
        """Sums by bin, from those of the products of all columns where most of them are asked for."""
        D = rows.values.shape[1]
        if segments.few or len(self.left) < D * (D - 1) // 2:
            return segments.sums(self(rows))
        degrees = 2 if self.width == 4 else 1
        found = segments.products(np.hstack([rows.degrees[:, k::DEGREE] for k in range(degrees)]))
        a, b = (np.array(side)[:, None] for side in (self.left, self.right))
        own, other = (
            D * np.array(part) for part in (((0, 0, 1, 1), (0, 1, 0, 1)) if degrees == 2 else ((0,), (0,)))
        )
        return found[:, a + own, b + other].reshape(len(found), -1)


def _chosen(first: Float[np.ndarray, "N D"]) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """The pairs of columns to look at."""
    D = first.shape[1]
    if D * (D - 1) // 2 <= MOST:
        return np.triu_indices(D, k=1)
    kept = np.empty((3, 0))  # correlation and both columns; of equal correlations the first pairs
    step = max(1, HELD // D)
    for start in range(0, D, step):
        correlation = np.abs(first[:, start : start + step].T @ first).round(9)
        a, b = np.triu_indices(len(correlation), k=start + 1, m=D)
        found = np.array([correlation[a, b], a + start, b])
        if kept.shape[1] == MOST:
            found = found[:, found[0] > kept[0].min()]
        kept = np.hstack([kept, found])
        kept = kept[:, np.sort(np.argsort(-kept[0], kind="stable")[:MOST])]
    return kept[1].astype(int), kept[2].astype(int)


def fit_pairs(left: Sample, right: Sample) -> PairGroup | None:
    """The product of two columns of one side with a column of the other, either way round."""
    found: list[KernelPair] = []
    kernels: list[Named] = []
    families: list[int] = []
    for side, other, swapped in ((left, right, False), (right, left, True)):
        D = len(side.names)
        if D < 2 or D * (D - 1) // 2 * len(other.names) > MOST:
            continue
        a, b = _chosen(np.column_stack([every[:, 0] for every in side.polynomials]))
        doubles = FeatureMember(Products(tuple(a.tolist()), tuple(b.tolist()), 1), 1, (1,))
        singles = columns.side(2, (2,))
        names = tuple(f"{side.names[i]} times {side.names[j]}" for i, j in zip(a, b, strict=True))
        one, two = (other.names, names) if swapped else (names, other.names)
        kernels += [of_columns("dependence of ranks", *both) for both in product(one, two)]
        families += [len(found)] * (len(one) * len(two))
        found.append(KernelPair(singles, doubles) if swapped else KernelPair(doubles, singles))
    return PairGroup("pairs", tuple(found), tuple(kernels), np.array(families)) if found else None

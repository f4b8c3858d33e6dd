"""Designs: what may be exchanged under the null hypothesis, and the contrasts that are then compared.

A contrast weighs bins, and w'Kw is the statistic of a kernel. Every design draws the contrast of the data
first, then those of resamples that are as likely under the null hypothesis: labels of bins exchanged within
classes, labels of several samples, signs of pairs, multipliers of time series. A new design is a class with
`draw`; all members of a test serve it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import comb, factorial, inf, prod
from typing import NamedTuple

import numpy as np

from kembed.core.backend import Float, Int

Columns = Float[np.ndarray, "S C"]
Labels = Float[np.ndarray, " S"]
Codes = Int[np.ndarray, " S"]
# More labels than this, two or more of either kind, have more arrangements than anybody waits for.
FEW_LABELS = 24


class Draws(NamedTuple):
    """Contrasts of the data (first column) and of every resample: a statistic is Σ_t factor_t w_t'K w_t."""

    terms: tuple[tuple[float, Columns], ...]
    enumerated: bool = False  # whether these are all arrangements


@dataclass(frozen=True, eq=False)
class TwoSamples:
    """Labels of bins are exchanged within classes (-1: never); means are compared within strata."""

    labels: Labels  # 1 for bins of the one sample, 0 for those of the other
    classes: Codes
    strata: Codes

    def draw(self, weight: Float[np.ndarray, " S"], n_resamples: int, rng: np.random.Generator) -> Draws:
        """Differences of means within strata."""
        labels, enumerated = exchange_labels(self.labels, self.classes, n_resamples, rng)
        return Draws(((1.0, contrasts(labels, weight, self.strata)),), enumerated)


@dataclass(frozen=True, eq=False)
class SeveralSamples:
    """Labels of several samples are exchanged: the sum over samples of MMD² against the others."""

    labels: Codes  # the sample of every bin
    classes: Codes
    strata: Codes

    def draw(self, weight: Float[np.ndarray, " S"], n_resamples: int, rng: np.random.Generator) -> Draws:
        """Of every sample the difference of its mean from that of the others within strata, times √(c/V).

        c is that of `contrasts` and V all weight: n (N - n) / N² in one stratum.
        """
        codes = np.tile(self.labels[:, None], (1, n_resamples + 1))
        for members in _groups(self.classes):
            codes[members, 1:] = rng.permuted(np.tile(self.labels[members], (n_resamples, 1)), axis=1).T
        terms = []
        for sample in range(int(self.labels.max()) + 1):
            found, precision = _centred((codes == sample).astype(float), weight, self.strata)
            scale = np.sqrt(precision * weight.sum())  # 0 of a sample that shares no stratum
            terms.append((1.0, np.divide(found, scale, out=np.zeros_like(found), where=scale > 0.0)))
        return Draws(tuple(terms))


@dataclass(frozen=True, eq=False)
class SignedPairs:
    """Sides of pairs are swapped: bins of one side, then those of the other in the same order."""

    bins: int  # of one side
    pairs: int

    def draw(self, weight: Float[np.ndarray, " S"], n_resamples: int, rng: np.random.Generator) -> Draws:
        """Mean differences of pairs."""
        signs, enumerated = draw_signs(np.ones(self.bins), n_resamples, rng)
        return Draws(((1.0, np.concatenate([signs, -signs]) / self.pairs),), enumerated)


@dataclass(frozen=True, eq=False)
class Given:
    """Contrasts that were drawn elsewhere, such as multipliers of the wild bootstrap."""

    columns: Columns

    def draw(self, weight: Float[np.ndarray, " S"], n_resamples: int, rng: np.random.Generator) -> Draws:
        """These."""
        return Draws(((1.0, self.columns),))


Design = TwoSamples | SeveralSamples | SignedPairs | Given


@dataclass(frozen=True, eq=False)
class Reordered:
    """Bins in order of time are put into any other order (class -1: a bin keeps its place).

    One draw serves every split: `split` has the contrasts of the bins before a position with the others.
    """

    classes: Codes

    def draw(self, n_resamples: int, rng: np.random.Generator) -> tuple[Int[np.ndarray, "S C"], bool]:
        """The place of every bin, that of the data first; all orders where they are few, and whether."""
        movable = np.flatnonzero(self.classes >= 0)
        every = factorial(len(movable)) if len(movable) <= FEW_LABELS else inf
        if every <= n_resamples + 1:
            moved = np.array(list(permutations(movable.tolist()))).T  # in order, so the data first
        else:
            moved = np.tile(movable[:, None], (1, n_resamples + 1))
            moved[:, 1:] = rng.permuted(moved[:, 1:], axis=0)
        places = np.tile(np.arange(len(self.classes))[:, None], (1, moved.shape[1]))
        places[movable] = moved
        return places, every <= n_resamples + 1


def split(places: Int[np.ndarray, "S C"], weight: Float[np.ndarray, " S"], position: int) -> Draws:
    """The contrasts of the bins before a position with the others, in the orders that were drawn."""
    before = (places < position).astype(float)
    return Draws(((1.0, contrasts(before, weight, np.zeros(len(weight), dtype=int))),))


def contrasts(labels: Columns, weights: Float[np.ndarray, " S"], strata: Codes) -> Columns:
    """Factors w of bins of weights v for which Σ w_b S_b is the mean difference within strata.

    S_b are sums of weighted features. w_b = (a_b - p_s) / c with a_b the label, p_s the first sample's share
    of the weight of the stratum s of b, and c = Σ_s V_s p_s (1 - p_s). Strata are weighted by the precision
    of their difference; with one stratum this is the difference of two means. A stratum of one sample has
    factors of 0.

    >>> contrasts(np.array([[1.0], [1.0], [0.0]]), np.ones(3), np.zeros(3, int)).ravel().round(6).tolist()
    [0.5, 0.5, -1.0]
    """
    found, precision = _centred(labels, weights, strata)
    found /= precision
    return found


def _centred(
    labels: Columns, weights: Float[np.ndarray, " S"], strata: Codes
) -> tuple[Columns, Float[np.ndarray, " C"]]:
    """a_b - p_s and c of `contrasts`."""
    order = np.argsort(strata, kind="stable")
    starts = np.flatnonzero(np.diff(strata[order], prepend=strata[order[0]] - 1))
    stratum = np.empty(len(strata), dtype=int)
    stratum[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    totals = np.add.reduceat(weights[order], starts)[:, None]
    firsts = np.add.reduceat((weights[:, None] * labels)[order], starts, axis=0)
    shares = firsts / np.where(totals > 0.0, totals, 1.0)
    return labels - shares[stratum], (firsts * (1.0 - shares)).sum(axis=0)


def exchange_labels(
    labels: Labels, classes: Codes, n_resamples: int, rng: np.random.Generator
) -> tuple[Columns, bool]:
    """Labels of the data and exchanged within classes; all arrangements where they are few, and whether."""
    groups = _groups(classes)
    if arrangements(labels, classes) <= n_resamples + 1:
        return _data_first(_every_arrangement(labels, groups), labels), True
    columns = np.tile(labels[:, None], (1, n_resamples + 1))
    for members in groups:
        columns[members, 1:] = rng.permuted(np.tile(labels[members], (n_resamples, 1)), axis=1).T
    return columns, False


def _groups(classes: Codes) -> list[Codes]:
    """The bins of every class that is exchanged."""
    return [np.flatnonzero(classes == number) for number in np.unique(classes[classes >= 0])]


def arrangements(labels: Labels, classes: Codes) -> float:
    """How many ways there are to exchange labels within classes."""
    kept = classes >= 0
    _, places = np.unique(classes[kept], return_inverse=True)
    sizes, firsts = np.bincount(places), np.bincount(places, labels[kept])
    return prod(
        float(comb(int(n), int(k))) if n <= FEW_LABELS or min(k, n - k) <= 1 else inf
        for n, k in zip(sizes.tolist(), firsts.tolist(), strict=True)
    )


def _every_arrangement(labels: Labels, groups: Sequence[Codes]) -> Columns:
    """All labelings that keep the number of ones within every group."""
    choices = [combinations(members.tolist(), int(labels[members].sum())) for members in groups]
    found = []
    for chosen in product(*choices):
        column = labels.copy()
        for members in groups:
            column[members] = 0.0
        column[[row for rows in chosen for row in rows]] = 1.0
        found.append(column)
    return np.array(found).T


def draw_signs(signs: Labels, n_resamples: int, rng: np.random.Generator) -> tuple[Columns, bool]:
    """Signs of pairs, those of the data first: all ways where they are few, and whether."""
    n = len(signs)
    if n > FEW_LABELS or 2**n > n_resamples + 1:
        return np.column_stack([signs, rng.choice([-1.0, 1.0], (n, n_resamples))]), False
    return _data_first(np.array(list(product((1.0, -1.0), repeat=n))).T, signs), True


def _data_first(columns: Columns, own: Labels) -> Columns:
    return columns[:, np.argsort((columns != own[:, None]).any(axis=0), kind="stable")]

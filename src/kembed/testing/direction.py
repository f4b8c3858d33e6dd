"""A direction learned from one half of every batch, and tested on the other: for weak but steady changes.

The means of some features over the training halves of recent batches, less those of the past, say what to
look for. Given all training halves the test halves are exchangeable, so the test in that direction is exact,
and its p-values are uniform given later ones by the argument of `permutation/reservoir.py`.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from kembed.core.backend import Float, Int
from kembed.features.columns import all_degrees
from kembed.features.pairs import Products
from kembed.permutation.designs import Draws
from kembed.permutation.reservoir import Binned, Bins, Sum
from kembed.testing.specification import Specification

DEGREE = 4  # of the polynomials of a column of numbers; of categories all levels
RECENT = 0.9  # of a batch's weight is left after each further batch: the last ten count for two thirds
SHARPNESS = 8  # power of a mean difference in the direction: the largest ones count


class Coordinates(NamedTuple):
    """Features of single columns and pairs in a table of bins, of variance about 1."""

    places: Int[np.ndarray, " q"]  # the number of rows first
    subject: Int[np.ndarray, " q"]  # the column or pair that each looks at; -1 of the number of rows


class Training(NamedTuple):
    """Sums over training halves: of recent batches with falling weights, and of all before and with them."""

    recent: Sum
    past: Sum

    def with_batch(self, batch: Sum) -> Self:
        """The same after one more batch."""
        return type(self)(RECENT * self.recent + batch, self.past + batch)


def coordinates(specification: Specification, subjects: dict[tuple[str, ...], int]) -> Coordinates | None:
    """The features in which a direction is learned; None where there are none of single columns."""
    ensemble, discrete = specification.fitted.ensemble, specification.schema.discrete
    places, subject = [0], [-1]
    start, kernel, known = {}, 0, 1
    for each in ensemble.maps:
        start[each] = known
        known += len(each.steps)
    for member in ensemble.members:
        features = getattr(member.map, "features", None)
        width = len(member.map.steps) if member.linear is None else member.linear.shape[1]
        blocks = width // member.width
        if features is all_degrees or isinstance(features, Products):
            for block in range(blocks):
                names = ensemble.kernels[kernel + block * len(member.cuts)].columns
                numbers = features is all_degrees and not discrete[block]
                first = start[member.map] + block * member.width
                found = range(first, first + (DEGREE if numbers else member.width))
                places += found
                subject += [subjects[names]] * len(found)
        kernel += blocks * len(member.cuts)
    return Coordinates(np.array(places), np.array(subject)) if len(places) > 1 else None


def directions(
    training: list[Training], subject: Int[np.ndarray, " q"], count: int
) -> Float[np.ndarray, "q count+1"]:
    """What is looked for: in all coordinates, and in those of each subject.

    Differences of means within strata are weighted by their precision.
    """
    total, precision = np.zeros(len(subject)), 0.0
    for each in training:
        rows, before = each.recent[0], each.past[0]
        if rows > 0.0 and before > 0.0:
            weight = rows * before / (rows + before)
            total += weight * (each.recent / rows - each.past / before)
            precision += weight
    found = np.zeros((len(subject), count + 1))
    total[0] = 0.0  # the number of rows
    size, largest = np.abs(total), np.zeros(count)
    np.maximum.at(largest, subject[1:], size[1:])
    power = np.sign(total) * size**SHARPNESS
    if size.max() > 0.0:
        found[:, 0] = power / size.max() ** SHARPNESS
    own = np.arange(1, len(subject))
    scale = largest[subject[1:]]
    found[own, subject[1:] + 1] = power[1:] / np.where(scale > 0.0, scale, 1.0) ** SHARPNESS
    return found


def split(batch: Binned, places: Int[np.ndarray, " q"]) -> tuple[Sum, Binned]:
    """The sum over half of the rows, for training, with those in no bin; and the bins of the others."""
    wanted = 0.5 * batch.rows - batch.rest[0]
    half = int(np.searchsorted(np.cumsum(batch.bins[:, 0]), wanted, side="right"))
    training = batch.bins[:half, places].sum(axis=0) + batch.rest[places]
    return training, Binned(batch.bins[half:, places], np.zeros(len(places)))


def projected(table: Bins, draws: Draws, found: Float[np.ndarray, "q Q"]) -> Float[np.ndarray, "C Q"]:
    """Differences of means along every direction, for the data and every resample."""
    scores: Any = table @ found
    return sum(factor * (W.T @ scores) for factor, W in draws.terms)

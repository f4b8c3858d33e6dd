"""The two-sample test of any number of rows: one pass for a sample, one for sums by bin, and no row in memory.

Features of a row are fitted on a sample of the pool that holds as many rows of every bin, so that no exchange
of bins changes it. Sums of features over bins are all that the statistics need; whole bins change sides.
The level is exact, as that of the test on single rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kembed.core.backend import Float
from kembed.core.ordering import comes_before, sorted_rows
from kembed.data.space import Space, make_space
from kembed.engines.source import Block, Source, Stacked
from kembed.permutation.bins import Bins, make_bins, sums_by_bin
from kembed.permutation.blocks import Blocks
from kembed.permutation.fusion import Values
from kembed.permutation.labelings import draw_labelings
from kembed.testing.members import streamed_members
from kembed.testing.members.fresh import Fitted, Fresh, Streamed, fit
from kembed.testing.members.rows import read_scales
from kembed.testing.outcome import TestOutcome, resampled_outcome
from kembed.testing.procedure import Procedure

SAMPLE = 4_096  # rows that features are fitted on, about
CHUNK = 2_048  # rows whose features are held at once: what a cache holds
LANDMARKS = 256


@dataclass(frozen=True, eq=False)
class Sums:
    """Of every bin (what is left over last): how much its rows weigh, and the sums of their features."""

    weight: Float[np.ndarray, " S+1"]
    features: list[Float[np.ndarray, "S+1 p"]]

    def plus(self, other: "Sums") -> "Sums":
        """Of both."""
        both = zip(self.features, other.features, strict=True)
        return Sums(self.weight + other.weight, [a + b for a, b in both])


def take_sample(block: Block, bins: Bins, each: int) -> Stacked:
    """The rows of a block that are of the sample."""
    kept = bins.sampled(block.first, len(block.values), each) & block.whole
    return Stacked((block.values[kept],))


def sum_features(block: Block, bins: Bins, fitted: Fitted, features: tuple[Any, ...]) -> Sums:
    """Sums by bin over the rows of a block, chunk by chunk; rows with missing values count nothing."""
    total: Sums | None = None
    own, _ = bins.of(block.first, len(block.values))
    whole = block.whole
    for start in range(0, len(block.values), CHUNK):
        part = slice(start, start + CHUNK)
        kept = whole[part]
        rows, where = Fresh(fitted, block.values[part][kept]), own[part][kept]
        weight = np.bincount(where, minlength=bins.count + 1).astype(float)
        found = Sums(weight, [sums_by_bin(feature(rows), where, bins.count) for feature in features])
        total = found if total is None else total.plus(found)
    assert total is not None
    return total


def binned_test(sources: tuple[Source, Source], kernel: Any, procedure: Procedure) -> TestOutcome:
    """The permutation test of two sources of the same columns."""
    rng = procedure.rng
    x, y = sources
    both = make_bins((x.size, y.size), int(rng.integers(2**62)))
    space = sample_space(sources, both)
    rows = read_scales(space, names=x.schema.names, points=LANDMARKS)
    choice, members = streamed_members(rows)
    fitted = fit(rows)
    features = tuple(dict.fromkeys(member.features for member in members))
    sums = [
        source.map_sum(sum_features, bins, fitted, features)
        for source, bins in zip(sources, both, strict=True)
    ]
    labels = np.concatenate([np.ones(both[0].count), np.zeros(both[1].count)])
    labelings, enumerated = draw_labelings(labels, procedure.n_resamples, rng)
    W = labelings.written_out
    values = []
    entry = []
    for k, feature in enumerate(features):
        d = difference(sums, k, W)
        usual = Fresh(fitted, space.values)
        F = feature(usual)
        for member in members:
            if member.features == feature:
                values.append((members.index(member), *member_statistics(member, d, F)))
    values.sort(key=lambda each: each[0])
    table = Values(np.vstack([v for _, v, _ in values]).T, np.concatenate([e for _, _, e in values]))
    return resampled_outcome("MMD²", (x.size, y.size), choice, table, "permutation", enumerated)


def sample_space(sources: tuple[Source, Source], both: tuple[Bins, Bins]) -> Space:
    total = sum(bins.count for bins in both)
    each = max(1, min(both[0].rows, -(-SAMPLE // (total * both[0].unit))))
    parts = [source.map_sum(take_sample, bins, each).table for source, bins in zip(sources, both, strict=True)]
    return make_space(sorted_rows(np.concatenate(parts)), sources[0].schema.discrete)


def difference(sums: list[Sums], k: int, W: Float[np.ndarray, "S C"]) -> Float[np.ndarray, "p C"]:
    """The difference of the mean features under every labeling of the bins."""
    movable = np.concatenate([each.features[k][:-1] for each in sums])
    weight = np.concatenate([each.weight[:-1] for each in sums])
    left = [(each.features[k][-1], each.weight[-1]) for each in sums]
    first = movable.T @ W + left[0][0][:, None]
    size = weight @ W + left[0][1]
    total = movable.sum(axis=0) + left[0][0] + left[1][0]
    everything = weight.sum() + left[0][1] + left[1][1]
    return first / size - (total[:, None] - first) / (everything - size)


def member_statistics(member: Streamed, d: Float[np.ndarray, "p C"], F: Any) -> tuple[np.ndarray, np.ndarray]:
    """|Lᵀd|² of every kernel of a member, (J, C), and the size of an entry of each."""
    L = member.linear
    blocks = Blocks(np.zeros((0, (d if L is None else L.T).shape[0])), member.width, member.cuts)
    projected = d if L is None else L.T @ d
    G = F if L is None else F @ L
    square = np.square(G) if not hasattr(G, "power") else G.power(2)
    entry = blocks.added(np.asarray(square.mean(axis=0)).reshape(-1, 1))[:, 0]
    return blocks.added(np.square(projected)), entry

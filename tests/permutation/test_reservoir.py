"""Reservoirs: nothing is lost, bins change sides, and what later tests see says nothing of earlier labels."""

import numpy as np
import pytest

from kembed.permutation.designs import contrasts
from kembed.permutation.reservoir import MOVABLE, Binned, joined, nothing, pooled


def bins(rng, count, rows=2.0, width=4):
    """Bins of so many rows."""
    return np.column_stack([np.full(count, rows), rng.integers(-9, 10, (count, width - 1)).astype(float)])


def total(*parts):
    """The sum over all rows."""
    return sum(part.bins.sum(axis=0) + part.rest for part in parts)


@pytest.mark.parametrize("count", [10, 300])
def test_rows_and_sums_are_conserved(rng, count):
    past, batch = (Binned(bins(rng, count), bins(rng, 1)[0]) for _ in range(2))
    found = past.absorbing(batch, rng)
    assert len(found.bins) == min(2 * count, MOVABLE)
    assert total(found) == pytest.approx(total(past, batch))
    assert found.rows == past.rows + batch.rows
    every = np.concatenate([past.bins, batch.bins]).tolist()
    assert all(one in every for one in found.bins.tolist())
    assert total(found.coarser(2)) == pytest.approx(total(found))


def test_what_stays_is_drawn_from_past_and_batch_alike(rng):
    """Of 256 + 64 bins 256 stay: of the batch 51.2 on average, of 200 draws with an s.e. of .2."""
    past, batch = (Binned(np.full((n, 1), value), np.zeros(1)) for n, value in ((256, 0.0), (64, 1.0)))
    counts = [past.absorbing(batch, rng).bins.sum() for _ in range(200)]
    assert abs(np.mean(counts) - 51.2) < 4.0 * 2.86 / np.sqrt(200)
    first = [past.absorbing(batch, rng).bins[0, 0] for _ in range(400)]
    assert abs(np.mean(first) - 0.2) < 4.0 * 0.4 / 20.0


@pytest.mark.parametrize("size", [1, 4])
def test_a_block_of_batches_holds_all_their_rows(rng, size):
    batches = [Binned(bins(rng, count), bins(rng, 1)[0]) for count in (5, 0, 7, 9)]
    block = joined(batches).coarser(size)
    assert total(block) == pytest.approx(total(*batches))
    assert set(block.bins[:, 0]) == {2.0 * size}
    assert len(block.bins) == 21 // size


def test_the_contrast_is_the_difference_of_means(rng):
    """Of all rows of a block and all of its past, whatever can be exchanged."""
    past, block = (Binned(bins(rng, n), bins(rng, 1, 5.0)[0]) for n in (12, 6))
    table, design = pooled([(past, block)])
    W = contrasts(design.labels[:, None], table[:, 0], design.strata)
    means = [total(part)[1:] / total(part)[0] for part in (block, past)]
    assert (W.T @ table)[0, 1:] == pytest.approx(means[0] - means[1])
    assert np.bincount(design.classes + 1).tolist() == [2, 18]  # two rests keep their side


def test_strata_are_compared_within(rng):
    """Two strata with levels far apart: the difference is that within strata."""
    pairs, level = [], np.array([0.0, 100.0, 100.0, 100.0])
    for k in range(2):
        past, block = (Binned(bins(rng, n) + 2.0 * k * level, np.zeros(4)) for n in (12, 4))
        pairs.append((past, block))
    alone = pairs[0][0], nothing(4)
    table, design = pooled([*pairs, alone])
    assert sorted(set(design.strata)) == [0, 1]
    W = contrasts(design.labels[:, None], table[:, 0], design.strata)
    within = [total(block)[1:] / total(block)[0] - total(past)[1:] / total(past)[0] for past, block in pairs]
    assert (W.T @ table)[0, 1:] == pytest.approx(np.mean(within, axis=0))
    assert pooled([alone]) is None


def test_groups_of_consecutive_bins():
    found = Binned(np.arange(14.0).reshape(7, 2), np.ones(2)).coarser(3)
    assert found.bins.tolist() == [[6.0, 9.0], [24.0, 27.0]]
    assert found.rest.tolist() == [13.0, 14.0]

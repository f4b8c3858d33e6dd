"""Bins of rows: equal, blind to what the rows hold, and a sample that no exchange of bins changes."""

import numpy as np
import pytest

from kembed.permutation.bins import Bins, make_bins, make_cluster_bins, sampled


@pytest.mark.parametrize("sizes", [(107, 61), (5000, 5700), (40_000, 900), (33, 64), (70_000, 70_001)])
@pytest.mark.parametrize("unit", [1, 7])
def test_bins_are_equal_and_nothing_is_lost(sizes, unit):
    both = make_bins(sizes, 9, unit=unit)
    assert both[0].rows == both[1].rows
    for bins, size in zip(both, sizes, strict=True):
        own, place = bins.of(0, size)
        counts = np.bincount(own, minlength=bins.count)
        np.testing.assert_array_equal(bins.classes, [0] * bins.movable + [-1])
        np.testing.assert_array_equal(bins.strata, np.zeros(bins.count))
        assert (counts[:-1] == bins.rows * unit).all()
        assert counts.sum() == size
        assert (place[own < bins.movable] < bins.rows).all()
        assert bins.movable >= min(size // unit, 32)
        for first in range(0, size, 1000):  # by blocks as all at once
            np.testing.assert_array_equal(bins.of(first, 10)[0][: size - first], own[first : first + 10])


@pytest.mark.parametrize(
    ("sizes", "rows", "counts"),
    [
        ((5000, 5700), 41, (121, 139)),  # 10,700 // 256
        ((40_000, 900), 28, (512, 32)),  # 900 // 32, and no more than 512 of the larger
        ((33, 64), 1, (33, 64)),
        ((6400, 6400, 6400), 75, (85, 85, 85)),
        ((100, 10), 5, (20, 2)),  # of 8 bins: 10 // 2, since one bin alone cannot change sides
    ],
)
def test_how_many_bins_by_hand(sizes, rows, counts):
    made = make_bins(sizes, 0, **({"bins": 8} if sizes == (100, 10) else {}))
    assert [bins.rows for bins in made] == [rows] * len(sizes)
    assert tuple(bins.movable for bins in made) == counts


def test_how_many_bins_of_clusters_by_hand():
    """300 + 400 clusters of one row and 64 + 80 of two: 844 in all, so bins of 844 // 256 = 3 clusters."""
    first = np.concatenate([np.arange(300), np.repeat(np.arange(300, 364), 2)])
    second = np.concatenate([np.arange(400), np.repeat(np.arange(400, 480), 2)])
    alone = tuple(np.zeros(len(each), dtype=int) for each in (first, second))
    both = make_cluster_bins((first, second), alone, 3)
    for bins, names, moved in zip(both, (first, second), (121, 160), strict=True):  # 364 // 3, 480 // 3
        np.testing.assert_array_equal(bins.classes, [0] * moved + [-1])
        held = [set(names[bins.own == number].tolist()) for number in range(bins.count)]
        assert [len(each) for each in held] == [3] * moved + [len(set(names.tolist())) - 3 * moved]
        assert set(bins.place[bins.own == 0].tolist()) == {0, 1, 2}  # every place of a bin is taken


def test_the_smaller_sample_says_how_many_clusters_a_bin_has():
    for sides, bins, counts in (
        ((64, 162), 100, (32, 81)),  # 226 // 100
        ((64, 162), 256, (64, 162)),  # 226 // 256 is none, so 1
        ((10, 100), 8, (2, 20)),
        ((64, 1000), 64, (8, 125)),  # 64 // 8
    ):
        clusters = tuple(np.repeat(np.arange(size), 2) for size in sides)
        alone = tuple(np.zeros(len(each), dtype=int) for each in clusters)
        made = make_cluster_bins(clusters, alone, 3, bins=bins)
        assert tuple(each.movable for each in made) == counts


def test_clusters_below_zero_and_what_fills_no_bin_stay():
    clusters, strata = np.array([-1, -1, 0, 0, 1, 2, 3]), np.array([0, 0, 0, 0, 0, 1, 1])
    for bins in make_cluster_bins((clusters, clusters), (strata, strata), 0):
        np.testing.assert_array_equal(bins.classes, [0, 0, -1, 1, 1, -1])
        np.testing.assert_array_equal(bins.strata, [0, 0, 0, 1, 1, 1])
        assert (bins.own[:2] == 2).all()  # those below 0


def test_rows_of_a_unit_are_in_one_bin():
    alone, _ = Bins(9, 1, 9, 2).of(0, 9)  # a row is a unit, where nothing else is said
    assert len(set(alone.tolist())) == 9
    bins, _ = make_bins((1000, 1000), 2, unit=8)
    own, _ = bins.of(0, 1000)
    for start in range(0, 1000, 8):
        assert len(set(own[start : start + 8])) == 1


def test_exchanged_bins_leave_the_sample_as_it_was(rng):
    """The property that makes the test exact: move whole bins across, and the same rows are drawn."""
    x, y = rng.normal(size=(1300, 2)), rng.normal(size=(900, 2))
    both = make_bins((len(x), len(y)), 4)

    def drawn(x, y):
        rows = [s[sampled(b, 0, len(s), 2)] for s, b in zip((x, y), both, strict=True)]
        pooled = np.concatenate(rows)
        return pooled[np.lexsort(pooled.T)]

    before = drawn(x, y)
    places = [bins.of(0, bins.size) for bins in both]
    moved_x, moved_y = x.copy(), y.copy()
    for a, b in ((0, 5), (17, 3)):
        rows = [np.flatnonzero(own == number) for (own, _), number in zip(places, (a, b), strict=True)]
        rows = [r[np.argsort(place[r])] for r, (_, place) in zip(rows, places, strict=True)]
        moved_x[rows[0]], moved_y[rows[1]] = y[rows[1]], x[rows[0]]
    assert (moved_x != x).any()
    np.testing.assert_array_equal(drawn(moved_x, moved_y), before)
    assert len(before) == 2 * sum(bins.movable for bins in both)


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize("each", [1, 2, 50])
def test_the_sample_by_blocks_and_at_once(unit, each):
    """Of named units too."""
    names = np.repeat(np.arange(700), 2), np.repeat(np.arange(600), 2)
    alone = np.zeros(1400, dtype=int), np.zeros(1200, dtype=int)
    for bins in (*make_bins((1400, 1200), 8, unit=unit), *make_cluster_bins(names, alone, 8)):
        size = len(bins.own) if hasattr(bins, "own") else bins.size
        own, place = bins.of(0, size)
        expected = [bool(number < bins.movable and at < each) for number, at in zip(own, place, strict=True)]
        assert any(expected)
        for block in (size, 100):
            parts = [sampled(bins, k, min(block, size - k), each) for k in range(0, size, block)]
            np.testing.assert_array_equal(np.concatenate(parts), expected)


@pytest.mark.parametrize("unit", [1, 7])
@pytest.mark.parametrize("each", [1, 3])
def test_the_sample_of_a_block_is_that_of_all_rows(unit, each):
    for bins in make_bins((10_000, 3_001), 5, unit=unit, bins=20):
        own, place = bins.of(0, bins.size)
        expected = (own < bins.movable) & (place < each)
        np.testing.assert_array_equal(sampled(bins, 0, bins.size, each), expected)
        np.testing.assert_array_equal(sampled(bins, 1_000, 1_500, each), expected[1_000:2_500])
        np.testing.assert_array_equal(sampled(bins, 1_000, 5, each), expected[1_000:1_005])
        assert expected.sum() == bins.movable * each * unit


def test_cluster_bins_hold_every_row_once():
    rng = np.random.default_rng(0)
    clusters = tuple(rng.integers(400, size=n) for n in (3_000, 1_000))
    strata = tuple(each % 3 for each in clusters)
    both = make_cluster_bins(clusters, strata, 1, bins=64)
    for bins, own, groups in zip(both, clusters, strata, strict=True):
        place, _ = bins.of(0, len(own))
        assert place.min() >= 0
        assert place.max() < bins.count
        for cluster in np.unique(own):
            assert len(np.unique(place[own == cluster])) == 1
        assert (bins.strata[place] == groups).all()
        moved = bins.classes >= 0
        assert (bins.classes[moved] == bins.strata[moved]).all()
        sizes = [len(np.unique(own[place == k])) for k in np.flatnonzero(moved)]
        assert len(set(sizes)) <= 3  # one size for each stratum

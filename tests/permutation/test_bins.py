"""Bins of rows: equal, blind to what the rows hold, and a sample that no exchange of bins changes."""

import numpy as np
import pytest

from kembed.permutation.bins import (
    Bins,
    bin_indicators,
    dense,
    make_bins,
    make_named_bins,
    sampled,
)
from kembed.permutation.labelings import draw_units, draw_within


@pytest.mark.parametrize("sizes", [(107, 61), (5000, 5700), (40_000, 900), (33, 64), (70_000, 70_001)])
@pytest.mark.parametrize("unit", [1, 7])
def test_bins_are_equal_and_nothing_is_lost(sizes, unit):
    both = make_bins(sizes, 9, unit=unit)
    assert both[0].rows == both[1].rows
    for bins, size in zip(both, sizes, strict=True):
        own, place = bins.of(0, size)
        counts = np.bincount(own, minlength=bins.count + 1)
        assert (counts[:-1] == bins.rows * unit).all()
        assert counts.sum() == size
        assert (place[own < bins.count] < bins.rows).all()
        assert bins.count >= min(size // unit, 32)
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
    assert tuple(bins.count for bins in made) == counts
    assert [len(bins.classes) for bins in made] == list(counts)


def test_how_many_bins_of_named_units_by_hand():
    """300 + 400 units of one row, 64 + 80 of two, 5 of three in one sample alone, which keep their side."""
    first = np.concatenate(
        [np.arange(300), np.repeat(np.arange(300, 364), 2), np.repeat(np.arange(500, 505), 3)]
    )
    second = np.concatenate([np.arange(400), np.repeat(np.arange(400, 480), 2)])
    both = make_named_bins((first, second), 3)  # 849 units: bins of 849 // 256 = 3 and 64 // 32 = 2 of them
    for bins, ones, twos in zip(both, (100, 133), (32, 40), strict=True):
        np.testing.assert_array_equal(bins.classes, np.repeat([0, 1], [ones, twos]))
        assert (bins.count, bins.rows) == (ones + twos, 3)
        held = np.bincount(bins.own, minlength=bins.count + 1)
        np.testing.assert_array_equal(held[:-1], np.repeat([3, 4], [ones, twos]))
        for number, each in ((0, 3), (ones, 2)):  # every place of a bin is taken
            assert set(bins.place[bins.own == number]) == set(range(each))
    assert (both[0].own[-15:] == both[0].count).all()


def test_the_smaller_sample_says_how_large_bins_of_named_units_are():
    """64 and 160 units of two rows, and two of three rows in one sample alone."""
    units = (
        np.repeat(np.arange(64), 2),
        np.concatenate([np.repeat(np.arange(160), 2), np.repeat([200, 201], 3)]),
    )
    for sides in (units, units[::-1]):
        made = dict(zip(map(len, sides), make_named_bins(sides, 3, bins=100), strict=True))
        assert [made[size].count for size in (128, 326)] == [32, 80]  # 226 // 100
        assert (made[326].own[-6:] == 80).all()  # a size that one sample alone has keeps its side
        made = dict(zip(map(len, sides), make_named_bins(sides, 3), strict=True))
        assert [made[size].count for size in (128, 326)] == [64, 160]  # 226 // 256 is none, so 1
    few = make_named_bins((np.arange(10), np.arange(100)), 0, bins=8)
    assert [bins.count for bins in few] == [2, 20]
    halves = make_named_bins((np.arange(64), np.arange(1000)), 0, bins=64)
    assert [bins.count for bins in halves] == [8, 125]  # 64 // 8
    for bins in make_named_bins((np.arange(3), np.repeat(np.arange(3), 2)), 0):  # no size in common
        assert (bins.count, bins.rows, set(bins.own.tolist())) == (0, 1, {0})


def test_rows_of_a_unit_are_in_one_bin():
    alone, _ = Bins(9, 1, 9, 2).of(0, 9)  # a row is a unit, where nothing else is said
    assert len(set(alone.tolist())) == 9
    bins, _ = make_bins((1000, 1000), 2, unit=8)
    own, _ = bins.of(0, 1000)
    for start in range(0, 1000, 8):
        assert len(set(own[start : start + 8])) == 1


def test_units_with_names_stay_together_and_change_with_their_like(rng):
    units = rng.integers(0, 40, 200), rng.integers(0, 50, 150)
    both = make_named_bins(units, 1)
    for names, bins in zip(units, both, strict=True):
        own, _ = bins.of(0, len(names))
        for name in np.unique(names):
            assert len(set(own[names == name])) == 1
        sizes = [set() for _ in range(len(np.unique(np.concatenate([b.classes for b in both]))))]
        for number, kind in enumerate(bins.classes):
            sizes[kind].add(int((own == number).sum()))
        assert all(len(each) <= 1 for each in sizes)  # bins of a class have as many rows
    for kind in np.unique(both[0].classes):
        a, b = ((each.own == np.flatnonzero(each.classes == kind)[0]).sum() for each in both)
        assert a == b


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
    assert len(before) == 2 * sum(bins.count for bins in both)


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize("each", [1, 2, 50])
def test_the_sample_by_blocks_and_at_once(unit, each):
    """Few rows of many are found from their places, many from their numbers; named units too."""
    names = np.repeat(np.arange(700), 2), np.repeat(np.arange(600), 2)
    for bins in (*make_bins((1400, 1200), 8, unit=unit), *make_named_bins(names, 8)):
        size = len(bins.own) if hasattr(bins, "own") else bins.size
        own, place = bins.of(0, size)
        expected = [bool(number < bins.count and at < each) for number, at in zip(own, place, strict=True)]
        assert any(expected)
        for block in (size, 100):
            parts = [sampled(bins, k, min(block, size - k), each) for k in range(0, size, block)]
            np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_a_block_may_end_before_any_row_of_the_sample():
    bins, _ = make_bins((1400, 1200), 8, bins=20)
    numbers = bins.first_rows(1)
    late = [int(number) for number in numbers if number > bins.count]
    assert late
    for count in late:
        assert sampled(bins, 0, count, 1).sum() == (numbers < count).sum()


def test_sums_by_bin_against_a_loop(rng):
    features, own, weight = rng.normal(size=(30, 3)), rng.integers(0, 5, 30), rng.uniform(1, 2, 30)
    found = bin_indicators(own, 4, weight) @ features
    for number in range(5):
        expected = sum((weight[i] * features[i] for i in range(30) if own[i] == number), np.zeros(3))
        np.testing.assert_allclose(found[number], expected, atol=1e-12)
    assert found.shape == (5, 3)
    plain = bin_indicators(own, 4)
    np.testing.assert_allclose(dense(plain) @ features, plain @ features, atol=1e-12)
    assert dense(features) is features


def test_labels_move_within_classes_alone(rng):
    labels, classes = np.array([1, 1, 0, 0, 1, 0, 0.0]), np.array([0, 0, 0, 0, 1, 1, 1])
    labelings, enumerated = draw_within(labels, classes, 500, rng)
    W = labelings.written_out
    assert not enumerated
    np.testing.assert_array_equal(W[:, 0], labels)
    assert (W[:4].sum(axis=0) == 2).all()
    assert (W[4:].sum(axis=0) == 1).all()
    assert len(np.unique(W, axis=1).T) == 6 * 3  # all there are


def test_rows_of_units_change_sides_together(rng):
    units = np.array([0, 0, 1, 2, 2, 3, 4, 4])
    labels = np.array([1, 1, 1, 0, 0, 0, 0, 0.0])
    W = draw_units(labels, units, 300, rng)[0].written_out
    np.testing.assert_array_equal(W[:, 0], labels)
    for unit in range(5):
        assert (np.ptp(W[units == unit], axis=0) == 0).all()
    assert (W.sum(axis=0) == 3).all()  # units of two rows change with units of two
    assert len(np.unique(W, axis=1).T) == 3 * 2


@pytest.mark.parametrize("unit", [1, 7])
@pytest.mark.parametrize("each", [1, 3])
def test_the_sample_is_found_by_places_or_by_numbers(unit, each):
    for bins in make_bins((10_000, 3_001), 5, unit=unit, bins=20):
        own, place = bins.of(0, bins.size)
        expected = (own < bins.count) & (place < each)
        np.testing.assert_array_equal(sampled(bins, 0, bins.size, each), expected)
        np.testing.assert_array_equal(sampled(bins, 1_000, 1_500, each), expected[1_000:2_500])
        np.testing.assert_array_equal(sampled(bins, 1_000, 5, each), expected[1_000:1_005])
        assert expected.sum() == bins.count * each * unit

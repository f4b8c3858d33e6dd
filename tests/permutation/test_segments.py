"""Sums by bin: against loops, for few and many rows a bin, dense and sparse."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from kembed.permutation.segments import make_segments


def by_loops(own, weight, table):
    rows = list(zip(weight, table, own, strict=True))
    return np.array([sum(w * row for w, row, k in rows if k == which) for which in sorted(set(own.tolist()))])


@pytest.mark.parametrize("bins", [1, 3, 90])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_loops(bins, weighted, rng):
    own = np.sort(rng.integers(0, bins, 200)) * 2  # some bins have no rows
    weight = rng.random(200) if weighted else np.ones(200)
    table = rng.normal(size=(200, 4))
    segments = make_segments(own, weight if weighted else None)
    np.testing.assert_array_equal(segments.bins, np.unique(own))
    np.testing.assert_allclose(segments.sums(table), by_loops(own, weight, table), atol=1e-12)
    by_column = np.asfortranarray(table)
    np.testing.assert_allclose(segments.sums(by_column), by_loops(own, weight, table), atol=1e-12)
    marks = csr_array((rng.random((200, 7)) < 0.3).astype(float))
    np.testing.assert_allclose(segments.sums(marks), by_loops(own, weight, marks.toarray()), atol=1e-12)
    products = np.stack([np.outer(row, row) for row in table])
    np.testing.assert_allclose(segments.products(table), by_loops(own, weight, products), atol=1e-12)


@pytest.mark.parametrize("rows", [1, 7, 40, 1_000])
def test_strips_are_whole_bins_in_order(rows, rng):
    own = np.sort(rng.integers(0, 20, 200))
    table, segments = rng.normal(size=(200, 3)), make_segments(own, rng.random(200))
    found, seen = np.zeros((len(segments.bins), 3)), []
    for bins, part, few in segments.strips(rows):
        np.testing.assert_array_equal(few.bins, segments.bins[bins])
        found[bins] = few.sums(table[part])
        seen += list(range(200))[part]
        assert len(few.bins) == 1 or few.edges[-2] <= rows
    assert seen == list(range(200))
    np.testing.assert_allclose(found, segments.sums(table), atol=1e-12)
    assert not list(make_segments(own[:0]).strips(rows))


def test_places_in_a_table_of_all_bins():
    total = np.zeros(6)
    for own in ([1, 1, 2], [0, 4, 4], [3], []):  # with a gap and without
        segments = make_segments(np.array(own, dtype=int))
        total[segments.rows] += segments.sums(np.ones((len(own), 1)))[:, 0]
    np.testing.assert_array_equal(total, [1, 2, 1, 1, 2, 0])


def test_no_rows_at_all():
    segments = make_segments(np.zeros(0, dtype=int))
    assert segments.sums(np.zeros((0, 3))).shape == (0, 3)
    assert segments.sums(csr_array((0, 5))).shape == (0, 5)
    assert segments.products(np.zeros((0, 2))).shape == (0, 2, 2)

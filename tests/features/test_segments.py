"""Sums over bins: against loops, for few and many rows a bin, dense and sparse."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from kembed.features.segments import make_segments


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
    expected = by_loops(own, weight, table)
    np.testing.assert_allclose(segments.sums(table), expected, atol=1e-12)
    np.testing.assert_allclose(segments.sums(np.asfortranarray(table)), expected, atol=1e-12)
    marks = csr_array((rng.random((200, 7)) < 0.3).astype(float))
    np.testing.assert_allclose(segments.sums(marks), by_loops(own, weight, marks.toarray()), atol=1e-12)
    products = np.stack([np.outer(row, row) for row in table])
    np.testing.assert_allclose(segments.products(table), by_loops(own, weight, products), atol=1e-12)
    codes = rng.integers(0, 5, 200)
    np.testing.assert_allclose(segments.counts(codes, 6), by_loops(own, weight, np.eye(6)[codes]), atol=1e-12)


def test_no_rows_at_all():
    segments = make_segments(np.zeros(0, dtype=int))
    assert segments.sums(np.zeros((0, 3))).shape == (0, 3)
    assert segments.sums(csr_array((0, 5))).shape == (0, 5)
    assert segments.products(np.zeros((0, 2))).shape == (0, 2, 2)

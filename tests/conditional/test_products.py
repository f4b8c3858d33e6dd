"""Products of features and their sums under random signs: against loops, by hand, and their laws."""

import numpy as np
import pytest
from tests import reference

from kembed.conditional.features import (
    BINS,
    CHUNK,
    NEGLIGIBLE,
    products,
    random_signs,
    squared_norms,
)


def test_norms_are_the_double_sum():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(8, 2)), rng.normal(size=(8, 3))
    E = random_signs(8, 5, rng)
    found = squared_norms(products(A, B)[0], E, len(A))
    slow = [reference.product_statistic(A, B, signs) for signs in [np.ones(8), *E.T]]
    np.testing.assert_allclose(found, slow, rtol=1e-5)
    assert found[0] == pytest.approx(slow[0], rel=1e-12)  # the data's own in double precision


def test_products_drop_only_what_is_negligible():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(50, 30)), rng.normal(size=(50, 30)) * 10.0 ** -np.arange(30)
    (kept,) = products(A, B)
    assert len(kept) <= 150
    whole = float((A**2).sum(axis=1) @ (B**2).sum(axis=1))
    assert (kept**2).sum() == pytest.approx(whole, rel=0.02)


def test_bins_of_products_with_a_sign_each_are_the_loops():
    """Products are summed by bin, times weights too; rows that fill no bin have a sign of their own."""
    rng = np.random.default_rng(0)
    n = 2 * BINS + 37
    A, B, W = rng.normal(size=(n, 2)), rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    E = random_signs(BINS + 1, 3, rng)
    plain, weighted = products(A, B, [W], n // BINS)
    assert plain.shape == (6, BINS + 1)
    for signs, found in zip([np.ones(BINS + 1), *E.T], squared_norms(plain, E, n), strict=True):
        assert found == pytest.approx(reference.signed_bin_norms(A, B, 2, signs), rel=1e-5)
    products_of_three = np.einsum("ia,ib,iw->abw", A, B, W).ravel()
    np.testing.assert_allclose(np.sort(weighted.sum(axis=1)), np.sort(products_of_three), atol=1e-9)


def test_random_signs():
    E = random_signs(200, 500, np.random.default_rng(0))
    assert (E.shape, E.dtype, set(np.unique(E))) == ((200, 500), np.float32, {-1.0, 1.0})
    assert abs(E.mean()) < 4.0 / np.sqrt(E.size)


# What is kept, bin by bin.


def test_products_are_kept_by_their_size_the_largest_first():
    """Mean squares of the features are 1, 1/4 of one side and 1, 1/16, 1/2000 of the other."""
    signs = np.array([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    one, other = signs * [[1.0], [0.5]], np.ones((3, 4)) * [[1.0], [0.25], [np.sqrt(5e-4)]]
    np.testing.assert_allclose(
        products(one.T, other.T)[0], [1.0 * signs[0], 0.5 * signs[1], 0.25 * signs[0], 0.125 * signs[1]]
    )
    sizes = np.array([[1.0], [1.001 * NEGLIGIBLE], [0.999 * NEGLIGIBLE]])
    assert len(products(np.ones((4, 1)), np.ones((4, 1)) * np.sqrt(sizes).T)[0]) == 2
    assert len(products(np.ones((4, 20)), np.ones((4, 20)))[0]) == 150
    assert products(np.zeros((4, 1)), np.ones((4, 1)))[0].tolist() == [[0.0] * 4]


def test_products_leave_the_features_as_they_were(rng):
    one, other = rng.normal(size=(2, 9, 3))
    before = one.copy(), other.copy()
    products(one, other)
    np.testing.assert_array_equal((one, other), before)


# Rows of a bin: one; some that a chunk holds many times; as many as a chunk; more. Some are left over.
@pytest.mark.parametrize(
    "n", [2 * BINS, 3 * BINS + 5, CHUNK * BINS // 4 + 511, CHUNK * BINS, CHUNK * BINS + 700]
)
def test_every_bin_has_the_sums_of_its_rows(n):
    rng = np.random.default_rng(0)
    A, B, W, V = (rng.normal(size=(n, 1)) for _ in range(4))
    rows = n // BINS
    edges = [*range(0, BINS * rows, rows), *([BINS * rows] if n > BINS * rows else [])]  # the rest is a bin
    found = products(A, B, [W, V], rows)
    for sums, each in zip(found, (A * B, A * B * W, A * B * V), strict=True):
        wanted = np.add.reduceat(each[:, 0], edges)
        np.testing.assert_allclose(sums, wanted[None], atol=1e-8)


def test_bins_of_weighted_products_are_kept_by_their_size():
    """Sizes are mean squares of the very products, and of the weights: 4, 1, .002 times 1 and .01."""
    n = 2 * BINS
    rng = np.random.default_rng(0)
    one = rng.choice([-1.0, 1.0], size=(n, 3)) * [2.0, 1.0, np.sqrt(2e-3)]
    weight = np.ones((n, 2)) * [1.0, 0.1]
    plain, weighted = products(one, np.ones((n, 1)), [weight], 2)
    assert plain.shape == (2, BINS)  # .002 is below a thousandth of 4
    by_bin = one[:, :2].reshape(BINS, 2, 2).sum(axis=1).T
    np.testing.assert_allclose(plain, by_bin, atol=1e-12)
    np.testing.assert_allclose(weighted, np.vstack([by_bin, 0.1 * by_bin])[[0, 1, 2, 3]], atol=1e-9)
    with_zeros = products(one, np.ones((n, 1)), [weight * [1.0, 0.0]], 2)[1]
    np.testing.assert_allclose(with_zeros, by_bin, atol=1e-9)


@pytest.mark.parametrize("size", [1e-150, 1e120])
def test_norms_of_any_size(size):
    C, E = np.random.default_rng(0).normal(size=(2, 9)), random_signs(9, 16, np.random.default_rng(0))
    wanted = squared_norms(C, E, 9)
    np.testing.assert_allclose(squared_norms(C * size, E, 9) / size / size, wanted, rtol=1e-5)
    assert squared_norms(np.zeros((2, 9)), E, 9).tolist() == [0.0] * 17

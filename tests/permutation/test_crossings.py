"""Bins of one side that change places against the other, and the normal limit, against loops."""

from itertools import permutations

import numpy as np
import pytest
from tests import reference

from kembed.permutation.crossings import (
    bin_orders,
    bin_rows,
    covariance_factor,
    crossings,
    normal_crossings,
)


@pytest.mark.parametrize(("size", "unit", "bins"), [(11, 1, 4), (11, 2, 3), (12, 3, 4), (5, 1, 8)])
def test_every_row_has_a_place_and_units_stay_together(size, unit, bins):
    places, left = bin_rows(size, key=3, unit=unit, bins=bins)
    assert sorted([*places.ravel().tolist(), *left.tolist()]) == list(range(size))
    assert places.shape[1] == min(bins, size // unit)
    assert len(left) < unit * bins
    for column in places.T:
        for start in range(0, len(column), unit):
            whole = column[start : start + unit]
            assert whole[0] % unit == 0
            assert (np.diff(whole) == 1).all()


def test_bins_do_not_follow_the_order_of_rows():
    places, _ = bin_rows(2_000, key=1, bins=4)
    assert all(abs(column.mean() - 999.5) < 6.0 * 577.0 / np.sqrt(500) for column in places.T)
    assert (bin_rows(2_000, key=2, bins=4)[0] != places).any()


@pytest.mark.parametrize("width", [1, 3])
def test_cross_products_under_every_order_are_those_of_loops(width, rng):
    a, b = rng.normal(size=(11, 3)), rng.normal(size=(11, 2))
    rows = bin_rows(11, key=5, bins=3)
    found = bin_orders([rows], 99, rng)
    (orders,), enumerated = found.orders, found.enumerated
    assert enumerated
    assert orders.tolist() == [list(order) for order in permutations(range(3))]
    found = np.zeros((len(orders), 3, 2))
    for some, part in crossings(a, b, rows, orders, width):
        found[:, some] = part
    slow = [reference.moved_cross_products(a, b, rows, order) for order in orders]
    np.testing.assert_allclose(found, slow, atol=1e-12)
    np.testing.assert_allclose(found[0], a.T @ b, atol=1e-12)


def test_orders_are_drawn_where_they_are_many(rng):
    found = bin_orders([bin_rows(16, key=1, bins=8)], 50, rng)
    (orders,) = found.orders
    assert not found.enumerated
    assert orders.shape == (51, 8)
    assert (orders[0] == np.arange(8)).all()
    assert (np.sort(orders, axis=1) == np.arange(8)).all()


def test_the_factor_of_a_covariance_holds_members_of_any_size(rng):
    F = rng.normal(size=(50, 5)) * [1e3, 1e3, 1.0, 1e-4, 1e-4]
    covariance = np.cov(F.T, bias=True)
    factor = covariance_factor(covariance, (0, 2, 3, 5))
    rows = np.concatenate(factor)
    own = rows @ rows.T
    sizes = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(own / sizes / sizes[:, None], covariance / sizes / sizes[:, None], atol=1e-5)
    assert [len(part) for part in factor] == [2, 1, 2]


def test_the_limit_has_the_covariance_of_all_pairings(rng):
    """Over all pairings of few rows cross-products have covariance Σ_a ⊗ Σ_b n/(n - 1), for all members."""
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    slow = reference.pairing_covariance(a, b)
    factors = [
        covariance_factor(np.cov(side.T, bias=True), starts) for side, starts in ((a, (0, 2, 3)), (b, (0, 2)))
    ]
    draws = normal_crossings(*factors, [(0, 0), (1, 0)], 40_000, rng)
    both = np.concatenate([np.concatenate(batch, axis=1) for batch in draws]).reshape(40_000, 6)
    np.testing.assert_allclose(
        np.cov(both.T) * 5.0 / 4.0, slow, atol=6.0 * np.abs(slow).max() / np.sqrt(20_000)
    )

"""Polynomials of ranks and indicators of levels: orthonormal, functions of ranks, and of values not seen."""

import numpy as np
import pytest
from scipy.stats import rankdata

from kembed.features.polynomials import DEGREE, fit_levels, fit_ranks, indicators, rank_polynomials


def test_polynomials_are_orthonormal_and_see_ranks_alone(rng):
    column = rng.normal(size=100)
    P = rank_polynomials(column)
    np.testing.assert_allclose(P.T @ P / 100, np.eye(DEGREE), atol=1e-12)
    np.testing.assert_allclose(P.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(P[:, 0], (rankdata(column) - 50.5) / np.sqrt((100**2 - 1) / 12), atol=1e-12)
    np.testing.assert_array_equal(rank_polynomials(np.exp(5 * column)), P)
    swapped = rank_polynomials(-column)  # even ones stay, odd ones change sign
    np.testing.assert_allclose(swapped, P * (-1.0) ** np.arange(1, DEGREE + 1), atol=1e-9)


@pytest.mark.parametrize(("values", "left"), [(1, 0), (2, 1), (3, 2), (20, DEGREE)])
def test_few_values_have_few_polynomials(values, left, rng):
    column = np.concatenate([np.arange(values), rng.integers(values, size=60)]).astype(float)
    P = rank_polynomials(column)
    used = np.abs(P).max(axis=0) > 0.0
    assert used.tolist() == [True] * left + [False] * (DEGREE - left)
    np.testing.assert_allclose((P.T @ P / len(P))[:left, :left], np.eye(left), atol=1e-10)
    np.testing.assert_allclose(P.sum(axis=0), 0.0, atol=1e-9)


def test_two_values_have_the_standardised_indicator():
    column = np.array([3.0, 3.0, 3.0, 7.0])
    np.testing.assert_allclose(rank_polynomials(column, 1)[:, 0], [-(3**-0.5)] * 3 + [3**0.5], atol=1e-12)


def test_indicators_of_all_levels_give_pearsons_chi_square(rng):
    codes = rng.integers(4, size=80).astype(float)
    first = rng.permutation(80) < 30
    P = indicators(codes)
    assert (np.abs(P).max(axis=0) > 0).sum() == 3
    counts = np.array([[np.sum(codes[side] == level) for level in range(4)] for side in (first, ~first)])
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / 80
    chi = ((counts - expected) ** 2 / expected).sum()
    gap = P[first].mean(axis=0) - P[~first].mean(axis=0)
    assert gap @ gap * 30 * 50 / 80 == pytest.approx(chi)


# Values beyond those fitted.


@pytest.mark.parametrize("kind", ["normal", "heavy", "ties", "huge"])
def test_ranks_of_any_value_are_interpolated(kind, rng):
    column = {
        "normal": rng.normal(size=900),
        "heavy": rng.standard_cauchy(900),
        "ties": np.r_[np.zeros(500), rng.normal(size=400)],
        "huge": 1.7e308 * rng.uniform(-1, 1, size=900),
    }[kind]
    scale = fit_ranks(column)
    others = np.r_[column, 1.001 * column, -1.7e308, 1.7e308]
    expected = np.interp(others, scale.values, scale.middle)
    np.testing.assert_allclose(scale.middles(others), expected, rtol=0, atol=1e-12)
    legendre = np.polynomial.legendre.legvander(2.0 * expected - 1.0, 8) @ scale.coefficients
    np.testing.assert_allclose(scale(others), legendre, atol=1e-9)


def test_scales_give_the_fitted_rows_their_own_features(rng):
    for column in (rng.normal(size=50), rng.integers(0, 4, 50).astype(float), np.full(50, 2.0)):
        np.testing.assert_allclose(fit_ranks(column)(column), rank_polynomials(column), atol=1e-8)
    codes = rng.integers(0, 12, 80).astype(float)
    np.testing.assert_allclose(fit_levels(codes)(codes), indicators(codes), atol=1e-10)


def test_a_value_that_was_not_fitted_differs_from_those_that_were():
    """A rare flag may be absent from the sample that ranks are fitted on."""
    assert fit_ranks(np.zeros(20))(np.array([0.0, 1.0, -1.0]))[:, 0].tolist() == [0.0, 1.0, -1.0]
    table = fit_levels(np.repeat([0.0, 1.0], 10))(np.array([0.0, 1.0, 2.0]))
    assert (table[2] != table[0]).any()
    assert (table[2] != table[1]).any()

"""HSIC: hand-worked values, loops, and the identities that define it."""

from itertools import permutations

import numpy as np
import pytest
from tests import reference

from kembed import Gaussian, Matern32, hsic_test


def linear(a, b):
    return a @ b.T


def hsic(x, y, kernel, **options):
    return hsic_test(x, y, kernel=kernel, n_resamples=30, rng=0, **options).statistic


def test_hsic_by_hand():
    """With k(a, b) = ab the biased HSIC is the squared covariance (over n)."""
    x = [0.0, 0.0, 1.0, 1.0]
    assert hsic(x, x, linear, statistic="biased") == pytest.approx(1 / 16, abs=1e-12)
    assert hsic(x, x, linear) == pytest.approx(1 / 6, abs=1e-12)
    y = [0.0, 1.0, 0.0, 1.0]
    assert hsic(x, y, linear, statistic="biased") == pytest.approx(0.0, abs=1e-12)
    # Of the 24 choices of four different rows only (i, j, q) = (4, 3, 2) adds anything: -2 k_43 l_42.
    assert hsic(x, y, linear) == pytest.approx(-1 / 12, abs=1e-12)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("n", [4, 5, 8])
def test_hsic_against_loops(n, biased, rng):
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    K = reference.gram(reference.gaussian(np.eye(2)), x, x)
    L = reference.gram(reference.matern(0.7, 1.5), y, y)
    value = hsic(x, y, (Gaussian(1.0), Matern32(0.7)), statistic="biased" if biased else "unbiased")
    assert value == pytest.approx(reference.hsic_loops(K, L, biased=biased), abs=1e-13)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("n", [4, 5])
def test_hsic_of_every_pairing_against_loops(n, biased, rng):
    """Few rows: the null distribution is every pairing, in any order."""
    x, y = rng.normal(size=n), rng.normal(size=n)
    K, L = (reference.gram(reference.gaussian(1.0), side, side) for side in (x, y))
    result = hsic_test(x, y, kernel=Gaussian(1.0), statistic="biased" if biased else "unbiased", rng=0)
    expected = [reference.hsic_loops(K, L[np.ix_(p, p)], biased=biased) for p in permutations(range(n))]
    np.testing.assert_allclose(np.sort(result.null_distribution), np.sort(expected), atol=1e-13)
    at_least = sum(value >= result.statistic - 1e-12 for value in expected)
    assert result.pvalue == pytest.approx(at_least / len(expected), abs=1e-15)


def test_the_biased_hsic_is_a_trace(rng):
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    K, L = (reference.gram(reference.gaussian(np.eye(s.shape[1])), s, s) for s in (x, y))
    H = np.eye(9) - 1 / 9
    expected = np.trace(K @ H @ L @ H) / 81
    assert hsic(x, y, Gaussian(1.0), statistic="biased") == pytest.approx(expected, abs=1e-14)


UNITS = {
    "tiny": (1e-12, 0.0),
    "huge": (1e12, 0.0),
    "shifted": (1.0, 4096.0),
    "of their own": (np.array([1e-12, 1e12, 3.0]), np.array([0.0, 0.0, -64.0])),
}


def table(rng, n):
    """On a grid, so that a shift loses no digits."""
    return np.round(rng.normal(size=(n, 3)) * 2**20) / 2**20


@pytest.mark.parametrize("units", UNITS)
def test_units_and_shifts_do_not_change_the_independence_test(units, rng):
    scale, shift = UNITS[units]
    x = table(rng, 15)
    y = table(rng, 15)[:, 0]
    plain = hsic_test(x, y, kernel="median", n_resamples=99, rng=0)
    moved = hsic_test(x * scale + shift, y, kernel="median", n_resamples=99, rng=0)
    assert moved.pvalue == plain.pvalue
    assert moved.statistic == pytest.approx(plain.statistic, rel=1e-6, abs=1e-9)


def test_units_and_shifts_do_not_change_the_fused_independence_test(rng):
    x, y = table(rng, 14)[:, :2], table(rng, 14)[:, 0]
    plain = hsic_test(x, y, n_resamples=99, rng=0)
    moved = hsic_test(x * np.array([1e-12, 1e12]), 1e9 * y, n_resamples=99, rng=0)
    assert moved.pvalue == plain.pvalue


def test_unbiased_means_unbiased(rng):
    """The mean over all pairings is 0."""
    result = hsic_test(rng.normal(size=5), rng.normal(size=5), kernel=Gaussian(1.0), rng=0)
    assert len(result.null_distribution) == 120
    assert result.null_distribution.mean() == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("ell", [1e2, 1e3, 1e4, 1e6])
def test_a_very_wide_kernel_keeps_its_digits(ell, rng):
    """As ℓ → ∞ HSIC → (covariance)²/ℓ⁴: nothing is lost against 1."""
    x, y = rng.normal(size=(40, 1)), rng.normal(size=(40, 1)) + 0.5
    wide, plain = (hsic_test(x, x + y, kernel=kernel, rng=0) for kernel in (Gaussian(ell), linear))
    assert wide.statistic * ell**4 == pytest.approx(plain.statistic, rel=100.0 / ell**2 + 1e-6)

"""The normal distribution function without SciPy, against SciPy's and mpmath's."""

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from kembed.core.normal import normal_cdf


@pytest.mark.parametrize("reach", [1.0, 5.0, 37.0])
def test_as_scipy(reach):
    z = np.random.default_rng(0).uniform(-reach, reach, size=(40, 50))
    np.testing.assert_allclose(normal_cdf(z), ndtr(z), rtol=5e-13)


@pytest.mark.parametrize("z", [-37.0, -20.0, -6.5, -4.25, -1.0, -1e-9, 0.0, 0.3, 4.25, 8.0])
def test_to_all_digits(z):
    exact = float(mpmath.ncdf(mpmath.mpf(z)))
    rounding = 4e-16 * max(z * z, 1.0)  # that of z² before the exponential
    assert normal_cdf(z) == pytest.approx(exact, rel=rounding, abs=0.0)


def test_ends():
    np.testing.assert_array_equal(normal_cdf([-np.inf, -60.0, 60.0, np.inf]), [0.0, 0.0, 1.0, 1.0])
    assert np.isnan(normal_cdf(np.nan))
    assert normal_cdf(0.0) == 0.5
    assert normal_cdf(np.zeros((0, 3))).shape == (0, 3)


def test_rises():
    z = np.linspace(-38.0, 8.0, 20_001)
    assert (np.diff(normal_cdf(z)) >= 0.0).all()
    assert (np.diff(normal_cdf(z))[: len(z) // 2] > 0.0).all()


def test_the_values_given_stay():
    z = np.linspace(-2.0, 2.0, 5)
    kept = z.copy()
    normal_cdf(z)
    np.testing.assert_array_equal(z, kept)

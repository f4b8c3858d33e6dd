"""Gaussian process regression: likelihood, gradient, residuals, axes."""

import numpy as np
import pytest
from tests import reference

from kembed.conditional.likelihood import (
    PRIOR_MEAN,
    PRIOR_SD,
    Optimum,
    Regression,
    gains,
    gradient_products,
    learn_regression,
    negative_log_likelihood,
    profile,
    quadratic_gradients,
    spectrum,
)
from kembed.conditional.regression import gaussian_process


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("outputs", [1, 3])
def test_likelihood_is_the_definition(rng, outputs):
    Z, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, outputs))
    theta = np.log([0.7, 1.9, 2.5])
    value, _ = negative_log_likelihood(theta, Z, Y)
    away = (theta[:-1] - PRIOR_MEAN) / PRIOR_SD
    slow = reference.gp_negative_log_likelihood(Z, Y, [0.7, 1.9], 2.5)
    assert value == pytest.approx(slow + 0.5 * away @ away, rel=1e-12)


@pytest.mark.parametrize("own", [3, 1])
def test_gradient_is_that_of_finite_differences(rng, own):
    Z, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    theta = rng.normal(size=own + 1) * 0.3
    _, gradient = negative_log_likelihood(theta, Z, Y)
    for c, step in enumerate(1e-6 * np.eye(own + 1)):
        up, down = (negative_log_likelihood(theta + s * step, Z, Y)[0] for s in (1, -1))
        assert gradient[c] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-6)


def test_profile_is_the_likelihood(rng):
    Z, Y = rng.normal(size=(15, 2)), rng.normal(size=(15, 1))
    best = profile(Y, spectrum(Z, np.array([0.8, 2.0]), np.eye(2)))
    value, _ = negative_log_likelihood(best.theta, Z, Y)
    assert best.value == pytest.approx(value, rel=1e-10)


def test_gains_count_what_lies_outside_the_eigenvectors(rng):
    # Eigenvectors of eigenvalue 0 change nothing, so that leaving them out, as `rest`, must not either.
    squares, w, ratios = rng.uniform(size=8), np.array([3.0, 1.0, 0.2, 0, 0, 0, 0, 0]), np.array([0.1, 7.0])
    whole = gains(squares, 0.0, w, ratios, (8, 2))
    np.testing.assert_allclose(gains(squares[:3], squares[3:].sum(), w[:3], ratios, (8, 2)), whole)
    np.testing.assert_array_equal(gains(squares, 0.0, np.zeros(8), ratios, (8, 2)), 0.0)


def test_left_out_residuals_are_those_of_refitting(rng):
    Z, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    regression = Regression(np.eye(2), np.array([0.9, 1.7]), 3.0, 0.0)
    found = gaussian_process(Z, regression)(y[:, None])
    slow = reference.gp_left_out(Z, y, [0.9, 1.7], 3.0)
    np.testing.assert_allclose(found.left_out[:, 0], slow, rtol=1e-9)
    # Degrees of freedom: what adding 1 to a row adds to its own fit, over all rows.
    spent = 0.0
    for i in range(12):
        moved = y.copy()
        moved[i] += 1.0
        spent += 1.0 - (gaussian_process(Z, regression)(moved[:, None]).fitted - found.fitted)[i, 0]
    assert found.freedom == pytest.approx(spent, rel=1e-9)


def test_projection_on_all_rows_is_exact(rng):
    Z, Y = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
    regression = Regression(np.eye(2), np.array([0.9, 1.7]), 3.0, 0.0)
    exact = gaussian_process(Z, regression)(Y)
    projected = gaussian_process(Z, regression, exact=10)(Y)
    np.testing.assert_allclose(projected.fitted, exact.fitted, atol=1e-5)
    np.testing.assert_allclose(projected.left_out, exact.left_out, atol=1e-5)


def test_constant_added_changes_nothing(rng):
    Z, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    first, second = learn_regression(Z, Y), learn_regression(Z, Y + 5.0)
    np.testing.assert_allclose(first.lengthscales, second.lengthscales, rtol=1e-3)
    moved = gaussian_process(Z, first)(Y + 5.0).fitted
    np.testing.assert_allclose(gaussian_process(Z, first)(Y).fitted, moved, atol=1e-9)


def test_quadratic_gradients_by_hand(rng):
    # q(z) = 2 z0 + z0 z1 has ∇q = (2 + z1, z0); over N(0, I) E[∇q ∇qᵀ] = diag(5, 1).
    Z = rng.normal(size=(20_000, 2))
    Z = (Z - Z.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(Z.T)).T)
    found = quadratic_gradients(Z, (2.0 * Z[:, :1] + Z[:, :1] * Z[:, 1:]))
    np.testing.assert_allclose(found, np.diag([5.0, 1.0]), atol=0.2)


def test_gradients_of_a_plane(rng):
    Z = rng.normal(size=(150, 2))
    Y = Z @ [[1.0], [-1.0]]
    best = Optimum(0.0, np.log([8.0, 8.0, 1e4]), np.eye(2))
    np.testing.assert_allclose(
        gradient_products(Z, Y - Y.mean(), best), [[1.0, -1.0], [-1.0, 1.0]], atol=0.05
    )


def test_rotation_finds_a_ridge_that_columns_do_not_show():
    # sin(2u) along the diagonal of five columns: axis-aligned lengthscales alone explain little of it.
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(200, 5))
    u = Z.sum(axis=1) / np.sqrt(5.0)
    y = (np.sin(2.0 * u) + 0.3 * rng.normal(size=200))[:, None]
    regression = learn_regression(Z, y)
    direction = np.abs(regression.axes[:, np.argmin(regression.lengthscales)])
    np.testing.assert_allclose(direction, np.full(5, 5**-0.5), atol=0.12)
    noise = gaussian_process(Z, regression)(y).left_out.var()
    assert noise < 0.15  # .09 is the noise, .59 all there is


def test_wide_tables_share_one_lengthscale(rng):
    Z = rng.normal(size=(60, 40))
    regression = learn_regression(Z, Z[:, :1] + 0.1 * rng.normal(size=(60, 1)))
    assert np.ptp(regression.lengthscales) == 0.0
    assert np.isfinite(gaussian_process(Z, regression)(Z[:, :1]).left_out).all()


def test_nothing_to_learn(rng):
    regression = learn_regression(rng.normal(size=(30, 2)), np.zeros((30, 1)))
    assert regression.gain == 0.0
    noise = learn_regression(rng.normal(size=(100, 1)), rng.normal(size=(100, 1)))
    assert noise.gain < 3.0


def test_lengthscale_is_bounded_below(rng):
    t = rng.uniform(-1.7, 1.7, size=(150, 1))
    y = np.sin(6.0 * t)
    assert learn_regression(t, y).lengthscales[0] < 0.5
    assert learn_regression(t, y, least=0.6).lengthscales[0] >= 0.6 - 1e-9

"""Draws of GP(0, r) lie in the RKHS of k; draws of GP(0, k) do not.

On a grid, the least RKHS norm of a function through f is fᵀK⁻¹f. Its expectation is tr(K⁻¹R) under GP(0, r),
which is ∫ k_uᵀ K⁻¹ k_u ν(du) <= ∫ k(u, u) ν(du) = mass for k(u, u) = 1, on every grid; under GP(0, k) it is
tr(K⁻¹K), the number of grid points. All grids here are nested, so norms can only grow.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import cho_factor, cho_solve
from tests import reference

from kembed import Gaussian, GaussianMeasure, Lebesgue, Matern12, Matern32, MultiScale

SIZES = [11, 21, 41, 81, 161]
MASS = 1.7
MEASURE = GaussianMeasure(0.2, 0.5, mass=MASS)  # 3 is four standard deviations away
KERNELS = [Matern12(0.8), Matern32(1.5)]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def grid(size, half_width=3.0):
    return np.linspace(-half_width, half_width, size)[:, None]


def expected_norm(kernel, measure, points):
    """tr(K⁻¹R)."""
    return float(np.trace(cho_solve(cho_factor(kernel.gram(points)), kernel.convolved(measure).gram(points))))


def expected_norm_by_quadrature(kernel, points):
    """∫ k_uᵀ K⁻¹ k_u ν(du), between the grid points and beyond, where the integrand is smooth."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    ends = np.concatenate([[-12.0, -6.0], points[:, 0], [6.0, 12.0]])
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    u, w = (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()
    density = MASS * np.exp(-((u - 0.2) ** 2) / (2 * 0.5)) / np.sqrt(2 * np.pi * 0.5)
    sections = kernel.gram(points, u[:, None])
    power = (sections * cho_solve(cho_factor(kernel.gram(points)), sections)).sum(axis=0)
    return float(w * density @ power)


@kernels
@pytest.mark.parametrize("size", SIZES[:3])
def test_expected_norm_is_an_integral(kernel, size):
    points = grid(size)
    # 1e-5: r is a quadrature over scales good to 1e-6 at worst, 1e-8 here; K⁻¹ magnifies that
    expected = expected_norm_by_quadrature(kernel, points)
    assert_allclose(expected_norm(kernel, MEASURE, points), expected, rtol=1e-5)


@kernels
def test_expected_norm_stays_bounded_under_r(kernel):
    norms = [expected_norm(kernel, MEASURE, grid(size)) for size in SIZES]
    assert (np.diff(norms) > 0).all()
    assert norms[-1] < MASS
    gaps = MASS - np.array(norms)
    assert gaps[-1] < 0.02 * MASS
    assert (gaps[1:] < 0.6 * gaps[:-1]).all()  # twice the points, half the gap or better


@kernels
def test_expected_norm_grows_without_bound_under_k(kernel):
    for size in SIZES:
        gram = kernel.gram(grid(size))
        assert_allclose(np.trace(cho_solve(cho_factor(gram), gram)), size, rtol=1e-8)  # K is ill-conditioned


@pytest.mark.parametrize(
    ("kernel", "total"),
    [
        (Gaussian(0.6), MASS),
        (3.0 * Gaussian(0.6), 3.0 * MASS),
        (MultiScale([0.6, 1.0]), MASS),
        (Gaussian(0.5) + Matern12(1.0), 2.0 * MASS),
    ],
    ids=repr,
)
def test_bound_is_the_mass_times_k_at_zero(kernel, total):
    """∫ k(u, u) ν(du); few points, so that a Gaussian gram can still be solved."""
    norms = [expected_norm(kernel, MEASURE, grid(size)) for size in (3, 5, 9)]
    assert norms[0] < norms[1] < norms[2] < total
    assert norms[2] > 0.8 * total


def test_under_lebesgue_the_norm_is_that_of_the_window():
    """ν of an interval grows with it, and so does the norm on ever wider grids: 1 per unit of length."""
    kernel = Matern12(0.8)
    norms = [expected_norm(kernel, Lebesgue(), grid(1 + 40 * width, width)) for width in (2, 4, 8)]
    assert_allclose(np.diff(norms) / [4.0, 8.0], 1.0, atol=0.03)


def draws(covariance, count, rng):
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.normal(size=(len(values), count))


@kernels
def test_draws_of_r_have_bounded_norm_and_draws_of_k_do_not(kernel, rng):
    count, finest = 2000, SIZES[-2]
    points = grid(finest)
    K, R = kernel.gram(points), kernel.convolved(MEASURE).gram(points)
    smooth, rough = draws(R, count, rng), draws(K, count, rng)
    of_smooth, of_rough = [], []
    for size in SIZES[:-1]:
        kept = slice(None, None, (finest - 1) // (size - 1))
        factor = cho_factor(K[kept, kept])
        of_smooth.append((smooth[kept] * cho_solve(factor, smooth[kept])).sum(axis=0))
        of_rough.append((rough[kept] * cho_solve(factor, rough[kept])).sum(axis=0))
        # Means of 2000 draws, within five standard errors of their expectations
        for norms, expected in (
            (of_smooth[-1], expected_norm(kernel, MEASURE, points[kept])),
            (of_rough[-1], size),
        ):
            assert abs(norms.mean() - expected) < 5 * norms.std() / np.sqrt(count)
    # Every draw of r settles, every draw of k gains as much again with twice the points
    assert np.quantile(of_smooth[-1] / of_smooth[-2], 0.9) < 1.1
    assert np.quantile(of_rough[-1] / of_rough[-2], 0.1) > 1.5
    assert of_smooth[-1].mean() < 1.1 * MASS < 40 < of_rough[-1].mean()


def test_norm_of_one_draw_against_the_reference(rng):
    kernel, points = Matern12(0.8), grid(21)
    f = draws(kernel.convolved(MEASURE).gram(points), 1, rng)[:, 0]
    ours = f @ cho_solve(cho_factor(kernel.gram(points)), f)
    assert_allclose(ours, reference.rkhs_norm_on_grid(reference.matern(0.8, 0.5), f, points), rtol=1e-10)


@kernels
def test_k_dominates_r(kernel):
    """mass · k - r is positive semidefinite, r = Tk with an operator T of norm at most the mass."""
    points = grid(41)
    K, R = kernel.gram(points), kernel.convolved(MEASURE).gram(points)
    assert np.linalg.eigvalsh(MASS * K - R)[0] >= -1e-12 * np.trace(K)
    assert np.linalg.eigvalsh(R - 0.01 * K)[0] < 0  # and not the other way round

"""Point masses as ν: r is a sum, and inner products of embeddings follow."""

import numpy as np
import pytest
from tests import reference

import kembed
from kembed import EmpiricalMeasure, Gaussian

K = Gaussian(0.8)
POINTS = np.linspace(-2.0, 3.0, 7)


def test_r_under_point_masses_is_a_sum(rng):
    U, X, Y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    weights = rng.uniform(0.1, 1.0, 5)
    r = kembed.Matern32(0.7).convolved(EmpiricalMeasure(U, weights))
    slow = reference.convolved_points(reference.matern(0.7, 1.5), U, weights)
    np.testing.assert_allclose(r.gram(X, Y), reference.gram(slow, X, Y), rtol=1e-12)
    np.testing.assert_allclose(r.diagonal(X), np.diagonal(reference.gram(slow, X, X)), rtol=1e-12)


def test_many_point_masses_tend_to_the_gaussian_measure(rng):
    U = rng.normal(size=(20_000, 1))
    r, exact = (
        K.convolved(nu).gram([[0.0], [1.0]]) for nu in (EmpiricalMeasure(U), kembed.GaussianMeasure())
    )
    np.testing.assert_allclose(r, exact, rtol=0.03)  # 4 standard errors of a mean of 20,000


@pytest.mark.parametrize("other", ["points", "gaussian"])
def test_inner_products_under_point_masses(rng, other):
    x, U = rng.normal(size=(6, 1)), rng.normal(size=(4, 1))
    nu = EmpiricalMeasure(U)
    second = nu if other == "points" else kembed.GaussianMeasure(0.3, 2.0)
    a = kembed.fit_embedding(x, K, measure=nu, landmarks=x[:2])
    b = kembed.fit_embedding(x + 1.0, K, measure=second, landmarks=x[2:4])
    k = reference.gaussian(0.64)
    r = reference.convolved_points(k, U, np.full(4, 0.25))
    # ⟨r_ν(·, z), f⟩ = Σ_u w_u k(z, u) f(u) for f = r_ν'(·, z')
    right = reference.convolved_points(k, U, np.full(4, 0.25)) if other == "points" else second
    slow = 0.0
    for z, alpha in zip(a.landmarks, a.coefficients, strict=True):
        for v, beta in zip(b.landmarks, b.coefficients, strict=True):
            for u in U:
                f = right(u, v) if other == "points" else float(K.convolved(second)(u, v))
                slow += alpha * beta * 0.25 * k(z, u) * f
    assert a.inner(b) == pytest.approx(slow, rel=1e-9)
    assert b.inner(a) == pytest.approx(slow, rel=1e-9)
    assert a.mean(POINTS)[0] == pytest.approx(
        sum(c * r(np.array([POINTS[0]]), z) for c, z in zip(a.coefficients, a.landmarks, strict=True)),
        rel=1e-9,
    )


def test_point_masses_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"points have 1 columns but the data have 2"):
        K.convolved(EmpiricalMeasure([[0.0]])).gram(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="weights"):
        EmpiricalMeasure([[0.0], [1.0]], [1.0])
    with pytest.raises(ValueError, match="weights"):
        EmpiricalMeasure([[0.0], [1.0]], [1.0, -1.0])
    assert repr(EmpiricalMeasure([[0.0], [1.0]])) == "EmpiricalMeasure(2 points in 1 dimensions)"

"""Laws of kernels: symmetry, positive definiteness, sums, products, moves; and of their embeddings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import pairs_of_tables, tables

import kembed
from kembed import choose_landmarks, empirical, fit_embedding, median_lengthscale

scales = st.floats(0.05, 20.0)
kernels = st.one_of(
    scales.map(kembed.Gaussian),
    scales.map(kembed.Matern12),
    scales.map(kembed.Matern32),
    scales.map(kembed.Matern52),
    st.builds(kembed.RationalQuadratic, scales, st.floats(0.2, 5.0)),
    st.lists(scales, min_size=1, max_size=3).map(kembed.MultiScale),
    st.floats(0.1, 3.0).map(kembed.Delta),
    st.just(kembed.Gaussian(1.0) + kembed.Matern32(0.5)),
    st.just(kembed.Gaussian(1.0) * kembed.Delta(1.0) * 2.0),
)


@given(kernels, tables())
def test_matrices_are_symmetric_and_positive(kernel, x):
    K = kernel.gram(x)
    assert np.array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10 * np.trace(K)
    assert kernel.diagonal(x) == pytest.approx(np.diagonal(K), rel=1e-12)
    assert (np.outer(np.diagonal(K), np.diagonal(K)) * (1.0 + 1e-12) >= K**2).all()  # Cauchy and Schwarz


@given(kernels, kernels, pairs_of_tables())
def test_sums_and_products(one, other, samples):
    x, y = samples
    assert (one + other).gram(x, y) == pytest.approx(one.gram(x, y) + other.gram(x, y), rel=1e-9, abs=1e-300)
    assert (one * other).gram(x, y) == pytest.approx(one.gram(x, y) * other.gram(x, y), rel=1e-9, abs=1e-300)
    assert (one * 3.0).gram(x, y) == pytest.approx(3.0 * one.gram(x, y), rel=1e-12)


@given(kernels, pairs_of_tables(), st.integers(-8, 8))
def test_moving_both_changes_nothing(kernel, samples, shift):
    x, y = samples
    assert kernel.gram(x + shift, y + shift) == pytest.approx(kernel.gram(x, y), rel=1e-12)


@given(
    st.sampled_from([kembed.Gaussian, kembed.Matern32]),
    scales,
    pairs_of_tables(),
    st.sampled_from([0.25, 8.0]),
)
def test_units_cancel(make, scale, samples, unit):
    x, y = samples
    assert make(scale * unit).gram(x * unit, y * unit) == pytest.approx(make(scale).gram(x, y), rel=1e-9)


@given(kernels, pairs_of_tables())
def test_distances_of_embeddings(kernel, samples):
    mu, nu = (empirical(sample, kernel) for sample in samples)
    assert mu.inner(nu) == pytest.approx(nu.inner(mu), rel=1e-12, abs=1e-15)
    assert mu.inner(nu) ** 2 <= mu.norm() ** 2 * nu.norm() ** 2 * (1.0 + 1e-9)
    assert mu.distance(empirical(samples[0][::-1], kernel)) <= 1e-6


@given(tables(rows=st.integers(6, 12)), st.integers(0, 5))
def test_landmarks_and_medians_are_of_the_unordered_rows(x, turn):
    turned = np.roll(x, turn, axis=0)
    assert np.array_equal(choose_landmarks(x, 4), choose_landmarks(turned, 4))
    if (x != x[0]).any():
        assert median_lengthscale(x) == median_lengthscale(turned)
        assert median_lengthscale(4.0 * x) == pytest.approx(4.0 * median_lengthscale(x))


@given(tables(rows=st.integers(6, 12), columns=st.just(1)), st.integers(-4, 4))
def test_posteriors_move_with_the_rows(x, shift):
    here, there = fit_embedding(x, kembed.Gaussian(1.0)), fit_embedding(x + shift, kembed.Gaussian(1.0))
    at = here.landmarks[:3]
    assert there.mean(at + shift) == pytest.approx(here.mean(at), abs=1e-5)
    lower, upper = here.interval(at)
    assert (lower <= here.mean(at)).all()
    assert (here.mean(at) <= upper).all()

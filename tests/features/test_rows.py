"""Batches of rows: measured as the fitted ones, whichever rows and lengthscales came first."""

import numpy as np
import pytest

from kembed.features.polynomials import rank_polynomials
from kembed.features.rows import Rows, Sample
from kembed.kernels.space import make_space

KINDS = np.array([False, False, True])


def mixed(rng, n):
    return np.column_stack([rng.normal(size=n), rng.integers(0, 5, n) / 2.0, rng.integers(0, 4, n)])


def fitted(rng):
    return Sample(make_space(mixed(rng, 300), KINDS), points=32)


@pytest.mark.parametrize("basis", ["sample", "basis"])
def test_batches_are_measured_as_the_sample(basis, rng):
    sample = fitted(rng)
    some = slice(40, 90)
    rows = Rows(sample if basis == "sample" else sample.fitted(), sample.values[some])
    distances = sample.space.distances(sample.space.rows[some], sample.landmarks)
    np.testing.assert_allclose(-2.0 * np.log(rows.gaussian(1.0)), distances, atol=1e-9)
    np.testing.assert_array_equal(rows.near[0], np.argmin(distances, axis=1))
    np.testing.assert_allclose(-2.0 * rows.near[1], distances.min(axis=1), atol=1e-9)
    np.testing.assert_allclose(rows.axes, sample.axes[some], atol=1e-7)
    np.testing.assert_allclose(rows.along_axes, sample.along_axes[some], atol=1e-6)
    for own, other in zip(rows.polynomials, sample.polynomials, strict=True):
        np.testing.assert_allclose(own, other[some], atol=1e-8)


def test_gaussians_are_those_of_exp_whichever_came_first(rng):
    sample, values = fitted(rng), mixed(rng, 50)
    values[0, 0] = 1e3  # far out
    distances = -2.0 * np.log(Rows(sample, values).gaussian(100.0)) * 1e4
    rows = Rows(sample, values)
    for scale in (4.0, 2.0, 0.5, 0.25, 0.3, 8.0):
        expected = np.exp(-distances / (2.0 * scale**2))
        np.testing.assert_allclose(rows.gaussian(scale), expected, rtol=1e-9, atol=1e-300)


def test_strips_are_the_rows(rng):
    sample, values = fitted(rng), mixed(rng, 1_100)
    whole, rows = Rows(sample.fitted(), values), Rows(sample.fitted(), values)
    for part, strip in whole.strips():
        np.testing.assert_array_equal(strip.values, values[part])
        for scale in (8.0, 4.0, 1.0, 0.9, 0.5, 0.25):  # the widest first
            np.testing.assert_allclose(
                strip.gaussian(scale), rows.gaussian(scale)[part], rtol=1e-10, atol=1e-300
            )
    np.testing.assert_array_equal(whole.near[0], rows.near[0])
    np.testing.assert_allclose(whole.near[1], rows.near[1], atol=1e-12)


def test_axes_are_those_of_the_covariance_of_the_scores(rng):
    values = rng.normal(size=(80, 3)) @ np.array([[1, 0.6, 0.2], [0, 1, 0.5], [0, 0, 1]])
    sample = Sample(make_space(values, np.zeros(3, dtype=bool)))
    scores = np.column_stack([rank_polynomials(column, 1) for column in values.T])
    lengths, vectors = np.linalg.eigh(np.cov(scores.T, bias=True))
    expected = (scores @ vectors / np.sqrt(lengths))[:, ::-1]
    signs = np.sign((expected * sample.axes).sum(axis=0))
    np.testing.assert_allclose(sample.axes, signs * expected, atol=1e-7)


def test_the_spectrum_whitens(rng):
    """L Lᵀ = (Σ + ρI)⁻¹ with ρ = ridge · trace Σ."""
    sample = fitted(rng)
    features = sample.gaussian(1.0)
    L, covariance = sample.spectrum(1.0).whitening(0.1), np.cov(features.T, bias=True)
    inverse = np.linalg.inv(covariance + 0.1 * np.trace(covariance) * np.eye(len(covariance)))
    np.testing.assert_allclose(L @ L.T, inverse, rtol=1e-6, atol=1e-6 * np.abs(inverse).max())
    constant = Sample(make_space(np.ones((20, 1)), np.zeros(1, dtype=bool)))
    assert not constant.spectrum(1.0).whitening(0.1).any()

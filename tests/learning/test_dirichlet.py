"""The model behind the learning rule: a Dirichlet process, its Gaussian process, their predictive density.

Let P ~ DP(α, ν). Its embedding has the mean μ_ν and the covariance (r - μ_ν μ_νᵀ)/(α + 1), r = ∫kk dν: the
prior of the paper is the Gaussian process with these moments. Observed with the noise that the central limit
theorem gives under this prior, its posterior mean is flat shrinkage towards μ_ν, and as a density it is what
`learn_kernel` evaluates at every row given the others.
"""

import numpy as np
import pytest

from kembed import EmpiricalMeasure, Gaussian
from kembed.core.linalg import squared_distances
from kembed.learning.families import family_of
from kembed.learning.objective import BACKGROUND, NARROW, log_profiles, normalised, with_background
from kembed.learning.problem import Effort, Spec, objective, prepare

ALPHA = 2.5
SUPPORT = np.array([-2.0, -0.7, 0.1, 0.8, 2.2])[:, None]  # ν: these points with these weights
WEIGHTS = np.array([0.1, 0.3, 0.25, 0.2, 0.15])
POINTS = np.array([-1.0, 0.0, 0.5, 2.0])[:, None]
KERNEL = Gaussian(0.9)


def embedding_moments(points):
    """μ_ν and C_ν = r - μ_ν μ_νᵀ at points, by loops over the support."""
    mean = np.array([sum(w * KERNEL(s, u) for u, w in zip(SUPPORT, WEIGHTS, strict=True)) for s in points])
    r = np.array([
        [sum(w * KERNEL(s, u) * KERNEL(u, t) for u, w in zip(SUPPORT, WEIGHTS, strict=True)) for t in points]
        for s in points
    ])  # fmt: skip
    return mean, r - np.outer(mean, mean)


def test_r_is_the_prior_covariance_of_the_library():
    measure = EmpiricalMeasure(SUPPORT, WEIGHTS)
    mean, centred = embedding_moments(POINTS)
    r = KERNEL.convolved(measure)._gram(POINTS, POINTS)
    np.testing.assert_allclose(r, centred + np.outer(mean, mean), rtol=1e-12)


def test_embeddings_of_dirichlet_draws_have_these_moments():
    """Exactly: Dirichlet weights have covariance (diag w - wwᵀ)/(α + 1); and over 200,000 draws."""
    mean, centred = embedding_moments(POINTS)
    features = KERNEL._gram(POINTS, SUPPORT)
    covariance = (np.diag(WEIGHTS) - np.outer(WEIGHTS, WEIGHTS)) / (ALPHA + 1.0)
    np.testing.assert_allclose(features @ covariance @ features.T, centred / (ALPHA + 1.0), rtol=1e-10)
    draws = np.random.default_rng(0).dirichlet(ALPHA * WEIGHTS, size=200_000) @ features.T
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=2e-3)
    np.testing.assert_allclose(np.cov(draws.T), centred / (ALPHA + 1.0), atol=1e-3)


@pytest.mark.parametrize("n", [1, 7, 400])
def test_the_posterior_mean_is_flat_shrinkage(n):
    mean, centred = embedding_moments(POINTS)
    prior = centred / (ALPHA + 1.0)
    noise = ALPHA * centred / ((ALPHA + 1.0) * n)  # E Cov_P(φ)/n under the prior
    rows = np.random.default_rng(n).normal(size=(n, 1))
    observed = KERNEL._gram(POINTS, rows).mean(axis=1)
    posterior = mean + prior @ np.linalg.solve(prior + noise, observed - mean)
    np.testing.assert_allclose(posterior, (n * observed + ALPHA * mean) / (n + ALPHA), rtol=1e-8)


def test_the_expected_noise_is_that_of_dirichlet_draws():
    """E_P Cov_P(φ) = α/(α + 1) C_ν, over draws."""
    features = KERNEL._gram(POINTS, SUPPORT)
    draws = np.random.default_rng(1).dirichlet(ALPHA * WEIGHTS, size=50_000)
    second = np.einsum("su,tu,bu->st", features, features, draws) / len(draws)
    means = draws @ features.T
    centred = embedding_moments(POINTS)[1]
    expected = ALPHA / (ALPHA + 1.0) * centred
    np.testing.assert_allclose(second - means.T @ means / len(means), expected, atol=2e-3)


def test_the_objective_is_the_predictive_likelihood_of_the_model():
    """κ is the kernel at half its width, over its integral; ν has the background as its embedding."""
    rows = np.random.default_rng(2).normal(size=(9, 1))
    alpha = BACKGROUND * (len(rows) - 1) / (1.0 - BACKGROUND)
    width = KERNEL.lengthscale / NARROW

    def kappa(s, t):
        return np.exp(-0.5 * ((s - t) / width) ** 2) / (width * np.sqrt(2.0 * np.pi))

    predictive = []
    for i, row in enumerate(rows):
        others = np.delete(rows, i, axis=0)
        observed = np.mean([kappa(row, other) for other in others])
        background = sum(w * kappa(row, u) for u, w in zip(SUPPORT, WEIGHTS, strict=True))
        predictive.append((len(others) * observed + alpha * background) / (len(others) + alpha))
    squared = squared_distances(rows, rows)
    np.fill_diagonal(squared, 1e60)
    log_background = np.log(
        [sum(w * kappa(row, u) for u, w in zip(SUPPORT, WEIGHTS, strict=True)) for row in rows]
    )
    sums = log_profiles(KERNEL, squared, (NARROW / KERNEL.lengthscale) ** 2)
    inside = normalised(sums - np.log(8.0), KERNEL, 1)
    found = with_background(inside, log_background.ravel()).sum()
    assert found == pytest.approx(np.log(predictive).sum(), rel=1e-10)


def test_the_learner_maximises_it():
    """The same sum by loops, with the learner's own background, is the value that `learn_kernel` climbs."""
    rows = np.sort(np.random.default_rng(3).normal(size=(11, 1)), axis=0)
    family = family_of(Gaussian(), 1)
    prepared = prepare(rows, family, Effort(), np.random.default_rng(0))
    y, scale = prepared.frame.into(rows)[:, 0], 0.6
    width, alpha = scale / NARROW, BACKGROUND * 10 / (1.0 - BACKGROUND)
    total = 0.0
    for i in range(11):
        density = np.exp(-0.5 * ((y[i] - np.delete(y, i)) / width) ** 2) / (width * np.sqrt(2.0 * np.pi))
        background = np.exp(prepared.problem.log_background[i])
        total += np.log((density.sum() + alpha * background) / (10 + alpha))
    value = objective(Spec(family, None), np.array([np.log(scale)]), prepared.problem)[1]
    assert value == pytest.approx(total, rel=1e-10)

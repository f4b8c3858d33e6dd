"""Figure 2D in small: the published objective has the paper's mode, and its optimum follows the landmarks."""

import numpy as np
import pytest
from experiments.figure2 import mode_scales, published
from experiments.mixtures import grid_sample

from kembed import learn_kernel


@pytest.fixture(scope="module")
def x():
    return grid_sample(np.random.default_rng(7), rows=250)


def test_components_have_the_stated_covariance():
    sample = grid_sample(np.random.default_rng(0), rows=20_000, epsilon=2.0)
    offset = sample - 14.0 * np.round(sample / 14.0)
    # Eigenvalue 2 along (1, 1)/√2 and 1 across it: 1.5 on the diagonal, 0.5 off it.
    np.testing.assert_allclose(np.cov(offset[:20_000].T), np.eye(2), atol=0.04)
    np.testing.assert_allclose(np.cov(offset[20_000:].T), [[1.5, 0.5], [0.5, 1.5]], atol=0.06)


def test_published_objective_has_the_small_mode_and_a_large_one(x):
    # Eight samples of this size gave 0.78 to 0.87 for the small one; the paper says 0.85.
    learned = published(x)
    scales = mode_scales(learned)
    assert 0.5 < scales[0] == learned.kernel.lengthscale < 1.3
    assert 25.0 < scales[-1] < 40.0


def test_published_optimum_follows_the_noise_that_is_put_in(x):
    # The paper says its results were not sensitive to τ². From 0.3 to 10 they are not; at 0.03 they are.
    low, middle, high = (published(x, noise=noise).kernel.lengthscale for noise in (0.03, 0.3, 10.0))
    assert low > 50.0
    assert 0.5 < middle < high < 1.3


def test_published_optimum_falls_with_landmarks_and_the_leave_one_out_one_has_none(x):
    def scale(rule, count):
        return published(x, rule, count).kernel.lengthscale

    few, some, many = (scale("subset", count) for count in (20, 50, 100))
    assert few > some > many
    assert few > 5.0 * many  # 12 to 17 times over eight samples: 20 random rows resolve no cluster
    assert scale("support", 50) > 1.25 * scale("support", 100)
    (peak,) = mode_scales(learn_kernel(x))
    assert 0.3 < peak < 2.0  # the blobs have unit variance

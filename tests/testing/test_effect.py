"""Effect sizes: the interval of the MMD, and the share of rows that differ."""

import numpy as np
import pytest
from scipy.stats import norm

from kembed import compare
from kembed.kernels.space import make_space
from kembed.permutation.pool import make_pool
from kembed.tables.reader import read, read_tables
from kembed.tables.source import Source
from kembed.testing import effect
from kembed.testing.effect import (
    LARGEST,
    Moments,
    contrast_moments,
    effect_data,
    effect_size,
    fit_features,
    of_pool,
    summed,
)


def data_of(x, y, weights=None, clusters=None, strata=None):
    tables, _ = read_tables({"x": x, "y": y}, "raise", minimum=2)
    return of_pool(make_pool(list(tables), weights, "none", clusters, strata))


def moments_of(x, y, **how):
    """The moments of the difference of the columns' own means: the feature map is the identity."""
    data = data_of(x, y, **how)
    weights = np.bincount(data.cells, data.weights)[:, None]
    means = summed(lambda rows: data.values[rows], data.cells, data.weights) / weights
    return contrast_moments(data, lambda values: values, means)


def test_the_estimate_is_the_unbiased_mmd_of_the_features(rng):
    """Against a slow loop over pairs of rows."""
    x, y = rng.normal(size=(12, 3)), rng.normal(0.7, size=(9, 3))
    within = [
        np.mean([a @ b for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]) for rows in (x, y)
    ]
    unbiased = sum(within) - 2.0 * np.mean([a @ b for a in x for b in y])
    assert moments_of(x, y).square == pytest.approx(unbiased, rel=1e-9)


def test_the_ends_are_where_the_statistic_is_a_quantile(rng):
    """Of |w + S^½z|² with w along the largest eigenvector; R is one gamma variable exactly."""
    x, y = rng.normal(size=(60, 2)), rng.normal(0.6, size=(50, 2))
    S = np.cov(x.T) / 60 + np.cov(y.T) / 50
    T = np.sum((x.mean(axis=0) - y.mean(axis=0)) ** 2)
    eigenvalues, z = np.linalg.eigvalsh(S)[::-1], rng.normal(size=(2, 400_000))
    for level in (0.05, 0.01):
        for end, probability in zip(moments_of(x, y).interval(level), (1.0 - level, level), strict=True):
            assert end > 0.0
            drawn = (end + np.sqrt(eigenvalues[0]) * z[0]) ** 2 + eigenvalues[1] * z[1] ** 2
            error = np.sqrt(level * (1.0 - level) / z.shape[1])
            assert np.mean(drawn < T) == pytest.approx(probability, abs=5.0 * error)


def test_one_feature_by_hand():
    """Means 1 and 0, variances of the means 1/3 each: T = 1, S = 2/3, so that |δ + √(2/3) z| is 1."""
    moments = moments_of(np.array([0.0, 1.0, 2.0]), np.array([-1.0, 0.0, 1.0]))
    assert moments == pytest.approx((1.0, 2.0 / 3.0, 4.0 / 9.0, 2.0 / 3.0))
    assert moments.square == pytest.approx(1.0 / 3.0)
    low, high = moments.interval()
    assert low == 0.0  # at δ = 0 a |z| above √(3/2) has probability .22
    centre, root = high * np.sqrt(1.5), np.sqrt(1.5)
    assert norm.cdf(root - centre) - norm.cdf(-root - centre) == pytest.approx(0.05, rel=1e-9)


def test_errors_have_their_level_whatever_the_difference():
    """One direction of noise: at every true MMD each limit is wrong in 5% of samples, to the grid."""
    z = norm.ppf((np.arange(500) + 0.5) / 500)
    for mmd in (0.3, 1.0, 3.0, 8.0):
        found = [Moments((mmd + each) ** 2, 1.0, 1.0, 1.0) for each in z]
        smaller = np.array([moments.probability(mmd) for moments in found])
        assert np.mean(smaller > 0.95) == pytest.approx(0.05, abs=0.003)
        assert np.mean(smaller < 0.05) == pytest.approx(0.05, abs=0.003)
        low, high = found[450].interval()
        assert found[450].probability(high) == pytest.approx(0.05, rel=1e-6)
        assert low == 0.0 or found[450].probability(low) == pytest.approx(0.95, rel=1e-6)


def test_a_negative_estimate_has_the_upper_limit_of_no_difference():
    assert Moments(0.2, 1.0, 0.5, 0.6).interval() == Moments(1.0, 1.0, 0.5, 0.6).interval()


@pytest.mark.parametrize("eigenvalues", [[1.0, 0.5, 0.25, 0.1], [1.0] * 5, [1.0] + [0.05] * 40])
@pytest.mark.parametrize("mmd", [0.0, 1.0, 3.0])
def test_the_distribution_of_the_statistic(eigenvalues, mmd):
    """Against draws: 20,000 at .05 and .95 have a standard error of .0015."""
    values, z = np.array(eigenvalues), np.random.default_rng(0).normal(size=(20_000, len(eigenvalues)))
    T = (mmd + np.sqrt(values[0]) * z[:, 0]) ** 2 + np.square(z[:, 1:]) @ values[1:]
    for probability in (0.05, 0.95):
        quantile = float(np.quantile(T, probability))
        moments = Moments(quantile, values.sum(), np.square(values).sum(), values[0])
        assert moments.probability(mmd) == pytest.approx(probability, abs=0.012)


def test_copied_rows_as_clusters_have_the_interval_of_the_rows_alone(rng):
    x, y = rng.normal(size=(2, 20, 2))
    clusters = np.repeat(np.arange(20), 3), np.repeat(np.arange(20, 40), 3)
    copied = np.repeat(x, 3, axis=0), np.repeat(y, 3, axis=0)
    assert moments_of(*copied, clusters=clusters) == pytest.approx(moments_of(x, y), rel=1e-9)


def test_pairs_have_the_covariance_of_their_differences(rng):
    x = rng.normal(size=(30, 2))
    y = x + 0.3 * rng.normal(size=(30, 2)) + 0.2
    found = moments_of(x, y, clusters=[np.arange(30), np.arange(30)])
    S = np.cov((x - y).T) / 30
    T = np.sum((x - y).mean(axis=0) ** 2)
    expected = T, np.trace(S), np.trace(S @ S), np.linalg.eigvalsh(S)[-1]
    assert found == pytest.approx(expected, rel=1e-9)


def test_whole_weights_are_those_of_copied_rows_in_one_cluster(rng):
    x, y = rng.normal(size=(2, 10, 2))
    counts = rng.integers(1, 4, size=(2, 10))
    weighted = moments_of(x, y, weights=tuple(counts.astype(float)))
    copied = [np.repeat(rows, own, axis=0) for rows, own in zip((x, y), counts, strict=True)]
    clusters = np.repeat(np.arange(10), counts[0]), np.repeat(np.arange(10, 20), counts[1])
    assert weighted == pytest.approx(moments_of(*copied, clusters=clusters), rel=1e-9)


def test_strata_contrast_means_within_them(rng):
    """Weights n_s m_s / (n_s + m_s) of the strata, and their variances, in a loop."""
    x, y = rng.normal(size=(24, 2)), rng.normal(size=(30, 2))
    strata = rng.integers(0, 3, 24), rng.integers(0, 3, 30)
    weight, difference, S = 0.0, np.zeros(2), np.zeros((2, 2))
    for s in range(3):
        one, other = x[strata[0] == s], y[strata[1] == s]
        v = len(one) * len(other) / (len(one) + len(other))
        weight += v
        difference += v * (one.mean(axis=0) - other.mean(axis=0))
        S += v**2 * (np.cov(one.T) / len(one) + np.cov(other.T) / len(other))
    S /= weight**2
    T = np.sum((difference / weight) ** 2)
    expected = T, np.trace(S), np.trace(S @ S), np.linalg.eigvalsh(S)[-1]
    assert moments_of(x, y, strata=strata) == pytest.approx(expected, rel=1e-9)


def test_of_a_single_cluster_only_the_bounds_are_known(rng):
    x, y = rng.normal(size=(2, 10, 2))
    low, high = moments_of(x, y, clusters=[np.zeros(10, int), np.arange(1, 11)]).interval()
    assert low == 0.0
    assert high > LARGEST


def test_some_rows_stand_for_many_in_the_covariance(rng, monkeypatch):
    x, y = rng.normal(size=(4_000, 2)), rng.normal(size=(300, 2))
    every = moments_of(x, y)
    monkeypatch.setattr(effect, "DRAWN", 1_000)
    some = moments_of(x, y)
    assert some.square != every.square
    assert some[1:] == pytest.approx(every[1:], rel=0.1)


def test_landmarks_explain_the_kernel_and_find_outliers(rng):
    rows = rng.normal(size=(1_000, 2))
    rows[:10] += 50.0  # 1%: 256 random rows would miss their shape
    features = fit_features(make_space(rows, np.zeros(2, bool)))
    psi = features(rows)
    space = make_space(rows, np.zeros(2, bool))
    gram = np.exp(space.distances(space.rows, space.rows) / (-2.0 * space.median() ** 2))
    np.testing.assert_allclose(psi @ psi.T, gram, atol=1e-3)
    assert psi.shape[1] < 256


def test_samples_larger_than_memory_have_the_effect_of_all_rows(rng, monkeypatch):
    x, y = rng.normal(size=(3_000, 2)), rng.normal(0.2, size=(2_500, 2))
    sources = read({"x": x, "y": y}, nan_policy="raise", minimum=2)
    every = effect_size(effect_data(sources))
    monkeypatch.setattr(Source, "held", property(lambda self: False))
    monkeypatch.setattr(effect, "MOST_ROWS", 1_000)
    streamed = effect_data(sources)
    some = effect_size(streamed)
    assert len(streamed.values) == 2_000
    assert some.rows == every.rows == (3_000, 2_500)
    assert some.mmd == pytest.approx(every.mmd, rel=0.05)  # units and lengthscale of fewer rows
    assert some.interval == pytest.approx(every.interval, rel=0.1)
    clustered = effect_data(sources, unit=1)
    assert effect_size(clustered).rows == (1_000, 1_000)


@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_the_share_of_rows_that_differ(rng, shift):
    x, y = rng.normal(size=(1500, 1)), rng.normal(shift, size=(1500, 1))
    middle, low, high = effect_size(data_of(x, y)).share
    assert low < 2.0 * norm.cdf(shift / 2.0) - 1.0 < high + 0.02
    assert low < middle < high


def test_few_rows_have_no_share(rng):
    assert effect_size(data_of(rng.normal(size=(499, 1)), rng.normal(size=(600, 1)))).share is None


def test_units_and_order_do_not_matter(rng):
    x, y = rng.normal(size=(80, 2)), rng.normal(0.5, size=(70, 2))
    plain, other = effect_size(data_of(x, y)), effect_size(data_of(1e3 * y[::-1], 1e3 * x))
    assert (other.mmd, *other.interval) == pytest.approx((plain.mmd, *plain.interval), rel=1e-6)
    value, low, high = plain.normalised
    assert 0.0 <= low < value < high <= 1.0


def test_samples_with_nothing_in_common(rng):
    x, y = rng.normal(size=(300, 1)) * 1e-3, 1.0 + rng.normal(size=(300, 1)) * 1e-3
    assert effect_size(data_of(x, y)).normalised[2] <= 1.0


def test_compare_reports_both(rng):
    x, y = rng.normal(size=(60, 2)), rng.normal([1.0, 0.0], size=(60, 2))
    comparison = compare(x, y, n_resamples=99)
    assert comparison.bayes.posterior_probability > 0.99
    assert comparison.effect.interval[0] > 0.0
    assert "Effect size: 0." in repr(comparison)
    assert "Posterior probability of a difference" in repr(comparison)
    told = comparison.to_dict()
    assert told["bayes"]["e_value"] > 10.0
    assert told["effect_size"]["mmd"] == comparison.effect.mmd
    clustered = compare(x, y, n_resamples=99, unit=2)
    assert clustered.bayes is None
    assert clustered.to_dict()["bayes"] is None

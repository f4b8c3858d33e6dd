"""Effect sizes: the interval of the MMD, and the share of rows that differ."""

import numpy as np
import pytest
from scipy.stats import norm

from kembed import compare
from kembed.permutation.pool import make_pool
from kembed.tables.reader import read_tables
from kembed.testing.effect import QUANTILE, effect_size, mmd_interval


def pool_of(x, y, clusters=None):
    tables, _ = read_tables({"x": x, "y": y}, "raise", minimum=2)
    return make_pool(list(tables), None, "none", clusters)


def test_the_estimate_is_the_unbiased_mmd_of_the_features(rng):
    """Against a slow loop over pairs of rows."""
    x, y = rng.normal(size=(12, 3)), rng.normal(0.7, size=(9, 3))
    within = [
        np.mean([a @ b for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]) for rows in (x, y)
    ]
    unbiased = sum(within) - 2.0 * np.mean([a @ b for a in x for b in y])
    labels = np.repeat([1.0, 0.0], [12, 9])
    mmd, _ = mmd_interval(np.concatenate([x, y]), labels)
    assert mmd**2 == pytest.approx(unbiased, rel=1e-9)


def test_the_ends_are_where_the_statistic_is_q_deviations_away(rng):
    x, y = rng.normal(size=(60, 2)), rng.normal(0.6, size=(50, 2))
    labels = np.repeat([1.0, 0.0], [60, 50])
    _, ends = mmd_interval(np.concatenate([x, y]), labels)
    S = np.cov(x.T) / 60 + np.cov(y.T) / 50
    T = np.sum((x.mean(axis=0) - y.mean(axis=0)) ** 2)
    for end in ends:
        assert end > 0.0
        variance = 4.0 * end**2 * np.linalg.eigvalsh(S)[-1] + 2.0 * np.trace(S @ S)
        assert abs(T - end**2 - np.trace(S)) == pytest.approx(QUANTILE * np.sqrt(variance), rel=1e-9)


def test_one_feature_by_hand():
    """Means 1 and 0, variances of the means 1/3 each: T = 1, b = 1/3, S = 2/3."""
    features = np.array([0.0, 1.0, 2.0, -1.0, 0.0, 1.0])[:, None]
    mmd, (low, high) = mmd_interval(features, np.repeat([1.0, 0.0], 3))
    w = 2.0 * QUANTILE**2 * 2.0 / 3.0
    assert mmd == pytest.approx(np.sqrt(1.0 / 3.0))
    assert low == 0.0
    inner = w**2 + 2.0 * w / 3.0 + 2.0 * QUANTILE**2 * 4.0 / 9.0
    assert high == pytest.approx(np.sqrt(1.0 / 3.0 + w + np.sqrt(inner)))


def test_copied_rows_as_clusters_have_the_interval_of_the_rows_alone(rng):
    x = rng.normal(size=(40, 2))
    labels = np.repeat([1.0, 0.0], 20)
    mmd, alone = mmd_interval(x, labels)
    copied, clusters = np.repeat(x, 3, axis=0), np.repeat(np.arange(40), 3)
    again, together = mmd_interval(copied, np.repeat(labels, 3), clusters)
    assert (again, *together) == pytest.approx((mmd, *alone), rel=1e-9)


@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_the_share_of_rows_that_differ(rng, shift):
    x, y = rng.normal(size=(1500, 1)), rng.normal(shift, size=(1500, 1))
    middle, low, high = effect_size(pool_of(x, y)).share
    assert low < 2.0 * norm.cdf(shift / 2.0) - 1.0 < high + 0.02
    assert low < middle < high


def test_few_rows_have_no_share(rng):
    assert effect_size(pool_of(rng.normal(size=(499, 1)), rng.normal(size=(600, 1)))).share is None


def test_units_and_order_do_not_matter(rng):
    x, y = rng.normal(size=(80, 2)), rng.normal(0.5, size=(70, 2))
    plain, other = effect_size(pool_of(x, y)), effect_size(pool_of(1e3 * y[::-1], 1e3 * x))
    assert (other.mmd, *other.interval) == pytest.approx((plain.mmd, *plain.interval), rel=1e-6)
    value, low, high = plain.normalised
    assert 0.0 <= low < value < high <= 1.0


def test_samples_with_nothing_in_common(rng):
    x, y = rng.normal(size=(300, 1)) * 1e-3, 1.0 + rng.normal(size=(300, 1)) * 1e-3
    assert effect_size(pool_of(x, y)).normalised[2] <= 1.0


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

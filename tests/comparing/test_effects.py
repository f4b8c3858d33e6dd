"""Effect sizes and exact tests of shares, against SciPy and loops."""

import numpy as np
import pytest
from scipy import stats
from tests import reference

from kembed import compare
from kembed.comparing.column_effects import auc_interval, fisher_pvalue, superiority
from kembed.comparing.summaries import MOST_BARS, histogram
from kembed.core.ordering import middle_ranks
from kembed.permutation.nulls import holm


def test_ranks_and_superiority(rng):
    x, y = rng.integers(0, 5, 30).astype(float), rng.integers(1, 6, 20).astype(float)
    np.testing.assert_array_equal(middle_ranks(x), stats.rankdata(x))
    assert superiority(x, y) == pytest.approx(reference.superiority(y, x), rel=1e-14)


def test_fisher_is_that_of_scipy(rng):
    for _ in range(60):
        n, m = rng.integers(1, 60, 2)
        a, b = int(rng.integers(0, n + 1)), int(rng.integers(0, m + 1))
        wanted = stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue
        assert fisher_pvalue(a, int(n), b, int(m)) == pytest.approx(wanted, rel=1e-6)


def test_holm_counts_others():
    assert holm(np.array([0.01, 0.2]), others=3).tolist() == pytest.approx([0.05, 0.8])


def test_auc_intervals_cover(rng):
    """95% intervals of P(y > x) for two normals hold it in 93 to 98 of 100, 20 + 30 rows."""
    truth = stats.norm.cdf(1.0 / np.sqrt(2.0))
    inside = 0
    for _ in range(400):
        low, high = auc_interval(superiority(rng.normal(size=20), rng.normal(1.0, size=30)), 20, 30)
        inside += low <= truth <= high
    assert 0.92 <= inside / 400 <= 0.99  # 3 standard errors of 0.95 are 0.033


def test_a_histogram_shows_where(rng):
    x = rng.normal(size=2_000)
    y = np.where(rng.uniform(size=2_000) < 0.2, 2.0 + 0.1 * rng.normal(size=2_000), rng.normal(size=2_000))
    bars = histogram(x, y)
    assert len(bars.x) == MOST_BARS
    assert sum(bars.x) == pytest.approx(1.0)
    assert sum(bars.y) == pytest.approx(1.0)
    clump = np.searchsorted(bars.edges, 2.0) - 1
    assert bars.more[clump] == -1  # y has more there
    chance = [any(histogram(x, rng.normal(size=2_000)).more) for _ in range(40)]
    assert sum(chance) <= 7  # 5% of 40 are 2, and 7 or fewer in 99.9% of cases


def test_few_values_have_a_bar_each():
    bars = histogram(np.array([0.0, 0.0, 3.0]), np.array([3.0, 7.0]))
    assert bars.values == (0.0, 3.0, 7.0)
    assert bars.y == (0.0, 0.5, 0.5)


def test_missing_values_are_a_difference_of_their_own(rng):
    x, y = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    y[:90, 1] = np.nan
    x[:3, 0] = np.nan
    found = compare(x, y, missing="omit", n_resamples=99, labels=("old", "new"))
    (worst,) = found.missing
    assert worst.name == "column 1"
    assert worst.missing == (0.0, 0.3)
    plain = stats.fisher_exact([[0, 300], [90, 210]]).pvalue
    assert worst.missing_pvalue == pytest.approx(4 * plain)  # two columns with gaps, and two tests of values
    assert "Missing values differ: column 1 is missing in 0.0% of old and 30.0% of new" in found.verdict
    assert not compare(x[3:], y[90:], n_resamples=99).missing


def test_effects_of_columns(rng):
    x = rng.normal(size=(500, 1))
    (column,) = compare(x, x + 1.0, n_resamples=99).columns
    assert column.auc == pytest.approx(superiority(x[:, 0], x[:, 0] + 1.0))
    assert column.standardised == pytest.approx(1.0 / x.std(ddof=1))
    low, high = column.auc_interval
    assert low < column.auc < high


def test_the_effect_of_a_category_is_how_well_it_tells_samples_apart():
    x, y = ["a"] * 80 + ["b"] * 20, ["a"] * 30 + ["b"] * 70
    for first, second in ((x, y), (y, x)):
        (column,) = compare(np.array(first), np.array(second), n_resamples=99).columns
        assert column.auc == pytest.approx(0.75)


def test_means_are_told_with_digits_that_show_the_gap():
    years = np.repeat([2007.0, 2008.0, 2009.0], 40)
    (column,) = compare(years, np.repeat([2007.0, 2008.0, 2009.0], [45, 40, 35]), n_resamples=99).columns
    assert column.change.startswith("mean 2008 in x, 2007.917 in y")

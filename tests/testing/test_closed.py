"""P-values of columns and pairs are closed under the test of all columns: no output contradicts itself."""

import numpy as np
import pandas as pd
import pytest

from kembed import compare, mmd_test


def levels(rng, n, count=400, changed=False):
    """A category of many levels, none frequent; where it changed, odd levels are 2.2 times as likely."""
    weights = 1.0 + 1.2 * (np.arange(count) % 2) if changed else np.ones(count)
    codes = rng.choice(count, n, p=weights / weights.sum())
    return [f"level {code}" for code in codes]


@pytest.mark.parametrize("n", [2_400, 4_000])  # all pairs of rows, and features in bins
def test_the_test_of_the_only_column_is_the_test(n):
    rng = np.random.default_rng(0)
    x, y = pd.DataFrame({"tail": levels(rng, n)}), pd.DataFrame({"tail": levels(rng, n, changed=True)})
    found = compare(x, y, n_resamples=199)
    (column,) = found.columns
    assert found.test.pvalue <= 0.05  # Pearson's chi-square is 5 standard deviations and more above its mean
    assert (column.pvalue, column.adjusted_pvalue) == (found.test.pvalue, found.test.pvalue)
    assert found.changed == found.columns
    assert "No column" not in found.verdict


@pytest.mark.parametrize("n", [2_400, 4_000])
def test_a_change_spread_over_many_levels_is_found_in_its_column(n):
    rng = np.random.default_rng(1)
    x = pd.DataFrame({"tail": levels(rng, n), "noise": rng.normal(size=n)})
    y = pd.DataFrame({"tail": levels(rng, n, changed=True), "noise": rng.normal(size=n)})
    result = mmd_test(x, y, by_column=True, n_resamples=199, rng=0)
    assert result.columns[0].pvalue <= 0.02


@pytest.mark.parametrize(
    "seed", [4, 10, 12, 24]
)  # the overall p-value was above a column's, or lists differed
def test_adjusted_pvalues_are_closed_under_the_test_of_all(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 6)), rng.normal(size=(60, 6))
    y[:, 0] += 0.55
    result = mmd_test(x, y, by_column=True, rng=0, n_resamples=199)
    assert min(column.adjusted_pvalue for column in result.columns) >= result.pvalue
    assert min(finding.adjusted_pvalue for finding in result.findings) >= result.pvalue
    findings = {finding.columns: finding for finding in result.findings}
    for column in result.columns:
        same = findings[(column.name,)]
        assert (same.pvalue, same.adjusted_pvalue) == (column.pvalue, column.adjusted_pvalue)
    unordered = mmd_test(x, y, rng=0, n_resamples=199)
    assert min(finding.adjusted_pvalue for finding in unordered.findings) >= unordered.pvalue

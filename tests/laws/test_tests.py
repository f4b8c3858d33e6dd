"""Laws of tests: a p-value is a rank among relabelings, and is a function of the unordered samples."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.properties import numbers, pairs_of_tables, seeds

from kembed import Gaussian, compare, conditional_test, hsic_test, mmd_test
from kembed.core.ordering import sorted_rows
from kembed.core.shuffling import shuffled
from kembed.permutation.nulls import holm, resampled_pvalue, step_down

QUICK = {"kernel": "median", "n_resamples": 39}
values = arrays.arrays(float, st.integers(2, 30), elements=numbers)


@given(arrays.arrays(float, (7, 2), elements=numbers), st.sampled_from([Gaussian(1.0), "median"]))
def test_p_values_of_all_relabelings_are_ranks(rows, kernel):
    """With all 35 arrangements of 3 + 4 rows the p-values of all of them are at least uniform: exactness."""
    assume(len(np.unique(rows, axis=0)) > 1)
    found = []
    for chosen in combinations(range(7), 3):
        first = np.isin(np.arange(7), chosen)
        found.append(mmd_test(rows[first], rows[~first], kernel=kernel, n_resamples=99, rng=0).pvalue)
    found = np.array(found)
    for level in np.unique(found):
        assert (found <= level).mean() <= level + 1e-12  # never too many
    assert found.max() == 1.0  # some arrangement is the least surprising


@given(pairs_of_tables(), seeds, st.sampled_from(["unbiased", "biased"]))
def test_order_of_rows_and_samples_does_not_matter(samples, seed, statistic):
    x, y = samples
    turned = np.random.default_rng(seed).permutation(len(x))
    first = mmd_test(x, y, rng=0, statistic=statistic, **QUICK)
    assert mmd_test(x[turned], y, rng=0, statistic=statistic, **QUICK).pvalue == first.pvalue
    assert mmd_test(y, x, rng=0, statistic=statistic, **QUICK).pvalue == first.pvalue


@given(pairs_of_tables(rows=st.integers(5, 8)), st.sampled_from([0.25, 8.0]), st.integers(-8, 8))
def test_units_and_offsets_do_not_matter(samples, unit, offset):
    x, y = samples
    assert mmd_test(x * unit + offset, y * unit + offset, rng=0, **QUICK).pvalue == pytest.approx(
        mmd_test(x, y, rng=0, **QUICK).pvalue
    )


@given(arrays.arrays(float, (9, 2), elements=numbers), seeds)
def test_pairs_in_any_order(rows, seed):
    order = np.random.default_rng(seed).permutation(len(rows))
    x, y = rows[:, :1], rows[:, 1:]
    first = hsic_test(x, y, rng=0, **QUICK)
    assert hsic_test(x[order], y[order], rng=0, **QUICK).pvalue == first.pvalue
    assert hsic_test(y, x, rng=0, **QUICK).statistic == pytest.approx(first.statistic, abs=1e-12)


@given(pairs_of_tables(rows=st.just(6)))
def test_a_sample_does_not_differ_from_itself(samples):
    assert mmd_test(samples[0], samples[0][::-1], rng=0, **QUICK).pvalue == 1.0


@given(numbers, values)
def test_ranks(observed, draws):
    assert resampled_pvalue(observed, draws) == (1 + (draws >= observed).sum()) / (1 + len(draws))


@given(arrays.arrays(float, st.integers(1, 6), elements=st.integers(0, 20).map(lambda k: k / 20.0)))
def test_corrections_only_raise(pvalues):
    adjusted = holm(pvalues)
    assert (adjusted >= pvalues).all()
    assert (adjusted <= np.minimum(pvalues * len(pvalues), 1.0) + 1e-12).all()
    assert adjusted[np.argmin(pvalues)] == adjusted.min()


@given(arrays.arrays(float, (8, 3), elements=numbers))
def test_step_down_is_above_single_p_values(table):
    observed, draws = table[0], table[1:]
    single = np.array([resampled_pvalue(o, d) for o, d in zip(observed, draws.T, strict=True)])
    assert (step_down(observed, draws) >= single - 1e-12).all()


@given(st.integers(1, 300), seeds)
def test_keyed_orders_are_permutations(size, key):
    assert sorted(shuffled(np.arange(size), size, key).tolist()) == list(range(size))


@given(arrays.arrays(float, (12, 3), elements=numbers), seeds)
def test_conditional_tests_know_no_order(rows, seed):
    assume((np.ptp(rows, axis=0) > 0).all())
    order = np.random.default_rng(seed).permutation(len(rows))
    x, y, z = rows.T
    found = conditional_test(x, y, z, rng=0, n_resamples=19, kernel="median").pvalue
    assert (
        conditional_test(x[order], y[order], z[order], rng=0, n_resamples=19, kernel="median").pvalue == found
    )


@given(pairs_of_tables(rows=st.just(8)))
def test_separation_does_not_know_which_sample_is_first(samples):
    x, y = samples
    assume((sorted_rows(x) != sorted_rows(y)).any())
    how = {"kernel": "median", "n_resamples": 19}
    one, other = compare(x, y, **how), compare(y, x, **how)
    assert one.auc == pytest.approx(other.auc, abs=1e-12)
    assert 0.0 <= one.auc <= 1.0

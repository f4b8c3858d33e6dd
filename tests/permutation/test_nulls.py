"""Null distributions: counting, ties, enumeration, and approximations against long permutations."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy import stats
from tests import reference

from kembed import Gaussian, hsic_test, mmd_test
from kembed.features.kernel import kernel_matrix
from kembed.permutation import nulls


def test_the_data_count_as_one_of_the_draws():
    draws = np.arange(19.0)
    assert nulls.resampled_pvalue(18.5, draws) == 1 / 20
    assert nulls.resampled_pvalue(15.5, draws) == 4 / 20
    assert nulls.resampled_pvalue(-1.0, draws) == 1.0


def test_ties_count_against_the_data_even_when_rounding_parts_them():
    draws = np.array([0.0, 1.0, 2.0, 3.0])
    assert nulls.resampled_pvalue(3.0, draws) == 2 / 5
    assert nulls.resampled_pvalue(3.0 * (1 + 1e-15), draws) == 2 / 5
    assert nulls.resampled_pvalue(3.0 + 1e-6, draws) == 1 / 5  # not a tie
    assert nulls.resampled_pvalue(0.0, np.zeros(9)) == 1.0
    assert nulls.resampled_pvalue(1.0 + 2e-15, np.ones(9)) == 1.0
    assert nulls.resampled_pvalue(-1.0 + 2e-15, -np.ones(9)) == 1.0


def test_with_every_arrangement_the_data_are_among_them():
    every = np.array([4.0, 3.0, 2.0, 1.0])
    for rank, value in enumerate(every):
        assert nulls.resampled_pvalue(value, np.delete(every, rank)) == (rank + 1) / 4


@pytest.mark.parametrize("kernel", ["median", "fused", Gaussian(1.0)])
def test_two_and_two_rows_have_six_arrangements(kernel):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=2), rng.normal(size=2) + 10.0 * (seed % 2)
        result = mmd_test(x, y, kernel=kernel, rng=0)
        assert result.enumerated
        assert len(result.null_distribution) == 6
        assert 6 * result.pvalue == pytest.approx(round(6 * result.pvalue), abs=1e-12)
        assert result.pvalue >= 2 / 6 - 1e-12  # an arrangement and its mirror are the same


def test_enumeration_against_every_labeling(rng):
    x, y = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)) + 0.7
    z = np.concatenate([x, y])
    K = reference.gram(reference.gaussian(np.eye(2)), z, z)
    result = mmd_test(x, y, kernel=Gaussian(1.0), n_resamples=34, rng=0)  # 35 arrangements
    every = [
        reference.mmd2_loops(K, [i in rows for i in range(7)], biased=False)
        for rows in combinations(range(7), 3)
    ]
    assert result.enumerated
    np.testing.assert_allclose(np.sort(result.null_distribution), np.sort(every), atol=1e-13)
    assert result.pvalue == pytest.approx(np.mean(np.array(every) >= every[0] - 1e-12), abs=1e-15)
    few = mmd_test(x, y, kernel=Gaussian(1.0), n_resamples=33, rng=0)
    assert not few.enumerated
    assert len(few.null_distribution) == 33


@pytest.mark.parametrize("n_resamples", [1, 9, 99])
def test_p_is_never_zero(n_resamples, rng):
    x, y = rng.normal(size=30), rng.normal(size=30) + 20.0
    assert mmd_test(x, y, kernel="median", n_resamples=n_resamples, rng=0).pvalue == 1 / (n_resamples + 1)
    assert hsic_test(x, x, kernel="median", n_resamples=n_resamples, rng=0).pvalue == 1 / (n_resamples + 1)


LISTED = [Gaussian([0.3, 3.0]), Gaussian([3.0, 0.3]), Gaussian(1.0)]


def test_every_arrangement_as_the_data_is_compared_with_the_same_numbers():
    """With all arrangements at hand the null of a fused test must not depend on which of them came up."""
    z = np.random.default_rng(3).normal(size=(6, 2))
    found, pvalues = [], []
    for rows in combinations(range(6), 2):
        first = np.isin(np.arange(6), rows)
        result = mmd_test(z[first], z[~first], kernel=LISTED, rng=0)
        assert result.enumerated
        found.append(np.sort(result.null_distribution))
        pvalues.append(result.pvalue)
    np.testing.assert_allclose(np.sort(pvalues), np.arange(1, 16) / 15, atol=1e-12)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], (15, 15)), atol=1e-9)


def no_arrangement_too_often(pvalues):
    """#{p ≤ a} ≤ a · all, over all arrangements as the data."""
    for p in pvalues:
        assert np.mean(np.array(pvalues) <= p + 1e-12) <= p + 1e-12


def test_no_arrangement_is_rejected_too_often():
    """Exactness of the fused test with every arrangement."""
    for seed in range(10):
        z = np.random.default_rng(seed).normal(size=(6, 2))
        pvalues = []
        for rows in combinations(range(6), 2):
            first = np.isin(np.arange(6), rows)
            pvalues.append(mmd_test(z[first], z[~first], kernel=LISTED, rng=0).pvalue)
        no_arrangement_too_often(pvalues)


@pytest.mark.parametrize("kernel", ["fused", "median", LISTED])
def test_no_arrangement_of_tied_rows_is_rejected_too_often(kernel):
    z = np.random.default_rng(1).integers(0, 3, (7, 2)).astype(float)
    pvalues = []
    for rows in combinations(range(7), 3):
        first = np.isin(np.arange(7), rows)
        pvalues.append(mmd_test(z[first], z[~first], kernel=kernel, rng=0).pvalue)
    no_arrangement_too_often(pvalues)


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_no_pairing_of_tied_rows_is_rejected_too_often(kernel):
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 3, (2, 5, 1)).astype(float)
    pvalues = [hsic_test(x, y[list(order)], kernel=kernel, rng=0).pvalue for order in permutations(range(5))]
    no_arrangement_too_often(pvalues)


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_no_swap_of_pairs_is_rejected_too_often(kernel):
    """All 16 ways to turn four pairs whose sides depend on each other, one of them with equal sides."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=4)
    y = np.where(np.arange(4) < 1, x, 0.9 * x + rng.normal(size=4))
    pvalues = []
    for turned in product((False, True), repeat=4):
        sides = np.where(turned, y, x), np.where(turned, x, y)
        result = mmd_test(*sides, kernel=kernel, paired=True, rng=0)
        assert result.enumerated
        pvalues.append(result.pvalue)
    no_arrangement_too_often(pvalues)


# Approximations. Tolerances are in standard deviations of the permutation null.

LEVELS = [0.25, 0.5, 0.75, 0.9, 0.95]


@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
@pytest.mark.parametrize("null", ["gamma", "spectral"])
@pytest.mark.parametrize(("n", "m"), [(80, 80), (120, 50)])
def test_mmd_approximations_agree_with_a_long_permutation(n, m, null, statistic, rng):
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    options = {"kernel": "median", "statistic": statistic, "rng": 0}
    exact = mmd_test(x, y, n_resamples=3_999, **options)
    approximate = mmd_test(x, y, null=null, n_resamples=20_000, **options)
    assert approximate.statistic == pytest.approx(exact.statistic, abs=1e-12)
    spread = exact.null_distribution.std()
    gaps = np.quantile(approximate.null_distribution, LEVELS) - np.quantile(exact.null_distribution, LEVELS)
    assert np.abs(gaps / spread).max() < 0.15
    assert approximate.pvalue == pytest.approx(exact.pvalue, abs=0.05)


@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_hsic_approximations_agree_with_a_long_permutation(null, statistic, rng):
    x, y = rng.normal(size=(120, 1)), rng.normal(size=(120, 2))
    options = {"kernel": "median", "statistic": statistic, "rng": 0}
    exact = hsic_test(x, y, n_resamples=3_999, **options)
    approximate = hsic_test(x, y, null=null, n_resamples=20_000, **options)
    assert approximate.statistic == pytest.approx(exact.statistic, abs=1e-12)
    spread = exact.null_distribution.std()
    gaps = np.quantile(approximate.null_distribution, LEVELS) - np.quantile(exact.null_distribution, LEVELS)
    assert np.abs(gaps / spread).max() < 0.25
    assert approximate.pvalue == pytest.approx(exact.pvalue, abs=0.07)


def test_the_gamma_tail_is_scipys():
    mean, variance = 0.3, 0.02
    law = stats.gamma(mean**2 / variance, scale=variance / mean)
    for value in (0.0, 0.1, 0.5, 1.2):
        assert nulls.gamma_pvalue(value, mean, variance) == pytest.approx(law.sf(value), rel=1e-10)
    draws = nulls.gamma_draws(mean, variance, 20_000, np.random.default_rng(0))
    assert draws.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / 20_000))
    assert draws.var() == pytest.approx(variance, rel=0.05)
    assert nulls.gamma_pvalue(-1.0, mean, variance) == 1.0
    for no_law in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0), (np.nan, 1.0)):
        assert nulls.gamma_pvalue(0.5, *no_law) == 1.0
        np.testing.assert_array_equal(nulls.gamma_draws(*no_law, 3, np.random.default_rng(0)), np.zeros(3))


def test_the_spectrum_against_the_centred_matrix(rng):
    x = rng.normal(size=(30, 2))
    K = reference.gram(reference.gaussian(np.eye(2)), x, x)
    H = np.eye(30) - 1 / 30
    expected = np.sort(np.linalg.eigvalsh(H @ K @ H / 30))[::-1]
    found = nulls.spectrum(kernel_matrix(Gaussian(1.0), x), rng)
    np.testing.assert_allclose(found, expected[: len(found)], atol=1e-12)
    assert found.sum() >= (1 - 1.01e-4) * expected.sum()
    assert (np.diff(found) <= 0.0).all()


def test_the_spectrum_of_many_rows_is_that_of_some(rng, monkeypatch):
    monkeypatch.setattr(nulls, "SPECTRUM_ROWS", 20)
    x = rng.normal(size=(40, 1))
    found = nulls.spectrum(kernel_matrix(Gaussian(0.3), x), np.random.default_rng(1))
    part = x[np.sort(np.random.default_rng(1).choice(40, 20, replace=False))]
    np.testing.assert_allclose(found, nulls.spectrum(kernel_matrix(Gaussian(0.3), part), rng), atol=1e-12)
    assert 0.3 < found.sum() < 1.0  # the trace of HKH/n, of entries between 0 and 1


def test_leading_eigenvalues_by_hand():
    np.testing.assert_array_equal(nulls.leading(np.array([1e-6, 3.0, -1.0, 1.0, 2e-6])), [3.0, 1.0])
    np.testing.assert_array_equal(nulls.leading(np.array([0.0003, 0.9997])), [0.9997, 0.0003])
    np.testing.assert_array_equal(nulls.leading(np.array([-1.0, 0.0, -2.0])), [0.0])


def test_chi_squares_in_several_parts():
    """Four million normal numbers at a time: here 2,500 draws and 500."""
    w = np.full(1_600, 1.0 / 1_600)
    draws = nulls.weighted_chi_squares(w, 3_000, np.random.default_rng(0))
    assert draws.shape == (3_000,)
    for part in (draws[:2_500], draws[2_500:]):
        assert part.mean() == pytest.approx(1.0, abs=0.01)
        assert part.std() == pytest.approx(np.sqrt(2 / 1_600), rel=0.1)


def test_weighted_chi_squares_have_their_mean_and_variance():
    w = np.array([1.0, 0.5, 0.1])
    draws = nulls.weighted_chi_squares(w, 40_000, np.random.default_rng(0))
    assert draws.mean() == pytest.approx(w.sum(), abs=5 * np.sqrt(2 * (w**2).sum() / 40_000))
    assert draws.var() == pytest.approx(2 * (w**2).sum(), rel=0.1)


# Several columns.


def test_step_down_against_a_loop(rng):
    for _ in range(20):
        draws = rng.normal(size=(39, 5))
        observed = rng.normal(size=5) + rng.uniform(0.0, 2.0)
        found = nulls.step_down(observed, draws)
        np.testing.assert_allclose(found, reference.step_down_loops(observed, draws), atol=1e-15)
        assert (np.diff(np.array(found)[np.argsort(-observed)]) >= 0.0).all()
        for p, t, column in zip(found, observed, draws.T, strict=True):
            assert p >= nulls.resampled_pvalue(float(t), column)


def test_hundreds_of_columns_as_one_at_a_time(rng):
    """They are worked on 64 at a time, and nobody sees the seams."""
    draws, observed = rng.normal(size=(19, 150)), rng.normal(size=150) + 1.0
    alone = [nulls.resampled_pvalue(float(t), column) for t, column in zip(observed, draws.T, strict=True)]
    np.testing.assert_array_equal(nulls.column_pvalues(observed, draws), alone)
    np.testing.assert_allclose(
        nulls.step_down(observed, draws), reference.step_down_loops(observed, draws), atol=1e-15
    )


def test_holm_by_hand():
    """Factors 3, 2, 1, never falling and never above 1; two others make them 5, 4, 3."""
    p = np.array([0.4, 0.01, 0.3])
    np.testing.assert_allclose(nulls.holm(p), [0.6, 0.03, 0.6])
    np.testing.assert_allclose(nulls.holm(p, others=2), [1.0, 0.05, 1.0])


def test_step_down_of_one_column_changes_nothing(rng):
    draws = rng.normal(size=(50, 1))
    assert nulls.step_down(np.array([1.0]), draws) == [nulls.resampled_pvalue(1.0, draws[:, 0])]


# Time series.


@pytest.mark.parametrize("memory", [1.0, 5.0])
def test_wild_weights_have_variance_one_and_the_right_memory(memory):
    W = nulls.wild_weights(1_000, 400, memory, np.random.default_rng(0))
    np.testing.assert_allclose(W.mean(axis=0), 0.0, atol=1e-12)
    decay = np.exp(-1.0 / memory)
    lost = (1 + decay) / (1 - decay) / 1_000  # variance that centring takes away
    assert (W**2).mean() == pytest.approx(1.0 - lost, abs=0.01)
    for first in W[:3]:  # stationary from the start
        assert (first**2).mean() == pytest.approx(1.0, abs=0.4)
    assert (W[1:] * W[:-1]).mean() == pytest.approx(decay - lost, abs=0.01)
    assert (W[3:] * W[:-3]).mean() == pytest.approx(decay**3 - lost, abs=0.01)

"""Numbers at the ends of what floats hold: a statistic that is not finite is an error, never a small p."""

import re

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from kembed import (
    Delta,
    DriftDetector,
    Gaussian,
    Landmarks,
    Matern32,
    choose_landmarks,
    compare,
    conditional_test,
    hsic_test,
    k_sample_test,
    learn_kernel,
    mmd_test,
    pc,
    shrinkage,
    witness,
)
from kembed.features.pairs import _chosen
from kembed.permutation.fusion import Values
from kembed.permutation.pool import row_weights
from kembed.tables.reader import read_tables

QUICK = {"n_resamples": 19, "rng": 0}
NOT_FINITE = (
    "the statistic is not finite: rows or lengthscales .*; divide the columns by a constant, or change"
)
X = np.random.default_rng(0).normal(size=(30, 2))


def pvalue(call) -> float | None:
    """The p-value, or None where there is none and it is said why."""
    try:
        return call().pvalue
    except ValueError as error:
        if "the statistic is not finite" not in str(error):
            raise
        return None


def test_the_largest_numbers_are_refused():
    large = np.clip(X / 4.0, -1.0, 1.0) * 1.7e308
    for test in (mmd_test, hsic_test, compare):
        with pytest.raises(
            ValueError, match=r"has numbers beyond 1e\+300, .*; divide the column by a constant"
        ):
            test(large, large, **QUICK)


@pytest.mark.parametrize("kernel", ["fused", "median", "median-raw", "bkl", Gaussian(1.0)], ids=str)
def test_large_numbers_against_themselves(kernel):
    large = np.clip(X / 4.0, -1.0, 1.0) * 1e300
    assert pvalue(lambda: mmd_test(large, large, kernel=kernel, **QUICK)) in (None, 1.0)
    assert pvalue(lambda: mmd_test(large, large, kernel=kernel, statistic="features", **QUICK)) in (None, 1.0)


@pytest.mark.parametrize("lengthscale", [5e-324, 1e-320, 1e-310])
def test_lengthscales_that_nothing_can_be_divided_by(lengthscale):
    """Every row is alone, so that no pairing is another; or it is said that there is no statistic."""
    kernel = Gaussian(lengthscale)
    assert np.array_equal(kernel.gram(X), np.eye(len(X)))
    for test in (mmd_test, hsic_test):
        assert pvalue(lambda test=test: test(X, X[::-1].copy(), kernel=kernel, **QUICK)) in (None, 1.0)


@pytest.mark.parametrize("size", [1e154, 1e200, 1e-154, 1e-200, 1e-300])
@pytest.mark.parametrize("kernel", ["fused", "median", "object"])
def test_features_of_any_size(size, kernel):
    rows, chosen = (X, Gaussian(size)) if kernel == "object" else (X * size, kernel)
    found = pvalue(lambda: mmd_test(rows, rows.copy(), kernel=chosen, statistic="features", **QUICK))
    assert found in (None, 1.0)


@pytest.mark.parametrize("size", [1e100, 1e155, 1e160, 1e165, 1e200, 1e-155, 1e-165, 1e-200])
@pytest.mark.parametrize(
    "make",
    [
        lambda size: "median",
        lambda size: Matern32(2.0 * size),
        lambda size: Gaussian(2.0 * size) + Gaussian(0.5 * size),
    ],
    ids=["median", "Matérn", "sum"],
)
def test_features_find_a_shift_whatever_the_size(size, make):
    """Squares of these lengthscales are no numbers, and their frequencies were all 0: p = 1."""
    x, y = np.random.default_rng(1).normal(size=(2, 40, 2))
    y += 1.5
    found = mmd_test(x * size, y * size, kernel=make(size), statistic="features", **QUICK)
    assert found.pvalue == 1.0 / (QUICK["n_resamples"] + 1)


@pytest.mark.parametrize("way", [{"statistic": "features"}, {"null": "normal"}], ids=str)
def test_crossed_features_of_lengthscales_that_nothing_can_be_divided_by(way):
    for size in (1e-200, 1e7, 1e154):
        found = pvalue(lambda size=size: hsic_test(X, X[::-1].copy(), kernel=Gaussian(size), **way, **QUICK))
        if size < 1.0 and "null" in way:  # every row alone: the law that is drawn from still has a spread
            assert found > 0.05
        else:
            assert found in (None, 1.0)


def test_a_wild_statistic_that_is_no_number():
    found = pvalue(lambda: hsic_test(X, X[::-1], kernel=Gaussian(1e-320), null="wild", **QUICK))
    assert found is None or found > 0.05  # every row alone: multipliers still have a spread


def test_equality_of_numbers_by_features():
    """A kernel of equal or not has no table of levels where columns hold numbers."""
    rows = np.round(X[:, :1])
    for statistic in ("features", "unbiased"):
        how = {"kernel": Delta(), "statistic": statistic, **QUICK}
        assert mmd_test(rows, rows + 0.5, **how).pvalue == 0.05
        assert mmd_test(rows, rows.copy(), **how).pvalue > 0.05


def test_kernels_that_are_not_real():
    with pytest.raises(ValueError, match="kernel returned complex numbers; return real ones"):
        mmd_test(X, X + 1.0, kernel=lambda a, b: (a @ b.T) * (1.0 + 1.0j), **QUICK)


@pytest.mark.parametrize("null", ["permutation", "gamma", "spectral", "wild"])
def test_constants(null):
    one = np.full((20, 1), 3.0)
    how = QUICK | {"kernel": "median", "null": null, "statistic": "biased" if null == "wild" else "unbiased"}
    assert mmd_test(one, one, **how).pvalue == 1.0
    assert hsic_test(one, X[:20], **how).pvalue == 1.0
    assert hsic_test(X[:20], one, **how).pvalue == 1.0


def test_what_is_no_number_is_not_the_largest():
    for bad in (np.nan, np.inf, -np.inf):
        values = Values(np.array([[bad], [1.0], [2.0]]), np.ones(1))
        for scaled in (True, False):
            with pytest.raises(ValueError, match=NOT_FINITE):
                values.merged(scaled)


def test_levels_that_cannot_be_reached():
    message = (
        r"alpha=0.005 is less than 0.01, the smallest p-value of 99 resamples; use n_resamples=199 or more"
    )
    with pytest.raises(ValueError, match=message):
        compare(X, X, alpha=0.005, n_resamples=99)
    with pytest.raises(ValueError, match=message):
        DriftDetector(alpha=0.005, n_resamples=99).fit(X)
    for alpha, least in ((0.05, 19), (0.01, 99), (0.025, 39), (1 / 3, 2)):
        DriftDetector(alpha=alpha, n_resamples=least).fit(X)
        with pytest.raises(ValueError, match=f"use n_resamples={least} or more"):
            DriftDetector(alpha=alpha, n_resamples=least - 1).fit(X)


def test_levels_that_no_number_of_resamples_reaches():
    for alpha in (1e-7, 1e-320):
        with pytest.raises(ValueError, match="no more than 1,000,000 are drawn, so use a larger alpha"):
            compare(X, X, alpha=alpha, n_resamples=99)


@pytest.mark.parametrize("rule", ["support", "quantiles"])
def test_landmarks_of_the_largest_numbers(rule):
    rows = np.clip(X[:, :1] / 2.0, -1.0, 1.0)
    found = choose_landmarks(rows * 1.7e308, Landmarks(rule, 4))
    assert found / 1.7e308 == pytest.approx(choose_landmarks(rows, Landmarks(rule, 4)))


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_trends_of_any_size(size):
    """A spread that is infinite, or none, would say that there is no trend."""
    time = np.arange(60.0)
    column = np.sin(time / 15.0) + 0.1 * np.random.default_rng(0).normal(size=60)
    plain, found = (
        conditional_test(factor * column, time[::-1] % 7, prewhiten=time, **QUICK) for factor in (1.0, size)
    )
    assert found.pvalue == plain.pvalue
    assert plain.prewhitened[0].lengthscale is not None
    assert found.prewhitened[0].lengthscale == pytest.approx(plain.prewhitened[0].lengthscale)


@pytest.mark.parametrize("statistic", ["unbiased", "biased", "features"])
@pytest.mark.parametrize("size", [1e160, 1e-160, 1e308, 1e-300])
def test_only_the_ratios_of_weights_count(size, statistic):
    y, rows = X[::-1] + 0.4, np.linspace(1.0, 2.0, len(X))
    how = {"kernel": "median", "statistic": statistic, **QUICK}
    plain, scaled = (
        mmd_test(X, y, weights=(rows * factor, rows[::-1] * factor), **how) for factor in (1.0, size / 2.0)
    )
    assert scaled.pvalue == plain.pvalue
    assert scaled.statistic == pytest.approx(plain.statistic, rel=1e-9)


def test_weights_that_are_nothing_beside_others():
    one = np.ones(len(X))
    with pytest.raises(ValueError, match=r"weights go from 1 to 1e\+160.*leave those rows out"):
        mmd_test(X, X, weights=(1e160 * one, one))


@pytest.mark.parametrize("statistic", ["unbiased", "biased", "features"])
def test_weights_that_a_few_rows_have_all_of(statistic):
    """Sums of squares of the others are lost beside them: statistics were wrong, or not finite."""
    one = np.ones(len(X))
    how = {"kernel": Gaussian(1.0), "statistic": statistic, **QUICK}
    few = np.where(np.arange(len(X)) < 3, 1.0, 1e-9)
    for weights in ((few, 1e-9 * one), (one, 1e-9 * one), (1e-20 * one, few)):
        with pytest.raises(
            ValueError, match=r"weights of 10 rows, or of one sample, are nearly all there is;"
        ):
            mmd_test(X, X[::-1] + 0.4, weights=weights, **how)
    uneven = np.random.default_rng(0).lognormal(0.0, 2.0, len(X))
    assert 0.0 < mmd_test(X, X + 0.4, weights=(uneven, uneven[::-1]), **how).pvalue <= 1.0


@pytest.mark.parametrize("light", [1e-2, 1e-4])
def test_uneven_weights(light):
    y, heavy = X[:20] + 0.4, np.where(np.arange(len(X)) < 15, 1.0, light)
    weights, kernel = (heavy, np.full(20, light)), Gaussian(1.0)
    within = 0.0
    for rows, w in zip((X, y), weights, strict=True):
        pairs = [(i, j) for i in range(len(w)) for j in range(len(w)) if i != j]
        total = sum(w[i] * w[j] for i, j in pairs)
        within += sum(w[i] * w[j] * kernel(rows[i], rows[j]) for i, j in pairs) / total
    between = weights[0] @ kernel.gram(X, y) @ weights[1] / (weights[0].sum() * weights[1].sum())
    found = mmd_test(X, y, kernel=kernel, statistic="unbiased", weights=weights, **QUICK).statistic
    assert found == pytest.approx(within - 2.0 * between, abs=1e-6)


def test_more_resamples_than_memory_holds():
    message = "n_resamples must be at most 1,000,000, but 100,000,000 was given"
    for call in (
        lambda n: mmd_test(X, X, n_resamples=n),
        lambda n: hsic_test(X, X, n_resamples=n),
        lambda n: compare(X, X, n_resamples=n),
        lambda n: conditional_test(X, X, X, n_resamples=n),
        lambda n: pc(X, n_resamples=n),
        lambda n: DriftDetector(n_resamples=n).fit(X),
    ):
        with pytest.raises(ValueError, match=message):
            call(10**8)


def test_thousands_of_columns():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 2_500))
    assert mmd_test(wide[:20, :600], wide[20:, :600] + 0.5, **QUICK).pvalue == 0.05
    with pytest.raises(ValueError, match=r"x has 2,500 columns.*2,000 columns at most"):
        learn_kernel(wide)
    with pytest.raises(ValueError, match=r"data has 2,500 variables.*choose 1,000 at most"):
        pc(wide, test="fisher-z")


def test_pairs_of_columns_that_are_looked_at():
    first = np.random.default_rng(0).normal(size=(30, 70)).round(1)  # 2,415 pairs, of which 2,016 are
    correlation = np.abs(first.T @ first).round(9)
    every = [(-correlation[a, b], a, b) for a in range(70) for b in range(a + 1, 70)]
    expected = sorted(sorted(every)[:2_016], key=lambda one: one[1:])
    assert list(zip(*_chosen(first), strict=True)) == [(a, b) for _, a, b in expected]


@pytest.mark.parametrize("size", [1e100, 1e154, 1e300, 1e-100, 1e-200, 1e-310])
@pytest.mark.parametrize(
    "way", [{}, {"statistic": "features"}, {"null": "gamma"}, {"null": "spectral"}, {"null": "wild"}], ids=str
)
def test_kernels_of_which_products_are_no_numbers(size, way):
    """Spreads of statistics are such products: infinite, they would say p = 1 of what differs."""
    gaussian = Gaussian(1.0)
    y = X + np.random.default_rng(1).normal(size=X.shape)
    for kernel in (size * gaussian, lambda a, b: size * gaussian.gram(a, b)):
        for test in (mmd_test, hsic_test):
            how = way | ({"statistic": "biased"} if way.get("null") == "wild" else {})
            with pytest.raises(ValueError, match=re.escape(f"kernel has values of {size:.3g}, and")):
                test(X, y, kernel=kernel, **how, **QUICK)
    for call in (
        lambda kernel: conditional_test(X[:, 0], y[:, 0], X[:, 1], kernel=kernel, **QUICK),
        lambda kernel: k_sample_test(X, y, X[:9], kernel=kernel, **QUICK),
        lambda kernel: witness(X, y, kernel=kernel),
        lambda kernel: shrinkage(X, kernel),
    ):
        with pytest.raises(ValueError, match="multiply it by a constant"):
            call(size * gaussian)


@pytest.mark.parametrize("size", [1e49, 1e-49])
@pytest.mark.parametrize("statistic", ["unbiased", "biased", "features"])
def test_a_factor_of_a_kernel_changes_nothing(size, statistic):
    y = X + np.random.default_rng(1).normal(size=X.shape)
    how = QUICK | {"statistic": statistic}
    for test in (mmd_test, hsic_test):
        plain, scaled = (test(X, y, kernel=factor * Gaussian(1.0), **how) for factor in (1.0, size))
        power = 2 if test is hsic_test else 1
        assert scaled.pvalue == plain.pvalue
        assert scaled.statistic == pytest.approx(plain.statistic * size**power, rel=1e-6)


@pytest.mark.parametrize("statistic", ["unbiased", "features"])
def test_what_functions_return_that_is_no_matrix_of_numbers(statistic):
    gram = Gaussian(1.0).gram
    how = QUICK | {"statistic": statistic}
    for returned, message in (
        (lambda a, b: np.full((len(a), len(b)), "a"), "what kernel returned must hold numbers.*text"),
        (lambda a, b: sparse.csr_matrix(gram(a, b)), "what kernel returned is a sparse matrix"),
        (lambda a, b: np.ma.masked_less(gram(a, b), 0.1), "kernel returned values that are not finite"),
        (lambda a, b: None, "what kernel returned must hold numbers, but None"),
    ):
        for test in (mmd_test, hsic_test):
            with pytest.raises((TypeError, ValueError), match=message):
                test(X, X + 1.0, kernel=returned, **how)
    assert mmd_test(X, X + 1.0, kernel=lambda a, b: np.zeros((len(a), len(b))), **how).pvalue == 1.0


def test_features_of_a_kernel_that_is_negative():
    with pytest.raises(ValueError, match="kernel is not positive definite, so that it has no features"):
        mmd_test(X, X + 1.0, kernel=lambda a, b: -Gaussian(1.0).gram(a, b), statistic="features", **QUICK)


@pytest.mark.parametrize(
    "moved", [lambda v: v * 1e299, lambda v: v * 1e-200, lambda v: v + 1e12, lambda v: v * 1e-290 + 1e-280]
)
def test_correlations_of_any_size_and_place(moved):
    """No column of these is constant, and none explains another."""
    rows = np.round(np.random.default_rng(0).normal(size=(60, 3)), 3)
    rows[:, 1] += rows[:, 0]
    plain, found = pc(rows, test="fisher-z"), pc(moved(rows), test="fisher-z")
    assert [str(edge) for edge in found.edges] == [str(edge) for edge in plain.edges]
    first, second = (
        conditional_test(*values.T, kernel="median", **QUICK).linear for values in (rows, moved(rows))
    )
    assert second.correlation == pytest.approx(first.correlation, abs=1e-3)
    assert second.pvalue == pytest.approx(first.pvalue, rel=1e-2)


def test_features_of_a_kernel_that_is_positive_by_rounding_alone():
    """Eigenvalues from -615 to 2e-13: the features would be those of rounding."""
    x, y = np.random.default_rng(0).normal(size=(2, 120, 2))
    with pytest.raises(ValueError, match="kernel is not positive definite, so that it has no features"):
        mmd_test(x, y + 2.0, kernel=lambda a, b: -(a @ b.T), statistic="features", **QUICK)


def test_even_weights_of_a_small_sample_beside_a_large_one():
    """A row is a row: what is refused is a light one, not a sample of few."""
    x, y = np.zeros((20, 1)), np.zeros((2_000_000, 1))
    tables = [read_tables({name: rows}, "raise", minimum=2)[0][0] for name, rows in (("x", x), ("y", y))]
    found = row_weights((np.ones(20), np.ones(2_000_000)), tables)
    assert all((v == found[0][0]).all() for v in found)
    with pytest.raises(ValueError, match="or of one sample, are nearly all there is"):
        row_weights((np.full(20, 1e-7), np.ones(2_000_000)), tables)


@pytest.mark.parametrize("test", [mmd_test, hsic_test, k_sample_test])
def test_columns_of_the_smallest_floats_are_named(test):
    x = np.random.default_rng(0).normal(size=(2, 50)) * 5e-324
    with pytest.raises(
        ValueError, match=r"column 'u' of .* has no number beyond 1e-318.*multiply the column"
    ):
        test(pl.DataFrame({"u": x[0]}), pl.DataFrame({"u": x[1]}), **QUICK)


def test_names_without_a_table_are_answered_with_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (lambda: hsic_test("a", "b"), lambda: conditional_test("a", "b", "c")):
        with pytest.raises(ValueError, match=r"does not exist.*names of columns together with data=.*array"):
            call()

"""The conditional test: statistic, null, invariances, bad input, cache."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.signal import lfilter

from kembed import ConditionalTester, Gaussian, conditional_test
from kembed.conditional.features import BINNED_ROWS, BINS
from kembed.conditional.prewhitening import autocorrelation, prewhiten, times
from kembed.conditional.regression import Conditioner
from kembed.conditional.residuals import as_variable, log_tails, variable_residuals
from kembed.kernels.space import make_space
from kembed.learning.kernel_words import choose_kernel
from kembed.permutation.series import crossed, lack

NUMERIC = np.zeros(1, dtype=bool)


def confounded(n=150, seed=0, link=0.0):
    """X and Y with a common cause Z, and a direct link of this strength."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    x = np.sin(z) + 0.5 * rng.normal(size=n)
    return x, np.exp(z) + link * x + 0.5 * rng.normal(size=n), z


def pvalue(x, y, given=None, **options):
    return conditional_test(x, y, given, rng=0, **{"n_resamples": 199} | options).pvalue


# The statistic and its null.


def test_many_rows_are_tested_in_bins_and_it_is_said():
    x, y, z = confounded(BINNED_ROWS + 100)
    table = np.column_stack([x, y, z])
    tester = ConditionalTester(table, n_resamples=99)
    given = tester.test(0, 1, [2])
    plain = tester.test(0, 1)
    assert (given.null, given.bins) == ("multiplier", (BINS,))
    assert given.pvalue > 0.05
    assert (plain.null, plain.bins, plain.pvalue) == ("permutation", (32,), 0.01)
    assert tester.test(1, 0, [2]).pvalue == given.pvalue
    few = ConditionalTester(table[:200], n_resamples=99).test(0, 1, [2])
    assert few.bins == ()


def test_noise_that_is_bent_with_its_cause_is_no_dependence():
    """tanh(u + a) and (u + b)³, u the sum of five columns: the shape of what is left depends on u.

    Without the indices five of these ten draws are rejected at .05; of a level of .05 three or more would
    be about once in ninety times.
    """
    pvalues = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Z, (a, b) = rng.normal(size=(2_500, 5)), rng.normal(size=(2, 2_500))
        u = Z.sum(axis=1) / np.sqrt(5.0)
        pvalues.append(pvalue(np.tanh(u + a), (u + b) ** 3, Z))
    assert np.sum(np.array(pvalues) <= 0.05) <= 2


def test_centring_by_an_index_takes_out_its_functions():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 6))
    index = Z @ np.full(6, 0.4)
    F = np.column_stack([np.sin(3.0 * index), np.cos(3.0 * index)]) + 0.1 * rng.normal(size=(600, 2))
    given = Conditioner(Z)
    without, _ = given.centred(F)
    left, freedom = given.centred(F, given.index_bases(index[:, None]))
    assert left.var() < 0.02 < 0.2 < without.var()
    assert 4.0 < freedom < 80.0
    assert given.index_bases(np.ones((600, 1))) == []  # what does not vary says nothing


def test_centring_takes_out_what_z_says():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 1))
    F = np.column_stack([np.sin(Z[:, 0]), np.cos(Z[:, 0])]) + 0.1 * rng.normal(size=(300, 2))
    left, freedom = Conditioner(Z).centred(F)
    assert left.var() < 0.02
    assert 2.0 < freedom < 40.0
    noise = rng.normal(size=(300, 2))
    np.testing.assert_allclose(Conditioner(Z).centred(noise)[0].var(), noise.var(), rtol=0.05)


def test_regression_finds_the_mean_and_ignores_noise():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(300, 3))
    given = Conditioner(Z)
    assert given.fit(Z[:, 0] * Z[:, 1] + rng.normal(size=300)) is not None
    assert sum(given.fit(rng.normal(size=300)) is not None for _ in range(20)) <= 4


def test_spread_that_depends_on_z_is_taken_out():
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(400, 1)), rng.normal(size=400)
    variable = as_variable((np.exp(z[:, 0]) * noise)[:, None], NUMERIC)
    given = Conditioner(as_variable(z, NUMERIC).columns)
    found = variable_residuals(variable, given)

    def dependence(columns):
        return abs(np.corrcoef(np.log(np.abs(columns[:, 0]) + 0.02), z[:, 0])[0, 1])

    assert dependence(variable.columns) > 0.5
    assert dependence(found.columns) < 0.2
    assert found.regressions[0].scale is not None


def test_log_tails_are_identity_inside_and_increasing():
    t = np.linspace(-50, 50, 1_001)
    inside = np.abs(t) <= 3
    np.testing.assert_array_equal(log_tails(t)[inside], t[inside])
    assert (np.diff(log_tails(t)) > 0).all()
    assert np.abs(log_tails(np.array([1e12]))) < 40


# The test.


def test_common_cause_is_seen_through():
    x, y, z = confounded()
    assert pvalue(x, y) == 0.005
    assert pvalue(x, y, z) > 0.05
    x, y, z = confounded(link=0.6)
    assert pvalue(x, y, z) < 0.02


def test_multiplicative_noise_is_no_dependence():
    rng = np.random.default_rng(3)
    z = rng.normal(size=300)
    found = conditional_test(z * rng.normal(size=300), z * rng.normal(size=300), z, rng=0)
    assert found.pvalue > 0.05
    assert found.regressions[0][0].scale is not None


def test_effect_whose_sign_depends_on_z_is_found():
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 300))
    assert pvalue(x, 0.5 * z * x + rng.normal(size=300), z) < 0.02


def test_correlation_that_changes_sign_fast_along_one_of_three_columns_is_found():
    # corr(e, e') = sin 6z: the even part of a kernel apart, at one scale of z it averages to nothing.
    found = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Z, (a, b) = rng.normal(size=(200, 3)), rng.normal(size=(2, 200))
        r = np.sin(6.0 * Z[:, 2])
        y = Z[:, 1] + r * a + np.sqrt(1.0 - r**2) * b
        found += pvalue(Z[:, 0] + a, y, Z, kernel=Gaussian(10.0)) <= 0.05  # all but linear
    assert found >= 6


def test_weights_are_at_several_scales():
    Z = np.random.default_rng(0).normal(size=(200, 3))
    together, finer, *single = Conditioner(Z).weights
    for F, kernels in ((together, 1), (finer, 1), *((F, 3) for F in single)):  # each kernel counts alike
        assert (F**2).sum(axis=1).mean() == pytest.approx(kernels)

    def left(F, target):
        Q = np.linalg.qr(F)[0]
        return ((target - Q @ (Q.T @ target)) ** 2).sum() / (target**2).sum()

    wave = np.sin(6.0 * Z[:, 1])
    wave -= wave.mean()
    assert left(single[-1], wave) < 0.05 < 0.5 < left(together, wave)
    assert len(Conditioner(Z[:, :1]).weights) == len(single)  # of one column there is nothing together
    many = np.eye(40)[np.random.default_rng(1).integers(40, size=200)]
    assert len(Conditioner(many).weights) == 2  # single indicators of a wide category are no scales


def test_only_smooth_kernels_are_weighted_whatever_their_order():
    x, y, z = confounded(n=100, link=0.3)
    kernels = [Gaussian(0.3), Gaussian(5.0), Gaussian(1.0)]
    outcomes = [conditional_test(x, y, z, kernel=k, n_resamples=99, rng=0) for k in (kernels, kernels[::-1])]
    assert outcomes[0].pvalue == outcomes[1].pvalue
    weighted = [m.kernel[0].lengthscale for m in outcomes[0].members if "given" in m.kernel[2:]]
    assert sorted(map(float, weighted)) == [1.0, 5.0, 5.0, 5.0]


@pytest.mark.parametrize("kernel", ["median", "median-raw", "bkl", Gaussian(0.5), ["bkl", Gaussian(2.0)]])
def test_every_kernel(kernel):
    x, y, z = confounded(n=120, link=0.8)
    assert pvalue(x, y, z, kernel=kernel) < 0.05
    assert 0.0 < pvalue(*confounded(n=120), kernel=kernel) <= 1.0


@pytest.mark.parametrize("word", ["median", "median-raw"])
def test_words_mean_what_they_mean_everywhere(word):
    # Of the residuals, each in its own spread: what any other function chooses for these columns.
    x, y, z = confounded(n=80)
    wide = np.column_stack([x**3, np.abs(z) * x])
    found = conditional_test(wide, y, z, kernel=word, n_resamples=9, rng=0)
    for kernel, columns in zip(found.kernel, found.residuals, strict=False):
        space = make_space(columns, np.zeros(columns.shape[1], dtype=bool))
        expected = choose_kernel(word, space)[0].lengthscale
        np.testing.assert_allclose(kernel.lengthscale, expected, rtol=1e-9)


def test_symmetric_and_blind_to_order_units_and_duplicates():
    x, y, z = confounded(link=0.2)
    z = np.column_stack([z, np.random.default_rng(9).normal(size=len(z))])
    p = pvalue(x, y, z)
    assert pvalue(y, x, z) == p
    order = np.random.default_rng(5).permutation(len(x))
    assert pvalue(x[order], y[order], z[order]) == p
    assert pvalue(1e12 * x, y, 1e-12 * z) == p


def test_residuals_come_in_the_users_order():
    x, y, z = confounded()
    order = np.random.default_rng(5).permutation(len(x))
    first = conditional_test(x, y, z, rng=0)
    second = conditional_test(x[order], y[order], z[order], rng=0)
    np.testing.assert_allclose(second.residuals[0], first.residuals[0][order], atol=1e-9)
    assert abs(np.corrcoef(first.residuals[0][:, 0], x - np.sin(z))[0, 1]) > 0.9


def test_wide_sides():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(150, 2))
    x = z[:, [0, 1, 0]] + rng.normal(size=(150, 3))
    y = z + 0.8 * x[:, :2] + rng.normal(size=(150, 2))
    found = conditional_test(x, y, z, rng=0)
    assert found.pvalue < 0.01
    assert found.residuals[0].shape == (150, 3)
    assert pvalue(x, z + rng.normal(size=(150, 2)), z) > 0.05


def test_nothing_given_is_a_permutation_test():
    x, y, _ = confounded()
    for nothing in (None, np.empty((len(x), 0))):
        found = conditional_test(x, y, nothing, rng=0, n_resamples=99)
        assert found.null == "permutation"
        assert found.pvalue == 0.01


# Awkward input.


def test_constant_and_collinear_columns():
    x, y, z = confounded(link=0.8)
    p = pvalue(x, y, z)
    assert pvalue(x, y, np.column_stack([z, np.ones_like(z)])) == pytest.approx(p, abs=0.02)
    assert pvalue(x, y, np.column_stack([z, z, 2.0 * z])) < 0.05
    assert pvalue(x, np.ones_like(y), z) == 1.0
    assert pvalue(x, y, np.ones_like(z)) == 0.005  # nothing is given: plain dependence


def test_function_of_given_is_independent_of_all():
    _, y, z = confounded()
    found = conditional_test(3.0 * z - 1.0, y, z, rng=0)
    assert found.pvalue == 1.0
    assert "determined by what is given" in repr(found)


def test_given_wider_than_the_rows():
    rng = np.random.default_rng(0)
    Z, x = rng.normal(size=(40, 90)), rng.normal(size=40)
    with pytest.raises(ValueError, match=r"given has 90 columns of rank 39 for 40 rows.*leave columns out"):
        conditional_test(x, x, Z)
    with pytest.warns(UserWarning, match="given has rank 15 for only 40 rows"):
        conditional_test(x, x, Z[:, :15], rng=0)
    many = np.repeat(Z[:, :1], 90, axis=1)  # wide, but all the same
    assert pvalue(x, x + 0.1 * Z[:, 1], many) < 0.05


def test_categorical_conditioners():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], size=240)
    shift = pd.Series(group).map({"a": 0.0, "b": 2.0, "c": -3.0}).to_numpy()
    x, y = shift + rng.normal(size=(2, 240))
    frame = pd.DataFrame({"group": group})
    assert pvalue(x, y) == 0.005
    assert pvalue(x, y, frame) > 0.05
    assert pvalue(x, y + 0.5 * x, pl.DataFrame({"group": group})) < 0.05


def test_categorical_target():
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    x = np.where(z + rng.logistic(size=300) > 0, "yes", "no")
    y = z + rng.normal(size=300)
    assert pvalue(x, y) < 0.02
    assert pvalue(x, y, z) > 0.05
    assert pvalue(x, y + 0.8 * (x == "yes"), z) < 0.05


def test_ties_and_heavy_tails():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, size=200).astype(float)
    x, y = z + rng.integers(0, 4, size=(2, 200))
    assert pvalue(x, y, z) > 0.05
    z = rng.standard_cauchy(200)
    assert pvalue(z + rng.normal(size=200), z + rng.normal(size=200), z) > 0.01


def test_missing_values():
    x, y, z = confounded()
    z[3] = np.nan
    with pytest.raises(ValueError, match=r"given has missing values in 1 of 150 rows .*nan_policy='omit'"):
        conditional_test(x, y, z)
    assert conditional_test(x, y, z, nan_policy="omit", rng=0).sizes == (149,)
    assert np.isnan(conditional_test(x, y, z, nan_policy="propagate").pvalue)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(20)}, "x has 150 rows and y has 20 rows"),
        (
            {"kernel": "bandwidth"},
            "kernel must be one of 'fused', 'bkl', 'paper', 'median', 'median-raw', a kernel",
        ),
        (
            {"kernel": "ard"},
            "kernel must be one of 'fused', 'bkl', 'paper', 'median', 'median-raw', a kernel",
        ),
        ({"kernel": []}, "kernel is an empty list"),
        ({"n_resamples": 0}, "n_resamples must be at least 1"),
        ({"prewhiten": np.zeros(150)}, "all times in prewhiten are equal"),
        ({"prewhiten": np.arange(3)}, "one time for each of the 150 rows"),
        ({"prewhiten": ["monday"] * 150}, "dates such as 1976-01-31"),
        ({"x": np.arange(5), "y": np.arange(5), "given": None}, "at least 10 are needed"),
        ({"given": [np.inf] + [0.0] * 149}, "given has infinite values"),
    ],
)
def test_refused(change, message):
    x, y, z = confounded()
    arguments = {"x": x, "y": y, "given": z} | change
    with pytest.raises((ValueError, TypeError), match=message):
        conditional_test(**arguments)


def test_tester_refuses():
    tester = ConditionalTester(np.column_stack(confounded()), rng=0, n_resamples=19)
    with pytest.raises(ValueError, match="x and y are the same column"):
        tester.test(0, 0)
    with pytest.raises(ValueError, match="tested and given at once"):
        tester.test(0, 1, [1])
    with pytest.raises(ValueError, match="only 3, from 0 on"):
        tester.test(0, 3)
    with pytest.raises(ValueError, match="x names 'a', but the columns are 'column 0'"):
        tester.test("a", 1)
    refused = {"only 3, from 0 on": (0, 7), "same column": (0, 0), "tested and given at once": (0, 1, (0,))}
    for message, asked in refused.items():
        with pytest.raises(ValueError, match=message):
            tester.pvalue(*asked)
    with pytest.raises(ValueError, match="names the column 'day', but data has 'column 0', 'column 1'"):
        ConditionalTester(np.zeros((20, 2)), prewhiten="day")
    with pytest.raises(ValueError, match="data has no column but 'day', the times"):
        ConditionalTester({"day": np.arange(20)}, prewhiten="day")


# Whole tables.


def test_tester_agrees_with_the_function_and_shares_regressions():
    x, y, z = confounded(link=0.3)
    tester = ConditionalTester(pd.DataFrame({"x": x, "y": y, "z": z}), n_resamples=199)
    assert tester.test("x", "y", ["z"]).pvalue == pvalue(x, y, z)
    assert tester.names == ("x", "y", "z")
    assert tester.n_regressed == 2
    assert tester.pvalue(1, 0, (2,)) == tester.test(0, 1, (2,)).pvalue
    other = tester.with_kernel("median")
    assert other.test("x", "y", "z").kernel != tester.test("x", "y", "z").kernel
    assert tester.n_regressed == other.n_regressed == 2  # nothing was regressed again
    other.test("x", "z")
    assert tester.n_regressed == 2


def test_rows_and_pickling():
    tester = ConditionalTester(np.column_stack(confounded(link=0.3)), rng=0, n_resamples=99)
    assert tester.n_rows == 150
    half = tester.on_rows(np.arange(75))
    assert half.n_rows == 75
    again = pickle.loads(pickle.dumps(half))
    assert again.pvalue(0, 1, (2,)) == half.pvalue(0, 1, (2,))


def test_cache_is_keyed_by_content(tmp_path):
    data = np.column_stack(confounded(link=0.3))
    options = {"cache": tmp_path / "p", "n_resamples": 99}
    first = ConditionalTester(data, rng=0, **options).pvalue(0, 1, (2,))
    ConditionalTester(data, rng=0, kernel=Gaussian(0.5 + 2e-9), **options).pvalue(0, 1, (2,))
    again = ConditionalTester(data.copy(), rng=0, **options)
    assert again.pvalue(1, 0, (2,)) == first
    assert again.n_computed == 0
    changed = data.copy()
    changed[0, 0] += 1e-9
    for other in (
        ConditionalTester(changed, rng=0, **options),
        ConditionalTester(data, rng=1, **options),
        ConditionalTester(data, rng=0, kernel="median", **options),
        ConditionalTester(data, rng=0, kernel=Gaussian(0.5), **options),
        ConditionalTester(data, rng=0, kernel=Gaussian(0.5 + 1e-9), **options),
        ConditionalTester(data, rng=0, **options | {"n_resamples": 98}),
        ConditionalTester(data, rng=0, **options).on_rows(np.arange(100)),
    ):
        other.pvalue(0, 1, (2,))
        assert other.n_computed == 1


def test_a_cache_needs_a_seed(tmp_path):
    data = np.column_stack(confounded(n=40))
    with pytest.raises(ValueError, match=r"rng=None is another seed every time; give one, such as rng=0"):
        ConditionalTester(data, cache=tmp_path, rng=None)
    assert ConditionalTester(data, n_resamples=99).pvalue(0, 1) == (
        ConditionalTester(data, n_resamples=99, rng=0).pvalue(0, 1)
    )
    fresh = {ConditionalTester(data, n_resamples=99, rng=None).pvalue(0, 1, (2,)) for _ in range(6)}
    assert len(fresh) > 1


# Time.


def seasonal(n=300, seed=0):
    rng = np.random.default_rng(seed)
    day = np.sort(rng.choice(np.arange(365), size=n, replace=False))
    season = np.sin(2 * np.pi * day / 365.0)
    return day, 2 * season + rng.normal(size=n), -2 * season + rng.normal(size=n)


def test_prewhitening_takes_out_the_season():
    day, x, y = seasonal()
    assert pvalue(x, y) == 0.005
    found = conditional_test(x, y, prewhiten=day, rng=0)
    assert found.pvalue > 0.05
    for column in found.prewhitened:
        assert column.before > 0.5
        assert abs(column.after) < 0.2
        assert column.lengthscale > 6.99


def test_dates_count_in_days():
    day, x, y = seasonal()
    dates = np.datetime64("1976-01-01") + day.astype("timedelta64[D]")
    numbers = conditional_test(x, y, prewhiten=day, rng=0)
    for given in (dates, pd.Series(dates), pl.Series(dates), [str(date) for date in dates]):
        np.testing.assert_array_equal(times(given, "prewhiten", len(day)), day - day.min())
    frame = pl.DataFrame({"when": dates, "x": x, "y": y})
    tester = ConditionalTester(frame, prewhiten="when", rng=0)
    assert tester.names == ("x", "y")
    assert tester.test("x", "y").pvalue == numbers.pvalue


def test_bounded_lengthscale_leaves_the_weather():
    rng = np.random.default_rng(0)
    day = np.arange(250)
    weather = np.convolve(rng.normal(size=252), [0.7, 1.0, 0.7], mode="valid")
    short = conditional_test(weather, rng.normal(size=250), prewhiten=day, least_timescale=0.3, rng=0)
    usual = conditional_test(weather, rng.normal(size=250), prewhiten=day, rng=0)
    assert short.prewhitened[0].after < 0.2 < usual.prewhitened[0].after
    assert usual.prewhitened[0].lengthscale > 6.99


def test_autocorrelation_by_hand():
    column = np.array([1.0, -1.0, 1.0, -1.0])
    assert autocorrelation(column, np.arange(4.0)) == -1.0
    # The pair across the gap (days 2 and 9) does not count.
    assert autocorrelation(np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.0, 1.0, 9.0, 10.0])) == 1.0


# What a review found.


def test_trend_is_taken_out_all_along_a_long_series():
    t = np.arange(1_800.0)
    season = 3.0 * np.sin(2 * np.pi * t / 365.0)
    rng = np.random.default_rng(0)
    for rows in (slice(0, 1_000), slice(0, 1_800)):
        left, how = prewhiten((season + rng.normal(size=1_800))[rows], t[rows], 7.0, "x")
        assert how.after < 0.1
        assert abs(np.corrcoef(left[600:], season[rows][600:])[0, 1]) < 0.15


def test_memory_takes_out_what_is_given_late_in_the_series():
    rng = np.random.default_rng(0)
    z = np.linspace(-3, 3, 600) + 0.2 * rng.normal(size=600)
    x, y = np.sin(3 * z) + 0.5 * rng.normal(size=(2, 600))
    assert pvalue(x, y, z, dependence_length=2.0) > 0.02


def test_memory_follows_the_times():
    rng = np.random.default_rng(0)
    t = np.arange(120.0)
    x, y = np.cumsum(rng.normal(size=(2, 120)), axis=1)
    order = rng.permutation(120)
    first = conditional_test(x, y, prewhiten=t, dependence_length=5.0, rng=0).pvalue
    assert (
        conditional_test(x[order], y[order], prewhiten=t[order], dependence_length=5.0, rng=0).pvalue == first
    )


def test_memory_is_corrected_for_what_multipliers_lack():
    """Draws are stretched by what autoregressions as long as the features in order of time would need."""
    rng = np.random.default_rng(0)
    slow = lfilter([1.0], [1.0, -0.8], rng.normal(size=(2, 160)))[:, 40:].T
    time = rng.permutation(120)
    tester = ConditionalTester(
        slow[time], kernel="median", n_resamples=19, dependence_length=4.0, prewhiten=None
    )
    tester._time = time.astype(float)  # rows come in any order, with their times
    tester._arrange(tester.tables)
    table = tester._table
    left, right, when = table.target(0, ()), table.target(1, ()), np.argsort(tester._ranks)
    np.testing.assert_array_equal(time[tester._order][when], np.arange(120))
    plain, stretched = (table.statistics(left, right, (), tester._multipliers, w)[0] for w in (None, when))
    pair = (side.features[0].values[when] for side in (left, right))
    factor = lack(120, 4.0, crossed(*pair)).factor
    assert factor > 1.3
    np.testing.assert_allclose(stretched.statistics[0], plain.statistics[0])
    np.testing.assert_allclose(stretched.statistics[1:], factor * plain.statistics[1:])
    np.testing.assert_array_equal(tester.test(0, 1).null_distribution, stretched.statistics[1:, 0])


def test_two_binary_targets():
    # Independent given z; a kernel on what is left of a 0 or a 1 would read p(z) back. 15 draws at 5%: one.
    rejected = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=200)
        x, y = 2 * z + rng.logistic(size=(2, 200)) > 0
        p = pvalue(x, y, z, n_resamples=99)
        rejected += p <= 0.05
        if seed < 2:  # words for the two values are the same categories
            assert pvalue(np.where(x, "yes", "no"), np.where(y, "yes", "no"), z, n_resamples=99) == p
    assert rejected <= 4


def test_function_of_given_with_many_rows():
    rng = np.random.default_rng(0)
    z = rng.normal(size=500)
    assert pvalue(np.sin(z), rng.normal(size=500), z) > 0.05
    assert 0.0 < pvalue(z > 0.3, z > 0.5, z) <= 1.0


def test_category_of_many_levels():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 120, size=900)
    effect = rng.normal(size=120)
    x, y = effect[level] + rng.normal(size=(2, 900))
    assert pvalue(x, y, np.char.add("level ", level.astype(str))) > 0.02  # text of numbers is numbers


def test_more_than_eight_conditioning_columns():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 10))
    x, y = np.sin(2 * Z[:, 0]) + 0.5 * rng.normal(size=(2, 300))
    assert pvalue(x, y, Z) > 0.02


def test_columns_of_ranks_do_not_show_the_order_of_rows():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(60, 3)).argsort(axis=0).argsort(axis=0) * 0.37 + 0.1
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(60)
        assert pvalue(*R[order].T) == pvalue(*R.T)


def test_nothing_given_is_symmetric():
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = rng.normal(size=(2, 50))
        assert pvalue(x, y) == pvalue(y, x)


def test_missing_times_are_omitted():
    day, x, y = seasonal(n=60)
    dates = pd.Series(np.datetime64("1976-01-01") + day.astype("timedelta64[D]"))
    dates[5] = pd.NaT
    with pytest.raises(ValueError, match=r"prewhiten has missing values.*nan_policy='omit'"):
        conditional_test(x, y, prewhiten=dates)
    assert conditional_test(x, y, prewhiten=dates, nan_policy="omit", rng=0).sizes == (59,)


def test_time_zones_and_repeated_times():
    zoned = pd.Series(pd.date_range("1976-01-01", periods=40, tz="Europe/Paris"))
    np.testing.assert_allclose(times(zoned, "prewhiten", 40), np.arange(40.0))
    walk = np.cumsum(np.random.default_rng(0).normal(size=100))
    noise = np.random.default_rng(1).normal(size=300)
    three = autocorrelation(noise, np.repeat(np.arange(100.0), 3))  # three rows a day
    assert abs(three) < 0.3
    assert autocorrelation(np.repeat(walk, 3), np.repeat(np.arange(100.0), 3)) == pytest.approx(
        autocorrelation(walk, np.arange(100.0))
    )


def test_cache_must_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    data = np.column_stack(confounded(n=20))
    with pytest.raises(ValueError, match="is no folder and cannot be made one"):
        ConditionalTester(data, cache=tmp_path / "file")
    ConditionalTester(data, cache=tmp_path / "with.dot" / "inner", n_resamples=9, rng=0).pvalue(0, 1)
    assert list((tmp_path / "with.dot" / "inner").rglob("output.pkl"))


def test_a_partial_correlation_is_a_second_opinion():
    """47 rows whose columns both dip where `given` is in the middle, and depend beyond that."""
    rng = np.random.default_rng(3)
    z, common = np.sort(rng.uniform(-2.0, 2.0, 47)), rng.normal(size=47)
    x, y = common + 0.1 * rng.normal(size=47), common + 0.1 * rng.normal(size=47)
    found = conditional_test(x, y, z, n_resamples=99, rng=0)
    design = np.column_stack([np.ones(47), z])
    left = [part - design @ np.linalg.lstsq(design, part, rcond=None)[0] for part in (x, y)]
    assert found.linear.correlation == pytest.approx(np.corrcoef(*left)[0, 1])
    wanted = 2.0 * stats.norm.sf(abs(np.arctanh(found.linear.correlation)) * np.sqrt(47 - 1 - 3))
    assert found.linear.pvalue == pytest.approx(wanted, rel=1e-6)
    assert found.second_opinion == ""  # both find it
    doubtful = dataclasses.replace(found, pvalue=0.4)
    assert doubtful.second_opinion.startswith(f"partial correlation {found.linear.correlation:.2f}, p = ")
    assert "degrees of freedom of 47 rows" in doubtful.second_opinion
    assert "second opinion: partial" in repr(doubtful)
    assert conditional_test(x, y, np.where(z > 0, "a", "b"), n_resamples=19, rng=0).linear is None


def test_ragged_conditions_are_named():
    x, y, _ = confounded(30)
    with pytest.raises(ValueError, match="given is not a rectangular table"):
        conditional_test(x, y, [[1.0, 2.0], [3.0]] * 15)


@pytest.mark.parametrize(
    "when",
    [
        *(3, True, {"a": 1}, object(), lambda v: v, [[1, 2], [3]], [[1]] * 30, [b"a"] * 30, [{}] * 30),
        *(np.arange(30) + 1j, np.arange(30) * 1e200, np.arange(30) * 1e300),
        np.ma.masked_less(np.arange(30.0), 3),
    ],
)
def test_times_of_wrong_kinds(when):
    x, y, z = confounded(30)
    with pytest.raises((TypeError, ValueError), match="prewhiten"):
        conditional_test(x, y, z, prewhiten=when, n_resamples=19)


@pytest.mark.parametrize("place", [1.9, True, "1", -1, 7, None, np.nan, [1]])
def test_pvalue_of_what_is_no_column(place):
    tester = ConditionalTester(np.random.default_rng(0).normal(size=(30, 4)), n_resamples=19)
    with pytest.raises((TypeError, ValueError), match=r"^j "):
        tester.pvalue(0, place)
    with pytest.raises((TypeError, ValueError), match=r"^given "):
        tester.pvalue(0, 1, (place,))


def test_a_resample_shares_the_regressions_of_all_rows():
    """They are most of a search for a graph: ten resamples took ten times as long as all rows."""
    tester = ConditionalTester(np.column_stack(confounded(link=0.3)), rng=0)
    tester.pvalue(0, 1, (2,))
    assert tester.n_regressed == 2
    rng = np.random.default_rng(0)
    for _ in range(3):
        some = tester.resampled(np.unique(rng.integers(150, size=150)), alpha=0.05)
        some.pvalue(0, 1, (2,))
        assert some.n_rows < 110
        assert (some.n_regressed, tester.n_regressed) == (0, 2)
        assert some.n_resamples == 199
        assert some.tables[0].values.shape == (some.n_rows, 1)
    assert tester.resampled(np.arange(100), alpha=0.001).n_resamples == 999


@pytest.mark.parametrize(("link", "least", "most"), [(0.0, 0, 4), (1.0, 20, 20)])
def test_resamples_keep_level_and_power(link, least, most):
    """Of 20 resamples of as many tables: at a level of .05, 5 and more of 20 have odds of 1 in 390."""
    rejected = 0
    for seed in range(20):
        x, y, z = confounded(link=link, seed=seed)
        tester = ConditionalTester(np.column_stack([x, y, z]), rng=0)
        rows = np.unique(np.random.default_rng(seed).integers(150, size=150))
        rejected += tester.resampled(rows, alpha=0.05).pvalue(0, 1, (2,)) <= 0.05
    assert least <= rejected <= most


def test_p_values_of_resamples_are_kept_apart_from_those_of_rows(tmp_path):
    data, rows = np.column_stack(confounded(link=0.3)), np.arange(100)
    tester = ConditionalTester(data, cache=tmp_path, n_resamples=99)
    for part in (tester.on_rows(rows), tester.resampled(rows, alpha=0.1)):
        part.pvalue(0, 1, (2,))
        assert part.n_computed == 1


def thresholds(seed, effect=0.0, n=500):
    """A common cause with two thresholds."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    f = 1.5 * (z[:, 0] > 0.5) + (z[:, 1] < -0.3)
    a, b = 0.5 * rng.normal(size=(2, n))
    return f + a, f + effect * a + b, z


def test_a_common_cause_with_thresholds_is_no_dependence():
    # Without forests 97% of draws are rejected. At a level of .08, 5 or more of 8 have probability 2e-4.
    assert sum(pvalue(*thresholds(seed)) <= 0.05 for seed in range(8)) < 5


def test_an_effect_beside_thresholds_is_found():
    assert all(pvalue(*thresholds(seed, effect=0.5)) <= 0.05 for seed in range(3))


def test_a_large_pvalue_needs_no_forest(monkeypatch):
    from sklearn.ensemble import RandomForestRegressor

    monkeypatch.setattr(RandomForestRegressor, "fit", None)  # not called: the smooth regression suffices
    assert pvalue(*confounded()) > 0.2


def test_linear_effects_are_found_nearly_as_often_as_by_the_partial_correlation():
    found = []
    for seed in range(18):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(200, 3))
        a, b = rng.normal(size=(2, 200))
        x, y = 0.5 * z[:, 0] + a, 0.5 * z[:, 0] + 0.2 * a + b
        result = conditional_test(x, y, z, rng=0, n_resamples=199)
        found.append((result.pvalue <= 0.05, result.linear.pvalue <= 0.05))
    ours, linear = np.sum(found, axis=0)
    assert (
        ours >= linear - 3
    )  # the same draws, so only those where the two disagree vary: 12, 14; before 8, 14

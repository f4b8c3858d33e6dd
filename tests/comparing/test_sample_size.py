"""Rows that are needed: against the power of a z-test, against draws, and by every way in."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from kembed import Gaussian, mmd_test, required_rows
from kembed.comparing import sample_size
from kembed.comparing.sample_size import _curve, _extrapolated, _needed, _posterior, shifted

Z = norm.ppf([0.95])
QUICK = {"n_draws": 12, "n_resamples": 39, "rng": 0}


def pilot(n=300, D=2, seed=0):
    return pl.DataFrame(dict(zip("abcdefgh", np.random.default_rng(seed).normal(size=(D, n)), strict=False)))


def z_power(n, shift):
    """Of the two-sided z-test of two means at level .05."""
    centre = shift * np.sqrt(0.5 * np.asarray(n))
    return norm.sf(1.96 - centre) + norm.cdf(-1.96 - centre)


def test_curve_finds_the_rows_of_a_z_test_from_draws_with_little_power():
    """Power of a shift of .25 sd at up to 100 rows: extrapolated, the 252 rows for power .8 are inside."""
    exact = 2.0 * ((norm.ppf(0.975) + norm.ppf(0.8)) / 0.25) ** 2
    assert exact == pytest.approx(251.2, abs=0.5)
    sizes, rng, inside = np.array([20, 40, 60, 80, 100]), np.random.default_rng(1), 0
    for _ in range(40):
        hits = rng.binomial(100, z_power(sizes, 0.25)).astype(float)
        low, middle, high = _needed(_posterior(sizes, hits, 100, Z), 0.8, Z)
        assert low < middle < high
        inside += low <= exact <= high
    assert inside >= 31  # 36 expected of 40; fewer than 31 with probability .005


def test_posterior_is_that_of_a_slow_loop():
    sizes, hits, n_draws = np.array([10, 50, 200]), np.array([1.0, 6.0, 17.0]), 20
    halves, exponents = sample_size.HALVES.ravel(), sample_size.EXPONENTS.ravel()
    logs = np.zeros((len(halves), len(exponents), 1))
    for h, half in enumerate(halves):
        for c, exponent in enumerate(exponents):
            for n, hit in zip(sizes, hits, strict=True):
                p = norm.cdf(Z[0] * ((n / np.exp(half)) ** exponent - 1.0))
                p = min(max(p, 1e-9), 1.0 - 1e-9)
                logs[h, c] += hit * np.log(p) + (n_draws - hit) * np.log(1.0 - p)
    expected = np.exp(logs - logs.max())
    weights = _posterior(sizes, hits, n_draws, Z)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-9, atol=1e-300)
    mean, _ = _extrapolated(1_000, weights, Z)
    assert mean == pytest.approx(float((weights * _curve(1_000, Z)[0]).sum()))


def test_curves_are_at_the_level_without_rows_and_at_half_power_at_their_half():
    np.testing.assert_allclose(_curve(1e-30, Z), 0.05, atol=1e-9)
    for h, half in enumerate(np.exp(sample_size.HALVES.ravel())[::40]):
        np.testing.assert_allclose(_curve(half, Z)[0, 40 * h], 0.5, atol=1e-12)


def test_power_at_a_number_of_rows_is_that_of_fresh_samples():
    """Draws from a large pilot sample and fresh samples: shares of 200 within 4 standard errors."""
    curve = required_rows(
        pilot(4_000), shift="0.4 sd", rows=[30, 60, 90], kernel="median", n_draws=200, n_resamples=99, rng=1
    )
    rng = np.random.default_rng(7)
    for size, share in zip(curve.rows, curve.power, strict=True):
        fresh = 0
        for _ in range(200):
            x, y = rng.normal(size=(2, size, 2))
            fresh += mmd_test(x, y + 0.4, kernel="median", n_resamples=99, rng=rng).pvalue <= 0.05
        assert abs(share - fresh / 200) < 4.0 * np.sqrt(2.0 * 0.25 / 200)


def test_no_difference_is_found_as_often_as_the_level():
    """Two pilot samples of one distribution: .05 at every size; and no number of rows is promised."""
    halves = np.split(np.random.default_rng(3).normal(size=(8_000, 1)), 2)
    curve = required_rows(
        *halves, rows=[20, 40, 80], kernel=Gaussian(1.0), n_draws=100, n_resamples=39, rng=2
    )
    assert sum(curve.power) * 100 <= 29  # 15 expected of 300; more than 29 with probability .0003
    assert curve.words.startswith("At least ")


def test_two_pilot_samples_and_one_that_is_shifted():
    table = pilot(160, 2)
    shifted = table.with_columns(pl.col("a") + 1.5)
    two = required_rows(table, shifted, **QUICK)
    assert two.rows[-1] == 80
    assert two.power[-1] == 1.0
    assert "the difference of the pilot samples is found" in two.words
    one = required_rows(table, shift="1.5 sd", columns=["a"], **QUICK)
    assert one.power[-1] == 1.0
    assert "a shift of 1.5 sd in a is found" in one.words
    far = required_rows(table, shift="40%", **QUICK)
    assert far.power[-1] == 1.0
    assert "40% of the rows far out" in far.words


def test_a_shift_moves_the_mean_and_keeps_the_values_of_a_column():
    rng = np.random.default_rng(0)
    spent = np.where(rng.random(20_000) < 0.4, 0.0, rng.lognormal(size=20_000))
    columns = (rng.poisson(3.0, 20_000), rng.integers(0, 2, 20_000), rng.normal(size=20_000), spent)
    for column in map(np.asarray, columns):
        column = column.astype(float)
        moved = shifted(column, column, 0.3, rng)
        assert (moved.mean() - column.mean()) / column.std() == pytest.approx(0.3, abs=0.02)
    counts, flags = (column.astype(float) for column in columns[:2])
    assert set(np.unique(shifted(counts, counts, 0.3, rng) % 1.0)) == {0.0}
    assert set(np.unique(shifted(flags, flags, 0.3, rng))) == {0.0, 1.0}
    assert (shifted(spent, spent, 0.3, rng) == 0.0).mean() == (spent == 0.0).mean()


def test_counts_need_about_as_many_rows_as_a_t_test():
    """Poisson(3), a shift of .5 sd: 63 rows for a t-test; off the grid of whole numbers it would be ten."""
    counts = pl.DataFrame({"n": np.random.default_rng(1).poisson(3.0, 300)})
    curve = required_rows(counts, shift="0.5 sd", n_draws=30, n_resamples=59, rng=0)
    assert 35 < curve.needed < 160


def test_a_strong_difference_needs_fewer_rows_than_were_drawn():
    curve = required_rows(pilot(200), shift="5 sd", **QUICK)
    assert curve.words.startswith(f"Fewer than {curve.rows[0]} rows per sample are enough")
    assert min(curve.standard_errors) > 0.0


def test_margin_asks_for_a_verdict():
    """Without y and shift: rows with which sameness is shown; more with a smaller margin."""
    table = pilot(600)
    wide = required_rows(table, margin="0.8 sd", kernel="median", **QUICK)
    narrow = required_rows(table, margin="0.4 sd", kernel="median", **QUICK)
    assert wide.power[0] < 0.5 <= wide.power[-1]
    assert 2.0 * wide.needed < narrow.needed  # four times as many in theory
    assert "no difference is decided at the margin of 0.8 sd" in wide.words


def test_rows_beyond_the_pilot_data_are_extrapolated():
    curve = required_rows(pilot(200), shift="0.5 sd", rows=[50, 5_000], **QUICK)
    assert dict(zip(curve.rows, curve.drawn, strict=True))[5_000] is False
    assert dict(zip(curve.rows, curve.drawn, strict=True))[50] is True
    assert curve.power[-1] > 0.95
    described = curve.to_dict()
    assert [point["rows"] for point in described["curve"]] == list(curve.rows)
    assert described["rows_needed"] == curve.needed


def test_same_seed_same_answer_and_mixed_columns():
    table = pilot(200).with_columns(
        town=pl.Series(["Oslo", "Bern"] * 100), gaps=pl.Series([1.0, None, 2.0, 4.5] * 50)
    )
    one, other = (required_rows(table, shift="1 sd", **QUICK) for _ in range(2))
    assert one == other


def test_plot_has_points_and_interval():
    import matplotlib.pyplot as plt

    curve = required_rows(pilot(200), shift="0.8 sd", rows=[500], **QUICK)
    axes = curve.plot()
    assert {"rows per sample", "power"} == {axes.get_xlabel(), axes.get_ylabel()}
    assert len(axes.containers) == 2  # drawn, extrapolated
    plt.close(axes.figure)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "one pilot sample does not differ from itself; give y, shift='0.3 sd' or margin="),
        ({"shift": "0.3"}, "shift must be such as '0.3 sd' or '2%', got '0.3'"),
        (
            {"shift": "0.3 sd", "columns": ["z"]},
            "columns has 'z'; name some of the numeric columns that vary",
        ),
        ({"columns": ["a"], "margin": "1 sd"}, "columns says what shift moves, but there is no shift"),
        ({"shift": "1 sd", "y": pilot(50)}, "shift changes one pilot sample, but x and y were given"),
        ({"shift": "1 sd", "power": 0.04}, "power must be above alpha"),
        ({"shift": "1 sd", "alpha": 0.001}, "alpha"),
        ({"shift": "1 sd", "rows": [3]}, "rows"),
        ({"shift": "1 sd", "n_draws": 2}, "n_draws"),
    ],
)
def test_errors_name_the_argument_and_the_remedy(how, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        required_rows(pilot(60), **{"n_resamples": 39, "rng": 0, **how})


def test_text_alone_cannot_be_shifted():
    with pytest.raises(ValueError, match="shift moves numeric columns, and none varies"):
        required_rows(pl.DataFrame({"town": ["a", "b", "c", "b"] * 20}), shift="1 sd")


def test_constant_columns_stay_as_they_are():
    table = pilot(80, 1).with_columns(always=pl.lit(3.0))
    assert required_rows(table, shift="3 sd", **QUICK).power[-1] == 1.0
    with pytest.raises(ValueError, match="none varies"):
        required_rows(table.select("always"), shift="1 sd", **QUICK)
    with pytest.raises(ValueError, match="columns has 'always'"):
        required_rows(table, shift="1 sd", columns=["always"], **QUICK)

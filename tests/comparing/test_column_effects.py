"""Effects of single columns: bands, shares and shifts against loops, published numbers and coverage."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm, t

from kembed import compare
from kembed.comparing.column_effects import (
    ColumnEffect,
    Independent,
    category_effect,
    cluster_variance,
    distribution_width,
    largest_change,
    number_effect,
    shift_interval,
)
from kembed.testing.margin import read_margin


def test_the_largest_difference_of_distribution_functions(rng):
    x, y = rng.normal(size=40).round(1), rng.normal(0.5, size=30).round(1)
    values = np.concatenate([x, y])
    loop = max(abs(np.mean(x <= t) - np.mean(y <= t)) for t in values)
    assert number_effect(x, y, Independent(40, 30), 0.05).difference == pytest.approx(loop)


@pytest.mark.parametrize(("n", "m"), [(50, 50), (20, 300), (100, 100_000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-4])
def test_the_band_is_as_wide_as_the_convolved_tails_ask(n, m, alpha):
    """Against draws from the tails 2exp(-2ns²); narrower than the sum of bands."""
    width = distribution_width(Independent(n, m), alpha)
    alone = [np.sqrt(np.log(2.0 / alpha) / (2.0 * size)) for size in (n, m)]
    assert max(alone) < width < distribution_width(Independent(n, m, paired=True), alpha)
    assert width == pytest.approx(distribution_width(Independent(m, n), alpha))
    if alpha == 0.05:
        u = np.random.default_rng(0).random((2, 200_000))
        drawn = sum(np.sqrt(np.log(2.0 / each) / (2.0 * size)) for each, size in zip(u, (n, m), strict=True))
        assert np.mean(drawn > width) == pytest.approx(alpha, abs=0.0025)


def test_bands_hold_for_any_distributions():
    """At .1 in 400 draws of few rows; DKW is nearly sharp, so that a band of half the width fails."""
    rng = np.random.default_rng(0)
    width, units = distribution_width(Independent(30, 20), 0.1), Independent(30, 20)
    truth = norm.cdf(0.25) - norm.cdf(-0.25)  # of N(0, 1) and N(.5, 1)
    drawn = ((rng.normal(size=30), rng.normal(0.5, size=20)) for _ in range(400))
    found = np.array([number_effect(x, y, units, 0.2).difference for x, y in drawn])
    assert np.mean(np.abs(found - truth) > width) <= 0.1
    assert np.mean(np.abs(found - truth) > 0.3 * width) > 0.1


def test_a_share_of_two_values_has_a_narrower_interval():
    x, y = np.repeat([0.0, 1.0], [24, 56]), np.repeat([0.0, 1.0], [28, 42])
    units = Independent(80, 70)
    effect = number_effect(x, y, units, 0.1)
    difference, interval = largest_change(np.array([0.7]), np.array([0.6]), units, 0.05)
    assert (effect.difference, effect.difference_interval) == (
        pytest.approx(difference),
        pytest.approx(interval),
    )
    assert interval[1] - difference < distribution_width(units, 0.05)


def test_the_level_that_changed_most(rng):
    x, y = np.repeat([0, 1, 2], [50, 30, 20]).astype(float), np.repeat([0, 1, 2], [50, 10, 40]).astype(float)
    effect = category_effect(x, y, ("a", "b", "c"), Independent(100, 100), 0.05)
    assert effect.difference == pytest.approx(0.2)
    assert effect.level in ("b", "c")
    assert effect.shift is None
    low, high = effect.difference_interval
    assert 0.0 < low < 0.2 < high


def test_shares_hold_together_for_all_levels():
    """400 draws of two samples of one distribution: a change above the interval in at most 5% (s.e. 1.1%)."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        p, q = (rng.multinomial(60, [0.4, 0.3, 0.2, 0.1]) / 60 for _ in range(2))
        missed += largest_change(p, q, Independent(60, 60), 0.05)[1][0] > 0.0
    assert missed <= 0.05 * 400 + 2.0 * np.sqrt(400 * 0.05 * 0.95)


def test_the_shift_covers_the_difference_of_means_in_standard_deviations():
    """Exponential rows, 400 draws: .95 (s.e. .011), where the variance of s counts (d = 2)."""
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        _, (low, high) = shift_interval(
            rng.exponential(size=150), 2.0 + rng.exponential(size=200), Independent(150, 200), 0.05
        )
        covered += low <= 2.0 <= high
    assert 0.915 <= covered / 400 <= 0.985


def test_pairs_clusters_and_units(rng):
    x, y = rng.normal(size=80), rng.normal(0.5, size=80)
    d, (low, high) = shift_interval(x, y, Independent(80, 80), 0.05)
    assert low < d < high
    _, paired = shift_interval(x, y, Independent(80, 80, paired=True), 0.05)
    assert paired[1] - paired[0] > 1.3 * (high - low)  # whatever the correlation is
    _, clustered = shift_interval(x, y, Independent(20, 20), 0.05)
    assert clustered[1] - clustered[0] > 2.0 * (high - low)  # ½ of the rows' quantile, and Student's
    for scale in (1e-200, 1e200):
        scaled = shift_interval(scale * x, scale * y, Independent(80, 80), 0.05)
        assert scaled[1] == pytest.approx((low, high))


def test_columns_without_spread_have_no_shift():
    x = np.zeros(10)
    assert shift_interval(x, x + 1.0, Independent(10, 10), 0.05) == (None, None)
    effect = number_effect(x, x + 1.0, Independent(10, 10), 0.05)
    assert effect.difference == 1.0
    assert effect.at(read_margin("0.1 sd")).verdict == "beyond"
    assert number_effect(x, x, Independent(10, 10), 0.05).difference == 0.0


@pytest.mark.parametrize(
    ("difference", "shift", "margin", "verdict"),
    [
        ((0.0, 0.01), (-0.02, 0.05), "0.1 sd", "within"),
        ((0.0, 0.01), (-0.3, -0.15), "0.1 sd", "beyond"),
        ((0.05, 0.09), (-0.02, 0.05), "0.1 sd", "beyond"),
        ((0.0, 0.06), (-0.02, 0.05), "0.1 sd", "undecided"),
        ((0.0, 0.01), (-0.12, 0.05), "0.1 sd", "undecided"),
        ((0.0, 0.01), (-0.3, -0.15), "2%", "within"),
        ((0.03, 0.1), None, "2%", "beyond"),
        ((0.0, 0.04), None, 0.05, "within"),
    ],
)
def test_verdicts_in_a_columns_own_terms(difference, shift, margin, verdict):
    effect = ColumnEffect(0.02, difference, None if shift is None else sum(shift) / 2.0, shift)
    assert effect.at(read_margin(margin)).verdict == verdict


def table(rng, n, shift):
    city = rng.choice(["u", "v"], n)
    return pl.DataFrame({"a": rng.normal(size=n), "b": rng.normal(shift, size=n), "city": city})


@pytest.fixture(scope="module")
def small():
    """Two tables that differ in b by .25 standard deviations, where .5 do not matter."""
    rng = np.random.default_rng(4)
    x, y = table(rng, 800, 0.0), table(rng, 800, 0.25)
    return compare(x, y, labels=("jan", "feb"), margin="0.5 sd", kernel="median", n_resamples=199)


def test_a_small_difference_is_detectable_but_negligible(small):
    assert small.differ
    assert small.margin.verdict == "equivalent"
    assert small.negligible
    assert not small.beyond_margin
    assert small.headline == "Detectable but negligible"
    assert small.verdict.startswith("Detectable but negligible: jan and feb differ (p = 0.005), but with 95%")
    assert "less than a shift of every numeric column by 0.5 sd" in small.verdict
    assert small.columns[0].name == "b"
    differences = [column.effect.difference for column in small.columns]
    assert differences == sorted(differences, reverse=True)
    told = small.to_dict()
    assert told["effect"] == small.effect.normalised[0]
    assert (told["margin"]["verdict"], told["beyond_margin"]) == ("equivalent", False)
    assert told["by_column"][0]["effect"]["shift"] == small.columns[0].effect.shift


def test_a_column_may_be_beyond_where_the_table_is_not(small):
    beyond = replace(small.columns[0], effect=replace(small.columns[0].effect, verdict="beyond"))
    found = replace(small, columns=(beyond, *small.columns[1:]))
    assert found.beyond_margin
    assert found.headline == "Different beyond the margin of 0.5 sd"
    moved = replace(small.columns[0], effect=replace(small.columns[0].effect, shift=0.6))
    unsure = replace(small, columns=(moved, *small.columns[1:]))  # estimated above, within by the table alone
    assert not unsure.negligible
    assert not unsure.beyond_margin
    assert unsure.verdict.startswith("Equivalent within the margin of 0.5 sd: with 95% confidence")


@pytest.mark.parametrize(
    ("verdict", "pvalue", "given", "headline"),
    [
        ("different", 0.001, True, "Different beyond the margin of 0.5 sd"),
        ("undecided", 0.001, True, "Undecided at the margin of 0.5 sd"),
        ("equivalent", 0.5, True, "Equivalent within the margin of 0.5 sd"),
        ("different", 0.001, False, "A difference was found"),
        ("undecided", 0.5, False, "No difference was found"),
        ("equivalent", 0.5, False, "No difference was found, and none beyond 0.5 sd"),
        ("equivalent", 0.001, False, "Detectable but negligible"),
    ],
)
def test_headlines(small, verdict, pvalue, given, headline):
    margin = replace(
        small.margin, verdict=verdict, rows_needed=(900, 900) if verdict == "undecided" else None
    )
    found = replace(small, margin=margin, margin_given=given, test=replace(small.test, pvalue=pvalue))
    assert found.headline == headline
    assert (found.to_dict()["margin"] is None) == (not given)
    assert ("about 900 rows per sample are needed" in found.verdict) == (given and verdict == "undecided")


def test_rows_that_can_be_classified_are_not_negligible(small):
    """Two shifts of .5 sd allow an AUC of Φ(.5) = .69; relationships and rounding show in rows alone."""
    found = replace(small, auc=0.75, auc_interval=(0.7, 0.8))
    assert found.within_margin
    assert not found.negligible
    assert found.headline == "Negligible column by column, but rows can be classified"
    assert "Differences within the margin allow an AUC of 0.69 at most." in found.verdict
    assert not found.beyond_margin


def test_without_a_margin_the_usual_one_is_tried(rng):
    levels = rng.choice(["u", "v"], (2, 60))
    numbers = compare(*rng.normal(size=(2, 30)), kernel="median", n_resamples=19)
    assert not numbers.margin_given
    assert str(numbers.margin.margin) == "0.1 sd"
    categories = compare(*(pl.DataFrame({"c": own}) for own in levels), kernel="median", n_resamples=19)
    assert str(categories.margin.margin) == "4%"


def test_the_variance_over_clusters_is_that_of_a_slow_loop(rng):
    values, clusters = rng.normal(size=(30, 2)), rng.integers(0, 7, size=30)
    for column, variance in zip(values.T, cluster_variance(values, clusters, 0.1), strict=True):
        total = sum((column[clusters == c] - column.mean()).sum() ** 2 for c in range(7))
        student = t.ppf(0.95, 6) / norm.ppf(0.95)
        assert variance == pytest.approx(total * 7 / 6 / 30**2 * student**2)


def test_copies_of_a_row_are_worth_one_row_and_independent_rows_all(rng):
    """Clusters of four copies have about the interval of single rows."""
    x, y = rng.normal(size=60), rng.normal(0.4, size=60)
    _, single = shift_interval(x, y, Independent(60, 60), 0.05)
    clusters = np.repeat(np.arange(60), 4), np.repeat(np.arange(100, 160), 4)
    copies = [np.repeat(part, 4) for part in (x, y)]
    _, clustered = shift_interval(*copies, Independent(240, 240, clusters=clusters), 0.05)
    assert clustered == pytest.approx(single, rel=0.02)
    one = number_effect(x, y, Independent(60, 60), 0.05).difference_interval
    four = number_effect(*copies, Independent(240, 240, clusters=clusters), 0.05).difference_interval
    assert four[1] - one[1] == pytest.approx(0.0, abs=0.04)
    fresh = rng.normal(size=(2, 240))
    apart = number_effect(*fresh, Independent(240, 240, clusters=clusters), 0.05).difference_interval
    assert apart[1] < number_effect(*fresh, Independent(60, 60), 0.05).difference_interval[1] - 0.1


def test_intervals_cover_under_clusters_of_unequal_size():
    """Half of the variance is between 30 clusters of 1 to 12 rows a sample; 300 draws, all at 90%."""
    held, rng = np.zeros(3), np.random.default_rng(5)
    for _ in range(300):
        parts, codes = [], []
        for shift in (0.0, 0.5):
            sizes = rng.integers(1, 13, size=30)
            code = np.repeat(np.arange(30), sizes)
            parts.append(np.sqrt(0.5) * (rng.normal(size=30)[code] + rng.normal(size=len(code))) + shift)
            codes.append(code + 100 * (shift > 0.0))
        units = Independent(len(parts[0]), len(parts[1]), clusters=tuple(codes))
        low, high = shift_interval(*parts, units, 0.1)[1]
        held[0] += low <= 0.5 <= high
        low, high = number_effect(*parts, units, 0.1).difference_interval
        held[1] += low <= 2.0 * norm.cdf(0.25) - 1.0 <= high
        low, high = category_effect(
            *(part > 0.5 for part in parts), ("no", "yes"), units, 0.1
        ).difference_interval
        held[2] += low <= 0.5 - norm.cdf(-0.5) <= high
    assert min(held) >= 252  # of 270 expected; fewer with probability .001

"""Treatment and control: balance before and after weighting, and quantile effects with bands that hold."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

import kembed
from kembed.comparing.treatment import ks_distance


@pytest.fixture(scope="module")
def groups():
    rng = np.random.default_rng(0)
    control = pd.DataFrame({"age": rng.normal(40.0, 10.0, 300), "site": rng.choice(list("abc"), 300)})
    treated = pd.DataFrame({"age": rng.normal(45.0, 8.0, 200), "site": rng.choice(list("ab"), 200)})
    return control, treated


def test_balance_is_what_its_formulas_say(groups):
    control, treated = groups
    found = kembed.balance(control, treated)
    rows = {one.name: one for one in found.columns}
    assert set(rows) == {"age", "site = a", "site = b", "site = c"}
    a, b = control["age"], treated["age"]
    unit = np.sqrt(0.5 * (a.var() + b.var()))
    assert rows["age"].smd == pytest.approx((b.mean() - a.mean()) / unit)
    assert rows["age"].variance_ratio == pytest.approx(b.var() / a.var())
    assert rows["age"].ks == pytest.approx(ks_2samp(a, b).statistic)
    assert rows["age"].weighted_smd is None
    shares = [(part["site"] == "c").mean() for part in groups]
    assert rows["site = c"].ks == pytest.approx(shares[0] - shares[1])
    assert rows["site = c"].variance_ratio is None
    assert abs(found.columns[0].smd) == max(abs(one.smd) for one in found.columns)
    assert not found.weighted


def test_weights_are_copies_of_rows(groups):
    """A row of weight 2 counts as two rows, but that the unit stays the unweighted one."""
    control, treated = groups
    copies = np.random.default_rng(1).integers(1, 4, len(control))
    found = kembed.balance(control, treated, (copies, None), labels=("control", "treated"))
    twice = control.loc[np.repeat(control.index, copies)].reset_index(drop=True)
    plain = {one.name: one for one in kembed.balance(twice, treated).columns}
    rows = {one.name: one for one in found.columns}
    unit = np.sqrt(0.5 * (control["age"].var() + treated["age"].var()))
    assert rows["age"].weighted_smd == pytest.approx((treated["age"].mean() - twice["age"].mean()) / unit)
    for name, one in rows.items():
        assert one.weighted_ks == pytest.approx(plain[name].ks)
    n, weights = len(control), copies
    assert found.effective_sizes == pytest.approx((weights.sum() ** 2 / (weights**2).sum(), len(treated)))
    mean = np.average(control["age"], weights=weights)
    squares = np.average((control["age"] - mean) ** 2, weights=weights)
    variance = squares / (1.0 - (weights**2).sum() / weights.sum() ** 2)
    assert n == 300
    assert rows["age"].weighted_variance_ratio == pytest.approx(treated["age"].var() / variance)


def test_weights_that_are_right_balance():
    rng = np.random.default_rng(0)
    age = rng.normal(size=4_000)
    chance = 1.0 / (1.0 + np.exp(-age))
    taken = rng.random(4_000) < chance
    weights = 1.0 / np.where(taken, chance, 1.0 - chance)
    found = kembed.balance(age[~taken], age[taken], (weights[~taken], weights[taken]))
    (row,) = found.columns
    assert row.smd > 0.7
    assert abs(row.weighted_smd) < 0.1
    assert row.weighted_ks < row.ks / 4.0
    assert found.unbalanced == ()
    assert "0 of 1 columns and levels differ by more than 0.1 sd" in repr(found)


def test_missing_values_are_a_row():
    rng = np.random.default_rng(0)
    control = pd.DataFrame({"age": rng.normal(size=100)})
    treated = pd.DataFrame({"age": np.where(rng.random(100) < 0.3, np.nan, rng.normal(size=100))})
    rows = {one.name: one for one in kembed.balance(control, treated).columns}
    assert rows["age (missing)"].ks == pytest.approx(treated["age"].isna().mean())
    observed = treated["age"].dropna()
    unit = np.sqrt(0.5 * (control["age"].var() + observed.var()))
    assert rows["age"].smd == pytest.approx((observed.mean() - control["age"].mean()) / unit)


def test_constant_and_extreme_columns():
    same = kembed.balance({"a": [1.0, 1.0, 1.0]}, {"a": [1.0, 1.0]}).columns[0]
    assert (same.smd, same.variance_ratio, same.ks) == (0.0, None, 0.0)
    apart = kembed.balance({"a": [1.0, 1.0, 1.0]}, {"a": [2.0, 2.0]})
    assert apart.columns[0].smd == np.inf
    json.dumps(apart.to_dict(), allow_nan=False)
    huge = kembed.balance({"a": [1e200, 2e200, 3e200]}, {"a": [2e200, 3e200, 4e200]}).columns[0]
    assert huge.smd == pytest.approx(1.0)


def test_the_distance_of_distribution_functions_is_a_loop():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 20).astype(float), rng.integers(1, 7, 30).astype(float)
    v, w = rng.uniform(1.0, 3.0, 20), rng.uniform(1.0, 3.0, 30)
    gaps = [abs(v[x <= t].sum() / v.sum() - w[y <= t].sum() / w.sum()) for t in range(8)]
    assert ks_distance(x, y, v, w) == pytest.approx(max(gaps))


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1.0], TypeError, "weights must be a pair"),
        (([1.0, 2.0], None), ValueError, "one weight for each row"),
        ((np.zeros(300), None), ValueError, "must be positive"),
    ],
)
def test_balance_refuses(groups, weights, error, message):
    with pytest.raises(error, match=message):
        kembed.balance(*groups, weights)


def test_balance_is_drawn_and_told(groups):
    found = kembed.balance(*groups, (np.ones(300), np.ones(200)), labels=("control", "treated"))
    axes = found.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [one.name for one in found.columns]
    assert len(found.to_dict()["columns"]) == 4
    assert "<table>" in found._repr_html_()
    first = repr(found).splitlines()[0]
    assert first.startswith("Balance of control (300 rows) and treated (200 rows), weighted (effective 300 ")


def band_by_loop(treated, control, x, reach):
    """The band at a control value, straight from the definition."""
    below, upto = np.mean(control < x), np.mean(control <= x)
    values = np.unique(treated)
    shares = np.array([np.mean(treated <= value) for value in values])
    pairs = list(zip(values, shares, strict=True))
    low = -np.inf if below <= reach else min(value for value, share in pairs if share >= below - reach)
    return low, min((value for value, share in pairs if share > upto + reach), default=np.inf)


@pytest.mark.parametrize("discrete", [False, True])
def test_the_band_is_that_of_its_definition(discrete):
    from scipy.stats import kstwo

    rng = np.random.default_rng(0)
    treated, control = rng.normal(1.0, 2.0, 83), rng.normal(size=61)
    if discrete:
        treated, control = np.round(treated), np.round(control)
    found = kembed.quantile_effects(treated, control, level=0.8)
    reach = kstwo.ppf(0.8, round(83 * 61 / 144))
    for k, p in enumerate(found.probabilities):
        assert found.control[k] == np.quantile(control, p, method="inverted_cdf")
        low, high = band_by_loop(treated, control, found.control[k], reach)
        assert (found.lower[k], found.upper[k]) == (low - found.control[k], high - found.control[k])
        assert found.lower[k] <= found.effect[k] <= found.upper[k]


def missed(found, first, last):
    """Whether the band leaves out G⁻¹(u) at the first or the last rank of any control value."""
    x = found.control
    return bool(((first - x < found.lower - 1e-9) | (last - x > found.upper + 1e-9)).any())


def test_the_band_holds_for_all_ranks_at_once():
    """Of 200 draws each, at most 31 miss at a level of .9 (P(more) = .01), and 5 of continuous ones do."""
    from scipy.special import ndtr
    from scipy.stats import poisson

    rng = np.random.default_rng(0)
    ranks, values = np.arange(1, 80) / 80.0, np.arange(30.0)
    cumulated = np.append(0.0, poisson.cdf(values, 3.0))
    of_below, of_upto = poisson.ppf(cumulated[:-1] + 1e-9, 4.0), poisson.ppf(cumulated[1:], 4.0)
    count = [0, 0]
    for _ in range(200):
        found = kembed.quantile_effects(rng.exponential(size=60), rng.normal(size=90), probabilities=ranks)
        truth = -np.log1p(-ndtr(found.control))
        count[0] += missed(found, truth, truth)
        counts = kembed.quantile_effects(rng.poisson(4.0, 60), rng.poisson(3.0, 90), probabilities=ranks)
        place = counts.control.astype(int)
        count[1] += missed(counts, of_below[place], of_upto[place])
    assert 5 <= count[0] <= 31
    assert count[1] <= 31


def test_equal_weights_give_about_the_same_band_and_weights_count():
    rng = np.random.default_rng(0)
    treated, control = rng.normal(0.5, 1.0, 400), rng.normal(size=500)
    plain = kembed.quantile_effects(treated, control)
    equal = kembed.quantile_effects(treated, control, weights=(np.full(400, 3.0), None))
    assert equal.weighted
    np.testing.assert_array_equal(equal.effect, plain.effect)
    finite = np.isfinite(plain.lower) & np.isfinite(equal.lower)
    assert np.mean(np.abs(plain.lower[finite] - equal.lower[finite])) < 0.1
    copies = rng.integers(1, 4, 500)
    heavier = kembed.quantile_effects(treated, control, weights=(None, copies))
    twice = kembed.quantile_effects(treated, np.repeat(control, copies))
    np.testing.assert_allclose(heavier.effect, twice.effect, atol=0.02)
    again = kembed.quantile_effects(treated[::-1], control, weights=(None, copies))
    np.testing.assert_array_equal(again.effect, heavier.effect)


@pytest.mark.parametrize(
    ("treated", "options", "error", "message"),
    [
        (np.ones((9, 2)), {}, ValueError, "2 columns"),
        (["a", "b", "c"] * 3, {}, TypeError, "text"),
        (np.arange(9.0), {"probabilities": [0.0, 0.5]}, ValueError, "probabilities must lie between 0 and 1"),
        (np.arange(9.0), {"level": 90}, ValueError, "level"),
        (np.arange(9.0), {"weights": np.ones(9)}, TypeError, "weights must be a pair"),
        ([1.0, np.nan, 3.0], {}, ValueError, "missing values"),
    ],
)
def test_quantile_effects_refuse(treated, options, error, message):
    control = treated if np.ndim(treated) == 2 or isinstance(treated[0], str) else np.arange(9.0)
    with pytest.raises(error, match=message):
        kembed.quantile_effects(treated, control, **options)


def test_quantile_effects_are_drawn_and_told():
    rng = np.random.default_rng(0)
    found = kembed.quantile_effects(
        pd.Series(rng.normal(2.0, 1.0, 50), name="spend"), pd.Series(rng.normal(size=50), name="spend")
    )
    assert found.name == "spend"
    assert found.sure.any()
    assert "spend" in found.plot().get_ylabel()
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert None in told["upper"]
    assert "<table>" in found._repr_html_()

"""Margins: what they stand for, the three verdicts, and how many rows would decide."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from kembed import DriftDetector, Sketch, mmd_test
from kembed.tables.reader import read
from kembed.testing.effect import LARGEST, EffectSize, Moments, effect_data
from kembed.testing.margin import decide, read_margin


def data_of(x, y, **how):
    return effect_data(read({"x": x, "y": y}, nan_policy="raise", minimum=2), **how)


def gram(data, rows, others):
    """The kernel of the effect size, entry by entry, from its printed form."""
    numeric = ~data.space.categorical
    squared = np.square((rows[:, None] - others) / data.space.spread[numeric]).sum(axis=2)
    return np.exp(-squared / (2.0 * data.space.median() ** 2))


@pytest.mark.parametrize(
    ("given", "kind", "amount", "text"),
    [
        ("0.1 sd", "sd", 0.1, "0.1 sd"),
        (".1SD", "sd", 0.1, "0.1 sd"),
        ("2%", "share", 0.02, "2%"),
        (" 2.5 % ", "share", 0.025, "2.5%"),
        (0.05, "MMD/√2", 0.05, "0.05"),
        ("0.05", "MMD/√2", 0.05, "0.05"),
        (np.float64(0.05), "MMD/√2", 0.05, "0.05"),
    ],
)
def test_margins_are_read(given, kind, amount, text):
    margin = read_margin(given)
    assert (margin.kind, margin.amount, str(margin)) == (kind, pytest.approx(amount), text)
    assert read_margin(margin) is margin


@pytest.mark.parametrize(
    "given", ["", "sd", "-0.1 sd", "0 sd", "100%", "0%", 0, 1, 1.5, -0.1, "nan", "infsd", "2 mm"]
)
def test_what_is_no_margin_is_refused(given):
    with pytest.raises(ValueError, match=r"margin must be standard deviations such as '0\.1 sd'"):
        read_margin(given)


@pytest.mark.parametrize("given", [None, True, ["0.1 sd"]])
def test_other_types_are_refused(given):
    with pytest.raises(TypeError, match="margin must be"):
        read_margin(given)


def test_a_shift_in_standard_deviations_is_that_of_the_pooled_rows(rng):
    """Against the kernel of all pairs of rows and shifted rows."""
    x, y = rng.normal(size=(60, 2)) * [1.0, 1e6], rng.normal(size=(50, 2)) * [1.0, 1e6]
    data = data_of(x, y)
    rows = np.concatenate([x, y])
    moved = rows + 0.3 * rows.std(axis=0)
    squared = (
        gram(data, rows, rows).mean() + gram(data, moved, moved).mean() - 2.0 * gram(data, rows, moved).mean()
    )
    assert read_margin("0.3 sd").effect(data) == pytest.approx(np.sqrt(squared) / LARGEST, rel=1e-4)


def test_outliers_do_not_widen_a_margin(rng):
    x, y = rng.normal(size=(2, 400))
    plain = read_margin("0.1 sd").effect(data_of(x, y))
    x[:4] = 1e6
    assert read_margin("0.1 sd").effect(data_of(x, y)) == pytest.approx(plain, rel=0.2)


def test_a_share_of_rows_is_that_of_rows_far_away(rng):
    """Replace a share of the pooled rows by one row that is far from all."""
    rows = rng.normal(size=(100, 2))
    data = data_of(rows[:50], rows[50:])
    kernel = gram(data, rows, rows).mean()
    assert read_margin("5%").effect(data) == pytest.approx(0.05 * np.sqrt(0.5 * (kernel + 1.0)), rel=1e-6)


def test_a_share_of_rows_of_categories(rng):
    """A new level has a kernel of exp(-penalty²/2ℓ²) with the others, not 0."""
    levels = rng.choice(["a", "b", "c"], 200)
    x, y = (pl.DataFrame({"c": part}) for part in np.split(levels, 2))
    data = data_of(x, y)
    unlike = np.exp(-0.5 * (data.space.penalty[0] / data.space.median()) ** 2)
    shares = np.unique(levels, return_counts=True)[1] / 200
    within = 1.0 - (1.0 - np.square(shares).sum()) * (1.0 - unlike)
    expected = 0.1 * np.sqrt(0.5 * (within + 1.0 - 2.0 * unlike))
    assert read_margin("10%").effect(data) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="shifts numeric columns, and there is none that varies"):
        read_margin("0.1 sd").effect(data)


def test_margins_of_single_columns():
    assert read_margin("0.1 sd").of_columns == (pytest.approx(2.0 * norm.cdf(0.05) - 1.0), 0.1)
    assert read_margin("2%").of_columns == (0.02, None)


def test_the_auc_that_a_margin_allows():
    """Of two normal columns .3 apart each the best classifier is their sum; TV .02 gives .5198 at most."""
    assert read_margin("0.3 sd").auc(2) == pytest.approx(norm.cdf(0.3))
    assert read_margin("2%").auc(5) == pytest.approx(0.5198)


@pytest.mark.parametrize(
    ("estimate", "verdict"),
    [(0.5, "different"), (0.0, "equivalent"), (0.1, "undecided"), (0.12, "undecided")],
)
def test_three_verdicts(estimate, verdict):
    """One direction of noise with standard deviation .02, and a margin of .1."""
    moments = Moments((estimate * LARGEST) ** 2 + 8e-4, 8e-4, 6.4e-7, 8e-4)
    effect = EffectSize(estimate * LARGEST, moments.interval(), None, None, (1000, 1000), moments)
    result = decide(read_margin(0.1), None, effect, 0.001)
    assert result.verdict == verdict
    assert (result.rows_needed is None) == (verdict != "undecided")
    assert repr(result).endswith(".")
    json.dumps(result.to_dict())
    if verdict == "different":  # not without a p-value
        assert decide(read_margin(0.1), None, effect, 0.2).verdict == "undecided"


def test_with_the_rows_needed_four_of_five_are_decided():
    """One direction of noise: |δ + σz| with σ² falling as rows grow; 400 quantiles of z."""
    mmd, margin, noise = 0.06 * LARGEST, 0.05 * LARGEST, 4e-4
    at = Moments(mmd**2 + noise, noise, noise**2, noise)
    effect = EffectSize(mmd, at.interval(), None, None, (1000, 1000), at)
    (needed, other) = decide(read_margin(0.05), None, effect, 0.001).rows_needed
    assert needed == other
    smaller = noise * 1000 / needed
    z = norm.ppf((np.arange(400) + 0.5) / 400)
    found = [Moments((mmd + np.sqrt(smaller) * each) ** 2, smaller, smaller**2, smaller) for each in z]
    assert np.mean([moments.interval()[0] > margin for moments in found]) == pytest.approx(0.8, abs=0.05)


def test_a_test_with_a_margin(rng):
    x, y = rng.normal(size=(400, 2)), rng.normal([1.0, 0.0], size=(400, 2))
    result = mmd_test(x, y, margin="0.1 sd", n_resamples=99, rng=0)
    assert result.margin.verdict == "different"
    assert result.effect.rows == (400, 400)
    assert "Different beyond the margin of 0.1 sd: with 95% confidence" in repr(result)
    assert mmd_test(x, y, margin="3 sd", n_resamples=99, rng=0).margin.verdict == "equivalent"
    swapped = mmd_test(y, x[::-1], margin="0.1 sd", n_resamples=99, rng=0).margin
    assert swapped.interval == pytest.approx(result.margin.interval, rel=1e-6)
    assert mmd_test(x, y, n_resamples=99, rng=0).margin is None


def test_a_margin_within_strata_of_pairs_and_of_weighted_rows(rng):
    site_x, site_y = rng.choice(["n", "s"], 300, p=[0.8, 0.2]), rng.choice(["n", "s"], 300, p=[0.2, 0.8])
    x, y = (rng.normal(size=300) + 3.0 * (site == "s") for site in (site_x, site_y))
    how = {"margin": "0.5 sd", "n_resamples": 99, "rng": 0}
    assert mmd_test(x, y, **how).margin.verdict == "different"
    assert mmd_test(x, y, strata=(site_x, site_y), **how).margin.verdict == "equivalent"
    before = rng.normal(0.0, 10.0, size=100)
    after = before + rng.normal(size=100)
    assert mmd_test(before, after, paired=True, **how).margin.verdict == "equivalent"
    weights = np.where(site_x == "n", 0.2 / 0.8, 0.8 / 0.2), np.ones(300)
    assert mmd_test(x, y, weights=weights, **how).margin.verdict != "different"


def test_time_series_and_sketches_are_refused(rng):
    x = rng.normal(size=(60, 1))
    with pytest.raises(ValueError, match="margin needs independent rows or clusters"):
        mmd_test(x, x, margin="0.1 sd", null="wild")
    sketch = Sketch.of(x)
    with pytest.raises(ValueError, match="margin needs the rows of both samples"):
        mmd_test(sketch, x, margin="0.1 sd")


@pytest.mark.parametrize("many", [False, True])
def test_a_detector_alarms_beyond_its_margin(rng, many, monkeypatch, tmp_path):
    if many:
        monkeypatch.setattr("kembed.estimators.drift.MANY", 2_000)
    detector = DriftDetector(margin="0.5 sd", n_resamples=99, random_state=0).fit(rng.normal(size=(2_000, 2)))
    small, large = rng.normal(0.2, size=(1_000, 2)), rng.normal(1.0, size=(1_000, 2))
    assert detector.pvalue(small) <= 0.05
    assert not detector.predict(small)
    assert detector.predict(large)
    loaded = DriftDetector.load(detector.save(tmp_path / "a.detector"))
    assert loaded.margin == "0.5 sd"
    if many:
        assert loaded.pvalue(large) <= 0.05
        with pytest.raises(ValueError, match="needs the rows of the reference"):
            loaded.predict(large)
    else:
        assert loaded.predict(large)
    with pytest.raises(ValueError, match="margin must be"):
        DriftDetector(margin="large").fit(small)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(rng, scale):
    x, y = rng.normal(size=(80, 1)), rng.normal(0.3, size=(80, 1))
    plain, other = (read_margin("0.1 sd").effect(data_of(x * s, y * s)) for s in (1.0, scale))
    assert other == pytest.approx(plain, rel=1e-6)

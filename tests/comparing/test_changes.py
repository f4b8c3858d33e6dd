"""What changed, in words: each sentence where it is true, and silence where nothing is sure."""

import numpy as np
import pandas as pd
import pytest

import kembed
from kembed.comparing.changes import of_numbers, pair_changes
from kembed.tables.reader import read_tables
from kembed.testing.outcome import Finding

LABELS = ("before", "after")


def told(rng, change, base=None):
    x, y = base(rng) if base else rng.normal(size=(2, 300))
    return of_numbers((x, change(y, rng)), LABELS)


def test_rounding_is_told_with_its_step(rng):
    assert told(rng, lambda y, _: np.round(2 * y) / 2) == ["rounded to 0.5 in after (0% of before is)"]
    (said,) = told(rng, lambda y, _: np.round(y, -1), lambda rng: rng.normal(300.0, 40.0, (2, 300)))
    assert said == "rounded to 10 in after (0% of before is)"
    (said,) = told(rng, lambda y, _: np.round(y / 1e-7) * 1e-7, lambda rng: 1e-6 * rng.normal(size=(2, 300)))
    assert said.startswith("rounded to 1e-07 in after")


def test_heaping_is_told_with_its_share(rng):
    def heap(y, rng):
        return np.where(rng.random(300) < 0.4, 5 * np.round(y / 5), y)

    (said,) = told(rng, heap, lambda rng: rng.poisson(30.0, (2, 300)).astype(float))
    assert "are multiples of 5" in said
    assert "of after" in said.split("are")[0]


def test_repeated_values_and_zeros_are_told(rng):
    (said,) = told(rng, lambda y, rng: np.where(rng.random(300) < 0.2, 0.0, y))
    assert said.startswith("more zeros in after (")
    (said,) = told(rng, lambda y, rng: np.where(rng.random(300) < 0.2, 0.123, y))
    assert said.startswith("more values of 0.123 in after (")


def test_rows_far_out_are_told(rng):
    (said,) = told(rng, lambda y, _: np.append(y[:-12], np.full(12, 9.0) + rng.normal(size=12)))
    assert said == "4.0% of after are outliers, 0.0% of before"


def test_half_of_the_rows_do_not_lie_far_out(rng):
    x, y = np.where(rng.random((2, 300)) < [[0.05], [0.45]], 9.0 + rng.normal(size=(2, 300)), 0.1)
    assert not any("outliers" in said for said in of_numbers((x, y), LABELS))


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_told_of_equal_samples(seed):
    rng = np.random.default_rng(seed)
    for base in (
        rng.normal(size=(2, 200)),
        rng.poisson(3.0, (2, 200)).astype(float),
        np.round(rng.lognormal(3.0, 1.0, (2, 200)), 1),
        rng.standard_cauchy((2, 200)),
        np.where(rng.random((2, 200)) < 0.3, 0.0, rng.exponential(size=(2, 200))),
    ):
        assert of_numbers((base[0], base[1]), LABELS) == []


@pytest.mark.parametrize("column", [np.zeros(30), np.full(30, 7.0), np.array([1e300, -1e300] * 15)])
def test_constants_and_extremes_are_no_trouble(column):
    assert of_numbers((column, column), LABELS) == []


# Pairs.


def of_pair(x, y):
    tables, _ = read_tables({"x": x, "y": y}, "raise", minimum=2, same_columns=True)
    finding = Finding(tuple(tables[0].names[:2]), 0.001, 0.001)
    return [change.words for change in pair_changes((tables[0], tables[1]), (finding,), LABELS, 0.05)]


def frame(a, b):
    return pd.DataFrame({"a": a, "b": b})


def test_a_correlation_is_told_with_both_numbers(rng):
    x, y = rng.normal(size=(2, 2, 400))
    x[1] = 0.8 * x[0] + 0.6 * x[1]
    (said,) = of_pair(frame(*x), frame(*y))
    first, second = (kembed_spearman(*side) for side in (x, y))
    went = f"went from {first:.2f} in before to {second:.2f} in after"
    assert said == f"the rank correlation (Spearman) of a and b {went}"


def test_a_correlation_that_hardly_moved_is_not_told(rng):
    x, y = rng.normal(size=(2, 2, 40_000))
    x[1], y[1] = x[0] + 0.10 * x[1], y[0] + 0.095 * y[1]  # .993 and .994: sure, and no news
    assert of_pair(frame(*x), frame(*y)) == []


def test_the_largest_change_comes_first(rng):
    x, y = rng.normal(size=(2, 400, 4))
    x[:, 1] += 0.7 * x[:, 0]
    x[:, 3] += 2.0 * x[:, 2]
    tables, _ = read_tables({"x": x, "y": y}, "raise", minimum=2, same_columns=True)
    names = tables[0].names
    pairs = (names[0], names[1]), (names[2], names[3])
    found = tuple(Finding(pair, 0.001, 0.001) for pair in pairs)
    told = pair_changes((tables[0], tables[1]), found, LABELS, 0.05)
    assert [change.columns for change in told] == [pairs[1], pairs[0]]


def kembed_spearman(a, b):
    from scipy.stats import spearmanr

    return spearmanr(a, b).statistic


def test_dependence_without_correlation_is_told(rng):
    x, y = rng.normal(size=(2, 2, 600))
    y *= np.where(rng.random(600) < 0.5, 0.3, 1.7)
    (said,) = of_pair(frame(*x), frame(*y))
    assert said == "a and b lie far from their middles together more often in after"


def test_a_number_by_level_and_two_categories_are_told(rng):
    level = np.array(["u", "v"])[rng.integers(2, size=(2, 400))]
    number = rng.normal(size=(2, 400))
    number[1] += np.where(level[1] == "v", 1.0, -1.0)
    (said,) = of_pair(frame(number[0], level[0]), frame(number[1], level[1]))
    assert said.startswith("where b is '")
    assert "the mean of a went from" in said
    other = np.where(rng.random((2, 400)) < np.array([[0.5], [0.1]]), level, np.where(level == "u", "v", "u"))
    (said,) = of_pair(frame(level[0], other[0]), frame(level[1], other[1]))
    assert "with b" in said
    assert "% of before and " in said


def test_what_is_not_sure_or_has_no_words_is_not_told(rng):
    x, y = rng.normal(size=(2, 2, 200))
    assert of_pair(frame(*x), frame(*y)) == []
    tables, _ = read_tables({"x": frame(*x), "y": frame(*x[:, ::-1])}, "raise", minimum=2, same_columns=True)
    unsure = Finding(("a", "b"), 0.01, 0.2)
    assert pair_changes((tables[0], tables[1]), (unsure, Finding(("a",), 0.01, 0.01)), LABELS, 0.05) == ()


def test_a_comparison_says_it_in_its_verdict_page_and_json(rng, tmp_path):
    x, y = rng.normal(size=(2, 250, 3))
    y[:, 1] = 0.9 * y[:, 0] + 0.43 * y[:, 1]
    y[:, 2] = rng.permutation(x[:, 2])
    frames = [pd.DataFrame(each, columns=["a", "b", "c"]) for each in (x, y)]
    found = kembed.compare(*frames, labels=LABELS, n_resamples=199)
    assert [pair.columns for pair in found.pairs] == [("a", "b")]
    assert not found.changed
    assert (
        "No column differs clearly on its own, but the rank correlation (Spearman) of a and b went from"
        in found.verdict
    )
    assert found.to_dict()["by_pair"][0]["columns"] == ["a", "b"]
    assert str(found.pairs[0]) in repr(found)
    page = found.save_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Relationships that changed" in page
    assert "the rank correlation (Spearman) of a and b went from" in page


def test_equal_samples_have_no_pairs(rng):
    x, y = rng.normal(size=(2, 60, 3))
    assert kembed.compare(x, y, n_resamples=99).pairs == ()


def test_one_value_is_no_step(rng):
    x, y = rng.integers(4, 18, 300).astype(float), rng.integers(4, 18, 300).astype(float)
    y[:60], y[60:150] = 10.0, 12.0
    (column,) = kembed.compare(x, y, n_resamples=19, alpha=0.1).columns
    assert "multiples" not in column.change


def test_what_is_left_aside_is_said(rng):
    """Pay, of which most have none: the shares are those of the others."""
    x = np.where(rng.random(400) < 0.7, 0.0, rng.lognormal(3.0, size=400).round(2))
    y = rng.lognormal(3.0, size=400).round()
    (column,) = kembed.compare(x, y, n_resamples=19, alpha=0.1).columns
    assert "rounded to 1 in y (" in column.change
    assert "% of x is), excluding 0" in column.change


def test_there_is_no_correlation_with_a_constant(rng):
    x, y = rng.normal(size=(2, 300, 2))
    x[:, 1], y[:, 1] = 0.0, y[:, 0]
    found = kembed.compare(x, y, n_resamples=99, rng=0)
    assert not any("rank correlation" in pair.words for pair in found.pairs)

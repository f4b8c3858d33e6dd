"""One call for everything: the verdict, the columns, the effect size, and files written whole."""

import json

import numpy as np
import pandas as pd
import pytest
from tests import reference

from kembed import Gaussian, compare, mmd_test
from kembed.comparing.separation import _superiority, separation
from kembed.comparing.summaries import _changed_moments, _changed_share, _moments, _shares
from kembed.core.writing import write_whole


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(3)
    n = 150
    before = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.choice(["u", "v"], n, p=[0.5, 0.5])}
    )
    after = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(1.0, 2.0, n), "c": rng.choice(["u", "v"], n, p=[0.8, 0.2])}
    )
    return before, after


@pytest.fixture(scope="module")
def found(frames):
    return compare(*frames, labels=("before", "after"), kernel="median", n_resamples=199)


def test_it_finds_what_changed(found):
    assert found.differ
    assert {column.name for column in found.changed} == {"b", "c"}
    assert found.columns[-1].name == "a"
    assert found.verdict.startswith("before and after differ (p = 0.005). The clearest is ")
    assert "1 more column differs." in found.verdict
    assert f"{found.separation:.0%} of the time" in found.verdict


def test_its_parts_are_those_of_the_single_calls(found, frames):
    alone = mmd_test(*frames, kernel="median", n_resamples=199, by_column=True, rng=0)
    assert found.test.statistic == alone.statistic
    assert found.test.pvalue == alone.pvalue
    by_name = {column.name: column for column in found.columns}
    for column in alone.columns:
        assert by_name[column.name].adjusted_pvalue == column.adjusted_pvalue
    for name, share in zip(found.witness.names, found.witness.sensitivity, strict=True):
        assert by_name[name].sensitivity == share
    assert found.regions == found.witness.where()


def test_the_summary_counts(found, frames):
    by_name = {column.name: column for column in found.columns}
    before, after = frames
    assert by_name["b"].x["mean"] == pytest.approx(before["b"].mean())
    assert by_name["b"].y["sd"] == pytest.approx(after["b"].std())
    assert by_name["b"].y["median"] == pytest.approx(after["b"].median())
    assert by_name["c"].y["u"] == pytest.approx((after["c"] == "u").mean())
    assert by_name["c"].categorical
    assert "spread" in by_name["b"].change
    assert "'u'" in by_name["c"].change or "'v'" in by_name["c"].change


def test_json_says_the_same(found):
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["verdict"] == found.verdict
    assert [sample["used"] for sample in told["samples"]] == [150, 150]
    assert sorted(told["columns"]) == sorted(column.name for column in found.columns)
    assert told["pvalue"] == found.test.pvalue
    assert [column["name"] for column in told["by_column"]] == [column.name for column in found.columns]
    assert len(told["regions"]) == len(found.regions)
    assert told["seed"] == 0


def test_no_difference_is_no_proof(rng):
    x = rng.normal(size=(60, 2))
    same = compare(x, x[::-1], kernel="median", n_resamples=99)
    assert not same.differ
    assert same.test.pvalue > 0.05
    assert same.verdict.startswith("No difference between x and y was found (p = ")
    assert "does not prove them the same" in same.verdict
    assert same.changed == ()


def test_a_difference_in_no_column_alone(rng):
    x = rng.normal(size=(300, 2))
    y = np.sort(x, axis=0)  # the very same columns, now in step
    found = compare(x, y, kernel="median", n_resamples=99)
    assert found.differ
    assert found.changed == ()
    assert "No column differs clearly by itself" in found.verdict
    assert min(found.witness.sensitivity) > 0.5  # both are needed, jointly


def test_same_seed_same_answer_in_any_order(frames):
    before, after = frames
    one = compare(before, after, kernel="median", n_resamples=99, rng=4)
    other = compare(
        before[::-1], after.sample(frac=1, random_state=1), kernel="median", n_resamples=99, rng=4
    )
    assert one.test.pvalue == other.test.pvalue
    assert one.separation == other.separation
    np.testing.assert_array_equal(one.witness.sensitivity, other.witness.sensitivity)


def test_missing_rows_are_counted(frames):
    before, after = frames
    holes = before.copy()
    holes.loc[[2, 5], "a"] = np.nan
    with pytest.raises(ValueError, match="x has missing values"):
        compare(holes, after, kernel="median")
    found = compare(holes, after, kernel="median", n_resamples=49, nan_policy="omit")
    assert found.dropped == (2, 0)
    assert found.test.sizes == (148, 150)


def test_many_rows_take_random_features(rng):
    x, y = rng.normal(size=(3_000, 1)), rng.normal(0.5, size=(3_000, 1))
    found = compare(x, y, kernel="median", n_resamples=49)
    direct = mmd_test(x, y, kernel="median", statistic="features", n_resamples=49, by_column=True, rng=0)
    assert found.test.statistic == direct.statistic
    assert found.differ


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": "ab"}, TypeError, "labels must be two strings"),
        ({"labels": ("a", 1)}, TypeError, "labels must be two strings"),
        ({"alpha": 5}, ValueError, "alpha"),
        ({"nan_policy": "propagate"}, ValueError, "nan_policy"),
        ({"kernel": "mediam"}, ValueError, "'median'"),
        ({"n_resamples": 0}, ValueError, "n_resamples"),
    ],
)
def test_refuses(options, error, message):
    with pytest.raises(error, match=message):
        compare([0.0, 1.0, 2.0], [0.0, 1.0, 3.0], **options)


# The effect size.


def test_superiority_counts_pairs(rng):
    assert _superiority(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == 3.5 / 4
    a, b = rng.integers(0, 5, 30).astype(float), rng.integers(1, 6, 20).astype(float)
    assert _superiority(a, b) == pytest.approx(reference.superiority(a, b), rel=1e-12)


def test_separation_of_two_normals(rng):
    x, y = rng.normal(size=(2_000, 1)), rng.normal(1.0, size=(2_000, 1))
    # P{X < Y} = Φ(1/√2) = .7602; the standard error of 2,000 + 2,000 rows is below .01
    assert separation(x, y, Gaussian(2.0), 0) == pytest.approx(0.760, abs=0.025)


def test_separation_is_judged_on_other_rows(rng):
    x, y = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
    assert abs(separation(x, y, Gaussian(0.3), 0) - 0.5) < 0.08  # its own rows would give almost 1


# Words.


def test_words_for_moments():
    x, y = {"mean": 1.0, "sd": 2.0}, {"mean": 3.0, "sd": 2.0}
    assert _changed_moments(x, y, ("a", "b")) == "mean 1 in a, 3 in b (1 sd higher)"
    assert _changed_moments(y, x, ("a", "b")) == "mean 3 in a, 1 in b (1 sd lower)"
    wide = {"mean": 1.0, "sd": 5.0}
    assert _changed_moments(x, wide, ("a", "b")) == "mean 1 in a, 1 in b; spread 2.5 times as wide in b"
    flat = {"mean": 1.0, "sd": 0.0}
    assert _changed_moments(flat, x, ("a", "b")) == "mean 1 in a, 1 in b; constant in a"
    assert _changed_moments(flat, flat, ("a", "b")) == "mean 1 in a, 1 in b"


def test_words_for_shares():
    x, y = _shares(np.array([0.0, 0.0, 1.0, 1.0]), ("u", "v")), _shares(np.array([1.0, 1.0]), ("u", "v"))
    assert x == {"u": 0.5, "v": 0.5}
    assert _changed_share(x, y, ("a", "b")) == "'u' is 50.0% of a and 0.0% of b"


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_moments_in_any_unit(unit):
    found = _moments(unit * np.array([1.0, 2.0, 6.0]))
    assert found["mean"] == pytest.approx(3.0 * unit)
    assert found["sd"] == pytest.approx(np.sqrt(7.0) * unit)


# Files.


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.txt"
    write_whole(target, lambda path: path.write_text("first"))

    def fails(path):
        path.write_text("half of it")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(target, fails)
    assert target.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_where_a_file_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        write_whole(tmp_path / "no" / "out.txt", lambda path: path.write_text(""))
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_whole(tmp_path, lambda path: path.write_text(""))

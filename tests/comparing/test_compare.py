"""One call for everything: the verdict, the columns, and how its parts hang together."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from kembed import Gaussian, compare, mmd_test, witness


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
    assert f"AUC at least {found.auc:.2f} (95% CI" in found.verdict


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


def test_the_witness_takes_kernel_and_column_tests_from_the_test(found, frames):
    assert found.witness.kernel == found.test.kernel
    assert found.witness.column_tests is found.test.columns
    numbers = [frame[["a", "b"]] for frame in frames]
    own = compare(*numbers, kernel=[Gaussian(2.0)], n_resamples=19)
    assert own.kernel == own.test.kernel == own.witness.kernel == Gaussian(2.0)
    assert own.evidence is None


def test_the_witness_draws_from_a_stream_of_its_own(found, frames):
    """One seed for both would tie the landmarks of the picture to the relabelings of the test."""
    assert found.witness.seed != witness(*frames, kernel="median").seed
    more = compare(*frames, kernel="median", n_resamples=19)
    np.testing.assert_array_equal(more.witness.reference, found.witness.reference)
    assert more.witness.seed == found.witness.seed


def test_a_generator_or_none_is_another_stream_every_time(frames):
    numbers = [frame["a"] for frame in frames]
    generator = np.random.default_rng(0)
    seeds = {
        compare(*numbers, kernel="median", n_resamples=19, rng=rng).witness.seed
        for rng in (0, generator, generator, None, None)
    }
    assert len(seeds) == 4  # the generator's first is that of its seed
    assert compare(*numbers, kernel="median", n_resamples=19, rng=None).seed is None


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
    same = compare(x, x[::-1], kernel=["median"], n_resamples=99)
    assert same.kernel == "median"
    assert not same.differ
    assert same.test.pvalue > 0.05
    assert same.verdict.startswith("No difference between x and y was found (p = ")
    assert "does not prove they are the same" in same.verdict
    assert same.changed == ()


def test_a_difference_in_no_column_alone(rng):
    x = rng.normal(size=(300, 2))
    y = np.sort(x, axis=0)  # the very same columns, now in step
    found = compare(x, y, kernel="median", n_resamples=99)
    assert found.differ
    assert found.changed == ()
    assert "No column differs clearly on its own" in found.verdict
    assert min(found.witness.sensitivity) > 0.5  # both are needed, jointly


def test_the_separation_has_no_seed(rng):
    x, y = rng.normal(size=(50, 3)), 1.3 * rng.normal(size=(40, 3))
    found = [compare(*pair, n_resamples=19, rng=seed) for seed in (0, 5, None) for pair in ((x, y), (y, x))]
    assert len({one.auc for one in found}) == 1


def test_same_seed_same_answer_in_any_order(frames):
    before, after = frames
    one = compare(before, after, kernel="median", n_resamples=99, rng=4)
    other = compare(
        before[::-1], after.sample(frac=1, random_state=1), kernel="median", n_resamples=99, rng=4
    )
    assert one.test.pvalue == other.test.pvalue
    assert one.auc == other.auc
    np.testing.assert_array_equal(one.witness.sensitivity, other.witness.sensitivity)


def test_missing_rows_are_counted(frames):
    before, after = frames
    holes = before.copy()
    holes.loc[[2, 5], "a"] = np.nan
    with pytest.raises(ValueError, match="x has missing values"):
        compare(holes, after, kernel="median", missing="raise")
    found = compare(holes, after, kernel="median", n_resamples=49, missing="omit")
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
        ({"missing": "propagate"}, ValueError, "missing"),
        ({"kernel": "mediam"}, ValueError, "'median'"),
        ({"n_resamples": 0}, ValueError, "n_resamples"),
    ],
)
def test_refuses(options, error, message):
    with pytest.raises(error, match=message):
        compare([0.0, 1.0, 2.0], [0.0, 1.0, 3.0], **options)


@pytest.mark.parametrize(("n", "shift", "auc"), [(400, 9.0, "at least 1.00"), (400, 1.2, "at least 0.81")])
def test_the_auc_is_printed_with_its_interval(n, shift, auc, tmp_path):
    rng = np.random.default_rng(0)
    found = compare(rng.normal(size=n), rng.normal(shift, size=n), n_resamples=19, alpha=0.1)
    low, high = found.auc_interval
    words = f"{auc} (95% CI {low:.2f}-{high:.2f})"
    assert f"AUC {words}; 0.5 is guessing" in found.verdict
    page = found.save_report(tmp_path / "r.html").read_text()
    assert f'<p class="value">{found.auc:.2f}</p>' in page
    assert f"(95% CI {low:.2f}-{high:.2f})" in page


def test_a_column_of_zeros_and_ones_is_described_by_its_share(rng):
    x, y = (pd.DataFrame({"treated": (rng.random(300) < share).astype(int)}) for share in (0.1, 0.4))
    found = compare(x, y, n_resamples=19, alpha=0.1)
    shares = x.treated.mean(), y.treated.mean()
    assert found.columns[0].change == f"1 is {shares[0]:.1%} of x and {shares[1]:.1%} of y"


def test_a_pickled_comparison_is_small_and_says_the_same(rng):
    """It was 9 MB of matrices for the 26 kB of these rows."""
    x, y = rng.normal(size=(300, 5)), rng.normal(0.3, size=(340, 5))
    found = compare(x, y, n_resamples=19, alpha=0.1)
    stored = pickle.dumps(found)
    assert len(stored) < 500_000
    again = pickle.loads(stored)
    np.testing.assert_allclose(again.witness.at(x).mean, found.witness.at(x).mean, rtol=1e-10, atol=1e-14)
    assert again.verdict == found.verdict


def test_copied_rows_are_in_the_verdict(rng):
    """Copies in one sample change no column's distribution: counting them is what finds them."""
    x, y = (pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc")) for _ in range(2))
    y.iloc[-24:] = y.iloc[:24].to_numpy()
    found = compare(x, y, n_resamples=99)
    assert found.differ
    assert "Rows are repeated: 0.0% of x and 32.0% of y occur more than once." in found.verdict
    assert "how columns are related" not in found.verdict
    assert any("24 of 150 rows of y repeat others" in note for note in found.test.notes)

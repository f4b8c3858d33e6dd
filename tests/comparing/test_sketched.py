"""A difference from a sketch, explained: columns by all of its rows, regions by those that it keeps."""

import json

import numpy as np
import polars as pl
import pytest

from kembed import DriftDetector, Sketch, compare, mmd_test, witness
from kembed.comparing.column_effects import superiority
from kembed.plotting import plot_pair

ROWS, NEW, KEPT = 3_000, 240, 300


def table(rng, n, shift=0.0, towns=("Bern", "Oslo"), tied=0.0):
    a = rng.normal(size=n)
    b = tied * a + np.sqrt(1.0 - tied**2) * rng.normal(size=n) + shift
    return pl.DataFrame({"a": a, "town": rng.choice(towns, n), "b": b})


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    return table(rng, ROWS), table(rng, NEW, shift=0.8, towns=("Bern", "Oslo", "Rome"))


@pytest.fixture(scope="module")
def sketch(tables):
    return Sketch.of(tables[0], keep_rows=KEPT)


@pytest.fixture(scope="module")
def found(sketch, tables):
    return compare(sketch, tables[1], labels=("then", "now"), n_resamples=199)


def test_the_test_is_that_of_the_sketch(found, sketch, tables):
    own = mmd_test(sketch, tables[1], n_resamples=199, by_column=True, rng=0)
    assert found.test.pvalue == own.pvalue == 0.005
    assert found.test.sizes == (sketch.rows, NEW)
    assert {column.name: column.adjusted_pvalue for column in found.columns} == {
        column.name: column.adjusted_pvalue for column in own.columns
    }
    assert found.bayes is None
    for note in (
        f"rest on the 300 rows that the sketch of then ({sketch.rows:,} rows) keeps",
        "probability",
    ):
        assert any(note in told for told in found.test.notes)


def test_columns_are_those_of_all_rows(found, sketch, tables):
    x, y = tables
    by_name = {column.name: column for column in found.columns}
    b, total = by_name["b"], sketch.column(2)
    assert (b.x["mean"], b.x["sd"], b.x["minimum"], b.x["maximum"]) == total[3:]
    assert b.y["mean"] == pytest.approx(y["b"].mean())
    assert b.x["median"] == pytest.approx(float(np.median(x["b"])), abs=0.07)  # 2,250 of the 3,000 rows
    assert b.auc == pytest.approx(superiority(x["b"].to_numpy(), y["b"].to_numpy()), abs=0.03)
    assert b.standardised == pytest.approx(0.8, abs=0.2)
    assert "mean" in b.change
    assert "sd higher" in b.change
    assert b.auc_interval[1] - b.auc_interval[0] < 0.08  # of 2,250 and 240 rows, not of 300
    town = by_name["town"]
    counts = dict(zip(("Bern", "Oslo"), sketch.column(1).counts, strict=False))
    assert town.x == pytest.approx({**{name: counts[name] / sketch.rows for name in counts}, "Rome": 0.0})
    assert town.y["Rome"] == pytest.approx((y["town"] == "Rome").mean())


def test_where_it_differs(found):
    assert {region.sign for region in found.regions} == {1, -1}
    assert all(region.share_y > region.share_x for region in found.regions if region.sign < 0)
    assert 0.6 < found.auc < 0.95
    assert found.effect.normalised[1] > 0.0


def test_rows_far_outside_are_seen_there():
    """Rows beyond all of the reference are not counted at its largest value."""
    rng = np.random.default_rng(1)
    found = compare(Sketch.of(rng.normal(size=400)), rng.normal(50.0, 1.0, 60), n_resamples=99)
    (column,) = found.columns
    assert column.auc == 1.0
    assert column.histogram.edges[-1] > 45.0
    assert found.auc == 1.0


def test_means_of_a_sketch_are_not_those_of_the_rows_it_keeps():
    """A shift of .2 sd, which 30 rows cannot show, has the right sign and size."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(20_000, 1)), rng.normal(0.2, 1.0, (3_000, 1))
    sketch = Sketch.of(x, kernel="median", keep_rows=30)
    assert abs(sketch.kept.values.mean()) > 0.03  # the rows that are kept are off
    (column,) = compare(sketch, y, kernel="median", n_resamples=99).columns
    assert column.standardised == pytest.approx(0.2, abs=0.07)
    assert column.auc == pytest.approx(0.556, abs=0.02)


def test_two_sketches_and_swapped_samples(sketch, found, tables):
    turned = compare(tables[1], sketch, labels=("now", "then"), n_resamples=199)
    assert turned.test.pvalue == found.test.pvalue
    assert [column.name for column in turned.columns] == [column.name for column in found.columns]
    ways = zip(turned.columns, found.columns, strict=True)
    assert all(one.x == pytest.approx(other.y) for one, other in ways)
    other = Sketch.of(tables[1], like=sketch)
    both = compare(sketch, other, n_resamples=99)
    assert both.differ
    assert both.witness.sizes == (KEPT, NEW)
    moments = {column.name: column for column in both.columns}["b"].y
    assert moments["mean"] == pytest.approx(tables[1]["b"].mean())


def test_files_and_detectors_answer_alike(sketch, found, tables, tmp_path):
    path = sketch.save(tmp_path / "a.kembed")
    again = compare(str(path), tables[1], labels=("then", "now"), n_resamples=199)
    assert repr(again) == repr(found)
    assert mmd_test(path, tables[1], n_resamples=199, rng=0).pvalue == found.test.pvalue
    few = DriftDetector(n_resamples=199, random_state=0).fit(tables[0][:300])
    detector = few.save(tmp_path / "a.detector")
    of_rows = compare(detector, tables[1], n_resamples=199)
    assert of_rows.test.pvalue == few.pvalue(tables[1])
    assert of_rows.bayes is not None  # all rows are in the file


def test_without_rows(tables, tmp_path):
    sketch = Sketch.of(tables[0], keep_rows=0)
    found = compare(sketch, tables[1], n_resamples=199)
    assert (found.witness, found.effect, found.bayes, found.regions) == (None, None, None, [])
    assert any("regions" in note and "not available" in note for note in found.test.notes)
    best = max(max(column.auc, 1.0 - column.auc) for column in found.columns)
    assert found.auc == best
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["witness_kernel"], told["effect_size"], told["regions"]) == (None, None, [])
    assert told["columns"] == ["a", "town", "b"]
    page = found.save_report(tmp_path / "page.html").read_text()
    assert "Regions over several columns are not available" in page
    assert "witness" not in page.split('id="words"')[0].lower().split('id="where"')[1].split('id="chance"')[0]
    assert found.plot().shape == (2, 2)
    assert "differ" in repr(found)
    with pytest.raises(ValueError, match="a witness needs rows"):
        witness(sketch, tables[1])
    with pytest.raises(ValueError, match="needs rows"):
        plot_pair(found, ("a", "b"))
    same = compare(sketch, table(np.random.default_rng(9), 200), n_resamples=99)
    assert np.isnan(same.auc)
    assert (
        "Can rows be classified?"
        not in same.save_report(tmp_path / "same.html").read_text().split('id="columns"')[0]
    )


def test_pairs_that_changed_are_named_without_rows_and_described_with_them():
    rng = np.random.default_rng(3)
    x, y = table(rng, ROWS), table(rng, NEW, tied=0.7)
    described = compare(Sketch.of(x, keep_rows=KEPT), y, n_resamples=199)
    assert described.pairs[0].columns == ("a", "b")
    assert "rank correlation (Spearman) of a and b went from" in described.pairs[0].words
    named = compare(Sketch.of(x, keep_rows=0), y, n_resamples=199)
    assert [pair.words for pair in named.pairs] == ["the pair of a and b differs"]


def test_a_witness_rests_on_the_rows_that_are_kept(sketch, tables):
    w = witness(sketch, tables[1])
    assert w.sizes == (KEPT, NEW)
    assert any("rest on the 300 rows" in note for note in w.notes)
    assert {test.name for test in w.column_tests if test.adjusted_pvalue <= 0.05} == {"town", "b"}


def test_missing_values(sketch, tables):
    gaps = tables[1].with_columns(b=pl.when(pl.int_range(NEW) < 36).then(None).otherwise(pl.col("b")))
    with pytest.raises(ValueError, match="y has missing values"):
        compare(sketch, gaps, n_resamples=99)
    found = compare(sketch, gaps, missing="omit", n_resamples=99)
    b = {column.name: column for column in found.columns}["b"]
    assert b.missing == (0.0, 0.15)
    assert b.missing_pvalue < 1e-6
    assert found.dropped == (0, 36)


def test_what_needs_rows_is_refused(sketch, tables):
    for options in ({"unit": 5}, {"strata": "town"}, {"paired": True}, {"weights": (1, 2)}):
        with pytest.raises(ValueError, match="needs the rows of both samples, and a sketch has none"):
            compare(sketch, tables[1], **options)

"""`compare` and the report with weights and pairs: tests as in `mmd_test`, summaries of weighted rows."""

import json

import numpy as np
import polars as pl
import pytest

import kembed
from kembed.cli import run
from kembed.comparing.samples import drawn_rows

QUICK = {"n_resamples": 99, "rng": 0}


def test_equal_weights_change_nothing(rng):
    x, y = rng.normal(size=(60, 2)), rng.normal([0.0, 1.0], size=(50, 2))
    plain = kembed.compare(x, y, **QUICK)
    weighted = kembed.compare(x, y, weights=(np.full(60, 2.0), np.full(50, 2.0)), **QUICK)
    assert weighted.test.pvalue == plain.test.pvalue
    assert [c.name for c in weighted.changed] == [c.name for c in plain.changed]
    assert weighted.witness.sizes == (60, 50)


def test_the_tests_are_those_of_mmd_test_and_summaries_are_weighted(rng):
    """Weights that undo a shift: the p-value is less small, and the summary shows about equal means."""
    x = rng.normal(size=400)
    y = rng.normal(0.7, 1.0, size=400)
    weights = np.ones(400), np.exp(-0.7 * y)
    found = kembed.compare(x, y, weights=weights, **QUICK)
    direct = kembed.mmd_test(x, y, weights=weights, by_column=True, **QUICK)
    assert found.test.pvalue == direct.pvalue > kembed.compare(x, y, **QUICK).test.pvalue == 0.01
    assert abs(found.columns[0].standardised) < 0.3


def test_rows_are_drawn_in_proportion_to_their_weights():
    weights = np.array([1.0, 3.0, 2.0, 0.0, 2.0])
    counts = np.zeros(5)
    for seed in range(2_000):
        rows = drawn_rows(weights, np.random.default_rng(seed))
        assert len(rows) == 4  # 8²/18 is 3.6
        counts += np.bincount(rows, minlength=5)
    np.testing.assert_allclose(counts / counts.sum(), weights / 8.0, atol=0.005)


@pytest.mark.parametrize("kernel", ["fused", "median", "bkl"])
def test_pairs(kernel, rng):
    subject = 3.0 * rng.normal(size=(50, 1))
    x, y = subject + rng.normal(size=(50, 2)), subject + rng.normal([0.0, 1.0], size=(50, 2))
    found = kembed.compare(x, y, kernel=kernel, paired=True, **QUICK)
    direct = kembed.mmd_test(x, y, kernel=kernel, paired=True, by_column=True, **QUICK)
    assert found.test.pvalue == direct.pvalue
    assert [c.pvalue for c in found.test.columns] == [c.pvalue for c in direct.columns]
    assert found.columns[0].name == "column 1"


def test_a_column_of_few_pairs_has_ranks_for_p_values():
    """With all 32 ways to swap 5 pairs in turn as the data, the p-values of a column are ranks."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    found = []
    for bits in range(32):
        swap = np.array([bits >> k & 1 for k in range(5)], dtype=bool)[:, None]
        result = kembed.mmd_test(
            np.where(swap, y, x), np.where(swap, x, y), paired=True, by_column=True, n_resamples=31, rng=0
        )
        found.append([result.pvalue, *(column.pvalue for column in result.columns)])
    # Swapping all pairs changes nothing, so every value occurs twice.
    np.testing.assert_allclose(
        np.sort(found, axis=0), np.repeat(np.arange(2, 33, 2) / 32, 2)[:, None] * np.ones(3)
    )


def test_the_report_takes_weights_and_pairs(tmp_path, monkeypatch, capsys, rng):
    monkeypatch.chdir(tmp_path)
    subject = 3.0 * rng.normal(size=80)
    a = pl.DataFrame({"v": subject + rng.normal(size=80), "w": rng.uniform(1.0, 2.0, size=80)})
    b = pl.DataFrame({"v": subject + rng.normal(0.8, size=80), "w": rng.uniform(1.0, 2.0, size=80)})
    a.write_csv("a.csv")
    b.write_csv("b.csv")
    quick = ("--resamples", "99", "--seed", "0", "--json")
    run(["report", "a.csv", "b.csv", "--paired", "--exclude", "w", *quick])
    paired = json.loads(capsys.readouterr().out)
    assert paired["pvalue"] == kembed.mmd_test(a["v"], b["v"], paired=True, **QUICK).pvalue == 0.01
    run(["report", "a.csv", "b.csv", "--weights", "w", *quick])
    weighted = json.loads(capsys.readouterr().out)
    weights = a["w"].to_numpy(), b["w"].to_numpy()
    assert weighted["columns"] == ["v"]
    assert weighted["pvalue"] == kembed.mmd_test(a["v"], b["v"], weights=weights, **QUICK).pvalue


def test_columns_of_clusters_are_as_sure_as_the_clusters_are_many():
    """Effects of days on all their rows: single rows would mark bars and bound the AUC away from one half."""
    rng = np.random.default_rng(5)
    days = rng.normal(size=(2, 15))
    x, y = (
        pl.DataFrame(
            {"v": np.repeat(side, 200) + rng.normal(size=3_000), "day": np.repeat(range(15), 200) + at}
        )
        for side, at in zip(days, (0, 100), strict=True)
    )
    plain = kembed.compare(x.drop("day"), y.drop("day"), n_resamples=99, rng=0).columns[0]
    found = kembed.compare(x, y, unit="day", n_resamples=99, rng=0)
    (column,) = found.columns
    assert any(plain.histogram.more)
    assert not plain.auc_interval[0] <= 0.5 <= plain.auc_interval[1]
    assert not any(column.histogram.more)
    assert column.auc_interval[0] <= 0.5 <= column.auc_interval[1]
    assert column.auc == plain.auc
    assert any("take rows as independent" in note for note in found.test.notes)

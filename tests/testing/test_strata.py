"""Strata and clusters: level, power, what is refused, and the same answer by every way in."""

import numpy as np
import polars as pl
import pytest

from kembed import compare, mmd_test


def _site_effects(seed, n=120, shift=0.0):
    """Three sites with means 0, 3 and -2; x has most rows of the first, y of the last."""
    rng = np.random.default_rng(seed)
    tables = []
    for shares, moved in (((0.6, 0.3, 0.1), 0.0), ((0.1, 0.3, 0.6), shift)):
        site = rng.choice(3, n, p=shares)
        values = rng.normal(size=(n, 2)) + np.array([0.0, 3.0, -2.0])[site, None] + moved
        tables.append(pl.DataFrame({"a": values[:, 0], "b": values[:, 1], "site": [f"s{k}" for k in site]}))
    return tables


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_strata_hold_the_level_where_the_plain_test_always_rejects(kernel):
    plain, within = [], []
    for seed in range(60):
        x, y = _site_effects(seed)
        plain.append(mmd_test(x.drop("site"), y.drop("site"), kernel=kernel, n_resamples=99, rng=seed).pvalue)
        within.append(mmd_test(x, y, strata="site", kernel=kernel, n_resamples=99, rng=seed).pvalue)
    assert np.mean(np.array(plain) <= 0.05) > 0.95
    assert np.mean(np.array(within) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert abs(np.mean(within) - 0.5) < 4 * np.sqrt(1 / 12 / 60)


def test_a_shift_within_strata_is_found_whatever_the_strata():
    x, y = _site_effects(0, shift=0.8)
    assert mmd_test(x, y, strata="site", rng=0).pvalue <= 0.01
    result = mmd_test(x, y, strata="site", by_column=True, rng=0)
    assert {column.name for column in result.columns} == {"a", "b"}
    assert all(column.adjusted_pvalue <= 0.05 for column in result.columns)
    assert compare(x, y, strata="site").differ


def test_one_question_by_every_way_in():
    x, y = _site_effects(3)
    named = mmd_test(x, y, strata="site", rng=0)
    arrays = mmd_test(x.drop("site"), y.drop("site"), strata=(x["site"], y["site"]), rng=0)
    order = np.random.default_rng(0).permutation(len(x))
    shuffled = mmd_test(x[order.tolist()], y, strata="site", rng=0)
    assert named.pvalue == arrays.pvalue == shuffled.pvalue == mmd_test(y, x, strata="site", rng=0).pvalue
    assert compare(x, y, strata="site", rng=0).test.pvalue == named.pvalue


@pytest.mark.parametrize("way", ["memory", "lazy"])
def test_many_rows(way, monkeypatch, tmp_path):
    """Beyond 5,000 rows, bins within strata: level, and power."""
    pvalues = []
    for seed in range(12):
        x, y = _site_effects(seed, n=3_000)
        if way == "lazy":
            x, y = x.lazy(), y.lazy()
        result = mmd_test(x, y, strata="site", statistic="features", n_resamples=199, rng=seed)
        assert result.bins
        pvalues.append(result.pvalue)
    assert np.mean(pvalues) > 0.5 - 4 * np.sqrt(1 / 12 / 12)
    assert np.sum(np.array(pvalues) <= 0.05) <= 3
    x, y = _site_effects(0, n=3_000, shift=0.15)
    assert mmd_test(x, y, strata="site", statistic="features", rng=0).pvalue <= 0.01


def test_strata_with_clusters():
    """Clusters with effects within sites: rows as units reject, clusters within strata do not."""
    rows, clusters_only = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        tables = []
        for shares in ((0.8, 0.2), (0.2, 0.8)):
            site = rng.choice(2, 24, p=shares)
            sizes = rng.integers(2, 12, size=24)
            effect = rng.normal(size=24) + 3.0 * site
            who = np.repeat(np.arange(24), sizes)
            tables.append(
                pl.DataFrame({"v": effect[who] + rng.normal(size=len(who)), "who": who, "site": site[who]})
            )
        x, y = tables
        how = {"n_resamples": 99, "kernel": "median", "strata": "site", "rng": seed}
        rows.append(mmd_test(x.drop("who"), y.drop("who"), **how).pvalue)
        clusters_only.append(mmd_test(x, y, unit="who", **how).pvalue)
    assert np.mean(np.array(rows) <= 0.05) > 0.3
    assert np.mean(np.array(clusters_only) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)


def test_wrong_strata_are_refused():
    x, y = _site_effects(0)
    for strata, error, said in (
        ("sites", ValueError, "strata='sites' is not a column; the samples have 'a', 'b', 'site'"),
        (3, TypeError, "strata must be a column's name or a pair of arrays"),
        ((["u"] * 120, ["v"] * 120), ValueError, "no stratum has rows of both samples"),
        ((["u"] * 119, ["v"] * 120), ValueError, r"strata\[0\] has 119 entries, but the sample has 120 rows"),
    ):
        with pytest.raises(error, match=said):
            mmd_test(x, y, strata=strata)
    with pytest.raises(ValueError, match="the rows of pair 1 lie in two strata, 's1' and 's2'"):
        mmd_test(x, y, strata="site", paired=True)
    with pytest.raises(ValueError, match="strata goes with null='permutation' and unpaired samples"):
        mmd_test(x, y, strata="site", null="wild")
    with pytest.raises(ValueError, match="a cluster of unit has rows in two strata"):
        mmd_test(x, y, strata="site", unit=10)
    with pytest.raises(ValueError, match="no column is left to compare"):
        mmd_test(x[["site"]], y[["site"]], strata="site")


def test_strata_of_one_sample_are_named():
    x, y = _site_effects(0)
    x = pl.concat([x, pl.DataFrame({"a": [9.0] * 5, "b": [9.0] * 5, "site": ["lonely"] * 5})])
    result = mmd_test(x, y, strata="site", rng=0)
    assert any(
        "1 stratum has rows of one sample only and is left out: 'lonely'" in note for note in result.notes
    )


def test_few_clusters_are_reported():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 1)), rng.normal(size=(30, 1))
    result = mmd_test(x, y, unit=(np.repeat([0, 1], 15), np.repeat([0, 1], 15)), rng=0)
    assert any("labels of clusters can be exchanged in 6 ways only" in note for note in result.notes)
    assert result.pvalue >= 1 / 6


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_trailing_rows_of_blocks_keep_their_labels(kernel):
    """23 rows in blocks of five: the last three are never exchanged."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 1)), rng.normal(size=(22, 1))
    result = mmd_test(x, y, unit=5, kernel=kernel, rng=0)
    assert result.enumerated
    assert len(result.null_distribution) == 70  # four of eight blocks
    assert result.sizes == (23, 22)

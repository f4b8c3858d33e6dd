"""Strata and clusters: what may be exchanged, exact by enumeration, the same answer by every way in."""

from itertools import combinations, product

import numpy as np
import polars as pl
import pytest

from kembed import Gaussian, compare, mmd_test
from kembed.permutation.bins import make_cluster_bins
from kembed.permutation.statistics import contrasts
from kembed.testing import two_sample


def _site_effects(seed, n=120, shift=0.0):
    """Three sites with means 0, 3 and -2; x has most rows of the first, y of the last."""
    rng = np.random.default_rng(seed)
    tables = []
    for shares, moved in (((0.6, 0.3, 0.1), 0.0), ((0.1, 0.3, 0.6), shift)):
        site = rng.choice(3, n, p=shares)
        values = rng.normal(size=(n, 2)) + np.array([0.0, 3.0, -2.0])[site, None] + moved
        tables.append(pl.DataFrame({"a": values[:, 0], "b": values[:, 1], "site": [f"s{k}" for k in site]}))
    return tables


def test_contrasts_are_mean_differences_within_strata():
    rng = np.random.default_rng(0)
    labels, strata, v = (
        rng.integers(2, size=(30, 4)).astype(float),
        np.repeat([0, 1, 2], 10),
        rng.uniform(1, 2, 30),
    )
    labels[20:] = 1.0  # a stratum of one sample
    phi = rng.normal(size=30)
    for column, found in zip(labels.T, (contrasts(labels, v, strata) * v[:, None]).T @ phi, strict=True):
        total, precision = 0.0, 0.0
        for s in (0, 1):
            own = strata == s
            first, second = own & (column == 1), own & (column == 0)
            p = v[first].sum() * v[second].sum() / v[own].sum()
            total += p * (
                np.average(phi[first], weights=v[first]) - np.average(phi[second], weights=v[second])
            )
            precision += p
        assert np.isclose(found, total / precision)


def test_p_values_are_ranks_among_all_exchanges_within_strata():
    """Every arrangement of the labels within strata: p-values are 1/A, 2/A, ..., so the test is exact."""
    rng = np.random.default_rng(1)
    rows, strata = rng.normal(size=(8, 1)), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found = []
    for one, other in product(combinations(range(4), 2), combinations(range(4, 8), 2)):
        first = np.isin(np.arange(8), [*one, *other])
        result = mmd_test(
            rows[first], rows[~first], kernel=Gaussian(1.0), strata=(strata[first], strata[~first]), rng=0
        )
        assert result.enumerated
        found.append(result.pvalue)
    assert np.allclose(np.sort(found), np.arange(1, 37) / 36) or np.allclose(
        np.sort(found),
        np.repeat(np.arange(2, 37, 2) / 36, 2),  # swapped samples tie
    )


def test_p_values_are_ranks_among_all_exchanges_of_unequal_clusters():
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(6), [1, 2, 3, 4, 2, 5])
    rows = rng.normal(size=(len(clusters), 2)) + rng.normal(size=(6, 1))[clusters]
    found = []
    for chosen in combinations(range(6), 3):
        first = np.isin(clusters, chosen)
        result = mmd_test(
            rows[first], rows[~first], kernel=Gaussian(1.0), unit=(clusters[first], clusters[~first]), rng=0
        )
        assert result.enumerated
        found.append(result.pvalue)
    assert np.allclose(np.sort(found), np.repeat(np.arange(2, 21, 2) / 20, 2))


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


def test_cluster_bins_hold_every_row_once():
    rng = np.random.default_rng(0)
    clusters = tuple(rng.integers(400, size=n) for n in (3_000, 1_000))
    strata = tuple(each % 3 for each in clusters)
    both = make_cluster_bins(clusters, strata, 1, bins=64)
    for bins, own, groups in zip(both, clusters, strata, strict=True):
        place, _ = bins.of(0, len(own))
        assert place.min() >= 0
        assert place.max() < bins.count
        for cluster in np.unique(own):
            assert len(np.unique(place[own == cluster])) == 1
        assert (bins.strata[place] == groups).all()
        moved = bins.classes >= 0
        assert (bins.classes[moved] == bins.strata[moved]).all()
        sizes = [len(np.unique(own[place == k])) for k in np.flatnonzero(moved)]
        assert len(set(sizes)) <= 3  # one size for each stratum


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
    with pytest.raises(ValueError, match="strata goes with null='permutation' and unpaired samples"):
        mmd_test(x, y, strata="site", paired=True)
    with pytest.raises(ValueError, match="a cluster of unit has rows in two strata"):
        mmd_test(x, y, strata="site", unit=10)
    with pytest.raises(ValueError, match="no column is left to compare"):
        mmd_test(x[["site"]], y[["site"]], strata="site")


def test_strata_of_one_sample_are_named():
    x, y = _site_effects(0)
    x = pl.concat([x, pl.DataFrame({"a": [9.0] * 5, "b": [9.0] * 5, "site": ["lonely"] * 5})])
    result = mmd_test(x, y, strata="site", rng=0)
    assert any(
        "1 stratum has rows of one sample only and count for nothing: 'lonely'" in note
        for note in result.notes
    )


def test_few_clusters_are_reported():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 1)), rng.normal(size=(30, 1))
    result = mmd_test(x, y, unit=(np.repeat([0, 1], 15), np.repeat([0, 1], 15)), rng=0)
    assert any("labels of clusters can be exchanged in 6 ways only" in note for note in result.notes)
    assert result.pvalue >= 1 / 6


def test_trailing_rows_of_blocks_keep_their_labels():
    pool_labels = []
    original = two_sample.mmd_values

    def spy(pool, choice, labelings, procedure):
        pool_labels.append((pool, labelings.written_out))
        return original(pool, choice, labelings, procedure)

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 1)), rng.normal(size=(22, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_sample, "mmd_values", spy)
        mmd_test(x, y, unit=5, kernel="median", n_resamples=50, rng=0)
    ((pool, columns),) = pool_labels
    assert (columns[pool.units < 0] == pool.labels[pool.units < 0, None]).all()
    assert (pool.units < 0).sum() == 3 + 2

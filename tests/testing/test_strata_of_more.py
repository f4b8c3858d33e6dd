"""Strata in the tests of several samples, of independence, of pairs, and in the detector."""

from itertools import permutations, product

import numpy as np
import polars as pl
import pytest

from kembed import DriftDetector, Gaussian, compare, hsic_test, k_sample_test, mmd_test
from kembed.permutation.crossings import bin_orders, unit_rows
from kembed.permutation.designs import SeveralSamples

K = Gaussian(1.0)
SITES = np.array([0.0, 4.0, -3.0])


def sites(rng, n, shares=(1 / 3, 1 / 3, 1 / 3), shift=0.0):
    """Three sites with means 0, 4 and -3."""
    site = rng.choice(3, n, p=shares)
    return pl.DataFrame({"v": rng.normal(size=n) + SITES[site] + shift, "site": [f"s{k}" for k in site]})


def paths(rng, n=45, tied=0.0):
    """Two variables that both follow the site."""
    site = rng.integers(3, size=n)
    x = rng.normal(size=n)
    y = tied * x + rng.normal(size=n)
    return pl.DataFrame({"x": x + SITES[site], "y": y + SITES[site], "site": [f"s{k}" for k in site]})


def below(pvalues, level=0.05):
    """The share at a level, less three standard errors."""
    return np.mean(np.array(pvalues) <= level) - 3.0 * np.sqrt(level * (1.0 - level) / len(pvalues))


# Several samples.


def test_three_samples_of_other_shares_of_sites():
    plain, within, found = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        parts = [sites(rng, 40, shares) for shares in ((0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8))]
        how = {"kernel": K, "n_resamples": 19, "rng": seed}
        plain.append(k_sample_test(*(part.drop("site") for part in parts), **how).pvalue)
        within.append(k_sample_test(*parts, strata="site", **how).pvalue)
        moved = [*parts[:2], parts[2].with_columns(v=pl.col("v") + 1.5)]
        found.append(k_sample_test(*moved, strata="site", **how).pvalue)
    assert np.mean(np.array(plain) <= 0.05) > 0.95
    assert below(within) <= 0.05
    assert abs(np.mean(within) - 0.5) < 4.0 * np.sqrt(1.0 / 12.0 / 60)
    assert np.mean(np.array(found) <= 0.05) > 0.4


@pytest.mark.parametrize("kernel", ["fused", K])
def test_two_samples_are_the_two_sample_test(kernel):
    rng = np.random.default_rng(1)
    x, y = sites(rng, 30), sites(rng, 24, shift=1.0)
    how = {"strata": "site", "kernel": kernel, "n_resamples": 99, "rng": 0}
    several, two = k_sample_test(x, y, **how), mmd_test(x, y, **how)
    assert several.test.within == two.within == several.pairs[0].test.within == "3 strata of 'site'"
    assert several.test.statistic == two.statistic
    assert several.pairs[0].test.statistic == pytest.approx(two.statistic, rel=1e-12 if kernel is K else 0.2)


def test_contrasts_of_several_samples_are_those_within_strata(rng):
    """A loop over samples and strata, and labels that never leave their stratum."""
    labels, strata = np.array([0, 1, 2, 0, 1, 1, 2, 2, 0]), np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])
    phi, weight = rng.normal(size=9), rng.uniform(1.0, 2.0, 9)
    draws = SeveralSamples(labels, strata, strata).draw(weight, 200, rng)
    codes = sum(sample * (W > 0.0) for sample, (_, W) in enumerate(draws.terms))
    for number in range(3):
        inside = strata == number
        assert (np.sort(codes[inside], axis=0) == np.sort(codes[inside, :1], axis=0)).all()
    for sample, (_, W) in enumerate(draws.terms):
        total, precision = 0.0, 0.0
        for number in range(3):
            own, other = ((strata == number) & ((labels == sample) == side) for side in (True, False))
            if own.any() and other.any():
                p = weight[own].sum() * weight[other].sum() / (weight[own].sum() + weight[other].sum())
                means = np.average(phi[own], weights=weight[own]) - np.average(
                    phi[other], weights=weight[other]
                )
                total, precision = total + p * means, precision + p
        expected = total / precision * np.sqrt(precision / weight.sum())
        assert (W[:, 0] * weight) @ phi == pytest.approx(expected)


def test_clusters_within_strata_of_several_samples():
    """Rows of a cluster share an effect: rows as units reject, clusters do not."""
    rows, clusters = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        parts = []
        for _ in range(3):
            who = np.repeat(np.arange(12), 6)
            effect, site = rng.normal(size=12), rng.integers(2, size=12)
            v = effect[who] + 3.0 * site[who] + 0.3 * rng.normal(size=72)
            parts.append(pl.DataFrame({"v": v, "who": who, "site": site[who]}))
        how = {"kernel": K, "n_resamples": 19, "strata": "site", "rng": seed}
        rows.append(k_sample_test(*(part.drop("who") for part in parts), **how).pvalue)
        clusters.append(k_sample_test(*parts, unit="who", **how).pvalue)
    assert np.mean(np.array(rows) <= 0.05) > 0.3
    assert below(clusters) <= 0.05


def test_many_rows_of_several_samples():
    rng = np.random.default_rng(3)
    parts = [sites(rng, 2_200), sites(rng, 2_000, (0.6, 0.3, 0.1)), sites(rng, 1_500)]
    assert k_sample_test(*parts, strata="site", kernel="median", n_resamples=39, rng=0).pvalue > 0.025
    moved = [*parts[:2], parts[2].with_columns(v=pl.col("v") + 0.3)]
    result = k_sample_test(*moved, strata="site", kernel="median", n_resamples=39, rng=0)
    assert result.pvalue == 0.025
    assert result.test.bins


def test_samples_without_a_common_stratum():
    rng = np.random.default_rng(4)
    a, b = sites(rng, 40, (0.5, 0.5, 0.0)), sites(rng, 40, (0.0, 1.0, 0.0))
    c = sites(rng, 40, (1.0, 0.0, 0.0))
    found = k_sample_test(a, b, c, labels="abc", strata="site", kernel=K, n_resamples=99, rng=0)
    by = {pair.labels: pair for pair in found.pairs}
    assert by["b", "c"].adjusted_pvalue == by["b", "c"].pvalue == 1.0
    assert "b and c have no stratum in common, so they are not compared" in found.test.notes
    with pytest.raises(ValueError, match="no stratum has rows of two samples"):
        k_sample_test(b, c, c.with_columns(site=pl.lit("s9")), strata="site")
    with pytest.raises(TypeError, match="strata must be a column's name or 3 arrays, one for each sample"):
        k_sample_test(a, b, c, strata=(1, 2))


# Independence.


def test_what_both_sides_owe_to_the_site_is_no_dependence():
    plain, within, found = [], [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        how = {"kernel": K, "n_resamples": 19, "rng": seed}
        table = paths(rng)
        plain.append(hsic_test("x", "y", data=table.drop("site"), **how).pvalue)
        within.append(hsic_test("x", "y", data=table, strata="site", **how).pvalue)
        found.append(hsic_test("x", "y", data=paths(rng, tied=1.0), strata="site", **how).pvalue)
    assert np.mean(np.array(plain) <= 0.05) > 0.95
    assert below(within) <= 0.05
    assert abs(np.mean(within) - 0.5) < 4.0 * np.sqrt(1.0 / 12.0 / 100)
    assert np.mean(np.array(found) <= 0.05) > 0.9


def test_p_values_of_all_pairings_within_strata_are_ranks():
    """Three rows in either of two strata, and one alone: 36 pairings, each in turn the data."""
    rng = np.random.default_rng(5)
    x, y, strata = rng.normal(size=7), rng.normal(size=7), ["a"] * 3 + ["b"] * 3 + ["c"]
    pvalues = []
    for one, other in product(permutations(range(3)), permutations(range(3, 6))):
        found = hsic_test(x, y[[*one, *other, 6]], strata=strata, kernel=K, n_resamples=99, rng=0)
        assert found.enumerated
        pvalues.append(found.pvalue)
    assert np.sort(pvalues) == pytest.approx(np.arange(1, 37) / 36)
    assert found.within == "2 strata"
    assert any("1 stratum has one row only and is left out: 'c'" in note for note in found.notes)


def test_rows_change_places_with_rows_of_their_stratum(rng):
    units, strata = np.repeat(np.arange(20), 2), np.repeat([0, 1, 1, 0, 2], 8)
    for places in (unit_rows(units, 7, strata=strata), unit_rows(np.arange(40), 7, bins=99, strata=strata)):
        drawn = bin_orders(places, 30, rng)
        for under in zip(*drawn.orders, strict=True):
            moved = np.arange(40)
            for (rows, _), order in zip(drawn.places, under, strict=True):
                moved[rows] = rows[:, order]
            assert (np.sort(moved) == np.arange(40)).all()
            assert (strata[moved] == strata).all()
    assert (units[moved] != units).any()


def test_units_within_strata():
    rng = np.random.default_rng(6)
    table = paths(rng, 120, tied=1.0).sort("site")
    sizes = table.group_by("site", maintain_order=True).len()["len"]
    who = np.concatenate([1_000 * k + np.arange(n) // 2 for k, n in enumerate(sizes)])
    found = hsic_test(table["x"], table["y"], unit=who, strata=table["site"], kernel=K, n_resamples=99, rng=0)
    assert found.pvalue == 0.01
    with pytest.raises(ValueError, match="a unit has rows in two strata"):
        hsic_test(table["x"], table["y"], unit=np.arange(120) // 60, strata=table["site"])


def test_one_question_by_every_way_in():
    table = paths(np.random.default_rng(7), 80, tied=0.3)
    how = {"kernel": K, "n_resamples": 99, "rng": 0}
    named = hsic_test("x", "y", data=table, strata="site", **how)
    assert named.within == "3 strata of 'site'"
    order = np.random.default_rng(0).permutation(80).tolist()
    others = (
        hsic_test(table["x"], table["y"], strata=table["site"], **how),
        hsic_test("x", "y", data=table[order], strata="site", **how),
        hsic_test("y", "x", data=table, strata="site", **how),
    )
    for other in others:
        assert (other.statistic, other.pvalue) == (named.statistic, named.pvalue)


def test_what_does_not_go_with_strata():
    table = paths(np.random.default_rng(8), 20)
    x, y = table["x"], table["y"]
    for options, said in (
        ({"strata": table["site"], "null": "shift"}, "strata goes with null='permutation'"),
        ({"strata": table["site"], "statistic": "unbiased"}, "strata goes with null='permutation'"),
        ({"strata": "site"}, "strata='site' names a column, but there is no table"),
        ({"strata": np.arange(20)}, "no stratum has two units of as many rows"),
        ({"strata": np.arange(19)}, "strata has 19 entries, but the sample has 20 rows"),
    ):
        with pytest.raises(ValueError, match=said):
            hsic_test(x, y, **options)
    with pytest.raises(TypeError, match="strata must be an array with the strata of every row"):
        hsic_test(x, y, strata=3)


# Pairs, the detector, and what is said.


def test_pairs_are_within_their_stratum_anyway():
    rng = np.random.default_rng(9)
    x = sites(rng, 40)
    y = x.with_columns(v=pl.col("v") + 0.5 * rng.normal(size=40) + 0.4)
    how = {"paired": True, "kernel": K, "n_resamples": 199, "rng": 0}
    found = mmd_test(x, y, strata="site", **how)
    assert found.pvalue == mmd_test(x.drop("site"), y.drop("site"), **how).pvalue
    assert found.within == "3 strata of 'site'"


def test_a_detector_compares_within_strata(tmp_path):
    rng = np.random.default_rng(10)
    detector = DriftDetector(strata="site", kernel=K, n_resamples=99, random_state=0).fit(sites(rng, 300))
    batch = sites(rng, 60, (0.8, 0.1, 0.1))
    plain = DriftDetector(kernel=K, n_resamples=99, random_state=0).fit(detector.reference_.drop("site"))
    assert plain.predict(batch.drop("site"))
    for one in (detector, DriftDetector.load(detector.save(tmp_path / "a.detector"))):
        assert not one.predict(batch)
        assert one.predict(sites(rng, 60, shift=1.5))
        assert one.strata == "site"
    assert detector.compare(batch).test.within == "3 strata of 'site'"
    assert detector.witness(batch).names == ("v",)
    assert detector.sketch_ is None
    with pytest.raises(ValueError, match="strata='town' is not a column; X has 'v', 'site'"):
        DriftDetector(strata="town").fit(batch)


def test_findings_say_within_what():
    rng = np.random.default_rng(11)
    x, y = sites(rng, 80), sites(rng, 80, shift=1.5)
    found = compare(x, y, strata="site", kernel=K, n_resamples=99)
    assert "x and y differ within 3 strata of 'site' (p = 0.01)" in found.verdict
    assert found.to_dict()["within"] == "3 strata of 'site'"
    assert "within 3 strata of 'site'" in repr(found.test)
    assert any("are of all strata together" in note for note in found.test.notes)
    same = compare(x, sites(rng, 80), strata="site", kernel=K, n_resamples=99)
    assert "No difference between x and y was found within 3 strata of 'site'" in same.verdict

"""The independence test of many rows: exact under its own group, blind to blocks, and it says what it did."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from scipy import stats
from tests import reference

from kembed import Gaussian, hsic_test
from kembed.permutation.crossings import bin_orders, bin_rows, unit_rows
from kembed.tables.reader import read_tables
from kembed.tables.source import in_memory
from kembed.testing.hsic import columns_test
from kembed.testing.procedure import read_procedure


def table(rows):
    (found,), _ = read_tables({"data": rows}, "raise", minimum=4)
    return found


def independence_of(source, x, y, kernel, procedure):
    names = [tuple(source.schema.names[c] for c in side) for side in (x, y)]
    return columns_test(source, (x, y), names, (kernel, kernel), procedure)


def procedure(seed=0, null="permutation", statistic="features"):
    return read_procedure(statistic, null, 99, None, seed, ("permutation", "normal"))


@pytest.mark.parametrize("kernel", ["fused", Gaussian(1.0)])
def test_the_ranks_of_all_arrangements_are_all_different(kernel):
    """Whichever arrangement of the bins is the data's, the test is the same, so p takes every value once."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=9), rng.normal(size=(9, 2))
    places, _ = bin_rows(9, int(np.random.default_rng(0).integers(2**62)), unit=2)
    assert places.shape == (2, 4)
    found = []
    for order in permutations(range(4)):
        moved = y.copy()
        moved[places] = y[places[:, list(order)]]
        result = hsic_test(x, moved, kernel=kernel, unit=2, n_resamples=23, rng=0)
        assert result.enumerated
        assert result.bins == (4,)
        found.append(result.pvalue)
    np.testing.assert_allclose(np.sort(found), np.arange(1, 25) / 24)


def test_the_level_holds():
    rng = np.random.default_rng(0)
    draws = [(rng.exponential(size=37), rng.integers(0, 3, 37)) for _ in range(200)]
    for way in ({"statistic": "features"}, {"null": "normal"}):
        p = [
            hsic_test(x, y, kernel=Gaussian(1.0), n_resamples=19, rng=k, **way).pvalue
            for k, (x, y) in enumerate(draws)
        ]
        assert np.sum(np.array(p) <= 0.1 + 1e-12) <= stats.binom.ppf(1 - 1e-4, 200, 0.1)


@pytest.mark.parametrize("way", [{"statistic": "features"}, {"null": "normal"}])
def test_features_find_what_pairs_of_rows_find(way):
    rng = np.random.default_rng(1)
    angle = rng.uniform(0, 2 * np.pi, 400)
    x, y = np.cos(angle) + 0.3 * rng.normal(size=400), np.sin(angle) + 0.3 * rng.normal(size=400)
    assert hsic_test(x, y, n_resamples=99, rng=0, **way).pvalue == 0.01


@pytest.mark.parametrize("way", [{"statistic": "features"}, {"null": "normal"}])
def test_the_statistic_is_that_of_loops_less_its_mean_over_pairings(way, rng):
    """With no more rows than landmarks nothing is lost but negligible features."""
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    K, L = (reference.gram(reference.gaussian(1.0), side, side) for side in (x, y))
    H = np.eye(40) - 1.0 / 40
    mean = np.trace(H @ K) * np.trace(H @ L) / (39.0 * 40**2)
    slow = reference.hsic_loops(K, L, biased=True) - mean
    found = hsic_test(x, y, kernel=Gaussian(1.0), rng=0, n_resamples=19, **way)
    assert found.statistic == pytest.approx(slow, rel=2e-3)


def test_both_nulls_agree_on_many_rows():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3_000, 2))
    y = 0.04 * x[:, :1] + rng.normal(size=(3_000, 1))
    found = [
        hsic_test(x, y, kernel="median", rng=0, **way).null_distribution
        for way in ({"statistic": "features"}, {"null": "normal"})
    ]
    for share in (0.5, 0.9, 0.95):
        one, other = (np.quantile(draws, share) for draws in found)
        assert abs(one - other) < 0.25 * np.std(found[0])


def test_what_was_used_is_said():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 4_200))
    few = hsic_test(x[:300], y[:300], kernel="median", n_resamples=19, rng=0)
    many = hsic_test(x, y, kernel="median", n_resamples=19, rng=0)
    limit = hsic_test(x, y, kernel="median", null="normal", n_resamples=19, rng=0)
    assert (few.null, few.bins) == ("permutation", ())
    assert (many.null, many.bins) == ("permutation", (32,))
    assert (limit.null, limit.bins) == ("normal limit", ())
    assert "19 resamples of 32 bins" in repr(many)
    assert "normal limit null" in repr(limit)


@pytest.mark.parametrize("null", ["permutation", "normal"])
def test_blocks_of_a_source_change_nothing(null, rng):
    values = rng.normal(size=(700, 3))
    values[:, 2] += values[:, 0]
    source = in_memory(table(values))
    found = [
        independence_of(replace(source, rows=rows), (0, 1), (2,), "fused", procedure(null=null))
        for rows in (64, 700)
    ]
    np.testing.assert_allclose(found[0].null_distribution, found[1].null_distribution, atol=1e-9)
    assert found[0].pvalue == found[1].pvalue == 0.01
    assert found[0].findings[0].columns == ("column 0", "column 2")


@pytest.mark.parametrize("way", [{"statistic": "features"}, {"null": "normal"}])
def test_rows_with_missing_values_are_left_out(way, rng):
    x, y = rng.normal(size=(2, 200))
    gappy = x.copy(), y.copy()
    gappy[0][3], gappy[1][77] = np.nan, np.nan
    kept = np.delete(np.arange(200), [3, 77])
    one = hsic_test(*gappy, kernel="median", nan_policy="omit", n_resamples=19, rng=0, **way)
    other = hsic_test(x[kept], y[kept], kernel="median", n_resamples=19, rng=0, **way)
    assert one.sizes == (198,)
    np.testing.assert_allclose(one.null_distribution, other.null_distribution, atol=1e-12)


def test_consecutive_rows_that_stay_together_keep_the_level_of_series():
    """Two slow series that know nothing of each other."""
    rng = np.random.default_rng(3)
    rejected = {None: 0, 60: 0}
    for k in range(20):
        noise = rng.normal(size=(2, 1_200))
        x, y = (np.convolve(each, np.ones(20), "valid") for each in noise)
        for unit in rejected:
            way = {"statistic": "features"} if unit is None else {"unit": unit}
            rejected[unit] += (
                hsic_test(x, y, kernel=Gaussian(4.0), n_resamples=39, rng=k, **way).pvalue <= 0.05
            )
    assert rejected[60] <= stats.binom.ppf(1 - 1e-4, 20, 0.1)
    assert rejected[None] > rejected[60]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unit": 3, "null": "gamma", "kernel": "median"}, ["unit=3", "null='permutation'"]),
        ({"unit": 3, "statistic": "unbiased"}, ["unit=3", "'features'"]),
        ({"unit": 20}, ["unit=20", "smaller units"]),
        ({"null": "normal", "statistic": "biased"}, ["null='normal'", "statistic='biased'"]),
    ],
)
def test_what_does_not_go_together(options, words, rng):
    x, y = rng.normal(size=(2, 30))
    with pytest.raises(ValueError, match=words[0]) as caught:
        hsic_test(x, y, **options)
    assert all(word in str(caught.value) for word in words)


# Units that have names.


def customers(rng, sizes, slope=0.0):
    """The customer of every row, and two columns that each customer has a level of."""
    who = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    levels = rng.normal(size=(2, len(sizes)))
    levels[1] += slope * levels[0]
    x, y = (level[who] + 0.2 * rng.normal(size=len(who)) for level in levels)
    return who, x, y


def test_rows_of_a_customer_are_one_observation(rng):
    rejected = {"unit": 0, "rows": 0}
    for k in range(20):
        who, x, y = customers(rng, np.repeat([8, 12], 20))
        how = {"kernel": Gaussian(1.0), "n_resamples": 39, "rng": k}
        rejected["unit"] += hsic_test(x, y, unit=who, **how).pvalue <= 0.05
        rejected["rows"] += hsic_test(x, y, statistic="features", **how).pvalue <= 0.05
    assert rejected["unit"] <= stats.binom.ppf(1 - 1e-4, 20, 0.05)
    assert rejected["rows"] > 10
    who, x, y = customers(rng, np.repeat([8, 12], 20), slope=2.0)
    assert hsic_test(x, y, unit=who, n_resamples=99, rng=0).pvalue < 0.05


def test_exchanges_within_sizes_give_every_rank_once():
    """Three units of two rows and one of three, which stays: six arrangements."""
    rng = np.random.default_rng(4)
    who = np.array([0, 1, 1, 2, 0, 3, 3, 2, 3])
    x, y = rng.normal(size=9), rng.normal(size=(9, 2))
    ((places, left),) = unit_rows(who, int(np.random.default_rng(0).integers(2**62)))
    assert left.tolist() == [5, 6, 8]
    assert {tuple(who[column]) for column in places.T} == {(0, 0), (1, 1), (2, 2)}
    found = []
    for order in permutations(range(3)):
        moved = y.copy()
        moved[places] = y[places[:, list(order)]]
        found.append(hsic_test(x, moved, kernel=Gaussian(1.0), unit=who, n_resamples=5, rng=0).pvalue)
    np.testing.assert_allclose(np.sort(found), np.arange(1, 7) / 6)


def test_several_sizes_against_loops(rng):
    who = rng.permutation(np.repeat(np.arange(9), [1, 1, 1, 1, 2, 2, 3, 3, 3]))
    a, b = rng.normal(size=(2, len(who), 3))
    every = unit_rows(who, 5)
    assert sorted(each.shape for each, _ in every) == [(1, 4), (2, 2), (3, 3)]
    drawn = bin_orders(every, 4, rng)
    ((_, found),) = drawn.products(a, b)
    K, L = a @ a.T, b @ b.T
    forms = drawn.forms(K, L)
    for c in range(5):
        moved = b.copy()
        for (places, _), order in zip(every, drawn.orders, strict=True):
            moved[places] = b[places[:, order[c]]]
        expected = sum(np.outer(one, other) for one, other in zip(a, moved, strict=True))
        np.testing.assert_allclose(found[..., c], expected)
        assert forms[c] == pytest.approx((expected**2).sum())


def test_a_unit_is_a_column_of_the_table(tmp_path, rng):
    who, x, y = customers(rng, np.repeat(5, 30))
    frame = pl.DataFrame({"x": x, "y": y, "who": [f"customer {k}" for k in who]})
    frame.write_parquet(tmp_path / "a.parquet")
    how = {"kernel": Gaussian(1.0), "n_resamples": 39, "rng": 0}
    named = [f"customer {k}" for k in who]
    found = [
        hsic_test(x, y, unit=named, **how),
        hsic_test("x", "y", data=frame, unit="who", **how),
        hsic_test("x", "y", data=tmp_path / "*.parquet", unit="who", **how),
    ]
    assert len({result.pvalue for result in found}) == 1
    assert all(result.bins == (30,) for result in found)
    for options, words in (
        ({"unit": "who"}, "names a column, but there is no table"),
        ({"unit": np.arange(len(x))}, None),
        ({"unit": np.repeat(np.arange(3), [20, 50, 80])}, "no two units have as many rows"),
        ({"unit": who[1:]}, "unit has 149 entries, but the sample has 150 rows"),
        ({"unit": who, "null": "wild"}, "unit goes with null='permutation'"),
    ):
        if words is None:
            assert hsic_test(x, y, **options, **how).bins == (37,)  # four rows in every bin
            continue
        with pytest.raises(ValueError, match=words):
            hsic_test(x, y, **options, **how)
    with pytest.raises(ValueError, match="'x' is in x and in unit"):
        hsic_test("x", "y", data=frame, unit="x", **how)

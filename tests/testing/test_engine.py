"""The engine of the two-sample test: rows in memory and in passes, bins, clusters, and swapped samples."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from tests import reference

from kembed import Delta, Gaussian, mmd_test
from kembed.permutation.bins import make_bins, make_cluster_bins, sampled
from kembed.permutation.sums import Layout
from kembed.tables.reader import read_tables
from kembed.tables.source import Memory, in_memory
from kembed.testing import engine
from kembed.testing.procedure import read_procedure


def quick(x, y, **options):
    return mmd_test(x, y, **{"statistic": "features", "n_resamples": 99, "rng": 0, **options})


def l1(a, b):
    return np.exp(-np.abs(a[:, None] - b).sum(axis=2))


@pytest.mark.parametrize(
    ("size", "rows", "landmarks"),
    [(150, 300, 75), (2_500, 2_048, 128), (6_144, 3_072, 192), (9_000, 4_096, 256)],
)
def test_features_are_fitted_on_a_share_of_the_rows(size, rows, landmarks, rng):
    tables, _ = read_tables(
        {"x": rng.normal(size=(size, 2)), "y": rng.normal(size=(size, 2))}, "raise", 2, True
    )
    bins = make_bins((size, size), 3)
    sample = engine._sample(tuple(map(in_memory, tables)), bins, Layout((0, 1)))
    count = sum(each.movable for each in bins)
    assert sample.size % count == 0  # as many of every bin
    assert rows <= sample.size <= rows + count
    assert len(sample.landmarks) == pytest.approx(landmarks, abs=count // 16 + 1)


def test_large_clusters_are_fitted_on_their_first_rows(rng):
    """Of 100,000 rows in 500 clusters no more than of single rows, whatever sample a cluster is in."""
    rows, clusters = rng.normal(size=(2, 50_000, 2)), np.repeat(np.arange(250), 200)
    tables, _ = read_tables({"x": rows[0], "y": rows[1]}, "raise", 2, True)
    bins = make_cluster_bins((clusters, clusters), (0 * clusters, 0 * clusters), 3)
    sources = tuple(map(in_memory, tables))
    sample = engine._sample(sources, bins, Layout((0, 1)))
    assert engine.FEWEST <= sample.size <= 2 * engine.MOST
    for own in bins:
        kept = sampled(own, 0, 50_000, 1)
        assert set(np.bincount(clusters[kept], minlength=250)) <= {0, 16}
        assert (np.flatnonzero(kept) % 200 < 16).all()


# The statistic.


@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_of_a_function_against_loops(weighted, rng):
    """A function of few rows has all of them as landmarks, so its features are exact."""
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(11, 2))
    weights = (rng.uniform(0.5, 2, 9), rng.uniform(0.5, 2, 11)) if weighted else None
    result = quick(x, y, kernel=l1, weights=weights)
    pooled, v = np.concatenate([x, y]), None if weights is None else np.concatenate(weights)
    expected = reference.mmd2_loops(l1(pooled, pooled), [True] * 9 + [False] * 11, v, biased=True)
    assert result.statistic == pytest.approx(expected, abs=1e-9)


def test_features_of_few_rows_are_the_biased_statistic_column_by_column(rng):
    x, y = rng.normal(size=(40, 2)), rng.normal([0.0, 2.0], size=(30, 2))
    how = {"kernel": "median", "by_column": True, "n_resamples": 999}
    found, exact = (quick(x, y, statistic=statistic, **how) for statistic in ("features", "biased"))
    for one, other in zip((found, *found.columns), (exact, *exact.columns), strict=True):
        assert one.statistic == pytest.approx(other.statistic, rel=1e-6)
        assert one.pvalue == pytest.approx(other.pvalue, abs=0.05)


@pytest.mark.parametrize("ell", [1e2, 1e4])
def test_features_of_a_wide_kernel_keep_their_digits(ell, rng):
    """As ℓ → ∞ MMD² → (mean difference)²/ℓ²; what is rounding alone is tied, so that p = 1."""
    x, y = rng.normal(size=(40, 1)), rng.normal(size=(40, 1)) + 0.5
    wide, plain = (
        quick(x, y, kernel=kernel, n_resamples=999) for kernel in (Gaussian(ell), lambda a, b: a @ b.T)
    )
    assert wide.statistic * ell**2 == pytest.approx(plain.statistic, rel=20.0 / ell**2 + 1e-3)
    assert wide.pvalue == pytest.approx(plain.pvalue, abs=0.01)
    assert quick(x, y, kernel=Gaussian(1e12)).pvalue == 1.0


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_few_rows_are_enumerated_and_their_exchange_changes_no_law(kernel, rng):
    """Every row its own bin: exchange two rows, and the statistics of all arrangements are the same ones."""
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    a, b = x.copy(), y.copy()
    a[2], b[1] = y[1], x[2]
    for how in ("features", "auto"):
        first, other = (
            quick(*sides, kernel=kernel, statistic=how, n_resamples=999) for sides in ((x, y), (a, b))
        )
        assert first.enumerated
        assert len(first.null_distribution) == 126
        np.testing.assert_allclose(other.null_distribution, first.null_distribution, atol=1e-8)


@pytest.mark.parametrize("statistic", ["features", "auto"])
def test_swapped_samples_give_the_same_answer(statistic, rng):
    x, y = rng.normal(size=(700, 2)), rng.normal(0.1, 1.0, size=(600, 2))
    for options in ({"kernel": "fused", "by_column": True}, {"kernel": "median"}):
        one, other = (quick(*sides, statistic=statistic, **options) for sides in ((x, y), (y, x)))
        assert one.pvalue == other.pvalue
        assert one.statistic == pytest.approx(other.statistic)
        assert (one.sizes, other.sizes) == ((700, 600), (600, 700))
        assert one.bins == other.bins[::-1]
    assert quick(x, y, kernel="fused", statistic=statistic).bins == (140, 120)  # of five rows


def test_blocks_of_any_size_give_the_same_answer(rng):
    table, other = (read_tables({"x": rng.normal(size=(3000, 3))}, "raise", 2)[0][0] for _ in range(2))
    found = []
    for rows in (3000, 577, 64):
        sources = tuple(Memory(t.label, in_memory(t).schema, t.values, rows) for t in (table, other))
        procedure = read_procedure("auto", "permutation", 49, None, 1)
        found.append(engine.sources_test(sources, "fused", procedure, by_column=True))
    for result in found[1:]:
        assert result.pvalue == found[0].pvalue
        assert result.statistic == pytest.approx(found[0].statistic, rel=1e-10)
        assert [c.pvalue for c in result.columns] == [c.pvalue for c in found[0].columns]


def test_rows_with_missing_values_count_nothing(rng):
    x, y = rng.normal(size=(400, 2)), rng.normal(1.0, 1.0, size=(400, 2))
    x[::7, 0] = np.nan
    result = quick(x, y, nan_policy="omit")
    assert result.sizes == (400 - len(x[::7]), 400)
    assert result.pvalue == 0.01


def test_many_rows_find_what_is_there(rng):
    """In 6,000 rows a shift of a sixth of a spread, a correlation, and levels that became more frequent."""
    n = 3000

    def frame(shift=0.0, correlation=0.0, share=0.25):
        a = rng.normal(size=n)
        rest = (1.0 - share) / 3
        b = correlation * a + np.sqrt(1 - correlation**2) * rng.normal(size=n)
        return pl.DataFrame(
            {"a": a + shift, "b": b, "c": rng.choice(list("pqrs"), n, p=[share] + [rest] * 3)}
        )

    plain = frame()
    nothing = mmd_test(plain, frame(), rng=0, n_resamples=199, by_column=True)
    assert nothing.pvalue > 0.01
    assert nothing.bins
    shifted = mmd_test(plain, frame(shift=0.15), rng=0, n_resamples=199, by_column=True)
    assert shifted.pvalue == 0.005
    assert [c.name for c in shifted.columns if c.adjusted_pvalue < 0.02] == ["a"]
    turned = mmd_test(plain, frame(correlation=0.15), rng=0, n_resamples=199)
    assert turned.pvalue == 0.005
    assert turned.findings[0].columns == ("a", "b")
    more = mmd_test(plain, frame(share=0.31), rng=0, n_resamples=199, by_column=True)
    assert [c.name for c in more.columns if c.adjusted_pvalue < 0.02] == ["c"]


def test_sides_of_pairs_are_swapped_in_bins(rng):
    both = rng.normal(size=(900, 2))
    x, y = (both + 0.2 * rng.normal(size=(900, 2)) for _ in range(2))
    assert quick(x, y, paired=True).pvalue > 0.01
    assert (
        quick(x, y + np.array([0.05, 0.0]), paired=True).pvalue == 0.01
    )  # far below what unpaired rows show
    assert quick(x, y + np.array([0.05, 0.0])).pvalue > 0.01


@pytest.mark.parametrize("statistic", ["features", "auto"])
def test_the_level_of_odd_sizes(statistic, rng):
    """107 + 61 rows, 200 draws at 20%: within what a binomial law passes once in 10⁴."""
    count = 0
    for _ in range(200):
        x, y = rng.normal(size=(107, 1)), rng.normal(size=(61, 1))
        how = {"kernel": "median", "n_resamples": 19, "rng": rng}
        count += quick(x, y, statistic=statistic, **how).pvalue <= 0.2
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 200, 0.2)
    assert low <= count <= high


# Units.


def clustered(rng, units, rows, shift=0.0):
    unit = np.repeat(np.arange(units), rows)
    return rng.normal(size=(units, 1))[unit] + 0.3 * rng.normal(size=(units * rows, 1)) + shift, unit


@pytest.mark.parametrize("statistic", ["unbiased", "features"])
def test_rows_of_a_customer_are_one_observation(statistic, rng):
    """Forty customers with ten rows each: 400 rows reject nearly always, 40 units do as they should."""
    counts = {"rows": 0, "units": 0, "consecutive": 0}
    options = {"statistic": statistic, "kernel": "median", "n_resamples": 39}
    for _ in range(30):
        (x, u), (y, v) = clustered(rng, 20, 10), clustered(rng, 20, 10)
        counts["rows"] += mmd_test(x, y, rng=rng, **options).pvalue <= 0.05
        counts["units"] += mmd_test(x, y, unit=(u, v), rng=rng, **options).pvalue <= 0.05
        counts["consecutive"] += mmd_test(x, y, unit=10, rng=rng, **options).pvalue <= 0.05
    assert counts["rows"] >= 15
    assert counts["units"] <= 6  # more than 6 of 30 at 5% come once in 1,000
    assert counts["consecutive"] <= 6


def test_a_unit_is_named_by_its_column(rng):
    (x, u), (y, v) = clustered(rng, 20, 6), clustered(rng, 20, 6, shift=3.0)
    frames = [pd.DataFrame({"value": s[:, 0], "who": [f"c{k}" for k in w]}) for s, w in ((x, u), (y, v))]
    for statistic in ("unbiased", "features"):
        named = mmd_test(*frames, unit="who", statistic=statistic, rng=0, n_resamples=99)
        given = mmd_test(x, y, unit=(u, v), statistic=statistic, rng=0, n_resamples=99)
        assert named.pvalue == given.pvalue == 0.01
        assert named.findings == ()


def test_units_of_any_kind_of_number(rng):
    x, y = rng.normal(size=(2, 60, 1))
    how = {"statistic": "features", "kernel": "median", "n_resamples": 19, "rng": 0}
    assert mmd_test(x, y, unit=np.int64(3), **how).pvalue == mmd_test(x, y, unit=3, **how).pvalue
    zeros, pairs = np.repeat([0.0, 1.0], 30), np.repeat([-0.0, 1.0], 30)
    zeros[:30:2] *= -1.0  # equal numbers, whatever is written
    first, second = (mmd_test(x, y, unit=(one, pairs), kernel="median", rng=0) for one in (zeros, pairs))
    assert first.pvalue == second.pvalue


def test_units_of_files_that_make_no_sense(rng, tmp_path):
    for name in ("x", "y"):
        np.savetxt(
            tmp_path / f"{name}.csv", rng.normal(size=(60, 2)), delimiter=",", header="a,b", comments=""
        )
    files = str(tmp_path / "x.csv"), str(tmp_path / "y.csv")
    for unit, message in (
        ("who", "unit='who' is no column; the samples have 'a', 'b'"),
        (0, "unit must be at least 1, but 0 was given"),
        (2.5, "unit must be a column's name"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            mmd_test(*files, unit=unit, statistic="features")
    how = {"statistic": "features", "kernel": "median", "n_resamples": 19, "rng": 0}
    assert mmd_test(*files, unit=np.int64(3), **how).pvalue == mmd_test(*files, unit=3, **how).pvalue


def test_units_that_make_no_sense(rng):
    x, y = rng.normal(size=(2, 30, 2))
    for unit, words in (
        ("who", ["unit='who'", "no column", "'column 0'"]),
        (0.5, ["unit must be", "0.5"]),
        ((np.zeros(3), np.zeros(30)), ["unit[0] has 3 entries", "30 rows"]),
        (0, ["unit", "0"]),
        (-1, ["unit must be at least 1", "-1"]),
        (True, ["unit must be a column's name", "True"]),
        (3.0, ["unit must be a column's name", "3.0"]),
        ((np.zeros((30, 2)), np.zeros(30)), ["unit[0] has 2 columns"]),
    ):
        for statistic in ("auto", "features"):
            with pytest.raises((TypeError, ValueError)) as error:
                mmd_test(x, y, unit=unit, statistic=statistic)
            assert all(word in str(error.value) for word in words), error.value
    one = np.zeros(30)
    with pytest.raises(ValueError, match=r"^only 1 units \(clusters\) of x could change samples"):
        mmd_test(x, y, unit=(one, one), statistic="features")
    with pytest.raises(ValueError, match="unit='column 0' is the only column"):
        mmd_test(x[:, :1], y[:, :1], unit="column 0", statistic="features", weights=(one + 1, one + 1))
    with pytest.raises(ValueError, match="unit goes with null='permutation' and unpaired samples"):
        mmd_test(x, y, unit=2, paired=True)


def test_delta_of_numbers_is_looked_at_by_rows(rng):
    x, y = rng.integers(0, 3, (300, 1)).astype(float), rng.integers(0, 4, (300, 1)).astype(float)
    assert quick(x, y, kernel=Delta()).pvalue == 0.01

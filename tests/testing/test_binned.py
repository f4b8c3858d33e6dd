"""The test of any number of rows: against loops, against the exact statistic, and under exchange of bins."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests import reference

from kembed import Delta, Gaussian, OnColumns, mmd_test
from kembed.core.buffers import Buffers
from kembed.kernels.space import make_space
from kembed.permutation.bins import dense, make_bins
from kembed.permutation.fourier import cosines_and_sines, fourier
from kembed.permutation.segments import make_segments
from kembed.tables.reader import read_tables
from kembed.tables.source import Block, Memory, in_memory
from kembed.testing import binned
from kembed.testing.binned import binned_test
from kembed.testing.members import GROUPS, repeated
from kembed.testing.members.fresh import Fresh, fit
from kembed.testing.members.polynomials import fit_levels, fit_ranks, indicators, rank_polynomials
from kembed.testing.members.rows import read_scales
from kembed.testing.members.strips import in_strips
from kembed.testing.members.trees import grow_trees
from kembed.testing.passes import Layout, sum_features, summed
from kembed.testing.procedure import read_procedure
from kembed.testing.streams import choose_streams


def mixed_values(rng, n):
    return np.column_stack([rng.normal(size=n), rng.integers(0, 5, n) / 2.0, rng.integers(0, 4, n)])


KINDS = np.array([False, False, True])


def quick(x, y, **options):
    return mmd_test(x, y, **{"statistic": "features", "n_resamples": 99, "rng": 0, **options})


# Features of fresh rows.


@pytest.mark.parametrize("columns", [1, 5, 40])
def test_leaves_are_those_of_a_walk_down_the_trees(columns, rng):
    values = rng.normal(size=(500, columns))
    values[:, 0] = rng.integers(0, 3, 500)
    _, forest = grow_trees(values, (32, 8), 4)
    cuts = forest.cut[forest.column >= 0]
    ranks = np.vstack([rng.random((70, columns)), np.tile(cuts[:70, None], columns)])
    found = pickle.loads(pickle.dumps(forest)).leaves(ranks)
    for row, leaves in zip(ranks, found, strict=True):
        for node, leaf in enumerate(leaves):
            while forest.column[node] >= 0:
                node = forest.sides[node, int(row[forest.column[node]] > forest.cut[node])]
            assert leaf == node


@pytest.mark.parametrize("kind", ["normal", "heavy", "ties", "huge"])
def test_ranks_of_any_value_are_interpolated(kind, rng):
    column = {
        "normal": rng.normal(size=900),
        "heavy": rng.standard_cauchy(900),
        "ties": np.r_[np.zeros(500), rng.normal(size=400)],
        "huge": 1.7e308 * rng.uniform(-1, 1, size=900),
    }[kind]
    scale = fit_ranks(column)
    fresh = np.r_[column, 1.001 * column, -1.7e308, 1.7e308]
    expected = np.interp(fresh, scale.values, scale.middle)
    np.testing.assert_allclose(scale.middles(fresh), expected, rtol=0, atol=1e-12)
    legendre = np.polynomial.legendre.legvander(2.0 * expected - 1.0, 8) @ scale.coefficients
    np.testing.assert_allclose(scale(fresh), legendre, atol=1e-9)


def test_gaussians_are_those_of_exp_whichever_came_first(rng):
    space = make_space(mixed_values(rng, 300), KINDS)
    fitted = fit(read_scales(space, points=32))
    values = mixed_values(rng, 50)
    values[0, 0] = 1e9  # far out
    distances = -2.0 * Fresh(fitted, values).closeness
    rows, scales = Fresh(fitted, values), (4.0, 2.0, 0.5, 0.25, 0.3, 8.0)
    for scale in scales:
        expected = np.exp(-distances / (2.0 * scale**2))
        np.testing.assert_allclose(rows.gaussian(scale), expected, rtol=1e-12, atol=1e-300)


def test_strips_are_the_rows(rng):
    fitted = fit(read_scales(make_space(mixed_values(rng, 300), KINDS), points=32))
    values = mixed_values(rng, 1_100)
    whole, rows = Fresh(fitted, values, Buffers()), Fresh(fitted, values)
    for strip in in_strips(whole):
        np.testing.assert_array_equal(strip.values, values[strip.part])
        for scale in (8.0, 4.0, 1.0, 0.9, 0.5, 0.25):  # the widest first
            expected = np.exp(rows.closeness[strip.part] / scale**2)
            np.testing.assert_allclose(strip.gaussian(scale), expected, rtol=1e-10, atol=1e-300)
    np.testing.assert_array_equal(whole.nearest, rows.nearest)
    np.testing.assert_allclose(whole.nearness, rows.nearness, atol=1e-12)


@pytest.mark.parametrize("size", [1, 1_100])
def test_a_pass_sums_every_feature_by_bin(size, rng):
    space = make_space(mixed_values(rng, 300), KINDS)
    streams = choose_streams("fused", space, ("a", "b", "c"), (0, 0, 4), rng)
    values = mixed_values(rng, size)
    bins = make_bins((size, size), 5, bins=8)[0]
    own = bins.of(0, size)[0]
    sums = sum_features(Block(values, 0), Layout((0, 1, 2)), bins, streams.fitted, streams.features)
    rows = Fresh(streams.fitted, values)
    for feature, found in zip(streams.features, sums.features, strict=True):
        table = dense(feature(rows))
        expected = np.zeros((bins.count + 1, table.shape[1]))
        np.add.at(expected, own, table)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_sums_by_bin_are_those_of_the_features(rng):
    for columns in (3, 70):  # beyond 64 columns only some pairs are looked at
        space = make_space(np.sort(rng.normal(size=(300, columns)), axis=0), np.zeros(columns, dtype=bool))
        streams = choose_streams("fused", space, tuple(map(str, range(columns))), (0,) * columns, rng)
        rows = Fresh(streams.fitted, rng.normal(size=(200, columns)))
        segments = make_segments(np.repeat([0, 3, 4], [90, 10, 100]), rng.random(200))
        for features in streams.features:
            expected = segments.sums(features(rows))
            np.testing.assert_allclose(summed(features, rows, segments), expected, atol=1e-9)


@pytest.mark.parametrize("each", [1, 5, 600])
def test_sums_of_cosines_by_bin_are_those_of_loops(each, rng):
    values = mixed_values(rng, 1_200)
    kernel = OnColumns(Gaussian(0.7), (0, 1)) * OnColumns(Delta(0.8), (2,))
    features = fourier(kernel, values, 6, rng, (0, 0, 4))
    own, weight = np.arange(1_200) // each, rng.random(1_200)
    expected = np.zeros((1_200 // each, 6))
    ((_, table),) = features.tables
    for row, k, w in zip(values, own, weight, strict=True):
        phase = (row - features.centre) @ features.frequencies + table[int(row[2])]
        expected[k] += w * np.concatenate([np.cos(phase), np.sin(phase)]) / np.sqrt(3.0)
    found = features.sums(values, make_segments(own, weight))
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("kernel", ["fused", "median", Delta(), "a flag"])
def test_the_size_of_an_entry_is_that_of_all_rows(kernel, rng):
    values = mixed_values(rng, 3_000)
    if kernel == "a flag":  # which an even choice of rows misses
        values, kernel = np.eye(3_000)[:, [7]], Delta()
    space = make_space(values, np.zeros(values.shape[1], dtype=bool))
    names = tuple(map(str, range(values.shape[1])))
    streams = choose_streams(kernel, space, names, (0,) * len(names), rng)
    rows = Fresh(streams.fitted, values)
    squares = [member.added(np.square(member.of(rows)).mean(axis=0)[:, None]) for member in streams.members]
    found, expected = streams.entries(space), np.concatenate(squares)[:, 0]
    assert ((found > 0.0) == (expected > 0.0)).all()
    np.testing.assert_allclose(np.log10(found), np.log10(expected), atol=1.0)


@pytest.mark.parametrize(
    ("size", "rows", "landmarks"),
    [(150, 300, 75), (2_500, 2_048, 128), (6_144, 3_072, 192), (9_000, 4_096, 256)],
)
def test_features_are_fitted_on_a_share_of_the_rows(size, rows, landmarks, rng):
    tables, _ = read_tables(
        {"x": rng.normal(size=(size, 2)), "y": rng.normal(size=(size, 2))}, "raise", 2, True
    )
    sources, layout = tuple(map(in_memory, tables)), Layout((0, 1))
    bins = make_bins((size, size), 3)
    space = binned._sample(sources, bins, layout, None)
    count = sum(each.count for each in bins)
    assert len(space.values) % count == 0  # as many of every bin
    assert rows <= len(space.values) <= rows + count
    streams = binned._streams("fused", space, ("a", "b"), (0, 0), rng)
    assert len(streams.fitted.landmarks) == pytest.approx(landmarks, abs=count // 16 + 1)


def test_fitted_ranks_give_their_own_rows_what_ranks_gave(rng):
    for column in (rng.normal(size=50), rng.integers(0, 4, 50).astype(float), np.full(50, 2.0)):
        np.testing.assert_allclose(fit_ranks(column)(column), rank_polynomials(column), atol=1e-8)
    codes = rng.integers(0, 12, 80).astype(float)
    np.testing.assert_allclose(fit_levels(codes)(codes), indicators(codes), atol=1e-10)


def test_a_value_that_was_not_seen_is_told_from_those_that_were(rng):
    """A rare flag may be absent from the sample that ranks are fitted on."""
    assert fit_ranks(np.zeros(20))(np.array([0.0, 1.0, -1.0]))[:, 0].tolist() == [0.0, 1.0, -1.0]
    table = fit_levels(np.repeat([0.0, 1.0], 10))(np.array([0.0, 1.0, 2.0]))
    assert (table[2] != table[0]).any()
    assert (table[2] != table[1]).any()


def test_fresh_rows_are_measured_as_the_fitted_ones(rng):
    space = make_space(mixed_values(rng, 200), KINDS)
    rows = read_scales(space)
    fresh = Fresh(fit(rows), space.values)
    np.testing.assert_allclose(-2.0 * fresh.closeness, rows.to_landmarks, atol=1e-9)
    np.testing.assert_allclose(fresh.axes, rows.axes, atol=1e-7)
    for own, other in zip(fresh.polynomials, rows.polynomials, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-8)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__.split(".")[-1])
def test_every_group_streams(group, rng):
    """Members of a group for any number of rows have the names and the voices that they say."""
    rows = read_scales(make_space(mixed_values(rng, 300), KINDS), names=("a", "b", "c"), complete=False)
    found = group.fit(rows)
    if found is None:
        assert group is repeated  # which needs all rows
        return
    fresh = Fresh(fit(rows), mixed_values(rng, 40))
    count = 0
    for member in found.members:
        F = member.features(fresh)
        assert F.shape[0] == 40
        P = F.shape[1] if member.linear is None else member.linear.shape[1]
        count += P // member.width * len(member.cuts)
    assert count == len(found.kernels) == len(found.voices)


def test_fresh_rows_are_alone(rng):
    """What is said of a row does not depend on the rows that come with it."""
    space = make_space(mixed_values(rng, 200), KINDS)
    streams = choose_streams("fused", space, ("a", "b", "c"), (0, 0, 4), rng)
    values = mixed_values(rng, 20)
    for feature in streams.features:
        whole, part = feature(Fresh(streams.fitted, values)), feature(Fresh(streams.fitted, values[5:9]))
        difference = whole[5:9] - part
        assert np.abs(difference.toarray() if hasattr(difference, "toarray") else difference).max() < 1e-9


# Fourier features.


def test_fourier_features_of_categories_against_the_kernel(rng):
    """The mean of a cosine over 20,000 draws is off by less than 5 standard errors."""
    x = np.column_stack([rng.normal(size=10), rng.integers(0, 3, 10)])
    for kernel in (
        OnColumns(Gaussian(0.8), (0,)) * OnColumns(Delta(1.3), (1,)),
        OnColumns(Gaussian(0.8), (0,)) * OnColumns(Delta(), (1,)),
    ):
        F = fourier(kernel, x, 40_000, rng)(x)
        np.testing.assert_allclose(F @ F.T, kernel.gram(x), atol=5 / np.sqrt(20_000))
    assert fourier(OnColumns(Gaussian(1.0), (0,)) + OnColumns(Delta(), (1,)), x, 10, rng) is None


# The statistic.


@pytest.mark.parametrize("weighted", [False, True])
def test_the_unbiased_statistic_of_a_function_against_loops(weighted, rng):
    """A function of few rows has all of them as landmarks, so its features are exact."""
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(11, 2))
    weights = (rng.uniform(0.5, 2, 9), rng.uniform(0.5, 2, 11)) if weighted else None
    result = quick(x, y, kernel=lambda a, b: np.exp(-np.abs(a[:, None] - b).sum(axis=2)), weights=weights)
    pooled = np.concatenate([x, y])
    K = np.exp(-np.abs(pooled[:, None] - pooled).sum(axis=2))
    v = None if weights is None else np.concatenate(weights)
    expected = reference.mmd2_loops(K, [True] * 9 + [False] * 11, v, biased=False)
    assert result.statistic == pytest.approx(expected, abs=1e-9)


def test_few_rows_are_enumerated_and_their_exchange_changes_no_law(rng):
    """Every row its own bin: exchange two rows, and the statistics of all arrangements are the same ones."""
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    for kernel in ("median", "fused"):
        first = quick(x, y, kernel=kernel, n_resamples=999)
        assert first.enumerated
        assert len(first.null_distribution) == 126
        a, b = x.copy(), y.copy()
        a[2], b[1] = y[1], x[2]
        other = quick(a, b, kernel=kernel, n_resamples=999)
        np.testing.assert_allclose(other.null_distribution, first.null_distribution, atol=1e-8)


def test_swapped_samples_give_the_same_answer(rng):
    x, y = rng.normal(size=(700, 2)), rng.normal(0.1, 1.0, size=(600, 2))
    for options in ({"kernel": "fused", "by_column": True}, {"kernel": "median"}):
        one, other = quick(x, y, **options), quick(y, x, **options)
        assert one.pvalue == other.pvalue
        assert one.statistic == pytest.approx(other.statistic)
        assert (one.sizes, other.sizes) == ((700, 600), (600, 700))


def test_blocks_of_any_size_give_the_same_answer(rng):
    table, other = (read_tables({"x": rng.normal(size=(3000, 3))}, "raise", 2)[0][0] for _ in range(2))
    found = []
    for rows in (3000, 577, 64):
        sources = tuple(Memory(t.label, in_memory(t).schema, t.values, rows) for t in (table, other))
        found.append(binned_test(sources, "fused", read_procedure("auto", "permutation", 49, None, None, 1)))
    for result in found[1:]:
        assert result.pvalue == found[0].pvalue
        assert result.statistic == pytest.approx(found[0].statistic, rel=1e-10)


def test_rows_with_missing_values_count_nothing(rng):
    """The same as without them but for the bins, which go by the numbers of the rows."""
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


def test_pairs_turn_round_in_bins(rng):
    both = rng.normal(size=(900, 2))
    x, y = (both + 0.2 * rng.normal(size=(900, 2)) for _ in range(2))
    assert quick(x, y, paired=True).pvalue > 0.01
    assert (
        quick(x, y + np.array([0.05, 0.0]), paired=True).pvalue == 0.01
    )  # far below what unpaired rows show
    assert quick(x, y + np.array([0.05, 0.0])).pvalue > 0.01


def test_the_level_of_odd_sizes(rng):
    """107 + 61 rows, 200 draws at 20%: within what a binomial law passes once in 10⁴."""
    from scipy import stats

    count = sum(
        quick(
            rng.normal(size=(107, 1)), rng.normal(size=(61, 1)), kernel="median", n_resamples=19, rng=rng
        ).pvalue
        <= 0.2
        for _ in range(200)
    )
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
    with pytest.raises(ValueError, match=r"^unit leaves 1 units of x that could change sides"):
        mmd_test(x, y, unit=(one, one), statistic="features")
    with pytest.raises(ValueError, match="unit='column 0' is the only column"):
        mmd_test(x[:, :1], y[:, :1], unit="column 0", statistic="features", weights=(one + 1, one + 1))
    with pytest.raises(ValueError, match="unit goes with null='permutation' and unpaired samples"):
        mmd_test(x, y, unit=2, paired=True)


def test_cosines_and_sines(rng):
    phase = np.concatenate([rng.normal(size=4_000) * 30, np.arange(-8, 8) * np.pi / 4, [1e9, -1e12]])[:, None]
    expected = np.column_stack([np.cos(phase), np.sin(phase)])
    np.testing.assert_allclose(cosines_and_sines(phase), expected, rtol=0, atol=2e-15)


def test_delta_of_numbers_is_looked_at_by_rows(rng):
    x, y = rng.integers(0, 3, (300, 1)).astype(float), rng.integers(0, 4, (300, 1)).astype(float)
    assert quick(x, y, kernel=Delta()).pvalue == 0.01

"""mmd_test: what must not change the answer, the level, every statistic against loops, every refusal."""

import subprocess
import sys
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.signal import lfilter
from scipy.spatial.distance import cdist
from tests import reference
from tests.testing.alike import FRAMES, all_have, gaussian, matrices, objects, same

from kembed import (
    Delta,
    Gaussian,
    OnColumns,
    Product,
    Scaled,
    TestOutcome,
    learn_kernel,
    median_lengthscale,
    mmd_test,
)
from kembed.features.kernel import kernel_matrix
from kembed.features.rows import Sample
from kembed.kernels.space import make_space
from kembed.permutation.pool import make_pool
from kembed.permutation.series import persistence, persistence_of, principal_features, wild_columns
from kembed.tables.reader import read_tables
from kembed.testing import dense, engine
from kembed.testing.procedure import read_procedure


def quick(x, y, **options):
    return mmd_test(x, y, **{"kernel": "median", "n_resamples": 99, "rng": 0} | options)


def refused(words, kind=ValueError, **options):
    """The call is refused, and the message has all the words."""
    x, y = options.pop("x", np.arange(8.0)), options.pop("y", np.arange(9.0) ** 2)
    with pytest.raises(kind) as caught:
        quick(x, y, **options)
    all_have(words, str(caught.value))


# Neither the order of rows nor that of samples changes anything.


def continuous(rng):
    return rng.normal(size=(13, 2)), rng.normal(size=(10, 2)) + 0.5


def equally_many(rng):
    return rng.normal(size=(11, 2)), 1.5 * rng.normal(size=(11, 2))


def tied(rng):
    return rng.integers(0, 3, (12, 2)).astype(float), rng.integers(0, 3, (12, 2)).astype(float)


def mixed(rng):
    x, y = tied(rng)
    words = np.array(["a", "b", "c"], dtype=object)
    return (
        np.column_stack([x.astype(object), words[rng.integers(0, 2, 12)]]),
        np.column_stack([y.astype(object), words[rng.integers(0, 3, 12)]]),
    )


def words_only(rng):
    words = np.array(["a", "b", "c"], dtype=object)
    return words[rng.integers(0, 2, (9, 2))], words[rng.integers(0, 3, (12, 2))]


def few(rng):
    return rng.normal(size=(3, 1)), rng.normal(size=(3, 1))


TABLES = [continuous, equally_many, tied, mixed, words_only, few]


def check_orders(x, y, **options):
    rng = np.random.default_rng(7)
    weights = options.pop("weights", (None, None))

    def run(x, y, u, v):
        return quick(x, y, weights=None if u is None else (u, v), **options)

    u, v = weights
    first = run(x, y, u, v)
    for _ in range(2):
        i, j = rng.permutation(len(x)), rng.permutation(len(y))
        p, q = (None, None) if u is None else (u[i], v[j])
        same(run(x[i], y[j], p, q), first)
        swapped = run(y[j], x[i], q, p)
        same(swapped, first)
        assert swapped.sizes == first.sizes[::-1]


@pytest.mark.parametrize("make", TABLES)
@pytest.mark.parametrize("kernel", ["fused", "median", [Gaussian(0.5), "median"]])
def test_any_order_gives_the_same_answer(make, kernel, rng):
    check_orders(*make(rng), kernel=kernel)


@pytest.mark.parametrize("make", [table for table in TABLES if table not in (mixed, words_only)])
def test_any_order_gives_the_same_answer_with_a_function(make, rng):
    """A function of numbers, so on numeric tables."""
    check_orders(*make(rng), kernel=gaussian)


@pytest.mark.parametrize("make", [tied, mixed, equally_many])
@pytest.mark.parametrize("kernel", ["fused", "median"])
@pytest.mark.parametrize("weight", ["any", "tied"])
def test_any_order_gives_the_same_answer_with_weights(make, kernel, weight, rng):
    x, y = make(rng)
    draw = (lambda n: rng.uniform(0.5, 2.0, n)) if weight == "any" else (lambda n: rng.integers(1, 3, n))
    check_orders(x, y, kernel=kernel, weights=(draw(len(x)), draw(len(y))))


@pytest.mark.parametrize("make", [continuous, tied])
@pytest.mark.parametrize(
    "options",
    [
        {"statistic": "biased"},
        {"null": "gamma"},
        {"null": "spectral"},
    ],
    ids=lambda options: str(options).split(" at 0x")[0],
)
def test_any_order_gives_the_same_answer_for_every_statistic(make, options, rng):
    check_orders(*make(rng), **options)


@pytest.mark.parametrize("make", [equally_many, tied])
def test_any_order_gives_the_same_answer_column_by_column(make, rng):
    x, y = make(rng)
    first = quick(x, y, by_column=True)
    other = quick(y[::-1], x[rng.permutation(len(x))], by_column=True)
    assert [(c.name, c.pvalue, c.adjusted_pvalue) for c in first.columns] == [
        (c.name, c.pvalue, c.adjusted_pvalue) for c in other.columns
    ]


@pytest.mark.parametrize("n", [5, 12])  # with every sign, and with random ones
@pytest.mark.parametrize("statistic", ["unbiased", "biased"])
def test_pairs_in_any_order_and_sides_in_either(n, statistic, rng):
    x = np.round(rng.normal(size=(n, 2)), 1)
    y = np.round(x + 0.7 * rng.normal(size=(n, 2)), 1)
    first = quick(x, y, paired=True, statistic=statistic)
    same(quick(y, x, paired=True, statistic=statistic), first)
    order = rng.permutation(n)
    reordered = quick(x[order], y[order], paired=True, statistic=statistic)
    assert reordered.pvalue == first.pvalue
    assert reordered.statistic == pytest.approx(first.statistic, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_columns_are_matched_by_name(frame, rng):
    x = frame(dict(zip("abc", rng.normal(size=(3, 12)), strict=True)))
    y = frame(dict(zip("abc", rng.normal(size=(3, 12)), strict=True)))
    same(quick(x, y[["c", "a", "b"]]), quick(x, y))


def test_the_same_seed_gives_the_same_answer_and_a_generator_moves_on(rng):
    x, y = continuous(rng)
    same(quick(x, y, rng=5), quick(x, y, rng=np.random.default_rng(5)))
    generator = np.random.default_rng(5)
    first, second = quick(x, y, rng=generator), quick(x, y, rng=generator)
    assert not np.array_equal(first.null_distribution, second.null_distribution)


# The kernel never sees the labels.


@pytest.mark.parametrize("make", [continuous, tied, mixed, words_only])
@pytest.mark.parametrize("kernel", ["fused", "median", [Gaussian(0.7), "median"]])
def test_the_choice_is_a_function_of_the_unordered_rows(make, kernel, rng):
    x, y = make(rng)
    (a, b), _ = read_tables({"x": x, "y": y}, nan_policy="raise", same_columns=True, paired=False, minimum=2)
    rows = np.concatenate([a.values, b.values])

    def chosen(rows):
        sample = Sample(make_space(rows, a.categorical))
        found = engine.choose_ensemble(kernel, sample, np.random.default_rng(0))
        return found, matrices(found.members, sample)

    first, kernels = chosen(rows)
    for _ in range(2):
        order = rng.permutation(len(rows))
        other, moved = chosen(rows[order])
        assert [repr(k) for k in other.kernels] == [repr(k) for k in first.kernels]
        for ours, theirs in zip(first.plan, other.plan, strict=True):
            np.testing.assert_array_equal(theirs, ours)
        for ours, theirs in zip(kernels, moved, strict=True):
            np.testing.assert_allclose(theirs, ours[np.ix_(order, order)], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_any_relabeling_of_the_pooled_rows_meets_the_same_kernels(kernel, rng):
    rows = np.round(rng.normal(size=(20, 2)), 1)
    first = quick(rows[:8], rows[8:], kernel=kernel)
    for _ in range(3):
        other = rows[rng.permutation(20)]
        relabeled = quick(other[:8], other[8:], kernel=kernel)
        assert objects(relabeled) == objects(first)
        assert len(relabeled.members) == len(first.members)
        assert abs(relabeled.statistic - first.statistic) > 1e-9


@pytest.fixture(scope="module")
def learned():
    """Rows, the kernel learned from them, and the test with the word for it."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(15, 1)), 2.0 * rng.normal(size=(15, 1))
    return (
        x,
        y,
        learn_kernel(make_space(np.concatenate([x, y]), np.array([False])).numeric),
        quick(x, y, kernel="bkl"),
    )


def test_the_learned_kernel_is_a_function_of_the_unordered_rows(learned, rng):
    x, y, _, first = learned
    rows = rng.permutation(np.concatenate([x, y]))
    other = quick(rows[:15], rows[15:], kernel="bkl")
    assert first.kernel.lengthscale == other.kernel.lengthscale
    assert len(first.learned) == 1
    assert first.kernel.lengthscale > 0.0
    same(quick(y[::-1], x, kernel="bkl"), first)


def test_a_learned_kernel_is_a_kernel(learned):
    x, y, found, _ = learned
    given = quick(x, y, kernel=found)
    same(given, quick(x, y, kernel=found.kernel))
    assert [type(each).__name__ for each in given.learned] == ["Evidence"]


# The level.


def test_the_level_holds_where_rows_are_tied():
    """Rejections at 5% and 20% stay below what a binomial law passes once in 10⁴.

    The fused test has `benchmarks/level.py`, and every arrangement of few tied rows in `test_nulls`.
    """
    rng = np.random.default_rng(11)
    pvalues = []
    for _ in range(400):
        x, y = rng.integers(0, 4, (12, 1)), rng.integers(0, 4, (12, 1))
        pvalues.append(quick(x, y, rng=rng).pvalue)
    for level in (0.05, 0.2):
        assert np.sum(np.array(pvalues) <= level + 1e-12) <= stats.binom.ppf(1 - 1e-4, 400, level)


def test_without_ties_the_level_is_met_exactly():
    """100 draws at 20%: neither above nor below what a binomial law passes once in 10⁴."""
    rng = np.random.default_rng(12)
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 100, 0.2)
    for options in ({}, {"weights": "drawn"}, {"statistic": "features"}):
        count = 0
        for _ in range(100):
            x, y = rng.normal(size=(9, 1)), rng.normal(size=(12, 1))
            if "weights" in options:
                options["weights"] = (rng.uniform(0.5, 2, 9), rng.uniform(0.5, 2, 12))
            count += quick(x, y, n_resamples=49, rng=rng, **options).pvalue <= 0.2
        assert low <= count <= high, options


@pytest.mark.parametrize("correlation", [-0.9, 0.9])
@pytest.mark.parametrize("null", ["permutation", "wild"])
def test_the_level_holds_for_dependent_pairs(null, correlation):
    """400 draws at 10% (100 of the swaps, which are exact and enumerated in `test_nulls`).

    The two rows of a pair depend on each other, the pairs do not. The wild bootstrap is an approximation, so
    its bounds are those of 6% and 12%.
    """
    rng = np.random.default_rng(13)
    count, draws = 0, 400 if null == "wild" else 100
    for _ in range(draws):
        x = rng.normal(size=50)
        y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=50)
        count += (
            quick(
                x, y, paired=True, null=null, dependence_length=1.0 if null == "wild" else None, rng=rng
            ).pvalue
            <= 0.1
        )
    low, high = (0.06, 0.12) if null == "wild" else (0.1, 0.1)
    assert stats.binom.ppf(1e-4, draws, low) <= count <= stats.binom.ppf(1 - 1e-4, draws, high)


# Every statistic against loops.


@pytest.mark.parametrize("biased", [True, False])
def test_sign_flips_against_a_loop_with_every_arrangement(biased, rng):
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)) + 0.5
    z = np.concatenate([x, y])
    K = reference.gram(reference.gaussian(np.eye(2)), z, z)
    result = quick(x, y, kernel=Gaussian(1.0), paired=True, statistic="biased" if biased else "unbiased")
    every = [reference.paired_mmd2_loops(K, signs, biased=biased) for signs in product((1, -1), repeat=4)]
    assert result.enumerated
    assert result.statistic == pytest.approx(every[0], abs=1e-13)
    np.testing.assert_allclose(np.sort(result.null_distribution), np.sort(every), atol=1e-13)
    assert result.pvalue == pytest.approx(np.mean(np.array(every) >= every[0] - 1e-12), abs=1e-15)


@pytest.mark.parametrize("biased", [True, False])
def test_random_sign_flips_are_among_all_of_them(biased, rng):
    x, y = rng.normal(size=(5, 1)), rng.normal(size=(5, 1))
    z = np.concatenate([x, y])
    K = reference.gram(reference.gaussian(1.0), z, z)
    options = {"kernel": Gaussian(1.0), "paired": True, "statistic": "biased" if biased else "unbiased"}
    result = quick(x, y, n_resamples=30, **options)  # 32 arrangements
    every = [reference.paired_mmd2_loops(K, signs, biased=biased) for signs in product((1, -1), repeat=5)]
    assert not result.enumerated
    assert len(result.null_distribution) == 30
    gaps = np.abs(result.null_distribution[:, None] - np.array(every)).min(axis=1)
    assert gaps.max() < 1e-12
    assert result.pvalue == (1 + np.sum(result.null_distribution >= result.statistic - 1e-12)) / 31


def test_the_wild_bootstrap_against_a_loop(rng):
    x, y = rng.normal(size=(7, 1)), rng.normal(size=(5, 1))
    z = np.concatenate([x, y])
    K = reference.gram(reference.gaussian(1.0), z, z)
    result = quick(x, y, kernel=Gaussian(1.0), null="wild", n_resamples=20, dependence_length=2.0)
    assert result.statistic == pytest.approx(reference.wild_mmd2_loops(K, np.ones(7), np.ones(5)), abs=1e-13)
    seed = np.random.default_rng(0)
    F = principal_features(kernel_matrix(gaussian, z))
    u, v = wild_columns([7, 5], [persistence(F[:7]), persistence(F[7:])], 20, 2.0, seed)
    expected = [reference.wild_mmd2_loops(K, u[:, b], v[:, b]) for b in range(20)]
    np.testing.assert_allclose(result.null_distribution, expected, atol=1e-13)


def test_the_wild_bootstrap_of_pairs_against_a_loop(rng):
    """One weight for both rows of a pair, and the memory of their differences."""
    x, y = rng.normal(size=(2, 9, 1))
    z = np.concatenate([x, y])
    K = reference.gram(reference.gaussian(1.0), z, z)
    result = quick(x, y, kernel=Gaussian(1.0), null="wild", paired=True, n_resamples=20)
    F = principal_features(kernel_matrix(gaussian, z))
    (u,) = wild_columns([9], [persistence(F[:9] - F[9:])], 20, None, np.random.default_rng(0))
    expected = [reference.wild_mmd2_loops(K, u[:, b], u[:, b]) for b in range(20)]
    np.testing.assert_allclose(result.null_distribution, expected, atol=1e-13)


def test_the_wild_bootstrap_keeps_its_level_on_slow_series():
    """Two autoregressions of one law: 150 draws at 5%, where the plain bootstrap rejects a fifth of them."""
    rng, rejected = np.random.default_rng(29), 0
    for _ in range(150):
        x, y = lfilter([1.0], [1.0, -0.85], rng.normal(size=(2, 150)))[:, 50:]
        rejected += quick(x, y, null="wild", rng=rng).pvalue <= 0.05
    assert rejected <= stats.binom.ppf(1 - 1e-4, 150, 0.08)


def test_something_slow_under_noise_gets_a_note():
    rng = np.random.default_rng(0)
    slow = lfilter([1.0], [1.0, -0.97], rng.normal(size=(2, 700)))[:, 100:]
    x, y = slow / slow.std() + rng.normal(size=slow.shape)
    plain = rng.normal(size=600)
    words = "remember longer than neighbours show, as under noise; p-values of null='wild' are then too small"
    for pair, which in (((x, y), "x and y"), ((x, plain), "x"), ((plain, y), "y")):
        (note,) = quick(*pair, null="wild").notes
        assert f"rows of {which} {words}" in note
    (note,) = (n for n in quick(x, plain, null="wild", paired=True).notes if "remember" in n)
    assert "rows of the differences of pairs remember" in note
    assert quick(*slow, null="wild").notes == quick(plain, plain[::-1] + 0.1, null="wild").notes == ()


def test_the_column_that_remembers_longest_decides_for_several_kernels(rng):
    """A second column of noise makes draws no smaller."""
    x, y = lfilter([1.0], [1.0, -0.9], rng.normal(size=(2, 80)))
    kernel = [Gaussian(1.0), Gaussian(2.0)]
    for second in (np.zeros((2, 80)), 5.0 * rng.normal(size=(2, 80))):
        both = {"x": np.column_stack([x, second[0]]), "y": np.column_stack([y, second[1]])}
        tables, _ = read_tables(both, "raise", minimum=2, same_columns=True)
        pool = make_pool(tables, None, "time", None)
        found = persistence_of(pool, dense.choose_kernels(kernel, pool.space).members, False)
        assert min(how.mean_variance for how in found) > 4.0


# Column by column.


def test_the_shifted_column_is_found(rng):
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(25, 3))
    y[:, 1] += 2.0
    for kernel in ("median", "fused", Gaussian(1.0), ["median", Gaussian(1.0)]):
        result = quick(x, y, kernel=kernel, by_column=True)
        assert [column.name for column in result.columns] == ["column 0", "column 1", "column 2"]
        for column in result.columns:
            assert column.adjusted_pvalue >= column.pvalue
        assert result.columns[1].adjusted_pvalue == 0.01
        assert min(result.columns[0].adjusted_pvalue, result.columns[2].adjusted_pvalue) > 0.01
        joint = quick(x, y, kernel=kernel)
        assert joint.columns is None
        assert joint.pvalue == result.pvalue


def test_columns_by_name_and_of_every_kind(rng):
    x = pd.DataFrame({"size": rng.normal(size=40), "colour": rng.choice(["red", "blue"], 40)})
    y = pd.DataFrame({"size": rng.normal(size=40), "colour": rng.choice(["red", "green"], 40)})
    result = quick(x, y, by_column=True, n_resamples=199)
    size, colour = result.columns
    assert (size.name, colour.name) == ("size", "colour")
    assert colour.adjusted_pvalue == 1 / 200
    assert size.pvalue > 0.01
    assert "size" in repr(result)
    assert "ColumnResult(name='colour'" in repr(colour)


def test_one_column_by_itself_is_the_joint_test(rng):
    result = quick(*(rng.normal(size=12) for _ in "xy"), by_column=True)
    (column,) = result.columns
    assert column.pvalue == column.adjusted_pvalue == result.pvalue


@pytest.mark.parametrize("kernel", ["fused", "median"])
@pytest.mark.parametrize("paired", [False, True])
def test_columns_with_every_arrangement(kernel, paired, rng):
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    result = quick(x, y, kernel=kernel, paired=paired, by_column=True)
    count = 16 if paired else 70
    assert result.enumerated
    assert len(result.null_distribution) == count
    for c, column in enumerate(result.columns):
        assert count * column.pvalue == pytest.approx(round(count * column.pvalue), abs=1e-9)
        assert column.adjusted_pvalue >= column.pvalue
        alone = quick(x[:, c], y[:, c], kernel=kernel, paired=paired)
        if kernel == "median":
            assert (column.statistic, column.pvalue) == pytest.approx((alone.statistic, alone.pvalue))


# Kernels.


def test_a_kernel_object_and_its_function_agree(rng):
    x, y = continuous(rng)
    same(quick(x, y, kernel=Gaussian(1.0)), quick(x, y, kernel=gaussian))
    same(quick(x, y, kernel=Gaussian(1.0)), quick(x, y, kernel=[Gaussian(1.0)]))


def test_several_kernels_are_fused(rng):
    x, y = continuous(rng)
    several = quick(x, y, kernel=[Gaussian(1.0), gaussian, "median"])
    assert len(several.members) == 3
    for member, kernel in zip(several.members, [Gaussian(1.0), gaussian, "median"], strict=True):
        assert member.statistic == pytest.approx(quick(x, y, kernel=kernel).statistic, abs=1e-12)
    assert several.effect_of_kernel in [member.statistic for member in several.members]
    assert several.kernel in [member.kernel for member in several.members]
    twice = quick(x, y, kernel=[Gaussian(1.0), Gaussian(1.0)])
    assert twice.pvalue == quick(x, y, kernel=Gaussian(1.0)).pvalue


def test_kernels_that_are_refused():
    refused(["kernel", "'mediam'", "'median'", "'fused'"], kernel="mediam")
    refused(["kernel", "2.0", "Gaussian(2.0)"], TypeError, kernel=2.0)
    refused(["kernel", "None", "'median'"], TypeError, kernel=None)
    refused(["kernel", "Gaussian", "function"], TypeError, kernel=Gaussian)
    refused(["kernel", "empty", "at least one"], kernel=[])
    refused(["kernel", "'mediam'"], kernel=["median", "mediam"])
    refused(["kernel", "3 lengthscales", "1 column", "one lengthscale"], kernel=Gaussian([1.0, 2.0, 3.0]))


def test_functions_that_are_no_kernels():
    refused(["kernel", "shape (17, 17)", "(17,)"], kernel=lambda a, b: np.ones(len(a)))
    refused(["kernel", "symmetric", "k(y, x)"], kernel=lambda a, b: a + 0.0 * b.T)
    refused(["kernel", "finite", "few rows"], kernel=lambda a, b: np.full((len(a), len(b)), np.nan))
    refused(["kernel", "finite"], kernel=lambda a, b: np.full((len(a), len(b)), np.inf))


# Data frames and mixed columns.


@pytest.mark.parametrize("kernel", ["median", "fused", Gaussian(1.0)])
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_give_what_arrays_give(frame, kernel, rng):
    a, b = rng.normal(size=(2, 14))
    c, d = rng.choice(["u", "v"], 14).tolist(), rng.choice(["v", "w"], 14).tolist()  # levels x has not seen
    columns = {"number": a, "flag": a > 0, "word": c}, {"word": d, "number": b, "flag": b > 0}
    x, y = (frame(part) for part in columns)
    arrays = [
        [[s, float(t), w] for s, t, w in zip(part["number"], part["flag"], part["word"], strict=True)]
        for part in columns
    ]
    same(quick(x, y, kernel=kernel), quick(*arrays, kernel=kernel))
    if frame is pd.DataFrame:
        as_categories = x.astype({"word": "category"}), y.astype({"word": "category"})
    else:
        as_categories = [part.with_columns(pl.col("word").cast(pl.Categorical)) for part in (x, y)]
    same(quick(*as_categories, kernel=kernel), quick(x, y, kernel=kernel))


def test_the_names_of_levels_do_not_matter(rng):
    x, y = rng.integers(0, 2, 12), rng.integers(0, 3, 12)
    same(
        quick([f"level {i}" for i in x], [f"level {i}" for i in y]),
        quick([chr(97 + i) for i in x], [chr(97 + i) for i in y]),
    )


def test_a_kernel_for_numbers_meets_categories_as_equal_or_not(rng):
    x, y = mixed(rng)
    spelled = Product(OnColumns(Gaussian(1.0), (0, 1)), OnColumns(Delta(), (2,)))
    same(quick(x, y, kernel=Gaussian(1.0)), quick(x, y, kernel=spelled))
    same(quick(x[:, 2], y[:, 2], kernel=Gaussian(1.0)), quick(x[:, 2], y[:, 2], kernel=Delta()))


def test_series_vectors_ints_and_bools(rng):
    x, y = rng.integers(0, 5, 10), rng.integers(0, 5, 12)
    first = quick(x.astype(float), y.astype(float))
    same(quick(x, y), first)
    same(quick(x.astype(np.uint8)[:, None], y.tolist()), first)
    same(quick(pd.Series(x), pl.Series(y)), first)
    same(quick(x > 2, y > 2), quick((x > 2).astype(float), (y > 2).astype(float)))


# Missing, infinite, degenerate, extreme.


def test_missing_values_under_each_policy(rng):
    x, y = continuous(rng)
    holes = np.insert(x, [0, 5], [[np.nan, 1.0], [0.0, np.nan]], axis=0)
    refused(["x", "missing values in 2 of 15 rows", "nan_policy='omit'"], x=holes, y=y)
    refused(["y", "missing values", "nan_policy='omit'"], x=x, y=holes)
    same(quick(holes, y, nan_policy="omit"), quick(x, y))
    nothing = quick(holes, y, nan_policy="propagate")
    assert np.isnan(nothing.pvalue)
    assert np.isnan(nothing.statistic)
    assert len(nothing.null_distribution) == 0
    assert "p = nan" in repr(nothing)
    same(quick(x, y, nan_policy="propagate"), quick(x, y))
    weights = rng.uniform(1.0, 2.0, 15), rng.uniform(1.0, 2.0, 10)
    kept = np.delete(weights[0], [0, 6])
    same(quick(holes, y, nan_policy="omit", weights=weights), quick(x, y, weights=(kept, weights[1])))
    refused(["nan_policy", "'raise'", "'omit'", "'propagate'", "'drop'"], nan_policy="drop")
    refused(["x", "1 row", "2 are needed"], x=[1.0, np.nan], nan_policy="omit")


def test_pairs_with_a_missing_side_are_dropped_together(rng):
    x, y = rng.normal(size=(2, 12))
    a, b = np.insert(x, 3, np.nan), np.insert(y, 3, 0.5)
    same(quick(a, b, paired=True, nan_policy="omit"), quick(x, y, paired=True))


@pytest.mark.parametrize("weights", [None, (np.ones(5), np.ones(9))])
@pytest.mark.parametrize("side", [np.full(9, np.nan), np.arange(9.0)], ids=["both missing", "one missing"])
def test_nothing_but_missing_values_propagates(side, weights):
    assert np.isnan(quick(np.full(5, np.nan), side, nan_policy="propagate", weights=weights).pvalue)


def test_infinite_values_are_refused_under_every_policy():
    for policy in ("raise", "omit", "propagate"):
        refused(["x", "infinite values (first: row 1", "drop"], x=[1.0, np.inf, 2.0], nan_policy=policy)


@pytest.mark.parametrize("value", [0.0, 0.3, 1e12])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "fused"},
        {"kernel": Gaussian(1.0), "statistic": "biased"},
        {"statistic": "features"},
        {"null": "gamma"},
        {"null": "spectral"},
        {"null": "wild"},
        {"paired": True},
        {"by_column": True},
        {"weights": (np.arange(1.0, 8.0) / 3, np.arange(1.0, 8.0) / 7)},
    ],
    ids=lambda options: ", ".join(
        f"{name}" if name == "weights" else f"{name}={options[name]}" for name in options
    ),
)
def test_rows_that_are_all_equal_say_nothing(options, value):
    same_everywhere = np.full((7, 2), value)
    for seed in range(5):
        result = quick(same_everywhere, same_everywhere, rng=seed, **options)
        assert result.pvalue == 1.0
        assert result.statistic == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_unequal_samples_of_equal_rows_say_nothing(seed):
    x, y = np.full((11, 1), 0.1), np.full((6, 1), 0.1)
    for options in ({}, {"kernel": "fused"}, {"statistic": "biased"}, {"null": "wild"}):
        assert quick(x, y, rng=seed, **options).pvalue == 1.0


def test_a_constant_column_changes_no_p_value(rng):
    x, y = continuous(rng)
    for kernel in ("median", "fused"):
        beside = [np.column_stack([np.full(len(part), 7.0), part]) for part in (x, y)]
        assert quick(*beside, kernel=kernel).pvalue == pytest.approx(
            quick(x, y, kernel=kernel).pvalue, abs=0.05
        )
    assert quick(*beside, kernel="median").pvalue == quick(x, y).pvalue


@pytest.mark.parametrize("size", [1e-12, 1e12])
@pytest.mark.parametrize("kernel", ["median", "fused"])
def test_huge_and_tiny_values(kernel, size, rng):
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 3.0
    result = quick(size * x, size * y, kernel=kernel)
    assert result.pvalue == 0.01
    assert np.isfinite(result.statistic)


def test_one_huge_row_does_not_hide_the_rest(rng):
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 2.0
    x[0] = 1e12
    for kernel in ("median", "fused"):
        assert quick(x, y, kernel=kernel).pvalue == 0.01


@pytest.mark.parametrize("kernel", ["median", "fused"])
def test_two_rows_are_enough_and_one_is_not(kernel):
    assert quick([0.0, 1.0], [5.0, 6.0], kernel=kernel).pvalue == pytest.approx(2 / 6)
    refused(["x", "1 row", "2 are needed"], x=[1.0], kernel=kernel)
    refused(["y", "1 row", "2 are needed"], y=[1.0], kernel=kernel)


def test_tables_that_do_not_match():
    refused(["y", "3 columns", "x has 2", "same variables"], x=np.ones((4, 2)), y=np.ones((4, 3)))
    refused(["x", "8 rows", "y", "9 rows", "paired"], paired=True)
    refused(["x", "text", "numbers", "y"], TypeError, x=["a", "b"], y=[1.0, 2.0])
    frames = pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"b": [1.0, 2.0]})
    refused(["same columns", "'a'", "'b'", "rename or drop"], x=frames[0], y=frames[1])
    refused(["x", "None", "array"], TypeError, x=None)
    refused(["x", "shape", "two dimensions"], x=np.ones((2, 2, 2)))


# Arguments.


def test_bad_arguments():
    refused(["n_resamples", "at least 1", "0"], n_resamples=0)
    refused(["n_resamples", "whole number", "9.5"], TypeError, n_resamples=9.5)
    refused(["n_resamples", "whole number", "True"], TypeError, n_resamples=True)
    refused(["rng", "seed", "-1"], TypeError, rng=-1)
    refused(["rng", "seed", "'zero'"], TypeError, rng="zero")
    refused(["dependence_length", "positive", "-2"], null="wild", dependence_length=-2.0)
    refused(["statistic", "'unbiased'", "'quadratic'"], statistic="quadratic")
    refused(["null", "'permutation'", "'bootstrap'"], null="bootstrap")


def test_bad_weights():
    ones, nine = np.ones(8), np.ones(9)
    refused(["weights", "pair", "x", "y"], TypeError, weights=ones)
    refused(["weights", "pair"], TypeError, weights=(ones, nine, nine))
    refused(["weights[0]", "7 entries", "one weight for each row"], weights=(np.ones(7), nine))
    refused(["weights[1]", "5 entries", "one weight for each row"], weights=(ones, np.ones(5)))
    refused(["weights[0]", "positive", "-1"], weights=(-ones, nine))
    refused(["weights[1]", "positive", "0"], weights=(ones, np.zeros(9)))
    refused(["weights[1]", "positive", "nan"], weights=(ones, nine * np.nan))
    refused(["weights[0]", "vector", "(8, 1)"], weights=(ones[:, None], nine))
    refused(["weights[0]", "number"], TypeError, weights=(["a"] * 8, nine))


def test_too_many_weights():
    refused(["weights[0]", "11 entries", "one weight for each row"], weights=(np.ones(11), np.ones(9)))


def test_combinations_that_are_refused():
    weights = (np.ones(8), np.ones(9))
    for null in ("gamma", "spectral", "wild"):
        refused(["weights", "null='permutation'", "leave weights out"], null=null, weights=weights)
        refused(["by_column", "null='permutation'", "leave one out"], null=null, by_column=True)
    refused(["weights", "unpaired", "leave weights out"], paired=True, weights=weights)
    refused(["dependence_length", "null='wild'", "leave it out"], dependence_length=3.0)
    for null in ("gamma", "spectral"):
        refused(["paired=True", "null='permutation'", "'wild'"], y=np.arange(8.0), paired=True, null=null)
        for kernel in ("fused", ["median", Gaussian(1.0)], ("median", Gaussian(1.0))):
            refused([f"null={null!r}", "one kernel", "kernel='median'"], kernel=kernel, null=null)


def test_what_was_dropped_is_refused():
    """Statistics with a quarter of the power of the others (`docs/testing.md`), and their null."""
    for statistic in ("linear", "block"):
        refused(["statistic", "'unbiased'", "'features'"], statistic=statistic)
    refused(["null", "'permutation'", "'normal'"], null="normal")


def test_a_list_of_one_word_that_stands_for_several_is_refused_too():
    refused(["one kernel", "kernel='median'"], kernel=["fused"], null="gamma")


def test_a_kernel_for_all_columns_cannot_be_used_on_one(rng):
    x, y = continuous(rng)
    for kernel in (
        Gaussian([1.0, 2.0]),
        OnColumns(Gaussian(1.0), (1,)),
        ["median", Gaussian([1.0, 2.0])],
    ):
        refused(["by_column=True", "'column 0'", "one lengthscale"], x=x, y=y, by_column=True, kernel=kernel)


def test_a_scaled_kernel_for_all_columns_cannot_be_used_on_one_either(rng):
    x, y = continuous(rng)
    kernel = Scaled(Gaussian([1.0, 2.0]), 2.0)
    refused(["by_column=True", "'column 0'", "one lengthscale"], x=x, y=y, by_column=True, kernel=kernel)


# Work.


def minus_distance(a, b):
    return -cdist(a, b)


def test_many_rows_and_a_function_that_is_not_positive_definite(rng):
    """-|a - b| is a good kernel for differences of samples, and no F Fᵀ: the energy distance."""
    x, y = rng.normal(size=(2_100, 1)), rng.normal(size=(2_000, 1)) + 0.3
    result = quick(x, y, kernel=minus_distance, statistic="biased", n_resamples=1)
    assert result.statistic == pytest.approx(stats.energy_distance(x[:, 0], y[:, 0]) ** 2, rel=1e-9)


# What comes back.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "fused"},
        {"kernel": gaussian},
        {"null": "gamma"},
        {"paired": True},
    ],
    ids=lambda options: str(options).split(" at 0x")[0],
)
def test_the_result_reads_well(options, rng):
    x, y = rng.normal(size=(2, 12, 2))
    result = quick(x, y, **options)
    assert isinstance(result, TestOutcome)
    text = repr(result)
    assert f"p = {result.pvalue:.4g}" in text
    assert "MMD²" in text
    assert "12 + 12 rows" in text
    assert result.null in text
    assert "array(" not in text
    assert all(len(line) < 200 for line in text.splitlines())
    assert 0.0 < result.pvalue <= 1.0
    assert len(result.null_distribution) == 99
    assert "neg_log_p=" in repr(result.members[0])


def test_the_result_unpacks_and_goes_into_json(rng):
    import json

    result = quick(*rng.normal(size=(2, 12, 2)), kernel="fused")
    statistic, pvalue = result
    assert (statistic, pvalue) == (result.statistic, result.pvalue)
    told = json.loads(json.dumps(result.to_dict()))
    assert told["pvalue"] == result.pvalue
    assert told["statistic_unit"] == "-log p"


def test_the_result_of_every_arrangement_says_so():
    assert "6 resamples (all of them)" in repr(quick([0.0, 1.0], [2.0, 3.0]))


def test_the_inputs_are_left_alone(rng):
    x, y = rng.normal(size=(2, 12, 2))
    before = x.copy(), y.copy()
    for options in ({}, {"kernel": "fused"}, {"paired": True}, {"null": "spectral"}):
        quick(x, y, **options)
    np.testing.assert_array_equal((x, y), before)


def test_the_default_test_needs_no_jax():
    code = (
        "import sys, numpy as np, kembed\n"
        "kembed.mmd_test(np.arange(20.0), np.arange(20.0) + 1.5, n_resamples=19, rng=0)\n"
        "print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_median_test_needs_no_jax():
    code = (
        "import sys, numpy as np, kembed\n"
        "x = np.random.default_rng(0).normal(size=(20, 2))\n"
        "kembed.mmd_test(x[:9], x[9:], kernel='median', rng=0)\n"
        "kembed.hsic_test(x[:, 0], x[:, 1], kernel='median', rng=0)\n"
        "print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# What a review found.


@pytest.mark.parametrize("kernel", ["fused", "median", Gaussian(1.0)])
@pytest.mark.parametrize("size", [1e100, 1e154, 1e200, 1e300])
def test_one_absurd_but_finite_value(kernel, size, rng):
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    x[3, 1] = size
    assert 0.0 < quick(x, y, kernel=kernel).pvalue <= 1.0


def test_many_categories_do_not_blind_a_learned_kernel(rng):
    """A mismatch costs what a typical difference does, however many discrete columns there are."""
    x = {f"c{k}": rng.choice(list("abc"), 60, p=[0.6, 0.3, 0.1]) for k in range(8)}
    y = {f"c{k}": rng.choice(list("abc"), 60, p=[0.2, 0.3, 0.5]) for k in range(8)}
    for word in ("bkl", "median", "fused"):
        assert quick(pd.DataFrame(x), pd.DataFrame(y), kernel=word).pvalue <= 0.02


@pytest.mark.parametrize("options", [{}, {"paired": True}, {"null": "wild"}, {"null": "gamma"}])
def test_no_bar_when_none_is_wanted(options, rng, capsys, monkeypatch):
    monkeypatch.setattr("kembed.core.progress.LONG", 10_000)
    for progress in (False, True):
        mmd_test(*rng.normal(size=(2, 60, 1)), kernel="median", progress=progress, rng=0, **options)
        assert ("kernel matrix" in capsys.readouterr().err) == progress


def test_a_tuple_of_kernels_is_a_list(rng):
    x, y = continuous(rng)
    same(quick(x, y, kernel=("median", Gaussian(1.0))), quick(x, y, kernel=["median", Gaussian(1.0)]))


def test_the_raw_median_rule_is_what_most_packages_compute(rng):
    """Columns of scale 1 and 100: "median" divides them by their spreads, "median-raw" does not."""
    x, y = (rng.normal(size=(30, 2)) * [1.0, 100.0] + [shift, 0.0] for shift in (0.0, 1.0))
    raw = quick(x, y, kernel="median-raw")
    by_hand = quick(x, y, kernel=Gaussian(median_lengthscale(np.concatenate([x, y]))))
    assert raw.kernel == by_hand.kernel
    assert raw.statistic == by_hand.statistic
    np.testing.assert_array_equal(raw.null_distribution, by_hand.null_distribution)
    divided = quick(x, y, kernel="median")
    assert divided.pvalue < 0.05 < raw.pvalue
    assert np.ndim(divided.kernel.lengthscale) == 1


@pytest.mark.parametrize("rows", [20, 2_400])
def test_a_pool_is_tested_as_its_samples_are(rows, rng):
    x, y = rng.normal(size=(2, rows, 2))
    tables, _ = read_tables({"x": x, "y": y}, nan_policy="raise", same_columns=True, paired=False, minimum=2)
    procedure = read_procedure("auto", "permutation", 99, None, 0)
    pooled = engine.pool_test(make_pool(tables, None, "none"), "fused", procedure, by_column=True)
    direct = quick(x, y, kernel="fused", by_column=True)
    same(pooled, direct)
    assert repr(pooled) == repr(direct)


def test_swaps_of_pairs_have_the_statistics_of_the_kernel_matrices(rng):
    """Every member of a fused test: the biased MMD² of a kernel matrix for the data's signs."""
    x = rng.normal(size=(30, 2))
    y = x + 0.5 * rng.normal(size=(30, 2))
    result = quick(x, y, kernel="fused", paired=True)
    tables, _ = read_tables({"x": x, "y": y}, nan_policy="raise", same_columns=True, paired=True, minimum=2)
    pool = make_pool(tables, None, "pairs")
    sample = Sample(pool.space, pool.names)
    chosen = engine.choose_ensemble("fused", sample, rng)
    known = dict(zip(map(repr, chosen.kernels), matrices(chosen.members, sample), strict=True))
    for member in result.members:
        expected = reference.paired_mmd2_loops(known[repr(member.kernel)], pool.signs, biased=True)
        assert member.statistic == pytest.approx(expected, abs=1e-9)


def test_flags_are_flags(rng):
    x, y = rng.normal(size=(2, 20))
    for name, value in (("paired", 1), ("by_column", "no")):
        with pytest.raises(TypeError, match=f"{name} must be True or False, but {value!r}"):
            mmd_test(x, y, **{name: value})


def test_findings_go_by_name_where_all_columns_are_text(rng):
    """Kernel objects of discrete columns name them by place, which is no finding."""
    x, y = ([[str(a), str(b)] for a, b in rng.integers(0, 3, (60, 2))] for _ in range(2))
    found = mmd_test(x, [[a, a] for a, _ in y], n_resamples=99, rng=0)
    assert found.findings
    assert all(isinstance(name, str) for finding in found.findings for name in finding.columns)

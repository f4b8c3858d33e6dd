"""hsic_test: what must not change the answer, the level, every null against loops, every refusal."""

from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.signal import lfilter
from tests import reference
from tests.testing.alike import FRAMES, all_have, gaussian, objects, same

from kembed import Gaussian, Matern32, hsic_test
from kembed.features.kernel import KernelMatrix
from kembed.permutation.series import crossed, principal_features, wild_columns


def quick(x, y, **options):
    return hsic_test(x, y, **{"kernel": "median", "n_resamples": 99, "rng": 0} | options)


def matrix_of(K):
    """A given matrix as the kernel of rows that are their numbers."""
    rows = np.arange(float(len(K)))[:, None]
    return KernelMatrix(lambda a, b: K[np.ix_(a[:, 0].astype(int), b[:, 0].astype(int))], rows, 0.0)


def refused(words, kind=ValueError, **options):
    """The call is refused, and the message has all the words."""
    x, y = options.pop("x", np.arange(9.0)), options.pop("y", np.arange(9.0) ** 2)
    with pytest.raises(kind) as caught:
        quick(x, y, **options)
    all_have(words, str(caught.value))


# Neither the order of rows nor that of sides changes anything.


def continuous(rng):
    x = rng.normal(size=(13, 2))
    return x, x[:, :1] ** 2 + rng.normal(size=(13, 1))


def as_wide(rng):
    x = rng.normal(size=(12, 2))
    return x, x**2 + rng.normal(size=(12, 2))


def tied(rng):
    return rng.integers(0, 3, (14, 1)).astype(float), rng.integers(0, 2, (14, 1)).astype(float)


def mixed(rng):
    words = np.array(["a", "b", "c"], dtype=object)
    left = np.column_stack([rng.integers(0, 3, 12).astype(object), words[rng.integers(0, 2, 12)]])
    return left, words[rng.integers(0, 3, (12, 1))]


def few(rng):
    return rng.normal(size=(5, 1)), rng.normal(size=(5, 1))


@pytest.mark.parametrize("make", [continuous, as_wide, tied, mixed, few])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "fused"},
        {"kernel": [Gaussian(0.5), "median"]},
        {"statistic": "biased"},
        {"null": "gamma"},
        {"null": "spectral"},
    ],
    ids=lambda options: str(options).split(" at 0x")[0],
)
def test_any_order_gives_the_same_answer(make, options, rng):
    x, y = make(rng)
    first = quick(x, y, **options)
    order = rng.permutation(len(x))
    same(quick(x[order], y[order], **options), first)
    same(quick(y, x, **options), first)
    same(quick(y[order], x[order], **options), first)


@pytest.mark.parametrize("statistic", ["unbiased", "features"])
def test_sides_take_their_kernels_with_them(statistic, rng):
    x, y = as_wide(rng)
    one, two = Gaussian(0.5), Matern32(2.0)
    first = quick(x, y, kernel=(one, two), statistic=statistic)
    swapped = quick(y, x, kernel=(two, one), statistic=statistic)
    same(swapped, first)
    assert first.kernel == (one, two)
    assert swapped.kernel == (two, one)
    several = quick(x, y, kernel=([one, two], gaussian))
    assert [member.kernel for member in several.members] == [(one, gaussian), (two, gaussian)]
    turned = quick(y, x, kernel=(gaussian, [one, two]))
    assert [member.kernel for member in turned.members] == [(gaussian, one), (gaussian, two)]
    for ours, theirs in zip(several.members, turned.members, strict=True):
        assert ours.statistic == pytest.approx(theirs.statistic, abs=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_sides_with_the_same_values_can_be_swapped_too(seed):
    """Ranks, for example: both sides hold 0, 1, ..., n - 1, in another order."""
    rng = np.random.default_rng(seed)
    x, y = rng.permutation(12), rng.permutation(12)
    same(quick(y, x), quick(x, y))


def test_the_same_seed_gives_the_same_answer(rng):
    x, y = continuous(rng)
    same(quick(x, y, rng=5), quick(x, y, rng=np.random.default_rng(5)))


# Each kernel sees one side, unordered.


@pytest.mark.parametrize("kernel", ["fused", "median"])
def test_any_pairing_of_the_rows_meets_the_same_kernels(kernel, rng):
    x, y = as_wide(rng)
    first = quick(x, y, kernel=kernel)
    for _ in range(2):
        other = quick(x, y[rng.permutation(12)], kernel=kernel)
        assert objects(other) == objects(first)
        assert len(other.members) == len(first.members)
        assert abs(other.statistic - first.statistic) > 1e-12


# The level.


def test_the_level_holds_where_rows_are_tied():
    """Rejections at 5% and 20% stay below what a binomial law passes once in 10⁴.

    The fused test has `benchmarks/level.py`, and every pairing of few tied rows in `test_nulls`.
    """
    rng = np.random.default_rng(21)
    pvalues = []
    for _ in range(200):
        x, y = rng.integers(0, 4, (12, 1)), rng.integers(0, 4, (12, 1))
        pvalues.append(quick(x, y, rng=rng).pvalue)
    for level in (0.05, 0.2):
        assert np.sum(np.array(pvalues) <= level + 1e-12) <= stats.binom.ppf(1 - 1e-4, 200, level)


def test_without_ties_the_level_is_met_exactly():
    """200 draws at 20%: neither above nor below what a binomial law passes once in 10⁴."""
    rng = np.random.default_rng(22)
    count = sum(
        quick(rng.normal(size=10), rng.normal(size=10), n_resamples=49, rng=rng).pvalue <= 0.2
        for _ in range(200)
    )
    assert stats.binom.ppf(1e-4, 200, 0.2) <= count <= stats.binom.ppf(1 - 1e-4, 200, 0.2)


def test_dependence_without_correlation_is_found(rng):
    angle = rng.uniform(0, 2 * np.pi, 100)
    for options in (each for each in OPTIONS if each != {"null": "wild"}):
        assert quick(np.cos(angle), np.sin(angle), **options).pvalue < 0.05


# Nulls against loops.


@pytest.mark.parametrize("biased", [True, False])
def test_random_pairings_are_among_all_of_them(biased, rng):
    x, y = rng.normal(size=5), rng.normal(size=5)
    K, L = (reference.gram(reference.gaussian(1.0), side, side) for side in (x, y))
    result = quick(x, y, kernel=Gaussian(1.0), statistic="biased" if biased else "unbiased", n_resamples=60)
    every = [reference.hsic_loops(K, L[np.ix_(p, p)], biased=biased) for p in permutations(range(5))]
    assert not result.enumerated
    assert len(result.null_distribution) == 60
    gaps = np.abs(result.null_distribution[:, None] - np.array(every)).min(axis=1)
    assert gaps.max() < 1e-13
    assert result.statistic == pytest.approx(every[0], abs=1e-13)
    assert result.pvalue == (1 + np.sum(result.null_distribution >= result.statistic - 1e-13)) / 61


def test_the_wild_bootstrap_against_a_loop(rng):
    x, y = rng.normal(size=(8, 1)), rng.normal(size=(8, 2))
    K = reference.gram(reference.gaussian(1.0), x, x)
    L = reference.gram(reference.gaussian(4.0 * np.eye(2)), y, y)
    kernel = (Gaussian(1.0), Gaussian(2.0))
    result = quick(x, y, kernel=kernel, null="wild", n_resamples=20, dependence_length=2.0)
    assert result.statistic == pytest.approx(reference.wild_hsic_loops(K, L, np.ones(8)), abs=1e-14)
    assert result.statistic == pytest.approx(reference.hsic_loops(K, L, biased=True), abs=1e-14)
    how = crossed(*(principal_features(matrix_of(side)) for side in (K, L)))
    (W,) = wild_columns([8], [how], 20, 2.0, np.random.default_rng(0), tails=False)
    expected = [reference.wild_hsic_loops(K, L, W[:, b]) for b in range(20)]
    np.testing.assert_allclose(result.null_distribution, expected, atol=1e-14)


def test_series_keep_their_level_where_permutations_do_not():
    """Two independent autoregressions: permutations reject far too often, the others do not."""
    rng = np.random.default_rng(23)
    rejected = {"permutation": 0, "wild": 0, "shift": 0}
    for _ in range(100):
        series = lfilter([1.0], [1.0, -0.9], rng.normal(size=(2, 150)))[:, 50:]
        for null in rejected:
            rejected[null] += quick(*series, null=null, rng=rng).pvalue <= 0.05
    for null in ("wild", "shift"):
        assert rejected[null] <= stats.binom.ppf(1 - 1e-4, 100, 0.07), null
    assert rejected["permutation"] > 40


@pytest.mark.parametrize("n", [6, 45])  # written out, and by transforms
@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
def test_shifts_against_a_loop(n, statistic, rng):
    """y moved by every number of steps, its end before its start."""
    x, y = rng.normal(size=(2, n))
    K, L = (reference.gram(reference.gaussian(1.0), side, side) for side in (x, y))
    result = quick(x, y, kernel=Gaussian(1.0), null="shift", statistic=statistic)
    if n == 6:
        each = reference.hsic_loops
        turned = [np.roll(np.arange(n), -k) for k in range(n)]
        every = [each(K, L[np.ix_(p, p)], biased=statistic == "biased") for p in turned]
    else:
        turned = (np.roll(y, -k) for k in range(n))
        how = {"kernel": Gaussian(1.0), "statistic": statistic, "n_resamples": 1}
        every = [quick(x, each, **how).statistic for each in turned]
    assert result.enumerated
    assert result.null == "shift"
    assert result.statistic == pytest.approx(every[0], abs=1e-13)
    np.testing.assert_allclose(result.null_distribution, np.sort(every), atol=1e-13)
    assert result.pvalue == pytest.approx(np.mean(np.array(every) >= every[0] - 1e-12))


@pytest.mark.parametrize("kernel", ["median", "fused", [Gaussian(0.5), Gaussian(2.0)]])
def test_shifts_are_a_group(kernel, rng):
    """Of a series that returns to its start every turn is the data once: p-values are 1/n, 2/n, ..., 1."""
    x, y = rng.normal(size=(2, 30))
    found = [quick(x, np.roll(y, k), kernel=kernel, null="shift").pvalue for k in range(30)]
    np.testing.assert_allclose(np.sort(found), np.arange(1, 31) / 30)
    swapped = quick(y, x, kernel=kernel, null="shift").pvalue  # x against y, or y against x
    assert swapped == pytest.approx(found[0])


def test_few_of_many_shifts(rng):
    x, y = rng.normal(size=(2, 60))
    result = quick(x, y, null="shift", n_resamples=19)
    assert not result.enumerated
    assert len(result.null_distribution) == 19
    whole = quick(x, y, null="shift").null_distribution
    assert np.abs(result.null_distribution[:, None] - whole).min(axis=1).max() < 1e-12
    late = quick(x[:-5], x[5:] + 0.5 * y[5:], null="shift", n_resamples=999)
    assert late.pvalue > 0.05  # what leads is found by moving it back, and not without
    assert quick(x[:-5], x[:-5] + 0.5 * y[5:], null="shift", n_resamples=999).pvalue == pytest.approx(1 / 55)


def test_features_come_near_the_exact_statistic(rng):
    x = rng.normal(size=20)
    y = x + 0.5 * rng.normal(size=20)
    for statistic in ("features", "unbiased"):
        result = quick(x, y, statistic=statistic)
        assert result.pvalue == 0.01
    exact = quick(x, y)
    assert quick(x, y, statistic="features").statistic == pytest.approx(exact.statistic, rel=0.25)


# Kernels.


def test_a_kernel_object_and_its_function_agree(rng):
    x, y = as_wide(rng)
    same(quick(x, y, kernel=Gaussian(1.0)), quick(x, y, kernel=gaussian))
    same(quick(x, y, kernel=(Gaussian(1.0), gaussian)), quick(x, y, kernel=gaussian))


def test_several_kernels_are_all_paired(rng):
    x, y = as_wide(rng)
    result = quick(x, y, kernel=["median", Gaussian(0.5)])
    assert len(result.members) == 4
    alone = quick(x, y, kernel=(Gaussian(0.5), "median"))
    assert result.members[2].statistic == pytest.approx(alone.statistic, abs=1e-13)


def test_kernels_that_are_refused():
    refused(["kernel", "'mediam'", "'median'"], kernel="mediam")
    refused(["kernel", "2.0", "Gaussian(2.0)"], TypeError, kernel=2.0)
    refused(["kernel", "2.0", "Gaussian(2.0)"], TypeError, kernel=("median", 2.0))
    refused(["kernel", "empty", "at least one"], kernel=[])
    refused(["kernel", "tuple of 3", "pair", "list"], kernel=("median", "median", "median"))
    refused(["kernel", "shape (9, 9)", "(9,)"], kernel=lambda a, b: np.ones(len(a)))
    refused(["kernel", "symmetric"], kernel=lambda a, b: a + 0.0 * b.T)
    refused(["kernel", "finite"], kernel=lambda a, b: np.full((len(a), len(b)), np.inf))
    refused(
        ["statistic='features'", "null='permutation'", "null='gamma'", "leave one"],
        statistic="features",
        null="gamma",
    )
    for null in ("gamma", "spectral", "wild"):
        for kernel in ("fused", ["median", Gaussian(1.0)], ("median", "fused")):
            refused([f"null={null!r}", "one kernel", "kernel='median'"], kernel=kernel, null=null)


def test_a_list_of_one_word_that_stands_for_several_is_refused_too():
    refused(["null='gamma'", "one kernel", "kernel='median'"], kernel=["fused"], null="gamma")


# Data frames, missing and degenerate values.


@pytest.mark.parametrize("kernel", ["median", "fused"])
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_give_what_arrays_give(frame, kernel, rng):
    number, word = rng.normal(size=14), rng.choice(["u", "v"], 14).tolist()
    y = rng.choice(["a", "b", "c"], 14).tolist()
    rows = [[float(a), b] for a, b in zip(number, word, strict=True)]
    framed = quick(frame({"number": number, "word": word}), frame({"colour": y}), kernel=kernel)
    same(framed, quick(rows, y, kernel=kernel))


def test_series_ints_and_bools(rng):
    x, y = rng.integers(0, 5, (2, 12))
    first = quick(x.astype(float), (y > 2).astype(float))
    same(quick(x, y > 2), first)
    same(quick(pd.Series(x), pl.Series(y > 2)), first)
    same(quick(x.tolist(), (y > 2)[:, None]), first)


def test_missing_values_under_each_policy(rng):
    x, y = continuous(rng)
    holes = x.copy()
    holes[3, 0] = np.nan
    refused(["x", "missing values in 1 of 13 rows", "row 3", "nan_policy='omit'"], x=holes, y=y)
    refused(["y", "missing values", "nan_policy='omit'"], x=y, y=holes)
    same(quick(holes, y, nan_policy="omit"), quick(np.delete(x, 3, axis=0), np.delete(y, 3, axis=0)))
    nothing = quick(holes, y, nan_policy="propagate")
    assert np.isnan(nothing.pvalue)
    assert np.isnan(nothing.statistic)
    assert "p = nan" in repr(nothing)
    assert np.isnan(quick(np.full(5, np.nan), np.full(5, np.nan), nan_policy="propagate").pvalue)
    refused(["nan_policy", "'omit'", "'drop'"], nan_policy="drop")
    for policy in ("raise", "omit", "propagate"):
        refused(["y", "infinite values", "drop"], y=np.r_[np.inf, np.zeros(8)], nan_policy=policy)


OPTIONS = [
    {},
    {"kernel": "fused"},
    {"statistic": "biased"},
    {"statistic": "features"},
    {"null": "gamma"},
    {"null": "spectral"},
    {"null": "wild"},
    {"null": "shift"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: str(options).split(" at 0x")[0])
@pytest.mark.parametrize("n", [4, 9, 20])
def test_rows_that_are_all_equal_say_nothing(n, options):
    for seed in range(5):
        both = quick(np.full((n, 2), 0.3), np.full(n, 1e12), rng=seed, **options)
        assert both.pvalue == 1.0
        assert both.statistic == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: str(options).split(" at 0x")[0])
@pytest.mark.parametrize("n", [4, 20])
def test_a_side_that_is_constant_is_independent_of_anything(n, options, rng):
    for seed in range(5):
        one = quick(np.full(n, 0.3), rng.normal(size=n), rng=seed, **options)
        assert one.pvalue == 1.0
        assert one.statistic == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e-12, 1e12])
@pytest.mark.parametrize("kernel", ["median", "fused"])
def test_huge_and_tiny_values(kernel, size, rng):
    x = rng.normal(size=25)
    result = quick(size * x, x**2 / size, kernel=kernel)
    assert result.pvalue == 0.01
    assert np.isfinite(result.statistic)


def test_four_rows_are_enough_and_three_are_not(rng):
    result = quick([0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 5.0, 6.0])
    assert result.enumerated
    assert len(result.null_distribution) == 24
    assert 24 * result.pvalue == pytest.approx(round(24 * result.pvalue), abs=1e-12)
    refused(["x", "3 rows", "4 are needed"], x=np.arange(3.0), y=np.arange(3.0))
    refused(["x", "9 rows", "y", "8 rows", "paired"], y=np.arange(8.0))
    refused(["x", "None"], TypeError, x=None)


def test_every_pairing_as_the_data_is_compared_with_the_same_numbers():
    """With all pairings at hand the null of a fused test must not depend on which of them came up."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    kernel = [Gaussian([0.3, 3.0]), Gaussian([3.0, 0.3])]
    found, pvalues = [], []
    for order in permutations(range(4)):
        result = quick(x, y[list(order)], kernel=kernel)
        assert result.enumerated
        found.append(np.sort(result.null_distribution))
        pvalues.append(result.pvalue)
    for p in pvalues:
        assert np.mean(np.array(pvalues) <= p + 1e-12) == pytest.approx(p, abs=1e-12)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], (24, 24)), atol=1e-9)


def test_bad_arguments():
    refused(["n_resamples", "at least 1", "0"], n_resamples=0)
    refused(["n_resamples", "whole number", "9.5"], TypeError, n_resamples=9.5)
    refused(["rng", "seed", "-1"], TypeError, rng=-1)
    refused(["dependence_length", "positive", "0"], null="wild", dependence_length=0.0)
    refused(["dependence_length", "null='wild'", "leave it out"], null="shift", dependence_length=3.0)
    refused(["unit=2", "null='permutation'"], null="shift", unit=2)
    refused(["statistic", "'unbiased'", "'linear'"], statistic="linear")
    refused(["null", "'permutation'", "'exact'"], null="exact")


# Work.


def test_many_rows_give_what_the_matrix_gives(rng):
    """A kernel object and the same kernel as a function agree, on the most rows that are re-paired singly."""
    x = rng.normal(size=(4_000, 1))
    y = np.sin(2.0 * x) + 9.0 * rng.normal(size=(4_000, 1))
    by_object = quick(x, y, kernel=Gaussian(1.0), n_resamples=19)
    by_function = quick(x, y, kernel=gaussian, n_resamples=19)
    one_of_each = quick(x, y, kernel=(gaussian, Gaussian(1.0)), n_resamples=19)
    for result in (by_function, one_of_each):
        assert result.pvalue == by_object.pvalue
        np.testing.assert_allclose(result.null_distribution, by_object.null_distribution, atol=1e-11)


def test_distance_covariance_is_hsic_with_distances(rng):
    """4 HSIC with k = (|a| + |b| - |a - b|)/2 is the squared distance covariance (Sejdinovic et al. 2013)."""
    x, y = rng.normal(size=9), rng.normal(size=9)

    def induced(a, b):
        return 0.5 * (np.abs(a) + np.abs(b).T - np.abs(a - b.T))

    A, B = (np.abs(side[:, None] - side) for side in (x, y))
    H = np.eye(9) - 1 / 9
    dcov2 = ((H @ A @ H) * (H @ B @ H)).sum() / 81
    value = quick(x, y, kernel=induced, statistic="biased").statistic
    assert 4.0 * value == pytest.approx(dcov2, abs=1e-13)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: str(options).split(" at 0x")[0])
def test_the_result_reads_well(options, rng):
    x, y = as_wide(rng)
    result = quick(x, y, **options)
    text = repr(result)
    assert f"p = {result.pvalue:.4g}" in text
    assert "HSIC" in text
    assert "12 rows" in text
    assert result.null in text
    assert " x " in text
    assert "array(" not in text
    assert 0.0 < result.pvalue <= 1.0
    assert len(result.null_distribution) == (
        12 if options == {"null": "shift"} else 99
    )  # turns of twelve rows


def test_the_inputs_are_left_alone(rng):
    x, y = as_wide(rng)
    before = x.copy(), y.copy()
    for options in OPTIONS:
        quick(x, y, **options)
    np.testing.assert_array_equal((x, y), before)


def test_units_that_are_ragged(rng):
    x, y = rng.normal(size=(2, 30))
    with pytest.raises(ValueError, match="unit is not a rectangular table"):
        hsic_test(x, y, unit=(np.zeros((30, 2)), np.zeros(30)))
    with pytest.raises(TypeError, match=r"unit must be a whole number, but 2\.5 was given"):
        hsic_test(x, y, unit=2.5)


def test_few_clusters_of_as_many_rows_are_noted(rng):
    table = pl.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60), "who": np.repeat(range(3), 20)})
    found = hsic_test("x", "y", data=table, unit="who", rng=0)
    assert len(found.null_distribution) == 6
    assert "clusters can be re-paired in 6 ways only, since only those of as many rows change places" in str(
        found.notes
    )

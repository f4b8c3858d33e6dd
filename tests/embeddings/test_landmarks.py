"""Landmarks: a function of the unordered sample, of the size asked for, that moves with the data."""

import math

import numpy as np
import pytest

from kembed import Landmarks, choose_landmarks
from kembed.embeddings.landmarks import DEFAULT_COUNT, MAX_ROWS, PER_COLUMN, support_points

# (rule, columns): quantiles are for one column, where support points are quantiles too.
RULES = [("subset", 1), ("subset", 3), ("support", 1), ("support", 3)]
ALL = [*RULES, ("quantiles", 1)]
SEEDED = [("subset", 1), ("subset", 3), ("support", 3)]


def sample(n, D, seed=0):
    """Skewed, so that no symmetry hides a mistake."""
    return np.exp(0.5 * np.random.default_rng(seed).normal(size=(n, D)))


def energy_distance(z, x):
    """2 E|z - x| - E|z - z'| - E|x - x'|, pair by pair."""
    between = sum(math.dist(a, b) for a in z for b in x) / (len(z) * len(x))
    within_z = sum(math.dist(a, b) for a in z for b in z) / len(z) ** 2
    within_x = sum(math.dist(a, b) for a in x for b in x) / len(x) ** 2
    return 2.0 * between - within_z - within_x


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize(("rule", "D"), ALL)
def test_the_order_of_rows_does_not_matter(rule, D, duplicates, rng):
    x = sample(150, D)
    if duplicates:
        x = np.round(x, 1)
    chosen = choose_landmarks(x, Landmarks(rule, 12))
    assert 1 < len(chosen) <= 12
    for order in [np.arange(150)[::-1], *(rng.permutation(150) for _ in range(3))]:
        np.testing.assert_array_equal(choose_landmarks(x[order], Landmarks(rule, 12)), chosen)


@pytest.mark.parametrize("rule", ["subset", "support"])
def test_the_order_of_rows_does_not_matter_where_rows_are_thinned(rule, rng):
    x = sample(MAX_ROWS + 300, 2)
    chosen = choose_landmarks(x, Landmarks(rule, 7))
    shuffled = choose_landmarks(x[rng.permutation(len(x))], Landmarks(rule, 7))
    np.testing.assert_array_equal(shuffled, chosen)


@pytest.mark.parametrize(("rule", "D"), SEEDED)
def test_seeds_matter_and_are_kept(rule, D):
    x = sample(150, D)
    first, again, other = (choose_landmarks(x, Landmarks(rule, 12), rng=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    from_generator = choose_landmarks(x, Landmarks(rule, 12), rng=np.random.default_rng(5))
    np.testing.assert_array_equal(from_generator, first)
    np.testing.assert_array_equal(
        choose_landmarks(x, Landmarks(rule, 12)), choose_landmarks(x, Landmarks(rule, 12), rng=0)
    )


@pytest.mark.parametrize("rule", ["quantiles", "support"])
def test_quantiles_need_no_seed(rule):
    x = sample(150, 1)
    first, other = (choose_landmarks(x, Landmarks(rule, 12), rng=seed) for seed in (5, 6))
    np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("size", [1, 2, 17, 149])
@pytest.mark.parametrize(("rule", "D"), ALL)
def test_as_many_as_asked_sorted_and_distinct(rule, D, size):
    x = sample(150, D)
    chosen = choose_landmarks(x, Landmarks(rule, size))
    assert chosen.shape == (size, D)
    assert np.isfinite(chosen).all()
    np.testing.assert_array_equal(np.unique(chosen, axis=0), chosen)
    # Support points are not held to the sample's box, only drawn to it: they overstep by 2e-7 here.
    assert (chosen >= x.min(axis=0) - 1e-5).all()
    assert (chosen <= x.max(axis=0) + 1e-5).all()


def test_a_subset_is_of_rows_and_a_number_means_subset():
    x = sample(150, 2)
    chosen = choose_landmarks(x, 30)
    rows = {tuple(row) for row in x}
    assert all(tuple(z) in rows for z in chosen)
    for same in (Landmarks("subset", 30), np.int64(30), Landmarks(size=30)):
        np.testing.assert_array_equal(choose_landmarks(x, same), chosen)


@pytest.mark.parametrize(
    ("rule", "D", "expected"),
    [(None, 2, 100), ("subset", 1, 100), ("subset", 23, 115), ("support", 20, 100)],
)
def test_default_size_is_a_hundred_or_five_a_column(rule, D, expected):
    assert expected == max(DEFAULT_COUNT, PER_COLUMN * D)
    assert choose_landmarks(sample(160, D), rule).shape == (expected, D)


@pytest.mark.parametrize("rule", ["quantiles", "support"])
def test_default_size_in_one_column(rule):
    assert choose_landmarks(sample(160, 1), rule).shape == (100, 1)


@pytest.mark.parametrize("size", [None, 9, 4])
@pytest.mark.parametrize(("rule", "D"), ALL)
def test_fewer_distinct_rows_than_asked(rule, D, size):
    few = sample(4, D)
    x = np.repeat(few, 50, axis=0)
    np.testing.assert_array_equal(choose_landmarks(x, Landmarks(rule, size)), np.unique(few, axis=0))


@pytest.mark.parametrize(("rule", "D"), ALL)
def test_one_row_and_a_constant_column(rule, D):
    np.testing.assert_array_equal(choose_landmarks(np.full((30, D), 2.5), rule), np.full((1, D), 2.5))
    if D > 1:
        x = sample(150, D)
        x[:, 1] = 7.0
        chosen = choose_landmarks(x, Landmarks(rule, 10))
        assert len(chosen) == 10
        np.testing.assert_allclose(chosen[:, 1], 7.0, rtol=1e-12)


@pytest.mark.parametrize("rule", ["subset", "support"])
def test_one_row_many_times_over(rule):
    """Nine rows in ten are the same: nothing divides by zero."""
    x = np.concatenate([np.zeros((270, 2)), sample(30, 2)])
    chosen = choose_landmarks(x, Landmarks(rule, 20))
    assert np.isfinite(chosen).all()
    assert 10 <= len(chosen) <= 20


@pytest.mark.parametrize("rule", ["subset", "support"])
def test_one_row_so_often_that_thinning_leaves_fewer_distinct_rows_than_asked(rule):
    x = np.concatenate([np.zeros((20 * MAX_ROWS, 2)), sample(150, 2)])
    chosen = choose_landmarks(x, Landmarks(rule, 100))
    assert np.isfinite(chosen).all()
    assert 1 <= len(chosen) <= 100


def test_points_pass_through():
    x, z = sample(50, 2), sample(7, 2, seed=1)[::-1]
    np.testing.assert_array_equal(choose_landmarks(x, z), z)
    np.testing.assert_array_equal(choose_landmarks(x, z.tolist()), z)
    twice = np.concatenate([z, z])  # what the user gives is not thinned
    np.testing.assert_array_equal(choose_landmarks(x, twice), twice)
    np.testing.assert_array_equal(choose_landmarks(x[:, 0], [3.0, 1.0]), [[3.0], [1.0]])


def test_points_are_a_copy():
    x, z = sample(50, 2), sample(7, 2, seed=1)
    chosen = choose_landmarks(x, z)
    z[0] = 99.0
    assert chosen.max() < 99.0


def test_one_column_support_points_are_quantiles():
    x = sample(150, 1)
    expected = np.quantile(x[:, 0], (np.arange(11) + 0.5) / 11)
    for rule in ("quantiles", "support"):
        np.testing.assert_array_equal(choose_landmarks(x, Landmarks(rule, 11))[:, 0], expected)


def test_one_column_support_points_are_where_the_iteration_goes():
    """The shortcut of one column and the general iteration agree, up to how long the iteration runs."""
    x = np.sort(sample(400, 1), axis=0)
    shortcut = choose_landmarks(x, Landmarks("support", 8))
    start = x[np.linspace(5, 394, 8).astype(int)]
    iterated = support_points(x, start, steps=2_000)
    assert energy_distance(shortcut, x) < energy_distance(start, x)
    np.testing.assert_allclose(iterated, shortcut, atol=0.03)


@pytest.mark.parametrize("D", [1, 2, 5])
def test_support_points_are_nearer_than_a_random_subset(D):
    x = sample(120, D)
    support = energy_distance(choose_landmarks(x, Landmarks("support", 15)), x)
    subsets = [energy_distance(choose_landmarks(x, 15, rng=seed), x) for seed in range(8)]
    assert 0.0 < support < 0.4 * np.mean(subsets)  # 0.07, 0.19 and 0.32 were measured
    assert support < 0.7 * min(subsets)  # 0.28, 0.43 and 0.59


def test_support_points_do_not_run_after_outliers():
    x = np.concatenate([sample(200, 2), [[1e6, 0.0], [0.0, -1e6]]])
    assert np.abs(choose_landmarks(x, Landmarks("support", 20))).max() < 10.0


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 7.0, 1e6])
@pytest.mark.parametrize(("rule", "D"), ALL)
def test_landmarks_move_with_the_unit(rule, D, scale):
    # Support points start on rows, where rounding is strongest: 4e-8 was measured.
    x, tolerance = sample(150, D), 1e-6 if (rule, D) == ("support", 3) else 1e-12
    plain = choose_landmarks(x, Landmarks(rule, 12))
    np.testing.assert_allclose(
        choose_landmarks(scale * x, Landmarks(rule, 12)) / scale, plain, rtol=0.0, atol=tolerance
    )


@pytest.mark.parametrize("shift", [-1.0, 1e3, 1e6])
@pytest.mark.parametrize(("rule", "D"), ALL)
def test_landmarks_move_with_a_shift(rule, D, shift):
    x = sample(150, D)
    tolerance = 1e-6 if (rule, D) == ("support", 3) else 1e-12 * max(1.0, abs(shift))
    plain = choose_landmarks(x, Landmarks(rule, 12))
    np.testing.assert_allclose(
        choose_landmarks(x + shift, Landmarks(rule, 12)) - shift, plain, rtol=0.0, atol=tolerance
    )


@pytest.mark.parametrize(
    ("landmarks", "error", "message"),
    [
        ("nope", ValueError, r"landmarks must be one of 'subset', .* but 'nope' was given"),
        (0, ValueError, "landmarks must be at least 1, but 0 was given"),
        (-3, ValueError, "landmarks must be at least 1, but -3 was given"),
        (2.5, TypeError, r"whole number, a rule or points, but 2\.5 was given"),
        (True, TypeError, "whole number, a rule or points, but True was given"),
        ([[1.0, 2.0, 3.0]], ValueError, "landmarks has 3 columns where 2 were expected"),
        ([[np.nan, 1.0]], ValueError, r"landmarks has missing values \(NaN\) in 1 of 1 rows"),
        ([[np.inf, 1.0]], ValueError, "landmarks has infinite values"),
        ([], ValueError, "landmarks has 0 rows"),
        ([["a", "b"]], TypeError, "landmarks must hold numbers, but it holds text"),
        ("quantiles", ValueError, "'quantiles' is for one column, but x has 2; use 'support'"),
        (Landmarks("quantiles", 500), ValueError, "'quantiles' is for one column, but x has 2"),
    ],
)
def test_bad_landmarks(landmarks, error, message):
    with pytest.raises(error, match=message):
        choose_landmarks(sample(20, 2), landmarks)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("nope",), ValueError, "rule must be one of 'subset', 'support', 'quantiles'"),
        ((3,), ValueError, "rule must be one of .* but 3 was given"),
        (("subset", 0), ValueError, "size must be at least 1, but 0 was given"),
        (("subset", 1.5), TypeError, r"size must be a whole number, but 1\.5 was given"),
        (("subset", True), TypeError, "size must be a whole number, but True was given"),
    ],
)
def test_bad_rules(arguments, error, message):
    with pytest.raises(error, match=message):
        Landmarks(*arguments)


@pytest.mark.parametrize("rng", [-1, "a", 1.5, True])
def test_bad_seeds(rng):
    with pytest.raises(TypeError, match="rng must be None, a non-negative integer seed or a"):
        choose_landmarks(sample(20, 2), 3, rng=rng)


@pytest.mark.parametrize("landmarks", [Landmarks, object(), {"size": 3}])
def test_what_is_no_landmarks_at_all_is_named(landmarks):
    with pytest.raises(TypeError, match="landmarks must"):
        choose_landmarks(sample(20, 2), landmarks)

"""Order statistics without sorting, the median over pairs without all pairs, the order of rows."""

import numpy as np
import pytest

from kembed.core.linalg import (
    log_sum_exp,
    median_of_pairs,
    pivoted_cholesky,
)
from kembed.core.ordering import row_order
from kembed.kernels.space import MEDIAN_ROWS, make_space

CASES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few values": lambda rng, n: rng.integers(0, 5, n) * 1.0,
    "constant": lambda _, n: np.full(n, 3.0),
    "mostly one value": lambda rng, n: np.where(np.arange(n) < 0.8 * n, 0.0, rng.normal(size=n)),
    "heavy tails, large": lambda rng, n: 1e10 * rng.standard_cauchy(n),
    "rounded": lambda rng, n: rng.exponential(size=n).round(1),
    "two far lumps": lambda rng, n: np.where(np.arange(n) % 2, 1e6, 0.0) + rng.normal(size=n),
}


def test_pivoted_cholesky_keeps_the_rows_that_say_something_new():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(6, 3))
    A = np.vstack([F, F])  # twelve rows of rank three
    kept, lower = pivoted_cholesky(A @ A.T, 1e-10)
    assert len(kept) == 3
    np.testing.assert_allclose(lower @ lower.T, (A @ A.T)[np.ix_(kept, kept)], rtol=1e-12)
    across = A @ A.T[:, kept]
    np.testing.assert_allclose(across @ np.linalg.solve(lower @ lower.T, across.T), A @ A.T, atol=1e-9)


def test_pivoted_cholesky_by_hand():
    # 4 comes first, then 2 - 2²/4 = 1; what is left, .01, is below 1% of 4.
    kept, lower = pivoted_cholesky(np.array([[4.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.01]]), 0.01)
    assert kept.tolist() == [0, 1]
    np.testing.assert_allclose(lower, [[2.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 2, 3, 700, 701])
def test_the_median_of_pairs_is_numpys(name, n):
    values = CASES[name](np.random.default_rng(n), n)
    squared = np.square(np.subtract.outer(values, values))
    pairs = squared[np.triu_indices(n, 1)]
    if n > 1 and np.median(pairs) > 0.0:
        assert median_of_pairs(squared) == np.median(pairs)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [5, 200, MEDIAN_ROWS])
@pytest.mark.parametrize("kinds", [(False, False), (False, True), (True, True), (False,) * 12])
def test_the_median_distance_by_products_is_that_of_differences(name, n, kinds):
    rng = np.random.default_rng(n)
    columns = [rng.integers(0, 4, n) * 1.0 if kind else CASES[name](rng, n) for kind in kinds]
    space = make_space(np.column_stack([rng.permutation(column) for column in columns]), np.array(kinds))
    rows = space.rows[row_order(space.rows)]
    expected = float(np.sqrt(median_of_pairs(space.distances(rows, rows)))) or 1.0
    assert space.median() == expected


@pytest.mark.parametrize("name", CASES)
def test_rows_are_in_lexicographic_order(name):
    rng = np.random.default_rng(0)
    x = np.column_stack([CASES[name](rng, 60), rng.integers(0, 3, 60), np.arange(60) % 7])[::-1]
    for table in (x, x[:1], x[:0], np.where(rng.random(x.shape) < 0.1, np.nan, x), -0.0 * x):
        np.testing.assert_array_equal(row_order(table), np.lexsort(table.T[::-1]))


def test_log_sum_exp_of_what_is_next_to_nothing():
    """Terms below the least number add nothing, and nothing at all is -∞."""
    values = np.array([[0.0, -745.0, -1e60], [-800.0, -801.0, -1600.0], [-np.inf, 5.0, -np.inf]])
    expected = [0.0, -800.0 + np.log1p(np.exp(-1.0)), 5.0]
    np.testing.assert_allclose(log_sum_exp(values, axis=1), expected, rtol=1e-15)
    assert log_sum_exp(values[2:, :1]) == -np.inf
    np.testing.assert_array_equal(
        log_sum_exp(np.array([[-np.inf, -np.inf], [1.0, -np.inf]]), 1), [-np.inf, 1.0]
    )

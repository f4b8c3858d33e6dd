"""The median over pairs on a line, without all pairs."""

import numpy as np
import pytest

from kembed.core.linalg import PART, median_of_line, median_of_pairs, pivoted_cholesky

CASES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few values": lambda rng, n: rng.integers(0, 5, n) * 1.0,
    "constant": lambda _, n: np.full(n, 3.0),
    "mostly one value": lambda rng, n: np.where(np.arange(n) < 0.8 * n, 0.0, rng.normal(size=n)),
    "heavy tails, large": lambda rng, n: 1e10 * rng.standard_cauchy(n),
    "rounded": lambda rng, n: rng.exponential(size=n).round(1),
    "two far lumps": lambda rng, n: np.where(np.arange(n) % 2, 1e6, 0.0) + rng.normal(size=n),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [2, 3, 50, PART + 1, 401, 700])
def test_median_of_a_line_is_that_of_all_pairs(name, n):
    x = np.sort(CASES[name](np.random.default_rng(n), n))
    assert median_of_line(x) == median_of_pairs(np.square(np.subtract.outer(x, x)))


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

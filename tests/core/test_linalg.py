"""The median over pairs on a line, without all pairs."""

import numpy as np
import pytest

from kembed.core.linalg import PART, median_of_line, median_of_pairs

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

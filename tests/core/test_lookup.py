"""Lookups under a grid: NumPy's answers, whatever the numbers are."""

import numpy as np
import pytest

from kembed.core.lookup import FEW, make_lookup

CASES = {
    "normal": lambda rng: rng.normal(size=2_000),
    "heavy tails": lambda rng: rng.standard_cauchy(2_000),
    "skewed": lambda rng: np.exp(4.0 * rng.normal(size=2_000)),
    "steps": lambda rng: rng.integers(0, 300, 2_000).astype(float),
    "huge": lambda rng: 1e300 * rng.normal(size=500),
    "too far apart": lambda rng: 1.5e308 * np.linspace(-1, 1, 500),
    "tiny": lambda rng: 1e-310 * rng.normal(size=500),
    "next to each other": lambda rng: 1e9 + 1e-7 * np.arange(500),
    "mostly equal": lambda rng: np.r_[np.zeros(900), rng.normal(size=100)],
    "few": lambda rng: rng.normal(size=FEW - 1),
    "one": lambda rng: np.ones(1),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_a_binary_search(case, rng):
    values = np.sort(CASES[case](rng))
    find = make_lookup(values)
    between = 0.5 * values[:-1] + 0.5 * values[1:]
    ends = [-np.inf, -1.7e308, -1.0, 0.0, 1.0, 1.7e308, np.inf]
    numbers = rng.permutation(np.concatenate([values, between, np.nextafter(values, np.inf), ends]))
    np.testing.assert_array_equal(find(numbers), np.searchsorted(values, numbers, side="right"))
    np.testing.assert_array_equal(find(numbers[:3]), np.searchsorted(values, numbers[:3], side="right"))


def test_numbers_are_left_as_they_are(rng):
    numbers = rng.normal(size=200)
    kept = numbers.copy()
    make_lookup(np.sort(rng.normal(size=200)))(numbers)
    np.testing.assert_array_equal(numbers, kept)

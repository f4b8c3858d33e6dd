"""Exactness of every test whose resamples can be enumerated: p-values of all arrangements are ranks."""

from itertools import combinations, product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.properties import numbers

from kembed import mmd_test

# Every arrangement is a test of its own.
some = settings(max_examples=settings().max_examples // 2)
HOW = {"rng": 0, "n_resamples": 99}


def assert_valid(found):
    """Of all arrangements at most the share p has p-values up to p."""
    found = np.array(found)
    for level in np.unique(found):
        assert (found <= level).mean() <= level + 1e-12


def assert_ranks(found):
    """And one of them is the least surprising."""
    assert_valid(found)
    assert max(found) == 1.0


def table(rows, words):
    return {"a": rows[:, 0], "b": rows[:, 1], "c": np.array(words)}


def part(columns, chosen):
    return {name: values[chosen] for name, values in columns.items()}


@some
@given(
    arrays.arrays(float, (7, 2), elements=numbers),
    st.lists(st.sampled_from("uvw"), min_size=7, max_size=7),
    st.sampled_from(["fused", "bkl", "median", "ard"]),
    st.booleans(),
)
def test_tables_of_numbers_and_words(rows, words, kernel, by_column):
    """All 35 ways to take three of seven rows: fused, learned kernels, and single columns."""
    assume((np.ptp(rows, axis=0) > 0).all() and len(set(words)) > 1)
    columns = table(rows, words)
    found = []
    for chosen in combinations(range(7), 3):
        first = np.isin(np.arange(7), chosen)
        found.append(
            mmd_test(part(columns, first), part(columns, ~first), kernel=kernel, by_column=by_column, **HOW)
        )
    assert_ranks([one.pvalue for one in found])
    if by_column:
        for name in range(3):
            assert_valid([one.columns[name].pvalue for one in found])
        assert_valid([min(column.adjusted_pvalue for column in one.columns) for one in found])  # any of them


@some
@given(arrays.arrays(float, (5, 2, 2), elements=numbers), st.sampled_from(["fused", "median"]))
def test_pairs_turned_round(pairs, kernel):
    """All 32 ways to swap the partners of five pairs."""
    assume((pairs[:, 0] != pairs[:, 1]).any() and (np.ptp(pairs, axis=(0, 1)) > 0).all())
    found = []
    for turned in product((0, 1), repeat=5):
        x, y = pairs[np.arange(5), turned], pairs[np.arange(5), 1 - np.array(turned)]
        found.append(mmd_test(x, y, kernel=kernel, paired=True, **HOW).pvalue)
    assert_ranks(found)


@some
@given(arrays.arrays(float, (7, 3, 1), elements=numbers), st.sampled_from(["fused", "median"]))
def test_units_that_move_together(units, kernel):
    """All 35 ways to take three of seven customers with three rows each."""
    assume(np.ptp(units) > 0)
    found = []
    for chosen in combinations(range(7), 3):
        first = np.isin(np.arange(7), chosen)
        names = [np.repeat(np.flatnonzero(which), 3) for which in (first, ~first)]
        x, y = (units[which].reshape(-1, 1) for which in (first, ~first))
        found.append(mmd_test(x, y, kernel=kernel, unit=tuple(names), **HOW).pvalue)
    assert_ranks(found)


@some
@given(
    arrays.arrays(float, (7, 1), elements=numbers),
    arrays.arrays(float, 7, elements=st.integers(1, 8).map(float)),
)
def test_weights_go_with_their_rows(rows, weights):
    assume(np.ptp(rows) > 0)
    found = []
    for chosen in combinations(range(7), 3):
        first = np.isin(np.arange(7), chosen)
        found.append(
            mmd_test(
                rows[first], rows[~first], kernel="median", weights=(weights[first], weights[~first]), **HOW
            ).pvalue
        )
    assert_ranks(found)

"""Exactness of every test whose resamples can be enumerated: p-values of all arrangements are ranks."""

from itertools import combinations, product

import numpy as np
import pytest
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


def arranged(total, first, classes):
    """All ways to choose `first` of each class."""
    groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    ways = product(*(combinations(group.tolist(), k) for group, k in zip(groups, first, strict=True)))
    return [np.isin(np.arange(total), sum(way, ())) for way in ways]


DESIGNS = {
    "clusters": ([3] * 6, [0] * 6, [2]),
    "unequal clusters": ([1, 4, 2, 3, 1, 2], [0] * 6, [3]),
    "strata": ([1] * 8, [0] * 4 + [1] * 4, [2, 1]),
    "clusters within strata": ([2, 1, 3, 2, 1, 2, 4], [0] * 4 + [1] * 3, [2, 1]),
    "weights": ([1] * 7, [0] * 7, [3]),
}


@settings(max_examples=3)
@given(
    arrays.arrays(float, (21, 2), elements=numbers),
    arrays.arrays(float, 7, elements=st.integers(1, 8).map(float)),
)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    "how",
    [{"kernel": "fused"}, {"kernel": "median"}, {"kernel": "median", "statistic": "features"}],
    ids=lambda how: ", ".join(how.values()),
)
def test_what_is_exchanged_together_or_within(design, how, rows, weights):
    """All arrangements of clusters, within strata, of weighted rows: each as the data, p-values are ranks."""
    sizes, strata, first = DESIGNS[design]
    unit = np.repeat(np.arange(len(sizes)), sizes)
    rows, strata = rows[: len(unit)], np.array(strata)
    assume((np.ptp(rows, axis=0) > 0).all())
    found = []
    for chosen in arranged(len(sizes), first, strata):
        sides = chosen[unit], ~chosen[unit]
        options = {}
        if "clusters" in design:
            options["unit"] = tuple(unit[side] for side in sides)
        if "strata" in design:
            options["strata"] = tuple(strata[unit][side] for side in sides)
        if design == "weights":
            options["weights"] = tuple(weights[side] for side in sides)
        result = mmd_test(*(rows[side] for side in sides), **options, **how, **HOW)
        assert result.enumerated
        found.append(result.pvalue)
    assert len(found) <= 100
    assert_ranks(found)

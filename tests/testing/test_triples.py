"""Triples of columns: three-way interactions that no column and no pair shows."""

from itertools import product

import numpy as np
import polars as pl
import pytest

from kembed import mmd_test
from kembed.kernels.space import make_space
from kembed.testing.members import triples
from kembed.testing.members.rows import read_scales


def flags(rng, n, parity):
    found = rng.integers(2, size=(n, 4)).astype(float)
    if parity:
        kept = rng.random(n) < 0.6
        found[kept, 2] = (found[kept, 0] + found[kept, 1]) % 2
    return found


def reversed_slope(rng, n, reverse):
    segment, x = rng.integers(2, size=n), rng.normal(size=n)
    y = 0.8 * x * np.where((segment == 1) != reverse, 1.0, -1.0) + rng.normal(size=n)
    return pl.DataFrame({"x": x, "y": y, "segment": np.array(["u", "v"])[segment], "z": rng.normal(size=n)})


@pytest.mark.parametrize("make", [flags, reversed_slope])
@pytest.mark.parametrize("statistic", ["auto", "features"])
def test_three_way_interactions_are_found(make, statistic):
    rng = np.random.default_rng(0)
    result = mmd_test(make(rng, 300, False), make(rng, 300, True), statistic=statistic, rng=0)
    assert result.pvalue <= 0.01
    assert "three-way dependence" in repr(result.kernel)


def test_products_against_a_loop():
    rng = np.random.default_rng(1)
    values = np.column_stack([rng.normal(size=(40, 2)), rng.integers(3, size=40), rng.integers(2, size=40)])
    rows = read_scales(make_space(values, np.array([False, False, True, True])), names=tuple("abcd"))
    group = triples.fit(rows)
    (member,) = group.members
    found = member.of(rows)
    counts, scores = (1, 1, 2, 1), rows.polynomials  # of three levels two indicators are free, of two one
    expected, names = [], []
    for columns in ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)):
        for degrees in product(*(range(counts[c]) for c in columns)):
            expected.append(np.prod([scores[c][:, k] for c, k in zip(columns, degrees, strict=True)], axis=0))
            names.append(tuple("abcd"[c] for c in columns))
    np.testing.assert_allclose(found, np.array(expected).T)
    assert [kernel.parts for kernel in group.kernels] == names


def test_few_and_very_many_columns_have_none():
    rng = np.random.default_rng(2)
    for D, there in ((2, False), (3, True), (15, True), (16, False)):  # 455 and 560 products
        rows = read_scales(make_space(rng.normal(size=(60, D)), np.zeros(D, dtype=bool)))
        assert (triples.fit(rows) is not None) == there

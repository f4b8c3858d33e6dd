"""Sums over bins: rows in memory and rows in passes, against loops and against w'Kw of every kernel."""

import numpy as np
import pytest
from tests.testing.alike import matrices

from kembed import Delta, Gaussian
from kembed.features import fused_ensemble
from kembed.features.members import add_blocks, dense, entries
from kembed.features.rows import Rows, Sample
from kembed.features.segments import make_segments
from kembed.kernels.space import make_space
from kembed.permutation.bins import make_bins
from kembed.permutation.designs import Given, SeveralSamples
from kembed.permutation.sums import Layout, member_statistics, pooled, stored, sum_features, take_sample
from kembed.tables.schema import Schema
from kembed.tables.source import Block, Memory
from kembed.testing.engine import choose_columns, choose_ensemble

KINDS = np.array([False, False, True])
NAMES = ("a", "b", "c")


def mixed(rng, n):
    return np.column_stack([rng.normal(size=n), rng.integers(0, 5, n) / 2.0, rng.integers(0, 4, n)])


def chosen(kernel, sample, rng):
    """The members of all columns together and of single ones."""
    parts = [choose_ensemble(kernel, sample, rng), *choose_columns(kernel, sample, rng)]
    return tuple(member for part in parts for member in part.members)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("kernel", ["fused", "median", ["fused", Gaussian(0.5)]], ids=str)
@pytest.mark.parametrize("bins", [60, 11])
def test_statistics_are_those_of_the_kernel_matrices(kernel, bins, complete, rng):
    """w'Kw for any contrast of single rows, of bins and of weighted rows, for every member of every test."""
    sample = Sample(make_space(mixed(rng, 60), KINDS), NAMES, complete=complete)
    members = chosen(kernel, sample, rng)
    own = np.arange(60) if bins == 60 else rng.integers(0, bins, 60)
    for v in (np.ones(60), rng.uniform(0.5, 2.0, 60)):
        W = rng.normal(size=(bins, 3))
        W -= (np.bincount(own, v, bins) @ W) / v.sum()  # contrasts: constants cancel
        sums = pooled(sample, own, bins, v)
        np.testing.assert_allclose(sums.weight, np.bincount(own, v, bins))
        found = member_statistics(members, sums, Given(W).draw(sums.weight, 0, rng))
        rows = v[:, None] * W[own]
        expected = [np.einsum("ic,ij,jc->c", rows, K, rows) for K in matrices(members, sample)]
        scale = entries(members, sample) * np.square(np.abs(rows).sum(axis=0)).max()
        assert (np.abs(found - np.array(expected).T) <= 1e-9 * scale + 1e-12).all()


def test_several_terms_add_up(rng):
    sample = Sample(make_space(mixed(rng, 40), KINDS), NAMES)
    members = fused_ensemble(sample).members
    sums = pooled(sample, np.arange(40), 40)
    draws = SeveralSamples(rng.integers(0, 3, 40), *np.zeros((2, 40), dtype=int)).draw(sums.weight, 5, rng)
    found = member_statistics(members, sums, draws)
    each = [
        factor * member_statistics(members, sums, Given(W).draw(sums.weight, 0, rng))
        for factor, W in draws.terms
    ]
    np.testing.assert_allclose(found, sum(each), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", ["fused", "median"])
@pytest.mark.parametrize("rows", [1_400, 37])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_passes_have_the_sums_of_rows_in_memory(kernel, rows, weighted, rng):
    """Block by block, of any size, and bin by bin: what a loop over the rows of a bin adds up."""
    sample = Sample(make_space(mixed(rng, 300), KINDS), NAMES, points=32, complete=False)
    members = chosen(kernel, sample, rng)
    maps, basis = tuple(dict.fromkeys(member.map for member in members)), sample.fitted()
    values, v = mixed(rng, 1_400), rng.uniform(0.5, 2.0, 1_400) if weighted else np.ones(1_400)
    bins = make_bins((1_400, 900), 5, bins=40)[0]
    own, _ = bins.of(0, 1_400)
    schema = Schema((*NAMES, "v"), (False, False, True, False), (None,) * 4)
    source = Memory("x", schema, np.column_stack([values, v]), rows)
    part = source.fold(sum_features, Layout((0, 1, 2), 3 if weighted else None), bins, basis, maps)
    sums = stored([part], maps)
    assert part.rows == 1_400
    np.testing.assert_allclose(sums.weight, np.bincount(own, v, bins.count))
    every = Rows(basis, values)
    for each in maps:
        table = dense(each(every))
        expected = np.zeros((bins.count, table.shape[1]))
        np.add.at(expected, own, v[:, None] * table)
        np.testing.assert_allclose(sums.table(each), expected, atol=1e-8 * np.abs(table).max())


@pytest.mark.parametrize("columns", [3, 70])  # beyond 64 columns only some pairs are looked at
def test_sums_over_bins_are_those_of_the_features(columns, rng):
    """Maps that add up without writing features out, for bins of many and of few rows, and no row at all."""
    sample = Sample(
        make_space(np.sort(rng.normal(size=(300, columns)), axis=0), np.zeros(columns, bool)), complete=False
    )
    rows = Rows(sample.fitted(), rng.normal(size=(200, columns)))
    for sizes in ((90, 10, 100), (1,) * 200):
        segments = make_segments(np.repeat(np.arange(len(sizes)), sizes), rng.random(200))
        for each in fused_ensemble(sample).maps:
            expected = segments.sums(each(rows))
            found = each.sums(rows, segments) if hasattr(each, "sums") else expected
            np.testing.assert_allclose(found, expected, atol=1e-9)
    bins = make_bins((5, 5), 0)[0]
    none = Block(np.zeros((0, columns)), 0)
    part = sum_features(
        none, Layout(tuple(range(columns))), bins, sample.fitted(), fused_ensemble(sample).maps
    )
    assert part.rows == 0
    assert not any(table.any() for table in part.features)


def test_the_sample_has_as_many_rows_of_every_bin(rng):
    values = rng.normal(size=(1_000, 2))
    bins = make_bins((1_000, 1_000), 5, bins=20)[0]
    source = Memory("x", Schema(("a", "b"), (False, False), (None, None)), values, 77)
    found = source.fold(take_sample, Layout((1,)), bins, 3).table
    own, place = bins.of(0, 1_000)
    np.testing.assert_array_equal(found, values[(own < bins.movable) & (place < 3)][:, [1]])
    assert len(found) == 3 * bins.movable


@pytest.mark.parametrize("kernel", ["fused", "median", Delta(), "a flag"], ids=str)
def test_the_size_of_an_entry_is_that_of_all_rows(kernel, rng):
    values = mixed(rng, 3_000)
    if kernel == "a flag":  # which an even choice of rows misses
        values, kernel = np.eye(3_000)[:, [7]], Delta()
    space = make_space(values, np.zeros(values.shape[1], dtype=bool))
    sample = Sample(space, complete=False)
    members, rows = choose_ensemble(kernel, sample, rng).members, Rows(sample.fitted(), values)
    squares = [
        add_blocks(np.square(member.of(rows)).mean(axis=0)[:, None], member.width, member.cuts)
        for member in members
    ]
    found, expected = entries(members, sample), np.concatenate(squares)[:, 0]
    assert ((found > 0.0) == (expected > 0.0)).all()
    np.testing.assert_allclose(np.log10(found), np.log10(expected), atol=1.0)

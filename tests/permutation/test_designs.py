"""Designs: all arrangements where they are few, the data first, contrasts as differences of means."""

from itertools import combinations, product

import numpy as np
import pytest

from kembed.permutation.designs import (
    Given,
    SeveralSamples,
    SignedPairs,
    TwoSamples,
    arrangements,
    contrasts,
    draw_signs,
    exchange_labels,
)

LABELS = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])  # 3 of 7: 35 arrangements
ALONE = np.zeros(7, dtype=int)


def test_all_arrangements_where_they_are_few(rng):
    every, enumerated = exchange_labels(LABELS, ALONE, 34, rng)
    assert enumerated
    np.testing.assert_array_equal(every[:, 0], LABELS)
    assert every.shape == (7, 35)
    assert {tuple(np.flatnonzero(column)) for column in every.T} == set(combinations(range(7), 3))
    some, enumerated = exchange_labels(LABELS, ALONE, 33, rng)
    assert not enumerated
    assert some.shape == (7, 34)
    np.testing.assert_array_equal(some[:, 0], LABELS)
    assert (some.sum(axis=0) == 3.0).all()
    one = np.eye(40)[0]  # as many arrangements as rows
    assert exchange_labels(one, np.zeros(40, dtype=int), 999, rng)[1]
    two = np.eye(40)[0] + np.eye(40)[1]
    assert not exchange_labels(two, np.zeros(40, dtype=int), 999, rng)[1]


def test_every_arrangement_is_as_likely(rng):
    """3,400 draws of 35 arrangements: χ² with 34 degrees of freedom is below 73 but once in 10,000."""
    columns, _ = exchange_labels(np.append(LABELS, 1.0), np.append(ALONE, -1), 30, rng)
    assert (columns[7] == 1.0).all()
    drawn, _ = exchange_labels(np.tile(LABELS, 10), np.repeat(np.arange(10), 7), 340, rng)
    parts = drawn[:, 1:].reshape(10, 7, 340).transpose(1, 0, 2).reshape(7, 3_400)
    _, counts = np.unique(parts, axis=1, return_counts=True)
    assert len(counts) == 35
    assert (np.square(counts - 3_400 / 35) / (3_400 / 35)).sum() < 73


def test_labels_move_within_classes_alone(rng):
    labels, classes = np.array([1, 0, 1, 0, 0, 1, 1, 1.0]), np.array([2, 2, 0, 0, 0, -1, -1, 1])
    assert arrangements(labels, classes) == 2 * 3
    for count, wanted in ((4, False), (5, True)):
        columns, enumerated = exchange_labels(labels, classes, count, rng)
        assert (columns.shape[1], enumerated) == (count + 1, wanted)
        np.testing.assert_array_equal(columns[:, 0], labels)
        np.testing.assert_array_equal(columns[5:], np.tile(labels[5:, None], count + 1))
        for number in (0, 2):
            assert (columns[classes == number].sum(axis=0) == 1.0).all()
    assert len(np.unique(columns, axis=1).T) == 6


def test_nothing_that_moves_is_one_arrangement(rng):
    columns, enumerated = exchange_labels(LABELS, ALONE - 1, 9, rng)
    assert enumerated
    np.testing.assert_array_equal(columns, LABELS[:, None])


def test_all_signs_where_they_are_few(rng):
    signs = np.array([1.0, -1.0, -1.0])
    every, enumerated = draw_signs(signs, 7, rng)
    assert enumerated
    np.testing.assert_array_equal(every[:, 0], signs)
    assert sorted(map(tuple, every.T)) == sorted(product((-1.0, 1.0), repeat=3))
    some, enumerated = draw_signs(signs, 6, rng)
    assert not enumerated
    np.testing.assert_array_equal(some[:, 0], signs)
    assert some.shape == (3, 7)
    many, enumerated = draw_signs(np.ones(30), 500, rng)
    assert not enumerated
    assert set(many.ravel()) == {-1.0, 1.0}
    assert abs(many[:, 1:].mean()) < 0.05  # of 15,000 signs: six standard errors


# Contrasts, against differences of means.


def test_contrasts_are_mean_differences_within_strata(rng):
    """Weighted by the precision of each; a stratum of one sample counts for nothing."""
    labels, strata, v = (
        rng.integers(2, size=(30, 4)).astype(float),
        rng.permutation(np.repeat([4, 0, 2], 10)),
        rng.uniform(1, 2, 30),
    )
    labels[strata == 2] = 1.0
    phi = rng.normal(size=30)
    found = (contrasts(labels, v, strata) * v[:, None]).T @ phi
    for column, value in zip(labels.T, found, strict=True):
        total, precision = 0.0, 0.0
        for s in (4, 0):
            first, second = ((strata == s) & (column == side) for side in (1, 0))
            p = v[first].sum() * v[second].sum() / v[strata == s].sum()
            total += p * (
                np.average(phi[first], weights=v[first]) - np.average(phi[second], weights=v[second])
            )
            precision += p
        assert value == pytest.approx(total / precision)


def bins(rng, sizes):
    """Rows in bins of these sizes: sums of a feature, numbers of rows, and the bin of every row."""
    own = np.repeat(np.arange(len(sizes)), sizes)
    phi = rng.normal(size=len(own))
    return np.bincount(own, phi), np.bincount(own).astype(float), own, phi


def test_two_samples_of_bins_of_unequal_size(rng):
    sums, weight, own, phi = bins(rng, [3, 1, 4, 2, 5])
    labels = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    design = TwoSamples(labels, np.array([0, 0, 0, 0, -1]), np.zeros(5, dtype=int))
    draws = design.draw(weight, 99, rng)
    ((factor, W),) = draws.terms
    assert (factor, draws.enumerated, W.shape[1]) == (1.0, True, 6)
    for found, first in zip(
        W.T @ sums, [(0, 2), *(c for c in combinations(range(4), 2) if c != (0, 2))], strict=True
    ):
        here = np.isin(own, first)
        assert found == pytest.approx(phi[here].mean() - phi[~here].mean())


def test_several_samples_are_each_against_the_others(rng):
    """Σ over samples of n (N - n) / N² times a squared difference of means."""
    sums, weight, own, phi = bins(rng, [2, 1, 4, 2, 1, 3, 2, 2, 5, 3])
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 1])
    one = np.zeros(10, dtype=int)
    draws = SeveralSamples(labels, np.append(one[:9], -1), one).draw(weight, 50, rng)
    assert not draws.enumerated
    found = sum(factor * np.square(W.T @ sums) for factor, W in draws.terms)
    expected = 0.0
    for sample in range(3):
        here = labels[own] == sample
        share = here.mean()
        expected += share * (1.0 - share) * (phi[here].mean() - phi[~here].mean()) ** 2
    assert found[0] == pytest.approx(expected)
    assert found.shape == (51,)
    codes = sum(sample * (W > 0.0) for sample, (_, W) in enumerate(draws.terms))  # as many bins of each
    for column, value in zip(codes.T[:9], found[:9], strict=True):  # the same were it the data
        alone = SeveralSamples(column, one, one).draw(weight, 0, rng)
        assert sum(np.square(W.T @ sums) for _, W in alone.terms) == pytest.approx(value)
    assert (codes[9] == 1).all()
    assert {tuple(np.bincount(column)) for column in codes.T} == {(3, 3, 4)}
    assert len(np.unique(codes, axis=1).T) > 45


def test_pairs_whose_sides_are_swapped(rng):
    """Bins of pairs: the sums of one side, then those of the other."""
    x, y = rng.normal(size=(2, 4, 3))  # four bins of three pairs
    draws = SignedPairs(4, 12).draw(np.ones(8), 99, rng)
    ((factor, W),) = draws.terms
    assert (factor, draws.enumerated, W.shape[1]) == (1.0, True, 16)
    found = W.T @ np.concatenate([x.sum(axis=1), y.sum(axis=1)])
    assert found[0] == pytest.approx((x - y).mean())
    signs = np.array(list(product((1.0, -1.0), repeat=4)))
    np.testing.assert_allclose(np.sort(found), np.sort((signs[:, :, None] * (x - y)).mean(axis=(1, 2))))


def test_contrasts_that_were_drawn_elsewhere(rng):
    columns = rng.normal(size=(5, 3))
    draws = Given(columns).draw(np.ones(5), 99, rng)
    assert draws.terms[0][1] is columns

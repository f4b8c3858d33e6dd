"""Labelings: all of them where they are few, the data's own first; the same sums however they are held."""

from itertools import combinations, product

import numpy as np
import pytest
from tests import reference
from tests.testing.alike import matrices

from kembed.core.progress import showing_progress
from kembed.kernels.space import make_space
from kembed.permutation import labelings as module
from kembed.permutation import statistics
from kembed.permutation.counts import packed
from kembed.permutation.gram import matrix_pairs, space_pairs
from kembed.permutation.labelings import (
    Labelings,
    arrangements,
    column_sums,
    draw_labelings,
    draw_swaps,
    draw_within,
    label_forms,
)
from kembed.permutation.low_rank import LowRank
from kembed.permutation.rings import Star, draw_star

LABELS = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])  # 3 of 7: 35 arrangements


def test_all_arrangements_where_they_are_few(rng):
    found, enumerated = draw_labelings(LABELS, 34, rng)
    assert enumerated
    np.testing.assert_array_equal(found.written_out[:, 0], LABELS)
    every = {tuple(np.flatnonzero(column)) for column in found.written_out.T}
    assert found.count == 35
    assert every == set(combinations(range(7), 3))
    some, enumerated = draw_labelings(LABELS, 33, rng)
    assert not enumerated
    assert some.count == 34
    np.testing.assert_array_equal(some.written_out[:, 0], LABELS)
    assert (some.written_out.sum(axis=0) == 3.0).all()
    assert not draw_labelings(np.repeat([1.0, 0.0], [1, 24]), 999, rng)[1]  # 25 arrangements of 25 rows
    assert draw_labelings(np.repeat([1.0, 0.0], [1, 23]), 999, rng)[1]


def test_all_swaps_where_they_are_few(rng):
    signs = np.array([1.0, -1.0, -1.0])
    every, enumerated = draw_swaps(signs, 7, rng)
    assert enumerated
    np.testing.assert_array_equal(every[:, 0], signs)
    assert sorted(map(tuple, every.T)) == sorted(product((-1.0, 1.0), repeat=3))
    some, enumerated = draw_swaps(signs, 6, rng)
    assert not enumerated
    np.testing.assert_array_equal(some[:, 0], signs)
    assert some.shape == (3, 7)
    many, enumerated = draw_swaps(np.ones(30), 500, rng)
    assert not enumerated
    assert set(many.ravel()) == {-1.0, 1.0}
    assert abs(many[:, 1:].mean()) < 0.05  # of 15,000 signs: six standard errors


def test_one_stratum_is_no_stratum(rng):
    found, enumerated = draw_within(LABELS, np.full(7, 4), 34, rng)
    assert enumerated
    np.testing.assert_array_equal(found.written_out[:, 0], LABELS)
    assert len(np.unique(found.written_out, axis=1).T) == 35


def test_labels_below_stratum_0_stay(rng):
    strata = np.array([-1, -1, 0, 0, 0, 1, 1])
    for count in (5, 500):
        columns = draw_within(LABELS, strata, count, rng)[0].written_out
        assert (columns[:2] == LABELS[:2, None]).all()
    assert len(np.unique(columns, axis=1).T) == columns.shape[1] == arrangements(LABELS, strata)


def test_labels_move_within_each_of_three_classes(rng):
    labels, classes = np.array([1, 0, 1, 0, 0, 1, 1, 1.0]), np.array([2, 2, 0, 0, 0, 1, 1, 1])
    columns = draw_within(labels, classes, 400, rng)[0].written_out
    np.testing.assert_array_equal(columns[:, 0], labels)
    for number, first in enumerate((1, 3, 1)):
        assert (columns[classes == number].sum(axis=0) == first).all()
    assert len(np.unique(columns, axis=1).T) == 2 * 3


@pytest.mark.parametrize("weighted", [False, True])
def test_a_factor_under_more_labelings_than_can_be_written_out(weighted, rng, monkeypatch):
    N, v = 12, rng.uniform(0.5, 2.0, 12) if weighted else None
    factor = LowRank(rng.normal(size=(N, 3)))
    labels = rng.permutation(np.repeat([1.0, 0.0], [5, 7]))
    star = draw_star(N, 30, rng)
    columns = Labelings(labels, star).written_out
    monkeypatch.setattr(module, "WRITTEN_OUT", 8 * N * 3)
    many = Labelings(labels, star)
    assert not many.few
    (forms,) = label_forms(factor, many, v, None)
    K = factor.columns @ factor.columns.T
    expected = [reference.mmd2_loops(K, a > 0.5, v, biased=False) for a in columns.T]
    np.testing.assert_allclose(statistics.mmd2(forms, biased=False), expected, atol=1e-11)
    assert not many.by_products(1)
    np.testing.assert_allclose(many.sums(K[:2]), K[:2] @ columns, atol=1e-12)
    pieces = list(many.pieces())
    assert [part.shape[1] for part in pieces] == [3] * 10 + [1]
    np.testing.assert_array_equal(np.hstack(pieces), columns)
    for part in (N, 2 * N, 8 * N):  # one, two, eight columns at a time
        monkeypatch.setattr(module, "PART", part)
        np.testing.assert_array_equal(many.some(4, 9), columns[:, 4:9])
        np.testing.assert_array_equal(Labelings(labels, star).words, packed(columns))


@pytest.mark.parametrize("weighted", [False, True])
def test_kernels_under_more_labelings_than_can_be_written_out(weighted, rng, monkeypatch):
    """By Fourier transforms, kernel by kernel."""
    N, v = 9, rng.uniform(0.5, 2.0, 9) if weighted else None
    x, labels, star = rng.normal(size=(N, 1)), np.repeat([1.0, 0.0], [4, 5]), draw_star(N, 20, rng)
    columns = Labelings(labels, star).written_out
    monkeypatch.setattr(module, "WRITTEN_OUT", 0)
    pairs = space_pairs(make_space(x, np.array([False])), np.array([0.5, 2.0]))
    every = list(label_forms(pairs, Labelings(labels, star), v, None))
    kernels = matrices([pairs])
    assert len(every) == len(kernels) == 2
    for forms, K in zip(every, kernels, strict=True):
        expected = [reference.mmd2_loops(K, a > 0.5, v, biased=False) for a in columns.T]
        np.testing.assert_allclose(statistics.mmd2(forms, biased=False), expected, atol=1e-12)


# Memory: how much is held at a time.


def test_labelings_are_written_out_up_to_half_a_gigabyte(rng):
    labels = np.arange(2**13) % 2.0
    assert Labelings(labels, draw_star(2**13, 2**13 - 1, rng)).few  # 8 bytes · 2¹³ · 2¹³
    assert not Labelings(labels, draw_star(2**13, 2**13, rng)).few


class Watched(Star):
    """A star that notes how many labelings are asked for at a time."""

    def turned(self, values, which):
        found = super().turned(values, which)
        asked.append(len(found))
        return found


asked: list[int] = []


@pytest.mark.parametrize(("part", "words"), [(1, [8, 8, 8, 7]), (20, [16, 15])])
def test_so_many_labelings_at_a_time(part, words, rng, monkeypatch):
    N, drawn = 11, draw_star(11, 30, rng)
    labels = np.repeat([1.0, 0.0], [5, 6])
    star = Watched(drawn.rings, drawn.chosen)
    for name, value in (("WRITTEN_OUT", 0), ("PART", part * N)):
        monkeypatch.setattr(module, name, value)
    asked.clear()
    turned = Labelings(labels, star).some(2, 9)
    assert asked == [7]
    assert turned.T.tolist() == labels[drawn.pairings(slice(2, 9))].tolist()
    asked.clear()
    assert Labelings(labels, star).words.shape == (N, 4)  # 31 in words of eight
    assert asked == words


@pytest.mark.parametrize(
    ("N", "strip", "heights"), [(150, 100, [100, 50]), (60, 3, [16, 16, 16, 12]), (300, 10**6, [256, 44])]
)
def test_the_matrix_in_strips(N, strip, heights, rng, monkeypatch):
    """A row of a strip takes 3 N + C numbers; no less than 16 rows, no more than 256."""
    seen = []

    def entries(rows, columns):
        seen.append(len(rows))
        return np.ones((len(rows), len(columns)))

    monkeypatch.setattr(module, "BUDGET", 8 * (3 * N + 4) * strip)
    ((quadratic, _),) = column_sums(matrix_pairs(entries, np.ones(N)), np.ones((N, 4)), None)
    assert seen == heights
    np.testing.assert_array_equal(quadratic, np.full(4, N * (N - 1.0)))


@pytest.mark.parametrize(("long", "shown"), [(121, True), (122, False)])
def test_a_pass_over_half_the_matrix_is_shown(long, shown, rng, monkeypatch, capsys):
    """Of 11 rows 60.5 entries, for each of two kernels."""
    monkeypatch.setattr("kembed.core.progress.LONG", long)
    space = make_space(rng.normal(size=(11, 1)), np.array([False]))
    with showing_progress(True):
        column_sums(space_pairs(space, np.array([1.0, 2.0])), rng.normal(size=(11, 2)), 4)
    assert ("/11 " in capsys.readouterr().err) == shown

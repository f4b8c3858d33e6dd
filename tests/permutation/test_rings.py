"""Rings of permutations: every turn against a loop, and the exactness of the star by brute force."""

from itertools import combinations, permutations

import numpy as np
import pytest
from tests import reference

from kembed import mmd_test
from kembed.permutation.rings import Ring, Star, diagonals, draw_shifts, draw_star


def symmetric(N, rng):
    K = rng.normal(size=(N, N))
    return K + K.T


def free_star(N, rings, rng):
    """Rings whose two orders have nothing to do with each other."""
    return Star(
        tuple(Ring(rng.permutation(N), rng.permutation(N)) for _ in range(rings)), np.arange(rings * N - 1)
    )


@pytest.mark.parametrize("N", range(2, 26))
def test_all_turns_of_all_rings_against_loops(N):
    rng = np.random.default_rng(N)
    K, L = symmetric(N, rng), symmetric(N, rng)
    for rings in (1, 3):
        star = free_star(N, rings, rng)
        expected = [reference.turned_sums(K, L, ring.left, ring.right, diagonal=True) for ring in star.rings]
        np.testing.assert_allclose(star.forms(K, L), np.concatenate(expected), rtol=0, atol=1e-11 * N**2)


def test_diagonals_of_more_rows_than_are_gathered_together(rng):
    K, order = symmetric(150, rng), rng.permutation(150)
    found = diagonals(K, order)
    expected = [[K[order[i], order[(i + d) % 150]] for i in range(150)] for d in range(76)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("N", range(2, 26))
def test_products_of_features_against_loops(N):
    rng = np.random.default_rng(100 + N)
    star = free_star(N, 2, rng)
    for widths in ((1, 1), (3, 2), (2, 4)):
        F, G = (rng.normal(size=(N, width)) for width in widths)
        found = np.concatenate([sums for _, sums in star.products(F, G)])
        assert [part for part, _ in star.products(F, G)] == [slice(p, p + 1) for p in range(widths[0])]
        expected = np.stack([F.T @ G[order] for order in points(star)], axis=-1)
        np.testing.assert_allclose(found, expected, atol=1e-12 * N)


def test_orders_are_the_points(rng):
    star = draw_star(7, 10, rng)
    every = points(star)
    expected = [every[0], *(every[1:][k] for k in star.chosen)]
    np.testing.assert_array_equal(star.orders, expected)


def test_shifts_are_the_turns_of_time(rng):
    star = draw_shifts(5, 99, rng)
    assert star.enumerated
    np.testing.assert_array_equal(star.orders, [np.roll(np.arange(5), -k) for k in range(5)])
    few = draw_shifts(50, 7, rng)
    assert not few.enumerated
    assert few.count == 8


# The star.


def points(star):
    """Every point of a star as a permutation: row r goes with row p[r]. The data come first."""
    found = []
    for ring in star.rings:
        for k in range(len(ring.left)):
            p = np.empty(len(ring.left), dtype=int)
            p[ring.left] = np.roll(ring.right, -k)
            found.append(p)
    return found


@pytest.mark.parametrize("N", [2, 3, 5, 8])
@pytest.mark.parametrize("B", [1, 2, 3, 4, 7, 8, 15, 16, 99])
def test_the_data_are_first_and_there_are_exactly_b_resamples(N, B):
    for seed in range(5):
        star = draw_star(N, B, np.random.default_rng(seed))
        assert len(star.rings) == -(-B // (N - 1))
        every = points(star)
        np.testing.assert_array_equal(every[0], np.arange(N))
        for p in every:
            assert sorted(p) == list(range(N))
        assert len(star.chosen) == B
        assert len(set(star.chosen.tolist())) == B
        assert set(star.chosen.tolist()) <= set(range(len(every) - 1))
        values = star.values([np.arange(N)[:, None] + N * r for r in range(len(star.rings))])
        assert values.shape == (B + 1, 1)
        assert values[0, 0] == 0.0  # the data, and never again
        assert (values[1:] > 0.0).all()
        assert (values[1:] % N > 0).all()  # the hub of a further ring is on the first ring already


def test_turns_of_a_ring_are_closed_under_turning(rng):
    labels = np.array([1, 0, 0, 1, 1, 0, 0])
    star = draw_star(7, 20, rng)
    for r, ring in enumerate(star.rings):
        every = points(star)[7 * r : 7 * (r + 1)]
        seen = {tuple(labels[p]) for p in every}
        step = np.empty(7, dtype=int)
        step[ring.left] = np.roll(ring.left, -1)  # one place on along the ring
        assert {tuple(np.asarray(a)[step]) for a in seen} == seen
        assert {tuple(p[step]) for p in every} == {tuple(p) for p in every}


def test_every_ring_passes_through_one_hub(rng):
    star = draw_star(6, 29, rng)
    every = points(star)
    hub = tuple(every[6])  # turn 0 of the second ring
    assert all(tuple(every[6 * r]) == hub for r in range(1, len(star.rings)))
    assert hub in {tuple(p) for p in every[:6]}


def test_the_way_from_the_data_to_the_hub_is_uniform():
    """The data are each of the star's 9 points alike: the hub (turn 0) 1 time in 9, any other turn 2 in 9.

    4 degrees of freedom, beyond 23.5 with probability 1e-4.
    """
    counts = np.zeros(5)
    for seed in range(2_000):
        star = draw_star(5, 7, np.random.default_rng(seed))
        every = points(star)
        hub = tuple(every[5])
        counts[[tuple(p) for p in every[:5]].index(hub)] += 1
    expected = 2_000 * np.array([1, 2, 2, 2, 2]) / 9
    assert ((counts - expected) ** 2 / expected).sum() < 23.5


def test_what_is_certain_is_certain_on_every_seed():
    """Samples far apart: no labeling but the data's and its mirror comes near, so p is at its least, always.

    Of the 924 labelings of 12 rows two are as extreme, and every resample is one of them with chance 2/924.
    """
    x = np.arange(6.0)
    for seed in range(60):
        p = mmd_test(x, x + 100.0, kernel="median", n_resamples=199, rng=seed).pvalue
        assert p <= 6 / 200


def test_an_arc_of_one_ring_has_the_data_anywhere():
    """N = 9, B = 4: the data's place in the arc is uniform; 4 degrees of freedom, 1e-4 beyond 23.5."""
    counts = np.zeros(5)
    for seed in range(2_000):
        turns = (draw_star(9, 4, np.random.default_rng(seed)).chosen + 1) % 9
        before = int((turns > 4).sum())
        assert sorted(turns) == sorted((np.delete(np.arange(5), before) - before) % 9)
        counts[before] += 1
    assert ((counts - 400.0) ** 2 / 400.0).sum() < 23.5


def uniform_rank(score, draw, B, seeds):
    """Chi-square of the rank of the data among itself and B resamples, ties in random order."""
    counts = np.zeros(B + 1)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        data = draw(rng)
        star = draw_star(len(data), B, rng)
        every = np.array([score[tuple(data[p])] for p in points(star)])
        own, *others = star.values([every[:, None]])[:, 0]
        others = np.array(others)
        counts[(others > own).sum() + rng.integers((others == own).sum() + 1)] += 1
    expected = seeds / (B + 1)
    return ((counts - expected) ** 2 / expected).sum()


def test_the_rank_of_the_data_is_uniform_among_pairings():
    """N = 5, B = 7 (two rings): 7 degrees of freedom, beyond 29.9 with probability 1e-4."""
    scores = np.random.default_rng(1).normal(size=120)
    score = dict(zip(permutations(range(5)), scores, strict=True))
    assert uniform_rank(score, lambda rng: rng.permutation(5), 7, 4_000) < 29.9
    # One ring and an arc of it, B = 3: 3 degrees of freedom, 1e-4 beyond 21.1.
    assert uniform_rank(score, lambda rng: rng.permutation(5), 3, 4_000) < 21.1


def test_the_rank_of_the_data_is_uniform_among_labelings():
    scores = np.random.default_rng(2).normal(size=10)
    score = {}
    for rows, value in zip(combinations(range(5), 2), scores, strict=True):
        score[tuple(int(i in rows) for i in range(5))] = value
    labels = np.array([1, 1, 0, 0, 0])
    assert uniform_rank(score, lambda rng: rng.permutation(labels), 7, 4_000) < 29.9

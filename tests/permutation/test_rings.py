"""Rings of permutations: every turn against a loop, and the exactness of the star by brute force."""

from itertools import combinations, permutations

import numpy as np
import pytest
from tests import reference

from kembed import mmd_test
from kembed.permutation.gram import Pairs
from kembed.permutation.low_rank import LowRank
from kembed.permutation.rings import (
    Ring,
    Star,
    correlate,
    draw_star,
    factor_turns,
    label_pairs,
    ring_sums,
)


def symmetric(N, rng):
    K = rng.normal(size=(N, N))
    return K + K.T


def as_pairs(*matrices):
    """Kernels that are multiples of one matrix where there are several, so that they share a base."""
    K, *others = matrices
    N = len(K)
    maps = [lambda base, out: base, *(_scaled(float(other[0, 0] / K[0, 0])) for other in others)]
    diagonals = np.stack([each.diagonal() for each in matrices])
    offsets = (0.0,) * len(maps)
    return Pairs(N, lambda rows, columns: K[np.ix_(rows, columns)], tuple(maps), diagonals, offsets=offsets)


def _scaled(factor):
    return lambda base, out: np.multiply(base, factor, out=out)


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
        expected = [reference.turned_sums(K, L, ring.left, ring.right) for ring in star.rings]
        for batch in [None, *range(1, N // 2 + 2)]:
            turns, *sums = ring_sums(as_pairs(K), as_pairs(L), star, batch)
            np.testing.assert_allclose(turns[:, 0, 0], np.concatenate(expected), rtol=0, atol=1e-11 * N**2)
            bare = K - np.diag(K.diagonal()), L - np.diag(L.diagonal())
            for (side,), M, whole in zip(sums, bare, (K, L), strict=True):
                np.testing.assert_allclose(side.rows, M.sum(axis=1), atol=1e-12 * N)
                np.testing.assert_allclose(side.squares, (M**2).sum(), rtol=1e-12)
                np.testing.assert_array_equal(side.diagonal, whole.diagonal())


@pytest.mark.parametrize("N", [6, 9])
def test_several_kernels_on_one_base(N, rng):
    K, L = symmetric(N, rng), symmetric(N, rng)
    star = free_star(N, 2, rng)
    every, left, right = ring_sums(as_pairs(K, 2.5 * K, -K), as_pairs(L, 3.0 * L), star, 2)
    for turns, ring in zip(np.split(every, 2), star.rings, strict=True):
        assert turns.shape == (N, 3, 2)
        truth = reference.turned_sums(K, L, ring.left, ring.right)
        expected = np.multiply.outer(truth, np.multiply.outer([1.0, 2.5, -1.0], [1.0, 3.0]))
        np.testing.assert_allclose(turns, expected, atol=1e-10)
    np.testing.assert_allclose(left[1].rows, 2.5 * left[0].rows, atol=1e-12)
    np.testing.assert_allclose(right[1].squares, 9.0 * right[0].squares)


@pytest.mark.parametrize("batch", [8, None])
def test_memory_does_not_change_what_is_summed(batch, rng):
    N = 70  # more rows than a block of diagonals is high
    K, L, star = symmetric(N, rng), symmetric(N, rng), free_star(N, 1, rng)
    ring = star.rings[0]
    turned = [L[np.ix_(np.roll(ring.right, -k), np.roll(ring.right, -k))] for k in range(N)]
    own = K[np.ix_(ring.left, ring.left)] * (1 - np.eye(N))
    expected = [(own * each).sum() for each in turned]
    np.testing.assert_allclose(
        ring_sums(as_pairs(K), as_pairs(L), star, batch)[0][:, 0, 0], expected, atol=1e-9
    )


@pytest.mark.parametrize("N", range(2, 26))
def test_factors_and_vectors_against_loops(N):
    rng = np.random.default_rng(100 + N)
    for widths in ((1, 1), (3, 2), (2, 4)):
        F, G = (rng.normal(size=(N, width)) for width in widths)
        star = free_star(N, 2, rng)
        truth = [
            reference.turned_sums(F @ F.T, G @ G.T, ring.left, ring.right, diagonal=True)
            for ring in star.rings
        ]
        np.testing.assert_allclose(factor_turns(F, G, star), np.concatenate(truth), atol=1e-11 * N**2)
    u, v = rng.normal(size=(2, N))
    expected = [sum(u[i] * v[(i + k) % N] for i in range(N)) for k in range(N)]
    np.testing.assert_allclose(correlate(u, v), expected, atol=1e-12 * N)


def test_narrow_memory_for_factors(rng):
    F, G, star = rng.normal(size=(9, 5)), rng.normal(size=(9, 3)), free_star(9, 1, rng)
    truth = reference.turned_sums(F @ F.T, G @ G.T, star.rings[0].left, star.rings[0].right, diagonal=True)
    np.testing.assert_allclose(factor_turns(F, G, star, budget=1), truth, atol=1e-10)


def test_a_factor_serves_the_matrix_it_stands_for(rng):
    F = rng.normal(size=(7, 3))
    K = F @ F.T
    bare = K - np.diag(K.diagonal())
    factor = LowRank(F)
    sums = factor.sums()
    np.testing.assert_allclose(factor.diagonal, K.diagonal())
    np.testing.assert_allclose(sums.diagonal, K.diagonal())
    np.testing.assert_allclose(sums.rows, bare.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(sums.squares, (bare**2).sum())
    v = rng.uniform(1, 2, 7)
    np.testing.assert_allclose(
        factor.weighted(v).pairs().rectangles(np.arange(7), np.arange(2))[0], (K * np.outer(v, v))[:, :2]
    )


def test_labels_as_a_kernel(rng):
    a = rng.normal(size=5)
    pairs = label_pairs(a)
    np.testing.assert_array_equal(pairs.rectangles(np.arange(5), np.arange(5))[0], np.outer(a, a))
    np.testing.assert_array_equal(pairs.diagonals, (a * a)[None])


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

"""Many small kernels at once, against the matrices they stand for."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests import reference
from tests.testing.alike import matrices

from kembed.permutation import blocks as module
from kembed.permutation import statistics
from kembed.permutation.blocks import Blocks, Graph, block_hsic
from kembed.permutation.counts import Entries, Leaves, Neighbours, packed
from kembed.permutation.labelings import Labelings, column_sums, draw_labelings, label_forms
from kembed.permutation.low_rank import kernel_count, pair_sums
from kembed.permutation.rings import draw_star

N = 14


def dense(rng):
    return Blocks(rng.normal(size=(N, 6)), 3, (1, 3))


def centred(rng):
    columns = rng.normal(size=(N, 6))
    return Blocks(columns - columns.mean(axis=0), 2, (1, 2), centred=True)


def sparse(rng):
    return Blocks(csr_array(rng.normal(size=(N, 5)) * (rng.random((N, 5)) < 0.5)), 5, (5,))


def graph(rng):
    matrix = np.triu(rng.random((N, N)) * (rng.random((N, N)) < 0.4), 1)
    return Graph(csr_array(matrix + matrix.T))


def leaves(rng):
    """Two trees, in leaves of two sizes, the smaller ones inside the larger."""
    large = rng.integers(3, size=(2, N)) + np.array([[0], [10]])
    return Leaves((large, 100 * large + rng.integers(3, size=(2, N))))


def nearest(rng):
    others = [rng.permutation(np.delete(np.arange(N), i))[:5] for i in range(N)]
    other = next(j for j in range(1, N) if j not in others[0])
    few = Entries(np.array([0, 0]), np.array([others[0][1], other]), np.array([-0.25, 0.25]))
    return Neighbours(np.array(others), (2, 5), (few, Entries(*(part[:0] for part in few))))


KINDS = [dense, centred, sparse, graph, leaves, nearest]


def labels(first):
    return np.repeat([1.0, 0.0], [first, N - first])


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("first", [7, 5])
def test_mmd_of_every_labeling_against_loops(make, biased, weighted, first, rng):
    member = make(rng)
    v = rng.uniform(0.5, 2.0, N) if weighted else None
    labelings, _ = draw_labelings(labels(first), 20, rng)
    forms = label_forms(member, labelings, v, None)
    found = np.concatenate([np.atleast_2d(statistics.mmd2(each, biased=biased)) for each in forms])
    kernels = matrices([member])
    assert len(found) == len(kernels) == kernel_count(member)
    for values, K in zip(found, kernels, strict=True):
        each = (a > 0.5 for a in labelings.written_out.T)
        expected = [reference.mmd2_loops(K, a, v, biased=biased) for a in each]
        np.testing.assert_allclose(values, expected, atol=1e-11)


@pytest.mark.parametrize("make", KINDS)
def test_any_weights_and_pairs_against_matrices(make, rng):
    member, W = make(rng), rng.normal(size=(N, 4))
    ((found, sums),) = column_sums(member, W, None)
    for j, K in enumerate(matrices([member])):
        bare = K - np.diag(K.diagonal())
        np.testing.assert_allclose(np.atleast_2d(found)[j], np.diagonal(W.T @ bare @ W), atol=1e-11)
        np.testing.assert_allclose(np.atleast_2d(sums.rows)[j], bare.sum(axis=1), atol=1e-11)
        assert pair_sums(member)[j] == pytest.approx(K[np.arange(7), np.arange(7, 14)].sum())


def test_blocks_in_parts_and_labelings_in_pieces_give_the_same(rng, monkeypatch):
    member, star = dense(rng), draw_star(N, 40, rng)
    whole = np.concatenate([
        np.atleast_2d(form.quadratic) for form in label_forms(member, Labelings(labels(6), star), None, None)
    ])  # fmt: skip
    monkeypatch.setattr(module, "AT_ONCE", 1)
    monkeypatch.setattr("kembed.permutation.labelings.WRITTEN_OUT", 8 * N * 3)
    labelings = Labelings(labels(6), star)
    assert not labelings.few
    parts = list(label_forms(member, labelings, None, None))
    assert len(parts) == 2
    np.testing.assert_allclose(np.concatenate([part.quadratic for part in parts]), whole, atol=1e-11)


@pytest.mark.parametrize("make", [leaves, nearest])
def test_counts_of_labelings_in_pieces_give_the_same(make, rng, monkeypatch):
    member, star = make(rng), draw_star(N, 40, rng)
    (whole,) = label_forms(member, Labelings(labels(6), star), None, None)
    monkeypatch.setattr("kembed.permutation.labelings.WRITTEN_OUT", 8 * N * 3)
    monkeypatch.setattr("kembed.permutation.labelings.PART", 8 * N)
    (parts,) = label_forms(member, Labelings(labels(6), star), None, None)
    np.testing.assert_allclose(parts.quadratic, whole.quadratic, atol=1e-13)


@pytest.mark.parametrize("rows", [255, 256, 700, 40_000])
def test_leaves_of_any_size_are_counted_without_overflow(rows):
    place = np.append(np.zeros(rows, dtype=int), [1, 1])[None]
    columns = np.ones((rows + 2, 3))
    columns[0, 1] = columns[-1, 2] = 0.0
    found = Leaves((place, place)).counted(packed(columns), 3)
    expected = [rows + 2.0, (rows - 1) ** 2 / rows + 2.0, rows + 0.5]
    np.testing.assert_allclose(found, [expected, expected], rtol=1e-15)


def test_neighbours_of_many_rows_are_counted_without_overflow():
    count, most = 5_000, 60
    ring = (np.arange(count)[:, None] + np.arange(1, most + 1)) % count
    columns = np.ones((count, 9))
    columns[: count // 2, 1] = 0.0
    none = Entries(*(np.zeros(0, dtype=kind) for kind in (int, int, float)))
    found = Neighbours(ring, (1, most), (none, none)).counted(packed(columns), 9)
    np.testing.assert_array_equal(found[:, 0], [2 * count, 2 * count * most])
    np.testing.assert_array_equal(found[:, 8], found[:, 0])
    ends = most * (most + 1) // 2  # neighbours of the last rows that lie in the first half
    np.testing.assert_array_equal(found[:, 1], [count - 2, count * most - 2 * ends])


@pytest.mark.parametrize("biased", [False, True])
def test_hsic_of_blocks_against_loops(biased, rng):
    left, right = centred(rng), centred(rng)
    star = draw_star(N, 25, rng)
    pairs = ((0, 1), (1, 0), (1, 1))
    pieces = (star.pairings(part) for part in (slice(0, 10), slice(10, 26)))
    found = block_hsic(left, right, pairs, pieces, biased=biased)
    assert found.shape == (26, 3 * 3 * 3)
    K, L = (np.array(matrices([side])).reshape(3, 2, N, N) for side in (left, right))
    H = np.eye(N) - 1 / N
    for c, order in enumerate(star.pairings(slice(None))):
        place = 0
        for a in range(3):
            for b in range(3):
                for i, j in pairs:
                    other = L[b, j][np.ix_(order, order)]
                    value = np.trace(K[a, i] @ H @ other @ H)
                    if not biased:
                        value -= np.trace(H @ K[a, i]) * np.trace(H @ other) / (N - 1)
                    assert found[c, place] == pytest.approx(value / N**2, abs=1e-12)
                    place += 1


def test_the_unbiased_hsic_of_blocks_has_mean_0_over_all_pairings(rng):
    from itertools import permutations

    columns = rng.normal(size=(5, 2))
    left, right = (Blocks(each - each.mean(axis=0), 2, (2,), centred=True) for each in (columns, columns**2))
    found = block_hsic(left, right, ((0, 0),), iter([np.array(list(permutations(range(5))))]), biased=False)
    assert len(found) == 120
    assert found.mean() == pytest.approx(0.0, abs=1e-14)


def test_pairings_are_the_turns_of_the_rings(rng):
    star = draw_star(N, 40, rng)
    u, v = rng.normal(size=(2, N))
    found = [u @ v[order] for order in star.pairings(slice(None))]
    np.testing.assert_allclose(found, star.products(u, v), atol=1e-12)
    assert star.pairings(slice(0, 1)).tolist() == [list(range(N))]
    assert star.count == 41

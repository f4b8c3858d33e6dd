"""Many small kernels at once, against the matrices they stand for."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests import reference
from tests.testing.alike import matrices

from kembed.permutation import blocks as module
from kembed.permutation import statistics
from kembed.permutation.blocks import Blocks, Graph, block_hsic
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


KINDS = [dense, centred, sparse, graph]


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

"""Groups of the fused test: the laws that all of them keep, and each formula against a slow loop."""

from itertools import product

import numpy as np
import pytest
from tests.testing.alike import matrices

from kembed.features import (
    GROUPS,
    OF_ONE_COLUMN,
    axes,
    columns,
    density,
    embeddings,
    fused_ensemble,
    fused_pairs,
    means,
    neighbours,
    pairs,
    repeated,
    second_order,
    trees,
    triples,
)
from kembed.features.polynomials import rank_polynomials
from kembed.features.rows import Rows, Sample
from kembed.features.single import OUT, OUTLIERS, RANKS, column_ensemble
from kembed.kernels.space import make_space

N = 48


def plain(values):
    return make_space(values, np.zeros(values.shape[1], dtype=bool))


def continuous(rng):
    return plain(rng.normal(size=(N, 2)))


def tied(rng):
    return plain(rng.integers(0, 3, (N, 2)).astype(float))


def mixed(rng):
    return make_space(np.column_stack([rng.normal(size=N), rng.integers(0, 3, N)]), np.array([False, True]))


def three(rng):
    values = np.column_stack([rng.normal(size=N), rng.poisson(1.0, N), rng.integers(0, 3, N)])
    return make_space(values, np.array([False, False, True]))


def constant(rng):
    return plain(np.full((N, 1), 0.3))


def constant_beside(rng):
    return plain(np.column_stack([np.full(N, 0.3), rng.integers(0, 2, N)]))


def copied(rng):
    rows = rng.normal(size=(N, 3))
    rows[-8:] = rows[:8]
    return plain(rows)


SPACES = [continuous, copied, tied, mixed, three, constant, constant_beside]
names = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__.rsplit(".", 1)[-1])
with_pairs = pytest.mark.parametrize(
    "group",
    [group for group in GROUPS if hasattr(group, "fit_pairs")],
    ids=lambda group: group.__name__.rsplit(".", 1)[-1],
)


def kernel_count(member, rows):
    table = member.features(rows) if member.map is not None else None
    if table is None:
        return 1
    width = table.shape[1] if member.linear is None else member.linear.shape[1]
    assert width % member.width == 0
    return width // member.width * len(member.cuts)


def alone(group, space):
    """Whether a group has nothing to look at here."""
    D = space.values.shape[1]
    if group is repeated:
        copies = repeated.is_repeated(space.values).mean()
        return not 0.0 < copies <= repeated.MOST_REPEATED
    least = {triples: 3, axes: 2, pairs: 2, neighbours: 2, density: 2}
    return least.get(group, 1) > D


# Laws of all groups.


@pytest.mark.parametrize("make", SPACES)
@names
def test_members_are_functions_of_the_unordered_rows(group, make, rng):
    space = make(rng)
    order = rng.permutation(N)
    rows, others = Sample(space), Sample(make_space(space.values[order], space.categorical))
    first, other = group.fit(rows), group.fit(others)
    assert (first is None) == (other is None) == alone(group, space)
    if first is None:
        return
    assert repr(first.kernels) == repr(other.kernels)
    ours, theirs = matrices(first.members, rows), matrices(other.members, others)
    assert len(ours) == len(theirs) == len(first.kernels) == len(first.families)
    for K, L in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(L, K[np.ix_(order, order)], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", [continuous, mixed, three])
@names
def test_members_for_any_number_of_rows(group, make, rng):
    """Rows that were not fitted: one by one as all together, and as many kernels as names and families."""
    sample = Sample(make(rng), complete=False)
    found = group.fit(sample)
    if found is None:
        assert group is repeated or alone(group, sample.space)
        return
    values = make(rng).values
    basis, few = sample.fitted(), [slice(0, 1), slice(1, 9), slice(9, N)]
    for member in found.members:
        whole = member.of(Rows(basis, values))
        assert whole.shape[0] == N
        parts = np.concatenate([member.of(Rows(basis, values[part])) for part in few])
        np.testing.assert_allclose(parts, whole, atol=1e-9 * max(1.0, np.abs(whole).max()))
    count = sum(kernel_count(member, Rows(basis, values)) for member in found.members)
    assert count == len(found.kernels) == len(found.families)
    assert sorted(set(found.families)) == list(range(max(found.families) + 1))


@names
def test_equal_rows_are_treated_alike(group, rng):
    """Whatever place a row has among its equals: its sample decides the place, and must not be seen."""
    values = rng.integers(0, 2 if group is not repeated else 9, (N, 2)).astype(float)
    rows = Sample(plain(np.column_stack([values, np.sin(5.0 * values).sum(axis=1)])))
    same = (values[:, None] == values).all(axis=2)
    for K in matrices(group.fit(rows).members, rows):
        for i, j in zip(*np.nonzero(np.triu(same, 1)), strict=True):
            others = np.setdiff1d(np.arange(N), [i, j])
            np.testing.assert_allclose(K[i, others], K[j, others], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", SPACES)
@with_pairs
def test_a_side_of_a_pair_does_not_know_the_pairing(group, make, rng):
    """The rows of the other side decide nothing; every kernel pair has a name and a family."""
    space, other = make(rng), continuous(rng)
    order = rng.permutation(N)
    right, left = Sample(other), Sample(space)
    moved = Sample(make_space(space.values[order], space.categorical))
    first, second = group.fit_pairs(left, right), group.fit_pairs(moved, right)
    assert (first is None) == (second is None)
    if first is None:
        assert group in (axes, pairs, neighbours)
        return
    count = 0
    for ours, theirs in zip(first.pairs, second.pairs, strict=True):
        one, two = (matrices((each.left,), rows) for each, rows in ((ours, left), (theirs, moved)))
        for K, L in zip(one, two, strict=True):
            np.testing.assert_allclose(L, K[np.ix_(order, order)], rtol=1e-6, atol=1e-8)
        one, two = (matrices((each.right,), right) for each in (ours, theirs))
        for K, L in zip(one, two, strict=True):
            np.testing.assert_allclose(L, K, rtol=1e-12, atol=1e-12)
        blocks = [
            kernel_count(side, rows) // len(getattr(side, "cuts", (1,)))
            for side, rows in ((ours.left, left), (ours.right, right))
        ]
        count += blocks[0] * blocks[1] * len(ours.cuts)
    assert count == len(first.kernels) == len(first.families)
    assert sorted(set(first.families)) == list(range(max(first.families) + 1))


def test_a_fused_test_has_every_group(rng):
    rows = Sample(copied(rng), names=("a", "b", "c"))
    parts = [group.fit(rows) for group in GROUPS]
    whole = fused_ensemble(rows)
    assert repr(whole.kernels) == repr(tuple(kernel for part in parts for kernel in part.kernels))
    assert whole.plan.added.tolist() == [part.whole for part in parts]
    assert len(whole.plan.group) == sum(max(part.families) + 1 for part in parts)
    np.testing.assert_array_equal(whole.plan.weights, [2.0] + [1.0] * (len(GROUPS) - 1))
    several, both = fused_pairs(rows, rows)
    assert len(both.kernels) == len(both.plan.family)
    assert len(several) == sum(len(g.fit_pairs(rows, rows).pairs) for g in GROUPS if hasattr(g, "fit_pairs"))
    single = Sample(plain(rng.normal(size=(40, 1))))
    names = [group.name for group in (each.fit(single) for each in GROUPS) if group is not None]
    assert set(OF_ONE_COLUMN) <= set(names)
    expected = [OF_ONE_COLUMN.get(name, 1.0) for name in names]
    np.testing.assert_array_equal(fused_ensemble(single).plan.weights, expected)


RANKED = [means, columns, axes, pairs, triples, trees, neighbours]


@pytest.mark.parametrize("group", RANKED, ids=lambda group: group.__name__.rsplit(".", 1)[-1])
def test_monotone_transforms_change_nothing_in_groups_of_ranks(group, rng):
    """Of columns, each by a transform of its own; a Gaussian beside the ranks does change."""
    values = rng.normal(size=(N, 3))
    other = np.column_stack([np.exp(3 * values[:, 0]), values[:, 1] ** 3, 1e6 * values[:, 2] - 4.0])
    ours, theirs = (
        matrices(group.fit(rows).members, rows) for rows in map(Sample, map(plain, (values, other)))
    )
    for K, L in list(zip(ours, theirs, strict=True))[group is means :]:
        np.testing.assert_allclose(L, K, rtol=1e-7, atol=1e-9)
    if not hasattr(group, "fit_pairs"):
        return
    sides = [tuple(map(Sample, map(plain, (each, each[::-1])))) for each in (values, other)]
    first, second = (group.fit_pairs(*both).pairs for both in sides)
    for one, two in list(zip(first, second, strict=True))[group is means :]:
        for name, here, there in zip(("left", "right"), *sides, strict=True):
            ours, theirs = matrices((getattr(one, name),), here), matrices((getattr(two, name),), there)
            for K, L in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(L, K, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "group",
    [means, columns, axes, pairs, triples, neighbours, density],
    ids=lambda group: group.__name__.rsplit(".", 1)[-1],
)
def test_groups_without_landmarks_or_trees_do_not_know_the_order_of_columns(group, rng):
    """Ties and a category included; columns and pairs of them come in another order, and that is all."""
    values = np.column_stack(
        [rng.normal(size=N), rng.poisson(1.0, N), rng.integers(0, 2, N), rng.normal(size=N)]
    )
    flags, called, order = np.array([False, False, True, False]), np.array(["a", "b", "c", "d"]), [2, 0, 3, 1]
    found = []
    for way in ([0, 1, 2, 3], order):
        rows = Sample(make_space(values[:, way], flags[way]), names=tuple(called[way]))
        fit = group.fit(rows)
        kernels = zip(fit.kernels, matrices(fit.members, rows), strict=True)
        found.append(
            {(k.title, *sorted(k.parts)) if hasattr(k, "title") else "Gaussian": K for k, K in kernels}
        )
        assert len(found[-1]) == len(fit.kernels)
    assert found[0].keys() == found[1].keys()
    for name, K in found[0].items():
        np.testing.assert_allclose(found[1][name], K, rtol=1e-6, atol=1e-8)


# Formulas, each against a slow one.


def outer_sum(scores):
    """Σ_d s_d(x) s_d(y), written out."""
    return sum(np.outer(column, column) for column in scores.T)


def test_means_and_columns_by_their_polynomials(rng):
    rows = Sample(three(rng), names=("a", "b", "c"))
    scores, found = rows.polynomials, matrices(means.fit(rows).members, rows)[1:]
    for K, own in zip(found, scores, strict=True):
        np.testing.assert_allclose(K, outer_sum(own[:, :1]), atol=1e-12)
    group = columns.fit(rows)
    every = [(own, cut) for own in scores for cut in columns.CUTS]
    for K, (own, cut) in zip(matrices(group.members, rows), every, strict=True):
        np.testing.assert_allclose(K, outer_sum(own[:, :cut]), atol=1e-10)
    np.testing.assert_allclose(scores[0], rank_polynomials(rows.values[:, 0]), atol=1e-8)


def test_axes_by_polynomials_of_their_ranks(rng):
    rows = Sample(three(rng))
    found = iter(matrices(axes.fit(rows).members, rows))
    for axis in rows.axes.T:
        scores = rank_polynomials(axis, 4)
        for cut in axes.CUTS:
            np.testing.assert_allclose(next(found), outer_sum(scores[:, :cut]), atol=1e-7)


@pytest.mark.parametrize("wide", [False, True])
def test_pairs_are_products(wide, rng):
    D = 17 if wide else 3  # beyond 16 columns first degrees alone
    rows = Sample(plain(rng.normal(size=(60, D))))
    group = pairs.fit(rows)
    found, scores = iter(matrices(group.members, rows)), rows.polynomials
    for a in range(D):
        for b in range(a + 1, D):
            both = [scores[a][:, i] * scores[b][:, j] for i, j in product((0, 1), repeat=2)]
            np.testing.assert_allclose(next(found), outer_sum(np.array(both[:1]).T), atol=1e-10)
            if not wide:
                np.testing.assert_allclose(next(found), outer_sum(np.array(both).T), atol=1e-10)
    assert group.kernels[0].columns == ("column 0", "column 1")
    assert next(found, None) is None


def test_triples_are_products(rng):
    values = np.column_stack([rng.normal(size=(40, 2)), rng.integers(3, size=40), rng.integers(2, size=40)])
    rows = Sample(make_space(values, np.array([False, False, True, True])), names=tuple("abcd"))
    group = triples.fit(rows)
    (member,) = group.members
    counts, scores = (1, 1, 2, 1), rows.polynomials  # of three levels two indicators are free, of two one
    expected, parts = [], []
    for which in ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)):
        for degrees in product(*(range(counts[c]) for c in which)):
            expected.append(np.prod([scores[c][:, k] for c, k in zip(which, degrees, strict=True)], axis=0))
            parts.append(tuple("abcd"[c] for c in which))
    np.testing.assert_allclose(member.of(rows), np.array(expected).T)
    assert [kernel.parts for kernel in group.kernels] == parts
    for D, there in ((2, False), (3, True), (15, True), (16, False)):  # 455 and 560 products
        assert (triples.fit(Sample(plain(rng.normal(size=(60, D))))) is not None) == there


def test_gaussians_of_all_rows_and_at_landmarks(rng):
    for space in (continuous(rng), mixed(rng)):
        for complete in (True, False):
            rows = Sample(space, complete=complete)
            for scale in (0.4, 4.0 * rows.median):
                member, kernel = embeddings.gaussian(rows, scale)
                K, expected = member.matrix(rows), kernel.gram(rows.values)
                if complete:
                    np.testing.assert_allclose(K - K[0, 0], expected - expected[0, 0], atol=1e-12)
                    continue
                across = rows.gaussian(scale)
                between = np.exp(-space.distances(rows.landmarks, rows.landmarks) / (2.0 * scale**2))
                nystroem = across @ np.linalg.pinv(between, rcond=1e-10, hermitian=True) @ across.T
                np.testing.assert_allclose(K, nystroem, atol=1e-7)


def test_whitened_embeddings_are_the_quadratic_form_they_say(rng):
    """MMD² is dᵀ(Σ + ρI)⁻¹d with the pooled covariance of the features."""
    rows = Sample(mixed(rng))
    scale, ridge, first = 2.0 * rows.median, 1e-3, rng.permutation(N) < 20
    member, _ = embeddings.whitened(rows, scale, ridge)
    features = rows.gaussian(scale)
    covariance = np.cov(features.T, bias=True)
    inverse = np.linalg.inv(covariance + ridge * np.trace(covariance) * np.eye(len(covariance)))
    d = features[first].mean(axis=0) - features[~first].mean(axis=0)
    w = np.where(first, 1.0 / 20, -1.0 / (N - 20))
    assert w @ member.matrix(rows) @ w == pytest.approx(d @ inverse @ d)


def test_second_order_is_the_square_of_a_whitened_kernel(rng):
    rows = Sample(three(rng))
    (member,) = second_order.fit(rows).members
    whitened = rows.spectrum(2.0 * rows.median).whitening(1e-2)[:, -20:]
    features = rows.gaussian(2.0 * rows.median) @ whitened
    centred = features - features.mean(axis=0)
    np.testing.assert_allclose(member.matrix(rows), (centred @ centred.T) ** 2, rtol=1e-7, atol=1e-9)


def test_the_kernel_of_trees_is_the_mean_of_shared_leaves(rng):
    rows = Sample(three(rng))
    leaves, _ = trees.grow_trees(rows.values, trees.SIZES, trees.COUNT)
    for K, grown in zip(matrices(trees.fit(rows).members, rows), leaves, strict=True):
        expected = np.zeros((N, N))
        for tree in grown:
            for leaf in np.unique(tree):
                inside = tree == leaf
                expected += np.outer(inside, inside) / inside.sum()
        np.testing.assert_allclose(K, expected * N / trees.COUNT, atol=1e-9)


def test_leaves_are_nested_and_no_larger_than_said(rng):
    values = np.column_stack([rng.normal(size=200), rng.integers(3, size=200)])
    (large, middle, small), _ = trees.grow_trees(values, trees.SIZES, 5)
    for leaves, size in ((large, 100), (middle, 32), (small, 8)):
        for tree in leaves:
            assert np.unique(tree, return_counts=True)[1].max() <= size
    for coarse, fine in ((large, middle), (middle, small)):
        for a, b in zip(coarse, fine, strict=True):
            assert all(len(set(a[b == leaf])) == 1 for leaf in np.unique(b))
    assert not set(large[0]) & set(large[1])  # every tree has leaves of its own


@pytest.mark.parametrize("rounds", [1, 3, trees.ROUNDS])
def test_trees_by_walking_down_with_their_own_rows(rounds, rng, monkeypatch):
    monkeypatch.setattr(trees, "ROUNDS", rounds)  # what is not cut by then is a leaf of any size
    values = np.column_stack([rng.normal(size=40), np.zeros(40), rng.integers(3, size=40)])
    sizes, heights = (10, 3), []
    leaves, forest = trees.grow_trees(values, sizes, 3)
    ranks = [
        [sum(b < a for b in column) + sum(b == a for b in column) / 2 for a in column] for column in values.T
    ]
    for tree in range(3):
        node, parents = np.full(40, tree), []
        while (inner := forest.column[node] >= 0).any():
            parents.append(node)
            went = [
                forest.sides[v, int(ranks[forest.column[v]][i] / 40 > forest.cut[v])] if inside else v
                for i, (v, inside) in enumerate(zip(node, inner, strict=True))
            ]
            node = np.array(went)
        np.testing.assert_array_equal(leaves[-1][tree], node)  # the smallest leaves are where a walk ends
        for i in range(40):  # a larger leaf is the first node on the way that has no more rows than said
            way = list(dict.fromkeys([*(each[i] for each in parents), node[i]]))
            counts = {v: sum(v in (*(each[j] for each in parents), node[j]) for j in range(40)) for v in way}
            expected = next((v for v in way if counts[v] <= sizes[0]), way[-1])
            assert leaves[0][tree][i] == expected
        heights.append(np.unique(node, return_counts=True)[1].max())
    assert max(heights) <= sizes[-1] or rounds < 100


@pytest.mark.parametrize("D", [1, 5, 40])
def test_leaves_of_any_rows_are_those_of_a_walk_down_the_trees(D, rng):
    import pickle

    values = rng.normal(size=(500, D))
    values[:, 0] = rng.integers(0, 3, 500)
    _, forest = trees.grow_trees(values, (32, 8), 4)
    cuts = forest.cut[forest.column >= 0]
    ranks = np.vstack([rng.random((70, D)), np.tile(cuts[:70, None], D)])
    found = pickle.loads(pickle.dumps(forest)).leaves(ranks)
    for row, leaves in zip(ranks, found, strict=True):
        for node, leaf in enumerate(leaves):
            while forest.column[node] >= 0:
                node = forest.sides[node, int(row[forest.column[node]] > forest.cut[node])]
            assert leaf == node


def test_neighbours_against_sorting(rng):
    points = rng.normal(size=(80, 3))
    for graph, count in zip(neighbours.neighbour_graphs(points, [3, 10]), (3, 10), strict=True):
        expected = np.zeros((80, 80))
        for i in range(80):
            distances = np.square(points - points[i]).sum(axis=1)
            distances[i] = np.inf
            expected[i, np.argsort(distances)[:count]] = 1.0
        np.testing.assert_allclose(graph.toarray(), expected + expected.T)


def test_neighbours_of_many_rows_are_the_same_by_a_tree_and_by_all_distances(rng):
    scattered = rng.normal(size=(neighbours.TREE_ROWS + 100, 3))
    lattice = rng.integers(0, 4, size=(300, 3)).astype(float)
    points = np.concatenate([scattered, lattice])  # most of the lattice ties, so that its rows look at all
    beyond = np.hstack([points, np.zeros((len(points), neighbours.TREE_COLUMNS))])
    found, expected = (neighbours.neighbour_graphs(each, [3, 10]) for each in (points, beyond))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.toarray(), other.toarray())


def test_tied_neighbours_share_what_is_left():
    (graph,) = neighbours.neighbour_graphs(np.array([[0.0], [1.0], [-1.0], [5.0]]), [1])
    expected = np.array([[0, 0.5, 0.5, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(graph.toarray(), expected + expected.T)


def test_beyond_memory_neighbours_are_rows_of_one_landmark(rng):
    rows = Sample(three(rng), complete=False)
    (K,) = matrices(neighbours.fit(rows).members, rows)
    nearest = rows.near[0]
    for i, j in product(range(N), repeat=2):
        shared = nearest[i] == nearest[j]
        assert K[i, j] == pytest.approx(shared * N / np.sum(nearest == nearest[i]), abs=1e-9)


def test_density_by_the_sixth_neighbour_or_the_nearest_landmark(rng):
    rows = Sample(mixed(rng))
    distances = rows.space.distances(rows.space.rows, rows.space.rows)
    sixth = np.sort(distances, axis=1)[:, 6]
    np.testing.assert_allclose(density.neighbour_distance(rows), sixth, rtol=1e-8)
    some = Sample(mixed(rng), complete=False)
    nearest = some.space.distances(some.space.rows, some.landmarks).min(axis=1)
    for sample, far in ((rows, sixth), (some, nearest)):
        scores = rank_polynomials(far.round(9), 4)
        for K, cut in zip(matrices(density.fit(sample).members, sample), density.CUTS, strict=True):
            np.testing.assert_allclose(K, outer_sum(scores[:, :cut]), atol=1e-6)


def test_repeated_rows_against_a_loop(rng):
    rows = Sample(copied(rng))
    counts = [sum((a == b).all() for b in rows.values) for a in rows.values]
    mark = np.array([count > 1 for count in counts], dtype=float)
    assert mark.sum() == 16
    (K,) = matrices(repeated.fit(rows).members, rows)
    np.testing.assert_allclose(K, outer_sum((mark - mark.mean())[:, None]), atol=1e-12)


# Single columns.


def by_title(ensemble, rows):
    kernels = matrices(ensemble.members, rows)
    return dict(zip([kernel.title for kernel in ensemble.kernels], kernels, strict=True))


def standardised(values):
    return ((values - values.mean()) / values.std())[:, None]


def test_a_numeric_column_by_itself(rng):
    column = np.concatenate([rng.normal(size=180), [0.0] * 17, [40.0, -9.0, 6.0]])
    rows = Sample(plain(np.column_stack([rng.normal(size=200), column])))
    found = by_title(column_ensemble(rows, 1), rows)
    scores, n = rank_polynomials(column), len(column)
    for title, cut in zip(RANKS, (1, 2, 4, 8), strict=True):
        np.testing.assert_allclose(found[title], outer_sum(scores[:, :cut]), atol=1e-9)
    offset = np.abs(column - np.median(column))
    z = offset / (1.4826 * np.median(offset))
    assert found["distance from the median"].shape == (n, n)
    np.testing.assert_allclose(
        found["distance from the median"], outer_sum(standardised(np.log1p(z**2))), rtol=1e-3, atol=1e-3
    )
    for title, out in zip(OUTLIERS, OUT, strict=True):
        np.testing.assert_allclose(found[title], outer_sum(standardised((z > out) * 1.0)), atol=1e-9)
    copies = np.array([np.log(np.sum(column == value)) for value in column])
    np.testing.assert_allclose(found["repeated values"], outer_sum(standardised(copies)), atol=1e-9)
    for count in (16, 48):
        rank = np.array([np.sum(column < v) + 0.5 * np.sum(column == v) for v in column]) / n
        interval = np.minimum((rank * count).astype(int), count - 1)
        shares = np.bincount(interval, minlength=count) / n
        marks = (interval[:, None] == np.arange(count)) - shares
        marks = marks[:, shares > 0.0] / np.sqrt(shares[shares > 0.0])
        np.testing.assert_allclose(found[f"{count} intervals of ranks"], outer_sum(marks), atol=1e-9)


def test_a_category_by_itself(rng):
    codes = np.concatenate([rng.integers(0, 11, 70), [11.0]])
    rows = Sample(make_space(codes[:, None], np.array([True])))
    found = by_title(column_ensemble(rows, 0), rows)
    counts = np.bincount(codes.astype(int))
    same = codes[:, None] == codes
    np.testing.assert_allclose(found["all levels"], same / (1.0 + counts[codes.astype(int)]), atol=1e-12)
    (own,) = rows.polynomials
    for title, cut in (("the commonest level", 1), ("the two commonest levels", 2), ("levels", 8)):
        np.testing.assert_allclose(found[title], outer_sum(own[:, :cut]), atol=1e-10)


def test_a_column_of_many_values_is_read_off_a_table(rng):
    """Beyond memory 256 quantiles stand for a column: a row has the features of the nearest one."""
    rows = Sample(plain(np.sort(rng.normal(size=(1_000, 1)), axis=0)), complete=False)
    table = column_ensemble(rows, 0).members[0].features
    assert len(table.points) == 256
    values = np.concatenate([rng.normal(size=40), [-99.0, 99.0]])
    nearest = np.abs(values[:, None] - table.points).argmin(axis=1)
    found = table(Rows(rows.fitted(), values[:, None]))
    np.testing.assert_array_equal(found, table.table[nearest])
    whole = rank_polynomials(rows.values[:, 0])
    np.testing.assert_allclose(
        table.table[:, :8], whole[np.isin(rows.values[:, 0], table.points)], atol=1e-12
    )

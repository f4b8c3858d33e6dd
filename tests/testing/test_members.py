"""Groups of members: the laws that every group of a fused test keeps, and what each is for."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata
from tests.testing.alike import matrices

from kembed import hsic_test, mmd_test
from kembed.kernels.space import make_space
from kembed.permutation.counts import leaf_features
from kembed.testing.members import (
    GROUPS,
    axes,
    density,
    fit_group,
    fit_relation,
    fused_members,
    fused_relations,
    neighbours,
    repeated,
    trees,
    triples,
)
from kembed.testing.members.polynomials import DEGREE, indicators, rank_polynomials
from kembed.testing.members.rows import read_scales

N = 48


def continuous(rng):
    return make_space(rng.normal(size=(N, 2)), np.array([False, False]))


def tied(rng):
    return make_space(rng.integers(0, 3, (N, 2)).astype(float), np.array([False, False]))


def mixed(rng):
    return make_space(np.column_stack([rng.normal(size=N), rng.integers(0, 3, N)]), np.array([False, True]))


def constant(rng):
    return make_space(np.full((N, 1), 0.3), np.array([False]))


def constant_beside(rng):
    return make_space(np.column_stack([np.full(N, 0.3), rng.integers(0, 2, N)]), np.array([False, False]))


def copied(rng):
    rows = rng.normal(size=(N, 2))
    rows[-8:] = rows[:8]
    return make_space(rows, np.array([False, False]))


SPACES = [continuous, copied, tied, mixed, constant, constant_beside]


def with_a_third(space):
    """The same rows with one more column, a function of the others."""
    third = np.sin(5.0 * space.values).sum(axis=1)
    return make_space(np.column_stack([space.values, third]), np.append(space.categorical, False))


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("group", GROUPS)
def test_members_are_functions_of_the_unordered_rows(group, make, rng):
    space = with_a_third(make(rng)) if group is triples else make(rng)
    order = rng.permutation(N)
    turned = make_space(space.values[order], space.categorical)
    first, other = (fit_group(group, read_scales(each)) for each in (space, turned))
    if first is None:
        assert other is None
        alone = space.values.shape[1] < (3 if group is triples else 2)
        assert alone or group in (axes, density, neighbours, repeated)
        return
    assert repr(first.kernels) == repr(other.kernels)
    ours, theirs = matrices(first.members), matrices(other.members)
    assert len(ours) == len(theirs) == len(first.kernels) == len(first.voices)
    for K, L in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(L, K[np.ix_(order, order)], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("group", [group for group in GROUPS if hasattr(group, "fit_pairs")])
def test_a_side_of_a_relation_does_not_know_the_pairing(group, make, rng):
    """What its rows meet decides their order, and nothing else."""
    side, other = make(rng), continuous(rng)
    order = rng.permutation(N)
    turned = make_space(side.values[order], side.categorical)
    first, second = (fit_relation(group, *map(read_scales, (each, other))) for each in (side, turned))
    if first is None:
        assert second is None
        return
    for ours, theirs in zip(first.meetings, second.meetings, strict=True):
        for K, L in zip(matrices((ours.left,)), matrices((theirs.left,)), strict=True):
            np.testing.assert_allclose(L, K[np.ix_(order, order)], rtol=1e-6, atol=1e-8)
        for K, L in zip(matrices((ours.right,)), matrices((theirs.right,)), strict=True):
            np.testing.assert_allclose(L, K, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("group", GROUPS)
def test_equal_rows_are_treated_alike(group, rng):
    """Whatever place a row has among its equals: its sample decides the place, and must not be seen."""
    values = rng.integers(0, 2 if group is not repeated else 9, (N, 2)).astype(float)
    space = make_space(values, np.array([False, False]))
    found = fit_group(group, read_scales(with_a_third(space) if group is triples else space))
    same = (values[:, None] == values).all(axis=2)
    for K in matrices(found.members):
        for i, j in zip(*np.nonzero(np.triu(same, 1)), strict=True):
            others = np.setdiff1d(np.arange(N), [i, j])
            np.testing.assert_allclose(K[i, others], K[j, others], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", SPACES)
def test_every_kernel_of_a_relation_has_a_name_and_a_voice(make, rng):
    left, right = (read_scales(make(rng), names=names) for names in (("a", "b"), ("c", "d")))
    if make is constant:
        left, right = (read_scales(make(rng), names=(name,)) for name in "ac")
    for group in GROUPS:
        if not hasattr(group, "fit_pairs"):
            continue
        relation = fit_relation(group, left, right)
        if relation is None:
            continue
        count = sum(
            len(meeting.pairs) * (meeting.left.count // len(meeting.left.cuts))
            * (meeting.right.count // len(meeting.right.cuts))
            if meeting.blocks
            else len(meeting.pairs)
            for meeting in relation.meetings
        )  # fmt: skip
        assert count == len(relation.kernels) == len(relation.voices)
        assert sorted(set(relation.voices)) == list(range(max(relation.voices) + 1))


def test_a_fused_test_has_every_group(rng):
    space = make_space(np.column_stack([copied(rng).values, rng.normal(size=N)]), np.zeros(3, dtype=bool))
    space = make_space(np.concatenate([space.values[:-2], space.values[:2]]), space.categorical)
    rows = read_scales(space, names=("a", "b", "c"))
    parts = [fit_group(group, rows) for group in GROUPS]
    whole = fused_members(rows)
    assert repr(whole.kernels) == repr(tuple(kernel for part in parts for kernel in part.kernels))
    assert len(whole.plan.added) == len(GROUPS)
    assert whole.plan.added.tolist() == [part.whole for part in parts]
    assert len(whole.plan.group) == sum(max(part.voices) + 1 for part in parts)
    meetings, both = fused_relations(rows, rows)
    assert len(both.kernels) == len(both.plan.member)
    assert {meeting.left.size for meeting in meetings} == {N}


def test_means_count_more_and_of_one_column_embeddings(rng):
    wide = fused_members(read_scales(make_space(rng.normal(size=(40, 3)), np.zeros(3, bool))))
    np.testing.assert_array_equal(wide.plan.weights, [2.0] + [1.0] * (len(wide.plan.weights) - 1))
    lone = fused_members(read_scales(make_space(rng.normal(size=(40, 1)), np.zeros(1, bool))))
    np.testing.assert_array_equal(lone.plan.weights, [1.5, 4.0, 0.5, 1.0, 0.5])


@pytest.mark.parametrize(("make", "near"), [(mixed, "Neighbours"), (constant_beside, "Graph")])
def test_members_come_in_five_kinds(make, near, rng):
    exact = fused_members(read_scales(make(rng)))
    kinds = {type(member).__name__ for member in exact.members}
    assert kinds == {"Blocks", "LazyLowRank", "Pairs", "Leaves", near}


# Polynomials.


def test_polynomials_are_orthonormal_and_see_ranks_alone(rng):
    column = rng.normal(size=100)
    P = rank_polynomials(column)
    np.testing.assert_allclose(P.T @ P / 100, np.eye(DEGREE), atol=1e-12)
    np.testing.assert_allclose(P.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(P[:, 0], (rankdata(column) - 50.5) / np.sqrt((100**2 - 1) / 12), atol=1e-12)
    np.testing.assert_array_equal(rank_polynomials(np.exp(5 * column)), P)
    turned = rank_polynomials(-column)  # even ones stay, odd ones change sign
    np.testing.assert_allclose(turned, P * (-1.0) ** np.arange(1, DEGREE + 1), atol=1e-9)


@pytest.mark.parametrize(("values", "left"), [(1, 0), (2, 1), (3, 2), (20, DEGREE)])
def test_few_values_have_few_polynomials(values, left, rng):
    column = np.concatenate([np.arange(values), rng.integers(values, size=60)]).astype(float)
    P = rank_polynomials(column)
    used = np.abs(P).max(axis=0) > 0.0
    assert used.tolist() == [True] * left + [False] * (DEGREE - left)
    np.testing.assert_allclose((P.T @ P / len(P))[:left, :left], np.eye(left), atol=1e-10)
    np.testing.assert_allclose(P.sum(axis=0), 0.0, atol=1e-9)


def test_two_values_have_the_standardised_indicator():
    column = np.array([3.0, 3.0, 3.0, 7.0])
    np.testing.assert_allclose(rank_polynomials(column, 1)[:, 0], [-(3**-0.5)] * 3 + [3**0.5], atol=1e-12)


def test_indicators_of_all_levels_give_pearsons_chi_square(rng):
    codes = rng.integers(4, size=80).astype(float)
    first = rng.permutation(80) < 30
    P = indicators(codes)
    assert (np.abs(P).max(axis=0) > 0).sum() == 3
    counts = np.array([[np.sum(codes[side] == level) for level in range(4)] for side in (first, ~first)])
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / 80
    chi = ((counts - expected) ** 2 / expected).sum()
    gap = P[first].mean(axis=0) - P[~first].mean(axis=0)
    assert gap @ gap * 30 * 50 / 80 == pytest.approx(chi)


# Trees and neighbours against slow ones.


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


def test_equal_rows_share_every_leaf(rng):
    values = np.repeat(rng.normal(size=(15, 2)), 10, axis=0)
    for leaves in trees.grow_trees(values, trees.SIZES, 5)[0]:
        for tree in leaves:
            assert all(len(set(tree[10 * k : 10 * k + 10])) == 1 for k in range(15))


def test_the_kernel_of_trees_is_the_mean_of_shared_leaves(rng):
    leaves = np.array([[0, 0, 1, 1, 1], [2, 3, 3, 3, 2]])
    K = leaf_features(leaves).columns
    K = (K @ K.T).toarray()
    for i in range(5):
        for j in range(5):
            shared = [1 / np.sum(tree == tree[i]) for tree in leaves if tree[i] == tree[j]]
            assert K[i, j] == pytest.approx(sum(shared) / 2)


def test_neighbours_against_sorting(rng):
    points = rng.normal(size=(40, 3))
    found = neighbours.nearest_rows(points, [4])
    (graph,) = found.graphs
    expected = np.zeros((40, 40))
    for i in range(40):
        distances = np.square(points - points[i]).sum(axis=1)
        distances[i] = np.inf
        expected[i, np.argsort(distances)[:4]] = 1.0
    np.testing.assert_allclose(graph.toarray(), expected + expected.T)
    assert found.listed is not None
    np.testing.assert_array_equal(matrices([found.listed])[0], graph.toarray())


def test_tied_neighbours_share_what_is_left():
    found = neighbours.nearest_rows(np.array([[0.0], [1.0], [-1.0], [5.0]]), [1])
    (graph,) = found.graphs
    expected = np.array([[0, 0.5, 0.5, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(graph.toarray(), expected + expected.T)
    assert found.listed is not None
    np.testing.assert_allclose(matrices([found.listed])[0], graph.toarray())


@pytest.mark.parametrize(("width", "count"), [(5, 5), (9, 1), (200, 7), (1_001, 30), (64, 8)])
def test_smallest_against_sorting(width, count, rng):
    table = rng.normal(size=(12, width)).round(1)
    table[3] = 0.0
    table[5, :] = np.inf
    table[7, width // 2 :] = np.inf
    np.testing.assert_array_equal(neighbours.smallest(table, count), np.sort(table, axis=1)[:, :count])


def test_the_sixth_neighbour_against_sorting(rng):
    space = mixed(rng)
    found = density.neighbour_distance(read_scales(space))
    distances = space.distances(space.rows, space.rows)
    np.testing.assert_allclose(found, np.sort(distances, axis=1)[:, 6], rtol=1e-8)


# What each is for.


def few_of_many(rng):
    x, y = rng.normal(size=(2, 200, 25))
    y[:, 4] *= 1.8
    return x, y, "columns"


def broken_correlation(rng):
    x, y = rng.normal(size=(2, 200, 25))
    y[:, 3] = 0.7 * y[:, 8] + 0.7 * y[:, 3]
    return x, y, "pairs"


def rounding(rng):
    x, y = rng.normal(size=(2, 200, 2))
    y[:, 1] = np.round(2.0 * y[:, 1]) / 2.0
    return x, y, "trees"


def noisy_line(rng):
    t = rng.uniform(-1, 1, (2, 200, 1))
    x, y = t * [1.0, 1.0, 1.0] + np.array([0.02, 0.06])[:, None, None] * rng.normal(size=(2, 200, 3))
    return x, y, "density"


def rare_cluster(rng):
    x, y = rng.normal(size=(2, 200, 6))
    y[:18] += 3.0
    return x, y, "second order"


@pytest.mark.parametrize("make", [few_of_many, broken_correlation, rounding, noisy_line, rare_cluster])
def test_a_group_finds_what_it_is_for(make, rng):
    x, y, name = make(rng)
    result = mmd_test(x, y, rng=0, n_resamples=199)
    assert result.pvalue <= 0.01
    titles = {
        "columns": "ranks of column 4",
        "pairs": "correlation of ranks of column 3 and column 8",
        "trees": "random trees",
        "density": "local density",
        "second order": "covariance of whitened features",
    }
    spoken = [member for member in result.members if titles[name] in repr(member.kernel)]
    assert max(member.surprise for member in spoken) > 6.0


def test_findings_name_the_columns_and_the_pair(rng):
    x, y = rng.normal(size=(2, 300, 4))
    y[:, 1] = 0.8 * y[:, 0] + 0.6 * y[:, 1]
    y[:, 3] += 0.8
    frames = [pd.DataFrame(each, columns=list("abcd")) for each in (x, y)]
    result = mmd_test(*frames, rng=0)
    sure = {finding.columns for finding in result.findings if finding.adjusted_pvalue <= 0.05}
    assert sure == {("a", "b"), ("d",)}
    assert len(result.findings) == 4 + 6
    order = [finding.adjusted_pvalue for finding in result.findings]
    assert order == sorted(order)
    assert all(finding.adjusted_pvalue >= finding.pvalue for finding in result.findings)
    key = [(f.adjusted_pvalue, f.pvalue, len(f.columns)) for f in result.findings]
    assert key == sorted(key)  # columns before pairs, where p-values tie
    assert "d: p = 0.001, for all columns and pairs" in repr(result)


def test_one_column_has_no_findings(rng):
    assert mmd_test(rng.normal(size=50), rng.normal(size=50), rng=0, n_resamples=19).findings == ()


def test_findings_of_dependence_name_a_column_of_either_side(rng):
    x = rng.normal(size=(200, 12))
    y = np.column_stack([rng.normal(size=200), np.abs(x[:, 7]) + 0.5 * rng.normal(size=200)])
    result = hsic_test(
        pd.DataFrame(x, columns=list("abcdefghijkl")), pd.DataFrame(y, columns=["u", "v"]), rng=0
    )
    assert result.findings[0].columns == ("h", "v")
    assert result.findings[0].adjusted_pvalue <= 0.01
    assert result.findings[1].adjusted_pvalue > 0.01
    turned = hsic_test(
        pd.DataFrame(y, columns=["u", "v"]), pd.DataFrame(x, columns=list("abcdefghijkl")), rng=0
    )
    assert turned.findings[0].columns == ("v", "h")
    assert turned.pvalue == result.pvalue


def test_a_category_with_a_number_is_a_pair(rng):
    level = rng.integers(2, size=(2, 300))
    number = rng.normal(size=(2, 300))
    number[1] = np.where(level[1] == 1, 0.9, -0.9) + 0.5 * number[1]
    number[1] /= number[1].std()
    frames = [
        pd.DataFrame({"number": number[k], "level": np.array(["low", "high"])[level[k]]}) for k in (0, 1)
    ]
    result = mmd_test(*frames, rng=0)
    assert result.findings[0].columns in (("number", "level"), ("number",))
    assert ("number", "level") in {f.columns for f in result.findings if f.adjusted_pvalue <= 0.01}


# What stays the same.


@pytest.mark.parametrize("name", ["means", "columns", "axes", "pairs", "trees", "neighbours"])
def test_monotone_transforms_change_nothing_in_groups_of_ranks(name, rng):
    """Of columns, each by a transform of its own; a Gaussian beside the ranks does change."""
    group = next(group for group in GROUPS if group.__name__.endswith(f".{name}"))
    values = rng.normal(size=(N, 3))
    other = np.column_stack([np.exp(3 * values[:, 0]), values[:, 1] ** 3, 1e6 * values[:, 2] - 4.0])
    flags = np.zeros(3, dtype=bool)
    first, second = (fit_group(group, read_scales(make_space(each, flags))) for each in (values, other))
    ours, theirs = matrices(first.members), matrices(second.members)
    for place, (K, L) in enumerate(zip(ours, theirs, strict=True)):
        if name != "means" or place:
            np.testing.assert_allclose(L, K, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["means", "columns", "axes", "pairs", "trees", "neighbours"])
def test_monotone_transforms_of_either_side_change_nothing_in_relations_of_ranks(name, rng):
    group = next(group for group in GROUPS if group.__name__.endswith(f".{name}"))
    x, y = rng.normal(size=(2, N, 2))
    flags = np.zeros(2, dtype=bool)
    found = [
        fit_relation(group, *(read_scales(make_space(side, flags)) for side in sides))
        for sides in ((x, y), (np.exp(2 * x), y**3))
    ]
    meetings = zip(*(relation.meetings[name == "means" :] for relation in found), strict=True)
    for first, second in meetings:
        for side in ("left", "right"):
            ours, theirs = (matrices((getattr(each, side),)) for each in (first, second))
            for K, L in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(L, K, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["means", "columns", "axes", "pairs", "neighbours", "density"])
def test_groups_without_landmarks_or_trees_do_not_know_the_order_of_columns(name, rng):
    """Ties and a category included; columns and pairs of them come in another order, and that is all."""
    group = next(group for group in GROUPS if group.__name__.endswith(f".{name}"))
    values = np.column_stack(
        [rng.normal(size=N), rng.poisson(1.0, N), rng.integers(0, 3, N), rng.normal(size=N)]
    )
    flags = np.array([False, False, True, False])
    names, order = np.array(["a", "b", "c", "d"]), [2, 0, 3, 1]
    first, other = (
        fit_group(group, read_scales(make_space(values[:, way], flags[way]), names=tuple(names[way])))
        for way in ([0, 1, 2, 3], order)
    )

    def told(found):
        kernels = zip(found.kernels, matrices(found.members), strict=True)
        return {(k.title, *sorted(k.parts)) if hasattr(k, "title") else "Gaussian": K for k, K in kernels}

    ours, theirs = told(first), told(other)
    assert ours.keys() == theirs.keys()
    assert len(ours) == len(first.kernels)
    for name, K in ours.items():
        np.testing.assert_allclose(theirs[name], K, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("swap", [False, True])
def test_order_of_rows_and_samples_change_nothing(swap, rng):
    """To the last bit, ties and categories included."""
    make = [
        pd.DataFrame({"a": rng.normal(size=n), "b": rng.poisson(1.0, n), "c": rng.choice(["p", "q"], n)})
        for n in (30, 22)
    ]
    first = mmd_test(*make, rng=0, n_resamples=99)
    turned = [frame.sample(frac=1.0, random_state=1) for frame in make]
    other = mmd_test(*(turned[::-1] if swap else turned), rng=0, n_resamples=99)
    assert (other.pvalue, other.statistic) == (first.pvalue, first.statistic)
    assert [f.adjusted_pvalue for f in other.findings] == [f.adjusted_pvalue for f in first.findings]


def test_the_order_of_columns_moves_p_as_another_seed_does(rng):
    x, y = rng.normal(size=(2, 60, 4))
    y[:, 2] += 0.4
    seeds = [mmd_test(x, y, rng=seed, n_resamples=199).pvalue for seed in range(8)]
    turned = mmd_test(x[:, ::-1], y[:, ::-1], rng=0, n_resamples=199).pvalue
    assert min(seeds) / 3 <= turned <= 3 * max(seeds)


def test_a_rare_flag_and_text_with_many_rows_are_no_trouble(rng):
    flag = np.zeros(200)
    flag[0] = 1.0
    assert 0.0 < mmd_test(flag, np.zeros(200), rng=0, n_resamples=99).pvalue <= 1.0
    frames = [pd.DataFrame({"a": rng.normal(size=150), "c": rng.choice(list("pqr"), 150)}) for _ in range(2)]
    assert mmd_test(*frames, statistic="features", rng=0, n_resamples=99).pvalue > 0.01
    shifted = frames[1].assign(c=np.where(rng.random(150) < 0.4, "p", frames[1]["c"]))
    assert mmd_test(frames[0], shifted, statistic="features", rng=0, n_resamples=99).pvalue == 0.01


# Repeated rows.


def test_copies_in_one_sample_are_found():
    """16% copies: power .28 by the other members (40 draws), 1 by counting rows that occur twice."""
    found = 0
    for seed in range(10):
        rng = np.random.default_rng([5, seed])
        x, y = rng.normal(size=(150, 4)), rng.normal(size=(150, 4))
        y[-24:] = y[:24]
        result = mmd_test(x, y, n_resamples=99, rng=seed)
        found += result.pvalue <= 0.05
    assert found == 10
    assert repr(result.kernel) == "repeated rows"


def test_repeated_rows_alone_are_no_difference():
    """Independent rows of a law with 60 values: at level .05, 16 of 150 has odds of 1 in 270."""
    rejected = 0
    for seed in range(150):
        rng = np.random.default_rng([6, seed])
        x, y = rng.normal(size=(60, 2))[rng.integers(0, 60, (2, 40))]
        rejected += mmd_test(x, y, n_resamples=39, rng=seed).pvalue <= 0.05
    assert rejected < 16

"""MMD² and HSIC: loops, hand-worked values, and the identities that define them."""

import numpy as np
import pytest
from scipy.stats import energy_distance
from tests import reference
from tests.testing.alike import matrices

from kembed import Gaussian, Matern32, hsic_test, mmd_test
from kembed.kernels.space import make_space
from kembed.permutation import statistics
from kembed.permutation.gram import KernelSums, function_pairs, kernel_pairs, matrix_pairs, space_pairs
from kembed.permutation.labelings import (
    Labelings,
    column_sums,
    label_forms,
    ring_label_sums,
)
from kembed.permutation.low_rank import (
    LowRank,
    computed,
    feature_spectrum,
    joined,
    pair_sums,
    random_features,
    with_low_rank,
)
from kembed.permutation.rings import draw_star
from kembed.testing.choice import choose
from kembed.testing.independence import hsic_values
from kembed.testing.procedure import read_procedure


def linear(a, b):
    return a @ b.T


def induced(a, b):
    """The kernel that the distance |a - b| induces, on one column."""
    return np.abs(a) + np.abs(b).T - np.abs(a - b.T)


def mmd(x, y, kernel, **options):
    return mmd_test(x, y, kernel=kernel, n_resamples=19, rng=0, **options).statistic


def hsic(x, y, kernel, **options):
    return hsic_test(x, y, kernel=kernel, n_resamples=30, rng=0, **options).statistic


# By hand. With k(a, b) = ab the mean embedding is the mean.


def test_mmd_by_hand():
    x, y = [1.0, 3.0], [2.0, 5.0]
    assert mmd(x, y, linear, statistic="biased") == pytest.approx((2.0 - 3.5) ** 2, abs=1e-12)
    assert mmd(x, y, linear) == pytest.approx(1 * 3 + 2 * 5 - 2 * 2.0 * 3.5, abs=1e-12)
    weights = ([1.0, 3.0], [2.0, 1.0])  # means 10/4 and 9/3
    assert mmd(x, y, linear, statistic="biased", weights=weights) == pytest.approx(0.25, abs=1e-12)
    assert mmd(x, y, linear, weights=weights) == pytest.approx(3 + 10 - 2 * 2.5 * 3.0, abs=1e-12)
    gaussian = np.exp(-2.0) + np.exp(-4.5) - 0.5 * 2 * np.exp(-0.5) - 0.5 * (np.exp(-8.0) + np.exp(-2.0))
    assert mmd(x, y, Gaussian(1.0)) == pytest.approx(gaussian, abs=1e-12)


def test_hsic_by_hand():
    """With k(a, b) = ab the biased HSIC is the squared covariance (over n)."""
    x = [0.0, 0.0, 1.0, 1.0]
    assert hsic(x, x, linear, statistic="biased") == pytest.approx(1 / 16, abs=1e-12)
    assert hsic(x, x, linear) == pytest.approx(1 / 6, abs=1e-12)
    y = [0.0, 1.0, 0.0, 1.0]
    assert hsic(x, y, linear, statistic="biased") == pytest.approx(0.0, abs=1e-12)
    # Of the 24 choices of four different rows only (i, j, q) = (4, 3, 2) adds anything: -2 k_43 l_42.
    assert hsic(x, y, linear) == pytest.approx(-1 / 12, abs=1e-12)


# Loops.


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (5, 5), (9, 4)])
def test_mmd_of_every_labeling_against_loops(n, m, weighted, biased, rng):
    N = n + m
    x = rng.normal(size=(N, 2))
    kernel = Matern32(1.3)
    K = reference.gram(reference.matern(1.3, 1.5), x, x)
    v = rng.uniform(0.5, 2.0, N) if weighted else None
    labels = rng.permutation([1.0] * n + [0.0] * m)
    star = draw_star(N, 2 * N + 1, rng)
    arc = draw_star(N, N // 2, rng)
    explicit = np.stack([labels, *(rng.permutation(labels) for _ in range(6))], axis=1)

    def turned(star):
        columns = []
        for ring in star.rings:
            for k in range(N):
                a = np.empty(N)
                a[ring.left] = labels[np.roll(ring.right, -k)]
                columns.append(a)
        return star.values([np.array(columns)]).T

    one_ring = Labelings(labels, arc)
    assert one_ring.by_products(1)
    np.testing.assert_array_equal(one_ring.written_out, turned(arc))
    pairs = kernel_pairs(kernel, x)
    ((quadratic, sums),) = ring_label_sums(pairs, labels, arc, None)
    ((by_product, same_sums),) = column_sums(pairs, one_ring.written_out, None)
    np.testing.assert_allclose(quadratic, by_product, atol=1e-11)
    for a, b in zip(sums, same_sums, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    for labelings, columns in (
        (Labelings(labels, star), turned(star)),
        (one_ring, turned(arc)),
        (Labelings(labels, None, explicit), explicit),
    ):
        (forms,) = label_forms(kernel_pairs(kernel, x), labelings, v, None)
        values = statistics.mmd2(forms, biased=biased)
        expected = [reference.mmd2_loops(K, a > 0.5, v, biased=biased) for a in columns.T]
        np.testing.assert_allclose(values, expected, atol=1e-12)
    assert mmd(
        x[labels == 1.0],
        x[labels == 0.0],
        kernel,
        statistic="biased" if biased else "unbiased",
        weights=None if v is None else (v[labels == 1.0], v[labels == 0.0]),
    ) == pytest.approx(reference.mmd2_loops(K, labels, v, biased=biased), abs=1e-12)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("n", [4, 5, 8])
def test_hsic_against_loops(n, biased, rng):
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    K = reference.gram(reference.gaussian(np.eye(2)), x, x)
    L = reference.gram(reference.matern(0.7, 1.5), y, y)
    value = hsic(x, y, (Gaussian(1.0), Matern32(0.7)), statistic="biased" if biased else "unbiased")
    assert value == pytest.approx(reference.hsic_loops(K, L, biased=biased), abs=1e-13)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("n", [4, 5])
def test_hsic_of_every_pairing_against_loops(n, biased, rng):
    """Few rows: the null distribution is every pairing, in any order."""
    from itertools import permutations

    x, y = rng.normal(size=n), rng.normal(size=n)
    K, L = (reference.gram(reference.gaussian(1.0), side, side) for side in (x, y))
    result = hsic_test(x, y, kernel=Gaussian(1.0), statistic="biased" if biased else "unbiased", rng=0)
    expected = [reference.hsic_loops(K, L[np.ix_(p, p)], biased=biased) for p in permutations(range(n))]
    np.testing.assert_allclose(np.sort(result.null_distribution), np.sort(expected), atol=1e-13)
    at_least = sum(value >= result.statistic - 1e-12 for value in expected)
    assert result.pvalue == pytest.approx(at_least / len(expected), abs=1e-15)


@pytest.mark.parametrize(
    ("N", "kernels", "most"),
    [
        (1_500, 1, 1_060),  # 8 + 4 + .033 C < 35 + 12
        (1_500, 3, 515),  # 8 + 3 (4 + .033 C) < 35 + 3 · 12
        (20_000, 1, 1_393),  # 8 + 4 + .033 C < 35 + 12 + 11
        (1_200, 2, 1_545),  # 8 + 2 (4 + .033 C) < 2 (35 + 2 · 12): two rings
    ],
)
def test_when_products_are_thought_faster_than_transforms(N, kernels, most, rng):
    for count, wanted in ((most, True), (most + 1, False)):
        labelings = Labelings(np.arange(N) % 2.0, draw_star(N, count - 1, rng))
        assert labelings.count == count
        assert labelings.by_products(kernels) == wanted


@pytest.mark.parametrize("batch", [1, 3, 7, 50, None])
def test_column_sums_against_matrices(batch, rng):
    x, W, v = rng.normal(size=(11, 2)), rng.normal(size=(11, 4)), rng.uniform(1.0, 2.0, 11)
    K = reference.gram(reference.gaussian(np.eye(2)), x, x)
    np.fill_diagonal(K, 0.0)
    ((quadratic, sums),) = column_sums(kernel_pairs(Gaussian(1.0), x), W, batch, v)
    np.testing.assert_allclose(quadratic, np.einsum("ic,ij,jc->c", W, K, W), atol=1e-12)
    np.testing.assert_allclose(sums.rows, v * (K @ v), atol=1e-12)
    np.testing.assert_allclose(sums.squares, ((K * np.outer(v, v)) ** 2).sum(), rtol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_factor_has_the_sums_of_its_matrix(weighted, rng):
    """A kernel of low rank needs no rectangles for explicit columns, swaps of pairs among them."""
    factor, W = LowRank(rng.normal(size=(12, 3))), rng.normal(size=(12, 4))
    v = rng.uniform(1.0, 2.0, 12) if weighted else None
    ((quadratic, sums),) = column_sums(factor, W, None, v)
    ((dense, dense_sums),) = column_sums(factor.pairs(), W, None, v)
    np.testing.assert_allclose(quadratic, dense, atol=1e-12)
    for a, b in zip(sums, dense_sums, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    np.testing.assert_allclose(pair_sums(factor), pair_sums(factor.pairs()), atol=1e-13)
    K = factor.columns @ factor.columns.T
    np.testing.assert_allclose(pair_sums(factor), [sum(K[i, 6 + i] for i in range(6))], atol=1e-13)


def test_centred_moments_against_the_centred_matrix(rng):
    A = rng.normal(size=(9, 9))
    H = np.eye(9) - 1 / 9
    for K in (A @ A.T, 1e-3 * A @ A.T):
        bare = K - np.diag(K.diagonal())
        sums = KernelSums(bare.sum(axis=1), K.diagonal(), float((bare**2).sum()))
        trace, norm = statistics.centred_moments(sums)
        np.testing.assert_allclose([trace, norm], [np.trace(H @ K @ H), ((H @ K @ H) ** 2).sum()])


@pytest.mark.parametrize(("n", "entry"), [(8, 1.0), (20, 1e5 / 3.0), (20, 1e-5 / 3.0), (22, 1e9 / 7.0)])
def test_rows_that_are_all_equal_have_no_centred_moments(n, entry):
    """Also where rounding leaves something of the trace: of 20 times 33,333.3, 2.3e-10."""
    sums = KernelSums(np.full(n, (n - 1) * entry), np.full(n, entry), n * (n - 1) * entry**2)
    assert statistics.centred_moments(sums) == (0.0, 0.0)


# Identities.


def test_the_biased_mmd_is_a_squared_distance_of_embeddings(rng):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(9, 3)) + 0.5
    K = reference.gram(reference.gaussian(np.eye(3)), np.concatenate([x, y]), np.concatenate([x, y]))
    w = np.repeat([1 / 7, -1 / 9], [7, 9])
    value = mmd(x, y, Gaussian(1.0), statistic="biased")
    assert value == pytest.approx(w @ K @ w, abs=1e-13)
    assert value > 0.0


def test_the_biased_hsic_is_a_trace(rng):
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    K, L = (reference.gram(reference.gaussian(np.eye(s.shape[1])), s, s) for s in (x, y))
    H = np.eye(9) - 1 / 9
    expected = np.trace(K @ H @ L @ H) / 81
    assert hsic(x, y, Gaussian(1.0), statistic="biased") == pytest.approx(expected, abs=1e-14)


def test_a_distance_induced_kernel_gives_the_energy_distance(rng):
    # E|x-y| = (0 + 2 + 1 + 1)/4 = 1, E|x-x'| = 1/2, E|y-y'| = 1
    assert mmd([0.0, 1.0], [0.0, 2.0], induced, statistic="biased") == pytest.approx(0.5, abs=1e-13)
    assert reference.energy_distance([0.0, 1.0], [0.0, 2.0]) == pytest.approx(0.5)
    x, y = rng.normal(size=8), rng.normal(size=6) + 1.0
    value = mmd(x, y, induced, statistic="biased")
    assert value == pytest.approx(reference.energy_distance(x, y), abs=1e-12)
    assert value == pytest.approx(energy_distance(x, y) ** 2, abs=1e-12)  # SciPy gives its square root


def test_integer_weights_are_repeated_rows(rng):
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
    u, v = rng.integers(1, 4, 6), rng.integers(1, 4, 5)
    weighted = mmd(x, y, Gaussian(1.0), statistic="biased", weights=(u, v))
    repeated = mmd(np.repeat(x, u, axis=0), np.repeat(y, v, axis=0), Gaussian(1.0), statistic="biased")
    assert weighted == pytest.approx(repeated, abs=1e-13)


@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
def test_equal_weights_are_no_weights(statistic, rng):
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(9, 2))
    plain = mmd_test(x, y, kernel="median", statistic=statistic, rng=0, n_resamples=99)
    threes = (np.full(12, 3.0), np.full(9, 3.0))
    weighted = mmd_test(x, y, kernel="median", statistic=statistic, rng=0, n_resamples=99, weights=threes)
    np.testing.assert_allclose(weighted.null_distribution, plain.null_distribution, atol=1e-13)
    assert weighted.pvalue == plain.pvalue


def test_unbiased_means_unbiased(rng):
    """The mean over all labelings of one pool (MMD²) and over all pairings (HSIC) is 0."""
    x, y = rng.normal(size=(3, 1)), rng.normal(size=(4, 1)) + 1.0
    result = mmd_test(x, y, kernel=Gaussian(1.0), rng=0)
    assert result.enumerated
    assert len(result.null_distribution) == 35
    assert result.null_distribution.mean() == pytest.approx(0.0, abs=1e-14)
    result = hsic_test(rng.normal(size=5), rng.normal(size=5), kernel=Gaussian(1.0), rng=0)
    assert len(result.null_distribution) == 120
    assert result.null_distribution.mean() == pytest.approx(0.0, abs=1e-14)


# Units.

UNITS = {
    "tiny": (1e-12, 0.0),
    "huge": (1e12, 0.0),
    "shifted": (1.0, 4096.0),
    "of their own": (np.array([1e-12, 1e12, 3.0]), np.array([0.0, 0.0, -64.0])),
}


def table(rng, n):
    """On a grid, so that a shift loses no digits."""
    return np.round(rng.normal(size=(n, 3)) * 2**20) / 2**20


@pytest.mark.parametrize("word", ["median", "fused"])
@pytest.mark.parametrize("units", UNITS)
def test_units_and_shifts_do_not_change_the_two_sample_test(word, units, rng):
    scale, shift = UNITS[units]
    x, y = table(rng, 15), 1.3 * table(rng, 12)
    y = np.round(y * 2**20) / 2**20
    plain = mmd_test(x, y, kernel=word, n_resamples=99, rng=0)
    moved = mmd_test(x * scale + shift, y * scale + shift, kernel=word, n_resamples=99, rng=0)
    assert moved.pvalue == plain.pvalue
    assert moved.statistic == pytest.approx(plain.statistic, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("units", UNITS)
def test_units_and_shifts_do_not_change_the_independence_test(units, rng):
    scale, shift = UNITS[units]
    x = table(rng, 15)
    y = table(rng, 15)[:, 0]
    plain = hsic_test(x, y, kernel="median", n_resamples=99, rng=0)
    moved = hsic_test(x * scale + shift, y, kernel="median", n_resamples=99, rng=0)
    assert moved.pvalue == plain.pvalue
    assert moved.statistic == pytest.approx(plain.statistic, rel=1e-6, abs=1e-9)


def test_units_and_shifts_do_not_change_the_fused_independence_test(rng):
    x, y = table(rng, 14)[:, :2], table(rng, 14)[:, 0]
    plain = hsic_test(x, y, n_resamples=99, rng=0)
    moved = hsic_test(x * np.array([1e-12, 1e12]), 1e9 * y, n_resamples=99, rng=0)
    assert moved.pvalue == plain.pvalue


# Digits.


@pytest.mark.parametrize("ell", [1e2, 1e3, 1e4, 1e6])
def test_a_very_wide_kernel_keeps_its_digits(ell, rng):
    """As ℓ → ∞ MMD² → (mean difference)²/ℓ² and HSIC → (covariance)²/ℓ⁴: nothing is lost against 1."""
    x, y = rng.normal(size=(40, 1)), rng.normal(size=(40, 1)) + 0.5
    linear = mmd_test(x, y, kernel=lambda a, b: a @ b.T, rng=0)
    wide = mmd_test(x, y, kernel=Gaussian(ell), rng=0)
    assert wide.statistic * ell**2 == pytest.approx(linear.statistic, rel=20.0 / ell**2 + 1e-7)
    assert wide.pvalue == pytest.approx(linear.pvalue, abs=0.01)
    together = hsic_test(x, x + y, kernel=Gaussian(ell), rng=0)
    plain = hsic_test(x, x + y, kernel=lambda a, b: a @ b.T, rng=0)
    assert together.statistic * ell**4 == pytest.approx(plain.statistic, rel=100.0 / ell**2 + 1e-6)


def test_a_very_narrow_kernel_keeps_its_digits(rng):
    """In a hundred dimensions all entries off the diagonal are tiny, and exact."""
    x, y = rng.normal(size=(30, 100)), 0.7 * rng.normal(size=(30, 100))
    z = np.concatenate([x, y])
    K = np.array([[np.exp(-0.5 * ((a - b) ** 2).sum()) for b in z] for a in z])
    labels = np.repeat([True, False], 30)
    result = mmd_test(x, y, kernel=Gaussian(1.0), rng=0)
    assert result.statistic == pytest.approx(reference.mmd2_loops(K, labels, biased=False), rel=1e-9)
    assert result.pvalue < 0.2


def test_a_common_offset_costs_no_digits(rng):
    x, y = np.round(rng.normal(size=(2, 20, 3)) * 64) / 64  # exact in binary, also after the shift
    near = mmd_test(x, y, kernel=Gaussian(0.3), rng=0)
    far = mmd_test(x + 2.0**33, y + 2.0**33, kernel=Gaussian(0.3), rng=0)
    assert far.statistic == pytest.approx(near.statistic, rel=1e-12)


def test_the_whitened_member_is_the_quadratic_form_it_says(rng):
    """dᵀ(Σ + ρI)⁻¹d with the pooled covariance of the features, divided by N."""
    features = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    labels = rng.permutation(np.repeat([1.0, 0.0], [20, 30]))
    mean = features.mean(axis=0)
    columns = (features - mean) @ feature_spectrum(features - mean, mean).whitening(0.1)
    K = columns @ columns.T
    d = features[labels == 1.0].mean(axis=0) - features[labels == 0.0].mean(axis=0)
    covariance = np.cov(features.T, bias=True)
    inverse = np.linalg.inv(covariance + 0.1 * np.trace(covariance) * np.eye(4))
    assert reference.mmd2_loops(K, labels > 0.5, biased=True) == pytest.approx(d @ inverse @ d)


# Low rank.


def test_features_converge_to_the_kernel(rng):
    x = rng.normal(size=(12, 2))
    for kernel, exact in (
        (Gaussian([0.7, 2.0]), reference.gaussian(np.diag([0.49, 4.0]))),
        (Matern32(1.0), reference.matern(1.0, 1.5)),
    ):
        factor = random_features(kernel, x, 40_000, np.random.default_rng(0))
        K = reference.gram(exact, x, x)
        np.testing.assert_allclose(factor.columns @ factor.columns.T, K, atol=5 / np.sqrt(20_000))
        np.testing.assert_allclose(factor.diagonal, 1.0, atol=1e-9)


def test_smooth_kernels_become_factors_and_rough_ones_do_not(rng):
    x = rng.normal(size=(60, 1))
    members = (kernel_pairs(Matern32(0.01), x), kernel_pairs(Gaussian(4.0), x))
    found = with_low_rank(members, large=10)
    (smooth, [place]) = next(pair for pair in found if isinstance(pair[0], LowRank))
    assert place == 1
    assert smooth.columns.shape[1] < 20
    assert [places for member, places in found if not isinstance(member, LowRank)] == [[0]]
    space = make_space(x, np.array([False]))
    both = with_low_rank((space_pairs(space, np.array([0.001, 4.0, 0.002])),), large=10)
    assert sorted(tuple(places) for _, places in both) == [(0, 2), (1,)]  # dense ones stay together
    assert [places for _, places in with_low_rank(members)] == [[0], [1]]  # few rows stay as they are
    assert not any(isinstance(member, LowRank) for member, _ in with_low_rank(members))


def serve(K):
    return matrix_pairs(lambda rows, columns: K[np.ix_(rows, columns)], K.diagonal().copy())


def mmd2_of(member, labelings, v):
    forms = label_forms(member, labelings, v, None)
    return np.concatenate([np.atleast_2d(statistics.mmd2(each, biased=False)) for each in forms])


@pytest.mark.parametrize("word", [Gaussian(4.0), [Gaussian(3.0), Matern32(0.5)], "median", "fused"])
@pytest.mark.parametrize("weighted", [False, True])
def test_low_rank_and_dense_have_the_same_sums(word, weighted, rng):
    """Whatever the members of a test are made of, MMD² of every labeling is the same."""
    x = rng.normal(size=(70, 2))
    v = rng.uniform(1.0, 2.0, 70) if weighted else None
    labels = rng.permutation(np.repeat([1.0, 0.0], [40, 30]))
    procedure = read_procedure("unbiased", "permutation", 9, None, None, rng)
    members = choose(word, make_space(x, np.array([False, False])), procedure).members
    low = with_low_rank(members, large=10)
    for star in (draw_star(70, 60, rng), draw_star(70, 200, rng)):
        labelings = Labelings(labels, star)
        truth = [mmd2_of(serve(K), labelings, v)[0] for K in matrices(map(computed, members))]
        for member, places in low:
            for place, found in zip(places, mmd2_of(member, labelings, v), strict=True):
                np.testing.assert_allclose(found, truth[place], atol=1e-9)


def test_gaussians_of_one_space_share_their_distances(rng):
    space, other = (make_space(rng.normal(size=(30, 2)), np.array([False, False])) for _ in range(2))
    apart = (
        space_pairs(space, np.array([2.0])),
        LowRank(rng.normal(size=(30, 2))),
        space_pairs(other, np.array([1.0])),
        space_pairs(space, np.array([0.3, 0.1])),
    )
    members, home = joined(apart)
    assert len(members) == 3
    assert home == [0, 3, 4, 1, 2]
    before = matrices(apart)
    for place, K in zip(home, matrices(members), strict=True):
        np.testing.assert_allclose(K - K[0, 0], before[place] - before[place][0, 0], atol=1e-14)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("kernels", [(8.0, 8.0), (8.0, 0.3), (0.3, 8.0)])
def test_hsic_of_factors_is_that_of_matrices(kernels, biased, rng):
    x = rng.normal(size=(80, 1))
    y = np.sin(2.0 * x) + rng.normal(size=(80, 1))
    dense = [kernel_pairs(Gaussian(ell), side) for ell, side in zip(kernels, (x, y), strict=True)]
    low = [computed(with_low_rank((pairs,), large=10)[0][0]) for pairs in dense]
    assert all(isinstance(member, LowRank) for member in low)
    star = draw_star(80, 99, rng)
    found = hsic_values(*low, star, biased=biased, batch=None)
    truth = hsic_values(*dense, star, biased=biased, batch=None)
    np.testing.assert_allclose(found.statistics, truth.statistics, atol=1e-10)


def test_a_function_that_is_not_positive_definite_stays_dense(rng):
    """-|a - b| is a good kernel for differences of samples, and no F Fᵀ."""
    x = rng.normal(size=(20, 1))
    pairs = function_pairs(lambda a, b: -np.abs(a - b.T), x)
    assert with_low_rank((pairs,), large=10) == [(pairs, [0])]

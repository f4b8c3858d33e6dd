"""One kernel over all pairs of rows: loops, hand-worked values, and the identities that define MMD²."""

import numpy as np
import pytest
from scipy.stats import energy_distance
from tests import reference
from tests.testing.alike import table_kernel

from kembed import Gaussian, Matern32, mmd_test
from kembed.features import kernel as strips
from kembed.features.kernel import kernel_matrix
from kembed.testing import dense


def linear(a, b):
    return a @ b.T


def induced(a, b):
    """The kernel that the distance |a - b| induces, on one column."""
    return np.abs(a) + np.abs(b).T - np.abs(a - b.T)


def mmd(x, y, kernel, **options):
    return mmd_test(x, y, kernel=kernel, n_resamples=19, rng=0, **options).statistic


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


# Loops.


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (5, 5), (9, 4)])
def test_mmd_of_every_labeling_against_loops(n, m, weighted, biased, rng, monkeypatch):
    monkeypatch.setattr(strips, "STRIP", 3 * (n + m))  # three rows at a time
    x = rng.normal(size=(n + m, 2))
    K = reference.gram(reference.matern(1.3, 1.5), x, x)
    v = rng.uniform(0.5, 2.0, n + m) if weighted else None
    labels = np.stack([rng.permutation([1.0] * n + [0.0] * m) for _ in range(7)], axis=1)
    values, entry = dense.mmd2(kernel_matrix(Matern32(1.3), x), labels, v, biased=biased)
    expected = [reference.mmd2_loops(K, a > 0.5, v, biased=biased) for a in labels.T]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    off = K[~np.eye(n + m, dtype=bool)]
    assert entry == pytest.approx(np.sqrt(np.mean(off**2)))
    first = labels[:, 0] == 1.0
    weights = None if v is None else (v[first], v[~first])
    found = mmd(x[first], x[~first], Matern32(1.3), statistic=("unbiased", "biased")[biased], weights=weights)
    assert found == pytest.approx(expected[0], abs=1e-12)


@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize("strata", [False, True])
def test_mmd_within_strata_and_of_clusters_against_loops(clusters, strata, rng):
    """|Σ_s c_s (mean of x in s - mean of y in s)|² of the three features of a linear kernel."""
    unit = np.repeat(np.arange(12), [1, 2, 3, 1, 4, 2, 1, 3, 2, 2, 1, 4])
    stratum, label = (unit // 4) * strata, unit % 2
    F, first = rng.normal(size=(len(unit), 3)), label == 0
    options = {"unit": (unit[first], unit[~first])} if clusters else {}
    if strata:
        options["strata"] = (stratum[first], stratum[~first])
    found = mmd_test(F[first], F[~first], kernel=linear, n_resamples=19, rng=0, **options)
    total, precision = np.zeros(3), 0.0
    for s in set(stratum.tolist()):
        a, b = (first & (stratum == s)), (~first & (stratum == s))
        p = a.sum() * b.sum() / (a.sum() + b.sum())
        total, precision = total + p * (F[a].mean(axis=0) - F[b].mean(axis=0)), precision + p
    if clusters or strata:
        assert found.statistic == pytest.approx(np.square(total / precision).sum())
        assert found.name == "biased MMD²"
    else:
        assert found.statistic == pytest.approx(reference.mmd2_loops(F @ F.T, first, biased=False))


@pytest.mark.parametrize("strip", [1, 33, 2**22])
def test_sums_in_strips_against_the_matrix(strip, rng, monkeypatch):
    monkeypatch.setattr(strips, "STRIP", strip)
    x, W, v = rng.normal(size=(11, 2)), rng.normal(size=(11, 4)), rng.uniform(1.0, 2.0, 11)
    K = reference.gram(reference.gaussian(0.25 * np.eye(2)), x, x)
    sums = dense.matrix_sums(kernel_matrix(Gaussian(0.5), x), W, v)
    np.testing.assert_allclose(sums.diagonal, np.ones(11))
    np.fill_diagonal(K, 0.0)
    np.testing.assert_allclose(sums.quadratic, np.einsum("ic,ij,jc->c", W, K, W), atol=1e-12)
    np.testing.assert_allclose(sums.rows, K @ v, atol=1e-12)
    assert sums.squares == pytest.approx(np.square(K).sum())


def test_centred_moments_against_the_centred_matrix(rng):
    A = rng.normal(size=(9, 9))
    H = np.eye(9) - 1 / 9
    for K in (A @ A.T, 1e-3 * A @ A.T):
        matrix = kernel_matrix(table_kernel(K), np.arange(9.0)[:, None])
        found = dense.centred_moments(dense.matrix_sums(matrix, np.zeros((9, 0))))
        np.testing.assert_allclose(found, [np.trace(H @ K @ H), ((H @ K @ H) ** 2).sum()])


@pytest.mark.parametrize(("n", "entry"), [(8, 1.0), (20, 1e5 / 3.0), (20, 1e-5 / 3.0), (22, 1e9 / 7.0)])
def test_rows_that_are_all_equal_have_no_centred_moments(n, entry):
    """Also where rounding leaves something of the trace: of 20 times 33,333.3, 2.3e-10."""
    sums = dense.MatrixSums(
        np.zeros(0), np.full(n, (n - 1) * entry), np.full(n, entry), n * (n - 1) * entry**2
    )
    assert dense.centred_moments(sums) == (0.0, 0.0)


# Identities.


def test_the_biased_mmd_is_a_squared_distance_of_embeddings(rng):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(9, 3)) + 0.5
    K = reference.gram(reference.gaussian(np.eye(3)), np.concatenate([x, y]), np.concatenate([x, y]))
    w = np.repeat([1 / 7, -1 / 9], [7, 9])
    value = mmd(x, y, Gaussian(1.0), statistic="biased")
    assert value == pytest.approx(w @ K @ w, abs=1e-13)
    assert value > 0.0


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


# Units and digits.

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


def test_unbiased_means_unbiased(rng):
    """The mean over all labelings of one pool is 0."""
    result = mmd_test(rng.normal(size=(3, 1)), rng.normal(size=(4, 1)) + 1.0, kernel=Gaussian(1.0), rng=0)
    assert result.enumerated
    assert len(result.null_distribution) == 35
    assert result.null_distribution.mean() == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("ell", [1e2, 1e3, 1e4, 1e6])
def test_a_very_wide_kernel_keeps_its_digits(ell, rng):
    """As ℓ → ∞ MMD² → (mean difference)²/ℓ²: nothing is lost against 1."""
    x, y = rng.normal(size=(40, 1)), rng.normal(size=(40, 1)) + 0.5
    plain, wide = (mmd_test(x, y, kernel=kernel, rng=0) for kernel in (linear, Gaussian(ell)))
    assert wide.statistic * ell**2 == pytest.approx(plain.statistic, rel=20.0 / ell**2 + 1e-7)
    assert wide.pvalue == pytest.approx(plain.pvalue, abs=0.01)


def test_uneven_weights_do_not_count_as_rounding(rng):
    """Statistics are compared with the size of an entry, which weights do not change."""
    x, labels = rng.normal(size=(40, 1)), np.repeat([1.0, 0.0], 20)[:, None]
    matrix, v = kernel_matrix(Gaussian(1.0), x), np.where(np.arange(40) % 10, 1e-4, 1.0)
    entries = [dense.mmd2(matrix, labels, weights, biased=True)[1] for weights in (None, v, 1e-6 * v)]
    np.testing.assert_allclose(entries, entries[0])


@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_approximate_nulls_report_what_was_learned(rng, null):
    x, y = rng.normal(size=(30, 1)), rng.normal(size=(30, 1))
    result = mmd_test(x, y, kernel="bkl", statistic="unbiased", null=null, rng=0)
    assert len(result.learned) == 1
    assert not result.averaged

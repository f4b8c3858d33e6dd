"""Series: how long they remember, what the wild bootstrap lacks, and the laws of both."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from tests import reference
from tests.testing.alike import table_kernel

from kembed import Gaussian
from kembed.features.kernel import kernel_matrix
from kembed.permutation import nulls, series
from kembed.permutation.rings import draw_shifts
from kembed.permutation.series import (
    LEADING,
    MOST,
    PRODUCTS,
    SHORTEST,
    Persistence,
    automatic_memory,
    crossed,
    lack,
    persistence,
    principal_features,
    wild_columns,
)


def one(r):
    return Persistence(np.ones(1), np.array([r]))


def autoregressions(n, r, count, seed=0):
    noise = np.random.default_rng(seed).normal(size=(n, count))
    noise[1:] *= np.sqrt(1.0 - r**2)
    return lfilter([1.0], [1.0, -r], noise, axis=0)


# What draws lack.


@pytest.mark.parametrize(("n", "a", "r"), [(2, 0.3, 0.6), (7, 0.5, 0.0), (12, 0.9, 0.5), (9, 0.2, 0.95)])
def test_what_draws_lack_against_loops(n, a, r):
    found = lack(n, -1.0 / np.log(a), one(r))
    assert (found.variance, found.drawn) == pytest.approx(reference.wild_lack_loops(n, a, r), rel=1e-10)


def test_two_rows_by_hand():
    """R = [1 r; r 1] and HAH = (1-a)/2 [1 -1; -1 1]: 1'R1/2 = 1 + r, trace(HAHR)/2 = (1-a)(1-r)/2."""
    found = lack(2, 1.0 / np.log(4.0), one(0.5))
    assert found.variance == pytest.approx(1.5)
    assert found.drawn == pytest.approx(0.75 * 0.5 / 2)
    assert found.factor == pytest.approx(8.0)
    assert found.freedom == pytest.approx(1.0)  # one difference


@pytest.mark.parametrize(("n", "memory", "r"), [(50, 3.0, 0.5), (100, 10.0, 0.0), (100, 20.0, 0.9)])
def test_degrees_of_freedom_are_about_those_of_the_quadratic_form(n, memory, r):
    steps, H = np.arange(n), np.eye(n) - 1.0 / n
    M = H @ toeplitz(np.exp(-steps / memory)) @ H @ toeplitz(r**steps)
    exact = np.trace(M) ** 2 / np.sum(M * M.T)
    assert lack(n, memory, one(r)).freedom == pytest.approx(exact, rel=0.2)


def test_many_features_count_by_their_shares():
    both = Persistence(np.array([0.75, 0.25]), np.array([0.8, 0.1]))
    parts = [lack(40, 3.0, one(r)) for r in both.correlation]
    found = lack(40, 3.0, both)
    assert found.variance == pytest.approx(0.75 * parts[0].variance + 0.25 * parts[1].variance)
    assert found.drawn == pytest.approx(0.75 * parts[0].drawn + 0.25 * parts[1].drawn)
    alike = Persistence(np.full(4, 0.25), np.full(4, 0.3))  # as sure as four estimates together
    assert lack(40, 3.0, alike).freedom == pytest.approx(4.0 * lack(40, 3.0, one(0.3)).freedom)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.9])
def test_draws_are_as_large_as_means_are(r):
    """The mean of the squared weighted sum is the variance of the sum of the series itself."""
    n, count = 40, 4_000
    x = autoregressions(n, r, count)
    for memory in (None, 2.0, 15.0):
        (W,) = wild_columns([n], [one(r)], count, memory, np.random.default_rng(1), tails=False)
        wanted = np.sum(toeplitz(r ** np.arange(n)))
        assert np.square((W * x).sum(axis=0)).mean() == pytest.approx(wanted, rel=0.1)


def test_plain_weights_are_too_small():
    """What all this is for: with a memory of √n and r = .9, forty rows say a quarter of what they should."""
    n, count = 40, 4_000
    W = nulls.wild_weights(n, count, np.sqrt(n), np.random.default_rng(1))
    drawn = np.square((W * autoregressions(n, 0.9, count)).sum(axis=0)).mean()
    assert drawn / np.sum(toeplitz(0.9 ** np.arange(n))) == pytest.approx(
        1.0 / lack(n, np.sqrt(n), one(0.9)).factor, rel=0.1
    )
    assert lack(n, np.sqrt(n), one(0.9)).factor > 4.0


def test_tails_are_those_of_a_t():
    """One factor a draw, common to both series: ν/χ²_ν with the ν of both estimates together."""
    how, sizes = [one(0.6), one(0.6)], [30, 30]
    plain, heavy = (
        wild_columns(sizes, how, 20_000, 5.0, np.random.default_rng(3), tails) for tails in (False, True)
    )
    ratios = [np.square(b / a) for a, b in zip(plain, heavy, strict=True)]
    np.testing.assert_allclose(ratios[0][0], ratios[1][3], rtol=1e-9)
    freedom = 2.0 * lack(30, 5.0, one(0.6)).freedom
    assert np.mean(1.0 / ratios[0][0]) == pytest.approx(1.0, rel=0.03)
    assert np.var(1.0 / ratios[0][0]) == pytest.approx(2.0 / freedom, rel=0.1)


def test_degrees_of_freedom_of_series_of_other_lengths():
    """Satterthwaite's, with the variance of either mean: 30 rows weigh against 10 as 1 to 3."""
    sizes, how = [30, 10], [one(0.6), one(0.2)]
    plain, heavy = (
        wild_columns(sizes, how, 20_000, 2.0, np.random.default_rng(3), tails) for tails in (False, True)
    )
    lacks = [lack(n, 2.0, each) for n, each in zip(sizes, how, strict=True)]
    means = [each.variance / n for n, each in zip(sizes, lacks, strict=True)]
    freedom = sum(means) ** 2 / sum(v**2 / each.freedom for v, each in zip(means, lacks, strict=True))
    ratio = np.square(plain[0][0] / heavy[0][0])
    assert np.var(ratio) == pytest.approx(2.0 / freedom, rel=0.05)
    usual = wild_columns(sizes, how, 20_000, 2.0, np.random.default_rng(3))  # tails by default
    np.testing.assert_array_equal(usual[1], heavy[1])


def test_a_memory_is_taken_as_it_is_up_to_a_thousand_times_the_rows():
    for memory, taken in ((15_000.0, 15_000.0), (30_000.0, 20_000.0)):
        (found,) = wild_columns([20], [one(0.0)], 2, memory, np.random.default_rng(0), tails=False)
        W = nulls.wild_weights(20, 2, taken, np.random.default_rng(0))
        np.testing.assert_allclose(found, W * np.sqrt(lack(20, taken, one(0.0)).factor))


def test_a_memory_beyond_all_rows_is_a_random_walk():
    found = [
        wild_columns([20], [one(0.5)], 50, memory, np.random.default_rng(0))[0] for memory in (1e7, 1e300)
    ]
    np.testing.assert_allclose(found[0], found[1])
    assert np.isfinite(found[0]).all()
    assert 0.1 < found[0].std() < 10.0


# How long rows remember.


def test_shares_and_correlations_against_loops(rng):
    F = np.cumsum(rng.normal(size=(25, 4)), axis=0) * [3.0, 1.0, 0.5, 0.1]
    F[:, 2] = rng.normal(size=25) * np.tile([1.0, -1.0], 13)[:25] + 5.0
    share, kept = reference.persistence_loops(F)
    found = series._last_step(F)
    np.testing.assert_allclose(found.share, share)
    np.testing.assert_allclose(found.correlation, kept)
    np.testing.assert_allclose(found.kept, np.maximum(kept, 0.0))


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_the_correlation_of_short_series_is_not_too_small(r):
    """Without what is added it would be off by (1 + 4r)/n: .11 at .8 and forty rows."""
    x = autoregressions(40, r, 2_000)
    assert series._last_step(x).correlation.mean() == pytest.approx(r, abs=0.03)


def test_what_is_drawn_against_a_loop(rng):
    F = rng.normal(size=(12, 3))
    centred = F - F.mean(axis=0)
    found = series._drawn(centred, -1.0 / np.log(0.7)) / np.square(centred).sum()
    assert found == pytest.approx(reference.weighted_variance_loops(F, 0.7))


def test_something_slow_under_noise_is_seen():
    """Half of the variance keeps .95 of the last step, half is noise: the last step alone says .475."""
    n, slow = 400, autoregressions(400, 0.95, 30)
    rows = slow + np.random.default_rng(1).normal(size=slow.shape)
    last, found = series._last_step(rows), persistence(rows)
    assert last.correlation.mean() == pytest.approx(0.475, abs=0.05)
    assert found.correlation.min() > 0.7
    np.testing.assert_array_equal(found.share, last.share)
    assert found.hidden == pytest.approx(found.mean_variance / last.mean_variance)
    assert (last.hidden, found.hidden > 2.0) == (1.0, True)
    # as much is drawn from the autoregression that stands for it
    low = float(found.correlation.min())
    wanted = reference.weighted_variance_loops(rows, float(np.exp(-1.0 / np.sqrt(n))))
    assert series._share_drawn(n, np.sqrt(n), one(low)) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.9])
def test_autoregressions_are_hardly_raised(r):
    """Many features of one series: what the last step says is nearly all there is."""
    x = autoregressions(300, r, 200)
    last, found = series._last_step(x), persistence(x)
    assert (found.correlation >= last.correlation).all()
    assert found.mean_variance < 1.35 * last.mean_variance


def test_a_random_walk_is_taken_for_no_more_than_the_most():
    found = persistence(np.linspace(0.0, 1.0, 10)[:, None])
    assert found.correlation[0] <= MOST
    assert found.mean_variance <= (1.0 + MOST) / (1.0 - MOST) + 1e-9


def test_rows_that_do_not_vary_remember_nothing(rng):
    for rows in (np.ones((5, 3)), np.ones((5, 1)), np.zeros((5, 0))):
        assert persistence(rows).correlation.tolist() == [0.0]
        assert persistence(rows).share.tolist() == [1.0]
        assert crossed(rows, rng.normal(size=(5, 2))).correlation.tolist() == [0.0, 0.0]
    assert one(0.0).mean_variance == one(-0.5).mean_variance == 1.0
    assert one(0.5).mean_variance == pytest.approx(3.0)


def test_units_of_features_do_not_matter(rng):
    rows = np.cumsum(rng.normal(size=(30, 2)), axis=0)
    slow = autoregressions(30, 0.95, 2) + rng.normal(size=(30, 2))  # raised
    for F in (rows, slow):
        here, there = persistence(F), persistence(F * 2.0**-40)
        np.testing.assert_allclose(there.share, here.share)
        np.testing.assert_allclose(there.correlation, here.correlation)
        assert there.hidden == pytest.approx(here.hidden)


def test_a_feature_that_does_not_vary_beside_one_that_does(rng):
    found = series._last_step(np.column_stack([rng.normal(size=20), np.ones(20)]))
    assert found.share.tolist() == [1.0, 0.0]
    assert found.correlation[1] == pytest.approx(1.0 / 20)  # none, and what is added


def test_more_is_not_drawn_than_the_rows_have():
    """With r at its bound the mean of three rows takes nearly all of what they vary by."""
    how = one(MOST)
    usual = lack(3, 1.0, how)
    assert usual.variance > 2.0
    assert series._share_drawn(3, 1.0, how) == pytest.approx(usual.drawn)  # beside one row, no fewer


def test_products_of_independent_features_keep_the_product():
    x, y = autoregressions(5_000, 0.9, 2), autoregressions(5_000, 0.8, 3, seed=1) * [1.0, 0.7, 0.5]
    found = crossed(x, y)
    wanted = np.multiply.outer(persistence(x).share, persistence(y).share).ravel()
    np.testing.assert_allclose(found.share, np.sort(wanted)[::-1])
    np.testing.assert_allclose(found.correlation, 0.72, atol=0.06)
    turning = crossed(autoregressions(5_000, -0.8, 1), autoregressions(5_000, -0.9, 1, seed=1))
    np.testing.assert_allclose(turning.correlation, 0.72, atol=0.06)  # what turns round twice does not
    many = np.random.default_rng(0).normal(size=(50, 10))
    assert len(crossed(many, many[::-1]).share) == PRODUCTS
    assert crossed(many, many[::-1]).share.sum() == pytest.approx(1.0)


def test_products_of_two_oscillations_are_slow():
    """cos² has a part that does not turn: the product remembers more than its last step shows."""
    noise = np.random.default_rng(2).normal(size=(2, 2_000))
    x, y = lfilter([1.0], [1.0, -1.0, 0.8], noise)[:, :, None]
    assert crossed(x, y).correlation[0] > 0.5  # of the last step alone .556² = .31


def test_the_memory_is_that_of_andrews():
    """α(1) = 4r²/((1-r)²(1+r)²) for one autoregression (Andrews 1991, eq. 6.4): 16/9 at r = ½."""
    assert automatic_memory(100, one(0.5)) == pytest.approx((100 * 16.0 / 9.0) ** (1.0 / 3.0))
    assert automatic_memory(800, one(0.5)) == pytest.approx(2.0 * automatic_memory(100, one(0.5)))
    assert automatic_memory(100, one(0.0)) == SHORTEST
    assert automatic_memory(20, one(0.95)) == 5.0  # a quarter of the rows
    assert automatic_memory(20, one(0.05)) == pytest.approx((20 * 0.01 / 0.9975**2) ** (1.0 / 3.0))  # .59
    # Two by hand, r = 1/2 and 1/3: 4r²/(1-r)⁴ is 16 and 9/4, (1+r)²/(1-r)² is 9 and 4.
    two = Persistence(np.array([0.75, 0.25]), np.array([1 / 2, 1 / 3]))
    alpha = (9 / 16 * 16 + 1 / 16 * 9 / 4) / (9 / 16 * 9 + 1 / 16 * 4)
    assert automatic_memory(100, two) == pytest.approx((100 * alpha) ** (1.0 / 3.0))
    small = Persistence(np.array([1.0, 1e-9]), np.array([0.5, 0.9]))
    assert automatic_memory(100, small) == pytest.approx(automatic_memory(100, one(0.5)), rel=1e-6)


def matrix_of(K):
    return kernel_matrix(table_kernel(K), np.arange(float(len(K)))[:, None])


def test_principal_features_are_those_of_the_centred_matrix(rng):
    matrix, H = kernel_matrix(Gaussian(1.5), rng.normal(size=(60, 1))), np.eye(60) - 1.0 / 60
    K = H @ matrix.whole() @ H
    F = principal_features(matrix)
    wanted = np.linalg.eigvalsh(K)[::-1]
    np.testing.assert_allclose(np.square(F).sum(axis=0), wanted[: F.shape[1]], rtol=1e-8)
    assert np.linalg.eigvalsh(K - F @ F.T).max() < 2e-6 * wanted[0] + wanted[F.shape[1]]


def test_principal_features_have_the_size_of_the_kernel(rng):
    K = Gaussian(0.3).gram(rng.normal(size=(12, 1)))
    F = principal_features(matrix_of(K))
    assert F.shape == (12, LEADING)
    tiny = principal_features(matrix_of(K * 2.0**-60))
    np.testing.assert_allclose(np.abs(tiny), np.abs(F) * 2.0**-30, rtol=1e-6, atol=1e-17)


def test_features_are_kept_down_to_a_millionth_of_the_largest():
    """Orthogonal features of mean 0: those of 2e-6 and of less, beside 1."""
    H = np.linalg.qr(np.column_stack([np.ones(8), np.eye(8)[:, :4]]))[0][:, 1:]
    F = principal_features(matrix_of((H * [1.0, 0.5, 2e-6, 0.5e-6]) @ H.T))
    np.testing.assert_allclose(np.square(F).sum(axis=0), [1.0, 0.5, 2e-6], rtol=1e-6)


def test_principal_features_of_many_rows_come_near(rng):
    matrix, H = kernel_matrix(Gaussian(1.0), rng.normal(size=(400, 1))), np.eye(400) - 1.0 / 400
    F = principal_features(matrix)
    F = F - F.mean(axis=0)
    wanted = np.linalg.eigvalsh(H @ matrix.whole() @ H)[::-1]
    np.testing.assert_allclose(np.linalg.eigvalsh(F.T @ F)[::-1][:4], wanted[:4], rtol=0.02)


def test_a_kernel_without_any_variation_has_no_features():
    assert principal_features(matrix_of(np.ones((6, 6)))).shape == (6, 0)


# Shifts.


def test_shifts_are_turns_in_order_of_time():
    star = draw_shifts(5, 99, np.random.default_rng(0))
    turned = [np.roll(np.arange(5), -k) for k in range(5)]
    np.testing.assert_array_equal(star.orders, turned)
    some = draw_shifts(50, 9, np.random.default_rng(0))
    assert some.count == 10
    assert len(set(some.chosen.tolist())) == 9

"""Every erratum of the paper: the printed formula is wrong, the corrected one is what we compute.

The numbers are those of the list in docs; claims A and B at the end are about the objective itself.
"""

import math

import numpy as np
import pytest
from scipy import integrate, optimize
from tests import reference as ref

from kembed import Gaussian, GaussianMeasure, Lebesgue, empirical, log_pseudolikelihood, shrinkage


def data(n, D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


def library_log_volume(x, z, lengthscale):
    """log gamma at one point: the objective of one row without its Gaussian part."""
    x = np.atleast_2d(x)
    K = ref.gram(ref.gaussian(lengthscale**2 * np.eye(x.shape[1])), z, x)
    R = Gaussian(lengthscale).convolved(Lebesgue()).gram(z)
    value = log_pseudolikelihood(x, kernel=Gaussian(lengthscale), noise=1.0, landmarks=z)
    return value - ref.log_density_full(K, R, 1.0)


# ------------------------------------------------------------------ 1 and 2: the volume element


def test_1_volume_element():
    """Entry (i, j) is sum_l k^2 (x_i - z_li)(x_j - z_lj)/l^4, not (x_i - z_lj)^2."""
    length, z = 0.8, data(5, 2, 1)
    for x in data(5, 2):
        k = ref.gaussian(length**2 * np.eye(2))
        corrected = sum(k(x, p) ** 2 * np.outer(x - p, x - p) / length**4 for p in z)
        truth = ref.log_volume_fd(k, x, z)  # from finite differences, whatever the formula
        assert 0.5 * np.linalg.slogdet(corrected)[1] == pytest.approx(truth, rel=1e-10)
        assert library_log_volume(x, z, length) == pytest.approx(truth, rel=1e-10)
        printed = ref.volume_printed(x, z, length)
        assert math.isnan(printed) or abs(printed / math.exp(truth) - 1) > 0.01


def test_1_by_hand():
    """x = (1, 0), z = (0, 0) and (1, 1), l = 1: J'J = I/e, but the printed matrix is singular."""
    x, z = np.array([1.0, 0.0]), np.array([[0.0, 0.0], [1.0, 1.0]])
    assert library_log_volume(x, z, 1.0) == pytest.approx(-1.0, rel=1e-12)
    assert ref.volume_printed(x, z, 1.0) < 1e-7


def test_2_sign_of_the_derivative():
    x, z = data(1, 2)[0], data(4, 2, 1)
    k = ref.gaussian(0.64 * np.eye(2))
    J = ref.jacobian_fd(k, x, z)
    minus = np.array([-k(x, p) * (x - p) / 0.64 for p in z])
    np.testing.assert_allclose(minus, J, rtol=1e-12)
    assert np.abs(-minus - J).max() > 0.1  # as printed, without the minus
    np.testing.assert_allclose((-minus).T @ (-minus), J.T @ J, rtol=1e-12)  # harmless to gamma


# ------------------------------------------------------------------ 3: multiplicity


@pytest.mark.parametrize(("n", "m"), [(5, 3), (3, 5), (6, 2)])
def test_3_multiplicity_of_the_noise_eigenvalue(n, m):
    z = np.linspace(-2, 2, m)[:, None]
    R = Gaussian(0.7).convolved(Lebesgue()).gram(z)
    eigenvalues = np.linalg.eigvalsh(ref.full_covariance(R, n, 0.1))
    count = int(np.sum(np.abs(eigenvalues - 0.1) < 1e-10))
    assert count == m * (n - 1)
    assert count != n * (m - 1)
    top = n * np.linalg.eigvalsh(R) + 0.1
    np.testing.assert_allclose(eigenvalues[count:], top, rtol=1e-10)


# ------------------------------------------------------------------ 4: completing the square


def test_4_centre_of_the_completed_square():
    rng = np.random.default_rng(4)
    Sigma, eta = np.array([[1.2, 0.3], [0.3, 0.6]]), 1.3
    inv = np.linalg.inv
    S = inv(2 * inv(Sigma) + np.eye(2) / eta**2)
    x, y = rng.normal(size=2), rng.normal(size=2)
    right, printed = S @ inv(Sigma) @ (x + y), inv(S) @ inv(Sigma) @ (x + y)

    def exponent(u):
        return (x - u) @ inv(Sigma) @ (x - u) + (y - u) @ inv(Sigma) @ (y - u) + u @ u / eta**2

    def completed(u, m):
        middle = (x + y) / 2
        rest = 0.5 * (x - y) @ inv(Sigma) @ (x - y)
        rest += middle @ inv(Sigma / 2 + eta**2 * np.eye(2)) @ middle
        return rest + (u - m) @ inv(S) @ (u - m)

    us = rng.normal(size=(5, 2))
    np.testing.assert_allclose([completed(u, right) for u in us], [exponent(u) for u in us], rtol=1e-12)
    assert min(abs(completed(u, printed) - exponent(u)) for u in us) > 0.1
    # r itself, which the paper prints correctly, is what we compute, and what quadrature says
    r = Gaussian(covariance=Sigma).convolved(GaussianMeasure.unnormalised(eta, 2))
    paper = 2 * math.pi * math.sqrt(np.linalg.det(S)) * math.exp(-0.5 * completed(right, right))
    assert float(r(x, y)) == pytest.approx(paper, rel=1e-12)
    brute = integrate.dblquad(
        lambda b, a: math.exp(-0.5 * exponent(np.array([a, b]))), -8, 8, -8, 8, epsabs=1e-9
    )[0]
    assert float(r(x, y)) == pytest.approx(brute, rel=1e-7)  # the quadrature's own accuracy


# ------------------------------------------------------------------ 5: the 1/n of the embedding


def test_5_shrinkage_needs_the_mean_not_the_sum():
    x, lam = data(7, 1), 0.05
    k = ref.gaussian(0.49)
    values = shrinkage(x, Gaussian(0.7), lam).mean(x)
    operator = ref.skmse_weights_operator(k, x, lam)  # Sigma (Sigma + lam)^-1 applied to the mean
    np.testing.assert_allclose(values, operator, rtol=1e-9)  # a square root of K costs digits
    with_the_sum = 7 * operator
    assert np.abs(values / with_the_sum - 1).min() > 0.8
    # as lam -> 0 the estimator must become the empirical embedding, as the printed one does not
    limit = shrinkage(x, Gaussian(0.7), 1e-13).mean(x)
    np.testing.assert_allclose(limit, empirical(x, Gaussian(0.7)).mean(x), rtol=1e-6)


# ------------------------------------------------------------------ 6: the Stan program


def stan_case(n=6, m=4, length=0.7, seed=0):
    x, z = data(n, 1, seed), np.linspace(-1.5, 1.5, m)[:, None]
    k, r = ref.gaussian(length**2), ref.convolved_gaussian_lebesgue(length**2, length**2)
    return x, z, ref.gram(k, x, z), ref.gram(r, z, z)


def test_6a_half_of_the_log_is_not_the_log_of_half():
    x, z, K, _ = stan_case()
    J = K**2 * (x - z.T) ** 2 / 0.7**4
    for row, sums in zip(x, J.sum(axis=1), strict=True):
        truth = ref.log_volume_fd(ref.gaussian(0.49), row, z)
        assert 0.5 * math.log(sums) == pytest.approx(truth, rel=1e-10)
        assert abs(math.log(0.5 * sums) - truth) > 0.1
        assert library_log_volume(row, z, 0.7) == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize("tau2", [0.07, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_6b_6c_quadratic_form(seed, tau2):
    x, z, K, R = stan_case(seed=seed)
    C = ref.full_covariance(R, 6, tau2)
    v = K.flatten()  # row-major n x m is column-major m x n
    exact, logdet = v @ np.linalg.solve(C, v), np.linalg.slogdet(C)[1]
    repaired = ref.stan_quadratic_repaired(K, R, 6, 4, tau2)
    printed = ref.stan_quadratic_as_printed(K, R, 6, 4, tau2)
    assert repaired[0] == pytest.approx(exact, rel=1e-10)
    assert repaired[1] == pytest.approx(logdet, rel=1e-10)
    assert abs(printed[0] / exact - 1) > 0.1
    # the library agrees with the repaired listing
    value = log_pseudolikelihood(x, kernel=Gaussian(0.7), noise=tau2, landmarks=z)
    value -= sum(ref.log_volume_fd(ref.gaussian(0.49), row, z) for row in x)
    expected = -0.5 * (repaired[0] + repaired[1] + 24 * math.log(2 * math.pi))
    assert value == pytest.approx(expected, rel=1e-10)


def test_6b_6c_at_the_size_of_the_example():
    x, z = data(50, 1), np.linspace(-2, 2, 20)[:, None]
    K, R = ref.gram(ref.gaussian(0.49), x, z), ref.gram(ref.gaussian(0.98), z, z)
    mu = K.mean(axis=0)
    exact = mu @ np.linalg.solve(R + np.eye(20) / 50, mu) + np.sum((K - mu) ** 2)
    assert ref.stan_quadratic_repaired(K, R, 50, 20, 1.0)[0] == pytest.approx(exact, rel=1e-10)
    # the listing's eigenvectors of the matrix of ones are arbitrary, but it is never near
    assert abs(ref.stan_quadratic_as_printed(K, R, 50, 20, 1.0)[0] / exact - 1) > 0.1


def test_6b_alone_and_6c_alone_do_not_repair_it():
    _, _, K, R = stan_case()
    n, m, tau2 = 6, 4, 0.07
    exact = ref.stan_quadratic_repaired(K, R, n, m, tau2)[0]
    Q1, (e2, Q2) = np.linalg.eigh(np.ones((n, n)))[1], np.linalg.eigh(R)
    squares = ((Q2.T @ K.T) @ Q1) ** 2  # m x n
    first, last = np.eye(n)[0] * n, np.eye(n)[-1] * n
    only_c = np.sum(squares / (np.outer(e2, first) + tau2))
    only_b = np.sum(squares.flatten(order="F") / (np.outer(e2, last) + tau2).flatten())
    both = np.sum(squares / (np.outer(e2, last) + tau2))
    assert both == pytest.approx(exact, rel=1e-10)
    assert abs(only_b / exact - 1) > 0.1
    assert abs(only_c / exact - 1) > 0.1


def test_6d_prefactor_of_r():
    """The listing has exp(-d^2/4l^2); the integral is sqrt(pi) l times that."""
    length, x, y = 0.3, np.array([0.2]), np.array([0.5])
    brute = ref.convolved(ref.gaussian(length**2), "lebesgue", 1)(x, y)
    listed = math.exp(-((x[0] - y[0]) ** 2) / (4 * length**2))
    assert math.sqrt(math.pi) * length * listed == pytest.approx(brute, rel=1e-10)
    assert float(Gaussian(length).convolved(Lebesgue())(x, y)) == pytest.approx(brute, rel=1e-10)
    assert abs(listed / brute - 1) > 0.1


@pytest.mark.parametrize("distance", [26.0, 27.6, 40.0])
def test_6e_the_listing_underflows(distance):
    z = np.array([[0.0], [-0.5]])
    K = np.exp(-((distance - z[:, 0]) ** 2) / 2)
    listed = float(np.sum(K * K * (distance - z[:, 0]) ** 2))
    assert (listed == 0.0) == (distance > 27)  # its logarithm is then -inf
    truth = ref.log_volume_gaussian_mp([distance], z, 1.0)
    assert library_log_volume([distance], z, 1.0) == pytest.approx(truth, rel=1e-12)


# ------------------------------------------------------------------ 7: Figure 1


def test_7_the_two_lengthscales_of_figure_1_are_different_priors():
    correlations = []
    for length in (0.25, 0.1):
        r = Gaussian(length).convolved(Lebesgue())
        correlations.append(float(r([0.0], [0.25]) / r([0.0], [0.0])))
    np.testing.assert_allclose(correlations, [math.exp(-1 / 4), math.exp(-25 / 16)], rtol=1e-12)


def test_7_mmd_of_the_paper_is_the_square_of_our_distance():
    x, y = data(6, 1), data(5, 1, 1) + 1.0
    k = ref.gaussian(1.0)
    squared = ref.gram(k, x, x).mean() - 2 * ref.gram(k, x, y).mean() + ref.gram(k, y, y).mean()
    distance = empirical(x, Gaussian(1.0)).distance(empirical(y, Gaussian(1.0)))
    assert distance**2 == pytest.approx(squared, rel=1e-12)
    assert abs(distance / squared - 1) > 0.1


# ------------------------------------------------------------------ what measuring taught us


@pytest.mark.parametrize(("D", "m"), [(1, 6), (2, 8)])
def test_claim_a_with_the_noise_free_and_no_prior_it_is_unbounded(D, m):
    """Along l -> infinity with tau^2 at its best, the objective grows like 2n(m-D) log l."""
    n = 40
    x, z = data(n, D), data(m, D, 1)

    def best(length):
        def loss(log_noise):
            return -log_pseudolikelihood(x, kernel=Gaussian(length), noise=math.exp(log_noise), landmarks=z)

        guess = -4 * math.log(length)  # features deviate from 1 by l^-2
        found = optimize.minimize_scalar(loss, bounds=(guess - 6, guess + 6), method="bounded")
        assert abs(found.x - guess) < 5
        return -found.fun

    values = [best(length) for length in (10.0, 30.0, 90.0, 270.0)]
    slopes = np.diff(values) / math.log(3)
    assert (np.abs(slopes - 2 * n * (m - D)) < 3 * m).all(), slopes  # the prior's part is O(m)
    assert values[-1] - values[0] > 1000


def test_claim_a_the_paper_s_priors_move_the_joint_maximum_to_2n_m_minus_d():
    """Gamma(1, 1) on l takes l off an objective that grows like 2n(m-D) log l: 120 here."""
    n, m = 20, 4
    x, z = data(n, 1), data(m, 1, 1)

    def loss(logs):
        length, noise = np.exp(logs)
        value = log_pseudolikelihood(x, kernel=Gaussian(length), noise=noise, landmarks=z)
        return length + noise - float(value)

    found = optimize.minimize(loss, np.log([30.0, 1e-6]), method="Nelder-Mead", options={"xatol": 1e-4})
    assert np.exp(found.x[0]) == pytest.approx(2 * n * (m - 1), rel=0.05)
    assert np.exp(found.x[1]) < 1e-6


def test_claim_b_with_unit_noise_the_lengthscale_follows_the_landmarks():
    """Landmarks at quantiles; model.md measured 0.28, 0.16, 0.08 with its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    x = (x - x.mean()) / x.std()
    grid = np.exp(np.linspace(math.log(0.02), math.log(3.0), 31))
    best = []
    for m in (10, 20, 50):
        z = np.quantile(x, (np.arange(m) + 0.5) / m)
        values = [log_pseudolikelihood(x, kernel=Gaussian(length), noise=1.0, landmarks=z) for length in grid]
        best.append(grid[int(np.argmax(values))])
    assert (np.diff(best) < 0).all(), best
    np.testing.assert_allclose(best, [0.28, 0.16, 0.08], rtol=0.4)

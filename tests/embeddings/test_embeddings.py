"""Embeddings against the slow reference: estimates, posteriors, inner products, calibration."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests import reference as ref

from kembed import (
    EmpiricalMeasure,
    Gaussian,
    GaussianMeasure,
    Lebesgue,
    Matern12,
    Matern32,
    MultiScale,
    choose_landmarks,
    empirical,
    fit_embedding,
    median_lengthscale,
    shrinkage,
)
from kembed.embeddings.empirical import WeightedEmbedding, row_blocks, weighted_sum
from kembed.embeddings.posterior import condition, feature_moments
from kembed.embeddings.shrinkage import leave_one_out_risk

CENTRE, SPREAD = np.array([0.3, -0.2]), np.array([[1.5, -0.4], [-0.4, 0.7]])


def make_measure(name, D):
    """(the library's measure, the reference's measure)."""
    if name == "lebesgue":
        return Lebesgue(), "lebesgue"
    c, V = CENTRE[:D], SPREAD[:D, :D]
    return GaussianMeasure(c, V, 2.0), (c, V, 2.0)


def make_kernel(name, D):
    """(the library's kernel, its terms (weight, covariance))."""
    if name == "ard":
        scales = np.array([0.7, 1.1])[:D]
        return Gaussian(scales), [(1.0, np.diag(scales**2))]
    scales, weights = [0.4, 1.3], [0.3, 0.9]
    terms = [(w, s**2 * np.eye(D)) for s, w in zip(scales, weights, strict=True)]
    return MultiScale(scales, weights), terms


def k_of(terms):
    return ref.sum_of(*(ref.scaled(ref.gaussian(V), w) for w, V in terms))


def r_of(terms, measure):
    """The prior covariance, term by term in closed form."""
    parts = []
    for w, A in terms:
        for v, B in terms:
            if measure == "lebesgue":
                part = ref.convolved_gaussian_lebesgue(A, B)
            else:
                part = ref.convolved_gaussian_measure(A, B, *measure)
            parts.append(ref.scaled(part, w * v))
    return ref.sum_of(*parts)


def data(n, D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


LANDMARKS = {
    1: np.array([[-1.5], [-0.4], [0.5], [1.6]]),
    2: np.array([[-1.2, 0.1], [0.3, 1.1], [0.9, -0.8], [-0.2, -0.3]]),
}


# ------------------------------------------------------------------ empirical and shrinkage


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", ["ard", "multiscale"])
def test_empirical_is_the_average(D, name):
    kernel, terms = make_kernel(name, D)
    x, s = data(9, D), data(5, D, 1)
    np.testing.assert_allclose(empirical(x, kernel).mean(s), ref.empirical(k_of(terms), x, s), rtol=1e-13)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_shrinkage_weights_and_values(D, lam):
    kernel, k = Matern12(0.8), ref.matern(0.8, 0.5)
    x, s = data(8, D), data(4, D, 1)
    mu = shrinkage(x, kernel, lam)
    beta = ref.skmse_weights(k, x, lam)
    np.testing.assert_allclose(mu.weights, beta, rtol=1e-11)
    np.testing.assert_allclose(mu.mean(s), ref.gram(k, s, x) @ beta, rtol=1e-11)
    np.testing.assert_allclose(mu.mean(x), ref.skmse_weights_operator(k, x, lam), rtol=1e-11)
    # the identity itself: (K + n lam I) beta = mu_hat
    left = (ref.gram(k, x, x) + 8 * lam * np.eye(8)) @ mu.weights
    np.testing.assert_allclose(left, ref.empirical(k, x, x), rtol=1e-12)
    assert mu.shrinkage == lam


def test_no_shrinkage_is_the_empirical_embedding():
    x = data(6, 2)
    np.testing.assert_array_equal(shrinkage(x, Gaussian(1.0), 0.0).weights, np.full(6, 1 / 6))


@pytest.mark.parametrize("D", [1, 2])
def test_leave_one_out_risk_against_refitting(D):
    x = data(9, D)
    grid = np.logspace(-6, 3, 10)
    fast = leave_one_out_risk(Matern32(0.7).gram(x), grid)
    slow = [ref.skmse_loo(ref.matern(0.7, 1.5), x, lam) for lam in grid]
    np.testing.assert_allclose(fast, slow, rtol=1e-10)


def test_leave_one_out_risk_with_duplicates_and_no_shrinkage():
    x = data(9, 1)
    x[4:7] = x[3]
    K = Gaussian(0.7).gram(x)
    limit = 0.0  # lam -> 0: the plain mean of the others
    for i in range(9):
        rest = [j for j in range(9) if j != i]
        limit += (K[np.ix_(rest, rest)].mean() - 2 * K[rest, i].mean() + K[i, i]) / 9
    assert leave_one_out_risk(K, np.array([1e-14]))[0] == pytest.approx(limit, rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_chosen_shrinkage_minimises_the_risk(seed):
    x = data(7, 1, seed)
    k = ref.matern(0.6, 0.5)
    mu = shrinkage(x, Matern12(0.6))
    at_choice = ref.skmse_loo(k, x, mu.shrinkage)
    grid = np.logspace(-4, 3, 141)
    risks = [ref.skmse_loo(k, x, lam) for lam in grid]
    assert at_choice <= min(risks) * (1 + 1e-10)
    assert abs(math.log(mu.shrinkage / grid[int(np.argmin(risks))])) < math.log(grid[1] / grid[0])
    np.testing.assert_allclose(mu.weights, ref.skmse_weights(k, x, mu.shrinkage), rtol=1e-11)


def test_shrinkage_is_the_posterior_with_k_for_r():
    class Unconvolved(Gaussian):
        def convolved(self, measure):
            return self

    x, s, tau2 = data(8, 2), data(5, 2, 1), 0.3
    posterior = fit_embedding(x, Unconvolved(0.5), noise=tau2, landmarks=x)
    np.testing.assert_allclose(
        posterior.mean(s), shrinkage(x, Gaussian(0.5), tau2 / 8**2).mean(s), rtol=1e-11
    )


@pytest.mark.parametrize("lam", [-1.0, math.nan, math.inf])
def test_bad_shrinkage_is_refused(lam):
    with pytest.raises(ValueError, match="lam must"):
        shrinkage(data(5, 1), Gaussian(1.0), lam)


# ------------------------------------------------------------------ posterior

NOISES = ["number", "vector", "diagonal", "full"]


def make_noise(name, k, x, z):
    """(argument for the library, covariance of mu_hat(z))."""
    if name == "number":
        return 0.2, 0.2 / len(x) * np.eye(len(z))
    if name == "vector":
        values = np.linspace(0.1, 0.4, len(z))
        return values, np.diag(values) / len(x)
    if name == "diagonal":
        return name, np.diag(ref.noise_diagonal(k, x, z)) / len(x)
    return name, ref.noise_full(k, x, z) / len(x)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("measure", ["lebesgue", "gaussian"])
@pytest.mark.parametrize(("D", "name"), [(1, "ard"), (2, "ard"), (1, "multiscale"), (2, "multiscale")])
@pytest.mark.parametrize("prior", ["zero", "function", "empirical", "posterior"])
def test_posterior(noise, measure, D, name, prior):
    kernel, terms = make_kernel(name, D)
    nu, nu_ref = make_measure(measure, D)
    k, r = k_of(terms), r_of(terms, nu_ref)
    x, z, s = data(8, D), LANDMARKS[D], data(5, D, 1)
    given, cov = make_noise(noise, k, x, z)

    other = data(4, D, 2)
    means = {
        "zero": (None, lambda p: 0.0),
        "function": (lambda p: np.sin(p[:, 0]), lambda p: np.sin(p[:, 0])),
        "empirical": (empirical(other, kernel), lambda p: ref.empirical(k, other, p)),
        "posterior": (
            fit_embedding(other, kernel, noise=0.5, landmarks=z[:2], measure=nu),
            lambda p: ref.posterior(
                ref.gram(r, z[:2], z[:2]),
                ref.gram(r, p, z[:2]),
                ref.gram(r, p, p),
                0.5 / 4 * np.eye(2),
                ref.empirical(k, other, z[:2]),
            )[0],
        ),
    }
    prior_mean, prior_ref = means[prior]
    mu = fit_embedding(x, kernel, noise=given, landmarks=z, measure=nu, prior_mean=prior_mean)
    mean, covariance = ref.posterior(
        ref.gram(r, z, z),
        ref.gram(r, s, z),
        ref.gram(r, s, s),
        cov,
        ref.empirical(k, x, z),
        prior_ref(z),
        prior_ref(s),
    )
    size = np.abs(covariance).max()
    np.testing.assert_allclose(mu.mean(s), mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mu.covariance(s), covariance, rtol=1e-10, atol=1e-12 * size)
    np.testing.assert_allclose(mu.sd(s), np.sqrt(np.diag(covariance)), rtol=1e-9)
    np.testing.assert_allclose(mu.noise / mu.n, cov, rtol=1e-12, atol=1e-16)
    assert mu.jitter == 0.0
    lower, upper = mu.interval(s, level=0.8)
    np.testing.assert_allclose((lower + upper) / 2, mu.mean(s), rtol=1e-12, atol=1e-15)


def test_default_measure_is_placed_by_the_data():
    x, s = data(10, 2), data(4, 2, 1)
    default = fit_embedding(x, Gaussian(0.8), noise=0.1, landmarks=LANDMARKS[2])
    V = np.cov(x, rowvar=False, ddof=0)
    r = ref.convolved_gaussian_measure(0.64 * np.eye(2), 0.64 * np.eye(2), x.mean(axis=0), V, 1.0)
    z = LANDMARKS[2]
    mean, _ = ref.posterior(
        ref.gram(r, z, z),
        ref.gram(r, s, z),
        ref.gram(r, s, s),
        0.01 * np.eye(4),
        ref.empirical(ref.gaussian(0.64 * np.eye(2)), x, z),
    )
    np.testing.assert_allclose(default.mean(s), mean, rtol=1e-10)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("noise", ["full", "diagonal", 0.3])
def test_interval_has_the_level_in_the_middle(level, noise):
    """Normal under given noise; estimated noise: Student's t and four pseudo-rows."""
    mu, s = fit_embedding(data(20, 1), Gaussian(0.8), landmarks=LANDMARKS[1], noise=noise), data(3, 1, 1)
    lower, upper = mu.interval(s, level=level)
    law, width = (stats.norm, 1.0) if noise == 0.3 else (stats.t(df=19), math.sqrt(24 / 20))
    for low, high, mean, sd in zip(lower, upper, mu.mean(s), mu.sd(s), strict=True):
        assert law.cdf((low - mean) / (width * sd)) == pytest.approx((1 - level) / 2, rel=1e-10)
        assert law.sf((high - mean) / (width * sd)) == pytest.approx((1 - level) / 2, rel=1e-10)


@pytest.mark.parametrize("level", [0.0, 1.0, 90, -0.1, math.nan])
def test_bad_levels_are_refused(level):
    mu = fit_embedding(data(20, 1), Gaussian(0.8))
    with pytest.raises(ValueError, match="level must"):
        mu.interval([[0.0]], level=level)


def test_little_noise_interpolates_and_much_noise_returns_the_prior():
    x, z, s = data(15, 1), LANDMARKS[1], data(5, 1, 1)
    hat = empirical(x, Gaussian(0.6))

    def prior(p):
        return np.cos(p[:, 0])

    # the mean at z is off by A^-1 noise, and |A^-1| is about 1 here
    exact = fit_embedding(x, Gaussian(0.6), noise=1e-13, landmarks=z, prior_mean=prior)
    np.testing.assert_allclose(exact.mean(z), hat.mean(z), atol=1e-11)
    assert exact.sd(z).max() < 1e-6
    vague = fit_embedding(x, Gaussian(0.6), noise=1e13, landmarks=z, prior_mean=prior)
    np.testing.assert_allclose(vague.mean(s), prior(s), atol=1e-11)
    r = Gaussian(0.6).convolved(vague.measure)
    np.testing.assert_allclose(vague.sd(s), np.sqrt(r.diagonal(s)), rtol=1e-11)


def test_plug_in_noise_needs_two_rows():
    with pytest.raises(ValueError, match="at least 2 rows"):
        fit_embedding([[0.0]], Gaussian(1.0), noise="full")
    assert fit_embedding([[0.0]], Gaussian(1.0), noise=1.0).n == 1


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("fulll", "noise must be one of"),
        (0.0, "positive"),
        (-1.0, "positive"),
        (np.ones(3), r"shape \(4,\)"),
        (np.ones((4, 4)), "a number or a vector"),
    ],
)
def test_bad_noise_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        fit_embedding(data(6, 1), Gaussian(1.0), noise=noise, landmarks=LANDMARKS[1])


@pytest.mark.parametrize("D", [1, 2])
def test_duplicate_landmarks_give_a_reported_jitter(D):
    x = data(8, D)
    z = np.repeat(LANDMARKS[D], 3, axis=0)
    mu = fit_embedding(x, Gaussian(0.7), noise=1e-30, landmarks=z)
    size = float(np.mean(Gaussian(0.7).convolved(mu.measure).diagonal(z)))
    assert 0.0 < mu.jitter <= 1e-8 * size * (1 + 1e-12)
    s = data(5, D, 1)
    for values in (mu.mean(s), mu.sd(s), mu.covariance(s)):
        assert np.isfinite(values).all()
    # copies add nothing: the answer stays that of the distinct landmarks, up to the jitter
    plain = fit_embedding(x, Gaussian(0.7), noise=1e-30, landmarks=LANDMARKS[D])
    np.testing.assert_allclose(mu.mean(s), plain.mean(s), atol=1e-6)


# ------------------------------------------------------------------ draws


def check_draws(draws, mean, covariance):
    """Mean and covariance of Gaussian draws by chi-squared tests; false alarm below 1e-4 each."""
    N, p = draws.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert N * np.sum(white.mean(axis=1) ** 2) < stats.chi2.isf(1e-4, p)
    scatter = (white @ white.T - N * np.eye(p)) / math.sqrt(N)  # entries N(0, 1), N(0, 2) on diagonal
    total = np.sum(np.tril(scatter, -1) ** 2) + np.sum(np.diag(scatter) ** 2) / 2
    assert total < stats.chi2.isf(1e-4, p * (p + 1) / 2)


def test_posterior_and_prior_draws():
    kernel, terms = make_kernel("multiscale", 1)
    nu, nu_ref = make_measure("gaussian", 1)
    k, r = k_of(terms), r_of(terms, nu_ref)
    x, z, s = data(8, 1), LANDMARKS[1], np.array([[-2.5], [0.0], [2.2]])

    def prior(p):
        return 0.1 * p[:, 0]

    mu = fit_embedding(x, kernel, noise=0.5, landmarks=z, measure=nu, prior_mean=prior)
    mean, covariance = ref.posterior(
        ref.gram(r, z, z),
        ref.gram(r, s, z),
        ref.gram(r, s, s),
        0.5 / 8 * np.eye(4),
        ref.empirical(k, x, z),
        prior(z),
        prior(s),
    )
    check_draws(mu.sample(s, 20_000, rng=1), mean, covariance)
    check_draws(mu.prior_sample(s, 20_000, rng=2), prior(s), ref.gram(r, s, s))


def test_draws_follow_the_generator():
    mu, s = fit_embedding(data(20, 1), Gaussian(0.8)), data(4, 1, 1)
    for draw in (mu.sample, mu.prior_sample):
        first = draw(s, 3, rng=5)
        assert first.shape == (3, 4)
        np.testing.assert_array_equal(first, draw(s, 3, rng=np.random.default_rng(5)))
        assert not np.array_equal(first, draw(s, 3, rng=6))
        assert not np.array_equal(draw(s, 3), draw(s, 3))  # fresh entropy
    assert not np.array_equal(mu.sample(s, 3, rng=5), mu.prior_sample(s, 3, rng=5))


@pytest.mark.parametrize("prior", [False, True])
def test_intervals_cover_when_the_model_is_true(prior):
    """mu drawn from the prior, mu_hat(z) = mu(z) + noise: 90% intervals must cover 90%."""
    repetitions, n, tau2, level = 500, 10, 0.4, 0.9
    z, s = LANDMARKS[1], np.array([[-0.9], [0.1], [2.4]])
    r = r_of([(1.0, [[0.64]])], (CENTRE[:1], SPREAD[:1, :1], 2.0))
    nu, _ = make_measure("gaussian", 1)
    both = np.concatenate([s, z])

    def m(p):
        return 0.3 * p[:, 0] if prior else np.zeros(len(p))

    rng = np.random.default_rng(3)
    root = np.linalg.cholesky(ref.gram(r, both, both))
    truth = m(both) + rng.normal(size=(repetitions, 7)) @ root.T
    observed = truth[:, 3:] + math.sqrt(tau2 / n) * rng.normal(size=(repetitions, 4))
    covered = np.zeros(3)
    for true, hat in zip(truth[:, :3], observed, strict=True):
        noise = tau2 * np.eye(len(z))
        mu = condition(Gaussian(0.8), nu, z, n, hat, noise, "given", m if prior else None)
        lower, upper = mu.interval(s, level)
        covered += (lower <= true) & (true <= upper)
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], repetitions, level)
    assert ((covered >= low) & (covered <= high)).all(), covered / repetitions


# ------------------------------------------------------------------ inner products


@pytest.mark.parametrize("D", [1, 2])
def test_distance_of_empirical_embeddings_is_the_biased_mmd(D):
    kernel, terms = make_kernel("multiscale", D)
    k = k_of(terms)
    x, y = data(6, D), data(5, D, 1) + 1.0
    v = sum(k(a, b) for a in x for b in x) / 36
    v += sum(k(a, b) for a in y for b in y) / 25
    v -= 2 * sum(k(a, b) for a in x for b in y) / 30
    mu, eta = empirical(x, kernel), empirical(y, kernel)
    assert mu.distance(eta) ** 2 == pytest.approx(v, rel=1e-12)
    assert mu.norm() ** 2 == pytest.approx(np.mean(ref.gram(k, x, x)), rel=1e-12)
    s = data(3, D, 2)
    np.testing.assert_allclose((mu - eta)(s), mu.mean(s) - eta.mean(s), rtol=1e-15)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("measure", ["lebesgue", "gaussian"])
def test_inner_product_with_an_empirical_embedding_is_evaluation(D, measure):
    """<k(., x), r(., z)> = r(x, z), so <empirical, mu> averages mu over the data."""
    kernel, _ = make_kernel("multiscale", D)
    nu, _ = make_measure(measure, D)
    x, y = data(6, D), data(5, D, 1)
    prior = empirical(y[:2], kernel)
    posterior = fit_embedding(x, kernel, noise=0.2, landmarks=LANDMARKS[D], measure=nu, prior_mean=prior)
    eta = shrinkage(y, kernel, 0.1)
    expected = eta.weights @ posterior.mean(y)
    assert eta.inner(posterior) == pytest.approx(expected, rel=1e-12)
    assert posterior.inner(eta) == pytest.approx(expected, rel=1e-12)


MEASURE_PAIRS = [("lebesgue", "lebesgue"), ("lebesgue", "gaussian"), ("gaussian", "gaussian")]


def triple_of(terms, measure1, measure2):
    """int int k(z,u) k(u,u') k(u',z') nu(du) nu'(du') as a Gaussian integral over (u, u')."""
    inv, det = np.linalg.inv, np.linalg.det

    def one(P, Q, S, z, z2):
        D = len(z)
        H = np.block([[P + Q, -Q], [-Q, Q + S]])
        linear, constant, front = np.concatenate([P @ z, S @ z2]), z @ P @ z + z2 @ S @ z2, 1.0
        for block, measure in ((slice(0, D), measure1), (slice(D, 2 * D), measure2)):
            if measure != "lebesgue":
                c, V, mass = measure
                H[block, block] += inv(V)
                linear[block] += inv(V) @ c
                constant += c @ inv(V) @ c
                front *= mass / math.sqrt(det(2 * math.pi * V))
        front *= math.sqrt(det(2 * math.pi * inv(H)))
        return front * math.exp(-0.5 * (constant - linear @ inv(H) @ linear))

    def t(z, z2):
        return sum(
            w1 * w2 * w3 * one(inv(A), inv(B), inv(C), z, z2)
            for w1, A in terms
            for w2, B in terms
            for w3, C in terms
        )

    return t


def test_closed_triple_against_quadrature():
    _, terms = make_kernel("ard", 1)
    nu = make_measure("gaussian", 1)[1]
    z, z2 = np.array([-0.4]), np.array([1.1])
    quadrature = ref.triple(k_of(terms), "lebesgue", nu, rel=1e-9)(z, z2)
    assert triple_of(terms, "lebesgue", nu)(z, z2) == pytest.approx(quadrature, rel=1e-8)


@pytest.mark.parametrize("measures", MEASURE_PAIRS)
@pytest.mark.parametrize("name", ["ard", "multiscale"])
@pytest.mark.parametrize("D", [1, 2])
def test_inner_product_of_posteriors(measures, name, D):
    kernel, terms = make_kernel(name, D)
    (nu1, nu1_ref), (nu2, nu2_ref) = (make_measure(m, D) for m in measures)
    z1, z2 = LANDMARKS[D][:2], LANDMARKS[D][1:4]
    mu = fit_embedding(data(6, D), kernel, noise=0.2, landmarks=z1, measure=nu1)
    eta = fit_embedding(data(5, D, 1), kernel, noise=0.3, landmarks=z2, measure=nu2)
    t = triple_of(terms, nu1_ref, nu2_ref)
    expected = mu.coefficients @ ref.gram(t, z1, z2) @ eta.coefficients
    assert mu.inner(eta) == pytest.approx(expected, rel=1e-10)
    assert eta.inner(mu) == pytest.approx(expected, rel=1e-10)


def test_distance_is_a_metric():
    kernel, _ = make_kernel("multiscale", 2)
    x = data(12, 2)
    fits = [
        fit_embedding(x, kernel, noise=0.2, landmarks=4),
        fit_embedding(x[:5] + 1.0, kernel, landmarks=3, measure=Lebesgue()),
        empirical(x[3:], kernel),
        shrinkage(x[:7] - 0.5, kernel, 0.2),
    ]
    d = np.array([[a.distance(b) for b in fits] for a in fits])
    assert np.diag(d).max() < 1e-7  # the root of rounding
    np.testing.assert_allclose(d, d.T, rtol=1e-10, atol=1e-7)
    assert d[~np.eye(4, dtype=bool)].min() > 1e-2
    for i in range(4):
        for j in range(4):
            assert (d[i, j] <= d[i] + d[:, j] + 1e-7).all()
            assert abs(fits[i].inner(fits[j])) <= fits[i].norm() * fits[j].norm() * (1 + 1e-10)


def test_different_kernels_have_no_inner_product():
    mu = empirical(data(4, 1), Gaussian(1.0))
    with pytest.raises(ValueError, match="different kernels"):
        mu.distance(empirical(data(4, 1), Gaussian(1.1)))
    with pytest.raises(TypeError, match="must be an embedding"):
        mu.distance(data(4, 1))
    plain = fit_embedding(data(4, 1), Gaussian(1.0), prior_mean=lambda p: np.zeros(len(p)))
    with pytest.raises(ValueError, match="prior_mean as an embedding"):
        plain.norm()


def gauss_hermite(mean, sd, kernel):
    """The embedding of N(mean, sd^2), exact to rounding for smooth kernels of this width."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    return WeightedEmbedding(kernel, (mean + sd * nodes)[:, None], weights / weights.sum())


def test_distance_of_two_normals():
    kernel = Gaussian(1.0)
    p, q = gauss_hermite(0.0, 1.0, kernel), gauss_hermite(0.7, 0.8, kernel)
    exact = ref.mmd2_gaussian_mixtures(1.0, [1.0], [[0.0]], [1.0], [1.0], [[0.7]], [0.64])
    assert p.distance(q) ** 2 == pytest.approx(exact, rel=1e-10)
    s = data(4, 1)
    truth = ref.true_embedding_gaussian_mixture(s, 1.0, [1.0], [[0.7]], [0.64])
    np.testing.assert_allclose(q.mean(s), truth, rtol=1e-10)


def test_shrinking_helps_on_average():
    kernel = Gaussian(0.5)
    truth = gauss_hermite(0.0, 1.0, kernel)
    rng = np.random.default_rng(0)
    gains = {"posterior": [], "shrinkage": []}
    for _ in range(200):
        x = rng.normal(size=(8, 1))
        plain = empirical(x, kernel).distance(truth) ** 2
        # the prior is placed by what is known of P, not by the sample
        posterior = fit_embedding(x, kernel, landmarks=x, measure=GaussianMeasure(0.0, 1.0))
        gains["posterior"].append(plain - posterior.distance(truth) ** 2)
        gains["shrinkage"].append(plain - shrinkage(x, kernel).distance(truth) ** 2)
    for gain in gains.values():  # four standard errors above nothing
        assert np.mean(gain) > 4 * np.std(gain) / math.sqrt(len(gain))


# ------------------------------------------------------------------ blocks and order


@pytest.mark.parametrize("entries", [1, 7, 40])
@pytest.mark.parametrize("measure", [None, Lebesgue(), EmpiricalMeasure(data(5, 2, 3))])
def test_blocks_do_not_matter(entries, measure):
    x, z, s = data(23, 2), data(6, 2, 1), data(11, 2, 2)
    weights = np.linspace(0.1, 1.0, 23)
    kernel = Gaussian(0.9)
    f = kernel if measure is None else kernel.convolved(measure)
    for points in (s, x, np.concatenate([x, x, s])):
        found = weighted_sum(f, points, x, weights, entries)
        np.testing.assert_allclose(found, f.gram(points, x) @ weights, rtol=1e-11, atol=1e-14)
    mean, covariance = feature_moments(kernel, x, z, want_covariance=True, entries=entries)
    features = kernel.gram(x, z)
    np.testing.assert_allclose(mean, features.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(features, rowvar=False), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_blocks_cover_all_rows_once_and_stay_small(size):
    blocks = list(row_blocks(137, 7, size))
    assert np.concatenate([np.arange(137)[block] for block in blocks]).tolist() == list(range(137))
    assert all(7 * (block.stop - block.start) <= max(size, 7) for block in blocks)


@pytest.mark.parametrize("landmarks", [None, 10, 1])
@pytest.mark.parametrize("D", [1, 3])
def test_landmarks_do_not_depend_on_row_order(landmarks, D):
    x = data(150, D)
    x[100:] = x[:50]
    chosen = choose_landmarks(x, landmarks)
    assert len(chosen) == (landmarks or 100)
    assert len(np.unique(chosen, axis=0)) == len(chosen)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(150)
        np.testing.assert_array_equal(choose_landmarks(x[order], landmarks), chosen)
    if landmarks == 10:
        assert not np.array_equal(choose_landmarks(x, landmarks, rng=1), chosen)


def test_posterior_does_not_depend_on_row_order():
    x, s = data(30, 2), data(5, 2, 1)
    order = np.random.default_rng(1).permutation(30)
    # a hundredth of the data is the noise's scale, so rounding is amplified a little
    mu, eta = (fit_embedding(rows, Gaussian(0.5), landmarks=8) for rows in (x, x[order]))
    np.testing.assert_array_equal(mu.landmarks, eta.landmarks)
    np.testing.assert_allclose(mu.mean(s), eta.mean(s), rtol=1e-10)
    np.testing.assert_allclose(mu.sd(s), eta.sd(s), rtol=1e-10)


# ------------------------------------------------------------------ median heuristic


@pytest.mark.parametrize("D", [1, 3])
def test_median_in_both_conventions(D):
    x = data(17, D)
    median = ref.median_pairwise(x)
    assert median_lengthscale(x) == pytest.approx(median, rel=1e-14)
    assert median_lengthscale(x, "half") == median_lengthscale(x)
    assert median_lengthscale(x, "full") == pytest.approx(median / math.sqrt(2), rel=1e-14)
    with pytest.raises(ValueError, match="convention"):
        median_lengthscale(x, "quarter")


def test_median_with_most_rows_equal():
    x = data(50, 2)
    x[:30] = x[0]
    # 60% of the rows equal: 36% of the pairs coincide, and the median is still positive
    assert median_lengthscale(x) == pytest.approx(ref.median_pairwise(x), rel=1e-14)
    x[:45] = x[0]
    assert ref.median_pairwise(x) == 0.0
    pairs = [np.linalg.norm(a - b) for i, a in enumerate(x) for b in x[:i] if (a != b).any()]
    assert median_lengthscale(x) == pytest.approx(float(np.median(pairs)), rel=1e-14)


@pytest.mark.parametrize("max_rows", [2, 5, 2_000])
def test_median_of_a_subsample_that_is_all_equal(max_rows):
    """A few different rows among very many equal ones: still a positive scale."""
    x = np.zeros(5_000)
    x[:3] = [1.0, 2.0, 4.0]
    value = median_lengthscale(x, max_rows=max_rows)
    assert 0.0 < value <= 4.0


def test_all_rows_equal_is_refused():
    with pytest.raises(ValueError, match="all rows of x are equal"):
        median_lengthscale(np.ones((10, 2)))


@pytest.mark.parametrize("c", [1e-200, 1e-12, 1e-6, 1e6, 1e12, 1e150])
def test_median_scales_with_the_data(c):
    x = data(20, 2)
    assert median_lengthscale(c * x) == pytest.approx(c * median_lengthscale(x), rel=1e-12)


def test_median_does_not_depend_on_row_order():
    x = data(300, 2)
    x[200:] = x[:100]
    order = np.random.default_rng(1).permutation(300)
    for max_rows in (2, 50, 299):
        assert median_lengthscale(x[order], max_rows=max_rows) == median_lengthscale(x, max_rows=max_rows)
    assert median_lengthscale(x[order]) == pytest.approx(median_lengthscale(x), rel=1e-14)
    # a subsample is close to the whole: the median of 1225 distances is good to a few percent
    assert median_lengthscale(x, max_rows=50) == pytest.approx(median_lengthscale(x), rel=0.2)


def test_default_intervals_cover_iid_data():
    """90% intervals with the plug-in covariance, 400 samples of n=100 from N(0,1): between 0.85 and 0.94.

    At one point coverage is binomial with standard error 0.015; the limits are 3.3 of them below and 2.7
    above the 0.90 that the benchmark finds (0.89-0.91), so a right program fails in under 1 of 200 seeds,
    and the diagonal model (0.3) and an interval of twice or half the width (0.99, 0.59) cannot pass.
    """
    rng = np.random.default_rng(5)
    truth = np.sqrt(0.5) * np.exp(-0.25)  # E exp(-(1 - X)²/2) for X ~ N(0, 1)
    covered = 0
    for _ in range(400):
        lower, upper = fit_embedding(rng.normal(size=100), Gaussian(1.0), landmarks=30).interval([[1.0]], 0.9)
        covered += bool(lower[0] < truth < upper[0])
    assert 0.85 < covered / 400 < 0.94


def test_default_posterior_against_many_digits():
    """Where the data are, double precision costs less than 2% of the posterior sd.

    r(z, z) of a smooth kernel is singular in double precision after a dozen landmarks; 50-digit arithmetic
    is not bothered by that.
    """
    x = np.random.default_rng(0).normal(size=(60, 1))
    ours = fit_embedding(x, Gaussian(1.0), landmarks=40)
    z, s = ours.landmarks[:, 0], [-1.0, 0.0, 1.5]
    with mpmath.workdps(50):
        centre, spread = (
            mpmath.mpf(float(ours.measure.centre[0])),
            mpmath.mpf(float(ours.measure.covariance[0, 0])),
        )

        def r(a, b):
            middle = (mpmath.mpf(a) + mpmath.mpf(b)) / 2 - centre
            exponent = (mpmath.mpf(a) - mpmath.mpf(b)) ** 2 / 4 + middle**2 / (1 + 2 * spread)
            return mpmath.exp(-exponent) / mpmath.sqrt(1 + 2 * spread)

        features = mpmath.matrix(
            [
                [mpmath.exp(-((mpmath.mpf(float(a)) - mpmath.mpf(float(b))) ** 2) / 2) for b in z]
                for a in x[:, 0]
            ]
        )
        mean = [sum(features[i, j] for i in range(60)) / 60 for j in range(40)]
        centred = mpmath.matrix([[features[i, j] - mean[j] for j in range(40)] for i in range(60)])
        A = mpmath.matrix([[r(float(a), float(b)) for b in z] for a in z]) + centred.T * centred / (59 * 60)
        for point in s:
            column = mpmath.matrix([r(float(a), point) for a in z])
            solved = mpmath.lu_solve(A, column)
            exact_mean = float(sum(solved[i] * mean[i] for i in range(40)))
            exact_sd = float(mpmath.sqrt(r(point, point) - (solved.T * column)[0]))
            assert abs(float(ours.mean([[point]])[0]) - exact_mean) < 0.02 * exact_sd
            assert float(ours.sd([[point]])[0]) == pytest.approx(exact_sd, rel=0.02)


def test_norms_of_matern_embeddings_are_finite():
    """Narrow components of precision 1e14 must not overflow; the norm agrees with an interpolant's."""
    x = np.random.default_rng(3).normal(size=(30, 1))
    kernel = Matern12(1.0)
    mu = fit_embedding(x, kernel, landmarks=3)
    grid = np.linspace(-12.0, 12.0, 1201)[:, None]
    values = mu.mean(grid)
    interpolant = np.sqrt(values @ np.linalg.solve(kernel.gram(grid), values))
    assert mu.norm() == pytest.approx(interpolant, rel=1e-3)  # grid step 0.02 lengthscales


@pytest.mark.parametrize("offset", [1e8, -1e12, 2.0**44])
def test_posterior_far_from_zero(offset, rng):
    x = (rng.normal(size=(60, 2)) * 64).round() / 64  # what stays of it beside 2^44
    here, there = (fit_embedding(x + at, Gaussian(1.0)) for at in (0.0, offset))
    assert there.mean(x[:5] + offset) == pytest.approx(here.mean(x[:5]), abs=2e-3)
    assert there.sd(x[:5] + offset) == pytest.approx(here.sd(x[:5]), abs=2e-3)


def test_posterior_of_numbers_without_squares(rng):
    with pytest.raises(ValueError, match="x has columns whose squares are beyond all floats"):
        fit_embedding(rng.normal(size=(20, 2)) * 1e200, Gaussian(1e200))

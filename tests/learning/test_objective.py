"""The normalised pseudolikelihood: features, determinants, price, Z, and the whole against slow loops."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import reference as ref

from kembed import (
    Gaussian,
    GaussianMeasure,
    Landmarks,
    Matern12,
    Matern32,
    Matern52,
    MultiScale,
    RationalQuadratic,
    choose_landmarks,
)
from kembed.core.linalg import robust_spread
from kembed.core.ordering import sorted_rows, sorted_to_rounding
from kembed.learning.families import Family
from kembed.learning.frame import Frame, isotropic_frame
from kembed.learning.integration import Rule, integration_rule
from kembed.learning.objective import log_plug, posterior_mean, row_features
from kembed.learning.prepare import data_scales
from kembed.learning.problem import Spec, objective, padded_problem, profile, size_class

pytestmark = pytest.mark.usefixtures("double_precision")

FULL = np.array([[0.9, 0.3, 0.1, 0, 0.2, 0, 0, 0.1]] + [[0.0] * 8] * 7)
FULL = FULL + FULL.T - np.diag(np.diagonal(FULL)) + np.diag([0.0, 1.2, 0.8, 1.5, 0.7, 1.1, 1.3, 0.9])
ARD = np.array([0.8, 1.3, 0.9, 1.6, 1.1, 0.7, 1.2, 1.5])
CLASSES = {
    "Gaussian": (Gaussian, lambda: ref.gaussian),
    "RationalQuadratic": (RationalQuadratic, lambda: lambda: ref.rational_quadratic(1.0, 0.7)),
    "Matern12": (Matern12, lambda: lambda: ref.matern(1.0, 0.5)),
    "Matern32": (Matern32, lambda: lambda: ref.matern(1.0, 1.5)),
    "Matern52": (Matern52, lambda: lambda: ref.matern(1.0, 2.5)),
}
SHAPES = ["isotropic", "ard", "full"]
KERNELS = [(name, shape) for name in CLASSES for shape in SHAPES] + [("MultiScale", "isotropic")]


def kernels(name, shape, D):
    """(the library's kernel, the reference's)."""
    if name == "MultiScale":
        return MultiScale([0.8, 2.5], [0.6, 0.4]), ref.multiscale([0.8, 2.5], [0.6, 0.4])
    scale = {"isotropic": 1.3, "ard": ARD[:D], "full": None}[shape]
    covariance = FULL[:D, :D] if shape == "full" else np.diag(np.full(D, scale) ** 2)
    rest = {"alpha": 0.7} if name == "RationalQuadratic" else {}
    where = {"covariance": covariance} if shape == "full" else {"lengthscale": scale}
    ours = CLASSES[name][0](**where, **rest)
    if name == "Gaussian":
        return ours, ref.gaussian(covariance)
    return ours, ref.warped(CLASSES[name][1]()(), covariance)


def rows_and_landmarks(D, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(3, D)), rng.normal(size=(D + 3, D))


# ------------------------------------------------------------------ features


@pytest.mark.parametrize("D", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("name", "shape"), KERNELS)
def test_features_against_loops(name, shape, D):
    """K, |φ|² and log γ to 1e-8; the differences of the Jacobian are taken at 90 digits."""
    X, Z = rows_and_landmarks(D)
    X = X[: 3 if D <= 3 else 1]  # the loop is slow
    ours, theirs = kernels(name, shape, D)
    found = row_features(ours, X, Z)
    K = ref.gram(theirs, X, Z)
    np.testing.assert_allclose(found.K, K, rtol=1e-8)
    np.testing.assert_allclose(found.squares, [sum(v * v for v in row) for row in K], rtol=1e-8)
    np.testing.assert_allclose(found.log_volume, [ref.log_volume_dense(theirs, x, Z) for x in X], atol=1e-8)


JAX_CASES = [("Gaussian", shape, D) for shape in SHAPES for D in (3, 8)] + [("Gaussian", "full", 5)]
JAX_CASES += [(name, "ard", 3) for name in CLASSES if name != "Gaussian"]
JAX_CASES += [("MultiScale", "isotropic", 2), ("Gaussian", "isotropic", 1)]


@pytest.mark.parametrize(("name", "shape", "D"), JAX_CASES)
def test_features_in_jax_are_those_in_numpy(name, shape, D):
    X, Z = rows_and_landmarks(D)
    kernel = kernels(name, shape, D)[0]
    found = jax.jit(row_features)(jax.tree.map(jnp.asarray, kernel), jnp.asarray(X), jnp.asarray(Z))
    for part, expected in zip(found, row_features(kernel, X, Z), strict=True):
        assert part.dtype == jnp.float64
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("D", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", [*CLASSES, "MultiScale"])
def test_rows_far_away_and_on_landmarks_are_finite(name, D):
    """From on a landmark to 1e6 radii away: never NaN, never infinite, ever less volume up to 1e4."""
    kernel, Z = kernels(name, "isotropic", D)[0], rows_and_landmarks(D)[1]
    direction = np.ones(D) / math.sqrt(D)
    far = np.array([10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 1e6])[:, None] * direction
    found = row_features(kernel, np.concatenate([Z, far]), Z)
    for part in found:
        assert np.isfinite(part).all()
    np.testing.assert_allclose(np.diagonal(found.K), 1.0, rtol=1e-12)
    volume = found.log_volume[len(Z) :]
    assert (np.diff(volume[:5]) < 0.0).all()
    assert (volume[5:] < volume[4]).all()
    assert volume[-1] < found.log_volume[: len(Z)].min() - 10.0


@pytest.mark.parametrize(
    ("name", "D"), [("Gaussian", 1), ("Gaussian", 5), ("Gaussian", 8), ("Matern12", 2), ("MultiScale", 2)]
)
def test_gradients_are_finite_far_away_and_on_landmarks(name, D):
    kernel, Z = kernels(name, "isotropic", D)[0], rows_and_landmarks(D)[1]
    far = np.array([30.0, 1e3, 1e6])[:, None] * np.ones(D)
    X = np.concatenate([Z, far])

    def total(kernel, X, Z):
        found = row_features(kernel, X, Z)
        return found.K.sum() + found.squares.sum() + found.log_volume.sum()

    gradient = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(jax.tree.map(jnp.asarray, kernel), X, Z)
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()


def test_far_away_in_the_plane_the_volume_is_right_until_rounding():
    """Against 80 digits: exact while a second landmark counts, then held at the floor, from above."""
    Z = rows_and_landmarks(2)[1]
    near, far = np.array([[3.0, 1.0]]), np.array([[300.0, 100.0]])
    kernel = Gaussian(0.9)
    found = row_features(kernel, near, Z).log_volume[0]
    np.testing.assert_allclose(found, ref.log_volume_gaussian_mp(near[0], Z, 0.9), rtol=1e-9)
    found = row_features(kernel, far, Z).log_volume[0]
    truth = ref.log_volume_gaussian_mp(far[0], Z, 0.9)
    assert truth <= found < -1e4
    np.testing.assert_allclose(found, truth, rtol=0.02)


def test_one_landmark_exactly_on_the_row():
    """γ is 0 there: a finite, very negative number stands for its log."""
    found = row_features(Gaussian(1.0), np.zeros((1, 1)), np.zeros((1, 1)))
    assert -400.0 < found.log_volume[0] < -300.0


def test_many_columns_and_rows_on_landmarks_are_finite_in_jax():
    """NumPy takes log|det| and is finite here; 60 columns, data a hundred spreads off the origin."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(300, 60)) + 100.0
    kernel = Matern12(0.05)
    assert np.isfinite(row_features(kernel, Z, Z).log_volume).all()
    assert np.isfinite(jax.jit(row_features)(kernel, jnp.asarray(Z), jnp.asarray(Z)).log_volume).all()


# ------------------------------------------------------------------ the posterior mean and its price


def log_normal(x, mean, covariance):
    d = x - mean
    logdet = np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    return -0.5 * (logdet + d @ np.linalg.inv(covariance) @ d)


@pytest.mark.parametrize(
    ("m", "shift", "backend"),
    [(m, shift, np) for m in (1, 2, 9) for shift in (1e-3, 0.1, 10.0)] + [(9, 1e-3, jnp), (9, 10.0, jnp)],
)
def test_posterior_mean_and_price(m, shift, backend, rng):
    root = rng.normal(size=(m, m + 3))
    R, mean = root @ root.T, rng.normal(size=m)
    found, price = posterior_mean(backend.asarray(R), backend.asarray(mean), backend.asarray(shift))
    expected = R @ np.linalg.inv(R + shift * np.eye(m)) @ mean
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    by_densities = log_normal(mean, np.zeros(m), R + shift * np.eye(m))
    by_densities -= log_normal(mean, expected, shift * np.eye(m))
    np.testing.assert_allclose(price, by_densities, rtol=1e-8, atol=1e-9)


def test_a_singular_prior_covariance_has_a_price_too():
    """Twice the same landmark: R + sI is regular only by s, far below R's rounding."""
    R, mean = np.ones((3, 3)), np.full(3, 0.5)
    found, price = posterior_mean(R, mean, 1e-20)
    np.testing.assert_allclose(found, mean, rtol=1e-6)
    assert np.isfinite(price)


# ------------------------------------------------------------------ the whole objective


def identity_frame(D):
    return Frame(np.zeros(D), np.eye(D), np.ones(D))


def dense_rule(low, high, steps):
    """The trapezoid rule whose integrand has died off at the ends."""
    points = np.linspace(low, high, steps)
    return Rule(points[:, None], np.full(steps, math.log((high - low) / (steps - 1))))


def value_of(spec, theta, problem):
    """The objective in NumPy, which compiles nothing; the gradient tests tie it to that in JAX."""
    with np.errstate(divide="ignore"):  # log ε where there is no background
        value, fit = objective(spec, np.asarray(theta, dtype=float), problem)
    return float(value), fit


def gaussian_pair(length):
    """k, dk/dx and r under N(0, spread²), for the reference."""
    k = ref.gaussian([[length**2]])

    def dk(x, z):
        return -k(x, z) * (x[0] - z[0]) / length**2

    return k, dk


X1 = np.random.default_rng(3).normal(size=(7, 1))
Z1 = np.array([[-1.2], [0.1], [0.9], [2.0]])
SPREAD1 = np.array([1.3])


@pytest.mark.parametrize("learn_noise", [True, False])
@pytest.mark.parametrize(("length", "u"), [(0.6, 0.2), (1.1, 0.05), (1.1, 0.6), (2.5, 0.9)])
def test_objective_is_the_paper_minus_n_log_z(length, u, learn_noise):
    k, dk = gaussian_pair(length)
    r = ref.convolved_gaussian_measure([[length**2]], [[length**2]], [0.0], [SPREAD1**2], 1.0)
    K = ref.gram(k, X1, Z1)
    tau2 = u * float(np.trace(np.cov(K, rowvar=False, ddof=0)))
    low, high, steps = -12.0 * length - 3.0, 12.0 * length + 3.0, 3_001
    problem = padded_problem(X1, Z1, dense_rule(low, high, steps), SPREAD1, identity_frame(1), tau2)
    spec = Spec(Family(Gaussian, "isotropic"), learn_noise=learn_noise, background=False)
    theta = [math.log(length), math.log(u)][: 1 + learn_noise]
    value, fit = value_of(spec, theta, problem)
    expected = ref.log_normalised(k, dk, r, X1, Z1, tau2, low, high, steps)
    np.testing.assert_allclose(fit.noise, tau2, rtol=1e-12)
    np.testing.assert_allclose(value, expected - u * learn_noise, rtol=1e-8)
    np.testing.assert_allclose(fit.log_evidence, expected, rtol=1e-8)


def test_objective_with_background_and_learned_measure_by_hand():
    """ε, η and the priors, row by row."""
    length, u, epsilon, eta = 1.1, 0.3, 0.03, 1.7
    k, dk = gaussian_pair(length)
    low, high, steps = -16.0, 16.0, 2_001
    problem = padded_problem(X1, Z1, dense_rule(low, high, steps), SPREAD1, identity_frame(1), 0.0)
    spec = Spec(Family(Gaussian, "isotropic"), learn_eta=True)
    theta = [math.log(length), math.log(u), epsilon / 0.02, math.log(eta)]
    value, fit = value_of(spec, theta, problem)

    K, n, m = ref.gram(k, X1, Z1), len(X1), len(Z1)
    tau2 = u * float(np.trace(np.cov(K, rowvar=False, ddof=0)))
    r = ref.convolved_gaussian_measure([[length**2]], [[length**2]], [0.0], [(eta * SPREAD1) ** 2], 1.0)
    R, mu = ref.gram(r, Z1, Z1), K.mean(axis=0)
    A = R + tau2 / n * np.eye(m)
    centre = R @ np.linalg.inv(A) @ mu
    log_z = ref.log_normaliser(k, dk, Z1, centre, tau2, low, high, steps)
    total = log_normal(mu, np.zeros(m), A) - log_normal(mu, centre, tau2 / n * np.eye(m))
    for x, row in zip(X1, K, strict=True):
        p = math.exp(log_normal(row, centre, tau2 * np.eye(m)) + ref.log_volume_fd(k, x, Z1) - log_z)
        wide = 10.0 * SPREAD1[0]
        background = 1.0 / (math.pi * wide * (1.0 + (x[0] / wide) ** 2))
        total += math.log((1.0 - epsilon) * p + epsilon * background)
    np.testing.assert_allclose(fit.log_evidence, total, rtol=1e-8)
    np.testing.assert_allclose(fit.mean, centre, rtol=1e-8)
    np.testing.assert_allclose(value, total - u + 19.0 * math.log1p(-epsilon), rtol=1e-8)


def test_the_users_prior_is_in_the_users_units():
    frame = Frame(np.array([5.0]), np.eye(1), np.array([100.0]))
    problem = padded_problem(X1, Z1, dense_rule(-16.0, 16.0, 501), SPREAD1, frame, 0.0)
    family = Family(Gaussian, "isotropic")
    plain = Spec(family, background=False)
    seen = []

    def prior(kernel, noise):
        seen.append((float(kernel.lengthscale), float(noise)))
        return -3.25

    theta = [math.log(1.1), math.log(0.3)]
    value, fit = value_of(plain, theta, problem)
    with_prior, _ = value_of(Spec(family, background=False, prior=prior), theta, problem)
    np.testing.assert_allclose(with_prior, value - 3.25, rtol=1e-12)
    np.testing.assert_allclose(seen, [(110.0, float(fit.noise))], rtol=1e-12)


def test_the_density_integrates_to_one_and_ess_is_a_share():
    """p(x) = N(φ; μ̄, τ²I) γ / Z summed over another, finer rule."""
    problem = padded_problem(X1, Z1, dense_rule(-16.0, 16.0, 1_001), SPREAD1, identity_frame(1), 0.0)
    _, fit = value_of(Spec(Family(Gaussian, "isotropic"), background=False), [0.1, -1.0], problem)
    rule = dense_rule(-20.0, 20.0, 7_777)
    rows = row_features(Gaussian(math.exp(0.1)), rule.points, Z1)
    log_p = log_plug(rows, fit.mean, fit.noise) - fit.log_z
    np.testing.assert_allclose(np.exp(log_p + rule.log_weights).sum(), 1.0, rtol=1e-9)
    assert 0.0 < fit.ess <= 1.0


# ------------------------------------------------------------------ the approximation itself


def two_landmarks(n, length, u):
    """Everything log_evidence_exact needs, and the plug-in value log p - n log Z(μ̄)."""
    x, z = np.random.default_rng(0).normal(size=(n, 1)), np.array([[-0.8], [0.9]])
    kernel = Gaussian(length)
    R = kernel.convolved(GaussianMeasure(0.0, 1.0)).gram(z)
    rows = row_features(kernel, x, z)
    tau2 = u * float(np.trace(np.cov(rows.K, rowvar=False, ddof=0)))
    rule = dense_rule(-10.0 * max(length, 1.0), 10.0 * max(length, 1.0) + 1e-7, 601)
    inside = row_features(kernel, rule.points, z)

    def log_z(mu):
        squared = ((inside.K[None] - mu[:, None]) ** 2).sum(axis=2)
        terms = inside.log_volume + rule.log_weights - 0.5 * squared / tau2
        top = terms.max(axis=1)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) - math.log(2.0 * math.pi * tau2)

    problem = padded_problem(x, z, rule, np.ones(1), identity_frame(1), 0.0)
    spec = Spec(Family(Gaussian, "isotropic"), background=False)
    plug = value_of(spec, [math.log(length), math.log(u)], problem)[1].log_evidence
    return rows, R, tau2, log_z, float(plug)


def test_the_brute_force_is_exact_where_the_answer_is_known():
    """With Z = 1 the integral over μ is the paper's marginal pseudolikelihood."""
    rows, R, tau2, _, _ = two_landmarks(4, 1.0, 0.3)
    found = ref.log_evidence_exact(rows.K, rows.log_volume, R, tau2, lambda mu: np.zeros(len(mu)), 41)
    expected = ref.log_density_full(rows.K.T, R, tau2) + rows.log_volume.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


SETTINGS = [(0.5, 0.3), (0.5, 1.0), (1.0, 0.3), (1.0, 1.0), (2.0, 0.3), (2.0, 1.0)]


@pytest.mark.parametrize(
    ("n", "measured"),
    [(4, [2.151, 0.807, 1.680, 1.081, 2.968, 1.652]), (20, [11.436, 3.381, 0.859, 3.146, 6.344, 1.134])],
)
def test_how_far_the_plug_in_is_from_the_exact_evidence(n, measured):
    """The exact evidence ∫ N(μ; 0, R) Π p(x_i|μ)/Z(μ) dμ minus ours, in nats, for ℓ, τ²/tr Cov in SETTINGS.

    Ours is too low, always: μ̄ is not where Π p(x_i|μ)/Z(μ) is largest (that μ makes the model's mean of φ
    equal to μ̂). The gap does not vanish with n: a row costs 0.04 to 0.57 nats at n = 20, 0.02 to 0.54 at
    n = 100, and at u = 0.1 it is 2.2 to 12.8 nats at n = 4 and 20 to 46 at n = 20. It is smallest about where
    the evidence is largest: at the best setting, which both agree on, it is 1.08 nats for n = 4, 1.13 for
    n = 20 and 2.05 for n = 100.
    """
    exact, plug = [], []
    for length, u in SETTINGS:
        rows, R, tau2, log_z, value = two_landmarks(n, length, u)
        exact.append(ref.log_evidence_exact(rows.K, rows.log_volume, R, tau2, log_z, 41))
        plug.append(value)
    gap = np.subtract(exact, plug)
    np.testing.assert_allclose(gap, measured, atol=0.05)
    assert (gap > 0.0).all()
    assert np.argmax(exact) == np.argmax(plug)
    assert gap[np.argmax(plug)] < 1.3


# ------------------------------------------------------------------ gradients, padding, streaming


def small_problem(D=2, n=25, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, D)) @ np.triu(np.full((D, D), 0.4) + 0.6 * np.eye(D))
    z = choose_landmarks(y, Landmarks("support", 6))
    rule = integration_rule(y, z, np.array([0.5, 1.0]), rng, robust_spread(y), draws=150)
    return padded_problem(y, z, rule, np.full(D, 1.1), identity_frame(D), noise)


FAMILIES = [
    (Family(Gaussian, "isotropic"), [0.2]),
    (Family(Gaussian, "ard"), [0.2, -0.3]),
    (Family(Gaussian, "full"), [0.2, 0.4, -0.1]),
    (Family(MultiScale, "isotropic", 2), [-0.3, 0.8, 0.5]),
    (Family(RationalQuadratic, "isotropic"), [0.2, 0.4]),
    (Family(Matern32, "isotropic"), [0.3]),
]


@pytest.mark.parametrize(("family", "start"), FAMILIES, ids=[family.name for family, _ in FAMILIES])
def test_gradient_against_differences(family, start, numerical_gradient):
    # One of them without a background: log ε is -∞ there, whose derivative must not come through.
    background = family.name != "Gaussian"
    D = 2 if family.cls is Gaussian else 1  # one column compiles faster
    problem, spec = small_problem(D), Spec(family, learn_eta=True, background=background)
    theta = np.array([*start, math.log(0.2), *[0.8] * background, 0.2])
    assert len(theta) == spec.size(D)
    run = jax.jit(jax.value_and_grad(lambda t: objective(spec, t, problem)[0]))
    value, found = run(theta)
    np.testing.assert_allclose(value, value_of(spec, theta, problem)[0], rtol=1e-10)
    expected = numerical_gradient(lambda t: value_of(spec, t, problem)[0], theta)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
    assert (np.abs(expected) > 1e-4).all()


def test_profile_in_numpy_is_the_objective_in_jax():
    problem, spec = small_problem(), Spec(Family(Gaussian, "ard"))
    temperatures = np.array([0.03, 0.1, 0.3, 1.0])
    best, theta = profile(spec, np.array([0.2, -0.3]), temperatures, problem)
    np.testing.assert_allclose(best, value_of(spec, theta, problem)[0], rtol=1e-10)
    for u in temperatures:  # no other temperature with this ε is better, beyond what ε itself would bring
        other = theta.copy()
        other[2] = math.log(u)
        assert value_of(spec, other, problem)[0] < best + 0.05


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 64), (64, 64), (65, 96), (96, 96), (97, 128), (129, 192), (193, 256), (2048, 2048), (4097, 6144)],
)
def test_size_class(count, expected):
    assert size_class(count) == expected


def test_padding_changes_nothing():
    """That its gradient is right too, -∞ among the log weights and all, the differences above have shown."""
    problem, spec = small_problem(), Spec(Family(Gaussian, "isotropic"))
    assert problem.x.shape[0] == problem.weights.shape[0] == problem.log_background.shape[0] == 64
    assert problem.points.shape[0] == problem.log_weights.shape[0] == 192
    assert problem.weights.sum() == 25
    bare = problem._replace(
        x=problem.x[:25],
        weights=problem.weights[:25],
        log_background=problem.log_background[:25],
        points=problem.points[:150],
        log_weights=problem.log_weights[:150],
    )
    theta = np.array([0.2, -1.5, 0.8])
    (value, fit), (expected, bare_fit) = (value_of(spec, theta, given) for given in (problem, bare))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(fit.log_z, bare_fit.log_z, rtol=1e-12)
    np.testing.assert_allclose(fit.mean, bare_fit.mean, rtol=1e-12)
    np.testing.assert_allclose(fit.ess, bare_fit.ess, rtol=1e-10)


def test_streaming_changes_nothing():
    problem, spec = small_problem(), Spec(Family(Gaussian, "isotropic"))
    theta = np.array([0.4, -1.5, 0.8])

    def run(**chunks):
        def value(theta):
            return objective(spec, theta, problem, **chunks)

        return jax.jit(jax.value_and_grad(value, has_aux=True))(theta)

    (value, fit), gradient = run()
    (streamed, streamed_fit), streamed_gradient = run(chunk_entries=60)  # ten rows a chunk, the last padded
    np.testing.assert_allclose(streamed, value, rtol=1e-12)
    np.testing.assert_allclose(streamed_gradient, gradient, rtol=1e-9)
    for part, expected in zip(streamed_fit, fit, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-10)


# ------------------------------------------------------------------ integration


def normal_density(points, centre, width):
    squared = ((points - centre) ** 2).sum(axis=1) / width**2
    return np.exp(-0.5 * squared) / (math.sqrt(2.0 * math.pi) * width) ** points.shape[1]


def blobs(D, widths):
    """Centres of three blobs, 3 to 4 apart and about the origin, and their widths."""
    centres = np.zeros((3, D))
    centres[1, 0], centres[2, -1] = 3.0, -4.0
    return centres, np.array(widths)


def integral(rule, density):
    return float(np.exp(rule.log_weights) @ density(rule.points))


def rule_for(x, seed=0):
    """The rule as learning makes it, in the frame, and then as a rule in the units of x."""
    frame = isotropic_frame(sorted_rows(x))
    y = sorted_to_rounding(frame.into(sorted_rows(x)))
    z = choose_landmarks(y, Landmarks("support", 50))
    grid = data_scales(y, z, 8)
    scales = np.geomspace(grid[0], math.sqrt(grid[0] * grid[-1]), 3)
    rule = integration_rule(y, z, scales, np.random.default_rng(seed), robust_spread(y))
    return Rule(frame.back(rule.points), rule.log_weights + frame.log_unit)


def blob_sample(D, widths, n=300):
    rng = np.random.default_rng(1)
    centres, widths = blobs(D, widths)
    label = np.arange(n) % 3
    return centres[label] + widths[label, None] * rng.normal(size=(n, D))


@pytest.mark.parametrize(("D", "normal", "mixture"), [(1, 1e-6, 3e-6), (2, 6e-4, 8e-3), (5, 1e-2, 3e-2)])
def test_densities_integrate_to_one(D, normal, mixture):
    """Root mean square errors over seeds: for N(0, I) and three blobs of widths 0.7, 1, 1.3 were measured

    5.0e-7 and 1.8e-6 in one dimension, 3.6e-4 and 4.8e-3 in two, 6.1e-3 and 1.7e-2 in five; the worst of
    twelve seeds was 6.8e-4 and 9.6e-3 in two, 1.2e-2 and 4.0e-2 in five.
    """
    single = np.random.default_rng(0).normal(size=(300, D))
    clusters, (centres, widths) = blob_sample(D, (0.7, 1.0, 1.3)), blobs(D, (0.7, 1.0, 1.3))

    def one(points):
        return normal_density(points, 0.0, 1.0)

    def three(points):
        return sum(normal_density(points, c, w) for c, w in zip(centres, widths, strict=True)) / 3.0

    for x, density, bound in ((single, one, normal), (clusters, three, mixture)):
        errors = []
        for seed in range(6):
            rule = rule_for(x, seed)
            assert np.isfinite(rule.log_weights).all()  # so every weight is positive
            assert rule.points.shape == (len(rule.log_weights), D)
            errors.append(integral(rule, density) - 1.0)
        assert math.sqrt(np.mean(np.square(errors))) < bound
        assert np.abs(errors).max() < 2.5 * bound


def test_a_wild_line_integrates_to_one():
    """Cauchy data with outliers at ±1e6: the middle to 1e-6, and the Cauchy density itself to its tails."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.standard_cauchy(300), [1e6, -1e6]])[:, None]
    rule = rule_for(y)
    assert len(rule.points) < 4_000
    for centre, width in ((0.0, 1.0), (0.3, 0.3), (-2.0, 2.0)):
        found = integral(rule, lambda p, c=centre, w=width: normal_density(p, c, w))
        assert abs(found - 1.0) < 1e-6
    assert abs(integral(rule, lambda p: 1.0 / (math.pi * (1.0 + p[:, 0] ** 2))) - 1.0) < 1e-4
    at_outlier = integral(rule, lambda p: normal_density(p, 1e6, 1.0))
    assert abs(at_outlier - 1.0) < 2e-3


@pytest.mark.parametrize("D", [1, 2, 8])
def test_the_same_generator_gives_the_same_rule(D):
    y = np.random.default_rng(0).normal(size=(60, D))
    z = choose_landmarks(y, Landmarks("support", 20))
    first, again, other = (
        integration_rule(y, z, np.array([0.5, 1.0]), np.random.default_rng(seed), robust_spread(y))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.log_weights, again.log_weights)
    assert np.array_equal(first.points, other.points) == (D == 1)  # on a line nothing is drawn


def test_the_number_of_draws_can_be_set():
    y = np.random.default_rng(0).normal(size=(60, 2))
    rng = np.random.default_rng(0)
    rule = integration_rule(y, y[:10], np.array([0.5]), rng, robust_spread(y), draws=301)
    assert rule.points.shape == (301, 2)
    assert abs(integral(rule, lambda p: normal_density(p, 0.0, 1.0)) - 1.0) < 0.05

"""The marginal pseudolikelihood: values, volumes far and near, derivatives, streaming, errors.

Plain numbers are computed in NumPy, and JAX traces the same lines. A compiled objective costs seconds, so
nearly all data for it are N rows, M landmarks and two columns: programs are then shared. What kernels do
differently is in the sums over rows, tried in NumPy where derivatives have a closed form, else `eager`, one
operation after the other; and in r, which `tests/kernels` tries. That compiling changes nothing is tried with
one kernel.
"""

import json
import math
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from tests import reference as ref

import kembed.learning.paper.pseudolikelihood as pl
from kembed import (
    Gaussian,
    GaussianMeasure,
    Lebesgue,
    Matern12,
    Matern32,
    Matern52,
    MultiScale,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    log_pseudolikelihood,
)
from kembed.core.backend import namespace
from kembed.learning.paper.feature_sums import chunk_sums, computed_plainly
from kembed.learning.paper.volumes import log_volumes, moment_log_volumes, pivoted_log_volumes

pytestmark = pytest.mark.usefixtures("double_precision")

CENTRE = np.array([0.3, -0.2, 0.1])
SPREAD = np.array([[1.5, -0.4, 0.2], [-0.4, 0.7, 0.1], [0.2, 0.1, 0.9]])
FULL = np.array([[0.8, 0.3, 0.1], [0.3, 0.6, -0.2], [0.1, -0.2, 0.9]])


N, M = 5, 6


def data(n, D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


@pytest.fixture
def eager():
    """Operations one by one: every kernel shares those of the others, where each compiled would pay anew."""
    with jax.disable_jit():
        yield


def sums_of(kernel, x, weights, z):
    """The sums of plain numbers; by JAX only where it must differentiate the kernel."""
    if computed_plainly(kernel, x, z):
        with np.errstate(all="ignore"):
            return chunk_sums(kernel, x, weights, z)
    return pl.feature_sums(kernel, *map(jnp.asarray, (x, weights, z)))


def make_measure(name, D):
    if name == "lebesgue":
        return Lebesgue(), "lebesgue"
    c, V = CENTRE[:D], SPREAD[:D, :D]
    return GaussianMeasure(c, V, 2.0), (c, V, 2.0)


def r_of(terms, measure):
    """The prior covariance of a mixture of Gaussians, term by term in closed form."""
    parts = []
    for w, A in terms:
        for v, B in terms:
            if measure == "lebesgue":
                part = ref.convolved_gaussian_lebesgue(A, B)
            else:
                part = ref.convolved_gaussian_measure(A, B, *measure)
            parts.append(ref.scaled(part, w * v))
    return ref.sum_of(*parts)


def gaussian_family(name, D):
    """(the library's kernel, its terms (weight, covariance))."""
    eye, ard, full = np.eye(D), np.array([0.6, 0.9, 1.2])[:D], FULL[:D, :D]
    return {
        "iso": (Gaussian(0.7), [(1.0, 0.49 * eye)]),
        "ard": (Gaussian(ard), [(1.0, np.diag(ard**2))]),
        "full": (Gaussian(covariance=full), [(1.0, full)]),
        "scaled": (Scaled(Scaled(Gaussian(0.7), 3.0), 0.5), [(1.5, 0.49 * eye)]),
        "multiscale": (
            MultiScale([0.5, 1.4], [0.8, 0.3]),
            [(0.8, 0.25 * eye), (0.3, 1.96 * eye)],
        ),
        "sum": (
            Sum(Gaussian(0.6), 0.7 * Gaussian(covariance=full)),
            [(1.0, 0.36 * eye), (0.7, full)],
        ),
        "product": (
            Product(Gaussian(1.1), 1.3 * Gaussian(ard)),
            [(1.3, np.linalg.inv(eye / 1.21 + np.diag(1 / ard**2)))],
        ),
    }[name]


def other_family(name):
    """(the library's kernel, the reference's), whose r the library has by quadrature over scales."""
    return {
        "rational quadratic": (RationalQuadratic(0.8, 1.7), ref.rational_quadratic(0.8, 1.7)),
        "matern12": (Matern12(0.9), ref.matern(0.9, 0.5)),
        "matern32": (Matern32(0.9), ref.matern(0.9, 1.5)),
        "matern52": (Matern52(0.9), ref.matern(0.9, 2.5)),
        "sum": (
            Sum(2.0 * Matern32(0.9), Gaussian(0.7)),
            ref.sum_of(ref.scaled(ref.matern(0.9, 1.5), 2.0), one_scale_gaussian(0.7)),
        ),
        "product": (
            Product(Matern52(1.1), Gaussian(1.5)),
            ref.product_of(ref.matern(1.1, 2.5), one_scale_gaussian(1.5)),
        ),
    }[name]


def one_scale_gaussian(lengthscale):
    return ref.multiscale([lengthscale], [1.0])


# ------------------------------------------------------------------ values


@pytest.mark.parametrize(
    ("name", "D", "measure"),
    [("iso", 1, "lebesgue"), ("iso", 2, "lebesgue"), ("full", 3, "gaussian"), ("multiscale", 2, "gaussian")],
)
def test_value_of_gaussian_mixtures(name, D, measure):
    """The others are in `test_sums_of_every_kernel_at_any_distance`."""
    kernel, terms = gaussian_family(name, D)
    nu, nu_ref = make_measure(measure, D)
    x, z = data(N, D), data(M, D, 1)
    k = ref.sum_of(*(ref.scaled(ref.gaussian(V), w) for w, V in terms))
    expected = ref.log_pseudolikelihood(k, r_of(terms, nu_ref), x, z, 0.3)
    value = log_pseudolikelihood(x, kernel=kernel, noise=0.3, landmarks=z, measure=nu)
    assert type(value) is float
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("name", "measure"), [("rational quadratic", "lebesgue"), ("sum", "gaussian")])
def test_value_of_other_kernels(name, measure):
    """With the library's own r, which is good to 1e-6 and checked by itself; all else to 1e-10.

    One whose derivative in x has a closed form, and one whose has not; of the others there are the sums over
    rows in `test_sums_of_every_kernel_at_any_distance`.
    """
    kernel, k = other_family(name)
    nu, _ = make_measure(measure, 2)
    x, z = data(N, 2), data(M, 2, 1)
    expected = ref.log_density_full(ref.gram(k, z, x), kernel.convolved(nu).gram(z), 0.3)
    expected += sum(ref.log_volume_fd(k, row, z) for row in x)
    value = log_pseudolikelihood(x, kernel=kernel, noise=0.3, landmarks=z, measure=nu)
    assert value == pytest.approx(expected, rel=1e-10)


def test_value_with_r_by_quadrature():
    """One kernel: `tests/kernels/test_convolution.py` has r of the others by quadrature."""
    kernel, k = other_family("matern32")
    nu, nu_ref = make_measure("gaussian", 1)
    x, z = data(3, 1), np.array([[-0.8], [0.5]])
    expected = ref.log_pseudolikelihood(k, ref.convolved(k, nu_ref, 1), x, z, 0.3)
    value = log_pseudolikelihood(x, kernel=kernel, noise=0.3, landmarks=z, measure=nu)
    # r is a sum over scales that is good to 1e-6 by design; |R| and 1/A are of order 1
    assert value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("n", "m", "noise"), [(1, 3, 0.3), (5, 2, 1e-3), (4, 4, 10.0)])
def test_log_marginal_is_the_full_density(n, m, noise):
    rng = np.random.default_rng(n)
    K, root = rng.uniform(size=(n, m)), rng.normal(size=(m, m))
    sums = pl.FeatureSums(jnp.asarray(K.sum(axis=0)), jnp.asarray((K**2).sum()), jnp.asarray(0.0))
    value = jax.jit(pl.log_marginal)(sums, jnp.asarray(root @ root.T), noise, float(n))
    assert float(value) == pytest.approx(ref.log_density_full(K.T, root @ root.T, noise), rel=1e-10)


# ------------------------------------------------------------------ volume elements


def scaled_rows(D, landmarks=6):
    """Landmarks, and rows from among them to 1000 lengthscales from all of them, for lengthscale 1."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(landmarks, D))
    rows = [rng.normal(size=D)]
    for distance in (5, 27, 40, 1000):
        u = rng.normal(size=D)
        rows.append(Z.mean(axis=0) + (distance + 3) * u / np.linalg.norm(u))
    return np.array(rows), Z


def near_and_far(D, landmarks=6):
    """One landmark half a lengthscale away, the others a hundred."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=D)
    u = rng.normal(size=(landmarks, D))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    far = 100.0 + 0.35 * np.arange(landmarks - 1)
    return x[None], x + u * np.concatenate([[0.5], far])[:, None]


def pivoted(log_l, row, Z):
    t = (row - Z)[None]
    a = -0.5 * (t**2).sum(axis=2) * jnp.exp(-2 * log_l)
    return pivoted_log_volumes(a, t)[0] - 2 * len(row) * log_l


def summed(log_l, row, Z):
    return pl.feature_sums(Gaussian(jnp.exp(log_l)), row[None], jnp.ones(1), Z).log_volume


def with_slope(f):
    return jax.jit(lambda log_l, *rows: jax.jvp(lambda log_l: f(log_l, *rows), (log_l,), (1.0,)))


# compiled once for each number of columns
VOLUMES = {f.__name__: with_slope(f) for f in (pivoted, summed)}


@pytest.mark.parametrize("place", [scaled_rows, near_and_far])
@pytest.mark.parametrize(("D", "way"), [(1, "summed"), (2, "summed"), (3, "summed"), (3, "pivoted")])
def test_volumes_and_their_slopes_at_any_distance(D, way, place):
    X, Z = place(D)
    for row in X:
        expected = ref.log_volume_gaussian_mp(row, Z, 1.0)
        expected_slope = ref.log_volume_gaussian_mp_grad(row, Z, 1.0)
        for unit in (1.0, 2.0**-20, 2.0**30):  # powers of two scale the data without rounding
            value, slope = VOLUMES[way](math.log(unit), unit * row, unit * Z)
            # log(unit) is rounded, which moves the distance by 1e-15
            assert float(value) + D * math.log(unit) == pytest.approx(expected, rel=1e-13, abs=1e-9)
            assert float(slope) == pytest.approx(expected_slope, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("place", [scaled_rows, near_and_far])
@pytest.mark.parametrize("D", [1, 2, 3, 4])
def test_volumes_of_plain_numbers_at_any_distance(D, place):
    X, Z = place(D, landmarks=max(6, D + 2))
    for row in X:
        expected = ref.log_volume_gaussian_mp(row, Z, 1.0)
        for unit in (1.0, 2.0**-20, 2.0**30):
            summed = sums_of(Gaussian(unit), unit * row[None], np.ones(1), unit * Z).log_volume
            with np.errstate(divide="ignore"):
                a = -0.5 * ((row - Z) ** 2).sum(axis=1)[None]
                slow = pivoted_log_volumes(a, unit * (row - Z)[None])[0] - 2 * D * math.log(unit)
            for value in (summed, slow):
                assert value + D * math.log(unit) == pytest.approx(expected, rel=1e-13, abs=1e-9)


@pytest.mark.parametrize("D", [2, 3, 4])
@pytest.mark.parametrize("lengthscale", [1.0, 0.05, 0.01])
def test_a_row_that_is_a_landmark(D, lengthscale):
    """Its own landmark has the largest weight and no direction: 0 times e^1000 must not count."""
    Z = data(M, D, seed=7)
    value, slope = VOLUMES["summed"](math.log(lengthscale), Z[0], Z)
    assert float(value) == pytest.approx(ref.log_volume_gaussian_mp(Z[0], Z, lengthscale), rel=1e-10)
    assert float(slope) == pytest.approx(ref.log_volume_gaussian_mp_grad(Z[0], Z, lengthscale), rel=1e-8)


SUMMED = [
    *(("gaussians", name) for name in ("ard", "full", "scaled", "multiscale", "sum", "product")),
    *(
        ("others", name)
        for name in ("rational quadratic", "matern12", "matern32", "matern52", "sum", "product")
    ),
]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("family", "name"), SUMMED)
def test_sums_of_every_kernel_at_any_distance(family, name):
    if family == "gaussians":
        kernel, terms = gaussian_family(name, 2)
        k = ref.sum_of(*(ref.scaled(ref.gaussian(V), w) for w, V in terms))
    else:
        kernel, k = other_family(name)
    X, Z = scaled_rows(2)
    for row, alone, features in zip(X, np.eye(N), ref.gram(k, X, Z), strict=True):  # one row with a weight
        sums = sums_of(kernel, X, alone, Z)
        np.testing.assert_allclose(sums.features, features, rtol=1e-10, atol=1e-300)
        np.testing.assert_allclose(sums.squares, (features**2).sum(), rtol=1e-10, atol=1e-300)
        assert float(sums.log_volume) == pytest.approx(ref.log_volume_fd(k, row, Z), rel=1e-11, abs=1e-9)


def hard_configurations(D, count, seed):
    """Landmarks near, far, in tight clusters, nearly in a hyperplane; rows near and far."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        Z = rng.normal(size=(5, D)) * 10.0 ** rng.uniform(-7, 0.7, size=(1, D))
        Z += rng.normal(size=D) * 10.0 ** rng.uniform(-3, 2)
        x = Z[rng.integers(5)] + rng.normal(size=D) * 10.0 ** rng.uniform(-7, 1.2)
        yield x, Z


@pytest.mark.parametrize(("D", "compiled"), [(1, False), (2, True), (3, False)])
def test_untrustworthy_moments_are_not_trusted(D, compiled):
    @(jax.jit if compiled else np.errstate(all="ignore"))
    def both(x, Z):
        xp = namespace(x)
        a = -0.5 * ((x - Z) ** 2).sum(axis=1)[None]
        fast, trusted = moment_log_volumes(xp.exp(2 * a), x[None], Z)
        whole = log_volumes(xp.exp(2 * a), x[None], Z, lambda rows: a)
        return fast[0], trusted[0], whole[0]

    verdicts = []
    for x, Z in hard_configurations(D, 400, D):
        fast, trusted, whole = both(x, Z)
        expected = ref.log_volume_gaussian_mp(x, Z, 1.0)
        verdicts.append(bool(trusted))
        if trusted:
            assert float(fast) == pytest.approx(expected, abs=1e-9)
        # columns whose spreads differ by 1e7 cost the slow way as many digits
        assert float(whole) == pytest.approx(expected, rel=1e-12, abs=1e-6)
    assert 20 < sum(verdicts) < 400 - (D > 1) * 20  # both verdicts were put to the test


def test_moments_of_ordinary_rows_are_trusted():
    """The fast way is what is used, not the slow way for everything."""
    X, Z = data(200, 3), data(50, 3, 1)
    B = np.exp(-((X[:, None] - Z) ** 2).sum(axis=2))
    fast, trusted = jax.jit(moment_log_volumes)(B, X, Z)
    assert bool(trusted.all())
    slow = jax.jit(pivoted_log_volumes)(0.5 * np.log(B), X[:, None] - Z)
    np.testing.assert_allclose(fast, slow, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("D", "kernel"), [(1, Gaussian(1.0)), (2, Gaussian(1.0)), (2, Gaussian(1.0) + Matern32(1.0))]
)
def test_a_row_without_volume_gives_minus_infinity(D, kernel):
    """With m = D landmarks taken from the data, J has rank D-1 at each of them: gamma is 0."""
    x = data(4, D)
    assert ref.log_volume_gaussian_mp(x[0], x[:D], 1.0) == -math.inf
    assert log_pseudolikelihood(x, kernel=kernel, noise=1.0, landmarks=x[:D]) == -math.inf


# ------------------------------------------------------------------ the whole objective


def objective(weights, x, z, lengthscale=0.8, noise=0.3, **chunks):
    """The library's inner function, for a new trace at every call."""
    kernel, x, weights, z = Gaussian(lengthscale), jnp.asarray(x), jnp.asarray(weights), jnp.asarray(z)
    return pl.paper_objective(kernel, noise, x, weights, z, Lebesgue(), **chunks)


COMPILED = jax.jit(jax.value_and_grad(objective, argnums=(3, 4)))


def with_slopes(weights, x, z, lengthscale=0.8, noise=0.3):
    """Value, and slopes in lengthscale and noise: compiled once for most tests of this file."""
    return COMPILED(weights, x, z, jnp.asarray(lengthscale, float), jnp.asarray(noise, float))


@pytest.mark.parametrize("D", [1, 2])
def test_finite_value_and_slope_for_every_lengthscale(D):
    x, z = data(N, D), data(M, D, 1)
    for scale in (1e-12, 1.0, 1e12):
        for relative in np.logspace(-4, 4, 17):
            for noise in (1.0, 1e-8):  # the latter disappears in R at large lengthscales
                value, slopes = with_slopes(np.ones(N), scale * x, scale * z, relative * scale, noise)
                slopes = slopes[0] * relative * scale, slopes[1]
                assert np.isfinite([value, *slopes]).all(), (scale, relative, noise)


@pytest.mark.parametrize("c", [1e-12, 1e-6, 1e6, 1e12])
def test_units_only_shift_the_value(c):
    """x -> cx with everything else in the new unit: a density in x gains c^-(nD)."""
    x, z = data(N, 2), data(M, 2, 1)

    def value(c):
        measure = GaussianMeasure(c * CENTRE[:2], c**2 * SPREAD[:2, :2])
        return log_pseudolikelihood(
            c * x, kernel=Gaussian(0.8 * c), noise=0.3, landmarks=c * z, measure=measure
        )

    assert value(c) == pytest.approx(value(1.0) - 2 * N * math.log(c), rel=1e-11)


@pytest.mark.parametrize("shift", [1024.0, 2.0**30])
def test_shifts_leave_the_value_alone_under_lebesgue(shift):
    x, z = (np.round(points * 2**16) / 2**16 for points in (data(N, 2), data(M, 2, 1)))
    a, b = (
        log_pseudolikelihood(x + s, kernel=Gaussian(0.8), noise=0.3, landmarks=z + s) for s in (0.0, shift)
    )
    assert a == pytest.approx(b, rel=1e-12)


@pytest.mark.parametrize(
    ("word", "measure"),
    [("lebesgue", Lebesgue()), (None, Lebesgue()), ("data", GaussianMeasure.of(data(N, 2)))],
)
def test_measures_by_word_and_as_objects(word, measure):
    def value(measure):
        z = data(M, 2, 1)
        return log_pseudolikelihood(data(N, 2), kernel=Gaussian(0.8), noise=0.3, landmarks=z, measure=measure)

    assert value(word) == value(measure)


def test_row_order_does_not_matter():
    x, z = data(N, 2), data(M, 2, 1)
    order = [3, 0, 4, 2, 1]
    a, b = (
        log_pseudolikelihood(rows, kernel=Gaussian(0.8), noise=0.3, landmarks=z) for rows in (x, x[order])
    )
    assert a == pytest.approx(b, rel=1e-12)


def test_weights_count_rows():
    x, z = data(N, 2), data(M, 2, 1)
    weights = np.array([1.0, 2.0, 0.0, 3.0, 0.0])  # of other than N rows, so that their number counts as well
    weighted = with_slopes(weights, x, z)[0]
    rows = np.repeat(x, weights.astype(int), axis=0)
    repeated = log_pseudolikelihood(rows, kernel=Gaussian(0.8), noise=0.3, landmarks=z)
    assert float(weighted) == pytest.approx(repeated, rel=1e-12)
    moved = x.copy()
    moved[[2, 4]] = [[1e3, -1e3], z[0]]  # rows that count for nothing may lie anywhere
    assert float(with_slopes(weights, moved, z)[0]) == pytest.approx(float(weighted), rel=1e-13)


def test_chunks_do_not_matter():
    x, z = data(N, 2), data(M, 2, 1)
    x[3] += 100.0  # one row that needs the slow way
    value, slopes = with_slopes(np.ones(N), x, z)

    @jax.jit
    def in_chunks(t):  # of two rows, and the last chunk is padded
        return jax.value_and_grad(lambda t: objective(np.ones(N), x, z, *t, chunk_entries=12))(t)

    chunked, chunked_slopes = in_chunks(jnp.array([0.8, 0.3]))
    assert float(chunked) == pytest.approx(float(value), rel=1e-12)
    np.testing.assert_allclose(chunked_slopes, slopes, rtol=1e-11)
    row_by_row = jax.jit(lambda kernel, z: pl.feature_sums(kernel, x, np.ones(N), z, 1))(Gaussian(0.8), z)
    at_once = sums_of(Gaussian(0.8), x, np.ones(N), z)
    for one, other in zip(row_by_row, at_once, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_compiled_and_plain_agree():
    x, z = data(N, 2), data(M, 2, 1)
    x[0] += 10.0  # a row that needs the slow way (10 lengthscales and more)
    compiled = float(with_slopes(np.ones(N), x, z)[0])
    assert log_pseudolikelihood(x, kernel=Gaussian(0.8), noise=0.3, landmarks=z) == pytest.approx(
        compiled, rel=1e-12
    )


def test_more_than_a_chunk_is_compiled_and_says_the_same():
    """The sums of a thousand copies of few rows are those of the few with weights."""
    x, z = np.tile(data(50, 1), (1_000, 1)), data(M, 1, 1)
    assert not computed_plainly(Gaussian(0.8), x, z)
    with np.errstate(all="ignore"):
        sums = chunk_sums(Gaussian(0.8), x[:50], np.full(50, 1_000.0), z)
    R = Gaussian(0.8).convolved(Lebesgue()).gram(z)
    expected = pl.log_marginal(sums, R, 0.3, 50_000.0) + sums.log_volume
    assert log_pseudolikelihood(x, kernel=Gaussian(0.8), noise=0.3, landmarks=z) == pytest.approx(
        expected, rel=1e-11
    )


# ------------------------------------------------------------------ derivatives


def differences(f, t, h=1e-3):
    """Central differences of fourth order: h = 1e-3 leaves about 1e-11 of either error."""
    slopes = []
    for unit in np.eye(len(t)):
        a, b, c, d = (np.asarray(f(t + s * h * unit)) for s in (-2, -1, 1, 2))
        slopes.append((8 * (c - b) - (d - a)) / (12 * h))
    return np.array(slopes)


def agree(slope, expected):
    assert np.abs(slope).max() > 1e-2
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@pytest.fixture
def x():
    """Rows, and among them one that needs the slow way (10 lengthscales and more)."""
    x = data(N, 2)
    x[0] += 10.0
    return x


def test_gradient_in_lengthscale_and_noise(x):
    t, f = np.array([0.8, 0.3]), partial(with_slopes, np.ones(N), x, data(M, 2, 1))
    agree(f(*t)[1], differences(lambda t: f(*t)[0], t))


def test_gradient_through_the_measure(x):
    """It acts through R alone."""
    z = data(M, 2, 1)
    sums = sums_of(Gaussian(0.8), x, np.ones(N), z)

    @jax.jit
    @jax.value_and_grad
    def f(t):
        R = Gaussian(0.8).convolved(GaussianMeasure(t[0], t[1], t[2])).gram(z)
        return pl.log_marginal(sums, R, 0.3, float(N))

    t = np.array([0.2, 0.9, 1.5])
    agree(f(t)[1], differences(lambda t: f(t)[0], t))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("make", "start"),
    [
        (lambda t: Gaussian(t), [0.7, 1.3]),
        (lambda t: Gaussian(covariance=namespace(t).array([[t[0], t[1]], [t[1], t[2]]])), [0.8, 0.2, 0.6]),
        (lambda t: RationalQuadratic(t[0], t[1]), [0.9, 1.7]),
        (lambda t: t[1] * Matern32(t[0]), [0.9, 1.4]),
        (lambda t: MultiScale(t[:2], t[2:]), [0.5, 1.5, 0.4, 0.8]),
        (lambda t: Gaussian(t[0]) + Matern52(t[1]), [0.8, 1.2]),
    ],
    ids=["ard", "covariance", "alpha", "matern", "multiscale", "sum"],
)
def test_derivatives_of_the_sums(make, start, x):
    """Those of r, the other half of the objective, are in `tests/kernels/test_convolution.py`."""
    z, t = data(M, 2, 1), jnp.asarray(start)

    def f(t, sums=pl.feature_sums):  # one number in which all three sums count
        sums = sums(make(t), x, np.ones(N), z)
        return sums.features @ np.arange(1.0, M + 1) + 0.7 * sums.squares + sums.log_volume

    slope = np.array([jax.jvp(f, (t,), (jnp.asarray(unit),))[1] for unit in np.eye(len(t))])
    agree(slope, differences(lambda t: f(t, sums_of), np.array(start)))


def test_gradient_in_landmarks_is_by_reverse_mode(x):
    """Few hyperparameters ride along in one pass; where landmarks move as well, reverse mode takes two."""

    def value(lengthscale, z):
        return pl.paper_objective(Gaussian(lengthscale), 0.3, x, np.ones(N), z, Lebesgue())

    lengthscale, z = np.array([0.7, 1.3]), data(M, 2, 1)
    of_lengthscale, of_landmarks = jax.jit(jax.grad(value, (0, 1)))(lengthscale, z)
    agree(of_landmarks.ravel(), differences(lambda t: value(lengthscale, t.reshape(z.shape)), z.ravel()))
    agree(of_lengthscale, differences(lambda t: value(t, z), lengthscale))


def test_second_derivatives_against_differences():
    """The Hessian times a vector: forward over reverse, as `jax.hessian` does it."""
    x, z = data(N, 2), data(M, 2, 1)
    t, v, h = np.array([0.8, 0.3]), np.array([0.6, -0.8]), 1e-3

    @jax.jit
    def product(t):
        gradient = jax.grad(lambda t: objective(np.ones(N), x, z, *t))
        return jax.jvp(gradient, (t,), (v,))[1]

    along = differences(lambda s: with_slopes(np.ones(N), x, z, *(t + s[0] * v))[1], np.zeros(1), h)[0]
    agree(product(t), along)


# ------------------------------------------------------------------ determinant and quadratic form


def test_log_det_and_quadratic_of_a_good_matrix():
    rng = np.random.default_rng(0)
    root, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    R = root @ root.T
    log_det, quadratic = jax.jit(pl.log_det_and_quadratic)(R, 0.1, b)
    A = R + 0.1 * np.eye(4)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
    assert float(quadratic) == pytest.approx(b @ np.linalg.inv(A) @ b, rel=1e-12)


def test_shift_below_rounding_of_a_singular_matrix():
    """Two equal landmarks: the pivot 1 + shift - 1 rounds to 0, and Cholesky fails."""
    shift = 1e-18
    R = jnp.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    b = jnp.array([0.3, 0.3, 0.5])
    assert not np.isfinite(np.asarray(jnp.linalg.cholesky(R + shift * jnp.eye(3)))).all()

    def f(shift, b):
        log_det, quadratic = pl.log_det_and_quadratic(R, shift, b)
        return log_det + quadratic

    with mpmath.workdps(60):
        s = mpmath.mpf(shift)
        log_det = mpmath.log((2 + s) ** 2 * s)
        b0, b2 = mpmath.mpf(0.3), mpmath.mpf(0.5)
        expected = float(log_det + 2 * b0**2 / (2 + s) + b2**2 / (2 + s))
    value, slopes = jax.jit(jax.value_and_grad(f, argnums=(0, 1)))(shift, b)
    assert float(value) == pytest.approx(expected, rel=1e-12)
    assert float(slopes[0]) == pytest.approx(1 / shift, rel=1e-12)  # the rest is of order 1
    # along (1, -1) the slope is rounding over shift, so only the other two directions mean anything
    assert np.isfinite(np.asarray(slopes[1])).all()
    assert float(slopes[1][0] + slopes[1][1]) == pytest.approx(0.6, rel=1e-12)
    assert float(slopes[1][2]) == pytest.approx(0.5, rel=1e-12)


def test_clipped_eigenvalues_of_a_smooth_kernel():
    """Thirty landmarks within a lengthscale: R has rank about 8 in double precision."""
    z = np.linspace(0, 1, 30)[:, None]
    R = Gaussian(1.0).convolved(Lebesgue()).gram(z)
    shift = 1e-25
    log_det, quadratic = jax.jit(pl.log_det_and_quadratic)(R, shift, R[:, 3])
    eigenvalues = np.linalg.eigvalsh(R)
    # eigenvalues that are all rounding differ between routines, but not in size: from shift to 1e-14
    big = eigenvalues > 1e-12
    least = np.log(eigenvalues[big]).sum() + (~big).sum() * math.log(shift)
    most = np.log(eigenvalues[big]).sum() + (~big).sum() * math.log(1e-14)
    assert least - 1e-3 < float(log_det) < most + 1e-3
    assert np.isfinite(float(quadratic))

    @jax.jit
    @jax.grad
    def slope(log_l):
        R = Gaussian(jnp.exp(log_l)).convolved(Lebesgue())._gram(z, z)
        return sum(pl.log_det_and_quadratic(R, shift, R[:, 3]))

    assert np.isfinite(float(slope(0.0)))


# ------------------------------------------------------------------ precision


SCRIPT = """
import json
import numpy as np, jax, jax.numpy as jnp
from kembed import Gaussian, log_pseudolikelihood
rng = np.random.default_rng(0)
x, z = rng.normal(size=(5, 2)), rng.normal(size=(6, 2))
out = {"before": jax.config.jax_enable_x64}
value = log_pseudolikelihood(x, kernel=Gaussian(0.7), noise=0.01, landmarks=z)
out |= {"value": value, "kind": type(value).__name__, "after": jax.config.jax_enable_x64}

x32, z32 = jnp.asarray(x), jnp.asarray(z)
x64, z64 = np.asarray(x32, dtype=float), np.asarray(z32, dtype=float)
out["dtype"] = str(x32.dtype)
out["single"] = log_pseudolikelihood(x32, kernel=Gaussian(0.7), noise=0.01, landmarks=z32)
out["double"] = log_pseudolikelihood(x64, kernel=Gaussian(0.7), noise=0.01, landmarks=z64)

try:
    jax.grad(lambda l: log_pseudolikelihood(x, kernel=Gaussian(l), noise=1.0, landmarks=z))(0.7)
except ValueError as error:
    out["message"] = str(error)
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def without_x64():
    """What a fresh interpreter gets, in which nobody has asked JAX for double precision."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_double_precision_without_the_global_switch(without_x64):
    seen = without_x64
    assert (seen["before"], seen["kind"], seen["after"]) == (False, "float", False)
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(5, 2)), rng.normal(size=(6, 2))
    expected = log_pseudolikelihood(x, kernel=Gaussian(0.7), noise=0.01, landmarks=z)
    assert seen["value"] == pytest.approx(expected, rel=1e-13)


def test_single_precision_arrays_are_computed_with_in_double(without_x64):
    """The same numbers as float32 JAX arrays and as float64 NumPy arrays give the same value."""
    assert without_x64["dtype"] == "float32"
    assert without_x64["single"] == pytest.approx(without_x64["double"], rel=1e-13)


def test_tracing_in_single_precision_is_refused(without_x64):
    assert "single precision" in without_x64["message"]
    assert "jax_enable_x64" in without_x64["message"]


# ------------------------------------------------------------------ bad input

GOOD = {"kernel": Gaussian(1.0), "noise": 1.0, "landmarks": data(4, 2, 1)}


def with_nan(x):
    x = x.copy()
    x[2, 1] = math.nan
    return x


@pytest.mark.parametrize(
    ("x", "change", "error", "message"),
    [
        (data(6, 2), {"landmarks": data(1, 2)}, ValueError, "at least as many landmarks as columns"),
        (data(6, 3), {}, ValueError, "x has 3 columns where 2 were expected"),
        (with_nan(data(6, 2)), {}, ValueError, "x has missing values.*row 2"),
        (data(6, 2), {"landmarks": with_nan(data(4, 2))}, ValueError, "landmarks has missing"),
        (data(6, 2), {"noise": 0.0}, ValueError, "noise must be positive"),
        (data(6, 2), {"noise": -1.0}, ValueError, "noise must be positive"),
        (data(6, 2), {"noise": math.nan}, ValueError, "noise must be positive"),
        (data(6, 2), {"noise": np.ones(4)}, ValueError, "noise must be a number"),
        (data(6, 2), {"objective": "papers"}, ValueError, "objective must be one of 'paper'"),
        (data(6, 2), {"kernel": "median"}, TypeError, "must be a kernel object.*'median'"),
        (data(6, 2), {"kernel": 0.5}, TypeError, r"write kembed.Gaussian\(0.5\)"),
        (data(6, 2), {"kernel": Gaussian}, TypeError, r"write kembed.Gaussian\(...\)"),
        (data(6, 2), {"kernel": Gaussian([1.0, 1.0, 1.0])}, ValueError, "3 lengthscales but the"),
        (data(6, 2), {"measure": 3.0}, TypeError, "measure must be Lebesgue"),
        (data(6, 2), {"measure": "flat"}, ValueError, "measure must be one of 'lebesgue', 'data'"),
        (None, {}, TypeError, "x is None"),
        (np.empty((0, 2)), {}, ValueError, "x has 0 rows"),
        ([["a", "b"]], {}, TypeError, "x must hold numbers"),
    ],
)
def test_bad_input_is_refused(x, change, error, message):
    with pytest.raises(error, match=message):
        log_pseudolikelihood(x, **(GOOD | change))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_flat_data_are_refused_at_any_scale(scale):
    constant, duplicate = data(6, 2), data(6, 2)
    constant[:, 1] = 3.0
    duplicate[:, 1] = duplicate[:, 0]
    for x, message in ((constant, "column 1 of x is constant"), (duplicate, "linearly dependent")):
        x = scale * x
        with pytest.raises(ValueError, match=message):
            log_pseudolikelihood(x, kernel=Gaussian(scale), noise=1.0, landmarks=x[:4])


def test_columns_of_very_different_scale_are_not_flat():
    scales = np.array([1e-12, 1e12])
    value = log_pseudolikelihood(
        data(N, 2) * scales, kernel=Gaussian(scales), noise=1.0, landmarks=data(M, 2, 1) * scales
    )
    plain = log_pseudolikelihood(data(N, 2), kernel=Gaussian([1.0, 1.0]), noise=1.0, landmarks=data(M, 2, 1))
    # the units of the two columns cancel, in the volume and in the Lebesgue measure alike
    assert value == pytest.approx(plain, rel=1e-11)


def test_a_landmark_given_twice_adds_no_direction():
    """Two copies are one landmark of double weight; rounding must not pass for a second direction."""
    Z = np.array([[0.0, 0.0], [30.0, 1.0], [-2.0, 33.0]])
    twice = np.concatenate([Z, Z[:1]])
    x = np.array([0.3, 0.4])
    expected = ref.log_volume_gaussian_mp(x, twice, 1.0)
    a = -0.5 * ((x - twice) ** 2).sum(axis=1)[None]
    value = jax.jit(pivoted_log_volumes)(a, (x - twice)[None])[0]
    assert float(value) == pytest.approx(expected, rel=1e-10)

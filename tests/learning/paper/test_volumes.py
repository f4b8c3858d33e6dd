"""Volume elements of the feature map: against 80 digits, near and far; gradients of kernels; determinants."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import reference as ref
from tests.learning.paper.families import gaussian_family, other_family

from kembed import Gaussian
from kembed.learning.paper import volumes as vol
from kembed.learning.paper.volumes import half_log_det, log_gradient, log_volumes, pivoted_log_volumes

pytestmark = pytest.mark.usefixtures("double_precision")
NAMES = [
    *(("gaussian", name) for name in ("iso", "ard", "full", "scaled", "multiscale", "sum", "product")),
    *(
        ("other", name)
        for name in ("rational quadratic", "matern12", "matern32", "matern52", "sum", "product")
    ),
]


def data(n, D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


def kernel_pair(family, name, D=2):
    """The library's kernel and the reference's."""
    if family == "other":
        return other_family(name)
    kernel, terms = gaussian_family(name, D)
    return kernel, ref.sum_of(*(ref.scaled(ref.gaussian(V), w) for w, V in terms))


def of_kernel(kernel, X, Z):
    return log_volumes(*log_gradient(kernel, X, Z))


@pytest.mark.parametrize(("family", "name"), NAMES)
def test_gradient_of_log_k_by_differences(family, name, numerical_gradient):
    kernel, k = kernel_pair(family, name)
    X, Z = data(3, 2), data(4, 2, 1)
    log_k, t = log_gradient(kernel, X, Z)
    np.testing.assert_allclose(np.exp(log_k), ref.gram(k, X, Z), rtol=1e-12)
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            expected = numerical_gradient(lambda at, z=z: math.log(k(at, z)), x, step=1e-4)
            np.testing.assert_allclose(t[:, i, j], expected, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------ any distance


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


def traced(log_scale, row, Z):
    return of_kernel(Gaussian(jnp.exp(log_scale)), row[None], Z)[0]


TRACED = jax.jit(lambda log_scale, *rows: jax.jvp(lambda log: traced(log, *rows), (log_scale,), (1.0,)))


@pytest.mark.parametrize("place", [scaled_rows, near_and_far])
@pytest.mark.parametrize("D", [1, 2, 3, 4])
def test_volumes_at_any_distance(D, place):
    X, Z = place(D, landmarks=max(6, D + 2))
    for row in X:
        expected = ref.log_volume_gaussian_mp(row, Z, 1.0)
        for unit in (1.0, 2.0**-20, 2.0**30):  # powers of two scale the data without rounding
            value = of_kernel(Gaussian(unit), unit * row[None], unit * Z)[0]
            assert value + D * math.log(unit) == pytest.approx(expected, rel=1e-13, abs=1e-9)


@pytest.mark.parametrize("place", [scaled_rows, near_and_far])
def test_slopes_at_any_distance(place):
    X, Z = place(2, landmarks=6)
    for row in X:
        for unit in (1.0, 2.0**-20, 2.0**30):
            value, slope = TRACED(math.log(unit), unit * row, unit * Z)
            # log(unit) is rounded, which moves the distance by 1e-15
            expected = ref.log_volume_gaussian_mp(row, Z, 1.0) - 2 * math.log(unit)
            assert float(value) == pytest.approx(expected, rel=1e-13, abs=1e-9)
            expected = ref.log_volume_gaussian_mp_grad(row, Z, 1.0)
            assert float(slope) == pytest.approx(expected, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("D", [2, 3, 4])
@pytest.mark.parametrize("lengthscale", [1.0, 0.05, 0.01])
def test_a_row_that_is_a_landmark(D, lengthscale):
    """Its own landmark has the largest weight and no direction: 0 times e^1000 must not count."""
    Z = data(6, D, seed=7)
    value, slope = jax.jvp(lambda log: traced(log, Z[0], Z), (math.log(lengthscale),), (1.0,))
    assert value == pytest.approx(ref.log_volume_gaussian_mp(Z[0], Z, lengthscale), rel=1e-10)
    assert slope == pytest.approx(ref.log_volume_gaussian_mp_grad(Z[0], Z, lengthscale), rel=1e-8)


@pytest.mark.parametrize(("family", "name"), NAMES)
def test_every_kernel_at_any_distance(family, name):
    kernel, k = kernel_pair(family, name)
    X, Z = scaled_rows(2)
    for row, value in zip(X, of_kernel(kernel, X, Z), strict=True):
        assert value == pytest.approx(ref.log_volume_fd(k, row, Z), rel=1e-11, abs=1e-9)


def hard_configurations(D, count, seed):
    """Landmarks near, far, in tight clusters, nearly in a hyperplane; rows near and far."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        Z = rng.normal(size=(5, D)) * 10.0 ** rng.uniform(-7, 0.7, size=(1, D))
        Z += rng.normal(size=D) * 10.0 ** rng.uniform(-3, 2)
        x = Z[rng.integers(5)] + rng.normal(size=D) * 10.0 ** rng.uniform(-7, 1.2)
        yield x, Z


def counting(monkeypatch):
    """How many rows are pivoted."""
    pivoted = []
    monkeypatch.setattr(
        vol, "pivoted_log_volumes", lambda a, t: (pivoted.append(len(a)), pivoted_log_volumes(a, t))[1]
    )
    return pivoted


@pytest.mark.parametrize("D", [1, 2, 3])
def test_what_is_summed_as_it_is_can_be_trusted(D, monkeypatch):
    pivoted = counting(monkeypatch)
    for x, Z in hard_configurations(D, 400, D):
        before = len(pivoted)
        value = of_kernel(Gaussian(1.0), x[None], Z)[0]
        # columns whose spreads differ by 1e7 cost pivoting as many digits
        error = 1e-9 if len(pivoted) == before else 1e-6
        assert value == pytest.approx(ref.log_volume_gaussian_mp(x, Z, 1.0), rel=1e-12, abs=error)
    assert 20 < 400 - len(pivoted) < 400 - (D > 1) * 20  # both ways were put to the test


def test_ordinary_rows_are_not_pivoted(monkeypatch):
    pivoted = counting(monkeypatch)
    X, Z = data(200, 3), data(50, 3, 1)
    found = of_kernel(Gaussian(1.0), X, Z)
    assert pivoted == []
    with np.errstate(all="ignore"):
        slow = pivoted_log_volumes(*log_gradient(Gaussian(1.0), X, Z))
    np.testing.assert_allclose(found, slow, rtol=1e-11, atol=1e-11)


def test_a_landmark_given_twice_adds_no_direction():
    """Two copies are one landmark of double weight; rounding must not pass for a second direction."""
    Z = np.array([[0.0, 0.0], [30.0, 1.0], [-2.0, 33.0]])
    twice = np.concatenate([Z, Z[:1]])
    x = np.array([[0.3, 0.4]])
    expected = ref.log_volume_gaussian_mp(x[0], twice, 1.0)
    assert of_kernel(Gaussian(1.0), x, twice)[0] == pytest.approx(expected, rel=1e-10)


# ------------------------------------------------------------------ determinants


def definite(D, count, seed=0):
    """(D, D, count) positive definite matrices."""
    root = np.random.default_rng(seed).normal(size=(count, D, D + 3))
    return np.moveaxis(root @ np.swapaxes(root, 1, 2), 0, 2)


@pytest.mark.parametrize("backend", [np, jnp])
@pytest.mark.parametrize("D", [1, 3, 7, 20])
def test_half_log_det(D, backend):
    matrices = definite(D, 10)
    found, least = (half_log_det if backend is np else jax.jit(half_log_det))(matrices)
    np.testing.assert_allclose(found, 0.5 * np.linalg.slogdet(np.moveaxis(matrices, 2, 0))[1], rtol=1e-10)
    # a pivot is the ratio of two determinants, and here that of correlations
    size = np.sqrt(np.einsum("aac->ac", matrices))
    unit = matrices / (size[:, None] * size)
    pivots = [np.linalg.det(np.moveaxis(unit[:d, :d], 2, 0)) for d in range(1, D + 1)]
    ratios = np.divide(pivots, [np.ones(10), *pivots[:-1]])
    np.testing.assert_allclose(least, ratios.min(axis=0), rtol=1e-9)

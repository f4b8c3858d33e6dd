"""Laws that every kernel obeys, and agreement with the slow reference and with scikit-learn."""

import copy
import pickle
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk
from tests import reference

from kembed import (
    Gaussian,
    Kernel,
    Matern12,
    Matern32,
    Matern52,
    MultiScale,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
)
from kembed.kernels.stationary import Metric

pytestmark = pytest.mark.usefixtures("double_precision")

COVARIANCE = [[1.0, 0.3], [0.3, 2.0]]


def ard(k, lengthscales):
    """A reference kernel of unit lengthscale, in coordinates divided by the lengthscales."""
    return lambda x, y: k(x / np.asarray(lengthscales), y / np.asarray(lengthscales))


def in_metric(k, covariance):
    """A reference kernel of unit lengthscale, in the metric of a covariance."""
    half = np.linalg.inv(np.linalg.cholesky(covariance))
    return lambda x, y: k(half @ x, half @ y)


# name: (kernel, the same from the slow reference)
KERNELS = {
    "gaussian": (Gaussian(0.7), reference.gaussian(0.49 * np.eye(2))),
    "gaussian-ard": (Gaussian([0.5, 2.0]), reference.gaussian(np.diag([0.25, 4.0]))),
    "gaussian-full": (Gaussian(covariance=COVARIANCE), reference.gaussian(COVARIANCE)),
    "rational-quadratic": (RationalQuadratic(0.8, 1.5), reference.rational_quadratic(0.8, 1.5)),
    "rational-quadratic-ard": (
        RationalQuadratic([0.5, 2.0], alpha=0.6),
        ard(reference.rational_quadratic(1.0, 0.6), [0.5, 2.0]),
    ),
    "rational-quadratic-full": (
        RationalQuadratic(covariance=COVARIANCE, alpha=3.0),
        in_metric(reference.rational_quadratic(1.0, 3.0), COVARIANCE),
    ),
    "matern12": (Matern12(0.9), reference.matern(0.9, 0.5)),
    "matern32": (Matern32(0.9), reference.matern(0.9, 1.5)),
    "matern52": (Matern52(0.9), reference.matern(0.9, 2.5)),
    "matern52-ard": (Matern52([0.5, 2.0]), ard(reference.matern(1.0, 2.5), [0.5, 2.0])),
    "matern12-full": (
        Matern12(covariance=COVARIANCE),
        in_metric(reference.matern(1.0, 0.5), COVARIANCE),
    ),
    "multiscale": (
        MultiScale([0.3, 1.0, 4.0], weights=[0.5, 1.5, 0.25]),
        reference.multiscale([0.3, 1.0, 4.0], [0.5, 1.5, 0.25]),
    ),
    "scaled": (2.5 * Matern32(1.2), reference.scaled(reference.matern(1.2, 1.5), 2.5)),
    "sum": (
        Gaussian(0.7) + 0.5 * RationalQuadratic(2.0, 1.0),
        reference.sum_of(
            reference.gaussian(0.49 * np.eye(2)),
            reference.scaled(reference.rational_quadratic(2.0, 1.0), 0.5),
        ),
    ),
    "sum-of-metrics": (
        Gaussian(covariance=COVARIANCE) + Gaussian([0.5, 2.0]) + 3.0 * Gaussian(1.5),
        reference.sum_of(
            reference.gaussian(COVARIANCE),
            reference.gaussian(np.diag([0.25, 4.0])),
            reference.scaled(reference.gaussian(2.25 * np.eye(2)), 3.0),
        ),
    ),
    "product": (
        Gaussian(covariance=COVARIANCE) * Gaussian([0.5, 2.0]),
        reference.product_of(reference.gaussian(COVARIANCE), reference.gaussian(np.diag([0.25, 4.0]))),
    ),
    "product-of-sums": (
        (Gaussian(0.7) + Matern12(2.0)) * MultiScale([1.0, 3.0]),
        reference.product_of(
            reference.sum_of(reference.gaussian(0.49 * np.eye(2)), reference.matern(2.0, 0.5)),
            reference.multiscale([1.0, 3.0], [0.5, 0.5]),
        ),
    ),
}
MIXTURES = ["gaussian", "gaussian-ard", "gaussian-full", "multiscale", "sum-of-metrics", "product"]
# JAX tries every kernel but these, which would only compile more: others have their profiles, metrics and
# ways to combine
REPEATED = [
    *("rational-quadratic-ard", "rational-quadratic-full", "matern52-ard", "matern12-full"),
    *("sum-of-metrics", "product"),
]
TRACED = [name for name in KERNELS if name not in REPEATED]
STATIONARY = [name for name, (kernel, _) in KERNELS.items() if hasattr(kernel, "slope")]
RNG = np.random.default_rng(5)
X = RNG.normal(size=(7, 2))
Y = np.vstack([RNG.normal(size=(4, 2)) * 2.0, X[2], X[5]])  # two points are in both sets
WEIGHTS = RNG.normal(size=(len(X), len(Y)))  # so that errors of single entries cannot cancel


@pytest.fixture(params=KERNELS)
def name(request):
    return request.param


@pytest.fixture
def kernel(name):
    return KERNELS[name][0]


traced_kernels = pytest.mark.parametrize("name", TRACED, indirect=True)


def test_matches_the_reference(name, kernel):
    assert_allclose(kernel.gram(X, Y), reference.gram(KERNELS[name][1], X, Y), rtol=1e-12)


def test_gram_is_all_pairs(kernel):
    pairs = [[kernel(x, y) for y in Y] for x in X]
    assert_allclose(kernel.gram(X, Y), pairs, rtol=1e-14)
    assert_array_equal(kernel.gram(X), kernel.gram(X, X))


def test_symmetric(kernel):
    assert_allclose(kernel.gram(X, Y), kernel.gram(Y, X).T, rtol=1e-14)


def test_positive_semidefinite(kernel, rng):
    points = rng.normal(size=(60, 2))
    gram = kernel.gram(points)
    assert np.linalg.eigvalsh(gram)[0] >= -1e-12 * np.trace(gram)


def test_diagonal(kernel):
    assert_allclose(kernel.diagonal(X), np.diagonal(kernel.gram(X)), rtol=1e-14)


def test_shifts_do_not_matter(kernel):
    # Multiples of 2**-20 survive a shift by 2**20 exactly. Metrics that are not isotropic transform the
    # points before they subtract them, so of 16 digits they keep 10, and d√s/ds takes another 2.
    a, b = np.round(X * 2**20) / 2**20, np.round(Y * 2**20) / 2**20
    assert_allclose(kernel.gram(a + 2.0**20, b + 2.0**20), kernel.gram(a, b), rtol=1e-8)


@traced_kernels
def test_jit_is_numpy(kernel):
    gram, diagonal = jax.jit(lambda k, x, y: (k.gram(x, y), k.diagonal(X)))(kernel, X, Y)
    assert isinstance(gram, jax.Array)
    assert isinstance(kernel.gram(X, Y), np.ndarray)
    assert_allclose(gram, kernel.gram(X, Y), rtol=1e-13)
    assert_allclose(diagonal, kernel.diagonal(X), rtol=1e-13)


@traced_kernels
def test_jit_with_only_the_points_traced(kernel):
    @jax.jit
    def traced(x, y):  # in each of them one argument is, and the rest is NumPy
        return kernel.gram(x, Y), kernel.gram(X, y), kernel(x[0], Y[0]), kernel.diagonal(x)

    plain = kernel.gram(X, Y), kernel.gram(X, Y), kernel(X[0], Y[0]), kernel.diagonal(X)
    for ours, expected in zip(traced(X, Y), plain, strict=True):
        assert_allclose(ours, expected, rtol=1e-13)


def test_jit_in_many_dimensions(rng):
    x = rng.normal(size=(5, 20))  # another way of computing distances than for few columns
    kernel = Gaussian(np.linspace(2.0, 5.0, 20)) + Matern32(4.0)
    assert_allclose(jax.jit(lambda k: k.gram(x))(kernel), kernel.gram(x), rtol=1e-13)
    assert_allclose(jax.jit(lambda y: kernel.gram(y))(x), kernel.gram(x), rtol=1e-13)


@traced_kernels
def test_gradient_in_hyperparameters(kernel, as_vector, numerical_gradient):
    theta, rebuild = as_vector(kernel)

    def weighted(v):
        return (WEIGHTS * rebuild(v).gram(X, Y)).sum()

    expected = numerical_gradient(weighted, theta)
    # 1e-9: five-point differences of a sum of order 10 are themselves good to about 1e-11 absolute
    assert_allclose(jax.jit(jax.grad(weighted))(theta), expected, rtol=1e-9, atol=1e-10)
    assert np.abs(expected).max() > 1e-2


@traced_kernels
def test_gradient_in_points_also_where_they_coincide(kernel, numerical_gradient):
    # Y holds two rows of X: there the gradient is 0, for the Matérn 1/2 kernel as the mean of its two sides
    def weighted(x):
        return (WEIGHTS * kernel.gram(x, Y)).sum()

    @jax.jit
    def slopes(x, one):
        return jax.grad(weighted)(x), jax.grad(lambda at: kernel(at, X[0]))(one)

    of_all, of_one = slopes(X, X[0])
    assert_allclose(of_all, numerical_gradient(weighted, X, step=1e-4), rtol=1e-8, atol=1e-9)
    assert_array_equal(of_one, np.zeros(2))


@pytest.mark.parametrize("single", STATIONARY)
def test_slope(single, numerical_gradient):
    kernel = KERNELS[single][0]
    s = np.array([0.1, 0.5, 1.0, 7.0, 30.0, 200.0])
    by_differences = [float(numerical_gradient(kernel.profile, at)) for at in s]
    # 1e-9: at s = 200 the profile is of order 100, so differences lose two digits more
    assert_allclose(kernel.slope(s), -2.0 * np.array(by_differences), rtol=1e-9)
    assert_allclose(np.exp(kernel.profile(np.zeros(1))), kernel.diagonal(np.zeros((1, 2))), rtol=1e-14)


@pytest.mark.parametrize("single", [name for name in TRACED if name in STATIONARY])
def test_slope_gives_the_gradient(single):
    """∂k/∂x = -k slope Σ⁻¹ (x - y)."""
    kernel, x, y = KERNELS[single][0], X[0], X[1]
    sigma = np.eye(2)
    if isinstance(kernel, Metric):
        sigma = kernel.covariance * sigma if kernel.covariance.size == 1 else kernel.covariance
    direction = np.linalg.solve(sigma, x - y)
    expected = -kernel(x, y) * kernel.slope((x - y) @ direction) * direction
    assert_allclose(jax.grad(lambda at: kernel(at, y))(jnp.asarray(x)), expected, rtol=1e-12)


def test_hand_worked_values():
    x, y = [0.0, 0.0], [3.0, 4.0]  # distance 5
    assert_allclose(Gaussian(5.0)(x, y), np.exp(-0.5), rtol=1e-15)
    assert_allclose(Gaussian([3.0, 4.0])(x, y), np.exp(-1.0), rtol=1e-15)
    assert_allclose(RationalQuadratic(5.0, 0.5)(x, y), np.sqrt(0.5), rtol=1e-15)
    assert_allclose(Matern12(5.0)(x, y), np.exp(-1.0), rtol=1e-15)
    assert_allclose(MultiScale([5.0, 2.5])(x, y), (np.exp(-0.5) + np.exp(-2.0)) / 2, rtol=1e-15)
    assert_allclose(Gaussian(2.0)(0.0, 2.0), np.exp(-0.5), rtol=1e-15)  # numbers are 1-D points


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Gaussian(0.7), sk.RBF(0.7)),
        (Gaussian([0.5, 2.0]), sk.RBF([0.5, 2.0])),
        (RationalQuadratic(0.8, 1.5), sk.RationalQuadratic(0.8, 1.5)),
        (Matern12(0.9), sk.Matern(0.9, nu=0.5)),
        (Matern32(0.9), sk.Matern(0.9, nu=1.5)),
        (Matern52([0.5, 2.0]), sk.Matern([0.5, 2.0], nu=2.5)),
        (2.0 * Gaussian(0.7), sk.ConstantKernel(2.0) * sk.RBF(0.7)),
        (Gaussian(0.7) + Matern32(2.0), sk.RBF(0.7) + sk.Matern(2.0, nu=1.5)),
        (Gaussian(0.7) * Matern12(2.0), sk.RBF(0.7) * sk.Matern(2.0, nu=0.5)),
        (
            0.5 * Gaussian(0.7) + RationalQuadratic(1.0, 2.0) * Gaussian([1.0, 3.0]),
            sk.ConstantKernel(0.5) * sk.RBF(0.7) + sk.RationalQuadratic(1.0, 2.0) * sk.RBF([1.0, 3.0]),
        ),
    ],
    ids=str,
)
def test_matches_scikit_learn(ours, theirs):
    assert_allclose(ours.gram(X, Y), theirs(X, Y), rtol=1e-12)
    assert_allclose(ours.diagonal(X), theirs.diag(X), rtol=1e-14)


def test_full_covariance_includes_the_others():
    full = Gaussian(covariance=np.diag([0.25, 4.0]))
    assert_allclose(full.gram(X, Y), Gaussian([0.5, 2.0]).gram(X, Y), rtol=1e-13)
    assert_allclose(full.covariance, Gaussian([0.5, 2.0]).covariance, rtol=1e-15)
    assert_allclose(Gaussian(covariance=COVARIANCE).covariance, COVARIANCE, rtol=1e-15)
    assert_allclose(Gaussian([0.7, 0.7]).gram(X, Y), Gaussian(0.7).gram(X, Y), rtol=1e-13)


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("finite", [True, False])
def test_components_add_up(mixture, finite):
    kernel = KERNELS[mixture][0]
    log_weights, precision = kernel.components(2, finite=finite)
    total = np.zeros((len(X), len(Y)))
    for log_weight, P in zip(log_weights, precision, strict=True):
        P = P if P.ndim == 2 else np.diag(P)
        for i, x in enumerate(X):
            for j, y in enumerate(Y):
                total[i, j] += np.exp(log_weight - 0.5 * (x - y) @ P @ (x - y))
    assert_allclose(total, kernel.gram(X, Y), rtol=1e-12)


@pytest.mark.parametrize("finite", [True, False])
def test_scale_mixtures_add_up(finite):
    # 1e-6, the accuracy promised of the quadratures over scales, at distances they are made for
    for kernel in (RationalQuadratic(0.8, 1.5), Matern12(0.8), Matern32(0.8), Matern52(0.8)):
        log_weights, precision = kernel.components(1, finite=finite)
        distances = np.array([0.1, 0.5, 1.0, 4.0, 8.0])
        total = np.exp(log_weights - 0.5 * distances[:, None] ** 2 * precision[:, 0]).sum(axis=1)
        assert_allclose(total, kernel.gram([[0.0]], distances)[0], rtol=1e-6)


def test_pytree_round_trip(kernel):
    leaves, structure = jax.tree.flatten(kernel)
    assert len(leaves) > 0
    again = jax.tree.unflatten(structure, leaves)
    assert again == kernel
    assert type(again) is type(kernel)
    assert jax.tree.structure(again) == structure
    doubled = jax.tree.map(lambda leaf: 2.0 * leaf, kernel)
    assert doubled != kernel
    for leaf, twice in zip(leaves, jax.tree.leaves(doubled), strict=True):
        assert_array_equal(twice, 2.0 * leaf)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))])
def test_copies_are_equal(kernel, duplicate):
    again = duplicate(kernel)
    assert again is not kernel
    assert again == kernel
    assert_array_equal(again.gram(X, Y), kernel.gram(X, Y))


def test_all_kernels_differ():
    kernels = [kernel for kernel, _ in KERNELS.values()]
    for i, a in enumerate(kernels):
        for j, b in enumerate(kernels):
            assert (a == b) == (i == j)


def test_equality_is_by_value():
    assert Gaussian(1) == Gaussian(1.0)
    assert Gaussian(1.0) != Gaussian(1.5)
    assert Gaussian(1.0) != Gaussian([1.0, 1.0])
    assert Gaussian(1.0) != Matern12(1.0)
    assert Gaussian(1.0) != 1.0
    assert Gaussian(jnp.asarray(1.0)) == Gaussian(1.0)
    assert Gaussian(1.0) + Matern12(2.0) == Gaussian(1.0) + Matern12(2.0)
    assert Gaussian(1.0) + Matern12(2.0) != Gaussian(1.0) + Matern12(2.5)
    assert Gaussian(1.0) + Matern12(2.0) != Gaussian(1.0) * Matern12(2.0)


def test_kernels_cannot_be_changed():
    with pytest.raises(AttributeError):
        Gaussian(1.0).lengthscale = 2.0


def test_pytree_paths_name_the_hyperparameters():
    paths = jax.tree_util.tree_leaves_with_path(2.0 * Gaussian(1.0) + RationalQuadratic(3.0, 4.0))
    assert {jax.tree_util.keystr(path): float(leaf) for path, leaf in paths} == {
        ".kernels[0].kernel.lengthscale": 1.0,
        ".kernels[0].variance": 2.0,
        ".kernels[1].lengthscale": 3.0,
        ".kernels[1].alpha": 4.0,
    }


@pytest.mark.parametrize("cls", [Gaussian, RationalQuadratic, Matern12, Matern32, Matern52])
@pytest.mark.parametrize("batch", [np.array([0.5, 1.0, 3.0]), np.array([[0.5, 2.0], [1.0, 1.5]])])
def test_vmap_over_lengthscales(cls, batch):
    expected = np.stack([cls(lengthscale).gram(X, Y) for lengthscale in batch])
    assert_allclose(jax.vmap(lambda v: cls(v).gram(X, Y))(batch), expected, rtol=1e-13)


@traced_kernels
def test_vmap_over_kernels(kernel):
    others = [jax.tree.map(lambda leaf, c=c: c * leaf, kernel) for c in (1.0, 1.3, 2.0)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *others)
    grams = jax.vmap(lambda k: k.gram(X, Y))(batch)
    assert_allclose(grams, [k.gram(X, Y) for k in others], rtol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (Gaussian(1.0), "Gaussian(lengthscale=1)"),
        (Gaussian([0.5, 2.0]), "Gaussian(lengthscale=[0.5, 2])"),
        (Gaussian(covariance=COVARIANCE), "Gaussian(covariance=[[1, 0.3], [0.3, 2]])"),
        (RationalQuadratic(1 / 3, 2), "RationalQuadratic(lengthscale=0.333333, alpha=2)"),
        (
            RationalQuadratic(covariance=COVARIANCE, alpha=3.0),
            "RationalQuadratic(covariance=[[1, 0.3], [0.3, 2]], alpha=3)",
        ),
        (MultiScale([1.0, 2.0]), "MultiScale(lengthscales=[1, 2], weights=[0.5, 0.5])"),
        (2 * Matern12(0.1), "Scaled(kernel=Matern12(lengthscale=0.1), variance=2)"),
        (Gaussian(1.0) + Matern32(2.0), "Sum(Gaussian(lengthscale=1), Matern32(lengthscale=2))"),
        (Gaussian(1.0) * Matern52(2.0), "Product(Gaussian(lengthscale=1), Matern52(lengthscale=2))"),
        (Gaussian(jnp.asarray(1.0)), "Gaussian(lengthscale=1)"),
    ],
    ids=str,
)
def test_repr(kernel, text):
    assert repr(kernel) == text


def test_repr_while_traced():
    seen = []
    jax.jit(lambda k: seen.append(repr(k)) or k.gram(X))(Gaussian([1.0, 2.0]))
    assert seen == ["Gaussian(lengthscale=<traced (2,)>)"]


def test_algebra_builds_what_it_says():
    a, b, c = Gaussian(1.0), Matern12(2.0), RationalQuadratic(3.0, 1.0)
    assert a + b == Sum(a, b)
    assert a * b == Product(a, b)
    assert 2 * a == a * 2 == Scaled(a, 2.0)
    assert np.float64(2.0) * a == np.array(2.0) * a == jnp.asarray(2.0) * a == Scaled(a, 2.0)
    assert (a + b).kernels == (a, b)
    assert ((a + b) + c).kernels == (a + (b + c)).kernels == (a, b, c)
    assert ((a * b) * c).kernels == (a * (b * c)).kernels == (a, b, c)
    assert ((a + b) * c).kernels == (Sum(a, b), c)
    assert isinstance(a + b, Kernel)


def test_algebra_of_grams():
    a, b = KERNELS["gaussian-full"][0], KERNELS["matern12"][0]
    A, B = a.gram(X, Y), b.gram(X, Y)
    assert_allclose((a + b).gram(X, Y), A + B, rtol=1e-14)
    assert_allclose((a * b).gram(X, Y), A * B, rtol=1e-14)
    assert_allclose((3 * a).gram(X, Y), 3 * A, rtol=1e-14)
    assert_allclose((2 * (a + 0.5 * b) * a).gram(X, Y), 2 * (A + 0.5 * B) * A, rtol=1e-14)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Gaussian(0.0), ValueError, "lengthscale must be positive"),
        (lambda: Gaussian([1.0, -1.0]), ValueError, "lengthscale must be positive"),
        (lambda: Gaussian(np.nan), ValueError, "lengthscale must be positive and finite"),
        (lambda: Gaussian("wide"), TypeError, "lengthscale must hold numbers"),
        (lambda: Gaussian(covariance=[[1.0, 2.0], [2.0, 1.0]]), ValueError, "not positive definite"),
        (lambda: Gaussian(covariance=[[1.0, 0.5], [0.0, 1.0]]), ValueError, "not symmetric"),
        (lambda: RationalQuadratic(1.0, alpha=-1.0), ValueError, "alpha must be positive"),
        (lambda: MultiScale([1.0, 2.0], weights=[1.0]), ValueError, "one weight for each"),
        (lambda: MultiScale(1.0), ValueError, "lengthscales must be a vector"),
        (lambda: 0 * Gaussian(1.0), ValueError, "variance must be positive"),
        (lambda: Sum(), ValueError, "at least one kernel"),
        (lambda: Sum(Gaussian(1.0), 2.0), TypeError, "must be a kernel object"),
        (lambda: Gaussian(1.0) + 1.0, TypeError, "unsupported operand"),
        (lambda: Gaussian([1.0, 2.0]).gram([[0.0]]), ValueError, "2 lengthscales but the data have 1"),
        (lambda: Gaussian([1.0, 2.0]).diagonal([[0.0]]), ValueError, "2 lengthscales"),
        (lambda: Gaussian(covariance=COVARIANCE).gram([[0.0]]), ValueError, "lengthscales"),
        (lambda: Gaussian(1.0).gram([[0.0]], [[0.0, 1.0]]), ValueError, "Y has 2 columns where 1 was"),
        (lambda: Gaussian(1.0)([0.0], [0.0, 1.0]), ValueError, "y has 2 columns where 1 was"),
        (lambda: Gaussian(1.0).gram([[np.nan]]), ValueError, "missing values"),
    ],
)
def test_errors_say_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_multiscale_far_away():
    """Beyond what exp can hold, log k is that of the widest scale, and so is its gradient."""
    kernel = MultiScale([0.5, 2.0], weights=[0.75, 0.25])
    s = 1e6  # exp(-s/8) is 0 in double precision
    gradient = jax.grad(lambda k: k.profile(jnp.asarray(s)))(kernel)
    assert_allclose(kernel.profile(s), np.log(0.25) - s / 8, rtol=1e-14)
    assert_allclose(gradient.lengthscales, [0.0, s / 8], rtol=1e-14)
    assert_allclose(gradient.weights, [0.0, 4.0], rtol=1e-14)
    assert_allclose(kernel.slope(s), 0.25, rtol=1e-14)


@traced_kernels
def test_far_away_gradients_are_finite(kernel):
    f = jax.value_and_grad(lambda k, x: k.gram(x, Y).sum(), argnums=(0, 1))
    value, gradients = f(kernel, jnp.asarray(X + 1e4))
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def run(code):
    """Run code in a fresh interpreter; its last line must say ok."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "ok", done.stdout + done.stderr


def test_numpy_only_until_jax_is_asked_for():
    run(
        """
        import sys
        import numpy as np
        import kembed as ke
        x = np.arange(6.0).reshape(3, 2)
        parts = [ke.Gaussian(1.0), ke.Gaussian([1.0, 2.0]), ke.Gaussian(covariance=np.eye(2)),
                 ke.RationalQuadratic(1.0, 2.0), ke.Matern12(1.0), ke.Matern32(1.0), ke.Matern52(1.0),
                 ke.MultiScale([1.0, 2.0])]
        kernels = [*parts, 2 * parts[0], parts[0] + parts[4], parts[1] * parts[2]]
        for kernel in kernels:
            assert kernel.gram(x).shape == (3, 3)
            assert kernel.diagonal(x).shape == (3,)
            assert kernel.convolved(ke.GaussianMeasure()).gram(x).shape == (3, 3)
            assert kernel.convolved(ke.Lebesgue()).diagonal(x).shape == (3,)
            repr(kernel)
        for kernel in parts[:3]:
            assert kernel.convolved(ke.GaussianMeasure.of(x)).gram(x).shape == (3, 3)
        assert "jax" not in sys.modules
        print("ok")
        """
    )


def test_kernels_made_before_jax_are_pytrees_after():
    run(
        """
        import sys
        import numpy as np
        import kembed as ke
        kernel = 2 * ke.Gaussian([1.0, 3.0]) + ke.RationalQuadratic(1.0, 2.0)
        r = kernel.convolved(ke.GaussianMeasure(0.0, 2.0))
        gram = kernel.gram(np.eye(2))
        assert "jax" not in sys.modules
        import jax
        jax.config.update("jax_enable_x64", True)
        kernel.gram(np.eye(2))  # any use of any kernel
        assert len(jax.tree.leaves(kernel)) == 4
        assert len(jax.tree.leaves(r)) == 7
        assert jax.tree.unflatten(*jax.tree.flatten(kernel)[::-1]) == kernel
        assert np.allclose(jax.jit(lambda k: k.gram(np.eye(2)))(kernel), gram, rtol=1e-13, atol=0)
        print("ok")
        """
    )


def test_a_full_covariance_is_no_lengthscale():
    kernel = Gaussian.from_covariance(COVARIANCE)
    assert kernel == Gaussian(covariance=COVARIANCE)
    assert kernel.lengthscale is None
    assert_allclose(kernel.cholesky @ kernel.cholesky.T, COVARIANCE, rtol=1e-14)
    assert_allclose(kernel.covariance, COVARIANCE, rtol=1e-14)
    assert Gaussian(2.0).cholesky is None
    assert kernel != Gaussian(2.0)
    assert RationalQuadratic.from_covariance(COVARIANCE, alpha=3.0).alpha == 3.0
    assert list(RationalQuadratic.from_covariance(COVARIANCE).hyperparameters()) == ["covariance", "alpha"]
    gram = jax.jit(lambda c: Gaussian.from_covariance(c).gram(X, Y))(jnp.asarray(COVARIANCE))
    assert_allclose(gram, kernel.gram(X, Y), rtol=1e-13)


def test_several_scales_are_no_lengthscale():
    assert not hasattr(MultiScale([1.0, 2.0]), "lengthscale")


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_many_columns_lose_no_digits(offset):
    """Distances of 200 columns: rows far from 0, nearly equal ones, equal ones and an outlier."""
    rng = np.random.default_rng(0)
    x, y = offset + rng.normal(size=(40, 200)), offset + rng.normal(size=(30, 200))
    y[0], y[1] = x[0], x[1] + 1e-7
    y[2] += 1e4
    distances = np.array([[float(np.sum((a - b) ** 2)) for b in y] for a in x])
    wanted = np.exp(-0.5 * distances / 20.0**2)
    np.testing.assert_allclose(Gaussian(20.0).gram(x, y), wanted, rtol=1e-9)
    assert Gaussian(20.0).gram(x, y)[0, 0] == 1.0
    gram = Gaussian(20.0).gram(x)
    assert np.array_equal(gram, gram.T)

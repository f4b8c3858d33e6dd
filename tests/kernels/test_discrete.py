"""Kernels on codes and on some columns: against loops, as laws, under JAX, and their errors."""

import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kembed
from kembed import Delta, Gaussian, Matern32, OnColumns, Product, Sum

pytestmark = pytest.mark.usefixtures("double_precision")

PENALTIES = [np.inf, 0.7, [1.0, 2.0, 0.3], [np.inf, 0.5, np.inf], 1e200]


@pytest.fixture
def codes(rng):
    return rng.integers(0, 3, size=(17, 3)).astype(float)


def delta_loop(X, Y, penalty):
    """The formula, entry by entry."""
    penalty = np.broadcast_to(np.asarray(penalty, dtype=float), X.shape[1:])
    out = np.ones((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            for c in range(X.shape[1]):
                if x[c] != y[c]:
                    out[i, j] *= np.exp(-0.5 * min(penalty[c], 1e3) ** 2)
    return out


@pytest.mark.parametrize("penalty", PENALTIES)
def test_delta_is_its_formula(codes, penalty):
    kernel, Y = Delta(penalty), codes[:5] + np.eye(3)[0]
    expected = delta_loop(codes, Y, penalty)
    np.testing.assert_allclose(kernel.gram(codes, Y), expected, rtol=1e-14)
    assert kernel(codes[0], Y[1]) == pytest.approx(expected[0, 1], rel=1e-14)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(kernel._log_gram(codes, Y), np.log(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_delta_is_the_same_in_jax(codes, penalty):
    kernel, table = Delta(penalty), jnp.asarray(codes)
    expected = kernel.gram(codes)
    for matrix in (kernel.gram(table), jax.jit(lambda k, x: k.gram(x))(kernel, table)):
        assert isinstance(matrix, jax.Array)
        np.testing.assert_allclose(matrix, expected, rtol=1e-14)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_delta_is_positive_semidefinite_with_unit_diagonal(codes, penalty):
    matrix = Delta(penalty).gram(codes)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(Delta(penalty).diagonal(codes), np.ones(17))
    np.testing.assert_array_equal(matrix.diagonal(), np.ones(17))


def test_delta_by_hand():
    np.testing.assert_array_equal(Delta().gram([0, 1, 0]), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert Delta(2.0)([0, 0], [1, 1]) == pytest.approx(np.exp(-4.0), rel=1e-15)
    log = Delta([np.inf, 1.0])._log_gram(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    np.testing.assert_array_equal(log, [[0.0, -0.5, -np.inf]])


def test_codes_are_names_only(codes):
    """Renaming the levels changes nothing."""
    np.testing.assert_array_equal(Delta(0.7).gram(5.0 - 2.0 * codes), Delta(0.7).gram(codes))


@pytest.fixture
def mixed(rng, codes):
    return np.column_stack([rng.normal(size=(17, 2)), codes[:, 0]])


def test_on_columns_is_the_kernel_of_those_columns(mixed):
    for inner in (Gaussian(0.8), Gaussian([1.0, 2.0]), Gaussian(1.0) + Matern32(2.0)):
        kernel = OnColumns(inner, (1, 0))
        np.testing.assert_array_equal(
            kernel.gram(mixed, mixed[:4]), inner.gram(mixed[:, :2][:, ::-1], mixed[:4, 1::-1])
        )
        np.testing.assert_array_equal(kernel.diagonal(mixed), inner.diagonal(mixed[:, :2]))
    np.testing.assert_array_equal(OnColumns(Delta(), [2]).gram(mixed), Delta().gram(mixed[:, 2]))


def test_sums_and_products_with_gaussians(mixed):
    near, same = OnColumns(Gaussian(1.0), (0, 1)), OnColumns(Delta(), (2,))
    a, b = Gaussian(1.0).gram(mixed[:, :2]), Delta().gram(mixed[:, 2])
    np.testing.assert_allclose(Product(near, same).gram(mixed), a * b, rtol=1e-14)
    np.testing.assert_allclose(Sum(near, same).gram(mixed), a + b, rtol=1e-14)
    np.testing.assert_allclose((2.0 * (near * same) + same).gram(mixed), 2.0 * a * b + b, rtol=1e-14)
    np.testing.assert_allclose(((same + same) * near).gram(mixed), 2.0 * a * b, rtol=1e-14)
    np.testing.assert_allclose((near + same).diagonal(mixed), np.full(17, 2.0), rtol=1e-14)
    assert np.linalg.eigvalsh(Product(near, same).gram(mixed)).min() > -1e-12
    assert kembed.empirical(mixed, near * same).norm() > 0.0


def test_gradients_through_on_columns(mixed, numerical_gradient):
    def total(lengthscale, penalty):
        kernel = OnColumns(Gaussian(lengthscale), (0, 1)) * OnColumns(Delta(penalty), (2,))
        return kernel.gram(mixed).sum()

    at = (np.array([0.9, 1.4]), np.array(0.6))
    slopes = jax.jit(jax.grad(total, argnums=(0, 1)))(*at)
    np.testing.assert_allclose(slopes[0], numerical_gradient(lambda v: total(v, at[1]), at[0]), rtol=1e-8)
    np.testing.assert_allclose(slopes[1], numerical_gradient(lambda v: total(at[0], v), at[1]), rtol=1e-8)


def test_the_gradient_of_a_whole_kernel_is_a_kernel_and_finite(mixed):
    kernel = Product(OnColumns(Gaussian(1.0), (0, 1)), OnColumns(Delta(), (2,)))
    slope = jax.jit(jax.grad(lambda k: k.gram(mixed).sum()))(kernel)
    assert slope.kernels[0].columns == (0, 1)
    assert slope.kernels[0].kernel.lengthscale > 0.0
    assert slope.kernels[1].kernel.penalty == 0.0  # nothing changes near infinity


def test_columns_are_no_leaves():
    kernel = OnColumns(Gaussian(2.0), (0, 3))
    leaves, structure = jax.tree.flatten(kernel)
    assert leaves == [2.0]
    assert jax.tree.unflatten(structure, leaves) == kernel
    assert structure != jax.tree.structure(OnColumns(Gaussian(2.0), (0, 2)))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(kernel)]
    assert paths == [".kernel.lengthscale"]


def test_jit_tells_columns_apart(mixed):
    gram = jax.jit(lambda k, x: k.gram(x))
    for columns in ((0,), (1,), (0, 1)):
        kernel = OnColumns(Gaussian(1.0), columns)
        np.testing.assert_allclose(gram(kernel, mixed), kernel.gram(mixed), rtol=1e-12)


def test_show_compare_copy():
    kernel = OnColumns(Delta([1.0, 2.0]), np.array([0, 2]))
    assert repr(kernel) == "OnColumns(kernel=Delta(penalty=[1, 2]), columns=(0, 2))"
    assert repr(Delta()) == "Delta(penalty=inf)"
    assert kernel == OnColumns(Delta([1.0, 2.0]), range(0, 3, 2))
    assert kernel != OnColumns(Delta([1.0, 2.0]), (0, 1))
    assert Delta() != Delta(3.0)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.columns == (0, 2)
    assert all(type(column) is int for column in kernel.columns)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Delta(0.0), ValueError, r"penalty must be positive \(inf is allowed\), but 0 was given"),
        (lambda: Delta([1.0, -np.inf]), ValueError, "but -inf was given"),
        (lambda: Delta(np.nan), ValueError, "but nan was given"),
        (lambda: Delta(np.eye(2) + 1.0), ValueError, "penalty must be a number or a vector"),
        (lambda: Delta([]), ValueError, "penalty is empty"),
        (lambda: Delta("a"), TypeError, "penalty must hold numbers"),
        (lambda: jax.jit(lambda p: Delta(p).gram([0, 1]))(jnp.eye(2)), ValueError, "a number or a vector"),
        (lambda: Delta([1.0, 2.0]).gram([[0, 1, 2]]), ValueError, "2 penalties but the data have 3 columns"),
        (lambda: Delta([1.0, 2.0]).diagonal([0, 1]), ValueError, "one penalty, or one for each column"),
        (lambda: OnColumns(Gaussian(1.0), 2), TypeError, r"but 2 was given; write \(2,\)"),
        (lambda: OnColumns(Gaussian(1.0), "ab"), TypeError, "columns must be a tuple of column numbers"),
        (
            lambda: OnColumns(Gaussian(1.0), ("a",)),
            TypeError,
            "every entry of columns must be a whole number",
        ),
        (lambda: OnColumns(Gaussian(1.0), (-1,)), ValueError, "entry of columns must be at least 0, but -1"),
        (lambda: OnColumns(Gaussian(1.0), ()), ValueError, "columns is empty"),
        (lambda: OnColumns(Gaussian(1.0), (1, 1)), ValueError, r"must all be different, but \(1, 1\)"),
        (lambda: OnColumns(1.0, (0,)), TypeError, r"write kembed.Gaussian\(1.0\)"),
        (
            lambda: OnColumns(Gaussian(1.0), (0, 2)).gram([[0.0, 1.0]]),
            ValueError,
            "looks at column 2 but the data have 2 columns, counted from 0; give wider data",
        ),
        (lambda: OnColumns(Gaussian(1.0), (1,)).diagonal([0.0]), ValueError, "the data have 1 column,"),
    ],
)
def test_bad_kernels(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("kernel", [Delta(), OnColumns(Gaussian(1.0), (0,)), Gaussian(1.0) * Delta(1.0)])
def test_no_mixture_of_squared_exponentials(kernel):
    with pytest.raises(TypeError, match=r"is no mixture of squared exponentials.*priors and kernel learning"):
        kernel.components(1)
    with pytest.raises(TypeError, match="use empirical"):
        kembed.fit_embedding([0.0, 1.0, 1.0], kernel)


def test_numpy_use_needs_no_jax():
    code = (
        "import sys, kembed\n"
        "k = kembed.OnColumns(kembed.Gaussian(1.0), (0,)) * kembed.OnColumns(kembed.Delta(), (1,))\n"
        "k.gram([[0.0, 1], [1.0, 1]]); k.diagonal([[0.0, 1]]); print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

"""Determinants of many small matrices at once, and the scatter they are taken of."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kembed.learning.paper.determinants import elimination, half_log_det, weighted_scatter

pytestmark = pytest.mark.usefixtures("double_precision")


def definite(D, count, seed=0):
    """(D, D, count) positive definite matrices."""
    root = np.random.default_rng(seed).normal(size=(count, D, D + 3))
    return np.moveaxis(root @ np.swapaxes(root, 1, 2), 0, 2)


@pytest.mark.parametrize("D", [1, 3, 4, 8])
def test_scatter_against_loops(D, rng):
    B, X, Z = rng.uniform(size=(3, 6)), rng.normal(size=(3, D)), rng.normal(size=(6, D))
    entries, size = weighted_scatter(B, X, Z)
    for c, x in enumerate(X):
        whole = sum(b * np.outer(x - z, x - z) for b, z in zip(B[c], Z, strict=True))
        np.testing.assert_allclose(entries[:, c], whole[np.triu_indices(D)], rtol=1e-12, atol=1e-13)
        assert (2.0 * size[:, c] >= np.diagonal(whole)).all()  # |x - z|² is at most 2(x² + z²)


@pytest.mark.parametrize("D", [1, 2, 7, 20])
def test_log_dets_against_numpy(D):
    matrices = definite(D, 30)
    expected = np.linalg.slogdet(np.moveaxis(matrices, 2, 0))[1]
    np.testing.assert_allclose(jax.jit(elimination())(matrices)[0], expected, rtol=1e-11, atol=1e-11)


def test_gradient_of_log_dets_against_differences(numerical_gradient):
    """The gradient is the inverse: every entry on its own, symmetric or not."""
    matrices = definite(4, 3)
    found = jax.grad(lambda A: elimination()(A)[0].sum())(matrices)

    def by_numpy(A):
        return np.linalg.slogdet(np.moveaxis(A, 2, 0))[1].sum()

    scale = np.abs(found).max()
    np.testing.assert_allclose(found, numerical_gradient(by_numpy, matrices), rtol=1e-8, atol=1e-9 * scale)
    inverse = np.linalg.inv(np.moveaxis(matrices, 2, 0))
    np.testing.assert_allclose(np.moveaxis(np.asarray(found), 2, 0), np.swapaxes(inverse, 1, 2), rtol=1e-9)


@pytest.mark.parametrize("backend", [np, jnp])
@pytest.mark.parametrize("D", [1, 3, 6, 7, 20])
def test_half_log_det_of_upper_triangles(D, backend):
    matrices = definite(D, 10)
    i, j = np.triu_indices(D)
    entries, floor = matrices[i, j], 1e-14 * np.diagonal(matrices).T
    expected = 0.5 * np.linalg.slogdet(np.moveaxis(matrices, 2, 0))[1]
    found, least = (half_log_det if backend is np else jax.jit(half_log_det))(entries, floor)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    # the last pivot is the ratio of two determinants
    pivots = [np.linalg.det(np.moveaxis(matrices[:d, :d], 2, 0)) for d in range(1, D + 1)]
    ratios = np.divide(pivots, [np.ones(10), *pivots[:-1]])
    np.testing.assert_allclose(least, ratios.min(axis=0), rtol=1e-9)


DEADLOCK = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from kembed.learning.paper.determinants import half_log_det
D, count = 20, 1000
i, j = np.triu_indices(D)
def batch(seed):
    root = np.random.default_rng(seed).normal(size=(count, D, D + 3))
    return np.moveaxis(root @ np.swapaxes(root, 1, 2), 0, 2)
A, B = batch(0), batch(1)
diagonal = np.flatnonzero(i == j)
def total(a, b):
    halves = [half_log_det(m, 1e-14 * m[diagonal])[0] for m in (a, b)]
    return halves[0].sum() + (halves[1] ** 2).sum()
run = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
for _ in range(3):
    value, gradient = jax.block_until_ready(run(A[i, j], B[i, j]))
expected = [0.5 * np.linalg.slogdet(np.moveaxis(M, 2, 0))[1] for M in (A, B)]
assert abs(value - expected[0].sum() - (expected[1] ** 2).sum()) < 1e-8 * abs(value), value
assert all(np.isfinite(g).all() for g in gradient)
print("done")
"""


def test_two_batches_in_one_program_do_not_wait_for_each_other():
    """jaxlib 0.10.2 hangs here on two cores if the batches go through LAPACK's Cholesky."""
    done = subprocess.run(
        [sys.executable, "-c", DEADLOCK], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "done", done.stderr

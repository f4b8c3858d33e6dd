"""One kernel: its matrix in strips, and its features at landmarks."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from tests.testing.alike import gaussian

from kembed import Delta, Gaussian, Matern32, OnColumns
from kembed.core.progress import showing_progress
from kembed.features import kernel as module
from kembed.features.kernel import kernel_matrix, kernel_member
from kembed.features.rows import Rows

KERNELS = [
    Gaussian(0.3),
    Matern32(5.0),
    OnColumns(Gaussian(1.0), (0,)) * OnColumns(Delta(0.8), (1,)),
    gaussian,
]


def gram(kernel, x):
    return kernel(x, x) if kernel is gaussian else kernel.gram(x)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: getattr(kernel, "__name__", str(kernel)))
@pytest.mark.parametrize("strip", [1, 100, 2**22])
def test_strips_are_the_matrix_less_a_constant(kernel, strip, rng, monkeypatch):
    monkeypatch.setattr(module, "STRIP", strip)
    x = rng.normal(size=(30, 2)).round(1)
    matrix = kernel_matrix(kernel, x)
    assert len(list(matrix.strips())) == {1: 30, 100: 10, 2**22: 1}[strip]
    np.testing.assert_allclose(matrix.whole() + matrix.constant, gram(kernel, x), atol=1e-14)
    np.testing.assert_allclose(matrix.block(x[:4], x[5:]), matrix.whole()[:4, 5:], atol=1e-14)


def test_wide_kernels_are_taken_less_one(rng):
    x = rng.normal(size=(30, 2))
    assert kernel_matrix(Gaussian(1e6), x).constant == 1.0
    wide = kernel_matrix(Gaussian(1e6), x).whole()
    np.testing.assert_allclose(-2e12 * wide, cdist(x, x, "sqeuclidean"), rtol=1e-9, atol=1e-12)
    assert kernel_matrix(Gaussian(0.1), x).constant == kernel_matrix(3.0 * Gaussian(9.0), x).constant == 0.0


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: getattr(kernel, "__name__", str(kernel)))
def test_features_of_few_rows_are_exact_and_of_others_nystroems(kernel, rng):
    x = rng.normal(size=(40, 2)).round(1)
    member = kernel_member(kernel, x, rng)
    np.testing.assert_allclose(member.matrix(Rows(None, x)), gram(kernel, x), atol=1e-7)
    y = rng.normal(size=(10, 2)).round(1)
    across, between = gram(kernel, np.concatenate([x, y]))[40:, :40], gram(kernel, x)
    expected = across @ np.linalg.pinv(between, rcond=1e-10, hermitian=True) @ across.T
    np.testing.assert_allclose(member.matrix(Rows(None, y)), expected, atol=1e-6)


def test_landmarks_of_many_rows_are_some_of_them(rng):
    x = rng.normal(size=(2_000, 1))
    member = kernel_member(Gaussian(1.0), x, rng)
    assert len(member.features.landmarks) == module.LANDMARKS
    assert np.isin(member.features.landmarks, x).all()
    np.testing.assert_allclose(member.matrix(Rows(None, x[:50])), Gaussian(1.0).gram(x[:50]), atol=1e-4)


@pytest.mark.parametrize(("long", "shown"), [(121, True), (122, False)])
def test_a_long_pass_over_the_matrix_is_shown(long, shown, rng, monkeypatch, capsys):
    monkeypatch.setattr("kembed.core.progress.LONG", long)
    with showing_progress(True):
        kernel_matrix(Gaussian(1.0), rng.normal(size=(11, 1))).whole()
    assert ("/11 " in capsys.readouterr().err) == shown

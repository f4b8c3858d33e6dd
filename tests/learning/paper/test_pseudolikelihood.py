"""The marginal pseudolikelihood: values, slopes in closed form and by JAX, chunks, precision, errors."""

import json
import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from tests import reference as ref
from tests.learning.paper.families import (
    CENTRE,
    SPREAD,
    gaussian_family,
    make_measure,
    other_family,
    r_of,
)

import kembed.learning.paper.pseudolikelihood as pl
from kembed import (
    Gaussian,
    GaussianMeasure,
    Lebesgue,
    Matern32,
    MultiScale,
    log_pseudolikelihood,
)

pytestmark = pytest.mark.usefixtures("double_precision")
N, M = 5, 6


def data(n, D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


# ------------------------------------------------------------------ values


@pytest.mark.parametrize(
    ("name", "D", "measure"),
    [("iso", 1, "lebesgue"), ("iso", 2, "lebesgue"), ("full", 3, "gaussian"), ("multiscale", 2, "gaussian")],
)
def test_value_of_gaussian_mixtures(name, D, measure):
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
    """With the library's own r, which is good to 1e-6 and checked by itself; all else to 1e-10."""
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
    sums = pl.FeatureSums(K.sum(axis=0), (K**2).sum(), 0.0)
    value = pl.log_marginal(sums, root @ root.T, noise, n)
    assert float(value) == pytest.approx(ref.log_density_full(K.T, root @ root.T, noise), rel=1e-10)


@pytest.mark.parametrize(
    ("D", "kernel"), [(1, Gaussian(1.0)), (2, Gaussian(1.0)), (2, Gaussian(1.0) + Matern32(1.0))]
)
def test_a_row_without_volume_gives_minus_infinity(D, kernel):
    """With m = D landmarks taken from the data, J has rank D-1 at each of them: gamma is 0."""
    x = data(4, D)
    assert ref.log_volume_gaussian_mp(x[0], x[:D], 1.0) == -math.inf
    assert log_pseudolikelihood(x, kernel=kernel, noise=1.0, landmarks=x[:D]) == -math.inf


@pytest.mark.parametrize("D", [1, 2])
def test_finite_value_for_every_lengthscale(D):
    x, z = data(N, D), data(M, D, 1)
    for scale in (1e-12, 1.0, 1e12):
        for relative in np.logspace(-4, 4, 17):
            for noise in (1.0, 1e-8):  # the latter disappears in R at large lengthscales
                kernel = Gaussian(relative * scale)
                value = log_pseudolikelihood(scale * x, kernel=kernel, noise=noise, landmarks=scale * z)
                assert np.isfinite(value), (scale, relative, noise)


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


def test_chunks_do_not_matter(monkeypatch):
    x, z = data(N, 2), data(M, 2, 1)
    x[3] += 100.0  # one row that is pivoted
    at_once = log_pseudolikelihood(x, kernel=Gaussian(0.8), noise=0.3, landmarks=z)
    monkeypatch.setattr(pl, "CHUNK_ENTRIES", 2 * z.size)
    assert len(list(pl.feature_sums(Gaussian(0.8), x, z))) == 3
    in_chunks = log_pseudolikelihood(x, kernel=Gaussian(0.8), noise=0.3, landmarks=z)
    assert in_chunks == pytest.approx(at_once, rel=1e-13)


# ------------------------------------------------------------------ slopes


@pytest.fixture
def x():
    """Rows, and among them one that is pivoted (10 lengthscales and more)."""
    x = data(N, 2)
    x[0] += 10.0
    return x


MEASURES = {
    "lebesgue": Lebesgue(),
    "isotropic": GaussianMeasure(0.3, 1.4, 1.7),
    "diagonal": GaussianMeasure(CENTRE[:2], np.array([1.4, 0.3])),
    "full": GaussianMeasure(CENTRE[:2], SPREAD[:2, :2], 2.0),
}


def by_jax(logs, z, measure, x, noise=0.3):
    return log_pseudolikelihood(x, kernel=Gaussian(jnp.exp(logs)), noise=noise, landmarks=z, measure=measure)


@pytest.mark.parametrize(("scale", "measure"), [(0.8, "lebesgue"), (np.array([0.7, 1.3]), "full")])
def test_slopes_by_differences(scale, measure, x, numerical_gradient):
    z, measure = data(M, 2, 1), MEASURES[measure]
    z[2] = x[3]

    def value(logs):
        return log_pseudolikelihood(x, kernel=Gaussian(np.exp(logs)), noise=0.3, landmarks=z, measure=measure)

    slopes = jax.grad(lambda logs: by_jax(logs, z, measure, x))(np.log(scale))
    np.testing.assert_allclose(slopes, numerical_gradient(value, np.log(scale)), rtol=1e-8)


@pytest.mark.parametrize(("D", "measure"), [(2, "full"), (7, "lebesgue")])
def test_numpy_and_jax_agree(D, measure):
    """With ordinary rows and one that is pivoted."""
    x, z = data(80, D), data(2 * D + 10, D, 1)
    x[0] += 10.0
    scale, measure = np.sqrt(D) * np.linspace(0.7, 1.1, D), MEASURES[measure]
    value = log_pseudolikelihood(x, kernel=Gaussian(scale), noise=1.0, landmarks=z, measure=measure)
    assert value == pytest.approx(float(by_jax(np.log(scale), z, measure, x, 1.0)), rel=1e-9)


def test_jax_differentiates_noise_measure_landmarks_and_other_kernels(x, numerical_gradient):
    z = data(M, 2, 1)

    def value(t):
        kernel = Gaussian(t[0]) + 0.5 * MultiScale(t[1:3], np.ones(2))
        measure = GaussianMeasure(t[3], t[4])
        return log_pseudolikelihood(x, kernel=kernel, noise=t[5], landmarks=z * t[6], measure=measure)

    at = np.array([0.7, 0.9, 1.4, 0.2, 1.1, 0.3, 0.9])
    slope, expected = jax.jit(jax.grad(value))(at), numerical_gradient(value, at)
    assert np.abs(expected).min() > 1e-3
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


# ------------------------------------------------------------------ determinant and quadratic form


def test_log_det_and_quadratic_of_a_good_matrix():
    rng = np.random.default_rng(0)
    root, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    R = root @ root.T
    A = R + 0.1 * np.eye(4)
    for found in (pl.regularised(R, 0.1, b), jax.jit(pl.regularised)(R, 0.1, b)):
        assert float(found[0]) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
        assert float(found[1]) == pytest.approx(b @ np.linalg.inv(A) @ b, rel=1e-12)


def test_shift_below_rounding_of_a_singular_matrix():
    """Two equal landmarks: the pivot 1 + shift - 1 rounds to 0, and Cholesky fails."""
    shift = 1e-18
    R = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    b = np.array([0.3, 0.3, 0.5])
    with mpmath.workdps(60):
        s = mpmath.mpf(shift)
        log_det = mpmath.log((2 + s) ** 2 * s)
        b0, b2 = mpmath.mpf(0.3), mpmath.mpf(0.5)
        expected = [float(log_det), float(2 * b0**2 / (2 + s) + b2**2 / (2 + s))]
    np.testing.assert_allclose(pl.regularised(R, shift, b), expected, rtol=1e-12)


def test_clipped_eigenvalues_of_a_smooth_kernel():
    """Thirty landmarks within a lengthscale: R has rank about 8 in double precision."""
    z = np.linspace(0, 1, 30)[:, None]
    R = Gaussian(1.0).convolved(Lebesgue()).gram(z)
    shift = 1e-25
    log_det, quadratic = pl.regularised(R, shift, R[:, 3])
    eigenvalues = np.linalg.eigvalsh(R)
    # eigenvalues that are all rounding differ between routines, but not in size: from shift to 1e-14
    big = eigenvalues > 1e-12
    least = np.log(eigenvalues[big]).sum() + (~big).sum() * math.log(shift)
    most = np.log(eigenvalues[big]).sum() + (~big).sum() * math.log(1e-14)
    assert least - 1e-3 < log_det < most + 1e-3
    assert np.isfinite(quadratic)

    @jax.jit
    @jax.grad
    def slope(log_l):
        R = Gaussian(jnp.exp(log_l)).convolved(Lebesgue())._gram(z, z)
        return sum(pl.regularised(R, shift, R[:, 3]))

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

"""The prior covariance r(x, y) = ∫ k(x, u) k(u, y) ν(du), against adaptive quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import erfcx
from tests import reference

from kembed import (
    Convolved,
    Gaussian,
    GaussianMeasure,
    Lebesgue,
    Matern12,
    Matern32,
    Matern52,
    MultiScale,
    RationalQuadratic,
)
from kembed.kernels.convolution import section_inner

pytestmark = pytest.mark.usefixtures("double_precision")

FULL = [[1.0, 0.4], [0.4, 0.7]]

# name: (measure, the same for the reference), in one dimension ...
MEASURES_1D = {
    "lebesgue": (Lebesgue(), "lebesgue"),
    "gaussian": (GaussianMeasure(), (0.0, 1.0, 1.0)),
    "gaussian-off-centre": (GaussianMeasure([0.8], 0.3, mass=2.5), (0.8, 0.3, 2.5)),
    "gaussian-vector": (GaussianMeasure(-0.5, [2.0], mass=0.4), (-0.5, 2.0, 0.4)),
    "gaussian-matrix": (GaussianMeasure([0.2], [[1.7]], mass=0.4), (0.2, 1.7, 0.4)),
}
# ... and in two
MEASURES_2D = {
    "lebesgue": (Lebesgue(), "lebesgue"),
    "gaussian": (GaussianMeasure(0.3, 2.0), ([0.3, 0.3], 2.0 * np.eye(2), 1.0)),
    "gaussian-diagonal": (
        GaussianMeasure([0.5, -1.0], [0.5, 1.5], mass=2.5),
        ([0.5, -1.0], np.diag([0.5, 1.5]), 2.5),
    ),
    "gaussian-full": (GaussianMeasure([0.5, -1.0], FULL, mass=0.7), ([0.5, -1.0], FULL, 0.7)),
}

# Mixtures of finitely many Gaussians, whose r is in closed form
CLOSED_1D = {
    "gaussian": (Gaussian(0.7), reference.gaussian(0.49)),
    "gaussian-full": (Gaussian(covariance=[[1.3]]), reference.gaussian(1.3)),
    "multiscale": (
        MultiScale([0.4, 2.0], weights=[0.5, 1.5]),
        reference.multiscale([0.4, 2.0], [0.5, 1.5]),
    ),
    "sum": (
        Gaussian(0.5) + 2.0 * Gaussian(1.5),
        reference.sum_of(reference.gaussian(0.25), reference.scaled(reference.gaussian(2.25), 2.0)),
    ),
    "product": (
        Gaussian(0.9) * MultiScale([0.4, 2.0]),
        reference.product_of(reference.gaussian(0.81), reference.multiscale([0.4, 2.0], [0.5, 0.5])),
    ),
}
SIGMA = [[1.0, 0.3], [0.3, 0.5]]
CLOSED_2D = {
    "gaussian": (Gaussian(0.7), reference.gaussian(0.49 * np.eye(2))),
    "gaussian-ard": (Gaussian([0.6, 1.4]), reference.gaussian(np.diag([0.36, 1.96]))),
    "gaussian-full": (Gaussian(covariance=SIGMA), reference.gaussian(SIGMA)),
    "multiscale": (MultiScale([0.6, 1.5]), reference.multiscale([0.6, 1.5], [0.5, 0.5])),
    "sum-of-metrics": (
        Gaussian(covariance=SIGMA) + 2.0 * Gaussian([0.6, 1.4]),
        reference.sum_of(
            reference.gaussian(SIGMA), reference.scaled(reference.gaussian(np.diag([0.36, 1.96])), 2.0)
        ),
    ),
    "product": (
        Gaussian(covariance=SIGMA) * Gaussian(1.4),
        reference.product_of(reference.gaussian(SIGMA), reference.gaussian(1.96 * np.eye(2))),
    ),
}

# Scale mixtures, whose r is a quadrature over scales
MIXED = {
    "rational-quadratic-0.6": (
        lambda c: RationalQuadratic(c, 0.6),
        lambda c: reference.rational_quadratic(c, 0.6),
    ),
    "rational-quadratic-1": (
        lambda c: RationalQuadratic(c, 1.0),
        lambda c: reference.rational_quadratic(c, 1.0),
    ),
    "rational-quadratic-5": (
        lambda c: RationalQuadratic(c, 5.0),
        lambda c: reference.rational_quadratic(c, 5.0),
    ),
    "matern12": (Matern12, lambda c: reference.matern(c, 0.5)),
    "matern32": (Matern32, lambda c: reference.matern(c, 1.5)),
    "matern52": (Matern52, lambda c: reference.matern(c, 2.5)),
}

# For the laws, in two dimensions; scale mixtures cost 48² pairs of components, so not with every measure
LAWS = [
    *(kernel for kernel, _ in CLOSED_2D.values()),
    RationalQuadratic([0.5, 2.0], alpha=1.2),
    0.5 * Matern12(1.0),
    Matern52([0.5, 2.0]),
]
CASES = [
    *((CLOSED_2D[k][0], name) for k in ("gaussian-ard", "sum-of-metrics", "product") for name in MEASURES_2D),
    (CLOSED_2D["multiscale"][0], "gaussian-diagonal"),
    (RationalQuadratic([0.5, 2.0], alpha=1.2), "lebesgue"),
    (RationalQuadratic([0.5, 2.0], alpha=1.2), "gaussian-diagonal"),
    (0.5 * Matern12(1.0), "lebesgue"),
    (0.5 * Matern12(1.0), "gaussian-diagonal"),
    (Matern32(0.8), "gaussian"),
    (Matern52([0.5, 2.0]), "gaussian-diagonal"),
]
RNG = np.random.default_rng(11)
X = RNG.normal(size=(5, 2))
Y = np.vstack([RNG.normal(size=(3, 2)), X[1]])
WEIGHTS = RNG.normal(size=(len(X), len(Y)))

laws = pytest.mark.parametrize("kernel", LAWS, ids=repr)
cases = pytest.mark.parametrize(("kernel", "name"), CASES, ids=repr)


@pytest.mark.parametrize("name", CLOSED_1D)
@pytest.mark.parametrize("measure", MEASURES_1D)
def test_closed_forms_on_the_line(name, measure):
    (kernel, k), (ours, theirs) = CLOSED_1D[name], MEASURES_1D[measure]
    points = np.array([-0.6, 0.3, 2.0])
    expected = reference.gram(reference.convolved(k, theirs, 1), points, points)
    assert_allclose(kernel.convolved(ours).gram(points), expected, rtol=1e-10)


@pytest.mark.parametrize("name", CLOSED_2D)
@pytest.mark.parametrize("measure", MEASURES_2D)
def test_closed_forms_in_the_plane(name, measure):
    (kernel, k), (ours, theirs) = CLOSED_2D[name], MEASURES_2D[measure]
    x, y = np.array([0.4, -0.2]), np.array([-0.5, 0.6])
    expected = reference.convolved(k, theirs, 2)(x, y)
    assert_allclose(kernel.convolved(ours)(x, y), expected, rtol=1e-10)


@pytest.mark.parametrize("measure", MEASURES_2D)
def test_textbook_formulas_in_the_plane(measure):
    """Every pair of metrics, cross terms included: r of a sum is the sum over pairs."""
    ours, theirs = MEASURES_2D[measure]
    kernels = [Gaussian(0.7), Gaussian([0.6, 1.4]), Gaussian(covariance=SIGMA)]
    covariances = [0.49 * np.eye(2), np.diag([0.36, 1.96]), np.array(SIGMA)]

    def form(A, B):
        if measure == "lebesgue":
            return reference.convolved_gaussian_lebesgue(A, B)
        return reference.convolved_gaussian_measure(A, B, *theirs)

    for a, A in zip(kernels, covariances, strict=True):
        assert_allclose(a.convolved(ours).gram(X, Y), reference.gram(form(A, A), X, Y), rtol=1e-11)
        for b, B in zip(kernels, covariances, strict=True):
            pairs = reference.sum_of(form(A, A), form(A, B), form(B, A), form(B, B))
            assert_allclose((a + b).convolved(ours).gram(X, Y), reference.gram(pairs, X, Y), rtol=1e-11)


@pytest.mark.parametrize("lengthscale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("measure", ["lebesgue", "gaussian-off-centre"])
@pytest.mark.parametrize("name", MIXED)
def test_scale_mixtures_on_the_line(name, measure, lengthscale):
    (ours, theirs), (make, make_reference) = MEASURES_1D[measure], MIXED[name]
    slow = reference.convolved(make_reference(lengthscale), theirs, 1, rel=1e-8)
    x, y = np.array([[0.3]]), 0.3 - np.array([[0.0], [0.1], [1.0], [5.0], [10.0]])
    # 1e-6 is what the quadrature over scales is made for, up to 100 lengthscales apart
    assert_allclose(make(lengthscale).convolved(ours).gram(x, y), reference.gram(slow, x, y), rtol=1e-6)


@pytest.mark.parametrize("measure", ["lebesgue", "gaussian-full"])
@pytest.mark.parametrize("name", list(MIXED)[1:])  # alpha = 0.6 has no r under Lebesgue in the plane
def test_scale_mixtures_in_the_plane(name, measure):
    (ours, theirs), (make, make_reference) = MEASURES_2D[measure], MIXED[name]
    r, slow = make(0.8).convolved(ours), reference.convolved(make_reference(0.8), theirs, 2)
    x, y = np.array([0.4, -0.2]), np.array([-0.5, 0.6])
    assert_allclose(r(x, y), slow(x, y), rtol=1e-6)


@pytest.mark.parametrize("make", [Matern12, Matern32, Matern52, lambda c: RationalQuadratic(c, 1.0)])
def test_scale_mixtures_under_a_measure_at_one_point(make):
    """All of ν at c: r(x, y) = k(x, c) k(c, y), also at x = c. Narrow ν, and constant columns, tend to it."""
    kernel, centre, points = make(1.0), np.array([[2.0]]), np.array([[2.0], [2.5], [6.0]])
    section = kernel.gram(points, centre)
    r = kernel.convolved(GaussianMeasure.of(centre))
    assert_allclose(r.gram(points), section * section.T, rtol=1e-5)  # quadratures over scales


def test_hand_worked_numbers():
    lebesgue = Lebesgue()
    assert_allclose(Gaussian(1.0).convolved(lebesgue)(0.0, 0.0), np.sqrt(np.pi), rtol=1e-15)
    assert_allclose(Gaussian(1.0).convolved(lebesgue)(0.0, 2.0), np.sqrt(np.pi) / np.e, rtol=1e-15)
    assert_allclose(Gaussian(2.0).convolved(lebesgue)([0.0, 0.0], [0.0, 0.0]), 4 * np.pi, rtol=1e-15)
    assert_allclose(Gaussian([1.0, 3.0]).convolved(lebesgue)([1.0, 1.0], [1.0, 1.0]), 3 * np.pi, rtol=1e-15)
    assert_allclose((3 * Gaussian(1.0)).convolved(lebesgue)(0.0, 0.0), 9 * np.sqrt(np.pi), rtol=1e-15)
    normal = Gaussian(1.0).convolved(GaussianMeasure(0.0, 4.0, mass=6.0))
    assert_allclose(normal(0.0, 0.0), 2.0, rtol=1e-15)  # 6 / sqrt(1 + 2·4)
    assert_allclose(normal(3.0, -3.0), 2.0 * np.exp(-9.0), rtol=1e-14)
    # 1e-6: these are quadratures over scales. ∫e^{-2|u|/l} du = l; ∫(1 + u²/2)^{-2} du = π/√2
    assert_allclose(Matern12(3.0).convolved(lebesgue)(0.0, 0.0), 3.0, rtol=1e-6)
    assert_allclose(Matern12(1.0).convolved(lebesgue)(0.0, 2.0), 3.0 * np.exp(-2.0), rtol=1e-6)
    assert_allclose(
        RationalQuadratic(1.0, 1.0).convolved(lebesgue)(0.0, 0.0), np.pi / np.sqrt(2.0), rtol=1e-6
    )
    # E exp(-2|U|) = erfcx(√2) for a standard normal U
    assert_allclose(Matern12(1.0).convolved(GaussianMeasure())(0.0, 0.0), erfcx(np.sqrt(2.0)), rtol=1e-6)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_papers_unnormalised_measure(dimension):
    """exp(-|u|²/2η²) du with 𝗆 = S Σ⁻¹ (x + y), S = (2Σ⁻¹ + I/η²)⁻¹: not S⁻¹, as printed (erratum 4)."""
    eta, variance = 1.3, 0.49
    r = Gaussian(0.7).convolved(GaussianMeasure.unnormalised(eta, dimension))
    for x, y in zip(*np.random.default_rng(0).normal(size=(2, 5, dimension)), strict=True):
        S = 1 / (2 / variance + 1 / eta**2)
        m = S / variance * (x + y)
        exponent = (x @ x + y @ y) / variance - m @ m / S
        expected = (2 * np.pi * S) ** (dimension / 2) * np.exp(-0.5 * exponent)
        assert_allclose(r(x, y), expected, rtol=1e-12)
        theirs = reference.convolved_gaussian_measure(
            variance * np.eye(dimension),
            variance * np.eye(dimension),
            np.zeros(dimension),
            eta**2 * np.eye(dimension),
            (2 * np.pi * eta**2) ** (dimension / 2),
        )
        assert_allclose(r(x, y), theirs(x, y), rtol=1e-12)


@laws
def test_wide_measures_tend_to_lebesgue(kernel):
    r, limit = kernel.convolved(GaussianMeasure.unnormalised(1e6, 2)), kernel.convolved(Lebesgue())
    # The difference is of order (distance / η)² = 1e-12, but for the heavy tails of the rational quadratic,
    # k² ~ d^(-4α) and rules over scales that differ between the measures: 1e-6 there
    rough = "RationalQuadratic" in repr(kernel)
    assert_allclose(r.gram(X, Y), limit.gram(X, Y), rtol=1e-6 if rough else 1e-10)


@cases
def test_symmetric_and_positive_semidefinite(kernel, name, rng):
    r = kernel.convolved(MEASURES_2D[name][0])
    gram = r.gram(np.vstack([X, Y[:3], rng.normal(size=(17, 2))]))
    assert_allclose(r.gram(Y[:3], X), gram[:5, 5:8].T, rtol=1e-12)
    assert np.linalg.eigvalsh(gram)[0] >= -1e-12 * np.trace(gram)


@cases
def test_diagonal_and_pairs(kernel, name):
    r = kernel.convolved(MEASURES_2D[name][0])
    gram = r.gram(X)
    assert_allclose(r.diagonal(X), np.diagonal(gram), rtol=1e-12)
    assert_allclose(r.gram(X, X), gram, rtol=0, atol=0)
    assert_allclose(r(X[0], X[3]), gram[0, 3], rtol=1e-12)


# of every kernel one metric or more, of every measure one
@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (CLOSED_2D["product"][0], "gaussian"),
        (CLOSED_2D["multiscale"][0], "gaussian-diagonal"),
        (0.5 * Matern12(1.0), "lebesgue"),
        (Matern52([0.5, 2.0]), "gaussian-diagonal"),
    ],
    ids=repr,
)
def test_jit_is_numpy(kernel, name):
    """Other kernels and measures are in `test_gradient`."""
    r = kernel.convolved(MEASURES_2D[name][0])
    assert isinstance(r.gram(X), np.ndarray)
    assert_allclose(jax.jit(lambda r, x, y: r.gram(x, y))(r, X, Y), r.gram(X, Y), rtol=1e-11)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Gaussian(0.7), "gaussian-diagonal"),
        (Gaussian(0.7), "lebesgue"),
        (CLOSED_2D["sum-of-metrics"][0], "gaussian-full"),
    ],
    ids=repr,
)
def test_jit_of_some_parts_only(kernel, name):
    """Whatever is traced, the points, the kernel or its weight alone, the rest may be plain NumPy."""
    measure = MEASURES_2D[name][0]
    r = kernel.convolved(measure)
    gram, diagonal = r.gram(X, Y), r.diagonal(X)

    @jax.jit
    def traced(x, y, k, c, nu):  # in each of them one argument is
        of_points = r.gram(x, Y), r.gram(X, y), r.diagonal(x)
        of_kernels = k.convolved(measure).gram(X, Y), (c * kernel).convolved(measure).gram(X, Y)
        return *of_points, *of_kernels, kernel.convolved(nu).gram(X, Y)

    expected = gram, gram, diagonal, gram, 4 * gram, gram
    for ours, theirs in zip(traced(X, Y, kernel, 2.0, measure), expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-11)


@pytest.mark.parametrize("change", ["centre", "covariance", "mass"])
def test_gradient_in_one_part_of_the_measure(change, numerical_gradient):
    start = {"centre": np.array([0.5, -1.0]), "covariance": np.array([0.5, 1.5]), "mass": np.array(2.5)}

    def weighted(v):
        return (WEIGHTS * Gaussian(0.7).convolved(GaussianMeasure(**{**start, change: v})).gram(X, Y)).sum()

    expected = numerical_gradient(weighted, start[change])
    assert_allclose(jax.jit(jax.grad(weighted))(jnp.asarray(start[change])), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Gaussian([0.6, 1.4]), "lebesgue"),
        (Gaussian([0.6, 1.4]), "gaussian-diagonal"),
        (Gaussian(covariance=SIGMA) + 2.0 * MultiScale([0.6, 1.5]), "gaussian-full"),
        (RationalQuadratic(0.8, alpha=1.3), "lebesgue"),
        (RationalQuadratic(0.8, alpha=1.3), "gaussian"),
        (Matern12(0.8), "gaussian-full"),
        (1.4 * Matern32(0.9), "lebesgue"),
        (Matern52(1.2), "lebesgue"),
    ],
    ids=repr,
)
def test_gradient(kernel, name, as_vector, numerical_gradient):
    """In every hyperparameter (lengthscales, alpha, weights) and all of the measure at once."""
    theta, rebuild = as_vector(kernel.convolved(MEASURES_2D[name][0]))

    def weighted(v):
        r = rebuild(v)
        measure = r.measure
        if isinstance(measure, GaussianMeasure):  # moves of single entries must leave a matrix symmetric
            covariance = (measure.covariance + measure.covariance.T) / 2
            measure = GaussianMeasure(measure.centre, covariance, measure.mass)
        return (WEIGHTS * r.kernel.convolved(measure).gram(X, Y)).sum()

    compiled = jax.jit(jax.value_and_grad(weighted))  # for the differences too: NumPy takes longer
    value, slope = compiled(theta)
    assert_allclose(value, weighted(theta), rtol=1e-11)  # that of NumPy
    expected = numerical_gradient(lambda v: compiled(v)[0], theta)
    # 1e-9: the differences themselves are good to about 1e-11 of the sum
    assert_allclose(slope, expected, rtol=1e-9, atol=1e-10)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Gaussian(0.7), "gaussian-full"),
        (RationalQuadratic(0.8, 1.3), "lebesgue"),
        (Matern12(0.8), "gaussian"),
    ],
    ids=repr,
)
def test_gradient_in_points(kernel, name, numerical_gradient):
    r = jax.tree.map(jnp.asarray, kernel.convolved(MEASURES_2D[name][0]))

    @jax.jit
    @jax.value_and_grad
    def weighted(x):  # Y holds a row of X, where nothing may become NaN
        return (WEIGHTS * r.gram(x, Y)).sum()

    # The rules for Matérn 1/2 hold components 1e-3 wide, so differences need steps of 1e-5; rounding then
    # leaves 1e-10 of the sum
    expected = numerical_gradient(lambda x: weighted(x)[0], X, step=1e-5)
    assert_allclose(weighted(X)[1], expected, rtol=1e-7, atol=1e-8)


@laws
def test_singular_covariance_is_the_limit_of_small_jitter(kernel, rng):
    data = rng.normal(size=(30, 2))
    data[:, 1] = 0.4  # a constant column
    measure = GaussianMeasure.of(data)
    assert np.linalg.matrix_rank(measure.covariance) == 1
    gram = kernel.convolved(measure).gram(X)
    assert np.isfinite(gram).all()
    assert np.linalg.eigvalsh(gram)[0] >= -1e-12 * np.trace(gram)
    jittered = GaussianMeasure(measure.centre, measure.covariance + 1e-13 * np.eye(2))
    # 1e-7: the narrowest component of the Matérn rules has variance 5e-6, so jitter shows as 1e-13/5e-6
    assert_allclose(kernel.convolved(jittered).gram(X), gram, rtol=1e-7)


def test_singular_covariance_is_the_convolution_on_its_line():
    """With the second coordinate fixed, r in the plane is r on the line times what k loses across."""
    measure = GaussianMeasure([0.5, 0.4], [[1.5, 0.0], [0.0, 0.0]], mass=2.0)
    across = Gaussian(1.4)
    expected = (
        Gaussian(0.6).convolved(GaussianMeasure(0.5, 1.5, 2.0)).gram(X[:, :1], Y[:, :1])
        * across.gram(X[:, 1:], [[0.4]])
        * across.gram([[0.4]], Y[:, 1:])
    )
    assert_allclose(Gaussian([0.6, 1.4]).convolved(measure).gram(X, Y), expected, rtol=1e-12)


def test_measure_of_data(rng):
    data = rng.normal(size=(50, 2)) @ np.array([[2.0, 0.0], [0.7, 0.5]]) + 3.0
    measure = GaussianMeasure.of(data)
    assert_allclose(measure.centre, data.mean(axis=0), rtol=1e-14)
    assert_allclose(measure.covariance, np.cov(data.T, bias=True), rtol=1e-13)
    assert measure.mass == 1.0


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_placed_by_the_data_r_has_no_units(scale, rng):
    data = rng.normal(size=(50, 2))
    gram = Gaussian(0.7).convolved(GaussianMeasure.of(data)).gram(X, Y)
    other = Gaussian(0.7 * scale).convolved(GaussianMeasure.of(scale * data)).gram(scale * X, scale * Y)
    assert_allclose(other, gram, rtol=1e-12)


POINTS = np.array([[-0.4], [1.1]])


def test_inner_products_of_sections_of_a_matern():
    left, right = MEASURES_1D["lebesgue"], MEASURES_1D["gaussian-off-centre"]
    expected = reference.triple(reference.matern(0.9, 1.5), left[1], right[1], rel=1e-8)(POINTS[0], POINTS[1])
    ours = section_inner(Matern32(0.9), left[0], right[0], POINTS[:1], POINTS[1:])
    assert_allclose(ours[0, 0], expected, rtol=1e-6)  # a quadrature over scales


@pytest.mark.parametrize("left", MEASURES_1D)
@pytest.mark.parametrize("right", MEASURES_1D)
@pytest.mark.parametrize("name", ["gaussian", "multiscale", "product"])
def test_inner_products_of_sections_by_the_trapezium_rule(name, left, right):
    """On a line wide and fine enough that for Gaussians the rule is exact to rounding."""
    kernel = CLOSED_1D[name][0]
    u, step = np.linspace(-20.0, 20.0, 801, retstep=True)

    def density(measure):
        if measure == "lebesgue":
            return np.ones_like(u)
        centre, variance, mass = measure
        return mass * np.exp(-((u - centre) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    section_left = kernel.gram(POINTS, u) * density(MEASURES_1D[left][1]) * step
    section_right = kernel.gram(POINTS, u) * density(MEASURES_1D[right][1]) * step
    ours = section_inner(kernel, MEASURES_1D[left][0], MEASURES_1D[right][0], POINTS, POINTS)
    assert_allclose(ours, section_left @ kernel.gram(u) @ section_right.T, rtol=1e-11)


def test_inner_products_of_sections_in_the_plane():
    """⟨r(·, x), r'(·, y)⟩ is ∫ r(x, u) k(u, y) ν'(du), here for ν' at one point and for a swap of sides."""
    kernel, wide = Gaussian(covariance=SIGMA) + Gaussian([0.6, 1.4]), MEASURES_2D["gaussian-full"][0]
    point = np.array([[0.3, -0.7]])
    at_point = GaussianMeasure.of(point)
    ours = section_inner(kernel, wide, at_point, X, Y)
    assert_allclose(ours, kernel.convolved(wide).gram(X, point) * kernel.gram(point, Y), rtol=1e-11)
    assert_allclose(section_inner(kernel, at_point, wide, Y, X), ours.T, rtol=1e-11)


def test_repr():
    assert repr(Gaussian(1.0).convolved(Lebesgue())) == "Convolved(Gaussian(lengthscale=1), Lebesgue())"
    assert "np.float64" not in repr(GaussianMeasure(0.0, [1.0, 2.0]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Gaussian(1.0).convolved("lebesgue"), TypeError, "measure must be Lebesgue"),
        (lambda: Gaussian(1.0).convolved(Lebesgue), TypeError, "measure must be Lebesgue"),
        (lambda: Gaussian(1.0).convolved(None), TypeError, "measure must be Lebesgue"),
        (lambda: Convolved(1.0, Lebesgue()), TypeError, "kernel must be a kernel object"),
        (lambda: RationalQuadratic(1.0, 0.2).convolved(Lebesgue()).gram([0.0]), ValueError, "heavy-tailed"),
        (lambda: RationalQuadratic(1.0, 0.2).convolved(Lebesgue()).diagonal([0.0]), ValueError, "alpha"),
        (lambda: RationalQuadratic(1.0, 0.6).convolved(Lebesgue()).gram(X), ValueError, "2 dimensions"),
        (lambda: Gaussian([1.0, 2.0]).convolved(Lebesgue()).gram([0.0]), ValueError, "2 lengthscales"),
        (lambda: GaussianMeasure(0.0, -1.0), ValueError, "covariance must be positive"),
        (lambda: GaussianMeasure(0.0, 1.0, 0.0), ValueError, "mass must be positive"),
        (lambda: GaussianMeasure(0.0, [[1.0, 2.0], [2.0, 1.0]]), ValueError, "negative eigenvalue"),
        (lambda: GaussianMeasure(0.0, [[1.0, 2.0]]), ValueError, "square"),
        (lambda: GaussianMeasure(np.inf), ValueError, "centre must be finite"),
    ],
)
def test_errors_say_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "measure",
    [
        GaussianMeasure([0.0, 1.0, 2.0], 1.0),
        GaussianMeasure(0.0, [1.0, 1.0, 2.0]),
        GaussianMeasure(0.0, np.eye(3)),
    ],
)
@pytest.mark.parametrize("dimension", [1, 2])
def test_measure_of_another_dimension_is_refused(measure, dimension):
    with pytest.raises(ValueError, match=r"3|dimension"):
        Gaussian(1.0).convolved(measure).gram(np.zeros((2, dimension)))


def test_heavy_tails_are_fine_under_a_finite_measure():
    slow = reference.convolved(reference.rational_quadratic(1.0, 0.2), (0.0, 1.0, 1.0), 1)
    r = RationalQuadratic(1.0, 0.2).convolved(GaussianMeasure())
    assert_allclose(r(0.3, 1.5), slow([0.3], [1.5]), rtol=1e-6)


@pytest.mark.parametrize(("kernel", "nu"), [(Matern12, 0.5), (Matern32, 1.5), (Matern52, 2.5)])
@pytest.mark.parametrize("sd", [0.05, 0.1, 1.0])
def test_matern_far_apart_under_a_narrow_measure(kernel, nu, sd):
    """A hundred lengthscales apart, on both sides of a measure as narrow as half a lengthscale."""
    measure = GaussianMeasure(0.0, sd**2)
    expected = reference.convolved(reference.matern(0.1, nu), (np.zeros(1), np.array([[sd**2]]), 1.0), 1)
    for x, y in [(-5.0, 5.0), (0.0, 10.0)]:
        value = float(kernel(0.1).convolved(measure)([x], [y]))
        assert value == pytest.approx(expected(np.array([x]), np.array([y])), rel=1e-6, abs=0.0)

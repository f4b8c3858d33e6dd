"""The objective: against loops, quadrature and differences; what ties, backgrounds and priors do to it."""

import jax
import numpy as np
import pytest
from scipy import integrate, special
from tests import reference

from kembed import Gaussian, Matern12, Matern32, Matern52, MultiScale, RationalQuadratic
from kembed.core.linalg import robust_spread
from kembed.learning import objective as module
from kembed.learning.families import family_of
from kembed.learning.learn import fit_kernel
from kembed.learning.objective import gaussian_sums, log_beyond, log_cauchy
from kembed.learning.problem import Effort, Grid, Spec, compiled, objective, prepare
from kembed.learning.search import local_maxima, scan, value_at

RNG = np.random.default_rng
BACKGROUND_WIDTH = 10.0  # spreads of the data, as the page says
PATTERNS = {
    "gaussian": Gaussian(),
    "ard": Gaussian(np.ones(2)),
    "full": Gaussian.from_covariance(np.eye(2)),
    "rational quadratic": RationalQuadratic(),
    "matern": Matern32(),
    "multiscale": MultiScale([1.0, 1.0]),
}


@pytest.fixture(scope="module")
def rows():
    x = np.sort(RNG(0).normal(size=(12, 2)), axis=0)
    return np.concatenate([x, x[3:5]])[np.lexsort(np.concatenate([x, x[3:5]]).T[::-1])]


def prepared(rows, pattern, effort=Effort()):  # noqa: B008 - frozen
    family = family_of(pattern, rows.shape[1])
    return Spec(family, None), prepare(rows, family, effort, RNG(0))


@pytest.mark.parametrize(
    ("kernel", "slow"),
    [
        (Gaussian(1.4), reference.gaussian(0.49 * np.eye(2))),
        (Matern52(1.4), reference.matern(0.7, 2.5)),
        (RationalQuadratic(1.4, 2.5), reference.rational_quadratic(0.7, 2.5)),
        (MultiScale([0.8, 3.0], [0.3, 0.7]), reference.multiscale([0.4, 1.5], [0.3, 0.7])),
    ],
)
def test_value_is_that_of_loops(rows, kernel, slow):
    """In a frame that is moved and scaled; ties do not predict each other, a background catches the rest."""
    spec, found = prepared(rows, kernel)
    y = found.frame.into(rows)
    scale = found.frame.scale[0]
    theta = np.log(
        np.atleast_1d(getattr(kernel, "lengthscale", kernel.hyperparameters().get("lengthscales")))
    )
    theta = theta - np.log(scale)
    if isinstance(kernel, RationalQuadratic):
        theta = np.append(theta, np.log(2.5 - 1.0))
    if isinstance(kernel, MultiScale):
        theta = np.append(theta, np.log(0.7 / 0.3))
    widths = BACKGROUND_WIDTH * robust_spread(np.unique(y.round(12), axis=0)) * scale
    centre = found.frame.centre
    log_integral = float(kernel.log_integral(2)) - 2 * np.log(2.0)
    turn = found.frame.axes  # the background stands on the frame's axes

    def background(x):
        return reference.cauchy_density((x - centre) @ turn, widths)

    for epsilon in (0.02, 1e-4):
        expected = reference.leave_one_out(slow, log_integral, rows, background, epsilon)
        value, log_evidence = objective(spec, theta, found.problem, epsilon)
        assert value == log_evidence
        np.testing.assert_allclose(value - len(rows) * found.frame.log_unit, expected, rtol=1e-9)
    assert objective(spec, theta, found.problem) == objective(spec, theta, found.problem, 0.02)


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.7),
        Matern12(0.7),
        Matern32(0.7),
        Matern52(0.7),
        RationalQuadratic(0.7, 2.2),
        MultiScale([1, 3]),
    ],
)
@pytest.mark.parametrize("D", [1, 3])
def test_integrals_of_kernels(kernel, D):
    sphere = {1: 2.0, 3: 4.0 * np.pi}[D]

    def shell(r):
        return sphere * r ** (D - 1) * float(kernel([0.0] * D, [r] + [0.0] * (D - 1)))

    total = integrate.quad(shell, 0.0, np.inf, limit=200)[0]
    np.testing.assert_allclose(np.exp(kernel.log_integral(D)), total, rtol=1e-6)


def test_no_kernel_without_an_integral_is_looked_at():
    """Of all families the rational quadratic alone may have none; its α is searched beyond D/2."""
    for D in (1, 3, 20):
        family = family_of(RationalQuadratic(), D)
        lowest = np.array(family.bounds(0.1, 1.0, D))[:, 0]
        assert np.isfinite(family.kernel(lowest, D).log_integral(D))


def test_integral_of_a_metric_and_of_tails_too_heavy():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    exact = 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    assert float(Gaussian.from_covariance(covariance).log_integral(2)) == pytest.approx(exact)
    assert float(Gaussian([2.0, 3.0]).log_integral(2)) == pytest.approx(np.log(2.0 * np.pi * 6.0))
    assert RationalQuadratic(1.0, 1.0).log_integral(2) == np.inf


def test_background_is_a_density():
    assert integrate.quad(lambda t: np.exp(log_cauchy(np.array([[t]]), np.array([3.0]))[0]), -np.inf, np.inf)[
        0
    ] == pytest.approx(1.0)
    np.testing.assert_allclose(
        np.exp(log_cauchy(np.array([[1.0, -2.0]]), np.array([2.0, 3.0])))[0],
        reference.cauchy_density(np.array([1.0, -2.0]), [2.0, 3.0]),
    )


@pytest.mark.parametrize("name", PATTERNS)
def test_gradient_against_differences(rows, name, numerical_gradient):
    """The compiled gradient, with the default prior."""
    family = family_of(PATTERNS[name], 2)
    problem = prepare(rows, family, Effort(), RNG(0)).problem
    spec = Spec(family)
    theta = family.starts(0.8, 2)[0] + 0.1 * RNG(1).normal(size=family.size(2))
    with jax.enable_x64(True):
        (value, _), slope = compiled()(spec, theta, problem)
    np.testing.assert_allclose(value, objective(spec, theta, problem)[0], rtol=1e-12)
    expected = numerical_gradient(lambda at: objective(spec, at, problem)[0], theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-7, atol=1e-7)


def test_rounded_values_do_not_foretell_themselves():
    """Every row has a twin, yet the best scale is that of the sample without twins."""
    x = np.sort(RNG(0).normal(size=(150, 1)), axis=0)
    once, twice = (fit_kernel(one, Gaussian(), None)[0] for one in (x, np.repeat(x, 2, axis=0)))
    assert twice.kernel.lengthscale == pytest.approx(once.kernel.lengthscale, rel=1e-3)
    assert twice.log_evidence == pytest.approx(2.0 * once.log_evidence, rel=1e-6)
    plane = RNG(0).normal(size=(150, 2))
    once, twice = (fit_kernel(one, Gaussian(), None)[0] for one in (plane, np.repeat(plane, 2, axis=0)))
    assert twice.kernel.lengthscale == pytest.approx(once.kernel.lengthscale, rel=0.02)
    grid = fit_kernel(x.round(1), Gaussian())[0]
    assert 0.1 < grid.kernel.lengthscale < 1.5


@pytest.mark.parametrize("kernel", [Gaussian(1.1), Matern12(1.1), MultiScale([0.8, 2.0], [0.3, 0.7])])
def test_in_a_rounded_column_the_kernel_lacks_its_middle(kernel):
    """Rows of the own cell are left out, and κ is divided by its integral beyond that cell, by quadrature."""
    x = np.sort(np.round(2.0 * RNG(0).normal(size=(40, 1))) / 2.0, axis=0)
    spec, found = prepared(x, kernel)
    scale, centre = found.frame.scale[0], found.frame.centre[0]
    theta = np.log(getattr(kernel, "lengthscale", getattr(kernel, "lengthscales", None))) - np.log(scale)
    theta = np.append(theta, np.log(0.7 / 0.3)) if isinstance(kernel, MultiScale) else np.atleast_1d(theta)
    beyond = 2.0 * integrate.quad(lambda u: float(kernel([0.0], [2.0 * u])), 0.25, np.inf)[0]
    width = BACKGROUND_WIDTH * float(robust_spread(np.unique(x)[:, None] - centre)[0])
    expected = 0.0
    for value in x[:, 0]:
        near = sum(float(kernel([2.0 * value], [2.0 * o])) for o in x[:, 0] if o != value) / (39 * beyond)
        background = reference.cauchy_density(np.array([value - centre]), [width])
        expected += np.log(0.98 * near + 0.02 * background)
    value = objective(spec, theta, found.problem)[1]
    np.testing.assert_allclose(value - 40 * found.frame.log_unit, expected, rtol=1e-6)


@pytest.mark.parametrize(("block", "heights"), [(20, [3, 3, 1]), (3, [1] * 7), (65_536, [7])])
def test_so_many_pairs_at_a_time(block, heights, monkeypatch):
    """Of 7 rows and 6: three rows at a time where 20 pairs stay in a cache; JAX gets all at once."""
    monkeypatch.setattr(module, "BLOCK", block)
    seen = []

    class Watched:
        def profile(self, s):
            seen.append(len(s))
            return Gaussian().profile(s)

    squared = RNG(0).uniform(size=(7, 6))
    found = module.log_profiles(Watched(), squared, 4.0)
    assert seen == heights
    np.testing.assert_allclose(found, np.log(np.exp(-2.0 * squared).sum(axis=1)), rtol=1e-12)
    assert module.normalised(0.0, Gaussian(1.0), 1) == pytest.approx(np.log(2.0 / np.sqrt(2.0 * np.pi)))
    seen.clear()
    module.log_profiles(Watched(), jax.numpy.asarray(squared), 4.0)
    assert seen == [7]


@pytest.mark.parametrize("cell", [0.05, 0.5, 2.0])
def test_what_lies_beyond_a_cell_by_hand(cell):
    """Of κ, a normal law with ℓ/2, or e^{-2|u|/ℓ}, beyond half a cell on either side."""
    beyond = special.erfc(0.5 * cell / (0.5 * 1.1) / np.sqrt(2.0))
    assert log_beyond(Gaussian(1.1), cell) == pytest.approx(np.log(beyond), rel=1e-13)
    assert log_beyond(Matern12(1.1), cell) == pytest.approx(-cell / 1.1, abs=1e-7)


@pytest.mark.parametrize(
    ("D", "step", "at_most"), [(1, 0.1, 1.15), (1, 0.5, 1.7), (2, 0.5, 1.15), (3, 0.5, 1.15), (8, 0.5, 1.15)]
)
def test_rounding_hardly_changes_the_scale(D, step, at_most):
    """Of one column half a standard deviation's cells show little below two steps."""
    samples = [RNG(seed).normal(size=(200, D)) for seed in range(5)]
    plain, rounded = (
        np.median([fit_kernel(one, Gaussian())[0].kernel.lengthscale for one in group])
        for group in (samples, [step * np.round(x / step) for x in samples])
    )
    assert 0.9 < rounded / plain < at_most


def test_a_coarse_column_does_not_pull_the_others_down():
    """Rows in lines would predict each other ever better as the scale falls."""
    x = RNG(3).normal(size=(300, 2))
    even, uneven = x[:, 1].round(), np.exp(x[:, 1]).round(1)
    plain, skewed = (
        fit_kernel(one, Gaussian())[0].kernel.lengthscale for one in (x, np.c_[x[:, 0], np.exp(x[:, 1])])
    )
    for column, other in ((even, plain), (uneven, skewed)):
        lines = fit_kernel(np.c_[x[:, 0], column], Gaussian())[0].kernel.lengthscale
        assert 0.8 < lines / other < 1.25


def test_a_part_of_the_rows_stands_for_all():
    """Fewer rows are predicted by fewer, each counts for more, and the scale is carried to n by the rate."""
    x = np.sort(RNG(0).normal(size=(3_000, 1)), axis=0)
    effort = Effort(centres=600, entries=180_000, bags=1)
    part, found = fit_kernel(x, Gaussian(), effort=effort)
    assert part.kernel.lengthscale == pytest.approx(2.0 * (4.0 / 9_000) ** 0.2, rel=0.25)  # theory, all rows
    assert part.log_evidence == pytest.approx(-3_000 * 0.5 * np.log(2 * np.pi * np.e), rel=0.03)
    assert found.problem.sums.squared.shape == (300, 600)
    assert found.carried == pytest.approx((600 / 3_000) ** 0.2)


def test_bags_are_summed():
    """Many rows: the mean over bags, each by loops; the scale hardly depends on the draw."""
    x = np.sort(RNG(0).normal(size=(90, 1)), axis=0)
    family = family_of(Gaussian(), 1)
    found = prepare(x, family, Effort(centres=20, entries=800, bags=3, grid=False), RNG(0))
    assert found.problem.sums.squared.shape == (60, 20)
    assert found.carried == pytest.approx((20 / 90) ** 0.2)
    value = objective(Spec(family, None), np.log([0.7]), found.problem)[1]
    bags = found.problem.sums.rows.reshape(3, 20)
    assert len(np.unique(bags)) == 60
    slow, widths = (
        reference.gaussian(0.35**2 * np.eye(1)),
        BACKGROUND_WIDTH * robust_spread(found.frame.into(x)),
    )
    log_integral = float(np.log(0.35 * np.sqrt(2.0 * np.pi)))
    loops = [
        reference.leave_one_out(
            slow, log_integral, bag[:, None], lambda row: reference.cauchy_density(row, widths)
        )
        for bag in bags
    ]
    assert value == pytest.approx(90 / 60 * sum(loops), rel=1e-9)
    x = RNG(1).normal(size=(6_500, 1))
    drawn = [fit_kernel(x, Gaussian(), rng=seed)[0].kernel.lengthscale for seed in range(3)]
    assert max(drawn) < 1.2 * min(drawn)
    assert np.mean(drawn) == pytest.approx(2.0 * (4.0 / 3.0 / 6_500) ** 0.2, rel=0.15)  # Silverman's 2h


def test_a_value_that_hardly_ever_occurs_is_not_lost():
    x = np.zeros((5_000, 1))
    x[-1] = 1.0
    learned = fit_kernel(x, Gaussian())[0]
    assert 0.0 < learned.kernel.lengthscale <= 1.0  # not beyond the range


def test_plain_search_ends_where_the_gradient_vanishes(rows):
    """Without compiling: the same optimum as a search by gradients, to 1e-4."""
    x = np.sort(RNG(2).normal(size=(80, 2)), axis=0)
    for pattern in (Gaussian(), RationalQuadratic(), Matern32()):
        family = family_of(pattern, 2)
        spec = Spec(family)
        learned, found = fit_kernel(x, pattern)
        theta, step = learned.state.thetas[0], 1e-4 * np.eye(family.size(2))[0]
        with jax.enable_x64(True):
            slope, moved = (
                np.asarray(compiled()(spec, at, found.problem)[1]) for at in (theta, theta + step)
            )
        assert abs(slope[0]) < 1e-4 * abs(moved[0] - slope[0]) / 1e-4  # a Newton step of less than 1e-4


def test_scan_and_peaks(rows):
    spec, found = prepared(rows, Gaussian())
    scanned = scan(spec, found)
    assert (np.diff(scanned.scales) > 0.0).all()
    k = 2
    assert scanned.values[k] == value_at(spec, scanned.starts[k], found.problem)[0]
    assert local_maxima(np.array([1.0, 3.0, 2.0, 2.0, 5.0, np.nan])) == [4, 1]
    assert local_maxima(np.array([5.0, 1.0, 4.0])) == [0, 2]


@pytest.mark.parametrize("width", [1e-4, 0.03, 0.5, 40.0])
def test_sums_over_a_grid_are_those_of_loops(width):
    rng = RNG(0)
    values = np.unique(np.concatenate([rng.normal(size=60), rng.lognormal(3.0, 2.0, size=30), [-1e6]]))
    counts = rng.integers(1, 5, size=len(values)).astype(float)
    slow = np.array([
        sum(c * np.exp(-0.5 * ((v - u) / width) ** 2) for u, c in zip(values, counts, strict=True) if u != v)
        for v in values
    ])  # fmt: skip
    np.testing.assert_allclose(
        gaussian_sums(values, counts, width), slow, rtol=0, atol=5e-5 * slow.max() + 1e-12
    )


@pytest.mark.parametrize("digits", [None, 1])
def test_all_rows_of_one_column_predict_all(digits):
    """The grid's problem has the objective of all pairs, with rounded values too."""
    x = np.sort(RNG(1).lognormal(size=(120, 1)), axis=0)
    x = x if digits is None else x.round(digits)
    family = family_of(Gaussian(), 1)
    pairs = prepare(x, family, Effort(), RNG(0))
    grid = prepare(x, family, Effort(centres=100, entries=14_000), RNG(0))
    assert isinstance(grid.problem.sums, Grid)
    assert grid.carried == 1.0
    for theta in np.log([0.05, 0.3, 2.0]):
        expected = objective(Spec(family, None), np.array([theta]), pairs.problem)[1]
        found = objective(Spec(family, None), np.array([theta]), grid.problem)[1]
        assert found == pytest.approx(expected, rel=5e-5)  # sums are off by as much
    np.testing.assert_allclose(grid.scales[[0, -1]], pairs.scales[[0, -1]], rtol=1e-12)
    assert grid.problem.unit == pytest.approx(float(pairs.problem.unit), rel=0.02)

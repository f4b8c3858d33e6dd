"""Learning the kernel: what the benchmarks show at length, in small; and what must hold exactly."""

import dataclasses
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from benchmarks.shapes import cauchy, grid, normal_and_laplace, two_clusters

import kembed
from kembed import (
    Gaussian,
    Landmarks,
    Matern32,
    MultiScale,
    RationalQuadratic,
    learn_kernel,
    log_pseudolikelihood,
    median_lengthscale,
)
from kembed.learning.learn import drawn_rows, fit_kernel
from kembed.learning.objective import log_cauchy, normalised
from kembed.learning.search import value_at
from kembed.tables.source import SAMPLE

RNG = np.random.default_rng


def normal(n, D, seed=0):
    return RNG(seed).normal(size=(n, D))


@pytest.fixture(scope="module")
def plane():
    return normal(300, 2)


@pytest.fixture(scope="module")
def learned(plane):
    return learn_kernel(plane)


@pytest.mark.parametrize("D", [1, 2, 5, 20])
def test_normal_rows_get_twice_the_bandwidth_of_theory(D):
    """2 (4/((D+2) n))^(1/(D+4)) standard deviations, n = 300, is the best for squared error (Silverman)."""
    theory = 2.0 * (4.0 / ((D + 2) * 300)) ** (1.0 / (D + 4))
    found = [learn_kernel(normal(300, D, seed)).kernel.lengthscale for seed in range(6)]
    assert np.median(found) == pytest.approx(theory, rel=0.3)


@pytest.mark.parametrize("D", [1, 5])
def test_density_is_right_on_new_points(D):
    result = learn_kernel(normal(500, D, 100 + D))
    new = normal(2000, D, 7)
    true = (-0.5 * (new**2).sum(axis=1) - 0.5 * D * np.log(2 * np.pi)).mean()
    # The loss of a kernel density at this n: about .01 nats a row in one dimension, .15 in five.
    assert abs(result.log_density(new).mean() - true) < (0.03 if D == 1 else 0.2)


@pytest.mark.parametrize(
    ("pattern", "rounded"),
    [
        (Gaussian(), False),
        (Gaussian(), True),
        (Matern32(), False),
        (RationalQuadratic(), False),
        (MultiScale([1.0, 1.0]), False),
        (Gaussian(np.ones(2)), False),
        (Gaussian.from_covariance(np.eye(2)), True),
    ],
)
def test_left_out_the_density_is_what_was_maximised(pattern, rounded):
    """The mean of log p₋ᵢ(xᵢ) over rows is the objective at its maximum, for one observation."""
    x = two_clusters(RNG(4), 60, 2)
    learned = learn_kernel(x.round(1) if rounded else x, pattern)
    rows, n = learned.predictive.rows, learned.n  # rounded values somewhere in their cells
    p = np.exp(learned.predictive.log_density(rows))
    background = 0.02 * np.exp(log_cauchy(rows, learned.predictive.width))
    kernel = learned.predictive.kernel
    own = np.exp(normalised(0.0, kernel, 2))  # κ(x, x)
    left_out = 0.98 * ((p - background) / 0.98 * n - own) / (n - 1) + background
    unit = learned.state.frame.log_unit
    assert np.log(left_out).mean() - unit == pytest.approx(learned.log_evidence / n, abs=1e-9)


@pytest.mark.parametrize("pattern", [Gaussian(), Matern32(), RationalQuadratic(), MultiScale([1.0, 1.0])])
@pytest.mark.parametrize("levels", [None, 3.0])
def test_density_integrates_to_one_on_the_line(pattern, levels):
    x = cauchy(RNG(2), 1, n=200)
    x = x if levels is None else np.round(levels * normal(200, 1)) / levels
    u = np.linspace(-40.0, 40.0, 80_001)  # x = sinh(u): fine where rows are, far beyond them
    log_p = learn_kernel(x, pattern).log_density(np.sinh(u)[:, None])
    assert np.exp(log_p) @ np.cosh(u) * (u[1] - u[0]) == pytest.approx(1.0, abs=1e-3)


def test_of_many_rows_some_predict():
    x = normal(12_000, 1)
    learned = learn_kernel(x)
    assert len(learned.predictive.rows) == 5_000
    true = -0.5 * x[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    assert learned.log_density(x).mean() == pytest.approx(true.mean(), abs=0.02)
    assert np.isfinite(learned.log_density([1e9])).all()


def test_density_is_in_the_users_units_and_follows_the_metric():
    x = normal(200, 2) * [1.0, 50.0]
    ard = Gaussian(np.ones(2))
    one, other = learn_kernel(x, ard), learn_kernel(1000.0 * x, ard)
    at = x[:5]
    expected = one.log_density(at) - 2 * np.log(1000.0)
    np.testing.assert_allclose(other.log_density(1000.0 * at), expected, rtol=1e-4)
    axes = [np.linspace(-6.0, 6.0, 121), np.linspace(-300.0, 300.0, 121)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    assert np.exp(one.log_density(points)).sum() * 0.1 * 5.0 == pytest.approx(0.99, abs=0.01)


@pytest.mark.parametrize("factor", [1e-6, 7.0, 1e6])
def test_lengthscales_carry_the_units_of_the_data(plane, learned, factor):
    other = learn_kernel(factor * plane)
    assert other.kernel.lengthscale == pytest.approx(factor * learned.kernel.lengthscale, rel=1e-6)
    assert other.log_evidence == pytest.approx(learned.log_evidence - 600 * np.log(factor), rel=1e-6)


def test_shift_and_rotation_leave_isotropic_lengthscale_alone(plane, learned):
    turn = np.linalg.qr(RNG(3).normal(size=(2, 2)))[0]
    other = learn_kernel(plane @ turn + 50.0)
    assert other.kernel.lengthscale == pytest.approx(learned.kernel.lengthscale, rel=1e-6)


def test_full_covariance_turns_with_the_data():
    x = normal(200, 2) @ np.array([[1.0, 0.0], [1.5, 0.3]])
    turn = np.linalg.qr(RNG(3).normal(size=(2, 2)))[0]
    pattern = Gaussian.from_covariance(np.eye(2))
    straight = learn_kernel(x, pattern).kernel.covariance
    turned = learn_kernel(x @ turn, pattern).kernel.covariance
    np.testing.assert_allclose(turned, turn.T @ straight @ turn, rtol=1e-3)


def test_order_of_rows_changes_nothing_at_all(plane, learned):
    for seed in range(2):
        other = learn_kernel(RNG(seed).permutation(plane))
        assert other.kernel.lengthscale == learned.kernel.lengthscale
        assert other.log_evidence == learned.log_evidence
    many = normal(2_500, 2)  # of which a part is looked at
    assert learn_kernel(RNG(0).permutation(many)).log_evidence == learn_kernel(many).log_evidence


def test_blobs_on_a_grid_get_their_own_scale():
    """The median distance sees one blob of all; the blobs have unit variance."""
    x = grid(RNG(0))
    assert 0.3 < learn_kernel(x).kernel.lengthscale < 1.5 < 10.0 < median_lengthscale(x)


@pytest.mark.parametrize("outliers", [0, 5])
@pytest.mark.parametrize("D", [1, 5])
def test_heavy_tails_and_outliers_do_not_drive_it_up(D, outliers):
    x = cauchy(RNG(0), D, outliers=outliers)
    ratio = learn_kernel(x).kernel.lengthscale / median_lengthscale(x)
    assert 0.1 < ratio < 1.5


def test_narrow_cluster_beside_a_wide_one_is_seen():
    assert 0.01 < learn_kernel(two_clusters(RNG(0))).kernel.lengthscale < 0.2


def test_nothing_beyond_the_range_or_below_the_resolution():
    rng = RNG(0)
    for column in (
        rng.integers(0, 2, 200),
        rng.poisson(2.0, 200),
        np.r_[np.zeros(150), rng.exponential(size=50)],
        rng.normal(size=200).round(1),
        np.r_[np.zeros(199), 1.0],
        np.repeat(rng.normal(size=5), 40),
    ):
        x = column.astype(float)
        scale = learn_kernel(x[:, None]).kernel.lengthscale
        assert np.diff(np.unique(x)).min() <= scale * 1.0001
        assert scale <= np.ptp(x) * 1.0001


def test_ard_finds_the_column_with_structure():
    rng = RNG(0)
    x = np.column_stack([rng.choice([-1.0, 1.0], 300) + 0.1 * rng.normal(size=300), rng.normal(size=300)])
    ard = learn_kernel(x, Gaussian(np.ones(2)))
    assert ard.kernel.lengthscale[0] < 0.3 * ard.kernel.lengthscale[1]
    assert ard.score > learn_kernel(x).score
    shuffled = learn_kernel(x[:, ::-1] * [1e3, 1.0], Gaussian(np.ones(2)))
    np.testing.assert_allclose(
        shuffled.kernel.lengthscale, ard.kernel.lengthscale[::-1] * [1e3, 1.0], rtol=0.01
    )


def test_a_rounded_column_among_others_has_a_floor():
    """Rows that share a rounded value would send its lengthscale to 0."""
    rng = RNG(0)
    x = np.column_stack([rng.normal(size=300), rng.normal(size=300).round(0)])
    assert learn_kernel(x, Gaussian(np.ones(2))).kernel.lengthscale[1] >= 0.999


def test_auto_compares_families_and_says_so():
    x = cauchy(RNG(1), 1, n=200)
    result = learn_kernel(x, "auto")
    assert set(result.families) == {"Gaussian", "RationalQuadratic", "Matern32", "MultiScale(2)"}
    assert result.score == max(result.families.values())
    assert result.family != "Gaussian"  # a Cauchy sample


def test_density_of_a_discrete_column_beside_others_does_not_collapse():
    """A flag stands for cells of width 1: no density above that of one normal column by much."""
    rng = RNG(0)
    flag = rng.integers(0, 2, (400, 1)).astype(float)
    x = np.column_stack([rng.normal(size=(400, 1)), flag])
    held_out = np.column_stack([rng.normal(size=(200, 1)), rng.integers(0, 2, (200, 1))])
    assert -2.6 < learn_kernel(x).log_density(held_out).mean() < -1.4  # -2.11 if levels are cells


def test_families_are_told_apart():
    """Heavy tails, not wild rows, call for a heavy-tailed kernel; clusters of two widths for two scales."""
    wild = np.concatenate([normal(198, 2), 1e3 * normal(2, 2, seed=1)])
    assert learn_kernel(wild).score > learn_kernel(wild, RationalQuadratic()).score
    heavy = RNG(0).standard_t(2, size=(400, 2))
    assert learn_kernel(heavy, RationalQuadratic()).score > learn_kernel(heavy).score
    for x, two in ((two_clusters(RNG(0), 90, 2), True), (grid(RNG(0), 180), False)):
        assert (learn_kernel(x, MultiScale([1.0, 1.0])).score > learn_kernel(x).score) == two


@pytest.mark.parametrize("pattern", [RationalQuadratic(), Matern32(), MultiScale([1.0, 1.0])])
def test_every_family_foretells_normal_rows(pattern):
    x = normal(150, 1)
    gaussian = -0.5 * (x**2).sum() - 75 * np.log(2 * np.pi)
    assert gaussian - 15 < learn_kernel(x, pattern).log_evidence < gaussian + 5


def test_a_stored_result_predicts_and_leaves_the_problem_behind(plane):
    x = np.tile(plane, (4, 1))[:1000] + normal(1000, 2, 1)
    learned = learn_kernel(x)
    stored = pickle.dumps(learned)
    again = pickle.loads(stored)
    assert again.prepared is None
    np.testing.assert_array_equal(again.log_density(plane[:5]), learned.log_density(plane[:5]))
    assert len(stored) < 3 * x.nbytes  # the problem has a million squared distances


def test_seeds():
    """One column is learned from all rows whatever the seed; of several columns a part is drawn."""
    x = np.random.default_rng(0).lognormal(size=(2_500, 2))
    first = learn_kernel(x[:, 0], rng=0)
    assert learn_kernel(x[:, 0], rng=1).kernel == first.kernel
    assert learn_kernel(x, rng=0).log_evidence == learn_kernel(x).log_evidence
    fresh = [learn_kernel(x, rng=None).log_evidence for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_priors(plane, learned):
    """A sharp one rules in the user's units, without JAX; what it closes over may change; flat is None."""
    target = [5.0]

    def prior(kernel):
        return -1e5 * (np.log(kernel.lengthscale) - np.log(target[0])) ** 2

    pulled = learn_kernel(plane, prior=prior)
    assert pulled.kernel.lengthscale == pytest.approx(5.0, rel=0.02)
    assert pulled.log_evidence < learned.log_evidence
    target[0] = 3.0
    assert learn_kernel(plane, prior=prior).kernel.lengthscale == pytest.approx(3.0, rel=0.02)
    flat = learn_kernel(plane, prior=None)
    assert flat.kernel.lengthscale == pytest.approx(learned.kernel.lengthscale, rel=0.2)
    assert flat.log_evidence >= learned.log_evidence


def test_nothing_is_compiled_for_one_lengthscale():
    code = (
        "import numpy as np, sys; from kembed import learn_kernel, Matern32, RationalQuadratic\n"
        "x = np.random.default_rng(0).normal(size=(100, 3))\n"
        "for k in ('Gaussian', 'Matern32', 'RationalQuadratic'):\n"
        "    learn_kernel(x, getattr(__import__('kembed'), k)()).log_density(x[:3])\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_scales_nearly_as_good_are_said():
    x = two_clusters(RNG(0))
    learned = learn_kernel(x)
    near = kembed.learning.learned_kernel.Mode(Gaussian(3.0), learned.log_evidence - 1.0, False)
    assert learned.rivals == ""
    told = dataclasses.replace(learned, modes=(learned.modes[0], near)).rivals
    assert told.startswith("The data fit nearly as well with a lengthscale of 3")


@pytest.fixture(scope="module")
def rows():
    return normal_and_laplace(RNG(0), 50)


@pytest.fixture(scope="module")
def result(rows):
    return learn_kernel(rows, objective="paper", noise=1.0, landmarks=Landmarks("subset", 15))


class TestPaper:
    def test_value_is_the_public_objective_and_a_maximum(self, rows, result):
        best = result.kernel.lengthscale

        def value(scale):
            return log_pseudolikelihood(rows, kernel=Gaussian(scale), noise=1.0, landmarks=result.landmarks)

        assert result.log_evidence == pytest.approx(value(best), rel=1e-9)
        assert value(best) > max(value(0.98 * best), value(1.02 * best))
        assert result.noise == 1.0

    @pytest.mark.parametrize("prior", [None, lambda kernel: -np.sum(np.log(kernel.lengthscale) ** 2)])
    @pytest.mark.parametrize("kernel", [Gaussian(), Gaussian(np.ones(2))])
    def test_slopes_vanish_at_the_maximum(self, plane, kernel, prior, numerical_gradient):
        how = {"prior": prior, "objective": "paper", "noise": 1.0}
        learned, prepared = fit_kernel(plane, kernel, **how)
        assert not learned.at_edge
        state = learned.state
        at, problem = state.thetas[0], prepared.problem

        def value(theta):
            return value_at(state.spec, theta, problem)[0]

        np.testing.assert_allclose(numerical_gradient(value, at), 0.0, atol=1e-5 * len(plane))

    def test_it_follows_the_number_of_landmarks(self, rows, result):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            few = learn_kernel(rows, objective="paper", noise=1.0, landmarks=5)
        smallest = [min(mode.kernel.lengthscale for mode in one.modes) for one in (few, result)]
        assert smallest[1] < 0.6 * smallest[0]

    def test_refusals(self, plane, result):
        with pytest.raises(ValueError, match=r"noise=1\.0"):
            learn_kernel(plane, objective="paper")
        with pytest.raises(ValueError, match="no density"):
            result.log_density(plane[:, 0])
        with pytest.raises(ValueError, match="auto"):
            learn_kernel(plane, "auto", objective="paper", noise=1.0)
        for name in ("noise", "landmarks", "measure"):
            with pytest.raises(ValueError, match=f"{name} is of the published objective alone"):
                learn_kernel(plane, **{name: 1.0})


class TestBadInput:
    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (np.zeros((0, 2)), "0 rows"),
            (np.zeros((3, 2)), "at least 5"),
            (np.ones((20, 2)), "all rows of x are equal"),
            ([[1.0, np.nan]] * 9, "NaN"),
            ([[1.0, np.inf]] * 9, "infinite"),
        ],
    )
    def test_data(self, x, message):
        with pytest.raises(ValueError, match=message):
            learn_kernel(x)

    def test_text(self):
        with pytest.raises(TypeError, match="x must hold numbers"):
            learn_kernel([["a", "b"]] * 9)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"kernel": "bkl"}, ValueError, "kernel must be one of 'auto'"),
            ({"kernel": Gaussian() + Matern32()}, TypeError, "MultiScale"),
            ({"kernel": Gaussian(np.ones(3))}, ValueError, "3 lengthscales"),
            ({"noise": -1.0, "objective": "paper"}, ValueError, "noise must be positive"),
            ({"objective": "mine"}, ValueError, "objective must be one of"),
            ({"measure": "flat", "objective": "paper", "noise": 1.0}, TypeError, "measure must be a measure"),
            ({"landmarks": 2, "objective": "paper", "noise": 1.0}, ValueError, "at least 3 are needed"),
            (
                {"landmarks": "best", "objective": "paper", "noise": 1.0},
                ValueError,
                "landmarks must be one of",
            ),
            ({"landmarks": np.ones((9, 3)), "objective": "paper", "noise": 1.0}, ValueError, "has 3 columns"),
            ({"prior": 3.0}, TypeError, "prior must be 'gamma', None or a function"),
            ({"prior": "flat"}, ValueError, "prior must be one of 'gamma'"),
            ({"prior": lambda kernel: None}, ValueError, "prior must return one number"),
            ({"prior": lambda kernel: np.nan}, ValueError, "prior must return one number"),
            ({"prior": lambda kernel: -np.inf}, ValueError, "not finite at any scale"),
            ({"rng": "a"}, TypeError, "rng must be"),
        ],
    )
    def test_arguments(self, plane, arguments, error, message):
        with pytest.raises(error, match=message):
            learn_kernel(plane, **arguments)

    def test_constant_and_duplicated_columns_do_not_matter_to_one_lengthscale(self, plane, learned):
        wide = np.column_stack([plane, np.full(len(plane), 3.0)])
        found = learn_kernel(wide).kernel.lengthscale
        assert found == pytest.approx(learned.kernel.lengthscale, rel=1e-6)
        twice, once = learn_kernel(plane[:, [0, 0]]), learn_kernel(plane[:, :1])
        # the same line, √2 longer
        assert twice.kernel.lengthscale == pytest.approx(2**0.5 * once.kernel.lengthscale, rel=1e-3)
        with pytest.raises(ValueError, match="no density"):
            twice.log_density(np.ones((1, 2)))
        with pytest.raises(ValueError, match="constant"):
            learn_kernel(wide, Gaussian(np.ones(3)))

    def test_fewer_rows_than_columns_and_tiny_samples(self):
        few = learn_kernel(normal(8, 10))  # they span seven dimensions, in which they are learned
        assert 0.1 < few.kernel.lengthscale / median_lengthscale(normal(8, 10)) < 1.5
        assert 0.3 < learn_kernel(normal(12, 2)).kernel.lengthscale < 3

    def test_extreme_units(self):
        x = normal(50, 1)
        base = learn_kernel(x).kernel.lengthscale
        for factor in (1e-12, 1e12, 1e100):
            assert learn_kernel(factor * x).kernel.lengthscale == pytest.approx(factor * base, rel=1e-6)

    def test_what_must_be_known_is_told(self, learned):
        cornered = dataclasses.replace(learned, at_edge=True)
        with pytest.warns(UserWarning, match="edge of the scanned range"):
            cornered.warn()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learned.warn()
            cornered.warn(edge=False)

    def test_points_of_the_wrong_width(self, learned):
        with pytest.raises(ValueError, match="points has 3 columns"):
            learned.log_density(np.ones((2, 3)))


def test_plot_marks_every_mode(learned):
    from matplotlib.figure import Figure

    axes = learned.plot(Figure().subplots())
    assert axes.get_xscale() == "log"
    assert len(axes.lines) == 1 + len(learned.modes)


def test_the_dot_is_the_top_of_the_curve_that_is_drawn():
    from matplotlib.figure import Figure

    x = 3.0 + 50.0 * normal(100, 1)
    learned = learn_kernel(x)
    curve, dot, *_ = learned.plot(Figure().subplots()).lines
    assert dot.get_ydata()[0] == curve.get_ydata().max()
    assert dot.get_xdata()[0] == pytest.approx(learned.kernel.lengthscale)
    assert learned.evidence().range == np.ptp(x)
    assert learned.median == pytest.approx(median_lengthscale(x), rel=1e-3)


def test_repr_is_one_line(learned):
    assert repr(learned).startswith("LearnedKernel(Gaussian(lengthscale=1.")
    assert "\n" not in repr(learned)
    assert kembed.LearnedKernel is type(learned)


def test_of_very_many_rows_some_are_drawn_in_whatever_order_they_come():
    """The scale of 50,000 rows is carried to all; rows that repeat are drawn as often as they come."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=200_001), rng.integers(0, 4, 200_001)])
    drawn = drawn_rows(x, 5_000, np.random.default_rng(1))
    again = drawn_rows(x[::-1], 5_000, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, again)
    np.testing.assert_allclose(np.bincount(drawn[:, 1].astype(int)) / 5_000, 0.25, atol=0.03)
    many = learn_kernel(x[:, 0])
    assert learn_kernel(x[::-1, 0]).kernel == many.kernel
    few = learn_kernel(drawn_rows(x[:, [0]], SAMPLE, np.random.default_rng(0)))
    carried = (SAMPLE / len(x)) ** 0.2 * few.kernel.lengthscale
    assert many.kernel.lengthscale == pytest.approx(carried, rel=1e-6)
    assert many.n == 50_000


@pytest.mark.parametrize("n", [700, 900, 2_400])
def test_one_column_has_one_lengthscale_whatever_the_seed(n):
    x = np.random.default_rng(1).lognormal(size=(n, 1))
    first, second = (float(learn_kernel(x, rng=seed).kernel.lengthscale) for seed in (0, 1))
    assert first == second

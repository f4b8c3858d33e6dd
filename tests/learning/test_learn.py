"""Learning the kernel: what the benchmarks show at length, in small; and what must hold exactly."""

import dataclasses
import pickle
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
from kembed.learning.learn import fit_kernel
from kembed.learning.prepare import Effort
from kembed.learning.problem import compiled

RNG = np.random.default_rng


def normal(n, D, seed=0):
    return RNG(seed).normal(size=(n, D))


@pytest.fixture(scope="module")
def plane():
    return normal(300, 2)


@pytest.fixture(scope="module")
def learned(plane):
    return learn_kernel(plane, landmarks=50)


def test_number_of_landmarks_and_seed_hardly_matter(plane):
    found = [
        learn_kernel(plane, landmarks=m, rng=seed).kernel.lengthscale
        for m, seed in ((50, 0), (50, 1), (100, 1))
    ]
    assert max(found) / min(found) < 1.10  # benchmarks.stability: 4% over 15 settings


@pytest.mark.parametrize("D", [1, 5])
def test_density_is_right_on_new_points(D):
    result = learn_kernel(normal(500, D, 100 + D), landmarks=100)
    new = normal(2000, D, 7)
    true = (-0.5 * (new**2).sum(axis=1) - 0.5 * D * np.log(2 * np.pi)).mean()
    entropy = 0.5 * D * np.log(2 * np.pi * np.e)
    assert abs(result.log_density(new).mean() - true) < 0.02 * entropy
    assert result.ess is None if D == 1 else result.ess > 0.1


def test_density_integrates_to_one_in_the_plane(learned):
    axis = np.linspace(-9, 9, 181)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    total = np.exp(learned.log_density(points)).sum() * 0.1**2
    # The rule behind Z is random: 1% is four of its standard errors (2,048 draws, effective share .88).
    assert abs(total - 1.0) < 0.01


def test_density_is_in_the_users_units(plane, learned):
    other = learn_kernel(1000.0 * plane, landmarks=50)
    np.testing.assert_allclose(
        other.log_density(1000.0 * plane[:5]), learned.log_density(plane[:5]) - 2 * np.log(1000.0), rtol=1e-6
    )
    assert other.log_evidence == pytest.approx(learned.log_evidence - 600 * np.log(1000.0), rel=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 7.0, 1e6])
def test_lengthscales_carry_the_units_of_the_data(plane, learned, factor):
    other = learn_kernel(factor * plane, landmarks=50)
    assert other.kernel.lengthscale == pytest.approx(factor * learned.kernel.lengthscale, rel=1e-6)
    assert other.noise == pytest.approx(learned.noise, rel=1e-6)


def test_shift_and_rotation_leave_isotropic_lengthscale_alone(plane, learned):
    turn = np.linalg.qr(RNG(3).normal(size=(2, 2)))[0]
    other = learn_kernel(plane @ turn + 50.0, landmarks=50)
    assert other.kernel.lengthscale == pytest.approx(learned.kernel.lengthscale, rel=1e-6)


def test_full_covariance_turns_with_the_data():
    x = normal(200, 2) @ np.array([[1.0, 0.0], [1.5, 0.3]])
    turn = np.linalg.qr(RNG(3).normal(size=(2, 2)))[0]
    pattern = Gaussian(covariance=np.eye(2))
    straight = learn_kernel(x, pattern, landmarks=40).kernel.covariance
    turned = learn_kernel(x @ turn, pattern, landmarks=40).kernel.covariance
    np.testing.assert_allclose(turned, turn.T @ straight @ turn, rtol=1e-4)


def test_order_of_rows_changes_nothing_at_all(plane, learned):
    for seed in range(2):
        other = learn_kernel(RNG(seed).permutation(plane), landmarks=50)
        assert other.kernel.lengthscale == learned.kernel.lengthscale
        assert other.noise == learned.noise
        assert other.log_evidence == learned.log_evidence
        np.testing.assert_array_equal(other.landmarks, learned.landmarks)


def test_grid_has_a_small_and_a_large_mode():
    result = learn_kernel(grid(RNG(0)), landmarks=100)
    scales = [mode.kernel.lengthscale for mode in result.modes]
    assert 0.7 < scales[0] < 1.2
    assert max(scales) > 20.0
    assert result.modes[0].log_evidence == result.log_evidence > result.modes[1].log_evidence
    assert "2 modes" in repr(result)


def test_landmark_number_does_not_drive_the_scale_in_one_dimension():
    x = normal_and_laplace(RNG(0))
    found = [learn_kernel(x, landmarks=m).kernel.lengthscale for m in (20, 100)]
    assert max(found) / min(found) < 1.06  # .878 and .912 measured


@pytest.mark.parametrize("outliers", [0, 5])
@pytest.mark.parametrize("D", [1, 5])
def test_heavy_tails_and_outliers_do_not_drive_it_up(D, outliers):
    x = cauchy(RNG(0), D, outliers=outliers)
    ratio = learn_kernel(x, landmarks=60).kernel.lengthscale / median_lengthscale(x)
    assert 1 / 3 < ratio < 3


def test_narrow_cluster_beside_a_wide_one_is_seen():
    assert 0.03 < learn_kernel(two_clusters(RNG(0))).kernel.lengthscale < 0.08


def test_ard_finds_the_column_with_structure():
    rng = RNG(0)
    x = np.column_stack([rng.choice([-1.0, 1.0], 300) + 0.1 * rng.normal(size=300), rng.normal(size=300)])
    ard = learn_kernel(x, Gaussian(np.ones(2)), landmarks=50)
    assert ard.kernel.lengthscale[0] < 0.3 * ard.kernel.lengthscale[1]
    assert ard.score > learn_kernel(x, landmarks=50).score
    shuffled = learn_kernel(x[:, ::-1] * [1e3, 1.0], Gaussian(np.ones(2)), landmarks=50)
    np.testing.assert_allclose(
        shuffled.kernel.lengthscale, ard.kernel.lengthscale[::-1] * [1e3, 1.0], rtol=0.2
    )


def test_auto_compares_families_and_says_so():
    x = cauchy(RNG(1), 1, n=200)
    result = learn_kernel(x, "auto", landmarks=30)
    assert set(result.families) == {"Gaussian", "RationalQuadratic", "Matern32", "MultiScale(2)"}
    assert result.score == max(result.families.values())
    assert result.family != "Gaussian"  # a Cauchy sample


@pytest.mark.parametrize("pattern", [RationalQuadratic(), Matern32(), MultiScale([1.0, 1.0])])
def test_every_family_beats_nothing_and_gives_a_density(pattern):
    x = normal(150, 1)
    result = learn_kernel(x, pattern, landmarks=20)
    gaussian = -0.5 * (x**2).sum() - 75 * np.log(2 * np.pi)
    assert gaussian - 25 < result.log_evidence < gaussian + 5
    step = np.linspace(-40, 40, 8001)
    assert np.exp(result.log_density(step)).sum() * 0.01 == pytest.approx(1.0, abs=0.01)


def test_learned_width_of_the_measure_does_not_lose_evidence(plane, learned):
    wider = learn_kernel(plane, landmarks=50, measure="learn")
    assert wider.log_evidence >= learned.log_evidence - 1e-3


def test_a_measure_may_be_an_object(plane, learned):
    """The one that "data" stands for, given by hand, leads to the same kernel."""
    other = learn_kernel(plane, landmarks=50, measure=learned.measure)
    assert other.kernel.lengthscale == pytest.approx(learned.kernel.lengthscale, rel=1e-5)
    assert other.log_evidence == pytest.approx(learned.log_evidence, abs=1e-4)
    assert other.measure is not None
    with pytest.raises(ValueError, match="GaussianMeasure"):
        learn_kernel(plane, landmarks=50, measure=kembed.Lebesgue())


def test_a_result_does_not_carry_the_data(plane):
    learned = learn_kernel(np.tile(plane, (4, 1))[:1000] + normal(1000, 2, 1))
    assert len(pickle.dumps(learned)) < 15_000
    again = pickle.loads(pickle.dumps(learned))
    np.testing.assert_array_equal(again.log_density(plane[:5]), learned.log_density(plane[:5]))


def test_seeds(plane, learned):
    assert learn_kernel(plane, landmarks=50, rng=0).log_evidence == learned.log_evidence
    fresh = [learn_kernel(plane, landmarks=50, rng=None).log_evidence for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_given_noise_is_kept(plane):
    assert learn_kernel(plane, landmarks=30, noise=2.5).noise == 2.5


def test_prior_pulls_the_answer_in_the_users_units(plane, learned):
    import jax.numpy as jnp

    target = 5.0

    def prior(kernel, noise):
        return -0.5 * ((jnp.log(kernel.lengthscale) - np.log(target)) / 0.01) ** 2

    pulled = learn_kernel(plane, landmarks=50, prior=prior)
    assert learned.kernel.lengthscale < 3.0
    assert pulled.kernel.lengthscale == pytest.approx(target, rel=0.05)
    assert pulled.log_evidence < learned.log_evidence


def test_a_prior_that_changes_is_heeded(plane):
    import jax.numpy as jnp

    target = [3.0]

    def prior(kernel, noise):
        return -1e4 * (jnp.log(kernel.lengthscale) - np.log(target[0])) ** 2

    first = learn_kernel(plane[:100], landmarks=30, prior=prior).kernel.lengthscale
    target[0] = 4.0
    second = learn_kernel(plane[:100], landmarks=30, prior=prior).kernel.lengthscale
    assert (first, second) == (pytest.approx(3.0, rel=0.02), pytest.approx(4.0, rel=0.02))


def test_same_sizes_same_program(plane):
    learn_kernel(plane, landmarks=50)
    gradient = compiled()[1]
    before = gradient._cache_size()
    learn_kernel(plane[:290], landmarks=50)  # within the size class of 300 rows
    learn_kernel(plane, landmarks=50, rng=3)
    learn_kernel(np.exp(plane), landmarks=50)
    assert gradient._cache_size() == before
    learn_kernel(plane[:100], landmarks=50)
    assert gradient._cache_size() == before + 1  # the count does move when it must


def test_many_rows_end_where_all_rows_say():
    x = normal(2000, 2, 5)
    whole = learn_kernel(x, landmarks=40)
    split, _ = fit_kernel(x, Gaussian(), landmarks=40, effort=Effort(scan_rows=300, refine_rows=384))
    assert split.kernel.lengthscale == pytest.approx(whole.kernel.lengthscale, rel=5e-3)
    assert split.log_evidence == pytest.approx(whole.log_evidence, abs=0.05)


class TestPaper:
    def test_value_is_the_public_objective_and_a_maximum(self):
        x = normal_and_laplace(RNG(0), 100)
        result = learn_kernel(x, objective="paper", noise=1.0, landmarks=Landmarks("subset", 20))
        best = result.kernel.lengthscale

        def value(scale):
            return log_pseudolikelihood(x, kernel=Gaussian(scale), noise=1.0, landmarks=result.landmarks)

        assert result.log_evidence == pytest.approx(value(best), rel=1e-9)
        assert value(best) > max(value(0.98 * best), value(1.02 * best))

    def test_it_follows_the_number_of_landmarks(self):
        x = normal_and_laplace(RNG(0), 200)
        found = []
        for m in (10, 50):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = learn_kernel(x, objective="paper", noise=1.0, landmarks=m)
            found.append(min(mode.kernel.lengthscale for mode in result.modes))
        assert found[1] < 0.5 * found[0]

    def test_refusals(self, plane):
        with pytest.raises(ValueError, match=r"noise=1\.0"):
            learn_kernel(plane, objective="paper")
        result = learn_kernel(normal_and_laplace(RNG(0), 100), objective="paper", noise=1.0, landmarks=20)
        with pytest.raises(ValueError, match="not a density"):
            result.log_density(plane)
        with pytest.raises(ValueError, match="auto"):
            learn_kernel(plane, "auto", objective="paper", noise=1.0)


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
            ({"noise": -1.0}, ValueError, "noise must be positive"),
            ({"noise": "free"}, ValueError, "noise must be one of 'learn'"),
            ({"objective": "mine"}, ValueError, "objective must be one of"),
            ({"measure": "flat"}, ValueError, "measure must be one of"),
            ({"landmarks": 2}, ValueError, "at least 3 are needed"),
            ({"landmarks": "best"}, ValueError, "landmarks must be one of"),
            ({"landmarks": np.ones((9, 3))}, ValueError, "landmarks has 3 columns"),
            ({"prior": 3.0}, TypeError, "prior must be a function"),
            ({"prior": lambda kernel, noise: None}, ValueError, "prior must return one number"),
            ({"prior": lambda kernel, noise: np.nan}, ValueError, "prior must return one number"),
            ({"landmarks": [[1e4, 0.0], [0.0, 1e4], [1e4, 1e4]]}, ValueError, "landmarks lie among the data"),
            ({"rng": "a"}, TypeError, "rng must be"),
        ],
    )
    def test_arguments(self, plane, arguments, error, message):
        with pytest.raises(error, match=message):
            learn_kernel(plane, **arguments)

    def test_constant_and_duplicated_columns_do_not_matter_to_one_lengthscale(self, plane, learned):
        wide = np.column_stack([plane, np.full(len(plane), 3.0)])
        assert learn_kernel(wide, landmarks=50).kernel.lengthscale == pytest.approx(
            learned.kernel.lengthscale, rel=1e-6
        )
        twice = learn_kernel(np.column_stack([plane[:, 0], plane[:, 0]]), landmarks=50)
        once = learn_kernel(plane[:, :1], landmarks=50)
        # the same line, √2 longer
        assert twice.kernel.lengthscale == pytest.approx(2**0.5 * once.kernel.lengthscale, rel=1e-3)
        with pytest.raises(ValueError, match="no density"):
            twice.log_density(np.ones((1, 2)))
        with pytest.raises(ValueError, match="constant"):
            learn_kernel(wide, Gaussian(np.ones(3)))

    def test_discrete_data_are_warned_about_or_learned(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = learn_kernel(RNG(0).integers(0, 4, size=(200, 1)).astype(float))
        assert np.isfinite(result.log_evidence)
        assert result.modes[0].at_edge == any("edge" in str(w.message) for w in seen)

    def test_fewer_rows_than_columns_and_tiny_samples(self):
        few = learn_kernel(normal(8, 10))  # they span seven dimensions, in which they are learned
        assert few.landmarks.shape[1] == 10
        assert 0.5 < few.kernel.lengthscale / median_lengthscale(normal(8, 10)) < 5
        assert 0.5 < learn_kernel(normal(12, 2)).kernel.lengthscale < 5

    def test_too_many_columns_for_the_integral_are_told(self, learned):
        rough = dataclasses.replace(learned, ess=0.004)
        with pytest.warns(UserWarning, match=r"only 0\.4% of the draws .* in 2 dimensions"):
            rough.warn()
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


def test_repr_is_one_line(learned):
    assert repr(learned).startswith("LearnedKernel(Gaussian(lengthscale=1.")
    assert "\n" not in repr(learned)
    assert kembed.LearnedKernel is type(learned)

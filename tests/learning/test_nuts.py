"""NUTS over kernels: agreement with quadrature, honest modes, embeddings that integrate."""

import dataclasses
import sys

import numpy as np
import pytest

from kembed import Gaussian, Landmarks, log_pseudolikelihood, sample_kernel
from kembed.learning.kernel_samples import mode_shares, nearest_mode

RNG = np.random.default_rng


@pytest.fixture(scope="module")
def data():
    return RNG(0).normal(size=(60, 1))


@pytest.fixture(scope="module")
def samples(data):
    return sample_kernel(data, n_chains=2, n_warmup=150, n_draws=300, progress=False)


def test_posterior_of_the_lengthscale_is_that_of_quadrature(data, samples):
    """There is one number, ℓ; a grid gives its posterior exactly."""
    from kembed.learning.learn import fit_kernel
    from kembed.learning.problem import objective

    learned, prepared = fit_kernel(data, Gaussian())
    state = learned.state
    log_scale = np.linspace(-3.5, 2.0, 221)
    density = np.array([objective(state.spec, np.array([a]), prepared.problem)[0] for a in log_scale])
    weight = np.exp(density - density.max())
    weight = weight / weight.sum()
    mean = weight @ log_scale
    sd = np.sqrt(weight @ (log_scale - mean) ** 2)
    drawn = np.log(samples.lengthscale / state.frame.scale[0])
    # bulk ESS is over 100, so 4 standard errors of the mean are 0.4 sd
    assert samples.ess > 100
    assert abs(drawn.mean() - mean) < 0.4 * sd
    assert 0.75 < drawn.std() / sd < 1.33


def test_the_published_posterior_given_the_noise_is_that_of_quadrature(data):
    """`objective="paper"`: the published objective plus the paper's Gamma(1, 1) on ℓ, by a grid."""
    how = {"objective": "paper", "noise": 1.0, "landmarks": Landmarks("subset", 10)}
    samples = sample_kernel(data, n_chains=1, n_warmup=150, n_draws=300, progress=False, **how)
    log_scale = np.linspace(-3.5, 2.0, 221)
    z = samples.learned.landmarks
    density = [
        float(log_pseudolikelihood(data, kernel=Gaussian(np.exp(a)), noise=1.0, landmarks=z)) + a - np.exp(a)
        for a in log_scale
    ]
    weight = np.exp(np.array(density) - max(density))
    mean = np.average(log_scale, weights=weight)
    sd = np.sqrt(np.average((log_scale - mean) ** 2, weights=weight))
    assert samples.ess > 100  # so 4 standard errors of the mean are 0.4 sd
    assert abs(np.log(samples.lengthscale).mean() - mean) < 0.4 * sd
    assert 0.75 < np.log(samples.lengthscale).std() / sd < 1.33


def test_chains_agree_without_divergences(samples):
    assert samples.rhat < 1.05
    assert samples.divergences == 0
    assert "R-hat" in repr(samples)
    assert "\n" not in repr(samples)


def test_arviz_sees_every_variable(samples):
    data = samples.to_arviz()
    assert set(data.posterior.data_vars) == {"lengthscale"}
    assert data.posterior.sizes["chain"] == 2
    assert data.posterior.sizes["draw"] == 300
    assert list(samples.summary().index) == ["lengthscale"]


def test_units_of_the_draws_are_those_of_the_data(data, samples):
    other = sample_kernel(1e3 * data, n_chains=2, n_warmup=150, n_draws=300)
    # chains are chaotic in the last digit: the distributions agree, not the draws
    assert np.median(other.lengthscale) == pytest.approx(1e3 * np.median(samples.lengthscale), rel=0.1)


@pytest.mark.filterwarnings("ignore::UserWarning")  # a few steps of adaptation are too few
def test_seeds(data):
    def draw(**seed):
        few = {"n_chains": 1, "n_warmup": 150, "n_draws": 10}  # the warm-up of `samples`: one program
        return sample_kernel(data, **few, **seed).lengthscale

    first = draw(rng=1)
    np.testing.assert_array_equal(first, draw(rng=1))
    assert not np.array_equal(first, draw(rng=2))
    np.testing.assert_array_equal(draw(), draw(rng=0))
    assert not np.array_equal(draw(rng=None), draw(rng=None))  # fresh entropy


def test_modes_are_weighted_by_their_share_not_by_chains():
    rng = RNG(0)
    peaks = np.array([[0.0, 0.0], [5.0, 0.0]])
    free = np.stack([0.1 * rng.normal(size=(500, 2)), peaks[1] + 0.2 * rng.normal(size=(500, 2))])
    which = nearest_mode(free, peaks)
    assert list(which) == [0, 1]

    def log_density(at):  # heights 1 and e^-1, widths .1 and .2
        return np.logaddexp(-0.5 * (at @ at) / 0.01, -1.0 - 0.5 * ((at - peaks[1]) @ (at - peaks[1])) / 0.04)

    mass = mode_shares(free, which, 3, log_density)
    # half the log determinant of a covariance of 500 draws has sd .045, twice; three of their sum are 0.2
    assert mass[1] / mass[0] == pytest.approx(4.0 * np.exp(-1.0), rel=0.2)
    assert mass[2] == 0.0


def test_several_modes_and_divergences_are_said_aloud(samples):
    theta = samples.theta.copy()
    theta[1, :, 0] += 3.0
    split = dataclasses.replace(
        samples, theta=theta, chain_mode=np.array([0, 1]), mass=np.array([0.75, 0.25])
    )
    with pytest.warns(UserWarning, match=r"several modes .* 75%, .* 25%"):
        split.warn()
    assert split.to_arviz().posterior.sizes["chain"] == 1
    assert float(repr(split).split("lengthscale ")[1].split()[0]) == pytest.approx(
        np.median(samples.lengthscale[0]), rel=1e-3
    )
    # weighted by share, whatever the number of chains
    small = float(np.median(samples.lengthscale)) * 5
    share = np.mean([float(kernel.lengthscale) > small for kernel in split.kernels(2000, rng=0)])
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 2000)
    theta = samples.theta.copy()
    theta[1, :, 0] += 3.0
    with pytest.warns(UserWarning, match="chains have not settled"):
        dataclasses.replace(samples, theta=theta).warn()
    with pytest.warns(UserWarning, match="600 divergent draws"):
        dataclasses.replace(samples, diverging=np.ones((2, 300), bool)).warn()


def test_bad_arguments(data, monkeypatch):
    with pytest.raises(TypeError, match="learn_kernel"):
        sample_kernel(data, "auto")
    with pytest.raises(ValueError, match="n_chains must be at least 1"):
        sample_kernel(data, n_chains=0)
    with pytest.raises(ValueError, match="n_warmup must be at least 10"):
        sample_kernel(data, n_warmup=1)
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"kembed\[bayes\]"):
        sample_kernel(data)


def test_plot_has_a_line_for_each_chain(samples):
    from matplotlib.figure import Figure

    axes = samples.plot(Figure().subplots())
    assert len(axes.patches) == 2

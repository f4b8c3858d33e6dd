"""The posterior over lengthscales by quadrature: against fine grids, and in the witness."""

import pickle

import numpy as np
import pytest
from scipy.integrate import quad

from kembed import Gaussian, MultiScale, RationalQuadratic, learn_kernel, witness
from kembed.learning.learn import fit_kernel
from kembed.learning.search import value_at


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(80, 1))


def log_posterior(rows, kernel=Gaussian()):  # noqa: B008 - frozen
    learned, prepared = fit_kernel(rows, kernel)
    return learned, lambda theta: value_at(learned.state.spec, np.atleast_1d(theta), prepared.problem)[0]


def test_weights_are_those_of_adaptive_integration(rows):
    learned, log_density = log_posterior(rows)
    posterior = learned.posterior
    assert posterior.weights.sum() == pytest.approx(1.0)
    low, high = posterior.theta[0, 0], posterior.theta[-1, 0]
    top = log_density(learned.state.thetas[0])

    def integral(a, b, power):
        return quad(lambda t: t**power * np.exp(log_density(t) - top), a, b, limit=400, epsabs=1e-10)[0]

    total = integral(low, high, 0)
    mean = float(posterior.weights @ posterior.theta[:, 0])
    assert mean == pytest.approx(integral(low, high, 1) / total, abs=2e-3)
    scale = learned.kernel.lengthscale / np.exp(learned.state.thetas[0][0])
    for q in (0.05, 0.5, 0.95):
        at = np.log(posterior.quantile(q) / scale)
        assert integral(low, at, 0) / total == pytest.approx(q, abs=5e-3)


def test_two_modes_have_their_shares():
    """Narrow clumps far apart, by a fine grid over the same log density."""
    rng = np.random.default_rng(3)
    rows = np.sort(np.concatenate([rng.normal(size=20), rng.normal(8.0, 0.02, size=20)]))[:, None]
    learned, log_density = log_posterior(rows)
    grid = np.linspace(*learned.posterior.theta[[0, -1], 0], 4001)
    logs = np.array([log_density(t) for t in grid])
    exact = np.exp(logs - logs.max())
    for cut in np.quantile(grid, [0.2, 0.4, 0.6, 0.8]):
        below = learned.posterior.theta[:, 0] <= cut
        share = exact[grid <= cut].sum() / exact.sum()
        assert learned.posterior.weights[below].sum() == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("kernel", [RationalQuadratic(), Gaussian(np.ones(2))])
def test_two_numbers_against_a_finer_grid(kernel):
    rows = np.random.default_rng(1).normal(size=(60, 2))
    learned, log_density = log_posterior(rows, kernel)
    low, high = learned.posterior.theta.min(axis=0), learned.posterior.theta.max(axis=0)
    axes = [np.linspace(a, b, 71) for a, b in zip(low, high, strict=True)]
    nodes = np.array([[a, b] for a in axes[0] for b in axes[1]])
    logs = np.array([log_density(node) for node in nodes])
    weights = np.exp(logs - logs.max())
    expected = weights @ nodes / weights.sum()
    np.testing.assert_allclose(learned.posterior.weights @ learned.posterior.theta, expected, atol=0.02)


def test_systematic_draws_follow_the_weights(rows):
    posterior = learn_kernel(rows).posterior
    drawn = np.sort([kernel.lengthscale for kernel in posterior.kernels(400)])
    np.testing.assert_allclose(
        np.quantile(drawn, [0.1, 0.5, 0.9]), posterior.quantile([0.1, 0.5, 0.9]), rtol=0.05
    )


def test_units_and_order_do_not_matter(rows):
    plain, other = learn_kernel(rows).posterior, learn_kernel(1e3 * rows[::-1] + 5.0).posterior
    np.testing.assert_allclose(other.quantile([0.05, 0.95]), 1e3 * plain.quantile([0.05, 0.95]), rtol=1e-6)


def test_it_survives_pickling_and_is_refused_for_three_numbers(rows):
    posterior = pickle.loads(pickle.dumps(learn_kernel(rows))).posterior
    np.testing.assert_array_equal(posterior.weights, learn_kernel(rows).posterior.weights)
    with pytest.raises(
        ValueError, match="3 hyperparameters, and quadrature is for one or two; use sample_kernel"
    ):
        _ = learn_kernel(rows, MultiScale([1.0, 1.0])).posterior


def test_the_witness_integrates_over_it(rng):
    x, y = rng.normal(size=(150, 1)), rng.normal(0.8, size=(150, 1))
    points = np.linspace(-2.0, 3.0, 9)[:, None]
    integrated = witness(x, y, kernel="posterior")
    own = witness(x, y, kernel=learn_kernel(np.concatenate([x, y])).posterior)
    np.testing.assert_allclose(integrated.at(points).mean, own.at(points).mean, atol=0.02)
    assert len(integrated.kernel) == 50
    scales = [kernel.lengthscale for kernel in own.kernel]
    assert np.std(np.log(scales)) > 0.02


def test_the_witness_takes_the_word_with_categories(rng):
    import polars as pl

    x = pl.DataFrame({"a": rng.normal(size=60), "level": rng.choice(["u", "v"], 60)})
    y = x.with_columns(a=pl.col("a") + 1.0)
    assert witness(x, y, kernel="posterior").where()
    with pytest.raises(ValueError, match="kernel=KernelPosterior is for numeric columns"):
        witness(x, y, kernel=learn_kernel(rng.normal(size=30)).posterior)

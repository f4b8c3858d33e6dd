"""Bayesian distribution regression: each formula against a slow one, the laws, and every way to give bags."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

import kembed
from kembed import DistributionRegressor, Gaussian
from kembed.estimators import bag_model
from kembed.estimators.bag_model import (
    Weights,
    feature_axes,
    fit_between_bags,
    fit_prior,
    fit_weights,
    fixed_point,
    weighted_ridge,
)


def some_bags(rng, count=60, columns=2):
    """Bags of 5 to 100 rows that differ in spread; their means say nothing about it."""
    spread = rng.uniform(0.5, 2.0, size=count)
    sizes = np.exp(rng.uniform(np.log(5), np.log(100), size=count)).astype(int)
    return [rng.normal(scale=s, size=(n, columns)) for s, n in zip(spread, sizes, strict=True)], spread


@pytest.fixture(scope="module")
def bags():
    return some_bags(np.random.default_rng(1))


@pytest.fixture(scope="module")
def fitted(bags):
    return DistributionRegressor("median").fit(*bags)


def numbered(bags):
    return np.concatenate(bags), np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])


# The posterior of embeddings


def test_the_posterior_of_a_bag_is_that_of_the_docstring(bags):
    """With S from a loop over rows, C from the fit, and plain inverses."""
    rows, number = numbered(bags[0])
    z = rows[::300]
    prior = fit_prior(Gaussian(1.5), z, rows, number)
    features = Gaussian(1.5).gram(rows, z) @ prior.axes
    S, freedom = np.zeros((features.shape[1],) * 2), 0
    for b in range(len(bags[0])):
        own = features[number == b]
        for row in own:
            S += np.outer(row - own.mean(axis=0), row - own.mean(axis=0))
        freedom += len(own) - 1
    S /= freedom
    np.testing.assert_allclose(prior.basis @ prior.basis.T, S, atol=1e-8)
    C = prior.basis @ np.diag(prior.ratio) @ prior.basis.T
    mu, u = prior.posterior(rows, number)
    for b in (0, 7):
        n = len(bags[0][b])
        gain = C @ np.linalg.inv(C + S / n)
        expected = gain @ (features[number == b].mean(axis=0) - prior.mean)
        np.testing.assert_allclose(mu[b], expected, atol=1e-6)
        Sigma = prior.basis @ np.diag(u[b]) @ prior.basis.T
        np.testing.assert_allclose(Sigma, C - gain @ C, atol=1e-8)
        assert np.trace(Sigma) > 1e-4  # so that the line above says something


def test_inner_products_of_coordinates_are_those_of_the_rkhs():
    """With all the features that the rows allow: every row a bag, and a landmark."""
    rows = np.random.default_rng(0).normal(size=(12, 2))
    prior = fit_prior(Gaussian(1.0), rows, rows, np.arange(12))
    mu, u = prior.posterior(rows, np.arange(12))
    np.testing.assert_allclose((mu + prior.mean) @ (mu + prior.mean).T, Gaussian(1.0).gram(rows), atol=1e-5)
    assert (u @ prior.basis.T**2).max() < 1e-6  # a row is all there is to a bag that has one


def test_features_are_few_where_rows_are(bags):
    rows, number = numbered([bag[:5] for bag in bags[0]])
    prior = fit_prior(Gaussian(0.5), rows, rows, number)
    assert prior.axes.shape[1] == len(rows) // 20
    principal = fit_prior(Gaussian(0.5), rows, rows, np.arange(len(rows)))
    features = Gaussian(0.5).gram(rows) @ principal.axes
    variances = np.linalg.eigvalsh(np.cov(features.T))[::-1]
    own = np.linalg.eigvalsh(np.cov((Gaussian(0.5).gram(rows) @ prior.axes).T))[::-1]
    np.testing.assert_allclose(own, variances[: len(own)], rtol=1e-6)  # and they are the principal ones


def slow_em(observed, sizes, steps):
    """The same by matrices, one bag at a time; and the likelihood of ŵ before every step."""
    mean = observed.mean(axis=0)
    C, trace = np.cov(observed.T, bias=True), []
    for _ in range(steps):
        total, log_likelihood, expected = np.zeros_like(C), 0.0, []
        for w, n in zip(observed, sizes, strict=True):
            A = C + np.eye(len(C)) / n
            log_likelihood += multivariate_normal(mean, A).logpdf(w)
            expected.append(mean + C @ np.linalg.solve(A, w - mean))
            total += C - C @ np.linalg.solve(A, C)
        mean = np.mean(expected, axis=0)
        C = total / len(sizes) + np.cov(np.array(expected).T, bias=True)
        trace.append(log_likelihood)
    return mean, C, trace


def test_em_is_that_of_a_loop_and_climbs():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 30, size=40)
    truth = rng.multivariate_normal([1.0, 0.0, -2.0], np.diag([2.0, 0.5, 0.1]), size=40)
    observed = truth + rng.normal(size=(40, 3)) / np.sqrt(sizes)[:, None]
    mean, vectors, ratio = fit_between_bags(observed, sizes)
    expected = slow_em(observed, sizes, bag_model.STEPS)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-10)
    np.testing.assert_allclose((vectors * ratio) @ vectors.T, expected[1], atol=1e-12)
    assert (np.diff(expected[2]) > 0.0).all()


def test_by_hand():
    """S = 4 and C = 1: of a bag of four rows S/n = 1, so that half of ŵ - m is kept, and Σ = 1/2."""
    prior = bag_model.EmbeddingPrior(
        Gaussian(1.0), np.zeros((1, 1)), np.eye(1), np.zeros(1), np.array([[2.0]]), np.array([0.25])
    )
    mu, u = prior.posterior(np.zeros((4, 1)), np.zeros(4, dtype=int))  # k(0, 0) = 1 is ŵ
    assert mu == pytest.approx(0.5)
    assert 4.0 * u == pytest.approx(0.5)  # Σ = EuEᵀ
    # α ~ N(3, 1/4) and β = 1, independent: y = 1 + 3/2, and σ² + μ²/4 + 9/2 + 1/8 with σ² = .1; A⁻¹ = 4.
    weights = Weights(np.array([1.0, 3.0]), np.diag([1e9, 2.0]), 0.1, np.ones(1), 0.0)
    mean, variance = weights.predict(mu, u, prior.basis)
    assert mean == pytest.approx(2.5)
    assert variance == pytest.approx(0.1 + 0.0625 + 4.5 + 0.125)


# The regression


@pytest.fixture(scope="module")
def problem():
    """Posterior means and covariances of 30 bags in three coordinates, and y."""
    rng = np.random.default_rng(2)
    mu = rng.normal(size=(30, 3))
    basis, u = rng.normal(size=(3, 3)), rng.uniform(0.0, 0.3, size=(30, 3))
    y = mu @ [1.0, -0.5, 0.0] + rng.normal(size=30)
    return mu, u, basis, (y - y.mean()) / y.std()


def test_weighted_ridge_is_regression_by_the_joint_normal(problem):
    mu, _, _, y = problem
    v = np.linspace(0.5, 2.0, 30)
    weights = weighted_ridge(mu, y, v, 0.3, tau=0.7)
    K = 0.7 * mu @ mu.T + np.diag(v)

    def likelihood(beta):
        return multivariate_normal(np.full(30, beta), K).pdf(y)

    assert weights.log_likelihood == pytest.approx(np.log(quad(likelihood, -3.0, 3.0)[0]), abs=1e-8)
    inverse, ones = np.linalg.inv(K), np.ones(30)
    beta = ones @ inverse @ y / (ones @ inverse @ ones)
    assert weights.coefficients[0] == pytest.approx(beta)
    np.testing.assert_allclose(weights.coefficients[1:], 0.7 * mu.T @ inverse @ (y - beta))
    wide = np.diag([1e8, 0.7, 0.7, 0.7])  # a flat β as one of large variance
    M = np.column_stack([ones, mu])
    expected = wide - wide @ M.T @ np.linalg.solve(M @ wide @ M.T + np.diag(v), M @ wide)
    np.testing.assert_allclose(np.linalg.inv(weights.lower @ weights.lower.T), expected, atol=1e-6)


def test_the_iteration_ends_where_both_agree(problem):
    mu, u, basis, y = problem
    weights = fixed_point(mu, u, basis, y, 0.2, 0.7)
    A = np.linalg.inv(weights.lower @ weights.lower.T)[1:, 1:]
    a = weights.coefficients[1:]
    for b in range(30):
        Sigma = basis @ np.diag(u[b]) @ basis.T
        assert weights.variances[b] == pytest.approx(0.2 + a @ Sigma @ a + np.trace(A @ Sigma), rel=2e-4)


def test_bags_without_end_are_ridge_regression(problem):
    mu, u, basis, y = problem
    weights = fit_weights(mu, 0.0 * u, basis, y)
    assert set(weights.variances) == {weights.noise}
    more = [
        weighted_ridge(mu, y, np.full(30, noise), noise, prior).log_likelihood
        for noise in np.geomspace(0.05, 2.0, 30)
        for prior in np.geomspace(1e-2, 10.0, 30)
    ]
    assert weights.log_likelihood > max(more) - 0.02  # the search found the top of a grid
    prior = 1.0 / (weights.lower @ weights.lower.T - np.column_stack([np.ones(30), mu]).T
                   @ np.column_stack([np.ones(30), mu]) / weights.noise)[1, 1]  # fmt: skip
    ridge = Ridge(alpha=weights.noise / prior).fit(mu, y)
    np.testing.assert_allclose(weights.predict(mu, 0.0 * u, basis)[0], ridge.predict(mu), atol=1e-8)


def test_the_variance_is_that_of_draws(problem):
    """α and w are drawn: 200,000 draws leave .3% of the variance, five times that is allowed."""
    mu, u, basis, y = problem
    weights = fit_weights(mu, u, basis, y)
    rng = np.random.default_rng(0)
    drawn = weights.coefficients + np.linalg.solve(weights.lower.T, rng.normal(size=(4, 200_000))).T
    mean, variance = weights.predict(mu, u, basis)
    for b in (0, 5):
        w = mu[b] + (np.sqrt(u[b]) * rng.normal(size=(200_000, 3))) @ basis.T
        found = (
            drawn[:, 0] + (drawn[:, 1:] * w).sum(axis=1) + np.sqrt(weights.noise) * rng.normal(size=200_000)
        )
        assert found.mean() == pytest.approx(mean[b], abs=3.0 * np.sqrt(variance[b] / 200_000))
        assert found.var() == pytest.approx(variance[b], rel=0.015)


def test_near_the_posterior_by_quadrature():
    """One coordinate, where the posterior under N(y; β + αμ, σ² + α²u) can be summed on a grid.

    That posterior also learns α from the variance. Over 20 such sets ours had the same mean (difference .006,
    s.e. .006) and a standard deviation of α 15% larger, which is little of that of y.
    """
    rng = np.random.default_rng(3)
    mu, u = rng.normal(size=(60, 1)), rng.uniform(0.02, 0.6, size=(60, 1))
    y = 0.7 * (mu + np.sqrt(u) * rng.normal(size=(60, 1)))[:, 0] + 0.3 * rng.normal(size=60)
    weights = fixed_point(mu, u, np.eye(1), y, 0.09, tau=1.0)
    alpha, beta = (
        one.ravel() for one in np.meshgrid(np.linspace(-0.5, 2.0, 300), np.linspace(-1.0, 1.0, 200))
    )
    log = norm.logpdf(alpha)
    for b in range(60):
        log = log + norm.logpdf(y[b], beta + alpha * mu[b, 0], np.sqrt(0.09 + alpha**2 * u[b, 0]))
    p = np.exp(log - logsumexp(log))
    for place, spread in ((0.0, 0.02), (1.5, 0.3), (-2.0, 0.6)):
        mean, variance = weights.predict(np.array([[place]]), np.array([[spread]]), np.eye(1))
        exact = p @ (beta + alpha * place)
        inside = p @ (0.09 + alpha**2 * spread) + p @ (beta + alpha * place - exact) ** 2
        assert mean[0] == pytest.approx(exact, abs=0.15 * np.sqrt(inside))
        assert np.sqrt(variance[0] / inside) == pytest.approx(1.0, abs=0.05)


# The estimator


def test_better_than_blind_to_the_size_of_bags():
    """Against the same features with Σ = 0, on new bags: error, likelihood and coverage of the small bags."""
    rng = np.random.default_rng(5)
    train, y = some_bags(rng, 80)
    new, truth = some_bags(rng, 300)
    model = DistributionRegressor("median").fit(train, y)
    mean, sd = model.predict(new, return_std=True)
    embedding = feature_axes(model.kernel_, model.landmarks_)
    means = [
        np.array([model.kernel_.gram(bag, model.landmarks_).mean(axis=0) @ embedding for bag in some])
        for some in (train, new)
    ]
    z = (y - y.mean()) / y.std()
    centre, none = means[0].mean(axis=0), np.zeros_like(means[0])
    blind = fit_weights(means[0] - centre, none, np.eye(none.shape[1]), z)
    other, variance = blind.predict(means[1] - centre, np.zeros_like(means[1]), np.eye(none.shape[1]))
    other, blind_sd = y.mean() + y.std() * other, y.std() * np.sqrt(variance)
    small = np.array([len(bag) <= 12 for bag in new])
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.95 * np.sqrt(np.mean((other - truth) ** 2))
    assert norm.logpdf(truth, mean, sd).mean() > norm.logpdf(truth, other, blind_sd).mean() + 0.1
    covered = np.abs(mean - truth) < 1.645 * sd
    assert 0.83 < covered.mean() < 0.97  # 300 bags: 1.7% either way, and one training set
    assert covered[small].mean() > (np.abs(other - truth) < 1.645 * blind_sd)[small].mean()


def test_fewer_rows_are_less_sure(bags, fitted):
    """One empirical distribution at several numbers of rows; of one row the sd is near that of y."""
    row = np.array([[0.7, -0.7]])
    bag = np.concatenate([row * s for s in (1.0, -1.0, 0.2, -0.2)])
    _, sd = fitted.predict([row, *[np.concatenate([bag] * k) for k in (1, 4, 16, 64)]], return_std=True)
    assert (np.diff(sd) < 0.0).all()
    assert sd[0] > 3.0 * sd[-1]
    assert sd[0] == pytest.approx(bags[1].std(), rel=0.3)
    assert fitted.noise_ < sd[-1]


def test_order_does_not_matter(bags, fitted):
    rng = np.random.default_rng(0)
    order = rng.permutation(len(bags[0]))
    again = clone(fitted).fit([rng.permutation(bags[0][b]) for b in order], bags[1][order])
    expected = fitted.predict(bags[0], return_std=True)
    np.testing.assert_allclose(again.predict(bags[0], return_std=True), expected, rtol=1e-5)
    one_by_one = [fitted.predict([bag], return_std=True) for bag in bags[0][:3]]
    np.testing.assert_allclose(np.array(one_by_one)[:, :, 0].T, np.array(expected)[:, :3], rtol=1e-9)


def test_units_do_not_matter(bags):
    model = DistributionRegressor().fit(*bags)
    other = clone(model).fit([bag * [1e6, 1e-6] for bag in bags[0]], 1e9 * bags[1] + 1e9)
    mean, sd = model.predict(bags[0], return_std=True)
    scaled = other.predict([bag * [1e6, 1e-6] for bag in bags[0]], return_std=True)
    np.testing.assert_allclose((scaled[0] - 1e9) / 1e9, mean, rtol=1e-4)
    np.testing.assert_allclose(scaled[1] / 1e9, sd, rtol=1e-3)
    assert other.noise_ == pytest.approx(1e9 * model.noise_, rel=1e-3)
    change = other.log_marginal_likelihood_ - model.log_marginal_likelihood_
    assert change == pytest.approx(-59 * np.log(1e9), abs=1e-3)


def test_the_likeliest_multiple_of_the_learned_kernel(bags):
    model = DistributionRegressor().fit(*bags)
    learned = model.learned_.model.kernel.lengthscale
    spread = 1.4826 * np.median(np.abs((rows := numbered(bags[0])[0]) - np.median(rows, axis=0)), axis=0)
    fits = [DistributionRegressor(Gaussian(m * learned * spread)).fit(*bags) for m in (1.0, 2.0, 4.0, 8.0)]
    best = max(fits, key=lambda fit: fit.log_marginal_likelihood_)
    np.testing.assert_allclose(model.kernel_.lengthscale, best.kernel_.lengthscale)
    np.testing.assert_allclose(model.predict(bags[0]), best.predict(bags[0]))
    assert DistributionRegressor("median").fit(*bags).learned_ is None


def test_a_table_of_rows_is_regression_on_rows(rng):
    X = rng.uniform(-2.0, 2.0, size=(150, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=150)
    model = DistributionRegressor().fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > 0.9
    assert 0.05 < model.noise_ < 0.2
    np.testing.assert_allclose(model.predict(X), model.predict([row[None] for row in X]))
    frame = pd.DataFrame(X, columns=["a", "b"])
    np.testing.assert_array_equal(clone(model).fit(frame[:100], y[:100]).predict(frame), model.predict(X))


def test_in_scikit_learn(bags, fitted):
    folds = KFold(3, shuffle=True, random_state=0)
    assert cross_val_score(DistributionRegressor("median"), *bags, cv=folds).mean() > 0.6
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(bags[0]), fitted.predict(bags[0]))
    assert clone(fitted).get_params()["kernel"] == "median"
    with pytest.raises(NotFittedError):
        clone(fitted).predict(bags[0])


# Ways to give bags


@pytest.fixture(scope="module")
def table(bags):
    """The bags as one table in random order of rows, with a column of text that goes with y."""
    rng = np.random.default_rng(0)
    rows, number = numbered(bags[0])
    size = np.where(rng.random(len(rows)) < bags[1][number] / 2.0, "large", "small")
    frame = pd.DataFrame(
        {"u": rows[:, 0], "size": size, "bag": [f"b{b}" for b in number], "y": bags[1][number]}
    )
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


def test_one_table_or_a_list_of_them(table, tmp_path):
    names = table["bag"].unique()
    parts = [table.loc[table["bag"] == name, ["u", "size"]] for name in names]
    y = [table.loc[table["bag"] == name, "y"].iloc[0] for name in names]
    expected = DistributionRegressor("median").fit(parts, y).predict(parts, return_std=True)
    path = tmp_path / "bags.csv"
    table.to_csv(path, index=False)
    model = DistributionRegressor("median", bags="bag").fit(table, "y")
    assert list(model.feature_names_in_) == ["u", "size"]
    without = table.drop(columns="y")
    by_name = dict(zip(names, y, strict=True))
    others = [
        (model, without),
        (clone(model).fit(without, by_name), without),
        (clone(model).fit(without, table.groupby("bag")["y"].mean()), without),
        (clone(model).fit(without, table["y"]), without),
        (clone(model).fit(pl.from_pandas(without), table["y"].to_numpy()), pl.from_pandas(without)),
        (clone(model).fit(str(path), "y"), path),
        (clone(model).fit(without[["bag", "u", "size"]], table["y"].tolist()), without),
    ]
    for other, X in others:
        np.testing.assert_allclose(other.predict(X, return_std=True), expected, rtol=1e-9)
        assert other.score(X, table["y"]) == pytest.approx(other.score(X, by_name))
    arrays = [np.column_stack([part["u"], part["size"] == "large"]) for part in parts]
    frames = [pd.DataFrame(array, columns=["u", "large"]) for array in arrays]
    by_array = DistributionRegressor("median").fit(arrays, y)
    np.testing.assert_array_equal(clone(by_array).fit(frames, y).predict(frames), by_array.predict(arrays))
    groups = cross_val_score(
        clone(model).set_params(landmarks=30), without, table["y"], groups=table["bag"], cv=GroupKFold(3)
    )
    assert groups.mean() > 0.2


def test_categories_count():
    """Only the text says anything: a share of levels; levels that were never seen are equal to none."""
    rng = np.random.default_rng(0)
    share = rng.uniform(size=80)
    frames = [
        pl.DataFrame({"noise": rng.normal(size=60), "word": np.where(rng.random(60) < s, "yes", "no")})
        for s in share
    ]
    model = DistributionRegressor("median").fit(frames[:60], share[:60])
    assert set(np.unique(model.landmarks_[:, 1])) == {0.0, 1.0}
    assert model.score(frames[60:], share[60:]) > 0.8
    strange = frames[0].with_columns(word=pl.lit("perhaps"))
    assert np.isfinite(model.predict([strange], return_std=True)).all()


def test_text_that_hardly_repeats_is_no_identifier_of_bags():
    """A list of bags is one table: no level occurs more often than there are bags, and it is kept."""
    rng = np.random.default_rng(0)
    frames = [pl.DataFrame({"u": rng.normal(size=3), "w": rng.choice(["a", "b"], 3)}) for _ in range(200)]
    model = DistributionRegressor("median", landmarks=10).fit(frames, rng.normal(size=200))
    assert len(model._reading.table.names) == 2


def test_columns_that_say_nothing_are_left_out_in_new_tables_too(table):
    with_id = table.assign(row=[f"person {i}" for i in range(len(table))])
    model = DistributionRegressor("median", bags="bag").fit(with_id, "y")
    expected = DistributionRegressor("median", bags="bag").fit(table, "y").predict(table)
    np.testing.assert_array_equal(model.predict(with_id), expected)


def test_missing_values(table):
    holes = table.copy()
    holes.loc[3, "u"], holes.loc[5, "size"] = np.nan, None
    model = DistributionRegressor("median", bags="bag")
    with pytest.raises(ValueError, match="missing values in 2 of"):
        model.fit(holes, "y")
    omitting = clone(model).set_params(nan_policy="omit").fit(holes, "y")
    expected = clone(model).fit(table.drop([3, 5]), "y").predict(table.drop([3, 5]))
    order = [list(table.drop([3, 5])["bag"].unique()).index(name) for name in table["bag"].unique()]
    np.testing.assert_allclose(omitting.predict(holes), expected[order], rtol=1e-6)
    gone = table.assign(u=np.where(table["bag"] == "b7", np.nan, table["u"]))
    with pytest.raises(ValueError, match=r"bag 'b7' has 0 rows left after those with missing values"):
        omitting.predict(gone)


def spoiled(change):
    return lambda X, y: (change(list(X)), y)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X, y[:-1]), r"y has 59 values, but X has 60 bags; give one value a bag"),
        (lambda X, y: (X, np.where(y == y[3], np.nan, y)), "y contains NaN"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, "y"), "y='y' names a column, but nothing names the bags"),
        (lambda X, y: (X[:1], y[:1]), "X has 1 bag; at least 2"),
        (lambda X, y: (X[0][:1], y[:1]), "minimum of 2"),
        (spoiled(lambda X: [X[0], X[1][:0], *X[2:]]), "1.* has 0 rows"),
        (spoiled(lambda X: [X[0], X[1][:, :1], *X[2:]]), r"X\[1\] has 1 column where X\[0\] has 2"),
        (spoiled(lambda X: [X[0], X[1] * np.nan, *X[2:]]), r"first: row \d+ of X\[1\]"),
        (spoiled(lambda X: [X[0], X[1] * np.inf, *X[2:]]), r"infinite values \(first: row \d+ of X\[1\]"),
        (spoiled(lambda X: [X[0][:, 0], X[1][:, 0]]), r"list of vectors.*reshape\(-1, 1\)"),
        (spoiled(lambda X: [pl.DataFrame(X[0]), *X[1:]]), r"X\[0\] and X\[1\] are not of one kind"),
        (
            spoiled(lambda X: [pl.DataFrame(X[0]), *[pl.DataFrame(x, schema=["a", "b"]) for x in X[1:]]]),
            r"X\[0\] and X\[1\] must have the same columns",
        ),
    ],
)
def test_a_bad_bag_is_named(bags, spoil, message):
    with pytest.raises(ValueError, match=message):
        DistributionRegressor("median").fit(*spoil(*bags))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: (t, "income"), r"y='income' is not a column of X, which has 'u', 'size', 'bag', 'y'"),
        (lambda t: (t.rename(columns={"bag": "b"}), "y"), "bags='bag' is not a column of X"),
        (lambda t: (t.assign(y=np.arange(len(t))), "y"), "y has .* and .* in bag 'b.*give one value a bag"),
        (lambda t: (t, t["y"].unique()), r"each of 60 bags, but not which bag.*give a dictionary"),
        (lambda t: (t, {"b1": 1.0}), "y has no value for 'b.*give one for every bag"),
        (lambda t: (t, t["y"][:-1].to_numpy()), r"y has .* values, but X has 60 bags of .* rows in all"),
        (lambda t: (t.assign(bag=t["bag"].where(t["bag"] != "b3")), "y"), "missing values"),
        (lambda t: ([t, t], [1.0, 2.0]), "bags='bag' names a column of one table, but X is a list"),
    ],
)
def test_a_bad_table_is_named(table, spoil, message):
    with pytest.raises(ValueError, match=message):
        DistributionRegressor("median", bags="bag").fit(*spoil(table))


def test_bad_new_bags_are_named(bags, fitted, table):
    with pytest.raises(ValueError, match="X has 1 column where the samples have 2"):
        fitted.predict([bag[:, :1] for bag in bags[0]])
    with pytest.raises(ValueError, match=r"infinite values .*in bag 0"):
        fitted.predict([bags[0][0] * np.inf])
    with pytest.raises(TypeError, match="holds text where y must be numbers"):
        DistributionRegressor("median", bags="bag").fit(table, "size")
    with pytest.raises(ValueError, match="must have the columns 'u', 'size'"):
        DistributionRegressor("median", bags="bag").fit(table, "y").predict(table.drop(columns="u"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kernel": "fused"}, ValueError, "kernel must be one of 'bkl', 'ard', 'median', 'median-raw'"),
        ({"kernel": 2.0}, TypeError, r"write kembed.Gaussian\(2.0\)"),
        ({"nan_policy": "include"}, ValueError, "nan_policy must be one of 'raise', 'omit'"),
        ({"landmarks": -1}, ValueError, "landmarks must be at least 1"),
    ],
)
def test_bad_parameters_are_named(bags, options, error, message):
    with pytest.raises(error, match=message):
        DistributionRegressor(**options).fit(*bags)


def test_numbers_that_never_differ(bags):
    """y constant, rows constant, rows without end: an answer that is no nonsense."""
    mean, sd = (
        DistributionRegressor("median").fit(bags[0], np.full(60, 7.0)).predict(bags[0], return_std=True)
    )
    np.testing.assert_allclose(mean, 7.0)
    assert (sd < 0.2).all()
    same = [np.ones((n, 1)) for n in range(1, 21)]
    mean, sd = DistributionRegressor().fit(same, np.arange(20.0)).predict(same, return_std=True)
    np.testing.assert_allclose(mean, 9.5)
    np.testing.assert_allclose(sd, np.std(np.arange(20.0)), rtol=0.15)
    for of_rows, of_y in ((1e100, 1e200), (1e-100, 1e-200)):
        scaled = [of_rows * bag for bag in bags[0]]
        found = DistributionRegressor("median").fit(scaled, of_y * bags[1]).predict(scaled, return_std=True)
        expected = DistributionRegressor("median").fit(*bags).predict(bags[0], return_std=True)
        np.testing.assert_allclose(np.array(found) / of_y, expected, rtol=1e-4)


def test_a_seed_gives_the_same_landmarks(bags):
    models = [DistributionRegressor("median", landmarks=20, random_state=s).fit(*bags) for s in (3, 3, 4)]
    assert (models[0].landmarks_ == models[1].landmarks_).all()
    assert (models[0].landmarks_ != models[2].landmarks_).any()
    assert len(models[0].landmarks_) == 20
    z = bags[0][0][:5]
    np.testing.assert_array_equal(DistributionRegressor("median", landmarks=z).fit(*bags).landmarks_, z)
    assert kembed.DistributionRegressor is DistributionRegressor

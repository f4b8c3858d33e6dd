"""The scikit-learn faces: the contract of scikit-learn, and that they say what the library says."""

import pickle
import subprocess
import sys
from functools import partial
from importlib.metadata import version

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_moons
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator

import kembed
from kembed import (
    DistributionRegressor,
    DriftDetector,
    Gaussian,
    KernelLearner,
    Matern32,
    MeanEmbedding,
    MultiScale,
)
from kembed.core.checks import as_rng
from kembed.estimators.kernel_learner import as_pattern

CHECKED = [
    KernelLearner(),
    MeanEmbedding(kernel="median"),
    DriftDetector(n_resamples=99),
    DistributionRegressor(kernel="median"),
]
# A verdict on a batch is not a label of each row. What these two are after is tested below for batches:
# the order of rows does not matter, and a batch too small to judge is refused.
EXCLUDED = {
    DriftDetector: {"check_methods_sample_order_invariance", "check_methods_subset_invariance"},
}
if version("scikit-learn").startswith("1.6."):  # its check makes integers of iris and takes floats off them
    EXCLUDED[DriftDetector].add("check_positive_only_tag_during_fit")
# scikit-learn skips this one itself unless SCIPY_ARRAY_API is set before SciPy is imported.
NEEDS_A_SETTING = "check_array_api_input"


def name_of(check):
    return (check.func if isinstance(check, partial) else check).__name__


def checks():
    for estimator in CHECKED:
        seen = set()
        for each, check in estimator_checks_generator(estimator, legacy=True):
            name = name_of(check)
            seen.add(name)
            if name == NEEDS_A_SETTING or name in EXCLUDED.get(type(estimator), ()):
                continue
            options = check.keywords if isinstance(check, partial) else {}
            extra = "".join(f"-{key}" for key in options if key != "name")
            yield pytest.param(each, check, id=f"{type(estimator).__name__}-{name}{extra}")
        assert EXCLUDED.get(type(estimator), set()) <= seen


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_importing_kembed_does_not_import_scikit_learn():
    seen = "print('sklearn' in sys.modules)"
    code = f"import kembed, sys; {seen}; kembed.KernelLearner; {seen}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# KernelLearner


@pytest.fixture(scope="module")
def moons():
    return make_moons(100, noise=0.15, random_state=0)


@pytest.fixture(scope="module")
def learner(moons):
    return KernelLearner().fit(moons[0])


def test_learner_says_what_learn_kernel_says(moons, learner):
    learned = kembed.learn_kernel(moons[0])
    assert learner.kernel_ == learned.kernel
    assert learner.lengthscale_ == learned.kernel.lengthscale
    assert learner.gamma_ == 0.5 / learned.kernel.lengthscale**2
    assert learner.learned_.log_evidence == learned.log_evidence
    np.testing.assert_allclose(learner.score_samples(moons[0]), learned.log_density(moons[0]))
    assert learner.score(moons[0]) == pytest.approx(learned.log_density(moons[0]).mean())


def test_order_of_rows_does_not_matter(moons, learner):
    assert clone(learner).fit(moons[0][::-1]).gamma_ == learner.gamma_


def test_the_three_ways_to_the_same_classifier(moons, learner):
    X, y = moons
    by_gamma = SVC(gamma=learner.gamma_).fit(X, y)
    by_pipeline = make_pipeline(KernelLearner(), SVC(gamma=0.5)).fit(X, y)
    by_function = SVC(kernel=learner.kernel_.gram).fit(X, y)
    assert by_gamma.score(X, y) > 0.95
    for other in (
        by_pipeline,
        by_function,
        clone(by_function).fit(X, y),
        pickle.loads(pickle.dumps(by_pipeline)),
    ):
        np.testing.assert_allclose(by_gamma.decision_function(X), other.decision_function(X), atol=1e-6)


def with_kernel(kernel, columns=("a", "b")):
    """A learner as if it had learned this kernel: what it does with it is the question."""
    learner = KernelLearner()
    learner.kernel_, learner.n_features_in_ = kernel, len(columns)
    learner.feature_names_in_ = np.array(columns, dtype=object)
    return learner


SHAPES = {
    "isotropic": Gaussian(0.7),
    "ard": Gaussian([0.5, 3.0]),
    "full": Gaussian(covariance=[[1.0, 0.6], [0.6, 0.5]]),
}


def test_words_are_patterns():
    assert as_pattern("isotropic", 2) == Gaussian()
    assert as_pattern("ard", 2) == Gaussian(np.ones(2))
    assert as_pattern("full", 2) == Gaussian(covariance=np.eye(2))
    assert as_pattern("auto", 2) == "auto"
    assert as_pattern(Matern32(), 2) == Matern32()


@pytest.mark.parametrize("word", SHAPES)
def test_transform_makes_it_gamma_one_half(moons, word):
    T = with_kernel(SHAPES[word]).transform(frame_of(moons))
    np.testing.assert_allclose(rbf_kernel(T, gamma=0.5), SHAPES[word].gram(moons[0]), atol=1e-12)


def frame_of(moons):
    return pd.DataFrame(moons[0], columns=["a", "b"])


def test_other_families_are_scaled_to_lengthscale_one(moons):
    T = with_kernel(Matern32(0.3)).transform(frame_of(moons))
    np.testing.assert_allclose(Matern32(1.0).gram(T), Matern32(0.3).gram(moons[0]), atol=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian([0.5, 3.0]), Matern32(1.0), MultiScale([1.0, 2.0])])
def test_no_single_gamma_is_told(kernel):
    with pytest.raises(AttributeError, match=r"no single gamma.*kernel_\.gram"):
        _ = with_kernel(kernel).gamma_


def test_several_scales_cannot_be_divided_by(moons):
    learner = with_kernel(MultiScale([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"several lengthscales.*use kernel_\.gram"):
        learner.transform(frame_of(moons))
    assert not hasattr(learner, "lengthscale_")


def test_before_fit_there_is_nothing(moons):
    with pytest.raises(NotFittedError):
        _ = KernelLearner().gamma_
    assert not hasattr(KernelLearner(), "lengthscale_")
    with pytest.raises(ValueError, match="kernel must be one of 'isotropic', 'ard', 'full', 'auto'"):
        KernelLearner("rbf").fit(moons[0])
    with pytest.raises(ValueError, match="minimum of 5"):
        KernelLearner().fit(moons[0][:4])


def test_feature_names(moons):
    frame = frame_of(moons)
    assert list(KernelLearner().fit(frame).feature_names_in_) == ["a", "b"]
    scaled = with_kernel(Gaussian([0.5, 3.0])).set_output(transform="pandas").transform(frame)
    pd.testing.assert_frame_equal(scaled, frame / [0.5, 3.0])
    mixed = with_kernel(Gaussian(covariance=[[2.0, 1.0], [1.0, 2.0]]))
    assert list(mixed.get_feature_names_out()) == ["kernellearner0", "kernellearner1"]


def test_gamma_in_the_estimators_that_take_one(moons, learner):
    X, y = moons
    K = learner.kernel_.gram(X)
    gamma = learner.gamma_
    np.testing.assert_allclose(
        np.abs(KernelPCA(2, kernel="rbf", gamma=gamma).fit_transform(X)),
        np.abs(KernelPCA(2, kernel="precomputed").fit_transform(K)),
        atol=1e-8,
    )
    np.testing.assert_allclose(
        KernelRidge(kernel="rbf", gamma=gamma).fit(X, y).predict(X),
        KernelRidge(kernel="precomputed").fit(K, y).predict(K),
        atol=1e-8,
    )
    labels = SpectralClustering(2, gamma=gamma, random_state=0).fit_predict(X)
    same = SpectralClustering(2, affinity="precomputed", random_state=0).fit_predict(K)
    np.testing.assert_array_equal(labels, same)
    F = Nystroem(gamma=gamma, n_components=100).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-6)
    F = RBFSampler(gamma=gamma, n_components=4_000, random_state=0).fit_transform(X)
    assert np.abs(F @ F.T - K).max() < 0.1  # about 6 sd of 1/√4000


def test_random_states_of_every_kind():
    generator = np.random.default_rng(0)
    assert [as_rng(state) for state in (None, 3, generator)] == [None, 3, generator]
    one, same = np.random.RandomState(0), np.random.RandomState(0)
    first, second = as_rng(one), as_rng(one)
    assert isinstance(first, int)
    assert first == as_rng(same) != second


def test_the_seed_is_fixed_unless_given():
    assert [make().random_state for make in (KernelLearner, MeanEmbedding, DriftDetector)] == [0, 0, None]


def test_a_grid_search_chooses_the_kernel_without_labels(rng):
    """Two clumps in one column, noise in the other: two lengthscales describe new rows better than one."""
    X = np.column_stack([rng.choice([-4.0, 4.0], 200) + 0.2 * rng.normal(size=200), rng.normal(size=200)])
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(KernelLearner(), {"kernel": ["isotropic", "ard"]}, cv=folds, refit=False)
    assert search.fit(X).best_params_ == {"kernel": "ard"}


# MeanEmbedding


@pytest.fixture(scope="module")
def bags():
    """Bags that differ in spread and size; their means say nothing about it."""
    rng = np.random.default_rng(1)
    spread = rng.uniform(0.5, 2.0, size=60)
    return [rng.normal(scale=s, size=(rng.integers(15, 40), 2)) for s in spread], spread


def at_landmarks(embedding, Z):
    """The values at the landmarks that coordinates stand for."""
    return Z @ embedding._axes.T @ embedding.kernel_.gram(embedding.landmarks_)


def test_inner_products_are_those_of_the_rkhs(bags):
    """With hardly any noise the posterior mean is the empirical one; a bag's far rows no landmark sees."""
    embedding = MeanEmbedding(Gaussian(1.5), noise=1e-9).fit(bags[0])
    Z = embedding.transform(bags[0][:5])
    exact = [kembed.empirical(bag, Gaussian(1.5)) for bag in bags[0][:5]]
    inner = np.array([[a.inner(b) for b in exact] for a in exact])
    np.testing.assert_allclose(Z @ Z.T, inner, rtol=0.01)
    assert Z.shape[1] == len(embedding.get_feature_names_out()) < len(embedding.landmarks_)


def test_embeddings_are_those_of_the_library(bags):
    embedding = MeanEmbedding(Gaussian(1.5), noise=0.3, landmarks=20).fit(bags[0])
    mean, sd = embedding.transform_with_sd(bags[0][:3])
    np.testing.assert_array_equal(mean, embedding.transform(bags[0][:3]))
    z, nu = embedding.landmarks_, kembed.GaussianMeasure.of(np.concatenate(bags[0]))
    for i, x in enumerate(bags[0][:3]):
        expected = kembed.fit_embedding(x, Gaussian(1.5), noise=0.3, landmarks=z, measure=nu)
        np.testing.assert_allclose(at_landmarks(embedding, mean[i]), expected.mean(z), atol=1e-6)
        axes = embedding._axes
        variance = np.diagonal(axes.T @ expected.covariance(z) @ axes)
        np.testing.assert_allclose(sd[i] ** 2, variance, atol=1e-7)
        assert (sd[i][:5] ** 2 > 1e-5).all()  # so that the line above says something


def test_pooled_noise_is_the_covariance_within_bags(bags):
    """By hand, with three landmarks far apart and the kernel matrix between all of them."""
    z = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, -2.0]])
    embedding = MeanEmbedding(Gaussian(1.5), landmarks=z).fit(bags[0])
    total, freedom = np.zeros((3, 3)), 0
    for x in bags[0]:
        mean = np.mean([Gaussian(1.5).gram(row[None], z)[0] for row in x], axis=0)
        for row in x:
            off = Gaussian(1.5).gram(row[None], z)[0] - mean
            total += np.outer(off, off)
        freedom += len(x) - 1
    R = Gaussian(1.5).convolved(kembed.GaussianMeasure.of(np.concatenate(bags[0]))).gram(z)
    x = bags[0][7]
    expected = R @ np.linalg.solve(R + total / freedom / len(x), Gaussian(1.5).gram(z, x).mean(axis=1))
    np.testing.assert_allclose(at_landmarks(embedding, embedding.transform([x]))[0], expected, atol=1e-12)


def test_more_rows_make_surer(bags):
    embedding = MeanEmbedding("median").fit(bags[0])
    _, sd = embedding.transform_with_sd([bags[0][0][:3], np.concatenate([bags[0][0]] * 20)])
    assert (sd[1] <= sd[0]).all()
    assert sd[1, 0] < 0.3 * sd[0, 0]


def test_distribution_regression(bags):
    X, y = bags
    ridge = RidgeCV(np.logspace(-4, 2, 13))
    folds = KFold(3, shuffle=True, random_state=0)
    means = FunctionTransformer(lambda bags: np.array([bag.mean(axis=0) for bag in bags]))
    alone = cross_val_score(make_pipeline(means, ridge), X, y, cv=folds)
    embedded = cross_val_score(make_pipeline(MeanEmbedding("median"), ridge), X, y, cv=folds)
    assert alone.max() < 0.3
    assert embedded.mean() > 0.7
    search = GridSearchCV(
        make_pipeline(MeanEmbedding(), ridge), {"meanembedding__kernel": ["median", Gaussian(50.0)]}, cv=folds
    )
    assert search.fit(X, y).best_params_["meanembedding__kernel"] == "median"


def test_learned_kernel_by_default(bags):
    some = bags[0][:8]
    embedding = MeanEmbedding().fit(some)
    model = embedding.learned_.model
    assert embedding.learned_.unit == "spreads of the columns"
    assert model.n == sum(map(len, some))
    pooled = np.concatenate(some)
    spread = 1.4826 * np.median(np.abs(pooled - np.median(pooled, axis=0)), axis=0)
    np.testing.assert_allclose(embedding.kernel_.lengthscale, model.kernel.lengthscale * spread)
    again = pickle.loads(pickle.dumps(embedding)).transform(some)
    np.testing.assert_array_equal(again, embedding.transform(some))


@pytest.mark.parametrize("word", ["median", "median-raw"])
def test_words_mean_what_they_mean_in_a_test(bags, word):
    """With columns of scale 1 and 100 the raw rule sees the second alone."""
    wide = [bag * [1.0, 100.0] for bag in bags[0]]
    kernel = MeanEmbedding(word).fit(wide).kernel_
    pooled = np.concatenate(wide)
    assert kernel == kembed.mmd_test(pooled[::2], pooled[1::2], kernel=word, n_resamples=1).kernel
    assert MeanEmbedding([kernel]).fit(wide).kernel_ == kernel
    if word == "median":
        raw = MeanEmbedding("median-raw").fit(wide).kernel_.lengthscale
        assert kernel.lengthscale[0] < 0.05 * raw < 0.9 * kernel.lengthscale[1]


def test_bags_come_in_many_shapes(bags):
    same = [bag[:15] for bag in bags[0]]
    objects = np.empty(len(same), dtype=object)
    objects[:] = same
    expected = MeanEmbedding("median").fit_transform(same)
    frames = [pl.DataFrame(bag, schema=["a", "b"]) for bag in same]
    for X in (tuple(same), np.stack(same), objects, [bag.tolist() for bag in same], frames):
        np.testing.assert_array_equal(MeanEmbedding("median").fit_transform(X), expected)
    with pytest.raises(ValueError, match=r"(?s)bag 0 \(X\[0\]\): .*order"):
        MeanEmbedding("median").fit(frames).transform([frame.select("b", "a") for frame in frames])


def test_a_table_is_one_point_a_bag(bags):
    X = np.concatenate(bags[0])[:80]
    embedding = MeanEmbedding("median").fit(X)
    np.testing.assert_allclose(embedding.transform(X), embedding.transform([row[None] for row in X]))
    with pytest.raises(ValueError, match="noise must be one of 'pooled'"):
        MeanEmbedding("median", noise="full").fit(X)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: [X[0], X[1] * np.nan], r"bag 1 \(X\[1\]\): .*NaN"),
        (lambda X: [X[0], X[1][:, :1]], r"bag 1 \(X\[1\]\): X has 1 features"),
        (lambda X: [X[0], X[1][:0]], r"bag 1 \(X\[1\]\): Found array with 0 sample"),
        (lambda X: [X[0], X[1][:, 0]], r"X\[1\] has 1 dimension.*reshape\(-1, 1\)"),
        (lambda X: [X[0][:, 0], X[1][:, 0]], r"list of vectors.*reshape\(-1, 1\)"),
        (lambda X: X[0][:1], "minimum of 2"),
        (lambda X: [X[0][:1]], "at least 2 are needed"),
    ],
)
def test_a_bad_bag_is_named(bags, spoil, message):
    with pytest.raises(ValueError, match=message):
        MeanEmbedding("median").fit(spoil(bags[0]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"kernel": "fused"},
            ValueError,
            "kernel must be one of 'bkl', 'ard', 'paper', 'median', 'median-raw'",
        ),
        ({"kernel": lambda a, b: 1.0}, TypeError, "kernel"),
        ({"kernel": 2.0}, TypeError, r"write kembed.Gaussian\(2.0\)"),
        ({"noise": "none"}, ValueError, "noise must be one of 'pooled'"),
        ({"noise": -1.0}, ValueError, "noise must be positive"),
    ],
)
def test_bad_parameters_of_embeddings_are_named(bags, options, error, message):
    with pytest.raises(error, match=message):
        MeanEmbedding(**{"kernel": "median", **options}).fit(bags[0])


# DriftDetector


@pytest.fixture
def reference(rng):
    return rng.normal(size=(80, 2))


def test_detector_says_what_the_test_says(rng, reference):
    detector = DriftDetector(random_state=5).fit(reference)
    for batch in (rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) * 2.0):
        outcome = kembed.mmd_test(reference, batch, rng=5)
        assert detector.pvalue(batch) == detector.test(batch).pvalue == outcome.pvalue
        assert detector.predict(batch) is (outcome.pvalue <= 0.05)
    assert detector.predict(batch) is True
    assert detector.set_params(alpha=0.0005).predict(batch) is False  # below 1/1000, which a test can reach


def test_options_reach_the_test(rng, reference):
    batch = rng.normal([0.0, 1.0], size=(40, 2))
    detector = DriftDetector(kernel="median", n_resamples=199, random_state=0).fit(reference)
    outcome = detector.test(batch, by_column=True)
    assert len(outcome.null_distribution) == 199
    assert [column.adjusted_pvalue <= 0.05 for column in outcome.columns] == [False, True]
    assert outcome.members[0].kernel == kembed.mmd_test(reference, batch, kernel="median", rng=0).kernel


def test_order_of_rows_in_a_batch_does_not_matter(rng, reference):
    batch = rng.normal(size=(40, 2)) + 0.2
    detector = DriftDetector(random_state=0).fit(reference)
    assert detector.pvalue(batch) == detector.pvalue(batch[::-1])
    with pytest.raises(ValueError, match="minimum of 2"):
        detector.predict(batch[:1])


def test_the_reference_is_kept(rng, reference):
    frame = pd.DataFrame(reference.copy(), columns=["a", "b"])  # pandas 2 shares the array
    batch = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    for X, Y in ((reference, batch.to_numpy()), (frame, batch)):
        detector = DriftDetector(random_state=0).fit(X)
        before = detector.pvalue(Y)
        X += 10.0
        assert detector.pvalue(Y) == before > 0.05


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_columns(rng, frame):
    def sample(words):
        return frame({"size": rng.normal(size=60), "kind": rng.choice(words, 60)})

    detector = DriftDetector(random_state=0).fit(sample(["a", "b"]))
    assert list(detector.feature_names_in_) == ["size", "kind"]
    assert detector.predict(sample(["a", "b"])) is False
    assert detector.predict(sample(["b", "c"])) is True
    with pytest.raises(ValueError, match="feature names should match"):
        detector.predict(sample(["a", "b"]).rename(**renaming(frame)))


def renaming(frame):
    return {"columns": {"kind": "sort"}} if frame is pd.DataFrame else {"mapping": {"kind": "sort"}}


def test_text_in_nested_lists(rng):
    def sample(words):
        return [[float(rng.normal()), str(word)] for word in rng.choice(words, 30)]

    detector = DriftDetector(random_state=0).fit(sample(["a", "b"]))
    assert detector.n_features_in_ == 2
    assert detector.predict(sample(["c"])) is True


def test_missing_values(rng, reference):
    holes = reference.copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        DriftDetector().fit(holes)
    with pytest.raises(ValueError, match="missing values"):
        DriftDetector().fit(pd.DataFrame(holes))
    batch = rng.normal(size=(40, 2))
    omitted = DriftDetector(nan_policy="omit", random_state=0).fit(holes)
    assert omitted.pvalue(batch) == DriftDetector(random_state=0).fit(reference[1:]).pvalue(batch)
    with pytest.raises(ValueError, match="nan_policy must be one of 'raise', 'omit'"):
        DriftDetector(nan_policy="propagate").fit(reference)
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        DriftDetector(alpha=5).fit(reference)


def test_in_a_pipeline_and_as_a_copy(rng, reference):
    pipeline = make_pipeline(StandardScaler(), DriftDetector(random_state=0)).fit(reference)
    assert pipeline.predict(rng.normal(size=(40, 2))) is False
    assert pickle.loads(pickle.dumps(pipeline)).predict(rng.normal(size=(40, 2)) + 1.0) is True
    with pytest.raises(NotFittedError):
        clone(pipeline[-1]).predict(reference)


def test_the_witness_points_to_the_drift(rng, reference):
    detector = DriftDetector().fit(reference)
    batch = rng.normal([3.0, 0.0], size=(40, 2))
    witness = detector.witness(batch, kernel="median")
    assert witness.seed != detector.witness(batch, kernel="median").seed  # None is fresh entropy
    assert (
        detector.witness(batch, kernel="median", rng=0).seed
        == kembed.witness(batch, batch, kernel="median").seed
    )
    mean = witness.at([[0.0, 0.0], [3.0, 0.0]]).mean
    assert mean[0] > 0.0 > mean[1]


def test_the_comparison_is_that_of_the_library(rng, reference):
    detector = DriftDetector(kernel="median", alpha=0.01, n_resamples=99, random_state=0).fit(reference)
    batch = rng.normal([3.0, 0.0], size=(40, 2))
    comparison = detector.compare(batch)
    assert comparison.labels == ("reference", "batch")
    assert comparison.alpha == 0.01
    assert len(comparison.test.null_distribution) == 99
    assert comparison.test.kernel == detector.test(batch).kernel


@pytest.mark.parametrize(
    "nothing", [slice(3), (row for row in [[1.0]]), None, object()], ids=lambda one: type(one).__name__
)
def test_what_is_no_table_at_all(nothing):
    for estimator in (DriftDetector(), KernelLearner(), MeanEmbedding()):
        with pytest.raises(TypeError, match=r"X must be an array or a data frame, but .* was given"):
            estimator.fit(nothing)


def test_ragged_rows():
    for estimator in (DriftDetector(), KernelLearner()):
        with pytest.raises(
            ValueError, match=r"X is not a rectangular table .*give every row the same number"
        ):
            estimator.fit([[1.0, 2.0], [3.0]])

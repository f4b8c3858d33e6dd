"""Bad input: each kind gets a message that names the argument, what was seen and the remedy."""

import datetime

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import kembed
from kembed import Gaussian

K = Gaussian(1.0)
GOOD = np.random.default_rng(0).normal(size=(20, 2))

# Every function that takes a table, called so that the table is the only thing that can be wrong.
DOORS = {
    "empirical": lambda x: kembed.empirical(x, K),
    "shrinkage": lambda x: kembed.shrinkage(x, K),
    "fit_embedding": lambda x: kembed.fit_embedding(x, K),
    "median_lengthscale": lambda x: kembed.median_lengthscale(x),
    "choose_landmarks": lambda x: kembed.choose_landmarks(x),
    "log_pseudolikelihood": lambda x: kembed.log_pseudolikelihood(x, kernel=K, noise=1.0, landmarks=GOOD[:5]),
}
# 20 rows, 2 columns, one thing wrong.
NAN, INF = GOOD.copy(), GOOD.copy()
NAN[3, 1], INF[4, 0] = np.nan, -np.inf
BAD = {
    "none": (None, TypeError, "x is None; give an array"),
    "empty": (np.empty((0, 2)), ValueError, "x has 0 rows; at least"),
    "no columns": (np.empty((20, 0)), ValueError, "x has no columns"),
    "text": ([["a", "b"]] * 20, TypeError, "x must hold numbers, but it holds text; drop or encode"),
    "mixed": (np.array([[1.0, "a"]] * 20, dtype=object), TypeError, "x must hold numbers"),
    "dates": (np.array(["2020-01-01"] * 20, dtype="datetime64[D]"), TypeError, "it holds dates"),
    "complex": (GOOD + 1j, TypeError, "complex numbers"),
    "nan": (
        NAN,
        ValueError,
        r"x has missing values \(NaN\) in 1 of 20 rows \(first: row 3\); drop or impute",
    ),
    "infinite": (INF, ValueError, r"x has infinite values in 1 of 20 rows \(first: row 4\)"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "x is not a rectangular table"),
    "three axes": (np.zeros((4, 2, 2)), ValueError, r"its shape is \(4, 2, 2\); reshape it"),
    "beyond floats": ([[10**400, 1]] * 20, ValueError, r"x has a number beyond all floats \(row 0\); divide"),
    "no one type": (
        pl.DataFrame({"a": [True] * 20, "b": [datetime.date(2020, 1, 1)] * 20}),
        TypeError,
        "x cannot be read as an array of one type .*; drop or encode",
    ),
    "rows with masks": (list(np.ma.masked_less(GOOD, -1.0)), ValueError, r"x has missing values \(NaN\)"),
    "masked": (np.ma.masked_less(GOOD, -1.0), ValueError, r"x has missing values \(NaN\)"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", BAD)
def test_bad_tables(door, case):
    table, error, message = BAD[case]
    with pytest.raises(error, match=message):
        DOORS[door](table)


# What does not depend on the unit of the columns, if kernel and measure are in that unit too.
UNITLESS = {
    "empirical": lambda x, unit: kembed.empirical(x, Gaussian(unit)).norm(),
    "shrinkage": lambda x, unit: kembed.shrinkage(x, Gaussian(unit)).norm(),
    "fit_embedding": lambda x, unit: kembed.fit_embedding(x, Gaussian(unit)).mean(x).sum(),
    "median_lengthscale": lambda x, unit: kembed.median_lengthscale(x) / unit,
    "choose_landmarks": lambda x, unit: (kembed.choose_landmarks(x) / unit).sum(),
    # a density in x: changing the units by c adds n D log(1/c), and r's prefactor is unit-free here
    "log_pseudolikelihood": lambda x, unit: (
        kembed.log_pseudolikelihood(
            x,
            kernel=Gaussian(unit),
            noise=1.0,
            landmarks=x[:5],
            measure=kembed.GaussianMeasure(0.0, unit**2),
        )
        + 40 * np.log(unit)
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_extreme_scales_work(door, scale):
    assert UNITLESS[door](GOOD * scale, scale) == pytest.approx(UNITLESS[door](GOOD, 1.0), rel=1e-9)


def test_one_row():
    assert kembed.empirical([[1.0, 2.0]], K).mean([[1.0, 2.0]]) == pytest.approx([1.0])
    assert kembed.fit_embedding([[1.0, 2.0]], K, noise=1.0).n == 1
    with pytest.raises(ValueError, match="needs at least 2 rows of x, but it has 1; give noise as a number"):
        kembed.fit_embedding([[1.0, 2.0]], K)
    with pytest.raises(ValueError, match="x has 1 row; at least 2 are needed: give more rows"):
        kembed.median_lengthscale([[1.0, 2.0]])
    with pytest.raises(ValueError, match="x has 1 row; at least 3 are needed"):
        kembed.shrinkage([[1.0, 2.0]], K)


def test_constant_and_duplicate_columns():
    constant = np.column_stack([GOOD, np.ones(20)])
    duplicate = np.column_stack([GOOD, GOOD[:, 0]])
    for x in (constant, duplicate):
        assert np.isfinite(kembed.fit_embedding(x, K).sd(x)).all()
        assert kembed.shrinkage(x, K).norm() > 0.0
    with pytest.raises(ValueError, match=r"column 2 of x is constant.*drop constant columns"):
        kembed.log_pseudolikelihood(constant, kernel=K, noise=1.0, landmarks=constant[:6])
    with pytest.raises(ValueError, match=r"linearly dependent.*drop the redundant columns"):
        kembed.log_pseudolikelihood(duplicate, kernel=K, noise=1.0, landmarks=duplicate[:6])


def test_fewer_rows_than_columns():
    x = np.random.default_rng(1).normal(size=(4, 9))
    assert np.isfinite(kembed.fit_embedding(x, Gaussian(3.0)).interval(x)[0]).all()
    with pytest.raises(ValueError, match="landmarks has 4 rows but the data have 9 columns"):
        kembed.log_pseudolikelihood(x, kernel=K, noise=1.0, landmarks=x)


def test_mismatched_widths():
    with pytest.raises(ValueError, match="points has 3 columns where 2 were expected"):
        kembed.fit_embedding(GOOD, K).mean(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="landmarks has 1 column where 2 were expected"):
        kembed.fit_embedding(GOOD, K, landmarks=np.zeros((4, 1)))
    with pytest.raises(ValueError, match="x has 2 columns where 3 were expected"):
        kembed.log_pseudolikelihood(GOOD, kernel=K, noise=1.0, landmarks=np.eye(3))
    with pytest.raises(ValueError, match="Y has 1 column where 2 were expected"):
        K.gram(GOOD, np.zeros(4))
    with pytest.raises(ValueError, match="the kernel has 3 lengthscales but the data have 2 columns"):
        Gaussian([1.0, 2.0, 3.0]).gram(GOOD)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0.0), "lengthscale must be positive and finite, but 0 was given"),
        (lambda: Gaussian(-1.0), "but -1 was given"),
        (lambda: Gaussian(np.nan), "but nan was given"),
        (lambda: Gaussian([1.0, np.inf]), "but inf was given"),
        (lambda: Gaussian([]), "lengthscale is empty"),
        (lambda: Gaussian(np.eye(2)), "lengthscale must be a number or a vector"),
        (lambda: Gaussian(covariance=[[1.0, 2.0], [2.0, 1.0]]), "covariance is not positive definite"),
        (lambda: Gaussian(covariance=[[1.0, 0.5], [0.4, 1.0]]), "covariance is not symmetric"),
        (lambda: Gaussian(covariance=[1.0, 2.0]), "covariance must be a square matrix"),
        (lambda: kembed.RationalQuadratic(1.0, alpha=0.0), "alpha must be positive"),
        (lambda: kembed.MultiScale([1.0, 2.0], [1.0]), "give one weight for each lengthscale"),
        (lambda: -1.0 * K, "variance must be positive"),
        (lambda: K([[0.0], [1.0]], [0.0]), "x must be one point.*use gram"),
        (lambda: Gaussian(covariance=jnp.array([[1.0, 2.0], [2.0, 1.0]])), "not positive definite"),
        (lambda: kembed.GaussianMeasure(0.0, jnp.array([[1.0, 2.0], [2.0, 1.0]])), "negative eigenvalue"),
        (
            lambda: kembed.log_pseudolikelihood(
                GOOD, kernel=kembed.RationalQuadratic(1.0, 0.2), noise=1.0, landmarks=GOOD
            ),
            "alpha=0.2 is too heavy-tailed for Lebesgue measure",
        ),
        (
            lambda: kembed.fit_embedding(GOOD, K, prior_mean=kembed.empirical(GOOD, Gaussian(3.0))).norm(),
            "functions of different spaces",
        ),
        (lambda: kembed.Sum(), "Sum needs at least one kernel"),
        (lambda: kembed.GaussianMeasure(0.0, -1.0), "covariance must be positive"),
        (lambda: kembed.GaussianMeasure(0.0, [[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalue"),
        (lambda: kembed.GaussianMeasure(np.nan, 1.0), "centre must be finite"),
        (lambda: kembed.GaussianMeasure(mass=0.0), "mass must be positive"),
        (lambda: kembed.fit_embedding(GOOD, K, noise=0.0), "noise must be positive"),
        (lambda: kembed.fit_embedding(GOOD, K, noise=[1.0, 2.0]), r"noise must have shape \(20,\)"),
        (lambda: kembed.fit_embedding(GOOD, K, noise="clt"), "noise must be one of 'full', 'diagonal'"),
        (lambda: kembed.fit_embedding(GOOD, K, landmarks=0), "landmarks must be at least 1"),
        (lambda: kembed.fit_embedding(GOOD, K).interval(GOOD, 90), "strictly between 0 and 1.*0.9 for 90%"),
        (lambda: kembed.fit_embedding(GOOD, K).sample(GOOD, 0), "size must be at least 1"),
        (lambda: kembed.shrinkage(GOOD, K, lam=-1.0), "lam must not be negative"),
        (lambda: kembed.median_lengthscale(np.ones((9, 2))), "all rows of x are equal"),
        (lambda: kembed.median_lengthscale(GOOD, "mean"), "convention must be one of 'half', 'full'"),
        (lambda: kembed.empirical(GOOD, K).inner(kembed.empirical(GOOD, Gaussian(2.0))), "different kernels"),
    ],
)
def test_bad_values(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kembed.empirical(GOOD, 1.0), r"write kembed.Gaussian\(1.0\)"),
        (lambda: kembed.empirical(GOOD, Gaussian), r"write kembed.Gaussian\(...\)"),
        (
            lambda: kembed.fit_embedding(GOOD, "median"),
            "kernel must be a kernel object, but 'median' was given",
        ),
        (lambda: kembed.Scaled("rbf", 1.0), "kernel must be a kernel object"),
        (lambda: K.convolved("lebesgue"), "measure must be Lebesgue"),
        (lambda: kembed.fit_embedding(GOOD, K).sample(GOOD, rng="seed"), "rng must be None"),
        (lambda: kembed.fit_embedding(GOOD, K).sample(GOOD, rng=-1), "rng must be None"),
        (lambda: kembed.fit_embedding(GOOD, K, prior_mean=3.0), "prior_mean must be a function"),
        (lambda: kembed.fit_embedding(GOOD, K, landmarks=True), "landmarks must be a whole number"),
        (lambda: kembed.empirical(GOOD, K).inner(3.0), "other must be an embedding"),
        (lambda: kembed.empirical(GOOD, K) - 5, "unsupported operand"),
        (lambda: kembed.fit_embedding(GOOD, K).interval(GOOD, "a"), "level must be a number, but 'a'"),
        (lambda: kembed.shrinkage(GOOD, K, lam="a"), "lam must be a number"),
        (lambda: K("a", "b"), "x must hold numbers, but it holds text"),
        (lambda: kembed.GaussianMeasure(centre="a"), "centre must hold numbers"),
        (
            lambda: kembed.fit_embedding(GOOD, K, landmarks=50.0),
            "landmarks must be a whole number, a rule or points",
        ),
        (
            lambda: kembed.log_pseudolikelihood(GOOD, kernel=K, noise=1.0, landmarks=20),
            "landmarks must be a table of points, but the number 20 was given",
        ),
        (lambda: kembed.empirical(np.array([[1.0, "2"]], dtype=object), K), "column 1 of x holds '2'"),
        (lambda: kembed.empirical(np.array([[1.0, None]], dtype=object), K), "holds a missing value.*impute"),
        (lambda: kembed.empirical(jnp.array([1 + 1j]), K), "values of type complex"),
        (lambda: jax.jit(lambda ell: kembed.empirical(GOOD, Gaussian(ell)).weights)(1.0), "cannot be traced"),
    ],
)
def test_bad_types(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_integers_booleans_and_lists_are_numbers():
    expected = kembed.empirical(np.array([[0.0], [1.0], [1.0]]), K).mean([[0.0]])
    for x in ([0, 1, 1], [False, True, True], np.array([0, 1, 1], dtype=np.int8), [[0], [1], [1]]):
        assert kembed.empirical(x, K).mean([[0.0]]) == pytest.approx(expected, rel=1e-15)


def test_a_plain_prior_mean_has_no_inner_product():
    e = kembed.fit_embedding(GOOD, K, prior_mean=lambda s: np.zeros(len(s)))
    with pytest.raises(ValueError, match="give prior_mean as an embedding"):
        e.norm()


def test_jax_hyperparameters_and_tables_in_numpy_functions():
    """Concrete JAX values are taken for their numbers, in double precision whatever JAX's own."""
    expected = kembed.fit_embedding(GOOD, K).mean(GOOD)
    for kernel in (Gaussian(jnp.float32(1.0)), Gaussian(jnp.array(1)), Gaussian(covariance=jnp.eye(2))):
        assert kembed.fit_embedding(GOOD, kernel).mean(GOOD) == pytest.approx(expected, rel=1e-6)
    assert kembed.empirical(jnp.array([[100_000], [0]]), Gaussian(1e5)).mean([[0.0]]) == pytest.approx(
        [0.5 + 0.5 * np.exp(-0.5)], rel=1e-6
    )


def test_results_do_not_follow_the_callers_arrays():
    x, ell = GOOD.copy(), np.array([1.0, 2.0])
    kernel = Gaussian(ell)
    embedding = kembed.empirical(x, kernel)
    before = embedding.mean(GOOD)
    x *= 5.0
    ell[0] = 9.0
    np.testing.assert_array_equal(embedding.mean(GOOD), before)


def test_one_outlier_does_not_make_columns_dependent():
    x = np.concatenate([GOOD[1:], [[1e12, 1e12]]])
    assert np.isfinite(kembed.log_pseudolikelihood(x, kernel=K, noise=1.0, landmarks=GOOD[:5]))


def test_one_outlier_leaves_the_median_alone():
    assert kembed.median_lengthscale([0.0, 1.0, 2.0, 3.0, 4.0, 1e200]) == 3.0

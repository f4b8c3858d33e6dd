"""The witness: against loops, by its laws, on numbers worked by hand, and its bands against the truth."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests import reference

import kembed
from kembed import EmpiricalMeasure, Gaussian, witness
from kembed.comparing.bands import balanced_rows
from kembed.comparing.regions import NEAREST, neighbours
from kembed.learning.kernel_samples import KernelSamples

K = Gaussian(0.8)
POINTS = np.linspace(-2.0, 3.0, 7)


@pytest.fixture
def pair(rng):
    return rng.normal(size=(40, 1)), rng.normal(1.0, 0.7, size=(30, 1))


@pytest.fixture
def plane(rng):
    x, y = rng.normal(size=(120, 2)), rng.normal(size=(100, 2))
    y[:, 1] += 1.5
    return x, y


# Point masses as ν.


def test_r_under_point_masses_is_a_sum(rng):
    U, X, Y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    weights = rng.uniform(0.1, 1.0, 5)
    r = kembed.Matern32(0.7).convolved(EmpiricalMeasure(U, weights))
    slow = reference.convolved_points(reference.matern(0.7, 1.5), U, weights)
    np.testing.assert_allclose(r.gram(X, Y), reference.gram(slow, X, Y), rtol=1e-12)
    np.testing.assert_allclose(r.diagonal(X), np.diagonal(reference.gram(slow, X, X)), rtol=1e-12)


def test_many_point_masses_tend_to_the_gaussian_measure(rng):
    U = rng.normal(size=(20_000, 1))
    r, exact = (
        K.convolved(nu).gram([[0.0], [1.0]]) for nu in (EmpiricalMeasure(U), kembed.GaussianMeasure())
    )
    np.testing.assert_allclose(r, exact, rtol=0.03)  # 4 standard errors of a mean of 20,000


@pytest.mark.parametrize("other", ["points", "gaussian"])
def test_inner_products_under_point_masses(rng, other):
    x, U = rng.normal(size=(6, 1)), rng.normal(size=(4, 1))
    nu = EmpiricalMeasure(U)
    second = nu if other == "points" else kembed.GaussianMeasure(0.3, 2.0)
    a = kembed.fit_embedding(x, K, measure=nu, landmarks=x[:2])
    b = kembed.fit_embedding(x + 1.0, K, measure=second, landmarks=x[2:4])
    k = reference.gaussian(0.64)
    r = reference.convolved_points(k, U, np.full(4, 0.25))
    # ⟨r_ν(·, z), f⟩ = Σ_u w_u k(z, u) f(u) for f = r_ν'(·, z')
    right = reference.convolved_points(k, U, np.full(4, 0.25)) if other == "points" else second
    slow = 0.0
    for z, alpha in zip(a.landmarks, a.coefficients, strict=True):
        for v, beta in zip(b.landmarks, b.coefficients, strict=True):
            for u in U:
                f = right(u, v) if other == "points" else float(K.convolved(second)(u, v))
                slow += alpha * beta * 0.25 * k(z, u) * f
    assert a.inner(b) == pytest.approx(slow, rel=1e-9)
    assert b.inner(a) == pytest.approx(slow, rel=1e-9)
    assert a.mean(POINTS)[0] == pytest.approx(
        sum(c * r(np.array([POINTS[0]]), z) for c, z in zip(a.coefficients, a.landmarks, strict=True)),
        rel=1e-9,
    )


def test_point_masses_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match=r"points have 1 columns but the data have 2"):
        K.convolved(EmpiricalMeasure([[0.0]])).gram(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="weights"):
        EmpiricalMeasure([[0.0], [1.0]], [1.0])
    with pytest.raises(ValueError, match="weights"):
        EmpiricalMeasure([[0.0], [1.0]], [1.0, -1.0])
    assert repr(EmpiricalMeasure([[0.0], [1.0]])) == "EmpiricalMeasure(2 points in 1 dimensions)"


# The posterior.


def test_against_loops(pair):
    x, y = pair
    z = np.array([[-1.0], [0.0], [0.7], [1.5]])
    w = witness(x, y, kernel=K, landmarks=z)
    k = reference.gaussian(0.64)
    weights = np.r_[np.full(40, 0.5 / 40), np.full(30, 0.5 / 30)]  # half of either sample
    r = reference.convolved_points(k, np.concatenate([x, y]), weights)
    mean, covariance = reference.witness(k, r, x, y, z, POINTS[:, None], np.concatenate([x, y]))
    bands = w.at(POINTS)
    np.testing.assert_allclose(bands.mean, mean, atol=1e-10)
    np.testing.assert_allclose(bands.sd, np.sqrt(np.diagonal(covariance)), rtol=1e-6)


def test_worked_by_hand():
    # Three times a against twice b, z = (a, b), k = 1 if equal else 0: r = I/2, and four pseudo-rows of
    # variance C = ((1, -1), (-1, 1))/4 make A = I/2 + 4C/n². Its eigenvalues are 1/2 along (1, 1) and
    # 1/2 + 2/n² along (1, -1), so that μ_x = (1 + s, 1 - s)/2, s = 1/(1 + 4/n²): 9/13 for n = 3, 1/2 for 2.
    w = witness(["a", "a", "a"], ["b", "b"], kernel=kembed.Delta())
    bands = w.at(["a", "b"])
    np.testing.assert_allclose(bands.mean, np.array([1.0, -1.0]) * (9 / 13 + 1 / 2) / 2, rtol=1e-12)
    # The posterior variance of either value is (1/2 - (1/2)² (1 / (1/2) + s / (1/2)) / 2) = (1 - s)/4.
    np.testing.assert_allclose(bands.sd**2, (1 - 9 / 13 + 1 - 1 / 2) / 4, rtol=1e-12)


@pytest.mark.parametrize("text", [True, False])
def test_a_level_not_seen_yet_is_possible(rng, text):
    """Under P = Q, 20 rows against 1,000 of a level with share .95: a third of the samples show it alone."""
    found = 0
    for _ in range(40):
        x, y = (rng.uniform(size=(n, 1)) > 0.95 for n in (20, 1_000))
        x, y = (np.where(part, "b", "a") if text else 1.0 * part for part in (x, y))
        found += bool(witness(x, y, kernel="median").where())
    assert found <= 9  # at 10%, ten or more are seen once in 200 runs; without pseudo-rows it was a third


def test_samples_exchanged_changes_the_sign_only(pair):
    x, y = pair
    one, other = witness(x, y, kernel=K), witness(y, x, kernel=K)
    np.testing.assert_allclose(one.at(POINTS).mean, -other.at(POINTS).mean, atol=2e-5)  # r is singular
    np.testing.assert_allclose(one.at(POINTS).sd, other.at(POINTS).sd, atol=2e-5)


@pytest.mark.parametrize("kernel", ["median", K])
def test_order_of_rows_does_not_matter(pair, kernel, rng):
    x, y = pair
    one = witness(x, y, kernel=kernel).at(POINTS)
    other = witness(rng.permutation(x), rng.permutation(y), kernel=kernel).at(POINTS)
    np.testing.assert_array_equal(one, other)


def same_bands(one, other):
    """Equal, but for the Monte Carlo error of c: rounding decides the signs of eigenvectors, so the draws."""
    np.testing.assert_allclose(one[:4], other[:4], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one[4:], other[4:], rtol=0.02)


@pytest.mark.parametrize("unit", [1e-12, 1e6, 1e12])
def test_units_cancel(plane, unit):
    x, y = plane
    one, other = witness(x, y, kernel="median"), witness(unit * x, unit * y, kernel="median")
    points = np.array([[0.0, 0.0], [1.0, 2.0]])
    same_bands(other.at(unit * points), one.at(points))
    assert [str(r)[:6] for r in other.where()] == [str(r)[:6] for r in one.where()]


def test_columns_in_different_units_count_alike(plane):
    x, y = plane
    odd = np.array([1e6, 1e-6])
    points = np.array([[0.0, 0.0], [1.0, 2.0]])
    one, other = witness(x, y, kernel="median"), witness(x * odd, y * odd, kernel="median")
    same_bands(other.at(points * odd), one.at(points))


def test_a_shift_of_both_shifts_the_witness(pair):
    x, y = pair
    moved = witness(x + 100.0, y + 100.0, kernel=K).at(POINTS + 100.0)
    np.testing.assert_allclose(moved.mean, witness(x, y, kernel=K).at(POINTS).mean, atol=2e-5)


def test_many_rows_give_the_truth(rng):
    x, y = rng.normal(size=(20_000, 1)), rng.normal(1.0, size=(20_000, 1))
    found = witness(x, y, kernel=Gaussian(1.0)).at(POINTS)
    # E exp(-(s-X)²/2) for X ~ N(m, 1) is exp(-(s-m)²/4)/√2
    true = (np.exp(-(POINTS**2) / 4.0) - np.exp(-((POINTS - 1.0) ** 2) / 4.0)) / np.sqrt(2.0)
    assert np.abs(found.mean - true).max() < 0.01  # 3 sd
    assert found.sd.max() < 0.004


# Bands.


def test_bands_are_ordered(pair):
    w = witness(*pair, kernel=K)
    narrow, wide = w.at(POINTS, level=0.5), w.at(POINTS, level=0.99)
    for bands in (narrow, wide):
        assert (bands.simultaneous_lower < bands.lower).all()
        assert (bands.upper < bands.simultaneous_upper).all()
        assert (bands.lower < bands.mean).all()
    assert (wide.upper > narrow.upper).all()
    assert w.critical(0.99) > w.critical() > w.critical(0.5)
    np.testing.assert_array_equal(w.at(POINTS), w.at(POINTS, level=0.9))


def test_pointwise_interval_is_students(pair):
    x, y = pair
    w = witness(x, y, kernel=K)
    from scipy.stats import t

    first, second = w.difference.pairs[0]
    v, u = first.sd([[0.0]])[0] ** 2, second.sd([[0.0]])[0] ** 2
    freedom = (v + u) ** 2 / (v**2 / 39 + u**2 / 29)
    bands = w.at([0.0])
    assert bands.upper[0] - bands.mean[0] == pytest.approx(t.ppf(0.95, freedom) * np.sqrt(v + u), rel=1e-9)


def test_draws_have_the_moments_of_the_posterior(pair):
    w = witness(*pair, kernel=K)
    bands, draws = w.at(POINTS), w.draws(POINTS, 20_000)
    assert np.abs(draws.mean(axis=0) - bands.mean).max() < 4 * bands.sd.max() / np.sqrt(20_000)
    # Student's t with 39 and 29 degrees of freedom: variances larger by 39/37 and 29/27.
    inflation = draws.std(axis=0) / bands.sd
    assert np.sqrt(39 / 37) - 0.03 < inflation.min()
    assert inflation.max() < np.sqrt(29 / 27) + 0.03


def test_simultaneous_coverage_of_the_posterior_draws(pair):
    w = witness(*pair, kernel=K)
    inside = w.draws(w.reference, 1_000, rng=5)
    bands = w.at(w.reference)
    everywhere = ((bands.simultaneous_lower <= inside) & (inside <= bands.simultaneous_upper)).all(axis=1)
    assert everywhere.mean() > 0.9 - 3 * 0.01  # three binomial standard errors; resampling may widen the band


def test_bands_hold_the_truth(rng):
    """Forty samples: at 90%, 30 or fewer are seen once in 200 runs."""
    held = 0
    for _ in range(40):
        x, y = rng.normal(size=(80, 1)), rng.normal(1.0, size=(80, 1))
        w = witness(x, y, kernel=Gaussian(1.0))
        s = np.linspace(min(x.min(), y.min()), max(x.max(), y.max()), 60)
        true = (np.exp(-(s**2) / 4.0) - np.exp(-((s - 1.0) ** 2) / 4.0)) / np.sqrt(2.0)
        bands = w.at(s)
        held += bool(((bands.simultaneous_lower <= true) & (true <= bands.simultaneous_upper)).all())
    assert 31 <= held <= 39  # a band that always holds would be too wide


# Where.


def test_intervals_are_where_the_band_excludes_zero(pair):
    x, y = pair
    w = witness(x, y, kernel=K)
    regions = w.where()
    assert {region.sign for region in regions} == {1, -1}
    s = np.linspace(min(x.min(), y.min()), max(x.max(), y.max()), 400)
    bands = w.at(s)
    for sign, outside in ((1, bands.simultaneous_lower > 0.0), (-1, bands.simultaneous_upper < 0.0)):
        spans = [region.box["column 0"] for region in regions if region.sign == sign]
        inside = np.any([(low < s) & (s < high) for low, high in spans], axis=0)
        edges = np.min([np.minimum(abs(s - low), abs(s - high)) for low, high in spans], axis=0)
        np.testing.assert_array_equal(inside[edges > 0.01], outside[edges > 0.01])
    for region in regions:
        low, high = region.box["column 0"]
        assert low <= region.peak["column 0"] <= high
        assert region.share_x == np.mean((low <= x) & (x <= high))
        assert region.share_y == np.mean((low <= y) & (y <= high))
        assert region.value == pytest.approx(w.at([region.peak["column 0"]]).mean[0])
        assert region.band[0] * region.band[1] > 0.0


def test_no_regions_between_equal_samples(rng):
    x = rng.normal(size=(60, 2))
    w = witness(x, x, kernel="median")
    assert w.where() == []
    np.testing.assert_allclose(w.at(x).mean, 0.0, atol=1e-12)


def test_heavy_tails_do_not_hide_the_middle(rng):
    x, y = rng.standard_cauchy(size=200), 1.5 + rng.standard_cauchy(size=200)
    ends = {region.sign: region.box["column 0"] for region in witness(x, y, kernel=Gaussian(1.0)).where()}
    assert -12.0 < ends[1][0] < 0.0 < ends[1][1] < 1.0
    assert 0.5 < ends[-1][0] < 2.0 < ends[-1][1] < 14.0


def test_groups_of_rows(rng):
    x = np.concatenate([rng.normal(0, 0.3, (100, 2)), rng.normal([6, 0], 0.3, (60, 2))])
    y = np.concatenate([rng.normal(0, 0.3, (100, 2)), rng.normal([0, 6], 0.3, (60, 2))])
    first, second = sorted(witness(x, y, kernel=Gaussian(1.0)).where(), key=lambda region: -region.sign)
    assert (first.sign, second.sign) == (1, -1)
    assert first.share_x == pytest.approx(60 / 160)
    assert first.share_y == 0.0
    assert 4.5 < first.box["column 0"][0] < first.box["column 0"][1] < 7.5
    assert -1.5 < first.box["column 1"][0] < first.box["column 1"][1] < 1.5
    assert str(first).startswith("more x: column 0 in [")  # the column that sets it apart comes first
    assert second.describe(("old", "new"), columns=1).startswith("more new: column 1 in [")
    assert "and 1 more column," in second.describe(columns=1)


def test_shares_are_counted_over_more_rows_than_are_grouped(rng):
    x, y = rng.normal(size=(3_000, 2)), rng.normal(size=(3_000, 2))
    y[:, 0] += 0.5
    for region in witness(x, y, kernel=Gaussian(2.0)).where():
        for share in (region.share_x, region.share_y):
            assert share * 3_000 == pytest.approx(round(share * 3_000), abs=1e-6)
        assert region.sign * (region.share_x - region.share_y) > 0.1


def test_lonely_points_are_joined_to_the_nearest(pair):
    w = witness(*pair, kernel=Gaussian(1e-1))
    points = np.arange(10.0)[:, None]
    like = w.difference.likeness(points, points)
    assert (like >= np.exp(-0.5)).sum() == 10  # each is like itself alone
    assert (neighbours(like).sum(axis=1) == NEAREST + 1).all()
    assert neighbours(like)[0, :2].all()


# Columns.


def test_sensitivity_against_loops(plane):
    x, y = plane
    w = witness(x[:30], y[:20], kernel="median")
    rows = balanced_rows(x[:30], y[:20], 1_000, w.seed)
    other = np.random.default_rng(w.seed).choice(50, 50, p=np.repeat([0.5 / 30, 0.5 / 20], [30, 20]))
    share = np.repeat([0.5 / 30, 0.5 / 20], [30, 20])
    slow = [
        reference.total_sobol(lambda s: w.difference.mean(s[None])[0], rows, other, d, share) for d in (0, 1)
    ]
    np.testing.assert_allclose(w.sensitivity, np.minimum(slow, 1.0), rtol=1e-8)


def test_the_column_that_differs_is_found(plane):
    w = witness(*plane, kernel="median")
    first, second = w.relevance
    assert first.name == "column 1"
    assert first.adjusted_pvalue == 0.001
    assert first.sensitivity > 0.8 > 0.2 > second.sensitivity
    assert second.pvalue > 0.05
    assert first.lengthscale is not None
    assert 0.5 < first.lengthscale < 5.0


def test_a_constant_column_is_irrelevant(plane):
    x, y = (np.column_stack([part, np.full(len(part), 7.0)]) for part in plane)
    w = witness(x, y, kernel="median")
    assert w.sensitivity[2] == 0.0
    assert w.column_tests[2].pvalue == 1.0
    np.testing.assert_allclose(
        w.at([[0.0, 0.0, 7.0]]).mean, witness(*plane, kernel="median").at([[0.0, 0.0]]).mean, atol=1e-9
    )


def test_a_column_by_itself(plane):
    x, y = plane
    alone = witness(x, y, kernel="median").column("column 1")
    direct = witness(x[:, 1], y[:, 1])
    assert alone.names == ("column 1",)
    np.testing.assert_allclose(alone.at(POINTS).mean, direct.at(POINTS).mean, atol=1e-9)
    assert alone.learned is not None
    with pytest.raises(
        ValueError, match="name must be one of 'column 0', 'column 1', or a place from 0, but 'column 7'"
    ):
        witness(x, y, kernel="median").column("column 7")


# Tables.


@pytest.fixture
def mixed(rng):
    def table(share, shift):
        return {"v": rng.normal(shift, size=150), "c": rng.choice(list("abc"), 150, p=share)}

    return table([0.2, 0.4, 0.4], 0.0), table([0.7, 0.2, 0.1], 0.0)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_text(mixed, frame):
    a, b = (frame(one) for one in mixed)
    w = witness(a, b, kernel="median")
    assert w.names == ("v", "c")
    assert w.categorical.tolist() == [False, True]
    bands = w.at(frame({"c": ["a", "c", "new"], "v": [0.0, 0.0, 0.0]}))
    assert bands.simultaneous_upper[0] < 0.0 < bands.simultaneous_lower[1]  # more y in a, more x in c
    assert abs(bands.mean[2]) < min(abs(bands.mean[:2]))  # a level nobody has seen
    assert w.relevance[0].name == "c"
    regions = w.where()
    assert {(region.sign, region.box["c"]) for region in regions} >= {(-1, ("a",))}
    assert "c is a" in str(next(region for region in regions if region.sign < 0))
    levels = w.column("c").at([["a"], ["b"], ["c"]]).mean
    assert levels[0] < 0.0 < levels[2]


def test_missing_rows_keep_their_places(pair):
    x, y = pair
    holes = np.concatenate([[[np.nan]], x[:20], [[np.nan]], x[20:]])
    w = witness(holes, y, kernel=K, nan_policy="omit")
    assert np.flatnonzero(np.isnan(w.values_x)).tolist() == [0, 21]
    np.testing.assert_allclose(w.values_x[1:21], witness(x, y, kernel=K).values_x[:20], atol=1e-9)
    assert w.sizes == (40, 30)
    np.testing.assert_allclose(w.values_y, w.at(y).mean, atol=1e-12)


# Several kernels.


class Fixed(KernelSamples):
    """Draws that are known."""

    def __init__(self, *kernels):
        object.__setattr__(self, "known", list(kernels))
        object.__setattr__(self, "learned", None)

    def kernels(self, size, rng=0):
        return [self.known[i % len(self.known)] for i in range(size)]


def test_hyperparameters_are_integrated_out(pair):
    x, y = pair
    first, second = (witness(x, y, kernel=Gaussian(ell)).at(POINTS) for ell in (0.5, 2.0))
    both = witness(x, y, kernel=Fixed(Gaussian(0.5), Gaussian(2.0)), n_kernels=4)
    bands = both.at(POINTS)
    mean = (first.mean + second.mean) / 2
    np.testing.assert_allclose(bands.mean, mean, atol=1e-12)
    within = (first.sd**2 + second.sd**2) / 2
    between = ((first.mean - mean) ** 2 + (second.mean - mean) ** 2) / 2
    np.testing.assert_allclose(bands.sd**2, within + between, rtol=1e-9)
    draws = both.draws(POINTS, 4_000)
    assert np.abs(draws.mean(axis=0) - mean).max() < 4 * bands.sd.max() / np.sqrt(4_000)
    assert "4 kernels drawn" in repr(both)
    assert both.where()


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([], [1.0, 2.0]), {}, ValueError, "x has 0 rows"),
        (([1.0], [1.0, 2.0]), {}, ValueError, "x has 1 row; at least 2"),
        (([1.0, np.nan], [1.0, 2.0]), {}, ValueError, "x has missing values.*nan_policy='omit'"),
        (([1.0, np.inf], [1.0, 2.0]), {}, ValueError, "x has infinite values"),
        ((np.zeros((3, 2)), np.zeros((3, 1))), {}, ValueError, "y has 1 column where x has 2"),
        (([1.0, 2.0], [1.0, 3.0]), {"kernel": "fused"}, ValueError, "a witness takes one kernel"),
        (([1.0, 2.0], [1.0, 3.0]), {"kernel": "mediam"}, ValueError, "'median'"),
        (([1.0, 2.0], [1.0, 3.0]), {"kernel": 2.0}, TypeError, r"kembed.Gaussian\(2.0\)"),
        (([1.0, 2.0], [1.0, 3.0]), {"kernel": lambda a, b: 1.0}, TypeError, "plain function"),
        (([1.0, 2.0], [1.0, 3.0]), {"level": 90}, ValueError, "level"),
        (([1.0, 2.0], [1.0, 3.0]), {"nan_policy": "propagate"}, ValueError, "nan_policy"),
        (([1.0, 2.0], [1.0, 3.0]), {"n_kernels": 0}, ValueError, "n_kernels"),
        ((["a", "b"], ["a", "a"]), {"kernel": Fixed(K)}, ValueError, "KernelSamples is for numeric"),
    ],
)
def test_refuses(arguments, options, error, message):
    with pytest.raises(error, match=message):
        witness(*arguments, **options)


def test_refuses_other_points(mixed, pair):
    w = witness(*pair, kernel=K)
    with pytest.raises(ValueError, match="points has 2 columns where the samples have 1"):
        w.at(np.zeros((3, 2)))
    with pytest.raises(TypeError, match="holds text where the samples hold numbers"):
        w.at(["a", "b"])
    with pytest.raises(TypeError, match="holds numbers where the samples hold categories"):
        witness(["a", "b"], ["a", "a"], kernel="median").at([0.0, 1.0])
    with pytest.raises(ValueError, match="points has missing values"):
        w.at([np.nan])
    with pytest.raises(ValueError, match="level"):
        w.at([0.0], level=1.5)
    framed = witness(*map(pd.DataFrame, mixed), kernel="median")
    with pytest.raises(ValueError, match="points must have the columns 'v', 'c', but has 'v', 'd'"):
        framed.at(pd.DataFrame({"v": [0.0], "d": ["a"]}))


@pytest.mark.parametrize("y", [[1.0, 1.0, 1.0], [2.0, 2.0]])
def test_constant_samples(y):
    w = witness([1.0, 1.0], y, kernel="median")
    assert np.isfinite(w.at([1.0, 1.5, 2.0])).all()
    assert w.at([1.0]).mean[0] >= 0.0
    assert (w.at([1.0]).mean[0] > 0.1) == (y[0] == 2.0)
    assert w.where() == []  # two rows prove nothing


def test_fewer_rows_than_columns(rng):
    x, y = rng.normal(size=(4, 12)), rng.normal(size=(5, 12)) + 3.0
    w = witness(x, y, kernel="median")
    assert (w.values_x > 0.0).all()
    assert (w.values_y < 0.0).all()
    assert [column.lengthscale for column in w.relevance] == [None] * 12


def test_too_few_rows_to_learn():
    with pytest.warns(UserWarning, match="4 rows are too few to learn a kernel"):
        w = witness([0.0, 1.0], [5.0, 6.0])
    assert w.at([0.5]).mean[0] > 0.0

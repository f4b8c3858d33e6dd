"""The density: components and their left-out values by loops, stacking, laws, hard rows, truth held out."""

import math

import numpy as np
import pytest

from kembed.core.ordering import sorted_rows
from kembed.learning import density as module
from kembed.learning.density import fit_density, fit_student, stacking_weights


def fitted(x, seed=0):
    return fit_density(sorted_rows(np.asarray(x, dtype=float)), np.random.default_rng(seed))


def test_stacking_weights_maximise_the_left_out_likelihood():
    left_out = np.random.default_rng(2).normal(size=(2, 50))
    best = stacking_weights(left_out)[0]

    def value(w):
        return np.log(w * np.exp(left_out[0]) + (1.0 - w) * np.exp(left_out[1])).sum() + math.log(w)

    assert value(best) >= max(value(w) for w in np.linspace(0.001, 0.999, 999)) - 1e-4
    outlying = np.array([[-50.0] * 50, [0.0] * 50])  # the first keeps a share for outliers
    assert stacking_weights(outlying)[0] == pytest.approx(1.0 / 51.0)


@pytest.mark.parametrize("kind", ["normal", "exponential", "cauchy", "ties", "spikes"])
def test_integrates_to_one_on_the_line(kind):
    rng = np.random.default_rng(2)
    x = {
        "normal": rng.normal(size=200),
        "exponential": rng.exponential(size=200),
        "cauchy": rng.standard_cauchy(200),
        "ties": rng.integers(0, 6, 200) / 3.0,
        "spikes": np.concatenate([rng.normal(0.0, 0.02, 100), rng.normal(5.0, 2.0, 100)]),
    }[kind][:, None]
    u = np.linspace(-8.0, 8.0, 40_001) if kind == "ties" else np.linspace(-30.0, 30.0, 8_001)
    # x = centre + spread sinh(u): fine where rows are, far beyond them
    centre, spread = float(np.median(x)), float(np.subtract(*np.quantile(x, [0.75, 0.25])))
    log_p = fitted(x).log_density(centre + spread * np.sinh(u)[:, None])
    assert np.exp(log_p) @ (spread * np.cosh(u)) * (u[1] - u[0]) == pytest.approx(1.0, abs=0.02)


def test_integrates_to_one_in_the_plane():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 2)) * 0.4 + rng.choice([-1.0, 1.0], size=(200, 2))
    grid = np.linspace(-8.0, 8.0, 161)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    density = fitted(x)
    assert np.exp(density.log_density(points)).sum() * 0.01 == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("E", [1, 8])
def test_units(E):
    rng = np.random.default_rng(4)
    x, new = rng.gamma(2.0, size=(50, E)), rng.gamma(2.0, size=(20, E))
    one, other = fitted(x), fitted(1e3 * x)
    np.testing.assert_allclose(
        other.log_density(1e3 * new), one.log_density(new) - E * math.log(1e3), atol=1e-4
    )


def test_same_rows_same_bits():
    x = np.random.default_rng(5).normal(size=(60, 2))
    assert (fitted(x).log_density(x) == fitted(x).log_density(x)).all()


@pytest.mark.parametrize(("D", "n"), [(1, 300), (2, 300), (5, 500)])
def test_normal_rows_held_out(D, n):
    rng = np.random.default_rng(6)
    x, new = rng.normal(size=(n, D)), rng.normal(size=(2_000, D))
    truth = -0.5 * (new**2).sum(axis=1).mean() - 0.5 * D * math.log(2.0 * math.pi)
    assert fitted(x).log_density(new).mean() > 1.02 * truth


@pytest.mark.parametrize("D", [1, 2])
def test_wild_rows_do_no_harm(D):
    rng = np.random.default_rng(7)
    x, new = rng.normal(size=(200, D)), rng.normal(size=(500, D))
    wild = fitted(np.concatenate([x, np.full((1, D), 1e6)]))
    assert wild.log_density(new).mean() > fitted(x).log_density(new).mean() - 0.1
    cauchy, new = rng.standard_cauchy((300, D)), rng.standard_cauchy((2_000, D))
    truth = -np.log(np.pi * (1.0 + new**2)).sum(axis=1).mean()
    assert fitted(cauchy).log_density(new).mean() > truth - 0.15 * D


@pytest.mark.parametrize(("n", "E"), [(5, 1), (5, 2), (12, 30), (40, 60)])
def test_few_rows(n, E):
    rng = np.random.default_rng(9)
    x, new = rng.normal(size=(n, E)), rng.normal(size=(200, E))
    density = fitted(x)
    truth = -0.5 * (new**2).sum(axis=1).mean() - 0.5 * E * math.log(2.0 * math.pi)
    assert density.log_density(new).mean() > truth - 1.0 - 0.1 * E
    assert np.isfinite(density.log_density(1e6 * new)).all()


def test_columns_that_determine_each_other(monkeypatch):
    """Two thin sheets of other slopes: the Gaussian mixtures follow them, the t does not."""
    rng = np.random.default_rng(10)
    x, new = (
        np.column_stack([r, slope * r + 0.02 * rng.normal(size=len(r))])
        for r, slope in ((rng.normal(size=n), rng.choice([-1.0, 1.0], n)) for n in (300, 1_000))
    )
    each = [-0.5 * (new[:, 0] ** 2 + ((new[:, 1] - slope * new[:, 0]) / 0.02) ** 2) for slope in (-1.0, 1.0)]
    truth = (np.logaddexp(*each) - math.log(2.0 * 2.0 * math.pi * 0.02)).mean()
    density = fitted(x)
    assert density.log_density(new).mean() > truth - 0.3
    monkeypatch.setattr(module, "SIZES", ())
    assert fitted(x).log_density(new).mean() < density.log_density(new).mean() - 0.3
    monkeypatch.undo()
    rows = rng.normal(size=(300, 2)) + 3.0 * rng.integers(0, 2, (300, 1))
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-9.0, 12.0, 421)]), axis=-1).reshape(-1, 2)
    assert np.exp(fitted(rows).log_density(grid)).sum() * 0.05**2 == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("n", "E"), [(5, 3), (300, 65)])
def test_no_mixture_of_too_few_rows_or_too_many_columns(n, E):
    y = np.random.default_rng(0).normal(size=(n, E))
    assert len(list(module._mixture_fits(y, y, fit_student(y)[0]))) == (n == 5)  # one component, at most


def test_far_outliers_leave_the_mixtures_regular():
    rng = np.random.default_rng(13)
    x = np.concatenate([rng.normal(size=(200, 3)), 1e9 * np.ones((2, 3)), -1e12 * np.ones((1, 3))])
    log_p = fitted(x).log_density(np.concatenate([x, 1e15 * np.ones((1, 3))]))
    assert np.isfinite(log_p).all()
    assert log_p[:200].mean() > -4.6


def test_correlated_columns_are_whitened():
    rng = np.random.default_rng(10)
    z, new = rng.normal(size=(200, 3)), rng.normal(size=(500, 3))
    turn = np.array([[1.0, 0.99, 0.0], [0.0, 0.05, 0.0], [0.0, 0.0, 1.0]])
    truth = -0.5 * (new**2).sum(axis=1).mean() - 1.5 * math.log(2.0 * math.pi) - math.log(0.05)
    assert fitted(z @ turn).log_density(new @ turn).mean() > truth - 0.2


def test_many_rows_use_all_of_them(monkeypatch):
    """Weights from a subsample, the t and mixtures from all rows: close to the fit of all."""
    rng = np.random.default_rng(11)
    x, new = rng.gamma(3.0, size=(500, 1)), rng.gamma(3.0, size=(500, 1))
    whole = fitted(x)
    monkeypatch.setattr(module, "ROWS", 200)
    part = fitted(x)
    assert part.log_density(new).mean() == pytest.approx(whole.log_density(new).mean(), abs=0.05)


def test_left_out_student_is_the_student_without_the_row():
    rng = np.random.default_rng(12)
    y = rng.standard_t(3, size=(60, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    student, left = fit_student(y)
    for i in (0, 7, int(np.argmax((y**2).sum(axis=1)))):
        again, _ = fit_student(np.delete(y, i, axis=0))
        assert left[i] == pytest.approx(again.log_density(y[[i]])[0], abs=0.25)
    assert np.mean(left) < student.log_density(y).mean()

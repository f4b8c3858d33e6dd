"""The density: Z, mode, curvature and evidence by brute force; a sampler; laws; hard rows; truth held out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from tests import reference as ref

from kembed.core.ordering import sorted_rows
from kembed.learning import density as module
from kembed.learning.density import features, find_mode, fit_density, spectrum
from kembed.learning.density_base import Edge, Student, Warp, bases, fit_student
from kembed.learning.density_mixture import CAUTION, fit_mixture, learned_share
from kembed.learning.density_rule import integration_rule


def fitted(x, seed=0):
    return fit_density(sorted_rows(np.asarray(x, dtype=float)), np.random.default_rng(seed))


def line_rule(y):
    """Nodes, the base's log mass on them, and the warp of rows on the line."""
    student, _ = fit_student(y)
    warp = Warp(student.centre, 1.0)
    base = bases(y, student.wider(4.0))[0]
    rule = integration_rule(y, (base,), warp, 1.0, np.random.default_rng(0))
    return rule, base.log_density(rule.points) + rule.log_weights, warp


def test_mode_and_evidence_by_brute_force():
    """Two features: Z by adaptive quadrature, the mode by finite differences, the evidence by a grid of w."""
    rows, o, s, n = np.random.default_rng(0).normal(size=15), [0.9], 1.3, 15

    def log_base(x):
        return -0.125 * x * x - math.log(2.0 * math.sqrt(2.0 * math.pi))

    node, weight = np.polynomial.legendre.leggauss(400)
    points = 25.0 * node[:, None]
    logs = np.log(25.0 * weight) + np.array([log_base(x) for x in points[:, 0]])
    psi, at_rows = (features(v, np.array([o])) for v in (points, rows[:, None]))
    mode = find_mode(s * psi, logs, s * at_rows.sum(axis=0), n, np.zeros(2))

    def joint(w):
        return ref.logistic_log_joint(w, rows, log_base, o, s)

    assert mode.log_z == pytest.approx(ref.logistic_log_z(s * mode.w, log_base, o), abs=1e-8)
    h, I = 1e-3, np.eye(2)  # noqa: E741
    gradient = [(joint(mode.w + h * e) - joint(mode.w - h * e)) / (2 * h) for e in I]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-2)  # Newton stops at a decrement of 1e-4 nats
    curvature = np.array(
        [[joint(mode.w + h * (a + b)) - joint(mode.w + h * a) - joint(mode.w + h * b) for b in I] for a in I]
    )
    curvature = -(curvature + joint(mode.w)) / h**2
    constant = sum(log_base(x) for x in rows)
    laplace = joint(mode.w) - 0.5 * np.linalg.slogdet(curvature)[1]
    assert mode.log_evidence + constant == pytest.approx(laplace, abs=5e-3)
    grid = np.linspace(-6.0, 6.0, 121)
    w = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    heights = (
        s * (w @ at_rows.sum(axis=0)) - n * logsumexp(logs + s * (w @ psi.T), axis=1) - 0.5 * (w**2).sum(1)
    )
    exact = logsumexp(heights) + 2.0 * math.log(0.1) - math.log(2.0 * math.pi)
    assert mode.log_evidence == pytest.approx(exact, abs=0.15)  # Laplace's own error


def test_mode_is_near_the_mean_of_a_sampler():
    """Elliptical slice sampling of w: f at the rows, mode against posterior mean, in posterior deviations."""
    rng = np.random.default_rng(1)
    y = np.sort(np.concatenate([rng.normal(-1.5, 0.5, 100), rng.normal(1.5, 0.5, 100)]))[:, None]
    rule, logs, warp = line_rule(y)
    omega, s = spectrum(1.5, 12, 1, rng) / 1.5, 2.0
    psi, at_rows = s * features(warp(rule.points), omega), s * features(warp(y), omega)
    total = at_rows.sum(axis=0)
    mode = find_mode(psi, logs, total, len(y), np.zeros(24))

    def log_likelihood(w):
        log_p = logs + psi @ w
        top = log_p.max()
        return total @ w - len(y) * (top + np.log(np.exp(log_p - top).sum()))

    w, kept = mode.w, []
    height = log_likelihood(w)
    for _ in range(3_000):
        other, bound = rng.normal(size=24), height + np.log(rng.random())
        angle = rng.random() * 2.0 * np.pi
        low, high = angle - 2.0 * np.pi, angle
        while True:
            new = w * np.cos(angle) + other * np.sin(angle)
            height = log_likelihood(new)
            if height > bound:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        w = new
        kept.append(at_rows @ w)
    draws = np.array(kept[500:])
    draws -= draws.mean(axis=1, keepdims=True)  # a constant in f is no matter to p
    found = at_rows @ mode.w
    away = (found - found.mean() - draws.mean(axis=0)) / draws.std(axis=0)
    assert np.sqrt(np.mean(away**2)) < 0.5


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
    assert 0.3 < density.ess < 1.0


@pytest.mark.parametrize("E", [1, 8])
def test_units(E):
    rng = np.random.default_rng(4)
    x, new = rng.gamma(2.0, size=(50, E)), rng.gamma(2.0, size=(20, E))
    one, other = fitted(x), fitted(1e3 * x)
    np.testing.assert_allclose(
        other.log_density(1e3 * new), one.log_density(new) - E * math.log(1e3), atol=1e-4
    )
    assert other.lengthscale == pytest.approx(1e3 * one.lengthscale)
    assert other.log_evidence == pytest.approx(one.log_evidence - 50 * E * math.log(1e3), abs=1e-2)


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


def test_an_edge_is_seen():
    rng = np.random.default_rng(8)
    density = fitted(rng.random((300, 1)))
    inside = density.log_density(np.array([[0.02], [0.5], [0.98]]))
    outside = density.log_density(np.array([[-0.1], [1.1]]))
    assert (np.abs(inside) < 0.4).all()
    assert (outside < -1.5).all()
    base = bases(np.arange(10.0)[:, None], Student(np.zeros(1), np.eye(1), 5.0))
    assert [len(one.edges) for one in base] == [0, 1, 1, 2]
    assert base[1].edges[0] == Edge(0.0, 1.0, 1.0)


@pytest.mark.parametrize(("n", "E"), [(5, 1), (5, 2), (12, 30), (40, 60)])
def test_few_rows(n, E):
    rng = np.random.default_rng(9)
    x, new = rng.normal(size=(n, E)), rng.normal(size=(200, E))
    density = fitted(x)
    truth = -0.5 * (new**2).sum(axis=1).mean() - 0.5 * E * math.log(2.0 * math.pi)
    assert density.log_density(new).mean() > truth - 1.0 - 0.1 * E
    assert np.isfinite([density.log_evidence, density.lengthscale, density.amplitude, density.ess]).all()


def test_columns_that_determine_each_other():
    """Two thin sheets of other slopes: normals follow them, at a share that left-out rows give."""
    rng = np.random.default_rng(10)
    x, new = (
        np.column_stack([r, slope * r + 0.02 * rng.normal(size=len(r))])
        for r, slope in ((rng.normal(size=n), rng.choice([-1.0, 1.0], n)) for n in (300, 1_000))
    )
    each = [-0.5 * (new[:, 0] ** 2 + ((new[:, 1] - slope * new[:, 0]) / 0.02) ** 2) for slope in (-1.0, 1.0)]
    truth = (np.logaddexp(*each) - math.log(2.0 * 2.0 * math.pi * 0.02)).mean()
    density = fitted(x)
    assert density.normals[1] > 0.5
    assert density.log_density(new).mean() > truth - 0.3
    assert replace(density, normals=None).log_density(new).mean() < truth - 0.8
    rows = rng.normal(size=(300, 2)) + 3.0 * rng.integers(0, 2, (300, 1))
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-9.0, 12.0, 421)]), axis=-1).reshape(-1, 2)
    assert np.exp(fitted(rows).log_density(grid)).sum() * 0.05**2 == pytest.approx(1.0, abs=0.02)


def test_mixture_and_its_share_by_loops():
    rng = np.random.default_rng(12)
    y = np.concatenate([rng.normal(size=(60, 2)), 4.0 + 0.3 * rng.normal(size=(60, 2))])
    mixture, share = fit_mixture(y, np.full(120, -4.0))
    assert len(mixture.centres) == 2
    for point in y[:5]:
        total = 0.0
        for log_share, centre, root in zip(*mixture, strict=True):
            covariance = np.linalg.inv(root @ root.T)
            total += math.exp(log_share) * ref._normal_density(point, centre, covariance)
        assert mixture.log_density(point[None])[0] == pytest.approx(math.log(total), abs=1e-9)

    left_out, rivals = rng.normal(size=(2, 50))
    best = learned_share(left_out, rivals)

    def value(w):
        mixed = [
            math.log(w * math.exp(g) + (1 - w) * math.exp(r)) for g, r in zip(left_out, rivals, strict=True)
        ]
        return sum(mixed) + CAUTION * 50 * math.log(1 - w)

    assert value(best) >= max(value(w) for w in np.linspace(0.001, 0.999, 999)) - 1e-4
    assert 0.0 < share < 1.0


@pytest.mark.parametrize(("n", "E"), [(100, 1), (5, 3), (300, 65)])
def test_no_mixture_on_the_line_or_of_too_few_rows(n, E):
    assert fit_mixture(np.random.default_rng(0).normal(size=(n, E)), np.zeros(n)) is None


def test_correlated_columns_are_whitened():
    rng = np.random.default_rng(10)
    z, new = rng.normal(size=(200, 3)), rng.normal(size=(500, 3))
    turn = np.array([[1.0, 0.99, 0.0], [0.0, 0.05, 0.0], [0.0, 0.0, 1.0]])
    truth = -0.5 * (new**2).sum(axis=1).mean() - 1.5 * math.log(2.0 * math.pi) - math.log(0.05)
    assert fitted(z @ turn).log_density(new @ turn).mean() > truth - 0.2


def test_many_rows_use_all_of_them(monkeypatch):
    """Settings from a subsample, modes from all rows: close to the fit of all rows."""
    rng = np.random.default_rng(11)
    x, new = rng.gamma(3.0, size=(500, 1)), rng.gamma(3.0, size=(500, 1))
    whole = fitted(x)
    monkeypatch.setattr(module, "SUBSAMPLE", 200)
    part = fitted(x)
    assert part.log_density(new).mean() == pytest.approx(whole.log_density(new).mean(), abs=0.02)


def test_left_out_student_is_the_student_without_the_row():
    rng = np.random.default_rng(12)
    y = rng.standard_t(3, size=(60, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    student, left = fit_student(y)
    for i in (0, 7, int(np.argmax((y**2).sum(axis=1)))):
        again, _ = fit_student(np.delete(y, i, axis=0))
        assert left[i] == pytest.approx(again.log_density(y[[i]])[0], abs=0.25)
    assert np.mean(left) < student.log_density(y).mean()

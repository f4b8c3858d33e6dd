"""Searching for modes: peaks of a scan, Hessians by differences, Newton steps that are not thrown away."""

import numpy as np
import pytest

from kembed import Gaussian
from kembed.learning.families import Family
from kembed.learning.prepare import Effort, prepare
from kembed.learning.problem import Spec
from kembed.learning.search import local_maxima, local_maximum, minus_hessian, newton_maximum, scan


def test_local_maxima_come_highest_first():
    assert local_maxima(np.array([1.0, 0.0, 2.0, 2.0, 1.0, 3.0])) == [5, 3, 0]
    assert local_maxima(np.array([np.nan, 1.0, -np.inf])) == [1]


def test_hessian_by_differences_also_at_a_bound(rng):
    root = rng.normal(size=(3, 3))
    H = root @ root.T

    def slope(at):
        return -H @ at

    for upper in (np.inf, np.zeros(3)):
        np.testing.assert_allclose(minus_hessian(slope, np.zeros(3), upper), H, rtol=1e-9)


def test_the_last_newton_step_counts():
    """From far away three steps do not converge: the place they end in is the best so far."""
    rng, family, effort = np.random.default_rng(0), Family(Gaussian, "isotropic"), Effort(draws=300)
    spec = Spec(family)
    prepared = prepare(np.sort(rng.normal(size=(60, 1)), axis=0), family, effort, rng)
    scanned = scan(spec, prepared, effort, rng)
    box = spec.bounds(scanned.scales[0], scanned.scales[-1], 1)
    import jax

    with jax.enable_x64(True):
        best = local_maximum(spec, prepared.problem, scanned.starts[int(np.argmax(scanned.values))], box)
        start = best._replace(theta=best.theta - [0.7, 0.0, 0.0])
        found = newton_maximum(spec, prepared.problem, prepared.problem, start, box)
    moved = np.abs(found.theta - start.theta)[0]
    assert moved > 0.4 + 1e-9  # steps are at most 0.2, and there are three
    assert found.value == pytest.approx(best.value, abs=1.0)

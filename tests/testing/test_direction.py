"""Directions that are learned from training halves: against loops, and blind to the test halves."""

import numpy as np
import polars as pl
import pytest

from kembed import Gaussian, Monitor
from kembed.permutation.designs import TwoSamples
from kembed.permutation.reservoir import Binned
from kembed.testing.direction import SHARPNESS, Training, directions, projected, split


def test_directions_are_those_of_a_loop(rng):
    """Two strata: mean differences weighted by precision, then the power that sharpens."""
    subject = np.array([-1, 0, 0, 1, 2])
    training = [Training(rng.random(5) * 9.0, 20.0 + rng.random(5) * 9.0) for _ in range(2)]
    training.append(Training(np.zeros(5), np.ones(5)))  # no batch so far
    difference = np.zeros(5)
    for each in training[:2]:
        n, m = each.recent[0], each.past[0]
        difference += n * m / (n + m) * (each.recent / n - each.past / m)
    found = directions(training, subject, 3)
    for q, inside in enumerate([[1, 2, 3, 4], [1, 2], [3], [4]]):
        largest = max(abs(difference[j]) for j in inside)
        for j in range(5):
            value = (
                np.sign(difference[j]) * (abs(difference[j]) / largest) ** SHARPNESS if j in inside else 0.0
            )
            assert found[j, q] == pytest.approx(value)
    assert (directions(training[2:], subject, 3) == 0.0).all()


def test_halves(rng):
    """Rows in no bin are for training; of 20 rows in bins of two and 6 in none, four rows in bins as well."""
    bins = np.column_stack([np.full(10, 2.0), rng.normal(size=(10, 3))])
    rest = np.array([6.0, *rng.normal(size=3)])
    training, test = split(Binned(bins, rest), np.array([0, 2]))
    assert training[0] == 12.0
    assert len(test.bins) == 7
    assert training + test.bins.sum(axis=0) == pytest.approx((bins.sum(axis=0) + rest)[[0, 2]])
    assert test.rest.tolist() == [0.0, 0.0]
    training, test = split(Binned(bins, 9.0 * rest), np.array([0, 2]))
    assert len(test.bins) == 10


def test_projections_are_differences_of_means(rng):
    table = np.column_stack([np.full(9, 2.0), rng.normal(size=(9, 3))])
    labels = np.repeat([0.0, 1.0], [6, 3])
    draws = TwoSamples(labels, np.zeros(9, dtype=int), np.zeros(9, dtype=int)).draw(table[:, 0], 30, rng)
    found = rng.normal(size=(4, 2))
    found[0] = 0.0
    T = projected(table, draws, found)
    means = table[6:].sum(axis=0) / 6.0 - table[:6].sum(axis=0) / 12.0
    assert T.shape == (31, 2)
    assert T[0] == pytest.approx(means @ found)


def test_what_is_looked_at():
    """Four degrees of numbers, all levels of a category, and pairs; nothing with a kernel of the user's."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {"a": rng.normal(size=80), "c": rng.choice(["u", "v"], 80), "b": rng.normal(size=80)}
    )
    monitor = Monitor(table)
    coordinates = monitor._coordinates
    counts = np.bincount(coordinates.subject[1:])
    names = list(monitor._subjects)
    assert {name: counts[k] for name, k in monitor._subjects.items() if len(name) == 1} == {
        ("a",): 4,
        ("c",): 8,
        ("b",): 4,
    }
    assert {counts[names.index(pair)] for pair in names if len(pair) == 2} == {4}
    assert coordinates.places[0] == 0
    single = Monitor(table.select("a"), kernel=Gaussian(1.0))
    assert single._coordinates is None
    assert [process.share for process in single.state.processes] == [0.5, 0.25, 0.25]
    assert [process.share for process in monitor.state.processes] == [0.25, 0.125, 0.125, 0.5]


def test_the_direction_does_not_see_the_rows_it_is_tested_on(rng):
    """Rows of the test half may change: what is looked for does not."""
    monitor = Monitor(rng.normal(size=(200, 2)))
    monitor.update(rng.normal(size=(40, 2)))
    stratum = monitor.state.strata[""]
    batch = rng.normal(size=(20, 1 + sum(len(m.steps) for m in monitor.specification.fitted.ensemble.maps)))
    batch[:, 0] = 2.0
    other = batch.copy()
    other[10:, 1:] += 1.0
    places = monitor._coordinates.places
    joined = [stratum.joined(Binned(bins, 0.0 * bins[0]), places, 16) for bins in (batch, other)]
    subject, count = monitor._coordinates.subject, len(monitor._subjects)
    found = [directions([each.training], subject, count) for each in joined]
    assert (found[0] == found[1]).all()
    assert found[0].any()

"""Evidence at any time: formulas against loops, laws by enumeration."""

from itertools import product

import numpy as np
import pytest

from kembed.testing.anytime import EXPONENTS, EvidenceProcess, log_e_values


def after(pvalues, size, *, share=1.0, period=1, restarting=False):
    """The process after tests of one hypothesis."""
    process = EvidenceProcess.begun(share, period, restarting, 1)
    for p in pvalues:
        process = process.after(np.array([p]), size)
    return process


@pytest.mark.parametrize("size", [1, 2, 46, 200, 1_000])
def test_e_values_have_mean_1_on_the_grid_and_fall(size):
    e_values = np.exp(log_e_values(np.arange(1, size + 1) / size, size))
    assert e_values.mean(axis=0) == pytest.approx(np.ones(5), rel=1e-12)
    assert (np.diff(e_values, axis=0) < 0.0).all()


def test_e_values_by_hand():
    """Of the grid 1/2, 1 the values of p^(c-1) are 2^(1-c) and 1, for c = .2 1.741 and 1: mean 1.371."""
    found = np.exp(log_e_values(np.array([0.5, 1.0]), 2))[:, list(EXPONENTS).index(0.2)]
    assert found == pytest.approx([1.7411 / 1.37055, 1.0 / 1.37055], rel=1e-4)


def test_evidence_is_that_of_a_loop(rng):
    pvalues, size = rng.integers(1, 21, 7) / 20.0, 20
    e_values = np.exp(log_e_values(pvalues, size))
    mixture, sum_ = 1.0, 0.0
    for j in range(1, len(pvalues) + 1):  # a beginning
        weight = 1.0 / (j * (j + 1))
        products = e_values[j - 1 :].prod(axis=0).mean()
        mixture += weight * (products - 1.0)
        sum_ += products
    found = after(pvalues, size, share=0.25)
    assert np.exp(found.log_evidence[0]) == pytest.approx(0.25 * mixture)
    found = after(pvalues, size, share=0.25, period=4, restarting=True)
    assert np.exp(found.log_evidence[0]) == pytest.approx(0.25 * 4 * sum_)
    products = [e_values[j:].prod(axis=0).mean() for j in range(len(pvalues))]
    value, batch = found.beginning()
    assert (np.exp(value), batch) == (pytest.approx(0.25 * max(products)), 4 * int(np.argmax(products)))


def test_the_probability_of_ever_reaching_a_threshold():
    """Of all sequences of four p-values on a grid of four: the mean is 1 at any time, and Ville's bound."""
    paths = []
    for pvalues in product(np.arange(1, 5) / 4, repeat=4):
        process = EvidenceProcess.begun(1.0, 1, False, 1)
        path = []
        for p in pvalues:
            process = process.after(np.array([p]), 4)
            path.append(np.exp(process.log_evidence[0]))
        paths.append(path)
    assert np.mean(paths, axis=0) == pytest.approx(np.ones(4), rel=1e-12)
    highest = np.sort(np.max(paths, axis=1))
    assert (np.mean(highest[None] >= highest[:, None], axis=1) <= 1.0 / highest + 1e-12).all()
    assert highest[-1] > 2.0  # it can grow


def test_the_sum_over_beginnings_has_the_number_of_tests_as_its_mean():
    sums = [
        np.exp(after(pvalues, 3, restarting=True).log_evidence[0])
        for pvalues in product(np.arange(1, 4) / 3, repeat=5)
    ]
    assert np.mean(sums) == pytest.approx(5.0)


def test_a_late_change_is_found():
    """After 300 tests without a change: p-values of 1/200 are evidence of 20 within six tests."""
    nothing = (np.arange(300) * 77 % 200 + 1) / 200  # a permutation of the grid, again and again
    process = after(nothing, 200)
    assert np.exp(process.log_evidence[0]) < 1.0
    count = 0
    while process.log_evidence[0] < np.log(20.0):
        process, count = process.after(np.array([1 / 200]), 200), count + 1
    assert count <= 6
    assert process.beginning()[1] in (299, 300)  # one p-value of .12 before
    for _ in range(1_000):
        process = process.after(np.array([1 / 200]), 200)
    assert np.isfinite(process.log_evidence[0])

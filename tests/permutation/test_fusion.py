"""Many statistics as one: -log p by a fitted gamma law, against loops, the law itself and by hand."""

import numpy as np
import pytest
from scipy import stats
from tests import reference

from kembed.features.ensemble import Plan
from kembed.permutation.fusion import (
    Fused,
    Values,
    combined,
    fuse,
    log_mean_exp,
    negative_log_p,
)


def skewed(rng, shape=(400, 6)):
    return rng.gamma([0.5, 1.0, 2.0, 5.0, 20.0, 300.0][: shape[1]], size=shape)


@pytest.mark.parametrize("by_others", [False, True])
def test_negative_log_p_against_loops(by_others, rng):
    values = skewed(rng, (40, 5))
    values[:, 4] = -values[:, 1]  # skewed to the left
    values[:, 2:4] = np.where(
        np.arange(40)[:, None] == 3, [50.0, -90.0], values[:, 2:4]
    )  # more than the law allows
    found = negative_log_p(values, by_others=by_others)
    for j in range(5):
        expected = reference.surprise_loops(values[:, j].tolist(), by_others)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-8, atol=1e-10)


def test_negative_log_p_is_the_tail_of_the_gamma_law(rng):
    """Wilson and Hilferty's cube root is within a few per cent of -log p down to p = 1e-6."""
    shape = 3.0
    draws = stats.gamma.ppf((np.arange(20_000) + 0.5) / 20_000, shape)
    for p in (0.5, 0.05, 1e-3, 1e-6):
        values = np.append(draws, stats.gamma.isf(p, shape))[:, None]
        assert negative_log_p(values, by_others=True)[-1, 0] == pytest.approx(-np.log(p), rel=0.05)


def test_units_and_shifts_do_not_matter(rng):
    values = skewed(rng)
    np.testing.assert_allclose(
        negative_log_p(3e7 * values - 5e8), negative_log_p(values), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(negative_log_p(1e-20 * values), negative_log_p(values), rtol=1e-9, atol=1e-11)


def test_the_order_of_values_is_kept(rng):
    values = skewed(rng)
    for by_others in (False, True):
        found = negative_log_p(values, by_others=by_others)
        for j in range(values.shape[1]):
            order = np.argsort(values[:, j])[200 if by_others else 0 :]  # far below, other laws differ more
            assert (np.diff(found[order, j]) > -1e-12).all()


def test_an_outlier_counts_by_the_law_of_the_others(rng):
    values = rng.normal(size=(200, 1))
    values[0] = 40.0
    assert negative_log_p(values)[0, 0] < 12.0
    assert negative_log_p(values, by_others=True)[0, 0] > 100.0


def test_one_value_far_out_leaves_the_others_as_they_were(rng):
    """No law of squares is as skewed as one outlier makes it: the others must not look significant for it."""
    values = rng.chisquare(1, size=(1000, 1))
    before = negative_log_p(values)
    values[0] = 1e4
    for by_others in (False, True):
        found = negative_log_p(values, by_others=by_others)
        assert found[0, 0] > 15.0
        assert found[1:].max() < 1.5
    assert np.quantile(before, 0.95) == pytest.approx(3.0, abs=0.3)


def test_what_does_not_vary_has_p_1():
    values = np.column_stack([np.full(30, 0.1), np.full(30, 1e9) + 1e-9 * np.arange(30), np.arange(30.0)])
    found = negative_log_p(values, np.array([1.0, 1e9, 1.0]))
    assert (found[:, :2] == 0.0).all()
    assert found[:, 2].max() > 2.0
    assert np.isfinite(negative_log_p(values[:, 2:], by_others=True)).all()
    assert negative_log_p(1e-9 * values[:, 2:], 1.0).max() > 2.0
    assert (negative_log_p(np.zeros((30, 1))) == 0.0).all()
    assert (negative_log_p(1e-6 * values[:, 2:], 1e9) == 0.0).all()  # little beside a usual entry
    assert (negative_log_p(1e9 + 1e-6 * values[:, 2:]) == 0.0).all()  # little beside the values themselves


def test_log_mean_exp_by_hand():
    """-log of the harmonic mean of p-values: of .5 and .1 it is 2/(2 + 10), of .02 and .02 it is .02."""
    evidence = -np.log([[0.5, 0.1], [0.02, 0.02]])
    np.testing.assert_allclose(np.exp(-log_mean_exp(evidence)), [1 / 6, 0.02])
    np.testing.assert_allclose(
        np.exp(-log_mean_exp(evidence, np.array([0.75, 0.25]))), [1 / (1.5 + 2.5), 0.02]
    )
    assert log_mean_exp(np.array([[0.0, 2000.0]])) == pytest.approx(
        2000.0 - np.log(2.0)
    )  # exp would be no number


def test_combined_against_loops(rng):
    evidence = rng.exponential(size=(50, 7))
    where = np.array([2, 0, 1, 0, 2, 2, 3])
    found = combined(evidence, where)
    assert found.shape == (50, 4)
    np.testing.assert_array_equal(found[:, 1], evidence[:, 2])  # alone
    np.testing.assert_array_equal(found[:, 3], evidence[:, 6])
    for place, members in ((0, [1, 3]), (2, [0, 4, 5])):
        together = np.log(np.mean(np.exp(evidence[:, members]), axis=1))
        np.testing.assert_allclose(
            found[:, place], negative_log_p(together[:, None])[:, 0], rtol=1e-9, atol=1e-10
        )


def test_numbers_of_families_need_not_begin_at_0(rng):
    evidence = rng.exponential(size=(50, 3))
    np.testing.assert_array_equal(
        combined(evidence, np.array([1, 1, 4])), combined(evidence, np.array([0, 0, 1]))
    )


def test_hundreds_of_kernels_as_one_at_a_time(rng):
    """They are worked on 64 at a time, and nobody sees the seams; -1 is left out."""
    values = rng.gamma(2.0, size=(20, 150))
    others = rng.uniform(size=150) < 0.5
    found = negative_log_p(values, by_others=others)
    for j in (0, 63, 64, 65, 127, 128, 149):
        alone = negative_log_p(values[:, [j]], by_others=bool(others[j]))[:, 0]
        np.testing.assert_allclose(found[:, j], alone, rtol=1e-9, atol=1e-12)
    where = np.concatenate([np.full(70, 1), np.full(50, 0), [-1, -1, 3], np.full(27, 2)])
    together = combined(found, where)
    assert together.shape == (20, 4)
    np.testing.assert_array_equal(together[:, 3], found[:, 122])
    seams = (np.repeat([0, 1, 2], [first, 40, 110 - first]) for first in (63, 65))  # a seam beside each
    for places in (where, *seams):
        together = combined(found, places)
        for number in (0, 1, 2):
            mean = np.exp(found[:, places == number]).mean(axis=1)
            np.testing.assert_allclose(
                together[:, number], negative_log_p(np.log(mean)[:, None])[:, 0], rtol=1e-8, atol=1e-9
            )


def plans(rng):
    J = 9
    values = Values(skewed(rng, (60, 6)) @ rng.uniform(size=(6, J)), np.ones(J))
    return values, Plan(
        np.array([0, 1, 1, 1, 2, 2, 3, 4, 5]), np.array([0, 0, 1, 1, 2, 2]), np.array([1, 0, 1]) > 0
    )


def test_the_data_are_treated_as_any_resample(rng):
    """What makes the test exact: to swap two labelings is to swap their values, and nothing else."""
    values, plan = plans(rng)
    order = rng.permutation(60)
    found = fuse(values, plan)
    turned = fuse(Values(values.statistics[order], values.entry), plan)
    for ours, theirs in zip(found, turned, strict=True):
        np.testing.assert_allclose(theirs, ours[order], rtol=1e-9, atol=1e-11)


def test_fused_against_a_step_at_a_time(rng):
    values, plan = plans(rng)
    found = fuse(values, plan)
    assert isinstance(found, Fused)
    for j in range(9):
        crowded = np.sum(plan.family == plan.family[j]) > 1
        expected = negative_log_p(values.statistics[:, [j]], by_others=crowded)[:, 0]
        np.testing.assert_allclose(found.kernels[:, j], expected, rtol=1e-9)
    np.testing.assert_allclose(found.members, combined(found.kernels, plan.family))
    np.testing.assert_allclose(found.groups, combined(found.members, plan.group))
    added = negative_log_p((found.groups[:, 0] + found.groups[:, 2])[:, None])[:, 0]
    mean = (2 / 3) * np.exp(found.groups).mean(axis=1) + (1 / 3) * np.exp(added)
    np.testing.assert_allclose(found.whole, np.log(mean))


def test_groups_that_count_more(rng):
    values, plan = plans(rng)
    found = fuse(values, plan._replace(weights=np.array([1.0, 4.0, 0.5])))
    groups = fuse(values, plan).groups
    np.testing.assert_array_equal(found.groups, groups)
    added = negative_log_p((groups[:, 0] + groups[:, 2])[:, None])[:, 0]
    mean = (2 / 3) * (np.exp(groups) @ [1.0, 4.0, 0.5]) / 5.5 + (1 / 3) * np.exp(added)
    np.testing.assert_allclose(found.whole, np.log(mean))


def test_one_group_is_not_added_to_itself(rng):
    values, plan = plans(rng)
    for added in ([0, 0, 0], [0, 1, 0]):
        found = fuse(values, plan._replace(added=np.array(added) > 0))
        np.testing.assert_allclose(found.whole, log_mean_exp(found.groups))


def test_one_kernel_is_itself(rng):
    values = Values(rng.normal(size=(30, 1)), np.ones(1))
    found = fuse(values, Plan(np.zeros(1, int), np.zeros(1, int), np.zeros(1, bool)))
    np.testing.assert_array_equal(np.argsort(found.whole), np.argsort(values.statistics[:, 0]))


def test_merged_makes_equal_what_rounding_tells_apart():
    values = Values(np.array([[0.1], [0.1 + 1e-16], [0.3]]), np.array([1.0]))
    assert len(np.unique(values.merged(False).statistics)) == 2
    assert values.merged(True) is values
    apart = Values(np.array([[0.1], [0.1 + 1e-12], [0.3]]), np.array([1.0]))
    np.testing.assert_array_equal(apart.merged(False).statistics, apart.statistics)
    for size in (1e6, 1e-6):  # beside a usual entry
        values = Values(size * np.array([[0.1], [0.1 + 1e-15], [0.1 + 1e-13]]), np.array([size]))
        assert [len(np.unique(each.statistics)) for each in (values, values.merged(False))] == [3, 2]
    for number in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not finite"):
            Values(np.array([[1.0], [number]]), np.array([1.0])).merged(True)


@pytest.mark.parametrize("well_scaled", [True, False])
def test_the_size_of_an_entry_must_be_a_number(well_scaled):
    """A share of it counts as rounding: with an infinite one all statistics would be the same, and p = 1."""
    with pytest.raises(ValueError, match="the statistic is not finite"):
        Values(np.array([[3.0], [1.0], [2.0]]), np.array([np.inf])).merged(well_scaled)

"""The Bayes factor as a member: against loops, under all permutations, and what it does not depend on."""

from itertools import permutations

import numpy as np
import pytest

from kembed import Gaussian, mmd_test
from kembed.features.bayes_factor import SCALES, amplitudes, bayes_factor
from kembed.features.rows import Sample
from kembed.kernels.space import make_space
from kembed.permutation.designs import Given, TwoSamples
from kembed.permutation.sums import member_statistics, pooled


def sample_of_rows(values, **options):
    return Sample(make_space(values, np.zeros(values.shape[1], dtype=bool)), **options)


def log_factors_by_loops(rows, landmarks, labels, lengthscale):
    """The formula of the module, from Nyström's features to the mean over amplitudes, of every scale."""
    N, n = len(rows), int(labels.sum())
    effective = n * (N - n) / N * (N - 1) / N
    found = []
    for scale in SCALES:
        logs = []
        kernel = Gaussian(scale * lengthscale)
        K = np.array([[float(kernel(a, b)) for b in landmarks] for a in landmarks])
        values, vectors = np.linalg.eigh(K)
        kept = values > 1e-10 * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept])
        psi = np.array([[float(kernel(a, b)) for b in landmarks] for a in rows]) @ root
        psi -= psi.mean(axis=0)
        values, axes = np.linalg.eigh(psi.T @ psi / N)
        kept = values > 1e-5 * values.sum()
        phi = psi @ axes[:, kept] / np.sqrt(values[kept])
        z = np.sqrt(effective) * (phi[labels == 1].mean(axis=0) - phi[labels == 0].mean(axis=0))
        for c in amplitudes(effective):
            total = 0.0
            for score, value in zip(z, values[kept], strict=True):
                g = effective * c * value / values[kept].sum()
                total += 0.5 * (score**2 * g / (1.0 + g) - np.log(1.0 + g))
            logs.append(total)
        found.append(np.log(np.mean(np.exp(logs))))
    return found


def test_the_statistic_is_that_of_loops(rng):
    sample = sample_of_rows(rng.normal(size=(24, 2)))
    labels = rng.permutation(np.repeat([1.0, 0.0], [9, 15]))
    member = bayes_factor(sample, 0.8)
    design = TwoSamples(labels, np.zeros(24, dtype=int), np.zeros(24, dtype=int))
    sums = pooled(sample, np.arange(24), 24)
    found = member_statistics((member,), sums, design.draw(sums.weight, 5, rng))[0]
    expected = log_factors_by_loops(sample.space.rows, sample.landmarks, labels, 0.8)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_the_test_reports_the_mean_over_scales(rng):
    result = mmd_test(rng.normal(size=(20, 2)), rng.normal(size=(16, 2)), kernel="bkl", rng=0)
    factors = [np.exp(member.statistic) for member in result.members]
    assert len(factors) == len(SCALES)
    assert result.statistic == pytest.approx(np.log(np.mean(factors)), rel=1e-9)
    assert result.effect_of_kernel == result.statistic
    assert result.kernel == result.members[int(np.argmax(factors))].kernel


def test_scores_have_covariance_one_under_all_permutations(rng):
    sample = sample_of_rows(rng.normal(size=(6, 1)))
    member = bayes_factor(sample, 1.0)
    labels = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    columns = np.array([labels[list(order)] for order in permutations(range(6))]).T
    weights = columns / 2.0 - (1.0 - columns) / 4.0
    table = member.features(sample)
    effective = 2 * 4 / 6 * 5 / 6
    for scores in member.scores(table.T @ weights):
        z = np.sqrt(effective) * scores
        np.testing.assert_allclose(z.mean(axis=1), 0.0, atol=1e-10)
        np.testing.assert_allclose(z @ z.T / z.shape[1], np.eye(len(z)), atol=1e-8)


@pytest.mark.parametrize("kernel", ["bkl", ["bkl", "median"]])
def test_units_order_and_names_of_samples_do_not_matter(kernel, rng):
    x, y = rng.normal(size=(40, 2)), rng.normal([0.6, 0.0], size=(30, 2))
    first = mmd_test(x, y, kernel=kernel, rng=0)
    other = mmd_test(1e6 * x[::-1] + 3.0, 1e6 * y + 3.0, kernel=kernel, rng=0)
    swapped = mmd_test(y, x, kernel=kernel, rng=0)
    assert first.pvalue == other.pvalue == swapped.pvalue
    assert other.statistic == pytest.approx(first.statistic, rel=1e-5)
    assert swapped.statistic == pytest.approx(first.statistic, rel=1e-9)


def test_landmarks_hardly_matter(rng):
    rows = rng.normal(size=(400, 1))
    labels = np.repeat([1.0, 0.0], 200)
    rows[:200] += 0.3
    found = []
    for points in (30, 100):
        sample = sample_of_rows(rows, points=points)
        design = TwoSamples(labels, np.zeros(400, dtype=int), np.zeros(400, dtype=int))
        sums = pooled(sample, np.arange(400), 400)
        draws = design.draw(sums.weight, 1, rng)
        found.append(member_statistics((bayes_factor(sample, 0.5),), sums, draws)[0])
    np.testing.assert_allclose(found[0], found[1], atol=0.1)


def test_rows_that_never_differ_have_a_factor_of_one():
    sample = sample_of_rows(np.ones((10, 1)))
    sums = pooled(sample, np.arange(10), 10)
    weights = np.repeat([0.2, -0.2], 5)[:, None]
    draws = Given(weights).draw(sums.weight, 0, np.random.default_rng(0))
    assert member_statistics((bayes_factor(sample, 1.0),), sums, draws)[0].tolist() == [0.0] * 4


def test_the_word_has_more_power_than_the_plain_statistic_of_its_kernel():
    """One row in ten far out: 10 draws, the same for both statistics."""
    found = {"auto": 0, "unbiased": 0}
    for r in range(10):
        rng = np.random.default_rng([2026, r])
        x, y = rng.normal(size=100), rng.normal(size=100)
        y[rng.random(100) < 0.1] *= 8.0
        for statistic in found:
            result = mmd_test(x, y, kernel="bkl", statistic=statistic, n_resamples=99, rng=r)
            found[statistic] += result.pvalue <= 0.05
    assert found["auto"] >= found["unbiased"] + 3

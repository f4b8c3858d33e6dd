"""Several samples at once: exact, the two-sample test where there are two, and pairs corrected."""

import numpy as np
import polars as pl
import pytest

from kembed import Gaussian, k_sample_test, mmd_test


def test_two_samples_have_the_statistic_of_mmd_test(rng):
    x, y = rng.normal(size=(12, 2)), rng.normal(0.5, size=(9, 2))
    found = k_sample_test(x, y, kernel=Gaussian(1.0), n_resamples=19, rng=0)
    other = mmd_test(x, y, kernel=Gaussian(1.0), n_resamples=19, rng=0)
    assert (found.test.statistic, found.test.pvalue) == (other.statistic, other.pvalue)


def test_statistic_is_a_sum_over_samples(rng):
    samples = [rng.normal(shift, size=(size, 1)) for shift, size in ((0.0, 8), (0.3, 10), (1.0, 7))]
    found = k_sample_test(*samples, kernel=Gaussian(1.0), n_resamples=9, rng=0)
    N, total = 25, 0.0
    for g, own in enumerate(samples):
        rest = np.concatenate([one for k, one in enumerate(samples) if k != g])
        own_test = mmd_test(own, rest, kernel=Gaussian(1.0), statistic="biased", n_resamples=9, rng=0)
        total += len(own) * len(rest) / N**2 * own_test.statistic
    assert found.test.statistic == pytest.approx(total)
    assert found.test.sizes == (8, 10, 7)


def test_the_level_is_exact():
    """P-values of 19 resamples at 5%: 200 tests reject 10 on average, 3 sd are 9.2."""
    rejected = 0
    for trial in range(200):
        rng = np.random.default_rng([5, trial])
        samples = [rng.integers(0, 4, size=(size, 2)).astype(float) for size in (8, 9, 10)]
        rejected += (
            k_sample_test(*samples, kernel=["median", Gaussian(0.5)], n_resamples=19, rng=rng).pvalue <= 0.05
        )
    assert rejected <= 20


def test_pairs_are_corrected(rng):
    a, b, c = rng.normal(size=50), rng.normal(size=50), rng.normal(2.0, size=50)
    found = k_sample_test(a, b, c, labels=("a", "b", "c"), n_resamples=99, rng=0)
    assert found.pvalue == 0.01
    by = {pair.labels: pair for pair in found.pairs}
    assert by["a", "c"].adjusted_pvalue == 0.01  # of three samples not two pairs can be equal
    assert by["a", "b"].adjusted_pvalue > 0.05
    told = found.to_dict()
    assert [pair["samples"] for pair in told["by_pair_of_samples"]] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert "a and c: p = 0.01, for all pairs 0.01" in repr(found)


def test_many_pairs_reach_the_level(rng):
    """66 pairs with 999 resamples each had adjusted p-values of .066 and above, however far apart."""
    samples = [rng.normal(group, 0.1, size=12) for group in range(12)]
    found = k_sample_test(*samples, kernel=Gaussian(1.0), rng=0)
    assert max(pair.adjusted_pvalue for pair in found.pairs) <= 0.05
    assert not any("no pair can reach" in note for note in found.test.notes)


def test_it_says_when_no_pair_can_reach_the_level(rng):
    found = k_sample_test(*(rng.normal(group, 0.1, size=2) for group in range(5)), kernel=Gaussian(1.0))
    (note,) = (note for note in found.test.notes if "no pair can reach" in note)
    assert "6 arrangements at most" in note  # 4 rows, two of either sample


def test_no_pair_is_below_the_test_of_all(rng):
    found = k_sample_test(*rng.normal(size=(6, 20)), kernel=Gaussian(1.0), n_resamples=99, rng=0)
    assert min(pair.adjusted_pvalue for pair in found.pairs) >= found.pvalue


def test_what_it_refuses(rng):
    with pytest.raises(TypeError, match="two or more samples"):
        k_sample_test(rng.normal(size=5))
    with pytest.raises(ValueError, match="labels must be 2 different names"):
        k_sample_test(rng.normal(size=5), rng.normal(size=5), labels=("a", "a"))


def test_samples_may_be_files(rng, tmp_path):
    tables = [pl.DataFrame({"v": rng.normal(k, size=40), "w": rng.normal(size=40)}) for k in range(3)]
    paths = [tmp_path / f"{k}.csv" for k in range(3)]
    for table, path in zip(tables, paths, strict=True):
        table.write_csv(path)
    found, expected = (k_sample_test(*some, n_resamples=99, rng=0) for some in (paths, tables))
    assert found.pvalue == expected.pvalue == 0.01
    assert [pair.pvalue for pair in found.pairs] == [pair.pvalue for pair in expected.pairs]

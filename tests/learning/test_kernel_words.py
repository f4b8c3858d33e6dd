"""`kernel="paper"`: the published method by one word, chosen from the unordered rows of all samples."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from experiments.mixtures import grid_sample

from kembed import Gaussian, Landmarks, compare, conditional_test, hsic_test, learn_kernel, mmd_test, witness
from kembed.kernels.space import make_space
from kembed.learning.kernel_words import PublishedRule, choose_kernel


def space_of(rows):
    return make_space(rows, np.zeros(rows.shape[1], dtype=bool))


def test_it_is_the_published_objective_on_columns_over_their_spreads(rng):
    rows = rng.normal(size=(80, 2)) * [1.0, 50.0]
    space = space_of(rows)
    how = {"objective": "paper", "noise": 1.0, "landmarks": Landmarks("subset")}
    learned = learn_kernel(space.numeric, **how)
    kernel, evidence = choose_kernel("paper", space)
    assert kernel == Gaussian(float(learned.kernel.lengthscale) * space.spread)
    assert evidence.model.objective == "paper"
    assert evidence.peaks[0] == pytest.approx(float(learned.kernel.lengthscale))
    assert choose_kernel(PublishedRule(20), space)[0] != kernel  # it follows the landmarks


def test_it_repeats_figure_2():
    """The paper has 0.85 where the median rule has 20, and rejects at ε = 3 where that does not."""
    x = grid_sample(np.random.default_rng(1), 900, 3.0)
    published, median = (
        mmd_test(x[:900], x[900:], kernel=k, rng=0, n_resamples=99) for k in ("paper", "median")
    )
    assert 0.6 < np.min(published.kernel.lengthscale) < np.max(published.kernel.lengthscale) < 1.3
    assert published.pvalue == 0.01
    assert median.pvalue > 0.05


def test_units_order_and_sides_do_not_matter(rng):
    x, y = rng.normal(size=(40, 1)), rng.normal(size=(30, 1))
    kernel = mmd_test(x, y, kernel="paper", rng=0).kernel
    assert mmd_test(y[::-1], x[rng.permutation(40)], kernel="paper", rng=0).kernel == kernel
    wide = mmd_test(1e3 * x + 7.0, 1e3 * y + 7.0, kernel="paper", rng=0).kernel
    assert wide.lengthscale == pytest.approx(1e3 * kernel.lengthscale, rel=1e-6)


def test_it_is_exact(rng):
    """All 35 ways to take three of seven rows: p-values are ranks."""
    rows = rng.normal(size=(7, 1))
    found = []
    for chosen in combinations(range(7), 3):
        first = np.isin(np.arange(7), chosen)
        found.append(mmd_test(rows[first], rows[~first], kernel="paper", n_resamples=99, rng=0).pvalue)
    found = np.array(found)
    assert all((found <= level).mean() <= level + 1e-12 for level in found)
    assert len(np.unique(found)) > 10


def test_it_goes_where_words_go(rng):
    x, y = rng.normal(size=(60, 1)), rng.normal(1.0, size=(60, 1))
    assert mmd_test(x, y, kernel="paper", statistic="features", rng=0).pvalue < 0.05
    assert witness(x, y, kernel="paper").kernel == mmd_test(x, y, kernel="paper", rng=0).kernel
    assert compare(x, y, kernel="paper", n_resamples=49).differ
    assert 0.0 < conditional_test(x, y, x + y, kernel="paper", rng=0).pvalue <= 1.0
    found = hsic_test(x, x + 0.1 * y, kernel="paper", rng=0, n_resamples=99)
    for kernel, side in zip(found.kernel, (x, x + 0.1 * y), strict=True):
        assert kernel == choose_kernel("paper", space_of(np.sort(side, axis=0)))[0]


def test_categories_and_constant_columns(rng):
    table = pl.DataFrame({"a": rng.normal(size=40), "level": rng.choice(["u", "v"], 40), "same": np.ones(40)})
    assert 0.0 < mmd_test(table[:20], table[20:], kernel="paper", rng=0).pvalue <= 1.0
    words = table.select("level")
    assert 0.0 < mmd_test(words[:20], words[20:], kernel="paper", rng=0).pvalue <= 1.0


def test_dependent_columns_are_refused(rng):
    a = rng.normal(size=(30, 1))
    rows = np.hstack([a, 2.0 * a])
    with pytest.raises(ValueError, match=r"kernel='paper': .*dependent columns.*or give kernel='bkl'"):
        mmd_test(rows[:15], rows[15:], kernel="paper")

"""The effect size: a cross-validated AUC of single rows."""

import numpy as np
import pandas as pd
import pytest

from kembed import Gaussian, compare
from kembed.comparing.auc import classifier_auc


def test_auc_is_a_function_of_the_unordered_samples(rng):
    x, y = rng.normal(size=(90, 3)), rng.normal(0.3, size=(90, 3))
    found = classifier_auc((x, y), Gaussian(1.0))
    assert classifier_auc((y, x), Gaussian(1.0)) == found
    assert classifier_auc((x[::-1], rng.permutation(y)), Gaussian(1.0)) == found


def test_auc_of_two_normals(rng):
    x, y = rng.normal(size=(1_000, 1)), rng.normal(1.0, size=(1_000, 1))
    # P{X < Y} = Φ(1/√2) = .7602; the standard error of 1,000 + 1,000 rows is .011
    auc, (low, high) = classifier_auc((x, y), Gaussian(2.0))
    assert auc == pytest.approx(0.760, abs=0.03)
    assert low < 0.76 < high


def test_auc_is_judged_on_other_rows(rng):
    x, y = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
    assert abs(classifier_auc((x, y), Gaussian(0.3)).auc - 0.5) < 0.08  # its own rows would give almost 1


def test_equal_rows_are_ties():
    x = np.full((37, 3), [0.1, 0.7, 1.3])
    assert classifier_auc((x, x[:23]), Gaussian(0.3)).auc == 0.5


def test_a_classifier_finds_what_no_column_shows(rng):
    """XOR among noise: the best classifier has an AUC of .9, and that of the witness alone was about .55."""
    x, y = rng.normal(size=(400, 8)), rng.normal(size=(400, 8))
    for part, sign in ((x, 1.0), (y, -1.0)):
        flip = sign * part[:, 0] * part[:, 1] < 0.0
        part[flip & (rng.random(400) < 0.9), 1] *= -1.0
    found = compare(x, y, n_resamples=19, alpha=0.1)
    assert found.auc > 0.8
    assert found.auc_interval[0] > 0.75


def test_it_is_no_less_than_the_best_column(rng):
    """One column of 30 decides, the others are noise; and a category of many levels decides."""
    x, y = rng.normal(size=(60, 30)), rng.normal(size=(60, 30))
    y[:, 7] += 2.5
    found = compare(x, y, n_resamples=19, alpha=0.1)
    best = max(max(column.auc, 1.0 - column.auc) for column in found.columns)
    assert found.auc >= best > 0.9
    levels = rng.permutation(300)
    x, y = (
        pd.DataFrame({"village": [f"v{k}" for k in rng.choice(half, 600)]}) for half in np.split(levels, 2)
    )
    assert compare(x, y, n_resamples=19, alpha=0.1).auc > 0.95


def test_the_verdict_names_the_auc_and_its_interval(rng):
    found = compare(rng.normal(size=400), rng.normal(1.2, size=400), n_resamples=19, alpha=0.1)
    low, high = found.auc_interval
    assert f"AUC at least {found.auc:.2f} (95% CI {low:.2f}-{high:.2f})" in found.verdict


def test_folds_respect_clusters():
    """Rows of a cluster share its numbers, and clusters of one sample differ as those of both do.

    A classifier that sees other rows of a cluster recognises it: the AUC was .9 without `unit`.
    """
    rng = np.random.default_rng(0)
    tables = [np.repeat(rng.normal(size=(30, 3)), 10, axis=0) for _ in range(2)]
    x, y = (
        pd.DataFrame(rows + 0.05 * rng.normal(size=rows.shape)).assign(
            village=[f"{name}{k // 10}" for k in range(300)]
        )
        for rows, name in zip(tables, "ab", strict=True)
    )
    found = compare(x, y, unit="village", n_resamples=99)
    assert "village" not in [column.name for column in found.columns]
    assert not found.differ
    low, high = found.auc_interval
    assert low < 0.5 < high
    assert abs(found.auc - 0.5) < 0.25
    assert high - low > 0.2  # 30 clusters of either sample; of 300 rows it would be .09
    rows = compare(x.drop(columns="village"), y.drop(columns="village"), n_resamples=99)
    assert rows.auc > 0.8
    one = (np.repeat(np.arange(30), 10),) * 2
    assert (
        compare(x.drop(columns="village"), y.drop(columns="village"), unit=one, n_resamples=99).test.pvalue
        == found.test.pvalue
    )

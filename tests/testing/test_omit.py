"""Rows with missing values under nan_policy="omit": the same answers as after dropping them."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from kembed import DriftDetector, Sketch, hsic_test, mmd_test


def table(seed, rows, gaps=0.0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 2))
    values[rng.random(rows) < gaps, 1] = np.nan
    return values


def frame(values):
    return pl.DataFrame(values, schema=["a", "b"]).fill_nan(None)


def dropped(values):
    return values[~np.isnan(values).any(axis=1)]


def mapped(values, path):
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def as_lazy(values, path):
    return frame(values).lazy()


def as_file(values, path):
    frame(values).write_csv(path.with_suffix(".csv"))
    return path.with_suffix(".csv")


KINDS = {"lazy": as_lazy, "file": as_file, "memmap": mapped}
HOW = {"kernel": "median", "n_resamples": 99, "rng": 0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, 3])
def test_samples_with_gaps_are_tested_as_their_complete_rows(kind, unit, tmp_path):
    x, y = table(1, 5_000, 0.1), table(2, 800, 0.3)
    given = [KINDS[kind](values, tmp_path / f"{k}.npy") for k, values in enumerate((x, y))]
    found = mmd_test(*given, nan_policy="omit", unit=unit, **HOW)
    arrays = (dropped(x), dropped(y)) if unit is None else (x, y)  # a unit is three rows as they were given
    expected = mmd_test(*arrays, statistic="features", unit=unit, nan_policy="omit", **HOW)
    assert (found.sizes, found.bins) == (expected.sizes, expected.bins)
    assert found.pvalue == expected.pvalue
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)


@pytest.mark.parametrize("kind", ["memory", *KINDS])
def test_a_sketch_of_rows_with_gaps_is_that_of_the_complete_rows(kind, tmp_path):
    x, y = table(1, 2_700, 0.1), table(2, 400, 0.3)
    kinds = {"memory": lambda values, path: values, **KINDS}
    reference, new = (kinds[kind](values, tmp_path / f"{k}.npy") for k, values in enumerate((x, y)))
    sketch = Sketch.of(reference, kernel="median", nan_policy="omit")
    assert sketch.rows + sketch.specification.rows == len(dropped(x))
    expected = mmd_test(Sketch.of(dropped(x), kernel="median"), dropped(y), n_resamples=99, rng=0)
    found = mmd_test(sketch, new, n_resamples=99, rng=0, nan_policy="omit")
    assert (found.sizes, found.bins, found.pvalue) == (expected.sizes, expected.bins, expected.pvalue)
    saved = Sketch.load(sketch.save(tmp_path / "a.kembed"))
    assert mmd_test(saved, new, n_resamples=99, rng=0, nan_policy="omit").pvalue == found.pvalue


def test_a_drift_detector_that_omits_rows_keeps_its_level():
    detector = DriftDetector(n_resamples=99, nan_policy="omit", random_state=0).fit(table(1, 20_000))
    alarms = sum(detector.predict(table(100 + k, 400, 0.3)) for k in range(8))
    assert alarms <= binom.isf(1e-3, 8, 0.05)  # 3; it was 8 when bins held incomplete rows


def test_a_lazy_sample_with_gaps_keeps_the_level():
    how = {"nan_policy": "omit", "n_resamples": 99}
    pairs = [(frame(table(2 * k, 5_000)).lazy(), frame(table(2 * k + 1, 500, 0.3)).lazy()) for k in range(8)]
    rejected = sum(mmd_test(x, y, rng=k, **how).pvalue <= 0.05 for k, (x, y) in enumerate(pairs))
    assert rejected <= binom.isf(1e-3, 8, 0.05)  # 3; it was 5 when bins held incomplete rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [60, 3_000])
def test_pairs_with_gaps_are_dropped_as_pairs(kind, rows, tmp_path):
    x = table(1, rows)
    y = x + 0.3 * table(2, rows) + 0.1
    x[::7, 0], y[::5, 1] = np.nan, np.nan
    given = [KINDS[kind](values, tmp_path / f"{k}.npy") for k, values in enumerate((x, y))]
    found = mmd_test(*given, paired=True, nan_policy="omit", **HOW)
    expected = mmd_test(x, y, paired=True, nan_policy="omit", **HOW)
    assert (found.sizes, found.pvalue) == (expected.sizes, expected.pvalue)
    assert found.pvalue < 0.05
    with pytest.raises(ValueError, match="but they are paired"):
        mmd_test(given[0], y[:-1], paired=True, nan_policy="omit")


@pytest.mark.parametrize("kind", KINDS)
def test_sides_with_gaps_stay_paired(kind, tmp_path):
    x = table(1, 200)
    y = x + 0.5 * table(2, 200)
    x[::7, 0], y[::5, 1] = np.nan, np.nan
    given = [KINDS[kind](values, tmp_path / f"{k}.npy") for k, values in enumerate((x, y))]
    found, expected = (hsic_test(*pair, nan_policy="omit", **HOW) for pair in (given, (x, y)))
    assert (found.sizes, found.pvalue) == (expected.sizes, expected.pvalue)

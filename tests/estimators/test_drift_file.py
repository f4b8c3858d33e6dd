"""Detectors in files: they answer as before, and damage is reported."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kembed import DriftDetector, Gaussian
from kembed.core.store import FileError
from kembed.estimators.drift import KEPT, MANY


def frame(rng, rows, kind=pl.DataFrame):
    return kind({"v": rng.normal(size=rows), "town": rng.choice(["Oslo", "Rome"], rows)})


def typed(rng, rows):
    """Columns whose types a file must keep: moments, times of day, durations, integer categories, flags."""
    days = pd.Timestamp("2026-01-05 06:07:08") + pd.to_timedelta(rng.integers(0, 90, rows), "D")
    return {
        "day": days,
        "zoned": days.tz_localize("Europe/Rome"),
        "wait": pd.to_timedelta(rng.integers(1, 9, rows), "min"),
        "site": pd.Categorical(rng.choice([3, 5, 11], rows)),
        "late": rng.choice([True, False], rows),
        "v": rng.normal(size=rows),
    }


REFERENCES = {
    "dict": lambda rng, rows: {"v": rng.normal(size=rows), "w": rng.normal(size=rows)},
    "types": lambda rng, rows: pd.DataFrame(typed(rng, rows)),
    "dict of types": typed,
    "polars types": lambda rng, rows: pl.DataFrame(
        {k: v for k, v in typed(rng, rows).items() if k != "site"}
    ).with_columns(hour=pl.col("day").dt.time(), date=pl.col("day").dt.date()),
    "array": lambda rng, rows: rng.normal(size=(rows, 2)),
    "polars": frame,
    "pandas": lambda rng, rows: frame(rng, rows, pd.DataFrame),
    "objects": lambda rng, rows: np.array(frame(rng, rows).rows(), dtype=object),
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_loaded_detector_answers_as_before(kind, rng, tmp_path):
    make = REFERENCES[kind]
    detector = DriftDetector(n_resamples=99, alpha=0.1, random_state=0).fit(make(rng, 120))
    loaded = DriftDetector.load(detector.save(tmp_path / "a.detector"))
    batch = make(rng, 40)
    assert loaded.pvalue(batch) == detector.pvalue(batch)
    assert loaded.get_params() == detector.get_params()
    for name in ("n_features_in_", "feature_names_in_"):  # a dict has neither
        assert np.array_equal(getattr(loaded, name, None), getattr(detector, name, None))
    columns = [found.test(batch, by_column=True).columns for found in (loaded, detector)]
    assert [each.name for each in columns[0]] == [each.name for each in columns[1]]
    assert detector.sketch_ is None


def test_many_rows_are_kept_as_a_sketch(rng, tmp_path):
    x = rng.normal(size=(MANY, 1))
    detector = DriftDetector(kernel=Gaussian(1.0), n_resamples=99, random_state=0).fit(x)
    assert detector.sketch_.rows == MANY - 4_096
    loaded = DriftDetector.load(detector.save(tmp_path / "a.detector"))
    assert loaded.reference_ is None
    for shift in (0.0, 0.5):
        batch = rng.normal(size=(200, 1)) + shift
        assert loaded.pvalue(batch) == detector.pvalue(batch)
        assert loaded.predict(batch) == (shift > 0.0)
    assert loaded.test(batch, by_column=True).columns[0].adjusted_pvalue == 0.01
    found = loaded.compare(batch)
    assert found.test.pvalue == loaded.pvalue(batch) == detector.compare(batch).test.pvalue
    assert found.test.sizes == (15_904, 200)
    assert found.witness.sizes == (KEPT, 200)
    assert [region.sign for region in loaded.witness(batch).where()] == [1, -1]
    assert (tmp_path / "a.detector").stat().st_size < 5_000_000


def test_missing_values_are_left_out_before_and_after(rng, tmp_path):
    x = rng.normal(size=(100, 2))
    x[:5, 0] = np.nan
    detector = DriftDetector(nan_policy="omit", n_resamples=99, random_state=0).fit(x)
    loaded = DriftDetector.load(detector.save(tmp_path / "a.detector"))
    assert loaded.pvalue(x[:40] + 1.0) == detector.pvalue(x[:40] + 1.0)


def test_what_is_no_detector(rng, tmp_path):
    path = tmp_path / "a.detector"
    detector = DriftDetector(n_resamples=19).fit(rng.normal(size=(50, 1)))
    whole = detector.save(path).read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(FileError, match=r"a\.detector is damaged or incomplete; make"):
        DriftDetector.load(path)
    detector.set_params(random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"random_state=.* cannot be written"):
        detector.save(path)
    detector.set_params(random_state=0, kernel=lambda a, b: a @ b.T)
    with pytest.raises(TypeError, match="cannot be written to a file"):
        detector.save(path)
    assert path.read_bytes() == whole[:-3]


def test_a_dict_keeps_its_names(rng, tmp_path):
    """The columns of a later batch are matched by name, in whatever order they come."""
    detector = DriftDetector(n_resamples=99, random_state=0)
    detector.fit({"v": rng.normal(size=60), "w": rng.normal(5.0, size=60)})
    loaded = DriftDetector.load(detector.save(tmp_path / "a.detector"))
    batch = {"w": rng.normal(5.0, size=40), "v": rng.normal(size=40)}
    assert loaded.pvalue(batch) == detector.pvalue(batch) > 0.05

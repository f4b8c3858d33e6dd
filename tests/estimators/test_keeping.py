"""Detectors in files: they answer as before, and damage is told."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kembed import DriftDetector, Gaussian
from kembed.core.packing import FileError
from kembed.estimators.drift import MANY


def frame(rng, rows, kind=pl.DataFrame):
    return kind({"v": rng.normal(size=rows), "town": rng.choice(["Oslo", "Rome"], rows)})


REFERENCES = {
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
    assert loaded.n_features_in_ == 2
    assert list(getattr(loaded, "feature_names_in_", [])) == list(getattr(detector, "feature_names_in_", []))
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
    for ask in (loaded.witness, loaded.compare):
        with pytest.raises(ValueError, match=r"sketch of 15,904 rows .* fit it on the reference again"):
            ask(batch)
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
    with pytest.raises(FileError, match=r"a\.detector is not whole"):
        DriftDetector.load(path)
    detector.set_params(random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"random_state=.* cannot be written"):
        detector.save(path)
    detector.set_params(random_state=0, kernel=lambda a, b: a @ b.T)
    with pytest.raises(TypeError, match="cannot be written to a file"):
        detector.save(path)
    assert path.read_bytes() == whole[:-3]

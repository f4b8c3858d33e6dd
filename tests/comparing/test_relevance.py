"""Which columns the difference is in: sensitivity, tests, a column by itself."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests import reference

from kembed import learn_kernel, witness
from kembed.comparing.difference import balanced_rows

POINTS = np.linspace(-2.0, 3.0, 7)


def test_sensitivity_against_loops(plane):
    x, y = plane
    w = witness(x[:30], y[:20], kernel="median")
    rows = balanced_rows((x[:30], y[:20]), 1_000, w.seed)
    other = np.random.default_rng(w.seed).choice(50, 50, p=np.repeat([0.5 / 30, 0.5 / 20], [30, 20]))
    share = np.repeat([0.5 / 30, 0.5 / 20], [30, 20])
    slow = [
        reference.total_sobol(lambda s: w.difference.mean(s[None])[0], rows, other, d, share) for d in (0, 1)
    ]
    np.testing.assert_allclose(w.sensitivity, np.minimum(slow, 1.0), rtol=1e-8)


def test_the_column_that_differs_is_found(of_plane):
    first, second = of_plane.relevance
    assert first.name == "column 1"
    assert first.adjusted_pvalue == 0.001
    assert first.sensitivity > 0.8 > 0.2 > second.sensitivity
    assert second.pvalue > 0.05


def test_a_constant_column_is_irrelevant(plane, of_plane):
    x, y = (np.column_stack([part, np.full(len(part), 7.0)]) for part in plane)
    w = witness(x, y, kernel="median")
    assert w.sensitivity[2] == 0.0
    assert w.column_tests[2].pvalue == 1.0
    np.testing.assert_allclose(w.at([[0.0, 0.0, 7.0]]).mean, of_plane.at([[0.0, 0.0]]).mean, atol=1e-9)


def test_a_column_by_itself(plane, of_plane):
    x, y = plane
    alone = of_plane.column("column 1")
    direct = witness(x[:, 1], y[:, 1])
    assert alone.names == ("column 1",)
    np.testing.assert_allclose(alone.at(POINTS).mean, direct.at(POINTS).mean, atol=1e-9)
    assert alone.learned.unit == ""  # of one column: its own
    assert alone.learned.range == pytest.approx(np.ptp(np.r_[x[:, 1], y[:, 1]]))
    assert of_plane.column(1).names == ("column 1",)
    with pytest.raises(
        ValueError, match="name must be one of 'column 0', 'column 1', or a place from 0, but 'column 7'"
    ):
        of_plane.column("column 7")


def test_the_evidence_of_a_learned_kernel_is_kept(plane):
    x, y = (rows[:, 1] for rows in plane)
    learned = learn_kernel(np.concatenate([x, y]))
    for given in (learned, [learned]):
        w = witness(x, y, kernel=given)
        assert w.kernel == learned.kernel
        assert w.learned.unit == ""  # the user's own
        assert w.learned.peaks[0] == pytest.approx(learned.kernel.lengthscale)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_with_text(mixed, frame):
    w = witness(*map(frame, mixed), kernel="median")
    first, second = w.relevance
    assert (first.name, second.name) == ("c", "v")
    levels = w.column("c").at([["a"], ["b"], ["c"]]).mean
    assert levels[0] < 0.0 < levels[2]


def test_fewer_rows_than_columns(rng):
    x, y = rng.normal(size=(4, 12)), rng.normal(size=(5, 12)) + 3.0
    w = witness(x, y, kernel="median")
    assert (w.at(x).mean > 0.0).all()
    assert (w.at(y).mean < 0.0).all()

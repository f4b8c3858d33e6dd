"""What the tests of both tests share: the same answer, a kernel as a function, data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist

from kembed.permutation.low_rank import member_pairs

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def gaussian(a, b):
    return np.exp(-0.5 * cdist(a, b, "sqeuclidean"))


def same(a, b):
    """The same answer: p to the last bit, the statistic to rounding."""
    assert a.pvalue == b.pvalue
    assert a.statistic == pytest.approx(b.statistic, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(a.null_distribution, b.null_distribution, rtol=1e-9, atol=1e-12)
    assert a.enumerated == b.enumerated


def all_have(words, text):
    for word in words:
        assert word in text, text


def matrices(members):
    """Every kernel of every member as a matrix."""
    parts = [member_pairs(part) for part in members]
    every = np.arange(parts[0].size)
    return [matrix for part in parts for matrix in part.rectangles(every, every)]

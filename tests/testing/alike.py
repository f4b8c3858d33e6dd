"""What the tests of both tests share: the same answer, a kernel as a function, data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist

from kembed.features.members import FeatureMember, Named, dense

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def gaussian(a, b):
    return np.exp(-0.5 * cdist(a, b, "sqeuclidean"))


def table_kernel(K):
    """A kernel of row numbers that has this matrix."""
    return lambda a, b: K[np.ix_(a[:, 0].astype(int), b[:, 0].astype(int))]


def same(a, b):
    """The same answer: p to the last bit, the statistic to rounding."""
    assert a.pvalue == b.pvalue
    assert a.statistic == pytest.approx(b.statistic, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(a.null_distribution, b.null_distribution, rtol=1e-9, atol=1e-12)
    assert a.enumerated == b.enumerated


def all_have(words, text):
    for word in words:
        assert word in text, text


def matrices(members, rows):
    """Every kernel of every member as a matrix over these rows."""
    return [matrix for member in members for matrix in _matrices(member, rows)]


def _matrices(member, rows):
    if not isinstance(member, FeatureMember):
        return [dense(member.entries)[np.ix_(rows.index, rows.index)]]
    table = member.of(rows)
    starts = range(0, table.shape[1], member.width)
    parts = [table[:, start : start + cut] for start in starts for cut in member.cuts]
    return [part @ part.T for part in parts]


def objects(result):
    """Members that are kernel objects, as text: others are called after the column that is loudest."""
    kernels = (member.kernel for member in result.members)
    pairs = (kernel if isinstance(kernel, tuple) else (kernel,) for kernel in kernels)
    return [repr(pair) for pair in pairs if not any(isinstance(part, Named) for part in pair)]

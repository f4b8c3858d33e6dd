"""What the tests of both tests share: the same answer, a kernel as a function, data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist

from kembed.permutation.blocks import Blocks
from kembed.permutation.low_rank import member_pairs
from kembed.testing.members.group import Named

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
    return [matrix for member in members for matrix in _matrices(member)]


def _matrices(member):
    if isinstance(member, Blocks) and member.count > 1:
        starts = range(0, member.columns.shape[1], member.width)
        parts = [member.columns[:, start : start + cut] for start in starts for cut in member.cuts]
        return [part @ part.T for part in parts]
    if hasattr(member, "alone"):  # leaves and neighbours of several sizes
        return matrices(member.alone)
    every = np.arange(member.size)
    return member_pairs(member).rectangles(every, every)


def objects(result):
    """Members that are kernel objects, as text: others are called after the column that is loudest."""
    kernels = (member.kernel for member in result.members)
    pairs = (kernel if isinstance(kernel, tuple) else (kernel,) for kernel in kernels)
    return [repr(pair) for pair in pairs if not any(isinstance(part, Named) for part in pair)]

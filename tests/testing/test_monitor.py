"""Monitors: false alarms at any time, changes that are found, states that come back."""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from tests.testing.alike import all_have

from kembed import Gaussian, Monitor, Sketch, mmd_test
from kembed.core.store import FileError
from kembed.permutation.designs import Draws, contrasts
from kembed.permutation.reservoir import Binned, Stream, pooled
from kembed.testing.monitor_file import _tables
from kembed.testing.stream import bin_batch

KERNEL = Gaussian(1.0)  # of tests of the level, which holds for all kernels: a few milliseconds a batch


def batches(monitor, draw, count, start=0):
    """The monitor after so many batches."""
    for k in range(start, start + count):
        monitor.update(draw(k))
    return monitor


def mixed(rng, n, shift=0.0, new=0.0, day="Mon"):
    """A table of numbers and text, of which a share has a level that is not in the reference."""
    status = rng.choice(["ok", "retry", "fail"], n, p=[0.8, 0.15, 0.05]).astype(object)
    status[rng.random(n) < new] = "unknown"
    load = rng.normal(shift, 1.0, n)
    columns = {"load": load, "heat": load + rng.normal(size=n), "status": status.tolist()}
    return pl.DataFrame(columns | {"weekday": [day] * n})


def refused(words, call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    all_have(words, str(caught.value))


# Exactness.


@pytest.mark.parametrize("fixed", [False, True])
def test_pvalues_of_successive_batches_are_uniform_and_independent(rng, fixed):
    """Of all orders of five rows: three of the reference, then two batches. Not with a fixed reference."""
    monitor = Monitor(rng.normal(size=(40, 1)), kernel=KERNEL)
    monitor.update(rng.normal(size=(9, 1)))  # so that bins are single rows
    source, names, _ = monitor._read(rng.normal(size=(5, 1)))
    rows = bin_batch(source, names, monitor.state.strata, monitor.specification, "row", rng)[""].bins
    found = Counter()
    for order in permutations(range(5)):
        table = rows[list(order)]
        first, second = (Binned(table[[k]], 0.0 * table[0]) for k in (3, 4))
        stream = Stream.begun(Binned(table[:3], 0.0 * table[0]), 1, rng)
        p, size = monitor._test([stream.joined(first)], None, rng)
        later = stream if fixed else stream.joined(first).absorbed(rng)
        q, other = monitor._test([later.joined(second)], None, rng)
        found[round(p[0] * size), round(q[0] * other)] += 1
    if fixed:
        assert max(found.values()) > 8
    else:
        assert found == {(j, k): 6 for j in range(1, 5) for k in range(1, 6)}


def test_bins_that_change_sides_are_rows_that_do(rng):
    """The statistic of exchanged labels is that of exchanged bins."""
    monitor = Monitor(rng.normal(size=(200, 2)))
    monitor.update(rng.normal(size=(64, 2)))
    source, names, _ = monitor._read(rng.normal(size=(64, 2)) + 0.5)
    block = bin_batch(source, names, monitor.state.strata, monitor.specification, "row", rng)[""]
    past = monitor.state.strata[""].streams[0].past

    def statistics(past, block, swap):
        table, design = pooled([Stream(past, block, block.bins[:0], 1)])
        labels, exchanged = design.labels.copy(), [3, len(past.bins) + 1 + 2]
        if swap:
            labels[exchanged] = labels[exchanged[::-1]]
        W = contrasts(labels[:, None], table[:, 0], design.strata)
        return monitor._values(table, Draws(((1.0, W),))).statistics

    relabelled = statistics(past, block, True)
    one, other = past.bins.copy(), block.bins.copy()
    one[3], other[2] = block.bins[2], past.bins[3]
    exchanged = statistics(Binned(one, past.rest), Binned(other, block.rest), False)
    assert relabelled == pytest.approx(exchanged, rel=1e-9, abs=1e-13)


# The level. A single kernel on few rows: the laws hold for all.


def null_pvalues(streams, count, *, fixed=False):
    """P-values of streams without a change: 100 rows, then batches of 40."""
    found = []
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        monitor = Monitor(rng.normal(size=(100, 1)), kernel=KERNEL, n_resamples=99, rng=seed)
        for k in range(count):
            monitor.update(rng.normal(size=(40, 1)))
            if k == 0:
                first = monitor.state.strata
            if fixed:  # what is compared with stays the reference, and the first batch
                monitor.state = monitor.state._replace(strata=first)
        found.append(monitor.state.processes[0].pvalues)
    return np.array(found)


def test_null_pvalues_are_uniform_and_independent():
    """Of 30 streams of 40 batches: 1,200 p-values. Those against a fixed reference share its error."""
    p, control = null_pvalues(30, 40), null_pvalues(30, 40, fixed=True)

    def of_means(p):
        """The variance of the mean of a stream, of independent ones 1 with an s.e. of √(2/29) = .26."""
        return p.mean(axis=1).var(ddof=1) * p.shape[1] * 12.0

    assert abs(p.mean() - 0.505) < 4.0 * 0.289 / np.sqrt(p.size)
    for level in (0.05, 0.2, 0.5, 0.8):
        assert abs((p <= level).mean() - level) < 4.0 * np.sqrt(level * (1.0 - level) / p.size)
    lagged = np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]
    assert abs(lagged) < 4.0 / np.sqrt(p[:, 1:].size)
    assert of_means(p) < 1.0 + 4.0 * 0.26
    assert of_means(control) > 1.0 + 8.0 * 0.26

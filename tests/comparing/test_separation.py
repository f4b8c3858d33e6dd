"""The effect size: an AUC, counted over pairs, on rows that the witness has not seen."""

import numpy as np
import pytest
from tests import reference

from kembed import Gaussian
from kembed.comparing.summaries import separation


def test_separation_counts_pairs(rng):
    """Against a loop over all pairs of either half, where many rows are tied."""
    k = Gaussian(1.0)
    samples = [rng.integers(low, low + 5, (size, 1)).astype(float) for low, size in ((0, 12), (1, 9))]
    found = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        rows = [np.sort(part, axis=0)[generator.permutation(len(part))] for part in samples]
        halves = []
        for fold in (0, 1):
            x, y = (part[1 - fold :: 2] for part in rows)
            judged = [part[fold::2] for part in rows]
            w = [k.gram(part, x).mean(axis=1) - k.gram(part, y).mean(axis=1) for part in judged]
            halves.append(reference.superiority(*w))
        found.append(np.mean(halves))
        assert separation(tuple(samples), k, seed) == pytest.approx(found[-1], rel=1e-12)
    assert len(set(found)) > 3


def test_separation_of_two_normals(rng):
    x, y = rng.normal(size=(2_000, 1)), rng.normal(1.0, size=(2_000, 1))
    # P{X < Y} = Φ(1/√2) = .7602; the standard error of 2,000 + 2,000 rows is below .01
    assert separation((x, y), Gaussian(2.0), 0) == pytest.approx(0.760, abs=0.025)


def test_separation_is_judged_on_other_rows(rng):
    x, y = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
    assert abs(separation((x, y), Gaussian(0.3), 0) - 0.5) < 0.08  # its own rows would give almost 1

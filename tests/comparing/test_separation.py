"""The effect size: an AUC, counted over pairs, on rows that the witness has not seen."""

import numpy as np
import pytest
from tests import reference

from kembed import Gaussian
from kembed.comparing.separation import SPLITS, separation


def test_separation_counts_pairs(rng):
    """Against a loop over all pairs of either half of every split, where many rows are tied."""
    k = Gaussian(1.0)
    x = rng.integers(0, 5, (12, 1)).astype(float)
    y = rng.integers(1, 6, (9, 1)).astype(float)
    seen = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        rows = [np.sort(part, axis=0) for part in (y, x)]  # the smaller sample comes first
        for part in rows:
            generator.permutation(len(part))  # all of them are used
        halves = [[generator.permutation(len(part)) % 2 for _ in range(SPLITS)] for part in rows]
        found = []
        for split in range(SPLITS):
            for judge in (0, 1):
                fitted = [part[half[split] == judge] for part, half in zip(rows, halves, strict=True)]
                judged = [part[half[split] != judge] for part, half in zip(rows, halves, strict=True)]
                w = [
                    k.gram(part, fitted[0]).mean(axis=1) - k.gram(part, fitted[1]).mean(axis=1)
                    for part in judged
                ]
                found.append(reference.superiority(*w))
        seen.append(separation((x, y), k, seed))
        assert seen[-1] == pytest.approx(np.mean(found), rel=1e-12)
    assert len(set(seen)) > 2


def test_separation_is_a_function_of_the_unordered_samples(rng):
    x, y = rng.normal(size=(90, 3)), rng.normal(0.3, size=(90, 3))
    found = separation((x, y), Gaussian(1.0), 0)
    assert separation((y, x), Gaussian(1.0), 0) == found
    assert separation((x[::-1], rng.permutation(y)), Gaussian(1.0), 0) == found


def test_separation_of_two_normals(rng):
    x, y = rng.normal(size=(2_000, 1)), rng.normal(1.0, size=(2_000, 1))
    # P{X < Y} = Φ(1/√2) = .7602; the standard error of 1,000 + 1,000 rows is .011
    assert separation((x, y), Gaussian(2.0), 0) == pytest.approx(0.760, abs=0.03)


def test_separation_is_judged_on_other_rows(rng):
    x, y = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
    assert abs(separation((x, y), Gaussian(0.3), 0) - 0.5) < 0.08  # its own rows would give almost 1

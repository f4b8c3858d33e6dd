"""Dyadic bins: bins of every size for samples that come later."""

import numpy as np
import pytest

from kembed.permutation.bins import MOST
from kembed.permutation.dyadic import (
    CAP,
    FEW,
    DyadicBins,
    common_power,
    dyadic_powers,
    merge_bins,
    unions,
)

SIZES = [1, 17, CAP - 1, CAP, CAP + 1, CAP + 2, 3 * CAP + 5, 4 * CAP, 1_000, 12_345]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("held_out", [0, 13])
def test_every_row_is_in_one_bin_of_its_size(size, held_out):
    bins = DyadicBins(size + held_out, held_out, key=5)
    own, place = bins.of(0, size + held_out)
    powers = bins.powers
    counts = np.bincount(own, minlength=bins.count)
    assert len(counts) == len(powers) + 2
    assert counts[-1] == held_out
    assert ((own == bins.count - 1) == (place < 0)).all()
    counts = counts[:-1]
    assert (counts[:-1] == 2**powers).all()
    assert counts.sum() == size
    assert (np.diff(powers) >= 0).all()
    assert counts[-1] < 2 ** (powers[-1] + 1)  # what is left over would fill no further bin


def test_blocks_do_not_matter():
    bins = DyadicBins(5_000, 100, key=1)
    parts = [bins.of(first, min(333, 5_000 - first))[0] for first in range(0, 5_000, 333)]
    assert (np.concatenate(parts) == bins.of(0, 5_000)[0]).all()


@pytest.mark.parametrize("size", SIZES)
def test_unions_every_size_are_full(size):
    powers = dyadic_powers(size)
    for power in range(int(powers.max()) + 1):
        own = unions(powers, power)
        rows = np.bincount(own[own >= 0], (2**powers)[own >= 0])
        assert (rows == 2**power).all()
        # As many as there could be, but for one that ends within a larger bin.
        assert min(CAP, size // 2**power) - 1 <= len(rows) <= CAP


def test_larger_bins_are_unions_of_smaller_ones():
    powers = dyadic_powers(4_321)
    for power in range(1, int(powers.max()) + 1):
        small, large = unions(powers, power - 1), unions(powers, power)
        for number in range(large.max() + 1):
            inside = np.unique(small[large == number])
            assert len(inside) == 2 or inside.tolist() == [-1]


def test_the_size_of_a_bin():
    powers = dyadic_powers(10**6)
    for rows in (2, FEW - 1, FEW, 500, 5_000, 200_000, 10**7):
        power = common_power([rows, powers])
        assert common_power([powers, rows]) == power
        ours, theirs = min(rows >> power, MOST), unions(powers, power).max() + 1
        assert theirs >= FEW
        assert ours >= min(FEW, rows)
        assert power == 0 or rows > 10**6 / 2 or ours < 2 * FEW


def test_merged_bins_hold_all_rows(rng):
    one, other = dyadic_powers(3_000), dyadic_powers(700)
    powers = np.concatenate([one, other])
    order = np.argsort(powers, kind="stable")
    table = np.column_stack([2.0**powers, rng.integers(0, 1_000, len(powers))])[order]
    found, kept, left = merge_bins(powers[order], table)
    assert (kept[:, 0] == 2**found).all()
    assert (np.diff(found) >= 0).all()
    assert (kept.sum(axis=0) + left == table.sum(axis=0)).all()
    for power in range(int(found.max()) + 1):
        count = unions(found, power).max() + 1
        both = sum(unions(each, power).max(initial=-1) + 1 for each in (one, other))
        assert min(both, CAP) - 1 <= count <= CAP

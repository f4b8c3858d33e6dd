"""Groups of members: the laws that every group of a fused test keeps."""

import numpy as np
import pytest
from tests.testing.alike import matrices

from kembed.data.space import make_space
from kembed.testing.members import GROUPS, fused_meetings, fused_members
from kembed.testing.members.rows import read_scales


def continuous(rng):
    return make_space(rng.normal(size=(24, 2)), np.array([False, False]))


def tied(rng):
    return make_space(rng.integers(0, 3, (24, 2)).astype(float), np.array([False, False]))


def mixed(rng):
    return make_space(np.column_stack([rng.normal(size=24), rng.integers(0, 3, 24)]), np.array([False, True]))


def constant(rng):
    return make_space(np.full((24, 1), 0.3), np.array([False]))


SPACES = [continuous, tied, mixed, constant]


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("group", GROUPS)
def test_every_kernel_has_a_name_and_a_share(group, make, rng):
    rows = read_scales(make(rng), None, rng)
    for found in (group.two_sample(rows), group.side(rows)):
        assert len(matrices(found.members)) == len(found.kernels) == len(found.shares)
        assert (found.shares > 0.0).all()
    np.testing.assert_array_equal(group.MEET.sum(axis=1), found.shares)
    np.testing.assert_array_equal(group.MEET, group.MEET.T)  # neither side is the first


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("group", GROUPS)
def test_members_are_positive_definite_and_functions_of_the_unordered_rows(group, make, rng):
    space = make(rng)
    order = rng.permutation(24)
    turned = make_space(space.values[order], space.categorical)
    for way in (group.two_sample, group.side):
        first, other = (way(read_scales(each, None, rng)) for each in (space, turned))
        assert repr(first.kernels) == repr(other.kernels)
        np.testing.assert_array_equal(first.shares, other.shares)
        for ours, theirs in zip(matrices(first.members), matrices(other.members), strict=True):
            np.testing.assert_allclose(theirs, ours[np.ix_(order, order)], rtol=1e-7, atol=1e-9)
            H = np.eye(24) - 1 / 24  # a kernel may be served less a constant
            assert np.linalg.eigvalsh(H @ ours @ H).min() > -1e-9


def test_a_fused_test_has_every_group(rng):
    rows = read_scales(continuous(rng), None, rng)
    parts = [group.side(rows) for group in GROUPS]
    whole = fused_members(rows, side=True)
    assert repr(whole.kernels) == repr(tuple(kernel for part in parts for kernel in part.kernels))
    assert whole.shares.sum() == pytest.approx(1.0)
    meet = fused_meetings()
    assert meet.shape == (len(whole.kernels),) * 2
    np.testing.assert_allclose(meet.sum(axis=1) / meet.sum(), whole.shares)


@pytest.mark.parametrize("group", GROUPS)
def test_random_features_stand_for_the_same_kernels(group, rng):
    """4,000 features are off by about 1/√2,000 an entry; what is of low rank anyway stays as it is."""
    space = continuous(rng)
    exact, rough = (group.two_sample(read_scales(space, count, rng)) for count in (None, 4_000))
    assert repr(exact.kernels) == repr(rough.kernels)
    H = np.eye(24) - 1 / 24
    for ours, theirs in zip(matrices(exact.members), matrices(rough.members), strict=True):
        np.testing.assert_allclose(H @ theirs @ H, H @ ours @ H, atol=5 / np.sqrt(2_000))

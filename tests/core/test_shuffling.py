"""A permutation that is never written out."""

import numpy as np
import pytest

from kembed.core.shuffling import shuffled


@pytest.mark.parametrize("size", [1, 2, 3, 10, 64, 65, 1000, 4097])
def test_the_network_is_a_permutation(size):
    for key in (0, 1, 2**61):
        places = shuffled(np.arange(size), size, key)
        np.testing.assert_array_equal(np.sort(places), np.arange(size))


def test_a_number_goes_where_it_goes_whatever_comes_with_it():
    whole = shuffled(np.arange(1000), 1000, 5)
    np.testing.assert_array_equal(shuffled(np.arange(400, 420), 1000, 5), whole[400:420])
    assert (shuffled(np.arange(1000), 1000, 6) != whole).mean() > 0.99


def test_the_network_mixes():
    """Where neighbours go is as good as drawn: the correlation of 20,000 pairs is below 4 standard errors."""
    place = shuffled(np.arange(20_000), 20_000, 3)
    assert abs(np.corrcoef(place[:-1], place[1:])[0, 1]) < 4 / np.sqrt(20_000)
    assert abs(np.corrcoef(place, np.arange(20_000))[0, 1]) < 4 / np.sqrt(20_000)

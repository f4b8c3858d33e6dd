import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kembed
from kembed.core.threads import THREADS, one_thread


def threads() -> int:
    """Of the BLAS of NumPy, and of whatever else is loaded: the largest number."""
    return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")


@pytest.fixture
def two(monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(2):
        if threads() < 2:
            pytest.skip("this BLAS has one thread")
        yield monkeypatch


@pytest.mark.parametrize(("rows", "inside"), [(100, 1), (5_000, 1), (5_001, 2), (None, 2)])
def test_few_rows_have_one_thread_and_then_all_are_back(two, rows, inside):
    with one_thread(rows):
        assert threads() == inside
    assert threads() == 2


def test_a_number_of_threads_that_was_set_stays(two):
    two.setenv(THREADS[0], "2")
    with one_thread(100):
        assert threads() == 2


def test_a_search_among_few_rows_takes_one_thread(two):
    seen = set()

    def ranks(x, y, given):
        seen.add(threads())
        return 0.5

    kembed.pc(np.random.default_rng(0).normal(size=(50, 3)), test=ranks)
    assert seen == {1}
    assert threads() == 2

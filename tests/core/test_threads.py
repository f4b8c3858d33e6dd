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


X, Y, Z = np.random.default_rng(0).normal(size=(3, 40, 1))
CALLS = {
    "mmd_test": lambda: kembed.mmd_test(X, Y, n_resamples=19),
    "k_sample_test": lambda: kembed.k_sample_test(X, Y, Z, n_resamples=19),
    "hsic_test": lambda: kembed.hsic_test(X, Y, n_resamples=19),
    "hsic_test of columns": lambda: kembed.hsic_test("x", "y", data={"x": X[:, 0], "y": Y[:, 0]}),
    "conditional_test": lambda: kembed.conditional_test(X, Y, Z, n_resamples=19),
    "compare": lambda: kembed.compare(X, Y, n_resamples=19, alpha=0.1),
    "witness": lambda: kembed.witness(X, Y),
    "learn_kernel": lambda: kembed.learn_kernel(X),
    "fit_embedding": lambda: kembed.fit_embedding(X, kembed.Gaussian(1.0)),
    "shrinkage": lambda: kembed.shrinkage(X, kembed.Gaussian(1.0)),
    "drift": lambda: kembed.DriftDetector(n_resamples=19).fit(X).test(Y),
    "bags": lambda: kembed.MeanEmbedding(kembed.Gaussian(1.0)).fit_transform([X, Y]),
}


@pytest.mark.parametrize("call", CALLS)
def test_public_functions_of_few_rows_take_one_thread(two, call):
    """Asked wherever floating-point errors are handled, which all of them do where they compute."""
    CALLS[call]()  # imports
    seen, usual = set(), np.errstate.__enter__

    class Spy(np.errstate):
        def __enter__(self):
            seen.add(threads())
            return usual(self)

    two.setattr(np, "errstate", Spy)
    CALLS[call]()
    assert threads() == 2
    assert seen == {1}

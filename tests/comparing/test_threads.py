"""No number depends on how many threads the BLAS has, beyond the last digits of a sum."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kembed

# Threads add the same products in another order. What that rounding grows to, as a share of the largest
# value: nothing, but where smooth kernels at hundreds of landmarks make a matrix nearly singular (2e-7 seen).
ROUNDING, NEARLY_SINGULAR = 1e-10, 1e-5


def threads_of_blas():
    return max((one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"), default=0)


def with_threads(count, what):
    with threadpool_limits(count, user_api="blas"):
        if threads_of_blas() != count:
            pytest.skip(f"this BLAS does not take {count} threads")
        return what()


@pytest.fixture(autouse=True)
def as_many_as_set(monkeypatch):
    """Whoever sets a number of threads has it for few rows too."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)), rng.normal(0.3, 1.2, size=(150, 3)), rng.normal(size=(20, 3))


def embedding(x, y, points):
    posterior = kembed.fit_embedding(x, kembed.Gaussian(1.5))
    return posterior.mean(points), *posterior.interval(points, 0.9)


def learned(x, y, points):
    return (np.atleast_1d(kembed.learn_kernel(x, rng=0).kernel.lengthscale),)


def witness(x, y, points):
    found = kembed.witness(x, y, kernel=kembed.Gaussian(1.5)).at(points)
    return found.mean, found.lower, found.upper, found.simultaneous_lower, found.simultaneous_upper


def resampled(x, y, points):
    outcome = kembed.mmd_test(x, y, kernel="median", n_resamples=199, rng=0)
    return np.array([outcome.statistic, outcome.pvalue]), outcome.null_distribution


SAID = {
    "embedding": (embedding, ROUNDING),
    "kernel": (learned, ROUNDING),
    "witness": (witness, NEARLY_SINGULAR),
    "test": (resampled, ROUNDING),
}


@pytest.mark.parametrize("name", SAID)
def test_one_thread_and_two_say_the_same(samples, name):
    what, tolerance = SAID[name]
    one, two = (with_threads(count, lambda: what(*samples)) for count in (1, 2))
    for alone, together in zip(one, two, strict=True):
        np.testing.assert_allclose(together, alone, rtol=0.0, atol=tolerance * np.abs(alone).max())

"""The other packages, timed in an environment of their own: run by `speed.py`, not by hand.

Reads a job name from the command line, prints one line of JSON. Imports nothing of ours.
"""

import json
import sys
import time

import numpy as np

SEED, B = 2026, 999


def two_samples(n=1_000, D=10, shift=0.0):
    rng = np.random.default_rng(SEED)
    return rng.normal(size=(n, D)), rng.normal(size=(n, D)) + shift


def clock(run, repeats=1):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def dcor_energy():
    import dcor

    x, y = two_samples()
    dcor.homogeneity.energy_test(x[:50], y[:50], num_resamples=9, random_state=0)  # compile
    return clock(lambda: dcor.homogeneity.energy_test(x, y, num_resamples=B, random_state=0))


def dcor_dcov(n):
    import dcor

    x, y = two_samples(n)
    dcor.independence.distance_covariance_test(x[:50], y[:50], num_resamples=9, random_state=0)
    # Every permutation costs the same; the larger table is timed on fewer and scaled.
    used = B if n <= 1_000 else 49
    run = dcor.independence.distance_covariance_test
    return clock(lambda: run(x, y, num_resamples=used, random_state=0)) * (B + 1) / (used + 1)


def frouros():
    from frouros.callbacks import PermutationTestDistanceBased
    from frouros.detectors.data_drift import MMD

    x, y = two_samples()

    def run():
        callback = PermutationTestDistanceBased(num_permutations=B, num_jobs=2, random_state=0, name="test")
        detector = MMD(callbacks=[callback])
        detector.fit(X=x)
        detector.compare(X=y)

    return clock(run)


def hyppo():
    from hyppo.ksample import MMD

    x, y = two_samples()
    used = 49  # scaled: the whole takes minutes
    return clock(lambda: MMD().test(x, y, reps=used, workers=2, auto=False)) * (B + 1) / (used + 1)


JOBS = {
    "dcor_energy": dcor_energy,
    "dcor_dcov_1000": lambda: dcor_dcov(1_000),
    "dcor_dcov_5000": lambda: dcor_dcov(5_000),
    "frouros": frouros,
    "hyppo": hyppo,
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]]()))

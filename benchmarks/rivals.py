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


def agreement():
    """dcor's energy distance and squared distance covariance, for comparison digit by digit."""
    import dcor

    x, y = two_samples(200, 3, shift=0.2)
    return [float(dcor.energy_distance(x, y)), float(dcor.distance_covariance_sqr(x, x + y))]


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


def goodpoints_curve():
    """Time and power of the compressed test over its compression level."""
    from goodpoints.ctt import ctt

    points = []
    for n in (1_024, 4_096):
        for g in (0, 2, 4):
            rejected, times = [], []
            for r in range(100):
                rng = np.random.default_rng([SEED, n, r])
                x, y = rng.normal(size=(n, 10)), rng.normal(size=(n, 10))
                y[:, 0] += SHIFT[n]
                lam = float(np.sqrt(2.0) * MEDIAN)
                start = time.perf_counter()
                result = ctt(x, y, g, B=39, lam=lam, null_seed=r, statistic_seed=r)
                times.append(time.perf_counter() - start)
                rejected.append(bool(result.rejects))
            points.append([n, f"goodpoints ctt g={g}", float(np.median(times)), float(np.mean(rejected))])
    return points


SHIFT = {1_024: 0.22, 4_096: 0.11}
MEDIAN = 4.4  # the median distance of N(0, I_10), near enough
JOBS = {
    "dcor_energy": dcor_energy,
    "dcor_dcov_1000": lambda: dcor_dcov(1_000),
    "dcor_dcov_5000": lambda: dcor_dcov(5_000),
    "agreement": agreement,
    "frouros": frouros,
    "hyppo": hyppo,
    "goodpoints": goodpoints_curve,
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]]()))

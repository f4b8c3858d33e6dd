"""How often conditional tests of unrelated series reject with `memory=`: `python -m benchmarks.memory`.

Three autoregressive series that know nothing of each other; x against y given z at the 5% level. Arguments:
repetitions and rows, 200 and 200 unless given.
"""

import sys

import numpy as np

from kembed import conditional_test

STRENGTHS, MEMORIES = (0.85, 0.5), (None, 5.0, 10.0, 20.0)


def series(rng: np.random.Generator, n: int, strength: float) -> np.ndarray:
    x = rng.normal(size=n)
    x[0] /= np.sqrt(1.0 - strength**2)
    for t in range(1, n):
        x[t] += strength * x[t - 1]
    return x


def rejected(repetitions: int, n: int, strength: float, memory: float | None) -> float:
    found = []
    for repetition in range(repetitions):
        rng = np.random.default_rng([repetition, int(100 * strength)])
        x, y, z = (series(rng, n, strength) for _ in range(3))
        how = {"kernel": "median", "n_resamples": 99, "rng": repetition}
        found.append(conditional_test(x, y, z, memory=memory, **how).pvalue <= 0.05)
    return float(np.mean(found))


def main(repetitions: int = 200, n: int = 200) -> None:
    for strength in STRENGTHS:
        for memory in MEMORIES:
            share = rejected(repetitions, n, strength, memory)
            error = np.sqrt(share * (1.0 - share) / repetitions)
            print(
                f"{n} rows, strength {strength}, memory {memory}: {share:.3f} (s.e. {error:.3f})", flush=True
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

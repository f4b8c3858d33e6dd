"""Adjusted p-values: how often any equal column, or any equal pair of samples, is called different at 5%."""

import numpy as np

from kembed import Gaussian, k_sample_test, mmd_test

SEED, LEVEL, REPETITIONS, RESAMPLES = 11, 0.05, 400, 99


def _share(count: int) -> str:
    share = count / REPETITIONS
    return f"{share:.3f} ({np.sqrt(share * (1 - share) / REPETITIONS):.3f})"


def columns(shift: float) -> tuple[int, int]:
    """Of six columns the first may differ: how often one of the others, and the test of all, is below 5%."""
    wrong = found = 0
    for number in range(REPETITIONS):
        rng = np.random.default_rng([SEED, number])
        x, y = rng.normal(size=(2, 40, 6))
        y[:, 0] += shift
        result = mmd_test(x, y, kernel="median", by_column=True, n_resamples=RESAMPLES, rng=rng)
        assert min(column.adjusted_pvalue for column in result.columns) >= result.pvalue
        wrong += min(column.adjusted_pvalue for column in result.columns[shift != 0.0 :]) <= LEVEL
        found += result.pvalue <= LEVEL
    return wrong, found


def levels() -> int:
    """A category of 60 levels, by itself."""
    rejected = 0
    for number in range(REPETITIONS):
        rng = np.random.default_rng([SEED, 1, number])
        x, y = ([[f"level {code}"] for code in rng.integers(60, size=100)] for _ in range(2))
        (column,) = mmd_test(x, y, by_column=True, n_resamples=RESAMPLES, rng=rng).columns or ()
        rejected += column.adjusted_pvalue <= LEVEL
    return rejected


def samples(shift: float) -> int:
    """Of five samples the last two may be shifted: how often an equal pair is called different."""
    wrong = 0
    for number in range(REPETITIONS):
        rng = np.random.default_rng([SEED, 2, number])
        every = rng.normal(size=(5, 20))
        every[3:] += shift
        found = k_sample_test(*every, labels="abcde", kernel=Gaussian(1.0), n_resamples=199, rng=rng)
        equal = [
            pair for pair in found.pairs if (pair.labels[0] in "de") == (pair.labels[1] in "de") or not shift
        ]
        wrong += min(pair.adjusted_pvalue for pair in equal) <= LEVEL
    return wrong


def main() -> None:
    print("| what | any false rejection at .05 (s.e.) |")
    print("|---|---|")
    for shift in (0.0, 0.6):
        wrong, found = columns(shift)
        print(
            f"| six columns, the first shifted by {shift} | {_share(wrong)} (test of all: {_share(found)}) |"
        )
    print(f"| a category of 60 levels | {_share(levels())} |")
    for shift in (0.0, 1.0):
        print(f"| five samples, the last two shifted by {shift} | {_share(samples(shift))} |", flush=True)


if __name__ == "__main__":
    main()

